"""The workflow in another folder, as the catalogue deploys it: as a module, from a repository."""

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
MINE = "edition: demo\nrun: {tutors: [echo], tasks: [mathtutorbench/problem_solving]}\n"


def deployed(folder: Path, checkout: Path, source: str) -> subprocess.CompletedProcess[str]:
    """A dry run in an empty folder that has the registries, a run file, and a Snakefile of one module."""
    (folder / "workflow").mkdir(parents=True)
    shutil.copytree(checkout / "config", folder / "config")
    (folder / "config/mine.yaml").write_text(MINE, encoding="utf-8")
    (folder / "workflow/Snakefile").write_text(MODULE.format(source=source), encoding="utf-8")
    line = [str(SNAKEMAKE), "--cores", "1", "-n"]
    return subprocess.run(line, cwd=folder, text=True, capture_output=True, env=environment())


def test_it_is_deployed_from_a_repository_and_from_a_checkout(checkout: Path, tmp_path: Path) -> None:
    """Cards, prompts and the package hold when the working directory is another one."""
    git = ["git", "-C", str(checkout), "-c", "user.name=a", "-c", "user.email=a@example.org"]
    for words in (["init", "-q"], ["add", "-A"], ["commit", "-qm", "all"], ["tag", "v1"]):
        subprocess.run([*git, *words], check=True, capture_output=True)
    sources = {
        "repository": f"git+file://{checkout}/workflow/Snakefile@v1",
        "folder": str(checkout / "workflow/Snakefile"),
    }
    for name, source in sources.items():
        done = deployed(tmp_path / name, checkout, source)
        assert done.returncode == 0, done.stdout + done.stderr
        assert "rule maieutic_build_report:" in done.stdout or "rule build_report:" in done.stdout, done.stdout[-2000:]
        assert not (tmp_path / name / "resources").exists()
    package = list((tmp_path / "repository/.snakemake/maieutic").glob("*/workflow/maieutic/cli.py"))
    assert len(package) == 1, "unpacked once, under its commit"


def test_the_standard_layout_runs_too(checkout: Path) -> None:
    """`workflow/Snakefile`, as the catalogue's standardised usage has it."""
    mine = checkout / "mine.yaml"
    mine.write_text(MINE, encoding="utf-8")
    done = run(checkout, mine, "-n", "-s", "workflow/Snakefile")
    assert done.returncode == 0 and "rule build_report:" in done.stdout, done.stdout
