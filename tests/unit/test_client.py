"""The client and the driver against scripted servers: storms, hangs, dropped lines, nonsense. Fault drills only."""

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
from maieutic.core.journal import FinishedRequest, load_journal_answers
from maieutic.core.records import SCORINGS, Item, Prompt, Reply, read_records, write_records
from maieutic.graders.parsing import read_reply
from maieutic.graders.reading import Reading
from maieutic.replies.generate import CardItems, RequestLimits, Shard, ask_tutor, run_concurrently, tutor_request
from maieutic.replies.shards import gather_shards
from maieutic.report.tables import reply_costs
from maieutic.serving import client
from maieutic.serving.backends import Backend, JobFiles, hosted_backend
from maieutic.serving.budget import BUDGET_VARIABLE, Allowance, BudgetFile
from maieutic.serving.client import Client, ServerSettings, Unanswered
from maieutic.serving.server import VllmServer, vllm_identity

KEY = "sk-canary-5f0c1d"
OK = {}


def server(address: str, **settings: Any) -> ServerSettings:
    return ServerSettings(**{"base_url": f"{address}/v1", "model": "m", "timeout": 5.0, "concurrency": 64, **settings})


def request(text: str = "hi", endpoint: str = "completions", **more: Any) -> dict[str, Any]:
    message = {"role": "system", "content": text}
    return {"endpoint": endpoint, "messages": [message], "temperature": 0.0, "max_tokens": 5, "stop": ["\n"], **more}


def ask(address: str, *requests: dict[str, Any], **settings: Any) -> list[Any]:
    """Ask all requests at once; exceptions are returned."""

    async def all_of() -> list[Any]:
        asking = Client(server(address, **settings))
        try:
            return await asyncio.gather(*(asking.ask(one) for one in requests), return_exceptions=True)
        finally:
            await asking.close()

    return asyncio.run(all_of())


def test_a_completion_sends_the_prompt_as_it_is() -> None:
    handler = scripted(lambda n, body: (200, completion("4\nQuestion"), OK))
    with serving(handler) as address:
        [answer] = ask(address, request("2+2 = "))
    [(_, path, body)] = handler.requests
    assert path == "/v1/completions"
    assert (body["prompt"], body["stop"], body["max_tokens"], body["temperature"]) == ("2+2 = ", ["\n"], 5, 0.0)
    assert (answer.text, answer.attempts, answer.prompt_tokens) == ("4", 1, 1), "cut at the stop string"


def test_a_chat_sends_messages_and_keeps_reasoning_apart() -> None:
    replies = [
        {"content": "\n\n4", "reasoning_content": "2+2"},
        {"content": "<think>2+2</think>4"},
        {"content": None},
        {"content": "<think>b</think>4", "reasoning": "a"},
        {"content": "\n4", "reasoning": ""},
    ]
    handler = scripted(lambda n, body: (200, chat(replies[n]), OK))
    with serving(handler) as address:
        answers = ask(address, *(request(str(n), "chat") for n in range(5)), concurrency=1)
    # The last one has no reasoning: its new line is the tutor's own, and the stop string ends it there (Q3).
    assert [(one.text, one.reasoning) for one in answers] == [
        ("4", "2+2"), ("4", "2+2"), ("", None), ("4", "a\nb"), ("", None),
    ]  # fmt: skip
    assert [(one.raw, one.no_text) for one in answers] == [
        ("\n\n4", False), ("<think>2+2</think>4", False), (None, True), ("<think>b</think>4", False), (None, False),
    ]  # fmt: skip
    assert handler.requests[0][1] == "/v1/chat/completions"
    assert handler.requests[0][2]["messages"] == [{"role": "system", "content": "0"}]


def test_the_text_as_sent_is_on_file_and_paper_compat_reads_it(key: None, tmp_path: Path) -> None:
    """The released code reads inline reasoning: a yes in it is the verdict."""
    said = "<think>5 and</think> Final answer: 12"
    handler = scripted(lambda n, body: (200, chat({"content": said}), {}))
    with serving(handler) as address:
        paths = [tmp_path / name for name in ("j.jsonl", "s.log", "o.jsonl", "p.jsonl")]
        ask_tutor(
            "m", hosted(address, endpoint="chat"), work(1), RequestLimits(8, 1), JobFiles(None, *paths[:2]), *paths[2:]
        )
    [reply] = read_records(tmp_path / "o.jsonl", Reply)
    assert (reply.text, reply.released, reply.turns[0].endpoint) == ("Final answer: 12", said, "chat")
    item = work(1)[0][1].model_copy(update={"reference": {"incorrect": True}})
    thought = reply.model_copy(
        update={"turns": [reply.turns[0].model_copy(update={"raw": "<think>yes?</think>No.", "text": "No."})]}
    )
    read = {scoring: read_reply("yes_no", item, thought, scoring)[0].value for scoring in SCORINGS}
    assert read == {"paper_compat": True, "robust": False}
    silent = reply.model_copy(
        update={"turns": [reply.turns[0].model_copy(update={"raw": None, "text": "", "no_text": True})]}
    )
    why = "the released code fails: the server sent no text"
    assert read_reply("yes_no", item, silent, "paper_compat") == [Reading(None, None, "", why)]
    refused = reply.model_copy(update={"turns": [], "error": "too long"})
    for scoring in SCORINGS:
        assert read_reply("yes_no", item, refused, scoring) == [
            Reading(None, None, "", "refused: too long", refused=True)
        ]


def test_parameters_that_a_server_refuses_are_left_out_and_extra_ones_sent() -> None:
    handler = scripted(lambda n, body: (200, completion("x"), OK))
    with serving(handler) as address:
        ask(address, request(), omit=("stop", "temperature"), extra_body={"top_k": 1})
    body = handler.requests[0][2]
    assert "stop" not in body and "temperature" not in body and body["top_k"] == 1


def chat_body(**changes: Any) -> dict[str, Any]:
    """A chat answer of which some parts are something else."""
    body = {**chat({"content": "4"}), "usage": {"prompt_tokens": 3, "completion_tokens": 2}}
    choice = {**body["choices"][0], **{name: changes.pop(name) for name in ("finish_reason",) if name in changes}}
    if "content" in changes:
        choice["message"] = {"role": "assistant", "content": changes.pop("content")}
    return {**body, "choices": [choice], **changes}


ODD = {
    "usage is a text": (chat_body(usage="many"), ("4", "stop", None, None)),
    "usage is a list": (chat_body(usage=[1]), ("4", "stop", None, None)),
    "usage is null": (chat_body(usage=None), ("4", "stop", None, None)),
    "half a token": (chat_body(usage={"prompt_tokens": 7.5, "completion_tokens": 7.0}), ("4", "stop", None, 7)),
    "no number of tokens": (chat_body(usage={"prompt_tokens": float("nan"), "completion_tokens": "2"}), ("4", "stop", None, None)),
    "tokens below zero": (chat_body(usage={"prompt_tokens": -1, "completion_tokens": True}), ("4", "stop", None, None)),
    "more tokens than there are": (chat_body(usage={"prompt_tokens": 10**40, "completion_tokens": 1e300}), ("4", "stop", None, None)),
    "the reason of the end is a number": (chat_body(finish_reason=1), ("4", None, 3, 2)),
    "the reason of the end is an object": (chat_body(finish_reason={"a": "b"}), ("4", None, 3, 2)),
    "the reason of the end has no end": (chat_body(finish_reason="x" * 9999), ("4", "x" * 100, 3, 2)),
    "text in parts": (chat_body(content=[{"type": "text", "text": "Final "}, {"type": "text", "text": "answer"}]), ("Final answer", "stop", 3, 2)),
    "text beside a picture": (chat_body(content=[{"type": "image_url", "image_url": {}}, {"type": "text", "text": "4"}]), ("4", "stop", 3, 2)),
    "no content": (chat_body(content=None), ("", "stop", 3, 2)),
    "content is a number": (chat_body(content=4), ("", "stop", 3, 2)),
    "more than was asked for": (chat_body(extra={"a": [1, {"b": None}]}, error="?"), ("4", "stop", 3, 2)),
}  # fmt: skip


