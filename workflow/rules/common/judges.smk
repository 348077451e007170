"""Look-ups of judges, and of the labels that graders are checked on."""


def answering_weights(wildcards):
    """The manifest of the weights that a judge answers with."""
    return f"results/weights/{answering(wildcards.model)}/manifest.json"


def answering_json(wildcards):
    """What a judge's jobs need of the entry that answers."""
    return settings.entry_json(checked.models[answering(wildcards.model)])


def rubric_files_of(names):
    """Rubric cards and their prompts."""
    return sorted({str(file) for name in names for file in rubrics.files_of(name)})


def reply_rubrics(judge, benchmark):
    """Those by which a judge judges the replies to a benchmark."""
    cards_here = judging.judge_cards(checked, benchmark, judge)
    named = {name for card in cards_here for name in card.rubrics}
    return [name for name in JUDGES[judge].rubrics if name in named]


def reply_rubric_files(wildcards):
    """Their files."""
    return rubric_files_of(reply_rubrics(wildcards.model, wildcards.benchmark))


def told_releases(judge):
    """The releases whose replies one judge is asked about: those it is checked on, and those it predicts."""
    return [*judging.releases_for(checked, judge), *judging.predicted_releases(checked, judge)]


def label_rubrics(judge):
    """The rubrics by which a judge is checked on the labelled releases, and predicts others."""
    loaded = [
        judge_work.rubric_for_labels(JUDGES[judge], source) for source in told_releases(judge)
    ]
    return list(dict.fromkeys(one.name for one in loaded))


def label_rubric_files(wildcards):
    """The files by which one job's judge judges labelled replies and pairs."""
    return rubric_files_of([*label_rubrics(wildcards.model), *JUDGES[wildcards.model].pairs])


def judge_json(judge, **rubrics):
    """What a job needs of a judge's entry: a card that it does not use must not ask anything anew."""
    return settings.entry_json(JUDGES[judge].model_copy(update=rubrics))


def reply_judge_json(wildcards):
    """What judging the replies to one benchmark needs of it."""
    rubrics_here = reply_rubrics(wildcards.model, wildcards.benchmark)
    return judge_json(wildcards.model, rubrics=rubrics_here, pairs=[], tags=[])


def label_judge_json(wildcards):
    """What judging labelled replies and pairs needs of it."""
    judge = wildcards.model
    return judge_json(judge, rubrics=label_rubrics(judge) or JUDGES[judge].rubrics, tags=[])


def judge_tasks(wildcards):
    """The selected tasks of a benchmark whose replies one judge judges."""
    cards_here = judging.judge_cards(checked, wildcards.benchmark, wildcards.model)
    return [card.task for card in cards_here]


def judge_batches(benchmark):
    """Which tutors one job judges: the baselines together, the others by the config."""
    return judging.judge_batches(checked, benchmark)


def judge_batch_files(judge, benchmark):
    """What a judge says of every tutor's replies to a benchmark."""
    return [
        f"results/verdicts/{judge}/{benchmark}/{batch}.jsonl" for batch in judge_batches(benchmark)
    ]


def all_judge_files(judge):
    """What a judge says of every tutor's replies to every benchmark that it judges."""
    return [
        file
        for benchmark in judging.judged_benchmarks(checked, judge)
        for file in judge_batch_files(judge, benchmark)
    ]


def compared_files(judge):
    """What a judge says of the replies to every benchmark in which it compares them with a reference."""
    return [
        file
        for benchmark in judging.compared_benchmarks(checked, judge)
        for file in judge_batch_files(judge, benchmark)
    ]


def judge_batch(wildcards):
    """The batch that one tutor is in; None where no judge judges it."""
    if wildcards.benchmark not in judging.judged_benchmarks(checked):
        return None
    batches = judge_batches(wildcards.benchmark).items()
    return next((batch for batch, tutors in batches if wildcards.model in tutors), None)


def judges_of(wildcards):
    """The judges of one tutor's replies to a benchmark."""
    judges = [name for name in REPLY_JUDGES if reply_rubrics(name, wildcards.benchmark)]
    return judges if judge_batch(wildcards) else []


