"""Outputs of several files that are there as a whole or not at all."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from maieutic.core.errors import CLOSED_DISK, UserError

NO_ROOM = "No space left on device"  # the system's words, which every library repeats


@contextmanager
def staged(out: Path) -> Iterator[Path]:
    """Give a place beside `out`; its files move to `out` once all of them are whole, and replace those of their names.

    Raises UserError naming the folder where a full or closed disk ends the writing, of which nothing is left then.
    """
    out.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{out.name}.", dir=out.parent) as folder:
        place = Path(folder) / out.name
        try:
            yield place
        except Exception as error:
            if getattr(error, "errno", None) not in CLOSED_DISK and NO_ROOM not in str(error):
                raise
            raise UserError(
                str(out.parent), f"cannot be written to: {first_line(error)}", "make room there, or name another --out"
            ) from None
        if place.is_dir():
            out.mkdir(parents=True, exist_ok=True)
            for path in sorted(place.rglob("*")):
                target = out / path.relative_to(place)
                target.mkdir(parents=True, exist_ok=True) if path.is_dir() else path.replace(target)
        else:
            place.replace(out)


def first_line(error: Exception) -> str:
    """Return the first line of an error, without what a library adds."""
    return str(error).strip().split("\n")[0][:200]
