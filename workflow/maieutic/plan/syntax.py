"""What a module of the package defines, and what each definition names of the package, read from the syntax.

Only names that can be read from the syntax are followed. Of imports by a computed name, that of what benchmarks
plug in is followed (`core.plugins`), whose names are constants of the call; that of a command's own function is not.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from maieutic.benchmarks import BENCHMARKS
from maieutic.extensions import EXTENSIONS

PACKAGE = "maieutic"


class Name(NamedTuple):
    """A definition: its module, relative to the package, and its name there; ANY: the whole module."""

    module: str
    name: str


ANY = "*"
PLUGS = (Name("core.plugins", "parts"), Name("core.plugins", "merged"))
REST = ""  # what a module does besides defining: it is done whenever the module is imported


class Definition(NamedTuple):
    """The syntax of a definition as text, and what it names of the package; arguments: in a function's annotations."""

    syntax: str
    uses: frozenset[Name]
    arguments: frozenset[Name] = frozenset()


Module = Mapping[str, Definition]


class Imports:
    """What the names that a module imports from the package stand for: definitions, or whole modules."""

    def __init__(self, is_module: Callable[[str], bool]) -> None:
        self.is_module = is_module
        self.definitions: dict[str, Name] = {}
        self.modules: dict[str, str] = {}

    def add(self, statement: ast.Import | ast.ImportFrom) -> None:
        """Take the names of one statement. Raises ValueError for an import that cannot be followed."""
        if isinstance(statement, ast.Import):
            if any(module.name.split(".")[0] == PACKAGE for module in statement.names):
                raise ValueError(f"line {statement.lineno}: write `from {PACKAGE}... import ...`")
            return
        if statement.level or (statement.module or "").split(".")[0] != PACKAGE:
            if statement.level:
                raise ValueError(f"line {statement.lineno}: a relative import")
            return
        within = (statement.module or "").removeprefix(PACKAGE).removeprefix(".")
        for alias in statement.names:
            if alias.name == "*":
                raise ValueError(f"line {statement.lineno}: name what is imported instead of *")
            below = f"{within}.{alias.name}".removeprefix(".")
            if self.is_module(below):
                self.modules[alias.asname or alias.name] = below
            else:
                self.definitions[alias.asname or alias.name] = Name(within, alias.name)

    def with_those_of(self, nodes: Iterable[ast.AST]) -> Imports:
        """With what some syntax imports itself, as functions do to load a library late."""
        own = [node for node in nodes if isinstance(node, ast.Import | ast.ImportFrom)]
        if not own:
            return self
        imports = Imports(self.is_module)
        imports.definitions, imports.modules = dict(self.definitions), dict(self.modules)
        for node in own:
            imports.add(node)
        return imports


def definitions_of(module: str, text: str, is_module: Callable[[str], bool]) -> Module:
    """What a module defines, by name; under REST what it does besides."""
    imports = Imports(is_module)
    bodies: dict[str, list[ast.stmt]] = {}
    for statement in bare(ast.parse(text)).body:
        if isinstance(statement, ast.Import | ast.ImportFrom):
            imports.add(statement)
        elif not is_for_others(statement):
            for name in names_of(statement):
                bodies.setdefault(name, []).append(statement)
    definitions = {
        name: Definition(
            "\n".join(ast.dump(statement) for statement in statements),
            frozenset(use for statement in statements for use in uses_of(statement, module, set(bodies), imports)),
            frozenset(
                use
                for statement in statements
                for annotation in annotations_of(statement)
                for use in uses_of(annotation, module, set(bodies), imports)
            ),
        )
        for name, statements in bodies.items()
    }
    # A name that is passed on: whoever imports it from here means where it comes from.
    passed = {**imports.definitions, **{name: Name(below, ANY) for name, below in imports.modules.items()}}
    return {**{name: Definition("", frozenset([target])) for name, target in passed.items()}, **definitions}


def bare(tree: ast.Module) -> ast.Module:
    """A module's syntax without docstrings and without descriptions of fields."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Field":
            node.keywords = [keyword for keyword in node.keywords if keyword.arg != "description"]
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) and node.body:
            first = node.body[0]
            if (
                isinstance(first, ast.Expr)
                and isinstance(first.value, ast.Constant)
                and isinstance(first.value.value, str)
            ):
                node.body = node.body[1:] or [ast.Pass()]
    return tree


def is_for_others(statement: ast.stmt) -> bool:
    """Whether a statement is for type checkers, or for a module that is run itself."""
    if not isinstance(statement, ast.If):
        return False
    named = {node.id for node in ast.walk(statement.test) if isinstance(node, ast.Name)}
    return bool(named & {"TYPE_CHECKING", "__name__"})


def names_of(statement: ast.stmt) -> list[str]:
    """The names that a top-level statement defines or adds to; REST for one that does something else."""
    if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return [statement.name]
    if isinstance(statement, ast.Pass):
        return []
    targets: list[ast.expr] = []
    if isinstance(statement, ast.Assign):
        targets = statement.targets
    elif isinstance(statement, ast.AnnAssign | ast.AugAssign):
        targets = [statement.target]
    return [node.id for target in targets for node in ast.walk(target) if isinstance(node, ast.Name)] or [REST]


def annotations_of(statement: ast.stmt) -> list[ast.expr]:
    """The annotations of a function's arguments."""
    if not isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef):
        return []
    arguments = [*statement.args.posonlyargs, *statement.args.args, *statement.args.kwonlyargs]
    return [argument.annotation for argument in arguments if argument.annotation is not None]


def uses_of(statement: ast.AST, module: str, own: set[str], imports: Imports) -> Iterable[Name]:
    """What one statement names of the package."""
    nodes = list(walk(statement))
    known = imports.with_those_of(nodes)
    owners: set[str] = set()  # imported modules of which an attribute is named, at its place in the syntax
    for node in nodes:
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in known.modules:
            owners.add(node.value.id)
            within = known.modules[node.value.id]
            below = f"{within}.{node.attr}"
            yield Name(below, ANY) if known.is_module(below) else Name(within, node.attr)
        elif isinstance(node, ast.Name):
            if node.id in known.definitions:
                yield known.definitions[node.id]
            elif node.id in own:
                yield Name(module, node.id)
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            yield from plugged_in(node, known)
    bound = {node.id for node in nodes if isinstance(node, ast.Name) and node.id in known.modules}
    for name in bound - owners:  # the module itself is passed on
        yield Name(known.modules[name], ANY)


def plugged_in(call: ast.Call, known: Imports) -> Iterable[Name]:
    """What a call of `plugins.parts` or `plugins.merged` imports. Raises ValueError for what is not constant."""
    if not isinstance(call.func, ast.Name) or known.definitions.get(call.func.id) not in PLUGS:
        return
    words = [argument.value for argument in call.args if isinstance(argument, ast.Constant)]
    if len(words) != len(call.args):
        raise ValueError(f"line {call.lineno}: name the module and the object of a benchmark's part by constants")
    module, name = map(str, words)
    for folder in (*(f"benchmarks.{benchmark}" for benchmark in BENCHMARKS), *EXTENSIONS):
        if known.is_module(f"{folder}.{module}"):
            yield Name(f"{folder}.{module}", name)


def walk(node: ast.AST) -> Iterable[ast.AST]:
    """The nodes of a syntax tree without the annotations of functions, which are not evaluated."""
    yield node
    for field, value in ast.iter_fields(node):
        if (isinstance(node, ast.arg) and field == "annotation") or field == "returns":
            continue
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST):
                yield from walk(child)
