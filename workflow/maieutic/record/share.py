"""`maieutic share`: a finished run as an RO-Crate, to be archived and verified by others."""

from __future__ import annotations

import logging
import os
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path

from maieutic.core.errors import UserError
from maieutic.core.extensions import MANIFEST
from maieutic.core.files import sha256_of, write_text
from maieutic.core.secrets import KNOWN_KEY, Redactor, environment_secrets
from maieutic.plan.rules import RulePlan
from maieutic.record.contents import crate_files
from maieutic.record.crate import describe_crate
from maieutic.record.export import staged_output
from maieutic.record.finished_run import (
    DEFAULT_RUN,
    kept_files,
    load_finished_run,
    named_run_folder,
    plan_of_run,
    results_folder_of,
)
from maieutic.record.signing import sign_manifest, ssh_keygen_path
from maieutic.record.summary import LEADERBOARDS, check_is_whole, leaderboard_rows, write_leaderboards

log = logging.getLogger(__name__)
KEY_SEARCH_BYTES = 1 << 24  # size, in bytes, of the blocks that are searched for keys, without overlap
KEY_SEARCH_OVERLAP = 1 << 14  # overlap, in bytes, of consecutive blocks


def share(
    *,
    run: Path = DEFAULT_RUN,
    out: Path,
    submission: bool = False,
    journals: bool = False,
    author: str | None = None,
    sign: Path | None = None,
) -> None:
    """Pack a finished run as an RO-Crate (Workflow Run profile): page, configuration, tables, items, replies, grades.

    Args:
        run: name or folder of the run
        out: folder to create, or a file that ends with .zip
        submission: for `maieutic board`: add leaderboard rows; refuse a run with a limit
        journals: include every request and answer
        author: name of who made the run
        sign: OpenSSH private key that signs the checksums

    Raises:
        UserError: if the run is incomplete or a file contains an API key
    """
    packed = out.suffix == ".zip"
    if out.suffix in {".gz", ".tgz", ".tar", ".xz", ".bz2", ".7z"}:
        raise UserError(
            str(out),
            f"expected a folder or a .zip file, found {out.suffix}",
            f"pass --out {out.with_suffix('').with_suffix('.zip')}",
        )
    if out.exists():
        raise UserError(str(out), "already exists", "pass another --out, or delete the existing one")
    if sign:
        ssh_keygen_path()  # if ssh-keygen is not installed, raise the error before any work is done
    run = named_run_folder(run)
    files = crate_files(plan_of_run(run), results_folder_of(run), journals, kept_files(run))
    loaded_run = load_finished_run(run)
    if submission:
        check_is_whole(loaded_run.plan)
    check_no_keys(loaded_run.plan, files)
    with staged_output(out) as place:
        folder = place.with_suffix("") if packed else place
        digests = {}
        for name, file in files.items():
            target = folder / name
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(file, target)
            digests[name] = sha256_of(target)
        if submission:
            (folder / LEADERBOARDS).mkdir()
            write_leaderboards(loaded_run, folder / LEADERBOARDS)
        describe_crate(loaded_run, folder, digests, author)
        listed = sorted(path for path in folder.rglob("*") if path.is_file())
        names = {path: str(path.relative_to(folder)) for path in listed}
        lines = [f"{digests.get(name) or sha256_of(path)}  {name}\n" for path, name in names.items()]
        write_text(folder / MANIFEST, "".join(lines))
        if sign:
            sign_manifest(folder, sign)
        if packed:
            shutil.make_archive(str(folder), "zip", folder)
    log.info("%s: %d files; to check the run, type: maieutic verify %s", out, len(lines) + 1, out)
    if submission:
        for benchmark, (_, *rows) in leaderboard_rows(loaded_run).items():
            log.info("%s: %d tutors, %s", benchmark, len(rows), items_text(loaded_run.plan, benchmark))


def items_text(plan: RulePlan, benchmark: str) -> str:
    """Return the number of items of each task of a benchmark as text."""
    cards = [loaded.card for loaded in plan.benchmarks[benchmark]]
    return ", ".join(f"{card.task} n = {plan.item_count(card):,}" for card in cards if plan.item_count(card))


def check_no_keys(plan: RulePlan, files: Mapping[str, Path]) -> None:
    """Raise UserError naming the files that contain an API key or another secret, in plain text or encoded.

    The secrets are: values of the environment variables that the run's models name (`key_env`), values of variables
    whose names suggest a secret, and texts in the format of known services' keys.
    """
    named = {name for model in plan.models.values() if (name := getattr(model, "key_env", None))}
    known = {f"the value of {name}": Redactor([os.environ.get(name, "").strip()]) for name in sorted(named)}
    known["a key of this environment"] = Redactor(environment_secrets(os.environ))
    faults = []
    for name, place in files.items():
        kinds: dict[str, None] = {}
        for text in overlapping_blocks(place):
            for kind, redactor in known.items():
                if redactor.contains_secret(text):
                    kinds[kind] = None
            if KNOWN_KEY.search(text):
                kinds["text that looks like a key"] = None
        faults += [f"{name} contains {next(iter(kinds))}"] if kinds else []
    if faults:
        raise UserError(
            "share", "; ".join(faults), "remove the API key from these files, then revoke it and create a new one"
        )


def overlapping_blocks(path: Path) -> Iterator[str]:
    """Yield a file's text in overlapping blocks, so that a key that is cut off in one is complete in the next."""
    with open(path, "rb") as handle:
        before = b""
        while part := handle.read(KEY_SEARCH_BYTES):
            yield (before + part).decode("utf-8", "replace")
            before = part[-KEY_SEARCH_OVERLAP:]
