"""pinned sources or data_dir -> results/datasets, results/pictures: every source file, verified, and its pictures."""

from maieutic.plan.patterns import hub_datasets, pictured


rule fetch_dataset:
    output:
        paths.SOURCE,
    log:
        paths.log_of("fetch_dataset", "dataset"),
    wildcard_constraints:
        dataset=one_of(name for name in plan.datasets if name not in hub_datasets(plan)),
    localrule: True
    container:
        IMAGES.driver
    resources:
        mem_mb=1000,
        runtime=60,
    params:
        code=plan.code_of("fetch_dataset"),
        job=plan.job_of("fetch_dataset"),
        python=lines.DRIVER,
    shell:
        lines.command(
            "fetch-dataset", python=lines.CHOSEN, demo_dir=str(paths.DEMO_DATA), out="{output}"
        )


use rule fetch_dataset as fetch_dataset_from_hub with:
    """By the environment that has the hub's own client."""
    wildcard_constraints:
        dataset=one_of(hub_datasets(plan)),
    container:
        IMAGES.serve
    params:
        code=plan.code_of("fetch_dataset"),
        job=plan.job_of("fetch_dataset"),
        python=lines.SERVE,


rule fetch_pictures:
    """The pictures of a dataset, fetched once into the store and named by their SHA-256."""
    input:
        unpack(plan.inputs_of("fetch_pictures")),
    output:
        paths.PICTURE_LIST,
    log:
        paths.log_of("fetch_pictures", "dataset"),
    wildcard_constraints:
        dataset=one_of(pictured(plan)),
    localrule: True
    container:
        IMAGES.driver
    resources:
        mem_mb=4000,
        runtime=240,
    params:
        code=plan.code_of("fetch_pictures"),
        job=plan.job_of("fetch_pictures"),
        store=paths.PICTURE_STORE,
    shell:
        lines.command(
            "fetch-pictures",
            source="{input.source}",
            demo_dir=str(paths.DEMO_DATA),
            store="{params.store}",
            out="{output}",
        )
