"""The overview at the top of the page: tutors by benchmark, the two leading tutors, graders, and missing scores."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import pandas as pd

from maieutic.config.cards import Card
from maieutic.config.models import BaselineModel
from maieutic.core.records import ReportedScore
from maieutic.plan.plan import Plan
from maieutic.replies.reply_counts import ReplyCounts, answers_too_few
from maieutic.report.contrasts import Contrast, Verdict, leading_pair, with_first_tutor
from maieutic.report.head import in_order, run_line, tiles_of, trust_line
from maieutic.report.sections import ReportInput
from maieutic.report.tables import display_label, metric_title
from maieutic.report.traffic_light import LightOf
from maieutic.scores.printed import paper_title
from maieutic.scores.score import FLIP_RATE, WITHIN_DEVIATION

OVERALL = "overall"  # metric of a pool (tasks scored together): the value on the whole benchmark
MOST_NAMED = 4  # maximum number of tasks or tutors that one sentence names
Headlines = Mapping[tuple[str, str], ReportedScore]  # headline scores of one benchmark, by task and tutor


class Summary(NamedTuple):
    """A tutor's value on a whole benchmark. Each bound (low, high, floor, ceiling) is None unless every task has it."""

    value: float
    low: float | None
    high: float | None
    floor: float | None
    ceiling: float | None


def distinct_labels(plan: Plan) -> dict[str, str]:
    """Return each tutor's label by name. If several tutors share a label, each one's name is appended to the label."""
    labels = {name: display_label(plan, name) for name in plan.tutors}
    shared = Counter(labels.values())
    return {name: f"{label} ({name})" if shared[label] > 1 else label for name, label in labels.items()}


def complete_mean(numbers: Iterable[float | None]) -> float | None:
    """Return the mean of the numbers; None if one of them is None or if there are no numbers."""
    values = list(numbers)
    present = [number for number in values if number is not None]
    return sum(present) / len(present) if present and len(present) == len(values) else None


def summary_of(scores: Sequence[ReportedScore | None]) -> Summary | None:
    """Return the mean of the tasks' headline scores; None if a task has no value.

    The bounds of the mean's interval are the means of the tasks' bounds. The interval is exact if the errors of the
    tasks are perfectly correlated, and too wide otherwise. It is therefore never too narrow if tasks share problems.
    """
    known = [score for score in scores if score is not None and score.value is not None]
    if not known or len(known) < len(scores):
        return None
    value = complete_mean(score.value for score in known)
    assert value is not None
    low, high, floor, ceiling = (
        complete_mean(getattr(score, name) for score in known) for name in ("low", "high", "floor", "ceiling")
    )
    return Summary(value, low, high, floor, ceiling)


