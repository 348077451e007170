"""What a server's JSON says: the answer to one request, or the server's own words of a refusal.

A body may be of any shape. Metadata that cannot be read are None; a body without an answer raises MalformedAnswer.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any

from maieutic.core.secrets import keys_in_use, redacted
from maieutic.core.thinking import cut_at_stop, split_thinking

LARGEST_COUNT = 2**53  # of tokens: what any JSON reader holds exactly
LONGEST_WORD = 100  # characters of a finish reason, and of what a message shows of a body
LONGEST_BODY = 4096  # bytes of a body in which these are looked for
MOST_DIGITS = 20  # of a whole number
TAGS = re.compile(r"<(?:style|script)[^>]{0,200}>[^<]{0,2000}</(?:style|script)>|<[^<>]{0,200}>")
# The finish of an answer whose words stand in OpenAI's `refusal`, beside a content that is null.
REFUSAL = "refusal"


@dataclass(frozen=True)
class Answer:
    """What came back for one request; `error` is a permanent refusal, which is an answer too. Times in seconds.

    raw: the text as the server sent it, its inline reasoning included, where `text` differs; no_text: it sent none;
    cached_tokens: of the prompt's, those that the server had in its cache, where it says so.
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


class MalformedAnswer(Exception):
    """The server said 200 and sent something that is no answer. words: what it sent, as far as a line shows it."""

    def __init__(self, problem: str, words: str = "") -> None:
        super().__init__(problem)
        self.words = words


def clean(text: str) -> str:
    """Lone surrogates cannot be stored as UTF-8; they become replacement characters. A key that is echoed is marked."""
    return keys_in_use(text.encode("utf-8", "replace").decode("utf-8"))


def json_of(body: bytes) -> Any:
    """A body's JSON; NaN and infinities are None. Raises MalformedAnswer for what is none, or is nested too deeply."""
    try:
        return json.loads(body, parse_constant=lambda _: None, parse_int=whole_number)
    except (ValueError, RecursionError) as error:
        raise MalformedAnswer(f"no JSON ({type(error).__name__})", words_of(body)) from None


def whole_number(digits: str) -> int | None:
    """A whole number of JSON; None for one that no field of an answer holds, and that Python may refuse to read."""
    return int(digits) if len(digits) <= MOST_DIGITS else None


def words_of(body: bytes) -> str:
    """What a body says, in one line; of a page of HTML the text."""
    text = TAGS.sub(" ", body[:LONGEST_BODY].decode("utf-8", "replace"))
    return redacted(" ".join(text.split()))[:LONGEST_WORD]


def count_of(value: Any) -> int | None:
    """A number of tokens; None for what is none."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < LARGEST_COUNT:
        return None
    return int(value) if value == int(value) else None


def word_of(value: Any) -> str | None:
    """A short word of metadata, such as a finish reason; None for what is none."""
    return clean(value)[:LONGEST_WORD] if isinstance(value, str) else None


def text_of(content: Any) -> str | None:
    """The text of a message: a string, or the text parts of a list; None where it has no text.

    Raises MalformedAnswer for a list of other parts alone, which it names.
    """
    if isinstance(content, str):
        return clean(content)
    if not isinstance(content, list) or not content:
        return None
    texts = [part["text"] for part in content if isinstance(part, dict) and isinstance(part.get("text"), str)]
    if not texts:
        kinds = {str(part.get("type")) if isinstance(part, dict) else type(part).__name__ for part in content}
        raise MalformedAnswer(f"parts that are not text: {clean(', '.join(sorted(kinds)))[:LONGEST_WORD]}")
    return clean("".join(texts))


def read_answer(reply: Any, chat: bool, stops: list[str], seconds: float, attempt: int) -> Answer:
    """Read a completion of either endpoint. Raises MalformedAnswer for a body without an answer.

    reply: the body's JSON; chat: the endpoint, chat completions or completions.
    """
    choices = reply.get("choices") if isinstance(reply, dict) else None
    choice = choices[0] if isinstance(choices, list) and choices else None
    if not isinstance(choice, dict):
        raise MalformedAnswer("no choices", words_of(json.dumps(reply, ensure_ascii=False).encode("utf-8", "replace")))
    if chat:
        message = choice.get("message")
        if not isinstance(message, dict):
            raise MalformedAnswer("no message")
        content = text_of(message.get("content"))
        refusal = message.get("refusal")
        reasoning = message.get("reasoning_content") or message.get("reasoning")
    else:
        content, reasoning, refusal = choice.get("text"), None, None
        if not isinstance(content, str):
            raise MalformedAnswer("no text")
        content = clean(content)
    refused = content is None and isinstance(refusal, str) and bool(refusal)
    sent = clean(str(refusal)) if refused else content or ""
    text, thought = split_thinking(sent)
    thoughts = [clean(reasoning)] if isinstance(reasoning, str) and reasoning else []
    if thoughts:
        text = text.lstrip()
    thoughts += [thought] if thought else []
    usage = reply.get("usage")
    counts = usage if isinstance(usage, dict) else {}
    details = counts.get("prompt_tokens_details")
    cut = cut_at_stop(text, stops)
    # What a server could not be told to stop at is cut from the raw text too: the released request would end there.
    raw = sent.removesuffix(text) + cut if sent.endswith(text) else sent
    return Answer(
        text=cut,
        raw=None if raw == cut else raw,
        no_text=content is None,
        reasoning="\n".join(thoughts) or None,
        finish=REFUSAL if refused else word_of(choice.get("finish_reason")),
        prompt_tokens=count_of(counts.get("prompt_tokens")),
        completion_tokens=count_of(counts.get("completion_tokens")),
        cached_tokens=count_of(details.get("cached_tokens")) if isinstance(details, dict) else None,
        seconds=round(seconds, 4),
        attempts=attempt,
    )
