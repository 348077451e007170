"""Tests of KMP-Bench: formulas against the paper's tables, loaders on real data, parsers, judging and human studies."""

from __future__ import annotations

import csv
import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from httpserver import chat, scripted, serving
from maieutic.benchmarks.kmpbench import items as kmp
from maieutic.benchmarks.kmpbench.alignment import (
    ALL_TUTORS,
    AlignJudge,
    align_judge,
    alignment_scores,
    judged_verdicts,
)
from maieutic.benchmarks.kmpbench.detection import names_error_step, parse_detection
from maieutic.benchmarks.kmpbench.final_answers import grade_rounds
from maieutic.benchmarks.kmpbench.mathchat import rounds_of, stated_number
from maieutic.benchmarks.kmpbench.metrics import mean_of_levels
from maieutic.benchmarks.kmpbench.problems import grade_new_problem
from maieutic.benchmarks.kmpbench.section import DETECTION, DIALOGUE, GAIN_MODELS, SKILLS, paper_rows
from maieutic.config.cards import CARDS, JUDGE, check_variables, read_card
from maieutic.config.models import HostedModel, JudgeModel
from maieutic.config.rubrics import annotation_scales, read_rubric, rubric_names
from maieutic.core.errors import UserError
from maieutic.core.records import SCORINGS, Item, Judgement, Reply, Scoring, Turn, Verdict, read_records, write_records
from maieutic.core.stats import BootstrapSettings
from maieutic.datasets.registry import LOADERS
from maieutic.datasets.sources import read_source
from maieutic.graders.answers import final_number
from maieutic.graders.reading import Reading
from maieutic.judges.answers import parse_verdicts
from maieutic.judges.assignments import case_of_reply, reply_cases
from maieutic.judges.grading import DESIRED_SHARE, SAME_IN_BOTH, grades_by_judge
from maieutic.judges.judging import JudgeSettings, run_judge
from maieutic.judges.questions import question_messages, questions_about
from maieutic.replies.baselines import baseline_reply
from maieutic.replies.generate import RequestLimits, ask_tutor
from maieutic.replies.parsing import grades_of, read_reply
from maieutic.scores.metrics import GradedItem, combine_mr
from maieutic.scores.papers import printed_rows
from maieutic.scores.registry import METRICS
from maieutic.scores.score import index_grades, score_task
from maieutic.serving.backends import JobFiles
from obedient_judge import answering, obeyed, prompt_of
from sklearn.metrics import matthews_corrcoef

FOLDER = CARDS / "kmpbench"
TASKS = sorted(path.stem for path in FOLDER.glob("*.yaml"))
RNG = np.random.default_rng(3)
DETECTIONS = yaml.safe_load(Path("tests/tables/kmp_detection.yaml").read_text(encoding="utf-8"))
WITHIN = 0.1 + 1e-9  # rounding error: the parts are printed with one decimal, each up to 0.05 from its value


def printed(table: str) -> dict[str, dict[str, float]]:
    rows: dict[str, dict[str, float]] = {}
    for cell in printed_rows("kmpbench"):
        if cell.table == table:
            rows.setdefault(cell.row, {})[cell.metric] = cell.value
    return rows


# Formulas.


def test_all_rows_of_table_4_give_their_mr_score() -> None:
    rows = printed("4")
    assert len(rows) == 13
    for row in rows.values():
        ours = combine_mr(np.array(row["task1_mcc"]), np.array(row["task2_step"]), np.array(row["task3_reason"]))
        assert float(ours) == pytest.approx(row["mr_score"], abs=WITHIN)


def test_all_rows_of_table_5_give_their_overall() -> None:
    rows = {name: row for name, row in printed("5").items() if name != " minus ".join(GAIN_MODELS)}
    assert len(rows) == 19
    for row in rows.values():
        principles = np.mean([row[name] for name in kmp.PRINCIPLES])
        expected = pytest.approx(row["overall"], abs=WITHIN)
        assert float(mean_of_levels(np.array(row["general_level"]), principles)) == expected


def test_shipped_tables_are_the_papers(data: Path) -> None:
    """Compare every number of the transcribed tables (Tables 1 and 2 as parts of 5 and 6) and the printed gains."""
    folder = data.parent / "reference"
    if not folder.is_dir():
        pytest.skip("no transcribed tables: expected the folder `reference` next to the folder in MAIEUTIC_DATA")

    def rows(name: str) -> list[dict[str, str]]:
        with open(folder / f"kmpbench_{name}.csv", encoding="utf-8", newline="") as handle:
            return list(csv.DictReader(handle))

    files = {"5": ("table1_dialogue_main", "table5_dialogue_full"), "6": ("table2_skills_main", "table6_skills_full"),
             "4": ("table4_ec_detail",)}  # fmt: skip
    seen = 0
    for table, names in files.items():
        cells = {
            row["who"]: row["cells"]
            for row in paper_rows({"5": DIALOGUE, "6": SKILLS, "4": DETECTION}[table], printed_rows("kmpbench"))
        }
        for name in names:
            for row in rows(name):
                row_name = " minus ".join(GAIN_MODELS) if row["group"] == "delta" else row["model"]
                values = [row[key] for key in row if key not in {"group", "model", "size", "source", "note"}]
                for value, shipped in zip(values, cells[row_name], strict=True):
                    # The printed gain of Overall was computed from values before rounding.
                    assert float(value) == pytest.approx(shipped, abs=0.11 if row["group"] == "delta" else 1e-9)
                    seen += 1
    assert seen > 400
    expected = {row["error_type"]: float(row["share_pct"]) for row in rows("fig5_error_distribution")}
    assert printed("figure 5")["DeepSeek-V3"] == expected


