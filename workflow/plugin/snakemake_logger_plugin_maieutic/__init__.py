"""Logger plugin of Snakemake: it alone writes to the terminal of a run.

Until the workflow's package is loaded, only errors are shown. A run then attaches its display
(`maieutic.launch.display`). The plugin has a folder of its own, because Snakemake imports it before it knows which copy
of the package the rules use.
"""

from __future__ import annotations

import logging
import sys
from typing import Any

from snakemake.logging import ColorizingTextHandler, DefaultFilter, DefaultFormatter
from snakemake_interface_logger_plugins.base import LogHandlerBase

# Messages of Snakemake that say nothing about the run
PREAMBLE = (
    "Assuming unrestricted shared filesystem",
    "host:",
    "Building DAG of jobs",
    "Using shell",
    "Provided ",
    "Rules claiming more threads",
    "Select jobs to execute",
    "Execute ",
    "Conda environments",
    "Singularity containers",
    "Complete log",
    "SLURM run ID",
    "Using logger plugin",
)
ABOVE = "\n    (check individual jobs above for details)"  # part of the reasons of a dry run, which lists no jobs here
IN_RULES = "WorkflowError in "  # begins the place of an error in the rules
LOCK = "Directory cannot be locked"  # begins Snakemake's message if another run, or a killed one, has the folder
LOCK_FIX = (
    "this folder is locked by another run, or by one that was killed. Fix: wait for the other run, or after a kill run "
    "`maieutic recover` (in a checkout: `make recover`), then run again: finished work is kept"
)
DRY_RUN_EVENTS = {"run_info"}


class LogHandler(LogHandlerBase):
    """Handler of all log records of Snakemake."""

    def __post_init__(self) -> None:
        settings = self.common_settings
        self.display: Any = None
        self.kept: list[logging.LogRecord] = []
        self.has_failed = False
        self.is_loud = settings.verbose or settings.printshellcmds or settings.debug_dag
        stream = sys.stdout if settings.stdout else sys.stderr
        self.plain = ColorizingTextHandler(nocolor=settings.nocolor, stream=stream)
        self.plain.setFormatter(DefaultFormatter(settings.quiet, settings.show_failed_logs))
        self.plain.addFilter(
            DefaultFilter(
                settings.quiet, settings.debug_dag, settings.verbose, settings.dryrun, settings.printshellcmds
            )
        )

    def attach(self, display: Any) -> None:
        """Show the run by a display from now on. What was kept until now is not shown."""
        self.kept, self.display = [], display

    def emit(self, record: logging.LogRecord) -> None:
        """Show a record, or keep it until it is known whether there will be a run."""
        try:
            self.show(record)
        except Exception:  # the thread of this handler must go on
            self.handleError(record)

    def show(self, record: logging.LogRecord) -> None:
        """Show a record, or keep it."""
        if self.is_loud or (self.display is None and record.levelno >= logging.WARNING):
            self.has_failed = self.has_failed or record.levelno >= logging.ERROR
            self.plain.handle(record if self.is_loud else readable(record))
        if self.display is not None and not self.is_loud:
            self.display.emit(record)
        elif not self.is_loud and record.levelno < logging.WARNING:
            self.kept.append(record)

    def close(self) -> None:
        """Show what was kept, if there was no run: for example that nothing is to be done. End the display."""
        if self.display is not None:
            self.display.close()
        messages: set[str] = set()  # Snakemake repeats the numbers of jobs at the end of a dry run
        for record in () if self.has_failed else self.kept:
            event, message = getattr(record, "event", None), str(record.getMessage())
            if (
                (event is None or str(event) in DRY_RUN_EVENTS)
                and not message.startswith(PREAMBLE)
                and message not in messages
            ):
                messages.add(message)
                record.msg = message.replace(ABOVE, "")
                self.plain.handle(record)
        self.kept = []
        super().close()

    @property
    def writes_to_stream(self) -> bool:
        """True, because no other handler may write to the terminal."""
        return True

    @property
    def writes_to_file(self) -> bool:
        """False; the complete log in `.snakemake/log` is written by Snakemake."""
        return False

    @property
    def has_filter(self) -> bool:
        """True, so that every record arrives."""
        return True

    @property
    def has_formatter(self) -> bool:
        """True, because records are formatted here."""
        return True

    @property
    def needs_rulegraph(self) -> bool:
        """False: the graph of the rules is not drawn."""
        return False


def readable(record: logging.LogRecord) -> logging.LogRecord:
    """Return a record of an error without places in the rules, and with the package's own fix for a locked folder."""
    message = record.getMessage()
    if LOCK in message:
        message = LOCK_FIX
    elif message.startswith(IN_RULES):
        lines = message.splitlines()[1:]
        message = "\n".join(line for line in lines if not line.startswith("  File ")) or message
    else:
        return record
    return logging.makeLogRecord({"levelno": record.levelno, "levelname": record.levelname, "msg": message})
