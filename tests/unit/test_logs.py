"""Tests of logging, progress lines, plug-ins, jobs and paths."""

from __future__ import annotations

import logging
import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from maieutic.core import progress
from maieutic.core.jobs import Job
from maieutic.core.logs import LOG_ONLY, log_to


@contextmanager
def terminal(path: Path) -> Iterator[Path]:
    """Redirect standard output and error to one file and yield its path; restore both and the log handlers afterwards.

    This is not a fixture: pytest redirects both again between a test's set-up and its call.
    """
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    for name in ("aiohttp", "asyncio", "urllib3"):
        logging.getLogger(name).setLevel(logging.NOTSET)
    root.handlers = []  # a command of an earlier test may have left handlers that write to this terminal
    saved, stderr = (os.dup(1), os.dup(2)), sys.stderr
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(handle, 1)
    os.dup2(handle, 2)
    sys.stderr = open(2, "w", buffering=1, closefd=False)  # noqa: SIM115 (the process keeps it)
    try:
        yield path
    finally:
        sys.stderr = stderr
        os.dup2(saved[0], 1)
        os.dup2(saved[1], 2)
        for number in (handle, *saved):
            os.close(number)
        root.handlers = handlers
        root.setLevel(level)


LINE = re.compile(r"^\d\d:\d\d:\d\d INFO asked 3$", re.MULTILINE)


def test_log_records_reach_log_and_terminal_once_each(tmp_path: Path) -> None:
    """Log records reach both; other output of the command and its children is only in the log."""
    log = tmp_path / "a/b/rule.log"
    log.parent.mkdir(parents=True)
    log.write_text("of an earlier run\n" * 9)
    with terminal(tmp_path / "terminal") as output:
        log_to(log)
        logging.getLogger("maieutic.some").info("asked %d", 3)
        logging.getLogger("maieutic.some").debug("never shown")
        for name in ("aiohttp", "aiohttp.client", "asyncio", "urllib3"):
            logging.getLogger(name).info("chatter")
            logging.getLogger(name).warning("a warning of %s", name)
        os.write(1, b"a child's output\n")
        os.write(2, b"a child's error\n")
    for path in (log, output):
        text = path.read_text()
        assert len(LINE.findall(text)) == 1
        assert text.count("a warning of ") == 4 and "chatter" not in text and "never" not in text
        assert "earlier run" not in text
        assert text.count("a child's") == (2 if path == log else 0)


def test_a_person_at_the_command_line_gets_everything_on_the_terminal(tmp_path: Path) -> None:
    with terminal(tmp_path / "terminal") as output:
        log_to(None)
        logging.getLogger("maieutic.some").info("asked %d", 3)
        os.write(1, b"output\n")
    text = output.read_text()
    assert LINE.findall(text) == [text.splitlines()[0]] and text.endswith("output\n")


# progress -------------------------------------------------------------------------------------------------------------


class Clock:
    """Clock with a time that the test sets."""

    def __init__(self) -> None:
        self.now = 100.0

    def monotonic(self) -> float:
        return self.now


def test_progress_lines_have_counts_rates_and_time_left(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    clock = Clock()
    monkeypatch.setattr(progress, "time", clock)
    caplog.set_level(logging.INFO)
    meter = progress.Progress("tutor", 100)
    meter.step(known=True)
    for _ in range(9):
        clock.now += 0.5
        meter.step(tokens=20)
    assert not caplog.messages, "no line in the first five seconds"
    clock.now += 0.5  # the first of the ten new requests ended 4.5 s ago
    meter.step(tokens=20, failed=True)
    assert caplog.messages == ["tutor: 11/100, 1 from the journal, 1 failed, 2.2 requests/s, 40 tokens/s, 0:40 left"]
    clock.now += 4.9
    meter.step()
    assert len(caplog.messages) == 1, "less than five seconds after the last line"
    clock.now += 0.1
    meter.step()
    assert len(caplog.messages) == 2


# plug-ins, jobs, files, paths -----------------------------------------------------------------------------------------


class Example(Job):
    """Job with two parameters."""

    name: str
    more: int = 3


def test_defaults_are_left_out_of_a_job() -> None:
    assert Example(name="x").to_json() == '{"name":"x"}'
    assert Example(name="x", more=4).to_json() == '{"name":"x","more":4}'


def test_a_traceback_is_one_line_on_the_terminal_and_whole_in_the_log(tmp_path: Path) -> None:
    """The log contains every error, the terminal all but those for the log only."""
    log = tmp_path / "x.log"
    with terminal(tmp_path / "terminal") as output:
        log_to(log)
        try:
            raise KeyError("a\nb" * 200)
        except KeyError as error:
            logging.getLogger("maieutic").error("make-items failed", exc_info=error)
        logging.getLogger("maieutic").error("hidden", extra={LOG_ONLY: True})
    printed, logged = output.read_text(encoding="utf-8"), log.read_text(encoding="utf-8")
    assert printed.count("\n") == 1 and "make-items failed: KeyError: 'a" in printed
    assert f"(traceback: {log})" in printed
    assert len(printed) < 500 and "Traceback" in logged and "test_logs.py" in logged and "hidden" in logged
