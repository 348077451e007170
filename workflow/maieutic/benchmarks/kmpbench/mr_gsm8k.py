"""MR-GSM8K (Zeng et al., 2024): models' solutions with the first wrong step and people's reason for it. Licence MIT.

Its grading files (eval_results/gpt4-grading) hold the reasons that six models gave for a first wrong step, which they
had found, and whether people accept them: 851 graded reasons of 590 wrong solutions.
"""

from __future__ import annotations

import re

from maieutic.benchmarks.kmpbench.items import Posed, Solved, detected
from maieutic.config.datasets import Source
from maieutic.core.records import Item, Label, LabelledSet, Reply, Scale, Turn
from maieutic.datasets.text import cluster_of, plain_solution

NUMBER = re.compile(r"-?\d+(?:\.\d+)?")
ONLY_ANSWER = re.compile(r"(?:#+\s*\S*|\W*(?:the\s+)?(?:final\s+)?answer\s*(?:is)?\W*\S{0,20}\W*|)", re.IGNORECASE)
STEP = re.compile(r"^\s*Step\s+\d+\s*:\s*", re.IGNORECASE)


def seed_of(record: Source) -> Posed:
    """The problem, and the reference solution without GSM8K's marks."""
    solution = plain_solution(record["ground_truth_solution"]).rsplit("####", 1)[0].strip()
    return Posed(record["question"], solution, str(record["ground_truth_answer"]).replace(",", "").strip())


def answered(records: list[Source]) -> list[Source]:
    """The records with a worked solution and a number as answer. Those that ask for a program have neither."""
    seeds = [(record, seed_of(record)) for record in records if record["question_type"] != "POT"]
    return [record for record, seed in seeds if seed.solution and NUMBER.fullmatch(seed.answer)]


def said(record: Source) -> Solved:
    """The model's solution, without GSM8K's marks and the lines that repeat its answer.

    They would tell a model's solution from a reference, and so a wrong one from its right twin, by its form alone.
    """
    steps = [plain_solution(STEP.sub("", step)).strip() for step in record["model_output_steps"]]
    wrong = record["model_output_solution_correctness"] != "correct"
    first = int(record["model_output_solution_first_error_step"]) if wrong else 0
    kept = [place for place, step in enumerate(steps, 1) if place == first or not ONLY_ANSWER.fullmatch(step)]
    shown = [steps[place - 1].removeprefix("####").strip() for place in kept]
    if not wrong:
        return Solved(shown, 0)
    return Solved(shown, kept.index(first) + 1, str(record["model_output_solution_first_error_reason"]))


def detection(records: list[Source], task: str) -> list[Item]:
    """The whole set: right and wrong solutions, without those that have no answer."""
    return [
        detected(record["uuid"], task, seed_of(record), said(record), {"question_type": record["question_type"]})
        for record in answered(records)
    ]


def with_twins(records: list[Source], task: str) -> list[Item]:
    """A set of wrong solutions only: the reference solution, line by line, is the right twin of each."""
    items = []
    for record in answered(records):
        seed, tags = seed_of(record), {"question_type": record["question_type"]}
        right = Solved([line for line in seed.solution.split("\n") if line.strip()], 0)
        items.append(detected(f"{record['uuid']}-wrong", task, seed, said(record), tags))
        items.append(detected(f"{record['uuid']}-right", task, seed, right, tags))
    return items


ERROR_REASON = "error_reason"
REASONS = {ERROR_REASON: Scale(labels=("correct", "incorrect"))}
REASONS_TASK = "graded_reasons"
OUTPUT = "_eval_output"


def graded_reasons(*sources: list[Source]) -> LabelledSet:
    """The reasons that models gave, with people's verdicts (`error_reason_correctness`): 851 in all six files.

    The reply has two turns, as in KMP-Bench's error correction; nobody was asked for the second one.
    """
    items: dict[str, Item] = {}
    replies, labels = [], []
    for record in (record for source in sources for record in source):
        name, problem = record["uuid"], cluster_of(record["question"])
        [output] = [key for key in record if key.endswith(OUTPUT)]
        tutor = output.removesuffix(OUTPUT)
        items.setdefault(name, item_with_reason(record))
        answer = record[output]["response"] if isinstance(record[output], dict) else str(record[output])
        turns = [Turn(messages="none", text=text, finish="stop") for text in (answer.strip(), "")]
        common = {"id": name, "task": REASONS_TASK, "tutor": tutor}
        replies.append(Reply(**common, key="none", turns=turns))
        verdict = record["error_reason_correctness"]
        if verdict not in REASONS[ERROR_REASON].labels:
            raise ValueError(f"{name}, {tutor}: no such verdict {verdict!r}")
        labels.append(Label(**common, criterion=ERROR_REASON, label=verdict, problem=problem))
    return LabelledSet(list(items.values()), replies, labels)


def item_with_reason(record: Source) -> Item:
    """A wrong solution with people's reason, laid out as KMP-Bench's error correction."""
    seed, solved = seed_of(record), said(record)
    return detected(record["uuid"], REASONS_TASK, seed, solved, {"question_type": record["question_type"]})
