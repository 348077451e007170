"""Tests of recorded replies: matching by id, task or prompt, other tools' formats, missing and unmatched replies."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import Any

import pytest
from maieutic.config.cards import card_path, read_card
from maieutic.core.errors import UserError
from maieutic.core.records import NO_REPLY, Item, Reply, read_records, write_records
from maieutic.datasets.mrbench import remediation_items
from maieutic.datasets.sources import read_source
from maieutic.preparation.items import MakeItems, make_items
from maieutic.replies.generate import first_prompt
from maieutic.replies.parsing import ParseReplies, parse_replies
from maieutic.replies.recorded import ReadReplies, read_replies, recorded_turn
from run_configs import check_config
from running import NO_GRADERS
from shipped import shipped

CONVERSATION = "kmpbench/fqa"


def item(task: str, number: int) -> Item:
    """Return a problem, which serves single-turn tasks and conversations."""
    words = {"question": f"What is {number} and {number}?", "followup_1": "And one more?", "followup_2": "And two?"}
    answers = [str(2 * number)] * 3
    reference = {
        "answers": answers, "replies": answers, "text": answers[0], "answer": float(2 * number), "solution": "",
    }  # fmt: skip
    return Item(id=f"{task}-{number}", task=task, cluster=str(number), vars=words, reference=reference)


@pytest.fixture
def items(tmp_path: Path) -> list[Path]:
    """Write the items of a single-turn task and of a conversation task."""
    files = []
    for name in ("mathtutorbench/problem_solving", CONVERSATION):
        path = tmp_path / f"items/{name}.jsonl"
        write_records(path, [item(name.rpartition("/")[2], number) for number in range(3)])
        files.append(path)
    return files


def read(
    tmp_path: Path, items: list[Path], lines: list[dict[str, Any]], task: str = "mathtutorbench/problem_solving",
    **job: Any,
) -> dict[str, Reply]:  # fmt: skip
    """Read replies from a file with these lines, and return them by item."""
    file = tmp_path / "mine.jsonl"
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return read_file(tmp_path, items, file, task, **job)


def read_file(tmp_path: Path, items: list[Path], file: Path, task: str, **job: Any) -> dict[str, Reply]:
    benchmark, _, name = task.partition("/")
    fields = {"tutor": "mine", "benchmark": benchmark, "tasks": [name], "protocol": "released"}
    sources = job.pop("sources", [])
    read_replies(
        job=ReadReplies(**{**fields, **job}), file=[file], items=items, sources=sources, out=tmp_path / "out.jsonl",
        prompts=tmp_path / "p",
    )  # fmt: skip
    return {reply.id: reply for reply in read_records(tmp_path / "out.jsonl", Reply)}


def test_replies_are_matched_by_id_and_missing_ones_are_counted(tmp_path: Path, items: list[Path]) -> None:
    lines = [{"id": "problem_solving-0", "reply": "Final answer: 0"}, {"id": "problem_solving-2", "reply": ""}]
    replies = read(tmp_path, items, lines)
    assert [reply.error for reply in replies.values()] == [None, NO_REPLY, NO_REPLY]
    assert replies["problem_solving-0"].text == "Final answer: 0" and not replies["problem_solving-0"].trivial
    assert [reply.absent for reply in replies.values()] == [False, True, True]
    parse_replies(
        job=ParseReplies(tutor="mine", benchmark="mathtutorbench", tasks=["problem_solving"]),
        items=tmp_path / "items/mathtutorbench", replies=tmp_path / "out.jsonl", out=tmp_path / "grades.jsonl",
    )  # fmt: skip
    graded = {json.loads(line)["id"] for line in (tmp_path / "grades.jsonl").read_text().splitlines()}
    assert graded == {"problem_solving-0"}, "an absent reply is missing, not wrong"


def test_a_conversation_needs_a_text_for_each_turn(tmp_path: Path, items: list[Path]) -> None:
    lines = [
        {"id": "fqa-0", "reply": ["0", "1", "2"]},
        {"id": "fqa-1", "replies": ["2"]},
        {"id": "fqa-2", "response": "4"},
    ]
    replies = read(tmp_path, items, lines, CONVERSATION)
    assert [turn.text for turn in replies["fqa-0"].turns] == ["0", "1", "2"]
    assert replies["fqa-1"].error == replies["fqa-2"].error == "recorded replies to 1 of 3 turns"
    assert not replies["fqa-1"].absent


def test_more_texts_than_turns_are_refused(tmp_path: Path, items: list[Path]) -> None:
    """Two messages of the assistant, or a list of retries: neither text is chosen silently."""
    lines = [{"id": "problem_solving-0", "reply": "0"}, {"id": "problem_solving-1", "reply": ["1", "2"]}]
    problem = r"1 replies have more texts than turns, such as 2 for 1 of item problem_solving-1\. Fix: write one text"
    with pytest.raises(UserError, match=problem):
        read(tmp_path, items, lines)


MRBENCH = Path("resources/demo/mrbench/MRBench_V1.json")


@pytest.fixture(scope="module")
def dialogues(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Write the items of the demo's MRBench."""
    path = tmp_path_factory.mktemp("items") / "mrbench/mistake_remediation.jsonl"
    records = read_source(MRBENCH, "json")
    write_records(path, remediation_items(records, "mistake_remediation"))
    return [path]


