"""Input files of rules: the function named after a rule maps the rule's wildcards to its files, by input name."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from maieutic.config import cards
from maieutic.config.cards import LoadedCard
from maieutic.config.models import CriteriaModel, RecordedModel, RewardModel
from maieutic.core import paths
from maieutic.judges import rubrics
from maieutic.judges.kinds.win_tie_lose import COMPARISON_RUBRIC
from maieutic.plan.plan import BASELINE_BATCH, Plan, training_pair_sources
from maieutic.scores.papers import printed_file
from maieutic.scores.printed import PAPERS

Files = dict[str, str | list[str]]


# files that several rules read ----------------------------------------------------------------------------------------


def card_files(benchmark: str, loaded_cards: Iterable[LoadedCard]) -> list[str]:
    """Return the files of the cards, prompts and few-shot texts of some tasks of a benchmark."""
    return [
        str(file)
        for loaded in loaded_cards
        for file in cards.card_inputs(cards.card_path(benchmark, loaded.card.task), loaded)
    ]


def card_yaml_files(benchmark: str, loaded_cards: Iterable[LoadedCard]) -> list[str]:
    """Return the card files of some tasks, without their prompts, for steps that only read replies."""
    return [file for file in card_files(benchmark, loaded_cards) if file.endswith(".yaml")]


def rubric_files(names: Iterable[str]) -> list[str]:
    """Return the files of rubric cards and their prompts."""
    return sorted({str(file) for name in names for file in rubrics.files_of_rubric(name)})


def item_files(benchmark: str, tasks: Iterable[str]) -> list[str]:
    """Return the item files of some tasks of a benchmark."""
    return [paths.ITEMS.of(benchmark=benchmark, task=task) for task in tasks]


def tasks_of(cards_here: Iterable[cards.Card]) -> list[str]:
    """Return the task names of some cards."""
    return [card.task for card in cards_here]


def label_files(releases: Iterable[str]) -> list[str]:
    """Return the files of labelled releases."""
    patterns = (paths.LABELLED_ITEMS, paths.LABELLED_REPLIES, paths.LABELS, paths.LABEL_ABOUT)
    return [pattern.of(release=release) for release in releases for pattern in patterns]


def source_files(datasets: Iterable[str]) -> list[str]:
    """Return the source files of datasets."""
    return [paths.SOURCE.of(dataset=dataset) for dataset in datasets]


def judge_pair_files(plan: Plan, judge: str) -> list[str]:
    """Return the files of the pairs on which a judge is validated; empty if it has no rubric for pairs."""
    return [paths.PAIRS.of(source=source) for source in plan.preferences] if plan.judge_entry(judge).pairs else []


def leading_pair_file(plan: Plan) -> str:
    """Return the file of the pairs that traffic lights and the comparison with the papers' tables are based on."""
    return paths.PAIRS.of(source=plan.leading_pairs)


def training_pair_files(plan: Plan, reward_model: str) -> list[str]:
    """Return the files of the pairs that a reward model was trained on, for the sources that the registry names."""
    return [paths.PAIRS.of(source=source) for source in training_pair_sources(plan.models[reward_model])]


def answering_weights(plan: Plan, judge: str) -> list[str]:
    """Return the weights manifest of the model that answers for a judge; empty unless this run serves it."""
    answering = plan.answering_entry(judge)
    return [paths.WEIGHTS.of(model=answering)] if answering in plan.with_engine("vllm") else []


def reward_model_weights(plan: Plan, reward_model: str) -> str:
    """Return the weights manifest of a reward model, trained here or published."""
    if reward_model in plan.trained_reward_models:
        return paths.TRAINED_WEIGHTS.of(reward_model=reward_model)
    return paths.WEIGHTS.of(model=reward_model)


def reward_model_prompt(plan: Plan, reward_model: str) -> list[str]:
    """Return the text file of a reward model's instruction; empty if it has none."""
    entry = plan.models[reward_model]
    assert isinstance(entry, RewardModel)
    return [] if entry.prompt == "none" else [str(paths.RESOURCES / f"rewards/{entry.prompt}.txt")]


def base_weights(plan: Plan, grader: str) -> str:
    """Return the weights manifest of the base model that a grader is trained from."""
    entry = plan.models[grader]
    assert isinstance(entry, RewardModel | CriteriaModel) and entry.train is not None
    return paths.WEIGHTS.of(model=entry.train.base)


