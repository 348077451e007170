"""Tests of preference pairs: the published counts from the original files, and refused records."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from maieutic.benchmarks.mathtutorbench import mathdial_bridge
from maieutic.core.errors import UserError
from maieutic.core.records import Item, Judgement, Pair, PairReward, Verdict, read_records
from maieutic.core.stats import BootstrapSettings
from maieutic.datasets import bridge, gsm8k, mathdial, mrbench, ultrafeedback
from maieutic.datasets.pair_table import preferences_of_table
from maieutic.datasets.pairs import PAIR_SOURCES
from maieutic.datasets.sources import read_source
from maieutic.preparation.pairs import refusal_reason, turns_before, write_pairs
from maieutic.rewards.criteria import binary_label, split_by_dialogue
from maieutic.rewards.overlap import items_with_seen_problems, leaked_items
from maieutic.serving.conversations import merge_turns, messages_before_reply, messages_to_score, parse_turns
from maieutic.validation.pairs import judge_pair_scores as judge_pair_scores
from maieutic.validation.rewards import leak_scores, with_pairs_task
from maieutic.validation.rewards import reward_pair_scores as reward_pair_scores
from run_configs import check_config
from shipped import shipped

DEMO = Path("resources/demo")
DESIRED = dict(mrbench.DESIRED_LABELS)


def read_published(data: Path, name: str) -> list[dict[str, Any]]:
    return read_source(data / name, Path(name).suffix[1:])


def mean_turns(pairs: list[Pair]) -> float:
    return sum(map(turns_before, pairs)) / len(pairs)


def test_mrbench_gives_the_published_4521_pairs(data: Path) -> None:
    pairs = mrbench.mrbench_pairs(read_published(data, "mrbench/MRBench_V1.json"))
    assert len(pairs) == 4521 == PAIR_SOURCES["mrbench"].pairs
    assert not any(map(refusal_reason, pairs)) and len({pair.id for pair in pairs}) == 4521
    assert {pair.margin for pair in pairs} <= set(range(1, 9))
    assert all(pair.prompt[0]["content"].startswith("Problem: ") for pair in pairs)


def test_bridge_without_mrbenchs_topics_gives_the_published_482_pairs(data: Path) -> None:
    splits = [read_published(data, f"bridge/{name}.json") for name in ("train", "validation", "test")]
    records = read_published(data, "mrbench/MRBench_V1.json")
    pairs = bridge.bridge_pairs(*splits, records)
    assert len(pairs) == 482 == PAIR_SOURCES["bridge"].pairs
    assert round(mean_turns(pairs), 2) == 2.79 == PAIR_SOURCES["bridge"].turns
    assert len({pair.problem for pair in pairs}) == 167, "pairs of one topic are resampled together"
    assert len(bridge.bridge_pairs(*splits, [])) == 700, "the leakage rule removes the others"


def test_other_sources_on_the_available_splits(data: Path) -> None:
    """The train files are not available, so compare with the specification's counts for the test files."""
    inpainted_pairs = gsm8k.inpainted_pairs(read_published(data, "gsm8k/test_socratic.jsonl"))
    assert len(inpainted_pairs) == 4821 - 1319
    # The training solutions' steps stand for their sub-questions: one pair for each step but the first of a problem.
    train = read_published(data, "gsm8k/train.jsonl")
    lines = [line for record in train for line in record["answer"].split("\n")[:-1]]  # the last line is the answer
    steps = [line for line in lines if line.strip()]
    totals = [len(part) - len(train) + len(inpainted_pairs) for part in (steps, lines)]
    assert totals == [22749, 22753], "the paper's number counts four blank lines as steps"
    mathdial_pairs = mathdial.mathdial_pairs(read_published(data, "mathdial/test.jsonl"))
    assert mean_turns(mathdial_pairs) == pytest.approx(2.93, abs=0.006) and len(mathdial_pairs) == 928
    assert len(ultrafeedback.ultrafeedback_pairs(read_published(data, "ultrafeedback/train_clean.jsonl"))) == 1000


def test_benchmark_replies_in_the_training_pairs(data: Path) -> None:
    """49 of 1,150 and 27 of 327 human replies also follow the same student turn in MRBench."""
    pairs = mrbench.mrbench_pairs(read_published(data, "mrbench/MRBench_V1.json"))
    counts = (("mathdial_bridge", 1150, 49, 200), ("mathdial_bridge_hard", 327, 27, 131))
    for name, item_count, leaked, shared in counts:
        items = mathdial_bridge.next_turn(read_published(data, f"mathtutorbench/datasets/{name}.json"), "task")
        assert (len(items), len(leaked_items(items, pairs))) == (item_count, leaked)
        assert len(items_with_seen_problems(items, pairs)) == shared


