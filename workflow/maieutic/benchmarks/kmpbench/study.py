"""A blind human study of compared replies: sheets for annotators, and the way back to labels (KMP-Bench, appendix I).

Annotators see two responses without names, in a random order, and say for each criterion which one is better. Two
people judge every instance; where they differ, a resolver decides. Whose response stood where is in `key.json`, which
annotators do not get.
"""

from __future__ import annotations

import hashlib
import logging
import random
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from maieutic.config.cards import RELEASED, card_path, read_card
from maieutic.core.errors import UserError
from maieutic.core.files import write_csv, write_json
from maieutic.core.objects import json_value
from maieutic.core.paths import ITEMS, REPLIES, ROOT
from maieutic.core.records import Item, Reply, read_records
from maieutic.core.tables import read_table
from maieutic.judges.assignments import criteria_of
from maieutic.judges.kinds.win_tie_lose import COMPARISONS
from maieutic.judges.rubrics import Criterion, read_rubric
from maieutic.people.labels import COLUMNS

log = logging.getLogger(__name__)
KEY = "key.json"
INSTANCES = "instances.csv"
SHEET = ["instance", "criterion", "name", "question", "look at", "answer"]
ANSWERS = {"1": 1, "2": 2, "tie": 0}
TWO = 2  # annotators of an instance


class Instance(NamedTuple):
    """One reply to compare, under a name that says nothing of it. first: whether it stands before the reference."""

    name: str
    task: str
    item: Item
    tutor: str
    text: str
    first: bool

    @property
    def criteria(self) -> dict[str, Criterion]:
        """What is asked about it."""
        return criteria_of(read_rubric(COMPARISONS), self.item)


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
    """Write a blind sample of n replies, spread evenly over the tutors, one sheet an annotator.

    Raises UserError for an unknown task, too few replies, or where `out` is there already: sheets may be filled in.
    """
    card = read_card(card_path(benchmark, task), RELEASED).card
    if COMPARISONS not in card.rubrics:
        raise UserError(
            f"{benchmark}/{task}", "its replies are not compared with a reference", "name kmpbench/dialogue"
        )
    for name in annotators:
        sheet_path(out, name)
    if out.exists():
        raise UserError(str(out), "the folder is there already, and its sheets may be filled in", "name another folder")
    if (len(annotators) > 1 and len(annotators) % TWO) or len(set(annotators)) < len(annotators):
        raise UserError(
            "--annotators", f"{len(annotators)} names", "one, or an even number of different ones: they work in pairs"
        )
    items = {item.id: item for item in read_records(ITEMS.within(results, benchmark=benchmark, task=task), Item)}
    instances = drawn(items, replies_of(results, benchmark, task, tutors), n, seed)
    teams = [annotators[place : place + TWO] for place in range(0, len(annotators), TWO)]
    sheets: dict[str, list[Instance]] = defaultdict(list)
    for place, instance in enumerate(instances):
        for name in teams[place % len(teams)]:
            sheets[name].append(instance)
    write_csv(
        out / INSTANCES, ["instance", "instructions", "dialogue", "response 1", "response 2"], map(shown, instances)
    )
    for name, sheet in sheets.items():
        write_csv(sheet_path(out, name), SHEET, (row for instance in sheet for row in questions(instance)))
    key = {
        instance.name: {
            "task": instance.task,
            "item": instance.item.id,
            "tutor": instance.tutor,
            "first": instance.first,
        }
        for instance in instances
    }
    write_json(out / KEY, {"annotators": list(annotators), "instances": key})
    log.info("%d instances, %d sheets in %s; %s is not for annotators", len(instances), len(sheets), out, KEY)


def replies_of(results: Path, benchmark: str, task: str, tutors: Sequence[str]) -> dict[str, list[Reply]]:
    """What each tutor said to a task, without what its server refused."""
    replies = {}
    for tutor in tutors:
        path = REPLIES.within(results, benchmark=benchmark, tutor=tutor)
        if not path.exists():
            raise UserError(str(path), f"{tutor} has no replies to {benchmark}", "run it first, or mend --tutors")
        replies[tutor] = [reply for reply in read_records(path, Reply) if reply.task == task and not reply.error]
    return replies


def drawn(items: Mapping[str, Item], replies: Mapping[str, list[Reply]], n: int, seed: int) -> list[Instance]:
    """A random sample, as many of each tutor as possible, in random order.

    No item stands there twice while there are others: the text that two instances share would be the reference.
    """
    draw = random.Random(seed)
    left = {tutor: draw.sample(pool, len(pool)) for tutor, pool in replies.items()}
    used: Counter[str] = Counter()
    instances = []
    for place in range(n):
        tutor = list(replies)[place % len(replies)]
        if not left[tutor]:
            raise UserError("--n", f"{n} replies are wanted, {tutor} has {len(replies[tutor])}", "draw fewer")
        reply = min(left[tutor], key=lambda candidate: used[candidate.id])
        left[tutor].remove(reply)
        used[reply.id] += 1
        # A letter first: a spreadsheet would take digits for a number.
        name = "i" + hashlib.sha256(f"{seed}:{reply.task}:{reply.id}:{tutor}".encode()).hexdigest()[:9]
        instances.append(Instance(name, reply.task, items[reply.id], tutor, reply.text, draw.random() < 1 / TWO))
    if max(used.values(), default=0) > 1:
        log.warning("some items stand there for several tutors: the response that returns is the reference")
    draw.shuffle(instances)
    return instances


