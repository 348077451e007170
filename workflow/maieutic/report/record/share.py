"""`maieutic share`: a finished run as one RO-Crate that an archive keeps and anybody can check."""

from __future__ import annotations

import logging
import os
import shutil
from collections.abc import Iterable
from pathlib import Path

from maieutic.core.documents import read_yaml
from maieutic.core.errors import UserError
from maieutic.core.files import sha256_of, write_text
from maieutic.plan.rules import RulePlan, plan_of
from maieutic.report.record.contents import files_of, where
from maieutic.report.record.crate import describe
from maieutic.report.record.opened import REPORT, open_run, results_of

log = logging.getLogger(__name__)
MANIFEST = "manifest-sha256.txt"  # as `sha256sum -c` reads it
FEWEST = 8  # characters of a key that is looked for: a shorter one would be found in any text


def share(*, run: Path = REPORT, out: Path, journals: bool = False, author: str | None = None) -> None:
    """Pack a finished run as an RO-Crate (Workflow Run profile): page, configuration, tables, items, replies, grades.

    run: the run's own folder; out: a folder that is not there yet, or a file that ends with .zip; journals: with every
    request and answer; author: who ran it, a person's name. Raises UserError where the run is not whole, and where a
    file holds a key that this environment knows.
    """
    packed = out.suffix == ".zip"
    folder = out.with_suffix("") if packed else out
    for place in {out, folder}:
        if place.exists():
            raise UserError(str(place), "it is there already", "name another one, or delete it")
    opened = open_run(run)
    plan = plan_of_run(run)
    results = results_of(run)
    files = files_of(plan, results, journals)
    named = [(path, where(results.parent, path)) for path in files]
    refuse_keys(plan, named)
    try:
        for path, place in named:
            target = folder / path
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(place, target)
        describe(opened, folder, files, author)
        listed = sorted(path for path in folder.rglob("*") if path.is_file())
        lines = [f"{sha256_of(path)}  {path.relative_to(folder)}\n" for path in listed]
        write_text(folder / MANIFEST, "".join(lines))
        if packed:
            shutil.make_archive(str(folder), "zip", folder)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        out.unlink(missing_ok=True) if packed else None
        raise
    if packed:
        shutil.rmtree(folder)
    log.info("%s: %d files; check it by: maieutic verify %s", out, len(lines) + 1, out)


def plan_of_run(run: Path) -> RulePlan:
    """The plan of a run's own folder, with the parts of its rules."""
    return plan_of(read_yaml(run / "config.yaml", "run it again: a run writes it anew"))


def refuse_keys(plan: RulePlan, files: Iterable[tuple[str, Path]]) -> None:
    """Raises UserError naming the files in which a key stands that a model of the run is asked with."""
    names = {name for model in plan.models.values() if (name := getattr(model, "key_env", None))}
    keys = {name: key.encode() for name in names if len(key := os.environ.get(name, "").strip()) >= FEWEST}
    if not keys:
        return
    found = []
    for path, place in files:
        content = place.read_bytes()
        found += [f"{path} holds the value of {name}" for name, key in keys.items() if key in content]
    if found:
        raise UserError("share", "; ".join(found), "take it out of these files, and give yourself a new key")
