"""Every command, stage by stage: the functions that rules run, loaded when they are called."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module

from maieutic.core.plugins import merged

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
    "For people": (
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
