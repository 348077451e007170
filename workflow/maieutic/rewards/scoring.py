"""Score tutors' replies and preference pairs with one reward model, the weights loaded once.

Heavy libraries are imported inside the functions: only the serving environment has them.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import NamedTuple

from maieutic.config.models import RewardModel
from maieutic.core.errors import UserError
from maieutic.core.files import sha256_of
from maieutic.core.jobs import Job
from maieutic.core.journal import Journal, Scored, digest
from maieutic.core.records import (
    NOBODY_ASKED,
    Item,
    Pair,
    PairReward,
    Reply,
    Reward,
    Scalar,
    read_items,
    read_records,
    records_about,
    write_records,
)
from maieutic.rewards.adapters import ADAPTERS, end_token
from maieutic.rewards.loading import Machine
from maieutic.rewards.prefix_sharing import passes_for
from maieutic.rewards.scorer import Ids, Passes, forward_of, score_all
from maieutic.serving.conversations import Message, conversation, dialogue, encode, instruction
from maieutic.serving.weights import MANIFEST

log = logging.getLogger(__name__)


class Loaded(NamedTuple):
    """What scoring needs of a reward model: its tokenizer at once, its weights when the first score is missing.

    end: a token that stands behind each conversation.
    """

    tokenizer: object
    longest: int
    cut: bool
    system: str
    identity: str
    budget: int
    load: Callable[[], Passes]
    end: int | None = None


def prepare(name: str, model: RewardModel, weights: Path, machine: Machine) -> Loaded:
    """Read what is cheap of a reward model. weights: its folder, with manifest.json."""
    from maieutic.rewards.loading import check_scalar_head, context_of, load_classifier, load_tokenizer, take_device

    end = None
    if model.adapter:
        end = end_token(name, model.adapter, weights)
    else:
        check_scalar_head(name, weights)
    with_code = model.trust_remote_code or model.adapter is not None
    dtype = model.dtype if model.dtype != "auto" else ("bfloat16" if machine.gpus else "float32")
    tokenizer = load_tokenizer(weights, with_code)
    train = model.train
    longest = context_of(weights, tokenizer, model.max_length or (train.max_length if train else None))
    cut = "cut" in {model.overlong, train.overlong if train else None}

    @cache  # pairs and labelled replies share one load
    def load() -> Passes:
        device = take_device(name, machine)
        if model.adapter:
            scalar = ADAPTERS[model.adapter].load(weights, dtype)
            return Passes(forward_of(scalar, tokenizer.pad_token_id, device), None, tokenizer.pad_token_id)
        classifier = load_classifier(
            weights, tokenizer, dtype=dtype, trust_remote_code=model.trust_remote_code, headed=True
        )
        return passes_for(classifier, classifier.config.get_text_config().pad_token_id, device)

    identity = digest([sha256_of(weights / MANIFEST), dtype])
    return Loaded(tokenizer, longest, cut, instruction(model.prompt), identity, model.token_budget, load, end)


def why_unscored(ids: Ids, loaded: Loaded) -> str | None:
    """Why a conversation has no score, or None where it has one."""
    if len(ids) > loaded.longest:
        return f"{len(ids)} tokens, the reward model takes {loaded.longest}"
    return None


class Result(NamedTuple):
    """What became of one conversation."""

    tokens: int
    scored: Scored | None
    why_none: str | None

    @property
    def key(self) -> str:
        """The key of the conversation in the journal; `none` without a score."""
        return self.scored.key if self.scored else NOBODY_ASKED

    @property
    def score(self) -> float | None:
        """The scalar, None where there is none."""
        return self.scored.score if self.scored else None


def score_conversations(name: str, loaded: Loaded, conversations: list[list[Message]], journal: Path) -> list[Result]:
    """Score every conversation; what is longer than the model's context has none, unless the entry cuts it."""
    most = loaded.longest - (loaded.end is not None)
    tokens = encode(loaded.tokenizer, conversations, most if loaded.cut else None)
    if loaded.end is not None:
        tokens = [[*ids, loaded.end] for ids in tokens]
    why = [why_unscored(ids, loaded) for ids in tokens]
    if unscored := sum(reason is not None for reason in why):
        log.warning("%s: %d of %d conversations have no score: too long", name, unscored, len(tokens))
    with Journal(journal, Scored) as answers:
        fitting = [number for number, reason in enumerate(why) if reason is None]
        records = score_all(
            name,
            [tokens[number] for number in fitting],
            [json.dumps(conversations[number][:-1]) for number in fitting],
            loaded.identity,
            answers,
            loaded.budget,
            loaded.load,
        )
        scores = iter(records)
    results = []
    for ids, reason in zip(tokens, why, strict=True):
        scored = next(scores) if reason is None else None
        if scored is not None and scored.score is None:
            reason = "the reward model gave no number"
        results.append(Result(len(ids), scored, reason))
    return results


