"""results/items -> results/replies: what every tutor says to every item."""


rule generate_replies:
    """A model that we serve. A further attempt gets more time and memory, and goes on from the journal."""
    input:
        unpack(plan.inputs_of("generate_replies")),
    output:
        replies=paths.REPLIES,
        prompts=paths.PROMPTS,
    log:
        paths.log_of("generate_replies", "benchmark", "tutor"),
    benchmark:
        paths.timing_of("generate_replies", "benchmark", "tutor")
    wildcard_constraints:
        tutor=one_of(plan.with_engine("vllm")),
    container:
        IMAGES.serve
    threads: plan.threads
    resources:
        **MODEL_JOB,
    params:
        code=plan.code_of("generate_replies"),
        job=plan.job_of("generate_replies"),
        python=lines.SERVE,
        item_folder=paths.ITEM_FOLDER,
        pictures=paths.PICTURE_STORE,
        journal=paths.REPLY_JOURNAL,
        server_log=paths.TUTOR_SERVER_LOG,
    shell:
        lines.command(
            "generate-replies",
            python=lines.CHOSEN,
            items="{params.item_folder}",
            weights="{input.weights}",
            pictures="{params.pictures}",
            journal="{params.journal}",
            server_log="{params.server_log}",
            out="{output.replies}",
            prompts="{output.prompts}",
        )


use rule generate_replies as generate_replies_locally with:
    """A hosted model or a baseline tutor: no GPU, and a compute node may have no way out."""
    wildcard_constraints:
        tutor=one_of(plan.with_engine("hosted", "baseline")),
    localrule: True
    container:
        IMAGES.driver
    resources:
        mem_mb=plan.memory,
        server_gpus=0,
    params:
        code=plan.code_of("generate_replies"),
        python=lines.DRIVER,


rule read_replies:
    """A tutor whose replies are in a file already."""
    input:
        unpack(plan.inputs_of("read_replies")),
    output:
        replies=paths.REPLIES,
        prompts=paths.PROMPTS,
    log:
        paths.log_of("read_replies", "benchmark", "tutor"),
    wildcard_constraints:
        tutor=one_of(plan.with_engine("recorded")),
    localrule: True
    container:
        IMAGES.driver
    params:
        code=plan.code_of("read_replies"),
        job=plan.job_of("read_replies"),
    shell:
        lines.command(
            "read-replies",
            file="{input.file:q}",
            items="{input.cases}",
            out="{output.replies}",
            prompts="{output.prompts}",
        )
