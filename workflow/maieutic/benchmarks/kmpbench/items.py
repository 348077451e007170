"""Items of KMP-Bench's tasks, loaded from curated sets in the format below. The paper's own data are not released.

The Skills tasks have one record per seed problem. Its fields are `id`, `problem`, `solution`, `answer` (a number or an
option's letter), `followups` (two problems with `question`, `solution`, `answer`, each harder than the one before),
`similar` (two problems with the same fields, one as hard as the seed and one harder), `solutions` (each has `steps`; a
wrong one also has `error_step`, counted from 1, and `error_reason`), and the optional tags `domain`, `grade`, `source`.

The dialogue task has one record per dialogue: `id`, `problem`, `solution`, `persona`, `student_profile`, `objectives`,
`turns`. Student and tutor alternate, and the student begins. Each turn has `speaker` (student or tutor) and `text`. A
tutor's turn also has `principles` (one or two of the six). If it is a test case, it also has `evaluate` and,
optionally, `instruction` (the system prompt of the test case).
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from typing import NamedTuple

from maieutic.benchmarks.kmpbench.answer_formats import detection_answer as detected_form
from maieutic.benchmarks.kmpbench.answer_formats import problem_answer as constructed_form
from maieutic.config.datasets import SourceRecord
from maieutic.core.options import options_of
from maieutic.core.records import Item
from maieutic.datasets.text import cluster_of

PRINCIPLES = ("challenge", "explanation", "modelling", "practice", "questioning", "feedback")
PLAIN_NUMBER = re.compile(r"-?\d+(?:\.\d+)?")
STEP_NUMBERING = re.compile(r"^\s*Step\s+\d+\s*[:.)-]\s*", re.IGNORECASE)
MAX_PRINCIPLES = 2  # maximum number of principles in one turn (section 2.3)
FQA_VARIABLES = {"question", "followup_1", "followup_2"}
EC_VARIABLES = {"question", "student_solution", "reference_solution", "reference_step", "reference_reason"}
GEN_VARIABLES = {"seed_problem", "seed_solution"}
DIALOGUE_VARIABLES = {"instruction", "history", "question", "principles"}


class SolvedProblem(NamedTuple):
    """A problem with its solution and final answer."""

    problem: str
    solution: str
    answer: str


class StudentAttempt(NamedTuple):
    """A student's solution.

    wrong_step: first wrong step, counted from 1, or 0 if all steps are right; reason: explanation of the error.
    """

    steps: list[str]
    wrong_step: int
    reason: str = ""


def fqa_item(
    name: str, task: str, seed: SolvedProblem, rounds: Sequence[SolvedProblem], tags: dict[str, str] | None = None
) -> Item:
    """Return an FQA item: a problem and its two follow-ups (`rounds`), each with its answer (section 3.2).

    name: id of the item.
    """
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


def gen_item(
    name: str, task: str, seed: SolvedProblem, rounds: Sequence[SolvedProblem], tags: dict[str, str] | None = None
) -> Item:
    """Return a Gen item: the seed problem with its solution as history, and the two problems in `rounds` as reference.

    name: id of the item.
    """
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


def number_steps(steps: Sequence[str]) -> str:
    """Return the steps as one text, numbered as in the paper (Figure 11). Existing numbers are replaced."""
    return "\n".join(f"Step {number}: {STEP_NUMBERING.sub('', step).strip()}" for number, step in enumerate(steps, 1))


def ec_item(
    name: str, task: str, seed: SolvedProblem, attempt: StudentAttempt, tags: dict[str, str] | None = None
) -> Item:
    """Return an EC item: a solution to judge and correct. Without the seed's answer, the correction has no reference.

    name: id of the item.
    """
    solution = number_steps(attempt.steps)
    turns = [detected_form(not attempt.wrong_step, attempt.wrong_step, attempt.reason)]
    turns += [f"{seed.solution}\nFinal answer: {seed.answer}"] if seed.answer else []
    return Item(
        id=name,
        task=task,
        cluster=cluster_of(seed.problem),
        vars={
            "question": seed.problem,
            "student_solution": solution,
            "reference_solution": seed.solution,
            "reference_step": str(attempt.wrong_step),
            "reference_reason": attempt.reason,
        },
        reference={
            "incorrect": bool(attempt.wrong_step),
            "step": attempt.wrong_step,
            "answer": seed.answer,
            "replies": turns,
            "text": turns[-1],
        },
        tags={"solution": "wrong" if attempt.wrong_step else "right", **(tags or {})},
    )


def problem_of_record(record: SourceRecord) -> SolvedProblem:
    """Return the problem of a record. Raises ValueError unless its answer is a plain number or an option's letter."""
    problem, answer = record.get("problem") or record["question"], str(record["answer"])
    if not PLAIN_NUMBER.fullmatch(answer) and answer not in options_of(problem):
        fault = f"the answer {answer[:20]!r} is neither a plain number nor the letter of an option"
        raise ValueError(f"{fault}: {str(record)[:60]}")
    return SolvedProblem(problem, record["solution"], answer)


def skill_tags(record: SourceRecord) -> dict[str, str]:
    """Return the tags of a seed problem (KMP-Bench, Figure 6)."""
    return {name: str(record[name]) for name in ("domain", "grade", "source") if record.get(name)}


