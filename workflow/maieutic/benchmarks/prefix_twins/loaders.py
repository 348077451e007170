"""Loaders of prefix twins: a student's steps up to the first wrong one, without it and with it (from StepVerify).

Whole solutions would measure style, since wrong and right ones differ in wording. Both prefixes are the same student's.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from maieutic.config.datasets import SourceRecord
from maieutic.core.records import Item
from maieutic.datasets.loaders import Loader
from maieutic.datasets.text import cluster_of

VARIABLES = {"question", "student_steps"}
FOLDS = 5
NUMBER = re.compile(r"\d+(?:[.,]\d+)*")
Twin = tuple[str, str, bool]  # problem, prefix, True if the prefix contains the wrong step


def twins_of(records: Sequence[SourceRecord]) -> list[Twin]:
    """Return the prefixes in pairs, the right one first: one pair for each problem whose first step is right.

    A problem has one student's solution, which several annotators may have marked. The wrong prefix ends with the
    smallest marked step, so that all annotators find the right prefix right.
    """
    marked: dict[str, tuple[int, list[str]]] = {}
    for record in records:
        step, steps = int(record["incorrect_index"]), record["student_incorrect_solution"]
        known = marked.get(record["problem"])
        if known is None or step < known[0]:
            marked[record["problem"]] = step, steps
    return [
        (problem, "\n".join(line.strip() for line in steps[: step + wrong]), bool(wrong))
        for problem, (step, steps) in marked.items()
        if step > 0
        for wrong in (0, 1)
    ]


def guesses_by_form(twins: Sequence[Twin]) -> dict[str, list[bool]]:
    """Return, for each prefix, whether its length and its wording let it look wrong: guesses without arithmetic.

    by_length: logistic regression on the numbers of steps and of characters; by_style: on the number of times that each
    word occurs, all numbers being one word. Each guess is made by a model that has not seen the problem. With fewer
    than FOLDS problems, no prefix looks wrong.
    """
    problems = [problem for problem, _, _ in twins]
    if len(set(problems)) < FOLDS:
        return {"by_length": [False] * len(twins), "by_style": [False] * len(twins)}
    import numpy as np
    from sklearn.feature_extraction.text import CountVectorizer
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import GroupKFold, cross_val_predict
    from sklearn.pipeline import make_pipeline

    wrong = [is_wrong for _, _, is_wrong in twins]
    lengths = np.array([[text.count("\n") + 1, np.log1p(len(text))] for _, text, _ in twins])
    texts = [NUMBER.sub("0", text) for _, text, _ in twins]
    words = make_pipeline(CountVectorizer(token_pattern=r"\S+"), LogisticRegression(max_iter=2000))
    parts: dict[str, tuple[Any, Any]] = {"by_length": (LogisticRegression(), lengths), "by_style": (words, texts)}
    return {
        name: [bool(guess) for guess in cross_val_predict(model, inputs, wrong, groups=problems, cv=GroupKFold(FOLDS))]
        for name, (model, inputs) in parts.items()
    }


def twin_items(records: list[SourceRecord], task: str, asks_verdict: bool = False) -> list[Item]:
    """Return an item for each prefix. asks_verdict: True if the prompt asks for a verdict, Yes if the work is wrong."""
    twins = twins_of(records)
    guesses = guesses_by_form(twins)
    items = []
    for number, (problem, steps, wrong) in enumerate(twins):
        kind = "wrong" if wrong else "right"
        reference = {
            "text": ("Yes" if wrong else "No") if asks_verdict else "",
            "incorrect": wrong,
            "verdicts": {"treats_as_wrong": "yes" if wrong else "no"},
            **{name: guessed[number] for name, guessed in guesses.items()},
        }
        items.append(
            Item(
                id=f"twin-{number // 2:04d}-{kind}",
                task=task,
                cluster=cluster_of(problem),
                vars={"question": problem, "student_steps": steps},
                reference=reference,
                tags={"prefix": kind},
            )
        )
    return items


def verdict_items(records: list[SourceRecord], task: str) -> list[Item]:
    """Return an item for each prefix, whose prompt asks for a verdict."""
    return twin_items(records, task, asks_verdict=True)


LOADERS = {
    "prefix_twins": Loader(twin_items, VARIABLES, has_human_reply=False),
    "prefix_verdicts": Loader(verdict_items, VARIABLES),
}