def read_form(folder: Path, items: list[Path], file: Path, speaker: str, tasks: list[str]) -> list[Reply]:
    job = ReadReplies(
        tutor="ours", benchmark="mrbench", tasks=tasks, protocol="released", form="mrbench", speaker=speaker
    )
    read_replies(
        job=job, file=[file], items=items, sources=[], out=folder / "out.jsonl", prompts=folder / "prompts.jsonl"
    )
    return read_records(folder / "out.jsonl", Reply)


def test_a_benchmarks_released_file_contains_several_tutors_replies(
    tmp_path: Path, dialogues: list[Path], items: list[Path]
) -> None:
    """MRBench's replies are matched by dialogue, in any order. An item without a reply is missing."""
    records = read_source(MRBENCH, "json")
    expected = [record["anno_llm_responses"]["Expert"]["response"].strip() for record in records]
    shuffled = tmp_path / "v2.json"
    del records[-1]["anno_llm_responses"]["Expert"]
    shuffled.write_text(json.dumps(records[::-1]), encoding="utf-8")
    replies = read_form(tmp_path, dialogues, shuffled, "Expert", ["mistake_remediation"])
    assert [reply.turns[0].text for reply in replies[:-1]] == expected[:-1] and replies[-1].error == NO_REPLY
    problem = r"models\.ours\.speaker: 'Exprt' is not in .*v2\.json\. Fix: did you mean 'Expert'"
    with pytest.raises(UserError, match=problem):
        read_form(tmp_path, dialogues, shuffled, "Exprt", ["mistake_remediation"])
    other = tmp_path / "other.json"
    other.write_text('[{"conversation_history": "Tutor: Hi", "replies": {}}]', encoding="utf-8")
    with pytest.raises(UserError, match=r"the file does not have the format of mrbench: KeyError"):
        read_form(tmp_path, dialogues, other, "Expert", ["mistake_remediation"])


@pytest.mark.parametrize(("entry", "problem"), [
    ({"file": "x.json", "form": "mrbench"}, r"models\.ours\.speaker: a file of the form mrbench contains replies by several tutors"),
    ({"file": "x.jsonl", "speaker": "Expert"}, "speaker needs form"),
    ({"file": ["x.jsonl", "y.txt"]}, "y.txt"),
    ({"file": "x.json", "form": "mrbnch", "speaker": "Expert"}, r"models\.ours\.form: 'mrbnch' .*did you mean 'mrbench'"),
])  # fmt: skip
def test_a_form_is_checked_before_any_work(entry: dict[str, str], problem: str) -> None:
    raw = shipped()
    raw["models"]["ours"] = {"engine": "recorded", **entry}
    raw["run"] |= {"tutors": ["ours"], "tasks": ["mrbench"], **NO_GRADERS}
    with pytest.raises(UserError, match=problem):
        check_config(raw)


