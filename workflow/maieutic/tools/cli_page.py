"""Generator of docs/cli.md: the commands for people with their options, from the signatures and docstrings."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from maieutic.cli import application
from maieutic.commands import USER_STAGES, all_commands, name_of_command

CLI_PAGE = Path("docs/cli.md")
INTRODUCTION = """# Commands

`maieutic COMMAND --help` prints the same texts with defaults and further remarks. `make schemas` writes this page.
"""


def cli_page() -> str:
    """Return the text of docs/cli.md."""
    app, parts = application(True), [INTRODUCTION]
    for stage in USER_STAGES:
        parts.append(f"## {stage}\n")
        for function in all_commands()[stage]:
            parts += command_lines(app[name_of_command(function)], name_of_command(function))
    return "\n".join(parts)


def command_lines(command: Any, name: str) -> Iterator[str]:
    """Yield the lines of one command: its summary, then its arguments and options. command: cyclopts application."""
    arguments = list(command_arguments(command))
    words = [option_name(argument) for argument in arguments if not is_option(argument)]
    yield f"### maieutic {' '.join([name, *words])}\n"
    yield f"{command.help}\n"
    texts = [" ".join(str(argument.parameter.help).split()) for argument in arguments]
    lines = [f"`{option_name(argument)}`: {text}" for argument, text in zip(arguments, texts, strict=True)]
    if lines:
        yield "\\\n".join(lines) + "\n"  # a line each


def command_arguments(command: Any) -> Iterator[Any]:
    """Yield the arguments and options of a command that its help shows."""
    collection = command.assemble_argument_collection(parse_docstring=True)
    return (argument for argument in collection if argument.show and argument.names != ("*",))


def is_option(argument: Any) -> bool:
    """Return True if an argument can only be passed by its flag."""
    return argument.index is None


def option_name(argument: Any) -> str:
    """Return the name of an argument as it is typed: FILE for an argument with a place, --option otherwise."""
    name = str(argument.names[0])
    return name if is_option(argument) else name.removeprefix("--").upper().replace("-", "_")
