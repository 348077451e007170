"""Lease manager, `python -m maieutic.serving.lease_manager`: a process that leases one server to one job at a time.

A lease is a job's connection to the manager. It begins with the manager's message `ready`, and ends when the job or the
manager closes it. Without a lease the server is idle. An idle server shuts down after `linger` seconds, when another
process requests its devices or memory (eviction.py), or when its run has ended. The server's processes end with the
manager.

Standard input contains LeaseManagerSettings as JSON. The connection of the first job and the lock of the server's
folder are inherited as file descriptors.
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
from maieutic.serving.devices import device_request_file, energy_joules
from maieutic.serving.eviction import (
    POLL_SECONDS,
    has_shared_lock,
    hold_shared_locks,
    idle_servers_file,
    memory_request_file,
)
from maieutic.serving.run_environment import SnakemakeRun
from maieutic.serving.server import VllmServer, served_dtype

log = logging.getLogger(__name__)
MANAGER_SOCKET = "keeper.sock"
LONGEST_LINE_BYTES = 1 << 20  # maximum size of a message in bytes
ACTIVITIES = ("start", "busy", "idle")


class LeaseManagerSettings(Job):
    """Settings of a lease manager: the server that it runs, and the run that it belongs to.

    name, model: registry entry of the model; weights: folder of the weights; log: log of the server; folder: private
    folder of the sockets; run: value of RUN_VARIABLE; lease: file descriptor of the first job's connection.
    """

    name: str
    model: VllmModel
    weights: Path
    log: Path
    folder: Path
    run: str
    lease: int


class Lease:
    """Connection to the job that uses the server."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    def send(self, kind: str, content: Any) -> None:
        """Send a message of a kind such as `ready`, unless the job has closed the connection."""
        with contextlib.suppress(OSError, RuntimeError):
            self.writer.write(json.dumps({kind: content}).encode() + b"\n")

    async def wait_for_end(self) -> None:
        """Wait until the job closes the connection or ends."""
        with contextlib.suppress(OSError):
            while await self.reader.read(LONGEST_LINE_BYTES):
                pass
        self.writer.close()


class JobLogHandler(logging.Handler):
    """Logging handler that forwards messages about the server's start to the job that waits for it."""

    def __init__(self, lease: Lease) -> None:
        super().__init__()
        self.lease = lease

    def emit(self, record: logging.LogRecord) -> None:
        """Send the text of a log record to the job."""
        self.lease.send("log", record.getMessage())


class UsageMeter:
    """Seconds and joules that a server used, by activity: `start`, `busy` or `idle`."""

    def __init__(self) -> None:
        self.devices: tuple[str, ...] = ()
        self.since = time.monotonic()
        self.joules: float | None = None
        self.seconds_of = dict.fromkeys(ACTIVITIES, 0.0)
        self.joules_of: dict[str, float | None] = dict.fromkeys(ACTIVITIES, 0.0)

    def watch(self, devices: tuple[str, ...]) -> None:
        """Begin to measure the energy of these GPUs. Call it once the server has locked them."""
        self.devices, self.joules = devices, energy_joules(devices)

    def add(self, activity: str) -> None:
        """Count the time and energy since the last call as spent on an activity. Joules become None if not measured."""
        now, used, known = time.monotonic(), energy_joules(self.devices), self.joules_of[activity]
        self.seconds_of[activity] += now - self.since
        counted = used is not None and self.joules is not None and known is not None
        self.joules_of[activity] = known + used - self.joules if counted else None  # type: ignore[operator]
        self.since, self.joules = now, used

    def columns(self) -> dict[str, float | None]:
        """Return seconds and joules as columns of a record. Joules that were not measured are None."""
        columns: dict[str, float | None] = {
            f"{activity}_seconds": round(self.seconds_of[activity], 1) for activity in ACTIVITIES
        }
        for activity, used in self.joules_of.items():
            columns[f"{activity}_joules"] = None if used is None or not self.devices else round(used, 1)
        return columns


