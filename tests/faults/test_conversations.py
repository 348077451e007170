"""Conversations of several turns: turns of different items overlap, and a kill between two turns loses no turn."""

from __future__ import annotations

import json
import os
import signal
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from running import overlay, run, start
from small import NAME, PATIENCE, stub_of, until

JOURNAL = f"results/journal/replies/kmpbench/{NAME}.jsonl"
LOG = f"results/logs/generate_replies/kmpbench/{NAME}.log"
REPLIES = f"results/replies/kmpbench/{NAME}.jsonl"
TASKS = ["kmpbench/fqa", "kmpbench/ec", "kmpbench/gen_similar"]


def keys_of(folder: Path) -> list[str]:
    """Return the keys of the complete lines of the journal."""
    lines = (folder / JOURNAL).read_bytes().split(b"\n")[:-1]
    return [json.loads(line)["key"] for line in lines if line.endswith(b"}")]


def test_a_kill_between_the_turns_goes_on_inside_the_conversation(checkouts: Callable[[], Path]) -> None:
    folder = checkouts()
    # With two requests at a time, the first items are in their last turn before others have begun.
    model = stub_of(folder, pace=0.1, max_tokens=12, concurrency=2)
    config = overlay(folder, {"models": {NAME: model}, "run": {"tutors": [NAME], "tasks": TASKS}})

    def job_log() -> str:
        return (folder / LOG).read_text(encoding="utf-8") if (folder / LOG).exists() else ""

    process = start(folder, config)
    until(lambda: "turn 2 of" in job_log(), "a second turn")
    first = next(line for line in job_log().splitlines() if "turn 2 of" in line)
    in_earlier_turns = int(first.rpartition("items in an earlier turn: ")[2])
    assert in_earlier_turns > 0, "a second turn begins while another item is still in its first turn"
    lock = folder / JOURNAL.replace(".jsonl", ".lock")
    os.kill(int(lock.read_text(encoding="utf-8").split()[-1]), signal.SIGKILL)
    assert process.wait(PATIENCE) != 0
    known = keys_of(folder)
    assert known and not (folder / REPLIES).exists()

    done = run(folder, config)
    assert done.returncode == 0, done.stdout
    assert keys_of(folder)[: len(known)] == known, "answered requests are not repeated"
    assert max(Counter(keys_of(folder)).values()) == 1
    replies = [json.loads(line) for line in (folder / REPLIES).read_text(encoding="utf-8").splitlines()]
    turns = Counter((reply["task"], len(reply["turns"])) for reply in replies)
    assert turns == {("fqa", 3): 3, ("ec", 2): 6, ("gen_similar", 2): 3}
    prompts = folder / f"results/replies/kmpbench/prompts/{NAME}.jsonl"
    sent = {
        prompt["messages"]: prompt["content"]
        for prompt in map(json.loads, prompts.read_text(encoding="utf-8").splitlines())
    }
    for reply in replies:
        for number, turn in enumerate(reply["turns"][1:], 1):
            assert sent[turn["messages"]][-2]["content"] == reply["turns"][number - 1]["text"], (
                "a turn's prompt contains the tutor's earlier answer"
            )
