"""Snakemake and the workflow's jobs by a fork: what their imports cost is paid once by a run of tests.

What runs is Snakemake's own `main`, or `python -m maieutic` of a job's line, in a process, folder and environment of
its own. Libraries alone are loaded before, nothing of the workflow: that lies in each test's copy. A test that kills
Snakemake or a job, or is about their start, starts them as a user does; so do the drills, clusters and containers.

Interpreters are found by the variables that Snakemake's prefix sets before each job's line: a fork stands for one where
the run's configuration names no other.
"""

from __future__ import annotations

import atexit
import gc
import importlib
import marshal
import os
import runpy
import select
import signal
import socket
import subprocess
import sys
import threading
import traceback
from pathlib import Path
from typing import NamedTuple, NoReturn

# What a call loads besides, of libraries: Snakemake, and jobs in the environments of the driver and of models.
LOADED = {
    "snakemake": (
        "snakemake.cli", "snakemake.executors.local", "snakemake.report", "snakemake_logger_plugin_rich", "jinja2",
        "yte", "requests", "statistics", "difflib", "jinja2.sandbox", "jinja2.meta", "graphlib", "packaging.version", "docutils.core", "PIL.Image", "rich.progress", "rich.markdown", "smart_open", "dpath",
        "platformdirs",
    ),
    "driver": (
        "pydantic", "yaml", "yaml.cyaml", "numpy", "pandas", "pyarrow.parquet", "altair", "vl_convert", "jinja2.sandbox",
        "scipy.stats", "sklearn.metrics", "sklearn.pipeline", "statsmodels.stats.multitest", "cyclopts", "aiohttp",
        "requests", "PIL.Image",
    ),
    "serve": ("torch", "transformers.models.auto.modeling_auto", "trl.trainer.reward_trainer", "pydantic", "aiohttp"),
}  # fmt: skip
SERVE = ".venv/serve/bin/python"  # of the environment of models, in every checkout
FOLDER = "TESTS_WARM"  # variable: where the processes of this run of tests are called
MESSAGE = 1 << 20  # bytes
# Stands for the interpreter: hands its call over, waits, and ends as the call did. With nothing that takes long to load.
CLIENT = """#!{python} -IS
import _socket, marshal, posix, sys
if sys.argv[1:2] != ["-m"]:
    posix.execv({python!r}, [{python!r}, *sys.argv[1:]])
own = _socket.socket(_socket.AF_UNIX, _socket.SOCK_SEQPACKET)
own.connect({address!r})
descriptors = b"".join(number.to_bytes(4, sys.byteorder) for number in (0, 1, 2))
order = marshal.dumps((sys.argv, posix.getcwd(), posix.environ, {{}}))
own.sendmsg([order], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, descriptors)])
status = int(own.recv(64))
if posix.WIFSIGNALED(status):
    posix.kill(posix.getpid(), posix.WTERMSIG(status))
posix._exit(posix.waitstatus_to_exitcode(status))
"""


class Order(NamedTuple):
    """A call as a process that follows it gets it."""

    line: list[str]
    folder: str
    environment: dict[bytes, bytes]
    interpreters: dict[str, str]  # what stands for each interpreter that jobs are started by


class Warm:
    """A process that loads the libraries of a program (a key of LOADED) with its first call, and forks for each.

    It ends with the process that made it. folder: where it is called, also by others.
    """

    def __init__(self, program: str, interpreter: str, folder: Path, environment: dict[str, str]) -> None:
        address = str(folder / program)
        listening = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        listening.bind(address)
        listening.listen(64)
        alive, self.own = os.pipe()  # this end is open for as long as this process is there
        line = [interpreter, __file__, program, str(listening.fileno()), str(alive)]
        passed = [listening.fileno(), alive]
        subprocess.Popen(line, env=environment, pass_fds=passed, stdout=subprocess.DEVNULL)
        os.close(alive)
        listening.close()
        client = client_of(program, folder)
        client.write_text(CLIENT.format(python=interpreter, address=address), encoding="utf-8")
        client.chmod(0o755)


def client_of(program: str, folder: Path) -> Path:
    """What stands for a program's interpreter, and whose calls of modules are forks."""
    return folder / f"{program}-python"


