"""SIGKILL of the driver, of its server and of Snakemake in the middle of generation.

The server is the drills' own engine, which spawns a worker as vLLM does; vLLM itself is killed once.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from httpserver import completion, scripted, serving
from running import environment, overlay, run, start
from small import (
    NAME,
    PATIENCE,
    TABLES,
    alive,
    answered,
    children,
    configure,
    driver_pid,
    journal_keys,
    model_of,
    stub_of,
    until,
)

RUNS: list[int] = []  # Snakemake's pids


def begin(folder: Path, config: Path) -> subprocess.Popen[str]:
    """Start a run and note its pid."""
    process = start(folder, config)
    RUNS.append(process.pid)
    return process


def interrupt(folder: Path, config: Path, share: float, total: int, victim: Callable[[int, int], int]) -> list[int]:
    """Run until a share of all answers is on file, then SIGKILL the victim; gives the driver's descendants."""
    process = begin(folder, config)
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
    return next(
        pid for pid in children(driver) if b"maieutic.serving.engine" in Path(f"/proc/{pid}/cmdline").read_bytes()
    )


def left_behind() -> list[Path]:
    """Folders of sockets of the runs of this file."""
    return [path for pid in RUNS for path in Path("/tmp").glob(f"maieutic-{pid}-*")]


@pytest.fixture(scope="module")
def undisturbed(checkouts: Callable[[], Path]) -> Path:
    """The run that nothing happens to."""
    folder = checkouts()
    done = run(folder, configure(folder, stub_of(folder)))
    assert done.returncode == 0, done.stdout
    return folder


def test_a_run_killed_three_times_ends_as_if_nothing_had_happened(
    undisturbed: Path, checkouts: Callable[[], Path]
) -> None:
    total = len(journal_keys(undisturbed))
    assert total > 100 and answered(undisturbed) == total, "one request an answer"
    folder = checkouts()
    config = configure(folder, stub_of(folder))

    servers = interrupt(folder, config, 0.1, total, victim=lambda snakemake, driver: driver)
    assert len(servers) >= 2, "a server and its worker"
    until(lambda: not alive(servers), "the server and its workers die with their driver")
    known, counted = journal_keys(folder), answered(folder)
    assert not (folder / f"results/replies/mathtutorbench/{NAME}.jsonl").exists(), "no half output"

    interrupt(folder, config, 0.5, total, victim=server_of)
    assert journal_keys(folder)[: len(known)] == known, "what was answered stays"
    log = (folder / f"results/logs/generate_replies/mathtutorbench/{NAME}.log").read_text(encoding="utf-8")
    assert "the vLLM server ended with -9" in log and "Traceback" not in log

    # More time an answer, so that the orphan is at work when recover comes.
    slower = configure(folder, stub_of(folder, pace=0.4))
    servers = interrupt(folder, slower, 0.7, total, victim=lambda snakemake, driver: snakemake)
    refused = run(folder, config)
    assert refused.returncode != 0, "the orphan holds the lock"
    recovered = subprocess.run(
        ["make", "recover"], cwd=folder, env=environment(), capture_output=True, text=True, check=True
    )
    assert "ending the driver" in recovered.stderr + recovered.stdout
    until(lambda: not alive(servers), "the orphan's server dies with it")

    known, counted = journal_keys(folder), answered(folder)
    config = configure(folder, stub_of(folder))
    assert begin(folder, config).wait(PATIENCE) == 0, (folder / "snakemake.log").read_text(encoding="utf-8")
    until(lambda: not left_behind(), "keepers remove the folders of their runs")
    keys = journal_keys(folder)
    assert Counter(keys) == Counter(journal_keys(undisturbed)), "every answer once, none asked twice"
    assert answered(folder) - counted == total - len(set(known)), "the last server was asked for what was missing only"
    for name in TABLES:
        assert (folder / name).read_bytes() == (undisturbed / name).read_bytes(), name


