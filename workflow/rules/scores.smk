"""results/items, results/grades -> results/scores: every number with its interval."""


rule score_replies:
    input:
        cases=items_of,
        grades="results/grades/{benchmark}/_parsers/{model}.jsonl",
        rewards=reward_grades,
        judged=judge_grades,
        cards=lambda wildcards: [
            file for file in tutor_card_files(wildcards) if file.endswith(".yaml")
        ],
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
        code=code_of("score-replies"),
        job=scoring_job,
    shell:
        '"$DRIVER" -m maieutic score-replies --job {params.job:q} --items results/items/{wildcards.benchmark}'
        " --grades {input.grades} {input.rewards} {input.judged} --out {output} --log {log}"


rule compare_tutors:
    """How far each tutor of the run is ahead of each other one, on the items that both have answered."""
    input:
        cases=compared_items,
        grades=compared_grades,
        cards=lambda wildcards: [file for file in card_files(wildcards) if file.endswith(".yaml")],
    output:
        "results/scores/differences/{benchmark}.json",
    log:
        "results/logs/compare_tutors/{benchmark}.log",
    localrule: True
    container:
        config["containers"]["driver"]
    resources:
        mem_mb=4000,
        runtime=60,
    params:
        code=code_of("compare-tutors"),
        job=comparing_job,
    shell:
        '"$DRIVER" -m maieutic compare-tutors --job {params.job:q} --items results/items/{wildcards.benchmark}'
        " --grades {input.grades} --out {output} --log {log}"


rule validate_reward_model:
    """A reward model on the Bridge pairs: accuracy, margin, what length alone would say."""
    input:
        pairs=f"results/preferences/{TEST_SOURCE}/pairs.jsonl",
        rewards="results/rewards/pairs/{model}.jsonl",
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
        code=code_of("validate-reward-model"),
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
        code=code_of("validate-criteria"),
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
    output:
        "results/scores/labels/{release}.json",
    log:
        "results/logs/score_labels/{release}.log",
    localrule: True
    container:
        config["containers"]["driver"]
    params:
        code=code_of("score-labels"),
        folder=labels_folder,
        resamples=checked.report.resamples,
        seed=checked.run.seed,
    shell:
        '"$DRIVER" -m maieutic score-labels --release {wildcards.release} --labels {params.folder}'
        " --resamples {params.resamples} --seed {params.seed} --out {output} --log {log}"


rule validate_judge:
    """A judge against people: on every labelled release, and on the Bridge pairs in both orders."""
    input:
        labels=checked_label_files,
        pairs=judge_pairs,
        judgements="results/verdicts/{model}/labelled.jsonl",
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
        code=code_of("validate-judge"),
        labels=checked_label_folders,
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
        code=code_of("validate-reward-on-labels"),
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
        code=code_of("validate-criteria-on-labels"),
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
        code=code_of("correct-by-people"),
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
        code=code_of("align-judge"),
        resamples=checked.report.resamples,
        seed=checked.run.seed,
    shell:
        '"$DRIVER" -m maieutic align-judge --judge {wildcards.model} --judgements {input.judgements}'
        " --people {input.people} --resamples {params.resamples} --seed {params.seed} --out {output} --log {log}"


rule vote_tags:
    """The Bloom level that most taggers give to each item, and how far they agree (TutorBench, section 3.4)."""
    input:
        cases=pooled_items,
        tags=tag_files,
    output:
        "results/scores/tags/{benchmark}.json",
    log:
        "results/logs/vote_tags/{benchmark}.log",
    localrule: True
    container:
        config["containers"]["driver"]
    params:
        code=code_of("vote-tags"),
        tasks=pooled_tasks,
        taggers=list(TAGGERS),
    shell:
        '"$DRIVER" -m maieutic vote-tags --tasks {params.tasks} --items results/items/{wildcards.benchmark}'
        " --taggers {params.taggers} --tags {input.tags} --out {output} --log {log}"


rule break_down:
    """A tutor's scores over pooled tasks, by the tags of items and criteria."""
    input:
        cases=pooled_items,
        grades=judge_grades,
        votes=vote_file,
        cards=lambda wildcards: [file for file in card_files(wildcards) if file.endswith(".yaml")],
    output:
        "results/scores/breakdowns/{benchmark}/{model}.json",
    log:
        "results/logs/break_down/{benchmark}/{model}.log",
    wildcard_constraints:
        benchmark=one_of(POOLED),
    localrule: True
    container:
        config["containers"]["driver"]
    resources:
        mem_mb=2000,
        runtime=30,
    params:
        code=code_of("break-down"),
        job=breakdown_job,
        votes=lambda wildcards, input: f"--votes {input.votes}" if input.votes else "",
    shell:
        '"$DRIVER" -m maieutic break-down --job {params.job:q} --items results/items/{wildcards.benchmark}'
        " --grades {input.grades} {params.votes} --out {output} --log {log}"


rule rate_judge:
    """A judge's verdicts criterion by criterion against those of people (TutorBench, section 3.7)."""
    input:
        people=checked.run.human_labels or [],
        cases=pooled_items,
        judgements=judged_here,
    output:
        "results/scores/raters/{benchmark}/{model}.json",
    log:
        "results/logs/rate_judge/{benchmark}/{model}.log",
    wildcard_constraints:
        model=one_of(JUDGES),
    localrule: True
    container:
        config["containers"]["driver"]
    params:
        code=code_of("rate-judge"),
        tasks=pooled_tasks,
        resamples=checked.report.resamples,
        seed=checked.run.seed,
    shell:
        '"$DRIVER" -m maieutic rate-judge --judge {wildcards.model} --tasks {params.tasks}'
        " --items results/items/{wildcards.benchmark} --judgements {input.judgements} --people {input.people}"
        " --resamples {params.resamples} --seed {params.seed} --out {output} --log {log}"


rule filter_by_difficulty:
    """Which items most of some tutors fail (TutorBench, appendix A.1)."""
    input:
        cases=pooled_items,
        grades=difficulty_grades,
    output:
        "results/scores/difficulty/{benchmark}.csv",
    log:
        "results/logs/filter_by_difficulty/{benchmark}.log",
    localrule: True
    container:
        config["containers"]["driver"]
    params:
        code=code_of("filter-by-difficulty"),
        job=difficulty_job,
    shell:
        '"$DRIVER" -m maieutic filter-by-difficulty --job {params.job:q}'
        " --items results/items/{wildcards.benchmark} --grades {input.grades} --out {output} --log {log}"


rule write_submission:
    """A judge's verdicts on a release without labels, as a file of the BEA 2025 shared task."""
    input:
        source=lambda wildcards: [
            f"results/datasets/{dataset}.source"
            for dataset in judging.label_datasets(checked, wildcards.release)
        ],
        judgements="results/verdicts/{model}/labelled.jsonl",
    output:
        predictions="results/scores/predictions/{release}/{model}/predictions.json",
        packed="results/scores/predictions/{release}/{model}/predictions.zip",
    log:
        "results/logs/write_submission/{release}/{model}.log",
    wildcard_constraints:
        model=one_of(JUDGES),
        release=one_of(checked.run.predictions),
    localrule: True
    container:
        config["containers"]["driver"]
    params:
        code=code_of("write-submission"),
    shell:
        '"$DRIVER" -m maieutic write-submission --release {wildcards.release} --source {input.source}'
        " --judgements {input.judgements} --out {output.predictions} --packed {output.packed} --log {log}"
