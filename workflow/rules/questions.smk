"""results/items -> results/questions: prompts for a tutor without an endpoint."""

from maieutic.replies import stage as replies_stage


rule write_questions:
    input:
        item_files="results/items/{benchmark}/{task}.jsonl",
        cards=plan.select(replies_stage.task_card_and_prompts),
    output:
        "results/questions/{benchmark}/{task}.jsonl",
    log:
        "results/logs/write_questions/{benchmark}/{task}.log",
    localrule: True
    params:
        **job("write_questions"),
    shell:
        command("write-questions", items="{input.item_files}", out="{output}")


rule questions:
    """Write the prompts of all items of the run, for tutors that are asked outside the run."""
    input:
        plan.select(replies_stage.question_files),
    localrule: True
