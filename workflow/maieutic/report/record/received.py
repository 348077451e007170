"""A run as a stranger sent it: limits that hold before anything is unpacked, and the checksums of its manifest."""

from __future__ import annotations

import lzma
import os
import re
import stat
import struct
import tempfile
import zipfile
import zlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from maieutic.config.limits import USUAL
from maieutic.core.errors import UserError
from maieutic.core.files import MB, sha256_of

MANIFEST = "manifest-sha256.txt"  # as `sha256sum -c` reads it
SIGNATURE = f"{MANIFEST}.sig"
ASK = "ask the sender for the run as it was"
LONGEST = 300  # characters of an error
MOST_FAULTS = 10  # faults of one kind that are named
MOST_MB = 4096  # of all files of a run

# A run of the four papers with twenty tutors has some 3,000 files.
MOST_FILES = 100_000
LONGEST_NAME = 1000  # characters in the path of a file
DEEPEST = 32  # folders in it
LONGEST_INDEX = 32 * MB  # bytes of an archive's own list of its files
# One record or document of JSON. An answer of a whole context window has some 4 MB. Values are counted before the
# text is parsed, since Python takes up to 70 times as much memory for small ones as their text.
LONGEST_RECORD, MOST_VALUES = 16 * MB, 1_000_000
LONGEST_DOCUMENT = 128 * MB
SEPARATORS = (b",", b"[", b"{", b":")
LINE = re.compile(r"([0-9a-f]{64})  (.+)")
DAMAGED = (
    zipfile.BadZipFile, zlib.error, lzma.LZMAError, OSError, EOFError, NotImplementedError, RuntimeError, ValueError,
)  # fmt: skip


class Entry(NamedTuple):
    """A file of a received run: its size in bytes, and what is wrong with its kind, if anything is."""

    size: int
    fault: str | None = None


def words(error: BaseException) -> str:
    """Return an error as one line."""
    text = error.line if isinstance(error, UserError) else str(error)
    return f"{type(error).__name__}: {' '.join(text.split())[:LONGEST]}"


@contextmanager
def unpacked(received: Path, most_mb: float = MOST_MB) -> Iterator[Path]:
    """Give the folder of a received run; an archive is unpacked into a temporary one.

    Everything that can be counted is checked first: names, kinds, number and total size of files. most_mb: of all
    files together, in MB (2^20 bytes). Raises UserError with one line for each fault.
    """
    if received.is_dir():
        entries = entries_of_folder(received)
        has_manifest = MANIFEST in entries and entries[MANIFEST].fault is None
        check_entries(received, entries, manifest_at(received) if has_manifest else None, most_mb)
        yield received
        return
    if not received.exists():
        raise UserError(str(received), "it is not there", "name what maieutic share wrote")
    if not received.is_file() or not zipfile.is_zipfile(received):
        raise UserError(str(received), "expected a folder or a .zip file", "name what maieutic share wrote")
    check_index(received)
    with tempfile.TemporaryDirectory() as place:
        try:
            with zipfile.ZipFile(received) as archive:
                listed = archive.infolist()
                twice = len(listed) - len({info.filename for info in listed})
                if twice:
                    raise UserError(str(received), f"it holds {twice} names twice", ASK)
                entries = {info.filename: entry_of(info) for info in listed if not info.is_dir()}
                manifest = manifest_in(archive, received) if MANIFEST in entries else None
                check_entries(received, entries, manifest, most_mb)
                archive.extractall(place)
        except DAMAGED as error:
            raise UserError(str(received), f"it cannot be unpacked: {words(error)}", ASK) from None
        yield Path(place)


def entry_of(info: zipfile.ZipInfo) -> Entry:
    """Return what an archive's index says of a file."""
    kind = stat.S_IFMT(info.external_attr >> 16)
    if info.flag_bits & 0x1:
        return Entry(info.file_size, "is encrypted")
    return Entry(info.file_size, None if kind in (0, stat.S_IFREG) else kind_of(kind))


