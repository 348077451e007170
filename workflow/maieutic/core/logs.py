"""Logging set-up: the log of a rule receives all output, the terminal receives only log records."""

from __future__ import annotations

import logging
import os
import sys
from pathlib import Path
from typing import Any

from maieutic.core.progress import PROGRESS_FILE, progress_path
from maieutic.core.secrets import redact
from maieutic.core.visible import terminal_line, terminal_text

FORMAT = "%(asctime)s %(levelname)s %(message)s"
LONGEST = 300  # maximum length of an error message on the terminal, in characters
LOG_ONLY = "log_alone"  # attribute of log records that are not shown on the terminal
# Environment variable that is set if Snakemake's own process shows the jobs' progress and warnings on the terminal
ONE_WRITER_VARIABLE = "MAIEUTIC_ONE_WRITER"


class RedactingFormatter(logging.Formatter):
    """Formatter that redacts API keys in records and tracebacks, and shows control characters by visible signs.

    A message is one line, so that no text of an endpoint can look like another record.
    """

    def formatMessage(self, record: logging.LogRecord) -> str:
        record.message = terminal_line(record.message)
        return super().formatMessage(record)

    def format(self, record: logging.LogRecord) -> str:
        return terminal_text(redact(super().format(record)))


class TerminalFormatter(RedactingFormatter):
    """Formatter of one-line records. For an error, it shows type and message, and the log that has the traceback."""

    def __init__(self, log: Path) -> None:
        super().__init__(FORMAT, "%H:%M:%S")
        self.log = log

    def formatException(self, ei: Any) -> str:
        return ""

    def format(self, record: logging.LogRecord) -> str:
        traceback, record.exc_text = record.exc_text, None
        line = super().format(record).rstrip("\n")
        record.exc_text = traceback
        if record.exc_info and record.exc_info[1] is not None:
            error = record.exc_info[1]
            message = terminal_line(redact(" ".join(str(error).split())))[:LONGEST]
            line += f": {type(error).__name__}: {message} (traceback: {self.log})"
        return line


class ProgressHandler(logging.Handler):
    """Handler that passes the package's log lines to the job's progress file, from which the run's terminal shows them.

    Errors are left out, because the run shows them with the failed job.
    """

    def emit(self, record: logging.LogRecord) -> None:
        """Pass on the record's message."""
        if not record.name.startswith("maieutic") or record.levelno > logging.WARNING:
            return
        line = terminal_line(redact(record.getMessage()))
        PROGRESS_FILE.note(line, is_warning=record.levelno == logging.WARNING)


def belongs_on_terminal(record: logging.LogRecord) -> bool:
    """Return True if a log record is also shown on the terminal, that is, if it lacks the attribute LOG_ONLY."""
    return not getattr(record, LOG_ONLY, False)


def log_to(path: Path | None) -> None:
    """Redirect stdout and stderr, those of child processes included, to the log of a rule.

    Log records also go to the terminal, or to the job's progress file if only the run writes to the terminal. If `path`
    is None (an interactive command), all output goes to the terminal.
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
        if (progress := progress_path(path)) is not None:
            PROGRESS_FILE.open(progress)
        has_one_writer = bool(os.environ.get(ONE_WRITER_VARIABLE)) and progress is not None
        elsewhere = ProgressHandler() if has_one_writer else logging.StreamHandler(terminal)
        elsewhere.addFilter(belongs_on_terminal)
        elsewhere.setFormatter(TerminalFormatter(path))
        handlers.append(elsewhere)
    on_stderr = logging.StreamHandler(sys.stderr)
    on_stderr.setFormatter(RedactingFormatter(FORMAT, "%H:%M:%S"))
    for handler in (*handlers, on_stderr):
        root.addHandler(handler)
