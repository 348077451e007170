"""Numbers from the tables of MathTutorBench's paper."""

from __future__ import annotations

from maieutic.scores.papers import Display, Paper, PrintedResult, printed_rows

BENCHMARK = "mathtutorbench"
# All win rates in the paper were computed with this reward model (section 4.2).
PAPER_REWARD_MODEL = "eth-nlped/Qwen2.5-1.5B-pedagogical-rewardmodel"


def mathtutorbench_values() -> list[PrintedResult]:
    """Return the numbers of Table 4."""
    return [
        PrintedResult(
            row.group,
            row.row,
            row.task,
            row.metric,
            row.value,
            PAPER_REWARD_MODEL if row.metric == "win_rate" else None,
            row=row,
        )
        for row in printed_rows(BENCHMARK)
        if row.table == "4"
    ]


def reward_mixes() -> list[str]:
    """Return the row names of Table 3. They name the training data of the reward models."""
    return list(dict.fromkeys(row.row for row in printed_rows(BENCHMARK) if row.table == "3"))


TABLE_2 = {  # source of pairs -> its name in the paper
    "gsm8k_inpainted": "GSM8k-inpainted", "mathdial": "MathDial", "mrbench": "MRBench", "bridge": "Bridge",
}  # fmt: skip
DISPLAYS = {
    "1": Display(
        "Table 1", "sizes of the tasks' data", "released", "needs the task in run.tasks, with all items", "data"
    ),
    "2": Display(
        "Table 2",
        "sizes of the preference data",
        "released",
        "needs the source in run.pair_sources, and its file",
        "data",
    ),
    "3": Display(
        "Table 3, Figures 3 and 4", "ablation of the reward model's data", "rewards", "needs training on a GPU"
    ),
    "4": Display("Table 4", "eight models on nine tasks", "mathtutorbench", "needs the models: a GPU and API keys"),
    "5": Display("Table 5", "classifiers of criteria", "rewards", "needs training on a GPU"),
    "6": Display(
        "Table 6",
        "example scores of the published reward model",
        "mathtutorbench",
        "needs the model's weights and a GPU",
    ),
    "C.2": Display("Appendix C.2", "speed of scoring", "mathtutorbench", "a time on a GH200"),
    "README, scoring": Display("README, scoring", "speed of scoring", "mathtutorbench", "a time on a GH200"),
    "README, generation": Display("README, generation", "speed of generation", "qwen", "a time on four GH200"),
    "settings": Display(
        "Sections 4.3 and 5.2, appendices B to D",
        "settings",
        "rewards",
        "a setting of an entry outside the run, or a time or price",
        "nothing",
    ),
    "replies": Display(
        "Replies that others published",
        "share of replies that ask",
        "released",
        "needs the tutor in run.tutors",
        "data",
    ),
}

PRINTED = Paper(
    title="MathTutorBench",
    tables="Table 4",
    values=mathtutorbench_values,
    reward_models=reward_mixes,
    note="The pedagogy columns contain win rates under the paper's own reward model.",
    served={"GPT-4o": "gpt-4o-mini-2024-07-18", "LearnLM-1.5-Pro": "learnlm-1.5-pro-experimental"},  # appendix B.1
    displays=DISPLAYS,
)
