"""When a rubric of KMP-Bench asks about a reply."""

from maieutic.benchmarks.kmpbench.detection import located

CONDITIONS = {"error_located": located}
