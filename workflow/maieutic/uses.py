"""What a run uses of the registries: the effective configuration and the login node's downloads are cut down to it."""

from __future__ import annotations

from maieutic.judges.selection import judge_entry, label_datasets, label_sources
from maieutic.rewards.pairs import PAIR_SOURCES
from maieutic.rewards.selection import classifiers_of, graders_of, used_sources
from maieutic.settings import Config, tutors_of


def used_models(config: Config) -> list[str]:
    """Every registry entry that a run needs: tutors, graders, the bases that they are trained on, what answers."""
    graders = [*graders_of(config), *classifiers_of(config)]
    trains = [getattr(config.models[name], "train", None) for name in graders]
    bases = [train.base for train in trains if train]
    judges = [*config.run.judges, *config.run.taggers]
    answering = [judge_entry(config, name).model for name in judges]
    return list(dict.fromkeys([*tutors_of(config), *graders, *bases, *judges, *answering]))


def pictured_datasets(config: Config) -> list[str]:
    """The datasets whose pictures a run needs."""
    return sorted({loaded.card.dataset for loaded in config.cards.values() if loaded.card.images})


def used_datasets(config: Config) -> list[str]:
    """Every source file that a run needs."""
    found = {loaded.card.dataset for loaded in config.cards.values()}
    found |= {dataset for source in used_sources(config) for dataset in PAIR_SOURCES[source].datasets}
    found |= {dataset for release in label_sources(config) for dataset in label_datasets(config, release)}
    return sorted(found)
