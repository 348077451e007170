"""What re-runs when code changes: digests of the definitions that a command uses, against small and real packages."""

from __future__ import annotations

import ast
import os
import re
from functools import cache
from pathlib import Path

import pytest
from maieutic.datasets.registry import LOADERS
from maieutic.plan import digest
from maieutic.plan.digest import NEUTRAL, Code, closure_of, code_of, commands, module_names, read_source, roots_of
from maieutic.plan.syntax import ANY, Name
from maieutic.rewards.pairs import PAIR_SOURCES

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
    code = Code({**PACKAGE, **changed}.get)
    return code.digest(code.closure(ROOT, {}))


def test_the_closure_follows_names_through_imports_attributes_bases_and_late_imports() -> None:
    assert {tuple(one) for one in Code(PACKAGE.get).closure(ROOT, {})} == {
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
        ("from . import tools\n", "a relative import"),
        ("import maieutic.tools\n", "write `from maieutic"),
    ],
)
def test_an_import_that_cannot_be_followed_is_refused(text: str, why: str) -> None:
    with pytest.raises(ValueError, match=f"line 1: .*{why}|line 1: {why}"):
        found(work=f"{text}def run() -> None: ...\n")


def test_a_definition_that_is_not_there_is_refused() -> None:
    with pytest.raises(LookupError, match=r"maieutic\.work has no gone"):
        Code(PACKAGE.get).closure([Name("work", "gone")], {})


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
    assert used <= set(commands()) and len(used) > 30


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


PARSED = Code()


def digests(**changed: str) -> dict[str, str]:
    """The digest of every command, with other texts of some modules. The others are parsed once for all tests."""
    code = Code(lambda name: changed.get(name, read_source(name)))
    code.modules = {name: one for name, one in PARSED.modules.items() if name not in changed}
    told = {name: code.digest(code.closure(roots_of(function, code), {})) for name, function in commands().items()}
    PARSED.modules |= {name: one for name, one in code.modules.items() if name not in changed}
    return told


@pytest.fixture(scope="module")
def now() -> dict[str, str]:
    return digests()


@cache
def users() -> dict[str, set[str]]:
    """By module, the commands whose closure holds one of its definitions."""
    found: dict[str, set[str]] = {}
    for name in commands():
        for module in {one.module for one in closure_of(name)}:
            found.setdefault(module, set()).add(name)
    return found


@pytest.mark.own_text
@pytest.mark.parametrize("module", module_names())
def test_each_module_decides_the_commands_that_use_it_and_no_other(module: str, now: dict[str, str]) -> None:
    """Every parser silenced once meant "Nothing to be done": the list of files was kept by hand."""
    text = read_source(module)
    assert text is not None
    own = users().get(module, set())
    assert not own or module not in NEUTRAL
    after = digests(**{module: edited(text)})
    assert {name for name in now if after[name] != now[name]} == own
    commented = re.sub(r"\n\n\n", "\n\n\n# a comment\n\n\n", text) + "\n# a comment\n"
    assert commented != text and Code({module: commented}.get).module(module) == Code({module: text}.get).module(module)


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
    silent = re.sub(r"(def readings_of\(.*\n    \"\"\".*\"\"\"\n)", r"\1    return []\n", text)
    assert silent != text
    after = digests(**{"graders.parsing": silent})
    for_people = {"share", "verify"}  # they do every such step again, in no rule
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
        "serving.backends", "replies.baselines", "benchmarks.kmpbench.baselines", "benchmarks.kmpbench.forms",
        "benchmarks.tutorbench.baselines", "config.cards", "core.documents", "serving.answers", "serving.client", "serving.responses", "replies.generate", "config.models", "serving.pictures", "config.prompts", "core.paths", "core.records",
        "replies.sentences", "core.thinking",
    },
    "generate-all-replies": {
        "serving.backends", "config.cards", "core.documents", "serving.answers", "serving.client", "serving.responses",
        "replies.generate", "replies.packed", "config.models", "serving.pictures", "config.prompts", "core.paths",
        "core.records", "core.thinking",
    },
    "tune-tutor": {
        "config.curation", "config.models", "core.parent", "curation.encoding", "curation.processes",
        "curation.training", "curation.tuning", "replies.generate", "rewards.checkpoints", "rewards.loading",
        "rewards.training", "serving.weights",
    },
    "make-components": {
        "config.curation", "config.models", "config.prompts", "core.documents", "core.paths", "core.records", "core.thinking",
        "curation.components", "curation.crew", "curation.parsers", "curation.pipeline", "curation.records", "curation.rules",
        "curation.standards", "curation.texts", "curation.weaving", "graders.answers", "graders.numerals", "graders.reading",
        "replies.generate", "serving.answers", "serving.backends", "serving.client", "serving.pictures", "serving.responses",
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
                digest.name_of(LOADERS[loader].load),
                Name("datasets.loaders", "Loader"),
            ]
        }
        return closure_of("make-items", part)

    assert Name("datasets.gsm8k", "solving") in of("gsm8k_solving")
    assert not any(one.module in {"datasets.tutorbench", "datasets.kmp"} for one in of("gsm8k_solving"))
    assert any(one.module == "datasets.gsm8k" for one in of("mathchat_fqa")), "it makes MathChat's first question"
    for name in LOADERS:
        assert digest.name_of(LOADERS[name].load) in of(name)
    sources = [digest.name_of(one.load) for one in PAIR_SOURCES.values()]
    assert set(sources) <= closure_of("make-pairs")


