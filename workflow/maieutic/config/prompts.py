"""Rendering of prompt templates in a sandbox."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # Jinja is imported on first use, since most jobs read cards but render no template
    from jinja2 import Template
    from jinja2.sandbox import SandboxedEnvironment

Messages = list[dict[str, Any]]


@cache
def template_sandbox() -> SandboxedEnvironment:
    """Return the Jinja environment of all templates. A trailing newline is dropped, as in the benchmarks' own code."""
    from jinja2 import StrictUndefined
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    return ImmutableSandboxedEnvironment(undefined=StrictUndefined, autoescape=False)


@lru_cache(maxsize=256)
def compile_template(template: str) -> Template:
    """Return a compiled prompt template. Repeated templates are compiled once."""
    return template_sandbox().from_string(template)


@lru_cache(maxsize=256)
def template_variables(template: str) -> frozenset[str]:
    """Return the variables that a template needs. Raises ValueError with the line number of a syntax error."""
    from jinja2 import TemplateSyntaxError, meta

    try:
        return frozenset(meta.find_undeclared_variables(template_sandbox().parse(template)))
    except TemplateSyntaxError as error:
        raise ValueError(f"line {error.lineno}: {error.message}") from None


def render(template: str, variables: Mapping[str, Any], shots: str) -> str:
    """Return the text of a rendered template. Template syntax inside a variable's value is not rendered.

    shots: few-shot text, available to the template as {{ shots }}.
    """
    return compile_template(template).render(**variables, shots=shots)
