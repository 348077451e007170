"""Tests of `maieutic forget --refused`: refusals and the outputs made from them are removed, answers stay."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from maieutic.core import paths
from maieutic.core.errors import UserError
from maieutic.core.journal import FinishedRequest, load_journal_answers
from maieutic.tools.forgetting import forget


def journal_line(key: str, error: str | None = None) -> str:
    return FinishedRequest(key=key, text="4", seconds=0.0, attempts=1, error=error).model_dump_json() + "\n"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make two runs of two tutors and a judge. Each journal has an answer, a refusal and a truncated line."""
    monkeypatch.chdir(tmp_path)
    for pattern, output, names in (
        (paths.REPLY_JOURNAL, paths.REPLIES, {"benchmark": "b", "tutor": "far"}),
        (paths.REPLY_JOURNAL, paths.REPLIES, {"benchmark": "b", "tutor": "near"}),
        (paths.SHARD_JOURNAL, paths.SHARD_REPLIES, {"benchmark": "b", "shard": "1-of-2", "tutor": "far"}),
        (paths.VERDICT_JOURNAL, paths.VERDICTS, {"judge": "j", "benchmark": "b", "batch": "far"}),
        (paths.LABELLED_JOURNAL, paths.LABELLED_VERDICTS, {"judge": "j"}),
    ):
        for path, text in (
            (pattern.of(**names), journal_line("a") + journal_line("r", "400: no") + '{"key": "to'),
            (output.of(**names), "{}\n"),
        ):
            Path(path).parent.mkdir(parents=True, exist_ok=True)
            Path(path).write_text(text)
    for name, tutors in (("one", ["far"]), ("two", ["near"])):
        run_folder = Path(paths.ROOT) / "runs" / name
        run_folder.mkdir(parents=True, exist_ok=True)
        (run_folder / "config.yaml").write_text(json.dumps({"run": {"name": name, "tutors": tutors, "judges": []}}))
    return tmp_path


def keys_left(pattern: paths.Pattern, **names: str) -> set[str]:
    return set(load_journal_answers(Path(pattern.of(**names)), FinishedRequest))


def test_refusals_of_every_run_are_dropped_and_answers_stay(folder: Path) -> None:
    forget(refused=True)
    keys = keys_left(paths.REPLY_JOURNAL, benchmark="b", tutor="far")
    assert keys == keys_left(paths.LABELLED_JOURNAL, judge="j") == {"a"}
    for path in (paths.REPLIES.of(benchmark="b", tutor="near"), paths.LABELLED_VERDICTS.of(judge="j")):
        assert not Path(path).exists(), "removed, so that the next run makes it anew"
    before = {path: path.read_bytes() for path in folder.rglob("*.jsonl")}
    forget(refused=True)
    assert {path: path.read_bytes() for path in folder.rglob("*.jsonl")} == before


def test_forgetting_a_named_run_leaves_other_runs_unchanged(folder: Path) -> None:
    forget("two", refused=True)
    assert keys_left(paths.REPLY_JOURNAL, benchmark="b", tutor="near") == {"a"}
    assert keys_left(paths.REPLY_JOURNAL, benchmark="b", tutor="far") == {"a", "r"}
    assert Path(paths.REPLIES.of(benchmark="b", tutor="far")).exists()
    with pytest.raises(UserError, match="three"):
        forget("three", refused=True)
    with pytest.raises(UserError, match="add either --refused or --transcripts"):
        forget("two", refused=False)
