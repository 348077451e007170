"""StepVerify (Daheim et al., 2024): student solutions with the first wrong step marked. Licence: CC BY-SA 4.0.

Every record yields an item with the wrong solution. In the tasks correctness and location, it also yields a twin with
the correct solution (2,004 items in all); in the task correction, it does not (1,002 items).
"""

from __future__ import annotations

from maieutic.config.datasets import SourceRecord
from maieutic.core.records import Item
from maieutic.datasets.text import cluster_of, dialogue_lines

CHAT_VARIABLES = {"question", "dialog_history", "student_chat_solution"}
LOCATION_VARIABLES = {"question", "student_solution", "student_solution_lines", "student_solution_whole"}


def first_student_turn(record: SourceRecord) -> tuple[str, str]:
    """Return the lines before the first student turn, and the text of that turn, as the released loader does."""
    turns = record["dialog_history"]
    first = next(index for index, turn in enumerate(turns) if turn["user"] == "Student")
    return dialogue_lines(turns[:first]), turns[first]["text"]


def numbered_lines(lines: list[str], joint: str) -> str:
    """Return the lines of a solution as one text of numbered steps. joint: text between two steps."""
    return joint.join(f"Step {number} - {line}" for number, line in enumerate(lines, 1))


def twin_item(
    number: int, task: str, record: SourceRecord, wrong: bool, variables: dict[str, str], reference: dict
) -> Item:
    """Return the item with a record's wrong solution, or its twin with the correct solution if not `wrong`."""
    return Item(
        id=f"stepverify-{number:04d}-{'wrong' if wrong else 'right'}",
        task=task,
        cluster=cluster_of(record["problem"]),
        vars={"question": record["problem"], **variables},
        reference=reference,
        tags={"error_category": record["error_category"] if wrong else "none"},
    )


def correctness_items(records: list[SourceRecord], task: str) -> list[Item]:
    """Return the items of solution correctness, which ask if the student's last turn is wrong."""
    items = []
    for number, record in enumerate(records):
        history, solution = first_student_turn(record)
        for wrong in (True, False):
            variables = {
                "dialog_history": history,
                "student_chat_solution": solution if wrong else record["student_correct_response"],
            }
            items.append(
                twin_item(
                    number, task, record, wrong, variables, {"incorrect": wrong, "text": "Yes" if wrong else "No"}
                )
            )
    return items


def location_items(records: list[SourceRecord], task: str) -> list[Item]:
    """Return the items of mistake location, which ask for the number of the first wrong step (0: no step is wrong)."""
    items = []
    for number, record in enumerate(records):
        for wrong in (True, False):
            lines = record["student_incorrect_solution"] if wrong else record["reference_solution"].split("\n")
            step = int(record["incorrect_index"]) + 1 if wrong else 0
            # The released loader joins the steps with a backslash and an n instead of a line break, and drops the last
            # line, which contains only the final answer.
            variables = {
                "student_solution": numbered_lines(lines[:-1], "\\n"),
                "student_solution_lines": numbered_lines(lines[:-1], "\n"),
                "student_solution_whole": numbered_lines(lines, "\n"),
            }
            items.append(twin_item(number, task, record, wrong, variables, {"step": step, "text": str(step)}))
    return items


def correction_items(records: list[SourceRecord], task: str) -> list[Item]:
    """Return the items of mistake correction: a student's last turn, which is wrong, and the correct answer."""
    items = []
    for number, record in enumerate(records):
        history, solution = first_student_turn(record)
        answer = record["reference_solution"].split("\n")[-1].replace(",", "").strip()
        reference = {"answer": answer, "text": f"{record['reference_solution'].rstrip()}\nFinal Answer: {answer}"}
        variables = {"dialog_history": history, "student_chat_solution": solution}
        items.append(twin_item(number, task, record, True, variables, reference))
    return items
