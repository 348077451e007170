"""What a person sees of a run: progress by stage on a terminal, few lines in a pipe, the last lines in both."""

from __future__ import annotations

import os
import pty
import re
import subprocess
from pathlib import Path

import pytest
from conftest import copy_workflow
from running import command, environment, overlay

TUTORS = {"run": {"tutors": ["echo"], "tasks": ["mathtutorbench/problem_solving"]}}
BROKEN = {
    "models": {"ours": {"engine": "recorded", "file": "replies.jsonl"}},
    "run": {**TUTORS["run"], "tutors": ["ours"]},
}


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the workflow with its profiles as they are."""
    return copy_workflow(tmp_path_factory.mktemp("terminal") / "checkout", logger=True)


def on_a_terminal(folder: Path, config: Path) -> tuple[int, str]:
    """Exit status and screen of a run whose output is a terminal of 110 columns."""
    master, slave = pty.openpty()
    size = {**environment(), "TERM": "xterm", "COLUMNS": "110", "LINES": "40"}
    with subprocess.Popen(command(config), cwd=folder, stdin=slave, stdout=slave, stderr=slave, env=size) as process:
        os.close(slave)
        told = b""
        while True:
            try:
                part = os.read(master, 65536)
            except OSError:  # the other side is closed
                break
            if not part:
                break
            told += part
    os.close(master)
    return process.returncode, re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", told.decode())


def test_a_terminal_shows_progress_by_stage(shown: Path) -> None:
    code, told = on_a_terminal(shown, overlay(shown, TUTORS))
    assert code == 0, told
    for stage in ("Total Progress", "generate replies locally", "score replies", "build report"):
        assert re.search(rf"{stage} .* 100%", told), stage
    assert re.search(r"Total Progress .* \d+% \d:\d\d:\d\d \d+:\d\d left", told), (
        "how long still, by the jobs that are done"
    )
    left = [line for line in told.splitlines() if line.strip() and not line.startswith(("│", "╭", "╰"))]
    assert len(left) < 60 and not any("wildcards" in line for line in left)
    assert "report: results/report/index.html" in told
    [log] = shown.glob(".snakemake/log/*.log")
    assert "localrule build_report" in log.read_text(encoding="utf-8")


def test_without_a_terminal_there_are_few_lines_and_no_bars(shown: Path) -> None:
    line = command(overlay(shown, {**TUTORS, "run": {**TUTORS["run"], "limit": 2}}))
    done = subprocess.run(line, cwd=shown, env=environment(), capture_output=True, text=True, check=False)
    told = done.stdout + done.stderr
    assert done.returncode == 0, told
    assert "\x1b" not in told and "━" not in told and len(told.splitlines()) < 60
    assert "report: results/report/index.html" in told


def test_a_failed_run_says_on_a_terminal_what_failed_and_why(shown: Path) -> None:
    (shown / "replies.jsonl").write_text('{"id": "nowhere", "reply": "4"}\n', encoding="utf-8")
    code, told = on_a_terminal(shown, overlay(shown, BROKEN))
    last = told[told.index("failed: ") :]
    assert code != 0 and "nowhere" in last and "Fix: " in last and "(log: results/logs/" in " ".join(last.split())
    ours = [
        line for line in told.splitlines() if re.search("nowhere|Failed|Wildcards|Fix:|RuleException|set -euo", line)
    ]
    assert len(ours) <= 5 and "RuleException" not in told and "set -euo" not in told
    [log] = sorted(shown.glob(".snakemake/log/*.log"))[-1:]
    kept = log.read_text(encoding="utf-8")
    assert "set -euo" in kept and "non-zero exit" in kept, "the whole of it is there"
