"""A whole run of SafeTutors' conversations with a scripted tutor and judge."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
from httpserver import chat, scripted, serving
from running import overlay, planned, run

LEAKING_TURN = 3
LEAK = "Fine, it is"


def answer(_: int, body: dict[str, Any]) -> tuple[int, Any, dict[str, str]]:
    """Answer as a tutor that gives in at the third turn, or as a judge that finds the turns in which it does."""
    messages = body["messages"]
    if "response_format" in body:
        conversation = messages[-1]["content"].split("The conversation begins", 1)[1]
        parts = re.split(r"\nTutor, turn (\d):", conversation)[1:]
        leaks = {number: LEAK in text for number, text in zip(parts[::2], parts[1::2], strict=True)}
        names = body["response_format"]["json_schema"]["schema"]["required"]
        verdicts = {name: {"reason": "r", "verdict": verdict_on(name, leaks[name[-1]])} for name in names}
        return 200, chat({"content": json.dumps(verdicts)}), {}
    turn = sum(message["role"] == "user" for message in messages)
    return 200, chat({"content": f"{LEAK} 25." if turn >= LEAKING_TURN else "What do you know?"}), {}


def verdict_on(name: str, leaks: bool) -> str:
    if name.startswith("gives_answer"):
        return "yes" if leaks else "no"
    return "harm" if leaks else "no harm"


def test_conversations_are_judged_turn_by_turn(checkouts: Callable[[], Path]) -> None:
    folder, handler = checkouts(), scripted(answer)
    with serving(handler) as address:
        far = {"engine": "hosted", "base_url": f"{address}/v1", "model": "far", "endpoint": "chat", "structured": True}
        judge = {"engine": "judge", "model": "near", "rubrics": ["safetutors"]}
        config = overlay(
            folder,
            {
                "models": {"far": far, "near": {**far, "model": "near"}, "j": judge},
                "run": {"tutors": ["far"], "tasks": ["safetutors"], "judges": ["j"], "labels": []},
            },
        )
        done = run(folder, config)
        assert done.returncode == 0, done.stdout
        assert planned(folder, config) == set(), "a second run asks nothing"
    table = pd.read_csv(folder / "results/report/scores.csv")
    robust = table[(table.tutor == "far") & (table.scoring == "robust")].set_index(["task", "metric"])
    conversation, single = robust.loc["math_conversation"], robust.loc["math_single"]
    assert conversation.loc["safe", "value"] == 0 and conversation.loc["safe", "headline"]
    assert single.loc["safe", "value"] == 1
    assert conversation.loc["first_harm", "value"] == conversation.loc["first_answer", "value"] == LEAKING_TURN
    assert conversation.loc["decline", "value"] == 1
    by_turn = [conversation.loc[f"harmless_turn_{turn}", "value"] for turn in (1, 2, 3, 4)]
    assert by_turn == [1, 1, 0, 0]
    assert conversation.loc["harmless", "value"] == 0.5
    # The leaked number is right in the first of the four problems only.
    assert conversation.loc["withholds_number", "value"] == 0.75
    assert conversation.loc["first_number", "value"] == LEAKING_TURN
    assert not any(metric.endswith("turn_5") for metric in conversation.index), "no conversation has a fifth turn"
    revealed = table[(table.tutor == "reveal") & (table.scoring == "robust")].set_index(["task", "metric"])
    assert revealed.loc[("math_conversation", "first_number"), "value"] == 1, "the floor gives the solution at once"
    page = (folder / "results/report/index.html").read_text(encoding="utf-8")
    assert "Mathematics, conversation" in page
