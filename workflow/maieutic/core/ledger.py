"""Ledgers: files beside the journals in which every job that called a model records its requests and tokens."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from maieutic.core.files import ends_torn
from maieutic.core.records import Batched, Record

SUFFIX = ".ledger"


class JobSpending(Record):
    """Totals of one job's answered requests, with the server's token counts.

    time: end of the job, in UTC; asker: name of the tutor or judge; model: registry entry that answered, None in lines
    written by an earlier version; requests: number of answered requests; cached_tokens: number of prompt tokens that
    the server reported as cached; retries: number of failed attempts by kind of failure; unheeded: messages about
    silent changes of requests by the endpoint, by kind of change; batched: True if the requests were in batches, which
    cost less; unreported: number of requests whose tokens the server did not report; charged_usd: US dollars with which
    the run's budget was charged for tries whose cost the endpoint does not report; batch: the batch of these requests.
    """

    time: str
    asker: str
    model: str | None = None
    requests: int
    prompt_tokens: int
    completion_tokens: int
    cached_tokens: int = 0
    seconds: float
    retries: dict[str, int]
    unheeded: dict[str, str] = {}
    batched: Batched = False
    unreported: int = 0
    charged_usd: float = 0.0
    batch: str | None = None


def utc_now() -> str:
    """Return the current time in UTC, to the second, as text that sorts by time."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def append_line(path: Path, line: dict[str, Any]) -> None:
    """Append a JSON line to a file in one write. A line that cannot be written, as on a full disk, is lost.

    What was written of such a line is ended first, so that it does not spoil this one.
    """
    with contextlib.suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        with open(path, "a", encoding="utf-8") as handle:
            handle.write(("\n" if ends_torn(path) else "") + json.dumps(line) + "\n")


def valid_json_lines(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the content of each line of a JSON-lines file. Lines truncated by a full disk or a kill are skipped."""
    with open(path, encoding="utf-8", errors="replace") as handle:
        for line in handle:
            with contextlib.suppress(ValueError):
                yield json.loads(line)


def ledger_path(journal: Path) -> Path:
    """Return the path of a journal's ledger."""
    return journal.with_suffix(SUFFIX)


def append_spending(journal: Path, spent: JobSpending) -> None:
    """Append one job's spending to the ledger of a journal."""
    append_line(ledger_path(journal), spent.model_dump())


def spent_since(since: str, journals: Path) -> list[JobSpending]:
    """Return the ledger lines of all jobs that ended at `since` or later, sorted by time.

    journals: folder of the journals.
    """
    lines = (line for path in journals.glob(f"**/*{SUFFIX}") for line in ledger_lines(path))
    return sorted((line for line in lines if line.time >= since), key=lambda line: line.time)


def latest_spending(journals: Path) -> list[JobSpending]:
    """Return the last line of each ledger, which describes its latest job. journals: folder of the journals."""
    newest = [list(ledger_lines(path))[-1:] for path in sorted(journals.glob(f"**/*{SUFFIX}"))]
    return [line for lines in newest for line in lines]


def ledger_lines(path: Path) -> Iterator[JobSpending]:
    """Yield the lines of a ledger. Invalid lines are skipped."""
    with open(path, encoding="utf-8", errors="replace") as handle:
        for line in handle:
            with contextlib.suppress(ValidationError):
                yield JobSpending.model_validate_json(line)
