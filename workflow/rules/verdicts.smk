"""results/replies, results/labels, results/preferences -> results/verdicts: judges' raw answers."""

from maieutic.plan.wildcard_patterns import judges_with_engine

JUDGED = plan.judged_benchmarks()
UNPACKED = [name for name in plan.run.judges if name not in plan.packed_judges]


rule judge_replies:
    """Judge a batch of tutors by a served judge. Resumes from the journal."""
    input:
        unpack(plan.inputs_of("judge_replies")),
    output:
        paths.VERDICTS,
    log:
        paths.log_of("judge_replies", "judge", "benchmark", "batch"),
    benchmark:
        paths.timing_of("judge_replies", "judge", "benchmark", "batch")
    wildcard_constraints:
        judge=one_of(judges_with_engine(plan, UNPACKED, "vllm")),
    container:
        IMAGES.serve
    threads: plan.threads
    resources:
        **MODEL_JOB,
    params:
        code=plan.code_of("judge_replies"),
        job=plan.job_of("judge_replies"),
        python=shell_lines.SERVE,
        item_folder=paths.ITEM_FOLDER,
        pictures=paths.PICTURE_STORE,
        journal=paths.VERDICT_JOURNAL,
        server_log=paths.JUDGE_SERVER_LOG,
    shell:
        shell_lines.command_line(
            "judge-replies",
            python=shell_lines.INHERITED_PYTHON,
            items="{params.item_folder}",
            replies="{input.replies}",
            weights="{input.weights}",
            pictures="{params.pictures}",
            journal="{params.journal}",
            server_log="{params.server_log}",
            out="{output}",
        )


use rule judge_replies as judge_replies_locally with:
    """Judge a batch of tutors by a hosted judge: needs no GPU, but needs the network."""
    wildcard_constraints:
        judge=one_of(judges_with_engine(plan, plan.run.judges, "hosted")),
    localrule: True
    container:
        IMAGES.driver
    resources:
        mem_mb=plan.memory,
        server_gpus=0,
    params:
        code=plan.code_of("judge_replies"),
        python=shell_lines.DRIVER,


rule judge_all_replies:
    """Judge a batch of tutors on all benchmarks at once by a served judge (servers.pack)."""
    input:
        unpack(plan.inputs_of("judge_all_replies")),
    output:
        [paths.VERDICTS.partly(benchmark=name) for name in JUDGED],
    log:
        paths.log_of("judge_all_replies", "judge", "batch"),
    benchmark:
        paths.timing_of("judge_all_replies", "judge", "batch")
    wildcard_constraints:
        judge=one_of(plan.packed_judges),
    container:
        IMAGES.serve
    threads: plan.threads
    resources:
        **MODEL_JOB,
    params:
        code=plan.code_of("judge_all_replies"),
        job=plan.job_of("judge_all_replies"),
        item_folders=[paths.ITEM_FOLDER.partly(benchmark=name) for name in JUDGED],
        pictures=paths.PICTURE_STORE,
        journal=[paths.VERDICT_JOURNAL.partly(benchmark=name) for name in JUDGED],
        server_log=paths.PACKED_JUDGE_LOG,
    shell:
        shell_lines.command_line(
            "judge-all-replies",
            python=shell_lines.SERVE,
            items="{params.item_folders}",
            replies="{input.replies}",
            weights="{input.weights}",
            pictures="{params.pictures}",
            journal="{params.journal}",
            server_log="{params.server_log}",
            out="{output}",
        )


rule judge_labelled:
    """Judge the labelled replies and the Bridge pairs by a served judge, to validate it."""
    input:
        unpack(plan.inputs_of("judge_labelled")),
    output:
        verdicts=paths.LABELLED_VERDICTS,
        probes=[paths.PROBE_VERDICTS.partly(probe=name) for name in plan.probes],
    log:
        paths.log_of("judge_labelled", "judge"),
    benchmark:
        paths.timing_of("judge_labelled", "judge")
    wildcard_constraints:
        judge=one_of(judges_with_engine(plan, plan.run.judges, "vllm")),
    priority: 10  # a judge whose verdicts cannot be parsed is detected here first
    container:
        IMAGES.serve
    threads: plan.threads
    resources:
        **MODEL_JOB,
    params:
        code=plan.code_of("judge_labelled"),
        job=plan.job_of("judge_labelled"),
        python=shell_lines.SERVE,
        journal=paths.LABELLED_JOURNAL,
        server_log=paths.LABELLED_SERVER_LOG,
    shell:
        shell_lines.command_line(
            "judge-labelled",
            python=shell_lines.INHERITED_PYTHON,
            labels="{input.labels}",
            pairs="{input.pairs}",
            weights="{input.weights}",
            journal="{params.journal}",
            server_log="{params.server_log}",
            out="{output.verdicts}",
            probes_out="{output.probes}",
        )


