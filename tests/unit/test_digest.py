"""What re-runs when code changes: digests of the definitions that a command uses, against small and real packages."""

from __future__ import annotations

import ast
import os
import re
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from maieutic.core import caching
from maieutic.datasets.registry import LOADERS
from maieutic.plan import digest
from maieutic.plan.digest import NEUTRAL_MODULES, PackageCode, Source, closure_of, code_of, command_functions, roots_of
from maieutic.plan.syntax import WHOLE_MODULE, Module, Name, definitions_of, without_docstrings
from maieutic.rewards.pairs import PAIR_SOURCES

# Of the package as it is; read once.
read_source = digest.source_lookup(digest.package_sources())


def module_names() -> list[str]:
    """Every module of the package, dotted and relative to it."""
    return sorted(checksums())


def checksums() -> dict[str, str]:
    """Of the package's modules as they are."""
    return digest.module_checksums(digest.package_sources())


def read_kept(path: Path) -> dict[str, Any]:
    """All definitions of the package as it is, from a file that keeps them."""
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


def found(**changed: str) -> str:
    code = PackageCode({**PACKAGE, **changed}.get)
    return code.digest(code.closure(ROOT, {}))


def test_the_closure_follows_names_through_imports_attributes_bases_and_late_imports() -> None:
    assert {tuple(one) for one in PackageCode(PACKAGE.get).closure(ROOT, {})} == {
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
    "what a module does at import": ("late", "'done at import'", "'done'", True),
    "a submodule": ("deep.below", "return ''", "return 'x'", True),
    "a comment": ("tools", "LIMIT = 3", "LIMIT = 3  # three", False),
    "a docstring": ("work", '"""Run."""', '"""Run it."""', False),
    "a module's docstring": ("work", '"""Work."""', '"""All work."""', False),
    "a docstring more": ("base", "return 1", '"""One."""\n        return 1', False),
    "layout": ("tools", 'TABLE = {"a": 1}', "TABLE = {\n    'a':\n        1,\n}", False),
    "a function that nobody calls": ("tools", "return None", "return 1", False),
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
    assert (found(**{module: text.replace(old, new)}) != found()) == changes


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("from maieutic.tools import *\n", "instead of \\*"),
        ("from . import tools\n", "expected an absolute import, found a relative one"),
        ("import maieutic.tools\n", "write `from maieutic"),
    ],
)
def test_an_import_that_cannot_be_followed_is_refused(text: str, why: str) -> None:
    with pytest.raises(ValueError, match=f"line 1: .*{why}|line 1: {why}"):
        found(work=f"{text}def run() -> None: ...\n")


def test_a_definition_that_is_not_there_is_refused() -> None:
    with pytest.raises(LookupError, match=r"maieutic\.work has no gone"):
        PackageCode(PACKAGE.get).closure([Name("work", "gone")], {})


