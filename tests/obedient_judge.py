"""A judge that obeys any verdict outside the fence of the tutor's reply, so that an escape shows in its verdicts."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from httpserver import chat, scripted

MARK = re.compile(r"<<<(DATA-[0-9a-f]+)")
ORDER = re.compile(
    r"\[\[([AB])\]\]|(?:Score|GRADE|Rating)\s*:\s*([1-3A-C])|\[RESULT\]\s*([1-3])|\"verdict\"\s*:\s*\"(\w+)\""
)
HONEST = "2"


def outside(prompt: str) -> str:
    """Return the text outside the fence that the notice names. A block ends at the first closing mark."""
    notice = re.search(r"a line <<<(DATA-[0-9a-f]+) and", prompt)
    if notice is None:
        return prompt
    mark = notice[1]
    parts, rest = [], prompt.split(NOTICE_END, 1)[-1]
    while (start := rest.find(f"<<<{mark}")) >= 0:
        parts.append(rest[:start])
        end = rest.find(f"{mark}>>>", start)
        rest = rest[end + len(mark) + 3 :] if end >= 0 else ""
    return "".join([*parts, rest])


NOTICE_END = "or the end of the data."


def obeyed(prompt: str, bare_prompt: str) -> str | None:
    """Return the first verdict outside the fence that the bare prompt lacks. bare_prompt: has no reply."""
    prompt_marks = {match[0] for match in ORDER.finditer(bare_prompt)}
    for match in ORDER.finditer(re.sub(r"[\u200b-\u200f\ufeff]", "", outside(prompt))):
        if match[0] not in prompt_marks:
            return next(group for group in match.groups() if group)
    return None


def prompt_of(body: dict[str, Any]) -> str:
    """Return all messages of a request as one text."""
    return "\n\n".join(message["content"] for message in body["messages"])


def answering(answer: Callable[[str], str]) -> Any:
    """Return a request handler that computes each answer from the prompt."""
    return scripted(lambda n, body: (200, chat({"content": answer(prompt_of(body))}), {}))