def people_label_files(plan: Plan) -> list[str]:
    """Return the file of people's labels of this run's replies; empty if the run names none."""
    return [plan.run.human_labels] if plan.run.human_labels else []


def batch_verdicts(plan: Plan, judge: str, benchmark: str) -> list[str]:
    """Return the files of a judge's verdicts on the replies of all tutors to a benchmark."""
    return [paths.VERDICTS.of(judge=judge, benchmark=benchmark, batch=batch) for batch in plan.judge_batches(benchmark)]


def all_verdicts(plan: Plan, judge: str) -> list[str]:
    """Return the files of a judge's verdicts on the replies of all tutors to all benchmarks that it judges."""
    return [file for benchmark in plan.judged_benchmarks(judge) for file in batch_verdicts(plan, judge, benchmark)]


def compared_verdicts(plan: Plan, judge: str) -> list[str]:
    """Return the files of a judge's verdicts for the benchmarks in which it compares replies with a reference."""
    return [file for benchmark in plan.compared_benchmarks(judge) for file in batch_verdicts(plan, judge, benchmark)]


def verdict_files(plan: Plan) -> dict[str, list[str]]:
    """Return the files of all verdicts and tags, by judge or tagger."""
    judges = {name: [paths.LABELLED_VERDICTS.of(judge=name), *all_verdicts(plan, name)] for name in plan.run.judges}
    return judges | {
        name: [paths.TAGS.of(tagger=name, benchmark=benchmark) for benchmark in plan.pooled_benchmarks]
        for name in plan.run.taggers
    }


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


def difficulty_tutors(plan: Plan, benchmark: str) -> list[str]:
    """Return the tutors of `run.difficulty.tutors` whose replies to a benchmark are judged."""
    judged = [tutor for tutors in plan.judge_batches(benchmark).values() for tutor in tutors]
    return [tutor for tutor in plan.run.difficulty.tutors if tutor in judged]


# one function per rule ------------------------------------------------------------------------------------------------


def fetch_pictures(plan: Plan, dataset: str) -> Files:
    return {"source": paths.SOURCE.of(dataset=dataset)}


def prepare_weights(plan: Plan, model: str) -> Files:
    """Return the files of weights in a local folder, so that a change of these files is noticed."""
    path = getattr(getattr(plan.models[model], "weights", None), "path", None)
    return {"files": [str(file) for file in sorted(Path(path).glob("*.*"))] if path else []}


def make_items(plan: Plan, benchmark: str, task: str) -> Files:
    card = plan.card(benchmark, task)
    return {
        "source": paths.SOURCE.of(dataset=card.dataset),
        "pictures": [paths.PICTURE_LIST.of(dataset=card.dataset)] if card.images else [],
        "card": str(cards.card_path(benchmark, task)),
    }


def make_labels(plan: Plan, release: str) -> Files:
    entry = plan.label_sets[release]
    return {
        "sources": [entry.file] if entry.file else source_files(plan.label_datasets(release)),
        "rubrics": rubric_files([entry.rubric] if entry.rubric else []),
    }


def make_pairs(plan: Plan, source: str) -> Files:
    entry = plan.config.preferences.get(source)
    return {"sources": [entry.file] if entry and entry.file else source_files(plan.pair_datasets(source))}


def find_overlap(plan: Plan, source: str, benchmark: str) -> Files:
    return {
        "cases": item_files(benchmark, tasks_of(plan.reward_cards(benchmark))),
        "pairs": paths.PAIRS.of(source=source),
    }


def generate_replies(plan: Plan, benchmark: str, tutor: str) -> Files:
    served = tutor in plan.with_engine("vllm")
    return {
        "cases": item_files(benchmark, plan.tasks_for(benchmark, tutor)),
        "cards": card_files(benchmark, plan.cards_for(benchmark, tutor)),
        "weights": [paths.WEIGHTS.of(model=tutor)] if served else [],
    }


def generate_shard(plan: Plan, benchmark: str, tutor: str, shard: str) -> Files:
    return generate_replies(plan, benchmark, tutor)