def scoring_job(wildcards):
    """What is scored of one tutor: a tutor that judges do not judge has no headline of its own where they judge others."""
    judged = judging.judge_cards(checked, wildcards.benchmark) if judges_of(wildcards) else []
    judges_here = REPLY_JUDGES and wildcards.benchmark in judging.judged_benchmarks(checked)
    kinds = {cards.REWARD: checked.run.reward_models, cards.JUDGE: judges_here}
    return score.ScoreReplies(
        benchmark=wildcards.benchmark,
        tutor=wildcards.model,
        tasks=tasks_of(wildcards),
        judging={card.task: settings.judges_of_card(checked, card) for card in judged},
        absent=[kind for kind, names in kinds.items() if not names],
        resamples=checked.report.resamples,
        seed=checked.run.seed,
    ).model_dump_json()


def weighted_tasks(wildcards):
    """The tasks that a judge judges by criteria of the items' own, with weights."""
    cards_here = judging.judge_cards(checked, wildcards.benchmark, wildcards.judge)
    judge = JUDGES[wildcards.judge]
    kinds = {
        card.task: judge_work.rubric_of(wildcards.judge, judge, card).rubric.kind
        for card in cards_here
    }
    asked = tasks_of(wildcards)
    return [task for task, kind in kinds.items() if kind == "weighted" and task in asked]


def verdict_job(wildcards):
    """How a judge's verdicts become grades; the reading of negative weights only where there are some."""
    weighted = weighted_tasks(wildcards)
    return grading.GradeVerdicts(
        judge=wildcards.judge,
        tutor=wildcards.model,
        weighted=weighted,
        negative_weights=checked.run.negative_weights if weighted else None,
    ).model_dump_json()


def weighted_items(wildcards):
    """The items of those tasks."""
    return [
        f"results/items/{wildcards.benchmark}/{task}.jsonl" for task in weighted_tasks(wildcards)
    ]


def verdict_file(wildcards):
    """What the judge says of the batch that the tutor is in."""
    return (
        f"results/verdicts/{wildcards.judge}/{wildcards.benchmark}/{judge_batch(wildcards)}.jsonl"
    )


def judge_grades(wildcards):
    """The grades of one tutor by every judge."""
    return [
        f"results/grades/{wildcards.benchmark}/{judge}/{wildcards.model}.jsonl"
        for judge in judges_of(wildcards)
    ]


def labels_of(release):
    """The files of a labelled release that graders are compared with."""
    return [f"results/labels/{release}/{kind}.jsonl" for kind in ("items", "replies", "labels")]


def labels_folder(wildcards, input):
    """The folder of the one labelled release among a rule's inputs."""
    return str(Path(input.labels[0]).parent)


def label_files(wildcards):
    """The files of the releases whose replies one judge is asked about."""
    return [file for release in told_releases(wildcards.model) for file in labels_of(release)]


def label_folders(wildcards):
    """The folders of the releases whose replies one judge is asked about, as an argument."""
    folders = " ".join(f"results/labels/{release}" for release in told_releases(wildcards.model))
    return f"--labels {folders}" if folders else ""


def checked_label_files(wildcards):
    """The files of the labelled releases that one judge is checked on."""
    releases = judging.releases_for(checked, wildcards.model)
    return [file for release in releases for file in labels_of(release)]


def checked_label_folders(wildcards):
    """The folders of the labelled releases that one judge is checked on, as an argument."""
    releases = judging.releases_for(checked, wildcards.model)
    folders = " ".join(f"results/labels/{release}" for release in releases)
    return f"--labels {folders}" if folders else ""


def submission_files():
    """The predictions of each judge on the releases without labels, in the form of the shared task."""
    return [
        f"results/scores/predictions/{release}/{judge}/predictions.zip"
        for judge in JUDGES
        for release in judging.predicted_releases(checked, judge)
    ]


def stop_argument(wildcards):
    """The share of unreadable verdicts above which a judge's job stops, where it is not the usual one."""
    limit = judging.unreadable_limit(checked, wildcards.model)
    return f"--stop-above {limit}" if limit > STOP_ABOVE else ""


def label_limit(wildcards):
    """How many labelled replies and pairs one judge is checked on, as an argument."""
    limit = judging.limit_of(checked, wildcards.model)
    return f"--limit {limit}" if limit else ""


def judge_pairs(wildcards):
    """The pairs that one judge is checked on."""
    return (
        [f"results/preferences/{TEST_SOURCE}/pairs.jsonl"] if JUDGES[wildcards.model].pairs else []
    )


