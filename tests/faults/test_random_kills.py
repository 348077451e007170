"""SIGKILL at random moments of everything that a run does, again and again: the same tables, nothing asked twice.

The short form kills a few times, the full one (MAIEUTIC_DRILLS=full, `make drills FULL=1`) four hundred times.
"""

from __future__ import annotations

import hashlib
import json
import os
import random
import re
import shutil
import signal
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from curator import SEED, Curator, counting, curation, entries, seeded
from gullible import prompt_of
from httpserver import chat, completion, scripted, serving
from maieutic.serving.recover import recover
from running import environment, overlay, run, start
from small import children
from test_parts_of_work import asked as journalled
from test_parts_of_work import configured

FULL = os.environ.get("MAIEUTIC_DRILLS") == "full"
# By pipeline: kills of the short and of the full form, the longest wait before one in seconds.
KILLS = {"generation and judging": (5, 140, 5.0), "report": (2, 60, 3.0)}
IN_FULL = {
    "rewards and training": (0, 50, 14.0),
    "curation": (0, 60, 4.0),
    "packed jobs": (0, 50, 9.0),
    "conversations": (0, 40, 5.0),
}
WATCHED = {"generation and judging", "report", "conversations"}  # pipelines whose endpoint counts its requests
PAUSE = 0.04  # seconds that the server takes for an answer
CONCURRENCY = 4
JOBS = 2  # at once
UNLOCKED_BY_HAND = (
    8  # of so many kills of Snakemake itself, one is mended by `make recover`, the others in this process
)


class Endpoint:
    """A server that answers each request by its own words, and counts those that it has answered."""

    def __init__(self) -> None:
        self.asked: Counter[str] = Counter()
        self.again: list[str] = []  # asked though the answer was on file
        self.finished: set[str] = set()
        self.under_way = 0
        self.lock = threading.Lock()

    def answer(self, number: int, body: dict[str, Any]) -> tuple[int, Any, dict[str, str]]:
        prompt = str(body["prompt"]) if "prompt" in body else prompt_of(body)
        mark = f"[{abs(hash_of(json.dumps(body, sort_keys=True))):x}]"
        with self.lock:
            self.asked[mark] += 1
            self.under_way += 1
            if mark in self.finished:
                self.again.append(prompt)
        time.sleep(PAUSE)
        with self.lock:
            self.under_way -= 1
        options = re.findall(r'^- "(\w+)": .*One of: ([^|\n]+)', prompt, re.MULTILINE)
        text = json.dumps({name: first.strip() for name, first in options}) if options else "Final answer: 5"
        said = f"{text} {mark}"
        return 200, (completion(said) if "prompt" in body else chat({"content": said})), {}

    def note(self, folder: Path) -> int:
        """What is on file now has to be asked no more; how many requests are under way."""
        marks = set()
        for path in (folder / "results/journal").rglob("*.jsonl"):
            marks |= set(re.findall(r"\[[0-9a-f]+\]", path.read_text(encoding="utf-8", errors="replace")))
        with self.lock:
            self.finished |= marks
            return self.under_way


def hash_of(text: str) -> int:
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest())


class Pipeline(NamedTuple):
    """What is killed: its run file in a checkout, and the products that have to come out the same."""

    config: Path
    tables: list[str]
    more: tuple[str, ...] = ()


def asking(folder: Path, address: str) -> Pipeline:
    hosted = {"engine": "hosted", "base_url": f"{address}/v1", "model": "m", "concurrency": CONCURRENCY, "attempts": 3}
    judge = {"engine": "judge", "model": "answering", "rubrics": ["mrbench_taxonomy"], "label_limit": 10}
    models = {"a": hosted, "answering": {**hosted, "model": "j"}, "judge": {**judge, "max_unreadable": 1.0}}
    tasks = ["mathtutorbench/problem_solving", "mathtutorbench/mistake_location", "mrbench"]
    config = overlay(folder, {"models": models, "run": {"tutors": ["a"], "tasks": tasks, "judges": ["judge"]}})
    tables = ["scores.csv", "scores.parquet", "differences.csv", "trust.csv"]
    return Pipeline(config, [f"results/report/{name}" for name in tables])