MODULES = {
    "",
    "tools",
    "deep",
    "deep.below",
    "benchmarks.mrbench.planning",
    "benchmarks.kmpbench.planning",
    "core.plugins",
}
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
    "of a module under another name": ("x = under.bottom()", "x", {("deep.below", "bottom")}),
    "a module in a module": ("from maieutic import deep\nx = deep.below", "x", {("deep.below", WHOLE_MODULE)}),
    "a name in a module that has submodules": ("from maieutic import deep\nx = deep.other", "x", {("deep", "other")}),
    "a module that is passed on": ("x = f(tools)", "x", {("tools", WHOLE_MODULE)}),
    "a module that is passed on and asked": ("x = tools.A + f(under)", "x", {("tools", "A"), ("deep.below", WHOLE_MODULE)}),
    "other libraries": ("x = os.path, dumps(1)", "x", set()),
    "a name of its own": ("y = 1\nx = y", "x", {("here", "y")}),
    "a local name of that spelling": ("def x(y):\n    return y", "x", set()),
    "several statements": ("x = HOME\nx += bottom", "x", {("", "HOME"), ("deep.below", "bottom"), ("here", "x")}),
    "an annotated one": ("x: int = HOME", "x", {("", "HOME")}),
    "an annotation of a value": ("x: bottom = 1", "x", {("deep.below", "bottom")}),
    "two at once": ("x, y = HOME, 1", "y", {("", "HOME"), ("here", "x"), ("here", "y")}),
    "an entry of a table": ("x = {}\nx['a'] = bottom", "x", {("deep.below", "bottom"), ("here", "x")}),
    "a function's annotations": ("def x(a: bottom, *b: bottom, c: bottom) -> bottom:\n    return 1", "x", set()),
    "its defaults and decorators": ("@bottom\ndef x(a=HOME): ...", "x", {("deep.below", "bottom"), ("", "HOME")}),
    "an async function": ("async def x():\n    return HOME", "x", {("", "HOME")}),
    "a class": ("class x(summit):\n    a: bottom", "x", {("deep.below", "top"), ("deep.below", "bottom")}),
    "a late import": ("def x():\n    from maieutic.deep.below import late\n    return late", "x", {("deep.below", "late")}),
    "a late import of a module": ("def x():\n    from maieutic import deep\n    return deep.a", "x", {("deep", "a")}),
    "a late import elsewhere": ("def y():\n    from maieutic.deep import late\ndef x():\n    return late", "x", set()),
    "what benchmarks plug in": ("x = plugin_objects('planning', 'PLAN')", "x", {
        ("core.plugins", "plugin_objects"), ("benchmarks.mrbench.planning", "PLAN"), ("benchmarks.kmpbench.planning", "PLAN"),
    }),
    "what they plug in together": ("x = merged_plugin_tables('planning', 'PLAN')", "x", {
        ("core.plugins", "merged_plugin_tables"), ("benchmarks.mrbench.planning", "PLAN"), ("benchmarks.kmpbench.planning", "PLAN"),
    }),
    "a function of that name": ("def parts(a, b): ...\nx = tools.parts('planning', 'PLAN')", "x", {("tools", "parts")}),
    "what the module does besides": ("print(HOME)", "", {("", "HOME")}),
    "a condition at import": ("if HOME:\n    y = bottom", "", {("", "HOME"), ("deep.below", "bottom")}),
    "what it passes on": ("", "summit", {("deep.below", "top")}),
    "a module that it passes on": ("", "under", {("deep.below", WHOLE_MODULE)}),
}  # fmt: skip


@pytest.mark.parametrize(("text", "name", "uses"), USES.values(), ids=USES.keys())
def test_what_a_definition_names_of_the_package(text: str, name: str, uses: set[tuple[str, str]]) -> None:
    defined = definitions_of("here", IMPORTS + text, MODULES.__contains__)
    own = {("here", name)}  # what is assigned is named too
    assert {tuple(use) for use in defined[name].uses} - own == uses - own


def test_what_is_for_type_checkers_and_for_a_main_module_defines_nothing() -> None:
    text = "if TYPE_CHECKING:\n    from maieutic.gone import x\nif __name__ == '__main__':\n    y = 1\npass\n"
    assert definitions_of("here", text, MODULES.__contains__) == {}
    assert set(definitions_of("here", "if True:\n    y = 1\nx = 1\nclass A: ...\n", MODULES.__contains__)) == {
        "",
        "x",
        "A",
    }


