"""Agreement with people: against pandas and scikit-learn on the raw data, and against real judges' predictions."""

from __future__ import annotations

import itertools
import json
import math
import random
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from columns import quantity, spelt
from maieutic.benchmarks.mrbench.predictions import score_predictions
from maieutic.benchmarks.mrbench.section import cell_notes, is_attainable
from maieutic.benchmarks.mrbench.statistics import release_statistics
from maieutic.core.errors import UserError
from maieutic.core.records import (
    Judgement,
    Label,
    LabelSetDescription,
    Pair,
    Quantity,
    Reply,
    Scale,
    Score,
    Turn,
    Verdict,
    read_records,
    write_records,
)
from maieutic.core.stats import BootstrapSettings
from maieutic.datasets.mrbench import DESIRED_LABELS, LABELS, SCALES, labelled_set
from maieutic.judges.answers import parse_verdicts
from maieutic.judges.labelled_sets import LABEL_LOADERS, LabelledData, read_labelled_data, sample_replies, write_labels
from maieutic.judges.rubrics import Criterion, Rubric
from maieutic.people.labels import read_human_labels, resolved_labels
from maieutic.report.trust import leniency_word
from maieutic.scores.papers import printed_rows
from maieutic.validation.agreement import (
    MEASURES,
    Pairing,
    estimate_agreement,
    fleiss_kappa_of,
    krippendorff_alpha,
    mean_pairwise_cohen,
    tables_of,
)
from maieutic.validation.corrected_rates import annotator_scores, corrected_rates, prediction_powered_mean
from maieutic.validation.pairs import judge_pair_scores
from maieutic.validation.traffic_light import Light, light_of
from maieutic.validation.trust import (
    LENGTH_THIRDS,
    LabelsByReply,
    agreement_scores,
    correlations_by_tutor,
    desired_match_rates,
    leniency_scores,
    pairings_of,
    panel_gain,
    verdict_labels,
)
from maieutic.validation.validation_jobs import (
    CheckJudges,
    CorrectByPeople,
    ValidateJudge,
    check_judges,
    correct_by_people,
    validate_judge,
    with_release,
)
from scipy.stats import pearsonr, spearmanr
from shipped import registries
from sklearn.metrics import accuracy_score, cohen_kappa_score, f1_score

FEW = BootstrapSettings(100, 1)
SHORT = {"MI": "Mistake_Identification", "ML": "Mistake_Location", "PG": "Providing_Guidance", "AC": "Actionability"}


@pytest.fixture(scope="module")
def raw(data: Path) -> dict[str, list]:
    names = {"mrbench": "MRBench_V1", "mrbench_v3": "mrbench_v3_devset", "test": "mrbench_v3_testset"}
    return {key: json.loads((data / f"mrbench/{name}.json").read_text()) for key, name in names.items()}


def labels_of(records: list) -> LabelledData:
    made = labelled_set(records)
    about = LABEL_LOADERS["mrbench"].about
    return LabelledData({item.id: item for item in made.items}, made.replies, made.labels, about)


@pytest.fixture(scope="module")
def table(raw: dict[str, list]) -> pd.DataFrame:
    """One row a label, read from the raw JSON by pandas alone."""
    rows = [
        {"n": number, "tutor": tutor, "subset": record["Data"].lower(), "criterion": name, "label": label}
        for number, record in enumerate(raw["mrbench"])
        for tutor, given in record["anno_llm_responses"].items()
        for name, label in given["annotation"].items()
    ]
    return pd.DataFrame(rows)


def test_all_releases_are_read(raw: dict[str, list]) -> None:
    counts = {name: labelled_set(records) for name, records in raw.items()}
    assert {name: tuple(map(len, made[:3])) for name, made in counts.items()} == {
        "mrbench": (192, 1589, 12712), "mrbench_v3": (300, 2476, 9904), "test": (191, 1547, 0),
    }  # fmt: skip
    one = {name: made.items[0] for name, made in counts.items()}
    assert all("\u00a0" not in item.vars["history"] and "\nStudent: " in item.vars["history"] for item in one.values())
    assert {item.tags["source"] for item in counts["mrbench_v3"].items} == {"bridge", "mathdial"}
    with pytest.raises(UserError, match="has no labels"):
        write_labels("mrbench_v3", LABEL_LOADERS["mrbench"], [raw["test"]], Path("/nowhere"))


def test_subsets_of_v3_are_told_by_its_ids(raw: dict[str, list]) -> None:
    """V3 does not say where a dialogue comes from; on V1, which says it, the rule is right throughout."""
    bare = [{key: value for key, value in record.items() if key != "Data"} for record in raw["mrbench"]]
    assert [item.tags["source"] for item in labelled_set(bare).items] == [r["Data"].lower() for r in raw["mrbench"]]


def test_damr_is_that_of_pandas(raw: dict[str, list], table: pd.DataFrame) -> None:
    found = {
        (one.tutor, spelt(one)): one for one in desired_match_rates("people", labels_of(raw["mrbench"]), None, FEW)
    }
    table = table.assign(hit=table.label == table.criterion.map(DESIRED_LABELS))
    for subset in ("all", "bridge", "mathdial"):
        part = table if subset == "all" else table[table.subset == subset]
        expected = part.groupby(["tutor", "criterion"]).hit.agg(["mean", "size"])
        assert len(expected) == 8 * (8 if subset == "mathdial" else 9)
        for (tutor, criterion), row in expected.iterrows():
            one = found[tutor, f"damr/{criterion}/{subset}"]
            assert (one.value, one.n) == (pytest.approx(row["mean"]), row["size"])
    # F3: V1 gives 17.19 for the expert's tone, where Table 3 prints 92.19.
    assert round(100 * found["Expert", "damr/Tutor_Tone/all"].value, 2) == 17.19
    assert found["Expert", "damr/Tutor_Tone/all"].by is None


def test_statistics_are_those_of_pandas(raw: dict[str, list]) -> None:
    found = release_statistics(labelled_set(raw["mrbench"]))
    rows = [
        {"subset": record["Data"].lower(), "tutor": tutor, "length": len(given["response"].strip())}
        for record in raw["mrbench"]
        for tutor, given in record["anno_llm_responses"].items()
    ]
    replies = pd.DataFrame(rows)
    assert {name: (of["dialogues"], of["responses"]) for name, of in found.items()} == {
        "all": (192, 1589), "bridge": (53, 477), "mathdial": (139, 1112),
    }  # fmt: skip
    assert (found["all"]["distinct_dialogues"], found["all"]["human_responses"]) == (188, 245)
    assert (found["all"]["labels_of_tone"], found["all"]["offensive"]) == (1589, 1)
    lengths = pd.Series([len(record["conversation_history"]) for record in raw["mrbench"]])
    assert found["all"]["dialogue_length"] == round(lengths.mean(), 2) == 936.88
    means = replies.groupby("tutor").length.mean().round(2)
    assert found["all"]["response_length"] == means.to_dict()
    bridge = replies[replies.subset == "bridge"].groupby("tutor").length.mean().round(2)
    assert found["bridge"]["response_length"] == bridge.to_dict()


