"""Tests of the client and of jobs with requests against scripted servers: overload, hangs, refusals, odd bodies."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import itertools
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpserver
import pytest
import yaml
from conftest import absent
from httpserver import Quiet, chat, completion, scripted, serving
from maieutic.config.budget import Budget
from maieutic.config.cards import CARDS, read_card
from maieutic.config.models import HostedModel, Price, VllmModel
from maieutic.core.errors import UserError
from maieutic.core.journal import FinishedRequest, failed_path, load_journal_answers
from maieutic.core.records import SCORINGS, Item, Prompt, Reply, read_records, write_records
from maieutic.core.states import state_of
from maieutic.graders.reading import Reading
from maieutic.replies.generate import CardItems, RequestLimits, Shard, ask_tutor, run_concurrently, tutor_request
from maieutic.replies.parsing import read_reply
from maieutic.replies.shards import gather_shards
from maieutic.report.tables import reply_costs
from maieutic.serving import client
from maieutic.serving.backends import Backend, JobFiles, hosted_identity
from maieutic.serving.budget import BUDGET_VARIABLE, Allowance
from maieutic.serving.client import Client, ServerSettings, Unanswered
from maieutic.serving.server import VllmServer, vllm_identity

KEY = "sk-canary-5f0c1d"
NO_HEADERS = {}


def server(address: str, **settings: Any) -> ServerSettings:
    return ServerSettings(**{"base_url": f"{address}/v1", "model": "m", "timeout": 5.0, "concurrency": 64, **settings})


def request(text: str = "hi", endpoint: str = "completions", **more: Any) -> dict[str, Any]:
    message = {"role": "system", "content": text}
    return {"endpoint": endpoint, "messages": [message], "temperature": 0.0, "max_tokens": 5, "stop": ["\n"], **more}


def ask(address: str, *requests: dict[str, Any], **settings: Any) -> list[Any]:
    """Send all requests at once, and return answers and exceptions."""

    async def ask_all() -> list[Any]:
        asking_client = Client(server(address, **settings))
        try:
            return await asyncio.gather(*map(asking_client.ask, requests), return_exceptions=True)
        finally:
            await asking_client.close()

    return asyncio.run(ask_all())


def test_a_completion_sends_the_prompt_unchanged() -> None:
    with serving(handler := scripted(lambda n, body: (200, completion("4\nQuestion"), NO_HEADERS))) as address:
        [answer] = ask(address, request("2+2 = "))
    [(_, path, body)] = handler.requests
    assert path == "/v1/completions"
    assert (body["prompt"], body["stop"], body["max_tokens"], body["temperature"]) == ("2+2 = ", ["\n"], 5, 0.0)
    assert (answer.text, answer.attempts, answer.prompt_tokens) == ("4", 1, 1), "cut at the stop string"


def test_a_chat_sends_messages_and_keeps_reasoning_apart() -> None:
    replies = [
        {"content": "\n\n4", "reasoning_content": "2+2"}, {"content": "<think>2+2</think>4"}, {"content": None},
        {"content": "<think>b</think>4", "reasoning": "a"}, {"content": "\n4", "reasoning": ""},
    ]  # fmt: skip
    with serving(handler := scripted(lambda n, body: (200, chat(replies[n]), NO_HEADERS))) as address:
        answers = ask(address, *(request(str(n), "chat") for n in range(5)), concurrency=1)
    # The last answer has no reasoning, so its leading newline is part of the reply and acts as the stop string (Q3).
    assert [(answer.text, answer.reasoning) for answer in answers] == [
        ("4", "2+2"), ("4", "2+2"), ("", None), ("4", "a\nb"), ("", None),
    ]  # fmt: skip
    assert [(answer.raw, answer.no_text) for answer in answers] == [
        ("\n\n4", False), ("<think>2+2</think>4", False), (None, True), ("<think>b</think>4", False), (None, False),
    ]  # fmt: skip
    assert handler.requests[0][1] == "/v1/chat/completions"
    assert handler.requests[0][2]["messages"] == [{"role": "system", "content": "0"}]


def test_the_text_as_sent_is_on_file_and_paper_compat_reads_it(key: None, tmp_path: Path) -> None:
    """The released code parses inline reasoning too: a "yes" in it is the verdict."""
    text = "<think>5 and</think> Final answer: 12"
    with serving(scripted(lambda n, body: (200, chat({"content": text}), {}))) as address:
        [reply] = drive(address, tmp_path, 1, endpoint="chat")
    assert (reply.text, reply.released, reply.turns[0].endpoint) == ("Final answer: 12", text, "chat")
    item = work(1)[0][1].model_copy(update={"reference": {"incorrect": True}})
    with_reasoning = reply.model_copy(
        update={"turns": [reply.turns[0].model_copy(update={"raw": "<think>yes?</think>No.", "text": "No."})]}
    )
    verdicts = {scoring: read_reply("yes_no", item, with_reasoning, scoring)[0].value for scoring in SCORINGS}
    assert verdicts == {"paper_compat": True, "robust": False}
    silent = reply.model_copy(
        update={"turns": [reply.turns[0].model_copy(update={"raw": None, "text": "", "no_text": True})]}
    )
    reason = "the released code fails: the server sent no text"
    assert read_reply("yes_no", item, silent, "paper_compat") == [Reading(None, None, "", reason)]
    refused = reply.model_copy(update={"turns": [], "error": "too long"})
    for scoring in SCORINGS:
        expected = [Reading(None, None, "", "refused: too long", refused=True)]
        assert read_reply("yes_no", item, refused, scoring) == expected


def chat_body(**changes: Any) -> dict[str, Any]:
    """Return the body of a chat answer in which some fields are replaced."""
    body = {**chat({"content": "4"}), "usage": {"prompt_tokens": 3, "completion_tokens": 2}}
    choice = {**body["choices"][0], **{name: changes.pop(name) for name in ("finish_reason",) if name in changes}}
    if "content" in changes:
        choice["message"] = {"role": "assistant", "content": changes.pop("content")}
    return {**body, "choices": [choice], **changes}


ODD_BODIES = {
    "usage is a text": (chat_body(usage="many"), ("4", "stop", None, None)),
    "usage is a list": (chat_body(usage=[1]), ("4", "stop", None, None)),
    "usage is null": (chat_body(usage=None), ("4", "stop", None, None)),
    "fraction of a token": (chat_body(usage={"prompt_tokens": 7.5, "completion_tokens": 7.0}), ("4", "stop", None, 7)),
    "tokens are not a number": (chat_body(usage={"prompt_tokens": float("nan"), "completion_tokens": "2"}), ("4", "stop", None, None)),
    "tokens below zero": (chat_body(usage={"prompt_tokens": -1, "completion_tokens": True}), ("4", "stop", None, None)),
    "too many tokens": (chat_body(usage={"prompt_tokens": 10**40, "completion_tokens": 1e300}), ("4", "stop", None, None)),
    "finish reason is a number": (chat_body(finish_reason=1), ("4", None, 3, 2)),
    "finish reason is an object": (chat_body(finish_reason={"a": "b"}), ("4", None, 3, 2)),
    "finish reason is too long": (chat_body(finish_reason="x" * 9999), ("4", "x" * 100, 3, 2)),
    "text in parts": (chat_body(content=[{"type": "text", "text": "Final "}, {"type": "text", "text": "answer"}]), ("Final answer", "stop", 3, 2)),
    "text beside a picture": (chat_body(content=[{"type": "image_url", "image_url": {}}, {"type": "text", "text": "4"}]), ("4", "stop", 3, 2)),
    "no content": (chat_body(content=None), ("", "stop", 3, 2)),
    "content is an empty list": (chat_body(content=[]), ("", "stop", 3, 2)),
    "additional fields": (chat_body(extra={"a": [1, {"b": None}]}, error="?"), ("4", "stop", 3, 2)),
}  # fmt: skip


@pytest.mark.parametrize("name", ODD_BODIES)
def test_unreadable_fields_beside_an_answer_are_none(name: str) -> None:
    body, (text, finish, prompt_tokens, completion_tokens) = ODD_BODIES[name]
    with serving(scripted(lambda n, _: (200, json.dumps(body).encode(), {}))) as address:
        [answer] = ask(address, request(endpoint="chat"))
    assert (answer.text, answer.finish) == (text, finish) and answer.attempts == 1
    assert (answer.prompt_tokens, answer.completion_tokens) == (prompt_tokens, completion_tokens)


@pytest.mark.parametrize("content", [4, 0, 4.5, True, False, {}, {"text": "4"}, {"type": "text", "text": "4"}])
def test_content_of_another_type_is_a_malformed_answer_not_an_empty_one(content: Any) -> None:
    with serving(scripted(lambda n, _: (200, json.dumps(chat_body(content=content)).encode(), {}))) as address:
        [answer] = ask(address, request(endpoint="chat"), attempts=1)
    assert isinstance(answer, UserError) and "answers without an answer" in str(answer)
    assert "neither a text nor a list" in str(answer)


def response(*output: dict[str, Any], **more: Any) -> dict[str, Any]:
    """Return the body of an answer of the Responses API."""
    return {"id": "1", "object": "response", "status": "completed", "output": list(output), **more}


MESSAGE = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Step 1 "}, {"type": "output_text", "text": "is wrong"}]}  # fmt: skip
REASONING = {"type": "reasoning", "summary": [{"type": "summary_text", "text": "Let me see."}]}


def test_requests_and_answers_have_the_format_of_the_responses_api() -> None:
    usage = {
        "input_tokens": 7, "output_tokens": 9, "input_tokens_details": {"cached_tokens": 5},
        "output_tokens_details": {"reasoning_tokens": 4},
    }  # fmt: skip
    bodies = [
        response(REASONING, MESSAGE, usage=usage),
        response(REASONING, status="incomplete", incomplete_details={"reason": "max_output_tokens"}),
        response({"type": "message", "content": [{"type": "refusal", "refusal": "No."}]}),
    ]
    form = {"type": "json_schema", "json_schema": {"name": "r", "schema": {"type": "object"}, "strict": True}}
    parts = [{"type": "text", "text": "what?"}, {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA"}}]
    sent = [
        request("0", "responses", response_format=form),
        request("1", "responses"),
        {**request("2", "responses"), "messages": [{"role": "user", "content": parts}]},
    ]
    with serving(handler := scripted(lambda n, body: (200, bodies[n], {}))) as address:
        answers = ask(address, *sent, concurrency=1, omit=("stop", "temperature"))
    assert answers[0].cached_tokens == 5
    assert {path for _, path, _ in handler.requests} == {"/v1/responses"}
    first, _, third = (body for _, _, body in handler.requests)
    assert first["input"] == [{"role": "system", "content": "0"}] and first["max_output_tokens"] == 5
    expected = {"format": {"type": "json_schema", "name": "r", "schema": {"type": "object"}, "strict": True}}
    assert first["text"] == expected
    assert not first.keys() & {"messages", "max_tokens", "stop", "temperature", "response_format"}
    assert third["input"][0]["content"] == [
        {"type": "input_text", "text": "what?"}, {"type": "input_image", "image_url": "data:image/png;base64,AA"},
    ]  # fmt: skip
    assert [(answer.text, answer.finish, answer.reasoning) for answer in answers] == [
        ("Step 1 is wrong", "stop", "Let me see."), ("", "length", "Let me see."), ("No.", "stop", None),
    ]  # fmt: skip
    assert (answers[0].prompt_tokens, answers[0].completion_tokens) == (7, 9) and answers[1].no_text


@pytest.mark.parametrize("body", [{}, [], {"output": {}}, {"output": [1, {"type": "message", "content": "x"}]}])
def test_a_response_without_a_message_is_not_an_answer(body: Any) -> None:
    with serving(scripted(lambda n, _: (200, body, {}))) as address:
        [answer] = ask(address, request("0", "responses"), attempts=1)
    assert isinstance(answer, UserError) and "answers without an answer" in str(answer)


WITHOUT_ANSWER = {
    "choices is an object": b'{"choices": {"0": {"message": {"content": "4"}}}}',
    "no choice": b'{"choices": []}', "a choice is a text": b'{"choices": ["4"]}',
    "a choice is null": b'{"choices": [null]}', "no message": b'{"choices": [{"text": "4"}]}',
    "a message is a text": b'{"choices": [{"message": "4"}]}', "a list": b'[{"choices": []}]', "a text": b'"4"',
    "deeply nested": b'{"choices": ' + b"[" * 100_000 + b"]" * 100_000 + b"}",
    "a huge number": b'{"choices": ' + b"9" * 100_000 + b"}",
    "not UTF-8": b'{"choices": [{"message": {"content": "\xff"}}]}',
    "parts that are not text": b'{"choices": [{"message": {"content": [{"type": "audio"}, 7]}}]}',
    "an HTML page": b"<html>Please log in</html>",
    "empty body": b"",
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("name", WITHOUT_ANSWER)
def test_a_body_without_an_answer_loses_one_item(
    name: str, key: None, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """An item without a readable answer fails alone, and is asked once more by a later run. A blocked one is not."""
    broken = True

    def script(number: int, body: dict[str, Any]) -> tuple[int, Any, dict[str, str]]:
        odd = broken and "3+1?" in body["messages"][0]["content"]
        return 200, WITHOUT_ANSWER[name] if odd else chat({"content": "4"}), {}

    state = "filtered" if name in ("no choice", "a huge number") else "failed"
    with serving(handler := scripted(script)) as address:
        replies = drive(address, tmp_path, 5, endpoint="chat")
        assert Counter(state_of(reply.error) for reply in replies) == {"answered": 4, state: 1}
        assert 4 + 2 <= len(handler.requests) <= 4 + 2 + 1, "two tries, as the entry sets, and a probe at most"
        assert any("MalformedAnswer" in record.getMessage() for record in caplog.records) or state == "filtered"
        broken, sent = False, len(handler.requests)
        assert drive(address, tmp_path, 5, endpoint="chat") == replies and len(handler.requests) == sent
        later = drive(address, tmp_path, 5, endpoint="chat", asks_failed=True)
        assert len(handler.requests) == sent + (state == "failed")
        assert sum(reply.error is None for reply in later) == (5 if state == "failed" else 4)


def test_a_body_above_the_size_limit_is_not_read_to_its_end() -> None:
    bodies = [json.dumps(chat({"content": "x" * size})).encode() for size in (90_000, 200_000, 50_000_000)]
    with serving(scripted(lambda n, body: (200, bodies[int(body["messages"][0]["content"])], {}))) as address:
        answers = ask(address, *(request(str(n), "chat") for n in range(3)), attempts=1, longest=100_000)
    assert len(answers[0].text) == 90_000
    assert [type(answer) for answer in answers[1:]] == [Unanswered, Unanswered]


@pytest.mark.slow
def test_every_request_is_answered_in_a_storm_of_failures(monkeypatch: pytest.MonkeyPatch) -> None:
    """30 % 429, 10 % 5xx, dropped connections, empty bodies, invalid JSON: every request is answered once."""
    monkeypatch.setattr(client, "FIRST_WAIT", 0.01)
    dice = random.Random(3)
    failures: list[tuple[int, Any, dict[str, str]]] = [
        *[(429, {"error": {"message": "slow down"}}, {"Retry-After": "0.05"})] * 6,
        *[(503, b"", {})] * 2, (0, b"", {}), (200, b"", {}), (200, b"{", {}), (200, {"choices": []}, {}),
        (200, {"unexpected": True}, {}),
    ]  # fmt: skip

    def script(number: int, body: dict[str, Any]) -> tuple[int, Any, dict[str, str]]:
        return dice.choice(failures) if dice.random() < 0.5 else (200, completion(f"to {body['prompt']}"), {})

    with serving(handler := scripted(script)) as address:
        answers = ask(address, *(request(str(n)) for n in range(60)), attempts=30, concurrency=16)
    assert [answer.text for answer in answers] == [f"to {n}" for n in range(60)]
    sent = [body for _, _, body in handler.requests if "2 + 2" not in body["prompt"]]
    assert sum(answer.attempts for answer in answers) == len(sent), "every attempt but a probe is counted"


def test_a_stated_wait_is_logged_with_its_end_and_uses_no_try(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(client, "LOGGED_WAIT", 0.2)
    body = {"error": {"message": "x" * 400 + " Please retry in 0.6s."}}
    refused: tuple[int, Any, dict[str, str]] = (429, body, {})
    with serving(handler := scripted(lambda n, body: refused if n < 3 else (200, completion("x"), {}))) as address:
        answers = ask(address, *(request(str(n)) for n in range(3)), concurrency=1, attempts=2)
    assert [answer.text for answer in answers] == ["x"] * 3
    assert 0.6 <= handler.requests[1][0] - handler.requests[0][0] < 30
    message = next(record.getMessage() for record in caplog.records if "asks to wait" in record.getMessage())
    assert re.search(r"no requests until \d\d:\d\d:\d\d", message)


@pytest.mark.parametrize(
    ("body", "headers", "words"),
    [
        (b"{}", {"Retry-After": "1e5"}, r"a limit holds until \d{4}-\d\d-\d\d \d\d:\d\d .*or set patience: 100060 to wait"),
        (b'{"error": {"message": "Limit 200 requests per day (RPD), Used 200"}}', {}, "a limit per day holds until the end of the provider's day"),
        (b'{"error": {"message": "per day limit. Please try again in 3h"}}', {}, r"a limit per day holds until \d{4}-"),
    ],
)  # fmt: skip
def test_a_limit_that_outlasts_the_patience_ends_the_job_with_its_end(
    body: bytes, headers: dict[str, str], words: str
) -> None:
    with serving(handler := scripted(lambda n, _: (429, body, headers))) as address:
        answers = ask(address, *(request(str(n)) for n in range(20)), concurrency=4, patience=60.0)
    assert all(isinstance(answer, UserError) and re.search(words, answer.line) for answer in answers)
    assert len(handler.requests) <= 8


@pytest.mark.slow
def test_retry_after_of_zero_does_not_disable_the_backoff(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "FIRST_WAIT", 0.2)
    handler = scripted(lambda n, body: (429, b"{}", {"Retry-After": "0"}) if n < 3 else (200, completion("x"), {}))
    with serving(handler) as address:
        [answer] = ask(address, request())
    times = [when for when, _, _ in handler.requests]
    assert answer.attempts == 4
    assert [later - earlier >= 0.1 * 2**n for n, (earlier, later) in enumerate(itertools.pairwise(times))] == [True] * 3


def test_a_request_to_a_hanging_server_times_out_and_is_retried() -> None:
    def script(number: int, body: dict[str, Any]) -> tuple[int, Any, dict[str, str]]:
        if number == 0:
            time.sleep(2.0)
        return 200, completion("late" if number == 0 else "now"), {}

    with serving(scripted(script)) as address:
        [answer] = ask(address, request(), timeout=0.5)
    assert (answer.text, answer.attempts) == ("now", 2)


REFUSALS = yaml.safe_load((Path(__file__).parents[1] / "tables/refusals.yaml").read_text(encoding="utf-8"))


@pytest.mark.parametrize("case", REFUSALS, ids=[case["said"][:40] or "empty" for case in REFUSALS])
@pytest.mark.parametrize(
    "wrapped", [lambda error: {"error": error}, lambda error: [{"error": error}], lambda error: error]
)
def test_a_refusal_is_recorded_or_ends_the_job(case: dict[str, str], wrapped: Any) -> None:
    body = wrapped({"message": case["said"]})
    with serving(scripted(lambda n, _: (400, body, {}))) as address:
        [answer] = ask(address, request())
    if case["about"] == "one":
        assert answer.error == f"400: {case['said']}"
    else:
        assert isinstance(answer, UserError) and case["said"] in str(answer)


def test_a_redirect_ends_the_job() -> None:
    with serving(handler := scripted(lambda n, body: (301, b"", {"Location": "https://elsewhere/v1"}))) as address:
        [answer] = ask(address, request(), api_key=KEY)
    assert isinstance(answer, UserError) and len(handler.requests) == 1


def test_a_key_at_the_edge_of_a_long_message_is_not_cut_in_two() -> None:
    text = "x" * 290 + KEY
    with serving(scripted(lambda n, _: (401, {"error": {"message": text}}, {}))) as address:
        [answer] = ask(address, request(), api_key=KEY)
    assert KEY[:4] not in str(answer)


def test_identities_contain_all_that_can_change_an_answer(tmp_path: Path, key: None) -> None:
    """Every field of an entry is in the request, in the identity, or known not to change an answer."""
    (tmp_path / "manifest.json").write_text('{"files": {"model.safetensors": "aa"}}', encoding="utf-8")
    base = {"engine": "vllm", "weights": {"path": "x"}}
    changes = {
        "dtype": "float32", "max_model_len": 512, "engine_args": ["--enforce-eager"],
        "reviewed_args": ["--middleware", "x"], "extra_body": {"top_k": 1}, "omit": ["stop"],
    }  # fmt: skip
    identities = [
        vllm_identity(VllmModel.model_validate({**base, **{name: value}}), tmp_path) for name, value in changes.items()
    ]
    identities.append(vllm_identity(VllmModel.model_validate(base), tmp_path))
    assert len({json.dumps(identity, sort_keys=True) for identity in identities}) == len(changes) + 1
    same = {
        "runtime_args": ["--max-num-seqs", "2"], "environment": {"VLLM_A": "1"}, "needs": {"gpus": 2}, "concurrency": 3,
        "label": "L",
    }  # fmt: skip
    for name, value in same.items():
        assert vllm_identity(VllmModel.model_validate({**base, name: value}), tmp_path) == identities[-1], name
    (tmp_path / "manifest.json").write_text('{"files": {"model.safetensors": "ab"}}', encoding="utf-8")
    assert vllm_identity(VllmModel.model_validate(base), tmp_path) != identities[-1]
    others = [{}, {"model": "n"}, {"base_url": "http://y/v1"}, {"extra_body": {"a": 1}}, {"omit": ["stop"]}]
    hosts = [hosted_identity(hosted("http://x", **{**change})) for change in others]
    assert len({json.dumps(identity, sort_keys=True) for identity in hosts}) == len(others)
    assert KEY not in json.dumps(hosts)


@pytest.mark.parametrize("has_bfloat16", [True, False])
def test_the_served_dtype_depends_on_the_machine_and_the_identity_does_not(
    has_bfloat16: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The dtype is an argument of the server. In the request keys, it would make another machine repeat all requests."""
    monkeypatch.setattr("maieutic.serving.server.has_bfloat16", lambda: has_bfloat16)
    (tmp_path / "manifest.json").write_text('{"files": {"model.safetensors": "aa"}}', encoding="utf-8")
    base = {"engine": "vllm", "weights": {"path": "x"}, "needs": {"gpus": 0}}
    for dtype in ("bfloat16-or-float32", "float16", "auto"):
        model = VllmModel.model_validate({**base, "dtype": dtype})
        command = VllmServer("m", model, tmp_path, tmp_path / "log", tmp_path).command()
        expected = dtype if dtype != "bfloat16-or-float32" else "bfloat16" if has_bfloat16 else "float32"
        assert command[command.index("--dtype") + 1] == expected
        assert vllm_identity(model, tmp_path)["dtype"] == dtype


