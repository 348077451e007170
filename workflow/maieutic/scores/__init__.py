"""Scores with intervals, computed from grades, and the numbers published in papers."""

COMMANDS = {
    "Scores": (
        "scores.score:score_replies",
        "scores.differences:compare_tutors",
        "scores.anytime:bound_means",
    ),
}
