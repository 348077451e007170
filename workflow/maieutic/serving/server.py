"""Local vLLM server on a Unix socket. The server stops when its parent process ends."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from maieutic.config.models import VllmModel
from maieutic.core.errors import UserError
from maieutic.core.machine import has_bfloat16
from maieutic.core.parent_process import PARENT_VARIABLE
from maieutic.serving.devices import Grant, gpu_names, lock_gpus
from maieutic.serving.eviction import wait_for_memory
from maieutic.serving.run_environment import inherited_environment
from maieutic.serving.weights import MANIFEST

log = logging.getLogger(__name__)
# Use vLLM's sampling defaults: a repetition penalty in the model's generation_config.json would change greedy answers.
GENERATION_CONFIG = "vllm"
POLL_SECONDS = 0.5
STOP_SECONDS = 30.0
HEALTH_SECONDS = 5.0
SOCKETS = Path("/tmp")
OFFLINE_VARIABLES = {"HF_HUB_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1", "DO_NOT_TRACK": "1", "VLLM_USE_MODELSCOPE": "0"}


def vllm_identity(model: VllmModel, weights: Path) -> dict[str, Any]:
    """Return the request-key fields of a server: engine settings, and checksums of weights, tokenizer and template."""
    manifest = json.loads((weights / MANIFEST).read_text(encoding="utf-8"))
    return {
        "engine": "vllm",
        "files": manifest["files"],
        "dtype": model.dtype,
        "max_model_len": model.max_model_len,
        "engine_args": model.engine_args,
        "generation_config": GENERATION_CONFIG,
        "extra_body": model.extra_fields,
        "omit": sorted(model.omit),
        **({"reviewed_args": model.reviewed_args} if model.reviewed_args else {}),
    }


def served_dtype(model: VllmModel) -> str:
    """Return the data type in which this machine runs the model, by vLLM's name."""
    if model.dtype == "bfloat16-or-float32":
        return "bfloat16" if has_bfloat16() else "float32"
    return model.dtype


def served_name(weights: Path) -> str:
    """Return the model name for requests: the name of the weights' folder.

    A tutor and a judge with the same weights thus share one name.
    """
    return weights.name


def remove_stale_sockets(parent: Path) -> None:
    """Remove the socket folders of killed processes. Other processes may remove them at the same time."""
    for folder in parent.glob("maieutic-*-*"):
        pid = folder.name.split("-")[1]
        if not pid.isdigit() or Path(f"/proc/{pid}").exists():
            continue
        with contextlib.suppress(FileNotFoundError):
            if folder.stat().st_uid == os.getuid():
                shutil.rmtree(folder, ignore_errors=True)


