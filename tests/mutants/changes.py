"""Rewrite modules of the package so that each contains all changes of its functions, as mutmut makes them."""

from __future__ import annotations

import difflib
import fnmatch
import re
import shutil
import subprocess
from collections import defaultdict
from collections.abc import Sequence
from multiprocessing import Pool
from pathlib import Path
from typing import NamedTuple

from mutmut.mutation.file_mutation import mutate_file_contents
from mutmut.utils.format_utils import get_mutant_name, mangled_name_from_mutant_name

PACKAGE = Path("workflow/maieutic")


class Change(NamedTuple):
    """One change. name: value of mutmut's `MUTANT_UNDER_TEST`; text: `-old +new`, only the changed lines."""

    name: str
    text: str

    @property
    def function(self) -> str:
        """The changed function with its module: `maieutic.core.stats.x_share`."""
        return mangled_name_from_mutant_name(self.name)


def copy_checkout(source: Path, target: Path) -> None:
    """Copy the tracked files of a checkout, and link its environments."""
    shutil.rmtree(target, ignore_errors=True)
    names = subprocess.run(["git", "ls-files"], cwd=source, check=True, capture_output=True, text=True).stdout
    for name in names.splitlines():
        (target / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(source / name, target / name, follow_symlinks=False)
    (target / ".venv").symlink_to(source / ".venv")
    with open(target / "pyproject.toml", "a", encoding="utf-8") as handle:
        handle.write('\n[tool.mutmut]\nsource_paths = ["workflow"]\n')


def write_changes(modules: Sequence[str]) -> dict[str, list[Change]]:
    """Rewrite the modules of this folder's package that match a pattern. Return the changes by function."""
    paths = sorted(
        path
        for path in PACKAGE.rglob("*.py")
        if any(fnmatch.fnmatch(str(path.relative_to(PACKAGE)), module) for module in modules)
    )
    by_function: dict[str, list[Change]] = defaultdict(list)
    with Pool() as pool:
        for changes in pool.imap(rewrite, paths):
            for change in changes:
                by_function[change.function].append(change)
    return by_function


def rewrite(path: Path) -> list[Change]:
    """Add all changes of a module's functions to its text, each as a further function, and return them."""
    mutated = mutate_file_contents(str(path), path.read_text(encoding="utf-8"))
    path.write_text(mutated.code, encoding="utf-8")
    lines = mutated.code.splitlines()

    def text_of(function: str) -> list[str]:
        span = mutated.line_span_by_function_name[function]
        plain = re.sub(r"__mutmut_(orig|\d+)$", "", function)
        return [line.replace(function, plain) for line in lines[span.start - 1 : span.end]]

    def between(old: list[str], new: list[str]) -> str:
        lines = difflib.unified_diff(old, new, lineterm="", n=0)
        changed = [line for line in lines if re.match(r"[-+](?![-+])", line)]
        return " ".join(f"{line[0]}{line[1:].strip()}" for line in changed)

    changes = []
    for name in mutated.mutant_names:
        original = text_of(f"{mangled_name_from_mutant_name(name)}__mutmut_orig")
        full_name = get_mutant_name(path.relative_to(PACKAGE.parent), name)
        changes.append(Change(full_name, between(original, text_of(name))))
    return changes
