"""Tests of a run's display: progress files of jobs, rows of models, the logger plugin, and the live page."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from conftest import enter_checkout
from maieutic.core import paths
from maieutic.core.errors import PENDING_PLACE
from maieutic.core.files import write_text
from maieutic.core.journal import FailedRequests, FinishedRequest, Journal
from maieutic.core.progress import (
    LONGEST_ANSWER,
    JobProgress,
    JournalProgress,
    LiveRun,
    ProgressFile,
    WorkProgress,
    read_progress,
)
from maieutic.core.records import Item, write_records
from maieutic.launch.display import RunDisplay
from maieutic.launch.lengths import known
from maieutic.launch.messages import ranked_line
from maieutic.launch.requests import NewRequests
from maieutic.launch.watch import Cost, RunWatch, WatchedJob, remove_old_progress
from maieutic.plan.rules import RulePlan
from maieutic.run_plan import plan_of
from maieutic.tools import live
from run_configs import HOSTED, NOBODY
from shipped import shipped

LOG = Path("results/logs/generate_replies/mathtutorbench/far.log")
JOURNAL = "results/journal/replies/mathtutorbench/far.jsonl"
FILE = Path("results/progress/generate_replies/mathtutorbench/far.json")


@pytest.fixture(autouse=True)
def without_results(at_root: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    enter_checkout(tmp_path, monkeypatch)


def plan() -> RulePlan:
    """Return a plan of a hosted tutor `far` (1 and 2 USD a million tokens) that solves the demo's problems."""
    config = shipped()
    config["models"]["far"] = {**HOSTED, "price": {"input": 1, "output": 2}}
    config["run"] |= {"tutors": ["far"], "tasks": ["mathtutorbench/problem_solving"], "reward_models": [], "judges": []}
    config["run"] |= {"reward_comparisons": [], "classifiers": [], "budget": {"usd": 3}}
    return plan_of(config)


def job_of(number: int, rule: str, log: Path, **params: str) -> Any:
    """Return a planned job of Snakemake."""
    wildcards = {"benchmark": "mathtutorbench", "tutor": "far"}
    return SimpleNamespace(
        jobid=number, rule=SimpleNamespace(name=rule), wildcards=wildcards, log=[log], params=params,
        resources={"server_gpus": 0} if params else {},
    )  # fmt: skip


def watch_of(plan: RulePlan, times: Sequence[float] = (0.0,) * 9) -> RunWatch:
    """Return the watch of a run with a job that asks `far` 400 times and one that scores it. times: of readings."""
    jobs = [
        job_of(1, "generate_replies_locally", LOG, journal=JOURNAL),
        job_of(2, "score_replies", Path("results/logs/s.log")),
    ]
    return RunWatch(
        plan,
        jobs,
        [NewRequests("tutors", "far", "far", 400, 1e6, known(1e6), exact=False)],
        since=0.0,
        clock=iter(times).__next__,
    )


def report(answered: int, at: float, **more: Any) -> None:
    """Write the progress file of the job that asks `far`, in a version of the time `at`."""
    counts = JournalProgress(requests=answered, prompt_tokens=answered * 1000, completion_tokens=answered * 500)
    work = WorkProgress(title="far", unit="items", done=answered, total=100)
    content = JobProgress(time=at, ended=False, work=[work], journals={JOURNAL: counts}, **more)
    write_text(FILE, content.model_dump_json())


def test_a_model_has_its_requests_rate_time_left_cost_and_failures() -> None:
    watch = watch_of(plan(), [100.0, 110.0, 190.0, 200.0])
    assert watch.head() == "0 of 2 jobs, 0 of about 400 requests"
    watch.start([1])
    report(0, at=100.0)
    watch.read()
    report(50, at=110.0, failed_tries={"429": 3, "503": 1}, missing={"refused": 2}, notices=["429 Rate limit, try 1"])
    watch.jobs[1].read_at = 0.0
    assert watch.read() == ["generate_replies mathtutorbench far: 429 Rate limit, try 1"]
    [row] = watch.rows()
    assert row.text() == "50 of about 400 requests, 5.0/s, 1:10 left, 0.10 USD, 4 failed tries (429, 503), 2 refused"
    head = "0 of 2 jobs (generate_replies), 50 of about 400 requests, 5.0/s, 1:10 left, 0.10 of 3 USD, 4 failed tries, 2 refused"
    assert watch.head() == head
    report(450, at=190.0, notices=["429 Rate limit, try 100"])
    watch.finish(1)
    assert watch.rows()[0].text().startswith("450 requests, 0.90 USD"), "more requests than estimated"
    assert watch.read() == [], "a notice that differs in a number alone is printed once"


