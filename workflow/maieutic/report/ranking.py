"""The ranks of a run's tutors: the record `ranking.json`, made once from the paired differences.

The page's sentence, table and marks, the Markdown summary and the terminal read this record and decide nothing.

- A task *leads* if it separates (the best trivial tutor does not reach the human reference, and a tutor is above it),
  its grader's light is not red, and all ranked tutors have a value on it.
- The differences of all pairs of ranked tutors on the leading tasks are one family, whose intervals hold together
  (`maieutic.report.contrasts`). Other differences have intervals for all differences of the run under one scoring.
- A tutor *is ahead of* another one if it is BETTER on at least one leading task and WORSE on none, or is ahead of a
  third one that is ahead of it. Tutors that would be ahead of each other are on a level.
- A tutor's ranks extend from 1 + the number of tutors ahead of it to the number of tutors - the number behind it.
- The differences of all tutors from the trivial tutors of their tasks are a family of their own.
- Baselines (trivial tutors, the human reference) are not ranked, nor is a tutor without a value on a leading task.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Literal, NamedTuple

from maieutic.config.cards import Card
from maieutic.config.models import BaselineModel
from maieutic.core import paths
from maieutic.core.records import SCORINGS, Difference, Record, ReportedScore, Scoring
from maieutic.plan.plan import Plan
from maieutic.report.contrasts import Contrast, Verdict, contrast_of, reversed_difference, with_first_tutor
from maieutic.report.tables import display_label, read_json, selected_cards
from maieutic.report.traffic_light import Light, LightOf, criterion_on, headline_grader, kind_on
from maieutic.scores.differences import holm_corrected, is_own_reference

Scores = Mapping[str, Sequence[ReportedScore]]  # scores by benchmark
TaskKey = tuple[str, str]  # benchmark and task
State = Literal["bad", "doubtful", "good", "plain"]
LOWEST_FIRST = ("red", "none", "grey", "amber", "green")  # colours of lights
MOST_NAMED = 3  # maximum number of tutors or tasks that a sentence names


class Chip(Record):
    """One line of the page's first screen on how far the numbers can be used. address: page with more."""

    text: str
    state: State
    address: str


class RankedTask(Record):
    """A task of a run, and whether it counts for the ranks.

    by: reward model or judge of the headline metric, None for a parser; light: lowest light of its verdicts on a tutor
    of the run; floor, floor_tutor: best trivial tutor; ceiling: value of the human reference; reason: why the task does
    not lead; ranks: best and worst rank of each ranked tutor on this task alone; empty if the task does not lead.
    """

    benchmark: str
    task: str
    title: str
    metric: str
    higher_is_better: bool
    by: str | None = None
    light: str | None = None
    floor: float | None = None
    floor_tutor: str | None = None
    ceiling: float | None = None
    leads: bool = False
    reason: str | None = None
    ranks: dict[str, tuple[int, int]] = {}
    leaders: list[str] = []

    @property
    def key(self) -> TaskKey:
        """Benchmark and task."""
        return self.benchmark, self.task


class RankedTutor(Record):
    """A tutor of a run with its ranks; None if it is not ranked, for the given reason.

    ahead_of, behind: tutors that it is ahead of, and that are ahead of it; with_floor: number of tasks on which it was
    compared with a trivial tutor; above_floor: number of these on which it is BETTER than each of them; at_floor:
    leading tasks (benchmark/task) on which its value is not above the floor.
    """

    tutor: str
    label: str
    best: int | None = None
    worst: int | None = None
    ahead_of: list[str] = []
    behind: list[str] = []
    above_floor: int = 0
    with_floor: int = 0
    at_floor: list[str] = []
    reason: str | None = None


class Comparison(Record):
    """The difference of two ranked tutors on a leading task: the first one's value minus the second one's.

    low, high: interval at the level of the family; decisive: number of items that would decide an OPEN comparison.
    """

    benchmark: str
    task: str
    first: str
    second: str
    value: float | None
    low: float | None
    high: float | None
    verdict: Verdict
    decisive: int | None
    n: int
    clusters: int


