"""Part of the plan that covers judges."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

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
from maieutic.core import paths
from maieutic.core.errors import UserError, check_all
from maieutic.core.journal import failed_path
from maieutic.core.records import LabelSetDescription
from maieutic.datasets.labelled_sets import check_table, rubric_fits_labels
from maieutic.datasets.registry import LOADERS
from maieutic.judges.assignments import CONDITIONS, PAIR_VARIABLES, offered_variables
from maieutic.judges.grading import GradeVerdicts
from maieutic.judges.judging import STOP_ABOVE
from maieutic.judges.panels import CombineVerdicts
from maieutic.judges.probes import PROBES
from maieutic.judges.verdicts import JudgeLabelled, JudgeReplies
from maieutic.plan.inputs import entry_for_asking, item_files, label_files, pair_files, rubric_files, tasks_of
from maieutic.plan.plan import Plan
from maieutic.plan.slice_plan import Checks, Replacements, SlicePlan, unused_by_rubrics


def answering_weights(plan: Plan, judge: str) -> list[str]:
    """Return the weights manifest of a judge's model; empty unless this run serves the model."""
    answering = plan.answering_entry(judge)
    return [paths.WEIGHTS.of(model=answering)] if isinstance(plan.models.get(answering), VllmModel) else []


def judged_items(plan: Plan, judge: str, benchmark: str) -> list[str]:
    """Return the item files of a benchmark's tasks that a judge judges."""
    return item_files(benchmark, tasks_of(plan.judge_cards(benchmark, judge)))


def judged_replies(plan: Plan, benchmark: str, batch: str) -> list[str]:
    """Return the files with the replies that judges judge for a batch of tutors."""
    return [paths.REPLIES.of(benchmark=benchmark, tutor=tutor) for tutor in plan.judge_batches(benchmark)[batch]]


def reply_rubrics(plan: Plan, judge: str, benchmark: str) -> list[str]:
    """Return the files of the rubrics by which a judge judges the replies to a benchmark."""
    return rubric_files(plan.reply_rubrics(judge, benchmark))


def judged_labels(plan: Plan, judge: str) -> list[str]:
    """Return the files of the labelled releases whose replies a judge judges."""
    return label_files(plan.judged_releases(judge))


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


def used_probes(plan: Plan) -> list[str]:
    """Return the names of the probes that a run applies to its judges."""
    return list(PROBES) if plan.run.probes else []


def probe_verdicts(plan: Plan, judge: str) -> list[str]:
    """Return the files of a judge's verdicts on the probes."""
    return [paths.PROBE_VERDICTS.of(judge=judge, probe=probe) for probe in used_probes(plan)]


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


def tutor_verdicts(plan: Plan, judge: str, benchmark: str, tutor: str) -> str:
    """Return the file of a judge's verdicts on the batch that contains a tutor."""
    return paths.VERDICTS.of(judge=judge, benchmark=benchmark, batch=str(plan.judge_batch(benchmark, tutor)))


def weighted_items(plan: Plan, judge: str, benchmark: str, tutor: str) -> list[str]:
    """Return the item files of the tasks with weighted criteria that a tutor answers and a judge judges."""
    answered = plan.tasks_for(benchmark, tutor)
    return item_files(benchmark, [task for task in plan.weighted_tasks(judge, benchmark) if task in answered])


def validating_labels(plan: Plan, judge: str) -> list[str]:
    """Return the files of the labelled releases that validate a judge."""
    return label_files(plan.validating_releases(judge))


def judge_job_fields(plan: Plan, judge: str, **rubrics: list[str]) -> dict[str, Any]:
    """Return the fields of a job that sends requests to a judge.

    rubrics: values that replace the entry's lists of rubrics. They leave out the rubrics that the job does not use, so
    that editing those re-runs nothing.
    """
    return {
        "judge": judge,
        "entry": entry_for_asking(plan.judge_entry(judge).model_copy(update=rubrics)),
        "answering": entry_for_asking(plan.models[plan.answering_entry(judge)]),
        "seed": plan.run.seed,
        "stop_above": max(STOP_ABOVE, plan.unreadable_limit(judge)),
    }


def judge_replies_job(plan: Plan, judge: str, benchmark: str, batch: str) -> JudgeReplies:
    fields = judge_job_fields(plan, judge, rubrics=plan.reply_rubrics(judge, benchmark), pairs=[], tags=[], family=[])
    failed = failed_path(Path(paths.VERDICT_JOURNAL.of(judge=judge, benchmark=benchmark, batch=batch))).is_file()
    tasks = tasks_of(plan.judge_cards(benchmark, judge))
    return JudgeReplies(**fields, benchmark=benchmark, tasks=tasks, asks_failed=failed)


def judge_labelled_job(plan: Plan, judge: str) -> JudgeLabelled:
    rubrics = plan.label_rubrics(judge) or plan.judge_entry(judge).rubrics
    return JudgeLabelled(
        **judge_job_fields(plan, judge, rubrics=rubrics, tags=[], family=[]),
        limit=plan.label_limit(judge),
        probes=plan.run.probes,
        probed=plan.validating_releases(judge) if plan.run.probes else [],
        asks_failed=failed_path(Path(paths.LABELLED_JOURNAL.of(judge=judge))).is_file(),
    )


def combine_verdicts_job(plan: Plan, judge: str, benchmark: str, batch: str) -> CombineVerdicts:
    entry, rubrics = plan.judge_entry(judge), plan.reply_rubrics(judge, benchmark)
    return CombineVerdicts(panel=judge, judges=entry.judges, vote=entry.vote, rubrics=rubrics)


def combine_labelled_job(plan: Plan, judge: str) -> CombineVerdicts:
    entry = plan.judge_entry(judge)
    return CombineVerdicts(
        panel=judge,
        judges=entry.judges,
        vote=entry.vote,
        rubrics=[*plan.label_rubrics(judge), *entry.pairs],
    )


def grade_verdicts_job(plan: Plan, judge: str, benchmark: str, tutor: str) -> GradeVerdicts:
    """Return the job that grades a tutor's replies by a judge's verdicts.

    `negative_weights` is set only if a task has weighted criteria.
    """
    answered = plan.tasks_for(benchmark, tutor)
    weighted = [task for task in plan.weighted_tasks(judge, benchmark) if task in answered]
    reading = plan.run.negative_weights if weighted else None
    return GradeVerdicts(judge=judge, tutor=tutor, weighted=weighted, negative_weights=reading)


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


def used_by_judge_replies(plan: Plan, judge: str, benchmark: str, **others: str) -> Replacements:
    """Return replacements that leave out conditions and word lists that the rubrics for a benchmark do not use."""
    return unused_by_rubrics(plan.reply_rubrics(judge, benchmark))


def used_by_judge_labelled(plan: Plan, judge: str) -> Replacements:
    """Return replacements that leave out conditions and word lists that rubrics for labelled data do not use."""
    entry = plan.judge_entry(judge)
    return unused_by_rubrics([*(plan.label_rubrics(judge) or entry.rubrics), *entry.pairs])


STAGE = SlicePlan(
    module=__name__,
    checks=Checks(
        names=lambda plan: [partial(check_names_of_judges, plan)],
        entries=lambda plan: [partial(check_judge, plan, name) for name in (*plan.run.judges, *plan.run.taggers)],
        data=lambda plan: [partial(check_coverage, plan), partial(check_labels, plan)],
    ),
    used_code={
        "judge_replies": used_by_judge_replies,
        "judge_labelled": used_by_judge_labelled,
    },
)
