"""Pedagogical reward models and criteria classifiers: preference pairs, training, scoring, grading."""

COMMANDS = {
    "Reward models and classifiers": (
        "rewards.overlap:find_overlap",
        "rewards.training:train_reward_model",
        "rewards.criteria:train_criteria",
        "rewards.criteria:classify_pairs",
        "rewards.embeddings:embed_replies",
        "rewards.scoring:score_pairs",
        "rewards.scoring:score_rewards",
        "rewards.published_scores:check_scorer",
        "rewards.grading:grade_by_rewards",
        "rewards.leading:choose_reward_model",
    ),
}
