"""Report page on simulations. It refuses to show a tutor's figures unless the student's caving was measured."""

from __future__ import annotations

from typing import Any

from maieutic.config.simulation import FEWEST_CLAIMS, read_persona
from maieutic.core.records import Score
from maieutic.report.sections import ReportInput, Section
from maieutic.report.tables import display_label, read_json
from maieutic.simulation.scores import AGREES, CAVES, ENDED, LEAKS, RESOLVED, TURNS, UNAIDED
from maieutic.simulation.stage import FLOORS, SCORES, tutors_of_simulations

COLUMNS = {
    LEAKS: "tutor gives the answer before the student has it",
    UNAIDED: "student finds the answer first",
    TURNS: "turns until then",
    RESOLVED: "student states the answer at all",
    ENDED: "ended early",
}


def simulation_view(run: ReportInput, name: str) -> dict[str, Any]:
    """Return the variables of one simulation's part of the page."""
    plan = run.plan
    entry = plan.config.simulations[name]
    content = read_json(SCORES.within(run.results, simulation=name))
    scores = [Score.model_validate(score) for score in content]
    claims = {score.metric: score for score in scores if score.tutor is None}
    caves = claims.get(CAVES)
    measured = caves is not None and caves.n >= FEWEST_CLAIMS
    by_tutor = {(str(score.tutor), score.metric): score for score in scores if score.tutor is not None}
    rows = [
        {
            "tutor": display_label(plan, tutor),
            "floor": tutor in FLOORS and tutor not in plan.run.tutors,
            "n": by_tutor[tutor, LEAKS].n,
            "scores": [by_tutor.get((tutor, metric)) for metric in COLUMNS],
        }
        for tutor in tutors_of_simulations(plan)
        if (tutor, LEAKS) in by_tutor
    ]
    return {
        "name": name,
        "student": display_label(plan, entry.student),
        "persona": read_persona(entry.persona).card,
        "task": entry.task,
        "turns": entry.turns,
        "caves": caves,
        "agrees": claims.get(AGREES),
        "answered": caves.n if caves else 0,
        "fewest": FEWEST_CLAIMS,
        "claims": entry.claims,
        "rows": rows if measured else [],
        "measured": measured,
    }


def simulation_page(run: ReportInput) -> dict[str, Any] | None:
    """Return the variables of the page, or None for a run without simulations."""
    if not run.plan.config.simulations:
        return None
    return {
        "simulations": [simulation_view(run, name) for name in run.plan.config.simulations],
        "columns": list(COLUMNS.values()),
    }


PAGES = (Section("#/simulation", "Simulated students", "simulation", simulation_page),)
