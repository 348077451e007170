"""Tests of agreement with people: against pandas, scikit-learn and scipy, and on real judges' predictions."""

from __future__ import annotations

import itertools
import json
import math
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from columns import quantity, spelt
from maieutic.benchmarks.mrbench.predictions import score_predictions
from maieutic.benchmarks.mrbench.releases import release_statistics
from maieutic.benchmarks.mrbench.section import cell_notes, is_attainable
from maieutic.config.rubrics import Criterion, Rubric
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
from maieutic.datasets.labelled_sets import LABEL_LOADERS, LabelledData, read_labelled_data, sample_replies
from maieutic.datasets.mrbench import DESIRED_LABELS, LABELS, SCALES, labelled_set
from maieutic.judges.answers import parse_verdicts
from maieutic.people.labels import read_human_labels, resolved_labels
from maieutic.preparation.labels import write_labels
from maieutic.report.traffic_light import Light, light_of
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

SAMPLING = BootstrapSettings(100, 1)
DIMENSIONS = {
    "MI": "Mistake_Identification", "ML": "Mistake_Location", "PG": "Providing_Guidance", "AC": "Actionability",
}  # fmt: skip


@pytest.fixture(scope="module")
def raw(data: Path) -> dict[str, list]:
    names = {"mrbench": "MRBench_V1", "mrbench_v3": "mrbench_v3_devset", "test": "mrbench_v3_testset"}
    return {key: json.loads((data / f"mrbench/{name}.json").read_text()) for key, name in names.items()}


def labels_of(records: list) -> LabelledData:
    labelled = labelled_set(records)
    about = LABEL_LOADERS["mrbench"].about
    return LabelledData({item.id: item for item in labelled.items}, labelled.replies, labelled.labels, about)


@pytest.fixture(scope="module")
def table(raw: dict[str, list]) -> pd.DataFrame:
    """Return one row for each label, read from the raw JSON by pandas alone."""
    rows = [
        {"n": number, "tutor": tutor, "subset": record["Data"].lower(), "criterion": name, "label": label}
        for number, record in enumerate(raw["mrbench"])
        for tutor, response in record["anno_llm_responses"].items()
        for name, label in response["annotation"].items()
    ]
    return pd.DataFrame(rows)


def test_all_releases_are_read(raw: dict[str, list]) -> None:
    sets = {name: labelled_set(records) for name, records in raw.items()}
    assert {name: tuple(map(len, labelled[:3])) for name, labelled in sets.items()} == {
        "mrbench": (192, 1589, 12712), "mrbench_v3": (300, 2476, 9904), "test": (191, 1547, 0),
    }  # fmt: skip
    first_items = {name: labelled.items[0] for name, labelled in sets.items()}
    assert all(
        "\u00a0" not in item.vars["history"] and "\nStudent: " in item.vars["history"] for item in first_items.values()
    )
    assert {item.tags["source"] for item in sets["mrbench_v3"].items} == {"bridge", "mathdial"}
    with pytest.raises(UserError, match="has no labels"):
        write_labels("mrbench_v3", LABEL_LOADERS["mrbench"], [raw["test"]], Path("/nowhere"))


def test_subsets_of_v3_follow_from_its_ids(raw: dict[str, list]) -> None:
    """V3 does not state a dialogue's origin. V1 does, and the rule agrees with it on every dialogue."""
    bare = [{key: value for key, value in record.items() if key != "Data"} for record in raw["mrbench"]]
    assert [item.tags["source"] for item in labelled_set(bare).items] == [r["Data"].lower() for r in raw["mrbench"]]


def test_damr_is_that_of_pandas(raw: dict[str, list], table: pd.DataFrame) -> None:
    scores = {
        (score.tutor, spelt(score)): score
        for score in desired_match_rates("people", labels_of(raw["mrbench"]), None, SAMPLING)
    }
    table = table.assign(hit=table.label == table.criterion.map(DESIRED_LABELS))
    for subset in ("all", "bridge", "mathdial"):
        part = table if subset == "all" else table[table.subset == subset]
        expected = part.groupby(["tutor", "criterion"]).hit.agg(["mean", "size"])
        assert len(expected) == 8 * (8 if subset == "mathdial" else 9)
        for (tutor, criterion), row in expected.iterrows():
            score = scores[tutor, f"damr/{criterion}/{subset}"]
            assert (score.value, score.n) == (pytest.approx(row["mean"]), row["size"])
    # The released V1 labels yield 17.19 for the expert's tone; Table 3 prints 92.19.
    assert round(100 * scores["Expert", "damr/Tutor_Tone/all"].value, 2) == 17.19
    assert scores["Expert", "damr/Tutor_Tone/all"].by is None


def test_statistics_are_those_of_pandas(raw: dict[str, list]) -> None:
    statistics = release_statistics(labelled_set(raw["mrbench"]))
    rows = [
        {"subset": record["Data"].lower(), "tutor": tutor, "length": len(response["response"].strip())}
        for record in raw["mrbench"]
        for tutor, response in record["anno_llm_responses"].items()
    ]
    replies = pd.DataFrame(rows)
    assert {name: (values["dialogues"], values["responses"]) for name, values in statistics.items()} == {
        "all": (192, 1589), "bridge": (53, 477), "mathdial": (139, 1112),
    }  # fmt: skip
    assert (statistics["all"]["distinct_dialogues"], statistics["all"]["human_responses"]) == (188, 245)
    assert (statistics["all"]["labels_of_tone"], statistics["all"]["offensive"]) == (1589, 1)
    lengths = pd.Series([len(record["conversation_history"]) for record in raw["mrbench"]])
    assert statistics["all"]["dialogue_length"] == round(lengths.mean(), 2) == 936.88
    means = replies.groupby("tutor").length.mean().round(2)
    assert statistics["all"]["response_length"] == means.to_dict()
    bridge = replies[replies.subset == "bridge"].groupby("tutor").length.mean().round(2)
    assert statistics["bridge"]["response_length"] == bridge.to_dict()