class Ranking(Record):
    """Ranks of a run's tutors under one scoring.

    sentence: the finding in one sentence; leaders: tutors whose best rank is 1; equivalence: largest negligible
    difference; chips: what limits the numbers, worst first; tutors: ranked ones first, by worst rank and name.
    """

    scoring: Scoring
    sentence: str
    leaders: list[str]
    equivalence: float
    tasks: list[RankedTask]
    tutors: list[RankedTutor]
    comparisons: list[Comparison]
    chips: list[Chip] = []

    @property
    def ranked(self) -> list[RankedTutor]:
        """The ranked tutors."""
        return [tutor for tutor in self.tutors if tutor.best is not None]


class Block(NamedTuple):
    """Tutors to rank and tasks to rank them by: every one of these tutors has a value on each task."""

    tutors: frozenset[str]
    tasks: frozenset[TaskKey]


class Rankings(NamedTuple):
    """The ranking under each scoring, and all differences between the run's tutors with their verdicts."""

    by_scoring: dict[Scoring, Ranking]
    contrasts: list[Contrast]


RANKING_FILE = Path(paths.RANKING).name
NO_RANKINGS = Rankings({}, [])
NO_VALUE = "no tutor has a value"
NOT_SEPARATED = "does not separate"  # beginning of a reason
NOT_BEATEN = "no tutor beats"  # beginning of a reason
INCOMPLETE = "not every ranked tutor has a value"
NOT_COMPARED = "its tutors were not compared: the job failed or has not run"


def read_rankings(folder: Path) -> dict[str, Ranking]:
    """Return the rankings of a run's folder by scoring; empty if an earlier version wrote the run."""
    return {entry["scoring"]: Ranking.model_validate(entry) for entry in read_json(folder / RANKING_FILE) or []}


def rank_tutors(plan: Plan, results: Path, scores: Scores, light: LightOf) -> Rankings:
    """Compare and rank the run's tutors under each scoring, from the jobs that have finished."""
    cards = {(name, card.task): card for name, cards in sorted(selected_cards(plan).items()) for card in cards}
    differences, from_floors = run_differences(plan, results, cards)
    usable = usable_scores(plan, scores)
    rankings, contrasts = {}, []
    for scoring in SCORINGS:
        heads = {
            (score.tutor, (benchmark, score.task)): score
            for benchmark, own_scores in scores.items()
            for score in own_scores
            if score.headline and score.scoring == scoring
        }
        here = [difference for difference in differences if difference.scoring == scoring]
        compared = {(str(difference.benchmark), difference.task) for difference in here}
        tasks = [task_of(plan, card, heads, light) for card in cards.values()]
        tutors = [
            name for name in plan.run.tutors if name in plan.tutors and not isinstance(plan.models[name], BaselineModel)
        ]
        lacking = {name: {task.key for task in tasks if (name, task.key) not in usable} for name in tutors}
        tasks = [
            task.model_copy(update={"leads": False, "reason": NOT_COMPARED})
            if task.leads and task.key not in compared and sum(task.key not in names for names in lacking.values()) > 1
            else task
            for task in tasks
        ]
        block = complete_block(lacking, [task.key for task in tasks if task.leads])
        decided = [
            decide(plan, difference, cards, heads, usable, family)
            for difference, family in with_family_sizes(here, block)
        ]
        contrasts += decided
        beside = [difference for difference in from_floors if difference.scoring == scoring]
        above = [decide(plan, difference, cards, heads, usable, (len(beside), False)) for difference in beside]
        rankings[scoring] = ranking_of(plan, scoring, tasks, lacking, block, decided, heads, above)
    return Rankings(rankings, contrasts)


