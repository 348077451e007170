"""Tests of the ranking: which tasks lead, who is ahead of whom, the finding, and that the run file's order is no matter."""

from __future__ import annotations

import itertools
import json
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from maieutic.config.settings import Config
from maieutic.core.records import Difference, ReportedScore
from maieutic.plan.plan import Plan
from maieutic.report.contrasts import Contrast, contrast_of
from maieutic.report.head import chips_of
from maieutic.report.overview import price_picture, prices, shares_won
from maieutic.report.ranking import (
    NOT_COMPARED,
    RankedTask,
    Ranking,
    ahead_relation,
    complete_block,
    floor_counts,
    is_at_floor,
    rank_tutors,
    ranks_from,
)
from maieutic.report.sections import ReportInput
from maieutic.report.tables import selected_cards
from maieutic.report.traffic_light import Light
from run_configs import check_config
from running import NO_GRADERS
from shipped import shipped

BENCHMARK = "mathtutorbench"
TASKS = ("problem_solving", "solution_correctness", "mistake_location")
METRICS = {"problem_solving": "accuracy", "solution_correctness": "f1", "mistake_location": "micro_f1"}
JUDGED = "mrbench/mistake_remediation"


def contrast(first: str, second: str, verdict: str) -> Contrast:
    pair = Difference(
        benchmark=BENCHMARK, task="problem_solving", first=first, second=second, metric="accuracy", criterion=None,
        by=None, scoring="robust", value=0.1, low=None, high=None, p=None, n=9, clusters=9,
    )  # fmt: skip
    return Contrast(pair, verdict, None, None)  # type: ignore[arg-type]


AHEAD: list[tuple[str, str, list[Contrast], dict[str, tuple[int, int]]]] = [
    ("nothing decided", "ab", [contrast("a", "b", "OPEN")], {"a": (1, 2), "b": (1, 2)}),
    ("one better", "ab", [contrast("a", "b", "BETTER")], {"a": (1, 1), "b": (2, 2)}),
    ("seen from the other side", "ab", [contrast("b", "a", "WORSE")], {"a": (1, 1), "b": (2, 2)}),
    ("better and worse", "ab", [contrast("a", "b", "BETTER"), contrast("a", "b", "WORSE")], {"a": (1, 2), "b": (1, 2)}),
    ("better and equivalent", "ab", [contrast("a", "b", "BETTER"), contrast("a", "b", "EQUIVALENT")],
     {"a": (1, 1), "b": (2, 2)}),
    ("through a third", "abc", [contrast("a", "b", "BETTER"), contrast("b", "c", "BETTER"), contrast("a", "c", "OPEN")],
     {"a": (1, 1), "b": (2, 2), "c": (3, 3)}),
    ("a cycle", "abc", [contrast("a", "b", "BETTER"), contrast("b", "c", "BETTER"), contrast("c", "a", "BETTER")],
     {"a": (1, 3), "b": (1, 3), "c": (1, 3)}),
    ("a cycle ahead of a fourth", "abcd", [contrast("a", "b", "BETTER"), contrast("b", "c", "BETTER"),
     contrast("c", "a", "BETTER"), contrast("c", "d", "BETTER")],
     {"a": (1, 3), "b": (1, 3), "c": (1, 3), "d": (4, 4)}),
    ("no pair", "a", [], {"a": (1, 1)}),
]  # fmt: skip


@pytest.mark.parametrize(("why", "names", "contrasts", "ranks"), AHEAD, ids=[case[0] for case in AHEAD])
def test_ranks_follow_from_who_is_ahead_of_whom(
    why: str, names: str, contrasts: list[Contrast], ranks: dict[str, tuple[int, int]]
) -> None:
    for order in itertools.permutations(names):
        assert ranks_from(order, ahead_relation(order, contrasts)) == ranks, why


def keys(*tasks: str) -> set[tuple[str, str]]:
    return {(BENCHMARK, task) for task in tasks}