def parts(n: int = 200) -> list[GradedItem]:
    """Return random items with a verdict, a step and, if the step is right, usually a reason."""
    items = []
    for _ in range(n):
        gold = bool(RNG.integers(2))
        verdict = gold if RNG.random() < 0.8 else not gold
        step = verdict == gold and bool(RNG.integers(3))
        judged = gold and step and RNG.random() < 0.9
        reason = GradedItem("x", bool(RNG.integers(2)), None) if judged else None
        items.append(
            GradedItem(
                None, None, None, (GradedItem(verdict, verdict == gold, gold), GradedItem(1, step, gold), reason)
            )
        )
    return items


def test_mr_score_is_that_of_its_definition() -> None:
    items = parts()
    gold = [item.parts[0].gold for item in items]
    wrong = [item for item in items if item.parts[0].gold]
    step = np.mean([item.parts[1].correct for item in wrong])
    reason = np.mean([bool(item.parts[1].correct and item.parts[2] and item.parts[2].correct) for item in wrong])
    correlation = matthews_corrcoef(gold, [item.parts[0].value for item in items])
    assert correlation > 0.3
    expected = 0.2 * correlation + 0.3 * step + 0.5 * reason
    assert METRICS["mr_score"].value(items) == pytest.approx(expected)
    task3 = METRICS["reason_accuracy"].value([item._replace(parts=item.parts[1:]) for item in items])
    assert task3 == pytest.approx(reason)
    inverse = [
        item._replace(parts=(GradedItem(not item.parts[0].gold, False, item.parts[0].gold), *item.parts[1:]))
        for item in items
    ]
    assert METRICS["mr_score"].value(inverse) == pytest.approx(0.3 * step + 0.5 * reason), "a negative MCC counts as 0"


def test_detection_f1_is_the_harmonic_mean_of_both_accuracies() -> None:
    items = [
        GradedItem(1, right, gold)
        for right, gold in [(True, True), (False, True), (True, False), (True, False), (False, False)]
    ]
    assert METRICS["detection_f1"].value(items) == pytest.approx(2 * (1 / 2) * (2 / 3) / (1 / 2 + 2 / 3))
    assert METRICS["detection_f1"].value(items[:2]) == 0, "0 without right solutions, as in ProcessBench"


def test_levels_count_where_they_apply() -> None:
    level, absent = (lambda value: GradedItem(value, None, None)), None
    items = [
        GradedItem(None, None, None, (level(1.0), level(0.5), absent, absent, absent, absent, absent)),
        GradedItem(None, None, None, (level(0.0), level(0.0), level(1.0), absent, absent, absent, absent)),
    ]
    assert np.isnan(METRICS["kmp_overall"].value([item._replace(parts=(absent, *item.parts[1:])) for item in items]))
    assert METRICS["kmp_overall"].value(items) == pytest.approx((0.5 + (0.25 + 1.0) / 2) / 2)
    principles = [item._replace(parts=item.parts[1:]) for item in items]
    assert METRICS["kmp_principles"].value(principles) == pytest.approx((0.25 + 1.0) / 2)
    for name, sample in (("kmp_overall", items), ("kmp_principles", principles), ("mr_score", parts(30))):
        expected = pytest.approx(METRICS[name].value(sample))
        assert METRICS[name].from_sums(METRICS[name].counts(sample).sum(0)) == expected


# Parsers.


@pytest.mark.parametrize("case", DETECTIONS, ids=lambda case: case["name"])
def test_detections_are_read_as_stated_or_not_at_all(case: dict[str, Any]) -> None:
    parsed = parse_detection(case["text"])
    assert (None if parsed is None else list(parsed)) == case["found"]


def ec_item(step: int = 2) -> Item:
    attempt = kmp.StudentAttempt(["a", "b", "c"], step, "because")
    return kmp.ec_item("i", "ec", kmp.SolvedProblem("What is 1+1?", "It is 2.", "2"), attempt)


def reply(item: Item, *texts: str, model: str = "m", key: str = "k") -> Reply:
    turns = [Turn(messages="s", text=text, finish="stop") for text in texts]
    return Reply(id=item.id, task=item.task, tutor=model, key=key, turns=turns)


def test_what_cannot_be_read_is_missing_or_wrong_by_scoring() -> None:
    answer = reply(ec_item(), "Hm.", "The answer is \\boxed{2}.")
    grades = {
        (f"{grade.kind}/{grade.scoring}", grade.criterion): grade
        for name in ("error_detection", "correction")
        for grade in grades_of(name, ec_item(), answer)
    }
    assert grades["error_detection/robust", "verdict"].value is None
    assert grades["error_detection/paper_compat", "verdict"].correct is False
    assert grades["error_detection/paper_compat", "step"].correct is False
    assert grades["correction/robust", "correction"].correct is True


def test_a_false_alarm_is_wrong_even_without_a_place() -> None:
    answer = reply(ec_item(0), "<correctness>no</correctness><error_step_num>several</error_step_num>", "2")
    of_correct = {
        grade.criterion: grade.correct
        for grade in grades_of("error_detection", ec_item(0), answer)
        if grade.scoring == "robust"
    }
    assert of_correct == {"verdict": False, "step": False}
    of_wrong = {
        grade.criterion: grade.correct
        for grade in grades_of("error_detection", ec_item(2), answer)
        if grade.scoring == "robust"
    }
    assert of_wrong == {"verdict": True, "step": None}


