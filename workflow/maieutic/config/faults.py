"""Conversion of Pydantic's validation errors to one-line errors with the key, the value found, and the fix."""

from __future__ import annotations

import difflib
import re
import shlex
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal, NamedTuple, Union, get_args, get_origin

from pydantic import BaseModel, Tag, ValidationError
from pydantic_core import ErrorDetails

from maieutic.core.errors import UserError

# Values of these keys are never printed: a user may have pasted an API key or a password there by mistake.
SECRET_KEYS = {"key_env", "base_url", "url"}
BASE_URL_FIX = "write, for example, base_url: http://127.0.0.1:8000/v1"
LONGEST_VALUE = 80  # maximum length of a value in a message, in characters
YAML_WORDS = {True: "yes, on or true", False: "no, off or false"}


class AllowedType(NamedTuple):
    """One of the types that the schema allows for a value. tag: tag that selects this type in a union, if any."""

    type: Any
    tag: str | None = None


class FaultPlace(NamedTuple):
    """Place of a fault in a file.

    keys: keys and list indices that lead to the place; owner_models: Pydantic models that may define the last key;
    allowed_models: Pydantic models that are allowed for the last key's value.
    """

    keys: list[str | int]
    owner_models: list[type[BaseModel]]
    allowed_models: list[type[BaseModel]]

    def __str__(self) -> str:
        text = "".join(f"[{key}]" if isinstance(key, int) else f".{key}" for key in self.keys)
        return text.removeprefix(".")

    @property
    def known(self) -> list[str]:
        """All keys that would be valid in place of the last key."""
        return list(dict.fromkeys(name for holder in self.owner_models for name in holder.model_fields))


def alternatives_of(annotation: Any, tag: str | None = None) -> list[AllowedType]:
    """Return the types that an annotation allows: the members of a union, or the annotated type itself.

    tag: tag of the enclosing annotation, for members without a tag of their own.
    """
    annotation = getattr(annotation, "__value__", annotation)  # unwrap a type alias (`type X = ...`)
    origin, args = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        tags = [arg.tag for arg in args[1:] if isinstance(arg, Tag)]
        return alternatives_of(args[0], tags[0] if tags else tag)
    if origin is Union or type(annotation).__name__ == "UnionType":
        return [kind for arg in args for kind in alternatives_of(arg, tag)]
    return [AllowedType(annotation, tag)]


def is_model_type(kind: AllowedType) -> bool:
    """Return True if the type is a Pydantic model."""
    return isinstance(kind.type, type) and issubclass(kind.type, BaseModel)


def allowed_under(kind: AllowedType, key: str | int) -> list[AllowedType]:
    """Return the types that `kind` allows for the value at `key`, a key of a model or mapping or an index of a list."""
    if is_model_type(kind):
        field = kind.type.model_fields.get(key)
        return alternatives_of(field.annotation) if field else []
    origin, args = get_origin(kind.type), get_args(kind.type)
    if isinstance(origin, type) and issubclass(origin, Mapping) and len(args) == 2:
        return alternatives_of(args[1])
    if isinstance(origin, type) and issubclass(origin, Sequence | set) and args and isinstance(key, int):
        return alternatives_of(args[0])
    return []


def names_alternative(kind: AllowedType, tag: str | int) -> bool:
    """Return True if one part of a Pydantic error's location identifies this member of a union.

    tag: the part, which is the member's tag, its class name, or a value of one of its literal fields (as for `engine`).
    """
    if tag in (kind.tag, getattr(kind.type, "__name__", None)):
        return True
    fields = kind.type.model_fields.values() if is_model_type(kind) else ()
    return any(get_origin(field.annotation) is Literal and tag in get_args(field.annotation) for field in fields)


def fault_place(model: type[BaseModel], location: Sequence[str | int], unknown: bool) -> FaultPlace:
    """Return the place in a file for a Pydantic error's location. unknown: True if the last part is an unknown key."""
    keys: list[str | int] = []
    here, there = [AllowedType(model)], [AllowedType(model)]
    for number, part in enumerate(location):
        children = [child for kind in here for child in allowed_under(kind, part)]
        last = number == len(location) - 1
        if (last and unknown) or children:
            keys.append(part)
        # A part that is not a key is Pydantic's name for one member of a union.
        there = children or [kind for kind in here if names_alternative(kind, part)] or here
        here = here if last else there
    return FaultPlace(keys, *([kind.type for kind in kinds if is_model_type(kind)] for kinds in (here, there)))


def suggestion_for(word: str, known: Sequence[str]) -> str:
    """Return a hint for a misspelt word: the closest known word as a question, or all known words if none is close."""
    matches = nearest(word, known)
    return f"did you mean {matches[0]!r}?" if matches else f"choose one of {', '.join(sorted(known))}."


def nearest(word: str, known: Sequence[str]) -> list[str]:
    """Return the known word that is closest to a misspelt one, or an empty list if none is close."""
    return difflib.get_close_matches(word, known, 1)


