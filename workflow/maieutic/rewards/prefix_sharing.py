"""Replies to one dialogue, scored with one reading of it: a causal model's keys and values of the dialogue are kept.

Heavy libraries are imported inside the functions: only the serving environment has them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from maieutic.rewards.scorer import Forward, Group, Passes, forward_of, padded, scalars


def can_share(model: Any) -> bool:
    """Whether a model is transformers' own causal classifier with full attention in every layer."""
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
    """Two padded passes for several groups: the dialogues, then all replies on the kept keys and values.

    None where the model cannot. What does not fit into memory goes through `plain`.
    """
    if not can_share(model):
        return None
    import torch
    from transformers import DynamicCache

    base = getattr(model, model.base_model_prefix)

    def forward(groups: list[Group]) -> list[float]:
        try:
            with torch.inference_mode():
                return scalars(read_together(groups))
        except torch.cuda.OutOfMemoryError:
            torch.cuda.empty_cache()
        return plain([[*group.prefix, *ids] for group in groups for ids in group.suffixes])

    def read_together(groups: list[Group]) -> Any:
        dialogues, dialogue_mask = padded([group.prefix for group in groups], pad, device)
        cache = DynamicCache(config=model.config)
        base(input_ids=dialogues, attention_mask=dialogue_mask, past_key_values=cache, use_cache=True)
        owner = torch.tensor([number for number, group in enumerate(groups) for _ in group.suffixes], device=device)
        cache.batch_select_indices(owner)
        replies, reply_mask = padded([ids for group in groups for ids in group.suffixes], pad, device)
        mask = dialogue_mask[owner]
        # A shorter dialogue has a gap of masked padding before its reply: positions go on from its own length.
        places = mask.sum(1, keepdim=True) + torch.arange(replies.shape[1], device=device)
        hidden = base(
            input_ids=replies,
            attention_mask=torch.cat([mask, reply_mask], dim=1),
            position_ids=places,
            past_key_values=cache,
            use_cache=True,
        ).last_hidden_state
        # As transformers pools: the last token that is not the pad token.
        last = (torch.arange(replies.shape[1], device=device) * (replies != pad)).argmax(1)
        return model.score(hidden[torch.arange(len(replies), device=device), last])

    return forward


def passes_for(model: Any, pad: int, device: str) -> Passes:
    """Both kinds of passes of a loaded reward model."""
    plain = forward_of(model, pad, device)
    return Passes(plain, shared_forward_of(model, pad, device, plain), pad)
