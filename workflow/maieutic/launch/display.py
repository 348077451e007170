"""Display of a run on its terminal: a line per model that changes in place, or a line a minute without a terminal."""

from __future__ import annotations

import atexit
import logging
import os
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import IO, Any

from maieutic.core import paths
from maieutic.core.progress import LiveRow, LiveRun, format_duration, write_unsynced
from maieutic.core.secrets import redact
from maieutic.core.terminal import say
from maieutic.core.visible import terminal_text
from maieutic.launch.watch import Row, RunWatch

STDERR = 2  # file descriptor
RESTORE_SECONDS = 1.0
READ_SECONDS = 2.0  # time between two readings of the progress files, in seconds
LINE_SECONDS = 60.0  # time between two lines without a terminal, in seconds
SPARE_LINES = 4  # lines of the terminal that the display leaves free
MOST_NAME_CHARS = 24  # characters of a model's name
# Beginnings of Snakemake's messages about jobs that failed before
FAILED_RUN = ("Exiting because a job execution failed", "WorkflowError:\nAt least one job did not complete")


class TerminalLines:
    """Standard error of this process and of all that it starts, line by line, so that no text disturbs the display.

    Before a job has opened its log, messages of the shell, the container or the interpreter go to standard error.
    """

    def __init__(self) -> None:
        sys.stderr.flush()
        self.terminal: IO[str] = os.fdopen(os.dup(STDERR), "w", encoding="utf-8", errors="replace")
        self.source, target = os.pipe()
        os.dup2(target, STDERR)
        os.close(target)
        self.thread: threading.Thread | None = None

    def forward(self, show: Callable[[str], object]) -> None:
        """Show each line from now on. show: function that shows a line above the display."""
        self.thread = threading.Thread(target=self.read, args=(show,), name="standard error", daemon=True)
        self.thread.start()

    def read(self, show: Callable[[str], object]) -> None:
        """Show lines until all writers have ended."""
        with open(self.source, encoding="utf-8", errors="replace") as lines:
            for line in lines:
                show(terminal_text(line.rstrip("\n")))

    def restore(self) -> None:
        """Write to the terminal again. Further calls do nothing."""
        if self.thread is None:
            return
        sys.stderr.flush()
        os.dup2(self.terminal.fileno(), STDERR)
        self.thread.join(RESTORE_SECONDS)  # a process that still runs may have the pipe
        self.thread = None


