"""Requests in batches: jobs, the run's calls and a scripted endpoint, with kills, faults and hostile files."""

from __future__ import annotations

import asyncio
import json
import os
import random
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from batch_server import BatchServer, Lines, body_of, echo, error_line, output_line, uploaded
from conftest import ROOT, enter_checkout
from httpserver import Quiet, chat, serving
from maieutic.config.batch_apis import batch_apis
from maieutic.config.budget import Budget
from maieutic.config.curation import read_stage
from maieutic.config.models import HostedModel, Price
from maieutic.core.errors import PENDING_PLACE, RUN_FILES_VARIABLE, UserError
from maieutic.core.journal import FinishedRequest, Journal, failed_path, load_journal_answers
from maieutic.core.ledger import ledger_lines
from maieutic.core.records import Reply
from maieutic.curation.pipeline import run_all_seeds
from maieutic.curation.stage_runner import StageRunner
from maieutic.launch import batches as launched
from maieutic.launch.batches import (
    BatchWork,
    batches,
    cancel,
    collect_batches,
    pending_batches,
    pending_lines,
    send_batches,
    spend,
)
from maieutic.launch.results_lock import lock_results, locked_results
from maieutic.launch.runs import runs
from maieutic.replies.generate import RequestCounts, ask_tutor
from maieutic.serving import batch_endpoint
from maieutic.serving.answers import Answer
from maieutic.serving.backends import JobFiles
from maieutic.serving.batch_endpoint import PublicResolver, check_redirect
from maieutic.serving.batches import (
    BATCH_VARIABLE,
    Batch,
    BatchFolder,
    BatchLimits,
    BatchSettings,
    BatchState,
    has_batches,
    outboxes,
    parse_line,
)
from maieutic.serving.budget import Allowance, Amount, Purse, open_purse
from maieutic.serving.client import Unanswered
from maieutic.serving.connections import Proxy, proxy_of
from test_client import KEY, RequestLimits, drive, hosted, with_budget, work

JOURNALS = Path("results/journal")


def settings(requests: int = 50_000, mb: float = 200) -> str:
    """Return the value of the environment variable with the settings of batches."""
    return BatchSettings(run="r", limits={"m": BatchLimits(requests=requests, mb=mb)}).to_json()


def contents(replies: list[Reply] | None) -> list[Any]:
    """Return what batches do not change: everything but the durations and the mark of batches."""
    return [
        reply.model_copy(
            update={"turns": [turn.model_copy(update={"seconds": 0, "batched": False}) for turn in reply.turns]}
        )
        for reply in replies or []
    ]


def answers_of(name: str) -> Any:
    """Return the answers in the journal of a job."""
    return load_journal_answers(JOURNALS / name / "journal.jsonl", FinishedRequest)


class Served(BatchServer):
    """A batch server at an address, with the jobs and the calls of runs in a folder.

    work: work of the last call; pending: errors of its jobs that wait for batches.
    """

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        super().__init__()
        self.folder, self.patch, self.address = folder, monkeypatch, ""
        self.pending: list[UserError] = []

    def batched(self, **more: Any) -> None:
        """Let requests travel in batches with other limits."""
        self.patch.setenv(BATCH_VARIABLE, settings(**more))

    def live_run(self, count: Any, name: str = "a", **more: Any) -> list[Reply]:
        """Let a job ask about `count` items one by one, and return the replies."""
        self.patch.delenv(BATCH_VARIABLE, raising=False)
        return drive(self.address, JOURNALS / name, count, **more)

    def job(self, count: Any, name: str = "a", **more: Any) -> list[Reply] | None:
        """Let a job ask about `count` items, and return the replies; None if it waits for batches."""
        try:
            return drive(self.address, JOURNALS / name, count, **more)
        except UserError as error:
            if error.place != PENDING_PLACE:
                raise
            self.pending.append(error)
            return None

    def call(self, count: Any, *names: str, **more: Any) -> list[Reply] | None:
        """Call a run whose jobs ask about `count` items: collect, run the jobs, send."""
        self.pending, faults = [], collect_batches().faults
        replies = [self.job(count, name, **more) for name in names or ("a",)]
        self.work = send_batches(faults, [])
        return replies[-1]

    def calls(self, count: Any, *names: str, **more: Any) -> list[Reply] | None:
        """Call a run twice: the first call sends the batches, the second one collects them."""
        assert self.call(count, *names, **more) is None
        return self.call(count, *names, **more)

    @property
    def fault(self) -> str:
        """The error after which nothing more was sent by the last call."""
        [fault] = self.work.faults.values()
        return fault.line


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Served]:
    """Serve a scripted endpoint in a folder in which runs send requests in batches."""
    monkeypatch.setenv("TEST_KEY", KEY)
    monkeypatch.setattr(launched, "SETTLE_SECONDS", 0.2)
    monkeypatch.setattr(launched, "FIRST_POLL", 0.05)
    enter_checkout(tmp_path, monkeypatch)
    server = Served(tmp_path, monkeypatch)
    server.batched()
    with serving(server.handler()) as server.address:
        yield server


def test_a_second_call_collects_the_answers_and_equals_a_live_run(server: Served) -> None:
    live = server.live_run(20, "live", endpoint="chat")
    server.batched()
    assert server.call(20, "batch", endpoint="chat") is None
    host = server.address.removeprefix("http://")
    [pending] = server.pending
    assert pending.line == (
        "batches: m: 20 of 20 items have no answer yet: 20 for the next batch. Fix: run the same command again later"
    )
    assert pending_lines(server.work) == [f"PENDING: 19 requests at {host}; run the same command again later"]
    assert server.live == 21, "one request shows that the endpoint answers"
    replies = server.call(20, "batch", endpoint="chat")
    assert contents(replies) == contents(live)
    assert sum(turn.batched for reply in replies or [] for turn in reply.turns) == 19
    assert set(answers_of("live")) == set(answers_of("batch")), "the keys of a live run"
    assert (server.live, server.submissions, set(server.submitted.values())) == (21, 1, {1})
    lines = ledger_lines(JOURNALS / "batch/journal.ledger")
    assert [(line.batched, line.requests, line.prompt_tokens) for line in lines if line.requests] == [
        (False, 1, 10), (True, 19, 190)
    ]  # fmt: skip
    [batch] = server.batches.values()
    assert batch["metadata"]["maieutic_job"] == "results/journal/batch/journal.jsonl"
    assert [path.name for path in BatchFolder().path.iterdir()] == ["checked"]
    server.call(20, "batch", endpoint="chat")
    assert (server.live, server.submissions) == (21, 1)
    for path in JOURNALS.rglob("*"):
        assert path.is_dir() or KEY.encode() not in path.read_bytes()
    assert b'"batched"' not in (JOURNALS / "live/journal.jsonl").read_bytes(), "live journals are as they were"


