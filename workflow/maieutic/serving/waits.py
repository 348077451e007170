"""Waits that an endpoint asks for: how long, and whether a limit per day stands behind it.

The wordings decide only how long to wait, never whether one request or all are concerned. Each was seen with the named
provider: "Please try again in 7m12s" (OpenAI, Groq: docs on rate limits), "Please retry in 36.4s" with `RetryInfo` and
`quotaId` (Gemini: google.rpc.RetryInfo), "retry after 20 seconds" (Azure OpenAI), `retry-after-ms` (Azure OpenAI),
`x-ratelimit-reset-requests: 6m0s` (OpenAI, Groq, Mistral), `anthropic-ratelimit-requests-reset` (Anthropic: a time),
`X-RateLimit-Reset` in milliseconds since 1970 (OpenRouter), "per day (RPD)" (OpenAI, Groq), "free-models-per-day"
(OpenRouter).
"""

from __future__ import annotations

import email.utils
import math
import re
import time
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any, NamedTuple

LONGEST_TEXT = 100_000  # only this many characters of a message are searched
LONGEST_HEADER = 64  # only this many characters of a header are parsed
DEPTH = 8  # maximum nesting depth of an error's details
SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
UNIT = r"(?P<{0}>milliseconds?|millis|msecs?|ms|seconds?|secs?|s|minutes?|mins?|m|hours?|hrs?|h|days?|d)(?![^\W\d_])"
PART = re.compile(r"(\d+(?:\.\d+)?)\s*" + UNIT.format("unit"), re.IGNORECASE)
DURATION = r"(?:\d+(?:\.\d+)?\s*" + UNIT.replace("?P<{0}>", "?:") + r"[\s,]*(?:and\s+)?)+"
CLOCK = r"\d{1,3}:\d{2}(?::\d{2})?"
STATED = re.compile(
    r"\b(?:re-?try|try again|waiting|wait|available(?: again)?|resets?|come back)\b[^.\d]{0,40}?"
    rf"(?:(?P<clock>(?<!at ){CLOCK}(?![:\d])(?!\s*(?:utc|[ap]\.?m|z\b)))|(?P<duration>{DURATION}))",
    re.IGNORECASE,
)
UNTIL = re.compile(
    r"\b(?:at|until|after|on)\s+(\d{4}-\d{2}-\d{2}[T ]\d{2}:\d{2}(?::\d{2}(?:\.\d+)?)?\s?(?:Z|UTC|[+-]\d{2}:?\d{2})?)"
)
BARE_SECONDS = re.compile(
    r"\b(?:retry[ _-]?after|try again in|wait)\D{0,12}(\d+(?:\.\d+)?)(?![\d.]*\s*[^\W\d_])", re.IGNORECASE
)
PER_DAY = re.compile(r"per[ _-]?day|perday|\bdaily\b|\b[rt]pd\b|requests?/day|tokens?/day|24.?hours?", re.IGNORECASE)
DRAFT = re.compile(r"\br=0\b[^,]*\bt=(\d{1,9})")
DELAY_KEYS = {  # names of fields in an error's details, with the unit of a bare number
    "retrydelay": 1.0, "retry_delay": 1.0, "retryafter": 1.0, "retry_after": 1.0, "retry_after_seconds": 1.0,
    "retryafterseconds": 1.0, "retry_after_ms": 0.001, "retryafterms": 0.001, "reset_in": 1.0, "wait_seconds": 1.0,
}  # fmt: skip


class Wait(NamedTuple):
    """Wait that an endpoint asks for. seconds: None if it does not state how long; daily: True for a limit per day."""

    seconds: float | None
    daily: bool


def wait_of(headers: Mapping[str, str], content: Any, text: str) -> Wait | None:
    """Return the wait that a response asks for, or None if it states neither a delay nor a limit per day.

    content: parsed JSON of the body; text: its message of any length.
    """
    text = text[:LONGEST_TEXT]
    details = list(fields_in(content))
    inner = [value for name, value in details if name == "headers" and isinstance(value, dict)]  # OpenRouter
    quotas = " ".join(str(value) for name, value in details if name == "quotaid")
    # Gemini's text names its plan even for a limit per minute; the quota's own name is stronger.
    daily = bool(PER_DAY.search(quotas or text))
    delays = [delay for each in (headers, *inner) for delay in header_delays(each)]
    delays += [delay for name, value in details if (delay := field_delay(name, value))]
    delays += stated_delays(text)
    usable = [delay for delay in delays if math.isfinite(delay) and delay >= 0]
    if not usable:
        return Wait(None, True) if daily else None
    return Wait(max(usable), daily)


