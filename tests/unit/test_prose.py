"""Tests of the check of English: each pattern is found, and similar clear texts are not reported."""

from __future__ import annotations

import ast
from pathlib import Path

import prose
import pytest
from prose import (
    TESTS,
    Finding,
    assertion_findings,
    comment_findings,
    docstring_findings,
    message_findings,
    name_findings,
    page_findings,
)

WORDS = " ".join(["word"] * 90)
MODULES = {
    "a free relative": ('def f():\n    """What a job needs."""', ["the docstring opens with 'What'"]),
    "an imperative": ('def f():\n    """Return the needs of a job."""', []),
    "a program that speaks": ('class A:\n    """Answer. None if the server says nothing."""', ["the docstring contains 'says'"]),
    "a quotation": ('def f():\n    """Return the value of `told`, or "nobody"."""', []),
    "None as a value": ('def f():\n    """Return None if both are None."""', []),
    "a comment": ("x = 1  # of what people said", ["the comment contains 'said'"]),
    "a message": ('raise ValueError("nobody has labelled this tutor")', ["the message contains 'nobody'"]),
    "a word of data": ('WORDS = {"said", "told"}', []),
    "a regular expression": (r'P = r"he said that|all told in the\s+end"', []),
    "a vague variable": ("def f(given):\n    found = given", ["name 'given'", "name 'found'"]),
    "a field of a file": ("class A:\n    asked: int = 0", []),
}  # fmt: skip


@pytest.mark.parametrize("name", MODULES)
def test_patterns_of_a_module(name: str, tmp_path: Path) -> None:
    text, expected = MODULES[name]
    path = tmp_path / "module.py"
    path.write_text(text + "\n", encoding="utf-8")
    tree = ast.parse(text)
    findings: list[Finding] = [
        *docstring_findings(path, tree), *comment_findings(path), *message_findings(path, tree),
        *name_findings(path, tree),
    ]  # fmt: skip
    problems = sorted(finding.problem for finding in findings)
    assert len(problems) == len(expected)
    assert all(problem.startswith(start) for problem, start in zip(problems, sorted(expected), strict=True))


ASSERTIONS = {
    "a message": ('assert x, "nobody was told"', ["the message contains 'nobody'"]),
    "parts of a message": ('assert x, f"{a} says {b}"', ["the message contains 'says'"]),
    "data": ('assert "what the teacher said to her" in text, done.stdout', []),
    "a quotation": ("assert x, f\"'he said so' is in {text}\"", []),
}


@pytest.mark.parametrize("name", ASSERTIONS)
def test_only_the_assertion_messages_of_tests_are_checked(name: str) -> None:
    text, expected = ASSERTIONS[name]
    assert [finding.problem for finding in assertion_findings(TESTS / "test_a.py", ast.parse(text))] == expected


def test_tests_and_scripts_are_covered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Strings of scripts are messages; strings of tests are data."""
    for folder in ("PACKAGE", "BENCH", "TESTS"):
        (tmp_path / folder / "unit").mkdir(parents=True)
        text = 'found = "what a reply says may be data"'
        (tmp_path / folder / "unit/a.py").write_text(text, encoding="utf-8")
        monkeypatch.setattr(prose, folder, tmp_path / folder)
    monkeypatch.setattr(prose, "PAGES", [])
    problems = [(finding.path.parts[-3], finding.problem.split(":")[0]) for finding in prose.findings()]
    assert problems == [
        ("BENCH", "the message contains 'says'"), ("BENCH", "name 'found'"),
        ("PACKAGE", "the message contains 'says'"), ("PACKAGE", "name 'found'"),
        ("TESTS", "name 'found'"),
    ]  # fmt: skip


PAGES = {
    "a person": ("# Head\n\nThe page says it.", [(3, "the text contains 'says'")]),
    "code": ("```sh\necho nobody\n```\nText.", []),
    "a long cell": (f"| a |\n| --- |\n| {WORDS} |", [(3, "a cell of 90 words: at most 25")]),
    "a long paragraph": (f"# Head\n\nFirst of {WORDS}", [(3, "a paragraph of 92 words: at most 80")]),
}


@pytest.mark.parametrize("name", PAGES)
def test_patterns_of_a_page(name: str, tmp_path: Path) -> None:
    text, expected = PAGES[name]
    path = tmp_path / "README.md"
    path.write_text(text + "\n", encoding="utf-8")
    assert [(finding.line, finding.problem) for finding in page_findings(path)] == expected