def test_requests_of_all_jobs_travel_in_one_batch_and_reach_each_journal(server: Served) -> None:
    """Four jobs ask the same model; two of them have questions in common."""
    assert server.calls(8, "a", "b", "c", "d") is not None
    assert (server.submissions, len(server.submitted), server.live) == (1, 7, 1), "equal requests are sent once"
    assert all(len(answers_of(name)) == 8 for name in "abcd")


def test_a_job_that_comes_later_gets_the_answers_of_a_batch_in_progress(server: Served) -> None:
    server.looks = 1
    server.call(5, "a")
    server.call(8, "b")
    assert sum(server.submitted.values()) == len(server.submitted) == 4 + 4, "one of the first job was sent by itself"
    assert server.call(8, "a", "b") is not None or server.call(8, "a", "b") is not None
    assert len(answers_of("a")) == len(answers_of("b")) == 8 and set(server.submitted.values()) == {1}


def test_requests_and_bytes_limit_a_batch(server: Served) -> None:
    server.batched(requests=7)
    assert len(server.calls(20) or ()) == 20
    assert [len(server.lines_of(batch)) for batch in server.batches.values()] == [7, 7, 5]
    server.batched(mb=0.002)
    assert len(server.calls(40) or ()) == 40
    small = [content for name, content in server.files.items() if name.startswith("file-in")][3:]
    assert all(len(content) <= 2_000 for content in small)
    assert server.submissions > 6 and set(server.submitted.values()) == {1}
    server.batched(mb=0.0001)
    server.call(41)
    assert re.search(r"^models\.m\.batch_mb: a request of 0\.0 MB is larger than a batch .* Fix: raise", server.fault)


def test_a_single_request_needs_no_batch(server: Served) -> None:
    assert server.call(1) is None
    assert pending_lines(server.work) == ["PENDING: the answers are on file; run the same command again"]
    assert (
        server.work.is_answered_later and len(server.call(1) or ()) == 1 and (server.live, server.submissions) == (1, 0)
    )


def test_a_wrong_entry_costs_one_request(server: Served) -> None:
    """After the entry is corrected, one request is sent by itself again."""
    server.answer = lambda body: (401, {"error": {"message": "wrong key"}})
    server.call(10)
    assert "the server answers 401 (wrong key)" in server.fault and server.submissions == 0 and server.live < 4
    server.answer = echo
    assert len(server.calls(10) or ()) == 10 and server.submissions == 1


# One line of a hostile output or error file about the first request, and what becomes of the item: its answer, its
# refusal, or a second request.
FATES: dict[str, tuple[Callable[[str, Any], list[Any]], str]] = {
    "refused by a filter": (lambda key, body: [output_line(key, 400, {"error": {"code": "content_filter", "message": "flagged"}})], "refused"),
    "too long": (lambda key, body: [output_line(key, 400, {"error": {"message": "maximum context length is 10"}})], "refused"),
    "an unclear refusal of one of many": (lambda key, body: [output_line(key, 400, {"error": {"message": "could not parse the input"}})], "refused"),
    "a refusal in vLLM's form": (lambda key, body: [{"custom_id": key, "response": {"status_code": 400, "body": None}, "error": "too long"}], "refused"),
    "an empty error as Azure's": (lambda key, body: [{**output_line(key, 200, body), "error": {}}], "answered"),
    "expired": (lambda key, body: [error_line(key, "batch_expired")], "again"),
    "cancelled": (lambda key, body: [error_line(key, "batch_cancelled")], "again"),
    "timed out": (lambda key, body: [error_line(key, "request_timeout")], "again"),
    "busy": (lambda key, body: [output_line(key, 429, {"error": {"message": "rate limit"}})], "again"),
    "failed": (lambda key, body: [output_line(key, 500, {"error": {"message": "internal"}})], "again"),
    "status 0": (lambda key, body: [output_line(key, 0, None)], "again"),
    "an error as a text": (lambda key, body: [{"custom_id": key, "response": None, "error": "engine died"}], "again"),
    "a missing line": (lambda key, body: [], "again"),
    "an empty object": (lambda key, body: [{"custom_id": key}], "again"),
    "no body": (lambda key, body: [output_line(key, 200, None)], "again"),
    "a body without choices": (lambda key, body: [output_line(key, 200, {"choices": []})], "again"),
    "an error with status 200": (lambda key, body: [output_line(key, 200, {"error": {"message": "overloaded", "code": 503}})], "again"),
    "a line twice": (lambda key, body: 2 * [output_line(key, 200, body)], "answered"),
    "an answer after an error": (lambda key, body: [error_line(key, "batch_expired"), output_line(key, 200, body)], "answered"),
    "an error after an answer": (lambda key, body: [output_line(key, 200, body), output_line(key, 500, None)], "answered"),
    "a foreign line": (lambda key, body: [output_line("0" * 64, 200, {**body, "id": "foreign"}), output_line(key, 200, body)], "answered"),
    "a line without an id": (lambda key, body: [{"response": {"status_code": 200, "body": body}}, 7, output_line(key, 200, body)], "answered"),
}  # fmt: skip


@pytest.mark.parametrize("place", ["output", "errors"])
@pytest.mark.parametrize("name", FATES)
def test_each_line_decides_about_its_own_item(name: str, place: str, server: Served) -> None:
    """One of six requests gets a hostile line, in either file. The others are answered."""
    make, fate = FATES[name]

    def edit(batch: dict[str, Any], output: Lines, errors: Lines) -> tuple[Lines, Lines]:
        if batch["id"] != "batch_1":
            return output, errors
        first = server.lines_of(batch)[0]
        lines = make(first["custom_id"], echo(first["body"])[1])
        others = [line for line in output if line["custom_id"] != first["custom_id"]]
        return (lines + others, errors) if place == "output" else (others, lines)

    server.edit = edit
    replies = server.calls(7)
    assert (replies is None) == (fate == "again")
    replies = replies or server.call(7)
    assert replies is not None and len(replies) == 7
    assert sorted(server.submitted.values()) == [1, 1, 1, 1, 1, 2 if fate == "again" else 1], "only this is sent again"
    assert [reply.error is not None for reply in replies] == [False, fate == "refused", *5 * [False]]
    assert all("answer to" in reply.text for reply in replies if reply.error is None)


