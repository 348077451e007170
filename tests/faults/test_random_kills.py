"""SIGKILL at random moments of a run, repeatedly: the tables stay the same, and no finished request is repeated.

The short form kills a few times. The full form (MAIEUTIC_DRILLS=full, `make drills FULL=1`) kills 400 times.
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
from httpserver import chat, completion, scripted, serving
from maieutic.serving.recover import recover
from obedient_judge import prompt_of
from running import environment, overlay, run, start
from small import children

FULL = os.environ.get("MAIEUTIC_DRILLS") == "full"
# By pipeline: number of kills in the short form, number in the full form, longest wait before a kill in seconds.
KILLS = {"generation and judging": (5, 140, 5.0), "report": (2, 60, 3.0)}
FULL_FORM_KILLS = {"rewards and training": (0, 50, 14.0), "curation": (0, 60, 4.0), "conversations": (0, 40, 5.0)}
WATCHED = {"generation and judging", "report", "conversations"}  # pipelines whose endpoint counts its requests
ANSWER_SECONDS = 0.04  # time that the endpoint takes to answer
CONCURRENCY = 4
JOBS = 2  # number of jobs at once
RECOVER_EVERY = 8  # `make recover` runs after one in this many kills of Snakemake; recovery in this process is faster


class Endpoint:
    """Server that answers each request with its own text, and counts requests."""

    def __init__(self) -> None:
        self.requests: Counter[str] = Counter()
        self.repeated: list[str] = []  # prompts of requests whose answer was in a journal already
        self.finished: set[str] = set()  # marks of the answers in the journals
        self.under_way = 0
        self.lock = threading.Lock()

    def answer(self, number: int, body: dict[str, Any]) -> tuple[int, Any, dict[str, str]]:
        prompt = str(body["prompt"]) if "prompt" in body else prompt_of(body)
        mark = f"[{abs(hash_of(json.dumps(body, sort_keys=True))):x}]"
        with self.lock:
            self.requests[mark] += 1
            self.under_way += 1
            if mark in self.finished:
                self.repeated.append(prompt)
        time.sleep(ANSWER_SECONDS)
        with self.lock:
            self.under_way -= 1
        options = re.findall(r'^- "(\w+)": .*One of: ([^|\n]+)', prompt, re.MULTILINE)
        text = json.dumps({name: first.strip() for name, first in options}) if options else "Final answer: 5"
        content = f"{text} {mark}"
        return 200, (completion(content) if "prompt" in body else chat({"content": content})), {}

    def note_finished(self, folder: Path) -> int:
        """Note the requests whose answers are in the journals. Return the number of requests under way."""
        marks = set()
        for path in (folder / "results/journal").rglob("*.jsonl"):
            marks |= set(re.findall(r"\[[0-9a-f]+\]", path.read_text(encoding="utf-8", errors="replace")))
        with self.lock:
            self.finished |= marks
            return self.under_way


def hash_of(text: str) -> int:
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest())


class Pipeline(NamedTuple):
    """Run that is killed. tables: products that must not change; arguments: further arguments of Snakemake."""

    config: Path
    tables: list[str]
    arguments: tuple[str, ...] = ()


def generation_and_judging(folder: Path, address: str) -> Pipeline:
    hosted = {"engine": "hosted", "base_url": f"{address}/v1", "model": "m", "concurrency": CONCURRENCY, "attempts": 3}
    judge = {"engine": "judge", "model": "answering", "rubrics": ["mrbench_taxonomy"], "label_limit": 10}
    models = {"a": hosted, "answering": {**hosted, "model": "j"}, "judge": {**judge, "max_unreadable": 1.0}}
    tasks = ["mathtutorbench/problem_solving", "mathtutorbench/mistake_location", "mrbench"]
    config = overlay(folder, {"models": models, "run": {"tutors": ["a"], "tasks": tasks, "judges": ["judge"]}})
    tables = ["scores.csv", "scores.parquet", "differences.csv", "trust.csv"]
    return Pipeline(config, [f"results/report/{name}" for name in tables])


def report(folder: Path, address: str) -> Pipeline:
    """Return a pipeline that builds the page and tables of a finished run again."""
    pipeline = generation_and_judging(folder, address)
    return pipeline._replace(arguments=("--forcerun", "build_report", "score_replies", "grade_verdicts"))


def conversations(folder: Path, address: str) -> Pipeline:
    """Return a pipeline of conversations of two and three turns."""
    hosted = {"engine": "hosted", "base_url": f"{address}/v1", "model": "m", "concurrency": CONCURRENCY, "attempts": 3}
    run_keys = {"tutors": ["a"], "tasks": ["kmpbench/fqa", "kmpbench/ec", "kmpbench/gen_similar"]}
    config = overlay(folder, {"models": {"a": {**hosted, "endpoint": "chat"}}, "run": run_keys})
    return Pipeline(config, ["results/report/scores.csv", "results/replies/kmpbench/prompts/a.jsonl"])


def rewards_and_training(folder: Path, tiny: Path) -> Pipeline:
    needs = {"cpus": 1, "mem_mb": 1000}
    train = {
        "base": "tiny", "mix": {"mrbench": 1.0}, "learning_rate": 1e-3, "batch_size": 8, "micro_batch": 1,
        "checkpoint_seconds": 0.5,
    }  # fmt: skip
    models = {
        "tiny": {"engine": "weights", "weights": {"path": str(tiny)}, "needs": needs},
        "tiny-rm": {"engine": "reward", "train": train, "token_budget": 1, "needs": needs},
    }
    run_keys = {"tutors": ["echo"], "tasks": ["mathtutorbench/scaffolding_generation"], "reward_models": ["tiny-rm"]}
    config = overlay(folder, {"models": models, "run": run_keys})
    tables = ["report/scores.csv", "validation/tiny-rm/pairs.json", "scores/mathtutorbench/echo.json"]
    return Pipeline(config, [f"results/{name}" for name in tables])


def curation_pipeline(folder: Path, address: str) -> Pipeline:
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
    """Return the contents of a pipeline's products, without the seconds that judges took."""
    contents = {name: (folder / name).read_bytes() for name in pipeline.tables}
    lines = {
        name: content.splitlines(keepends=True) for name, content in contents.items() if name.endswith("trust.csv")
    }
    return contents | {name: b"".join(line for line in each if b"seconds" not in line) for name, each in lines.items()}