@pytest.mark.parametrize("name", ODD)
def test_what_cannot_be_read_beside_an_answer_is_null(name: str) -> None:
    body, (text, finish, prompt_tokens, completion_tokens) = ODD[name]
    with serving(scripted(lambda n, _: (200, json.dumps(body).encode(), {}))) as address:
        [answer] = ask(address, request(endpoint="chat"))
    assert (answer.text, answer.finish) == (text, finish) and answer.attempts == 1
    assert (answer.prompt_tokens, answer.completion_tokens) == (prompt_tokens, completion_tokens)


def response(*output: dict[str, Any], **more: Any) -> dict[str, Any]:
    """The body of an answer of the Responses API."""
    return {"id": "1", "object": "response", "status": "completed", "output": list(output), **more}


SAID = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Step 1 "}, {"type": "output_text", "text": "is wrong"}]}  # fmt: skip
THOUGHT = {"type": "reasoning", "summary": [{"type": "summary_text", "text": "Let me see."}]}


def test_the_responses_api_is_asked_and_read_in_its_own_words() -> None:
    usage = {
        "input_tokens": 7,
        "output_tokens": 9,
        "input_tokens_details": {"cached_tokens": 5},
        "output_tokens_details": {"reasoning_tokens": 4},
    }
    bodies = [
        response(THOUGHT, SAID, usage=usage),
        response(THOUGHT, status="incomplete", incomplete_details={"reason": "max_output_tokens"}),
        response({"type": "message", "content": [{"type": "refusal", "refusal": "No."}]}),
    ]
    form = {"type": "json_schema", "json_schema": {"name": "r", "schema": {"type": "object"}, "strict": True}}
    parts = [{"type": "text", "text": "what?"}, {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA"}}]
    sent = [
        request("0", "responses", response_format=form),
        request("1", "responses"),
        {**request("2", "responses"), "messages": [{"role": "user", "content": parts}]},
    ]
    handler = scripted(lambda n, body: (200, bodies[n], {}))
    with serving(handler) as address:
        answers = ask(address, *sent, concurrency=1, omit=("stop", "temperature"))
    assert answers[0].cached_tokens == 5
    assert {path for _, path, _ in handler.requests} == {"/v1/responses"}
    first, _, third = (body for _, _, body in handler.requests)
    assert first["input"] == [{"role": "system", "content": "0"}] and first["max_output_tokens"] == 5
    assert first["text"] == {
        "format": {"type": "json_schema", "name": "r", "schema": {"type": "object"}, "strict": True}
    }
    assert not first.keys() & {"messages", "max_tokens", "stop", "temperature", "response_format"}
    assert third["input"][0]["content"] == [
        {"type": "input_text", "text": "what?"}, {"type": "input_image", "image_url": "data:image/png;base64,AA"},
    ]  # fmt: skip
    assert [(one.text, one.finish, one.reasoning) for one in answers] == [
        ("Step 1 is wrong", "stop", "Let me see."), ("", "length", "Let me see."), ("No.", "stop", None),
    ]  # fmt: skip
    assert (answers[0].prompt_tokens, answers[0].completion_tokens) == (7, 9) and answers[1].no_text


@pytest.mark.parametrize(
    "body", [{}, [], {"output": {}}, {"output": [1, {"type": "message", "content": "x"}]}, response(THOUGHT)]
)
def test_a_response_without_a_message_is_no_answer(body: Any) -> None:
    with serving(scripted(lambda n, _: (200, body, {}))) as address:
        [answer] = ask(address, request("0", "responses"), attempts=1)
    assert isinstance(answer, Unanswered)


NO_ANSWERS = {
    "choices is an object": b'{"choices": {"0": {"message": {"content": "4"}}}}',
    "no choice": b'{"choices": []}',
    "a choice is a text": b'{"choices": ["4"]}',
    "a choice of nothing": b'{"choices": [null]}',
    "no message": b'{"choices": [{"text": "4"}]}',
    "a message is a text": b'{"choices": [{"message": "4"}]}',
    "a list": b'[{"choices": []}]',
    "a text": b'"4"',
    "deeply nested": b'{"choices": ' + b"[" * 100_000 + b"]" * 100_000 + b"}",
    "a huge number": b'{"choices": ' + b"9" * 100_000 + b"}",
    "no UTF-8": b'{"choices": [{"message": {"content": "\xff"}}]}',
    "parts that are not text": b'{"choices": [{"message": {"content": [{"type": "audio"}, 7]}}]}',
    "a page": b"<html>Please log in</html>",
    "nothing": b"",
}


@pytest.mark.slow
@pytest.mark.parametrize("name", NO_ANSWERS)
def test_a_body_without_an_answer_costs_one_item(
    name: str, key: None, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """An item without a readable answer is asked again, counted and named; answers on file are asked no more."""
    broken = True

    def script(number: int, body: dict[str, Any]) -> tuple[int, Any, dict[str, str]]:
        odd = broken and "3+1?" in body["messages"][0]["content"]
        return 200, NO_ANSWERS[name] if odd else chat({"content": "4"}), {}

    handler = scripted(script)
    with serving(handler) as address:
        with pytest.raises(UserError, match="1 of 5 items stayed unanswered"):
            drive(address, tmp_path, 5, endpoint="chat")
        assert len(handler.requests) == 4 + 2, "the entry's two attempts"
        assert any("MalformedAnswer" in record.getMessage() for record in caplog.records)
        broken = False
        assert len(drive(address, tmp_path, 5, endpoint="chat")) == 5
        assert len(handler.requests) == 4 + 2 + 1


def test_a_flood_is_cut_off() -> None:
    bodies = [json.dumps(chat({"content": "x" * size})).encode() for size in (90_000, 200_000, 50_000_000)]
    with serving(scripted(lambda n, body: (200, bodies[int(body["messages"][0]["content"])], {}))) as address:
        answers = ask(address, *(request(str(n), "chat") for n in range(3)), attempts=1, longest=100_000)
    assert len(answers[0].text) == 90_000
    assert [type(answer) for answer in answers[1:]] == [Unanswered, Unanswered]


@pytest.mark.slow
def test_storm(monkeypatch: pytest.MonkeyPatch) -> None:
    """30 % 429, 10 % 5xx, dropped lines, empty bodies, nonsense: everything is answered once."""
    monkeypatch.setattr(client, "FIRST_WAIT", 0.01)
    dice = random.Random(3)
    bad: list[tuple[int, Any, dict[str, str]]] = [
        *[(429, {"error": {"message": "slow down"}}, {"Retry-After": "0.05"})] * 6,
        *[(503, b"", {})] * 2,
        (0, b"", {}),
        (200, b"", {}),
        (200, b"{", {}),
        (200, {"choices": []}, {}),
        (200, {"unexpected": True}, {}),
    ]

    def script(number: int, body: dict[str, Any]) -> tuple[int, Any, dict[str, str]]:
        return dice.choice(bad) if dice.random() < 0.5 else (200, completion(f"to {body['prompt']}"), {})

    handler = scripted(script)
    with serving(handler) as address:
        answers = ask(address, *(request(str(n)) for n in range(60)), attempts=30, concurrency=16)
    assert [one.text for one in answers] == [f"to {n}" for n in range(60)]
    assert sum(one.attempts for one in answers) == len(handler.requests), "every attempt is counted, none is hidden"


@pytest.mark.slow
@pytest.mark.parametrize("form", ["number", "date"])
def test_retry_after_holds_every_request_back(form: str) -> None:
    def script(number: int, body: dict[str, Any]) -> tuple[int, Any, dict[str, str]]:
        when = time.strftime("%a, %d %b %Y %H:%M:%S GMT", time.gmtime(time.time() + 2))
        return (
            (429, b"{}", {"Retry-After": "1.2" if form == "number" else when})
            if number == 0
            else (200, completion("x"), {})
        )

    handler = scripted(script)
    with serving(handler) as address:
        answers = ask(address, *(request(str(n)) for n in range(5)), concurrency=1)
    assert [one.text for one in answers] == ["x"] * 5
    first, second = handler.requests[0][0], handler.requests[1][0]
    assert second - first >= (1.2 if form == "number" else 0.9)


WAITS = {
    "1e9": 7.0, "inf": 7.0, "-inf": 0.0, "-5": 0.0, "nan": None, "3": 3.0, "": None, "soon": None,
    "Fri, 01 Jan 2099 00:00:00 GMT": 7.0, "Fri, 01 Jan 99999999999 00:00:00 GMT": 7.0,
    "Thu, 01 Jan 1970 00:00:00 GMT": 0.0, "9" * 5000: 7.0, "1" + "0" * 400: 7.0,
}  # fmt: skip


@pytest.mark.parametrize("value", WAITS, ids=lambda value: value[:30] or "empty")
def test_a_wait_is_bounded_by_the_patience(value: str) -> None:
    assert client.retry_after({"Retry-After": value}, 7.0) == WAITS[value]


def test_a_long_wait_is_said_with_its_end_and_cut_to_the_patience(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(client, "LOGGED_WAIT", 0.2)
    bad: tuple[int, Any, dict[str, str]] = (429, b"{}", {"Retry-After": "1e9"})
    handler = scripted(lambda n, body: bad if n == 0 else (200, completion("x"), {}))
    with serving(handler) as address:
        answers = ask(address, *(request(str(n)) for n in range(3)), concurrency=1, patience=0.6)
    assert [answer.text for answer in answers] == ["x"] * 3
    assert 0.6 <= handler.requests[1][0] - handler.requests[0][0] < 30
    [said] = [record.getMessage() for record in caplog.records if "sent Retry-After" in record.getMessage()]
    assert re.search(r"no requests until \d\d:\d\d:\d\d", said)


@pytest.mark.slow
def test_retry_after_of_zero_does_not_switch_the_back_off_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "FIRST_WAIT", 0.2)
    handler = scripted(lambda n, body: (429, b"{}", {"Retry-After": "0"}) if n < 3 else (200, completion("x"), {}))
    with serving(handler) as address:
        [answer] = ask(address, request())
    times = [when for when, _, _ in handler.requests]
    assert answer.attempts == 4
    assert [later - earlier >= 0.1 * 2**n for n, (earlier, later) in enumerate(itertools.pairwise(times))] == [True] * 3


def test_a_hanging_server_is_given_up_and_asked_again() -> None:
    def script(number: int, body: dict[str, Any]) -> tuple[int, Any, dict[str, str]]:
        if number == 0:
            time.sleep(2.0)
        return 200, completion("late" if number == 0 else "now"), {}

    handler = scripted(script)
    with serving(handler) as address:
        [answer] = ask(address, request(), timeout=0.5)
    assert (answer.text, answer.attempts) == ("now", 2)


def test_too_many_failures_leave_the_request_unanswered() -> None:
    handler = scripted(lambda n, body: (500, b"", {}))
    with serving(handler) as address:
        [answer] = ask(address, request(), attempts=2)
    assert isinstance(answer, Unanswered) and len(handler.requests) == 2


@pytest.mark.parametrize("status", [400, 413, 422])
def test_a_refusal_of_one_request_is_its_answer(status: int) -> None:
    handler = scripted(lambda n, body: (status, {"error": {"message": "prompt\nis too long"}}, {}))
    with serving(handler) as address:
        [answer] = ask(address, request())
    assert (answer.error, answer.text, len(handler.requests)) == (f"{status}: prompt is too long", "", 1)


REFUSALS = yaml.safe_load((Path(__file__).parents[1] / "tables/refusals.yaml").read_text(encoding="utf-8"))


@pytest.mark.parametrize("case", REFUSALS, ids=[case["said"][:40] or "empty" for case in REFUSALS])
@pytest.mark.parametrize(
    "wrapped", [lambda error: {"error": error}, lambda error: [{"error": error}], lambda error: error]
)
def test_what_is_recorded_and_what_ends_the_job(case: dict[str, str], wrapped: Any) -> None:
    body = wrapped({"message": case["said"]})
    with serving(scripted(lambda n, _: (400, body, {}))) as address:
        [answer] = ask(address, request())
    if case["about"] == "one":
        assert answer.error == f"400: {case['said']}"
    else:
        assert isinstance(answer, UserError) and case["said"] in str(answer)


def test_a_redirect_ends_the_job() -> None:
    handler = scripted(lambda n, body: (301, b"", {"Location": "https://elsewhere/v1"}))
    with serving(handler) as address:
        [answer] = ask(address, request(), api_key=KEY)
    assert isinstance(answer, UserError) and len(handler.requests) == 1


def test_a_key_at_the_edge_of_a_long_message_is_not_cut_in_two() -> None:
    text = "x" * 290 + KEY
    with serving(scripted(lambda n, _: (401, {"error": {"message": text}}, {}))) as address:
        [answer] = ask(address, request(), api_key=KEY)
    assert KEY[:4] not in str(answer)


def test_identities_hold_all_that_can_change_an_answer(tmp_path: Path, key: None) -> None:
    """Every field of an entry is either in the request, in the identity, or known not to change an answer."""
    (tmp_path / "manifest.json").write_text('{"files": {"model.safetensors": "aa"}}', encoding="utf-8")
    base = {"engine": "vllm", "weights": {"path": "x"}}
    changes = {
        "dtype": "float32",
        "max_model_len": 512,
        "engine_args": ["--enforce-eager"],
        "reviewed_args": ["--middleware", "x"],
        "extra_body": {"top_k": 1},
        "omit": ["stop"],
    }
    found = [
        vllm_identity(VllmModel.model_validate({**base, **{name: value}}), tmp_path) for name, value in changes.items()
    ]
    found.append(vllm_identity(VllmModel.model_validate(base), tmp_path))
    assert len({json.dumps(one, sort_keys=True) for one in found}) == len(changes) + 1
    same = {
        "runtime_args": ["--max-num-seqs", "2"],
        "environment": {"VLLM_A": "1"},
        "needs": {"gpus": 2},
        "concurrency": 3,
        "label": "L",
    }
    for name, value in same.items():
        assert vllm_identity(VllmModel.model_validate({**base, name: value}), tmp_path) == found[-1], name
    (tmp_path / "manifest.json").write_text('{"files": {"model.safetensors": "ab"}}', encoding="utf-8")
    assert vllm_identity(VllmModel.model_validate(base), tmp_path) != found[-1]
    others = [{}, {"model": "n"}, {"base_url": "http://y/v1"}, {"extra_body": {"a": 1}}, {"omit": ["stop"]}]
    hosts = [hosted_backend("m", hosted("http://x", **{**change}))[1] for change in others]
    assert len({json.dumps(one, sort_keys=True) for one in hosts}) == len(others)
    assert KEY not in json.dumps(hosts)


@pytest.mark.parametrize("computes", [True, False])
def test_the_dtype_of_a_trial_is_this_machines(computes: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The line that starts the server has it; the requests' keys do not, or a colleague would ask everything again."""
    monkeypatch.setattr("maieutic.serving.server.has_bfloat16", lambda: computes)
    (tmp_path / "manifest.json").write_text('{"files": {"model.safetensors": "aa"}}', encoding="utf-8")
    base = {"engine": "vllm", "weights": {"path": "x"}, "needs": {"gpus": 0}}
    for dtype in ("bfloat16-or-float32", "float16", "auto"):
        model = VllmModel.model_validate({**base, "dtype": dtype})
        line = VllmServer("m", model, tmp_path, tmp_path / "log", tmp_path).command()
        expected = dtype if dtype != "bfloat16-or-float32" else "bfloat16" if computes else "float32"
        assert line[line.index("--dtype") + 1] == expected
        assert vllm_identity(model, tmp_path)["dtype"] == dtype


@pytest.mark.parametrize("status", [401, 402, 403, 404])
def test_a_refusal_of_every_request_ends_the_job(status: int) -> None:
    handler = scripted(lambda n, body: (status, {"error": {"message": f"bad key {KEY}"}}, {}))
    with serving(handler) as address:
        [answer] = ask(address, request(), api_key=KEY)
    assert isinstance(answer, UserError) and f"the server answers {status} (bad key [key])" in str(answer)
    assert KEY not in str(answer) and len(handler.requests) == (1 if status < 403 else 2), (
        "and a probe where it is unsure"
    )


def test_a_model_that_only_chats_is_told_from_a_wrong_name() -> None:
    words = "This is a chat model and not supported in the v1/completions endpoint."
    with serving(scripted(lambda n, _: (404, {"error": {"message": words}}, {}))) as address:
        answers = [*ask(address, request()), *ask(address, request(endpoint="chat"))]
    assert ["set endpoint: chat" in str(answer) for answer in answers] == [True, False]


def test_a_key_that_a_server_echoes_is_on_no_disk(key: None, tmp_path: Path) -> None:
    """In a good answer, its reasoning, its finish reason, and a refusal of one request; also in other spellings."""
    forms = [KEY, base64.b64encode(f"Bearer {KEY}".encode()).decode(), KEY.replace("-", "\\u002d")]
    said = json.dumps(chat({"content": f"you sent {forms[0]} {forms[1]}", "reasoning_content": forms[0]}))
    bodies = [said, said.replace(KEY, forms[2]), json.dumps({"error": {"message": f"prompt is too long {KEY}"}})]

    def script(number: int, body: dict[str, Any]) -> tuple[int, Any, dict[str, str]]:
        return (400 if number == 2 else 200), bodies[number].encode(), {}

    with serving(scripted(script)) as address:
        replies = drive(address, tmp_path, 3, endpoint="chat", concurrency=1)
    assert sorted(reply.error or "" for reply in replies)[-1] == "400: prompt is too long [key]"
    assert any("you sent [key] " in reply.text for reply in replies)
    for path in tmp_path.iterdir():
        content = path.read_bytes()
        assert not [form for form in (KEY, base64.b64encode(KEY.encode()).decode()[:-4]) if form.encode() in content]


def test_a_key_that_an_error_echoes_without_its_end_is_on_no_disk(key: None, tmp_path: Path) -> None:
    said = {"error": {"message": f"Incorrect API key provided: {KEY[:-1]}"}}
    with serving(scripted(lambda n, body: (401, said, {}))) as address, pytest.raises(UserError) as error:
        drive(address, tmp_path, 1, endpoint="chat")
    assert "Incorrect API key provided: [key]" in str(error.value) and KEY[:-1] not in str(error.value)
    assert not [path for path in tmp_path.iterdir() if KEY[:-1].encode() in path.read_bytes()]


class Answering(Quiet):
    """A server that answers every request, and looks at no connection's state: TLS hides it."""

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send(200, json.dumps(completion("x")).encode(), Content_Type="application/json")


def certificate_for(folder: Path, name: str, *options: str) -> Path:
    """A certificate that no authority has signed, and its key, in one file. name: subjectAltName."""
    if not shutil.which("openssl"):
        absent("openssl", "apt install openssl")
    made = [
        "openssl",
        "req",
        "-x509",
        "-newkey",
        "rsa:2048",
        "-nodes",
        "-subj",
        "/CN=test",
        "-addext",
        f"subjectAltName={name}",
    ]
    files = ["-keyout", folder / "key.pem", "-out", folder / "cert.pem"]
    subprocess.run([*made, *files, *options], check=True, capture_output=True)
    (folder / "both.pem").write_text((folder / "cert.pem").read_text() + (folder / "key.pem").read_text())
    return folder / "both.pem"


@pytest.mark.parametrize(
    ("why", "name", "trusted", "message"),
    [
        ("of no authority", "IP:127.0.0.1", False, r"no encrypted connection: .*self.signed.*Fix: export SSL_CERT_FILE=FILE with the certificate"),
        ("of another host", "DNS:elsewhere.example", True, "no encrypted connection: .*Fix: set base_url to the host name"),
    ],
)  # fmt: skip
def test_a_certificate_that_fails_ends_the_job_at_once(
    why: str, name: str, trusted: bool, message: str, key: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No later try makes it another one."""
    both = certificate_for(tmp_path, name)
    if trusted:
        monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "cert.pem"))
    handler = scripted(lambda n, body: (200, completion("x"), {}))
    began = time.monotonic()
    with serving(handler, both) as address, pytest.raises(UserError, match=message) as error:
        drive(address, tmp_path, 20)
    assert not handler.requests and time.monotonic() - began < 10 and len(error.value.all) == 1


def test_the_fix_of_a_certificate_is_a_fix(key: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    both = certificate_for(tmp_path, "IP:127.0.0.1")
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "cert.pem"))

    with serving(Answering, both) as address:
        assert [reply.text for reply in drive(address, tmp_path, 2)] == ["x", "x"]


def test_a_handshake_that_breaks_off_is_tried_again(key: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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


def test_a_server_without_tls_behind_https_is_told(key: None, tmp_path: Path) -> None:
    with serving(scripted(lambda n, body: (200, completion("x"), {}))) as address, pytest.raises(UserError) as error:
        drive(address.replace("http:", "https:"), tmp_path, 5)
    assert "no encrypted connection" in str(error.value) and error.value.fix.startswith("write http:// in base_url")


@pytest.mark.parametrize(
    ("status", "body", "words"),
    [
        (200, b'{"detail": "model is warming up"}', 'MalformedAnswer (no choices): {"detail": "model is warming up"}'),
        (200, b"<html><body>Sign in to continue</body></html>", "MalformedAnswer (no JSON (JSONDecodeError)): Sign in to continue"),
        (502, b"<html><head><style>p{}</style></head><h1>502 Bad Gateway</h1>nginx</html>", "502 502 Bad Gateway nginx"),
        (503, b"upstream connect error", "503 upstream connect error"),
        (500, b"", "500 at try"),
    ],
)  # fmt: skip
def test_what_a_server_says_is_in_the_line_of_a_request_that_stays_unanswered(
    status: int, body: bytes, words: str, key: None, tmp_path: Path
) -> None:
    with serving(scripted(lambda n, asked: (status, body, {}))) as address, pytest.raises(UserError) as error:
        drive(address, tmp_path, 1, endpoint="chat", attempts=2)
    assert words in str(error.value), str(error.value)


def test_a_count_of_thousands_of_digits_costs_no_answer(key: None, tmp_path: Path) -> None:
    said = json.dumps(chat({"content": "x"}) | {"usage": {"prompt_tokens": 0, "completion_tokens": 3}})
    body = said.replace('"prompt_tokens": 0', f'"prompt_tokens": {"9" * 5000}').encode()
    with serving(scripted(lambda n, asked: (200, body, {}))) as address:
        [reply] = drive(address, tmp_path, 1, endpoint="chat")
    assert reply.text == "x" and reply.turns[0].prompt_tokens is None and reply.turns[0].completion_tokens == 3


def test_the_words_of_a_refusal_beside_null_are_kept(key: None, tmp_path: Path) -> None:
    """The released client meets null and fails; so does its reading."""
    said = chat({"content": None, "refusal": "I cannot help with that."})
    with serving(scripted(lambda n, asked: (200, said, {}))) as address:
        [reply] = drive(address, tmp_path, 1, endpoint="chat")
    turn = reply.turns[0]
    assert (reply.text, turn.finish, turn.no_text, reply.error) == ("I cannot help with that.", "refusal", True, None)
    assert reply_costs(tmp_path / "out.jsonl", hosted("http://x"))["declined"] == 1


@pytest.mark.parametrize("value", ["sk-canary-\n5f0c1d", "sk-canary\x1b5f0c1d", "sk-canary-\u00e9f0c1d"])
def test_a_key_that_no_header_can_carry_is_one_line(
    value: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("TEST_KEY", value)
    with pytest.raises(UserError, match=r"models\.m\.key_env: the value of TEST_KEY has line breaks or") as error:
        drive("http://127.0.0.1:9", tmp_path, 1)
    assert value not in str(error.value)


@pytest.mark.parametrize("place", ["finish_reason", "type"])
def test_a_key_at_a_cut_is_not_left_in_part(place: str, key: None, tmp_path: Path) -> None:
    said: dict[str, Any] = chat({"content": "x" if place == "finish_reason" else [{"type": "x" * 92 + KEY}]})
    said["choices"][0]["finish_reason"] = "x" * 92 + KEY if place == "finish_reason" else "stop"
    with serving(scripted(lambda n, body: (200, said, {}))) as address, contextlib.suppress(UserError):
        drive(address, tmp_path, 1, endpoint="chat")
    assert not [path for path in tmp_path.iterdir() if KEY[:8].encode() in path.read_bytes()]


def test_an_answer_keeps_the_words_of_other_peoples_passwords(
    key: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DB_PASSWORD", "photosynthesis")
    with serving(scripted(lambda n, body: (200, completion("photosynthesis"), {}))) as address:
        assert [reply.text for reply in drive(address, tmp_path, 1)] == ["photosynthesis"]


def test_what_is_paid_is_on_file_before_the_purse_is_touched(
    key: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A full disk at the purse costs no answer; a torn line of it is passed over."""
    with_budget(monkeypatch, tmp_path, requests=50)
    (tmp_path / "purse.jsonl").write_text('["m", 1\n')

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(BudgetFile, "settle", full)
    handler = scripted(lambda n, body: (200, completion("4"), {}))
    with serving(handler) as address, pytest.raises(OSError, match="No space left"):
        drive(address, tmp_path, 3, concurrency=1)
    assert len(load_journal_answers(tmp_path / "journal.jsonl", FinishedRequest)) >= 1


ENDED = """
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


@pytest.mark.parametrize("grace", [5, 0], ids=["with grace", "without"])
def test_a_job_that_is_told_to_end_takes_what_it_has_asked(grace: int, key: None, tmp_path: Path) -> None:
    """SIGTERM while four paid requests are in flight: they are kept, and no other one is sent."""
    asked, go_on = threading.Semaphore(0), threading.Event()

    def script(number: int, body: dict[str, Any]) -> tuple[int, Any, dict[str, str]]:
        asked.release()
        go_on.wait(10)
        return 200, completion("4"), {}

    handler = scripted(script)
    with serving(handler) as address:
        env = {**os.environ, "PYTHONPATH": "workflow", "TEST_KEY": KEY}
        line = [sys.executable, "-c", ENDED, address, str(tmp_path), str(grace)]
        job = subprocess.Popen(line, env=env)
        for _ in range(4):
            assert asked.acquire(timeout=30)
        job.send_signal(signal.SIGTERM)
        log = tmp_path / "log"
        while "shutting down" not in log.read_text():
            time.sleep(0.02)
        if not grace:
            job.wait(10)
        go_on.set()
        assert job.wait(10) == 130, "interrupted"
        kept = len(load_journal_answers(tmp_path / "journal.jsonl", FinishedRequest))
        assert (len(handler.requests), kept) == (4, 4 if grace else 0)
        told = f"WARNING shutting down: requests in progress have {grace} s to finish; a second signal stops at once\n"
        assert log.read_text().count(told) == 1
        assert "was interrupted; finished work is kept" in log.read_text() and "Traceback" not in log.read_text()
        assert len(drive(address, tmp_path, 12, concurrency=4)) == 12
        assert len(handler.requests) == 12 + 4 - kept


def with_budget(monkeypatch: pytest.MonkeyPatch, folder: Path, **budget: Any) -> None:
    """A run whose jobs may spend so much."""
    prices = {"m": Price(input=1000.0, output=0.0)}
    allowance = Allowance(budget=Budget.model_validate(budget), budget_file=folder / "purse.jsonl", prices=prices)
    monkeypatch.setenv(BUDGET_VARIABLE, allowance.to_json())


# A request has a prompt of one token and an answer of one, and costs 0.001 USD.
BUDGETS = {
    "requests": ({"requests": 5}, r"run\.budget: requests 5 is spent \(5 requests, 10 tokens, 0\.01 USD\)"),
    "tokens": ({"tokens": 10}, r"run\.budget: tokens 10 is spent \(5 requests, 10 tokens"),
    "money": ({"usd": 0.005}, r"run\.budget: usd 0\.005 is spent"),
    "of one model": ({"models": {"m": {"requests": 5}}}, r"run\.budget\.models\.m: requests 5 is spent"),
}


@pytest.mark.parametrize("name", BUDGETS)
def test_a_budget_ends_a_job_in_one_line_and_keeps_everything(
    name: str, key: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    budget, problem = BUDGETS[name]
    with_budget(monkeypatch, tmp_path, **budget)
    handler = scripted(lambda n, body: (200, completion("4"), {}))
    with serving(handler) as address:
        with pytest.raises(UserError, match=problem) as error:
            drive(address, tmp_path, 12, concurrency=1)
        assert (
            "\n" not in error.value.lines and "all received answers are kept. Fix: raise this limit" in error.value.line
        )
        assert len(handler.requests) == len(load_journal_answers(tmp_path / "journal.jsonl", FinishedRequest)) == 5
        [ledger] = [json.loads(line) for line in (tmp_path / "journal.ledger").read_text().splitlines()]
        assert (ledger["requests"], ledger["prompt_tokens"]) == (5, 5)
        (tmp_path / "purse.jsonl").unlink()  # as the start of another run does
        with pytest.raises(UserError, match="is spent"):
            drive(address, tmp_path, 12, concurrency=1)
        monkeypatch.delenv(BUDGET_VARIABLE)
        assert len(drive(address, tmp_path, 12)) == 12 and len(handler.requests) == 12


def test_jobs_at_once_have_one_purse_and_what_is_not_answered_is_not_counted(
    key: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_budget(monkeypatch, tmp_path, requests=20)
    handler = scripted(lambda n, body: (500, b"", {}) if "7+1?" in body["prompt"] else (200, completion("4"), {}))
    failures: list[str] = []

    def job(number: int, address: str) -> None:
        folder = tmp_path / str(number)
        folder.mkdir()
        try:
            drive(address, folder, 9)
        except UserError as error:
            failures.append(error.line)

    with serving(handler) as address:
        jobs = [threading.Thread(target=job, args=(number, address)) for number in range(3)]
        for thread in jobs:
            thread.start()
        for thread in jobs:
            thread.join()
    answered = sum(
        len(load_journal_answers(tmp_path / f"{number}/journal.jsonl", FinishedRequest)) for number in range(3)
    )
    assert 17 <= answered <= 20 and len(failures) == 3, "a request that failed gives back what it had reserved"
    purse = BudgetFile(Allowance(budget=Budget(), budget_file=tmp_path / "purse.jsonl"), "m")
    with purse.locked():
        assert purse.spent["m"].requests == answered


def test_lone_surrogates_become_storable() -> None:
    body = json.dumps(completion("a\ud800b")).encode()
    with serving(scripted(lambda n, _: (200, body, {}))) as address:
        [answer] = ask(address, request())
    assert answer.text == "a?b"


def work(count: int) -> list:
    """Items of a real card."""
    loaded = read_card(CARDS / "mathtutorbench/problem_solving.yaml")
    return [
        (loaded, Item(id=f"i{n}", task="problem_solving", cluster=f"c{n}", vars={"question": f"{n}+1?"}, reference={}))
        for n in range(count)
    ]


def hosted(address: str, **more: Any) -> HostedModel:
    entry = {"engine": "hosted", "base_url": f"{address}/v1", "model": "m", "key_env": "TEST_KEY", "attempts": 2}
    return HostedModel.model_validate({**entry, **more})


def drive(address: str, folder: Path, count: int, **more: Any) -> list[Reply]:
    """Run the driver on `count` items."""
    paths = [folder / name for name in ("journal.jsonl", "server.log", "out.jsonl", "prompts.jsonl")]
    ask_tutor("m", hosted(address, **more), work(count), RequestLimits(8, 1), JobFiles(None, *paths[:2]), *paths[2:])
    return read_records(paths[2], Reply)


@pytest.fixture
def key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TEST_KEY", KEY)


def test_the_driver_asks_only_what_the_journal_lacks(key: None, tmp_path: Path) -> None:
    handler = scripted(lambda n, body: (200, completion(body["prompt"][-20:]), {}))
    with serving(handler) as address:
        first = drive(address, tmp_path, 10)
        assert len(handler.requests) == 10
        (tmp_path / "out.jsonl").unlink()  # as Snakemake does with the outputs of a failed job
        second = drive(address, tmp_path, 10)
        assert len(handler.requests) == 10, "a rerun asks nothing"
        third = drive(address, tmp_path, 15)
        assert len(handler.requests) == 15, "five more items are five more requests"
    assert first == second == third[:10]
    assert [reply.id for reply in third] == [f"i{n}" for n in range(15)], "in the items' order"
    assert handler.authorization == [f"Bearer {KEY}"] * 15
    prompts = {one.messages for one in read_records(tmp_path / "prompts.jsonl", Prompt)}
    assert {turn.messages for reply in third for turn in reply.turns} == prompts
    for path in tmp_path.iterdir():
        assert KEY.encode() not in path.read_bytes(), f"the key is in {path.name}"


def test_a_failing_job_keeps_what_was_answered(key: None, tmp_path: Path) -> None:
    """One bad item in ten: nine are on file, no output is written, and the rerun asks for the tenth alone."""
    broken = True

    def script(number: int, body: dict[str, Any]) -> tuple[int, Any, dict[str, str]]:
        return (500, b"", {}) if broken and "7+1?" in body["prompt"] else (200, completion("8"), {})

    handler = scripted(script)
    with serving(handler) as address:
        with pytest.raises(
            UserError,
            match=r"1 of 10 items stayed unanswered \(500 at try 2: 1\). Fix: run again: only unanswered requests are sent",
        ):
            drive(address, tmp_path, 10)
        assert not (tmp_path / "out.jsonl").exists()
        asked, broken = len(handler.requests), False
        assert len(drive(address, tmp_path, 10)) == 10
        assert len(handler.requests) == asked + 1


def test_a_refused_item_is_recorded_and_not_asked_again(key: None, tmp_path: Path) -> None:
    def script(number: int, body: dict[str, Any]) -> tuple[int, Any, dict[str, str]]:
        long = "3+1?" in body["prompt"]
        return (400, {"error": {"message": "maximum context length"}}, {}) if long else (200, completion("4"), {})

    handler = scripted(script)
    with serving(handler) as address:
        first = drive(address, tmp_path, 5)
        drive(address, tmp_path, 5)
    assert [reply.error for reply in first] == [None, None, None, "400: maximum context length", None]
    assert len(handler.requests) == 5


@pytest.mark.parametrize(
    ("run", "model", "sent"), [(None, None, 2048), (None, 96, 96), (64, 96, 64), (4096, None, 2048)]
)
def test_the_smallest_bound_on_tokens_counts(run: int | None, model: int | None, sent: int) -> None:
    loaded, _ = work(1)[0]
    entry = hosted("http://x", max_tokens=model)
    assert tutor_request(loaded, [], entry, RequestLimits(run, 1))["max_tokens"] == sent


def test_items_with_the_same_prompt_are_one_request(key: None, tmp_path: Path) -> None:
    handler = scripted(lambda n, body: (200, completion("x"), {}))
    items = [(loaded, item.model_copy(update={"vars": {"question": "same"}})) for loaded, item in work(6)]
    with serving(handler) as address:
        paths = [tmp_path / name for name in ("j.jsonl", "s.log", "o.jsonl", "p.jsonl")]
        ask_tutor("m", hosted(address), items, RequestLimits(8, 1), JobFiles(None, *paths[:2]), *paths[2:])
    assert len(handler.requests) == 1
    assert len(read_records(tmp_path / "o.jsonl", Reply)) == 6


class Counted:
    """Work whose items are counted as they are taken."""

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
    """Conversations begin when others end, and what is finished waits on disk: its order is that of the items."""
    items, ahead = Counted(300), []

    def reply(n: int, body: dict[str, Any]) -> Any:
        ahead.append(items.taken - n)
        time.sleep(0.002 * (n % 5))  # answers come in another order
        return 200, completion(body["prompt"][-20:]), {}

    with serving(scripted(reply)) as address:
        paths = [tmp_path / name for name in ("j.jsonl", "s.log", "o.jsonl", "p.jsonl")]
        ask_tutor(
            "m", hosted(address, concurrency=4), items, RequestLimits(8, 1), JobFiles(None, *paths[:2]), *paths[2:]
        )
    assert max(ahead) <= 3 * 4, "two conversations a slot, one answer a slot that is not taken in yet"
    replies = read_records(paths[2], Reply)
    assert [reply.id for reply in replies] == [item.id for _, item in items.items]
    prompts = {prompt.messages: prompt.content for prompt in read_records(paths[3], Prompt)}
    assert list(prompts) == sorted(prompts) and len(prompts) == 300
    for reply in replies:
        assert f"{reply.id[1:]}+1?" in prompts[reply.turns[0].messages][0]["content"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["j.jsonl", "j.ledger", "j.lock", "o.jsonl", "p.jsonl"]


def test_a_server_that_did_not_start_is_not_started_again_by_other_work_of_the_job() -> None:
    """Several benchmarks wait for one server: its start fails once, and each of them has the fault."""
    starts: list[float] = []

    async def start() -> Any:
        starts.append(time.monotonic())
        await asyncio.sleep(0.05)
        raise UserError("server.log", "the vLLM server ended with 1", "read this log")

    async def ask_for(backend: Backend) -> str:
        await backend.client()
        return "a client"

    async def all_of() -> None:
        backend = Backend(start)
        await run_concurrently([ask_for(backend) for _ in range(4)], backend)

    with pytest.raises(UserError, match="ended with 1") as error:
        asyncio.run(all_of())
    assert len(starts) == 1 and error.value.lines.count("\n") == 0, "said once"


def test_one_piece_of_work_that_fails_ends_no_other_and_each_fault_is_told() -> None:
    done: list[str] = []

    async def piece(name: str, fault: bool) -> str:
        await asyncio.sleep(0.02 if fault else 0.1)
        if fault:
            raise UserError(name, "3 of 5 items stayed unanswered", "run again")
        done.append(name)
        return name

    closed: list[bool] = []
    backend = Backend(start=asyncio.sleep, stop=lambda: closed.append(True))
    with pytest.raises(UserError) as error:
        asyncio.run(run_concurrently([piece("a", True), piece("b", False), piece("c", True)], backend))
    assert [fault.place for fault in error.value.all] == ["a", "c"] and done == ["b"] and closed == [True]
    assert asyncio.run(run_concurrently([piece("a", False), piece("b", False)], backend)) == ["a", "b"]


def test_retries_are_put_down_once_however_many_journals_share_a_client() -> None:
    async def start() -> Any:
        return SimpleNamespace(retries=met)

    met: dict[str, int] = {"429": 2}
    backend = Backend(start)
    assert backend.new_retries() == {}
    asyncio.run(backend.client())
    assert backend.new_retries() == {"429": 2}
    met |= {"429": 5, "TimeoutError": 1}
    assert [backend.new_retries(), backend.new_retries()] == [{"429": 3, "TimeoutError": 1}, {}]


@pytest.mark.parametrize(("count", "shards"), [(7, 1), (7, 3), (6, 3), (2, 5), (0, 2)])
def test_shards_put_together_are_the_whole(count: int, shards: int, tmp_path: Path) -> None:
    """Each item is in one shard, their sizes differ by one at most, and the replies come out in the items' order."""
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
def test_shards_go_on_from_one_task_to_the_next(shards: int, tmp_path: Path) -> None:
    """Items are counted over all tasks, so that a shard's share is even whatever the tasks' sizes are."""
    loaded, _ = work(1)[0]
    cards = [loaded.model_copy(update={"card": loaded.card.model_copy(update={"task": task})}) for task in "abc"]
    for card, count in zip(cards, (3, 1, 5), strict=True):
        items = [item.model_copy(update={"task": card.card.task}) for _, item in work(count)]
        write_records(tmp_path / f"{card.card.task}.jsonl", items)
    whole = [(item.task, item.id) for _, item in CardItems(cards, tmp_path)]
    for number in range(1, shards + 1):
        part = CardItems(cards, tmp_path, Shard(number, shards))
        assert [(item.task, item.id) for _, item in part] == whole[number - 1 :: shards] and len(part) == len(
            list(part)
        )


def test_a_shard_that_lacks_replies_is_refused_by_name(tmp_path: Path) -> None:
    for name, lines in (("a", 3), ("b", 1), ("c", 3)):
        (tmp_path / name).write_text("x\n" * lines)
    files = [tmp_path / name for name in "abc"]
    with pytest.raises(UserError) as error:
        gather_shards(files, files, tmp_path / "out", tmp_path / "prompts")
    assert error.value.line == (
        f"{tmp_path / 'b'}: expected 2 of 7 replies in this shard, found 1. Fix: delete the folder of the shards and run again: "
        "they are rebuilt from the journals"
    )
    assert not (tmp_path / "out").exists()


def test_items_of_files_are_read_as_they_are_taken(tmp_path: Path) -> None:
    loaded, _ = work(1)[0]
    for task, count in (("problem_solving", 3), ("other", 2)):
        write_records(tmp_path / f"{task}.jsonl", [item.model_copy(update={"task": task}) for _, item in work(count)])
    other = loaded.model_copy(update={"card": loaded.card.model_copy(update={"task": "other"})})
    items = CardItems([loaded, other], tmp_path)
    expected = [
        ("problem_solving", "i0"),
        ("problem_solving", "i1"),
        ("problem_solving", "i2"),
        ("other", "i0"),
        ("other", "i1"),
    ]
    assert len(items) == 5
    for _ in range(2):
        assert [(item.task, item.id) for _, item in items] == expected
    assert (other, next(iter(items))[1]) not in items and (loaded, next(iter(items))[1]) in items
    with open(tmp_path / "other.jsonl", "a") as handle:
        handle.write("{\n")
    taken = iter(CardItems([other], tmp_path))
    assert [next(taken)[1].id, next(taken)[1].id] == ["i0", "i1"]
    with pytest.raises(UserError, match=r"other.jsonl:3: expected a Item record"):
        next(taken)


@pytest.mark.parametrize(
    ("details", "cached"),
    [
        ({"cached_tokens": 64}, 64),
        ({"cached_tokens": None}, None),
        ({"cached_tokens": "many"}, None),
        ({"cached_tokens": -1}, None),
        ([64], None),
        (None, None),
        ({}, None),
    ],
)
def test_the_tokens_of_a_servers_cache_are_kept_and_told(
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


def test_a_key_that_is_not_set_is_named_before_anything_is_asked(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("TEST_KEY", raising=False)
    with pytest.raises(UserError, match=r"models.m.key_env: the environment variable TEST_KEY is not set"):
        drive("http://127.0.0.1:9", tmp_path, 1)


def test_several_turns_see_the_tutors_own_answers(key: None, tmp_path: Path) -> None:
    """A conversation of two turns: the second request holds the first answer."""
    handler = scripted(lambda n, body: (200, chat({"content": f"answer {len(body['messages'])}"}), {}))
    loaded, item = work(1)[0]
    two = loaded.model_copy(update={"templates": ["First {{ question }}", "Then, after {{ answers[0] }}?"]})
    with serving(handler) as address:
        paths = [tmp_path / name for name in ("j.jsonl", "s.log", "o.jsonl", "p.jsonl")]
        ask_tutor(
            "m",
            hosted(address, endpoint="chat"),
            [(two, item)],
            RequestLimits(8, 1),
            JobFiles(None, *paths[:2]),
            *paths[2:],
        )
    sent = [body["messages"] for _, _, body in handler.requests]
    assert [message["content"] for message in sent[1]] == ["First 0+1?", "answer 1", "Then, after answer 1?"]
    [reply] = read_records(tmp_path / "o.jsonl", Reply)
    assert [turn.text for turn in reply.turns] == ["answer 1", "answer 3"]


WORDINGS = json.loads((Path(__file__).parents[1] / "tables/endpoint_refusals.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize(
    "case", WORDINGS, ids=[f"{case['status']} {case['whose']}: {str(case['body'])[:50]}" for case in WORDINGS]
)
def test_a_refusal_of_some_requests_is_theirs_and_one_of_all_ends_the_job(case: dict[str, Any]) -> None:
    """One prompt in four is refused, or every request; the others are answered, also the probe."""

    def script(number: int, body: dict[str, Any]) -> tuple[int, Any, dict[str, str]]:
        some = "bad" in body["messages"][-1]["content"] or case["whose"] == "all"
        return (case["status"], case["body"], case.get("headers", {})) if some else (200, chat({"content": "4"}), {})

    handler = scripted(script)
    with serving(handler) as address:
        asked = [request("bad" if number % 4 == 0 else f"good {number}", endpoint="chat") for number in range(40)]
        answers = ask(address, *asked, attempts=2, concurrency=32, api_key=KEY)
    if case["whose"] == "one":
        assert [bool(answer.error) for answer in answers] == [number % 4 == 0 for number in range(40)]
        assert answers[0].error.startswith(f"{case['status']}: ")
        assert len(handler.requests) <= 40 + 3, "probes are few"
    else:
        assert all(isinstance(answer, UserError) for answer in answers)
        assert case["fix"] in answers[0].fix, answers[0].fix
        assert len(handler.requests) <= 16, "requests in vain"


def test_a_key_that_the_entry_does_not_name_is_asked_for() -> None:
    with serving(scripted(lambda n, body: (401, {"error": {"message": "No auth credentials found"}}, {}))) as address:
        [fault] = ask(address, request())
    assert fault.fix == "set key_env: MY_API_KEY (any name), and export MY_API_KEY=..."


def test_a_refusal_after_many_answers_is_looked_at_again() -> None:
    """An account that is closed in the middle, in words that nobody knows: at most a few items are called refused."""

    def script(number: int, body: dict[str, Any]) -> tuple[int, Any, dict[str, str]]:
        return (200, chat({"content": "4"}), {}) if number < 20 else (400, {"error": {"message": "Nope."}}, {})

    with serving(scripted(script)) as address:
        answers = ask(address, *(request(f"{n}", endpoint="chat") for n in range(60)), concurrency=1)
    kinds = Counter("fault" if isinstance(answer, UserError) else answer.error or "" for answer in answers)
    assert (
        kinds[""] == 20 and kinds["400: Nope."] == client.PROBE_AFTER - 1 and kinds["fault"] == 40 - kinds["400: Nope."]
    )


IN_A_200 = {
    "half a text": {"choices": [{"message": {"content": "Let us"}, "finish_reason": "error", "error": {"code": 502, "message": "upstream"}}]},
    "no text": {"choices": [{"message": {"content": ""}, "finish_reason": "error", "error": {"code": 429, "message": "upstream is busy"}}]},
    "finish alone": {"choices": [{"message": {"content": "Let us"}, "finish_reason": "error"}]},
    "an error instead": {"error": {"code": 429, "message": "Provider returned error", "metadata": {"raw": "busy upstream"}}},
    "an error beside": {"choices": [{"message": {"content": "Let us"}, "finish_reason": None}], "error": {"message": "lost"}},
    "a text for an error": {"error": "model is overloaded"},
}  # fmt: skip


@pytest.mark.parametrize("name", IN_A_200)
def test_an_error_inside_a_200_is_a_failed_try(name: str) -> None:
    def script(number: int, body: dict[str, Any]) -> tuple[int, Any, dict[str, str]]:
        return 200, IN_A_200[name] if number == 0 else chat({"content": "4"}), {}

    with serving(scripted(script)) as address:
        [answer] = ask(address, request(endpoint="chat"))
    assert (answer.text, answer.attempts, answer.error) == ("4", 2, None)
    with serving(scripted(lambda n, _: (200, IN_A_200[name], {}))) as address:
        [unanswered] = ask(address, request(endpoint="chat"), attempts=2)
    words = {"an error instead": "429 Provider returned error busy upstream", "finish alone": "502 finish_reason error"}
    assert isinstance(unanswered, Unanswered) and str(unanswered).startswith(words.get(name, ""))


def test_money_that_is_gone_ends_the_job_inside_a_200_too() -> None:
    body = {"error": {"code": 402, "message": "Insufficient credits"}}
    handler = scripted(lambda n, _: (200, body, {}))
    with serving(handler) as address:
        answers = ask(address, *(request(f"{n}", endpoint="chat") for n in range(64)))
    assert all(isinstance(answer, UserError) and "add credit" in answer.fix for answer in answers)
    assert len(handler.requests) <= 16


def picky(body: dict[str, Any]) -> str | None:
    """What a model of today refuses, one parameter a time."""
    for key, words in {
        "max_tokens": "Use 'max_completion_tokens' instead.",
        "temperature": "Only the default is supported.",
        "stop": "It is not supported.",
    }.items():
        if key in body:
            return f"Unsupported parameter: '{key}'. {words}"
    return "System role not supported" if any(one["role"] == "system" for one in body["messages"]) else None


def test_all_keys_that_help_are_named_at_once_and_help(key: None, tmp_path: Path) -> None:
    """The fix of the message, put into the entry as it stands, makes the endpoint answer."""

    def script(number: int, body: dict[str, Any]) -> tuple[int, Any, dict[str, str]]:
        words = picky(body)
        return (400, {"error": {"message": words}}, {}) if words else (200, chat({"content": "4"}), {})

    handler = scripted(script)
    with serving(handler) as address:
        with pytest.raises(UserError) as error:
            drive(address, tmp_path, 5, endpoint="chat", prompt_role="system")
        expected = "set max_tokens_as: max_completion_tokens and omit: [temperature, stop] and prompt_role: user"
        assert error.value.fix == expected and error.value.place == "models.m"
        assert len(handler.requests) <= 16
        settings = yaml.safe_load(error.value.fix.removeprefix("set ").replace(" and ", "\n"))
        assert len(drive(address, tmp_path, 5, **{"endpoint": "chat", **settings})) == 5


def test_what_is_in_flight_is_taken_before_a_fault_ends_the_job(key: None, tmp_path: Path) -> None:
    """The first request finds that money is gone while others are being answered: those are on file."""
    go_on = threading.Event()

    def script(number: int, body: dict[str, Any]) -> tuple[int, Any, dict[str, str]]:
        if "3+1?" in body["prompt"]:
            threading.Timer(0.5, go_on.set).start()
            return 402, {"error": {"message": "Insufficient credits"}}, {}
        go_on.wait(10)
        return 200, completion("4"), {}

    handler = scripted(script)
    with serving(handler) as address, pytest.raises(UserError, match="402"):
        drive(address, tmp_path, 40, concurrency=6)
    kept = len(load_journal_answers(tmp_path / "journal.jsonl", FinishedRequest))
    assert kept == len(handler.requests) - 1 <= 6


def test_a_probe_is_in_the_ledger_and_never_sent_where_everything_is_on_file(key: None, tmp_path: Path) -> None:
    def script(number: int, body: dict[str, Any]) -> tuple[int, Any, dict[str, str]]:
        bad = "3+1?" in body["prompt"] or number == 0
        return (400, {"error": {"message": "Nope."}}, {}) if bad else (200, completion("4"), {})

    handler = scripted(script)
    with serving(handler) as address:
        drive(address, tmp_path, 5, concurrency=1)
        sent = len(handler.requests)
        [line] = (tmp_path / "journal.ledger").read_text().splitlines()
        assert sent == 6 and json.loads(line)["requests"] == 6, "five items and one probe"
        drive(address, tmp_path, 5, concurrency=1)
        assert len(handler.requests) == sent


def test_an_empty_turn_goes_back_as_the_provider_takes_it(key: None, tmp_path: Path) -> None:
    """A provider that refuses empty turns is sent a note instead, and the conversation comes to its end."""
    empty = "messages.1: all messages must have non-empty content"

    def script(number: int, body: dict[str, Any]) -> tuple[int, Any, dict[str, str]]:
        if any(not message["content"] for message in body["messages"]):
            return 400, {"error": {"message": empty}}, {}
        return 200, chat({"content": "" if len(body["messages"]) == 1 else "4"}), {}

    loaded, item = work(1)[0]
    two = loaded.model_copy(update={"templates": ["First {{ question }}", "Then?"]})

    def run() -> list[Reply]:
        paths = [tmp_path / name for name in ("j.jsonl", "s.log", "o.jsonl", "p.jsonl")]
        files = JobFiles(None, *paths[:2])
        ask_tutor("m", hosted(address, endpoint="chat"), [(two, item)], RequestLimits(8, 1), files, *paths[2:])
        return read_records(tmp_path / "o.jsonl", Reply)

    handler = scripted(script)
    with serving(handler) as address:
        [reply] = run()
        sent = len(handler.requests)
        assert (reply.error, [turn.text for turn in reply.turns]) == (None, ["", "4"])
        assert handler.requests[-1][2]["messages"][1]["content"] == "(no answer)"
        assert run() == [reply] and len(handler.requests) == sent, "everything is on file"
