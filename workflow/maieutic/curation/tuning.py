"""Supervised fine-tuning of a tutor on chats: the command, its checks before any training, and the model card.

Defaults of every setting: KMP-LM-7B (KMP-Bench, Appendix B). Heavy libraries are imported inside the functions.
"""

from __future__ import annotations

import json
import logging
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from maieutic.config.curation import FineTuning
from maieutic.core.files import read_lines, sha256_of, whole_file, write_json
from maieutic.core.jobs import Job
from maieutic.core.journal import digest, take_lock
from maieutic.curation.encoding import IGNORED, Encoded, encode, load_tokenizer
from maieutic.curation.processes import train_together
from maieutic.curation.training import HISTORY, Training, in_four_bits, save_examples, train_tutor
from maieutic.rewards import loading
from maieutic.rewards.checkpoints import discard, resume_from
from maieutic.rewards.training import RUNTIME_ONLY, begin
from maieutic.serving.weights import write_manifest

log = logging.getLogger(__name__)
MACHINE_ONLY = RUNTIME_ONLY | {"needs"}


class TuneTutor(Job):
    """A tutor and how it is fine-tuned."""

    tuning: str
    train: FineTuning


def tune_tutor(
    *, job: TuneTutor, base: Path, examples: Path, sheet: Path, journal: Path, out: Path, gpus: int, threads: int
) -> None:
    """Write safetensors, tokenizer, training.json and README.md, and last the manifest `out` beside them.

    base: the manifest of the weights that it starts from; sheet: of the examples; journal: the folder of the
    checkpoints, where a killed training goes on. Raises UserError for a base without a chat template, and for examples
    that are longer than the context.
    """
    name, train, folder = job.tuning, job.train, out.parent
    with take_lock(journal.with_name(f"{journal.name}.lock")):
        device = loading.take_device(name, loading.Machine(gpus, threads), all_gpus=True)
        if train.lora and train.lora.quantized:
            in_four_bits(name, device)
        tokenizer = load_tokenizer(name, train, base.parent)
        encoded = encode(tokenizer, [record["messages"] for record in read_lines(examples)], name, train, base.parent)
        identity = digest([name, train.model_dump(exclude=MACHINE_ONLY), sha256_of(base), encoded])
        checkpoint = resume_from(journal, identity)
        if checkpoint:
            log.info("%s goes on from %s", name, checkpoint.name)
        made = journal / "made"  # what is half written is no output
        begin(made)
        begin(journal / "examples")
        save_examples(encoded, journal / "examples")
        processes = train.workers(gpus)
        training = Training(
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
        (train_tutor if processes == 1 else train_together)(training)
        history = json.loads((made / HISTORY).read_text(encoding="utf-8"))
        (made / HISTORY).unlink()
        shutil.rmtree(folder, ignore_errors=True)
        shutil.move(made, folder)
        counts = counts_of(encoded)
        settings = train.model_dump(exclude=MACHINE_ONLY)
        write_json(
            folder / "training.json", {"tuning": name, "settings": settings, "counts": counts, "history": history}
        )
        write_card(name, train, counts, history, sheet, folder / "README.md")
        write_manifest(name, folder)
        discard(journal)


def counts_of(encoded: Encoded) -> dict[str, int]:
    """Examples and tokens of a training, and of the tokens those that the loss counts."""
    return {
        "examples": len(encoded.ids),
        "overlong": encoded.overlong,
        "tokens": sum(map(len, encoded.ids)),
        "learned_tokens": sum(label != IGNORED for labels in encoded.labels for label in labels),
    }


def write_card(
    name: str, train: FineTuning, counts: dict[str, Any], history: Sequence[dict[str, Any]], sheet: Path, out: Path
) -> None:
    """The model card: base, data, settings, and what it has not been measured for."""
    losses = [one["loss"] for one in history]
    told = sheet.read_text(encoding="utf-8").rstrip()
    settings = train.model_dump(exclude={*MACHINE_ONLY, "base", "mix"}, exclude_none=True)
    lines = [
        f"# {name}",
        "",
        f"A tutor fine-tuned on chats by supervised learning, from the registry's `{train.base}`.",
        "",
        f"- examples: {counts['examples']} ({counts['tokens']} tokens, {counts['learned_tokens']} of them learned)",
        f"- mix: {', '.join(f'{source} {share:g}' for source, share in train.mix.items())}",
        *(f"- {key}: {value}" for key, value in settings.items()),
        *(
            [f"- loss: {losses[0]:.3f} at the first step, {losses[-1]:.3f} at the last of {len(losses)}"]
            if losses
            else []
        ),
        "",
        "Its licence is bound by those of its base and of its data. Its numbers as a tutor stand in the run's report.",
        "",
        "```json",
        told,
        "```",
        "",
    ]
    with whole_file(out) as handle:
        handle.write("\n".join(lines))
