"""Grades by a reward model, which compare the score of each reply with the score of the human teacher's reply."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from maieutic.config.cards import REWARD
from maieutic.core.errors import UserError
from maieutic.core.jobs import Job
from maieutic.core.records import SCORINGS, Grade, Item, Reply, Reward, read_items, read_records, write_records

# `win` covers all items. `win_clean` leaves out items whose human reply is in the reward model's training pairs.
# `win_clean_problems` also leaves out items whose problem is in these pairs.
WINS = ("win", "win_clean", "win_clean_problems")
MEASURES = ("score", "reference_score", "margin")


def grades_by_reward_model(
    by: str, item: Item, text: str, reward: Reward, reference: Reward, leaked: bool, known: bool
) -> list[Grade]:
    """Return the grades of one reply: wins, both scores and the margin. A reply that ties with the human reply loses.

    by: name of the reward model; text: text of the reply; reward, reference: rewards of the reply and of the human
    reply; leaked: True if the model was trained on the item's human reply; known: True if it was trained on the item's
    problem. `win_clean` is left out if `leaked`, `win_clean_problems` if `leaked` or `known`.

    With `robust` scoring, an empty reply never wins, whatever its score. A reply without an answer, for example because
    the endpoint refused the request, is missing. With `paper_compat` scoring, the scores are those of the text that the
    released scorer reads. Source: MathTutorBench, section 4.3 and the released scorer.
    """
    grades: list[Grade] = []
    wins = WINS[:1] if leaked else WINS[:2] if known else WINS
    for scoring in SCORINGS:
        common: dict[str, Any] = {"id": item.id, "task": item.task, "kind": REWARD, "by": by}
        common |= {"scoring": scoring, "raw": ""}
        scalar, human = reward.under(scoring), reference.under(scoring)
        if scalar.score is None or human.score is None:
            reason = scalar.why_none or f"human reply: {human.why_none}"
            missing: dict[str, Any] = {"value": None, "correct": None, "why_none": reason, "refused": reward.refused}
            grades += [Grade(**common, criterion=name, **missing) for name in [*wins, *MEASURES]]
            continue
        # Equal conversations must tie, even if two jobs scored them in different batches with different rounding.
        margin = 0.0 if scalar.key == human.key else scalar.score - human.score
        won = margin > 0 and (scoring == "paper_compat" or bool(text.strip()))
        grades += [Grade(**common, criterion=name, value=won, correct=won) for name in wins]
        measured = zip(MEASURES, (scalar.score, human.score, margin), strict=True)
        grades += [Grade(**common, criterion=name, value=value, correct=None) for name, value in measured]
    return grades


class GradeByRewards(Job):
    """Job that grades one tutor's replies with a reward model. ceiling: name of the human reference tutor."""

    reward_model: str
    tutor: str
    ceiling: str
    tasks: list[str]


def grade_by_rewards(
    *, job: GradeByRewards, items: Path, replies: Path, rewards: list[Path], overlaps: list[Path], out: Path
) -> None:
    """Write a reward model's grades of one tutor's replies. Raises UserError if a reply has no reward.

    items: folder of the benchmark's items; rewards: files with the rewards of the tutor and of the human reference;
    overlaps: for each source of the model's training pairs, the file that lists the items with leaked replies or
    problems.
    """
    scores = {
        (reward.tutor, reward.task, reward.id): reward
        for path in rewards
        for reward in read_records(path, Reward)
        if reward.tutor in {job.tutor, job.ceiling}
    }
    texts = {(reply.task, reply.id): reply.text for reply in read_records(replies, Reply)}
    leaks = [json.loads(path.read_text(encoding="utf-8")) for path in overlaps]
    grades: list[Grade] = []
    for task in job.tasks:
        leaked, known = ({name for leak in leaks for name in leak[task][kind]} for kind in ("leaked", "problems"))
        for item in read_items(items, [task]):
            try:
                reward, reference = scores[job.tutor, task, item.id], scores[job.ceiling, task, item.id]
            except KeyError:
                raise UserError(
                    ", ".join(map(str, rewards)),
                    f"found no score for item {task}/{item.id}",
                    "delete these files and run again",
                ) from None
            flags = item.id in leaked, item.id in known
            grades += grades_by_reward_model(job.reward_model, item, texts[task, item.id], reward, reference, *flags)
    write_records(out, grades)
