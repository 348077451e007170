"""Tests of exports, shared runs (RO-Crates), their verification, and the comparison of two runs."""

from __future__ import annotations

import base64
import errno
import hashlib
import json
import os
import platform
import re
import shutil
import zipfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import pytest
from maieutic.core import paths
from maieutic.core.errors import UserError
from maieutic.core.extensions import MANIFEST
from maieutic.core.files import safe_name, write_json_lines, write_text
from maieutic.core.machine import has_bfloat16, this_machine
from maieutic.core.records import Difference, Grade, read_records
from maieutic.core.visible import DIRECTIONS
from maieutic.graders.registry import GRADERS
from maieutic.launch import snakemake_compat
from maieutic.plan.provenance import CodeState, read_provenance
from maieutic.record import export as exporting
from maieutic.record import summary
from maieutic.record import verify as verifying
from maieutic.record.compare import ScoreChange, compare, decide_gate
from maieutic.record.crate import ServerCost, StageCost, format_quantities, with_server_shares
from maieutic.record.export import export
from maieutic.record.file_comparison import nearly_equal, table_difference
from maieutic.record.finished_run import (
    COMPARED_COLUMNS,
    keep_run,
    kept_files,
    load_finished_run,
    plan_of_run,
)
from maieutic.record.share import share
from maieutic.record.tidy import write_grades
from maieutic.record.verify import verify
from maieutic.report import write_report
from maieutic.report.ranking import read_rankings
from maieutic.report.traffic_light import Light
from test_report import TASKS, configuration, finished

COMMIT = "c" * 40
TUTORS = ["reference", "always-0", "hostile"]