def run_differences(
    plan: Plan, results: Path, cards: Mapping[TaskKey, Card]
) -> tuple[list[Difference], list[Difference]]:
    """Return the differences between the run's tutors, and those between a tutor (the first) and a floor of the task.

    Only headline metrics are compared. Holm's method corrects the p values between the run's tutors over all of them.

    Differences that were computed for another run's tasks or tutors, and those from a tutor's own references, are left
    out. The order depends on the names alone.
    """
    compared, from_floors = [], []
    competitors = {name for name in plan.run.tutors if not isinstance(plan.models.get(name), BaselineModel)}
    for benchmark in plan.benchmarks:
        for entry in read_json(paths.DIFFERENCES.within(results, benchmark=benchmark)) or []:
            difference = Difference.model_validate(entry)
            if difference.first > difference.second:
                difference = reversed_difference(difference)
            card, both = cards.get((benchmark, difference.task)), (difference.first, difference.second)
            metric = card.metrics.get(difference.metric) if card else None
            if card is None or metric is None or any(is_own_reference(card, metric, tutor) for tutor in both):
                continue
            if {*both} <= {*plan.run.tutors}:
                compared.append(difference)
            floors = [name for name in both if name in card.baselines.floor]
            if len(floors) == 1 and competitors & {*both}:
                from_floors.append(reversed_difference(difference) if difference.first in floors else difference)
    for differences in (compared, from_floors):
        differences.sort(key=lambda pair: (str(pair.benchmark), pair.task, pair.scoring, pair.first, pair.second))
    return holm_corrected(compared), from_floors


def usable_scores(plan: Plan, scores: Scores) -> set[tuple[str, TaskKey]]:
    """Return each tutor and task with a headline value that rests on enough items.

    Replies that cannot be read are no reason to leave a tutor out: they count as wrong.
    """
    least = plan.config.report.least_readable
    return {
        (score.tutor, (benchmark, score.task))
        for benchmark, own_scores in scores.items()
        for score in own_scores
        if score.headline and score.scoring == "robust" and score.value is not None
        if score.n >= least * (score.n + score.missing)
    }


def light_of_task(plan: Plan, card: Card, light: LightOf) -> tuple[str, Light] | None:
    """Return the judge or reward model of a task's headline metric, and the worst of its lights on the run's tutors.

    Returns None if a parser grades the task.
    """
    by = headline_grader(plan, card)
    kind = kind_on(plan, by, card, card.headline) if by else None
    if by is None or kind is None:
        return None
    criterion = criterion_on(card, card.headline)
    lights = [light(by, kind, tutor, criterion) for tutor in (None, *plan.run.tutors)]
    return by, min(lights, key=lambda light: LOWEST_FIRST.index(light.colour))


def task_of(plan: Plan, card: Card, heads: Mapping[tuple[str, TaskKey], ReportedScore], light: LightOf) -> RankedTask:
    """Return a task of the run; `leads` is True if nothing about the task itself speaks against it."""
    key = (card.benchmark, card.task)
    here = {tutor: score for (tutor, task), score in heads.items() if task == key and score.value is not None}
    metric = card.headline_metric
    by, worst_light = light_of_task(plan, card, light) or (None, None)
    higher = metric is None or metric.higher_is_better is not False
    sign = 1 if higher else -1
    floors = {name: sign * (here[name].value or 0.0) for name in card.baselines.floor if name in here}
    floor_tutor = max(sorted(floors), key=lambda name: floors[name], default=None)
    any_score = next((here[name] for name in sorted(here)), None)
    floor, ceiling = (any_score.floor, any_score.ceiling) if any_score else (None, None)
    values = [
        sign * score.value
        for tutor, score in here.items()
        if score.value is not None and tutor in plan.run.tutors and not isinstance(plan.models[tutor], BaselineModel)
    ]
    reason = None
    if not values:
        reason = plan.why_not_graded(card) or NO_VALUE
    elif metric is not None and metric.higher_is_better is None:
        reason = "no value of its metric is better than another"
    elif floor is not None and ceiling is not None and sign * floor >= sign * ceiling:
        reason = f"{NOT_SEPARATED}: a trivial tutor ({floor:.2f}) reaches the human reference ({ceiling:.2f})"
    elif floor is not None and max(values) <= sign * floor:
        name = display_label(plan, floor_tutor) if floor_tutor else "the trivial tutor"
        reason = f"{NOT_BEATEN} {name} ({floor:.2f})"
    elif by is not None and worst_light is not None and worst_light.colour == "red":
        reason = f"the light of {display_label(plan, by)} is red"
    return RankedTask(
        benchmark=card.benchmark,
        task=card.task,
        title=card.title,
        metric=card.headline,
        higher_is_better=higher,
        by=by,
        light=worst_light.colour if worst_light else None,
        floor=floor,
        floor_tutor=floor_tutor,
        ceiling=ceiling,
        leads=reason is None,
        reason=reason,
    )


