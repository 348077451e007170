"""Tests of `maieutic forget`: what is dropped, what is removed, and that nothing of another owner is."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from maieutic.core import paths
from maieutic.core.errors import UserError
from maieutic.core.journal import FinishedRequest, load_journal_answers, unparsed_path
from maieutic.launch.results_lock import locked_results
from maieutic.tools.forgetting import all_patterns, forget, reserved_names


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
    with pytest.raises(UserError, match="add either --missing REASON or --transcripts"):
        forget("two", refused=False)


REASONS = {
    "refused": {"a", "filtered", "unread", "cut"}, "filtered": {"a", "r", "unread", "cut"},
    "failed": {"a", "r", "filtered", "unread", "cut"}, "unparsed": {"a", "r", "filtered"},
}  # fmt: skip


@pytest.mark.parametrize("reason", REASONS)
def test_answers_are_dropped_by_the_reason_for_which_they_are_missing(reason: str, folder: Path) -> None:
    """A judge's answers that cannot be read are found in its verdicts, and otherwise beside the journal."""
    names = {"judge": "j", "benchmark": "b", "batch": "far"}
    journal, verdicts = Path(paths.VERDICT_JOURNAL.of(**names)), Path(paths.VERDICTS.of(**names))
    lines = [journal_line("a"), journal_line("r", "400: no"), journal_line("unread"), journal_line("cut")]
    filtered = FinishedRequest(key="filtered", text="", seconds=0.0, attempts=1, finish="content_filter")
    journal.write_text("".join(lines) + filtered.model_dump_json() + "\n{damaged\n")
    answered = {"criterion": None, "value": "1"}
    judgements = [
        {"key": "a", "verdicts": [answered]},
        {"key": "r", "verdicts": [{"criterion": None, "value": None, "why_none": "refused: 400: no"}]},
        {"key": "unread", "verdicts": [answered, {"criterion": None, "value": None, "why_none": "no verdict"}]},
    ]
    verdicts.write_text("".join(json.dumps(record) + "\n" for record in judgements))
    unparsed_path(journal).write_text("cut\n")
    forget(missing=[reason])  # type: ignore[list-item]
    left = keys_left(paths.VERDICT_JOURNAL, **names)
    assert left == REASONS[reason] and "{damaged" in journal.read_text()
    assert verdicts.exists() == (len(left) == 5), "the next run makes the verdicts anew"


EVERY_NAME = sorted({*reserved_names(), "far", "j", "one", "b", "chats"})


def other_files() -> list[Path]:
    """Return a file for each path of the rules and of the package, none of which belongs to a run on transcripts."""
    names = {"benchmark": "mrbench", "tutor": "far", "judge": "j", "dataset": "x_data", "simulation": "sim"}
    return [
        Path(re.sub(r"\{(\w+)\}", lambda mark: names.get(mark[1], "other"), "/".join(pattern)))
        for pattern in all_patterns()
    ]


@pytest.mark.parametrize("name", EVERY_NAME)
def test_a_run_with_any_name_takes_only_its_own_files(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Names of folders of results, of tutors, judges and runs: as an earlier version allowed them for transcripts."""
    monkeypatch.chdir(tmp_path)
    others = [path for path in other_files() if path.suffix]
    # Files of things that are called like the run, which must stay as well
    called_alike = {"tutor": name, "judge": name, "reward_model": name, "batch": name, "model": name, "release": name}
    others += [
        Path(re.sub(r"\{(\w+)\}", lambda mark: called_alike.get(mark[1], "mrbench"), "/".join(pattern)))
        for pattern in all_patterns()
        if "{run}" not in pattern
    ]
    others = sorted({path for path in others if path.suffix and path.parts[1] != "runs"})
    for path in others:
        if not path.is_dir() and not any(parent.is_file() for parent in path.parents):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("of others")
    others = [path for path in others if path.is_file()]
    own_paths = [
        Path(paths.ITEMS.of(benchmark=name, task="turns")),
        Path(paths.REPLIES.of(benchmark=name, tutor="recorded")),
    ]
    for path in (own_paths := [path for path in own_paths if path not in others]):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("a text")
    config = {
        "run": {"name": name, "tasks": [f"{name}/turns"]},
        "datasets": {f"{name}_transcripts": {"published": {"path": f"{name}/conversations.jsonl"}}},
    }
    saved = Path(paths.ROOT) / "runs" / name / "config.yaml"
    saved.parent.mkdir(parents=True, exist_ok=True)
    saved.write_text(json.dumps(config))
    forget(name, transcripts=True, yes=True)
    assert [path for path in others if not path.is_file()] == []
    assert name in reserved_names() or not any(path.exists() for path in own_paths)


def test_nothing_is_forgotten_while_a_run_uses_the_results(folder: Path) -> None:
    with (
        locked_results("forget"),
        pytest.raises(
            UserError, match=r"maieutic forget: a run uses .*results \(host .* pid \d+\)\. Fix: wait until it ends"
        ),
    ):
        forget(refused=True)
    forget(refused=True)
