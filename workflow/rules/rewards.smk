"""results/preferences, results/weights, results/replies -> results/rewards: reward models and their scores."""

from maieutic.rewards import stage as rewards_stage


rule train_reward_model:
    """Train a reward model, and write its weights, tokenizer and training.json. A killed job resumes."""
    input:
        pairs=plan.select(rewards_stage.training_pairs),
        base=plan.select(rewards_stage.reward_model_base),
        prompts=plan.select(rewards_stage.reward_model_prompt),
    output:
        manifest="results/rewards/models/{reward_model}/manifest.json",
        training="results/rewards/models/{reward_model}/training.json",
    log:
        "results/logs/train_reward_model/{reward_model}.log",
    benchmark:
        "results/benchmarks/train_reward_model/{reward_model}.tsv"
    wildcard_constraints:
        reward_model=one_of(plan.trained_reward_models),
    priority: 5  # start early, since training takes long
    container:
        IMAGES.serve
    threads: plan.threads
    resources:
        **MODEL_JOB,
    params:
        **job("train_reward_model"),
        journal="results/journal/training/{reward_model}",
    shell:
        command(
            "train-reward-model",
            python=SERVE,
            base="{input.base}",
            pairs="{input.pairs}",
            journal="{params.journal}",
            out="{output.manifest}",
            gpus="{resources.server_gpus}",
            threads="{threads}",
        )


rule write_model_card:
    """Write the model card, README.md, beside the weights."""
    input:
        training="results/rewards/models/{reward_model}/training.json",
        pairs=plan.select(inputs.leading_pairs),
        rewards="results/rewards/pairs/{reward_model}.jsonl",
        counts=plan.select(rewards_stage.training_pair_counts),
    output:
        "results/rewards/models/{reward_model}/README.md",
    log:
        "results/logs/write_model_card/{reward_model}.log",
    wildcard_constraints:
        reward_model=one_of(plan.trained_reward_models),
    localrule: True
    params:
        **job("write_model_card"),
    shell:
        command(
            "write-model-card",
            training="{input.training}",
            pairs="{input.pairs}",
            rewards="{input.rewards}",
            counts="{input.counts}",
            out="{output}",
        )


rule embed_replies:
    """Measure the similarity of labelled replies to their dialogues with a sentence encoder."""
    input:
        weights="results/weights/{encoder}/manifest.json",
        labels=[
            "results/labels/{release}/items.jsonl",
            "results/labels/{release}/replies.jsonl",
            "results/labels/{release}/labels.jsonl",
            "results/labels/{release}/about.json",
        ],
    output:
        "results/rewards/closeness/{encoder}/{release}.jsonl",
    log:
        "results/logs/embed_replies/{encoder}/{release}.log",
    benchmark:
        "results/benchmarks/embed_replies/{encoder}/{release}.tsv"
    container:
        IMAGES.serve
    threads: plan.threads
    resources:
        **MODEL_JOB,
    params:
        **job("embed_replies"),
    shell:
        command(
            "embed-replies",
            python=SERVE,
            weights="{input.weights}",
            labels="{input.labels}",
            out="{output}",
            gpus="{resources.server_gpus}",
            threads="{threads}",
        )


rule score_pairs:
    """Score both replies of each pair in the leading set of preferences, and the labelled replies, for validation."""
    input:
        weights=plan.select(rewards_stage.reward_model_weights),
        pairs=plan.select(inputs.leading_pairs),
        labels=plan.select(rewards_stage.reward_labels),
        prompts=plan.select(rewards_stage.reward_model_prompt),
    output:
        pairs="results/rewards/pairs/{reward_model}.jsonl",
        labelled="results/rewards/labelled/{reward_model}.jsonl",
    log:
        "results/logs/score_pairs/{reward_model}.log",
    benchmark:
        "results/benchmarks/score_pairs/{reward_model}.tsv"
    container:
        IMAGES.serve
    threads: plan.threads
    resources:
        **MODEL_JOB,
    params:
        **job("score_pairs"),
        journal="results/journal/rewards/{reward_model}/pairs.jsonl",
    shell:
        command(
            "score-pairs",
            python=SERVE,
            weights="{input.weights}",
            pairs="{input.pairs}",
            labels="{input.labels}",
            journal="{params.journal}",
            out="{output}",
            gpus="{resources.server_gpus}",
            threads="{threads}",
        )


rule choose_reward_model:
    """Choose the run's leading reward model on half of the leading set of preferences."""
    input:
        rewards=plan.select(rewards_stage.pair_rewards),
    output:
        "results/rewards/leading_reward_model.json",
    log:
        "results/logs/choose_reward_model.log",
    localrule: True
    params:
        **job("choose_reward_model"),
    shell:
        command("choose-reward-model", rewards="{input.rewards}", out="{output}")


