"""From a card and an item to what is sent: sandboxed templates, chat messages or a raw completion."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # Jinja is loaded when a template is: most jobs read cards, and few fill one in
    from jinja2 import Template
    from jinja2.sandbox import SandboxedEnvironment

Messages = list[dict[str, Any]]


@cache
def environment() -> SandboxedEnvironment:
    """The sandbox of all templates. The trailing newline of a template file is dropped, as the released code's is."""
    from jinja2 import StrictUndefined
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    return ImmutableSandboxedEnvironment(undefined=StrictUndefined, autoescape=False)


@lru_cache(maxsize=256)
def compiled(template: str) -> Template:
    """The template, compiled once."""
    return environment().from_string(template)


@lru_cache(maxsize=256)
def variables_of(template: str) -> frozenset[str]:
    """The names that a template needs. Raises ValueError with the line for a template that does not parse."""
    from jinja2 import TemplateSyntaxError, meta

    try:
        return frozenset(meta.find_undeclared_variables(environment().parse(template)))
    except TemplateSyntaxError as error:
        raise ValueError(f"line {error.lineno}: {error.message}") from None


def render(template: str, variables: Mapping[str, Any], shots: str) -> str:
    """Fill a template. Values are data: a template inside a value is not rendered."""
    return compiled(template).render(**variables, shots=shots)
