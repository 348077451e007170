"""Functions that load base and reward models as sequence classifiers. They import heavy libraries when called."""

from __future__ import annotations

import asyncio
import json
import logging
import os
from pathlib import Path
from typing import Any, NamedTuple

from maieutic.core.errors import UserError

log = logging.getLogger(__name__)
UNLIMITED = 1 << 20  # used if a model states no limit of tokens or layers, or if its tokenizer reports a larger limit


class JobDevices(NamedTuple):
    """Numbers of GPUs and CPU threads of a job. Most jobs use only the first GPU."""

    gpus: int
    threads: int


def take_device(name: str, machine: JobDevices, all_gpus: bool = False) -> str:
    """Reserve one or all of a job's GPUs before torch is imported. Returns torch's device name, `cuda` or `cpu`.

    name: name of the model in messages. Without GPUs, the function waits until memory is free.
    """
    from maieutic.serving.devices import lock_gpus
    from maieutic.serving.eviction import wait_for_memory
    from maieutic.serving.run_environment import remove_keys

    if not machine.gpus:
        asyncio.run(wait_for_memory(name))
    grant = asyncio.run(lock_gpus(name, machine.gpus if all_gpus else min(machine.gpus, 1), os.environ))
    os.environ.update(grant.environment)
    remove_keys()
    import torch

    torch.set_num_threads(machine.threads)
    return "cuda" if machine.gpus else "cpu"


def read_model_config(folder: Path) -> dict[str, Any]:
    """Return the content of a model's config.json. Raises UserError if the file does not exist."""
    path = folder / "config.json"
    if not path.is_file():
        raise UserError(str(path), "the model has no config.json", "choose a folder or repository that contains one")
    return json.loads(path.read_text(encoding="utf-8"))


def load_tokenizer(folder: Path, trust_remote_code: bool = False) -> Any:
    """Load a tokenizer. If it has no pad token, padding uses its end token, or else its unknown token.

    The attribute `borrowed_pad` of the result is the token used in place of a pad token, or None. Raises UserError if
    the tokenizer has none of these tokens.
    """
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(folder, trust_remote_code=trust_remote_code)
    tokenizer.borrowed_pad = None
    if tokenizer.pad_token is None:
        stand_in = tokenizer.eos_token or tokenizer.unk_token
        if stand_in is None:
            raise UserError(str(folder), "the tokenizer has no pad, end or unknown token", "choose another model")
        log.info("%s has no pad token; padding uses %r", folder.name, stand_in)
        tokenizer.pad_token = tokenizer.borrowed_pad = stand_in
    tokenizer.padding_side = "right"
    return tokenizer


def context_limit(folder: Path, tokenizer: Any, limit: int | None) -> int:
    """Return the maximum number of tokens of a conversation.

    It is the smallest of the model's limit, the tokenizer's limit and `limit`, if that is set.
    """
    context = read_model_config(folder).get("max_position_embeddings") or UNLIMITED
    return min(filter(None, (limit, context, min(tokenizer.model_max_length, UNLIMITED))))


def load_classifier(
    folder: Path,
    tokenizer: Any,
    layers: int | None = None,
    labels: int = 1,
    dtype: str = "float32",
    trust_remote_code: bool = False,
    headed: bool = False,
) -> Any:
    """Load a sequence classifier from safetensors. A base model without a head gets one with random weights.

    layers: number of layers to load (None: all); labels: number of outputs; headed: True if the weights must contain a
    head. Raises UserError if a required head is missing, if the model has fewer than `layers` layers, or if the pad
    token is not in the model's vocabulary.
    """
    import torch
    from transformers import AutoConfig, AutoModelForSequenceClassification

    config = read_model_config(folder)
    vocabulary, depth = config.get("vocab_size", UNLIMITED), config.get("num_hidden_layers", UNLIMITED)
    if tokenizer.pad_token_id >= vocabulary:
        raise UserError(
            str(folder),
            f"expected a pad token with an id below {vocabulary}, "
            f"found {tokenizer.pad_token!r} with id {tokenizer.pad_token_id}",
            "choose another base, or set the tokenizer's pad token to a token in the model's vocabulary",
        )
    if layers and layers > depth:
        raise UserError(
            str(folder), f"expected a model with at least {layers} layers, found {depth}", "lower train.layers"
        )
    settings = AutoConfig.from_pretrained(folder, num_labels=labels, trust_remote_code=trust_remote_code)
    if layers:
        settings.num_hidden_layers = layers
        if getattr(settings, "layer_types", None):
            settings.layer_types = settings.layer_types[:layers]
    model, loaded = AutoModelForSequenceClassification.from_pretrained(
        folder,
        config=settings,
        dtype=getattr(torch, dtype),
        use_safetensors=True,
        trust_remote_code=trust_remote_code,
        output_loading_info=True,
    )
    if headed and (missing := sorted(loaded["missing_keys"])):
        names = ", ".join(missing[:3])
        raise UserError(
            str(folder),
            f"found no weights for {names}, so scores would be random",
            "choose a model with a trained head",
        )
    # A published model keeps the pad token of its training, because the score is read at the last token before padding.
    if not headed or model.config.get_text_config().pad_token_id is None:
        model.config.get_text_config().pad_token_id = tokenizer.pad_token_id
    return model


def check_scalar_head(name: str, folder: Path) -> None:
    """Raise UserError if a published reward model does not have exactly one output."""
    config = read_model_config(folder)
    labels = config.get("num_labels") or len(config.get("id2label") or {}) or 2  # the default of transformers is two
    if labels != 1:
        raise UserError(
            f"models.{name}.weights",
            f"expected a reward model with one output, found {labels}",
            "choose a reward model with one output",
        )
