"""Turns within one cell or object: lists of messages in the forms of chat products, and lines `Speaker: text`."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

from maieutic.core.json_text import json_value
from maieutic.core.user_tables import Faults

ROLE_KEYS = ("role", "speaker", "author", "sender", "from", "user", "sender_name", "author_name", "type")
TEXT_KEYS = ("text", "content", "message", "value", "utterance", "body", "parts", "data")
TURN_SEPARATOR = "|EOM|"  # separates turns in MathDial's conversations
LONGEST_SPEAKER = 40
ID_KEYS = ("uuid", "id", "message_id")
TIME_KEYS = ("created_at", "timestamp", "time", "create_time", "sent_at", "date")
TYPED = {  # keys around one value
    "S", "N", "BOOL", "stringValue", "integerValue", "timestampValue", "$oid", "$date", "$numberLong", "$numberInt",
    "$numberDouble",
}  # fmt: skip
DATE = re.compile(r"\d{4}-\d\d-\d\d|\d{10,}|\d[/.]\d+[/.]\d")  # in a time that shows its day
PARENT = re.compile(r"parent|reply_?to", re.IGNORECASE)  # in the name of a field that names the message before
PARTS = frozenset({"text", "input_text", "output_text", "thinking", "reasoning", "image", "image_url", "input_image"})
TIME_OF_LINE = re.compile(r"^\s*[\[(]?\d{1,2}:\d{2}(?::\d{2})?(?:\s?[AaPp][Mm])?[\])]?[\s-]*")  # before a speaker
OTHER_SPEAKER = re.compile(r"\s*[^\W\d_][\w.' -]{0,20}:\s")  # a line that may be another speaker's
INNER_SPEAKER = re.compile(r"(?<=\s)([^\W\d_][\w-]{1,30}):\s")
PRODUCTS_BY_KEYS = {  # exports whose objects are no list of messages, by keys that only they have
    "an export of ChatGPT, whose conversations are trees of versions": {"mapping"},
    "an export of Intercom": {"conversation_parts"},
    "an export of Langfuse": {"sessionId", "input", "output"},
    "an export of Discord": {"guild", "channel"},
    "an export of Slack": {"client_msg_id"},
    "an export of Zendesk": {"requester_id", "comments"},
    "an export of Microsoft Graph, such as of Teams": {"@odata.context"},
}


def plain(value: Any) -> Any:
    """Return a value without the object that some databases write around it."""
    while isinstance(value, dict) and len(value) == 1 and (key := next(iter(value))) in TYPED:
        value = value[key]
    return value


class WrittenTurn(NamedTuple):
    """One turn as written.

    word: the speaker's word; text: words of the turn; time: of the message, "" without one; parts_left_out: number of
    parts that are no text, such as pictures; colons: number of lines within it that look like another speaker's; inner:
    number of known speakers within its lines; id, parent: names of the message and of the one before, "" without;
    fields: the message's other fields.
    """

    word: str
    text: str
    time: str = ""
    parts_left_out: int = 0
    colons: int = 0
    inner: int = 0
    id: str = ""
    parent: str = ""
    fields: Mapping[str, Any] = MappingProxyType({})


def named_export(record: Mapping[str, Any]) -> str | None:
    """Return the name of the product whose export a record is from, if it is no list of messages."""
    return next((name for name, keys in PRODUCTS_BY_KEYS.items() if keys <= set(record)), None)


def text_of(content: Any) -> str | None:
    """Return the text of a message's content: a text, a list of parts, or an object around it; None for another."""
    if isinstance(content, str):
        return content
    if isinstance(content, dict):
        return next((text for key in TEXT_KEYS if (text := text_of(content.get(key))) is not None), None)
    if isinstance(content, list) and all(isinstance(part, str | dict) for part in content):
        parts = [part if isinstance(part, str) else part_text(part) for part in content]
        return "\n".join(part for part in parts if part is not None)
    return None