def kind_of(kind: int) -> str:
    """Return what a file is that is not a regular one."""
    return "is a link" if kind == stat.S_IFLNK else "is no regular file"


def entries_of_folder(folder: Path) -> dict[str, Entry]:
    """Return the files below a folder by their names from it. No file is opened and no link is followed."""
    entries: dict[str, Entry] = {}
    ahead = [(folder, 0)]
    while ahead and len(entries) <= MOST_FILES:
        place, depth = ahead.pop()
        with os.scandir(place) as found:
            for one in found:
                about = one.stat(follow_symlinks=False)
                name = os.path.relpath(one.path, folder)
                if not stat.S_ISDIR(about.st_mode):
                    regular = stat.S_ISREG(about.st_mode)
                    entries[name] = Entry(about.st_size, None if regular else kind_of(stat.S_IFMT(about.st_mode)))
                elif depth < DEEPEST:
                    ahead.append((Path(one.path), depth + 1))
                else:
                    entries[name] = Entry(0, f"lies more than {DEEPEST} folders deep")
    return entries


def check_index(received: Path) -> None:
    """Raise UserError where an archive's own list of files would fill the memory: it is read whole.

    Source: APPNOTE.TXT 6.3.10, sections 4.3.14 to 4.3.16 (end of central directory).
    """
    with open(received, "rb") as handle:
        size = handle.seek(0, os.SEEK_END)
        handle.seek(max(0, size - (1 << 16) - 22))
        tail = handle.read()
        end = tail.rfind(b"PK\x05\x06")
        index = struct.unpack_from("<I", tail, end + 12)[0] if 0 <= end <= len(tail) - 22 else 0
        if (locator := tail.rfind(b"PK\x06\x07", 0, end)) >= 0 and locator + 16 <= len(tail):
            handle.seek(min(struct.unpack_from("<Q", tail, locator + 8)[0], size))
            record = handle.read(56)
            index = struct.unpack_from("<Q", record, 40)[0] if len(record) == 56 else index
    if index > LONGEST_INDEX:
        raise UserError(
            str(received), f"its list of files has {index / MB:,.0f} MB, more than {LONGEST_INDEX // MB} MB", ASK
        )


def manifest_in(archive: zipfile.ZipFile, received: Path) -> dict[str, str]:
    """Return the checksums by name that an archive's manifest lists."""
    with archive.open(MANIFEST) as handle:
        return manifest_of(handle.read(LONGEST_INDEX + 1), received)


def manifest_of(content: bytes, received: Path) -> dict[str, str]:
    """Return the checksums by name of a manifest. Raises UserError for a line that is none."""
    if len(content) > LONGEST_INDEX:
        raise UserError(str(received), f"{MANIFEST} has more than {LONGEST_INDEX // MB} MB", ASK)
    listed = {}
    for number, line in enumerate(content.decode("utf-8", "replace").split("\n")[:-1], 1):
        if not (found := LINE.fullmatch(line)):
            raise UserError(
                str(received), f"{MANIFEST}, line {number}: expected a SHA-256 and a name, found {line[:80]!r}", ASK
            )
        listed[found[2]] = found[1]
    return listed


def check_entries(
    received: Path, entries: Mapping[str, Entry], manifest: Mapping[str, str] | None, most_mb: float
) -> None:
    """Raise UserError for files that may not be read. manifest: checksums by name, of an archive that has one."""
    faults = [f"{name[:LONGEST]!r}: {problem}" for name in entries if (problem := fault_of_name(name))]
    faults += [f"{name} {entry.fault}" for name, entry in entries.items() if entry.fault]
    if manifest is not None:
        faults += other_names(entries.keys(), manifest.keys())
    if len(entries) > MOST_FILES:
        faults.append(f"it holds more than {MOST_FILES:,} files")
    if faults:
        raise UserError(str(received), some(faults), ASK)
    total = sum(entry.size for entry in entries.values()) / MB
    if total > most_mb:
        found = f"its files have {total:,.0f} MB together, more than {most_mb:,.0f}"
        raise UserError(str(received), found, f"if the sender has stated that size: --most-mb {total + 1:.0f}")


