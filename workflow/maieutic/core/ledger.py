"""What was paid: a line for each job that has asked a model, in a file beside its journal."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from maieutic.core.records import Record

SUFFIX = ".ledger"


class Spent(Record):
    """The requests of one job that were sent and answered, tokens as the server counts them; time: UTC, of its end.

    asker: a tutor or judge; model: the entry that answered it, None in lines of an earlier version;
    cached_tokens: of the prompts', those that the server had in its cache, as far as it says so; unheeded: by kind, a
    line of what the endpoint changed in silence.
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


def now() -> str:
    """The time in UTC, to the second, in a form that sorts."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def append_line(path: Path, line: dict[str, Any]) -> None:
    """Append a JSON line in one write. A full disk costs the line and nothing else."""
    with contextlib.suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        with open(path, "a", encoding="utf-8") as handle:
            handle.write(json.dumps(line) + "\n")


def whole_lines(path: Path) -> Iterator[dict[str, Any]]:
    """The lines of such a file; a torn one, of a full disk or a kill, is left out."""
    with open(path, encoding="utf-8", errors="replace") as handle:
        for line in handle:
            with contextlib.suppress(ValueError):
                yield json.loads(line)


def ledger_of(journal: Path) -> Path:
    """The ledger that stands beside a journal."""
    return journal.with_suffix(SUFFIX)


def put_down(journal: Path, spent: Spent) -> None:
    """One line more of a job's ledger."""
    append_line(ledger_of(journal), spent.model_dump())


def spent_since(since: str, journals: Path) -> list[Spent]:
    """What all jobs have spent from a time on, in the order of time. journals: the folder of the journals."""
    lines = (line for path in journals.glob(f"**/*{SUFFIX}") for line in lines_of(path))
    return sorted((line for line in lines if line.time >= since), key=lambda line: line.time)


def latest_of(journals: Path) -> list[Spent]:
    """Return the last line of each ledger: of the newest job that has asked something. journals: their folder."""
    newest = [list(lines_of(path))[-1:] for path in sorted(journals.glob(f"**/*{SUFFIX}"))]
    return [line for lines in newest for line in lines]


def lines_of(path: Path) -> Iterator[Spent]:
    """Every line of a ledger; what is no line is left out."""
    with open(path, encoding="utf-8", errors="replace") as handle:
        for line in handle:
            with contextlib.suppress(ValidationError):
                yield Spent.model_validate_json(line)
