"""Read replies in other tools' formats. Each reply is converted to a record with `reply`, and with `id` or `prompt`.

- lm-evaluation-harness with `--log_samples`: `arguments` and `resps`. Samples are matched to items by the prompt.
- Inspect: `.eval` archives (zip files with one JSON file per sample) and `.json` logs. Samples are matched by their id
  or input.
- OpenAI's batch API: `custom_id` and `response.body`.
- Chat messages: `messages`, the last of which is the assistant's reply.
- A reply in the form of a message, a list of content parts, or a completion.

A benchmark describes the format in which its authors release replies by a RecordedForm.
"""

from __future__ import annotations

import zipfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from maieutic.core.errors import UserError
from maieutic.core.files import MB
from maieutic.core.json_text import json_value
from maieutic.core.records import Item
from maieutic.datasets.sources import read_source

RecordedRecord = Mapping[str, Any]


class RecordedForm(NamedTuple):
    """Format of a benchmark's files of recorded replies.

    task_of: function that returns the task of a file, given its path; tutors: function that maps each tutor in a record
    to its reply; item: function that returns a record's item, with the variables for its prompt; several: True if a
    file contains the replies of several tutors.
    """

    benchmark: str
    task_of: Callable[[Path], str]
    tutors: Callable[[RecordedRecord], Mapping[str, str]]
    item: Callable[[RecordedRecord], Item]
    several: bool = True


ForeignRecord = dict[str, Any]
MAX_UNPACKED_MB = 2048  # maximum size of an archive in MB when unpacked
SAMPLES_FOLDER = "samples/"
TUTOR_ROLES = {"assistant", "model", "tutor", "teacher", "ai", "bot"}  # roles that mark a message as the tutor's


def read_foreign_replies(path: Path) -> list[Any]:
    """Read a file of replies in any format of this module. Records in Maieutic's own format are returned unchanged.

    Raises UserError if the file is not in one of these formats.
    """
    if path.suffix == ".eval":
        return read_each(path, list(archive_samples(path)), inspect_record)
    if path.suffix == ".json" and (log := inspect_log(path)) is not None:
        return read_each(path, log, inspect_record)
    return read_each(path, read_source(path, path.suffix[1:], str(path), user_file=True), normalise_record)


def read_each(path: Path, records: list[Any], read: Callable[[ForeignRecord], ForeignRecord]) -> list[Any]:
    """Convert every record with `read`. Raises UserError for the first malformed one, and for several choices."""
    replies = []
    if several := sum(has_choices(record) for record in records if isinstance(record, dict)):
        problem = f"{several:,} records have several choices for one request"
        raise UserError(str(path), problem, "keep one choice in each record")
    for number, record in enumerate(records, 1):
        try:
            replies.append(read(record) if isinstance(record, dict) else record)
        except (AttributeError, IndexError, KeyError, TypeError) as error:
            problem = f"the record has fields of a known format but cannot be read: {type(error).__name__}: {error}"
            raise UserError(f"{path}, record {number}", problem, "write records with the fields id and reply") from None
    return replies


def has_choices(record: Mapping[str, Any]) -> bool:
    """Return True if a record, or a completion within it, has more than one choice."""
    response = record.get("response")
    body = response.get("body") if isinstance(response, dict) else None
    return any(
        isinstance(part, dict) and isinstance(part.get("choices"), list) and len(part["choices"]) > 1
        for part in (record, record.get("reply"), response, body)
    )


def inspect_log(path: Path) -> list[ForeignRecord] | None:
    """Return the samples of an Inspect log in JSON, or None if the file does not contain a JSON object."""
    with open(path, "rb") as handle:
        if not handle.read(64).lstrip(b"\xef\xbb\xbf \r\n\t").startswith(b"{"):
            return None
    try:
        content = json_value(path.read_text(encoding="utf-8-sig"))
    except ValueError as error:
        raise UserError(str(path), f"the file is not valid JSON: {error}", "export the file again") from None
    samples = content.get("samples")
    if not isinstance(samples, list) or "eval" not in content:
        keys = ", ".join(list(content)[:8]) or "none"
        problem = f"expected a list of replies or a log of Inspect, found an object with the keys: {keys}"
        raise UserError(str(path), problem, "save the replies as JSON lines")
    return samples