def test_a_failure_is_told_once_with_cause_fix_and_log_and_a_pending_batch_is_none() -> None:
    watch = watch_of(plan())
    watch.start([1, 2])
    write_text(LOG, "12:00:00 ERROR models.far: no credit. Fix: add credit\n")
    [line] = watch.fail(1, {})
    assert line == f"failed: generate_replies mathtutorbench far: models.far: no credit. Fix: add credit (log: {LOG})"
    assert watch.fail(1, {}) == [] and watch.count("failed") == 1 and watch.fail(77, {}) == []
    write_text(
        Path("results/logs/s.log"), f"12:00:00 ERROR {PENDING_PLACE}: 3 of 9 items have no answer yet. Fix: run again\n"
    )
    assert watch.fail(2, {}) == []
    assert watch.head().endswith("1 failed jobs, 1 jobs wait for batches")
    write_text(LOG, "12:00:00 ERROR run.budget.usd: 3 USD are spent. Fix: raise it\n")
    assert watch.fail(1, {}) == [
        "stopped: generate_replies mathtutorbench far: run.budget.usd: 3 USD are spent. Fix: raise it"
    ]
    assert watch.head().endswith("0 of about 400 requests, 1 jobs stopped by the budget, 1 jobs wait for batches")
    watch.finish(1)
    assert watch.failures == {}, "a later attempt has succeeded"


def test_files_of_an_earlier_run_do_not_count() -> None:
    report(9, at=1.0)
    write_text(Path(paths.LIVE_PAGE), "The run has ended")
    remove_old_progress()
    watch = watch_of(plan())
    watch.start([1])
    assert watch.read() == [] and watch.rows()[0].done == 0 and not Path(paths.LIVE_PAGE).exists()
    FILE.parent.mkdir(parents=True)
    FILE.write_text("{", encoding="utf-8")
    assert watch.read() == [] and watch.rows()[0].done == 0, "a damaged file is no progress"


def test_the_answers_of_an_earlier_attempt_of_a_job_are_counted_too() -> None:
    watch = watch_of(plan())
    watch.start([1])
    for answered in (40, 10):
        report(answered, at=1.0)
        watch.jobs[1].read_at = 0.0
        watch.read()
    [row] = watch.rows()
    assert row.done == 50 and row.cost == Cost(0.1) and row.rate == 0.0


def test_answers_without_usage_make_a_cost_a_lower_bound() -> None:
    watch = watch_of(plan())
    watch.start([1])
    report(1, at=1.0)
    text = FILE.read_text(encoding="utf-8").replace('"unreported":0', '"unreported":1')
    FILE.write_text(text, encoding="utf-8")
    watch.read()
    assert "at least 0.00 of 3 USD" in watch.head() and "at least 0.00 USD" in watch.rows()[0].text()


def test_both_sides_of_a_simulation_and_one_journal_of_several_models_are_told_apart() -> None:
    """Each side has a row and a price of its own; a journal that several models share has no price."""
    config = shipped()
    config["models"] |= {"far": {**HOSTED, "price": {"input": 1, "output": 2}}, "pupil": HOSTED}
    config["simulations"] = {"s": {"student": "pupil", "task": "mathtutorbench/mistake_correction"}}
    config["run"] |= {**NOBODY, "tutors": ["far"], "tasks": ["mathtutorbench/mistake_correction"], "limit": None}
    plan = plan_of(config)
    job = job_of(1, "simulate_conversations", LOG, journal="a.jsonl", student_journal="b.jsonl")
    job.wildcards = {"simulation": "s", "tutor": "far"}
    watched = WatchedJob(plan, job)
    assert watched.owners == {"a.jsonl": "far", "b.jsonl": "pupil"} == watched.models
    job.params = {"journal": "a.jsonl"}
    assert WatchedJob(plan, job).models == {}


