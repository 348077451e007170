"""A curation's jobs that ask models: every seed a coroutine of its own, which waits for no other seed."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, TypeVar

from pydantic import Field

from maieutic.config.curation import LoadedStage, Roles, read_stage
from maieutic.config.models import HostedModel, VllmModel
from maieutic.core.ending import run_to_the_end
from maieutic.core.errors import UserError
from maieutic.core.jobs import Job
from maieutic.core.journal import Entry, Journal
from maieutic.core.progress import Progress
from maieutic.core.records import Record, read_records, write_records
from maieutic.curation import components, weaving
from maieutic.curation.crew import Crew
from maieutic.curation.records import Components, Dialogue, Flow, Outcome, Seed
from maieutic.replies.generate import watched

log = logging.getLogger(__name__)
T = TypeVar("T", bound=Record)
STAGES: Mapping[str, tuple[str, ...]] = {
    "make_components": components.STAGES,
    "write_flows": weaving.STAGES_OF_FLOWS,
    "write_dialogues": weaving.STAGES_OF_DIALOGUES,
}

# Of the outcomes: the last look at a seed comes after its components.
ORDER = (*STAGES["make_components"], components.COMPLETE, *STAGES["write_flows"], *STAGES["write_dialogues"])


class Curate(Job):
    """A curation's roles, and the entries of the models that have them. seed: of answers that are drawn."""

    curation: str
    roles: Roles
    models: dict[str, Annotated[VllmModel | HostedModel, Field(discriminator="engine")]]
    seed: int


class MakeComponents(Curate):
    """Standards, validation, and the four components of each seed."""


class WriteFlows(Curate):
    """Flows of the components, and the decision on each: the verifier's, or people's."""


class WriteDialogues(Curate):
    """Dialogues of the flows. evaluation_share: of the seeds, whose dialogues become test cases."""

    evaluation_share: float


def run(
    job: Curate,
    weights: Sequence[Path],
    journal: Path,
    server_logs: Path,
    stages: Sequence[str],
    seeds: Sequence[str],
    work: Callable[[Crew, int], Awaitable[T | None]],
) -> tuple[list[T], list[Outcome]]:
    """What becomes of every seed, in their order, and every stage's outcomes, seed by seed and stage by stage.

    weights: manifests of the models that we serve, each in a folder of the model's name; work: the coroutine of one
    seed, by its place. Raises UserError when some stayed unanswered, after all others are done.
    """
    with Journal(journal, Entry) as opened:
        manifests = {path.parent.name: path for path in weights}
        cards: dict[str, LoadedStage] = {name: read_stage(name) for name in stages}
        crew = Crew(job.roles, job.models, manifests, cards, opened, server_logs, job.seed)
        made = run_to_the_end(run_all(job.curation, crew, len(seeds), work), crew.grace)
    order = {name: place for place, name in enumerate(ORDER)}
    outcomes = [
        outcome
        for seed in dict.fromkeys(seeds)
        for outcome in sorted(crew.outcomes[seed], key=lambda result: (order[result.stage], result.part))
    ]
    return [record for record in made if record is not None], outcomes


async def run_all(
    name: str, crew: Crew, count: int, work: Callable[[Crew, int], Awaitable[T | None]]
) -> list[T | None]:
    """Every seed at once; ends the servers whatever happens."""
    from maieutic.serving.client import Unanswered

    progress = Progress(name, count)
    made: list[T | None] = [None] * count

    async def one(place: int) -> None:
        asked = crew.asked
        try:
            made[place] = await work(crew, place)
        except Unanswered as error:
            progress.fail(str(error))
            return
        progress.step(known=crew.asked == asked)

    try:
        grace = max(model.grace for model in crew.models.values())
        await watched((one(place) for place in range(count)), crew.check, max(count, 1), grace)
    finally:
        await crew.end()
    progress.say()
    crew.check_spent()
    if progress.failed:
        problem = f"{progress.failed} of {count} seeds stayed unfinished ({progress.reasons()})"
        raise UserError(name, problem, "run again: only these are asked")
    return made


def make_components(
    *,
    job: MakeComponents,
    seeds: Path,
    weights: list[Path],
    journal: Path,
    server_logs: Path,
    out: Path,
) -> None:
    """Write the seeds that have all four components, and the outcome of every product of every stage, in `outcomes`."""
    records = read_records(seeds, Seed)

    async def work(crew: Crew, place: int) -> Components | None:
        return await components.make(crew, records[place])

    names = [seed.id for seed in records]
    made, outcomes = run(job, weights, journal, server_logs, STAGES["make_components"], names, work)
    finish(out, made, "make_components", outcomes, len(records))


def write_flows(
    *,
    job: WriteFlows,
    components: Path,
    people: list[Path],
    weights: list[Path],
    journal: Path,
    server_logs: Path,
    out: Path,
    sheet: Path,
) -> None:
    """Write the flows that are kept, the sheet for people to decide on all of them, and the outcomes.

    people: the sheet with people's decisions, where they decide.
    """
    records = read_records(components, Components)
    decided = {name: decision for path in people for name, decision in weaving.read_sheet(path).items()}
    planned: dict[str, Flow] = {}

    async def work(crew: Crew, place: int) -> Flow | None:
        return await weaving.plan(crew, records[place], planned, decided if people else None)

    stages = [name for name in STAGES["write_flows"] if not (people and name == weaving.VERIFY)]
    names = [record.id for record in records]
    made, outcomes = run(job, weights, journal, server_logs, stages, names, work)
    weaving.check_sheet(people, decided, planned)
    by_id = {record.id: record for record in records}
    weaving.write_sheet(sheet, [(by_id[name], planned[name]) for name in names if name in planned])
    finish(out, made, "write_flows", outcomes, len(records))


def write_dialogues(
    *,
    job: WriteDialogues,
    seeds: Path,
    components: Path,
    flows: Path,
    weights: list[Path],
    journal: Path,
    server_logs: Path,
    out: Path,
) -> None:
    """Write the dialogues, those for evaluation with their test cases, and the outcomes."""
    from maieutic.curation.seeds import for_evaluation

    plans = read_records(flows, Flow)
    by_id = {record.id: record for record in read_records(components, Components)}
    tested = for_evaluation(read_records(seeds, Seed), job.evaluation_share, job.seed)

    async def work(crew: Crew, place: int) -> Dialogue | None:
        plan = plans[place]
        return await weaving.expand(crew, by_id[plan.id], plan, plan.id in tested)

    names = [plan.id for plan in plans]
    made, outcomes = run(job, weights, journal, server_logs, STAGES["write_dialogues"], names, work)
    finish(out, made, "write_dialogues", outcomes, len(plans))


def finish(out: Path, made: Sequence[Record], step: str, outcomes: Sequence[Outcome], count: int) -> None:
    """Write the products, and last the outcomes, in the folder `outcomes` beside them."""
    write_records(out, made)
    write_records(out.parent / "outcomes" / f"{step}.jsonl", outcomes)
    log.info("%d of %d kept; %d products of stages, %d rejected", len(made), count, len(outcomes), rejected(outcomes))


def rejected(outcomes: Sequence[Outcome]) -> int:
    """How many products were rejected."""
    return sum(outcome.reason is not None for outcome in outcomes)
