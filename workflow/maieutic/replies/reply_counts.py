"""Count the items that a tutor answered, the reasons why others have no answer, and silent changes by endpoints."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from maieutic.config.models import BaselineModel, Model
from maieutic.core import paths
from maieutic.core.errors import UserError
from maieutic.core.ledger import JobSpending
from maieutic.core.records import NO_REPLY, Reply, iter_records
from maieutic.core.states import FAILED_MARK, FILTERED_MARK, MISSING_STATES, state_of
from maieutic.core.thinking import has_unknown_mark
from maieutic.graders.turns import has_foreign_turn
from maieutic.plan.plan import Plan

MAX_MESSAGE_CHARACTERS = 160  # maximum length of an endpoint's error message
MOST_UNKNOWN_MARKERS = 0.05  # share of answers with unknown reasoning markers above which the run reports them
MOST_EMPTY = 0.05  # share of replies without text above which the run reports them
MOST_CONTINUED = 0.01  # share of replies that go on as another speaker above which the run reports them
RECORDED_ERRORS = (NO_REPLY, "recorded replies")  # beginnings of errors of recorded replies, which count as missing


class ReplyCounts(NamedTuple):
    """Counts of one tutor's replies to a benchmark.

    missing: number of items without an answer by state (`refused`, `filtered`, `failed`); cut: number of empty replies
    because the reasoning used up the token budget; empty: number of other replies without text; most_frequent_error:
    text of the most frequent error; marked: number of replies that begin with an unknown reasoning mark; continued:
    number of replies that go on with turns of other speakers.
    """

    items: int
    answered: int
    missing: dict[str, int]
    cut: int
    empty: int
    most_frequent_error: str
    marked: int = 0
    continued: int = 0

    @property
    def share(self) -> float:
        """Share of items with an answer; 1 if there are no items."""
        return self.answered / self.items if self.items else 1.0

    @property
    def missing_share(self) -> float:
        """Share of items whose request has no answer, and that therefore count as missing."""
        return sum(self.missing.values()) / self.items if self.items else 0.0

    @property
    def cause(self) -> str:
        """One-line summary of the reasons why items have no answer."""
        error = self.most_frequent_error
        counts = {"missing": sum(self.missing.values())} if error.startswith(RECORDED_ERRORS) else self.missing
        states = ", ".join(f"{number} {state}" for state, number in counts.items())
        parts = [
            f'{states} ("{error.removeprefix(FILTERED_MARK).removeprefix(FAILED_MARK)}")' if states else "",
            f"{self.cut} empty because reasoning used up max_tokens" if self.cut else "",
            f"{self.empty} empty" if self.empty else "",
        ]
        return ", ".join(part for part in parts if part)


def count_replies(replies: Path) -> ReplyCounts:
    """Count one tutor's answers to one benchmark. replies: file of the replies."""
    counts: Counter[str] = Counter()
    refusals: Counter[str] = Counter()
    marked = continued = 0
    for reply in iter_records(replies, Reply):
        counts[reply_status(reply)] += 1
        marked += has_unknown_mark(reply.text)
        continued += has_foreign_turn(reply.text)
        if reply.error:
            refusals[reply.error] += 1
    words = refusals.most_common(1)[0][0] if refusals else ""
    return ReplyCounts(
        counts.total(),
        counts["answered"],
        {state: counts[state] for state in MISSING_STATES if counts[state]},
        counts["cut"],
        counts["empty"],
        words[:MAX_MESSAGE_CHARACTERS],
        marked,
        continued,
    )


def reply_status(reply: Reply) -> str:
    """Return the state of a reply: `answered`, `cut` or `empty`, or that of its error."""
    if reply.error:
        return state_of(reply.error)
    if reply.text.strip():
        return "answered"
    return "cut" if reply.turns and reply.turns[-1].finish == "length" else "empty"


def answers_too_few(plan: Plan, counted: ReplyCounts) -> bool:
    """Return True if a tutor answered so few items of a benchmark that it is not ranked."""
    return counted.share < plan.config.report.least_readable or counted.missing_share > plan.run.max_missing


def too_many_failed(plan: Plan, results: Path) -> Iterator[UserError]:
    """Yield an error for each tutor and benchmark of which more requests than `run.max_missing` failed.

    A later run of the same configuration asks each of them once more.
    """
    for benchmark, tutor, counted in poorly_answered(plan, results):
        failed = counted.missing.get("failed", 0)
        if failed > plan.run.max_missing * counted.items:
            problem = f"{failed} of {counted.items} requests of {tutor} on {benchmark} failed: {counted.cause}"
            yield UserError(
                "run.max_missing",
                problem,
                "run again to ask each of them once more, or raise run.max_missing to accept the rest as it is",
            )


def poorly_answered(plan: Plan, results: Path, any_missing: bool = False) -> Iterator[tuple[str, str, ReplyCounts]]:
    """Yield (benchmark, tutor, counts) of tutors that answer few items, or often write nothing or more than the answer.

    More than the answer are reasoning behind an unknown marker, and turns of another speaker. The limits on the shares
    are `report.least_readable`, `run.max_missing`, MOST_EMPTY, MOST_UNKNOWN_MARKERS and MOST_CONTINUED.
    any_missing: also yield tutors with a single item without an answer.
    """
    for benchmark in plan.benchmarks:
        for tutor in (name for name in plan.run.tutors if name in plan.tutors_on(benchmark)):
            replies = paths.REPLIES.within(results, benchmark=benchmark, tutor=tutor)
            if not isinstance(plan.models[tutor], BaselineModel) and replies.exists():
                counted = count_replies(replies)
                if (
                    answers_too_few(plan, counted)
                    or (any_missing and counted.missing)
                    or counted.empty > MOST_EMPTY * counted.items
                    or counted.marked > MOST_UNKNOWN_MARKERS * counted.items
                    or counted.continued > MOST_CONTINUED * counted.items
                ):
                    yield benchmark, tutor, counted


def is_handled(entry: Model, kind: str, line: str) -> bool:
    """Return True if a model's entry already has the setting that a message about a silent change recommends.

    kind: kind of change, such as `max_tokens`; line: the message.
    """
    omitted = getattr(entry, "omit", [])
    if kind == "model":
        model = getattr(entry, "model", None)
        # Ledgers of earlier versions contain the second form.
        return f" answers requests for {model}: " not in line and f" where {model} is asked: " not in line
    if kind == "max_tokens" and line.endswith(f"max_tokens_as: {getattr(entry, 'max_tokens_as', None)}"):
        return True
    return kind in omitted


def unhandled_changes(plan: Plan, spent: Iterable[JobSpending]) -> list[tuple[str, str]]:
    """Return (asker, message) for each silent change by an endpoint that the asker's entry does not handle yet."""
    askers = {*plan.run.tutors, *plan.run.judges}
    entries = [entry for entry in spent if entry.asker in askers]
    lines = {(entry.asker, kind): line for entry in entries for kind, line in entry.unheeded.items()}
    return [
        (asker, line)
        for (asker, kind), line in lines.items()
        if not is_handled(plan.models[plan.answering_entry(asker)], kind, line)
    ]
