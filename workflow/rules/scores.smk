"""results/items, results/grades -> results/scores: every number with its interval."""


rule score_replies:
    input:
        cases=items_of,
        grades="results/grades/parsed/{benchmark}/{model}.jsonl",
        rewards=reward_grades,
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
        graders=checked.run.reward_models,
        resamples=checked.report.resamples,
        seed=checked.run.seed,
    shell:
        '"$DRIVER" -m maieutic score-replies --benchmark {wildcards.benchmark} --tasks {params.tasks}'
        " --model {wildcards.model} --items results/items/{wildcards.benchmark} --grades {input.grades}"
        " --rewards {input.rewards} --graders {params.graders}"
        " --resamples {params.resamples} --seed {params.seed} --out {output} --log {log}"


rule validate_reward_model:
    """A reward model on the Bridge pairs: accuracy, margin, what length alone would say."""
    input:
        pairs=f"results/preferences/{TEST_SOURCE}/pairs.jsonl",
        rewards="results/rewards/pairs/{model}.jsonl",
        code=code("rewards/validation.py", "stats.py"),
    output:
        "results/scores/bridge_pairs/{model}.json",
    log:
        "results/logs/validate_reward_model/{model}.log",
    wildcard_constraints:
        model=one_of(REWARD_MODELS),
    localrule: True
    container:
        config["containers"]["driver"]
    params:
        resamples=checked.report.resamples,
        seed=checked.run.seed,
    shell:
        '"$DRIVER" -m maieutic validate-reward-model --model {wildcards.model} --pairs {input.pairs}'
        " --rewards {input.rewards} --resamples {params.resamples} --seed {params.seed} --out {output} --log {log}"


rule validate_criteria:
    """Criteria classifiers on held-out dialogues and on the Bridge pairs, alone and together."""
    input:
        pairs=f"results/preferences/{TEST_SOURCE}/pairs.jsonl",
        heldout="results/rewards/criteria/{model}/heldout.jsonl",
        bridge="results/rewards/criteria/{model}/bridge.jsonl",
        code=code("rewards/validation.py", "stats.py"),
    output:
        "results/scores/bridge_pairs/{model}.json",
    log:
        "results/logs/validate_criteria/{model}.log",
    wildcard_constraints:
        model=one_of(CLASSIFIERS),
    localrule: True
    container:
        config["containers"]["driver"]
    params:
        resamples=checked.report.resamples,
        seed=checked.run.seed,
    shell:
        '"$DRIVER" -m maieutic validate-criteria --model {wildcards.model} --pairs {input.pairs}'
        " --heldout {input.heldout} --bridge {input.bridge}"
        " --resamples {params.resamples} --seed {params.seed} --out {output} --log {log}"