def test_a_reply_is_matched_by_its_prompt(tmp_path: Path, items: list[Path]) -> None:
    loaded = read_card(card_path("mathtutorbench", "problem_solving"))
    prompt = first_prompt(loaded, item("problem_solving", 1))
    replies = read(tmp_path, items, [{"prompt": "  " + prompt.replace(" ", "\n"), "reply": "2"}])
    assert [reply.text for reply in replies.values() if not reply.error] == ["2"]
    with pytest.raises(UserError, match=r"record 1: no item has this prompt\. Fix: add an id to each record"):
        read(tmp_path, items, [{"prompt": "What?", "reply": "2"}])


def test_a_line_of_another_task_is_accepted_and_a_named_task_must_match(tmp_path: Path, items: list[Path]) -> None:
    lines = [{"id": "fqa-0", "reply": "x"}, {"id": "problem_solving-0", "task": "problem_solving", "reply": "y"}]
    assert read(tmp_path, items, lines)["problem_solving-0"].text == "y"
    lines[1]["task"] = "mathtutorbench/problem_solving"
    assert read(tmp_path, items, lines)["problem_solving-0"].text == "y"
    lines[1]["task"] = "fqa"
    with pytest.raises(UserError, match=r"record 2: there is no item 'problem_solving-0' in task fqa"):
        read(tmp_path, items, lines)


BAD: list[tuple[list[dict[str, Any]], str]] = [
    ([{"id": "problem_solving-9", "reply": "x"}], r"record 1: there is no item 'problem_solving-9'\. Fix: did you mean 'problem_solving-\d'\?"),
    ([{"reply": "x"}], "expected column id, found reply"),
    ([["problem_solving-0", "x"]], "record 1: (expected a mapping|.*not a record)"),  # type: ignore[list-item]
    ([{"id": {"a": 1}, "reply": "x"}], "record 1: there is no item"),
    ([{"id": "problem_solving-0", "reply": 3}], "record 1: reply is not text"),
    ([{"id": "problem_solving-0", "reply": ["x", None]}], "record 1: reply is not text"),
    ([{"id": "problem_solving-0", "reply": "x"}, {"id": "problem_solving-0", "reply": "y"}], "record 2: item problem_solving-0 has a different reply in an earlier record"),
    ([], r"models\.mine\.file: .* has no records"),
]  # fmt: skip


@pytest.mark.parametrize(("lines", "expected"), BAD, ids=range(len(BAD)))
def test_a_line_that_fits_no_item_is_refused(
    tmp_path: Path, items: list[Path], lines: list[dict[str, Any]], expected: str
) -> None:
    with pytest.raises(UserError, match=expected):
        read(tmp_path, items, lines)
    assert not (tmp_path / "out.jsonl").exists()


def test_all_faults_are_reported_at_once(tmp_path: Path, items: list[Path]) -> None:
    with pytest.raises(UserError) as error:
        read(tmp_path, items, [{"id": f"nobody-{number}", "reply": "x"} for number in range(9)])
    assert len(error.value.lines.split("\n")) == 6 and "4 more records match no item" in error.value.lines


@pytest.fixture
def sampled(tmp_path: Path) -> tuple[Path, list[str], list[str], dict[str, Any]]:
    """Make three of the demo's twelve problems. Return their file, all ids and prompts, and what reads a limited run."""
    source, card = Path("resources/demo/gsm8k/test.jsonl"), read_card(card_path("mathtutorbench", "problem_solving"))
    out, all_items = tmp_path / "mathtutorbench/problem_solving.jsonl", tmp_path / "all.jsonl"
    job = MakeItems(benchmark="mathtutorbench", task="problem_solving", form="jsonl", limit=3, seed=1)
    make_items(job=job, source=source, pictures=[], out=out)
    make_items(job=job.model_copy(update={"limit": None}), source=source, pictures=[], out=all_items)
    problems = read_records(all_items, Item)
    whole = {"forms": {"mathtutorbench/problem_solving": "jsonl"}, "sources": [source]}
    return out, [problem.id for problem in problems], [first_prompt(card, problem) for problem in problems], whole


