"""Requests in batches: against a scripted endpoint with OpenAI's batch API, with kills, faults and hostile files."""

from __future__ import annotations

import asyncio
import io
import json
import os
import random
import re
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from batch_server import BatchServer, Lines, body_of, echo, error_line, output_line, uploaded
from conftest import ROOT
from httpserver import Quiet, chat, serving
from maieutic.config.batch_apis import batch_apis
from maieutic.config.budget import Budget
from maieutic.config.models import HostedModel, Price
from maieutic.core.errors import UserError
from maieutic.core.journal import FinishedRequest, load_journal_answers, take_lock
from maieutic.core.ledger import ledger_lines
from maieutic.core.records import Reply, read_records
from maieutic.launch.batches import cancel, pending_batches
from maieutic.launch.runs import runs
from maieutic.replies.generate import ask_tutor
from maieutic.serving import batch_collector, batch_endpoint, batch_register, batch_sender
from maieutic.serving.backends import JobFiles, hosted_identity
from maieutic.serving.batch_client import BatchClient
from maieutic.serving.batch_endpoint import PublicResolver, check_redirect
from maieutic.serving.batches import (
    BATCH_VARIABLE,
    Batch,
    BatchAnswers,
    BatchFolder,
    BatchLimits,
    BatchSettings,
    BatchState,
    RedactingWriter,
    TooLarge,
    parse_line,
)
from maieutic.serving.budget import Allowance, Amount, Purse
from maieutic.serving.client import Client, Pending, ServerSettings, Unanswered
from maieutic.serving.connections import Proxy, proxy_of
from maieutic.serving.refusals import Refusal
from test_client import KEY, RequestLimits, drive, hosted, with_budget, work

PENDING = r"batches: m: \d+ of \d+ items have no answer yet: "


@pytest.fixture(autouse=True)
def key(monkeypatch: pytest.MonkeyPatch) -> None:
    """Set the API key of the registry entry, and wait less than at a real endpoint."""
    monkeypatch.setenv("TEST_KEY", KEY)
    monkeypatch.setattr(batch_sender, "QUIET_SECONDS", 0.1)
    monkeypatch.setattr(batch_register, "SETTLE_SECONDS", 0.2)
    monkeypatch.setattr(batch_collector, "FIRST_POLL", 0.05)


def settings(wait: bool = False, requests: int = 50_000, mb: float = 200) -> str:
    """Return the value of the environment variable with the settings of batches."""
    limits = {"m": BatchLimits(requests=requests, mb=mb)}
    return BatchSettings(run="r", wait=wait, limits=limits).to_json()


def contents(replies: list[Reply]) -> list[Any]:
    """Return what batches do not change: everything but the durations and the mark of batches."""
    return [
        reply.model_copy(
            update={"turns": [turn.model_copy(update={"seconds": 0, "batched": False}) for turn in reply.turns]}
        )
        for reply in replies
    ]


class Served(BatchServer):
    """A batch server at an address, and a job that asks it with its files in a folder."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        super().__init__()
        self.folder, self.patch, self.address = folder, monkeypatch, ""

    def batched(self, **more: Any) -> None:
        """Let the job's requests be sent in batches with other limits."""
        self.patch.setenv(BATCH_VARIABLE, settings(**more))

    def drive(self, count: Any, folder: Path | None = None, **more: Any) -> list[Reply]:
        """Ask about `count` items, and return the replies."""
        return drive(self.address, folder or self.folder, count, **more)

    def pending(self, count: int, folder: Path | None = None, more_of_line: str = "", **more: Any) -> UserError:
        """Start the job, and return the error about pending batches."""
        with pytest.raises(UserError, match=PENDING + more_of_line) as error:
            self.drive(count, folder, **more)
        return error.value

    def collect(self, count: int, **more: Any) -> list[Reply]:
        """Send the batches, and collect their answers with a second job."""
        self.pending(count, **more)
        return self.drive(count, **more)


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Served]:
    """Serve a scripted endpoint to a job that sends its requests in batches."""
    server = Served(tmp_path, monkeypatch)
    server.batched()
    with serving(server.handler()) as server.address:
        yield server


def test_a_second_job_collects_the_answers_and_equals_a_live_job(server: Served) -> None:
    server.patch.delenv(BATCH_VARIABLE)
    live = server.drive(20, server.folder / "live", endpoint="chat")
    server.batched()
    pending = server.pending(20, server.folder / "batch", endpoint="chat")
    assert pending.line.startswith(
        f"batches: m: 20 of 20 items have no answer yet: 1 batch at {server.address.removeprefix('http://')} with 20 requests"
    )
    assert pending.fix == "run again later; `maieutic runs` shows the state of the batches"
    assert server.live == 20
    replies = server.drive(20, server.folder / "batch", endpoint="chat")
    assert contents(replies) == contents(live) and all(turn.batched for reply in replies for turn in reply.turns)
    keys = [load_journal_answers(server.folder / name / "journal.jsonl", FinishedRequest) for name in ("live", "batch")]
    assert set(keys[0]) == set(keys[1]), "the keys of a live run"
    assert (server.live, server.submissions, set(server.submitted.values())) == (20, 1, {1})
    [line] = [line for line in ledger_lines(server.folder / "batch/journal.ledger") if line.batched]
    assert (line.requests, line.prompt_tokens, line.completion_tokens) == (20, 200, 40)
    [batch] = server.batches.values()
    assert batch["metadata"]["maieutic_job"] == "journal"
    server.drive(20, server.folder / "batch", endpoint="chat")
    assert (server.live, server.submissions) == (20, 1)
    for path in server.folder.rglob("*"):
        assert path.is_dir() or KEY.encode() not in path.read_bytes()
    assert b'"batched"' not in (server.folder / "live/journal.jsonl").read_bytes(), "live journals are as they were"


def test_a_waiting_job_needs_no_second_one(server: Served) -> None:
    server.looks = 2
    server.batched(wait=True, requests=7)
    assert len(server.drive(20)) == 20
    assert (server.live, server.submissions, set(server.submitted.values())) == (0, 3, {1})


