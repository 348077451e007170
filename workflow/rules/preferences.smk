"""results/datasets, results/items -> results/preferences: pairs of a better and a worse reply, and their leakage."""


rule make_pairs:
    input:
        unpack(plan.inputs_of("make_pairs")),
    output:
        pairs=paths.PAIRS,
        counts=paths.PAIR_COUNTS,
    log:
        paths.log_of("make_pairs", "source"),
    localrule: True
    container:
        IMAGES.driver
    resources:
        mem_mb=4000,
        runtime=30,
    params:
        code=plan.code_of("make_pairs"),
        job=plan.job_of("make_pairs"),
    shell:
        shell_lines.command_line(
            "make-pairs", sources="{input.sources}", out="{output.pairs}", counts="{output.counts}"
        )


rule find_overlap:
    """List the benchmark's human replies that occur in these pairs."""
    input:
        unpack(plan.inputs_of("find_overlap")),
    output:
        paths.OVERLAP,
    log:
        paths.log_of("find_overlap", "source", "benchmark"),
    localrule: True
    container:
        IMAGES.driver
    resources:
        mem_mb=2000,
        runtime=30,
    params:
        code=plan.code_of("find_overlap"),
        job=plan.job_of("find_overlap"),
        item_folder=paths.ITEM_FOLDER,
    shell:
        shell_lines.command_line(
            "find-overlap", items="{params.item_folder}", pairs="{input.pairs}", out="{output}"
        )
