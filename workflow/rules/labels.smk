"""results/datasets -> results/labels: human-labelled replies that validate the graders."""

from maieutic.preparation import stage as preparation_stage


rule make_labels:
    input:
        sources=plan.select(preparation_stage.label_sources),
        rubrics=plan.select(preparation_stage.label_rubric),
    output:
        item_files="results/labels/{release}/items.jsonl",
        replies="results/labels/{release}/replies.jsonl",
        labels="results/labels/{release}/labels.jsonl",
        annotations="results/labels/{release}/annotations.jsonl",
        about="results/labels/{release}/about.json",
        statistics="results/labels/{release}/statistics.json",
    log:
        "results/logs/make_labels/{release}.log",
    localrule: True
    resources:
        mem_mb=2000,
        runtime=30,
    params:
        **job("make_labels"),
    shell:
        command("make-labels", sources="{input.sources}", out="{output.item_files}")
