"""Scoring of conversations in batches with a token budget, longest first. Each score is journaled and computed once.

Replies to the same dialogue share its forward pass: a causal model encodes the dialogue once, and then each reply
(`prefix_sharing`).
"""

from __future__ import annotations

import logging
import math
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

from maieutic.core.journal import Journal, ScoredConversation, canonical_digest
from maieutic.core.progress import Progress

log = logging.getLogger(__name__)
Ids = Sequence[int]
Forward = Callable[[list[Ids]], list[float]]
MIN_SHARED_TOKENS = 32  # conversations are grouped only if their common prefix has at least this many tokens
CACHED_BUDGETS = 8  # maximum number of tokens with cached keys and values, as a multiple of the token budget


class Group(NamedTuple):
    """Conversations with a common prefix.

    prefix: tokens of the prefix; suffixes: the other tokens of each conversation; positions: position of each
    conversation in the list of all conversations.
    """

    prefix: Ids
    suffixes: list[Ids]
    positions: list[int]


class Passes(NamedTuple):
    """Forward passes of a loaded model.

    plain: padded pass over conversations; shared: pass over groups, or None if the model cannot share prefixes;
    pad: id of the pad token.
    """

    plain: Forward
    shared: Callable[[list[Group]], list[float]] | None
    pad: int


def token_batches(lengths: Sequence[int], budget: int) -> list[list[int]]:
    """Return batches of positions in `lengths`, those of the longest conversations first.

    The number of positions in a batch times its greatest length is at most `budget` tokens, unless the batch has only
    one position. Batches depend on nothing but `lengths` and `budget`, so a resumed job forms the same batches.
    """
    chunks: list[list[int]] = []
    for position in sorted(range(len(lengths)), key=lambda place: -lengths[place]):
        if chunks and (len(chunks[-1]) + 1) * lengths[chunks[-1][0]] <= budget:
            chunks[-1].append(position)
        else:
            chunks.append([position])
    return chunks


def common_prefix_length(conversations: Sequence[Ids]) -> int:
    """Return the length of the common prefix, at most one token shorter than the shortest conversation."""
    ordered = sorted(map(tuple, conversations))
    first, last = ordered[0], ordered[-1]  # the first and last in lexicographic order share the shortest prefix
    same = next((place for place, (token, other) in enumerate(zip(first, last, strict=False)) if token != other), None)
    return min(same if same is not None else min(len(first), len(last)), min(map(len, conversations)) - 1)


