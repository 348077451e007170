"""All commands by stage, as "module:function". A module is imported only when one of its commands is called.

Each stage, feature and benchmark lists the commands of its rules in its folder; this module lists those for people.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

from maieutic.core.plugins import command_tables
from maieutic.core.terminal import say

USER_STAGES = ("Start a run", "Check before a run", "Read results", "Share")
COMMANDS = {
    USER_STAGES[0]: (
        "tools.new_run:init",
        "tools.transcripts:transcripts",
        "tools.table:table",
        "tools.pinning:pin",
        "launch.run:run",
        "launch.batches:batches",
        "launch.batches:cancel",
        "serving.recover:recover",
    ),
    USER_STAGES[1]: (
        "tools.doctor:doctor",
        "tools.estimate:estimate",
        "launch.partition_file:partitions",
        "tools.items:items",
        "tools.self_check:check",
        "tools.self_check:check_graders",
        "commands:steps",
    ),
    USER_STAGES[2]: (
        "launch.runs:runs",
        "tools.live:live",
        "record.compare:compare",
        "tools.labelling:label",
        "people.read_labels_command:read_labels",
        "tools.forgetting:forget",
    ),
    USER_STAGES[3]: (
        "record.export:export",
        "record.share:share",
        "record.verify:verify",
        "record.board:board",
    ),
    "Report": ("record.finished_run:keep_run",),
    "For maintainers": (
        "tools.schemas:export_schemas",
        "launch.provenance:export_shipped",
    ),
}


def all_commands() -> dict[str, tuple[str, ...]]:
    """Return the commands of the stages, features and benchmarks, then those for people, by stage."""
    stages: dict[str, tuple[str, ...]] = {}
    for slice_stages in (*command_tables(), COMMANDS):
        for stage, functions in slice_stages.items():
            stages[stage] = (*stages.get(stage, ()), *functions)
    return stages


def name_of_command(function: str) -> str:
    """Return a command's name on the command line and in the rules. function: entry of the command in `COMMANDS`."""
    return function.partition(":")[2].replace("_", "-")


def command_function(name: str) -> Callable[..., None] | None:
    """Import and return the function of a command, or None if the command does not exist."""
    for functions in all_commands().values():
        for function in functions:
            if name_of_command(function) == name:
                module, _, attribute = function.partition(":")
                command: Callable[..., None] = getattr(import_module(f"maieutic.{module}"), attribute)
                return command
    return None


def summary_of_command(function: str) -> str:
    """Return the first paragraph of a command's docstring, without importing the module that defines the command.

    function: entry of the command in `COMMANDS`.
    """
    module, _, attribute = function.partition(":")
    spec = find_spec(f"maieutic.{module}")
    assert spec is not None and spec.origin is not None
    tree = ast.parse(Path(spec.origin).read_text(encoding="utf-8"))
    definition = next(
        (node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == attribute), None
    )
    if definition is None:  # the module is a package, and its __init__ imports the function from another module
        source = next(
            node for node in tree.body if isinstance(node, ast.ImportFrom) and attribute in imported_names(node)
        )
        return summary_of_command(f"{str(source.module).removeprefix('maieutic.')}:{attribute}")
    return (ast.get_docstring(definition) or "").partition("\n\n")[0].replace("\n", " ")


def imported_names(node: ast.ImportFrom) -> list[str]:
    """Return the names that a statement `from ... import ...` imports."""
    return [alias.name for alias in node.names]


def steps() -> None:
    """Print the commands that the workflow's rules run, by stage."""
    for stage, functions in all_commands().items():
        if stage not in USER_STAGES:
            say(stage)
            for function in functions:
                say(f"  {name_of_command(function):28} {summary_of_command(function)}")
