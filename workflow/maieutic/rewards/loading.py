"""Base models and reward models as sequence classifiers. Heavy libraries are imported inside the functions."""

from __future__ import annotations

import asyncio
import json
import logging
import os
from pathlib import Path
from typing import Any, NamedTuple

from maieutic.core.errors import UserError

log = logging.getLogger(__name__)
UNLIMITED = 1 << 20  # tokenizers say "no limit" with a huge number


class Machine(NamedTuple):
    """What a job was given: GPUs (the first is used) and CPU threads."""

    gpus: int
    threads: int


def take_device(name: str, machine: Machine, all_gpus: bool = False) -> str:
    """Take the GPU that a job needs, or all, before torch looks for one. Returns the device's name in torch."""
    from maieutic.serving.devices import take_gpus
    from maieutic.serving.inherited import forget_keys
    from maieutic.serving.room import make_room

    if not machine.gpus:
        asyncio.run(make_room(name))
    grant = asyncio.run(take_gpus(name, machine.gpus if all_gpus else min(machine.gpus, 1), os.environ))
    os.environ.update(grant.environment)
    forget_keys()
    import torch

    torch.set_num_threads(machine.threads)
    return "cuda" if machine.gpus else "cpu"


def read_config(folder: Path) -> dict[str, Any]:
    """A model's own config.json."""
    path = folder / "config.json"
    if not path.is_file():
        raise UserError(str(path), "the model has no config.json", "name a folder or repository that has one")
    return json.loads(path.read_text(encoding="utf-8"))


def load_tokenizer(folder: Path, trust_remote_code: bool = False) -> Any:
    """A tokenizer with a pad token. Without one of its own it pads with the end token, else with the unknown one.

    `borrowed_pad` on it says so; None: the pad token is its own.
    """
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(folder, trust_remote_code=trust_remote_code)
    tokenizer.borrowed_pad = None
    if tokenizer.pad_token is None:
        stand_in = tokenizer.eos_token or tokenizer.unk_token
        if stand_in is None:
            raise UserError(str(folder), "the tokenizer has no pad, end or unknown token", "name another base")
        log.info("%s has no pad token: it pads with %r", folder.name, stand_in)
        tokenizer.pad_token = tokenizer.borrowed_pad = stand_in
    tokenizer.padding_side = "right"
    return tokenizer


def context_of(folder: Path, tokenizer: Any, asked: int | None) -> int:
    """The longest conversation in tokens: what the entry says, within what model and tokenizer can take."""
    own = read_config(folder).get("max_position_embeddings") or UNLIMITED
    return min(filter(None, (asked, own, min(tokenizer.model_max_length, UNLIMITED))))


def load_classifier(
    folder: Path,
    tokenizer: Any,
    layers: int | None = None,
    labels: int = 1,
    dtype: str = "float32",
    trust_remote_code: bool = False,
    headed: bool = False,
) -> Any:
    """A sequence classifier from safetensors. A base without a head gets a random one by torch's current seed.

    headed: it must have one. Raises UserError where it has none, or where layers or pad token are not the model's.
    """
    import torch
    from transformers import AutoConfig, AutoModelForSequenceClassification

    config = read_config(folder)
    known, depth = config.get("vocab_size", UNLIMITED), config.get("num_hidden_layers", UNLIMITED)
    if tokenizer.pad_token_id >= known:
        raise UserError(
            str(folder),
            f"the pad token {tokenizer.pad_token!r} has number {tokenizer.pad_token_id}, the model knows {known}",
            "name another base, or give its tokenizer a pad token that the model knows",
        )
    if layers and layers > depth:
        raise UserError(str(folder), f"{layers} layers are asked for, it has {depth}", "lower train.layers")
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
        raise UserError(
            str(folder), f"no weights of {', '.join(missing[:3])}: its scores would be random", "name a reward model"
        )
    # A published head was trained with the model's own pad token: which token is pooled depends on it.
    if not headed or model.config.get_text_config().pad_token_id is None:
        model.config.get_text_config().pad_token_id = tokenizer.pad_token_id
    return model


def check_scalar_head(name: str, folder: Path) -> None:
    """A published reward model gives one number. Raises UserError for one that gives two logits."""
    config = read_config(folder)
    labels = config.get("num_labels") or len(config.get("id2label") or {}) or 2  # transformers' default is two
    if labels != 1:
        raise UserError(
            f"models.{name}.weights", f"a reward model has one output, found {labels}", "name a scalar reward model"
        )
