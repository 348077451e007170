"""Numbers from the tables of KMP-Bench's paper."""

from __future__ import annotations

from maieutic.scores.papers import PERCENT, Display, Paper, PrintedResult, printed_rows

BENCHMARK = "kmpbench"
JUDGE = "Gemini-2.0-Flash"  # the paper's judge (section 4)
# The paper's tables spell the names of some models differently.
SPELLINGS = {"Gemini 2.0 Flash": "Gemini-2.0-Flash", "LLaMa-3.1-8B": "Llama-3.1-8B-Inst", "phi-4-14B": "Phi-4"}
TASKS = {  # task and metric of this project, by table and metric of the paper
    **{("5", name): ("dialogue", name) for name in (
        "overall_judgement", "general_level", "challenge", "explanation", "modelling", "practice", "questioning",
        "feedback", "overall",
    )},
    ("6", "final_round"): ("fqa", "final_round"),
    ("6", "mr_score"): ("ec", "mr_score"),
    ("6", "f1"): ("ec", "f1"),
    ("6", "correction"): ("ec", "correction"),
    ("6", "gen_followup"): ("gen_followup", "last_round"),
    ("6", "gen_similar"): ("gen_similar", "last_round"),
    ("4", "task1_mcc"): ("ec", "task1_mcc"),
    ("4", "task2_step"): ("ec", "task2_step"),
    ("4", "task3_reason"): ("ec", "task3_reason"),
}  # fmt: skip
GAIN = "gain"  # group of the paper's rows with differences of two models
PARSED = {"final_round", "f1", "correction", "task1_mcc", "task2_step"}


def kmpbench_values() -> list[PrintedResult]:
    """Return the values of Tables 5 and 6, and the values of Table 4 that are in neither of them."""
    numbers = []
    for row in printed_rows(BENCHMARK):
        if row.group == GAIN:
            continue
        if place := TASKS.get((row.table, row.metric)):
            model, by = SPELLINGS.get(row.row, row.row), None if place[1] in PARSED else JUDGE
            numbers.append(PrintedResult(row.group, model, *place, row.value / PERCENT, by, row=row))
    return numbers


UNRELEASED = "needs the paper's data, which are not released"
DISPLAYS = {
    "3": Display(
        "Table 3", "judge beside people", "kmpbench", "needs the study's answers, which are not released", "data"
    ),
    "4": Display("Table 4", "error detection in detail", "kmpbench", UNRELEASED, "data"),
    "5": Display("Tables 1 and 5", "dialogues under teaching principles", "kmpbench_dialogue", UNRELEASED, "data"),
    "6": Display("Tables 2 and 6", "skills", "kmpbench", UNRELEASED, "data"),
    "figure 5": Display(
        "Figure 5",
        "error types of lost replies",
        "kmpbench",
        "people's analysis of lost replies, which is not released",
        "nothing",
    ),
    "text": Display(
        "Sections 2 to 4, appendices B to J",
        "counts and settings",
        "kmp_lm",
        "counts of the authors' own work, hardware or a price",
        "nothing",
    ),
    "MR-GSM8K": Display(
        "MR-GSM8K (Zeng et al., 2023)", "the MR-Score's weights", "kmpbench", "a definition", "nothing"
    ),
}

PRINTED = Paper(
    title="KMP-Bench",
    tables="Tables 4 to 6",
    values=kmpbench_values,
    judges=(JUDGE,),
    released=False,
    judge_prompts=("kmp_dialogue", "kmp_similar_problems"),
    displays=DISPLAYS,
)
