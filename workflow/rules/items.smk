"""results/datasets -> results/items: one shape for every test case."""


rule make_items:
    input:
        source=lambda wildcards: f"results/datasets/{card_of(wildcards).dataset}.source",
        card=lambda wildcards: str(cards.card_path(wildcards.benchmark, wildcards.task)),
        code=code(
            "datasets/__init__.py",
            "datasets/text.py",
            "datasets/gsm8k.py",
            "datasets/stepverify.py",
            "datasets/mathdial_bridge.py",
        ),
    output:
        "results/items/{benchmark}/{task}.jsonl",
    log:
        "results/logs/make_items/{benchmark}/{task}.log",
    container:
        config["containers"]["driver"]
    resources:
        mem_mb=2000,
        runtime=30,
    params:
        python=python_of("driver"),
        settings=lambda wildcards: checked.datasets[card_of(wildcards).dataset].model_dump_json(
            include={"title", "licence", "format", "fields", "published"}
        ),
        limit=f"--limit {checked.run.limit}" if checked.run.limit else "",
        seed=checked.run.seed,
    shell:
        "{params.python} -m maieutic make-items --benchmark {wildcards.benchmark} --task {wildcards.task}"
        " --settings {params.settings:q} --source {input.source} {params.limit} --seed {params.seed}"
        " --out {output} --log {log}"
