"""Look-ups of preference pairs, reward models and classifiers."""


def reward_tasks(wildcards):
    """The selected tasks of a benchmark whose replies reward models score."""
    return [card.task for card in selection.reward_cards(checked, wildcards.benchmark)]


def reward_items(wildcards):
    """The items of those tasks."""
    return [f"results/items/{wildcards.benchmark}/{task}.jsonl" for task in reward_tasks(wildcards)]


def reward_batches(benchmark):
    """Which tutors one job scores: the baselines and the human reference together, the others by the config."""
    return selection.reward_batches(checked, benchmark)


def rewarded_tutors(benchmark):
    """The tutors whose replies reward models score."""
    return [tutor for batch in reward_batches(benchmark).values() for tutor in batch]


def reward_files(wildcards):
    """The scores of one tutor by one reward model, and those of the human reference."""
    batches = reward_batches(wildcards.benchmark)
    mine = next(name for name, tutors in batches.items() if wildcards.model in tutors)
    return [
        f"results/rewards/replies/{wildcards.reward}/{wildcards.benchmark}/{batch}.jsonl"
        for batch in sorted({mine, selection.BASELINE_BATCH})
    ]


def overlap_files(wildcards):
    """The leaked items by each source that the reward model was trained on."""
    return [
        f"results/preferences/{source}/overlap/{wildcards.benchmark}.json"
        for source in checks.sources_of(checked.models[wildcards.reward])
    ]


def reward_grades(wildcards):
    """The grades of one tutor by every reward model of the run."""
    if wildcards.benchmark not in selection.rewarded_benchmarks(checked):
        return []
    if wildcards.model not in rewarded_tutors(wildcards.benchmark):
        return []
    return [
        f"results/grades/{wildcards.benchmark}/{reward}/{wildcards.model}.jsonl"
        for reward in checked.run.reward_models
    ]


def reward_grading_job(wildcards):
    """What a reward model's scalars are graded against."""
    return reward_grading.GradeByRewards(
        reward_model=wildcards.reward,
        tutor=wildcards.model,
        ceiling=selection.human_reference(checked, wildcards.benchmark),
        tasks=reward_tasks(wildcards),
    ).model_dump_json()


def base_of(name):
    """The registry entry whose weights a grader is trained on."""
    return checked.models[name].train.base


def reward_weights(wildcards):
    """A reward model's manifest: trained here, or published."""
    if checked.models[wildcards.model].train:
        return f"results/rewards/models/{wildcards.model}/manifest.json"
    return f"results/weights/{wildcards.model}/manifest.json"


def reward_prompt(wildcards):
    """The text of a reward model's instruction."""
    prompt = checked.models[wildcards.model].prompt
    return [] if prompt == "none" else [f"resources/rewards/{prompt}.txt"]


def training_json(wildcards):
    """What a grader's training needs of its registry entry."""
    return settings.training_json(checked.models[wildcards.model])


def scoring_json(wildcards):
    """What scoring needs of a reward model's registry entry."""
    return settings.scoring_json(checked.models[wildcards.model])


def grader_files():
    """What the report's page on reward models and classifiers is made of."""
    files = [f"results/scores/bridge_pairs/{name}.json" for name in [*REWARD_MODELS, *CLASSIFIERS]]
    files += [f"results/rewards/pairs/{name}.jsonl" for name in REWARD_MODELS]
    files += [f"results/rewards/models/{name}/README.md" for name in TRAINED]
    files += [f"results/rewards/criteria/{name}/training.json" for name in CLASSIFIERS]
    files += [f"results/preferences/{source}/counts.json" for source in uses.used_sources(checked)]
    for benchmark in selection.rewarded_benchmarks(checked):
        for reward in checked.run.reward_models:
            files += [
                f"results/rewards/replies/{reward}/{benchmark}/{batch}.jsonl"
                for batch in reward_batches(benchmark)
            ]
            files += [
                f"results/preferences/{source}/overlap/{benchmark}.json"
                for source in checks.sources_of(checked.models[reward])
            ]
    return sorted({*files, *trust_files()})
