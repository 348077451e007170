"""Reasoning that models write into their answers: kept, and never scored.

The marks are those of chat templates: DeepSeek, Qwen and most others `<think>`, Mistral `[THINK]`, OpenAI's Harmony
channels, Cohere `<|START_THINKING|>`, Kimi's triangles, ByteDance `<seed:think>`, and tags of other names.
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
# Marks that some templates put around the answer itself.
WRAPPED = re.compile(
    r"<\|(?:START|END)_RESPONSE\|>|<\|(?:end|return|call)\|>|<\|(?:begin|end)_of_solution\|>", re.IGNORECASE
)
HARMONY_END = re.compile(r"<\|end\|>\s*\Z")
# Resembles a mark of reasoning, at the beginning of an answer.
UNKNOWN = re.compile(
    r"\A\s*(?:<[|/]?[a-z0-9_:|-]{0,20}(?:think|thought|reason|reflect|ponder|scratch|cot)[a-z0-9_:|-]{0,20}>"
    r"|\[[A-Z_]{0,20}(?:THINK|THOUGHT|REASON|REFLECT|COT)[A-Z_]{0,20}\])",
    re.IGNORECASE,
)
QUOTES = "\"'`\u201c\u201d\u2018\u2019\u00ab\u00bb"


def split_thinking(text: str) -> tuple[str, str | None]:
    """The answer and the reasoning before it. Reasoning that never closes leaves an empty answer.

    A mark that closes reasoning counts without one that opens it, which a template may hold, but not within quotation
    marks or an ordinary sentence. Blank lines between reasoning and answer belong to neither: a stop string of a new
    line would cut the answer off.
    """
    opened = OPEN.search(text)
    begins = opened is not None and not text[: opened.start()].strip()
    closes = [match for match in CLOSE.finditer(text) if begins or not in_a_sentence(text, match)]
    if closes := [match for match in closes if not is_quoted(text, match)]:
        last = closes[-1]
        reasoning = text[opened.end() if begins and opened else 0 : last.start()]
        return WRAPPED.sub("", text[last.end() :]).lstrip(), HARMONY_END.sub("", reasoning)
    if begins and opened:
        return "", text[opened.end() :]
    return text, None


def is_quoted(text: str, match: re.Match[str]) -> bool:
    """Return whether a mark stands between quotation marks or backticks."""
    before, after = text[: match.start()][-1:], text[match.end() :][:1]
    return bool(before) and before in QUOTES and bool(after) and after in QUOTES


def in_a_sentence(text: str, match: re.Match[str]) -> bool:
    """Return whether a mark stands inside a sentence ("The tag </think> closes it")."""
    before, after = text[: match.start()], text[match.end() :]
    return before[-1:] == " " and before.rstrip(" ")[-1:].isalpha() and re.match(r" [a-z]", after) is not None


def unknown_mark(text: str) -> bool:
    """Return whether an answer begins with an unknown mark that resembles one of reasoning."""
    return UNKNOWN.match(text) is not None


def cut_at_stop(text: str, stops: list[str]) -> str:
    """The text before its first stop string, for servers that cannot be told to stop there."""
    ends = [position for stop in stops if (position := text.find(stop)) >= 0]
    return text[: min(ends)] if ends else text
