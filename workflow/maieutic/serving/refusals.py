"""Parse an endpoint's refusals: message, scope (one request or all), and the change to the registry that fixes them.

Endpoints use the same status for a filtered prompt, an unsupported parameter and an account without credit. Error codes
and known phrases settle the clear cases; in all other cases the client sends a short probe.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Literal, NamedTuple
from urllib.parse import unquote

import yaml

from maieutic.core.secrets import redact
from maieutic.serving.answers import MalformedAnswer, parse_body
from maieutic.serving.waits import Wait, wait_of

SERVER_FAILED = 500  # lowest HTTP status of a server error
LONGEST_MESSAGE = 300
TRANSIENT_STATUS = frozenset({408, 409, 425, 429})
KEY_REFUSED, PAYMENT_REQUIRED, TOO_LARGE = 401, 402, 413
# Error codes that concern one request only, because it is too long or its content is filtered
SINGLE_REQUEST_CODES = frozenset(
    {
        "content_filter",
        "content_policy_violation",
        "context_length_exceeded",
        "data_inspection_failed",
        "image_parse_error",
        "input_too_long",
        "invalid_prompt",
        "moderation_blocked",
        "responsibleaipolicyviolation",
        "safety_check",
        "string_above_max_length",
    }
)
ALL_REQUESTS_CODES = frozenset(
    {
        "access_terminated",
        "account_deactivated",
        "billing_hard_limit_reached",
        "billing_not_active",
        "deployment_not_found",
        "deploymentnotfound",
        "insufficient_quota",
        "invalid_api_key",
        "model_not_available",
        "model_not_found",
        "unsupported_parameter",
    }
)
SINGLE_REQUEST_PHRASES = re.compile(
    r"context.?(?:length|window|size|limit)|maximum context|too many (?:input )?tokens|less than \d+ `?tokens"
    r"|(?:prompt|inputs?|messages?|text|request)\b.{0,80}\b(?:too (?:long|large)|longer than|exceeds?)"
    r"|(?:input|prompt) token count.{0,60}exceeds|exceeds the maximum number of tokens|max_new_tokens`? must be <="
    r"|content.?(?:filter|policy|management)|inappropriate content|content exists risk|violates? our (?:usage )?polic"
    r"|flagged|safety (?:system|check)|moderation|max_tokens must be at least 1",
    re.IGNORECASE,
)
# Phrases about a parameter or an account. If a message contains one, its SINGLE_REQUEST_PHRASES are ignored.
ALL_REQUESTS_PHRASES = re.compile(
    r"unsupported|not supported|unknown parameter|unrecognized|extra inputs|invalid (?:parameter|value|api)|header"
    r"|account|billing|credit|quota|api.?key|max_(?:completion_)?tokens.{0,20}too (?:large|high)",
    re.IGNORECASE,
)
ACCOUNT_PHRASES = re.compile(
    r"insufficient.{0,12}(?:quota|funds?|credits?|balance)|(?:exceeded|over) your (?:current|monthly) quota|billing"
    r"|payment required|credit balance|(?:out of|not enough|no) credits?|balance is (?:too low|insufficient)|hard limit"
    r"|in arrears|arrearage|top.?up|recharge|suspended|have any credits|all available credits|spending limit"
    r"|purchase (?:more )?credits",
    re.IGNORECASE,
)
# Phrases about a rejected API key. Several endpoints reject a key with status 400 instead of 401.
KEY_PHRASES = re.compile(
    r"api[ _%20-]{0,3}key\b.{0,40}\b(?:invalid|incorrect|not valid|not found|missing)"
    r"|\b(?:invalid|incorrect|missing|no)\b.{0,20}\bapi[ _%20-]{0,3}key",
    re.IGNORECASE,
)
WRONG_MODEL_PHRASES = re.compile(
    r"\bmodels?\b.{0,120}\b(?:not found|does not exist|is not (?:available|supported)|no access|not deployed)"
    r"|unable to access .{0,40}\bmodel|no such model|unknown model",
    re.IGNORECASE,
)
RETRY_PHRASES = re.compile(
    r"\bretry (?:in|after)\b|retrydelay|try again (?:in|later)|per (?:minute|second|hour)|\b[rt]p[ms]\b", re.IGNORECASE
)
OVERLOAD_PHRASES = re.compile(
    r"\b(?:is|still|currently) (?:loading|starting|initiali[sz]ing|warming up)|loading model|warming up|overloaded"
    r"|temporarily|rate.?limit|too many requests|at capacity|server (?:is )?busy",
    re.IGNORECASE,
)

Scope = Literal["passing", "one", "all", "unsure"]


# Keys of an error in a body of status 200 without choices, as Qwen, Zhipu, Baidu and others in China write it
CODE_KEYS = frozenset({"code", "error_code", "errcode", "status_code"})
WORD_KEYS = ("message", "msg", "error_msg", "errmsg", "detail")


class Refusal(NamedTuple):
    """Refusal by an endpoint.

    status: HTTP status; codes: error codes in the body, in lower case; message: text on one line with keys redacted, of
    limited length; wait: wait that the response asks for; text: whole text.
    """

    status: int
    codes: frozenset[str]
    message: str
    wait: Wait | None = None
    text: str = ""

    @property
    def words(self) -> str:
        """Status and message, as recorded for a refused request."""
        return f"{self.status}: {self.message}"


def read_refusal(status: int, body: bytes, headers: Mapping[str, str] = MappingProxyType({})) -> Refusal:
    """Parse a response with an error status, in any of the forms that endpoints use."""
    try:
        content = parse_body(body)
    except MalformedAnswer as error:
        # From status 500 on, use an HTML page as the message: a proxy may describe the failure there. Below 500, ignore
        # such a page, because its words could match by chance the phrases that decide the scope.
        content = error.excerpt if status >= SERVER_FAILED else None
    refusal = refusal_in(status, content, headers)
    if 300 <= status < 400 and (place := headers.get("Location")):
        return refusal._replace(message=redact(f"redirect to {place}")[:LONGEST_MESSAGE])
    return refusal


def refusal_in(status: int, content: Any, headers: Mapping[str, str] = MappingProxyType({})) -> Refusal:
    """Return the refusal in a body's JSON, in `error` (OpenAI, Gemini), `detail` (FastAPI) or the body itself."""
    whole = content
    if isinstance(content, list) and content:
        content = content[0]
    outer = content if isinstance(content, dict) else {}
    if isinstance(outer.get("message"), dict):  # Mistral nests FastAPI's fields in `message`
        outer = content = {**outer, **outer["message"]}
    inner = outer.get("error") or outer.get("detail") or outer.get("errors") or content
    if isinstance(inner, list):
        text = "; ".join(map(detail_of, inner))
        fields: Mapping[str, Any] = outer
    elif isinstance(inner, dict):
        raw = inner.get("metadata", {}).get("raw") if isinstance(inner.get("metadata"), dict) else None
        parts = [inner.get("message") or inner.get("msg") or inner.get("detail"), raw]
        text, fields = " ".join(text_or_json(part) for part in parts if part), inner
    else:
        text, fields = text_or_json(inner) if inner else "", outer
    text = unquote(text) if "%20" in text else text
    codes = [fields.get(name) for name in ("code", "type", "status")] + [outer.get("code")]
    inner_error = fields.get("innererror")
    codes += [inner_error.get("code")] if isinstance(inner_error, dict) else []
    named = [code for code in codes if isinstance(code, str) and code]
    if named and named[0].replace("_", " ").lower() not in text.replace("_", " ").lower() and "code" in fields:
        text = f"{named[0]} {text}"
    # A lone surrogate could neither be stored nor printed.
    storable = " ".join(text.encode("utf-8", "replace").decode("utf-8").split())
    message = redact(storable or f"HTTP {status}")[:LONGEST_MESSAGE]
    wait = wait_of(headers, whole, storable) if status in TRANSIENT_STATUS or status >= SERVER_FAILED else None
    return Refusal(status, frozenset(code.lower() for code in named), message, wait, storable)


