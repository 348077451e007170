"""Blind human study in which people compare replies with a reference (KMP-Bench, appendix I).

It consists of sheets for annotators, and of labels that are read from the filled-in sheets. Annotators see two
anonymous responses in a random order and decide, for each criterion, which one is better. Two people judge every
instance, and a resolver decides where they differ. `key.json` records the authors of the responses; annotators do not
receive this file.
"""

from __future__ import annotations

import hashlib
import logging
import random
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from maieutic.benchmarks.kmpbench.alignment import COMPARISON_RUBRIC
from maieutic.config.cards import RELEASED, card_path, read_card
from maieutic.config.rubrics import Criterion, read_rubric
from maieutic.core.errors import UserError
from maieutic.core.files import write_csv, write_json
from maieutic.core.json_text import json_value
from maieutic.core.paths import ITEMS, REPLIES, ROOT
from maieutic.core.records import Item, Reply, read_records
from maieutic.core.tables import read_table
from maieutic.judges.assignments import item_criteria
from maieutic.people.labels import COLUMNS

log = logging.getLogger(__name__)
KEY_FILE = "key.json"
INSTANCES = "instances.csv"
STUDY_COLUMNS = ["instance", "criterion", "name", "question", "look at", "answer"]
ANSWERS = {"1": 1, "2": 2, "tie": 0}
ANNOTATORS_PER_INSTANCE = 2  # number of annotators per instance


class Instance(NamedTuple):
    """A reply to compare with its reference.

    name: anonymous name of the instance; first: True if the reply is shown before the reference."""

    name: str
    task: str
    item: Item
    tutor: str
    text: str
    first: bool

    @property
    def criteria(self) -> dict[str, Criterion]:
        """Criteria by which annotators compare the two responses of this instance."""
        return item_criteria(read_rubric(COMPARISON_RUBRIC), self.item)


def draw_study(
    *,
    tutors: list[str],
    annotators: list[str],
    out: Path,
    results: Path = Path(ROOT),
    benchmark: str = "kmpbench",
    task: str = "dialogue",
    n: int = 300,
    seed: int = 1,
) -> None:
    """Write a blind sample of n replies, spread evenly over the tutors, with one sheet for each annotator.

    Raises UserError for a task without comparisons, for too few replies, and if `out` exists, because annotators may
    have filled in its sheets.
    """
    card = read_card(card_path(benchmark, task), RELEASED).card
    if COMPARISON_RUBRIC not in card.rubrics:
        raise UserError(
            f"{benchmark}/{task}",
            "no rubric compares replies to this task with a reference",
            "pass --benchmark kmpbench --task dialogue",
        )
    for name in annotators:
        sheet_path(out, name)
    if out.exists():
        raise UserError(
            str(out), "the folder exists, and annotators may have filled in its sheets", "pass another --out"
        )
    if (len(annotators) > 1 and len(annotators) % ANNOTATORS_PER_INSTANCE) or len(set(annotators)) < len(annotators):
        raise UserError(
            "--annotators",
            f"expected one name, or an even number of different names, found {', '.join(annotators)}",
            "pass one name, or an even number of different names",
        )
    items = {item.id: item for item in read_records(ITEMS.within(results, benchmark=benchmark, task=task), Item)}
    instances = draw_instances(items, replies_by_tutor(results, benchmark, task, tutors), n, seed)
    teams = [
        annotators[place : place + ANNOTATORS_PER_INSTANCE]
        for place in range(0, len(annotators), ANNOTATORS_PER_INSTANCE)
    ]
    sheets: dict[str, list[Instance]] = defaultdict(list)
    for place, instance in enumerate(instances):
        for name in teams[place % len(teams)]:
            sheets[name].append(instance)
    write_csv(
        out / INSTANCES,
        ["instance", "instructions", "dialogue", "response 1", "response 2"],
        map(instance_row, instances),
    )
    for name, sheet in sheets.items():
        write_csv(sheet_path(out, name), STUDY_COLUMNS, (row for instance in sheet for row in sheet_rows(instance)))
    key = {
        instance.name: {
            "task": instance.task,
            "item": instance.item.id,
            "tutor": instance.tutor,
            "first": instance.first,
        }
        for instance in instances
    }
    write_json(out / KEY_FILE, {"annotators": list(annotators), "instances": key})
    log.info(
        "wrote %d instances and %d sheets to %s; do not give %s to the annotators",
        len(instances),
        len(sheets),
        out,
        KEY_FILE,
    )