@pytest.mark.parametrize("status", ["expired", "cancelled", "canceled", "COMPLETED"])
def test_what_an_ended_batch_answered_is_kept_and_the_rest_is_sent_again(
    status: str, server: Served, capfd: pytest.CaptureFixture[str]
) -> None:
    def edit(batch: dict[str, Any], output: Lines, errors: Lines) -> tuple[Lines, Lines]:
        if batch["id"] != "batch_1":
            return output, errors
        batch["status"] = status
        return output[:3], [error_line(line["custom_id"], "batch_expired") for line in output[3:]]

    server.edit = edit
    assert server.calls(10) is None
    printed = capfd.readouterr().err
    assert (
        "was cancelled: a run that needs its 6 unanswered requests submits them anew" in printed
    ) == status.startswith("cancel")
    assert sorted(server.submitted.values()) == [1] * 3 + [2] * 6 and len(answers_of("a")) == 4
    assert len(server.call(10) or ()) == 10
    assert server.submissions == 2 and set(server.answered.values()) == {1}, "nothing is answered, and paid, twice"


def test_a_request_is_in_three_batches_at_most(server: Served) -> None:
    """After two it counts as failed, is asked once more by the next run, and again after `maieutic forget`."""
    server.answer = lambda body: (500, {"error": {"message": "x"}}) if "1+1?" in str(body) else echo(body)
    server.calls(3)
    assert len(server.call(3) or ()) == 3, "recorded as failed after two batches"
    for _ in range(4):
        replies = server.call(3, asks_failed=True) or []
    assert [reply.error for reply in replies] == [None, "failed: 500: x in batch 3", None]
    assert sorted(server.submitted.values()) == [1, 3]
    failed_path(JOURNALS / "a/journal.jsonl").unlink()  # as `maieutic forget` does
    BatchFolder().forget_unanswered(str(JOURNALS / "a/journal.jsonl"))
    assert server.calls(3) is None and sorted(server.submitted.values()) == [1, 5]


FULL = {"code": "token_limit_exceeded", "message": "Enqueued token limit reached for m", "line": None}


def test_a_batch_that_exceeds_the_queue_is_sent_by_the_next_call(
    server: Served, capfd: pytest.CaptureFixture[str]
) -> None:
    """The requests of a batch that failed go into new batches, of the size that the entry now sets."""
    server.failure = lambda number: FULL if number in (2, 3) else None
    for requests in (5, 5, 3):
        server.batched(requests=requests)
        assert server.call(11) is None
    assert len(server.call(11) or ()) == 11
    assert capfd.readouterr().err.count("If a batch exceeds this limit by itself, set models.m.batch_requests") == 2
    assert [len(server.lines_of(batch)) for batch in server.batches.values()] == [5, 5, 5, 3, 2]
    assert set(server.submitted.values()) == {1}, "of the batches that did not fail"


def test_failed_batches_end_the_sending_in_this_call(server: Served, capfd: pytest.CaptureFixture[str]) -> None:
    pay = {"code": "billing_hard_limit_reached", "message": "pay", "line": 1}
    server.failure = lambda number: pay if number < 3 else None
    server.batched(requests=2)
    assert server.calls(5) is None and server.submissions == 2, "nothing is sent to an endpoint that refuses batches"
    assert server.fault.endswith("pay (line 1). Fix: correct the entry, or remove batch to send single requests")
    assert len(re.findall(r"batch (batch_\d) failed", capfd.readouterr().err)) == 2
    assert len(server.calls(5) or ()) == 5


def test_a_refusal_of_every_request_is_no_refusal_of_the_items(server: Served) -> None:
    refusal = 400, {"error": {"message": "Unsupported parameter: 'temperature' is not supported"}}
    server.call(1)
    server.answer = lambda body: refusal if "temperature" in body else echo(body)
    assert server.calls(5) is None
    assert re.search(r"Unsupported parameter.* Fix: set omit: \[temperature\]", server.fault)
    assert len(answers_of("a")) == 1
    assert len(server.calls(5, omit=["temperature"]) or ()) == 5