def test_vllm_and_its_workers_die_with_their_driver(checkouts: Callable[[], Path], smollm2: Path) -> None:
    """The engine itself, with its core in a process of its own as on a GPU; what was answered is on file."""
    folder = checkouts()
    # Two at a time: of twelve answers in one batch the last one came with the third, and nothing was left to kill.
    model = model_of(smollm2, runtime_args=["--max-num-seqs", "2", "--distributed-executor-backend", "uni"])
    environment = {**model["environment"], "VLLM_ENABLE_V1_MULTIPROCESSING": "1"}
    config = configure(folder, {**model, "environment": environment}, tasks=["mathtutorbench/socratic_questioning"])
    process = start(folder, config)
    until(lambda: len(journal_keys(folder)) >= 3, "three answers")
    driver = driver_pid(folder)
    below = children(driver)
    assert len(below) >= 2 and alive(below) == below, "the server and its engine's core"
    os.kill(driver, signal.SIGKILL)
    assert process.wait(PATIENCE) != 0
    until(lambda: not alive(below), "the server and its workers die with their driver")
    assert 3 <= len(set(journal_keys(folder))) <= answered(folder)


def test_a_larger_limit_asks_the_new_items_only(checkouts: Callable[[], Path]) -> None:
    folder, server = checkouts(), scripted(lambda n, body: (200, completion("2"), {}))
    tasks = ["mathtutorbench/mistake_location", "mathtutorbench/solution_correctness"]

    def limited(limit: int, named: list[str]) -> Path:
        model = {"engine": "hosted", "model": "m", "base_url": f"{address}/v1"}
        return overlay(folder, {"models": {NAME: model}, "run": {"tutors": [NAME], "tasks": named, "limit": limit}})

    with serving(server) as address:
        assert run(folder, limited(4, tasks[:1])).returncode == 0
        assert len(server.requests) == len(journal_keys(folder)) == 4
        more = limited(6, tasks)
        assert run(folder, more).returncode == 0
        assert len(server.requests) == len(set(journal_keys(folder))) == 12, "2 new items of the old task, 6 of the new"
        pages = (folder / "results/report/scores.csv").read_bytes()
        # Every answer is in the journal now: nobody is asked, and the tables come out the same.
        shutil.rmtree(folder / "results/replies")
        replies = f"results/replies/mathtutorbench/{NAME}.jsonl"
        assert run(folder, more, "--forcerun", replies).returncode == 0
        assert (folder / replies).exists() and len(server.requests) == 12
        assert (folder / "results/report/scores.csv").read_bytes() == pages


@pytest.mark.parametrize("ctrl_c", [signal.default_int_handler, signal.SIG_IGN], ids=["foreground", "background"])
def test_sigterm_ends_the_driver_and_its_server(ctrl_c: Any, undisturbed: Path, checkouts: Callable[[], Path]) -> None:
    """A scheduler's time limit: SIGTERM to the job; nothing stays behind, what was answered is kept.

    What a script starts with `&` ignores Ctrl-C, and so do its children.
    """
    folder = checkouts()
    before = signal.signal(signal.SIGINT, ctrl_c)
    try:
        process = start(folder, configure(folder, stub_of(folder, pace=0.2, concurrency=4)))
    finally:
        signal.signal(signal.SIGINT, before)
    until(lambda: len(journal_keys(folder)) >= 3, "three answers")
    driver = driver_pid(folder)
    below = children(driver)
    folders = list(Path("/tmp").glob(f"maieutic-{process.pid}-*"))
    os.kill(driver, signal.SIGTERM)
    assert process.wait(PATIENCE) != 0
    assert not alive([driver])
    until(lambda: not alive(below), "the server ends with the run")
    assert len(folders) == 1
    until(lambda: not folders[0].exists(), "the sockets' folder is gone")
    log = (folder / f"results/logs/generate_replies/mathtutorbench/{NAME}.log").read_text(encoding="utf-8")
    assert "was interrupted; finished work is kept" in log
    assert "shutting down: requests in progress have 20 s to finish" in log
    assert len(journal_keys(folder)) == answered(folder) < 108, "what was asked is kept, and nothing else was asked"