BLOCKS: list[tuple[str, dict[str, set[tuple[str, str]]], str, Sequence[str], str]] = [
    ("everything is there", {"a": keys(), "b": keys()}, "xy", "ab", "xy"),
    ("one tutor lacks most tasks", {"a": keys(), "b": keys(), "c": keys("x", "y")}, "xyz", "ab", "xyz"),
    ("one task lacks most tutors", {"a": keys("x"), "b": keys("x"), "c": keys()}, "xyz", "abc", "yz"),
    ("as much of a task as of a tutor", {"a": keys(), "b": keys("x")}, "xy", "ab", "y"),
    ("a tutor without any value", {"a": keys(), "b": keys(), "c": keys("x")}, "x", "ab", "x"),
    (
        "what was left out early fits in the end",
        {"t0": keys("0"), "t1": keys("2"), "t2": keys("0", "1"), "t3": keys("1")},
        "012",
        ["t0", "t2", "t3"],
        "2",
    ),
    (
        "a task that was left out early fits in the end",
        {"t0": keys(), "t1": keys("1", "2"), "t2": keys("1", "3"), "t3": keys("0")},
        "0123",
        ["t0", "t3"],
        "123",
    ),
    ("nobody has a value", {"a": keys("x"), "b": keys("x")}, "x", "", ""),
    ("no task leads", {"a": keys(), "b": keys()}, "", "", ""),
]


@pytest.mark.parametrize(("why", "lacking", "tasks", "ranked", "leading"), BLOCKS, ids=[case[0] for case in BLOCKS])
def test_every_ranked_tutor_has_a_value_on_each_leading_task(
    why: str, lacking: dict[str, set[tuple[str, str]]], tasks: str, ranked: Sequence[str], leading: str
) -> None:
    for names, order in itertools.product(itertools.permutations(lacking), itertools.permutations(tasks)):
        block = complete_block({name: lacking[name] for name in names}, [(BENCHMARK, task) for task in order])
        assert block == (frozenset(ranked), frozenset(keys(*leading))), why


# whole runs -----------------------------------------------------------------------------------------------------------


def configuration(tutors: list[str], tasks: list[str], **run: Any) -> Config:
    config = shipped()
    for name in tutors:
        config["models"].setdefault(name, {"engine": "hosted", "model": "m", "base_url": "http://x/v1"})
    config["run"] |= {"tutors": tutors, "tasks": tasks, **NO_GRADERS, **run}
    return check_config(config)


def score(tutor: str, task: str, value: float | None, **more: Any) -> ReportedScore:
    low, high = (None, None) if value is None else (max(0.0, value - 0.03), min(1.0, value + 0.03))
    fields = {"low": low, "high": high, "n": 400, "missing": 0, "clusters": 400, **more}
    metric = METRICS.get(task, "damr")
    return ReportedScore(task=task, tutor=tutor, metric=metric, scoring="robust", headline=True, value=value, **fields)


def write_differences(folder: Path, scores: list[ReportedScore], tutors: list[str], benchmark: str = BENCHMARK) -> None:
    """Write the difference of each two tutors, in the order of `tutors`, with a standard error of 0.02."""
    values = {(entry.tutor, entry.task): entry.value for entry in scores}
    entries = []
    for task in dict.fromkeys(entry.task for entry in scores):
        for first, second in itertools.combinations([name for name in tutors if (name, task) in values], 2):
            gap = (values[first, task] or 0.0) - (values[second, task] or 0.0)
            entries.append(
                Difference(
                    benchmark=benchmark, task=task, first=first, second=second, metric=METRICS.get(task, "damr"),
                    criterion=None, by=None, scoring="robust", value=gap, low=gap - 0.04, high=gap + 0.04, p=0.5,
                    centre=gap, error=0.02, largest=1.0, n=400, clusters=400,
                ).model_dump()
            )  # fmt: skip
    path = folder / f"scores/differences/{benchmark}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(entries), encoding="utf-8")


def ranked(
    folder: Path, tutors: list[str], scores: list[ReportedScore], tasks: tuple[str, ...] = TASKS, colour: str = "green"
) -> Ranking:
    """Return the ranking with chips of a run of MathTutorBench under the robust scoring."""
    plan = Plan(configuration(tutors, [f"{BENCHMARK}/{task}" for task in tasks]))
    write_differences(folder, scores, tutors)
    by_benchmark = {BENCHMARK: scores}

    def light(*args: object) -> Light:
        return Light(colour, "kappa 0.2")

    ranking = rank_tutors(plan, folder, by_benchmark, light).by_scoring["robust"]
    chips = chips_of(ReportInput(plan, folder, by_benchmark, None), ranking, selected_cards(plan), light, [])
    return ranking.model_copy(update={"chips": chips})


