"""Tests of dialogues in one cell of a table of preferences: turns as meant, or a doubt about every possible speaker."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from maieutic.config.people import PreferenceSet
from maieutic.core.errors import UserError
from maieutic.datasets.histories import (
    UndividedError,
    UnknownSpeakersError,
    check_divided,
    read_histories,
    read_history,
    roles_of_words,
)
from maieutic.datasets.pair_table import preferences_of_table
from maieutic.preparation.own_readings import check_histories
from maieutic.serving.conversations import merge_turns
from maieutic.tools.table import HistoryOptions
from maieutic.tools.table import table as write_table

T, S = "assistant", "user"
ROLES = roles_of_words({})
READ: dict[str, tuple[Any, list[tuple[str, str]]]] = {
    "lines": ("Tutor: What is 2 + 2?\nStudent: 5", [(T, "What is 2 + 2?"), (S, "5")]),
    "a message of two lines": ("Tutor: Well.\nAgain?\nStudent: 5", [(T, "Well.\nAgain?"), (S, "5")]),
    "a blank line between": ("Teacher: 7x8?\n\nStudent: 54", [(T, "7x8?"), (S, "54")]),
    "capitals": ("TUTOR: 7x8?\nSTUDENT: 54", [(T, "7x8?"), (S, "54")]),
    "Markdown": ("**Tutor:** 7x8?\n**Student:** 54", [(T, "7x8?"), (S, "54")]),
    "chat models": ("Human: 7x8?\n\nAssistant: You say.\n\nHuman: 54", [(S, "7x8?"), (T, "You say."), (S, "54")]),
    "German": ("Lehrer: Was ist 7 mal 8?\nSchüler: 54", [(T, "Was ist 7 mal 8?"), (S, "54")]),
    "a list": ([{"role": "assistant", "content": "7x8?"}, {"role": "user", "content": "54"}], [(T, "7x8?"), (S, "54")]),
    "ShareGPT": ([{"from": "human", "value": "7x8?"}, {"from": "gpt", "value": "Say."}], [(S, "7x8?"), (T, "Say.")]),
    "JSON in a cell": (json.dumps([{"role": "user", "content": "54"}]), [(S, "54")]),
    "no speaker at all": ("I think it is 54", [(S, "I think it is 54")]),
    "a ratio is no speaker": ("Is 3:4 the same as 6:8?", [(S, "Is 3:4 the same as 6:8?")]),
    "an indented word of the student's": ("Tutor: Why?\nStudent: So\n  Answer: 5", [(T, "Why?"), (S, "So\n  Answer: 5")]),
    "no blank behind the colon": ("Lehrer: x\nSch\u00fcler:5", [(T, "x"), (S, "5")]),
    "the colon of Chinese": ("Tutor\uff1ahi\nStudent\uff1ayo", [(T, "hi"), (S, "yo")]),
    "quoted speakers": ('"Tutor": hi\n[Student]: yo', [(T, "hi"), (S, "yo")]),
    "a link": ("Tutor: see\nhttps://example.org/a\nStudent: ok", [(T, "see\nhttps://example.org/a"), (S, "ok")]),
}  # fmt: skip


@pytest.mark.parametrize(("history", "turns"), READ.values(), ids=READ)
def test_a_dialogue_is_divided_into_its_turns(history: Any, turns: list[tuple[str, str]]) -> None:
    assert read_history(history, ROLES) == turns


DOUBTED = {
    "a word for a student that is unknown": ("Teacher: What is 7x8?\nPupils: 54", ["Pupils"]),
    "a further speaker behind the student": ("Student: I got 5\nMs Lee: How?", ["Ms Lee"]),
    "a further speaker at the end": ("Tutor: a\nStudent: b\nAnna: c", ["Anna"]),
    "two students": ("Student: a\nStudent 2: b", ["Student 2"]),
    "a word of a message": ("Tutor: Why?\nStudent: So\nAnswer: 5", ["Answer"]),
    "names": ("Ana: What is 7x8?\nBen: 54", ["Ana", "Ben"]),
    "a role with a name": ("Tutor (Ann): 2x3?\nStudent: 5", ["Tutor (Ann)"]),
    "another language": ("教师: 7x8?\n学生: 54", ["教师", "学生"]),
    "an unknown role of a message": ([{"role": "helper", "content": "7x8?"}], ["helper"]),
}


@pytest.mark.parametrize(("history", "words"), DOUBTED.values(), ids=DOUBTED)
def test_words_that_may_be_speakers_are_a_doubt(history: Any, words: list[str]) -> None:
    with pytest.raises(UnknownSpeakersError) as caught:
        read_history(history, ROLES)
    assert caught.value.words == words


REFUSED = {
    "two speakers in a line": "Tutor: 7x8? Student: 54",
    "two in small letters": "tutor: what is 2+2? student: 4",
    "two of German in a line": "Lehrer: x Sch\u00fcler: 4",
    "written line breaks": "Tutor: hi\\nStudent: ok",
    "line breaks of HTML": "Tutor: hi<br>Student: ok",
    "a speaker before a dash": "Tutor: a\nStudent - b",
    "a speaker in brackets": "Tutor: hi\n[Student] yo",
    "a system's line": "Student: hi\nSystem: be nice\nTutor: ok",
    "text before the first speaker": "the lesson begins\nTutor: 7x8?\nStudent: 54",
    "a list that Python has written": "[{'role': 'user', 'content': '7 x 8'}]",
    "a time before the speaker": "[10:32] Tutor: 7x8?\n[10:33] Student: 54",
    "a time behind the speaker": "Tutor (10:32): 7x8?\nStudent (10:33): 54",
    "a message without a role": [{"content": "54"}],
    "a system's message": [{"role": "system", "content": "You are kind."}, {"role": "user", "content": "54"}],
}


@pytest.mark.parametrize("history", REFUSED.values(), ids=REFUSED)
def test_what_cannot_be_divided_is_refused(history: Any) -> None:
    with pytest.raises(UndividedError, match=r"has |may |is "):
        read_history(history, ROLES)


def table(path: Path, histories: list[Any]) -> Path:
    lines = [
        json.dumps({"dialog": history, "first": "Look again?", "second": "4.", "preference": "first"})
        for history in histories
    ]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def check(path: Path) -> None:
    """Check a file of preferences as a run's start does."""
    entry = PreferenceSet(title="t", licence="l", file=str(path), columns={"history": "dialog"})
    check_histories(path, entry, [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()])


