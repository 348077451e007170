"""Binary classifiers, one a criterion of MRBench, trained on its labels and split by dialogue (MathTutorBench, App. D).

Heavy libraries are imported inside the functions: only the serving environment has them.
"""

from __future__ import annotations

import json
import logging
import math
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from maieutic.config.datasets import Source
from maieutic.config.models import CriteriaModel, CriteriaTraining
from maieutic.core.files import sha256_of, write_json
from maieutic.core.jobs import Job
from maieutic.core.journal import digest, take_lock
from maieutic.core.records import Labelling, Pair, PairReward, read_records, write_records
from maieutic.datasets.mrbench import Labelled, labelled
from maieutic.datasets.sampling import ranked
from maieutic.datasets.sources import read_source
from maieutic.rewards.loading import Machine
from maieutic.rewards.scorer import Ids, batches
from maieutic.rewards.training import RUNTIME_ONLY, begin, freeze, shared_arguments
from maieutic.serving.conversations import conversation, encode
from maieutic.serving.weights import MANIFEST

log = logging.getLogger(__name__)
Probabilities = Callable[[Sequence[Ids]], list[float | None]]  # None: the classifier gave no number
BUDGET = {"cpu": 4096, "cuda": 65536}  # tokens of one forward pass
# "No" of most criteria. Of revealing: the right answer leaves the student nothing to do, a wrong one does.
MOST_NEGATIVE = {"Tutor_Tone": "Offensive", "Revealing_of_the_Answer": "Yes (and the answer is correct)"}


def binary(criterion: str, label: str) -> int:
    """Return 0 for the most negative label, 1 for every other (MathTutorBench, Appendix D)."""
    return int(label != MOST_NEGATIVE.get(criterion, "No"))


class Split(NamedTuple):
    """Labelled replies to learn from, and those of held-out dialogues."""

    train: list[Labelled]
    test: list[Labelled]


def split_by_dialogue(replies: Sequence[Labelled], share: float, seed: int) -> Split:
    """Hold out `share` of the problems with all their dialogues: two dialogues on one problem stay together.

    A share above 0 holds out one problem at least.
    """
    problems = {reply.problem for reply in replies}
    held = set(ranked(problems, seed)[: max(1, round(share * len(problems)))] if share else ())
    return Split(
        [reply for reply in replies if reply.problem not in held], [reply for reply in replies if reply.problem in held]
    )


def encode_replies(tokenizer: Any, replies: Sequence[Labelled], longest: int | None) -> list[Ids]:
    """Token ids of dialogue and reply; one longer than `longest` loses its oldest tokens."""
    return list(encode(tokenizer, [conversation(reply.messages, reply.reply, "") for reply in replies], longest))


class TrainCriteria(Job):
    """Criteria classifiers' entry, with what their training needs of it. form: of the file of labels."""

    classifier: str
    entry: CriteriaModel
    form: str


def train_criteria(
    *, job: TrainCriteria, base: Path, labels: Path, pairs: Path, journal: Path, out: Path, gpus: int, threads: int
) -> None:
    """Write what classifiers say of held-out dialogues (`out`), bridge.jsonl and training.json beside it.

    A killed job goes on after the criteria that it had finished: each one's weights stay in `journal` until all are.

    base: the manifest of the weights that they start from; labels: MRBench's file; pairs: the test pairs.
    """
    records = read_source(labels, job.form)
    train_all(job, base.parent, records, pairs, journal, out.parent, Machine(gpus, threads))


def train_all(
    job: TrainCriteria,
    base: Path,
    records: list[Source],
    pairs: Path,
    journal: Path,
    out: Path,
    machine: Machine,
) -> None:
    """Train one classifier a criterion; write heldout.jsonl (Labelling), bridge.jsonl (PairReward), training.json."""
    from maieutic.rewards.checkpoints import discard
    from maieutic.rewards.loading import context_of, load_tokenizer, take_device

    name, model, train = job.classifier, job.entry, job.entry.train
    with take_lock(journal.with_name(f"{journal.name}.lock")):
        device = take_device(name, machine)
        tokenizer = load_tokenizer(base)
        longest = context_of(base, tokenizer, train.max_length)
        split = split_by_dialogue(labelled(records), train.test_share, train.seed)
        learnt, tested = (encode_replies(tokenizer, part, longest) for part in split)
        judged = read_records(pairs, Pair)
        sides = [
            encode(tokenizer, [conversation(pair.prompt, getattr(pair, side), "") for pair in judged], longest)
            for side in ("chosen", "rejected")
        ]
        begin(out)
        heldout: list[Labelling] = []
        bridge: list[PairReward] = []
        histories = {}
        settings = train.model_dump(exclude=RUNTIME_ONLY | {"criteria"})
        common = digest([settings, sha256_of(base / MANIFEST), learnt])
        for criterion in train.criteria:
            labels = [binary(criterion, reply.labels[criterion]) for reply in split.train]
            identity = digest([common, labels])
            folder = journal / criterion
            examples: dict[str, list[Any]] = {"input_ids": list(learnt), "labels": labels}
            histories[criterion] = train_one(
                f"{name}/{criterion}", train, base, tokenizer, examples, folder, identity, device
            )
            probabilities = predictor(folder / "model", tokenizer, device)
            heldout += labellings(criterion, split.test, tested, probabilities)
            bridge += pair_rewards(criterion, judged, sides, probabilities)
        for criterion in train.criteria:
            shutil.copytree(journal / criterion / "model", out / criterion)
        write_records(out / "heldout.jsonl", heldout)
        write_records(out / "bridge.jsonl", bridge)
        encoded = [ids for part in split for ids in encode_replies(tokenizer, part, None)]
        tell(name, model, split, sum(len(ids) > longest for ids in encoded), longest, histories, out)
        discard(journal)


