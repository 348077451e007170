"""Markdown pages as blocks of text."""

from __future__ import annotations

import re


def blocks(text: str) -> list[str]:
    """Return the paragraphs, bullets and table rows of a page, each on one line; no code, headings or table heads."""
    result: list[str] = []
    pending: list[str] = []
    fenced = False

    def end_block() -> None:
        if pending:
            result.append(" ".join(" ".join(pending).split()))
            pending.clear()

    lines = [line.strip() for line in text.split("\n")]
    for number, line in enumerate(lines):
        if line.startswith("```"):
            fenced = not fenced
        if fenced or not line or line.startswith(("#", "```", "|", "<!--")):
            end_block()
        if fenced or not line or line.startswith(("#", "```", "<!--")):
            continue
        if line.startswith("|"):
            near = lines[number : number + 2]
            result += [] if any(re.fullmatch(r"\|[|\s:-]+", row) for row in near) else [line]
            continue
        if re.match(r"(?:[-*]|\d+\.)\s", line):
            end_block()
        pending.append(line)
    end_block()
    return result