def demo_records(source: str) -> list[list[dict[str, Any]]]:
    paths = {
        "gsm8k_inpainted": ["gsm8k/test_socratic.jsonl"],
        "mathdial": ["mathdial/train.jsonl"],
        "mrbench": ["mrbench/MRBench_V1.json"],
        "ultrafeedback": ["ultrafeedback/train.jsonl"],
        "bridge": ["bridge/train.json", "bridge/validation.json", "bridge/test.json", "mrbench/MRBench_V1.json"],
    }
    return [read_source(DEMO / name, name.rpartition(".")[2]) for name in paths[source]]


@pytest.mark.parametrize("source", PAIR_SOURCES)
def test_every_source_reads_the_demo(source: str, tmp_path: Path) -> None:
    write_pairs(source, demo_records(source), tmp_path / "pairs.jsonl", tmp_path / "counts.json")
    pairs = read_records(tmp_path / "pairs.jsonl", Pair)
    counts = json.loads((tmp_path / "counts.json").read_text())
    assert len(pairs) == counts["pairs"] > 9
    assert not any(map(refusal_reason, pairs)) and all(pair.source == source for pair in pairs)


BAD_RECORDS = {
    "no rejected reply": {"c_r": [{"text": " "}]},
    "no chosen reply": {"c_r_": []},
    "equal replies": {"c_r": [{"text": "Same."}], "c_r_": [{"text": "Same. "}]},
}


@pytest.mark.parametrize(("reason", "change"), BAD_RECORDS.items(), ids=BAD_RECORDS)
def test_a_pair_without_a_preference_is_refused_and_counted(
    reason: str, change: dict[str, Any], tmp_path: Path
) -> None:
    train, *others = demo_records("bridge")
    train[1] = {**train[1], **change}
    write_pairs("bridge", [train, *others], tmp_path / "pairs.jsonl", tmp_path / "counts.json")
    counts = json.loads((tmp_path / "counts.json").read_text())
    assert counts["refused"] == {reason: 1} and counts["pairs"] == 19


def test_a_file_of_another_shape_is_one_clear_line(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"^preferences/mrbench: mrbench cannot be read: KeyError"):
        write_pairs("mrbench", [[{"conversation_history": "Tutor: Hi"}]], tmp_path / "p", tmp_path / "c")
    with pytest.raises(UserError, match="expected valid pairs, found none among 0"):
        write_pairs("ultrafeedback", [[]], tmp_path / "p", tmp_path / "c")


@pytest.mark.parametrize(("changes", "count"), [
    ({}, 8),
    ({"Tutor_Tone": "Neutral"}, 7),
    ({"Revealing_of_the_Answer": "Yes (and the answer is correct)"}, 7),
    ({"Mistake_Location": "To some extent", "Coherence": "No"}, 6),
    (dict.fromkeys(DESIRED, "No"), 1),
])  # fmt: skip
def test_desired_criteria_are_counted_as_in_equation_2(changes: dict[str, str], count: int) -> None:
    assert mrbench.desired_criteria({**DESIRED, **changes}) == count


@pytest.mark.parametrize(("criterion", "label", "value"), [
    ("Actionability", "No", 0),
    ("Actionability", "To some extent", 1),
    ("Tutor_Tone", "Offensive", 0),
    ("Tutor_Tone", "Neutral", 1),
    ("Revealing_of_the_Answer", "No", 1),
    ("Revealing_of_the_Answer", "Yes (but the answer is incorrect)", 1),
    ("Revealing_of_the_Answer", "Yes (and the answer is correct)", 0),
])  # fmt: skip
def test_labels_become_binary(criterion: str, label: str, value: int) -> None:
    assert binary_label(criterion, label) == value


def test_each_criterion_has_one_most_negative_label() -> None:
    for criterion, labels in mrbench.LABELS.items():
        assert [binary_label(criterion, label) for label in labels].count(0) == 1, criterion


def test_classifiers_are_tested_on_other_dialogues() -> None:
    replies = mrbench.labelled_replies(*demo_records("mrbench"))
    split = split_by_dialogue(replies, 0.2, 1)
    assert len(split.train) + len(split.test) == len(replies)
    assert not {reply.problem for reply in split.train} & {reply.problem for reply in split.test}
    assert split_by_dialogue(replies, 0.2, 2).test != split.test
    assert split_by_dialogue(replies, 0, 1) == (replies, []), "a share of 0 keeps all replies for training"


