"""Reader of annotators' files, which checks the annotator, guideline, scale and time of every label.

It does not guess what an annotator meant. All faults are reported in one error.
"""

from __future__ import annotations

import csv
import math
import re
import shlex
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from maieutic.core.errors import UserError, raise_all
from maieutic.core.files import MB, unquote_cell
from maieutic.core.tables import check_columns, match_known_word
from maieutic.core.user_tables import read_user_table
from maieutic.core.workbooks import cell_text
from maieutic.datasets.sources import parse_source_json
from maieutic.people.annotation_files import ANNOTATOR_SHEET_COLUMNS
from maieutic.people.labels import COLUMNS, OPTIONAL_COLUMNS
from maieutic.people.reliability import RELIABILITY_COLUMNS, ByAnnotator
from maieutic.people.sample import Key

FORMAT = "maieutic labels 1"
MIN_SECONDS = 0.3  # minimum seconds per label; a faster annotator cannot have read the unit
DEPTH = 12  # maximum nesting depth of a JSON file
SHEET_SUFFIXES = {".csv", ".tsv", ".xlsx", ".xls", ".xlsb", ".ods"}
LABEL_STUDIO_COLUMNS = {"annotation_id", "annotator"}  # of its CSV export
PEOPLE_COLUMNS = [*COLUMNS, *OPTIONAL_COLUMNS, "seconds", "comment", *RELIABILITY_COLUMNS]
NO_RELIABILITY: ByAnnotator = MappingProxyType({})
COPY_SUFFIX = re.compile(r" ?\(\d+\)$")  # suffix that web browsers add to the name of a repeated download


class AnnotatorAnswer(NamedTuple):
    """One annotator's answer to the question of one criterion about one unit.

    place: position in the file, for messages. seconds: time spent on the answer, None if unknown. comment: remark on
    the unit.
    """

    place: str
    unit: str
    criterion: str
    value: str
    annotator: str
    seconds: float | None
    comment: str = ""


class AnswerFile(NamedTuple):
    """Answers of one annotator in one file.

    open: units with unanswered questions; notes: lines on how the file was read, such as its encoding.
    """

    annotator: str
    answers: list[AnnotatorAnswer]
    open: list[str]
    notes: Sequence[str] = ()


def read_files(
    paths: Sequence[Path],
    key: Key,
    resolver: str | None,
    most_mb: float,
    fast: bool = False,
    names: Mapping[str, str] = MappingProxyType({}),
) -> list[AnswerFile]:
    """Read annotators' files. Raises UserError that names every fault.

    resolver: person who decides where annotators differ. most_mb: maximum size of a file in megabytes. fast: accept
    labels that took less than MIN_SECONDS each. names: name of the annotator for each other word in the files.
    """
    faults: list[UserError] = []
    reads: list[AnswerFile] = []
    for path in paths:
        try:
            reads += read_file(path, key, resolver, most_mb, fast, names)
        except UserError as error:
            faults += error.all
    by_name: dict[str, list[str]] = defaultdict(list)
    for read in reads:
        by_name[read.annotator] += [answer.place for answer in read.answers[:1]]
    for name, places in by_name.items():
        if len(places) > 1:
            fix = "pass only the latest file of each annotator"
            faults.append(UserError(places[1], f"found {len(places)} files of annotator {name}", fix))
    raise_all(faults)
    return reads


