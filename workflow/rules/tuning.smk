"""results/curation, results/datasets, results/items, results/weights -> results/tuning: tutors that this run trains.

Tuned weights are linked into results/weights, where they are read like any other tutor's weights.
"""

from maieutic.curation import paths as made


wildcard_constraints:
    tuning=one_of(plan.config.tunings),


# Weights tuned by this run are linked, not downloaded.
ruleorder: serve_tuned > prepare_weights


rule mix_examples:
    """Mix the training examples of a tuning by the shares of its sources, without the problems of the run's tasks."""
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
        shell_lines.command_line(
            "mix-examples",
            sources="{input.sources}",
            items="{input.cases}",
            tests="{input.tests}",
            out="{output.examples}",
            sheet="{output.sheet}",
        )


rule tune_tutor:
    """Fine-tune a tutor: safetensors, tokenizer, model card. Resumes from its checkpoint in the journal."""
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
        shell_lines.command_line(
            "tune-tutor",
            python=shell_lines.SERVE,
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
        shell_lines.command_line("serve-tuned", job=False, tuned="{input.tuned}", out="{output}")
