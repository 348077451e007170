"""Checks of a run's judges and labelled sets before any work starts."""

from __future__ import annotations

from functools import partial

from maieutic.config.cards import JUDGE
from maieutic.config.models import HostedModel, JudgeModel, VllmModel
from maieutic.config.registry import check_entry, unknown_name
from maieutic.config.rubrics import (
    check_rubric_variables,
    chosen_rubrics,
    kinds_with,
    read_rubric,
    rubric_for_card,
    rubric_names,
    rubric_path,
)
from maieutic.core.errors import UserError, check_all
from maieutic.core.records import LabelSetDescription
from maieutic.datasets.labelled_sets import check_table, rubric_fits_labels
from maieutic.datasets.registry import LOADERS
from maieutic.judges.assignments import CONDITIONS, PAIR_VARIABLES, offered_variables
from maieutic.plan.plan import Plan


def check_names_of_judges(plan: Plan) -> None:
    """Raise UserError if a judge or tagger is unknown, is listed twice, or lacks the rubrics that it needs."""

    def check(key: str, name: str, names: list[str]) -> None:
        check_entry(plan.models, key, name, (JudgeModel,), "a judge")
        if names.count(name) > 1:
            raise UserError(key, f"{name!r} is listed twice", "list it once")
        judge = plan.models[name]
        assert isinstance(judge, JudgeModel)
        if judge.judges and names is plan.run.judges:
            check_members(plan, name)
            return
        if names is plan.run.judges and not judge.rubrics and not judge.pairs:
            raise UserError(key, f"{name!r} is only a tagger", f"list it in run.taggers, or set models.{name}.rubrics")
        if names is plan.run.taggers and not judge.tags:
            raise UserError(key, f"{name!r} has no tagging rubrics", f"set models.{name}.tags")

    check_all(
        partial(check, f"run.{key}[{number}]", name, names)
        for key, names in (("judges", plan.run.judges), ("taggers", plan.run.taggers))
        for number, name in enumerate(names)
    )


def check_coverage(plan: Plan) -> None:
    """Raise UserError if a judge has a rubric for none of the selected tasks and labelled sets.

    A task for which no judge has a rubric is not an error, because its other graders still score it.
    """
    for number, name in enumerate(plan.run.judges):
        entry = plan.models[name]
        assert isinstance(entry, JudgeModel)
        if (
            entry.rubrics
            and not plan.judged_benchmarks(name)
            and plan.tasks_without_rubric
            and not plan.validating_releases(name)
        ):
            shipped = (plan.shipped_card(path, plan.run.protocol).card for path in plan.cards)
            rubrics = sorted({rubric for card in shipped for rubric in card.rubrics})
            raise UserError(
                f"run.judges[{number}]",
                f"{name} has no rubric for any task in run.tasks",
                f"add one of {', '.join(rubrics)} (rubrics of these tasks) to models.{name}.rubrics, or remove {name}",
            )


def check_judge(plan: Plan, name: str) -> None:
    """Check that a judge's model is pinned, and that its rubrics suit the run's tasks and labelled sets."""
    judge = plan.judge_entry(name)
    key = f"models.{name}"
    if judge.judges:
        check_panel(plan, name)
    if judge.model is None:
        return
    check_entry(plan.models, f"{key}.model", judge.model, (VllmModel, HostedModel), "a served or hosted model")
    model = plan.models[judge.model]
    if isinstance(model, VllmModel):
        model.weights.refuse_unpinned(f"models.{judge.model}.weights")
    named = [*judge.rubrics, *judge.pairs, *judge.tags]
    for rubric in named:
        condition = read_rubric(rubric).rubric.when
        if condition is not None and condition not in CONDITIONS:
            raise unknown_name(
                f"{rubric_path(rubric)}: when", condition, list(CONDITIONS), "the list of conditions for rubrics"
            )
        if named.count(rubric) > 1:
            raise UserError(key, f"{rubric} is listed twice", "list it once")
        if (read_rubric(rubric).rubric.about != "replies") != (rubric in judge.tags):
            fix = "list rubrics about items and criteria in `tags`, and rubrics about replies in `rubrics` or `pairs`"
            raise UserError(key, f"{rubric} is about {read_rubric(rubric).rubric.about}", fix)
    for rubric in judge.pairs:
        loaded = read_rubric(rubric)
        if not loaded.rubric.rules.compares_labelled_pairs:
            kinds = kinds_with(lambda kind: kind.compares_labelled_pairs)
            raise UserError(f"{key}.pairs", f"{rubric} has kind {loaded.rubric.kind}", f"use a rubric of kind {kinds}")
        if not loaded.rubric.both_orders:
            raise UserError(
                str(rubric_path(rubric)),
                "showing pairs in only one order allows position bias",
                "set both_orders: true",
            )
        check_rubric_variables(loaded, PAIR_VARIABLES)
    for loaded_card in plan.cards.values():
        card = loaded_card.card
        if JUDGE in card.graders and chosen_rubrics(judge.rubrics, card.rubrics):
            loaded = rubric_for_card(key, judge, card)
            variables = offered_variables(card, loaded, LOADERS[card.loader].judge_variables)
            check_rubric_variables(loaded, variables)
            if more := loaded.rubric.follow_up:
                check_rubric_variables(read_rubric(more.rubric), variables)
    plan.reworded_rubrics(name)
    for release in plan.label_sets:
        if labelled := plan.rubric_for_release(name, release):
            check_rubric_variables(labelled, set(plan.label_source(release).variables))


