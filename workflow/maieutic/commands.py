"""Every command, stage by stage: the functions that rules run, loaded when they are called."""

from __future__ import annotations

import ast
from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

from maieutic.core.plugins import merged

PEOPLE = "For people"
COMMANDS = {
    "Data": (
        "datasets.fetch:fetch_dataset",
        "datasets.pictures:fetch_pictures",
        "serving.weights:prepare_weights",
        "datasets.items:make_items",
        "judges.labels:make_labels",
        "rewards.pairs:make_pairs",
        "rewards.overlap:find_overlap",
    ),
    "Tutors": (
        "replies.generate:generate_replies",
        "replies.packed:generate_all_replies",
        "replies.shards:gather_shards",
        "replies.recorded:read_replies",
        "replies.recorded:write_questions",
        "graders.parsing:parse_replies",
    ),
    "Reward models and classifiers": (
        "rewards.training:train_reward_model",
        "validation.card:write_model_card",
        "rewards.criteria:train_criteria",
        "rewards.criteria:classify_pairs",
        "rewards.embeddings:embed_replies",
        "rewards.scoring:score_pairs",
        "rewards.scoring:score_rewards",
        "rewards.grading:grade_by_rewards",
    ),
    "Judges": (
        "judges.commands:judge_replies",
        "judges.commands:judge_all_replies",
        "judges.commands:judge_labelled",
        "judges.panels:combine_verdicts",
        "judges.panels:combine_labelled",
        "benchmarks.tutorbench.tagging:tag_items",
        "benchmarks.tutorbench.tagging:vote_tags",
        "judges.grading:grade_verdicts",
        "benchmarks.mrbench.submission:write_submission",
    ),
    "Scores": (
        "scores.score:score_replies",
        "scores.differences:compare_tutors",
        "benchmarks.tutorbench.breakdown:break_down",
        "benchmarks.tutorbench.difficulty:filter_by_difficulty",
        "validation.graders:score_labels",
    ),
    "Validation": (
        "validation.word_lists:judge_by_words",
        "validation.word_lists:judge_labelled_by_words",
        "validation.graders:validate_judge",
        "validation.probes:validate_probes",
        "validation.graders:validate_reward_on_labels",
        "validation.graders:validate_criteria_on_labels",
        "validation.graders:correct_by_people",
        "benchmarks.kmpbench.alignment:align_judge",
        "benchmarks.tutorbench.raters:rate_judge",
        "validation.rewards:validate_reward_model",
        "validation.rewards:validate_criteria",
        "validation.graders:check_judges",
    ),
    "Report": (
        "plan.saving:save_config",
        "report:build_report",
        "report:check_report",
    ),
    PEOPLE: (
        "commands:steps",
        "benchmarks.kmpbench.study:draw_study",
        "benchmarks.kmpbench.study:read_study",
        "plan.labelling:label",
        "people.returned:read_labels",
        "benchmarks.mrbench.predictions:score_predictions",
        "plan.new_run:init",
        "plan.doctor:doctor",
        "plan.estimate:estimate",
        "plan.pinning:pin",
        "plan.items:items",
        "plan.self_check:check_graders",
        "plan.runs:runs",
        "plan.forgetting:forget",
        "report.record.export:export",
        "report.record.share:share",
        "report.record.verify:verify",
        "report.record.compare:compare",
        "plan.bill:sbom",
        "serving.recover:recover",
    ),
    "For maintainers": (
        "plan.schemas:export_schemas",
        "plan.provenance:export_shipped",
    ),
}


def commands() -> dict[str, tuple[str, ...]]:
    """The commands of this package and those that its extensions add, by stage."""
    return {**COMMANDS, **merged("commands", "COMMANDS")}


def name_of(function: str) -> str:
    """A command's name on the command line: its function's, as that of the rule that runs it. function: as above."""
    return function.partition(":")[2].replace("_", "-")


def function_of(name: str) -> Callable[..., None] | None:
    """The function of a command; None if there is no such command."""
    for functions in commands().values():
        for function in functions:
            if name_of(function) == name:
                module, _, attribute = function.partition(":")
                found: Callable[..., None] = getattr(import_module(f"maieutic.{module}"), attribute)
                return found
    return None


def line_of(function: str) -> str:
    """Return the first line of a command's docstring, without importing it. function: as above."""
    module, _, attribute = function.partition(":")
    spec = find_spec(f"maieutic.{module}")
    assert spec is not None and spec.origin is not None
    tree = ast.parse(Path(spec.origin).read_text(encoding="utf-8"))
    own = next((node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == attribute), None)
    if own is None:  # of a package's __init__, which takes it from a module of its own
        taken = next(node for node in tree.body if isinstance(node, ast.ImportFrom) and attribute in names_in(node))
        return line_of(f"{str(taken.module).removeprefix('maieutic.')}:{attribute}")
    return (ast.get_docstring(own) or "").partition("\n\n")[0].replace("\n", " ")


def names_in(node: ast.ImportFrom) -> list[str]:
    """Return the names that an import takes from a module."""
    return [one.name for one in node.names]


def steps() -> None:
    """List the steps of the workflow, which its rules run, by stage."""
    for stage, functions in commands().items():
        if stage != PEOPLE:
            print(stage)
            for function in functions:
                print(f"  {name_of(function):28} {line_of(function)}")
