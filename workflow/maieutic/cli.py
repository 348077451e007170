"""`maieutic COMMAND ...`: every command, its arguments taken from its function's signature."""

# Annotations are not put off here: cyclopts reads those of a function in `main`, which name what is imported there.

import logging
import signal
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from maieutic.commands import PEOPLE, commands, function_of, line_of, name_of
from maieutic.core.collector import collect_seldom
from maieutic.core.errors import UserError, mendable
from maieutic.core.jobs import LOG, Job, arguments, job_of
from maieutic.core.logs import LOG_ALONE, log_to
from maieutic.core.secrets import no_core_dumps

if TYPE_CHECKING:  # it reads all but a rule's job; loading it costs a cheap job a fifth of its time
    from cyclopts import App

log = logging.getLogger("maieutic")
MOST_FAULTS = 2  # lines of one job on the terminal


def application(with_lines: bool = False) -> "App":
    """All commands. with_lines: with a line of help each, which costs a look into their modules."""
    from cyclopts import App, Group, Parameter

    Parameter(n_tokens=1, accepts_keys=False, converter=job_of)(Job)
    app = App(
        name="maieutic",
        help="How good is a language model as a tutor? Snakemake starts a run; `maieutic steps` lists its steps.",
        version_flags=[],
        default_parameter=Parameter(consume_multiple=True, negative=(), json_list=False),
        help_format="plaintext",
        result_action="return_value",
    )
    for place, (stage, functions) in enumerate(commands().items()):
        group = Group(stage, sort_key=place, show=stage == PEOPLE)
        for function in functions:
            line = {"help": line_of(function)} if with_lines and stage == PEOPLE else {}
            app.command(f"maieutic.{function}", name=name_of(function), group=group, **line)
    return app


def interrupt(*_: object) -> None:
    """A scheduler ends a job with SIGTERM: take it as Ctrl-C, which ends the server and closes the journal."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as in whatever a script starts with `&`
        signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.raise_signal(signal.SIGINT)


def end_of(error: BaseException, command: str, log_file: Path | None = None) -> int:
    """Return the exit code of a command that ended with an error, and log it: one line for what a user can mend.

    log_file: of a rule's job, which has all lines; the terminal shows the first.
    """
    if isinstance(error, KeyboardInterrupt):
        log.error("%s was interrupted; what was finished is kept", command)
        return 130
    error = mendable(error)
    if isinstance(error, UserError):
        for number, fault in enumerate(error.all):
            log.error("%s", fault.line, extra={LOG_ALONE: number >= MOST_FAULTS})
        if (more := len(error.all) - MOST_FAULTS) > 0 and log_file is not None:
            log.warning("and %d more: %s", more, log_file)
        return 2
    log.error("%s failed", command, exc_info=error)
    return 1


def run(command: str, call: Callable[[], None], log_file: Path | None) -> int:
    """Run a command; its exit code, as in `main`. log_file: for all that it prints."""
    collect_seldom()
    no_core_dumps()
    log_to(log_file)
    signal.signal(signal.SIGTERM, interrupt)
    try:
        call()
    except (Exception, KeyboardInterrupt) as error:
        return end_of(error, command, log_file)
    return 0


def main(words: Sequence[str] | None = None) -> int:
    """Run one command; 0: done, 1: a fault of the program, 2: one that the user can mend, 130: interrupted."""
    words = sys.argv[1:] if words is None else words
    if words and (function := function_of(words[0])) and (given := arguments(function, words[1:])):
        log_file = given.pop(LOG)
        return run(words[0], partial(function, **given), log_file)

    from cyclopts import CycloptsError, Parameter

    app = application(not words or words[0].startswith("-"))
    ended = 0

    def typed(
        *words: Annotated[str, Parameter(show=False, allow_leading_hyphen=True)],
        log: Annotated[Path | None, Parameter(help="file for all that the command prints")] = None,
    ) -> None:
        nonlocal ended
        function, bound, _ = app.parse_args(words, exit_on_error=False, print_error=False)
        ended = run(words[0] if words else "maieutic", partial(function, *bound.args, **bound.kwargs), log)

    app.meta.default(typed)
    try:
        app.meta(words, exit_on_error=False, print_error=False)
    except CycloptsError as error:
        known = {name_of(function) for functions in commands().values() for function in functions}
        typed_name = next((word for word in words if word in known), "")
        print(
            " ".join(str(error).split()), f"Fix: {' '.join(['maieutic', typed_name]).strip()} --help", file=sys.stderr
        )
        return 2
    return ended


if __name__ == "__main__":
    sys.exit(main())