def report(folder: Path, address: str) -> Pipeline:
    """A finished run whose page and tables are made again and again."""
    made = asking(folder, address)
    return made._replace(more=("--forcerun", "build_report", "score_replies", "grade_verdicts"))


def packed(folder: Path) -> Pipeline:
    """A model that answers three benchmarks in one job and judges two of them in another one."""
    names = ["scores.csv", "trust.csv"]
    return Pipeline(configured(folder, pack=True, pace=0.03), [f"results/report/{name}" for name in names])


def conversing(folder: Path, address: str) -> Pipeline:
    """Conversations of two and three turns."""
    hosted = {"engine": "hosted", "base_url": f"{address}/v1", "model": "m", "concurrency": CONCURRENCY, "attempts": 3}
    run_keys = {"tutors": ["a"], "tasks": ["kmpbench/fqa", "kmpbench/ec", "kmpbench/gen_similar"]}
    config = overlay(folder, {"models": {"a": {**hosted, "endpoint": "chat"}}, "run": run_keys})
    return Pipeline(config, ["results/report/scores.csv", "results/replies/kmpbench/prompts/a.jsonl"])


def rewards(folder: Path, tiny: Path) -> Pipeline:
    needs = {"cpus": 1, "mem_mb": 1000}
    train = {
        "base": "tiny",
        "mix": {"mrbench": 1.0},
        "learning_rate": 1e-3,
        "batch_size": 8,
        "micro_batch": 1,
        "checkpoint_seconds": 0.5,
    }
    models = {
        "tiny": {"engine": "weights", "weights": {"path": str(tiny)}, "needs": needs},
        "tiny-rm": {"engine": "reward", "train": train, "token_budget": 1, "needs": needs},
    }
    run_keys = {"tutors": ["echo"], "tasks": ["mathtutorbench/scaffolding_generation"], "reward_models": ["tiny-rm"]}
    config = overlay(folder, {"models": models, "run": run_keys})
    tables = ["report/scores.csv", "validation/tiny-rm/pairs.json", "scores/mathtutorbench/echo.json"]
    return Pipeline(config, [f"results/{name}" for name in tables])


def curating(folder: Path, address: str) -> Pipeline:
    config = overlay(
        folder,
        {
            "models": entries(address), "datasets": seeded(folder, counting(12)), "curations": curation(),
            "run": {"tutors": ["echo"], "tasks": ["mathtutorbench/problem_solving"], "seed": SEED},
        },
    )  # fmt: skip
    names = ["components.jsonl", "flows.jsonl", "dialogues.jsonl", "sets/skills.jsonl", "sets/training.jsonl"]
    return Pipeline(config, [f"results/curation/c/{name}" for name in names])


def tables(folder: Path, pipeline: Pipeline) -> dict[str, bytes]:
    """The products, but for the seconds that judges took."""
    made = {name: (folder / name).read_bytes() for name in pipeline.tables}
    lines = {name: content.splitlines(keepends=True) for name, content in made.items() if name.endswith("trust.csv")}
    return made | {name: b"".join(line for line in each if b"seconds" not in line) for name, each in lines.items()}


def mend(folder: Path, by_hand: bool) -> None:
    """After a SIGKILL of Snakemake: what `make recover` does, by it or in this process."""
    if by_hand:
        subprocess.run(["make", "recover"], cwd=folder, env=environment(), capture_output=True, check=True)
        return
    recover(folder / "results")
    shutil.rmtree(folder / ".snakemake/locks", ignore_errors=True)


def victims_of(pid: int, dice: random.Random) -> tuple[str, list[int]]:
    """Snakemake, one of its descendants, or all of them."""
    below = children(pid)
    kind = dice.choice(["snakemake", "job", "all"])
    if kind == "job" and below:
        return kind, [dice.choice(below)]
    return ("all", [pid, *below]) if kind == "all" else ("snakemake", [pid])


class Killed(NamedTuple):
    """What happened: kills by victim, the requests that were under way at kills."""

    by_victim: Counter[str]
    in_flight: int
    rounds: int


