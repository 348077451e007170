"""Drills of a whole run: a storm with a budget and a canary, a full disk, two at once, a clock that jumps, a dead model."""

from __future__ import annotations

import base64
import contextlib
import json
import random
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pandas as pd
from conftest import absent
from httpserver import completion, scripted, serving
from running import environment, overlay, run, start
from small import until
from test_random_kills import FULL

KEY = "sk-canary-0f9e8d7c6b5a"
FAKETIME = next(Path("/usr/lib").glob("*/faketime/libfaketime.so.1"), None)
Figure = Callable[[str, str], None]
Answer = tuple[int, Any, dict[str, str]]


def hosted(address: str, **more: Any) -> dict[str, Any]:
    return {"engine": "hosted", "base_url": f"{address}/v1", "model": "m", "key_env": "CANARY_KEY", **more}


def holds(path: Path, forms: list[bytes]) -> bool:
    content = path.read_bytes()
    return any(form in content for form in forms)


class Storm:
    """30 % 429, 10 % 5xx, drops, empty bodies, hangs, nonsense; an answer holds the key that came with the request."""

    def __init__(self) -> None:
        self.dice, self.lock = random.Random(5), threading.Lock()
        self.paid: Counter[str] = Counter()  # answers that were sent, by request
        self.statuses: Counter[int] = Counter()
        self.failed: Counter[str] = Counter()

    def answer(self, number: int, body: dict[str, Any]) -> Answer:
        request = json.dumps(body, sort_keys=True)
        with self.lock:
            # The fourth try of a request is answered: each one waits twice as long as the one before.
            dice = self.dice.random() if self.failed[request] < 3 else 1.0
        bad: Answer | None = None
        if dice < 0.30:
            bad = 429, {"error": {"message": f"slow down, {KEY}"}}, {"Retry-After": "0.05"}
        elif dice < 0.40:
            bad = 503, f"<html>{KEY}</html>".encode(), {}
        elif dice < 0.43:
            bad = 0, b"", {}
        elif dice < 0.46:
            bad = 200, b"", {}
        elif dice < 0.48:
            bad = 200, {"choices": [], "key": KEY}, {}
        elif dice < 0.482:
            time.sleep(8.0)
            bad = 200, completion("late"), {}
        with self.lock:
            self.statuses[bad[0] if bad else 200] += 1
            (self.paid if bad is None else self.failed)[request] += 1
        return bad or (200, completion(f"Final answer: 5, {KEY} {base64.b64encode(KEY.encode()).decode()}"), {})


def test_a_storm_within_a_budget(checkouts: Callable[[], Path], data: Path, record_property: Figure) -> None:
    """The first run's budget is too small: it ends in one line. The second's is just enough for what is missing.

    2,000 requests in the full form, 300 in the short one.
    """
    total, enough_for = (2000, 700) if FULL else (300, 120)
    folder, storm = checkouts(), Storm()
    tasks = ["mathtutorbench/problem_solving", "mathtutorbench/socratic_questioning"]
    forms = [KEY.encode(), quote(KEY, safe="").encode(), base64.b64encode(KEY.encode())[:-4]]

    def configure(requests: int) -> Path:
        model = hosted(address, attempts=60, concurrency=64, request_timeout=5, patience=1)
        keys = {"tutors": ["m"], "tasks": tasks, "limit": total // 2, "budget": {"requests": requests}}
        return overlay(folder, {"edition": "published", "data_dir": str(data), "models": {"m": model}, "run": keys})

    with serving(scripted(storm.answer)) as address:
        first = run(folder, configure(enough_for), CANARY_KEY=KEY)
        assert first.returncode != 0
        stopped = [line for line in first.stdout.splitlines() if line.startswith("stopped: ")]
        assert len(stopped) == 1 and f"run.budget: requests {enough_for} is spent" in stopped[0], first.stdout[-2000:]
        assert "Traceback" not in first.stdout
        paid = sum(storm.paid.values())
        done = run(folder, configure(total - enough_for), CANARY_KEY=KEY)
        assert done.returncode == 0, done.stdout[-3000:]
    assert len(storm.paid) == sum(storm.paid.values()) == total and paid == enough_for, "each answer paid once"
    ledger = [
        json.loads(line)
        for line in (folder / "results/journal/replies/mathtutorbench/m.ledger").read_text().splitlines()
    ]
    assert sum(line["requests"] for line in ledger) == total
    retries = sum(sum(line["retries"].values()) for line in ledger)
    assert retries == sum(storm.statuses.values()) - total, "each failed try is counted"
    files = [path for place in ("results", ".snakemake") for path in (folder / place).rglob("*") if path.is_file()]
    assert [path for path in files if holds(path, forms)] == [] and KEY not in first.stdout + done.stdout
    told = f"{total:,} requests, {retries:,} failed tries, each answer paid once"
    record_property("figure", f"6: {told}; a budget of {enough_for} ended the first run in one line at {paid}")
    record_property(
        "figure", f"12: the key, echoed in every answer, is in none of {len(files)} files, no log and no output"
    )


@contextlib.contextmanager
def small_disk(place: Path, size: str) -> Iterator[Callable[[str], None]]:
    """A file system of its own at a folder; gives what mounts it anew with other options."""
    place.mkdir(parents=True, exist_ok=True)
    if subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(place)], capture_output=True
    ).returncode:
        absent("the right to mount a file system", "run as root")
    try:
        yield lambda options: subprocess.run(["mount", "-o", f"remount,{options}", str(place)], check=True)
    finally:
        subprocess.run(["umount", "-l", str(place)], check=False)


