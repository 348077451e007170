"""States of an item, by what one request got. The error of its answer distinguishes those without a value."""

from __future__ import annotations

import re
from typing import Literal, NamedTuple

State = Literal["answered", "refused", "filtered", "failed"]
MISSING_STATES: tuple[State, ...] = ("refused", "filtered", "failed")  # of items that count as missing, not as wrong
# Beginnings of the error of a request: withheld or cut by a filter, or without an answer while others were answered.
FILTERED_MARK, FAILED_MARK = "filtered: ", "failed: "
REFUSED_MARK = "refused: "  # beginning of the reason for a grade or verdict that is missing because of a refusal
CONTENT_FILTER, CUT = "content_filter", "length"  # finish reasons of answers that a filter or the token limit ended
# Finish reasons of filters: OpenAI and Azure, Gemini, Bedrock's guardrails, Qwen and other providers in China
FILTER = re.compile(
    r"content.?filter|safety|recitation|prohibited|block.?list|\bblocked|\bspii\b|guardrail|sensitive|moderation|censor",
    re.IGNORECASE,
)
LIMIT = re.compile(r"length|max.?(?:output.?|new.?|completion.?)?tokens|token.?limit", re.IGNORECASE)


# Finish reasons of an answer that was interrupted: vLLM and SGLang (abort), DeepSeek, Zhipu, Gemini
INTERRUPTED = re.compile(r"abort|error|insufficient|malformed|cancel|interrupt|time.?out|overload", re.IGNORECASE)


def usual_finish(word: str | None) -> str | None:
    """Return a finish reason in OpenAI's spelling, if it means that the limit or a filter ended the answer."""
    if word is None:
        return None
    return CUT if LIMIT.search(word) else CONTENT_FILTER if FILTER.search(word) else word


def state_of(error: str | None) -> State:
    """Return the state of a request or reply, by its error."""
    if error is None:
        return "answered"
    if error.startswith(FILTERED_MARK):
        return "filtered"
    return "failed" if error.startswith(FAILED_MARK) else "refused"


def missing_reason(error: str) -> str:
    """Return the reason for a missing grade or verdict: the state and the error of the request."""
    return error if state_of(error) != "refused" else f"{REFUSED_MARK}{error}"


def is_missing_answer(reason: str | None) -> bool:
    """Return True if a grade or verdict is missing because its request has no answer, by its reason."""
    return (reason or "").startswith((REFUSED_MARK, FILTERED_MARK, FAILED_MARK))


def filter_error(finish: str | None, error: str | None) -> str | None:
    """Return the error of an answer: one that a filter ended is filtered, whatever text it has."""
    if error is None and finish is not None and usual_finish(finish) == CONTENT_FILTER:
        return f"{FILTERED_MARK}the endpoint's filter ended the answer ({finish})"
    return error


class StateRow(NamedTuple):
    """A state of an item, as documentation and report list it.

    what: what the request got; value: value of the item's grades under `robust`; counts: whether the item is in n;
    asked_again: when the request is sent again.
    """

    name: str
    what: str
    value: str
    counts: str
    asked_again: str


ON_DEMAND = "after `maieutic forget RUN --missing {}`"
STATE_TABLE = (
    StateRow("answered", "text", "as it is read", "in n", "no"),
    StateRow("empty", "no text, and no reason for it", "wrong", "in n", "no"),
    StateRow("cut", "stopped at `max_tokens`, with or without text", "as it is read; wrong without text", "in n", "no"),
    StateRow("declined", "a refusal by the model itself, in words or in `message.refusal`", "wrong", "in n", "no"),
    StateRow("refused", "a refusal of this request by the endpoint", "none", "missing", ON_DEMAND.format("refused")),
    StateRow(
        "filtered", "withheld or cut by the endpoint's filter; a part of an answer is kept, but not read",
        "none", "missing", ON_DEMAND.format("filtered"),
    ),
    StateRow(
        "failed", "an error in every attempt, while other requests were answered", "none", "missing",
        f"once by the next run, then {ON_DEMAND.format('failed')}",
    ),
    StateRow("not asked", "budget, pending batch, interruption, endpoint down", "none", "no score", "by the next run"),
    StateRow("not applicable", "a picture for a model that accepts none", "none", "not counted", "no"),
)  # fmt: skip
