"""results/replies, results/rewards, results/verdicts -> results/grades: what parsers, reward models and judges say."""


rule parse_replies:
    input:
        cases=items_of,
        replies="results/replies/{benchmark}/{model}.jsonl",
        cards=lambda wildcards: [
            file for file in tutor_card_files(wildcards) if file.endswith(".yaml")
        ],
    output:
        "results/grades/{benchmark}/_parsers/{model}.jsonl",
    log:
        "results/logs/parse_replies/{benchmark}/{model}.log",
    localrule: True
    container:
        config["containers"]["driver"]
    resources:
        mem_mb=2000,
        runtime=30,
    params:
        code=code_of("parse-replies"),
        tasks=tasks_of,
    shell:
        '"$DRIVER" -m maieutic parse-replies --benchmark {wildcards.benchmark} --tasks {params.tasks}'
        " --items results/items/{wildcards.benchmark} --replies {input.replies} --out {output} --log {log}"


rule grade_by_rewards:
    """A tutor's replies against the human ones, by one reward model."""
    input:
        cases=reward_items,
        replies="results/replies/{benchmark}/{model}.jsonl",
        rewards=reward_files,
        overlaps=overlap_files,
    output:
        "results/grades/{benchmark}/{reward}/{model}.jsonl",
    log:
        "results/logs/grade_by_rewards/{reward}/{benchmark}/{model}.log",
    localrule: True
    container:
        config["containers"]["driver"]
    resources:
        mem_mb=2000,
        runtime=30,
    params:
        code=code_of("grade-by-rewards"),
        job=reward_grading_job,
    shell:
        '"$DRIVER" -m maieutic grade-by-rewards --job {params.job:q}'
        " --items results/items/{wildcards.benchmark} --replies {input.replies}"
        " --rewards {input.rewards} --overlaps {input.overlaps} --out {output} --log {log}"


rule grade_verdicts:
    """A tutor's grades by one judge: its verdicts as values, and the shares and weighted scores that they make."""
    input:
        verdicts=verdict_file,
        cases=weighted_items,
        rubrics=lambda wildcards: rubric_files_of(
            reply_rubrics(wildcards.judge, wildcards.benchmark)
        ),
    output:
        "results/grades/{benchmark}/{judge}/{model}.jsonl",
    log:
        "results/logs/grade_verdicts/{benchmark}/{judge}/{model}.log",
    localrule: True
    container:
        config["containers"]["driver"]
    resources:
        mem_mb=2000,
        runtime=30,
    params:
        code=code_of("grade-verdicts"),
        job=verdict_job,
    shell:
        '"$DRIVER" -m maieutic grade-verdicts --job {params.job:q} --verdicts {input.verdicts}'
        " --items results/items/{wildcards.benchmark} --out {output} --log {log}"