def summaries(
    plan: Plan, benchmark: str, cards: Sequence[Card], headlines: Headlines, pooled: Sequence[ReportedScore]
) -> dict[str, Summary]:
    """Return every tutor's value on a benchmark.

    The value is the overall score if the tasks are scored together, and otherwise the mean of their headline scores.
    pooled: the benchmark's scores by tag. They include the overall score if the tasks are scored together.
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
    values = {}
    for tutor in plan.tutors_on(benchmark):
        asked_cards = [card for card in cards if plan.is_answered_by(card, tutor)]
        if tutor not in plan.run.tutors and len(asked_cards) < len(cards):
            continue  # skip a baseline that answers only some of the tasks
        summary = summary_of([headlines.get((card.task, tutor)) for card in cards])
        if summary and tutor in of_pool and (whole := of_pool[tutor]).value is not None:
            summary = summary._replace(value=whole.value, low=whole.low, high=whole.high)
        if summary:
            values[tutor] = summary
    return values


def headlines_of(
    scores: Iterable[ReportedScore], cards: Sequence[Card], scoring: str = "robust"
) -> dict[tuple[str, str], ReportedScore]:
    """Return the headline scores under one scoring, by task and tutor.

    The human reference's score is left out if the metric would compare the reference with itself.
    """
    heads = [(card, card.headline_metric) for card in cards]
    itself = {(card.task, card.baselines.ceiling) for card, metric in heads if metric and not metric.ceiling}
    return {
        (score.task, score.tutor): score
        for score in scores
        if score.headline and score.scoring == scoring and (score.task, score.tutor) not in itself
    }


def chart_rows(plan: Plan, by_tutor: Mapping[str, Summary]) -> pd.DataFrame:
    """Return the rows of one benchmark's chart, one for each of the run's tutors. by_tutor: values by tutor."""
    labels = distinct_labels(plan)
    rows = [
        {
            "tutor": labels[tutor],
            "group": "baseline" if isinstance(plan.models[tutor], BaselineModel) else plan.models[tutor].group,
            **by_tutor[tutor]._asdict(),
        }
        for tutor in plan.run.tutors
        if tutor in by_tutor
    ]
    return pd.DataFrame(rows)


def axis_title(cards: Sequence[Card]) -> str:
    """Return the meaning of a benchmark's values: its metric, or the mean of its tasks' headline metrics."""
    if len({card.pool for card in cards}) == 1 and cards[0].pool:
        return f"{metric_title(cards[0].headline)}, all tasks"
    if len(cards) == 1:
        return metric_title(cards[0].headline)
    return f"mean of {len(cards)} tasks’ headline metrics"


class VerdictCount(NamedTuple):
    """Tasks with one verdict in a comparison of two tutors.

    tasks: number of these tasks; benchmarks: (benchmark, number of these tasks, number of compared tasks) of each
    benchmark that has some; differences: the tasks' differences, largest first.
    """

    verdict: Verdict
    tasks: int
    benchmarks: list[tuple[str, int, int]]
    differences: list[Contrast]


class Claim(NamedTuple):
    """Comparison of the two leading tutors.

    tasks: number of tasks that both answered; counts: one for each verdict that occurs; others: number of tutors that
    the first tutor is compared with; beaten: number of these that it is ahead of on more tasks than it is behind.
    """

    first: str
    second: str
    tasks: int
    counts: list[VerdictCount]
    others: int
    beaten: int


def claim_of(plan: Plan, contrasts: Sequence[Contrast], silent: Collection[str] = ()) -> Claim | None:
    """Compare the two leading tutors under the `robust` scoring. Returns None for fewer than two tutors.

    silent: tutors that answered too few items of every benchmark. They are left out.
    """
    robust = [
        contrast
        for contrast in contrasts
        if contrast.difference.scoring == "robust"
        and not {contrast.difference.first, contrast.difference.second} & {*silent}
    ]
    pair = leading_pair(robust, plan.run.tutors)
    if pair is None:
        return None
    of_pair = [
        with_first_tutor(contrast, pair[0])
        for contrast in robust
        if {contrast.difference.first, contrast.difference.second} == {*pair}
    ]
    verdicts = Counter(contrast.verdict for contrast in of_pair)
    if verdicts["BETTER"] < verdicts["WORSE"]:
        pair = pair[1], pair[0]
        of_pair = [with_first_tutor(contrast, pair[0]) for contrast in of_pair]
    compared = Counter(str(contrast.difference.benchmark) for contrast in of_pair)
    counts = []
    order: tuple[Verdict, ...] = ("BETTER", "WORSE", "SAME", "EQUIVALENT", "INCONCLUSIVE")
    for verdict in order:
        differences = sorted(
            (contrast for contrast in of_pair if contrast.verdict == verdict),
            key=lambda contrast: -abs(contrast.difference.value or 0.0),
        )
        here = Counter(str(contrast.difference.benchmark) for contrast in differences)
        benchmarks = [(name, here[name], number) for name, number in compared.items() if here[name]]
        if differences:
            counts.append(VerdictCount(verdict, len(differences), benchmarks, differences))
    gains: Counter[str] = Counter()
    for contrast in robust:
        difference = contrast.difference
        if pair[0] in (difference.first, difference.second):
            turned = with_first_tutor(contrast, pair[0])
            gains[turned.difference.second] += {"BETTER": 1, "WORSE": -1}.get(turned.verdict, 0)
    return Claim(*pair, len(of_pair), counts, len(gains), sum(gain > 0 for gain in gains.values()))


def repeat_rows(run: ReportInput) -> list[dict[str, Any]]:
    """Return a row for each of the run's tutors and tasks with several answers to an item: how much grades vary."""
    rows: dict[tuple[str, str, str], dict[str, Any]] = {}
    for benchmark, scores in run.scores.items():
        for score in scores:
            if score.metric in (FLIP_RATE, WITHIN_DEVIATION) and score.scoring == "robust":
                key = benchmark, score.task, str(score.tutor)
                if score.tutor in run.plan.run.tutors:
                    names = {"benchmark": benchmark, "task": score.task, "tutor": score.tutor}
                    rows.setdefault(key, names)[score.metric] = score
    return list(rows.values())


