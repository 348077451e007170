"""The papers' own numbers of their tutors, benchmark by benchmark in one form, and when ours may stand beside them.

A difference says something only where the same thing was measured: the same data, all of them, asked in the same way,
and graded by the same grader. `difference_note` gives the first reason why not.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple

from maieutic.errors import UserError
from maieutic.models import HostedModel, JudgeModel, Model, RewardModel, VllmModel
from maieutic.registry import unknown

REFERENCE = Path("resources/reference")
PEOPLE = "people"  # who graded MRBench's replies in the paper
PERCENT = 100.0
RM = "eth-nlped/Qwen2.5-1.5B-pedagogical-rewardmodel"  # MathTutorBench, section 4.2: all its win rates
KMP_JUDGE, TUTORBENCH_JUDGE = "Gemini-2.0-Flash", "Claude Sonnet 4"  # KMP-Bench, section 4; TutorBench, section 2.3
# KMP-Bench spells some models differently in its tables.
KMP_SPELLINGS = {"Gemini 2.0 Flash": "Gemini-2.0-Flash", "LLaMa-3.1-8B": "Llama-3.1-8B-Inst", "phi-4-14B": "Phi-4"}
KMP_TASKS = {  # by table and printed metric: our task and metric
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
KMP_PARSED = {"final_round", "f1", "correction", "task1_mcc", "task2_step"}
MRBENCH_TABLES = {"3": "", "8": "_bridge", "9": "_mathdial"}
MRBENCH_METRICS = {
    "Mistake_Identification": "mistake_identification",
    "Mistake_Location": "mistake_location",
    "Revealing_of_the_Answer": "revealing_of_the_answer",
    "Providing_Guidance": "providing_guidance",
    "Actionability": "actionability",
    "Coherence": "coherence",
    "Tutor_Tone": "tutor_tone",
    "humanlikeness": "human_likeness",
}
TUTORBENCH_TABLE_1 = {"modality/text": ("text", "arr_w"), "modality/multimodal": ("multimodal", "arr_w")}
TUTORBENCH_POOL = "release"


class Printed(NamedTuple):
    """One number of one tutor in a paper's table.

    by: the reward model, judge or people behind it; None: a parser. value: as our metric counts, shares from 0 to 1.
    task: of a card, or the pool of several.
    """

    group: str
    model: str
    task: str
    metric: str
    value: float
    by: str | None = None
    protocol: str = "released"


def rows_of(path: Path) -> list[dict[str, str]]:
    """The rows of a CSV with a head line."""
    with open(path, encoding="utf-8", newline="") as handle:
        return list(csv.DictReader(handle))


def mathtutorbench() -> list[Printed]:
    """Table 4."""
    return [
        Printed(
            row["group"],
            row["model"],
            row["task"],
            row["metric"],
            float(row["value"]),
            RM if row["metric"] == "win_rate" else None,
        )
        for row in rows_of(REFERENCE / "mathtutorbench.csv")
    ]


def kmpbench() -> list[Printed]:
    """Tables 5 and 6, and of Table 4 what they lack."""
    found = []
    for row in rows_of(REFERENCE / "kmpbench_tables.csv"):
        if place := KMP_TASKS.get((row["table"], row["metric"])):
            model, by = KMP_SPELLINGS.get(row["model"], row["model"]), None if place[1] in KMP_PARSED else KMP_JUDGE
            found.append(Printed(row["group"], model, *place, float(row["percent"]) / PERCENT, by))
    return found


def mrbench() -> list[Printed]:
    """Tables 3, 8 and 9: shares of replies with the desired label, by people."""
    return [
        Printed(
            "human reference" if row["row"] in {"Expert", "Novice"} else "general",
            row["row"],
            "mistake_remediation",
            MRBENCH_METRICS[row["dimension"]] + MRBENCH_TABLES[row["table"]],
            float(row["value"]) / PERCENT,
            PEOPLE,
        )
        for row in rows_of(REFERENCE / "mrbench_tables.csv")
        if row["table"] in MRBENCH_TABLES
    ]


def tutorbench() -> list[Printed]:
    """Table 1, and the row of study mode (section 3.6)."""
    found = []
    for row in rows_of(REFERENCE / "tutorbench_tables.csv"):
        place = (TUTORBENCH_POOL, "overall") if row["metric"] == "overall" else TUTORBENCH_TABLE_1.get(row["metric"])
        if row["group"] in {"ranked", "text-only model", "study mode"} and place:
            protocol = "study_mode" if row["group"] == "study mode" else "released"
            value = float(row["value"]) / PERCENT
            found.append(Printed(row["group"], row["model"], *place, value, TUTORBENCH_JUDGE, protocol))
    return found


TABLES: dict[str, Callable[[], list[Printed]]] = {
    "mathtutorbench": mathtutorbench,
    "kmpbench": kmpbench,
    "mrbench": mrbench,
    "tutorbench": tutorbench,
}
TITLES = {
    "mathtutorbench": "Table 4",
    "kmpbench": "Tables 4 to 6",
    "mrbench": "Tables 3, 8 and 9",
    "tutorbench": "Table 1 and section 3.6",
}
NOTES = {
    "mathtutorbench": "Pedagogy columns print win rates under the paper's own reward model.",
    "mrbench": "The paper's labels are people's: a judge's stand below them without a difference, rates that people's "
    "labels of this run's replies have corrected with one.",
    "tutorbench": "The public release holds 1,473 of the paper's 1,490 samples.",
}
NOT_RELEASED = {"kmpbench"}  # whose data nobody else has: no number of ours repeats a printed one


@cache
def printed_values(benchmark: str) -> tuple[Printed, ...]:
    """The paper's own results; empty for a benchmark without a table on file."""
    return tuple(TABLES[benchmark]()) if benchmark in TABLES else ()


