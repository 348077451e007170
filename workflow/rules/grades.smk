"""results/replies, results/rewards, results/verdicts -> results/grades: grades by parsers, reward models and judges."""


rule parse_replies:
    input:
        unpack(plan.inputs_of("parse_replies")),
    output:
        paths.PARSED,
    log:
        paths.log_of("parse_replies", "benchmark", "tutor"),
    localrule: True
    container:
        IMAGES.driver
    resources:
        mem_mb=2000,
        runtime=30,
    params:
        code=plan.code_of("parse_replies"),
        job=plan.job_of("parse_replies"),
        item_folder=paths.ITEM_FOLDER,
    shell:
        shell_lines.command_line(
            "parse-replies",
            items="{params.item_folder}",
            replies="{input.replies}",
            out="{output}",
        )


rule grade_by_rewards:
    """Compare a tutor's replies with human replies by the rewards of one reward model."""
    input:
        unpack(plan.inputs_of("grade_by_rewards")),
    output:
        paths.REWARD_GRADES,
    log:
        paths.log_of("grade_by_rewards", "reward_model", "benchmark", "tutor"),
    wildcard_constraints:
        reward_model=one_of(plan.run.reward_models),
    localrule: True
    container:
        IMAGES.driver
    resources:
        mem_mb=2000,
        runtime=30,
    params:
        code=plan.code_of("grade_by_rewards"),
        job=plan.job_of("grade_by_rewards"),
        item_folder=paths.ITEM_FOLDER,
    shell:
        shell_lines.command_line(
            "grade-by-rewards",
            items="{params.item_folder}",
            replies="{input.replies}",
            rewards="{input.rewards}",
            overlaps="{input.overlaps}",
            out="{output}",
        )


rule grade_verdicts:
    """Turn one judge's verdicts on a tutor into grades, shares and weighted scores."""
    input:
        unpack(plan.inputs_of("grade_verdicts")),
    output:
        paths.JUDGE_GRADES,
    log:
        paths.log_of("grade_verdicts", "benchmark", "judge", "tutor"),
    localrule: True
    container:
        IMAGES.driver
    resources:
        mem_mb=2000,
        runtime=30,
    params:
        code=plan.code_of("grade_verdicts"),
        job=plan.job_of("grade_verdicts"),
        item_folder=paths.ITEM_FOLDER,
    shell:
        shell_lines.command_line(
            "grade-verdicts",
            verdicts="{input.verdicts}",
            items="{params.item_folder}",
            out="{output}",
        )