def test_attainable_printed_cells() -> None:
    """8 of the 72 cells of Table 8 and 1 of the 64 of Table 9 are attainable shares of 60 and 132 replies."""
    cells = {number: [cell for cell in printed_rows("mrbench") if cell.table == number] for number in ("3", "8", "9")}
    assert {number: len(cells_of_table) for number, cells_of_table in cells.items()} == {"3": 72, "8": 72, "9": 64}
    assert sum(is_attainable(cell.value, 60) for cell in cells["8"]) == 8
    assert sum(is_attainable(cell.value, 132) for cell in cells["9"]) == 1
    tone = next(cell for cell in cells["3"] if (cell.row, cell.metric) == ("Expert", "Tutor_Tone"))
    assert any("imply 12.19" in note for note in cell_notes(tone, 0.1719))
    swapped = [cell for cell in cells["8"] if cell.text]
    assert {(cell.metric, cell.text) for cell in swapped} == {
        ("Actionability", "Coherence"), ("Coherence", "Actionability"),
    }  # fmt: skip


def test_swapped_headers_reproduce_table_3() -> None:
    """Weighted by 60 and 132 dialogues, Tables 8 and 9 yield Table 3 under the headers stored in this repository."""
    by_cell = {(cell.table, cell.row, cell.metric): cell.value for cell in printed_rows("mrbench")}
    for tutor, name in itertools.product(["Mistral", "Sonnet", "Llama-3.1-8B"], ["Actionability", "Coherence"]):
        mixed = (60 * by_cell["8", tutor, name] + 132 * by_cell["9", tutor, name]) / 192
        assert mixed == pytest.approx(by_cell["3", tutor, name], abs=0.02)


@pytest.fixture(scope="module")
def predictions(data: Path, raw: dict[str, list]) -> dict[str, list[dict]]:
    paths = sorted((data / "mrbench_judge_preds").glob("*.jsonl"))
    return {path.stem.split("_")[1]: [json.loads(line) for line in path.open()] for path in paths}


def judgements_from(rows: list[dict], labels: LabelledData) -> list[Judgement]:
    """Return the predictions as a judge's answers. Their order is that of the release."""
    judgements = []
    for row, reply in zip(rows, labels.replies, strict=True):
        assert row["tutor"] == reply.tutor
        verdicts = [
            Verdict(criterion=name, value=(row["pred"] or {}).get(short), why_none=None if row["pred"] else "unread")
            for short, name in DIMENSIONS.items()
        ]
        common = {"id": reply.id, "task": "mrbench_v3", "tutor": reply.tutor, "rubric": "mrbench_taxonomy"}
        judgements.append(Judgement(**common, key=str(row["idx"]), verdicts=verdicts, raw=row["raw"]))
    return judgements


@pytest.mark.parametrize(("judge", "unread"), [("mistralai", 6), ("Qwen", 0)])
def test_real_predictions_give_the_bea_figures(
    judge: str, unread: int, predictions: dict[str, list[dict]], raw: dict[str, list]
) -> None:
    labels, rows = labels_of(raw["mrbench_v3"]), predictions[judge]
    assert sum(row["pred"] is None for row in rows) == unread
    scores = agreement_scores(
        judge, pairings_of(labels.labels, verdict_labels(judgements_from(rows, labels)), {}, SCALES), SCALES, SAMPLING
    )
    by_quantity = {(spelt(score), score.scoring): score for score in scores}
    three = ["Yes", "To some extent", "No"]
    for short, name in DIMENSIONS.items():
        gold = [row["gold"][short] for row in rows]
        predicted = [row["pred"][short] if row["pred"] else "unread" for row in rows]
        lenient = [
            ["No" if label == "No" else "unread" if label == "unread" else "Yes" for label in column]
            for column in (gold, predicted)
        ]
        expected = {
            "macro_f1": f1_score(gold, predicted, labels=three, average="macro"),
            "accuracy": accuracy_score(gold, predicted),
            "lenient_macro_f1": f1_score(*lenient, labels=["Yes", "No"], average="macro"),
            "lenient_accuracy": accuracy_score(*lenient),
        }
        for metric, value in expected.items():
            score = by_quantity[f"{metric}/{name}", "paper_compat"]
            assert (score.value, score.n, score.missing) == (pytest.approx(value), 2476, 0), (metric, name)
        parsed = [(a, b) for a, b in zip(gold, predicted, strict=True) if b != "unread"]
        score = by_quantity[f"macro_f1/{name}", "robust"]
        assert (score.value, score.n, score.missing) == (
            pytest.approx(f1_score(*zip(*parsed, strict=True), labels=three, average="macro")), 2476 - unread, unread,
        )  # fmt: skip
        kappa = cohen_kappa_score(*zip(*parsed, strict=True), labels=three, weights="quadratic")
        assert by_quantity[f"weighted_kappa/{name}", "robust"].value == pytest.approx(kappa)
        print(judge, name, {metric: round(value, 4) for metric, value in expected.items()})


@pytest.mark.parametrize("judge", ["mistralai", "Qwen"])
def test_real_judges_raw_answers_are_read_as_their_authors_read_them(
    judge: str, predictions: dict[str, list[dict]]
) -> None:
    three = ["Yes", "To some extent", "No"]
    criteria = {short: Criterion(title=short, definition="?", labels=three, desired="Yes") for short in DIMENSIONS}
    card = Rubric(
        rubric="r", version=1, title="R", source="S", kind="labels", answer="json", prompt="p", criteria=criteria
    )
    for row in predictions[judge]:
        verdicts = {verdict.criterion: verdict.value for verdict in parse_verdicts(card, criteria, row["raw"], "stop")}
        assert verdicts == (row["pred"] or dict.fromkeys(DIMENSIONS)), row["raw"]


