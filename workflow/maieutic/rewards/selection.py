"""What follows from the graders that a run selects: sources, datasets, entries, and which tutors share a job."""

from __future__ import annotations

from maieutic.cards import REWARD, Card
from maieutic.models import BaselineModel
from maieutic.rewards.checks import sources_of
from maieutic.rewards.pairs import TEST_SOURCE
from maieutic.settings import Config, benchmarks_of, takes, tutors_of

BASELINE_BATCH = "_baselines"  # no model can have this name


def graders_of(config: Config) -> list[str]:
    """The reward models of a run, and those that are measured only."""
    return [*config.run.reward_models, *config.run.reward_comparisons]


def classifiers_of(config: Config) -> list[str]:
    """The criteria classifiers of a run."""
    return config.run.classifiers


def judges_of_pairs(config: Config) -> list[str]:
    """The judges that are measured on the test pairs."""
    return [name for name in config.run.judges if getattr(config.models[name], "pairs", None)]


def used_sources(config: Config) -> list[str]:
    """The sources of pairs of a run: what its reward models are trained on, and the test pairs."""
    if not (graders_of(config) or classifiers_of(config) or judges_of_pairs(config)):
        return []
    return sorted({TEST_SOURCE, *(source for name in graders_of(config) for source in sources_of(config.models[name]))})


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
    return batches_of(config, reward_cards(config, benchmark), config.run.tutors_per_reward_job)


def batches_of(config: Config, cards: list[Card], size: int) -> dict[str, list[str]]:
    """Tutors that share a job, by the batch's name: the baselines of some cards in one, the others by `size`."""
    named = {name for card in cards for name in card.baselines.named}
    tutors = tutors_of(config)
    baselines = [name for name in tutors if isinstance(config.models[name], BaselineModel) and name in named]
    others = [name for name in tutors if not isinstance(config.models[name], BaselineModel)]
    others = [name for name in others if any(takes(config, card, name) for card in cards)]
    batches = {BASELINE_BATCH: baselines}
    for start in range(0, len(others), size):
        members = others[start : start + size]
        batches[members[0] if size == 1 else f"_tutors{start // size}"] = members
    return batches


def human_reference(config: Config, benchmark: str) -> str:
    """The baseline tutor whose replies a reward model compares with: the ceiling of the cards that it scores."""
    return reward_cards(config, benchmark)[0].baselines.ceiling