def task_of(ranking: Ranking, name: str) -> RankedTask:
    return next(task for task in ranking.tasks if task.task == name)


def test_a_leader_is_named_with_its_extent(tmp_path: Path) -> None:
    scores = [score(name, task, value) for name, value in (("a", 0.5), ("b", 0.9), ("c", 0.7)) for task in TASKS]
    ranking = ranked(tmp_path, ["a", "b", "c"], scores)
    assert ranking.sentence == (
        "b comes first, ahead of all 2 other tutors; before c by +0.20 [+0.14, +0.26] on Solution correctness"
        " (0.90 against 0.70)"
    )
    assert ranking.leaders == ["b"]
    assert [(row.tutor, row.best, row.worst) for row in ranking.tutors] == [("b", 1, 1), ("c", 2, 2), ("a", 3, 3)]
    assert all(task.leaders == ["b"] for task in ranking.tasks) and len(ranking.comparisons) == 9


def test_tutors_that_cannot_be_told_apart_stay_together(tmp_path: Path) -> None:
    values = {"a": 0.80, "b": 0.81, "c": 0.79, "d": 0.80}
    scores = [score(name, task, value) for name, value in values.items() for task in TASKS]
    ranking = ranked(tmp_path, [*values], scores)
    assert ranking.sentence == "4 of 4 tutors may be first" and ranking.leaders == ["a", "b", "c", "d"]
    assert all(task.leaders == [] for task in ranking.tasks), "none is better than another"
    assert all(comparison.decisive or not comparison.value for comparison in ranking.comparisons)


def test_one_pair_has_points_and_interval(tmp_path: Path) -> None:
    ranking = ranked(tmp_path, ["a", "b"], [score("a", TASKS[0], 0.6), score("b", TASKS[0], 0.9)], TASKS[:1])
    assert ranking.sentence == "b is ahead of a on Problem solving: +0.30 [+0.26, +0.34] (0.90 against 0.60)"
    ranking = ranked(tmp_path, ["a", "b"], [score("a", TASKS[0], 0.9), score("b", TASKS[0], 0.87)], TASKS[:1])
    assert (
        ranking.sentence
        == "a and b cannot be distinguished on Problem solving: +0.03 [-0.01, +0.07] (0.90 against 0.87)"
    )
    mixed = [score("a", TASKS[0], 0.9), score("b", TASKS[0], 0.6), score("a", TASKS[1], 0.6), score("b", TASKS[1], 0.9)]
    ranking = ranked(tmp_path, ["a", "b"], mixed, TASKS[:2])
    assert "on a level" in ranking.sentence and ranking.leaders == ["a", "b"]


def test_a_task_that_does_not_separate_does_not_lead(tmp_path: Path) -> None:
    values = {"a": 0.5, "b": 0.9}
    scores = [score(name, TASKS[0], value) for name, value in values.items()]
    scores += [score(name, TASKS[1], value, floor=0.77, ceiling=0.76) for name, value in values.items()]
    scores += [score(name, TASKS[2], value / 2, floor=0.66, ceiling=1.0) for name, value in values.items()]
    ranking = ranked(tmp_path, ["a", "b"], scores)
    assert [task.leads for task in ranking.tasks] == [task.task == TASKS[0] for task in ranking.tasks]
    texts = [chip.text for chip in ranking.chips if chip.state == "bad"]
    assert any(text.startswith("Solution correctness does not separate: a trivial tutor (0.77)") for text in texts)
    assert any(text.startswith("On Mistake location no tutor beats") for text in texts)
    assert {comparison.task for comparison in ranking.comparisons} == {TASKS[0]}


def test_a_tutor_below_its_floor_is_named(tmp_path: Path) -> None:
    scores = [score("a", TASKS[0], 0.4, floor=0.5, ceiling=1.0), score("b", TASKS[0], 0.9, floor=0.5, ceiling=1.0)]
    ranking = ranked(tmp_path, ["a", "b"], scores, TASKS[:1])
    assert "a: not above a trivial tutor on Problem solving" in [chip.text for chip in ranking.chips[:3]]
    assert ranking.leaders == ["b"] and ranking.tutors[1].at_floor == [f"{BENCHMARK}/{TASKS[0]}"]


