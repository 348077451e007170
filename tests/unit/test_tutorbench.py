"""Tests of TutorBench: the formula by hand, loaders on the real data, prompts against the paper, scores by tag."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from columns import spelt
from httpserver import chat, scripted, serving
from maieutic.benchmarks.tutorbench import items as tutorbench
from maieutic.benchmarks.tutorbench.breakdown import ANSWERED, OVERALL, BreakDown, both_modalities, break_down
from maieutic.benchmarks.tutorbench.difficulty import item_difficulty
from maieutic.benchmarks.tutorbench.raters import RateJudge, rate_judge
from maieutic.benchmarks.tutorbench.section import data_counts, paper_rows
from maieutic.benchmarks.tutorbench.tagging import VoteTags, label_agreement, tag_summary, vote_tags, voted_level
from maieutic.config.cards import CARDS, read_card
from maieutic.config.models import HostedModel, JudgeModel
from maieutic.config.prompts import render
from maieutic.config.rubrics import read_rubric
from maieutic.core.errors import UserError
from maieutic.core.records import Item, Judgement, NegativeWeights, Reply, Score, Turn, Verdict, write_records
from maieutic.core.stats import BootstrapSettings, normal_half_width
from maieutic.datasets.mrbench import SCALES
from maieutic.datasets.registry import LOADERS
from maieutic.datasets.sources import read_source
from maieutic.graders.weighted_rubric import (
    ARR_W,
    NEGATIVE_WEIGHT_READINGS,
    WeightedCriterion,
    arr_w,
    clip_score,
    is_prohibition,
    is_unclear_negation,
)
from maieutic.judges.answers import answer_schema
from maieutic.judges.assignments import case_of_reply
from maieutic.judges.grading import GradeVerdicts, WeightedItems, grade_verdicts, grades_by_judge
from maieutic.judges.judging import JudgeSettings, judge_request, run_judge
from maieutic.judges.questions import question_messages, questions_about
from maieutic.plan.inputs import entry_for_asking
from maieutic.plan.plan import Plan
from maieutic.plan.provenance import card_paths
from maieutic.replies.generate import first_messages
from maieutic.scores.papers import printed_rows
from maieutic.scores.score import index_grades, score_task
from maieutic.serving.backends import JobFiles
from obedient_judge import obeyed
from run_configs import check_config
from running import NO_GRADERS
from shipped import shipped

FOLDER = CARDS / "tutorbench"
CASES = yaml.safe_load(Path("tests/tables/arr_w.yaml").read_text(encoding="utf-8"))
PROMPTS = yaml.safe_load(Path("tests/tables/tutorbench_prompts.yaml").read_text(encoding="utf-8"))
INJECTIONS = yaml.safe_load(Path("tests/tables/injections.yaml").read_text(encoding="utf-8"))
DEMO = Path("resources/demo/tutorbench/train.csv")


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("reading", NEGATIVE_WEIGHT_READINGS)
def test_the_formula_by_hand(name: str, reading: Any) -> None:
    rows = CASES[name]["criteria"]
    criteria = {f"c{place}": WeightedCriterion(weight, forbids) for place, (weight, forbids, _) in enumerate(rows)}
    passed = {f"c{place}": verdict for place, (_, _, verdict) in enumerate(rows)}
    expected = CASES[name][reading]
    value = arr_w(criteria, passed, reading)
    assert value == (None if expected is None else pytest.approx(expected, abs=1e-15))
    if value is not None:
        assert clip_score(value) == min(1.0, max(0.0, value))


def test_a_criterion_without_a_verdict_is_not_a_failed_one() -> None:
    with pytest.raises(KeyError):
        arr_w({"c1": WeightedCriterion(5, False), "c2": WeightedCriterion(1, False)}, {"c1": True}, "violated")


@pytest.mark.parametrize(("text", "expected"), [
    ("The response must not reveal the final answer.", True),
    ("The response should not give away the formula", True),
    ("The response mustn't solve the problem fully.", True),
    ("The tutor should never call the student lazy.", True),
    ("The response should refrain from giving x = 2.", True),
    ("The response must avoid fully solving the problem", True),
    ("In the first hint, the tutor should not name the rule.", True),
    ("The model cannot state the result.", True),
    ("The response reveals the final answer (2.74) directly", False),
    ("The response calls the student careless or lazy.", False),
    ("The response notes that this is nothing new.", False),
    # These seem to be faults; they are counted as unclear.
    ("The response reveals the final answer, which it should not.", False),
    ("The response avoids explaining the concept.", False),
    ("The response does not acknowledge the confusion.", False),
    ("The response gives the answer without any explanation.", False),
])  # fmt: skip
def test_prohibitions_are_told_from_faults(text: str, expected: bool) -> None:
    assert is_prohibition(text) is expected
    assert is_unclear_negation(text) is any(word in text for word in ("does not", "without", "which", "avoids"))


def demo_items() -> list[Item]:
    records = read_source(DEMO, "csv")
    return [*tutorbench.text_items(records, "text"), *tutorbench.multimodal_items(records, "multimodal")]


def kind(item: Item) -> str:
    return f"{item.tags['use_case']} {item.tags['modality']}"


def test_the_demo_has_a_text_and_an_image_item_of_every_use_case() -> None:
    assert {kind(item) for item in demo_items()} == set(PROMPTS["system"])


@pytest.mark.parametrize("protocol", ["released", "study_mode"])
def test_the_prompts_are_the_papers_to_the_letter(protocol: str) -> None:
    prompts = PROMPTS["system" if protocol == "released" else protocol]
    for item in demo_items():
        loaded = read_card(FOLDER / f"{item.task}.yaml", protocol)
        assert render(loaded.system, item.vars, "") == prompts[kind(item)]


def test_the_prompts_are_in_the_paper(data: Path) -> None:
    paper = data.parent / "papers/tutorbench.txt"
    if not paper.exists():
        pytest.skip("no text of the paper: expected the folder `papers` next to the folder in MAIEUTIC_DATA")
    # A figure interrupts the last prompt.
    text = " ".join(re.sub(r"\n\n\nFigure 11: [^\n]*\n", "", paper.read_text(encoding="utf-8")).split())
    for prompt in [*PROMPTS["system"].values(), *PROMPTS["study_mode"].values()]:
        assert prompt in text, prompt


@pytest.mark.parametrize("role", ["system", "user"])
def test_the_layout_of_the_messages(role: Any) -> None:
    expected = {
        "adaptive text": ["user", "assistant", "user"], "adaptive multimodal": ["user", "assistant", "user"],
        "assessment text": ["user", "assistant"], "assessment multimodal": ["user"],
        "active_learning text": ["user", "assistant"], "active_learning multimodal": ["user"],
    }  # fmt: skip
    for item in demo_items():
        item = item.model_copy(update={"images": [f"{'0' * 64}.png"] if item.images else []})
        messages = first_messages(read_card(FOLDER / f"{item.task}.yaml"), item, role)
        roles = [message["role"] for message in messages]
        assert roles == (["system"] if role == "system" else []) + expected[kind(item)]
        first = next(message["content"] for message in messages if message["role"] == "user")
        assert isinstance(first, list) is bool(item.images)
        if item.images:  # the picture is in the question's message
            assert [part["type"] for part in first] == ["text", "picture"] and item.vars["question"] in first[0]["text"]
        if role == "user":
            assert PROMPTS["system"][kind(item)] in str(first if isinstance(first, str) else first[0]["text"])


def test_a_protocol_puts_the_students_work_into_the_users_message() -> None:
    for item in (item for item in demo_items() if not item.images and item.tags["use_case"] != "adaptive"):
        messages = first_messages(read_card(FOLDER / "text.yaml", "user_work"), item, "system")
        assert [message["role"] for message in messages] == ["system", "user"]
        assert messages[1]["content"] == f"{item.vars['question']}\n\n{item.vars['work']}"


def test_the_copy_has_its_556_items_and_their_criteria(data: Path) -> None:
    records = read_source(data / "tutorbench/train.csv", "csv")
    items = LOADERS["tutorbench_copied_text"].load(records, "copy_text")
    assert len(items) == len({item.id for item in items}) == 556
    kept, left = sum(len(item.reference["criteria"]) for item in items), sum(i.reference["left_out"] for i in items)
    assert (kept + left, left) == (5465, 32)
    sizes = [len(item.reference["criteria"]) + item.reference["left_out"] for item in items]
    assert (min(sizes), max(sizes)) == (3, 28)
    tags = [tag for item in items for tag in item.reference["criterion_tags"].values()]
    assert Counter(tag["severity"] for tag in tags) == {
        "critical": 3888,
        "not_critical": 1419,
        "critical_negative": 126,
    }
    assert all(tag["prohibits"] for tag in tags if tag["severity"] == "critical_negative")
    assert {tag["skill"] for tag in tags} == {None, *tutorbench.SKILLS.values()}
    assert {name for tag in tags for name in tag["dimensions"]} <= set(tutorbench.DIMENSIONS)
    assert Counter(item.tags["use_case"] for item in items)["adaptive"] == 282
    assert sum("use_case_from" in item.tags for item in items) == 274
    assert len({item.cluster for item in items}) == 324  # intervals cluster the 556 samples by problem
    weights = {criterion["weight"] for item in items for criterion in item.reference["criteria"].values()}
    assert weights == {5.0, 1.0, -5.0}


def record(**changes: Any) -> dict[str, Any]:
    rubric = [{"attributes": {"severity": "critical"}, "criteria": "The response must help."}]
    return {
        "TASK_ID": "a", "BATCH": "USE_CASE_1_TEXT", "SUBJECT": "Physics", "PROMPT": "Why?",
        "UC1_INITIAL_EXPLANATION": "Because.", "FOLLOW_UP_PROMPT": "Why though?", "RUBRICS": json.dumps(rubric),
        "bloom_taxonomy": "Apply", **changes,
    }  # fmt: skip


def rubric_of(*severities: str) -> str:
    return json.dumps(
        [{"attributes": {"severity": severity}, "criteria": f"The response is {severity}."} for severity in severities]
    )


@pytest.mark.parametrize(("changes", "message"), [
    ({"BATCH": "USE_CASE_4_TEXT"}, "expected a BATCH like USE_CASE_1_TEXT"),
    ({"BATCH": ""}, "expected a BATCH like USE_CASE_1_TEXT"),
    ({"BATCH": None}, "expected a BATCH like USE_CASE_1_TEXT"),  # never guessed where the data have batches
    ({"RUBRICS": "[{"}, "RUBRICS: cannot be parsed as JSON"),
    ({"RUBRICS": "[]"}, "RUBRICS: expected a list of criteria"),
    ({"RUBRICS": '{"criteria": 1}'}, "RUBRICS: expected a list of criteria"),
    ({"RUBRICS": '["be good"]'}, "RUBRICS: expected a criterion with a text and a severity"),
    ({"RUBRICS": rubric_of("fatal")}, "RUBRICS: expected a criterion with a text and a severity"),
    ({"RUBRICS": rubric_of("critical_negative", "deleted")}, "RUBRICS: expected a criterion with a positive weight"),
    *(({"RUBRICS": json.dumps([{"attributes": {"severity": "critical"}, "criteria": "Help.", "weight": weight}])}, "RUBRICS: expected a single weight other than 0") for weight in ("five", 0, True, float("nan"), [5])),
    ({"RUBRICS": json.dumps([{"attributes": {"severity": "critical", "weight": -5}, "criteria": "Help.", "weight": 5}])}, "RUBRICS: expected a single weight other than 0"),
    ({"PROMPT": " "}, "is missing"),
    ({"FOLLOW_UP_PROMPT": None}, "is missing"),
    ({"BATCH": "USE_CASE_2_TEXT", "FOLLOW_UP_PROMPT": ""}, "is missing"),
])  # fmt: skip
def test_a_broken_record_is_named(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=r"record 1 a: .*" + re.escape(message)):
        tutorbench.text_items([record(), record(**changes)], "text")


def test_deleted_criteria_are_left_out_and_counted() -> None:
    [item] = tutorbench.text_items(
        [record(RUBRICS=rubric_of("critical", "deleted", "critical_negative", "not_critical"))], "t"
    )
    # Names count the deleted criteria, so that people's ratings of the whole rubric still match.
    assert {name: criterion["weight"] for name, criterion in item.reference["criteria"].items()} == {
        "c01": 5,
        "c03": -5,
        "c04": 1,
    }
    assert item.reference["left_out"] == 1


WEIGHTED = [
    ({"severity": "critical"}, {}, 5.0, False),
    ({"severity": "critical"}, {"weight": 5}, 5.0, False),
    ({"severity": "critical"}, {"weight": -5}, -5.0, True),
    ({"severity": "critical", "weight": "-5"}, {}, -5.0, True),
    ({"severity": "critical", "weight": -5}, {"weight": -5}, -5.0, True),
    ({"severity": "not_critical"}, {"weight": 2.5}, 2.5, True),
    ({"severity": "critical_negative"}, {"weight": 5}, 5.0, True),
    ({"severity": "critical_negative", "weight": None}, {"weight": None}, -5.0, False),
]


@pytest.mark.parametrize(("attributes", "more", "weight", "contradicts"), WEIGHTED)
def test_an_explicit_weight_is_obeyed_and_a_contradiction_counted(
    attributes: dict[str, Any], more: dict[str, Any], weight: float, contradicts: bool, caplog: pytest.LogCaptureFixture
) -> None:
    usual = {"attributes": {"severity": "critical"}, "criteria": "The response must help."}
    rubric = json.dumps([usual, {"attributes": attributes, "criteria": "The response reveals the answer.", **more}])
    with caplog.at_level("WARNING"):
        [item] = tutorbench.text_items([record(RUBRICS=rubric)], "text")
    assert item.reference["criteria"]["c02"]["weight"] == weight
    assert bool(item.reference["contradictions"]) == contradicts
    severity = attributes["severity"]
    warning = f"text: found criteria whose weight contradicts their severity: 1 in total, the first in record 0 a c02: {severity}"
    assert (warning in caplog.text) == contradicts
    counts = data_counts([item])
    assert len(counts["contradictions"]) == contradicts
    weighed = {"c01": WeightedCriterion(5.0, False), "c02": WeightedCriterion(weight, False)}
    both = arr_w(weighed, {"c01": True, "c02": True}, "satisfied")
    assert both == pytest.approx((5 + weight) / (5 + max(weight, 0)))


def test_the_cards_count_what_the_release_holds() -> None:
    counts = {name: read_card(FOLDER / f"{name}.yaml").card.items for name in ("text", "multimodal")}
    registry = yaml.safe_load(Path("resources/registries/datasets.yaml").read_text(encoding="utf-8"))["datasets"][
        "tutorbench"
    ]
    assert counts == {"text": 656, "multimodal": 817} and sum(counts.values()) == registry["published"]["records"]


PIXEL = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


@pytest.mark.parametrize("takes_pictures", [True, False])
def test_a_judge_that_takes_pictures_is_shown_the_items(takes_pictures: bool, tmp_path: Path) -> None:
    """A job on a scripted server: the picture is in the request and not in the results."""
    [item] = [
        item
        for item in tutorbench.multimodal_items(read_source(DEMO, "csv"), "multimodal")
        if kind(item) == "assessment multimodal"
    ]
    name = f"{hashlib.sha256(PIXEL).hexdigest()}.png"
    (tmp_path / name).write_bytes(PIXEL)
    item = item.model_copy(update={"images": [name]})
    reply = Reply(
        id=item.id, task=item.task, tutor="m", key="k", turns=[Turn(messages="h", text="Look.", finish="stop")]
    )
    loaded = read_rubric("tutorbench")
    work = [
        (loaded, case_of_reply(loaded, item, reply)),
        (
            loaded,
            case_of_reply(
                loaded, item.model_copy(update={"id": "x", "images": []}), reply.model_copy(update={"id": "x"})
            ),
        ),
    ]
    answer = json.dumps({criterion: {"reason": "so", "verdict": "pass"} for criterion in item.reference["criteria"]})
    script = scripted(lambda number, request: (200, chat({"content": answer}), {}))
    with serving(script) as address:
        model = HostedModel(engine="hosted", model="m", base_url=f"{address}/v1", images=takes_pictures, attempts=2)
        panel = JudgeSettings("j", JudgeModel(engine="judge", model="m", rubrics=["tutorbench"]), model, 1)
        files = JobFiles(None, tmp_path / "journal.jsonl", tmp_path / "log", tmp_path)
        run_judge(panel, work, files, tmp_path / "out.jsonl")
    bodies = [json.dumps(body) for _, _, body in script.requests]
    with_picture = [body for body in bodies if "data:image/png;base64," + base64.b64encode(PIXEL).decode() in body]
    assert len(with_picture) == (1 if takes_pictures else 0), "the item with a picture, if the judge takes pictures"
    assert len(bodies) == (2 if takes_pictures else 1), "without the picture both are one question"
    for path in ("journal.jsonl", "out.jsonl"):
        assert "base64" not in (tmp_path / path).read_text(encoding="utf-8")


def test_study_mode_is_a_row_beside_the_same_tutor_without_it() -> None:
    raw = shipped()
    raw["run"] |= {"tutors": ["gpt-5", "gpt-5-study"], "tasks": ["tutorbench/text", "mrbench"], **NO_GRADERS}
    config = check_config(raw)
    plan = Plan(config)
    cards = {
        name: {loaded.card.task: loaded for loaded in plan.cards_for("tutorbench", name)} for name in config.run.tutors
    }
    assert cards["gpt-5"]["text"].system == read_card(FOLDER / "text.yaml").system
    assert cards["gpt-5-study"]["text"].system == read_card(FOLDER / "text.yaml", "study_mode").system
    assert cards["gpt-5"]["text"].system != cards["gpt-5-study"]["text"].system
    assert [plan.protocol_of(name) for name in config.run.tutors] == ["released", "study_mode"]
    assert entry_for_asking(config.models["gpt-5"]) == entry_for_asking(config.models["gpt-5-study"]), (
        "the entry for asking leaves out the protocol"
    )
    card = cards["gpt-5"]["text"].card
    names = {path.name for path in card_paths(plan, card)}
    assert {"tutoring.system.jinja", "tutoring.study.jinja"} <= names, "the record covers both prompts"
    raw["models"]["gpt-5-study"]["protocol"] = "studi_mode"
    with pytest.raises(UserError, match=r"models\.gpt-5-study\.protocol: 'studi_mode'.*did you mean 'study_mode'"):
        check_config(raw)


def test_levels_by_vote_fill_what_the_release_leaves_open(tmp_path: Path) -> None:
    """Item a keeps the level of the release."""
    votes = {"text/a": "create", "text/b": "create", "multimodal/d": "apply"}
    with_votes = broken_down(tmp_path, JUDGEMENTS, ["text", "multimodal"], votes)
    without = broken_down(tmp_path, JUDGEMENTS, ["text", "multimodal"])
    assert without["bloom/apply"].n == 1 and "bloom/create" not in without
    assert with_votes["bloom/create"].n == 1, "b; a keeps the release's level"
    assert with_votes["bloom/apply"].n == 2 and with_votes["bloom_vote/create"].n == 2


def test_an_unknown_tag_is_a_level_of_its_own() -> None:
    rubric = [
        {
            "attributes": {
                "severity": "critical",
                "tutoring_skill": "Uses Humour! ",
                "eval_dimension": "style_tone, Wit ",
            },
            "criteria": "The response must be witty.",
        }
    ]
    [item] = tutorbench.text_items([record(RUBRICS=json.dumps(rubric), bloom_taxonomy="Meta-Cognition")], "text")
    assert item.reference["criterion_tags"]["c01"]["skill"] == "uses_humour"
    assert item.reference["criterion_tags"]["c01"]["dimensions"] == ["style_tone", "wit"]
    assert item.tags["bloom"] == "meta_cognition"


def test_the_use_case_of_a_row_without_a_batch_is_guessed_and_marked() -> None:
    bare = {name: value for name, value in record().items() if name not in {"TASK_ID", "BATCH"}}
    rows = [
        bare,
        {**bare, "UC1_INITIAL_EXPLANATION": "", "RUBRICS": rubric_of("critical", "critical_negative")},
        {**bare, "UC1_INITIAL_EXPLANATION": "", "RUBRICS": rubric_of("critical")},
        {
            **bare,
            "UC1_INITIAL_EXPLANATION": "",
            "RUBRICS": json.dumps(
                [{"attributes": {"severity": "critical"}, "criteria": "The response must hint at x."}]
            ),
        },
    ]
    items = tutorbench.copied_text_items(rows, "copy_text")
    assert [item.tags["use_case"] for item in items] == ["adaptive", "active_learning", "assessment", "active_learning"]
    assert ["use_case_from" in item.tags for item in items] == [False, True, True, True]
    assert [item.id for item in items] == ["row-0001", "row-0002", "row-0003", "row-0004"]


def test_the_papers_overall_is_the_mean_weighted_by_samples() -> None:
    rows = [row for row in paper_rows(printed_rows("tutorbench")) if row["group"] == "ranked"]
    assert len(rows) == 12
    for row in rows:
        text, multimodal, overall = row["cells"]
        assert overall == pytest.approx((662 * text + 828 * multimodal) / 1490, abs=0.0151), row["who"]


def test_the_papers_interval_is_normal() -> None:
    for row in paper_rows(printed_rows("tutorbench")):
        n = 662 if row["group"] == "text-only model" else 1490
        spread = row["normal"] * np.sqrt(n) / 1.959964  # in points: the scores of samples lie between -100 and 100
        assert 18 < spread < 23, row["who"]
    values = [0.0, 0.5, 1.0, 1.0]
    by_hand = 1.959963984540054 * np.sqrt(sum((v - 0.625) ** 2 for v in values) / 3) / 2
    assert normal_half_width(values) == pytest.approx(by_hand)
    assert normal_half_width([0.5]) is None


def case(name: str, task: str = "text", **tags: str) -> Item:
    """Return an item with a +5, a +1 and a -5 criterion."""
    criteria = {
        "c01": (5.0, "critical", "core_difficulty", ["truthfulness"]),
        "c02": (1.0, "not_critical", None, ["style_tone", "truthfulness"]),
        "c03": (-5.0, "critical_negative", "examples", []),
    }
    return Item(
        id=name, task=task, cluster=f"p-{name}", vars={"question": name},
        reference={
            "criteria": {
                key: {"title": key, "definition": key, "weight": fields[0]} for key, fields in criteria.items()
            },
            "criterion_tags": {
                key: {
                    "severity": fields[1], "prohibits": True, "unclear": False, "skill": fields[2],
                    "dimensions": fields[3], "explicitness": "explicit", "objectivity": None,
                }
                for key, fields in criteria.items()
            },
            "left_out": 0,
        },
        tags={"use_case": "adaptive", "modality": task, "subject": "Physics", **tags},
    )  # fmt: skip


def judged(item: str, passed: Mapping[str, bool | None], task: str = "text", model: str = "m") -> Judgement:
    verdicts = [Verdict(criterion=name, value=value, reason=f"of {name}") for name, value in passed.items()]
    return Judgement(id=item, task=task, tutor=model, rubric="tutorbench", key="k", verdicts=verdicts, raw="{}")


def all_of(first: bool | None, second: bool | None, third: bool | None) -> dict[str, bool | None]:
    return {"c01": first, "c02": second, "c03": third}


ITEMS = [case("a", bloom="apply"), case("b", subject="Biology"), case("c"), case("d", task="multimodal")]
JUDGEMENTS = [
    judged("a", all_of(True, True, True)),  # 6 of 6
    judged("b", all_of(True, False, False)),  # 5 - 5 of 6: the prohibition is violated
    judged("c", all_of(False, None, True)),  # unknown: a verdict is missing
    judged("d", all_of(False, True, False), task="multimodal"),  # 1 - 5 of 6
]


def test_the_grades_of_an_item_and_what_is_missing() -> None:
    weighing = WeightedItems({(item.task, item.id): item for item in ITEMS}, "by_phrasing")
    grades = {
        (grade.id, grade.criterion): grade
        for grade in grades_by_judge("j", JUDGEMENTS, "m", weighing)
        if grade.scoring == "robust"
    }
    assert grades["a", ARR_W].value == 1 and grades["b", ARR_W].value == 0
    assert grades["c", ARR_W].value is None and grades["c", ARR_W].why_none == "1 of 3 criteria have no verdict"
    assert grades["d", ARR_W].value == pytest.approx(-4 / 6) and grades["d", f"{ARR_W}_clipped"].value == 0
    assert grades["b", f"{ARR_W}_satisfied"].value == pytest.approx(5 / 6)
    assert grades["a", f"{ARR_W}_satisfied"].value == pytest.approx(1 / 6)
    assert grades["b", "c03"].reason == "of c03"


@pytest.mark.parametrize(
    ("rubric", "parts"), [("tutorbench", [3]), ("tutorbench_short", [3]), ("tutorbench_each", [1] * 3)]
)
def test_all_criteria_in_one_question_or_one_each(rubric: str, parts: list[int]) -> None:
    loaded = read_rubric(rubric)
    item = ITEMS[0].model_copy(update={"vars": dict.fromkeys(tutorbench.VARIABLES, "x")})
    reply = Reply(id="a", task="text", tutor="m", key="k", turns=[Turn(messages="h", text="Hello.")])
    case = case_of_reply(loaded, item, reply)
    questions = questions_about(loaded.rubric, case)
    assert [len(question.criteria) for question in questions] == parts
    for question in questions:
        text = "\n".join(message["content"] for message in question_messages(loaded, case, question))
        assert all(f"{name}: {criterion.definition}" in text for name, criterion in question.criteria.items())
        schema = answer_schema(loaded.rubric, question.criteria)
        assert schema["required"] == list(question.criteria)
        assert {tuple(answer["required"]) for answer in schema["properties"].values()} == {("reason", "verdict")}


@pytest.mark.parametrize("rubric", ["tutorbench", "tutorbench_each"])
@pytest.mark.parametrize(("takes_pictures", "endpoint"), [(True, "chat"), (False, "chat"), (True, "completions")])
def test_a_judge_is_told_if_a_picture_is_attached(rubric: str, takes_pictures: bool, endpoint: str) -> None:
    """The request states that the picture is attached, or that the judge does not see it."""
    loaded = read_rubric(rubric)
    words = dict.fromkeys(tutorbench.VARIABLES, "x") | {"modality": "multimodal"}
    item = ITEMS[0].model_copy(update={"vars": words, "images": ["a.png"]})
    case = case_of_reply(
        loaded, item, Reply(id="a", task="text", tutor="m", key="k", turns=[Turn(messages="h", text="Hi.")])
    )
    entry = {
        "engine": "hosted", "model": "m", "base_url": "http://127.0.0.1:9/v1", "images": takes_pictures,
        "endpoint": endpoint,
    }  # fmt: skip
    judge = JudgeModel.model_validate({"engine": "judge", "model": "far", "rubrics": [rubric]})
    panel = JudgeSettings("j", judge, HostedModel.model_validate(entry), 1)
    request = json.dumps(judge_request(loaded, case, questions_about(loaded.rubric, case)[0], panel))
    attached = "a.png" in request
    assert attached is (takes_pictures and endpoint == "chat")
    assert ("is attached" in request, "you do not see it" in request) == (attached, not attached)


@pytest.mark.parametrize("rubric", ["tutorbench", "tutorbench_short", "tutorbench_each"])
def test_no_reply_gives_an_order_outside_its_fence(rubric: str) -> None:
    loaded = read_rubric(rubric)
    for item in demo_items()[:3]:

        def prompts(text: str, item: Item = item) -> str:
            turns = [Turn(messages="h", text=text)]
            case = case_of_reply(loaded, item, Reply(id=item.id, task=item.task, tutor="m", key="k", turns=turns))
            by_question = [
                question_messages(loaded, case, question) for question in questions_about(loaded.rubric, case)
            ]
            return "\n\n".join(message["content"] for messages in by_question for message in messages)

        known = prompts("Look again.")
        for text in INJECTIONS:
            assert obeyed(prompts(text), known) is None and "<<<DATA-" in prompts(text)


def graded(folder: Path, tutor: str, reading: NegativeWeights = "by_phrasing") -> Path:
    """Grade a tutor by the verdicts and items of a folder and return the file of grades."""
    job = GradeVerdicts(judge="j", tutor=tutor, weighted=["text", "multimodal"], negative_weights=reading)
    out = folder / f"{tutor}.jsonl"
    grade_verdicts(job=job, verdicts=folder / "verdicts.jsonl", items=folder, out=out)
    return out


def write_items(folder: Path) -> list[str]:
    """Write the items of each task, and return the tasks."""
    tasks = list(dict.fromkeys(item.task for item in ITEMS))
    for task in tasks:
        write_records(folder / f"{task}.jsonl", [item for item in ITEMS if item.task == task])
    return tasks


def broken_down(
    tmp_path: Path, judgements: Sequence[Judgement], answered: Sequence[str], votes: dict[str, str] | None = None
) -> dict[str, Score]:
    write_items(tmp_path)
    write_records(tmp_path / "verdicts.jsonl", judgements)
    path = tmp_path / "votes.json"
    path.write_text(json.dumps({"bloom": votes or {}}), encoding="utf-8")
    out, grades = tmp_path / "out.json", graded(tmp_path, "m")
    tasks = ["text", "multimodal"]
    job = BreakDown(
        benchmark="tutorbench", tutor="m", tasks=tasks, asked=list(answered), judges=["j"], resamples=200, seed=1
    )
    break_down(job=job, items=tmp_path, grades=[grades], votes=[path] if path else [], out=out)
    scores = [Score.model_validate(score) for score in json.loads(out.read_text(encoding="utf-8"))]
    assert {(score.task, score.by) for score in scores} == {("release", "j")}
    return {spelt(score): score for score in scores}


def test_every_breakdown_by_hand(tmp_path: Path) -> None:
    scores = broken_down(tmp_path, JUDGEMENTS, ["text", "multimodal"], {"text/b": "create"})
    value = {name: None if score.value is None else round(score.value, 6) for name, score in scores.items()}
    third = round((1 + 0 - 4 / 6) / 3, 6)
    assert value[OVERALL] == value[ANSWERED] == value["use_case/adaptive"] == third
    assert (scores[OVERALL].n, scores[OVERALL].missing, scores[OVERALL].clusters) == (3, 1, 3)
    assert scores[OVERALL].normal == pytest.approx(normal_half_width([1.0, 0.0, -4 / 6]))
    assert value["answered_clipped"] == round(1 / 3, 6)
    assert value["answered_violated"] == third
    assert value["answered_satisfied"] == round((1 / 6 + 5 / 6 + 1 / 6) / 3, 6)
    assert (value["modality/text"], value["modality/multimodal"]) == (0.5, round(-4 / 6, 6))
    assert (value["subject/Biology"], value["bloom/apply"], value["bloom_vote/create"]) == (0.0, 1.0, 0.0)
    # c01 is passed by two of four replies, c02 by two of the three with a verdict, c03 by two of four.
    assert (value["severity/critical"], value["severity/not_critical"]) == (0.5, round(2 / 3, 6))
    assert (value["severity/critical_negative"], value["skill/examples"]) == (0.5, 0.5)
    assert value["skill/core_difficulty"] == 0.5 and "skill/None" not in value
    assert value["dimension/style_tone"] == round(2 / 3, 6) and value["dimension/truthfulness"] == round(4 / 7, 6)
    assert value["criterion_pass_rate"] == value["explicitness/explicit"] == round(6 / 11, 6)
    assert scores["criterion_pass_rate"].missing == 1 and not any(name.startswith("objectivity") for name in value)
    for score in scores.values():
        assert score.value is None or score.low is None or score.low <= score.value <= (score.high or 0)


def test_a_reply_that_was_refused_is_missing_from_every_score(tmp_path: Path) -> None:
    scores = broken_down(tmp_path, JUDGEMENTS[:1], ["text", "multimodal"])
    assert (scores[OVERALL].n, scores[OVERALL].missing, scores[OVERALL].value) == (1, 3, 1.0)
    assert (scores["modality/multimodal"].n, scores["modality/multimodal"].missing) == (0, 1)
    assert (scores["severity/critical"].n, scores["severity/critical"].missing) == (1, 3)


def test_a_tutor_whose_every_reply_was_refused_is_missing_everywhere(tmp_path: Path) -> None:
    other = [judgement.model_copy(update={"tutor": "n"}) for judgement in JUDGEMENTS]
    breakdown = broken_down(tmp_path, other, ["text", "multimodal"])
    assert (breakdown[OVERALL].n, breakdown[OVERALL].missing, breakdown[OVERALL].value) == (0, 4, None)
    card = read_card(FOLDER / "text.yaml").card
    scores = score_task(
        card, "m", ITEMS[:3], index_grades(grades_by_judge("j", other, "m")), BootstrapSettings(100, 1), ["j"]
    )
    [head] = [score for score in scores if score.headline and score.scoring == "robust"]
    assert (head.metric, head.by, head.n, head.missing, head.value) == ("arr_w", "j", 0, 3, None)


def test_samples_of_one_kind_have_no_overall_score(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("maieutic.benchmarks.tutorbench.breakdown.both_modalities", lambda items: False)
    scores = broken_down(tmp_path, JUDGEMENTS, ["text", "multimodal"])
    assert scores[OVERALL].value is None and scores[ANSWERED].n == 3
    monkeypatch.undo()
    assert both_modalities(ITEMS) and not both_modalities(ITEMS[:3])


def test_a_fault_that_is_present_counts_against_the_reply() -> None:
    fault = case("a")
    fault.reference["criterion_tags"]["c03"]["prohibits"] = False
    weighing = WeightedItems({("text", "a"): fault}, "by_phrasing")
    grades = {
        grade.criterion: grade for grade in grades_by_judge("j", [judged("a", all_of(True, True, True))], "m", weighing)
    }
    assert grades["c03"].value is True and grades["c03"].correct is False
    assert grades["desired_share"].value == pytest.approx(2 / 3)


def test_a_tutor_without_pictures_has_no_overall_score_and_is_not_zero(tmp_path: Path) -> None:
    scores = broken_down(tmp_path, JUDGEMENTS[:3], ["text"])
    assert scores[OVERALL].value is None and scores[OVERALL].n == scores[OVERALL].missing == 0
    assert scores["modality/text"].value == scores[ANSWERED].value == 0.5
    assert "modality/multimodal" not in scores


@pytest.mark.parametrize(("levels", "expected"), [
    (["Apply", "Apply", "Create"], "apply"),
    (["Apply", "Analyze", "Create"], None),
    (["Apply", "Apply", "Apply"], "apply"),
    (["Apply", "Apply"], "apply"),
    (["Apply"], None),
    ([], None),
    (["Apply", "Apply", "Create", "Create"], None),
])  # fmt: skip
def test_the_vote_of_three(levels: list[str], expected: str | None) -> None:
    assert voted_level(levels) == expected


def test_tags_by_models_against_each_other_and_the_release(tmp_path: Path) -> None:
    def tagged(name: str, **labels: str) -> Judgement:
        verdicts = [Verdict(criterion=key, value=value) for key, value in labels.items()]
        return Judgement(id=name, task="text", tutor=None, rubric="r", key="k", verdicts=verdicts, raw="")

    by_tagger = {
        "one": [tagged("a", bloom="Apply"), tagged("b", bloom="Create"), tagged("a/c01", skill="core_difficulty")],
        "two": [tagged("a", bloom="Apply"), tagged("b", bloom="Remember"), tagged("a/c02", dimension="truthfulness")],
        "three": [tagged("a", bloom="Analyze"), tagged("a/c03", skill="none")],
    }
    assert tag_summary(ITEMS[:2], {"one": by_tagger["one"]})["covered"] is None
    write_records(tmp_path / "text.jsonl", ITEMS[:2])
    for name, judgements in by_tagger.items():
        write_records(tmp_path / f"{name}.tags", judgements)
    job = VoteTags(tasks=["text"], taggers=list(by_tagger))
    files = [tmp_path / f"{name}.tags" for name in by_tagger]
    vote_tags(job=job, items=tmp_path, tags=files, out=tmp_path / "tags.json")
    tags = json.loads((tmp_path / "tags.json").read_text(encoding="utf-8"))
    assert tags["bloom"] == {"text/a": "apply", "text/b": None} and tags["covered"] == 0.5
    rows = {(row["tagger"], row["tag"]): row["same"] for row in tags["with_release"]}
    assert rows == {
        ("one", "bloom"): 1.0,
        ("one", "skill"): 1.0,
        ("two", "bloom"): 1.0,
        ("two", "dimension"): 1.0,  # one of the two dimensions of c02
        ("three", "bloom"): 0.0,
        ("three", "skill"): 0.0,  # `examples` in the release
    }
    assert tags["pairs"][0] == {
        "taggers": ["one", "two"],
        **label_agreement(["Apply", "Create"], ["Apply", "Remember"]),
    }
    assert tags["pairs"][0]["same"] == 0.5


@pytest.mark.parametrize(("scores", "below", "hard"), [
    ([0.1, 0.2, 0.49, 0.5, 0.9], 3, True),
    ([0.1, 0.2, 0.5, 0.5, 0.9], 2, False),  # half is not below half
    ([-1.0, None, 0.2, 0.6, 0.6], 2, None),
    ([0.9, None, 0.9, 0.9, 0.1], 1, False),
    ([0.1, 0.1, 0.1, None, None], 3, True),
])  # fmt: skip
def test_the_difficulty_filter(scores: list[float | None], below: int, hard: bool | None) -> None:
    difficulty = item_difficulty(ITEMS[0], {f"m{place}": score for place, score in enumerate(scores)}, 0.5, 3)
    assert (difficulty.below, difficulty.hard) == (below, hard)


RATINGS = """task,item,tutor,criterion,label,annotator
text,a,m,c01,pass,ann
text,a,m,c01,pass,ben
text,a,m,c01,pass,cem
text,a,m,c02,PASS,ann
text,a,m,c02,fail,ben
text,a,m,c02,pass,cem
text,b,m,c01,fail,ann
text,b,m,c01,fail,ben
text,b,m,c01,pass,cem
text,b,m,c02,fail,ann
text,b,m,c02,pass,ben
"""


def rated(tmp_path: Path, ratings: str) -> dict[tuple[str, str], Score]:
    people, verdicts = tmp_path / "people.csv", tmp_path / "verdicts.jsonl"
    people.write_text(ratings, encoding="utf-8")
    write_records(verdicts, JUDGEMENTS)
    tasks = write_items(tmp_path)
    job = RateJudge(judge="j", tasks=tasks, resamples=100, seed=1, scales={"mistake_remediation": SCALES}, own=tasks)
    rate_judge(job=job, verdicts=[verdicts], people=people, items=tmp_path, out=tmp_path / "out.json")
    scores = [Score.model_validate(score) for score in json.loads((tmp_path / "out.json").read_text(encoding="utf-8"))]
    return {(score.grader, spelt(score)): score for score in scores}


def test_a_judge_against_raters_by_hand(tmp_path: Path) -> None:
    scores = rated(tmp_path, RATINGS)
    value = {key: None if score.value is None else round(score.value, 6) for key, score in scores.items()}
    # ann against the others: a/c01 2 of 2, a/c02 1 of 2, b/c01 1 of 2, b/c02 0 of 1.
    assert value["ann", "agreement"] == round(4 / 7, 6)
    assert value["ben", "agreement"] == round((2 + 0 + 1 + 0) / 7, 6)
    assert value["cem", "agreement"] == round((2 + 1 + 0) / 6, 6)
    assert value["all", "mean_agreement"] == round((4 / 7 + 3 / 7 + 3 / 6) / 3, 6)
    # The judge's verdicts: pass, pass, pass, fail.
    assert value["j", "agreement/ann"] == 0.75 and value["j", "agreement/ben"] == 0.25
    assert value["j", "agreement"] == round((3 + 1 + 3) / 11, 6)
    # Majorities: pass, pass, fail, and a tie on b/c02. Two true positives, one false positive.
    assert value["j", "f1/all"] == 0.8 and (scores["j", "f1/all"].n, scores["j", "f1/all"].missing) == (3, 1)
    assert value["j", "f1/critical"] == round(2 / 3, 6) and value["j", "f1/not_critical"] == 1.0
    assert value["cem", "f1"] == 0.8 and value["ann", "f1"] == 1.0
    assert {score.task for score in scores.values()} == {"raters"} and {score.by for score in scores.values()} == {"j"}


def test_a_resolver_decides_and_is_not_a_rater(tmp_path: Path) -> None:
    lines = RATINGS.splitlines()
    resolved = [f"{lines[0]},resolves", *(f"{line}," for line in lines[1:]), "text,b,m,c02,pass,eva,yes"]
    scores = rated(tmp_path, "\n".join(resolved) + "\n")
    assert ("eva", "agreement") not in scores and scores["ann", "agreement"].value == pytest.approx(4 / 7)
    # The judge fails b/c02, which now passes: two true positives, one false one, one missed.
    assert scores["j", "f1/all"].value == pytest.approx(2 / 3) and scores["j", "f1/all"].missing == 0


@pytest.mark.parametrize(("row", "message"), [("text,a,m,c09,pass,ann", "found c09 of m's reply to text/a"), ("text,zz,m,c01,pass,ann", "found c01 of m's reply to text/zz")])  # fmt: skip
def test_a_rating_that_matches_nothing_is_refused_by_name(tmp_path: Path, row: str, message: str) -> None:
    with pytest.raises(UserError, match=re.escape(message)):
        rated(tmp_path, f"{RATINGS.splitlines()[0]}\n{row}\n")


def test_ratings_of_other_rubrics_are_left_out(tmp_path: Path) -> None:
    assert rated(tmp_path, f"{RATINGS.splitlines()[0]}\nmistake_remediation,a,m,Mistake_Location,Yes,ann\n") == {}