class ClassifyPairs(Job):
    """Trained classifiers, one a criterion, and the most tokens that they read."""

    classifier: str
    criteria: list[str]
    max_length: int | None = None


def classify_pairs(*, job: ClassifyPairs, trained: Path, pairs: Path, out: Path, gpus: int, threads: int) -> None:
    """Write what trained classifiers say of both replies of every pair of a set. trained: their training.json."""
    from maieutic.rewards.loading import context_of, load_tokenizer, take_device

    device = take_device(job.classifier, Machine(gpus, threads))
    judged = read_records(pairs, Pair)
    rewards: list[PairReward] = []
    for criterion in job.criteria:
        weights = trained.parent / criterion
        tokenizer = load_tokenizer(weights)
        longest = context_of(weights, tokenizer, job.max_length)
        sides = [
            encode(tokenizer, [conversation(pair.prompt, getattr(pair, side), "") for pair in judged], longest)
            for side in ("chosen", "rejected")
        ]
        rewards += pair_rewards(criterion, judged, sides, predictor(weights, tokenizer, device))
    write_records(out, rewards)


def labellings(
    criterion: str, replies: Sequence[Labelled], encoded: Sequence[Ids], probabilities: Probabilities
) -> list[Labelling]:
    """What a classifier says of held-out replies, beside what people say."""
    return [
        Labelling(
            id=f"{reply.dialogue}-{reply.tutor}",
            dialogue=reply.problem,
            criterion=criterion,
            label=binary(criterion, reply.labels[criterion]),
            probability=probability,
            tokens=len(ids),
        )
        for reply, ids, probability in zip(replies, encoded, probabilities(encoded), strict=True)
    ]


def pair_rewards(
    criterion: str, pairs: Sequence[Pair], sides: Sequence[Sequence[Ids]], probabilities: Probabilities
) -> list[PairReward]:
    """What a classifier says of both replies of every pair. sides: the chosen ones' tokens, the rejected ones'."""
    chosen, rejected = map(probabilities, sides)
    return [
        PairReward(id=pair.id, problem=pair.problem, criterion=criterion, chosen=better, rejected=worse)
        for pair, better, worse in zip(pairs, chosen, rejected, strict=True)
    ]


def train_one(
    what: str,
    train: CriteriaTraining,
    base: Path,
    tokenizer: Any,
    examples: dict[str, list[Any]],
    folder: Path,
    identity: str,
    device: str,
) -> list[dict[str, Any]]:
    """Train one criterion's classifier into folder/model, unless it is there. Returns the log of its steps.

    examples: `input_ids` and `labels`, one of each a labelled reply.
    """
    import transformers
    from datasets import Dataset

    from maieutic.rewards.checkpoints import SaveByTime, callback, resume_from
    from maieutic.rewards.loading import load_classifier
    from maieutic.rewards.progress_callback import TellProgress

    checkpoint = resume_from(folder, identity)
    finished = folder / "model" / "history.json"
    if finished.exists():
        log.info("%s is trained already", what)
        return json.loads(finished.read_text(encoding="utf-8"))
    transformers.set_seed(train.seed)
    classifier = load_classifier(base, tokenizer, train.layers, labels=2)
    freeze(classifier, train)
    # A sequence classifier takes any keyword and ignores how many items a step has: its loss is not scaled for it.
    kind = type("CriterionTrainer", (transformers.Trainer,), {"loss_is_scaled_for_ga": False})
    trainer = kind(
        model=classifier,
        args=transformers.TrainingArguments(**shared_arguments(train, folder, device)),
        train_dataset=Dataset.from_dict(examples),
        data_collator=transformers.DataCollatorWithPadding(tokenizer),
        callbacks=[callback(SaveByTime, train.checkpoint_seconds), callback(TellProgress, what)],
    )
    trainer.train(resume_from_checkpoint=str(checkpoint) if checkpoint else None)
    history = [{"step": entry["step"], "loss": entry["loss"]} for entry in trainer.state.log_history if "loss" in entry]
    classifier.to("cpu").save_pretrained(folder / "model", safe_serialization=True)
    tokenizer.save_pretrained(folder / "model")
    write_json(finished, history)
    return history


def predictor(folder: Path, tokenizer: Any, device: str) -> Probabilities:
    """A function from token ids to the probabilities of label 1."""
    from maieutic.rewards.loading import load_classifier
    from maieutic.rewards.scorer import forward_of

    forward = forward_of(load_classifier(folder, tokenizer, labels=2), tokenizer.pad_token_id, device)

    def probabilities(conversations: Sequence[Ids]) -> list[float | None]:
        values: list[float | None] = [None] * len(conversations)
        for batch in batches([len(ids) for ids in conversations], BUDGET[device]):
            for position, logit in zip(batch, forward([conversations[place] for place in batch]), strict=True):
                if math.isfinite(logit):
                    values[position] = 1 / (1 + math.exp(-max(-60.0, min(60.0, logit))))
        return values

    return probabilities


def tell(
    name: str,
    model: CriteriaModel,
    split: Split,
    cut: int,
    longest: int,
    histories: dict[str, list[dict[str, Any]]],
    out: Path,
) -> None:
    """training.json: settings, counts and the log of every step."""
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
                    sum(binary(criterion, reply.labels[criterion]) for reply in split.train) / len(split.train), 4
                )
                for criterion in model.train.criteria
            },
        },
        "history": histories,
    }
    write_json(out / "training.json", content)
