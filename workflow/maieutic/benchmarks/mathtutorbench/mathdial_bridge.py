"""The plain and the hard part of MathDialBridge, as released with MathTutorBench.

Licences: CC BY-SA 4.0 (MathDial), non-commercial (Bridge).
"""

from __future__ import annotations

import json

from maieutic.config.datasets import SourceRecord
from maieutic.core.records import Item
from maieutic.datasets.text import cluster_of, dialogue_lines
from maieutic.serving.conversations import role_of

VARIABLES = {"question", "dialog_history"}


def next_turn(records: list[SourceRecord], task: str) -> list[Item]:
    """Load items that ask for the teacher's next utterance.

    A dialogue's last turn is the reference, and the earlier turns are the history. Dialogues from Bridge have neither a
    problem text nor a solution, so each of them is a separate cluster.
    """
    items = []
    for number, record in enumerate(records):
        turns = record["dialog_history"]
        history = turns[:-1] if len(turns) > 1 else turns  # keep a single turn, like the released loader
        problem = record["problem"]
        items.append(
            Item(
                id=f"mathdial-bridge-{number:04d}",
                task=task,
                cluster=cluster_of(problem or json.dumps(turns[:-1])),
                vars={"question": problem, "dialog_history": dialogue_lines(history)},
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
