"""Fork servers for tests: processes that have loaded Snakemake's or a job's libraries, and fork for each call.

A test run thus pays for these imports only once. A fork runs Snakemake's `main`, or a job's `python -m maieutic` line,
in a given folder and environment. The package of this checkout is loaded in advance too. A fork imports it anew if the
test's copy differs in any file of FOLDERS, or if an extension is active, since its code is found at import.
Tests that kill Snakemake or a job, or that test their start, start them as a user does. So do the drills, and the tests
of clusters and containers.

Jobs find their interpreter through variables that Snakemake's prefix sets before each line. A fork replaces an
interpreter unless the run's configuration names another one.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import gc
import importlib
import marshal
import os
import pkgutil
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

# Libraries that each server loads: for Snakemake, and for jobs in the driver's and the serving environment.
LOADED = {
    "snakemake": (
        "snakemake.cli", "snakemake.executors.local", "snakemake.report", "jinja2", "rich.live", "rich.table",
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
# Server whose forks replace an interpreter, by the interpreter's variable in Snakemake's prefix.
INTERPRETERS = {"DRIVER": "driver", "SERVE": "serve"}
SERVE = ".venv/serve/bin/python"  # interpreter of the serving environment, in every checkout
CHECKOUT = Path(__file__).parents[1]
# Folders of the package and of the files that it finds by its own path: locks, recipes, rules and cards
FOLDERS = ("workflow", "resources", "envs", "containers")
PACKAGE = "maieutic"
HOOKS = ("maieutic.launch", "hooks")  # package and name of the module that notes, at its import, when the run started
FOLDER = "TESTS_FORK_SERVERS"  # environment variable with the folder of this test run's sockets
SECONDS = 900  # longest duration of a call
LONGEST_ADDRESS = 100  # bytes of the path of a socket
# Replaces an interpreter: passes its call to a server, waits, and exits with the call's status. Its imports are fast.
CLIENT = """import _socket, posix, marshal, sys
order = posix.memfd_create("order")
posix.write(order, marshal.dumps((sys.argv[1:], posix.getcwd(), posix.environ, {{}})))
connection = _socket.socket(_socket.AF_UNIX, _socket.SOCK_SEQPACKET)
connection.connect({address!r})
descriptors = b"".join(number.to_bytes(4, sys.byteorder) for number in (order, 0, 1, 2))
connection.sendmsg([b"call"], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, descriptors)])
status = int(connection.recv(64) or 256)
if posix.WIFSIGNALED(status):
    posix.kill(posix.getpid(), posix.WTERMSIG(status))
posix._exit(posix.waitstatus_to_exitcode(status))
"""
# Calls other than `-m MODULE` are passed to the interpreter itself.
SCRIPT = """#!/bin/sh
[ "${{1-}}" = -m ] || exec {python} "$@"
exec {python} -IS {client} {python} "$@"
"""


class Order(NamedTuple):
    """A call for a fork. interpreters: scripts that replace the interpreters of jobs, by the prefix's variable."""

    line: list[str]
    folder: str
    environment: dict[bytes, bytes]
    interpreters: dict[str, str]


def start_servers(environment: dict[str, str], serve: Path) -> None:
    """Start the servers of a test run, which load their libraries at their first call and end with this process.

    serve: interpreter of the serving environment. If the servers cannot be started, Snakemake and jobs are started as a
    user does.
    """
    folder = Path(tempfile.mkdtemp(prefix="fork-servers-"))
    if len(os.fsencode(folder / "snakemake")) > LONGEST_ADDRESS:
        folder.rmdir()
        folder = Path(tempfile.mkdtemp(prefix="fork-servers-", dir="/tmp"))
    read_end, write_end = os.pipe()  # write_end closes with this process, which ends the servers
    pythons = {"snakemake": sys.executable, "driver": sys.executable, "serve": str(serve)}
    try:
        for program, python in pythons.items():
            if Path(python).exists():
                start_server(program, python, folder, read_end, environment)
    except OSError:
        os.close(write_end)
        shutil.rmtree(folder, ignore_errors=True)
    else:
        os.environ[FOLDER] = str(folder)
    finally:
        os.close(read_end)


