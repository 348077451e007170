"""Reader of the labels that people gave to this run's own replies (`run.human_labels`)."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from maieutic.config.limits import DEFAULT_LIMITS, Limits
from maieutic.config.rubric_kinds import PASS_FAIL
from maieutic.core.errors import UserError, raise_all
from maieutic.core.files import MB, unquote_cell
from maieutic.core.jobs import SampledJob
from maieutic.core.records import Label, Scale, Scales
from maieutic.core.tables import read_table
from maieutic.datasets.annotators import aggregate_votes, cell_is_yes
from maieutic.datasets.label_table import group_by_reply, label_on_scale, probability_of

COLUMNS = ("task", "item", "tutor", "criterion", "label")
OPTIONAL_COLUMNS = ("annotator", "resolves", "probability", "stratum", "stratum_size")
ITEM_CRITERION = re.compile(r"c\d{2,}")  # name of a criterion that an item itself defines, such as c01
PASSED = PASS_FAIL[0]
PASS_FAIL_SCALE = Scale(labels=PASS_FAIL, desired=PASSED)  # label scale of criteria that items themselves define


class ReadsHumanLabels(SampledJob):
    """Base of all jobs that read `run.human_labels`.

    scales: label scale of each criterion, by task. own: tasks whose items define their own criteria, labelled pass or
    fail.
    """

    scales: dict[str, dict[str, Scale]]
    own: list[str] = []

    def labels_in(self, people: Path) -> list[Label]:
        """Return the human labels in the CSV file `people`. Raises UserError that names every invalid line."""
        return [label for _, label in self.lines_in(people)]

    def lines_in(self, people: Path) -> list[tuple[str, Label]]:
        """Return the human labels in the CSV file `people`, each with its place (file and line).

        Raises UserError that names every invalid line.
        """
        return read_label_lines(people, self.scales, self.own)


def read_human_labels(
    path: Path, scales: Mapping[str, Scales], rated_tasks: Sequence[str] = (), limits: Limits = DEFAULT_LIMITS
) -> list[Label]:
    """Return the human labels in a CSV file. See `read_label_lines` for its columns, the arguments and the errors."""
    return [label for _, label in read_label_lines(path, scales, rated_tasks, limits)]


def read_label_lines(
    path: Path, scales: Mapping[str, Scales], rated_tasks: Sequence[str] = (), limits: Limits = DEFAULT_LIMITS
) -> list[tuple[str, Label]]:
    """Return the labels in a CSV file, each with its place (file and line).

    Required columns: task, item, tutor, criterion and label.
    Optional columns: `annotator`, required if there are several annotators; `resolves`, "yes" in the lines of the
    person who decides where annotators differ; `probability`, the probability with which the reply was sampled;
    `stratum`, the group of replies from which it was sampled; `stratum_size`, the number of replies in that stratum.
    scales: label scale of each criterion, by task. rated_tasks: tasks whose items define their own criteria.
    Raises UserError that names every invalid line.
    """
    fix = f"use the columns {', '.join(COLUMNS)}, and optionally {', '.join(OPTIONAL_COLUMNS)}"
    labels: list[tuple[str, Label]] = []
    faults: list[UserError] = []
    seen: set[tuple[str | None, ...]] = set()
    try:
        if path.stat().st_size > limits.labels_mb * MB:
            raise UserError(
                str(path),
                f"the file is larger than limits.labels_mb ({limits.labels_mb:g} MB)",
                "raise limits.labels_mb, or split the file",
            )
    except OSError as error:
        raise UserError(str(path), f"cannot be read: {error.strerror or error}", fix) from None
    for number, row in read_table(path, COLUMNS, OPTIONAL_COLUMNS, fix).rows:
        place = f"{path}:{number}"
        try:
            label = label_of_row(place, row, scales, rated_tasks, fix)
        except UserError as error:
            faults += error.all
            continue
        key = label.task, label.id, label.tutor, label.criterion, label.annotator
        if key in seen:
            faults.append(
                UserError(
                    place,
                    "an earlier line has the same reply, criterion and annotator",
                    "remove one of the two lines, or name the annotators in the column `annotator`",
                )
            )
        seen.add(key)
        labels.append((place, label))
    if not labels and not faults:
        raise UserError(str(path), "expected at least one label, found none", fix)
    lacking = [place for place, label in labels if label.probability is None]
    if lacking and len(lacking) < len(labels):
        problem = "the line has no probability, but other lines have one"
        faults.append(UserError(lacking[0], problem, "fill in `probability` in every line, or in no line"))
    voters = [(place, label) for place, label in labels if not label.resolves]
    unnamed = [place for place, label in voters if label.annotator is None]
    if unnamed and len(unnamed) < len(voters):
        problem = f"{len(unnamed):,} lines have no annotator, but others have one"
        faults.append(UserError(unnamed[0], problem, "fill in `annotator` in every line, or in no line"))
    spellings: dict[str, dict[str, None]] = {}
    for name in (label.annotator for _, label in labels if label.annotator):
        spellings.setdefault(name.casefold(), {})[name] = None
    for names in (list(names) for names in spellings.values() if len(names) > 1):
        problem = f"column annotator has {' and '.join(names)}, which would be two people"
        faults.append(UserError(str(path), problem, "write each name in one way"))
    raise_all(faults)
    return labels


def label_of_row(
    place: str, row: Mapping[str, str], scales: Mapping[str, Scales], rated_tasks: Sequence[str], fix: str
) -> Label:
    """Return the label of one line. fix: fix shown for an empty required cell. Raises UserError for an invalid line."""
    if missing := [name for name in COLUMNS if not (row.get(name) or "").strip()]:
        raise UserError(place, f"{', '.join(missing)} {'is' if len(missing) == 1 else 'are'} missing", fix)
    task, item, tutor, criterion, text = (unquote_cell((row[name] or "").strip()) for name in COLUMNS)
    anywhere = {name for named in scales.values() for name in named}
    if task not in scales and task not in rated_tasks and criterion in anywhere:
        tasks = ", ".join(sorted({*scales, *rated_tasks}))
        raise UserError(place, f"expected a judged task of this run, found {task}", f"choose one of {tasks}")
    known = {
        **scales.get(task, {}),
        **({criterion: PASS_FAIL_SCALE} if task in rated_tasks and ITEM_CRITERION.fullmatch(criterion) else {}),
    }
    label = label_on_scale(known[criterion], text) if criterion in known else None
    if label is None:
        choices = ", ".join(known[criterion].labels if criterion in known else known) or "c01, c02, ... of the item"
        raise UserError(
            place,
            f"{criterion} has no label {text!r}" if criterion in known else f"the task has no criterion {criterion!r}",
            f"choose one of {choices}",
        )
    return Label(
        id=item,
        task=task,
        tutor=tutor,
        criterion=criterion,
        label=label,
        problem=item,
        annotator=(row.get("annotator") or "").strip() or None,
        resolves=cell_is_yes(row.get("resolves")),
        probability=probability_of(place, row.get("probability")),
        stratum=unquote_cell((row.get("stratum") or "").strip()) or None,
        stratum_size=parse_stratum_size(place, row.get("stratum_size")),
    )


def resolved_labels(labels: Sequence[Label]) -> list[tuple[Label, str | None]]:
    """Return, for each reply and criterion, a label and the aggregated label (None if the annotators are divided)."""
    return [(votes[0], aggregate_votes(votes)) for votes in group_by_reply(labels)]


def parse_stratum_size(place: str, text: str | None) -> int | None:
    """Return the number of replies in a stratum, or None for an empty cell. Raises UserError for an invalid number."""
    if not (text or "").strip():
        return None
    if not str(text).strip().isdecimal() or int(str(text)) < 1:
        fix = "write the number of replies in the stratum as a whole number"
        raise UserError(place, f"expected a positive whole number in stratum_size, found {str(text)[:20]!r}", fix)
    return int(str(text))