def test_which_printed_cells_can_be_had() -> None:
    """F3: 8 of the 72 cells of Table 8 and 1 of the 64 of Table 9 are shares of 60 and 132 replies."""
    cells = {number: [one for one in printed_rows("mrbench") if one.table == number] for number in ("3", "8", "9")}
    assert {number: len(of) for number, of in cells.items()} == {"3": 72, "8": 72, "9": 64}
    assert sum(is_attainable(one.value, 60) for one in cells["8"]) == 8
    assert sum(is_attainable(one.value, 132) for one in cells["9"]) == 1
    tone = next(one for one in cells["3"] if (one.row, one.metric) == ("Expert", "Tutor_Tone"))
    assert any("imply 12.19" in note for note in cell_notes(tone, 0.1719))
    swapped = [one for one in cells["8"] if one.text]
    assert {(one.metric, one.text) for one in swapped} == {
        ("Actionability", "Coherence"), ("Coherence", "Actionability"),
    }  # fmt: skip


def test_the_swapped_headers_are_those_that_give_table_3() -> None:
    """Weighted by 60 and 132 dialogues, Tables 8 and 9 give Table 3 under the headers as they are stored here."""
    by_cell = {(one.table, one.row, one.metric): one.value for one in printed_rows("mrbench")}
    for tutor, name in itertools.product(["Mistral", "Sonnet", "Llama-3.1-8B"], ["Actionability", "Coherence"]):
        mixed = (60 * by_cell["8", tutor, name] + 132 * by_cell["9", tutor, name]) / 192
        assert mixed == pytest.approx(by_cell["3", tutor, name], abs=0.02)


@pytest.fixture(scope="module")
def predictions(data: Path, raw: dict[str, list]) -> dict[str, list[dict]]:
    paths = sorted((data / "mrbench_judge_preds").glob("*.jsonl"))
    return {path.stem.split("_")[1]: [json.loads(line) for line in path.open()] for path in paths}


def judgements_from(rows: list[dict], labels: LabelledData) -> list[Judgement]:
    """The predictions as a judge's answers. They stand in the order of the release."""
    told = []
    for row, reply in zip(rows, labels.replies, strict=True):
        assert row["tutor"] == reply.tutor
        verdicts = [
            Verdict(criterion=name, value=(row["pred"] or {}).get(short), why_none=None if row["pred"] else "unread")
            for short, name in SHORT.items()
        ]
        common = {"id": reply.id, "task": "mrbench_v3", "tutor": reply.tutor, "rubric": "mrbench_taxonomy"}
        told.append(Judgement(**common, key=str(row["idx"]), verdicts=verdicts, raw=row["raw"]))
    return told


@pytest.mark.parametrize(("judge", "unread"), [("mistralai", 6), ("Qwen", 0)])
def test_real_predictions_give_the_bea_figures(
    judge: str, unread: int, predictions: dict[str, list[dict]], raw: dict[str, list]
) -> None:
    labels, rows = labels_of(raw["mrbench_v3"]), predictions[judge]
    assert sum(row["pred"] is None for row in rows) == unread
    scores = agreement_scores(
        judge, pairings_of(labels.labels, verdict_labels(judgements_from(rows, labels)), {}, SCALES), SCALES, FEW
    )
    found = {(spelt(one), one.scoring): one for one in scores}
    three = ["Yes", "To some extent", "No"]
    for short, name in SHORT.items():
        gold = [row["gold"][short] for row in rows]
        said = [row["pred"][short] if row["pred"] else "unread" for row in rows]
        yes = [
            ["No" if label == "No" else "unread" if label == "unread" else "Yes" for label in of] for of in (gold, said)
        ]
        expected = {
            "macro_f1": f1_score(gold, said, labels=three, average="macro"),
            "accuracy": accuracy_score(gold, said),
            "lenient_macro_f1": f1_score(*yes, labels=["Yes", "No"], average="macro"),
            "lenient_accuracy": accuracy_score(*yes),
        }
        for metric, value in expected.items():
            one = found[f"{metric}/{name}", "paper_compat"]
            assert (one.value, one.n, one.missing) == (pytest.approx(value), 2476, 0), (metric, name)
        read = [(a, b) for a, b in zip(gold, said, strict=True) if b != "unread"]
        one = found[f"macro_f1/{name}", "robust"]
        assert (one.value, one.n, one.missing) == (
            pytest.approx(f1_score(*zip(*read, strict=True), labels=three, average="macro")), 2476 - unread, unread,
        )  # fmt: skip
        kappa = cohen_kappa_score(*zip(*read, strict=True), labels=three, weights="quadratic")
        assert found[f"weighted_kappa/{name}", "robust"].value == pytest.approx(kappa)
        print(judge, name, {metric: round(value, 4) for metric, value in expected.items()})


@pytest.mark.parametrize("judge", ["mistralai", "Qwen"])
def test_real_judges_raw_answers_are_read_as_their_authors_read_them(
    judge: str, predictions: dict[str, list[dict]]
) -> None:
    three = ["Yes", "To some extent", "No"]
    criteria = {short: Criterion(title=short, definition="?", labels=three, desired="Yes") for short in SHORT}
    card = Rubric(
        rubric="r", version=1, title="R", source="S", kind="labels", answer="json", prompt="p", criteria=criteria
    )
    for row in predictions[judge]:
        said = {one.criterion: one.value for one in parse_verdicts(card, criteria, row["raw"], "stop")}
        assert said == (row["pred"] or dict.fromkeys(SHORT)), row["raw"]


