"""Count the items that a tutor answered, and the reasons why other items have no answer."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import NamedTuple

from maieutic.core.records import NO_REPLY, Reply, iter_records
from maieutic.core.thinking import has_unknown_mark
from maieutic.graders.turns import has_foreign_turn

MAX_MESSAGE_CHARACTERS = 160  # maximum length of an endpoint's error message
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