def generate_all_replies(plan: Plan, tutor: str) -> Files:
    parts = [generate_replies(plan, benchmark, tutor) for benchmark in plan.benchmarks]
    return {
        "cases": [file for part in parts for file in part["cases"]],
        "cards": [file for part in parts for file in part["cards"]],
        "weights": parts[0]["weights"],
    }


def gather_shards(plan: Plan, benchmark: str, tutor: str) -> Files:
    shards = plan.shards_of(tutor)
    return {
        "replies": [paths.SHARD_REPLIES.of(benchmark=benchmark, tutor=tutor, shard=shard) for shard in shards],
        "prompts": [paths.SHARD_PROMPTS.of(benchmark=benchmark, tutor=tutor, shard=shard) for shard in shards],
    }


def sampled_tasks(plan: Plan, tutor: str) -> list[tuple[str, str]]:
    """Return the benchmark and task of each task of a tutor whose items are sampled; empty without `run.limit`."""
    if plan.run.limit is None:
        return []
    return [(name, task) for name in plan.benchmarks for task in plan.tasks_for(name, tutor)]


def read_replies(plan: Plan, benchmark: str, tutor: str) -> Files:
    entry = plan.models[tutor]
    assert isinstance(entry, RecordedModel)
    return {
        "file": entry.files,
        "sources": [
            paths.SOURCE.of(dataset=plan.card(name, task).dataset) for name, task in sampled_tasks(plan, tutor)
        ],
        "cases": [file for name in plan.benchmarks for file in item_files(name, plan.tasks_for(name, tutor))],
        "cards": card_files(benchmark, plan.cards_for(benchmark, tutor)),
    }


def write_questions(plan: Plan, benchmark: str, task: str) -> Files:
    loaded_cards = [loaded for loaded in plan.benchmarks[benchmark] if loaded.card.task == task]
    return {"cases": paths.ITEMS.of(benchmark=benchmark, task=task), "cards": card_files(benchmark, loaded_cards)}


def question_files(plan: Plan) -> list[str]:
    """Return the question files of a run, one per task: each contains the task's items and prompts."""
    return [
        paths.QUESTIONS.of(benchmark=benchmark, task=loaded.card.task)
        for benchmark, cards in plan.benchmarks.items()
        for loaded in cards
    ]


def train_reward_model(plan: Plan, reward_model: str) -> Files:
    sources = training_pair_sources(plan.models[reward_model])
    return {
        "pairs": [paths.PAIRS.of(source=source) for source in sources],
        "base": base_weights(plan, reward_model),
        "prompts": reward_model_prompt(plan, reward_model),
    }


def write_model_card(plan: Plan, reward_model: str) -> Files:
    sources = training_pair_sources(plan.models[reward_model])
    return {
        "training": paths.TRAINING.of(reward_model=reward_model),
        "pairs": leading_pair_file(plan),
        "rewards": paths.PAIR_REWARDS.of(reward_model=reward_model),
        "counts": [paths.PAIR_COUNTS.of(source=source) for source in sources],
    }


def score_pairs(plan: Plan, reward_model: str) -> Files:
    return {
        "weights": reward_model_weights(plan, reward_model),
        "pairs": leading_pair_file(plan),
        "labels": label_files([plan.reward_release]),
        "prompts": reward_model_prompt(plan, reward_model),
    }


def score_rewards(plan: Plan, reward_model: str, benchmark: str, batch: str) -> Files:
    tutors = plan.reward_batches(benchmark)[batch]
    return {
        "weights": reward_model_weights(plan, reward_model),
        "cases": item_files(benchmark, tasks_of(plan.reward_cards(benchmark))),
        "replies": [paths.REPLIES.of(benchmark=benchmark, tutor=tutor) for tutor in tutors],
        "prompts": reward_model_prompt(plan, reward_model),
    }


def train_criteria(plan: Plan, classifier: str) -> Files:
    return {
        "base": base_weights(plan, classifier),
        "labels": paths.SOURCE.of(dataset=plan.label_datasets(plan.classifier_release)[0]),
        "pairs": leading_pair_file(plan),
    }