REFUSED_CALLS: dict[str, tuple[int, str]] = {
    "a wrong key": (401, r"models\.m: .*/files: the server answers 401 .* Fix: set the environment variable that key_env"),
    "no batch API": (404, r"models\.m\.batch: .*/files: the server answers 404 .* Fix: remove batch if this endpoint has"),
    "a bad request": (400, r"models\.m\.batch: .*/files: the server answers 400 .* Fix: correct the entry, or remove"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED_CALLS)
def test_an_endpoint_without_batches_is_an_error_of_one_line(name: str, server: Served) -> None:
    status, pattern = REFUSED_CALLS[name]
    original = server.post

    def refuse(request: Any) -> None:
        if not request.path.endswith("/files"):
            return original(request)
        body_of(request)
        return request.send(status, b'{"error": {"message": "no"}}')

    server.patch.setattr(server, "post", refuse)
    server.call(3)
    assert re.match(pattern, server.fault)
    assert not list(BatchFolder().path.glob("*.requests")), "nothing is left of a batch that was not accepted"


@pytest.mark.parametrize(("statuses", "expected"), [
    (["pending", "pending", "processed"], None),
    (["pending", "error"], r"models\.m\.batch: .*/files: the file of requests is refused \(line 3 is no JSON\)"),
    (["pending"] * 9, r"/v1/files still processes the file of requests"),
])  # fmt: skip
def test_a_file_is_processed_before_its_batch_is_submitted(
    statuses: list[str], expected: str | None, server: Served
) -> None:
    server.patch.setattr(batch_endpoint, "UPLOAD_CHECK_SECONDS", 0.01)
    server.patch.setattr(batch_endpoint, "MOST_UPLOAD_CHECKS", 4)
    left, get, post = iter(statuses), server.get, server.post

    def described(request: Any) -> None:
        file = {"id": "file-in-1", "status": next(left), "status_details": "line 3 is no JSON"}
        request.send(200, json.dumps(file).encode())

    def upload(request: Any) -> None:
        if not request.path.endswith("/files"):
            return post(request)
        server.files["file-in-1"] = uploaded(request.headers["Content-Type"], body_of(request))
        return described(request)

    server.patch.setattr(
        server, "get", lambda request: (described if "files/file-in" in request.path else get)(request)
    )
    server.patch.setattr(server, "post", upload)
    server.call(2)
    if expected is None:
        assert not server.work.faults and server.submissions == 1
    else:
        assert re.search(expected, server.fault) and server.submissions == 0
        assert not list(BatchFolder().path.glob("*.requests")), "the next call uploads the requests again"


def test_a_malformed_list_of_batches_sends_nothing_twice(server: Served) -> None:
    server.submitting = lambda number: "after"
    page = server.page
    server.patch.setattr(server, "page", lambda query: {"error": {"message": "try again"}})
    server.call(3)
    assert "requests were not sent" in server.fault and "answers without a list of batches" in server.fault
    server.patch.setattr(server, "page", page)
    assert len(server.call(3) or ()) == 3 and server.submissions == 1


def test_a_failed_upload_leaves_earlier_batches_alone(server: Served) -> None:
    server.batched(requests=2)
    original = server.post

    def post(request: Any) -> None:
        if request.path.endswith("/files") and server.uploads == 2:
            body_of(request)
            return request.send(400, b'{"error": {"message": "quota of files"}}')
        return original(request)

    server.patch.setattr(server, "post", post)
    server.call(9)
    assert "quota of files" in server.fault and server.submissions == 2
    server.patch.setattr(server, "post", original)
    assert len(server.calls(9) or ()) == 9
    assert set(server.submitted.values()) == {1} and server.submissions == 4


@pytest.mark.parametrize("action", ["before", "after", "504 too long", "null", 500, 503, 409, 429])
def test_an_unanswered_submission_is_looked_up_before_it_is_repeated(action: str | int, server: Served) -> None:
    server.submitting = lambda number: action if number == 5 else None
    server.batched(requests=2)
    assert len(server.calls(13) or ()) == 13, "five other batches are on the list"
    assert set(server.submitted.values()) == {1}
    assert server.submissions == (6 if action in ("after", "504 too long", "null") else 7)
    assert server.listings > 0 or action == 429, "a list of more than one page is searched"


CALLS = """
import sys
from pathlib import Path
sys.path[:0] = [sys.argv[3] + "/tests", sys.argv[3] + "/tests/unit"]
from maieutic.core.errors import UserError
from maieutic.launch import batches
from test_client import drive
batches.SETTLE_SECONDS = 0.2
faults = batches.collect_batches().faults
print("collected", flush=True)
try:
    drive(sys.argv[1], Path("results/journal/a"), int(sys.argv[2]), concurrency=64)
except UserError:
    batches.send_batches(faults, [])
    sys.exit(75)
"""


KILLS = 10 if os.environ.get("MAIEUTIC_DRILLS") == "full" else 3  # of each kind


@pytest.mark.slow
def test_kills_ask_nothing_twice_and_change_no_answer(server: Served) -> None:
    """Kills between a submission and its answer, at any time before, and while answers are written into the journal."""
    count, seed = 400, random.Random(48)
    live = server.live_run(count, "live")
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "workflow"), BATCH_VARIABLE: settings(requests=20)}
    journal = JOURNALS / "a/journal.jsonl"

    def size() -> int:
        return journal.stat().st_size if journal.exists() else 0

    def call() -> subprocess.Popen[bytes]:
        command = [sys.executable, "-c", CALLS, server.address, str(count), str(ROOT)]
        return subprocess.Popen(command, env=environment, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)

    server.looks, server.submitting = 10**9, lambda number: "hold"
    for kill in range(2 * KILLS):
        process = call()
        assert server.held.acquire(timeout=seed.uniform(0.5, 2.5) if kill % 2 else 60) or kill % 2
        process.kill()
        process.wait(60)
    assert server.submissions >= KILLS
    server.submitting = lambda number: None
    server.released.set()
    assert call().wait(60) == 75
    server.end_all()
    for _ in range(KILLS):
        before, process = size(), call()
        while size() == before and process.poll() is None:
            time.sleep(0.0005)
        process.kill()
        process.wait(60)
    assert call().wait(60) == 0
    server.batched()
    assert contents(server.job(count)) == contents(live)
    assert set(server.submitted.values()) == {1}, "no request is submitted twice"
    assert len(server.submitted) == 399 and server.live == count + 1, "and one is sent by itself"


def test_an_interrupted_job_leaves_no_outbox_and_a_stale_one_is_not_sent(server: Served) -> None:
    """A prompt is edited between two calls: only the new requests are sent."""
    assert server.job(4) is None
    assert list(outboxes(JOURNALS)) == [JOURNALS / "a/journal.m.outbox"] and has_batches(JOURNALS)
    edited = [(loaded, item.model_copy(update={"vars": {"question": f"{item.id}?"}})) for loaded, item in work(4)]
    assert len(server.calls(edited) or ()) == 4 and len(server.submitted) == 3
    assert not any("+1?" in json.dumps(body) for body in server.bodies.values()), "nothing of the first outbox"

    async def interrupt(*_: Any) -> None:
        raise KeyboardInterrupt

    server.patch.setattr("maieutic.replies.generate.converse_all", interrupt)
    with pytest.raises(KeyboardInterrupt):
        server.job(9)
    assert not outboxes(JOURNALS)


def test_a_batch_is_read_by_the_entry_as_it_was_when_sent(server: Served) -> None:
    server.looks = 1
    server.call(4, extra_body={"top_k": 3})
    server.call(4, extra_body={"top_k": 4})
    for _ in range(2):
        replies = server.call(4, extra_body={"top_k": 3})
    assert len(replies or ()) == 4 and len(answers_of("a")) == 8
    assert set(server.submitted.values()) == {1} and sorted(body["top_k"] for body in server.bodies.values()) == 3 * [
        3
    ] + 3 * [4]


def test_a_switch_to_live_requests_in_mid_run_asks_nothing_twice(server: Served) -> None:
    server.looks = 1
    server.live_run(4)
    server.batched()
    server.call(10)
    server.patch.delenv(BATCH_VARIABLE)
    assert server.call(15) is None, "the batch has not ended at the first look"
    assert server.live == 4 + 1 + 5, "new requests are sent by themselves"
    replies = server.call(15) or []
    assert len(replies) == 15 and set(server.submitted.values()) == {1} and len(server.submitted) == 5
    assert server.live == 10 and server.submissions == 1
    assert [reply.turns[0].batched for reply in replies] == [False] * 5 + [True] * 5 + [False] * 5


def test_a_conversation_of_several_turns_is_a_call_a_turn(server: Served) -> None:
    pairs = [(loaded, item.model_copy(update={"script": ["And then?", "Why?"]})) for loaded, item in work(6)]
    for _ in range(3):
        assert server.call(pairs, endpoint="chat") is None
    replies = server.call(pairs, endpoint="chat") or []
    assert [len(reply.turns) for reply in replies] == [3] * 6
    assert server.submissions == 3 and len(server.submitted) + server.live == 18


