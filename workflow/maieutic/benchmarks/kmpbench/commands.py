"""Command that KMP-Bench's own rule runs, and commands of its human study."""

COMMANDS = {
    "KMP-Bench": ("benchmarks.kmpbench.alignment:align_judge",),
    "For people": (
        "benchmarks.kmpbench.study:draw_study",
        "benchmarks.kmpbench.study:read_study",
    ),
}