def test_a_limited_run_accepts_ids_outside_its_sample_and_refuses_unknown_ids(tmp_path: Path, sampled: Any) -> None:
    """Lines of the other problems are skipped, unknown ids refused."""
    out, all_ids, prompts, whole = sampled
    sampled_ids = [problem.id for problem in read_records(out, Item)]
    lines = [{"id": name, "reply": "x"} for name in all_ids]
    assert set(read(tmp_path, [out], lines, **whole)) == set(sampled_ids) and len(all_ids) == 12
    by_prompt = read(tmp_path, [out], [{"prompt": text, "reply": "x"} for text in prompts], **whole)
    assert set(by_prompt) == set(sampled_ids) and not any(reply.error for reply in by_prompt.values())
    for others in ([line for line in lines if line["id"] != all_ids[4]], []):
        with pytest.raises(UserError, match=rf"there is no item '{all_ids[4]}x'\. Fix: did you mean '{all_ids[4]}'"):
            read(tmp_path, [out], [*others, {"id": all_ids[4] + "x", "reply": "x"}], **whole)
    with pytest.raises(UserError, match=rf"there is no item '{all_ids[4]}x'\. Fix: run `maieutic items"):
        # Every id already has a reply, so the message suggests none.
        read(tmp_path, [out], [*lines, {"id": all_ids[4] + "x", "reply": "x"}], **whole)
    outside_sample = [line for line in lines if line["id"] not in sampled_ids]
    with pytest.raises(UserError, match="none of the 9 records matches an item of this run"):
        read(tmp_path, [out], outside_sample, **whole)


# Formats of other tools ------------------------------------------------------------------------------------------------

PROMPT = "THE PROMPT"  # replaced by the first prompt of problem_solving-1
SAMPLE = {
    "id": "problem_solving-1", "epoch": 1, "input": "?", "output": {"choices": [{"message": {"content": "said"}}]},
}  # fmt: skip
FOREIGN_FORMATS: dict[str, list[dict[str, Any]]] = {
    "OpenAI batch": [
        {"id": "batch_1", "custom_id": "problem_solving-1", "error": None,
         "response": {"status_code": 200, "body": {"choices": [{"message": {"role": "assistant", "content": "said"}}]}}},
        {"id": "batch_2", "custom_id": "problem_solving-2", "response": None, "error": {"code": "batch_expired"}},
    ],
    "OpenAI batch, Responses API": [
        {"custom_id": "problem_solving-1", "response": {"status_code": 200, "body": {"output": [
            {"type": "reasoning", "summary": [{"type": "summary_text", "text": "hm"}]},
            {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "said"}]}]}}},
    ],
    "harness samples": [{"doc_id": 0, "doc": {"question": "?"}, "target": "2", "arguments": [[PROMPT, {"until": ["\n"]}]], "resps": [["said"]], "filtered_resps": ["said"]}],
    "harness samples, newer": [{"doc_id": 0, "doc": {}, "arguments": {"gen_args_0": {"arg_0": PROMPT, "arg_1": {}}}, "resps": [["said"]]}],
    "harness samples, chat": [{"doc_id": 0, "doc": {}, "arguments": {"gen_args_0": {"arg_0": json.dumps([{"role": "user", "content": PROMPT}])}}, "resps": [["said"]]}],
    "messages": [{"messages": [{"role": "system", "content": "You are a tutor."}, {"role": "user", "content": PROMPT}, {"role": "assistant", "content": "said"}]}],
    "OpenAI batch with a text format": [
        {"custom_id": "problem_solving-1", "response": {"status_code": 200, "body": {"text": {"format": {"type": "text"}}, "output": [
            {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "said"}]}]}}},
    ],
    "reply is a message of a model": [{"id": "problem_solving-1", "reply": [{"role": "model", "content": "said"}]}],
    "reply is a message": [{"id": "problem_solving-1", "reply": {"role": "assistant", "content": "said"}}],
    "reply is a list of parts": [{"id": "problem_solving-1", "reply": [{"type": "thinking", "thinking": "x"}, {"type": "text", "text": "said"}]}],
    "reply is a completion": [{"id": "problem_solving-1", "response": {"choices": [{"message": {"content": "said"}}]}}],
}  # fmt: skip


