"""Tests of panels: several judges' verdicts combined, refused entries."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from maieutic.config import rubrics
from maieutic.config.rubrics import read_rubric
from maieutic.core.errors import UserError
from maieutic.core.records import Judgement, Verdict, read_records, write_records
from maieutic.judges.panels import CombineVerdicts, combine_verdicts, combine_votes
from maieutic.run_plan import plan_of
from rule_inputs import inputs_of
from shipped import registries

TAXONOMY = read_rubric("mrbench_taxonomy").rubric
YES, SOME, NO = TAXONOMY.criteria["Mistake_Identification"].labels
RUBRICS = ["mrbench_taxonomy", "pairs_simple"]


def votes(*values: str | bool | None) -> dict[str, Verdict]:
    return {
        judge: Verdict(criterion="Mistake_Identification", value=value, why_none=None if value is not None else "empty")
        for judge, value in zip("abc", values, strict=False)
    }


@pytest.mark.parametrize(("vote", "values", "expected"), [
    ("majority", (YES, NO, NO), NO),
    ("majority", (YES, NO), YES),  # a tie: the judge named first decides
    ("majority", (SOME, NO, YES), SOME),
    ("majority", (None, NO, YES), NO),  # a missing verdict is not a vote
    ("majority", (None, None, None), None),
    ("mean", (YES, NO, NO), SOME),
    ("mean", (YES, NO), SOME),
    ("mean", (YES, SOME), YES),  # half way between two labels: the judge named first decides
    ("mean", (SOME, YES), SOME),
    ("mean", (YES, YES, NO), SOME),
    ("mean", (None, NO, NO), NO),
])  # fmt: skip
def test_verdicts_are_combined_by_each_vote(vote: str, values: tuple[str | None, ...], expected: str | None) -> None:
    verdict = combine_votes(vote, TAXONOMY, "Mistake_Identification", votes(*values))
    assert verdict.value == expected
    assert (verdict.why_none is not None) == (expected is None)


def test_pass_and_fail_win_and_lose_and_places_have_a_mean_too() -> None:
    weighted, compared = read_rubric("tutorbench").rubric, read_rubric("kmp_dialogue").rubric
    assert combine_votes("mean", weighted, "1", votes(False, True, True)).value is True
    assert combine_votes("mean", weighted, "1", votes(False, True)).value is False
    assert combine_votes("mean", compared, next(iter(compared.criteria)), votes("win", "lose")).value == "tie"
    assert combine_votes("mean", read_rubric("pairs_simple").rubric, None, votes("second", "first")).value == "second"


def panel_job(**changes: Any) -> CombineVerdicts:
    return CombineVerdicts(
        panel="panel", **{"judges": ["a", "b", "c"], "vote": "majority", "rubrics": RUBRICS, **changes}
    )


def judgement(item: str, value: str | None, tutor: str | None = "t", **changes: Any) -> Judgement:
    verdict = Verdict(criterion="Mistake_Identification", value=value, why_none=None if value else "empty")
    fields = {"task": "ours", "rubric": "mrbench_taxonomy", "key": "k", "raw": "", "prompt_tokens": 5, "seconds": 1.0}
    return Judgement(id=item, tutor=tutor, verdicts=[verdict], **{**fields, **changes})


def test_a_panel_records_each_judges_verdict_and_the_total_effort(tmp_path: Path) -> None:
    files = [tmp_path / f"{judge}.jsonl" for judge in "abc"]
    for path, values in zip(files, ((YES, None), (NO, None), (NO, None)), strict=True):
        write_records(path, [judgement("i1", values[0]), judgement("i2", values[1])])
    combine_verdicts(job=panel_job(vote="majority"), verdicts=files, out=tmp_path / "out.jsonl")
    first, second = read_records(tmp_path / "out.jsonl", Judgement)
    assert first.verdicts[0].value == NO and first.raw == f"Mistake_Identification: a {YES}, b {NO}, c {NO}"
    assert (first.prompt_tokens, first.seconds) == (15, 3.0)
    assert second.verdicts[0].why_none == "no verdict from 3 judges: empty"


JUDGE = {"engine": "judge", "model": "judge-model", "rubrics": ["mrbench_taxonomy"], "pairs": ["pairs_simple"]}
HOSTED = {"engine": "hosted", "model": "m", "base_url": "http://127.0.0.1:1/v1"}
NOMINAL = """rubric: colours
version: 1
title: Colours
source: written for this test
like: mrbench_taxonomy
criteria:
  Colour: {title: Colour, definition: Which?, labels: [red, blue], level: nominal}
