"""Chats as token ids, with labels where the loss counts: the tutor's words and the mark that ends them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from maieutic.config.curation import FineTuning
from maieutic.core.errors import UserError
from maieutic.replies.generate import folded
from maieutic.rewards import loading

IGNORED = -100  # label of a token that no loss counts
Chat = Sequence[dict[str, str]]


class Encoded(NamedTuple):
    """Token ids of chats, and their labels: the ids where the loss counts, else IGNORED."""

    ids: list[list[int]]
    labels: list[list[int]]
    overlong: int


def load_tokenizer(name: str, train: FineTuning, base: Path) -> Any:
    """The base's tokenizer, with something to pad with. Raises UserError for one without a chat template."""
    tokenizer = loading.load_tokenizer(base)
    if not tokenizer.chat_template:
        raise UserError(
            f"tunings.{name}.base",
            f"{train.base} has no chat template",
            "name a base that has one (an instruct model), or add chat_template.jinja to its folder",
        )
    return tokenizer


def encode(tokenizer: Any, chats: Sequence[Chat], name: str, train: FineTuning, base: Path) -> Encoded:
    """Token ids and labels of chats; a loss counts the assistant's words and the mark that ends them.

    base: the folder of the model, whose own context limits the entry's. Raises UserError for chats longer than the
    context, unless they are to be left out.
    """
    context = loading.context_of(base, tokenizer, train.max_length)
    coded = [encode_chat(tokenizer, chat, f"tunings.{name}") for chat in chats]
    fitting = [(ids, labels) for ids, labels in coded if len(ids) <= context]
    overlong = len(coded) - len(fitting)
    if overlong and (train.overlong == "refuse" or not fitting):
        longest = max(len(ids) for ids, _ in coded)
        problem = f"{overlong} of {len(coded)} examples exceed the context of {context} tokens"
        own = loading.context_of(base, tokenizer, None)
        mend = f"raise it to {longest}, or overlong: drop" if longest <= own else f"overlong: drop; the base has {own}"
        raise UserError(f"tunings.{name}.max_length", f"{problem}, the longest has {longest}", mend)
    return Encoded([ids for ids, _ in fitting], [labels for _, labels in fitting], overlong)


def encode_chat(tokenizer: Any, chat: Chat, place: str) -> tuple[list[int], list[int]]:
    """Token ids of one chat, and the labels. place: the key that names the base, for errors.

    What a template adds for an assistant's turn is found by laying the chat out up to before it, with the mark that
    asks for the turn, and up to after it: the second begins with the first, or the template is refused. A system
    message that a template refuses stands at the head of the user's first message.
    """
    try:
        chat = accepted(tokenizer, chat)
        text = laid_out(tokenizer, chat, False)
        spans = [
            span_of(tokenizer, chat, number, text, place)
            for number, message in enumerate(chat)
            if message["role"] == "assistant"
        ]
    except UserError:
        raise
    except Exception as error:  # a template raises what it likes
        shown = str(chat[0].get("content", ""))[:80]
        problem = f"its chat template cannot lay out the example that begins {shown!r}: {error}"
        raise UserError(f"{place}.base", problem, "name another base, or take the example out of the mix") from None
    coded = tokenizer(text, add_special_tokens=False, return_offsets_mapping=True)
    labels = [
        token if any(start <= first and last <= stop and last > first for start, stop in spans) else IGNORED
        for token, (first, last) in zip(coded["input_ids"], coded["offset_mapping"], strict=True)
    ]
    return list(coded["input_ids"]), labels


def span_of(tokenizer: Any, chat: Chat, number: int, text: str, place: str) -> tuple[int, int]:
    """Where an assistant's message stands in the text of a chat. Raises UserError where a template moves it."""
    before = laid_out(tokenizer, chat[:number], True) if number else text[: text.find(chat[0]["content"])]
    after = laid_out(tokenizer, chat[: number + 1], False)
    if not (after.startswith(before) and text.startswith(after.rstrip())):
        raise UserError(
            f"{place}.base",
            "its chat template lays a turn out differently when others follow it",
            "name a base whose template does not",
        )
    # The blank after the mark that ends a turn is nobody's word.
    return len(before), len(after.rstrip())


def accepted(tokenizer: Any, chat: Chat) -> Chat:
    """The chat as its template takes it: with its system message, or with that folded into the user's first one."""
    if chat[0]["role"] != "system" or not any(message["role"] == "user" for message in chat):
        return chat
    try:
        text = laid_out(tokenizer, [chat[0], {"role": "user", "content": "?"}], False)
    except Exception:  # Gemma's raises "System role not supported"
        return folded(list(chat))
    return chat if chat[0]["content"].strip() in text else folded(list(chat))


def laid_out(tokenizer: Any, chat: Chat, asks: bool) -> str:
    """A chat as the template's text. asks: with the mark after which the assistant speaks."""
    return str(tokenizer.apply_chat_template(list(chat), tokenize=False, add_generation_prompt=asks))
