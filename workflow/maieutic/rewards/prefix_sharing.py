"""Prefix sharing: a causal model encodes a dialogue once, and reuses the keys and values for all replies to it.

Heavy libraries are imported inside the functions, since only the serving environment has them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from maieutic.rewards.scorer import Forward, Group, Passes, forward_of, pad_rows, scores_of_logits


def can_share(model: Any) -> bool:
    """Return True if a model is one of transformers' own causal classifiers, with full attention in all layers."""
    from transformers.modeling_layers import GenericForSequenceClassification

    config = model.config.get_text_config()
    layers = getattr(config, "layer_types", None) or ["full_attention"]
    causal = getattr(config, "use_cache", None) is not None and getattr(config, "is_causal", True) is not False
    return (
        isinstance(model, GenericForSequenceClassification)
        and causal
        and set(layers) == {"full_attention"}
        and not getattr(config, "sliding_window", None)
    )


def shared_forward_of(model: Any, pad: int, device: str, plain: Forward) -> Callable[[list[Group]], list[float]] | None:
    """Return a function that scores several groups in two padded passes, or None if the model cannot share prefixes.

    The first pass encodes the dialogues. The second pass encodes all replies, with the cached keys and values of the
    dialogues. Groups that do not fit in GPU memory are scored by `plain`.
    """
    if not can_share(model):
        return None
    import torch
    from transformers import DynamicCache

    base = getattr(model, model.base_model_prefix)

    def forward(groups: list[Group]) -> list[float]:
        try:
            with torch.inference_mode():
                return scores_of_logits(score_with_cache(groups))
        except torch.cuda.OutOfMemoryError:
            torch.cuda.empty_cache()
        return plain([[*group.prefix, *ids] for group in groups for ids in group.suffixes])

    def score_with_cache(groups: list[Group]) -> Any:
        dialogues, dialogue_mask = pad_rows([group.prefix for group in groups], pad, device)
        cache = DynamicCache(config=model.config)
        base(input_ids=dialogues, attention_mask=dialogue_mask, past_key_values=cache, use_cache=True)
        owner = torch.tensor([number for number, group in enumerate(groups) for _ in group.suffixes], device=device)
        cache.batch_select_indices(owner)
        replies, reply_mask = pad_rows([ids for group in groups for ids in group.suffixes], pad, device)
        mask = dialogue_mask[owner]
        # Dialogues are padded, so a reply's positions must start at the length of its dialogue without padding.
        places = mask.sum(1, keepdim=True) + torch.arange(replies.shape[1], device=device)
        hidden = base(
            input_ids=replies,
            attention_mask=torch.cat([mask, reply_mask], dim=1),
            position_ids=places,
            past_key_values=cache,
            use_cache=True,
        ).last_hidden_state
        # Read the score at the last token that is not padding, as transformers does.
        last = (torch.arange(replies.shape[1], device=device) * (replies != pad)).argmax(1)
        return model.score(hidden[torch.arange(len(replies), device=device), last])

    return forward


def passes_for(model: Any, pad: int, device: str) -> Passes:
    """Return the plain and the prefix-sharing forward pass of a loaded reward model."""
    plain = forward_of(model, pad, device)
    return Passes(plain, shared_forward_of(model, pad, device, plain), pad)
