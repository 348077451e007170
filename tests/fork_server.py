"""Fork servers for tests: processes that have loaded Snakemake's or a job's libraries, and fork for each call.

What their imports cost is paid once by a run of tests. A fork is Snakemake's own `main`, or `python -m maieutic` of a
job's line, in a folder and an environment of its own. Libraries alone are loaded before, nothing of the workflow: that
lies in each test's copy. A test that kills Snakemake or a job, or is about their start, starts them as a user does; so
do the drills, clusters and containers.

Jobs find their interpreter by the variables that Snakemake's prefix sets before each line: a fork stands for one where
the run's configuration names no other.
"""

from __future__ import annotations

import atexit
import contextlib
import gc
import importlib
import marshal
import os
import runpy
import select
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import traceback
from pathlib import Path
from typing import NamedTuple, NoReturn

# The libraries that each server loads: for Snakemake, and for jobs in the environments of the driver and of models.
LOADED = {
    "snakemake": (
        "snakemake.cli", "snakemake.executors.local", "snakemake.report", "snakemake_logger_plugin_rich", "jinja2",
        "yte", "requests", "statistics", "difflib", "jinja2.sandbox", "jinja2.meta", "graphlib", "packaging.version",
        "docutils.core", "PIL.Image", "rich.progress", "rich.markdown", "smart_open", "dpath", "platformdirs",
    ),
    "driver": (
        "pydantic", "yaml", "yaml.cyaml", "numpy", "pandas", "pyarrow.parquet", "altair", "vl_convert", "jinja2.sandbox",
        "scipy.stats", "sklearn.metrics", "sklearn.pipeline", "statsmodels.stats.multitest", "cyclopts", "aiohttp",
        "requests", "PIL.Image",
    ),
    "serve": ("torch", "transformers.models.auto.modeling_auto", "trl.trainer.reward_trainer", "pydantic", "aiohttp"),
}  # fmt: skip
# By the variable of Snakemake's prefix: the server whose forks stand for the interpreter.
INTERPRETERS = {"DRIVER": "driver", "SERVE": "serve"}
SERVE = ".venv/serve/bin/python"  # of the environment of models, in every checkout
FOLDER = "TESTS_FORK_SERVERS"  # variable: the folder where the servers of this run of tests are called
SECONDS = 900  # that a call may take
LONGEST_ADDRESS = 100  # bytes of a socket's path
# Stands for an interpreter: hands its call over, waits, and ends as the call did. It imports nothing that loads long.
CLIENT = """import _socket, posix, marshal, sys
order = posix.memfd_create("order")
posix.write(order, marshal.dumps((sys.argv[1:], posix.getcwd(), posix.environ, {{}})))
own = _socket.socket(_socket.AF_UNIX, _socket.SOCK_SEQPACKET)
own.connect({address!r})
descriptors = b"".join(number.to_bytes(4, sys.byteorder) for number in (order, 0, 1, 2))
own.sendmsg([b"call"], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, descriptors)])
status = int(own.recv(64) or 256)
if posix.WIFSIGNALED(status):
    posix.kill(posix.getpid(), posix.WTERMSIG(status))
posix._exit(posix.waitstatus_to_exitcode(status))
"""
# Whatever is no `-m MODULE` is for the interpreter itself.
SCRIPT = """#!/bin/sh
[ "${{1-}}" = -m ] || exec {python} "$@"
exec {python} -IS {client} {python} "$@"
"""


class Order(NamedTuple):
    """What a fork does. interpreters: by variable, what stands for an interpreter that jobs are started by."""

    line: list[str]
    folder: str
    environment: dict[bytes, bytes]
    interpreters: dict[str, str]


def start_servers(environment: dict[str, str], serve: Path) -> None:
    """Start the servers of a run of tests, which load their libraries with their first call, and end with this process.

    serve: the interpreter of the environment of models. Where the system has no room for them, everything is started as
    a user does.
    """
    folder = Path(tempfile.mkdtemp(prefix="fork-servers-"))
    if len(os.fsencode(folder / "snakemake")) > LONGEST_ADDRESS:
        folder.rmdir()
        folder = Path(tempfile.mkdtemp(prefix="fork-servers-", dir="/tmp"))
    alive, own = os.pipe()  # `own` is closed by this process's end, which the servers wait for
    pythons = {"snakemake": sys.executable, "driver": sys.executable, "serve": str(serve)}
    try:
        for program, python in pythons.items():
            if Path(python).exists():
                start_server(program, python, folder, alive, environment)
    except OSError:
        os.close(own)
        shutil.rmtree(folder, ignore_errors=True)
    else:
        os.environ[FOLDER] = str(folder)
    finally:
        os.close(alive)


def start_server(program: str, python: str, folder: Path, alive: int, environment: dict[str, str]) -> None:
    """Start one server, and write the script that stands for its interpreter. alive: see `start_servers`."""
    address = str(folder / program)
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listening:
        listening.bind(address)
        listening.listen(64)
        line = [python, __file__, program, str(listening.fileno()), str(alive), str(folder)]
        subprocess.Popen(
            line, env=environment, pass_fds=[listening.fileno(), alive], stdout=subprocess.DEVNULL, process_group=0
        )
    client = folder / f"{program}.py"
    client.write_text(CLIENT.format(address=address), encoding="utf-8")
    script = script_of(program, folder)
    script.write_text(SCRIPT.format(python=shlex.quote(python), client=shlex.quote(str(client))), encoding="utf-8")
    script.chmod(0o755)


