"""Tests of a run's output: progress by stage on a terminal, few lines in a pipe, and the same last lines in both."""

from __future__ import annotations

import os
import pty
import re
import subprocess
from pathlib import Path

import pytest
from conftest import copy_workflow
from running import command, environment, overlay

RUN = {"run": {"tutors": ["echo"], "tasks": ["mathtutorbench/problem_solving"]}}
FAILING_RUN = {
    "models": {"ours": {"engine": "recorded", "file": "replies.jsonl"}},
    "run": {**RUN["run"], "tutors": ["ours"]},
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a copy of the workflow whose profiles keep their logger."""
    return copy_workflow(tmp_path_factory.mktemp("terminal") / "checkout", logger=True)


def run_on_terminal(folder: Path, config: Path) -> tuple[int, str]:
    """Return the exit status and the screen's text of a run on a terminal of 110 columns."""
    master, slave = pty.openpty()
    env = {**environment(), "TERM": "xterm", "COLUMNS": "110", "LINES": "40"}
    with subprocess.Popen(command(config), cwd=folder, stdin=slave, stdout=slave, stderr=slave, env=env) as process:
        os.close(slave)
        output = b""
        while True:
            try:
                part = os.read(master, 65536)
            except OSError:  # the process has closed its side
                break
            if not part:
                break
            output += part
    os.close(master)
    return process.returncode, re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", output.decode())


def test_a_terminal_shows_progress_by_stage(folder: Path) -> None:
    code, output = run_on_terminal(folder, overlay(folder, RUN))
    assert code == 0, output
    for stage in ("Total Progress", "generate replies locally", "score replies", "build report"):
        assert re.search(rf"{stage} .* 100%", output), stage
    assert re.search(r"Total Progress .* \d+% \d:\d\d:\d\d \d+:\d\d left", output), (
        "the remaining time, estimated from the finished jobs"
    )
    plain_lines = [line for line in output.splitlines() if line.strip() and not line.startswith(("│", "╭", "╰"))]
    assert len(plain_lines) < 60 and not any("wildcards" in line for line in plain_lines)
    assert "report: results/report/index.html" in output
    [log] = folder.glob(".snakemake/log/*.log")
    assert "localrule build_report" in log.read_text(encoding="utf-8")


def test_without_a_terminal_there_are_few_lines_and_no_bars(folder: Path) -> None:
    command_line = command(overlay(folder, {**RUN, "run": {**RUN["run"], "limit": 2}}))
    done = subprocess.run(command_line, cwd=folder, env=environment(), capture_output=True, text=True, check=False)
    output = done.stdout + done.stderr
    assert done.returncode == 0, output
    assert "\x1b" not in output and "━" not in output and len(output.splitlines()) < 60
    assert "report: results/report/index.html" in output


def test_a_failed_run_says_on_a_terminal_what_failed_and_why(folder: Path) -> None:
    (folder / "replies.jsonl").write_text('{"id": "nowhere", "reply": "4"}\n', encoding="utf-8")
    code, output = run_on_terminal(folder, overlay(folder, FAILING_RUN))
    end = output[output.index("failed: ") :]
    assert code != 0 and "nowhere" in end and "Fix: " in end and "(log: results/logs/" in " ".join(end.split())
    error_lines = [
        line for line in output.splitlines() if re.search("nowhere|Failed|Wildcards|Fix:|RuleException|set -euo", line)
    ]
    assert len(error_lines) <= 5 and "RuleException" not in output and "set -euo" not in output
    [log] = sorted(folder.glob(".snakemake/log/*.log"))[-1:]
    text = log.read_text(encoding="utf-8")
    assert "set -euo" in text and "non-zero exit" in text, "the log file has everything"