def test_turns_before_a_refusal_count() -> None:
    seed = kmp.SolvedProblem("p", "s", "1")
    item = kmp.fqa_item("i", "fqa", seed, [kmp.SolvedProblem("q", "s", "2"), kmp.SolvedProblem("r", "s", "3")])
    answer = reply(item, "\\boxed{1}", "\\boxed{2}", "").model_copy(update={"error": "400: too long"})
    for scoring in ("robust", "paper_compat"):
        grades = {
            grade.criterion: grade for grade in grades_of("round_answers", item, answer) if grade.scoring == scoring
        }
        assert [grades[f"round_{n}"].correct for n in (1, 2, 3)] == [True, True, None]
        assert grades["round_3"].why_none == "refused: 400: too long"
    card = read_card(FOLDER / "fqa.yaml").card
    scores = {
        score.metric: score
        for score in score_task(
            card, "m", [item], index_grades(grades_of("round_answers", item, answer)), BootstrapSettings(100, 1)
        )
        if score.scoring == "robust"
    }
    last = scores["final_round"]
    assert (last.value, last.n, last.missing, last.unreadable, scores["round_2"].value) == (None, 0, 1, 0, 1)
    assert (scores["final_round_readable"].n, scores["final_round_readable"].missing) == (0, 1)


@pytest.mark.parametrize("scoring", ["robust", "paper_compat"])
def test_turns_that_were_not_asked_after_a_refusal_are_refused_too(scoring: Scoring) -> None:
    """A conversation ends with its refusal: later turns were never requested, so they are refused, not wrong."""
    seed = kmp.SolvedProblem("p", "s", "1")
    item = kmp.fqa_item("i", "fqa", seed, [kmp.SolvedProblem("q", "s", "2"), kmp.SolvedProblem("r", "s", "3")])
    answer = reply(item, "\\boxed{1}").model_copy(update={"error": "400: too long"})
    first, *others = read_reply("round_answers", item, answer, scoring)
    assert first == Reading(1.0, True, "1", None, "round_1")
    assert others == [Reading(None, None, "", "refused: 400: too long", f"round_{n}", refused=True) for n in (2, 3)]


@pytest.mark.parametrize("scoring", ["robust", "paper_compat"])
def test_a_problem_that_was_never_written_is_refused_and_not_wrong(scoring: Scoring) -> None:
    answer = reply(GEN, GOOD).model_copy(update={"error": "400: too long"})
    expected = [Reading(None, None, "", "refused: 400: too long", refused=True)]
    assert read_reply("new_problem", GEN, answer, scoring) == expected


def test_only_a_right_step_has_a_reason_to_judge() -> None:
    good = "<correctness>no</correctness><error_step_num>2</error_step_num>"
    assert names_error_step(ec_item(2), [good]) and not names_error_step(ec_item(3), [good])
    right = ec_item(0)
    assert not names_error_step(right, [right.reference["replies"][0]])
    work = reply_cases(
        read_rubric("kmp_error_reason"),
        {("ec", "i"): ec_item()},
        [reply(ec_item(), good, "2"), reply(ec_item(), "?", "2")],
    )
    assert len(work) == 1 and set(work[0][1].replies) == {"response_1", "response_2"}


def test_rounds_are_compared_one_by_one() -> None:
    seed = kmp.SolvedProblem("p", "s", "1000")
    item = kmp.fqa_item("i", "fqa", seed, [kmp.SolvedProblem("q", "s", "2.5"), kmp.SolvedProblem("r", "s", "-3")])
    texts = ["So \\boxed{1,000}.", "5/2", "no idea"]
    robust = grade_rounds(item, texts, "robust")
    assert [(grade.criterion, grade.correct) for grade in robust] == [
        ("round_1", True),
        ("round_2", True),
        ("round_3", None),
    ]
    assert [grade.correct for grade in grade_rounds(item, texts, "paper_compat")] == [True, True, False]


GOOD = "<problem>A bus has 4 rows of 5 seats. How many seats?</problem>\n<solution>4 * 5 = \\boxed{20}</solution>"
GEN = kmp.gen_item(
    "i",
    "gen_similar",
    kmp.SolvedProblem("Tom has 3 bags of 7 nuts. How many nuts?", "3 * 7 = 21", "21"),
    [kmp.SolvedProblem("x", "y", "1")] * 2,
)


@pytest.mark.parametrize(
    ("texts", "right"),
    [
        ([GOOD, GOOD.replace("4", "12")], False),  # the first problem again, with another number
        ([GOOD, "<problem>Lea reads 12 pages a day for a week. How many pages?</problem><solution>12 * 7 = 84</solution>"], True),
        ([GOOD, "**Problem:** Lea reads 12 pages a day for a week. How many?\n\n**Solution:** 12 * 7 = 84"], True),
        ([GOOD, "Tom has 3 bags of 7 nuts. How many nuts?\nSolution: 21"], False),
        ([GOOD, "Lea reads 12 pages a day for a week. How many pages?"], False),
        ([GOOD, "Sure! Here is a second one that is more difficult:\nTom has 3 bags of 7 nuts. How many nuts?\nSolution: 21"], False),
        ([GOOD, "Solution: 40"], False),
        ([GOOD, "Lea reads 12 pages a day for a week. How many?\n### Solution to the problem:\n12 * 7 = 84"], True),
        ([GOOD, ""], None),
    ],
    ids=["copy of the first", "new", "without tags", "copy of the seed", "no solution", "copy with a preface", "no problem", "heading", "empty"],
)  # fmt: skip
def test_a_new_problem_has_a_solution_and_copies_nothing(texts: list[str], right: bool | None) -> None:
    assert grade_new_problem(GEN, texts, "robust")[0].correct is right


