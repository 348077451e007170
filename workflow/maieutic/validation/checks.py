"""Checks of a run's the validation of graders before any work starts."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from maieutic.config.cards import JUDGE
from maieutic.config.models import WeightsOnly
from maieutic.config.registry import check_entry, unknown_name
from maieutic.config.rubrics import annotation_scales, read_rubric
from maieutic.core.errors import UserError, check_all
from maieutic.core.records import Scale
from maieutic.people.labels import read_label_lines
from maieutic.plan.plan import Plan


def check_people_labels(plan: Plan) -> None:
    """Check the human labels of this run's replies.

    This check runs only when a run starts, because the report can be built without the file of labels.
    """
    if plan.run.human_labels is None:
        return
    if not plan.run.judges:
        raise UserError(
            "run.human_labels",
            "human labels correct a judge's scores, but run.judges is empty",
            "add a judge to run.judges, or remove this key",
        )
    if not any(JUDGE in loaded.card.graders for loaded in plan.cards.values()):
        raise UserError(
            "run.human_labels",
            "no selected task is graded by a judge",
            "add mrbench to run.tasks, or remove this key",
        )
    check_all(partial(check_shared_scales, plan, task) for task in plan.people_rubrics)
    lines = read_label_lines(
        Path(plan.run.human_labels), plan.people_scales, plan.tasks_with_own_criteria, plan.config.limits
    )
    strange = {label.tutor: place for place, label in lines if label.tutor not in plan.tutors}
    if strange:
        faults = [unknown_name(place, tutor, plan.tutors, "the tutors of this run") for tutor, place in strange.items()]
        raise UserError.of(faults)


def check_shared_scales(plan: Plan, task: str) -> None:
    """Raise UserError if two rubrics of a task define different labels for one criterion."""
    scales: dict[str, tuple[str, Scale]] = {}
    for name in plan.people_rubrics[task]:
        for criterion, scale in annotation_scales(read_rubric(name).rubric).items():
            other, known = scales.setdefault(criterion, (name, scale))
            if known.labels != scale.labels:
                problem = f"{name} and {other} define different labels for the criterion {criterion} of the task {task}"
                raise UserError("run.judges", problem, "rename the criterion in one rubric, or remove its judge")


def check_encoders(plan: Plan) -> None:
    """Raise UserError if an encoder is unknown, is not a weights-only entry, is listed twice, or is not pinned."""
    for number, name in enumerate(plan.run.encoders):
        key = f"run.encoders[{number}]"
        check_entry(plan.models, key, name, (WeightsOnly,), "a weights-only entry")
        if name in plan.run.encoders[:number]:
            raise UserError(key, f"{name!r} is listed twice", "list it once")
        model = plan.models[name]
        assert isinstance(model, WeightsOnly)
        model.weights.refuse_unpinned(f"models.{name}.weights")


def check_word_lists(plan: Plan, name: str) -> None:
    """Raise UserError if a word-list judge has a rubric that contains no criterion with a word list."""
    from maieutic.validation.grader_baselines import HEURISTICS

    for rubric in plan.judge_entry(name).rubrics:
        card = read_rubric(rubric).rubric
        if card.rules.paired or not set(card.criteria) & set(HEURISTICS):
            problem = f"no criterion of {rubric} has a word list"
            fix = f"use a rubric with at least one of these criteria: {', '.join(HEURISTICS)}"
            raise UserError(f"models.{name}.rubrics", problem, fix)
