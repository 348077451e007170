"""Commands of KMP-Bench's own rule, and of its human study."""

COMMANDS = {
    "KMP-Bench": ("benchmarks.kmpbench.alignment:align_judge",),
    "For people": (
        "benchmarks.kmpbench.study:draw_study",
        "benchmarks.kmpbench.study:read_study",
    ),
}
