"""Blind samples of replies for people to label, drawn at random from strata with known probabilities.

The default is a random sample of each tutor's replies. A sample that favours replies on which judges differ needs fewer
labels if one of the judges errs on these replies, and slightly more labels otherwise (`bench/label_sampling.py`). Which
case applies is not known in advance. Every scheme records each reply's sampling probability.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import random
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

from maieutic.config.rubrics import Criterion, Rubric
from maieutic.core.errors import UserError
from maieutic.core.files import write_json
from maieutic.core.plugins import merged_plugin_tables
from maieutic.core.records import Item, Record, known_solution
from maieutic.serving.conversations import parse_turns

KEY = "key.json"
CRITICAL: dict[str, Mapping[str, str]] = merged_plugin_tables("critical", "CRITICAL")
DISAGREEMENT_FACTOR = 3  # factor by which scheme "disagreement" favours replies on which judges differ
Scheme = Literal["random", "verdict", "disagreement"]


def critical_tags(rubric: str) -> Mapping[str, str]:
    """Return the tags of the items on which a judge's errors by a rubric would distort the headline most.

    Replies to these items are a stratum of their own, and the judge has no light before enough of them are labelled.
    """
    return CRITICAL.get(rubric, {})


class Candidate(NamedTuple):
    """A reply that may be sampled.

    texts: all turns. criteria: criteria to label. first_verdict: verdict of the leading judge. against: name of the
    tutor with whose reply this reply is compared; empty if there is no such tutor. others: turns of that tutor's reply.
    reference: reply to which this reply lost a comparison, shown as context; otherwise empty. part: values of the tags
    that the rubric names as critical.
    """

    task: str
    item: Item
    tutor: str
    texts: tuple[str, ...]
    criteria: Mapping[str, Criterion]
    first_verdict: str = ""
    judges_differ: bool = False
    others: tuple[str, ...] = ()
    against: str = ""
    reference: str = ""
    part: str = ""


class Unit(NamedTuple):
    """A sampled reply, under a name that does not identify it.

    stratum: group of replies from which it was sampled. probability: probability of being sampled. first: True if the
    reply is shown before the response with which it is compared.
    """

    name: str
    candidate: Candidate
    stratum: str
    probability: float
    first: bool

    @property
    def key_columns(self) -> dict[str, Any]:
        """The unit's columns in the key, which annotators do not see."""
        about = {"task": self.candidate.task, "item": self.candidate.item.id, "tutor": self.candidate.tutor}
        return {**about, "stratum": self.stratum, "probability": self.probability, "first": self.first}


class CriterionQuestion(NamedTuple):
    """Question about one criterion, for annotators. answers: allowed values, each with its meaning."""

    title: str
    question: str
    scoring: str
    answers: Mapping[str, str]


class Key(Record):
    """Key of a sample, which annotators do not see: the reply behind each unit, assignments and design.

    version: digest of the guideline and the questions. overlap: largest number of annotators per unit. strata: numbers
    of all and of sampled replies in each stratum. criteria: allowed answers by criterion. against: tutor with whose
    replies all other replies are compared. assigned: units of each annotator, with those of the school; school: units
    with known labels, None without a school.
    """

    sample: str
    seed: int
    scheme: Scheme
    rubric: str
    compared: bool
    version: str
    annotators: list[str]
    overlap: int
    strata: dict[str, tuple[int, int]]
    units: dict[str, dict[str, Any]]
    criteria: dict[str, list[str]]
    levels: dict[str, Literal["ordinal", "nominal"]] = {}
    against: str | None = None
    assigned: dict[str, list[str]]
    school: dict[str, Any] | None = None

    @classmethod
    def read(cls, folder: Path) -> Key:
        """Read the key from a sample's folder. Raises UserError if the folder contains no valid key."""
        path = folder / KEY
        try:
            return cls.model_validate_json(path.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            problem = " ".join(str(error).split())[:200]
            fix = "pass the folder that `maieutic label` wrote"
            raise UserError(str(path), f"cannot be read: {problem}", fix) from None

    def write(self, folder: Path) -> None:
        """Write the key into the sample's folder."""
        write_json(folder / KEY, self.model_dump(mode="json"))


def check_annotator_name(place: str, name: str) -> None:
    """Raise UserError if an annotator's name cannot be part of a file name."""
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_-]{0,40}", name):
        raise UserError(place, f"{name!r} cannot be part of a file name", "use letters, digits, - and _")


def strata_of(candidates: Iterable[Candidate], scheme: Scheme) -> dict[str, list[Candidate]]:
    """Group replies into strata by task, tutor and critical tags, and by a property that depends on the scheme.

    Scheme "verdict" also groups by the leading judge's verdict, and scheme "disagreement" by whether judges differ.
    """
    strata: dict[str, list[Candidate]] = defaultdict(list)
    for candidate in candidates:
        suffix = {
            "random": "",
            "verdict": f", {candidate.first_verdict}",
            "disagreement": ", torn" if candidate.judges_differ else "",
        }
        part = f", {candidate.part}" if candidate.part else ""
        strata[f"{candidate.task}, {candidate.tutor}{part}{suffix[scheme]}"].append(candidate)
    return dict(strata)


