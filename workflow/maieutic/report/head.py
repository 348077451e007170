"""Head of the page: one line about what was run, and chips on how far its numbers can be used, worst first."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import pandas as pd

from maieutic.config.cards import Card
from maieutic.config.models import BaselineModel, RecordedModel
from maieutic.core.records import ReportedScore
from maieutic.plan.plan import Plan
from maieutic.report.ranking import (
    NOT_BEATEN,
    NOT_SEPARATED,
    Chip,
    RankedTask,
    Ranking,
    State,
    counted,
    join_names,
    light_of_task,
)
from maieutic.report.sections import ReportInput
from maieutic.report.tables import display_label, exceeds_doubt, format_share, is_silent, tutors_without_scores
from maieutic.report.traffic_light import LightOf
from maieutic.scores.printed import paper_title

MOST_TUTORS = 3  # maximum number of tutors that the head names; more are counted
FEW_ITEMS = 50  # number of items per task below which a chip warns
MOST_CHIPS = 2  # maximum number of tutors with a chip of their own for one matter
SHORT_COMMIT = 7
SEVERITY: tuple[State, ...] = ("bad", "doubtful", "plain", "good")
# State of a chip that shows a traffic light
STATE_OF_LIGHT: dict[str, State] = {
    "red": "bad", "amber": "doubtful", "grey": "doubtful", "none": "doubtful", "green": "good",
}  # fmt: skip
LIGHT_WORDS = {"green": "green", "amber": "amber", "red": "red", "grey": "undecided", "none": "not validated"}


def run_line(run: ReportInput, selected: Mapping[str, Sequence[Card]], runtime: pd.DataFrame) -> list[str]:
    """Return the parts of the line on what was run: benchmarks, tutors, items, cost, date, commit, scoring."""
    plan, provenance = run.plan, run.provenance
    tutors = sorted(display_label(plan, name) for name in plan.run.tutors)
    sizes = sorted({*run.sizes.values()} - {0})
    number = sum(map(len, selected.values()))
    items = "–".join(f"{size:,}" for size in dict.fromkeys([sizes[0], sizes[-1]])) if sizes else "no"
    sample = " (a sample)" if plan.run.limit else ""
    commit = provenance.code.commit if provenance else None
    edited = " with local changes" if provenance and provenance.code.n_edited else ""
    return [
        ", ".join(map(paper_title, selected)),
        (", ".join(tutors) if len(tutors) <= MOST_TUTORS else counted(len(tutors), "tutor")) or "released data only",
        f"{items} items in {counted(number, 'task')}{sample}"
        if number == 1
        else f"{items} items in each of {number} tasks{sample}",
        *([f"up to {plan.repeats} answers to each item"] if plan.repeats > 1 else []),
        cost_words(run, runtime),
        *([provenance.date] if provenance and provenance.date else []),
        *([f"commit {commit[:SHORT_COMMIT]}{edited}"] if commit else []),
        "answers read as by a person (robust)",
    ]


def cost_words(run: ReportInput, runtime: pd.DataFrame) -> str:
    """Return the run's requests, tokens and money in words.

    GPU hours are not on the page: they are known only when the servers have ended, after the page is written.
    """
    plan = run.plan
    calls_model = ~runtime["tutor"].map(lambda name: isinstance(plan.models[name], RecordedModel)).astype(bool)
    tutors = runtime[calls_model]
    judged = [row for row in run.costs if row["name"] in plan.judges_with_model]
    dollars = [float(value) for value in tutors["usd"] if value is not None and value == value]
    dollars += [row["usd"] for row in judged if row["usd"] is not None]
    requests = int(tutors["requests"].sum()) + sum(row["questions"] for row in judged)
    tokens = int(tutors[["prompt_tokens", "completion_tokens"]].to_numpy().sum()) + sum(
        sum(row["tokens"]) for row in judged
    )
    if not requests:
        recorded = all(isinstance(plan.models[name], RecordedModel) for name in plan.run.tutors)
        return "replies from files" if recorded and plan.run.tutors else "no model was asked"
    # Repeated requests and replaced answers also cost money. They are in the ledgers, but not in this sum.
    price = f", ${sum(dollars):,.2f} for the answers on this page" if dollars else ""
    return f"{counted(requests, 'request')}, {tokens:,} tokens{price}"


def chips_of(
    run: ReportInput, ranking: Ranking, selected: Mapping[str, Sequence[Card]], light: LightOf, lacking: Sequence[str]
) -> list[Chip]:
    """Return the chips under the robust scoring, worst first. lacking: lines on missing headline scores."""
    plan = run.plan
    chips = [
        *([Chip(text="Demo data: no number here is a result about a tutor", state="bad", address="#/about")]
          if plan.edition == "demo" else []),
        *separation_chips(ranking, selected),
        *floor_chips(ranking),
        *light_chips(plan, ranking, selected, light),
        *answer_chips(run),
        *missing_chips(run, selected, lacking),
    ]  # fmt: skip
    return sorted(chips, key=lambda chip: SEVERITY.index(chip.state))


def task_page(task: RankedTask) -> str:
    """Return the address of a task's page."""
    return f"#/task/{task.benchmark}/{task.task}"