@pytest.mark.filterwarnings("ignore:An input array is constant")  # of the oracle's
def test_ac_in_both_codings_is_that_of_scipy(predictions: dict[str, list[dict]], raw: dict[str, list]) -> None:
    labels = labels_of(raw["mrbench_v3"])
    told = verdict_labels(judgements_from(predictions["Qwen"], labels))
    found = {(one.tutor, spelt(one)): one.value for one in correlations_by_tutor("q", labels, told)}
    people = {"Yes": 1.0, "To some extent": 0.5, "No": 0.0}
    critic = {"Yes": 1, "To some extent": 2, "No": 3}
    for tutor, (short, name) in itertools.product(["GPT4", "Novice", "Phi3"], SHORT.items()):
        rows = [row for row in predictions["Qwen"] if row["tutor"] == tutor]
        gold, said = ([row[key][short] for row in rows] for key in ("gold", "pred"))
        paper = pearsonr([people[label] for label in gold], [critic[label] for label in said]).statistic
        if math.isnan(paper):
            assert found[tutor, f"ac/{name}"] is None
            continue
        assert found[tutor, f"ac_paper/{name}"] == pytest.approx(paper)
        assert found[tutor, f"ac/{name}"] == pytest.approx(-paper), "the same but for the sign: one side is reversed"


@pytest.mark.parametrize("name", MEASURES)
@pytest.mark.parametrize("seed", range(6))
def test_what_the_bootstrap_resamples_is_the_measure_itself(name: str, seed: int) -> None:
    chance = random.Random(seed)
    weights = [[8, 2, 1], [1, 1, 8], [0, 3, 3], [5, 0, 1], [1, 1, 1], [9, 1, 1]][seed]
    pairings = []
    for number in range(90):
        gold = chance.choices(range(3), weights)[0]
        said = gold if chance.random() < 0.5 else chance.choice([0, 1, 2, None])
        pairings.append(Pairing(gold, said, f"p{number % 30}"))
    about = MEASURES[name]
    read = [one for one in pairings if one.verdict is not None]
    used = pairings if about.strict else read
    said = [3 if one.verdict is None else one.verdict for one in used]
    value = about.value([one.gold for one in used], said, 3)
    sums = about.of_tables(tables_of(used, 3).sum(0).reshape(3, 4))
    assert float(sums) == pytest.approx(value)
    found = estimate_agreement(name, pairings, 3, strict=True, sampling=BootstrapSettings(200, 1))
    assert found.interval.low < value < found.interval.high


def test_a_constant_side_has_no_correlation_and_no_kappa() -> None:
    pairings = [Pairing(0, 0, f"p{number}") for number in range(10)]
    for name in ("kappa", "weighted_kappa", "ac", "ac_paper", "spearman"):
        assert estimate_agreement(name, pairings, 3, False, FEW).value is None
    assert estimate_agreement("accuracy", pairings, 3, False, FEW).value == 1.0
    said = [Pairing(number % 3, 1, f"p{number}") for number in range(9)]
    assert (
        estimate_agreement("ac", said, 3, False, FEW).value is None
        and estimate_agreement("kappa", said, 3, False, FEW).value == 0.0
    )


def test_codings_stand_as_written_down() -> None:
    """People: 1, 0.5, 0. The critic's printed scores: 1, 2, 3. Spearman runs with the aligned coding."""
    gold, said = [0, 1, 2, 2, 0, 1], [0, 1, 2, 1, 0, 0]
    expected = pearsonr([1, 0.5, 0, 0, 1, 0.5], [1, 2, 3, 2, 1, 1]).statistic
    assert MEASURES["ac_paper"].value(gold, said, 3) == pytest.approx(expected)
    assert MEASURES["ac"].value(gold, said, 3) == pytest.approx(-expected)
    assert MEASURES["spearman"].value(gold, said, 3) == pytest.approx(spearmanr(gold, said).statistic)


def test_fleiss_kappa_of_a_published_table() -> None:
    """The usual worked example, ten subjects and fourteen raters: kappa 0.210."""
    counts = [
        [0, 0, 0, 0, 14], [0, 2, 6, 4, 2], [0, 0, 3, 5, 6], [0, 3, 9, 2, 0], [2, 2, 8, 1, 1],
        [7, 7, 0, 0, 0], [3, 2, 6, 3, 0], [2, 5, 3, 2, 2], [6, 5, 2, 1, 0], [0, 2, 2, 3, 7],
    ]  # fmt: skip
    rated = [[str(kind) for kind, n in enumerate(row) for _ in range(n)] for row in counts]
    assert fleiss_kappa_of(rated) == pytest.approx(0.210, abs=5e-4)
    assert fleiss_kappa_of([]) is None and fleiss_kappa_of([["Yes"]]) is None
    two = [["Yes", "Yes"], ["No", "Yes"], ["No", "No"], ["Yes", "Yes"]]
    named = [{"ann": ann, "bob": bob} for ann, bob in two]
    assert mean_pairwise_cohen(named) == pytest.approx(cohen_kappa_score(*zip(*two, strict=True)))
    # By name: ann and bob are always opposed, bob and eve always agree.
    opposed = [{"ann": a, "bob": b} for a, b in (("Yes", "No"), ("No", "Yes")) * 5]
    agreed = [{"bob": label, "eve": label} for label in ("Yes", "No") * 5]
    assert mean_pairwise_cohen([*opposed, *agreed]) == pytest.approx(0.0) and mean_pairwise_cohen(
        agreed
    ) == pytest.approx(1.0)


def pair(number: int, chosen: str = "Why?", rejected: str = "It is 4, as I said.") -> Pair:
    return Pair(
        id=f"p{number}",
        source="bridge",
        problem=f"q{number // 2}",
        prompt=[],
        chosen=chosen,
        rejected=rejected,
        margin=1,
    )


def verdict(number: int, order: str, value: str | None) -> Judgement:
    common = {"id": f"p{number}", "task": "bridge_pairs", "tutor": None, "rubric": "r", "order": order}
    return Judgement(**common, key=f"{number}{order}", verdicts=[Verdict(criterion=None, value=value)], raw="")


def test_place_and_merit_are_told_apart_on_pairs() -> None:
    pairs = [pair(number) for number in range(8)]
    always_first = {"ab": "first", "ba": "second"}  # names whatever stands first
    told = [verdict(number, order, always_first[order]) for number in range(4) for order in ("ab", "ba")]
    told += [verdict(number, order, "first") for number in (4, 5, 6) for order in ("ab", "ba")]  # the expert's, always
    told += [verdict(7, "ab", "first"), verdict(7, "ba", None)]
    found = {spelt(one): one for one in judge_pair_scores("j", pairs, told, "r", FEW, headline=True)}
    assert found["pair_accuracy/r"].value == pytest.approx((4 + 6 + 1) / 15) and found["pair_accuracy/r"].headline
    assert (found["consistent_accuracy/r"].value, found["consistent_accuracy/r"].n) == (pytest.approx(3 / 7), 7)
    assert found["flip_rate/r"].value == pytest.approx(4 / 7)
    assert found["first_place/r"].value == pytest.approx((8 + 3 + 1) / 15)
    assert (found["unreadable/r"].value, found["pair_accuracy/r"].missing) == (1 / 16, 1)
    assert found["longer_reply_accuracy/r"].value == 0.0


