"""results/replies, results/rewards, results/verdicts -> results/grades: grades by parsers, reward models and judges."""

from maieutic.judges import stage as judges_stage
from maieutic.rewards import stage as rewards_stage


rule parse_replies:
    input:
        item_files=plan.select(inputs.tutor_items),
        replies="results/replies/{benchmark}/{tutor}.jsonl",
        cards=plan.select(inputs.tutor_cards),
    output:
        "results/grades/{benchmark}/_parsers/{tutor}.jsonl",
    log:
        "results/logs/parse_replies/{benchmark}/{tutor}.log",
    localrule: True
    resources:
        mem_mb=2000,
        runtime=30,
    params:
        **job("parse_replies"),
        item_folder="results/items/{benchmark}",
    shell:
        command(
            "parse-replies",
            items="{params.item_folder}",
            replies="{input.replies}",
            out="{output}",
        )


rule grade_by_rewards:
    """Compare a tutor's replies with human replies by the scores of one reward model."""
    input:
        item_files=plan.select(rewards_stage.rewarded_items),
        replies="results/replies/{benchmark}/{tutor}.jsonl",
        rewards=plan.select(rewards_stage.tutor_rewards),
        overlaps=plan.select(rewards_stage.training_overlaps),
    output:
        "results/grades/{benchmark}/{reward_model}/{tutor}.jsonl",
    log:
        "results/logs/grade_by_rewards/{reward_model}/{benchmark}/{tutor}.log",
    wildcard_constraints:
        reward_model=one_of(plan.run.reward_models),
    localrule: True
    resources:
        mem_mb=2000,
        runtime=30,
    params:
        **job("grade_by_rewards"),
        item_folder="results/items/{benchmark}",
    shell:
        command(
            "grade-by-rewards",
            items="{params.item_folder}",
            replies="{input.replies}",
            rewards="{input.rewards}",
            overlaps="{input.overlaps}",
            out="{output}",
        )


rule grade_verdicts:
    """Turn one judge's verdicts on a tutor's replies into grades, shares and weighted scores."""
    input:
        verdicts=plan.select(judges_stage.tutor_verdicts),
        item_files=plan.select(judges_stage.weighted_items),
        rubrics=plan.select(judges_stage.reply_rubrics),
    output:
        "results/grades/{benchmark}/{judge}/{tutor}.jsonl",
    log:
        "results/logs/grade_verdicts/{benchmark}/{judge}/{tutor}.log",
    localrule: True
    resources:
        mem_mb=2000,
        runtime=30,
    params:
        **job("grade_verdicts"),
        item_folder="results/items/{benchmark}",
    shell:
        command(
            "grade-verdicts",
            verdicts="{input.verdicts}",
            items="{params.item_folder}",
            out="{output}",
        )
