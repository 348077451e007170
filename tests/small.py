"""Runs with a small real model or the drills' stub engine, and functions that observe a run from outside."""

from __future__ import annotations

import json
import re
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from running import overlay

NAME = "small"
JOURNAL = f"results/journal/replies/mathtutorbench/{NAME}.jsonl"
LOCK = f"results/journal/replies/mathtutorbench/{NAME}.lock"
SERVER_LOG = f"results/logs/serve/mathtutorbench/{NAME}.log"
TABLES = ("results/report/scores.csv", "results/report/scores.parquet", f"results/scores/mathtutorbench/{NAME}.json")
ANSWERED = re.compile(r'"POST /v1/completions HTTP/1.1" 200')
PATIENCE = 240.0


def model_of(weights: Path, **more: Any) -> dict[str, Any]:
    """Return a registry entry for the demo's real model with converted weights."""
    return {
        "engine": "vllm", "weights": {"path": str(weights)}, "dtype": "float32", "max_model_len": 4096,
        "engine_args": ["--enforce-eager"],
        "runtime_args": ["--max-num-seqs", "16", "--distributed-executor-backend", "uni"],
        "environment": {
            "VLLM_CPU_KVCACHE_SPACE": "1", "VLLM_CPU_OMP_THREADS_BIND": "nobind", "OMP_NUM_THREADS": "1",
            "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
        },
        "needs": {"cpus": 1, "mem_mb": 4000},
        **more,
    }  # fmt: skip


def stub_of(folder: Path, pace: float = 0.02, **more: Any) -> dict[str, Any]:
    """Return a registry entry for the drills' stub engine: no weights, `pace` seconds per answer, a separate worker.

    folder: folder for placeholder files of the weights.
    """
    weights = folder / "stub"
    weights.mkdir(exist_ok=True)
    (weights / "model.safetensors").write_bytes((2).to_bytes(8, "little") + b"{}")
    # With a template, conversations use the chat endpoint.
    (weights / "chat_template.jinja").write_text("{{ messages }}", encoding="utf-8")
    return model_of(weights, **{"runtime_args": ["--pace", str(pace)], "environment": {}, **more})


def graders_of(weights: Path) -> dict[str, dict[str, Any]]:
    """Return entries for a reward model with a random head and for its base, which need every step except training."""
    needs = {"cpus": 1, "mem_mb": 1000, "runtime": 10}
    return {
        "tiny": {"engine": "weights", "weights": {"path": str(weights)}, "needs": needs},
        "tiny-rm": {"engine": "reward", "train": {"base": "tiny", "mix": {}}, "needs": needs},
    }


def configure(folder: Path, model: dict[str, Any], **run_keys: object) -> Path:
    """Write the run file of the demo with one model, a registry entry."""
    keys = {"tutors": [NAME], "max_tokens": 16, **run_keys}
    return overlay(folder, {"models": {NAME: model}, "run": keys})


def journal_keys(folder: Path) -> list[str]:
    """Return the keys of the complete lines of the journal."""
    path = folder / JOURNAL
    if not path.exists():
        return []
    whole = [line for line in path.read_bytes().split(b"\n")[:-1] if line.strip()]
    keys = []
    for line in whole:
        try:
            keys.append(json.loads(line)["key"])
        except ValueError:
            continue
    return keys


def answered(folder: Path) -> int:
    """Return the number of answered requests in the server's log, over all its starts."""
    path = folder / SERVER_LOG
    return len(ANSWERED.findall(path.read_text(encoding="utf-8", errors="replace"))) if path.exists() else 0


def until(condition: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline, f"waited in vain: {what}"
        time.sleep(0.02)


def wait_for(process: subprocess.Popen, log: Path, ready: Callable[[], bool]) -> None:
    """Wait until `ready` returns True. Fail if the process ends before."""
    until = time.monotonic() + PATIENCE
    while not ready() and time.monotonic() < until:
        assert process.poll() is None, log.read_text()
        time.sleep(0.02)


def driver_pid(folder: Path) -> int:
    """Return the driver's pid, read from its lock file."""
    return int((folder / LOCK).read_text(encoding="utf-8").split()[-1])


def children(pid: int) -> list[int]:
    """Return the pids of all descendants of a process."""
    output = subprocess.run(["ps", "-eo", "pid=,ppid="], capture_output=True, text=True, check=True).stdout
    children_of: dict[int, list[int]] = {}
    for line in output.splitlines():
        child, parent = map(int, line.split())
        children_of.setdefault(parent, []).append(child)
    pids, queue = [], [pid]
    while queue:
        for child in children_of.get(queue.pop(), []):
            pids.append(child)
            queue.append(child)
    return pids


def alive(pids: list[int]) -> list[int]:
    """Return those of `pids` whose processes are running. Zombies do not count."""

    def runs(pid: int) -> bool:
        try:
            return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rsplit(")", 1)[1].split()[0] != "Z"
        except (FileNotFoundError, ProcessLookupError):
            return False

    return [pid for pid in pids if runs(pid)]
