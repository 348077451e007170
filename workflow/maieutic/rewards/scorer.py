"""Scalars for conversations: batches by token budget, longest first, and a journal so that nothing is scored twice.

Replies to one dialogue share its tokens: a causal model reads the dialogue once and then each reply (`sharing`).
"""

from __future__ import annotations

import logging
import math
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

from maieutic.core.journal import Journal, Scored, digest
from maieutic.core.progress import Progress

log = logging.getLogger(__name__)
Ids = Sequence[int]
Forward = Callable[[list[Ids]], list[float]]
SHORTEST = 32  # tokens that are worth sharing
KEPT = 8  # times the budget: tokens whose keys and values may be in memory at once


class Group(NamedTuple):
    """Conversations that begin alike: their common tokens, and what is left of each."""

    prefix: Ids
    suffixes: list[Ids]
    positions: list[int]


class Passes(NamedTuple):
    """A loaded model: a padded pass over conversations; one over groups, None where it cannot; its pad token."""

    plain: Forward
    shared: Callable[[list[Group]], list[float]] | None
    pad: int


def batches(lengths: Sequence[int], budget: int) -> list[list[int]]:
    """Positions grouped so that count x longest stays within `budget` tokens, longest first.

    The order depends on the lengths alone, so that what a killed job had left is batched as it would have been.
    """
    chunks: list[list[int]] = []
    for position in sorted(range(len(lengths)), key=lambda place: -lengths[place]):
        if chunks and (len(chunks[-1]) + 1) * lengths[chunks[-1][0]] <= budget:
            chunks[-1].append(position)
        else:
            chunks.append([position])
    return chunks


def common(conversations: Sequence[Ids]) -> int:
    """How many tokens all begin with, leaving at least one of each."""
    ordered = sorted(map(tuple, conversations))
    first, last = ordered[0], ordered[-1]  # in dictionary order these two differ soonest
    same = next((place for place, (token, other) in enumerate(zip(first, last, strict=False)) if token != other), None)
    return min(same if same is not None else min(len(first), len(last)), min(map(len, conversations)) - 1)


