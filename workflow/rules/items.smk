"""results/datasets -> results/items: one shape for every test case."""


rule make_items:
    input:
        source=lambda wildcards: f"results/datasets/{card_of(wildcards).dataset}.source",
        pictures=listed_pictures,
        card=lambda wildcards: str(cards.card_path(wildcards.benchmark, wildcards.task)),
    output:
        "results/items/{benchmark}/{task}.jsonl",
    log:
        "results/logs/make_items/{benchmark}/{task}.log",
    localrule: True
    container:
        config["containers"]["driver"]
    resources:
        mem_mb=2000,
        runtime=30,
    params:
        code=lambda wildcards: code_of("make-items", loader_used(wildcards)),
        form=lambda wildcards: checked.datasets[card_of(wildcards).dataset].form_of(checked.edition),
        pictures=lambda wildcards, input: f"--pictures {input.pictures}" if input.pictures else "",
        limit=f"--limit {checked.run.limit}" if checked.run.limit else "",
        seed=checked.run.seed,
    shell:
        '"$DRIVER" -m maieutic make-items --benchmark {wildcards.benchmark} --task {wildcards.task}'
        " --format {params.form} --source {input.source} {params.pictures} {params.limit} --seed {params.seed}"
        " --out {output} --log {log}"