def allocate_sample(sizes: Mapping[str, int], weights: Mapping[str, float], n: int) -> dict[str, int]:
    """Return the number of replies to sample from each stratum: n in total, by weight, at least two where possible.

    Raises UserError if n exceeds the number of replies, or if n is smaller than these minimums.
    """
    if n > sum(sizes.values()):
        raise UserError("--n", f"{n} replies requested, but there are only {sum(sizes.values())}", "set a smaller --n")
    least = {name: min(size, 2) for name, size in sizes.items()}
    if n < sum(least.values()):
        problem = f"{n} replies are too few for {len(sizes)} strata"
        raise UserError("--n", problem, f"set --n to {sum(least.values())} or more")
    chosen = dict(least)
    for _ in range(n - sum(least.values())):
        # Add the other replies one by one: the next reply goes to the stratum that is farthest below its share.
        open_ = [name for name in sizes if chosen[name] < sizes[name]]
        total = sum(weights[name] for name in open_)
        chosen[min(open_, key=lambda name: (chosen[name] - n * weights[name] / total, name))] += 1
    return chosen


def draw_sample(
    candidates: Sequence[Candidate], n: int, seed: int, scheme: Scheme = "random", salt: str = ""
) -> list[Unit]:
    """Return a random sample of n replies in random order, each with its probability of being sampled.

    Tutors have equal shares. A tutor's strata are sampled in proportion to their size. Scheme "disagreement" multiplies
    the weight of strata on which judges differ by DISAGREEMENT_FACTOR. All replies in a stratum are equally likely.

    salt: random text that is not stored, so that a unit's name does not identify its reply.
    """
    strata = strata_of(candidates, scheme)
    of_tutor: Counter[str] = Counter(candidate.tutor for candidate in candidates)
    sizes = {name: len(members) for name, members in strata.items()}
    weights = {
        name: len(members)
        / of_tutor[members[0].tutor]
        * (DISAGREEMENT_FACTOR if scheme == "disagreement" and members[0].judges_differ else 1)
        for name, members in strata.items()
    }
    draw = random.Random(seed)
    units = []
    for stratum, number in allocate_sample(sizes, weights, n).items():
        for candidate in draw.sample(strata[stratum], number):
            about = f"{salt}:{seed}:{candidate.task}:{candidate.item.id}:{candidate.tutor}:{candidate.against}"
            units.append(Unit(unit_name(about), candidate, stratum, number / sizes[stratum], draw.random() < 0.5))
    draw.shuffle(units)
    return units


def assign_units(
    units: Sequence[Unit], annotators: Sequence[str], overlap: int, doubled: Mapping[str, int] | None = None
) -> dict[str, list[str]]:
    """Return the units of each annotator. Each unit is assigned to `overlap` annotators, in rotation.

    doubled: number of dialogues whose replies are assigned to `overlap` annotators, by source or, with the key "", of
    any source; all other replies have one annotator (MRBench, section 5.2: 10 dialogues from Bridge and 30 from
    MathDial with two). None: all dialogues. Raises UserError for a source with too few dialogues.
    """
    sheets: dict[str, list[str]] = {name: [] for name in annotators}
    dialogues = {(unit.candidate.task, unit.candidate.item.id): source_of(unit.candidate.item) for unit in units}
    chosen = {*dialogues} if doubled is None else set()
    for source, number in (doubled or {}).items():
        of_source = [dialogue for dialogue, other in dialogues.items() if source in ("", other)]
        if source and len(of_source) < number:
            known = ", ".join(sorted({other for other in dialogues.values() if other})) or "none"
            problem = f"expected {number} dialogues from {source}, found {len(of_source)} (sources: {known})"
            raise UserError("--doubled", problem, "name a smaller number, or draw more replies (--n)")
        chosen |= {*of_source[:number]}
    rotation = itertools.cycle(annotators)
    for unit in units:
        several = (unit.candidate.task, unit.candidate.item.id) in chosen
        for _ in range(overlap if several else 1):
            sheets[next(rotation)].append(unit.name)
    return sheets


def unit_name(text: str) -> str:
    """Return the name of a unit, which does not tell the text that it is made of.

    It begins with a letter, since a spreadsheet would convert a name of digits to a number.
    """
    return "u" + hashlib.sha256(text.encode()).hexdigest()[:9]


def source_of(item: Item) -> str:
    """Return the source of an item in lower case, by its tag `source`; "" without one."""
    return str(item.tags.get("source") or "").lower()


def criterion_questions(rubric: Rubric, criteria: Mapping[str, Criterion]) -> dict[str, CriterionQuestion]:
    """Return the question of each criterion, in the words of the judge's rubric."""
    return {
        name: CriterionQuestion(
            criterion.title,
            criterion.definition,
            "\n".join([criterion.scoring, *criterion.aspects]).strip(),
            {"1": "first", "tie": "tie", "2": "second"}
            if rubric.rules.against_reference
            else {word: word for word in rubric.rules.annotator_labels(criterion.labels)},
        )
        for name, criterion in criteria.items()
    }


