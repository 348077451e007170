"""results/datasets, results/weights, results/items -> results/curation: tutoring data made from problems.

Evaluation sets are copied to results/datasets, where benchmarks read them like any other source.
"""

from maieutic.curation import stage as curation_stage
from maieutic.judges import stage as judges_stage
from maieutic.launch.shell_lines import judges_with_engine


wildcard_constraints:
    curation=one_of(plan.config.curations),


# Datasets that this run makes are copied, not downloaded.
ruleorder: fetch_curated > fetch_dataset


rule make_seeds:
    input:
        sources=plan.select(curation_stage.seed_sources),
    output:
        "results/curation/{curation}/seeds.jsonl",
    log:
        "results/logs/make_seeds/{curation}.log",
    localrule: True
    params:
        **job("make_seeds"),
    shell:
        command("make-seeds", sources="{input.sources}", out="{output}")


rule make_components:
    """Make standards, follow-ups, wrong solutions, similar problems and clarifications. A killed job resumes."""
    input:
        seeds="results/curation/{curation}/seeds.jsonl",
        weights=plan.select(curation_stage.stage_weights, step="make_components"),
        cards=plan.select(curation_stage.stage_cards, step="make_components"),
    output:
        components="results/curation/{curation}/components.jsonl",
        outcomes="results/curation/{curation}/outcomes/make_components.jsonl",
    log:
        "results/logs/make_components/{curation}.log",
    benchmark:
        "results/benchmarks/make_components/{curation}.tsv"
    wildcard_constraints:
        curation=one_of(plan.curations_of_step("make_components", served=True)),
    container:
        IMAGES.serve
    threads: plan.threads
    resources:
        **MODEL_JOB,
    params:
        **job("make_components"),
        python=SERVE,
        journal="results/journal/curation/{curation}/make_components.jsonl",
        server_logs="results/logs/serve/curation/{curation}/make_components",
    shell:
        command(
            "make-components",
            python="{params.python}",
            seeds="{input.seeds}",
            weights="{input.weights}",
            journal="{params.journal}",
            server_logs="{params.server_logs}",
            out="{output.components}",
        )


use rule make_components as make_components_locally with:
    """Make components with hosted models. The job uses no GPU, but needs network access."""
    wildcard_constraints:
        curation=one_of(plan.curations_of_step("make_components", served=False)),
    localrule: True
    container:
        IMAGES.driver
    resources:
        mem_mb=plan.memory,
        server_gpus=0,
    params:
        code=plan.code_of("make_components"),
        python=DRIVER,


rule write_flows:
    """Write a flow for each dialogue. The verifier or people then accept or reject the flow."""
    input:
        components="results/curation/{curation}/components.jsonl",
        people=plan.select(curation_stage.people_decisions),
        weights=plan.select(curation_stage.stage_weights, step="write_flows"),
        cards=plan.select(curation_stage.stage_cards, step="write_flows"),
    output:
        flows="results/curation/{curation}/flows.jsonl",
        sheet="results/curation/{curation}/flows.csv",
        outcomes="results/curation/{curation}/outcomes/write_flows.jsonl",
    log:
        "results/logs/write_flows/{curation}.log",
    benchmark:
        "results/benchmarks/write_flows/{curation}.tsv"
    wildcard_constraints:
        curation=one_of(plan.curations_of_step("write_flows", served=True)),
    container:
        IMAGES.serve
    threads: plan.threads
    resources:
        **MODEL_JOB,
    params:
        **job("write_flows"),
        python=SERVE,
        journal="results/journal/curation/{curation}/write_flows.jsonl",
        server_logs="results/logs/serve/curation/{curation}/write_flows",
    shell:
        command(
            "write-flows",
            python="{params.python}",
            components="{input.components}",
            people="{input.people}",
            weights="{input.weights}",
            journal="{params.journal}",
            server_logs="{params.server_logs}",
            out="{output.flows}",
            sheet="{output.sheet}",
        )


use rule write_flows as write_flows_locally with:
    """Write flows with hosted models. The job uses no GPU, but needs network access."""
    wildcard_constraints:
        curation=one_of(plan.curations_of_step("write_flows", served=False)),
    localrule: True
    container:
        IMAGES.driver
    resources:
        mem_mb=plan.memory,
        server_gpus=0,
    params:
        code=plan.code_of("write_flows"),
        python=DRIVER,


rule write_dialogues:
    """Write the flows as conversations, with test cases and instructions for evaluation."""
    input:
        seeds="results/curation/{curation}/seeds.jsonl",
        components="results/curation/{curation}/components.jsonl",
        flows="results/curation/{curation}/flows.jsonl",
        weights=plan.select(curation_stage.stage_weights, step="write_dialogues"),
        cards=plan.select(curation_stage.stage_cards, step="write_dialogues"),
    output:
        dialogues="results/curation/{curation}/dialogues.jsonl",
        outcomes="results/curation/{curation}/outcomes/write_dialogues.jsonl",
    log:
        "results/logs/write_dialogues/{curation}.log",
    benchmark:
        "results/benchmarks/write_dialogues/{curation}.tsv"
    wildcard_constraints:
        curation=one_of(plan.curations_of_step("write_dialogues", served=True)),
    container:
        IMAGES.serve
    threads: plan.threads
    resources:
        **MODEL_JOB,
    params:
        **job("write_dialogues"),
        python=SERVE,
        journal="results/journal/curation/{curation}/write_dialogues.jsonl",
        server_logs="results/logs/serve/curation/{curation}/write_dialogues",
    shell:
        command(
            "write-dialogues",
            python="{params.python}",
            seeds="{input.seeds}",
            components="{input.components}",
            flows="{input.flows}",
            weights="{input.weights}",
            journal="{params.journal}",
            server_logs="{params.server_logs}",
            out="{output.dialogues}",
        )


