"""What follows from the graders that a run selects: sources, datasets, entries, and which tutors share a job."""

from __future__ import annotations

from maieutic.cards import REWARD, Card
from maieutic.models import BaselineModel
from maieutic.rewards.checks import sources_of
from maieutic.rewards.pairs import PAIR_SOURCES, TEST_SOURCE
from maieutic.settings import Config, benchmarks_of, tutors_of

BASELINE_BATCH = "_baselines"  # no model can have this name


def graders_of(config: Config) -> list[str]:
    """The reward models of a run, and those that are measured only."""
    return [*config.run.reward_models, *config.run.reward_comparisons]


def used_sources(config: Config) -> list[str]:
    """The sources of pairs of a run: what its reward models are trained on, and the test pairs."""
    if not (graders_of(config) or config.run.classifiers):
        return []
    return sorted({TEST_SOURCE, *(source for name in graders_of(config) for source in sources_of(config.models[name]))})


def used_models(config: Config) -> list[str]:
    """Every registry entry that a run needs, the bases of its reward models and classifiers among them."""
    graders = [*graders_of(config), *config.run.classifiers]
    trains = [getattr(config.models[name], "train", None) for name in graders]
    return list(dict.fromkeys([*tutors_of(config), *graders, *(train.base for train in trains if train)]))


def used_datasets(config: Config) -> list[str]:
    """Every source file that a run needs."""
    found = {loaded.card.dataset for loaded in config.cards.values()}
    found |= {dataset for source in used_sources(config) for dataset in PAIR_SOURCES[source].datasets}
    return sorted(found)


def reward_cards(config: Config, benchmark: str) -> list[Card]:
    """The selected tasks of a benchmark whose replies reward models score."""
    return [one.card for one in benchmarks_of(config)[benchmark] if REWARD in one.card.graders]


def rewarded_benchmarks(config: Config) -> list[str]:
    """The benchmarks with such a task."""
    return [benchmark for benchmark in benchmarks_of(config) if reward_cards(config, benchmark)]


def reward_batches(config: Config, benchmark: str) -> dict[str, list[str]]:
    """Which tutors share one load of a reward model's weights, by the batch's name.

    The baselines cannot fail and share one batch, the human reference among them. A tutor that fails holds up its own.
    """
    cards = reward_cards(config, benchmark)
    named = {name for card in cards for name in [*card.baselines.floor, card.baselines.ceiling]}
    tutors = tutors_of(config)
    baselines = [name for name in tutors if isinstance(config.models[name], BaselineModel) and name in named]
    others = [name for name in tutors if not isinstance(config.models[name], BaselineModel)]
    size = config.run.tutors_per_reward_job
    batches = {BASELINE_BATCH: baselines}
    for start in range(0, len(others), size):
        members = others[start : start + size]
        batches[members[0] if size == 1 else f"_tutors{start // size}"] = members
    return batches


def human_reference(config: Config, benchmark: str) -> str:
    """The baseline tutor whose replies a reward model compares with: the ceiling of the cards that it scores."""
    return reward_cards(config, benchmark)[0].baselines.ceiling
