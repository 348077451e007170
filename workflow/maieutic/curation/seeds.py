"""Seeds of a curation: problems with plain answers, of any dataset of the registry whose loader gives them."""

from __future__ import annotations

import logging
from collections import Counter
from pathlib import Path

from maieutic.config.datasets import Form
from maieutic.core.errors import UserError
from maieutic.core.jobs import Job
from maieutic.core.options import options_of
from maieutic.core.records import Item, write_records
from maieutic.curation.parsers import Unread, written
from maieutic.curation.records import Seed
from maieutic.datasets.registry import LOADERS
from maieutic.datasets.sampling import ranked
from maieutic.datasets.sources import read_source
from maieutic.datasets.word_problems import SEEDS

log = logging.getLogger(__name__)


class SeedSource(Job):
    """A dataset of the registry that gives seeds."""

    dataset: str
    loader: str
    form: Form
    licence: str


class MakeSeeds(Job):
    """The sources of a curation. limit: seeds of each, a random sample; seed: of the draw."""

    curation: str
    sources: list[SeedSource]
    limit: int | None = None
    seed: int


def make_seeds(*, job: MakeSeeds, sources: list[Path], out: Path) -> None:
    """Write the seeds, each problem once. Raises UserError for a source without problems and answers.

    sources: the files, in the job's order.
    """
    by_cluster: dict[str, Seed] = {}
    for source, path in zip(job.sources, sources, strict=True):
        records = read_source(path, source.form, source.dataset)
        place = f"curations.{job.curation}.seeds.{source.dataset}"
        seeds = seeds_of(LOADERS[source.loader].load(records, SEEDS), source, place)
        for seed in drawn(seeds, job.limit, job.seed):
            by_cluster.setdefault(seed.cluster, seed)
    write_records(out, list(by_cluster.values()))
    log.info("%d seeds: %s", len(by_cluster), dict(Counter(seed.source for seed in by_cluster.values())))


def seeds_of(items: list[Item], source: SeedSource, place: str) -> list[Seed]:
    """The items of a source whose answer is a plain number, or the letter of an option of the question.

    Raises UserError for none.
    """
    seeds, why = [], Counter[str]()
    for item in items:
        question, answer = item.vars.get("question"), item.reference.get("answer")
        if not question or answer in (None, ""):
            why["no question or no answer"] += 1
            continue
        plain = plain_answer(str(answer), question)
        if plain is None:
            why["the answer is neither a plain number nor the letter of an option"] += 1
            continue
        seeds.append(
            Seed(
                id=f"{source.dataset}-{item.id}",
                source=source.dataset,
                licence=source.licence,
                cluster=item.cluster,
                problem=question,
                solution=str(item.reference.get("text") or ""),
                answer=plain,
            )
        )
    if why:
        log.warning("%s: left out: %s", source.dataset, dict(why))
    if not seeds:
        reasons = ", ".join(why) or "no records"
        raise UserError(place, f"no seed in it: {reasons}", "name a dataset with problems and answers, and its loader")
    return seeds


def plain_answer(answer: str, question: str) -> str | None:
    """Return an answer as its digits, or as the letter of one of the question's options; None for any other."""
    if answer in options_of(question):
        return answer
    try:
        return written(float(answer))
    except (ValueError, OverflowError, Unread):
        return None


def drawn(seeds: list[Seed], limit: int | None, seed: int) -> list[Seed]:
    """A sample in the order of the source; a larger one contains a smaller one."""
    if limit is None or limit >= len(seeds):
        return seeds
    chosen = set(ranked((record.id for record in seeds), seed)[:limit])
    return [record for record in seeds if record.id in chosen]


def for_evaluation(seeds: list[Seed], share: float, seed: int) -> set[str]:
    """The seeds, by id, whose products are for evaluation: a random share of them, the same at every stage."""
    return set(ranked((record.id for record in seeds), seed)[: round(share * len(seeds))])