def detail_of(entry: Any) -> str:
    """Return one error in FastAPI's `detail` as text, such as `body.temperature: Extra inputs are not permitted`."""
    if not isinstance(entry, dict):
        return text_or_json(entry)
    place = entry.get("loc")
    where = ".".join(map(str, place)) if isinstance(place, list) else ""
    return (
        f"{where}: {entry.get('msg') or entry.get('message') or text_or_json(entry)}" if where else text_or_json(entry)
    )


def text_or_json(value: Any) -> str:
    """Return a string unchanged, and any other value as JSON."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def error_in(content: Any) -> Refusal | None:
    """Return the error in a body with status 200 (an `error` object, or a choice that ended with an error), or None.

    The status of the result is the provider's error code if that is an HTTP error status, otherwise 502.
    """
    if not isinstance(content, dict):
        return None
    choices = content.get("choices")
    choice = choices[0] if isinstance(choices, list) and choices and isinstance(choices[0], dict) else {}
    outer = content.get("error")
    if isinstance(outer, str) and choice.get("finish_reason") == "stop":
        outer = None  # a remark beside a whole answer
    error = choice.get("error") or outer
    if not error and not choice and not {"choices", "output"} & content.keys():
        named = CODE_KEYS & content.keys()
        words = next((content[name] for name in WORD_KEYS if isinstance(content.get(name), str)), None)
        error = {"message": words, "code": content[min(named)]} if named and words else None
    if not error and choice.get("finish_reason") != "error":
        return None
    code = error.get("code") if isinstance(error, dict) else None
    status = int(str(code)) if str(code).isdigit() and 400 <= int(str(code)) < 600 else 502
    return refusal_in(status, {"error": error or "finish_reason error"})


def scope_of(refusal: Refusal) -> Scope:
    """Return the scope of a refusal: `passing` (retry), `one` (this request), `all` (every request), or `unsure`."""
    status, codes, text = refusal.status, refusal.codes, refusal.text or refusal.message
    money = refusal.wait is None and bool(ACCOUNT_PHRASES.search(text) or codes & ALL_REQUESTS_CODES)
    money = money and not RETRY_PHRASES.search(text)
    about_one = bool(codes & SINGLE_REQUEST_CODES) or (
        bool(SINGLE_REQUEST_PHRASES.search(text)) and not ALL_REQUESTS_PHRASES.search(text)
    )
    if status in TRANSIENT_STATUS or status >= SERVER_FAILED:
        if status >= SERVER_FAILED and about_one:
            return "one"
        return "all" if money and (status == 429 or codes & ALL_REQUESTS_CODES) else "passing"
    if not 400 <= status < 500 or status in (KEY_REFUSED, PAYMENT_REQUIRED):
        return "all"
    if codes & ALL_REQUESTS_CODES or KEY_PHRASES.search(text):
        return "all"
    limited = OVERLOAD_PHRASES.search(text) or RETRY_PHRASES.search(text)
    # Either this request is too large, or max_tokens is too large in every request.
    if status == TOO_LARGE and (limited or not about_one):
        return "unsure"
    if OVERLOAD_PHRASES.search(text):
        return "passing"
    if about_one:
        return "one"
    return "all" if ACCOUNT_PHRASES.search(text) else "unsure"


class Remedy(NamedTuple):
    """Change to a registry entry that avoids a refusal.

    key: key to set in the entry; value: its new value. If several remedies set `omit`, their values are joined.
    """

    key: str
    value: Any


REFUSES = (
    r"unsupported|not (?:be )?support|does ?n[o']t support|only the default|extra inputs|not permitted|unknown"
    r"|unrecognized|unexpected|deprecated|not allowed|invalid|incompatible|cannot be (?:set|used)"
)
UNKNOWN = r"unsupported|not support|unknown|unrecognized|unexpected|extra inputs|not permitted"
OMITTABLE = ("temperature", "stop", "seed", "max_tokens")
LIMIT_NUMBER = re.compile(
    r"(?:at most|supports?(?: at most| up to)?|maximum(?: of| is)?|<=|less than or equal to)\D{0,20}(\d+)"
)


def remedy_of(
    refusal: Refusal,
    endpoint: str,
    sent: Mapping[str, Any],
    extra: Mapping[str, Any],
    thinking: Mapping[str, Any],
) -> Remedy | None:
    """Return the change to the registry entry that a refusal asks for, or None if its message suggests no change.

    endpoint: `chat`, `completions` or `responses`; sent: body of the request; extra: fields of the body that come from
    `extra_body` in the registry entry; thinking: fields that come from `thinking`.
    """
    lower = re.sub(r"did you mean.*", "", refusal.message.lower())
    if "max_completion_tokens" in lower and "max_tokens" in sent:
        return Remedy("max_tokens_as", "max_completion_tokens")
    if most := re.search(r"max_(?:completion_)?tokens > (\d+) must", lower):
        return Remedy("max_tokens", int(most[1]))
    if re.search(r"max_(?:completion_|output_)?tokens.{0,80}(?:too (?:large|high|big)|above (?:the )?max)", lower) and (
        most := LIMIT_NUMBER.search(lower)
    ):
        return Remedy("max_tokens", int(most[1]))
    if "max_completion_tokens" in lower and "max_completion_tokens" in sent and re.search(UNKNOWN, lower):
        return Remedy("max_tokens_as", "max_tokens")
    budget = thinking.get("thinking", {}).get("budget_tokens") if "thinking" in thinking else None
    if budget and re.search(r"max_tokens.{0,30}greater than.{0,30}budget_tokens", lower):
        return Remedy("thinking_tokens", budget)
    if "v1/responses" in lower:
        return Remedy("endpoint", "responses")
    if re.search(r"chat.?template|template (?:error|not found)", lower):
        return Remedy("endpoint", "completions")
    if "completions" in lower and "chat" in lower and endpoint == "completions":
        return Remedy("endpoint", "chat")
    if re.search(
        r"\bsystem\b.{0,40}(?:role|message|prompt|instruction)|role.{0,20}\bsystem\b|developer instruction", lower
    ):
        return Remedy("prompt_role", "user")
    if re.search(
        r"roles? must alternate|(?:last|expected last) (?:message|role)|must end with|prefill|final (?:turn|message)",
        lower,
    ):
        return Remedy("user_last", True)
    if "response_format" in lower or "json_schema" in lower:
        return Remedy("structured", False)
    for name in OMITTABLE:
        if name in sent and re.search(rf"\b{name}\b", lower) and re.search(REFUSES, lower):
            return Remedy("omit", [name])
    if any(is_field_refused(name, lower) for name in thinking):
        return Remedy("thinking", None)
    if refused := [name for name in extra if is_field_refused(name, lower)]:
        return Remedy("extra_body", {name: value for name, value in extra.items() if name not in refused})
    return None


def is_field_refused(field: str, words: str) -> bool:
    """Return True if a lower-case message refuses a field, under its name in snake case or in camel case."""
    name = rf"\b(?:{re.escape(field.lower())}|{re.escape(field.lower().replace('_', ''))})\b"
    return re.search(rf"(?:{REFUSES}).{{0,40}}{name}|{name}.{{0,40}}(?:{REFUSES})", words) is not None


def keys_to_set(remedies: list[Remedy]) -> str:
    """Return the registry keys to set, such as `max_tokens_as: max_completion_tokens and omit: [temperature, stop]`."""
    settings: dict[str, Any] = {}
    for key, value in remedies:
        if isinstance(value, list):
            settings[key] = [*settings.get(key, []), *value]
        else:
            settings[key] = value
    lines = [yaml.safe_dump({key: value}, default_flow_style=True, width=math.inf) for key, value in settings.items()]
    return " and ".join(line.strip().removeprefix("{").removesuffix("}") for line in lines)
