"""Tests of win rates from reward scores, of batches and of the number of forward passes of a reward model."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from columns import spelt
from maieutic.benchmarks.mathtutorbench.section import paired_gain
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
from maieutic.datasets.sampling import ranked_by_seed
from maieutic.plan.plan import Plan
from maieutic.report.graders import ablation_rows
from maieutic.report.tables import with_leading_graders
from maieutic.rewards.grading import grades_by_reward_model
from maieutic.rewards.leading import ChooseRewardModel, choose_reward_model
from maieutic.rewards.scorer import Passes, common_prefix_length, group_batches, groups_of, score_all, token_batches
from maieutic.rewards.scoring import scored_texts
from maieutic.scores.printed import paper_name
from maieutic.scores.score import index_grades, leader_first, leading_names, score_task
from maieutic.validation.rewards import (
    BEST_3,
    ValidateCriteria,
    classifier_heldout_scores,
    reward_pair_scores,
    sum_criteria,
    validate_criteria,
)
from run_configs import check_config
from shipped import shipped

CARD = read_card(card_path("mathtutorbench", "scaffolding_generation")).card


def make_item(name: str) -> Item:
    return Item(id=name, task=CARD.task, cluster=f"c-{name}", vars={"question": "q"}, reference={"text": "ref"})


def reward(name: str, model: str, score: float | None) -> Reward:
    reason = None if score is not None else "too long"
    return Reward(id=name, task=CARD.task, tutor=model, key=model, score=score, tokens=3, why_none=reason)


CASES = {
    "higher wins": ("Why?", 1.0, 0.5, {"paper_compat": True, "robust": True}),
    "a tie loses": ("Why?", 0.5, 0.5, {"paper_compat": False, "robust": False}),
    "lower loses": ("Why?", -1.0, 0.5, {"paper_compat": False, "robust": False}),
    "an empty reply wins only as released": (" \n", 1.0, 0.5, {"paper_compat": True, "robust": False}),
    "a missing score": ("Why?", None, 0.5, {"paper_compat": None, "robust": None}),
    "a missing score of the human reply": ("Why?", 1.0, None, {"paper_compat": None, "robust": None}),
}


@pytest.mark.parametrize(("text", "score", "human_score", "expected"), CASES.values(), ids=CASES)
def test_a_win_is_strictly_above_the_human(
    text: str, score: float | None, human_score: float | None, expected: dict[str, bool | None]
) -> None:
    grades = grades_by_reward_model(
        "first", make_item("a"), text, reward("a", "m", score), reward("a", "reference", human_score), leaked=False,
        known=False,
    )  # fmt: skip
    wins = {grade.scoring: grade for grade in grades if grade.criterion == "win"}
    assert {scoring: grade.value for scoring, grade in wins.items()} == expected
    assert all((grade.value is None) == bool(grade.why_none) for grade in grades)


def grade_items(values: Sequence[tuple[float | None, bool]]) -> tuple[list[Item], list[Grade]]:
    items = [make_item(str(number)) for number in range(len(values))]
    grades = [
        grade
        for item, (score, leaked) in zip(items, values, strict=True)
        for grade in grades_by_reward_model(
            "first", item, "x", reward(item.id, "m", score), reward(item.id, "r", 0.0), leaked, False
        )
    ]
    return items, grades


def scores_by_metric(values: Sequence[tuple[float | None, bool]]) -> dict[tuple[str, str | None], Score]:
    items, grades = grade_items(values)
    second = [grade.model_copy(update={"by": "second"}) for grade in grades]
    scores = score_task(CARD, "m", items, index_grades([*grades, *second]), BootstrapSettings(100, 1))
    return {(score.metric, score.by): score for score in scores if score.scoring == "robust"}


def test_win_rate_clean_subset_and_missing() -> None:
    scores = scores_by_metric([(1.0, True), (2.0, False), (-1.0, False), (None, False)])
    win, clean = scores["win_rate", "first"], scores["win_rate_clean", "first"]
    assert (win.value, win.n, win.missing) == (pytest.approx(2 / 3), 3, 1)
    assert (clean.value, clean.n, clean.missing) == (0.5, 2, 1), "the leaked item is not missing"
    assert scores["reward_margin", "first"].value == pytest.approx(2 / 3)
    assert win.headline and not scores["win_rate", "second"].headline


def test_the_second_clean_subset_leaves_out_known_problems_too() -> None:
    items = [make_item(str(number)) for number in range(3)]
    flags = [(True, True), (False, True), (False, False)]  # human reply, problem in the training data
    grades = [
        grade
        for item, (leaked, known) in zip(items, flags, strict=True)
        for grade in grades_by_reward_model(
            "first", item, "x", reward(item.id, "m", 1.0), reward(item.id, "r", 0.0), leaked, known
        )
    ]
    scores = {
        score.metric: score
        for score in score_task(CARD, "m", items, index_grades(grades), BootstrapSettings(100, 1))
        if score.scoring == "robust"
    }
    assert [scores[name].n for name in ("win_rate", "win_rate_clean", "win_rate_clean_problems")] == [3, 2, 1]


def test_a_refused_reply_is_missing_and_neither_wins_nor_loses() -> None:
    refused = reward("a", "m", None).model_copy(update={"refused": True, "why_none": "refused: 400"})
    grades = grades_by_reward_model(
        "first", make_item("a"), "", refused, reward("a", "reference", 0.5), leaked=False, known=False
    )
    wins = {grade.scoring: grade for grade in grades if grade.criterion == "win"}
    for win in wins.values():
        assert (win.value, win.correct, win.refused, win.why_none) == (None, None, True, "refused: 400")
    assert all(grade.value is None for grade in grades if grade.criterion == "score")


def test_paper_compat_compares_the_texts_that_the_released_scorer_reads() -> None:
    """Surrounding blanks change the reward of a human reply, and the released scorer keeps them."""
    unstripped = RewardScalar(key="reference, unstripped", score=1.5)
    human = reward("a", "reference", 0.5).model_copy(update={"released": unstripped})
    grades = grades_by_reward_model(
        "first", make_item("a"), "Why?", reward("a", "m", 1.0), human, leaked=False, known=False
    )
    wins = {grade.scoring: grade.value for grade in grades if grade.criterion == "win"}
    assert wins == {"robust": True, "paper_compat": False}
    reference_scores = {grade.scoring: grade.value for grade in grades if grade.criterion == "reference_score"}
    assert reference_scores == {"robust": 0.5, "paper_compat": 1.5}


def test_a_text_is_scored_twice_only_where_the_released_scorer_reads_another() -> None:
    def texts_of(**turn: object) -> list[str]:
        return scored_texts(Reply(id="i", task="t", tutor="m", key="k", turns=[Turn(messages="", **turn)]))

    assert texts_of(text="Why?", endpoint="completions") == ["Why?"]
    assert texts_of(text=" Why?\n", endpoint="completions") == ["Why?"], "the released client strips completions"
    assert texts_of(text=" Why?\n", endpoint="chat") == ["Why?", " Why?\n"], "the released client keeps chat answers"
    assert texts_of(text="Why?", raw="<think>Hm.</think>Why?", endpoint="chat") == ["Why?", "<think>Hm.</think>Why?"]
    assert scored_texts(Reply(id="i", task="t", tutor="m", key="k", turns=[], error="400: too long")) == []


def test_without_reward_models_a_task_has_no_headline() -> None:
    card = CARD.without_grader("reward")
    assert CARD.headline == card.headline == "win_rate" and "reward" not in card.graders
    assert CARD.headline_metric is not None and CARD.missing_grader is None
    assert card.headline_metric is None and card.missing_grader == "reward"
    assert not any(metric.headline for metric in card.metrics.values()), "match is a metric without a headline"


@pytest.mark.parametrize("lengths", [[], [5], [900, 5, 5, 5], [3] * 50, list(range(1, 80))])
def test_batches_keep_the_budget_and_lose_nothing(lengths: list[int]) -> None:
    batches = token_batches(lengths, 100)
    assert sorted(position for batch in batches for position in batch) == list(range(len(lengths)))
    for batch in batches:
        longest = max(lengths[position] for position in batch)
        assert len(batch) * longest <= 100 or len(batch) == 1


def test_a_resumed_run_forms_the_same_batches() -> None:
    lengths = [7, 90, 33, 33, 20, 61, 5, 5, 12]
    whole = token_batches(lengths, 100)
    remaining = [position for batch in whole[2:] for position in sorted(batch)]
    resumed = token_batches([lengths[position] for position in remaining], 100)
    assert [[remaining[position] for position in batch] for batch in resumed] == whole[2:]


@pytest.mark.parametrize(("conversations", "shared"), [
    ([[1, 2, 3], [1, 2, 4]], 2), ([[1, 2], [1, 2, 3]], 1), ([[1], [2]], 0), ([[5, 6, 7]] * 2, 2), ([[1, 9], [1, 2, 3], [1, 9, 9]], 1),
])  # fmt: skip
def test_conversations_share_their_prefix_and_keep_a_token_each(conversations: list[list[int]], shared: int) -> None:
    assert common_prefix_length(conversations) == shared


def test_replies_to_one_dialogue_are_read_together() -> None:
    long_prefix, other_prefix = list(range(100, 150)), list(range(200, 240))
    conversations = [
        [*long_prefix, 1], [*other_prefix, 7, 8], [*long_prefix, 2, 3], [5] * 60, [*long_prefix, 0, 0],
        [*other_prefix, 9],
    ]  # fmt: skip
    names = ["a", "b", "a", "c", "a", "b"]
    groups = groups_of(conversations, names, 100, pad=-1)
    assert [(len(group.prefix), group.suffixes, group.positions) for group in groups] == [
        (50, [[1], [2, 3], [0, 0]], [0, 2, 4]),
        (40, [[7, 8], [9]], [1, 5]),
    ]
    assert [[group.positions for group in batch] for batch in group_batches(groups, 100)] == [[[0, 2, 4], [1, 5]]]
    assert len(group_batches(groups, 99)) == 2, "two dialogues of 50 tokens, with padding"
    assert len(group_batches([groups[0]] * 2, 100)) == 1 and len(group_batches([groups[0]] * 20, 1000)) == 1
    assert len(group_batches([groups[0]] * 60, 3000)) == 1 and len(group_batches([groups[0]] * 61, 3000)) == 2
    only_padding = groups_of(conversations, names, 100, pad=0)
    assert [group.positions for group in only_padding] == [[1, 5]], "a reply of only pad tokens is not grouped"
    assert groups_of(conversations, names, 45, pad=-1)[0].positions == [1, 5], (
        "a dialogue beyond the budget is not grouped"
    )


def test_nothing_is_scored_twice_and_equal_conversations_share_a_score(tmp_path: Path) -> None:
    calls: list[int] = []

    def forward(conversations: list[Sequence[int]]) -> list[float]:
        calls.append(len(conversations))
        return [float(len(conversation)) for conversation in conversations]

    path = tmp_path / "j.jsonl"
    with Journal(path, ScoredConversation) as journal:
        first = score_all("m", [[1, 2], [3], [1, 2]], list("aba"), "w", journal, 100, lambda: Passes(forward, None, 0))
    assert [result.score for result in first] == [2.0, 1.0, 2.0] and calls == [2]
    path.write_bytes(path.read_bytes()[:-9])  # truncate the last line
    with Journal(path, ScoredConversation) as journal:
        repeated = score_all(
            "m", [[1, 2], [3], [1, 2]], list("aba"), "w", journal, 100, lambda: Passes(forward, None, 0)
        )
        assert [result.score for result in repeated] == [result.score for result in first]
        score_all("m", [[1, 2]], ["a"], "other weights", journal, 100, lambda: Passes(forward, None, 0))
    assert calls == [2, 1, 1]


def make_pair(name: str, chosen: str, rejected: str) -> Pair:
    return Pair(id=name, source="bridge", problem=name, prompt=[], chosen=chosen, rejected=rejected, margin=1)


def test_pair_accuracy_is_strict_and_length_stands_beside_it() -> None:
    pairs = [
        make_pair("a", "long reply", "x"), make_pair("b", "y", "long reply"), make_pair("c", "same", "size"),
        make_pair("d", "q", "r"),
    ]  # fmt: skip
    reward_values = [(2.0, 1.0), (0.0, 1.0), (1.0, 1.0), (None, 1.0)]
    rewards = [
        PairReward(id=pair.id, problem=pair.id, chosen=better, rejected=worse)
        for pair, (better, worse) in zip(pairs, reward_values, strict=True)
    ]
    scores = {score.metric: score for score in reward_pair_scores("m", pairs, rewards, BootstrapSettings(100, 1))}
    assert scores["pair_accuracy"].value == pytest.approx(1 / 3) and scores["pair_accuracy"].missing == 1
    assert scores["ties"].value == pytest.approx(1 / 3) and scores["mean_margin"].value == 0.0
    assert scores["longer_reply_accuracy"].value == pytest.approx(1 / 3)
    assert scores["length_correlation"].value == pytest.approx(1.0)


def test_the_ensemble_sums_verdicts() -> None:
    rewards = [
        PairReward(id="a", problem="a", criterion="x", chosen=0.9, rejected=0.2),
        PairReward(id="a", problem="a", criterion="y", chosen=0.6, rejected=0.7),
        PairReward(id="a", problem="a", criterion="z", chosen=0.1, rejected=0.9),
    ]
    [two_criteria] = sum_criteria(rewards, ["x", "y"])
    assert (two_criteria.chosen, two_criteria.rejected) == (2.0, 1.0)
    [three_criteria] = sum_criteria(rewards, ["x", "y", "z"])
    assert (three_criteria.chosen, three_criteria.rejected) == (2.0, 2.0)


def test_heldout_accuracy_stands_beside_the_frequent_label() -> None:
    labellings = [
        Labelling(id=str(n), dialogue=str(n), criterion="x", label=label, probability=p, tokens=1)
        for n, (label, p) in enumerate([(1, 0.9), (1, 0.2), (0, 0.4), (1, 0.8)])
    ]
    accuracies = {
        spelt(score): score.value for score in classifier_heldout_scores("m", labellings, BootstrapSettings(100, 1))
    }
    assert accuracies == {"heldout_accuracy/x": 0.75, "majority_accuracy/x": 0.75}


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
    scores = [Score.model_validate(record) for record in json.loads(files["out"].read_text())]
    accuracy = {score.criterion: score.value for score in scores if score.metric == "pair_accuracy"}
    assert accuracy == {None: 1.0, BEST_3: 1.0, "c1": 0.25, "c2": 0.5, "c3": 0.75, "c4": 1.0}
    assert not [score for score in scores if "heldout" in score.metric or "majority" in score.metric]


def test_a_classifier_without_a_number_leaves_the_pair_without_one() -> None:
    rewards = [
        PairReward(id="a", problem="a", criterion="x", chosen=0.9, rejected=0.2),
        PairReward(id="a", problem="a", criterion="y", chosen=None, rejected=0.7),
    ]
    [pair_of_both] = sum_criteria(rewards, ["x", "y"])
    assert pair_of_both.chosen is None and pair_of_both.why_none == "a classifier gave no number"
    labellings = [
        Labelling(id="1", dialogue="1", criterion="x", label=1, probability=None, tokens=1),
        Labelling(id="2", dialogue="2", criterion="x", label=1, probability=0.9, tokens=1),
    ]
    accuracies = {
        spelt(score): (score.value, score.n, score.missing)
        for score in classifier_heldout_scores("m", labellings, BootstrapSettings(100, 1))
    }
    assert accuracies["heldout_accuracy/x"] == (1.0, 1, 1)


def test_a_score_of_nan_is_none_and_is_not_computed_again(tmp_path: Path) -> None:
    path = tmp_path / "j.jsonl"
    for _ in range(2):
        with Journal(path, ScoredConversation) as journal:
            forward = Passes(lambda rows: [float("nan")] * len(rows), None, 0)
            [result] = score_all("m", [[1, 2]], ["a"], "w", journal, 100, lambda forward=forward: forward)
        assert result.score is None
    assert len(path.read_text().splitlines()) == 1


def test_the_papers_mixes_have_this_runs_numbers_beside_them() -> None:
    """MathTutorBench, Table 3: a row of a mix shows the accuracy and margin of the reward model that names it."""
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


def test_the_leading_reward_model_is_chosen_on_half_of_the_problems(tmp_path: Path) -> None:
    """The other half shows the accuracy of the chosen model; pairs of one problem are on the same side."""
    names = [f"p{number}" for number in range(40)]
    halves = set(ranked_by_seed(sorted(names), 1)[:20])
    right = {
        "early": lambda name: name in halves,  # right on the half that chooses, wrong on the other
        "late": lambda name: name not in halves,
        "steady": lambda name: True if name == "p0" else int(name[1:]) % 3 > 0,
    }
    files = []
    for model, is_right in right.items():
        pairs = [
            PairReward(id=f"{name}-{copy}", problem=name, chosen=1.0 if is_right(name) else -1.0, rejected=0.0)
            for name in names
            for copy in range(2)
        ]
        files.append(tmp_path / f"{model}.jsonl")
        write_records(files[-1], pairs)
    job = ChooseRewardModel(reward_models=list(right), resamples=100, seed=1)
    choose_reward_model(job=job, rewards=files, out=tmp_path / "out.json")
    choice = json.loads((tmp_path / "out.json").read_text(encoding="utf-8"))
    by_model = {row["reward_model"]: row for row in choice["rows"]}
    assert choice["leader"] == "early"
    assert (by_model["early"]["chosen_on"]["value"], by_model["early"]["shown_on"]["value"]) == (1, 0)
    assert (by_model["late"]["chosen_on"]["value"], by_model["late"]["shown_on"]["value"]) == (0, 1)
    assert all(row[half]["n"] == 40 for row in choice["rows"] for half in ("chosen_on", "shown_on"))


def test_the_scores_and_the_report_lead_with_the_chosen_model(tmp_path: Path) -> None:
    config = shipped("config")
    config["run"] |= {"reward_models": ["demo-untrained", "demo-reward-model"], "reward_comparisons": [],
                      "leading_reward_model": "best"}  # fmt: skip
    plan = Plan(check_config(config))
    assert plan.chooses_reward_model
    chosen = tmp_path / "results/rewards/leading_reward_model.json"
    chosen.parent.mkdir(parents=True)
    chosen.write_text(json.dumps({"leader": "demo-reward-model", "rows": []}), encoding="utf-8")
    led = with_leading_graders(plan, tmp_path / "results")
    assert led.run.reward_models == ["demo-reward-model", "demo-untrained"]
    assert with_leading_graders(plan, tmp_path) is plan, "before the choice, the first one leads"
    grades = [
        Grade(id="i", task=CARD.task, kind="reward", by=name, scoring="robust", criterion="win", value=True, correct=True, raw="")
        for name in plan.run.reward_models
    ]  # fmt: skip
    index = leader_first(index_grades(grades), leading_names([chosen]))
    assert [by for _, by in index] == ["demo-reward-model", "demo-untrained"]
    scores = score_task(CARD, "t", [make_item("i")], index, BootstrapSettings(100, 1))
    assert {score.by for score in scores if score.headline} == {"demo-reward-model"}
    scores = score_task(CARD, "t", [make_item("i")], index_grades(grades), BootstrapSettings(100, 1))
    assert {score.by for score in scores if score.headline} == {"demo-untrained"}


def test_the_gain_of_a_prompt_is_a_paired_difference() -> None:
    """Three of four replies win with one prompt, one of four with the other: the gain is .5 on the same items."""
    gain = paired_gain([[1, 1, 1, 0], [1, 0, 0, 0]], ["a", "b", "c", "d"])
    assert gain is not None and gain["value"] == 0.5 and (gain["simple"], gain["extended"]) == (0.25, 0.75)
    assert gain["low"] is not None and gain["high"] is not None and gain["low"] < 0.5 < gain["high"]
    same = paired_gain([[1, 0] * 20, [1, 0] * 20], [str(number) for number in range(40)])
    assert same is not None and same["value"] == 0 and same["high"] == pytest.approx(-same["low"]), same
    assert paired_gain([[], []], []) is None