def kill_again_and_again(
    folder: Path, make: Callable[[], Pipeline], kills: int, longest: float, endpoint: Endpoint | None, keep: str | None
) -> Killed:
    """Kill a run at random moments until it has been killed so often; each that ends has to have made the same tables.

    keep: None: every round begins with nothing but the checkout; else a folder's results that it begins with.
    """
    dice, by_victim, in_flight, rounds = random.Random(20261125 + kills), Counter[str](), 0, 0
    pipeline = make()
    expected: dict[str, bytes] = {}
    if keep:
        done = run(folder, pipeline.config, OMP_NUM_THREADS="1")
        assert done.returncode == 0, done.stdout[-3000:]
        expected = tables(folder, pipeline)
    while by_victim.total() < kills:
        process = start(folder, pipeline.config, *pipeline.more)
        wait = dice.uniform(0.0, longest) + 1.0
        try:
            process.wait(wait)
        except subprocess.TimeoutExpired:
            kind, pids = victims_of(process.pid, dice)
            if endpoint is not None:
                in_flight += endpoint.note(folder)
            for pid in pids:
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    continue
            by_victim[kind] += 1
            process.wait(120)
            mend(folder, kind == "snakemake" and by_victim[kind] % UNLOCKED_BY_HAND == 1)
            continue
        assert process.returncode == 0, "nobody killed it"
        rounds += 1
        made = tables(folder, pipeline)
        assert not expected or made == expected, "to the byte"
        expected = expected or made
        if not keep:
            shutil.rmtree(folder / "results")
            shutil.rmtree(folder / ".snakemake")
            if endpoint is not None:
                endpoint.finished.clear()
                endpoint.asked.clear()
    done = run(folder, pipeline.config, OMP_NUM_THREADS="1")
    assert done.returncode == 0, done.stdout[-3000:]
    assert tables(folder, pipeline) == expected or not expected
    return Killed(by_victim, in_flight, rounds + 1)


@pytest.mark.parametrize("name", {**KILLS, **(IN_FULL if FULL else {})})
def test_kills_at_random_moments(
    name: str,
    request: pytest.FixtureRequest,
    checkouts: Callable[[], Path],
    record_property: Callable[[str, str], None],
) -> None:
    short, full, longest = {**KILLS, **IN_FULL}[name]
    kills = full if FULL else short
    calm, folder = checkouts(), checkouts()
    endpoint, script = Endpoint(), Curator(wait=PAUSE)
    handler = script.handler() if name == "curation" else scripted(endpoint.answer)
    with serving(handler) as address:

        def make(place: Path) -> Pipeline:
            if name == "rewards and training":
                return rewards(place, request.getfixturevalue("tiny"))
            if name == "packed jobs":
                return packed(place)
            makers = {"curation": curating, "report": report, "conversations": conversing}
            return makers.get(name, asking)(place, address)

        undisturbed = run(calm, make(calm).config, OMP_NUM_THREADS="1")
        assert undisturbed.returncode == 0, undisturbed.stdout[-3000:]
        once = len(endpoint.asked), sum(script.requests.values())
        endpoint.asked.clear()
        script.requests.clear()
        watched = endpoint if name in WATCHED else None
        killed = kill_again_and_again(
            folder, lambda: make(folder), kills, longest, watched, "kept" if name == "report" else None
        )
        assert tables(folder, make(folder)) == tables(calm, make(calm)), "as if nothing had happened"
    assert killed.by_victim.total() == kills
    if name == "packed jobs":
        assert sorted(journalled(folder)) == sorted(journalled(calm)), "each request is on file once"
    assert endpoint.again == [], "no finished request was asked twice"
    more = sum(endpoint.asked.values()) - once[0] if watched else 0
    if watched:
        assert more <= max(killed.in_flight, CONCURRENCY * JOBS * kills), "no more than what was in flight"
    told = (
        f"{name}: {kills} kills ({', '.join(f'{kind} {number}' for kind, number in sorted(killed.by_victim.items()))})"
    )
    asked_again = (
        f", {len(endpoint.again)} finished requests asked twice, {max(more, 0)} in flight asked anew" if watched else ""
    )
    record_property("figure", f"1: {told}, {killed.rounds} runs to the end with the same tables{asked_again}")