rule check_scorer:
    """Compare a reward model's float32 scores with the scores that its paper prints for stated replies."""
    input:
        weights=plan.select(rewards_stage.reward_model_weights),
        scores=plan.select(rewards_stage.published_scores_file),
        prompts=plan.select(rewards_stage.reward_model_prompt),
    output:
        "results/rewards/published_scores/{reward_model}.json",
    log:
        "results/logs/check_scorer/{reward_model}.log",
    benchmark:
        "results/benchmarks/check_scorer/{reward_model}.tsv"
    wildcard_constraints:
        reward_model=one_of(plan.models_with_published_scores),
    container:
        IMAGES.serve
    threads: plan.threads
    resources:
        **MODEL_JOB,
    params:
        **job("check_scorer"),
        journal="results/journal/rewards/{reward_model}/published_scores.jsonl",
    shell:
        command(
            "check-scorer",
            python=SERVE,
            weights="{input.weights}",
            scores="{input.scores}",
            journal="{params.journal}",
            out="{output}",
            gpus="{resources.server_gpus}",
            threads="{threads}",
        )


use rule score_pairs as score_preferences with:
    """Score both replies of each pair in a further set of preferences."""
    input:
        weights=plan.select(rewards_stage.reward_model_weights),
        pairs="results/preferences/{source}/pairs.jsonl",
        labels=[],
        prompts=plan.select(rewards_stage.reward_model_prompt),
    output:
        "results/rewards/preferences/{reward_model}/{source}.jsonl",
    log:
        "results/logs/score_preferences/{reward_model}/{source}.log",
    benchmark:
        "results/benchmarks/score_preferences/{reward_model}/{source}.tsv"
    wildcard_constraints:
        source=one_of(plan.further_pairs),
    params:
        **job("score_pairs", "score_preferences"),
        journal="results/journal/rewards/{reward_model}/preferences/{source}.jsonl",


rule score_rewards:
    """Score all replies of a batch of tutors. Human replies are in the batch of baselines, so they are scored once."""
    input:
        weights=plan.select(rewards_stage.reward_model_weights),
        item_files=plan.select(rewards_stage.rewarded_items),
        replies=plan.select(rewards_stage.batch_of_replies),
        prompts=plan.select(rewards_stage.reward_model_prompt),
    output:
        "results/rewards/replies/{reward_model}/{benchmark}/{batch}.jsonl",
    log:
        "results/logs/score_rewards/{reward_model}/{benchmark}/{batch}.log",
    benchmark:
        "results/benchmarks/score_rewards/{reward_model}/{benchmark}/{batch}.tsv"
    container:
        IMAGES.serve
    threads: plan.threads
    resources:
        **MODEL_JOB,
    params:
        **job("score_rewards"),
        item_folder="results/items/{benchmark}",
        journal="results/journal/rewards/{reward_model}/{benchmark}/{batch}.jsonl",
    shell:
        command(
            "score-rewards",
            python=SERVE,
            weights="{input.weights}",
            items="{params.item_folder}",
            replies="{input.replies}",
            journal="{params.journal}",
            out="{output}",
            gpus="{resources.server_gpus}",
            threads="{threads}",
        )


rule train_criteria:
    """Train one binary classifier per criterion, and classify held-out replies and the leading set of preferences."""
    input:
        base=plan.select(rewards_stage.classifier_base),
        labels=plan.select(rewards_stage.classifier_labels),
        pairs=plan.select(inputs.leading_pairs),
    output:
        heldout="results/rewards/criteria/{classifier}/heldout.jsonl",
        pairs="results/rewards/criteria/{classifier}/bridge.jsonl",
        training="results/rewards/criteria/{classifier}/training.json",
    log:
        "results/logs/train_criteria/{classifier}.log",
    benchmark:
        "results/benchmarks/train_criteria/{classifier}.tsv"
    priority: 5  # start early, since training takes long
    container:
        IMAGES.serve
    threads: plan.threads
    resources:
        **MODEL_JOB,
    params:
        **job("train_criteria"),
        journal="results/journal/training/{classifier}",
    shell:
        command(
            "train-criteria",
            python=SERVE,
            base="{input.base}",
            labels="{input.labels}",
            pairs="{input.pairs}",
            journal="{params.journal}",
            out="{output.heldout}",
            gpus="{resources.server_gpus}",
            threads="{threads}",
        )


rule classify_pairs:
    """Classify both replies of each pair in a further set of preferences."""
    input:
        trained="results/rewards/criteria/{classifier}/training.json",
        pairs="results/preferences/{source}/pairs.jsonl",
    output:
        "results/rewards/criteria/{classifier}/preferences/{source}.jsonl",
    log:
        "results/logs/classify_pairs/{classifier}/{source}.log",
    benchmark:
        "results/benchmarks/classify_pairs/{classifier}/{source}.tsv"
    wildcard_constraints:
        source=one_of(plan.further_pairs),
    container:
        IMAGES.serve
    threads: plan.threads
    resources:
        **MODEL_JOB,
    params:
        **job("classify_pairs"),
    shell:
        command(
            "classify-pairs",
            python=SERVE,
            trained="{input.trained}",
            pairs="{input.pairs}",
            out="{output}",
            gpus="{resources.server_gpus}",
            threads="{threads}",
        )
