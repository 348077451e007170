"""results/datasets -> results/items: test cases in one format."""

from maieutic.preparation import stage as preparation_stage


rule make_items:
    input:
        source=plan.select(preparation_stage.task_source),
        pictures=plan.select(preparation_stage.task_pictures),
        card=plan.select(preparation_stage.task_card),
    output:
        "results/items/{benchmark}/{task}.jsonl",
    log:
        "results/logs/make_items/{benchmark}/{task}.log",
    priority: 25
    localrule: True
    resources:
        mem_mb=2000,
        runtime=30,
    params:
        **job("make_items"),
    shell:
        command("make-items", source="{input.source}", pictures="{input.pictures}", out="{output}")
