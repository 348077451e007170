"""Additional stage of KMP-Bench: agreement between a judge's comparisons and people's comparisons."""

from maieutic.benchmarks.kmpbench import stage as kmpbench_stage
from maieutic.validation import stage as validation_stage


rule align_judge:
    """Measure how often a judge's win, tie and lose verdicts agree with people's verdicts (KMP-Bench, Table 3)."""
    input:
        people=plan.select(validation_stage.people_labels),
        verdicts=plan.select(kmpbench_stage.compared_verdicts),
        rubrics=plan.select(kmpbench_stage.comparison_rubrics),
    output:
        "results/validation/{judge}/alignment.json",
    log:
        "results/logs/align_judge/{judge}.log",
    localrule: True
    params:
        **job("align_judge"),
    shell:
        command("align-judge", verdicts="{input.verdicts}", people="{input.people}", out="{output}")