def test_templates_and_style_sheets_join_by_name(tmp_path: Path) -> None:
    style = tmp_path / "page.css"
    style.write_text("a")
    before = code_of("build-report", files=[style])
    style.write_text("b")
    assert code_of("build-report", files=[style]) != before != code_of("build-report")


@pytest.mark.own_text
def test_definitions_are_read_once_and_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that finds them reads no syntax, and has the digests of one that did; a damaged file is none."""
    monkeypatch.setattr(digest, "user_cache_path", lambda name: tmp_path / name)
    read = digest.package_code.__wrapped__
    fresh = read()
    [kept] = (tmp_path / "maieutic/definitions").glob("*.json")
    text = kept.read_text(encoding="utf-8")

    def unread(name: str) -> str:
        raise AssertionError(f"{name} was read again")

    with monkeypatch.context() as patch:
        patch.setattr(digest, "definitions_of", unread)
        again = read()
    for function in commands().values():
        closure = fresh.closure(roots_of(function, fresh), {})
        assert again.closure(roots_of(function, again), {}) == closure
        assert again.digest(closure) == fresh.digest(closure)
    for damaged in ("", "[]", '{"": 1}', text.replace("]", "", 1), text[:1000]):
        kept.write_text(damaged, encoding="utf-8")
        with pytest.raises(digest.NO_DEFINITIONS):
            digest.read_definitions(kept)
    assert read().modules.keys() >= {"core.stats"} and kept.read_text(encoding="utf-8") == text
    kept.unlink()
    kept.parent.rmdir()
    kept.parent.write_text("no folder")
    digest.write_definitions(fresh, kept)
    assert kept.parent.read_text() == "no folder"


def test_definitions_of_another_text_or_python_are_others(monkeypatch: pytest.MonkeyPatch) -> None:
    sources = {"a.py": b"x = 1", "b.py": b""}
    checksums = {digest.checksum_of(sources), digest.checksum_of({"a.py": b"x = 2", "b.py": b""})}
    checksums |= {
        digest.checksum_of({"a.py": b"", "b.py": b"x = 1"}),
        digest.checksum_of({"c.py": b"x = 1", "b.py": b""}),
    }
    monkeypatch.setattr("sys.version", "3.99")
    assert len(checksums | {digest.checksum_of(sources)}) == 5


def test_old_definitions_are_forgotten(tmp_path: Path) -> None:
    for number in range(6):
        (tmp_path / f"{number}.json").write_text("{}")
        os.utime(tmp_path / f"{number}.json", (number, number))
    digest.write_definitions(digest.package_code(), tmp_path / "new.json")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["3.json", "4.json", "5.json", "new.json"]


def test_what_is_neutral_is_there_and_says_why() -> None:
    assert all(read_source(name) is not None and len(why) > 10 for name, why in NEUTRAL.items())
    assert Name("x", ANY) != Name("x", "")
