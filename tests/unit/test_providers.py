"""Refusals by real providers, each with the page that documents it: the fix that the error message names works.

Also tests of silent changes by endpoints: shortened prompts, other models, ignored parameters.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from httpserver import chat, completion, scripted, serving
from maieutic.config.cards import CARDS, read_card
from maieutic.config.models import HostedModel
from maieutic.core.errors import UserError
from maieutic.core.records import Item, Reply, read_records
from maieutic.replies.generate import RequestLimits, ask_tutor
from maieutic.serving import client, silent_changes
from maieutic.serving.backends import JobFiles

QUIRKS = json.loads((Path(__file__).parents[1] / "tables/provider_quirks.json").read_text(encoding="utf-8"))
COUNT = 24


class Endpoint:
    """A scripted endpoint that refuses requests as a provider does, until they no longer contain what it refuses."""

    def __init__(self, quirk: dict[str, Any]) -> None:
        self.quirk, self.paid, self.number = quirk, False, 0
        self.handler = scripted(self.answer, ["served", "other"])

    def refuses(self, body: dict[str, Any]) -> bool:
        """Return True if the provider refuses the request."""
        [(kind, value)] = self.quirk["when"].items()
        messages = body.get("messages", [{"role": "user", "content": body.get("prompt", "")}])
        limit = max(body.get("max_tokens") or 0, body.get("max_completion_tokens") or 0)
        return {
            "sends": lambda: value in body, "model": lambda: body["model"] == value,
            "last": lambda: messages[-1]["role"] == value, "prompt": lambda: value in messages[-1]["content"],
            "path": lambda: "messages" in body, "over": lambda: limit > value, "key": lambda: not self.paid,
            "money": lambda: not self.paid, "first": lambda: self.number <= value,
        }[kind]()  # fmt: skip

    def answer(self, number: int, body: dict[str, Any]) -> tuple[int, Any, dict[str, str]]:
        self.number += 1
        if self.refuses(body):
            return self.quirk["status"], self.quirk["body"], {}
        return 200, chat({"content": "4"}) if "messages" in body else completion("4"), {}


def make_items(quirk: dict[str, Any]) -> list[Any]:
    """Return items of a real card. The provider's content filter refuses one in four, which contain "bad"."""
    loaded = read_card(CARDS / "mathtutorbench/problem_solving.yaml")
    more: dict[str, Any] = {}
    if "last" in quirk["when"]:
        more = {"speaker": "assistant", "history": [{"role": "user", "content": "Hello."}]}
        loaded = loaded.model_copy(update={"card": loaded.card.model_copy(update={"role": None})})
    return [
        (loaded, Item(id=f"i{n}", task="problem_solving", cluster=f"c{n}", vars={"question": f"{n} {'bad' * (n % 4 == 0)}"}, reference={}, **more))
        for n in range(COUNT)
    ]  # fmt: skip


def ask_all(address: str, folder: Path, quirk: dict[str, Any], **fix: Any) -> list[Reply]:
    """Ask a tutor at the endpoint for all replies. fix: keys that override the registry entry."""
    entry = {
        "engine": "hosted", "base_url": f"{address}/v1", "model": "m", "key_env": "TEST_KEY", "attempts": 6,
        "endpoint": "chat",
    }  # fmt: skip
    model = HostedModel.model_validate({**entry, **quirk.get("entry", {}), **fix})
    paths = [folder / name for name in ("journal.jsonl", "server.log", "out.jsonl", "prompts.jsonl")]
    ask_tutor("m", model, make_items(quirk), RequestLimits(None, 1), JobFiles(None, *paths[:2]), *paths[2:])
    return read_records(paths[2], Reply)