def check_members(plan: Plan, name: str) -> None:
    """Raise UserError if a panel contains another panel or a judge outside the run, or its judges share no rubric."""
    panel, key = plan.judge_entry(name), f"models.{name}"
    for number, member in enumerate(panel.judges):
        place = f"{key}.judges[{number}]"
        check_entry(plan.models, place, member, (JudgeModel,), "a judge")
        if plan.judge_entry(member).judges:
            raise UserError(
                place, f"expected a single judge, found the panel {member}", "list the judges of that panel instead"
            )
        if member not in plan.run.judges:
            raise UserError(place, f"{member} is not a judge of this run", "add it to run.judges")
    if not panel.rubrics and not panel.pairs:
        rubrics = "; ".join(f"{member}: {', '.join(plan.rubric_names(member))}" for member in panel.judges)
        raise UserError(
            f"{key}.judges",
            f"the panel's judges share no rubric ({rubrics})",
            "give all judges of the panel a common rubric",
        )


def check_panel(plan: Plan, name: str) -> None:
    """Raise UserError if a judge lacks a rubric of its panel, or if the panel's verdicts cannot be combined."""
    panel, key = plan.judge_entry(name), f"models.{name}"
    for member, key_of_rubrics in ((member, field) for member in panel.judges for field in ("rubrics", "pairs")):
        rubrics = getattr(plan.judge_entry(member), key_of_rubrics)
        if strange := [rubric for rubric in getattr(panel, key_of_rubrics) if rubric not in rubrics]:
            problem = f"{strange[0]} is not a rubric of {member}"
            fix = "remove this key, so that the panel uses the rubrics that its judges share"
            raise UserError(f"{key}.{key_of_rubrics}", problem, fix)
    for member in panel.judges:
        check_same_rubrics(plan, name, member)
    if panel.vote == "mean":
        further = [read_rubric(rubric).rubric.follow_up for rubric in panel.rubrics]
        for rubric in (*panel.rubrics, *(more.rubric for more in further if more)):
            levels = {title: criterion.level for title, criterion in read_rubric(rubric).rubric.criteria.items()}
            if nominal := [title for title, level in levels.items() if level == "nominal"]:
                problem = f"the labels of the criterion {nominal[0]} ({rubric}) have no order, so they have no mean"
                raise UserError(f"{key}.vote", problem, "set vote: majority")


def check_same_rubrics(plan: Plan, name: str, member: str) -> None:
    """Raise UserError if a panel's judge uses another rubric than the panel for some task or labelled set."""
    panel, judge = plan.judge_entry(name), plan.judge_entry(member)
    fix = f"list the rubrics of {name} and {member} in the same order"
    for path, loaded in plan.cards.items():
        card = loaded.card
        if JUDGE in card.graders and chosen_rubrics(panel.rubrics, card.rubrics):
            both = [
                rubric_for_card(f"models.{key}", entry, card).name for key, entry in ((name, panel), (member, judge))
            ]
            if len(set(both)) == 2:
                problem = f"for {path}, {member} uses {both[1]}, but the panel {name} uses {both[0]}"
                raise UserError(f"models.{member}.rubrics", problem, fix)
    for release in plan.judged_releases(name):
        of_panel, of_judge = plan.rubric_for_release(name, release), plan.rubric_for_release(member, release)
        if of_panel and (of_judge is None or of_judge.name != of_panel.name):
            other = of_judge.name if of_judge else "no rubric"
            problem = f"for {release}, {member} uses {other}, but the panel {name} uses {of_panel.name}"
            raise UserError(f"models.{member}.rubrics", problem, fix)


def rubrics_that_fit(about: LabelSetDescription) -> list[str]:
    """Return the names of the rubric cards with which a judge can be validated on a labelled set."""
    return [name for name in rubric_names() if rubric_fits_labels(about, read_rubric(name))]


def check_labels(plan: Plan) -> None:
    """Check that all labelled sets are valid, and that this run's sets have data that are pinned for its edition."""
    check_all(partial(plan.label_source, name) for name in plan.label_sets)
    check_all(partial(check_table, plan.label_sets[name]) for name in plan.releases)
    for key, names, labelled in (
        ("labels", plan.run.labels or [], True),
        ("predictions", plan.run.predictions, False),
    ):
        known = [name for name in plan.label_sets if plan.label_source(name).labelled == labelled]
        for number, name in enumerate(names):
            if name not in plan.label_sets:
                raise unknown_name(f"run.{key}[{number}]", name, known, "the labelled releases")
            if name not in known:
                problem = f"{name} has no labels" if labelled else f"{name} is already labelled by people"
                raise UserError(f"run.{key}[{number}]", problem, f"choose one of {', '.join(known)}")
            if name in names[:number]:
                raise UserError(f"run.{key}[{number}]", f"{name} is listed twice", "list it once")
    if (
        plan.run.predictions
        and plan.run.judges
        and not any(plan.predicted_releases(judge) for judge in plan.run.judges)
    ):
        fix = "add a judge with the rubric mrbench_taxonomy"
        raise UserError("run.predictions", "no judge in run.judges has a rubric for these releases", fix)
    for number, name in enumerate(plan.run.labels or []):
        # The report shows human labels of MRBench's dimensions. Any other release is used only to validate judges.
        if name not in plan.taxonomy_releases and not any(
            plan.rubric_for_release(judge, name) for judge in plan.run.judges
        ):
            by = ", ".join(rubrics_that_fit(plan.label_source(name).about))
            fix = f"add a judge with a fitting rubric (one of [{by}]) to run.judges, or remove the release"
            raise UserError(f"run.labels[{number}]", f"no judge in run.judges has a rubric for {name}", fix)
    for source in plan.releases:
        for dataset in plan.label_datasets(source):
            if dataset not in plan.datasets:
                raise unknown_name(f"labelled release {source}", dataset, list(plan.datasets), "the registry")
            plan.datasets[dataset].file_of(dataset, plan.edition)
