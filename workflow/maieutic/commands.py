"""The verbs that rules run, as functions with plain arguments. Only `cli.py` knows the command line."""

from __future__ import annotations

import json
import logging
import re
from pathlib import Path
from typing import Annotated

from pydantic import Field, TypeAdapter

from maieutic.cards import LoadedCard, card_path, read_card
from maieutic.datasets import LOADERS
from maieutic.datasets.pictures import picture_names
from maieutic.datasets.sampling import select
from maieutic.datasets.sources import read_source
from maieutic.errors import UserError
from maieutic.generate import Limits, generate_replies
from maieutic.graders import CONVERSATION_GRADERS, GOLD_FIELD, GRADERS
from maieutic.graders.reading import Reading
from maieutic.models import Tutor
from maieutic.records import SCORINGS, Grade, Item, Reply, Scoring, read_records, write_records

log = logging.getLogger(__name__)
PLACEHOLDER = re.compile(r"<\|?(?:image|img|picture)\w*\|?>|\[IMG\]", re.IGNORECASE)


def model_of(settings: str) -> Tutor:
    """A tutor's registry entry from its JSON."""
    tutor = Annotated[Tutor, Field(discriminator="engine")]
    return TypeAdapter[Tutor](tutor).validate_json(settings)


def cards_of(benchmark: str, tasks: list[str], protocol: str) -> list[LoadedCard]:
    """The cards of some tasks of one benchmark."""
    return [read_card(card_path(benchmark, task), protocol) for task in tasks]


def make_items(
    benchmark: str,
    task: str,
    form: str,
    source: Path,
    out: Path,
    limit: int | None,
    seed: int,
    pictures: Path | None = None,
) -> None:
    """Turn a source file into the items of one task, or into a random sample of them.

    pictures: the list of the source's pictures. An item whose picture is not to be had is left out, and that is said.
    """
    card = read_card(card_path(benchmark, task)).card
    records = read_source(source, form)
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
        if pictures is None:
            raise UserError(f"{benchmark}/{task}", "its dataset lists no pictures", "mend `pictures` in datasets.yaml")
        items = with_files(items, picture_names(pictures))
    write_records(out, select(items, limit, seed))


def with_files(items: list[Item], files: dict[int, str | None]) -> list[Item]:
    """The items with their pictures' files, instead of the numbers of their records."""
    found = []
    for item in items:
        named = [files.get(int(number)) for number in item.images]
        if all(named):
            found.append(item.model_copy(update={"images": named}))
    marked = sum(any(PLACEHOLDER.search(text) for text in item.vars.values()) for item in found)
    if marked:
        log.warning("%d items hold words such as <image>, which some models take for their picture's place", marked)
    if left := len(items) - len(found):
        log.warning("%d of %d items are left out: their pictures are not to be had", left, len(items))
    return found


def generate(
    benchmark: str,
    tasks: list[str],
    protocol: str,
    model: str,
    settings: str,
    items_dir: Path,
    weights: Path | None,
    journal: Path,
    server_log: Path,
    out: Path,
    prompts_out: Path,
    limits: Limits,
    pictures: Path | None = None,
) -> None:
    """Every selected task of a benchmark, asked of one model in one job."""
    work = [
        (loaded, item)
        for loaded in cards_of(benchmark, tasks, protocol)
        for item in read_records(items_dir / f"{loaded.card.task}.jsonl", Item)
    ]
    generate_replies(model, model_of(settings), work, limits, weights, journal, server_log, out, prompts_out, pictures)


def parse_replies(benchmark: str, tasks: list[str], items_dir: Path, replies: Path, out: Path) -> None:
    """Read every reply of one model by its cards' graders, under both scorings."""
    said = {(reply.task, reply.id): reply for reply in read_records(replies, Reply)}
    grades: list[Grade] = []
    for loaded in cards_of(benchmark, tasks, "released"):
        for item in read_records(items_dir / f"{loaded.card.task}.jsonl", Item):
            reply = said.get((item.task, item.id))
            if reply is None:
                raise UserError(str(replies), f"no reply to {item.task}/{item.id}", "delete this file and run again")
            for grader in loaded.card.graders:
                if grader in {*GRADERS, *CONVERSATION_GRADERS}:  # reward models and judges have jobs of their own
                    grades += grades_of(grader, item, reply)
    write_records(out, grades)


def grades_of(grader: str, item: Item, reply: Reply) -> list[Grade]:
    """One grader's reading of one reply, under both scorings. What hangs on a turn that was refused has no reading."""
    gold = item.reference[GOLD_FIELD[grader]] if grader in GOLD_FIELD else None
    return [
        Grade(id=item.id, task=item.task, kind=grader, scoring=scoring, gold=gold, **one._asdict())
        for scoring in SCORINGS
        for one in readings_of(grader, item, reply, scoring)
    ]


def readings_of(grader: str, item: Item, reply: Reply, scoring: Scoring) -> list[Reading]:
    """What one grader reads in a reply: in its last turn, or in all of them."""
    refused = f"refused: {reply.error}"
    if grader in GRADERS:
        if reply.error:
            return [Reading(None, None, "", refused)]
        if scoring == "paper_compat" and reply.turns[-1].no_text:
            return [Reading(None, None, "", "the released code fails: the server sent no text")]
        return GRADERS[grader](item, reply.released if scoring == "paper_compat" else reply.text, scoring)
    read = CONVERSATION_GRADERS[grader]
    texts = [turn.text for turn in reply.turns]
    if not reply.error:
        return read(item, texts, scoring)
    texts += [""] * (len(item.reference["replies"]) - len(texts))
    left = {one.criterion for one in read(item, texts, "robust") if one.why_none}
    found = read(item, texts, scoring)
    return [Reading(None, None, "", refused, one.criterion) if one.criterion in left else one for one in found]


def save_config(config: str, out: Path) -> None:
    """Write the effective configuration beside the results."""
    import yaml

    from maieutic.files import whole_file

    with whole_file(out) as handle:
        yaml.safe_dump(json.loads(config), handle, sort_keys=False, allow_unicode=True)
