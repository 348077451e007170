"""results/items, results/grades -> results/scores: every number with its interval."""


rule score_replies:
    input:
        cases=items_of,
        grades="results/grades/parsed/{benchmark}/{model}.jsonl",
        cards=lambda wildcards: [file for file in card_files(wildcards) if file.endswith(".yaml")],
        code=code("metrics.py", "score.py", "stats.py"),
    output:
        "results/scores/{benchmark}/{model}.json",
    log:
        "results/logs/score_replies/{benchmark}/{model}.log",
    localrule: True
    container:
        config["containers"]["driver"]
    resources:
        mem_mb=2000,
        runtime=30,
    params:
        tasks=tasks_of,
        resamples=checked.report.resamples,
        seed=checked.run.seed,
    shell:
        '"$DRIVER" -m maieutic score-replies --benchmark {wildcards.benchmark} --tasks {params.tasks}'
        " --model {wildcards.model} --items results/items/{wildcards.benchmark} --grades {input.grades}"
        " --resamples {params.resamples} --seed {params.seed} --out {output} --log {log}"