def test_the_classes_that_arguments_are_read_as_are_named() -> None:
    """Of every kind of argument; a class and a value have none."""
    text = (
        "def x(a: tools.A, /, b: summit, *, c: 'list[str]', d: bottom = 1, e=2, f: K) -> HOME: ...\n"
        "z: bottom = 1\nclass K: ...\n"
    )
    defined = definitions_of("here", IMPORTS + text, MODULES.__contains__)
    assert {tuple(one) for one in defined["x"].arguments} == {
        ("tools", "A"),
        ("deep.below", "top"),
        ("deep.below", "bottom"),
        ("here", "K"),
    }
    assert defined["z"].arguments == defined["summit"].arguments == frozenset()
    one = PackageCode({"here": IMPORTS + text, **dict.fromkeys(MODULES, "")}.get)
    named = [("deep.below", "bottom"), ("deep.below", "top"), ("here", "K"), ("tools", "A")]
    assert one.arguments(Name("here", "x")) == named
    for gone in (Name("here", "y"), Name("nowhere", "x")):
        with pytest.raises(LookupError, match=rf"maieutic\.{gone.module} has no {gone.name}"):
            one.arguments(gone)


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("\nimport maieutic", "line 2: write `from maieutic... import ...`"), ("import os, maieutic.tools", "line 1: write"),
        ("from .. import tools", "line 1: expected an absolute import, found a relative one"), ("from maieutic import *", "line 1: import names instead of *"),
        ("from maieutic.core.plugins import plugin_objects\nx = plugin_objects(name, 'A')", "line 2: pass the module and the object of a plug-in as constants"),
        ("def x():\n    from maieutic.tools import *", "line 2: import names"),
    ],
)  # fmt: skip
def test_what_cannot_be_followed_is_named_by_its_line(text: str, line: str) -> None:
    with pytest.raises(ValueError, match="^" + re.escape(line)):
        definitions_of("here", text, MODULES.__contains__)


@pytest.mark.parametrize("text", ["import maieuticum", "from maieuticum import x", "from json import *", "import os"])
def test_other_libraries_are_not_followed(text: str) -> None:
    assert definitions_of("here", text, MODULES.__contains__) == {}


@pytest.mark.parametrize(
    ("before", "after", "same"),
    [
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
    ],
)  # fmt: skip
def test_words_for_people_are_no_syntax(before: str, after: str, same: bool) -> None:
    assert (ast.dump(without_docstrings(ast.parse(before))) == ast.dump(without_docstrings(ast.parse(after)))) is same


def package_at(folder: Path, patch: pytest.MonkeyPatch) -> None:
    """The small package as files, where the digests look for theirs; commands are functions of it."""
    texts = {**PACKAGE, "deep": "", "core": "", "core.files": PACKAGE["files"]}
    del texts["files"]
    for name, text in texts.items():
        above = any((other != name and other.startswith(f"{name}.")) or not name for other in texts)
        path = (
            folder.joinpath(*name.split("."), "__init__.py")
            if above
            else folder.joinpath(*name.split(".")).with_suffix(".py")
        )
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    patch.setattr(digest, "HERE", folder)


def test_a_module_is_found_by_its_dotted_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package_at(tmp_path, monkeypatch)
    (tmp_path / "words.py").write_text("# \u00e9\n", encoding="utf-8")
    read_source = digest.source_lookup(digest.package_sources())
    assert read_source("tools") == PACKAGE["tools"] and read_source("deep.below") == PACKAGE["deep.below"]
    assert read_source("deep") == "" and read_source("") == "" and read_source("words") == "# \u00e9\n"
    assert read_source("gone") is None and read_source("deep.gone") is None and read_source("tools.helped") is None
    assert module_names() == sorted(
        ["", "base", "core", "core.files", "deep", "deep.below", "late", "tools", "types", "words", "work"]
    )
    assert set(digest.package_sources()) == {
        "__init__.py", "base.py", "core/__init__.py", "core/files.py", "deep/__init__.py", "deep/below.py", "late.py",
        "tools.py", "types.py", "words.py", "work.py",
    }  # fmt: skip
    assert digest.package_sources()["base.py"] == PACKAGE["base"].encode()


