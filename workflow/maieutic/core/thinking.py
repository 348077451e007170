"""Separation of a model's inline reasoning from its answer. The reasoning is stored, but never scored.

The marks of these chat templates are recognised: `<think>` (DeepSeek, Qwen and most others), `[THINK]` (Mistral), the
channels of OpenAI's Harmony format, `<|START_THINKING|>` (Cohere), `<seed:think>` (ByteDance), the triangles of Kimi,
and tags with names similar to `think`.
"""

from __future__ import annotations

import re

NAME = r"(?:think|thinking|thought|thoughts|reasoning|reflection|scratchpad|analysis|seed:think|longcat_think)"
OPEN = re.compile(
    rf"<{NAME}>|\[THINK\]|<\|START_THINKING\|>|<\|begin_of_thought\|>|\u25c1think\u25b7"
    r"|(?:<\|start\|>assistant)?<\|channel\|>(?:analysis|commentary)[^<]{0,40}<\|message\|>",
    re.IGNORECASE,
)
CLOSE = re.compile(
    rf"</{NAME}>|\[/THINK\]|<\|END_THINKING\|>|<\|end_of_thought\|>|\u25c1/think\u25b7"
    r"|<\|start\|>assistant<\|channel\|>final(?: [^<]{0,40})?<\|message\|>|<\|channel\|>final<\|message\|>",
    re.IGNORECASE,
)
# Marks that some templates put around the final answer.
WRAPPED = re.compile(
    r"<\|(?:START|END)_RESPONSE\|>|<\|(?:end|return|call)\|>|<\|(?:begin|end)_of_solution\|>", re.IGNORECASE
)
HARMONY_END = re.compile(r"<\|end\|>\s*\Z")
# An unknown tag at the beginning of an answer that resembles a reasoning mark.
UNKNOWN = re.compile(
    r"\A\s*(?:<[|/]?[a-z0-9_:|-]{0,20}(?:think|thought|reason|reflect|ponder|scratch|cot)[a-z0-9_:|-]{0,20}>"
    r"|\[[A-Z_]{0,20}(?:THINK|THOUGHT|REASON|REFLECT|COT)[A-Z_]{0,20}\])",
    re.IGNORECASE,
)
QUOTES = "\"'`\u201c\u201d\u2018\u2019\u00ab\u00bb"


def split_thinking(text: str) -> tuple[str, str | None]:
    """Return the answer, and the reasoning before it or None. If the reasoning is not closed, the answer is empty.

    A closing mark needs no opening mark, which may be part of the prompt's template. A closing mark inside quotation
    marks or an ordinary sentence is ignored. Blank lines between reasoning and answer are dropped, since the answer
    would otherwise be empty if a newline is a stop string.
    """
    opened = OPEN.search(text)
    begins = opened is not None and not text[: opened.start()].strip()
    closes = [match for match in CLOSE.finditer(text) if begins or not is_in_sentence(text, match)]
    if closes := [match for match in closes if not is_quoted(text, match)]:
        last = closes[-1]
        reasoning = text[opened.end() if begins and opened else 0 : last.start()]
        return WRAPPED.sub("", text[last.end() :]).lstrip(), HARMONY_END.sub("", reasoning)
    if begins and opened:
        return "", text[opened.end() :]
    return text, None


def is_quoted(text: str, match: re.Match[str]) -> bool:
    """Return True if a mark is enclosed in quotation marks or backticks."""
    before, after = text[: match.start()][-1:], text[match.end() :][:1]
    return bool(before) and before in QUOTES and bool(after) and after in QUOTES


def is_in_sentence(text: str, match: re.Match[str]) -> bool:
    """Return True if a mark is part of a sentence ("The tag </think> closes it")."""
    before, after = text[: match.start()], text[match.end() :]
    return before[-1:] == " " and before.rstrip(" ")[-1:].isalpha() and re.match(r" [a-z]", after) is not None


def has_unknown_mark(text: str) -> bool:
    """Return True if an answer begins with an unknown mark that resembles a reasoning mark."""
    return UNKNOWN.match(text) is not None


def cut_at_stop(text: str, stops: list[str]) -> str:
    """Return the text before the first stop string in it, for servers that do not support stop strings."""
    ends = [position for stop in stops if (position := text.find(stop)) >= 0]
    return text[: min(ends)] if ends else text
