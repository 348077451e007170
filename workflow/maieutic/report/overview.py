"""The first screen: every tutor over all benchmarks, what may be said of the best two, what it rests on, what lacks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import pandas as pd

from maieutic.config.cards import Card
from maieutic.config.models import BaselineModel
from maieutic.core.records import ReportedScore
from maieutic.plan.plan import Plan
from maieutic.replies.answered import Answered
from maieutic.report.contrasts import Contrast, Verdict, leading_pair, seen_from
from maieutic.report.tables import label_of

OVERALL = "overall"  # the metric of a pool that stands for its benchmark
NAMED = 4  # tasks, or tutors, that a sentence names
Headlines = Mapping[tuple[str, str], ReportedScore]  # of one benchmark, by task and tutor


class Summary(NamedTuple):
    """A tutor's value on a whole benchmark, with an interval, the floor and the ceiling where every task has one."""

    value: float
    low: float | None
    high: float | None
    floor: float | None
    ceiling: float | None


def distinct_labels(plan: Plan) -> dict[str, str]:
    """The labels of a run's tutors; those that several tutors share are told apart by their names."""
    labels = {name: label_of(plan, name) for name in plan.tutors}
    shared = Counter(labels.values())
    return {name: f"{label} ({name})" if shared[label] > 1 else label for name, label in labels.items()}


def mean(numbers: Iterable[float | None]) -> float | None:
    """The mean; None where a number lacks, or there is none."""
    known = list(numbers)
    present = [number for number in known if number is not None]
    return sum(present) / len(present) if present and len(present) == len(known) else None


def summary_of(scores: Sequence[ReportedScore | None]) -> Summary | None:
    """The mean of the tasks' headlines; None where one of them lacks.

    Its interval is the mean of theirs. That is what the tasks' errors give where all go the same way, so it is never
    too narrow, however many problems the tasks share.
    """
    known = [score for score in scores if score is not None and score.value is not None]
    if not known or len(known) < len(scores):
        return None
    value = mean(score.value for score in known)
    assert value is not None
    low, high, floor, ceiling = (
        mean(getattr(score, name) for score in known) for name in ("low", "high", "floor", "ceiling")
    )
    return Summary(value, low, high, floor, ceiling)


def summaries(
    plan: Plan, benchmark: str, cards: Sequence[Card], headlines: Headlines, pooled: Sequence[ReportedScore]
) -> dict[str, Summary]:
    """Every tutor's value on a benchmark: of the pool of all its tasks where it has one, else the mean of its tasks.

    pooled: the benchmark's scores by tag.
    """
    pools = {card.pool for card in cards}
    [pool] = pools if len(pools) == 1 else [None]
    of_pool = {
        score.tutor: score
        for score in pooled
        if pool
        and (score.task, score.metric, score.scoring, score.subset) == (pool, OVERALL, "robust", None)
        and score.by == plan.leading_judge(benchmark)
    }
    found = {}
    for tutor in plan.tutors_on(benchmark):
        own = [headlines.get((card.task, tutor)) for card in cards if plan.belongs(card, tutor)]
        if tutor not in plan.run.tutors and len(own) < len(cards):
            continue  # a floor of some tasks
        summary = summary_of([headlines.get((card.task, tutor)) for card in cards])
        if summary and tutor in of_pool and (whole := of_pool[tutor]).value is not None:
            summary = summary._replace(value=whole.value, low=whole.low, high=whole.high)
        if summary:
            found[tutor] = summary
    return found


def headlines_of(
    scores: Iterable[ReportedScore], cards: Sequence[Card], scoring: str = "robust"
) -> dict[tuple[str, str], ReportedScore]:
    """The headline scores under one scoring, by task and tutor, without those of a reference held against itself."""
    heads = [(card, card.headline_metric) for card in cards]
    itself = {(card.task, card.baselines.ceiling) for card, metric in heads if metric and not metric.ceiling}
    return {
        (score.task, score.tutor): score
        for score in scores
        if score.headline and score.scoring == scoring and (score.task, score.tutor) not in itself
    }


def chart_rows(plan: Plan, names: Mapping[str, str], by_benchmark: Mapping[str, Mapping[str, Summary]]) -> pd.DataFrame:
    """One row a tutor and benchmark. names: of the benchmarks, in the order of the page."""
    labels = distinct_labels(plan)
    rows = [
        {
            "tutor": labels[tutor],
            "group": "baseline" if isinstance(plan.models[tutor], BaselineModel) else plan.models[tutor].group,
            "benchmark": name,
            **summary._asdict(),
        }
        for benchmark, name in names.items()
        for tutor, summary in by_benchmark.get(benchmark, {}).items()
    ]
    return pd.DataFrame(rows)


class Said(NamedTuple):
    """One sentence about two tutors: on how many tasks, how it stands, the largest differences."""

    tasks: int
    how: Verdict
    examples: list[Contrast]


class Claim(NamedTuple):
    """What may be said of two tutors: first, second, of so many tasks, a sentence for each verdict that occurs."""

    first: str
    second: str
    tasks: int
    said: list[Said]


