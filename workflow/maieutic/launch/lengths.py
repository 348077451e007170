"""Lengths of answers that have not been written yet, as the range between models whose answers are known.

`resources/reply_lengths.csv` has the mean length of published replies by task and model, written by
bench/request_sizes.py. Tasks without published replies are estimated from the length of their references.
"""

from __future__ import annotations

import csv
from collections import defaultdict
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from statistics import mean
from typing import NamedTuple

from maieutic.config.models import HostedModel, Model
from maieutic.core import paths
from maieutic.serving.budget import CHARS_A_TOKEN

LENGTHS_FILE = paths.RESOURCES / "reply_lengths.csv"
VERDICT_TOKENS = 24.7  # of one criterion without a reason: 150 verdict lists about TutorBench by Claude Sonnet 4.6
REASON_TOKENS = 33.8  # of one reason: 1,536 sentences about MRBench by a Llama critic, at CHARS_A_TOKEN
ASSUMED_ANSWER_CHARS = 600.0  # typical length of an answer to a task of unknown size
ASSUMED_THINKING = 2048  # most tokens of thinking before an answer, for models that set no budget themselves


class AmountRange(NamedTuple):
    """A quantity between two ends, both included. They are equal if it is known."""

    low: float
    high: float

    def times(self, factor: float) -> AmountRange:
        """Return the range with both ends multiplied. factor: not negative."""
        return AmountRange(self.low * factor, self.high * factor)


NOTHING = AmountRange(0.0, 0.0)


def total_of(spans: Sequence[AmountRange]) -> AmountRange:
    """Return the sum of ranges: low ends and high ends are added separately."""
    return AmountRange(sum(span.low for span in spans), sum(span.high for span in spans))


def known(value: float) -> AmountRange:
    """Return a known quantity."""
    return AmountRange(value, value)


def span_text(span: AmountRange, form: str = ",.2f") -> str:
    """Return a quantity as text: `between 1.20 and 3.40`, or one number if both ends are printed alike."""
    low, high = (format(end, form) for end in span)
    return low if low == high else f"between {low} and {high}"


class KnownReplies(NamedTuple):
    """Published replies of one model to a task, or to a part of it.

    share: share of the task's items that this part has; reference: mean number of characters of the human references,
    None without; tokens: mean number of tokens of a reply.
    """

    model: str
    share: float
    reference: float | None
    tokens: float


@cache
def known_replies(path: Path = LENGTHS_FILE) -> dict[tuple[str, str], list[KnownReplies]]:
    """Return the published replies by benchmark and task."""
    tasks: dict[tuple[str, str], list[KnownReplies]] = defaultdict(list)
    with open(path, encoding="utf-8", newline="") as handle:
        for row in csv.DictReader(handle):
            reference = float(row["reference_chars"]) if row["reference_chars"] else None
            entry = KnownReplies(row["model"], float(row["share"]), reference, float(row["tokens"]))
            tasks[row["benchmark"], row["task"]].append(entry)
    return dict(tasks)


def by_model(replies: Sequence[KnownReplies]) -> dict[str, float]:
    """Return the mean tokens of a reply by model, over the parts of a task."""
    sums: dict[str, float] = defaultdict(float)
    for entry in replies:
        sums[entry.model] += entry.share * entry.tokens
    return dict(sums)


@cache
def spread_of_models() -> AmountRange:
    """Return the mean lengths of the shortest and of the longest model, relative to the mean of all models.

    From the tasks to which several models replied.
    """
    relative = [
        tokens / mean(lengths.values())
        for replies in known_replies().values()
        if len(lengths := by_model(replies)) > 1
        for tokens in lengths.values()
    ]
    return AmountRange(min(relative), max(relative))


@cache
def ratio_to_reference() -> AmountRange:
    """Return the lengths of models' replies relative to the human references: of the shortest and longest model."""
    ratios = [
        entry.tokens * CHARS_A_TOKEN / entry.reference
        for replies in known_replies().values()
        for entry in replies
        if entry.reference
    ]
    return AmountRange(min(ratios), max(ratios))


def answer_span(benchmark: str, task: str, reference_chars: float) -> AmountRange:
    """Return the tokens of one answer to a task: of the known model with the shortest answers to that with the longest.

    If one model's replies to the task are known, models differ from it as they differ on other tasks. If none is, their
    answers are as long, relative to the reference, as on other tasks. reference_chars: mean length of the task's
    references.
    """
    lengths = by_model(known_replies().get((benchmark, task), []))
    if len(lengths) > 1:
        return AmountRange(min(lengths.values()), max(lengths.values()))
    if lengths:
        return spread_of_models().times(next(iter(lengths.values())))
    return ratio_to_reference().times(reference_chars / CHARS_A_TOKEN)


def verdict_span(criteria: float, reasons: bool = True) -> AmountRange:
    """Return the tokens of a judge's answer; with reasons, from none to a sentence on each criterion.

    criteria: number of criteria in the question, 0 for a question that names none.
    """
    parts = max(1.0, criteria)
    return AmountRange(parts * VERDICT_TOKENS, parts * (VERDICT_TOKENS + REASON_TOKENS * reasons))


def thinking_budget(entry: Model) -> int:
    """Return the most tokens that a hosted model thinks before one answer, 0 for a model that does not think.

    An entry that omits `max_tokens` is one of a model that always thinks: its limit would count the thinking too.
    """
    if not isinstance(entry, HostedModel):
        return 0
    if entry.thinking_tokens:
        return entry.thinking_tokens
    if isinstance(entry.thinking, int) and not isinstance(entry.thinking, bool):
        return entry.thinking
    thinks = entry.thinking not in (None, False) or (entry.thinking is None and "max_tokens" in entry.omit)
    return ASSUMED_THINKING if thinks else 0
