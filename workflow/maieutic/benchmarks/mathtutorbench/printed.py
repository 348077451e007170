"""The numbers of MathTutorBench's paper."""

from __future__ import annotations

from maieutic.scores.papers import Paper, Printed, printed_rows

BENCHMARK = "mathtutorbench"
RM = "eth-nlped/Qwen2.5-1.5B-pedagogical-rewardmodel"  # section 4.2: all its win rates


def tutors() -> list[Printed]:
    """Table 4."""
    return [
        Printed(row.group, row.row, row.task, row.metric, row.value, RM if row.metric == "win_rate" else None)
        for row in printed_rows(BENCHMARK)
        if row.table == "4"
    ]


def reward_mixes() -> list[str]:
    """The rows of Table 3: what a reward model has learnt from."""
    return list(dict.fromkeys(row.row for row in printed_rows(BENCHMARK) if row.table == "3"))


PRINTED = Paper(
    title="MathTutorBench",
    tables="Table 4",
    values=tutors,
    reward_models=reward_mixes,
    note="Pedagogy columns print win rates under the paper's own reward model.",
    served={"GPT-4o": "gpt-4o-mini-2024-07-18", "LearnLM-1.5-Pro": "learnlm-1.5-pro-experimental"},  # appendix B.1
)