def complete_block(lacking: Mapping[str, set[TaskKey]], tasks: Sequence[TaskKey]) -> Block:
    """Return the tutors to rank and the tasks to rank them by. Both are empty if no block of values is complete.

    The tutor or task that lacks the largest share of values is left out first, a task before a tutor that lacks the
    same share. The order of tutors and tasks has no influence. lacking: tasks without a usable value, by tutor.
    """
    left, by = {*lacking}, {*tasks}
    while left and by:
        of_tutors = {name: len(lacking[name] & by) / len(by) for name in left}
        of_tasks = {task: sum(task in lacking[name] for name in left) / len(left) for task in by}
        worst_tutor = max(sorted(left), key=lambda name: of_tutors[name])
        worst_task = max(sorted(by), key=lambda task: of_tasks[task])
        if max(of_tutors[worst_tutor], of_tasks[worst_task]) == 0:
            break
        if of_tasks[worst_task] >= of_tutors[worst_tutor]:
            by.remove(worst_task)
        else:
            left.remove(worst_tutor)
    # What was left out early may fit in the end.
    left |= {name for name in lacking if by and not lacking[name] & by}
    by |= {task for task in tasks if left and not any(task in lacking[name] for name in left)}
    return Block(frozenset(left), frozenset(by)) if left and by else Block(frozenset(), frozenset())


def with_family_sizes(differences: Sequence[Difference], block: Block) -> list[tuple[Difference, tuple[int, bool]]]:
    """Return each difference with the size of its family, and True if it is one of ranked tutors on a leading task."""
    leads = [
        {difference.first, difference.second} <= block.tutors
        and (str(difference.benchmark), difference.task) in block.tasks
        for difference in differences
    ]
    of_family = max(1, sum(leads))
    return [
        (difference, (of_family if member else len(differences), member))
        for difference, member in zip(differences, leads, strict=True)
    ]


def decide(
    plan: Plan,
    difference: Difference,
    cards: Mapping[TaskKey, Card],
    heads: Mapping[tuple[str, TaskKey], ReportedScore],
    usable: set[tuple[str, TaskKey]],
    family: tuple[int, bool],
) -> Contrast:
    """Return a difference with its verdict. family: size of its family, and whether it counts for the ranks."""
    key = (str(difference.benchmark), difference.task)
    both = (difference.first, difference.second)
    metric = cards[key].metrics[difference.metric]
    first, second = (heads.get((name, key)) for name in both)
    is_silent = any((name, key) not in usable for name in both)
    higher, margin = metric.higher_is_better is not False, plan.config.report.equivalence
    size, leads = family
    return contrast_of(difference, higher, margin, size, first, second, is_silent)._replace(leads=leads)


def ranks_from(names: Iterable[str], ahead_of: Mapping[str, set[str]]) -> dict[str, tuple[int, int]]:
    """Return the best and the worst rank of each tutor. ahead_of: tutors that each one is ahead of."""
    tutors = list(names)
    behind = {name: sum(name in ahead_of[other] for other in tutors) for name in tutors}
    return {name: (1 + behind[name], len(tutors) - len(ahead_of[name])) for name in tutors}