def read_file(
    path: Path, key: Key, resolver: str | None, most_mb: float, fast: bool, names: Mapping[str, str]
) -> list[AnswerFile]:
    """Read one file: a saved page, a sheet, or a Label Studio export, which can have answers of several annotators.

    Arguments: as in `read_files`.
    """
    fix = "pass a file saved by a page, a sheet-NAME.csv or .xlsx, or a JSON export of Label Studio"
    try:
        if path.stat().st_size > most_mb * MB:
            problem = f"the file is larger than limits.labels_mb ({most_mb:g} MB)"
            raise UserError(str(path), problem, "check that the file belongs to this sample")
        if path.suffix.casefold() in SHEET_SUFFIXES:
            return [read_answer_sheet(path, key, resolver, names)]
        content = parse_source_json(path.read_text(encoding="utf-8"), DEPTH)
    except (OSError, ValueError, csv.Error) as error:
        raise UserError(str(path), f"cannot be read: {' '.join(str(error).split())[:200]}", fix) from None
    if isinstance(content, dict) and content.get("format") == FORMAT:
        return [read_saved_page(path, content, key, resolver, fast, names)]
    if isinstance(content, list):
        return read_label_studio(path, content, key, resolver, names)
    raise UserError(str(path), "the file was not saved by a labelling page", fix)


def read_saved_page(
    path: Path, content: Mapping[str, Any], key: Key, resolver: str | None, fast: bool, names: Mapping[str, str]
) -> AnswerFile:
    """Return the answers in a saved page. Raises UserError if the file is invalid or of another sample or guideline."""
    if content.get("sample") != key.sample:
        problem = f"expected sample {key.sample}, found {content.get('sample')!r}"
        raise UserError(str(path), problem, "pass the folder of the file's sample as --sample")
    if content.get("version") != key.version:
        problem = f"expected guideline version {key.version}, found {content.get('version')!r}"
        raise UserError(str(path), problem, "draw another sample: labels by two guidelines cannot be combined")
    annotator = names.get(str(content.get("annotator")), str(content.get("annotator")))
    units = annotator_units(str(path), annotator, key, resolver)
    by_unit = content.get("answers")
    if not isinstance(by_unit, dict):
        problem = f"expected 'answers' to be a mapping, found {type(by_unit).__name__}"
        raise UserError(str(path), problem, "save the file from the page again")
    faults: list[UserError] = []
    answers: list[AnnotatorAnswer] = []
    for unit, answer in by_unit.items():
        labels = answer.get("labels") if isinstance(answer, dict) else None
        if not isinstance(labels, dict):
            faults.append(UserError(f"{path}: {unit}", "the unit has no labels", "save the file from the page again"))
            continue
        seconds = answer.get("seconds")
        timed = isinstance(seconds, int | float) and math.isfinite(seconds)
        if labels and not fast and (not timed or seconds < MIN_SECONDS * len(labels)):
            problem = f"{len(labels)} labels in {seconds} seconds: the annotator was too fast to have read the unit"
            fix = "ask the annotator to label the unit again, or pass --fast to accept such labels"
            faults.append(UserError(f"{path}: {unit}", problem, fix))
        share = float(seconds) / len(labels) if labels and timed else None
        answers += [
            AnnotatorAnswer(
                f"{path}: {unit}", unit, name, str(value), annotator, share, str(answer.get("comment") or "")
            )
            for name, value in labels.items()
        ]
    return check_answers(answers, annotator, units, key, faults)


def read_answer_sheet(path: Path, key: Key, resolver: str | None, names: Mapping[str, str]) -> AnswerFile:
    """Return the answers in a filled-in sheet, sheet-ANNOTATOR.csv, or a workbook with the same columns.

    An empty answer is an open question.
    """
    table = read_user_table(path)
    if {*table.columns} >= LABEL_STUDIO_COLUMNS:
        problem = "is a table of Label Studio, in which each person's answers are columns"
        raise UserError(str(path), problem, "export the labels from Label Studio as JSON")
    known = {name.casefold(): name for name in table.columns}
    if len(known) < len(table.columns):
        raise UserError(str(path), "two columns differ only in capitals", "keep the sheet's columns unchanged")
    columns = ("unit", "criterion", "answer")
    check_columns(str(path), list(known), columns, "keep the sheet's columns unchanged")
    written = COPY_SUFFIX.sub("", path.stem.removeprefix("sheet-"))
    annotator = names.get(written, written)
    units = annotator_units(str(path), annotator, key, resolver)
    answers: list[AnnotatorAnswer] = []
    faults: list[UserError] = []
    rows = [(place, {name: cell_text(row.get(known[name])).strip() for name in known}) for place, row in table.rows]
    check_one_column(path, rows, key)
    for place, row in rows:
        unit, criterion, answer = (unquote_cell(row[name]) for name in columns)
        if answer:
            answers.append(AnnotatorAnswer(place, unit, criterion, answer.removesuffix(".0"), annotator, None))
    return check_answers(answers, annotator, units, key, faults)._replace(notes=table.notes)


