"""Tests of code digests: an edit changes the digests of exactly the commands that use the edited definition."""

from __future__ import annotations

import ast
import json
import re
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from maieutic.benchmarks import BENCHMARKS
from maieutic.core import caching
from maieutic.datasets.pairs import PAIR_SOURCES
from maieutic.datasets.registry import LOADERS
from maieutic.plan import digest, former_digests
from maieutic.plan.digest import NEUTRAL_MODULES, PackageCode, Source, closure_of, code_of, command_functions, roots_of
from maieutic.plan.syntax import WHOLE_MODULE, Module, Name, definitions_of, without_texts

# Sources of the real package, read once.
read_source = digest.source_lookup(digest.package_sources())


def module_names() -> list[str]:
    """Return the dotted names of all modules, relative to the package."""
    return sorted(checksums())


def checksums() -> dict[str, str]:
    """Return the checksums of the package's current modules."""
    return digest.module_checksums(digest.package_sources())


def read_cached(path: Path) -> dict[str, Any]:
    """Return the definitions of the current package from a cache file."""
    return digest.read_definitions(path, checksums())


PACKAGE = {
    "": "",
    "work": '''
"""Work."""
from __future__ import annotations
from typing import TYPE_CHECKING
import re
from maieutic import tools
from maieutic.tools import LIMIT as most
from maieutic.deep import below
from maieutic.core.files import write
if TYPE_CHECKING:
    from maieutic.types import Big

PATTERN = re.compile("a")
UNUSED = 1

def run(given: Big) -> str:
    """Run."""
    from maieutic.late import late
    write(given)
    return PATTERN.sub(tools.helped(given), late(most)) + below.bottom()

def other() -> int:
    return UNUSED
''',
    "tools": """
from maieutic.base import Base
LIMIT = 3
TABLE = {"a": 1}
TABLE["b"] = 2

def helped(given: object) -> str:
    return str(TABLE) + inner()

def inner() -> str:
    return Kind().said

class Kind(Base):
    said = "x"

def unused() -> None:
    return None
""",
    "base": "class Base:\n    def method(self) -> int:\n        return 1\n",
    "late": "print('done at import')\ndef late(n: int) -> str:\n    return 'a' * n\n",
    "deep": "",
    "deep.below": "from maieutic.tools import unused\ndef bottom() -> str:\n    return ''\n",
    "files": "def write(given: object) -> None:\n    pass\n",
    "types": "class Big: ...\n",
}
ROOT = [Name("work", "run")]


def digest_of(**changed: str) -> str:
    """Return the digest of the small package's root with changed texts of modules."""
    code = PackageCode({**PACKAGE, **changed}.get)
    return code.digest(code.closure(ROOT, {}))


def test_the_closure_follows_names_through_imports_attributes_bases_and_late_imports() -> None:
    assert {tuple(name) for name in PackageCode(PACKAGE.get).closure(ROOT, {})} == {
        ("work", "run"), ("work", "PATTERN"), ("tools", "LIMIT"), ("tools", "TABLE"), ("tools", "helped"),
        ("tools", "inner"), ("tools", "Kind"), ("base", "Base"), ("late", "late"), ("late", ""), ("deep.below", "bottom"),
    }  # fmt: skip


CHANGES = {
    "a function that is called": ("tools", "str(TABLE)", "repr(TABLE)", True),
    "a function behind it": ("tools", "Kind().said", "Kind().said * 2", True),
    "a base class": ("base", "return 1", "return 2", True),
    "a constant under another name": ("tools", "LIMIT = 3", "LIMIT = 4", True),
    "an entry that is added to a table": ("tools", '["b"] = 2', '["b"] = 3', True),
    "a pattern": ("work", '"a"', '"b"', True),
    "a late import": ("late", "'a' * n", "'a' * n * 2", True),
    "a module's statement at import": ("late", "'done at import'", "'done'", True),
    "a submodule": ("deep.below", "return ''", "return 'x'", True),
    "a comment": ("tools", "LIMIT = 3", "LIMIT = 3  # three", False),
    "a docstring": ("work", '"""Run."""', '"""Run it."""', False),
    "a module's docstring": ("work", '"""Work."""', '"""All work."""', False),
    "an added docstring": ("base", "return 1", '"""One."""\n        return 1', False),
    "layout": ("tools", 'TABLE = {"a": 1}', "TABLE = {\n    'a':\n        1,\n}", False),
    "a function that is never called": ("tools", "return None", "return 1", False),
    "a function beside it": ("work", "return UNUSED", "return UNUSED + 1", False),
    "a constant that is not used": ("work", "UNUSED = 1", "UNUSED = 2", False),
    "a module that only moves bytes": ("files", "pass", "return", False),
    "a class for type checkers": ("types", "...", "x = 1", False),
}


