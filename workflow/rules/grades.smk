"""results/replies, results/rewards, results/verdicts -> results/grades: what parsers, reward models and judges say."""


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
        lines.command(
            "parse-replies",
            items="{params.item_folder}",
            replies="{input.replies}",
            out="{output}",
        )


rule grade_by_rewards:
    """A tutor's replies against the human ones, by one reward model."""
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
        lines.command(
            "grade-by-rewards",
            items="{params.item_folder}",
            replies="{input.replies}",
            rewards="{input.rewards}",
            overlaps="{input.overlaps}",
            out="{output}",
        )


rule grade_verdicts:
    """A tutor's grades by one judge: its verdicts as values, and the shares and weighted scores that they make."""
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
        lines.command(
            "grade-verdicts",
            verdicts="{input.verdicts}",
            items="{params.item_folder}",
            out="{output}",
        )
