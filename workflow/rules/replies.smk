"""results/items -> results/replies: every tutor's replies to every item."""

from maieutic.replies import stage as replies_stage


rule generate_replies:
    """Generate a served model's replies. Later attempts get more time and memory, and resume from the journal."""
    input:
        item_files=plan.select(inputs.tutor_items),
        cards=plan.select(replies_stage.tutor_prompts),
        weights=plan.select(replies_stage.tutor_weights),
    output:
        replies="results/replies/{benchmark}/{tutor}.jsonl",
        prompts="results/replies/{benchmark}/prompts/{tutor}.jsonl",
    log:
        "results/logs/generate_replies/{benchmark}/{tutor}.log",
    benchmark:
        "results/benchmarks/generate_replies/{benchmark}/{tutor}.tsv"
    wildcard_constraints:
        tutor=one_of(plan.tutors_per_benchmark_job("vllm")),
    priority: 20  # start first, since a wrong chat template shows in the first replies
    container:
        IMAGES.serve
    threads: plan.threads
    resources:
        **MODEL_JOB,
    params:
        **job("generate_replies"),
        python=SERVE,
        item_folder="results/items/{benchmark}",
        pictures="results/pictures",
        journal="results/journal/replies/{benchmark}/{tutor}.jsonl",
        server_log="results/logs/serve/{benchmark}/{tutor}.log",
    shell:
        command(
            "generate-replies",
            python="{params.python}",
            items="{params.item_folder}",
            weights="{input.weights}",
            pictures="{params.pictures}",
            journal="{params.journal}",
            server_log="{params.server_log}",
            out="{output.replies}",
            prompts="{output.prompts}",
        )


use rule generate_replies as generate_replies_locally with:
    """Generate a hosted model's or a baseline tutor's replies. The job uses no GPU, but may need network access."""
    wildcard_constraints:
        tutor=one_of(plan.tutors_per_benchmark_job("hosted", "baseline")),
    priority: 15
    localrule: True
    container:
        IMAGES.driver
    resources:
        mem_mb=plan.memory,
        server_gpus=0,
    params:
        code=plan.code_of("generate_replies"),
        python=DRIVER,


use rule generate_replies as generate_shard with:
    """Generate a served model's replies to one shard of a benchmark's items."""
    input:
        item_files=plan.select(inputs.tutor_items),
        cards=plan.select(replies_stage.tutor_prompts),
        weights=plan.select(replies_stage.tutor_weights),
    output:
        replies="results/replies/{benchmark}/shards/{shard}/{tutor}.jsonl",
        prompts="results/replies/{benchmark}/shards/{shard}/prompts/{tutor}.jsonl",
    log:
        "results/logs/generate_shard/{benchmark}/{tutor}/{shard}.log",
    benchmark:
        "results/benchmarks/generate_shard/{benchmark}/{tutor}/{shard}.tsv"
    wildcard_constraints:
        tutor=one_of(plan.sharded_tutors("vllm")),
    params:
        **job("generate_replies", "generate_shard"),
        journal="results/journal/replies/{benchmark}/shards/{shard}/{tutor}.jsonl",
        server_log="results/logs/serve/{benchmark}/shards/{shard}/{tutor}.log",


use rule generate_replies as generate_shard_locally with:
    """Generate a hosted model's replies to one shard of a benchmark's items."""
    input:
        item_files=plan.select(inputs.tutor_items),
        cards=plan.select(replies_stage.tutor_prompts),
        weights=plan.select(replies_stage.tutor_weights),
    output:
        replies="results/replies/{benchmark}/shards/{shard}/{tutor}.jsonl",
        prompts="results/replies/{benchmark}/shards/{shard}/prompts/{tutor}.jsonl",
    log:
        "results/logs/generate_shard_locally/{benchmark}/{tutor}/{shard}.log",
    benchmark:
        "results/benchmarks/generate_shard_locally/{benchmark}/{tutor}/{shard}.tsv"
    wildcard_constraints:
        tutor=one_of(plan.sharded_tutors("hosted")),
    localrule: True
    container:
        IMAGES.driver
    resources:
        mem_mb=plan.memory,
        server_gpus=0,
    params:
        **job("generate_replies", "generate_shard"),
        python=DRIVER,
        journal="results/journal/replies/{benchmark}/shards/{shard}/{tutor}.jsonl",
        server_log="results/logs/serve/{benchmark}/shards/{shard}/{tutor}.log",


rule gather_shards:
    """Merge a tutor's replies to all shards of a benchmark's items."""
    input:
        replies=plan.select(replies_stage.shard_replies),
        prompts=plan.select(replies_stage.shard_prompts),
    output:
        replies="results/replies/{benchmark}/{tutor}.jsonl",
        prompts="results/replies/{benchmark}/prompts/{tutor}.jsonl",
    log:
        "results/logs/gather_shards/{benchmark}/{tutor}.log",
    wildcard_constraints:
        tutor=one_of(plan.sharded_tutors("vllm", "hosted")),
    localrule: True
    params:
        code=plan.code_of("gather_shards"),
    shell:
        command(
            "gather-shards",
            job=False,
            replies="{input.replies}",
            prompts="{input.prompts}",
            out="{output.replies}",
            prompts_out="{output.prompts}",
        )


rule read_replies:
    """Read the replies of a recorded tutor from its files."""
    input:
        file=plan.select(replies_stage.recorded_files),
        sources=plan.select(replies_stage.sampled_sources),
        item_files=plan.select(replies_stage.all_tutor_items),
        cards=plan.select(replies_stage.tutor_prompts),
    output:
        replies="results/replies/{benchmark}/{tutor}.jsonl",
        prompts="results/replies/{benchmark}/prompts/{tutor}.jsonl",
    log:
        "results/logs/read_replies/{benchmark}/{tutor}.log",
    wildcard_constraints:
        tutor=one_of(plan.with_engine("recorded")),
    localrule: True
    params:
        **job("read_replies"),
    shell:
        command(
            "read-replies",
            file="{input.file}",
            items="{input.item_files}",
            sources="{input.sources}",
            out="{output.replies}",
            prompts="{output.prompts}",
        )