class ScorePairs(Job):
    """A reward model's entry, with what scoring needs of it."""

    reward_model: str
    entry: RewardModel


class ScoreRewards(ScorePairs):
    """A reward model, and the tasks of one benchmark whose replies it scores."""

    tasks: list[str]


def score_rewards(
    *,
    job: ScoreRewards,
    weights: Path,
    items: Path,
    replies: list[Path],
    journal: Path,
    out: Path,
    gpus: int,
    threads: int,
) -> None:
    """Write one Reward per reply of several tutors. A reply that its server refused has no score.

    weights: the reward model's manifest; items: the folder of the benchmark's items.
    """
    cases = read_items(items, job.tasks)
    wanted = {(item.task, item.id): item for item in cases}
    all_replies = [
        reply
        for path in replies
        for reply in records_about(path, Reply, cases, tutor=...)
        if (reply.task, reply.id) in wanted
    ]
    if len(all_replies) != len(cases) * len(replies):
        raise UserError(
            ", ".join(map(str, replies)),
            f"{len(cases) * len(replies)} replies expected, {len(all_replies)} found",
            "delete these files and run again",
        )
    loaded = prepare(job.reward_model, job.entry, weights.parent, Machine(gpus, threads))
    write_records(out, rewards_of(job.reward_model, loaded, wanted, all_replies, journal))


def rewards_of(
    name: str, loaded: Loaded, items: dict[tuple[str, str], Item], replies: list[Reply], journal: Path
) -> list[Reward]:
    """One Reward a reply: of its text without outer blanks, and of the released scorer's text where that differs."""
    texts = [texts_of(reply) for reply in replies]
    conversations = [
        conversation(before_reply(items[reply.task, reply.id]), text, loaded.system)
        for reply, versions in zip(replies, texts, strict=True)
        for text in versions
    ]
    results = iter(score_conversations(name, loaded, conversations, journal))
    rewards = []
    for reply, versions in zip(replies, texts, strict=True):
        first, *more = [next(results) for _ in versions] or [Result(0, None, f"refused: {reply.error}")]
        rewards.append(
            Reward(
                id=reply.id,
                task=reply.task,
                tutor=reply.tutor,
                key=first.key,
                score=first.score,
                tokens=first.tokens,
                seconds=first.scored.seconds if first.scored else None,
                why_none=first.why_none,
                released=Scalar(key=more[0].key, score=more[0].score, why_none=more[0].why_none) if more else None,
                refused=bool(reply.error) and not reply.absent,
            )
        )
    return rewards


def texts_of(reply: Reply) -> list[str]:
    """What is scored of a reply: nothing of a refused one."""
    return [] if reply.error else list(dict.fromkeys((reply.text.strip(), reply.released)))


def before_reply(item: Item) -> list[Message]:
    """An item's messages before the reply."""
    return dialogue(item.vars["question"], item.reference["solution"], item.reference["history"])


def score_pairs(
    *,
    job: ScorePairs,
    weights: Path,
    pairs: Path,
    labels: list[Path] | None = None,
    journal: Path,
    out: list[Path],
    gpus: int,
    threads: int,
) -> None:
    """Write the scores of both replies of every pair, and one Reward per labelled reply.

    weights: the reward model's manifest; labels: the files of a labelled set, in its folder, or none; out: the files of
    the pairs' scores and of the labelled replies'.
    """
    name = job.reward_model
    loaded = prepare(name, job.entry, weights.parent, Machine(gpus, threads))
    read = read_records(pairs, Pair)
    conversations = [
        conversation(pair.prompt, reply, loaded.system if pair.tutoring else "")
        for pair in read
        for reply in (pair.chosen, pair.rejected)
    ]
    results = score_conversations(name, loaded, conversations, journal)
    write_records(
        out[0],
        (
            PairReward(
                id=pair.id,
                problem=pair.problem,
                chosen=better.score,
                rejected=worse.score,
                why_none=better.why_none or worse.why_none,
            )
            for pair, better, worse in zip(read, results[::2], results[1::2], strict=True)
        ),
    )
    if not labels:
        return
    release = labels[0].parent
    items = {(item.task, item.id): item for item in read_records(release / "items.jsonl", Item)}
    labelled = read_records(release / "replies.jsonl", Reply)
    write_records(out[1], rewards_of(name, loaded, items, labelled, journal.with_name("labelled.jsonl")))
