"""Replies as other tools write them, evaluation logs, batch outputs, message objects: as `id` or `prompt`, and `reply`.

- lm-evaluation-harness, `--log_samples`: `arguments` (or `doc`) and `resps`, matched by the text of the prompt.
- Inspect: `.eval` archives (a zip with a JSON file a sample) and `.json` logs, by the sample's id or its input.
- OpenAI's batch API: `custom_id`, `response.body`.
- Chat messages: `messages` whose last is the assistant's, or a reply that is a message, a list of parts, a completion.
"""

from __future__ import annotations

import zipfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from maieutic.core.errors import UserError
from maieutic.core.files import MB
from maieutic.core.objects import json_value
from maieutic.datasets.sources import read_source

Record = dict[str, Any]
MOST_MB = 2048  # of an archive, unpacked
FOLDER = "samples/"
SPEAKERS = {"assistant", "model", "tutor", "teacher", "ai", "bot"}  # whose words a reply is


def read_published(path: Path) -> list[Any]:
    """Read a file of replies in any of these forms; a record of one's own stays as it is.

    Raises UserError for a file that is none of them.
    """
    if path.suffix == ".eval":
        return read_each(path, list(samples_of(path)), inspect_record)
    if path.suffix == ".json" and (log := inspect_log(path)) is not None:
        return read_each(path, log, inspect_record)
    return read_each(path, read_source(path, path.suffix[1:], str(path), own=True), as_ours)


def read_each(path: Path, records: list[Any], read: Callable[[Record], Record]) -> list[Any]:
    """Read every record. Raises UserError naming the first that is not of the form that it looks like."""
    made = []
    for number, record in enumerate(records, 1):
        try:
            made.append(read(record) if isinstance(record, dict) else record)
        except (AttributeError, IndexError, KeyError, TypeError) as error:
            problem = f"not in the form that it looks like: {type(error).__name__}: {error}"
            raise UserError(f"{path}, record {number}", problem, "write it as id and reply") from None
    return made


def inspect_log(path: Path) -> list[Record] | None:
    """Return the samples of a log of Inspect in JSON; None for another file."""
    with open(path, "rb") as handle:
        if not handle.read(64).lstrip(b"\xef\xbb\xbf \r\n\t").startswith(b"{"):
            return None
    try:
        content = json_value(path.read_text(encoding="utf-8-sig"))
    except ValueError as error:
        raise UserError(str(path), f"expected JSON, found {error}", "export the file anew") from None
    samples = content.get("samples")
    if not isinstance(samples, list) or "eval" not in content:
        found = ", ".join(list(content)[:8]) or "nothing"
        raise UserError(str(path), f"expected a list of replies or a log of Inspect, found {found}", "write JSON lines")
    return samples


def samples_of(path: Path) -> Iterator[Record]:
    """Yield the samples of an Inspect archive. Raises UserError for a file that is none, or is too large unpacked."""
    mend = "export it with `inspect log convert --to json`, or log it anew"
    try:
        with zipfile.ZipFile(path) as archive:
            members = [one for one in archive.infolist() if one.filename.startswith(FOLDER)]
            if (size := sum(one.file_size for one in members) / MB) > MOST_MB:
                raise UserError(str(path), f"{size:,.0f} MB unpacked, more than {MOST_MB}", "split it")
            if not members:
                raise UserError(str(path), "an archive without samples/", mend)
            for member in sorted(members, key=lambda one: one.filename):
                yield json_value(archive.read(member))
    except (zipfile.BadZipFile, NotImplementedError, ValueError, OSError) as error:
        raise UserError(str(path), f"no archive of Inspect that can be read here: {error}", mend) from None


def inspect_record(sample: Record) -> Record:
    """Return a sample of Inspect: its id, its input, the words of the model."""
    output = sample.get("output") or {}
    choices = output.get("choices") or []
    said = text_of(choices[0].get("message")) if choices else output.get("completion")
    # One id may be of several epochs, of which the first counts.
    return {"id": sample.get("id"), "prompt": prompts_of(sample.get("input")), "reply": said or "", **first_of(sample)}


def first_of(sample: Record) -> Record:
    """Return what marks a sample of a later epoch as one that is left out."""
    return {"left_out": True} if sample.get("epoch", 1) != 1 else {}


