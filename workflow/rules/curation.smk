"""results/datasets, results/weights, results/items -> results/curation: tutoring data made from problems.

Evaluation sets are copied to results/datasets, where benchmarks read them like any other source.
"""

from maieutic.curation import paths as made
from maieutic.curation.curated_plan import interpreter_of
from maieutic.curation.inputs import curation_products


wildcard_constraints:
    curation=one_of(plan.config.curations),


# Sets made by this run are not downloaded.
ruleorder: fetch_curated > fetch_dataset


rule make_seeds:
    input:
        unpack(plan.inputs_of("make_seeds")),
    output:
        made.SEEDS,
    log:
        paths.log_of("make_seeds", "curation"),
    localrule: True
    container:
        IMAGES.driver
    params:
        code=plan.code_of("make_seeds"),
        job=plan.job_of("make_seeds"),
    shell:
        shell_lines.command_line("make-seeds", sources="{input.sources}", out="{output}")


rule make_components:
    """Make standards, follow-ups, wrong solutions, similar problems and clarifications. Resumes from the journal."""
    input:
        unpack(plan.inputs_of("make_components")),
    output:
        components=made.COMPONENTS,
        outcomes=made.OUTCOMES.format(curation="{curation}", step="make_components"),
    log:
        paths.log_of("make_components", "curation"),
    benchmark:
        paths.timing_of("make_components", "curation")
    container:
        IMAGES.serve
    threads: plan.threads
    resources:
        **MODEL_JOB,
    params:
        code=plan.code_of("make_components"),
        job=plan.job_of("make_components"),
        python=lambda wildcards: interpreter_of(plan, wildcards.curation),
        journal=made.JOURNAL.format(curation="{curation}", step="make_components"),
        server_logs=made.SERVER_LOGS.format(curation="{curation}", step="make_components"),
    shell:
        shell_lines.command_line(
            "make-components",
            python=shell_lines.INHERITED_PYTHON,
            seeds="{input.seeds}",
            weights="{input.weights}",
            journal="{params.journal}",
            server_logs="{params.server_logs}",
            out="{output.components}",
        )


rule write_flows:
    """Write a flow for each dialogue, which the verifier or people then accept or reject."""
    input:
        unpack(plan.inputs_of("write_flows")),
    output:
        flows=made.FLOWS,
        sheet=made.SHEET,
        outcomes=made.OUTCOMES.format(curation="{curation}", step="write_flows"),
    log:
        paths.log_of("write_flows", "curation"),
    benchmark:
        paths.timing_of("write_flows", "curation")
    container:
        IMAGES.serve
    threads: plan.threads
    resources:
        **MODEL_JOB,
    params:
        code=plan.code_of("write_flows"),
        job=plan.job_of("write_flows"),
        python=lambda wildcards: interpreter_of(plan, wildcards.curation),
        journal=made.JOURNAL.format(curation="{curation}", step="write_flows"),
        server_logs=made.SERVER_LOGS.format(curation="{curation}", step="write_flows"),
    shell:
        shell_lines.command_line(
            "write-flows",
            python=shell_lines.INHERITED_PYTHON,
            components="{input.components}",
            people="{input.people}",
            weights="{input.weights}",
            journal="{params.journal}",
            server_logs="{params.server_logs}",
            out="{output.flows}",
            sheet="{output.sheet}",
        )


rule write_dialogues:
    """Write the flows as conversations, with test cases and instructions for evaluation."""
    input:
        unpack(plan.inputs_of("write_dialogues")),
    output:
        dialogues=made.DIALOGUES,
        outcomes=made.OUTCOMES.format(curation="{curation}", step="write_dialogues"),
    log:
        paths.log_of("write_dialogues", "curation"),
    benchmark:
        paths.timing_of("write_dialogues", "curation")
    container:
        IMAGES.serve
    threads: plan.threads
    resources:
        **MODEL_JOB,
    params:
        code=plan.code_of("write_dialogues"),
        job=plan.job_of("write_dialogues"),
        python=lambda wildcards: interpreter_of(plan, wildcards.curation),
        journal=made.JOURNAL.format(curation="{curation}", step="write_dialogues"),
        server_logs=made.SERVER_LOGS.format(curation="{curation}", step="write_dialogues"),
    shell:
        shell_lines.command_line(
            "write-dialogues",
            python=shell_lines.INHERITED_PYTHON,
            seeds="{input.seeds}",
            components="{input.components}",
            flows="{input.flows}",
            weights="{input.weights}",
            journal="{params.journal}",
            server_logs="{params.server_logs}",
            out="{output.dialogues}",
        )


