"""Digest of the code on which a command's results depend: if it changes, Snakemake runs the command's jobs again.

A definition is a function, a class or an assignment at the top level of a module. The closure of a definition contains
the definition itself and every definition of the package that it uses, directly or through other definitions, in any
module. The digest covers the syntax trees of the closure. It leaves out comments, docstrings, descriptions of fields,
layout, and texts of errors and log lines, so that edits of these do not re-run jobs. Edits of a definition that the
command does not use do not re-run jobs either, even if the command uses other definitions in the same module.

Parsing the whole package takes a second, so the definitions are cached in the user's cache folder, by the checksums of
their modules. After an edit only the changed modules are parsed again.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import sys
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from maieutic.commands import all_commands as commands_by_stage
from maieutic.commands import name_of_command as command_name
from maieutic.core.caching import cache_folder, delete_old_files, newest_first
from maieutic.core.extensions import code_folders
from maieutic.core.files import atomic_file
from maieutic.core.plugins import PACKAGE, plugin_packages
from maieutic.plan.syntax import OTHER_STATEMENTS, WHOLE_MODULE, Definition, Module, Name, definitions_of

HERE = Path(__file__).parents[1]  # folder of the package

# Modules that the digest leaves out, each with the reason why no result depends on it.
NEUTRAL_MODULES = {
    "record.contents": "lists the files of a run",
    "core.extensions": "finds the folders of extensions, whose files are inputs of jobs",
    "core.plugins": "finds the plug-ins of benchmarks; their code is followed separately",
    "serving.connections": "opens and retries connections; does not change requests or answers",
    "serving.devices": "waits for a free device and returns its name",
    "serving.budget": "counts spending, and stops a job that exceeds its budget",
    "config.batch_apis": "states limits and prices of batches",
    "serving.batches": "keeps the files of batches; their answers are parsed like those of single requests",
    "serving.batch_endpoint": "calls a batch API; does not change requests or answers",
    "serving.outbox": "keeps requests for the run, which sends the same requests in batches",
    "core.shutdown": "collects answers in flight at a graceful shutdown",
    "core.caching": "caches values under keys of everything that they depend on",
    "core.errors": "contains only texts of errors",
    "core.visible": "replaces control characters by visible characters",
    "core.secrets": "removes endpoints' API keys from texts",
    "config.server_options": "rejects arguments and environment variables that servers must not be given",
    "config.faults": "contains only texts of errors",
    "core.files": "writes files atomically",
    "serving.run_environment": "selects what a server inherits of the environment, and finds the run of a job",
    "serving.lease_manager": "passes a server from one job to the next",
    "serving.leased_server": "reuses a running server, or starts one with the same arguments",
    "serving.eviction": "shuts idle servers down when their memory or devices are needed",
    "core.jobs": "reads and checks a rule's job, which is itself a parameter of the rule",
    "core.journal": "stores finished answers under given keys",
    "core.ledger": "records requests",
    "core.locks": "locks files, so that each has one writer",
    "core.logs": "chooses where log lines go",
    "core.names": "rejects names that are unsafe as file names",
    "core.progress": "writes progress lines",
    "rewards.progress_callback": "writes progress lines of training",
    "serving.silent_changes": "reports silent changes by an endpoint; does not change answers",
    "serving.server": "starts and stops a server; its arguments are parameters of the rule",
}


DefinitionReplacements = Mapping[Name, Iterable[Name]]
Source = Callable[[str], str | None]


class PackageCode:
    """Definitions of a package. source: function that returns a module's text by its dotted name, None if unknown.

    keeps_paths: True if module paths are part of the syntax.
    """

    keeps_paths = False

    def __init__(self, source: Source) -> None:
        self.source = source
        self.modules: dict[str, Module | None] = {}

    def module(self, name: str) -> Module | None:
        """Return a module's definitions by name; None if the module does not exist."""
        if name not in self.modules:
            text = self.source(name)
            self.modules[name] = None if text is None else definitions_of(name, text, self.is_module, self.keeps_paths)
        return self.modules[name]

    def is_module(self, name: str) -> bool:
        """Return True if the package has a module of this name."""
        return self.source(name) is not None if name not in self.modules else self.modules[name] is not None

    def arguments(self, function: Name) -> list[Name]:
        """Return the definitions that are named in the annotations of a function's arguments.

        Raises LookupError if the function is unknown.
        """
        module = self.module(function.module)
        if module is None or function.name not in module:
            raise LookupError(f"{PACKAGE}.{function.module} has no {function.name}")
        return sorted(module[function.name].arguments)

    def closure(self, roots: Iterable[Name], instead: DefinitionReplacements) -> set[Name]:
        """Return the roots and all definitions that they use, directly or indirectly, except those in NEUTRAL_MODULES.

        instead: for some definitions, the definitions that replace them. For example, the loader that a job uses
        replaces the table of all loaders.
        """
        definitions: set[Name] = set()
        ahead = list(roots)
        while ahead:
            definition = ahead.pop()
            if definition in definitions or definition.module in NEUTRAL_MODULES:
                continue
            if definition in instead:
                ahead += instead[definition]
                continue
            module = self.module(definition.module)
            if module is None or (definition.name not in module and definition.name != WHOLE_MODULE):
                raise LookupError(f"{PACKAGE}.{definition.module} has no {definition.name}")
            definitions.add(definition)
            if definition.name == WHOLE_MODULE:
                ahead += [Name(definition.module, name) for name in module]
                continue
            ahead += module[definition.name].uses
            if OTHER_STATEMENTS in module:
                ahead.append(Name(definition.module, OTHER_STATEMENTS))
        return {use for use in definitions if use.name != WHOLE_MODULE}

    def digest(self, closure: Iterable[Name]) -> str:
        """Return a digest of the definitions in a closure, as 16 hexadecimal digits.

        It covers the names and the syntax of the definitions, and which of them uses which, but not the modules in
        which they stand. A name that a module only passes on does not count.
        """
        defined = {name: definition for name in closure if (definition := self.definition(name)).syntax}
        checksums = {name: checksum_of(definition.syntax) for name, definition in defined.items()}
        hasher = hashlib.sha256()
        lines = []
        for name, definition in defined.items():
            used = sorted({checksums[use] for use in map(self.origin, definition.uses) if use in checksums})
            lines.append(f"{name.name} {checksums[name]} {' '.join(used)}\n")
        for line in sorted(lines):
            hasher.update(line.encode())
        return hasher.hexdigest()[:16]

    def definition(self, name: Name) -> Definition:
        """Return a definition of a closure by its name."""
        module = self.module(name.module)
        assert module is not None
        return module[name.name]

    def origin(self, name: Name) -> Name:
        """Return the definition to which a name leads that modules pass on by their imports."""
        while (module := self.module(name.module)) and (passed := module.get(name.name)) and not passed.syntax:
            [name] = passed.uses
        return name


