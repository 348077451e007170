"""From scalars to win rates: ties, empty and unscored replies, the clean subset; batches and how often a model runs."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from columns import spelt
from maieutic.benchmarks.mathtutorbench import mathdial_bridge
from maieutic.config.cards import card_path, read_card
from maieutic.core.journal import Journal, ScoredConversation
from maieutic.core.records import (
    Grade,
    Item,
    Labelling,
    Pair,
    PairReward,
    Reply,
    Reward,
    RewardScalar,
    Score,
    Turn,
    write_records,
)
from maieutic.core.stats import BootstrapSettings
from maieutic.datasets.sources import read_source
from maieutic.plan.checks import check_config
from maieutic.plan.plan import Plan
from maieutic.report.graders import ablation_rows
from maieutic.rewards.grading import grades_by_reward_model
from maieutic.rewards.scorer import Passes, common_prefix_length, group_batches, groups_of, score_all, token_batches
from maieutic.rewards.scoring import scored_texts
from maieutic.scores.printed import paper_name
from maieutic.scores.score import index_grades, score_task
from maieutic.validation.rewards import (
    BEST_3,
    ValidateCriteria,
    classifier_heldout_scores,
    reward_pair_scores,
    sum_criteria,
    validate_criteria,
)
from shipped import shipped

CARD = read_card(card_path("mathtutorbench", "scaffolding_generation")).card


def item(name: str) -> Item:
    return Item(id=name, task=CARD.task, cluster=f"c-{name}", vars={"question": "q"}, reference={"text": "ref"})


def reward(name: str, model: str, score: float | None) -> Reward:
    why = None if score is not None else "too long"
    return Reward(id=name, task=CARD.task, tutor=model, key=model, score=score, tokens=3, why_none=why)


CASES = {
    "higher wins": ("Why?", 1.0, 0.5, {"paper_compat": True, "robust": True}),
    "a tie loses": ("Why?", 0.5, 0.5, {"paper_compat": False, "robust": False}),
    "lower loses": ("Why?", -1.0, 0.5, {"paper_compat": False, "robust": False}),
    "an empty reply wins as released only": (" \n", 1.0, 0.5, {"paper_compat": True, "robust": False}),
    "no score is none": ("Why?", None, 0.5, {"paper_compat": None, "robust": None}),
    "no score of the human is none": ("Why?", 1.0, None, {"paper_compat": None, "robust": None}),
}


@pytest.mark.parametrize(("text", "mine", "human", "expected"), CASES.values(), ids=CASES)
def test_a_win_is_strictly_above_the_human(
    text: str, mine: float | None, human: float | None, expected: dict[str, bool | None]
) -> None:
    grades = grades_by_reward_model(
        "first", item("a"), text, reward("a", "m", mine), reward("a", "reference", human), leaked=False, known=False
    )
    wins = {grade.scoring: grade for grade in grades if grade.criterion == "win"}
    assert {scoring: grade.value for scoring, grade in wins.items()} == expected
    assert all((grade.value is None) == bool(grade.why_none) for grade in grades)


def graded(values: Sequence[tuple[float | None, bool]]) -> tuple[list[Item], list[Grade]]:
    items = [item(str(number)) for number in range(len(values))]
    grades = [
        grade
        for case, (score, leaked) in zip(items, values, strict=True)
        for grade in grades_by_reward_model(
            "first", case, "x", reward(case.id, "m", score), reward(case.id, "r", 0.0), leaked, False
        )
    ]
    return items, grades


def scores_by(values: Sequence[tuple[float | None, bool]]) -> dict[tuple[str, str | None], Score]:
    items, grades = graded(values)
    second = [one.model_copy(update={"by": "second"}) for one in grades]
    found = score_task(CARD, "m", items, index_grades([*grades, *second]), BootstrapSettings(100, 1))
    return {(one.metric, one.by): one for one in found if one.scoring == "robust"}


def test_win_rate_clean_subset_and_missing() -> None:
    found = scores_by([(1.0, True), (2.0, False), (-1.0, False), (None, False)])
    win, clean = found["win_rate", "first"], found["win_rate_clean", "first"]
    assert (win.value, win.n, win.missing) == (pytest.approx(2 / 3), 3, 1)
    assert (clean.value, clean.n, clean.missing) == (0.5, 2, 1), "the leaked item is not missing"
    assert found["reward_margin", "first"].value == pytest.approx(2 / 3)
    assert win.headline and not found["win_rate", "second"].headline


def test_the_second_clean_subset_leaves_out_known_problems_too() -> None:
    items = [item(str(number)) for number in range(3)]
    flags = [(True, True), (False, True), (False, False)]  # the human reply is known, the problem is
    grades = [
        grade
        for case, (leaked, known) in zip(items, flags, strict=True)
        for grade in grades_by_reward_model(
            "first", case, "x", reward(case.id, "m", 1.0), reward(case.id, "r", 0.0), leaked, known
        )
    ]
    found = {
        one.metric: one
        for one in score_task(CARD, "m", items, index_grades(grades), BootstrapSettings(100, 1))
        if one.scoring == "robust"
    }
    assert [found[name].n for name in ("win_rate", "win_rate_clean", "win_rate_clean_problems")] == [3, 2, 1]


def test_a_refused_reply_never_wins() -> None:
    refused = reward("a", "m", None).model_copy(update={"refused": True, "why_none": "refused: 400"})
    grades = grades_by_reward_model(
        "first", item("a"), "", refused, reward("a", "reference", 0.5), leaked=False, known=False
    )
    wins = {one.scoring: one for one in grades if one.criterion == "win"}
    assert (wins["robust"].value, wins["robust"].why_none) == (False, "refused: 400")
    assert wins["paper_compat"].value is None, "the released code has no such reply"
    assert all(one.value is None for one in grades if one.criterion == "score")


def test_paper_compat_compares_the_texts_that_the_released_scorer_takes() -> None:
    """Blanks around a human reply move its reward: the released scorer leaves them there."""
    unstripped = RewardScalar(key="reference, unstripped", score=1.5)
    human = reward("a", "reference", 0.5).model_copy(update={"released": unstripped})
    grades = grades_by_reward_model("first", item("a"), "Why?", reward("a", "m", 1.0), human, leaked=False, known=False)
    wins = {one.scoring: one.value for one in grades if one.criterion == "win"}
    assert wins == {"robust": True, "paper_compat": False}
    shown = {one.scoring: one.value for one in grades if one.criterion == "reference_score"}
    assert shown == {"robust": 0.5, "paper_compat": 1.5}


def test_a_text_is_scored_twice_only_where_the_released_scorer_takes_another() -> None:
    def of(**turn: object) -> list[str]:
        return scored_texts(Reply(id="i", task="t", tutor="m", key="k", turns=[Turn(messages="", **turn)]))

    assert of(text="Why?", endpoint="completions") == ["Why?"]
    assert of(text=" Why?\n", endpoint="completions") == ["Why?"], "the released client strips completions"
    assert of(text=" Why?\n", endpoint="chat") == ["Why?", " Why?\n"], "and no chat answers"
    assert of(text="Why?", raw="<think>Hm.</think>Why?", endpoint="chat") == ["Why?", "<think>Hm.</think>Why?"]
    assert scored_texts(Reply(id="i", task="t", tutor="m", key="k", turns=[], error="400: too long")) == []


def test_without_reward_models_a_task_has_no_headline() -> None:
    alone = CARD.without_grader("reward")
    assert CARD.headline == alone.headline == "win_rate" and "reward" not in alone.graders
    assert CARD.headline_metric is not None and CARD.missing_grader is None
    assert alone.headline_metric is None and alone.missing_grader == "reward"
    assert not any(metric.headline for metric in alone.metrics.values()), "match is a statistic among others"


@pytest.mark.parametrize("lengths", [[], [5], [900, 5, 5, 5], [3] * 50, list(range(1, 80))])
def test_batches_keep_the_budget_and_lose_nothing(lengths: list[int]) -> None:
    found = token_batches(lengths, 100)
    assert sorted(position for batch in found for position in batch) == list(range(len(lengths)))
    for batch in found:
        longest = max(lengths[position] for position in batch)
        assert len(batch) * longest <= 100 or len(batch) == 1


def test_what_a_kill_left_is_batched_as_it_would_have_been() -> None:
    lengths = [7, 90, 33, 33, 20, 61, 5, 5, 12]
    whole = token_batches(lengths, 100)
    left = [position for batch in whole[2:] for position in sorted(batch)]
    again = token_batches([lengths[position] for position in left], 100)
    assert [[left[one] for one in batch] for batch in again] == whole[2:]


@pytest.mark.parametrize(
    ("conversations", "shared"),
    [([[1, 2, 3], [1, 2, 4]], 2), ([[1, 2], [1, 2, 3]], 1), ([[1], [2]], 0), ([[5, 6, 7]] * 2, 2), ([[1, 9], [1, 2, 3], [1, 9, 9]], 1)],
)  # fmt: skip
def test_conversations_share_their_beginning_and_keep_a_token_each(conversations: list[list[int]], shared: int) -> None:
    assert common_prefix_length(conversations) == shared


def test_replies_to_one_dialogue_are_read_together() -> None:
    long, other = list(range(100, 150)), list(range(200, 240))
    conversations = [[*long, 1], [*other, 7, 8], [*long, 2, 3], [5] * 60, [*long, 0, 0], [*other, 9]]
    names = ["a", "b", "a", "c", "a", "b"]
    found = groups_of(conversations, names, 100, pad=-1)
    assert [(len(group.prefix), group.suffixes, group.positions) for group in found] == [
        (50, [[1], [2, 3], [0, 0]], [0, 2, 4]),
        (40, [[7, 8], [9]], [1, 5]),
    ]
    assert [[group.positions for group in batch] for batch in group_batches(found, 100)] == [[[0, 2, 4], [1, 5]]]
    assert len(group_batches(found, 99)) == 2, "two dialogues of 50 tokens, padded"
    assert len(group_batches([found[0]] * 2, 100)) == 1 and len(group_batches([found[0]] * 20, 1000)) == 1
    assert len(group_batches([found[0]] * 60, 3000)) == 1 and len(group_batches([found[0]] * 61, 3000)) == 2
    only_padding = groups_of(conversations, names, 100, pad=0)
    assert [group.positions for group in only_padding] == [[1, 5]], "a reply of pad tokens alone is read as it was"
    assert groups_of(conversations, names, 45, pad=-1)[0].positions == [1, 5], (
        "a dialogue beyond the budget is not kept"
    )


@pytest.mark.slow
def test_forward_passes_for_n_tutors_are_2954_n_plus_1477(data: Path, tmp_path: Path) -> None:
    """Two tasks on 1,150 and two on 327 dialogues a tutor; the human replies are scored once, whoever asks for them."""
    items = [
        case
        for name in ("mathdial_bridge", "mathdial_bridge_hard")
        for case in mathdial_bridge.next_turn(
            read_source(data / f"mathtutorbench/datasets/{name}.json", "json"), "scaffolding"
        )
    ]
    rows = 0

    def forward(conversations: list[Sequence[int]]) -> list[float]:
        nonlocal rows
        rows += len(conversations)
        return [0.0] * len(conversations)

    def ids(case: Item, reply: str) -> list[int]:
        return list(f"{case.vars}{case.reference['history']}{reply}".encode())

    with Journal(tmp_path / "j.jsonl", ScoredConversation) as journal:
        for tutor in ("reference", "reference", "one", "two"):
            said = [
                ids(case, case.reference["text"] if tutor == "reference" else f"{tutor} {task} {case.id}")
                for case in items
                for task in ("scaffolding", "following")
            ]
            score_all(tutor, said, ["d"] * len(said), "weights", journal, 10**6, lambda: Passes(forward, None, -1))
    assert rows == 2954 * 2 + 1477


def test_nothing_is_scored_twice_and_equal_conversations_share_a_score(tmp_path: Path) -> None:
    calls: list[int] = []

    def forward(conversations: list[Sequence[int]]) -> list[float]:
        calls.append(len(conversations))
        return [float(len(one)) for one in conversations]

    path = tmp_path / "j.jsonl"
    with Journal(path, ScoredConversation) as journal:
        first = score_all("m", [[1, 2], [3], [1, 2]], list("aba"), "w", journal, 100, lambda: Passes(forward, None, 0))
    assert [one.score for one in first] == [2.0, 1.0, 2.0] and calls == [2]
    path.write_bytes(path.read_bytes()[:-9])  # a torn last line
    with Journal(path, ScoredConversation) as journal:
        again = score_all("m", [[1, 2], [3], [1, 2]], list("aba"), "w", journal, 100, lambda: Passes(forward, None, 0))
        assert [one.score for one in again] == [one.score for one in first]
        score_all("m", [[1, 2]], ["a"], "other weights", journal, 100, lambda: Passes(forward, None, 0))
    assert calls == [2, 1, 1]


def pair(name: str, chosen: str, rejected: str) -> Pair:
    return Pair(id=name, source="bridge", problem=name, prompt=[], chosen=chosen, rejected=rejected, margin=1)


def test_pair_accuracy_is_strict_and_length_stands_beside_it() -> None:
    pairs = [pair("a", "long reply", "x"), pair("b", "y", "long reply"), pair("c", "same", "size"), pair("d", "q", "r")]
    values = [(2.0, 1.0), (0.0, 1.0), (1.0, 1.0), (None, 1.0)]
    rewards = [
        PairReward(id=one.id, problem=one.id, chosen=better, rejected=worse)
        for one, (better, worse) in zip(pairs, values, strict=True)
    ]
    found = {one.metric: one for one in reward_pair_scores("m", pairs, rewards, BootstrapSettings(100, 1))}
    assert found["pair_accuracy"].value == pytest.approx(1 / 3) and found["pair_accuracy"].missing == 1
    assert found["ties"].value == pytest.approx(1 / 3) and found["mean_margin"].value == 0.0
    assert found["longer_reply_accuracy"].value == pytest.approx(1 / 3)
    assert found["length_correlation"].value == pytest.approx(1.0)


def test_the_ensemble_sums_verdicts() -> None:
    rewards = [
        PairReward(id="a", problem="a", criterion="x", chosen=0.9, rejected=0.2),
        PairReward(id="a", problem="a", criterion="y", chosen=0.6, rejected=0.7),
        PairReward(id="a", problem="a", criterion="z", chosen=0.1, rejected=0.9),
    ]
    [both] = sum_criteria(rewards, ["x", "y"])
    assert (both.chosen, both.rejected) == (2.0, 1.0)
    [three] = sum_criteria(rewards, ["x", "y", "z"])
    assert (three.chosen, three.rejected) == (2.0, 2.0)


def test_heldout_accuracy_stands_beside_the_frequent_label() -> None:
    given = [
        Labelling(id=str(n), dialogue=str(n), criterion="x", label=label, probability=p, tokens=1)
        for n, (label, p) in enumerate([(1, 0.9), (1, 0.2), (0, 0.4), (1, 0.8)])
    ]
    found = {spelt(one): one.value for one in classifier_heldout_scores("m", given, BootstrapSettings(100, 1))}
    assert found == {"heldout_accuracy/x": 0.75, "majority_accuracy/x": 0.75}


def test_the_best_three_are_chosen_by_pairs_where_no_dialogue_is_held_out(tmp_path: Path) -> None:
    """Each of four classifiers is right on as many pairs as its number; none has a held-out accuracy."""
    pairs = [
        Pair(id=str(n), source="bridge", problem=str(n), prompt=[], chosen="a", rejected="b", margin=1.0)
        for n in range(4)
    ]
    rewards = [
        PairReward(id=pair.id, problem=pair.problem, criterion=f"c{right}", chosen=float(n < right), rejected=0.1)
        for right in range(1, 5)
        for n, pair in enumerate(pairs)
    ]
    files = {name: tmp_path / name for name in ("pairs", "heldout", "classified", "out")}
    write_records(files["pairs"], pairs)
    write_records(files["heldout"], [])
    write_records(files["classified"], rewards)
    job = ValidateCriteria(classifier="m", resamples=10, seed=1)
    validate_criteria(job=job, **files)
    scores = [Score.model_validate(one) for one in json.loads(files["out"].read_text())]
    accuracy = {score.criterion: score.value for score in scores if score.metric == "pair_accuracy"}
    assert accuracy == {None: 1.0, BEST_3: 1.0, "c1": 0.25, "c2": 0.5, "c3": 0.75, "c4": 1.0}
    assert not [score for score in scores if "heldout" in score.metric or "majority" in score.metric]


def test_a_classifier_without_a_number_gives_the_pair_none() -> None:
    rewards = [
        PairReward(id="a", problem="a", criterion="x", chosen=0.9, rejected=0.2),
        PairReward(id="a", problem="a", criterion="y", chosen=None, rejected=0.7),
    ]
    [pair_of_both] = sum_criteria(rewards, ["x", "y"])
    assert pair_of_both.chosen is None and pair_of_both.why_none == "a classifier gave no number"
    given = [
        Labelling(id="1", dialogue="1", criterion="x", label=1, probability=None, tokens=1),
        Labelling(id="2", dialogue="2", criterion="x", label=1, probability=0.9, tokens=1),
    ]
    found = {
        spelt(one): (one.value, one.n, one.missing)
        for one in classifier_heldout_scores("m", given, BootstrapSettings(100, 1))
    }
    assert found["heldout_accuracy/x"] == (1.0, 1, 1)


def test_a_score_that_is_no_number_is_none_and_is_not_asked_for_again(tmp_path: Path) -> None:
    path = tmp_path / "j.jsonl"
    for _ in range(2):
        with Journal(path, ScoredConversation) as journal:
            forward = Passes(lambda rows: [float("nan")] * len(rows), None, 0)
            [one] = score_all("m", [[1, 2]], ["a"], "w", journal, 100, lambda forward=forward: forward)
        assert one.score is None
    assert len(path.read_text().splitlines()) == 1


def test_the_papers_mixes_have_this_runs_numbers_beside_them() -> None:
    """MathTutorBench, Table 3: the row of a mix shows the accuracy and margin of the reward model that names it."""
    plan = Plan(check_config(shipped()))
    [name] = [name for name in plan.reward_models if paper_name(plan.models[name].paper, "mathtutorbench")]
    scores = [
        Score(
            task="bridge", grader=name, metric=metric, scoring="robust", headline=True, value=0.7, low=0.6, high=0.8,
            n=9, missing=0, clusters=9,
        )
        for metric in ("pair_accuracy", "mean_margin")
    ]  # fmt: skip
    measured: dict[str, Any] = {model: {} for model in plan.reward_models}
    measured[name] = {score.quantity: score for score in scores}
    rows = [row for mix in ablation_rows(plan, measured) for row in mix["ours"]]
    assert [(row["accuracy"], row["margin"]) for row in rows if row["accuracy"]] == [tuple(scores)]