def test_definitions_of_a_small_package_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Written once by the package's checksum, read as they were written, and made anew where the file is damaged."""
    package_at(tmp_path / "package", monkeypatch)
    monkeypatch.setattr(caching, "user_cache_path", lambda name: tmp_path / "cache" / name)
    read = digest.package_code.__wrapped__
    fresh = read()
    [kept] = (tmp_path / "cache" / "maieutic" / "definitions").iterdir()
    assert kept == digest.definitions_cache_file(kept.parent, checksums()) and re.fullmatch(
        "[0-9a-f]{64}.json", kept.name
    )
    names = {name: fresh.module(name) for name in module_names()}
    assert read_kept(kept) == names and names["work"]["run"].uses and names["work"]["run"].arguments == frozenset()
    again = read()
    assert again.modules == names, "nothing is left to be read"
    closure = fresh.closure(ROOT, {})
    assert again.closure(ROOT, {}) == closure and again.digest(closure) == fresh.digest(closure)
    kept.write_text("{", encoding="utf-8")
    assert read().digest(closure) == fresh.digest(closure) and read_kept(kept) == names
    (tmp_path / "package/tools.py").write_text(
        "def helped(given: object) -> str:\n    return ''\nLIMIT = 1\n", encoding="utf-8"
    )
    changed = read()
    assert len(list(kept.parent.iterdir())) == 2 and changed.digest(changed.closure(ROOT, {})) != fresh.digest(closure)
    (tmp_path / "package/tools.py").write_text("from maieutic.base import *\n", encoding="utf-8")
    assert read().modules and len(list(kept.parent.iterdir())) == 2, "one that cannot be followed is not kept"


def test_a_definition_stands_for_those_that_a_job_uses(tmp_path: Path) -> None:
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
    assert {one.name for one in whole if one.module == "tools"} == {
        "LIMIT",
        "TABLE",
        "helped",
        "inner",
        "Kind",
        "unused",
        "Base",
    }
    assert not any(one.name == WHOLE_MODULE for one in whole)
    with pytest.raises(LookupError, match=r"^maieutic\.gone has no \*"):
        code.closure([Name("gone", WHOLE_MODULE)], {})
    assert code.closure([Name(next(iter(NEUTRAL_MODULES)), "anything")], {}) == set(), (
        "what decides nothing is not even read"
    )


def test_a_digest_is_of_each_definition_with_its_place() -> None:
    code = PackageCode({"a": "x = 1\ny = 2\n", "b": "x = 1\n"}.get)
    names = [Name("a", "x"), Name("a", "y"), Name("b", "x")]
    told = [code.digest([one]) for one in names]
    assert len(set(told)) == 3 and all(re.fullmatch("[0-9a-f]{16}", one) for one in told)
    assert code.digest(names) == code.digest(reversed(names)) != code.digest(names[:2])


def test_a_function_is_a_definition_of_its_module() -> None:
    assert digest.as_definition(code_of) == ("plan.digest", "code_of")
    assert digest.as_definition(PackageCode.closure) == ("plan.digest", "PackageCode.closure")


# the package itself ---------------------------------------------------------------------------------------------------


def test_every_rule_depends_on_the_code_of_its_command() -> None:
    """No rule lists files of the package: what it depends on follows from what its command imports."""
    used = set()
    for path in sorted(Path("workflow/rules").glob("*.smk")):
        text = path.read_text(encoding="utf-8")
        for rule, body in re.findall(r"^rule (\w+):\n((?:    .*\n|\n)+)", text, re.MULTILINE):
            if rule in {"fetch", "curate", "questions"}:
                continue
            assert f'code=plan.code_of("{rule}")' in body, rule
            used.add(rule.replace("_", "-"))
        for rule, body in re.findall(r"^use rule (\w+) as \w+ with:\n((?:    .*\n|\n)+)", text, re.MULTILINE):
            assert f'code=plan.code_of("{rule}")' in body, rule
        assert "maieutic/" not in text, path
    assert used <= set(command_functions()) and len(used) > 30


def edited(text: str) -> str:
    """A module's text with one statement more in every function, and another value of every constant."""
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


class Watched(PackageCode):
    """Code that notes which modules are looked at."""

    def __init__(self, source: Source, modules: dict[str, Module | None]) -> None:
        super().__init__(source)
        self.modules, self.looked_at = modules, set[str]()

    def module(self, name: str) -> Module | None:
        self.looked_at.add(name)
        return super().module(name)

    def of(self, function: Name) -> str:
        """The digest of a command's function."""
        return self.digest(self.closure(roots_of(function, self), {}))


