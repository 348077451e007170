"""Parse the JSON body of a server's response: the answer to one request, or an excerpt if it contains no answer.

A body may have any shape. Metadata that cannot be parsed becomes None. A body without an answer raises MalformedAnswer.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any, NamedTuple

from maieutic.core.secrets import redact, redact_sent_keys
from maieutic.core.states import INTERRUPTED, filter_error, usual_finish
from maieutic.core.thinking import cut_at_stop, split_thinking

LARGEST_COUNT = 2**53  # exclusive upper bound on token counts: not every JSON reader stores larger integers exactly
LONGEST_WORD = 100  # maximum number of characters of a finish reason, or of an excerpt of a body
LONGEST_BODY = 4096  # an excerpt is taken from at most this many bytes at the start of a body
MOST_DIGITS = 20  # an integer with more digits is parsed as None
TAGS = re.compile(r"<(?:style|script)[^>]{0,200}>[^<]{0,2000}</(?:style|script)>|<[^<>]{0,200}>")
# Finish reason that is recorded if an answer's text is in OpenAI's field `refusal`, and its field `content` is null
REFUSAL = "refusal"
THOUGHTS = frozenset(
    {"thinking", "reasoning", "redacted_thinking", "reasoning_content"}
)  # types of a message's parts that hold its reasoning
COMPLETION_KEYS = frozenset({"choices", "usage", "prompt_filter_results", "output"})  # of a body that is a completion


@dataclass(frozen=True)
class Answer:
    """Answer to one request. A permanent refusal also counts as an answer; `error` is then its text, otherwise None.

    raw: text as the server sent it, including inline reasoning, or None if equal to `text`; no_text: True if the server
    sent no text; cached_tokens: number of prompt tokens that the server had cached, if reported; batched: True if the
    request was in a batch of a provider's batch API.
    """

    text: str
    reasoning: str | None
    finish: str | None
    prompt_tokens: int | None
    completion_tokens: int | None
    seconds: float
    attempts: int
    error: str | None = None
    raw: str | None = None
    no_text: bool = False
    cached_tokens: int | None = None
    batched: bool = False


class Usage(NamedTuple):
    """Token counts that an endpoint reports for one request; None for a count that it does not report.

    prompt, answer: tokens of the prompt and of the answer, with its thinking; cached: prompt tokens read from a cache.
    """

    prompt: int | None = None
    answer: int | None = None
    cached: int | None = None

    @property
    def is_reported(self) -> bool:
        """True if both counts that are billed are reported."""
        return self.prompt is not None and self.answer is not None


def usage_of(body: Any, has_text: bool = True) -> Usage:
    """Return the usage in a response's body, in the form of chat completions or of the Responses API.

    Some endpoints count thinking in the total only; tokens of the total that no other count has are tokens of the
    answer. A prompt of 0 tokens, or 0 tokens for an answer with text, is no report.

    has_text: True if the answer has a text.
    """
    counts = body.get("usage") if isinstance(body, dict) else None
    if not isinstance(counts, dict):
        return Usage()
    prompt = token_count(counts.get("prompt_tokens", counts.get("input_tokens"))) or None
    answer = token_count(counts.get("completion_tokens", counts.get("output_tokens")))
    if answer == 0 and has_text:
        answer = None
    total = token_count(counts.get("total_tokens")) or 0
    if prompt is not None and total > prompt + (answer or 0):
        answer = total - prompt
    details = counts.get("prompt_tokens_details", counts.get("input_tokens_details"))
    cached = token_count(details.get("cached_tokens")) if isinstance(details, dict) else None
    return Usage(prompt, answer, cached)


class MalformedAnswer(Exception):
    """Error for a response with status 200 that has no answer. excerpt: beginning of the body on one line."""

    def __init__(self, problem: str, excerpt: str = "") -> None:
        super().__init__(problem)
        self.excerpt = excerpt


class InterruptedAnswer(MalformedAnswer):
    """Error for an answer that the endpoint has not finished, by its finish reason."""


class NoCandidate(MalformedAnswer):
    """Error for a completion without any candidate, which is how some endpoints answer a blocked prompt.

    usage: what it reports.
    """

    def __init__(self, problem: str, body: Any) -> None:
        excerpt = body_excerpt(json.dumps(body, ensure_ascii=False).encode("utf-8", "replace"))
        super().__init__(problem, excerpt)
        self.usage = usage_of(body, has_text=False)


def sanitise_text(text: str) -> str:
    """Replace lone surrogates, which cannot be stored as UTF-8, with question marks, and redact API keys."""
    return redact_sent_keys(text.encode("utf-8", "replace").decode("utf-8"))


def parse_body(body: bytes) -> Any:
    """Parse JSON, with NaN and infinity as None. Raises MalformedAnswer for invalid or too deeply nested JSON."""
    try:
        return json.loads(body, parse_constant=lambda _: None, parse_int=parse_json_integer)
    except (ValueError, RecursionError) as error:
        raise MalformedAnswer(f"no JSON ({type(error).__name__})", body_excerpt(body)) from None


def parse_json_integer(digits: str) -> int | None:
    """Parse an integer in JSON. Returns None for more than MOST_DIGITS digits, as Python may reject long integers."""
    return int(digits) if len(digits) <= MOST_DIGITS else None


def body_excerpt(body: bytes) -> str:
    """Return the beginning of a response body on one line, with HTML tags removed and API keys redacted."""
    text = TAGS.sub(" ", body[:LONGEST_BODY].decode("utf-8", "replace"))
    return redact(" ".join(text.split()))[:LONGEST_WORD]


def token_count(value: Any) -> int | None:
    """Return a token count as an integer, or None if the value is not a valid count."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < LARGEST_COUNT:
        return None
    return int(value) if value == int(value) else None