@pytest.mark.parametrize("status", [401, 402, 403, 404])
def test_a_refusal_of_every_request_ends_the_job(status: int) -> None:
    handler = scripted(lambda n, body: (status, {"error": {"message": f"bad key {KEY}"}}, {}))
    with serving(handler) as address:
        [answer] = ask(address, request(), api_key=KEY)
    assert isinstance(answer, UserError) and f"the server answers {status} (bad key [key])" in str(answer)
    assert KEY not in str(answer) and len(handler.requests) == (1 if status < 403 else 2), (
        "a probe is sent if the refusal may be about one request"
    )


def test_a_chat_only_model_is_distinguished_from_a_wrong_name() -> None:
    message = "This is a chat model and not supported in the v1/completions endpoint."
    with serving(scripted(lambda n, _: (404, {"error": {"message": message}}, {}))) as address:
        answers = [*ask(address, request()), *ask(address, request(endpoint="chat"))]
    assert ["set endpoint: chat" in str(answer) for answer in answers] == [True, False]


def test_a_key_that_a_server_echoes_is_not_stored(key: None, tmp_path: Path) -> None:
    """The key is echoed in an answer, its reasoning and a refusal of one request, in several encodings."""
    forms = [KEY, base64.b64encode(f"Bearer {KEY}".encode()).decode(), KEY.replace("-", "\\u002d")]
    text = json.dumps(chat({"content": f"you sent {forms[0]} {forms[1]}", "reasoning_content": forms[0]}))
    bodies = [text, text.replace(KEY, forms[2]), json.dumps({"error": {"message": f"prompt is too long {KEY}"}})]

    def script(number: int, body: dict[str, Any]) -> tuple[int, Any, dict[str, str]]:
        return (400 if number == 2 else 200), bodies[number].encode(), {}

    with serving(scripted(script)) as address:
        replies = drive(address, tmp_path, 3, endpoint="chat", concurrency=1)
    assert sorted(reply.error or "" for reply in replies)[-1] == "400: prompt is too long [key]"
    assert any("you sent [key] " in reply.text for reply in replies)
    for path in tmp_path.iterdir():
        content = path.read_bytes()
        assert not [form for form in (KEY, base64.b64encode(KEY.encode()).decode()[:-4]) if form.encode() in content]


