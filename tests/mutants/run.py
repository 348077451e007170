"""Change the code in small ways, one at a time, and see whether a unit test notices: `make mutants` (an hour and more).

In a copy of the checkout, `.mutants`, by mutmut, which runs for each change the tests that reach the changed function.
Prints the share of changes that a test notices, by module, and each other one that `equivalent.yaml` does not list with
the reason why no test can tell it from the original. Ends with 1 below 95 %. Arguments: the modules, else all of MODULES.
"""

from __future__ import annotations

import contextlib
import re
import shutil
import subprocess
import sys
from collections import Counter, defaultdict
from pathlib import Path

import yaml
from mutmut.mutation.diff_apply import get_diff_for_mutant

ROOT = Path(__file__).parents[2]
COPY = ROOT / ".mutants"
MODULES = ["core/*", "scores/*", "graders/*", "plan/*", "serving/conversations.py"]
ENOUGH = 0.95
LINE = re.compile(r"^\s*(\S+?)__mutmut_(\d+): (.+)$", re.MULTILINE)
NOTICED = {"killed", "segfault"}  # "timeout" is none: an endless loop fails a test, so that the run itself hung
Changes = dict[str, list[str]]  # by function, each change as `-old +new`


def copy_checkout(modules: list[str]) -> None:
    """Make the copy anew, its package under `src`, as mutmut expects it."""
    shutil.rmtree(COPY, ignore_errors=True)
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, check=True, capture_output=True, text=True).stdout.split(
        "\n"
    )
    for name in filter(None, listed):
        target = COPY / re.sub(r"^workflow/", "src/", name)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, target, follow_symlinks=False)
    mutants = COPY / "mutants"
    mutants.mkdir()
    for folder in (COPY, mutants):
        (folder / "workflow").symlink_to("src")
        (folder / ".venv").symlink_to(ROOT / ".venv")
    tests = [str(path.relative_to(COPY)) for path in sorted((COPY / "tests/unit").glob("test_*.py"))]
    beside = [path.name for path in COPY.iterdir() if path.name not in {"src", "tests", "mutants", "workflow", ".venv"}]
    settings = {
        "source_paths": ["src/"],
        "only_mutate": [f"src/maieutic/{module}" for module in modules],
        "also_copy": [name for name in beside if name != "pyproject.toml"],
        "pytest_add_cli_args": ["-m", "not slow and not own_text", "-p", "no:cacheprovider", "-W", "ignore", "-q"],
        "pytest_add_cli_args_test_selection": tests,
    }
    with open(COPY / "pyproject.toml", "a", encoding="utf-8") as handle:
        handle.write("\n[tool.mutmut]\n" + "".join(f"{key} = {value!r}\n" for key, value in settings.items()))


def mutmut(*words: str) -> str:
    """What a command of mutmut says."""
    line = [ROOT / ".venv/mutants/bin/mutmut", *words]
    return subprocess.run(line, cwd=COPY, check=True, capture_output=True, text=True).stdout


def change_of(mutant: str) -> str:
    """A change as `-old +new`, without what stands around it."""
    path = Path("src", *re.sub(r"\.x[_ǁ].*", "", mutant).split(".")).with_suffix(".py")
    with contextlib.chdir(COPY):
        told = get_diff_for_mutant(mutant, path=path if path.is_file() else path.with_suffix("") / "__init__.py")
    lines = [line for line in told.splitlines() if re.match(r"[-+](?![-+])", line)]
    return " ".join(f"{line[0]}{line[1:].strip()}" for line in lines)


def is_everywhere(change: str, rules: list[dict[str, str]]) -> bool:
    """Whether a change is one of those that are equivalent wherever they stand. change: `-old +new`."""
    places = [match.start() for match in re.finditer(r" \+", change)]
    pairs = [(change[1:place], change[place + 2 :]) for place in places]
    return any(
        rule["old"] in old and old.replace(rule["old"], rule["new"], 1) == new for old, new in pairs for rule in rules
    )


def main() -> int:
    copy_checkout(sys.argv[1:] or MODULES)
    ran = subprocess.run([ROOT / ".venv/mutants/bin/mutmut", "run"], cwd=COPY)
    if ran.returncode != 0:
        return ran.returncode
    known = yaml.safe_load((Path(__file__).parent / "equivalent.yaml").read_text(encoding="utf-8"))
    everywhere = known.pop("everywhere")
    counts: dict[str, Counter[bool]] = defaultdict(Counter)
    unnoticed: Changes = defaultdict(list)
    for function, number, outcome in LINE.findall(mutmut("results", "--all", "true")):
        noticed = outcome in NOTICED
        change = "" if noticed else change_of(f"{function}__mutmut_{number}")
        if not noticed and (change in known.get(function, {}) or is_everywhere(change, everywhere)):
            continue
        module = re.sub(r"\.x[_ǁ].*", "", function).removeprefix("maieutic.")
        counts[module][noticed] += 1
        if not noticed:
            unnoticed[function].append(f"{outcome}: {change}")
    for function, changes in unnoticed.items():
        print(function, *changes, sep="\n  ")
    for module, of in sorted(counts.items()):
        print(f"{module:32} {of[True] / of.total():7.1%} of {of.total()}")
    total = sum(counts.values(), Counter())
    print(f"{'all':32} {total[True] / total.total():7.1%} of {total.total()}")
    return 0 if total[True] >= ENOUGH * total.total() else 1


if __name__ == "__main__":
    sys.exit(main())