def recover_run(folder: Path, by_make: bool) -> None:
    """Recover a run after a SIGKILL of Snakemake, by `make recover` (by_make) or by the same steps in this process."""
    if by_make:
        subprocess.run(["make", "recover"], cwd=folder, env=environment(), capture_output=True, check=True)
        return
    recover(folder / "results")
    shutil.rmtree(folder / ".snakemake/locks", ignore_errors=True)


def victims_of(pid: int, dice: random.Random) -> tuple[str, list[int]]:
    """Choose the victim of a kill: Snakemake, one of its descendants, or all of them. Return its kind and the pids."""
    below = children(pid)
    kind = dice.choice(["snakemake", "job", "all"])
    if kind == "job" and below:
        return kind, [dice.choice(below)]
    return ("all", [pid, *below]) if kind == "all" else ("snakemake", [pid])


class Killed(NamedTuple):
    """Kills by victim, number of requests in flight at the kills, and number of runs that finished."""

    by_victim: Counter[str]
    in_flight: int
    rounds: int


def kill_again_and_again(
    folder: Path, make: Callable[[], Pipeline], kills: int, longest: float, endpoint: Endpoint | None, keep: str | None
) -> Killed:
    """Start a run again and again, and kill it at random moments until it has been killed `kills` times.

    Every run that finishes must write the same tables. longest: longest wait before a kill, in seconds.
    keep: if set, an undisturbed run comes first and results stay; otherwise each finished run's results are removed.
    """
    dice, by_victim, in_flight, rounds = random.Random(20261125 + kills), Counter[str](), 0, 0
    pipeline = make()
    expected: dict[str, bytes] = {}
    if keep:
        done = run(folder, pipeline.config, OMP_NUM_THREADS="1")
        assert done.returncode == 0, done.stdout[-3000:]
        expected = tables(folder, pipeline)
    while by_victim.total() < kills:
        process = start(folder, pipeline.config, *pipeline.arguments)
        wait = dice.uniform(0.0, longest) + 1.0
        try:
            process.wait(wait)
        except subprocess.TimeoutExpired:
            kind, pids = victims_of(process.pid, dice)
            if endpoint is not None:
                in_flight += endpoint.note_finished(folder)
            for pid in pids:
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    continue
            by_victim[kind] += 1
            process.wait(120)
            recover_run(folder, kind == "snakemake" and by_victim[kind] % RECOVER_EVERY == 1)
            continue
        assert process.returncode == 0, "a run that is not killed succeeds"
        rounds += 1
        contents = tables(folder, pipeline)
        assert not expected or contents == expected, "the tables are byte-identical"
        expected = expected or contents
        if not keep:
            shutil.rmtree(folder / "results")
            shutil.rmtree(folder / ".snakemake")
            if endpoint is not None:
                endpoint.finished.clear()
                endpoint.requests.clear()
    done = run(folder, pipeline.config, OMP_NUM_THREADS="1")
    assert done.returncode == 0, done.stdout[-3000:]
    assert tables(folder, pipeline) == expected or not expected
    return Killed(by_victim, in_flight, rounds + 1)


