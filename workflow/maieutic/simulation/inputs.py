"""Input files of the rules for simulations, as far as they depend on the run's selection."""

from __future__ import annotations

from collections.abc import Iterator

from maieutic.config.simulation import read_persona
from maieutic.core import paths
from maieutic.plan.steps import Step, one_output_step
from maieutic.replies.inputs import tutor_weights
from maieutic.simulation.paths import (
    CLAIM_JOURNAL,
    CONVERSATIONS,
    SCORES,
    STUDENT_JOURNAL,
    TUTOR_JOURNAL,
)
from maieutic.simulation.planned import SimulationPlan, prompt_files
from maieutic.simulation.scores import score_simulation


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


def scoring_steps(plan: SimulationPlan) -> Iterator[Step]:
    """Yield the steps that compute the figures of simulations without a model."""
    for name in plan.config.simulations:
        yield one_output_step(score_simulation, SCORES, simulation=name)
