"""Tests of cards and prompts: they equal the released texts, and invalid cards are refused."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import jinja2
import jsonschema
import pytest
import yaml
from maieutic.config import cards
from maieutic.config.cards import CARDS, check_variables, read_card
from maieutic.config.prompts import render
from maieutic.core.errors import UserError
from maieutic.datasets.registry import LOADERS
from maieutic.tools.schemas import all_schemas
from referencing import Registry, Resource
from referencing.jsonschema import DRAFT202012

BENCHMARK = CARDS / "mathtutorbench"
TASKS = sorted(path.stem for path in BENCHMARK.glob("*.yaml"))
RELEASED_NAMES = {"solution_correctness": "student_solution_correctness"}
VARIABLES = {
    "question": "How many {{ eggs }}?\nSecond line", "dialog_history": "Teacher: Hello\nStudent: Hi",
    "student_chat_solution": "It is <5> & not 6", "student_solution": "Step 1 - a\\nStep 2 - b",
    "student_solution_lines": "Step 1 - a\nStep 2 - b",
}  # fmt: skip


def released_config(data: Path, task: str) -> dict:
    path = data / "mathtutorbench/configs" / f"{RELEASED_NAMES.get(task, task)}.yaml"
    return yaml.safe_load(path.read_text(encoding="utf-8"))


@pytest.mark.parametrize("task", TASKS)
def test_prompts_are_the_released_ones_to_the_character(task: str, data: Path) -> None:
    """Prompts equal those of the released code, which renders its configuration with plain Jinja."""
    config, loaded = released_config(data, task), read_card(BENCHMARK / f"{task}.yaml")
    expected = jinja2.Template(config["system_prompt"]).render(**VARIABLES, shots=config["few_shot_samples"])
    assert render(loaded.templates[0], VARIABLES, loaded.shots) == expected
    assert loaded.card.stop == config["stop"]
    assert (loaded.card.temperature, loaded.card.max_tokens, loaded.card.endpoint) == (0.0, 2048, "completions")


@pytest.mark.parametrize("task", TASKS)
def test_loaders_give_every_prompt_variable(task: str) -> None:
    for protocol in ("released", "paper", "newlines", "corrected"):
        path = BENCHMARK / f"{task}.yaml"
        loaded = read_card(path, protocol)
        check_variables(path, loaded, LOADERS[loaded.card.loader].variables)


def test_the_papers_socratic_wording_is_a_named_variant() -> None:
    path = BENCHMARK / "socratic_questioning.yaml"
    released_prompt, paper = (read_card(path, name) for name in ("released", "paper"))
    assert "Generate only a list of questions on one line." in released_prompt.templates[0]
    assert "Generate only a list of questions.\n" in paper.templates[0]
    assert (released_prompt.card.stop, paper.card.stop) == (["Problem:", "\n"], ["Problem:"])


def test_the_corrected_protocol_asks_without_the_released_defects() -> None:
    """No card stops at a line break, and the last line of a solution is in the prompt."""
    for task in TASKS:
        loaded = read_card(BENCHMARK / f"{task}.yaml", "corrected")
        assert not any("\n" in stop for stop in loaded.card.stop), task
    location = read_card(BENCHMARK / "mistake_location.yaml", "corrected")
    assert "{{student_solution_whole}}" in location.templates[0]


def test_values_are_data_and_not_templates() -> None:
    expected = "Q: {{ 7 * 7 }} {% for x in y %}"
    assert render("Q: {{ question }}", {"question": "{{ 7 * 7 }} {% for x in y %}"}, "") == expected


@pytest.mark.parametrize("template", [
    "{{ question.__class__.__mro__ }}", "{{ ''.__class__.__subclasses__() }}", "{{ cycler.__init__.__globals__ }}",
])  # fmt: skip
def test_templates_are_sandboxed(template: str) -> None:
    with pytest.raises((jinja2.exceptions.SecurityError, jinja2.exceptions.UndefinedError)):
        render(template, {"question": "q"}, "")


def card_with(tmp_path: Path, change: dict | None = None, **files: str) -> Path:
    """Return a copy of one card with some keys changed and some files replaced."""
    folder = tmp_path / "mathtutorbench"
    folder.mkdir()
    for path in BENCHMARK.glob("problem_solving*"):
        (folder / path.name).write_bytes(path.read_bytes())
    path = folder / "problem_solving.yaml"
    card = yaml.safe_load(path.read_text(encoding="utf-8"))
    path.write_text(json.dumps({**card, **(change or {})}), encoding="utf-8")
    for name, text in files.items():
        (folder / name.replace("__", ".")).write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize(("change", "expected"), [
    ({"stops": ["x"]}, r"stops: is not a known key\. Fix: did you mean 'stop'"),
    ({"endpoint": "chats"}, "endpoint: input should be 'chat' or 'completions'"),
    ({"turns": []}, "turns: list should have at least 1 item"),
    ({"turns": ["nothing.jinja"]}, "found no file nothing.jinja beside the card"),
    ({"turns": ["../../../../etc/passwd"]}, "found no file"),
    ({"task": "other"}, "expected benchmark/task mathtutorbench/problem_solving, found mathtutorbench/other"),
    ({"metrics": {"accuracy": {}}}, "expected one metric with headline: true, found 0"),
    ({"turns": ["problem_solving.jinja"] * 2}, "several turns or a system message require the chat endpoint"),
], ids=lambda value: str(next(iter(value))) if isinstance(value, dict) else "")  # fmt: skip
def test_a_broken_card_is_refused_by_file_and_key(change: dict, expected: str, tmp_path: Path) -> None:
    path = card_with(tmp_path, change)
    with pytest.raises(UserError, match=expected.replace("(", r"\(")) as refusal:
        read_card(path)
    assert str(path) in str(refusal.value) and "\n" not in str(refusal.value)


def test_an_undefined_prompt_variable_is_refused_with_what_there_is(tmp_path: Path) -> None:
    path = card_with(tmp_path, problem_solving__jinja="{{ shots }} {{ qestion }}")
    problem = r"undefined prompt variable qestion. Fix: use a variable of loader gsm8k_solving: question"
    with pytest.raises(UserError, match=problem):
        check_variables(path, read_card(path), LOADERS["gsm8k_solving"].variables)


def test_answers_exist_from_the_second_turn_on(tmp_path: Path) -> None:
    path = card_with(
        tmp_path,
        {"endpoint": "chat", "turns": ["problem_solving.jinja", "later.jinja"]},
        later__jinja="{{ answers[0] }}",
    )
    check_variables(path, read_card(path), LOADERS["gsm8k_solving"].variables)
    (path.parent / "problem_solving.jinja").write_text("{{ answers[0] }}", encoding="utf-8")
    with pytest.raises(UserError, match="undefined prompt variable answers"):
        check_variables(path, read_card(path), LOADERS["gsm8k_solving"].variables)


def test_yaml_that_would_run_code_is_refused(tmp_path: Path) -> None:
    path = card_with(tmp_path)
    path.write_text("task: !!python/object/apply:os.system [id]\n", encoding="utf-8")
    with pytest.raises(UserError, match=r"the tag !!python/object/apply:os\.system is not allowed"):
        read_card(path)


def test_an_unknown_card_names_the_known_ones() -> None:
    with pytest.raises(
        UserError,
        match=r"benchmark mathtutorbench has no card of this name\. Fix: choose one of mistake_correction, mistake_location",
    ):
        read_card(cards.card_path("mathtutorbench", "mistake_locations"))


def test_schemas_on_file_are_those_of_the_declarations() -> None:
    on_file = {path.name: path.read_text(encoding="utf-8") for path in Path("workflow/schemas").glob("*.json")}
    assert on_file == all_schemas(), "run make schemas"


def faults_in_editor(content: dict[str, Any], schema: Path) -> list[str]:
    """Return the faults that an editor shows for a file under a schema, whose references lead to files beside it."""
    resources = [
        (path.name, Resource.from_contents(json.loads(path.read_text(encoding="utf-8")), DRAFT202012))
        for path in schema.parent.glob("*.json")
    ]
    content_of_schema = json.loads(schema.read_text(encoding="utf-8")) | {"$id": schema.name}
    validator = jsonschema.Draft202012Validator(content_of_schema, registry=Registry().with_resources(resources))
    return [fault.message for fault in validator.iter_errors(content)]


@pytest.mark.parametrize(
    "path",
    [
        *(Path(f"config/{name}.yaml") for name in ("config", "sample", "curation", "kmpbench", "mrbench")),
        *(Path(f"resources/registries/{name}.yaml") for name in ("models", "datasets")),
    ],
    ids=str,
)
def test_shipped_files_are_right_under_the_schema_that_they_name(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    schema = path.parent / re.search(r"\$schema=(\S+)", text)[1]
    assert faults_in_editor(yaml.safe_load(text), schema) == []


def test_the_schema_for_run_files_requires_no_key_and_refuses_unknown_ones() -> None:
    schema = Path("workflow/schemas/overlay.schema.json")
    assert faults_in_editor({}, schema) == faults_in_editor({"run": {"limit": 3}}, schema) == []
    [fault] = faults_in_editor({"run": {"tutor": ["x"]}}, schema)
    assert "'tutor' was unexpected" in fault
    assert len(faults_in_editor({"run": {"limit": "x"}}, schema)) == 1


def metrics_of(folder: Path, metrics: dict[str, Any]) -> dict[str, cards.Metric]:
    """Return the metrics of a card with these entries."""
    return read_card(card_with(folder, {"metrics": metrics})).card.metrics


def test_a_metric_by_a_tag_is_one_metric_for_each_value(tmp_path: Path) -> None:
    by = {"by": {"source": ["a", "b"], "level": ["hard"]}}
    metrics = metrics_of(
        tmp_path,
        {
            "accuracy": {"headline": True, **by},
            "other": {"function": "mean", "only": {"kind": "x"}, "by": {"source": ["b"]}},
            "match": {},
        },
    )
    assert list(metrics) == [
        "accuracy", "other", "accuracy_a", "accuracy_b", "other_b", "accuracy_hard", "match",
    ]  # fmt: skip
    assert metrics["accuracy_a"] == cards.Metric(function="accuracy", only={"source": "a"})
    assert metrics["other_b"] == cards.Metric(function="mean", only={"kind": "x", "source": "b"})
    assert metrics["accuracy"].headline and all(not metric.by for metric in metrics.values())


def test_a_metric_by_a_tag_must_not_repeat_a_name(tmp_path: Path) -> None:
    metrics = {"accuracy": {"headline": True, "by": {"source": ["a"]}}, "accuracy_a": {"function": "accuracy"}}
    with pytest.raises(UserError, match=r"`by` adds metrics that the card already has: accuracy_a"):
        metrics_of(tmp_path, metrics)
