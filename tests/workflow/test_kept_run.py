"""Two runs of one folder with a shared tutor: the first stays exportable, shareable, verifiable and comparable."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from running import maieutic, overlay, planned, run


def test_two_runs_with_a_shared_tutor_stay_separate(checkouts: Callable[[], Path]) -> None:
    """The second has another limit and one tutor fewer, so it replaces items, replies, grades, scores, differences."""
    folder = checkouts()
    runs = {}
    for name, limit, tutors in (("one", 3, ["echo", "always-0", "reference"]), ("two", 2, ["echo", "reference"])):
        keys = {"name": name, "limit": limit, "tutors": tutors, "tasks": ["mathtutorbench/mistake_location"]}
        runs[name] = overlay(folder, {"models": {}, "run": keys}, f"{name}.yaml")
        done = run(folder, runs[name])
        assert done.returncode == 0, done.stdout
        assert planned(folder, runs[name]) == set()
        exported = maieutic(folder, "export", "markdown", "--run", "results/runs/one", "--out", f"{name}.md")
        assert exported.returncode == 0, exported.stderr
    assert (folder / "one.md").read_bytes() == (folder / "two.md").read_bytes()
    for words in (
        ("export", "tidy", "--run", "results/runs/one", "--out", "tidy"),
        ("export", "inspect", "--run", "results/runs/one", "--out", "logs"),
        ("share", "--run", "results/runs/one", "--out", "one"),
        ("verify", "one"),
        ("compare", "results/runs/one", "results/runs/two"),
    ):
        done_command = maieutic(folder, *words)
        assert done_command.returncode == 0, (words, done_command.stderr)
    assert "1 only in the first run" in done_command.stdout
