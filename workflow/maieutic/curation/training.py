"""Supervised fine-tuning by TRL's SFTTrainer, in one process or in several that share it.

Heavy libraries are imported inside the functions: only the serving environment has them.
"""

from __future__ import annotations

import logging
import os
import shutil
import sys
import time
from pathlib import Path
from typing import Any

from maieutic.config.curation import FineTuning
from maieutic.core.errors import UserError
from maieutic.core.files import write_json
from maieutic.core.jobs import Job
from maieutic.curation.encoding import Encoded, load_tokenizer
from maieutic.rewards.checkpoints import SaveByTime, callback
from maieutic.rewards.progress_callback import TellProgress
from maieutic.rewards.training import freeze, shared_arguments

KEPT = ("step", "loss", "learning_rate", "grad_norm", "mean_token_accuracy")
HISTORY = "history.json"
ADAPTERS = "adapters"


class Training(Job):
    """One training, as each of its processes gets it.

    examples: the folder of the encoded ones, as `save_examples` writes it; checkpoint: where it goes on; out: the
    folder of the weights.
    """

    tuning: str
    train: FineTuning
    base: Path
    examples: Path
    journal: Path
    checkpoint: Path | None
    out: Path
    device: str
    processes: int
    threads: int


def save_examples(encoded: Encoded, folder: Path) -> None:
    """Write encoded chats where every process of a training maps them into its memory."""
    from datasets import Dataset

    Dataset.from_dict({"input_ids": encoded.ids, "labels": encoded.labels}).save_to_disk(folder)


def train_tutor(training: Training) -> None:
    """Train, and write the weights, the tokenizer and the log of the steps (HISTORY): one process of several does.

    Every process of a training runs this; each has its own share of a step's examples. One of several ends here.
    """
    import torch
    import transformers

    torch.set_num_threads(training.threads)
    train = training.train
    tokenizer = load_tokenizer(training.tuning, train, training.base)
    transformers.set_seed(train.seed)
    model = load_model(training.tuning, training.base, train, training.device)
    freeze(model, train)
    trainer = trainer_of(training, model, tokenizer)
    trainer.train(resume_from_checkpoint=str(training.checkpoint) if training.checkpoint else None)
    save(trainer, tokenizer, training)
    if training.processes > 1:
        end_process()


def end_process() -> None:
    """End without the destructors of torch's process group.

    They hold Python's lock while they wait for a thread that may want it: one training in some dozens never ended.
    """
    logging.shutdown()
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    os._exit(0)


def load_model(name: str, base: Path, train: FineTuning, device: str) -> Any:
    """The base as a language model.

    In float32, also where a GPU computes in bfloat16: steps of 1e-5 are lost in bfloat16 weights. Under adapters,
    which are float32 themselves, the base is in bfloat16 on a GPU, or in 4 bits.
    """
    import torch
    from transformers import AutoModelForCausalLM

    short = train.lora is not None and device != "cpu"
    options: dict[str, Any] = {"dtype": torch.bfloat16 if short else torch.float32}
    if train.lora and train.lora.quantized:
        options["quantization_config"] = in_four_bits(name, device)
    model = AutoModelForCausalLM.from_pretrained(base, **options)
    if train.layers is not None:
        keep_layers(model, train.layers)
    return model


def in_four_bits(name: str, device: str) -> Any:
    """QLoRA's quantisation (NF4, of which the scales are quantised too). Raises UserError without bitsandbytes."""
    import torch
    from transformers import BitsAndBytesConfig
    from transformers.utils import is_bitsandbytes_available

    if not is_bitsandbytes_available():
        raise UserError(
            f"tunings.{name}.lora", "bitsandbytes is not installed", "run make env again, or set quantized: false"
        )
    return BitsAndBytesConfig(
        load_in_4bit=True,
        bnb_4bit_quant_type="nf4",
        bnb_4bit_compute_dtype=torch.float32 if device == "cpu" else torch.bfloat16,
        bnb_4bit_use_double_quant=True,
    )


def keep_layers(model: Any, layers: int) -> None:
    """Leave a model its first layers only."""
    model.model.layers = model.model.layers[:layers]
    model.config.num_hidden_layers = layers
    if getattr(model.config, "layer_types", None):
        model.config.layer_types = model.config.layer_types[:layers]