def ahead_relation(names: Iterable[str], contrasts: Iterable[Contrast]) -> dict[str, set[str]]:
    """Return the tutors that each tutor is ahead of: BETTER on a task and WORSE on none, closed transitively.

    Tutors on a cycle are on a level: neither is ahead of the other.
    """
    tutors = sorted(names)
    better: dict[str, set[str]] = {name: set() for name in tutors}
    for contrast in contrasts:
        first, second = contrast.difference.first, contrast.difference.second
        if contrast.verdict == "BETTER":
            better[first].add(second)
        elif contrast.verdict == "WORSE":
            better[second].add(first)
    reached = {name: {other for other in better[name] if name not in better[other]} for name in tutors}
    for middle in tutors:
        for name in tutors:
            if middle in reached[name]:
                reached[name] |= reached[middle]
    return {name: {other for other in reached[name] if name not in reached[other]} for name in tutors}


def why_not_ranked(
    plan: Plan, tutor: str, tasks: Sequence[RankedTask], lacking: set[TaskKey], leading: frozenset[TaskKey]
) -> str:
    """Return why a tutor is not ranked."""
    if not leading:
        return "no task leads"
    cards = {(loaded.card.benchmark, loaded.card.task): loaded.card for loaded in plan.cards.values()}
    missing = [task for task in tasks if task.key in leading and task.key in lacking]
    unasked = [task for task in missing if plan.why_not_answerable(cards[task.key], tutor)]
    without = [task.title for task in missing if task not in unasked]
    extent = f"asked on {len(leading) - len(unasked)} of {len(leading)}" if unasked else ""
    few = f"too few answers, or none, on {join_names(without)}" if without else ""
    return "; ".join(filter(None, (extent, few)))


def join_names(names: Sequence[str]) -> str:
    """Join the first MOST_NAMED names in a sentence. If there are further names, append their number."""
    if len(names) > MOST_NAMED + 1:
        return f"{', '.join(names[:MOST_NAMED])} and {len(names) - MOST_NAMED} more"
    return " and ".join(filter(None, (", ".join(names[:-1]), *names[-1:])))


def ranking_of(
    plan: Plan,
    scoring: Scoring,
    tasks: Sequence[RankedTask],
    lacking: Mapping[str, set[TaskKey]],
    block: Block,
    contrasts: Sequence[Contrast],
    heads: Mapping[tuple[str, TaskKey], ReportedScore],
    from_floors: Sequence[Contrast],
) -> Ranking:
    """Return the ranking under one scoring.

    lacking: tasks without a usable value, by tutor; contrasts: all differences with their verdicts; from_floors:
    differences from trivial tutors.
    """
    ranked, leading = block
    family = [contrast for contrast in contrasts if contrast.leads]
    ahead_of = ahead_relation(ranked, family)
    ranks = ranks_from(sorted(ranked), ahead_of)
    by_task: dict[TaskKey, list[Contrast]] = {key: [] for key in leading}
    for contrast in family:
        by_task[str(contrast.difference.benchmark), contrast.difference.task].append(contrast)
    final_tasks = [
        ranked_task(task, ranked, by_task[task.key], heads)
        if task.key in leading
        else task.model_copy(update={"leads": False, "reason": task.reason or INCOMPLETE})
        for task in tasks
    ]
    described = [
        RankedTutor(
            tutor=name,
            label=display_label(plan, name),
            best=ranks[name][0] if name in ranks else None,
            worst=ranks[name][1] if name in ranks else None,
            ahead_of=sorted(ahead_of.get(name, ())),
            behind=sorted(other for other, names in ahead_of.items() if name in names),
            reason=None if name in ranks else why_not_ranked(plan, name, tasks, lacking[name], leading),
            **floor_counts(name, final_tasks, heads, from_floors),
        )
        for name in lacking
    ]
    described.sort(key=lambda row: (row.worst is None, row.worst or 0, row.best or 0, row.label, row.tutor))
    compared = [
        Comparison(
            benchmark=str(contrast.difference.benchmark),
            value=contrast.difference.value,
            low=contrast.low,
            high=contrast.high,
            verdict=contrast.verdict,
            decisive=contrast.decisive,
            **contrast.difference.model_dump(include={"task", "first", "second", "n", "clusters"}),
        )
        for contrast in family
    ]
    return Ranking(
        scoring=scoring,
        sentence=finding(described, final_tasks, family, heads),
        leaders=[row.tutor for row in described if row.best == 1],
        equivalence=plan.config.report.equivalence,
        tasks=final_tasks,
        tutors=described,
        comparisons=compared,
    )