def archive_samples(path: Path) -> Iterator[ForeignRecord]:
    """Yield the samples of an Inspect archive. Raises UserError if the file is not an archive, or is too large."""
    fix = "export the log with `inspect log convert --to json`, or run the evaluation again"
    try:
        with zipfile.ZipFile(path) as archive:
            members = [member for member in archive.infolist() if member.filename.startswith(SAMPLES_FOLDER)]
            if (size := sum(member.file_size for member in members) / MB) > MAX_UNPACKED_MB:
                raise UserError(
                    str(path),
                    f"expected an archive of at most {MAX_UNPACKED_MB} MB when unpacked, found {size:,.0f} MB",
                    "split the archive",
                )
            if not members:
                raise UserError(str(path), "the archive contains no files in the folder samples/", fix)
            for member in sorted(members, key=lambda member: member.filename):
                yield json_value(archive.read(member))
    except (zipfile.BadZipFile, NotImplementedError, ValueError, OSError) as error:
        raise UserError(str(path), f"the Inspect archive cannot be read: {error}", fix) from None


def inspect_record(sample: ForeignRecord) -> ForeignRecord:
    """Convert an Inspect sample to a record: its id, its input as `prompt`, and the model's output as `reply`."""
    output = sample.get("output") or {}
    choices = output.get("choices") or []
    text = content_text(choices[0].get("message")) if choices else output.get("completion")
    # A sample's id occurs once per epoch, and only the reply of the first epoch is used.
    return {
        "id": sample.get("id"),
        "prompt": prompt_texts(sample.get("input")),
        "reply": text or "",
        **later_epoch_mark(sample),
    }


def later_epoch_mark(sample: ForeignRecord) -> ForeignRecord:
    """Return `{"left_out": True}` for a sample of a later epoch than the first, and an empty mapping otherwise."""
    return {"left_out": True} if sample.get("epoch", 1) != 1 else {}


def normalise_record(record: ForeignRecord) -> ForeignRecord:
    """Convert another tool's record to one with `reply`, and with `id` or `prompt`.

    A record in Maieutic's own format is returned unchanged.
    """
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
    """Return the reply's text in the field `resps` of lm-evaluation-harness. Raises TypeError for log-likelihoods."""
    texts = resps
    while isinstance(texts, list) and texts and isinstance(texts[0], list):
        texts = texts[0]
    if isinstance(texts, list) and len(texts) == 2 and str(texts[1]) in {"True", "False"}:
        raise TypeError("expected text, found log-likelihoods of choices")
    return str(texts[0] if isinstance(texts, list) and texts else texts or "")


def reply_texts(content: dict[str, Any] | list[Any]) -> str | list[str] | None:
    """Return the text of a reply that is not plain text, or a list with the text of each tutor message.

    content: a message, a completion, a list of content parts, or a list of messages. For a list of plain strings, or if
    a tutor message has no text, returns None.
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
    """Return the prompt in the field `arguments` of lm-evaluation-harness: the first argument of the first call."""
    while isinstance(arguments, list | dict) and arguments:
        arguments = arguments[0] if isinstance(arguments, list) else next(iter(arguments.values()))
    if isinstance(arguments, str) and arguments.lstrip().startswith('[{"role"'):
        try:
            return json_value(arguments)
        except ValueError:
            return arguments
    return arguments


def prompt_texts(prompt: Any) -> list[str]:
    """Return the texts that may match the prompt of an item, the likeliest first.

    For a string, this is the string itself. For a list of messages, it is the joined text of all messages, and then the
    text of the last message.
    """
    if isinstance(prompt, str):
        return [prompt]
    if not isinstance(prompt, list):
        return []
    texts = [text for message in prompt if (text := content_text(message))]
    return list(dict.fromkeys(["\n\n".join(texts), *texts[-1:]])) if texts else []


def content_text(content: Any) -> str | None:
    """Return the text of a message, a list of content parts, or an OpenAI completion, and None for anything else."""
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
    # A message with an empty text is an empty reply. An object without any of these fields is not a reply.
    return next((text for text in texts if text), "" if names else None)


def part_type(part: Any) -> str | None:
    """Return the type of a content part, or None if the part has no type."""
    return part.get("type") if isinstance(part, Mapping) else None
