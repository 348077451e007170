"""What comes back from annotators, read with checks: who, which guideline, every label on its scale, time a label.

Nothing is guessed: what cannot be read is named, and all of it at once.
"""

from __future__ import annotations

import csv
import math
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from maieutic.core.errors import UserError
from maieutic.core.files import MB, bare_cell, write_csv
from maieutic.core.tables import read_table
from maieutic.datasets.sources import parsed
from maieutic.people.labels import COLUMNS, MORE
from maieutic.people.sample import Key

FORMAT = "maieutic labels 1"
SHORTEST = 0.3  # seconds a label: below it nobody has read anything
DEPTH = 12
PEOPLE_COLUMNS = [*COLUMNS, *MORE, "seconds", "comment"]
COPY = re.compile(r" ?\(\d+\)$")  # what a browser adds to the name of a second download


class Answer(NamedTuple):
    """One label as it came: where it stands, of which unit, by whom, in how many seconds (None: not known).

    comment: what the annotator remarks on the unit.
    """

    place: str
    unit: str
    criterion: str
    value: str
    annotator: str
    seconds: float | None
    comment: str = ""


class Read(NamedTuple):
    """What came of one file: the labels, and how many questions it leaves open, of which units."""

    annotator: str
    answers: list[Answer]
    open: list[str]


def read_files(paths: Sequence[Path], key: Key, resolver: str | None, most_mb: float, fast: bool = False) -> list[Read]:
    """Read what annotators have sent. fast: also labels given in no time. Raises UserError naming every fault."""
    faults: list[UserError] = []
    reads: list[Read] = []
    for path in paths:
        try:
            reads += read_file(path, key, resolver, most_mb, fast)
        except UserError as error:
            faults += error.all
    by_name: dict[str, list[str]] = defaultdict(list)
    for read in reads:
        by_name[read.annotator] += [answer.place for answer in read.answers[:1]]
    for name, places in by_name.items():
        if len(places) > 1:
            fix = "give the last one of each annotator only"
            faults.append(UserError(places[1], f"{name} has sent {len(places)} files", fix))
    if faults:
        raise UserError.of(faults)
    return reads


def read_file(path: Path, key: Key, resolver: str | None, most_mb: float, fast: bool = False) -> list[Read]:
    """One file: a page's, a sheet, or Label Studio's export, which holds several annotators."""
    mend = "a page's file, sheet-NAME.csv, or Label Studio's export as JSON"
    try:
        if path.stat().st_size > most_mb * MB:
            raise UserError(str(path), f"more than limits.labels_mb, {most_mb:g} MB", "is it this sample's?")
        if path.suffix == ".csv":
            return [read_sheet(path, key, resolver)]
        content = parsed(path.read_text(encoding="utf-8"), DEPTH)
    except (OSError, ValueError, csv.Error) as error:
        raise UserError(str(path), f"cannot be read: {' '.join(str(error).split())[:200]}", mend) from None
    if isinstance(content, dict) and content.get("format") == FORMAT:
        return [read_page(path, content, key, resolver, fast)]
    if isinstance(content, list):
        return read_label_studio(path, content, key, resolver)
    raise UserError(str(path), "is no file of a labelling page", mend)