@pytest.mark.parametrize(("module", "old", "new", "changes"), CHANGES.values(), ids=CHANGES.keys())
def test_a_digest_changes_by_what_can_change_a_result_and_by_nothing_else(
    module: str, old: str, new: str, changes: bool
) -> None:
    text = PACKAGE[module]
    assert text.count(old) == 1
    assert (digest_of(**{module: text.replace(old, new)}) != digest_of()) == changes


MODULES = {"", "tools", "deep", "deep.below", "benchmarks.mrbench.stage", "benchmarks.kmpbench.stage", "core.plugins"}
IMPORTS = """
import os
from json import dumps
from maieutic import tools, HOME
from maieutic.deep import below as under
from maieutic.deep.below import bottom, top as summit
from maieutic.core.plugins import plugin_objects, merged_plugin_tables
"""
USES: dict[str, tuple[str, str, set[tuple[str, str]]]] = {
    "a constant of the package itself": ("x = HOME", "x", {("", "HOME")}),
    "a definition under another name": ("x = summit()", "x", {("deep.below", "top")}),
    "an attribute of a module": ("x = tools.LIMIT", "x", {("tools", "LIMIT")}),
    "an attribute of a module under another name": ("x = under.bottom()", "x", {("deep.below", "bottom")}),
    "a module in a module": ("from maieutic import deep\nx = deep.below", "x", {("deep.below", WHOLE_MODULE)}),
    "a name in a module that has submodules": ("from maieutic import deep\nx = deep.other", "x", {("deep", "other")}),
    "a module that is passed on": ("x = f(tools)", "x", {("tools", WHOLE_MODULE)}),
    "a module that is passed on, and an attribute": ("x = tools.A + f(under)", "x", {("tools", "A"), ("deep.below", WHOLE_MODULE)}),
    "other libraries": ("x = os.path, dumps(1)", "x", set()),
    "a name of the same module": ("y = 1\nx = y", "x", {("here", "y")}),
    "a local variable of the same name": ("def x(y):\n    return y", "x", set()),
    "several statements": ("x = HOME\nx += bottom", "x", {("", "HOME"), ("deep.below", "bottom"), ("here", "x")}),
    "an annotated assignment": ("x: int = HOME", "x", {("", "HOME")}),
    "an annotation of a value": ("x: bottom = 1", "x", {("deep.below", "bottom")}),
    "an assignment to two names": ("x, y = HOME, 1", "y", {("", "HOME"), ("here", "x"), ("here", "y")}),
    "an entry of a table": ("x = {}\nx['a'] = bottom", "x", {("deep.below", "bottom"), ("here", "x")}),
    "a function's annotations": ("def x(a: bottom, *b: bottom, c: bottom) -> bottom:\n    return 1", "x", set()),
    "a function's defaults and decorators": ("@bottom\ndef x(a=HOME): ...", "x", {("deep.below", "bottom"), ("", "HOME")}),
    "an async function": ("async def x():\n    return HOME", "x", {("", "HOME")}),
    "a class": ("class x(summit):\n    a: bottom", "x", {("deep.below", "top"), ("deep.below", "bottom")}),
    "a late import": ("def x():\n    from maieutic.deep.below import late\n    return late", "x", {("deep.below", "late")}),
    "a late import of a module": ("def x():\n    from maieutic import deep\n    return deep.a", "x", {("deep", "a")}),
    "a late import in another function": ("def y():\n    from maieutic.deep import late\ndef x():\n    return late", "x", set()),
    "objects of plug-ins": ("x = plugin_objects('stage', 'PLAN')", "x", {("core.plugins", "plugin_objects"), ("benchmarks.mrbench.stage", "PLAN"), ("benchmarks.kmpbench.stage", "PLAN")}),
    "merged tables of plug-ins": ("x = merged_plugin_tables('stage', 'PLAN')", "x", {
        ("core.plugins", "merged_plugin_tables"), ("benchmarks.mrbench.stage", "PLAN"), ("benchmarks.kmpbench.stage", "PLAN"),
    }),
    "a function that is not a plug-in loader": ("def parts(a, b): ...\nx = tools.parts('stage', 'PLAN')", "x", {("tools", "parts")}),
    "another statement of the module": ("print(HOME)", "", {("", "HOME")}),
    "a condition at import": ("if HOME:\n    y = bottom", "", {("", "HOME"), ("deep.below", "bottom")}),
    "a definition that the module re-exports": ("", "summit", {("deep.below", "top")}),
    "a module that the module re-exports": ("", "under", {("deep.below", WHOLE_MODULE)}),
}  # fmt: skip


