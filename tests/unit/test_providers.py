"""Refusals of real providers, each with the thread or page that it comes from: a run ends in numbers, or in one line
whose fix works when it is followed.
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
PREFILLED = "assistant"


class Endpoint:
    """A scripted endpoint that refuses as a provider does, until what it refuses is no longer sent."""

    def __init__(self, quirk: dict[str, Any]) -> None:
        self.quirk, self.paid, self.number = quirk, False, 0
        self.handler = scripted(self.answer, ["served", "other"])

    def refuses(self, body: dict[str, Any]) -> bool:
        """Return whether a request has what this provider refuses."""
        [(kind, value)] = self.quirk["when"].items()
        messages = body.get("messages", [{"role": "user", "content": body.get("prompt", "")}])
        bound = max(body.get("max_tokens") or 0, body.get("max_completion_tokens") or 0)
        return {
            "sends": lambda: value in body,
            "model": lambda: body["model"] == value,
            "last": lambda: messages[-1]["role"] == value,
            "prompt": lambda: value in messages[-1]["content"],
            "path": lambda: "messages" in body,
            "over": lambda: bound > value,
            "key": lambda: not self.paid,
            "money": lambda: not self.paid,
            "first": lambda: self.number <= value,
        }[kind]()

    def answer(self, number: int, body: dict[str, Any]) -> tuple[int, Any, dict[str, str]]:
        self.number += 1
        if self.refuses(body):
            return self.quirk["status"], self.quirk["body"], {}
        return 200, chat({"content": "4"}) if "messages" in body else completion("4"), {}


def items(quirk: dict[str, Any]) -> list[Any]:
    """Items of a real card; one in four is what a provider refuses by its content."""
    loaded = read_card(CARDS / "mathtutorbench/problem_solving.yaml")
    more: dict[str, Any] = {}
    if "last" in quirk["when"]:
        more = {"speaker": "assistant", "history": [{"role": "user", "content": "Hello."}]}
        loaded = loaded.model_copy(update={"card": loaded.card.model_copy(update={"role": None})})
    return [
        (loaded, Item(id=f"i{n}", task="problem_solving", cluster=f"c{n}", vars={"question": f"{n} {'bad' * (n % 4 == 0)}"}, reference={}, **more))
        for n in range(COUNT)
    ]  # fmt: skip


def drive(address: str, folder: Path, quirk: dict[str, Any], **fix: Any) -> list[Reply]:
    """Run the driver with an entry, and what a fix sets in it."""
    entry = {
        "engine": "hosted",
        "base_url": f"{address}/v1",
        "model": "m",
        "key_env": "TEST_KEY",
        "attempts": 6,
        "endpoint": "chat",
    }
    model = HostedModel.model_validate({**entry, **quirk.get("entry", {}), **fix})
    paths = [folder / name for name in ("journal.jsonl", "server.log", "out.jsonl", "prompts.jsonl")]
    ask_tutor("m", model, items(quirk), RequestLimits(None, 1), JobFiles(None, *paths[:2]), *paths[2:])
    return read_records(paths[2], Reply)


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TEST_KEY", "a-key-of-a-test-1234")
    monkeypatch.setattr(client, "FIRST_WAIT", 0.01)
    monkeypatch.setattr(client, "LONGEST_WAIT", 0.02)


@pytest.mark.parametrize("quirk", QUIRKS, ids=[f"{one['provider']}: {str(one['body'])[:60]}" for one in QUIRKS])
def test_a_run_ends_in_numbers_or_in_a_line_whose_fix_works(quirk: dict[str, Any], tmp_path: Path) -> None:
    assert quirk["source"].startswith("https://")
    endpoint = Endpoint(quirk)
    with serving(endpoint.handler) as address:
        if quirk["whose"] != "all":
            replies = drive(address, tmp_path, quirk)
            refused = [bool(reply.error) for reply in replies]
            assert refused == [quirk["whose"] == "one" and number % 4 == 0 for number in range(COUNT)]
            return
        with pytest.raises(UserError) as error:
            drive(address, tmp_path, quirk)
        assert len(endpoint.handler.requests) <= 16, "requests in vain"
        fix, settings = quirk["fix"], {}
        if isinstance(fix, str):
            assert fix in error.value.fix, error.value.fix
            endpoint.paid = True
        elif "model" in fix:
            assert error.value.fix == "set model to one that the endpoint lists: other, served"
            settings = fix
        else:
            settings = yaml.safe_load(error.value.fix.removeprefix("set ").replace(" and ", "\n"))  # a line each
            assert settings == fix, error.value.fix
        assert len(error.value.line) < 600 and "\n" not in error.value.line
        replies = drive(address, tmp_path, quirk, **settings)
        assert len(replies) == COUNT and not any(reply.error for reply in replies)


REMEDIES: list[tuple[str, dict[str, Any], str]] = [
    # an entry's own field, named by chance or in passing
    ("Provider returned error: 'temperature' is not supported", {"extra_body": {"provider": {"order": ["x"]}}}, "omit: [temperature]"),
    ("'temperature' is not supported when reasoning_effort is not 'none'", {"thinking": "low", "thinking_as": "reasoning_effort"}, "omit: [temperature]"),
    ("Unsupported parameter: reasoning_effort", {"thinking": "low", "thinking_as": "reasoning_effort"}, "thinking: null"),
    ("Unsupported parameter: reasoning_effort", {"extra_body": {"reasoning_effort": "low"}}, "extra_body: {}"),
    ("top_k: Extra inputs are not permitted", {"extra_body": {"top_k": 1, "min_p": 0.1}}, "extra_body: {min_p: 0.1}"),
    # a bound that is too large is no unknown name
    ("invalid_value max_completion_tokens is too large: 50000. This model supports at most 16384", {"max_tokens_as": "max_completion_tokens"}, "max_tokens: 16384"),
    ("Invalid 'max_completion_tokens': integer above maximum value. Expected a value <= 16384, but got 50000", {"max_tokens_as": "max_completion_tokens"}, "max_tokens: 16384"),
    ("Model grok-4: the parameter 'stop' is not supported.", {}, "omit: [stop]"),
    ("`max_tokens` must be greater than `thinking.budget_tokens`", {"thinking": 2048, "thinking_as": "anthropic"}, "thinking_tokens: 2048"),
]  # fmt: skip


@pytest.mark.parametrize(("words", "entry", "fix"), REMEDIES)
def test_a_remedy_is_the_key_that_the_words_are_about(
    words: str, entry: dict[str, Any], fix: str, tmp_path: Path
) -> None:
    quirk = {"when": {"key": True}, "entry": entry}
    handler = scripted(lambda n, body: (400, {"error": {"message": words}}, {}))
    with serving(handler) as address, pytest.raises(UserError) as error:
        drive(address, tmp_path, quirk)
    assert error.value.fix.startswith(f"set {fix}")


def test_a_413_that_holds_for_every_request_ends_the_job(tmp_path: Path) -> None:
    """Groq counts max_tokens: with a large bound no request is small enough."""
    [quirk] = [one for one in QUIRKS if one["status"] == 413]
    handler = scripted(lambda n, body: (413, quirk["body"], {}))
    with serving(handler) as address, pytest.raises(UserError, match="413"):
        drive(address, tmp_path, {**quirk, "entry": {"thinking_tokens": 8192}})
    assert len(handler.requests) <= 16


SAME = [
    ("gpt-4o", "gpt-4o-2024-08-06", True), ("claude-3-5-sonnet-latest", "claude-3-5-sonnet-20241022", True), ("m", "m:latest", True),
    ("mistral-large-latest", "mistral-large-2512", True), ("gemini-2.0-flash", "models/gemini-2.0-flash-001", True),
    ("gpt-4", "gpt-4-0613", True), ("org/m", "M", True), ("m:free", "m", True), ("gpt-5", "gpt-5.4", False), ("gpt-4", "gpt-4.1", False),
    ("gpt-4o", "gpt-4o-mini", False), ("claude-opus-4", "claude-opus-4-5", False), ("llama-70b", "llama-8b", False),
]  # fmt: skip


@pytest.mark.parametrize(("asked", "answered", "same"), SAME)
def test_a_snapshot_is_the_asked_model_and_another_version_is_not(asked: str, answered: str, same: bool) -> None:
    assert silent_changes.is_same_model(asked, answered) is same is silent_changes.is_same_model(answered, asked)


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
    said = {"model": "gpt-4o-2024-08-06", "choices": [{"text": "4"}]}
    answer = client.Answer("4", None, None, 1, 1, 0.0, 1)
    for named in (True, False):
        watcher = silent_changes.SilentChangeWatcher(named)
        assert bool(watcher.check_answer({"messages": []}, {"model": "our-deployment"}, said, answer)) is named


def test_eight_providers_are_there_each_with_its_source() -> None:
    assert len({one["provider"] for one in QUIRKS}) >= 8 and len(QUIRKS) >= 24


# silent changes -------------------------------------------------------------------------------------------------------

LONG = "The student adds one and two and writes four. " * 100  # 900 words
SILENT: dict[str, tuple[dict[str, Any], dict[str, Any], str | None]] = {
    # https://github.com/ollama/ollama/issues/3839
    "a prompt that is cut": ({}, {"prompt_tokens": 512}, "a prompt of 900 words was read as 512 tokens, so it was cut"),
    "a prompt that is whole": ({}, {"prompt_tokens": 1030}, None),
    "nothing but what a cache lacked": ({}, {"prompt_tokens": 20}, None),
    "another model": (
        {"model": "llama-3.1-8b-instant"},
        {},
        "llama-3.1-8b-instant answers where m is asked: set model",
    ),
    "a dated snapshot": ({"model": "m-2024-08-06"}, {}, None),
    "a tag": ({"model": "m:latest"}, {}, None),
    "its folder": ({"model": "org/m"}, {}, None),
    "a smaller one": ({"model": "m-mini"}, {}, "m-mini answers where m is asked"),
    "ignored stop": ({"content": "4\nQuestion: 5?"}, {}, "the endpoint ignores stop: set omit: [stop]"),
    "a stop at its end": ({"content": "4\n"}, {}, None),
    "ignored max_tokens": ({}, {"completion_tokens": 900}, "set max_tokens_as: max_completion_tokens"),
    "thinking besides": ({}, {"completion_tokens": 900, "completion_tokens_details": {"reasoning_tokens": 890}}, None),
}


@pytest.mark.parametrize("name", SILENT)
def test_what_an_endpoint_changes_in_silence_is_found_once(
    name: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    changed, usage, told = SILENT[name]

    def answer(number: int, body: dict[str, Any]) -> tuple[int, Any, dict[str, str]]:
        said = chat({"content": changed.get("content", "4")})
        return 200, {**said, "model": changed.get("model", "m"), "usage": {"prompt_tokens": 950, **usage}}, {}

    loaded = read_card(CARDS / "mathtutorbench/problem_solving.yaml")
    loaded = loaded.model_copy(update={"templates": [LONG]})
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
    kept, warned = list(json.loads(line)["unheeded"].values()), [one.getMessage() for one in caplog.records]
    assert len(kept) == (told is not None)
    if told is not None:
        assert told in kept[0] and sum(kept[0] in words for words in warned) == 1


def test_the_first_answers_are_looked_at_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    watcher, answer = silent_changes.SilentChangeWatcher(), client.Answer("4", None, None, 1, 1, 0.0, 1)
    monkeypatch.setattr(silent_changes, "CHECKED_ANSWERS", 2)
    other = {"model": "other", "choices": [{"text": "4"}]}
    same = {**other, "model": "m"}
    request: dict[str, Any] = {"messages": [{"role": "user", "content": "?"}]}
    told = [watcher.check_answer(request, {"model": "m"}, said, answer) for said in (same, same, other)]
    assert told == [[], [], []]