def check_one_column(path: Path, rows: Sequence[tuple[str, Mapping[str, str]]], key: Key) -> None:
    """Raise UserError for a column beside `answer` that has answers as well, such as those of another person."""
    columns = rows[0][1] if rows else ()
    for column in (name for name in columns if name not in ANNOTATOR_SHEET_COLUMNS):
        cells = [(row[column], key.criteria.get(row["criterion"], [])) for _, row in rows]
        filled = [(text, known) for text, known in cells if text]
        if filled and all(match_known_word(text, known) in known for text, known in filled):
            problem = f"column {column} has answers as well as the column answer"
            raise UserError(str(path), problem, "write the answers of each person into a sheet of their own")


def read_label_studio(
    path: Path, tasks: Sequence[Any], key: Key, resolver: str | None, names: Mapping[str, str]
) -> list[AnswerFile]:
    """Return each annotator's answers in a Label Studio export, from its `completed_by` and `lead_time`."""
    by_annotator: dict[str, list[AnnotatorAnswer]] = defaultdict(list)
    faults: list[UserError] = []
    for number, task in enumerate(tasks):
        try:
            data = task["data"]
            if data["sample"] != key.sample or data["version"] != key.version:
                problem = "the task belongs to another sample or guideline"
                faults.append(UserError(f"{path}[{number}]", problem, "export the project of this sample"))
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
                        AnnotatorAnswer(place, str(data["unit"]), str(result["from_name"]), str(value), name, seconds)
                    )
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            problem = f"the task has no readable annotations: {type(error).__name__}: {error}"
            faults.append(UserError(f"{path}[{number}]", problem, "export as JSON, not as JSON-MIN"))
    raise_all(faults)
    reads = []
    for name, answers in by_annotator.items():
        local = names.get(name, name.split("@")[0])
        known = name if name in key.assigned or name == resolver else local
        units = annotator_units(str(path), known, key, resolver)
        named = [answer._replace(annotator=known) for answer in answers]
        reads.append(check_answers(named, known, units, key, []))
    return reads


def annotator_units(place: str, annotator: str, key: Key, resolver: str | None) -> list[str]:
    """Return the units of an annotator, or all units for the resolver. Raises UserError for any other name."""
    if annotator in key.assigned:
        return key.assigned[annotator]
    if annotator == resolver:
        return list(key.units)
    known = ", ".join(key.annotators)
    raise UserError(
        place,
        f"{annotator} is not an annotator of this sample ({known})",
        f"pass --annotators {shlex.quote(annotator)}=NAME with one of these names, --resolver {shlex.quote(annotator)} "
        "for the person who decides, or leave the file out",
    )