def test_a_budget_pays_whole_jobs_and_names_the_others(server: Served) -> None:
    """Each request reserves 8 answer tokens and its prompt. The next call has its full budget again."""
    purse = server.folder / "purse.jsonl"

    def jobs(names: str) -> None:
        for name in names:
            about = [item.model_copy(update={"vars": {"question": f"{name}{item.id}"}}) for _, item in work(12)]
            server.job([(loaded, item) for (loaded, _), item in zip(work(12), about, strict=True)], name)

    with_budget(server.patch, server.folder, tokens=10**9)
    jobs("e")
    send_batches({}, [])
    each = BatchFolder().pending()[0].reserved_tokens // 11
    collect_batches()
    purse.unlink()
    with_budget(server.patch, server.folder, tokens=int(2.5 * 12 * each))
    jobs("abcd")
    order = [str(JOURNALS / name / "journal.jsonl") for name in "dcba"]
    sent = send_batches({}, order)
    assert [header.journal for header in sent.held] == order[2:], "in the order of the plan"
    assert pending_lines(sent)[-1].startswith(
        "not sent: m (b), m (a): run.budget does not pay these jobs as a whole. Fix:"
    )
    assert len(BatchFolder().pending()[0].keys) == 24 and spending(purse).tokens <= 2.5 * 12 * each
    [batch] = BatchFolder().pending()
    open_purse(purse, [(batch.entry, batch.keys, batch.reserved_tokens, batch.reserved_usd)])  # the start of a call
    assert spending(purse).tokens == batch.reserved_tokens > 24 * 12, "carried over while pending"
    collect_batches()
    assert spending(purse)[:2] == (24, 24 * 12), "settled by the usage of each line"


def spending(path: Path) -> Amount:
    """Return what is spent or reserved in a run's purse."""
    return Purse(Allowance(budget=Budget(), budget_file=path), "m").spent()


def test_a_batch_costs_its_share_of_the_price() -> None:
    price = Price(input=2, output=10, cached=0.5)
    assert price.usd(1e6, 1e6, 4e5, batched=True) == price.usd(1e6, 1e6, 4e5), "no factor is known"
    half = price.model_copy(update={"batch": 0.5})
    assert half.usd(1e6, 1e6, 4e5, batched=True) == price.usd(1e6, 1e6, 4e5) / 2
    assert price.model_copy(update={"batch": 0.8}).usd(1e6, 0, batched=True) == 1.6
    entry = {"engine": "hosted", "model": "m", "price": {"input": 2, "output": 10}}
    for host, share in {"api.openai.com": 0.5, "api.deepinfra.com": 0.8, "example.org": 1}.items():
        known = HostedModel.model_validate({**entry, "base_url": f"https://{host}/v1"}).full_price
        assert known is not None and known.batch == share


@pytest.mark.parametrize("address", [
    "https://api.anthropic.com/v1",
    "https://openrouter.ai/api/v1",
    "https://api.together.xyz/v1",
    "https://api.mistral.ai/v1",
])  # fmt: skip
def test_a_batch_api_of_another_form_is_refused_before_anything_is_sent(address: str) -> None:
    entry = {"engine": "hosted", "model": "m", "base_url": address, "batch": True}
    problem = r"the batch API of .* does not have OpenAI's form \(https://.*\): remove batch"
    with pytest.raises(ValueError, match=problem):
        HostedModel.model_validate(entry)
    HostedModel.model_validate({**entry, "batch": False})


def begin(server: Served) -> Path:
    """Begin the purse of a call, in which batches in progress stay reserved. Returns its path."""
    purse = server.folder / "purse.jsonl"
    pending = BatchFolder().pending()
    open_purse(purse, [(batch.entry, batch.keys, batch.reserved_tokens, batch.reserved_usd) for batch in pending])
    return purse


def expired(batch: dict[str, Any], output: Lines, errors: Lines) -> tuple[Lines, Lines]:
    """Let a batch expire before any request is answered."""
    batch["status"] = "expired"
    return [], [error_line(line["custom_id"], "batch_expired") for line in output]


@pytest.mark.parametrize("end", ["queue", "expired", "lost submission"])
def test_a_batch_that_answers_nothing_releases_its_reservation(end: str, server: Served) -> None:
    with_budget(server.patch, server.folder, tokens=10**6)
    if end == "queue":
        server.failure = lambda number: FULL
    if end == "expired":
        server.edit = expired
    server.job(5)
    send_batches({}, [])
    if end == "lost submission":
        [batch] = BatchFolder().pending()
        BatchFolder().save(batch.model_copy(update={"state": BatchState.SUBMITTING, "provider_id": None}))
        server.batches.clear()
    purse = begin(server)
    assert spending(purse).tokens > 0
    collect_batches()
    assert not BatchFolder().pending() and spending(purse).tokens == 0


def test_a_call_that_is_killed_before_it_notes_the_end_counts_once(server: Served) -> None:
    """The ledger and the purse have the batch already."""
    with_budget(server.patch, server.folder, tokens=10**6)
    server.job(5)
    send_batches({}, [])
    purse = begin(server)

    def end(folder: BatchFolder, batch: Batch) -> None:
        raise KeyboardInterrupt

    with server.patch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(BatchFolder, "remove", end)
        collect_batches()
    collect_batches()
    lines = [line for line in ledger_lines(JOURNALS / "a/journal.ledger") if line.batched]
    assert sum(line.requests for line in lines) == 4 and spending(purse)[:2] == (4, 48)


def test_failed_attempts_are_counted_once_beside_probes(server: Served) -> None:
    """They belong to the requests, not to the probes, which have a line of their own."""
    server.job(1)
    sender = BatchWork()
    [header] = outboxes(sender.journals).values()
    client = sender.client(header)
    client.probe_answers.append(Answer("1", None, "stop", 5, 1, 0.0, 1))
    spend(header.journal, header.asker, header.entry, RequestCounts(), client, {"HTTP 500": 2})
    probe, failed = ledger_lines(JOURNALS / "a/journal.ledger")
    assert (probe.prompt_tokens, probe.requests, probe.retries) == (5, 1, {})
    assert (failed.prompt_tokens, failed.requests, failed.retries) == (0, 0, {"HTTP 500": 2})


def test_a_batch_that_is_cancelled_before_it_began_is_sent_anew(server: Served) -> None:
    """The endpoint states counts of zero, and no files."""
    server.looks = 10**6
    server.call(4)
    [batch] = server.batches.values()
    batch |= {"status": "cancelled", "request_counts": {"total": 0, "completed": 0, "failed": 0}}
    server.looks = 0
    assert server.call(4) is None and server.submissions == 2
    assert len(server.call(4) or ()) == 4


def test_the_single_request_before_a_batch_may_fail_by_itself(server: Served) -> None:
    server.answer = lambda body: (500, {"error": {"message": "x"}}) if "0+1?" in json.dumps(body) else echo(body)
    assert len(server.calls(3) or ()) == 3 and len(answers_of("a")) == 2, "a failure is no answer"
    assert failed_path(JOURNALS / "a/journal.jsonl").is_file() and server.submissions == 1


def test_a_model_under_two_entries_is_asked_once(server: Served) -> None:
    """Both jobs get the answers."""
    limits = {name: BatchLimits(requests=50_000, mb=200) for name in ("m", "n")}
    server.patch.setenv(BATCH_VARIABLE, BatchSettings(run="r", limits=limits).to_json())
    for name, entry, count in (("a", "m", 6), ("b", "n", 9)):
        folder = JOURNALS / name
        places = [folder / file for file in ("journal.jsonl", "server.log", "out.jsonl", "prompts.jsonl")]
        with pytest.raises(UserError, match="for the next batch"):
            ask_tutor(
                entry,
                hosted(server.address),
                work(count),
                RequestLimits(8, 1),
                JobFiles(None, *places[:2]),
                *places[2:],
            )
    send_batches({}, [])
    collect_batches()
    assert (len(answers_of("a")), len(answers_of("b"))) == (6, 9) and set(server.submitted.values()) == {1}


