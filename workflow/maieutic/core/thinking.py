"""Thinking tokens are kept and never scored."""

from __future__ import annotations

OPEN, CLOSE = "<think>", "</think>"


def split_thinking(text: str) -> tuple[str, str | None]:
    """The answer and the reasoning before it. Reasoning that never closes leaves an empty answer.

    The blank lines between them belong to neither: a stop string of a new line would cut the answer off.
    """
    before, close, after = text.rpartition(CLOSE)
    if close:
        return after.lstrip(), before.replace(OPEN, "", 1)
    before, opened, after = text.partition(OPEN)
    if opened and not before.strip():
        return "", after
    return text, None


def cut_at_stop(text: str, stops: list[str]) -> str:
    """The text before its first stop string, for servers that cannot be told to stop there."""
    ends = [position for stop in stops if (position := text.find(stop)) >= 0]
    return text[: min(ends)] if ends else text