@pytest.mark.parametrize(("text", "name", "uses"), USES.values(), ids=USES.keys())
def test_uses_of_a_definition(text: str, name: str, uses: set[tuple[str, str]]) -> None:
    defined = definitions_of("here", IMPORTS + text, MODULES.__contains__)
    itself = {("here", name)}  # an assigned name is among the uses too
    assert {tuple(use) for use in defined[name].uses} - itself == uses - itself


def test_blocks_for_type_checkers_and_main_modules_define_nothing() -> None:
    text = "if TYPE_CHECKING:\n    from maieutic.gone import x\nif __name__ == '__main__':\n    y = 1\npass\n"
    assert definitions_of("here", text, MODULES.__contains__) == {}
    assert set(definitions_of("here", "if True:\n    y = 1\nx = 1\nclass A: ...\n", MODULES.__contains__)) == {
        "",
        "x",
        "A",
    }


def test_classes_in_the_annotations_of_arguments() -> None:
    """Annotations of every kind of argument are included. A class or a value has no arguments."""
    text = (
        "def x(a: tools.A, /, b: summit, *, c: 'list[str]', d: bottom = 1, e=2, f: K) -> HOME: ...\n"
        "z: bottom = 1\nclass K: ...\n"
    )
    defined = definitions_of("here", IMPORTS + text, MODULES.__contains__)
    assert {tuple(name) for name in defined["x"].arguments} == {
        ("tools", "A"), ("deep.below", "top"), ("deep.below", "bottom"), ("here", "K"),
    }  # fmt: skip
    assert defined["z"].arguments == defined["summit"].arguments == frozenset()
    code = PackageCode({"here": IMPORTS + text, **dict.fromkeys(MODULES, "")}.get)
    named = [("deep.below", "bottom"), ("deep.below", "top"), ("here", "K"), ("tools", "A")]
    assert code.arguments(Name("here", "x")) == named
    for unknown in (Name("here", "y"), Name("nowhere", "x")):
        with pytest.raises(LookupError, match=rf"maieutic\.{unknown.module} has no {unknown.name}"):
            code.arguments(unknown)


@pytest.mark.parametrize(("text", "line"), [
    ("\nimport maieutic", "line 2: write `from maieutic... import ...`"), ("import os, maieutic.tools", "line 1: write"),
    ("from .. import tools", "line 1: expected an absolute import, found a relative one"), ("from maieutic import *", "line 1: import names instead of *"),
    ("from maieutic.core.plugins import plugin_objects\nx = plugin_objects(name, 'A')", "line 2: pass the module and the object of a plug-in as constants"),
    ("def x():\n    from maieutic.tools import *", "line 2: import names"),
])  # fmt: skip
def test_an_import_that_cannot_be_followed_is_reported_by_its_line(text: str, line: str) -> None:
    with pytest.raises(ValueError, match="^" + re.escape(line)):
        definitions_of("here", text, MODULES.__contains__)


@pytest.mark.parametrize("text", ["import maieuticum", "from maieuticum import x", "from json import *", "import os"])
def test_other_libraries_are_not_followed(text: str) -> None:
    assert definitions_of("here", text, MODULES.__contains__) == {}