use rule judge_labelled as judge_labelled_locally with:
    wildcard_constraints:
        judge=one_of(judges_with_engine(plan, plan.run.judges, "hosted")),
    localrule: True
    container:
        IMAGES.driver
    resources:
        mem_mb=plan.memory,
        server_gpus=0,
    params:
        code=plan.code_of("judge_labelled"),
        python=shell_lines.DRIVER,


rule judge_by_words:
    """Judge a batch of tutors by word lists."""
    input:
        unpack(plan.inputs_of("judge_by_words")),
    output:
        paths.VERDICTS,
    log:
        paths.log_of("judge_by_words", "judge", "benchmark", "batch"),
    wildcard_constraints:
        judge=one_of(plan.word_list_judges),
    localrule: True
    container:
        IMAGES.driver
    params:
        code=plan.code_of("judge_by_words"),
        job=plan.job_of("judge_by_words"),
        item_folder=paths.ITEM_FOLDER,
    shell:
        shell_lines.command_line(
            "judge-by-words",
            items="{params.item_folder}",
            replies="{input.replies}",
            out="{output}",
        )


rule judge_labelled_by_words:
    """Judge the labelled replies by word lists."""
    input:
        unpack(plan.inputs_of("judge_labelled_by_words")),
    output:
        paths.LABELLED_VERDICTS,
    log:
        paths.log_of("judge_labelled_by_words", "judge"),
    wildcard_constraints:
        judge=one_of(plan.word_list_judges),
    localrule: True
    container:
        IMAGES.driver
    params:
        code=plan.code_of("judge_labelled_by_words"),
        job=plan.job_of("judge_labelled_by_words"),
    shell:
        shell_lines.command_line("judge-labelled-by-words", labels="{input.labels}", out="{output}")


rule combine_verdicts:
    """Combine the verdicts of a panel's judges on a batch of tutors."""
    input:
        unpack(plan.inputs_of("combine_verdicts")),
    output:
        paths.VERDICTS,
    log:
        paths.log_of("combine_verdicts", "judge", "benchmark", "batch"),
    wildcard_constraints:
        judge=one_of(plan.panels),
    localrule: True
    container:
        IMAGES.driver
    params:
        code=plan.code_of("combine_verdicts"),
        job=plan.job_of("combine_verdicts"),
    shell:
        shell_lines.command_line(
            "combine-verdicts",
            verdicts="{input.verdicts}",
            weights="{input.weights}",
            out="{output}",
        )


rule combine_labelled:
    """Combine the verdicts of a panel's judges on labelled replies, and fit the judges' weights."""
    input:
        unpack(plan.inputs_of("combine_labelled")),
    output:
        verdicts=paths.LABELLED_VERDICTS,
        weights=paths.PANEL_WEIGHTS,
    log:
        paths.log_of("combine_labelled", "judge"),
    wildcard_constraints:
        judge=one_of(plan.panels),
    localrule: True
    container:
        IMAGES.driver
    params:
        code=plan.code_of("combine_labelled"),
        job=plan.job_of("combine_labelled"),
    shell:
        shell_lines.command_line(
            "combine-labelled",
            verdicts="{input.verdicts}",
            labels="{input.labels}",
            pairs="{input.pairs}",
            out="{output.verdicts}",
            weights="{output.weights}",
        )


rule tag_items:
    """Tag items and criteria by a served model."""
    input:
        unpack(plan.inputs_of("tag_items")),
    output:
        paths.TAGS,
    log:
        paths.log_of("tag_items", "tagger", "benchmark"),
    benchmark:
        paths.timing_of("tag_items", "tagger", "benchmark")
    wildcard_constraints:
        tagger=one_of(judges_with_engine(plan, plan.run.taggers, "vllm")),
    container:
        IMAGES.serve
    threads: plan.threads
    resources:
        **MODEL_JOB,
    params:
        code=plan.code_of("tag_items"),
        job=plan.job_of("tag_items"),
        python=shell_lines.SERVE,
        item_folder=paths.ITEM_FOLDER,
        pictures=paths.PICTURE_STORE,
        journal=paths.TAG_JOURNAL,
        server_log=paths.TAGGER_SERVER_LOG,
    shell:
        shell_lines.command_line(
            "tag-items",
            python=shell_lines.INHERITED_PYTHON,
            items="{params.item_folder}",
            weights="{input.weights}",
            pictures="{params.pictures}",
            journal="{params.journal}",
            server_log="{params.server_log}",
            out="{output}",
        )


use rule tag_items as tag_items_locally with:
    """Tag items and criteria by a hosted model: needs no GPU, but needs the network."""
    wildcard_constraints:
        tagger=one_of(judges_with_engine(plan, plan.run.taggers, "hosted")),
    localrule: True
    container:
        IMAGES.driver
    resources:
        mem_mb=plan.memory,
        server_gpus=0,
    params:
        code=plan.code_of("tag_items"),
        python=shell_lines.DRIVER,