"""


def plan_with(panel: dict[str, Any], judges: list[str], **members: dict[str, Any]) -> Any:
    models = {"judge-model": HOSTED, "one": JUDGE, "two": JUDGE, "panel": {"engine": "judge", **panel}, **members}
    run = {"tutors": ["echo"], "tasks": ["mrbench"], "judges": judges, "labels": ["mrbench"]}
    raw = registries()
    raw["models"] |= models
    return plan_of({**raw, "edition": "demo", "run": run})


@pytest.mark.parametrize(("panel", "judges", "members", "message"), [
    ({"judges": ["one"]}, ["one", "panel"], {}, "expected a panel of two or more different 'judges'"),
    ({"judges": ["one", "one"]}, ["one", "panel"], {}, "two or more different 'judges'"),
    ({"judges": ["one", "two"], "model": "judge-model"}, ["panel"], {}, "expected exactly one of 'model', 'judges' (a panel) and 'words: true'"),
    ({"judges": ["one", "two"], "max_tokens": 3}, ["panel"], {}, "a panel sends no requests: set 'max_tokens' in the entries of its judges"),
    ({"judges": ["one", "two"]}, ["panel", "one"], {}, "models.panel.judges[1]: two is not a judge of this run"),
    ({"judges": ["one", "twoo"]}, ["panel", "one"], {}, "models.panel.judges[1]: 'twoo' is not in the registries. Fix: did you mean 'two'?"),
    (
        {"judges": ["one", "inner"]},
        ["panel", "one", "two", "inner"],
        {"inner": {"engine": "judge", "judges": ["one", "two"]}},
        "models.panel.judges[1]: expected a single judge, found the panel inner",
    ),
    ({"judges": ["one", "echo"]}, ["panel", "one"], {}, "models.panel.judges[1]: expected a judge, found 'echo' with engine baseline"),
    (
        {"judges": ["one", "two"]},
        ["panel", "one", "two"],
        {"two": {**JUDGE, "rubrics": ["mrbench_critic"], "pairs": []}},
        "models.panel.judges: the panel's judges share no rubric (one: mrbench_taxonomy, pairs_simple; two: mrbench_critic)",
    ),
    ({"judges": ["one", "two"]}, ["panel", "one", "two"], {"two": {**JUDGE, "rubrics": ["mrbench_critic", "mrbench_taxonomy"]}}, "models.two.rubrics"),
])  # fmt: skip
def test_invalid_panels_are_refused(
    panel: dict[str, Any], judges: list[str], members: dict[str, Any], message: str
) -> None:
    with pytest.raises(UserError) as error:
        plan_with(panel, judges, **members)
    assert message in str(error.value)


def test_a_panel_has_the_rubrics_that_its_judges_share() -> None:
    plan = plan_with(
        {"judges": ["one", "two"]},
        ["panel", "one", "two"],
        two={**JUDGE, "rubrics": ["mrbench_taxonomy", "kmp_dialogue_short"]},
    )
    assert plan.judge_entry("panel").rubrics == ["mrbench_taxonomy"]
    assert plan.judge_entry("panel").pairs == ["pairs_simple"]
    assert plan.panels == ["panel"] and plan.judges_with_model == ["one", "two"]
    assert plan.judges_of_card(plan.card("mrbench", "mistake_remediation"))[0] == "panel", "it leads, being named first"
    files = inputs_of(plan, "combine_labelled")({"judge": "panel"})
    assert files["verdicts"] == ["results/verdicts/one/labelled.jsonl", "results/verdicts/two/labelled.jsonl"]


def test_a_panel_is_checked_on_as_many_labels_as_its_most_limited_judge() -> None:
    panel = {"judges": ["one", "two"]}
    assert plan_with(panel, ["panel", "one", "two"]).label_limit("panel") is None
    limited = plan_with(panel, ["panel", "one", "two"], two={**JUDGE, "label_limit": 7})
    assert (limited.label_limit("panel"), limited.label_limit("one")) == (7, None)


def test_labels_without_an_order_have_no_mean(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    dropped = "".join(
        f"  {name}: null\n"
        for name in yaml.safe_load(Path(rubrics.rubric_path("mrbench_taxonomy")).read_text())["criteria"]
    )
    (tmp_path / "colours.yaml").write_text(NOMINAL + dropped, encoding="utf-8")
    monkeypatch.setattr(rubrics, "USER_RUBRICS", tmp_path)
    entry = {**JUDGE, "rubrics": ["colours"], "pairs": []}
    problem = r"models.panel.vote: the labels of the criterion Colour \(colours\) have no order"
    with pytest.raises(UserError, match=problem):
        plan_with({"judges": ["one", "two"], "vote": "mean"}, ["panel", "one", "two"], one=entry, two=entry)


def test_a_question_to_a_single_judge_is_left_out_of_the_panel(tmp_path: Path) -> None:
    """The follow-up of a judge in the minority is left out, as are verdicts by a rubric that is not shared."""
    overall = read_rubric("kmp_dialogue").rubric.follow_up
    assert overall is not None

    def overall_judgement(value: str) -> Judgement:
        verdicts = [Verdict(criterion=overall.criterion, value=value)]
        fields = {"task": "dialogue", "rubric": "kmp_dialogue", "key": "k", "raw": "", "order": "ab"}
        return Judgement(id="i", tutor="t", verdicts=verdicts, **fields)

    follow_up = {"task": "dialogue", "rubric": overall.rubric, "key": "k", "raw": ""}
    answer = Judgement(
        id="i", tutor="t", verdicts=[Verdict(criterion="error_type", value="Factual Error")], **follow_up
    )
    files = [tmp_path / f"{judge}.jsonl" for judge in "abc"]
    job = panel_job(vote="majority", rubrics=["kmp_dialogue"])

    def panel(*values: str) -> list[str]:
        for path, value in zip(files, values, strict=True):
            write_records(path, [overall_judgement(value), *([answer] if value == "lose" else [])])
        with open(files[2], "a", encoding="utf-8") as file:
            file.write(judgement("i", YES).model_dump_json() + "\n")
        combine_verdicts(job=job, verdicts=files, out=tmp_path / "out.jsonl")
        return [row.rubric for row in read_records(tmp_path / "out.jsonl", Judgement)]

    assert panel("lose", "win", "win") == ["kmp_dialogue"]
    assert panel("lose", "lose", "win") == ["kmp_dialogue", overall.rubric]


def test_types_without_an_order_have_no_mean_in_a_further_question_either() -> None:
    entry = {**JUDGE, "rubrics": ["kmp_dialogue"], "pairs": []}
    with pytest.raises(UserError, match=r"the labels of the criterion error_type \(kmp_error_types\) have no order"):
        plan_with({"judges": ["one", "two"], "vote": "mean"}, ["panel", "one", "two"], one=entry, two=entry)


def test_a_panel_has_no_budget_and_no_pairs_of_its_own() -> None:
    with pytest.raises(UserError, match=r"models\.panel\.pairs: pairs_extended is not a rubric of one"):
        plan_with({"judges": ["one", "two"], "pairs": ["pairs_extended"]}, ["panel", "one", "two"])
    raw = registries()
    raw["models"] |= {
        "judge-model": HOSTED, "one": JUDGE, "two": JUDGE, "panel": {"engine": "judge", "judges": ["one", "two"]},
    }  # fmt: skip
    run = {"tutors": ["echo"], "tasks": ["mrbench"], "judges": ["panel", "one", "two"]}
    with pytest.raises(UserError, match=r"run\.budget\.models\.panel: panel is a judge without a model"):
        plan_of({**raw, "edition": "demo", "run": {**run, "budget": {"models": {"panel": {"requests": 5}}}}})
