"""results/datasets -> results/labels: human-labelled replies that validate the graders."""


rule make_labels:
    input:
        unpack(plan.inputs_of("make_labels")),
    output:
        cases=paths.LABELLED_ITEMS,
        replies=paths.LABELLED_REPLIES,
        labels=paths.LABELS,
        annotations=paths.ANNOTATIONS,
        about=paths.LABEL_ABOUT,
        statistics=paths.LABEL_STATISTICS,
    log:
        paths.log_of("make_labels", "release"),
    localrule: True
    container:
        IMAGES.driver
    resources:
        mem_mb=2000,
        runtime=30,
    params:
        code=plan.code_of("make_labels"),
        job=plan.job_of("make_labels"),
    shell:
        shell_lines.command_line("make-labels", sources="{input.sources}", out="{output.cases}")
