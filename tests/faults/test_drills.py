"""Drills of a whole run: a failing endpoint with a budget, a full disk, two runs at once, clock jumps, a dead model."""

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


def contains_any(path: Path, forms: list[bytes]) -> bool:
    content = path.read_bytes()
    return any(form in content for form in forms)


class Storm:
    """Endpoint with 30 % status 429, 10 % status 503, drops, empty or invalid bodies, hangs. Answers echo the key."""

    def __init__(self) -> None:
        self.dice, self.lock = random.Random(5), threading.Lock()
        self.paid: Counter[str] = Counter()  # number of answers that were sent, by request
        self.statuses: Counter[int] = Counter()
        self.failed: Counter[str] = Counter()
        self.probes = 0  # number of short requests that find out whether others are answered

    def answer(self, number: int, body: dict[str, Any]) -> Answer:
        request = json.dumps(body, sort_keys=True)
        if "What is 2 + 2?" in request:
            with self.lock:
                self.probes += 1
            return 200, completion(f"4, {KEY}"), {}
        with self.lock:
            # After three failures a request is answered, since the wait before each further try doubles.
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
            bad = 0, b"", {}  # not a late answer, which a client under load may still take
        with self.lock:
            self.statuses[bad[0] if bad else 200] += 1
            (self.paid if bad is None else self.failed)[request] += 1
        return bad or (200, completion(f"Final answer: 5, {KEY} {base64.b64encode(KEY.encode()).decode()}"), {})


def test_a_storm_within_a_budget(checkouts: Callable[[], Path], data: Path, record_property: Figure) -> None:
    """The first run's budget is too small, so it ends with one line. The second run's budget suffices for the rest.

    2,000 requests in the full form, 300 in the short one.
    """
    total, first_budget = (2000, 700) if FULL else (300, 120)
    folder, storm = checkouts(), Storm()
    tasks = ["mathtutorbench/problem_solving", "mathtutorbench/socratic_questioning"]
    forms = [KEY.encode(), quote(KEY, safe="").encode(), base64.b64encode(KEY.encode())[:-4]]

    def configure(requests: int) -> Path:
        model = hosted(address, attempts=60, concurrency=64, request_timeout=5, patience=1)
        keys = {"tutors": ["m"], "tasks": tasks, "limit": total // 2, "budget": {"requests": requests}}
        return overlay(folder, {"edition": "published", "data_dir": str(data), "models": {"m": model}, "run": keys})

    with serving(scripted(storm.answer)) as address:
        first = run(folder, configure(first_budget), CANARY_KEY=KEY)
        assert first.returncode != 0
        stopped = [line for line in first.stdout.splitlines() if line.startswith("stopped: ")]
        assert len(stopped) == 1
        assert f"run.budget: the budget of {first_budget:,} requests is spent" in stopped[0], first.stdout[-2000:]
        assert "Traceback" not in first.stdout
        paid, tries = sum(storm.paid.values()), sum(storm.statuses.values())
        assert paid < tries <= first_budget, "each try counts"
        done = run(folder, configure(10 * total), CANARY_KEY=KEY)
        assert done.returncode == 0, done.stdout[-3000:]
    assert len(storm.paid) == sum(storm.paid.values()) == total, "each answer is paid once"
    ledger = [
        json.loads(line)
        for line in (folder / "results/journal/replies/mathtutorbench/m.ledger").read_text().splitlines()
    ]
    assert sum(line["requests"] for line in ledger) == total + storm.probes
    retries = sum(sum(line["retries"].values()) for line in ledger)
    assert retries == sum(storm.statuses.values()) - total, "each failed try is counted"
    files = [path for name in ("results", ".snakemake") for path in (folder / name).rglob("*") if path.is_file()]
    assert [path for path in files if contains_any(path, forms)] == [] and KEY not in first.stdout + done.stdout
    record_property("figure", f"6: {total:,} requests with {retries:,} failed attempts; each answer was paid once")
    record_property(
        "figure",
        f"6: a budget of {first_budget} requests ended the first run at {tries} tries ({paid} answers), with a one-line "
        "error",
    )
    record_property(
        "figure",
        f"12: the endpoint echoed the key in every answer; none of {len(files)} files, no log and no output contains it",
    )


@contextlib.contextmanager
def small_disk(folder: Path, size: str) -> Iterator[Callable[[str], None]]:
    """Mount a file system at a folder, and yield a function that mounts it again with other options."""
    folder.mkdir(parents=True, exist_ok=True)
    if subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder)], capture_output=True
    ).returncode:
        absent("permission to mount a file system", "run as root")
    try:
        yield lambda options: subprocess.run(["mount", "-o", f"remount,{options}", str(folder)], check=True)
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=False)


def answers_on_file(folder: Path) -> int:
    """Return the number of lines of all journals of a run."""
    return sum(path.read_bytes().count(b"\n") for path in (folder / "results/journal").rglob("*.jsonl"))


