"""Binary classifiers, one per MRBench criterion, trained on MRBench's labels (MathTutorBench, Appendix D).

Labels are held out by problem: all dialogues about a problem are either for training or held out.

Heavy libraries are imported inside the functions, since only the serving environment has them.
"""

from __future__ import annotations

import json
import logging
import math
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from maieutic.config.datasets import SourceRecord
from maieutic.config.models import CriteriaModel, CriteriaTraining
from maieutic.core.files import sha256_of, write_json
from maieutic.core.jobs import Job
from maieutic.core.journal import canonical_digest, take_lock
from maieutic.core.records import Labelling, Pair, PairReward, read_records, write_records
from maieutic.datasets.mrbench import LabelledReply, labelled_replies
from maieutic.datasets.sampling import ranked_by_seed
from maieutic.datasets.sources import read_source
from maieutic.rewards.loading import JobDevices
from maieutic.rewards.scorer import Ids, token_batches
from maieutic.rewards.training import RUNTIME_ONLY, freeze_token_embeddings, recreate_folder, shared_arguments
from maieutic.serving.conversations import encode_conversations, messages_to_score
from maieutic.serving.weights import MANIFEST

log = logging.getLogger(__name__)
Probabilities = Callable[[Sequence[Ids]], list[float | None]]  # an entry is None if the output is not finite
TOKENS_PER_PASS = {"cpu": 4096, "cuda": 65536}  # maximum number of tokens per forward pass, including padding
# The most negative label of all other criteria is "No". Revealing a correct answer is worse than revealing a wrong one,
# because a wrong one still leaves the student something to work out.
MOST_NEGATIVE = {"Tutor_Tone": "Offensive", "Revealing_of_the_Answer": "Yes (and the answer is correct)"}


def binary_label(criterion: str, label: str) -> int:
    """Return 0 for the criterion's most negative label, and 1 for any other label (MathTutorBench, Appendix D)."""
    return int(label != MOST_NEGATIVE.get(criterion, "No"))


class Split(NamedTuple):
    """Labelled replies for training, and labelled replies of held-out dialogues."""

    train: list[LabelledReply]
    test: list[LabelledReply]


def split_by_dialogue(replies: Sequence[LabelledReply], share: float, seed: int) -> Split:
    """Hold out the replies to a random `share` of the problems, so that no problem is in both parts of the split.

    A share above 0 holds out at least one problem.
    """
    problems = {reply.problem for reply in replies}
    test_problems = set(ranked_by_seed(problems, seed)[: max(1, round(share * len(problems)))] if share else ())
    return Split(
        [reply for reply in replies if reply.problem not in test_problems],
        [reply for reply in replies if reply.problem in test_problems],
    )


def encode_replies(tokenizer: Any, replies: Sequence[LabelledReply], longest: int | None) -> list[Ids]:
    """Return the token ids of each dialogue with its reply, without the oldest tokens if there are over `longest`."""
    return list(
        encode_conversations(
            tokenizer, [messages_to_score(reply.messages, reply.reply, "") for reply in replies], longest
        )
    )


class TrainCriteria(Job):
    """Job that trains the criteria classifiers of a registry entry. form: format of the labels' file."""

    classifier: str
    entry: CriteriaModel
    form: str


def train_criteria(
    *, job: TrainCriteria, base: Path, labels: Path, pairs: Path, journal: Path, out: Path, gpus: int, threads: int
) -> None:
    """Train one classifier per criterion, and write their probabilities for held-out replies.

    bridge.jsonl, training.json and the classifiers are written beside `out`. A killed job resumes after its finished
    criteria, whose weights stay in `journal` until all criteria are trained.

    base: manifest of the base weights; labels: file of MRBench with its labels; pairs: file of the test pairs;
    out: file for the probabilities.
    """
    records = read_source(labels, job.form)
    train_classifiers(job, base.parent, records, pairs, journal, out.parent, JobDevices(gpus, threads))


