"""pinned sources or data_dir -> results/datasets, results/pictures: verified source files and their pictures."""

from maieutic.plan.wildcard_patterns import datasets_with_pictures


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
        shell_lines.command_line(
            "fetch-dataset", demo_dir=shell_lines.LiteralWord(paths.DEMO_DATA), out="{output}"
        )


rule fetch_pictures:
    """Download the pictures of a dataset once into the store, named by their SHA-256."""
    input:
        unpack(plan.inputs_of("fetch_pictures")),
    output:
        paths.PICTURE_LIST,
    log:
        paths.log_of("fetch_pictures", "dataset"),
    wildcard_constraints:
        dataset=one_of(datasets_with_pictures(plan)),
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
        shell_lines.command_line(
            "fetch-pictures",
            source="{input.source}",
            demo_dir=shell_lines.LiteralWord(paths.DEMO_DATA),
            store="{params.store}",
            out="{output}",
        )
