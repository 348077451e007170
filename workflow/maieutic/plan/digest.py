"""What code decides a command's results: a digest of the definitions that it uses, for Snakemake's re-run trigger.

A definition is a function, a class or an assignment at the top level of a module. The closure of one is itself and
every definition of the package that its syntax names, through imports and further modules, and so on. The digest is
over their syntax trees without comments, docstrings, descriptions of fields and layout, so that only an edit that can
change a result changes it. An edit of a definition that a command does not use changes nothing for it, whatever module
it stands in.

Reading the syntax of the whole package takes a second, so its definitions are kept in the user's cache, by the checksum
of the sources; after an edit only the modules whose text is another one are read.
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

from maieutic.benchmarks import BENCHMARKS
from maieutic.commands import commands as commands_by_stage
from maieutic.commands import name_of as command_name
from maieutic.core.caching import cache_folder, forget_old, newest_first
from maieutic.core.files import whole_file
from maieutic.extensions import EXTENSIONS
from maieutic.plan.syntax import ANY, PACKAGE, REST, Definition, Module, Name, definitions_of

HERE = Path(__file__).parents[1]  # the package

# Modules that only move bytes, start processes or print: no result depends on them. Each with the reason.
NEUTRAL = {
    "core.plugins": "finds what benchmarks plug in, which is followed by itself",
    "serving.connections": "opens and retries connections; what is sent and read is decided elsewhere",
    "serving.devices": "waits for a free device and names it",
    "serving.budget": "counts what is spent, and stops a job whose budget is",
    "serving.inherited": "which variables of ours a server gets",
    "core.ending": "takes the answers under way when a job is told to end",
    "core.caching": "keeps what others have made, under all that it depends on",
    "core.errors": "words of errors",
    "core.visible": "signs in the place of control characters",
    "core.secrets": "takes keys of endpoints out of texts",
    "config.served": "refuses arguments and variables of servers",
    "config.faults": "words of errors",
    "core.files": "writes files whole or not at all",
    "serving.handover": "names of environment variables, and which run a job is of",
    "serving.keeper": "lends a server to one job after the other",
    "serving.lent": "takes a server that is up, or starts one with the same arguments",
    "serving.room": "idle servers give way",
    "core.jobs": "reads and checks what a rule hands over, which is a parameter of the rule itself",
    "core.journal": "keeps finished answers under the keys that it is given",
    "core.ledger": "puts down what was asked",
    "core.logs": "where log lines go",
    "core.names": "spelling of names in messages",
    "core.progress": "progress lines",
    "rewards.progress_callback": "progress lines of training",
    "core.run_files": "words of commands in messages",
    "core.spool": "keeps records until they are written",
    "serving.causes": "words of a server's errors",
    "serving.unheeded": "notes what an endpoint changes in silence; answers stay as they are",
    "serving.server": "starts and ends a server; its arguments are parameters of the rule",
}


Instead = Mapping[Name, Iterable[Name]]
Source = Callable[[str], str | None]


class Code:
    """The definitions of a package. source: gives the text of a module by its dotted name, None where there is none."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.modules: dict[str, Module | None] = {}

    def module(self, name: str) -> Module | None:
        """The definitions of a module by name, None where there is no such module."""
        if name not in self.modules:
            text = self.source(name)
            self.modules[name] = None if text is None else definitions_of(name, text, self.is_module)
        return self.modules[name]

    def is_module(self, name: str) -> bool:
        """Whether the package has a module of this name."""
        return self.source(name) is not None if name not in self.modules else self.modules[name] is not None

    def arguments(self, function: Name) -> list[Name]:
        """What the annotations of a function's arguments name of the package. Raises LookupError if it is not there."""
        module = self.module(function.module)
        if module is None or function.name not in module:
            raise LookupError(f"{PACKAGE}.{function.module} has no {function.name}")
        return sorted(module[function.name].arguments)

    def closure(self, roots: Iterable[Name], instead: Instead) -> set[Name]:
        """Every definition that some definitions use, themselves included, without those of neutral modules.

        instead: definitions that are followed no further, each with those that stand for it: of a table of loaders the
        one that a job uses.
        """
        definitions: set[Name] = set()
        ahead = list(roots)
        while ahead:
            definition = ahead.pop()
            if definition in definitions or definition.module in NEUTRAL:
                continue
            if definition in instead:
                ahead += instead[definition]
                continue
            module = self.module(definition.module)
            if module is None or (definition.name not in module and definition.name != ANY):
                raise LookupError(f"{PACKAGE}.{definition.module} has no {definition.name}")
            definitions.add(definition)
            if definition.name == ANY:
                ahead += [Name(definition.module, name) for name in module]
                continue
            ahead += module[definition.name].uses
            if REST in module:
                ahead.append(Name(definition.module, REST))
        return {use for use in definitions if use.name != ANY}

    def digest(self, closure: Iterable[Name]) -> str:
        """A digest of some definitions."""
        hasher = hashlib.sha256()
        for definition in sorted(closure):
            module = self.module(definition.module)
            assert module is not None
            hasher.update(f"{definition.module}:{definition.name}\n{module[definition.name].syntax}\n".encode())
        return hasher.hexdigest()[:16]


