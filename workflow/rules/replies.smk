"""results/items -> results/replies: what every tutor says to every item."""


rule generate_replies:
    """A model that we serve. A further attempt gets more time and memory, and goes on from the journal."""
    input:
        cases=items_of,
        cards=tutor_card_files,
        weights="results/weights/{model}/manifest.json",
    output:
        replies="results/replies/{benchmark}/{model}.jsonl",
        prompts="results/replies/{benchmark}/prompts/{model}.jsonl",
    log:
        "results/logs/generate_replies/{benchmark}/{model}.log",
    benchmark:
        "results/benchmarks/generate_replies/{benchmark}/{model}.tsv"
    wildcard_constraints:
        model=one_of(SERVED),
    container:
        config["containers"]["serve"]
    threads: lambda wildcards: needs_of(wildcards).cpus
    resources:
        **MODEL_JOB,
    params:
        code=code_of("generate-replies", SERVED_TUTORS),
        python='"$SERVE"',
        tasks=tasks_of,
        settings=model_json,
        weights="--weights results/weights/{model}",
        pictures=f"--pictures {PICTURES}",
        max_tokens=f"--max-tokens {checked.run.max_tokens}" if checked.run.max_tokens else "",
        protocol=lambda wildcards: settings.protocol_of(checked, wildcards.model),
        seed=checked.run.seed,
        journal="results/journal/replies/{benchmark}/{model}.jsonl",
        server_log="results/logs/serve/{benchmark}/{model}.log",
    shell:
        "{params.python} -m maieutic generate-replies --benchmark {wildcards.benchmark} --tasks {params.tasks}"
        " --protocol {params.protocol:q} --model {wildcards.model} --settings {params.settings:q}"
        " --items results/items/{wildcards.benchmark} {params.weights} {params.pictures} {params.max_tokens} --seed {params.seed}"
        " --journal {params.journal} --server-log {params.server_log}"
        " --out {output.replies} --prompts {output.prompts} --log {log}"


use rule generate_replies as generate_replies_locally with:
    """A hosted model or a baseline tutor: no GPU, and a compute node may have no way out."""
    input:
        cases=items_of,
        cards=tutor_card_files,
    wildcard_constraints:
        model=one_of(UNSERVED),
    localrule: True
    container:
        config["containers"]["driver"]
    resources:
        mem_mb=lambda wildcards: needs_of(wildcards).mem_mb,
    params:
        code=lambda wildcards: code_of("generate-replies", tutor_used(wildcards)),
        python='"$DRIVER"',
        weights="",
