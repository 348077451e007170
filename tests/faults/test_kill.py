"""Drills 1 and 2, for real: SIGKILL of the driver, of the vLLM server and of Snakemake in the middle of generation."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from running import environment, overlay, run, start

NAME = "small"
JOURNAL = f"results/journal/replies/mathtutorbench/{NAME}.jsonl"
LOCK = f"results/journal/replies/mathtutorbench/{NAME}.lock"
SERVER_LOG = f"results/logs/serve/mathtutorbench/{NAME}.log"
TABLES = ("results/report/scores.csv", "results/report/scores.parquet", f"results/scores/mathtutorbench/{NAME}.json")
ANSWERED = re.compile(r'"POST /v1/completions HTTP/1.1" 200')
PATIENCE = 240.0


def configure(folder: Path, weights: Path, **run_keys: object) -> Path:
    """The demo with its real model, from weights that are converted already."""
    model = {
        "engine": "vllm",
        "weights": {"path": str(weights)},
        "dtype": "float32",
        "max_model_len": 4096,
        "engine_args": ["--enforce-eager"],
        "runtime_args": ["--max-num-seqs", "16"],
        "environment": {"VLLM_CPU_KVCACHE_SPACE": "1", "VLLM_CPU_OMP_THREADS_BIND": "nobind", "OMP_NUM_THREADS": "1"},
        "needs": {"cpus": 1, "mem_mb": 4000},
    }
    keys = {"tutors": [NAME], "max_tokens": 16, **run_keys}
    return overlay(folder, {"models": {NAME: model}, "run": keys})


def journal_keys(folder: Path) -> list[str]:
    """The keys of the whole lines of the journal."""
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
    """Requests that the server itself counted as answered, over all its lives."""
    path = folder / SERVER_LOG
    return len(ANSWERED.findall(path.read_text(encoding="utf-8", errors="replace"))) if path.exists() else 0


def until(condition: Callable[[], bool], what: str) -> None:
    end = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < end, f"waited in vain: {what}"
        time.sleep(0.02)


def driver_pid(folder: Path) -> int:
    """The driver's pid, from the lock that it holds."""
    return int((folder / LOCK).read_text(encoding="utf-8").split()[-1])


def children(pid: int) -> list[int]:
    """All descendants of a process."""
    listed = subprocess.run(["ps", "-eo", "pid=,ppid="], capture_output=True, text=True, check=True).stdout
    below: dict[int, list[int]] = {}
    for line in listed.splitlines():
        child, parent = map(int, line.split())
        below.setdefault(parent, []).append(child)
    found, queue = [], [pid]
    while queue:
        for child in below.get(queue.pop(), []):
            found.append(child)
            queue.append(child)
    return found


def alive(pids: list[int]) -> list[int]:
    """Those that still run (a zombie does not)."""

    def runs(pid: int) -> bool:
        try:
            return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rsplit(")", 1)[1].split()[0] != "Z"
        except (FileNotFoundError, ProcessLookupError):
            return False

    return [pid for pid in pids if runs(pid)]


def interrupt(folder: Path, config: Path, share: float, total: int, victim: Callable[[int, int], int]) -> list[int]:
    """Run until a share of all answers is on file, then SIGKILL the victim; gives the driver's descendants."""
    process = start(folder, config)
    until(lambda: len(journal_keys(folder)) >= share * total, f"{share:.0%} of {total} answers")
    driver = driver_pid(folder)
    below = children(driver)
    target = victim(process.pid, driver)
    os.kill(target, signal.SIGKILL)
    assert process.wait(PATIENCE) != 0
    if target == process.pid:
        assert alive([driver]), "the driver outlives Snakemake: recover is for that"
    return below


def server_of(snakemake: int, driver: int) -> int:
    return next(pid for pid in children(driver) if b"maieutic.engine" in Path(f"/proc/{pid}/cmdline").read_bytes())


@pytest.fixture(scope="module")
def undisturbed(checkouts: Callable[[], Path], smollm2: Path) -> Path:
    """The run that nothing happens to."""
    folder = checkouts()
    done = run(folder, configure(folder, smollm2))
    assert done.returncode == 0, done.stdout
    return folder


