"""A curation that is killed again and again: products to the byte, and nothing asked twice."""

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

SEEDS, KILLS = 12, 3  # kills of each job that asks
ASKING = {
    "make_components": "components.jsonl",
    "write_flows": "flows.jsonl",
    "write_dialogues": "dialogues.jsonl",
}
PRODUCTS = (
    "components.jsonl", "flows.jsonl", "flows.csv", "dialogues.jsonl", "figures.json", "sets/skills.jsonl",
    "sets/dialogues.jsonl", "sets/evaluation.json", "sets/training.jsonl", "sets/training.parquet",
    *(f"outcomes/{step}.jsonl" for step in ASKING),
)  # fmt: skip
IN_FLIGHT = 5 * 64  # requests: five models, the concurrency of each


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


def lines(path: Path) -> int:
    return path.read_bytes().count(b"\n") if path.exists() else 0


def test_kills_at_random_moments_of_every_job_change_no_byte_and_ask_nothing_again(
    checkouts: Callable[[], Path],
) -> None:
    """SIGKILL of Snakemake and of its job, three times in each job that asks models."""
    script, calm, killed = Curator(), checkouts(), checkouts()
    with serving(script.handler()) as address:
        done = run(calm, configure(calm, address), "curate")
        assert done.returncode == 0, done.stdout
        before = Counter(script.requests)
        assert set(before.values()) == {1}
        config = configure(killed, address)
        draw, kills = random.Random(1), 0
        for step in ASKING:
            for _ in range(KILLS):
                more = draw.randint(1, 8)
                with script.answering(more):
                    kills += kill_within(killed, config, step, more)
            done = run(killed, config, f"results/curation/c/{ASKING[step]}", "--rerun-incomplete")
            assert done.returncode == 0, done.stdout
        done = run(killed, config, "curate")
        assert done.returncode == 0, done.stdout
    for name in PRODUCTS:
        assert product(killed, name).read_bytes() == product(calm, name).read_bytes(), name
    assert kills == KILLS * len(ASKING), "none ends before its kill"
    for step in ASKING:
        keys = [json.loads(line)["key"] for line in journal(killed, step).read_text().splitlines() if line.strip()]
        assert len(set(keys)) == len(keys) == lines(journal(calm, step))
    again = script.requests - before
    assert set(again) == set(before), "the same requests"
    twice = sum(count - 1 for count in again.values())
    print(f"{kills} kills, {len(before)} requests, {twice} asked again")
    assert twice <= kills * IN_FLIGHT and twice < len(before) / 2


def kill_within(folder: Path, config: Path, step: str, more: int) -> bool:
    """Kill a run when a job has so many answers more; whether it was alive."""
    first = lines(journal(folder, step))
    process = start(folder, config, f"results/curation/c/{ASKING[step]}", "--rerun-incomplete")
    until(
        lambda: lines(journal(folder, step)) >= first + more or process.poll() is not None,
        f"{more} answers of {step}",
    )
    was_alive = process.poll() is None
    end(process, folder)
    shutil.rmtree(folder / ".snakemake/locks", ignore_errors=True)  # as --unlock does, without its seconds
    return was_alive


def end(process: subprocess.Popen[str], folder: Path) -> None:
    """SIGKILL Snakemake and all that it has started in a folder, and wait until they are gone: they ask no more."""
    process.send_signal(signal.SIGKILL)
    process.wait()
    killed = []
    for one in Path("/proc").glob("[0-9]*"):
        try:
            words = (one / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            where = str((one / "cwd").readlink())
        except OSError:
            continue
        if where == str(folder) and "maieutic" in words:
            killed.append(int(one.name))
            with contextlib.suppress(ProcessLookupError):
                os.kill(killed[-1], signal.SIGKILL)
    until(lambda: not alive(killed), "the job is gone")
