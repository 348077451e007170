"""From a card and an item to what is sent: sandboxed templates, chat messages or a raw completion."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from jinja2 import StrictUndefined, Template, TemplateSyntaxError, meta
from jinja2.sandbox import ImmutableSandboxedEnvironment

Messages = list[dict[str, Any]]

# The trailing newline of a template file is dropped, as the released code's Jinja does.
ENVIRONMENT = ImmutableSandboxedEnvironment(undefined=StrictUndefined, autoescape=False)


@lru_cache(maxsize=256)
def compiled(template: str) -> Template:
    """The template, compiled once."""
    return ENVIRONMENT.from_string(template)


@lru_cache(maxsize=256)
def variables_of(template: str) -> frozenset[str]:
    """The names that a template needs. Raises ValueError with the line for a template that does not parse."""
    try:
        return frozenset(meta.find_undeclared_variables(ENVIRONMENT.parse(template)))
    except TemplateSyntaxError as error:
        raise ValueError(f"line {error.lineno}: {error.message}") from None


def render(template: str, variables: Mapping[str, Any], shots: str) -> str:
    """Fill a template. Values are data: a template inside a value is not rendered."""
    return compiled(template).render(**variables, shots=shots)
