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
        tutor=one_of(plan.asked_by_benchmark("vllm")),
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
        tutor=one_of(plan.asked_by_benchmark("hosted", "baseline")),
    localrule: True
    container:
        IMAGES.driver
    resources:
        mem_mb=plan.memory,
        server_gpus=0,
    params:
        code=plan.code_of("generate_replies"),
        python=lines.DRIVER,


use rule generate_replies as generate_shard with:
    """A part of a benchmark's items, of a model that we serve."""
    input:
        unpack(plan.inputs_of("generate_shard")),
    output:
        replies=paths.SHARD_REPLIES,
        prompts=paths.SHARD_PROMPTS,
    log:
        paths.log_of("generate_shard", "benchmark", "tutor", "shard"),
    benchmark:
        paths.timing_of("generate_shard", "benchmark", "tutor", "shard")
    wildcard_constraints:
        tutor=one_of(plan.sharded("vllm")),
    params:
        code=plan.code_of("generate_replies"),
        job=plan.job_of("generate_shard"),
        journal=paths.SHARD_JOURNAL,
        server_log=paths.SHARD_SERVER_LOG,


use rule generate_replies as generate_shard_locally with:
    """The same of a hosted model."""
    input:
        unpack(plan.inputs_of("generate_shard")),
    output:
        replies=paths.SHARD_REPLIES,
        prompts=paths.SHARD_PROMPTS,
    log:
        paths.log_of("generate_shard_locally", "benchmark", "tutor", "shard"),
    benchmark:
        paths.timing_of("generate_shard_locally", "benchmark", "tutor", "shard")
    wildcard_constraints:
        tutor=one_of(plan.sharded("hosted")),
    localrule: True
    container:
        IMAGES.driver
    resources:
        mem_mb=plan.memory,
        server_gpus=0,
    params:
        code=plan.code_of("generate_replies"),
        job=plan.job_of("generate_shard"),
        python=lines.DRIVER,
        journal=paths.SHARD_JOURNAL,
        server_log=paths.SHARD_SERVER_LOG,


rule gather_shards:
    """The replies of a tutor whose items were dealt out to several jobs."""
    input:
        unpack(plan.inputs_of("gather_shards")),
    output:
        replies=paths.REPLIES,
        prompts=paths.PROMPTS,
    log:
        paths.log_of("gather_shards", "benchmark", "tutor"),
    wildcard_constraints:
        tutor=one_of(plan.sharded("vllm", "hosted")),
    localrule: True
    container:
        IMAGES.driver
    params:
        code=plan.code_of("gather_shards"),
    shell:
        lines.command(
            "gather-shards",
            job=False,
            replies="{input.replies}",
            prompts="{input.prompts}",
            out="{output.replies}",
            prompts_out="{output.prompts}",
        )


rule generate_all_replies:
    """A model that we serve, on all benchmarks at once (servers.pack): one allocation, one server."""
    input:
        unpack(plan.inputs_of("generate_all_replies")),
    output:
        replies=[paths.REPLIES.partly(benchmark=name) for name in plan.benchmarks],
        prompts=[paths.PROMPTS.partly(benchmark=name) for name in plan.benchmarks],
    log:
        paths.log_of("generate_all_replies", "tutor"),
    benchmark:
        paths.timing_of("generate_all_replies", "tutor")
    wildcard_constraints:
        tutor=one_of(plan.packed),
    container:
        IMAGES.serve
    threads: plan.threads
    resources:
        **MODEL_JOB,
    params:
        code=plan.code_of("generate_all_replies"),
        job=plan.job_of("generate_all_replies"),
        item_folders=[paths.ITEM_FOLDER.partly(benchmark=name) for name in plan.benchmarks],
        pictures=paths.PICTURE_STORE,
        journal=[paths.REPLY_JOURNAL.partly(benchmark=name) for name in plan.benchmarks],
        server_log=paths.PACKED_SERVER_LOG,
    shell:
        lines.command(
            "generate-all-replies",
            python=lines.SERVE,
            items="{params.item_folders}",
            weights="{input.weights}",
            pictures="{params.pictures}",
            journal="{params.journal}",
            server_log="{params.server_log}",
            out="{output.replies}",
            prompts="{output.prompts}",
        )


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
            file="{input.file}",
            items="{input.cases}",
            sources="{input.sources}",
            out="{output.replies}",
            prompts="{output.prompts}",
        )
