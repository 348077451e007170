"""Jobs of the rules for simulations. A function that is named after a rule maps the rule's wildcards to its job."""

from __future__ import annotations

from typing import Any

from maieutic.config.job_entries import entry_for_asking
from maieutic.config.models import BaselineModel, HostedModel, VllmModel
from maieutic.simulation.converse import MeasureClaims, SimulateConversations
from maieutic.simulation.planned import SimulationPlan
from maieutic.simulation.scores import ScoreSimulation


def common_fields(plan: SimulationPlan, simulation: str) -> dict[str, Any]:
    """Return the fields that both jobs with a student share."""
    entry = plan.simulation(simulation)
    benchmark, _, task = entry.task.partition("/")
    student = plan.models[entry.student]
    assert isinstance(student, VllmModel | HostedModel), "checked before the run"
    return {
        "simulation": simulation,
        "settings": entry,
        "student_entry": entry_for_asking(student),
        "benchmark": benchmark,
        "task": task,
        "seed": plan.run.seed,
    }


def simulate_conversations(plan: SimulationPlan, simulation: str, tutor: str) -> SimulateConversations:
    entry = plan.models[tutor]
    assert isinstance(entry, VllmModel | HostedModel | BaselineModel), "recorded tutors take no part"
    return SimulateConversations(**common_fields(plan, simulation), tutor=tutor, entry=entry_for_asking(entry))


def measure_claims(plan: SimulationPlan, simulation: str) -> MeasureClaims:
    return MeasureClaims(**common_fields(plan, simulation))


def score_simulation(plan: SimulationPlan, simulation: str) -> ScoreSimulation:
    turns = plan.simulation(simulation).turns
    return ScoreSimulation(simulation=simulation, turns=turns, **plan.bootstrap_settings)