def as_ours(record: Record) -> Record:
    """Return a record of another tool with `id` or `prompt` and `reply`; one of ours as it is."""
    if "custom_id" in record and ("response" in record or "error" in record):
        response = record.get("response") or {}
        answered = response.get("status_code", 200) == 200 and not record.get("error")
        said = text_of(response.get("body")) if answered else ""
        return {"id": record["custom_id"], "reply": response if said is None and answered else said}
    if "resps" in record and "doc" in record:
        return {"prompt": prompts_of(first_argument(record.get("arguments"))), "reply": sample_text(record["resps"])}
    messages = record.get("messages")
    if isinstance(messages, list) and not {"reply", "replies", "response"} & set(record) and is_said(messages):
        return {**record, "prompt": record.get("prompt") or prompts_of(messages[:-1]), "reply": text_of(messages[-1])}
    for column in ("reply", "replies", "response"):
        said = record.get(column)
        if isinstance(said, dict | list) and (read := said_in(said)) is not None:
            return {**record, column: read}
    return record


def sample_text(resps: Any) -> str:
    """Return the text of a sample of lm-evaluation-harness. Raises TypeError for likelihoods of choices."""
    said = resps
    while isinstance(said, list) and said and isinstance(said[0], list):
        said = said[0]
    if isinstance(said, list) and len(said) == 2 and str(said[1]) in {"True", "False"}:
        raise TypeError("likelihoods of choices, and no text")
    return str(said[0] if isinstance(said, list) and said else said or "")


def said_in(said: dict[str, Any] | list[Any]) -> str | list[str] | None:
    """Return the text of a reply that is an object, or the texts of a tutor's turns; None where it holds none."""
    if isinstance(said, dict):
        return text_of(said)
    if not any(isinstance(one, dict) for one in said):
        return None
    if any(isinstance(one, dict) and "role" in one for one in said):
        own = [one for one in said if not isinstance(one, dict) or one.get("role") in SPEAKERS]
        texts = [text_of(one) for one in own]
        return [text for text in texts if text is not None] if texts and None not in texts else None
    return text_of({"content": said})


def is_said(messages: list[Any]) -> bool:
    """Return whether messages end with the assistant's."""
    return bool(messages) and isinstance(messages[-1], dict) and messages[-1].get("role") == "assistant"


def first_argument(arguments: Any) -> Any:
    """Return the prompt of a sample of lm-evaluation-harness: a list of calls, or a mapping with a name for each."""
    while isinstance(arguments, list | dict) and arguments:
        arguments = arguments[0] if isinstance(arguments, list) else next(iter(arguments.values()))
    if isinstance(arguments, str) and arguments.lstrip().startswith('[{"role"'):
        try:
            return json_value(arguments)
        except ValueError:
            return arguments
    return arguments


def prompts_of(asked: Any) -> list[str]:
    """Return the texts by which a prompt may be known: as it is; of messages all of them together, and the last."""
    if isinstance(asked, str):
        return [asked]
    if not isinstance(asked, list):
        return []
    texts = [text for message in asked if (text := text_of(message))]
    return list(dict.fromkeys(["\n\n".join(texts), *texts[-1:]])) if texts else []


def text_of(said: Any) -> str | None:
    """Return the text of a message, of a list of parts, or of a completion of OpenAI's APIs; None of anything else."""
    if isinstance(said, str):
        return said
    if isinstance(said, list):
        parts = [text_of(part) for part in said if kind_of(part) in {None, "text", "output_text", "message"}]
        return "".join(part or "" for part in parts)
    if not isinstance(said, Mapping):
        return None
    if said.get("choices"):
        choice = said["choices"][0]
        return text_of(choice.get("message") or choice.get("text"))
    names = [name for name in ("content", "output", "text") if name in said]
    texts = [text_of(said[name]) for name in names]
    # A message without words is an empty reply; an object without any of these is no reply.
    return next((text for text in texts if text), "" if names else None)


def kind_of(part: Any) -> str | None:
    """Return the type of a part of a message; None where it names none."""
    return part.get("type") if isinstance(part, Mapping) else None
