"""Safe reader of YAML files."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from maieutic.core.errors import UserError

try:  # libyaml's loader is thirteen times as fast as PyYAML's, and every job reads cards
    from yaml import CSafeLoader as SafeLoader
except ImportError:  # PyYAML was built without libyaml
    from yaml import SafeLoader  # type: ignore[assignment]

# Limits per file. For comparison, a registry of a thousand models has some 30,000 values in half a megabyte.
LONGEST = 8 << 20  # maximum size in bytes
MOST_VALUES = 500_000  # maximum number of values, including those repeated by aliases
DEEPEST = 64  # maximum levels of nesting
TAGS = {
    f"tag:yaml.org,2002:{kind}" for kind in ("str", "int", "float", "bool", "null", "seq", "map", "merge", "timestamp")
}
NUMBERS = {"tag:yaml.org,2002:int", "tag:yaml.org,2002:float"}
LONGEST_NUMBER = 100
MERGE = "tag:yaml.org,2002:merge"
EXECUTION_KEY = "__use_yte__"  # key that makes Snakemake's own reader execute expressions in the file


class UnsafeDocument(Exception):
    """Error for a refused document. Its message contains the line and the reason."""


def read_yaml(path: Path, fix: str = "correct the file") -> Any:
    """Return the content of a YAML file. Raises UserError if the file cannot be read safely.

    fix: fix shown with the error, in the imperative.
    """
    try:
        if path.stat().st_size > LONGEST:
            raise UserError(str(path), f"the file exceeds {LONGEST >> 20} MB, the limit for configuration files", fix)
        return parse_yaml(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, ValueError) as error:  # ValueError is raised for a null byte in the path
        raise UserError(str(path), f"cannot be read: {' '.join(str(error).split())}", fix) from None
    except yaml.YAMLError as error:
        problem = " ".join(str(error).replace('in "<unicode string>", ', "at ").split())
        raise UserError(str(path), f"cannot be read: invalid YAML: {problem}", fix) from None
    except UnsafeDocument as error:
        raise UserError(str(path), f"cannot be read: {error}", fix) from None


def parse_yaml(text: str) -> Any:
    """Return the content of a YAML text. Raises UnsafeDocument for refused features, YAMLError for invalid YAML."""
    aliases = check_depth(text)
    loader = SafeLoader(text)
    try:
        node = loader.get_single_node()
        if node is None:
            return None
        if aliases:
            measure_node(node, {})
        else:
            check_nodes(node)
        return loader.construct_document(node)
    finally:
        loader.dispose()


def check_depth(text: str) -> bool:
    """Return True if a document has aliases. Raises UnsafeDocument for nesting that is so deep that libyaml crashes."""
    depth, aliases = 0, False
    for number, event in enumerate(yaml.parse(text, Loader=SafeLoader)):
        if number > 2 * MOST_VALUES:  # a collection has two events
            raise UnsafeDocument(f"line {node_line(event)}: more than {MOST_VALUES:,} values")
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
            if depth > DEEPEST:
                raise UnsafeDocument(f"line {node_line(event)}: nested more than {DEEPEST} levels deep")
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        elif isinstance(event, yaml.AliasEvent):
            aliases = True
    return aliases


def check_nodes(root: Any) -> None:
    """Raise UnsafeDocument if a document without aliases is too large or has a refused tag.

    This function is faster than `measure_node`, which is needed for documents with aliases.
    """
    ahead, values = [root], 0
    while ahead:
        node = ahead.pop()
        values += 1
        check_tag(node)
        if not isinstance(node, yaml.ScalarNode):
            ahead += reversed(list(child_nodes(node)))
    if values > MOST_VALUES:
        raise UnsafeDocument(f"line {node_line(root)}: more than {MOST_VALUES:,} values")


def check_tag(node: Any) -> None:
    """Raise UnsafeDocument if a node has a tag that is not in TAGS."""
    if node.tag not in TAGS:
        raise UnsafeDocument(
            f"line {node_line(node)}: the tag {node.tag.replace('tag:yaml.org,2002:', '!!')} is not allowed"
        )
    # Numbers to base 60 (1:30:00) take a time that grows with the square of their length.
    if node.tag in NUMBERS and len(node.value) > LONGEST_NUMBER:
        raise UnsafeDocument(f"line {node_line(node)}: a number of more than {LONGEST_NUMBER} characters")


class NodeSize(NamedTuple):
    """Size of a node: number of values, counting repetitions by aliases, and depth of nesting."""

    values: int
    depth: int


def measure_node(node: Any, known: dict[int, NodeSize | None]) -> NodeSize:
    """Return the size of a node. Raises UnsafeDocument if it is too large, too deep or recursive, or has a refused tag.

    known: size of each measured node by its `id`; None while the node is being measured, which reveals recursion.
    """
    if id(node) in known:
        if (size := known[id(node)]) is None:
            raise UnsafeDocument(f"line {node_line(node)}: an alias refers to a node that contains it")
        return size
    check_tag(node)
    known[id(node)] = None
    sizes = [measure_node(child, known) for child in child_nodes(node)]
    size = NodeSize(1 + sum(child.values for child in sizes), 1 + max((child.depth for child in sizes), default=0))
    if size.values > MOST_VALUES:
        raise UnsafeDocument(f"line {node_line(node)}: more than {MOST_VALUES:,} values after resolving aliases")
    if size.depth > DEEPEST + 1:
        raise UnsafeDocument(f"line {node_line(node)}: nested more than {DEEPEST} levels deep after resolving aliases")
    known[id(node)] = size
    return size


def child_nodes(node: Any) -> Iterator[Any]:
    """Yield the elements of a list, or the keys and values of a mapping.

    Raises UnsafeDocument for a duplicate key, and for EXECUTION_KEY.
    """
    if isinstance(node, yaml.SequenceNode):
        yield from node.value
    elif isinstance(node, yaml.MappingNode):
        seen: dict[str, int] = {}
        for key, value in node.value:
            if isinstance(key, yaml.ScalarNode):
                if key.value == EXECUTION_KEY:
                    raise UnsafeDocument(
                        f"line {node_line(key)}: {EXECUTION_KEY} would execute expressions in the file"
                    )
                if key.value in seen and key.tag != MERGE:
                    raise UnsafeDocument(
                        f"line {node_line(key)}: duplicate key {key.value!r}, first on line {seen[key.value]}"
                    )
                seen[key.value] = node_line(key)
            yield key
            yield value


def node_line(node: Any) -> int:
    """Return the line number of a node in its file, from 1."""
    return int(node.start_mark.line) + 1