def test_a_key_that_an_error_echoes_without_its_end_is_not_stored(key: None, tmp_path: Path) -> None:
    body = {"error": {"message": f"Incorrect API key provided: {KEY[:-1]}"}}
    with serving(scripted(lambda n, _: (401, body, {}))) as address, pytest.raises(UserError) as error:
        drive(address, tmp_path, 1, endpoint="chat")
    assert "Incorrect API key provided: [key]" in str(error.value) and KEY[:-1] not in str(error.value)
    assert not [path for path in tmp_path.iterdir() if KEY[:-1].encode() in path.read_bytes()]


class Answering(Quiet):
    """A server that answers every request. It does not check if the client has left, which TLS hides."""

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send(200, json.dumps(completion("x")).encode(), Content_Type="application/json")


def certificate_for(folder: Path, name: str, *options: str) -> Path:
    """Make a self-signed certificate with its key in one file, and return the file. name: subjectAltName."""
    if not shutil.which("openssl"):
        absent("openssl", "run apt install openssl")
    command = [
        "openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=test", "-addext",
        f"subjectAltName={name}",
    ]  # fmt: skip
    files = ["-keyout", folder / "key.pem", "-out", folder / "cert.pem"]
    subprocess.run([*command, *files, *options], check=True, capture_output=True)
    (folder / "both.pem").write_text((folder / "cert.pem").read_text() + (folder / "key.pem").read_text())
    return folder / "both.pem"


