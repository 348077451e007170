"""results/items -> results/questions: what there is to answer, for a tutor that is no endpoint."""

from maieutic.plan.inputs import all_questions


rule write_questions:
    input:
        unpack(plan.inputs_of("write_questions")),
    output:
        paths.QUESTIONS,
    log:
        paths.log_of("write_questions", "benchmark", "task"),
    localrule: True
    container:
        IMAGES.driver
    params:
        code=plan.code_of("write_questions"),
        job=plan.job_of("write_questions"),
    shell:
        lines.command("write-questions", items="{input.cases}", out="{output}")


rule questions:
    """The prompts of every item of the run, to be answered elsewhere."""
    input:
        all_questions(plan),
    localrule: True