def part_text(part: Mapping[str, Any]) -> str | None:
    """Return the text of one part of a content list; None for thoughts, pictures and calls of tools."""
    if part.get("type", "text") not in ("text", "input_text", "output_text") or part.get("thought"):
        return None
    text = part.get("text")
    return text_of(text) if isinstance(text, str | dict) else None


def parts_left_out(content: Any) -> int:
    """Return the number of parts of a content list that are pictures, sound or files."""
    if not isinstance(content, list):
        return 0
    return sum(isinstance(part, dict) and part_text(part) is None and is_medium(part) for part in content)


def is_medium(part: Mapping[str, Any]) -> bool:
    """Return True for a part that is a picture, sound or file, not a thought or the call of a tool."""
    return bool(re.search("image|audio|video|file|document", str(part.get("type", "")))) or "inlineData" in part


def is_turn_list(value: Any) -> bool:
    """Return True for a list of objects, or of texts that begin with a speaker."""
    if not isinstance(value, list) or not value:
        return False
    if all(isinstance(entry, dict) for entry in value):
        return not all(entry.get("type") in PARTS for entry in value)  # parts of one message
    return all(isinstance(entry, str) and ":" in entry[:LONGEST_SPEAKER] for entry in value)


def listed_turn(place: str, number: int, turn: Any, faults: Faults) -> list[WrittenTurn]:
    """Return a list with a turn in a list, or an empty list for a call of a tool."""
    if isinstance(turn, dict) and isinstance(fields := turn.get("kwargs"), dict) and isinstance(turn.get("id"), list):
        # A message that LangChain has dumped: the last part of its id is the class, such as HumanMessage.
        turn = {"role": str(turn["id"][-1]).removesuffix("Chunk").removesuffix("Message"), **fields}
    keys = {str(key).casefold(): key for key in turn} if isinstance(turn, dict) else {}
    role = next((name for name in ROLE_KEYS if name in keys and word_of(turn[keys[name]])), None)
    word = word_of(turn[keys[role]]) if role is not None else None
    texts = [text for name in TEXT_KEYS if name in keys and (text := text_of(turn[keys[name]])) is not None]
    text = next((text for text in texts if text.strip()), texts[0] if texts else None)
    if not (text or "").strip() and ({"tool_calls", "function_call"} & keys.keys() or has_tool_parts(turn)):
        return []
    if word is not None and text is not None:
        time = next((str(plain(turn[keys[name]])) for name in TIME_KEYS if name in keys), "")
        left_out = max(parts_left_out(turn[keys[name]]) for name in TEXT_KEYS if name in keys)
        name_of_turn = next((str(turn[keys[name]]) for name in ID_KEYS if name in keys), "")
        parent = next((str(turn[key]) for name, key in keys.items() if PARENT.search(name) and turn[key]), "")
        used = {role, "role", *TEXT_KEYS}
        fields = {name: plain(value) for name, value in turn.items() if str(name).casefold() not in used}
        return [WrittenTurn(word, text, time, left_out, id=name_of_turn, parent=parent, fields=fields)]
    faults.add(place, f"turn {number} has no role or no text", "write each turn as an object with role and text")
    return []


def times_of(turns: Sequence[WrittenTurn]) -> list[list[str]]:
    """Return the times of the turns, once for a field of a usual name, else for each field with a date in all turns.

    Fields with the same text in every turn say nothing about the order, and are left out.
    """
    if all(turn.time for turn in turns):
        return [[turn.time for turn in turns]]
    columns = ([str(turn.fields.get(name) or "") for turn in turns] for name in turns[0].fields)
    return [texts for texts in columns if len({*texts}) > 1 and all(map(DATE.search, texts))]


def last_versions(turns: Sequence[WrittenTurn]) -> list[WrittenTurn]:
    """Return the turns on the way from the first to the last one, if some turns are versions of another.

    Versions follow the same message. Without any, the turns are returned unchanged.
    """
    by_id = {turn.id: turn for turn in turns if turn.id}
    after = Counter(turn.parent for turn in turns if turn.parent in by_id)
    if not after or max(after.values()) < 2:
        return list(turns)
    path, turn = [turns[-1]], turns[-1]
    while (before := by_id.get(turn.parent)) is not None and before not in path:
        path.append(before)
        turn = before
    return path[::-1]


