"""results/replies, results/rewards, results/verdicts -> results/grades: grades by parsers, reward models and judges."""

from maieutic.judges import stage as judges_stage
from maieutic.replies import stage as replies_stage
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


rule ask_reader:
    """Ask a served model about the replies that the rules did not understand (`run.reader`)."""
    input:
        item_files=plan.select(inputs.tutor_items),
        replies="results/replies/{benchmark}/{tutor}.jsonl",
        grades="results/grades/{benchmark}/_parsers/{tutor}.jsonl",
        weights=plan.select(replies_stage.reader_weights),
    output:
        "results/readings/{reader}/{benchmark}/{tutor}.jsonl",
    log:
        "results/logs/ask_reader/{reader}/{benchmark}/{tutor}.log",
    benchmark:
        "results/benchmarks/ask_reader/{reader}/{benchmark}/{tutor}.tsv"
    wildcard_constraints:
        reader=one_of(replies_stage.readers(plan, "vllm")),
    container:
        IMAGES.serve
    threads: plan.threads
    resources:
        **MODEL_JOB,
    params:
        **job("ask_reader"),
        python=SERVE,
        item_folder="results/items/{benchmark}",
        journal="results/journal/readings/{reader}/{benchmark}/{tutor}.jsonl",
        server_log="results/logs/serve/readings/{reader}/{benchmark}/{tutor}.log",
    shell:
        command(
            "ask-reader",
            python="{params.python}",
            items="{params.item_folder}",
            replies="{input.replies}",
            grades="{input.grades}",
            weights="{input.weights}",
            journal="{params.journal}",
            server_log="{params.server_log}",
            out="{output}",
        )


use rule ask_reader as ask_reader_locally with:
    """Ask a hosted model about the replies that the rules did not understand."""
    wildcard_constraints:
        reader=one_of(replies_stage.readers(plan, "hosted")),
    localrule: True
    container:
        IMAGES.driver
    resources:
        mem_mb=plan.memory,
        server_gpus=0,
    params:
        code=plan.code_of("ask_reader"),
        python=DRIVER,


rule grade_readings:
    """Grade a tutor's replies by the rules and, where they did not understand, by a model's readings."""
    input:
        item_files=plan.select(inputs.tutor_items),
        replies="results/replies/{benchmark}/{tutor}.jsonl",
        grades="results/grades/{benchmark}/_parsers/{tutor}.jsonl",
        readings="results/readings/{reader}/{benchmark}/{tutor}.jsonl",
    output:
        "results/grades/{benchmark}/_readers/{reader}/{tutor}.jsonl",
    log:
        "results/logs/grade_readings/{reader}/{benchmark}/{tutor}.log",
    localrule: True
    resources:
        mem_mb=2000,
        runtime=30,
    params:
        **job("grade_readings"),
        item_folder="results/items/{benchmark}",
    shell:
        command(
            "grade-readings",
            items="{params.item_folder}",
            replies="{input.replies}",
            grades="{input.grades}",
            readings="{input.readings}",
            out="{output}",
        )
