"""results/preferences, results/weights, results/replies -> results/rewards: reward models and what they score."""


rule train_reward_model:
    """Safetensors, tokenizer, training.json. A killed training goes on from its checkpoint in the journal."""
    input:
        pairs=lambda wildcards: expand(
            "results/preferences/{source}/pairs.jsonl",
            source=checks.sources_of(checked.models[wildcards.model]),
        ),
        base=lambda wildcards: f"results/weights/{base_of(wildcards.model)}/manifest.json",
        prompts=reward_prompt,
    output:
        manifest="results/rewards/models/{model}/manifest.json",
        training="results/rewards/models/{model}/training.json",
    log:
        "results/logs/train_reward_model/{model}.log",
    benchmark:
        "results/benchmarks/train_reward_model/{model}.tsv"
    wildcard_constraints:
        model=one_of(TRAINED),
    container:
        config["containers"]["serve"]
    threads: lambda wildcards: needs_of(wildcards).cpus
    resources:
        **MODEL_JOB,
    params:
        code=code_of("train-reward-model"),
        settings=training_json,
        base=subpath(input.base, parent=True),
        folder=subpath(output.manifest, parent=True),
        journal="results/journal/training/{model}",
    shell:
        '"$SERVE" -m maieutic train-reward-model --model {wildcards.model} --settings {params.settings:q}'
        " --base {params.base} --preferences results/preferences --journal {params.journal} --out {params.folder}"
        " --gpus {resources.server_gpus} --threads {threads} --log {log}"


rule write_model_card:
    """README.md beside the weights."""
    input:
        training="results/rewards/models/{model}/training.json",
        pairs=f"results/preferences/{TEST_SOURCE}/pairs.jsonl",
        rewards="results/rewards/pairs/{model}.jsonl",
        counts=lambda wildcards: expand(
            "results/preferences/{source}/counts.json",
            source=checks.sources_of(checked.models[wildcards.model]),
        ),
    output:
        "results/rewards/models/{model}/README.md",
    log:
        "results/logs/write_model_card/{model}.log",
    wildcard_constraints:
        model=one_of(TRAINED),
    localrule: True
    container:
        config["containers"]["driver"]
    params:
        code=code_of("write-model-card", files="rewards/card.*"),
        resamples=checked.report.resamples,
        seed=checked.run.seed,
    shell:
        '"$DRIVER" -m maieutic write-model-card --model {wildcards.model} --training {input.training}'
        " --pairs {input.pairs} --rewards {input.rewards} --counts {input.counts}"
        " --resamples {params.resamples} --seed {params.seed} --out {output} --log {log}"


rule score_pairs:
    """Both replies of every Bridge pair, and the labelled replies: what a reward model is worth."""
    input:
        manifest=reward_weights,
        pairs=f"results/preferences/{TEST_SOURCE}/pairs.jsonl",
        labels=labels_of(REWARD_RELEASE),
        prompts=reward_prompt,
    output:
        pairs="results/rewards/pairs/{model}.jsonl",
        labelled="results/rewards/labelled/{model}.jsonl",
    log:
        "results/logs/score_pairs/{model}.log",
    benchmark:
        "results/benchmarks/score_pairs/{model}.tsv"
    wildcard_constraints:
        model=one_of(REWARD_MODELS),
    container:
        config["containers"]["serve"]
    threads: lambda wildcards: needs_of(wildcards).cpus
    resources:
        **MODEL_JOB,
    params:
        code=code_of("score-pairs"),
        settings=scoring_json,
        weights=subpath(input.manifest, parent=True),
        labels=labels_folder,
        journal="results/journal/rewards/{model}/pairs.jsonl",
    shell:
        '"$SERVE" -m maieutic score-pairs --model {wildcards.model} --settings {params.settings:q}'
        " --weights {params.weights} --pairs {input.pairs} --labels {params.labels} --journal {params.journal}"
        " --out {output.pairs} --labels-out {output.labelled}"
        " --gpus {resources.server_gpus} --threads {threads} --log {log}"


rule score_rewards:
    """Every reply of a batch of tutors. The human replies are a tutor of the baselines' batch: scored once."""
    input:
        manifest=reward_weights,
        cases=reward_items,
        replies=lambda wildcards: [
            f"results/replies/{wildcards.benchmark}/{tutor}.jsonl"
            for tutor in reward_batches(wildcards.benchmark)[wildcards.batch]
        ],
        prompts=reward_prompt,
    output:
        "results/rewards/replies/{model}/{benchmark}/{batch}.jsonl",
    log:
        "results/logs/score_rewards/{model}/{benchmark}/{batch}.log",
    benchmark:
        "results/benchmarks/score_rewards/{model}/{benchmark}/{batch}.tsv"
    wildcard_constraints:
        model=one_of(REWARD_MODELS),
    container:
        config["containers"]["serve"]
    threads: lambda wildcards: needs_of(wildcards).cpus
    resources:
        **MODEL_JOB,
    params:
        code=code_of("score-rewards"),
        settings=scoring_json,
        weights=subpath(input.manifest, parent=True),
        tasks=reward_tasks,
        journal="results/journal/rewards/{model}/{benchmark}/{batch}.jsonl",
    shell:
        '"$SERVE" -m maieutic score-rewards --model {wildcards.model} --settings {params.settings:q}'
        " --weights {params.weights} --items results/items/{wildcards.benchmark} --tasks {params.tasks}"
        " --replies {input.replies} --journal {params.journal} --out {output}"
        " --gpus {resources.server_gpus} --threads {threads} --log {log}"


rule train_criteria:
    """Binary classifiers, one a criterion: their say on held-out dialogues and on the Bridge pairs."""
    input:
        base=lambda wildcards: f"results/weights/{base_of(wildcards.model)}/manifest.json",
        labels="results/datasets/mrbench.source",
        pairs=f"results/preferences/{TEST_SOURCE}/pairs.jsonl",
    output:
        heldout="results/rewards/criteria/{model}/heldout.jsonl",
        pairs="results/rewards/criteria/{model}/bridge.jsonl",
        training="results/rewards/criteria/{model}/training.json",
    log:
        "results/logs/train_criteria/{model}.log",
    benchmark:
        "results/benchmarks/train_criteria/{model}.tsv"
    wildcard_constraints:
        model=one_of(CLASSIFIERS),
    container:
        config["containers"]["serve"]
    threads: lambda wildcards: needs_of(wildcards).cpus
    resources:
        **MODEL_JOB,
    params:
        code=code_of("train-criteria"),
        settings=training_json,
        form=checked.datasets["mrbench"].format if "mrbench" in checked.datasets else "json",
        base=subpath(input.base, parent=True),
        folder=subpath(output.heldout, parent=True),
        journal="results/journal/training/{model}",
    shell:
        '"$SERVE" -m maieutic train-criteria --model {wildcards.model} --settings {params.settings:q}'
        " --base {params.base} --labels {input.labels} --format {params.form} --pairs {input.pairs}"
        " --journal {params.journal} --out {params.folder}"
        " --gpus {resources.server_gpus} --threads {threads} --log {log}"
