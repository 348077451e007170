"""MathDialBridge, plain and hard, as released with MathTutorBench. Licence CC BY-SA 4.0 (MathDial), NC (Bridge)."""

from __future__ import annotations

import json

from maieutic.config.datasets import Source
from maieutic.core.records import Item
from maieutic.datasets.text import cluster_of, spoken
from maieutic.serving.conversations import role_of

VARIABLES = {"question", "dialog_history"}


def next_turn(records: list[Source], task: str) -> list[Item]:
    """The teacher's next utterance: the last turn is the human reference, the turns before it are the history.

    Bridge items have no problem text and no solution; each of their dialogues is its own cluster.
    """
    items = []
    for number, record in enumerate(records):
        turns = record["dialog_history"]
        history = turns[:-1] if len(turns) > 1 else turns  # the released loader never empties the history
        problem = record["problem"]
        items.append(
            Item(
                id=f"mathdial-bridge-{number:04d}",
                task=task,
                cluster=cluster_of(problem or json.dumps(turns[:-1])),
                vars={"question": problem, "dialog_history": spoken(history)},
                reference={
                    "text": turns[-1]["text"],
                    "solution": record["reference_solution"],
                    "turns": len(turns),
                    "history": [{"role": role_of(turn["user"]), "content": turn["text"]} for turn in turns[:-1]],
                },
                tags={"source": "mathdial" if record["topic"] == "Math Word Problem" else "bridge"},
            )
        )
    return items
