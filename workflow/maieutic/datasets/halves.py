"""Accuracy of a grader on two halves of the problems: one half chooses the best grader, the other shows how good it is.

The accuracy on the half that chose a grader is too high on average.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from maieutic.core.stats import SHARE, BootstrapSettings, estimate_statistic
from maieutic.datasets.sampling import ranked_by_seed

Accuracy = dict[str, float | int | None]
CHOSEN_ON, SHOWN_ON = "chosen_on", "shown_on"


def accuracies_on_halves(
    problems: Iterable[str], answers: Sequence[tuple[str, bool]], sampling: BootstrapSettings
) -> dict[str, Accuracy]:
    """Return the accuracy on each half, with its interval and the number of answers. A problem is in one half.

    problems: all problems; answers: problem of each answer, and True if the answer is right.
    """
    names = sorted({*problems})
    first_half = set(ranked_by_seed(names, sampling.seed)[: len(names) // 2])
    return {
        CHOSEN_ON: share_of_right([answer for answer in answers if answer[0] in first_half], sampling),
        SHOWN_ON: share_of_right([answer for answer in answers if answer[0] not in first_half], sampling),
    }


def share_of_right(answers: Sequence[tuple[str, bool]], sampling: BootstrapSettings) -> Accuracy:
    """Return the share of right answers with its interval and the number of answers."""
    right = [float(is_right) for _, is_right in answers]
    estimate = estimate_statistic(SHARE, right, [problem for problem, _ in answers], sampling)
    return {"value": estimate.value, "low": estimate.interval.low, "high": estimate.interval.high, "n": estimate.n}
