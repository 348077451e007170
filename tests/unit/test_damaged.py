"""Tests of damaged, repeated, foreign, oversized and malformed results and sources: each is refused with its place."""

from __future__ import annotations

import io
import json
import re
import struct
import subprocess
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from conftest import ROOT
from maieutic.config.limits import Limits
from maieutic.core.errors import UserError
from maieutic.core.records import (
    NO_REPLY,
    SCORINGS,
    Grade,
    Item,
    Judgement,
    Reply,
    Turn,
    Verdict,
    read_records,
    write_records,
)
from maieutic.datasets.sources import read_source
from maieutic.judges.assignments import work_on_replies
from maieutic.judges.grading import GradeVerdicts, grade_verdicts
from maieutic.people.labels import read_human_labels
from maieutic.preparation import pictures
from maieutic.replies import parsing
from maieutic.replies.parsing import ParseReplies, parse_replies
from maieutic.scores.differences import CompareTutors, compare_tutors
from maieutic.scores.score import ScoreReplies, score_replies

TASK = "problem_solving"
Lines = list[dict[str, Any]]


def items_in(folder: Path, task: str = TASK) -> Path:
    """Write three items of a task; return the folder of items."""
    items = [
        Item(id=f"i{n}", task=task, cluster=f"c{n}", vars={"question": "?"}, reference={"answer": "4"})
        for n in range(3)
    ]
    write_records(folder / f"items/{task}.jsonl", items)
    return folder / "items"


def reply(number: int, tutor: str = "t", text: str = "4") -> dict[str, Any]:
    turns = [Turn(messages="m", text=text)]
    return Reply(id=f"i{number}", task=TASK, tutor=tutor, key="k", turns=turns).model_dump(mode="json")


def verdict(number: int, tutor: str = "t", value: str = "Yes") -> dict[str, Any]:
    verdicts = [Verdict(criterion="Mistake_Identification", value=value)]
    judgement = Judgement(
        id=f"i{number}", task=TASK, tutor=tutor, rubric="mrbench_taxonomy", key="k", verdicts=verdicts, raw=""
    )
    return judgement.model_dump(mode="json")


def grade(number: int, by: str | None = None, correct: bool = True) -> dict[str, Any]:
    kind = "answer" if by is None else "judge"
    result = Grade(id=f"i{number}", task=TASK, kind=kind, by=by, scoring="robust", value=4, correct=correct, raw="")
    return result.model_dump(mode="json")


def parse(folder: Path, file: Path) -> None:
    job = ParseReplies(tutor="t", benchmark="mathtutorbench", tasks=[TASK])
    parse_replies(job=job, items=folder / "items", replies=file, out=folder / "out.jsonl")


def judge(folder: Path, file: Path) -> None:
    from maieutic.config.cards import CARDS, read_card
    from maieutic.config.models import JudgeModel

    entry = JudgeModel.model_validate({"engine": "judge", "model": "m", "rubrics": ["mrbench_taxonomy"]})
    work_on_replies(entry, [read_card(CARDS / f"mathtutorbench/{TASK}.yaml").card], folder / "items", [file])


def grade_file(folder: Path, file: Path) -> None:
    grade_verdicts(
        job=GradeVerdicts(judge="j", tutor="t"), verdicts=file, items=folder / "items", out=folder / "out.jsonl"
    )


def score(folder: Path, file: Path) -> None:
    job = ScoreReplies(benchmark="mathtutorbench", tutor="t", tasks=[TASK], resamples=100, seed=1)
    score_replies(job=job, items=folder / "items", grades=[file], out=folder / "out.json")


READERS: dict[
    str, tuple[Callable[[Path, Path], None], Callable[..., dict[str, Any]], dict[str, Any], dict[str, Any]]
] = {
    # reader, maker of a record, changes that contradict the record, changes that make it another job's
    "replies, by parsers": (parse, reply, {"text": "5"}, {"tutor": "u"}),
    "replies, by judges": (judge, reply, {"text": "5"}, {"tutor": "u"}),
    "verdicts": (grade_file, verdict, {"value": "No"}, {}),
    "grades": (score, grade, {"correct": False}, {"by": "another"}),
}


def test_an_item_without_a_reply_is_named_by_its_file(tmp_path: Path) -> None:
    items_in(tmp_path)
    file = tmp_path / "replies.jsonl"
    file.write_text("".join(json.dumps(reply(number)) + "\n" for number in (0, 2)))
    with pytest.raises(UserError) as error:
        parse(tmp_path, file)
    assert error.value.line == f"{file}: found no reply to {TASK}/i1. Fix: delete this file and run again"


