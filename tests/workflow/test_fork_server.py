"""What stands for an interpreter in tests behaves as one: words, streams, exit codes, signals, and an end in time."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import fork_server
import pytest
from running import SNAKEMAKE, environment

MODULE = """
import json, os, signal, sys, time
kind, *words = sys.argv[1:]
print(json.dumps([words, os.getcwd(), os.environ.get("OURS"), sys.stdin.read() if kind == "reads" else None, __name__]))
print("aside", file=sys.stderr)
if kind == "killed":
    os.kill(os.getpid(), signal.SIGKILL)
if kind == "raises":
    raise ValueError("no")
if kind == "sleeps":
    print(os.getpid(), flush=True)
    time.sleep(60)
sys.exit({"words": "some words", "none": None}.get(kind, 0 if kind == "reads" else 7))
"""


@pytest.fixture
def line(tmp_path: Path) -> list[str]:
    """A call of a module of the test's own."""
    (tmp_path / "told.py").write_text(MODULE, encoding="utf-8")
    return [str(fork_server.script_of("driver", Path(os.environ[fork_server.FOLDER]))), "-m", "told"]


@pytest.mark.parametrize(
    ("kind", "code"), [("reads", 0), ("other", 7), ("none", 0), ("words", 1), ("raises", 1), ("killed", -9)]
)
def test_a_fork_ends_as_the_interpreter_does(kind: str, code: int, line: list[str], tmp_path: Path) -> None:
    around = {**environment(), "OURS": "ä b", "PYTHONPATH": str(tmp_path)}
    for start in (line, [sys.executable, *line[1:]]):
        done = subprocess.run(
            [*start, kind, "a b", "ä"], input="given", cwd=tmp_path, env=around, capture_output=True, text=True
        )
        assert (done.returncode == code and done.stderr.startswith("aside")) or kind == "killed"
        if kind != "killed":  # which leaves what was not written yet
            given = "given" if kind == "reads" else None
            assert json.loads(done.stdout) == [["a b", "ä"], str(tmp_path), "ä b", given, "__main__"]
        assert ("ValueError: no" in done.stderr) is (kind == "raises") and ("some words" in done.stderr) is (
            kind == "words"
        )
        assert done.returncode == code


def test_what_is_no_module_is_the_interpreters(line: list[str]) -> None:
    done = subprocess.run([line[0], "-c", "import sys; print(sys.executable)"], capture_output=True, text=True)
    assert done.stdout.strip() == sys.executable


def test_large_orders_arrive(line: list[str], tmp_path: Path) -> None:
    """More than a socket takes at once."""
    words = ["x" * 100_000] * 9
    around = {**environment(), "PYTHONPATH": str(tmp_path)}
    done = subprocess.run([*line, "none", *words], cwd=tmp_path, env=around, capture_output=True, text=True)
    assert json.loads(done.stdout)[0] == words


def test_a_fork_ends_with_its_caller(line: list[str], tmp_path: Path) -> None:
    around = {**environment(), "PYTHONPATH": str(tmp_path)}
    caller = subprocess.Popen([*line, "sleeps"], cwd=tmp_path, env=around, stdout=subprocess.PIPE, text=True)
    assert caller.stdout is not None
    caller.stdout.readline()
    fork = int(caller.stdout.readline())
    os.kill(fork, 0)
    caller.send_signal(signal.SIGKILL)
    caller.wait()
    until = time.monotonic() + 20
    while Path(f"/proc/{fork}").exists():
        assert time.monotonic() < until, "it works on for nobody"
        time.sleep(0.05)


def test_snakemake_is_called_in_its_folder(tmp_path: Path) -> None:
    (tmp_path / "Snakefile").write_text(
        'rule all:\n    output: "out.txt"\n    shell: "echo $OURS > {output}"\n', encoding="utf-8"
    )
    words = [str(SNAKEMAKE), "--cores", "1"]
    for forks in (False, True):
        done = fork_server.call([*words, "--nonsense"], tmp_path, environment(), False)
        assert done is not None and done.returncode != 0 and "nonsense" in done.stdout
        done = fork_server.call([*words, "--force"], tmp_path, {**environment(), "OURS": f"ä {forks}"}, forks)
        assert done is not None and done.returncode == 0 and "rule all" in done.stdout
        assert (tmp_path / "out.txt").read_text(encoding="utf-8") == f"ä {forks}\n"


def test_without_servers_everything_is_started(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv(fork_server.FOLDER)
    assert fork_server.call([str(SNAKEMAKE), "--version"], tmp_path, environment(), True) is None
