"""Curation of 200 problems of GSM8K by scripted roles with occasional faults: the counts of each stage add up."""

from __future__ import annotations

import json
import re
from pathlib import Path

from curator import SEED, Curator, curation, entries, seeded
from httpserver import serving
from maieutic.datasets.sources import read_source
from running import overlay, run

COUNT = 200
STAGES = ("validate_seed", "follow_up", "similar", "clarify", "flow", "verify_flow", "expand")


def test_counts_of_every_stage_add_up_on_real_problems(checkout: Path, data: Path) -> None:
    problems = []
    for number, record in enumerate(read_source(data / "gsm8k/test.jsonl", "jsonl")[:COUNT]):
        answer = record["answer"].rsplit("#### ", 1)[1].replace(",", "")
        problems.append((f"{record['question']} [g-{number} {answer}]", answer))
    faults = {
        f"g-{number}": (STAGES[number // 10 % len(STAGES)], lambda answer, attempt: "Pardon?")
        for number in range(0, COUNT, 10)
    }
    failed = {stage: sum(failing_stage == stage for failing_stage, _ in faults.values()) for stage in STAGES}
    script = Curator(faults)
    with serving(script.handler()) as address:
        config = overlay(
            checkout,
            {
                "models": entries(address),
                "datasets": seeded(checkout, problems),
                "curations": curation(evaluation_share=0.25),
                "run": {"tutors": ["echo"], "tasks": ["mathtutorbench/problem_solving"], "seed": SEED},
            },
        )
        process = run(checkout, config, "curate")
    assert process.returncode == 0, process.stdout
    folder = checkout / "results/curation/c"
    figures = json.loads((folder / "figures.json").read_text())
    assert figures["seeds"] == COUNT
    for row in figures["stages"]:
        assert row["came_in"] == row["accepted"] + sum(row["rejected"].values()), row
    [rejected] = [sum(row["rejected"].values()) for row in figures["stages"] if row["stage"] == "validate_seed"]
    assert rejected == failed["validate_seed"]
    lost = failed["follow_up"] + failed["similar"] + failed["clarify"]
    assert figures["components"] == COUNT - failed["validate_seed"] - lost
    assert figures["flows"] == figures["components"] - failed["flow"] - failed["verify_flow"]
    assert figures["dialogues"] == figures["flows"] - failed["expand"]
    sheet = json.loads((folder / "sets/evaluation.json").read_text())
    assert re.fullmatch("[0-9a-f]{64}", sheet["skills"]["sha256"])
    training = json.loads((folder / "sets/training.json").read_text())
    left = len(training["leakage"]["left_out"]) + training["training"]["records"]
    assert left + sheet["dialogues"]["records"] == figures["dialogues"]
