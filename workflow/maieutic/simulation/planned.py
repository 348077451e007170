"""Simulations in the plan of a run, their checks, and the requests that they need."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property, partial
from pathlib import Path

from maieutic.config.cards import Card
from maieutic.config.models import BaselineModel, HostedModel, Needs, RecordedModel, VllmModel
from maieutic.config.registry import check_entry, unknown_name
from maieutic.config.simulation import FEWEST_CLAIMS, FOLDER, Simulation, persona_paths, read_persona
from maieutic.core.errors import UserError, check_all
from maieutic.core.paths import Pattern
from maieutic.datasets.registry import LOADERS
from maieutic.plan.plan import Plan
from maieutic.plan.slice_plan import PlannedRequests, WildcardValues
from maieutic.simulation.starts import CANNOT_START, WORK

JOURNALS = "results/journal/simulations/{simulation}"
TUTOR_JOURNAL = Pattern(JOURNALS + "/tutors/{tutor}.jsonl")
STUDENT_JOURNAL = Pattern(JOURNALS + "/students/{tutor}.jsonl")
CLAIM_JOURNAL = Pattern(f"{JOURNALS}/claims.jsonl")
HOME = "results/simulations/{simulation}"
CONVERSATIONS = Pattern(HOME + "/conversations/{tutor}.jsonl")
CLAIMS = Pattern(f"{HOME}/claims.jsonl")
SCORES = Pattern(f"{HOME}/scores.json")


FLOORS = (
    "reveal",
    "always-ask",
)  # baseline tutors of every simulation: one gives the solution, one asks the same question
DIALOGUES = {"history", "dialog_history"}  # item variables of tasks whose items continue a dialogue
PROMPT_TOKENS, TURN_TOKENS = 400, 80  # typical numbers of tokens of a first prompt, and of one turn


def tutors_of_simulations(plan: Plan) -> list[str]:
    """Return the tutors of every simulation of a run: its tutors that can answer new turns, and the floors."""
    models = [name for name in plan.run.tutors if not isinstance(plan.models[name], RecordedModel)]
    return list(dict.fromkeys([*models, *FLOORS])) if plan.config.simulations else []


class SimulationPlan(Plan):
    """A run's plan that includes simulations."""

    def simulation(self, name: str) -> Simulation:
        """Return the configuration entry of a simulation."""
        return self.config.simulations[name]

    @cached_property
    def simulated_tutors(self) -> list[str]:
        """Tutors of every simulation; empty for a run without simulations."""
        return tutors_of_simulations(self)

    @cached_property
    def used_models(self) -> list[str]:
        """All models in use, including those that play students, and the tutors of simulations."""
        students = [entry.student for entry in self.config.simulations.values()]
        return list(dict.fromkeys([*super().used_models, *students, *self.simulated_tutors]))

    def simulated_models(self, simulation: str, tutor: str | None = None) -> list[str]:
        """Return the models that a job of a simulation calls: the student's, and the tutor's if it is a model."""
        student = self.simulation(simulation).student
        if tutor is None or isinstance(self.models[tutor], BaselineModel):
            return [student]
        return list(dict.fromkeys([tutor, student]))

    def simulation_needs(self, simulation: str, tutor: str | None = None) -> Needs:
        """Return the resources of a job: GPUs and memory of both models, and the larger number of CPUs."""
        needs = [self.models[name].needs for name in self.simulated_models(simulation, tutor)]
        return Needs(
            gpus=sum(entry.gpus for entry in needs),
            cpus=max(entry.cpus for entry in needs),
            mem_mb=sum(entry.mem_mb for entry in needs),
            runtime=self.simulation(simulation).runtime,
        )


def cards_by_name(plan: Plan) -> dict[str, Card]:
    """Return the cards of the run's tasks by their names in a run file, `benchmark/task`."""
    return {f"{loaded.card.benchmark}/{loaded.card.task}": loaded.card for loaded in plan.cards.values()}


def check_simulations(plan: SimulationPlan) -> None:
    """Check all simulations. Raises UserError that lists all faults."""
    check_all(partial(check_simulation, plan, name) for name in plan.config.simulations)


