"""Look-ups of benchmarks whose items bring criteria of their own: tags, breakdowns, raters, difficulty."""

POOLED = judging.pooled_benchmarks(checked)


def pooled_tasks(wildcards):
    """The selected tasks of a benchmark that are scored together."""
    return [card.task for card in judging.pooled_cards(checked, wildcards.benchmark)]


def pooled_items(wildcards):
    """Their items."""
    return [f"results/items/{wildcards.benchmark}/{task}.jsonl" for task in pooled_tasks(wildcards)]


def asked_pooled(wildcards):
    """Those of them that a tutor can be asked."""
    asked = tasks_of(wildcards)
    return [task for task in pooled_tasks(wildcards) if task in asked]


def tag_json(wildcards):
    """What tagging needs of a judge's entry."""
    tagger = TAGGERS[wildcards.model].model_copy(update={"rubrics": [], "pairs": []})
    return settings.entry_json(tagger)


def tag_rubrics(wildcards):
    """The files of the rubrics by which a tagger tags."""
    return rubric_files_of(TAGGERS[wildcards.model].tags)


def tag_files(wildcards):
    """What every tagger says of a benchmark."""
    return [f"results/verdicts/{name}/tags/{wildcards.benchmark}.jsonl" for name in TAGGERS]


def vote_file(wildcards):
    """The vote of the run's taggers, where it has some."""
    return [f"results/scores/tags/{wildcards.benchmark}.json"] if TAGGERS else []


def breakdown_files():
    """Every tutor's scores by tag."""
    return [
        f"results/scores/breakdowns/{benchmark}/{model}.json"
        for benchmark in POOLED
        for model in settings.tutors_on(checked, benchmark)
    ]


def breakdown_job(wildcards):
    """What is broken down of one tutor."""
    return breakdown.BreakDown(
        benchmark=wildcards.benchmark,
        tutor=wildcards.model,
        tasks=pooled_tasks(wildcards),
        asked=asked_pooled(wildcards),
        judges=judges_of(wildcards),
        resamples=checked.report.resamples,
        seed=checked.run.seed,
    ).model_dump_json()


def difficulty_tutors(wildcards):
    """The tutors whose scores say how hard an item is: those that the leading judge judges."""
    batches = judge_batches(wildcards.benchmark).values()
    judged = [tutor for tutors in batches for tutor in tutors]
    return [tutor for tutor in checked.run.difficulty.tutors if tutor in judged]


def difficulty_job(wildcards):
    """What makes an item hard."""
    return difficulty.FilterByDifficulty(
        tasks=pooled_tasks(wildcards),
        tutors=difficulty_tutors(wildcards),
        below=checked.run.difficulty.below,
        at_least=checked.run.difficulty.at_least,
    ).model_dump_json()


def difficulty_grades(wildcards):
    """The leading judge's grades of each of those tutors."""
    judge = judging.leading_judge(checked, wildcards.benchmark)
    return [
        f"results/grades/{wildcards.benchmark}/{judge}/{tutor}.jsonl"
        for tutor in difficulty_tutors(wildcards)
    ]


def judged_here(wildcards):
    """What one judge says of every tutor's replies to the pooled tasks."""
    return judge_batch_files(wildcards.model, wildcards.benchmark)


def rubric_report_files():
    """What the report shows of such benchmarks, beside the scores."""
    files = breakdown_files()
    for benchmark in POOLED:
        files += [f"results/scores/tags/{benchmark}.json"] if TAGGERS else []
        files += (
            [f"results/scores/difficulty/{benchmark}.csv"] if checked.run.difficulty.tutors else []
        )
        if checked.run.human_labels:
            files += [
                f"results/scores/raters/{benchmark}/{name}.json"
                for name in judging.pooled_judges(checked, benchmark)
            ]
    return files
