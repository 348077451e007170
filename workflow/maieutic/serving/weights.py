"""Preparation of a model's weights: safetensors on disk with a manifest, from any source.

Heavy libraries are imported inside the functions, because only the serving environment has them.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from maieutic.core.errors import UserError
from maieutic.core.files import atomic_file, sha256_of

MANIFEST = "manifest.json"
SOURCE = ".source"
WEIGHT_SUFFIXES = {".safetensors", ".json", ".jinja", ".model", ".txt"}


def has_chat_template(folder: Path) -> bool:
    """Return True if weights in a folder have a chat template, in a separate file or in the tokenizer's settings.

    Mistral's tokenizer (tekken.json) always includes one.
    """
    if any((folder / name).is_file() for name in ("chat_template.jinja", "chat_template.json", "tekken.json")):
        return True
    settings = folder / "tokenizer_config.json"
    return settings.is_file() and '"chat_template"' in settings.read_text(encoding="utf-8", errors="replace")


def prepare_weights_folder(out: Path, source: str, resumable: bool) -> None:
    """Empty a folder, so that it never mixes files of two sources. Keep an interrupted download of the same source.

    source: description of the source; resumable: True if a download from the source can be resumed.
    """
    mark = out / SOURCE
    if not resumable or not mark.is_file() or mark.read_text(encoding="utf-8") != source:
        shutil.rmtree(out, ignore_errors=True)
        out.mkdir(parents=True)
        mark.write_text(source, encoding="utf-8")


def link_folder(name: str, source: Path, out: Path) -> None:
    """Link the files of a folder with safetensors that is already on disk."""
    if not list(source.glob("*.safetensors")):
        raise UserError(
            f"models.{name}.weights.path", f"{source} contains no *.safetensors", "choose a folder with safetensors"
        )
    for file in source.iterdir():
        if file.suffix in WEIGHT_SUFFIXES:
            link = out / file.name
            link.unlink(missing_ok=True)
            link.symlink_to(file.resolve())


def write_manifest(name: str, out: Path) -> None:
    """Write the manifest, which contains the SHA-256 of every file. Request keys contain these checksums."""
    files = {
        file.name: sha256_of(file)
        for file in sorted(out.iterdir())
        if file.is_file() and file.name not in {MANIFEST, SOURCE}
    }
    if not any(file.endswith(".safetensors") for file in files):
        raise UserError(
            f"models.{name}.weights", "the source contains no safetensors", "choose a revision with safetensors"
        )
    with atomic_file(out / MANIFEST) as handle:
        json.dump({"model": name, "files": files}, handle, indent=1, sort_keys=True)