def shown(instance: Instance) -> list[str]:
    """What annotators read of an instance."""
    responses = [instance.text, str(instance.item.reference["text"])]
    variables = instance.item.vars
    return [
        instance.name,
        variables["instruction"],
        variables["history"],
        *(responses if instance.first else responses[::-1]),
    ]


def questions(instance: Instance) -> list[list[str]]:
    """The rows of a sheet: one a criterion, the answer left open."""
    return [[instance.name, name, *told_of(name), ""] for name in instance.criteria]


def sheet_path(study: Path, annotator: str) -> Path:
    """Where an annotator's sheet lies."""
    if not annotator.replace("-", "").replace("_", "").isalnum():
        raise UserError("--annotators", f"{annotator!r} is no name for a file", "letters, digits, - and _")
    return study / f"sheet-{annotator}.csv"


Answers = dict[tuple[str, str], dict[str, int]]  # by instance and criterion: what each annotator answered


def read_study(*, study: Path, out: Path, resolver: str | None = None) -> None:
    """Write the labels of filled-in sheets as the CSV that `run.human_labels` takes.

    Rows on which two annotators differ go to the resolver's sheet, and its answers decide the next time. Raises
    UserError naming file and line for an answer that is none, and for a sheet of somebody who was not asked.
    """
    key, annotators = read_key(study)
    if resolver in annotators:
        raise UserError("--resolver", f"{resolver} is an annotator", "name somebody who has not judged")
    answers: Answers = defaultdict(dict)
    unanswered = 0
    for path in sorted(study.glob("sheet-*.csv")):
        name = path.stem.removeprefix("sheet-")
        if name not in (*annotators, resolver):
            raise UserError(str(path), f"{name} is no annotator of this study", f"give --resolver {name}, or remove it")
        unanswered += read_sheet(path, key, answers)
    divided = [cell for cell, by_annotator in answers.items() if differ(by_annotator, resolver)]
    if resolver and divided:
        ask_resolver(sheet_path(study, resolver), divided, {cell: answers[cell].get(resolver) for cell in divided})
    labels = [row for cell, by_annotator in answers.items() for row in label_rows(cell, by_annotator, key, resolver)]
    write_csv(out, [*COLUMNS, "annotator", "resolves"], labels)
    left = sum(resolver not in answers[cell] for cell in divided)
    log.info("%d answers in %s; %d rows are open, %d divided", len(labels), out, unanswered, left)


def read_key(study: Path) -> tuple[dict[str, Any], list[str]]:
    """Whose response stood where, and who was asked."""
    try:
        key = json_value((study / KEY).read_text(encoding="utf-8"))
        return key["instances"], key["annotators"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UserError(str(study / KEY), f"cannot be read: {error}", "name the folder that draw-study wrote") from None


def ask_resolver(path: Path, divided: Sequence[tuple[str, str]], answers: Mapping[tuple[str, str], int | None]) -> None:
    """Write the resolver's sheet: every divided row, with what is answered already."""
    texts: dict[int | None, str] = {None: "", **{number: text for text, number in ANSWERS.items()}}
    write_csv(path, SHEET, ([*cell, *told_of(cell[1]), texts[answers[cell]]] for cell in divided))
    log.info("%d rows on which annotators differ: %s", len(divided), path)


def differ(by_annotator: Mapping[str, int], resolver: str | None) -> bool:
    """Whether the annotators of a row differ, whatever the resolver says."""
    return len({answer for name, answer in by_annotator.items() if name != resolver}) > 1


def told_of(criterion: str) -> tuple[str, str, str]:
    """A criterion's name, question and aspects, as the judge is told them."""
    entry = read_rubric(COMPARISONS).rubric.criteria[criterion]
    return entry.title, entry.definition, " | ".join(entry.aspects)


def read_sheet(path: Path, key: Mapping[str, Any], answers: Answers) -> int:
    """Add one sheet's answers; return how many rows are open."""
    annotator = path.stem.removeprefix("sheet-")
    criteria = read_rubric(COMPARISONS).rubric.criteria
    unanswered = 0
    needed, mend = ("instance", "criterion", "answer"), f"its columns are {', '.join(SHEET)}"
    for number, row in read_table(path, needed, mend=mend).rows:
        place, cell = f"{path}:{number}", (row["instance"].strip(), row["criterion"].strip())
        answer = row["answer"].strip().casefold().removesuffix(".0")
        if cell[0] not in key or cell[1] not in criteria:
            raise UserError(place, f"no such instance or criterion: {' '.join(cell)!r}", "leave the columns as drawn")
        if answer and answer not in ANSWERS:
            raise UserError(place, f"expected 1, 2 or tie, found {answer[:20]!r}", "mend the answer")
        unanswered += not answer
        if answer:
            answers[cell][annotator] = ANSWERS[answer]
    return unanswered


def label_rows(
    cell: tuple[str, str], by_annotator: Mapping[str, int], key: Mapping[str, Any], resolver: str | None
) -> list[list[str]]:
    """The labels of one instance and criterion, a row an annotator: Win, Tie or Lose of the tutor's response."""
    about = key[cell[0]]
    place = 1 if about["first"] else 2
    verdicts = {
        name: "tie" if not answer else "win" if answer == place else "lose" for name, answer in by_annotator.items()
    }
    return [
        [about["task"], about["item"], about["tutor"], cell[1], verdict, name, "yes" if name == resolver else ""]
        for name, verdict in verdicts.items()
    ]
