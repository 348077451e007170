"""Head of the page: one line about what was run, and four tiles on how far its numbers can be used."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple

import pandas as pd

from maieutic.config.cards import Card
from maieutic.config.models import RecordedModel
from maieutic.core.records import ReportedScore
from maieutic.plan.plan import Plan
from maieutic.report.sections import ReportInput
from maieutic.report.tables import display_label, exceeds_doubt, format_share, tutors_without_scores
from maieutic.report.traffic_light import LightOf, criteria_of_kind, headline_grader, kind_on, verdict_kind_title
from maieutic.scores.printed import paper_title

MOST_TUTORS = 3  # maximum number of tutors that the head names; more are counted
SHORT_COMMIT = 7
State = Literal["bad", "doubtful", "good", "plain"]
SEVERITY: tuple[State, ...] = ("bad", "doubtful", "good", "plain")
# State of a tile that shows a traffic light
STATE_OF_LIGHT: dict[str, State] = {
    "red": "bad", "amber": "doubtful", "grey": "doubtful", "none": "doubtful", "green": "good",
}  # fmt: skip
LIGHT_WORDS = {"green": "green", "amber": "amber", "red": "red", "grey": "undecided", "none": "not validated"}


class Tile(NamedTuple):
    """A tile of the page's head. value: what is read first; detail: one line below it; address: page with more."""

    title: str
    value: str
    detail: str
    state: State
    address: str


def counted(number: int, noun: str) -> str:
    """Return a number with its noun, such as `1 task` or `2 tasks`."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def run_line(run: ReportInput, selected: Mapping[str, Sequence[Card]]) -> list[str]:
    """Return the parts of the line on what was run: benchmarks, tutors, items, date, run, commit, scoring."""
    plan, provenance = run.plan, run.provenance
    tutors = [display_label(plan, name) for name in plan.run.tutors]
    sizes = sorted({*run.sizes.values()} - {0})
    number = sum(map(len, selected.values()))
    items = "–".join(f"{size:,}" for size in dict.fromkeys([sizes[0], sizes[-1]])) if sizes else "no"
    commit = provenance.code.commit if provenance else None
    edited = " with local changes" if provenance and provenance.code.n_edited else ""
    return [
        ", ".join(map(paper_title, selected)),
        (", ".join(tutors) if len(tutors) <= MOST_TUTORS else counted(len(tutors), "tutor")) or "released data only",
        f"{items} items in {counted(number, 'task')}" if number == 1 else f"{items} items in each of {number} tasks",
        *([f"up to {plan.repeats} answers to each item"] if plan.repeats > 1 else []),
        *([provenance.date] if provenance and provenance.date else []),
        *([f"run {plan.run.name}"] if plan.run.name else []),
        *([f"commit {commit[:SHORT_COMMIT]}{edited}"] if commit else []),
        "answers read as by a person (robust)",
    ]


def readable_tile(plan: Plan, scores: Mapping[str, Sequence[ReportedScore]], least: float) -> Tile:
    """Return the tile with the share of the tutors' headline scores' items that have a usable answer or verdict."""
    title, heads = "Answers that can be used", []
    for own_scores in scores.values():
        heads += [
            score
            for score in own_scores
            if score.headline and score.scoring == "robust" and score.tutor in plan.run.tutors
        ]
    known = [(score, score.readable) for score in heads if score.readable is not None]
    if not known and not plan.run.tutors:
        return Tile(title, "–", "the run has no tutors", "plain", "#/")
    if not known:
        return Tile(title, "–", "no headline score", "doubtful", "#/")
    sizes = [score.n + score.missing for score, _ in known]
    total = sum(size * share for size, (_, share) in zip(sizes, known, strict=True)) / max(1, sum(sizes))
    worst, lowest = min(known, key=lambda pair: pair[1])
    card = next((loaded.card for loaded in plan.cards.values() if loaded.card.task == worst.task), None)
    where = f"{display_label(plan, worst.tutor)}, {card.title if card else worst.task}"
    detail = "all tutors, all tasks" if lowest == 1 else f"lowest: {format_share(lowest)} ({where})"
    doubted = any(exceeds_doubt(score) for score, _ in known)
    return Tile(
        title, format_share(total), detail, "bad" if lowest < least else "doubtful" if doubted else "good", "#/"
    )


def grader_tile(plan: Plan, cards: Sequence[Card], light: LightOf) -> Tile:
    """Return the tile with the light of the first model that grades headline scores; by criterion if it has several."""
    by_card = [(grader, card) for card in cards if (grader := headline_grader(plan, card))]
    if not by_card:
        return Tile("Graders", "rules only", "no model grades a headline score", "good", "#/about")
    grader, card = next(((name, card) for name, card in by_card if name in plan.run.judges), by_card[0])
    kind = kind_on(plan, grader, card)
    assert kind is not None
    whole = light(grader, kind)
    criteria = criteria_of_kind(plan, grader, kind)
    colours = Counter(light(grader, kind, None, criterion).colour for criterion in criteria)
    title = f"{'Judge' if grader in plan.run.judges else 'Reward model'}: {display_label(plan, grader)}"
    if len(criteria) > 1:
        value = ", ".join(f"{word}: {colours[colour]}" for colour, word in LIGHT_WORDS.items() if colours[colour])
        detail = f"of {len(criteria)} criteria ({verdict_kind_title(kind)})"
        state = min((STATE_OF_LIGHT[colour] for colour in colours), key=SEVERITY.index)
    else:
        value, detail, state = LIGHT_WORDS[whole.colour], whole.summary, STATE_OF_LIGHT[whole.colour]
    return Tile(title, value, detail, state, "#/trust")


def cost_tile(run: ReportInput, runtime: pd.DataFrame) -> Tile:
    """Return the tile with the run's money, requests and tokens.

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
    value = f"${sum(dollars):,.2f}" if dollars else counted(requests, "request")
    if not requests:
        recorded = all(isinstance(plan.models[name], RecordedModel) for name in plan.run.tutors)
        detail = "the replies are from files" if recorded else "no model was asked"
    elif dollars:
        # Repeated requests and replaced answers also cost money. They are in the ledgers, but not in this sum.
        detail = f"{counted(requests, 'request')}, {tokens:,} tokens, for the answers on this page"
    else:
        detail = f"{tokens:,} tokens, no price known"
    return Tile("Cost", value, detail, "plain", "#/")


