"""results/datasets -> results/items: one shape for every test case."""


rule make_items:
    input:
        unpack(plan.inputs_of("make_items")),
    output:
        paths.ITEMS,
    log:
        paths.log_of("make_items", "benchmark", "task"),
    localrule: True
    container:
        IMAGES.driver
    resources:
        mem_mb=2000,
        runtime=30,
    params:
        code=plan.code_of("make_items"),
        job=plan.job_of("make_items"),
    shell:
        lines.command(
            "make-items", source="{input.source}", pictures="{input.pictures}", out="{output}"
        )
