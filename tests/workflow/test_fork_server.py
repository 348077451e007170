"""Tests of fork servers: a fork has an interpreter's arguments, streams, exit code and signals, and ends in time."""

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
def command(tmp_path: Path) -> list[str]:
    """Return the command that runs MODULE in a fork."""
    (tmp_path / "told.py").write_text(MODULE, encoding="utf-8")
    return [str(fork_server.script_of("driver", Path(os.environ[fork_server.FOLDER]))), "-m", "told"]


@pytest.mark.parametrize(
    ("kind", "code"), [("reads", 0), ("other", 7), ("none", 0), ("words", 1), ("raises", 1), ("killed", -9)]
)
def test_a_fork_ends_as_the_interpreter_does(kind: str, code: int, command: list[str], tmp_path: Path) -> None:
    env = {**environment(), "OURS": "ä b", "PYTHONPATH": str(tmp_path)}
    for interpreter in (command, [sys.executable, *command[1:]]):
        done = subprocess.run(
            [*interpreter, kind, "a b", "ä"], input="given", cwd=tmp_path, env=env, capture_output=True, text=True
        )
        assert (done.returncode == code and done.stderr.startswith("aside")) or kind == "killed"
        if kind != "killed":  # a killed process loses its buffered output
            stdin = "given" if kind == "reads" else None
            assert json.loads(done.stdout) == [["a b", "ä"], str(tmp_path), "ä b", stdin, "__main__"]
        assert ("ValueError: no" in done.stderr) is (kind == "raises") and ("some words" in done.stderr) is (
            kind == "words"
        )
        assert done.returncode == code


def test_a_call_without_a_module_reaches_the_interpreter(command: list[str]) -> None:
    done = subprocess.run([command[0], "-c", "import sys; print(sys.executable)"], capture_output=True, text=True)
    assert done.stdout.strip() == sys.executable


def test_long_arguments_arrive(command: list[str], tmp_path: Path) -> None:
    """The arguments are larger than a socket's buffer."""
    args = ["x" * 100_000] * 9
    env = {**environment(), "PYTHONPATH": str(tmp_path)}
    done = subprocess.run([*command, "none", *args], cwd=tmp_path, env=env, capture_output=True, text=True)
    assert json.loads(done.stdout)[0] == args


def test_a_fork_ends_with_its_caller(command: list[str], tmp_path: Path) -> None:
    env = {**environment(), "PYTHONPATH": str(tmp_path)}
    caller = subprocess.Popen([*command, "sleeps"], cwd=tmp_path, env=env, stdout=subprocess.PIPE, text=True)
    assert caller.stdout is not None
    caller.stdout.readline()
    fork = int(caller.stdout.readline())
    os.kill(fork, 0)
    caller.send_signal(signal.SIGKILL)
    caller.wait()
    until = time.monotonic() + 20
    while Path(f"/proc/{fork}").exists():
        assert time.monotonic() < until, "the fork still runs without its caller"
        time.sleep(0.05)


def test_snakemake_is_called_in_its_folder(tmp_path: Path) -> None:
    (tmp_path / "Snakefile").write_text(
        'rule all:\n    output: "out.txt"\n    shell: "echo $OURS > {output}"\n', encoding="utf-8"
    )
    command = [str(SNAKEMAKE), "--cores", "1"]
    for forks in (False, True):
        done = fork_server.call([*command, "--nonsense"], tmp_path, environment(), False)
        assert done is not None and done.returncode != 0 and "nonsense" in done.stdout
        done = fork_server.call([*command, "--force"], tmp_path, {**environment(), "OURS": f"ä {forks}"}, forks)
        assert done is not None and done.returncode == 0 and "rule all" in done.stdout
        assert (tmp_path / "out.txt").read_text(encoding="utf-8") == f"ä {forks}\n"


def test_without_servers_a_call_returns_none(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv(fork_server.FOLDER)
    assert fork_server.call([str(SNAKEMAKE), "--version"], tmp_path, environment(), True) is None