def replies_by_tutor(results: Path, benchmark: str, task: str, tutors: Sequence[str]) -> dict[str, list[Reply]]:
    """Return each tutor's replies to a task, without refused requests. Raises UserError for a tutor without replies."""
    replies = {}
    for tutor in tutors:
        path = REPLIES.within(results, benchmark=benchmark, tutor=tutor)
        if not path.exists():
            raise UserError(
                str(path), f"{tutor} has no replies to {benchmark}", "run the tutor first, or correct --tutors"
            )
        replies[tutor] = [reply for reply in read_records(path, Reply) if reply.task == task and not reply.error]
    return replies


def draw_instances(items: Mapping[str, Item], replies: Mapping[str, list[Reply]], n: int, seed: int) -> list[Instance]:
    """Draw a random sample of n replies in random order. The numbers of replies per tutor differ by one at most.

    An item is repeated only if no unused item is left, because annotators would recognise its reference.
    """
    draw = random.Random(seed)
    left = {tutor: draw.sample(pool, len(pool)) for tutor, pool in replies.items()}
    used: Counter[str] = Counter()
    instances = []
    for place in range(n):
        tutor = list(replies)[place % len(replies)]
        if not left[tutor]:
            raise UserError(
                "--n",
                f"expected enough replies for {n} instances, spread evenly over {len(replies)} tutors, "
                f"found only {len(replies[tutor])} of {tutor}",
                "lower --n, or pass more --tutors",
            )
        reply = min(left[tutor], key=lambda candidate: used[candidate.id])
        left[tutor].remove(reply)
        used[reply.id] += 1
        # The name begins with a letter, because a spreadsheet would convert a name of digits to a number.
        name = "i" + hashlib.sha256(f"{seed}:{reply.task}:{reply.id}:{tutor}".encode()).hexdigest()[:9]
        instances.append(
            Instance(name, reply.task, items[reply.id], tutor, reply.text, draw.random() < 1 / ANNOTATORS_PER_INSTANCE)
        )
    if max(used.values(), default=0) > 1:
        log.warning(
            "some items are drawn for several tutors: annotators will see the references of these items more than once"
        )
    draw.shuffle(instances)
    return instances


def instance_row(instance: Instance) -> list[str]:
    """Return the row of `instances.csv` for one instance."""
    responses = [instance.text, str(instance.item.reference["text"])]
    variables = instance.item.vars
    return [
        instance.name,
        variables["instruction"],
        variables["history"],
        *(responses if instance.first else responses[::-1]),
    ]


def sheet_rows(instance: Instance) -> list[list[str]]:
    """Return the rows of a sheet for one instance: one row for each criterion, with an empty answer."""
    return [[instance.name, name, *criterion_texts(name), ""] for name in instance.criteria]


def sheet_path(study: Path, annotator: str) -> Path:
    """Return the path of an annotator's sheet. Raises UserError for a name that cannot be part of a file name."""
    if not annotator.replace("-", "").replace("_", "").isalnum():
        raise UserError(
            "--annotators", f"{annotator!r} cannot be part of a file name", "use only letters, digits, - and _"
        )
    return study / f"sheet-{annotator}.csv"


AnswersByCell = dict[tuple[str, str], dict[str, int]]  # answer of each annotator, by instance and criterion


def read_study(*, study: Path, out: Path, resolver: str | None = None) -> None:
    """Write the labels of filled-in sheets as a CSV for `run.human_labels`.

    Rows on which two annotators differ are written to the resolver's sheet; a second call reads the resolver's answers.
    Raises UserError for an unknown answer, with its file and line, and for a sheet of a person outside the study.
    """
    key, annotators = read_key(study)
    if resolver in annotators:
        raise UserError("--resolver", f"{resolver} is an annotator of this study", "pass the name of another person")
    answers: AnswersByCell = defaultdict(dict)
    unanswered = 0
    for path in sorted(study.glob("sheet-*.csv")):
        name = path.stem.removeprefix("sheet-")
        if name not in (*annotators, resolver):
            raise UserError(
                str(path),
                f"{name} is not an annotator of this study",
                f"pass --resolver {name}, or remove the sheet",
            )
        unanswered += read_study_sheet(path, key, answers)
    divided = [cell for cell, by_annotator in answers.items() if annotators_differ(by_annotator, resolver)]
    if resolver and divided:
        write_resolver_sheet(
            sheet_path(study, resolver), divided, {cell: answers[cell].get(resolver) for cell in divided}
        )
    labels = [row for cell, by_annotator in answers.items() for row in label_rows(cell, by_annotator, key, resolver)]
    write_csv(out, [*COLUMNS, "annotator", "resolves"], labels)
    left = sum(resolver not in answers[cell] for cell in divided)
    log.info(
        "wrote %d answers to %s; %d rows have no answer, and %d rows on which annotators differ are unresolved",
        len(labels),
        out,
        unanswered,
        left,
    )