def test_a_job_reports_answers_tries_and_warnings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = ProgressFile()
    monkeypatch.setattr("maieutic.core.journal.PROGRESS_FILE", file)
    entry = FinishedRequest(key="a", text="4", prompt_tokens=7, completion_tokens=2, seconds=1, attempts=1)
    journal = tmp_path / "far.jsonl"
    with Journal(journal, FinishedRequest) as kept:
        kept.append(entry)
        assert file.journals == {}, "a command without a log has no progress file"
        file.path = FILE
        kept.append(entry, entry.model_copy(update={"key": "b", "error": "400: no", "prompt_tokens": None}))
        FailedRequests(journal, asks_again=False).add(entry.model_copy(update={"key": "c", "error": "failed: 500"}))
    file.note("late", is_warning=True)
    content = read_progress(FILE)
    assert content is not None and content.notices == ["late"] and not content.ended
    assert content.journals[str(journal)] == JournalProgress(requests=1, completion_tokens=2)
    assert content.missing == {"refused": 1, "failed": 1} and [answer.key for answer in content.latest] == ["b"]


def test_the_jobs_of_a_group_have_started_once_it_is_submitted() -> None:
    display = RunDisplay(watch_of(plan()), is_terminal=False, reasons={})
    try:
        jobs = [watched.job for watched in display.watch.jobs.values()]
        display.emit(
            logging.makeLogRecord({"event": "job_started", "jobs": ["a group's name"], "levelno": logging.INFO})
        )
        assert display.watch.count("running") == 0
        display.emit(logging.makeLogRecord({"event": "group_info", "jobs": jobs, "levelno": logging.INFO}))
        assert display.watch.count("running") == len(jobs) > 0
    finally:
        display.end()


def test_the_display_writes_the_state_of_the_run_for_the_live_page(capsys: pytest.CaptureFixture[str]) -> None:
    display = RunDisplay(watch_of(plan()), is_terminal=False, reasons={})
    display.emit(logging.makeLogRecord({"event": "job_started", "jobs": [1], "levelno": logging.INFO}))
    write_text(LOG, "12:00:00 ERROR models.far: no credit. Fix: add credit\n")
    failed = {"event": "job_error", "jobid": 1, "levelno": logging.ERROR, "msg": "RuleException in set -euo"}
    display.emit(logging.makeLogRecord(failed))
    display.emit(
        logging.makeLogRecord({"levelno": logging.ERROR, "msg": "Exiting because a job execution failed. Look"})
    )
    display.emit(logging.makeLogRecord({"levelno": logging.WARNING, "msg": "the disk is nearly full"}))
    display.emit(logging.makeLogRecord({"levelno": logging.INFO, "msg": "Select jobs to execute..."}))
    display.end()
    display.write_last_state("results/report/index.html")
    printed = capsys.readouterr().err.splitlines()
    assert len(printed) == 2 and printed[0].startswith("failed: ") and printed[1] == "the disk is nearly full"
    state = LiveRun.model_validate_json(Path(paths.LIVE_STATE).read_bytes())
    assert state.ended and state.page and len(state.failures) == 1 and state.rows[0].name == "far"


def write_run(monkeypatch: pytest.MonkeyPatch) -> str:
    """Write a run in progress with one item and one answer about it, whose request key is returned."""
    item = Item(
        id="1",
        task="problem_solving",
        cluster="1",
        vars={"question": "What is 2 + 2 <b>?", "problem": "What is 2+2 <b>"},
        reference={"answer": 4.0, "solution": "4"},
    )
    write_records(Path(paths.ITEMS.of(benchmark="mathtutorbench", task="problem_solving")), [item])
    keys = live.LatestAnswers(plan()).questions_of("mathtutorbench", "far")
    [key] = keys
    assert keys[key].text == "What is 2 + 2 <b>?", "each text once"
    return key