def metadata_word(value: Any) -> str | None:
    """Return a string such as a finish reason, cut to LONGEST_WORD characters, or None if the value is not a string."""
    return sanitise_text(value)[:LONGEST_WORD] if isinstance(value, str) else None


def message_text(content: Any) -> str | None:
    """Return the text of a message's content, or None if the content is null or an empty list.

    The text parts of a list are joined; a list of thoughts alone has no text. Raises MalformedAnswer for any other
    type, and, with the types of the parts, if no part of a list is a text.
    """
    if isinstance(content, str):
        return sanitise_text(content)
    if content is None or content == []:
        return None
    if not isinstance(content, list):
        raise MalformedAnswer(f"the content of the message is neither a text nor a list: {type(content).__name__}")
    texts = [part["text"] for part in content if isinstance(part, dict) and isinstance(part.get("text"), str)]
    if not texts and all(isinstance(part, dict) and part.get("type") in THOUGHTS for part in content):
        return None
    if not texts:
        kinds = {str(part.get("type")) if isinstance(part, dict) else type(part).__name__ for part in content}
        raise MalformedAnswer(f"no text part, only: {sanitise_text(', '.join(sorted(kinds)))[:LONGEST_WORD]}")
    return sanitise_text("".join(texts))


def thoughts_in(content: Any) -> str:
    """Return the text of the thoughts in a message's list of parts, or an empty string."""
    texts: list[str] = []
    for part in content if isinstance(content, list) else []:
        if isinstance(part, dict) and part.get("type") in THOUGHTS:
            inner = next((part[name] for name in ("thinking", "text", "reasoning", "summary") if part.get(name)), "")
            pieces = inner if isinstance(inner, list) else [{"text": inner}]
            texts += [
                piece["text"] for piece in pieces if isinstance(piece, dict) and isinstance(piece.get("text"), str)
            ]
    return sanitise_text("\n".join(texts))


def parse_completion(reply: Any, chat: bool, stops: list[str], seconds: float, attempt: int) -> Answer:
    """Parse a response of the chat or completions endpoint. Raises MalformedAnswer for a body without an answer.

    reply: parsed JSON of the body; chat: True for chat completions, False for completions; stops: stop strings;
    seconds: duration of the request; attempt: number of the attempt that was answered.
    """
    choices = reply.get("choices") if isinstance(reply, dict) else None
    choice = choices[0] if isinstance(choices, list) and choices else None
    if not isinstance(choice, dict):
        if isinstance(reply, dict) and not choices and COMPLETION_KEYS & reply.keys():
            raise NoCandidate("no choices", reply)
        raise MalformedAnswer(
            "no choices", body_excerpt(json.dumps(reply, ensure_ascii=False).encode("utf-8", "replace"))
        )
    ended = choice.get("finish_reason")
    word = metadata_word(ended.get("type") if isinstance(ended, dict) else ended)
    finish = usual_finish(word)
    if finish is not None and INTERRUPTED.search(finish):
        raise InterruptedAnswer(f"the answer was interrupted ({finish})")
    if chat:
        message = choice.get("message")
        if message is None and not {"delta", "text"} & choice.keys():
            raise NoCandidate("no message", reply)
        if not isinstance(message, dict):
            raise MalformedAnswer("no message")
        content = message_text(message.get("content"))
        refusal = message.get("refusal")
        reasoning = message.get("reasoning_content") or message.get("reasoning")
    else:
        message, content, reasoning, refusal = {}, choice.get("text"), None, None
        if not isinstance(content, str):
            raise MalformedAnswer("no text")
        content = sanitise_text(content)
    refused = content is None and isinstance(refusal, str) and bool(refusal)
    sent = sanitise_text(str(refusal)) if refused else content or ""
    text, thought = split_thinking(sent)
    thoughts = [sanitise_text(reasoning)] if isinstance(reasoning, str) and reasoning else []
    if more := thoughts_in(message.get("content")):
        thoughts.append(more)
    if thoughts:
        text = text.lstrip()
    thoughts += [thought] if thought else []
    usage = usage_of(reply, has_text=bool(sent))
    cut = cut_at_stop(text, stops)
    # If the server did not apply a stop string, cut the raw text there too, as the benchmarks' released code does.
    raw = sent.removesuffix(text) + cut if sent.endswith(text) else sent
    return Answer(
        text=cut,
        raw=None if raw == cut else raw,
        no_text=content is None,
        reasoning="\n".join(thoughts) or None,
        finish=REFUSAL if refused else finish,
        error=None if refused else filter_error(word, None),
        prompt_tokens=usage.prompt,
        completion_tokens=usage.answer,
        cached_tokens=usage.cached,
        seconds=round(seconds, 4),
        attempts=attempt,
    )
