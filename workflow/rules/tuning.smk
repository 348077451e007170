"""results/curation, results/datasets, results/items, results/weights -> results/tuning: tutors that this run trains.

Tuned weights are linked into results/weights, where they are read like any other tutor's weights.
"""

from maieutic.curation import stage as curation_stage


wildcard_constraints:
    tuning=one_of(plan.config.tunings),


# Weights that this run tunes are linked, not downloaded.
ruleorder: serve_tuned > prepare_weights


rule mix_examples:
    """Mix a tuning's training examples by the shares of its sources, without examples of the run's problems."""
    input:
        sources=plan.select(curation_stage.mixed_sources),
        item_files=plan.select(curation_stage.selected_items),
        tests=plan.select(curation_stage.evaluation_sets),
    output:
        examples="results/tuning/{tuning}/examples.jsonl",
        sheet="results/tuning/{tuning}/examples.json",
    log:
        "results/logs/mix_examples/{tuning}.log",
    localrule: True
    params:
        **job("mix_examples"),
    shell:
        command(
            "mix-examples",
            sources="{input.sources}",
            items="{input.item_files}",
            tests="{input.tests}",
            out="{output.examples}",
            sheet="{output.sheet}",
        )


rule tune_tutor:
    """Fine-tune a tutor, and write its weights, tokenizer and model card. A killed job resumes from a checkpoint."""
    input:
        base=plan.select(curation_stage.tuning_base),
        examples="results/tuning/{tuning}/examples.jsonl",
        sheet="results/tuning/{tuning}/examples.json",
    output:
        "results/tuning/{tuning}/model/manifest.json",
    log:
        "results/logs/tune_tutor/{tuning}.log",
    benchmark:
        "results/benchmarks/tune_tutor/{tuning}.tsv"
    container:
        IMAGES.serve
    threads: plan.threads
    resources:
        **MODEL_JOB,
    params:
        **job("tune_tutor"),
        journal="results/journal/tuning/{tuning}",
    shell:
        command(
            "tune-tutor",
            python=SERVE,
            base="{input.base}",
            examples="{input.examples}",
            sheet="{input.sheet}",
            journal="{params.journal}",
            out="{output}",
            gpus="{resources.server_gpus}",
            threads="{threads}",
        )


rule serve_tuned:
    """Link the tuned weights into the folder of all tutors' weights."""
    input:
        tuned=plan.select(curation_stage.tuned_weights),
    output:
        "results/weights/{model}/manifest.json",
    log:
        "results/logs/serve_tuned/{model}.log",
    wildcard_constraints:
        model=one_of(plan.tuned),
    localrule: True
    params:
        code=plan.code_of("serve_tuned"),
    shell:
        command("serve-tuned", job=False, tuned="{input.tuned}", out="{output}")
