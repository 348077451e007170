"""`maieutic COMMAND ...`: every command, its arguments taken from its function's signature."""

# Annotations are not put off here: cyclopts reads those of a function in `main`, which name what is imported there.

import logging
import signal
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import ValidationError

from maieutic.commands import commands, function_of, name_of
from maieutic.core.collector import collect_seldom
from maieutic.core.errors import UserError, mendable
from maieutic.core.jobs import LOG, Job, arguments
from maieutic.core.logs import log_to

if TYPE_CHECKING:  # it reads all but a rule's job; loading it costs a cheap job a fifth of its time
    from cyclopts import App

log = logging.getLogger("maieutic")


def job_of(kind: type[Job], tokens: Sequence[Any]) -> Job:
    """A job from the one JSON object that a rule hands over. Raises ValueError naming the fields that are wrong."""
    try:
        return kind.model_validate_json(tokens[0].value)
    except ValidationError as error:
        faults = [f"{'.'.join(map(str, detail['loc']))}: {detail['msg']}" for detail in error.errors()]
        raise ValueError("; ".join(faults)) from None


def application() -> "App":
    """All commands."""
    from cyclopts import App, Group, Parameter

    Parameter(n_tokens=1, accepts_keys=False, converter=job_of)(Job)
    app = App(
        name="maieutic",
        help="How good is a language model as a tutor? The steps of the workflow, one command each.",
        version_flags=[],
        default_parameter=Parameter(consume_multiple=True, negative=(), json_list=False),
        help_format="plaintext",
        result_action="return_value",
    )
    for place, (stage, functions) in enumerate(commands().items()):
        group = Group(stage, sort_key=place)
        for function in functions:
            app.command(f"maieutic.{function}", name=name_of(function), group=group)
    return app


def interrupt(*_: object) -> None:
    """A scheduler ends a job with SIGTERM: take it as Ctrl-C, which ends the server and closes the journal."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as in whatever a script starts with `&`
        signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.raise_signal(signal.SIGINT)


def end_of(error: BaseException, command: str) -> int:
    """The exit code of a command that ended with an error, which is said: one line for what a user can mend."""
    if isinstance(error, KeyboardInterrupt):
        log.error("%s was interrupted; what was finished is kept", command)
        return 130
    error = mendable(error)
    if isinstance(error, UserError):
        for fault in error.all:
            log.error("%s", fault.line)
        return 2
    log.error("%s failed", command, exc_info=error)
    return 1


def run(command: str, call: Callable[[], None], log_file: Path | None) -> int:
    """Run a command; its exit code, as in `main`. log_file: for all that it prints."""
    collect_seldom()
    log_to(log_file)
    signal.signal(signal.SIGTERM, interrupt)
    try:
        call()
    except (Exception, KeyboardInterrupt) as error:
        return end_of(error, command)
    return 0


def main(words: Sequence[str] | None = None) -> int:
    """Run one command; 0: done, 1: a fault of the program, 2: one that the user can mend, 130: interrupted."""
    words = sys.argv[1:] if words is None else words
    if words and (function := function_of(words[0])) and (given := arguments(function, words[1:])):
        log_file = given.pop(LOG)
        return run(words[0], partial(function, **given), log_file)

    from cyclopts import CycloptsError, Parameter

    app = application()
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
        print(" ".join(str(error).split()), "Fix: maieutic COMMAND --help", file=sys.stderr)
        return 2
    return ended


if __name__ == "__main__":
    sys.exit(main())
