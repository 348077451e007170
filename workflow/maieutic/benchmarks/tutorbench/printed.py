"""Numbers from TutorBench's paper and leaderboard."""

from __future__ import annotations

from maieutic.scores.papers import PERCENT, Paper, PrintedResult, printed_rows

BENCHMARK = "tutorbench"
JUDGE = "Claude Sonnet 4"  # the paper's judge (section 2.3)
TABLE_1 = {"modality/text": ("text", "arr_w"), "modality/multimodal": ("multimodal", "arr_w")}
POOL = "release"
USER_LAST_NOTE = "the student's work sent as a user message"


def tutorbench_values() -> list[PrintedResult]:
    """Return the values of Table 1, and the row of study mode (section 3.6)."""
    numbers = []
    for row in printed_rows(BENCHMARK):
        place = (POOL, "overall") if row.metric == "overall" else TABLE_1.get(row.metric)
        if row.group in {"ranked", "text-only model", "study mode"} and place:
            protocol = "study_mode" if row.group == "study mode" else "released"
            numbers.append(PrintedResult(row.group, row.row, *place, row.value / PERCENT, JUDGE, protocol))
    return numbers


PRINTED = Paper(
    title="TutorBench",
    tables="Table 1 and section 3.6",
    values=tutorbench_values,
    judges=(JUDGE,),
    note="The public release contains 1,473 of the paper's 1,490 samples.",
    # Section 3.6 used the product's study mode, which no API endpoint serves.
    other_protocols={"study_mode": "preambles for the product's study mode"},
    user_last=USER_LAST_NOTE,
)
