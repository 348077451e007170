"""pinned sources or data_dir -> results/datasets: every source file, verified, and its records' pictures."""


rule fetch_dataset:
    output:
        "results/datasets/{dataset}.source",
    log:
        "results/logs/fetch_dataset/{dataset}.log",
    wildcard_constraints:
        dataset=one_of([name for name in checked.datasets if name not in HUB_DATASETS]),
    localrule: True
    container:
        config["containers"]["driver"]
    resources:
        mem_mb=1000,
        runtime=60,
    params:
        code=code_of("fetch-dataset"),
        python='"$DRIVER"',
        settings=lambda wildcards: checked.datasets[wildcards.dataset].model_dump_json(),
        edition=checked.edition,
        data_dir=f"--data-dir {shlex.quote(checked.data_dir)}" if checked.data_dir else "",
    shell:
        "{params.python} -m maieutic fetch-dataset --dataset {wildcards.dataset} --settings {params.settings:q}"
        " --edition {params.edition} {params.data_dir} --demo-dir resources/demo --out {output} --log {log}"


use rule fetch_dataset as fetch_dataset_from_hub with:
    """By the environment that has the hub's own client."""
    wildcard_constraints:
        dataset=one_of(HUB_DATASETS),
    container:
        config["containers"]["serve"]
    params:
        code=code_of("fetch-dataset"),
        python='"$SERVE"',


rule fetch_pictures:
    """Their files go to results/pictures, named by their SHA-256."""
    input:
        source="results/datasets/{dataset}.source",
    output:
        "results/datasets/{dataset}.pictures.jsonl",
    log:
        "results/logs/fetch_pictures/{dataset}.log",
    wildcard_constraints:
        dataset=one_of(PICTURED),
    localrule: True
    container:
        config["containers"]["driver"]
    resources:
        mem_mb=4000,
        runtime=240,
    params:
        code=code_of("fetch-pictures"),
        settings=lambda wildcards: checked.datasets[wildcards.dataset].model_dump_json(),
        edition=checked.edition,
        data_dir=f"--data-dir {shlex.quote(checked.data_dir)}" if checked.data_dir else "",
        store=PICTURES,
    shell:
        '"$DRIVER" -m maieutic fetch-pictures --dataset {wildcards.dataset} --settings {params.settings:q}'
        " --edition {params.edition} {params.data_dir} --demo-dir resources/demo --source {input.source}"
        " --store {params.store} --out {output} --log {log}"