rule measure_curation:
    """Measure the yield of each stage and the quality of the data."""
    input:
        unpack(plan.inputs_of("measure_curation")),
    output:
        made.FIGURES,
    log:
        paths.log_of("measure_curation", "curation"),
    localrule: True
    container:
        IMAGES.driver
    params:
        code=plan.code_of("measure_curation"),
        job=plan.job_of("measure_curation"),
    shell:
        shell_lines.command_line(
            "measure-curation",
            seeds="{input.seeds}",
            components="{input.components}",
            flows="{input.flows}",
            dialogues="{input.dialogues}",
            outcomes="{input.outcomes}",
            out="{output}",
        )


rule rate_dialogues:
    """Rate a sample of tutor turns with a judge that is validated on human labels."""
    input:
        unpack(plan.inputs_of("rate_dialogues")),
    output:
        made.RATINGS,
    log:
        paths.log_of("rate_dialogues", "curation", "judge"),
    benchmark:
        paths.timing_of("rate_dialogues", "curation", "judge")
    wildcard_constraints:
        judge=one_of(plan.raters),
    container:
        IMAGES.serve
    threads: plan.threads
    resources:
        **MODEL_JOB,
    params:
        code=plan.code_of("rate_dialogues"),
        job=plan.job_of("rate_dialogues"),
        python=lambda wildcards: interpreter_of(plan, wildcards.curation, wildcards.judge),
        journal=made.RATING_JOURNAL,
        server_log=made.RATING_SERVER_LOG,
    shell:
        shell_lines.command_line(
            "rate-dialogues",
            python=shell_lines.INHERITED_PYTHON,
            dialogues="{input.dialogues}",
            weights="{input.weights}",
            journal="{params.journal}",
            server_log="{params.server_log}",
            out="{output}",
        )


rule assemble_sets:
    """Assemble KMP-Skills and KMP-Dialogue from the evaluation seeds, chats from the other seeds, and a datasheet."""
    input:
        unpack(plan.inputs_of("assemble_sets")),
    output:
        skills=made.SETS["skills"],
        dialogues=made.SETS["dialogues"],
        raw=made.RAW,
        sheet=made.EVALUATION_SHEET,
    log:
        paths.log_of("assemble_sets", "curation"),
    localrule: True
    container:
        IMAGES.driver
    params:
        code=plan.code_of("assemble_sets"),
        job=plan.job_of("assemble_sets"),
    shell:
        shell_lines.command_line(
            "assemble-sets",
            seeds="{input.seeds}",
            components="{input.components}",
            dialogues="{input.dialogues}",
            out="{output.skills}",
            tests="{output.dialogues}",
            raw="{output.raw}",
            sheet="{output.sheet}",
        )


rule clean_training_set:
    """Remove the chats that contain a problem of any task of the run."""
    input:
        unpack(plan.inputs_of("clean_training_set")),
    output:
        chats=made.TRAINING_SET,
        parquet=made.TRAINING_PARQUET,
        sheet=made.TRAINING_SHEET,
    log:
        paths.log_of("clean_training_set", "curation"),
    localrule: True
    container:
        IMAGES.driver
    params:
        code=plan.code_of("clean_training_set"),
        job=plan.job_of("clean_training_set"),
    shell:
        shell_lines.command_line(
            "clean-training-set",
            raw="{input.raw}",
            items="{input.cases}",
            tests="{input.tests}",
            seeds="{input.seeds}",
            out="{output.chats}",
            parquet="{output.parquet}",
            sheet="{output.sheet}",
        )


rule fetch_curated:
    """Copy an evaluation set of this run after checking it against the pin in its datasheet."""
    input:
        unpack(plan.inputs_of("fetch_curated")),
    output:
        paths.SOURCE,
    log:
        paths.log_of("fetch_curated", "dataset"),
    wildcard_constraints:
        dataset=one_of(plan.curated),
    localrule: True
    container:
        IMAGES.driver
    params:
        code=plan.code_of("fetch_curated"),
    shell:
        shell_lines.command_line(
            "fetch-curated", job=False, made="{input.made}", sheet="{input.sheet}", out="{output}"
        )


rule curate:
    """Make every curation and tuning of the run without an evaluation."""
    input:
        curation_products(plan),
    localrule: True
