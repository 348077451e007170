"""Command that MRBench's own rule runs, and the command that scores predictions as in the shared task."""

COMMANDS = {
    "MRBench": ("benchmarks.mrbench.predictions:write_submission",),
    "Read results": ("benchmarks.mrbench.predictions:score_predictions",),
}