@pytest.mark.parametrize(("before", "after", "same"), [
    ("def f():\n    'doc'\n    return 1", "def f():\n    return 1", True),
    ("def f():\n    'doc'", "def f(): pass", True),
    ("async def f():\n    'doc'\n    return 1", "async def f():\n    return 1", True),
    ("class A:\n    'doc'\n    x = 1", "class A:\n    x = 1", True),
    ("'doc'\nx = 1", "x = 1", True),
    ("def f():\n    1\n    return 1", "def f():\n    return 1", False),
    ("def f():\n    return 1\n    'doc'", "def f():\n    return 1", False),
    ("x = Field(1, description='a')", "x = Field(1, description='b')", True),
    ("x = Field(1, ge=1)", "x = Field(1, ge=2)", False),
    ("x = Other(1, description='a')", "x = Other(1, description='b')", False),
    ("x = y.Field(1, description='a')", "x = y.Field(1, description='b')", False),
    ("raise UserError(f'{x}: a', b, 'c')", "raise UserError(f'{x}: d', b, 'e')", True),
    ("raise UserError('a', b)", "raise UserError('a', c)", False),
    ("log.info('%s left', x)", "log.info('%s are left', x)", True),
    ("log.info('a', x)", "log.info('a', y)", False),
    ("raise ValueError('a')", "raise ValueError('b')", False),
    ("x = log('a')", "x = log('b')", False),
    ("x = other.info('a')", "x = other.info('b')", False),
])  # fmt: skip
def test_docstrings_descriptions_and_messages_are_not_part_of_the_syntax(before: str, after: str, same: bool) -> None:
    assert (ast.dump(without_texts(ast.parse(before))) == ast.dump(without_texts(ast.parse(after)))) is same


def package_at(folder: Path, patch: pytest.MonkeyPatch) -> None:
    """Write the small package as files into a folder, and let the digests read it as their package."""
    texts = {**PACKAGE, "deep": "", "core": "", "core.files": PACKAGE["files"]}
    del texts["files"]
    for name, text in texts.items():
        is_package = any((other != name and other.startswith(f"{name}.")) or not name for other in texts)
        path = (
            folder.joinpath(*name.split("."), "__init__.py")
            if is_package
            else folder.joinpath(*name.split(".")).with_suffix(".py")
        )
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    patch.setattr(digest, "HERE", folder)


def test_a_definition_is_replaced_by_those_that_a_job_uses(tmp_path: Path) -> None:
    code = PackageCode(PACKAGE.get)
    inner, table = Name("tools", "inner"), Name("tools", "TABLE")
    closure = code.closure(ROOT, {Name("tools", "helped"): (inner,)})
    assert inner in closure and Name("base", "Base") in closure and table not in closure
    assert Name("tools", "helped") not in closure
    whole = code.closure([Name("tools", WHOLE_MODULE)], {})
    [first] = ROOT
    assert code.closure([first, Name("tools", WHOLE_MODULE)], {}) == whole | code.closure([first], {}), (
        "all roots are followed"
    )
    assert {definition.name for definition in whole if definition.module == "tools"} == {
        "LIMIT", "TABLE", "helped", "inner", "Kind", "unused", "Base",
    }  # fmt: skip
    assert not any(definition.name == WHOLE_MODULE for definition in whole)
    with pytest.raises(LookupError, match=r"^maieutic\.gone has no \*"):
        code.closure([Name("gone", WHOLE_MODULE)], {})
    assert code.closure([Name(next(iter(NEUTRAL_MODULES)), "anything")], {}) == set(), (
        "a neutral module is not even read"
    )


def test_a_digest_depends_on_the_name_of_each_definition_and_not_on_its_module() -> None:
    code = PackageCode({"a": "x = 1\ny = 2\nz = 1\n", "b": "x = 1\n"}.get)
    names = [Name("a", "x"), Name("a", "y"), Name("a", "z"), Name("b", "x")]
    hashes = [code.digest([name]) for name in names]
    assert len(set(hashes)) == 3 and all(re.fullmatch("[0-9a-f]{16}", value) for value in hashes)
    assert hashes[0] == hashes[3]
    assert code.digest(names) == code.digest(reversed(names)) != code.digest(names[:2])


