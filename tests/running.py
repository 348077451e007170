"""Run the workflow in a copy of it, as a user would."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any, NoReturn

import fork_server

ROOT = Path(__file__).parents[1]
SNAKEMAKE = Path(sys.executable).parent / "snakemake"
JOB = re.compile(r"^(?:local)?rule (\w+):$|^    wildcards: (.*)$", re.MULTILINE)


def environment() -> dict[str, str]:
    """Return the environment without Python's and pytest's variables; numpy is limited to one thread in Snakemake."""
    variables = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "PYTEST_"))}
    return {**variables, "OPENBLAS_NUM_THREADS": "1"}


# Omits the report and its checks, which cost more than all jobs before them, from runs that only prepare a test.
NO_PAGE = ("--omit-from", "build_report")
# Training and judging take minutes, so only tests of reward models or judges include them.
NO_GRADERS: dict[str, list[str]] = {"reward_models": [], "reward_comparisons": [], "classifiers": [], "judges": []}


def overlay(folder: Path, config: dict[str, Any], name: str = "overlay.yaml") -> Path:
    """Write a run file (JSON is YAML): by default MathTutorBench's demo without models as graders."""
    path = folder / name
    run_keys = {"tutors": ["smollm2-135m"], "tasks": ["mathtutorbench"], **NO_GRADERS, **config.get("run", {})}
    defaults: dict[str, Any] = {"edition": "demo", "report": {"resamples": 100}}
    if any("--pace" in entry.get("runtime_args", ()) for entry in config.get("models", {}).values()):
        defaults["interpreters"] = {
            "serve": str(ROOT / "tests/stub/python")
        }  # the model is served by the drills' stub engine
    path.write_text(json.dumps({**defaults, **config, "run": run_keys}), encoding="utf-8")
    return path


def command(config: Path | None, *more: str) -> list[str]:
    """Return the command line that a user would type. Cores are set unless a profile sets where jobs run."""
    placement = [] if "--profile" in more or "--workflow-profile" in more else ["--cores", "2"]
    line = [str(SNAKEMAKE), *placement, *more]
    return [*line, "--configfile", str(config or "config/config.yaml")]


def run(folder: Path, config: Path | None = None, *more: str, **env: str) -> subprocess.CompletedProcess[str]:
    """Run Snakemake to its end, and return its exit code and output."""
    line, variables = command(config, *more), {**environment(), **env}
    # Variables that are read when a program starts need a new process. Drills, clusters and containers use no forks.
    if not any(name.startswith(("LD_", "PYTHON")) for name in variables):
        forks = "tests/workflow/" in os.environ.get("PYTEST_CURRENT_TEST", "") and "--profile" not in more
        if (process := fork_server.call(line, folder, variables, forks)) is not None:
            return process
    options: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    return subprocess.run(line, cwd=folder, env=variables, check=False, **options)


def forked_snakemake(folder: Path) -> Path:
    """Write a program `snakemake` that runs in a fork, with its jobs, and return its folder, for the path of a shell."""
    folder.mkdir()
    program = folder / "snakemake"
    lines = [
        f"#!{sys.executable}",
        "import sys",
        f"sys.path[:0] = [{str(ROOT / 'tests')!r}, {str(ROOT / 'workflow')!r}]",
        "import os, pathlib, running",
        "running.run_as_typed(sys.argv[1:], pathlib.Path.cwd(), dict(os.environ))",
    ]
    program.write_text("\n".join(lines) + "\n", encoding="utf-8")
    program.chmod(0o755)
    return folder


def run_as_typed(words: list[str], folder: Path, variables: dict[str, str]) -> NoReturn:
    """Run Snakemake and its jobs in forks, print the output and exit as it does."""
    line = [str(SNAKEMAKE), *words]
    done = fork_server.call(line, folder, variables, jobs_by_forks=True) or subprocess.run(line, text=True, check=False)
    print(done.stdout or "", end="")
    sys.exit(done.returncode)


def maieutic(folder: Path, *words: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run a command of the package in a folder, which may be a copy of the workflow."""
    package = folder if (folder / "workflow").is_dir() else ROOT
    env = {**environment(), "PYTHONPATH": str(package / "workflow"), **variables}
    line = [sys.executable, "-m", "maieutic", *words]
    return subprocess.run(line, cwd=folder, env=env, capture_output=True, text=True, check=False)


def start(folder: Path, config: Path | None = None, *more: str, **env: str) -> subprocess.Popen[str]:
    """Start Snakemake in the background."""
    with open(folder / "snakemake.log", "a", encoding="utf-8") as log:
        return subprocess.Popen(
            command(config, *more), cwd=folder, text=True, stdout=log, stderr=log, env={**environment(), **env}
        )


def planned(folder: Path, config: Path | None = None, *more: str) -> set[str]:
    """Return the jobs of a dry run, as `rule` or `rule wildcard=value, ...`."""
    process = run(folder, config, "-n", *more)
    assert process.returncode == 0, process.stdout
    jobs: list[str] = []
    for rule, wildcards in JOB.findall(process.stdout):
        if rule:
            jobs.append(rule)
        else:
            jobs[-1] += f" {wildcards}"
    return set(jobs) - {"all"}
