"""Supervised fine-tuning of a tutor on chats: the command, the checks before the training, and the model card.

The default settings are those of KMP-LM-7B (KMP-Bench, Appendix B). Heavy libraries are imported inside functions.
"""

from __future__ import annotations

import json
import logging
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from maieutic.config.curation import FineTuning
from maieutic.core.files import atomic_file, read_json_lines, sha256_of, write_json
from maieutic.core.jobs import Job
from maieutic.core.journal import canonical_digest, take_lock
from maieutic.curation.encoding import IGNORED, EncodedChats, encode_chats, load_chat_tokenizer
from maieutic.curation.training import (
    HISTORY,
    TutorTraining,
    in_four_bits,
    save_examples,
    train_in_processes,
    train_tutor,
)
from maieutic.rewards import loading
from maieutic.rewards.checkpoints import discard_checkpoints, resume_from
from maieutic.rewards.training import RUNTIME_ONLY, recreate_folder
from maieutic.serving.weights import write_manifest

log = logging.getLogger(__name__)
MACHINE_ONLY = RUNTIME_ONLY | {"needs"}


class TuneTutor(Job):
    """Job that fine-tunes a tutor. tuning: name of the tuning; train: training settings."""

    tuning: str
    train: FineTuning


def tune_tutor(
    *, job: TuneTutor, base: Path, examples: Path, sheet: Path, journal: Path, out: Path, gpus: int, threads: int
) -> None:
    """Fine-tune a tutor. Write its weights (safetensors), tokenizer, training.json and README.md, then the manifest.

    base: manifest of the base model's weights; examples: file of the training examples; sheet: datasheet of the
    examples; journal: folder of the checkpoints, from which a killed training resumes; out: the manifest. Raises
    UserError for a base without a chat template, and for examples that are longer than the context.
    """
    name, train, folder = job.tuning, job.train, out.parent
    with take_lock(journal.with_name(f"{journal.name}.lock")):
        device = loading.take_device(name, loading.JobDevices(gpus, threads), all_gpus=True)
        if train.lora and train.lora.quantized:
            in_four_bits(name, device)
        tokenizer = load_chat_tokenizer(name, train, base.parent)
        encoded = encode_chats(
            tokenizer, [record["messages"] for record in read_json_lines(examples)], name, train, base.parent
        )
        identity = canonical_digest([name, train.model_dump(exclude=MACHINE_ONLY), sha256_of(base), encoded])
        checkpoint = resume_from(journal, identity)
        if checkpoint:
            log.info("%s resumes from %s", name, checkpoint.name)
        made = journal / "made"  # temporary folder, moved to the output folder when it is complete
        recreate_folder(made)
        recreate_folder(journal / "examples")
        save_examples(encoded, journal / "examples")
        processes = train.workers(gpus)
        training = TutorTraining(
            tuning=name,
            train=train,
            base=base.parent,
            examples=journal / "examples",
            journal=journal,
            checkpoint=checkpoint,
            out=made,
            device=device,
            processes=processes,
            threads=max(1, threads // processes),
        )
        (train_tutor if processes == 1 else train_in_processes)(training)
        history = json.loads((made / HISTORY).read_text(encoding="utf-8"))
        (made / HISTORY).unlink()
        shutil.rmtree(folder, ignore_errors=True)
        shutil.move(made, folder)
        counts = training_counts(encoded)
        settings = train.model_dump(exclude=MACHINE_ONLY)
        write_json(
            folder / "training.json", {"tuning": name, "settings": settings, "counts": counts, "history": history}
        )
        write_card(name, train, counts, history, sheet, folder / "README.md")
        write_manifest(name, folder)
        discard_checkpoints(journal)


def training_counts(encoded: EncodedChats) -> dict[str, int]:
    """Return a training's numbers of examples, overlong examples, tokens, and tokens that count towards the loss."""
    return {
        "examples": len(encoded.ids),
        "overlong": encoded.overlong,
        "tokens": sum(map(len, encoded.ids)),
        "learned_tokens": sum(label != IGNORED for labels in encoded.labels for label in labels),
    }


def write_card(
    name: str, train: FineTuning, counts: dict[str, Any], history: Sequence[dict[str, Any]], sheet: Path, out: Path
) -> None:
    """Write the model card: base, mix, settings, losses, and the datasheet of the examples."""
    losses = [step["loss"] for step in history]
    datasheet = sheet.read_text(encoding="utf-8").rstrip()
    settings = train.model_dump(exclude={*MACHINE_ONLY, "base", "mix"}, exclude_none=True)
    lines = [
        f"# {name}",
        "",
        f"A tutor fine-tuned on chats by supervised learning, starting from the registry entry `{train.base}`.",
        "",
        f"- examples: {counts['examples']} ({counts['tokens']} tokens, {counts['learned_tokens']} of them learned)",
        f"- mix: {', '.join(f'{source} {share:g}' for source, share in train.mix.items())}",
        *(f"- {key}: {value}" for key, value in settings.items()),
        *(
            [f"- loss: {losses[0]:.3f} at the first step, {losses[-1]:.3f} at the last of {len(losses)} steps"]
            if losses
            else []
        ),
        "",
        "The licences of the base and of the data apply to this model. Its scores as a tutor are in the run's report.",
        "",
        "```json",
        datasheet,
        "```",
        "",
    ]
    with atomic_file(out) as handle:
        handle.write("\n".join(lines))
