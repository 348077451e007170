"""results/datasets -> results/labels: replies that people have labelled, which every grader is checked on."""


rule make_labels:
    input:
        sources=lambda wildcards: [
            f"results/datasets/{dataset}.source"
            for dataset in judging.label_datasets(checked, wildcards.release)
        ],
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
        code=code_of("make-labels"),
        forms=lambda wildcards: [
            checked.datasets[dataset].form_of(checked.edition)
            for dataset in judging.label_datasets(checked, wildcards.release)
        ],
        folder=subpath(output.cases, parent=True),
    shell:
        '"$DRIVER" -m maieutic make-labels --release {wildcards.release} --sources {input.sources}'
        " --formats {params.forms} --out {params.folder} --log {log}"