def journaled(folder: Path) -> int:
    return sum(path.read_bytes().count(b"\n") for path in (folder / "results/journal").rglob("*.jsonl"))


def test_a_full_disk_and_a_read_only_one_are_one_line_and_cost_nothing(
    checkouts: Callable[[], Path], record_property: Figure
) -> None:
    folder, handler = checkouts(), scripted(lambda n, body: (200, completion("Final answer: 5 " + "x" * 20_000), {}))
    keys = {"tutors": ["m"], "tasks": ["mathtutorbench/problem_solving", "mathtutorbench/mistake_location"]}
    with serving(handler) as address, small_disk(folder / "results", "600k") as remount:
        config = overlay(folder, {"models": {"m": hosted(address, concurrency=1)}, "run": keys})
        full = run(folder, config, CANARY_KEY=KEY)
        assert full.returncode != 0 and "No space left on device. Fix: free disk space" in full.stdout, full.stdout[
            -2000:
        ]
        assert "Traceback" not in full.stdout
        kept, asked = journaled(folder), len(handler.requests)
        remount("size=200m,ro")
        locked = run(folder, config, CANARY_KEY=KEY)
        assert locked.returncode != 0 and "Read-only file system" in locked.stdout and journaled(folder) == kept
        remount("rw")
        done = run(folder, config, CANARY_KEY=KEY)
        assert done.returncode == 0, done.stdout[-3000:]
        asked_again = len(handler.requests) - len({json.dumps(body) for *_, body in handler.requests})
        tables = (folder / "results/report/scores.csv").read_bytes()
    assert 0 < kept <= asked < 24 and asked_again <= min(asked - kept, 2), (
        "the answer that found no room, and one beside it"
    )
    calm = checkouts()
    with serving(handler) as address:
        assert run(calm, overlay(calm, {"models": {"m": hosted(address)}, "run": keys}), CANARY_KEY=KEY).returncode == 0
    assert (calm / "results/report/scores.csv").read_bytes() == tables
    record_property(
        "figure",
        f"5: full after {kept} answers, then read-only, then whole: {asked_again} in flight asked anew, the same tables",
    )