def test_a_prediction_powered_mean_mends_a_biased_judge() -> None:
    chance = np.random.default_rng(1)
    held, errors = 0, []
    for _ in range(60):
        people = (chance.random(400) < 0.6).astype(float)
        judge = np.where(chance.random(400) < 0.85, people, 1.0)  # says yes too often
        found = prediction_powered_mean(list(people[:100]), list(judge[:100]), list(judge[100:]))
        held += found.interval.low <= people.mean() <= found.interval.high
        errors.append((abs(found.value - people.mean()), abs(judge.mean() - people.mean())))
    mended, biased = np.array(errors).mean(0)
    assert held >= 54 and mended < biased, "an interval of 95 % holds the truth nearly always"


def test_what_is_lost_is_not_quietly_left_out() -> None:
    """Unreadable and divided replies: a tenth of them at most, and the labels' own mean is of all labels."""
    said = {(str(n), "m", "Actionability"): "Yes" if n < 50 else None for n in range(60)}
    labelled = {(str(n), "m", "Actionability"): "Yes" if n % 2 else "No" for n in range(30)}
    lost = {spelt(one): one for one in corrected_rates("j", labelled, said, "ppi", SCALES, FEW)}
    assert lost["ppi/Actionability"].value is None and lost["ppi/Actionability"].missing == 10, "of sixty"
    assert lost["ppi_labels/Actionability"].value == 0.5, "the labels' own rate is of all labels"
    said |= {(str(n), "m", "Actionability"): "No" for n in range(50, 56)}
    found = {spelt(one): one for one in corrected_rates("j", labelled, said, "ppi", SCALES, FEW)}
    assert (found["ppi/Actionability"].n, found["ppi/Actionability"].missing) == (56, 4)
    divided = {**labelled, **{(str(n), "m", "Actionability"): None for n in range(10)}}
    torn = {spelt(one): one for one in corrected_rates("j", divided, said, "ppi", SCALES, FEW)}
    assert torn["ppi/Actionability"].value is None and torn["ppi/Actionability"].missing == 14, "ten are divided"
    few = {key: label for key, label in labelled.items() if int(key[0]) < 19}
    assert corrected_rates("j", few, said, "ppi", SCALES, FEW)[0].value is None, "fewer than twenty labels"
    every = {(str(n), "m", "Actionability"): "Yes" if n % 4 else "No" for n in range(60)}
    whole = corrected_rates("j", every, said, "ppi", SCALES, FEW)[0]
    assert whole.value == pytest.approx(0.75, abs=0.02) and whole.low < whole.value < whole.high, (
        "people have said it all"
    )
    sure = prediction_powered_mean([1.0] * 20, [1.0] * 20, [1.0] * 100)
    assert (sure.value, sure.interval) == (1.0, (None, None)), "labels that do not vary say nothing of the error"


def test_a_perfect_judge_is_not_red_for_a_rare_label(raw: dict[str, list]) -> None:
    labels = labels_of(raw["mrbench"])
    for seed in range(6):
        chosen = {(one.id, one.tutor) for one in sample_replies(labels.replies, 32, seed)}
        mine = [one for one in labels.labels if (one.id, one.tutor) in chosen]
        told = {(one.id, one.tutor, one.criterion): one.label for one in mine}
        scores = agreement_scores("j", pairings_of(mine, told, {}, SCALES), SCALES, FEW)
        scores = with_release(scores, "mrbench")
        found = {one.quantity: one for one in scores if one.scoring == "robust"}
        kappa = found[quantity("mrbench:mean_weighted_kappa")]
        assert (kappa.value, kappa.low) == (pytest.approx(1.0), pytest.approx(1.0))
        assert light_of(found, "mrbench", None).colour == "green"


def test_resamples_without_a_value_do_not_widen_the_interval() -> None:
    pairings = [Pairing(int(number < 3), int(number < 3), f"p{number}") for number in range(20)]
    found = estimate_agreement("kappa", pairings, 3, False, BootstrapSettings(2000, 1))
    assert (found.value, found.interval) == (1.0, (1.0, 1.0)), "a resample that lost the rare label has no kappa"


def test_a_prediction_powered_mean_needs_labels_and_takes_a_constant_judge() -> None:
    assert prediction_powered_mean([1.0] * 10, [1.0] * 10, [1.0] * 50) is None, "too few labels"
    assert prediction_powered_mean([1.0] * 50, [1.0] * 50, []) is None, "nothing to predict"
    found = prediction_powered_mean([1.0, 0.0] * 20, [1.0] * 40, [1.0] * 100)
    assert found.value == pytest.approx(0.5) and found.interval.low < 0.5 < found.interval.high


def people_csv(path: Path, *rows: str) -> Path:
    path.write_text("task,item,tutor,criterion,label,annotator\n" + "\n".join(rows) + "\n", encoding="utf-8")
    return path


BAD_PEOPLE = {
    "t,1,m,Actionability,Maybe,a": "no such label",
    "t,1,m,Kindness,Yes,a": "no such label",
    "t,,m,Actionability,Yes,a": "item is missing",
    "t,1,m": "criterion, label is missing",
    "t,1,m,Actionability,No,a": "duplicate label of this reply, criterion and annotator",
}


@pytest.mark.parametrize(("row", "told"), BAD_PEOPLE.items())
def test_a_bad_line_of_labels_is_named(row: str, told: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=told) as caught:
        read_human_labels(people_csv(tmp_path / "people.csv", "t,1,m,Actionability,Yes,a", row), {"t": SCALES})
    assert "people.csv:3" in str(caught.value)


def test_labels_of_several_people_are_compared_and_merged(tmp_path: Path) -> None:
    rows = [f"t,{n},m,Actionability,{label},{who}" for n in range(6) for who, label in (("a", "Yes"), ("b", "Yes"))]
    rows += [
        "t,6,m,Actionability,Yes,a",
        "t,6,m,Actionability,No,b",
        "t,7,m,Actionability,No,a",
        "t,7,m,Actionability,No,b",
    ]
    labels = read_human_labels(people_csv(tmp_path / "people.csv", *rows), {"t": SCALES})
    found = {spelt(one): one for one in annotator_scores("j", labels, SCALES)}
    assert found["cohen_kappa/Actionability"].value == pytest.approx(0.6)
    assert found["fleiss_kappa/Actionability"].n == 8
    assert {one.id: label for one, label in resolved_labels(labels)} == {
        **dict.fromkeys("012345", "Yes"), "6": None, "7": "No",
    }, "6 is divided"  # fmt: skip
    stray = [*labels, labels[0].model_copy(update={"annotator": "eve"})]
    found = {spelt(one): one for one in annotator_scores("j", stray, SCALES)}
    assert found["fleiss_kappa/Actionability"].n == 7, "one stray label makes no table of its own"