use rule write_dialogues as write_dialogues_locally with:
    """Write dialogues with hosted models. The job uses no GPU, but needs network access."""
    wildcard_constraints:
        curation=one_of(plan.curations_of_step("write_dialogues", served=False)),
    localrule: True
    container:
        IMAGES.driver
    resources:
        mem_mb=plan.memory,
        server_gpus=0,
    params:
        code=plan.code_of("write_dialogues"),
        python=DRIVER,


rule measure_curation:
    """Measure the yield of each stage and the quality of the data."""
    input:
        seeds="results/curation/{curation}/seeds.jsonl",
        components="results/curation/{curation}/components.jsonl",
        flows="results/curation/{curation}/flows.jsonl",
        dialogues="results/curation/{curation}/dialogues.jsonl",
        outcomes=[
            "results/curation/{curation}/outcomes/make_components.jsonl",
            "results/curation/{curation}/outcomes/write_flows.jsonl",
            "results/curation/{curation}/outcomes/write_dialogues.jsonl",
        ],
    output:
        "results/curation/{curation}/figures.json",
    log:
        "results/logs/measure_curation/{curation}.log",
    localrule: True
    params:
        **job("measure_curation"),
    shell:
        command(
            "measure-curation",
            seeds="{input.seeds}",
            components="{input.components}",
            flows="{input.flows}",
            dialogues="{input.dialogues}",
            outcomes="{input.outcomes}",
            out="{output}",
        )


rule rate_dialogues:
    """Rate a sample of the dialogues' tutor turns with a judge that is validated on human labels."""
    input:
        dialogues="results/curation/{curation}/dialogues.jsonl",
        weights=plan.select(judges_stage.answering_weights),
        rubrics=plan.select(curation_stage.rating_rubrics),
    output:
        "results/curation/{curation}/ratings/{judge}.jsonl",
    log:
        "results/logs/rate_dialogues/{curation}/{judge}.log",
    benchmark:
        "results/benchmarks/rate_dialogues/{curation}/{judge}.tsv"
    wildcard_constraints:
        judge=one_of(judges_with_engine(plan, plan.raters, "vllm")),
    container:
        IMAGES.serve
    threads: plan.threads
    resources:
        **MODEL_JOB,
    params:
        **job("rate_dialogues"),
        python=SERVE,
        journal="results/journal/curation/{curation}/ratings/{judge}.jsonl",
        server_log="results/logs/serve/curation/{curation}/ratings/{judge}.log",
    shell:
        command(
            "rate-dialogues",
            python="{params.python}",
            dialogues="{input.dialogues}",
            weights="{input.weights}",
            journal="{params.journal}",
            server_log="{params.server_log}",
            out="{output}",
        )


use rule rate_dialogues as rate_dialogues_locally with:
    """Rate dialogues with a hosted judge. The job uses no GPU, but needs network access."""
    wildcard_constraints:
        judge=one_of(judges_with_engine(plan, plan.raters, "hosted")),
    localrule: True
    container:
        IMAGES.driver
    resources:
        mem_mb=plan.memory,
        server_gpus=0,
    params:
        code=plan.code_of("rate_dialogues"),
        python=DRIVER,


rule assemble_sets:
    """Assemble KMP-Skills and KMP-Dialogue from the evaluation seeds, and chats from the other seeds."""
    input:
        seeds="results/curation/{curation}/seeds.jsonl",
        components="results/curation/{curation}/components.jsonl",
        dialogues="results/curation/{curation}/dialogues.jsonl",
    output:
        skills="results/curation/{curation}/sets/skills.jsonl",
        dialogues="results/curation/{curation}/sets/dialogues.jsonl",
        raw="results/curation/{curation}/training.raw.jsonl",
        sheet="results/curation/{curation}/sets/evaluation.json",
    log:
        "results/logs/assemble_sets/{curation}.log",
    localrule: True
    params:
        **job("assemble_sets"),
    shell:
        command(
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
    """Remove the chats that contain a problem from one of the run's tasks."""
    input:
        seeds="results/curation/{curation}/seeds.jsonl",
        raw="results/curation/{curation}/training.raw.jsonl",
        item_files=plan.select(curation_stage.selected_items),
        tests=plan.select(curation_stage.evaluation_sets),
    output:
        chats="results/curation/{curation}/sets/training.jsonl",
        parquet="results/curation/{curation}/sets/training.parquet",
        sheet="results/curation/{curation}/sets/training.json",
    log:
        "results/logs/clean_training_set/{curation}.log",
    localrule: True
    params:
        **job("clean_training_set"),
    shell:
        command(
            "clean-training-set",
            raw="{input.raw}",
            items="{input.item_files}",
            tests="{input.tests}",
            seeds="{input.seeds}",
            out="{output.chats}",
            parquet="{output.parquet}",
            sheet="{output.sheet}",
        )


rule fetch_curated:
    """Copy an evaluation set that this run has made, after its checksum is compared with the datasheet."""
    input:
        made=plan.select(curation_stage.curated_set),
        sheet=plan.select(curation_stage.curated_sheet),
    output:
        "results/datasets/{dataset}.source",
    log:
        "results/logs/fetch_curated/{dataset}.log",
    wildcard_constraints:
        dataset=one_of(plan.curated),
    localrule: True
    params:
        code=plan.code_of("fetch_curated"),
    shell:
        command(
            "fetch-curated", job=False, made="{input.made}", sheet="{input.sheet}", out="{output}"
        )


rule curate:
    """Make all curated sets and tuned weights of the run, without an evaluation of tutors."""
    input:
        plan.select(curation_stage.curation_products),
    localrule: True
