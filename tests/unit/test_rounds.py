"""Tests of the rounds of `maieutic run --stop-at`: their limits, their end, and what continues an interrupted one."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from maieutic.config.settings import read_config
from maieutic.core import paths
from maieutic.core.errors import UserError
from maieutic.core.records import write_records
from maieutic.launch import rounds
from maieutic.launch.config_files import merged_configuration
from maieutic.run_plan import plan_of
from maieutic.scores.anytime import MeanBounds
from maieutic.scores.stage import check_stop_width
from shipped import shipped

CONFIG = {"run": {"tutors": ["echo"], "tasks": ["mathtutorbench/problem_solving"]}}
Rounds = Callable[..., list[int | None]]


@pytest.fixture
def limits_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Rounds:
    """Return a function that runs all rounds with intervals of known widths, and returns their limits."""
    (tmp_path / "run.yaml").write_text(json.dumps(CONFIG), encoding="utf-8")
    (tmp_path / "resources").symlink_to(Path("resources").absolute())
    monkeypatch.chdir(tmp_path)

    def run(population: int, narrow: int, codes: dict[int, int] | None = None) -> list[int | None]:
        """Run rounds. narrow: number of items from which intervals are narrow; codes: exit codes by round."""
        limits: list[int | None] = []

        def start(more: Path) -> int:
            overlay = json.loads(more.read_text(encoding="utf-8"))["run"]
            limits.append(overlay["limit"])
            saved = read_config(merged_configuration([Path("run.yaml"), more])).run.model_dump(mode="json")
            Path("results/report").mkdir(parents=True, exist_ok=True)
            Path("results/report/config.yaml").write_text(yaml.safe_dump({"run": saved}), encoding="utf-8")
            n = min(overlay["limit"] or population, population)
            high = 0.05 if n >= narrow else 0.5
            bounds = MeanBounds(
                benchmark="mathtutorbench", task="problem_solving", tutor="echo", metric="accuracy", by=None, value=0.0,
                low=0.0, high=high, n=n, population=population, requests_left=population - n, limit=overlay["limit"],
            )  # fmt: skip
            write_records(Path(paths.MEAN_BOUNDS.of(benchmark="mathtutorbench")), [bounds])
            return (codes or {}).get(len(limits), 0)

        try:
            rounds.run_in_rounds(Path("run.yaml"), 0.06, start)
        except SystemExit as end:
            assert end.code in (codes or {}).values()
        return limits

    return run


def test_rounds_grow_until_the_intervals_are_narrow(limits_of: Rounds) -> None:
    assert limits_of(1150, narrow=150) == [50, 75, 113, 170]


def test_the_last_round_asks_all_items_without_a_limit(limits_of: Rounds) -> None:
    assert limits_of(150, narrow=1000) == [50, 75, 113, None]
    assert limits_of(24, narrow=1000)[-1] is None


def test_an_interrupted_round_is_continued(limits_of: Rounds) -> None:
    """A round that waits for batches, or was killed, is the next call's first one: the stop is the same."""
    assert limits_of(1150, narrow=150, codes={3: 75}) == [50, 75, 113]
    assert limits_of(1150, narrow=150) == [113, 170]
    assert limits_of(1150, narrow=150) == [170], "a finished run asks nothing anew"


def test_a_run_without_a_mean_is_refused_before_anything_is_asked() -> None:
    config = shipped()
    config["run"] |= {"tutors": ["echo"], "tasks": ["mathtutorbench/solution_correctness"], "stop_width": 0.06}
    with pytest.raises(UserError, match="no headline of this run is a mean"):
        check_stop_width(plan_of(config))
    config["run"]["tasks"] += ["mathtutorbench/problem_solving"]
    check_stop_width(plan_of(config))
