"""What costs much to make and is the same each time, kept in the user's cache folder for later processes."""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Callable
from pathlib import Path

from platformdirs import user_cache_path

from maieutic.core.files import whole_file
from maieutic.core.plugins import PACKAGE


def cache_folder(kind: str) -> Path:
    """Where a kind of things is kept; it need not be there."""
    return user_cache_path(PACKAGE) / kind


def newest_first(folder: Path, pattern: str = "*") -> list[Path]:
    """The files of a folder, the last written first."""
    return sorted(folder.glob(pattern), key=lambda file: file.stat().st_mtime, reverse=True)


def forget_old(folder: Path, most: int, pattern: str = "*") -> None:
    """Remove all but the newest files of a folder. Raises OSError where that cannot be."""
    for file in newest_first(folder, pattern)[most:]:
        file.unlink(missing_ok=True)


def cached_text(kind: str, key: str, make: Callable[[], str], most: int) -> str:
    """A text that was made and kept under the same key, or is made now and kept.

    key: all that the text depends on; most: how many of a kind are kept, of which the older half goes when there are
    more. A damaged file is as none, and where the folder cannot be written, nothing is kept.
    """
    path = cache_folder(kind) / hashlib.sha256(key.encode()).hexdigest()
    with contextlib.suppress(OSError):
        checksum, _, kept = path.read_bytes().partition(b"\n")
        if hashlib.sha256(kept).hexdigest().encode() == checksum:
            return kept.decode()
    text = make()
    with contextlib.suppress(OSError):
        made = text.encode()
        with whole_file(path, "wb") as handle:
            handle.write(hashlib.sha256(made).hexdigest().encode() + b"\n" + made)
        if sum(1 for _ in path.parent.iterdir()) > most:
            forget_old(path.parent, most // 2)
    return text