@pytest.mark.parametrize(("case", "name", "trusted", "message"), [
    ("self-signed", "IP:127.0.0.1", False, r"cannot open an encrypted connection to .*: .*self.signed.*Fix: export SSL_CERT_FILE=FILE with the certificate"),
    ("another host", "DNS:elsewhere.example", True, "cannot open an encrypted connection to .*: .*Fix: set base_url to the host name"),
])  # fmt: skip
def test_an_invalid_certificate_ends_the_job_at_once(
    case: str, name: str, trusted: bool, message: str, key: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another attempt would meet the same certificate."""
    both = certificate_for(tmp_path, name)
    if trusted:
        monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "cert.pem"))
    handler = scripted(lambda n, body: (200, completion("x"), {}))
    began = time.monotonic()
    with serving(handler, both) as address, pytest.raises(UserError, match=message) as error:
        drive(address, tmp_path, 20)
    assert not handler.requests and time.monotonic() - began < 10 and len(error.value.all) == 1


def test_a_broken_handshake_is_retried(key: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An overloaded proxy answers the client's hello with an alert (RFC 8446, section 6): fatal, internal error."""
    both = certificate_for(tmp_path, "IP:127.0.0.1")
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "cert.pem"))
    accept, broken = httpserver.Server.get_request, []

    def breaking(server: httpserver.Server) -> Any:
        connection, address = accept(server)
        if len(broken) < 2:
            broken.append(os.read(connection.fileno(), 4096))
            os.write(connection.fileno(), bytes.fromhex("15030300020250"))
            connection.close()
            raise ConnectionAbortedError
        return connection, address

    monkeypatch.setattr(httpserver.Server, "get_request", breaking)
    with serving(Answering, both) as address:
        assert [reply.text for reply in drive(address, tmp_path, 1, attempts=4)] == ["x"]
    assert len(broken) == 2 and all(broken)


def test_an_https_address_of_a_server_without_tls_is_reported(key: None, tmp_path: Path) -> None:
    with serving(scripted(lambda n, body: (200, completion("x"), {}))) as address, pytest.raises(UserError) as error:
        drive(address.replace("http:", "https:"), tmp_path, 5)
    assert "cannot open an encrypted connection" in str(error.value)
    assert error.value.fix.startswith("write http:// in base_url")


@pytest.mark.parametrize(("status", "body", "quote"), [
    (200, b'{"detail": "model is warming up"}', 'MalformedAnswer (no choices): {"detail": "model is warming up"}'),
    (200, b"<html><body>Sign in to continue</body></html>", "answers without an answer: no JSON (JSONDecodeError): Sign in to continue. Fix: check base_url, the account"),
    (502, b"<html><head><style>p{}</style></head><h1>502 Bad Gateway</h1>nginx</html>", "502 502 Bad Gateway nginx"),
    (503, b"upstream connect error", "503 upstream connect error"),
    (500, b"", "500 on try"),
])  # fmt: skip
def test_the_error_of_an_unanswered_request_quotes_the_server(
    status: int, body: bytes, quote: str, key: None, tmp_path: Path
) -> None:
    with serving(scripted(lambda n, _: (status, body, {}))) as address, pytest.raises(UserError) as error:
        drive(address, tmp_path, 1, endpoint="chat", attempts=2)
    assert quote in str(error.value), str(error.value)


def test_a_token_count_of_thousands_of_digits_loses_no_answer(key: None, tmp_path: Path) -> None:
    text = json.dumps(chat({"content": "x"}) | {"usage": {"prompt_tokens": 0, "completion_tokens": 3}})
    body = text.replace('"prompt_tokens": 0', f'"prompt_tokens": {"9" * 5000}').encode()
    with serving(scripted(lambda n, _: (200, body, {}))) as address:
        [reply] = drive(address, tmp_path, 1, endpoint="chat")
    assert reply.text == "x" and reply.turns[0].prompt_tokens is None and reply.turns[0].completion_tokens == 3


def test_the_text_of_a_refusal_beside_null_content_is_kept(key: None, tmp_path: Path) -> None:
    """The released client fails at null content, so the reply is recorded as one without text."""
    body = chat({"content": None, "refusal": "I cannot help with that."})
    with serving(scripted(lambda n, _: (200, body, {}))) as address:
        [reply] = drive(address, tmp_path, 1, endpoint="chat")
    turn = reply.turns[0]
    assert (reply.text, turn.finish, turn.no_text, reply.error) == ("I cannot help with that.", "refusal", True, None)
    assert reply_costs(tmp_path / "out.jsonl", hosted("http://x"), lambda reply, turn: turn.messages)["declined"] == 1


