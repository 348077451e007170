"""results/replies, results/labels, results/preferences -> results/verdicts: judges' raw answers."""

from maieutic.judges import stage as judges_stage
from maieutic.launch.shell_lines import judges_with_engine
from maieutic.validation import stage as validation_stage


rule judge_replies:
    """Judge the replies of a batch of tutors with a served judge. A killed job resumes from the journal."""
    input:
        item_files=plan.select(judges_stage.judged_items),
        replies=plan.select(judges_stage.judged_replies),
        weights=plan.select(judges_stage.answering_weights),
        rubrics=plan.select(judges_stage.reply_rubrics),
        cards=plan.select(inputs.benchmark_cards),
    output:
        "results/verdicts/{judge}/{benchmark}/{batch}.jsonl",
    log:
        "results/logs/judge_replies/{judge}/{benchmark}/{batch}.log",
    benchmark:
        "results/benchmarks/judge_replies/{judge}/{benchmark}/{batch}.tsv"
    wildcard_constraints:
        judge=one_of(judges_with_engine(plan, plan.run.judges, "vllm")),
    container:
        IMAGES.serve
    threads: plan.threads
    resources:
        **MODEL_JOB,
    params:
        **job("judge_replies"),
        python=SERVE,
        item_folder="results/items/{benchmark}",
        pictures="results/pictures",
        journal="results/journal/grades/{judge}/{benchmark}/{batch}.jsonl",
        server_log="results/logs/serve/judges/{judge}/{benchmark}/{batch}.log",
    shell:
        command(
            "judge-replies",
            python="{params.python}",
            items="{params.item_folder}",
            replies="{input.replies}",
            weights="{input.weights}",
            pictures="{params.pictures}",
            journal="{params.journal}",
            server_log="{params.server_log}",
            out="{output}",
        )


use rule judge_replies as judge_replies_locally with:
    """Judge the replies of a batch of tutors with a hosted judge. The job uses no GPU, but needs network access."""
    wildcard_constraints:
        judge=one_of(judges_with_engine(plan, plan.run.judges, "hosted")),
    localrule: True
    container:
        IMAGES.driver
    resources:
        mem_mb=plan.memory,
        server_gpus=0,
    params:
        code=plan.code_of("judge_replies"),
        python=DRIVER,


rule judge_labelled:
    """Judge the labelled replies and the sets of preferences with a served judge, to validate the judge."""
    input:
        labels=plan.select(judges_stage.judged_labels),
        pairs=plan.select(judges_stage.judge_pairs),
        weights=plan.select(judges_stage.answering_weights),
        rubrics=plan.select(judges_stage.labelled_rubrics),
    output:
        verdicts="results/verdicts/{judge}/labelled.jsonl",
        probes=expand(
            "results/verdicts/{{judge}}/probes/{probe}.jsonl",
            probe=judges_stage.used_probes(plan),
        ),
    log:
        "results/logs/judge_labelled/{judge}.log",
    benchmark:
        "results/benchmarks/judge_labelled/{judge}.tsv"
    wildcard_constraints:
        judge=one_of(judges_with_engine(plan, plan.run.judges, "vllm")),
    priority: 10  # start first, to detect a judge whose verdicts cannot be parsed
    container:
        IMAGES.serve
    threads: plan.threads
    resources:
        **MODEL_JOB,
    params:
        **job("judge_labelled"),
        python=SERVE,
        journal="results/journal/grades/{judge}/labelled.jsonl",
        server_log="results/logs/serve/judges/{judge}/labelled.log",
    shell:
        command(
            "judge-labelled",
            python="{params.python}",
            labels="{input.labels}",
            pairs="{input.pairs}",
            weights="{input.weights}",
            journal="{params.journal}",
            server_log="{params.server_log}",
            out="{output.verdicts}",
            probes_out="{output.probes}",
        )


use rule judge_labelled as judge_labelled_locally with:
    wildcard_constraints:
        judge=one_of(judges_with_engine(plan, plan.run.judges, "hosted")),
    localrule: True
    container:
        IMAGES.driver
    resources:
        mem_mb=plan.memory,
        server_gpus=0,
    params:
        code=plan.code_of("judge_labelled"),
        python=DRIVER,


rule judge_by_words:
    """Judge the replies of a batch of tutors with word lists."""
    input:
        item_files=plan.select(judges_stage.judged_items),
        replies=plan.select(judges_stage.judged_replies),
        rubrics=plan.select(judges_stage.reply_rubrics),
        cards=plan.select(inputs.benchmark_cards),
    output:
        "results/verdicts/{judge}/{benchmark}/{batch}.jsonl",
    log:
        "results/logs/judge_by_words/{judge}/{benchmark}/{batch}.log",
    wildcard_constraints:
        judge=one_of(plan.word_list_judges),
    localrule: True
    params:
        **job("judge_by_words"),
        item_folder="results/items/{benchmark}",
    shell:
        command(
            "judge-by-words",
            items="{params.item_folder}",
            replies="{input.replies}",
            out="{output}",
        )


rule judge_labelled_by_words:
    """Judge the labelled replies with word lists."""
    input:
        labels=plan.select(judges_stage.judged_labels),
        rubrics=plan.select(validation_stage.word_list_rubrics),
    output:
        "results/verdicts/{judge}/labelled.jsonl",
    log:
        "results/logs/judge_labelled_by_words/{judge}.log",
    wildcard_constraints:
        judge=one_of(plan.word_list_judges),
    localrule: True
    params:
        **job("judge_labelled_by_words"),
    shell:
        command("judge-labelled-by-words", labels="{input.labels}", out="{output}")


rule combine_verdicts:
    """Combine the verdicts of a panel's judges on the replies of a batch of tutors."""
    input:
        verdicts=plan.select(judges_stage.panel_verdicts),
        rubrics=plan.select(judges_stage.reply_rubrics),
    output:
        "results/verdicts/{judge}/{benchmark}/{batch}.jsonl",
    log:
        "results/logs/combine_verdicts/{judge}/{benchmark}/{batch}.log",
    wildcard_constraints:
        judge=one_of(plan.panels),
    localrule: True
    params:
        **job("combine_verdicts"),
    shell:
        command("combine-verdicts", verdicts="{input.verdicts}", out="{output}")


rule combine_labelled:
    """Combine the verdicts of a panel's judges on labelled replies and pairs."""
    input:
        verdicts=plan.select(judges_stage.panel_labelled_verdicts),
        rubrics=plan.select(judges_stage.panel_rubrics),
    output:
        "results/verdicts/{judge}/labelled.jsonl",
    log:
        "results/logs/combine_labelled/{judge}.log",
    wildcard_constraints:
        judge=one_of(plan.panels),
    localrule: True
    params:
        **job("combine_labelled"),
    shell:
        command("combine-labelled", verdicts="{input.verdicts}", out="{output}")
