"""Compare the speed of reward-model scoring with a loop over single conversations and with packed batches.

Run it in the serving environment:
    PYTHONPATH=workflow .venv/serve/bin/python bench/reward_scoring.py [--model FOLDER] [--data FILE] [--tutors 4]

The loop follows the released scorer: two forward passes per reply, one for the tutor's conversation and one for the
human's. Packed batches are a forward pass over the loop's tokens without padding. They are the ceiling of a scorer that
reads every conversation in full; a scorer that reads shared beginnings only once can exceed it. All three are measured
in one run, with the same weights on the same machine. Prints one line of JSON.
"""

from __future__ import annotations

import argparse
import json
import logging
import tempfile
import time
from pathlib import Path

import torch
from maieutic.benchmarks.mathtutorbench.mathdial_bridge import next_turn
from maieutic.core.journal import Journal, ScoredConversation
from maieutic.core.records import Item
from maieutic.rewards.loading import load_classifier, load_tokenizer
from maieutic.rewards.scorer import Ids, score_all
from maieutic.rewards.scoring import passes_for, scored_dialogue
from maieutic.serving.conversations import encode_conversations, messages_to_score, system_instruction

WARM = 4
DEMO_MODEL = Path("results/rewards/models/demo-reward-model")
DEMO_DATA = Path("resources/demo/mathtutorbench/datasets/mathdial_bridge.json")


def replies(items: list[Item], tutors: int) -> list[tuple[Item, str]]:
    """Return distinct replies of realistic length, two per item and tutor: human replies to other dialogues."""
    texts = []
    for tutor in range(2 * tutors):
        for number, item in enumerate(items):
            other = items[(number + tutor + 1) % len(items)].reference["text"]
            texts.append((item, f"{other} What would you try next? ({tutor})"))
    return texts


def packed(model: torch.nn.Module, tokens: int, row: int, rows: int, device: str) -> float:
    """Return the seconds for `tokens` tokens without padding. row: tokens per row; rows: rows per batch."""
    ids = torch.randint(5, 1000, (rows, row), device=device)
    mask = torch.ones_like(ids)
    passes = max(1, round(tokens / ids.numel()))
    with torch.inference_mode():
        model(input_ids=ids, attention_mask=mask, use_cache=False)
        began = time.perf_counter()
        for _ in range(passes):
            model(input_ids=ids, attention_mask=mask, use_cache=False).logits.float().cpu()
    return (time.perf_counter() - began) * tokens / (passes * ids.numel())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path, default=DEMO_MODEL, help="folder of a reward model (default: the demo's)")
    parser.add_argument("--data", type=Path, default=DEMO_DATA, help="mathdial_bridge.json (default: the demo's)")
    parser.add_argument("--tutors", type=int, default=4)
    parser.add_argument("--items", type=int, default=24)
    parser.add_argument("--budget", type=int, default=4096)
    args = parser.parse_args()
    if not args.model.exists():
        parser.error(f"{args.model} does not exist. Fix: run make demo first, or pass a reward model as --model")
    logging.disable(logging.INFO)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    dtype = "bfloat16" if device == "cuda" else "float32"
    tokenizer = load_tokenizer(args.model)
    model = load_classifier(args.model, tokenizer, dtype=dtype)
    passes = passes_for(model, tokenizer.pad_token_id, device)
    forward = passes.plain
    items = next_turn(json.loads(args.data.read_text(encoding="utf-8")), "bench")[: args.items]
    texts = replies(items, args.tutors)
    system = system_instruction("extended")
    tutors_ids = encode_conversations(
        tokenizer, [messages_to_score(scored_dialogue(item), text, system) for item, text in texts], None
    )
    human_ids = encode_conversations(
        tokenizer, [messages_to_score(scored_dialogue(item), item.reference["text"], system) for item, _ in texts], None
    )
    for ids in tutors_ids[:WARM]:
        forward([ids])

    began = time.perf_counter()
    single = [(forward([ours])[0], forward([theirs])[0]) for ours, theirs in zip(tutors_ids, human_ids, strict=True)]
    loop = time.perf_counter() - began

    with tempfile.TemporaryDirectory() as folder, Journal(Path(folder) / "j.jsonl", ScoredConversation) as journal:
        began = time.perf_counter()
        conversations: list[Ids] = [*tutors_ids, *human_ids]
        names = [item.id for item, _ in texts] * 2
        scored = score_all("bench", conversations, names, "weights", journal, args.budget, lambda: passes)
        ours_seconds = time.perf_counter() - began
    worst = max(abs(score - scored[number].score) for number, (score, _) in enumerate(single))
    tokens = sum(map(len, tutors_ids)) + sum(map(len, human_ids))
    row = round(tokens / (2 * len(texts)))
    ceiling = packed(model, tokens, row, max(1, args.budget // row), device)
    pairs = len(texts)
    figures = {
        f"{pairs} pairs of {args.tutors} tutors, {row} tokens each, {device}: pairs a second, one at a time": round(pairs / loop, 2),
        "pairs a second, packed batches without shared beginnings": round(pairs / ceiling, 2),
        "pairs a second, this scorer": round(pairs / ours_seconds, 2),
        "ratio to one at a time": round(loop / ours_seconds, 2),
        "ratio to packed batches": round(ceiling / ours_seconds, 2),
        "largest difference of a score": float(f"{worst:.2g}"),
    }  # fmt: skip
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
