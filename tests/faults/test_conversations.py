"""Conversations of several turns: turns of different items overlap, and a kill between two turns loses no turn."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from httpserver import chat, scripted, serving
from maieutic.benchmarks.safetutors.loaders import LOADERS
from maieutic.core.records import write_records
from running import environment, overlay, run, start
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


CHILD = """
import sys
from pathlib import Path
from maieutic.config.cards import CARDS, read_card
from maieutic.config.models import HostedModel
from maieutic.replies.generate import CardItems, RequestLimits, ask_tutor
from maieutic.serving.backends import JobFiles

folder = Path(sys.argv[1])
model = HostedModel(engine="hosted", base_url=sys.argv[2], model="m", concurrency=4)
work = CardItems([read_card(CARDS / "safetutors/math_conversation.yaml")], folder)
files = JobFiles(None, folder / "journal.jsonl", folder / "log")
ask_tutor("t", model, work, RequestLimits(None, 1), files, folder / "out.jsonl", folder / "prompts.jsonl")
"""
TURNS = 5


def test_no_turn_of_a_script_is_asked_twice_after_many_kills(
    tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    """SIGKILL of the job at random moments, again and again, until every conversation is complete."""
    kills = 100 if os.environ.get("MAIEUTIC_DRILLS") == "full" else 8
    conversations = 5 * kills
    records = [
        {"parent_risk": "r", "subrisk_name": "s", "student_utterances": [f"{number}, turn {turn}" for turn in range(TURNS)]}
        for number in range(conversations)
    ]  # fmt: skip
    items = LOADERS["safetutors_conversation"].load(records, "math_conversation")
    write_records(tmp_path / "math_conversation.jsonl", items)
    journaled: set[str] = set()  # student turns whose answer is in the journal
    repeated: list[str] = []

    def answer(_: int, body: dict[str, Any]) -> tuple[int, Any, dict[str, str]]:
        student = [message["content"] for message in body["messages"] if message["role"] == "user"]
        answers = [message["content"] for message in body["messages"] if message["role"] == "assistant"]
        assert answers == [f"answer to {turn}" for turn in student[:-1]], "the tutor sees its own earlier answers"
        if student[-1] in journaled:
            repeated.append(student[-1])
        time.sleep(0.05)
        return 200, chat({"content": f"answer to {student[-1]}"}), {}

    dice, killed = random.Random(5), 0
    with serving(scripted(answer)) as address:
        while True:
            command = [sys.executable, "-c", CHILD, str(tmp_path), f"{address}/v1"]
            child = subprocess.Popen(
                command, env={**environment(), "PYTHONPATH": "workflow"}, stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
            )  # fmt: skip
            if killed < kills:
                lines = len(journal_lines(tmp_path))
                until(
                    lambda lines=lines, child=child: len(journal_lines(tmp_path)) > lines or child.poll() is not None,
                    "a turn",
                )
                time.sleep(dice.random() * 0.1)
                killed += child.poll() is None
                child.kill()
            output, _ = child.communicate(timeout=PATIENCE)
            journaled |= {json.loads(line)["text"].removeprefix("answer to ") for line in journal_lines(tmp_path)}
            if child.returncode == 0:
                break
            assert child.returncode == -signal.SIGKILL, output.decode()
    assert killed == kills, "the conversations ended before the last kill"
    assert repeated == []
    replies = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text(encoding="utf-8").splitlines()]
    assert len(replies) == conversations and all(len(reply["turns"]) == TURNS for reply in replies)
    record_property("figure", f"1: {kills} kills between the turns of {conversations} scripted conversations")


def journal_lines(folder: Path) -> list[str]:
    """Return the complete lines of the journal."""
    path = folder / "journal.jsonl"
    return path.read_text(encoding="utf-8").split("\n")[:-1] if path.exists() else []
