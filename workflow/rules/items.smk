"""results/datasets -> results/items: test cases in one format."""


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
        shell_lines.command_line(
            "make-items", source="{input.source}", pictures="{input.pictures}", out="{output}"
        )
