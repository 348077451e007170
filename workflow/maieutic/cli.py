"""Command line `maieutic COMMAND ...`. A command's flags are the parameters of its function."""

# There is no `from __future__ import annotations`, because cyclopts could not resolve the annotations of the function
# that is local to `main`.

import logging
import os
import select
import signal
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from maieutic.commands import USER_STAGES, all_commands, command_function, name_of_command, summary_of_command
from maieutic.core.errors import PENDING_PLACE, UserError, as_user_error
from maieutic.core.extensions import activate_named_extensions
from maieutic.core.jobs import LOG, Job, parse_job, parse_rule_arguments
from maieutic.core.logs import LOG_ONLY, ONE_WRITER_VARIABLE, log_to
from maieutic.core.parent_process import collect_garbage_rarely
from maieutic.core.secrets import no_core_dumps
from maieutic.core.terminal import say

if TYPE_CHECKING:  # importing cyclopts takes a fifth of a short job's time; jobs of Snakemake do not need it
    from cyclopts import App

log = logging.getLogger("maieutic")
STDOUT = 1  # file descriptor
MOST_FAULTS = 2  # maximum number of a job's errors that are printed on the terminal


def application(with_lines: bool = False) -> "App":
    """Return the application with all commands.

    with_lines: True to add a help line for each command, for which the command's module is parsed.
    """
    from cyclopts import App, Group, Parameter

    Parameter(n_tokens=1, accepts_keys=False, converter=parse_job)(Job)
    app = App(
        name="maieutic",
        help="Evaluate language models as tutors. Start a run with Snakemake; `maieutic steps` lists its steps.",
        version_flags=[],
        default_parameter=Parameter(consume_multiple=True, negative=(), json_list=False),
        help_format="plaintext",
        result_action="return_value",
    )
    for place, (stage, functions) in enumerate(all_commands().items()):
        group = Group(stage, sort_key=place, show=stage in USER_STAGES)
        for function in functions:
            line = {"help": summary_of_command(function)} if with_lines and stage in USER_STAGES else {}
            app.command(f"maieutic.{function}", name=name_of_command(function), group=group, **line)
    return app


def handle_sigterm(*_: object) -> None:
    """Treat SIGTERM, which schedulers send, like Ctrl-C: the server is stopped and the journal is closed."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # processes that a script starts with `&` ignore SIGINT
        signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.raise_signal(signal.SIGINT)


def exit_code_of(error: BaseException, command: str, log_file: Path | None = None) -> int:
    """Log the error that ended a command, without traceback if the user can fix it, and return the exit code.

    log_file: log of a rule's job. It contains all errors, while the terminal shows only the first MOST_FAULTS.
    """
    if isinstance(error, KeyboardInterrupt):
        log.error("%s was interrupted; finished work is kept", command)
        return 130
    error = as_user_error(error)
    if isinstance(error, UserError):
        for number, fault in enumerate(error.all):
            is_hidden = number >= MOST_FAULTS or fault.place == PENDING_PLACE  # the run's last lines name these
            log.error("%s", fault.line, extra={LOG_ONLY: is_hidden})
        if (more := len(error.all) - MOST_FAULTS) > 0 and log_file is not None:
            is_told = bool(os.environ.get(ONE_WRITER_VARIABLE))  # the run names the number of further faults
            text = "%d more fault%s in the log: %s"
            log.warning(text, more, " is" if more == 1 else "s are", log_file, extra={LOG_ONLY: is_told})
        return 2
    log.error("%s failed", command, exc_info=error)
    return 1


def run_command(command: str, call: Callable[[], None], log_file: Path | None) -> int:
    """Run a command and return its exit code (see `main`). log_file: file for the command's output."""
    collect_garbage_rarely()
    no_core_dumps()
    log_to(log_file)
    signal.signal(signal.SIGTERM, handle_sigterm)
    try:
        call()
        sys.stdout.flush()
    except (Exception, KeyboardInterrupt) as error:
        if isinstance(error, BrokenPipeError) and is_output_closed():
            return 128 + signal.SIGPIPE
        return exit_code_of(error, command, log_file)
    return 0


def is_output_closed() -> bool:
    """Return True if the reader of the output has ended, as in `maieutic steps | head`. Further output is discarded."""
    output = select.poll()
    output.register(STDOUT, 0)
    if not any(event & select.POLLERR for _, event in output.poll(0)):
        return False
    os.dup2(os.open(os.devnull, os.O_WRONLY), STDOUT)
    return True


def main(words: Sequence[str] | None = None) -> int:
    """Run one command. Returns 0 on success, 1 for a bug, 2 for an error that the user can fix, 130 if interrupted.

    words: command and flags (default: the arguments of the process).
    """
    words = sys.argv[1:] if words is None else words
    activate_named_extensions(words)
    if words and (function := command_function(words[0])) and (args := parse_rule_arguments(function, words[1:])):
        log_file = args.pop(LOG)
        return run_command(words[0], partial(function, **args), log_file)

    from cyclopts import CycloptsError, Parameter

    app = application(not words or words[0].startswith("-"))
    ended = 0

    def typed(
        *words: Annotated[str, Parameter(show=False, allow_leading_hyphen=True)],
        log: Annotated[Path | None, Parameter(help="file for the command's output")] = None,
    ) -> None:
        nonlocal ended
        function, bound, _ = app.parse_args(words, exit_on_error=False, print_error=False)
        ended = run_command(words[0] if words else "maieutic", partial(function, *bound.args, **bound.kwargs), log)

    app.meta.default(typed)
    try:
        app.meta(words, exit_on_error=False, print_error=False)
    except CycloptsError as error:
        known = {name_of_command(function) for functions in all_commands().values() for function in functions}
        typed_name = next((word for word in words if word in known), "")
        help_line = " ".join(filter(None, ["maieutic", typed_name, "--help"]))
        say(" ".join(str(error).split()), f"Fix: run `{help_line}`", error=True)
        return 2
    return ended


if __name__ == "__main__":
    sys.exit(main())
