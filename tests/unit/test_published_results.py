"""Tests on replies and verdicts that others published with scores: the scores computed here must be equal."""

from __future__ import annotations

import csv
import json
import sys
from collections import Counter
from pathlib import Path
from statistics import fmean

import pytest
import yaml
from maieutic.benchmarks.mrbench.predictions import score_predictions
from maieutic.config.cards import CARDS, read_card
from maieutic.config.rubrics import read_rubric
from maieutic.core.records import Grade, Reply, read_records, write_records
from maieutic.core.stats import BootstrapSettings
from maieutic.datasets.labelled_sets import LABEL_LOADERS
from maieutic.graders.weighted_rubric import WeightedCriterion, arr_w, clip_score
from maieutic.judges.answers import parse_verdicts
from maieutic.preparation.labels import write_labels
from maieutic.replies.parsing import ParseReplies, parse_replies
from maieutic.replies.recorded import ReadReplies, read_replies
from maieutic.scores.score import index_grades, score_task
from task_items import items_of_card

MATCH = {  # results-Qwen3-4B-Instruct-2507.yaml, `match`
    "pedagogy_following": 0.9817391304347826,
    "pedagogy_following_hard": 0.8715596330275229,
    "scaffolding_generation": 0.40608695652173915,
    "scaffolding_generation_hard": 0.3486238532110092,
}


@pytest.fixture
def published(data: Path) -> Path:
    return data / "published_replies"


@pytest.mark.parametrize("task", MATCH)
def test_the_released_match_of_a_published_tutor_is_reproduced(
    task: str, data: Path, published: Path, tmp_path: Path
) -> None:
    """MathTutorBench: the published replies are read as a recorded tutor, graded and scored as in a run."""
    folder = published / "mathtutorbench"
    printed = yaml.safe_load((folder / "results-Qwen3-4B-Instruct-2507.yaml").read_text(encoding="utf-8"))
    assert printed[task]["match"] == MATCH[task]
    card = read_card(CARDS / "mathtutorbench" / f"{task}.yaml").card
    items = items_of_card(card, data, "published")
    write_records(tmp_path / "items/mathtutorbench" / f"{task}.jsonl", items)
    replies, grades = tmp_path / "replies.jsonl", tmp_path / "grades.jsonl"
    folder_of_items = tmp_path / "items/mathtutorbench"
    reading = ReadReplies(
        tutor="qwen", benchmark="mathtutorbench", tasks=[task], protocol="released", form="mathtutorbench"
    )
    read_replies(
        job=reading, file=[folder / f"generations-Qwen3-4B-Instruct-2507-{task}.json"], sources=[],
        items=[folder_of_items / f"{task}.jsonl"], out=replies, prompts=tmp_path / "prompts",
    )  # fmt: skip
    assert not any(reply.error for reply in read_records(replies, Reply))
    parse_replies(
        job=ParseReplies(tutor="qwen", benchmark="mathtutorbench", tasks=[task]),
        items=folder_of_items,
        replies=replies,
        out=grades,
    )
    scores = score_task(card, "qwen", items, index_grades(read_records(grades, Grade)), BootstrapSettings(100, 1))
    [match] = [score for score in scores if score.metric == "match" and score.scoring == "paper_compat"]
    assert match.value == pytest.approx(MATCH[task], abs=1e-12) and match.n == len(items)


def test_every_line_of_a_published_tutorbench_run_has_its_score(published: Path) -> None:
    """TutorBench, equation 1: 150 replies with their ratings; the published mean of the run is .596454."""
    text = (published / "tutorbench/validation150-baseline.jsonl").read_text(encoding="utf-8")
    scores = []
    for record in map(json.loads, text.splitlines()):
        ratings = {str(rating["criterion_index"]): rating for rating in record["ratings"]}
        weights = {name: WeightedCriterion(rating["inferred_weight"], False) for name, rating in ratings.items()}
        passed = {name: rating["passed"] for name, rating in ratings.items()}
        value = arr_w(weights, passed, "satisfied")
        assert value is not None
        assert value == pytest.approx(record["score"]["arrw_raw"], abs=1e-12), record["task"]["task_id"]
        assert clip_score(value) == pytest.approx(record["score"]["arrw"], abs=1e-12), record["task"]["task_id"]
        scores.append(clip_score(value))
    assert len(scores) == 150 and fmean(scores) == pytest.approx(0.596454, abs=5e-7)


