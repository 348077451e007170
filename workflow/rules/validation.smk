"""results/labels, results/rewards, results/verdicts -> results/validation: each grader's agreement with people."""


rule validate_reward_model:
    """Validate a reward model on the leading set of preferences: accuracy, margin, accuracy of length alone."""
    input:
        unpack(plan.inputs_of("validate_reward_model")),
    output:
        paths.PAIR_VALIDATION,
    log:
        paths.log_of("validate_reward_model", "grader"),
    wildcard_constraints:
        grader=one_of(plan.reward_models),
    localrule: True
    container:
        IMAGES.driver
    params:
        code=plan.code_of("validate_reward_model"),
        job=plan.job_of("validate_reward_model"),
    shell:
        shell_lines.command_line(
            "validate-reward-model",
            pairs="{input.pairs}",
            rewards="{input.rewards}",
            training="{input.training}",
            out="{output}",
        )


use rule validate_reward_model as validate_reward_on_pairs with:
    """Validate a reward model on a further set of preferences."""
    input:
        unpack(plan.inputs_of("validate_reward_on_pairs")),
    output:
        paths.SET_VALIDATION,
    log:
        paths.log_of("validate_reward_on_pairs", "grader", "source"),
    params:
        code=plan.code_of("validate_reward_model"),
        job=plan.job_of("validate_reward_on_pairs"),


rule validate_criteria:
    """Validate criteria classifiers on held-out dialogues and the leading preferences, each alone and all together."""
    input:
        unpack(plan.inputs_of("validate_criteria")),
    output:
        paths.PAIR_VALIDATION,
    log:
        paths.log_of("validate_criteria", "grader"),
    wildcard_constraints:
        grader=one_of(plan.classifiers),
    localrule: True
    container:
        IMAGES.driver
    params:
        code=plan.code_of("validate_criteria"),
        job=plan.job_of("validate_criteria"),
    shell:
        shell_lines.command_line(
            "validate-criteria",
            pairs="{input.pairs}",
            heldout="{input.heldout}",
            classified="{input.classified}",
            out="{output}",
        )


use rule validate_criteria as validate_criteria_on_pairs with:
    """Validate criteria classifiers on a further set of preferences."""
    input:
        unpack(plan.inputs_of("validate_criteria_on_pairs")),
    output:
        paths.SET_VALIDATION,
    log:
        paths.log_of("validate_criteria_on_pairs", "grader", "source"),
    params:
        code=plan.code_of("validate_criteria"),
        job=plan.job_of("validate_criteria_on_pairs"),


rule validate_judge:
    """Validate a judge on every labelled set, and in both orders on each set of preferences."""
    input:
        unpack(plan.inputs_of("validate_judge")),
    output:
        labels=paths.LABEL_VALIDATION,
        pairs=[
            paths.PAIR_VALIDATION,
            *(paths.SET_VALIDATION.partly(source=source) for source in plan.further_pairs),
        ],
    log:
        paths.log_of("validate_judge", "grader"),
    wildcard_constraints:
        grader=one_of(plan.run.judges),
    localrule: True
    container:
        IMAGES.driver
    params:
        code=plan.code_of("validate_judge"),
        job=plan.job_of("validate_judge"),
    shell:
        shell_lines.command_line(
            "validate-judge",
            verdicts="{input.verdicts}",
            single="{input.single}",
            labels="{input.labels}",
            pairs="{input.pairs}",
            out="{output.labels}",
            pairs_out="{output.pairs}",
        )


rule validate_probes:
    """Measure how far a judge's verdicts depend on irrelevant changes (probes)."""
    input:
        unpack(plan.inputs_of("validate_probes")),
    output:
        paths.PROBE_VALIDATION,
    log:
        paths.log_of("validate_probes", "grader"),
    wildcard_constraints:
        grader=one_of(plan.probed_judges),
    localrule: True
    container:
        IMAGES.driver
    params:
        code=plan.code_of("validate_probes"),
        job=plan.job_of("validate_probes"),
    shell:
        shell_lines.command_line(
            "validate-probes",
            verdicts="{input.verdicts}",
            probes="{input.probes}",
            labels="{input.labels}",
            out="{output}",
        )


rule validate_reward_on_labels:
    """Correlate a reward model's scores with human labels."""
    input:
        unpack(plan.inputs_of("validate_reward_on_labels")),
    output:
        paths.LABEL_VALIDATION,
    log:
        paths.log_of("validate_reward_on_labels", "grader"),
    wildcard_constraints:
        grader=one_of(plan.reward_models),
    localrule: True
    container:
        IMAGES.driver
    params:
        code=plan.code_of("validate_reward_on_labels"),
        job=plan.job_of("validate_reward_on_labels"),
    shell:
        shell_lines.command_line(
            "validate-reward-on-labels",
            labels="{input.labels}",
            rewards="{input.rewards}",
            out="{output}",
        )


rule validate_criteria_on_labels:
    """Validate criteria classifiers on the labels of held-out replies."""
    input:
        unpack(plan.inputs_of("validate_criteria_on_labels")),
    output:
        paths.LABEL_VALIDATION,
    log:
        paths.log_of("validate_criteria_on_labels", "grader"),
    wildcard_constraints:
        grader=one_of(plan.classifiers),
    localrule: True
    container:
        IMAGES.driver
    params:
        code=plan.code_of("validate_criteria_on_labels"),
        job=plan.job_of("validate_criteria_on_labels"),
    shell:
        shell_lines.command_line(
            "validate-criteria-on-labels",
            labels="{input.labels}",
            heldout="{input.heldout}",
            out="{output}",
        )


rule correct_by_people:
    """Correct a judge's rates by human labels of this run's replies."""
    input:
        unpack(plan.inputs_of("correct_by_people")),
    output:
        scores=paths.CORRECTED,
        differences=paths.CORRECTED_DIFFERENCES,
    log:
        paths.log_of("correct_by_people", "judge"),
    localrule: True
    container:
        IMAGES.driver
    params:
        code=plan.code_of("correct_by_people"),
        job=plan.job_of("correct_by_people"),
    shell:
        shell_lines.command_line(
            "correct-by-people",
            verdicts="{input.verdicts}",
            people="{input.people}",
            out="{output.scores}",
            differences="{output.differences}",
        )


rule align_judge:
    """Align a judge's win, tie and lose verdicts with people's (KMP-Bench, Table 3)."""
    input:
        unpack(plan.inputs_of("align_judge")),
    output:
        paths.ALIGNMENT,
    log:
        paths.log_of("align_judge", "judge"),
    localrule: True
    container:
        IMAGES.driver
    params:
        code=plan.code_of("align_judge"),
        job=plan.job_of("align_judge"),
    shell:
        shell_lines.command_line(
            "align-judge", verdicts="{input.verdicts}", people="{input.people}", out="{output}"
        )


rule rate_judge:
    """Compare a judge's verdicts per criterion with human raters' (TutorBench, section 3.7)."""
    input:
        unpack(plan.inputs_of("rate_judge")),
    output:
        paths.RATERS,
    log:
        paths.log_of("rate_judge", "benchmark", "judge"),
    localrule: True
    container:
        IMAGES.driver
    params:
        code=plan.code_of("rate_judge"),
        job=plan.job_of("rate_judge"),
        item_folder=paths.ITEM_FOLDER,
    shell:
        shell_lines.command_line(
            "rate-judge",
            verdicts="{input.verdicts}",
            people="{input.people}",
            items="{params.item_folder}",
            out="{output}",
        )
