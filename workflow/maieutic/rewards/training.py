"""Train a reward model on preference pairs with TRL: the paper's settings, no pair dropped without a word.

Heavy libraries are imported inside the functions: only the serving environment has them.
"""

from __future__ import annotations

import json
import logging
import shutil
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from maieutic.config.models import PreferenceTraining, RewardModel, Training
from maieutic.core.errors import UserError
from maieutic.core.files import sha256_of, write_json
from maieutic.core.jobs import Job
from maieutic.core.journal import digest, take_lock
from maieutic.core.records import Pair, read_records
from maieutic.datasets.sampling import ranked
from maieutic.rewards.loading import Machine
from maieutic.serving.conversations import conversation, encode, instruction
from maieutic.serving.weights import MANIFEST, write_manifest

log = logging.getLogger(__name__)
RUNTIME_ONLY = {"checkpoint_seconds"}  # cannot change what is learnt


class Encoded(NamedTuple):
    """Pairs as token ids: chosen_ids, rejected_ids, margin; and how many were left out or cut."""

    columns: dict[str, list[Any]]
    counts: dict[str, int]


def pairs_of_mix(mix: dict[str, float], files: Sequence[Path], seed: int) -> list[Pair]:
    """The pairs of a mix, in a fixed order. files: of its sources, each in the folder of its name.

    A larger share of a source contains every smaller one.
    """
    chosen: list[Pair] = []
    by_source = {path.parent.name: path for path in files}
    for source, share in sorted(mix.items()):
        pairs = read_records(by_source[source], Pair)
        kept = set(ranked((pair.id for pair in pairs), seed)[: max(1, round(share * len(pairs)))])
        chosen += [pair for pair in pairs if pair.id in kept]
    return chosen


def encode_pairs(tokenizer: Any, pairs: list[Pair], system: str, train: PreferenceTraining, longest: int) -> Encoded:
    """Tokenise; a pair with an over-long side is left out or cut, as the entry says, and counted."""
    texts = {
        name: [conversation(pair.prompt, getattr(pair, name), system if pair.tutoring else "") for pair in pairs]
        for name in ("chosen", "rejected")
    }
    sides = {name: encode(tokenizer, texts[name], None) for name in texts}
    overlong = {
        number
        for number in range(len(pairs))
        if max(len(sides["chosen"][number]), len(sides["rejected"][number])) > longest
    }
    kept = [number for number in range(len(pairs)) if train.overlong == "cut" or number not in overlong]
    if overlong and train.overlong == "cut":
        sides = {name: encode(tokenizer, texts[name], longest) for name in texts}
    columns: dict[str, list[Any]] = {f"{name}_ids": [sides[name][number] for number in kept] for name in sides}
    if train.margin:
        columns["margin"] = [pairs[number].margin for number in kept]
    counts = {
        "pairs": len(pairs),
        "trained": len(kept),
        "overlong_left_out": len(pairs) - len(kept),
        "overlong_cut": len(overlong) if train.overlong == "cut" else 0,
        **{f"pairs_{source}": n for source, n in sorted(Counter(pair.source for pair in pairs).items())},
    }
    return Encoded(columns, counts)


def shared_arguments(train: Training, out: Path, device: str) -> dict[str, Any]:
    """Trainer arguments that reward models and classifiers share. TRL's and transformers' own defaults differ."""
    gpu = device != "cpu"
    return {
        "output_dir": str(out),
        "learning_rate": train.learning_rate,
        "num_train_epochs": train.epochs,
        "per_device_train_batch_size": train.micro_batch,
        "gradient_accumulation_steps": train.batch_size // train.micro_batch,
        "weight_decay": train.weight_decay,
        "optim": "adamw_torch",
        "lr_scheduler_type": "linear",
        "warmup_steps": 0,
        "seed": train.seed,
        "data_seed": train.seed,
        "bf16": gpu,
        "use_cpu": not gpu,
        "gradient_checkpointing": gpu,
        "dataloader_pin_memory": gpu,
        "save_strategy": "no",
        "logging_strategy": "steps",
        "logging_steps": 1,
        "logging_nan_inf_filter": False,
        "report_to": "none",
        "disable_tqdm": True,
    }


def freeze(model: Any, train: Training) -> None:
    """Leave the token embeddings out of the training where the entry says so."""
    if train.freeze_embeddings:
        for parameter in model.get_input_embeddings().parameters():
            parameter.requires_grad_(False)


def training_identity(name: str, model: RewardModel, train: Training, base: Path, data: object) -> str:
    """A hash of everything that decides what is learnt: a checkpoint of another training is not gone on with."""
    settings = train.model_dump(exclude=RUNTIME_ONLY | {"pretrain"})  # its pairs are among the data
    return digest([name, model.prompt, settings, sha256_of(base / MANIFEST), data])


class TrainRewardModel(Job):
    """A reward model's entry, with what its training needs of it."""

    reward_model: str
    entry: RewardModel


def train_reward_model(
    *, job: TrainRewardModel, base: Path, pairs: list[Path], journal: Path, out: Path, gpus: int, threads: int
) -> None:
    """Write safetensors, tokenizer and training.json, and last the manifest `out` beside them.

    base: the manifest of the weights that it starts from; pairs: of each source, in the folder of its name; journal:
    the folder of the checkpoints, where a killed training goes on.
    """
    train_on(job.reward_model, job.entry, base.parent, pairs, journal, out.parent, Machine(gpus, threads))


