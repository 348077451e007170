"""Code of TutorBench: loaders, a trivial tutor, tags, scores by tag, the paper's numbers, and a report page."""

COMMANDS = {
    "TutorBench": (
        "benchmarks.tutorbench.tagging:tag_items",
        "benchmarks.tutorbench.tagging:vote_tags",
        "benchmarks.tutorbench.breakdown:break_down",
        "benchmarks.tutorbench.difficulty:filter_by_difficulty",
        "benchmarks.tutorbench.raters:rate_judge",
    ),
}
