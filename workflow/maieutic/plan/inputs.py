"""Input files of rules that depend on the run's selection. A rule names a function of this module in `plan.select`.

Each function takes the plan and the wildcards that it needs. All other inputs of rules are literal paths.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from maieutic.config import cards
from maieutic.config.cards import LoadedCard
from maieutic.config.models import CriteriaModel, RecordedModel, RewardModel
from maieutic.core import paths
from maieutic.judges import rubrics
from maieutic.plan.plan import BASELINE_BATCH, Plan, training_pair_sources

# files by their names -------------------------------------------------------------------------------------------------


def card_files(benchmark: str, loaded_cards: Iterable[LoadedCard]) -> list[str]:
    """Return the card, prompt and few-shot files of tasks of a benchmark. loaded_cards: cards of these tasks."""
    return [
        str(file)
        for loaded in loaded_cards
        for file in cards.card_inputs(cards.card_path(benchmark, loaded.card.task), loaded)
    ]


def card_yaml_files(benchmark: str, loaded_cards: Iterable[LoadedCard]) -> list[str]:
    """Return the card files of some tasks of a benchmark without prompts, for steps that only read replies."""
    return [file for file in card_files(benchmark, loaded_cards) if file.endswith(".yaml")]


def rubric_files(names: Iterable[str]) -> list[str]:
    """Return the files of rubric cards and their prompts."""
    return sorted({str(file) for name in names for file in rubrics.files_of_rubric(name)})


def item_files(benchmark: str, tasks: Iterable[str]) -> list[str]:
    """Return the item files of tasks of a benchmark."""
    return [paths.ITEMS.of(benchmark=benchmark, task=task) for task in tasks]


def tasks_of(cards_here: Iterable[cards.Card]) -> list[str]:
    """Return the names of the cards' tasks."""
    return [card.task for card in cards_here]


def label_files(releases: Iterable[str]) -> list[str]:
    """Return the files of labelled releases."""
    patterns = (paths.LABELLED_ITEMS, paths.LABELLED_REPLIES, paths.LABELS, paths.LABEL_ABOUT)
    return [pattern.of(release=release) for release in releases for pattern in patterns]


def source_files(datasets: Iterable[str]) -> list[str]:
    """Return the source files of datasets."""
    return [paths.SOURCE.of(dataset=dataset) for dataset in datasets]


def pair_files(sources: Iterable[str]) -> list[str]:
    """Return the files of sets of preference pairs."""
    return [paths.PAIRS.of(source=source) for source in sources]


# data -----------------------------------------------------------------------------------------------------------------


def local_weight_files(plan: Plan, model: str) -> list[str]:
    """Return the weight files of a model in a local folder, so that Snakemake notices a change; else an empty list."""
    path = getattr(getattr(plan.models[model], "weights", None), "path", None)
    return [str(file) for file in sorted(Path(path).glob("*.*"))] if path else []


def task_source(plan: Plan, benchmark: str, task: str) -> str:
    """Return the source file of a task's items."""
    return paths.SOURCE.of(dataset=plan.card(benchmark, task).dataset)


def task_pictures(plan: Plan, benchmark: str, task: str) -> list[str]:
    """Return the file that lists the pictures of a task's dataset; empty for a task without pictures."""
    card = plan.card(benchmark, task)
    return [paths.PICTURE_LIST.of(dataset=card.dataset)] if card.images else []


def task_card(plan: Plan, benchmark: str, task: str) -> str:
    """Return the file of a task's card."""
    return str(cards.card_path(benchmark, task))


def task_card_and_prompts(plan: Plan, benchmark: str, task: str) -> list[str]:
    """Return the files of a task's card, prompts and few-shot texts."""
    return card_files(benchmark, [loaded for loaded in plan.benchmarks[benchmark] if loaded.card.task == task])


def benchmark_items(plan: Plan, benchmark: str) -> list[str]:
    """Return the item files of all selected tasks of a benchmark."""
    return item_files(benchmark, tasks_of(loaded.card for loaded in plan.benchmarks[benchmark]))


def benchmark_cards(plan: Plan, benchmark: str) -> list[str]:
    """Return the card files of all selected tasks of a benchmark, without prompt files."""
    return card_yaml_files(benchmark, plan.benchmarks[benchmark])


