"""Every command, stage by stage: the functions that rules run, loaded when they are called."""

COMMANDS = {
    "Data": (
        "datasets.fetch:fetch_dataset",
        "datasets.pictures:fetch_pictures",
        "weights:prepare_weights",
        "items:make_items",
        "judges.labels:make_labels",
        "rewards.pairs:make_pairs",
        "rewards.overlap:find_overlap",
    ),
    "Tutors": (
        "generate:generate_replies",
        "graders.parsing:parse_replies",
    ),
    "Reward models and classifiers": (
        "rewards.training:train_reward_model",
        "rewards.card:write_model_card",
        "rewards.criteria:train_criteria",
        "rewards.scoring:score_pairs",
        "rewards.scoring:score_rewards",
        "graders.rewards:grade_by_rewards",
    ),
    "Judges": (
        "judges.commands:judge_replies",
        "judges.commands:judge_labelled",
        "judges.commands:tag_items",
        "benchmarks.tutorbench.tagging:vote_tags",
        "graders.judges:grade_verdicts",
        "benchmarks.mrbench.submission:write_submission",
    ),
    "Scores": (
        "score:score_replies",
        "differences:compare_tutors",
        "benchmarks.tutorbench.breakdown:break_down",
        "benchmarks.tutorbench.difficulty:filter_by_difficulty",
        "judges.validation:score_labels",
    ),
    "Validation": (
        "judges.validation:validate_judge",
        "judges.validation:validate_reward_on_labels",
        "judges.validation:validate_criteria_on_labels",
        "judges.validation:correct_by_people",
        "benchmarks.kmpbench.alignment:align_judge",
        "benchmarks.tutorbench.raters:rate_judge",
        "rewards.validation:validate_reward_model",
        "rewards.validation:validate_criteria",
        "judges.validation:check_judges",
    ),
    "Report": (
        "saving:save_config",
        "report:build_report",
        "report:check_report",
    ),
    "For people": (
        "benchmarks.kmpbench.study:draw_study",
        "benchmarks.kmpbench.study:read_study",
        "benchmarks.mrbench.predictions:score_predictions",
        "recover:recover",
        "schemas:export_schemas",
        "provenance:export_shipped",
    ),
}


def name_of(function: str) -> str:
    """A command's name on the command line: its function's, as that of the rule that runs it. function: as above."""
    return function.partition(":")[2].replace("_", "-")
