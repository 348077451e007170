"""Tests of the expected lengths of answers, and of the bill made of them, against replies that models wrote."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from statistics import mean

import pytest
from maieutic.config.models import HostedModel
from maieutic.config.settings import read_config
from maieutic.curation import stage as curation_stage
from maieutic.launch.bill import Bill, bill_of
from maieutic.launch.config_files import merged_configuration
from maieutic.launch.lengths import (
    LENGTHS_FILE,
    AmountRange,
    answer_span,
    by_model,
    known_replies,
    span_text,
    spread_of_models,
    thinking_budget,
    verdict_span,
)
from maieutic.launch.requests import NewRequests, measured_sizes
from maieutic.plan.plan import Plan
from maieutic.run_plan import extended_plan_class, plan_before_pins
from maieutic.serving.budget import CHARS_A_TOKEN
from shipped import shipped

TRACE = "published_replies/tutorbench/validation150-baseline.jsonl"
TOLERANCE = 0.25


def held_out(data: Path) -> list[dict]:
    """Return the 75 rows of the trace from which no length was measured."""
    return [json.loads(line) for line in (data / TRACE).read_text(encoding="utf-8").splitlines()[1::2]]


def test_lengths_of_replies_hold_for_rows_that_they_were_not_fitted_to(data: Path) -> None:
    rows = held_out(data)
    assert len(rows) == 75
    batches = {row["task"]["batch"] for row in rows}
    with LENGTHS_FILE.open(encoding="utf-8", newline="") as handle:
        lengths = list(csv.DictReader(handle))
    written, expected = {}, {}
    for batch in batches:
        task = batch.rpartition("_")[2].lower()
        part = [row for row in rows if row["task"]["batch"] == batch]
        written[batch] = sum(row["candidate"]["usage"]["output_tokens"] for row in part)
        [length] = [row["tokens"] for row in lengths if (row["task"], row["part"]) == (task, batch)]
        expected[batch] = len(part) * float(length)
        assert expected[batch] == pytest.approx(written[batch], rel=TOLERANCE), batch
    assert sum(expected.values()) == pytest.approx(sum(written.values()), rel=TOLERANCE)


@pytest.mark.parametrize("who", ["candidate", "judge"])
def test_prompts_and_verdicts_hold_for_rows_that_they_were_not_fitted_to(data: Path, who: str) -> None:
    rows = held_out(data)
    for task in ("text", "multimodal"):
        part = [row for row in rows if row["task"]["modality"] == task]
        size = measured_sizes()["tutorbench", task, "" if who == "candidate" else "tutorbench"]
        assert size.prompt_chars / CHARS_A_TOKEN == pytest.approx(mean(row[who]["usage"]["input_tokens"] for row in part), rel=TOLERANCE)  # fmt: skip
        if who == "judge":
            written = mean(row[who]["usage"]["output_tokens"] for row in part)
            assert verdict_span(size.criteria, reasons=False) == pytest.approx(
                AmountRange(written, written), rel=TOLERANCE
            )


def test_an_answer_is_between_the_shortest_and_the_longest_known_model() -> None:
    tutors = by_model(known_replies()["mrbench", "mistake_remediation"])
    assert len(tutors) == 7 and answer_span("mrbench", "mistake_remediation", 0) == (tutors["Mistral"], tutors["Phi3"])
    [qwen] = by_model(known_replies()["mathtutorbench", "pedagogy_following"]).values()
    spread = spread_of_models()
    assert spread.low < 1 < spread.high < 3 * spread.low
    assert answer_span("mathtutorbench", "pedagogy_following", 0) == spread.times(qwen)
    low, high = answer_span("mathtutorbench", "problem_solving", 400)
    assert 100 < low < high < 400, "no model's replies are known: as long as elsewhere, relative to the reference"


@pytest.mark.parametrize(("fields", "budget"), [
    ({}, 0), ({"thinking": False}, 0), ({"thinking": 512, "omit": ["temperature"]}, 512), ({"thinking": "high"}, 2048),
    ({"thinking_tokens": 300}, 300), ({"omit": ["max_tokens"]}, 2048), ({"thinking": False, "omit": ["max_tokens"]}, 0),
])  # fmt: skip
def test_thinking_is_bounded_by_the_budget(fields: dict, budget: int) -> None:
    entry = HostedModel(engine="hosted", model="m", base_url="https://api.anthropic.com/v1", endpoint="chat", **fields)
    assert thinking_budget(entry) == budget


@pytest.mark.parametrize(("bill", "text"), [
    (Bill(None, 0, []), ""), (Bill(AmountRange(0.001, 0.002), 0, []), "under 0.01 USD"),
    (Bill(AmountRange(1, 1), 0, []), "about 1.00 USD"), (Bill(AmountRange(1, 2.5), 0, ["m"]), "between 1.00 and 2.50 USD; no price for m"),
    (Bill(AmountRange(1, 2), 30, []), "between 1.00 and 2.00 USD; at most 30.00 USD more for thinking"),
])  # fmt: skip
def test_a_bill_is_one_line(bill: Bill, text: str) -> None:
    assert bill.text == text


def test_tutorbenchs_bill_is_narrow_and_names_thinking_apart() -> None:
    plan, _ = plan_before_pins(shipped("tutorbench"))
    assert isinstance(plan, Plan)
    size = measured_sizes()["tutorbench", "multimodal", ""]
    answers = answer_span("tutorbench", "multimodal", size.answer_chars).times(1473)
    parts = [
        NewRequests("tutors", name, name, 1473, 1473 * size.prompt_chars / CHARS_A_TOKEN, answers)
        for name in plan.run.tutors
    ]
    bill = bill_of(plan, parts)
    assert bill.usd is not None and bill.usd.high < 3 * bill.usd.low and bill.thinking > 100 and not bill.unpriced
    assert span_text(AmountRange(2, 2)) == "2.00"


@pytest.mark.parametrize("is_curated", [False, True])
def test_requests_of_a_curation_are_unknown_if_its_seeds_are(is_curated: bool) -> None:
    """Seeds that another curation makes have no known number."""
    raw = merged_configuration([Path("config/curation.yaml")])
    if is_curated:
        raw["datasets"]["gsm8k"]["demo"] = {"path": "gsm8k.jsonl", "curated": "demo-curation/skills"}
    plan = extended_plan_class()(read_config(raw))
    parts = list(curation_stage.planned_answers(plan))
    assert {part.stage for part in parts} == {"curations"}
    assert all((part.requests is None) == is_curated for part in parts)
