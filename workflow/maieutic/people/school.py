"""Training of annotators: examples with reasons, a quiz with a pass mark, and hidden units of known labels.

MRBench trained its annotators by examples and tested them by a quiz (Maurya et al., 2025, Appendix C). Here, units
whose labels are known, and units that are shown twice, are also hidden among the others. They measure each annotator's
error rates, which the corrected rates take into account (`maieutic.people.reliability`).
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Literal

from pydantic import ValidationError

from maieutic.config.rubrics import Rubric
from maieutic.core.errors import UserError, raise_all
from maieutic.core.records import Item, Record
from maieutic.people.reliability import Reliability
from maieutic.people.sample import Candidate, Unit, criterion_questions, unit_name

PARTS = ("training", "quiz", "gold")
PASS_MARK = 0.8
ROUNDING = 1e-9  # allows for the binary representation of a pass mark, as in label.js
SCHOOL_TASK = "school"  # task of the units of a school, which are in no run


class SchoolUnit(Record):
    """A response with known labels. reasons: reason for each label, shown in the training after an answer."""

    part: Literal["training", "quiz", "gold"]
    vars: dict[str, str]
    response: str
    labels: dict[str, str]
    reasons: dict[str, str] = {}


class School(Record):
    """The school of a sample, in its key. units: names of the units of each part; repeats: original of each repeat.

    labels: right label of each unit and criterion; reasons: reason for each label of the training; desired: desired
    label of each criterion, if it has one.
    """

    pass_mark: float
    units: dict[str, list[str]]
    labels: dict[str, dict[str, str]]
    reasons: dict[str, dict[str, str]]
    repeats: dict[str, str] = {}
    desired: dict[str, str] = {}

    def content(self) -> dict[str, object]:
        """Return what the labelling page reads. The quiz's labels are digests; hidden units are not in it."""
        return {
            "training": self.units["training"],
            "quiz": self.units["quiz"],
            "mark": self.pass_mark,
            "right": {name: self.labels[name] for name in self.units["training"]},
            "reasons": {name: self.reasons.get(name, {}) for name in self.units["training"]},
            "digests": {
                name: {criterion: quiz_digest(name, criterion, label) for criterion, label in self.labels[name].items()}
                for name in self.units["quiz"]
            },
        }

    def right_answers(self, part: str, answers: Mapping[tuple[str, str], str]) -> tuple[int, int]:
        """Return the number of right answers to the questions of a part, and of these questions.

        answers: an annotator's answer by unit and criterion.
        """
        known = [(unit, name, label) for unit in self.units[part] for name, label in self.labels[unit].items()]
        return sum(answers.get((unit, name)) == label for unit, name, label in known), len(known)

    def finished_quiz(self, answers: Mapping[tuple[str, str], str]) -> bool:
        """Return True if an annotator has answered every question of the quiz."""
        return all((unit, name) in answers for unit in self.units["quiz"] for name in self.labels[unit])

    def passed(self, answers: Mapping[tuple[str, str], str]) -> bool:
        """Return True if an annotator's quiz reaches the pass mark."""
        right, questions = self.right_answers("quiz", answers)
        return right >= self.pass_mark * questions - ROUNDING

    def reliability(self, answers: Mapping[tuple[str, str], str]) -> dict[str, Reliability]:
        """Return an annotator's answers to the hidden units of known labels, by criterion with a desired label."""
        counts: dict[str, list[int]] = {name: [0, 0, 0, 0] for name in self.desired}
        for unit in self.units["gold"]:
            for name, label in self.labels[unit].items():
                if name in counts and (unit, name) in answers:
                    is_desired = label == self.desired[name]
                    agrees = (answers[unit, name] == self.desired[name]) == is_desired
                    place = 0 if is_desired else 2
                    counts[name][place] += agrees
                    counts[name][place + 1] += 1
        return {name: Reliability(*numbers) for name, numbers in counts.items()}

    def repeated_alike(self, answers: Mapping[tuple[str, str], str]) -> tuple[int, int]:
        """Return how often an annotator gave the same answer twice, and the number of questions answered twice."""
        pairs = [
            (answers[unit, name], answers[original, name])
            for unit, original in self.repeats.items()
            for repeated, name in answers
            if repeated == unit and (original, name) in answers
        ]
        return sum(first == second for first, second in pairs), len(pairs)

    @property
    def names(self) -> set[str]:
        """Names of all units that are not of the sample."""
        return {*self.repeats, *(name for part in self.units.values() for name in part)}


def quiz_digest(unit: str, criterion: str, label: str) -> int:
    """Return a digest of a right label (FNV-1a, 32 bits), so that the page does not contain the quiz's labels as text.

    label.js computes the same one. `maieutic read-labels` grades the quiz anew, by the key.
    """
    digest = 0x811C9DC5
    for byte in f"{unit}|{criterion}|{label}".encode():
        digest = ((digest ^ byte) * 0x01000193) & 0xFFFFFFFF
    return digest