@pytest.mark.filterwarnings("ignore:An input array is constant")  # raised by the reference computation in this test
def test_ac_in_both_codings_is_that_of_scipy(predictions: dict[str, list[dict]], raw: dict[str, list]) -> None:
    labels = labels_of(raw["mrbench_v3"])
    verdicts = verdict_labels(judgements_from(predictions["Qwen"], labels))
    correlations = {(score.tutor, spelt(score)): score.value for score in correlations_by_tutor("q", labels, verdicts)}
    people = {"Yes": 1.0, "To some extent": 0.5, "No": 0.0}
    critic = {"Yes": 1, "To some extent": 2, "No": 3}
    for tutor, (short, name) in itertools.product(["GPT4", "Novice", "Phi3"], DIMENSIONS.items()):
        rows = [row for row in predictions["Qwen"] if row["tutor"] == tutor]
        gold, predicted = ([row[key][short] for row in rows] for key in ("gold", "pred"))
        paper = pearsonr([people[label] for label in gold], [critic[label] for label in predicted]).statistic
        if math.isnan(paper):
            assert correlations[tutor, f"ac/{name}"] is None
            continue
        assert correlations[tutor, f"ac_paper/{name}"] == pytest.approx(paper)
        assert correlations[tutor, f"ac/{name}"] == pytest.approx(-paper), "equal except for the sign"


@pytest.mark.parametrize("name", MEASURES)
@pytest.mark.parametrize("seed", range(6))
def test_each_measure_from_tables_equals_its_value(name: str, seed: int) -> None:
    rng = random.Random(seed)
    weights = [[8, 2, 1], [1, 1, 8], [0, 3, 3], [5, 0, 1], [1, 1, 1], [9, 1, 1]][seed]
    pairings = []
    for number in range(90):
        gold = rng.choices(range(3), weights)[0]
        verdict = gold if rng.random() < 0.5 else rng.choice([0, 1, 2, None])
        pairings.append(Pairing(gold, verdict, f"p{number % 30}"))
    measure = MEASURES[name]
    parsed = [pairing for pairing in pairings if pairing.verdict is not None]
    used = pairings if measure.strict else parsed
    verdicts = [3 if pairing.verdict is None else pairing.verdict for pairing in used]
    value = measure.value([pairing.gold for pairing in used], verdicts, 3)
    from_tables = measure.of_tables(tables_of(used, 3).sum(0).reshape(3, 4))
    assert float(from_tables) == pytest.approx(value)
    estimate = estimate_agreement(name, pairings, 3, strict=True, sampling=BootstrapSettings(200, 1))
    assert estimate.interval.low < value < estimate.interval.high


def test_a_constant_side_has_no_correlation_and_no_kappa() -> None:
    pairings = [Pairing(0, 0, f"p{number}") for number in range(10)]
    for name in ("kappa", "weighted_kappa", "ac", "ac_paper", "spearman"):
        assert estimate_agreement(name, pairings, 3, False, SAMPLING).value is None
    assert estimate_agreement("accuracy", pairings, 3, False, SAMPLING).value == 1.0
    constant = [Pairing(number % 3, 1, f"p{number}") for number in range(9)]
    assert estimate_agreement("ac", constant, 3, False, SAMPLING).value is None
    assert estimate_agreement("kappa", constant, 3, False, SAMPLING).value == 0.0


def test_label_codings_of_correlations() -> None:
    """People: 1, 0.5, 0. The critic's printed scores: 1, 2, 3. Spearman uses the aligned coding."""
    gold, verdicts = [0, 1, 2, 2, 0, 1], [0, 1, 2, 1, 0, 0]
    expected = pearsonr([1, 0.5, 0, 0, 1, 0.5], [1, 2, 3, 2, 1, 1]).statistic
    assert MEASURES["ac_paper"].value(gold, verdicts, 3) == pytest.approx(expected)
    assert MEASURES["ac"].value(gold, verdicts, 3) == pytest.approx(-expected)
    assert MEASURES["spearman"].value(gold, verdicts, 3) == pytest.approx(spearmanr(gold, verdicts).statistic)


def test_fleiss_kappa_of_a_published_table() -> None:
    """A common worked example with ten subjects and fourteen raters: kappa 0.210."""
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
    # Pairs are formed by annotator: ann and bob always disagree, bob and eve always agree.
    opposed = [{"ann": a, "bob": b} for a, b in (("Yes", "No"), ("No", "Yes")) * 5]
    agreed = [{"bob": label, "eve": label} for label in ("Yes", "No") * 5]
    assert mean_pairwise_cohen([*opposed, *agreed]) == pytest.approx(0.0)
    assert mean_pairwise_cohen(agreed) == pytest.approx(1.0)


def pair(number: int, chosen: str = "Why?", rejected: str = "It is 4, as I said.") -> Pair:
    return Pair(
        id=f"p{number}", source="bridge", problem=f"q{number // 2}", prompt=[], chosen=chosen, rejected=rejected,
        margin=1,
    )  # fmt: skip


def pair_verdict(number: int, order: str, value: str | None) -> Judgement:
    common = {"id": f"p{number}", "task": "bridge_pairs", "tutor": None, "rubric": "r", "order": order}
    return Judgement(**common, key=f"{number}{order}", verdicts=[Verdict(criterion=None, value=value)], raw="")


