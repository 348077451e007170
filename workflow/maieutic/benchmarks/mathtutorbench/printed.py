"""Numbers from the tables of MathTutorBench's paper."""

from __future__ import annotations

from maieutic.scores.papers import Paper, PrintedResult, printed_rows

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
        )
        for row in printed_rows(BENCHMARK)
        if row.table == "4"
    ]


def reward_mixes() -> list[str]:
    """Return the row names of Table 3. They name the training data of the reward models."""
    return list(dict.fromkeys(row.row for row in printed_rows(BENCHMARK) if row.table == "3"))


PRINTED = Paper(
    title="MathTutorBench",
    tables="Table 4",
    values=mathtutorbench_values,
    reward_models=reward_mixes,
    note="The pedagogy columns contain win rates under the paper's own reward model.",
    served={"GPT-4o": "gpt-4o-mini-2024-07-18", "LearnLM-1.5-Pro": "learnlm-1.5-pro-experimental"},  # appendix B.1
)