def test_rates_are_corrected_by_people_and_unknown_replies_refused(tmp_path: Path) -> None:
    told = [
        Judgement(
            id=str(n), task="t", tutor="m", rubric="mrbench_taxonomy", key=str(n), raw="",
            verdicts=[Verdict(criterion="Actionability", value="Yes")],
        )
        for n in range(60)
    ]  # fmt: skip
    write_records(tmp_path / "judged.jsonl", told)
    rows = [f"t,{n},m,Actionability,{'Yes' if n % 4 else 'No'}," for n in range(24)]
    people = people_csv(tmp_path / "people.csv", *rows)
    job, judged = (
        CorrectByPeople(judge="j", resamples=100, seed=1, scales={"t": SCALES}, tasks={"mrbench_taxonomy": ["t"]}),
        [tmp_path / "judged.jsonl"],
    )
    correct_by_people(
        job=job, verdicts=judged, people=people, out=tmp_path / "out.json", differences=tmp_path / "d.json"
    )
    found = {spelt(one): one for one in json.loads((tmp_path / "out.json").read_text())}
    assert found["ppi/Actionability"]["value"] == pytest.approx(0.75), "the judge says yes always: the labels decide"
    assert (found["ppi_judge/Actionability"]["value"], found["ppi/Actionability"]["clusters"]) == (1.0, 24)
    with pytest.raises(UserError, match=r"people.csv:2.*no judged reply of n"):
        unknown = people_csv(people, "t,1,n,Actionability,Yes,")
        correct_by_people(job=job, verdicts=judged, people=unknown, out=tmp_path / "o", differences=tmp_path / "d")


def kappa_score(value: float | None, low: float | None, n: int = 200) -> dict[Quantity, Score]:
    common = {"task": "trust", "grader": "j", "scoring": "robust", "headline": False, "missing": 0, "clusters": 50}
    of = quantity("mrbench:mean_weighted_kappa")
    high = None if value is None or low is None else min(1.0, 2 * value - low)
    return {of: Score(**common, **of._asdict(), value=value, low=low, high=high, n=n)}


def other(name: str, value: float, low: float = 0.0, n: int = 200) -> dict[Quantity, Score]:
    common = {"task": "trust", "grader": "j", "scoring": "robust", "headline": False, "missing": 0, "clusters": 50}
    high = min(1.0, 2 * value - low)
    return {quantity(name): Score(**common, **quantity(name)._asdict(), value=value, low=low, high=high, n=n)}


LIGHTS = [
    (kappa_score(0.7, 0.5), "green"),
    (kappa_score(0.7, 0.3), "amber"),
    (kappa_score(0.45, 0.25), "amber"),
    (kappa_score(0.45, 0.1), "grey"),
    (kappa_score(0.3, 0.1), "red"),
    (kappa_score(0.45, 0.1) | other("mrbench:unreadable", 0.3), "red"),
    (kappa_score(0.1, 0.0), "red"),
    (kappa_score(None, None), "grey"),
    (kappa_score(1.0, None), "grey"),
    (kappa_score(0.9, 0.8, n=29), "grey"),
    (kappa_score(0.9, 0.8, n=30), "green"),
    (kappa_score(0.1, 0.0, n=49), "grey"),
    (kappa_score(0.1, 0.0, n=50), "red"),
    (kappa_score(None, None) | other("mrbench:unreadable", 1.0), "red"),
    (kappa_score(0.7, 0.5) | other("unreadable/r", 1.0), "red"),
    (kappa_score(0.7, 0.5) | other("mrbench:unreadable", 0.1), "amber"),
    (kappa_score(0.7, 0.5) | other("mrbench:unreadable", 0.3), "red"),
    (kappa_score(0.7, 0.5) | other("flip_rate/r", 0.3), "amber"),
    (kappa_score(0.7, 0.5) | other("flip_rate/r", 1.0), "red"),
    (other("pair_accuracy/r", 0.85, 0.8) | other("flip_rate/r", 0.1), "green"),
    (other("pair_accuracy/r", 0.85, 0.8), "grey"),
    (other("pair_accuracy/r", 0.9, 0.8) | other("flip_rate/r", 0.1) | other("unreadable/r", 0.9), "red"),
    (other("pair_accuracy/r", 0.7, 0.6) | other("flip_rate/r", 0.1), "amber"),
    (other("pair_accuracy/r", 0.5, 0.45) | other("flip_rate/r", 0.1), "red"),
    (other("pair_accuracy/r", 0.64, 0.48) | other("flip_rate/r", 0.1), "grey"),
    (other("pair_accuracy/r", 1.0, 1.0, n=40) | other("flip_rate/r", 0.0, n=20), "grey"),
    ({}, "grey"),
]


@pytest.mark.parametrize(("scores", "colour"), LIGHTS)
def test_the_light_follows_its_thresholds(scores: dict[Quantity, Score], colour: str) -> None:
    assert light_of(scores, "mrbench", "r").colour == colour


def test_each_dimension_has_a_light_of_its_own() -> None:
    """A good and a bad dimension are amber on average, green and red alone; one without labels has no kappa."""
    both = kappa_score(0.4, 0.3)
    for criterion, value, low in (("Coherence", 0.8, 0.7), ("Actionability", 0.05, -0.1)):
        of = quantity(f"mrbench:weighted_kappa/{criterion}")
        [mean] = kappa_score(value, low).values()
        both[of] = mean.model_copy(update=of._asdict())
    assert light_of(both, "mrbench", None).colour == "amber"
    assert light_of(both, "mrbench", None, "Coherence").colour == "green"
    assert light_of(both, "mrbench", None, "Actionability").colour == "red"
    assert light_of(both, "mrbench", None, "Tutor_Tone") == Light("grey", "not measured")


def lengthy(tutor: str, item: int, words: int, label: str) -> tuple[Reply, Label]:
    """A reply of so many characters and the label that people gave it."""
    name, turn = f"i{item}", Turn(messages="none", text="x" * words, finish="stop")
    reply = Reply(id=name, task="t", tutor=tutor, key="k", turns=[turn])
    return reply, Label(id=name, task="t", tutor=tutor, criterion="Actionability", label=label, problem=f"p{item}")


