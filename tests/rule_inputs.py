"""Inputs of the rules, read from the text of the rule files."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Mapping
from functools import cache, partial
from pathlib import Path
from typing import Any

from maieutic.plan import inputs
from maieutic.plan.rules import RulePlan
from run_configs import STAGES

INPUT_SECTION = re.compile(
    r"^(?:rule|use rule \w+ as) (\w+)(?: with)?:\n(?:    .*\n)*?    input:\n((?:        .*\n)+)", re.MULTILINE
)


def inputs_of(plan: RulePlan, rule: str) -> Callable[[Any], dict[str, str | list[str]]]:
    """Return the function that maps a rule's wildcards to the rule's input files, by input name."""
    sources = {
        name: plan.select(source) if callable(source) else source for name, source in input_sources(rule).items()
    }
    return lambda wildcards: {
        name: source(wildcards) if callable(source) else filled(source, {"RUN": plan.run_folder, **dict(wildcards)})
        for name, source in sources.items()
    }


@cache
def input_sources(rule: str) -> dict[str, Any]:
    """Return the inputs of a rule by name: paths with wildcards, or functions. Raises KeyError for an unknown rule."""
    call = ast.parse(f"dict({input_sections()[rule]})", mode="eval").body
    assert isinstance(call, ast.Call)
    return {str(keyword.arg): input_source(keyword.value) for keyword in call.keywords}


def input_source(value: ast.expr) -> Any:
    """Return the literal path or paths in a rule's input, or the function in `plan.select(MODULE.FUNCTION, ...)`."""
    if isinstance(value, ast.Call) and isinstance(value.args[0], ast.Attribute):
        name = value.args[0].attr
        function = next(vars(module)[name] for module in (inputs, *STAGES) if name in vars(module))
        return partial(function, **{str(word.arg): ast.literal_eval(word.value) for word in value.keywords})
    # The f-strings of rules contain only {RUN}, which is filled in like a wildcard.
    return ast.literal_eval(ast.unparse(value).removeprefix("f"))


@cache
def input_sections() -> dict[str, str]:
    """Return the text of the `input:` section of each rule, by the rule's name."""
    texts = [
        path.read_text(encoding="utf-8")
        for path in sorted((Path(__file__).parents[1] / "workflow/rules").glob("*.smk"))
    ]
    return {rule: section for text in texts for rule, section in INPUT_SECTION.findall(text)}


def filled(source: str | list[str], names: Mapping[str, str]) -> str | list[str]:
    """Return a path, or a list of paths, with the wildcards filled in. names: values of the wildcards."""
    return source.format(**names) if isinstance(source, str) else [path.format(**names) for path in source]
