"""Supervised fine-tuning of a tutor on chats (TRL's SFTTrainer): what it loses is counted on the tutor's turns alone.

Defaults of every setting: KMP-LM-7B (KMP-Bench, Appendix B). Heavy libraries are imported inside the functions.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from maieutic.config.curation import FineTuning
from maieutic.core.errors import UserError
from maieutic.core.files import sha256_of, whole_file, write_json
from maieutic.core.jobs import Job
from maieutic.core.journal import digest, take_lock
from maieutic.curation.sets import read_lines
from maieutic.rewards import loading
from maieutic.rewards.checkpoints import discard, resume_from
from maieutic.rewards.training import RUNTIME_ONLY, begin, freeze, shared_arguments
from maieutic.serving.weights import write_manifest

log = logging.getLogger(__name__)
IGNORED = -100  # label of a token that no loss counts
KEPT = ("step", "loss", "learning_rate", "grad_norm", "mean_token_accuracy")


class TuneTutor(Job):
    """A tutor and how it is fine-tuned."""

    tuning: str
    train: FineTuning


class Encoded(NamedTuple):
    """Token ids of chats, and their labels: the ids where the loss counts, else IGNORED."""

    ids: list[list[int]]
    labels: list[list[int]]
    overlong: int


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
        device = loading.take_device(name, loading.Machine(gpus, threads))
        tokenizer = load_tokenizer(name, train, base.parent)
        encoded = encode(tokenizer, [record["messages"] for record in read_lines(examples)], name, train)
        import transformers

        transformers.set_seed(train.seed)
        model = load_model(base.parent, train)
        freeze(model, train)
        identity = digest([name, train.model_dump(exclude=RUNTIME_ONLY), sha256_of(base), encoded])
        history, trained = run_trainer(name, model, tokenizer, train, encoded, journal, identity, device)
        begin(folder)
        save(trained, tokenizer, base.parent, folder)
        counts = {"examples": len(encoded.ids), "overlong": encoded.overlong, "tokens": sum(map(len, encoded.ids))}
        counts["learned_tokens"] = sum(label != IGNORED for labels in encoded.labels for label in labels)
        write_json(
            folder / "training.json",
            {"tuning": name, "settings": train.model_dump(exclude=RUNTIME_ONLY), "counts": counts, "history": history},
        )
        write_card(name, train, counts, history, sheet, folder / "README.md")
        write_manifest(name, folder)
        discard(journal)


def load_tokenizer(name: str, train: FineTuning, base: Path) -> Any:
    """The base's tokenizer, with something to pad with. Raises UserError for one without a chat template."""
    tokenizer = loading.load_tokenizer(base)
    if not tokenizer.chat_template:
        raise UserError(
            f"tunings.{name}.base",
            f"{train.base} has no chat template",
            "name a base that has one (an instruct model), or add chat_template.jinja to its folder",
        )
    return tokenizer


def encode(tokenizer: Any, chats: Sequence[Sequence[dict[str, str]]], name: str, train: FineTuning) -> Encoded:
    """Token ids and labels of chats; a loss counts the assistant's words and the mark that ends them.

    Raises UserError for chats longer than the context, unless they are to be left out.
    """
    pairs = [encode_chat(tokenizer, chat, train.base) for chat in chats]
    fits = [(ids, labels) for ids, labels in pairs if len(ids) <= train.max_length]
    overlong = len(pairs) - len(fits)
    place = f"tunings.{name}"
    if overlong and (train.overlong == "refuse" or not fits):
        longest = max(len(ids) for ids, _ in pairs)
        problem = f"{overlong} of {len(pairs)} examples exceed the context of {train.max_length} tokens"
        raise UserError(
            f"{place}.max_length", f"{problem}, the longest has {longest}", f"raise it to {longest}, or overlong: drop"
        )
    return Encoded([ids for ids, _ in fits], [labels for _, labels in fits], overlong)


def encode_chat(tokenizer: Any, chat: Sequence[dict[str, str]], base: str) -> tuple[list[int], list[int]]:
    """Token ids of one chat, and the labels.

    What a template adds for an assistant's turn is found by laying the chat out up to before it, with the mark that
    asks for the turn, and up to after it: the second begins with the first, or the template is refused.
    """
    text = laid_out(tokenizer, chat, False)
    spans = []
    for place, message in enumerate(chat):
        if message["role"] != "assistant":
            continue
        before = laid_out(tokenizer, chat[:place], True)
        after = laid_out(tokenizer, chat[: place + 1], False)
        if not (after.startswith(before) and text.startswith(after.rstrip())):
            raise UserError(
                base,
                "its chat template lays a turn out differently when others follow it",
                "name a base whose template does not",
            )
        # The blank after the mark that ends a turn is nobody's word.
        spans.append((len(before), len(after.rstrip())))
    coded = tokenizer(text, add_special_tokens=False, return_offsets_mapping=True)
    labels = [
        token if any(start <= begin_ and end <= stop and end > begin_ for start, stop in spans) else IGNORED
        for token, (begin_, end) in zip(coded["input_ids"], coded["offset_mapping"], strict=True)
    ]
    return list(coded["input_ids"]), labels


