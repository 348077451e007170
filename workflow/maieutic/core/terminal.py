"""Output of commands on the terminal. Texts of endpoints and files may contain control characters; they are shown."""

from __future__ import annotations

import sys

from maieutic.core.visible import terminal_text


def say(*words: object, error: bool = False) -> None:
    """Print words on the terminal, with visible signs for control characters. error: True for standard error."""
    print(terminal_text(" ".join(map(str, words))), file=sys.stderr if error else sys.stdout)
