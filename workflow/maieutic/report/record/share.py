"""`maieutic share`: a finished run as one RO-Crate that an archive keeps and anybody can check."""

from __future__ import annotations

import logging
import os
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path

from maieutic.core.errors import UserError
from maieutic.core.files import sha256_of, write_text
from maieutic.core.secrets import LOOKS_LIKE, Redactor, secrets_in
from maieutic.plan.rules import RulePlan
from maieutic.report.record.contents import files_of
from maieutic.report.record.crate import describe
from maieutic.report.record.opened import REPORT, open_run, plan_of_run, results_of
from maieutic.report.record.received import MANIFEST
from maieutic.report.record.signing import program
from maieutic.report.record.signing import sign as sign_manifest
from maieutic.report.record.staging import staged

log = logging.getLogger(__name__)
BLOCK, OVERLAP = 1 << 24, 1 << 14  # bytes that are read at once, and that two such parts share


def share(
    *, run: Path = REPORT, out: Path, journals: bool = False, author: str | None = None, sign: Path | None = None
) -> None:
    """Pack a finished run as an RO-Crate (Workflow Run profile): page, configuration, tables, items, replies, grades.

    run: the run's own folder; out: a folder that is not there yet, or a file that ends with .zip; journals: with every
    request and answer; author: who ran it, a person's name; sign: a private key of OpenSSH, by which the list of
    checksums is signed. Raises UserError where the run is not whole, and where a
    file holds a key that this environment knows.
    """
    packed = out.suffix == ".zip"
    if out.suffix in {".gz", ".tgz", ".tar", ".xz", ".bz2", ".7z"}:
        raise UserError(str(out), "an archive is a .zip", f"--out {out.with_suffix('').with_suffix('.zip')}")
    if out.exists():
        raise UserError(str(out), "it is there already", "name another one, or delete it")
    if sign:
        program()
    files = files_of(plan_of_run(run), results_of(run), journals)
    opened = open_run(run)
    refuse_keys(opened.plan, files)
    with staged(out) as place:
        folder = place.with_suffix("") if packed else place
        digests = {}
        for name, file in files.items():
            target = folder / name
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(file, target)
            digests[name] = sha256_of(target)
        describe(opened, folder, digests, author)
        listed = sorted(path for path in folder.rglob("*") if path.is_file())
        names = {path: str(path.relative_to(folder)) for path in listed}
        lines = [f"{digests.get(name) or sha256_of(path)}  {name}\n" for path, name in names.items()]
        write_text(folder / MANIFEST, "".join(lines))
        if sign:
            sign_manifest(folder, sign)
        if packed:
            shutil.make_archive(str(folder), "zip", folder)
    log.info("%s: %d files; check it by: maieutic verify %s", out, len(lines) + 1, out)


def refuse_keys(plan: RulePlan, files: Mapping[str, Path]) -> None:
    """Raises UserError naming the files in which a key stands, in whatever form.

    Keys: what the variables hold that the run's models name (`key_env`), what any other variable holds whose name says
    so, and texts that look like the keys of services that are known.
    """
    named = {name for model in plan.models.values() if (name := getattr(model, "key_env", None))}
    known = {f"the value of {name}": Redactor([os.environ.get(name, "").strip()]) for name in sorted(named)}
    known["a key of this environment"] = Redactor(secrets_in(os.environ))
    found = []
    for name, place in files.items():
        told: dict[str, None] = {}
        for text in blocks(place):
            for what, redactor in known.items():
                if redactor.finds(text):
                    told[what] = None
            if LOOKS_LIKE.search(text):
                told["what looks like a key"] = None
        found += [f"{name} holds {next(iter(told))}"] if told else []
    if found:
        raise UserError("share", "; ".join(found), "take it out of these files, and give yourself a new key")


def blocks(path: Path) -> Iterator[str]:
    """A file in overlapping parts: a key that lies across the end of one is whole in the next."""
    with open(path, "rb") as handle:
        before = b""
        while part := handle.read(BLOCK):
            yield (before + part).decode("utf-8", "replace")
            before = part[-OVERLAP:]
