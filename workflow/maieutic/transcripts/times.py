"""Times of messages in the forms that programs write, for the order of the rows.

A column of times is read as a whole, under both orders of day and month. It is in doubt if both are possible and
disagree about the order of the rows.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from functools import cache
from itertools import pairwise
from typing import NamedTuple

SIGNS = re.compile(r"\d[\d\s]*[:./-]\s*\d")  # a date or a time has digits on both sides of a separator
CLOCK = re.compile(r"\d{1,3}:\d{2}(?::\d{2})?(?:[.,]\d+)?\s*(?:[AaPp]\.?[Mm]\.?)?")
# Two days that differ in all parts: a text that names a whole day gives the same time with both as defaults
DEFAULTS = (datetime(2000, 1, 1), datetime(2003, 11, 28))
ZONES = {
    "UTC": 0,
    "GMT": 0,
    "Z": 0,
    "CET": 3600,
    "CEST": 7200,
    "EST": -18000,
    "EDT": -14400,
    "PST": -28800,
    "PDT": -25200,
}
HOUR = 3600.0
OF_DAY = "times of day"  # form of a column without dates


class TimeColumn(NamedTuple):
    """Times of a column in seconds, or None for an empty cell. form: how they were read, for the preview."""

    values: list[float | None]
    form: str


def read_numbers(texts: Sequence[str]) -> TimeColumn | None:
    """Return a column of turn numbers, positions or Unix times; None if a text is no finite number."""
    return column_of(texts, number_of, "numbers")


def number_of(text: str) -> float | None:
    """Return a finite number, or None."""
    try:
        number = float(text)
    except ValueError:
        return None
    return number if math.isfinite(number) else None


def read_times(texts: Sequence[str]) -> list[TimeColumn]:
    """Return the possible readings of a column of times: none, one, or two with different orders of day and month."""
    for read, form in ((number_of, "Unix times"), (iso_time, "ISO times"), (clock_time, OF_DAY)):
        if (column := column_of(texts, read, form)) is not None:
            return [column]
    readings = [
        column
        for day_first, form in (
            (True, "local times, the day before the month"),
            (False, "local times, the month first"),
        )
        if (column := column_of(texts, local_reader(day_first), form)) is not None
    ]
    if len(readings) == 2 and readings[0].values == readings[1].values:
        return [readings[0]._replace(form="local times")]
    return readings


def column_of(texts: Iterable[str], read: Callable[[str], float | None], form: str) -> TimeColumn | None:
    """Return a column if all of its texts can be read; None otherwise, and for a column without a text."""
    values: list[float | None] = []
    for text in texts:
        value = read(text) if text else None
        if text and value is None:
            return None
        values.append(value)
    return TimeColumn(values, form) if any(value is not None for value in values) else None


def iso_time(text: str) -> float | None:
    """Return a time in ISO form in seconds since 1970, or None."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


def clock_time(text: str) -> float | None:
    """Return a time of day, or the time since the beginning of a recording, in seconds; None for another text."""
    if not CLOCK.fullmatch(text.strip()):
        return None
    clock = re.sub(r"[^\d:.]", "", text.replace(",", "."))
    parts = [float(part) for part in clock.split(":")]
    seconds = sum(part * 60.0**place for place, part in enumerate(reversed(parts))) * (60.0 if len(parts) == 2 else 1.0)
    letters = "".join(sign for sign in text.casefold() if sign in "ap")
    return seconds % (12 * HOUR) + (12 * HOUR if letters.startswith("p") else 0.0) if letters else seconds


def local_reader(day_first: bool) -> Callable[[str], float | None]:
    """Return a reader of local times under one order of day and month. Texts that name no whole day are not read."""
    from dateutil import parser

    @cache
    def read(text: str) -> float | None:
        if not SIGNS.search(text) and not re.search(r"\d\s+[^\W\d_]{3,}|[^\W\d_]{3,}\s+\d", text):
            return None
        try:
            moments = [parser.parse(text, dayfirst=day_first, default=default, tzinfos=ZONES) for default in DEFAULTS]
        except (ValueError, OverflowError, TypeError, AttributeError):
            return None
        first, second = (moment if moment.tzinfo else moment.replace(tzinfo=UTC) for moment in moments)
        if first != second or not keeps_order(text, first, day_first):
            return None
        return first.timestamp()

    return read


def keeps_order(text: str, moment: datetime, day_first: bool) -> bool:
    """Return True if a numeric date was read in the given order. The library swaps day and month if it has to."""
    if not (match := re.match(r"\s*\D{0,6}(\d{1,2})[./-](\d{1,2})[./-]\d{2,4}", text)):
        return True
    day, month = (match[1], match[2]) if day_first else (match[2], match[1])
    return (int(day), int(month)) == (moment.day, moment.month)


def direction(values: Sequence[float]) -> int:
    """Return 1 for numbers that never fall, -1 for those that never rise and fall at least once, 0 for others."""
    steps = [second - first for first, second in pairwise(values)]
    if all(step >= 0 for step in steps):
        return 1
    return -1 if all(step <= 0 for step in steps) else 0
