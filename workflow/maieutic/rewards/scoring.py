"""Score tutors' replies and preference pairs with one reward model, whose weights are loaded once.

Prefix sharing encodes a dialogue once, and reuses its keys and values for all replies to it. Adapters serve published
models that transformers does not provide as sequence classifiers, and run code from the pinned commit of the model's
repository. Heavy libraries are imported inside the functions, since only the serving environment has them.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

from maieutic.config.models import RewardModel
from maieutic.core.errors import UserError
from maieutic.core.files import sha256_of
from maieutic.core.jobs import Job
from maieutic.core.journal import Journal, ScoredConversation, canonical_digest
from maieutic.core.records import (
    NO_REQUEST,
    Item,
    Pair,
    PairReward,
    Reply,
    Reward,
    RewardScalar,
    read_checked_records,
    read_items,
    read_records,
    write_records,
)
from maieutic.rewards.loading import JobDevices, read_model_config
from maieutic.rewards.scorer import Forward, Group, Ids, Passes, forward_of, pad_rows, score_all, scores_of_logits
from maieutic.serving.conversations import (
    Message,
    encode_conversations,
    messages_before_reply,
    messages_to_score,
    system_instruction,
)
from maieutic.serving.weights import MANIFEST


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


log = logging.getLogger(__name__)


class PreparedModel(NamedTuple):
    """A reward model prepared for scoring: its tokenizer is loaded, and `load` loads its weights.

    longest: maximum number of tokens of a conversation; cut: True if longer conversations are cut; system: text of the
    system message; identity: hash of the weights and the dtype; budget: number of tokens per forward pass;
    end_token_id: id of a token to append to each conversation, or None.
    """

    tokenizer: object
    longest: int
    cut: bool
    system: str
    identity: str
    budget: int
    load: Callable[[], Passes]
    end_token_id: int | None = None


def prepare_model(name: str, model: RewardModel, weights: Path, machine: JobDevices) -> PreparedModel:
    """Load the tokenizer and the limits of a reward model, but not yet its weights.

    weights: folder of the weights, with manifest.json.
    """
    from maieutic.rewards.loading import check_scalar_head, context_limit, load_classifier, load_tokenizer, take_device

    end = None
    if model.adapter:
        end = end_token(name, model.adapter, weights)
    else:
        check_scalar_head(name, weights)
    with_code = model.trust_remote_code or model.adapter is not None
    dtype = model.dtype if model.dtype != "auto" else ("bfloat16" if machine.gpus else "float32")
    tokenizer = load_tokenizer(weights, with_code)
    train = model.train
    longest = context_limit(weights, tokenizer, model.max_length or (train.max_length if train else None))
    cut = "cut" in {model.overlong, train.overlong if train else None}

    @cache  # pairs and labelled replies share one load of the weights
    def load() -> Passes:
        device = take_device(name, machine)
        if model.adapter:
            scalar = ADAPTERS[model.adapter].load(weights, dtype)
            return Passes(forward_of(scalar, tokenizer.pad_token_id, device), None, tokenizer.pad_token_id)
        classifier = load_classifier(
            weights, tokenizer, dtype=dtype, trust_remote_code=model.trust_remote_code, headed=True
        )
        return passes_for(classifier, classifier.config.get_text_config().pad_token_id, device)

    identity = canonical_digest([sha256_of(weights / MANIFEST), dtype])
    return PreparedModel(
        tokenizer, longest, cut, system_instruction(model.prompt), identity, model.token_budget, load, end
    )


def unscored_reason(ids: Ids, loaded: PreparedModel) -> str | None:
    """Return the reason why a conversation cannot be scored, or None if it can."""
    if len(ids) > loaded.longest:
        return f"{len(ids)} tokens, more than the reward model's limit of {loaded.longest}"
    return None


class ConversationResult(NamedTuple):
    """Result of scoring one conversation: its length in tokens, and its score or the reason why it has no score."""

    tokens: int
    scored: ScoredConversation | None
    why_none: str | None

    @property
    def key(self) -> str:
        """Journal key of the conversation's score, or NO_REQUEST if the conversation was not scored."""
        return self.scored.key if self.scored else NO_REQUEST

    @property
    def score(self) -> float | None:
        """Score of the conversation, or None if it has no score."""
        return self.scored.score if self.scored else None