def test_position_and_quality_are_separated_on_pairs() -> None:
    pairs = [pair(number) for number in range(8)]
    always_first = {"ab": "first", "ba": "second"}  # prefers the reply in first position
    judgements = [pair_verdict(number, order, always_first[order]) for number in range(4) for order in ("ab", "ba")]
    # Always prefers the expert's reply
    judgements += [pair_verdict(number, order, "first") for number in (4, 5, 6) for order in ("ab", "ba")]
    judgements += [pair_verdict(7, "ab", "first"), pair_verdict(7, "ba", None)]
    scores = {spelt(score): score for score in judge_pair_scores("j", pairs, judgements, "r", SAMPLING, headline=True)}
    assert scores["pair_accuracy/r"].value == pytest.approx((4 + 6 + 1) / 15) and scores["pair_accuracy/r"].headline
    assert (scores["consistent_accuracy/r"].value, scores["consistent_accuracy/r"].n) == (pytest.approx(3 / 7), 7)
    assert scores["flip_rate/r"].value == pytest.approx(4 / 7)
    assert scores["first_place/r"].value == pytest.approx((8 + 3 + 1) / 15)
    assert (scores["unreadable/r"].value, scores["pair_accuracy/r"].missing) == (1 / 16, 1)
    assert scores["longer_reply_accuracy/r"].value == 0.0


def test_a_prediction_powered_mean_corrects_a_biased_judge() -> None:
    rng = np.random.default_rng(1)
    covered, errors = 0, []
    for _ in range(60):
        people = (rng.random(400) < 0.6).astype(float)
        judge = np.where(rng.random(400) < 0.85, people, 1.0)  # biased towards yes
        estimate = prediction_powered_mean(list(people[:100]), list(judge[:100]), list(judge[100:]))
        covered += estimate.interval.low <= people.mean() <= estimate.interval.high
        errors.append((abs(estimate.value - people.mean()), abs(judge.mean() - people.mean())))
    corrected, biased = np.array(errors).mean(0)
    assert covered >= 54 and corrected < biased, "a 95 % interval must nearly always contain the true mean"


def test_too_many_lost_replies_leave_no_corrected_rate() -> None:
    """At most a tenth of the replies may lack a parsed verdict or have divided annotators."""
    verdicts = {(str(n), "m", "Actionability"): "Yes" if n < 50 else None for n in range(60)}
    labelled = {(str(n), "m", "Actionability"): "Yes" if n % 2 else "No" for n in range(30)}
    with_lost = {spelt(score): score for score in corrected_rates("j", labelled, verdicts, "ppi", SCALES, SAMPLING)}
    assert with_lost["ppi/Actionability"].value is None and with_lost["ppi/Actionability"].missing == 10, "10 of 60"
    assert with_lost["ppi_labels/Actionability"].value == 0.5, "the rate from labels alone uses every label"
    verdicts |= {(str(n), "m", "Actionability"): "No" for n in range(50, 56)}
    scores = {spelt(score): score for score in corrected_rates("j", labelled, verdicts, "ppi", SCALES, SAMPLING)}
    assert (scores["ppi/Actionability"].n, scores["ppi/Actionability"].missing) == (56, 4)
    divided = {**labelled, **{(str(n), "m", "Actionability"): None for n in range(10)}}
    with_divided = {spelt(score): score for score in corrected_rates("j", divided, verdicts, "ppi", SCALES, SAMPLING)}
    score = with_divided["ppi/Actionability"]
    assert score.value is None and score.missing == 14, "annotators are divided on ten replies"
    few = {key: label for key, label in labelled.items() if int(key[0]) < 19}
    assert corrected_rates("j", few, verdicts, "ppi", SCALES, SAMPLING)[0].value is None, "fewer than twenty labels"
    all_labelled = {(str(n), "m", "Actionability"): "Yes" if n % 4 else "No" for n in range(60)}
    estimate = corrected_rates("j", all_labelled, verdicts, "ppi", SCALES, SAMPLING)[0]
    assert estimate.value == pytest.approx(0.75, abs=0.02)
    assert estimate.low < estimate.value < estimate.high, "people have labelled every reply"
    constant = prediction_powered_mean([1.0] * 20, [1.0] * 20, [1.0] * 100)
    assert (constant.value, constant.interval) == (1.0, (None, None)), "constant labels give no estimate of the error"


def test_a_perfect_judge_is_not_red_for_a_rare_label(raw: dict[str, list]) -> None:
    labels = labels_of(raw["mrbench"])
    for seed in range(6):
        sample = {(reply.id, reply.tutor) for reply in sample_replies(labels.replies, 32, seed)}
        labelled = [label for label in labels.labels if (label.id, label.tutor) in sample]
        verdicts = {(label.id, label.tutor, label.criterion): label.label for label in labelled}
        scores = agreement_scores("j", pairings_of(labelled, verdicts, {}, SCALES), SCALES, SAMPLING)
        scores = with_release(scores, "mrbench")
        by_quantity = {score.quantity: score for score in scores if score.scoring == "robust"}
        kappa = by_quantity[quantity("mrbench:mean_weighted_kappa")]
        assert (kappa.value, kappa.low) == (pytest.approx(1.0), pytest.approx(1.0))
        assert light_of(by_quantity, "mrbench", None).colour == "green"


def people_csv(path: Path, *rows: str) -> Path:
    path.write_text("task,item,tutor,criterion,label,annotator\n" + "\n".join(rows) + "\n", encoding="utf-8")
    return path


BAD_LINES = {
    "t,1,m,Actionability,Maybe,a": "Actionability has no label 'Maybe'",
    "t,1,m,Kindness,Yes,a": "the task has no criterion 'Kindness'",
    "t,,m,Actionability,Yes,a": "item is missing",
    "t,1,m": "criterion, label are missing",
    "t,1,m,Actionability,No,a": "an earlier line has the same reply, criterion and annotator",
}


@pytest.mark.parametrize(("row", "message"), BAD_LINES.items())
def test_a_bad_line_of_labels_is_named(row: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=message) as error:
        read_human_labels(people_csv(tmp_path / "people.csv", "t,1,m,Actionability,Yes,a", row), {"t": SCALES})
    assert "people.csv:3" in str(error.value)