def test_the_live_page_shows_replies_with_what_the_parsers_read(monkeypatch: pytest.MonkeyPatch) -> None:
    key = write_run(monkeypatch)
    monkeypatch.setattr(live, "unchecked_plan", lambda raw: plan())
    monkeypatch.setattr(live, "tie_to_parent", lambda: None)
    monkeypatch.setattr(live.os, "nice", lambda number: None)
    long = "We add. " * 300  # the progress file has only its beginning
    texts = {
        long[:LONGEST_ANSWER]: "not parsed here: only the beginning",
        "Final answer: 4": "right",
        "Final answer: 5": "wrong",
        "I cannot say. <|im_end|>": "not read",
    }
    latest = [
        {"key": key, "time": 100.0 + number, "text": text, "tokens": 3, "error": None}
        for number, text in enumerate(texts)
    ]
    report(3, at=1.0, latest=[*latest, {"key": "other", "time": 1.0, "text": "<script>", "tokens": 1, "error": None}])
    state = LiveRun(
        time=0.0,
        ended=True,
        head="1 of 2 jobs",
        rows=[],
        failures=["failed: <x>"],
        notices=[],
        page="results/report/index.html",
    )
    write_text(Path(paths.LIVE_STATE), state.model_dump_json())
    write_text(Path(paths.RUN_CONFIG), json.dumps({"run": {}}))
    live.live()
    page = Path(paths.LIVE_PAGE).read_text(encoding="utf-8")
    parts = page.split("<article>")[1:]
    for part, (text, reading) in zip(parts, reversed(texts.items()), strict=False):
        assert text.replace("<", "&lt;").replace(">", "&gt;") in part and reading in part, part
    assert 'class="reading unread"' in parts[0] and "a turn of a conversation" in parts[4]
    assert "<script>" not in page and "<b>" not in parts[0].replace("<b>far</b>", "") and "failed: &lt;x&gt;" in page
    assert "refresh" not in page and 'href="report/index.html"' in page


@pytest.mark.parametrize(("tutor", "line"), [
    ({"tutor": "a", "best": 1, "worst": 1, "above_floor": 3, "with_floor": 4}, "  1 of 3  a, above the floor on 3 of 4 tasks"),
    ({"tutor": "b\x1b", "best": 1, "worst": 3, "above_floor": 0, "with_floor": 0}, "  1 to 3 of 3  b␛"),
])  # fmt: skip
def test_a_ranked_tutor_is_one_line(tutor: dict[str, Any], line: str) -> None:
    assert ranked_line(tutor, 3) == line


@pytest.fixture
def handler() -> Any:
    """Return the logger plugin's handler for a run with the usual settings, which writes to a buffer."""
    from snakemake_logger_plugin_maieutic import LogHandler

    quiet: set[Any] = set()
    common = SimpleNamespace(
        quiet=quiet, show_failed_logs=True, verbose=False, printshellcmds=False, debug_dag=False, nocolor=True, stdout=False,
        dryrun=False,
    )  # fmt: skip
    made = LogHandler(common, None)
    made.plain.setStream(io.StringIO())
    return made


def output_of(handler: Any) -> str:
    """Return what a handler has written since the last call."""
    text: str = handler.plain.setStream(io.StringIO()).getvalue()
    return text


def record(message: str, level: int = logging.INFO, **fields: Any) -> logging.LogRecord:
    return logging.makeLogRecord({"levelno": level, "levelname": logging.getLevelName(level), "msg": message, **fields})


def test_the_plugin_shows_nothing_of_the_preamble_unless_there_is_no_run(handler: Any) -> None:
    preamble = ("host: here", "Building DAG of jobs...", "Nothing to be done (all requested files are present).")
    for message in preamble:
        handler.emit(record(message))
    assert output_of(handler) == ""
    handler.close()
    assert output_of(handler) == "Nothing to be done (all requested files are present).\n"
    handler.emit(record("host: here"))
    emitted: list[Any] = []
    handler.attach(SimpleNamespace(emit=emitted.append, close=lambda: None))
    handler.emit(record("1 of 2 steps", event="progress"))
    handler.close()
    assert output_of(handler) == "" and len(emitted) == 1


ERRORS = {
    "an error of the rules": ('WorkflowError in file "/x/common.smk", line 16:\nrun.a: wrong. Fix: b\n  File "/x", line 1', "run.a: wrong. Fix: b"),
    "an error without lines": ('WorkflowError in file "/x/common.smk", line 16:', 'WorkflowError in file "/x/common.smk", line 16:'),
    "another error": ("MissingInputException: a", "MissingInputException: a"),
}  # fmt: skip


@pytest.mark.parametrize(("message", "expected"), ERRORS.values(), ids=ERRORS)
def test_the_plugin_shows_errors_before_a_run_without_places_in_the_rules(
    message: str, expected: str, handler: Any
) -> None:
    handler.emit(record("host: here"))
    handler.emit(record(message, logging.ERROR))
    handler.close()
    assert output_of(handler) == f"{expected}\n"


def test_a_locked_folder_is_told_with_the_fix_of_a_killed_run(handler: Any) -> None:
    from snakemake.exceptions import LockException

    handler.emit(record(str(LockException()), logging.ERROR))
    output = output_of(handler)
    assert "maieutic recover" in output and "make recover" in output and "--unlock" not in output
