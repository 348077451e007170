"""Input files of the rules for simulations, as far as they depend on the run's selection."""

from __future__ import annotations

from maieutic.config.simulation import read_persona
from maieutic.core import paths
from maieutic.simulation.paths import CLAIMS, CONVERSATIONS, SCORES
from maieutic.simulation.planned import SimulationPlan, prompt_files


def simulated_items(plan: SimulationPlan, simulation: str) -> str:
    """Return the file of the items that a simulation starts from."""
    benchmark, _, task = plan.simulation(simulation).task.partition("/")
    return paths.ITEMS.of(benchmark=benchmark, task=task)


def simulation_prompts(plan: SimulationPlan, simulation: str) -> list[str]:
    """Return the persona card and all prompts of a simulation."""
    return [*map(str, read_persona(plan.simulation(simulation).persona).files), *prompt_files()]


def student_weights(plan: SimulationPlan, simulation: str) -> list[str]:
    """Return the weights manifest of a simulation's student; empty unless this run serves the model."""
    student = plan.simulation(simulation).student
    return [paths.WEIGHTS.of(model=student)] if student in plan.with_engine("vllm") else []


def simulated_tutor_weights(plan: SimulationPlan, tutor: str) -> list[str]:
    """Return the weights manifest of a tutor; empty unless this run serves the model."""
    return [paths.WEIGHTS.of(model=tutor)] if tutor in plan.with_engine("vllm") else []


def all_conversations(plan: SimulationPlan, simulation: str) -> list[str]:
    """Return the files of a simulation's conversations, one for each tutor."""
    return [CONVERSATIONS.of(simulation=simulation, tutor=tutor) for tutor in plan.simulated_tutors]


def report_files(plan: SimulationPlan) -> list[str]:
    """Return the files of simulations that the report reads."""
    return [pattern.of(simulation=name) for name in plan.config.simulations for pattern in (SCORES, CLAIMS)]