def test_labels_of_several_people_are_compared_and_merged(tmp_path: Path) -> None:
    rows = [
        f"t,{n},m,Actionability,{label},{annotator}"
        for n in range(6)
        for annotator, label in (("a", "Yes"), ("b", "Yes"))
    ]
    rows += [
        "t,6,m,Actionability,Yes,a", "t,6,m,Actionability,No,b", "t,7,m,Actionability,No,a", "t,7,m,Actionability,No,b",
    ]  # fmt: skip
    labels = read_human_labels(people_csv(tmp_path / "people.csv", *rows), {"t": SCALES})
    scores = {spelt(score): score for score in annotator_scores("j", labels, SCALES)}
    assert scores["cohen_kappa/Actionability"].value == pytest.approx(0.6)
    assert scores["fleiss_kappa/Actionability"].n == 8
    assert {label.id: resolved for label, resolved in resolved_labels(labels)} == {
        **dict.fromkeys("012345", "Yes"), "6": None, "7": "No",
    }, "annotators disagree on reply 6"  # fmt: skip
    stray = [*labels, labels[0].model_copy(update={"annotator": "eve"})]
    scores = {spelt(score): score for score in annotator_scores("j", stray, SCALES)}
    assert scores["fleiss_kappa/Actionability"].n == 7, "a reply with an extra label is left out"


def test_rates_are_corrected_by_people_and_unknown_replies_refused(tmp_path: Path) -> None:
    judgements = [
        Judgement(
            id=str(n), task="t", tutor="m", rubric="mrbench_taxonomy", key=str(n), raw="",
            verdicts=[Verdict(criterion="Actionability", value="Yes")],
        )
        for n in range(60)
    ]  # fmt: skip
    write_records(tmp_path / "judged.jsonl", judgements)
    rows = [f"t,{n},m,Actionability,{'Yes' if n % 4 else 'No'}," for n in range(24)]
    people = people_csv(tmp_path / "people.csv", *rows)
    job = CorrectByPeople(judge="j", resamples=100, seed=1, scales={"t": SCALES}, tasks={"mrbench_taxonomy": ["t"]})
    judged = [tmp_path / "judged.jsonl"]
    correct_by_people(
        job=job, verdicts=judged, people=people, out=tmp_path / "out.json", differences=tmp_path / "d.json"
    )
    scores = {spelt(score): score for score in json.loads((tmp_path / "out.json").read_text())}
    assert scores["ppi/Actionability"]["value"] == pytest.approx(0.75), (
        "the labels decide, since the judge's verdict is always yes"
    )
    assert (scores["ppi_judge/Actionability"]["value"], scores["ppi/Actionability"]["clusters"]) == (1.0, 24)
    with pytest.raises(UserError, match=r"people.csv:2.*no judged reply of n"):
        unknown = people_csv(people, "t,1,n,Actionability,Yes,")
        correct_by_people(job=job, verdicts=judged, people=unknown, out=tmp_path / "o", differences=tmp_path / "d")


def kappa_score(value: float | None, low: float | None, n: int = 200) -> dict[Quantity, Score]:
    common = {"task": "trust", "grader": "j", "scoring": "robust", "headline": False, "missing": 0, "clusters": 50}
    columns = quantity("mrbench:mean_weighted_kappa")
    high = None if value is None or low is None else min(1.0, 2 * value - low)
    return {columns: Score(**common, **columns._asdict(), value=value, low=low, high=high, n=n)}


def score_of(name: str, value: float, low: float = 0.0, n: int = 200) -> dict[Quantity, Score]:
    """Return one score of the task `trust` by its quantity."""
    common = {"task": "trust", "grader": "j", "scoring": "robust", "headline": False, "missing": 0, "clusters": 50}
    high = min(1.0, 2 * value - low)
    return {quantity(name): Score(**common, **quantity(name)._asdict(), value=value, low=low, high=high, n=n)}


LIGHTS = [
    (kappa_score(0.7, 0.5), "green"), (kappa_score(0.7, 0.3), "amber"), (kappa_score(0.45, 0.25), "amber"),
    (kappa_score(0.45, 0.1), "grey"), (kappa_score(0.3, 0.1), "red"),
    (kappa_score(0.45, 0.1) | score_of("mrbench:unreadable", 0.3), "red"),
    (kappa_score(0.1, 0.0), "red"), (kappa_score(None, None), "grey"), (kappa_score(1.0, None), "grey"),
    (kappa_score(0.9, 0.8, n=29), "grey"), (kappa_score(0.9, 0.8, n=30), "green"),
    (kappa_score(0.1, 0.0, n=49), "grey"), (kappa_score(0.1, 0.0, n=50), "red"),
    (kappa_score(None, None) | score_of("mrbench:unreadable", 1.0), "red"),
    (kappa_score(0.7, 0.5) | score_of("unreadable/r", 1.0), "red"),
    (kappa_score(0.7, 0.5) | score_of("mrbench:unreadable", 0.1), "amber"),
    (kappa_score(0.7, 0.5) | score_of("mrbench:unreadable", 0.3), "red"),
    (kappa_score(0.7, 0.5) | score_of("flip_rate/r", 0.3), "amber"),
    (kappa_score(0.7, 0.5) | score_of("flip_rate/r", 1.0), "red"),
    (score_of("pair_accuracy/r", 0.85, 0.8) | score_of("flip_rate/r", 0.1), "green"),
    (score_of("pair_accuracy/r", 0.85, 0.8), "grey"),
    (score_of("pair_accuracy/r", 0.9, 0.8) | score_of("flip_rate/r", 0.1) | score_of("unreadable/r", 0.9), "red"),
    (score_of("pair_accuracy/r", 0.7, 0.6) | score_of("flip_rate/r", 0.1), "amber"),
    (score_of("pair_accuracy/r", 0.5, 0.45) | score_of("flip_rate/r", 0.1), "red"),
    (score_of("pair_accuracy/r", 0.64, 0.48) | score_of("flip_rate/r", 0.1), "grey"),
    (score_of("pair_accuracy/r", 1.0, 1.0, n=40) | score_of("flip_rate/r", 0.0, n=20), "grey"),
    ({}, "grey"),
]  # fmt: skip


