"""results/datasets, results/items -> results/preferences: pairs of a better and a worse reply, and what they leak."""


rule make_pairs:
    input:
        sources=lambda wildcards: [
            f"results/datasets/{name}.source" for name in PAIR_SOURCES[wildcards.source].datasets
        ],
    output:
        pairs="results/preferences/{source}/pairs.jsonl",
        counts="results/preferences/{source}/counts.json",
    log:
        "results/logs/make_pairs/{source}.log",
    localrule: True
    container:
        config["containers"]["driver"]
    resources:
        mem_mb=4000,
        runtime=30,
    params:
        code=lambda wildcards: code_of("make-pairs", pairs_used(wildcards)),
        edition=checked.edition,
        forms=lambda wildcards: [
            checked.datasets[name].format for name in PAIR_SOURCES[wildcards.source].datasets
        ],
    shell:
        '"$DRIVER" -m maieutic make-pairs --preference {wildcards.source} --edition {params.edition} --sources {input.sources}'
        " --formats {params.forms} --out {output.pairs} --counts {output.counts} --log {log}"


rule find_overlap:
    """Which human replies of the benchmark stand in these pairs."""
    input:
        cases=reward_items,
        pairs="results/preferences/{source}/pairs.jsonl",
    output:
        "results/preferences/{source}/overlap/{benchmark}.json",
    log:
        "results/logs/find_overlap/{source}/{benchmark}.log",
    localrule: True
    container:
        config["containers"]["driver"]
    resources:
        mem_mb=2000,
        runtime=30,
    params:
        code=code_of("find-overlap"),
        tasks=reward_tasks,
    shell:
        '"$DRIVER" -m maieutic find-overlap --items results/items/{wildcards.benchmark} --tasks {params.tasks}'
        " --pairs {input.pairs} --out {output} --log {log}"
