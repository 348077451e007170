"""Additional stages of TutorBench: tags of items and criteria, scores by tag, hard items, agreement with raters."""

from maieutic.benchmarks.tutorbench import stage as tutorbench_stage
from maieutic.judges import stage as judges_stage
from maieutic.scores import stage as scores_stage
from maieutic.validation import stage as validation_stage


rule tag_items:
    """Tag items and criteria with a served model."""
    input:
        item_files=plan.select(tutorbench_stage.pooled_items),
        weights=plan.select(tutorbench_stage.tagger_weights),
        rubrics=plan.select(tutorbench_stage.tag_rubrics),
    output:
        "results/verdicts/{tagger}/tags/{benchmark}.jsonl",
    log:
        "results/logs/tag_items/{tagger}/{benchmark}.log",
    benchmark:
        "results/benchmarks/tag_items/{tagger}/{benchmark}.tsv"
    wildcard_constraints:
        tagger=one_of(judges_with_engine(plan, plan.run.taggers, "vllm")),
    container:
        IMAGES.serve
    threads: plan.threads
    resources:
        **MODEL_JOB,
    params:
        **job("tag_items"),
        python=SERVE,
        item_folder="results/items/{benchmark}",
        pictures="results/pictures",
        journal="results/journal/tags/{tagger}/{benchmark}.jsonl",
        server_log="results/logs/serve/taggers/{tagger}/{benchmark}.log",
    shell:
        command(
            "tag-items",
            python="{params.python}",
            items="{params.item_folder}",
            weights="{input.weights}",
            pictures="{params.pictures}",
            journal="{params.journal}",
            server_log="{params.server_log}",
            out="{output}",
        )


use rule tag_items as tag_items_locally with:
    """Tag items and criteria with a hosted model. The job uses no GPU, but needs network access."""
    wildcard_constraints:
        tagger=one_of(judges_with_engine(plan, plan.run.taggers, "hosted")),
    localrule: True
    container:
        IMAGES.driver
    resources:
        mem_mb=plan.memory,
        server_gpus=0,
    params:
        code=plan.code_of("tag_items"),
        python=DRIVER,


rule vote_tags:
    """Set each item's Bloom level by a vote of the taggers, and measure their agreement (TutorBench, section 3.4)."""
    input:
        item_files=plan.select(tutorbench_stage.pooled_items),
        tags=plan.select(tutorbench_stage.tag_files),
    output:
        "results/scores/tags/{benchmark}.json",
    log:
        "results/logs/vote_tags/{benchmark}.log",
    localrule: True
    params:
        **job("vote_tags"),
        item_folder="results/items/{benchmark}",
    shell:
        command("vote-tags", items="{params.item_folder}", tags="{input.tags}", out="{output}")


rule break_down:
    """Compute a tutor's scores for each tag of items and criteria, over the pooled tasks."""
    input:
        item_files=plan.select(tutorbench_stage.pooled_items),
        grades=plan.select(scores_stage.judge_grades),
        votes=plan.select(tutorbench_stage.tag_votes),
        cards=plan.select(inputs.benchmark_cards),
    output:
        "results/scores/breakdowns/{benchmark}/{tutor}.json",
    log:
        "results/logs/break_down/{benchmark}/{tutor}.log",
    wildcard_constraints:
        benchmark=one_of(plan.pooled_benchmarks),
    localrule: True
    resources:
        mem_mb=2000,
        runtime=30,
    params:
        **job("break_down"),
        item_folder="results/items/{benchmark}",
    shell:
        command(
            "break-down",
            items="{params.item_folder}",
            grades="{input.grades}",
            votes="{input.votes}",
            out="{output}",
        )


rule filter_by_difficulty:
    """Select the hard items, which several tutors in `run.difficulty` fail (TutorBench, appendix A.1)."""
    input:
        item_files=plan.select(tutorbench_stage.pooled_items),
        grades=plan.select(tutorbench_stage.difficulty_grades),
    output:
        "results/scores/difficulty/{benchmark}.csv",
    log:
        "results/logs/filter_by_difficulty/{benchmark}.log",
    localrule: True
    params:
        **job("filter_by_difficulty"),
        item_folder="results/items/{benchmark}",
    shell:
        command(
            "filter-by-difficulty",
            items="{params.item_folder}",
            grades="{input.grades}",
            out="{output}",
        )


rule rate_judge:
    """Compare a judge's verdicts on each criterion with those of human raters (TutorBench, section 3.7)."""
    input:
        people=plan.select(validation_stage.people_labels),
        item_files=plan.select(tutorbench_stage.pooled_items),
        verdicts=plan.select(judges_stage.batch_verdicts),
    output:
        "results/validation/{judge}/raters/{benchmark}.json",
    log:
        "results/logs/rate_judge/{benchmark}/{judge}.log",
    localrule: True
    params:
        **job("rate_judge"),
        item_folder="results/items/{benchmark}",
    shell:
        command(
            "rate-judge",
            verdicts="{input.verdicts}",
            people="{input.people}",
            items="{params.item_folder}",
            out="{output}",
        )
