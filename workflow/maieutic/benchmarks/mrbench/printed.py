"""The numbers of MRBench's paper: of its Tables 3, 8 and 9 by people, of 5 and 6 of its critics."""

from __future__ import annotations

from maieutic.scores.papers import PEOPLE, PERCENT, Paper, Printed, printed_rows

BENCHMARK = "mrbench"
CRITICS = {"Prometheus2": 5, "Llama-3.1-8B": 6}  # by the table that is about it
TABLES = {"3": "", "8": "_bridge", "9": "_mathdial"}
METRIC_NAMES = {
    "Mistake_Identification": "mistake_identification",
    "Mistake_Location": "mistake_location",
    "Revealing_of_the_Answer": "revealing_of_the_answer",
    "Providing_Guidance": "providing_guidance",
    "Actionability": "actionability",
    "Coherence": "coherence",
    "Tutor_Tone": "tutor_tone",
    "humanlikeness": "human_likeness",
}


def tutors() -> list[Printed]:
    """Shares of replies with the desired label, by people."""
    return [
        Printed(
            "human reference" if row.row in {"Expert", "Novice"} else "general",
            row.row,
            "mistake_remediation",
            METRIC_NAMES[row.metric] + TABLES[row.table],
            row.value / PERCENT,
            PEOPLE,
        )
        for row in printed_rows(BENCHMARK)
        if row.table in TABLES
    ]


PRINTED = Paper(
    title="MRBench",
    tables="Tables 3, 8 and 9",
    values=tutors,
    judges=tuple(CRITICS),
    note="The paper's labels are people's: a judge's stand below them without a difference, rates that people's "
    "labels of this run's replies have corrected with one.",
    prompt=False,
)