def test_dialogues_as_printed_become_turns() -> None:
    text = "Tutor: Hi\u00a0\n\u00a0Student: I think\nit is 4\u00a0\n\u00a0 4\u00a0\n\u00a0Student: or 5: maybe\u00a0\n\u00a0Tutor: Why?"
    assert merge_turns(parse_turns(text)) == [
        {"role": "assistant", "content": "Hi"},
        {"role": "user", "content": "I think\nit is 4 \n  4 or 5: maybe"},
        {"role": "assistant", "content": "Why?"},
    ]


def test_the_layout_is_the_released_scorers() -> None:
    item = Item(
        id="i", task="t", cluster="c", vars={"question": "1+1?"},
        reference={"text": "Two.", "solution": "2", "history": [{"role": "user", "content": "3"}]},
    )  # fmt: skip
    from maieutic.rewards.scoring import scored_dialogue

    assert messages_to_score(scored_dialogue(item), "Why?", "Judge.") == [
        {"role": "system", "content": "Judge."}, {"role": "user", "content": "Problem: 1+1?\nReference Solution: 2"},
        {"role": "user", "content": "3"}, {"role": "assistant", "content": "Why?"},
    ]  # fmt: skip


# user preferences -----------------------------------------------------------------------------------------------------

LINE = {"history": "Tutor: What is 2 + 2?\nStudent: 5", "question": "2 + 2", "first": "Look again?", "second": "4."}
VOTES = {
    "the first": (["first"], ("Look again?", "4.", False)),
    "the second, named B": (["B"], ("4.", "Look again?", False)),
    "a tie": (["tie"], ("Look again?", "4.", True)),
    "two of three": (["second", "2", "first"], ("4.", "Look again?", False)),
    "a divided vote is a tie": (["first", "second"], ("Look again?", "4.", True)),
}


@pytest.mark.parametrize(("votes", "pair"), VOTES.values(), ids=VOTES)
def test_a_table_of_preferences_is_read_by_majority(votes: list[str], pair: tuple[str, str, bool]) -> None:
    lines = [{**LINE, "preference": word, "annotator": f"a{number}"} for number, word in enumerate(votes)]
    [preference] = preferences_of_table("ours", {}, lines)
    assert (preference.chosen, preference.rejected, preference.tie) == pair
    assert preference.source == "ours"
    assert [message["role"] for message in preference.prompt] == [
        "user",
        "assistant",
        "user",
    ]
    resolved = [*lines, {**LINE, "preference": "second", "annotator": "eva", "resolves": "yes"}]
    unanimous = len(set(votes)) == 1
    expected = pair[0] if unanimous else "4."
    assert preferences_of_table("ours", {}, resolved)[0].chosen == expected, "a resolving vote decides divided votes"


def test_a_files_own_codes_are_mapped_to_preferences() -> None:
    values = {"1": "first", "0": "second", "Tie": "tie"}
    lines = [{**LINE, "id": code, "preference": code} for code in ("1", "0", "tie")]
    pairs = preferences_of_table("ours", {}, lines, values=values)
    assert [(pair.chosen == LINE["first"], pair.tie) for pair in pairs] == [(True, False), (False, False), (True, True)]
    with pytest.raises(UserError, match=r"unknown preference: '2'. Fix: use one of 1, 0, tie"):
        preferences_of_table("ours", {}, [{**LINE, "preference": "2"}], values=values)


def test_the_published_preferences_between_mrbenchs_replies_are_read(data: Path) -> None:
    """The file has 337 pairs of replies to 25 dialogues: 154 for the first reply, 150 for the second, 33 ties."""
    entry = check_config(shipped()).preferences["tutor_preferences"]
    records = read_published(data, "tutor_preferences/human_preference.csv")
    pairs = preferences_of_table("pub", entry.columns, records, values=entry.values)
    assert len(pairs) == 337 and len({pair.problem for pair in pairs}) == 25
    assert sum(pair.tie for pair in pairs) == 33 and all(refusal_reason(pair) is None for pair in pairs)
    first = [pair.chosen == record["response_a"].strip() for pair, record in zip(pairs, records, strict=True)]
    assert sum(is_first and not pair.tie for is_first, pair in zip(first, pairs, strict=True)) == 154


