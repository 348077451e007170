"""Errors for names that are not in a registry, and for model entries of the wrong kind, with suggested names."""

from __future__ import annotations

import difflib
from collections.abc import Mapping

from maieutic.config.models import Model
from maieutic.core.errors import UserError


def unknown_name(key: str, name: str, known: list[str], where: str) -> UserError:
    """Return the error for an unknown name. Its fix suggests the nearest known name or lists the known names.

    key: configuration key that contains the name. where: registry that lacks the name.
    """
    near = difflib.get_close_matches(name, known, 1)
    hint = f"did you mean {near[0]!r}?" if near else f"choose one of {', '.join(sorted(known)[:12])}"
    return UserError(key, f"{name!r} is not in {where}", hint)


def check_entry(models: Mapping[str, Model], key: str, name: str, kinds: tuple[type[Model], ...], what: str) -> None:
    """Raise UserError unless `name` is a model-registry entry of one of the classes in `kinds`.

    key: configuration key that names the entry. what: phrase that describes the kinds in the error message.
    """
    if name not in models:
        raise unknown_name(key, name, list(models), "the registries")
    if not isinstance(models[name], kinds):
        engine = getattr(models[name], "engine", "unknown")
        known = [other for other, model in models.items() if isinstance(model, kinds)]
        raise UserError(
            key,
            f"expected {what}, found {name!r} with engine {engine}",
            f"choose one of {', '.join(known[:12])}",
        )
