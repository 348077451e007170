"""Steps of the workflow that compute files from other files without calling a model, as `maieutic verify` runs them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple, get_type_hints

from maieutic.core.paths import Pattern

Outputs = dict[str, str | list[str]]  # output files by the names of a command's parameters


class Step(NamedTuple):
    """Step of the workflow that computes files from other files, without calling a model.

    rule: name of the Snakemake rule; names: values of the rule's wildcards; function: command of the rule, whose
    parameters are a job, the rule's inputs by name, `items` (a folder) and the outputs; outputs: output files by
    parameter name.
    """

    rule: str
    function: Callable[..., None]
    names: dict[str, str]
    outputs: Outputs

    def run(self, job: str, files: Mapping[str, Any], items: Path, outs: Mapping[str, Any]) -> None:
        """Run the command of the step.

        job: the job as JSON; files: input paths by name; items: folder of the items; outs: output paths by name.
        """
        parameters = get_type_hints(self.function)
        inputs_by_name = {name: value for name, value in {**files, "items": items}.items() if name in parameters}
        self.function(job=parameters["job"].model_validate_json(job), **inputs_by_name, **outs)


def one_output_step(function: Callable[..., None], pattern: Pattern, **names: str) -> Step:
    """Return a step with a single output, `pattern`, for the rule named like the function. names: wildcards' values."""
    return Step(function.__name__, function, names, {"out": pattern.of(**names)})
