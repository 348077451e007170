"""Check, at a run's start, of the user's files that it names, so that jobs read them without a guess."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from maieutic.config.datasets import DatasetFile
from maieutic.core import paths
from maieutic.core.decimals import decimal_sign, doubt_of
from maieutic.core.encodings import decode_file
from maieutic.core.errors import UserError
from maieutic.core.tables import parse_table
from maieutic.core.workbooks import is_workbook
from maieutic.datasets.sources import local_copy
from maieutic.plan.plan import Plan

TEXT_SUFFIXES = {".csv", ".tsv", ".txt", ".json", ".jsonl", ".ndjson"}


def own_files(plan: Plan) -> Iterator[tuple[str, Path, bool]]:
    """Yield the key and path of each of the user's files that a run reads, and True if it has problems with answers."""
    for name in plan.used_datasets:
        if (path := problems_file(plan, name)) is not None:
            yield f"datasets.{name}", path, True
    for release, path in label_files(plan).items():
        yield f"labels.{release}", path, False
    for source, path in preference_files(plan).items():
        yield f"preferences.{source}", path, False
    for name in plan.with_engine("recorded"):
        for file in getattr(plan.models[name], "files", []):
            yield f"models.{name}", Path(file), False


def problems_file(plan: Plan, name: str) -> Path | None:
    """Return the user's file of a dataset, or None for a dataset that is downloaded or missing."""
    if plan.edition != "published":
        return None
    copy = plan.datasets[name].file_of(name, plan.edition)
    return local_file(plan, copy) if copy.url is None and copy.hub is None and copy.is_file else None


def local_file(plan: Plan, copy: DatasetFile) -> Path | None:
    """Return the file of a dataset on this machine, or None."""
    folder = Path(plan.config.data_dir) if plan.config.data_dir else None
    return local_copy(copy, plan.edition, folder, paths.DEMO_DATA)


def label_files(plan: Plan) -> dict[str, Path]:
    """Return the user's files of labels, by release."""
    files = {release: plan.label_sets[release].file for release in plan.releases}
    return {release: Path(file) for release, file in files.items() if file is not None}


def preference_files(plan: Plan) -> dict[str, Path]:
    """Return the user's files of preferences, by source."""
    entries = {source: plan.config.preferences.get(source) for source in plan.preferences}
    return {
        source: Path(entry.file) for source, entry in entries.items() if entry is not None and entry.file is not None
    }


def checks_of_own_files(plan: Plan) -> list[Callable[[], None]]:
    """Return the checks of all of the user's files that a run reads."""
    return [partial(check_own_file, *file) for file in own_files(plan)]


def check_own_file(key: str, path: Path, has_answers: bool) -> None:
    """Raise UserError for a workbook, for an unknown code page, and for answers whose numbers have two readings.

    Other faults are those of the job that reads the file. has_answers: True for a set of problems.
    """
    if not path.is_file():
        return
    with open(path, "rb") as handle:
        data = handle.read(8)
        if is_workbook(data):
            raise UserError(
                key, f"{path} is a workbook", f"run `{table_command(path)}`, and name the file that it writes"
            )
        if path.suffix.casefold() not in TEXT_SUFFIXES:
            return
        data += handle.read()
    fix = f"run `{table_command(path)}`, which writes UTF-8, with --encoding"
    text = decode_file(data, f"{key}: {path}", fix=fix).text
    if not has_answers or path.suffix.casefold() not in (".csv", ".tsv", ".txt"):
        return
    try:
        table = parse_table(text, str(path), "", padded=True)
    except UserError:
        return  # the job that reads the file names this fault
    column = next((name for name in table.columns if name.casefold() == "answer"), None)
    sign = decimal_sign(column, [row[column] for _, row in table.rows]) if column else None
    if sign is None or sign.sign == ".":
        return
    problem, _ = doubt_of([sign]) or (f"column {column} has decimal commas, such as {sign.proof[0]}", "")
    fix = f"run `{table_command(path)} --decimal SIGN` with the decimal sign, and name the file that it writes"
    raise UserError(key, f"{path}: {problem}", fix)


def table_command(path: Path) -> str:
    """Return the command that converts a user's file."""
    out = path.with_name(f"{path.stem}.jsonl" if path.suffix != ".jsonl" else f"{path.stem}.utf8.jsonl")
    return f"maieutic table {shlex.quote(str(path))} --out {shlex.quote(str(out))}"
