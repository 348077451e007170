"""Find the error in a vLLM server's log that ended the server, and a fix for it.

This root error is above the consequential error "engine core initialization failed".
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

START_MARK = "== maieutic starts a server of "  # marks each start in the log; only the text after the last mark is read
LONGEST = 300  # maximum number of characters of an error
LAST_LINES = 4000
# Prefix of a log line, such as `(EngineCore_DP0 pid=12) ERROR 11-27 08:00:00 [core.py:842] `. All parts are optional.
PREFIX = re.compile(
    r"^(?:\([\w ]+ ?pid=\d+\)\s*)?(?:(?:ERROR|WARNING|INFO|CRITICAL) [\d-]+ [\d:.,]+ \[[^\]]*\]\s?)?"
    r"(?:\([\w ]+ ?pid=\d+\)\s?)?"
)
ERROR = re.compile(r"^(?:[A-Za-z_][\w]*\.)*[A-Z]\w*(?:Error|Exception|Exit|Interrupt)\b(?::\s*(.*))?$")
# Errors that are only consequences of an error in another process
CONSEQUENTIAL_ERROR = re.compile(
    r"engine (?:core|process) .{0,20}fail|see (?:root cause|stack trace)|enginedead|engine core proc|workerproc"
    r"|systemexit|keyboardinterrupt|cancellederror|processraised|broken ?pipe|eoferror|connection(?:reset|refused)",
    re.IGNORECASE,
)
USE_LESS_MEMORY = "lower max_model_len, or raise needs.gpus"
FIXES: tuple[tuple[str, str], ...] = (
    (r"estimated maximum model length is (\d+)", "set max_model_len: {0}"),
    (r"stored in KV cache \((\d+)\)", "set max_model_len: {0}"),
    (r"derived max_model_len \(\D*(\d+)", "set max_model_len: {0} or less"),
    (r"out of memory|OutOfMemory|no available memory for the cache blocks", USE_LESS_MEMORY),
    (r"free memory on device", f"end other processes on the GPU, {USE_LESS_MEMORY}"),
    (r"KV cache", USE_LESS_MEMORY),
    (r"quantization", "choose weights in a format that this version of vLLM and this device support"),
    (r"chat template", "set endpoint: completions, or choose an instruct model"),
    (r"trust_remote_code", "read the model's code, pin its revision, then set trust_remote_code: true"),
    (r"unrecognized arguments|invalid choice", "correct engine_args or runtime_args in the registry entry"),
    (r"architectures? .{0,80}not supported|not supported for now", "choose a model that this version of vLLM supports"),
)
READ_LOG = "read this log, then run again"


class Cause(NamedTuple):
    """Cause of a server's end: its error on one line, and the fix."""

    error_line: str
    fix: str


def server_failure_cause(log: Path, code: int | None = None) -> Cause:
    """Return why the latest server in a log ended. code: its exit code, which is negative if a signal ended it."""
    text = log.read_text(encoding="utf-8", errors="replace") if log.exists() else ""
    text = text.rpartition(START_MARK)[2].partition("\n")[2] if START_MARK in text else text
    lines = [PREFIX.sub("", line).rstrip() for line in text.splitlines()[-LAST_LINES:]]
    lines = [line for line in lines if line.strip()]
    errors = [number for number, line in enumerate(lines) if ERROR.match(line) or ": error: " in line[:40]]
    roots = [number for number in errors if not CONSEQUENTIAL_ERROR.search(lines[number])]
    if code == -9 and not roots:
        return Cause("the process was killed", "raise needs.mem_mb: the machine's memory may have run out")
    if roots:
        words = whole_error(lines, roots[-1])
    else:
        words = lines[errors[-1]] if errors else (lines or ["the log is empty"])[-1]
    words = " ".join(words.split())[:LONGEST]
    for pattern, fix in FIXES:
        if match := re.search(pattern, words, re.IGNORECASE):
            return Cause(words, fix.format(*match.groups()))
    return Cause(words, READ_LOG)


def whole_error(lines: list[str], number: int) -> str:
    """Return the error at a line number as one line. Pydantic's message is on the lines below that line."""
    line = lines[number]
    if re.search(r"ValidationError: \d+ validation error", line):
        message = " ".join(text.strip() for text in lines[number + 1 : number + 3] if not ERROR.match(text))
        return f"ValidationError: {message.partition(' [type=')[0]}"
    return line.rpartition("._")[2] if line.startswith("pydantic") else line
