"""Agreement of graders with people."""

COMMANDS = {
    "Validation": (
        "validation.validation_jobs:score_labels",
        "validation.rewards:write_model_card",
        "validation.word_lists:judge_by_words",
        "validation.word_lists:judge_labelled_by_words",
        "validation.validation_jobs:validate_judge",
        "validation.probes:validate_probes",
        "validation.validation_jobs:validate_reward_on_labels",
        "validation.validation_jobs:validate_criteria_on_labels",
        "validation.validation_jobs:save_labels",
        "validation.validation_jobs:correct_by_people",
        "validation.leading_judge:choose_judge",
        "validation.rewards:validate_reward_model",
        "validation.rewards:validate_criteria",
        "validation.validation_jobs:check_judges",
    ),
}
