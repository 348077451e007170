"""Tests of the user's files at a run's start: each is read by the job that will read it, and faults name file and row."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from maieutic.config.cards import read_card
from maieutic.config.people import PreferenceSet
from maieutic.core.errors import UserError
from maieutic.core.files import sha256_of
from maieutic.datasets.options import check_places, check_questions
from maieutic.datasets.word_problems import word_problem_items
from maieutic.launch.preflight import idle_judge_lines
from maieutic.preparation.own_readings import (
    check_choices,
    check_label_columns,
    check_own_words,
    check_resolves,
    check_spellings,
    checks_of_readings,
    preview_of_own_files,
    read_recorded,
)
from maieutic.replies.foreign_formats import read_foreign_replies
from maieutic.run_plan import plan_of
from run_configs import HOSTED, NOBODY
from shipped import shipped

GOOD = "id,tutor,history,reply,criterion,label,annotator\n1,a,Student: 4/8,Look again.,Actionability,Yes,7\n"


def plan_with(labels: Path, **run: Any) -> Any:
    """Return the plan of a judge that is checked on a user's labels."""
    config = shipped()
    config["models"] |= {"far": HOSTED, "j": {"engine": "judge", "model": "far", "rubrics": ["mrbench_taxonomy"]}}
    config["labels"] = {"ours": {"title": "Ours", "licence": "ours", "file": str(labels), "rubric": "mrbench_taxonomy"}}
    config["run"] |= {
        **NOBODY, "tutors": ["far"], "tasks": ["mrbench"], "judges": ["j"], "labels": ["ours"], "preferences": [],
        **run,
    }  # fmt: skip
    return plan_of(config)


@pytest.mark.parametrize(("content", "message"), [
    (GOOD, None), (GOOD.replace("Yes", "Maybe"), "Maybe"), (GOOD.replace("Actionability", "Charm"), "Charm"),
    ("id,tutor,reply\n1,a,x\n", "criterion"),
])  # fmt: skip
def test_labels_are_read_before_a_judge_is_asked(tmp_path: Path, content: str, message: str | None) -> None:
    labels = tmp_path / "ours.csv"
    labels.write_text(content, encoding="utf-8")
    if message is None:
        [(key, read)] = checks_of_readings(plan_with(labels))
        read()
        assert key == "labels.ours"
        return
    with pytest.raises(UserError, match=message) as fault:
        for _, read in checks_of_readings(plan_with(labels)):
            read()
    assert "ours.csv" in fault.value.lines


def test_a_file_is_shown_as_it_will_be_used(tmp_path: Path) -> None:
    labels = tmp_path / "ours.csv"
    labels.write_text(GOOD, encoding="utf-8")
    lines = list(preview_of_own_files(plan_with(labels)))
    assert f"labels.ours: {labels}, read as 1 labels" in lines
    assert '  criterion: "Actionability"' in lines and '  label: "Yes"' in lines


def test_a_run_without_files_of_its_user_reads_none() -> None:
    config = shipped()
    config["models"] |= {"far": HOSTED}
    config["run"] |= {**NOBODY, "tutors": ["far"], "tasks": ["mrbench"], "labels": [], "preferences": []}
    assert list(checks_of_readings(plan_of(config))) == []


@pytest.mark.parametrize(("tasks", "lines"), [
    (["mrbench"], []),
    (["mathtutorbench/problem_solving"], ["models.j.rubrics: this judge grades no task of the run: it has mrbench_taxonomy, and no task is graded by a judge"]),
])  # fmt: skip
def test_a_judge_that_grades_no_task_is_named(tmp_path: Path, tasks: list[str], lines: list[str]) -> None:
    labels = tmp_path / "ours.csv"
    labels.write_text(GOOD, encoding="utf-8")
    assert list(idle_judge_lines(plan_with(labels, tasks=tasks))) == lines


def plan_of_problems(path: Path) -> Any:
    """Return the plan of a run on the user's file of word problems."""
    config = shipped()
    card = read_card(Path("resources/benchmarks/mathtutorbench/problem_solving.yaml")).card
    published = {"path": str(path), "sha256": sha256_of(path), "records": len(path.read_text().splitlines())}
    config["edition"] = "published"
    config["datasets"][card.dataset] = {
        "title": "T",
        "licence": "ours",
        "format": "jsonl",
        "fields": ["question", "answer"],
        "published": published,
    }
    config["models"] |= {"far": HOSTED}
    config["run"] |= {
        **NOBODY,
        "tutors": ["far"],
        "tasks": ["mathtutorbench/problem_solving"],
        "labels": [],
        "preferences": [],
    }
    return plan_of(config)


