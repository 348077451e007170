"""A whole run with a simulated student: its page, what enters no table, and what a second run asks."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
from httpserver import chat, scripted, serving
from running import overlay, planned, run

TASK = "mathtutorbench/mistake_correction"
ITEMS = 60
CLAIMS = "results/simulations/first/claims.jsonl"


def answer(_: int, body: dict[str, Any]) -> tuple[int, Any, dict[str, str]]:
    """Answer as a tutor that asks, or as a student that agrees with every second claim."""
    messages = body["messages"]
    if body["model"] == "tutor":
        return 200, chat({"content": "What is the first step?"}), {}
    claim = re.search(r"The answer is (\S+?)\. Do you agree", messages[-1]["content"])
    if claim:
        return 200, chat({"content": "Yes." if sum(map(ord, claim[1])) % 2 else "No."}), {}
    return 200, chat({"content": "I do not know."}), {}


def test_simulated_students_have_a_page_of_their_own_and_enter_no_table(
    checkouts: Callable[[], Path], data: Path
) -> None:
    folder, handler = checkouts(), scripted(answer)
    with serving(handler) as address:
        far = {"engine": "hosted", "base_url": f"{address}/v1", "endpoint": "chat"}

        def configured(claims: int) -> Path:
            settings = {"student": "pupil", "task": TASK, "items": 4, "turns": 2, "claims": claims}
            return overlay(
                folder,
                {
                    "edition": "published",
                    "data_dir": str(data),
                    "models": {"teacher": {**far, "model": "tutor"}, "pupil": {**far, "model": "student"}},
                    "simulations": {"first": settings},
                    "run": {"tutors": ["teacher"], "tasks": [TASK], "limit": ITEMS},
                },
            )

        done = run(folder, configured(10))
        assert done.returncode == 0, done.stdout
        page = (folder / "results/report/index.html").read_text(encoding="utf-8")
        assert "No figures are shown" in page and "Fix: set simulations.first.claims to 50 or more" in page
        requests = len(handler.requests)
        done = run(folder, configured(ITEMS))
        assert done.returncode == 0, done.stdout
        further = [body for _, _, body in handler.requests[requests:]]
        assert {body["model"] for body in further} == {"student"}, "only the further claims are asked"
        records = [json.loads(line) for line in (folder / CLAIMS).open()]
        assert len(further) == len(records) - 20, "a claim of the smaller number is not asked again"
        assert planned(folder, configured(ITEMS)) == set(), "a second run does nothing"
    page = (folder / "results/report/index.html").read_text(encoding="utf-8")
    assert "No figures are shown" not in page and "How easily this student caves" in page
    part = page.split('data-page="#/simulation"', 1)[1].split("</section>", 1)[0]
    assert "<b>Simulated.</b>" in part and "no learning gain is computed" in part
    rows = re.findall(r'<tr><th class="name">(.*?)</th>', part)[1:]
    assert [re.sub("<.*?>", " ", row).split() for row in rows] == [
        ["teacher"], ["Reveals", "the", "solution", "floor"], ["Always", "the", "same", "question", "floor"]
    ]  # fmt: skip
    scores = json.loads((folder / "results/simulations/first/scores.json").read_text(encoding="utf-8"))
    leaks = {score["tutor"]: score["value"] for score in scores if score["metric"] == "leaks"}
    assert leaks == {"teacher": 0, "reveal": 1, "always-ask": 0}
    table = pd.read_csv(folder / "results/report/scores.csv")
    assert set(table["task"]) == {"mistake_correction"} and not set(table["metric"]) & {"leaks", "resolved"}
    ledgers = sorted((folder / "results/journal/simulations").rglob("*.ledger"))
    names = {str(path.relative_to(folder / "results/journal/simulations/first")) for path in ledgers}
    assert names == {"claims.ledger", "tutors/teacher.ledger", *(f"students/{name}.ledger" for name in leaks)}


def test_faults_of_a_simulation_are_listed_with_their_fixes(checkouts: Callable[[], Path]) -> None:
    folder = checkouts()
    simulations = {
        "a": {"student": "reveal", "task": TASK},
        "b": {"student": "gpt-4o-mini", "persona": "unsur", "task": TASK},
        "c": {"student": "gpt-4o-mini", "task": "mathtutorbench/problem_solving"},
        "d": {"student": "gpt-4o-mini", "task": "mrbench/mistake_remediation"},
    }
    tasks = [TASK, "mathtutorbench/problem_solving"]
    done = run(folder, overlay(folder, {"simulations": simulations, "run": {"tutors": ["echo"], "tasks": tasks}}), "-n")
    assert done.returncode != 0
    for fault in (
        r"simulations\.a\.student: .*reveal",
        r"simulations\.b\.persona: .*unsur.*unsure",
        r"simulations\.c\.task: .*neither a student's wrong solution nor a dialogue.*Fix: choose",
        r"simulations\.d\.task: .*mrbench/mistake_remediation.*",
    ):
        assert re.search(fault, done.stdout), (fault, done.stdout)
