"""Command that KMP-Bench's own rule runs."""

COMMANDS = {"KMP-Bench": ("benchmarks.kmpbench.alignment:align_judge",)}