def test_a_full_or_read_only_disk_is_reported_in_one_line_and_loses_no_answer(
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
        kept, sent = answers_on_file(folder), len(handler.requests)
        remount("size=200m,ro")
        read_only = run(folder, config, CANARY_KEY=KEY)
        assert read_only.returncode != 0 and "Read-only file system" in read_only.stdout
        assert answers_on_file(folder) == kept
        remount("rw")
        done = run(folder, config, CANARY_KEY=KEY)
        assert done.returncode == 0, done.stdout[-3000:]
        repeated = len(handler.requests) - len({json.dumps(body) for *_, body in handler.requests})
        tables = (folder / "results/report/scores.csv").read_bytes()
    assert 0 < kept <= sent < 24 and repeated <= min(sent - kept, 2), (
        "at most the answer that did not fit on the disk, and one more request in flight"
    )
    calm = checkouts()
    with serving(handler) as address:
        assert run(calm, overlay(calm, {"models": {"m": hosted(address)}, "run": keys}), CANARY_KEY=KEY).returncode == 0
    assert (calm / "results/report/scores.csv").read_bytes() == tables
    record_property(
        "figure",
        f"5: disk full after {kept} answers, then read-only, then normal: "
        f"{repeated} request{'' if repeated == 1 else 's'} in flight repeated, identical tables",
    )


def test_a_second_run_is_refused_and_clock_jumps_repeat_no_finished_request(
    checkouts: Callable[[], Path], record_property: Figure
) -> None:
    """Runs with the clock two days back, then a day ahead, repeat only requests that were in flight at a kill."""
    if FAKETIME is None:
        absent("faketime", "install faketime")
    folder, fast = checkouts(), threading.Event()

    def script(number: int, body: dict[str, Any]) -> Answer:
        if not fast.is_set():
            time.sleep(0.3)
        return 200, completion("Final answer: 5"), {}

    handler = scripted(script)
    keys = {"tutors": ["m"], "tasks": ["mathtutorbench/problem_solving", "mathtutorbench/mistake_location"]}
    with serving(handler) as address:
        config = overlay(folder, {"models": {"m": hosted(address, concurrency=2)}, "run": keys})
        first = start(folder, config, CANARY_KEY=KEY)
        until(lambda: answers_on_file(folder) > 4, "some answers")
        second = run(folder, config, CANARY_KEY=KEY)
        assert second.returncode != 0 and "locked" in second.stdout.lower() and "unlock" in second.stdout.lower()
        first.kill()
        first.wait()
        subprocess.run(["make", "recover"], cwd=folder, env=environment(), capture_output=True, check=True)
        fast.set()
        in_flight = len(handler.requests) - answers_on_file(folder)
        # With an unchanged monotonic clock, this version of faketime refuses clock_nanosleep, which time.sleep uses.
        # Snakemake's SLURM plugin sleeps at its import where SLURM is installed, also in jobs, whose path begins with
        # the folder of the workflow. poll waits equally long.
        site = folder / "waits"
        site.mkdir()
        for place in (site, folder / "workflow"):
            (place / "sitecustomize.py").write_text(
                "import select, time\ntime.sleep = lambda seconds: select.poll().poll(1000 * seconds) and None\n"
            )
        for jump, must_succeed in (("-2d", False), ("+1d", True)):
            clock = {
                "PYTHONPATH": str(site), "LD_PRELOAD": str(FAKETIME), "FAKETIME": jump,
                "FAKETIME_DONT_FAKE_MONOTONIC": "1", "DONT_FAKE_MONOTONIC": "1",
            }  # fmt: skip
            done = run(folder, config, CANARY_KEY=KEY, **clock)
            # Snakemake refuses outputs that are older than their inputs.
            refused = "has older modification time" in done.stdout
            assert done.returncode == 0 or (not must_succeed and refused), done.stdout[-3000:]
        tables = (folder / "results/report/scores.csv").read_bytes()
        assert run(folder, config, CANARY_KEY=KEY).returncode == 0
        assert (folder / "results/report/scores.csv").read_bytes() == tables
    bodies = Counter(json.dumps(body) for *_, body in handler.requests)
    repeated = sum(bodies.values()) - len(bodies)
    assert len(bodies) == 36 and repeated <= in_flight <= 2, "at most the requests in flight at the kill"
    record_property("figure", "14: a second run during the first is refused and changes no file")
    record_property(
        "figure",
        f"5: clock two days back, then a day ahead: {repeated} of {in_flight} requests in flight repeated, identical tables",
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
    assert "answers no request: 500" in failed and "check the account, the key and the server" in failed
    partial = folder / "results/report/partial"
    table = pd.read_csv(partial / "scores.csv")
    assert {name for name in names if name in set(table.tutor)} == set(names) - {"m7"}
    assert "There are no scores of m7" in (partial / "index.html").read_text(encoding="utf-8")
    record_property("figure", "17: the page has nine of ten columns, and marks the tenth as failed")


def test_no_process_shows_the_key_in_its_command_line(checkouts: Callable[[], Path], record_property: Figure) -> None:
    """All users of a machine can read command lines. They are read while a run sends requests."""
    folder, requested = checkouts(), threading.Event()

    def script(number: int, body: dict[str, Any]) -> Answer:
        requested.set()
        time.sleep(0.5)
        return 200, completion("Final answer: 5"), {}

    with serving(scripted(script)) as address:
        keys = {"tutors": ["m"], "tasks": ["mathtutorbench/problem_solving"], "limit": 3}
        process = start(folder, overlay(folder, {"models": {"m": hosted(address)}, "run": keys}), CANARY_KEY=KEY)
        assert requested.wait(60)
        command_lines = [read(path) for path in Path("/proc").glob("[0-9]*/cmdline")]
        assert process.wait(120) == 0
    assert any(b"generate-replies" in line for line in command_lines)
    assert not any(KEY.encode() in line for line in command_lines)
    record_property("figure", "12: no process of a run that sends requests has the key in its command line")


def read(path: Path) -> bytes:
    """Return the content of a file, or nothing if its process has ended."""
    with contextlib.suppress(OSError):
        return path.read_bytes()
    return b""