class VllmServer:
    """Process of a vLLM server. Start it from the main thread, because it ends with the thread that spawned it."""

    def __init__(self, name: str, model: VllmModel, weights: Path, log_path: Path, folder: Path | None = None) -> None:
        """weights: folder of the weights; folder: private folder of the socket, created if None, removed by `stop`."""
        self.name, self.model, self.weights, self.log_path = name, model, weights, log_path
        # A unix socket's path is limited to about 100 characters, so the socket cannot be in the results folder.
        remove_stale_sockets(SOCKETS)
        self.folder = folder or Path(tempfile.mkdtemp(prefix=f"maieutic-{os.getpid()}-", dir=SOCKETS))
        self.socket = str(self.folder / "vllm.sock")
        self.process: subprocess.Popen[bytes] | None = None
        self.grant = Grant({}, ())

    def command(self) -> list[str]:
        """Return the command that starts the server."""
        model = self.model
        options = ["--uds", self.socket, "--served-model-name", served_name(self.weights)]
        options += [
            "--dtype",
            served_dtype(model),
            "--generation-config",
            GENERATION_CONFIG,
            "--enable-prompt-tokens-details",
        ]
        if model.max_model_len:
            options += ["--max-model-len", str(model.max_model_len)]
        if model.needs.gpus > 1:
            options += ["--tensor-parallel-size", str(model.needs.gpus)]
        if model.trust_remote_code:
            options += ["--trust-remote-code"]
        return [
            sys.executable,
            "-m",
            "maieutic.serving.engine",
            "serve",
            str(self.weights),
            *options,
            *model.arguments,
        ]

    async def start(self) -> None:
        """Lock devices and start the process on them. Call `ready` afterwards to wait until the server answers."""
        environment = {**inherited_environment(os.environ), **self.model.environment, **OFFLINE_VARIABLES}
        self.grant = await lock_gpus(self.name, self.model.needs.gpus, environment)
        await wait_for_memory(self.name, self.model.needs.mem_mb)
        self.spawn({**environment, **self.grant.environment, PARENT_VARIABLE: str(os.getpid())})

    def spawn(self, environment: dict[str, str]) -> None:
        """Start the process. It inherits the locks of its devices, which stay locked until it ends."""
        self.log_path.parent.mkdir(parents=True, exist_ok=True)
        with open(self.log_path, "ab") as handle:
            handle.write(f"{START_MARK}{self.name} ==\n".encode())
            handle.flush()
            self.process = subprocess.Popen(
                self.command(),
                stdin=subprocess.DEVNULL,
                stdout=handle,
                stderr=handle,
                env=environment,
                pass_fds=self.grant.locks,
                start_new_session=True,  # Ctrl-C does not end the server, so that the job receives pending answers
            )
        where = (self.model.needs.gpus and ", ".join(gpu_names())) or "the CPU"
        log.info("vLLM server for %s starting on %s (log: %s)", self.name, where, self.log_path)
        if (dtype := served_dtype(self.model)) != self.model.dtype:
            log.info("%s: dtype %s is %s on this machine", self.name, self.model.dtype, dtype)

    async def ready(self) -> None:
        """Wait until the server answers. Raises UserError, with the error from its log, if it ends or is too slow."""
        began = time.monotonic()
        while time.monotonic() - began < self.model.start_timeout:
            self.check_alive()
            if await self.is_healthy():
                log.info("vLLM server ready after %.0f s", time.monotonic() - began)
                return
            await asyncio.sleep(POLL_SECONDS)
        raise UserError(
            str(self.log_path),
            f"the server was not ready after {self.model.start_timeout:.0f} s",
            f"raise models.{self.name}.start_timeout",
        )

    async def is_healthy(self) -> bool:
        """Return True if the server passes its health check."""
        import aiohttp

        limit = aiohttp.ClientTimeout(total=HEALTH_SECONDS)
        try:
            connector = aiohttp.UnixConnector(self.socket)
            async with (
                aiohttp.ClientSession(connector=connector, timeout=limit) as session,
                session.get("http://server/health") as response,
            ):
                return response.status == 200
        except (aiohttp.ClientError, TimeoutError, OSError):
            return False

    def check_alive(self) -> None:
        """Raise UserError if the server process has ended."""
        if self.process is not None and (code := self.process.poll()) is not None:
            cause = server_failure_cause(self.log_path, code)
            fix = cause.fix if cause.fix == READ_LOG else f"{cause.fix} (models.{self.name})"
            raise UserError(str(self.log_path), f"the vLLM server ended with exit code {code}: {cause.error_line}", fix)

    def stop(self) -> None:
        """End the server and wait for its end, so that the next job finds the device free."""
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        self.grant.release()
        self.grant = Grant({}, ())
        shutil.rmtree(self.folder, ignore_errors=True)


START_MARK = "== maieutic starts a server of "  # marks each start in the log; only the text after the last mark is read
LONGEST = 300  # maximum number of characters of an error
LAST_LINES = 4000
MOST_LAST = 40  # of these lines at the end, which name the exit codes of the engine's processes
# Prefix of a log line, such as `(EngineCore_DP0 pid=12) ERROR 11-27 08:00:00 [core.py:842] `. All parts are optional.
PREFIX = re.compile(
    r"^(?:\([\w ]+ ?pid=\d+\)\s*)?(?:(?:ERROR|WARNING|INFO|CRITICAL) [\d-]+ [\d:.,]+ \[[^\]]*\]\s?)?"
    r"(?:\([\w ]+ ?pid=\d+\)\s?)?"
)
ERROR = re.compile(r"^(?:[A-Za-z_][\w]*\.)*[A-Z]\w*(?:Error|Exception|Exit|Interrupt)\b(?::\s*(.*))?$")
# Errors that are only consequences of an error in another process
CONSEQUENTIAL_ERROR = re.compile(
    r"engine (?:core|process) .{0,20}fail|see (?:root cause|stack trace)|enginedead|engine core proc|workerproc"
    r"|(?:worker|executor|engine).{0,20} initiali[sz]ation failed"
    r"|systemexit|keyboardinterrupt|cancellederror|processraised|broken ?pipe|eoferror|connection(?:reset|refused)",
    re.IGNORECASE,
)


