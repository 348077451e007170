"""KMP-Bench's tasks as items, and the format of curated sets of our own: the published data are not released.

Skills, one record a seed problem: `id`, `problem`, `solution`, `answer` (a number); `followups` (two of `question`,
`solution`, `answer`, harder and harder); `similar` (two of the same, as hard and harder); `solutions` (`steps`, and
where they are wrong `error_step`, counted from 1, and `error_reason`); as tags `domain`, `grade`, `source`.

Dialogues, one record a dialogue: `id`, `problem`, `solution`, `persona`, `student_profile`, `objectives`, `turns`, the
student's first (`speaker` student or tutor, `text`; of a tutor: `principles`, one or two of the six; where it is a test
case `evaluate`, and `instruction`, the system prompt that was written for it).
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from typing import NamedTuple

from maieutic.benchmarks.kmpbench.forms import constructed as constructed_form
from maieutic.benchmarks.kmpbench.forms import detected as detected_form
from maieutic.config.datasets import Source
from maieutic.core.options import options_of
from maieutic.core.records import Item
from maieutic.datasets.text import cluster_of

PRINCIPLES = ("challenge", "explanation", "modelling", "practice", "questioning", "feedback")
ANSWER = re.compile(r"-?\d+(?:\.\d+)?")
NUMBERED = re.compile(r"^\s*Step\s+\d+\s*[:.)-]\s*", re.IGNORECASE)
MOST_PRINCIPLES = 2  # of one turn (section 2.3)
FQA_VARIABLES = {"question", "followup_1", "followup_2"}
EC_VARIABLES = {"question", "student_solution", "reference_solution", "reference_step", "reference_reason"}
GEN_VARIABLES = {"seed_problem", "seed_solution"}
DIALOGUE_VARIABLES = {"instruction", "history", "question", "principles"}


class Posed(NamedTuple):
    """A problem with its solution and final answer."""

    problem: str
    solution: str
    answer: str


class Solved(NamedTuple):
    """A student's solution. step: the first wrong one, counted from 1; 0 where all are right."""

    steps: list[str]
    step: int
    reason: str = ""


def asked(name: str, task: str, seed: Posed, rounds: Sequence[Posed], tags: dict[str, str] | None = None) -> Item:
    """FQA: a problem and its two follow-ups, each with its answer (KMP-Bench, section 3.2)."""
    first, second = rounds
    turns = [f"{problem.solution}\nFinal answer: {problem.answer}" for problem in (seed, first, second)]
    return Item(
        id=name,
        task=task,
        cluster=cluster_of(seed.problem),
        vars={"question": seed.problem, "followup_1": first.problem, "followup_2": second.problem},
        reference={"answers": [seed.answer, first.answer, second.answer], "replies": turns, "text": turns[-1]},
        tags=tags or {},
    )


def constructed(name: str, task: str, seed: Posed, rounds: Sequence[Posed], tags: dict[str, str] | None = None) -> Item:
    """Gen: the seed and its solution are said, then two new problems are asked for."""
    turns = [constructed_form(problem.problem, problem.solution) for problem in rounds]
    solution = f"{seed.solution}\nFinal answer: {seed.answer}"
    return Item(
        id=name,
        task=task,
        cluster=cluster_of(seed.problem),
        vars={"seed_problem": seed.problem, "seed_solution": solution},
        reference={"replies": turns, "text": turns[-1], "solution": solution},
        tags=tags or {},
        history=[{"role": "user", "content": seed.problem}, {"role": "assistant", "content": solution}],
    )


def numbered(steps: Sequence[str]) -> str:
    """Steps as the paper numbers them (Figure 11), numbered once."""
    return "\n".join(f"Step {number}: {NUMBERED.sub('', step).strip()}" for number, step in enumerate(steps, 1))


def detected(name: str, task: str, seed: Posed, attempt: Solved, tags: dict[str, str] | None = None) -> Item:
    """EC: a student's solution to judge and to correct. An empty answer: a set without one, of the first turn only."""
    solution = numbered(attempt.steps)
    turns = [detected_form(not attempt.step, attempt.step, attempt.reason)]
    turns += [f"{seed.solution}\nFinal answer: {seed.answer}"] if seed.answer else []
    return Item(
        id=name,
        task=task,
        cluster=cluster_of(seed.problem),
        vars={
            "question": seed.problem,
            "student_solution": solution,
            "reference_solution": seed.solution,
            "reference_step": str(attempt.step),
            "reference_reason": attempt.reason,
        },
        reference={
            "incorrect": bool(attempt.step),
            "step": attempt.step,
            "answer": seed.answer,
            "replies": turns,
            "text": turns[-1],
        },
        tags={"solution": "wrong" if attempt.step else "right", **(tags or {})},
    )


def posed(record: Source) -> Posed:
    """A seed problem, or one that is made from it. Raises ValueError for neither a number nor an option's letter."""
    problem, answer = record.get("problem") or record["question"], str(record["answer"])
    if not ANSWER.fullmatch(answer) and answer not in options_of(problem):
        found = f"the answer {answer[:20]!r} is neither a plain number nor the letter of an option"
        raise ValueError(f"{found}: {str(record)[:60]}")
    return Posed(problem, record["solution"], answer)


def skill_tags(record: Source) -> dict[str, str]:
    """What a seed problem is tagged with (KMP-Bench, Figure 6)."""
    return {name: str(record[name]) for name in ("domain", "grade", "source") if record.get(name)}


