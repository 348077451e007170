"""results/items, results/grades -> results/scores: every number with its interval."""


rule score_replies:
    input:
        cases=items_of,
        grades="results/grades/parsed/{benchmark}/{model}.jsonl",
        rewards=reward_grades,
        judgements=judge_grades,
        rubrics=grading_rubrics,
        cards=lambda wildcards: [file for file in card_files(wildcards) if file.endswith(".yaml")],
        code=code("graders/judges.py", "metrics.py", "score.py", "stats.py"),
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
        judges=judges_of,
        judged=judged_flag,
        judging=judging_json,
        resamples=checked.report.resamples,
        seed=checked.run.seed,
    shell:
        '"$DRIVER" -m maieutic score-replies --benchmark {wildcards.benchmark} --tasks {params.tasks}'
        " --model {wildcards.model} --items results/items/{wildcards.benchmark} --grades {input.grades}"
        " --rewards {input.rewards} --graders {params.graders}"
        " --judgements {input.judgements} --judges {params.judges} {params.judged} --judging {params.judging:q}"
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


rule score_labels:
    """What people say of the labelled tutors: DAMR by tutor, dimension and subset."""
    input:
        labels=lambda wildcards: labels_of(wildcards.release),
        code=code("datasets/mrbench.py", "judges/trust.py", "judges/validation.py", "stats.py"),
    output:
        "results/scores/labels/{release}.json",
    log:
        "results/logs/score_labels/{release}.log",
    localrule: True
    container:
        config["containers"]["driver"]
    params:
        folder=labels_folder,
        resamples=checked.report.resamples,
        seed=checked.run.seed,
    shell:
        '"$DRIVER" -m maieutic score-labels --release {wildcards.release} --labels {params.folder}'
        " --resamples {params.resamples} --seed {params.seed} --out {output} --log {log}"


rule validate_judge:
    """A judge against people: on every labelled release, and on the Bridge pairs in both orders."""
    input:
        labels=label_files,
        pairs=judge_pairs,
        judgements="results/grades/labelled/{model}.jsonl",
        code=trust_code(),
    output:
        trust="results/scores/trust/{model}.json",
        pairs="results/scores/bridge_pairs/{model}.json",
    log:
        "results/logs/validate_judge/{model}.log",
    wildcard_constraints:
        model=one_of(JUDGES),
    localrule: True
    container:
        config["containers"]["driver"]
    params:
        labels=label_folders,
        pairs=pairs_argument,
        resamples=checked.report.resamples,
        seed=checked.run.seed,
    shell:
        '"$DRIVER" -m maieutic validate-judge --judge {wildcards.model} --judgements {input.judgements}'
        " {params.labels} {params.pairs} --resamples {params.resamples} --seed {params.seed}"
        " --out {output.trust} --pairs-out {output.pairs} --log {log}"


rule validate_reward_on_labels:
    """A reward model's scalars against the labels of people."""
    input:
        labels=labels_of(REWARD_RELEASE),
        rewards="results/rewards/labelled/{model}.jsonl",
        code=trust_code(),
    output:
        "results/scores/trust/{model}.json",
    log:
        "results/logs/validate_reward_on_labels/{model}.log",
    wildcard_constraints:
        model=one_of(REWARD_MODELS),
    localrule: True
    container:
        config["containers"]["driver"]
    params:
        labels=labels_folder,
        seen=lambda wildcards: (
            "--seen"
            if LABEL_SOURCES[REWARD_RELEASE].seen_by
            in checks.sources_of(checked.models[wildcards.model])
            else ""
        ),
        resamples=checked.report.resamples,
        seed=checked.run.seed,
    shell:
        '"$DRIVER" -m maieutic validate-reward-on-labels --model {wildcards.model} --labels {params.labels}'
        " --rewards {input.rewards} {params.seen} --resamples {params.resamples} --seed {params.seed}"
        " --out {output} --log {log}"


rule validate_criteria_on_labels:
    """Criteria classifiers against the labels of the replies that were held out."""
    input:
        labels=labels_of("mrbench"),
        heldout="results/rewards/criteria/{model}/heldout.jsonl",
        code=trust_code(),
    output:
        "results/scores/trust/{model}.json",
    log:
        "results/logs/validate_criteria_on_labels/{model}.log",
    wildcard_constraints:
        model=one_of(CLASSIFIERS),
    localrule: True
    container:
        config["containers"]["driver"]
    params:
        labels=labels_folder,
        resamples=checked.report.resamples,
        seed=checked.run.seed,
    shell:
        '"$DRIVER" -m maieutic validate-criteria-on-labels --model {wildcards.model} --labels {params.labels}'
        " --heldout {input.heldout} --resamples {params.resamples} --seed {params.seed} --out {output} --log {log}"


rule correct_by_people:
    """A judge's rates, corrected by the labels that people gave to this run's replies."""
    input:
        people=checked.run.human_labels or [],
        judgements=lambda wildcards: all_judge_files(wildcards.model),
        code=trust_code(),
    output:
        "results/scores/people/{model}.json",
    log:
        "results/logs/correct_by_people/{model}.log",
    wildcard_constraints:
        model=one_of(JUDGES),
    localrule: True
    container:
        config["containers"]["driver"]
    params:
        resamples=checked.report.resamples,
        seed=checked.run.seed,
    shell:
        '"$DRIVER" -m maieutic correct-by-people --judge {wildcards.model} --judgements {input.judgements}'
        " --people {input.people} --resamples {params.resamples} --seed {params.seed} --out {output} --log {log}"


rule align_judge:
    """A judge's Win, Tie and Lose of this run's replies against those of people (KMP-Bench, Table 3)."""
    input:
        people=checked.run.human_labels or [],
        judgements=lambda wildcards: compared_files(wildcards.model),
        rubrics=lambda wildcards: rubric_files_of([COMPARISONS, *JUDGES[wildcards.model].rubrics]),
        code=trust_code(),
    output:
        "results/scores/alignment/{model}.json",
    log:
        "results/logs/align_judge/{model}.log",
    wildcard_constraints:
        model=one_of(JUDGES),
    localrule: True
    container:
        config["containers"]["driver"]
    params:
        resamples=checked.report.resamples,
        seed=checked.run.seed,
    shell:
        '"$DRIVER" -m maieutic align-judge --judge {wildcards.model} --judgements {input.judgements}'
        " --people {input.people} --resamples {params.resamples} --seed {params.seed} --out {output} --log {log}"
