"""Commands that TutorBench's own rules run."""

COMMANDS = {
    "TutorBench": (
        "benchmarks.tutorbench.tagging:tag_items",
        "benchmarks.tutorbench.tagging:vote_tags",
        "benchmarks.tutorbench.breakdown:break_down",
        "benchmarks.tutorbench.difficulty:filter_by_difficulty",
        "benchmarks.tutorbench.raters:rate_judge",
    ),
}
