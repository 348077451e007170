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
    return [f"results/grades/tags/{name}/{wildcards.benchmark}.jsonl" for name in TAGGERS]


def tagger_files():
    """What every tagger says of every benchmark that is tagged."""
    return [
        f"results/grades/tags/{name}/{benchmark}.jsonl" for name in TAGGERS for benchmark in POOLED
    ]


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