def fields_in(content: Any, depth: int = 0) -> Iterator[tuple[str, Any]]:
    """Yield the names, in lower case, and the values of all fields within a JSON value."""
    if depth > DEPTH:
        return
    if isinstance(content, list):
        for value in content:
            yield from fields_in(value, depth + 1)
    elif isinstance(content, dict):
        for name, value in content.items():
            yield str(name).casefold(), value
            yield from fields_in(value, depth + 1)


def field_delay(name: str, value: Any) -> float | None:
    """Return the delay in a field of an error's details, in seconds; None for another field."""
    if name not in DELAY_KEYS:
        return None
    if isinstance(value, dict):  # google.protobuf.Duration as an object
        value = value.get("seconds")
    if isinstance(value, int | float) and not isinstance(value, bool):
        return float(value) * DELAY_KEYS[name]
    return delay_in(str(value), DELAY_KEYS[name])


def delay_in(text: str, unit: float = 1.0, now: str | None = None) -> float | None:
    """Return a duration such as `20`, `7m12s`, `1.5 hours` or a date in seconds; None for another text.

    unit: seconds of a bare number's unit. A number that is a time since 1970 is counted from now. now: the endpoint's
    own date, from which a date is counted, since clocks differ.
    """
    text = text.strip()[:LONGEST_HEADER]
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if math.isfinite(number):
        if number >= 1e12:
            return max(number / 1000 - time.time(), 0.0)
        return max(number - time.time(), 0.0) if number >= 1e9 else number * unit
    if re.fullmatch(DURATION, text, re.IGNORECASE):
        return duration(text)
    if re.fullmatch(CLOCK, text):
        return clock_duration(text)
    until = date_in(text)
    start = date_in(now) if now else None
    return None if until is None else max(until - (time.time() if start is None else start), 0.0)


def duration(text: str) -> float:
    """Return the sum of the parts of a duration such as `7m12s`, in seconds."""
    return sum(float(number) * SECONDS[short_unit(unit)] for number, unit in PART.findall(text))


def short_unit(unit: str) -> str:
    """Return the short name of a unit of time."""
    folded = unit.casefold()
    return "ms" if folded.startswith(("ms", "milli")) else folded[0]


def clock_duration(text: str) -> float:
    """Return a duration such as `12:30` (minutes) or `1:02:03` in seconds."""
    seconds = 0.0
    for part in text.split(":"):
        seconds = 60 * seconds + int(part)
    return seconds


def date_in(text: str) -> float | None:
    """Return a date of HTTP or of ISO 8601 in seconds since 1970; None for another text."""
    try:
        when = datetime.fromisoformat(text.replace("UTC", "+00:00").replace(" +", "+"))
    except ValueError:
        parsed = email.utils.parsedate_tz(text)
        if parsed is None:
            return None
        try:
            return float(email.utils.mktime_tz(parsed))
        except (ValueError, OverflowError):  # a date beyond the range of the system clock
            return math.inf
    return (when if when.tzinfo else when.replace(tzinfo=UTC)).timestamp()


def header_delays(headers: Mapping[str, str]) -> Iterator[float]:
    """Yield the delays in a response's headers, in seconds.

    Of the limits with a time of reset of their own, only those count of which nothing remains.
    """
    folded = {str(name).casefold(): str(value) for name, value in headers.items()}
    if draft := DRAFT.search(folded.get("ratelimit", "")):  # draft-ietf-httpapi-ratelimit-headers: nothing remains
        yield float(draft[1])
    for name, unit in (("retry-after-ms", 0.001), ("x-ms-retry-after-ms", 0.001), ("retry-after", 1.0)):
        if name in folded and (delay := delay_in(folded[name], unit, folded.get("date"))) is not None:
            yield delay
            return
    for name, value in folded.items():
        if "ratelimit" in name and "reset" in name:
            remaining = folded.get(name.replace("reset", "remaining"))
            if remaining is not None and remaining.strip() in ("0", "0.0") and (delay := delay_in(value)) is not None:
                yield delay


def stated_delays(text: str) -> Iterator[float]:
    """Yield the delays that a message states, in seconds."""
    for match in STATED.finditer(text):
        if match["duration"]:
            yield duration(match["duration"])
        elif match["clock"]:
            yield clock_duration(match["clock"])
    for match in BARE_SECONDS.finditer(text):
        yield float(match[1])
    for match in UNTIL.finditer(text):
        if (until := date_in(match[1])) is not None:
            yield max(until - time.time(), 0.0)
