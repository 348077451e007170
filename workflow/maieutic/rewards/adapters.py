"""Adapters for published reward models that transformers does not provide as sequence classifiers.

An adapter runs code from the pinned commit of the model's repository. Heavy libraries are imported inside functions.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

from maieutic.core.errors import UserError
from maieutic.rewards.loading import read_model_config


class Adapter(NamedTuple):
    """Adapter for one class of reward models.

    architecture: name of the class in config.json; end_token_id: function that returns the id of the token that ends
    each conversation, given the content of config.json; load: function that returns a model with `logits` outputs
    (conversations x 1), given the folder of the weights and the dtype.
    """

    architecture: str
    end_token_id: Callable[[dict[str, Any]], int]
    load: Callable[[Path, str], Any]


class ScalarModel:
    """Interface of a sequence classifier for a model whose first output is one number per conversation."""

    def __init__(self, model: Any) -> None:
        self.model, self.config = model, model.config

    def to(self, device: str) -> ScalarModel:
        """Move the model to a device and return this wrapper."""
        self.model = self.model.to(device)
        return self

    def eval(self) -> ScalarModel:
        """Switch the model to inference and return this wrapper."""
        self.model = self.model.eval()
        return self

    def __call__(self, **inputs: Any) -> SimpleNamespace:
        """Return an object whose attribute `logits` contains the scores of padded conversations."""
        return SimpleNamespace(logits=self.model(**inputs)[0].reshape(-1, 1))


def load_internlm2(folder: Path, dtype: str) -> ScalarModel:
    """Load an InternLM2 reward model, which computes scores from the hidden state of a conversation's last token."""
    import torch
    from transformers import AutoModel

    model = AutoModel.from_pretrained(
        folder, dtype=getattr(torch, dtype), trust_remote_code=True, use_safetensors=True, local_files_only=True
    )
    return ScalarModel(model)


ADAPTERS = {
    "internlm2": Adapter("InternLM2ForRewardModel", lambda config: int(config["reward_token_id"]), load_internlm2),
}


def end_token(name: str, adapter: str, folder: Path) -> int:
    """Return the id of the token that ends each conversation. Raises UserError if the adapter does not fit the model.

    name: registry entry of the model; folder: folder of its weights.
    """
    config, selected = read_model_config(folder), ADAPTERS[adapter]
    if selected.architecture not in (config.get("architectures") or []) or "reward_token_id" not in config:
        architectures = ", ".join(config.get("architectures") or []) or "none"
        problem = (
            f"adapter {adapter} requires the architecture {selected.architecture} and the key reward_token_id in "
            f"config.json, which has the architecture {architectures}"
        )
        raise UserError(f"models.{name}.adapter", problem, "remove the adapter, or choose a model that it supports")
    return selected.end_token_id(config)