def read_key(study: Path) -> tuple[dict[str, Any], list[str]]:
    """Return the entry of each instance in `key.json`, and the names of the annotators."""
    try:
        key = json_value((study / KEY_FILE).read_text(encoding="utf-8"))
        return key["instances"], key["annotators"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UserError(
            str(study / KEY_FILE),
            f"cannot be read: {error}",
            "pass --study with the folder that `maieutic draw-study` wrote",
        ) from None


def write_resolver_sheet(
    path: Path, divided: Sequence[tuple[str, str]], answers: Mapping[tuple[str, str], int | None]
) -> None:
    """Write the resolver's sheet: every row on which annotators differ, with the resolver's existing answers."""
    texts: dict[int | None, str] = {None: "", **{number: text for text, number in ANSWERS.items()}}
    write_csv(path, STUDY_COLUMNS, ([*cell, *criterion_texts(cell[1]), texts[answers[cell]]] for cell in divided))
    log.info("wrote the %d rows on which annotators differ to %s", len(divided), path)


def annotators_differ(by_annotator: Mapping[str, int], resolver: str | None) -> bool:
    """Return True if the answers of the annotators differ. The resolver's answer is ignored."""
    return len({answer for name, answer in by_annotator.items() if name != resolver}) > 1


def criterion_texts(criterion: str) -> tuple[str, str, str]:
    """Return a criterion's title, question and aspects, as in the judge's prompt."""
    entry = read_rubric(COMPARISON_RUBRIC).rubric.criteria[criterion]
    return entry.title, entry.definition, " | ".join(entry.aspects)


def read_study_sheet(path: Path, key: Mapping[str, Any], answers: AnswersByCell) -> int:
    """Add the answers of one sheet to `answers`, and return the number of rows without an answer."""
    annotator = path.stem.removeprefix("sheet-")
    criteria = read_rubric(COMPARISON_RUBRIC).rubric.criteria
    unanswered = 0
    needed, fix = ("instance", "criterion", "answer"), f"keep the columns {', '.join(STUDY_COLUMNS)}"
    for number, row in read_table(path, needed, fix=fix).rows:
        place, cell = f"{path}:{number}", (row["instance"].strip(), row["criterion"].strip())
        answer = row["answer"].strip().casefold().removesuffix(".0")
        if cell[0] not in key or cell[1] not in criteria:
            raise UserError(
                place,
                f"the study has no row for instance {cell[0]!r} and criterion {cell[1]!r}",
                "restore the original content of the columns `instance` and `criterion`",
            )
        if answer and answer not in ANSWERS:
            raise UserError(
                place, f"expected 1, 2 or tie, found {answer[:20]!r}", "write 1, 2 or tie, or leave the answer empty"
            )
        unanswered += not answer
        if answer:
            answers[cell][annotator] = ANSWERS[answer]
    return unanswered


def label_rows(
    cell: tuple[str, str], by_annotator: Mapping[str, int], key: Mapping[str, Any], resolver: str | None
) -> list[list[str]]:
    """Return a row for each annotator's label (`win`, `tie` or `lose`) of the tutor's reply in one cell.

    cell: instance and criterion; by_annotator: answer of each annotator; key: entry of each instance in `key.json`.
    """
    entry = key[cell[0]]
    place = 1 if entry["first"] else 2
    verdicts = {
        name: "tie" if not answer else "win" if answer == place else "lose" for name, answer in by_annotator.items()
    }
    return [
        [entry["task"], entry["item"], entry["tutor"], cell[1], verdict, name, "yes" if name == resolver else ""]
        for name, verdict in verdicts.items()
    ]
