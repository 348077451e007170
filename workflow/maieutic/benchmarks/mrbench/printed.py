"""Numbers from MRBench's paper, on human labels (Tables 3, 8 and 9) and on critic models (Tables 5 and 6)."""

from __future__ import annotations

from maieutic.core.records import Score
from maieutic.scores.papers import PEOPLE, PERCENT, Display, Paper, PrintedResult, ReleasedLabels, printed_rows

BENCHMARK = "mrbench"
CRITIC_RUBRIC = "mrbench_critic"  # rubric with the prompt of Figure 6
CRITIC_TABLES = {"Prometheus2": 5, "Llama-3.1-8B": 6}  # table number of each critic
PAPER_TUTORS = {  # name in the data -> name in the paper
    "Novice": "Novice", "Expert": "Expert", "Llama318B": "Llama-3.1-8B", "Phi3": "Phi3", "Gemini": "Gemini",
    "Sonnet": "Sonnet", "Mistral": "Mistral", "GPT4": "GPT-4", "Llama31405B": "Llama-3.1-405B",
}  # fmt: skip
SUBSET_SUFFIXES = {"3": "", "8": "_bridge", "9": "_mathdial"}
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


def printed_cell_of(score: Score) -> tuple[str, str, str] | None:
    """Return the row, task and metric of a score in the paper's tables, or None if they do not contain it.

    They contain only desired-label rates of the released labels.
    """
    row, name = PAPER_TUTORS.get(str(score.tutor)), METRIC_NAMES.get(str(score.criterion))
    if score.metric != "damr" or row is None or name is None:
        return None
    return row, TASK, name if score.subset == "all" else f"{name}_{score.subset}"


def mrbench_values() -> list[PrintedResult]:
    """Return the paper's shares of replies with the desired label, according to people's labels."""
    return [
        PrintedResult(
            "human reference" if row.row in {"Expert", "Novice"} else "general",
            row.row,
            TASK,
            METRIC_NAMES[row.metric] + SUBSET_SUFFIXES[row.table],
            row.value / PERCENT,
            PEOPLE,
            row=row,
        )
        for row in printed_rows(BENCHMARK)
        if row.table in SUBSET_SUFFIXES
    ]


LABELS_NEEDED = "needs the labels in run.labels"
TEAMS = "needs the teams' predictions, which are not released"
DISPLAYS = {
    "1": Display(
        "Table 1",
        "dimensions of earlier schemes",
        "released",
        "a survey of the literature, not a measurement",
        "nothing",
    ),
    "3": Display("Table 3", "desired labels by tutor", "released", LABELS_NEEDED, "data"),
    "5": Display("Table 5", "Prometheus2's correlation with people", "mrbench", "needs the critic: a GPU"),
    "6": Display("Table 6", "Llama-3.1-8B's correlation with people", "mrbench", "needs the critic: a GPU"),
    "7": Display("Table 7", "sizes of the data", "released", LABELS_NEEDED, "data"),
    "8": Display("Table 8", "desired labels on Bridge", "released", LABELS_NEEDED, "data"),
    "9": Display("Table 9", "desired labels on MathDial", "released", LABELS_NEEDED, "data"),
    "agreement": Display(
        "Sections 4.2 and 5.2",
        "agreement of annotators",
        "released",
        "needs each annotator's labels, which are not released",
        "data",
    ),
    "bea": Display("BEA 2025 shared task", "the best five teams of each track", "released", TEAMS, "data"),
}

PRINTED = Paper(
    title="MRBench",
    tables="Tables 3, 8 and 9",
    values=mrbench_values,
    judges=tuple(CRITIC_TABLES),
    note="The paper's labels were assigned by people. The difference from the paper is shown for rates that are "
    "corrected with people's labels of this run's replies, not for rates from a judge alone. The rates of the "
    "released labels differ from most printed ones, because release V1 is not what the tables were computed from: it "
    "has 53 dialogues from Bridge and 139 from MathDial, the paper 60 and 132, and most values in Tables 8 and 9 are "
    "not shares of 60 or of 132 replies.",
    prints_prompt=False,
    judge_prompts=(CRITIC_RUBRIC,),
    labels=ReleasedLabels(BENCHMARK, printed_cell_of, is_other=True),
    displays=DISPLAYS,
)
