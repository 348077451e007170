"""The page of prefix twins: each tutor's diagnosis effect beside those of the form of a prefix."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from maieutic.benchmarks.prefix_twins.metrics import METRICS
from maieutic.config.cards import Card
from maieutic.core.records import Item, ReportedScore
from maieutic.core.stats import BootstrapSettings, Estimate, estimate_statistic
from maieutic.report.sections import ReportInput, Section
from maieutic.report.tables import display_label, items_of_task
from maieutic.report.traffic_light import kind_on
from maieutic.scores.metrics import GradedItem

BENCHMARK = "prefix_twins"
EFFECT, DETECTIONS, FALSE_ALARMS = "diagnosis_effect", "detections", "false_alarms"
FORMS = {
    "by_length": "length: numbers of steps and characters",
    "by_style": "wording: counts of words, without numbers",
}


def effect_of_form(items: Sequence[Item], form: str, sampling: BootstrapSettings) -> Estimate:
    """Return the diagnosis effect of guesses by the form of a prefix, with its interval over problems."""
    guesses = [GradedItem(item.reference[form], None, item.reference["incorrect"]) for item in items]
    return estimate_statistic(METRICS[EFFECT], guesses, [item.cluster for item in items], sampling)


def tutor_rows(run: ReportInput, card: Card, highest_floor: float | None) -> list[dict[str, Any]]:
    """Return a row for each tutor and grader with an effect. highest_floor: upper end of the forms' intervals."""
    scores: dict[tuple[str, str | None], dict[str, ReportedScore]] = {}
    for score in run.scores[BENCHMARK]:
        if score.task == card.task and score.scoring == "robust":
            scores.setdefault((str(score.tutor), score.by), {})[score.metric] = score
    return [
        {
            "label": display_label(run.plan, tutor),
            "by": by,
            "kind": kind_on(run.plan, by, card) if by else None,
            "effect": metrics[EFFECT],
            "detections": metrics.get(DETECTIONS),
            "false_alarms": metrics.get(FALSE_ALARMS),
            "above_form": is_above(metrics[EFFECT].low, highest_floor),
        }
        for (tutor, by), metrics in scores.items()
        if EFFECT in metrics and tutor in run.plan.run.tutors
    ]


def is_above(low: float | None, floor: float | None) -> bool:
    """Return True if the lower end of an interval is known to lie above a floor."""
    return low is not None and floor is not None and low > floor


def twins_page(run: ReportInput) -> dict[str, Any] | None:
    """Return the variables of the page, or None if the run has no scores on prefix twins."""
    if not run.scores.get(BENCHMARK):
        return None
    tasks = []
    for loaded in run.plan.benchmarks.get(BENCHMARK, []):
        card = loaded.card
        items = items_of_task(run.results, BENCHMARK, card.task)
        sampling = BootstrapSettings(**run.plan.bootstrap_settings)
        forms = {title: effect_of_form(items, form, sampling) for form, title in FORMS.items()}
        ends = [estimate.interval.high for estimate in forms.values() if estimate.interval.high is not None]
        rows = tutor_rows(run, card, max(ends, default=None))
        if rows:
            kinds = Counter(problem for problem, _ in {(item.cluster, item.tags["prefix"]) for item in items})
            pairs = sum(number == 2 for number in kinds.values())
            tasks.append({"title": card.title, "rows": rows, "forms": forms, "pairs": pairs})
    return {"tasks": tasks} if tasks else None


PAGES = [Section("#/prefix-twins", "Prefix twins", "prefix_twins", twins_page)]