def test_a_red_judge_decides_nothing(tmp_path: Path) -> None:
    tutors = ["a", "b"]
    config = configuration(tutors, [JUDGED, f"{BENCHMARK}/{TASKS[0]}"], judges=["demo-judge"])
    plan = Plan(config)
    scores = {
        BENCHMARK: [score("a", TASKS[0], 0.6), score("b", TASKS[0], 0.6)],
        "mrbench": [score("a", "mistake_remediation", 0.9), score("b", "mistake_remediation", 0.3)],
    }
    for benchmark, entries in scores.items():
        write_differences(tmp_path, entries, tutors, benchmark)
    for colour, leads in (("red", False), ("amber", True), ("none", True)):

        def light(*args: object, colour: str = colour) -> Light:
            return Light(colour, "weighted kappa 0.12")

        ranking = rank_tutors(plan, tmp_path, scores, light).by_scoring["robust"]
        judged = task_of(ranking, "mistake_remediation")
        assert (judged.leads, judged.light) == (leads, colour)
        assert (ranking.leaders == ["a"]) == leads
        chips = chips_of(ReportInput(plan, tmp_path, scores, None), ranking, selected_cards(plan), light, [])
        [chip] = [chip for chip in chips if chip.text.startswith("Judge ")]
        assert chip.state == ("bad" if colour == "red" else "doubtful") and "weighted kappa 0.12" in chip.text


def test_who_lacks_a_leading_task_is_not_ranked(tmp_path: Path) -> None:
    values = {"a": 0.5, "b": 0.9, "c": 0.7}
    scores = [score(name, task, value) for name, value in values.items() for task in TASKS]
    scores += [score("d", TASKS[0], 0.99), score("d", TASKS[1], 0.99, n=40, missing=360)]
    ranking = ranked(tmp_path, [*values, "d"], scores)
    assert ranking.leaders == ["b"] and [row.tutor for row in ranking.tutors][-1] == "d"
    assert "too few answers, or none, on Solution correctness and Mistake location" in str(ranking.tutors[-1].reason)


def test_a_baseline_of_the_run_is_no_competitor(tmp_path: Path) -> None:
    scores = [score(name, TASKS[0], value) for name, value in (("a", 0.5), ("b", 0.9), ("reference", 1.0))]
    ranking = ranked(tmp_path, ["reference", "a", "b"], scores, TASKS[:1])
    assert ranking.leaders == ["b"] and {row.tutor for row in ranking.tutors} == {"a", "b"}


def test_where_less_is_better_the_floor_is_the_lowest_trivial_value() -> None:
    for value, at_floor in ((0.10, False), (0.50, True), (0.60, True)):
        assert is_at_floor(score("a", TASKS[0], value, floor=0.5), higher_is_better=False) == at_floor
    fields = {"benchmark": BENCHMARK, "task": TASKS[0], "title": "t", "metric": "m", "higher_is_better": False}
    task = RankedTask(**fields, floor=0.5, leads=True)
    counts = floor_counts("a", [task], {("a", task.key): score("a", TASKS[0], 0.1, floor=0.5)}, [])
    assert counts == {"above_floor": 0, "with_floor": 0, "at_floor": []}, "not compared"


@pytest.mark.parametrize(("gaps", "number"), [
    ({"always-0": 0.5, "echo": 0.5}, 1), ({"always-0": 0.5, "echo": 0.041}, 0), ({"always-0": 0.041}, 0), ({"always-0": 0.05}, 1),
])  # fmt: skip
def test_a_tutor_is_above_its_floor_if_it_is_better_than_each_trivial_one(gaps: dict[str, float], number: int) -> None:
    """A gap of 0.041 has a 95 % interval above 0, but not beside the comparisons of the same family."""
    contrasts = [
        contrast_of(
            Difference(
                benchmark=BENCHMARK, task=TASKS[0], first="a", second=floor, metric="accuracy", criterion=None, by=None,
                scoring="robust", value=gap, low=gap - 0.04, high=gap + 0.04, p=0.04, centre=gap, error=0.02, largest=1.0,
                n=400, clusters=400,
            ), True, 0.05, 2,
        )
        for floor, gap in gaps.items()
    ]  # fmt: skip
    counts = floor_counts("a", [], {}, contrasts)
    assert (counts["above_floor"], counts["with_floor"]) == (number, 1)