def read_page(path: Path, content: Mapping[str, Any], key: Key, resolver: str | None, fast: bool = False) -> Read:
    """What a page has saved. Raises UserError for another sample, another guideline, or half a file."""
    if content.get("sample") != key.sample:
        raise UserError(
            str(path), f"is of sample {content.get('sample')!r}, this is {key.sample}", "give its own folder"
        )
    if content.get("version") != key.version:
        found = f"was labelled by guideline {content.get('version')!r}, this sample has {key.version}"
        raise UserError(str(path), found, "labels of two guidelines are no one set: draw another sample")
    annotator = str(content.get("annotator"))
    units = units_of(str(path), annotator, key, resolver)
    given = content.get("answers")
    if not isinstance(given, dict):
        raise UserError(str(path), "answers is no mapping", "export it from the page once more")
    faults: list[UserError] = []
    answers: list[Answer] = []
    for unit, one in given.items():
        labels = one.get("labels") if isinstance(one, dict) else None
        if not isinstance(labels, dict):
            faults.append(UserError(f"{path}: {unit}", "has no labels", "export it from the page once more"))
            continue
        seconds = one.get("seconds")
        timed = isinstance(seconds, int | float) and math.isfinite(seconds)
        if labels and not fast and (not timed or seconds < SHORTEST * len(labels)):
            found = f"{len(labels)} labels in {seconds} seconds"
            faults.append(
                UserError(f"{path}: {unit}", found, "nobody has read it: ask for it again, or --fast to take it")
            )
        share = float(seconds) / len(labels) if labels and timed else None
        answers += [
            Answer(f"{path}: {unit}", unit, name, str(value), annotator, share, str(one.get("comment") or ""))
            for name, value in labels.items()
        ]
    return checked(answers, annotator, units, key, faults)


def read_sheet(path: Path, key: Key, resolver: str | None) -> Read:
    """A filled-in sheet: its name says whose it is. An open row is an open question."""
    annotator = COPY.sub("", path.stem.removeprefix("sheet-"))
    units = units_of(str(path), annotator, key, resolver)
    answers: list[Answer] = []
    faults: list[UserError] = []
    columns = ("unit", "criterion", "answer")
    for number, row in read_table(path, columns, mend="leave the columns as drawn").rows:
        unit, criterion, answer = (bare_cell(row[name].strip()) for name in columns)
        if answer:
            answers.append(Answer(f"{path}:{number}", unit, criterion, answer.removesuffix(".0"), annotator, None))
    return checked(answers, annotator, units, key, faults)


def read_label_studio(path: Path, tasks: Sequence[Any], key: Key, resolver: str | None) -> list[Read]:
    """Label Studio's JSON: each annotation with its author (`completed_by`) and time (`lead_time`)."""
    by_annotator: dict[str, list[Answer]] = defaultdict(list)
    faults: list[UserError] = []
    for number, task in enumerate(tasks):
        try:
            data = task["data"]
            if data["sample"] != key.sample or data["version"] != key.version:
                faults.append(UserError(f"{path}[{number}]", "is of another sample or guideline", "export its project"))
                continue
            for annotation in task["annotations"]:
                if annotation.get("was_cancelled"):
                    continue
                author = annotation["completed_by"]
                name = str(author["email"] if isinstance(author, dict) else author)
                for result in annotation["result"]:
                    [value] = result["value"]["choices"]
                    lead = annotation.get("lead_time")
                    seconds = float(lead) / len(annotation["result"]) if lead else None
                    place = f"{path}[{number}]"
                    by_annotator[name].append(
                        Answer(place, str(data["unit"]), str(result["from_name"]), str(value), name, seconds)
                    )
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            problem = f"is no annotated task: {type(error).__name__}: {error}"
            faults.append(UserError(f"{path}[{number}]", problem, "export as JSON, not as JSON-MIN"))
    if faults:
        raise UserError.of(faults)
    reads = []
    for name, answers in by_annotator.items():
        local = name.split("@")[0]
        known = name if name in key.assigned or name == resolver else local
        units = units_of(str(path), known, key, resolver)
        reads.append(checked([one._replace(annotator=known) for one in answers], known, units, key, []))
    return reads


def units_of(place: str, annotator: str, key: Key, resolver: str | None) -> list[str]:
    """The units of an annotator. Raises UserError for somebody who was not asked."""
    if annotator in key.assigned:
        return key.assigned[annotator]
    if annotator == resolver:
        return list(key.units)
    known = ", ".join(key.annotators)
    raise UserError(place, f"{annotator} is no annotator of this sample ({known})", f"--resolver {annotator}, or none")