@pytest.fixture(autouse=True)
def at_the_runs_commit(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the checkout appear unedited and at the commit that the runs name."""
    monkeypatch.setattr(verifying, "code_state", lambda _: CodeState(commit=COMMIT))


JOBS_BY_RUN: dict[str, list[Any]] = {}


@pytest.fixture(scope="session", autouse=True)
def planned_once() -> Iterator[None]:
    """Let Snakemake plan equal runs with equal files once, which takes it three seconds."""
    plan = snakemake_compat.jobs_of_dry_run

    def jobs_of_dry_run(snakefile: Path, config: dict[str, Any], targets: Sequence[str]) -> list[Any]:
        names = sorted(str(path) for path in Path("results").rglob("*"))
        key = json.dumps([config, targets, names], sort_keys=True)
        if key not in JOBS_BY_RUN:
            JOBS_BY_RUN[key] = plan(snakefile, config, targets)
        return JOBS_BY_RUN[key]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(snakemake_compat, "jobs_of_dry_run", jobs_of_dry_run)
        yield


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of a finished run, one of whose tutors sends hostile replies."""
    results = tmp_path_factory.mktemp("record") / "results"
    finished(results, configuration(tutors=TUTORS, limit=None), COMMIT)
    seconds = {"start_seconds": 0, "busy_seconds": 1800, "idle_seconds": 450, "gpus": 2}
    servers = [
        {"model": "hostile", **seconds, "start_joules": 5, "busy_joules": 2.7e6, "idle_joules": idle}
        for idle in (9, None)
    ]
    spending = {
        "time": "2026-01-01", "requests": 84, "prompt_tokens": 252, "completion_tokens": 336, "seconds": 1,
        "retries": {},
    }  # fmt: skip
    write_json_lines(results / "journal/replies/mathtutorbench/hostile.ledger", [{**spending, "asker": "hostile"}])
    write_json_lines(results / "journal/grades/a/mrbench/all.ledger", [{**spending, "asker": "a", "model": "hostile"}])
    write_json_lines(results / "logs/servers.jsonl", [*servers, {"model": "of another run", **seconds}])
    with open(results / "logs/servers.jsonl", "a", encoding="utf-8") as handle:
        handle.write('{"model": "hostile", "gpus": 2, "busy_sec')  # a line cut off by a full disk
    return results / "report"


@pytest.fixture(scope="module")
def shared(run: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of the same run, packed by `maieutic share`."""
    out = tmp_path_factory.mktemp("shared") / "run"
    share(run=run, out=out, author="A. Reader")
    return out


def test_every_grade_stands_in_one_table_with_its_problem(run: Path, tmp_path: Path) -> None:
    export("tidy", run=run, out=tmp_path)
    table = pd.read_parquet(tmp_path / "grades.parquet")
    files = sorted((run.parent / "grades/mathtutorbench/_parsers").glob("*.jsonl"))
    grades = {path.stem: read_records(path, Grade) for path in files}
    assert len(table) == sum(map(len, grades.values())) and table.problem.notna().all()
    grade = grades["always-0"][0]
    [row] = table[
        (table.tutor == "always-0") & (table.item == grade.id) & (table.task == grade.task) & (table.kind == grade.kind)
        & (table.scoring == grade.scoring) & (table.criterion.isna() if grade.criterion is None else table.criterion == grade.criterion)
    ].to_dict("records")  # fmt: skip
    assert row["raw"] == grade.raw and (row["value"] is None) == (grade.value is None)
    with duckdb.connect(str(tmp_path / "maieutic.duckdb"), read_only=True) as connection:
        count = connection.execute("SELECT count(*) FROM grades").fetchone()
        board = connection.execute("SELECT label, value FROM leaderboard WHERE task = 'problem_solving'").fetchall()
        differences = connection.execute("SELECT count(*) FROM differences WHERE verdict = 'BETTER'").fetchone()
        for view in ("disagreements", "unreadable"):
            connection.execute(f"SELECT * FROM {view}").fetchall()
    assert count == (len(table),) and board[0] == ("Human reference", 1.0) and differences and differences[0] > 0


def test_a_grade_without_its_item_is_exported_without_a_problem(run: Path, tmp_path: Path) -> None:
    shutil.copytree(run.parent, tmp_path / "results")
    items = next((tmp_path / "results/items/mathtutorbench").glob("*.jsonl"))
    items.unlink()
    write_grades(load_finished_run(tmp_path / "results/report"), tmp_path / "grades.parquet")
    table = pd.read_parquet(tmp_path / "grades.parquet")
    files = (run.parent / "grades/mathtutorbench/_parsers").glob("*.jsonl")
    assert len(table) == sum(len(read_records(path, Grade)) for path in files)
    assert table.problem.isna().any() and set(table[table.problem.isna()].task) == {items.stem}


def test_the_documents_queries_run(run: Path, tmp_path: Path) -> None:
    """docs/exports.md has six queries. The fifth concerns judges, and this run has none."""
    export("tidy", run=run, out=tmp_path)
    [text] = re.findall(
        r"<!-- sql -->\n```sql\n(.*?)```", Path("docs/exports.md").read_text(encoding="utf-8"), re.DOTALL
    )
    queries = [query.strip() for query in text.split(";") if query.strip()]
    with duckdb.connect(str(tmp_path / "maieutic.duckdb"), read_only=True) as connection:
        answers = [connection.execute(query).fetchall() for query in queries]
    assert len(queries) == 6 and all(answers[:4]) and answers[5] and not answers[4], "this run has no judge"


@pytest.mark.parametrize("name", ["tidy", "inspect", "leaderboard", "markdown"])
def test_an_export_that_a_full_disk_ends_leaves_nothing(
    name: str, run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The disk fills up during the export; a file of an earlier export in the same folder is kept."""
    folder = tmp_path / "disk"
    folder.mkdir()
    full = OSError(errno.ENOSPC, "No space left on device", "inside")
    written: list[Path] = []

    def write(format: str, finished_run: object, out: Path) -> list[Path]:
        written.append(out)
        (out if name == "markdown" else out / "half").parent.mkdir(parents=True, exist_ok=True)
        (out if name == "markdown" else out / "half").write_text("half")
        raise full

    (folder / "earlier").write_text("kept")
    monkeypatch.setattr(exporting, "write_format", write)
    problem = rf"{folder}: cannot be written to: .*No space left on device.*free disk space or allow writing there"
    with pytest.raises(UserError, match=problem):
        export(name, run=run, out=folder / "out")
    assert written and [path.name for path in folder.iterdir()] == ["earlier"]


def test_exports_hold_no_control_of_direction(run: Path, tmp_path: Path) -> None:
    """A reply of the hostile tutor contains one, which would reorder the row in a terminal."""
    export("tidy", run=run, out=tmp_path / "tidy")
    export("markdown", run=run, out=tmp_path / "x.md")
    replies = (run.parent / "replies/mathtutorbench/hostile.jsonl").read_text(encoding="utf-8")
    assert "\\u202e" in replies or "\u202e" in replies
    with duckdb.connect(str(tmp_path / "tidy/maieutic.duckdb"), read_only=True) as connection:
        cells = " ".join(map(str, connection.execute("SELECT * FROM grades").fetchall()))
    assert "hostile" in cells
    assert not set(map(chr, DIRECTIONS)) & set(cells + (tmp_path / "x.md").read_text(encoding="utf-8"))


def test_a_row_of_the_papers_table_is_read_as_released(run: Path, tmp_path: Path) -> None:
    export("leaderboard", run=run, out=tmp_path)
    rows = pd.read_csv(tmp_path / "mathtutorbench.csv").set_index("model")
    scores = pd.read_csv(run / "scores.csv")
    picked = scores[(scores.tutor == "always-0") & (scores.scoring == "paper_compat") & (scores.metric == "accuracy")]
    expected = pytest.approx(float(picked[picked.task == "problem_solving"].value.iloc[0]), abs=1e-4)
    assert rows.loc["always-0", "problem_solving/accuracy"] == expected
    assert set(rows.index) == {"reference", "always-0", "m"}, "a hosted model is named as at its endpoint"


def test_the_summary_is_a_table_that_no_name_breaks(run: Path, tmp_path: Path) -> None:
    export("markdown", run=run, out=tmp_path / "summary.md")
    text = (tmp_path / "summary.md").read_text(encoding="utf-8")
    rows = [line for line in text.splitlines() if line.startswith("|")]
    assert len({line.count("|") for line in rows}) == 1 and "<b>" not in text and "\x1b" not in text
    ranking = read_rankings(run)["robust"]
    assert f"**{summary.markdown_cell(ranking.sentence)}.**" in text
    assert "| Always 0 (baseline) |" in text


def test_the_summary_keeps_lights_and_what_is_missing(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    finished_run = load_finished_run(run)
    cards = [loaded.card for loaded in finished_run.plan.cards.values()]
    score = finished_run.headlines("always-0")[0]
    assert summary.score_cell(score.model_copy(update={"missing": 3})).endswith(f"(3 of {score.n + 3} missing)")
    assert summary.score_cell(score.model_copy(update={"value": None, "missing": 3})) == "– (3 missing)"
    assert summary.score_cell(None) == "–"
    monkeypatch.setattr(summary, "headline_grader", lambda plan, card: "always-0")
    monkeypatch.setattr(summary, "kind_on", lambda plan, by, card: "pairs")
    light = Light("amber", "kappa 0.5", "MRBench")
    assert summary.task_heading(finished_run, cards[0], lambda by, kind: light).endswith(", by Always 0 \U0001f7e1")
    [line] = summary.light_lines(finished_run, lambda by, kind: light)
    assert line.startswith("- \U0001f7e1 Always 0, which of two replies is better: ") and "kappa 0.5; MRBench" in line


def test_a_hostile_reply_stands_in_a_log_of_inspect_as_it_is(run: Path, tmp_path: Path) -> None:
    export("inspect", run=run, out=tmp_path / "inspect")
    logs = [json.loads(path.read_text(encoding="utf-8")) for path in (tmp_path / "inspect").glob("*.json")]
    assert len(logs) >= len(TASKS) * len(TUTORS)
    hostile = next(log for log in logs if log["eval"]["metadata"]["tutor"] == "hostile")
    assert hostile["samples"][0]["output"]["choices"][0]["message"]["content"].startswith("</script>")


@pytest.mark.parametrize(("text", "name"), [
    ("../../etc", "_.._etc"), ("a/b c", "a_b_c"), ("", "_"), ("...", "_"), (".X.y", "X.y"),
    ("Qwen2.5-7B", "Qwen2.5-7B"),
])  # fmt: skip
def test_a_hostile_name_leads_nowhere_else(text: str, name: str) -> None:
    assert safe_name(text) == name


def test_a_folder_without_a_run_is_reported(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"expected a run's configuration, found no file\. Fix: .*maieutic runs"):
        load_finished_run(tmp_path)


# a shared run ---------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_shared_run_matches_its_manifest_and_contains_no_other_run(run: Path, shared: Path) -> None:
    digests = dict(reversed(line.split("  ", 1)) for line in (shared / MANIFEST).read_text().splitlines())  # type: ignore[misc]
    files = {str(path.relative_to(shared)) for path in shared.rglob("*") if path.is_file()}
    assert files == {*digests, MANIFEST}
    assert {"README.md", "results/report/index.html", "results/report/config.yaml", "ro-crate-metadata.json"} <= files
    assert "resources/benchmarks/mathtutorbench/problem_solving.yaml" in files, "the card with the tutors' prompt"
    graph = json.loads((shared / "ro-crate-metadata.json").read_text(encoding="utf-8"))["@graph"]
    entities = {entity["@id"]: entity for entity in graph}
    action = entities["#run"]
    assert action["instrument"] == {"@id": "workflow/Snakefile"} and action["agent"] == {"@id": "#A._Reader"}
    page = entities["results/report/index.html"]
    assert page["sha256"] == digests["results/report/index.html"]
    costs = [entity for name, entity in entities.items() if name.startswith("#cost-")]
    assert costs and all("US dollars: not measured" in cost["value"] for cost in costs), "the entry has no price"
    assert entities["#servers-hostile"]["value"] == (
        "start: 0.000 GPU hours, energy in joules 10; busy: 2.000 GPU hours, energy in joules 5400000; "
        "idle: 0.500 GPU hours, energy in joules not measured"
    )
    assert entities["#machine"]["value"] == this_machine().summary
    hostile = entities["#cost-hostile-mathtutorbench"]["value"]
    assert hostile.endswith("GPU hours: 1.000, joules: 2700000"), "a judge of another run used as many tokens"
    verify(shared)


def test_the_cost_of_a_shared_server_is_divided_by_tokens() -> None:
    """Cover a tutor that is also a judge, a model without measured joules, a panel and a hosted model."""
    busy = {"start": 0.1, "busy": 2.0, "idle": 0.5}
    servers = {
        "a": ServerCost(busy, {"start": 1.0, "busy": 900.0, "idle": None}),
        "b": ServerCost(busy, {"start": None, "busy": None, "idle": None}),
    }
    tokens = {"a": 600, "b": 10, "lost": 3}  # half of the tokens of "a" belong to another run
    stages = [
        StageCost("a-x", "a on x", "a", 100, {"requests": 3}),
        StageCost("judge-x", "judge on x", "a", 200, {"questions": 5}), StageCost("b-x", "b on x", "b", 10, {}),
        StageCost("panel-x", "panel on x", "", 0, {}), StageCost("c-x", "c on x", "c", 10, {}),
        StageCost("lost-x", "lost on x", "lost", 10, {}),
    ]  # fmt: skip
    servers["lost"] = servers["a"]
    shares = {stage.name: quantities for stage, quantities in with_server_shares(stages, servers, tokens)}
    assert shares["a-x"] == {"requests": 3, "GPU hours": pytest.approx(1 / 3), "joules": pytest.approx(150)}
    assert shares["judge-x"]["joules"] == pytest.approx(300) and shares["judge-x"]["questions"] == 5
    assert shares["lost-x"] == {"GPU hours": None, "joules": None}, "a line of its ledger is lost"
    assert shares["b-x"] == {"GPU hours": 2.0, "joules": None}
    assert shares["panel-x"] == shares["c-x"] == {"GPU hours": None, "joules": None}
    assert format_quantities(shares["a-x"]) == "requests: 3, GPU hours: 0.333, joules: 150"


@pytest.mark.parametrize(("why", "cpuinfo", "meminfo", "processor", "memory"), [
    ("Linux", "processor\t: 0\nmodel name\t: A chip: 2\n", "MemTotal:  25165824 kB\n", "A chip: 2", 24.0),
    ("a processor without a name", "processor : 0\n", "MemTotal: 1048576 kB\n", platform.machine(), 1.0),
    ("garbage", "\xff\x00", "MemTotal: much kB", platform.machine(), None),
    ("no such files", None, None, platform.machine(), None),
])  # fmt: skip
def test_a_machine_is_described_by_proc(
    why: str, cpuinfo: str | None, meminfo: str | None, processor: str, memory: float | None, tmp_path: Path
) -> None:
    for name, text in (("cpuinfo", cpuinfo), ("meminfo", meminfo)):
        if text is not None:
            (tmp_path / name).write_text(text, encoding="latin-1")
    machine = this_machine(tmp_path)
    assert (machine.processor, machine.memory_gib) == (processor, memory), why
    assert machine.cores == len(os.sched_getaffinity(0)) and machine.summary.count(",") == 2


@pytest.mark.parametrize(("why", "cpuinfo", "computes"), [
    ("AVX-512", "processor : 0\nflags : fpu avx512f avx512_bf16 sse\n", True),
    ("AMX", "flags\t\t: amx_tile amx_bf16\n", True),
    ("Arm", "Features : fp asimd bf16 i8mm\n", True),
    ("AVX-512 without bfloat16", "flags : fpu avx512f avx512dq\n", False),
    ("the word in other fields", "model name : bf16 avx512_bf16\nflags : fpu\nbugs : bf16\n", False),
    ("flags of the second processor", "flags : fpu\nflags : avx512_bf16\n", True),
    ("no such file", None, False),
])  # fmt: skip
def test_bfloat16_is_read_from_the_processors_flags(
    why: str, cpuinfo: str | None, computes: bool, tmp_path: Path
) -> None:
    if cpuinfo is not None:
        (tmp_path / "cpuinfo").write_text(cpuinfo, encoding="utf-8")
    assert has_bfloat16(tmp_path) is computes, why


@pytest.mark.slow
def test_an_archive_lies_beside_a_folder_of_its_name(run: Path, tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run/mine").write_text("kept")
    share(run=run, out=tmp_path / "run.zip")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["run", "run.zip"], "no other file is left"
    assert [path.name for path in (tmp_path / "run").iterdir()] == ["mine"]
    problem = r"none\.zip: not found\. Fix: pass the folder or \.zip file that maieutic share wrote"
    with pytest.raises(UserError, match=problem):
        verify(tmp_path / "none.zip")


def rewrite(path: Path, change: Callable[[str], str]) -> None:
    path.write_text(change(path.read_text(encoding="utf-8")), encoding="utf-8")


def update_checksum(folder: Path, name: str) -> None:
    """Write a changed file's checksum into the manifest, so that the change passes the check of checksums."""
    digest = hashlib.sha256((folder / name).read_bytes()).hexdigest()
    lines = (folder / MANIFEST).read_text().splitlines()
    (folder / MANIFEST).write_text(
        "".join(f"{digest if line.endswith(f'  {name}') else line[:64]}  {line[66:]}\n" for line in lines)
    )


SCORES = "results/scores/mathtutorbench/always-0.json"
PARSED = "results/grades/mathtutorbench/_parsers/always-0.jsonl"


@pytest.mark.parametrize(("why", "change", "message"), [
    ("altered", lambda folder: rewrite(folder / SCORES, lambda text: text.replace("0.0", "0.9", 1)), f"{SCORES} was altered"),
    ("removed", lambda folder: (folder / PARSED).unlink(), f"{PARSED} is missing"),
    ("added", lambda folder: (folder / "more.txt").write_text("x"), "more.txt was added"),
    ("no manifest", lambda folder: (folder / MANIFEST).unlink(), f"it has no {MANIFEST}"),
])  # fmt: skip
def test_files_that_are_not_as_sent_are_named(
    why: str, change: Callable[[Path], object], message: str, shared: Path, tmp_path: Path
) -> None:
    shutil.copytree(shared, tmp_path / "run")
    change(tmp_path / "run")
    with pytest.raises(UserError, match=message):
        verify(tmp_path / "run")


def test_a_score_that_does_not_follow_from_its_grades_is_found_whatever_the_manifest_says(
    shared: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "run"
    shutil.copytree(shared, folder)
    scores = json.loads((folder / SCORES).read_text())
    position = next(index for index, score in enumerate(scores) if score["value"] == 0.0 and score["headline"])
    scores[position]["value"] = 0.25
    (folder / SCORES).write_text(json.dumps(scores))
    update_checksum(folder, SCORES)
    with pytest.raises(UserError) as caught:
        verify(folder)
    assert f"was altered: {SCORES}: record {position + 1}, value: found 0.25, recomputed 0.0" in str(caught.value)


def test_a_grade_that_does_not_follow_from_its_reply_is_found(shared: Path, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    shutil.copytree(shared, folder)
    rewrite(folder / PARSED, lambda text: text.replace('"correct":false', '"correct":true'))
    update_checksum(folder, PARSED)
    with pytest.raises(UserError) as caught:
        verify(folder)
    faults = [fault.line for fault in caught.value.all]
    assert f"was altered: {PARSED}: record 1, correct: found True" in faults[0] and any(
        SCORES in line for line in faults
    ), "all faults are listed at once"


def test_an_archive_that_leads_out_of_its_folder_is_not_unpacked(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "evil.zip", "w") as archive:
        archive.writestr("../outside.txt", "x")
    with pytest.raises(UserError, match="leads out of the run's folder"):
        verify(tmp_path / "evil.zip")
    (tmp_path / "text.zip").write_text("no archive")
    with pytest.raises(UserError, match=r"expected a folder or a \.zip file"):
        verify(tmp_path / "text.zip")
    assert not (tmp_path.parent / "outside.txt").exists()


@pytest.mark.slow
def test_a_key_in_a_file_stops_the_sharing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The key may also be in an answer in which a server repeated it."""
    results = tmp_path / "results"
    config = configuration(tutors=["hostile"])
    entry = config.models["hostile"].model_copy(update={"key_env": "MY_TEST_KEY"})
    finished(results, config.model_copy(update={"models": {**config.models, "hostile": entry}}))
    key = "sk-0123456789abcdef"
    monkeypatch.setenv("MY_TEST_KEY", key)
    share(run=results / "report", out=tmp_path / "clean")
    rewrite(results / "replies/mathtutorbench/hostile.jsonl", lambda text: text.replace("onerror", key, 1))
    with pytest.raises(UserError) as caught:
        share(run=results / "report", out=tmp_path / "leaking")
    assert "replies/mathtutorbench/hostile.jsonl contains the value of MY_TEST_KEY" in str(caught.value)
    other = tmp_path / "other"
    shutil.copytree(tmp_path / "results", other / "results")
    rewrite(other / "results/replies/mathtutorbench/hostile.jsonl", lambda text: text.replace(key, "onerror"))
    monkeypatch.setenv("SOME_SERVICE_TOKEN", "not-of-a-model-1234")
    encoded = base64.b64encode(b"user:not-of-a-model-1234").decode()
    for text, message in (
        (encoded, "a key of this environment"),
        ("Bearer abcdefghijklmnop1234", "text that looks like a key"),
    ):
        rewrite(other / "results/report/runtime.csv", lambda _, text=text: f"{'x' * 20_000_000} {text}")
        with pytest.raises(UserError, match=rf"runtime\.csv contains {message}"):
            share(run=other / "results/report", out=tmp_path / "leaking")
    assert key not in str(caught.value) and not (tmp_path / "leaking").exists()


def test_a_run_that_is_not_whole_is_not_shared(run: Path, tmp_path: Path) -> None:
    shutil.copytree(run.parent, tmp_path / "results")
    (tmp_path / "results/scores/mathtutorbench/always-0.json").unlink()
    problem = r"expected all files of the run, did not find results/scores/mathtutorbench/always-0\.json"
    with pytest.raises(UserError, match=problem):
        share(run=tmp_path / "results/report", out=tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(("first", "second", "equal"), [
    (0.1, 0.1 + 1e-12, True), (0.1, 0.1001, False), (1.0, 1, True), (None, 0.0, False), ("a", "a", True),
    (True, True, True),
])  # fmt: skip
def test_numbers_are_the_same_but_for_their_last_digits(first: object, second: object, equal: bool) -> None:
    assert nearly_equal(first, second) is equal


# two runs -------------------------------------------------------------------------------------------------------------


def test_two_runs_differ_by_what_was_changed(run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One reply, its grade and the seed differ; everything else is the same."""
    later = tmp_path / "results"
    shutil.copytree(run.parent, later)
    rewrite(later / "report/config.yaml", lambda text: text.replace("seed: ", "seed: 1", 1))
    replies = later / "replies/mathtutorbench/always-0.jsonl"
    rewrite(replies, lambda text: text.replace('"text":"0"', '"text":"7"', 1))
    compare(run, later / "report", page=tmp_path / "compare.html")
    output = capsys.readouterr().out
    assert "run.seed: " in output and "1 of " in output and "shared replies differ" in output
    page = (tmp_path / "compare.html").read_text(encoding="utf-8")
    assert "run.seed: " in page and "another grade" not in page, "the reply differs, its grade does not"
    grades = later / "grades/mathtutorbench/_parsers/always-0.jsonl"
    right = '"scoring":"robust","criterion":null,"value":0,"correct":true'
    assert right in grades.read_text(encoding="utf-8")
    rewrite(grades, lambda text: text.replace(right, right.replace("true", "false"), 1))
    compare(run, later / "report", page=tmp_path / "compare.html")
    page = (tmp_path / "compare.html").read_text(encoding="utf-8")
    assert "1 item with another grade" in page and "right \u2192 wrong: " in page and page.count("<article>") == 2
    capsys.readouterr()
    compare(run, run, page=tmp_path / "compare.html")
    output = capsys.readouterr().out
    assert output.count("  the same") == 3 and " to " in output and "0.000" in output and "\x1b" not in output
    assert not any(word in output for word in ("BETTER", "WORSE", "another", "changed"))


GATES: list[tuple[str, float, float, float, int, str]] = [
    ("no loss beyond the margin", 0.0, 0.01, 0.03, 0, "passed, 0.000 [-0.020, 0.020] lies above -0.03"),
    ("worse beyond chance", -0.2, 0.01, 0.03, 3, "worse, -0.200 [-0.220, -0.180] lies below 0"),
    ("worse beyond chance, but within the margin", -0.03, 0.01, 0.1, 0, "passed"),
    ("open", -0.01, 0.05, 0.03, 4, "items would decide"),
    ("without an interval", 0.0, 0.0, 0.03, 4, "open"),
]


@pytest.mark.parametrize(("why", "gain", "error", "margin", "code", "line"), GATES, ids=[case[0] for case in GATES])
def test_a_gate_decides_by_the_interval(
    why: str, gain: float, error: float, margin: float, code: int, line: str, run: Path
) -> None:
    finished_run = load_finished_run(run)
    card = next(loaded.card for loaded in finished_run.plan.cards.values() if loaded.card.task == "problem_solving")
    [score] = [score for score in finished_run.headlines("always-0") if score.task == card.task]
    difference = Difference(
        benchmark=card.benchmark, task=card.task, first="later", second="earlier", metric="accuracy", criterion=None,
        by=None, scoring="robust", value=gain, low=None, high=None, p=None, n=400, clusters=400,
        centre=gain if error else None, error=error or None, largest=1.0,
    )  # fmt: skip
    change = ScoreChange(card, "Always 0", score, score, difference)
    decision, [printed] = decide_gate([change], "mathtutorbench/problem_solving", margin)
    assert decision == code and line in printed, why
    lost = ScoreChange(card, "Always 0", score, None, "no score in the second run")
    decision, [printed] = decide_gate([lost], "accuracy", 1.0)
    assert decision == 4 and printed.endswith("open, no score in the second run"), "a lost score is no pass"
    with pytest.raises(UserError, match="no score of both runs is named bleu"):
        decide_gate([change], "bleu", margin)


def test_the_gate_of_equal_runs_is_an_exit_code(run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    compare(run, run, gate="problem_solving", page=tmp_path / "compare.html")
    assert "passed" in capsys.readouterr().out, "the same grades are no loss, whatever the margin is"
    with pytest.raises(UserError, match="no score of both runs is named nothing"):
        compare(run, run, gate="nothing", page=tmp_path / "compare.html")


def test_a_shared_run_is_compared_as_a_folder_or_an_archive(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Compare a folder or an archive of `maieutic share` with a run of this machine."""
    share(run=run, out=tmp_path / "shared.zip")
    share(run=run, out=tmp_path / "shared")
    for place in (tmp_path / "shared.zip", tmp_path / "shared"):
        compare(place, run, page=tmp_path / "compare.html")
        assert capsys.readouterr().out.count("  the same") == 3
    with pytest.raises(UserError, match="expected the folder of one run, found 0 runs"):
        compare(tmp_path, run, page=tmp_path / "compare.html")
    with pytest.raises(UserError, match=r"expected a folder or a .zip file, found .gz. Fix: pass --out .*shared.zip"):
        share(run=run, out=tmp_path / "shared.tar.gz")


def test_a_run_is_compared_by_its_name(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(run.parent, tmp_path / "results")
    (tmp_path / "results/runs").mkdir()
    (tmp_path / "results/report").rename(tmp_path / "results/runs/trial")
    for name in ("resources", "config"):
        (tmp_path / name).symlink_to(Path(name).resolve())
    monkeypatch.chdir(tmp_path)
    compare(Path("trial"), Path("trial"), page=tmp_path / "compare.html")
    assert capsys.readouterr().out.count("  the same") == 3


def test_scores_of_fewer_items_are_not_taken_for_a_runs_own() -> None:
    """The value of a later run with a smaller limit may be equal: only n and the interval differ."""
    row = ["x"] * (len(COMPARED_COLUMNS) - 4)
    kept, later = ([COMPARED_COLUMNS, [*row, "0.0", "0.0", *cells]] for cells in (("0.71", "3"), ("0.84", "2")))
    assert table_difference(kept, later) == f"row {'/'.join(row)}, high: found '0.71', recomputed '0.84'"
    assert table_difference(kept, kept) is None


@pytest.mark.parametrize(("readers", "line"), [
    ({"step": 99}, f"parser step: version {GRADERS['step'].version} -> 99, so the same reply may get a different grade"),
    ({}, "parsers: versions not recorded in the second run, so grades may differ"),
])  # fmt: skip
def test_other_versions_of_parsers_are_reported(
    readers: dict[str, int], line: str, run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(run.parent, tmp_path / "results")
    record = json.loads((run / "provenance.json").read_text(encoding="utf-8"))
    assert record["readers"]["step"] == GRADERS["step"].version
    (tmp_path / "results/report/provenance.json").write_text(json.dumps({**record, "readers": readers}))
    compare(run, tmp_path / "results/report", page=tmp_path / "compare.html")
    assert line in " ".join(capsys.readouterr().out.split())


def test_a_run_whose_results_a_later_run_replaced_is_refused(run: Path, tmp_path: Path) -> None:
    """Runs of one folder share replies and scores; an older run's own tables contain its own values."""
    shutil.copytree(run.parent, tmp_path / "results")
    path = tmp_path / SCORES
    scores = json.loads(path.read_text())
    position = next(index for index, score in enumerate(scores) if score["value"] == 0.0 and score["headline"])
    scores[position]["value"] = 0.25
    path.write_text(json.dumps(scores))
    problem = r"which a later run replaced: row .*always-0.*, value: found .0\.0.*, recomputed .0\.25"
    with pytest.raises(UserError, match=problem):
        export("markdown", run=tmp_path / "results/report", out=tmp_path / "x.md")
    with pytest.raises(UserError, match=r"run the workflow of this run again, which repeats no finished request"):
        share(run=tmp_path / "results/report", out=tmp_path / "shared")


def test_a_run_that_keeps_its_files_is_exported_and_shared_after_others_replaced_them(
    run: Path, tmp_path: Path
) -> None:
    results = tmp_path / "results"
    shutil.copytree(run.parent, results)
    own_folder = results / "report"
    keep_run(config=own_folder / "config.yaml", results=results, out=own_folder / "kept")
    for name, other in (("before", False), ("after", True)):
        if other:  # as jobs of another run do: files are replaced, and lines appended to journals and logs
            kept = own_folder / "kept"
            for path in (path for path in results.rglob("*") if path.is_file() and not path.is_relative_to(own_folder)):
                if path.relative_to(results).parts[0] in {"journal", "logs"}:
                    with open(path, "a", encoding="utf-8") as handle:
                        handle.write('{"of": "REPLACED"}\n')
                else:
                    write_text(path, "REPLACED")
            assert not any(
                "REPLACED" in path.read_text("utf-8", "replace") for path in kept.rglob("*") if path.is_file()
            )
        for kind in ("tidy", "inspect", "markdown", "leaderboard"):
            export(kind, run=own_folder, out=tmp_path / f"{name}-{kind}")  # type: ignore[arg-type]
        share(run=own_folder, out=tmp_path / f"{name}-shared")
        assert verify(tmp_path / f"{name}-shared") is None
    assert (tmp_path / "before-markdown").read_bytes() == (tmp_path / "after-markdown").read_bytes()
    names = [
        {str(path.relative_to(tmp_path / f)) for path in (tmp_path / f).rglob("*")}
        for f in ("before-shared", "after-shared")
    ]
    assert names[0] == names[1] and not any("kept" in Path(name).parts for name in names[0])


def test_kept_files_of_a_received_run_are_not_read(shared: Path, tmp_path: Path) -> None:
    """They are in no manifest of ours; what `verify` recomputes and what `compare` reads must be the same files."""
    own_folder = tmp_path / "shared/results/report"
    shutil.copytree(shared, tmp_path / "shared")
    assert kept_files(own_folder) is None
    shutil.copytree(tmp_path / "shared/results/scores", own_folder / "kept/scores")
    assert kept_files(own_folder) is None
    (tmp_path / "shared/manifest-sha256.txt").unlink()
    assert kept_files(own_folder) == own_folder / "kept"


def test_files_are_kept_where_links_are_impossible_and_of_a_run_without_scores_none(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(18, "Invalid cross-device link")

    monkeypatch.setattr(os, "link", refuse)
    results = tmp_path / "results"
    shutil.copytree(run.parent, results)
    own_folder = results / "report"
    keep_run(config=own_folder / "config.yaml", results=results, out=own_folder / "kept")
    assert kept_files(own_folder) == own_folder / "kept"
    shutil.rmtree(results / "scores")
    keep_run(config=own_folder / "config.yaml", results=results, out=own_folder / "kept")
    assert (own_folder / "kept").is_dir() and kept_files(own_folder) is None


def test_only_what_is_of_the_run_is_shared(run: Path, tmp_path: Path) -> None:
    """No hidden file, leftover, journal of a tutor outside the run, or link that points outside is shared."""
    results = tmp_path / "results"
    shutil.copytree(run.parent, results)
    (results / "report/.notes.txt").write_text("private")
    (results / "report/partial").mkdir()
    (results / "report/partial/index.html").write_text("an earlier page")
    for name in ("always-0", "secret-product"):
        journal = results / f"journal/replies/mathtutorbench/{name}.jsonl"
        journal.parent.mkdir(parents=True, exist_ok=True)
        journal.write_text("{}\n")
    share(run=results / "report", out=tmp_path / "out", journals=True)
    names = {path.name for path in (tmp_path / "out").rglob("*")}
    assert not {".notes.txt", "partial", "secret-product.jsonl"} & names
    assert (tmp_path / "out/results/journal/replies/mathtutorbench/always-0.jsonl").is_file()
    (tmp_path / "elsewhere.csv").write_text("private")
    (results / "report/runtime.csv").unlink()
    (results / "report/runtime.csv").symlink_to(tmp_path / "elsewhere.csv")
    problem = r"results/report/runtime\.csv: is a link that points outside the results folder"
    with pytest.raises(UserError, match=problem):
        share(run=results / "report", out=tmp_path / "more")


@pytest.mark.slow
@pytest.mark.parametrize(("why", "change", "message"), [
    ("a changed table", lambda folder: rewrite(folder / "results/report/scores.csv", lambda text: text.replace(",1.0,", ",0.5,", 1)), r"was altered: scores\.csv: row mathtutorbench"),
    ("broken JSON", lambda folder: (folder / SCORES).write_text("[{"), "JSONDecodeError"),
    ("no scores", lambda folder: (folder / SCORES).write_text("[]"), "found 0 records, recomputed"),
    ("a configuration that is a list", lambda folder: (folder / "results/report/config.yaml").write_text("[]"), "cannot be recomputed"),
])  # fmt: skip
def test_a_change_with_a_new_checksum_is_reported_in_a_line(
    why: str, change: Callable[[Path], object], message: str, shared: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "run"
    shutil.copytree(shared, folder)
    change(folder)
    for name in (SCORES, "results/report/scores.csv", "results/report/config.yaml"):
        update_checksum(folder, name)
    with pytest.raises(UserError, match=message):
        verify(folder)


def test_a_damaged_archive_and_a_link_are_reported_in_a_line(shared: Path, run: Path, tmp_path: Path) -> None:
    share(run=run, out=tmp_path / "run.zip")
    data = bytearray((tmp_path / "run.zip").read_bytes())
    for offset in range(3000, 3400):
        data[offset] ^= 0xFF
    (tmp_path / "run.zip").write_bytes(bytes(data))
    with pytest.raises(UserError, match=r"cannot be unpacked|leads out"):
        verify(tmp_path / "run.zip")
    shutil.copytree(shared, tmp_path / "run")
    (tmp_path / "run/more").symlink_to("/etc")
    with pytest.raises(UserError, match="more is a link"):
        verify(tmp_path / "run")


@pytest.mark.slow
def test_a_shared_run_is_verified_without_its_senders_files(run: Path, tmp_path: Path) -> None:
    """Only the sender has the folder of data and the file of labels."""
    shutil.copytree(run.parent, tmp_path / "sent/results")
    run_folder = tmp_path / "sent/results/report"
    rewrite(
        run_folder / "config.yaml",
        lambda text: text.replace("data_dir: null", "data_dir: /data/tutoring").replace(
            "human_labels: null", "human_labels: people.csv"
        ),
    )
    assert "/data/tutoring" in (run_folder / "config.yaml").read_text()
    labels = paths.OWN_LABELS.within(run_folder.parent)
    labels.parent.mkdir(exist_ok=True)
    labels.write_text("")
    provenance = read_provenance(run_folder / "provenance.json")
    write_report(plan_of_run(run_folder), provenance, run_folder.parent, run_folder)
    share(run=run_folder, out=tmp_path / "run")
    shutil.rmtree(tmp_path / "sent")
    verify(tmp_path / "run")
    export("markdown", run=tmp_path / "run/results/report", out=tmp_path / "x.md")