def labelled_by(given: Sequence[tuple[Reply, Label]]) -> LabelledData:
    replies, labels = zip(*given, strict=True)
    return LabelledData({}, list(replies), list(labels), LabelSetDescription(scales=SCALES))


def test_leniency_is_the_judges_rate_less_peoples_by_length() -> None:
    """Stricter on long replies alone: of each third 20 replies, of which people call all actionable."""
    given = [lengthy("m", number, 10 + number, "Yes") for number in range(60)]
    verdicts: LabelsByReply = {
        (label.id, "m", "Actionability"): "No" if number >= 50 else "Yes" for number, (_, label) in enumerate(given)
    }
    scores = leniency_scores("j", labelled_by(given), verdicts, FEW)
    found = {(one.criterion, one.subset): one for one in scores}
    values = [found["Actionability", subset].value for subset in (None, *LENGTH_THIRDS)]
    assert values == [pytest.approx(-10 / 60), 0.0, 0.0, pytest.approx(-0.5)]
    assert [found[None, subset].value for subset in (None, *LENGTH_THIRDS)] == values and found[None, None].n == 60
    assert leniency_word([found["Actionability", subset] for subset in LENGTH_THIRDS]) == "stricter at some lengths"
    always = leniency_scores("j", labelled_by(given), dict.fromkeys(verdicts, "No"), FEW)
    assert leniency_word([one for one in always if one.criterion and one.subset]) == "stricter at every length"
    assert leniency_word([]) == "" and leniency_scores("j", labelled_by(given), {}, FEW) == []


def test_a_panel_is_compared_with_its_best_judge_on_shared_verdicts() -> None:
    """Three judges that are each wrong elsewhere: their majority is always right, each alone in two of three."""
    given = [lengthy("m", number, 10, "Yes" if number % 2 else "No") for number in range(60)]
    labels = labelled_by(given)

    def said_except(wrong: int) -> LabelsByReply:
        other = {"Yes": "No", "No": "Yes"}
        return {
            (label.id, "m", "Actionability"): other[label.label] if number % 3 == wrong else label.label
            for number, (_, label) in enumerate(given)
        }

    panel: LabelsByReply = {(label.id, "m", "Actionability"): label.label for _, label in given}
    judges = {f"j{wrong}": said_except(wrong) for wrong in range(3)}
    gain, p = panel_gain("panel", panel, judges, labels)
    assert (gain.by, gain.n) == ("j0", 60) and gain.value == pytest.approx(1 - 1 / 3)
    assert gain.low is not None and 0.2 < gain.low < gain.value and p.value is not None and p.value < 0.001
    [none, p] = panel_gain("panel", judges["j1"], {"j1": judges["j1"]}, labels)
    assert none.value == 0.0 and p.value == pytest.approx(1.0)
    assert panel_gain("panel", panel, {}, labels) == [] and panel_gain("panel", {}, judges, labels) == []


def test_a_sample_of_labelled_replies_grows_without_changing(raw: dict[str, list]) -> None:
    replies = labelled_set(raw["mrbench"]).replies
    some = {limit: {(one.id, one.tutor) for one in sample_replies(replies, limit, 1)} for limit in (20, 60)}
    assert len(some[60]) == 60 and some[20] < some[60] and len(sample_replies(replies, None, 1)) == 1589


@pytest.mark.slow
def test_a_judge_is_validated_from_file_to_file(raw: dict[str, list], tmp_path: Path) -> None:
    """A judge that repeats the labels of people agrees with them in every number; half the labels mend nothing."""
    write_labels("mrbench", LABEL_LOADERS["mrbench"], [raw["mrbench"]], tmp_path / "mrbench")
    labels = read_labelled_data(tmp_path / "mrbench")
    by_reply: dict[tuple[str, str], list[Label]] = {}
    for label in labels.labels:
        by_reply.setdefault((label.id, label.tutor), []).append(label)
    told = [
        Judgement(
            id=item, task="mrbench", tutor=tutor, rubric="mrbench_taxonomy", key="k", raw="", prompt_tokens=10,
            verdicts=[Verdict(criterion=one.criterion, value=one.label) for one in of],
        )
        for (item, tutor), of in by_reply.items()
    ]  # fmt: skip
    told += [verdict(number, order, "first") for number in range(4) for order in ("ab", "ba")]
    write_records(tmp_path / "told.jsonl", told)
    write_records(tmp_path / "pairs.jsonl", [pair(number) for number in range(4)])
    validate_judge(
        job=ValidateJudge(judge="j", resamples=100, seed=1),
        verdicts=tmp_path / "told.jsonl",
        single=[],
        labels=[tmp_path / "mrbench/labels.jsonl"],
        pairs=[tmp_path / "pairs.jsonl"],
        out=tmp_path / "trust.json",
        pairs_out=[tmp_path / "on_pairs.json"],
    )
    scores = [Score.model_validate(one) for one in json.loads((tmp_path / "trust.json").read_text())]
    mine = {spelt(one): one.value for one in scores if one.grader == "j"}
    assert mine["mrbench:mean_weighted_kappa"] == pytest.approx(1.0) and mine["unreadable"] == 0.0
    assert all(mine[f"mrbench:macro_f1/{name}"] == 1.0 for name in LABELS)
    assert mine["prompt_tokens"] == 15_890.0
    theirs = {(one.tutor, spelt(one)): one.value for one in scores if one.grader != "j"}
    assert theirs["GPT4", "mrbench:damr/Coherence/all"] == pytest.approx(
        theirs["GPT4", "mrbench:ppi_half_judge/Coherence"]
    )
    assert abs(theirs["GPT4", "mrbench:ppi_half/Coherence"] - theirs["GPT4", "mrbench:damr/Coherence/all"]) < 0.05
    on_pairs = {spelt(one): one["value"] for one in json.loads((tmp_path / "on_pairs.json").read_text())}
    assert on_pairs["pair_accuracy/r"] == 1.0 and on_pairs["flip_rate/r"] == 0.0
    check_judges(
        job=CheckJudges(judges=["j"], limits={"j": 0.0}),
        verdicts=[tmp_path / "told.jsonl"],
        out=tmp_path / "ok.json",
    )
    assert len(read_records(tmp_path / "told.jsonl", Judgement)) == len(told)
    assert set(registries()["labels"]) >= {"mrbench", "mrbench_v2", "mrbench_v3"}
    assert corrected_rates("j", {}, {}, "ppi", SCALES, FEW) == []


