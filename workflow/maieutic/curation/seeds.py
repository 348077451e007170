"""Seeds of a curation: problems with plain answers, from registered datasets whose loaders return questions."""

from __future__ import annotations

import logging
from collections import Counter
from pathlib import Path

from maieutic.config.datasets import FileFormat
from maieutic.core.errors import UserError
from maieutic.core.jobs import Job
from maieutic.core.options import options_of
from maieutic.core.records import Item, write_records
from maieutic.curation.parsers import AnswerFormatError, decimal_text
from maieutic.curation.records import Seed
from maieutic.datasets.registry import LOADERS
from maieutic.datasets.sampling import ranked_by_seed
from maieutic.datasets.sources import read_source
from maieutic.datasets.word_problems import SEEDS

log = logging.getLogger(__name__)


class SeedSource(Job):
    """A registered dataset from which seeds are taken."""

    dataset: str
    loader: str
    form: FileFormat
    licence: str


class MakeSeeds(Job):
    """Job that makes seeds. limit: maximum number of seeds per source (None for all); seed: random seed."""

    curation: str
    sources: list[SeedSource]
    limit: int | None = None
    seed: int


def make_seeds(*, job: MakeSeeds, sources: list[Path], out: Path) -> None:
    """Write the seeds, with each problem once. Raises UserError for a source without problems that have plain answers.

    sources: one file for each of the job's sources, in the same order.
    """
    by_cluster: dict[str, Seed] = {}
    for source, path in zip(job.sources, sources, strict=True):
        records = read_source(path, source.form, source.dataset)
        place = f"curations.{job.curation}.seeds.{source.dataset}"
        seeds = seeds_of(LOADERS[source.loader].load(records, SEEDS), source, place)
        for seed in sample_seeds(seeds, job.limit, job.seed):
            by_cluster.setdefault(seed.cluster, seed)
    write_records(out, list(by_cluster.values()))
    log.info("%d seeds: %s", len(by_cluster), dict(Counter(seed.source for seed in by_cluster.values())))


def seeds_of(items: list[Item], source: SeedSource, place: str) -> list[Seed]:
    """Return a seed for each item whose answer is a plain number, or the letter of an option in the question.

    place: the config key of the source, for error messages. Raises UserError if no item qualifies.
    """
    seeds, left_out = [], Counter[str]()
    for item in items:
        question, answer = item.vars.get("question"), item.reference.get("answer")
        if not question or answer in (None, ""):
            left_out["no question or no answer"] += 1
            continue
        plain = plain_answer(str(answer), question)
        if plain is None:
            left_out["the answer is neither a plain number nor the letter of an option"] += 1
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
    if left_out:
        log.warning("%s: items left out, by reason: %s", source.dataset, dict(left_out))
    if not seeds:
        problem = f"expected problems with plain answers, found none ({', '.join(left_out) or 'no records'})"
        raise UserError(place, problem, "choose a dataset of problems with answers, and the loader that reads it")
    return seeds


def plain_answer(answer: str, question: str) -> str | None:
    """Return an answer as a plain number or as the letter of one of the question's options; None for other answers."""
    if answer in options_of(question):
        return answer
    try:
        return decimal_text(float(answer))
    except (ValueError, OverflowError, AnswerFormatError):
        return None


def sample_seeds(seeds: list[Seed], limit: int | None, seed: int) -> list[Seed]:
    """Return `limit` random seeds (all seeds if None) in source order. A larger sample contains every smaller one."""
    if limit is None or limit >= len(seeds):
        return seeds
    chosen = set(ranked_by_seed((record.id for record in seeds), seed)[:limit])
    return [record for record in seeds if record.id in chosen]


def evaluation_seeds(seeds: list[Seed], share: float, seed: int) -> set[str]:
    """Return the ids of the seeds for evaluation: a random share of all seeds that is the same in every job."""
    return set(ranked_by_seed((record.id for record in seeds), seed)[: round(share * len(seeds))])