@cache
def checksum_of(text: str) -> str:
    """Return a checksum of a text, as 16 hexadecimal digits."""
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def as_definition(function: Callable[..., object]) -> Name:
    """Return the module and the name of a function of the package."""
    return Name(function.__module__.removeprefix(f"{PACKAGE}."), function.__qualname__)


# commands -------------------------------------------------------------------------------------------------------------

CACHE_ERRORS = (OSError, ValueError, TypeError, AttributeError)  # errors of a missing or damaged cache file
PARSER_SOURCES = ("plan/syntax.py", "plan/digest.py")  # modules that parse and cache definitions
CACHED_VERSIONS = 4  # number of versions of the package whose definitions are kept in the cache


def package_sources() -> dict[str, bytes]:
    """Return the source of every module, also of extensions, by its path relative to the package."""
    sources = {str(path.relative_to(HERE)): path.read_bytes() for path in HERE.rglob("*.py")}
    more = ((folder, path) for folder in code_folders() for path in folder.rglob("*.py"))
    return {**sources, **{f"benchmarks/{path.relative_to(folder)}": path.read_bytes() for folder, path in more}}


def module_checksums(sources: Mapping[str, bytes]) -> dict[str, str]:
    """Return, for each module, a checksum of everything that its definitions depend on, by the module's dotted name.

    The checksum covers the module's text, the names of all modules, the list of benchmarks and features that plug in,
    the Python version, and the code that parses and caches definitions.
    """
    around = f"{sys.version}\n{sorted(sources)}\n{plugin_packages()}\n".encode()
    around += b"".join(sources.get(name, b"") for name in PARSER_SOURCES)
    frame = hashlib.sha256(around).digest()
    return {dotted_name(Path(path)): hashlib.sha256(frame + text).hexdigest()[:16] for path, text in sources.items()}


def definitions_cache_file(folder: Path, checksums: Mapping[str, str]) -> Path:
    """Return the path of the cache file for the definitions of a package whose modules have these checksums."""
    return folder / f"{hashlib.sha256(json.dumps(checksums, sort_keys=True).encode()).hexdigest()}.json"


