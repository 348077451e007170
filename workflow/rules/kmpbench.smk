"""KMP-Bench's own stage: agreement of a judge's comparisons with people's."""

from maieutic.benchmarks.kmpbench import inputs as kmpbench


rule align_judge:
    """Align a judge's win, tie and lose verdicts with people's (KMP-Bench, Table 3)."""
    input:
        people=plan.select(inputs.people_labels),
        verdicts=plan.select(kmpbench.compared_verdicts),
        rubrics=plan.select(kmpbench.comparison_rubrics),
    output:
        "results/validation/{judge}/alignment.json",
    log:
        "results/logs/align_judge/{judge}.log",
    localrule: True
    params:
        **job("align_judge"),
    shell:
        command("align-judge", verdicts="{input.verdicts}", people="{input.people}", out="{output}")
