"""The lines of faults that are kept, each of a test that is there."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from kept_faults import KEPT, ROOT, noting
from maieutic.core.errors import UserError


@pytest.mark.parametrize("path", sorted(KEPT.glob("*.json")), ids=lambda path: path.stem)
def test_what_is_kept_is_of_tests_that_are_there(path: Path) -> None:
    name = path.stem
    text = (ROOT / f"tests/unit/{name}.py").read_text(encoding="utf-8")
    there = set(re.findall(r"^def (test_\w+)\(", text, re.MULTILINE))
    kept = json.loads((KEPT / f"{name}.json").read_text(encoding="utf-8"))
    assert {test.partition("[")[0] for test in kept} <= there and all(kept.values())


@pytest.mark.own_faults
def test_a_caught_fault_is_noted_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[str] = []
    with noting(told, monkeypatch):
        with pytest.raises(UserError, match=r"^a: b"):
            raise UserError.of([UserError("a", "b", "c"), UserError("d", "e", "f")])
        with pytest.raises(ValueError, match="x"):
            raise ValueError("x")
        with pytest.raises(AssertionError, match="Regex"), pytest.raises(UserError, match=r"^d"):
            raise UserError("a", "b", "c")
    assert told == ["a: b. Fix: c\nd: e. Fix: f"]