def check_answers(
    answers: Sequence[AnnotatorAnswer], annotator: str, units: Sequence[str], key: Key, faults: list[UserError]
) -> AnswerFile:
    """Return the answers of one annotator if all are valid. Raises UserError that names every invalid answer.

    units: units that were assigned to the annotator. faults: faults already found in the file, which are reported too.
    """
    answers = [
        answer._replace(value=match_known_word(answer.value, key.criteria.get(answer.criterion, [])) or answer.value)
        for answer in answers
    ]
    assigned = set(units)
    seen: dict[tuple[str, str], str] = {}
    for answer in answers:
        question = answer.unit, answer.criterion
        if answer.unit not in key.units:
            fix = "check that the file belongs to this sample"
            faults.append(UserError(answer.place, f"the sample has no unit {answer.unit[:40]!r}", fix))
        elif answer.unit not in assigned:
            problem = f"{answer.unit} was not assigned to {annotator}"
            faults.append(UserError(answer.place, problem, "pass the annotator's own file"))
        elif answer.criterion not in key.units[answer.unit]["criteria"]:
            fix = f"choose one of {', '.join(key.units[answer.unit]['criteria'])}"
            faults.append(UserError(answer.place, f"the unit has no criterion {answer.criterion[:40]!r}", fix))
        elif answer.value not in key.criteria[answer.criterion]:
            fix = f"choose one of {', '.join(key.criteria[answer.criterion])}"
            faults.append(
                UserError(answer.place, f"{answer.criterion}: {answer.value[:40]!r} is not an allowed answer", fix)
            )
        elif question in seen:
            problem = f"{answer.unit}, {answer.criterion} was already answered in {seen[question]}"
            faults.append(UserError(answer.place, problem, "remove one of the two answers"))
        seen.setdefault(question, answer.place)
    raise_all(faults)
    answered = {(answer.unit, answer.criterion) for answer in answers}
    open_ = [unit for unit in units if any((unit, name) not in answered for name in key.units[unit]["criteria"])]
    return AnswerFile(annotator, list(answers), open_)


def label_of_answer(answer: AnnotatorAnswer, key: Key) -> str:
    """Convert an answer to a label of the tutor's reply, which is win, tie or lose if two responses are compared."""
    if not key.compared:
        return answer.value
    if answer.value == "tie":
        return "tie"
    return "win" if (answer.value == "1") == bool(key.units[answer.unit]["first"]) else "lose"


def divided_questions(answers: Iterable[AnnotatorAnswer], resolver: str | None) -> list[tuple[str, str]]:
    """Return the questions (unit, criterion) on which annotators other than the resolver differ."""
    by_question: dict[tuple[str, str], set[str]] = defaultdict(set)
    for answer in answers:
        if answer.annotator != resolver:
            by_question[answer.unit, answer.criterion].add(answer.value)
    return [question for question, values in by_question.items() if len(values) > 1]


def labelling_probabilities(key: Key, labelled: Iterable[str]) -> dict[str, float]:
    """Return each labelled unit's probability of being labelled: the labelled share of its stratum's replies.

    Sampled units without labels lower the probability. They are assumed to be missing at random.
    """
    done: dict[str, int] = defaultdict(int)
    units = set(labelled)
    for unit in units:
        done[key.units[unit]["stratum"]] += 1
    return {unit: done[key.units[unit]["stratum"]] / stratum_size_of(unit, key) for unit in units}


def stratum_size_of(unit: str, key: Key) -> int:
    """Return the number of replies in a unit's stratum."""
    return key.strata[key.units[unit]["stratum"]][0]


def human_label_rows(
    answers: Sequence[AnnotatorAnswer], key: Key, resolver: str | None, reliability: ByAnnotator = NO_RELIABILITY
) -> Iterator[dict[str, object]]:
    """Yield the rows of the CSV that `run.human_labels` reads. reliability: of annotators, in samples with a school."""
    probability = labelling_probabilities(key, (answer.unit for answer in answers))
    for answer in answers:
        about = key.units[answer.unit]
        cells = [
            about["task"],
            about["item"],
            about["tutor"],
            answer.criterion,
            label_of_answer(answer, key),
            answer.annotator,
            "yes" if answer.annotator == resolver else "",
            repr(probability[answer.unit]),
            f"{key.sample}: {about['stratum']}",
            stratum_size_of(answer.unit, key),
            "" if answer.seconds is None else f"{answer.seconds:.1f}",
            answer.comment,
            *(known.cells if (known := reliability.get((answer.annotator, answer.criterion))) else ("", "")),
        ]
        yield dict(zip(PEOPLE_COLUMNS, cells, strict=True))
