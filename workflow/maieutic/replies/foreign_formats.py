"""Read replies in other tools' formats. Each is converted to a record with `reply`, and with `id` or `prompt`.

- lm-evaluation-harness with `--log_samples`: `arguments` and `resps`; samples are matched by the prompt's text.
- Inspect: `.eval` archives (a zip with one JSON file per sample) and `.json` logs, matched by the sample's id or input.
- OpenAI's batch API: `custom_id` and `response.body`.
- Chat messages: `messages`, of which the assistant's last message is the reply; or a reply that is given as a message,
  a list of content parts, or a completion.
"""

from __future__ import annotations

import zipfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from maieutic.core.errors import UserError
from maieutic.core.files import MB
from maieutic.core.json_text import json_value
from maieutic.datasets.sources import read_source

ForeignRecord = dict[str, Any]
MAX_UNPACKED_MB = 2048  # maximum unpacked size of an archive in MB
SAMPLES_FOLDER = "samples/"
TUTOR_ROLES = {"assistant", "model", "tutor", "teacher", "ai", "bot"}  # roles that mark a message as the tutor's


def read_foreign_replies(path: Path) -> list[Any]:
    """Read a file of replies in any of this module's formats. Records in the project's own format stay unchanged.

    Raises UserError if the file is not in one of these formats.
    """
    if path.suffix == ".eval":
        return read_each(path, list(archive_samples(path)), inspect_record)
    if path.suffix == ".json" and (log := inspect_log(path)) is not None:
        return read_each(path, log, inspect_record)
    return read_each(path, read_source(path, path.suffix[1:], str(path), user_file=True), normalise_record)


def read_each(path: Path, records: list[Any], read: Callable[[ForeignRecord], ForeignRecord]) -> list[Any]:
    """Convert every record with `read`. Raises UserError for the first malformed record."""
    replies = []
    for number, record in enumerate(records, 1):
        try:
            replies.append(read(record) if isinstance(record, dict) else record)
        except (AttributeError, IndexError, KeyError, TypeError) as error:
            problem = f"the record has fields of a known format but cannot be read: {type(error).__name__}: {error}"
            raise UserError(f"{path}, record {number}", problem, "write records with the fields id and reply") from None
    return replies


def inspect_log(path: Path) -> list[ForeignRecord] | None:
    """Return the samples of an Inspect log in JSON, or None if the file is not a JSON object."""
    with open(path, "rb") as handle:
        if not handle.read(64).lstrip(b"\xef\xbb\xbf \r\n\t").startswith(b"{"):
            return None
    try:
        content = json_value(path.read_text(encoding="utf-8-sig"))
    except ValueError as error:
        raise UserError(str(path), f"the file is not valid JSON: {error}", "export the file again") from None
    samples = content.get("samples")
    if not isinstance(samples, list) or "eval" not in content:
        keys = ", ".join(list(content)[:8]) or "nothing"
        raise UserError(str(path), f"expected a list of replies or a log of Inspect, found {keys}", "write JSON lines")
    return samples


def archive_samples(path: Path) -> Iterator[ForeignRecord]:
    """Yield the samples of an Inspect archive. Raises UserError if it is not one, or is too large when unpacked."""
    fix = "export the log with `inspect log convert --to json`, or run the evaluation again"
    try:
        with zipfile.ZipFile(path) as archive:
            members = [member for member in archive.infolist() if member.filename.startswith(SAMPLES_FOLDER)]
            if (size := sum(member.file_size for member in members) / MB) > MAX_UNPACKED_MB:
                raise UserError(
                    str(path),
                    f"expected at most {MAX_UNPACKED_MB} MB when unpacked, found {size:,.0f} MB",
                    "split the archive",
                )
            if not members:
                raise UserError(str(path), "the archive contains no folder samples/", fix)
            for member in sorted(members, key=lambda member: member.filename):
                yield json_value(archive.read(member))
    except (zipfile.BadZipFile, NotImplementedError, ValueError, OSError) as error:
        raise UserError(str(path), f"the Inspect archive cannot be read: {error}", fix) from None


def inspect_record(sample: ForeignRecord) -> ForeignRecord:
    """Convert an Inspect sample to a record with its id, its input as the prompt, and the model's text as the reply."""
    output = sample.get("output") or {}
    choices = output.get("choices") or []
    text = content_text(choices[0].get("message")) if choices else output.get("completion")
    # An id occurs once per epoch. Only the reply of the first epoch is read.
    return {
        "id": sample.get("id"),
        "prompt": prompt_texts(sample.get("input")),
        "reply": text or "",
        **later_epoch_mark(sample),
    }