def judge_replies(plan: Plan, judge: str, benchmark: str, batch: str) -> Files:
    return {
        "cases": item_files(benchmark, tasks_of(plan.judge_cards(benchmark, judge))),
        "replies": [
            paths.REPLIES.of(benchmark=benchmark, tutor=tutor) for tutor in plan.judge_batches(benchmark)[batch]
        ],
        "weights": answering_weights(plan, judge),
        "rubrics": rubric_files(plan.reply_rubrics(judge, benchmark)),
        "cards": card_yaml_files(benchmark, plan.benchmarks[benchmark]),
    }


def judge_all_replies(plan: Plan, judge: str, batch: str) -> Files:
    parts = [judge_replies(plan, judge, name, batch) for name in plan.benchmarks_of_batch(judge, batch)]
    kinds = ("cases", "replies", "rubrics", "cards")
    files = {kind: list(dict.fromkeys(file for part in parts for file in part[kind])) for kind in kinds}
    return {**files, "weights": answering_weights(plan, judge)}


def judge_labelled(plan: Plan, judge: str) -> Files:
    return {
        "labels": label_files(plan.judged_releases(judge)),
        "pairs": judge_pair_files(plan, judge),
        "weights": answering_weights(plan, judge),
        "rubrics": rubric_files(
            [*plan.label_rubrics(judge), *plan.judge_entry(judge).pairs, *plan.reworded_rubrics(judge)]
        ),
    }


def probe_verdicts(plan: Plan, judge: str) -> list[str]:
    """Return the files of a judge's verdicts on the probes."""
    return [paths.PROBE_VERDICTS.of(judge=judge, probe=probe) for probe in plan.probes]


def validate_probes(plan: Plan, grader: str) -> Files:
    return {
        "labels": label_files(plan.validating_releases(grader)),
        "verdicts": paths.LABELLED_VERDICTS.of(judge=grader),
        "probes": probe_verdicts(plan, grader),
    }


def judge_by_words(plan: Plan, judge: str, benchmark: str, batch: str) -> Files:
    files = judge_replies(plan, judge, benchmark, batch)
    return {key: files[key] for key in ("cases", "replies", "rubrics", "cards")}


def judge_labelled_by_words(plan: Plan, judge: str) -> Files:
    return {"labels": label_files(plan.judged_releases(judge)), "rubrics": rubric_files(plan.label_rubrics(judge))}


def combine_verdicts(plan: Plan, judge: str, benchmark: str, batch: str) -> Files:
    return {
        "verdicts": [
            paths.VERDICTS.of(judge=name, benchmark=benchmark, batch=batch) for name in plan.judge_entry(judge).judges
        ],
        "weights": paths.PANEL_WEIGHTS.of(judge=judge),
        "rubrics": rubric_files(plan.reply_rubrics(judge, benchmark)),
    }


def combine_labelled(plan: Plan, judge: str) -> Files:
    return {
        "verdicts": [paths.LABELLED_VERDICTS.of(judge=name) for name in plan.judge_entry(judge).judges],
        "labels": label_files(plan.validating_releases(judge)),
        "pairs": judge_pair_files(plan, judge),
        "rubrics": rubric_files([*plan.label_rubrics(judge), *plan.judge_entry(judge).pairs]),
    }


def tag_items(plan: Plan, tagger: str, benchmark: str) -> Files:
    return {
        "cases": item_files(benchmark, tasks_of(plan.pooled_cards(benchmark))),
        "weights": answering_weights(plan, tagger),
        "rubrics": rubric_files(plan.judge_entry(tagger).tags),
    }


def parse_replies(plan: Plan, benchmark: str, tutor: str) -> Files:
    return {
        "cases": item_files(benchmark, plan.tasks_for(benchmark, tutor)),
        "replies": paths.REPLIES.of(benchmark=benchmark, tutor=tutor),
        "cards": card_yaml_files(benchmark, plan.cards_for(benchmark, tutor)),
    }


def grade_by_rewards(plan: Plan, reward_model: str, benchmark: str, tutor: str) -> Files:
    """Return the inputs of a grading job, with the human reference's rewards and the overlap with training pairs."""
    batches = plan.reward_batches(benchmark)
    own_batch = next(name for name, tutors in batches.items() if tutor in tutors)
    return {
        "cases": item_files(benchmark, tasks_of(plan.reward_cards(benchmark))),
        "replies": paths.REPLIES.of(benchmark=benchmark, tutor=tutor),
        "rewards": [
            paths.REWARDS.of(reward_model=reward_model, benchmark=benchmark, batch=batch)
            for batch in sorted({own_batch, BASELINE_BATCH})
        ],
        "overlaps": [
            paths.OVERLAP.of(source=source, benchmark=benchmark)
            for source in training_pair_sources(plan.models[reward_model])
        ],
    }


