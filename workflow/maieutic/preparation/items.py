"""Job that turns a source file into the items of one task."""

from __future__ import annotations

import logging
import re
from pathlib import Path

from maieutic.config.cards import card_path, read_card
from maieutic.core.errors import UserError
from maieutic.core.jobs import Job
from maieutic.core.records import Item, write_records
from maieutic.datasets.registry import LOADERS
from maieutic.datasets.sampling import sample_items
from maieutic.datasets.sources import read_source
from maieutic.preparation.pictures import picture_files

log = logging.getLogger(__name__)
PLACEHOLDER = re.compile(r"<\|?(?:image|img|picture)\w*\|?>|\[IMG\]", re.IGNORECASE)


class MakeItems(Job):
    """Job that makes a task's items.

    form: format of the source file; limit: size of the random sample (None: all); repeats: number of copies of each
    item, with the item itself.
    """

    benchmark: str
    task: str
    form: str
    limit: int | None = None
    seed: int
    repeats: int = 1


def make_items(*, job: MakeItems, source: Path, pictures: list[Path], out: Path) -> None:
    """Write the items of one task, or a random sample of them, from a source file.

    Items whose picture is unavailable are left out, with a warning.

    pictures: the file that lists the source's pictures, for a card with images; otherwise empty.
    """
    benchmark, task = job.benchmark, job.task
    card = read_card(card_path(benchmark, task)).card
    records = read_source(source, job.form)
    log.info("%s: %d records", source, len(records))  # the messages that follow do not name the file
    try:
        items = LOADERS[card.loader].load(records, task)
    except (KeyError, IndexError, TypeError, ValueError, AttributeError, StopIteration) as error:
        raise UserError(
            str(source),
            f"loader {card.loader} cannot read the file: {type(error).__name__}: {error}",
            "correct the file's fields",
        ) from error
    if len({item.id for item in items}) != len(items):
        raise UserError(
            f"loader {card.loader}", "two items share an id", "change the loader so that it sets unique ids"
        )
    if card.images:
        if not pictures:
            raise UserError(
                f"{benchmark}/{task}",
                "the registry entry of the task's dataset has no `pictures`",
                "set `pictures` in datasets.yaml",
            )
        items = with_picture_files(items, picture_files(pictures[0]))
    chosen = sample_items(items, job.limit, job.seed)
    write_records(out, [item.copy_number(repeat) for item in chosen for repeat in range(job.repeats)])


def with_picture_files(items: list[Item], files: dict[int, str | None]) -> list[Item]:
    """Replace the record numbers in items by picture files, and leave out items whose picture is unavailable.

    files: maps a record number to its picture file, or to None if the picture is unavailable.
    """
    kept_items = []
    for item in items:
        file_names = [files.get(int(number)) for number in item.images]
        if all(file_names):
            kept_items.append(item.model_copy(update={"images": file_names}))
    marked = sum(any(PLACEHOLDER.search(text) for text in item.vars.values()) for item in kept_items)
    if marked:
        log.warning(
            "items that contain a word such as <image>, which some models read as the position of the picture: %d",
            marked,
        )
    if left := len(items) - len(kept_items):
        log.warning("items left out because their pictures are unavailable: %d of %d", left, len(items))
    return kept_items
