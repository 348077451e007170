"""results/replies, results/labels, results/preferences -> results/verdicts: what judges answer, word for word."""


rule grade_replies:
    """A judge that we serve, on a batch of tutors. It goes on from its journal."""
    input:
        cases=lambda wildcards: [
            f"results/items/{wildcards.benchmark}/{task}.jsonl" for task in judge_tasks(wildcards)
        ],
        replies=lambda wildcards: [
            f"results/replies/{wildcards.benchmark}/{tutor}.jsonl"
            for tutor in judge_batches(wildcards.benchmark)[wildcards.batch]
        ],
        weights=answering_weights,
        rubrics=reply_rubric_files,
        cards=lambda wildcards: [file for file in card_files(wildcards) if file.endswith(".yaml")],
    output:
        "results/verdicts/{model}/{benchmark}/{batch}.jsonl",
    log:
        "results/logs/grade_replies/{model}/{benchmark}/{batch}.log",
    benchmark:
        "results/benchmarks/grade_replies/{model}/{benchmark}/{batch}.tsv"
    wildcard_constraints:
        model=one_of(SERVED_JUDGES),
    container:
        config["containers"]["serve"]
    threads: lambda wildcards: needs_of(wildcards).cpus
    resources:
        **MODEL_JOB,
    params:
        code=code_of("grade-replies"),
        python='"$SERVE"',
        tasks=judge_tasks,
        settings=reply_judge_json,
        answering=answering_json,
        stop=stop_argument,
        weights=lambda wildcards: f"--weights results/weights/{answering(wildcards.model)}",
        pictures=f"--pictures {PICTURES}",
        seed=checked.run.seed,
        journal="results/journal/grades/{model}/{benchmark}/{batch}.jsonl",
        server_log="results/logs/serve/judges/{model}/{benchmark}/{batch}.log",
    shell:
        "{params.python} -m maieutic grade-replies --benchmark {wildcards.benchmark} --tasks {params.tasks}"
        " --judge {wildcards.model} --settings {params.settings:q} --answering {params.answering:q} {params.weights} {params.stop}"
        " --items results/items/{wildcards.benchmark} --replies {input.replies} {params.pictures} --seed {params.seed}"
        " --journal {params.journal} --server-log {params.server_log} --out {output} --log {log}"


use rule grade_replies as grade_replies_locally with:
    """A hosted judge: no GPU, and a compute node may have no way out."""
    input:
        cases=lambda wildcards: [
            f"results/items/{wildcards.benchmark}/{task}.jsonl" for task in judge_tasks(wildcards)
        ],
        replies=lambda wildcards: [
            f"results/replies/{wildcards.benchmark}/{tutor}.jsonl"
            for tutor in judge_batches(wildcards.benchmark)[wildcards.batch]
        ],
        rubrics=reply_rubric_files,
        cards=lambda wildcards: [file for file in card_files(wildcards) if file.endswith(".yaml")],
    wildcard_constraints:
        model=one_of(HOSTED_JUDGES),
    localrule: True
    container:
        config["containers"]["driver"]
    resources:
        mem_mb=lambda wildcards: needs_of(wildcards).mem_mb,
    params:
        code=code_of("grade-replies"),
        python='"$DRIVER"',
        weights="",


rule judge_labelled:
    """A judge that we serve, on replies that people have labelled and on the Bridge pairs: what it is worth."""
    input:
        labels=label_files,
        pairs=judge_pairs,
        weights=answering_weights,
        rubrics=label_rubric_files,
    output:
        "results/verdicts/{model}/labelled.jsonl",
    log:
        "results/logs/judge_labelled/{model}.log",
    benchmark:
        "results/benchmarks/judge_labelled/{model}.tsv"
    wildcard_constraints:
        model=one_of(SERVED_JUDGES),
    priority: 10  # a judge that cannot be read is found here first
    container:
        config["containers"]["serve"]
    threads: lambda wildcards: needs_of(wildcards).cpus
    resources:
        **MODEL_JOB,
    params:
        code=code_of("judge-labelled"),
        python='"$SERVE"',
        settings=label_judge_json,
        answering=answering_json,
        stop=stop_argument,
        weights=lambda wildcards: f"--weights results/weights/{answering(wildcards.model)}",
        labels=label_folders,
        pairs=pairs_argument,
        limit=label_limit,
        seed=checked.run.seed,
        journal="results/journal/grades/{model}/labelled.jsonl",
        server_log="results/logs/serve/judges/{model}/labelled.log",
    shell:
        "{params.python} -m maieutic judge-labelled --judge {wildcards.model} --settings {params.settings:q}"
        " --answering {params.answering:q} {params.weights} {params.stop} {params.labels} {params.pairs} {params.limit}"
        " --seed {params.seed} --journal {params.journal} --server-log {params.server_log} --out {output} --log {log}"


use rule judge_labelled as judge_labelled_locally with:
    input:
        labels=label_files,
        pairs=judge_pairs,
        rubrics=label_rubric_files,
    wildcard_constraints:
        model=one_of(HOSTED_JUDGES),
    localrule: True
    container:
        config["containers"]["driver"]
    resources:
        mem_mb=lambda wildcards: needs_of(wildcards).mem_mb,
    params:
        code=code_of("judge-labelled"),
        python='"$DRIVER"',
        weights="",


rule tag_items:
    """A model that we serve tags items and criteria."""
    input:
        cases=pooled_items,
        weights=answering_weights,
        rubrics=tag_rubrics,
    output:
        "results/verdicts/{model}/tags/{benchmark}.jsonl",
    log:
        "results/logs/tag_items/{model}/{benchmark}.log",
    benchmark:
        "results/benchmarks/tag_items/{model}/{benchmark}.tsv"
    wildcard_constraints:
        model=one_of(SERVED_TAGGERS),
    container:
        config["containers"]["serve"]
    threads: lambda wildcards: needs_of(wildcards).cpus
    resources:
        **MODEL_JOB,
    params:
        code=code_of("tag-items"),
        python='"$SERVE"',
        tasks=pooled_tasks,
        settings=tag_json,
        answering=answering_json,
        stop=stop_argument,
        weights=lambda wildcards: f"--weights results/weights/{answering(wildcards.model)}",
        pictures=f"--pictures {PICTURES}",
        seed=checked.run.seed,
        journal="results/journal/tags/{model}/{benchmark}.jsonl",
        server_log="results/logs/serve/taggers/{model}/{benchmark}.log",
    shell:
        "{params.python} -m maieutic tag-items --benchmark {wildcards.benchmark} --tasks {params.tasks}"
        " --judge {wildcards.model} --settings {params.settings:q} --answering {params.answering:q} {params.weights} {params.stop}"
        " --items results/items/{wildcards.benchmark} {params.pictures} --seed {params.seed}"
        " --journal {params.journal} --server-log {params.server_log} --out {output} --log {log}"


use rule tag_items as tag_items_locally with:
    """A hosted model: no GPU, and a compute node may have no way out."""
    input:
        cases=pooled_items,
        rubrics=tag_rubrics,
    wildcard_constraints:
        model=one_of(HOSTED_TAGGERS),
    localrule: True
    container:
        config["containers"]["driver"]
    resources:
        mem_mb=lambda wildcards: needs_of(wildcards).mem_mb,
    params:
        code=code_of("tag-items"),
        python='"$DRIVER"',
        weights="",
