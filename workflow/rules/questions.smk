"""results/items -> results/questions: prompts for a tutor without an endpoint."""

from maieutic.plan.inputs import question_files


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
        shell_lines.command_line("write-questions", items="{input.cases}", out="{output}")


rule questions:
    """Write the prompts of every item of the run, to be answered elsewhere."""
    input:
        question_files(plan),
    localrule: True
