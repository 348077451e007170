"""Detection of silent changes by an endpoint: a shortened prompt, another model, or ignored `stop` or `max_tokens`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from maieutic.serving.answers import Answer

CHECKED_ANSWERS = 50  # number of answers at the start of a job that are checked
LEAST_PROMPT_TOKENS = 256  # smaller counts of prompt tokens are not checked, because they may exclude cached tokens
# Common tokenizers never merge two alphabetic words into one token, so a prompt has at least one token per word.
WORD = re.compile(r"[A-Za-z]+")
LEAST_TOKENS_PER_WORD = 0.9  # a prompt with fewer tokens per word was shortened
SLACK = 16  # number of tokens by which an answer may exceed the limit, as some servers count end-of-text tokens
# Suffix that does not change which model a name means: a date, a number of three or more digits, a tag, a route
SNAPSHOT = re.compile(
    r"(?::[\w.-]+|@[\w.-]+|[-_](?:20\d\d-?\d\d-?\d\d|\d{3,}|latest|preview|exp|experimental|\d\d-\d\d))$"
)


class SilentChange(NamedTuple):
    """A silent change.

    kind: `prompt`, `model`, `stop` or `max_tokens`; line: description of the change, with the setting that fixes it.
    """

    kind: str
    line: str


def is_same_model(requested: str, returned: str) -> bool:
    """Return True if two model names are equal when folders, case and snapshot suffixes are ignored."""
    return without_snapshot(requested) == without_snapshot(returned)


def without_snapshot(name: str) -> str:
    """Return a model's name in lower case, without its folder and its snapshot suffixes."""
    name = name.lower().rpartition("/")[2]
    while shorter := SNAPSHOT.sub("", name):
        if shorter == name:
            break
        name = shorter
    return name


def count_words_of_text(messages: list[Mapping[str, Any]]) -> int:
    """Return the number of words in the messages' texts. The complete prompt has at least as many tokens."""
    contents = (message["content"] for message in messages)
    parts = [
        part if isinstance(part, str) else str(part.get("text", ""))
        for content in contents
        for part in content_parts(content)
    ]
    return sum(1 for part in parts for _ in WORD.finditer(part))


def content_parts(content: Any) -> list[Any]:
    """Return the parts of a message's content (texts and pictures). A plain string counts as one part."""
    return content if isinstance(content, list) else [content]


def raw_reply_text(reply: Mapping[str, Any]) -> str:
    """Return the text of an answer as the server sent it, or an empty string if it is not a text."""
    choice = reply["choices"][0]
    content = choice["message"].get("content") if isinstance(choice.get("message"), dict) else choice.get("text")
    return content if isinstance(content, str) else ""


def silent_changes_in(
    request: Mapping[str, Any], body: Mapping[str, Any], reply: Mapping[str, Any], answer: Answer
) -> Iterator[SilentChange]:
    """Yield the silent changes in one answer.

    request: request of the job; body: JSON that was sent; reply: JSON that was received; answer: parsed `reply`.
    """
    requested, returned = str(body["model"]), reply.get("model")
    if isinstance(returned, str) and returned and not is_same_model(requested, returned):
        fix = f"set model: {returned}, or choose a model that the endpoint serves"
        # launch/messages.py searches the line for " answers requests for MODEL: ".
        line = f"{returned} answers requests for {requested}: {fix}"
        yield SilentChange("model", line)
    words, tokens = count_words_of_text(request["messages"]), answer.prompt_tokens
    if tokens is not None and LEAST_PROMPT_TOKENS <= tokens < LEAST_TOKENS_PER_WORD * words:
        fix = "raise the server's context length (Ollama: OLLAMA_CONTEXT_LENGTH, or num_ctx in a Modelfile)"
        yield SilentChange("prompt", f"a prompt of {words} words was read as {tokens} tokens, so it was cut: {fix}")
    text = raw_reply_text(reply)
    sent = body.get("stop") or []
    stops = [sent] if isinstance(sent, str) else list(sent)
    if any(0 <= text.find(stop) < len(text.rstrip()) - len(stop) for stop in stops):
        yield SilentChange(
            "stop", "the endpoint ignores stop: set omit: [stop] (answers are cut at stop strings anyway)"
        )
    bounds = ("max_tokens", "max_completion_tokens") if request.get("endpoint") == "chat" else ()
    name = next((name for name in bounds if isinstance(body.get(name), int)), None)
    usage = reply.get("usage") if isinstance(reply.get("usage"), dict) else {}
    details = (usage or {}).get("completion_tokens_details")
    thought = details.get("reasoning_tokens") if isinstance(details, dict) else 0
    made = (answer.completion_tokens or 0) - (thought if isinstance(thought, int) else 0)
    if name is not None and made > body[name] + SLACK:
        other = "max_completion_tokens" if name == "max_tokens" else "max_tokens"
        problem = f"the endpoint ignores {name}: an answer has {made} tokens where {body[name]} are allowed"
        yield SilentChange("max_tokens", f"{problem}: set max_tokens_as: {other}")


class SilentChangeWatcher:
    """Watcher that checks the first answers of a job for silent changes, and keeps one line for each kind."""

    def __init__(self, names_models: bool = True) -> None:
        """names_models: True if the endpoint uses the same model name in answers as in requests."""
        self.names_models = names_models
        self.seen = 0
        self.lines: dict[str, str] = {}

    def check_answer(
        self, request: Mapping[str, Any], body: Mapping[str, Any], reply: Mapping[str, Any], answer: Answer
    ) -> list[str]:
        """Return a line for each kind of silent change that appears in this answer for the first time in the job."""
        if self.seen >= CHECKED_ANSWERS:
            return []
        self.seen += 1
        try:
            changes = list(silent_changes_in(request, body, reply, answer))
        except Exception:  # a failed check must not discard an answer that was paid for
            return []
        new = {
            kind: line for kind, line in changes if kind not in self.lines and (self.names_models or kind != "model")
        }
        self.lines |= new
        return list(new.values())
