"""Numbers from TutorBench's paper and leaderboard."""

from __future__ import annotations

from maieutic.scores.papers import PERCENT, Display, Paper, PrintedResult, printed_rows

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
            numbers.append(PrintedResult(row.group, row.row, *place, row.value / PERCENT, JUDGE, protocol, row))
    return numbers


RATINGS = "needs the experts' ratings, which are not released"
MODELS = "needs the models and the judge: GPUs and API keys"
DISPLAYS = {
    "1": Display("Table 1", "fifteen models, by modality", "tutorbench", MODELS),
    "section 3.2": Display("Section 3.2, Figure 3", "means by use case", "tutorbench", MODELS),
    "section 3.4": Display("Section 3.4, Figure 12", "Bloom levels", "tutorbench", "needs the three taggers: API keys"),
    "section 3.5": Display("Section 3.5, Figure 4", "means by skill", "tutorbench", MODELS),
    "section 3.6": Display(
        "Section 3.6",
        "study mode",
        "tutorbench_study",
        "needs the product's study mode, which no API serves",
        "nothing",
    ),
    "section 3.7": Display("Section 3.7, Figure 6", "judge beside experts", "tutorbench", RATINGS, "data"),
    "section 2": Display(
        "Section 2, Figures 7 and 11",
        "sizes of the data",
        "released",
        "needs the paper's 1,490 samples, of which 1,473 are released",
        "data",
    ),
    "hub card": Display(
        "Public release", "sizes of the data", "released", "needs all files of hub ScaleAI/TutorBench", "data"
    ),
    "appendix A.1": Display(
        "Appendix A.1", "filter for hard samples", "tutorbench", "settings of the filter", "nothing"
    ),
    "abstract": Display(
        "Abstract", "number of models", "tutorbench", "counts the paper's own rows, of which Table 1 has 15", "nothing"
    ),
}

PRINTED = Paper(
    title="TutorBench",
    tables="Table 1 and section 3.6",
    values=tutorbench_values,
    judges=(JUDGE,),
    note="The public release contains 1,473 of the paper's 1,490 samples.",
    # Section 3.6 used the product's study mode, which no API endpoint serves.
    other_protocols={"study_mode": "preambles for the product's study mode"},
    user_last=USER_LAST_NOTE,
    displays=DISPLAYS,
)