def checked(answers: Sequence[Answer], annotator: str, units: Sequence[str], key: Key, faults: list[UserError]) -> Read:
    """One annotator's answers, each to a question that was put. Raises UserError naming all that are not."""
    own = set(units)
    seen: dict[tuple[str, str], str] = {}
    for one in answers:
        if one.unit not in key.units:
            faults.append(UserError(one.place, f"no such unit: {one.unit[:40]!r}", "is it of another sample?"))
        elif one.unit not in own:
            faults.append(UserError(one.place, f"{one.unit} is not {annotator}'s", "give the file that was drawn"))
        elif one.criterion not in key.units[one.unit]["criteria"]:
            known = ", ".join(key.units[one.unit]["criteria"])
            faults.append(UserError(one.place, f"no such criterion: {one.criterion[:40]!r}", f"known: {known}"))
        elif one.value not in key.criteria[one.criterion]:
            known = ", ".join(key.criteria[one.criterion])
            faults.append(UserError(one.place, f"{one.criterion}: {one.value[:40]!r} is no answer", f"known: {known}"))
        elif (one.unit, one.criterion) in seen:
            found = f"{one.unit}, {one.criterion} is answered in {seen[one.unit, one.criterion]} already"
            faults.append(UserError(one.place, found, "leave one of them"))
        seen.setdefault((one.unit, one.criterion), one.place)
    if faults:
        raise UserError.of(faults)
    answered = {(one.unit, one.criterion) for one in answers}
    open_ = [unit for unit in units if any((unit, name) not in answered for name in key.units[unit]["criteria"])]
    return Read(annotator, list(answers), open_)


def label_of(answer: Answer, key: Key) -> str:
    """What an answer says of the reply: the label, or of two responses whether the tutor's wins."""
    if not key.compared:
        return answer.value
    if answer.value == "tie":
        return "tie"
    return "win" if (answer.value == "1") == bool(key.units[answer.unit]["first"]) else "lose"


def divided(answers: Iterable[Answer], resolver: str | None) -> list[tuple[str, str]]:
    """The questions on which annotators differ, whatever the resolver says."""
    by_question: dict[tuple[str, str], set[str]] = defaultdict(set)
    for one in answers:
        if one.annotator != resolver:
            by_question[one.unit, one.criterion].add(one.value)
    return [question for question, values in by_question.items() if len(values) > 1]


def probabilities(key: Key, labelled: Iterable[str]) -> dict[str, float]:
    """By unit the probability that it was labelled: of its stratum's replies the share that was.

    A unit that was drawn and left open lowers it; that those are as good as drawn at random is supposed.
    """
    done: dict[str, int] = defaultdict(int)
    units = set(labelled)
    for unit in units:
        done[key.units[unit]["stratum"]] += 1
    return {unit: done[key.units[unit]["stratum"]] / size_of(unit, key) for unit in units}


def size_of(unit: str, key: Key) -> int:
    """How many replies there are of a unit's stratum."""
    return key.strata[key.units[unit]["stratum"]][0]


def people_rows(answers: Sequence[Answer], key: Key, resolver: str | None) -> Iterator[list[object]]:
    """The lines of `run.human_labels`."""
    probability = probabilities(key, (one.unit for one in answers))
    for one in answers:
        about = key.units[one.unit]
        yield [
            about["task"],
            about["item"],
            about["tutor"],
            one.criterion,
            label_of(one, key),
            one.annotator,
            "yes" if one.annotator == resolver else "",
            repr(probability[one.unit]),
            f"{key.sample}: {about['stratum']}",
            size_of(one.unit, key),
            "" if one.seconds is None else f"{one.seconds:.1f}",
            one.comment,
        ]


def write_people(path: Path, answers: Sequence[Answer], key: Key, resolver: str | None) -> None:
    """The CSV that `run.human_labels` takes."""
    write_csv(path, PEOPLE_COLUMNS, people_rows(answers, key, resolver))
