"""One logging helper: everything into the rule's log, progress on the terminal too."""

from __future__ import annotations

import logging
import os
import sys
from pathlib import Path
from typing import Any

from maieutic.core.secrets import redacted

FORMAT = "%(asctime)s %(levelname)s %(message)s"
LONGEST = 300  # characters of an error on the terminal
LOG_ALONE = "log_alone"  # attribute of records that a rule's log has and the terminal has not


class WithoutSecrets(logging.Formatter):
    """Records and tracebacks in which no key of an endpoint stands."""

    def format(self, record: logging.LogRecord) -> str:
        return redacted(super().format(record))


class OnTerminal(WithoutSecrets):
    """Records in one line each: of an error its kind and words, without the traceback, which the rule's log has."""

    def __init__(self, log: Path) -> None:
        super().__init__(FORMAT, "%H:%M:%S")
        self.log = log

    def formatException(self, ei: Any) -> str:
        return ""

    def format(self, record: logging.LogRecord) -> str:
        kept, record.exc_text = record.exc_text, None
        line = super().format(record).rstrip("\n")
        record.exc_text = kept
        if record.exc_info and record.exc_info[1] is not None:
            error = record.exc_info[1]
            words = redacted(" ".join(str(error).split()))[:LONGEST]
            line += f": {type(error).__name__}: {words} (traceback: {self.log})"
        return line


def belongs_on_terminal(record: logging.LogRecord) -> bool:
    """Return whether a record is for the terminal too; see LOG_ALONE."""
    return not getattr(record, LOG_ALONE, False)


def log_to(path: Path | None) -> None:
    """Send stdout and stderr, those of child processes too, to the rule's log; log records go to the terminal as well.

    Without a path (a person at the command line) everything stays on the terminal.
    """
    root = logging.getLogger()
    root.setLevel(logging.INFO)
    for chatty in ("aiohttp", "asyncio", "urllib3"):
        logging.getLogger(chatty).setLevel(logging.WARNING)
    handlers: list[logging.Handler] = []
    if path is not None:
        path.parent.mkdir(parents=True, exist_ok=True)
        terminal = os.fdopen(os.dup(2), "w", buffering=1)
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND, 0o644)
        os.dup2(handle, 1)
        os.dup2(handle, 2)
        shown = logging.StreamHandler(terminal)
        shown.addFilter(belongs_on_terminal)
        shown.setFormatter(OnTerminal(path))
        handlers.append(shown)
    kept = logging.StreamHandler(sys.stderr)
    kept.setFormatter(WithoutSecrets(FORMAT, "%H:%M:%S"))
    for handler in (*handlers, kept):
        root.addHandler(handler)
