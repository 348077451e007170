"""Tests of the workflow as the Snakemake catalogue deploys it: as a module in another folder, from a repository."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from running import NO_PAGE, SNAKEMAKE, environment

MODULE = """
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
    """Make a dry run in a new folder with a run file, and a Snakefile that imports the module."""
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


def test_snakedeploy_deploys_the_workflow(checkout: Path, tmp_path: Path) -> None:
    """The catalogue's command writes a Snakefile and the run file of the demo; only the source is replaced here."""
    (checkout / ".venv").unlink()  # it would be copied
    git = ["git", "-C", str(checkout), "-c", "user.name=a", "-c", "user.email=a@example.org"]
    for words in (["init", "-q"], ["add", "-A"], ["commit", "-qm", "all"]):
        subprocess.run([*git, *words], check=True, capture_output=True)
    commit = subprocess.run([*git, "rev-parse", "HEAD"], check=True, capture_output=True, text=True).stdout.strip()
    deployed = tmp_path / "deployed"
    deploy = [str(SNAKEMAKE.with_name("snakedeploy")), "deploy-workflow", str(checkout), str(deployed), "--tag", "v1"]
    done = subprocess.run(deploy, text=True, capture_output=True, env=environment())
    assert done.returncode == 0, done.stdout + done.stderr
    snakefile = deployed / "workflow/Snakefile"
    source = f'gitfile("{checkout}", path="workflow/Snakefile", commit="{commit}")'
    text, number = re.subn(r"(snakefile:\s+).*", lambda match: match[1] + source, snakefile.read_text(encoding="utf-8"))
    assert number == 1 and 'configfile: "config/config.yaml"' in text
    snakefile.write_text(text, encoding="utf-8")
    env = {**environment(), "PYTHONPATH": str(checkout / "workflow/plugin")}  # as an installed package has the plugin
    line = [str(SNAKEMAKE), "--cores", "1", "-n"]
    done = subprocess.run(line, cwd=deployed, text=True, capture_output=True, env=env)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "build_report" in done.stdout + done.stderr and "new requests: " in done.stdout
    assert not (deployed / "resources").exists()


DOORS = {
    "the Snakefile of a checkout": (["-s", "{checkout}/Snakefile"], "{place}"),
    "the rules of a checkout": (["-s", "{checkout}/workflow/Snakefile"], "{place}"),
    "another folder for the results": (["--directory", "{place}"], "{checkout}"),
}


@pytest.mark.parametrize("door", DOORS)
def test_a_run_starts_from_any_folder(door: str, checkout: Path, tmp_path: Path) -> None:
    """Everything that a run writes is in the working folder, and the checkout is unchanged."""
    place = tmp_path / "elsewhere"
    place.mkdir()
    (place / "mine.yaml").write_text(RUN_FILE, encoding="utf-8")
    before = {path for path in checkout.rglob("*") if "__pycache__" not in path.parts}
    words, folder = DOORS[door]
    line = [str(SNAKEMAKE), "--cores", "2", *words, "--configfile", str(place / "mine.yaml"), *NO_PAGE]
    done = subprocess.run(
        [word.format(checkout=checkout, place=place) for word in line],
        cwd=folder.format(checkout=checkout, place=place), text=True, capture_output=True, env=environment(),
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert (place / "results/scores/mathtutorbench/echo.json").is_file()
    after = {path for path in checkout.rglob("*") if not {"__pycache__", ".snakemake"} & {*path.parts}}
    assert after <= before, "nothing is written into the checkout"


def test_a_command_starts_a_run_and_a_users_entries_win(checkout: Path, tmp_path: Path) -> None:
    """`maieutic run` in a folder with a registry, of which one entry replaces a shipped one."""
    (tmp_path / "config").mkdir()
    echo = {"engine": "baseline", "tutor": "echo"}
    models = {"echo": {**echo, "label": "My echo"}, "mine": echo}
    (tmp_path / "config/models.yaml").write_text(yaml.safe_dump({"models": models}), encoding="utf-8")
    (tmp_path / "mine.yaml").write_text(RUN_FILE.replace("[echo]", "[echo, mine]"), encoding="utf-8")
    env = {**environment(), "PYTHONPATH": str(checkout / "workflow")}
    line = [sys.executable, "-m", "maieutic", "run", "mine.yaml", "--cores", "2", *NO_PAGE]
    done = subprocess.run(line, cwd=tmp_path, env=env, text=True, capture_output=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "config/models.yaml replaces models.echo" in done.stderr + done.stdout
    assert "config/models.yaml adds models.mine" in done.stderr + done.stdout
    assert (tmp_path / "results/scores/mathtutorbench/mine.json").is_file()