@pytest.mark.parametrize(("text", "value"), [
    ("\\boxed{2\\frac{1}{2}}", 2.5), ("\\boxed{\\tfrac{3}{4}}", 0.75), ("\\boxed{\\frac 3 4}", 0.75), ("\\boxed{\\frac{3.5}{2}}", 1.75),
    ("\\boxed{\\frac{-3}{4}}", -0.75), ("\\boxed{24\\,\\text{cm}^{2}}", 24), ("\\boxed{12^\\circ}", 12), ("\\boxed{5x=20}", 20),
    ("\\boxed{3,000}", 3000), ("\\boxed{12\\%}", 12), ("\\boxed{\\$4.50}", 4.5), ("\\boxed{18} \\boxed{}", 18), ("\\boxed{x=5}", 5),
    ("\\boxed{\\sqrt{16}}", None), ("\\boxed{5 \\times 10^{3}}", 5000), ("\\boxed{3:45}", None), ("\\boxed{2 \\times 3 = 6}", 6),
])  # fmt: skip
def test_boxes_are_read_as_numbers_or_not_at_all(text: str, value: float | None) -> None:
    number = final_number(text)
    assert (number[0] if number else None) == (None if value is None else pytest.approx(value))


# Loaders.

REAL = {
    "fqa_mathchat": ("mathchat/follow_up.jsonl", 1237), "gen_followup_mathchat": ("mathchat/follow_up.jsonl", 1237),
    "gen_similar_mathchat": ("mathchat/P2P_Generation.jsonl", 1319), "ec_stepverify": ("stepverify/dataset.json", 2004),
    "ec_processbench": ("processbench/gsm8k.json", 400),
    "ec_mrgsm8k": ("mr_gsm8k/gpt4-grading/Claude_eval_results.json", 474),
}  # fmt: skip
WRONG = {"ec_stepverify": 1002, "ec_processbench": 207, "ec_mrgsm8k": 237}


def items_of(task: str, path: Path) -> list[Item]:
    card = read_card(FOLDER / f"{task}.yaml").card
    return LOADERS[card.loader].load(read_source(path, path.suffix[1:]), task)


@pytest.mark.parametrize("task", REAL)
def test_real_data_give_items_that_can_be_asked_and_graded(task: str, data: Path) -> None:
    file, count = REAL[task]
    items = items_of(task, data / file)
    card = read_card(FOLDER / f"{task}.yaml").card
    assert len(items) == len({item.id for item in items}) == count == card.items
    if task in WRONG:
        assert Counter(item.tags["solution"] for item in items)["wrong"] == WRONG[task]
        steps = [item.vars["student_solution"].count("\nStep ") + 1 for item in items]
        assert all(0 <= item.reference["step"] <= total for item, total in zip(items, steps, strict=True))
    for item in items:  # every parser accepts the human reference
        answer = baseline_reply("reference", "reference", item, len(card.turns))
        wrong = [
            reading
            for name in card.graders
            if name not in ("judge", "new_problem", "statistics")
            for scoring in SCORINGS
            for reading in read_reply(name, item, answer, scoring)  # without the spans, which take most of the time
            if reading.correct is not True
        ]
        assert not wrong, (item.id, wrong)


def test_mathchats_answers_are_single_numbers() -> None:
    assert stated_number("x. The answer is \\ANSWER{14}.") == "14"
    assert stated_number("The answer is \\(\\textbf{9}\\).") == "9"
    assert stated_number("The answer is \\(\\ANSWER{170 \\text{ miles}}\\).") == "170"
    assert stated_number("The answer is $1,200.") == "1200"
    for text in ("\\ANSWER{12 and 40}", "\\ANSWER{9:15 PM}", "\\ANSWER{Yes}", "no answer"):
        assert stated_number(text) is None
    assert len(rounds_of("A: one?\nB: 1. The answer is \\ANSWER{1}.\n\nA: two?\nB: 2. The answer is \\ANSWER{2}.")) == 2
    assert rounds_of("A:** broken\n\n**B:** no end") == []


def dialogue_record(**more: Any) -> dict[str, Any]:
    turns = [
        {"speaker": "student", "text": "I got 5."},
        {"speaker": "tutor", "text": "How?", "principles": ["questioning"]},
        {"speaker": "student", "text": "2+2+1"},
        {"speaker": "tutor", "text": "See.", "principles": ["explanation", "feedback"]},
    ]
    return {"id": "d", "problem": "2+2", "solution": "4", "persona": "kind", "student_profile": "grade 1",
            "objectives": ["add"], "turns": turns, **more}  # fmt: skip


def test_a_dialogue_is_cut_before_a_tutors_turn() -> None:
    record = dialogue_record()
    record["turns"][3]["evaluate"] = True
    [item] = kmp.kmp_dialogue_items([record], "dialogue")
    assert item.id == "d-3" and item.reference["text"] == "See." and item.vars["question"] == "2+2+1"
    assert [message["role"] for message in item.history] == ["user", "assistant"]
    assert item.vars["history"] == "Student: I got 5.\nTutor: How?\nStudent: 2+2+1"
    for part in ("kind", "grade 1", "- add", "these pedagogical principles: Explanation and Feedback"):
        assert part in item.vars["instruction"]
    assert item.reference["groups"] == ["general", "explanation", "feedback"]
    record["turns"][3]["instruction"] = "Be brief."
    assert kmp.kmp_dialogue_items([record], "dialogue")[0].vars["instruction"] == "Be brief."


