"""Numbers that the paper of the riddles benchmark would print."""

from __future__ import annotations

from maieutic.scores.papers import Paper, PrintedResult, printed_rows


def tutors() -> list[PrintedResult]:
    """Return the results of Table 1."""
    return [PrintedResult(row.group, row.row, row.task, row.metric, row.value) for row in printed_rows("riddles")]


PRINTED = Paper(title="Toy", tables="Table 1", values=tutors)
