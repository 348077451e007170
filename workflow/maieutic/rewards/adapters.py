"""Published reward models that are no sequence classifiers of transformers: what each wants, and gives.

An adapter runs the code of the pinned commit. Heavy libraries are imported inside the functions.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

from maieutic.core.errors import UserError
from maieutic.rewards.loading import read_config


class Adapter(NamedTuple):
    """A class of reward models.

    architecture: its name in config.json; end: the token that stands behind each conversation, from config.json; load:
    gives a model whose outputs have `logits`, conversations x 1.
    """

    architecture: str
    end: Callable[[dict[str, Any]], int]
    load: Callable[[Path, str], Any]


class Scalar:
    """A model whose first output is one number a conversation, in the form of a sequence classifier."""

    def __init__(self, model: Any) -> None:
        self.model, self.config = model, model.config

    def to(self, device: str) -> Scalar:
        """The same model on another device."""
        self.model = self.model.to(device)
        return self

    def eval(self) -> Scalar:
        """The same model, for inference."""
        self.model = self.model.eval()
        return self

    def __call__(self, **inputs: Any) -> SimpleNamespace:
        """The scores of padded conversations, as `logits`."""
        return SimpleNamespace(logits=self.model(**inputs)[0].reshape(-1, 1))


def load_internlm2(folder: Path, dtype: str) -> Scalar:
    """InternLM2's reward model: a head over the hidden state of the token that ends the conversation."""
    import torch
    from transformers import AutoModel

    model = AutoModel.from_pretrained(
        folder, dtype=getattr(torch, dtype), trust_remote_code=True, use_safetensors=True, local_files_only=True
    )
    return Scalar(model)


ADAPTERS = {
    "internlm2": Adapter("InternLM2ForRewardModel", lambda config: int(config["reward_token_id"]), load_internlm2),
}


def end_token(name: str, adapter: str, folder: Path) -> int:
    """The token that the scores of an adapter's model are read at. Raises UserError for another kind of model."""
    config, known = read_config(folder), ADAPTERS[adapter]
    if known.architecture not in (config.get("architectures") or []) or "reward_token_id" not in config:
        found = ", ".join(config.get("architectures") or []) or "none"
        problem = f"{adapter} is for {known.architecture}, found {found}"
        raise UserError(f"models.{name}.adapter", problem, "leave it out, or name the model that it is for")
    return known.end(config)