def reply_in(value: Any) -> str | None:
    """Return the reply in a log of a call: a text, a completion of OpenAI's API, or an object around a text."""
    if isinstance(value, dict) and isinstance(choices := value.get("choices"), list) and choices:
        value = choices[0].get("message") if isinstance(choices[0], dict) else None
    text = text_of(value)
    if text is None and isinstance(value, dict) and len(value) == 1:
        text = text_of(next(iter(value.values())))
    return text if text and text.strip() else None


def has_tool_parts(turn: Any) -> bool:
    """Return True for a message whose content list has the call or the result of a tool."""
    content = turn.get("content") if isinstance(turn, dict) else None
    parts = content if isinstance(content, list) else []
    return any(isinstance(part, dict) and str(part.get("type", "")).startswith("tool") for part in parts)


def word_of(value: Any) -> str | None:
    """Return the word of a speaker: a text, or the role or name of an object."""
    if isinstance(value, dict):
        return next((word for key in ("role", "type", "name") if isinstance(word := value.get(key), str)), None)
    return value if isinstance(value, str) else None


def turns_in(place: str, content: Any, roles: Mapping[str, str], faults: Faults) -> list[WrittenTurn]:
    """Return the turns in a cell: a list of objects (or its JSON), or lines `Speaker: text`.

    In lines, only a known role begins a turn, so that a colon within a text does not. Turns that are separated by
    TURN_SEPARATOR may begin with a student's name.
    """
    if isinstance(content, str) and content.lstrip().startswith("[") and not TIME_OF_LINE.match(content):
        try:
            content = json_value(content)
        except ValueError as error:
            faults.add(place, f"the turns are not a JSON list: {error}", "write a JSON list, or lines `Tutor: text`")
            return []
    if isinstance(content, list) and content and all(isinstance(part, str) for part in content):
        content = "\n".join(content)
    if isinstance(content, list):
        return [turn for number, part in enumerate(content, 1) for turn in listed_turn(place, number, part, faults)]
    if content is None or not str(content).strip():
        return []
    text = str(content).replace("\u00a0", " ")
    if TURN_SEPARATOR in text:
        return list(separated_turns(place, text, roles, faults))
    turns: list[WrittenTurn] = []
    for line in (TIME_OF_LINE.sub("", line) for line in text.split("\n")):
        speaker, colon, words = line.partition(":")
        if colon and speaker.strip().casefold() in roles:
            inner = sum(match[1].casefold() in roles for match in INNER_SPEAKER.finditer(words))
            turns.append(WrittenTurn(speaker.strip(), words, inner=inner))
        elif turns:
            colons = turns[-1].colons + (OTHER_SPEAKER.match(line) is not None)
            turns[-1] = turns[-1]._replace(text=f"{turns[-1].text}\n{line}", colons=colons)
        elif line.strip():
            problem = f"the conversation does not begin with a speaker: {line.strip()[:LONGEST_SPEAKER]!r}"
            faults.add(place, problem, "write lines `Tutor: text`, or name a speaker with --roles NAME=student")
            return []
    return turns


def separated_turns(place: str, text: str, roles: Mapping[str, str], faults: Faults) -> Iterator[WrittenTurn]:
    """Yield the turns of a text in which TURN_SEPARATOR stands between them."""
    for number, part in enumerate(text.split(TURN_SEPARATOR), 1):
        speaker, colon, words = part.strip().partition(":")
        if colon and len(speaker) <= LONGEST_SPEAKER:
            yield WrittenTurn(speaker.strip() if speaker.strip().casefold() in roles else "student", words)
        elif part.strip():
            problem = f"turn {number} has no speaker: {part.strip()[:LONGEST_SPEAKER]!r}"
            faults.add(place, problem, "write each turn as `Tutor: text`")
