"""results/curation, results/datasets, results/items, results/weights -> results/tuning: tutors that this run trains.

What a run makes is a source again: tuned weights in results/weights.
"""

from maieutic.curation import paths as made


wildcard_constraints:
    tuning=one_of(plan.config.tunings),


# Weights that this run tunes are none to prepare.
ruleorder: serve_tuned > prepare_weights


rule mix_examples:
    """The training examples of a tuning: its sources in their shares, without the problems of the run's tasks."""
    input:
        unpack(plan.inputs_of("mix_examples")),
    output:
        examples=made.EXAMPLES,
        sheet=made.EXAMPLE_SHEET,
    log:
        paths.log_of("mix_examples", "tuning"),
    localrule: True
    container:
        IMAGES.driver
    params:
        code=plan.code_of("mix_examples"),
        job=plan.job_of("mix_examples"),
    shell:
        lines.command(
            "mix-examples",
            sources="{input.sources}",
            items="{input.cases}",
            tests="{input.tests}",
            out="{output.examples}",
            sheet="{output.sheet}",
        )


rule tune_tutor:
    """Safetensors, tokenizer, model card. A killed training goes on from its checkpoint in the journal."""
    input:
        unpack(plan.inputs_of("tune_tutor")),
    output:
        made.TUNED,
    log:
        paths.log_of("tune_tutor", "tuning"),
    benchmark:
        paths.timing_of("tune_tutor", "tuning")
    container:
        IMAGES.serve
    threads: plan.threads
    resources:
        **MODEL_JOB,
    params:
        code=plan.code_of("tune_tutor"),
        job=plan.job_of("tune_tutor"),
        journal=made.TUNING_JOURNAL,
    shell:
        lines.command(
            "tune-tutor",
            python=lines.SERVE,
            base="{input.base}",
            examples="{input.examples}",
            sheet="{input.sheet}",
            journal="{params.journal}",
            out="{output}",
            gpus="{resources.server_gpus}",
            threads="{threads}",
        )


rule serve_tuned:
    """The tuned weights where those of every tutor lie."""
    input:
        unpack(plan.inputs_of("serve_tuned")),
    output:
        paths.WEIGHTS,
    log:
        paths.log_of("serve_tuned", "model"),
    wildcard_constraints:
        model=one_of(plan.tuned),
    localrule: True
    container:
        IMAGES.driver
    params:
        code=plan.code_of("serve_tuned"),
    shell:
        lines.command("serve-tuned", job=False, tuned="{input.tuned}", out="{output}")
