"""results/datasets -> results/items: test cases in one format."""


rule make_items:
    input:
        source=plan.select(inputs.task_source),
        pictures=plan.select(inputs.task_pictures),
        card=plan.select(inputs.task_card),
    output:
        "results/items/{benchmark}/{task}.jsonl",
    log:
        "results/logs/make_items/{benchmark}/{task}.log",
    localrule: True
    resources:
        mem_mb=2000,
        runtime=30,
    params:
        **job("make_items"),
    shell:
        command("make-items", source="{input.source}", pictures="{input.pictures}", out="{output}")
