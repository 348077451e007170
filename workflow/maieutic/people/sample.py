"""A blind sample of replies for people to label: drawn by strata with known probabilities, from one seed.

The default is a random sample of each tutor's replies. To favour those about which judges differ saves labels where
they differ because one of them errs, and costs some where that says nothing (`bench/label_sampling.py`), which nobody
knows before there are labels. Whatever the scheme, each reply's probability is kept.
"""

from __future__ import annotations

import hashlib
import json
import random
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

from maieutic.core.errors import UserError
from maieutic.core.files import write_json
from maieutic.core.records import Item, Record
from maieutic.judges.rubrics import Criterion, Rubric
from maieutic.serving.conversations import parse_turns

KEY = "key.json"
FAVOUR = 3  # how much likelier a reply is drawn on which judges disagree, or are unsure, where that is asked for
Scheme = Literal["random", "verdict", "disagreement"]


class Candidate(NamedTuple):
    """One reply that may be drawn.

    texts: every turn; first: whether it stands before the reference, where it is compared with it; said: what the
    leading judge says of it, in one word; torn: whether judges differ about it; criteria: what is asked of it; others:
    every turn of the tutor `against` whose reply it is compared with, instead of the reference.
    """

    task: str
    item: Item
    tutor: str
    texts: tuple[str, ...]
    criteria: Mapping[str, Criterion]
    said: str = ""
    torn: bool = False
    others: tuple[str, ...] = ()
    against: str = ""


class Unit(NamedTuple):
    """A reply that was drawn, under a name that says nothing of it.

    probability: that it was drawn; stratum: of which replies it was drawn; first: whether it stands before the
    reference, where it is compared with it.
    """

    name: str
    candidate: Candidate
    stratum: str
    probability: float
    first: bool

    @property
    def told(self) -> dict[str, Any]:
        """What only the key says of it."""
        about = {"task": self.candidate.task, "item": self.candidate.item.id, "tutor": self.candidate.tutor}
        return {**about, "stratum": self.stratum, "probability": self.probability, "first": self.first}


class Asked(NamedTuple):
    """What may be answered about one criterion: words for people, with what each stands for."""

    title: str
    question: str
    scoring: str
    answers: Mapping[str, str]


class Key(Record):
    """What annotators do not get: whose reply each unit is, who was asked about it, how it was drawn.

    version: of the guideline, a digest of all that annotators are told; overlap: annotators a unit; strata: replies of
    each, and how many were drawn; answers: by task and criterion what may be answered; against: the tutor with whose
    replies all are compared.
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

    @classmethod
    def read(cls, folder: Path) -> Key:
        """The key of a sample's folder. Raises UserError for a folder without one."""
        path = folder / KEY
        try:
            return cls.model_validate_json(path.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            problem = " ".join(str(error).split())[:200]
            raise UserError(str(path), f"cannot be read: {problem}", "name the folder that label wrote") from None

    def write(self, folder: Path) -> None:
        """Write it into the folder of the sample."""
        write_json(folder / KEY, self.model_dump(mode="json"))


def check_name(place: str, name: str) -> None:
    """Raises UserError for an annotator who can have no file."""
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_-]{0,40}", name):
        raise UserError(place, f"{name!r} is no name for a file", "letters, digits, - and _")


def strata_of(candidates: Iterable[Candidate], scheme: Scheme) -> dict[str, list[Candidate]]:
    """The replies of each stratum: a tutor's to a task, and by what the judges say of them where the scheme asks."""
    strata: dict[str, list[Candidate]] = defaultdict(list)
    for candidate in candidates:
        own = {"random": "", "verdict": f", {candidate.said}", "disagreement": ", torn" if candidate.torn else ""}
        strata[f"{candidate.task}, {candidate.tutor}{own[scheme]}"].append(candidate)
    return dict(strata)


def allocated(sizes: Mapping[str, int], weights: Mapping[str, float], n: int) -> dict[str, int]:
    """How many replies of each stratum are drawn: n in all by weight, two at least where there are two, all at most.

    Raises UserError where there are fewer replies than are wanted.
    """
    if n > sum(sizes.values()):
        raise UserError("--n", f"{n} replies are wanted, there are {sum(sizes.values())}", "draw fewer")
    least = {name: min(size, 2) for name, size in sizes.items()}
    if n < sum(least.values()):
        raise UserError("--n", f"{n} replies for {len(sizes)} strata", f"draw {sum(least.values())} or more")
    chosen = dict(least)
    for _ in range(n - sum(least.values())):
        # The stratum that is farthest behind its share is next: largest remainders, one by one.
        open_ = [name for name in sizes if chosen[name] < sizes[name]]
        total = sum(weights[name] for name in open_)
        chosen[min(open_, key=lambda name: (chosen[name] - n * weights[name] / total, name))] += 1
    return chosen


