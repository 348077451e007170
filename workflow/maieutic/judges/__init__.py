"""Judges: models of the registry that answer rubric cards, and their validation against people."""

COMMANDS = {
    "Judges": (
        "judges.verdicts:judge_replies",
        "judges.verdicts:judge_labelled",
        "judges.panels:combine_verdicts",
        "judges.panels:combine_labelled",
        "judges.grading:grade_verdicts",
    ),
}