@pytest.mark.parametrize(
    ("record", "message"),
    [
        ({"answer": "#### 1200"}, None), ({"answer": "#### 7", "Body": "A long story."}, "columns that are not used: Body"),
    ],
)  # fmt: skip
def test_problems_are_read_with_the_columns_that_nobody_uses(
    tmp_path: Path, record: dict[str, str], message: str | None, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "ours.jsonl"
    path.write_text(json.dumps({"question": "How many?", **record}) + "\n", encoding="utf-8")
    for _, read in checks_of_readings(plan_of_problems(path)):
        read()
    output = capsys.readouterr()
    assert message in output.err + output.out if message else "not used" not in output.err + output.out


@pytest.mark.parametrize("text", ["3.5 lakh", "12 thousand", "5 million"])
def test_an_answer_that_would_be_wrong_in_its_own_words_is_refused(tmp_path: Path, text: str) -> None:
    card = read_card(Path("resources/benchmarks/mathtutorbench/problem_solving.yaml")).card
    [item] = word_problem_items([{"question": "How many?", "answer": text}], card.task)
    with pytest.raises(UserError, match=f"1 answers would be wrong in their own words, such as '{text}'"):
        check_own_words(tmp_path / "p.csv", card, [{"answer": text}], [item])
    [good] = word_problem_items([{"question": "How many?", "answer": "$1,200"}], card.task)
    check_own_words(tmp_path / "p.csv", card, [{"answer": "$1,200"}], [good])


def test_the_number_of_an_option_is_a_doubt(tmp_path: Path) -> None:
    card = read_card(Path("resources/benchmarks/mathtutorbench/problem_solving.yaml")).card
    record = {"question": "Pick: (1) 6 (2) 7. What is 3+4?", "answer": "2"}
    with pytest.raises(UserError, match="1 answers would be wrong in their own words, such as '2'"):
        check_own_words(tmp_path / "p.csv", card, [record], word_problem_items([record], card.task))


@pytest.mark.parametrize(
    ("record", "message"),
    [
        ({"question": "7 x 8? (A) 54 (B) 56", "answer": "2"}, "1 answers are numbers of options, such as '2'"),
        ({"question": "7 x 8?", "Option 1": "54", "Option 2": "56", "answer": "2"}, "numbers of options"),
        ({"question": "7 x 8?", "Answer 1 - max 75 characters": "54", "Answer 2 - max 75 characters": "56", "answer": "2"}, "numbers of options"),
        ({"question": "Primes?", "A": "2", "B": "4", "C": "9", "D": "5", "answer": "1,4"}, "numbers of options, such as '1,4'"),
        ({"question": "7 x 8? (A) 54 (B) 56", "answer": "56"}, None), ({"question": "7 x 8?", "answer": "2"}, None),
        ({"question": "3 - 1? A) 1 B) 2", "answer": "2"}, None), ({"question": "Day a) of 2?", "answer": "2"}, None),
    ],
)  # fmt: skip
def test_the_number_of_a_listed_option_is_refused(record: dict[str, str], message: str | None) -> None:
    if message is None:
        check_places("p.csv", [(record, record["answer"])])
        return
    with pytest.raises(UserError, match=message):
        check_places("p.csv", [(record, record["answer"])])


SENTENCE = "How many apples are there?"


@pytest.mark.parametrize(
    ("questions", "message"),
    [
        ([(SENTENCE, "7"), (SENTENCE.upper(), "8")], "1 questions have several answers, such as .*: 7 and 8"),
        ([(SENTENCE, "7"), ("And how many pears?", "8"), ("Total", "15")], "1 questions are one word, such as 'Total'"),
        ([(SENTENCE, "7"), (SENTENCE, "7.0")], None), ([("Total", "1"), ("Sum", "2")], None),
        ([(SENTENCE, "7"), ("7+8", "15")], None),
    ],
)  # fmt: skip
def test_totals_and_questions_with_two_answers_are_refused(
    questions: list[tuple[str, str]], message: str | None
) -> None:
    records = [{"question": question, "answer": answer} for question, answer in questions]
    if message is None:
        check_questions("p.csv", records)
        return
    with pytest.raises(UserError, match=message):
        check_questions("p.csv", records)


def test_labels_in_two_columns_or_spellings_are_refused() -> None:
    path = Path("labels.csv")
    rows = [{"id": "1", "label": "Yes", "adjudicated": "No"}, {"id": "2", "label": "No", "adjudicated": "No"}]
    with pytest.raises(UserError, match="column adjudicated has labels as well, which differ"):
        check_label_columns(path, rows)
    check_label_columns(path, [{**row, "adjudicated": row["label"], "resolves": "no"} for row in rows])
    check_label_columns(path, [{**row, "adjudicated": "round 1"} for row in rows])
    with pytest.raises(UserError) as error:
        check_spellings(path, [{"id": "100", "annotator": "Ann"}, {"id": "100.0", "annotator": "ann "}])
    assert "such as 100 and 100.0" in error.value.lines and "such as Ann and ann" in error.value.lines
    check_spellings(path, [{"id": 100, "annotator": "Ann"}, {"id": "10", "annotator": "Ben"}])


def test_several_choices_for_one_request_are_refused(tmp_path: Path) -> None:
    choice = {"message": {"role": "assistant", "content": "Why?"}}
    record = {"custom_id": "a", "response": {"status_code": 200, "body": {"choices": [choice]}}}
    path = tmp_path / "batch.jsonl"
    path.write_text(json.dumps(record), encoding="utf-8")
    read_foreign_replies(path)
    record["response"]["body"]["choices"].append(choice)  # type: ignore[index]
    path.write_text(json.dumps(record), encoding="utf-8")
    with pytest.raises(UserError, match="1 records have several choices"):
        read_foreign_replies(path)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["0", "1"], "column preference has only 0 .1. and 1 .1., and 0 is a tie"), (["model_a", "tie"], "unknown preferences: 'model_a' .1.*values to .'model_a': [.]{3}, 'tie': tie., with first, second or tie in place"),
        (["first", "tie"], None),
    ],
)  # fmt: skip
def test_words_of_preferences_are_known(tmp_path: Path, words: list[str], message: str | None) -> None:
    entry = PreferenceSet(title="Ours", licence="ours", file="ours.csv", loader="table")
    records = [{"preference": word} for word in words]
    if message is None:
        check_choices(tmp_path / "ours.csv", "ours", entry, records)
        return
    with pytest.raises(UserError, match=message):
        check_choices(tmp_path / "ours.csv", "ours", entry, records)


