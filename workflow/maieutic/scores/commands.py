"""Commands that compute scores."""

COMMANDS = {
    "Scores": (
        "scores.score:score_replies",
        "scores.differences:compare_tutors",
        "scores.anytime:bound_means",
    ),
}
