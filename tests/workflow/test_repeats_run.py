"""Tests of several answers to each item: requests, seeds, flip rates, and what a finished run asks again."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
from httpserver import chat, scripted, serving
from maieutic.config.settings import Run
from maieutic.datasets.mrbench import LABELS
from running import maieutic, overlay, run

SEED = Run.model_fields["seed"].default
LIMIT = 4


def answer(_: int, body: dict[str, Any]) -> tuple[int, Any, dict[str, str]]:
    """Answer as a tutor with the number of the seed, or as a judge whose labels differ with every second seed."""
    repeat = body.get("seed", SEED) - SEED
    prompt = json.dumps(body["messages"])
    if "Revealing_of_the_Answer" in prompt:
        place = repeat % 2
        text = json.dumps({name: labels[place] for name, labels in LABELS.items()})
    else:
        text = f"Final answer: {repeat}"
    return 200, chat({"content": text}), {}


def test_each_answer_has_its_seed_and_earlier_answers_are_not_asked_again(checkouts: Callable[[], Path]) -> None:
    folder, handler = checkouts(), scripted(answer)
    with serving(handler) as address:
        far = {"engine": "hosted", "base_url": f"{address}/v1", "model": "far", "endpoint": "chat"}
        judge = {"engine": "judge", "model": "near", "rubrics": ["mrbench_taxonomy"]}

        def configured(tutor: int, verdicts: int) -> Path:
            models = {
                "far": {**far, "repeats": tutor}, "near": {**far, "model": "near"}, "j": {**judge, "repeats": verdicts},
            }  # fmt: skip
            chosen = {
                "tutors": ["far"], "tasks": ["mathtutorbench/problem_solving", "mrbench"], "limit": LIMIT,
                "judges": ["j"], "labels": [],
            }  # fmt: skip
            return overlay(folder, {"models": models, "run": chosen})

        def asked() -> Counter[tuple[str, int]]:
            """Count the requests by model and number of the answer."""
            return Counter((body["model"], body.get("seed", SEED) - SEED) for _, _, body in handler.requests)

        done = run(folder, configured(1, 1))
        assert done.returncode == 0, done.stdout
        first = asked()
        assert set(first) == {("far", 0), ("near", 0)} and first["far", 0] == 2 * LIMIT
        done = run(folder, configured(3, 1))
        assert done.returncode == 0, done.stdout
        again = asked() - first
        assert again == Counter({("far", 1): 2 * LIMIT, ("far", 2): 2 * LIMIT, ("near", 0): 2 * LIMIT}), (
            "only the new answers, and verdicts about them"
        )
        table = pd.read_csv(folder / "results/report/scores.csv")
        robust = table[(table.tutor == "far") & (table.scoring == "robust")].set_index(["task", "metric"])
        # Every answer names another number, and at most one of them is right.
        right = robust.loc[("problem_solving", "accuracy")]
        flips = robust.loc[("problem_solving", "flip_rate")]
        assert (right.n, right.clusters, flips.n) == (3 * LIMIT, LIMIT, LIMIT)
        assert abs(flips.value - 3 * right.value) < 1e-5
        assert robust.loc[("mistake_remediation", "flip_rate"), "value"] == 0, "equal verdicts"
        before = asked()
        done = run(folder, configured(1, 2))
        assert done.returncode == 0, done.stdout
        again = asked() - before
        assert set(again) == {("near", 1)}, "no tutor is asked, and no first verdict"
        table = pd.read_csv(folder / "results/report/scores.csv")
        mine = table[(table.task == "mistake_remediation") & (table.scoring == "robust")].set_index(["tutor", "metric"])
        assert mine.loc[("far", "flip_rate"), "value"] == 1, "the judge's labels differ with its seed"
        page = (folder / "results/report/index.html").read_text(encoding="utf-8")
        assert "Several answers to each item" in page and "up to 2 answers to each item" in page
        items = [json.loads(line) for line in (folder / "results/items/mrbench/mistake_remediation.jsonl").open()]
        assert [item["id"].partition("~")[2] for item in items] == ["", "2"] * LIMIT


def test_every_request_is_counted_and_paid_once(checkouts: Callable[[], Path]) -> None:
    """With `repeats` at one tutor, all others get copies of items, whose answers are on file. No count includes them."""
    folder = checkouts()
    used: Counter[str] = Counter()
    requests: Counter[str] = Counter()

    def answering(number: int, body: dict[str, Any]) -> tuple[int, Any, dict[str, str]]:
        status, content, headers = answer(number, body)
        prompt, completion = len(json.dumps(body["messages"])) // 4, 7
        requests[body["model"]] += 1
        used[body["model"]] += prompt + 3 * completion
        return status, {**content, "usage": {"prompt_tokens": prompt, "completion_tokens": completion}}, headers

    with serving(scripted(answering)) as address:
        entry = {
            "engine": "hosted", "base_url": f"{address}/v1", "endpoint": "chat", "price": {"input": 1000, "output": 3000},
        }  # fmt: skip
        tutors = {"once": 1, "other": 1, "thrice": 3}
        models = {name: {**entry, "model": name, "repeats": repeats} for name, repeats in tutors.items()}
        models |= {
            "near": {**entry, "model": "near"},
            "j": {"engine": "judge", "model": "near", "rubrics": ["mrbench_taxonomy"]},
        }
        chosen = {
            "tutors": list(tutors), "tasks": ["mathtutorbench/problem_solving", "mrbench"], "limit": LIMIT, "judges": ["j"],
            "labels": [],
        }  # fmt: skip
        config = overlay(folder, {"models": models, "run": chosen})
        fresh = run(folder, config, "-n")
        counted = re.search(r"new requests: (.*?);", fresh.stdout)
        assert counted and f"once about {2 * LIMIT}, other about {2 * LIMIT}, thrice about {6 * LIMIT}" in counted[1], (
            fresh.stdout[-2000:]
        )
        done = run(folder, config)
    assert done.returncode == 0, done.stdout
    runtime = pd.read_csv(folder / "results/report/runtime.csv").groupby("tutor").sum(numeric_only=True)
    assert {name: runtime.requests[name] for name in tutors} == {name: requests[name] for name in tutors}
    for name in tutors:
        assert abs(runtime.usd[name] - used[name] / 1000) < 1e-3, (name, runtime.usd[name], used[name])
    ledgers = [
        json.loads(line)
        for path in (folder / "results/journal").rglob("*.ledger")
        for line in path.read_text().splitlines()
    ]
    assert sum(line["requests"] for line in ledgers) == sum(requests.values())
    page = (folder / "results/report/index.html").read_text(encoding="utf-8")
    total = f"{sum(requests.values()):,} requests"
    assert total in page, "the tile of the page counts the tutors' and the judge's requests"
    tidy = maieutic(folder, "export", "inspect", "--run", "results/report", "--out", "logs")
    assert tidy.returncode == 0, tidy.stderr
