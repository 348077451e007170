"""`python -m maieutic.serving.keeper`: a process that owns one server and lends it to one job after the other.

A connection is a lease: it begins with the keeper's message `ready`, and ends when either side closes it, however that
side ends. Without a lease the server idles, and ends when nobody comes for `linger` seconds, when somebody waits for
its devices or for memory (room.py), or when the run that it belongs to has ended. Its processes die with the keeper.

It gets its orders as JSON on standard input, the first lease and the lock of its place as open file descriptors.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import signal
import socket
import sys
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from maieutic.config.models import VllmModel
from maieutic.core.errors import UserError
from maieutic.core.jobs import Job
from maieutic.core.ledger import append_line
from maieutic.core.logs import log_to
from maieutic.core.machine import this_machine
from maieutic.core.paths import SERVER_RECORD
from maieutic.serving.devices import joules, wanted_file
from maieutic.serving.handover import Run
from maieutic.serving.room import POLL_SECONDS, idle_servers, is_marked, marked, memory_wanted
from maieutic.serving.server import VllmServer, served_dtype

log = logging.getLogger(__name__)
SOCKET = "keeper.sock"
LINE = 1 << 20  # bytes of a message
DOING = ("start", "busy", "idle")


class Orders(Job):
    """What a keeper is to serve, and for whom.

    weights: their folder; log: of the server; folder: an own one for the sockets; run: the value of handover.RUN;
    lease: file descriptor of the first job's connection.
    """

    name: str
    model: VllmModel
    weights: Path
    log: Path
    folder: Path
    run: str
    lease: int


class Lease:
    """The connection of the job that uses the server."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    def tell(self, kind: str, content: Any) -> None:
        """Send a message, if the job is still there."""
        with contextlib.suppress(OSError, RuntimeError):
            self.writer.write(json.dumps({kind: content}).encode() + b"\n")

    async def ended(self) -> None:
        """Wait until the job closes the connection, or is gone."""
        with contextlib.suppress(OSError):
            while await self.reader.read(LINE):
                pass
        self.writer.close()


class ToTheJob(logging.Handler):
    """Log records of the start, for the log of the job that waits for it."""

    def __init__(self, lease: Lease) -> None:
        super().__init__()
        self.lease = lease

    def emit(self, record: logging.LogRecord) -> None:
        """Send the record's message."""
        self.lease.tell("log", record.getMessage())


class Meter:
    """Seconds and joules of a server, by what it did: `start`, `busy` or `idle`."""

    def __init__(self) -> None:
        self.devices: tuple[str, ...] = ()
        self.since = time.monotonic()
        self.joules: float | None = None
        self.seconds_of = dict.fromkeys(DOING, 0.0)
        self.joules_of: dict[str, float | None] = dict.fromkeys(DOING, 0.0)

    def watch(self, devices: tuple[str, ...]) -> None:
        """Count from now on what these GPUs use: a server gets its own while it starts."""
        self.devices, self.joules = devices, joules(devices)

    def add(self, doing: str) -> None:
        """What was done from the last call to now. Joules that once were not counted are not known."""
        now, used, known = time.monotonic(), joules(self.devices), self.joules_of[doing]
        self.seconds_of[doing] += now - self.since
        counted = used is not None and self.joules is not None and known is not None
        self.joules_of[doing] = known + used - self.joules if counted else None  # type: ignore[operator]
        self.since, self.joules = now, used

    def columns(self) -> dict[str, float | None]:
        """Both as columns of a record; joules are null where nobody counts them."""
        columns: dict[str, float | None] = {f"{doing}_seconds": round(self.seconds_of[doing], 1) for doing in DOING}
        for doing, used in self.joules_of.items():
            columns[f"{doing}_joules"] = None if used is None or not self.devices else round(used, 1)
        return columns


