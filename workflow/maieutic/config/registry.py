"""Looking names up in the registries: a fault is one line with the nearest known name."""

from __future__ import annotations

import difflib
from collections.abc import Mapping

from maieutic.config.models import Model
from maieutic.core.errors import UserError


def unknown(key: str, name: str, known: list[str], where: str) -> UserError:
    """An unknown name, with the nearest known one."""
    near = difflib.get_close_matches(name, known, 1)
    hint = f"did you mean {near[0]!r}?" if near else f"known: {', '.join(sorted(known)[:12])}"
    return UserError(key, f"{name!r} is not in {where}", hint)


def check_entry(models: Mapping[str, Model], key: str, name: str, kinds: tuple[type[Model], ...], what: str) -> None:
    """An entry exists and is of the kind that stands at this key."""
    if name not in models:
        raise unknown(key, name, list(models), "config/models.yaml")
    if not isinstance(models[name], kinds):
        engine = getattr(models[name], "engine", "unknown")
        known = [other for other, model in models.items() if isinstance(model, kinds)]
        raise UserError(
            key, f"{name!r} is no {what.removeprefix('a ')}: its engine is {engine}", f"known: {', '.join(known[:12])}"
        )
