"""Compare a served job with vLLM alone: the same prompts through this workflow's server and client, and offline.

Run it in the serving environment after `make demo`, whose tutor answers the prompts:
    PYTHONPATH=workflow .venv/serve/bin/python bench/vllm_ceiling.py [--requests 96]

The ceiling is vLLM's `LLM.generate` with the same arguments, with all prompts in one call and no server. Both are timed
from the ready engine to the last answer. Prints one line of JSON.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import yaml
from driver_overhead import card_items
from maieutic.config.models import VllmModel
from maieutic.core.journal import FinishedRequest, load_journal_answers
from maieutic.core.ledger import ledger_lines, ledger_path
from maieutic.core.records import Prompt, read_records
from maieutic.replies.generate import RequestLimits, ask_tutor
from maieutic.serving.backends import JobFiles
from maieutic.serving.server import served_dtype

DEMO_WEIGHTS = Path("results/weights/smollm2-135m")
TOKENS, LENGTH = 48, 1024  # tokens of an answer, and of the context
OFFLINE = """
import json, sys, time
import maieutic.serving.engine  # the CPU build answers for vLLM's own version
from vllm import LLM, SamplingParams
job = json.loads(sys.stdin.read())
engine = LLM(job["model"], generation_config="vllm", **job["arguments"])
began = time.perf_counter()
outputs = engine.generate(job["prompts"], SamplingParams(temperature=0, max_tokens=job["tokens"], stop=job["stop"]))
seconds = time.perf_counter() - began
print(json.dumps({"seconds": seconds, "tokens": sum(len(output.outputs[0].token_ids) for output in outputs), "texts": [output.outputs[0].text for output in outputs]}))
"""


def served(entry: VllmModel, weights: Path, folder: Path, requests: int) -> tuple[float, int, dict[str, str]]:
    """Return the seconds and tokens of a served job, and its answer to each prompt."""
    files = [folder / name for name in ("journal.jsonl", "server.log", "out.jsonl", "prompts.jsonl")]
    items = card_items(folder, requests)
    ask_tutor(
        weights.name,
        entry,
        items,
        RequestLimits(TOKENS, 1),
        JobFiles(weights / "manifest.json", *files[:2]),
        *files[2:],
    )
    [cost] = ledger_lines(ledger_path(files[0]))
    replies = [json.loads(line)["turns"][0] for line in files[2].read_text(encoding="utf-8").splitlines()]
    prompts = {prompt.messages: prompt.content[0]["content"] for prompt in read_records(files[3], Prompt)}
    assert len(load_journal_answers(files[0], FinishedRequest)) == requests
    return cost.seconds, cost.completion_tokens, {prompts[turn["messages"]]: turn["text"] for turn in replies}


def offline(entry: VllmModel, weights: Path, prompts: list[str]) -> dict[str, Any]:
    """Return the seconds, tokens and texts of vLLM alone, for the same prompts."""
    [(loaded, _)] = card_items(Path(tempfile.mkdtemp()), 1)
    on_the_cpu = {} if entry.needs.gpus else {"enforce_eager": True, "max_num_seqs": 64, "block_size": 32}
    job = {
        "model": str(weights),
        "arguments": {"dtype": served_dtype(entry), "max_model_len": entry.max_model_len, **on_the_cpu},
        "prompts": prompts,
        "tokens": TOKENS,
        "stop": loaded.card.stop,
    }  # fmt: skip
    done = subprocess.run(
        [sys.executable, "-c", OFFLINE], input=json.dumps(job), env={**os.environ, **entry.environment},
        capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    outcome: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return outcome


def demo_entry() -> VllmModel:
    """Return the entry of the demo's tutor, which is served on the CPU in eager mode with 64 requests at once."""
    models = yaml.safe_load(Path("resources/registries/models.yaml").read_text(encoding="utf-8"))["models"]
    return VllmModel.model_validate({**models["smollm2-135m"], "max_model_len": LENGTH})


def gpu_entry(gpus: int) -> VllmModel:
    """Return an entry with vLLM's defaults on a number of GPUs, and more requests in flight than it runs at once."""
    entry = {
        "engine": "vllm", "weights": {"path": "."}, "max_model_len": LENGTH, "concurrency": 512,
        "needs": {"gpus": gpus, "cpus": 4, "mem_mb": 16000, "runtime": 60},
    }  # fmt: skip
    return VllmModel.model_validate(entry)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--weights", type=Path, default=DEMO_WEIGHTS, help="folder of the weights (default: the demo's)"
    )
    parser.add_argument("--requests", type=int, default=96)
    parser.add_argument("--gpus", type=int, default=0, help="number of GPUs to serve on (default: the CPU)")
    args = parser.parse_args()
    if not (args.weights / "manifest.json").exists():
        parser.error(
            f"{args.weights} does not exist. Fix: run make demo first, or pass a folder of weights as --weights"
        )
    entry = gpu_entry(args.gpus) if args.gpus else demo_entry()
    with tempfile.TemporaryDirectory() as folder:
        seconds, tokens, answers = served(entry, args.weights, Path(folder), args.requests)
    alone = offline(entry, args.weights, list(answers))
    texts = [text.strip() for text in alone["texts"]]
    equal = sum(text == answer.strip() for text, answer in zip(texts, answers.values(), strict=True))
    print(
        json.dumps(
            {
                f"{args.requests} requests, served: seconds": round(seconds, 1),
                f"{args.requests} requests, offline: seconds": round(alone["seconds"], 1),
                "served: tokens a second": round(tokens / seconds, 1),
                "offline: tokens a second": round(alone["tokens"] / alone["seconds"], 1),
                "share of the ceiling": round((tokens / seconds) / (alone["tokens"] / alone["seconds"]), 2),
                "equal answers, share": round(equal / len(answers), 2),
            }
        )
    )


if __name__ == "__main__":
    main()
