"""From a source file to the items of one task."""

from __future__ import annotations

import logging
import re
from pathlib import Path

from maieutic.config.cards import card_path, read_card
from maieutic.core.errors import UserError
from maieutic.core.jobs import Job
from maieutic.core.records import Item, write_records
from maieutic.datasets.pictures import picture_names
from maieutic.datasets.registry import LOADERS
from maieutic.datasets.sampling import select
from maieutic.datasets.sources import read_source

log = logging.getLogger(__name__)
PLACEHOLDER = re.compile(r"<\|?(?:image|img|picture)\w*\|?>|\[IMG\]", re.IGNORECASE)


class MakeItems(Job):
    """One task of a benchmark. form: of its source file; limit: items of a random sample, None: all."""

    benchmark: str
    task: str
    form: str
    limit: int | None = None
    seed: int


def make_items(*, job: MakeItems, source: Path, pictures: list[Path], out: Path) -> None:
    """Turn a source file into the items of one task, or into a random sample of them.

    pictures: the list of the source's pictures, where its records have some. An item whose picture is not to be had is
    left out, and that is said.
    """
    benchmark, task = job.benchmark, job.task
    card = read_card(card_path(benchmark, task)).card
    records = read_source(source, job.form)
    log.info("%s: %d records", source, len(records))  # what a loader says of single records follows
    try:
        items = LOADERS[card.loader].load(records, task)
    except (KeyError, IndexError, TypeError, ValueError, AttributeError, StopIteration) as error:
        raise UserError(
            str(source),
            f"loader {card.loader} cannot read it: {type(error).__name__}: {error}",
            "check the file's fields",
        ) from error
    if len({item.id for item in items}) != len(items):
        raise UserError(f"loader {card.loader}", "two items share an id", "mend the loader")
    if card.images:
        if not pictures:
            raise UserError(f"{benchmark}/{task}", "its dataset lists no pictures", "mend `pictures` in datasets.yaml")
        items = with_files(items, picture_names(pictures[0]))
    write_records(out, select(items, job.limit, job.seed))


def with_files(items: list[Item], files: dict[int, str | None]) -> list[Item]:
    """The items with their pictures' files, instead of the numbers of their records."""
    kept_items = []
    for item in items:
        named = [files.get(int(number)) for number in item.images]
        if all(named):
            kept_items.append(item.model_copy(update={"images": named}))
    marked = sum(any(PLACEHOLDER.search(text) for text in item.vars.values()) for item in kept_items)
    if marked:
        log.warning("%d items hold words such as <image>, which some models take for their picture's place", marked)
    if left := len(items) - len(kept_items):
        log.warning("%d of %d items are left out: their pictures are not to be had", left, len(items))
    return kept_items