def separation_chips(ranking: Ranking, selected: Mapping[str, Sequence[Card]]) -> Iterable[Chip]:
    """Yield a chip for each task that cannot tell tutors apart, because a trivial tutor does as well; one for many."""
    even = [task for task in ranking.tasks if task.reason and task.reason.startswith(NOT_SEPARATED)]
    unbeaten = [task for task in ranking.tasks if task.reason and task.reason.startswith(NOT_BEATEN)]

    def title(task: RankedTask) -> str:
        return paper_title(task.benchmark) if len(selected[task.benchmark]) == 1 else task.title

    names = join_names([f"{title(task)} ({task.floor:.2f} against {task.ceiling:.2f})" for task in even])
    together = f"{len(even)} tasks do not separate, since a trivial tutor reaches the human reference: {names}"
    yield from task_chips(even, [f"{title(task)} {task.reason}" for task in even], together)
    names = join_names([f"{title(task)} ({task.floor:.2f})" for task in unbeaten])
    together = f"On {len(unbeaten)} of {len(ranking.tasks)} tasks no tutor beats a trivial one: {names}"
    yield from task_chips(unbeaten, [f"On {title(task)} {task.reason}" for task in unbeaten], together)


def task_chips(tasks: Sequence[RankedTask], texts: Sequence[str], together: str) -> Iterable[Chip]:
    """Yield a bad chip with the text of each task, or one chip with the text `together` if there are many tasks."""
    if len(tasks) > MOST_CHIPS:
        yield Chip(text=together, state="bad", address=task_page(tasks[0]))
    else:
        for task, text in zip(tasks, texts, strict=True):
            yield Chip(text=text, state="bad", address=task_page(task))


def floor_chips(ranking: Ranking) -> Iterable[Chip]:
    """Yield chips on tutors that are not above the best trivial tutor on a leading task."""
    tasks = {f"{task.benchmark}/{task.task}": task for task in ranking.tasks}
    below = [(row.label, [tasks[name].title for name in row.at_floor]) for row in ranking.tutors if row.at_floor]
    first = next((tasks[row.at_floor[0]] for row in ranking.tutors if row.at_floor), None)
    if first is not None:
        yield from tutor_chips(below, "not above a trivial tutor", "bad", task_page(first))


def tutor_chips(rows: Sequence[tuple[str, Sequence[str]]], what: str, state: State, address: str) -> Iterable[Chip]:
    """Yield a chip for each tutor that something holds for, or one chip for all of them if they are many.

    rows: each tutor's label with the titles of the tasks on which it holds.
    """
    if len(rows) <= MOST_CHIPS:
        for label, titles in rows:
            yield Chip(text=f"{label}: {what} on {join_names(titles)}", state=state, address=address)
    else:
        names = join_names([label for label, _ in rows])
        yield Chip(text=f"{len(rows)} tutors: {what} on at least one task ({names})", state=state, address=address)


def light_chips(plan: Plan, ranking: Ranking, selected: Mapping[str, Sequence[Card]], light: LightOf) -> Iterable[Chip]:
    """Yield a chip for each grader and light, with the tasks and the reason."""
    cards = {(card.benchmark, card.task): card for cards in selected.values() for card in cards}
    titles: dict[tuple[str, str, str], list[str]] = {}
    for task in ranking.tasks:
        if graded := light_of_task(plan, cards[task.key], light):
            by, worst = graded
            titles.setdefault((by, worst.colour, worst.why), []).append(task.title)
    for (by, colour, reason), names in titles.items():
        word = "Judge" if by in plan.run.judges else "Reward model"
        text = f"{word} {display_label(plan, by)} on {join_names(names)}: {LIGHT_WORDS[colour]}, {reason}"
        yield Chip(text=text, state=STATE_OF_LIGHT[colour], address="#/trust")