def claim_of(plan: Plan, found: Sequence[Contrast], silent: Collection[str] = ()) -> Claim | None:
    """The two tutors that are ahead of most others, read by robust; None of fewer than two.

    silent: tutors that are not named, since they answered too few items of every task.
    """
    robust = [
        contrast
        for contrast in found
        if contrast.difference.scoring == "robust"
        and not {contrast.difference.first, contrast.difference.second} & {*silent}
    ]
    pair = leading_pair(robust, plan.run.tutors)
    if pair is None:
        return None
    own = [
        seen_from(contrast, pair[0])
        for contrast in robust
        if {contrast.difference.first, contrast.difference.second} == {*pair}
    ]
    if sum(one.verdict == "BETTER" for one in own) < sum(one.verdict == "WORSE" for one in own):
        pair = pair[1], pair[0]
        own = [seen_from(contrast, pair[0]) for contrast in own]
    said = []
    order: tuple[Verdict, ...] = ("BETTER", "WORSE", "EQUIVALENT", "INCONCLUSIVE")
    for how in order:
        largest = sorted((one for one in own if one.verdict == how), key=lambda one: -abs(one.difference.value or 0.0))
        if largest:
            said.append(Said(len(largest), how, largest[:NAMED]))
    return Claim(*pair, len(own), said)


class AboveFloor(NamedTuple):
    """On how many tasks a tutor's whole interval lies above the floor, of those with both."""

    tutor: str
    above: int
    tasks: int


def above_floor(plan: Plan, by_benchmark: Mapping[str, Headlines]) -> list[AboveFloor]:
    """Each of the run's tutors against the trivial ones."""
    rows = []
    for tutor in plan.run.tutors:
        own = [score for headlines in by_benchmark.values() for (_, name), score in headlines.items() if name == tutor]
        held = [score for score in own if score.low is not None and score.floor is not None]
        above = sum(score.low > score.floor for score in held if score.low is not None and score.floor is not None)
        if held and not isinstance(plan.models[tutor], BaselineModel):
            rows.append(AboveFloor(tutor, above, len(held)))
    return rows


def silent_tutors(plan: Plan, unasked: Sequence[tuple[str, str, Answered]]) -> set[str]:
    """Return the tutors that answered too few items of every benchmark they were asked."""
    return {
        tutor
        for tutor in plan.run.tutors
        if (asked := {benchmark for benchmark in plan.benchmarks if tutor in plan.tutors_on(benchmark)})
        and asked == {benchmark for benchmark, name, counted in unasked if name == tutor and counted.cause}
    }


def some_of(names: Sequence[str]) -> str:
    """The first of some names, and how many more there are."""
    more = len(names) - NAMED
    return ", ".join(names[:NAMED]) + (f" and {more} more" if more > 0 else "")


def lacking(
    plan: Plan, selected: Mapping[str, Sequence[Card]], scores: Mapping[str, Sequence[ReportedScore]]
) -> list[str]:
    """What is not there, a line each: values of tutors by task, and why where it is known."""
    lines: list[str] = []
    for benchmark, cards in selected.items():
        headlines = headlines_of(scores.get(benchmark, []), [])  # a reference's own too
        for card in cards:
            if why := plan.why_not_graded(card):
                lines.append(f"{card.title}: {why}")
                continue
            missing: dict[str, list[str]] = {}
            for tutor in (name for name in plan.run.tutors if name in plan.tutors):
                score = headlines.get((card.task, tutor))
                if score is None or score.value is None:
                    why = plan.why_not_asked(card, tutor) or "no score: its job failed, or nothing can be graded"
                    missing.setdefault(why, []).append(label_of(plan, tutor))
            lines += [f"{card.title}: {why} ({some_of(tutors)})" for why, tutors in missing.items()]
    return lines


def overview_section(
    plan: Plan,
    names: Mapping[str, str],
    selected: Mapping[str, Sequence[Card]],
    scores: Mapping[str, Sequence[ReportedScore]],
    pooled: Mapping[str, Sequence[ReportedScore]],
    claim: Claim | None,
    unasked: Sequence[tuple[str, str, Answered]] = (),
    unheeded: Sequence[tuple[str, str]] = (),
) -> dict[str, Any]:
    """What the first screen shows.

    names: of benchmarks; pooled: scores by tag; claim: on two tutors; unasked: tutors that did not answer a benchmark;
    unheeded: who was answered by an endpoint that changed what was asked, and how.
    """
    from maieutic.report.figures import overview_chart

    headlines = {name: headlines_of(scores.get(name, []), cards) for name, cards in selected.items()}
    measured = {
        benchmark: [
            card for card in cards if any((card.task, name) in headlines[benchmark] for name in plan.run.tutors)
        ]
        for benchmark, cards in selected.items()
    }
    values = {
        benchmark: summaries(
            plan,
            benchmark,
            cards,
            headlines[benchmark],
            pooled.get(benchmark, []) if cards == selected[benchmark] else [],
        )
        for benchmark, cards in measured.items()
    }
    shown = {
        benchmark: names[benchmark]
        if len(cards) == len(selected[benchmark])
        else f"{names[benchmark]}, {len(cards)} of {len(selected[benchmark])} tasks"
        for benchmark, cards in measured.items()
    }
    rows = chart_rows(plan, shown, values)
    incomplete = [
        f"{label_of(plan, tutor)} on {names[benchmark]}"
        for benchmark, own in values.items()
        for tutor in plan.run.tutors
        if tutor not in own
    ]
    return {
        "picture": overview_chart(rows) if len(rows) else "",
        "rows": rows.to_dict("records"),
        "incomplete": some_of(incomplete),
        "claim": claim,
        "floors": above_floor(plan, headlines),
        "several": len(plan.run.tutors) > 1,
        "lacking": lacking(plan, selected, scores),
        "unanswered": unasked,
        "unheeded": unheeded,
        "equivalence": plan.config.report.equivalence,
        "cards": [card for cards in selected.values() for card in cards],
    }