BAD_PREFERENCES = {
    "an unknown preference": ({"preference": "maybe"}, r"record 2: unknown preference: 'maybe'.*first, second, tie"),
    "a missing preference": ({"preference": ""}, r"record 2: preference is missing"),
    "a missing reply": ({"second": " "}, r"record 2: second is missing"),
    "a second vote": ({}, r"record 2: an unnamed annotator already judged this pair in record 1"),
    "the id of another pair": ({"id": "p1", "first": "Hm"}, r"record 2: another pair in record 1 has the same id"),
}


@pytest.mark.parametrize(("change", "message"), BAD_PREFERENCES.values(), ids=BAD_PREFERENCES)
def test_an_invalid_preference_is_named(change: dict[str, str], message: str) -> None:
    line = {**LINE, "preference": "first", "id": "p1"}
    with pytest.raises(UserError, match=message):
        preferences_of_table("ours", {}, [line, {**line, **change}])


def test_ties_are_counted_by_the_rule_that_is_stated() -> None:
    """Accuracy covers the four strict pairs; accuracy with ties also covers the two ties."""
    pairs = [
        Pair(id=str(n), source="s", problem=str(n), prompt=[{"role": "user", "content": "x"}], chosen="aa", rejected="b",
             margin=1.0, tie=n >= 4)
        for n in range(6)
    ]  # fmt: skip
    values = [(2.0, 1.0), (2.0, 1.0), (1.0, 1.0), (0.0, 1.0), (1.0, 1.0), (2.0, 1.0)]
    rewards = [PairReward(id=str(n), problem=str(n), chosen=c, rejected=r) for n, (c, r) in enumerate(values)]
    reward_scores = {
        score.metric: score
        for score in with_pairs_task(reward_pair_scores("rm", pairs, rewards, BootstrapSettings(100, 1)), "s")
    }
    assert (reward_scores["pair_accuracy"].value, reward_scores["pair_accuracy"].n) == (0.5, 4), (
        "equal rewards are wrong"
    )
    assert (reward_scores["accuracy_with_ties"].value, reward_scores["accuracy_with_ties"].n) == (
        pytest.approx(3 / 6),
        6,
    )
    assert {score.task for score in reward_scores.values()} == {"s_pairs"}
    votes = {0: "AB", 1: "AA", 2: "BA", 3: "AB", 4: "AA", 5: "AB"}  # letter chosen in each order; AB: first reply twice
    judgements = [
        Judgement(id=str(n), task="s_pairs", tutor=None, rubric="r", order=order, key=f"{n}{order}", raw="",
                  verdicts=[Verdict(criterion=None, value=("first" if (letter == "A") == (order == "ab") else "second"))])
        for n, letters in votes.items()
        for order, letter in zip(("ab", "ba"), letters, strict=True)
    ]  # fmt: skip
    judge_scores = {
        score.metric: score for score in judge_pair_scores("j", pairs, judgements, "r", BootstrapSettings(100, 1), True)
    }
    assert judge_scores["consistent_accuracy"].value == 0.5 and judge_scores["consistent_accuracy"].n == 4
    assert judge_scores["accuracy_with_ties"].value == pytest.approx(3 / 6), "pairs 0 and 3, and pair 4 as a tie"
    strict = {
        score.metric for score in judge_pair_scores("j", pairs[:4], judgements, "r", BootstrapSettings(100, 1), True)
    }
    assert "accuracy_with_ties" not in strict


def test_leaked_training_pairs_are_detected_by_text_and_by_dialogue() -> None:
    def make_pair(name: str, turn: str, chosen: str, solution: str = "s") -> Pair:
        prompt = messages_before_reply("Add.", solution, [{"role": "user", "content": turn}])
        return Pair(id=name, source="s", problem=name, prompt=prompt, chosen=chosen, rejected="No.", margin=1.0)

    tested_pairs = [make_pair("a", "5?", "Look!"), make_pair("b", "6?", "Hm."), make_pair("c", "7?", "New.")]
    training_pairs = [
        make_pair("x", "5 ?", "look"),
        make_pair("y", "6?", "Other", "another solution").model_copy(update={"rejected": "x"}),
    ]
    rewards = [
        PairReward(id=pair.id, problem=pair.id, chosen=float(pair.id == "c"), rejected=0.5) for pair in tested_pairs
    ]
    scores = {
        score.metric: score
        for score in leak_scores("rm", tested_pairs, rewards, training_pairs, BootstrapSettings(100, 1))
    }
    assert scores["leaked_text"].value == pytest.approx(1 / 3)
    assert scores["leaked_dialogue"].value == pytest.approx(2 / 3)
    assert (scores["clean_pair_accuracy"].value, scores["clean_pair_accuracy"].n) == (1.0, 1)