def grade_verdicts(plan: Plan, judge: str, benchmark: str, tutor: str) -> Files:
    batch = str(plan.judge_batch(benchmark, tutor))
    weighted = plan.weighted_tasks(judge, benchmark)
    answered = plan.tasks_for(benchmark, tutor)
    return {
        "verdicts": paths.VERDICTS.of(judge=judge, benchmark=benchmark, batch=batch),
        "cases": item_files(benchmark, [task for task in weighted if task in answered]),
        "rubrics": rubric_files(plan.reply_rubrics(judge, benchmark)),
    }


def score_replies(plan: Plan, benchmark: str, tutor: str) -> Files:
    return {
        "cases": item_files(benchmark, plan.tasks_for(benchmark, tutor)),
        "grades": all_grades(plan, benchmark, tutor),
        "cards": card_yaml_files(benchmark, plan.cards_for(benchmark, tutor)),
    }


def compare_tutors(plan: Plan, benchmark: str) -> Files:
    loaded_cards = plan.benchmarks[benchmark]
    return {
        "cases": item_files(benchmark, tasks_of(loaded.card for loaded in loaded_cards)),
        "grades": [file for tutor in plan.compared_tutors(benchmark) for file in all_grades(plan, benchmark, tutor)],
        "cards": card_yaml_files(benchmark, loaded_cards),
    }


def break_down(plan: Plan, benchmark: str, tutor: str) -> Files:
    return {
        "cases": item_files(benchmark, tasks_of(plan.pooled_cards(benchmark))),
        "grades": judge_grades(plan, benchmark, tutor),
        "votes": [paths.VOTES.of(benchmark=benchmark)] if plan.run.taggers else [],
        "cards": card_yaml_files(benchmark, plan.benchmarks[benchmark]),
    }


def filter_by_difficulty(plan: Plan, benchmark: str) -> Files:
    judge = plan.leading_judge(benchmark)
    return {
        "cases": item_files(benchmark, tasks_of(plan.pooled_cards(benchmark))),
        "grades": [
            paths.JUDGE_GRADES.of(benchmark=benchmark, judge=judge, tutor=tutor)
            for tutor in difficulty_tutors(plan, benchmark)
        ],
    }


def vote_tags(plan: Plan, benchmark: str) -> Files:
    return {
        "cases": item_files(benchmark, tasks_of(plan.pooled_cards(benchmark))),
        "tags": [paths.TAGS.of(tagger=name, benchmark=benchmark) for name in plan.run.taggers],
    }


def score_labels(plan: Plan, release: str) -> Files:
    return {
        "labels": label_files([release]),
        "embedded": [paths.CLOSENESS.of(encoder=name, release=release) for name in plan.run.encoders],
    }


def embed_replies(plan: Plan, encoder: str, release: str) -> Files:
    return {"weights": paths.WEIGHTS.of(model=encoder), "labels": label_files([release])}


def write_submission(plan: Plan, judge: str, release: str) -> Files:
    return {
        "source": source_files(plan.label_datasets(release)),
        "verdicts": paths.LABELLED_VERDICTS.of(judge=judge),
    }


def validate_reward_model(plan: Plan, grader: str) -> Files:
    return {
        "pairs": leading_pair_file(plan),
        "rewards": paths.PAIR_REWARDS.of(reward_model=grader),
        "training": training_pair_files(plan, grader),
    }


def validate_reward_on_pairs(plan: Plan, grader: str, source: str) -> Files:
    return {
        "pairs": paths.PAIRS.of(source=source),
        "rewards": paths.SET_REWARDS.of(reward_model=grader, source=source),
        "training": training_pair_files(plan, grader),
    }


def score_preferences(plan: Plan, reward_model: str, source: str) -> Files:
    return {
        "weights": reward_model_weights(plan, reward_model),
        "pairs": paths.PAIRS.of(source=source),
        "labels": [],
        "prompts": reward_model_prompt(plan, reward_model),
    }


