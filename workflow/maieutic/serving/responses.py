"""Adapter for OpenAI's Responses API, the only endpoint of some models (o3 Pro).

Requests are built and stored in the form of chat completions. This module converts requests to the form of the
Responses API, and the answers back to chat completions.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from maieutic.serving.answers import Answer, MalformedAnswer, NoCandidate, parse_completion

NAMES = {"messages": "input", "max_tokens": "max_output_tokens"}
PARTS = {"text": "input_text", "image_url": "input_image"}
FINISHES = {"max_output_tokens": "length", "content_filter": "content_filter"}


def as_response_request(body: dict[str, Any]) -> dict[str, Any]:
    """Convert a chat request's body for the Responses API. It has no stop strings, so answers are cut afterwards."""
    sent = {NAMES.get(name, name): value for name, value in body.items() if name not in {"stop", "response_format"}}
    sent["input"] = [{**message, "content": convert_content(message["content"])} for message in sent["input"]]
    if form := body.get("response_format"):
        sent["text"] = {"format": {"type": form["type"], **form["json_schema"]}}
    return {**sent, "store": False}


def convert_content(content: Any) -> Any:
    """Convert a message's list of parts to the form of the Responses API. A text is returned unchanged."""
    if isinstance(content, str):
        return content
    return [
        {"type": PARTS[part["type"]], "text": part["text"]}
        if part["type"] == "text"
        else {"type": PARTS[part["type"]], "image_url": part["image_url"]["url"]}
        for part in content
    ]


def parse_reply(
    request: Mapping[str, Any], reply: Any, seconds: float = 0.0, attempt: int = 1
) -> tuple[Answer, dict[str, Any]]:
    """Parse a response of any endpoint. Returns the answer, and the body in the form of a (chat) completion.

    request: its `endpoint` and `stop` are used; reply: parsed JSON of the body; seconds: duration of the request;
    attempt: number of the attempt that was answered. Raises MalformedAnswer for a body without an answer.
    """
    endpoint = request["endpoint"]
    body = as_chat_answer(reply) if endpoint == "responses" else reply
    answer = parse_completion(body, endpoint != "completions", request.get("stop") or [], seconds, attempt)
    return answer, body


def as_chat_answer(reply: Any) -> dict[str, Any]:
    """Convert an answer of the Responses API to a chat completion. Raises MalformedAnswer if it has no text."""
    output = reply.get("output") if isinstance(reply, dict) else None
    items = [item for item in output if isinstance(item, dict)] if isinstance(output, list) else []
    parts = [part for item in items if item.get("type") == "message" for part in object_list(item.get("content"))]
    texts = [part["text"] for part in parts if part.get("type") == "output_text" and isinstance(part.get("text"), str)]
    refusals = [part["refusal"] for part in parts if isinstance(part.get("refusal"), str)]
    incomplete = reply.get("incomplete_details") if isinstance(reply, dict) else None
    reason = incomplete.get("reason") if isinstance(incomplete, dict) else None
    if output == []:
        raise NoCandidate("no output", reply)
    is_thought = bool(items) and all(item.get("type") == "reasoning" for item in items)
    if not (texts or refusals or reason or is_thought):  # with a reason, the answer was cut off during thinking
        raise MalformedAnswer("no output_text")
    thoughts = [part for item in items if item.get("type") == "reasoning" for part in object_list(item.get("summary"))]
    summary = "\n".join(part["text"] for part in thoughts if isinstance(part.get("text"), str))
    message = {"content": "".join(texts or refusals) or None, "reasoning": summary}
    return {
        "choices": [{"message": message, "finish_reason": FINISHES.get(str(reason), reason) if reason else "stop"}],
        "usage": reply.get("usage"),
    }


def object_list(value: Any) -> list[dict[str, Any]]:
    """Return the JSON objects in a list, or an empty list if the value is not a list."""
    return [part for part in value if isinstance(part, dict)] if isinstance(value, list) else []