def test_each_parser_of_a_card_reads_every_reply_that_is_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Judges among a card's graders are left out, and so are replies that a recorded tutor lacks."""
    items_in(tmp_path)
    card = SimpleNamespace(card=SimpleNamespace(task=TASK, graders=["answer", "judge", "corrected_answer"]))
    monkeypatch.setattr(parsing, "load_cards", lambda *args: [card])
    file = tmp_path / "replies.jsonl"
    lines = [reply(0), {**reply(1), "turns": [], "error": NO_REPLY}, reply(2)]
    file.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    parse(tmp_path, file)
    grades = [(grade.kind, grade.id, grade.scoring) for grade in read_records(tmp_path / "out.jsonl", Grade)]
    expected = {(k, i, s) for k in ("answer", "corrected_answer") for i in ("i0", "i2") for s in SCORINGS}
    assert len(grades) == len(expected) and set(grades) == expected


def test_tutors_are_not_compared_by_the_grades_of_another_grader(tmp_path: Path) -> None:
    items, file = items_in(tmp_path), tmp_path / "lines.jsonl"
    job = CompareTutors(
        benchmark="mathtutorbench", tutors=["t"], tasks=[TASK], absent=[], resamples=100, seed=1, judging={TASK: ["j"]}
    )
    file.write_text(json.dumps(grade(0)) + "\n" + json.dumps(grade(1, by="another")) + "\n")
    with pytest.raises(UserError, match=r"expected by None, found 'another'"):
        compare_tutors(job=job, items=items, grades=[file], out=tmp_path / "out.json")


@pytest.mark.parametrize("name", READERS)
def test_damaged_lines_are_refused_by_name(name: str, tmp_path: Path) -> None:
    read, make_record, other, foreign = READERS[name]
    items_in(tmp_path)
    file = tmp_path / "lines.jsonl"

    def refusal(lines: Lines) -> str:
        file.write_text("".join(json.dumps(record) + "\n" for record in lines), encoding="utf-8")
        with pytest.raises(UserError) as error:
            read(tmp_path, file)
        assert "delete this file and run again" in error.value.line and "\n" not in error.value.lines
        return error.value.line

    whole = [make_record(0), make_record(1), make_record(2)]
    assert f"{file}:4: the line repeats line 2, the {type_of(make_record)} record of" in refusal(
        [*whole, make_record(1)]
    )
    assert f"{file}:3: the line contradicts line 2" in refusal(
        [make_record(0), make_record(1), make_record(1, **other)]
    )
    assert re.search(
        rf"{file}:4: found the \w+ record of .*'i9'.*, but {TASK} has no such item", refusal([*whole, make_record(9)])
    )
    assert f"{file}:2: the line is not a valid {type_of(make_record)} record" in refusal([make_record(0), {"id": 1}])
    if foreign:
        assert f"{file}:3: expected " in refusal([make_record(0), make_record(1), make_record(2, **foreign)])


def type_of(make_record: Callable[..., dict[str, Any]]) -> str:
    return {reply: "Reply", verdict: "Judgement", grade: "Grade"}[make_record]


ODD_SOURCES = {
    "number beyond a float": ('{"a": 1e400}', "the number 1e400 is beyond the range of a float"),
    "negative one": ('{"a": [-1e999]}', "the number -1e999 is beyond"),
    "not a number": ('{"a": NaN}', "the number NaN"),
    "infinity": ('{"a": -Infinity}', "the number -Infinity"),
    "integer of 5,000 digits": ('{"a": ' + "9" * 5000 + "}", "expected a JSON record, but parsing failed"),
    "nested": ('{"a": ' + "[" * 70 + "]" * 70 + "}", "nested more deeply than limits.source_depth. Fix: raise limits.source_depth (at most 500)"),
    "nested between others": ('{"a": ' + "[[0]," * 70 + "1" + "]" * 70 + "}", "nested more deeply than limits.source_depth. Fix: raise limits.source_depth (at most 500)"),
    "nested beyond a parser": ('{"a": ' + "[" * 200_000 + "]" * 200_000 + "}", "levels deep. Fix: raise limits.source_depth (at most 500)"),
    "NUL": ('{"a": "\0"}', "expected a JSON record, but parsing failed"),
}  # fmt: skip


@pytest.mark.parametrize("name", ODD_SOURCES)
@pytest.mark.parametrize("form", ["jsonl", "json"])
def test_an_odd_source_is_one_line(name: str, form: str, tmp_path: Path) -> None:
    text, problem = ODD_SOURCES[name]
    path = tmp_path / f"x.{form}"
    path.write_text(f"[{text}]" if form == "json" else f'{{"a": 1}}\n{text}\n', encoding="utf-8")
    with pytest.raises(UserError) as error:
        read_source(path, form)
    message = error.value.line
    assert problem.replace("JSON record", "JSON list" if form == "json" else "JSON record") in message
    assert len(message) < 500
    assert str(path) in message and (form == "json" or ":2: " in message)