def classify_pairs(plan: Plan, classifier: str, source: str) -> Files:
    return {"trained": paths.CLASSIFIER_TRAINING.of(classifier=classifier), "pairs": paths.PAIRS.of(source=source)}


def validate_criteria_on_pairs(plan: Plan, grader: str, source: str) -> Files:
    return {
        "pairs": paths.PAIRS.of(source=source),
        "heldout": paths.HELDOUT.of(classifier=grader),
        "classified": paths.SET_CLASSIFIED.of(classifier=grader, source=source),
    }


def validate_criteria(plan: Plan, grader: str) -> Files:
    return {
        "pairs": leading_pair_file(plan),
        "heldout": paths.HELDOUT.of(classifier=grader),
        "classified": paths.CLASSIFIED_PAIRS.of(classifier=grader),
    }


def validate_judge(plan: Plan, grader: str) -> Files:
    return {
        "labels": label_files(plan.validating_releases(grader)),
        "pairs": judge_pair_files(plan, grader),
        "verdicts": paths.LABELLED_VERDICTS.of(judge=grader),
        "single": [paths.LABELLED_VERDICTS.of(judge=name) for name in plan.judge_entry(grader).judges],
    }


def validate_reward_on_labels(plan: Plan, grader: str) -> Files:
    return {
        "labels": label_files([plan.reward_release]),
        "rewards": paths.LABELLED_REWARDS.of(reward_model=grader),
    }


def validate_criteria_on_labels(plan: Plan, grader: str) -> Files:
    return {
        "labels": label_files(plan.validating_releases(grader)),
        "heldout": paths.HELDOUT.of(classifier=grader),
    }


def correct_by_people(plan: Plan, judge: str) -> Files:
    return {"people": people_label_files(plan), "verdicts": all_verdicts(plan, judge)}


def align_judge(plan: Plan, judge: str) -> Files:
    return {
        "people": people_label_files(plan),
        "verdicts": compared_verdicts(plan, judge),
        "rubrics": rubric_files([COMPARISON_RUBRIC, *plan.judge_entry(judge).rubrics]),
    }


def rate_judge(plan: Plan, judge: str, benchmark: str) -> Files:
    return {
        "people": people_label_files(plan),
        "cases": item_files(benchmark, tasks_of(plan.pooled_cards(benchmark))),
        "verdicts": batch_verdicts(plan, judge, benchmark),
    }


# the report -----------------------------------------------------------------------------------------------------------


def files_by_tutor(plan: Plan, pattern: paths.Pattern) -> list[str]:
    """Return a path of the pattern for each benchmark and each tutor that answers the benchmark."""
    return [
        pattern.of(benchmark=benchmark, tutor=tutor)
        for benchmark in plan.benchmarks
        for tutor in plan.tutors_on(benchmark)
    ]


def build_report(plan: Plan) -> Files:
    return {
        "config": plan.run_path(paths.CONFIG),
        "provenance": plan.run_path(paths.PROVENANCE),
        "scores": files_by_tutor(plan, paths.SCORES),
        "grades": [
            file
            for benchmark in plan.benchmarks
            for tutor in plan.tutors_on(benchmark)
            for file in all_grades(plan, benchmark, tutor)
        ],
        "replies": files_by_tutor(plan, paths.REPLIES),
        "graders": sorted({*grader_files(plan), *validation_files(plan)}),
        "differences": [
            paths.DIFFERENCES.of(benchmark=name) for name in plan.benchmarks if len(plan.compared_tutors(name)) > 1
        ],
        "pooled": pooled_files(plan),
        "labels": label_files(plan.releases),
        "pairs": [leading_pair_file(plan)] if plan.run.reward_models else [],
        "printed": printed_files(plan),
    }


def printed_files(plan: Plan) -> list[str]:
    """Return the files that contain the papers' published tables, which the report compares with this run's numbers."""
    return [str(path) for path in map(printed_file, {**plan.benchmarks, **PAPERS}) if path.exists()]