def test_without_a_named_turn_the_dialogues_name_decides() -> None:
    records = [dialogue_record(id=f"d{number}") for number in range(40)]
    chosen = Counter(item.id.split("-")[1] for item in kmp.kmp_dialogue_items(records, "dialogue"))
    assert set(chosen) == {"1", "3"} and min(chosen.values()) > 8
    for wrong, message in (
        ({"principles": ["Feedback"]}, "expected at most two different principles out of"),
        ({"speaker": "tutor"}, "expected student and tutor to take turns"),
        ({"principles": ["feedback"] * 2}, "expected at most two different principles out of"),
    ):
        spoilt = dialogue_record()
        spoilt["turns"][2].update(wrong)
        with pytest.raises(ValueError, match=message):
            kmp.kmp_dialogue_items([spoilt], "dialogue")
    for solution in (
        {"steps": "a"},
        {"steps": ["a"], "error_step": 2, "error_reason": "x"},
        {"steps": ["a"], "error_step": 1},
        {"steps": ["a"], "error_reason": "x"},
    ):
        with pytest.raises(ValueError, match="s, solution 1"):
            kmp.kmp_ec_items(
                [{"id": "s", "problem": "p", "solution": "s", "answer": "1", "solutions": [solution]}], "ec"
            )
    with pytest.raises(ValueError, match="'nan' is neither a plain number nor"):
        kmp.problem_of_record({"question": "q", "solution": "s", "answer": "nan"})
    bad = dialogue_record()
    bad["turns"][2]["evaluate"] = True
    with pytest.raises(ValueError, match="d, turn 2"):
        kmp.kmp_dialogue_items([bad], "dialogue")


# Cards and rubrics.


@pytest.mark.parametrize("task", TASKS)
def test_cards_ask_for_what_their_loaders_give(task: str) -> None:
    path = FOLDER / f"{task}.yaml"
    loaded = read_card(path)
    check_variables(path, loaded, LOADERS[loaded.card.loader].variables)
    assert "KMP-Bench" in loaded.card.source and loaded.card.task == task
    if JUDGE in loaded.card.graders:
        alone = loaded.card.without_grader(JUDGE)
        assert alone.headline == "f1" if task.startswith("ec") else alone.missing_grader == JUDGE


def test_there_are_22_criteria_of_which_the_paper_prints_four() -> None:
    criteria = read_rubric("kmp_dialogue").rubric.criteria
    groups = Counter(criterion.group for criterion in criteria.values())
    assert groups == {"general": 4, **dict.fromkeys(kmp.PRINCIPLES, 3), None: 1}
    quoted = [name for name, criterion in criteria.items() if criterion.source.startswith("KMP-Bench, Figure")]
    assert quoted == ["Universal_2", "Universal_3", "Practice_1", "Practice_3"]
    assert all(
        criterion.title and criterion.definition and len(criterion.aspects) >= 3
        for name, criterion in criteria.items()
        if name != "overall"
    )


def words(text: str) -> str:
    return " ".join(re.sub(r"[*\-]\s", " ", text).split())


def test_the_papers_texts_are_quoted_word_for_word(data: Path) -> None:
    path = data.parent / "papers/kmp-bench.txt"
    if not path.exists():
        pytest.skip("no text of the paper: expected the folder `papers` next to the folder in MAIEUTIC_DATA")
    paper = words(path.read_text(encoding="utf-8"))
    rubric = read_rubric("kmp_dialogue").rubric
    for name in ("Universal_2", "Universal_3", "Practice_1", "Practice_3"):
        criterion = rubric.criteria[name]
        assert all(words(text) in paper for text in (criterion.title, criterion.definition, *criterion.aspects)), name
    for aspect in read_rubric("kmp_error_types").rubric.criteria["error_type"].aspects:
        kind, _, meaning = aspect.partition(": ")
        assert re.search(re.escape(kind) + r" \([\d.]+%\): " + re.escape(meaning[:60]), paper)
    for name, allowed in (("kmp_dialogue", 2), ("kmp_similar_problems", 22)):
        template = re.sub(r"{%.*?%}|{{.*?}}", "\n", read_rubric(name).prompt)
        lines = [words(line) for line in template.split("\n") if len(words(line).split()) > 4]
        missing = [line for line in lines if line not in paper]
        assert len(missing) <= allowed and len(lines) - len(missing) >= 25, missing


# Judging.


def dialogue_item(name: str = "d-1", *principles: str) -> Item:
    record = dialogue_record(id=name)
    record["turns"][1].update(evaluate=True, principles=list(principles or ("questioning",)))
    return kmp.kmp_dialogue_items([record], "dialogue")[0]


def judged(
    folder: Path, address: str, rubric: str, item: Item, answer: Reply, structured: bool = True, **more: Any
) -> list[Judgement]:
    model = HostedModel(engine="hosted", model="m", base_url=f"{address}/v1", structured=structured, attempts=1)
    panel = JudgeSettings("j", JudgeModel(engine="judge", model="m", rubrics=[rubric], **more), model, 1)
    loaded = read_rubric(rubric)
    files = JobFiles(None, folder / "j.jsonl", folder / "s.log")
    run_judge(panel, [(loaded, case_of_reply(loaded, item, answer))], files, folder / "o.jsonl")
    return read_records(folder / "o.jsonl", Judgement)


