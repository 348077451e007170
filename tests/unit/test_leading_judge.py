"""Tests of the choice of a run's leading judge by people's labels."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from maieutic.core.records import Judgement, Scale, Verdict, write_records
from maieutic.scores.score import judges_by_lead
from maieutic.validation.leading_judge import ChooseJudge, choose_judge

CRITERION = "Actionability"
SCALE = Scale(labels=("Yes", "To some extent", "No"), desired="Yes")


def choice(folder: Path, count: int, judges: dict[str, Any], counts: dict[str, int] | None = None) -> dict[str, Any]:
    """Return the choice among judges. judges: verdict of each judge by the number of the item; people always say Yes; counts: number of items
    that a judge was asked about, if not all.
    """
    task = "t"
    people = folder / "people.csv"
    lines = [f"{task},i{number},bob,{CRITERION},Yes" for number in range(count)]
    people.write_text("\n".join(["task,item,tutor,criterion,label", *lines]) + "\n", encoding="utf-8")
    files = []
    for name, verdict_on in judges.items():
        files.append(folder / f"{name}.jsonl")
        write_records(
            files[-1],
            [
                Judgement(
                    id=f"i{number}", task="other" if name == "elsewhere" else task, tutor="bob", rubric="r", key="k",
                    raw="", verdicts=[Verdict(criterion=CRITERION, value=verdict_on(number))],
                )
                for number in range((counts or {}).get(name, count + 10))
            ],
        )  # fmt: skip
    job = ChooseJudge(judges=list(judges), scales={task: {CRITERION: SCALE}}, resamples=50, seed=1)
    choose_judge(job=job, verdicts=files, people=people, out=folder / "out.json")
    result: dict[str, Any] = json.loads((folder / "out.json").read_text(encoding="utf-8"))
    return result


def test_the_judge_that_agrees_most_often_leads(tmp_path: Path) -> None:
    """An unreadable verdict disagrees, and a judge of other replies is no candidate."""
    judges = {
        "half": lambda number: "Yes" if number % 2 else "No",
        "silent": lambda number: None if number % 3 == 0 else "Yes",
        "elsewhere": lambda number: "Yes",
        "good": lambda number: "Yes" if number % 10 else "No",
    }
    chosen = choice(tmp_path, 100, judges)
    assert chosen["leader"] == "good" and chosen["enough"]
    assert [row["judge"] for row in chosen["rows"]] == ["half", "silent", "good"]
    by_judge = {row["judge"]: row for row in chosen["rows"]}
    for name, rate in (("half", 50), ("silent", 66), ("good", 90)):
        halves = [by_judge[name][half] for half in ("chosen_on", "shown_on")]
        assert [half["n"] for half in halves] == [50, 50]
        assert round(sum(half["value"] * half["n"] for half in halves)) == rate
        assert all(half["low"] <= half["value"] <= half["high"] for half in halves)


def test_too_few_labels_choose_nothing(tmp_path: Path) -> None:
    judges = {"bad": lambda number: "No", "good": lambda number: "Yes"}
    chosen = choice(tmp_path, 38, judges)
    assert (chosen["leader"], chosen["enough"]) == ("bad", False), "19 labels on the half that would choose"
    assert (choice(tmp_path, 40, judges)["leader"]) == "good"


def test_a_judge_of_few_labelled_replies_is_no_candidate(tmp_path: Path) -> None:
    judges = {"bad": lambda number: "No", "few": lambda number: "Yes", "good": lambda number: "Yes"}
    chosen = choice(tmp_path, 100, judges, counts={"few": 1})
    assert chosen["leader"] == "good" and [row["judge"] for row in chosen["rows"]] == ["bad", "good"]


def test_the_leader_is_the_first_of_its_task() -> None:
    assert judges_by_lead(["one", "two", "three"], {"two"}) == ["two", "one", "three"]
    assert judges_by_lead(["one", "three"], {"two"}) == ["one", "three"] and judges_by_lead(None, {"two"}) is None