def test_the_models_of_a_curation_have_an_outbox_each(server: Served) -> None:
    """They share a journal, and a curation closes its clients at its end."""

    class BothRoles:
        def entries_with(self, role: Any) -> list[str]:
            return ["gen", "judge"]

    limits = {name: BatchLimits(requests=50_000, mb=200) for name in ("gen", "judge")}
    server.patch.setenv(BATCH_VARIABLE, BatchSettings(run="r", limits=limits).to_json())
    models = {name: hosted(server.address, model=name) for name in limits}
    request = {"endpoint": "chat", "max_tokens": 5, "temperature": 0.0, "stop": []}

    async def ask_both(crew: StageRunner, place: int) -> None:
        asks = [
            crew.asking[name].ask({**request, "messages": [{"role": "user", "content": f"{place}?"}]})
            for name in limits
        ]
        for outcome in await asyncio.gather(*asks, return_exceptions=True):
            if isinstance(outcome, BaseException):
                raise outcome

    with Journal(JOURNALS / "curation/c/1.jsonl", FinishedRequest) as journal:
        stages = {"tag_domain": read_stage("tag_domain")}
        crew = StageRunner(BothRoles(), models, {}, stages, journal, server.folder, 1)  # type: ignore[arg-type]
        with pytest.raises(UserError, match="batches: c: 3 of 3 seeds have no answer yet: 3 for the next batch"):
            asyncio.run(run_all_seeds("c", crew, 3, ask_both))
    send_batches({}, [])
    assert {batch.entry for batch in BatchFolder().pending()} == {"gen", "judge"}


def test_a_run_does_not_start_beside_a_command_on_batches(server: Served) -> None:
    Path("results").mkdir()
    with locked_results("batches"), pytest.raises(UserError, match="`maieutic batches` uses these results"):
        lock_results()


def test_runs_lists_pending_batches_and_cancel_ends_them(server: Served, capsys: pytest.CaptureFixture[str]) -> None:
    server.looks = 100
    server.batched(requests=4)
    server.call(9)
    first, _ = sorted(pending_batches()[0], key=lambda batch: batch.line)
    assert first.run == "r" and "4 requests of m, submitted 20" in first.line
    assert first.line.startswith(f"batch_1 at {server.address.removeprefix('http://')}: ")
    assert first.status == "in_progress"
    with pytest.raises(UserError, match=r"maieutic cancel: 'q' is not in the runs with pending batches"):
        cancel("q")
    cancel("r")
    assert capsys.readouterr().out.count(": cancelling") == 2
    assert {batch["status"] for batch in server.batches.values()} == {"cancelling"}
    assert len(server.call(9) or ()) == 9, "finished answers of cancelled batches are collected"
    assert pending_batches() == ([], [])
    cancel()
    assert "No run of this folder has pending batches." in capsys.readouterr().out


def test_batches_waits_and_sends_what_an_interrupted_run_left(
    server: Served, capsys: pytest.CaptureFixture[str]
) -> None:
    server.looks = 2
    server.job(5)  # the run is killed before it sends
    batches()
    assert "PENDING: 4 requests at" in capsys.readouterr().out
    batches(wait=True)
    assert "No batches are in progress: run snakemake again." in capsys.readouterr().out
    assert len(server.job(5) or ()) == 5 and set(server.submitted.values()) == {1}
    server.patch.setenv(RUN_FILES_VARIABLE, "runs/mine.yaml")
    server.job(9)
    time.sleep(0.01)
    Path("runs").mkdir()
    Path("runs/mine.yaml").write_text("run: {}")
    batches()
    assert (
        "not sent: runs/mine.yaml has changed since the last run" in capsys.readouterr().err and server.submissions == 1
    )


def test_pending_batches_are_listed_without_their_key(server: Served) -> None:
    server.looks = 100
    with serving(server.handler()) as server.address:
        server.call(3)
    assert "attempts to call batches/batch_1 failed, last ClientConnectorError" in pending_batches()[0][0].line
    server.patch.delenv("TEST_KEY")
    assert pending_batches()[0][0].line.endswith("in_progress, its current status needs the key: export TEST_KEY=...")
    with pytest.raises(UserError, match=r"not cancelled: batch_1\. Fix: see the reasons above, and repeat this"):
        cancel()


def test_a_damaged_record_is_an_error_and_does_not_hide_other_batches(
    server: Served, capsys: pytest.CaptureFixture[str]
) -> None:
    server.looks = 100
    server.call(3)
    [path] = BatchFolder().path.glob("*.json")
    server.call(5, "b")
    whole = path.read_text()
    path.write_text(whole[:50])
    problem = r"batches/.*\.json: the record of a batch cannot be read\. Fix: restore"
    for command in (runs, cancel):
        with pytest.raises(UserError, match=problem):
            command()
        assert "batch_2 at " in capsys.readouterr().out
    for command in (collect_batches, lambda: server.job(3)):
        with pytest.raises(UserError, match=problem):
            command()
    path.write_text(whole)
    server.end_all()
    assert len(server.call(3) or ()) == 3 and server.submissions == 2


def test_a_batch_that_the_endpoint_forgot_is_an_error_with_its_record(server: Served) -> None:
    """The key may be wrong, or the batch may be gone, so nothing is sent again by itself."""
    server.call(3)
    server.batches.clear()
    server.call(3)
    match = re.search(r"models\.m: .*/batches/batch_1: the server answers 404 .* Fix: delete (\S+)", server.fault)
    assert match and server.submissions == 1
    Path(match[1]).unlink()
    assert len(server.calls(3) or ()) == 3 and server.submissions == 2


def test_a_run_calls_no_address_that_only_a_record_names(server: Served, capfd: pytest.CaptureFixture[str]) -> None:
    server.call(3)
    collect_batches({("https://api.example.org/v1", "TEST_KEY")})
    assert f"no entry of this run has the address {server.address}/v1 with this key" in capfd.readouterr().err
    assert [batch["looks"] for batch in server.batches.values()] == [0]
    collect_batches({(f"{server.address}/v1", "TEST_KEY")})
    assert len(answers_of("a")) == 3


def test_a_submission_that_was_cut_off_is_settled_by_the_next_call(server: Served) -> None:
    server.call(4)
    [batch] = BatchFolder().pending()
    BatchFolder().save(batch.model_copy(update={"state": BatchState.SUBMITTING, "provider_id": None}))
    assert len(server.call(4) or ()) == 4 and server.submissions == 1