def guideline_version(rubric: Rubric, units: Sequence[Unit], guideline: str) -> str:
    """Return a digest of the rubric's title, the guideline and the questions of all units."""
    questions = {
        unit.name: {
            name: question._asdict() for name, question in criterion_questions(rubric, unit.candidate.criteria).items()
        }
        for unit in units
    }
    text = json.dumps([rubric.title, guideline, sorted(questions.items())], ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()[:12]


# Titles of item variables whose names are not plain words
SECTION_TITLES = {
    "question": "Problem", "seed_problem": "Problem", "dialog_history": "Conversation", "history": "Conversation",
    "student_chat_solution": "Student's solution", "student_solution_lines": "Student's solution",
    "student_solution_whole": "Student's solution", "student_solution": "Student's solution",
    "seed_solution": "Reference solution",
}  # fmt: skip
FEWEST_WORDS = 4  # a text with fewer words is shown even if it equals a turn of the dialogue
DialogueTurns = list[tuple[str, str]]  # speaker (Tutor or Student) and text of each turn


def essence(text: str) -> str:
    """Return a text in lower case without whitespace and escaped line breaks, to recognise repeated texts."""
    return "".join(text.replace("\\n", " ").split()).lower()


def context_sections(item: Item, reference: str = "") -> list[dict[str, Any]]:
    """Return the context of a reply as titled sections: the texts in the order of the item's fields, then the dialogue.

    reference: reply to which this reply lost a comparison, which becomes the last section; otherwise empty.

    Dialogues are split into turns. Left out are texts that the data set marks as missing ("N/A"), and texts and
    dialogues that another section contains.
    """
    solution = item.reference.get("solution")
    texts = {**item.vars, **({"reference solution": str(solution)} if solution else {})}
    texts = {name: text for name, text in texts.items() if known_solution(text) is not None and text.strip()}
    dialogues = dialogues_of(item)
    turn_texts = {essence(words) for dialogue in dialogues.values() for _, words in dialogue}
    kept: list[tuple[str, str]] = []
    for name, text in texts.items():
        # A short text, such as a solution of one number, may equal a turn by chance.
        repeated = len(text.split()) >= FEWEST_WORDS and essence(text) in turn_texts
        if name not in dialogues and not repeated and essence(text) not in {essence(part) for _, part in kept}:
            kept.append((name, text))
    sections: list[dict[str, Any]] = [{"title": section_title(name), "text": text} for name, text in kept]
    for turns in distinct_dialogues(list(dialogues.values())):
        sections.append({"title": "Conversation", "turns": [{"who": who, "text": words} for who, words in turns]})
    if reference:
        sections.append({"title": "Reference response", "text": reference})
    return sections


def section_title(name: str) -> str:
    """Return the title of an item variable."""
    return SECTION_TITLES.get(name, name.replace("_", " ").capitalize())


def dialogues_of(item: Item) -> dict[str, DialogueTurns]:
    """Return the dialogues of an item by the name of their variable, "" for the item's history of chat messages."""
    dialogues = {name: parse_turns(text) for name, text in item.vars.items() if "history" in name and text.strip()}
    if item.history:
        dialogues[""] = [(turn["role"], turn["content"]) for turn in item.history]
    return {
        name: [("Tutor" if who == "assistant" else "Student", words) for who, words in turns]
        for name, turns in dialogues.items()
        if turns
    }


def distinct_dialogues(dialogues: Sequence[DialogueTurns]) -> list[DialogueTurns]:
    """Return the dialogues whose turns are not all contained in another dialogue, the longest first."""
    kept: list[tuple[str, DialogueTurns]] = []
    for turns in sorted(dialogues, key=lambda turns: -sum(len(words) for _, words in turns)):
        whole = essence("".join(words for _, words in turns))
        if not any(all(essence(words) in other for _, words in turns) for other, _ in kept):
            kept.append((whole, turns))
    return [turns for _, turns in kept]


def conversation_text(item: Item, texts: Sequence[str]) -> str:
    """Return a scripted conversation from the tutor's first turn on, with the speaker and the number of each turn."""
    turns = [f"Tutor, turn 1:\n{texts[0] if texts else ''}"]
    for number, (student, tutor) in enumerate(zip(item.script, texts[1:], strict=False), 2):
        turns += [f"Student, turn {number}:\n{student}", f"Tutor, turn {number}:\n{tutor}"]
    return "\n\n".join(turns)


def replies_to_show(unit: Unit, compared: bool) -> list[str]:
    """Return the texts to show: the reply with all its turns or, if `compared`, both responses in the unit's order."""
    item, texts = unit.candidate.item, unit.candidate.texts
    reply = conversation_text(item, texts) if item.script else "\n\n".join(texts)
    if not compared:
        return [reply]
    reference = str(unit.candidate.item.reference.get("text", ""))
    other = "\n\n".join(unit.candidate.others) if unit.candidate.against else reference
    return [reply, other] if unit.first else [other, reply]
