"""Code of MRBench: loader, labelled releases, toolkit, word lists, the paper's numbers, and a report page."""

COMMANDS = {
    "MRBench": ("benchmarks.mrbench.predictions:write_submission",),
    "Read results": ("benchmarks.mrbench.predictions:score_predictions",),
}