def write_definitions(code: PackageCode, path: Path, checksums: Mapping[str, str]) -> None:
    """Write the definitions of the whole package to its cache file `path`, and delete the files of old versions.

    checksums: as returned by `module_checksums`. Nothing is cached if the folder is not writable, or if an import in
    some module cannot be followed.
    """
    with contextlib.suppress(OSError, ValueError):
        modules = {
            name: [
                checksum,
                {
                    key: [definition.syntax, sorted(definition.uses), sorted(definition.arguments)]
                    for key, definition in (code.module(name) or {}).items()
                },
            ]
            for name, checksum in sorted(checksums.items())
        }
        with atomic_file(path) as handle:
            json.dump(modules, handle)
        delete_old_files(path.parent, CACHED_VERSIONS, "*.json")


def dotted_name(path: Path) -> str:
    """Convert a module's path, relative to the package, to its dotted name; "" for the package itself."""
    return ".".join(path.with_suffix("").parts).removesuffix("__init__").removesuffix(".")


def read_definitions(path: Path, checksums: Mapping[str, str]) -> dict[str, Module | None]:
    """Return the cached definitions of the modules whose checksums are unchanged.

    Raises one of CACHE_ERRORS if the file is missing or damaged.
    """
    modules: dict[str, tuple[str, dict[str, list[Any]]]] = json.loads(path.read_text(encoding="utf-8"))
    return {
        name: {
            key: Definition(syntax, frozenset(Name(*use) for use in uses), frozenset(Name(*use) for use in arguments))
            for key, (syntax, uses, arguments) in definitions.items()
        }
        for name, (checksum, definitions) in modules.items()
        if checksums.get(name) == checksum
    }


def unchanged_definitions(folder: Path, checksums: Mapping[str, str]) -> dict[str, Module | None]:
    """Return those definitions in the newest cache file whose modules are unchanged; empty if there is no such file."""
    try:
        return read_definitions(newest_first(folder, "*.json")[0], checksums)
    except (*CACHE_ERRORS, IndexError):
        return {}


def source_lookup(sources: Mapping[str, bytes]) -> Source:
    """Return a function that returns a module's text by its dotted name. sources: texts by path."""
    by_name = {dotted_name(Path(path)): text for path, text in sources.items()}

    def source(module: str) -> str | None:
        text = by_name.get(module)
        return None if text is None else text.decode()

    return source


@cache
def package_code() -> PackageCode:
    """Return the definitions of this package from the cache; parse and cache them if they are not cached yet."""
    sources = package_sources()  # read only once, since a file may change between two reads
    checksums = module_checksums(sources)
    code, path = PackageCode(source_lookup(sources)), definitions_cache_file(cache_folder("definitions"), checksums)
    try:
        code.modules = read_definitions(path, checksums)
    except CACHE_ERRORS:
        code.modules = unchanged_definitions(path.parent, checksums)
        write_definitions(code, path, checksums)
    return code


@cache
def command_functions() -> dict[str, Name]:
    """Map each command's name to the function that implements it."""
    return {
        command_name(function): Name(*function.split(":"))
        for functions in commands_by_stage().values()
        for function in functions
    }


def roots_of(function: Name, code: PackageCode) -> list[Name]:
    """Return the definitions from which a command's closure is built: its function and its arguments' classes."""
    return [function, *code.arguments(function)]


def closure_of(
    command: str, instead: DefinitionReplacements | None = None, code: PackageCode | None = None
) -> set[Name]:
    """Return every definition that a command uses. instead: as in `PackageCode.closure`."""
    code = code or package_code()
    return code.closure(roots_of(command_functions()[command], code), instead or {})


def code_of(
    command: str,
    instead: DefinitionReplacements | None = None,
    files: Iterable[Path] = (),
    code: PackageCode | None = None,
) -> str:
    """Return a digest of the code on which a command's results depend, as 16 hexadecimal digits.

    instead: as in `PackageCode.closure`; files: templates and style sheets that the digest also covers; code: the
    package's definitions, by default those of `package_code`. Raises KeyError for an unknown command, and LookupError
    for a missing definition.
    """
    code = code or package_code()
    hasher = hashlib.sha256(f"{code.digest(closure_of(command, instead, code))}\n".encode())
    for path in sorted(files):
        hasher.update(path.name.encode() + b"\n" + path.read_bytes())
    return hasher.hexdigest()[:16]
