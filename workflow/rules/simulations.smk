"""results/items -> results/simulations: conversations with a student that a model plays. No leaderboard contains them."""

from maieutic.replies import stage as replies_stage
from maieutic.simulation import stage as simulation_stage


wildcard_constraints:
    simulation=one_of(plan.config.simulations),


# A job of two models that this run does not serve runs beside Snakemake.
ruleorder: simulate_conversations_locally > simulate_conversations
ruleorder: measure_claims_locally > measure_claims


rule simulate_conversations:
    """Run a tutor's conversations with the simulated student. A killed job resumes inside the conversations."""
    input:
        item_files=plan.select(simulation_stage.simulated_items),
        prompts=plan.select(simulation_stage.simulation_prompts),
        weights=plan.select(replies_stage.tutor_weights),
        student_weights=plan.select(simulation_stage.student_weights),
    output:
        "results/simulations/{simulation}/conversations/{tutor}.jsonl",
    log:
        "results/logs/simulate_conversations/{simulation}/{tutor}.log",
    benchmark:
        "results/benchmarks/simulate_conversations/{simulation}/{tutor}.tsv"
    wildcard_constraints:
        tutor=one_of(plan.simulated_tutors),
    container:
        IMAGES.serve
    threads: plan.threads
    resources:
        **MODEL_JOB,
    params:
        **job("simulate_conversations"),
        python=SERVE,
        journal="results/journal/simulations/{simulation}/tutors/{tutor}.jsonl",
        student_journal="results/journal/simulations/{simulation}/students/{tutor}.jsonl",
        server_logs="results/logs/serve/simulations/{simulation}/{tutor}",
    shell:
        command(
            "simulate-conversations",
            python="{params.python}",
            items="{input.item_files}",
            weights="{input.weights}",
            student_weights="{input.student_weights}",
            journal="{params.journal}",
            student_journal="{params.student_journal}",
            server_logs="{params.server_logs}",
            out="{output}",
        )


use rule simulate_conversations as simulate_conversations_locally with:
    """Simulate conversations of hosted models. The job uses no GPU, but needs network access."""
    wildcard_constraints:
        simulation=one_of(simulation_stage.hosted_simulations(plan)),
        tutor=one_of(simulation_stage.unserved_tutors(plan)),
    localrule: True
    container:
        IMAGES.driver
    resources:
        mem_mb=plan.memory,
        server_gpus=0,
    params:
        code=plan.code_of("simulate_conversations"),
        python=DRIVER,


rule measure_claims:
    """Measure how often the simulated student agrees with wrong and with right claims."""
    input:
        item_files=plan.select(simulation_stage.simulated_items),
        prompts=plan.select(simulation_stage.simulation_prompts),
        student_weights=plan.select(simulation_stage.student_weights),
    output:
        "results/simulations/{simulation}/claims.jsonl",
    log:
        "results/logs/measure_claims/{simulation}.log",
    benchmark:
        "results/benchmarks/measure_claims/{simulation}.tsv"
    container:
        IMAGES.serve
    threads: plan.threads
    resources:
        **MODEL_JOB,
    params:
        **job("measure_claims"),
        python=SERVE,
        journal="results/journal/simulations/{simulation}/claims.jsonl",
        server_logs="results/logs/serve/simulations/{simulation}/claims",
    shell:
        command(
            "measure-claims",
            python="{params.python}",
            items="{input.item_files}",
            student_weights="{input.student_weights}",
            journal="{params.journal}",
            server_logs="{params.server_logs}",
            out="{output}",
        )


use rule measure_claims as measure_claims_locally with:
    """Measure the claims of a hosted student. The job uses no GPU, but needs network access."""
    wildcard_constraints:
        simulation=one_of(simulation_stage.hosted_simulations(plan)),
    localrule: True
    container:
        IMAGES.driver
    resources:
        mem_mb=plan.memory,
        server_gpus=0,
    params:
        code=plan.code_of("measure_claims"),
        python=DRIVER,


rule score_simulation:
    """Figures of a simulation, with intervals."""
    input:
        conversations=plan.select(simulation_stage.all_conversations),
        claims="results/simulations/{simulation}/claims.jsonl",
    output:
        "results/simulations/{simulation}/scores.json",
    log:
        "results/logs/score_simulation/{simulation}.log",
    localrule: True
    params:
        **job("score_simulation"),
    shell:
        command(
            "score-simulation",
            conversations="{input.conversations}",
            claims="{input.claims}",
            out="{output}",
        )
