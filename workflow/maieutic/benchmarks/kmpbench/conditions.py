"""Conditions under which a rubric of KMP-Bench applies to a reply."""

from maieutic.benchmarks.kmpbench.detection import names_error_step

CONDITIONS = {"error_located": names_error_step}