def trainer_of(training: Training, model: Any, tokenizer: Any) -> Any:
    """TRL's trainer, with the entry's settings. Raises RuntimeError where TRL leaves an example out."""
    from datasets import Dataset
    from trl import SFTConfig, SFTTrainer

    train, examples = training.train, Dataset.load_from_disk(training.examples)
    settings = shared_arguments(train, training.journal, training.device)
    scheduler = "constant_with_warmup" if train.scheduler == "constant" and train.warmup else train.scheduler
    settings |= {"lr_scheduler_type": scheduler, "warmup_steps": train.warmup, "max_steps": train.steps or -1}
    if training.processes > 1:
        settings |= sharing(training)
    trainer = SFTTrainer(
        model=model,
        args=SFTConfig(max_length=train.max_length, packing=train.packing, eos_token=None, **settings),
        train_dataset=examples,
        processing_class=tokenizer,
        peft_config=adapters(train),
        callbacks=[callback(SaveTogether, train.checkpoint_seconds), callback(TellProgress, training.tuning)],
    )
    if not train.packing and len(trainer.train_dataset) != len(examples):
        raise RuntimeError(f"TRL dropped {len(examples) - len(trainer.train_dataset)} examples")
    return trainer


def sharing(training: Training) -> dict[str, Any]:
    """Arguments of a trainer that is one of several: their shares of a step, and the sharding of the weights."""
    train, gpu = training.train, training.device != "cpu"
    settings: dict[str, Any] = {
        "gradient_accumulation_steps": train.batch_size // (train.micro_batch * training.processes),
        "ddp_backend": "nccl" if gpu else "gloo",
        "ddp_find_unused_parameters": False,
    }
    if gpu and train.lora is None:  # adapters are small: each process has them whole, beside a base of its own
        settings |= {
            "fsdp": True,
            "fsdp_config": {"version": 2, "activation_checkpointing": True, "cpu_ram_efficient_loading": True},
            "gradient_checkpointing": False,
        }
    return settings


class SaveTogether(SaveByTime):
    """Checkpoints of several processes: the first one's clock decides, and marks them when all have written."""

    def on_step_end(self, args: Any, state: Any, control: Any, **others: Any) -> Any:
        """After every optimiser step."""
        control = super().on_step_end(args, state, control, **others)
        if args.world_size > 1:
            import torch

            due = torch.tensor(int(control.should_save), device=args.device)
            torch.distributed.broadcast(due, 0)
            control.should_save = bool(due.item())
        return control

    def on_save(self, args: Any, state: Any, control: Any, **others: Any) -> Any:
        """After everything of this process is on disk."""
        if args.world_size > 1:
            import torch

            torch.distributed.barrier()
        if state.is_world_process_zero:
            return super().on_save(args, state, control, **others)
        self.saved = time.monotonic()
        return control


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


def save(trainer: Any, tokenizer: Any, training: Training) -> None:
    """Safetensors in the base's precision, the tokenizer and the log of the steps, by the first process.

    Adapters are merged into the base as it is published, not into one in 4 bits.
    """
    import torch
    from transformers import AutoConfig

    out = training.out
    whole = trainer.accelerator.get_state_dict(trainer.model) if trainer.is_fsdp_enabled else None  # by all processes
    if trainer.is_world_process_zero():
        dtype = getattr(AutoConfig.from_pretrained(training.base), "dtype", None) or torch.float32
        model = trainer.accelerator.unwrap_model(trainer.model)
        if training.train.lora:
            model.save_pretrained(out / ADAPTERS)
            model = merged(out / ADAPTERS, training)
        if whole is not None:
            whole = {name: tensor.to(dtype) for name, tensor in whole.items()}
            model.config.dtype = dtype
        else:
            model = model.to("cpu").to(dtype)
        model.save_pretrained(out, state_dict=whole)
        tokenizer.save_pretrained(out)
        steps = [entry for entry in trainer.state.log_history if "loss" in entry]
        write_json(out / HISTORY, [{key: entry[key] for key in KEPT if key in entry} for entry in steps])
    trainer.accelerator.wait_for_everyone()
    trainer.accelerator.end_training()


def merged(folder: Path, training: Training) -> Any:
    """The base with its adapters in its own weights; the adapters' folder is removed."""
    import torch
    from peft import PeftModel
    from transformers import AutoModelForCausalLM

    base = AutoModelForCausalLM.from_pretrained(training.base, dtype=torch.float32)
    if training.train.layers is not None:
        keep_layers(base, training.train.layers)
    model = PeftModel.from_pretrained(base, folder).merge_and_unload()
    shutil.rmtree(folder)
    return model