def test_bytes_limit_a_batch_too(server: Served) -> None:
    server.batched(mb=0.002)
    assert len(server.collect(30)) == 30
    assert server.submissions > 3 and set(server.submitted.values()) == {1}
    assert all(len(content) <= 2_000 for name, content in server.files.items() if name.startswith("file-in"))
    server.batched(mb=0.0001)
    problem = r"models\.m\.batch_mb: a request of 0\.0 MB is larger than a batch .* Fix: raise"
    with pytest.raises(UserError, match=problem):
        server.drive(31)


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
    """The first of six requests gets a hostile line, in either file. The others are answered."""
    make, fate = FATES[name]
    server.batched(wait=True)

    def edit(batch: dict[str, Any], output: Lines, errors: Lines) -> tuple[Lines, Lines]:
        if batch["id"] != "batch_1":
            return output, errors
        first = server.lines_of(batch)[0]
        lines = make(first["custom_id"], echo(first["body"])[1])
        others = [line for line in output if line["custom_id"] != first["custom_id"]]
        return (lines + others, errors) if place == "output" else (others, lines)

    server.edit = edit
    replies = server.drive(6)
    assert len(replies) == 6 and all(reply.error is None for reply in replies[1:])
    again = sorted(server.submitted.values())
    if fate == "again":
        assert replies[0].error is None and again == [1, 1, 1, 1, 1, 2], "only this request is sent a second time"
    else:
        assert again == [1] * 6
        assert (replies[0].error is not None) == (fate == "refused")
    assert all("answer to" in reply.text for reply in replies if reply.error is None)


@pytest.mark.parametrize("status", ["expired", "cancelled", "canceled", "COMPLETED"])
def test_what_an_ended_batch_answered_is_kept_and_the_rest_is_sent_again(status: str, server: Served) -> None:

    def edit(batch: dict[str, Any], output: Lines, errors: Lines) -> tuple[Lines, Lines]:
        if batch["id"] != "batch_1":
            return output, errors
        batch["status"] = status
        return output[:3], [error_line(line["custom_id"], "batch_expired") for line in output[3:]]

    server.edit = edit
    for _ in range(2):
        server.pending(10)
    assert sorted(server.submitted.values()) == [1] * 3 + [2] * 7
    assert len(load_journal_answers(server.folder / "journal.jsonl", FinishedRequest)) == 3
    assert len(server.drive(10)) == 10
    assert server.submissions == 2 and set(server.answered.values()) == {1}, "nothing is answered, and paid, twice"


def test_requests_that_no_batch_answers_end_with_the_reason(server: Served) -> None:
    server.edit = lambda batch, out, bad: ([], [error_line(line["custom_id"], "request_timeout") for line in out])
    server.batched(wait=True)
    reason = r"3 of 3 items stayed unanswered \(no answer after 2 batches, last request_timeout: 3\)"
    with pytest.raises(UserError, match=reason):
        server.drive(3)
    assert server.submissions == 2, "as many batches as the entry's `attempts`"


def test_all_failed_batches_are_listed_at_once(server: Served) -> None:
    server.failure = lambda number: {"code": "billing_hard_limit_reached", "message": "pay"} if number < 4 else None
    server.batched(requests=2)
    server.pending(6)
    with pytest.raises(UserError) as error:
        server.drive(6)
    names = {re.search(r"batch (batch_\d) failed", fault.line)[1] for fault in error.value.all}  # type: ignore[index]
    assert names == {"batch_1", "batch_2", "batch_3"}
    assert len(server.collect(6)) == 6, "and none of them is left"