def groups_of(conversations: Sequence[Ids], dialogues: Sequence[str], budget: int, pad: int) -> list[Group]:
    """Group the conversations on the same dialogue whose common prefix is worth sharing, the longest prefix first.

    dialogues: for each conversation, an identifier of its dialogue; budget: maximum number of tokens of a prefix;
    pad: id of the pad token.
    """
    members: dict[str, list[int]] = defaultdict(list)
    for position, dialogue in enumerate(dialogues):
        members[dialogue].append(position)
    groups = []
    for positions in members.values():
        sequences = [conversations[position] for position in positions]
        shared = common_prefix_length(sequences) if len(sequences) > 1 else 0
        suffixes = [ids[shared:] for ids in sequences]
        # The score is read at the last token that is not padding, which must belong to the reply.
        if MIN_SHARED_TOKENS <= shared <= budget and all(any(token != pad for token in ids) for ids in suffixes):
            longest = max(map(len, suffixes))
            rows = max(1, min(budget // longest, CACHED_BUDGETS * budget // (shared + longest)))
            groups += [
                Group(sequences[0][:shared], suffixes[at : at + rows], positions[at : at + rows])
                for at in range(0, len(sequences), rows)
            ]
    return sorted(groups, key=lambda group: -len(group.prefix))


def group_batches(groups: Sequence[Group], budget: int) -> list[list[Group]]:
    """Return batches of groups, whose padded dialogues and padded replies have at most `budget` tokens each.

    The number of cached tokens of a batch is at most CACHED_BUDGETS times `budget`.
    """
    chunks: list[list[Group]] = []
    for group in groups:
        batch = [*chunks[-1], group] if chunks else [group]
        rows = [ids for member in batch for ids in member.suffixes]
        longest, prefix = max(map(len, rows)), len(batch[0].prefix)
        fits = len(batch) * prefix <= budget and len(rows) * longest <= budget
        if chunks and fits and len(rows) * (prefix + longest) <= CACHED_BUDGETS * budget:
            chunks[-1] = batch
        else:
            chunks.append([group])
    return chunks


def score_key(ids: Ids, identity: str) -> str:
    """Return the journal key of a conversation's score: a hash of the weights' identity and the token ids."""
    return canonical_digest([identity, list(ids)])


def drop_known(group: Group, known: set[int]) -> Group:
    """Return a group without the conversations whose positions are in `known`."""
    left = [place for place, position in enumerate(group.positions) if position not in known]
    return Group(group.prefix, [group.suffixes[place] for place in left], [group.positions[place] for place in left])


def pending_passes(
    conversations: Sequence[Ids], dialogues: Sequence[str], known: set[int], budget: int, model: Passes
) -> list[tuple[list[int], Callable[[], list[float]]]]:
    """Return the forward passes that are still needed, each with the positions of the conversations that it scores.

    dialogues: for each conversation, an identifier of its dialogue; known: positions of conversations that already have
    a score. These are left out only after grouping, so that a resumed job forms the same groups.
    """
    groups = groups_of(conversations, dialogues, budget, model.pad) if model.shared else []
    grouped = {position for group in groups for position in group.positions}
    groups = [left for group in groups if (left := drop_known(group, known)).positions]
    passes: list[tuple[list[int], Callable[[], list[float]]]] = []
    for together in group_batches(groups, budget):
        assert model.shared is not None
        positions = [position for group in together for position in group.positions]
        passes.append((positions, partial(model.shared, together)))
    alone = [position for position in range(len(conversations)) if position not in grouped | known]
    for batch in token_batches([len(conversations[position]) for position in alone], budget):
        positions = [alone[place] for place in batch]
        passes.append((positions, partial(model.plain, [conversations[position] for position in positions])))
    return passes


def score_all(
    what: str,
    conversations: Sequence[Ids],
    dialogues: Sequence[str],
    identity: str,
    journal: Journal[ScoredConversation],
    budget: int,
    load: Callable[[], Passes],
) -> list[ScoredConversation]:
    """Return each conversation's score. Equal conversations are scored once.

    A forward pass is journaled as a whole, so a killed job repeats at most one pass.

    what: name in log messages; dialogues: for each conversation, an identifier of its dialogue; identity: identity of
    the weights; budget: number of tokens per pass; load: loads the model, called only if a score is not in the journal.
    """
    keys = [score_key(ids, identity) for ids in conversations]
    places = {key: place for place, key in reversed(list(enumerate(keys)))}  # first position of each key
    names = sorted(places, key=lambda key: places[key])
    known = {number for number, name in enumerate(names) if name in journal.answers}
    progress = Progress(what, len(names))
    for _ in known:
        progress.step(known=True)
    if len(known) < len(names):
        sequences = [conversations[places[name]] for name in names]
        passes = pending_passes(sequences, [dialogues[places[name]] for name in names], known, budget, load())
        for positions, run in passes:
            began = time.perf_counter()
            scores = [score if math.isfinite(score) else None for score in run()]
            share = round((time.perf_counter() - began) / len(positions), 6)
            results = zip(positions, scores, strict=True)
            journal.append(
                *(ScoredConversation(key=names[place], score=score, seconds=share) for place, score in results)
            )
            for position in positions:
                progress.step(tokens=len(sequences[position]))
        log.info("%s: %d conversations scored in %d forward passes", what, len(names) - len(known), len(passes))
    progress.log_line()
    return [journal.answers[key] for key in keys]


def pad_rows(rows: Sequence[Ids], pad: int, device: str) -> tuple[Any, Any]:
    """Return the token ids, padded on the right with `pad`, and the attention mask (both rows x longest row)."""
    import torch

    longest = max(map(len, rows))
    ids = torch.full((len(rows), longest), pad, dtype=torch.long)
    mask = torch.zeros_like(ids)
    for row, tokens in enumerate(rows):
        ids[row, : len(tokens)] = torch.tensor(tokens)
        mask[row, : len(tokens)] = 1
    return ids.to(device), mask.to(device)


def scores_of_logits(logits: Any) -> list[float]:
    """Return the scores of conversations: the single logit of each, or the log-odds of the second class of two."""
    chosen = logits[:, 0] if logits.shape[1] == 1 else logits[:, 1] - logits[:, 0]
    return [float(value) for value in chosen.float().cpu()]


def forward_of(model: Any, pad: int, device: str) -> Forward:
    """Return a function that scores padded conversations. It halves a batch that does not fit in GPU memory.

    model: sequence classifier; pad: id of the pad token.
    """
    import torch

    model = model.to(device).eval()
    # By default, a causal model would cache every layer's keys and values, although no further token is computed.
    extra = {"use_cache": False} if hasattr(model.config.get_text_config(), "use_cache") else {}

    def forward(conversations: list[Ids]) -> list[float]:
        ids, mask = pad_rows(conversations, pad, device)
        try:
            with torch.inference_mode():
                return scores_of_logits(model(input_ids=ids, attention_mask=mask, **extra).logits)
        except torch.cuda.OutOfMemoryError:
            if len(conversations) == 1:
                raise
        torch.cuda.empty_cache()
        half = len(conversations) // 2
        return [*forward(conversations[:half]), *forward(conversations[half:])]

    return forward