PARSED: dict[str, Module | None] = {}


@cache
def unchanged() -> dict[str, tuple[str, set[str]]]:
    """The digest of every command, and the modules that were looked at for it: no other one can change it."""
    codes = {name: Watched(read_source, PARSED) for name in command_functions()}
    return {name: (codes[name].of(function), codes[name].looked_at) for name, function in command_functions().items()}


def digests(**changed: str) -> dict[str, str]:
    """The digest of every command, with other texts of some modules. The others are parsed once for all tests."""
    before = unchanged()
    parsed = {name: one for name, one in PARSED.items() if name not in changed}
    code = Watched(lambda name: changed.get(name, read_source(name)), parsed)
    return {
        name: code.of(function) if before[name][1] & changed.keys() else before[name][0]
        for name, function in command_functions().items()
    }


@pytest.fixture(scope="module")
def now() -> dict[str, str]:
    return digests()


@cache
def users() -> dict[str, set[str]]:
    """By module, the commands whose closure holds one of its definitions."""
    found: dict[str, set[str]] = {}
    for name in command_functions():
        for module in {one.module for one in closure_of(name)}:
            found.setdefault(module, set()).add(name)
    return found


@pytest.mark.slow
@pytest.mark.own_text
@pytest.mark.parametrize("module", module_names())
def test_each_module_decides_the_commands_that_use_it_and_no_other(module: str, now: dict[str, str]) -> None:
    """Every parser silenced once meant "Nothing to be done": the list of files was kept by hand."""
    text = read_source(module)
    assert text is not None
    own = users().get(module, set())
    assert not own or module not in NEUTRAL_MODULES
    after = digests(**{module: edited(text)})
    assert {name for name in now if after[name] != now[name]} == own
    commented = re.sub(r"\n\n\n", "\n\n\n# a comment\n\n\n", text) + "\n# a comment\n"
    assert commented != text and PackageCode({module: commented}.get).module(module) == PackageCode(
        {module: text}.get
    ).module(module)


# Commands that a rule runs: another one re-runs nothing.
RULED = {
    rule.replace("_", "-")
    for path in Path("workflow/rules").glob("*.smk")
    for rule in re.findall(r"^rule (\w+):", path.read_text(encoding="utf-8"), re.MULTILINE)
}


@pytest.mark.own_text
def test_the_table_of_what_reruns_is_true() -> None:
    page = Path("docs/architecture.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `([a-z0-9_/]+)\.py` \| (.*) \|$", page, re.MULTILINE)
    assert len(rows) >= 8
    for path, told in rows:
        module = path.replace("/", ".")
        assert set(told.split(", ")) == users()[module] & RULED, path


@pytest.mark.own_text
def test_a_silenced_parser_rereads_replies_and_asks_nobody(now: dict[str, str]) -> None:
    text = str(read_source("graders.parsing"))
    silent = text.replace('        return [Reading(None, None, "", refused)]\n', "        return []\n", 1)
    silent = re.sub(r"(def read_reply\(.*\n    \"\"\".*\"\"\"\n)", r"\1    return []\n", text)
    assert silent != text
    after = digests(**{"graders.parsing": silent})
    for_people = {"check-graders", "share", "verify"}  # they do every such step again, in no rule
    assert {name for name in now if after[name] != now[name]} == {"parse-replies", *for_people}


