"""MR-GSM8K (Zeng et al., 2024): solutions by models, annotated with the first wrong step and its reason. Licence: MIT.

Its grading files (eval_results/gpt4-grading) contain the reasons that six models gave for first wrong steps that they
had located correctly. People graded these reasons: there are 851 verdicts, on 590 wrong solutions.
"""

from __future__ import annotations

import re

from maieutic.benchmarks.kmpbench.items import SolvedProblem, StudentAttempt, ec_item
from maieutic.config.datasets import SourceRecord
from maieutic.core.records import Item, Label, LabelledSet, Reply, Scale, Turn
from maieutic.datasets.text import cluster_of, plain_solution

NUMBER = re.compile(r"-?\d+(?:\.\d+)?")
ONLY_ANSWER = re.compile(r"(?:#+\s*\S*|\W*(?:the\s+)?(?:final\s+)?answer\s*(?:is)?\W*\S{0,20}\W*|)", re.IGNORECASE)
STEP = re.compile(r"^\s*Step\s+\d+\s*:\s*", re.IGNORECASE)


def mr_gsm8k_seed(record: SourceRecord) -> SolvedProblem:
    """Return the problem with its reference solution, without GSM8K's calculator annotations."""
    solution = plain_solution(record["ground_truth_solution"]).rsplit("####", 1)[0].strip()
    return SolvedProblem(record["question"], solution, str(record["ground_truth_answer"]).replace(",", "").strip())


def records_with_answer(records: list[SourceRecord]) -> list[SourceRecord]:
    """Return the records with a reference solution and a numeric answer. Records that ask for programs lack both."""
    seeds = [(record, mr_gsm8k_seed(record)) for record in records if record["question_type"] != "POT"]
    return [record for record, seed in seeds if seed.solution and NUMBER.fullmatch(seed.answer)]


def model_solution(record: SourceRecord) -> StudentAttempt:
    """Return the model's solution without GSM8K's annotations and without lines that only repeat its answer.

    Such annotations and lines would distinguish a model's wrong solution from its right twin, the reference solution.
    """
    steps = [plain_solution(STEP.sub("", step)).strip() for step in record["model_output_steps"]]
    wrong = record["model_output_solution_correctness"] != "correct"
    first = int(record["model_output_solution_first_error_step"]) if wrong else 0
    kept = [place for place, step in enumerate(steps, 1) if place == first or not ONLY_ANSWER.fullmatch(step)]
    kept_steps = [steps[place - 1].removeprefix("####").strip() for place in kept]
    if not wrong:
        return StudentAttempt(kept_steps, 0)
    return StudentAttempt(kept_steps, kept.index(first) + 1, str(record["model_output_solution_first_error_reason"]))


def mr_gsm8k_items(records: list[SourceRecord], task: str) -> list[Item]:
    """Load all right and wrong solutions of the set, except those in records without a numeric answer."""
    return [
        ec_item(
            record["uuid"],
            task,
            mr_gsm8k_seed(record),
            model_solution(record),
            {"question_type": record["question_type"]},
        )
        for record in records_with_answer(records)
    ]


def mr_gsm8k_twin_items(records: list[SourceRecord], task: str) -> list[Item]:
    """Load wrong solutions, each with a right twin: the reference solution, split into lines."""
    items = []
    for record in records_with_answer(records):
        seed, tags = mr_gsm8k_seed(record), {"question_type": record["question_type"]}
        right = StudentAttempt([line for line in seed.solution.split("\n") if line.strip()], 0)
        items.append(ec_item(f"{record['uuid']}-wrong", task, seed, model_solution(record), tags))
        items.append(ec_item(f"{record['uuid']}-right", task, seed, right, tags))
    return items


ERROR_REASON = "error_reason"
REASONS = {ERROR_REASON: Scale(labels=("correct", "incorrect"))}
REASONS_TASK = "graded_reasons"
OUTPUT_SUFFIX = "_eval_output"


def graded_reasons(*sources: list[SourceRecord]) -> LabelledSet:
    """Return the models' reasons with people's verdicts (`error_reason_correctness`): 851 in the six files.

    Replies have two turns, as in KMP-Bench's error correction. The second turn is empty, because the models were not
    asked to correct the solution. sources: records of each grading file.
    """
    items: dict[str, Item] = {}
    replies, labels = [], []
    for record in (record for source in sources for record in source):
        name, problem = record["uuid"], cluster_of(record["question"])
        [output] = [key for key in record if key.endswith(OUTPUT_SUFFIX)]
        tutor = output.removesuffix(OUTPUT_SUFFIX)
        items.setdefault(name, item_with_reason(record))
        answer = record[output]["response"] if isinstance(record[output], dict) else str(record[output])
        turns = [Turn(messages="none", text=text, finish="stop") for text in (answer.strip(), "")]
        common = {"id": name, "task": REASONS_TASK, "tutor": tutor}
        replies.append(Reply(**common, key="none", turns=turns))
        verdict = record["error_reason_correctness"]
        if verdict not in REASONS[ERROR_REASON].labels:
            known = " or ".join(REASONS[ERROR_REASON].labels)
            raise ValueError(f"{name}, {tutor}: expected the verdict {known}, found {verdict!r}")
        labels.append(Label(**common, criterion=ERROR_REASON, label=verdict, problem=problem))
    return LabelledSet(list(items.values()), replies, labels)


def item_with_reason(record: SourceRecord) -> Item:
    """Return a record's wrong solution and the annotator's reason, as an item of KMP-Bench's error correction."""
    seed, solved = mr_gsm8k_seed(record), model_solution(record)
    return ec_item(record["uuid"], REASONS_TASK, seed, solved, {"question_type": record["question_type"]})
