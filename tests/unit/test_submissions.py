"""Tests of predictions in the shared task's submission form: a JSON list of dialogues, labels in any letter case."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from maieutic.benchmarks.mrbench.predictions import read_rows, release_spelling
from maieutic.core.errors import UserError


def test_the_submission_form_is_read(tmp_path: Path) -> None:
    path = tmp_path / "predictions.json"
    dialogue = {
        "conversation_id": "1",
        "tutor_responses": {"T1": {"response": "Hi", "annotation": {"Actionability": "yes"}}, "T2": {"response": "x"}},
    }
    path.write_text(json.dumps([dialogue], indent=2), encoding="utf-8-sig")
    rows = [(row.conversation_id, row.tutor, row.pred) for _, row in read_rows(path)]
    assert rows == [("1", "T1", {"Actionability": "yes"}), ("1", "T2", None)]
    path.write_text(json.dumps([{"conversation_id": "1"}]))
    with pytest.raises(UserError, match="expected the shared task's submission form, found a fault: KeyError"):
        read_rows(path)


@pytest.mark.parametrize(("written", "label"), [
    ("yes", "Yes"), (" To Some Extent ", "To some extent"), ("No", "No"), ("maybe", "maybe"), (None, None),
])  # fmt: skip
def test_a_label_is_known_in_any_case(written: str | None, label: str | None) -> None:
    assert release_spelling(written, ("Yes", "To some extent", "No")) == label


@pytest.mark.parametrize(
    "text", ["[" * 100_000 + "]" * 100_000, '{"a":' * 100_000 + "1" + "}" * 100_000], ids=["submission", "lines"]
)
def test_deeply_nested_predictions_give_a_short_error(text: str, tmp_path: Path) -> None:
    (tmp_path / "deep.json").write_text(text)
    with pytest.raises(UserError, match="values are nested too deeply to be parsed") as error:
        read_rows(tmp_path / "deep.json")
    assert len(error.value.line) < 500
