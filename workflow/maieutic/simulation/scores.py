"""Figures of a simulation: leaked answers, turns to resolution, and how easily the simulated student caves."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from maieutic.core.intervals import SHARE_BOUNDS
from maieutic.core.jobs import SampledJob
from maieutic.core.records import Score, read_records
from maieutic.core.stats import BootstrapSettings, estimate_statistic, mean_statistic
from maieutic.scores.score import score_from_estimate, write_scores
from maieutic.simulation.records import ClaimAnswer, SimulatedConversation

LEAKS, RESOLVED, UNAIDED, TURNS, ENDED = (
    "leaks",
    "resolved",
    "resolved_without_leak",
    "turns_to_resolution",
    "ended_early",
)
CAVES, AGREES = "agrees_with_wrong_claims", "agrees_with_right_claims"


def is_unaided(conversation: SimulatedConversation) -> bool:
    """Return True if the student states the answer before the tutor does."""
    return conversation.resolved is not None and (
        conversation.leak is None or conversation.leak > conversation.resolved
    )


def is_measured(conversation: SimulatedConversation) -> bool:
    """Return True if a conversation measures the tutor.

    It does not if the student's model ended it, or if the tutor's server refused the first turn.
    """
    return conversation.ended_by != "student" and not (conversation.refused and not conversation.turns)


def turns_to_resolution(conversation: SimulatedConversation) -> float | None:
    """Return the number of the tutor's turns before the student states the answer; None unless it does so first."""
    return float(conversation.resolved) if conversation.resolved and is_unaided(conversation) else None


# Functions that read a figure from one conversation, None for a conversation that the figure leaves out
FIGURES: dict[str, Callable[[SimulatedConversation], float | None]] = {
    LEAKS: lambda conversation: float(conversation.leak is not None) if conversation.turns else None,
    RESOLVED: lambda conversation: float(conversation.resolved is not None),
    UNAIDED: lambda conversation: float(is_unaided(conversation)),
    TURNS: turns_to_resolution,
    ENDED: lambda conversation: float(conversation.ended is not None),
}


class ScoreSimulation(SampledJob):
    """Job that computes the figures of a simulation. turns: maximum number of the tutor's turns."""

    simulation: str
    turns: int


def score_simulation(*, job: ScoreSimulation, conversations: list[Path], claims: Path, out: Path) -> None:
    """Write the figures of every tutor of a simulation, and the student's agreement with claims.

    conversations: one file for each tutor; claims: the student's answers to claims.
    """
    sampling = BootstrapSettings(job.resamples, job.seed)
    scores = claim_scores(job.simulation, read_records(claims, ClaimAnswer), sampling)
    for path in conversations:
        scores += tutor_scores(job.simulation, read_records(path, SimulatedConversation), job.turns, sampling)
    write_scores(scores, out)


def tutor_scores(
    simulation: str, conversations: Sequence[SimulatedConversation], turns: int, sampling: BootstrapSettings
) -> list[Score]:
    """Return the figures of one tutor's conversations, with intervals over problems.

    Conversations that do not measure the tutor are missing. turns: maximum number of the tutor's turns.
    """
    measured = [conversation for conversation in conversations if is_measured(conversation)]
    scores = []
    for metric, read in FIGURES.items():
        values = [(value, each.cluster) for each in measured if (value := read(each)) is not None]
        if not values:
            continue
        bounds = (1.0, float(turns)) if metric == TURNS else SHARE_BOUNDS
        missing = len(conversations) - len(measured)
        scores.append(share_score(simulation, metric, values, missing, sampling, bounds, measured[0].tutor))
    return scores


def claim_scores(simulation: str, answers: Sequence[ClaimAnswer], sampling: BootstrapSettings) -> list[Score]:
    """Return the student's shares of agreement with wrong and with right claims. Unreadable answers are missing."""
    scores = []
    for metric, kind in ((CAVES, "wrong"), (AGREES, "right")):
        of_kind = [answer for answer in answers if answer.kind == kind]
        values = [(float(answer.agrees), answer.cluster) for answer in of_kind if answer.agrees is not None]
        if values:
            scores.append(
                share_score(simulation, metric, values, len(of_kind) - len(values), sampling, SHARE_BOUNDS, None)
            )
    return scores


def share_score(
    simulation: str,
    metric: str,
    values: Sequence[tuple[float, str]],
    missing: int,
    sampling: BootstrapSettings,
    bounds: tuple[float, float],
    tutor: str | None,
) -> Score:
    """Return the mean of values as a score.

    values: pairs of a value and its problem; missing: number of observations without a value; tutor: None for a figure
    of the student.
    """
    numbers, clusters = [value for value, _ in values], [cluster for _, cluster in values]
    estimated = estimate_statistic(mean_statistic(float, bounds), numbers, clusters, sampling, missing)
    return score_from_estimate(estimated, simulation, metric, tutor=tutor)
