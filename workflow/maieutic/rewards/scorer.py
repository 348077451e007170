"""Scalars for conversations: batches by token budget, longest first, and a journal so that nothing is scored twice."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from typing import Any

from maieutic.journal import Journal, Scored, digest
from maieutic.progress import Progress

log = logging.getLogger(__name__)
Ids = Sequence[int]
Forward = Callable[[list[Ids]], list[float]]


def batches(lengths: Sequence[int], budget: int) -> list[list[int]]:
    """Positions grouped so that count x longest stays within `budget` tokens, longest first.

    The order depends on the lengths alone, so that what a killed job had left is batched as it would have been.
    """
    found: list[list[int]] = []
    for position in sorted(range(len(lengths)), key=lambda one: -lengths[one]):
        if found and (len(found[-1]) + 1) * lengths[found[-1][0]] <= budget:
            found[-1].append(position)
        else:
            found.append([position])
    return found


def score_key(ids: Ids, identity: str) -> str:
    """What was scored, by which weights."""
    return digest([identity, list(ids)])


def score_all(
    what: str,
    conversations: Sequence[Ids],
    identity: str,
    journal: Journal[Scored],
    budget: int,
    load: Callable[[], Forward],
) -> list[Scored]:
    """The score of every conversation. Equal ones are scored once; the model is loaded on the first miss only."""
    keys = [score_key(ids, identity) for ids in conversations]
    missing = {key: ids for key, ids in zip(keys, conversations, strict=True) if key not in journal.answers}
    progress = Progress(what, len(set(keys)))
    for _ in range(len(set(keys)) - len(missing)):
        progress.step(known=True)
    if missing:
        forward = load()
        names = list(missing)
        passes = batches([len(missing[name]) for name in names], budget)
        for batch in passes:
            began = time.perf_counter()
            scores = forward([missing[names[position]] for position in batch])
            share = (time.perf_counter() - began) / len(batch)
            journal.append(
                *(
                    Scored(key=names[position], score=score, seconds=round(share, 6))
                    for position, score in zip(batch, scores, strict=True)
                )
            )
            for position in batch:
                progress.step(tokens=len(missing[names[position]]))
        log.info("%s: %d conversations scored in %d forward passes", what, len(missing), len(passes))
    progress.say()
    return [journal.answers[key] for key in keys]


def forward_of(model: Any, pad: int, device: str) -> Forward:
    """One padded forward pass of a sequence classifier: its output, or the log-odds of the second of two.

    What does not fit into memory is halved.
    """
    import torch

    model = model.to(device).eval()

    def forward(conversations: list[Ids]) -> list[float]:
        longest = max(map(len, conversations))
        ids = torch.full((len(conversations), longest), pad, dtype=torch.long)
        mask = torch.zeros_like(ids)
        for row, one in enumerate(conversations):
            ids[row, : len(one)] = torch.tensor(one)
            mask[row, : len(one)] = 1
        try:
            with torch.inference_mode():
                logits = model(input_ids=ids.to(device), attention_mask=mask.to(device), **no_cache(model)).logits
        except torch.cuda.OutOfMemoryError:
            if len(conversations) == 1:
                raise
            torch.cuda.empty_cache()
            half = len(conversations) // 2
            return [*forward(conversations[:half]), *forward(conversations[half:])]
        scores = logits[:, 0] if logits.shape[1] == 1 else logits[:, 1] - logits[:, 0]
        return [float(value) for value in scores.float().cpu()]

    return forward


def no_cache(model: Any) -> dict[str, bool]:
    """A causal model would keep every layer's keys and values for a next token that never comes."""
    return {"use_cache": False} if hasattr(model.config.get_text_config(), "use_cache") else {}