@pytest.mark.parametrize("value", ["sk-canary-\n5f0c1d", "sk-canary\x1b5f0c1d", "sk-canary-\u00e9f0c1d"])
def test_a_key_that_does_not_fit_a_header_is_an_error_of_one_line(
    value: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("TEST_KEY", value)
    with pytest.raises(UserError, match=r"models\.m\.key_env: the value of TEST_KEY has line breaks or") as error:
        drive("http://127.0.0.1:9", tmp_path, 1)
    assert value not in str(error.value)


@pytest.mark.parametrize("place", ["finish_reason", "type"])
def test_a_shortened_text_contains_no_part_of_a_key(place: str, key: None, tmp_path: Path) -> None:
    answer: dict[str, Any] = chat({"content": "x" if place == "finish_reason" else [{"type": "x" * 92 + KEY}]})
    answer["choices"][0]["finish_reason"] = "x" * 92 + KEY if place == "finish_reason" else "stop"
    with serving(scripted(lambda n, body: (200, answer, {}))) as address, contextlib.suppress(UserError):
        drive(address, tmp_path, 1, endpoint="chat")
    assert not [path for path in tmp_path.iterdir() if KEY[:8].encode() in path.read_bytes()]


def test_an_answer_keeps_words_that_equal_an_unrelated_password(
    key: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DB_PASSWORD", "photosynthesis")
    with serving(scripted(lambda n, body: (200, completion("photosynthesis"), {}))) as address:
        assert [reply.text for reply in drive(address, tmp_path, 1)] == ["photosynthesis"]


JOB_SCRIPT = """
import sys
from pathlib import Path
sys.path[:0] = ["tests", "tests/unit"]
from maieutic.cli import exit_code_of
from maieutic.core.logs import log_to
import shutil
import signal
from maieutic.cli import handle_sigterm
from test_client import drive
log_to(Path(sys.argv[2]) / "log")
signal.signal(signal.SIGTERM, handle_sigterm)
try:
    drive(sys.argv[1], Path(sys.argv[2]), 12, concurrency=4, grace=float(sys.argv[3]))
except BaseException as error:
    sys.exit(exit_code_of(error, "generate-replies"))
"""


@pytest.mark.parametrize("grace", [5, 0], ids=["with grace", "without grace"])
def test_a_terminated_job_keeps_the_answers_to_requests_in_flight(grace: int, key: None, tmp_path: Path) -> None:
    """After SIGTERM, the four paid requests in flight are answered and kept, and no further request is sent."""
    received, release = threading.Semaphore(0), threading.Event()

    def script(number: int, body: dict[str, Any]) -> tuple[int, Any, dict[str, str]]:
        received.release()
        release.wait(10)
        return 200, completion("4"), {}

    with serving(handler := scripted(script)) as address:
        env = {**os.environ, "PYTHONPATH": "workflow", "TEST_KEY": KEY}
        command = [sys.executable, "-c", JOB_SCRIPT, address, str(tmp_path), str(grace)]
        job = subprocess.Popen(command, env=env)
        for _ in range(4):
            assert received.acquire(timeout=30)
        job.send_signal(signal.SIGTERM)
        log = tmp_path / "log"
        while "shutting down" not in log.read_text():
            time.sleep(0.02)
        if not grace:
            job.wait(10)
        release.set()
        assert job.wait(10) == 130, "the exit code of an interrupted job"
        kept = len(load_journal_answers(tmp_path / "journal.jsonl", FinishedRequest))
        assert (len(handler.requests), kept) == (4, 4 if grace else 0)
        line = f"WARNING shutting down: requests in progress have {grace} s to finish; a second signal stops at once\n"
        assert log.read_text().count(line) == 1
        assert "was interrupted; finished work is kept" in log.read_text() and "Traceback" not in log.read_text()
        assert len(drive(address, tmp_path, 12, concurrency=4)) == 12
        assert len(handler.requests) == 12 + 4 - kept


def with_budget(monkeypatch: pytest.MonkeyPatch, folder: Path, **budget: Any) -> None:
    """Limit what the jobs of the test may spend."""
    prices = {"m": Price(input=1000.0, output=0.0)}
    allowance = Allowance(budget=Budget.model_validate(budget), budget_file=folder / "purse.jsonl", prices=prices)
    monkeypatch.setenv(BUDGET_VARIABLE, allowance.to_json())


def test_lone_surrogates_become_storable() -> None:
    body = json.dumps(completion("a\ud800b")).encode()
    with serving(scripted(lambda n, _: (200, body, {}))) as address:
        [answer] = ask(address, request())
    assert answer.text == "a?b"


def work(count: int) -> list:
    """Return items of a real card, with the card."""
    loaded = read_card(CARDS / "mathtutorbench/problem_solving.yaml")
    return [
        (loaded, Item(id=f"i{n}", task="problem_solving", cluster=f"c{n}", vars={"question": f"{n}+1?"}, reference={}))
        for n in range(count)
    ]


def hosted(address: str, **more: Any) -> HostedModel:
    entry = {"engine": "hosted", "base_url": f"{address}/v1", "model": "m", "key_env": "TEST_KEY", "attempts": 2}
    return HostedModel.model_validate({**entry, **more})


def drive(address: str, folder: Path, items: Any, asks_failed: bool = False, **more: Any) -> list[Reply]:
    """Ask a tutor at the endpoint about items, or about this number of them, and return the replies."""
    paths = [folder / name for name in ("journal.jsonl", "server.log", "out.jsonl", "prompts.jsonl")]
    chosen = work(items) if isinstance(items, int) else items
    files = JobFiles(None, *paths[:2])
    ask_tutor("m", hosted(address, **more), chosen, RequestLimits(8, 1), files, *paths[2:], asks_failed)
    return read_records(paths[2], Reply)


@pytest.fixture
def key(monkeypatch: pytest.MonkeyPatch) -> None:
    """Set the API key of the registry entry."""
    monkeypatch.setenv("TEST_KEY", KEY)


def test_the_driver_asks_only_what_the_journal_lacks(key: None, tmp_path: Path) -> None:
    with serving(handler := scripted(lambda n, body: (200, completion(body["prompt"][-20:]), {}))) as address:
        first = drive(address, tmp_path, 10)
        assert len(handler.requests) == 10
        (tmp_path / "out.jsonl").unlink()  # Snakemake deletes the outputs of a failed job
        second = drive(address, tmp_path, 10)
        assert len(handler.requests) == 10, "a second run sends no request"
        third = drive(address, tmp_path, 15)
        assert len(handler.requests) == 15, "five more items are five more requests"
    assert first == second == third[:10]
    assert [reply.id for reply in third] == [f"i{n}" for n in range(15)], "replies are in the order of the items"
    assert handler.authorization == [f"Bearer {KEY}"] * 15
    prompts = {prompt.messages for prompt in read_records(tmp_path / "prompts.jsonl", Prompt)}
    assert {turn.messages for reply in third for turn in reply.turns} == prompts
    for path in tmp_path.iterdir():
        assert KEY.encode() not in path.read_bytes(), f"the key is in {path.name}"


def test_an_item_that_fails_alone_is_asked_once_more_by_a_later_run(key: None, tmp_path: Path) -> None:
    """If one of ten items fails in all tries while others are answered, the job ends, and a later run asks it once."""
    broken = True

    def script(number: int, body: dict[str, Any]) -> tuple[int, Any, dict[str, str]]:
        return (500, b"", {}) if broken and "7+1?" in body["prompt"] else (200, completion("8"), {})

    with serving(handler := scripted(script)) as address:
        replies = drive(address, tmp_path, 10)
        assert [reply.error for reply in replies if reply.error] == ["failed: 500 on try 2"]
        sent = len(handler.requests)
        assert drive(address, tmp_path, 10) == replies and len(handler.requests) == sent, "the same run takes it so"
        assert drive(address, tmp_path, 10, asks_failed=True)[7].error == "failed: 500 on try 2"
        again = len(handler.requests) - sent
        assert 2 <= again <= 3, "two tries and a probe at most"
        drive(address, tmp_path, 10, asks_failed=True)
        assert len(handler.requests) == sent + again, "twice is enough"


def test_an_outage_fails_no_item(key: None, tmp_path: Path) -> None:
    """Requests that fail while no other is answered end the job, and the next run sends them."""
    with serving(
        handler := scripted(lambda n, body: (200, completion("8"), {}) if n < 3 else (503, b"", {}))
    ) as address:
        with pytest.raises(UserError, match=r"answers no request: 503. Fix: check the account, the key and the server"):
            drive(address, tmp_path, 10, concurrency=1)
        assert not (tmp_path / "out.jsonl").exists() and not failed_path(tmp_path / "journal.jsonl").exists()
        assert len(handler.requests) <= 3 + 2 + 1 + 2, "two tries of one item, a probe, and what was sent in between"


def test_a_refused_item_is_recorded_and_not_asked_again(key: None, tmp_path: Path) -> None:
    def script(number: int, body: dict[str, Any]) -> tuple[int, Any, dict[str, str]]:
        long = "3+1?" in body["prompt"]
        return (400, {"error": {"message": "maximum context length"}}, {}) if long else (200, completion("4"), {})

    with serving(handler := scripted(script)) as address:
        first = drive(address, tmp_path, 5)
        drive(address, tmp_path, 5)
    assert [reply.error for reply in first] == [None, None, None, "400: maximum context length", None]
    assert len(handler.requests) == 5


@pytest.mark.parametrize(
    ("run_limit", "model_limit", "sent"), [(None, None, 2048), (None, 96, 96), (64, 96, 64), (4096, None, 2048)]
)
def test_the_smallest_token_limit_applies(run_limit: int | None, model_limit: int | None, sent: int) -> None:
    loaded, _ = work(1)[0]
    entry = hosted("http://x", max_tokens=model_limit)
    assert tutor_request(loaded, [], entry, RequestLimits(run_limit, 1))["max_tokens"] == sent


def test_items_with_the_same_prompt_are_one_request(key: None, tmp_path: Path) -> None:
    handler = scripted(lambda n, body: (200, completion("x"), {}))
    items = [(loaded, item.model_copy(update={"vars": {"question": "same"}})) for loaded, item in work(6)]
    with serving(handler) as address:
        assert len(drive(address, tmp_path, items)) == 6
    assert len(handler.requests) == 1


class CountedItems:
    """Items that are counted as they are taken."""

    def __init__(self, count: int) -> None:
        self.items, self.taken = work(count), 0

    def __len__(self) -> int:
        return len(self.items)

    def __iter__(self) -> Iterator[Any]:
        for pair in self.items:
            self.taken += 1
            yield pair

    def __contains__(self, pair: object) -> bool:
        return pair in self.items


@pytest.mark.slow
def test_memory_does_not_grow_with_the_items(key: None, tmp_path: Path) -> None:
    """Conversations begin as others end. Finished replies are stored on disk, and written in the order of the items."""
    items, ahead = CountedItems(300), []

    def reply(n: int, body: dict[str, Any]) -> Any:
        ahead.append(items.taken - n)
        time.sleep(0.002 * (n % 5))  # so that answers arrive in another order
        return 200, completion(body["prompt"][-20:]), {}

    with serving(scripted(reply)) as address:
        replies = drive(address, tmp_path, items, concurrency=4)
    assert max(ahead) <= 3 * 4, "per slot: two conversations, and one answer that is not yet processed"
    assert [reply.id for reply in replies] == [item.id for _, item in items.items]
    prompts = {prompt.messages: prompt.content for prompt in read_records(tmp_path / "prompts.jsonl", Prompt)}
    assert list(prompts) == sorted(prompts) and len(prompts) == 300
    for reply in replies:
        assert f"{reply.id[1:]}+1?" in prompts[reply.turns[0].messages][0]["content"]
    names = ["journal.jsonl", "journal.ledger", "journal.lock", "out.jsonl", "prompts.jsonl"]
    assert sorted(path.name for path in tmp_path.iterdir()) == names


def test_a_server_that_did_not_start_is_not_started_again_by_the_same_job() -> None:
    """Several benchmarks wait for one server. Its start fails once, and all of them get the error."""
    starts: list[float] = []

    async def start() -> Any:
        starts.append(time.monotonic())
        await asyncio.sleep(0.05)
        raise UserError("server.log", "the vLLM server ended with 1", "read this log")

    async def ask_for(backend: Backend) -> str:
        await backend.client()
        return "a client"

    async def run_all() -> None:
        backend = Backend(start)
        await run_concurrently([ask_for(backend) for _ in range(4)], backend)

    with pytest.raises(UserError, match="ended with 1") as error:
        asyncio.run(run_all())
    assert len(starts) == 1 and error.value.lines.count("\n") == 0, "the error is reported once"


def test_a_failed_part_of_a_job_ends_no_other_and_each_failure_is_reported() -> None:
    done: list[str] = []

    async def part(name: str, fails: bool) -> str:
        await asyncio.sleep(0.02 if fails else 0.1)
        if fails:
            raise UserError(name, "3 of 5 items stayed unanswered", "run again")
        done.append(name)
        return name

    closed: list[bool] = []
    backend = Backend(start=asyncio.sleep, stop=lambda: closed.append(True))
    with pytest.raises(UserError) as error:
        asyncio.run(run_concurrently([part("a", True), part("b", False), part("c", True)], backend))
    assert [failure.place for failure in error.value.all] == ["a", "c"] and done == ["b"] and closed == [True]
    assert asyncio.run(run_concurrently([part("a", False), part("b", False)], backend)) == ["a", "b"]


def test_retries_are_recorded_once_if_journals_share_a_client() -> None:
    async def start() -> Any:
        return SimpleNamespace(retries=retries)

    retries: dict[str, int] = {"429": 2}
    backend = Backend(start)
    assert backend.new_retries() == {}
    asyncio.run(backend.client())
    assert backend.new_retries() == {"429": 2}
    retries |= {"429": 5, "TimeoutError": 1}
    assert [backend.new_retries(), backend.new_retries()] == [{"429": 3, "TimeoutError": 1}, {}]


@pytest.mark.parametrize(("count", "shards"), [(7, 1), (7, 3), (6, 3), (2, 5), (0, 2)])
def test_gathered_shards_equal_the_whole(count: int, shards: int, tmp_path: Path) -> None:
    """Each item is in one shard, sizes differ by at most one, and gathered replies are in the order of the items."""
    loaded, _ = work(1)[0]
    write_records(tmp_path / "problem_solving.jsonl", [item for _, item in work(count)])
    parts = [CardItems([loaded], tmp_path, Shard(number, shards)) for number in range(1, shards + 1)]
    assert [len(part) for part in parts] == [len(list(part)) for part in parts]
    assert max(map(len, parts)) - min(map(len, parts)) <= 1
    for number, part in enumerate(parts):
        (tmp_path / f"r{number}").write_text("".join(f"{item.id}\n" for _, item in part))
        (tmp_path / f"p{number}").write_text(
            "".join(f"{key}\n" for key in sorted({"shared", *(item.id for _, item in part)}))
        )
    files = [[tmp_path / f"{kind}{number}" for number in range(shards)] for kind in "rp"]
    gather_shards(*files, tmp_path / "out", tmp_path / "prompts")
    assert (tmp_path / "out").read_text().split() == [item.id for _, item in CardItems([loaded], tmp_path)]
    assert (tmp_path / "prompts").read_text().split() == sorted({"shared", *(item.id for _, item in work(count))})


@pytest.mark.parametrize("shards", [1, 2, 3, 4])
def test_shards_are_counted_over_all_tasks(shards: int, tmp_path: Path) -> None:
    """Items are counted over all tasks, so that shards have equal sizes for any sizes of the tasks."""
    loaded, _ = work(1)[0]
    cards = [loaded.model_copy(update={"card": loaded.card.model_copy(update={"task": task})}) for task in "abc"]
    for card, count in zip(cards, (3, 1, 5), strict=True):
        items = [item.model_copy(update={"task": card.card.task}) for _, item in work(count)]
        write_records(tmp_path / f"{card.card.task}.jsonl", items)
    whole = [(item.task, item.id) for _, item in CardItems(cards, tmp_path)]
    for number in range(1, shards + 1):
        part = CardItems(cards, tmp_path, Shard(number, shards))
        assert [(item.task, item.id) for _, item in part] == whole[number - 1 :: shards]
        assert len(part) == len(list(part))


def test_an_incomplete_shard_is_refused_by_name(tmp_path: Path) -> None:
    for name, lines in (("a", 3), ("b", 1), ("c", 3)):
        (tmp_path / name).write_text("x\n" * lines)
    files = [tmp_path / name for name in "abc"]
    with pytest.raises(UserError) as error:
        gather_shards(files, files, tmp_path / "out", tmp_path / "prompts")
    assert error.value.line == (
        f"{tmp_path / 'b'}: expected 2 of 7 replies in this shard, found 1. Fix: delete the folder of the shards and run again, "
        "which restores the replies from the journals"
    )
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("details", "cached"), [({"cached_tokens": 64}, 64), ({"cached_tokens": None}, None), (None, None)]
)
def test_cached_tokens_are_recorded_and_logged(
    details: Any, cached: int | None, key: None, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    usage = {"prompt_tokens": 100, "completion_tokens": 1, "prompt_tokens_details": details}
    handler = scripted(lambda n, body: (200, {**completion("x"), "usage": usage}, {}))
    with serving(handler) as address, caplog.at_level("INFO"):
        drive(address, tmp_path, 2)
    assert [
        entry.cached_tokens for entry in load_journal_answers(tmp_path / "journal.jsonl", FinishedRequest).values()
    ] == [cached] * 2
    [line] = [record.getMessage() for record in caplog.records if "2 requests in" in record.getMessage()]
    assert line.endswith("the prompt tokens from its cache") == (cached is not None)
    assert ("64 % of" in line) == (cached == 64)


def test_an_unset_key_is_reported_before_any_request(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("TEST_KEY", raising=False)
    with pytest.raises(UserError, match=r"models.m.key_env: the environment variable TEST_KEY is not set"):
        drive("http://127.0.0.1:9", tmp_path, 1)


def test_later_turns_contain_the_tutors_earlier_answers(key: None, tmp_path: Path) -> None:
    """In a conversation of two turns, the second request contains the first answer."""
    handler = scripted(lambda n, body: (200, chat({"content": f"answer {len(body['messages'])}"}), {}))
    loaded, item = work(1)[0]
    two_turns = loaded.model_copy(update={"templates": ["First {{ question }}", "Then, after {{ answers[0] }}?"]})
    with serving(handler) as address:
        [reply] = drive(address, tmp_path, [(two_turns, item)], endpoint="chat")
    sent = [body["messages"] for _, _, body in handler.requests]
    assert [message["content"] for message in sent[1]] == ["First 0+1?", "answer 1", "Then, after answer 1?"]
    assert [turn.text for turn in reply.turns] == ["answer 1", "answer 3"]


ENDPOINT_REFUSALS = json.loads(
    (Path(__file__).parents[1] / "tables/endpoint_refusals.json").read_text(encoding="utf-8")
)


@pytest.mark.parametrize(
    "case",
    ENDPOINT_REFUSALS,
    ids=[f"{case['status']} {case['whose']}: {str(case['body'])[:50]}" for case in ENDPOINT_REFUSALS],
)
def test_a_refusal_of_some_requests_is_recorded_and_one_of_all_ends_the_job(case: dict[str, Any]) -> None:
    """The endpoint refuses one prompt in four, or every request. It answers the others, and the probe."""

    def script(number: int, body: dict[str, Any]) -> tuple[int, Any, dict[str, str]]:
        refused = "bad" in body["messages"][-1]["content"] or case["whose"] == "all"
        return (case["status"], case["body"], case.get("headers", {})) if refused else (200, chat({"content": "4"}), {})

    with serving(handler := scripted(script)) as address:
        requests = [request("bad" if number % 4 == 0 else f"good {number}", endpoint="chat") for number in range(40)]
        answers = ask(address, *requests, attempts=2, concurrency=32, api_key=KEY)
    if case["whose"] == "one":
        assert [bool(answer.error) for answer in answers] == [number % 4 == 0 for number in range(40)]
        assert answers[0].error.startswith(f"{case['status']}: ")
        assert len(handler.requests) <= 40 + 10, "at most a probe for each refused prompt"
    else:
        assert all(isinstance(answer, UserError) for answer in answers)
        assert case["fix"] in answers[0].fix, answers[0].fix
        assert len(handler.requests) <= 16, "few requests are sent in vain"


def test_an_endpoint_that_needs_a_key_is_reported_with_key_env() -> None:
    with serving(scripted(lambda n, body: (401, {"error": {"message": "No auth credentials found"}}, {}))) as address:
        [error] = ask(address, request())
    assert error.fix == "set key_env: MY_API_KEY (any name), and export MY_API_KEY=..."


def test_repeated_refusals_after_many_answers_end_the_job() -> None:
    """If an account is closed during a job and the message is unknown, no item is recorded as refused."""

    def script(number: int, body: dict[str, Any]) -> tuple[int, Any, dict[str, str]]:
        return (200, chat({"content": "4"}), {}) if number < 20 else (400, {"error": {"message": "Nope."}}, {})

    with serving(scripted(script)) as address:
        answers = ask(address, *(request(f"{n}", endpoint="chat") for n in range(60)), concurrency=1)
    kinds = Counter("fault" if isinstance(answer, UserError) else answer.error or "" for answer in answers)
    assert kinds == {"": 20, "fault": 40}


@pytest.mark.parametrize("response", [
    (503, b"no healthy upstream", {}), (429, {"code": "1113", "message": "the account owes money"}, {}),
    (200, {"error": {"message": "Your plan has expired.", "code": 40301}}, {}), (200, b"data: {}\n\n", {}), (0, b"", {}),
])  # fmt: skip
def test_an_endpoint_that_answers_nobody_ends_the_job_after_few_requests(
    response: tuple[int, Any, dict[str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client, "FIRST_WAIT", 0.01)
    with serving(handler := scripted(lambda n, body: response)) as address:
        answers = ask(address, *(request(f"{n}", endpoint="chat") for n in range(60)), attempts=4)
    assert all(isinstance(answer, UserError | Unanswered) for answer in answers) and len(handler.requests) <= 16
    assert "check the account" in str(answers[-1]) or "event stream" in str(answers[-1])


@pytest.mark.parametrize("response", [
    (402, {"error": {"message": "rejected by the filter: '... insufficient balance to pay ...'"}}, {}),
    (429, {"error": {"message": "refused: Janet's ducks lay 16 eggs per day"}}, {}),
    (401, {"error": {"message": "the prompt violates the policy of this key"}}, {}),
    (302, b"", {"Location": "/blocked?id=3"}),
])  # fmt: skip
def test_words_and_status_about_one_prompt_end_no_job(
    response: tuple[int, Any, dict[str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client, "FIRST_WAIT", 0.01)

    def script(number: int, body: dict[str, Any]) -> tuple[int, Any, dict[str, str]]:
        return response if "bad" in body["messages"][-1]["content"] else (200, chat({"content": "4"}), {})

    with serving(scripted(script)) as address:
        prompts = [f"{'bad' if n % 5 == 4 else 'good'} {n}" for n in range(20)]
        answers = ask(address, *(request(prompt, endpoint="chat") for prompt in prompts), concurrency=4)
    assert [bool(answer.error) for answer in answers] == [n % 5 == 4 for n in range(20)]


def test_a_prompt_that_is_always_told_to_wait_fails_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "FIRST_WAIT", 0.01)

    def script(number: int, body: dict[str, Any]) -> tuple[int, Any, dict[str, str]]:
        large = "bad" in body["messages"][-1]["content"]
        return (429, b"", {"Retry-After": "0.05"}) if large else (200, chat({"content": "4"}), {})

    with serving(scripted(script)) as address:
        answers = ask(address, *(request(text, endpoint="chat") for text in ("bad", "good")), attempts=3)
    assert answers[0].error.startswith("failed: 429") and answers[1].text == "4"


ERRORS_IN_200 = {
    "partial text": {"choices": [{"message": {"content": "Let us"}, "finish_reason": "error", "error": {"code": 502, "message": "upstream"}}]},
    "no text": {"choices": [{"message": {"content": ""}, "finish_reason": "error", "error": {"code": 429, "message": "upstream is busy"}}]},
    "only a finish reason": {"choices": [{"message": {"content": "Let us"}, "finish_reason": "error"}]},
    "an error without choices": {"error": {"code": 429, "message": "Provider returned error", "metadata": {"raw": "busy upstream"}}},
    "an error beside choices": {"choices": [{"message": {"content": "Let us"}, "finish_reason": None}], "error": {"message": "lost"}},
    "the error is a text": {"error": "model is overloaded"},
    "an error as a text beside half an answer": {"choices": [{"message": {"content": "Let us"}, "finish_reason": None}], "error": "connection reset"},
    "an interrupted answer": {"choices": [{"message": {"content": "Let us"}, "finish_reason": "insufficient_system_resource"}]},
    "an interruption as an object": {"choices": [{"message": {"content": "Let us"}, "finish_reason": {"type": "abort", "status_code": 503}}]},
    "no choices, but a code": {"error_code": 17, "error_msg": "The service is busy"},
}  # fmt: skip


@pytest.mark.parametrize("name", ERRORS_IN_200)
def test_an_error_in_a_200_is_a_failed_attempt(name: str) -> None:
    def script(number: int, body: dict[str, Any]) -> tuple[int, Any, dict[str, str]]:
        return 200, ERRORS_IN_200[name] if number == 0 else chat({"content": "4"}), {}

    with serving(scripted(script)) as address:
        [answer] = ask(address, request(endpoint="chat"))
    assert (answer.text, answer.attempts, answer.error) == ("4", 2, None)
    with serving(scripted(lambda n, _: (200, ERRORS_IN_200[name], {}))) as address:
        [unanswered] = ask(address, request(endpoint="chat"), attempts=2)
    messages = {
        "an error without choices": "429 Provider returned error busy upstream",
        "only a finish reason": "502 finish_reason error",
    }
    assert isinstance(unanswered, Unanswered) and str(unanswered).startswith(messages.get(name, ""))


def test_spent_credit_in_a_200_ends_the_job() -> None:
    body = {"error": {"code": 402, "message": "Insufficient credits"}}
    with serving(handler := scripted(lambda n, _: (200, body, {}))) as address:
        answers = ask(address, *(request(f"{n}", endpoint="chat") for n in range(64)))
    assert all(isinstance(answer, UserError) and "add credit" in answer.fix for answer in answers)
    assert len(handler.requests) <= 16


def refusal_of(body: dict[str, Any]) -> str | None:
    """Return the error of a hosted model that refuses one field of a request at a time; None if it answers."""
    for key, reason in {
        "max_tokens": "Use 'max_completion_tokens' instead.",
        "temperature": "Only the default is supported.",
        "stop": "It is not supported.",
    }.items():
        if key in body:
            return f"Unsupported parameter: '{key}'. {reason}"
    has_system = any(message["role"] == "system" for message in body["messages"])
    return "System role not supported" if has_system else None


def test_all_settings_of_a_fix_are_named_at_once_and_work(key: None, tmp_path: Path) -> None:
    """With the settings of the error's fix in the entry, the endpoint answers."""

    def script(number: int, body: dict[str, Any]) -> tuple[int, Any, dict[str, str]]:
        message = refusal_of(body)
        return (400, {"error": {"message": message}}, {}) if message else (200, chat({"content": "4"}), {})

    with serving(handler := scripted(script)) as address:
        with pytest.raises(UserError) as error:
            drive(address, tmp_path, 5, endpoint="chat", prompt_role="system")
        expected = "set max_tokens_as: max_completion_tokens and omit: [temperature, stop] and prompt_role: user"
        assert error.value.fix == expected and error.value.place == "models.m"
        assert len(handler.requests) <= 16
        settings = yaml.safe_load(error.value.fix.removeprefix("set ").replace(" and ", "\n"))
        assert len(drive(address, tmp_path, 5, **{"endpoint": "chat", **settings})) == 5


def test_answers_in_flight_are_kept_if_a_refusal_ends_the_job(key: None, tmp_path: Path) -> None:
    """One request is refused for lack of credit while others are in flight. Their answers are stored."""
    release = threading.Event()

    def script(number: int, body: dict[str, Any]) -> tuple[int, Any, dict[str, str]]:
        if "3+1?" in body["prompt"]:
            threading.Timer(0.5, release.set).start()
            return 402, {"error": {"message": "Insufficient credits"}}, {}
        release.wait(10)
        return 200, completion("4"), {}

    handler = scripted(script)
    with serving(handler) as address, pytest.raises(UserError, match="402"):
        drive(address, tmp_path, 40, concurrency=6)
    kept = len(load_journal_answers(tmp_path / "journal.jsonl", FinishedRequest))
    assert kept == len(handler.requests) - 1 <= 6


def test_a_probe_is_in_the_ledger_and_not_sent_if_all_answers_are_on_file(key: None, tmp_path: Path) -> None:
    def script(number: int, body: dict[str, Any]) -> tuple[int, Any, dict[str, str]]:
        bad = "3+1?" in body["prompt"] or number == 0
        return (400, {"error": {"message": "Nope."}}, {}) if bad else (200, completion("4"), {})

    with serving(handler := scripted(script)) as address:
        drive(address, tmp_path, 5, concurrency=1)
        sent = len(handler.requests)
        [line] = (tmp_path / "journal.ledger").read_text().splitlines()
        assert sent == 7 and json.loads(line)["requests"] == 7, "five items, and a probe for each of two refusals"
        drive(address, tmp_path, 5, concurrency=1)
        assert len(handler.requests) == sent


def test_an_empty_turn_is_replaced_if_the_provider_refuses_it(key: None, tmp_path: Path) -> None:
    """A note replaces empty turns if the provider refuses them, and the conversation continues to its end."""
    refusal = "messages.1: all messages must have non-empty content"

    def script(number: int, body: dict[str, Any]) -> tuple[int, Any, dict[str, str]]:
        if any(not message["content"] for message in body["messages"]):
            return 400, {"error": {"message": refusal}}, {}
        return 200, chat({"content": "" if len(body["messages"]) == 1 else "4"}), {}

    loaded, item = work(1)[0]
    two_turns = loaded.model_copy(update={"templates": ["First {{ question }}", "Then?"]})

    with serving(handler := scripted(script)) as address:
        [reply] = drive(address, tmp_path, [(two_turns, item)], endpoint="chat")
        sent = len(handler.requests)
        assert (reply.error, [turn.text for turn in reply.turns]) == (None, ["", "4"])
        assert handler.requests[-1][2]["messages"][1]["content"] == "(no answer)"
        assert drive(address, tmp_path, [(two_turns, item)], endpoint="chat") == [reply]
        assert len(handler.requests) == sent, "all answers are on file"
