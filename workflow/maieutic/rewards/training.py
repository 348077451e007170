"""Training of a reward model on preference pairs with TRL and MathTutorBench's settings. Left-out pairs are counted.

Heavy libraries are imported inside the functions, since only the serving environment has them.
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
from maieutic.core.journal import canonical_digest, take_lock
from maieutic.core.records import Pair, read_records
from maieutic.datasets.sampling import ranked_by_seed
from maieutic.rewards.loading import JobDevices
from maieutic.serving.conversations import encode_conversations, messages_to_score, system_instruction
from maieutic.serving.weights import MANIFEST, write_manifest

log = logging.getLogger(__name__)
RUNTIME_ONLY = {"checkpoint_seconds"}  # settings that do not affect what is learnt


class EncodedPairs(NamedTuple):
    """Pairs as token ids, and counts of pairs. columns: lists `chosen_ids`, `rejected_ids` and optionally `margin`."""

    columns: dict[str, list[Any]]
    counts: dict[str, int]


def pairs_of_mix(mix: dict[str, float], files: Sequence[Path], seed: int) -> list[Pair]:
    """Return the pairs of a mix, in a fixed order. A larger share of a source contains all pairs of a smaller share.

    mix: share of the pairs to take from each source; files: pair file of each source, in a folder named after it.
    """
    chosen: list[Pair] = []
    by_source = {path.parent.name: path for path in files}
    for source, share in sorted(mix.items()):
        pairs = read_records(by_source[source], Pair)
        kept = set(ranked_by_seed((pair.id for pair in pairs), seed)[: max(1, round(share * len(pairs)))])
        chosen += [pair for pair in pairs if pair.id in kept]
    return chosen


def encode_pairs(
    tokenizer: Any, pairs: list[Pair], system: str, train: PreferenceTraining, longest: int
) -> EncodedPairs:
    """Tokenise pairs. A pair with a conversation of more than `longest` tokens is left out or cut, and counted.

    system: text of the system message; train: settings, of which `overlong` decides between leaving out and cutting.
    """
    texts = {
        name: [messages_to_score(pair.prompt, getattr(pair, name), system if pair.tutoring else "") for pair in pairs]
        for name in ("chosen", "rejected")
    }
    sides = {name: encode_conversations(tokenizer, texts[name], None) for name in texts}
    overlong = {
        number
        for number in range(len(pairs))
        if max(len(sides["chosen"][number]), len(sides["rejected"][number])) > longest
    }
    kept = [number for number in range(len(pairs)) if train.overlong == "cut" or number not in overlong]
    if overlong and train.overlong == "cut":
        sides = {name: encode_conversations(tokenizer, texts[name], longest) for name in texts}
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
    return EncodedPairs(columns, counts)


def shared_arguments(train: Training, out: Path, device: str) -> dict[str, Any]:
    """Return the trainer arguments common to reward models and classifiers, whose trainers have different defaults."""
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


def freeze_token_embeddings(model: Any, train: Training) -> None:
    """Exclude the token embeddings from training if the entry sets `freeze_embeddings`."""
    if train.freeze_embeddings:
        for parameter in model.get_input_embeddings().parameters():
            parameter.requires_grad_(False)


def training_identity(name: str, model: RewardModel, train: Training, base: Path, data: object) -> str:
    """Return a hash of everything that determines what is learnt. Only checkpoints with an equal hash are resumed.

    base: folder of the base weights; data: the training pairs as token ids.
    """
    settings = train.model_dump(exclude=RUNTIME_ONLY | {"pretrain"})  # the pretraining pairs are part of `data`
    return canonical_digest([name, model.prompt, settings, sha256_of(base / MANIFEST), data])


class TrainRewardModel(Job):
    """Job that trains a reward model. entry: registry entry of the model."""

    reward_model: str
    entry: RewardModel


def train_reward_model(
    *, job: TrainRewardModel, base: Path, pairs: list[Path], journal: Path, out: Path, gpus: int, threads: int
) -> None:
    """Train a reward model. Writes its weights (safetensors), tokenizer and training.json, and then the manifest `out`.

    base: manifest of the base weights; pairs: pair file of each source, in a folder named after the source;
    journal: folder of the checkpoints, from which a killed training resumes.
    """
    train_on_pairs(job.reward_model, job.entry, base.parent, pairs, journal, out.parent, JobDevices(gpus, threads))


def train_on_pairs(
    name: str, model: RewardModel, base: Path, files: Sequence[Path], journal: Path, out: Path, machine: JobDevices
) -> None:
    """Train a reward model on pairs from `files`, and write all files of the model into the folder `out`."""
    from maieutic.rewards.checkpoints import discard_checkpoints
    from maieutic.rewards.loading import context_limit, load_classifier, load_tokenizer, take_device

    train = model.train
    assert train is not None, "the registry entry of a reward model to train must have `train`"
    with take_lock(journal.with_name(f"{journal.name}.lock")):
        device = take_device(name, machine)
        tokenizer = load_tokenizer(base)
        longest = context_limit(base, tokenizer, train.max_length)
        system = system_instruction(model.prompt)
        first, encoded = (
            encode_pairs(tokenizer, pairs_of_mix(mix, files, train.seed), system, train, longest)
            for mix in (train.pretrain, train.mix)
        )
        for stage in (first, encoded):
            if stage.counts["pairs"] and not stage.counts["trained"]:
                place = f"models.{name}.train.max_length"
                raise UserError(
                    place, f"every pair has more than {longest} tokens", "raise max_length, or set train.overlong: cut"
                )
        import transformers

        pretraining: dict[str, Any] = {}
        start, folder, data = base, journal, [encoded.columns]
        if train.pretrain:
            start, folder, data = journal / "pretraining/model", journal / "mix", [first.columns, encoded.columns]
            identity = training_identity(name, model, train, base, first.columns)
            pretraining = {
                "counts": first.counts,
                "history": train_first_stage(name, train, base, tokenizer, first, start, identity, device),
            }
        transformers.set_seed(train.seed)
        classifier = load_classifier(start, tokenizer, train.layers)
        freeze_token_embeddings(classifier, train)
        history: list[dict[str, Any]] = []
        if train.mix:
            identity = training_identity(name, model, train, base, data)
            history = run_trainer(name, classifier, tokenizer, train, encoded, folder, identity, device)
        recreate_folder(out)
        classifier.to("cpu").save_pretrained(out, safe_serialization=True)
        tokenizer.save_pretrained(out)
        facts = {"longest": longest, "borrowed_pad": tokenizer.borrowed_pad, "counts": encoded.counts}
        if pretraining:
            facts["pretraining"] = pretraining
        write_history(name, model, facts, history, out)
        write_manifest(name, out)
        discard_checkpoints(journal)


def train_first_stage(
    name: str,
    train: PreferenceTraining,
    base: Path,
    tokenizer: Any,
    encoded: EncodedPairs,
    out: Path,
    identity: str,
    device: str,
) -> list[dict[str, Any]]:
    """Train the first stage and save the model in `out`, unless it is already there. Returns the log of the steps.

    identity: hash of everything that determines what is learnt.
    """
    import transformers

    from maieutic.rewards.checkpoints import resume_from
    from maieutic.rewards.loading import load_classifier

    resume_from(out.parent, identity)  # called only because it removes files of other trainings
    finished = out / "history.json"
    if finished.exists():
        log.info("the pretraining of %s is already finished", name)
        return json.loads(finished.read_text(encoding="utf-8"))
    transformers.set_seed(train.seed)
    classifier = load_classifier(base, tokenizer, train.layers)
    freeze_token_embeddings(classifier, train)
    history = reproducible_log(
        run_trainer(f"{name}, pretraining", classifier, tokenizer, train, encoded, out.parent, identity, device)
    )
    classifier.to("cpu").save_pretrained(out, safe_serialization=True)
    tokenizer.save_pretrained(out)
    write_json(finished, history)
    return history


def recreate_folder(out: Path) -> None:
    """Create an empty folder, replacing an existing one."""
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)


def run_trainer(
    name: str,
    classifier: Any,
    tokenizer: Any,
    train: PreferenceTraining,
    encoded: EncodedPairs,
    journal: Path,
    identity: str,
    device: str,
) -> list[dict[str, Any]]:
    """Train a classifier, resuming from a complete checkpoint of the same training if there is one.

    Returns the log, with one entry per step. journal: folder of the checkpoints; identity: hash of everything that
    determines what is learnt.
    """
    from datasets import Dataset
    from trl import RewardConfig, RewardTrainer

    from maieutic.rewards.checkpoints import SaveByTime, make_callback, resume_from
    from maieutic.rewards.progress_callback import ProgressLog

    arguments = RewardConfig(max_length=None, **shared_arguments(train, journal, device))
    trainer = RewardTrainer(
        model=classifier,
        args=arguments,
        train_dataset=Dataset.from_dict(encoded.columns),
        processing_class=tokenizer,
        callbacks=[make_callback(SaveByTime, train.checkpoint_seconds), make_callback(ProgressLog, name)],
    )
    count = len(trainer.train_dataset)
    if count != encoded.counts["trained"]:
        raise RuntimeError(f"TRL dropped {encoded.counts['trained'] - count} pairs")
    checkpoint = resume_from(journal, identity)
    if checkpoint:
        log.info("%s resumes from %s", name, checkpoint.name)
    trainer.train(resume_from_checkpoint=str(checkpoint) if checkpoint else None)
    return [entry for entry in trainer.state.log_history if "loss" in entry]


def write_history(
    name: str, model: RewardModel, facts: dict[str, Any], history: list[dict[str, Any]], out: Path
) -> None:
    """Write training.json: settings, counts and the log of every step. Two equal runs write the same content.

    facts: further keys of the file.
    """
    content = {
        "model": name,
        "settings": model.model_dump(include={"train", "prompt"}),
        **facts,
        "history": reproducible_log(history),
    }
    write_json(out / "training.json", content)


def reproducible_log(history: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the entries of a trainer's log without the keys whose values differ between equal runs, such as times."""
    kept = ("step", "loss", "accuracy", "margin", "mean_reward", "learning_rate", "grad_norm")
    return [{key: entry[key] for key in kept if key in entry} for entry in history]
