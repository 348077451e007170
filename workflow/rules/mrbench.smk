"""Additional stage of MRBench: submissions to the BEA 2025 shared task."""

from maieutic.benchmarks.mrbench import stage as mrbench_stage


rule write_submission:
    """Write a judge's verdicts on an unlabelled release as a submission to the BEA 2025 shared task."""
    input:
        source=plan.select(mrbench_stage.submission_source),
        verdicts="results/verdicts/{judge}/labelled.jsonl",
    output:
        predictions="results/scores/predictions/{release}/{judge}/predictions.json",
        packed="results/scores/predictions/{release}/{judge}/predictions.zip",
    log:
        "results/logs/write_submission/{release}/{judge}.log",
    wildcard_constraints:
        release=one_of(plan.run.predictions),
    localrule: True
    params:
        **job("write_submission"),
    shell:
        command(
            "write-submission",
            source="{input.source}",
            verdicts="{input.verdicts}",
            out="{output.predictions}",
            packed="{output.packed}",
        )