class Keeper:
    """One server, and who uses it."""

    def __init__(self, orders: Orders, run: Run) -> None:
        self.orders, self.run = orders, run
        self.server = VllmServer(orders.name, orders.model, orders.weights, orders.log, orders.folder)
        self.lease: Lease | None = None
        self.terminated = 0.0  # when it was told to end
        self.began = self.changed = time.monotonic()
        self.started = datetime.now(UTC)
        self.meter = Meter()
        self.jobs = 0
        self.marks = contextlib.ExitStack()  # held while idle

    async def keep(self) -> None:
        """Start the server, lend it until it is to end, end it, and put down what it did."""
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, self.terminate)
        stream = socket.socket(fileno=self.orders.lease)
        first = Lease(*await asyncio.open_connection(sock=stream))
        reason = "it did not start"
        try:
            if await self.start(first):
                path = self.orders.folder / SOCKET
                path.unlink(missing_ok=True)
                listener = await asyncio.start_unix_server(self.connected, path, limit=LINE)
                async with listener:
                    reason = await self.watch()
        finally:
            self.marks.close()
            self.server.stop()
            self.put_down(reason)
            self.sweep()
            if self.lease is not None:
                self.lease.writer.close()

    def terminate(self) -> None:
        """SIGTERM."""
        self.terminated = time.monotonic()

    async def start(self, first: Lease) -> bool:
        """Start the server for the first job. Whether it is up; if not, the job has been told why."""
        forward = ToTheJob(first)
        logging.getLogger().addHandler(forward)
        try:
            await self.server.start()
            self.meter.watch(self.server.grant.devices)
            await self.server.ready()
        except UserError as error:
            first.tell("failed", [error.place, error.problem, error.mend])
            with contextlib.suppress(OSError):
                await first.writer.drain()
            return False
        finally:
            logging.getLogger().removeHandler(forward)
        self.lend(first)
        return True

    async def connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """A job asks for the server: it gets it, unless another one has it or it is not well."""
        lease = Lease(reader, writer)
        if self.lease is None and await self.server.is_well() and self.lease is None:
            self.lend(lease)
        else:
            lease.tell("busy", True)
            writer.close()

    def lend(self, lease: Lease) -> None:
        """From now on one job has the server."""
        self.marks.close()
        now = time.monotonic()
        self.meter.add("idle" if self.jobs else "start")
        self.lease, self.changed, self.jobs = lease, now, self.jobs + 1
        about = {"socket": self.server.socket, "log": str(self.orders.log), "seconds": round(now - self.began)}
        lease.tell("ready", about)
        self.use = asyncio.create_task(self.used(lease))

    async def used(self, lease: Lease) -> None:
        """Wait for the end of a lease."""
        await lease.ended()
        self.lease = None
        now = time.monotonic()
        self.meter.add("busy")
        self.changed = now
        self.marks.enter_context(marked(idle_servers()))

    async def watch(self) -> str:
        """Wait until the server is to end; gives the reason."""
        grant, grace = self.server.grant, self.orders.model.grace
        wanted = [wanted_file(device, {**os.environ, **grant.environment}) for device in grant.devices]
        while True:
            # A job that ends too takes what it has asked first.
            if self.terminated and (self.lease is None or time.monotonic() - self.terminated > grace):
                return "it was ended from outside"
            try:
                self.server.check_alive()
            except UserError as error:
                if self.lease is not None:
                    self.lease.tell("ended", [error.place, error.problem, error.mend])
                return "its process ended"
            if self.lease is None:
                if not self.run.is_alive():
                    return "the run has ended"
                if any(map(is_marked, [*wanted, memory_wanted()])):
                    return "its place was wanted"
                if time.monotonic() - self.changed > self.run.linger:
                    return "nobody came"
            await asyncio.sleep(POLL_SECONDS)

    def sweep(self) -> None:
        """Where the run has ended, remove its folder; the last of its keepers succeeds."""
        if self.run.is_alive():
            return
        place = self.orders.folder
        with contextlib.suppress(OSError):
            place.with_suffix(".lock").unlink(missing_ok=True)
            place.parent.rmdir()

    def put_down(self, reason: str) -> None:
        """One line in the record of servers: seconds and joules, idle ones between and after the jobs."""
        self.meter.add("busy" if self.lease is not None else "idle" if self.jobs else "start")
        line = {
            "model": self.orders.name,
            "host": socket.gethostname(),
            "machine": this_machine().told,
            "dtype": served_dtype(self.orders.model),
            "started": self.started.isoformat(timespec="seconds"),
            "gpus": len(self.server.grant.devices) or self.orders.model.needs.gpus,
            "jobs": self.jobs,
            **self.meter.columns(),
            "end": reason,
        }
        log.info("the server of %s ends: %s (%d jobs)", self.orders.name, reason, self.jobs)
        append_line(Path(SERVER_RECORD), line)


def main() -> int:
    """Keep one server. A keeper without its run ends at once."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the run ends by it, and the keeper with the run
    log_to(None)
    orders = Orders.model_validate_json(sys.stdin.buffer.read())
    pid, since, linger = orders.run.split(":")
    asyncio.run(Keeper(orders, Run(int(pid), since, float(linger))).keep())
    return 0


if __name__ == "__main__":
    sys.exit(main())