class RunDisplay:
    """Display of a run on the terminal. One thread of Snakemake's process draws it; jobs write only files."""

    def __init__(self, watch: RunWatch, is_terminal: bool, reasons: Mapping[int, str]) -> None:
        """reasons: messages of the executor about failed jobs, by job number."""
        self.watch, self.reasons, self.began = watch, reasons, time.monotonic()
        self.lock = threading.Lock()
        self.lines = TerminalLines() if is_terminal else None
        self.live: Any = self.open_live(self.lines) if self.lines is not None else None
        self.ended = threading.Event()
        self.thread = threading.Thread(target=self.refresh, name="display", daemon=True)
        self.thread.start()
        self.is_told_ended = False
        atexit.register(self.close)  # shows the cursor again, also after Ctrl-C

    def open_live(self, lines: TerminalLines) -> Any:
        """Return rich's display, which keeps the lines that are written meanwhile above it."""
        from rich.console import Console
        from rich.live import Live

        console = Console(file=lines.terminal, highlight=False)
        live = Live(console=console, auto_refresh=False, transient=True, redirect_stdout=False, redirect_stderr=False)
        live.start()
        lines.forward(lambda line: console.out(line, highlight=False))
        return live

    def refresh(self) -> None:
        """Read the progress files and draw the display until the run ends. A fault ends only the display."""
        try:
            self.refresh_until_end()
        except Exception as error:
            say(f"the progress is no longer shown ({type(error).__name__}: {error}); the run goes on", error=True)
            self.close_terminal()

    def close_terminal(self) -> None:
        """Remove the display from the terminal, and let all processes write to it again."""
        if self.lines is not None:
            self.lines.restore()
        if self.live is not None:
            self.live.stop()
            self.live = None

    def refresh_until_end(self) -> None:
        """Read the progress files and draw the display every READ_SECONDS."""
        next_line = time.monotonic() + LINE_SECONDS
        while not self.ended.wait(READ_SECONDS):
            with self.lock:
                notices = self.watch.read()
                rows = self.watch.rows()
                head = self.watch.head(rows)
                self.draw(rows, head)
                self.write_state(rows, head)
            for notice in notices:
                self.show(f"warning: {notice}")
            if self.live is None and time.monotonic() >= next_line:
                next_line += LINE_SECONDS
                self.show(f"{time.strftime('%H:%M')} {head}")

    def write_last_state(self, page: str | None = None) -> None:
        """Write the state of the ended run for the live page. page: the report, if it was written."""
        rows = self.watch.rows()
        self.write_state(rows, self.watch.head(rows), ended=True, page=page)
        self.is_told_ended = True

    def write_state(self, rows: Sequence[Row], head: str, ended: bool = False, page: str | None = None) -> None:
        """Write the state of the run for the live page."""
        live_rows = [
            LiveRow(name=row.name, text=row_text(row), done=row.done, total=row.total, is_running=row.is_running)
            for row in rows
        ]
        failures = [redact(line) for line in self.watch.failures.values()]
        notices = [redact(notice) for notice in self.watch.notices]
        state = LiveRun(
            time=time.time(), ended=ended, head=head, rows=live_rows, failures=failures, notices=notices, page=page
        )
        write_unsynced(Path(paths.LIVE_STATE), state.model_dump_json())

    def draw(self, rows: Sequence[Row], head: str) -> None:
        """Draw the display on a terminal."""
        if self.live is not None:
            self.live.update(self.view(rows, head), refresh=True)

    def view(self, rows: Sequence[Row], head: str) -> Any:
        """Return the table that the terminal shows: the state of the run, and a line for each model."""
        from rich.table import Table
        from rich.text import Text

        room = max(self.live.console.size.height - SPARE_LINES, 1)
        table = Table.grid(padding=(0, 2))
        table.add_column(no_wrap=True, min_width=min(max((len(row.name) for row in rows), default=7), MOST_NAME_CHARS))
        table.add_column(no_wrap=True, overflow="ellipsis")
        elapsed = format_duration(time.monotonic() - self.began)
        table.add_row(Text(elapsed, style="bold"), Text(terminal_text(head)))
        # Models at work come first, then those that wait, then finished ones.
        listed = sorted(rows, key=lambda row: (not row.is_running, row.jobs_done == row.jobs))[:room]
        for row in listed:
            style = "" if row.is_running else "dim"
            table.add_row(Text(row.name, style=style), Text(terminal_text(row_text(row)), style=style))
        if hidden := len(rows) - len(listed):
            table.add_row("", Text(f"and {hidden} more", style="dim"))
        return table

    def show(self, line: str) -> None:
        """Print a line above the display."""
        say(redact(line), error=True)

    def emit(self, record: logging.LogRecord) -> None:
        """Show a log record of Snakemake, if the run shows its content in no other way."""
        event = str(getattr(record, "event", None) or "")
        lines: list[str] = []
        with self.lock:
            if event == "job_started":
                jobs = getattr(record, "jobs", None) or []
                self.watch.start([jobs] if isinstance(jobs, int) else jobs)
            elif event == "group_info":  # jobs of one submission: no other event reports their start
                self.watch.start(job.jobid for job in getattr(record, "jobs", ()))
            elif event == "job_finished":
                self.watch.finish(getattr(record, "job_id", -1))
            elif event == "job_error":
                lines = self.watch.fail(getattr(record, "jobid", -1), self.reasons)
        message = record.getMessage()
        is_told = event in {"job_error", "group_error", "job_info"} or message.startswith(FAILED_RUN)
        if record.levelno >= logging.WARNING and not is_told and "returned non-zero exit status" not in message:
            lines.append(message)
        for line in lines:
            self.show(line)

    def end(self) -> None:
        """Remove the display, before the last lines of the run."""
        if self.ended.is_set():
            return
        self.ended.set()
        self.thread.join(READ_SECONDS)
        for notice in self.watch.read():
            self.show(f"warning: {notice}")
        self.close_terminal()

    def close(self) -> None:
        """End the display of a run whose last state was not written, as after Ctrl-C."""
        self.end()
        if not self.is_told_ended:
            self.write_last_state()


def row_text(row: Row) -> str:
    """Return the counts of a model, with its jobs if it has several."""
    jobs = f", {row.jobs_done} of {row.jobs} jobs" if row.jobs > 1 else ""
    return f"{row.text()}{jobs}"