def test_a_task_whose_comparisons_are_missing_does_not_lead(tmp_path: Path) -> None:
    scores = [score(name, task, value) for name, value in (("a", 0.5), ("b", 0.9)) for task in TASKS[:2]]
    plan = Plan(configuration(["a", "b"], [f"{BENCHMARK}/{task}" for task in TASKS[:2]]))
    write_differences(tmp_path, [entry for entry in scores if entry.task == TASKS[0]], ["a", "b"])
    ranking = rank_tutors(plan, tmp_path, {BENCHMARK: scores}, lambda *args: Light("green", "")).by_scoring["robust"]
    assert task_of(ranking, TASKS[1]).reason == NOT_COMPARED and task_of(ranking, TASKS[0]).leads


def test_a_run_in_which_nothing_can_be_ranked_names_the_reason(tmp_path: Path) -> None:
    few = [score(name, TASKS[0], 0.5, n=40, missing=360) for name in ("a", "b")]
    assert ranked(tmp_path, ["a", "b"], few, TASKS[:1]).sentence.endswith("enough graded items on the tasks that lead")
    alone = [score("a", TASKS[0], 0.5, low=None, high=None, floor=0.2)]
    assert "no value that can be compared with a trivial tutor" in ranked(tmp_path, ["a"], alone, TASKS[:1]).sentence


@pytest.mark.parametrize("seed", range(8))
def test_the_order_of_the_run_file_changes_nothing(seed: int, tmp_path: Path) -> None:
    """Runs of random make-up: values, floors, ceilings, missing items; three orders of tutors and tasks each."""
    chance = random.Random(seed)
    tutors = [f"t{number}" for number in range(chance.randint(1, 7))]
    tasks = TASKS[: chance.randint(1, 3)]
    floors = {task: chance.choice([(None, None), (0.2, 1.0), (0.77, 0.76)]) for task in tasks}
    scores = [
        score(
            name, task, round(chance.random(), 2), floor=floors[task][0], ceiling=floors[task][1],
            missing=chance.choice([0, 0, 0, 300]), doubtful=chance.choice([0, 30]), best=chance.choice([None, 1.0]),
        )
        for name in tutors for task in tasks if chance.random() < 0.9
    ]  # fmt: skip
    rankings = []
    for number in range(3):
        chance.shuffle(tutors)
        chance.shuffle(scores)
        rankings.append(
            ranked(tmp_path / str(number), list(tutors), list(scores), tuple(chance.sample(tasks, len(tasks))))
        )
    assert all(other == rankings[0] for other in rankings[1:])
    assert rankings[0].sentence and set(rankings[0].leaders) == {
        row.tutor for row in rankings[0].tutors if row.best == 1
    }


# prices ---------------------------------------------------------------------------------------------------------------


def test_price_stands_against_the_share_of_comparisons_won(tmp_path: Path) -> None:
    values = {"a": 0.5, "b": 0.9, "c": 0.7}
    scores = [score(name, task, value) for name, value in values.items() for task in TASKS]
    ranking = ranked(tmp_path, [*values], scores)
    assert shares_won(ranking) == {"a": 0.0, "b": 1.0, "c": 0.5}
    plan = Plan(configuration([*values], [f"{BENCHMARK}/{task}" for task in TASKS]))
    runtime = pd.DataFrame(
        [{"benchmark": BENCHMARK, "tutor": name, "usd": usd} for name, usd in (("a", 1.0), ("b", 2.0), ("c", None))]
    )
    usd = prices(plan, runtime, {(BENCHMARK, task): 50 for task in TASKS})
    assert usd == {"a": pytest.approx(100 / 150), "b": pytest.approx(200 / 150)}, "c has no price"
    picture = price_picture(ranking, usd)
    assert (
        picture.startswith("<svg") and "share of comparisons won" in picture and "US dollars for 100 items" in picture
    )
    assert price_picture(ranking, {"a": 0.1}) == "" and price_picture(ranking, {"a": 0.0, "b": 0.1}) == ""


def test_one_remark_stands_for_many_tasks_and_tutors(tmp_path: Path) -> None:
    values = {"a": 0.1, "b": 0.2, "c": 0.15}
    floors = {"floor": 0.5, "ceiling": 1.0, "unreadable": 300}
    scores = [score(name, task, value, **floors) for name, value in values.items() for task in TASKS]
    texts = [chip.text for chip in ranked(tmp_path, [*values], scores).chips]
    assert sum("no tutor beats a trivial one" in text for text in texts) == 1
    assert "3 tutors: less than 80\u00a0% of the answers can be used on at least one task (a, b and c)" in texts