@pytest.fixture(autouse=True)
def short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Set an API key, and make all waits short, also those that a provider asks for."""
    monkeypatch.setenv("TEST_KEY", "a-key-of-a-test-1234")
    monkeypatch.setattr(client, "FIRST_WAIT", 0.01)
    monkeypatch.setattr(client, "LONGEST_WAIT", 0.02)
    monkeypatch.setattr(client.RateLimitGate, "close_for", lambda self, seconds: False)


@pytest.mark.parametrize("quirk", QUIRKS, ids=[f"{quirk['provider']}: {str(quirk['body'])[:60]}" for quirk in QUIRKS])
def test_a_run_succeeds_or_ends_with_an_error_whose_fix_works(quirk: dict[str, Any], tmp_path: Path) -> None:
    assert quirk["source"].startswith("https://")
    endpoint = Endpoint(quirk)
    with serving(endpoint.handler) as address:
        if quirk["whose"] != "all":
            replies = ask_all(address, tmp_path, quirk)
            refused = [bool(reply.error) for reply in replies]
            assert refused == [quirk["whose"] == "one" and number % 4 == 0 for number in range(COUNT)]
            return
        with pytest.raises(UserError) as error:
            ask_all(address, tmp_path, quirk)
        assert len(endpoint.handler.requests) <= 16, "few requests are sent in vain"
        fix, settings = quirk["fix"], {}
        if isinstance(fix, str):
            assert fix in error.value.fix, error.value.fix
            endpoint.paid = True
        elif "model" in fix:
            assert error.value.fix == "set model to one that the endpoint lists: other, served"
            settings = fix
        else:
            settings = yaml.safe_load(error.value.fix.removeprefix("set ").replace(" and ", "\n"))  # one key a line
            assert settings == fix, error.value.fix
        assert len(error.value.line) < 600 and "\n" not in error.value.line
        replies = ask_all(address, tmp_path, quirk, **settings)
        assert len(replies) == COUNT and not any(reply.error for reply in replies)


REMEDIES: list[tuple[str, dict[str, Any], str]] = [
    # the message mentions a field of the entry that is not at fault
    ("Provider returned error: 'temperature' is not supported", {"extra_body": {"provider": {"order": ["x"]}}}, "omit: [temperature]"),
    ("'temperature' is not supported when reasoning_effort is not 'none'", {"thinking": "low", "thinking_as": "reasoning_effort"}, "omit: [temperature]"),
    ("Unsupported parameter: reasoning_effort", {"thinking": "low", "thinking_as": "reasoning_effort"}, "thinking: null"),
    ("Unsupported parameter: reasoning_effort", {"extra_body": {"reasoning_effort": "low"}}, "extra_body: {}"),
    ("top_k: Extra inputs are not permitted", {"extra_body": {"top_k": 1, "min_p": 0.1}}, "extra_body: {min_p: 0.1}"),
    # a limit that is too large must not be taken for an unknown field
    ("invalid_value max_completion_tokens is too large: 50000. This model supports at most 16384", {"max_tokens_as": "max_completion_tokens"}, "max_tokens: 16384"),
    ("Invalid 'max_completion_tokens': integer above maximum value. Expected a value <= 16384, but got 50000", {"max_tokens_as": "max_completion_tokens"}, "max_tokens: 16384"),
    ("Model grok-4: the parameter 'stop' is not supported.", {}, "omit: [stop]"),
    ("`max_tokens` must be greater than `thinking.budget_tokens`", {"thinking": 2048, "thinking_as": "anthropic"}, "thinking_tokens: 2048"),
]  # fmt: skip


@pytest.mark.parametrize(("message", "entry", "fix"), REMEDIES)
def test_a_remedy_is_the_key_that_the_message_is_about(
    message: str, entry: dict[str, Any], fix: str, tmp_path: Path
) -> None:
    quirk = {"when": {"key": True}, "entry": entry}
    handler = scripted(lambda n, body: (400, {"error": {"message": message}}, {}))
    with serving(handler) as address, pytest.raises(UserError) as error:
        ask_all(address, tmp_path, quirk)
    assert error.value.fix.startswith(f"set {fix}")


def test_a_413_that_holds_for_every_request_ends_the_job(tmp_path: Path) -> None:
    """Groq counts max_tokens as part of a request's size: with a large limit, every request is too large."""
    [quirk] = [quirk for quirk in QUIRKS if quirk["status"] == 413]
    handler = scripted(lambda n, body: (413, quirk["body"], {}))
    with serving(handler) as address, pytest.raises(UserError, match="413"):
        ask_all(address, tmp_path, {**quirk, "entry": {"thinking_tokens": 8192}})
    assert len(handler.requests) <= 16


MODEL_NAMES = [
    ("gpt-4o", "gpt-4o-2024-08-06", True), ("claude-3-5-sonnet-latest", "claude-3-5-sonnet-20241022", True), ("m", "m:latest", True),
    ("mistral-large-latest", "mistral-large-2512", True), ("gemini-2.0-flash", "models/gemini-2.0-flash-001", True),
    ("gpt-4", "gpt-4-0613", True), ("org/m", "M", True), ("m:free", "m", True), ("gpt-5", "gpt-5.4", False), ("gpt-4", "gpt-4.1", False),
    ("gpt-4o", "gpt-4o-mini", False), ("claude-opus-4", "claude-opus-4-5", False), ("llama-70b", "llama-8b", False),
]  # fmt: skip


