"""What follows from the judges that a run selects: which tasks they judge, which tutors share a job, what is read."""

from __future__ import annotations

from maieutic.cards import JUDGE, Card
from maieutic.judges.labels import LABEL_SOURCES
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


def label_sources(config: Config) -> list[str]:
    """The labelled releases that this run reads: for its graders, and for a benchmark's own tables."""
    wanted = set(config.run.labels if config.run.judges else [])
    wanted |= {source for source in config.run.labels if LABEL_SOURCES[source].dataset in card_datasets(config)}
    if graders_of(config):
        wanted.add((config.run.labels or [FIRST])[0])
    if classifiers_of(config):
        wanted.add(FIRST)
    return [source for source in LABEL_SOURCES if source in wanted]


def card_datasets(config: Config) -> set[str]:
    """The datasets of the selected cards."""
    return {loaded.card.dataset for loaded in config.cards.values()}


def release_for(config: Config, name: str) -> str | None:
    """The labelled release that speaks for a grader: the run's first; for classifiers the one that they learn from."""
    model = config.models[name]
    if isinstance(model, CriteriaModel):
        return FIRST
    if isinstance(model, JudgeModel):
        return config.run.labels[0] if config.run.labels and checked_on_labels(config, name) else None
    return (config.run.labels or [FIRST])[0]


def limit_of(config: Config, name: str) -> int | None:
    """How many labelled replies of each release, and pairs, a judge is checked on; None: all."""
    return judge_entry(config, name).label_limit or config.run.label_limit


def unreadable_limit(config: Config, name: str) -> float:
    """The share of a judge's verdicts that may be unreadable."""
    own = judge_entry(config, name).max_unreadable
    return config.run.max_unreadable if own is None else own


def checked_on_labels(config: Config, name: str) -> bool:
    """Whether a judge has a rubric for the labelled releases."""
    return rubric_for_labels(judge_entry(config, name)) is not None


def rubric_names(config: Config, name: str) -> list[str]:
    """Every rubric card that a judge may use."""
    judge = judge_entry(config, name)
    return [*judge.rubrics, *judge.pairs, *judge.tags]