def fault_of_name(name: str) -> str | None:
    """Return what is wrong with the name of a file in a received run, or None."""
    parts = PurePosixPath(name).parts
    if not parts or PurePosixPath(name).is_absolute() or ".." in parts or "\\" in name:
        return "leads out of its folder"
    if len(name) > LONGEST_NAME or len(parts) > DEEPEST:
        return f"has more than {LONGEST_NAME} characters, or lies more than {DEEPEST} folders deep"
    return "holds a control character" if any(ord(letter) < 32 for letter in name) else None


def other_names(there: Iterable[str], listed: Iterable[str]) -> list[str]:
    """Return the files that are gone and those that were added, by a manifest."""
    found, expected = set(there) - {MANIFEST, SIGNATURE}, set(listed)
    gone = [f"{name} is gone" for name in sorted(expected - found)]
    return [*gone, *(f"{name} was added" for name in sorted(found - expected))]


def some(faults: list[str]) -> str:
    """Return the first faults of a list, and how many more there are."""
    more = len(faults) - MOST_FAULTS
    return "; ".join([*faults[:MOST_FAULTS], *([f"and {more} more"] if more > 0 else [])])


def manifest_at(folder: Path) -> dict[str, str]:
    """Return the checksums by name that a folder's manifest lists."""
    with open(folder / MANIFEST, "rb") as handle:
        return manifest_of(handle.read(LONGEST_INDEX + 1), folder)


def check_files(folder: Path) -> dict[str, str]:
    """Return the checksums by name, of a folder that `unpacked` gave. Raises UserError naming the altered files."""
    if not (folder / MANIFEST).is_file():
        raise UserError(str(folder), f"it has no {MANIFEST}", "name what maieutic share wrote")
    listed = manifest_at(folder)
    faults = [
        f"{name} was altered: its checksum is another"
        for name, digest in sorted(listed.items())
        if sha256_of(folder / name) != digest
    ]
    if faults:
        raise UserError(str(folder), some(faults), ASK)
    return listed


def check_records(folder: Path, names: Iterable[str]) -> None:
    """Raise UserError naming the files of JSON that would fill the memory when they are parsed."""
    faults = [f"{name}: {fault}" for name in names if (fault := fault_of_file(folder / name))]
    if faults:
        raise UserError(str(folder), some(faults), ASK)


def fault_of_file(path: Path) -> str | None:
    """Return why a file may not be parsed, or None. Only JSON, JSON lines and tables are."""
    size = path.stat().st_size
    if path.suffix == ".jsonl":
        with open(path, "rb") as handle:
            number = 0
            while line := handle.readline(LONGEST_RECORD + 1):
                number += 1
                if len(line) > LONGEST_RECORD:
                    return f"line {number} has more than {LONGEST_RECORD // MB} MB"
                if values_in(line) > MOST_VALUES:
                    return f"line {number} has more than {MOST_VALUES:,} values"
    elif path.suffix == ".json":
        if size > LONGEST_DOCUMENT:
            return f"it has {size / MB:,.0f} MB, more than {LONGEST_DOCUMENT // MB}"
        if values_in(path.read_bytes()) > 4 * MOST_VALUES:
            return f"it has more than {4 * MOST_VALUES:,} values"
    elif path.suffix in {".csv", ".parquet"} and size > USUAL.labels_mb * MB:
        return f"it has {size / MB:,.0f} MB, more than {USUAL.labels_mb:.0f}"
    return None


def values_in(text: bytes) -> int:
    """Return at least as many values as a text of JSON holds."""
    return sum(text.count(separator) for separator in SEPARATORS)
