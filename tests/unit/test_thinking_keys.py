"""Tests of an entry's `thinking`: request fields for each endpoint, token limits, request keys and cached tokens."""

from __future__ import annotations

from typing import Any

import pytest
from maieutic.config.models import HostedModel, Price, VllmModel
from maieutic.serving.backends import hosted_identity
from pydantic import ValidationError
from run_configs import HOSTED

ADDRESSES = {
    "openai": "https://api.openai.com/v1", "google": "https://generativelanguage.googleapis.com/v1beta/openai",
    "mistral": "https://api.mistral.ai/v1", "anthropic": "https://api.anthropic.com/v1",
    "other": "https://models.example.org/v1",
}  # fmt: skip
REQUEST_FIELDS: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
    ("openai", {"thinking": False}, {"reasoning_effort": "none"}),
    ("openai", {"thinking": "high"}, {"reasoning_effort": "high"}),
    ("openai", {"thinking": "low", "endpoint": "responses"}, {"reasoning": {"effort": "low"}}),
    ("google", {"thinking": "low"}, {"reasoning_effort": "low"}),
    ("mistral", {"thinking": False}, {"reasoning_effort": "none"}),
    ("anthropic", {"thinking": 2048}, {"thinking": {"type": "enabled", "budget_tokens": 2048}}),
    ("anthropic", {"thinking": False}, {"thinking": {"type": "disabled"}}),
    ("anthropic", {"thinking": True}, {"thinking": {"type": "adaptive"}}),
    ("anthropic", {"thinking": "max"}, {"thinking": {"type": "adaptive"}, "output_config": {"effort": "max"}}),
    ("other", {"thinking": False, "thinking_as": "chat_template"}, {"chat_template_kwargs": {"enable_thinking": False}}),
    ("other", {"thinking": "low", "thinking_as": "reasoning_effort"}, {"reasoning_effort": "low"}),
    ("openai", {"thinking": "low", "extra_body": {"reasoning_effort": "high"}}, {"reasoning_effort": "high"}),
    ("other", {}, {}),
]  # fmt: skip
REFUSED = [
    ("openai", {"thinking": 2048}, "expected an effort"), ("openai", {"thinking": True}, "found true"),
    ("other", {"thinking": "low"}, "set thinking_as"), ("anthropic", {"thinking": -1}, "greater than or equal to 1"),
    ("openai", {"thinking": "much"}, "'minimal', 'low'"),
]  # fmt: skip


def hosted(provider: str, **keys: Any) -> HostedModel:
    return HostedModel.model_validate({**HOSTED, "base_url": ADDRESSES[provider], **keys})


@pytest.mark.parametrize(("provider", "keys", "fields"), REQUEST_FIELDS)
def test_thinking_is_asked_for_in_the_endpoints_words(
    provider: str, keys: dict[str, Any], fields: dict[str, Any]
) -> None:
    model = hosted(provider, **keys)
    assert model.extra_fields == fields == hosted_identity(model)["extra_body"]


@pytest.mark.parametrize(("provider", "keys", "problem"), REFUSED)
def test_thinking_that_an_endpoint_does_not_offer_is_refused(provider: str, keys: dict[str, Any], problem: str) -> None:
    with pytest.raises(ValidationError, match=problem):
        hosted(provider, **keys)


def test_thinking_of_a_served_model_is_set_by_its_chat_template() -> None:
    model = VllmModel.model_validate({"engine": "vllm", "weights": {"path": "x"}, "thinking": True})
    assert model.extra_fields == {"chat_template_kwargs": {"enable_thinking": True}}


def test_thinking_is_added_to_the_bound_of_an_answer() -> None:
    model = hosted("openai", thinking_tokens=4000, max_tokens=300)
    assert model.token_limit(512, None) == 4300 and model.token_limit(200, 250) == 4200
    assert hosted("openai").token_limit(512) == 512


def test_cached_tokens_have_their_own_price() -> None:
    price = Price(input=2, output=10, cached=0.5)
    assert price.usd(1e6, 1e6) == 12 and price.usd(1e6, 0, 4e5) == pytest.approx(1.2 + 0.2)
    assert Price(input=2, output=10).usd(1e6, 0, 4e5) == 2
