"""Times of messages in the forms that programs write, for the order of the rows.

A column of times is read as a whole, under both orders of day and month. It is in doubt if both are possible and
disagree about the order of the rows. It is not read if its times have different units, or if only some name a zone.
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
NAMED_MONTH = re.compile(r"\d\.?[\s-]+[^\W\d_]{3,}|[^\W\d_]{3,}\s+\d")
NUMERIC_DATE = re.compile(r"\s*\D{0,6}(\d{1,2})[./-](\d{1,2})[./-]\d{2,4}")
YEAR_FIRST = re.compile(r"\s*\d{4}[./-]")
ZONE = re.compile(r"(?:\dZ|[+-]\d{2}:?\d{2}|\b(?:UTC|GMT|[A-Z]{3,4}T))\s*$")  # end of a time that names a zone
# Two days that differ in all parts: a text that names a whole day gives the same time with both as defaults
DEFAULTS = (datetime(2000, 1, 1), datetime(2003, 11, 28))
# Zones whose names have one meaning; a time with another one, such as IST, is not read.
ZONES = {"UTC": 0, "GMT": 0, "Z": 0, "CET": 3600, "CEST": 7200, "EDT": -14400, "PDT": -25200}
DECIMAL_COMMA = re.compile(r"^(-?\d+),(\d+)$")
HOUR = 3600.0
OF_DAY, UNIX = "times of day", "Unix times"  # forms of columns
MOST_RATIO = 100.0  # largest ratio of two Unix times in one unit


class TimeColumn(NamedTuple):
    """Times of a column in seconds, or None for an empty cell. form: how they were read, for the preview."""

    values: list[float | None]
    form: str


def read_numbers(texts: Sequence[str]) -> TimeColumn | None:
    """Return a column of turn numbers or positions; None if a text is no finite number."""
    return column_of(texts, number_of, "numbers")


def number_of(text: str) -> float | None:
    """Return a finite number, or None."""
    try:
        number = float(DECIMAL_COMMA.sub(r"\1.\2", text))
    except ValueError:
        return None
    return number if math.isfinite(number) else None


def has_sections(texts: Iterable[str]) -> bool:
    """Return True for turn numbers such as 1.9 and 1.10, whose order differs if they are sections, not numbers."""
    parts = [text.split(".") for text in texts if re.fullmatch(r"\d+\.\d+", text)]
    sections = sorted(parts, key=lambda part: (int(part[0]), int(part[1])))
    return sections != sorted(parts, key=lambda part: float(".".join(part)))


def are_unix_times(values: Iterable[float | None]) -> bool:
    """Return True for numbers that are times since 1970, in seconds or milliseconds, between 2001 and 2286."""
    numbers = [value for value in values if value is not None]
    return bool(numbers) and (all(1e9 <= n < 1e10 for n in numbers) or all(1e12 <= n < 1e13 for n in numbers))


def longest_gap(values: Sequence[float]) -> float:
    """Return the longest time between two consecutive times, in seconds. Unix times may be in milliseconds."""
    gap = max((abs(second - first) for first, second in pairwise(values)), default=0.0)
    return gap / 1000 if values and abs(values[0]) >= 1e12 else gap


def read_times(texts: Sequence[str]) -> list[TimeColumn]:
    """Return the possible readings of a column of times: none, one, or two with different orders of day and month."""
    if len({ZONE.search(text) is not None for text in texts if text}) > 1:
        return []
    for read, form in ((number_of, UNIX), (iso_time, "ISO times"), (clock_reader(texts), OF_DAY)):
        if (column := column_of(texts, read, form)) is not None:
            return [column] if has_one_unit(column) else []
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
    """Return the times of a column; None if one of its texts is no time, or if all of its cells are empty."""
    values: list[float | None] = []
    for text in texts:
        value = read(text) if text else None
        if text and value is None:
            return None
        values.append(value)
    return TimeColumn(values, form) if any(value is not None for value in values) else None


def has_one_unit(column: TimeColumn) -> bool:
    """Return False for Unix times of which some are in seconds and others in milliseconds."""
    numbers = [abs(value) for value in column.values if value]
    return column.form != UNIX or not numbers or max(numbers) < MOST_RATIO * min(numbers)


def iso_time(text: str) -> float | None:
    """Return a time in ISO form in seconds since 1970, or None."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


def clock_reader(texts: Sequence[str]) -> Callable[[str], float | None]:
    """Return a reader of times of day, or of times since the beginning of a recording, in seconds.

    Two parts are hours and minutes, but minutes and seconds beside times of three parts.
    """
    unit = 1.0 if any(text.count(":") == 2 for text in texts) else 60.0

    def read(text: str) -> float | None:
        if not CLOCK.fullmatch(text.strip()):
            return None
        clock = re.sub(r"[^\d:.]", "", text.replace(",", "."))
        parts = [float(part) for part in clock.split(":")]
        seconds = sum(part * 60.0**place for place, part in enumerate(reversed(parts)))
        seconds *= unit if len(parts) == 2 else 1.0
        letters = "".join(sign for sign in text.casefold() if sign in "ap")
        return seconds % (12 * HOUR) + (12 * HOUR if letters.startswith("p") else 0.0) if letters else seconds

    return read


def local_reader(day_first: bool) -> Callable[[str], float | None]:
    """Return a reader of local times under one order of day and month. Texts that name no whole day are not read."""
    from dateutil import parser

    @cache
    def read(text: str) -> float | None:
        if not SIGNS.search(text) and not NAMED_MONTH.search(text):
            return None
        year_first = YEAR_FIRST.match(text) is not None
        first_part = day_first and not year_first
        try:
            moments = [
                parser.parse(text, dayfirst=first_part, yearfirst=year_first, default=default, tzinfos=zone_offset)
                for default in DEFAULTS
            ]
        except (ValueError, OverflowError, TypeError, AttributeError):
            return None
        first, second = (moment if moment.tzinfo else moment.replace(tzinfo=UTC) for moment in moments)
        if first != second or not (year_first or keeps_order(text, first, day_first)):
            return None
        return first.timestamp()

    return read


def zone_offset(name: str | None, offset: int | None) -> int | None:
    """Return the offset of a zone in seconds, None for a time without a zone.

    Raises ValueError for a name with several meanings, or without one.
    """
    if offset is not None or name is None:
        return offset
    if name not in ZONES:
        raise ValueError(f"unknown zone {name}")
    return ZONES[name]


def keeps_order(text: str, moment: datetime, day_first: bool) -> bool:
    """Return True if a numeric date was read in the given order. The library swaps day and month if it has to."""
    if not (match := NUMERIC_DATE.match(text)):
        return True
    day, month = (match[1], match[2]) if day_first else (match[2], match[1])
    return (int(day), int(month)) == (moment.day, moment.month)


def direction(values: Sequence[float]) -> int:
    """Return 1 for numbers that never fall, -1 for those that never rise and fall at least once, 0 for others."""
    steps = [second - first for first, second in pairwise(values)]
    if all(step >= 0 for step in steps):
        return 1
    return -1 if all(step <= 0 for step in steps) else 0