def test_two_functions_that_exchange_their_bodies_change_the_digest_of_their_caller() -> None:
    def digest_of_caller(first: str, second: str) -> str:
        modules = {"a": f"def f(): return {first}\n", "b": f"def f(): return {second}\n"}
        modules["run"] = (
            "from maieutic import b\nfrom maieutic.a import f\ndef g(): return f()\ndef h(): return b.f() + g()\n"
        )
        code = PackageCode(modules.get)
        return code.digest(code.closure([Name("run", "h")], {}))

    assert digest_of_caller("1", "2") != digest_of_caller("2", "1")


@pytest.mark.own_text
@pytest.mark.parametrize("module", ["rewards.loading", "core.records"])
@pytest.mark.parametrize("passes_on", [False, True])
def test_a_module_that_moves_changes_no_digest(module: str, passes_on: bool) -> None:
    """The moved module gets another folder and name. passes_on: the old module imports all of its names."""
    folder, _, name = module.rpartition(".")
    definitions = definitions_of(module, str(read_source(module)), lambda other: read_source(other) is not None)
    passed = f"from maieutic.core.moved import {', '.join(name for name in definitions if name.isidentifier())}\n"

    def source(other: str) -> str | None:
        if other == "core.moved":
            return read_source(module)
        if other == module:
            return passed if passes_on else None
        text = read_source(other)
        if text is None or passes_on:
            return text
        text = re.sub(rf"from maieutic\.{re.escape(module)} import", "from maieutic.core.moved import", text)
        return re.sub(
            rf"from maieutic\.{re.escape(folder)} import {name}\b", f"from maieutic.core import moved as {name}", text
        )

    code = PackageCode(source)
    after = {command: code_of(command, code=code) for command in EXPENSIVE}
    assert after == {command: code_of(command) for command in EXPENSIVE}