def score_conversations(
    name: str, loaded: PreparedModel, conversations: list[list[Message]], journal: Path
) -> list[ConversationResult]:
    """Score every conversation. One above `loaded.longest` tokens gets no score, or is cut first if `loaded.cut`."""
    most = loaded.longest - (loaded.end_token_id is not None)
    tokens = encode_conversations(loaded.tokenizer, conversations, most if loaded.cut else None)
    if loaded.end_token_id is not None:
        tokens = [[*ids, loaded.end_token_id] for ids in tokens]
    reasons = [unscored_reason(ids, loaded) for ids in tokens]
    if unscored := sum(reason is not None for reason in reasons):
        log.warning("%s: %d of %d conversations are too long and have no score", name, unscored, len(tokens))
    with Journal(journal, ScoredConversation) as answers:
        fitting = [number for number, reason in enumerate(reasons) if reason is None]
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
    for ids, reason in zip(tokens, reasons, strict=True):
        scored = next(scores) if reason is None else None
        if scored is not None and scored.score is None:
            reason = "the reward model returned no number"
        results.append(ConversationResult(len(ids), scored, reason))
    return results


class ScorePairs(Job):
    """Job that scores a set of preference pairs with a reward model. entry: registry entry of the model."""

    reward_model: str
    entry: RewardModel


class ScoreRewards(ScorePairs):
    """Job that scores the replies to tasks of one benchmark with a reward model."""

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
    """Write one Reward per reply of several tutors. A reply whose request the server refused has no score.

    weights: manifest of the reward model; items: folder of the benchmark's items; replies: one file per tutor.
    """
    cases = read_items(items, job.tasks)
    known_items = {(item.task, item.id): item for item in cases}
    all_replies = [
        reply
        for path in replies
        for reply in read_checked_records(path, Reply, cases, tutor=...)
        if (reply.task, reply.id) in known_items
    ]
    if len(all_replies) != len(cases) * len(replies):
        raise UserError(
            ", ".join(map(str, replies)),
            f"expected {len(cases) * len(replies)} replies, found {len(all_replies)}",
            "delete these files and run again",
        )
    loaded = prepare_model(job.reward_model, job.entry, weights.parent, JobDevices(gpus, threads))
    write_records(out, rewards_of(job.reward_model, loaded, known_items, all_replies, journal))


def rewards_of(
    name: str, loaded: PreparedModel, items: dict[tuple[str, str], Item], replies: list[Reply], journal: Path
) -> list[Reward]:
    """Return one Reward per reply, with scores of its stripped text and of the text that the released scorer reads.

    items: maps (task, id) to the item.
    """
    texts = [scored_texts(reply) for reply in replies]
    conversations = [
        messages_to_score(scored_dialogue(items[reply.task, reply.id]), text, loaded.system)
        for reply, versions in zip(replies, texts, strict=True)
        for text in versions
    ]
    results = iter(score_conversations(name, loaded, conversations, journal))
    rewards = []
    for reply, versions in zip(replies, texts, strict=True):
        first, *more = [next(results) for _ in versions] or [ConversationResult(0, None, f"refused: {reply.error}")]
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
                released=RewardScalar(key=more[0].key, score=more[0].score, why_none=more[0].why_none)
                if more
                else None,
                refused=bool(reply.error) and not reply.absent,
            )
        )
    return rewards


def scored_texts(reply: Reply) -> list[str]:
    """Return the texts of a reply that are scored. A refused reply has no such text."""
    return [] if reply.error else list(dict.fromkeys((reply.text.strip(), reply.released)))


def scored_dialogue(item: Item) -> list[Message]:
    """Return the messages of an item that precede the reply."""
    return messages_before_reply(item.vars["question"], item.reference["solution"], item.reference["history"])


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

    weights: manifest of the reward model; labels: the files of one labelled set, all in the same folder, or None;
    out: file for the scores of the pairs, and with `labels` also a file for the rewards of the labelled replies.
    """
    name = job.reward_model
    loaded = prepare_model(name, job.entry, weights.parent, JobDevices(gpus, threads))
    pair_list = read_records(pairs, Pair)
    conversations = [
        messages_to_score(pair.prompt, reply, loaded.system if pair.tutoring else "")
        for pair in pair_list
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
            for pair, better, worse in zip(pair_list, results[::2], results[1::2], strict=True)
        ),
    )
    if not labels:
        return
    release = labels[0].parent
    items = {(item.task, item.id): item for item in read_records(release / "items.jsonl", Item)}
    labelled = read_records(release / "replies.jsonl", Reply)
    write_records(out[1], rewards_of(name, loaded, items, labelled, journal.with_name("labelled.jsonl")))
