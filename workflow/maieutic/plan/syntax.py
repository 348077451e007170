"""Definitions of a module, and the package's names that each definition uses, read from the syntax.

Only names that appear in the syntax are followed. An import by a computed name, such as the import of a command's
function, is not followed. Imports of plug-ins (`core.plugins`) are followed, since their calls contain constant names.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from maieutic.core.plugins import PACKAGE, plugin_packages


class Name(NamedTuple):
    """Module of a definition, relative to the package, and its name there (WHOLE_MODULE for all definitions)."""

    module: str
    name: str


WHOLE_MODULE = "*"
PLUGIN_LOADERS = (Name("core.plugins", "plugin_objects"), Name("core.plugins", "merged_plugin_tables"))
USER_ERRORS = {"UserError", "Unpinned"}  # errors whose texts are not part of any result
OTHER_STATEMENTS = ""  # name for statements that define nothing, which run whenever their module is imported


class Definition(NamedTuple):
    """Syntax of a definition as text, without the package's module paths, and the package's names that it uses.

    arguments: names in the annotations of a function's arguments.
    """

    syntax: str
    uses: frozenset[Name]
    arguments: frozenset[Name] = frozenset()


Module = Mapping[str, Definition]


class Imports:
    """Names that a module imports from the package: definitions, and whole modules.

    is_module: function that returns True if the package has a module with a given name.
    """

    def __init__(self, is_module: Callable[[str], bool]) -> None:
        self.is_module = is_module
        self.definitions: dict[str, Name] = {}
        self.modules: dict[str, str] = {}

    def add(self, statement: ast.Import | ast.ImportFrom) -> None:
        """Add the names that a statement imports. Raises ValueError for an import that cannot be followed."""
        if isinstance(statement, ast.Import):
            if any(module.name.split(".")[0] == PACKAGE for module in statement.names):
                raise ValueError(f"line {statement.lineno}: write `from {PACKAGE}... import ...`")
            return
        if statement.level or (statement.module or "").split(".")[0] != PACKAGE:
            if statement.level:
                raise ValueError(f"line {statement.lineno}: expected an absolute import, found a relative one")
            return
        within = (statement.module or "").removeprefix(PACKAGE).removeprefix(".")
        for alias in statement.names:
            if alias.name == "*":
                raise ValueError(f"line {statement.lineno}: import names instead of *")
            below = f"{within}.{alias.name}".removeprefix(".")
            if self.is_module(below):
                self.modules[alias.asname or alias.name] = below
            else:
                self.definitions[alias.asname or alias.name] = Name(within, alias.name)

    def with_imports_in(self, nodes: Iterable[ast.AST]) -> Imports:
        """Return these imports together with those among `nodes`, for example the imports inside a function."""
        statements = [node for node in nodes if isinstance(node, ast.Import | ast.ImportFrom)]
        if not statements:
            return self
        imports = Imports(self.is_module)
        imports.definitions, imports.modules = dict(self.definitions), dict(self.modules)
        for node in statements:
            imports.add(node)
        return imports


def definitions_of(module: str, text: str, is_module: Callable[[str], bool], keeps_paths: bool = False) -> Module:
    """Return a module's definitions by name, and its other statements under the name OTHER_STATEMENTS.

    text: source of the module; is_module: as for `Imports`; keeps_paths: True to keep module paths in the syntax.
    """
    imports = Imports(is_module)
    bodies: dict[str, list[ast.stmt]] = {}
    for statement in without_texts(ast.parse(text)).body:
        if isinstance(statement, ast.Import | ast.ImportFrom):
            imports.add(statement)
        elif not is_never_imported(statement):
            for name in defined_names(statement):
                bodies.setdefault(name, []).append(statement)
    uses = {
        name: frozenset(use for statement in statements for use in uses_of(statement, module, set(bodies), imports))
        for name, statements in bodies.items()
    }
    arguments = {
        name: frozenset(
            use
            for statement in statements
            for annotation in annotations_of(statement)
            for use in uses_of(annotation, module, set(bodies), imports)
        )
        for name, statements in bodies.items()
    }
    texts = {
        id(statement): ast.dump(statement if keeps_paths else without_modules(statement, imports))
        for statements in bodies.values()
        for statement in statements
    }
    definitions = {
        name: Definition("\n".join(texts[id(statement)] for statement in statements), uses[name], arguments[name])
        for name, statements in bodies.items()
    }
    # An imported name counts as a definition of this module too, so that a re-export leads to its defining module.
    passed = {**imports.definitions, **{name: Name(below, WHOLE_MODULE) for name, below in imports.modules.items()}}
    return {**{name: Definition("", frozenset([target])) for name, target in passed.items()}, **definitions}


def without_texts(tree: ast.Module) -> ast.Module:
    """Remove docstrings, descriptions of fields, and texts of errors and log lines from a module, in place."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and is_message(node.func):
            for part in ast.walk(node):
                if isinstance(part, ast.Constant) and isinstance(part.value, str):
                    part.value = ""
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