def laid_out(tokenizer: Any, chat: Sequence[dict[str, str]], asks: bool) -> str:
    """A chat as the template's text. asks: with the mark after which the assistant speaks."""
    return str(tokenizer.apply_chat_template(list(chat), tokenize=False, add_generation_prompt=asks))


def load_model(base: Path, train: FineTuning) -> Any:
    """The base as a language model, with adapters where the entry says so."""
    import torch
    from transformers import AutoModelForCausalLM

    on_gpu = torch.cuda.is_available()
    options: dict[str, Any] = {"dtype": torch.bfloat16 if on_gpu else torch.float32}
    if train.lora and train.lora.quantized:
        from transformers import BitsAndBytesConfig

        if not on_gpu:
            raise UserError("lora.quantized", "QLoRA needs a GPU", "set quantized: false")
        options["quantization_config"] = BitsAndBytesConfig(
            load_in_4bit=True, bnb_4bit_quant_type="nf4", bnb_4bit_compute_dtype=torch.bfloat16
        )
    model = AutoModelForCausalLM.from_pretrained(base, **options)
    if train.layers is not None:
        model.model.layers = model.model.layers[: train.layers]
        model.config.num_hidden_layers = train.layers
        if getattr(model.config, "layer_types", None):
            model.config.layer_types = model.config.layer_types[: train.layers]
    return model


def run_trainer(
    name: str,
    model: Any,
    tokenizer: Any,
    train: FineTuning,
    encoded: Encoded,
    journal: Path,
    identity: str,
    device: str,
) -> tuple[list[dict[str, Any]], Any]:
    """Train, going on from a whole checkpoint of the same training. Returns the log, and the model as it is served."""
    from datasets import Dataset
    from trl import SFTConfig, SFTTrainer

    from maieutic.rewards.checkpoints import SaveByTime, callback
    from maieutic.rewards.progress_callback import TellProgress

    shared = shared_arguments(train, journal, device)
    shared |= {"lr_scheduler_type": train.scheduler, "warmup_steps": train.warmup, "max_steps": train.steps or -1}
    arguments = SFTConfig(max_length=train.max_length, packing=train.packing, eos_token=None, **shared)
    count = len(encoded.ids)
    trainer = SFTTrainer(
        model=model,
        args=arguments,
        train_dataset=Dataset.from_dict({"input_ids": encoded.ids, "labels": encoded.labels}),
        processing_class=tokenizer,
        peft_config=adapters(train),
        callbacks=[callback(SaveByTime, train.checkpoint_seconds), callback(TellProgress, name)],
    )
    if not train.packing and len(trainer.train_dataset) != count:
        raise RuntimeError(f"TRL dropped {count - len(trainer.train_dataset)} examples")
    checkpoint = resume_from(journal, identity)
    if checkpoint:
        log.info("%s goes on from %s", name, checkpoint.name)
    trainer.train(resume_from_checkpoint=str(checkpoint) if checkpoint else None)
    trained = trainer.model.merge_and_unload() if train.lora else trainer.model
    history = [
        {key: entry[key] for key in KEPT if key in entry} for entry in trainer.state.log_history if "loss" in entry
    ]
    return history, trained


def adapters(train: FineTuning) -> Any:
    """The settings of low-rank adapters on every linear layer; None without."""
    if train.lora is None:
        return None
    from peft import LoraConfig

    return LoraConfig(
        r=train.lora.rank,
        lora_alpha=train.lora.alpha,
        lora_dropout=train.lora.dropout,
        target_modules="all-linear",
        task_type="CAUSAL_LM",
    )


def save(model: Any, tokenizer: Any, base: Path, folder: Path) -> None:
    """Safetensors in the base's precision, and the tokenizer."""
    from transformers import AutoConfig

    dtype = getattr(AutoConfig.from_pretrained(base), "dtype", None)
    model = model.to("cpu")
    if dtype is not None:
        model = model.to(dtype)
    model.save_pretrained(folder, safe_serialization=True)
    tokenizer.save_pretrained(folder)


def write_card(
    name: str, train: FineTuning, counts: dict[str, Any], history: Sequence[dict[str, Any]], sheet: Path, out: Path
) -> None:
    """The model card: base, data, settings, and what it has not been measured for."""
    losses = [entry["loss"] for entry in history]
    text = sheet.read_text(encoding="utf-8").rstrip()
    settings = train.model_dump(exclude={*RUNTIME_ONLY, "base", "mix"}, exclude_none=True)
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
        text,
        "```",
        "",
    ]
    with whole_file(out) as handle:
        handle.write("\n".join(lines))
