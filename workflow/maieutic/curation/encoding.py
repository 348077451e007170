"""Encoding of chats as token ids and labels.

The loss covers only the assistant's words and the end mark of each assistant turn.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from maieutic.config.curation import FineTuning
from maieutic.core.errors import UserError
from maieutic.replies.generate import merge_system_message
from maieutic.rewards import loading

IGNORED = -100  # label of tokens that do not count towards the loss
Chat = Sequence[dict[str, str]]


class EncodedChats(NamedTuple):
    """Token ids and labels of chats.

    labels: for each chat, the token id at positions that count towards the loss, IGNORED at others; overlong: number of
    chats that were left out because they are too long.
    """

    ids: list[list[int]]
    labels: list[list[int]]
    overlong: int


def load_chat_tokenizer(name: str, train: FineTuning, base: Path) -> Any:
    """Return the base's tokenizer, with a padding token. Raises UserError if the tokenizer has no chat template."""
    tokenizer = loading.load_tokenizer(base)
    if not tokenizer.chat_template:
        raise UserError(
            f"tunings.{name}.base",
            f"{train.base} has no chat template",
            "choose a base with a chat template (an instruct model), or add chat_template.jinja to the base's folder",
        )
    return tokenizer


def encode_chats(tokenizer: Any, chats: Sequence[Chat], name: str, train: FineTuning, base: Path) -> EncodedChats:
    """Return the token ids and labels of chats. The loss covers the assistant's words and the end mark of each turn.

    base: folder of the base model, whose context may be shorter than the entry's max_length. Raises UserError for chats
    longer than the context, unless the entry sets `overlong` to `drop` or `truncate` and at least one chat is left.
    """
    context = loading.context_limit(base, tokenizer, train.max_length)
    encoded = [encode_chat(tokenizer, chat, f"tunings.{name}") for chat in chats]
    if train.overlong == "truncate":
        encoded = [truncated(ids, labels, context) for ids, labels in encoded]
    fitting = [(ids, labels) for ids, labels in encoded if ids and len(ids) <= context]
    overlong = len(encoded) - len(fitting)
    if overlong and (train.overlong == "refuse" or not fitting):
        longest = max(len(ids) for ids, _ in encoded)
        problem = f"{overlong} of {len(encoded)} examples have more tokens than the context of {context}"
        base_context = loading.context_limit(base, tokenizer, None)
        raised = f"raise max_length to {longest}, or set overlong to drop or truncate"
        fix = (
            raised
            if longest <= base_context
            else f"set overlong to drop or truncate, since the base's context has only {base_context} tokens"
        )
        raise UserError(f"tunings.{name}.max_length", f"{problem}; the longest example has {longest}", fix)
    return EncodedChats([ids for ids, _ in fitting], [labels for _, labels in fitting], overlong)


def truncated(ids: list[int], labels: list[int], context: int) -> tuple[list[int], list[int]]:
    """Return a chat cut to the context's number of tokens; empty if no word of the assistant is left."""
    labels = labels[:context]
    return (ids[:context], labels) if any(label != IGNORED for label in labels) else ([], [])


def encode_chat(tokenizer: Any, chat: Chat, place: str) -> tuple[list[int], list[int]]:
    """Return the token ids and labels of one chat. place: the config key of the tuning, for error messages.

    To locate an assistant's turn, the chat is rendered twice: up to the turn, with the generation prompt, and up to the
    turn's end. Raises UserError if the second text does not begin with the first. If the template does not support a
    system message, the message is prepended to the user's first message.
    """
    try:
        chat = chat_for_template(tokenizer, chat)
        text = rendered_chat(tokenizer, chat, False)
        spans = [
            span_of(tokenizer, chat, number, text, place)
            for number, message in enumerate(chat)
            if message["role"] == "assistant"
        ]
    except UserError:
        raise
    except Exception as error:  # a chat template can raise any exception
        beginning = str(chat[0].get("content", ""))[:80]
        problem = f"the base's chat template cannot render the example that begins with {beginning!r}: {error}"
        raise UserError(f"{place}.base", problem, "choose another base, or remove the example from the mix") from None
    tokens = tokenizer(text, add_special_tokens=False, return_offsets_mapping=True)
    labels = [
        token if any(start <= first and last <= stop and last > first for start, stop in spans) else IGNORED
        for token, (first, last) in zip(tokens["input_ids"], tokens["offset_mapping"], strict=True)
    ]
    return list(tokens["input_ids"]), labels


def span_of(tokenizer: Any, chat: Chat, number: int, text: str, place: str) -> tuple[int, int]:
    """Return the start and end of an assistant's message in the rendered chat `text`. number: index of the message.

    Raises UserError if the template renders the message differently when other turns follow it.
    """
    before = rendered_chat(tokenizer, chat[:number], True) if number else text[: text.find(chat[0]["content"])]
    after = rendered_chat(tokenizer, chat[: number + 1], False)
    if not (after.startswith(before) and text.startswith(after.rstrip())):
        raise UserError(
            f"{place}.base",
            "the base's chat template renders a turn differently when other turns follow it",
            "choose a base whose template renders a turn the same in every chat",
        )
    # The whitespace after a turn's end mark does not belong to the turn.
    return len(before), len(after.rstrip())


def chat_for_template(tokenizer: Any, chat: Chat) -> Chat:
    """Return a chat that its template accepts: unchanged, or with the system message in the user's first message."""
    if chat[0]["role"] != "system" or not any(message["role"] == "user" for message in chat):
        return chat
    try:
        text = rendered_chat(tokenizer, [chat[0], {"role": "user", "content": "?"}], False)
    except Exception:  # Gemma's template raises "System role not supported"
        return merge_system_message(list(chat))
    return chat if chat[0]["content"].strip() in text else merge_system_message(list(chat))


def rendered_chat(tokenizer: Any, chat: Chat, asks: bool) -> str:
    """Return a chat rendered by the template. asks: True to append the generation prompt."""
    return str(tokenizer.apply_chat_template(list(chat), tokenize=False, add_generation_prompt=asks))
