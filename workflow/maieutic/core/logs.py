"""One logging helper: everything into the rule's log, progress on the terminal too."""

from __future__ import annotations

import logging
import os
import sys
from pathlib import Path

from maieutic.core.secrets import redacted

FORMAT = "%(asctime)s %(levelname)s %(message)s"


class WithoutSecrets(logging.Formatter):
    """Records and tracebacks in which no key of an endpoint stands."""

    def format(self, record: logging.LogRecord) -> str:
        return redacted(super().format(record))


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
        handlers.append(logging.StreamHandler(terminal))
    handlers.append(logging.StreamHandler(sys.stderr))
    for handler in handlers:
        handler.setFormatter(WithoutSecrets(FORMAT, "%H:%M:%S"))
        root.addHandler(handler)