def test_words_for_yes_in_other_languages_are_a_doubt(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"column resolves has 'oui' \(1\)"):
        check_resolves(tmp_path / "ours.csv", [{"resolves": "oui"}, {"resolves": "no"}, {"resolves": ""}])


RECORDED: dict[str, tuple[str, str]] = {
    "gold beside predictions": ("id,question,prediction,answer\n1,x,7,8\n", "name the column of the model's own replies `reply`"),
    "two tutors": ("id,reply,tutor\n1,x,a\n2,y,b\n", "column tutor names 2 tutors: a, b"),
    "failed calls": ("id,reply\n1,ERROR: 429 Too Many Requests\n2,Error: you divided by 3\n", "1 replies are values of programs without a text"),
    "failed cells": ("id,reply\n1,#NAME?\n2,NaN\n3,y\n", "2 replies are values of programs without a text, such as #NAME"),
}  # fmt: skip


@pytest.mark.parametrize("case", RECORDED)
def test_recorded_replies_in_doubt_are_refused(tmp_path: Path, case: str) -> None:
    content, message = RECORDED[case]
    path = tmp_path / "replies.csv"
    path.write_text(content, encoding="utf-8")
    with pytest.raises(UserError, match=re.escape(message)):
        read_recorded(path, tmp_path)


def test_a_resolver_who_differs_from_the_only_annotator_is_a_doubt(tmp_path: Path) -> None:
    labels = tmp_path / "ours.csv"
    head, first = GOOD.splitlines()
    labels.write_text(f"{head},resolves\n{first},\n{first.replace('Yes,7', 'No,8')},yes\n", encoding="utf-8")
    with pytest.raises(UserError, match=r"1 labels of a resolver differ from those of a single annotator \(first: 1\)"):
        for _, read in checks_of_readings(plan_with(labels)):
            read()
