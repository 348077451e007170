"""Pictures in messages: named by their file while a request is keyed and kept, sent as data URLs."""

from __future__ import annotations

import base64
import hashlib
from pathlib import Path
from typing import Any

from maieutic.config.prompts import Messages
from maieutic.core.errors import UserError

PICTURE = "picture"  # our part of a message's content: {"type": "picture", "file": "<sha256>.png"}
MEDIA_TYPES = {"png": "image/png", "jpg": "image/jpeg", "webp": "image/webp", "gif": "image/gif"}


def with_pictures(messages: Messages, files: list[str]) -> Messages:
    """The messages with pictures after the text of the user's first one; without any files, as they were."""
    if not files:
        return messages
    place = next(number for number, message in enumerate(messages) if message["role"] == "user")
    parts = [{"type": "text", "text": messages[place]["content"]}]
    parts += [{"type": PICTURE, "file": file} for file in files]
    return [*messages[:place], {"role": "user", "content": parts}, *messages[place + 1 :]]


def as_sent(messages: Messages, store: Path | None) -> Messages:
    """The messages as a server takes them (OpenAI's chat format): every picture as a data URL."""
    if not any(isinstance(message["content"], list) for message in messages):
        return messages
    return [
        {**message, "content": [sent_part(part, store) for part in message["content"]]}
        if isinstance(message["content"], list)
        else message
        for message in messages
    ]


def sent_part(part: dict[str, Any], store: Path | None) -> dict[str, Any]:
    """One part of a message's content."""
    if part["type"] != PICTURE:
        return part
    assert store is not None, "a job with pictures knows their folder"
    return {"type": "image_url", "image_url": {"url": data_url(store / part["file"])}}


def data_url(path: Path) -> str:
    """A picture's bytes as a data URL. Raises UserError for a file that is not there, or not what its name says."""
    mend = "delete results/datasets/*.pictures.jsonl and run again: it is fetched anew"
    try:
        data = path.read_bytes()
    except OSError:
        raise UserError(str(path), "the picture is not there", mend) from None
    if hashlib.sha256(data).hexdigest() != path.stem:
        raise UserError(str(path), "the picture is not what its name says: it was altered", mend)
    return f"data:{MEDIA_TYPES[path.suffix.removeprefix('.')]};base64,{base64.b64encode(data).decode()}"


def text_of(content: Any) -> str:
    """A message's content as text to read, its pictures named."""
    if isinstance(content, str):
        return content
    return "\n".join(part["text"] if part["type"] == "text" else f"[picture {part['file'][:12]}]" for part in content)
