"""Request fields for the model key `thinking`, in the format of each kind of endpoint."""

from __future__ import annotations

from typing import Any, Literal
from urllib.parse import urlsplit

Effort = Literal["minimal", "low", "medium", "high", "xhigh", "max"]
Dialect = Literal["reasoning_effort", "anthropic", "chat_template"]

# Request format of each host, from these pages, read on 2026-11-27. No format was tested against its host.
# https://developers.openai.com/api/docs/guides/reasoning
# https://ai.google.dev/gemini-api/docs/openai
# https://docs.mistral.ai/capabilities/reasoning/adjustable
# https://platform.claude.com/docs/en/api/openai-sdk, .../about-claude/models/migration-guide
DIALECTS: dict[str, Dialect] = {
    "api.openai.com": "reasoning_effort",
    "generativelanguage.googleapis.com": "reasoning_effort",
    "api.mistral.ai": "reasoning_effort",
    "api.anthropic.com": "anthropic",
}


def dialect_of(base_url: str | None) -> Dialect | None:
    """Return the request format of an endpoint, or None if its host is unknown. base_url: None for a vLLM server."""
    return "chat_template" if base_url is None else DIALECTS.get(urlsplit(base_url).hostname or "")


def thinking_fields(
    thinking: bool | Effort | int | None, dialect: Dialect | None, endpoint: str | None
) -> dict[str, Any]:
    """Return the request fields that turn thinking on or off, or set its effort or token budget.

    Raises ValueError if the endpoint's format is unknown or does not support the value.
    """
    if thinking is None:
        return {}
    if dialect is None:
        raise ValueError("thinking: the format of this endpoint is unknown: set thinking_as, or use extra_body")
    if dialect == "anthropic":
        return anthropic_fields(thinking)
    if isinstance(thinking, int) and not isinstance(thinking, bool):
        raise ValueError("thinking: expected an effort (low, medium, high) for this endpoint, found a number of tokens")
    if dialect == "chat_template" and isinstance(thinking, bool):
        return {"chat_template_kwargs": {"enable_thinking": thinking}}
    if thinking is True:
        raise ValueError("thinking: expected an effort for this endpoint, found true: set low, medium or high")
    effort = thinking or "none"
    return {"reasoning": {"effort": effort}} if endpoint == "responses" else {"reasoning_effort": effort}


def anthropic_fields(thinking: bool | Effort | int) -> dict[str, Any]:
    """Return the thinking fields of a request to an Anthropic model: off, adaptive, an effort, or a token budget."""
    if isinstance(thinking, bool):
        return {"thinking": {"type": "adaptive" if thinking else "disabled"}}
    if isinstance(thinking, int):
        return {"thinking": {"type": "enabled", "budget_tokens": thinking}}
    return {"thinking": {"type": "adaptive"}, "output_config": {"effort": thinking}}
