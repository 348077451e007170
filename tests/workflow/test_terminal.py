"""Tests of a run's output: a line per model on a terminal, few lines in a pipe, and the same last lines in both."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import scripted
from conftest import copy_workflow
from running import command, overlay
from terminal_runs import lasting, run_on_terminal, with_plugin

RUN = {"run": {"tutors": ["echo"], "tasks": ["mathtutorbench/problem_solving"]}}
FAILING_RUN = {
    "models": {"ours": {"engine": "recorded", "file": "replies.jsonl"}},
    "run": {**RUN["run"], "tutors": ["ours"]},
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a copy of the workflow whose profiles keep their logger."""
    return copy_workflow(tmp_path_factory.mktemp("terminal") / "checkout", logger=True)


def test_a_terminal_shows_each_model_and_only_one_process_writes(folder: Path) -> None:
    with scripted.endpoint() as address:
        config = {
            **scripted.at_endpoint(address, Path("data"), ["far"]),
            "edition": "demo",
            "report": {"resamples": 100},
        }
        models: Any = config["models"]
        models["far"]["price"] = {"input": 1.0, "output": 4.0}
        config["run"] = {**RUN["run"], "tutors": ["far"]}
        del config["data_dir"]
        code, output = run_on_terminal(folder, overlay(folder, config))
    assert code == 0, output
    plain = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", output)
    assert re.search(r"far +\d+ of about \d+ requests, .*USD", plain), "requests of all and their cost"
    lines = lasting(output)
    assert len(lines) < 15 and not any("wildcards" in line or "Building DAG" in line for line in lines), lines
    assert lines[-1] == "report: results/report/index.html" and "requests sent: far" in lines[-3]
    assert not any(re.match(r"\d\d:\d\d:\d\d ", line) for line in lines), "a job has written to the terminal"
    [log] = folder.glob(".snakemake/log/*.log")
    assert "localrule build_report" in log.read_text(encoding="utf-8")


def test_without_a_terminal_there_are_few_lines_and_no_display(folder: Path) -> None:
    command_line = command(overlay(folder, {**RUN, "run": {**RUN["run"], "limit": 2}}))
    done = subprocess.run(
        command_line, cwd=folder, env=with_plugin(folder), capture_output=True, text=True, check=False
    )
    output = done.stdout + done.stderr
    assert done.returncode == 0, output
    assert "\x1b" not in output and "━" not in output and len(output.splitlines()) < 15
    assert "report: results/report/index.html" in output


def test_a_failed_run_says_on_a_terminal_what_failed_and_why(folder: Path) -> None:
    (folder / "replies.jsonl").write_text('{"id": "nowhere", "reply": "4"}\n', encoding="utf-8")
    code, frames = run_on_terminal(folder, overlay(folder, FAILING_RUN))
    output = "\n".join(lasting(frames))
    end = output[output.index("failed: ") :]
    assert code != 0 and "nowhere" in end and "Fix: " in end and "(log: results/logs/" in " ".join(end.split())
    error_lines = [
        line for line in output.splitlines() if re.search("nowhere|Failed|Wildcards|Fix:|RuleException|set -euo", line)
    ]
    assert (
        len(error_lines) <= 5
        and output.count("nowhere") == 1
        and "RuleException" not in output
        and "set -euo" not in output
    )
    [log] = sorted(folder.glob(".snakemake/log/*.log"))[-1:]
    text = log.read_text(encoding="utf-8")
    assert "set -euo" in text and "non-zero exit" in text, "the log file has everything"