@pytest.mark.parametrize("release", ["mrbench", "mrbench_v2"])
@pytest.mark.parametrize("named", [False, True], ids=["in the release's order", "by item"])
def test_perfect_predictions_score_one_although_ids_occur_twice(
    release: str, named: bool, raw: dict[str, list], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    records = raw["mrbench"]
    write_labels(release, LABEL_LOADERS[registries()["labels"][release]["loader"]], [records], tmp_path / "labels")
    ids = [record["conversation_id"] for record in records]
    assert len(ids) - len(set(ids)) == 4, "four pairs of dialogues share an id"
    told = [
        {
            "conversation_id": record["conversation_id"],
            "tutor": tutor,
            "pred": {**given["annotation"], "tutor_identification": tutor},
            **({"item": f"mrbench-{number:03d}"} if named else {}),
        }
        for number, record in enumerate(records)
        for tutor, given in record["anno_llm_responses"].items()
    ]
    told = told[::-1] if named else told
    path = tmp_path / "perfect.jsonl"
    path.write_text("\n".join(map(json.dumps, told)), encoding="utf-8")
    score_predictions(tmp_path / "labels", path, tmp_path / "out.json", 100, 1, "refuse")
    found = json.loads((tmp_path / "out.json").read_text())
    assert set(found) == {*LABELS, "tutor_identification"}
    for track, measures in found.items():
        assert measures["accuracy"] == {**measures["accuracy"], "value": 1.0, "n": 1589}, track
        assert measures["macro_f1"]["value"] == 1.0 and measures["missing"]["absent"] == 0
    assert "without a line" not in capsys.readouterr().out


@pytest.mark.parametrize(("rule", "n", "accuracy"), [("wrong", 2476, 0.9), ("exclude", 2228, 1.0)])
def test_a_partial_file_says_what_it_lacks_and_which_rule_was_applied(
    rule: str, n: int, accuracy: float, raw: dict[str, list], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_labels("mrbench_v3", LABEL_LOADERS["mrbench"], [raw["mrbench_v3"]], tmp_path / "v3")
    told = [
        {"conversation_id": record["conversation_id"], "tutor": tutor, "pred": given["annotation"]}
        for record in raw["mrbench_v3"]
        for tutor, given in record["tutor_responses"].items()
    ]
    lost, unparsed = 200, 48
    told = [{**row, "pred": None} if number < unparsed else row for number, row in enumerate(told[lost:])]
    path = tmp_path / "partial.jsonl"
    path.write_text("\n".join(map(json.dumps, told)), encoding="utf-8")
    score_predictions(tmp_path / "v3", path, tmp_path / "out.json", 100, 1, rule)
    found = json.loads((tmp_path / "out.json").read_text())["Actionability"]
    assert found["missing"] == {"rule": rule, "replies": 2476, "absent": lost, "unparsed": unparsed}
    assert (found["accuracy"]["n"], found["accuracy"]["value"]) == (n, pytest.approx(accuracy, abs=0.001))
    said = {"wrong": "counted as wrong", "exclude": "left out"}[rule]
    assert f"200 replies without a line and 48 without a label are {said}" in capsys.readouterr().out
    with pytest.raises(UserError, match=r"of 2476 replies 200 have no line and 48 no label.*--missing wrong"):
        score_predictions(tmp_path / "v3", path, tmp_path / "out.json", 100, 1, "refuse")


def test_all_lines_with_one_kind_of_fault_are_named_at_once(raw: dict[str, list], tmp_path: Path) -> None:
    write_labels("mrbench_v3", LABEL_LOADERS["mrbench"], [raw["mrbench_v3"]], tmp_path / "v3")
    record = raw["mrbench_v3"][0]
    good = {"conversation_id": record["conversation_id"], "tutor": "GPT4", "pred": {"Actionability": "Yes"}}
    cases = {
        "unknown ids": ([good, {**good, "conversation_id": "x"}, {**good, "conversation_id": "y"}], r"mine.jsonl:2: no dialogue of the release has the id 'x' \(2 such lines: 2, 3\)"),
        "unknown tutors": ([{**good, "tutor": "Nobody"}, {**good, "tutor": "Nemo"}], r"mine.jsonl:1: Nobody has no reply .*2 such lines: 1, 2.*use one of the tutors of the release: .*GPT4"),
        "labels": ([{**good, "pred": {"Actionability": "maybe"}}], r"mine.jsonl:1: 'maybe' is not a label of Actionability.*use one of Yes, To some extent, No"),
        "tutors' names": ([{**good, "pred": {"tutor_identification": "Nobody"}}], r"mine.jsonl:1: 'Nobody' is not a label of tutor_identification.*use one of .*GPT4"),
        "dimensions without labels": ([{**good, "pred": {"Coherence": "Yes"}}], r"mine.jsonl:1: the release has no labels of Coherence.*remove this track; the release has Mistake_Identification"),
        "integer ids": ([{**good, "conversation_id": 7}], r"mine.jsonl:1: cannot be read: conversation_id: Input should be a valid string, found 7"),
        "integer labels": ([{**good, "pred": {"Actionability": 1}}], r"mine.jsonl:1: cannot be read: pred.Actionability: .*found 1"),
        "nothing left": ([{**good, "pred": {"Actionability": None}}], "Actionability: no label is left to score"),
        "empty": ([], "expected predictions, found an empty file"),
        "unknown item": ([{**good, "item": "mrbench-999"}], "its item is unknown.*mrbench-000"),
    }  # fmt: skip
    path = tmp_path / "mine.jsonl"
    for told, why in cases.values():
        path.write_text("\n".join(map(json.dumps, told)), encoding="utf-8")
        with pytest.raises(UserError, match=why):
            score_predictions(tmp_path / "v3", path, tmp_path / "out.json", 100, 1, "exclude")
        assert not (tmp_path / "out.json").exists()
    path.write_text(json.dumps(good).replace('"Yes"', '"Yes", "Actionability": "No"'), encoding="utf-8")
    with pytest.raises(UserError, match=r"mine.jsonl:1: cannot be read: the key 'Actionability' occurs twice"):
        score_predictions(tmp_path / "v3", path, tmp_path / "out.json", 100, 1)


def test_a_track_of_nulls_is_wrong_throughout_and_one_that_no_line_names_is_said(
    raw: dict[str, list], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_labels("mrbench_v3", LABEL_LOADERS["mrbench"], [raw["mrbench_v3"]], tmp_path / "v3")
    told = [
        {"conversation_id": record["conversation_id"], "tutor": tutor, "pred": {"Actionability": None}}
        for record in raw["mrbench_v3"]
        for tutor in record["tutor_responses"]
    ]
    path = tmp_path / "nulls.jsonl"
    path.write_text("\n".join(map(json.dumps, told)), encoding="utf-8")
    score_predictions(tmp_path / "v3", path, tmp_path / "out.json", 100, 1)
    found = json.loads((tmp_path / "out.json").read_text())
    assert list(found) == ["Actionability"] and found["Actionability"]["accuracy"]["value"] == 0.0
    assert found["Actionability"]["missing"] == {"rule": "wrong", "replies": 2476, "absent": 0, "unparsed": 2476}
    assert "has no predictions for them: Mistake_Identification, Mistake_Location" in capsys.readouterr().out
    with pytest.raises(UserError, match="2476 replies 0 have no line and 2476 no label"):
        score_predictions(tmp_path / "v3", path, tmp_path / "out.json", 100, 1, "refuse")


def test_one_line_for_an_id_of_two_dialogues_is_the_first_ones(raw: dict[str, list], tmp_path: Path) -> None:
    records = raw["mrbench"]
    write_labels("mrbench", LABEL_LOADERS["mrbench"], [records], tmp_path / "labels")
    seen: set[str] = set()
    told = []
    for record in records:
        if record["conversation_id"] not in seen:  # the second dialogue of each pair has no line
            seen.add(record["conversation_id"])
            told += [
                {"conversation_id": record["conversation_id"], "tutor": tutor, "pred": given["annotation"]}
                for tutor, given in record["anno_llm_responses"].items()
            ]
    path = tmp_path / "once.jsonl"
    path.write_text("\n".join(map(json.dumps, told)), encoding="utf-8")
    score_predictions(tmp_path / "labels", path, tmp_path / "out.json", 100, 1, "exclude")
    found = json.loads((tmp_path / "out.json").read_text())
    for track in LABELS:
        assert found[track]["accuracy"]["value"] == 1.0 and found[track]["accuracy"]["n"] == len(told) < 1589
        assert found[track]["missing"]["absent"] == 1589 - len(told)


@pytest.mark.slow
def test_predictions_of_ones_own_are_scored_by_all_five_tracks(
    raw: dict[str, list], predictions: dict[str, list[dict]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_labels("mrbench_v3", LABEL_LOADERS["mrbench"], [raw["mrbench_v3"]], tmp_path / "v3")
    rows = predictions["mistralai"]
    told = [
        {
            "conversation_id": row["conversation_id"],
            "tutor": row["tutor"],
            "pred": row["pred"]
            and {
                **{SHORT[short]: label for short, label in row["pred"].items()},
                "tutor_identification": "GPT4" if number % 2 else row["tutor"],
            },
        }
        for number, row in enumerate(rows)
    ]
    path = tmp_path / "mine.jsonl"
    path.write_text("\n".join(map(json.dumps, told)) + "\n", encoding="utf-8")
    score_predictions(tmp_path / "v3", path, tmp_path / "out.json", 100, 1)
    found = json.loads((tmp_path / "out.json").read_text())
    gold = [row["gold"]["MI"] for row in rows]
    said = [row["pred"]["MI"] if row["pred"] else "none" for row in rows]
    three = ["Yes", "To some extent", "No"]
    assert found["Mistake_Identification"]["macro_f1"]["value"] == pytest.approx(
        f1_score(gold, said, labels=three, average="macro")
    )
    tutors = [row["tutor"] for row in rows]
    named = [(row["pred"] or {}).get("tutor_identification", "none") for row in told]
    assert found["tutor_identification"]["macro_f1"]["value"] == pytest.approx(
        f1_score(tutors, named, labels=sorted(set(tutors)), average="macro")
    )
    assert len(set(tutors)) == 9 and "tutor_identification macro_f1" in capsys.readouterr().out
    path.write_text("\n".join(json.dumps(row) for row in told[:200]), encoding="utf-8")
    score_predictions(tmp_path / "v3", path, tmp_path / "out.json", 100, 1)
    part = json.loads((tmp_path / "out.json").read_text())
    assert part["Actionability"]["accuracy"]["n"] == 2476 and part["Actionability"]["accuracy"]["value"] < 0.1
    with pytest.raises(UserError, match="cannot be read"):
        score_predictions(tmp_path / "v3", tmp_path / "none.jsonl", tmp_path / "out.json", 100, 1)
    for bad, why in (
        ('{"conversation_id": "x"', "cannot be read"),
        ('{"conversation_id": ["x"], "tutor": "GPT4", "pred": null}', "cannot be read"),
        ('{"conversation_id": "x", "tutor": "GPT4", "pred": []}', "cannot be read"),
        ('{"conversation_id": "x", "tutor": "GPT4", "pred": null}', "no dialogue of the release has the id"),
        (json.dumps({**told[0], "pred": {"actionability": "Yes"}}), "did you mean 'Actionability'"),
        (f"{json.dumps(told[0])}\n{json.dumps(told[0])}", "mine.jsonl:2: this reply is predicted twice"),
        (json.dumps({**told[0], "tutor": "Nobody"}), "Nobody has no reply"),
        (json.dumps({**told[0], "pred": {"Actionability": "Maybe"}}), "'Maybe' is not a label of Actionability"),
    ):
        path.write_text(bad, encoding="utf-8")
        with pytest.raises(UserError, match=why):
            score_predictions(tmp_path / "v3", path, tmp_path / "out.json", 100, 1)


OBSERVERS = ("123321412...", "12332241253.".replace("3.", ".3"), ".3332342251.", "12332441251.")


@pytest.mark.parametrize(("level", "value"), [("nominal", 0.743), ("ordinal", 0.815)])
def test_krippendorffs_alpha_of_his_own_example(level: str, value: float) -> None:
    """Four observers, twelve units, cells that are missing: Computing Krippendorff's Alpha-Reliability (2011), C."""
    units = [[mark for mark in unit if mark != "."] for unit in zip(*OBSERVERS, strict=True)]
    scale = Scale(labels=tuple("12345"), level=level)
    assert krippendorff_alpha([unit for unit in units if len(unit) > 1], scale) == pytest.approx(value, abs=5e-4)
    assert krippendorff_alpha([["1", "1"]] * 9, scale) is None, "nothing varies"
    assert krippendorff_alpha([["1", "2"]], scale) is None, "one reply with two labels is no sample"
    assert krippendorff_alpha([["1", "2"], ["1"]], scale) is None