def later_epoch_mark(sample: ForeignRecord) -> ForeignRecord:
    """Return `{"left_out": True}` for a sample of any epoch after the first, otherwise an empty mapping."""
    return {"left_out": True} if sample.get("epoch", 1) != 1 else {}


def normalise_record(record: ForeignRecord) -> ForeignRecord:
    """Convert another tool's record to one with `reply`, and with `id` or `prompt`; keep a record in our own format."""
    if "custom_id" in record and ("response" in record or "error" in record):
        response = record.get("response") or {}
        answered = response.get("status_code", 200) == 200 and not record.get("error")
        text = content_text(response.get("body")) if answered else ""
        return {"id": record["custom_id"], "reply": response if text is None and answered else text}
    if "resps" in record and "doc" in record:
        return {"prompt": prompt_texts(first_argument(record.get("arguments"))), "reply": sample_text(record["resps"])}
    messages = record.get("messages")
    if (
        isinstance(messages, list)
        and not {"reply", "replies", "response"} & set(record)
        and ends_with_assistant(messages)
    ):
        return {
            **record,
            "prompt": record.get("prompt") or prompt_texts(messages[:-1]),
            "reply": content_text(messages[-1]),
        }
    for column in ("reply", "replies", "response"):
        content = record.get(column)
        if isinstance(content, dict | list) and (read := reply_texts(content)) is not None:
            return {**record, column: read}
    return record


def sample_text(resps: Any) -> str:
    """Return a sample's text from the `resps` of lm-evaluation-harness. Raises TypeError for log-likelihoods."""
    texts = resps
    while isinstance(texts, list) and texts and isinstance(texts[0], list):
        texts = texts[0]
    if isinstance(texts, list) and len(texts) == 2 and str(texts[1]) in {"True", "False"}:
        raise TypeError("expected text, found likelihoods of choices")
    return str(texts[0] if isinstance(texts, list) and texts else texts or "")


def reply_texts(content: dict[str, Any] | list[Any]) -> str | list[str] | None:
    """Return a reply's text if it is an object, or the text of each of the tutor's messages in a list of messages.

    Returns None for a list of plain strings.
    """
    if isinstance(content, dict):
        return content_text(content)
    if not any(isinstance(part, dict) for part in content):
        return None
    if any(isinstance(part, dict) and "role" in part for part in content):
        spoken = [part for part in content if not isinstance(part, dict) or part.get("role") in TUTOR_ROLES]
        texts = [content_text(part) for part in spoken]
        return [text for text in texts if text is not None] if texts and None not in texts else None
    return content_text({"content": content})


def ends_with_assistant(messages: list[Any]) -> bool:
    """Return True if the last message has the role `assistant`."""
    return bool(messages) and isinstance(messages[-1], dict) and messages[-1].get("role") == "assistant"


def first_argument(arguments: Any) -> Any:
    """Return a sample's prompt from the `arguments` of lm-evaluation-harness: a list of calls, or a mapping of them."""
    while isinstance(arguments, list | dict) and arguments:
        arguments = arguments[0] if isinstance(arguments, list) else next(iter(arguments.values()))
    if isinstance(arguments, str) and arguments.lstrip().startswith('[{"role"'):
        try:
            return json_value(arguments)
        except ValueError:
            return arguments
    return arguments


def prompt_texts(prompt: Any) -> list[str]:
    """Return the texts by which a prompt may be matched to an item, the likeliest first.

    For a string: the string itself. For messages: the joined text of all messages, then the text of the last one.
    """
    if isinstance(prompt, str):
        return [prompt]
    if not isinstance(prompt, list):
        return []
    texts = [text for message in prompt if (text := content_text(message))]
    return list(dict.fromkeys(["\n\n".join(texts), *texts[-1:]])) if texts else []


def content_text(content: Any) -> str | None:
    """Return the text of a message, of a list of content parts, or of an OpenAI completion; None for anything else."""
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        parts = [content_text(part) for part in content if part_type(part) in {None, "text", "output_text", "message"}]
        return "".join(part or "" for part in parts)
    if not isinstance(content, Mapping):
        return None
    if content.get("choices"):
        choice = content["choices"][0]
        return content_text(choice.get("message") or choice.get("text"))
    names = [name for name in ("content", "output", "text") if name in content]
    texts = [content_text(content[name]) for name in names]
    # A message with an empty text is an empty reply. An object without any of these fields is not a reply (None).
    return next((text for text in texts if text), "" if names else None)


def part_type(part: Any) -> str | None:
    """Return the type of a message part, or None if it has no type."""
    return part.get("type") if isinstance(part, Mapping) else None
