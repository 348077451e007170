"""Code of KMP-Bench: loaders, parsers, baselines, the paper's numbers, alignment with people, and a report page."""

COMMANDS = {"KMP-Bench": ("benchmarks.kmpbench.alignment:align_judge",)}
