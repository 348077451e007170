"""Find in a vLLM server's log why it ended: the error above "engine core initialization failed", and what helps."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

STARTED = "== maieutic starts a server of "  # a log may have several starts: the last one counts
LONGEST = 300  # characters
LAST_LINES = 4000
# `(EngineCore_DP0 pid=12) ERROR 11-27 08:00:00 [core.py:842] `, in any part
PREFIX = re.compile(
    r"^(?:\([\w ]+ ?pid=\d+\)\s*)?(?:(?:ERROR|WARNING|INFO|CRITICAL) [\d-]+ [\d:.,]+ \[[^\]]*\]\s?)?"
    r"(?:\([\w ]+ ?pid=\d+\)\s?)?"
)
ERROR = re.compile(r"^(?:[A-Za-z_][\w]*\.)*[A-Z]\w*(?:Error|Exception|Exit|Interrupt)\b(?::\s*(.*))?$")
# What follows from another process's error.
FOLLOWS = re.compile(
    r"engine (?:core|process) .{0,20}fail|see (?:root cause|stack trace)|enginedead|engine core proc|workerproc"
    r"|systemexit|keyboardinterrupt|cancellederror|processraised|broken ?pipe|eoferror|connection(?:reset|refused)",
    re.IGNORECASE,
)
SHORTER = "lower max_model_len, or raise needs.gpus"
FIXES: tuple[tuple[str, str], ...] = (
    (r"estimated maximum model length is (\d+)", "set max_model_len: {0}"),
    (r"stored in KV cache \((\d+)\)", "set max_model_len: {0}"),
    (r"derived max_model_len \(\D*(\d+)", "set max_model_len: {0} or less"),
    (r"out of memory|OutOfMemory|no available memory for the cache blocks", SHORTER),
    (r"free memory on device", f"end what else runs on the GPU, {SHORTER}"),
    (r"KV cache", SHORTER),
    (r"quantization", "name weights in a form that this vLLM and this device take"),
    (r"chat template", "set endpoint: completions, or name an instruct model"),
    (r"trust_remote_code", "read the model's code, pin its revision, then set trust_remote_code: true"),
    (r"unrecognized arguments|invalid choice", "mend engine_args or runtime_args of the entry"),
    (r"architectures? .{0,80}not supported|not supported for now", "name a model that this vLLM supports"),
)
READ = "read this log, then run again"


class Cause(NamedTuple):
    """Why a server ended: its error in one line, and what to do."""

    words: str
    fix: str


def cause_of(log: Path, code: int | None = None) -> Cause:
    """Return why the last server of a log ended. code: of its process, negative for a signal."""
    text = log.read_text(encoding="utf-8", errors="replace") if log.exists() else ""
    text = text.rpartition(STARTED)[2].partition("\n")[2] if STARTED in text else text
    lines = [PREFIX.sub("", line).rstrip() for line in text.splitlines()[-LAST_LINES:]]
    lines = [line for line in lines if line.strip()]
    errors = [number for number, line in enumerate(lines) if ERROR.match(line) or ": error: " in line[:40]]
    roots = [number for number in errors if not FOLLOWS.search(lines[number])]
    if code == -9 and not roots:
        return Cause("it was killed", "raise needs.mem_mb: the machine's memory may have run out")
    if roots:
        words = whole_error(lines, roots[-1])
    else:
        words = lines[errors[-1]] if errors else (lines or ["it wrote nothing"])[-1]
    words = " ".join(words.split())[:LONGEST]
    for pattern, fix in FIXES:
        if found := re.search(pattern, words, re.IGNORECASE):
            return Cause(words, fix.format(*found.groups()))
    return Cause(words, READ)


def whole_error(lines: list[str], number: int) -> str:
    """Return an error with the lines that belong to it: Pydantic's message stands below its first line."""
    line = lines[number]
    if re.search(r"ValidationError: \d+ validation error", line):
        message = " ".join(one.strip() for one in lines[number + 1 : number + 3] if not ERROR.match(one))
        return f"ValidationError: {message.partition(' [type=')[0]}"
    return line.rpartition("._")[2] if line.startswith("pydantic") else line
