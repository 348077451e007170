"""results/replies, results/rewards -> results/grades: what parsers and reward models say of every reply."""


rule parse_replies:
    input:
        cases=items_of,
        replies="results/replies/{benchmark}/{model}.jsonl",
        cards=lambda wildcards: [file for file in card_files(wildcards) if file.endswith(".yaml")],
        code=code("graders/*.py"),
    output:
        "results/grades/parsed/{benchmark}/{model}.jsonl",
    log:
        "results/logs/parse_replies/{benchmark}/{model}.log",
    localrule: True
    container:
        config["containers"]["driver"]
    resources:
        mem_mb=2000,
        runtime=30,
    params:
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
        code=code("graders/rewards.py"),
    output:
        "results/grades/rewards/{reward}/{benchmark}/{model}.jsonl",
    log:
        "results/logs/grade_by_rewards/{reward}/{benchmark}/{model}.log",
    localrule: True
    container:
        config["containers"]["driver"]
    resources:
        mem_mb=2000,
        runtime=30,
    params:
        tasks=reward_tasks,
        ceiling=lambda wildcards: selection.human_reference(checked, wildcards.benchmark),
    shell:
        '"$DRIVER" -m maieutic grade-by-rewards --model {wildcards.model} --ceiling {params.ceiling}'
        " --items results/items/{wildcards.benchmark} --tasks {params.tasks} --replies {input.replies}"
        " --rewards {input.rewards} --overlaps {input.overlaps} --out {output} --log {log}"
