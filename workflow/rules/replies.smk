"""results/items -> results/replies: every tutor's replies to every item."""


rule generate_replies:
    """Generate replies of a served model. Later attempts get more time and memory and resume from the journal."""
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
        tutor=one_of(plan.tutors_per_benchmark_job("vllm")),
    container:
        IMAGES.serve
    threads: plan.threads
    resources:
        **MODEL_JOB,
    params:
        code=plan.code_of("generate_replies"),
        job=plan.job_of("generate_replies"),
        python=shell_lines.SERVE,
        item_folder=paths.ITEM_FOLDER,
        pictures=paths.PICTURE_STORE,
        journal=paths.REPLY_JOURNAL,
        server_log=paths.TUTOR_SERVER_LOG,
    shell:
        shell_lines.command_line(
            "generate-replies",
            python=shell_lines.INHERITED_PYTHON,
            items="{params.item_folder}",
            weights="{input.weights}",
            pictures="{params.pictures}",
            journal="{params.journal}",
            server_log="{params.server_log}",
            out="{output.replies}",
            prompts="{output.prompts}",
        )


use rule generate_replies as generate_replies_locally with:
    """Generate replies of a hosted model or a baseline tutor: needs no GPU, but may need the network."""
    wildcard_constraints:
        tutor=one_of(plan.tutors_per_benchmark_job("hosted", "baseline")),
    localrule: True
    container:
        IMAGES.driver
    resources:
        mem_mb=plan.memory,
        server_gpus=0,
    params:
        code=plan.code_of("generate_replies"),
        python=shell_lines.DRIVER,


use rule generate_replies as generate_shard with:
    """Generate a served model's replies to one shard of a benchmark's items."""
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
        tutor=one_of(plan.sharded_tutors("vllm")),
    params:
        code=plan.code_of("generate_replies"),
        job=plan.job_of("generate_shard"),
        journal=paths.SHARD_JOURNAL,
        server_log=paths.SHARD_SERVER_LOG,


use rule generate_replies as generate_shard_locally with:
    """Generate a hosted model's replies to one shard of a benchmark's items."""
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
        tutor=one_of(plan.sharded_tutors("hosted")),
    localrule: True
    container:
        IMAGES.driver
    resources:
        mem_mb=plan.memory,
        server_gpus=0,
    params:
        code=plan.code_of("generate_replies"),
        job=plan.job_of("generate_shard"),
        python=shell_lines.DRIVER,
        journal=paths.SHARD_JOURNAL,
        server_log=paths.SHARD_SERVER_LOG,


rule gather_shards:
    """Join the replies of a tutor from its shards."""
    input:
        unpack(plan.inputs_of("gather_shards")),
    output:
        replies=paths.REPLIES,
        prompts=paths.PROMPTS,
    log:
        paths.log_of("gather_shards", "benchmark", "tutor"),
    wildcard_constraints:
        tutor=one_of(plan.sharded_tutors("vllm", "hosted")),
    localrule: True
    container:
        IMAGES.driver
    params:
        code=plan.code_of("gather_shards"),
    shell:
        shell_lines.command_line(
            "gather-shards",
            job=False,
            replies="{input.replies}",
            prompts="{input.prompts}",
            out="{output.replies}",
            prompts_out="{output.prompts}",
        )


rule generate_all_replies:
    """Generate a served model's replies to all benchmarks at once (servers.pack): one allocation, one server."""
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
        tutor=one_of(plan.packed_tutors),
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
        shell_lines.command_line(
            "generate-all-replies",
            python=shell_lines.SERVE,
            items="{params.item_folders}",
            weights="{input.weights}",
            pictures="{params.pictures}",
            journal="{params.journal}",
            server_log="{params.server_log}",
            out="{output.replies}",
            prompts="{output.prompts}",
        )


rule read_replies:
    """Read the replies of a recorded tutor from its file."""
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
        shell_lines.command_line(
            "read-replies",
            file="{input.file}",
            items="{input.cases}",
            sources="{input.sources}",
            out="{output.replies}",
            prompts="{output.prompts}",
        )
