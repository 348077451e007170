"""Tests of weights from a local folder: linked files, their checksums, and a change of source."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from maieutic.config.models import Weights
from maieutic.core.errors import UserError
from maieutic.preparation.weights import PrepareWeights, prepare_weights


def weights_folder(path: Path, **files: str) -> Path:
    """Make a folder of files. files: file name, with `__` for the dot, to content."""
    path.mkdir()
    for name, text in files.items():
        (path / name.replace("__", ".")).write_text(text, encoding="utf-8")
    return path


def test_another_source_takes_the_place_of_the_first(tmp_path: Path) -> None:
    first = weights_folder(
        tmp_path / "a", one__safetensors="1", two__safetensors="2", index__json="{}", config__json="A", x__bin="pickle"
    )
    second = weights_folder(tmp_path / "b", model__safetensors="3", config__json="B")
    out = tmp_path / "out"
    prepare_weights(job=PrepareWeights(model="m", weights=Weights(path=str(first))), out=out / "manifest.json")
    manifest = json.loads((out / "manifest.json").read_text(encoding="utf-8"))
    assert set(manifest["files"]) == {"one.safetensors", "two.safetensors", "index.json", "config.json"}, (
        "pickle files are left out"
    )
    before = manifest["files"]["config.json"]
    prepare_weights(job=PrepareWeights(model="m", weights=Weights(path=str(second))), out=out / "manifest.json")
    manifest = json.loads((out / "manifest.json").read_text(encoding="utf-8"))
    assert set(manifest["files"]) == {"model.safetensors", "config.json"}
    assert manifest["files"]["config.json"] != before
    (second / "model.safetensors").unlink()
    (second / "other.safetensors").write_text("4", encoding="utf-8")
    prepare_weights(job=PrepareWeights(model="m", weights=Weights(path=str(second))), out=out / "manifest.json")
    assert sorted(path.name for path in out.glob("*.safetensors")) == ["other.safetensors"], "stale links are removed"
    assert (first / "config.json").read_text(encoding="utf-8") == "A", "the first source is untouched"


def test_a_folder_without_safetensors_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"models\.m\.weights\.path: .* contains no \*\.safetensors"):
        prepare_weights(
            job=PrepareWeights(model="m", weights=Weights(path=str(weights_folder(tmp_path / "a", model__bin="x")))),
            out=tmp_path / "out",
        )