@pytest.mark.parametrize(("scores", "colour"), LIGHTS)
def test_the_light_follows_its_thresholds(scores: dict[Quantity, Score], colour: str) -> None:
    assert light_of(scores, "mrbench", "r").colour == colour


def test_each_dimension_has_a_light_of_its_own() -> None:
    """A good and a bad dimension are amber on average, but green and red alone. One without labels is not measured."""
    scores = kappa_score(0.4, 0.3)
    for criterion, value, low in (("Coherence", 0.8, 0.7), ("Actionability", 0.05, -0.1)):
        columns = quantity(f"mrbench:weighted_kappa/{criterion}")
        [mean] = kappa_score(value, low).values()
        scores[columns] = mean.model_copy(update=columns._asdict())
    assert light_of(scores, "mrbench", None).colour == "amber"
    assert light_of(scores, "mrbench", None, "Coherence").colour == "green"
    assert light_of(scores, "mrbench", None, "Actionability").colour == "red"
    assert light_of(scores, "mrbench", None, "Tutor_Tone") == Light("grey", "not measured")


def labelled_reply(tutor: str, item: int, characters: int, label: str) -> tuple[Reply, Label]:
    """Return a reply of this length and the label that people gave it."""
    name, turn = f"i{item}", Turn(messages="none", text="x" * characters, finish="stop")
    reply = Reply(id=name, task="t", tutor=tutor, key="k", turns=[turn])
    return reply, Label(id=name, task="t", tutor=tutor, criterion="Actionability", label=label, problem=f"p{item}")


def labelled_data(labelled_replies: Sequence[tuple[Reply, Label]]) -> LabelledData:
    replies, labels = zip(*labelled_replies, strict=True)
    return LabelledData({}, list(replies), list(labels), LabelSetDescription(scales=SCALES))


def test_leniency_is_the_judges_rate_less_peoples_by_length() -> None:
    """The judge is stricter on long replies only: people label all 60 replies as actionable, 20 in each third."""
    labelled = [labelled_reply("m", number, 10 + number, "Yes") for number in range(60)]
    verdicts: LabelsByReply = {
        (label.id, "m", "Actionability"): "No" if number >= 50 else "Yes" for number, (_, label) in enumerate(labelled)
    }
    scores = leniency_scores("j", labelled_data(labelled), verdicts, SAMPLING)
    by_third = {(score.criterion, score.subset): score for score in scores}
    values = [by_third["Actionability", subset].value for subset in (None, *LENGTH_THIRDS)]
    assert values == [pytest.approx(-10 / 60), 0.0, 0.0, pytest.approx(-0.5)]
    assert [by_third[None, subset].value for subset in (None, *LENGTH_THIRDS)] == values
    assert by_third[None, None].n == 60
    assert leniency_word([by_third["Actionability", subset] for subset in LENGTH_THIRDS]) == "stricter at some lengths"
    always = leniency_scores("j", labelled_data(labelled), dict.fromkeys(verdicts, "No"), SAMPLING)
    assert leniency_word([score for score in always if score.criterion and score.subset]) == "stricter at every length"
    assert leniency_word([]) == "" and leniency_scores("j", labelled_data(labelled), {}, SAMPLING) == []


def test_a_panel_is_compared_with_its_best_judge_on_shared_verdicts() -> None:
    """Three judges are each wrong on a different third of the replies, so their majority is always right."""
    labelled = [labelled_reply("m", number, 10, "Yes" if number % 2 else "No") for number in range(60)]
    labels = labelled_data(labelled)

    def verdicts_except(wrong: int) -> LabelsByReply:
        opposite = {"Yes": "No", "No": "Yes"}
        return {
            (label.id, "m", "Actionability"): opposite[label.label] if number % 3 == wrong else label.label
            for number, (_, label) in enumerate(labelled)
        }

    panel: LabelsByReply = {(label.id, "m", "Actionability"): label.label for _, label in labelled}
    judges = {f"j{wrong}": verdicts_except(wrong) for wrong in range(3)}
    gain, p = panel_gain("panel", panel, judges, labels)
    assert (gain.by, gain.n) == ("j0", 60) and gain.value == pytest.approx(1 - 1 / 3)
    assert gain.low is not None and 0.2 < gain.low < gain.value and p.value is not None and p.value < 0.001
    [no_gain, p] = panel_gain("panel", judges["j1"], {"j1": judges["j1"]}, labels)
    assert no_gain.value == 0.0 and p.value == pytest.approx(1.0)
    assert panel_gain("panel", panel, {}, labels) == [] and panel_gain("panel", {}, judges, labels) == []


def test_a_sample_of_labelled_replies_grows_without_changing(raw: dict[str, list]) -> None:
    replies = labelled_set(raw["mrbench"]).replies
    some = {limit: {(reply.id, reply.tutor) for reply in sample_replies(replies, limit, 1)} for limit in (20, 60)}
    assert len(some[60]) == 60 and some[20] < some[60] and len(sample_replies(replies, None, 1)) == 1589


