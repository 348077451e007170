"""A SIGKILL of Snakemake ends its jobs that send requests: only those in flight are still answered, and recorded."""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from httpserver import completion, scripted, serving
from running import NO_PAGE, overlay, run, start

CONCURRENCY = 4
SECONDS = 0.3  # duration of a request


def test_a_job_sends_nothing_after_its_snakemake_was_killed(checkouts: Callable[[], Path]) -> None:
    folder = checkouts()

    def answer(number: int, body: dict[str, Any]) -> tuple[int, Any, dict[str, str]]:
        time.sleep(SECONDS)
        return 200, completion("Final answer: 5"), {}

    with serving(handler := scripted(answer)) as address:
        model = {"engine": "hosted", "base_url": f"{address}/v1", "model": "m", "concurrency": CONCURRENCY}
        tasks = ["mathtutorbench/problem_solving", "mathtutorbench/mistake_location"]
        config = overlay(folder, {"models": {"m": model}, "run": {"tutors": ["m"], "tasks": tasks}})
        process = start(folder, config, *NO_PAGE)
        until = time.monotonic() + 120
        while len(handler.requests) < 2 * CONCURRENCY and time.monotonic() < until:
            time.sleep(0.02)
        process.send_signal(signal.SIGKILL)
        process.wait()
        killed_at = time.monotonic()
        time.sleep(10 * SECONDS)
        late = [moment for moment, _, _ in handler.requests if moment > killed_at + SECONDS / 3]
        sent = len(handler.requests)
        assert late == [], f"{len(late)} requests were sent after the kill"
        [journal] = (folder / "results/journal").rglob("m.jsonl")
        recorded = {json.loads(line)["key"] for line in journal.read_text(encoding="utf-8").splitlines()}
        assert len(recorded) == sent, "what was in flight is recorded"
        done = run(folder, config, *NO_PAGE, "--nolock")
        assert done.returncode == 0, done.stdout
        bodies = [json.dumps(body, sort_keys=True) for _, _, body in handler.requests]
    assert len(set(bodies)) == len(bodies) > sent, "nothing is asked twice"