def label_sources(plan: Plan, release: str) -> list[str]:
    """Return the files from which a labelled release is made: the user's file, or the sources of its datasets."""
    entry = plan.label_sets[release]
    return [entry.file] if entry.file else source_files(plan.label_datasets(release))


def label_rubric(plan: Plan, release: str) -> list[str]:
    """Return the files of the rubric that a user's labels follow; empty for published releases."""
    entry = plan.label_sets[release]
    return rubric_files([entry.rubric] if entry.rubric else [])


def pair_sources(plan: Plan, source: str) -> list[str]:
    """Return the files from which a set of pairs is made: the user's file, or the sources of its datasets."""
    entry = plan.config.preferences.get(source)
    return [entry.file] if entry and entry.file else source_files(plan.pair_datasets(source))


def leading_pairs(plan: Plan) -> str:
    """Return the file of the pairs on which traffic lights and the comparison with the papers' tables are based."""
    return paths.PAIRS.of(source=plan.leading_pairs)


def question_files(plan: Plan) -> list[str]:
    """Return the question files of a run, one per task. Each contains the task's items and prompts."""
    return [
        paths.QUESTIONS.of(benchmark=benchmark, task=loaded.card.task)
        for benchmark, cards in plan.benchmarks.items()
        for loaded in cards
    ]


# tutors ---------------------------------------------------------------------------------------------------------------


def tutor_items(plan: Plan, benchmark: str, tutor: str) -> list[str]:
    """Return the item files of a benchmark's tasks that a tutor answers."""
    return item_files(benchmark, plan.tasks_for(benchmark, tutor))


def all_tutor_items(plan: Plan, tutor: str) -> list[str]:
    """Return the item files of all tasks that a tutor answers."""
    return [file for benchmark in plan.benchmarks for file in tutor_items(plan, benchmark, tutor)]


def tutor_prompts(plan: Plan, benchmark: str, tutor: str) -> list[str]:
    """Return the card, prompt and few-shot files of a benchmark's tasks that a tutor answers."""
    return card_files(benchmark, plan.cards_for(benchmark, tutor))


def all_tutor_prompts(plan: Plan, tutor: str) -> list[str]:
    """Return the card, prompt and few-shot files of all tasks that a tutor answers."""
    return [file for benchmark in plan.benchmarks for file in tutor_prompts(plan, benchmark, tutor)]


def tutor_cards(plan: Plan, benchmark: str, tutor: str) -> list[str]:
    """Return the card files of a benchmark's tasks that a tutor answers, without prompt files."""
    return card_yaml_files(benchmark, plan.cards_for(benchmark, tutor))


def tutor_weights(plan: Plan, tutor: str) -> list[str]:
    """Return the weights manifest of a tutor; empty unless this run serves the tutor's model."""
    return [paths.WEIGHTS.of(model=tutor)] if tutor in plan.with_engine("vllm") else []


def shard_replies(plan: Plan, benchmark: str, tutor: str) -> list[str]:
    """Return the files of a tutor's replies to a benchmark, one per shard."""
    return [paths.SHARD_REPLIES.of(benchmark=benchmark, tutor=tutor, shard=shard) for shard in plan.shards_of(tutor)]


def shard_prompts(plan: Plan, benchmark: str, tutor: str) -> list[str]:
    """Return the files of a tutor's prompts for a benchmark, one per shard."""
    return [paths.SHARD_PROMPTS.of(benchmark=benchmark, tutor=tutor, shard=shard) for shard in plan.shards_of(tutor)]


def recorded_files(plan: Plan, tutor: str) -> list[str]:
    """Return the user's files with the replies of a recorded tutor."""
    entry = plan.models[tutor]
    assert isinstance(entry, RecordedModel)
    return list(entry.files)


def sampled_tasks(plan: Plan, tutor: str) -> list[tuple[str, str]]:
    """Return benchmark and name of each task that a tutor answers on sampled items; empty without `run.limit`."""
    if plan.run.limit is None:
        return []
    return [(name, task) for name in plan.benchmarks for task in plan.tasks_for(name, tutor)]


def sampled_sources(plan: Plan, tutor: str) -> list[str]:
    """Return the source file of each task that a tutor answers on sampled items; empty without `run.limit`."""
    return source_files(plan.card(name, task).dataset for name, task in sampled_tasks(plan, tutor))


# reward models and classifiers ----------------------------------------------------------------------------------------


