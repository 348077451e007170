"""pinned sources or data_dir -> results/datasets, results/pictures: verified source files and their pictures."""

from maieutic.launch.shell_lines import datasets_with_pictures


rule fetch_dataset:
    output:
        "results/datasets/{dataset}.source",
    log:
        "results/logs/fetch_dataset/{dataset}.log",
    priority: 25
    localrule: True
    resources:
        mem_mb=1000,
        runtime=60,
    params:
        **job("fetch_dataset"),
    shell:
        command("fetch-dataset", demo_dir=LiteralWord(paths.DEMO_DATA), out="{output}")


rule fetch_pictures:
    """Fetch the pictures of a dataset into the store, where each file is named by its SHA-256."""
    input:
        source="results/datasets/{dataset}.source",
    output:
        "results/datasets/{dataset}.pictures.jsonl",
    log:
        "results/logs/fetch_pictures/{dataset}.log",
    wildcard_constraints:
        dataset=one_of(datasets_with_pictures(plan)),
    localrule: True
    resources:
        mem_mb=4000,
        runtime=240,
    params:
        **job("fetch_pictures"),
        store="results/pictures",
    shell:
        command(
            "fetch-pictures",
            source="{input.source}",
            demo_dir=LiteralWord(paths.DEMO_DATA),
            store="{params.store}",
            out="{output}",
        )