def train_classifiers(
    job: TrainCriteria,
    base: Path,
    records: list[SourceRecord],
    pairs: Path,
    journal: Path,
    out: Path,
    machine: JobDevices,
) -> None:
    """Train the classifiers, and write them into the folder `out`, with their predictions and training.json.

    The predictions are heldout.jsonl (Labelling records) and bridge.jsonl (PairReward records).
    """
    from maieutic.rewards.checkpoints import discard_checkpoints
    from maieutic.rewards.loading import context_limit, load_tokenizer, take_device

    name, model, train = job.classifier, job.entry, job.entry.train
    with take_lock(journal.with_name(f"{journal.name}.lock")):
        device = take_device(name, machine)
        tokenizer = load_tokenizer(base)
        longest = context_limit(base, tokenizer, train.max_length)
        split = split_by_dialogue(labelled_replies(records), train.test_share, train.seed)
        train_ids, test_ids = (encode_replies(tokenizer, part, longest) for part in split)
        test_pairs = read_records(pairs, Pair)
        sides = [
            encode_conversations(
                tokenizer, [messages_to_score(pair.prompt, getattr(pair, side), "") for pair in test_pairs], longest
            )
            for side in ("chosen", "rejected")
        ]
        recreate_folder(out)
        heldout: list[Labelling] = []
        bridge: list[PairReward] = []
        histories = {}
        settings = train.model_dump(exclude=RUNTIME_ONLY | {"criteria"})
        common = canonical_digest([settings, sha256_of(base / MANIFEST), train_ids])
        for criterion in train.criteria:
            labels = [binary_label(criterion, reply.labels[criterion]) for reply in split.train]
            identity = canonical_digest([common, labels])
            folder = journal / criterion
            examples: dict[str, list[Any]] = {"input_ids": list(train_ids), "labels": labels}
            histories[criterion] = train_classifier(
                f"{name}/{criterion}", train, base, tokenizer, examples, folder, identity, device
            )
            probabilities = predictor(folder / "model", tokenizer, device)
            heldout += labellings(criterion, split.test, test_ids, probabilities)
            bridge += pair_rewards(criterion, test_pairs, sides, probabilities)
        for criterion in train.criteria:
            shutil.copytree(journal / criterion / "model", out / criterion)
        write_records(out / "heldout.jsonl", heldout)
        write_records(out / "bridge.jsonl", bridge)
        encoded = [ids for part in split for ids in encode_replies(tokenizer, part, None)]
        write_classifier_history(
            name, model, split, sum(len(ids) > longest for ids in encoded), longest, histories, out
        )
        discard_checkpoints(journal)


class ClassifyPairs(Job):
    """Job that classifies pairs with one trained classifier per criterion.

    max_length: maximum number of tokens of a conversation, or None for the classifiers' own limit.
    """

    classifier: str
    criteria: list[str]
    max_length: int | None = None


def classify_pairs(*, job: ClassifyPairs, trained: Path, pairs: Path, out: Path, gpus: int, threads: int) -> None:
    """Write the probabilities that trained classifiers predict for both replies of each pair in a set.

    trained: training.json in the folder of the classifiers.
    """
    from maieutic.rewards.loading import context_limit, load_tokenizer, take_device

    device = take_device(job.classifier, JobDevices(gpus, threads))
    pair_list = read_records(pairs, Pair)
    rewards: list[PairReward] = []
    for criterion in job.criteria:
        weights = trained.parent / criterion
        tokenizer = load_tokenizer(weights)
        longest = context_limit(weights, tokenizer, job.max_length)
        sides = [
            encode_conversations(
                tokenizer, [messages_to_score(pair.prompt, getattr(pair, side), "") for pair in pair_list], longest
            )
            for side in ("chosen", "rejected")
        ]
        rewards += pair_rewards(criterion, pair_list, sides, predictor(weights, tokenizer, device))
    write_records(out, rewards)


def labellings(
    criterion: str, replies: Sequence[LabelledReply], encoded: Sequence[Ids], probabilities: Probabilities
) -> list[Labelling]:
    """Return a classifier's probabilities for held-out replies, with the binary human labels.

    encoded: token ids of each reply with its dialogue.
    """
    return [
        Labelling(
            id=f"{reply.dialogue}-{reply.tutor}",
            dialogue=reply.problem,
            criterion=criterion,
            label=binary_label(criterion, reply.labels[criterion]),
            probability=probability,
            tokens=len(ids),
        )
        for reply, ids, probability in zip(replies, encoded, probabilities(encoded), strict=True)
    ]