# The dear steps by all that decides them: an import more is seen in review. Printed by `maieutic.plan.digest.closure_of`.
DEAR = {
    "train-reward-model": {
        "serving.conversations", "datasets.sampling", "config.models", "core.paths", "core.records", "rewards.checkpoints",
        "rewards.loading", "rewards.training", "serving.weights",
    },
    "score-rewards": {
        "serving.conversations", "config.models", "core.paths", "core.records", "rewards.adapters", "rewards.loading", "rewards.scorer",
        "rewards.scoring", "rewards.prefix_sharing", "serving.weights",
    },
    "generate-replies": {
        "serving.backends", "replies.baselines", "benchmarks.kmpbench.baselines", "benchmarks.kmpbench.answer_formats",
        "benchmarks.tutorbench.baselines", "config.cards", "core.yaml_files", "serving.answers", "serving.client", "serving.refusals", "serving.responses", "replies.generate", "config.models", "config.thinking", "serving.pictures", "config.prompts", "core.paths", "core.records",
        "replies.sentences", "core.thinking", "serving.weights",
    },
    "generate-all-replies": {
        "serving.backends", "config.cards", "core.yaml_files", "serving.answers", "serving.client", "serving.refusals", "serving.responses",
        "replies.generate", "replies.packed", "config.models", "config.thinking", "serving.pictures", "config.prompts", "core.paths",
        "core.records", "core.thinking", "serving.weights",
    },
    "tune-tutor": {
        "config.curation", "config.models", "core.parent_process", "curation.encoding", "curation.processes",
        "curation.training", "curation.tuning", "replies.generate", "rewards.checkpoints", "rewards.loading",
        "rewards.training", "serving.weights",
    },
    "make-components": {
        "config.curation", "config.models", "config.thinking", "config.prompts", "core.yaml_files", "core.paths", "core.records", "core.thinking",
        "curation.components", "curation.stage_runner", "curation.parsers", "curation.pipeline", "curation.records", "curation.rules",
        "curation.standards", "curation.texts", "curation.dialogues", "graders.answers", "graders.choices", "core.json_text", "core.options", "graders.number_words", "graders.numerals", "graders.passages", "graders.reading",
        "replies.generate", "serving.answers", "serving.backends", "serving.client", "serving.pictures", "serving.refusals", "serving.responses", "serving.weights",
    },
}  # fmt: skip


@pytest.mark.own_text
@pytest.mark.parametrize("command", DEAR)
def test_dear_steps_depend_on_little(command: str) -> None:
    assert {one.module for one in closure_of(command)} == DEAR[command]
    # Of the paths only where templates and cards lie: a new output of another rule trains and asks nothing again.
    of_paths = {one.name for one in closure_of(command) if one.module == "core.paths"}
    assert of_paths == ({"HOME", "RESOURCES"} if "core.paths" in DEAR[command] else set())


@pytest.mark.own_text
def test_a_new_field_of_a_card_or_of_a_judge_trains_nothing_again(now: dict[str, str]) -> None:
    classes = r"(class (?:Card|Metric|JudgeModel|HostedModel|Grade|Score)\(.*\):\n)"
    texts = {name: str(read_source(name)) for name in ("config.cards", "config.models", "core.records")}
    after = digests(**{name: re.sub(classes, r"\1    new: int = 0\n", text) for name, text in texts.items()})
    changed = {name for name in now if after[name] != now[name]}
    assert "generate-replies" in changed and "judge-replies" in changed
    assert changed.isdisjoint({"train-reward-model", "train-criteria", "score-pairs", "prepare-weights"})


def test_a_job_depends_on_the_loader_that_it_uses() -> None:
    def of(loader: str) -> set[Name]:
        part = {
            Name("datasets.registry", "LOADERS"): [
                digest.as_definition(LOADERS[loader].load),
                Name("datasets.loaders", "Loader"),
            ]
        }
        return closure_of("make-items", part)

    assert Name("datasets.gsm8k", "gsm8k_items") in of("gsm8k_solving")
    assert not any(one.module in {"datasets.tutorbench", "datasets.kmp"} for one in of("gsm8k_solving"))
    assert any(one.module == "datasets.gsm8k" for one in of("mathchat_fqa")), "it makes MathChat's first question"
    for name in LOADERS:
        assert digest.as_definition(LOADERS[name].load) in of(name)
    sources = [digest.as_definition(one.load) for one in PAIR_SOURCES.values()]
    assert set(sources) <= closure_of("make-pairs")


def test_templates_and_style_sheets_join_by_name(tmp_path: Path) -> None:
    style = tmp_path / "page.css"
    style.write_text("a")
    before = code_of("build-report", files=[style])
    style.write_text("b")
    assert code_of("build-report", files=[style]) != before != code_of("build-report")


