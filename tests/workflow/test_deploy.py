"""Tests of the workflow as the Snakemake catalogue deploys it: as a module in another folder, from a repository."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from running import SNAKEMAKE, environment, run

MODULE = """
configfile: "config/models.yaml"
configfile: "config/datasets.yaml"
configfile: "config/mine.yaml"


module maieutic:
    snakefile:
        "{source}"
    config:
        config


use rule * from maieutic
"""
RUN_FILE = "edition: demo\nrun: {tutors: [echo], tasks: [mathtutorbench/problem_solving]}\n"


def dry_run_of_module(folder: Path, checkout: Path, source: str) -> subprocess.CompletedProcess[str]:
    """Make a dry run in a new folder with the registries, a run file, and a Snakefile that imports the module."""
    (folder / "workflow").mkdir(parents=True)
    shutil.copytree(checkout / "config", folder / "config")
    (folder / "config/mine.yaml").write_text(RUN_FILE, encoding="utf-8")
    (folder / "workflow/Snakefile").write_text(MODULE.format(source=source), encoding="utf-8")
    command = [str(SNAKEMAKE), "--cores", "1", "-n"]
    return subprocess.run(command, cwd=folder, text=True, capture_output=True, env=environment())


def test_it_is_deployed_from_a_repository_and_from_a_checkout(checkout: Path, tmp_path: Path) -> None:
    """Cards, prompts and the package are found from another working directory."""
    git = ["git", "-C", str(checkout), "-c", "user.name=a", "-c", "user.email=a@example.org"]
    for words in (["init", "-q"], ["add", "-A"], ["commit", "-qm", "all"], ["tag", "v1"]):
        subprocess.run([*git, *words], check=True, capture_output=True)
    sources = {
        "repository": f"git+file://{checkout}/workflow/Snakefile@v1",
        "folder": str(checkout / "workflow/Snakefile"),
    }
    for name, source in sources.items():
        done = dry_run_of_module(tmp_path / name, checkout, source)
        assert done.returncode == 0, done.stdout + done.stderr
        assert "rule maieutic_build_report:" in done.stdout or "rule build_report:" in done.stdout, done.stdout[-2000:]
        assert not (tmp_path / name / "resources").exists()
    package = list((tmp_path / "repository/.snakemake/maieutic").glob("*/workflow/maieutic/cli.py"))
    assert len(package) == 1, "unpacked once, under its commit"


def test_the_standard_layout_runs_too(checkout: Path) -> None:
    """The catalogue's standardised usage calls `workflow/Snakefile`."""
    run_file = checkout / "mine.yaml"
    run_file.write_text(RUN_FILE, encoding="utf-8")
    done = run(checkout, run_file, "-n", "-s", "workflow/Snakefile")
    assert done.returncode == 0 and "rule build_report:" in done.stdout, done.stdout