def groups_of(conversations: Sequence[Ids], dialogues: Sequence[str], budget: int, pad: int) -> list[Group]:
    """Conversations of one dialogue that are worth reading together, longest dialogue first."""
    members: dict[str, list[int]] = defaultdict(list)
    for position, dialogue in enumerate(dialogues):
        members[dialogue].append(position)
    groups = []
    for positions in members.values():
        sequences = [conversations[position] for position in positions]
        shared = common(sequences) if len(sequences) > 1 else 0
        suffixes = [ids[shared:] for ids in sequences]
        # The score is read off the last token that is no padding: it must be the reply's.
        if SHORTEST <= shared <= budget and all(any(token != pad for token in ids) for ids in suffixes):
            longest = max(map(len, suffixes))
            rows = max(1, min(budget // longest, KEPT * budget // (shared + longest)))
            groups += [
                Group(sequences[0][:shared], suffixes[at : at + rows], positions[at : at + rows])
                for at in range(0, len(sequences), rows)
            ]
    return sorted(groups, key=lambda group: -len(group.prefix))


def group_batches(groups: Sequence[Group], budget: int) -> list[list[Group]]:
    """Groups together as long as their dialogues, their replies and what is kept, padded, are within the budget."""
    chunks: list[list[Group]] = []
    for group in groups:
        batch = [*chunks[-1], group] if chunks else [group]
        rows = [ids for member in batch for ids in member.suffixes]
        longest, prefix = max(map(len, rows)), len(batch[0].prefix)
        fits = len(batch) * prefix <= budget and len(rows) * longest <= budget
        if chunks and fits and len(rows) * (prefix + longest) <= KEPT * budget:
            chunks[-1] = batch
        else:
            chunks.append([group])
    return chunks


def score_key(ids: Ids, identity: str) -> str:
    """What was scored, by which weights."""
    return digest([identity, list(ids)])


def without(group: Group, known: set[int]) -> Group:
    """What is left of a group."""
    left = [place for place, position in enumerate(group.positions) if position not in known]
    return Group(group.prefix, [group.suffixes[place] for place in left], [group.positions[place] for place in left])


def passes_of(
    conversations: Sequence[Ids], dialogues: Sequence[str], known: set[int], budget: int, model: Passes
) -> list[tuple[list[int], Callable[[], list[float]]]]:
    """Every forward pass that is needed: the positions that it scores, and the pass. known: those that need none.

    Groups are made of all conversations, so that what a kill left is grouped as it was.
    """
    groups = groups_of(conversations, dialogues, budget, model.pad) if model.shared else []
    grouped = {position for group in groups for position in group.positions}
    groups = [left for group in groups if (left := without(group, known)).positions]
    passes: list[tuple[list[int], Callable[[], list[float]]]] = []
    for together in group_batches(groups, budget):
        assert model.shared is not None
        positions = [position for group in together for position in group.positions]
        passes.append((positions, partial(model.shared, together)))
    alone = [position for position in range(len(conversations)) if position not in grouped | known]
    for batch in batches([len(conversations[position]) for position in alone], budget):
        positions = [alone[place] for place in batch]
        passes.append((positions, partial(model.plain, [conversations[position] for position in positions])))
    return passes


def score_all(
    what: str,
    conversations: Sequence[Ids],
    dialogues: Sequence[str],
    identity: str,
    journal: Journal[Scored],
    budget: int,
    load: Callable[[], Passes],
) -> list[Scored]:
    """The score of every conversation. Equal ones are scored once; the model is loaded on the first miss only.

    dialogues: what each conversation answers, by any name. A pass is journaled in one piece, so a kill costs one.
    """
    keys = [score_key(ids, identity) for ids in conversations]
    places = {key: place for place, key in reversed(list(enumerate(keys)))}  # the first of equal ones
    names = sorted(places, key=lambda key: places[key])
    known = {number for number, name in enumerate(names) if name in journal.answers}
    progress = Progress(what, len(names))
    for _ in known:
        progress.step(known=True)
    if len(known) < len(names):
        sequences = [conversations[places[name]] for name in names]
        passes = passes_of(sequences, [dialogues[places[name]] for name in names], known, budget, load())
        for positions, run in passes:
            began = time.perf_counter()
            scores = [score if math.isfinite(score) else None for score in run()]
            share = round((time.perf_counter() - began) / len(positions), 6)
            results = zip(positions, scores, strict=True)
            journal.append(*(Scored(key=names[place], score=score, seconds=share) for place, score in results))
            for position in positions:
                progress.step(tokens=len(sequences[position]))
        log.info("%s: %d conversations scored in %d forward passes", what, len(names) - len(known), len(passes))
    progress.say()
    return [journal.answers[key] for key in keys]


def padded(rows: Sequence[Ids], pad: int, device: str) -> tuple[Any, Any]:
    """Token ids and attention mask, padded on the right: rows x longest."""
    import torch

    longest = max(map(len, rows))
    ids = torch.full((len(rows), longest), pad, dtype=torch.long)
    mask = torch.zeros_like(ids)
    for row, tokens in enumerate(rows):
        ids[row, : len(tokens)] = torch.tensor(tokens)
        mask[row, : len(tokens)] = 1
    return ids.to(device), mask.to(device)


def scalars(logits: Any) -> list[float]:
    """A model's one output, or the log-odds of the second of two."""
    chosen = logits[:, 0] if logits.shape[1] == 1 else logits[:, 1] - logits[:, 0]
    return [float(value) for value in chosen.float().cpu()]


def forward_of(model: Any, pad: int, device: str) -> Forward:
    """One padded forward pass of a sequence classifier. What does not fit into memory is halved."""
    import torch

    model = model.to(device).eval()
    # A causal model would keep every layer's keys and values for a next token that never comes.
    extra = {"use_cache": False} if hasattr(model.config.get_text_config(), "use_cache") else {}

    def forward(conversations: list[Ids]) -> list[float]:
        ids, mask = padded(conversations, pad, device)
        try:
            with torch.inference_mode():
                return scalars(model(input_ids=ids, attention_mask=mask, **extra).logits)
        except torch.cuda.OutOfMemoryError:
            if len(conversations) == 1:
                raise
        torch.cuda.empty_cache()
        half = len(conversations) // 2
        return [*forward(conversations[:half]), *forward(conversations[half:])]

    return forward