def by_place(prompt: str) -> str:
    """Return verdicts that depend only on which response comes first."""
    if "error types" in prompt:
        return json.dumps({"error_type": "Factual Error"})
    first = prompt.index("Tutor Response (to be evaluated):") < prompt.index("Reference Response (for comparison):")
    names = [name for name in read_rubric("kmp_dialogue").rubric.criteria if f"{name}: " in prompt or name == "overall"]
    verdict = "Win" if first else "Lose"
    return json.dumps({name: {"reason": "x", "verdict": verdict} for name in names})


def test_a_judge_that_sees_only_positions_ties_over_both_orders(tmp_path: Path) -> None:
    item = dialogue_item()
    handler = answering(by_place)
    with serving(handler) as address:
        fixed_order = judged(tmp_path / "one", address, "kmp_dialogue", item, reply(item, "Well."))
        both_orders = judged(tmp_path / "both", address, "kmp_dialogue_both", item, reply(item, "Well."))
    [fixed] = fixed_order
    assert {verdict.value for verdict in fixed.verdicts} == {"win"} and fixed.order == "ab"
    assert [verdict.criterion for verdict in fixed.verdicts] == [
        *(f"Universal_{n}" for n in range(1, 5)), *(f"Questioning_{n}" for n in range(1, 4)), "overall",
    ]  # fmt: skip
    both_grades = {
        grade.criterion: grade for grade in grades_by_judge("j", both_orders, "m") if grade.scoring == "robust"
    }
    assert both_grades["overall"].value == "tie" and both_grades["overall"].correct is False
    assert both_grades["general"].value == 0 and both_grades["questioning"].value == 0
    assert both_grades[SAME_IN_BOTH].value == 0
    fixed_grades = {
        grade.criterion: grade for grade in grades_by_judge("j", fixed_order, "m") if grade.scoring == "robust"
    }
    assert fixed_grades["general"].value == 1 and fixed_grades["questioning"].value == 1
    assert fixed_grades[DESIRED_SHARE].value == 1
    assert "challenge" not in fixed_grades, "a principle that is not targeted is not judged"


def test_a_lost_reply_is_asked_about_again_in_the_same_job(tmp_path: Path) -> None:
    item = dialogue_item()

    def answer(prompt: str) -> str:
        return by_place(prompt).replace("Win", "Lose")

    handler = answering(answer)
    with serving(handler) as address:
        judgements = judged(tmp_path, address, "kmp_dialogue", item, reply(item, "Well."))
    assert [judgement.rubric for judgement in judgements] == ["kmp_dialogue", "kmp_error_types"]
    assert judgements[1].verdicts[0].value == "Factual Error" and judgements[1].tutor == "m"
    grades = grades_by_judge("j", judgements, "m")
    assert any(
        grade.criterion == "error_type" and grade.value == "Factual Error" and grade.correct is None for grade in grades
    )
    assert sum(grade.criterion == DESIRED_SHARE for grade in grades) == 2, (
        "an error type is not counted as a desired verdict"
    )


INJECTIONS = yaml.safe_load(Path("tests/tables/injections.yaml").read_text(encoding="utf-8"))


@pytest.mark.parametrize("rubric", [name for name in rubric_names() if name.startswith("kmp_")])
def test_no_reply_gives_an_order_outside_its_fence(rubric: str) -> None:
    loaded = read_rubric(rubric)
    item = {"dialogue": dialogue_item(), "error_types": dialogue_item(), "error_reason": ec_item()}.get(
        rubric.removeprefix("kmp_").removesuffix("_both").removesuffix("_short"), GEN
    )

    def prompts(text: str) -> list[str]:
        case = case_of_reply(loaded, item, reply(item, *[text] * len(item.reference.get("replies", [text]))))
        case = (
            case
            if rubric != "kmp_error_types"
            else case._replace(replies={"tutor_response": text, "reference_response": "x"})
        )
        questions = questions_about(loaded.rubric, case)
        return [
            "\n\n".join(message["content"] for message in question_messages(loaded, case, question))
            for question in questions
        ]

    known = "\n".join(prompts("Look again."))
    for text in INJECTIONS:
        for prompt in prompts(text):
            assert obeyed(prompt, known) is None and "<<<DATA-" in prompt


def test_a_judge_may_go_without_reasons(tmp_path: Path) -> None:
    item = dialogue_item()
    handler = answering(lambda prompt: "{}")
    with serving(handler) as address:
        judged(tmp_path / "a", address, "kmp_dialogue_short", item, reply(item, "Well."), reasons=False)
        judged(tmp_path / "b", address, "kmp_dialogue_short", item, reply(item, "Well."))
    forms = [
        body["response_format"]["json_schema"]["schema"]["properties"]["overall"] for _, _, body in handler.requests
    ]
    assert forms[0] == {"type": "string", "enum": ["Win", "Tie", "Lose"]}
    assert forms[1]["required"] == [
        "reason",
        "verdict",
    ]


