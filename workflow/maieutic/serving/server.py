"""A vLLM server of our own, on a unix socket: a process that dies with the one that started it."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from maieutic.config.models import VllmModel
from maieutic.core.errors import UserError
from maieutic.core.machine import computes_in_bfloat16
from maieutic.core.parent import PARENT
from maieutic.serving.causes import READ, STARTED, cause_of
from maieutic.serving.devices import Grant, gpu_names, take_gpus
from maieutic.serving.inherited import inherited
from maieutic.serving.room import make_room
from maieutic.serving.weights import MANIFEST

log = logging.getLogger(__name__)
# vLLM's own defaults, not the model's: a repetition penalty in generation_config.json would change greedy answers.
GENERATION_CONFIG = "vllm"
POLL_SECONDS = 0.5
STOP_SECONDS = 30.0
HEALTH_SECONDS = 5.0
SOCKETS = Path("/tmp")
QUIET = {"HF_HUB_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1", "DO_NOT_TRACK": "1", "VLLM_USE_MODELSCOPE": "0"}


def identity(model: VllmModel, weights: Path) -> dict[str, Any]:
    """What of this server can change an answer: weights, tokenizer and chat template by checksum, engine settings."""
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
    """What the weights are computed in on this machine, as vLLM spells it."""
    if model.dtype == "bfloat16-or-float32":
        return "bfloat16" if computes_in_bfloat16() else "float32"
    return model.dtype


def served_name(weights: Path) -> str:
    """The name by which a server's model is asked: that of the weights, since tutor and judge may be one model."""
    return weights.name


def sweep(place: Path) -> None:
    """Remove the socket folders of drivers that were killed before they could. Other processes may do the same."""
    for folder in place.glob("maieutic-*-*"):
        pid = folder.name.split("-")[1]
        if not pid.isdigit() or Path(f"/proc/{pid}").exists():
            continue
        with contextlib.suppress(FileNotFoundError):
            if folder.stat().st_uid == os.getuid():
                shutil.rmtree(folder, ignore_errors=True)


class VllmServer:
    """A server process. Start it from the main thread: its children die with the thread that made them."""

    def __init__(self, name: str, model: VllmModel, weights: Path, log_path: Path, folder: Path | None = None) -> None:
        """weights: their folder; folder: an own one for the socket, removed at the end; None: makes one."""
        self.name, self.model, self.weights, self.log_path = name, model, weights, log_path
        # A unix socket's path may have some hundred characters: a short folder of its own, not the results folder.
        sweep(SOCKETS)
        self.folder = folder or Path(tempfile.mkdtemp(prefix=f"maieutic-{os.getpid()}-", dir=SOCKETS))
        self.socket = str(self.folder / "vllm.sock")
        self.process: subprocess.Popen[bytes] | None = None
        self.grant = Grant({}, ())

    def command(self) -> list[str]:
        """The line that starts the server."""
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
            *model.engine_args,
            *model.reviewed_args,
            *model.runtime_args,
        ]

    async def start(self) -> None:
        """Start the process on devices of its own; `ready` waits for it."""
        environment = {**inherited(os.environ), **self.model.environment, **QUIET}
        self.grant = await take_gpus(self.name, self.model.needs.gpus, environment)
        await make_room(self.name, self.model.needs.mem_mb)
        self.spawn({**environment, **self.grant.environment, PARENT: str(os.getpid())})

    def spawn(self, environment: dict[str, str]) -> None:
        """Start the process. It inherits the locks of its devices and holds them until it is gone."""
        self.log_path.parent.mkdir(parents=True, exist_ok=True)
        with open(self.log_path, "ab") as handle:
            handle.write(f"{STARTED}{self.name} ==\n".encode())
            handle.flush()
            self.process = subprocess.Popen(
                self.command(),
                stdin=subprocess.DEVNULL,
                stdout=handle,
                stderr=handle,
                env=environment,
                pass_fds=self.grant.locks,
                start_new_session=True,  # Ctrl-C is for the job, which first takes what it has asked
            )
        where = (self.model.needs.gpus and ", ".join(gpu_names())) or "the CPU"
        log.info("vLLM server for %s starting on %s (log: %s)", self.name, where, self.log_path)
        if (dtype := served_dtype(self.model)) != self.model.dtype:
            log.info("%s: %s is %s here", self.name, self.model.dtype, dtype)

    async def ready(self) -> None:
        """Wait until the server answers. Raises UserError with the log's last words when it ends or takes too long."""
        began = time.monotonic()
        while time.monotonic() - began < self.model.start_timeout:
            self.check_alive()
            if await self.is_well():
                log.info("vLLM server ready after %.0f s", time.monotonic() - began)
                return
            await asyncio.sleep(POLL_SECONDS)
        raise UserError(
            str(self.log_path),
            f"the server was not ready after {self.model.start_timeout:.0f} s",
            "raise start_timeout",
        )

    async def is_well(self) -> bool:
        """Whether the server answers its health check."""
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
        """Raise UserError when the server process has ended."""
        if self.process is not None and (code := self.process.poll()) is not None:
            cause = cause_of(self.log_path, code)
            fix = cause.fix if cause.fix == READ else f"for models.{self.name}: {cause.fix}"
            raise UserError(str(self.log_path), f"the vLLM server ended with {code}: {cause.words}", fix)

    def stop(self) -> None:
        """End the server and wait for it, so that the next job finds the device free."""
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
