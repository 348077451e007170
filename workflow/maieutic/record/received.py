"""Safe reading of a run from an untrusted sender: limits that are checked before unpacking, and checksums."""

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

from maieutic.config.limits import DEFAULT_LIMITS
from maieutic.core.errors import UserError
from maieutic.core.extensions import MANIFEST
from maieutic.core.files import MB, sha256_of
from maieutic.core.json_text import count_json_values, json_value, object_of_unique_keys
from maieutic.core.visible import terminal_line

SIGNATURE = f"{MANIFEST}.sig"
ASK_SENDER = "ask the sender for an unaltered copy"
MOST_ERROR_CHARACTERS = 300  # maximum number of characters of a quoted name or error
MOST_LISTED_FAULTS = 10  # maximum number of faults listed in an error message
MOST_RUN_MB = 4096  # maximum total size of a run's files, in MB

# Maximum number of files. A run of the four papers' benchmarks with twenty tutors has about 3,000 files.
MOST_FILES = 100_000
LONGEST_NAME = 1000  # maximum number of characters in a file's path
MOST_FOLDER_DEPTH = 32  # maximum number of folders in a file's path
LONGEST_INDEX = 32 * MB  # maximum size, in bytes, of an archive's central directory, and of a manifest
# Maximum sizes of a JSON record and of a JSON document in bytes, and maximum number of values in a record. An answer
# that fills a context window takes about 4 MB. Values are counted before parsing, since small values take up to 70
# times as much memory in Python as their text.
LONGEST_RECORD, MOST_JSON_VALUES = 16 * MB, 1_000_000
LONGEST_DOCUMENT = 128 * MB
MANIFEST_LINE = re.compile(r"([0-9a-f]{64})  (.+)")
ARCHIVE_ERRORS = (
    zipfile.BadZipFile, zlib.error, lzma.LZMAError, OSError, EOFError, NotImplementedError, RuntimeError, ValueError,
)  # fmt: skip


class ReceivedFile(NamedTuple):
    """A file of a received run. size: size in bytes; fault: reason to refuse the file, if there is one."""

    size: int
    fault: str | None = None


def error_text(error: BaseException) -> str:
    """Return the class and message of an error as one line."""
    text = error.line if isinstance(error, UserError) else str(error)
    return f"{type(error).__name__}: {' '.join(text.split())[:MOST_ERROR_CHARACTERS]}"


@contextmanager
def unpack_run(received: Path, most_mb: float = MOST_RUN_MB) -> Iterator[tuple[Path, dict[str, str]]]:
    """Yield the folder of a received run, and its checksums. An archive is unpacked into a temporary folder.

    Names, types, number and total size of the files are checked before unpacking. most_mb: maximum total size of the
    files, in MB (2^20 bytes). Raises UserError with all faults in one line.
    """
    if received.is_dir():
        entries = files_in_folder(received)
        check_entries(received, entries, most_mb)
        yield received, check_checksums(received, received, entries)
        return
    if not received.exists():
        raise UserError(str(received), "not found", "pass the folder or .zip file that maieutic share wrote")
    if not received.is_file() or not zipfile.is_zipfile(received):
        raise UserError(
            str(received),
            "expected a folder or a .zip file, found another file",
            "pass the folder or .zip file that maieutic share wrote",
        )
    check_index(received)
    with tempfile.TemporaryDirectory() as place:
        try:
            with zipfile.ZipFile(received) as archive:
                listed = archive.infolist()
                if len(listed) > MOST_FILES:
                    problem = f"it has {len(listed):,} files and folders, more than {MOST_FILES:,}"
                    raise UserError(str(received), problem, ASK_SENDER)
                twice = len(listed) - len({info.filename for info in listed})
                if twice:
                    raise UserError(str(received), f"it contains {twice} duplicate file names", ASK_SENDER)
                entries = {info.filename: archived_file(info) for info in listed if not info.is_dir()}
                check_entries(received, entries, most_mb)
                archive.extractall(place, entries)  # without empty folders
        except ARCHIVE_ERRORS as error:
            raise UserError(str(received), f"cannot be unpacked: {error_text(error)}", ASK_SENDER) from None
        yield Path(place), check_checksums(received, Path(place), entries)