def call(
    program: str, line: list[str], at: Path, environment: dict[str, str], jobs_by_forks: bool
) -> subprocess.CompletedProcess[str]:
    """Run a line whose first word is the program's own in a folder to its end, and return what it said."""
    warm = Path(os.environ[FOLDER])
    clients = {"DRIVER": client_of("driver", warm), "SERVE": client_of("serve", warm)} if jobs_by_forks else {}
    interpreters = {name: str(path) for name, path in clients.items() if path.exists()}
    said, said_there = os.pipe()
    held = {os.fsencode(name): os.fsencode(value) for name, value in environment.items()}
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as own, open(os.devnull, "rb") as nothing:
        own.connect(str(warm / program))
        given = [nothing.fileno(), said_there, said_there]
        socket.send_fds(own, [marshal.dumps((line, str(at), held, interpreters))], given)
        os.close(said_there)
        with open(said, encoding="utf-8", errors="replace") as output:
            text = output.read()
        status = own.recv(64)
    assert status, f"the process of {line[0]} is gone"
    return subprocess.CompletedProcess(line, os.waitstatus_to_exitcode(int(status)), text)


def follow(own: socket.socket) -> Order | None:
    """Take a call in a process that waits for the one that works; the order in the latter, None in all others."""
    message, descriptors, _, _ = socket.recv_fds(own, MESSAGE, 3)
    if not message:
        return None
    order = Order(*marshal.loads(message))
    worker = os.fork()
    if worker == 0:
        for stream, number in enumerate(descriptors):
            os.dup2(number, stream)
        for number in descriptors:
            os.close(number)
        return order
    for number in (0, 1, 2, *descriptors):
        os.close(number)
    _, status = os.waitpid(worker, 0)
    own.send(str(status).encode())
    return None


def orders(listening: socket.socket, alive: int, program: str) -> Order:
    """Wait for calls; gives the order in the process that is to follow it, and ends when nobody is left who calls."""
    loaded = False
    while True:
        ready, _, _ = select.select([listening, alive], [], [])
        if alive in ready:
            os._exit(0)
        if not loaded:
            load(program)
            loaded = True
        own, _ = listening.accept()
        if os.fork() == 0:
            listening.close()
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            order = follow(own)
            if order is None:
                os._exit(0)
            own.close()
            return order
        own.close()


def load(program: str) -> None:
    """Load what a program needs."""
    for name in LOADED[program]:
        importlib.import_module(name)
    if program == "snakemake":
        importlib.import_module("snakemake.cli").get_argument_parser()  # looks for plugins among all that is installed
    gc.collect()
    gc.freeze()


def as_program(order: Order) -> None:
    """Be Snakemake."""
    sys.argv = order.line
    sys.path[0] = str(Path(sys.argv[0]).parent)
    shell = importlib.import_module("snakemake.shell").shell
    own, usual = shell.prefix, {"DRIVER": sys.executable, "SERVE": SERVE}

    def prefix(line: str) -> None:
        for name, client in order.interpreters.items():
            line = line.replace(f" {name}={usual[name]} ", f" {name}={client} ")
        own(line)

    shell.prefix = prefix
    sys.exit(importlib.import_module("snakemake.cli").main())


def as_module(order: Order) -> None:
    """Be `python -m MODULE ...`."""
    _, _, module, *words = order.line
    sys.path[:1] = [order.folder, *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]
    sys.argv = ["-m", *words]
    if threads := os.environ.get("OMP_NUM_THREADS", "") if "torch" in sys.modules else "":
        sys.modules["torch"].set_num_threads(int(threads))  # it has looked already, in another environment
    runpy.run_module(module, run_name="__main__", alter_sys=True)


def end(code: object) -> NoReturn:
    """End as an interpreter does, without taking apart all that is loaded."""
    if code is not None and not isinstance(code, int):
        print(code, file=sys.stderr)
        code = 1
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(int(code or 0) & 255)


def serve(program: str, listening: socket.socket, alive: int) -> None:
    """Be a program in forks."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for those that wait
    order = orders(listening, alive, program)
    os.chdir(order.folder)
    os.environ.clear()
    os.environb.update(order.environment)
    try:
        (as_program if program == "snakemake" else as_module)(order)
    except SystemExit as ended:
        end(ended.code)
    except BaseException:
        traceback.print_exc()
        end(1)
    end(0)


if __name__ == "__main__":
    serve(sys.argv[1], socket.socket(fileno=int(sys.argv[2])), int(sys.argv[3]))
