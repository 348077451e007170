"""The labels that people gave to this run's own replies (`run.human_labels`), read with checks."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from maieutic.config.limits import USUAL, Limits
from maieutic.core.errors import UserError
from maieutic.core.files import MB, bare_cell
from maieutic.core.jobs import Sampled
from maieutic.core.records import Label, Scale, Scales
from maieutic.core.tables import read_table
from maieutic.judges.annotators import joined, yes
from maieutic.judges.kinds.base import PASS_FAIL
from maieutic.judges.label_table import by_reply, label_in, probability_of

COLUMNS = ("task", "item", "tutor", "criterion", "label")
MORE = ("annotator", "resolves", "probability", "stratum", "stratum_size")  # columns that may be left out
RATED = re.compile(r"c\d{2,}")  # an item's own criterion, the first one c01
PASSED = PASS_FAIL[0]
OWN_SCALE = Scale(labels=PASS_FAIL, desired=PASSED)


class ReadsPeople(Sampled):
    """The base of every job that reads `run.human_labels`.

    scales: what may be said of the replies to each task, by criterion; own: the tasks whose items bring criteria of
    their own, which pass or fail.
    """

    scales: dict[str, dict[str, Scale]]
    own: list[str] = []

    def labels_in(self, people: Path) -> list[Label]:
        """The labels of a file. Raises UserError naming all lines that are none."""
        return [label for _, label in self.lines_in(people)]

    def lines_in(self, people: Path) -> list[tuple[str, Label]]:
        """The labels of a file, each with its place. Raises UserError naming all lines that are none."""
        return read_lines(people, self.scales, self.own)


def read_people(
    path: Path, scales: Mapping[str, Scales], own: Sequence[str] = (), limits: Limits = USUAL
) -> list[Label]:
    """The labels of a file of them. Raises UserError naming every line at fault."""
    return [label for _, label in read_lines(path, scales, own, limits)]


def read_lines(
    path: Path, scales: Mapping[str, Scales], own: Sequence[str] = (), limits: Limits = USUAL
) -> list[tuple[str, Label]]:
    """Labels that people gave to this run's replies: a CSV of task, item, tutor, criterion, label, and more.

    annotator: may be left out where there is one only; resolves: yes in the lines of one who decides where others
    differ; probability: with which the reply was drawn to be labelled, of which stratum of how many.
    scales: by task what may be said under each criterion; own: the tasks whose items bring criteria of their own.
    Raises UserError naming every line at fault.
    """
    mend = f"the columns are {', '.join(COLUMNS)}, and {', '.join(MORE)}"
    labels: list[tuple[str, Label]] = []
    faults: list[UserError] = []
    seen: set[tuple[str | None, ...]] = set()
    try:
        if path.stat().st_size > limits.labels_mb * MB:
            raise UserError(
                str(path), f"more than limits.labels_mb, {limits.labels_mb:g} MB", "raise it, or split the file"
            )
    except OSError as error:
        raise UserError(str(path), f"cannot be read: {error.strerror or error}", mend) from None
    for number, row in read_table(path, COLUMNS, MORE, mend).rows:
        place = f"{path}:{number}"
        try:
            label = label_of(place, row, scales, own, mend)
        except UserError as error:
            faults += error.all
            continue
        key = label.task, label.id, label.tutor, label.criterion, label.annotator
        if key in seen:
            faults.append(UserError(place, "this reply has such a label already", "name its annotators in a column"))
        seen.add(key)
        labels.append((place, label))
    if not labels and not faults:
        raise UserError(str(path), "no labels", mend)
    lacking = [place for place, label in labels if label.probability is None]
    if lacking and len(lacking) < len(labels):
        found = "no probability, and other lines have one"
        faults.append(UserError(lacking[0], found, "give it of every reply, or of none"))
    if faults:
        raise UserError.of(faults)
    return labels


def label_of(place: str, row: Mapping[str, str], scales: Mapping[str, Scales], own: Sequence[str], mend: str) -> Label:
    """One line's label."""
    if missing := [name for name in COLUMNS if not (row.get(name) or "").strip()]:
        raise UserError(place, f"{', '.join(missing)} is missing", mend)
    task, item, tutor, criterion, text = (bare_cell((row[name] or "").strip()) for name in COLUMNS)
    anywhere = {name for named in scales.values() for name in named}
    if task not in scales and task not in own and criterion in anywhere:
        tasks = ", ".join(sorted({*scales, *own}))
        raise UserError(place, f"{task} is no judged task of this run", f"one of {tasks}")
    known = {**scales.get(task, {}), **({criterion: OWN_SCALE} if task in own and RATED.fullmatch(criterion) else {})}
    label = label_in(known[criterion], text) if criterion in known else None
    if label is None:
        choices = ", ".join(known[criterion].labels if criterion in known else known) or "c01, c02, ... of its items"
        raise UserError(place, f"no such label {criterion}: {text!r}", f"known: {choices}")
    return Label(
        id=item,
        task=task,
        tutor=tutor,
        criterion=criterion,
        label=label,
        problem=item,
        annotator=(row.get("annotator") or "").strip() or None,
        resolves=yes(row.get("resolves")),
        probability=probability_of(place, row.get("probability")),
        stratum=bare_cell((row.get("stratum") or "").strip()) or None,
        stratum_size=size_in(place, row.get("stratum_size")),
    )


def majority(labels: Sequence[Label]) -> list[tuple[Label, str | None]]:
    """Each reply and criterion with the resolver's label, else the most frequent; None where annotators are divided."""
    return [(votes[0], joined(votes)) for votes in by_reply(labels)]


def size_in(place: str, text: str | None) -> int | None:
    """How many replies a stratum has; None where the line does not say it."""
    if not (text or "").strip():
        return None
    if not str(text).strip().isdecimal() or int(str(text)) < 1:
        raise UserError(place, f"stratum_size is {str(text)[:20]!r}", "a whole number: the replies of the stratum")
    return int(str(text))
