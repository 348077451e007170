"""Commands of MRBench's own rule, and of the shared task's files."""

COMMANDS = {
    "MRBench": ("benchmarks.mrbench.submission:write_submission",),
    "For people": ("benchmarks.mrbench.predictions:score_predictions",),
}