class Price(NamedTuple):
    """A tutor's value on a benchmark beside its price.

    usd: US dollars for a hundred items; beaten_by: labels of the tutors that are cheaper and ahead on more of the
    benchmark's tasks than they are behind, by the paired differences.
    """

    tutor: str
    benchmark: str
    value: float
    usd: float
    beaten_by: list[str]


def prices(
    plan: Plan,
    runtime: pd.DataFrame,
    values: Mapping[str, Mapping[str, Summary]],
    sizes: Mapping[tuple[str, str], int],
    contrasts: Sequence[Contrast],
) -> list[Price]:
    """Return the values and prices of the tutors whose price is known, cheapest first on each benchmark.

    values: values by benchmark and tutor; sizes: number of items by benchmark and task.
    """
    priced = runtime[runtime["usd"].notna()].to_dict("records")
    usd = {(row["benchmark"], row["tutor"]): float(row["usd"]) for row in priced}
    gains: Counter[tuple[str, str, str]] = Counter()
    for contrast in contrasts:
        difference = contrast.difference
        if difference.scoring == "robust" and contrast.verdict in ("BETTER", "WORSE"):
            names = (difference.first, difference.second)
            for first, second in (names, names[::-1]):
                better = (contrast.verdict == "BETTER") == (first == difference.first)
                gains[str(difference.benchmark), first, second] += 1 if better else -1
    rows = []
    for benchmark, by_tutor in values.items():
        items = sum(size for (name, _), size in sizes.items() if name == benchmark)
        known = [name for name in by_tutor if (benchmark, name) in usd]
        cost = {name: 100 * usd[benchmark, name] / max(1, items) for name in known}
        for tutor in sorted(cost, key=lambda name: cost[name]):
            ahead = [name for name in cost if cost[name] < cost[tutor] and gains[benchmark, name, tutor] > 0]
            labels = [display_label(plan, name) for name in ahead]
            rows.append(Price(tutor, benchmark, by_tutor[tutor].value, cost[tutor], labels))
    return rows


def price_pictures(plan: Plan, rows: Sequence[Price], axes: Mapping[str, str]) -> dict[str, str]:
    """Return a chart of price and value for each benchmark with at least two priced tutors whose values are shares.

    axes: meaning of the values by benchmark.
    """
    from maieutic.report.figures import scatter_chart

    pictures = {}
    for benchmark in dict.fromkeys(row.benchmark for row in rows):
        here = [row for row in rows if row.benchmark == benchmark]
        most = max(row.usd for row in here)
        if len(here) > 1 and most > 0 and all(0 <= row.value <= 1 for row in here):
            table = pd.DataFrame(
                {"label": display_label(plan, row.tutor), "kind": "tutor", "usd": row.usd, "value": row.value}
                for row in here
            )
            titles = ("US dollars for 100 items", axes[benchmark])
            pictures[benchmark] = scatter_chart(table, "usd", "value", titles, (1.05 * most, 1.0))
    return pictures