def reward_mixes() -> list[str]:
    """The rows of MathTutorBench's Table 3: what a reward model has learnt from."""
    rows = rows_of(REFERENCE / "reward_models.csv")
    return list(dict.fromkeys(row["row"] for row in rows if row["table"] == "3"))


# The printed tables of graders: MRBench's Tables 5 and 6 are of its critics; the others' judges are named in the text.
CRITICS = {"Prometheus2": 5, "Llama-3.1-8B": 6}
JUDGES = {"mrbench": list(CRITICS), "kmpbench": [KMP_JUDGE], "tutorbench": [TUTORBENCH_JUDGE]}


@cache
def names_of_tutors() -> dict[str, tuple[str, ...]]:
    """By benchmark the tutors that its paper prints."""
    return {name: tuple(dict.fromkeys(one.model for one in printed_values(name))) for name in TABLES}


def names_for(model: Model) -> dict[str, Sequence[str]]:
    """By benchmark the names that a registry entry of this kind may claim to be."""
    if isinstance(model, JudgeModel):
        return dict(JUDGES)
    if isinstance(model, RewardModel):
        return {"mathtutorbench": reward_mixes()}
    return dict(names_of_tutors()) if isinstance(model, VllmModel | HostedModel) else {}


def check_papers(models: Mapping[str, Model]) -> None:
    """Every `paper` names a row of a paper's table. Raises UserError for the first that does not, and names the others.

    A bare name has to be in one benchmark's table alone.
    """
    faults = [fault for name, model in models.items() if (fault := paper_fault(name, model))]
    if faults:
        first, *others = faults
        more = f" (so are {', '.join(other.place for other in others)})" if others else ""
        raise UserError(first.place, first.problem + more, first.mend)


def paper_fault(name: str, model: Model) -> UserError | None:
    """What is wrong with a model's `paper`."""
    key, tables = f"models.{name}.paper", names_for(model)
    if isinstance(model.paper, dict):
        for benchmark, printed in model.paper.items():
            if benchmark not in tables:
                return unknown(
                    f"{key}.{benchmark}", benchmark, list(tables), "the benchmarks whose papers print such models"
                )
            if printed not in tables[benchmark]:
                return unknown(
                    f"{key}.{benchmark}", printed, list(tables[benchmark]), f"the tables of {benchmark}'s paper"
                )
    elif model.paper is not None:
        there = [benchmark for benchmark, names in tables.items() if model.paper in names]
        if not there:
            return unknown(key, model.paper, [one for names in tables.values() for one in names], "any paper's table")
        if len(there) > 1:
            mend = f"say which one: paper: {{{there[0]}: {model.paper}}}"
            return UserError(key, f"{model.paper!r} is in the tables of {' and '.join(there)}", mend)
    return None


def paper_name(paper: str | dict[str, str] | None, benchmark: str) -> str | None:
    """A model's name in one benchmark's paper. paper: the registry's key; a bare name is of whatever table has it."""
    return paper.get(benchmark) if isinstance(paper, dict) else paper


class Circumstances(NamedTuple):
    """How a number of ours came about, as far as it decides on a comparison.

    whole: it rests on all items of the published data; changed: card, prompts or rubric differ from the shipped ones;
    by: the grader's name in the papers, or its repository; None: a parser.
    """

    published: bool
    whole: bool
    protocol: str
    changed: bool
    by: str | None


SAME_PROTOCOLS = {"released": {"released", "paper"}}  # both are what a paper says that it asked


def difference_note(printed: Printed, benchmark: str, ours: Circumstances) -> str | None:
    """Why a number of ours may not be compared with a printed one; None: it may."""
    if benchmark in NOT_RELEASED:
        return "the paper's data are not released"
    if not ours.published:
        return "demo data"
    if not ours.whole:
        return "not all items"
    if ours.protocol not in SAME_PROTOCOLS.get(printed.protocol, {printed.protocol}):
        return f"protocol {ours.protocol}"
    if ours.changed:
        return "another card or prompt than the shipped one"
    if printed.by != ours.by:
        return f"the paper: by {printed.by or 'a parser'}"
    return None


def printed_of(values: Sequence[Printed], model: str, task: str, metric: str) -> Printed | None:
    """One number of a table."""
    return next((one for one in values if (one.model, one.task, one.metric) == (model, task, metric)), None)
