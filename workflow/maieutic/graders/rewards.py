"""What a reward model's scalars say of a reply: whether it beats the human teacher's, and by how much."""

from __future__ import annotations

import json
from collections.abc import Collection
from pathlib import Path
from typing import Any

from maieutic.cards import REWARD
from maieutic.errors import UserError
from maieutic.records import SCORINGS, Grade, Item, Reply, Reward, read_records, write_records


def grades_of_reply(item: Item, text: str, mine: Reward, reference: Reward, leaked: bool) -> list[Grade]:
    """Win (strictly above the human reply: a tie loses), both scores, the margin; win_clean where nothing leaked.

    robust: an empty reply never wins, whatever its score. Source: MathTutorBench, section 4.3 and the released scorer.
    """
    grades: list[Grade] = []
    for scoring in SCORINGS:
        common: dict[str, Any] = {"id": item.id, "task": item.task, "grader": f"{REWARD}/{scoring}", "raw": ""}
        criteria = ["win", "score", "reference_score", "margin", *([] if leaked else ["win_clean"])]
        if mine.score is None or reference.score is None:
            why = mine.why_none or f"human reply: {reference.why_none}"
            grades += [Grade(**common, criterion=name, value=None, correct=None, why_none=why) for name in criteria]
            continue
        # The same words have the same score, whatever the batches were in which two jobs computed it.
        margin = 0.0 if mine.key == reference.key else mine.score - reference.score
        won = margin > 0 and (scoring == "paper_compat" or bool(text.strip()))
        values = {
            "win": won,
            "score": mine.score,
            "reference_score": reference.score,
            "margin": margin,
            "win_clean": won,
        }
        for name in criteria:
            correct = won if name.startswith("win") else None
            grades.append(Grade(**common, criterion=name, value=values[name], correct=correct))
    return grades


def grade_by_rewards(
    model: str,
    ceiling: str,
    items_dir: Path,
    tasks: list[str],
    replies: Path,
    rewards: list[Path],
    overlaps: list[Path],
    out: Path,
) -> None:
    """Write the grades of one tutor by one reward model.

    rewards: files that hold the scores of `model` and of `ceiling`, the human reference; overlaps: the leaked items of
    each source that the reward model was trained on.
    """
    scores = {
        (one.model, one.task, one.id): one
        for path in rewards
        for one in read_records(path, Reward)
        if one.model in {model, ceiling}
    }
    texts = {(reply.task, reply.id): reply.text for reply in read_records(replies, Reply)}
    leaks = [json.loads(path.read_text(encoding="utf-8")) for path in overlaps]
    grades: list[Grade] = []
    for task in tasks:
        leaked: Collection[str] = {name for leak in leaks for name in leak[task]["leaked"]}
        for item in read_records(items_dir / f"{task}.jsonl", Item):
            try:
                mine, reference = scores[model, task, item.id], scores[ceiling, task, item.id]
            except KeyError:
                raise UserError(
                    ", ".join(map(str, rewards)), f"no score of {task}/{item.id}", "delete these files and run again"
                ) from None
            grades += grades_of_reply(item, texts[task, item.id], mine, reference, item.id in leaked)
    write_records(out, grades)