class ModulePaths(ast.NodeTransformer):
    """Removes the package's module paths from a syntax tree: `paths.CONFIG` becomes `CONFIG`, and imports disappear.

    A module can then be moved or renamed without a change of the syntax. modules: names of imported modules.
    """

    def __init__(self, modules: Iterable[str]) -> None:
        self.modules = frozenset(modules)

    def visit_Attribute(self, node: ast.Attribute) -> ast.expr:
        """Replace an attribute of a module of the package by its name."""
        self.generic_visit(node)
        of_module = isinstance(node.value, ast.Name) and node.value.id in self.modules
        return ast.Name(node.attr, node.ctx) if of_module else node

    def visit_ImportFrom(self, node: ast.ImportFrom) -> ast.stmt:
        """Replace an import from the package by a statement that does nothing."""
        return ast.Pass() if (node.module or "").split(".")[0] == PACKAGE else node


def without_modules(statement: ast.stmt, imports: Imports) -> ast.AST:
    """Remove the package's module paths from a statement, in place. imports: imports of the statement's module."""
    known = imports.with_imports_in(ast.walk(statement))
    tree: ast.AST = ModulePaths(known.modules).visit(statement)
    return tree


def is_message(function: ast.expr) -> bool:
    """Return True if a call of this function only creates an error for users or writes a line to the log."""
    if isinstance(function, ast.Name):
        return function.id in USER_ERRORS
    return isinstance(function, ast.Attribute) and isinstance(function.value, ast.Name) and function.value.id == "log"


def is_never_imported(statement: ast.stmt) -> bool:
    """Return True if a statement is only executed by type checkers, or when the module runs as a script."""
    if not isinstance(statement, ast.If):
        return False
    named = {node.id for node in ast.walk(statement.test) if isinstance(node, ast.Name)}
    return bool(named & {"TYPE_CHECKING", "__name__"})


def defined_names(statement: ast.stmt) -> list[str]:
    """Return the names that a top-level statement defines or extends; OTHER_STATEMENTS for any other statement."""
    if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return [statement.name]
    if isinstance(statement, ast.Pass):
        return []
    targets: list[ast.expr] = []
    if isinstance(statement, ast.Assign):
        targets = statement.targets
    elif isinstance(statement, ast.AnnAssign | ast.AugAssign):
        targets = [statement.target]
    return [node.id for target in targets for node in ast.walk(target) if isinstance(node, ast.Name)] or [
        OTHER_STATEMENTS
    ]


def annotations_of(statement: ast.stmt) -> list[ast.expr]:
    """Return the annotations of a function's arguments; empty for any other statement."""
    if not isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef):
        return []
    arguments = [*statement.args.posonlyargs, *statement.args.args, *statement.args.kwonlyargs]
    return [argument.annotation for argument in arguments if argument.annotation is not None]


def uses_of(statement: ast.AST, module: str, defined: set[str], imports: Imports) -> Iterable[Name]:
    """Yield the package's names that a statement of a module uses. defined: names that the module defines."""
    nodes = list(walk_evaluated(statement))
    known = imports.with_imports_in(nodes)
    owners: set[str] = set()  # imported modules whose attributes the statement uses
    for node in nodes:
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in known.modules:
            owners.add(node.value.id)
            within = known.modules[node.value.id]
            below = f"{within}.{node.attr}"
            yield Name(below, WHOLE_MODULE) if known.is_module(below) else Name(within, node.attr)
        elif isinstance(node, ast.Name):
            if node.id in known.definitions:
                yield known.definitions[node.id]
            elif node.id in defined:
                yield Name(module, node.id)
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            yield from plugin_names(node, known)
    bound = {node.id for node in nodes if isinstance(node, ast.Name) and node.id in known.modules}
    for name in bound - owners:  # the module itself is used as a value
        yield Name(known.modules[name], WHOLE_MODULE)


def plugin_names(call: ast.Call, known: Imports) -> Iterable[Name]:
    """Yield the names of the objects that a call of `plugin_objects` or `merged_plugin_tables` imports.

    Raises ValueError if an argument is not a constant.
    """
    if not isinstance(call.func, ast.Name) or known.definitions.get(call.func.id) not in PLUGIN_LOADERS:
        return
    words = [argument.value for argument in call.args if isinstance(argument, ast.Constant)]
    if len(words) != len(call.args):
        raise ValueError(f"line {call.lineno}: pass the module and the object of a plug-in as constants")
    module, name = map(str, words)
    for package in plugin_packages().values():
        plugin = f"{package.removeprefix(f'{PACKAGE}.')}.{module}"
        if known.is_module(plugin):
            yield Name(plugin, name)


def walk_evaluated(node: ast.AST) -> Iterable[ast.AST]:
    """Yield the nodes of a syntax tree, except the annotations of functions, which are not evaluated."""
    yield node
    for field, value in ast.iter_fields(node):
        if (isinstance(node, ast.arg) and field == "annotation") or field == "returns":
            continue
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST):
                yield from walk_evaluated(child)