def drawn(candidates: Sequence[Candidate], n: int, seed: int, scheme: Scheme = "random", salt: str = "") -> list[Unit]:
    """A random sample of n replies in random order, each with the probability that it had.

    Tutors are drawn evenly, within a tutor's strata by their size, FAVOUR times likelier where judges are torn and the
    scheme asks for it. Of a stratum each reply is as likely as any other. salt: what only the key knows, so that nobody
    can tell from a unit's name whose reply it is.
    """
    strata = strata_of(candidates, scheme)
    of_tutor: Counter[str] = Counter(candidate.tutor for candidate in candidates)
    sizes = {name: len(members) for name, members in strata.items()}
    weights = {
        name: len(members)
        / of_tutor[members[0].tutor]
        * (FAVOUR if scheme == "disagreement" and members[0].torn else 1)
        for name, members in strata.items()
    }
    draw = random.Random(seed)
    units = []
    for stratum, number in allocated(sizes, weights, n).items():
        for candidate in draw.sample(strata[stratum], number):
            about = f"{salt}:{seed}:{candidate.task}:{candidate.item.id}:{candidate.tutor}:{candidate.against}"
            # A letter first: a spreadsheet would take digits for a number.
            name = "u" + hashlib.sha256(about.encode()).hexdigest()[:9]
            units.append(Unit(name, candidate, stratum, number / sizes[stratum], draw.random() < 0.5))
    draw.shuffle(units)
    return units


def assigned(units: Sequence[Unit], annotators: Sequence[str], overlap: int) -> dict[str, list[str]]:
    """By annotator the units to label: each unit has `overlap` of them, who take turns."""
    sheets: dict[str, list[str]] = {name: [] for name in annotators}
    for place, unit in enumerate(units):
        for step in range(overlap):
            sheets[annotators[(place * overlap + step) % len(annotators)]].append(unit.name)
    return sheets


def asked(rubric: Rubric, criteria: Mapping[str, Criterion]) -> dict[str, Asked]:
    """What is asked of a reply, criterion by criterion, in the words that a judge is told."""
    return {
        name: Asked(
            criterion.title,
            criterion.definition,
            "\n".join([criterion.scoring, *criterion.aspects]).strip(),
            {"1": "first", "tie": "tie", "2": "second"}
            if rubric.rules.against_reference
            else {word: word for word in rubric.rules.words(criterion.labels)},
        )
        for name, criterion in criteria.items()
    }


def version_of(rubric: Rubric, units: Sequence[Unit], guideline: str) -> str:
    """A digest of all that annotators are told besides the replies."""
    told = {
        unit.name: {key: one._asdict() for key, one in asked(rubric, unit.candidate.criteria).items()} for unit in units
    }
    text = json.dumps([rubric.title, guideline, sorted(told.items())], ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def sections_of(item: Item) -> list[dict[str, Any]]:
    """What stands before a reply, as people read it: texts with a title, dialogues turn by turn; nothing twice."""
    shown: list[dict[str, Any]] = []
    seen: set[str] = set()
    solution = item.reference.get("solution")
    texts = {**item.vars, **({"reference solution": str(solution)} if solution else {})}
    for name, text in sorted(texts.items(), key=lambda pair: "history" in pair[0]):
        plain = " ".join(text.split())
        known = plain.replace("Teacher:", "Tutor:")
        if not plain or known in seen:
            continue
        seen.add(known)
        turns = parse_turns(text) if "history" in name else []
        title = name.replace("_", " ").capitalize()
        if len(turns) > 1:
            said = [{"who": "Tutor" if who == "assistant" else "Student", "text": words} for who, words in turns]
            shown.append({"title": title, "turns": said})
        else:
            shown.append({"title": title, "text": text})
    if item.history:
        said = [
            {"who": "Tutor" if turn["role"] == "assistant" else "Student", "text": turn["content"]}
            for turn in item.history
        ]
        shown.append({"title": "Conversation", "turns": said})
    return shown


def replies_shown(unit: Unit, compared: bool) -> list[str]:
    """The reply, every turn; or the two that are compared, in the unit's order."""
    own = "\n\n".join(unit.candidate.texts)
    if not compared:
        return [own]
    reference = str(unit.candidate.item.reference.get("text", ""))
    other = "\n\n".join(unit.candidate.others) if unit.candidate.against else reference
    return [own, other] if unit.first else [other, own]
