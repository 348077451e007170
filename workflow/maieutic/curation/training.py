"""Supervised fine-tuning with TRL's SFTTrainer, in one process or several.

Heavy libraries are imported inside functions, because only the serving environment has them.
"""

from __future__ import annotations

import logging
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from maieutic.config.curation import FineTuning
from maieutic.core.errors import UserError
from maieutic.core.files import write_json
from maieutic.core.jobs import Job
from maieutic.core.parent_process import PARENT_VARIABLE, tie_to_parent
from maieutic.curation.encoding import EncodedChats, load_chat_tokenizer
from maieutic.rewards.checkpoints import SaveByTime, make_callback
from maieutic.rewards.progress_callback import ProgressLog
from maieutic.rewards.training import freeze_token_embeddings, shared_arguments
from maieutic.serving.run_environment import inherited_environment

HISTORY_KEYS = ("step", "loss", "learning_rate", "grad_norm", "mean_token_accuracy")
HISTORY = "history.json"
ADAPTERS = "adapters"


class TutorTraining(Job):
    """Settings of a training that each of its processes receives.

    examples: folder of the encoded examples, written by `save_examples`; journal: folder of the checkpoints;
    checkpoint: checkpoint from which to resume, None for a new training; out: folder of the weights.
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


def save_examples(encoded: EncodedChats, folder: Path) -> None:
    """Write encoded chats to a folder that every training process maps into memory."""
    from datasets import Dataset

    Dataset.from_dict({"input_ids": encoded.ids, "labels": encoded.labels}).save_to_disk(folder)


def train_tutor(training: TutorTraining) -> None:
    """Train a tutor. At the end, the first process writes the weights, the tokenizer and the step log (`HISTORY`).

    Every training process runs this function on its share of each step's examples. If there are several processes, the
    function ends its process instead of returning.
    """
    import torch
    import transformers

    torch.set_num_threads(training.threads)
    train = training.train
    tokenizer = load_chat_tokenizer(training.tuning, train, training.base)
    transformers.set_seed(train.seed)
    model = load_model(training.tuning, training.base, train, training.device)
    freeze_token_embeddings(model, train)
    trainer = build_trainer(training, model, tokenizer)
    trainer.train(resume_from_checkpoint=str(training.checkpoint) if training.checkpoint else None)
    save_weights(trainer, tokenizer, training)
    if training.processes > 1:
        end_process()


def end_process() -> None:
    """End the process without running the destructors of torch's process group.

    The destructors hold Python's global lock while they wait for a thread that may need the lock, which made about one
    training in several dozen hang.
    """
    logging.shutdown()
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    os._exit(0)


def load_model(name: str, base: Path, train: FineTuning, device: str) -> Any:
    """Return the base as a language model.

    Without adapters, all weights are float32, even if a GPU computes in bfloat16, because bfloat16 weights lose updates
    of 1e-5. With adapters (which are float32), the base is in bfloat16 on a GPU, or in 4 bits if `quantized` is set.
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
    """Return QLoRA's quantisation settings: NF4 with quantised scales. Raises UserError without bitsandbytes."""
    import torch
    from transformers import BitsAndBytesConfig
    from transformers.utils import is_bitsandbytes_available

    if not is_bitsandbytes_available():
        raise UserError(
            f"tunings.{name}.lora", "bitsandbytes is not installed", "run `make env` again, or set quantized: false"
        )
    return BitsAndBytesConfig(
        load_in_4bit=True,
        bnb_4bit_quant_type="nf4",
        bnb_4bit_compute_dtype=torch.float32 if device == "cpu" else torch.bfloat16,
        bnb_4bit_use_double_quant=True,
    )


def keep_layers(model: Any, layers: int) -> None:
    """Remove all layers of a model after the first `layers` layers."""
    model.model.layers = model.model.layers[:layers]
    model.config.num_hidden_layers = layers
    if getattr(model.config, "layer_types", None):
        model.config.layer_types = model.config.layer_types[:layers]


def build_trainer(training: TutorTraining, model: Any, tokenizer: Any) -> Any:
    """Return TRL's trainer with the tuning's settings. Raises RuntimeError if TRL drops an example."""
    from datasets import Dataset
    from trl import SFTConfig, SFTTrainer

    train, examples = training.train, Dataset.load_from_disk(training.examples)
    settings = shared_arguments(train, training.journal, training.device)
    scheduler = "constant_with_warmup" if train.scheduler == "constant" and train.warmup else train.scheduler
    settings |= {"lr_scheduler_type": scheduler, "warmup_steps": train.warmup, "max_steps": train.steps or -1}
    if training.processes > 1:
        settings |= multi_process_arguments(training)
    trainer = SFTTrainer(
        model=model,
        args=SFTConfig(max_length=train.max_length, packing=train.packing, eos_token=None, **settings),
        train_dataset=examples,
        processing_class=tokenizer,
        peft_config=adapter_config(train),
        callbacks=[make_callback(SaveTogether, train.checkpoint_seconds), make_callback(ProgressLog, training.tuning)],
    )
    if not train.packing and len(trainer.train_dataset) != len(examples):
        raise RuntimeError(f"TRL dropped {len(examples) - len(trainer.train_dataset)} examples")
    return trainer


