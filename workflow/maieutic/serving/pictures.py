"""Pictures in messages. Stored requests and request keys contain file names; sent requests contain data URLs."""

from __future__ import annotations

import base64
import hashlib
from pathlib import Path
from typing import Any

from maieutic.config.prompts import Messages
from maieutic.core.errors import UserError

PICTURE = "picture"  # type of a content part that only this project uses: {"type": "picture", "file": "<sha256>.png"}
MEDIA_TYPES = {"png": "image/png", "jpg": "image/jpeg", "webp": "image/webp", "gif": "image/gif"}


def with_pictures(messages: Messages, files: list[str]) -> Messages:
    """Return the messages with pictures after the text of the first user message; unchanged if `files` is empty."""
    if not files:
        return messages
    first = next(number for number, message in enumerate(messages) if message["role"] == "user")
    parts = [{"type": "text", "text": messages[first]["content"]}]
    parts += [{"type": PICTURE, "file": file} for file in files]
    return [*messages[:first], {"role": "user", "content": parts}, *messages[first + 1 :]]


def as_sent(messages: Messages, store: Path | None) -> Messages:
    """Return messages in OpenAI's chat format, with every picture as a data URL. store: folder of the pictures."""
    if not any(isinstance(message["content"], list) for message in messages):
        return messages
    return [
        {**message, "content": [sent_part(part, store) for part in message["content"]]}
        if isinstance(message["content"], list)
        else message
        for message in messages
    ]


def sent_part(part: dict[str, Any], store: Path | None) -> dict[str, Any]:
    """Return a part of a message's content as it is sent: a picture as a data URL, any other part unchanged."""
    if part["type"] != PICTURE:
        return part
    assert store is not None, "a job with pictures needs the folder that contains them"
    return {"type": "image_url", "image_url": {"url": data_url(store / part["file"])}}


def data_url(path: Path) -> str:
    """Return a picture's bytes as a data URL. Raises UserError if the file is missing or its checksum is wrong."""
    fix = "delete results/datasets/*.pictures.jsonl and run again to download the picture"
    try:
        data = path.read_bytes()
    except OSError:
        raise UserError(str(path), "the picture is missing", fix) from None
    if hashlib.sha256(data).hexdigest() != path.stem:
        raise UserError(str(path), "the picture was altered: its SHA-256 differs from its file name", fix)
    return f"data:{MEDIA_TYPES[path.suffix.removeprefix('.')]};base64,{base64.b64encode(data).decode()}"


def readable_content(content: Any) -> str:
    """Return a message's content as text for people, with a placeholder for each picture."""
    if isinstance(content, str):
        return content
    return "\n".join(part["text"] if part["type"] == "text" else f"[picture {part['file'][:12]}]" for part in content)
