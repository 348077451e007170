"""Cache of texts that are expensive to compute but reproducible, kept in the user's cache folder between processes."""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Callable
from pathlib import Path

from platformdirs import user_cache_path

from maieutic.core.files import atomic_file
from maieutic.core.plugins import PACKAGE


def cache_folder(kind: str) -> Path:
    """Return the cache folder for one kind of entry. The folder may not exist yet."""
    return user_cache_path(PACKAGE) / kind


def newest_first(folder: Path, pattern: str = "*") -> list[Path]:
    """Return the files of a folder that match a glob pattern, the most recently modified first."""
    return sorted(folder.glob(pattern), key=lambda file: file.stat().st_mtime, reverse=True)


def delete_old_files(folder: Path, most: int, pattern: str = "*") -> None:
    """Delete the files of a folder that match a glob pattern, except the newest `most`.

    Raises OSError if a file cannot be deleted.
    """
    for file in newest_first(folder, pattern)[most:]:
        file.unlink(missing_ok=True)


def cached_text(kind: str, key: str, make: Callable[[], str], most: int) -> str:
    """Return the cached text for a key. If no text is cached, call `make` and cache its result.

    key: a string that changes with everything the text depends on; most: maximum number of entries per kind. If there
    are more, the oldest are deleted until half of `most` remain. A damaged entry counts as absent. Without write access
    to the cache folder, nothing is cached.
    """
    path = cache_folder(kind) / hashlib.sha256(key.encode()).hexdigest()
    with contextlib.suppress(OSError):
        checksum, _, content = path.read_bytes().partition(b"\n")
        if hashlib.sha256(content).hexdigest().encode() == checksum:
            return content.decode()
    text = make()
    with contextlib.suppress(OSError):
        data = text.encode()
        with atomic_file(path, "wb") as handle:
            handle.write(hashlib.sha256(data).hexdigest().encode() + b"\n" + data)
        if sum(1 for _ in path.parent.iterdir()) > most:
            delete_old_files(path.parent, most // 2)
    return text