def rewarded_items(plan: Plan, benchmark: str) -> list[str]:
    """Return the item files of a benchmark's tasks that reward models score."""
    return item_files(benchmark, tasks_of(plan.reward_cards(benchmark)))


def training_pairs(plan: Plan, reward_model: str) -> list[str]:
    """Return the files of the pairs on which a reward model is trained, one for each source in its registry entry."""
    return pair_files(training_pair_sources(plan.models[reward_model]))


def training_pair_counts(plan: Plan, reward_model: str) -> list[str]:
    """Return the files with the numbers of pairs on which a reward model is trained, one for each source."""
    sources = training_pair_sources(plan.models[reward_model])
    return [paths.PAIR_COUNTS.of(source=source) for source in sources]


def training_overlaps(plan: Plan, reward_model: str, benchmark: str) -> list[str]:
    """Return the files that list which human replies of a benchmark are in a reward model's training pairs."""
    sources = training_pair_sources(plan.models[reward_model])
    return [paths.OVERLAP.of(source=source, benchmark=benchmark) for source in sources]


def trained_from(plan: Plan, grader: str) -> str:
    """Return the weights manifest of the base model from which a grader is trained."""
    entry = plan.models[grader]
    assert isinstance(entry, RewardModel | CriteriaModel) and entry.train is not None
    return paths.WEIGHTS.of(model=entry.train.base)


def reward_model_base(plan: Plan, reward_model: str) -> str:
    """Return the weights manifest of a reward model's base model."""
    return trained_from(plan, reward_model)


def classifier_base(plan: Plan, classifier: str) -> str:
    """Return the weights manifest of a classifier's base model."""
    return trained_from(plan, classifier)


def reward_model_weights(plan: Plan, reward_model: str) -> str:
    """Return the weights manifest of a reward model, whether this run trains it or it is published."""
    if reward_model in plan.trained_reward_models:
        return paths.TRAINED_WEIGHTS.of(reward_model=reward_model)
    return paths.WEIGHTS.of(model=reward_model)


def reward_model_prompt(plan: Plan, reward_model: str) -> list[str]:
    """Return the text file of a reward model's instruction; empty for a model without one."""
    entry = plan.models[reward_model]
    assert isinstance(entry, RewardModel)
    return [] if entry.prompt == "none" else [str(paths.RESOURCES / f"rewards/{entry.prompt}.txt")]


def reward_labels(plan: Plan) -> list[str]:
    """Return the files of the labelled release on which reward models are validated."""
    return label_files([plan.reward_release])


def batch_of_replies(plan: Plan, benchmark: str, batch: str) -> list[str]:
    """Return the files with the replies that reward models score for a batch of tutors."""
    return [paths.REPLIES.of(benchmark=benchmark, tutor=tutor) for tutor in plan.reward_batches(benchmark)[batch]]


def tutor_rewards(plan: Plan, reward_model: str, benchmark: str, tutor: str) -> list[str]:
    """Return the reward files of the tutor's batch and of the baselines' batch, which contains the human replies."""
    own_batch = next(name for name, tutors in plan.reward_batches(benchmark).items() if tutor in tutors)
    return [
        paths.REWARDS.of(reward_model=reward_model, benchmark=benchmark, batch=batch)
        for batch in sorted({own_batch, BASELINE_BATCH})
    ]


def classifier_labels(plan: Plan) -> str:
    """Return the source file of the labels on which classifiers are trained."""
    return paths.SOURCE.of(dataset=plan.label_datasets(plan.classifier_release)[0])


def classifier_validation_labels(plan: Plan, classifier: str) -> list[str]:
    """Return the files of the labelled releases that validate a classifier."""
    return label_files(plan.validating_releases(classifier))


def closeness_files(plan: Plan, release: str) -> list[str]:
    """Return the files with the similarity of each reply of a release to its dialogue, one for each encoder."""
    return [paths.CLOSENESS.of(encoder=name, release=release) for name in plan.run.encoders]


# judges ---------------------------------------------------------------------------------------------------------------


def answering_weights(plan: Plan, judge: str) -> list[str]:
    """Return the weights manifest of a judge's model; empty unless this run serves the model."""
    answering = plan.answering_entry(judge)
    return [paths.WEIGHTS.of(model=answering)] if answering in plan.with_engine("vllm") else []


