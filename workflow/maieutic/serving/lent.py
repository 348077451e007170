"""A server that outlives its job: one of this run's that idles, or a new one that the next job may use."""

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
from maieutic.core.journal import digest
from maieutic.serving.causes import cause_of
from maieutic.serving.devices import candidates, check_number, try_devices, try_lock
from maieutic.serving.handover import Run
from maieutic.serving.keeper import LINE, SOCKET, Orders
from maieutic.serving.server import SOCKETS, identity, sweep

log = logging.getLogger(__name__)
PLACES = 64  # servers of one model in one run
POLL_SECONDS = 1.0
KEY_LENGTH = 16


def pool_folder(run: Run) -> Path | None:
    """The folder of a run's servers on this machine; None where somebody else has made one of that name."""
    folder = SOCKETS / f"maieutic-{run.pid}-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    found = folder.lstat()
    ours = stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid() and not found.st_mode & 0o077
    if not ours:
        log.warning("%s is not ours alone: the server of this job is used by no other", folder)
    return folder if ours else None


def key_of(model: VllmModel, weights: Path) -> str:
    """What two jobs of one server have in common: weights, arguments, environment, devices."""
    own = {"runtime_args": model.runtime_args, "environment": model.environment, "gpus": model.needs.gpus}
    code = model.trust_remote_code
    about = {"weights": str(weights.resolve()), "code": code, **own, "model": identity(model, weights)}
    return digest(about).removeprefix("sha256:")[:KEY_LENGTH]


class LentServer:
    """A server of a run for one job. It has the methods of a server that belongs to its job."""

    def __init__(self, run: Run, pool: Path, name: str, model: VllmModel, weights: Path, log_path: Path) -> None:
        """pool: the run's own folder; weights: their folder; log_path: of a server that is started."""
        self.run, self.pool = run, pool
        self.name, self.model, self.weights, self.log_path = name, model, weights, log_path
        self.socket = ""
        self.reader: asyncio.StreamReader | None = None
        self.writer: asyncio.StreamWriter | None = None
        self.message: asyncio.Task[dict[str, Any]] | None = None

    async def start(self) -> None:
        """Take an idle server, or start one; `ready` waits for it."""
        check_number(self.name, self.model.needs.gpus, {**os.environ, **self.model.environment})
        sweep(SOCKETS)
        key = key_of(self.model, self.weights)
        places = [self.pool / f"{key}-{number}" for number in range(PLACES)]
        while True:
            known = [place for place in places if place.exists()]
            for place in known:
                if await self.borrowed(place):
                    return
            # A second server of the same model waits for the first one's devices; so does the job, in its stead.
            if not known or self.has_devices():
                break
            await asyncio.sleep(POLL_SECONDS)
        for place in places:
            if (lock := try_lock(place.with_suffix(".lock"))) is not None:
                await self.begin(place, lock)
                return
        raise UserError(
            str(self.pool), f"{PLACES} servers of {self.name} are up", "run fewer jobs of one model at once"
        )

    def has_devices(self) -> bool:
        """Whether a further server would find its devices free."""
        needed = self.model.needs.gpus
        if not needed:
            return True
        held = try_devices(candidates(os.environ)[1], needed, os.environ)
        for handle in (held or {}).values():
            os.close(handle)
        return held is not None

    async def borrowed(self, place: Path) -> bool:
        """Ask the keeper at a place for its server. Whether it gave it; a keeper that is gone gives none."""
        try:
            self.reader, self.writer = await asyncio.open_unix_connection(place / SOCKET, limit=LINE)
            message = await self.read()
        except (OSError, UserError):
            return False
        if "ready" not in message:
            self.stop()
            return False
        self.take(message["ready"])
        log.info("uses the vLLM server of %s, up for %s s (log: %s)", self.name, *self.about(message["ready"]))
        return True

    @staticmethod
    def about(ready: dict[str, Any]) -> tuple[Any, Any]:
        """How long a server has been up, and its log."""
        return ready["seconds"], ready["log"]

    async def begin(self, place: Path, lock: int) -> None:
        """Start a keeper at a place whose lock is ours, and becomes the keeper's."""
        shutil.rmtree(place, ignore_errors=True)  # what a killed keeper has left
        place.mkdir(mode=0o700)
        ours, theirs = socket.socketpair()
        self.spawn(place, theirs, lock)
        theirs.close()
        os.close(lock)
        self.reader, self.writer = await asyncio.open_connection(sock=ours, limit=LINE)

    def spawn(self, place: Path, lease: socket.socket, lock: int) -> None:
        """Start the keeper's process, in a session of its own: Ctrl-C is for the run, which ends it."""
        orders = Orders(
            name=self.name,
            model=self.model,
            weights=self.weights,
            log=self.log_path,
            folder=place,
            run=self.run.variable(),
            lease=lease.fileno(),
        )
        self.log_path.parent.mkdir(parents=True, exist_ok=True)
        with open(self.log_path, "ab") as handle:
            keeper = subprocess.Popen(
                [sys.executable, "-m", "maieutic.serving.keeper"],
                stdin=subprocess.PIPE,
                stdout=handle,
                stderr=handle,
                pass_fds=[lease.fileno(), lock],
                start_new_session=True,
            )
        assert keeper.stdin is not None
        keeper.stdin.write(orders.model_dump_json().encode())
        keeper.stdin.close()

    async def read(self) -> dict[str, Any]:
        """The keeper's next message. Raises UserError where it has ended."""
        assert self.reader is not None
        line = await self.reader.readline()
        if not line:
            cause = cause_of(self.log_path)
            raise UserError(str(self.log_path), f"the keeper of the server has ended: {cause.words}", cause.fix)
        return json.loads(line)

    def take(self, ready: dict[str, Any]) -> None:
        """The server is ours; what its keeper says from now on is that it has ended."""
        self.socket, self.log_path = ready["socket"], Path(ready["log"])
        self.message = asyncio.create_task(self.read())

    async def ready(self) -> None:
        """Wait until the server answers. Raises UserError where it does not start."""
        while not self.socket:
            message = await self.read()
            if "log" in message:
                log.info("%s", message["log"])
            elif "ready" in message:
                self.take(message["ready"])
            else:
                raise UserError(*message["failed"])

    def check_alive(self) -> None:
        """Raise UserError when the server has ended."""
        if self.message is not None and self.message.done():
            raise UserError(*self.message.result()["ended"])

    def stop(self) -> None:
        """Give the server back."""
        if self.message is not None:
            self.message.cancel()
        if self.writer is not None:
            self.writer.close()