class AboveFloor(NamedTuple):
    """Counts of the tasks on which a tutor is compared with the floor.

    above: number of tasks on which the tutor's whole interval is above the floor; tasks: number of tasks that have an
    interval and a floor.
    """

    tutor: str
    above: int
    tasks: int


def above_floor(plan: Plan, by_benchmark: Mapping[str, Headlines]) -> list[AboveFloor]:
    """Return, for each tutor of the run that is not a baseline, the number of tasks on which it is above the floor."""
    rows = []
    for tutor in plan.run.tutors:
        scores = [
            score for headlines in by_benchmark.values() for (_, name), score in headlines.items() if name == tutor
        ]
        bounded = [(score.low, score.floor) for score in scores if score.low is not None and score.floor is not None]
        if bounded and not isinstance(plan.models[tutor], BaselineModel):
            rows.append(AboveFloor(tutor, sum(low > floor for low, floor in bounded), len(bounded)))
    return rows


def silent_tutors(plan: Plan, unasked: Sequence[tuple[str, str, ReplyCounts]]) -> set[str]:
    """Return the tutors that answered too few items of every benchmark on which they are run.

    unasked: benchmark, tutor and reply counts, as yielded by `poorly_answered`.
    """
    return {
        tutor
        for tutor in plan.run.tutors
        if (benchmarks := {benchmark for benchmark in plan.benchmarks if tutor in plan.tutors_on(benchmark)})
        and benchmarks
        == {benchmark for benchmark, name, counts in unasked if name == tutor and answers_too_few(plan, counts)}
    }


def join_first(names: Sequence[str]) -> str:
    """Join the first MOST_NAMED names with commas. If there are further names, append their number."""
    more = len(names) - MOST_NAMED
    return ", ".join(names[:MOST_NAMED]) + (f" and {more} more" if more > 0 else "")


def missing_lines(
    plan: Plan, selected: Mapping[str, Sequence[Card]], scores: Mapping[str, Sequence[ReportedScore]]
) -> list[str]:
    """Return lines that explain missing headline scores: for each task and reason, a line with the tutors' names."""
    lines: list[str] = []
    for benchmark, cards in selected.items():
        headlines = headlines_of(scores.get(benchmark, []), [])  # without cards, scores of references are included
        for card in cards:
            if why := plan.why_not_graded(card):
                lines.append(f"{card.title}: {why}")
                continue
            missing: dict[str, list[str]] = {}
            for tutor in (name for name in plan.run.tutors if name in plan.tutors):
                if card.tutors != "all" and plan.why_not_answerable(card, tutor):
                    continue  # a task for other kinds of tutors is not missing
                score = headlines.get((card.task, tutor))
                if score is None or score.value is None:
                    why = plan.why_not_answerable(card, tutor) or without_headline(
                        scores.get(benchmark, []), card, tutor
                    )
                    missing.setdefault(why, []).append(display_label(plan, tutor))
            lines += [f"{card.title}: {why} ({join_first(tutors)})" for why, tutors in missing.items()]
    return lines


def without_headline(scores: Iterable[ReportedScore], card: Card, tutor: str) -> str:
    """Return why a tutor has no headline score on a task."""
    withheld = (score for score in scores if score.withheld and (score.task, score.tutor) == (card.task, tutor))
    if score := next(withheld, None):
        return f"not ranked: {score.missing} of {score.n + score.missing} items have no answer"
    return "no score: the job failed, or nothing can be graded"


