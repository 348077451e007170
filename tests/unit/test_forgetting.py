"""`maieutic forget --refused`: refusals leave the journals with the outputs that hold them, answers stay."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from maieutic.core import paths
from maieutic.core.errors import UserError
from maieutic.core.journal import FinishedRequest, load_journal_answers
from maieutic.plan.forgetting import forget


def line(key: str, error: str | None = None) -> str:
    return FinishedRequest(key=key, text="4", seconds=0.0, attempts=1, error=error).model_dump_json() + "\n"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two runs of two tutors and a judge; every journal has an answer and a refusal, and a torn line."""
    monkeypatch.chdir(tmp_path)
    for pattern, output, names in (
        (paths.REPLY_JOURNAL, paths.REPLIES, {"benchmark": "b", "tutor": "far"}),
        (paths.REPLY_JOURNAL, paths.REPLIES, {"benchmark": "b", "tutor": "near"}),
        (paths.SHARD_JOURNAL, paths.SHARD_REPLIES, {"benchmark": "b", "shard": "1-of-2", "tutor": "far"}),
        (paths.VERDICT_JOURNAL, paths.VERDICTS, {"judge": "j", "benchmark": "b", "batch": "far"}),
        (paths.LABELLED_JOURNAL, paths.LABELLED_VERDICTS, {"judge": "j"}),
    ):
        for path, text in (
            (pattern.of(**names), line("a") + line("r", "400: no") + '{"key": "to'),
            (output.of(**names), "{}\n"),
        ):
            Path(path).parent.mkdir(parents=True, exist_ok=True)
            Path(path).write_text(text)
    for name, tutors in (("one", ["far"]), ("two", ["near"])):
        own = Path(paths.ROOT) / "runs" / name
        own.mkdir(parents=True, exist_ok=True)
        (own / "config.yaml").write_text(json.dumps({"run": {"name": name, "tutors": tutors, "judges": []}}))
    return tmp_path


def left(pattern: paths.Pattern, **names: str) -> set[str]:
    return set(load_journal_answers(Path(pattern.of(**names)), FinishedRequest))


def test_refusals_of_every_run_are_dropped_and_answers_stay(folder: Path) -> None:
    forget(refused=True)
    assert left(paths.REPLY_JOURNAL, benchmark="b", tutor="far") == left(paths.LABELLED_JOURNAL, judge="j") == {"a"}
    for path in (paths.REPLIES.of(benchmark="b", tutor="near"), paths.LABELLED_VERDICTS.of(judge="j")):
        assert not Path(path).exists(), "made anew by the next run"
    again = {path: path.read_bytes() for path in folder.rglob("*.jsonl")}
    forget(refused=True)
    assert {path: path.read_bytes() for path in folder.rglob("*.jsonl")} == again


def test_a_named_run_loses_its_own_alone(folder: Path) -> None:
    forget("two", refused=True)
    assert left(paths.REPLY_JOURNAL, benchmark="b", tutor="near") == {"a"}
    assert left(paths.REPLY_JOURNAL, benchmark="b", tutor="far") == {"a", "r"}
    assert Path(paths.REPLIES.of(benchmark="b", tutor="far")).exists()
    with pytest.raises(UserError, match="three"):
        forget("three", refused=True)
    with pytest.raises(UserError, match="add --refused"):
        forget("two", refused=False)
