"""What follows from the judges that a run selects: which tasks they judge, which tutors share a job, what is read."""

from __future__ import annotations

from maieutic.cards import JUDGE, Card
from maieutic.judges.labels import LABEL_SOURCES, LabelSource
from maieutic.judges.ppi import COMPARISONS
from maieutic.judges.work import rubric_for_labels
from maieutic.models import CriteriaModel, JudgeModel
from maieutic.rewards.selection import batches_of, classifiers_of, graders_of
from maieutic.settings import Config, benchmarks_of, judges_of_card

FIRST = "mrbench"  # whose labels classifiers learn from and are held back from


def judge_cards(config: Config, benchmark: str, judge: str | None = None) -> list[Card]:
    """The selected tasks of a benchmark whose replies judges judge, or one judge does."""
    judged = [one.card for one in benchmarks_of(config)[benchmark] if JUDGE in one.card.graders]
    return [card for card in judged if judge is None or judge in judges_of_card(config, card)]


def judged_benchmarks(config: Config, judge: str | None = None) -> list[str]:
    """The benchmarks with such a task."""
    return [benchmark for benchmark in benchmarks_of(config) if judge_cards(config, benchmark, judge)]


def compared_benchmarks(config: Config, judge: str | None = None) -> list[str]:
    """The benchmarks with a task whose replies are compared with a reference."""
    judged = {name: judge_cards(config, name, judge) for name in benchmarks_of(config)}
    return [name for name, cards in judged.items() if any(COMPARISONS in card.rubrics for card in cards)]


def pooled_cards(config: Config, benchmark: str) -> list[Card]:
    """The judged tasks of a benchmark that are scored together."""
    return [card for card in judge_cards(config, benchmark) if card.pool]


def pooled_benchmarks(config: Config) -> list[str]:
    """The benchmarks with such tasks."""
    return [benchmark for benchmark in benchmarks_of(config) if pooled_cards(config, benchmark)]


def leading_judge(config: Config, benchmark: str) -> str:
    """The judge whose verdicts head the pooled tasks of a benchmark."""
    return pooled_judges(config, benchmark)[0]


def pooled_judges(config: Config, benchmark: str) -> list[str]:
    """The judges of the pooled tasks of a benchmark."""
    named = [judges_of_card(config, card) for card in pooled_cards(config, benchmark)]
    return list(dict.fromkeys(name for of in named for name in of))


def judge_batches(config: Config, benchmark: str) -> dict[str, list[str]]:
    """Which tutors share one start of a judge's server, by the batch's name."""
    return batches_of(config, judge_cards(config, benchmark), config.run.tutors_per_judge_job)


def judge_entry(config: Config, name: str) -> JudgeModel:
    """A judge's entry."""
    judge = config.models[name]
    assert isinstance(judge, JudgeModel)
    return judge


def chosen_releases(config: Config) -> list[str]:
    """The labelled releases that the run names; where it names none, those that its judges and its tasks fit."""
    if config.run.labels is not None:
        return config.run.labels
    judges = [judge_entry(config, name) for name in config.run.judges]
    asked = {loaded.card.dataset for loaded in config.cards.values()}  # people's tables stand beside such a task

    def fits(name: str, source: LabelSource) -> bool:
        asks_it = source.taxonomy and not asked.isdisjoint(source.datasets)
        return asks_it or any(rubric_for_labels(judge, name) for judge in judges)

    return [name for name, source in LABEL_SOURCES.items() if source.pick and fits(name, source)]


def label_sources(config: Config) -> list[str]:
    """Every labelled release that this run reads: what it names, and what its graders are checked on besides."""
    wanted = {*chosen_releases(config), *config.run.predictions}
    if graders_of(config):
        wanted.add(reward_release(config))
    if classifiers_of(config):
        wanted.add(FIRST)
    return [source for source in LABEL_SOURCES if source in wanted]


def reward_release(config: Config) -> str:
    """The release whose labels reward models are compared with: the run's first of MRBench's dimensions."""
    return next((name for name in chosen_releases(config) if LABEL_SOURCES[name].taxonomy), FIRST)


def label_datasets(config: Config, source: str) -> list[str]:
    """The datasets of a release that this edition has: the demo has one of several."""
    names = list(LABEL_SOURCES[source].datasets)
    if config.edition == "published":
        return names
    return [name for name in names if (known := config.datasets.get(name)) and known.demo is not None] or names[:1]


def releases_for(config: Config, name: str) -> list[str]:
    """The labelled releases that speak for a grader: those that a judge has a rubric for, the first one first.

    For classifiers it is the one that they learn from; for reward models one of MRBench's dimensions.
    """
    model = config.models[name]
    if isinstance(model, CriteriaModel):
        return [FIRST]
    if isinstance(model, JudgeModel):
        return [source for source in chosen_releases(config) if rubric_for_labels(model, source)]
    return [reward_release(config)]


def taxonomy_release(config: Config, name: str) -> str | None:
    """The first release of MRBench's dimensions that speaks for a grader."""
    return next((source for source in releases_for(config, name) if LABEL_SOURCES[source].taxonomy), None)


def is_blind(config: Config, judge: str, card: Card) -> bool:
    """Whether a judge judges replies to a task with pictures, and is not shown them."""
    answering = config.models[judge_entry(config, judge).model]
    return card.images and not getattr(answering, "images", False)


def limit_of(config: Config, name: str) -> int | None:
    """How many labelled replies of each release, and pairs, a judge is checked on; None: all."""
    return judge_entry(config, name).label_limit or config.run.label_limit


def unreadable_limit(config: Config, name: str) -> float:
    """The share of a judge's verdicts that may be unreadable."""
    own = judge_entry(config, name).max_unreadable
    return config.run.max_unreadable if own is None else own


def predicted_releases(config: Config, name: str) -> list[str]:
    """The releases without labels that a judge predicts."""
    return [source for source in config.run.predictions if rubric_for_labels(judge_entry(config, name), source)]


def rubric_names(config: Config, name: str) -> list[str]:
    """Every rubric card that a judge may use."""
    judge = judge_entry(config, name)
    return [*judge.rubrics, *judge.pairs, *judge.tags]