def ranked_task(
    task: RankedTask,
    ranked: frozenset[str],
    contrasts: Sequence[Contrast],
    heads: Mapping[tuple[str, TaskKey], ReportedScore],
) -> RankedTask:
    """Return a leading task with the ranks on it alone. contrasts: differences of the ranked tutors on this task."""
    ranks = ranks_from(sorted(ranked), ahead_relation(ranked, contrasts))
    first = [name for name, (best, _) in ranks.items() if best == 1]
    leaders = [name for name in first if not is_at_floor(heads.get((name, task.key)), task.higher_is_better)]
    return task.model_copy(update={"ranks": ranks, "leaders": leaders if len(first) < len(ranks) else []})


def floor_counts(
    tutor: str,
    tasks: Sequence[RankedTask],
    heads: Mapping[tuple[str, TaskKey], ReportedScore],
    from_floors: Sequence[Contrast],
) -> dict[str, int | list[str]]:
    """Return a tutor's counts of tasks above and at the floor, as fields of `RankedTutor`.

    from_floors: differences of all tutors from trivial tutors, whose intervals hold together.
    """
    verdicts: dict[TaskKey, set[Verdict]] = {}
    for contrast in from_floors:
        if contrast.difference.first == tutor and contrast.low is not None:
            key = (str(contrast.difference.benchmark), contrast.difference.task)
            verdicts.setdefault(key, set()).add(contrast.verdict)
    at_floor = [
        task for task in tasks if task.leads and is_at_floor(heads.get((tutor, task.key)), task.higher_is_better)
    ]
    return {
        "above_floor": sum(on_task == {"BETTER"} for on_task in verdicts.values()),
        "with_floor": len(verdicts),
        "at_floor": [f"{task.benchmark}/{task.task}" for task in at_floor],
    }


def is_at_floor(score: ReportedScore | None, higher_is_better: bool) -> bool:
    """Return True if this score is no better than that of the best trivial tutor."""
    if score is None or score.value is None or score.floor is None:
        return False
    return score.value <= score.floor if higher_is_better else score.value >= score.floor