@pytest.mark.slow
def test_a_judge_is_validated_from_file_to_file(raw: dict[str, list], tmp_path: Path) -> None:
    """A judge that repeats people's labels agrees with them in every number; half of them corrects nothing."""
    write_labels("mrbench", LABEL_LOADERS["mrbench"], [raw["mrbench"]], tmp_path / "mrbench")
    labels = read_labelled_data(tmp_path / "mrbench")
    by_reply: dict[tuple[str, str], list[Label]] = {}
    for label in labels.labels:
        by_reply.setdefault((label.id, label.tutor), []).append(label)
    judgements = [
        Judgement(
            id=item, task="mrbench", tutor=tutor, rubric="mrbench_taxonomy", key="k", raw="", prompt_tokens=10,
            verdicts=[Verdict(criterion=label.criterion, value=label.label) for label in reply_labels],
        )
        for (item, tutor), reply_labels in by_reply.items()
    ]  # fmt: skip
    judgements += [pair_verdict(number, order, "first") for number in range(4) for order in ("ab", "ba")]
    write_records(tmp_path / "verdicts.jsonl", judgements)
    write_records(tmp_path / "pairs.jsonl", [pair(number) for number in range(4)])
    validate_judge(
        job=ValidateJudge(judge="j", resamples=100, seed=1), verdicts=tmp_path / "verdicts.jsonl", single=[],
        labels=[tmp_path / "mrbench/labels.jsonl"], pairs=[tmp_path / "pairs.jsonl"], out=tmp_path / "trust.json",
        pairs_out=[tmp_path / "on_pairs.json"],
    )  # fmt: skip
    scores = [Score.model_validate(row) for row in json.loads((tmp_path / "trust.json").read_text())]
    judge_scores = {spelt(score): score.value for score in scores if score.grader == "j"}
    assert judge_scores["mrbench:mean_weighted_kappa"] == pytest.approx(1.0) and judge_scores["unreadable"] == 0.0
    assert all(judge_scores[f"mrbench:macro_f1/{name}"] == 1.0 for name in LABELS)
    assert judge_scores["prompt_tokens"] == 15_890.0
    tutor_scores = {(score.tutor, spelt(score)): score.value for score in scores if score.grader != "j"}
    expected = pytest.approx(tutor_scores["GPT4", "mrbench:ppi_half_judge/Coherence"])
    assert tutor_scores["GPT4", "mrbench:damr/Coherence/all"] == expected
    assert (
        abs(tutor_scores["GPT4", "mrbench:ppi_half/Coherence"] - tutor_scores["GPT4", "mrbench:damr/Coherence/all"])
        < 0.05
    )
    on_pairs = {spelt(row): row["value"] for row in json.loads((tmp_path / "on_pairs.json").read_text())}
    assert on_pairs["pair_accuracy/r"] == 1.0 and on_pairs["flip_rate/r"] == 0.0
    check_judges(
        job=CheckJudges(judges=["j"], limits={"j": 0.0}),
        verdicts=[tmp_path / "verdicts.jsonl"],
        out=tmp_path / "ok.json",
    )
    assert len(read_records(tmp_path / "verdicts.jsonl", Judgement)) == len(judgements)
    assert set(registries()["labels"]) >= {"mrbench", "mrbench_v2", "mrbench_v3"}
    assert corrected_rates("j", {}, {}, "ppi", SCALES, SAMPLING) == []


def scored(
    records: list[dict], rows: list[Any], folder: Path, *rule: str, release: str = "mrbench_v3"
) -> dict[str, Any]:
    """Score a file of predictions for a release, and return the results. rows: records, or lines of a text."""
    loader, path = LABEL_LOADERS[registries()["labels"][release]["loader"]], folder / "mine.jsonl"
    write_labels(release, loader, [records], folder / "labels")
    path.write_text("\n".join(row if isinstance(row, str) else json.dumps(row) for row in rows), encoding="utf-8")
    score_predictions(folder / "labels", path, folder / "out.json", 100, 1, *rule)
    return json.loads((folder / "out.json").read_text())