LOST: dict[str, Callable[[BatchServer, dict[str, Any]], None]] = {
    "no output file": lambda server, batch: batch.update(output_file_id=None),
    "an output file that is gone": lambda server, batch: server.files.pop(batch["output_file_id"]) and None,
}


@pytest.mark.parametrize("name", LOST)
def test_answers_that_cannot_be_fetched_are_not_asked_for_again(name: str, server: Served) -> None:
    server.call(4)
    server.end_all()
    [batch] = server.batches.values()
    LOST[name](server, batch)
    batch["request_counts"]["completed"] = 3
    assert server.call(4) is None and server.submissions == 1
    match = re.search(
        r"batch batch_1 has answers, but \S+ has no file with them\. Fix: delete (\S+\.json) to send", server.fault
    )
    assert match
    Path(match[1]).unlink()
    assert len(server.calls(4) or ()) == 4 and server.submissions == 2, "the fix works"


def test_a_key_that_a_server_echoes_in_a_batch_is_not_stored(server: Served) -> None:
    """Nor in the files of a download that was cut off."""
    server.answer = lambda body: (200, chat({"content": f"{KEY} \u2028 {'x' * 70_000}"}))
    stored: list[bytes] = []
    original = launched.store_answers
    server.patch.setattr(
        launched,
        "store_answers",
        lambda sources, out: (stored.extend(path.read_bytes() for path in sources), original(sources, out)),
    )
    replies = server.calls(3, endpoint="chat") or []
    assert replies[1].turns[0].text.startswith("[key] \u2028 xxx") and len(replies[1].turns[0].text) > 70_000
    assert len(stored[0]) > 140_000
    files = [path for path in server.folder.rglob("*") if path.is_file()]
    assert KEY.encode() not in b"".join([*stored, *(path.read_bytes() for path in files)])


def test_requests_that_fail_live_are_not_called_pending(server: Served) -> None:
    server.looks = 9
    server.call(3)
    server.patch.delenv(BATCH_VARIABLE)
    server.answer = lambda body: (500, {"error": {"message": "down"}})
    with pytest.raises(UserError, match="500 down"):
        server.job(5)


# a 200 is no proof ----------------------------------------------------------------------------------------------------


def spoiled(monkeypatch: pytest.MonkeyPatch, server: BatchServer, change: Callable[[bytes], bytes], times: int) -> None:
    """Let the first downloads of output files be changed."""
    original, left = server.get, [times]

    def get(request: Any) -> None:
        if request.path.endswith("/content") and left[0]:
            left[0] -= 1
            name = request.path.removesuffix("/content").rpartition("/")[2]
            return request.send(200, change(server.files[name]))
        return original(request)

    monkeypatch.setattr(server, "get", get)


def without_counts(monkeypatch: pytest.MonkeyPatch, server: BatchServer) -> None:
    """Let the server state no counts of requests."""
    end = server.end

    def end_silently(batch: dict[str, Any], status: str = "completed") -> None:
        end(batch, status)
        batch.pop("request_counts", None)

    monkeypatch.setattr(server, "end", end_silently)


HALF = 0.5
DAMAGES: dict[str, Callable[[bytes], bytes]] = {
    "an HTML page": lambda content: b"<html><body>Please sign in</body></html>",
    "an error as JSON": lambda content: b'{"error": {"message": "try later"}}',
    "empty": lambda content: b"",
    "cut within a line": lambda content: content[: int(len(content) * HALF)],
    "cut after a line": lambda content: b"".join(content.splitlines(True)[:3]),
    "the lines of another batch": lambda content: content.replace(b'"custom_id": "', b'"custom_id": "x'),
    "no JSON in a line": lambda content: content.replace(b'{"', b'("', 1),
    "NUL": lambda content: b"\0" * len(content),
}


@pytest.mark.parametrize("counts", [True, False])
@pytest.mark.parametrize("name", DAMAGES)
def test_a_file_that_lacks_lines_is_downloaded_again_and_nothing_is_paid_twice(
    name: str, counts: bool, server: Served, capfd: pytest.CaptureFixture[str]
) -> None:
    spoiled(server.patch, server, DAMAGES[name], 2)
    if not counts:
        without_counts(server.patch, server)
    for _ in range(3):
        assert server.call(7) is None
    assert len(re.findall(r"lack \d of its answers.*or delete .* to send these requests", capfd.readouterr().err)) == 2
    assert len(server.call(7) or ()) == 7
    assert server.submissions == 1 and set(server.submitted.values()) == {1}


def test_what_an_incomplete_file_has_is_taken_and_only_the_rest_is_sent_again_by_hand(
    server: Served, capfd: pytest.CaptureFixture[str]
) -> None:
    spoiled(server.patch, server, DAMAGES["cut after a line"], 99)
    for _ in range(3):
        assert server.call(7) is None
    assert len(answers_of("a")) == 4 and "3 of 7 items have no answer yet" in server.pending[0].line
    record = re.findall(r"delete (\S+)", capfd.readouterr().err)[-1]
    Path(record).unlink()
    assert len(server.calls(7) or ()) == 7
    assert sorted(server.submitted.values()) == [1, 1, 1, 2, 2, 2]


def test_an_odd_line_concerns_only_itself(server: Served) -> None:
    """Lone surrogates in a text, an identifier and an error; a byte order mark; invalid UTF-8."""
    odd = [
        b'{"custom_id": "\\ud800", "response": {"status_code": 200, "body": {}}}\n',
        b'{"custom_id": 7}\n', b'{"custom_id": "x", "error": {"code": "\\udc80", "message": "\\ud800"}}\n', b"\xff\xfe\n",
    ]  # fmt: skip

    def change(content: bytes) -> bytes:
        return b"\xef\xbb\xbf" + content.replace(b'"message"', b'"odd": "\\ud800", "message"') + b"".join(odd)

    spoiled(server.patch, server, change, 99)
    assert len(server.calls(4) or ()) == 4


