"""Outputs that consist of several files and are written either completely or not at all."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from maieutic.core.errors import DISK_ERRORS, UserError

DISK_FULL_TEXT = "No space left on device"  # the operating system's message, which libraries copy into their errors


@contextmanager
def staged_output(out: Path) -> Iterator[Path]:
    """Yield a temporary path beside `out`. On success, its files move to `out`, replacing files of the same name.

    Raises UserError naming the folder if the disk is full or the folder is not writable. No file is then left behind.
    """
    out.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{out.name}.", dir=out.parent) as folder:
        place = Path(folder) / out.name
        try:
            yield place
        except Exception as error:
            if getattr(error, "errno", None) not in DISK_ERRORS and DISK_FULL_TEXT not in str(error):
                raise
            raise UserError(
                str(out.parent),
                f"cannot be written to: {first_error_line(error)}",
                "free disk space or allow writing there, or pass another --out",
            ) from None
        if place.is_dir():
            out.mkdir(parents=True, exist_ok=True)
            for path in sorted(place.rglob("*")):
                target = out / path.relative_to(place)
                target.mkdir(parents=True, exist_ok=True) if path.is_dir() else path.replace(target)
        else:
            place.replace(out)


def first_error_line(error: Exception) -> str:
    """Return the first line of an error message, cut to 200 characters."""
    return str(error).strip().split("\n")[0][:200]
