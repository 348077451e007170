"""Check the patterns of unclear English that a program can find; `make check` runs it.

It covers docstrings, comments, names and messages of the package, the benchmark scripts and the tests, and the Markdown
pages. Other strings of tests are data, which may contain anything. It prints one line per finding and exits with 1 if there
is any. CONTRIBUTING.md, "English", states the rules; most of them need a reader.
"""

from __future__ import annotations

import ast
import inspect
import re
import sys
import tokenize
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from pages import blocks

ROOT = Path(__file__).parents[1]
PACKAGE, BENCH, TESTS = ROOT / "workflow/maieutic", ROOT / "bench", ROOT / "tests"
PAGES = [
    ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "SECURITY.md", ROOT / "config/README.md",
    *ROOT.glob("docs/*.md"), *ROOT.glob("bench/*.md"),
]  # fmt: skip
MOST_WORDS_IN_A_CELL = 25
MOST_WORDS_IN_A_PARAGRAPH = 80
# A docstring starts with a verb in the imperative or with a noun phrase.
OPENING = re.compile(r"(?:What|Whether|Which|Who|Whose|Where|How|It|Them|Those|Of|By)\b")
# Programs do not speak, and pronouns hide the subject.
PERSONS = re.compile(
    r"\b(?:[Ss]ays|[Ss]aid|[Tt]ells|[Tt]old|[Nn]obody|[Ss]omebody|[Aa]nybody|(?:is|are) none|[Oo]ne's own)\b"
)
# Names of variables and parameters that do not name their value.
VAGUE = {"one", "found", "said", "asked", "told", "shown", "wanted", "own", "loadeds", "given", "drawn"}
# Messages are string constants of at least this many words.
FEWEST_WORDS_OF_A_MESSAGE = 4


class Finding(NamedTuple):
    """One place with an unclear pattern. path: relative to the repository; line: 1-based."""

    path: Path
    line: int
    problem: str


def quoted_removed(text: str) -> str:
    """Return a text without its quotations, which may contain anything: `code`, "quotes" and 'quotes'."""
    return re.sub(r"`[^`]*`|\"[^\"]*\"|(?<!\w)'[^'\n]*'(?!\w)", "...", text)


def docstrings_of(tree: ast.Module) -> Iterator[ast.Constant]:
    """Yield the docstrings of a module, its classes and its functions."""
    for node in ast.walk(tree):
        is_documented = isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef))
        if is_documented and ast.get_docstring(node) is not None:
            yield node.body[0].value


def docstring_findings(path: Path, tree: ast.Module) -> Iterator[Finding]:
    """Yield the findings of a module's docstrings."""
    for node in docstrings_of(tree):
        text = inspect.cleandoc(node.value)
        if OPENING.match(text):
            problem = f"the docstring opens with {text.split()[0]!r}: start with a verb or a noun"
            yield Finding(path, node.lineno, problem)
        if word := PERSONS.search(quoted_removed(text)):
            yield Finding(path, node.lineno, f"the docstring contains {word[0]!r}")


def comment_findings(path: Path) -> Iterator[Finding]:
    """Yield the findings of a module's comments."""
    with open(path, encoding="utf-8") as handle:
        for token in tokenize.generate_tokens(handle.readline):
            if token.type == tokenize.COMMENT and (word := PERSONS.search(quoted_removed(token.string))):
                yield Finding(path, token.start[0], f"the comment contains {word[0]!r}")


def strings_in(tree: ast.AST) -> Iterator[ast.Constant]:
    """Yield the string constants of a syntax tree, parts of f-strings included."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node


def message_findings(path: Path, tree: ast.Module) -> Iterator[Finding]:
    """Yield the findings of a module's messages: its longer string constants, docstrings left out."""
    docstrings = set(map(id, docstrings_of(tree)))
    for node in strings_in(tree):
        # A backslash marks a regular expression, which matches other people's words.
        is_message = len(node.value.split()) >= FEWEST_WORDS_OF_A_MESSAGE and "\\" not in node.value
        if is_message and id(node) not in docstrings and (word := PERSONS.search(quoted_removed(node.value))):
            yield Finding(path, node.lineno, f"the message contains {word[0]!r}")


def assertion_findings(path: Path, tree: ast.Module) -> Iterator[Finding]:
    """Yield the findings of the messages of a test file's assertions."""
    messages = [node.msg for node in ast.walk(tree) if isinstance(node, ast.Assert) and node.msg is not None]
    for node in [node for message in messages for node in strings_in(message)]:
        if word := PERSONS.search(quoted_removed(node.value)):
            yield Finding(path, node.lineno, f"the message contains {word[0]!r}")


def name_findings(path: Path, tree: ast.Module) -> Iterator[Finding]:
    """Yield the variables and parameters of a module whose names do not name their value.

    Fields of classes are left out: many of them are keys of files or of the configuration.
    """
    fields = {
        id(field.target)
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef)
        for field in node.body
        if isinstance(field, ast.AnnAssign)
    }
    for node in ast.walk(tree):
        if id(node) in fields:
            continue
        name = node.arg if isinstance(node, ast.arg) else ""
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            name = node.id
        if name in VAGUE:
            yield Finding(path, getattr(node, "lineno", 0), f"name {name!r}: name the value instead")


def page_findings(path: Path) -> Iterator[Finding]:
    """Yield the findings of a Markdown page, code left out."""
    text, fenced = path.read_text(encoding="utf-8"), False
    for number, line in enumerate(text.split("\n"), 1):
        if line.startswith("```"):
            fenced = not fenced
        if fenced:
            continue
        if word := PERSONS.search(quoted_removed(line)):
            yield Finding(path, number, f"the text contains {word[0]!r}")
        longest = max(len(cell.split()) for cell in line.split("|")) if line.startswith("|") else 0
        if longest > MOST_WORDS_IN_A_CELL:
            yield Finding(path, number, f"a cell of {longest} words: at most {MOST_WORDS_IN_A_CELL}")
    for block in blocks(text) if path.name == "README.md" else ():
        words = 0 if block.startswith("|") else len(block.split())
        if words > MOST_WORDS_IN_A_PARAGRAPH:
            start = text[: text.find(" ".join(block.split()[:3]))].count("\n") + 1
            yield Finding(path, start, f"a paragraph of {words} words: at most {MOST_WORDS_IN_A_PARAGRAPH}")


def findings() -> Iterator[Finding]:
    """Yield all findings of the package, the benchmark scripts, the tests and the pages."""
    for path in sorted(path for folder in (PACKAGE, BENCH, TESTS) for path in folder.rglob("*.py")):
        if "vendor" in path.parts:
            continue
        tree = ast.parse(path.read_text(encoding="utf-8"))
        yield from docstring_findings(path, tree)
        yield from comment_findings(path)
        yield from (assertion_findings if TESTS in path.parents else message_findings)(path, tree)
        yield from name_findings(path, tree)
    for path in PAGES:
        yield from page_findings(path)


def main() -> int:
    """Print all findings; return 1 if there is any."""
    every = list(findings())
    for finding in every:
        print(f"{finding.path.relative_to(ROOT)}:{finding.line}: {finding.problem}")
    return int(bool(every))


if __name__ == "__main__":
    sys.exit(main())
