"""Can the judges of a run judge? Names, pins, rubric cards, labelled data, before any work."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from maieutic.cards import JUDGE
from maieutic.datasets import LOADERS
from maieutic.errors import UserError
from maieutic.judges.labels import LABEL_SOURCES
from maieutic.judges.ppi import read_people
from maieutic.judges.rubrics import RUBRICS, check_rubric_variables, read_rubric, rubric_path
from maieutic.judges.work import PAIR_VARIABLES, offered_by, rubric_for_labels, rubric_of
from maieutic.models import HostedModel, JudgeModel, VllmModel
from maieutic.registry import check_entry, unknown

if TYPE_CHECKING:  # settings checks a configuration with what is here
    from maieutic.settings import Config


def check_judges(config: Config) -> None:
    """Every judge exists, once, answers by a pinned model, and has a rubric for whatever it is to judge."""
    for number, name in enumerate(config.run.judges):
        key = f"run.judges[{number}]"
        check_entry(config.models, key, name, (JudgeModel,), "a judge")
        if config.run.judges.count(name) > 1:
            raise UserError(key, f"{name!r} is listed twice", "list it once")
        check_judge(config, name)
        judge = config.models[name]
        if isinstance(judge, JudgeModel) and not judge.rubrics and not judge.pairs:
            raise UserError(key, f"{name!r} only tags", "list it in run.taggers, or give it rubrics")
    check_coverage(config)
    check_taggers(config)
    check_labels(config)


def check_coverage(config: Config) -> None:
    """Every task that is judged has a judge with a rubric for it."""
    rubrics = [rubric for name in config.run.judges for rubric in getattr(config.models[name], "rubrics", [])]
    for loaded in config.cards.values():
        card = loaded.card
        if rubrics and JUDGE in card.graders and not set(rubrics) & set(card.rubrics):
            raise UserError(
                "run.judges",
                f"none of {', '.join(config.run.judges)} has a rubric for {card.benchmark}/{card.task}",
                f"its card takes {', '.join(card.rubrics)}: name one in a judge's `rubrics`, or leave the task out",
            )


def check_taggers(config: Config) -> None:
    """Every tagger exists, and has rubrics about items or criteria; tutors of the difficulty filter are of the run."""
    for number, name in enumerate(config.run.taggers):
        key = f"run.taggers[{number}]"
        check_entry(config.models, key, name, (JudgeModel,), "a judge")
        judge = config.models[name]
        assert isinstance(judge, JudgeModel)
        if not judge.tags or config.run.taggers.count(name) > 1:
            raise UserError(key, f"{name!r} has no rubrics to tag by, or is listed twice", f"set models.{name}.tags")
        check_judge(config, name)
    wanted = config.run.difficulty
    if wanted.tutors and wanted.at_least > len(wanted.tutors):
        raise UserError(
            "run.difficulty.at_least",
            f"{wanted.at_least} of {len(wanted.tutors)} tutors can never fail",
            "a number up to that of the tutors",
        )
    pooled = [one.card for one in config.cards.values() if one.card.pool and JUDGE in one.card.graders]
    if (wanted.tutors or config.run.taggers) and not pooled:
        raise UserError(
            "run.difficulty" if wanted.tutors else "run.taggers",
            "no selected task has items with criteria of their own that a judge judges",
            "add tutorbench to run.tasks and its judge to run.judges, or leave the key out",
        )
    for number, name in enumerate(wanted.tutors):
        if name not in config.run.tutors:
            raise unknown(f"run.difficulty.tutors[{number}]", name, config.run.tutors, "run.tutors")


def check_people(config: Config) -> None:
    """The labels that people gave to this run's replies can be read. For a run's start: the report needs no file."""
    if config.run.human_labels is None:
        return
    if not config.run.judges:
        raise UserError("run.human_labels", "labels by people correct a judge, and run.judges is empty", "name one")
    if not any(JUDGE in loaded.card.graders for loaded in config.cards.values()):
        raise UserError(
            "run.human_labels", "no selected task is judged", "add mrbench to run.tasks, or drop the labels"
        )
    judged = {loaded.card.task for loaded in config.cards.values() if JUDGE in loaded.card.graders}
    for label in read_people(Path(config.run.human_labels)):
        if label.task not in judged:
            raise UserError(
                config.run.human_labels,
                f"{label.task} is no judged task of this run",
                f"one of {', '.join(sorted(judged))}",
            )


def check_judge(config: Config, name: str) -> None:
    """One judge: the model that answers, and the cards that it judges by."""
    judge = config.models[name]
    assert isinstance(judge, JudgeModel)
    key = f"models.{name}"
    check_entry(config.models, f"{key}.model", judge.model, (VllmModel, HostedModel), "a model that answers")
    model = config.models[judge.model]
    if isinstance(model, VllmModel):
        model.weights.refuse_unpinned(f"models.{judge.model}.weights")
    named = [*judge.rubrics, *judge.pairs, *judge.tags]
    for rubric in named:
        read_rubric(rubric)
        if named.count(rubric) > 1:
            raise UserError(key, f"{rubric} is listed twice", "list it once")
        if (read_rubric(rubric).rubric.about != "replies") != (rubric in judge.tags):
            raise UserError(key, f"{rubric} is not about what it is listed for", "`tags` are of items and criteria")
    for rubric in judge.pairs:
        loaded = read_rubric(rubric)
        if loaded.rubric.kind != "pairwise":
            raise UserError(f"{key}.pairs", f"{rubric} is of kind {loaded.rubric.kind}", "name one of kind pairwise")
        if not loaded.rubric.both_orders:
            raise UserError(str(rubric_path(rubric)), "one order alone measures the place", "set both_orders: true")
        check_rubric_variables(loaded, PAIR_VARIABLES)
    for loaded_card in config.cards.values():
        card = loaded_card.card
        if JUDGE in card.graders and set(judge.rubrics) & set(card.rubrics):
            loaded = rubric_of(key, judge, card)
            variables = offered_by(card, loaded, LOADERS[card.loader].judged)
            check_rubric_variables(loaded, variables)
            if more := loaded.rubric.follow_up:
                check_rubric_variables(read_rubric(more.rubric), variables)
    for source, about in LABEL_SOURCES.items():
        if labelled := rubric_for_labels(judge, source):
            check_rubric_variables(labelled, set(about.variables))


def rubrics_that_fit(source: str) -> list[str]:
    """The rubric cards on file by which a judge can be checked on a labelled release."""
    found = {path.stem: read_rubric(path.stem).rubric for path in sorted(RUBRICS.glob("*.yaml"))}
    return [
        name
        for name, rubric in found.items()
        if rubric.kind == "labels"
        and LABEL_SOURCES[source].fits({key: one.labels for key, one in rubric.criteria.items()})
    ]


def check_labels(config: Config) -> None:
    """The labelled releases exist; those that this run reads are pinned in its edition."""
    from maieutic.judges.selection import (
        judge_entry,
        label_datasets,
        label_sources,
        predicted_releases,
    )  # of checked configurations

    for key, names, labelled in (
        ("labels", config.run.labels or [], True),
        ("predictions", config.run.predictions, False),
    ):
        known = [name for name, source in LABEL_SOURCES.items() if source.labelled == labelled]
        for number, name in enumerate(names):
            if name not in LABEL_SOURCES:
                raise unknown(f"run.{key}[{number}]", name, known, "judges/labels.py")
            if name not in known:
                what = "has no labels" if labelled else "has people's labels already"
                raise UserError(f"run.{key}[{number}]", f"{name} {what}", f"known: {', '.join(known)}")
            if name in names[:number]:
                raise UserError(f"run.{key}[{number}]", f"{name} is listed twice", "list it once")
    if config.run.predictions and not any(predicted_releases(config, judge) for judge in config.run.judges):
        raise UserError(
            "run.predictions", "no judge of run.judges has a rubric for it", "name one with mrbench_taxonomy"
        )
    for number, name in enumerate(config.run.labels or []):
        # Tables of MRBench's dimensions are made of the labels alone; another release has something to say of a judge.
        judges = [judge_entry(config, judge) for judge in config.run.judges]
        if not LABEL_SOURCES[name].taxonomy and not any(rubric_for_labels(judge, name) for judge in judges):
            by = ", ".join(rubrics_that_fit(name))
            mend = f"name a judge with one (rubrics: [{by}]) in run.judges, or leave the release out"
            raise UserError(f"run.labels[{number}]", f"no judge of run.judges has a rubric for {name}", mend)
    for source in label_sources(config):
        for dataset in label_datasets(config, source):
            if dataset not in config.datasets:
                raise unknown(f"judges/labels.py: {source}", dataset, list(config.datasets), "the registry")
            config.datasets[dataset].copy_of(dataset, config.edition)