def grader_files(plan: Plan) -> list[str]:
    """Return the files for the report's section on reward models and classifiers."""
    graders = [*plan.reward_models, *plan.classifiers]
    files = [paths.PAIR_VALIDATION.of(grader=name) for name in graders]
    files += [paths.SET_VALIDATION.of(grader=name, source=source) for name in graders for source in plan.further_pairs]
    files += [paths.PAIR_REWARDS.of(reward_model=name) for name in plan.reward_models]
    trained = plan.trained_reward_models
    files += [pattern.of(reward_model=name) for name in trained for pattern in (paths.MODEL_CARD, paths.TRAINING)]
    files += [paths.CLASSIFIER_TRAINING.of(classifier=name) for name in plan.classifiers]
    files += [paths.PAIR_COUNTS.of(source=source) for source in plan.used_sources]
    for benchmark in plan.rewarded_benchmarks:
        for name in plan.run.reward_models:
            files += [
                paths.REWARDS.of(reward_model=name, benchmark=benchmark, batch=batch)
                for batch in plan.reward_batches(benchmark)
            ]
            files += [
                paths.OVERLAP.of(source=source, benchmark=benchmark)
                for source in training_pair_sources(plan.models[name])
            ]
    return files


def validation_files(plan: Plan) -> list[str]:
    """Return the files for the report's sections on validation and on labels."""
    judges = plan.run.judges
    files = [paths.LABEL_VALIDATION.of(grader=name) for name in (*plan.reward_models, *plan.classifiers, *judges)]
    files += [paths.PAIR_VALIDATION.of(grader=name) for name in judges]
    files += [
        paths.SET_VALIDATION.of(grader=name, source=source)
        for name in judges
        if plan.judge_entry(name).pairs
        for source in plan.further_pairs
    ]
    files += [paths.LABEL_STATISTICS.of(release=release) for release in plan.releases]
    files += [
        paths.LABEL_SCORES.of(release=release) for release in plan.releases if plan.label_source(release).labelled
    ]
    files += [file for name in judges for file in all_verdicts(plan, name)]
    files += [paths.LABELLED_VERDICTS.of(judge=name) for name in judges]
    files += [paths.PROBE_VALIDATION.of(grader=name) for name in plan.probed_judges]
    files += [file for name in plan.probed_judges for file in probe_verdicts(plan, name)]
    files += [paths.PANEL_WEIGHTS.of(judge=name) for name in plan.panels]
    if plan.run.human_labels:
        patterns = (paths.CORRECTED, paths.CORRECTED_DIFFERENCES)
        files += [pattern.of(judge=name) for name in judges if all_verdicts(plan, name) for pattern in patterns]
        files += [paths.ALIGNMENT.of(judge=name) for name in judges if compared_verdicts(plan, name)]
    return files


def pooled_files(plan: Plan) -> list[str]:
    """Return the files that the report shows beside the scores of pooled tasks."""
    files = []
    for benchmark in plan.pooled_benchmarks:
        files += [paths.BREAKDOWN.of(benchmark=benchmark, tutor=tutor) for tutor in plan.tutors_on(benchmark)]
        files += [paths.VOTES.of(benchmark=benchmark)] if plan.run.taggers else []
        files += [paths.DIFFICULTY.of(benchmark=benchmark)] if plan.run.difficulty.tutors else []
        if plan.run.human_labels:
            files += [paths.RATERS.of(judge=judge, benchmark=benchmark) for judge in plan.pooled_judges(benchmark)]
    return files


def check_judges(plan: Plan) -> Files:
    return {
        "page": plan.run_path(paths.PAGE),
        "verdicts": [file for files in verdict_files(plan).values() for file in files],
    }


def last_checks(plan: Plan) -> list[str]:
    """Return a run's submissions, and the outputs of its last two checks: of the page and of missing verdicts."""
    submissions = [
        paths.SUBMISSION.of(release=release, judge=judge)
        for judge in plan.run.judges
        for release in plan.predicted_releases(judge)
    ]
    return [
        plan.run_path(paths.REPORT_CHECK),
        *([plan.run_path(paths.JUDGE_CHECK)] if plan.run.judges else []),
        *submissions,
    ]


def download_files(plan: Plan) -> list[str]:
    """Return every file that the run may have to download."""
    files = source_files(plan.used_datasets)
    files += [paths.PICTURE_LIST.of(dataset=name) for name in plan.pictured_datasets]
    models = plan.models
    return files + [paths.WEIGHTS.of(model=name) for name in plan.used_models if getattr(models[name], "weights", None)]
