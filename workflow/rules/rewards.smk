"""results/preferences, results/weights, results/replies -> results/rewards: reward models and their scores."""


rule train_reward_model:
    """Train a reward model: safetensors, tokenizer, training.json. Resumes from its checkpoint in the journal."""
    input:
        unpack(plan.inputs_of("train_reward_model")),
    output:
        manifest=paths.TRAINED_WEIGHTS,
        training=paths.TRAINING,
    log:
        paths.log_of("train_reward_model", "reward_model"),
    benchmark:
        paths.timing_of("train_reward_model", "reward_model")
    wildcard_constraints:
        reward_model=one_of(plan.trained_reward_models),
    priority: 5  # the longest step of its branch
    container:
        IMAGES.serve
    threads: plan.threads
    resources:
        **MODEL_JOB,
    params:
        code=plan.code_of("train_reward_model"),
        job=plan.job_of("train_reward_model"),
        journal=paths.TRAINING_JOURNAL,
    shell:
        shell_lines.command_line(
            "train-reward-model",
            python=shell_lines.SERVE,
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
        unpack(plan.inputs_of("write_model_card")),
    output:
        paths.MODEL_CARD,
    log:
        paths.log_of("write_model_card", "reward_model"),
    wildcard_constraints:
        reward_model=one_of(plan.trained_reward_models),
    localrule: True
    container:
        IMAGES.driver
    params:
        code=plan.code_of("write_model_card"),
        job=plan.job_of("write_model_card"),
    shell:
        shell_lines.command_line(
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
        unpack(plan.inputs_of("embed_replies")),
    output:
        paths.CLOSENESS,
    log:
        paths.log_of("embed_replies", "encoder", "release"),
    benchmark:
        paths.timing_of("embed_replies", "encoder", "release")
    container:
        IMAGES.serve
    threads: plan.threads
    resources:
        **MODEL_JOB,
    params:
        code=plan.code_of("embed_replies"),
        job=plan.job_of("embed_replies"),
    shell:
        shell_lines.command_line(
            "embed-replies",
            python=shell_lines.SERVE,
            weights="{input.weights}",
            labels="{input.labels}",
            out="{output}",
            gpus="{resources.server_gpus}",
            threads="{threads}",
        )


rule score_pairs:
    """Score both replies of every Bridge pair and the labelled replies, to validate a reward model."""
    input:
        unpack(plan.inputs_of("score_pairs")),
    output:
        pairs=paths.PAIR_REWARDS,
        labelled=paths.LABELLED_REWARDS,
    log:
        paths.log_of("score_pairs", "reward_model"),
    benchmark:
        paths.timing_of("score_pairs", "reward_model")
    container:
        IMAGES.serve
    threads: plan.threads
    resources:
        **MODEL_JOB,
    params:
        code=plan.code_of("score_pairs"),
        job=plan.job_of("score_pairs"),
        journal=paths.PAIR_JOURNAL,
    shell:
        shell_lines.command_line(
            "score-pairs",
            python=shell_lines.SERVE,
            weights="{input.weights}",
            pairs="{input.pairs}",
            labels="{input.labels}",
            journal="{params.journal}",
            out="{output}",
            gpus="{resources.server_gpus}",
            threads="{threads}",
        )


use rule score_pairs as score_preferences with:
    """Score both replies of every pair of a further set of preferences."""
    input:
        unpack(plan.inputs_of("score_preferences")),
    output:
        paths.SET_REWARDS,
    log:
        paths.log_of("score_preferences", "reward_model", "source"),
    benchmark:
        paths.timing_of("score_preferences", "reward_model", "source")
    wildcard_constraints:
        source=one_of(plan.further_pairs),
    params:
        code=plan.code_of("score_pairs"),
        job=plan.job_of("score_preferences"),
        journal=paths.SET_JOURNAL,


rule score_rewards:
    """Score every reply of a batch of tutors. The human replies belong to the baselines' batch and are scored once."""
    input:
        unpack(plan.inputs_of("score_rewards")),
    output:
        paths.REWARDS,
    log:
        paths.log_of("score_rewards", "reward_model", "benchmark", "batch"),
    benchmark:
        paths.timing_of("score_rewards", "reward_model", "benchmark", "batch")
    container:
        IMAGES.serve
    threads: plan.threads
    resources:
        **MODEL_JOB,
    params:
        code=plan.code_of("score_rewards"),
        job=plan.job_of("score_rewards"),
        item_folder=paths.ITEM_FOLDER,
        journal=paths.REWARD_JOURNAL,
    shell:
        shell_lines.command_line(
            "score-rewards",
            python=shell_lines.SERVE,
            weights="{input.weights}",
            items="{params.item_folder}",
            replies="{input.replies}",
            journal="{params.journal}",
            out="{output}",
            gpus="{resources.server_gpus}",
            threads="{threads}",
        )


rule train_criteria:
    """Train one binary classifier per criterion; classify held-out dialogues and the Bridge pairs."""
    input:
        unpack(plan.inputs_of("train_criteria")),
    output:
        heldout=paths.HELDOUT,
        pairs=paths.CLASSIFIED_PAIRS,
        training=paths.CLASSIFIER_TRAINING,
    log:
        paths.log_of("train_criteria", "classifier"),
    benchmark:
        paths.timing_of("train_criteria", "classifier")
    priority: 5  # the longest step of its branch
    container:
        IMAGES.serve
    threads: plan.threads
    resources:
        **MODEL_JOB,
    params:
        code=plan.code_of("train_criteria"),
        job=plan.job_of("train_criteria"),
        journal=paths.CLASSIFIER_JOURNAL,
    shell:
        shell_lines.command_line(
            "train-criteria",
            python=shell_lines.SERVE,
            base="{input.base}",
            labels="{input.labels}",
            pairs="{input.pairs}",
            journal="{params.journal}",
            out="{output.heldout}",
            gpus="{resources.server_gpus}",
            threads="{threads}",
        )


rule classify_pairs:
    """Classify both replies of every pair of a further set of preferences."""
    input:
        unpack(plan.inputs_of("classify_pairs")),
    output:
        paths.SET_CLASSIFIED,
    log:
        paths.log_of("classify_pairs", "classifier", "source"),
    benchmark:
        paths.timing_of("classify_pairs", "classifier", "source")
    wildcard_constraints:
        source=one_of(plan.further_pairs),
    container:
        IMAGES.serve
    threads: plan.threads
    resources:
        **MODEL_JOB,
    params:
        code=plan.code_of("classify_pairs"),
        job=plan.job_of("classify_pairs"),
    shell:
        shell_lines.command_line(
            "classify-pairs",
            python=shell_lines.SERVE,
            trained="{input.trained}",
            pairs="{input.pairs}",
            out="{output}",
            gpus="{resources.server_gpus}",
            threads="{threads}",
        )
