"""Faults that Pydantic finds in a config or card, as one line: the key, what was found there, and the fix."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal, NamedTuple, Union, get_args, get_origin

from pydantic import BaseModel, Tag, ValidationError
from pydantic_core import ErrorDetails

from maieutic.core.errors import UserError

# A key or a password put where its name belongs must not reach a log.
SECRET = {"key_env", "base_url"}
SHOWN = 80  # characters of what was found
YAML_WORDS = {True: "yes, on or true", False: "no, off or false"}


class Kind(NamedTuple):
    """What may stand at a place: a type, and the tag that chooses it among several."""

    type: Any
    tag: str | None = None


class Place(NamedTuple):
    """Where a fault is: the keys on the way, what holds the last of them, and what may stand there."""

    keys: list[str | int]
    holders: list[type[BaseModel]]
    there: list[type[BaseModel]]

    def __str__(self) -> str:
        shown = "".join(f"[{key}]" if isinstance(key, int) else f".{key}" for key in self.keys)
        return shown.removeprefix(".")

    @property
    def known(self) -> list[str]:
        """The keys that are known where the last one stands."""
        return list(dict.fromkeys(name for holder in self.holders for name in holder.model_fields))


def kinds_of(annotation: Any, tag: str | None = None) -> list[Kind]:
    """The alternatives of an annotation."""
    annotation = getattr(annotation, "__value__", annotation)  # `type X = ...`
    origin, args = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        tags = [arg.tag for arg in args[1:] if isinstance(arg, Tag)]
        return kinds_of(args[0], tags[0] if tags else tag)
    if origin is Union or type(annotation).__name__ == "UnionType":
        return [kind for arg in args for kind in kinds_of(arg, tag)]
    return [Kind(annotation, tag)]


def is_model(kind: Kind) -> bool:
    """Whether a place holds named keys."""
    return isinstance(kind.type, type) and issubclass(kind.type, BaseModel)


def below(kind: Kind, key: str | int) -> list[Kind]:
    """What stands under a key."""
    if is_model(kind):
        field = kind.type.model_fields.get(key)
        return kinds_of(field.annotation) if field else []
    origin, args = get_origin(kind.type), get_args(kind.type)
    if isinstance(origin, type) and issubclass(origin, Mapping) and len(args) == 2:
        return kinds_of(args[1])
    if isinstance(origin, type) and issubclass(origin, Sequence | set) and args and isinstance(key, int):
        return kinds_of(args[0])
    return []


def is_chosen(kind: Kind, tag: str | int) -> bool:
    """Whether a part of Pydantic's location names an alternative: by its tag, its class, or its `engine`."""
    if tag in (kind.tag, getattr(kind.type, "__name__", None)):
        return True
    fields = kind.type.model_fields.values() if is_model(kind) else ()
    return any(get_origin(field.annotation) is Literal and tag in get_args(field.annotation) for field in fields)


def place_of(model: type[BaseModel], location: Sequence[str | int], unknown: bool) -> Place:
    """A location of Pydantic as the keys of the file. unknown: its last part is a key that nobody knows."""
    keys: list[str | int] = []
    here, there = [Kind(model)], [Kind(model)]
    for number, part in enumerate(location):
        children = [child for kind in here for child in below(kind, part)]
        last = number == len(location) - 1
        if (last and unknown) or children:
            keys.append(part)
        # A part that is no key names which alternative of a union was tried.
        there = children or [kind for kind in here if is_chosen(kind, part)] or here
        here = here if last else there
    return Place(keys, *([kind.type for kind in kinds if is_model(kind)] for kinds in (here, there)))


def near(word: str, known: Sequence[str]) -> str:
    """The known word that was probably meant, as a sentence; what is known where none is near."""
    matches = difflib.get_close_matches(word, known, 1)
    return f"did you mean {matches[0]!r}?" if matches else f"known: {', '.join(sorted(known))}."


def fault_of(error: ValidationError, model: type[BaseModel], within: str, documented: str) -> UserError:
    """All faults, a line each; unknown keys in one, each with the known one that is nearest.

    within: the file, or "" for the configuration, whose keys name it; documented: where every key is described.
    """
    faults = error.errors(include_url=False)
    unknown = [place_of(model, detail["loc"], True) for detail in faults if detail["type"] == "extra_forbidden"]
    by_place: dict[str, UserError] = {}  # by place: every alternative of a union has its own complaint of one value
    for fault in faults:
        if fault["type"] != "extra_forbidden":
            place = place_of(model, fault["loc"], False)
            by_place.setdefault(str(place), user_error(within, str(place), *told(fault, place, documented)))
        elif unknown:
            first, *others = unknown
            more = f" (so is {', '.join(map(str, others))})" if others else ""
            hints = [near(str(place.keys[-1]), place.known) for place in unknown]
            mend = f"{' '.join(dict.fromkeys(hints))} See {documented}"
            by_place.setdefault(f"{first}\n", user_error(within, str(first), f"is not a known key{more}", mend))
            unknown = []
    return UserError.of(list(by_place.values()))


def user_error(within: str, key: str, problem: str, mend: str) -> UserError:
    """An error whose place is a key of the configuration, or a file and a key of it."""
    if not within:
        return UserError(key or "config", problem, mend)
    return UserError(within, f"{key}: {problem}" if key else problem, mend)


def told(fault: ErrorDetails, place: Place, documented: str) -> tuple[str, str]:
    """What is wrong, and the fix."""
    mend = f"see {documented} for every key"
    value = fault["input"]
    if fault["type"] == "missing":
        return "is missing", mend
    context = fault.get("ctx") or {}
    if fault["type"].startswith("union_tag"):
        name = str(context.get("discriminator", "")).strip("'")
        tags = sorted({tag for model in place.there for tag in literals_of(model, name)})
        if fault["type"] == "union_tag_invalid" and tags:
            tag = str(context["tag"])[:SHOWN]
            return f"{tag!r} is no {name}, one of {context['expected_tags']}", near(tag, tags)
        written = map(str, value) if isinstance(value, dict) else ()
        close = next((key for key in written if difflib.get_close_matches(key, [name], 1)), None)
        meant = f"did you mean {name!r} by {close!r}? " if close else ""
        return f"does not say its {name}", f"{meant}Set {name} to one of {', '.join(tags)}" if tags else mend
    if fault["type"] == "literal_error" and isinstance(value, str):
        known = re.findall(r"'([^']*)'", str(context.get("expected")))
        if difflib.get_close_matches(value, known, 1):
            mend = near(value, known)
    # A whole entry says nothing here, and may hold what is refused as a secret.
    hidden = isinstance(value, dict) or (place.keys and place.keys[-1] in SECRET)
    suffix = "" if hidden else f", found {str(value)[:SHOWN]!r}"
    if fault["type"] == "string_type" and isinstance(value, bool):
        mend = f"put it in quotes: unquoted, YAML reads {YAML_WORDS[value]} as {str(value).lower()}"
    return f"{fault['msg'][0].lower()}{fault['msg'][1:]}{suffix}", mend


def literals_of(model: type[BaseModel], name: str) -> list[str]:
    """The values that a tag of a model may have."""
    field = model.model_fields.get(name)
    return [str(value) for value in get_args(field.annotation)] if field else []
