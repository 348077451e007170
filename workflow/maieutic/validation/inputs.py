"""Input files of the rules for the validation of graders that depend on the run's tasks and models."""

from __future__ import annotations

from maieutic.core import paths
from maieutic.judges.inputs import all_verdicts
from maieutic.plan.inputs import label_files, rubric_files
from maieutic.plan.plan import Plan


def classifier_validation_labels(plan: Plan, classifier: str) -> list[str]:
    """Return the files of the labelled releases that validate a classifier."""
    return label_files(plan.validating_releases(classifier))


def closeness_files(plan: Plan, release: str) -> list[str]:
    """Return the files with the similarity of each reply of a release to its dialogue, one for each encoder."""
    return [paths.CLOSENESS.of(encoder=name, release=release) for name in plan.run.encoders]


def word_list_rubrics(plan: Plan, judge: str) -> list[str]:
    """Return the files of the rubrics by which a word-list judge judges labelled replies."""
    return rubric_files(plan.label_rubrics(judge))


def verdict_files(plan: Plan) -> dict[str, list[str]]:
    """Return the answer files for which a run limits the share of missing answers, by judge or tagger."""
    files = {name: [paths.LABELLED_VERDICTS.of(judge=name), *all_verdicts(plan, name)] for name in plan.run.judges}
    for part in plan.slices:
        for name, more in part.verdict_files(plan).items():  # a tagger may also be a judge
            files[name] = [*files.get(name, []), *more]
    return files


def every_verdict(plan: Plan) -> list[str]:
    """Return all answer files for which a run limits the share of missing answers."""
    return [file for files in verdict_files(plan).values() for file in files]


def people_labels(plan: Plan) -> list[str]:
    """Return the file of people's labels of this run's replies; empty if the configuration names no such file."""
    return [plan.run.human_labels] if plan.run.human_labels else []