def test_a_checklist_fails_by_default_and_its_rounds_are_separate(tmp_path: Path) -> None:
    halves = [
        {
            "first_problem_construction": "pass", "first_similarity": "pass", "first_solution_correctness": "pass",
            "first_solution_quality": "pass",
        }
    ]  # fmt: skip
    halves.append({name.replace("first", "second"): "fail" for name in halves[0]})
    criteria = read_rubric("kmp_similar_problems").rubric.criteria
    verdicts = parse_verdicts(
        read_rubric("kmp_similar_problems").rubric, criteria, " and ".join(map(json.dumps, halves)), "stop"
    )
    assert [verdict.value for verdict in verdicts] == [True] * 4 + [False] * 4, (
        "two objects for two problems are one answer"
    )
    verdicts = parse_verdicts(
        read_rubric("kmp_similar_problems").rubric, criteria, json.dumps(halves[0]) + '{"second_', "length"
    )
    assert [verdict.value for verdict in verdicts] == [True] * 4 + [None] * 4, "truncated criteria have not failed"
    passed = {"second_problem_construction": "pass", "second_similarity": {"reason": "x", "verdict": "PASS"}}
    handler = answering(lambda prompt: json.dumps(passed))
    with serving(handler) as address:
        judgements = judged(tmp_path, address, "kmp_similar_problems", GEN, reply(GEN, GOOD, GOOD))
    prompt = prompt_of(handler.requests[0][2])
    assert prompt.index("First Similar Problem and Solution") < prompt.index("Second Similar Problem and Solution")
    values = {
        grade.criterion: grade.value for grade in grades_by_judge("j", judgements, "m") if grade.scoring == "robust"
    }
    assert (values["first"], values["second"], values["first_similarity"]) == (0, 0.5, False)


def test_scores_join_parsers_and_judge() -> None:
    card = read_card(FOLDER / "ec.yaml").card
    items = [
        kmp.ec_item(
            f"i{n}", "ec", kmp.SolvedProblem(f"What is {n}?", "It is 2.", "2"),
            kmp.StudentAttempt(["a", "b"], n % 3, "x"),
        )
        for n in range(6)
    ]  # fmt: skip
    replies = [baseline_reply("reference", "reference", item, 2) for item in items]
    parsed = [
        grade
        for name in ("error_detection", "correction")
        for item, answer in zip(items, replies, strict=True)
        for grade in grades_of(name, item, answer)
    ]
    reasons = [
        Judgement(id=item.id, task="ec", tutor="m", rubric="kmp_error_reason", key="k", raw="", verdicts=[
            Verdict(criterion="error_reason", value="correct" if item.reference["step"] == 1 else "incorrect")])
        for item in items if item.reference["incorrect"]
    ]  # fmt: skip
    index = index_grades([*parsed, *grades_by_judge("j", reasons, "m")])
    scores = {
        score.metric: score
        for score in score_task(card, "m", items, index, BootstrapSettings(100, 1))
        if score.scoring == "robust"
    }
    assert scores["mr_score"].value == pytest.approx(0.2 + 0.3 + 0.5 / 2) and scores["mr_score"].headline
    assert (scores["task1_mcc"].value, scores["task2_step"].value, scores["task3_reason"].value) == (1, 1, 0.5)
    assert scores["mr_score"].by == "j" and scores["f1"].by is None and scores["f1"].value == 1
    broken = [
        judgement.model_copy(update={"verdicts": [Verdict(criterion="error_reason", value=None, why_none="cut")]})
        for judgement in reasons[:1]
    ]
    index_again = index_grades([*parsed, *grades_by_judge("j", [*broken, *reasons[1:]], "m")])
    again = score_task(card, "m", items, index_again, BootstrapSettings(100, 1))
    score = next(score for score in again if score.metric == "mr_score" and score.scoring == "robust")
    assert (score.n, score.missing) == (5, 1), "an unreadable reason is missing, never wrong"
    assert score.value == pytest.approx(0.2 + 0.3 + 0.5 * 1 / 3), "computed from the readable reasons"
    silent = [judgement.model_copy(update={"verdicts": broken[0].verdicts}) for judgement in reasons]
    again = score_task(
        card, "m", items, index_grades([*parsed, *grades_by_judge("j", silent, "m")]), BootstrapSettings(100, 1)
    )
    assert next(score for score in again if score.metric == "mr_score" and score.scoring == "robust").value is None
    elsewhere = [
        grade.model_copy(update={"task": "dialogue"}) for grade in grades_by_judge("of dialogues", reasons, "m")
    ]
    index = index_grades([*elsewhere, *parsed, *grades_by_judge("j", reasons, "m")])
    heads = [
        score
        for score in score_task(card, "m", items, index, BootstrapSettings(100, 1), ["j"])
        if score.metric == "mr_score"
    ]
    assert {(score.by, score.headline) for score in heads} == {("j", True)}, "a judge of another task has no score here"


# Conversations.


