"""Jobs of a curation that call models. Each seed is processed by its own coroutine, independently of other seeds."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, TypeVar

from pydantic import Field

from maieutic.config.curation import LoadedStage, Roles, read_stage
from maieutic.config.models import HostedModel, VllmModel
from maieutic.core.errors import UserError
from maieutic.core.jobs import Job
from maieutic.core.journal import FinishedRequest, Journal
from maieutic.core.progress import Progress
from maieutic.core.records import Record, read_records, write_records
from maieutic.core.shutdown import run_with_grace
from maieutic.curation import components, dialogues
from maieutic.curation.records import Components, Dialogue, Flow, Outcome, Seed
from maieutic.curation.stage_runner import StageRunner
from maieutic.replies.generate import check_pending, run_watched

log = logging.getLogger(__name__)
T = TypeVar("T", bound=Record)
STAGES: Mapping[str, tuple[str, ...]] = {
    "make_components": components.STAGES,
    "write_flows": dialogues.STAGES_OF_FLOWS,
    "write_dialogues": dialogues.STAGES_OF_DIALOGUES,
}

# Order of a seed's outcomes. The check that a seed has all components follows the stages that generate them.
STAGE_ORDER = (
    *STAGES["make_components"],
    components.COMPLETENESS_CHECK,
    *STAGES["write_flows"],
    *STAGES["write_dialogues"],
)


class Curate(Job):
    """Base class of jobs that call a curation's models.

    models: registry entries by name; seed: random seed for sampling answers.
    """

    curation: str
    roles: Roles
    models: dict[str, Annotated[VllmModel | HostedModel, Field(discriminator="engine")]]
    seed: int


class MakeComponents(Curate):
    """Job that generates the standards and the four components of each validated seed."""


class WriteFlows(Curate):
    """Job that writes flows (plans of dialogues) from components. The verifier or people accept or reject each flow."""


class WriteDialogues(Curate):
    """Job that writes dialogues from flows. evaluation_share: share of the seeds whose dialogues get test cases."""

    evaluation_share: float


def run_stages(
    job: Curate,
    weights: Sequence[Path],
    journal: Path,
    server_logs: Path,
    stages: Sequence[str],
    seeds: Sequence[str],
    work: Callable[[StageRunner, int], Awaitable[T | None]],
) -> tuple[list[T], list[Outcome]]:
    """Run `work` on every seed. Return the products in the order of the seeds, and the outcomes by seed and stage.

    weights: weight manifests of served models, each in a folder named after the model; stages: names of the stages that
    `work` runs; seeds: ids of the seeds; work: coroutine function that processes the seed at a given index. Raises
    UserError after all seeds are processed if some requests remain unanswered.
    """
    with Journal(journal, FinishedRequest) as open_journal:
        manifests = {path.parent.name: path for path in weights}
        cards: dict[str, LoadedStage] = {name: read_stage(name) for name in stages}
        crew = StageRunner(job.roles, job.models, manifests, cards, open_journal, server_logs, job.seed)
        made = run_with_grace(run_all_seeds(job.curation, crew, len(seeds), work), crew.grace)
    order = {name: place for place, name in enumerate(STAGE_ORDER)}
    outcomes = [
        outcome
        for seed in dict.fromkeys(seeds)
        for outcome in sorted(crew.outcomes[seed], key=lambda result: (order[result.stage], result.part))
    ]
    return [record for record in made if record is not None], outcomes


async def run_all_seeds(
    name: str, crew: StageRunner, count: int, work: Callable[[StageRunner, int], Awaitable[T | None]]
) -> list[T | None]:
    """Return the product of every seed. All seeds run concurrently, and the servers are always stopped at the end.

    name: name of the curation, for messages; count: number of seeds; work: coroutine function that processes the seed
    at a given index.
    """
    from maieutic.serving.client import Unanswered

    progress = Progress(name, count)
    made: list[T | None] = [None] * count

    async def run_seed(place: int) -> None:
        asked_before = crew.asked
        try:
            made[place] = await work(crew, place)
        except Unanswered as error:
            progress.fail(str(error), error.later, error.sent)
            return
        progress.step(known=crew.asked == asked_before)

    try:
        grace = max(model.grace for model in crew.models.values())
        await run_watched((run_seed(place) for place in range(count)), crew.check, max(count, 1), grace)
        progress.log_line()
        check_pending(name, progress, "seeds", crew.asking.values())
    finally:
        await crew.end()
    crew.check_spent()
    if progress.failed:
        problem = f"{progress.failed} of {count} seeds are unfinished ({progress.reasons()})"
        raise UserError(name, problem, "run again: only the unanswered requests are sent")
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
    """Write the seeds that have all four components, and the outcomes of every stage."""
    records = read_records(seeds, Seed)

    async def work(crew: StageRunner, place: int) -> Components | None:
        return await components.complete_seed(crew, records[place])

    names = [seed.id for seed in records]
    made, outcomes = run_stages(job, weights, journal, server_logs, STAGES["make_components"], names, work)
    write_products(out, made, "make_components", outcomes, len(records))


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
    """Write the accepted flows, a sheet of all flows for people's decisions, and the outcomes.

    people: the sheet with people's decisions; empty if the verifier (a model) decides.
    """
    records = read_records(components, Components)
    decided = {name: decision for path in people for name, decision in dialogues.read_flow_decisions(path).items()}
    planned: dict[str, Flow] = {}

    async def work(crew: StageRunner, place: int) -> Flow | None:
        return await dialogues.make_flow(crew, records[place], planned, decided if people else None)

    stages = [name for name in STAGES["write_flows"] if not (people and name == dialogues.VERIFY)]
    names = [record.id for record in records]
    made, outcomes = run_stages(job, weights, journal, server_logs, stages, names, work)
    dialogues.check_flow_decisions(people, decided, planned)
    by_id = {record.id: record for record in records}
    dialogues.write_flow_sheet(sheet, [(by_id[name], planned[name]) for name in names if name in planned])
    write_products(out, made, "write_flows", outcomes, len(records))


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
    """Write the dialogues and the outcomes. The dialogues of evaluation seeds include test cases."""
    from maieutic.curation.seeds import evaluation_seeds

    plans = read_records(flows, Flow)
    by_id = {record.id: record for record in read_records(components, Components)}
    tested = evaluation_seeds(read_records(seeds, Seed), job.evaluation_share, job.seed)

    async def work(crew: StageRunner, place: int) -> Dialogue | None:
        plan = plans[place]
        return await dialogues.make_dialogue(crew, by_id[plan.id], plan, plan.id in tested)

    names = [plan.id for plan in plans]
    made, outcomes = run_stages(job, weights, journal, server_logs, STAGES["write_dialogues"], names, work)
    write_products(out, made, "write_dialogues", outcomes, len(plans))


def write_products(out: Path, made: Sequence[Record], step: str, outcomes: Sequence[Outcome], count: int) -> None:
    """Write a step's products to `out`, then its outcomes into the folder `outcomes` beside that file."""
    write_records(out, made)
    write_records(out.parent / "outcomes" / f"{step}.jsonl", outcomes)
    log.info(
        "kept %d of %d inputs; the stages produced %d results, of which %d were rejected",
        len(made),
        count,
        len(outcomes),
        count_rejected(outcomes),
    )


def count_rejected(outcomes: Sequence[Outcome]) -> int:
    """Return the number of outcomes that are rejections."""
    return sum(outcome.reason is not None for outcome in outcomes)
