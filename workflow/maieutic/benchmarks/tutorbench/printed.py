"""The numbers of TutorBench's paper and leaderboard."""

from __future__ import annotations

from maieutic.scores.papers import PERCENT, Paper, Printed, printed_rows

BENCHMARK = "tutorbench"
JUDGE = "Claude Sonnet 4"  # section 2.3
TABLE_1 = {"modality/text": ("text", "arr_w"), "modality/multimodal": ("multimodal", "arr_w")}
POOL = "release"
SAID_BY_USER = "the student's work as the user's words"


def tutors() -> list[Printed]:
    """Table 1, and the row of study mode (section 3.6)."""
    numbers = []
    for row in printed_rows(BENCHMARK):
        place = (POOL, "overall") if row.metric == "overall" else TABLE_1.get(row.metric)
        if row.group in {"ranked", "text-only model", "study mode"} and place:
            protocol = "study_mode" if row.group == "study mode" else "released"
            numbers.append(Printed(row.group, row.row, *place, row.value / PERCENT, JUDGE, protocol))
    return numbers


PRINTED = Paper(
    title="TutorBench",
    tables="Table 1 and section 3.6",
    values=tutors,
    judges=(JUDGE,),
    note="The public release holds 1,473 of the paper's 1,490 samples.",
    # Section 3.6 used the product's study mode, which no endpoint serves.
    other_protocols={"study_mode": "preambles for the product's study mode"},
    user_last=SAID_BY_USER,
)