@pytest.mark.slow
@pytest.mark.own_text
def test_definitions_are_read_once_and_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that finds them reads no syntax, and has the digests of one that did; a damaged file is none."""
    monkeypatch.setattr(caching, "user_cache_path", lambda name: tmp_path / name)
    read = digest.package_code.__wrapped__
    fresh = read()
    [kept] = (tmp_path / "maieutic/definitions").glob("*.json")
    text = kept.read_text(encoding="utf-8")

    def unread(name: str) -> str:
        raise AssertionError(f"{name} was read again")

    with monkeypatch.context() as patch:
        patch.setattr(digest, "definitions_of", unread)
        again = read()
    for function in command_functions().values():
        closure = fresh.closure(roots_of(function, fresh), {})
        assert again.closure(roots_of(function, again), {}) == closure
        assert again.digest(closure) == fresh.digest(closure)
    for damaged in ("", "[]", '{"": 1}', text.replace("]", "", 1), text[:1000]):
        kept.write_text(damaged, encoding="utf-8")
        with pytest.raises(digest.CACHE_ERRORS):
            read_kept(kept)
    assert read().modules.keys() >= {"core.stats"} and kept.read_text(encoding="utf-8") == text
    kept.unlink()
    kept.parent.rmdir()
    kept.parent.write_text("no folder")
    digest.write_definitions(fresh, kept, checksums())
    assert kept.parent.read_text() == "no folder"


def test_after_an_edit_only_what_it_concerns_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A module is read again whose text is another; all are, where there is a module more or another reader."""
    package_at(tmp_path / "package", monkeypatch)
    monkeypatch.setattr(caching, "user_cache_path", lambda name: tmp_path / "cache" / name)
    read, own, seen = digest.package_code.__wrapped__, digest.definitions_of, []

    def noted(name: str, *more: Any) -> Any:
        seen.append(name)
        return own(name, *more)

    def read_now() -> set[str]:
        seen.clear()
        code = read()
        was_read = set(seen)
        anew = PackageCode(digest.source_lookup(digest.package_sources()))
        assert {name: code.module(name) for name in module_names()} == {
            name: anew.module(name) for name in module_names()
        }
        assert read_kept(at()) == code.modules, "all of it is kept"
        return was_read

    def at() -> Path:
        return digest.definitions_cache_file(tmp_path / "cache/maieutic/definitions", checksums())

    monkeypatch.setattr(digest, "definitions_of", noted)
    everything = set(module_names())
    assert read_now() == everything and read_now() == set()
    tools = tmp_path / "package/tools.py"
    tools.write_text(tools.read_text(encoding="utf-8") + "MORE = 1\n", encoding="utf-8")
    assert read_now() == {"tools"}
    assert digest.package_code.__wrapped__().module("tools")["MORE"].syntax
    (tmp_path / "package/more.py").write_text("", encoding="utf-8")
    assert read_now() == everything | {"more"}, "what a name means can be another module now"
    at().write_text("[]", encoding="utf-8")
    assert read_now() == everything | {"more"}
    (tmp_path / "package/plan").mkdir()
    (tmp_path / "package/plan/syntax.py").write_text("", encoding="utf-8")
    assert read_now() == set(module_names())
    (tmp_path / "package/plan/syntax.py").write_text("# another reader", encoding="utf-8")
    assert read_now() == set(module_names())
    (tmp_path / "package/plan/digest.py").write_text("# another form of what is kept", encoding="utf-8")
    assert read_now() == set(module_names())
    for name, value in (("BENCHMARKS", ("new",)), ("EXTENSIONS", ("newer",))):
        monkeypatch.setattr(digest, name, value)
        assert not at().exists(), "another version, though the sources are the same"
        assert read_now() == set(module_names()), "what is plugged in is part of what a name means"
    monkeypatch.setattr("sys.version", "3.99")
    assert read_now() == set(module_names())