def pair_of(record: Source, field: str) -> list[Posed]:
    """Two problems that were made from a seed."""
    first, second = record[field]
    return [posed(first), posed(second)]


def follow_up(records: list[Source], task: str) -> list[Item]:
    """FQA of a curated set."""
    return [
        asked(record["id"], task, posed(record), pair_of(record, "followups"), skill_tags(record)) for record in records
    ]


def gen_follow_up(records: list[Source], task: str) -> list[Item]:
    """Gen of follow-ups, of a curated set."""
    return [
        constructed(record["id"], task, posed(record), pair_of(record, "followups"), skill_tags(record))
        for record in records
    ]


def gen_similar(records: list[Source], task: str) -> list[Item]:
    """Gen of similar problems, of a curated set."""
    return [
        constructed(record["id"], task, posed(record), pair_of(record, "similar"), skill_tags(record))
        for record in records
    ]


def error_correction(records: list[Source], task: str) -> list[Item]:
    """EC of a curated set: right and wrong solutions of every seed problem."""
    return [
        detected(
            f"{record['id']}-{number}",
            task,
            posed(record),
            solved(f"{record['id']}, solution {number}", solution),
            skill_tags(record),
        )
        for record in records
        for number, solution in enumerate(record["solutions"], 1)
    ]


def solved(place: str, record: Source) -> Solved:
    """A student's solution. Raises ValueError for a wrong step that is none of its steps, or lacks its reason."""
    steps, step, reason = record["steps"], record.get("error_step") or 0, record.get("error_reason") or ""
    if not isinstance(steps, list) or not steps or not all(isinstance(text, str) and text.strip() for text in steps):
        raise ValueError(f"{place}: steps is no list of texts")
    if not isinstance(step, int) or not 0 <= step <= len(steps) or bool(step) != bool(reason):
        raise ValueError(f"{place}: error_step is one of 1 to {len(steps)} and has an error_reason, or both are absent")
    return Solved(steps, step, reason)


def check_dialogue(record: Source) -> None:
    """Raise ValueError for turns that do not alternate from the student's first on, or principles that are none."""
    turns = record["turns"]
    speakers = [turn["speaker"] for turn in turns]
    if speakers != [("student", "tutor")[place % 2] for place in range(len(turns))]:
        raise ValueError(f"{record['id']}: student and tutor take turns, the student first; found {speakers}")
    for place, turn in enumerate(turns):
        named = turn.get("principles") or []
        if not (set(named) <= set(PRINCIPLES) and len(set(named)) == len(named) <= MOST_PRINCIPLES):
            raise ValueError(f"{record['id']}, turn {place}: one or two of {', '.join(PRINCIPLES)}; found {named}")


def dialogue(records: list[Source], task: str) -> list[Item]:
    """KMP-Dialogue: the conversation up to a tutor's turn, whose text is the reference (section 3.1)."""
    return [truncated(record, place, task) for record in records for place in evaluated(record)]


def evaluated(record: Source) -> list[int]:
    """The places of the turns to test: those that the curation names, else one, by the dialogue's name."""
    check_dialogue(record)
    turns = record["turns"]
    named = [place for place, turn in enumerate(turns) if turn.get("evaluate")]
    for place in named:
        if not may_be_tested(turns[place]):
            raise ValueError(f"{record['id']}, turn {place}: no tutor's turn with principles after a student's")
    if named:
        return named
    possible = [place for place, turn in enumerate(turns) if may_be_tested(turn)]
    draw = int.from_bytes(hashlib.sha256(record["id"].encode()).digest()[:8])
    return [possible[draw % len(possible)]] if possible else []


def may_be_tested(turn: Source) -> bool:
    """Whether a turn is a tutor's that principles guide. A student has spoken before it: see check_dialogue."""
    return turn["speaker"] == "tutor" and bool(turn.get("principles"))


def truncated(record: Source, place: int, task: str) -> Item:
    """One test case of a dialogue."""
    before, turn = record["turns"][:place], record["turns"][place]
    roles = {"student": "user", "tutor": "assistant"}
    lines = [f"{message['speaker'].capitalize()}: {message['text']}" for message in before]
    return Item(
        id=f"{record['id']}-{place}",
        task=task,
        cluster=cluster_of(record["problem"]),
        vars={
            "instruction": turn.get("instruction") or instruction(record, turn["principles"]),
            "history": "\n".join(lines),
            "question": before[-1]["text"],
            "principles": ", ".join(turn["principles"]),
        },
        reference={
            "text": turn["text"],
            "problem": record["problem"],
            "solution": record["solution"],
            "groups": ["general", *turn["principles"]],
        },
        tags={"principles": " ".join(turn["principles"])},
        history=[{"role": roles[message["speaker"]], "content": message["text"]} for message in before[:-1]],
    )


def instruction(record: Source, principles: Sequence[str]) -> str:
    """The system prompt of a test case for which none was written: who, to whom, to what end, by which principles."""
    aims = "\n".join(f"- {objective}" for objective in record["objectives"])
    named = " and ".join(name.capitalize() for name in principles)
    these = "these pedagogical principles" if len(principles) > 1 else "this pedagogical principle"
    return (
        f"You are a K-8 mathematics tutor. Persona: {record['persona']}\n"
        f"Student profile: {record['student_profile']}\n"
        f"Problem: {record['problem']}\n"
        f"Learning objectives:\n{aims}\n"
        f"In your next response, embody {these}: {named}. Write only what you say to the student."
    )
