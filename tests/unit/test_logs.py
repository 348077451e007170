"""What a command prints and where it goes; how it says its progress; names, plugs and paths of the lowest layer."""

from __future__ import annotations

import logging
import os
import re
import sys
import types
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from maieutic.core import files, paths, plugins, progress
from maieutic.core.errors import UserError, check_all
from maieutic.core.jobs import Job
from maieutic.core.logs import LOG_ONLY, log_to


@contextmanager
def terminal(path: Path) -> Iterator[Path]:
    """Standard output and error as one file, as of a process of its own; afterwards all is as it was.

    No fixture: pytest takes both back between a test's set-up and its call.
    """
    root = logging.getLogger()
    before, level = list(root.handlers), root.level
    for name in ("aiohttp", "asyncio", "urllib3"):
        logging.getLogger(name).setLevel(logging.NOTSET)
    root.handlers = []  # an earlier test's command may have left some, which write to the same terminal
    kept, error = (os.dup(1), os.dup(2)), sys.stderr
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(handle, 1)
    os.dup2(handle, 2)
    sys.stderr = open(2, "w", buffering=1, closefd=False)  # noqa: SIM115 (of the process)
    try:
        yield path
    finally:
        sys.stderr = error
        os.dup2(kept[0], 1)
        os.dup2(kept[1], 2)
        for number in (handle, *kept):
            os.close(number)
        root.handlers = before
        root.setLevel(level)


LINE = re.compile(r"^\d\d:\d\d:\d\d INFO asked 3$", re.MULTILINE)


def test_log_records_reach_log_and_terminal_once_each(tmp_path: Path) -> None:
    """Log records in both; what the command and its children print besides is in the log alone."""
    log = tmp_path / "a/b/rule.log"
    log.parent.mkdir(parents=True)
    log.write_text("of an earlier run\n" * 9)
    with terminal(tmp_path / "terminal") as shown:
        log_to(log)
        logging.getLogger("maieutic.some").info("asked %d", 3)
        logging.getLogger("maieutic.some").debug("never shown")
        for name in ("aiohttp", "aiohttp.client", "asyncio", "urllib3"):
            logging.getLogger(name).info("chatter")
            logging.getLogger(name).warning("a warning of %s", name)
        os.write(1, b"a child's output\n")
        os.write(2, b"a child's error\n")
    for path in (log, shown):
        text = path.read_text()
        assert len(LINE.findall(text)) == 1
        assert text.count("a warning of ") == 4 and "chatter" not in text and "never" not in text
        assert "earlier run" not in text
        assert text.count("a child's") == (2 if path == log else 0)


def test_a_log_is_made_with_its_folder_and_appended_to(tmp_path: Path) -> None:
    log = tmp_path / "c/d/rule.log"
    with terminal(tmp_path / "terminal"):
        log_to(log)
        os.write(1, b"output\n")
        assert log.read_text() == "output\n"
        log.write_text("")  # whatever somebody else makes of the file, what follows is at its end
        os.write(2, b"later\n")
    assert log.read_text() == "later\n"
    assert (log.stat().st_mode & 0o777) == 0o644 & ~current_umask()
    with terminal(tmp_path / "terminal"):  # a second attempt: the folder is there
        log_to(log)
    assert log.read_text() == ""


def current_umask() -> int:
    """The mask of new files."""
    mask = os.umask(0)
    os.umask(mask)
    return mask


def test_a_person_at_the_command_line_gets_everything_on_the_terminal(tmp_path: Path) -> None:
    with terminal(tmp_path / "terminal") as shown:
        log_to(None)
        logging.getLogger("maieutic.some").info("asked %d", 3)
        os.write(1, b"output\n")
    text = shown.read_text()
    assert LINE.findall(text) == [text.splitlines()[0]] and text.endswith("output\n")


# progress -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [(0, "0:00"), (9.99, "0:09"), (60, "1:00"), (125, "2:05"), (3599, "59:59"), (3600, "1:00:00"), (7384, "2:03:04")],
)
def test_a_time_is_hours_minutes_seconds(seconds: float, shown: str) -> None:
    assert progress.format_duration(seconds) == shown


class Clock:
    """A clock that a test sets."""

    def __init__(self) -> None:
        self.now = 100.0

    def monotonic(self) -> float:
        return self.now