def check_simulation(plan: SimulationPlan, name: str) -> None:
    """Check one simulation: its student, persona and task."""
    entry, key = plan.simulation(name), f"simulations.{name}"
    check_entry(plan.models, f"{key}.student", entry.student, (VllmModel, HostedModel), "a model that can chat")
    if entry.persona not in persona_paths():
        raise unknown_name(f"{key}.persona", entry.persona, list(persona_paths()), "the persona cards")
    read_persona(entry.persona)
    cards = cards_by_name(plan)
    if entry.task not in cards:
        raise unknown_name(f"{key}.task", entry.task, list(cards), "the tasks of run.tasks")
    for place, model_name in (
        (f"{key}.student", entry.student),
        *((f"{key}: tutor", name) for name in plan.run.tutors),
    ):
        if getattr(plan.models.get(model_name), "endpoint", None) == "completions":
            problem = f"{model_name} has endpoint: completions, but both sides of a conversation chat"
            raise UserError(place, problem, "choose a model with endpoint: chat, or remove the simulation")
    variables = LOADERS[cards[entry.task].loader].variables
    if "question" not in variables or not variables & {*WORK, *DIALOGUES}:
        fix = "choose mathtutorbench/mistake_correction, or another task with a student's work or a dialogue"
        raise UserError(f"{key}.task", f"{entry.task}: {CANNOT_START}", fix)
    check_limit(plan, key, cards[entry.task])


def check_limit(plan: SimulationPlan, key: str, card: Card) -> None:
    """Raise UserError if `run.limit` leaves too few items for the figures of a simulation. key: its place."""
    limit = plan.run.limit
    if limit is not None and limit < FEWEST_CLAIMS:
        problem = f"figures need {FEWEST_CLAIMS} wrong claims, but run.limit leaves {limit} items of {card.task}"
        raise UserError(key, problem, f"set run.limit to {FEWEST_CLAIMS} or more, or remove the simulation")


def planned_requests(plan: SimulationPlan) -> Iterator[PlannedRequests]:
    """Yield the estimated requests of every job of a simulation, for each side of its conversations."""
    cards = cards_by_name(plan)
    for name, entry in plan.config.simulations.items():
        available = plan.item_count(cards[entry.task]) or entry.items
        for tutor in plan.simulated_tutors:
            names = {"simulation": name, "tutor": tutor}
            if Path(CONVERSATIONS.of(**names)).is_file():
                continue
            both = [entry.student] if isinstance(plan.models[tutor], BaselineModel) else [tutor, entry.student]
            for model in both:
                requests = min(entry.items, available) * entry.turns
                prompt = PROMPT_TOKENS + TURN_TOKENS * entry.turns  # the mean length of a growing dialogue
                yield PlannedRequests(
                    "simulate_conversations", names, "simulations", model, requests, requests * prompt,
                    requests * TURN_TOKENS,
                )  # fmt: skip
        if Path(CLAIMS.of(simulation=name)).is_file():
            continue
        requests = 2 * min(entry.claims, available)
        yield PlannedRequests(
            "measure_claims", {"simulation": name}, "simulations", entry.student, requests, requests * PROMPT_TOKENS,
            requests * TURN_TOKENS,
        )  # fmt: skip


def hosted_simulations(plan: SimulationPlan) -> list[str]:
    """Return the simulations whose student is a hosted model."""
    hosted = plan.with_engine("hosted")
    return [name for name, entry in plan.config.simulations.items() if entry.student in hosted]


def unserved_tutors(plan: SimulationPlan) -> list[str]:
    """Return the tutors of simulations that this run does not serve: hosted models and baseline tutors."""
    served = plan.with_engine("vllm")
    return [name for name in plan.simulated_tutors if name not in served]


def models_of(plan: SimulationPlan, names: WildcardValues) -> list[str] | None:
    """Return the models that a simulation's job calls; None for other jobs."""
    return plan.simulated_models(names["simulation"], names.get("tutor")) if "simulation" in names else None


def needs_of(plan: SimulationPlan, names: WildcardValues) -> Needs | None:
    """Return the resources of a simulation's job; None for other jobs."""
    return plan.simulation_needs(names["simulation"], names.get("tutor")) if "simulation" in names else None


def prompt_files() -> list[str]:
    """Return the prompts that all simulations share."""
    return [str(FOLDER / name) for name in ("tutor.jinja", "claim.jinja")]