def test_a_run_killed_three_times_ends_as_if_nothing_had_happened(
    undisturbed: Path, checkouts: Callable[[], Path], smollm2: Path
) -> None:
    total = len(journal_keys(undisturbed))
    assert total > 100 and answered(undisturbed) == total, "one request an answer"
    folder = checkouts()
    config = configure(folder, smollm2)

    servers = interrupt(folder, config, 0.1, total, victim=lambda snakemake, driver: driver)
    until(lambda: not alive(servers), "the server and its workers die with their driver")
    known, counted = journal_keys(folder), answered(folder)
    assert not (folder / f"results/replies/mathtutorbench/{NAME}.jsonl").exists(), "no half output"

    interrupt(folder, config, 0.5, total, victim=server_of)
    assert journal_keys(folder)[: len(known)] == known, "what was answered stays"
    log = (folder / f"results/logs/generate_replies/mathtutorbench/{NAME}.log").read_text(encoding="utf-8")
    assert "the vLLM server ended with -9" in log and "Traceback" not in log

    servers = interrupt(folder, config, 0.7, total, victim=lambda snakemake, driver: snakemake)
    refused = run(folder, config)
    assert refused.returncode != 0, "the orphan holds the lock"
    recovered = subprocess.run(
        ["make", "recover"], cwd=folder, env=environment(), capture_output=True, text=True, check=True
    )
    assert "ending the driver" in recovered.stderr + recovered.stdout
    until(lambda: not alive(servers), "the orphan's server dies with it")

    known, counted = journal_keys(folder), answered(folder)
    done = run(folder, config)
    assert done.returncode == 0, done.stdout
    left = [path for path in Path("/tmp").glob("maieutic-*-*") if not Path(f"/proc/{path.name.split('-')[1]}").exists()]
    assert left == [], "the next server's start sweeps up after killed drivers"
    keys = journal_keys(folder)
    assert Counter(keys) == Counter(journal_keys(undisturbed)), "every answer once, none asked twice"
    assert answered(folder) - counted == total - len(set(known)), "the last server was asked for what was missing only"
    for name in TABLES:
        assert (folder / name).read_bytes() == (undisturbed / name).read_bytes(), name


def test_a_larger_limit_asks_the_new_items_only(checkouts: Callable[[], Path], smollm2: Path) -> None:
    folder = checkouts()
    tasks = ["mathtutorbench/mistake_location", "mathtutorbench/solution_correctness"]
    few = configure(folder, smollm2, limit=4, tasks=tasks[:1])
    assert run(folder, few).returncode == 0
    assert answered(folder) == len(journal_keys(folder)) == 4
    more = configure(folder, smollm2, limit=6, tasks=tasks)
    assert run(folder, more).returncode == 0
    assert answered(folder) == len(set(journal_keys(folder))) == 12, "2 new items of the old task, 6 of the new one"
    pages = (folder / "results/report/scores.csv").read_bytes()
    # Every answer is in the journal now: no server starts, and the tables come out the same.
    shutil.rmtree(folder / "results/replies")
    replies = f"results/replies/mathtutorbench/{NAME}.jsonl"
    size = (folder / SERVER_LOG).stat().st_size
    assert run(folder, more, "--forcerun", replies).returncode == 0
    assert (folder / replies).exists()
    assert (folder / SERVER_LOG).stat().st_size == size and answered(folder) == 12
    assert (folder / "results/report/scores.csv").read_bytes() == pages


def test_sigterm_ends_the_driver_and_its_server(
    undisturbed: Path, checkouts: Callable[[], Path], smollm2: Path
) -> None:
    """A scheduler's time limit: SIGTERM to the job; nothing stays behind, what was answered is kept."""
    folder = checkouts()
    process = start(folder, configure(folder, smollm2))
    until(lambda: len(journal_keys(folder)) >= 3, "three answers")
    driver = driver_pid(folder)
    below = children(driver)
    folders = list(Path("/tmp").glob(f"maieutic-{driver}-*"))
    os.kill(driver, signal.SIGTERM)
    assert process.wait(PATIENCE) != 0
    assert not alive([driver, *below])
    assert len(folders) == 1 and not folders[0].exists(), "the socket's folder is gone"
    log = (folder / f"results/logs/generate_replies/mathtutorbench/{NAME}.log").read_text(encoding="utf-8")
    assert "was interrupted; what was finished is kept" in log