def test_a_recorded_digest_of_the_former_form_stays_in_use(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    former = code_of("train-reward-model", code=former_digests.former_code())
    present = code_of("train-reward-model")
    assert former != present
    (tmp_path / former_digests.METADATA).mkdir(parents=True)
    (tmp_path / former_digests.METADATA / "output").write_text(
        json.dumps({"params": [f"'{former}'"]}), encoding="utf-8"
    )
    accepted = former_digests.AcceptedDigests()
    monkeypatch.setattr(former_digests, "accepted_digests", lambda: accepted)
    assert former_digests.code_of("train-reward-model") == former
    assert former_digests.code_of("tune-tutor") == code_of("tune-tutor"), "not recorded in this folder"
    accepted.save()
    (tmp_path / former_digests.METADATA / "output").unlink()
    later = former_digests.AcceptedDigests()
    assert later.used[present] == former and later.recorded == {former}, "kept for another run file of this folder"


def test_a_new_folder_accepts_no_digest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    accepted = former_digests.AcceptedDigests()
    accepted.save()
    assert accepted.recorded == accepted.used.keys() == set() and list(tmp_path.iterdir()) == []


# the real package -----------------------------------------------------------------------------------------------------


def test_every_rule_depends_on_the_code_of_its_command() -> None:
    """No rule lists files of the package: its dependencies follow from the imports of its command."""
    used = set()
    for path in sorted(Path("workflow/rules").glob("*.smk")):
        text = path.read_text(encoding="utf-8")
        for rule, body in re.findall(r"^rule (\w+):\n((?:    .*\n|\n)+)", text, re.MULTILINE):
            if rule in {"fetch", "curate", "questions"}:
                continue
            assert f'**job("{rule}"' in body or f'code=plan.code_of("{rule}")' in body, rule
            used.add(rule.replace("_", "-"))
        for rule, body in re.findall(r"^use rule (\w+) as \w+ with:\n((?:    .*\n|\n)+)", text, re.MULTILINE):
            assert f'**job("{rule}"' in body or f'code=plan.code_of("{rule}")' in body, rule
        assert "maieutic/" not in text, path
    assert used <= set(command_functions()) and len(used) > 30


def mutated(text: str) -> str:
    """Return a module's text with a statement added to each function and class, and every constant changed."""
    tree = ast.parse(text)
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            node.body.append(ast.parse("mutated = True").body[0])
    for node in tree.body:
        if isinstance(node, ast.ClassDef):
            node.body.append(ast.parse("mutated = True").body[0])
        elif isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
            node.value = ast.Tuple([node.value, ast.Constant("mutated")], ast.Load())
    return ast.unparse(tree)


class TracingCode(PackageCode):
    """Code that records which modules a digest reads."""

    def __init__(self, source: Source, modules: dict[str, Module | None]) -> None:
        super().__init__(source)
        self.modules, self.looked_at = modules, set[str]()

    def module(self, name: str) -> Module | None:
        self.looked_at.add(name)
        return super().module(name)

    def digest_of(self, function: Name) -> str:
        """Return the digest of a command's function."""
        return self.digest(self.closure(roots_of(function, self), {}))


PARSED: dict[str, Module | None] = {}


@cache
def digests_before() -> dict[str, tuple[str, set[str]]]:
    """Return each command's digest, and the modules that it was computed from; no other module can change it."""
    codes = {name: TracingCode(read_source, PARSED) for name in command_functions()}
    return {
        name: (codes[name].digest_of(function), codes[name].looked_at) for name, function in command_functions().items()
    }


def digests(**changed: str) -> dict[str, str]:
    """Return each command's digest with changed texts of some modules. Other modules are parsed once for all tests."""
    unchanged = digests_before()
    parsed = {name: module for name, module in PARSED.items() if name not in changed}
    code = TracingCode(lambda name: changed.get(name, read_source(name)), parsed)
    return {
        name: code.digest_of(function) if unchanged[name][1] & changed.keys() else unchanged[name][0]
        for name, function in command_functions().items()
    }


@pytest.fixture(scope="module")
def current() -> dict[str, str]:
    return digests()


@cache
def commands_by_module() -> dict[str, set[str]]:
    """Map each module to the commands whose closure contains one of its definitions."""
    commands: dict[str, set[str]] = {}
    for name in command_functions():
        for module in {definition.module for definition in closure_of(name)}:
            commands.setdefault(module, set()).add(name)
    return commands


@pytest.mark.slow
@pytest.mark.own_text
@pytest.mark.parametrize("module", module_names())
def test_each_module_decides_the_commands_that_use_it_and_no_other(module: str, current: dict[str, str]) -> None:
    """Files listed by hand once left every parser out: a silenced parser re-ran nothing."""
    text = read_source(module)
    assert text is not None
    commands = commands_by_module().get(module, set())
    assert not commands or module not in NEUTRAL_MODULES
    after = digests(**{module: mutated(text)})
    assert {name for name in current if after[name] != current[name]} == commands
    commented = re.sub(r"\n\n\n", "\n\n\n# a comment\n\n\n", text) + "\n# a comment\n"
    assert commented != text
    assert PackageCode({module: commented}.get).module(module) == PackageCode({module: text}.get).module(module)


# Commands that a rule runs. Changing any other command re-runs nothing.
RULE_COMMANDS = {
    rule.replace("_", "-")
    for path in Path("workflow/rules").glob("*.smk")
    for rule in re.findall(r"^rule (\w+):", path.read_text(encoding="utf-8"), re.MULTILINE)
}


@pytest.mark.own_text
def test_the_table_of_what_reruns_is_true() -> None:
    page = Path("CONTRIBUTING.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `([a-z0-9_/]+)\.py` \| (.*) \|$", page, re.MULTILINE)
    assert len(rows) >= 8
    for path, commands in rows:
        module = path.replace("/", ".")
        assert set(commands.split(", ")) == commands_by_module()[module] & RULE_COMMANDS, path


# Modules that decide the expensive steps, so that review sees a new import. From `maieutic.plan.digest.closure_of`.
EXPENSIVE = {
    "train-reward-model": {
        "serving.conversations", "datasets.sampling", "config.models", "core.paths", "core.records", "rewards.checkpoints",
        "rewards.loading", "rewards.training", "serving.weights",
    },
    "score-rewards": {
        "serving.conversations", "config.models", "core.paths", "core.records", "rewards.loading", "rewards.scorer",
        "rewards.scoring", "serving.weights",
    },
    "generate-replies": {
        "serving.backends", "replies.baselines", "benchmarks.kmpbench.baselines", "benchmarks.kmpbench.answer_formats",
        "benchmarks.tutorbench.baselines", "config.cards", "core.yaml_files", "serving.answers", "serving.client", "serving.refusals", "serving.responses", "serving.waits", "core.states", "replies.generate", "config.models", "config.thinking", "serving.pictures", "config.prompts", "core.paths", "core.records",
        "replies.sentences", "core.thinking", "serving.weights",
    },
    "tune-tutor": {
        "config.curation", "config.models", "core.parent_process", "curation.encoding",
        "curation.training", "curation.tuning", "replies.generate", "rewards.checkpoints", "rewards.loading",
        "rewards.training", "serving.weights",
    },
    "make-components": {
        "config.curation", "config.models", "config.thinking", "config.prompts", "core.yaml_files", "core.paths", "core.records", "core.states", "core.thinking",
        "curation.components", "curation.stage_runner", "curation.parsers", "curation.pipeline", "curation.records", "curation.rules",
        "curation.standards", "curation.dialogues", "graders.choices", "graders.solution_numbers", "core.options", "graders.number_words", "graders.numerals", "graders.passages", "graders.reading", "graders.words",
        "replies.generate", "serving.answers", "serving.backends", "serving.client", "serving.pictures", "serving.refusals", "serving.responses", "serving.waits", "serving.weights",
    },
}  # fmt: skip


@pytest.mark.own_text
@pytest.mark.parametrize("command", EXPENSIVE)
def test_expensive_steps_depend_on_little(command: str) -> None:
    plugins = {f"benchmarks.{name}.baselines" for name in BENCHMARKS}  # each benchmark has its own trivial tutors
    assert {definition.module for definition in closure_of(command)} - plugins == EXPENSIVE[command] - plugins
    # Of the paths, only the folders of templates and cards: another rule's new output must not repeat an expensive step.
    of_paths = {definition.name for definition in closure_of(command) if definition.module == "core.paths"}
    assert of_paths == ({"HOME", "RESOURCES"} if "core.paths" in EXPENSIVE[command] else set())


@pytest.mark.own_text
def test_a_new_field_of_a_card_or_judge_retrains_nothing(current: dict[str, str]) -> None:
    classes = r"(class (?:Card|Metric|JudgeModel|HostedModel|Grade|Score)\(.*\):\n)"
    texts = {name: str(read_source(name)) for name in ("config.cards", "config.models", "core.records")}
    after = digests(**{name: re.sub(classes, r"\1    new: int = 0\n", text) for name, text in texts.items()})
    changed = {name for name in current if after[name] != current[name]}
    assert "generate-replies" in changed and "judge-replies" in changed
    assert changed.isdisjoint({"train-reward-model", "train-criteria", "score-pairs", "prepare-weights"})


def test_a_job_depends_on_the_loader_that_it_uses() -> None:
    def names_used(loader: str) -> set[Name]:
        part = {
            Name("datasets.registry", "LOADERS"): [
                digest.as_definition(LOADERS[loader].load),
                Name("datasets.loaders", "Loader"),
            ]
        }
        return closure_of("make-items", part)

    assert Name("datasets.gsm8k", "gsm8k_items") in names_used("gsm8k_solving")
    assert not any(
        definition.module in {"datasets.tutorbench", "datasets.kmp"} for definition in names_used("gsm8k_solving")
    )
    assert any(definition.module == "datasets.gsm8k" for definition in names_used("mathchat_fqa")), (
        "MathChat's first question is a GSM8K item"
    )
    for name in LOADERS:
        assert digest.as_definition(LOADERS[name].load) in names_used(name)
    sources = [digest.as_definition(source.load) for source in PAIR_SOURCES.values()]
    assert set(sources) <= closure_of("make-pairs")


def test_templates_and_style_sheets_are_part_of_the_digest(tmp_path: Path) -> None:
    style = tmp_path / "page.css"
    style.write_text("a")
    before = code_of("build-report", files=[style])
    style.write_text("b")
    assert code_of("build-report", files=[style]) != before != code_of("build-report")


def test_a_cache_that_cannot_be_written_is_no_error(tmp_path: Path) -> None:
    (tmp_path / "definitions").write_text("no folder")
    digest.write_definitions(digest.package_code(), tmp_path / "definitions/a.json", checksums())
    assert (tmp_path / "definitions").read_text() == "no folder"


def test_after_an_edit_only_the_changed_modules_are_parsed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only edited modules are parsed again; all are after a new module, plug-in or Python, or an edit of the parser."""
    package_at(tmp_path / "package", monkeypatch)
    monkeypatch.setattr(caching, "user_cache_path", lambda name: tmp_path / "cache" / name)
    read, original, parsed_modules = digest.package_code.__wrapped__, digest.definitions_of, []

    def recording(name: str, *more: Any) -> Any:
        parsed_modules.append(name)
        return original(name, *more)

    def modules_parsed() -> set[str]:
        parsed_modules.clear()
        code = read()
        parsed = set(parsed_modules)
        fresh = PackageCode(digest.source_lookup(digest.package_sources()))
        expected = {name: fresh.module(name) for name in module_names()}
        assert {name: code.module(name) for name in module_names()} == expected
        assert read_cached(cache_path()) == code.modules, "the cache is complete"
        return parsed

    def cache_path() -> Path:
        return digest.definitions_cache_file(tmp_path / "cache/maieutic/definitions", checksums())

    monkeypatch.setattr(digest, "definitions_of", recording)
    everything = set(module_names())
    assert modules_parsed() == everything and modules_parsed() == set()
    tools = tmp_path / "package/tools.py"
    tools.write_text(tools.read_text(encoding="utf-8") + "MORE = 1\n", encoding="utf-8")
    assert modules_parsed() == {"tools"}
    assert digest.package_code.__wrapped__().module("tools")["MORE"].syntax
    (tmp_path / "package/more.py").write_text("", encoding="utf-8")
    assert modules_parsed() == everything | {"more"}, "a name can now mean another module"
    cache_path().write_text("[]", encoding="utf-8")
    assert modules_parsed() == everything | {"more"}
    (tmp_path / "package/plan").mkdir()
    (tmp_path / "package/plan/syntax.py").write_text("", encoding="utf-8")
    assert modules_parsed() == set(module_names())
    (tmp_path / "package/plan/syntax.py").write_text("# another reader", encoding="utf-8")
    assert modules_parsed() == set(module_names())
    (tmp_path / "package/plan/digest.py").write_text("# another form of what is kept", encoding="utf-8")
    assert modules_parsed() == set(module_names())
    for packages in ({"new": "maieutic.benchmarks.new"}, {"newer": "maieutic.newer"}):
        monkeypatch.setattr(digest, "plugin_packages", lambda packages=packages: packages)
        assert not cache_path().exists(), "another cache file, though the sources are the same"
        assert modules_parsed() == set(module_names()), "a name's meaning depends on the plug-ins"
    monkeypatch.setattr("sys.version", "3.99")
    assert modules_parsed() == set(module_names())


def test_a_concurrent_edit_does_not_corrupt_the_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Definitions cached under a module's checksum were parsed from the text with that checksum."""
    package_at(tmp_path / "package", monkeypatch)
    monkeypatch.setattr(caching, "user_cache_path", lambda name: tmp_path / "cache" / name)
    tools, original = tmp_path / "package/tools.py", digest.module_checksums
    text = tools.read_text(encoding="utf-8")

    def with_concurrent_edit(sources: Any) -> dict[str, str]:
        tools.write_text(text + "MEANWHILE = 1\n", encoding="utf-8")
        return original(sources)

    with monkeypatch.context() as patch:
        patch.setattr(digest, "module_checksums", with_concurrent_edit)
        assert "MEANWHILE" not in digest.package_code.__wrapped__().module("tools")
    assert "MEANWHILE" in digest.package_code.__wrapped__().module("tools")
    tools.write_text(text, encoding="utf-8")
    assert "MEANWHILE" not in digest.package_code.__wrapped__().module("tools")