def test_a_malformed_list_of_batches_sends_nothing_twice(server: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    server.submitting = lambda number: "after"
    monkeypatch.setattr(server, "page", lambda query: {"error": {"message": "try again"}})
    with pytest.raises(UserError, match=r"3 of 3 items stayed unanswered \(.*answers without a list of batches: 3\)"):
        server.drive(3)
    monkeypatch.undo()
    monkeypatch.setenv("TEST_KEY", KEY)
    server.batched()
    assert len(server.drive(3)) == 3
    assert server.submissions == 1


def test_a_failed_upload_leaves_earlier_batches_alone(server: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    server.batched(requests=2)
    original = server.post

    def post(request: Any) -> None:
        if request.path.endswith("/files") and server.uploads == 2:
            body_of(request)
            return request.send(400, b'{"error": {"message": "quota of files"}}')
        return original(request)

    monkeypatch.setattr(server, "post", post)
    with pytest.raises(UserError, match="quota of files"):
        server.drive(8)
    monkeypatch.setattr(server, "post", original)
    assert len(server.collect(8)) == 8
    assert set(server.submitted.values()) == {1} and server.submissions == 4


@pytest.mark.parametrize("action", ["before", "after", "504 too long", "null", 500, 503, 409, 429])
def test_an_unanswered_submission_is_looked_up_before_it_is_repeated(action: str | int, server: Served) -> None:
    server.submitting = lambda number: action if number == 5 else None
    server.batched(requests=2)
    assert len(server.collect(12)) == 12, "five other batches are on the list"
    assert set(server.submitted.values()) == {1}
    assert server.submissions == (6 if action in ("after", "504 too long", "null") else 7)
    assert server.listings > 0 or action == 429, "a list of more than one page is searched"


KILLED_JOB = """
import sys
from pathlib import Path
sys.path[:0] = ["tests", "tests/unit"]
from maieutic.cli import exit_code_of
from maieutic.core.logs import log_to
from maieutic.serving import batch_collector, batch_sender
from maieutic.serving.backends import JobFiles, hosted_identity
from maieutic.serving.batch_client import BatchClient
from test_client import drive
batch_sender.QUIET_SECONDS, batch_collector.FIRST_POLL = 0.2, 0.05
log_to(Path(sys.argv[2]) / "log")
try:
    drive(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]), concurrency=64)
except BaseException as error:
    sys.exit(exit_code_of(error, "generate-replies"))
"""


@pytest.mark.slow
def test_ten_kills_ask_nothing_twice_and_change_no_answer(server: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    """500 requests in batches of 20; five kills come between a submission and its answer, five at any time."""
    count, seed = 500, random.Random(48)
    holding = threading.Event()
    server.submitting = lambda number: "hold" if holding.is_set() else None
    environment = {**os.environ, "PYTHONPATH": "workflow", BATCH_VARIABLE: settings(requests=20)}
    folder = server.folder / "batches"
    folder.mkdir()
    monkeypatch.delenv(BATCH_VARIABLE)
    live = server.drive(count, server.folder / "live")
    live_requests = server.live
    kills = {"between": 0, "at any time": 0}
    code = None
    while code != 0:
        command = [sys.executable, "-c", KILLED_JOB, server.address, str(folder), str(count)]
        job = subprocess.Popen(command, env=environment, stderr=subprocess.DEVNULL)
        if sum(kills.values()) == 10:
            holding.clear()
            code = job.wait(60)
            continue
        if kills["between"] < kills["at any time"]:
            holding.set()
            assert server.held.acquire(timeout=60)
            kills["between"] += 1
        else:
            holding.clear()
            while not (uploads := server.uploads) and job.poll() is None:
                time.sleep(0.01)
            deadline = time.monotonic() + 60
            while server.uploads < uploads + 2 and time.monotonic() < deadline:
                time.sleep(0.002)
            time.sleep(seed.uniform(0, 0.02))
            assert job.poll() is None
            kills["at any time"] += 1
        job.kill()
        job.wait(60)
    server.released.set()
    replies = server.drive(count, folder)
    assert kills == {"between": 5, "at any time": 5}
    assert contents(replies) == contents(live)
    assert len(server.submitted) == count and set(server.submitted.values()) == {1}, "no request is submitted twice"
    assert server.live == live_requests, "and none is sent by itself"


FULL = {"code": "token_limit_exceeded", "message": "Enqueued token limit reached for m", "line": None}


def test_a_batch_that_exceeds_the_queue_is_sent_by_the_next_job(server: Served) -> None:
    """The requests of a batch that failed go into new batches, of the size that the entry now sets."""
    server.failure = lambda number: FULL if number in (2, 3) else None
    server.batched(requests=5)
    lines = []
    for requests in (5, 5, 3):
        server.batched(requests=requests)
        with pytest.raises(UserError, match=PENDING) as pending:
            server.drive(10)
        lines.append("; too many tokens were queued: models.m.batch_requests sets" in pending.value.line)
    assert len(server.drive(10)) == 10
    assert lines == [False, True, True]
    assert [len(server.lines_of(batch)) for batch in server.batches.values()] == [5, 5, 5, 3, 2]
    assert set(server.submitted.values()) == {1}, "of the batches that did not fail"


def test_a_waiting_job_sends_again_what_exceeded_the_queue(server: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    server.failure = lambda number: FULL if number < 4 else None
    server.batched(wait=True)
    monkeypatch.setattr(batch_collector, "QUEUE_SECONDS", 0.1)
    assert len(server.drive(4)) == 4, "these attempts do not count"
    assert server.submissions == 4 and set(server.submitted.values()) == {1}


def test_a_queue_that_stays_full_ends_a_waiting_job(server: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    server.failure = lambda number: FULL
    server.batched(wait=True)
    monkeypatch.setattr(batch_collector, "QUEUE_SECONDS", 0.05)
    monkeypatch.setattr(batch_collector, "MOST_QUEUE_FAILURES", 3)
    reason = r"4 of 4 items stayed unanswered \(no answer after 2 batches, last token_limit_exceeded: 4\)"
    with pytest.raises(UserError, match=reason):
        server.drive(4)
    assert server.submissions == 3 + 2


def test_a_failed_batch_ends_the_job_in_one_line_and_is_forgotten(server: Served) -> None:
    wrong = {"code": "model_not_found", "message": "The model m does not exist", "line": 1}
    server.failure = lambda number: wrong if number == 1 else None
    server.pending(5)
    with pytest.raises(UserError) as failed:
        server.drive(5)
    assert failed.value.line == (
        "models.m.batch: batch batch_1 failed, and nothing was answered: model_not_found The model m does not exist "
        "(line 1). Fix: correct the entry, or remove batch to send single requests"
    )
    assert len(server.collect(5)) == 5


def test_a_refusal_of_every_request_is_no_refusal_of_the_items(server: Served, tmp_path: Path) -> None:
    refusal = 400, {"error": {"message": "Unsupported parameter: 'temperature' is not supported"}}
    server.answer = lambda body: refusal if "temperature" in body else echo(body)
    server.pending(5)
    with pytest.raises(UserError, match=r"Unsupported parameter.* Fix: set omit: \[temperature\]"):
        server.drive(5)
    assert not load_journal_answers(tmp_path / "journal.jsonl", FinishedRequest)
    assert len(server.collect(5, omit=["temperature"])) == 5


REFUSED_CALLS: dict[str, tuple[int, str]] = {
    "a wrong key": (401, r"models\.m: .*/files: the server answers 401 .* Fix: set the environment variable that key_env"),
    "no batch API": (404, r"models\.m\.batch: .*/files: the server answers 404 .* Fix: remove batch if this endpoint has"),
    "a bad request": (400, r"models\.m\.batch: .*/files: the server answers 400 .* Fix: correct the entry, or remove"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED_CALLS)
def test_an_endpoint_without_batches_is_an_error_of_one_line(name: str, server: Served) -> None:
    status, pattern = REFUSED_CALLS[name]

    def refuse(request: Any) -> None:
        request.rfile.read(int(request.headers.get("Content-Length") or 0))
        request.send(status, b'{"error": {"message": "no"}}')

    server.patch.setattr(server, "post", refuse)
    with pytest.raises(UserError, match=pattern) as error:
        server.drive(3)
    assert "\n" not in error.value.lines
    assert not list(server.folder.glob("journal.batches/*")), "nothing is left of a batch that was not accepted"


def test_a_switch_to_live_requests_in_mid_run_asks_nothing_twice(server: Served) -> None:
    server.looks = 1
    server.patch.delenv(BATCH_VARIABLE)
    server.drive(4)
    server.batched()
    server.pending(10)
    server.patch.delenv(BATCH_VARIABLE)
    with pytest.raises(UserError, match=PENDING + "1 batch"):
        server.drive(15)  # the batch has not ended at the first look
    assert server.live == 4 + 5, "new requests are sent by themselves"
    replies = server.drive(15)
    assert len(replies) == 15 and set(server.submitted.values()) == {1} and len(server.submitted) == 6
    assert server.live == 9 and server.submissions == 1
    assert [reply.turns[0].batched for reply in replies] == [False] * 4 + [True] * 6 + [False] * 5


def test_shards_find_each_others_batches(server: Served, tmp_path: Path) -> None:
    """A journal of another job has a pending batch: its requests are not sent again, and its answers are used."""
    server.looks = 1
    part, whole = tmp_path / "part", tmp_path / "whole"
    server.pending(3, part)
    for batches in ("2 batches", "1 batch"):
        with pytest.raises(UserError, match=PENDING + batches):
            ask_with(server.address, whole, part, 8)
    ask_with(server.address, whole, part, 8)
    assert len(server.submitted) == 8 and set(server.submitted.values()) == {1}


def test_a_conversation_of_several_turns_is_a_batch_a_turn(server: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    server.batched(wait=True)
    pairs = [(loaded, item.model_copy(update={"script": ["And then?", "Why?"]})) for loaded, item in work(6)]
    replies = server.drive(pairs, endpoint="chat")
    assert [len(reply.turns) for reply in replies] == [3] * 6
    assert server.submissions == 3 and len(server.submitted) == 18


def test_a_budget_reserves_the_most_that_a_batch_can_cost(server: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each request may take 8 answer tokens and its prompt. What is not used is free for the next batch."""
    with_budget(monkeypatch, server.folder, tokens=600)
    problem = PENDING + r".*; no more are sent, since the rest of run\.budget is reserved for batches"
    with pytest.raises(UserError, match=problem):
        server.drive(30)
    first = len(server.submitted)
    spent = spending(server.folder / "purse.jsonl")
    assert 0 < first < 30 and spent[0] == first and spent[1] <= 600
    (server.folder / "purse.jsonl").unlink()  # as at the start of another run
    server.pending(30)
    settled = spending(server.folder / "purse.jsonl")
    assert len(server.submitted) > first, "the answers of the first batch left something for a second one"
    assert settled[1] <= 600 and server.submissions == 2


def test_attempts_of_one_run_reserve_a_request_once(server: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    """Snakemake's `retries` start a pending job again, within the same budget."""
    server.looks = 3
    with_budget(monkeypatch, server.folder, tokens=100_000)
    amounts = []
    for _ in range(4):
        server.pending(5)
        amounts.append(spending(server.folder / "purse.jsonl"))
    assert amounts == [amounts[0]] * 4 and amounts[0][0] == 5
    server.drive(5)
    requests, tokens, usd = spending(server.folder / "purse.jsonl")
    assert (requests, tokens, round(usd, 6)) == (5, 60, 0.05), "five answers of twelve tokens"


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


def test_runs_lists_pending_batches_and_cancel_ends_them(server: Served, capsys: pytest.CaptureFixture[str]) -> None:
    server.looks = 100
    server.batched(requests=4)
    journals = server.folder / "results/journal/replies/toy"
    journals.mkdir(parents=True)
    server.pending(8, journals)
    server.patch.chdir(server.folder)
    first, _ = sorted(pending_batches()[0], key=lambda batch: batch.line)
    assert first.run == "r" and "4 requests of replies/toy/journal, submitted 20" in first.line
    assert first.line.startswith(f"batch_1 at {server.address.removeprefix('http://')}: ")
    assert first.status == "in_progress"
    with pytest.raises(UserError, match=r"maieutic cancel: 'q' is not in the runs with pending batches"):
        cancel("q")
    cancel("r")
    assert capsys.readouterr().out.count(": cancelling") == 2
    assert {batch["status"] for batch in server.batches.values()} == {"cancelling"}
    server.patch.undo()
    server.patch.setenv("TEST_KEY", KEY)
    assert len(server.drive(8, journals)) == 8, "finished answers of cancelled batches are collected"
    server.patch.chdir(server.folder)
    assert pending_batches() == ([], [])
    cancel()
    assert "No run of this folder has pending batches." in capsys.readouterr().out


def test_pending_batches_are_listed_without_their_key(server: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    server.looks = 100
    journals = server.folder / "results/journal"
    journals.mkdir(parents=True)
    with serving(server.handler()) as address, pytest.raises(UserError, match=PENDING):
        drive(address, journals, 2)
    monkeypatch.chdir(server.folder)
    assert "attempts to call batches/batch_1 failed, last ClientConnectorError" in pending_batches()[0][0].line
    monkeypatch.delenv("TEST_KEY")
    assert pending_batches()[0][0].line.endswith("in_progress, its current status needs the key: export TEST_KEY=...")
    with pytest.raises(UserError, match=r"not cancelled: batch_1\. Fix: see the reasons above, and repeat this"):
        cancel()


def test_a_damaged_file_about_a_batch_is_an_error_with_its_path(server: Served, tmp_path: Path) -> None:
    server.looks = 100
    server.pending(2)
    [path] = tmp_path.glob("journal.batches/*.json")
    whole = path.read_text()
    path.write_text(whole[:50])
    problem = r"journal\.batches/.*\.json: the record of a batch cannot be read\. Fix: restore"
    with pytest.raises(UserError, match=problem):
        server.drive(2)
    path.write_text(whole)
    server.pending(2)
    server.end_all()
    server.drive(2)
    [answers] = tmp_path.glob("journal.batches/*.answers")
    answers.unlink()
    problem = r"\.answers: the answers of a batch are missing\. Fix: restore .* or delete .*\.json"
    with pytest.raises(UserError, match=problem):
        server.drive(3)
    assert server.submissions == 1


def test_a_batch_that_the_endpoint_forgot_is_an_error_with_its_record(server: Served) -> None:
    """The key may be wrong, or the batch may be gone, so nothing is sent again by itself."""
    server.pending(2)
    server.batches.clear()
    problem = r"models\.m: .*/batches/batch_1: the server answers 404 .* Fix: delete (\S+)"
    with pytest.raises(UserError, match=problem) as error:
        server.drive(2)
    Path(error.value.fix.split()[1]).unlink()
    assert len(server.collect(2)) == 2
    assert server.submissions == 2


def test_a_job_settles_what_another_job_of_the_model_left(server: Served, tmp_path: Path) -> None:
    """A killed shard's cut-off submission had arrived. A job for all items needs its answers, waiting or not."""
    for wait in (False, True):
        part, whole = tmp_path / f"part-{wait}", tmp_path / f"whole-{wait}"
        server.submitted.clear()
        server.batched()
        server.pending(3, part)
        [record] = part.glob("journal.batches/*.json")
        left = {"state": BatchState.SUBMITTING, "provider_id": None}
        record.write_text(Batch.model_validate_json(record.read_text()).model_copy(update=left).model_dump_json())
        server.batched(wait=wait)
        if not wait:
            with pytest.raises(UserError, match=PENDING + "1 batch"):
                ask_with(server.address, whole, part, 5)
        assert len(ask_with(server.address, whole, part, 5)) == 5
        assert len(server.submitted) == 5 and set(server.submitted.values()) == {1}


def test_a_running_jobs_batches_are_left_alone(server: Served, tmp_path: Path) -> None:
    part, whole = tmp_path / "part", tmp_path / "whole"
    server.pending(3, part)
    lock = take_lock(part / "journal.lock")
    for _ in range(2):
        with pytest.raises(UserError, match=PENDING):
            ask_with(server.address, whole, part, 3)
    lock.close()
    assert len(ask_with(server.address, whole, part, 3)) == 3
    assert server.submissions == 1


def ask_with(address: str, folder: Path, other: Path, count: int) -> list[Reply]:
    """Ask about `count` items, with the journal of a second folder besides."""
    paths = [folder / name for name in ("journal.jsonl", "server.log", "out.jsonl", "prompts.jsonl")]
    files = JobFiles(None, *paths[:2], journals=[other / "journal.jsonl"])
    ask_tutor("m", hosted(address), work(count), RequestLimits(8, 1), files, *paths[2:])
    return read_records(paths[2], Reply)


LOST: dict[str, Callable[[BatchServer, dict[str, Any]], None]] = {
    "no output file": lambda server, batch: batch.update(output_file_id=None),
    "an output file that is gone": lambda server, batch: server.files.pop(batch["output_file_id"]) and None,
}


@pytest.mark.parametrize("name", LOST)
def test_answers_that_cannot_be_fetched_are_not_asked_for_again(
    name: str, server: Served, caplog: pytest.LogCaptureFixture
) -> None:
    server.pending(3)
    server.end_all()
    [batch] = server.batches.values()
    LOST[name](server, batch)
    batch["request_counts"]["completed"] = 3
    server.pending(3)
    assert server.submissions == 1
    assert re.search(
        r"batch batch_1 has answers, but \S+ has no file with them\. Fix: delete \S+\.json to send", caplog.text
    )


def test_a_waiting_job_ends_if_answers_cannot_be_fetched(server: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    """The fix works: without the record, the requests are sent again. The endpoint states no counts."""
    server.batched(wait=True)

    original = server.get

    def forget(request: Any) -> None:
        if request.path.endswith("file-out-batch_1/content"):
            return request.send(410, b"{}")
        return original(request)

    monkeypatch.setattr(server, "get", forget)
    with pytest.raises(UserError, match=r"models\.m\.batch: batch batch_1 has answers") as error:
        server.drive(3)
    Path(error.value.fix.split()[1]).unlink()
    assert len(server.drive(3)) == 3
    assert server.submissions == 2


def test_a_key_that_a_server_echoes_in_a_batch_is_not_stored(server: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor in the files of a download that was cut off."""
    server.answer = lambda body: (200, chat({"content": f"{KEY} \u2028 {'x' * 70_000}"}))
    stored: list[bytes] = []
    original = batch_collector.store_answers
    monkeypatch.setattr(
        batch_collector,
        "store_answers",
        lambda sources, out: (stored.extend(path.read_bytes() for path in sources), original(sources, out)),
    )
    [reply, *_] = server.collect(2, endpoint="chat")
    assert reply.turns[0].text.startswith("[key] \u2028 xxx") and len(reply.turns[0].text) > 70_000
    assert len(stored[0]) > 140_000
    files = [path for path in server.folder.rglob("*") if path.is_file()]
    assert KEY.encode() not in b"".join([*stored, *(path.read_bytes() for path in files)])


def test_a_killed_jobs_leftovers_are_removed(server: Served, tmp_path: Path) -> None:
    folder = tmp_path / "journal.batches"
    folder.mkdir()
    (folder / "aa.0.part").write_text("x")
    (folder / "bb.requests").write_text("x")
    server.collect(2)
    assert sorted(path.suffix for path in folder.iterdir()) == [".answers", ".json"]


def test_requests_that_fail_live_are_not_called_pending(server: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    server.looks = 9
    server.pending(2)
    monkeypatch.delenv(BATCH_VARIABLE)
    server.answer = lambda body: (500, {"error": {"message": "down"}})
    with pytest.raises(
        UserError, match=r"answers no request: 500 down\. Fix: check the account, the key and the server"
    ):
        server.drive(5)


def test_two_clients_of_one_model_submit_a_cut_off_batch_once(server: Served, tmp_path: Path) -> None:
    """A simulation's tutor and student may be the same model, with one journal. Both see the answers."""
    server.looks = 9
    server.pending(4)
    [path] = tmp_path.glob("journal.batches/*.json")
    cut_off = Batch.model_validate_json(path.read_text()).model_copy(
        update={"state": BatchState.SUBMITTING, "provider_id": None}
    )
    path.write_text(cut_off.model_dump_json())

    async def start_both() -> list[int]:
        folders = [BatchFolder.beside(tmp_path / "journal.jsonl")]
        names, identity = ("tutor", "student"), hosted_identity(hosted(server.address))
        both = BatchSettings(run="r", limits=dict.fromkeys(names, BatchLimits(requests=10, mb=1)))
        clients = [
            BatchClient(Client(ServerSettings(f"{server.address}/v1", "m", api_key=KEY)), folders, identity, both, name)
            for name in names
        ]
        await asyncio.gather(*(client.start() for client in clients))
        pending = [len(client.register.pending) for client in clients]
        server.end_all()
        for client in clients:
            for folder, batch in list(client.register.pending.values()):
                await client.collector.check(folder, batch)
        assert all(len(client.register.collected) == 1 and not client.register.pending for client in clients)
        for client in clients:
            await client.close()
        return pending

    assert asyncio.run(start_both()) == [1, 1]
    assert server.submissions == 1


def test_forgotten_refusals_are_sent_again(server: Served, tmp_path: Path) -> None:
    flagged = (400, {"error": {"code": "content_filter", "message": "flagged"}})
    server.answer = lambda body: flagged if "1+1" in str(body) and not server.live else echo(body)
    server.batched(wait=True)
    assert [bool(reply.error) for reply in server.drive(4)].count(True) == 1
    folder = BatchFolder.beside(tmp_path / "journal.jsonl")
    journal = tmp_path / "journal.jsonl"
    journal.write_text("".join(line for line in journal.read_text().splitlines(True) if "flagged" not in line))
    server.drive(4)
    assert server.submissions == 1, "a refusal in the batch's files counts"
    journal.write_text("".join(line for line in journal.read_text().splitlines(True) if "flagged" not in line))
    folder.drop_answers(lambda key, is_refusal: is_refusal)
    server.drive(4)
    assert server.submissions == 2 and sorted(server.submitted.values()) == [1, 1, 1, 2]


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
    name: str, counts: bool, server: Served
) -> None:
    spoiled(server.patch, server, DAMAGES[name], 2)
    if not counts:
        without_counts(server.patch, server)
    server.pending(6)
    for _ in range(2):
        with pytest.raises(UserError, match=PENDING + r".*lack \d of its answers.*or delete .* to send these requests"):
            server.drive(6)
    assert len(server.drive(6)) == 6
    assert server.submissions == 1 and set(server.submitted.values()) == {1}


def test_what_an_incomplete_file_has_is_taken_and_only_the_rest_is_sent_again_by_hand(server: Served) -> None:
    spoiled(server.patch, server, DAMAGES["cut after a line"], 99)
    for _ in range(3):
        with pytest.raises(UserError, match=PENDING) as error:
            server.drive(6)
    assert len(load_journal_answers(server.folder / "journal.jsonl", FinishedRequest)) == 3
    assert "3 of 6 items have no answer yet" in error.value.line and "with 3 requests" in error.value.line
    [record] = re.findall(r"delete (\S+)", error.value.line)
    Path(record).unlink()
    server.pending(6)
    assert len(server.drive(6)) == 6
    assert sorted(server.submitted.values()) == [1, 1, 1, 2, 2, 2]


def test_a_waiting_job_ends_if_a_file_stays_incomplete(server: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    server.batched(wait=True)
    spoiled(monkeypatch, server, DAMAGES["empty"], 99)
    with pytest.raises(UserError, match="lack 4 of its answers"):
        server.drive(4)
    assert server.submissions == 1


def test_a_request_is_submitted_three_times_at_most_over_all_calls(server: Served, tmp_path: Path) -> None:
    """Then a command that a person types allows more. Other requests are answered."""
    server.answer = lambda body: (500, {"error": {"message": "x"}}) if "1+1?" in str(body) else echo(body)
    for _ in range(4):
        with pytest.raises(UserError) as error:
            server.drive(3)
    assert "no answer in 3 batches, last" in error.value.line and "maieutic forget --missing failed" in error.value.line
    for _ in range(2):
        with pytest.raises(UserError):
            server.drive(3)
    assert sorted(server.submitted.values()) == [1, 1, 3]
    assert BatchFolder.beside(tmp_path / "journal.jsonl").drop_failed() == 3
    server.pending(3)
    assert sorted(server.submitted.values()) == [1, 1, 4]


def test_an_odd_line_concerns_only_itself(server: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    """Lone surrogates in a text, an identifier and an error; a byte order mark; invalid UTF-8."""
    odd = [
        b'{"custom_id": "\\ud800", "response": {"status_code": 200, "body": {}}}\n',
        b'{"custom_id": 7}\n', b'{"custom_id": "x", "error": {"code": "\\udc80", "message": "\\ud800"}}\n', b"\xff\xfe\n",
    ]  # fmt: skip

    def change(content: bytes) -> bytes:
        return b"\xef\xbb\xbf" + content.replace(b'"message"', b'"odd": "\\ud800", "message"') + b"".join(odd)

    spoiled(monkeypatch, server, change, 99)
    assert len(server.collect(4)) == 4


@pytest.mark.parametrize(("size", "line"), [(3 << 20, True), (3 << 20, False)])
def test_a_download_has_limits(size: int, line: bool, server: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    """Limit a line and the file, both after decompression, so that little is read of a file that is too large."""
    monkeypatch.setattr(batch_endpoint, "LEAST_DOWNLOAD", 1 << 20)
    monkeypatch.setattr(batch_endpoint, "MOST_OF_ANSWER", 1 << 10)
    spoiled(monkeypatch, server, lambda content: (b"x" if line else b"{}\n") * (size // (1 if line else 3)), 1)
    for _ in range(2):
        server.pending(3)
    assert not list(server.folder.rglob("*.part")) and len(server.drive(3)) == 3
    assert server.submissions == 1


def test_a_long_line_in_small_parts_is_read_in_linear_time() -> None:
    """Each part is copied once; a quadratic reader would copy 50 GB here."""
    out = io.BytesIO()
    writer = RedactingWriter(out, longest_line=1 << 30, most=1 << 30)
    for _ in range(10_000):
        writer.write(b"x" * 1_000)
    writer.end()
    assert len(out.getvalue()) == 10_000_001
    with pytest.raises(TooLarge):
        RedactingWriter(out, longest_line=10, most=100).write(b"x" * 11)


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
        assert len(server.collect(3)) == 3
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


# one client, without a job ---------------------------------------------------------------------------------------------


def request_about(text: str) -> dict[str, Any]:
    """Return a chat request."""
    messages = [{"role": "user", "content": text}]
    return {"endpoint": "chat", "messages": messages, "temperature": 0.0, "max_tokens": 5, "stop": []}


def client_of(
    address: str, *folders: BatchFolder, wait: bool = False, asker: str = "m", attempts: int = 2, live: bool = False
) -> BatchClient:
    """Return a client whose own folder is the first one. live: True if the entry no longer uses batches."""
    limits = {} if live else {"m": BatchLimits(requests=100, mb=1)}
    models = {} if live else {"judge": "m"}
    settings = BatchSettings(run="r", wait=wait, limits=limits, models=models)
    server = ServerSettings(f"{address}/v1", "m", timeout=5, attempts=attempts, name=asker)
    return BatchClient(Client(server), folders, {"model": "m"}, settings, asker)


async def ask_all(client: BatchClient, *texts: str) -> list[Any]:
    """Start a client, send requests, and close it. Returns the answers and the errors."""
    try:
        await client.start()
        return await asyncio.gather(*(client.ask(request_about(text)) for text in texts), return_exceptions=True)
    finally:
        await client.close()


def half_expired(batch: dict[str, Any], output: Lines, errors: Lines) -> tuple[Lines, Lines]:
    """Let the last of three requests of the first batch expire, so that the batch has two files."""
    if batch["id"] != "batch_1":
        return output, errors
    return output[:2], [error_line(line["custom_id"], "batch_expired") for line in output[2:]]


def slow_file(server: BatchServer, monkeypatch: pytest.MonkeyPatch, name: str, seconds: float) -> threading.Event:
    """Delay the download of a batch's `out` or `err` file. Returns the event that is set once it was requested."""
    requested, get = threading.Event(), server.get

    def slow(request: Any) -> None:
        if f"file-{name}" in request.path:
            requested.set()
            time.sleep(seconds)
        get(request)

    monkeypatch.setattr(server, "get", slow)
    return requested


@pytest.mark.parametrize("name", ["out", "err"])
def test_two_clients_with_one_journal_collect_a_batch_once(name: str, server: Served) -> None:
    """The second client asks while the first one downloads either file."""
    folder = BatchFolder(server.folder / "j.batches")
    server.edit = half_expired

    async def collect_with_both() -> tuple[str, Any]:
        first, second = (client_of(server.address, BatchFolder(folder.path), wait=True) for _ in range(2))
        collecting = asyncio.create_task(first.start())
        await asyncio.to_thread(requested.wait, 5)
        await second.start()
        answer = await asyncio.wait_for(second.ask(request_about("b")), 5)
        await collecting
        [answers] = first.register.collected
        summary = answers.summary()
        await first.close()
        await second.close()
        return summary, answer

    asyncio.run(ask_all(client_of(server.address, folder), "a", "b", "c"))
    requested = slow_file(server, server.patch, name, 0.4)
    lock = take_lock(server.folder / "j.lock")
    summary, answer = asyncio.run(collect_with_both())
    lock.close()
    assert summary == "2 answered, 1 unanswered" and "answer to b" in answer.text
    assert server.submissions == 1 and sorted(path.suffix for path in folder.path.iterdir()) == [".answers", ".json"]


def test_a_download_outlives_the_start_of_the_batchs_own_job(server: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    """A shard collects a batch of another shard, which starts meanwhile and removes what a killed job left."""
    folder = BatchFolder(server.folder / "j.batches")
    server.edit = half_expired

    async def collect_during_a_start() -> Any:
        other = client_of(
            server.address, BatchFolder(server.folder / "k.batches"), BatchFolder(folder.path, owned=False), wait=True
        )
        await other.start()
        asking = asyncio.create_task(other.ask(request_about("b")))
        await asyncio.to_thread(requested.wait, 5)
        folder.remove_leftovers(set())
        answer = await asyncio.wait_for(asking, 5)
        await other.close()
        return answer

    asyncio.run(ask_all(client_of(server.address, folder), "a", "b", "c"))
    requested = slow_file(server, monkeypatch, "err", 0.4)
    assert "answer to b" in asyncio.run(collect_during_a_start()).text
    assert [path.name for path in (server.folder / "k.batches").iterdir()] == [] and server.submissions == 1


def test_an_index_outlives_the_removal_of_refusals(tmp_path: Path) -> None:
    """`maieutic forget` moves the lines of a file that another job has indexed. All lines here have equal lengths."""
    lines = [output_line(key, 200, echo({"model": "m", "prompt": key})[1]) for key in ("aa", "bb", "cc")]
    refusal = output_line("aa", 400, {"error": {"message": ""}})
    refusal["response"]["body"]["error"]["message"] = "x" * (len(json.dumps(lines[0])) - len(json.dumps(refusal)))
    folder = BatchFolder(tmp_path)
    batch = Batch(
        id="1", run="", job="", entry="m", base_url="", key_env=None, model_digest="", url="",
        state=BatchState.COLLECTED, keys=["aa", "bb", "cc"], size=1, at="2026-01-01T00:00:00+00:00",
    )  # fmt: skip
    folder.answers_path(batch).write_text("".join(json.dumps(line) + "\n" for line in [refusal, *lines[1:]]))
    answers = BatchAnswers(batch, folder.answers_path(batch))
    assert isinstance(answers.outcome("aa"), Refusal)
    folder.drop_answers(lambda key, is_refusal: is_refusal)
    texts = {key: answers.outcome(key)["choices"][0]["text"] for key in ("bb", "cc")}  # type: ignore[index, call-overload]
    assert all(text.startswith(f"answer to {key} ") for key, text in texts.items())
    assert answers.outcome("aa") == "no line in the batch's files"


def test_a_refusal_after_an_unreadable_answer_is_final(server: Served, tmp_path: Path) -> None:
    folder = BatchFolder(tmp_path / "j.batches")
    refusal = {"error": {"code": "content_filter", "message": "flagged"}}

    def edit(batch: dict[str, Any], output: Lines, errors: Lines) -> tuple[Lines, Lines]:
        [key] = [line["custom_id"] for line in output]
        is_first = batch["id"] == "batch_1"
        return [output_line(key, 200, {"choices": []}) if is_first else output_line(key, 400, refusal)], []

    server.edit = edit
    for _ in range(2):
        [answer] = asyncio.run(ask_all(client_of(server.address, folder, wait=True, attempts=3), "a"))
        assert "flagged" in answer.error and server.submissions == 2


def test_a_batch_that_did_not_answer_is_counted_once(server: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    """One batch expires, and three more fail because too many tokens are queued."""
    monkeypatch.setattr(batch_collector, "QUEUE_SECONDS", 0.05)
    server.edit = lambda batch, out, bad: (
        ([], [error_line(out[0]["custom_id"], "batch_expired")]) if batch["id"] == "batch_1" else (out, bad)
    )
    full = {"code": "token_limit_exceeded", "message": "too many tokens are queued"}
    server.failure = lambda number: full if 1 < number < 5 else None
    client = client_of(server.address, BatchFolder(server.folder / "j.batches"), wait=True)
    [answer] = asyncio.run(ask_all(client, "a"))
    assert "answer to a" in answer.text and client.retries == {"batch_expired": 1} and server.submissions == 5


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
    folder = BatchFolder(server.folder / "j.batches")
    get = server.get

    def refuse(request: Any) -> None:
        refusal = json.dumps({"error": {"message": "not you"}}).encode()
        request.send(status, refusal) if call in request.path else get(request)

    asyncio.run(ask_all(client_of(server.address, folder), "a"))
    server.patch.setattr(server, "get", refuse)
    [record] = folder.path.glob("*.json")
    with pytest.raises(UserError) as error:
        asyncio.run(ask_all(client_of(server.address, folder), "a"))
    assert error.value.fix.startswith(fix.format(record=record))
    expected = {"content": "files/file-out-batch_1/content", "batches/": "batches/batch_1"}[call]
    assert f"{expected}: the server answers {status} (not you)" in error.value.line
    server.patch.setattr(server, "get", get)
    [answer] = asyncio.run(ask_all(client_of(server.address, folder), "a"))
    assert "answer to a" in answer.text and server.submissions == 1


def test_a_batch_of_a_former_entry_is_named_by_that_entry(server: Served, tmp_path: Path) -> None:
    """The entry of a judge no longer uses batches when its last batch fails."""
    folder = BatchFolder(tmp_path / "j.batches")
    server.failure = lambda number: {"code": "billing_hard_limit_reached", "message": "pay"}
    asyncio.run(ask_all(client_of(server.address, folder, asker="judge"), "a"))
    with pytest.raises(UserError, match=r"^models\.m\.batch: batch batch_1 failed"):
        asyncio.run(ask_all(client_of(server.address, folder, asker="judge", live=True), "a"))


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
    folder, left = BatchFolder(server.folder / "j.batches"), iter(statuses)
    get, post = server.get, server.post

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
    [outcome] = asyncio.run(ask_all(client_of(server.address, folder), "a"))
    if expected is None:
        assert isinstance(outcome, Pending) and server.submissions == 1
    else:
        assert re.search(expected, str(outcome)) and server.submissions == 0
        assert list(folder.path.iterdir()) == [], "the next job uploads the requests again"


@pytest.mark.parametrize(("status", "body", "settled"), [
    (200, echo({"model": "m", "messages": [{"content": "a"}]})[1], True),
    (200, {"choices": []}, False),
    (400, {"error": {"code": "content_filter", "message": "flagged"}}, True),
    (402, {"error": {"message": "add credit"}}, False),
    (500, {"error": {"message": "down"}}, False),
])  # fmt: skip
def test_a_dry_run_counts_what_the_next_job_sends_again(status: int, body: Any, settled: bool, server: Served) -> None:
    folder = BatchFolder(server.folder / "j.batches")
    server.edit = lambda batch, out, bad: ([output_line(server.lines_of(batch)[0]["custom_id"], status, body)], [])
    for _ in range(2):
        with suppress(UserError):
            asyncio.run(ask_all(client_of(server.address, folder), "a"))
    for batch in folder.batches():
        if batch.state == BatchState.COLLECTED:
            answers = BatchAnswers(batch, folder.answers_path(batch))
            assert answers.settles(batch.keys[0], request_about("a")) == settled
    before = server.submissions
    asyncio.run(ask_all(client_of(server.address, folder), "a"))
    assert (server.submissions == 1) == settled and (before == 1 or not settled)


def test_a_batch_that_has_ended_cannot_be_cancelled_but_is_no_error(
    server: Served, capsys: pytest.CaptureFixture[str]
) -> None:
    post = None

    def conflict(request: Any) -> None:
        if not request.path.endswith("/cancel"):
            return post(request)
        body_of(request)
        problem = {"message": "Cannot cancel a batch with status 'completed'.", "type": "invalid_request_error"}
        return request.send(409, json.dumps({"error": problem}).encode())

    post = server.post
    server.patch.chdir(server.folder)
    folder = BatchFolder(Path("results/journal/j.batches"))
    asyncio.run(ask_all(client_of(server.address, folder), "a"))
    server.patch.setattr(server, "post", conflict)
    cancel()
    assert ": completed" in capsys.readouterr().out


@pytest.mark.parametrize("damage", ["record", "answers"])
def test_a_damaged_record_does_not_hide_other_batches(
    damage: str, server: Served, capsys: pytest.CaptureFixture[str]
) -> None:
    server.patch.chdir(server.folder)
    old, new = (BatchFolder(Path(f"results/journal/{name}.batches")) for name in ("old", "new"))
    for _ in range(2):
        asyncio.run(ask_all(client_of(server.address, old), "a"))
    [record] = old.path.glob("*.json")
    record.write_text("{") if damage == "record" else record.with_suffix(".answers").unlink()
    server.looks = 100
    asyncio.run(ask_all(client_of(server.address, new), "b"))
    problem = r"cannot be read" if damage == "record" else r"the answers of a batch are missing"
    for command in (runs, cancel):
        with pytest.raises(UserError, match=problem):
            command()
        assert "batch_2 at " in capsys.readouterr().out
    assert server.batches["batch_2"]["status"] == "cancelling"


def test_the_table_of_providers_is_that_of_the_resource_file() -> None:
    page = (ROOT / "docs/batches.md").read_text(encoding="utf-8")
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
