"""results/items, results/grades, results/verdicts -> results/scores: every number with its interval."""


rule score_replies:
    input:
        unpack(plan.inputs_of("score_replies")),
    output:
        paths.SCORES,
    log:
        paths.log_of("score_replies", "benchmark", "tutor"),
    localrule: True
    container:
        IMAGES.driver
    resources:
        mem_mb=2000,
        runtime=30,
    params:
        code=plan.code_of("score_replies"),
        job=plan.job_of("score_replies"),
        item_folder=paths.ITEM_FOLDER,
    shell:
        shell_lines.command_line(
            "score-replies", items="{params.item_folder}", grades="{input.grades}", out="{output}"
        )


rule compare_tutors:
    """Compute paired differences between all tutors of the run, on the items that both answered."""
    input:
        unpack(plan.inputs_of("compare_tutors")),
    output:
        paths.DIFFERENCES,
    log:
        paths.log_of("compare_tutors", "benchmark"),
    localrule: True
    container:
        IMAGES.driver
    resources:
        mem_mb=4000,
        runtime=60,
    params:
        code=plan.code_of("compare_tutors"),
        job=plan.job_of("compare_tutors"),
        item_folder=paths.ITEM_FOLDER,
    shell:
        shell_lines.command_line(
            "compare-tutors", items="{params.item_folder}", grades="{input.grades}", out="{output}"
        )


rule break_down:
    """Break a tutor's scores down by the tags of items and criteria, over pooled tasks."""
    input:
        unpack(plan.inputs_of("break_down")),
    output:
        paths.BREAKDOWN,
    log:
        paths.log_of("break_down", "benchmark", "tutor"),
    wildcard_constraints:
        benchmark=one_of(plan.pooled_benchmarks),
    localrule: True
    container:
        IMAGES.driver
    resources:
        mem_mb=2000,
        runtime=30,
    params:
        code=plan.code_of("break_down"),
        job=plan.job_of("break_down"),
        item_folder=paths.ITEM_FOLDER,
    shell:
        shell_lines.command_line(
            "break-down",
            items="{params.item_folder}",
            grades="{input.grades}",
            votes="{input.votes}",
            out="{output}",
        )


rule vote_tags:
    """Set each item's Bloom level by a vote of the taggers, with their agreement (TutorBench, section 3.4)."""
    input:
        unpack(plan.inputs_of("vote_tags")),
    output:
        paths.VOTES,
    log:
        paths.log_of("vote_tags", "benchmark"),
    localrule: True
    container:
        IMAGES.driver
    params:
        code=plan.code_of("vote_tags"),
        job=plan.job_of("vote_tags"),
        item_folder=paths.ITEM_FOLDER,
    shell:
        shell_lines.command_line(
            "vote-tags", items="{params.item_folder}", tags="{input.tags}", out="{output}"
        )


rule filter_by_difficulty:
    """Select the items that most of the given tutors fail (TutorBench, appendix A.1)."""
    input:
        unpack(plan.inputs_of("filter_by_difficulty")),
    output:
        paths.DIFFICULTY,
    log:
        paths.log_of("filter_by_difficulty", "benchmark"),
    localrule: True
    container:
        IMAGES.driver
    params:
        code=plan.code_of("filter_by_difficulty"),
        job=plan.job_of("filter_by_difficulty"),
        item_folder=paths.ITEM_FOLDER,
    shell:
        shell_lines.command_line(
            "filter-by-difficulty",
            items="{params.item_folder}",
            grades="{input.grades}",
            out="{output}",
        )


rule score_labels:
    """Compute DAMR from human labels, by tutor, dimension and subset."""
    input:
        unpack(plan.inputs_of("score_labels")),
    output:
        paths.LABEL_SCORES,
    log:
        paths.log_of("score_labels", "release"),
    localrule: True
    container:
        IMAGES.driver
    params:
        code=plan.code_of("score_labels"),
        job=plan.job_of("score_labels"),
    shell:
        shell_lines.command_line(
            "score-labels", labels="{input.labels}", embedded="{input.embedded}", out="{output}"
        )


rule write_submission:
    """Write a judge's verdicts on an unlabelled release as a submission to the BEA 2025 shared task."""
    input:
        unpack(plan.inputs_of("write_submission")),
    output:
        predictions=paths.PREDICTIONS,
        packed=paths.SUBMISSION,
    log:
        paths.log_of("write_submission", "release", "judge"),
    wildcard_constraints:
        release=one_of(plan.run.predictions),
    localrule: True
    container:
        IMAGES.driver
    params:
        code=plan.code_of("write_submission"),
        job=plan.job_of("write_submission"),
    shell:
        shell_lines.command_line(
            "write-submission",
            source="{input.source}",
            verdicts="{input.verdicts}",
            out="{output.predictions}",
            packed="{output.packed}",
        )