def answer_chips(run: ReportInput) -> Iterable[Chip]:
    """Yield chips on the tutors' answers: too few that can be used, replies not understood, and the share of all."""
    plan = run.plan
    titles = {(loaded.card.benchmark, loaded.card.task): loaded.card.title for loaded in plan.cards.values()}
    heads = [
        (titles.get((benchmark, score.task), score.task), score)
        for benchmark, own_scores in run.scores.items()
        for score in own_scores
        if score.headline and score.scoring == "robust" and score.tutor in plan.run.tutors
    ]
    known = [(score, score.readable) for _, score in heads if score.readable is not None]
    least = format_share(plan.config.report.least_readable)
    silent = grouped(plan, [(title, score) for title, score in heads if is_silent(plan, score.readable)])
    yield from tutor_chips(silent, f"less than {least} of the answers can be used", "bad", "#/items")
    doubted = grouped(plan, [(title, score) for title, score in heads if exceeds_doubt(score)])
    yield from tutor_chips(doubted, "replies that the parser did not understand", "doubtful", "#/items")
    if known:
        sizes = [score.n + score.missing for score, _ in known]
        total = sum(size * share for size, (_, share) in zip(sizes, known, strict=True)) / max(1, sum(sizes))
        state: State = "good" if not any(is_silent(plan, share) for _, share in known) else "plain"
        yield Chip(text=f"{format_share(total)} of the answers can be used", state=state, address="#/items")


def grouped(plan: Plan, heads: Iterable[tuple[str, ReportedScore]]) -> list[tuple[str, list[str]]]:
    """Return each tutor's label with its tasks' titles, without baselines. heads: scores with titles of tasks."""
    by_tutor: dict[str, list[str]] = {}
    for title, score in heads:
        if not isinstance(plan.models[score.tutor], BaselineModel):
            by_tutor.setdefault(score.tutor, []).append(title)
    return [(display_label(plan, name), sorted(by_tutor[name])) for name in sorted(by_tutor)]


def missing_chips(run: ReportInput, selected: Mapping[str, Sequence[Card]], lacking: Sequence[str]) -> Iterable[Chip]:
    """Yield chips on tutors whose job failed, requests without an answer, and scores that are missing.

    lacking: lines on missing headline scores. A task that the run cannot grade is a fact, not a failure.
    """
    plan = run.plan
    if absent := [display_label(plan, name) for name in tutors_without_scores(plan, run.scores)]:
        yield Chip(text=f"Failed, without scores: {join_names(absent)}", state="bad", address="#/about")
    unanswered = [(benchmark, tutor, counts) for benchmark, tutor, counts in run.unanswered if counts.missing]
    if len(unanswered) <= MOST_CHIPS:
        for benchmark, tutor, counts in unanswered:
            text = f"{display_label(plan, tutor)} on {paper_title(benchmark)}: {counts.cause}"
            yield Chip(text=text, state="doubtful", address="#/items")
    else:
        names = join_names(sorted({display_label(plan, tutor) for _, tutor, _ in unanswered}))
        yield Chip(text=f"Items without an answer by {names}", state="doubtful", address="#/items")
    if lacking:
        yield Chip(text=f"Scores are missing: {lacking[0]}{more(lacking)}", state="doubtful", address="#/about")
    without = cards_without_values(plan, selected)
    number = sum(map(len, selected.values()))
    if without:
        names = join_names([card.title for card, _ in without])
        state: State = "doubtful" if 2 * len(without) > number else "plain"
        text = f"{len(without)} of {counted(number, 'task')} without values: {names}"
        yield Chip(text=text, state=state, address=f"#/task/{without[0][0].benchmark}/{without[0][0].task}")
    sizes = sorted({*run.sizes.values()} - {0})
    if sizes and sizes[-1] < FEW_ITEMS:
        text = f"At most {counted(sizes[-1], 'item')} per task: only large differences show"
        yield Chip(text=text, state="doubtful", address="#/about")


def cards_without_values(plan: Plan, selected: Mapping[str, Sequence[Card]]) -> list[tuple[Card, str]]:
    """Return the tasks that have no value in this run, with the reason: not graded, or no tutor was asked."""
    tutors = [name for name in plan.run.tutors if name in plan.tutors]
    return [
        (card, plan.why_not_graded(card) or "no tutor of this run was asked")
        for cards in selected.values()
        for card in cards
        if plan.why_not_graded(card) or not any(plan.is_answered_by(card, name) for name in tutors)
    ]


def more(lines: Sequence[str]) -> str:
    """Return how many lines follow the first one, in words."""
    return f", and {len(lines) - 1} more" if len(lines) > 1 else ""
