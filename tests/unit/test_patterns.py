"""Each regular expression with which replies are read stands beside an example that only it reads."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml
from ablation import Ablation
from built_replies import build
from maieutic.benchmarks.kmpbench.detection import parse_detection
from maieutic.core.records import SCORINGS
from maieutic.graders.answers import read_answer
from maieutic.graders.lexicon import in_english_notation
from maieutic.graders.numerals import numerals
from maieutic.graders.registry import GRADERS
from maieutic.graders.solution_numbers import solution_number
from maieutic.graders.steps import StepsShown, read_step, steps_shown
from maieutic.graders.yes_no import read_yes_no
from task_items import PARSERS_OF, bare_item

TABLES = Path(__file__).parents[1] / "tables"
# They limit the time of the other patterns, which tests/unit/test_hostile_texts.py measures.
LIMITS_OF_TIME = {"passages.LONG_LINE", "passages.LONG_SIGNS", "passages.LONG_RUN"}


def table(name: str) -> Any:
    return yaml.safe_load((TABLES / f"{name}.yaml").read_text(encoding="utf-8"))


def read_reply(task: str, text: str, steps: int | None = None, question: str = "") -> object:
    """Return everything that the reader and the graders of a task find in a reply."""
    prompt = StepsShown(steps, steps) if steps else None
    read = {
        "number": lambda: read_answer(text, question),
        "step": lambda: read_step(text, prompt),
        "yes_no": lambda: read_yes_no(text, prompt),
    }
    item = bare_item(task)
    graders = [GRADERS[name].read for name in PARSERS_OF[task]]
    graded = [grade(item, text, scoring) for grade in graders if grade for scoring in SCORINGS]
    return read[task](), [(reading.value, reading.why_none) for readings in graded for reading in readings]


def examples(data: Path) -> Iterator[Callable[[], object]]:
    """Yield functions that read one example each: those of the tables, then published solutions."""
    for name, task in (("answers", "number"), ("corrected_answers", "number"), ("steps", "step"), ("yes_no", "yes_no")):
        for case in table(name):
            yield partial(read_reply, task, case["text"])
    groups = table("final_numbers")
    for rule in groups.pop("ambiguous"):
        groups[rule["rule"]] = rule["cases"]
    for text, _ in (case for cases in groups.values() for case in cases):
        yield partial(read_reply, "number", text)
    for line in (TABLES / "independent_replies.jsonl").read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        yield partial(read_reply, row["task"], row["text"], row.get("steps"), row.get("question", ""))
    for case in table("kmp_detection"):
        yield partial(parse_detection, case["text"])
    for text in (
        "So the price rises from 3 to 5",
        "\\boxed{3 + 4}",
        "He has 12 pens.\n#### 13\nGood luck with exercise 5",
    ):
        yield partial(lambda text: (numerals(text), solution_number(text)), text)
    yield partial(in_english_notation, "Die Antwort ist 1.200,50 Euro.", "de")
    yield partial(steps_shown, {"solution": "Step 1: 3 + 4 = 7\nStep 2: 7 * 2 = 14"})
    for text, question in (
        ("It costs $0.10.", "How many cents does it cost?"),
        ("It costs 10 million.", "How much, in millions, does it cost?"),
        ("It costs 10.", "How much, in millions, does it cost?"),
        ("He will have 40 cards in 4 weeks.", "After how many weeks will he have 40 cards?"),
    ):
        yield partial(read_reply, "number", text, None, question)
    for line in (data / "gsm8k/test.jsonl").read_text(encoding="utf-8").splitlines():
        yield partial(solution_number, json.loads(line)["answer"])
    for name in ("seen", "opened", "second", "fresh"):
        for reply in build(TABLES / f"last_lines_{name}.yaml", data, 1, 1):
            yield partial(read_reply, reply["task"], reply["text"])


@pytest.mark.slow
def test_every_pattern_reads_an_example_that_no_other_reads(data: Path) -> None:
    with Ablation() as ablation:
        assert len(ablation.names) > 100
        assert ablation.without_effect(examples(data), LIMITS_OF_TIME) == []
