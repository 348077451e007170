"""Count the items that a tutor answered, and the reasons for missing answers."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import NamedTuple

from maieutic.core.records import NO_REPLY, Reply, each_record
from maieutic.core.thinking import unknown_mark

LONGEST = 160  # characters of an endpoint's words
RECORDED = (NO_REPLY, "recorded replies")  # of a tutor that is no endpoint: nobody refused anything


class Answered(NamedTuple):
    """Counts of one tutor's replies to a benchmark.

    refused: the server sent no reply; cut: the token budget ran out before the first word; empty: no text; words:
    message of the most frequent refusal; marked: answers that begin with an unknown mark of reasoning.
    """

    items: int
    answered: int
    refused: int
    cut: int
    empty: int
    words: str
    marked: int = 0

    @property
    def share(self) -> float:
        """Return the share of items with an answer, 1 without items."""
        return self.answered / self.items if self.items else 1.0

    @property
    def cause(self) -> str:
        """Return the reasons for missing answers in one line."""
        parts = [
            f"{self.refused} missing ({self.words})" if self.refused and self.words.startswith(RECORDED) else "",
            f'{self.refused} refused ("{self.words}")' if self.refused and not self.words.startswith(RECORDED) else "",
            f"{self.cut} empty since max_tokens were used up, by reasoning" if self.cut else "",
            f"{self.empty} empty" if self.empty else "",
        ]
        return ", ".join(part for part in parts if part)


def answered(replies: Path) -> Answered:
    """Count the answers of one tutor to one benchmark. replies: the file, read one reply at a time."""
    counts: Counter[str] = Counter()
    refusals: Counter[str] = Counter()
    marked = 0
    for reply in each_record(replies, Reply):
        counts[kind_of(reply)] += 1
        marked += unknown_mark(reply.text)
        if reply.error:
            refusals[reply.error] += 1
    words = refusals.most_common(1)[0][0] if refusals else ""
    return Answered(
        counts.total(), counts["answered"], counts["refused"], counts["cut"], counts["empty"], words[:LONGEST], marked
    )


def kind_of(reply: Reply) -> str:
    """Classify a reply: `answered`, `refused`, `cut` or `empty`."""
    if reply.error:
        return "refused"
    if reply.text.strip():
        return "answered"
    return "cut" if reply.turns and reply.turns[-1].finish == "length" else "empty"
