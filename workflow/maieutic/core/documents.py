"""YAML files: one safe reader for all of them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from maieutic.core.errors import UserError

try:  # libyaml's is thirteen times as fast, and every job reads cards
    from yaml import CSafeLoader as SafeLoader
except ImportError:  # a PyYAML without it
    from yaml import SafeLoader  # type: ignore[assignment]

# Of one file. A registry of a thousand models has some 30,000 values in half a megabyte.
LONGEST = 8 << 20  # bytes
MOST_VALUES = 500_000  # with what aliases repeat
DEEPEST = 64
TAGS = {
    f"tag:yaml.org,2002:{kind}" for kind in ("str", "int", "float", "bool", "null", "seq", "map", "merge", "timestamp")
}
MERGE = "tag:yaml.org,2002:merge"
EXECUTED = "__use_yte__"  # by it Snakemake's own reader runs expressions in a file


class Unsafe(Exception):
    """A document that is not read: line, what is wrong."""


def read_yaml(path: Path, fix: str = "mend the file") -> Any:
    """The content of a YAML file. Raises UserError for one that cannot be read safely."""
    try:
        if path.stat().st_size > LONGEST:
            raise UserError(str(path), f"more than {LONGEST >> 20} MB, no configuration is as long", fix)
        return content_of(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, ValueError) as error:  # ValueError: a NUL in the path
        raise UserError(str(path), f"cannot be read: {' '.join(str(error).split())}", fix) from None
    except yaml.YAMLError as error:
        problem = " ".join(str(error).split())
        raise UserError(str(path), f"cannot be read: not YAML that can be read safely: {problem}", fix) from None
    except Unsafe as error:
        raise UserError(str(path), f"cannot be read: {error}", fix) from None


def content_of(text: str) -> Any:
    """What a document says. Raises Unsafe for what a configuration has no use for, YAMLError for what is no YAML."""
    aliases = check_depth(text)
    loader = SafeLoader(text)
    try:
        node = loader.get_single_node()
        if node is None:
            return None
        if aliases:
            size_of(node, {})
        else:
            check_nodes(node)
        return loader.construct_document(node)
    finally:
        loader.dispose()


def check_depth(text: str) -> bool:
    """Whether a document has aliases. Raises Unsafe for one so deep that libyaml would end the process."""
    depth, aliases = 0, False
    for event in yaml.parse(text, Loader=SafeLoader):
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
            if depth > DEEPEST:
                raise Unsafe(f"line {line_of(event)}: nested more than {DEEPEST} deep")
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        elif isinstance(event, yaml.AliasEvent):
            aliases = True
    return aliases


def check_nodes(root: Any) -> None:
    """Raise Unsafe for a document without aliases that is too large or holds a tag, as `size_of` does for any."""
    ahead, values = [root], 0
    while ahead:
        node = ahead.pop()
        values += 1
        check_tag(node)
        if not isinstance(node, yaml.ScalarNode):
            ahead += reversed(list(children(node)))
    if values > MOST_VALUES:
        raise Unsafe(f"line {line_of(root)}: more than {MOST_VALUES:,} values")


def check_tag(node: Any) -> None:
    """Raise Unsafe for a node of a kind that a configuration has no use for."""
    if node.tag not in TAGS:
        raise Unsafe(f"line {line_of(node)}: the tag {node.tag.replace('tag:yaml.org,2002:', '!!')} is not read")


class Size(NamedTuple):
    """What stands in a node: values, those that an alias repeats counted each time, and how deep they are nested."""

    values: int
    depth: int


def size_of(node: Any, known: dict[int, Size | None]) -> Size:
    """The size of a document. Raises Unsafe for one that is too large or too deep, or holds a tag or itself.

    known: by node, its size; None while it is counted, by which a document that contains itself is found.
    """
    if id(node) in known:
        if (size := known[id(node)]) is None:
            raise Unsafe(f"line {line_of(node)}: an alias repeats what it stands in")
        return size
    check_tag(node)
    known[id(node)] = None
    sizes = [size_of(child, known) for child in children(node)]
    size = Size(1 + sum(child.values for child in sizes), 1 + max((child.depth for child in sizes), default=0))
    if size.values > MOST_VALUES:
        raise Unsafe(f"line {line_of(node)}: more than {MOST_VALUES:,} values, with those that aliases repeat")
    if size.depth > DEEPEST + 1:
        raise Unsafe(f"line {line_of(node)}: nested more than {DEEPEST} deep, with what aliases repeat")
    known[id(node)] = size
    return size


def children(node: Any) -> Iterator[Any]:
    """What stands in a list, or as keys and values in a mapping. Raises Unsafe for a key that stands there twice."""
    if isinstance(node, yaml.SequenceNode):
        yield from node.value
    elif isinstance(node, yaml.MappingNode):
        seen: dict[str, int] = {}
        for key, value in node.value:
            if isinstance(key, yaml.ScalarNode):
                if key.value == EXECUTED:
                    raise Unsafe(f"line {line_of(key)}: {EXECUTED} would run what the file says")
                if key.value in seen and key.tag != MERGE:
                    raise Unsafe(f"line {line_of(key)}: {key.value!r} stands on line {seen[key.value]} already")
                seen[key.value] = line_of(key)
            yield key
            yield value


def line_of(node: Any) -> int:
    """The line of a file that a node stands on, from 1."""
    return int(node.start_mark.line) + 1
