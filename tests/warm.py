"""Snakemake by a fork: the second of CPU that its imports cost is paid once by each process of tests.

What runs is Snakemake's own `main` in a process, folder and environment of its own, with nothing of the workflow
loaded: that lies in each test's copy. A test that kills Snakemake, or is about its start, starts it as a user does.
"""

from __future__ import annotations

import importlib
import json
import os
import signal
import socket
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

# What a call loads besides, of libraries.
LOADED = (
    "snakemake.cli", "snakemake.executors.local", "snakemake.report", "snakemake_logger_plugin_rich", "jinja2", "yte",
    "requests", "docutils.core", "PIL.Image", "rich.progress", "rich.markdown", "smart_open", "dpath", "platformdirs",
)  # fmt: skip
MESSAGE = 1 << 20  # bytes


class Warm:
    """A process that has loaded Snakemake, and forks for each call."""

    def __init__(self, python: str, environment: dict[str, str]) -> None:
        own, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with other:
            line = [python, __file__, str(other.fileno())]
            self.process = subprocess.Popen(line, env=environment, pass_fds=[other.fileno()], stdout=subprocess.DEVNULL)
        self.socket, self.lock = own, threading.Lock()

    def call(self, line: list[str], folder: Path, environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
        """Run a line whose first word is Snakemake's own to its end, and return what it said."""
        said, said_there = os.pipe()
        ended, ended_there = os.pipe()
        order = json.dumps({"line": line, "folder": str(folder), "environment": environment}).encode()
        with self.lock:
            socket.send_fds(self.socket, [order], [said_there, ended_there])
        os.close(said_there)
        os.close(ended_there)
        with open(said, encoding="utf-8", errors="replace") as output:
            text = output.read()
        with open(ended, encoding="ascii") as outcome:
            status = outcome.read()
        assert status, "Snakemake's process is gone"
        return subprocess.CompletedProcess(line, os.waitstatus_to_exitcode(int(status)), text)


def orders(own: socket.socket) -> Any:
    """Wait for calls; gives the order in the process that is to follow it, and ends when nobody calls any more."""
    while True:
        message, descriptors, _, _ = socket.recv_fds(own, MESSAGE, 2)
        if not message:
            os._exit(0)
        said, ended = descriptors
        if os.fork() == 0:  # waits for the one that works
            own.close()
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            worker = os.fork()
            if worker == 0:
                os.close(ended)
                return json.loads(message), said
            os.close(said)
            _, status = os.waitpid(worker, 0)
            os.write(ended, str(status).encode())
            os._exit(0)
        os.close(said)
        os.close(ended)


def serve(own: socket.socket) -> None:
    """Load Snakemake, then call it in forks."""
    for name in LOADED:
        importlib.import_module(name)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for those that wait
    order, said = orders(own)
    for stream in (1, 2):
        os.dup2(said, stream)
    os.close(said)
    os.chdir(order["folder"])
    os.environ.clear()
    os.environ.update(order["environment"])
    sys.argv = order["line"]
    sys.path[0] = str(Path(sys.argv[0]).parent)
    sys.exit(importlib.import_module("snakemake.cli").main())


if __name__ == "__main__":
    serve(socket.socket(fileno=int(sys.argv[1])))