def derived_problems(record: SourceRecord, field: str) -> list[SolvedProblem]:
    """Return the two problems that were derived from a seed problem. field: `followups` or `similar`."""
    first, second = record[field]
    return [problem_of_record(first), problem_of_record(second)]


def kmp_fqa_items(records: list[SourceRecord], task: str) -> list[Item]:
    """Load the FQA items of a curated set."""
    return [
        fqa_item(
            record["id"], task, problem_of_record(record), derived_problems(record, "followups"), skill_tags(record)
        )
        for record in records
    ]


def kmp_gen_followup_items(records: list[SourceRecord], task: str) -> list[Item]:
    """Load the Gen items that ask for follow-ups of the seed problems in a curated set."""
    return [
        gen_item(
            record["id"], task, problem_of_record(record), derived_problems(record, "followups"), skill_tags(record)
        )
        for record in records
    ]


def kmp_gen_similar_items(records: list[SourceRecord], task: str) -> list[Item]:
    """Load the Gen items that ask for problems similar to the seed problems in a curated set."""
    return [
        gen_item(record["id"], task, problem_of_record(record), derived_problems(record, "similar"), skill_tags(record))
        for record in records
    ]


def kmp_ec_items(records: list[SourceRecord], task: str) -> list[Item]:
    """Load the EC items of a curated set: right and wrong solutions of every seed problem."""
    return [
        ec_item(
            f"{record['id']}-{number}",
            task,
            problem_of_record(record),
            attempt_of_record(f"{record['id']}, solution {number}", solution),
            skill_tags(record),
        )
        for record in records
        for number, solution in enumerate(record["solutions"], 1)
    ]


def attempt_of_record(place: str, record: SourceRecord) -> StudentAttempt:
    """Return the student's solution in a record. Raises ValueError if its steps, wrong step or reason are invalid.

    place: position of the record, for messages.
    """
    steps, step, reason = record["steps"], record.get("error_step") or 0, record.get("error_reason") or ""
    if not isinstance(steps, list) or not steps or not all(isinstance(text, str) and text.strip() for text in steps):
        raise ValueError(f"{place}: expected `steps` to be a list of non-empty texts, found {str(steps)[:60]!r}")
    if not isinstance(step, int) or not 0 <= step <= len(steps) or bool(step) != bool(reason):
        raise ValueError(
            f"{place}: expected an error_step from 1 to {len(steps)} with an error_reason, or neither of them, "
            f"found {str(step)[:20]!r} and {str(reason)[:40]!r}"
        )
    return StudentAttempt(steps, step, reason)


def check_dialogue(record: SourceRecord) -> None:
    """Raise ValueError unless student and tutor alternate, the student comes first, and all principles are known."""
    turns = record["turns"]
    speakers = [turn["speaker"] for turn in turns]
    if speakers != [("student", "tutor")[place % 2] for place in range(len(turns))]:
        raise ValueError(
            f"{record['id']}: expected student and tutor to take turns, the student first, found {speakers}"
        )
    for place, turn in enumerate(turns):
        named = turn.get("principles") or []
        if not (set(named) <= set(PRINCIPLES) and len(set(named)) == len(named) <= MAX_PRINCIPLES):
            raise ValueError(
                f"{record['id']}, turn {place}: expected at most two different principles out of "
                f"{', '.join(PRINCIPLES)}, found {named}"
            )


def kmp_dialogue_items(records: list[SourceRecord], task: str) -> list[Item]:
    """Load KMP-Dialogue items: the conversation up to a tutor's turn, whose text is the reference (section 3.1)."""
    return [turn_item(record, place, task) for record in records for place in tested_turns(record)]


def tested_turns(record: SourceRecord) -> list[int]:
    """Return the indices of the turns to test: the marked turns, or, without marks, one chosen by a hash of the id."""
    check_dialogue(record)
    turns = record["turns"]
    named = [place for place, turn in enumerate(turns) if turn.get("evaluate")]
    for place in named:
        if not is_testable(turns[place]):
            raise ValueError(
                f"{record['id']}, turn {place}: expected `evaluate` only on a tutor's turn with principles, "
                f"found speaker {turns[place]['speaker']} and principles {turns[place].get('principles') or []}"
            )
    if named:
        return named
    possible = [place for place, turn in enumerate(turns) if is_testable(turn)]
    draw = int.from_bytes(hashlib.sha256(record["id"].encode()).digest()[:8])
    return [possible[draw % len(possible)]] if possible else []


def is_testable(turn: SourceRecord) -> bool:
    """Return True if a turn is a tutor's and has principles.

    The record must have passed check_dialogue, so that a student's turn precedes each tutor's turn.
    """
    return turn["speaker"] == "tutor" and bool(turn.get("principles"))


def turn_item(record: SourceRecord, place: int, task: str) -> Item:
    """Return the item of one test case: the turns before `place`, with the turn itself as the reference."""
    before, turn = record["turns"][:place], record["turns"][place]
    roles = {"student": "user", "tutor": "assistant"}
    lines = [f"{message['speaker'].capitalize()}: {message['text']}" for message in before]
    return Item(
        id=f"{record['id']}-{place}",
        task=task,
        cluster=cluster_of(record["problem"]),
        vars={
            "instruction": turn.get("instruction") or default_instruction(record, turn["principles"]),
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


def default_instruction(record: SourceRecord, principles: Sequence[str]) -> str:
    """Return a system prompt for a test case without `instruction`: roles, problem, objectives and principles."""
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