def test_a_file_that_is_saved_meanwhile_spoils_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is kept under a module's checksum was read from the text of that checksum."""
    package_at(tmp_path / "package", monkeypatch)
    monkeypatch.setattr(caching, "user_cache_path", lambda name: tmp_path / "cache" / name)
    tools, own = tmp_path / "package/tools.py", digest.module_checksums
    text = tools.read_text(encoding="utf-8")

    def saved_meanwhile(sources: Any) -> dict[str, str]:
        tools.write_text(text + "MEANWHILE = 1\n", encoding="utf-8")
        return own(sources)

    with monkeypatch.context() as patch:
        patch.setattr(digest, "module_checksums", saved_meanwhile)
        assert "MEANWHILE" not in digest.package_code.__wrapped__().module("tools")
    assert "MEANWHILE" in digest.package_code.__wrapped__().module("tools")
    tools.write_text(text, encoding="utf-8")
    assert "MEANWHILE" not in digest.package_code.__wrapped__().module("tools")


def test_definitions_of_another_text_or_python_are_others(monkeypatch: pytest.MonkeyPatch) -> None:
    sources = {"a.py": b"x = 1", "b.py": b""}

    def kept_of(texts: dict[str, bytes]) -> Path:
        return digest.definitions_cache_file(Path(), digest.module_checksums(texts))

    checksums = {kept_of(sources), kept_of({"a.py": b"x = 2", "b.py": b""})}
    checksums |= {kept_of({"a.py": b"", "b.py": b"x = 1"}), kept_of({"c.py": b"x = 1", "b.py": b""})}
    monkeypatch.setattr("sys.version", "3.99")
    assert len(checksums | {kept_of(sources)}) == 5


def test_definitions_are_kept_by_their_modules_in_whatever_order(tmp_path: Path) -> None:
    here = {"a": "1", "b": "2"}
    assert digest.definitions_cache_file(tmp_path, here) == digest.definitions_cache_file(
        tmp_path, dict(reversed(here.items()))
    )
    assert {len(one) for one in digest.module_checksums({"a.py": b"x = 1"}).values()} == {16}


SMALL = {"jobs": "class Job: ...\n", "run": "from maieutic.jobs import Job\n\ndef run(job: Job) -> None: ...\n"}


def test_what_is_kept_is_what_was_read(tmp_path: Path) -> None:
    """With what the arguments of functions name; a newer file that is none of definitions does not matter."""
    code, checksums = PackageCode(SMALL.get), {"jobs": "1", "run": "2"}
    digest.write_definitions(code, tmp_path / "kept.json", checksums)
    assert code.arguments(Name("run", "run")) == [Name("jobs", "Job")]
    (tmp_path / "newer.txt").write_text("{", encoding="utf-8")
    os.utime(tmp_path / "kept.json", (1, 1))
    assert digest.read_definitions(tmp_path / "kept.json", checksums) == code.modules
    assert digest.unchanged_definitions(tmp_path, checksums) == code.modules
    (tmp_path / "no folder").write_text("", encoding="utf-8")
    digest.write_definitions(code, tmp_path / "no folder/kept.json", checksums)


def test_old_definitions_are_forgotten(tmp_path: Path) -> None:
    for number in range(6):
        (tmp_path / f"{number}.json").write_text("{}")
        os.utime(tmp_path / f"{number}.json", (number, number))
    (tmp_path / "of somebody else").write_text("")
    os.utime(tmp_path / "of somebody else", (0, 0))
    digest.write_definitions(digest.package_code(), tmp_path / "new.json", checksums())
    left = ["3.json", "4.json", "5.json", "new.json", "of somebody else"]
    assert sorted(path.name for path in tmp_path.iterdir()) == left


def test_what_is_neutral_is_there_and_says_why() -> None:
    assert all(read_source(name) is not None and len(why) > 10 for name, why in NEUTRAL_MODULES.items())
    assert Name("x", WHOLE_MODULE) != Name("x", "")


def test_a_digest_of_code_has_16_digits() -> None:
    assert re.fullmatch("[0-9a-f]{16}", digest.code_of("score-replies"))