def script_of(program: str, folder: Path) -> Path:
    """The script that stands for a server's interpreter: its calls of modules are forks."""
    return folder / f"{program}-python"


def call(
    line: list[str], at: Path, environment: dict[str, str], jobs_by_forks: bool
) -> subprocess.CompletedProcess[str] | None:
    """Run a line of Snakemake's in a folder to its end, and return what it said; None where there is no server."""
    if FOLDER not in os.environ:
        return None
    folder = Path(os.environ[FOLDER])
    scripts = {name: script_of(program, folder) for name, program in INTERPRETERS.items()} if jobs_by_forks else {}
    interpreters = {name: str(script) for name, script in scripts.items() if script.exists()}
    content = {os.fsencode(name): os.fsencode(value) for name, value in environment.items()}
    with contextlib.ExitStack() as open_files:
        own = open_files.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET))
        own.settimeout(SECONDS)
        order = open_files.enter_context(tempfile.TemporaryFile())
        output = open_files.enter_context(tempfile.TemporaryFile())
        nothing = open_files.enter_context(open(os.devnull, "rb"))
        order.write(marshal.dumps((line, str(at), content, interpreters)))
        order.flush()
        own.connect(str(folder / "snakemake"))
        numbers = [order.fileno(), nothing.fileno(), output.fileno(), output.fileno()]
        socket.send_fds(own, [b"call"], numbers)
        status = own.recv(64)
        output.seek(0)
        text = output.read().decode(errors="replace")
    assert status, f"the fork server has ended before {line} has: {text}"
    return subprocess.CompletedProcess(line, os.waitstatus_to_exitcode(int(status)), text)


# in the server --------------------------------------------------------------------------------------------------------


def serve(program: str, listening: socket.socket, alive: int, folder: Path) -> None:
    """Wait for calls, and do each in a fork."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for those that wait
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    order = next_order(listening, alive, program, folder)
    os.chdir(order.folder)
    os.environ.clear()
    os.environb.update(order.environment)
    try:
        (run_snakemake if program == "snakemake" else run_module)(order)
    except SystemExit as ended:
        end(ended.code)
    except BaseException:
        traceback.print_exc()
        end(1)
    end(0)


def next_order(listening: socket.socket, alive: int, program: str, folder: Path) -> Order:
    """Wait for calls; returns in the fork that is to do one. Ends with the process that started the server."""
    loaded = False
    while True:
        ready, _, _ = select.select([listening, alive], [], [])
        if alive in ready:
            shutil.rmtree(folder, ignore_errors=True)
            os._exit(0)
        if not loaded:
            load(program)
            loaded = True
        own, _ = listening.accept()
        if os.fork() == 0:
            listening.close()
            os.close(alive)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            return accept(own)
        own.close()


def load(program: str) -> None:
    """Import a program's libraries, as far as they are installed, and let the collector pass them by."""
    for name in LOADED[program]:
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    if program == "snakemake":
        importlib.import_module("snakemake.cli").get_argument_parser()  # looks for plugins among all that is installed
    gc.collect()
    gc.freeze()


def accept(own: socket.socket) -> Order:
    """Fork once more: the one waits for the other and tells the caller how it ended; the other returns its order."""
    _, descriptors, _, _ = socket.recv_fds(own, 64, 4)
    if len(descriptors) < 4:
        os._exit(0)
    worker = os.fork()
    if worker == 0:
        os.setpgid(0, 0)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        order, *streams = descriptors
        for stream, number in enumerate(streams):
            os.dup2(number, stream)
        os.lseek(order, 0, os.SEEK_SET)
        with open(order, "rb") as file:
            content = Order(*marshal.load(file))
        for number in {*streams, own.fileno()}:
            os.close(number)
        own.detach()
        return content
    for number in {0, 1, 2, *descriptors}:
        os.close(number)
    waiting = select.poll()
    process = os.pidfd_open(worker)
    waiting.register(process, select.POLLIN)
    waiting.register(own, select.POLLHUP)
    if all(number != process for number, _ in waiting.poll()):  # the caller has gone: nobody wants it any more
        for sign in (signal.SIGTERM, signal.SIGKILL):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(worker, sign)
            if select.select([process], [], [], 5.0)[0]:
                break
    _, status = os.waitpid(worker, 0)
    with contextlib.suppress(OSError):
        own.send(str(status).encode())
    os._exit(0)


def run_snakemake(order: Order) -> None:
    """Snakemake's own `main`, with forks in the place of the usual interpreters. Raises SystemExit with its code."""
    shell = importlib.import_module("snakemake.shell").shell
    own, usual = shell.prefix, {"DRIVER": sys.executable, "SERVE": SERVE}

    def prefix(line: str) -> None:
        for name, script in order.interpreters.items():
            assert f" {name}=" in line, f"Snakemake's prefix sets no {name}"
            line = line.replace(f" {name}={shlex.quote(usual[name])} ", f" {name}={shlex.quote(script)} ")
        own(line)

    shell.prefix = prefix
    sys.argv = order.line
    sys.path[0] = str(Path(sys.argv[0]).parent)
    sys.exit(importlib.import_module("snakemake.cli").main())


def run_module(order: Order) -> None:
    """What `python -m MODULE ...` does. Raises whatever the module raises."""
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


if __name__ == "__main__":
    serve(sys.argv[1], socket.socket(fileno=int(sys.argv[2])), int(sys.argv[3]), Path(sys.argv[4]))