@pytest.mark.parametrize("release", ["mrbench", "mrbench_v2"])
@pytest.mark.parametrize("named", [False, True], ids=["in the release's order", "by item"])
def test_perfect_predictions_score_one_although_ids_occur_twice(
    release: str, named: bool, raw: dict[str, list], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    records = raw["mrbench"]
    ids = [record["conversation_id"] for record in records]
    assert len(ids) - len(set(ids)) == 4, "four pairs of dialogues share an id"
    rows = [
        {
            "conversation_id": record["conversation_id"],
            "tutor": tutor,
            "pred": {**response["annotation"], "tutor_identification": tutor},
            **({"item": f"mrbench-{number:03d}"} if named else {}),
        }
        for number, record in enumerate(records)
        for tutor, response in record["anno_llm_responses"].items()
    ]
    results = scored(records, rows[::-1] if named else rows, tmp_path, "refuse", release=release)
    assert set(results) == {*LABELS, "tutor_identification"}
    for track, measures in results.items():
        assert measures["accuracy"] == {**measures["accuracy"], "value": 1.0, "n": 1589}, track
        assert measures["macro_f1"]["value"] == 1.0 and measures["missing"]["absent"] == 0
    assert "without a line" not in capsys.readouterr().out


@pytest.mark.parametrize(("rule", "n", "accuracy"), [("wrong", 2476, 0.9), ("exclude", 2228, 1.0)])
def test_a_partial_file_says_what_it_lacks_and_which_rule_was_applied(
    rule: str, n: int, accuracy: float, raw: dict[str, list], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [
        {"conversation_id": record["conversation_id"], "tutor": tutor, "pred": response["annotation"]}
        for record in raw["mrbench_v3"]
        for tutor, response in record["tutor_responses"].items()
    ]
    lost, unparsed = 200, 48
    rows = [{**row, "pred": None} if number < unparsed else row for number, row in enumerate(rows[lost:])]
    results = scored(raw["mrbench_v3"], rows, tmp_path, rule)["Actionability"]
    assert results["missing"] == {"rule": rule, "replies": 2476, "absent": lost, "unparsed": unparsed}
    assert (results["accuracy"]["n"], results["accuracy"]["value"]) == (n, pytest.approx(accuracy, abs=0.001))
    treatment = {"wrong": "counted as wrong", "exclude": "left out"}[rule]
    assert f"replies without a line (200) or without a label (48) are {treatment}" in capsys.readouterr().out
    with pytest.raises(UserError, match=r"of 2476 replies, 200 have no line and 48 have no label.*--missing wrong"):
        scored(raw["mrbench_v3"], rows, tmp_path, "refuse")


def test_all_lines_with_one_kind_of_fault_are_named_at_once(raw: dict[str, list], tmp_path: Path) -> None:
    record = raw["mrbench_v3"][0]
    good = {"conversation_id": record["conversation_id"], "tutor": "GPT4", "pred": {"Actionability": "Yes"}}
    cases = {
        "unknown ids": ([good, {**good, "conversation_id": "x"}, {**good, "conversation_id": "y"}], r"mine.jsonl:2: no dialogue of the release has the id 'x' \(2 lines have such a fault: 2, 3\)"),
        "unknown tutors": ([{**good, "tutor": "Nobody"}, {**good, "tutor": "Nemo"}], r"mine.jsonl:1: Nobody has no reply .*2 lines have such a fault: 1, 2.*use one of the tutors of the release: .*GPT4"),
        "labels": ([{**good, "pred": {"Actionability": "maybe"}}], r"mine.jsonl:1: 'maybe' is not a label of Actionability.*use one of Yes, To some extent, No"),
        "tutors' names": ([{**good, "pred": {"tutor_identification": "Nobody"}}], r"mine.jsonl:1: 'Nobody' is not a label of tutor_identification.*use one of .*GPT4"),
        "dimensions without labels": ([{**good, "pred": {"Coherence": "Yes"}}], r"mine.jsonl:1: the release has no labels of Coherence.*remove this track; the release has Mistake_Identification"),
        "integer ids": ([{**good, "conversation_id": 7}], r"mine.jsonl:1: cannot be read: conversation_id: Input should be a valid string, found 7"),
        "integer labels": ([{**good, "pred": {"Actionability": 1}}], r"mine.jsonl:1: cannot be read: pred.Actionability: .*found 1"),
        "nothing left": ([{**good, "pred": {"Actionability": None}}], "Actionability: no reply has a predicted label"),
        "empty": ([], "expected predictions, found an empty file"),
        "half a line": (['{"conversation_id": "x"'], "mine.jsonl:1: cannot be read"),
        "a list as predictions": ([{**good, "pred": []}], "mine.jsonl:1: cannot be read"),
        "misspelt track": ([{**good, "pred": {"actionability": "Yes"}}], "did you mean 'Actionability'"),
        "predicted twice": ([good, good], "mine.jsonl:2: this reply is predicted twice"),
        "a key twice": ([json.dumps(good).replace('"Yes"', '"Yes", "Actionability": "No"')], r"mine.jsonl:1: cannot be read: the key 'Actionability' occurs twice"),
        "unknown item": ([{**good, "item": "mrbench-999"}], "its item is unknown.*mrbench-000"),
    }  # fmt: skip
    for rows, message in cases.values():
        with pytest.raises(UserError, match=message):
            scored(raw["mrbench_v3"], rows, tmp_path, "exclude")
        assert not (tmp_path / "out.json").exists()


def test_a_track_of_nulls_is_wrong_and_an_absent_track_is_reported(
    raw: dict[str, list], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [
        {"conversation_id": record["conversation_id"], "tutor": tutor, "pred": {"Actionability": None}}
        for record in raw["mrbench_v3"]
        for tutor in record["tutor_responses"]
    ]
    results = scored(raw["mrbench_v3"], rows, tmp_path)
    assert list(results) == ["Actionability"] and results["Actionability"]["accuracy"]["value"] == 0.0
    assert results["Actionability"]["missing"] == {"rule": "wrong", "replies": 2476, "absent": 0, "unparsed": 2476}
    assert "has no predictions for them: Mistake_Identification, Mistake_Location" in capsys.readouterr().out
    with pytest.raises(UserError, match="2476 replies, 0 have no line and 2476 have no label"):
        scored(raw["mrbench_v3"], rows, tmp_path, "refuse")


def test_a_single_line_for_a_shared_id_applies_to_the_first_dialogue(raw: dict[str, list], tmp_path: Path) -> None:
    records = raw["mrbench"]
    seen: set[str] = set()
    rows = []
    for record in records:
        if record["conversation_id"] not in seen:  # the second dialogue of each pair has no line
            seen.add(record["conversation_id"])
            rows += [
                {"conversation_id": record["conversation_id"], "tutor": tutor, "pred": response["annotation"]}
                for tutor, response in record["anno_llm_responses"].items()
            ]
    results = scored(records, rows, tmp_path, "exclude", release="mrbench")
    for track in LABELS:
        assert results[track]["accuracy"]["value"] == 1.0 and results[track]["accuracy"]["n"] == len(rows) < 1589
        assert results[track]["missing"]["absent"] == 1589 - len(rows)


OBSERVERS = ("123321412...", "12332241253.".replace("3.", ".3"), ".3332342251.", "12332441251.")


@pytest.mark.parametrize(("level", "value"), [("nominal", 0.743), ("ordinal", 0.815)])
def test_krippendorffs_alpha_of_his_own_example(level: str, value: float) -> None:
    """Four observers, twelve units, some cells missing: Computing Krippendorff's Alpha-Reliability (2011), C."""
    units = [[mark for mark in unit if mark != "."] for unit in zip(*OBSERVERS, strict=True)]
    scale = Scale(labels=tuple("12345"), level=level)
    assert krippendorff_alpha([unit for unit in units if len(unit) > 1], scale) == pytest.approx(value, abs=5e-4)
    assert krippendorff_alpha([["1", "1"]] * 9, scale) is None, "the labels do not vary"
    assert krippendorff_alpha([["1", "2"]], scale) is None, "one reply is not enough"
    assert krippendorff_alpha([["1", "2"], ["1"]], scale) is None