def judged_items(plan: Plan, judge: str, benchmark: str) -> list[str]:
    """Return the item files of a benchmark's tasks that a judge judges."""
    return item_files(benchmark, tasks_of(plan.judge_cards(benchmark, judge)))


def judged_replies(plan: Plan, benchmark: str, batch: str) -> list[str]:
    """Return the files with the replies that judges judge for a batch of tutors."""
    return [paths.REPLIES.of(benchmark=benchmark, tutor=tutor) for tutor in plan.judge_batches(benchmark)[batch]]


def reply_rubrics(plan: Plan, judge: str, benchmark: str) -> list[str]:
    """Return the files of the rubrics by which a judge judges the replies to a benchmark."""
    return rubric_files(plan.reply_rubrics(judge, benchmark))


def all_judged_items(plan: Plan, judge: str, batch: str) -> list[str]:
    """Return the item files of all tasks on which a judge judges a batch of tutors."""
    benchmarks = plan.benchmarks_of_batch(judge, batch)
    return distinct(judged_items(plan, judge, benchmark) for benchmark in benchmarks)


def all_judged_replies(plan: Plan, judge: str, batch: str) -> list[str]:
    """Return the files of a batch of tutors' replies to all benchmarks on which a judge judges the batch."""
    return distinct(judged_replies(plan, name, batch) for name in plan.benchmarks_of_batch(judge, batch))


def all_reply_rubrics(plan: Plan, judge: str, batch: str) -> list[str]:
    """Return the files of the rubrics by which a judge judges a batch of tutors on all benchmarks."""
    return distinct(reply_rubrics(plan, judge, name) for name in plan.benchmarks_of_batch(judge, batch))


def all_judged_cards(plan: Plan, judge: str, batch: str) -> list[str]:
    """Return the card files of all benchmarks on which a judge judges a batch of tutors."""
    return distinct(benchmark_cards(plan, name) for name in plan.benchmarks_of_batch(judge, batch))


def distinct(lists: Iterable[list[str]]) -> list[str]:
    """Return the files of several lists, each file once."""
    return list(dict.fromkeys(file for files in lists for file in files))


def judged_labels(plan: Plan, judge: str) -> list[str]:
    """Return the files of the labelled releases whose replies a judge judges."""
    return label_files(plan.judged_releases(judge))


def validating_labels(plan: Plan, judge: str) -> list[str]:
    """Return the files of the labelled releases that validate a judge."""
    return label_files(plan.validating_releases(judge))


def judge_pairs(plan: Plan, judge: str) -> list[str]:
    """Return the files of the pairs on which a judge is validated; empty for a judge without rubrics for pairs."""
    return pair_files(plan.preferences) if plan.judge_entry(judge).pairs else []


def labelled_rubrics(plan: Plan, judge: str) -> list[str]:
    """Return the files of the rubrics by which a judge judges labelled replies and pairs, also in probes."""
    entry = plan.judge_entry(judge)
    return rubric_files([*plan.label_rubrics(judge), *entry.pairs, *plan.reworded_rubrics(judge)])


def panel_rubrics(plan: Plan, judge: str) -> list[str]:
    """Return the files of the rubrics by which a panel's judges judge labelled replies and pairs."""
    return rubric_files([*plan.label_rubrics(judge), *plan.judge_entry(judge).pairs])


def word_list_rubrics(plan: Plan, judge: str) -> list[str]:
    """Return the files of the rubrics by which a word-list judge judges labelled replies."""
    return rubric_files(plan.label_rubrics(judge))


def probe_verdicts(plan: Plan, judge: str) -> list[str]:
    """Return the files of a judge's verdicts on the probes."""
    return [paths.PROBE_VERDICTS.of(judge=judge, probe=probe) for probe in plan.probes]


def panel_verdicts(plan: Plan, judge: str, benchmark: str, batch: str) -> list[str]:
    """Return the files of verdicts on a batch of tutors, one for each judge of a panel."""
    judges = plan.judge_entry(judge).judges
    return [paths.VERDICTS.of(judge=name, benchmark=benchmark, batch=batch) for name in judges]


def panel_labelled_verdicts(plan: Plan, judge: str) -> list[str]:
    """Return the files of verdicts on labelled replies, one for each judge of a panel; empty for a single judge."""
    return [paths.LABELLED_VERDICTS.of(judge=name) for name in plan.judge_entry(judge).judges]


