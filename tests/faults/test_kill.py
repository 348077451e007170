"""SIGKILL of the driver, of its server and of Snakemake in the middle of generation.

Most tests use the drills' stub engine, which spawns a worker as vLLM does. One test kills vLLM itself.
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

SNAKEMAKE_PIDS: list[int] = []  # Snakemake processes of the runs that `begin` started


def begin(folder: Path, config: Path) -> subprocess.Popen[str]:
    """Start a run and note its pid."""
    process = start(folder, config)
    SNAKEMAKE_PIDS.append(process.pid)
    return process


def interrupt(folder: Path, config: Path, share: float, total: int, victim: Callable[[int, int], int]) -> list[int]:
    """Kill the victim when a share of all answers is in the journal. Return the pids of the driver's descendants."""
    process = begin(folder, config)
    until(lambda: len(journal_keys(folder)) >= share * total, f"{share:.0%} of {total} answers")
    driver = driver_pid(folder)
    below = children(driver)
    target = victim(process.pid, driver)
    os.kill(target, signal.SIGKILL)
    assert process.wait(PATIENCE) != 0
    if target == process.pid:
        until(lambda: not alive([driver]), "the end of the driver, which watches Snakemake")
    return below


def server_of(snakemake: int, driver: int) -> int:
    return next(
        pid for pid in children(driver) if b"maieutic.serving.engine" in Path(f"/proc/{pid}/cmdline").read_bytes()
    )


def socket_folders() -> list[Path]:
    """Return the existing folders of sockets of the runs that `begin` started."""
    return [path for pid in SNAKEMAKE_PIDS for path in Path("/tmp").glob(f"maieutic-{pid}-*")]


@pytest.fixture(scope="module")
def undisturbed(checkouts: Callable[[], Path]) -> Path:
    """Return a checkout with a finished run without kills."""
    folder = checkouts()
    done = run(folder, configure(folder, stub_of(folder)))
    assert done.returncode == 0, done.stdout
    return folder


def test_a_run_killed_three_times_ends_as_if_nothing_had_happened(
    undisturbed: Path, checkouts: Callable[[], Path]
) -> None:
    total = len(journal_keys(undisturbed))
    assert total > 100 and answered(undisturbed) == total, "one request per answer"
    folder = checkouts()
    config = configure(folder, stub_of(folder))

    servers = interrupt(folder, config, 0.1, total, victim=lambda snakemake, driver: driver)
    assert len(servers) >= 2, "a server and its worker"
    until(lambda: not alive(servers), "the end of the server and its workers with their driver")
    known, counted = journal_keys(folder), answered(folder)
    assert not (folder / f"results/replies/mathtutorbench/{NAME}.jsonl").exists(), "no partial output"

    interrupt(folder, config, 0.5, total, victim=server_of)
    assert journal_keys(folder)[: len(known)] == known, "answers stay in the journal"
    log = (folder / f"results/logs/generate_replies/mathtutorbench/{NAME}.log").read_text(encoding="utf-8")
    assert "the vLLM server ended with exit code -9" in log and "Traceback" not in log

    # Answers take longer, so that requests are in flight at the kill.
    slower = configure(folder, stub_of(folder, pace=0.4))
    servers = interrupt(folder, slower, 0.7, total, victim=lambda snakemake, driver: snakemake)
    until(lambda: not alive(servers), "the end of the driver's server")
    refused = run(folder, config)
    assert refused.returncode != 0, "Snakemake's own lock is left"
    subprocess.run(["make", "recover"], cwd=folder, env=environment(), capture_output=True, text=True, check=True)

    known, counted = journal_keys(folder), answered(folder)
    config = configure(folder, stub_of(folder))
    assert begin(folder, config).wait(PATIENCE) == 0, (folder / "snakemake.log").read_text(encoding="utf-8")
    until(lambda: not socket_folders(), "the removal of the runs' socket folders")
    keys = journal_keys(folder)
    assert Counter(keys) == Counter(journal_keys(undisturbed)), "every answer once, and no request repeated"
    assert answered(folder) - counted == total - len(set(known)), "the last server received only the missing requests"
    for name in TABLES:
        assert (folder / name).read_bytes() == (undisturbed / name).read_bytes(), name