def missing_tile(lacking: Sequence[str], absent: Sequence[str]) -> Tile:
    """Return the tile with the number of headline scores that are missing. absent: tutors without any score."""
    if absent:
        return Tile("Missing", counted(len(absent), "tutor"), f"failed: {', '.join(absent)}", "bad", "#/")
    if lacking:
        return Tile("Missing", f"scores on {counted(len(lacking), 'task')}", lacking[0], "doubtful", "#/")
    return Tile("Missing", "nothing", "every tutor has every headline score", "good", "#/")


def tiles_of(
    run: ReportInput, runtime: pd.DataFrame, cards: Sequence[Card], light: LightOf, lacking: Sequence[str]
) -> list[Tile]:
    """Return the four tiles. cards: the selected cards; lacking: lines on missing headline scores."""
    absent = [display_label(run.plan, name) for name in tutors_without_scores(run.plan, run.scores)]
    return [
        readable_tile(run.plan, run.scores, run.plan.config.report.least_readable),
        grader_tile(run.plan, cards, light),
        cost_tile(run, runtime),
        missing_tile(lacking, absent),
    ]


def trust_line(tiles: Sequence[Tile], demo: bool) -> str:
    """Return one sentence on how far the run's numbers can be used. demo: True for the demo's data."""
    if demo:
        return "Demo data: no number here is a result about a tutor."
    bad = [f"{tile.title.lower()}: {tile.value}, {tile.detail}" for tile in tiles if tile.state == "bad"]
    doubtful = [f"{tile.title.lower()}: {tile.value}" for tile in tiles if tile.state == "doubtful"]
    if bad or doubtful:
        return f"Use these numbers with care ({'; '.join([*bad, *doubtful])})."
    return (
        "Nothing speaks against these numbers: enough answers can be used, no grader is in doubt, nothing is missing."
    )


def in_order(tiles: Sequence[Tile]) -> list[Tile]:
    """Return the tiles with bad ones first and doubtful ones next, otherwise in their order."""
    return sorted(tiles, key=lambda tile: min(SEVERITY.index(tile.state), SEVERITY.index("good")))