def train_on(
    name: str, model: RewardModel, base: Path, files: Sequence[Path], journal: Path, out: Path, machine: Machine
) -> None:
    """Train on the pairs of some files, and write all that makes a model into the folder `out`."""
    from maieutic.rewards.checkpoints import discard
    from maieutic.rewards.loading import context_of, load_classifier, load_tokenizer, take_device

    train = model.train
    assert train is not None, "only a reward model with `train` is trained"
    with take_lock(journal.with_name(f"{journal.name}.lock")):
        device = take_device(name, machine)
        tokenizer = load_tokenizer(base)
        longest = context_of(base, tokenizer, train.max_length)
        system = instruction(model.prompt)
        first, encoded = (
            encode_pairs(tokenizer, pairs_of_mix(mix, files, train.seed), system, train, longest)
            for mix in (train.pretrain, train.mix)
        )
        for stage in (first, encoded):
            if stage.counts["pairs"] and not stage.counts["trained"]:
                place = f"models.{name}.train.max_length"
                raise UserError(place, f"every pair has more than {longest} tokens", "raise it")
        import transformers

        pretraining: dict[str, Any] = {}
        start, folder, data = base, journal, [encoded.columns]
        if train.pretrain:
            start, folder, data = journal / "pretraining/model", journal / "mix", [first.columns, encoded.columns]
            identity = training_identity(name, model, train, base, first.columns)
            pretraining = {
                "counts": first.counts,
                "history": pretrain(name, train, base, tokenizer, first, start, identity, device),
            }
        transformers.set_seed(train.seed)
        classifier = load_classifier(start, tokenizer, train.layers)
        freeze(classifier, train)
        history: list[dict[str, Any]] = []
        if train.mix:
            identity = training_identity(name, model, train, base, data)
            history = run_trainer(name, classifier, tokenizer, train, encoded, folder, identity, device)
        begin(out)
        classifier.to("cpu").save_pretrained(out, safe_serialization=True)
        tokenizer.save_pretrained(out)
        facts = {"longest": longest, "borrowed_pad": tokenizer.borrowed_pad, "counts": encoded.counts}
        if pretraining:
            facts["pretraining"] = pretraining
        write_history(name, model, facts, history, out)
        write_manifest(name, out)
        discard(journal)


def pretrain(
    name: str,
    train: PreferenceTraining,
    base: Path,
    tokenizer: Any,
    encoded: Encoded,
    out: Path,
    identity: str,
    device: str,
) -> list[dict[str, Any]]:
    """Train the first stage into the folder `out`, unless it is there. Returns the log of its steps."""
    import transformers

    from maieutic.rewards.checkpoints import resume_from
    from maieutic.rewards.loading import load_classifier

    resume_from(out.parent, identity)  # removes what another training has left
    finished = out / "history.json"
    if finished.exists():
        log.info("the pretraining of %s is finished already", name)
        return json.loads(finished.read_text(encoding="utf-8"))
    transformers.set_seed(train.seed)
    classifier = load_classifier(base, tokenizer, train.layers)
    freeze(classifier, train)
    history = kept_log(
        run_trainer(f"{name}, pretraining", classifier, tokenizer, train, encoded, out.parent, identity, device)
    )
    classifier.to("cpu").save_pretrained(out, safe_serialization=True)
    tokenizer.save_pretrained(out)
    write_json(finished, history)
    return history


def begin(out: Path) -> None:
    """An empty folder."""
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)


def run_trainer(
    name: str,
    classifier: Any,
    tokenizer: Any,
    train: PreferenceTraining,
    encoded: Encoded,
    journal: Path,
    identity: str,
    device: str,
) -> list[dict[str, Any]]:
    """Train, going on from a whole checkpoint of the same training. Returns the log, one entry a step."""
    from datasets import Dataset
    from trl import RewardConfig, RewardTrainer

    from maieutic.rewards.checkpoints import SaveByTime, callback, resume_from
    from maieutic.rewards.progress_callback import TellProgress

    arguments = RewardConfig(max_length=None, **shared_arguments(train, journal, device))
    trainer = RewardTrainer(
        model=classifier,
        args=arguments,
        train_dataset=Dataset.from_dict(encoded.columns),
        processing_class=tokenizer,
        callbacks=[callback(SaveByTime, train.checkpoint_seconds), callback(TellProgress, name)],
    )
    count = len(trainer.train_dataset)
    if count != encoded.counts["trained"]:
        raise RuntimeError(f"TRL dropped {encoded.counts['trained'] - count} pairs")
    checkpoint = resume_from(journal, identity)
    if checkpoint:
        log.info("%s goes on from %s", name, checkpoint.name)
    trainer.train(resume_from_checkpoint=str(checkpoint) if checkpoint else None)
    return [entry for entry in trainer.state.log_history if "loss" in entry]


def write_history(
    name: str, model: RewardModel, facts: dict[str, Any], history: list[dict[str, Any]], out: Path
) -> None:
    """training.json: settings, counts, the log of every step. Nothing in it differs between two equal runs."""
    content = {
        "model": name,
        "settings": model.model_dump(include={"train", "prompt"}),
        **facts,
        "history": kept_log(history),
    }
    write_json(out / "training.json", content)


def kept_log(history: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The entries of a trainer's log with what two equal runs have in common: no times."""
    kept = ("step", "loss", "accuracy", "margin", "mean_reward", "learning_rate", "grad_norm")
    return [{key: entry[key] for key in kept if key in entry} for entry in history]
