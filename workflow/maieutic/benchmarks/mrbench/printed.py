"""The numbers of MRBench's paper: of its Tables 3, 8 and 9 by people, of 5 and 6 of its critics."""

from __future__ import annotations

from maieutic.core.records import Score
from maieutic.scores.papers import PEOPLE, PERCENT, Paper, Printed, ReleasedLabels, printed_rows

BENCHMARK = "mrbench"
CRITIC = "mrbench_critic"  # rubric of the prompt in Figure 6
CRITICS = {"Prometheus2": 5, "Llama-3.1-8B": 6}  # by the table that is about it
TUTORS = {  # the data's spelling: the paper's
    "Novice": "Novice", "Expert": "Expert", "Llama318B": "Llama-3.1-8B", "Phi3": "Phi3", "Gemini": "Gemini",
    "Sonnet": "Sonnet", "Mistral": "Mistral", "GPT4": "GPT-4", "Llama31405B": "Llama-3.1-405B",
}  # fmt: skip
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


TASK = "mistake_remediation"


def place_of(score: Score) -> tuple[str, str, str] | None:
    """Return the printed row, task and metric of a desired-label rate of the released labels; None for other scores."""
    row, name = TUTORS.get(str(score.tutor)), METRIC_NAMES.get(str(score.criterion))
    if score.metric != "damr" or row is None or name is None:
        return None
    return row, TASK, name if score.subset == "all" else f"{name}_{score.subset}"


def tutors() -> list[Printed]:
    """Shares of replies with the desired label, by people."""
    return [
        Printed(
            "human reference" if row.row in {"Expert", "Novice"} else "general",
            row.row,
            TASK,
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
    judge_prompts=(CRITIC,),
    labels=ReleasedLabels(BENCHMARK, place_of),
)
