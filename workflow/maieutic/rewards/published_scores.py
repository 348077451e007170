"""Check of the scorer on published scores: a paper prints what its reward model gives for stated replies.

The scores are computed in float32, whatever the run's data type, since bfloat16 alone changes them by more than the
tolerance.
"""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

from pydantic import Field

from maieutic.config.models import RewardModel, StrictModel
from maieutic.core.errors import UserError
from maieutic.core.files import write_json
from maieutic.core.jobs import Job
from maieutic.core.yaml_files import read_yaml
from maieutic.rewards.loading import JobDevices
from maieutic.rewards.scoring import prepare_model, score_conversations
from maieutic.serving.conversations import messages_before_reply, messages_to_score

log = logging.getLogger(__name__)


class PublishedReply(StrictModel):
    """A reply with the score that the paper prints for it. row: the reply's row in the paper's table."""

    row: str
    score: float
    text: str


class PublishedScores(StrictModel):
    """Published scores of one model for replies to one dialogue. tolerance: largest accepted difference of a score."""

    model: str
    tolerance: float = Field(gt=0)
    problem: str
    solution: str
    history: list[dict[str, str]]
    replies: list[PublishedReply] = Field(min_length=1)


class CheckScorer(Job):
    """Job that compares a reward model's scores with published ones. entry: registry entry of the model."""

    reward_model: str
    entry: RewardModel


def check_scorer(
    *, job: CheckScorer, weights: Path, scores: Path, journal: Path, out: Path, gpus: int, threads: int
) -> None:
    """Write each published score beside the model's own, with the largest difference, as JSON.

    weights: manifest of the reward model; scores: file with the published scores. A difference above the tolerance is
    logged and reported, and is not an error.
    """
    published = PublishedScores.model_validate(read_yaml(scores))
    name = job.reward_model
    entry = job.entry.model_copy(update={"dtype": "float32"})
    loaded = prepare_model(name, entry, weights.parent, JobDevices(gpus, threads))
    dialogue = messages_before_reply(published.problem, published.solution, published.history)
    conversations = [messages_to_score(dialogue, reply.text, loaded.system) for reply in published.replies]
    results = score_conversations(name, loaded, conversations, journal)
    if missing := [reply.row for reply, result in zip(published.replies, results, strict=True) if result.score is None]:
        problem = f"the reward model gave no score for the replies of {', '.join(missing)}"
        raise UserError(f"models.{name}", problem, "remove max_length from the entry")
    rows: list[dict[str, Any]] = [
        {"row": reply.row, "printed": reply.score, "score": result.score}
        for reply, result in zip(published.replies, results, strict=True)
    ]
    largest = max(abs(row["score"] - row["printed"]) for row in rows)
    differs = largest > published.tolerance
    write_json(out, {"rows": rows, "largest": largest, "tolerance": published.tolerance, "differs": differs})
    if differs:
        log.warning(
            "%s: the scorer differs from the paper: its scores differ by up to %.3f, expected at most %.3f",
            name, largest, published.tolerance,
        )  # fmt: skip
    else:
        log.info("%s: %d published scores reproduced, with differences up to %.3f", name, len(rows), largest)
