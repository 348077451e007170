"""Tests of linked problems: do the problems pair one to one, and is the association what an independent way computes?"""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from maieutic.benchmarks.mathtutorbench.section import SCAFFOLDING, SOLVING, linked_rows
from maieutic.core import paths
from maieutic.core.records import Grade, Item, write_records
from maieutic.datasets.registry import LOADERS
from maieutic.rewards.grading import WINS

BENCHMARK, TUTOR, REWARD = "mathtutorbench", "t", "rm"
FILES = {
    SCAFFOLDING: ("mathtutorbench/datasets/mathdial_bridge.json", "mathdial_bridge"),
    SOLVING[0]: ("stepverify/dataset.json", "stepverify_correction"),
    SOLVING[1]: ("stepverify/dataset.json", "stepverify_correctness"),
}


@pytest.fixture(scope="module")
def items(data: Path) -> dict[str, list[Item]]:
    """Return the published items of the three tasks."""
    records = {file: json.loads((data / file).read_text(encoding="utf-8")) for file, _ in FILES.values()}
    return {task: LOADERS[loader].load(records[file], task) for task, (file, loader) in FILES.items()}


def test_the_problems_pair_one_to_one(items: dict[str, list[Item]]) -> None:
    texts = {task: {item.cluster: item.vars["question"] for item in of_task} for task, of_task in items.items()}
    for task in SOLVING:
        assert len(texts[task]) == 612 == len({item.vars["question"] for item in items[task]})
        assert all(texts[SCAFFOLDING][problem] == text for problem, text in texts[task].items())


def test_the_association_is_that_of_an_independent_way(
    items: dict[str, list[Item]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    draw = np.random.default_rng(9)
    rows: list[dict[str, Any]] = []
    for task, of_task in items.items():
        write_records(Path(paths.ITEMS.within(tmp_path, benchmark=BENCHMARK, task=task)), of_task)
        for item in of_task:
            outcome = draw.choice([True, False, None], p=[0.7, 0.28, 0.02])
            rows.append({"task": task, "id": item.id, "problem": item.cluster, "right": outcome})
    table = pd.DataFrame(rows)

    def grades(of_rows: pd.DataFrame, **fields: Any) -> list[Grade]:
        return [
            Grade(id=row.id, task=row.task, scoring="robust", value=row.right, correct=row.right, raw="", **fields)
            for row in of_rows.itertuples()
        ]

    pattern = paths.REWARD_GRADES.within(tmp_path, benchmark=BENCHMARK, reward_model=REWARD, tutor=TUTOR)
    scaffolding = table[table.task == SCAFFOLDING]
    write_records(Path(pattern), grades(scaffolding, kind="reward", by=REWARD, criterion=WINS[0]))
    parsed = paths.PARSED.within(tmp_path, benchmark=BENCHMARK, tutor=TUTOR)
    write_records(Path(parsed), grades(table[table.task != SCAFFOLDING], kind="yes_no"))
    cards = [SimpleNamespace(task=task, title=task) for task in items]
    plan: Any = SimpleNamespace(
        benchmarks={BENCHMARK: [SimpleNamespace(card=card) for card in cards]},
        reward_cards=lambda benchmark: cards[:1],
        run=SimpleNamespace(tutors=[TUTOR], reward_models=[REWARD]),
        card=lambda benchmark, task: next(card for card in cards if card.task == task),
        bootstrap_settings={"resamples": 100, "seed": 1},
    )
    monkeypatch.setattr("maieutic.benchmarks.mathtutorbench.section.display_label", lambda plan, name: name)
    linked = linked_rows(SimpleNamespace(plan=plan, results=tmp_path))  # type: ignore[arg-type]
    assert [row["task"] for row in linked] == [*SOLVING]
    # Compute it with pandas: without a grade, a win is missing, and a solution counts as wrong.
    wins = scaffolding.dropna(subset="right").astype({"right": float}).groupby("problem").right.mean()
    for row in linked:
        solving = table[table.task == row["task"]].assign(right=lambda of_task: of_task.right.eq(True))
        joined = solving.groupby("problem").right.all().rename("solved").to_frame().join(wins, how="inner")
        means = joined.groupby("solved").right.mean()
        assert row["estimate"].value == pytest.approx(means[True] - means[False], abs=1e-9)
        assert row["problems"] == [int(joined.solved.sum()), int((~joined.solved).sum())]
        assert row["estimate"].interval.low < row["estimate"].value < row["estimate"].interval.high
    # A tutor that solves no problem has a row without a difference.
    table.loc[table.task == SOLVING[0], "right"] = False
    write_records(Path(parsed), grades(table[table.task != SCAFFOLDING], kind="yes_no"))
    none_solved = linked_rows(SimpleNamespace(plan=plan, results=tmp_path))[0]  # type: ignore[arg-type]
    assert none_solved["problems"][0] == 0 and none_solved["solved"] is None
    assert none_solved["estimate"].value is None and none_solved["unsolved"] == pytest.approx(
        wins.loc[joined.index].mean()
    )