def start_server(program: str, python: str, folder: Path, alive: int, environment: dict[str, str]) -> None:
    """Start one server, and write the script that replaces its interpreter. alive: see `start_servers`."""
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
    """Return the script that replaces a server's interpreter and runs modules in forks."""
    return folder / f"{program}-python"


def call(
    line: list[str], at: Path, environment: dict[str, str], jobs_by_forks: bool
) -> subprocess.CompletedProcess[str] | None:
    """Run a Snakemake command in a folder to its end, and return its output; None without a server."""
    if FOLDER not in os.environ:
        return None
    folder = Path(os.environ[FOLDER])
    scripts = {name: script_of(program, folder) for name, program in INTERPRETERS.items()} if jobs_by_forks else {}
    interpreters = {name: str(script) for name, script in scripts.items() if script.exists()}
    content = {os.fsencode(name): os.fsencode(value) for name, value in environment.items()}
    with contextlib.ExitStack() as open_files:
        connection = open_files.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET))
        connection.settimeout(SECONDS)
        order = open_files.enter_context(tempfile.TemporaryFile())
        output = open_files.enter_context(tempfile.TemporaryFile())
        nothing = open_files.enter_context(open(os.devnull, "rb"))
        order.write(marshal.dumps((line, str(at), content, interpreters)))
        order.flush()
        connection.connect(str(folder / "snakemake"))
        numbers = [order.fileno(), nothing.fileno(), output.fileno(), output.fileno()]
        socket.send_fds(connection, [b"call"], numbers)
        status = connection.recv(64)
        output.seek(0)
        text = output.read().decode(errors="replace")
    assert status, f"the fork server ended before {line} did: {text}"
    return subprocess.CompletedProcess(line, os.waitstatus_to_exitcode(int(status)), text)


# in the server --------------------------------------------------------------------------------------------------------


def serve(program: str, listening: socket.socket, alive: int, folder: Path) -> None:
    """Wait for calls, and run each in a fork."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the processes that wait for workers are not waited for
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    order = next_order(listening, alive, program, folder)
    os.chdir(order.folder)
    os.environ.clear()
    os.environb.update(order.environment)
    try:
        (run_snakemake if program == "snakemake" else run_module)(order)
    except SystemExit as error:
        end(error.code)
    except BaseException:
        traceback.print_exc()
        end(1)
    end(0)


def next_order(listening: socket.socket, alive: int, program: str, folder: Path) -> Order:
    """Wait for calls, and return the order of one in its fork. The server ends with the process that started it."""
    loaded = False
    while True:
        ready, _, _ = select.select([listening, alive], [], [])
        if alive in ready:
            shutil.rmtree(folder, ignore_errors=True)
            os._exit(0)
        if not loaded:
            load(program)
            loaded = True
        connection, _ = listening.accept()
        if os.fork() == 0:
            listening.close()
            os.close(alive)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            return accept(connection)
        connection.close()


def load(program: str) -> None:
    """Import a program's installed libraries and the package, and exclude them from garbage collection."""
    for name in LOADED[program]:
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    files_of(CHECKOUT)
    os.chdir(CHECKOUT)  # the package looks at its import whether the folder has resources
    sys.path.insert(1, str(CHECKOUT / "workflow"))
    for module in pkgutil.walk_packages(importlib.import_module(PACKAGE).__path__, f"{PACKAGE}."):
        if not module.name.endswith(".__main__"):
            with contextlib.suppress(ImportError):
                importlib.import_module(module.name)
    del sys.path[1]
    if sys.modules.pop(".".join(HOOKS), None) is not None:  # each run imports it anew
        delattr(sys.modules[HOOKS[0]], HOOKS[1])
    if program == "snakemake":
        sys.path.append(str(CHECKOUT / "workflow/plugin"))
        importlib.import_module("snakemake.cli").get_argument_parser()  # searches all installed packages for plugins
    gc.collect()
    gc.freeze()


