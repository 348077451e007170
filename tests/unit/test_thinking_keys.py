"""`thinking` of an entry in the words of each endpoint; what it costs in tokens, and in a request's key."""

from __future__ import annotations

from typing import Any

import pytest
from maieutic.config.models import HostedModel, Price, VllmModel
from maieutic.serving.backends import hosted_identity
from pydantic import ValidationError
from run_configs import HOSTED

ADDRESSES = {
    "openai": "https://api.openai.com/v1",
    "google": "https://generativelanguage.googleapis.com/v1beta/openai",
    "mistral": "https://api.mistral.ai/v1",
    "anthropic": "https://api.anthropic.com/v1",
    "other": "https://models.example.org/v1",
}
ASKED: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
    ("openai", {"thinking": False}, {"reasoning_effort": "none"}),
    ("openai", {"thinking": "high"}, {"reasoning_effort": "high"}),
    ("openai", {"thinking": "low", "endpoint": "responses"}, {"reasoning": {"effort": "low"}}),
    ("google", {"thinking": "low"}, {"reasoning_effort": "low"}),
    ("mistral", {"thinking": False}, {"reasoning_effort": "none"}),
    ("anthropic", {"thinking": 2048}, {"thinking": {"type": "enabled", "budget_tokens": 2048}}),
    ("anthropic", {"thinking": False}, {"thinking": {"type": "disabled"}}),
    ("anthropic", {"thinking": True}, {"thinking": {"type": "adaptive"}}),
    ("anthropic", {"thinking": "max"}, {"thinking": {"type": "adaptive"}, "output_config": {"effort": "max"}}),
    (
        "other",
        {"thinking": False, "thinking_as": "chat_template"},
        {"chat_template_kwargs": {"enable_thinking": False}},
    ),
    ("other", {"thinking": "low", "thinking_as": "reasoning_effort"}, {"reasoning_effort": "low"}),
    ("openai", {"thinking": "low", "extra_body": {"reasoning_effort": "high"}}, {"reasoning_effort": "high"}),
    ("other", {}, {}),
]
REFUSED = [
    ("openai", {"thinking": 2048}, "takes an effort"), ("openai", {"thinking": True}, "instead of true"),
    ("other", {"thinking": "low"}, "set thinking_as"), ("anthropic", {"thinking": -1}, "greater than or equal to 1"),
    ("openai", {"thinking": "much"}, "'minimal', 'low'"),
]  # fmt: skip


def hosted(where: str, **keys: Any) -> HostedModel:
    return HostedModel.model_validate({**HOSTED, "base_url": ADDRESSES[where], **keys})


@pytest.mark.parametrize(("where", "keys", "fields"), ASKED)
def test_thinking_is_asked_for_in_the_endpoints_words(where: str, keys: dict[str, Any], fields: dict[str, Any]) -> None:
    model = hosted(where, **keys)
    assert model.extra_fields == fields == hosted_identity(model)["extra_body"]


@pytest.mark.parametrize(("where", "keys", "told"), REFUSED)
def test_what_an_endpoint_has_no_word_for_is_refused(where: str, keys: dict[str, Any], told: str) -> None:
    with pytest.raises(ValidationError, match=told):
        hosted(where, **keys)


def test_a_served_model_takes_it_by_its_chat_template() -> None:
    model = VllmModel.model_validate({"engine": "vllm", "weights": {"path": "x"}, "thinking": True})
    assert model.extra_fields == {"chat_template_kwargs": {"enable_thinking": True}}


def test_thinking_is_added_to_the_bound_of_an_answer() -> None:
    model = hosted("openai", thinking_tokens=4000, max_tokens=300)
    assert (
        model.token_limit(512, None) == 4300
        and model.token_limit(200, 250) == 4200
        and hosted("openai").token_limit(512) == 512
    )


def test_cached_tokens_have_their_own_price() -> None:
    price = Price(input=2, output=10, cached=0.5)
    assert price.usd(1e6, 1e6) == 12 and price.usd(1e6, 0, 4e5) == pytest.approx(1.2 + 0.2)
    assert Price(input=2, output=10).usd(1e6, 0, 4e5) == 2
