"""Simulations in the plan of a run: their inputs, jobs, checks, and the requests that they need."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property, partial
from pathlib import Path
from typing import Any

from maieutic.config.cards import Card
from maieutic.config.models import BaselineModel, HostedModel, Needs, RecordedModel, VllmModel
from maieutic.config.registry import check_entry, unknown_name
from maieutic.config.simulation import FEWEST_CLAIMS, FOLDER, Simulation, persona_paths, read_persona
from maieutic.core import paths
from maieutic.core.errors import UserError, check_all
from maieutic.core.paths import Pattern
from maieutic.datasets.registry import LOADERS
from maieutic.plan.inputs import entry_for_asking
from maieutic.plan.plan import Plan
from maieutic.plan.slice_plan import Checks, PlannedRequests, SlicePlan, WildcardValues
from maieutic.replies.stage import tutor_weights
from maieutic.simulation.converse import MeasureClaims, SimulateConversations
from maieutic.simulation.records import CANNOT_START, WORK
from maieutic.simulation.scores import ScoreSimulation

JOURNALS = "results/journal/simulations/{simulation}"
TUTOR_JOURNAL = Pattern(JOURNALS + "/tutors/{tutor}.jsonl")
STUDENT_JOURNAL = Pattern(JOURNALS + "/students/{tutor}.jsonl")
CLAIM_JOURNAL = Pattern(f"{JOURNALS}/claims.jsonl")
HOME = "results/simulations/{simulation}"
CONVERSATIONS = Pattern(HOME + "/conversations/{tutor}.jsonl")
CLAIMS = Pattern(f"{HOME}/claims.jsonl")
SCORES = Pattern(f"{HOME}/scores.json")
# Baseline tutors of every simulation: one gives the solution, one asks the same question
FLOORS = ("reveal", "always-ask")
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
    def answering_models(self) -> list[str]:
        """All models that answer requests, including those that play students, and the tutors of simulations."""
        students = [entry.student for entry in self.config.simulations.values()]
        return list(dict.fromkeys([*super().answering_models, *students, *self.simulated_tutors]))

    def simulated_models(self, simulation: str, tutor: str | None = None) -> list[str]:
        """Return the models that a job of a simulation calls: the student's, and the tutor's if it is a model."""
        student = self.simulation(simulation).student
        if tutor is None or isinstance(self.models[tutor], BaselineModel):
            return [student]
        return list(dict.fromkeys([tutor, student]))


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
    if (simulation := names.get("simulation")) is None:
        return None
    return plan.joint_needs(plan.simulated_models(simulation, names.get("tutor")), plan.simulation(simulation).runtime)


def prompt_files() -> list[str]:
    """Return the prompts that all simulations share."""
    return [str(FOLDER / name) for name in ("tutor.jinja", "claim.jinja")]


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