@pytest.mark.parametrize(("requested", "returned", "same"), MODEL_NAMES)
def test_a_snapshot_is_the_requested_model_and_another_version_is_not(
    requested: str, returned: str, same: bool
) -> None:
    assert (
        silent_changes.is_same_model(requested, returned) is same is silent_changes.is_same_model(returned, requested)
    )


@pytest.mark.parametrize("sent", [{"stop": "zW"}, {"max_tokens": None}, {"stop": 7}])
def test_an_odd_request_costs_no_answer(sent: dict[str, Any]) -> None:
    watcher, answer = silent_changes.SilentChangeWatcher(), client.Answer("4", None, None, 900, 900, 0.0, 1)
    request: dict[str, Any] = {"messages": [{"role": "user", "content": "?"}], "endpoint": "chat"}
    assert (
        watcher.check_answer(
            request, {"model": "m", **sent}, {"model": "m", "choices": [{"message": {"content": "4z"}}]}, answer
        )
        == []
    )


def test_azure_answers_under_another_name_than_its_deployment(tmp_path: Path) -> None:
    reply = {"model": "gpt-4o-2024-08-06", "choices": [{"text": "4"}]}
    answer = client.Answer("4", None, None, 1, 1, 0.0, 1)
    for names_models in (True, False):
        watcher = silent_changes.SilentChangeWatcher(names_models)
        changes = watcher.check_answer({"messages": []}, {"model": "our-deployment"}, reply, answer)
        assert bool(changes) is names_models


# silent changes -------------------------------------------------------------------------------------------------------

LONG_TEMPLATE = "The student adds one and two and writes four. " * 100  # 900 words
SILENT_CHANGES: dict[str, tuple[dict[str, Any], dict[str, Any], str | None]] = {
    # https://github.com/ollama/ollama/issues/3839
    "cut prompt": ({}, {"prompt_tokens": 512}, "a prompt of 900 words was read as 512 tokens, so it was cut"),
    "whole prompt": ({}, {"prompt_tokens": 1030}, None),
    "cached tokens not counted": ({}, {"prompt_tokens": 20}, None),
    "another model": ({"model": "llama-3.1-8b-instant"}, {}, "llama-3.1-8b-instant answers requests for m: set model"),
    "dated snapshot": ({"model": "m-2024-08-06"}, {}, None),
    "tag": ({"model": "m:latest"}, {}, None),
    "folder": ({"model": "org/m"}, {}, None),
    "smaller model": ({"model": "m-mini"}, {}, "m-mini answers requests for m"),
    "ignored stop": ({"content": "4\nQuestion: 5?"}, {}, "the endpoint ignores stop: set omit: [stop]"),
    "stop string at the end": ({"content": "4\n"}, {}, None),
    "ignored max_tokens": ({}, {"completion_tokens": 900}, "set max_tokens_as: max_completion_tokens"),
    "thinking tokens": ({}, {"completion_tokens": 900, "completion_tokens_details": {"reasoning_tokens": 890}}, None),
}


@pytest.mark.parametrize("name", SILENT_CHANGES)
def test_a_silent_change_of_an_endpoint_is_reported_once(
    name: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    changed, usage, warning = SILENT_CHANGES[name]

    def answer(number: int, body: dict[str, Any]) -> tuple[int, Any, dict[str, str]]:
        reply = chat({"content": changed.get("content", "4")})
        return 200, {**reply, "model": changed.get("model", "m"), "usage": {"prompt_tokens": 950, **usage}}, {}

    loaded = read_card(CARDS / "mathtutorbench/problem_solving.yaml")
    loaded = loaded.model_copy(update={"templates": [LONG_TEMPLATE]})
    loaded = loaded.model_copy(update={"card": loaded.card.model_copy(update={"stop": ["\n"], "max_tokens": 500})})
    work = [
        (loaded, Item(id=f"i{n}", task="problem_solving", cluster="c", vars={"question": "?"}, reference={}))
        for n in range(5)
    ]
    with serving(scripted(answer)) as address:
        entry = {"engine": "hosted", "base_url": f"{address}/v1", "model": "m", "endpoint": "chat"}
        paths = [tmp_path / name for name in ("journal.jsonl", "server.log", "out.jsonl", "prompts.jsonl")]
        ask_tutor(
            "m", HostedModel.model_validate(entry), work, RequestLimits(None, 1), JobFiles(None, *paths[:2]), *paths[2:]
        )
    [line] = (tmp_path / "journal.ledger").read_text(encoding="utf-8").splitlines()
    recorded = list(json.loads(line)["unheeded"].values())
    messages = [record.getMessage() for record in caplog.records]
    assert len(recorded) == (warning is not None)
    if warning is not None:
        assert warning in recorded[0] and sum(recorded[0] in message for message in messages) == 1
