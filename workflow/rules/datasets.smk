"""pinned sources or data_dir -> results/datasets, results/pictures: every source file, verified, and its pictures."""

from maieutic.plan.patterns import pictured


rule fetch_dataset:
    output:
        paths.SOURCE,
    log:
        paths.log_of("fetch_dataset", "dataset"),
    localrule: True
    container:
        IMAGES.driver
    resources:
        mem_mb=1000,
        runtime=60,
    params:
        code=plan.code_of("fetch_dataset"),
        job=plan.job_of("fetch_dataset"),
    shell:
        lines.command("fetch-dataset", demo_dir=lines.Literal(paths.DEMO_DATA), out="{output}")


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
            demo_dir=lines.Literal(paths.DEMO_DATA),
            store="{params.store}",
            out="{output}",
        )
