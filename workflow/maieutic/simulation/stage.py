"""Part of the plan that covers simulations."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

from maieutic.config.models import BaselineModel, HostedModel, VllmModel
from maieutic.config.simulation import read_persona
from maieutic.core import paths
from maieutic.plan.inputs import entry_for_asking
from maieutic.plan.slice_plan import Checks, SlicePlan
from maieutic.replies.stage import tutor_weights
from maieutic.simulation.converse import MeasureClaims, SimulateConversations
from maieutic.simulation.planned import (
    CLAIM_JOURNAL,
    CONVERSATIONS,
    SCORES,
    STUDENT_JOURNAL,
    TUTOR_JOURNAL,
    SimulationPlan,
    check_simulations,
    models_of,
    needs_of,
    planned_requests,
    prompt_files,
)
from maieutic.simulation.scores import ScoreSimulation


def simulated_items(plan: SimulationPlan, simulation: str) -> str:
    """Return the file of the items that a simulation starts from."""
    benchmark, _, task = plan.simulation(simulation).task.partition("/")
    return paths.ITEMS.of(benchmark=benchmark, task=task)


def simulation_prompts(plan: SimulationPlan, simulation: str) -> list[str]:
    """Return the persona card and all prompts of a simulation."""
    return [*map(str, read_persona(plan.simulation(simulation).persona).files), *prompt_files()]


def student_weights(plan: SimulationPlan, simulation: str) -> list[str]:
    """Return the weights manifest of a simulation's student; empty unless this run serves the model."""
    return tutor_weights(plan, plan.simulation(simulation).student)


def all_conversations(plan: SimulationPlan, simulation: str) -> list[str]:
    """Return the files of a simulation's conversations, one for each tutor."""
    return [CONVERSATIONS.of(simulation=simulation, tutor=tutor) for tutor in plan.simulated_tutors]


def report_files(plan: SimulationPlan) -> list[str]:
    """Return the files of simulations that the report reads."""
    return [SCORES.of(simulation=name) for name in plan.config.simulations]


def simulation_journals(plan: SimulationPlan) -> Iterator[str]:
    """Yield the journals of both sides of all conversations, and of the claims."""
    for name in plan.config.simulations:
        yield CLAIM_JOURNAL.of(simulation=name)
        for tutor in plan.simulated_tutors:
            yield TUTOR_JOURNAL.of(simulation=name, tutor=tutor)
            yield STUDENT_JOURNAL.of(simulation=name, tutor=tutor)


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


def simulate_conversations_job(plan: SimulationPlan, simulation: str, tutor: str) -> SimulateConversations:
    entry = plan.models[tutor]
    assert isinstance(entry, VllmModel | HostedModel | BaselineModel), "recorded tutors take no part"
    return SimulateConversations(**common_fields(plan, simulation), tutor=tutor, entry=entry_for_asking(entry))


def measure_claims_job(plan: SimulationPlan, simulation: str) -> MeasureClaims:
    return MeasureClaims(**common_fields(plan, simulation))


def score_simulation_job(plan: SimulationPlan, simulation: str) -> ScoreSimulation:
    turns = plan.simulation(simulation).turns
    return ScoreSimulation(simulation=simulation, turns=turns, **plan.bootstrap_settings)


STAGE = SlicePlan(
    module=__name__,
    plan=SimulationPlan,
    checks=Checks(data=lambda plan: [partial(check_simulations, plan)]),
    report_files=report_files,
    journals=simulation_journals,
    computed_files=report_files,
    requests=planned_requests,
    models_of=models_of,
    needs_of=needs_of,
)