def archived_file(info: zipfile.ZipInfo) -> ReceivedFile:
    """Return the size of a file in an archive, and a fault if the file is encrypted or not a regular file."""
    kind = stat.S_IFMT(info.external_attr >> 16)
    if info.flag_bits & 0x1:
        return ReceivedFile(info.file_size, "is encrypted")
    return ReceivedFile(info.file_size, None if kind in (0, stat.S_IFREG) else file_type_fault(kind))


def file_type_fault(kind: int) -> str:
    """Return the fault to report for a file that is not a regular file. kind: file type from `stat.S_IFMT`."""
    return "is a link" if kind == stat.S_IFLNK else "is not a regular file"


def files_in_folder(folder: Path) -> dict[str, ReceivedFile]:
    """Return the files in a folder and its subfolders, by relative path. No file is opened and no link is followed."""
    entries: dict[str, ReceivedFile] = {}
    folders, seen = [(folder, 0)], 0
    while folders and len(entries) <= MOST_FILES:
        place, depth = folders.pop()
        seen += 1
        if seen > MOST_FILES:
            raise UserError(str(folder), f"it has more than {MOST_FILES:,} folders", ASK_SENDER)
        with os.scandir(place) as children:
            for child in children:
                status = child.stat(follow_symlinks=False)
                name = os.path.relpath(child.path, folder)
                if not stat.S_ISDIR(status.st_mode):
                    regular = stat.S_ISREG(status.st_mode)
                    entries[name] = ReceivedFile(
                        status.st_size, None if regular else file_type_fault(stat.S_IFMT(status.st_mode))
                    )
                elif depth < MOST_FOLDER_DEPTH:
                    folders.append((Path(child.path), depth + 1))
                else:
                    entries[name] = ReceivedFile(0, f"is more than {MOST_FOLDER_DEPTH} folders deep")
    return entries


def check_index(received: Path) -> None:
    """Raise UserError if an archive's central directory, which zipfile reads into memory, is too large.

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
            str(received),
            f"its list of files is {index / MB:,.0f} MB; the limit is {LONGEST_INDEX // MB} MB",
            ASK_SENDER,
        )


def check_entries(received: Path, entries: Mapping[str, ReceivedFile], most_mb: float) -> None:
    """Raise UserError if a file has a fault, or if the files are too many or too large.

    entries: files by name; most_mb: maximum total size of the files, in MB.
    """
    faults = [f"{name[:MOST_ERROR_CHARACTERS]!r}: {problem}" for name in entries if (problem := name_fault(name))]
    faults += [f"{name} {entry.fault}" for name, entry in entries.items() if entry.fault]
    if len(entries) > MOST_FILES:
        faults.append(f"it contains more than {MOST_FILES:,} files")
    if faults:
        raise UserError(str(received), join_faults(faults), ASK_SENDER)
    total = sum(entry.size for entry in entries.values()) / MB
    if total > most_mb:
        message = f"expected at most {most_mb:,.0f} MB of files, found {total:,.0f} MB"
        raise UserError(str(received), message, f"if the sender confirms this size, pass --most-mb {total + 1:.0f}")


def name_fault(name: str) -> str | None:
    """Return the fault of a received file's name; None if the name is safe."""
    parts = PurePosixPath(name).parts
    if not parts or PurePosixPath(name).is_absolute() or ".." in parts or "\\" in name:
        return "leads out of the run's folder"
    if len(name) > LONGEST_NAME or len(parts) > MOST_FOLDER_DEPTH:
        return f"has more than {LONGEST_NAME} characters, or is more than {MOST_FOLDER_DEPTH} folders deep"
    return "contains a control character" if terminal_line(name) != name else None


def manifest_differences(present: Iterable[str], listed: Iterable[str]) -> list[str]:
    """Return a line for each file that is only in the manifest, and for each file that is only in the run.

    present: names of the run's files; listed: names in the manifest.
    """
    names, expected = set(present) - {MANIFEST, SIGNATURE}, set(listed)
    missing = [f"{name} is missing" for name in sorted(expected - names)]
    return [*missing, *(f"{name} was added" for name in sorted(names - expected))]


