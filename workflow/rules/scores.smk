"""results/items, results/grades, results/verdicts -> results/scores: scores with confidence intervals."""

from maieutic.scores import stage as scores_stage
from maieutic.validation import stage as validation_stage


rule score_replies:
    input:
        item_files=plan.select(inputs.tutor_items),
        grades=plan.select(scores_stage.all_grades),
        leader=plan.select(scores_stage.leading_graders),
        cards=plan.select(inputs.tutor_cards),
    output:
        "results/scores/{benchmark}/{tutor}.json",
    log:
        "results/logs/score_replies/{benchmark}/{tutor}.log",
    localrule: True
    resources:
        mem_mb=2000,
        runtime=30,
    params:
        **job("score_replies"),
        item_folder="results/items/{benchmark}",
    shell:
        command(
            "score-replies",
            items="{params.item_folder}",
            grades="{input.grades}",
            leader="{input.leader}",
            out="{output}",
        )


rule compare_tutors:
    """Compute the paired difference between each two tutors of the run, on the items that both tutors answered."""
    input:
        item_files=plan.select(inputs.benchmark_items),
        grades=plan.select(scores_stage.compared_grades),
        leader=plan.select(scores_stage.leading_graders),
        cards=plan.select(inputs.benchmark_cards),
    output:
        "results/scores/differences/{benchmark}.json",
    log:
        "results/logs/compare_tutors/{benchmark}.log",
    localrule: True
    resources:
        mem_mb=4000,
        runtime=60,
    params:
        **job("compare_tutors"),
        item_folder="results/items/{benchmark}",
    shell:
        command(
            "compare-tutors",
            items="{params.item_folder}",
            grades="{input.grades}",
            leader="{input.leader}",
            out="{output}",
        )


rule bound_means:
    """Bound the headline metrics of all items from the asked ones, for a run that stops when it knows enough."""
    input:
        item_files=plan.select(inputs.benchmark_items),
        sources=plan.select(scores_stage.compared_sources),
        pictures=plan.select(scores_stage.compared_pictures),
        grades=plan.select(scores_stage.compared_grades),
        leader=plan.select(scores_stage.leading_graders),
        cards=plan.select(inputs.benchmark_cards),
    output:
        "results/scores/bounds/{benchmark}.jsonl",
    log:
        "results/logs/bound_means/{benchmark}.log",
    localrule: True
    resources:
        mem_mb=4000,
        runtime=60,
    params:
        **job("bound_means"),
        item_folder="results/items/{benchmark}",
    shell:
        command(
            "bound-means",
            items="{params.item_folder}",
            sources="{input.sources}",
            pictures="{input.pictures}",
            grades="{input.grades}",
            leader="{input.leader}",
            out="{output}",
        )


rule score_labels:
    """Compute the DAMR (desired annotation match rate) from human labels, by tutor, dimension and subset."""
    input:
        labels=[
            "results/labels/{release}/items.jsonl",
            "results/labels/{release}/replies.jsonl",
            "results/labels/{release}/labels.jsonl",
            "results/labels/{release}/about.json",
        ],
        embedded=plan.select(validation_stage.closeness_files),
    output:
        "results/scores/labels/{release}.json",
    log:
        "results/logs/score_labels/{release}.log",
    localrule: True
    params:
        **job("score_labels"),
    shell:
        command(
            "score-labels", labels="{input.labels}", embedded="{input.embedded}", out="{output}"
        )
