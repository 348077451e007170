"""A curation is killed repeatedly: the products stay byte-identical, and no finished request is repeated."""

from __future__ import annotations

import contextlib
import json
import os
import random
import shutil
import signal
import subprocess
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from curator import SEED, Curator, counting, curation, entries, seeded
from httpserver import serving
from running import overlay, run, start
from small import alive, until

SEEDS, KILLS = 12, 3  # KILLS: kills of each job that calls models
JOURNALED_STEPS = {  # final product of each job that calls models
    "make_components": "components.jsonl",
    "write_flows": "flows.jsonl",
    "write_dialogues": "dialogues.jsonl",
}
PRODUCTS = (
    "components.jsonl", "flows.jsonl", "flows.csv", "dialogues.jsonl", "figures.json", "sets/skills.jsonl",
    "sets/dialogues.jsonl", "sets/evaluation.json", "sets/training.jsonl", "sets/training.parquet",
    *(f"outcomes/{step}.jsonl" for step in JOURNALED_STEPS),
)  # fmt: skip
IN_FLIGHT = 5 * 64  # maximum number of requests in flight: five models with this concurrency each


def configure(folder: Path, address: str) -> Path:
    return overlay(
        folder,
        {
            "models": entries(address),
            "datasets": seeded(folder, counting(SEEDS)),
            "curations": curation(),
            "run": {"tutors": ["echo"], "tasks": ["mathtutorbench/problem_solving"], "seed": SEED},
        },
    )


def product(folder: Path, name: str) -> Path:
    return folder / "results/curation/c" / name


def journal(folder: Path, step: str) -> Path:
    return folder / f"results/journal/curation/c/{step}.jsonl"


def line_count(path: Path) -> int:
    return path.read_bytes().count(b"\n") if path.exists() else 0


def test_kills_at_random_moments_of_every_job_change_no_byte_and_ask_nothing_again(
    checkouts: Callable[[], Path],
) -> None:
    """Kill Snakemake and its job with SIGKILL, three times in each job that calls models."""
    script, undisturbed, killed = Curator(), checkouts(), checkouts()
    with serving(script.handler()) as address:
        done = run(undisturbed, configure(undisturbed, address), "curate")
        assert done.returncode == 0, done.stdout
        before = Counter(script.requests)
        assert set(before.values()) == {1}
        config = configure(killed, address)
        dice, kills = random.Random(1), 0
        for step in JOURNALED_STEPS:
            for _ in range(KILLS):
                more = dice.randint(1, 8)
                with script.answering(more):
                    kills += kill_within(killed, config, step, more)
            done = run(killed, config, f"results/curation/c/{JOURNALED_STEPS[step]}", "--rerun-incomplete")
            assert done.returncode == 0, done.stdout
        done = run(killed, config, "curate")
        assert done.returncode == 0, done.stdout
    for name in PRODUCTS:
        assert product(killed, name).read_bytes() == product(undisturbed, name).read_bytes(), name
    assert kills == KILLS * len(JOURNALED_STEPS), "no run ends before its kill"
    for step in JOURNALED_STEPS:
        keys = [json.loads(line)["key"] for line in journal(killed, step).read_text().splitlines() if line.strip()]
        assert len(set(keys)) == len(keys) == line_count(journal(undisturbed, step))
    after = script.requests - before
    assert set(after) == set(before), "the same requests"
    repeated = sum(count - 1 for count in after.values())
    print(f"{kills} kills, {len(before)} requests, {repeated} repeated")
    assert repeated <= kills * IN_FLIGHT and repeated < len(before) / 2


def kill_within(folder: Path, config: Path, step: str, more: int) -> bool:
    """Kill a run as soon as a job has `more` new answers. Return True if the run was still alive."""
    first = line_count(journal(folder, step))
    process = start(folder, config, f"results/curation/c/{JOURNALED_STEPS[step]}", "--rerun-incomplete")
    until(
        lambda: line_count(journal(folder, step)) >= first + more or process.poll() is not None,
        f"{more} answers of {step}",
    )
    was_alive = process.poll() is None
    kill_run(process, folder)
    shutil.rmtree(folder / ".snakemake/locks", ignore_errors=True)  # same effect as --unlock, which takes seconds
    return was_alive


def kill_run(process: subprocess.Popen[str], folder: Path) -> None:
    """Kill Snakemake and all processes that it started in a folder, and wait until they have ended."""
    process.send_signal(signal.SIGKILL)
    process.wait()
    killed = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            command_line = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            cwd = str((entry / "cwd").readlink())
        except OSError:
            continue
        if cwd == str(folder) and "maieutic" in command_line:
            killed.append(int(entry.name))
            with contextlib.suppress(ProcessLookupError):
                os.kill(killed[-1], signal.SIGKILL)
    until(lambda: not alive(killed), "the end of the job")
