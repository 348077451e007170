"""Digests of code in the form of earlier versions, which named modules.

A finished folder records them for its outputs. They are accepted once: where the code behind an output is unchanged,
the recorded digest stays in use, so that the new form of digests re-runs nothing.
"""

from __future__ import annotations

import atexit
import contextlib
import hashlib
import json
import re
from collections.abc import Iterable
from functools import cache
from pathlib import Path

from maieutic.core.files import write_json
from maieutic.plan import digest
from maieutic.plan.syntax import Name

METADATA = Path(".snakemake/metadata")  # Snakemake's records of a folder's outputs, one file each
ACCEPTED = Path(".snakemake/maieutic/former_digests.json")
DIGEST = re.compile(r"\b[0-9a-f]{16}\b")


class FormerCode(digest.PackageCode):
    """Definitions of the package, whose digest names their modules."""

    keeps_paths = True

    def digest(self, closure: Iterable[Name]) -> str:
        """Return a digest of the definitions in a closure in its former form."""
        hasher = hashlib.sha256()
        for name in sorted(closure):
            hasher.update(f"{name.module}:{name.name}\n{self.definition(name).syntax}\n".encode())
        return hasher.hexdigest()[:16]


class AcceptedDigests:
    """Digests of a folder that stay in their former form.

    recorded: digests that Snakemake had recorded when the folder was first planned by this version; used: digest to use
    for each present one that was looked up, so that the former form of each is computed once, for all run files.
    """

    def __init__(self) -> None:
        self.file, metadata = ACCEPTED.absolute(), METADATA.absolute()
        self.recorded = frozenset[str]()
        self.used: dict[str, str] = {}
        if self.file.is_file():
            content = json.loads(self.file.read_text(encoding="utf-8"))
            self.recorded, self.used = frozenset(content["recorded"]), content["used"]
        elif metadata.is_dir():
            files = (path for path in metadata.rglob("*") if path.is_file())
            texts = (path.read_text(encoding="utf-8", errors="replace") for path in files)
            self.recorded = frozenset(value for text in texts for value in DIGEST.findall(text))
        self.saved = len(self.used)
        atexit.register(self.save)

    def save(self) -> None:
        """Write new digests. A folder that was deleted, or that cannot be written to, stays as it is."""
        if len(self.used) > self.saved and self.file.parents[1].is_dir():
            with contextlib.suppress(OSError):
                write_json(self.file, {"recorded": sorted(self.recorded), "used": self.used})


@cache
def accepted_digests() -> AcceptedDigests:
    """Return the digests of this folder that stay in their former form."""
    return AcceptedDigests()


@cache
def former_code() -> FormerCode:
    """Return the definitions of this package for digests of the former form."""
    return FormerCode(digest.source_lookup(digest.package_sources()))


def code_of(command: str, instead: digest.DefinitionReplacements | None = None, files: Iterable[Path] = ()) -> str:
    """Return the digest of a command's code, in its former form where this folder has recorded it.

    instead, files: as in `digest.code_of`.
    """
    present = digest.code_of(command, instead, files)
    accepted = accepted_digests()
    if accepted.recorded and present not in accepted.used:
        former = digest.code_of(command, instead, files, former_code())
        accepted.used[present] = former if former in accepted.recorded else present
    return accepted.used.get(present, present)