def name_of(function: Callable[..., object]) -> Name:
    """A function of the package as a definition."""
    return Name(function.__module__.removeprefix(f"{PACKAGE}."), function.__qualname__)


# commands -------------------------------------------------------------------------------------------------------------

NO_DEFINITIONS = (OSError, ValueError, TypeError, AttributeError)  # of a file that is not there, or damaged
READERS = ("plan/syntax.py", "plan/digest.py")  # how a module's definitions are read, and kept
KEPT = 4  # versions of the package whose definitions stay in the cache


def package_sources() -> dict[str, bytes]:
    """The text of every module of the package, by its path in it."""
    return {str(path.relative_to(HERE)): path.read_bytes() for path in HERE.rglob("*.py")}


def module_checksums(sources: Mapping[str, bytes]) -> dict[str, str]:
    """What the definitions of each module depend on, by its dotted name.

    That is its text, which other modules there are and which of them benchmarks and extensions plug in, how this Python
    reads syntax, and how the package reads and keeps definitions.
    """
    around = f"{sys.version}\n{sorted(sources)}\n{BENCHMARKS}\n{EXTENSIONS}\n".encode()
    around += b"".join(sources.get(name, b"") for name in READERS)
    frame = hashlib.sha256(around).digest()
    return {dotted(Path(path)): hashlib.sha256(frame + text).hexdigest()[:16] for path, text in sources.items()}


def kept_at(folder: Path, checksums: Mapping[str, str]) -> Path:
    """The file of a cache folder that holds the definitions of a package of these modules."""
    return folder / f"{hashlib.sha256(json.dumps(checksums, sort_keys=True).encode()).hexdigest()}.json"


def write_definitions(code: Code, path: Path, checksums: Mapping[str, str]) -> None:
    """Keep the definitions of the whole package, and forget those of versions long gone.

    checksums: of its modules, as `module_checksums` gives them. Nothing is kept where the folder cannot be written, or
    a module that no command uses cannot be followed.
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
        with whole_file(path) as handle:
            json.dump(modules, handle)
        forget_old(path.parent, KEPT, "*.json")


def dotted(path: Path) -> str:
    """The name of a module, relative to the package, from its path in it; "" the package itself."""
    return ".".join(path.with_suffix("").parts).removesuffix("__init__").removesuffix(".")


def read_definitions(path: Path, checksums: Mapping[str, str]) -> dict[str, Module | None]:
    """The definitions of those modules of a package that are as they were kept, by their checksums.

    Raises one of NO_DEFINITIONS where nothing is kept.
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
    """The definitions of those modules that are as in the newest version kept in a folder; none where that is none."""
    try:
        return read_definitions(newest_first(folder, "*.json")[0], checksums)
    except (*NO_DEFINITIONS, IndexError):
        return {}


def source_among(sources: Mapping[str, bytes]) -> Source:
    """What gives the text of a module from sources that were read at one moment."""
    by_name = {dotted(Path(path)): text for path, text in sources.items()}

    def source(module: str) -> str | None:
        text = by_name.get(module)
        return None if text is None else text.decode()

    return source


@cache
def package_code() -> Code:
    """The definitions of this package: kept by an earlier process, or read from the syntax and kept."""
    sources = package_sources()  # once: a file may be saved meanwhile
    checksums = module_checksums(sources)
    code, path = Code(source_among(sources)), kept_at(cache_folder("definitions"), checksums)
    try:
        code.modules = read_definitions(path, checksums)
    except NO_DEFINITIONS:
        code.modules = unchanged_definitions(path.parent, checksums)
        write_definitions(code, path, checksums)
    return code


@cache
def commands() -> dict[str, Name]:
    """The function of every command by the command's name."""
    return {
        command_name(function): Name(*function.split(":"))
        for functions in commands_by_stage().values()
        for function in functions
    }


def roots_of(function: Name, code: Code) -> list[Name]:
    """A command's function, and the classes that its arguments are read as: the jobs of rules."""
    return [function, *code.arguments(function)]


def closure_of(command: str, instead: Instead | None = None) -> set[Name]:
    """Every definition that a command uses."""
    code = package_code()
    return code.closure(roots_of(commands()[command], code), instead or {})


def code_of(command: str, instead: Instead | None = None, files: Iterable[Path] = ()) -> str:
    """A digest of the code that decides a command's results, 16 hexadecimal digits.

    instead: definitions of which a job uses a part, each with that part; files: templates and style sheets. Raises
    KeyError for an unknown command, LookupError for a definition that is not there.
    """
    hasher = hashlib.sha256(f"{package_code().digest(closure_of(command, instead))}\n".encode())
    for path in sorted(files):
        hasher.update(path.name.encode() + b"\n" + path.read_bytes())
    return hasher.hexdigest()[:16]
