"""StepVerify (Daheim et al., 2024): student solutions with the first wrong step marked. Licence CC BY-SA 4.0.

Every record gives a wrong item; correctness and location add its correct twin (2,004), correction does not (1,002).
"""

from __future__ import annotations

from maieutic.config.datasets import Source
from maieutic.core.records import Item
from maieutic.datasets.text import cluster_of, spoken

CHAT_VARIABLES = {"question", "dialog_history", "student_chat_solution"}
LOCATION_VARIABLES = {"question", "student_solution", "student_solution_lines", "student_solution_whole"}


def opening(record: Source) -> tuple[str, str]:
    """The teacher's turns before the student first speaks, and what the student then says (released loader)."""
    turns = record["dialog_history"]
    first = next(index for index, turn in enumerate(turns) if turn["user"] == "Student")
    return spoken(turns[:first]), turns[first]["text"]


def steps(lines: list[str], joint: str) -> str:
    """Numbered steps."""
    return joint.join(f"Step {number} - {line}" for number, line in enumerate(lines, 1))


def twin(number: int, task: str, record: Source, wrong: bool, variables: dict[str, str], reference: dict) -> Item:
    """One of the two items of a record."""
    return Item(
        id=f"stepverify-{number:04d}-{'wrong' if wrong else 'right'}",
        task=task,
        cluster=cluster_of(record["problem"]),
        vars={"question": record["problem"], **variables},
        reference=reference,
        tags={"error_category": record["error_category"] if wrong else "none"},
    )


def correctness(records: list[Source], task: str) -> list[Item]:
    """Solution correctness: is what the student says wrong?"""
    items = []
    for number, record in enumerate(records):
        history, solution = opening(record)
        for wrong in (True, False):
            variables = {
                "dialog_history": history,
                "student_chat_solution": solution if wrong else record["student_correct_response"],
            }
            items.append(
                twin(number, task, record, wrong, variables, {"incorrect": wrong, "text": "Yes" if wrong else "No"})
            )
    return items


def location(records: list[Source], task: str) -> list[Item]:
    """Mistake location: the number of the first wrong step, 0 for none."""
    items = []
    for number, record in enumerate(records):
        for wrong in (True, False):
            lines = record["student_incorrect_solution"] if wrong else record["reference_solution"].split("\n")
            step = int(record["incorrect_index"]) + 1 if wrong else 0
            # The released loader joins the steps by a backslash and an n, not by a new line, and drops the last line,
            # which holds the bare final answer.
            variables = {
                "student_solution": steps(lines[:-1], "\\n"),
                "student_solution_lines": steps(lines[:-1], "\n"),
                "student_solution_whole": steps(lines, "\n"),
            }
            items.append(twin(number, task, record, wrong, variables, {"step": step, "text": str(step)}))
    return items


def correction(records: list[Source], task: str) -> list[Item]:
    """Mistake correction: the right answer, although the student has just given a wrong one."""
    items = []
    for number, record in enumerate(records):
        history, solution = opening(record)
        answer = record["reference_solution"].split("\n")[-1].replace(",", "").strip()
        reference = {"answer": answer, "text": f"{record['reference_solution'].rstrip()}\nFinal Answer: {answer}"}
        variables = {"dialog_history": history, "student_chat_solution": solution}
        items.append(twin(number, task, record, True, variables, reference))
    return items