@pytest.mark.parametrize("line", [True, False])
def test_a_download_has_limits(line: bool, server: Served) -> None:
    """Limit a line and the file, both after decompression, so that little is read of a file that is too large."""
    server.patch.setattr(batch_endpoint, "LEAST_DOWNLOAD", 1 << 20)
    server.patch.setattr(batch_endpoint, "MOST_OF_ANSWER", 1 << 10)
    spoiled(server.patch, server, lambda content: (b"x" if line else b"{}\n") * ((3 << 20) // (1 if line else 3)), 1)
    for _ in range(2):
        assert server.call(4) is None
    assert not list(server.folder.rglob("*.part")) and len(server.call(4) or ()) == 4
    assert server.submissions == 1


REDIRECTS = {
    "from https to http": ("https://api.example.org/f", "http://storage.example.org/f"),
    "to this machine": ("https://api.example.org/f", "https://127.0.0.1/f"),
    "to this machine by name": ("https://api.example.org/f", "https://localhost./f"),
    "to this machine by IPv6": ("https://api.example.org/f", "https://[::1]/f"),
    "to this machine by a mapped address": ("https://api.example.org/f", "https://[::ffff:127.0.0.1]/f"),
    "to the metadata of a cloud": ("http://api.example.org/f", "http://169.254.169.254/latest/meta-data"),
    "to a private network": ("https://api.example.org/f", "https://192.168.1.1/f"),
    "to a file": ("https://api.example.org/f", "file:///etc/passwd"),
}


@pytest.mark.parametrize("name", REDIRECTS)
def test_a_redirect_to_a_place_that_may_not_be_read_is_not_followed(name: str) -> None:
    with pytest.raises(Unanswered, match="a download"):
        check_redirect(*REDIRECTS[name])


def test_a_redirect_to_a_name_of_this_machine_is_not_followed() -> None:
    with pytest.raises(OSError, match="own network"):
        asyncio.run(resolved("localhost"))


async def resolved(host: str) -> Any:
    return await PublicResolver().resolve(host, 80)


def test_usual_redirects_are_followed() -> None:
    check_redirect("https://api.example.org/f", "https://storage.example.net/f?signature=x")
    check_redirect("http://127.0.0.1:8000/f", "http://127.0.0.1:9000/f")


def test_credentials_of_netrc_are_sent_nowhere_even_beside_a_proxy(server: Served) -> None:
    """They would replace the API key, or reach the storage behind a redirect."""
    home = server.folder / "home"
    home.mkdir()
    (home / ".netrc").write_text("default login me password secret-of-netrc\n")
    (home / ".netrc").chmod(0o600)
    server.patch.setenv("HOME", str(home))
    server.patch.setenv("NETRC", str(home / ".netrc"))
    server.patch.setenv("https_proxy", "http://127.0.0.1:9")
    authorized = list[str | None]()

    class Storage(Quiet):
        def do_GET(self) -> None:
            authorized.append(self.headers.get("Authorization"))
            self.send(200, server.files[self.path.removeprefix("/")])

    with serving(Storage) as storage:
        original = server.get

        def redirect(request: Any) -> None:
            if request.path.endswith("/content"):
                name = request.path.removesuffix("/content").rpartition("/")[2]
                return request.send(302, b"", Location=f"{storage}/{name}")
            return original(request)

        server.patch.setattr(server, "get", redirect)
        assert len(server.calls(3) or ()) == 3
    assert authorized == [None]


def test_a_proxy_is_that_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("https_proxy", "http://me:secret@proxy.example.org:3128")
    monkeypatch.setenv("no_proxy", "internal.example.org,10.0.0.0/8")
    assert proxy_of("https://10.1.2.3:8000/v1") == Proxy(), "a range of addresses"
    assert proxy_of("https://11.1.2.3:8000/v1") != Proxy()
    proxy = proxy_of("https://api.example.org/v1")
    assert proxy.address == "http://proxy.example.org:3128" and proxy.auth is not None and proxy.auth.login == "me"
    assert (
        proxy_of("https://internal.example.org/v1") == proxy_of("http://api.example.org/v1") == proxy_of("") == Proxy()
    )


KEY_FIX = "set the environment variable that key_env names to a key that may use files and batches"


@pytest.mark.parametrize("call", ["content", "batches/"])
@pytest.mark.parametrize(("status", "fix"), [
    (401, KEY_FIX),
    (403, KEY_FIX),
    (402, "settle this with the provider, and run again: the batch is kept"),
    (400, "delete {record} to send its requests again"),
    (422, "delete {record} to send its requests again"),
])  # fmt: skip
def test_a_refused_call_about_a_batch_names_its_own_fix(call: str, status: int, fix: str, server: Served) -> None:
    get = server.get

    def refuse(request: Any) -> None:
        refusal = json.dumps({"error": {"message": "not you"}}).encode()
        request.send(status, refusal) if call in request.path else get(request)

    server.call(2)
    server.patch.setattr(server, "get", refuse)
    [batch] = BatchFolder().pending()
    server.call(2)
    [fault] = server.work.faults.values()
    assert fault.fix.startswith(fix.format(record=BatchFolder().file(batch, "json")))
    expected = {"content": "files/file-out-batch_1/content", "batches/": "batches/batch_1"}[call]
    assert f"{expected}: the server answers {status} (not you)" in fault.line
    server.patch.setattr(server, "get", get)
    assert len(server.call(2) or ()) == 2 and server.submissions == 1


def test_a_batch_that_has_ended_cannot_be_cancelled_but_is_no_error(
    server: Served, capsys: pytest.CaptureFixture[str]
) -> None:
    post = server.post

    def conflict(request: Any) -> None:
        if not request.path.endswith("/cancel"):
            return post(request)
        body_of(request)
        problem = {"message": "Cannot cancel a batch with status 'completed'.", "type": "invalid_request_error"}
        return request.send(409, json.dumps({"error": problem}).encode())

    server.call(2)
    server.patch.setattr(server, "post", conflict)
    cancel()
    assert ": completed" in capsys.readouterr().out


def test_batches_of_an_earlier_version_are_not_lost(server: Served) -> None:
    """That version kept them beside the journals."""
    record = JOURNALS / "a/journal.batches/1.json"
    record.parent.mkdir(parents=True)
    record.write_text(json.dumps({"state": "submitted", "keys": ["0" * 64]}))
    with pytest.raises(UserError, match=r"journal\.batches/1\.json: a batch of an earlier version .* Fix: collect it"):
        collect_batches()
    record.write_text(json.dumps({"state": "collected", "keys": []}))
    assert len(server.calls(3) or ()) == 3


def test_the_table_of_providers_is_that_of_the_resource_file() -> None:
    page = (ROOT / "docs/models.md").read_text(encoding="utf-8")
    rows = [
        f"| {name} | {api.requests:,} | {api.mb:g} | {api.price_factor:g} | [page]({api.page}), {api.read} |"
        for name, api in batch_apis().items()
        if api.form == "openai"
    ]
    assert [line for line in page.splitlines() if "[page](" in line] == rows
    others = [name for name, api in batch_apis().items() if api.form == "other"]
    assert all(name in page.lower() for name in others) and all(api.page and api.read for api in batch_apis().values())


@pytest.mark.parametrize("line", [b"", b"{", b"[1]", b"null", b'{"custom_id": 5}', b"[" * 10_000, b"\xff\xfe"])
def test_lines_without_an_id_are_skipped(line: bytes) -> None:
    assert parse_line(line) is None
