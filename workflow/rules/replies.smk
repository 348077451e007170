"""results/items -> results/replies: what every tutor says to every item."""


rule generate_replies:
    input:
        cases=items_of,
        cards=card_files,
        weights=weights_of,
        code=tutor_code,
    output:
        replies="results/replies/{benchmark}/{model}.jsonl",
        prompts="results/replies/{benchmark}/prompts/{model}.jsonl",
    log:
        "results/logs/generate_replies/{benchmark}/{model}.log",
    benchmark:
        "results/benchmarks/generate_replies/{benchmark}/{model}.tsv"
    container:
        config["containers"]["serve"]
    threads: lambda wildcards: needs_of(wildcards).cpus
    resources:
        mem_mb=lambda wildcards: needs_of(wildcards).mem_mb,
        runtime=lambda wildcards: needs_of(wildcards).runtime,
        gpu=lambda wildcards: needs_of(wildcards).gpus,
    params:
        python=lambda wildcards, input: '"$SERVE"' if input.weights else '"$DRIVER"',
        tasks=tasks_of,
        settings=model_json,
        weights=lambda wildcards, input: (
            f"--weights results/weights/{wildcards.model}" if input.weights else ""
        ),
        max_tokens=f"--max-tokens {checked.run.max_tokens}" if checked.run.max_tokens else "",
        protocol=checked.run.protocol,
        seed=checked.run.seed,
        journal="results/journal/replies/{benchmark}/{model}.jsonl",
        server_log="results/logs/serve/{benchmark}/{model}.log",
    shell:
        "{params.python} -m maieutic generate-replies --benchmark {wildcards.benchmark} --tasks {params.tasks}"
        " --protocol {params.protocol} --model {wildcards.model} --settings {params.settings:q}"
        " --items results/items/{wildcards.benchmark} {params.weights} {params.max_tokens} --seed {params.seed}"
        " --journal {params.journal} --server-log {params.server_log}"
        " --out {output.replies} --prompts {output.prompts} --log {log}"