def benchmark_values(
    run: ReportInput,
    selected: Mapping[str, Sequence[Card]],
    headlines: Mapping[str, Headlines],
    pooled: Mapping[str, Sequence[ReportedScore]],
) -> dict[str, tuple[list[Card], dict[str, Summary]]]:
    """Return, for each benchmark, the cards on which a tutor of the run has a score, and the tutors' values on them.

    headlines: headline scores by benchmark; pooled: scores by tag, which are used only if every card has a score.
    """
    values = {}
    for benchmark, cards in selected.items():
        scored = {task for task, tutor in headlines[benchmark] if tutor in run.plan.run.tutors}
        # Tasks for some kinds of tutors only are left out, so that all tutors' values rest on the same tasks.
        measured = [card for card in cards if card.task in scored and card.tutors == "all"]
        whole = pooled.get(benchmark, []) if len(measured) == len(cards) else []
        values[benchmark] = measured, summaries(run.plan, benchmark, measured, headlines[benchmark], whole)
    return values


def charts_of(
    plan: Plan, selected: Mapping[str, Sequence[Card]], values: Mapping[str, tuple[list[Card], dict[str, Summary]]]
) -> dict[str, Any]:
    """Return the overview's charts by benchmark, and their rows as one list. values: as from `benchmark_values`."""
    from maieutic.report.figures import overview_chart

    pictures, rows = {}, []
    tables = {benchmark: chart_rows(plan, by_tutor) for benchmark, (_, by_tutor) in values.items()}
    groups = sorted({group for table in tables.values() for group in table.get("group", [])})
    for benchmark, table in tables.items():
        measured, number = values[benchmark][0], len(selected[benchmark])
        part = "" if len(measured) == number else f", {len(measured)} of {number} tasks"
        title = f"{paper_title(benchmark)}{part}"
        rows += [{"benchmark": title, **row} for row in table.to_dict("records")]
        if len(table):
            pictures[benchmark] = overview_chart(table, title, axis_title(measured), groups)
    return {"pictures": pictures, "rows": rows}


def overview_section(
    run: ReportInput,
    light: LightOf,
    runtime: pd.DataFrame,
    selected: Mapping[str, Sequence[Card]],
    pooled: Mapping[str, Sequence[ReportedScore]],
    claim: Claim | None,
    contrasts: Sequence[Contrast],
) -> dict[str, Any]:
    """Return the template variables of the overview. pooled: scores by tag; claim: comparison of the leading tutors."""
    plan = run.plan
    headlines = {name: headlines_of(run.scores.get(name, []), cards) for name, cards in selected.items()}
    values = benchmark_values(run, selected, headlines, pooled)
    by_benchmark = {benchmark: by_tutor for benchmark, (_, by_tutor) in values.items()}
    incomplete = [
        f"{display_label(plan, tutor)} on {paper_title(benchmark)}"
        for benchmark, by_tutor in by_benchmark.items()
        for tutor in plan.run.tutors
        if tutor not in by_tutor
    ]
    cards = [card for own_cards in selected.values() for card in own_cards]
    lacking = missing_lines(plan, selected, run.scores)
    tiles = tiles_of(run, runtime, cards, light, lacking)
    priced = prices(plan, runtime, by_benchmark, run.sizes, contrasts)
    axes = {benchmark: axis_title(measured) for benchmark, (measured, _) in values.items()}
    return {
        "line": run_line(run, selected),
        "tiles": in_order(tiles),
        "trust": trust_line(tiles, plan.edition == "demo"),
        "trust_doubtful": plan.edition == "demo" or any(tile.state in ("bad", "doubtful") for tile in tiles),
        **charts_of(plan, selected, values),
        "incomplete": join_first(incomplete),
        "prices": priced,
        "repeated": repeat_rows(run),
        "price_pictures": price_pictures(plan, priced, axes),
        "claim": claim,
        "floors": sorted(above_floor(plan, headlines), key=lambda row: -row.above)[:MOST_NAMED],
        "several": len(plan.run.tutors) > 1,
        "lacking": lacking,
        "unanswered": run.unanswered,
        "unheeded": run.unheeded,
        "equivalence": plan.config.report.equivalence,
        "cards": cards,
    }