@pytest.mark.parametrize("history", [turns for turns, _ in READ.values()], ids=READ)
def test_the_command_of_the_start_writes_dialogues_as_the_job_reads_them(history: Any, tmp_path: Path) -> None:
    path, out = table(tmp_path / "p.jsonl", [history]), tmp_path / "out.jsonl"
    try:
        check(path)
    except UserError as error:
        assert error.fix.startswith("run `maieutic table ") and "--histories dialog" in error.fix
        write_table(path, out=out, dialogues=HistoryOptions(["dialog"]))
        path = out
    check(path)
    [written] = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    [pair] = preferences_of_table("ours", {"history": "dialog"}, [written])
    assert pair.prompt[1:] == merge_turns(read_history(history, ROLES))


def test_all_unknown_speakers_are_named_once_and_the_flag_settles_them(tmp_path: Path) -> None:
    path = table(tmp_path / "p.jsonl", [f"Ana: What is {number}?\nBen: 54\nHint: think" for number in range(3)])
    with pytest.raises(UserError) as caught:
        check(path)
    assert caught.value.problem.endswith("'Ana' (3), 'Ben' (3), 'Hint' (3)")
    assert "--roles Ana=ROLE Ben=ROLE Hint=ROLE`, with tutor, student or text (no speaker)" in caught.value.fix
    out = tmp_path / "out.jsonl"
    with pytest.raises(UserError, match="pass --roles Ana=ROLE Ben=ROLE Hint=ROLE, with tutor"):
        write_table(path, out=out, dialogues=HistoryOptions(["dialog"]))
    write_table(path, out=out, dialogues=HistoryOptions(["dialog"], ["Ana=tutor", "Ben=student", "Hint=text"]))
    check(out)
    record = json.loads(out.read_text(encoding="utf-8").splitlines()[1])
    assert record["dialog"] == "Tutor: What is 1?\nStudent: 54\n  Hint: think", "a line that is no speaker is indented"
    again = table(tmp_path / "q.jsonl", ["Student: x\nTutor: Look\nHint: use 5"])
    write_table(again, out=tmp_path / "again.jsonl", dialogues=HistoryOptions(["dialog"], ["Hint=text"]))
    check(tmp_path / "again.jsonl")


def test_an_empty_list_and_a_column_with_braces_are_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="of record 1 has no turn"):
        check(table(tmp_path / "p.jsonl", ["[]"]))
    with pytest.raises(UserError, match=r"column hist\{x\} has words before a colon"):
        check_divided(read_histories(["Ana: hi"], {}), "f", "hist{x}", "run `maieutic table hist{x} {}`")