def counted(number: int, noun: str) -> str:
    """Return a number with its noun, such as `1 task` or `2 tasks`."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def finding(
    tutors: Sequence[RankedTutor],
    tasks: Sequence[RankedTask],
    family: Sequence[Contrast],
    heads: Mapping[tuple[str, TaskKey], ReportedScore],
) -> str:
    """Return the finding of a run in one sentence without a full stop."""
    ranked = [row for row in tutors if row.best is not None]
    leading = [task for task in tasks if task.leads]
    if not tutors:
        return "No tutor is evaluated in this run"
    if len(tutors) == 1:
        [row] = tutors
        if not row.with_floor and any(task.floor is not None for task in tasks):
            return f"{row.label} has no value that can be compared with a trivial tutor"
        if not row.with_floor:
            return f"{row.label} has no competitor, and no task with a trivial tutor"
        return f"{row.label} is above the best trivial tutor on {row.above_floor} of {counted(row.with_floor, 'task')}"
    if not ranked:
        graded = [task for task in tasks if task.reason != NO_VALUE and not str(task.reason).startswith("not graded")]
        if any(task.reason in (None, INCOMPLETE) for task in graded):
            return "No tutor can be ranked: none has enough graded items on the tasks that lead"
        return f"No tutor can be ranked: none of {counted(len(graded), 'graded task')} tells tutors apart"
    if len(ranked) == 1:
        return f"{ranked[0].label} is the only one of {len(tutors)} tutors that can be ranked"
    if len(ranked) == 2:
        return finding_on_pair(ranked, leading, family, heads)
    leaders = [row for row in ranked if row.best == 1]
    if len(leaders) == 1:
        [first] = leaders
        others, number = len(ranked) - 1, len(first.ahead_of)
        extent = f"all {others}" if number == others else f"{number} of {others}"
        # The tutor that follows in the table: of those behind the leader, the one with the highest rank.
        runner_up = next(row for row in ranked if row.tutor in first.ahead_of)
        between = [contrast for contrast in family if runner_up.tutor in pair_of(contrast)]
        turned = [with_first_tutor(contrast, first.tutor) for contrast in between if first.tutor in pair_of(contrast)]
        better = [contrast for contrast in turned if contrast.verdict == "BETTER"]
        lead = f"; before {runner_up.label} by {points(better, leading, heads)}" if better else ""
        return f"{first.label} comes first, ahead of {extent} other tutors{lead}"
    if len(leaders) <= MOST_NAMED:
        names = join_names([row.label for row in leaders])
        return f"{names} cannot be distinguished at the top of {len(ranked)} tutors"
    return f"{len(leaders)} of {len(ranked)} tutors may be first"


def finding_on_pair(
    ranked: Sequence[RankedTutor],
    leading: Sequence[RankedTask],
    family: Sequence[Contrast],
    heads: Mapping[tuple[str, TaskKey], ReportedScore],
) -> str:
    """Return the finding on two tutors, with the largest difference that supports it, and its interval."""
    first, second = ranked
    turned = [with_first_tutor(contrast, first.tutor) for contrast in family]
    better = [contrast for contrast in turned if contrast.verdict == "BETTER"]
    worse = [contrast for contrast in turned if contrast.verdict == "WORSE"]

    tasks = counted(len(leading), "task")
    if better and not worse:
        extent = f" on {len(better)} of {tasks}" if len(leading) > 1 else f" on {leading[0].title}"
        return f"{first.label} is ahead of {second.label}{extent}: {points(better, leading, heads)}"
    if better and worse:
        extent = f"{len(better)} and {len(worse)} of {tasks}"
        return f"{first.label} and {second.label} are on a level: each is ahead of the other somewhere ({extent})"
    where = f" on {tasks}" if len(leading) > 1 else f" on {leading[0].title}"
    same = all(contrast.verdict in ("SAME", "EQUIVALENT") for contrast in turned)
    word = "are equivalent" if same and turned else "cannot be distinguished"
    gap = points(turned, leading, heads)
    return f"{first.label} and {second.label} {word}{where}{f': {gap}' if gap else ''}"


def pair_of(contrast: Contrast) -> tuple[str, str]:
    """Return the names of the first and the second tutor of a contrast."""
    return contrast.difference.first, contrast.difference.second


def points(
    contrasts: Sequence[Contrast],
    leading: Sequence[RankedTask],
    heads: Mapping[tuple[str, TaskKey], ReportedScore],
) -> str:
    """Return the largest of some differences with its interval, its task and both values; empty without any."""
    known = [contrast for contrast in contrasts if contrast.difference.value is not None]
    if not known:
        return ""
    titles = {task.key: task.title for task in leading}
    largest = max(known, key=lambda contrast: (abs(contrast.difference.value or 0), contrast.difference.task))
    difference = largest.difference
    key = (str(difference.benchmark), difference.task)
    values = [heads[name, key].value for name in pair_of(largest) if (name, key) in heads]
    against = f" ({values[0]:.2f} against {values[1]:.2f})" if len(values) == 2 and None not in values else ""
    interval = f" [{largest.low:+.2f}, {largest.high:+.2f}]" if largest.low is not None else ""
    where = f" on {titles[key]}" if len(titles) > 1 else ""
    return f"{difference.value:+.2f}{interval}{where}{against}"
