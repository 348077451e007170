"""Shared servers: lease an idle server from the run's pool, or start one that later jobs can also use."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import shutil
import socket
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

from maieutic.config.models import VllmModel
from maieutic.core.errors import UserError
from maieutic.core.journal import canonical_digest
from maieutic.serving.devices import check_gpu_count, try_devices, try_lock, visible_devices
from maieutic.serving.lease_manager import LONGEST_LINE_BYTES, MANAGER_SOCKET, LeaseManagerSettings
from maieutic.serving.run_environment import SnakemakeRun
from maieutic.serving.server import SOCKETS, remove_stale_sockets, server_failure_cause, vllm_identity

log = logging.getLogger(__name__)
MOST_SERVERS = 64  # maximum number of servers of one model in one run
POLL_SECONDS = 1.0
KEY_LENGTH = 16


def pool_folder(run: SnakemakeRun) -> Path | None:
    """Return the folder of the run's server pool on this machine, or None if it is not private to this user."""
    folder = SOCKETS / f"maieutic-{run.pid}-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    status = folder.lstat()
    private = stat.S_ISDIR(status.st_mode) and status.st_uid == os.getuid() and not status.st_mode & 0o077
    if not private:
        log.warning("%s is not private to this user: the server of this job is not shared", folder)
    return folder if private else None


def pool_key(model: VllmModel, weights: Path) -> str:
    """Return the key of a server in the pool: a digest of its weights, arguments, environment and number of GPUs."""
    settings = {"runtime_args": model.runtime_args, "environment": model.environment, "gpus": model.needs.gpus}
    code = model.trust_remote_code
    fields = {"weights": str(weights.resolve()), "code": code, **settings, "model": vllm_identity(model, weights)}
    return canonical_digest(fields).removeprefix("sha256:")[:KEY_LENGTH]


class LeasedServer:
    """Server that a job leases from its run's pool, with the same methods as VllmServer."""

    def __init__(
        self, run: SnakemakeRun, pool: Path, name: str, model: VllmModel, weights: Path, log_path: Path
    ) -> None:
        """pool: folder of the run's servers; weights: folder of the weights; log_path: log of a new server."""
        self.run, self.pool = run, pool
        self.name, self.model, self.weights, self.log_path = name, model, weights, log_path
        self.socket = ""
        self.reader: asyncio.StreamReader | None = None
        self.writer: asyncio.StreamWriter | None = None
        self.message: asyncio.Task[dict[str, Any]] | None = None

    async def start(self) -> None:
        """Lease an idle server, or start one. Call `ready` afterwards to wait until it answers."""
        check_gpu_count(self.name, self.model.needs.gpus, {**os.environ, **self.model.environment})
        remove_stale_sockets(SOCKETS)
        key = pool_key(self.model, self.weights)
        folders = [self.pool / f"{key}-{number}" for number in range(MOST_SERVERS)]
        while True:
            known = [folder for folder in folders if folder.exists()]
            for folder in known:
                if await self.lease_from(folder):
                    return
            # Without free devices no further server can start, so wait until a running one is idle.
            if not known or self.has_devices():
                break
            await asyncio.sleep(POLL_SECONDS)
        for folder in folders:
            if (lock := try_lock(folder.with_suffix(".lock"))) is not None:
                await self.start_manager(folder, lock)
                return
        raise UserError(
            str(self.pool),
            f"{MOST_SERVERS} servers of {self.name} are running, the maximum for one run",
            "run fewer jobs of this model at once",
        )

    def has_devices(self) -> bool:
        """Return True if enough devices are free to start another server."""
        needed = self.model.needs.gpus
        if not needed:
            return True
        locks = try_devices(visible_devices(os.environ)[1], needed, os.environ)
        for handle in (locks or {}).values():
            os.close(handle)
        return locks is not None

    async def lease_from(self, folder: Path) -> bool:
        """Lease the server of a folder. Return False if the server is in use or its lease manager has ended."""
        try:
            self.reader, self.writer = await asyncio.open_unix_connection(
                folder / MANAGER_SOCKET, limit=LONGEST_LINE_BYTES
            )
            message = await self.read()
        except (OSError, UserError):
            return False
        if "ready" not in message:
            self.stop()
            return False
        self.record_lease(message["ready"])
        log.info(
            "using the running vLLM server of %s, up for %s s (log: %s)",
            self.name,
            *self.uptime_and_log(message["ready"]),
        )
        return True

    @staticmethod
    def uptime_and_log(ready: dict[str, Any]) -> tuple[Any, Any]:
        """Return a server's uptime in seconds and the path of its log, from the lease manager's message `ready`."""
        return ready["seconds"], ready["log"]

    async def start_manager(self, folder: Path, lock: int) -> None:
        """Start a lease manager with a server. folder: folder of its sockets; lock: descriptor of the folder's lock."""
        shutil.rmtree(folder, ignore_errors=True)  # a killed lease manager may have left files
        folder.mkdir(mode=0o700)
        ours, theirs = socket.socketpair()
        self.spawn(folder, theirs, lock)
        theirs.close()
        os.close(lock)
        self.reader, self.writer = await asyncio.open_connection(sock=ours, limit=LONGEST_LINE_BYTES)

    def spawn(self, folder: Path, lease: socket.socket, lock: int) -> None:
        """Start the lease manager in a new session, which Ctrl-C does not end: the manager ends after the run.

        lease: socket that the manager inherits for the lease of this job.
        """
        orders = LeaseManagerSettings(
            name=self.name,
            model=self.model,
            weights=self.weights,
            log=self.log_path,
            folder=folder,
            run=self.run.variable(),
            lease=lease.fileno(),
        )
        self.log_path.parent.mkdir(parents=True, exist_ok=True)
        with open(self.log_path, "ab") as handle:
            process = subprocess.Popen(
                [sys.executable, "-m", "maieutic.serving.lease_manager"],
                stdin=subprocess.PIPE,
                stdout=handle,
                stderr=handle,
                pass_fds=[lease.fileno(), lock],
                start_new_session=True,
            )
        assert process.stdin is not None
        process.stdin.write(orders.model_dump_json().encode())
        process.stdin.close()

    async def read(self) -> dict[str, Any]:
        """Return the lease manager's next message. Raises UserError if the manager has ended."""
        assert self.reader is not None
        line = await self.reader.readline()
        if not line:
            cause = server_failure_cause(self.log_path)
            raise UserError(
                str(self.log_path), f"the lease manager of the server has ended: {cause.error_line}", cause.fix
            )
        return json.loads(line)

    def record_lease(self, ready: dict[str, Any]) -> None:
        """Record the leased server, and start to wait for the next message, which reports the server's end."""
        self.socket, self.log_path = ready["socket"], Path(ready["log"])
        self.message = asyncio.create_task(self.read())

    async def ready(self) -> None:
        """Wait until the server answers. Raises UserError if it does not start."""
        while not self.socket:
            message = await self.read()
            if "log" in message:
                log.info("%s", message["log"])
            elif "ready" in message:
                self.record_lease(message["ready"])
            else:
                raise UserError(*message["failed"])

    def check_alive(self) -> None:
        """Raise UserError if the server has ended."""
        if self.message is not None and self.message.done():
            raise UserError(*self.message.result()["ended"])

    def stop(self) -> None:
        """End the lease, which returns the server to the pool."""
        if self.message is not None:
            self.message.cancel()
        if self.writer is not None:
            self.writer.close()