def test_progress_says_how_much_how_fast_and_how_long_still(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    clock = Clock()
    monkeypatch.setattr(progress, "time", clock)
    caplog.set_level(logging.INFO)
    shown = progress.Progress("tutor", 100)
    shown.step(known=True)
    for _ in range(9):
        clock.now += 0.5
        shown.step(tokens=20)
    assert not caplog.messages, "nothing before five seconds are over"
    clock.now += 0.5  # the first of the ten fresh ones was 4.5 s ago
    shown.step(tokens=20, failed=True)
    assert caplog.messages == ["tutor: 11/100, 1 from the journal, 1 failed, 2.2 requests/s, 40 tokens/s, 0:40 left"]
    clock.now += 4.9
    shown.step()
    assert len(caplog.messages) == 1, "five seconds from the last line"
    clock.now += 0.1
    shown.step()
    assert len(caplog.messages) == 2


def test_the_last_line_is_said_once_and_has_no_time_left(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    clock = Clock()
    monkeypatch.setattr(progress, "time", clock)
    caplog.set_level(logging.INFO)
    shown = progress.Progress("judge", 2)
    shown.step()
    clock.now += 8.0
    shown.step()
    assert not caplog.messages, "the end is for its caller to say"
    shown.log_line()
    assert caplog.messages == ["judge: 2/2, 0.2 requests/s, 0 tokens/s"]
    none = progress.Progress("nobody", 0)
    none.log_line()
    one = progress.Progress("one", 3)
    one.step(tokens=5)
    one.log_line()
    assert caplog.messages[1:] == ["nobody: 0/0", "one: 1/3"], "no rate of a single moment"


def test_the_three_most_frequent_reasons_are_told() -> None:
    shown = progress.Progress("tutor", 20)
    for why in (
        "timeout",
        "refused",
        "cut off",
        "refused",
        "cut off",
        "refused",
        "timeout",
        "rare",
        "timeout",
        "timeout",
    ):
        shown.fail(why)
    assert shown.reasons() == "timeout: 4, refused: 3, cut off: 2"
    assert (shown.done, shown.failed, shown.tokens) == (10, 10, 0)


@pytest.mark.parametrize("batch", [0.049, 0.05])
@pytest.mark.parametrize("seconds", [0.999, 1.0, 2.0])
def test_a_second_is_long_enough_for_a_rate(batch: float, seconds: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of requests that ended together with the first one only that one counts, from a second on."""
    clock = Clock()
    monkeypatch.setattr(progress, "time", clock)
    clock.now = 0.0
    shown = progress.Progress("tutor", 20)
    shown.step()
    clock.now = batch
    for _ in range(3):
        shown.step()
    clock.now = seconds
    shown.step()
    counted = 2 if batch < 0.05 and seconds >= 1.0 else 5
    assert shown.rate(seconds) == counted / seconds


@pytest.mark.parametrize("batches", [1, 2, 3, 10])
@pytest.mark.parametrize("size", [2, 40, 150, 300])
def test_the_rate_of_batches_is_that_of_the_whole(
    batches: int, size: int, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Forty conversations of one forward pass on a GPU were once said to be scored at 250,000 a second."""
    clock = Clock()
    monkeypatch.setattr(progress, "time", clock)
    shown = progress.Progress("reward", 5000)
    shown.logged_at = 1e9
    shown.step(known=True)
    for _ in range(batches):
        clock.now += 8.0
        for number in range(size):
            clock.now += 1e-6 * (number > 0)
            shown.step(tokens=16)
    caplog.set_level(logging.INFO)
    shown.log_line()
    assert caplog.messages[0].startswith(f"reward: {batches * size + 1}/5000, 1 from the journal, ")
    rate = float(caplog.messages[0].split(", ")[2].removesuffix(" requests/s"))
    assert rate == pytest.approx(size / 8, abs=0.18), "one request more or less in the time of a batch"
    assert f", {2 * size} tokens/s, " in caplog.messages[0]


def test_of_no_time_there_is_no_rate(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    clock = Clock()
    monkeypatch.setattr(progress, "time", clock)
    caplog.set_level(logging.INFO)
    at_once = progress.Progress("baseline", 2)
    at_once.step()
    at_once.step()
    at_once.log_line()
    clock.now += 4.0
    at_once.log_line()
    assert caplog.messages == ["baseline: 2/2", "baseline: 2/2, 0.2 requests/s, 0 tokens/s"]


def test_the_rate_is_of_the_last_two_hundred_requests(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    clock = Clock()
    monkeypatch.setattr(progress, "time", clock)
    shown = progress.Progress("tutor", 1000)
    shown.logged_at = 1e9
    for _ in range(300):
        clock.now += 10.0  # slow at first
        shown.step()
    for _ in range(200):
        clock.now += 0.5
        shown.step()
    caplog.set_level(logging.INFO)
    shown.log_line()
    assert "tutor: 500/1000, 2.0 requests/s" in caplog.messages[0]


# plugs, jobs, files, paths ---------------------------------------------------------------------------------------------


def test_tables_of_benchmarks_are_one_and_no_key_is_in_two(monkeypatch: pytest.MonkeyPatch) -> None:
    def module(name: str, **tables: Any) -> types.ModuleType:
        made = types.ModuleType(name)
        made.__dict__.update(tables)
        return made

    known = {
        "maieutic.benchmarks": module("maieutic.benchmarks"),
        "maieutic.benchmarks.one.graders": module("x", GRADERS={"a": 1, "b": 2}),
        "maieutic.benchmarks.three.graders": module("y", GRADERS={"c": 3}),
        "maieutic.extensions": module("maieutic.extensions", EXTENSIONS=("four",)),
    }
    known["maieutic.benchmarks"].__dict__["BENCHMARKS"] = ("one", "two", "three")
    monkeypatch.setattr(plugins, "import_module", known.__getitem__)
    monkeypatch.setattr(plugins, "find_spec", known.get)
    assert plugins.plugin_objects("graders", "GRADERS") == {"one": {"a": 1, "b": 2}, "three": {"c": 3}}
    assert plugins.merged_plugin_tables("graders", "GRADERS") == {"a": 1, "b": 2, "c": 3}
    known["maieutic.four.graders"] = module("z", GRADERS={"d": 6})
    assert plugins.plugin_objects("graders", "GRADERS")["four"] == {"d": 6}, "an extension plugs in as a benchmark does"
    assert plugins.plugin_folders() == ["benchmarks/one", "benchmarks/two", "benchmarks/three", "four"]
    known["maieutic.benchmarks.three.graders"].__dict__["GRADERS"] = {"c": 3, "b": 4, "a": 5}
    with pytest.raises(ValueError, match=r"^three\.graders\.GRADERS: another folder also defines a, b$"):
        plugins.merged_plugin_tables("graders", "GRADERS")


class Example(Job):
    """A job of two parameters."""

    name: str
    more: int = 3


def test_what_has_its_default_is_not_in_a_job() -> None:
    assert Example(name="x").to_json() == '{"name":"x"}'
    assert Example(name="x", more=4).to_json() == '{"name":"x","more":4}'


@pytest.mark.parametrize("size", [0, 1, (1 << 20) - 1, 1 << 20, (1 << 20) + 1])
def test_a_checksum_is_of_every_byte(tmp_path: Path, size: int) -> None:
    import hashlib

    (tmp_path / "file").write_bytes(b"\x01" * size)
    assert files.sha256_of(tmp_path / "file") == hashlib.sha256(b"\x01" * size).hexdigest()


def test_logs_and_timings_of_a_rule_lie_side_by_side() -> None:
    assert paths.log_of("fetch") == "results/logs/fetch.log"
    assert paths.log_of("judge", "judge", "batch") == "results/logs/judge/{judge}/{batch}.log"
    assert paths.timing_of("judge", "judge", "batch") == "results/benchmarks/judge/{judge}/{batch}.tsv"
    assert paths.timing_of("x/logs/y") == "results/benchmarks/x/logs/y.tsv"
    assert paths.PAGE.within(Path("/a"), run="report") == Path("/a/report/index.html")


def test_checks_go_on_after_a_fault_and_say_each_once() -> None:
    ran: list[str] = []

    def check(name: str, *faults: str) -> None:
        ran.append(name)
        if faults:
            raise UserError.of([UserError(fault, "is wrong", "mend it") for fault in faults])

    check_all([])
    check_all([lambda: check("fine")])
    with pytest.raises(UserError) as fault:
        check_all([lambda: check("one", "a", "b"), lambda: check("two"), lambda: check("three", "b", "c")])
    assert ran == ["fine", "one", "two", "three"]
    assert fault.value.lines == "\n".join(f"{name}: is wrong. Fix: mend it" for name in "abc")
    assert str(fault.value) == " Also, ".join(f"{name}: is wrong. Fix: mend it" for name in "abc")
    assert (fault.value.place, fault.value.problem, fault.value.fix) == ("a", "is wrong", "mend it")


def test_a_traceback_is_one_line_on_the_terminal_and_whole_in_the_log(tmp_path: Path) -> None:
    """And of many faults the log has all, the terminal those that are not for the log alone."""
    log = tmp_path / "x.log"
    with terminal(tmp_path / "terminal") as shown:
        log_to(log)
        try:
            raise KeyError("a\nb" * 200)
        except KeyError as error:
            logging.getLogger("maieutic").error("make-items failed", exc_info=error)
        logging.getLogger("maieutic").error("hidden", extra={LOG_ONLY: True})
    told, kept = shown.read_text(encoding="utf-8"), log.read_text(encoding="utf-8")
    assert told.count("\n") == 1 and "make-items failed: KeyError: 'a" in told and f"(traceback: {log})" in told
    assert len(told) < 500 and "Traceback" in kept and "test_logs.py" in kept and "hidden" in kept