class LeaseManager:
    """Manager of one server, which it leases to one job at a time."""

    def __init__(self, orders: LeaseManagerSettings, run: SnakemakeRun) -> None:
        self.settings, self.run = orders, run
        self.server = VllmServer(orders.name, orders.model, orders.weights, orders.log, orders.folder)
        self.lease: Lease | None = None
        self.terminated = 0.0  # time at which SIGTERM was received, or 0 before that
        self.began = self.changed = time.monotonic()
        self.started = datetime.now(UTC)
        self.meter = UsageMeter()
        self.jobs = 0
        self.marks = contextlib.ExitStack()  # locks the file of idle servers while the server is idle

    async def run_server(self) -> None:
        """Start the server, lease it to jobs until it must end, then shut it down and record its use."""
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, self.terminate)
        stream = socket.socket(fileno=self.settings.lease)
        first = Lease(*await asyncio.open_connection(sock=stream))
        reason = "the start failed"
        try:
            if await self.start(first):
                path = self.settings.folder / MANAGER_SOCKET
                path.unlink(missing_ok=True)
                listener = await asyncio.start_unix_server(self.connected, path, limit=LONGEST_LINE_BYTES)
                async with listener:
                    reason = await self.watch()
        finally:
            self.marks.close()
            self.server.stop()
            self.record_use(reason)
            self.remove_run_folder()
            if self.lease is not None:
                self.lease.writer.close()

    def terminate(self) -> None:
        """Record the time of a SIGTERM. `watch` then returns, and the server is shut down."""
        self.terminated = time.monotonic()

    async def start(self, first: Lease) -> bool:
        """Start the server for the first job. If it fails, send the error to the job and return False."""
        forward = JobLogHandler(first)
        logging.getLogger().addHandler(forward)
        try:
            await self.server.start()
            self.meter.watch(self.server.grant.devices)
            await self.server.ready()
        except UserError as error:
            first.send("failed", [error.place, error.problem, error.fix])
            with contextlib.suppress(OSError):
                await first.writer.drain()
            return False
        finally:
            logging.getLogger().removeHandler(forward)
        self.begin_lease(first)
        return True

    async def connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Lease the server to a job that connects, or answer `busy` if the server is in use or unhealthy."""
        lease = Lease(reader, writer)
        if self.lease is None and await self.server.is_healthy() and self.lease is None:
            self.begin_lease(lease)
        else:
            lease.send("busy", True)
            writer.close()

    def begin_lease(self, lease: Lease) -> None:
        """Begin a lease, and send the job `ready` with the address of the server."""
        self.marks.close()
        now = time.monotonic()
        self.meter.add("idle" if self.jobs else "start")
        self.lease, self.changed, self.jobs = lease, now, self.jobs + 1
        about = {"socket": self.server.socket, "log": str(self.settings.log), "seconds": round(now - self.began)}
        lease.send("ready", about)
        self.use = asyncio.create_task(self.await_lease_end(lease))

    async def await_lease_end(self, lease: Lease) -> None:
        """Wait for the end of a lease, then mark the server as idle."""
        await lease.wait_for_end()
        self.lease = None
        now = time.monotonic()
        self.meter.add("busy")
        self.changed = now
        self.marks.enter_context(hold_shared_locks(idle_servers_file()))

    async def watch(self) -> str:
        """Wait for a reason to shut the server down, and return it."""
        grant, grace = self.server.grant, self.settings.model.grace
        files = [device_request_file(device, {**os.environ, **grant.environment}) for device in grant.devices]
        while True:
            # The job may be terminated too: let it receive the answers to its open requests before the server ends.
            if self.terminated and (self.lease is None or time.monotonic() - self.terminated > grace):
                return "terminated by a signal"
            try:
                self.server.check_alive()
            except UserError as error:
                if self.lease is not None:
                    self.lease.send("ended", [error.place, error.problem, error.fix])
                return "the server process ended"
            if self.lease is None:
                if not self.run.is_alive():
                    return "the run has ended"
                if any(map(has_shared_lock, [*files, memory_request_file()])):
                    return "evicted for another job"
                if time.monotonic() - self.changed > self.run.linger:
                    return "idle timeout"
            await asyncio.sleep(POLL_SECONDS)

    def remove_run_folder(self) -> None:
        """If the run has ended, remove the lock file of the server's folder, and the run's folder if it is empty."""
        if self.run.is_alive():
            return
        folder = self.settings.folder
        with contextlib.suppress(OSError):
            folder.with_suffix(".lock").unlink(missing_ok=True)
            folder.parent.rmdir()

    def record_use(self, reason: str) -> None:
        """Append a line with the server's seconds and joules, idle time included, to the record of servers."""
        self.meter.add("busy" if self.lease is not None else "idle" if self.jobs else "start")
        line = {
            "model": self.settings.name,
            "host": socket.gethostname(),
            "machine": this_machine().summary,
            "dtype": served_dtype(self.settings.model),
            "started": self.started.isoformat(timespec="seconds"),
            "gpus": len(self.server.grant.devices) or self.settings.model.needs.gpus,
            "jobs": self.jobs,
            **self.meter.columns(),
            "end": reason,
        }
        log.info("the server of %s shuts down: %s (%d jobs)", self.settings.name, reason, self.jobs)
        append_line(Path(SERVER_RECORD), line)


def main() -> int:
    """Run one lease manager until its server has shut down."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C ends the run, and this process ends by itself after the run
    log_to(None)
    orders = LeaseManagerSettings.model_validate_json(sys.stdin.buffer.read())
    pid, since, linger = orders.run.split(":")
    asyncio.run(LeaseManager(orders, SnakemakeRun(int(pid), since, float(linger))).run_server())
    return 0


if __name__ == "__main__":
    sys.exit(main())