def join_faults(faults: list[str]) -> str:
    """Join the first MOST_LISTED_FAULTS faults into one line. If there are further faults, append their number."""
    more = len(faults) - MOST_LISTED_FAULTS
    return "; ".join([*faults[:MOST_LISTED_FAULTS], *([f"and {more} more"] if more > 0 else [])])


def read_manifest(received: Path, folder: Path) -> dict[str, str]:
    """Return the checksums in a manifest, by file name. Raises UserError if a line is not a checksum and a name."""
    with open(folder / MANIFEST, "rb") as handle:
        content = handle.read(LONGEST_INDEX + 1)
    if len(content) > LONGEST_INDEX:
        raise UserError(str(received), f"{MANIFEST} is larger than {LONGEST_INDEX // MB} MB", ASK_SENDER)
    listed = {}
    for number, line in enumerate(content.decode("utf-8", "replace").removesuffix("\n").split("\n"), 1):
        if not (match := MANIFEST_LINE.fullmatch(line)):
            problem = f"{MANIFEST}, line {number}: expected a SHA-256 and a name, found {line[:80]!r}"
            raise UserError(str(received), problem, ASK_SENDER)
        listed[match[2]] = match[1]
    return listed


def check_checksums(received: Path, folder: Path, names: Iterable[str]) -> dict[str, str]:
    """Check all checksums of an unpacked run and return them by file name. Raises UserError naming altered files.

    names: names of the run's files.
    """
    if MANIFEST not in names:
        raise UserError(
            str(received), f"it has no {MANIFEST}", "pass the folder or .zip file that maieutic share wrote"
        )
    listed = read_manifest(received, folder)
    faults = manifest_differences(names, listed) or [
        f"{name} was altered: its checksum differs"
        for name, digest in sorted(listed.items())
        if sha256_of(folder / name) != digest
    ]
    if faults:
        raise UserError(str(received), join_faults(faults), ASK_SENDER)
    return listed


def check_json_sizes(folder: Path, names: Iterable[str]) -> None:
    """Raise UserError naming files that would take too much memory to parse."""
    faults = [f"{name}: {fault}" for name in names if (fault := size_fault(folder / name))]
    if faults:
        raise UserError(str(folder), join_faults(faults), ASK_SENDER)


def repeated_key(text: bytes) -> str | None:
    """Return the fault of a JSON text in which an object has a key twice, whose value would be ambiguous, else None."""
    try:
        json_value(text, object_pairs_hook=object_of_unique_keys)
    except ValueError as error:
        return str(error) if "occurs twice" in str(error) else None  # other faults are found when it is read
    return None


def size_fault(path: Path) -> str | None:
    """Return the reason why a JSON, JSON Lines, CSV or Parquet file is too large to parse; None for other files."""
    size = path.stat().st_size
    if path.suffix == ".jsonl":
        with open(path, "rb") as handle:
            number = 0
            while line := handle.readline(LONGEST_RECORD + 1):
                number += 1
                if len(line) > LONGEST_RECORD:
                    return f"line {number} has more than {LONGEST_RECORD // MB} MB"
                if count_json_values(line) > MOST_JSON_VALUES:
                    return f"line {number} has more than {MOST_JSON_VALUES:,} values"
                if fault := repeated_key(line):
                    return f"line {number}: {fault}"
    elif path.suffix == ".json":
        if size > LONGEST_DOCUMENT:
            return f"it has {size / MB:,.0f} MB, more than {LONGEST_DOCUMENT // MB} MB"
        content = path.read_bytes()
        if count_json_values(content) > 4 * MOST_JSON_VALUES:
            return f"it has more than {4 * MOST_JSON_VALUES:,} values"
        return repeated_key(content)
    elif path.suffix in {".csv", ".parquet"} and size > DEFAULT_LIMITS.labels_mb * MB:
        return f"it has {size / MB:,.0f} MB, more than {DEFAULT_LIMITS.labels_mb:.0f} MB"
    return None