def prompt_of(number: int) -> str:
    """Return the first prompt of a problem."""
    return first_prompt(read_card(card_path("mathtutorbench", "problem_solving")), item("problem_solving", number))


@pytest.mark.parametrize("name", FOREIGN_FORMATS)
def test_formats_of_other_tools_are_read_unchanged(name: str, tmp_path: Path, items: list[Path]) -> None:
    chat = name == "harness samples, chat"
    text = json.dumps(FOREIGN_FORMATS[name])
    text = text if chat else text.replace(json.dumps(PROMPT)[1:-1], json.dumps(prompt_of(1))[1:-1])
    lines = json.loads(text)
    if chat:
        lines[0]["arguments"]["gen_args_0"]["arg_0"] = json.dumps([{"role": "user", "content": prompt_of(1)}])
    replies = read(tmp_path, items, lines)
    assert {key: reply.text for key, reply in replies.items() if not reply.error} == {"problem_solving-1": "said"}
    (tmp_path / "mine.json").write_text(json.dumps(lines), encoding="utf-8")
    again = read_file(tmp_path, items, tmp_path / "mine.json", "mathtutorbench/problem_solving")
    assert again == replies, "a JSON list is read as JSON lines are"


def test_the_turns_of_a_conversation_are_the_assistants_messages(tmp_path: Path, items: list[Path]) -> None:
    messages = [
        {"role": "assistant", "content": "a"},
        {"role": "user", "content": "?"},
        {"role": "assistant", "content": "b"},
    ]
    lines = [{"id": "fqa-0", "reply": [*messages, {"role": "assistant", "content": "c"}]}]
    assert [turn.text for turn in read(tmp_path, items, lines, CONVERSATION)["fqa-0"].turns] == ["a", "b", "c"]


def inspect_archive(path: Path, samples: list[dict[str, Any]]) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as zipped:
        zipped.writestr("header.json", json.dumps({"version": 2, "eval": {}}))
        for number, sample in enumerate(samples):
            zipped.writestr(f"samples/{number}_epoch_{sample['epoch']}.json", json.dumps(sample))
    return path


def test_a_log_of_inspect_is_read_without_its_library(tmp_path: Path, items: list[Path]) -> None:
    """Samples are matched by id, else by input, in an archive or a JSON file. The first epoch counts."""
    second = {**SAMPLE, "epoch": 2, "output": {"choices": [{"message": {"content": "later"}}]}}
    messages = [{"role": "system", "content": "Hi."}, {"role": "user", "content": prompt_of(2)}]
    foreign = {"id": 7, "epoch": 1, "input": messages, "output": {"completion": "by its input"}}
    samples = [SAMPLE, second, foreign]
    log = tmp_path / "log.json"
    log.write_text(json.dumps({"version": 2, "eval": {"task": "t"}, "samples": samples}), encoding="utf-8")
    for path in (inspect_archive(tmp_path / "log.eval", samples), log):
        replies = read_file(tmp_path, items, path, "mathtutorbench/problem_solving")
        texts = {key: reply.text for key, reply in replies.items() if not reply.error}
        assert texts == {"problem_solving-1": "said", "problem_solving-2": "by its input"}


WITHOUT_TEXT = {  # records without a known text are refused, never read as an empty reply
    "object": {"id": "problem_solving-1", "reply": {"answer": "Hi"}},
    "batch of another provider": {"custom_id": "problem_solving-1", "response": {"body": {"candidates": [{"content": "Hi"}]}}},
    "likelihoods": {"doc_id": 0, "doc": {}, "arguments": [["?", " yes"]], "resps": [[["-1.25", "False"]]]},
    "response is a word": {"custom_id": "problem_solving-1", "response": "words"},
    "choices are words": {"id": "problem_solving-1", "reply": {"choices": ["abc"]}},
}  # fmt: skip