def pairs_argument(wildcards, input):
    """Them as an argument."""
    return f"--pairs {input.pairs}" if input.pairs else ""


# Reward models are compared with the labels of one release, classifiers with those that they were held back from.
REWARD_RELEASE = judging.reward_release(checked)


def last_checks():
    """The last checks of a run: they fail where the page has holes, or where too much could not be read."""
    return ["results/report/whole.json"] + (
        ["results/report/judges.json", *submission_files()] if JUDGES else []
    )


def told_files():
    """By judge, and by tagger, every file of what it said."""
    return {
        **{
            name: [f"results/verdicts/{name}/labelled.jsonl", *all_judge_files(name)]
            for name in JUDGES
        },
        **{
            name: [f"results/verdicts/{name}/tags/{benchmark}.jsonl" for benchmark in POOLED]
            for name in TAGGERS
        },
    }


def judge_check_job():
    """Whose answers each file holds, and how many of them may be unreadable."""
    told = told_files()
    return judge_validation.CheckJudges(
        judges=[name for name, files in told.items() for _ in files],
        limits={name: judging.unreadable_limit(checked, name) for name in told},
    ).model_dump_json()


def graded_by_models(benchmark, tutor):
    """The grades of one tutor by every reward model and judge."""
    place = SimpleNamespace(benchmark=benchmark, model=tutor)
    return [*reward_grades(place), *judge_grades(place)]


def grade_files(benchmark, tutor):
    """All grades of one tutor, in the order of the run."""
    return [
        f"results/grades/{benchmark}/_parsers/{tutor}.jsonl",
        *graded_by_models(benchmark, tutor),
    ]


def compared_tutors(benchmark):
    """The tutors of the run that answer a benchmark; the trivial ones are its floor and ceiling."""
    return [name for name in settings.tutors_on(checked, benchmark) if name in checked.run.tutors]


def compared_grades(wildcards):
    """Their grades."""
    return [
        file
        for tutor in compared_tutors(wildcards.benchmark)
        for file in grade_files(wildcards.benchmark, tutor)
    ]


def compared_items(wildcards):
    """The items of the selected tasks."""
    return [
        f"results/items/{wildcards.benchmark}/{loaded.card.task}.jsonl"
        for loaded in CARDS[wildcards.benchmark]
    ]


def comparing_job(wildcards):
    """What is compared: by every grader of any of the tutors."""
    benchmark, tutors = wildcards.benchmark, compared_tutors(wildcards.benchmark)
    judged = REPLY_JUDGES and benchmark in judging.judged_benchmarks(checked)
    kinds = {cards.REWARD: checked.run.reward_models, cards.JUDGE: judged}
    return differences.CompareTutors(
        benchmark=benchmark,
        tutors=[tutor for tutor in tutors for _ in grade_files(benchmark, tutor)],
        tasks=[loaded.card.task for loaded in CARDS[benchmark]],
        judging={
            card.task: settings.judges_of_card(checked, card)
            for card in (judging.judge_cards(checked, benchmark) if judged else [])
        },
        absent=[kind for kind, names in kinds.items() if not names],
        resamples=checked.report.resamples,
        seed=checked.run.seed,
    ).model_dump_json()


def difference_files():
    """The differences of every benchmark with two tutors or more."""
    return [
        f"results/scores/differences/{benchmark}.json"
        for benchmark in CARDS
        if len(compared_tutors(benchmark)) > 1
    ]


def trust_files():
    """What the report's pages on trust and on labels are made of."""
    graders = [*REWARD_MODELS, *CLASSIFIERS, *JUDGES]
    files = [f"results/scores/trust/{name}.json" for name in graders]
    files += [f"results/scores/bridge_pairs/{name}.json" for name in JUDGES]
    files += [f"results/scores/labels/{release}.json" for release in TAXONOMY_RELEASES]
    files += [f"results/labels/{release}/statistics.json" for release in RELEASES]
    files += [file for name in JUDGES for file in all_judge_files(name)]
    files += [f"results/verdicts/{name}/labelled.jsonl" for name in JUDGES]
    if checked.run.human_labels:
        files += [f"results/scores/people/{name}.json" for name in JUDGES if all_judge_files(name)]
        files += [
            f"results/scores/alignment/{name}.json" for name in JUDGES if compared_files(name)
        ]
    return files