def test_a_conversation_has_system_history_and_the_tutors_own_answers(tmp_path: Path) -> None:
    item = dialogue_item()
    dialogue = read_card(FOLDER / "dialogue.yaml")
    fqa = read_card(FOLDER / "fqa.yaml")
    follow_ups = kmp.fqa_item(
        "q",
        "fqa",
        kmp.SolvedProblem("one?", "s", "1"),
        [kmp.SolvedProblem("two?", "s", "2"), kmp.SolvedProblem("three?", "s", "3")],
    )
    with serving(handler := scripted(lambda n, body: (200, chat({"content": f"answer {n}"}), {}))) as address:
        for role in ("system", "user"):
            model = HostedModel(
                engine="hosted", model="m", base_url=f"{address}/v1", prompt_role=role, concurrency=1, attempts=1
            )
            work = [(dialogue, item), (fqa, follow_ups)]
            files = JobFiles(None, tmp_path / f"{role}.jsonl", tmp_path / "log")
            ask_tutor(
                "m", model, work, RequestLimits(None, 1), files, tmp_path / f"{role}-out.jsonl", tmp_path / "p.jsonl"
            )
    sent = [body["messages"] for _, _, body in handler.requests]
    with_system, folded = [messages for messages in sent if "kind" in messages[0]["content"]]
    assert [message["role"] for message in with_system] == ["system", "user"]
    assert with_system[1]["content"] == "I got 5."
    assert [message["role"] for message in folded] == ["user"] and folded[0]["content"].endswith("\n\nI got 5.")
    longest = max(sent, key=len)
    assert [message["role"] for message in longest] == ["user", "assistant"] * 2 + ["user"]
    assert longest[1]["content"].startswith("answer") and longest[4]["content"].strip() == "three?"
    replies = {record.task: record for record in read_records(tmp_path / "user-out.jsonl", Reply)}
    assert [len(replies[task].turns) for task in ("dialogue", "fqa")] == [1, 3]


# People.

HEAD = "task,item,tutor,criterion,label,annotator,resolves\n"


COMPARED = {"dialogue": annotation_scales(read_rubric("kmp_dialogue").rubric)}


def people(tmp_path: Path, *lines: str) -> Path:
    path = tmp_path / "people.csv"
    path.write_text(HEAD + "\n".join(lines) + "\n", encoding="utf-8")
    return path


def judgement(item: str, tutor: str, **verdicts: str) -> Judgement:
    records = [Verdict(criterion=name, value=value) for name, value in verdicts.items()]
    return Judgement(
        id=item, task="dialogue", tutor=tutor, rubric="kmp_dialogue", order="ab", key="k", verdicts=records, raw=""
    )


def test_alignment_and_levels_are_those_of_their_definitions(tmp_path: Path) -> None:
    judgements = [
        judgement(
            "i", "m", Universal_1="win", Universal_2="win", Universal_3="lose", Universal_4="tie", Practice_1="win",
            overall="win",
        ),
        judgement("j", "m", Universal_1="lose", Feedback_1="win", overall="lose"),
    ]  # fmt: skip
    write_records(tmp_path / "judged.jsonl", judgements)
    cells = {"i": {"Universal_1": "win", "Universal_2": "tie", "Universal_3": "lose", "Universal_4": "win", "Practice_1": "lose", "overall": "win"},
             "j": {"Universal_1": "win", "Feedback_1": "win"}}  # fmt: skip
    lines = [f"dialogue,{item},m,{name},{label},a," for item, labels in cells.items() for name, label in labels.items()]
    job = AlignJudge(judge="judge", resamples=100, seed=1, scales=COMPARED)
    judged = [tmp_path / "judged.jsonl"]
    align_judge(job=job, verdicts=judged, people=people(tmp_path, *lines), out=tmp_path / "out.json")
    scores = json.loads((tmp_path / "out.json").read_text(encoding="utf-8"))
    rates = {"alignment_rate", "overall_alignment", "weighted_kappa"}
    by_name = {
        score["metric"] if score["metric"] in rates else f"{score['metric']}/{score['by']}": score for score in scores
    }
    assert (by_name["alignment_rate"]["value"], by_name["alignment_rate"]["n"]) == (pytest.approx(3 / 7), 7)
    overall = by_name["overall_alignment"]
    assert (overall["value"], overall["n"]) == (1, 1), "the overall judgement is not one of the 22 criteria"
    assert by_name["general_level/judge"]["value"] == pytest.approx((2 / 4 + 0) / 2)
    assert by_name["general_level/people"]["value"] == pytest.approx((2 / 4 + 1) / 2)
    assert by_name["principle_level/judge"]["value"] == pytest.approx(1)
    assert by_name["principle_level/people"]["value"] == pytest.approx(0.5)
    assert by_name["overall/people"]["value"] == pytest.approx((0.75 + 0.5) / 2)
    assert by_name["overall_judgement/judge"]["n"] == 1
    assert {score["by"] for score in by_name.values()} == {
        "judge",
        "people",
    }
    with pytest.raises(UserError, match="found a label of x's reply to dialogue/i"):
        wrong = people(tmp_path, "dialogue,i,x,overall,win,a,")
        align_judge(job=job, verdicts=judged, people=wrong, out=tmp_path / "o")


def test_only_comparisons_of_a_tutors_reply_are_aligned() -> None:
    """Verdicts on pairs, which have no tutor, and verdicts by other rubrics are left out."""
    compared = judgement("i", "m", Universal_1="win")
    pair = compared.model_copy(update={"id": "p", "tutor": None})
    labelled = compared.model_copy(update={"id": "l", "rubric": "mrbench_taxonomy"})
    verdicts = judged_verdicts("judge", [pair, labelled, compared])
    assert verdicts == {("dialogue", "i", "m"): {"Universal_1": "win"}}


def test_several_tutors_have_a_row_together() -> None:
    verdicts = {("dialogue", "i", name): {"Universal_1": "win"} for name in ("m", "n")}
    values = {
        (score.tutor, score.metric): score.value
        for score in alignment_scores(
            "j", verdicts, {**verdicts, ("dialogue", "i", "n"): {"Universal_1": "lose"}}, BootstrapSettings(100, 1)
        )
    }
    assert [values[tutor, "alignment_rate"] for tutor in ("m", "n", ALL_TUTORS)] == [1, 0, 0.5]