def test_vllm_and_its_workers_die_with_their_driver(checkouts: Callable[[], Path], smollm2: Path) -> None:
    """Kill the driver of a real vLLM, whose engine core is a separate process as on a GPU. Answers stay on file."""
    folder = checkouts()
    # Two sequences at a time: in one batch all twelve answers arrive together, and no request is left at the kill.
    model = model_of(smollm2, runtime_args=["--max-num-seqs", "2", "--distributed-executor-backend", "uni"])
    variables = {**model["environment"], "VLLM_ENABLE_V1_MULTIPROCESSING": "1"}
    config = configure(folder, {**model, "environment": variables}, tasks=["mathtutorbench/socratic_questioning"])
    process = start(folder, config)
    until(lambda: len(journal_keys(folder)) >= 3, "three answers")
    driver = driver_pid(folder)
    below = children(driver)
    assert len(below) >= 2 and alive(below) == below, "the server and its engine core"
    os.kill(driver, signal.SIGKILL)
    assert process.wait(PATIENCE) != 0
    until(lambda: not alive(below), "the end of the server and its workers with their driver")
    assert 3 <= len(set(journal_keys(folder))) <= answered(folder)


def test_a_larger_limit_asks_the_new_items_only(checkouts: Callable[[], Path]) -> None:
    folder, server = checkouts(), scripted(lambda n, body: (200, completion("2"), {}))
    tasks = ["mathtutorbench/mistake_location", "mathtutorbench/solution_correctness"]

    def limited(limit: int, tasks: list[str]) -> Path:
        model = {"engine": "hosted", "model": "m", "base_url": f"{address}/v1"}
        return overlay(folder, {"models": {NAME: model}, "run": {"tutors": [NAME], "tasks": tasks, "limit": limit}})

    with serving(server) as address:
        assert run(folder, limited(4, tasks[:1])).returncode == 0
        assert len(server.requests) == len(journal_keys(folder)) == 4
        more = limited(6, tasks)
        assert run(folder, more).returncode == 0
        assert len(server.requests) == len(set(journal_keys(folder))) == 12, "2 new items of the old task, 6 of the new"
        scores = (folder / "results/report/scores.csv").read_bytes()
        # Every answer is in the journal now, so no request is sent, and the tables stay the same.
        shutil.rmtree(folder / "results/replies")
        replies = f"results/replies/mathtutorbench/{NAME}.jsonl"
        assert run(folder, more, "--forcerun", replies).returncode == 0
        assert (folder / replies).exists() and len(server.requests) == 12
        assert (folder / "results/report/scores.csv").read_bytes() == scores


@pytest.mark.parametrize("ctrl_c", [signal.default_int_handler, signal.SIG_IGN], ids=["foreground", "background"])
def test_sigterm_ends_the_driver_and_its_server(ctrl_c: Any, undisturbed: Path, checkouts: Callable[[], Path]) -> None:
    """A scheduler sends SIGTERM to a job at its time limit: no process stays, and the answers are kept.

    Processes that a script starts with `&` ignore Ctrl-C, and so do their children.
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
    until(lambda: not alive(below), "the end of the server")
    assert len(folders) == 1
    until(lambda: not folders[0].exists(), "the removal of the socket folder")
    log = (folder / f"results/logs/generate_replies/mathtutorbench/{NAME}.log").read_text(encoding="utf-8")
    assert "was interrupted; finished work is kept" in log
    assert "shutting down: requests in progress have 20 s to finish" in log
    assert len(journal_keys(folder)) == answered(folder) < 108, "all answers are kept, and no further request was sent"