def multi_process_arguments(training: TutorTraining) -> dict[str, Any]:
    """Return trainer arguments for training in several processes: each one's share of a step, and weight sharding."""
    train, gpu = training.train, training.device != "cpu"
    settings: dict[str, Any] = {
        "gradient_accumulation_steps": train.batch_size // (train.micro_batch * training.processes),
        "ddp_backend": "nccl" if gpu else "gloo",
        "ddp_find_unused_parameters": False,
    }
    if gpu and train.lora is None:  # with LoRA, every process has a copy of the base and all (small) adapters
        settings |= {
            "fsdp": True,
            "fsdp_config": {"version": 2, "activation_checkpointing": True, "cpu_ram_efficient_loading": True},
            "gradient_checkpointing": False,
        }
    return settings


class SaveTogether(SaveByTime):
    """Checkpoints of several processes. The first process decides when to save, and marks complete checkpoints."""

    def on_step_end(self, args: Any, state: Any, control: Any, **others: Any) -> Any:
        """Request a checkpoint after an optimiser step if the first process requests one."""
        control = super().on_step_end(args, state, control, **others)
        if args.world_size > 1:
            import torch

            due = torch.tensor(int(control.should_save), device=args.device)
            torch.distributed.broadcast(due, 0)
            control.should_save = bool(due.item())
        return control

    def on_save(self, args: Any, state: Any, control: Any, **others: Any) -> Any:
        """Mark the checkpoint as complete once every process has written its part to disk."""
        if args.world_size > 1:
            import torch

            torch.distributed.barrier()
        if state.is_world_process_zero:
            return super().on_save(args, state, control, **others)
        self.saved = time.monotonic()
        return control


def adapter_config(train: FineTuning) -> Any:
    """Return the settings of low-rank adapters on every linear layer; None if the tuning does not set `lora`."""
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


def save_weights(trainer: Any, tokenizer: Any, training: TutorTraining) -> None:
    """Save the weights (safetensors, in the base model's precision), the tokenizer and the step log.

    Only the first process writes files. Adapters are merged into the original base model, not into its 4-bit version.
    """
    import torch
    from transformers import AutoConfig

    out = training.out
    # All processes must take part when sharded weights are collected.
    whole = trainer.accelerator.get_state_dict(trainer.model) if trainer.is_fsdp_enabled else None
    if trainer.is_world_process_zero():
        dtype = getattr(AutoConfig.from_pretrained(training.base), "dtype", None) or torch.float32
        model = trainer.accelerator.unwrap_model(trainer.model)
        if training.train.lora:
            model.save_pretrained(out / ADAPTERS)
            model = merge_adapters(out / ADAPTERS, training)
        if whole is not None:
            whole = {name: tensor.to(dtype) for name, tensor in whole.items()}
            model.config.dtype = dtype
        else:
            model = model.to("cpu").to(dtype)
        model.save_pretrained(out, state_dict=whole)
        tokenizer.save_pretrained(out)
        steps = [entry for entry in trainer.state.log_history if "loss" in entry]
        write_json(out / HISTORY, [{key: entry[key] for key in HISTORY_KEYS if key in entry} for entry in steps])
    trainer.accelerator.wait_for_everyone()
    trainer.accelerator.end_training()


def merge_adapters(folder: Path, training: TutorTraining) -> Any:
    """Return the base model with the adapters in `folder` merged into its weights, and remove the folder."""
    import torch
    from peft import PeftModel
    from transformers import AutoModelForCausalLM

    base = AutoModelForCausalLM.from_pretrained(training.base, dtype=torch.float32)
    if training.train.layers is not None:
        keep_layers(base, training.train.layers)
    model = PeftModel.from_pretrained(base, folder).merge_and_unload()
    shutil.rmtree(folder)
    return model


SPEC = "training.spec.json"


def train_in_processes(training: TutorTraining) -> None:
    """Run a training in `training.processes` processes on this machine. Raises UserError if one of them fails.

    The processes find each other through a free port that the launcher chooses.
    """
    spec = training.out / SPEC
    spec.write_text(training.model_dump_json(), encoding="utf-8")
    line = [sys.executable, "-m", __name__]
    launcher = [
        *line, "launch", f"--nproc-per-node={training.processes}", "--rdzv-backend=c10d", "--rdzv-endpoint=localhost:0",
        "--max-restarts=0", "-m", __name__, "train", str(spec),
    ]  # fmt: skip
    status = subprocess.run(
        launcher, env={**inherited_environment(os.environ), PARENT_VARIABLE: str(os.getpid())}
    ).returncode
    spec.unlink()
    if status:
        raise UserError(
            f"tunings.{training.tuning}",
            f"one of the {training.processes} training processes failed (status {status})",
            "correct the error shown above, then run again: the training resumes from its last checkpoint",
        )


def main(arguments: list[str]) -> None:
    """Run `launch ARGUMENTS` (torch's launcher) or `train FILE` (one process of a training)."""
    tie_to_parent()
    if arguments[0] == "launch":
        from torch.distributed.run import main as launch

        launch(arguments[1:])
    else:
        from maieutic.core.logs import log_to

        log_to(None)
        train_tutor(TutorTraining.model_validate_json(Path(arguments[1]).read_text(encoding="utf-8")))


if __name__ == "__main__":
    main(sys.argv[1:])