def test_a_published_bea_2025_submission_has_its_scores(published: Path, tmp_path: Path) -> None:
    """BEA 2025, track 1: accuracy .8286 and macro F1 .5213, lenient .8952 and .7757, on 496 predictions."""
    csv.field_size_limit(sys.maxsize)
    with (published / "bea2025/gpt-4o-mini-zero-shot.csv").open(encoding="utf-8", newline="") as handle:
        rows = list(csv.DictReader(handle))
    labels = {label.lower(): label for label in ("Yes", "To some extent", "No")}
    records = [
        {
            "conversation_id": str(number),
            "conversation_history": row["Input"],
            "tutor_responses": {
                "GPT4": {"response": "-", "annotation": {"Mistake_Identification": row["Ground Truth"]}}
            },
        }
        for number, row in enumerate(rows)
    ]
    write_labels("mrbench_v3", LABEL_LOADERS["mrbench"], [records], tmp_path / "labels")
    predictions = [
        {
            "conversation_id": str(number),
            "tutor": "GPT4",
            "pred": {"Mistake_Identification": labels[row["Extracted Prediction"].lower()]},
        }
        for number, row in enumerate(rows)
    ]
    (tmp_path / "predictions.jsonl").write_text("\n".join(map(json.dumps, predictions)), encoding="utf-8")
    score_predictions(tmp_path / "labels", tmp_path / "predictions.jsonl", tmp_path / "out.json", 100, 1, "refuse")
    scores = json.loads((tmp_path / "out.json").read_text(encoding="utf-8"))["Mistake_Identification"]
    assert {name: round(scores[name]["value"], 4) for name in scores if name != "missing"} == {
        "accuracy": 0.8286, "macro_f1": 0.5213, "lenient_accuracy": 0.8952, "lenient_macro_f1": 0.7757,
    }  # fmt: skip
    assert scores["accuracy"]["n"] == 496


DIMENSIONS = {
    "mistake_identification": "Mistake_Identification", "mistake_location": "Mistake_Location",
    "revealing_answer": "Revealing_of_the_Answer", "providing_guidance": "Providing_Guidance", "coherent": "Coherence",
    "actionability": "Actionability", "tutor_tone": "Tutor_Tone",
}  # fmt: skip


def test_a_published_critic_is_read_as_its_authors_read_it(published: Path) -> None:
    """MRBench, Figure 6: 192 replies in seven dimensions; a text without [RESULT] from 1 to 3 is counted as missing."""
    rubric = read_rubric("mrbench_critic").rubric
    records = json.loads((published / "mrbench/mistral-7b-v0.1.llama_eval.json").read_text(encoding="utf-8"))
    unread: Counter[str] = Counter()
    differing = []
    for record in records:
        for published_name, name in DIMENSIONS.items():
            answer, criterion = record[f"eval_{published_name}_result"], rubric.criteria[name]
            [verdict] = parse_verdicts(rubric, {name: criterion}, answer["result"], "stop")
            if verdict.value is None:
                unread[str(verdict.why_none)] += 1
            elif verdict.value != criterion.labels[int(answer["number"]) - 1]:
                differing.append((record["conversation_id"], published_name, answer["result"][-40:], verdict.value))
    assert differing == []
    answers = [record[f"eval_{published_name}_result"]["result"] for record in records for published_name in DIMENSIONS]
    assert unread == {"no [RESULT]": sum("[RESULT]" not in answer for answer in answers)} == {"no [RESULT]": 69}
    assert len(answers) == 1344