def read_school(path: Path, rubric: Rubric) -> list[SchoolUnit]:
    """Return the units in a file for the training of annotators (JSON lines, UTF-8).

    Raises UserError that names every invalid line.
    """
    fix = 'write lines with part, vars, response, labels and reasons, as in {"part": "quiz", "vars": {...}, ...}'
    try:
        lines = path.read_text(encoding="utf-8-sig").split("\n")  # a text may contain other ends of lines
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(str(path), f"cannot be read: {' '.join(str(error).split())[:200]}", fix) from None
    units, faults = [], []
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            unit = SchoolUnit.model_validate_json(line)
        except ValidationError as error:
            first = error.errors()[0]
            problem = f"{'.'.join(map(str, first['loc'])) or 'the line'}: {first['msg']}"
            faults.append(UserError(f"{path}:{number}", problem, fix))
            continue
        faults += faults_of_unit(f"{path}:{number}", unit, rubric)
        units.append(unit)
    missing = [part for part in PARTS if not any(unit.part == part for unit in units)]
    if missing and not faults:
        faults.append(UserError(str(path), f"expected units of each part, found none of {', '.join(missing)}", fix))
    raise_all(faults)
    return units


def faults_of_unit(place: str, unit: SchoolUnit, rubric: Rubric) -> list[UserError]:
    """Return the faults of a line: unknown criteria and labels, and criteria without a label."""
    questions = criterion_questions(rubric, rubric.criteria)
    faults = []
    for name, label in unit.labels.items():
        if name not in questions:
            problem = f"the rubric has no criterion {name!r}"
            faults.append(UserError(place, problem, f"choose one of {', '.join(questions)}"))
        elif label not in questions[name].answers:
            problem = f"{name} has no label {label!r}"
            faults.append(UserError(place, problem, f"choose one of {', '.join(questions[name].answers)}"))
    for name in unit.reasons.keys() - unit.labels.keys():
        problem = f"{name} has a reason, but no label"
        faults.append(UserError(place, problem, "add its label, or remove the reason"))
    if not unit.labels:
        faults.append(UserError(place, "the unit has no labels", "label at least one criterion"))
    return faults


def school_of(
    lines: Sequence[SchoolUnit], rubric: Rubric, pass_mark: float, seed: int, salt: str
) -> tuple[School, list[Unit]]:
    """Return the school of a sample, and its units. Their names do not tell to which part they belong.

    salt: random text in the names of units, as in `draw_sample`.
    """
    units: dict[str, Unit] = {}
    parts: dict[str, list[str]] = {part: [] for part in PARTS}
    labels, reasons = dict[str, dict[str, str]](), dict[str, dict[str, str]]()
    for number, line in enumerate(lines):
        name = unit_name(f"{salt}:{seed}:school:{number}")
        item = Item(id=f"school-{number}", task=SCHOOL_TASK, cluster=f"school-{number}", vars=line.vars, reference={})
        # A hidden unit has the questions of all criteria, so that it looks like a sampled reply. Answers to questions
        # without a known label are not evaluated.
        chosen = rubric.criteria if line.part == "gold" else line.labels
        criteria = {criterion: rubric.criteria[criterion] for criterion in chosen}
        units[name] = Unit(name, Candidate(SCHOOL_TASK, item, "", (line.response,), criteria), SCHOOL_TASK, 1.0, True)
        parts[line.part].append(name)
        labels[name], reasons[name] = line.labels, line.reasons
    desired = desired_by_criterion(rubric)
    school = School(pass_mark=pass_mark, units=parts, labels=labels, reasons=reasons, desired=desired)
    return school, list(units.values())


def desired_by_criterion(rubric: Rubric) -> dict[str, str]:
    """Return the desired label of each criterion of a rubric that has one."""
    desired = {name: rubric.rules.desired_label(criterion.desired) for name, criterion in rubric.criteria.items()}
    return {name: label for name, label in desired.items() if label is not None}


def sheets_with_school(
    sheets: Mapping[str, Sequence[str]], school: School, units: Sequence[Unit], repeats: int, seed: int, salt: str
) -> tuple[dict[str, list[str]], list[Unit]]:
    """Return each annotator's units with the school, and the units that are repeated.

    Training and quiz come first, in the order of the file. Known units and repeats are hidden among the others; a
    repeat stands in the second half, its original in the first. repeats: number of units that each annotator sees
    twice.
    """
    by_name = {unit.name: unit for unit in units}
    draw = random.Random(seed)
    added: dict[str, Unit] = {}
    whole: dict[str, list[str]] = {}
    for annotator, names in sheets.items():
        first, second = list(names[: (len(names) + 1) // 2]), list(names[(len(names) + 1) // 2 :])
        for original in draw.sample(first, min(repeats, len(first))):
            name = unit_name(f"{salt}:{seed}:repeat:{annotator}:{original}")
            added[name] = by_name[original]._replace(name=name)
            school.repeats[name] = original
            second.insert(draw.randrange(len(second) + 1), name)
        hidden = [*first, *second]
        for name in school.units["gold"]:
            hidden.insert(draw.randrange(len(hidden) + 1), name)
        whole[annotator] = [*school.units["training"], *school.units["quiz"], *hidden]
    return whole, list(added.values())


def school_lines(annotator: str, school: School, answers: Mapping[tuple[str, str], str]) -> Iterable[str]:
    """Yield lines on an annotator's results: the quiz, the known units by criterion, and the repeated units."""
    right, questions = school.right_answers("quiz", answers)
    verdict = "passed" if school.passed(answers) else f"kept out (pass mark {school.pass_mark:.0%})"
    yield f"{annotator}: quiz {right} of {questions}, {verdict}"
    for name, known in school.reliability(answers).items():
        if known.desired or known.others:
            unused = "" if known.is_usable else "; too few or too often wrong, so the labels are not corrected"
            yield f"{annotator}: {name}, known units: {known.text}{unused}"
    same, twice = school.repeated_alike(answers)
    if twice:
        yield f"{annotator}: the same answer to {same} of {twice} repeated questions"
