"""pinned sources or data_dir -> results/datasets: every source file, verified."""


rule fetch_dataset:
    input:
        code=code("datasets/sources.py"),
    output:
        "results/datasets/{dataset}.source",
    log:
        "results/logs/fetch_dataset/{dataset}.log",
    localrule: True
    container:
        config["containers"]["driver"]
    resources:
        mem_mb=1000,
        runtime=60,
    params:
        settings=lambda wildcards: checked.datasets[wildcards.dataset].model_dump_json(),
        edition=checked.edition,
        data_dir=f"--data-dir {shlex.quote(checked.data_dir)}" if checked.data_dir else "",
    shell:
        '"$DRIVER" -m maieutic fetch-dataset --dataset {wildcards.dataset} --settings {params.settings:q}'
        " --edition {params.edition} {params.data_dir} --demo-dir resources/demo --out {output} --log {log}"
