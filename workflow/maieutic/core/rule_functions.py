"""Functions of rules whose parameters Snakemake need not compute.

Snakemake's configuration is read with this module before extensions are known, so it imports nothing of the plan.
"""

from __future__ import annotations

from collections.abc import Callable
from inspect import signature
from typing import Any, TypeVar

F = TypeVar("F", bound=Callable[..., Any])
# Snakemake's attribute for the parameters of a function of a rule (`snakemake.common.overwrite_function_params`)
PARAMETERS = "_overwrite_params"


def with_parameters(function: F) -> F:
    """Store the parameters of a rule's function in the function, and return it.

    Snakemake reads them several times a job, and computing them each time takes seconds in a plan of thousands of jobs.
    """
    parameters = {name: parameter for name, parameter in signature(function).parameters.items() if name != "self"}
    setattr(function, PARAMETERS, parameters)
    return function
