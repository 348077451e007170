"""Check, at a run's start, of the user's files that it names, so that jobs read them without a guess."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

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
        copy = plan.datasets[name].file_of(name, plan.edition)
        folder = Path(plan.config.data_dir) if plan.config.data_dir else None
        if copy.url is None and copy.hub is None and copy.is_file and plan.edition == "published":
            path = local_copy(copy, plan.edition, folder, paths.DEMO_DATA)
            if path is not None:
                yield f"datasets.{name}", path, True
    for release in plan.releases:
        if (file := plan.label_sets[release].file) is not None:
            yield f"labels.{release}", Path(file), False
    for source in plan.preferences:
        entry = plan.config.preferences.get(source)
        if entry is not None and entry.file is not None:
            yield f"preferences.{source}", Path(entry.file), False
    for name in plan.with_engine("recorded"):
        for file in getattr(plan.models[name], "files", []):
            yield f"models.{name}", Path(file), False


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