class Cause(NamedTuple):
    """Cause of a server's end: its error on one line, and the fix."""

    error_line: str
    fix: str


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
    (r"C\+?\+? compiler|(?<![/\w])gcc\b(?!/)", "install a C compiler (gcc and g++), or load its module"),
    (r"failed to map segment", "/tmp does not allow programs (noexec): export TMPDIR=FOLDER on a disk that does"),
    (
        r"No locks available|Errno 37\b",
        "the file system has no locks: export VLLM_CACHE_ROOT=FOLDER and XDG_CACHE_HOME=FOLDER on a local disk",
    ),
    (r"no kernel image", "this build does not support the GPU: choose another partition, or another environment"),
    (
        r"driver.{0,60}(?:too old|insufficient)|insufficient.{0,40}driver",
        "update the NVIDIA driver, or choose another node or an environment for an older CUDA",
    ),
    (r"longer than \d+ characters|AF_UNIX path too long", "the socket's path is too long: export TMPDIR=/tmp"),
    (r"GLIBCXX_|CXXABI_|libstdc\+\+", "a module or conda brings an older libstdc++: unset LD_LIBRARY_PATH"),
    (r"architectures? .{0,80}not supported|not supported for now", "choose a model that this version of vLLM supports"),
)
READ_LOG = "read this log, then run again"
# Signals that end a process without an error in the log
SIGNAL_CAUSES = {
    4: Cause(
        "the processor lacks an instruction of this build, such as AVX-512", "choose another node or another image"
    ),
    7: Cause(
        "the shared memory /dev/shm is full", "enlarge it (Docker: --shm-size=8g or --ipc=host), or choose another node"
    ),
    9: Cause("the process was killed", "raise needs.mem_mb: the machine's memory may have run out"),
}
SHELL_SIGNAL = 128  # a shell or container adds this number to the number of the signal
# vLLM's main process names the exit codes of its engine's processes, which are negative for a signal.
ENGINE_CODES = re.compile(r"Failed core proc\(s\): \{([^}]*)\}")


def server_failure_cause(log: Path, code: int | None = None) -> Cause:
    """Return why the latest server in a log ended. code: its exit code, which is negative if a signal ended it."""
    text = log.read_text(encoding="utf-8", errors="replace") if log.exists() else ""
    text = text.rpartition(START_MARK)[2].partition("\n")[2] if START_MARK in text else text
    lines = [PREFIX.sub("", line).rstrip() for line in text.splitlines()[-LAST_LINES:]]
    lines = [line for line in lines if line.strip()]
    errors = [number for number, line in enumerate(lines) if ERROR.match(line) or ": error: " in line[:40]]
    roots = [number for number in errors if not CONSEQUENTIAL_ERROR.search(lines[number])]
    last = lines[errors[-1]] if errors else (lines or ["the log is empty"])[-1]
    texts = [" ".join(whole_error(lines, number).split())[:LONGEST] for number in reversed(roots)]
    for words in texts or [" ".join(last.split())[:LONGEST]]:
        for pattern, fix in FIXES:
            if match := re.search(pattern, words, re.IGNORECASE):
                return Cause(words, fix.format(*match.groups()))
    if not texts and (killed := SIGNAL_CAUSES.get(signal_of(lines, code) or 0)):
        return killed
    return Cause(texts[0] if texts else " ".join(last.split())[:LONGEST], READ_LOG)


def signal_of(lines: Sequence[str], code: int | None) -> int | None:
    """Return the number of the signal that ended a server or one of its engine's processes, or None.

    code: exit code of the server.
    """
    named = ENGINE_CODES.findall(" ".join(lines[-MOST_LAST:]))
    codes = [int(number) for number in re.findall(r"-?\d+\b(?=[,}]|$)", ",".join(named))]
    for ended in [*codes, *([] if code is None else [code])]:
        number = -ended if ended < 0 else ended - SHELL_SIGNAL
        if number in SIGNAL_CAUSES:
            return number
    return None


def whole_error(lines: list[str], number: int) -> str:
    """Return the error at a line number as one line. Pydantic's message is on the lines below that line."""
    line = lines[number]
    if re.search(r"ValidationError: \d+ validation error", line):
        message = " ".join(text.strip() for text in lines[number + 1 : number + 3] if not ERROR.match(text))
        return f"ValidationError: {message.partition(' [type=')[0]}"
    return line.rpartition("._")[2] if line.startswith("pydantic") else line
