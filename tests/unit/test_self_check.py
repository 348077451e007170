"""Tests of every parser on the gold answers of the shipped tasks: on the demo's items, and on the published ones."""

from __future__ import annotations

from pathlib import Path

import pytest
from maieutic.config.cards import CARDS, Card, read_card
from maieutic.core.errors import UserError
from maieutic.core.records import Item
from maieutic.graders.gold import final_answer_line
from maieutic.tools.self_check import GraderCheck, check_card_on_gold, failures_on, report_stage, why_skipped
from task_items import DEMO, REGISTRY, items_of_card

CARD_PATHS = sorted(CARDS.glob("*/*.yaml"))


def cards_with_gold(edition: str) -> list[Path]:
    """Return the cards with a parser that has gold answers, if their dataset has a pinned copy of this edition."""
    return [path for path in CARD_PATHS if has_gold(read_card(path).card) and has_pinned_copy(path, edition)]


def has_gold(card: Card) -> bool:
    return any(not why_skipped(grader) for grader in card.graders)


def has_pinned_copy(path: Path, edition: str) -> bool:
    copy = getattr(REGISTRY[read_card(path).card.dataset], edition)
    return copy is not None and copy.sha256 is not None


def check_on_gold(path: Path, folder: Path, edition: str) -> list[GraderCheck]:
    card = read_card(path).card
    return check_card_on_gold(card, items_of_card(card, folder, edition))


@pytest.mark.parametrize("path", cards_with_gold("demo"), ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_every_grader_agrees_with_the_gold_answers_of_the_demo(path: Path) -> None:
    checks = check_on_gold(path, DEMO, "demo")
    assert [failure for check in checks for failure in check.failures] == []
    assert all(check.items or check.skipped for check in checks)


@pytest.mark.parametrize("path", cards_with_gold("published"), ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_every_grader_agrees_with_the_gold_answers_of_the_published_data(path: Path, data: Path) -> None:
    checks = check_on_gold(path, data, "published")
    assert [failure for check in checks for failure in check.failures] == []


def item(**reference: object) -> Item:
    return Item(id="a-1", task="t", cluster="p", vars={"problem": "2 and 2?"}, reference=reference, tags={})


def test_failures_on_gold_answers_are_named() -> None:
    assert failures_on("step", item(step=3), "robust") == []
    [failure] = failures_on("answer", item(answer="nan"), "robust")
    assert failure.startswith("t/a-1, answer, robust: the answer 'nan' is neither a number nor")
    [failure] = failures_on("answer", item(answer="12 apples"), "robust")
    assert "'12 apples'" in failure


def test_all_failures_are_reported_at_once(caplog: pytest.LogCaptureFixture) -> None:
    checks = [
        GraderCheck("b/t", "step", 30, [f"item {number}" for number in range(30)]),
        GraderCheck("b/t", "judge", 0, [], "a"),
    ]
    with caplog.at_level("INFO"), pytest.raises(UserError, match=r"30 failures item 0 .*and 10 more") as error:
        report_stage(checks)
    assert "item 19" in str(error.value) and "item 20" not in str(error.value)
    assert [record.message for record in caplog.records] == [
        "b/t, step: 30 items, 30 failures",
        "b/t, judge: skipped: a",
    ]


@pytest.mark.parametrize(("value", "line"), [(18, "18"), (0.5, "0.5"), ("1e6", "1000000"), (100.0, "100"), (-3, "-3")])
def test_an_answer_is_written_without_exponent(value: object, line: str) -> None:
    assert final_answer_line(value) == f"Final Answer: {line}"
