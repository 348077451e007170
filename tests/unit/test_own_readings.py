"""Tests of the user's files at a run's start: each is read by the job that will read it, and faults name file and row."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from maieutic.core.errors import UserError
from maieutic.launch.preflight import idle_judge_lines
from maieutic.preparation.own_readings import checks_of_readings, preview_of_own_files
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