@pytest.mark.parametrize("name", {**KILLS, **(FULL_FORM_KILLS if FULL else {})})
def test_kills_at_random_moments(
    name: str,
    request: pytest.FixtureRequest,
    checkouts: Callable[[], Path],
    record_property: Callable[[str, str], None],
) -> None:
    short, full, longest = {**KILLS, **FULL_FORM_KILLS}[name]
    kills = full if FULL else short
    calm, folder = checkouts(), checkouts()
    endpoint, script = Endpoint(), Curator(wait=ANSWER_SECONDS)
    handler = script.handler() if name == "curation" else scripted(endpoint.answer)
    with serving(handler) as address:

        def make(checkout: Path) -> Pipeline:
            if name == "rewards and training":
                return rewards_and_training(checkout, request.getfixturevalue("tiny"))
            makers = {"curation": curation_pipeline, "report": report, "conversations": conversations}
            return makers.get(name, generation_and_judging)(checkout, address)

        undisturbed = run(calm, make(calm).config, OMP_NUM_THREADS="1")
        assert undisturbed.returncode == 0, undisturbed.stdout[-3000:]
        requests_once = len(endpoint.requests)
        endpoint.requests.clear()
        watched = endpoint if name in WATCHED else None
        killed = kill_again_and_again(
            folder, lambda: make(folder), kills, longest, watched, "kept" if name == "report" else None
        )
        assert tables(folder, make(folder)) == tables(calm, make(calm)), "the tables of a run without kills"
    assert killed.by_victim.total() == kills
    assert endpoint.repeated == [], "no finished request was repeated"
    more = sum(endpoint.requests.values()) - requests_once if watched else 0
    if watched:
        assert more <= max(killed.in_flight, CONCURRENCY * JOBS * kills), "no more than the requests in flight"
    by_victim = ", ".join(f"{kind} {number}" for kind, number in sorted(killed.by_victim.items()))
    summary = f"{name}: {kills} kills ({by_victim})"
    repeats = f"; repeated requests: {len(endpoint.repeated)} finished, {max(more, 0)} in flight" if watched else ""
    runs = f"{killed.rounds} completed run{'' if killed.rounds == 1 else 's'}"
    record_property("figure", f"1: {summary}; {runs}, identical tables{repeats}")