@functools.cache  # the files of the loaded package are looked up before the first fork
def files_of(checkout: Path) -> dict[str, tuple[int, int]]:
    """Return the size and the modification time of each file in FOLDERS by its path, without compiled modules."""
    status_of = {}
    for folder, names, files in (entry for name in FOLDERS for entry in os.walk(checkout / name)):
        names[:] = [name for name in names if name != "__pycache__"]
        for path in (Path(folder, name) for name in files if not name.endswith(".sif")):
            status = path.stat()
            status_of[str(path.relative_to(checkout))] = (status.st_size, status.st_mtime_ns)
    return status_of


def use_package_of(checkout: Path, extended: bool) -> None:
    """Drop the loaded package unless a checkout has the same. extended: True if an extension is active."""
    if extended or files_of(checkout) != files_of(CHECKOUT):
        for name in [name for name in sys.modules if name.split(".")[0] == PACKAGE]:
            del sys.modules[name]


def accept(connection: socket.socket) -> Order:
    """Fork again: the child returns its order, and the parent waits for it and sends its exit status to the caller."""
    _, descriptors, _, _ = socket.recv_fds(connection, 64, 4)
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
        for number in {*streams, connection.fileno()}:
            os.close(number)
        connection.detach()
        return content
    for number in {0, 1, 2, *descriptors}:
        os.close(number)
    waiting = select.poll()
    process = os.pidfd_open(worker)
    waiting.register(process, select.POLLIN)
    waiting.register(connection, select.POLLHUP)
    if all(number != process for number, _ in waiting.poll()):  # the caller has ended, so the result is not needed
        for sign in (signal.SIGTERM, signal.SIGKILL):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(worker, sign)
            if select.select([process], [], [], 5.0)[0]:
                break
    _, status = os.waitpid(worker, 0)
    with contextlib.suppress(OSError):
        connection.send(str(status).encode())
    os._exit(0)


def run_snakemake(order: Order) -> None:
    """Run Snakemake's `main`, with forks instead of the usual interpreters. Raises SystemExit with its code."""
    shell = importlib.import_module("snakemake.shell").shell
    original_prefix, usual_interpreters = shell.prefix, {"DRIVER": sys.executable, "SERVE": SERVE}

    def prefix(line: str) -> None:
        for name, script in order.interpreters.items():
            assert f" {name}=" in line, f"Snakemake's prefix sets no {name}"
            line = line.replace(f" {name}={shlex.quote(usual_interpreters[name])} ", f" {name}={shlex.quote(script)} ")
        original_prefix(line)

    shell.prefix = prefix
    sys.argv = order.line
    sys.path[0] = str(Path(sys.argv[0]).parent)
    named = [Path(word).read_text(encoding="utf-8", errors="replace") for word in sys.argv if Path(word).is_file()]
    use_package_of(Path(order.folder), any("extensions" in text for text in (*sys.argv, *named)))
    sys.exit(importlib.import_module("snakemake.cli").main())


def run_module(order: Order) -> None:
    """Run a module as `python -m MODULE ...` does. Raises every exception of the module."""
    _, _, module, *words = order.line
    sys.path[:1] = [order.folder, *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]
    sys.argv = ["-m", *words]
    checkout = Path(os.environ.get("PYTHONPATH", "").split(os.pathsep)[0]).parent
    use_package_of(checkout, bool(os.environ.get("MAIEUTIC_EXTENSIONS")))
    if threads := os.environ.get("OMP_NUM_THREADS", "") if "torch" in sys.modules else "":
        # Torch has read the variable already, in another environment.
        sys.modules["torch"].set_num_threads(int(threads))
    runpy.run_module(module, run_name="__main__", alter_sys=True)


def end(code: object) -> NoReturn:
    """Exit as an interpreter does, but without the slow clean-up of loaded modules."""
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
