"""Find what an endpoint changes in silence: a prompt that is cut, another model, ignored `stop` or `max_tokens`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from maieutic.serving.answers import Answer

LOOKED_AT = 50  # first answers of a job
LEAST_CUT = 256  # prompt tokens; fewer may be the rest of a prompt that the server had in its cache
# No usual tokenizer puts two words of an alphabet into one token.
WORD = re.compile(r"[A-Za-z]+")
BELOW = 0.9
SLACK = 16  # tokens beyond the bound: some servers count the end of the answer
# What names a snapshot of a model, its way to it, or nothing: a date, a number of three digits or more, a tag.
SNAPSHOT = re.compile(
    r"(?::[\w.-]+|@[\w.-]+|[-_](?:20\d\d-?\d\d-?\d\d|\d{3,}|latest|preview|exp|experimental|\d\d-\d\d))$"
)
KINDS = ("prompt", "model", "stop", "max_tokens")


class Unheeded(NamedTuple):
    """One kind of silent change. kind: of KINDS; line: the finding, with the setting that mends it."""

    kind: str
    line: str


def is_same_model(asked: str, answered: str) -> bool:
    """Return whether an answer's model is the asked one: the same name without its folder, or a snapshot of it."""
    return without_snapshot(asked) == without_snapshot(answered)


def without_snapshot(name: str) -> str:
    """Return a model's name without folder, tag, date and the word for its newest version."""
    name = name.lower().rpartition("/")[2]
    while shorter := SNAPSHOT.sub("", name):
        if shorter == name:
            break
        name = shorter
    return name


def words_in(messages: list[Mapping[str, Any]]) -> int:
    """Return the number of words in the texts of messages: no prompt has fewer tokens."""
    contents = (message["content"] for message in messages)
    parts = [part if isinstance(part, str) else str(part.get("text", "")) for one in contents for part in parts_of(one)]
    return sum(1 for part in parts for _ in WORD.finditer(part))


def parts_of(content: Any) -> list[Any]:
    """Return the texts of a message, which may stand beside pictures."""
    return content if isinstance(content, list) else [content]


def texts_of(said: Mapping[str, Any]) -> str:
    """Return an answer's text as the server sent it."""
    choice = said["choices"][0]
    content = choice["message"].get("content") if isinstance(choice.get("message"), dict) else choice.get("text")
    return content if isinstance(content, str) else ""


def found_in(
    request: Mapping[str, Any], body: Mapping[str, Any], said: Mapping[str, Any], answer: Answer
) -> Iterator[Unheeded]:
    """Yield what one answer shows.

    request: what was asked; body: what was sent; said: the answer's JSON; answer: what was read from it.
    """
    asked, answered = str(body["model"]), said.get("model")
    if isinstance(answered, str) and answered and not is_same_model(asked, answered):
        line = f"{answered} answers where {asked} is asked: set model: {answered}, or name a model that is served"
        yield Unheeded("model", line)
    words, tokens = words_in(request["messages"]), answer.prompt_tokens
    if tokens is not None and LEAST_CUT <= tokens < BELOW * words:
        mend = "raise the server's context length (Ollama: OLLAMA_CONTEXT_LENGTH, or num_ctx in a Modelfile)"
        yield Unheeded("prompt", f"a prompt of {words} words was read as {tokens} tokens, so it was cut: {mend}")
    text = texts_of(said)
    sent = body.get("stop") or []
    stops = [sent] if isinstance(sent, str) else list(sent)
    if any(0 <= text.find(stop) < len(text.rstrip()) - len(stop) for stop in stops):
        yield Unheeded("stop", "the endpoint ignores stop: set omit: [stop] (answers are cut there all the same)")
    bounds = ("max_tokens", "max_completion_tokens") if request.get("endpoint") == "chat" else ()
    name = next((name for name in bounds if isinstance(body.get(name), int)), None)
    usage = said.get("usage") if isinstance(said.get("usage"), dict) else {}
    details = (usage or {}).get("completion_tokens_details")
    thought = details.get("reasoning_tokens") if isinstance(details, dict) else 0
    made = (answer.completion_tokens or 0) - (thought if isinstance(thought, int) else 0)
    if name is not None and made > body[name] + SLACK:
        other = "max_completion_tokens" if name == "max_tokens" else "max_tokens"
        problem = f"the endpoint ignores {name}: an answer has {made} tokens where {body[name]} are allowed"
        yield Unheeded("max_tokens", f"{problem}: set max_tokens_as: {other}")


class Watcher:
    """Looks at the first answers of a job; keeps one line of each kind."""

    def __init__(self, names_models: bool = True) -> None:
        """names_models: whether the endpoint answers under the name that it is asked by."""
        self.names_models = names_models
        self.seen = 0
        self.lines: dict[str, str] = {}

    def see(
        self, request: Mapping[str, Any], body: Mapping[str, Any], said: Mapping[str, Any], answer: Answer
    ) -> list[str]:
        """Return the lines of changes that no earlier answer of the job has shown."""
        if self.seen >= LOOKED_AT:
            return []
        self.seen += 1
        try:
            found = list(found_in(request, body, said, answer))
        except Exception:  # a remark must not cost the answer, which is paid
            return []
        new = {kind: line for kind, line in found if kind not in self.lines and (self.names_models or kind != "model")}
        self.lines |= new
        return list(new.values())