def test_lone_surrogates_of_a_source_become_storable_and_the_rest_stays(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    path.write_text('{"a\\ud800": ["\\ud83d\\ude00 \\udc00", {"b": 1.5}]}\n{"c": "\\u2028"}\n', encoding="utf-8")
    assert read_source(path, "jsonl") == [{"a?": ["\U0001f600 ?", {"b": 1.5}]}, {"c": "\u2028"}]


def test_what_is_too_large_is_refused_before_it_is_read(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    with path.open("wb") as handle:
        handle.truncate(5 << 30)
    problem = r"5,120 MB, more than limits\.source_mb \(4096\)\. Fix: raise limits\.source_mb"
    with pytest.raises(UserError, match=problem):
        read_source(path, "csv")
    with pytest.raises(UserError, match=r"larger than limits\.labels_mb \(64 MB\)"):
        read_human_labels(path, {"t": {}})
    small = tmp_path / "y.jsonl"
    small.write_text('{"a": 1}\n' * 200_000)
    with pytest.raises(UserError, match=r"2 MB, more than limits\.source_mb \(1\)"):
        read_source(small, "jsonl", limits=Limits(source_mb=1))


@pytest.mark.parametrize("content", [b"\xff\xfe", b"task,item\n\0,\0\n", "task\u2028,item".encode()])
def test_a_malformed_label_file_is_one_line(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "labels.csv"
    path.write_bytes(content + b"\n1,2\n")
    with pytest.raises(UserError) as error:
        read_human_labels(path, {"t": {}})
    assert str(path) in error.value.line and "\n" not in error.value.line


def picture(kind: str, size: tuple[int, int] = (4, 4)) -> bytes:
    from PIL import Image

    buffer = io.BytesIO()
    Image.new("RGB", size, "red").save(buffer, kind)
    return buffer.getvalue()


def bomb(width: int, height: int) -> bytes:
    """Return a PNG that declares this size and has no pixel data."""
    import zlib

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    return (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0))
        + chunk(b"IEND", b"")
    )


def test_the_formats_of_pictures_are_a_closed_list_and_none_starts_a_program(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pillow starts Ghostscript to open an EPS file."""
    started: list[Any] = []
    monkeypatch.setattr(subprocess, "Popen", lambda *args, **more: started.append(args))
    for kind in ("PNG", "JPEG", "GIF", "WEBP", "BMP", "TIFF"):
        assert pictures.verify_picture(picture(kind))[2:] == (4, 4)
    for kind in ("EPS", "PDF", "PPM", "TGA", "ICO", "PCX", "SGI"):
        with pytest.raises(pictures.PictureMissing, match="no picture"):
            pictures.verify_picture(picture(kind))
    assert not started


def test_bytes_and_pixels_of_a_picture_are_limited() -> None:
    with pytest.raises(pictures.PictureMissing, match="no picture"):
        pictures.verify_picture(bomb(60_000, 60_000))
    with (
        pytest.warns(Warning, match="decompression bomb"),
        pytest.raises(pictures.PictureMissing, match="more than 90 million"),
    ):
        pictures.verify_picture(bomb(12_000, 8_000))
    with (
        pytest.warns(Warning, match="decompression bomb"),
        pytest.raises(pictures.PictureMissing, match="more than 1 million"),
    ):
        pictures.verify_picture(bomb(1001, 1000), Limits(picture_megapixels=1))
    with pytest.raises(pictures.PictureMissing, match=r"more than 0\.0001 MB"):
        pictures.verify_picture(picture("BMP", (40, 40)), Limits(picture_mb=0.0001))


@pytest.mark.parametrize("path", ["a\0b.png", "x" * 5000, "../" * 2000 + "x"])
def test_an_impossible_path_is_a_missing_picture(path: str, tmp_path: Path) -> None:
    with pytest.raises((pictures.PictureMissing, UserError)):
        pictures.read_local_picture(path, tmp_path)


PIN = re.compile(r"^([A-Za-z0-9._-]+)==([^ ;\n]+)", re.MULTILINE)


@pytest.mark.parametrize(
    "lock", sorted(path.name for path in (ROOT / "envs").glob("*.txt") if "overrides" not in path.name)
)
def test_every_pin_has_its_checksum(lock: str) -> None:
    """The CPU build of torch is exempt: its wheel may come from a folder of the machine."""
    text = (ROOT / "envs" / lock).read_text(encoding="utf-8")
    blocks = re.split(r"^(?=[A-Za-z0-9])", text, flags=re.MULTILINE)
    bare = [PIN.match(block)[0] for block in blocks if PIN.match(block) and "--hash=sha256:" not in block]
    assert bare == (["torch==2.13.0+cpu"] if lock == "serve.cpu.txt" else []) and PIN.findall(text)
    assert "://" not in text, "a lock names no URL, so that any mirror can be used"