def batch_verdicts(plan: Plan, judge: str, benchmark: str) -> list[str]:
    """Return the files of a judge's verdicts on all tutors' replies to a benchmark."""
    return [paths.VERDICTS.of(judge=judge, benchmark=benchmark, batch=batch) for batch in plan.judge_batches(benchmark)]


def all_verdicts(plan: Plan, judge: str) -> list[str]:
    """Return the files of a judge's verdicts on all tutors' replies to all benchmarks that it judges."""
    return [file for benchmark in plan.judged_benchmarks(judge) for file in batch_verdicts(plan, judge, benchmark)]


def verdict_files(plan: Plan) -> dict[str, list[str]]:
    """Return the answer files for which a run limits the share of missing answers, by judge or tagger."""
    files = {name: [paths.LABELLED_VERDICTS.of(judge=name), *all_verdicts(plan, name)] for name in plan.run.judges}
    for part in plan.slices:
        for name, more in part.verdict_files(plan).items():  # a tagger may also be a judge
            files[name] = [*files.get(name, []), *more]
    return files


def every_verdict(plan: Plan) -> list[str]:
    """Return all answer files for which a run limits the share of missing answers."""
    return [file for files in verdict_files(plan).values() for file in files]


def people_labels(plan: Plan) -> list[str]:
    """Return the file of people's labels of this run's replies; empty if the configuration names no such file."""
    return [plan.run.human_labels] if plan.run.human_labels else []


# grades and scores ----------------------------------------------------------------------------------------------------


def tutor_verdicts(plan: Plan, judge: str, benchmark: str, tutor: str) -> str:
    """Return the file of a judge's verdicts on the batch that contains a tutor."""
    return paths.VERDICTS.of(judge=judge, benchmark=benchmark, batch=str(plan.judge_batch(benchmark, tutor)))


def weighted_items(plan: Plan, judge: str, benchmark: str, tutor: str) -> list[str]:
    """Return the item files of the tasks with weighted criteria that a tutor answers and a judge judges."""
    answered = plan.tasks_for(benchmark, tutor)
    return item_files(benchmark, [task for task in plan.weighted_tasks(judge, benchmark) if task in answered])


def judge_grades(plan: Plan, benchmark: str, tutor: str) -> list[str]:
    """Return the grade files for one tutor's replies, one for each judge."""
    return [
        paths.JUDGE_GRADES.of(benchmark=benchmark, judge=judge, tutor=tutor)
        for judge in plan.judges_of(benchmark, tutor)
    ]


def reward_grades(plan: Plan, benchmark: str, tutor: str) -> list[str]:
    """Return the grade files for one tutor's replies, one for each reward model; empty if no model scores them."""
    if benchmark not in plan.rewarded_benchmarks:
        return []
    if not any(tutor in tutors for tutors in plan.reward_batches(benchmark).values()):
        return []
    return [
        paths.REWARD_GRADES.of(benchmark=benchmark, reward_model=name, tutor=tutor) for name in plan.run.reward_models
    ]


def all_grades(plan: Plan, benchmark: str, tutor: str) -> list[str]:
    """Return all grade files for one tutor's replies: those of parsers, reward models and judges."""
    parsed = paths.PARSED.of(benchmark=benchmark, tutor=tutor)
    return [parsed, *reward_grades(plan, benchmark, tutor), *judge_grades(plan, benchmark, tutor)]


def compared_grades(plan: Plan, benchmark: str) -> list[str]:
    """Return all grade files of the tutors that are compared on a benchmark."""
    return [file for tutor in plan.compared_tutors(benchmark) for file in all_grades(plan, benchmark, tutor)]


# the whole run --------------------------------------------------------------------------------------------------------


def last_checks(plan: Plan) -> list[str]:
    """Return the outputs of a run's last two checks (of the page, of missing verdicts), and slices' last files."""
    return [
        plan.run_path(paths.REPORT_CHECK),
        *([plan.run_path(paths.JUDGE_CHECK)] if plan.run.judges else []),
        *(file for part in plan.slices for file in part.last_files(plan)),
    ]


def download_files(plan: Plan) -> list[str]:
    """Return every file that the run may have to download."""
    files = source_files(plan.used_datasets)
    files += [paths.PICTURE_LIST.of(dataset=name) for name in plan.pictured_datasets]
    models = plan.models
    return files + [paths.WEIGHTS.of(model=name) for name in plan.used_models if getattr(models[name], "weights", None)]