@pytest.mark.parametrize("name", WITHOUT_TEXT)
def test_a_record_without_a_text_is_refused(name: str, tmp_path: Path, items: list[Path]) -> None:
    problem = r"record 1: (reply is not text|the record has fields of a known format but cannot be read)"
    with pytest.raises(UserError, match=problem):
        read(tmp_path, items, [WITHOUT_TEXT[name]])


def test_a_foreign_id_of_an_item_outside_the_sample_is_accepted(tmp_path: Path, sampled: Any) -> None:
    """Samples of Inspect have their own ids. A known id with another task is refused in a limited run too."""
    out, _, prompts, whole = sampled
    lines = [{"id": str(number), "prompt": text, "reply": "x"} for number, text in enumerate(prompts)]
    assert not any(reply.error for reply in read(tmp_path, [out], lines, **whole).values())
    [first, *_] = read_records(out, Item)
    with pytest.raises(UserError, match=f"there is no item '{first.id}' in task other"):
        read(tmp_path, [out], [*lines, {"id": first.id, "task": "other", "reply": "x"}], **whole)


UNREADABLE_FILES = {
    "not an archive": ("x.eval", b"not a zip", "the Inspect archive cannot be read"),
    "an archive without samples": ("x.eval", b"PK\x05\x06" + bytes(18), "the archive contains no files in the folder samples"),
    "another object": ("x.json", b'{"results": {}}', "expected a list of replies or a log of Inspect, found an object with the keys: results"),
    "truncated JSON": ("x.json", b'{"results": ', "the file is not valid JSON: "),
}  # fmt: skip


@pytest.mark.parametrize("name", UNREADABLE_FILES)
def test_an_unreadable_file_is_an_error_of_one_line(name: str, tmp_path: Path, items: list[Path]) -> None:
    file, data, problem = UNREADABLE_FILES[name]
    (tmp_path / file).write_bytes(data)
    with pytest.raises(UserError, match=problem):
        read_file(tmp_path, items, tmp_path / file, "mathtutorbench/problem_solving")


def test_a_repeated_reply_counts_once(tmp_path: Path, items: list[Path]) -> None:
    assert not read(tmp_path, items, [{"id": "problem_solving-0", "reply": "x"}] * 2)["problem_solving-0"].error


def test_inline_reasoning_of_a_recorded_reply_is_kept_apart() -> None:
    turn = recorded_turn("[THINK]Is it 12?[/THINK]Look once more.")
    assert (turn.text, turn.reasoning, turn.released) == (
        "Look once more.", "Is it 12?", "[THINK]Is it 12?[/THINK]Look once more."
    )  # fmt: skip
    assert recorded_turn("12").raw is None


def test_the_release_itself_is_read_as_recorded_replies(data: Path, tmp_path: Path) -> None:
    """In MRBench V1, four pairs of dialogues share a history. V2 and V3 contain other dialogues too."""
    source = data / "mrbench/MRBench_V1.json"
    items = remediation_items(read_source(source, "json"), "mistake_remediation")
    path = tmp_path / "mrbench/mistake_remediation.jsonl"
    path.parent.mkdir()
    write_records(path, items)
    for name, speaker, least in (
        ("MRBench_V1", "GPT4", 192), ("MRBench_V2", "GPT4", 150), ("mrbench_v3_devset", "GPT4", 1), ("indoml_trainset", "GPT4", 1),
    ):  # fmt: skip
        job = ReadReplies(
            tutor="v", benchmark="mrbench", tasks=["mistake_remediation"], protocol="released",
            form="mrbench", speaker=speaker,
        )  # fmt: skip
        out = tmp_path / f"{name}.jsonl"
        read_replies(
            job=job, file=[data / f"mrbench/{name}.json"], items=[path], sources=[], out=out, prompts=tmp_path / "p"
        )
        replies = read_records(out, Reply)
        answered = [reply for reply in replies if reply.error is None]
        assert len(replies) == 192 and len(answered) >= least, (name, len(answered))
        if name == "MRBench_V1":
            expected = [
                record["anno_llm_responses"][speaker]["response"].strip() for record in json.loads(source.read_text())
            ]
            assert [reply.text for reply in replies] == expected
