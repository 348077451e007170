"""Encoding of chats as token ids and labels.

The loss covers only the assistant's words and the end mark of each assistant turn. Of a template whose turns have no
end mark of their own, it covers the mark that ends the turn at generation: the next role's (GLM), or the
end-of-sequence token. A model trained without one never learns to stop (https://github.com/huggingface/trl/pull/5988).
"""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
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
    ends = end_tokens(base)
    encoded = [encode_chat(tokenizer, chat, f"tunings.{name}", ends) for chat in chats]
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


def end_tokens(base: Path) -> set[int] | None:
    """Return the tokens at which a base's generation ends, or None if its folder does not list them."""
    file = base / "generation_config.json"
    listed = json.loads(file.read_text(encoding="utf-8")).get("eos_token_id") if file.is_file() else None
    if listed is None:
        return None
    return {*listed} if isinstance(listed, list) else {listed}


def encode_chat(
    tokenizer: Any, chat: Chat, place: str, ends: Collection[int] | None = None
) -> tuple[list[int], list[int]]:
    """Return the token ids and labels of one chat.

    place: the config key of the tuning, for error messages; ends: tokens at which generation ends, None if unknown.

    To locate an assistant's turn, the chat is rendered twice: up to the turn, with the generation prompt, and up to the
    turn's end. Raises UserError if the second text does not begin with the first, or if nothing can end a turn. If the
    template does not support a system message, the message is prepended to the user's first message.
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
    ids = list(tokens["input_ids"])
    labels = [
        token if any(start <= first and last <= stop and last > first for start, stop in spans) else IGNORED
        for token, (first, last) in zip(ids, tokens["offset_mapping"], strict=True)
    ]
    if not is_open_ended(chat, text, spans):
        return ids, labels
    mark = closing_token(tokenizer, chat, text, place, ends)
    for _, stop in spans:
        following = (
            number
            for number, (first, last) in enumerate(tokens["offset_mapping"])
            if first >= stop and text[first:last].strip()
        )
        if (number := next(following, None)) is not None and ids[number] == mark:
            labels[number] = mark
    return (ids, labels) if chat[-1]["role"] != "assistant" else ([*ids, mark], [*labels, mark])


def is_open_ended(chat: Chat, text: str, spans: Sequence[tuple[int, int]]) -> bool:
    """Return True if the template puts nothing after the words of a turn that would end it."""
    contents = [message["content"].rstrip() for message in chat if message["role"] == "assistant"]
    return any(
        content and text[start:stop].endswith(content) for content, (start, stop) in zip(contents, spans, strict=True)
    )


def closing_token(tokenizer: Any, chat: Chat, text: str, place: str, ends: Collection[int] | None) -> int:
    """Return the token that ends a turn without an end mark: the mark of the user's turn, or the end of the sequence.

    text: the rendered chat; ends: as in `encode_chat`. Raises UserError if the tokenizer has neither.
    """
    longer = rendered_chat(tokenizer, [*chat, {"role": "user", "content": "?"}], False)
    following = longer[len(text.rstrip()) :].lstrip() if longer.startswith(text.rstrip()) else ""
    special = {number for number, token in tokenizer.added_tokens_decoder.items() if token.special}
    first = tokenizer(following, add_special_tokens=False)["input_ids"][:1]
    is_end = bool(first) and first[0] in special and (ends is None or first[0] in ends)
    token = first[0] if is_end else tokenizer.eos_token_id
    if token is None:
        problem = "nothing ends a turn in the base's chat template, and its tokenizer has no end-of-sequence token"
        raise UserError(f"{place}.base", problem, "choose a base whose template ends each turn")
    return int(token)


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