def test_two_at_once_and_a_clock_that_jumps(checkouts: Callable[[], Path], record_property: Figure) -> None:
    """A second run is refused; a kill, two days back, and a day ahead of it: nothing is asked twice."""
    if FAKETIME is None:
        absent("faketime", "install faketime")
    folder, slow = checkouts(), threading.Event()

    def script(number: int, body: dict[str, Any]) -> Answer:
        if not slow.is_set():
            time.sleep(0.3)
        return 200, completion("Final answer: 5"), {}

    handler = scripted(script)
    keys = {"tutors": ["m"], "tasks": ["mathtutorbench/problem_solving", "mathtutorbench/mistake_location"]}
    with serving(handler) as address:
        config = overlay(folder, {"models": {"m": hosted(address, concurrency=2)}, "run": keys})
        first = start(folder, config, CANARY_KEY=KEY)
        until(lambda: journaled(folder) > 4, "some answers")
        second = run(folder, config, CANARY_KEY=KEY)
        assert second.returncode != 0 and "locked" in second.stdout.lower() and "unlock" in second.stdout.lower()
        first.kill()
        first.wait()
        subprocess.run(["make", "recover"], cwd=folder, env=environment(), capture_output=True, check=True)
        slow.set()
        in_flight = len(handler.requests) - journaled(folder)
        # With the monotonic clock left alone this faketime refuses clock_nanosleep, by which Python sleeps (as Snakemake's
        # SLURM plugin does when it is imported where SLURM is installed): poll waits as long.
        waits = folder / "waits"
        waits.mkdir()
        (waits / "sitecustomize.py").write_text(
            "import select, time\ntime.sleep = lambda seconds: select.poll().poll(1000 * seconds) and None\n"
        )
        for jump, fits in (("-2d", False), ("+1d", True)):
            clock = {
                "PYTHONPATH": str(waits),
                "LD_PRELOAD": str(FAKETIME),
                "FAKETIME": jump,
                "FAKETIME_DONT_FAKE_MONOTONIC": "1",
                "DONT_FAKE_MONOTONIC": "1",
            }
            done = run(folder, config, CANARY_KEY=KEY, **clock)
            # Snakemake takes no output that is older than what it was made of, and says so.
            assert done.returncode == 0 or (not fits and "has older modification time" in done.stdout), done.stdout[
                -3000:
            ]
        tables = (folder / "results/report/scores.csv").read_bytes()
        assert run(folder, config, CANARY_KEY=KEY).returncode == 0
        assert (folder / "results/report/scores.csv").read_bytes() == tables
    bodies = Counter(json.dumps(body) for *_, body in handler.requests)
    twice = sum(bodies.values()) - len(bodies)
    assert len(bodies) == 36 and twice <= in_flight <= 2, "what was in flight at the kill"
    record_property("figure", "14: a second run beside the first is refused and changes nothing")
    record_property(
        "figure",
        f"5: clock two days back, then a day ahead: {twice} of {in_flight} in flight asked anew, the same tables",
    )


def test_nine_of_ten_models_have_their_columns(checkouts: Callable[[], Path], record_property: Figure) -> None:
    folder, names = checkouts(), [f"m{number}" for number in range(10)]
    handler = scripted(
        lambda n, body: (500, b"", {}) if body["model"] == "m7" else (200, completion("Final answer: 5"), {})
    )
    with serving(handler) as address:
        models = {name: hosted(address, model=name, attempts=2) for name in names}
        keys = {"tutors": names, "tasks": ["mathtutorbench/problem_solving"]}
        done = run(folder, overlay(folder, {"models": models, "run": keys}), CANARY_KEY=KEY)
    assert done.returncode != 0
    [failed] = [line for line in done.stdout.splitlines() if line.startswith("failed: ")]
    assert "m7: 12 of 12 items stayed unanswered (500 at try 2: 12)" in failed
    partial = folder / "results/report/partial"
    table = pd.read_csv(partial / "scores.csv")
    assert {name for name in names if name in set(table.tutor)} == set(names) - {"m7"}
    assert "There are no scores of m7" in (partial / "index.html").read_text(encoding="utf-8")
    record_property("figure", "17: nine columns of ten, the tenth marked on the page")


def test_no_process_shows_the_key_in_its_command_line(checkouts: Callable[[], Path], record_property: Figure) -> None:
    """While a run asks: a command line is there for every user of a machine to read."""
    folder, seen = checkouts(), threading.Event()

    def script(number: int, body: dict[str, Any]) -> Answer:
        seen.set()
        time.sleep(0.5)
        return 200, completion("Final answer: 5"), {}

    with serving(scripted(script)) as address:
        keys = {"tutors": ["m"], "tasks": ["mathtutorbench/problem_solving"], "limit": 3}
        process = start(folder, overlay(folder, {"models": {"m": hosted(address)}, "run": keys}), CANARY_KEY=KEY)
        assert seen.wait(60)
        lines = [read(path) for path in Path("/proc").glob("[0-9]*/cmdline")]
        assert process.wait(120) == 0
    assert any(b"generate-replies" in line for line in lines) and not any(KEY.encode() in line for line in lines)
    record_property("figure", "12: in no command line of any process while a run asks")


def read(path: Path) -> bytes:
    with contextlib.suppress(OSError):
        return path.read_bytes()
    return b""
