"""results/items, results/replies -> results/grades: what the parsers read in every reply."""


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
