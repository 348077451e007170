"""results/datasets -> results/labels: replies that people have labelled, which every grader is checked on."""


rule make_labels:
    input:
        source=lambda wildcards: f"results/datasets/{LABEL_SOURCES[wildcards.release].dataset}.source",
        code=code("conversations.py", "datasets/mrbench.py", "datasets/text.py", "judges/labels.py"),
    output:
        cases="results/labels/{release}/items.jsonl",
        replies="results/labels/{release}/replies.jsonl",
        labels="results/labels/{release}/labels.jsonl",
        statistics="results/labels/{release}/statistics.json",
    log:
        "results/logs/make_labels/{release}.log",
    localrule: True
    container:
        config["containers"]["driver"]
    resources:
        mem_mb=2000,
        runtime=30,
    params:
        form=lambda wildcards: checked.datasets[LABEL_SOURCES[wildcards.release].dataset].format,
        folder=subpath(output.cases, parent=True),
    shell:
        '"$DRIVER" -m maieutic make-labels --release {wildcards.release} --source {input.source}'
        " --format {params.form} --out {params.folder} --log {log}"
