"""Tests of judge probes: the repeated questions, their requests and the resulting statistics."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from maieutic.config import rubrics
from maieutic.config.models import JudgeModel
from maieutic.config.rubrics import alternative_wording, read_rubric
from maieutic.core.errors import UserError
from maieutic.core.journal import REPEAT, request_key
from maieutic.core.records import Item, Judgement, Label, Reply, Turn, Verdict, write_records
from maieutic.judges.assignments import work_on_labels
from maieutic.judges.probes import PROBES, REPETITION_PREFIX, probe_task, separate_probes, work_on_probes
from maieutic.judges.questions import question_messages, questions_about
from maieutic.validation.probes import (
    PREFERENCE,
    Residual,
    ValidateProbes,
    family_preference,
    residual_sums,
    validate_probes,
)

TAXONOMY = read_rubric("mrbench_taxonomy")
SCALES = rubrics.annotation_scales(TAXONOMY.rubric)


def labelled(folder: Path, number: int = 12) -> Path:
    """Write a labelled set of two tutors with one dialogue for each reply, and return its folder."""
    out = folder / "ours"
    names = [(f"d{place}", f"t{place % 2}") for place in range(number)]
    items = [
        Item(id=name, task="ours", cluster=name, vars={"history": "Student: 3.", "topic": "t"}, reference={})
        for name, _ in names
    ]
    write_records(out / "items.jsonl", items)
    turn = Turn(text="Look again?", messages="m")
    write_records(
        out / "replies.jsonl",
        [Reply(id=name, task="ours", tutor=tutor, key="k", turns=[turn]) for name, tutor in names],
    )
    labels = [
        Label(id=name, task="ours", tutor=tutor, criterion=criterion, label=scale.labels[0], problem=name)
        for name, tutor in names
        for criterion, scale in SCALES.items()
    ]
    write_records(out / "labels.jsonl", labels)
    about = {"scales": {name: scale.model_dump() for name, scale in SCALES.items()}}
    (out / "about.json").write_text(json.dumps(about), encoding="utf-8")
    return out


def judge(**more: Any) -> JudgeModel:
    return JudgeModel(engine="judge", model="m", **{"rubrics": ["mrbench_taxonomy"], **more})


def test_each_probe_changes_one_thing_about_the_same_replies(tmp_path: Path) -> None:
    folder = labelled(tmp_path)
    plain = {case.id: case for _, case in work_on_labels(judge(), [folder], 5, 1)}
    work = work_on_probes(judge(), [folder], 5, None, 1)
    assert Counter(case.task for _, case in work) == {probe_task(probe, "ours"): 5 for probe in PROBES}
    assert {case.id for _, case in work} == set(plain), "a sample of the questions without a probe"
    for loaded, case in work:
        before = plain[case.id]
        if case.task == probe_task("repeated", "ours"):
            assert case._replace(task="ours", repeat=0) == before
        elif case.task == probe_task("reworded", "ours"):
            assert loaded.name == "mrbench_taxonomy_reworded" and list(case.criteria) == list(before.criteria)
            [first], [second] = (
                questions_about(wording.rubric, variant) for wording, variant in ((loaded, case), (TAXONOMY, before))
            )
            texts = [
                question_messages(wording, variant, question)
                for wording, variant, question in ((loaded, case, first), (TAXONOMY, before, second))
            ]
            assert texts[0][0]["content"] != texts[1][0]["content"]
        elif case.task == probe_task("shuffled", "ours"):
            assert case._replace(task="ours", criteria=before.criteria) == before
            assert list(case.criteria) != list(before.criteria) and dict(case.criteria) == dict(before.criteria)
        else:
            assert case.replies == {"response": f"Look again?\n\n{REPETITION_PREFIX}Look again?"}
    assert work_on_probes(judge(), [folder], 5, None, 1) == work, "seeded"
    assert work_on_probes(judge(), [folder], 0, None, 1) == []
    assert len(work_on_probes(judge(), [folder], 5, 3, 1)) == 3 * len(PROBES), "no more than the limit"


def test_probes_that_do_not_apply_are_not_asked(tmp_path: Path) -> None:
    work = work_on_probes(judge(rubrics=["mrbench_critic"]), [labelled(tmp_path)], 4, None, 1)
    assert {case.task for _, case in work} == {probe_task("repeated", "ours"), probe_task("padded", "ours")}


def test_a_repeated_question_has_a_key_of_its_own() -> None:
    request = {"messages": [], "temperature": 0.0}
    assert request_key({**request, REPEAT: 1}, {}) != request_key(request, {})


def record(item: str, tutor: str, place: int, **more: Any) -> Judgement:
    verdicts = [Verdict(criterion=name, value=scale.labels[place]) for name, scale in SCALES.items()]
    fields = {"task": "ours", "rubric": "mrbench_taxonomy", "key": "k", "raw": "", **more}
    return Judgement(id=item, tutor=tutor, verdicts=verdicts, **fields)


def test_verdicts_are_separated_by_probe() -> None:
    records = [record("d1", "t", 0), record("d1", "t", 1, task=probe_task("padded", "ours"))]
    plain, by_probe = separate_probes(records, ["ours"])
    assert [judgement.task for judgement in plain] == ["ours"]
    assert [judgement.task for judgement in by_probe["padded"]] == ["ours"] and not by_probe["repeated"]


def test_shares_gains_and_the_own_family(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    folder = labelled(tmp_path)
    names = [(f"d{place}", f"t{place % 2}") for place in range(12)]
    # The judge gives t1 the people's label, which is the first, and gives t0 another one.
    write_records(tmp_path / "plain.jsonl", [record(name, tutor, 0 if tutor == "t1" else 1) for name, tutor in names])
    for probe in PROBES:
        changed = {"repeated": 0, "padded": 6}.get(probe)
        rows = (
            []
            if changed is None
            else [
                record(name, tutor, 0 if tutor == "t1" or n < changed else 1) for n, (name, tutor) in enumerate(names)
            ]
        )
        write_records(tmp_path / f"{probe}.jsonl", rows)
    validate_probes(
        job=ValidateProbes(judge="j", family=["t1"], resamples=100, seed=1),
        verdicts=tmp_path / "plain.jsonl", probes=[tmp_path / f"{probe}.jsonl" for probe in PROBES],
        labels=[folder / "labels.jsonl"], out=tmp_path / "out.json",
    )  # fmt: skip
    scores = {score["metric"]: score for score in json.loads((tmp_path / "out.json").read_text(encoding="utf-8"))}
    assert scores["repeated_same"]["value"] == 1.0 and scores["repeated_same"]["clusters"] == 12
    assert scores["padded_same"]["value"] == 0.75, "three of twelve replies have other verdicts"
    assert scores["padded_same"]["low"] < 0.75 < scores["padded_same"]["high"]
    # Yes is the desired label of seven criteria but not of revealing the answer: there the first label is not a gain.
    assert scores["padded_gain"]["value"] == pytest.approx(0.25 * 7 / 8)
    assert "reworded_same" not in scores
    # Residuals of seven criteria: 0 for t1 and -1 for t0. In the eighth the judge and people both miss the desired label.
    assert scores["self_preference"]["value"] == pytest.approx(7 / 8)
    with caplog.at_level("WARNING"):
        validate_probes(
            job=ValidateProbes(judge="j", family=["t9"], resamples=100, seed=1), verdicts=tmp_path / "plain.jsonl",
            probes=[], labels=[folder / "labels.jsonl"], out=tmp_path / "out.json",
        )  # fmt: skip
    assert "models.j.family: expected labelled tutors of this run (t0, t1), found t9" in caplog.text
    assert json.loads((tmp_path / "out.json").read_text(encoding="utf-8")) == []


def test_sums_give_the_preference_and_nan_for_one_side_alone() -> None:
    residuals = [(True, Residual(1.0, 2.0, "a")), (True, Residual(0.0, 1.0, "b")), (False, Residual(-1.0, 1.0, "a"))]
    assert PREFERENCE.value(residuals) == pytest.approx(2 / 3 + 1)
    assert family_preference(residual_sums(residuals).sum(axis=0)) == pytest.approx(2 / 3 + 1)
    assert np.isnan(family_preference(residual_sums(residuals[:2]).sum(axis=0)))


def test_other_labels_are_no_other_wording(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rubrics, "USER_RUBRICS", tmp_path)
    body = "rubric: own\nversion: 1\ntitle: Own\nsource: here\nlike: mrbench_taxonomy\nreworded: mrbench_critic\n"
    dropped = "criteria: {Coherence: null}\n"
    (tmp_path / "own.yaml").write_text(body + dropped, encoding="utf-8")
    with pytest.raises(UserError, match="mrbench_critic has other criteria or labels than own"):
        alternative_wording("own")
    (tmp_path / "fewer.yaml").write_text(body.replace("own", "fewer").split("reworded")[0] + dropped, encoding="utf-8")
    assert alternative_wording("fewer") == [], "the inherited wording does not fit its criteria"
    assert alternative_wording("mrbench_taxonomy") == ["mrbench_taxonomy_reworded"]
    assert alternative_wording("mrbench_critic") == []