def validation_fault(error: ValidationError, model: type[BaseModel], within: str, documented: str) -> UserError:
    """Return one UserError with a line for each fault. Unknown keys share one line, with a suggestion for each.

    within: path of the file; "" for the configuration, whose keys are shown without a path.
    documented: file that describes every key, named in the fix.
    """
    faults = error.errors(include_url=False)
    unknown = [fault_place(model, detail["loc"], True) for detail in faults if detail["type"] == "extra_forbidden"]
    misspelt = {(*place.keys[:-1], key) for place in unknown for key in nearest(str(place.keys[-1]), place.known)}
    by_place: dict[str, UserError] = {}  # first error at each place; for a union, Pydantic reports one per member
    for fault in faults:
        if fault["type"] != "extra_forbidden":
            place = fault_place(model, fault["loc"], False)
            if fault["type"] == "missing" and tuple(fault_place(model, fault["loc"], True).keys) in misspelt:
                continue
            by_place.setdefault(str(place), error_at(within, str(place), *problem_and_fix(fault, place, documented)))
        elif unknown:
            first, *others = unknown
            more = f" (also {', '.join(map(str, others))})" if others else ""
            hints = [suggestion_for(str(place.keys[-1]), place.known) for place in unknown]
            fix = f"{' '.join(dict.fromkeys(hints))} See {documented}"
            by_place.setdefault(f"{first}\n", error_at(within, str(first), f"is not a known key{more}", fix))
            unknown = []
    return UserError.of(list(by_place.values()))


def error_at(within: str, key: str, problem: str, fix: str) -> UserError:
    """Return an error whose place is a key of the configuration, or a file and one of its keys."""
    if not within:
        return UserError(key or "config", problem, fix)
    return UserError(within, f"{key}: {problem}" if key else problem, fix)


def problem_and_fix(fault: ErrorDetails, place: FaultPlace, documented: str) -> tuple[str, str]:
    """Return the texts of the problem and the fix for one Pydantic error."""
    fix = f"correct the key as described in {documented}"
    value = fault["input"]
    if fault["type"] == "missing":
        return "is missing", f"add the key as described in {documented}"
    context = fault.get("ctx") or {}
    if fault["type"].startswith("union_tag"):
        name = str(context.get("discriminator", "")).strip("'")
        tags = sorted({tag for model in place.allowed_models for tag in tag_values(model, name)})
        if fault["type"] == "union_tag_invalid" and tags:
            tag = str(context["tag"])[:LONGEST_VALUE]
            return f"expected {name} to be one of {context['expected_tags']}, found {tag!r}", suggestion_for(tag, tags)
        written = map(str, value) if isinstance(value, dict) else ()
        close = next((key for key in written if difflib.get_close_matches(key, [name], 1)), None)
        renamed = f"rename {close!r} to {name!r}, and " if close else ""
        return f"key {name!r} is missing", f"{renamed}set {name} to one of {', '.join(tags)}" if tags else fix
    if fault["type"] == "literal_error" and isinstance(value, str):
        known = re.findall(r"'([^']*)'", str(context.get("expected")))
        if nearest(value, known):
            fix = suggestion_for(value, known)
    if fault["type"] == "string_pattern_mismatch" and place.keys and place.keys[-1] == "base_url":
        return "expected an address that begins with http:// or https://, without a user name", BASE_URL_FIX
    if fault["type"] == "string_pattern_mismatch" and place.keys and place.keys[-1] == "language":
        problem = f"expected the two letters of a language in ISO 639-1, found {str(value)[:LONGEST_VALUE]!r}"
        return problem, "write en for English, or de for German"
    endings = re.search(r"\\\.\((\w+(?:\|\w+)+)\)\$", str(context.get("pattern")))
    if fault["type"] == "string_pattern_mismatch" and endings and not {*"{}\n"} & {*str(value)}:
        named = str(value)[:LONGEST_VALUE]
        problem = f"expected a file that ends in .{' or .'.join(endings[1].split('|'))}, found {named!r}"
        converted = re.sub(r"\.[^./]*$", "", str(value)) + ".jsonl"
        command = f"maieutic table {shlex.quote(str(value))} --out {shlex.quote(converted)}"
        return problem, f"run `{command}` and name its output"
    # Hide whole mappings: they are too long to help, and may contain a secret.
    hidden = isinstance(value, dict) or (place.keys and place.keys[-1] in SECRET_KEYS)
    suffix = "" if hidden else f", found {str(value)[:LONGEST_VALUE]!r}"
    if fault["type"] == "string_type" and isinstance(value, bool):
        fix = f"put the value in quotes, since YAML reads an unquoted {YAML_WORDS[value]} as {str(value).lower()}"
    message = fault["msg"].removeprefix("Value error, ")
    return f"{message[0].lower()}{message[1:]}{suffix}", fix


def tag_values(model: type[BaseModel], name: str) -> list[str]:
    """Return the values allowed for a tag field (such as `engine`) of a model. name: name of the field."""
    field = model.model_fields.get(name)
    return [str(value) for value in get_args(field.annotation)] if field else []
