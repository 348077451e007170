"""Count the items that a tutor answered, the reasons why others have no answer, and silent changes by endpoints."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from maieutic.config.models import BaselineModel, Model
from maieutic.core import paths
from maieutic.core.ledger import JobSpending
from maieutic.core.records import NO_REPLY, Reply, iter_records
from maieutic.core.thinking import has_unknown_mark
from maieutic.graders.turns import has_foreign_turn
from maieutic.plan.plan import Plan

MAX_MESSAGE_CHARACTERS = 160  # maximum length of an endpoint's error message
MOST_UNKNOWN_MARKERS = 0.05  # share of answers with unknown reasoning markers above which the run reports them
MOST_CONTINUED = 0.01  # share of replies that go on as another speaker above which the run reports them
RECORDED_ERRORS = (NO_REPLY, "recorded replies")  # beginnings of errors of recorded replies, which count as missing


class ReplyCounts(NamedTuple):
    """Counts of one tutor's replies to a benchmark.

    refused: number of replies with an error, such as a refusal by the server; cut: number of empty replies because the
    reasoning used up the token budget; empty: number of other replies without text; most_frequent_error: text of the
    most frequent error; marked: number of replies that begin with an unknown reasoning mark; continued: number of
    replies that go on with turns of other speakers.
    """

    items: int
    answered: int
    refused: int
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
    def cause(self) -> str:
        """One-line summary of the reasons why items have no answer."""
        error = self.most_frequent_error
        is_recorded = error.startswith(RECORDED_ERRORS)
        parts = [
            f"{self.refused} missing ({error})" if self.refused and is_recorded else "",
            f'{self.refused} refused ("{error}")' if self.refused and not is_recorded else "",
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
        counts["refused"],
        counts["cut"],
        counts["empty"],
        words[:MAX_MESSAGE_CHARACTERS],
        marked,
        continued,
    )


def reply_status(reply: Reply) -> str:
    """Classify a reply: `answered`, `refused`, `cut` or `empty`."""
    if reply.error:
        return "refused"
    if reply.text.strip():
        return "answered"
    return "cut" if reply.turns and reply.turns[-1].finish == "length" else "empty"


def poorly_answered(plan: Plan, results: Path) -> Iterator[tuple[str, str, ReplyCounts]]:
    """Yield (benchmark, tutor, counts) of tutors that answer few items, or often write more than the answer.

    More than the answer are reasoning behind an unknown marker, and turns of another speaker. The limits on the shares
    are `report.least_readable`, MOST_UNKNOWN_MARKERS and MOST_CONTINUED.
    """
    for benchmark in plan.benchmarks:
        for tutor in (name for name in plan.run.tutors if name in plan.tutors_on(benchmark)):
            replies = paths.REPLIES.within(results, benchmark=benchmark, tutor=tutor)
            if not isinstance(plan.models[tutor], BaselineModel) and replies.exists():
                counted = count_replies(replies)
                if (
                    counted.share < plan.config.report.least_readable
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