def pair_rewards(
    criterion: str, pairs: Sequence[Pair], sides: Sequence[Sequence[Ids]], probabilities: Probabilities
) -> list[PairReward]:
    """Return a classifier's probabilities for both replies of each pair.

    sides: token ids of the conversations that end with the chosen replies, and of those with the rejected replies.
    """
    chosen, rejected = map(probabilities, sides)
    return [
        PairReward(id=pair.id, problem=pair.problem, criterion=criterion, chosen=better, rejected=worse)
        for pair, better, worse in zip(pairs, chosen, rejected, strict=True)
    ]


def train_classifier(
    what: str,
    train: CriteriaTraining,
    base: Path,
    tokenizer: Any,
    examples: dict[str, list[Any]],
    folder: Path,
    identity: str,
    device: str,
) -> list[dict[str, Any]]:
    """Train one criterion's classifier, unless it is in `folder/model` already. Returns the loss of each step.

    what: name in log messages; examples: the columns `input_ids` and `labels`, with one row per labelled reply;
    identity: hash of everything that affects the training.
    """
    import transformers
    from datasets import Dataset

    from maieutic.rewards.checkpoints import SaveByTime, make_callback, resume_from
    from maieutic.rewards.loading import load_classifier
    from maieutic.rewards.progress_callback import ProgressLog

    checkpoint = resume_from(folder, identity)
    finished = folder / "model" / "history.json"
    if finished.exists():
        log.info("%s is already trained", what)
        return json.loads(finished.read_text(encoding="utf-8"))
    transformers.set_seed(train.seed)
    classifier = load_classifier(base, tokenizer, train.layers, labels=2)
    freeze_token_embeddings(classifier, train)
    # The classifier accepts `num_items_in_batch` but ignores it, so the trainer must scale the loss itself.
    kind = type("CriterionTrainer", (transformers.Trainer,), {"loss_is_scaled_for_ga": False})
    trainer = kind(
        model=classifier,
        args=transformers.TrainingArguments(**shared_arguments(train, folder, device)),
        train_dataset=Dataset.from_dict(examples),
        data_collator=transformers.DataCollatorWithPadding(tokenizer),
        callbacks=[make_callback(SaveByTime, train.checkpoint_seconds), make_callback(ProgressLog, what)],
    )
    trainer.train(resume_from_checkpoint=str(checkpoint) if checkpoint else None)
    history = [{"step": entry["step"], "loss": entry["loss"]} for entry in trainer.state.log_history if "loss" in entry]
    classifier.to("cpu").save_pretrained(folder / "model", safe_serialization=True)
    tokenizer.save_pretrained(folder / "model")
    write_json(finished, history)
    return history


def predictor(folder: Path, tokenizer: Any, device: str) -> Probabilities:
    """Return a function that predicts the probability of label 1 for conversations, given their token ids."""
    from maieutic.rewards.loading import load_classifier
    from maieutic.rewards.scorer import forward_of

    forward = forward_of(load_classifier(folder, tokenizer, labels=2), tokenizer.pad_token_id, device)

    def probabilities(conversations: Sequence[Ids]) -> list[float | None]:
        values: list[float | None] = [None] * len(conversations)
        for batch in token_batches([len(ids) for ids in conversations], TOKENS_PER_PASS[device]):
            for position, logit in zip(batch, forward([conversations[place] for place in batch]), strict=True):
                if math.isfinite(logit):
                    values[position] = 1 / (1 + math.exp(-max(-60.0, min(60.0, logit))))
        return values

    return probabilities


def write_classifier_history(
    name: str,
    model: CriteriaModel,
    split: Split,
    cut: int,
    longest: int,
    histories: dict[str, list[dict[str, Any]]],
    out: Path,
) -> None:
    """Write training.json: settings, counts and the loss of every step.

    cut: number of conversations with more than `longest` tokens; histories: losses by criterion.
    """
    dialogues = [len({reply.dialogue for reply in part}) for part in split]
    content = {
        "model": name,
        "settings": model.model_dump(include={"train"}),
        "longest": longest,
        "counts": {
            "train_dialogues": dialogues[0],
            "train_replies": len(split.train),
            "test_dialogues": dialogues[1],
            "test_replies": len(split.test),
            "overlong_cut": cut,
            "positive_share": {
                criterion: round(
                    sum(binary_label(criterion, reply.labels[criterion]) for reply in split.train) / len(split.train), 4
                )
                for criterion in model.train.criteria
            },
        },
        "history": histories,
    }
    write_json(out / "training.json", content)
