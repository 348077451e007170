"""Part of the plan that covers the report."""

from __future__ import annotations

from maieutic.core import paths
from maieutic.judges import stage as judges_stage
from maieutic.plan import inputs
from maieutic.plan.plan import Plan, training_pair_sources
from maieutic.plan.slice_plan import SlicePlan
from maieutic.scores import stage as scores_stage
from maieutic.scores.papers import printed_file
from maieutic.scores.printed import PAPERS


def files_by_tutor(plan: Plan, pattern: paths.Pattern) -> list[str]:
    """Return the path that a pattern yields for each benchmark and each tutor that answers the benchmark."""
    return [
        pattern.of(benchmark=benchmark, tutor=tutor)
        for benchmark in plan.benchmarks
        for tutor in plan.tutors_on(benchmark)
    ]


def report_files(plan: Plan) -> list[str]:
    """Return the paths of all files that the report reads, such as scores and replies, except the configuration."""
    differences = [
        paths.DIFFERENCES.of(benchmark=name)
        for name in plan.benchmarks
        if plan.compared_tutors(name) and len(scores_stage.tutors_and_floors(plan, name)) > 1
    ]
    return [
        *files_by_tutor(plan, paths.SCORES),
        *differences,
        *(
            file
            for benchmark in plan.benchmarks
            for tutor in plan.tutors_on(benchmark)
            for file in scores_stage.all_grades(plan, benchmark, tutor)
        ),
        *files_by_tutor(plan, paths.REPLIES),
        *sorted({*grader_files(plan), *validation_files(plan)}),
        *inputs.label_files(plan.releases),
        *([inputs.leading_pairs(plan)] if plan.run.reward_models else []),
        *printed_files(plan),
        *(file for part in plan.slices for file in part.report_files(plan)),
    ]


def printed_files(plan: Plan) -> list[str]:
    """Return the paths of the papers' published tables, which the report compares with this run's numbers."""
    return [str(path) for path in map(printed_file, {**plan.benchmarks, **PAPERS}) if path.exists()]


def grader_files(plan: Plan) -> list[str]:
    """Return the paths of the files that the report's section on reward models and classifiers reads."""
    graders = [*plan.reward_models, *plan.classifiers]
    files = [paths.PAIR_VALIDATION.of(grader=name) for name in graders]
    files += [paths.SET_VALIDATION.of(grader=name, source=source) for name in graders for source in plan.further_pairs]
    files += [paths.PAIR_REWARDS.of(reward_model=name) for name in plan.reward_models]
    files += [paths.LEADING_REWARD_MODEL.of()] if plan.chooses_reward_model else []
    files += [paths.PUBLISHED_SCORES.of(reward_model=name) for name in plan.models_with_published_scores]
    trained = plan.trained_reward_models
    files += [pattern.of(reward_model=name) for name in trained for pattern in (paths.MODEL_CARD, paths.TRAINING)]
    files += [paths.CLASSIFIER_TRAINING.of(classifier=name) for name in plan.classifiers]
    files += [paths.PAIR_COUNTS.of(source=source) for source in plan.used_sources]
    for benchmark in plan.rewarded_benchmarks:
        for name in plan.run.reward_models:
            files += [
                paths.REWARDS.of(reward_model=name, benchmark=benchmark, batch=batch)
                for batch in plan.reward_batches(benchmark)
            ]
            files += [
                paths.OVERLAP.of(source=source, benchmark=benchmark)
                for source in training_pair_sources(plan.models[name])
            ]
    return files


def validation_files(plan: Plan) -> list[str]:
    """Return the paths of the files that the report's sections on validation and on labels read."""
    judges = plan.run.judges
    files = [paths.LABEL_VALIDATION.of(grader=name) for name in (*plan.reward_models, *plan.classifiers, *judges)]
    files += [paths.PAIR_VALIDATION.of(grader=name) for name in judges]
    files += [
        paths.SET_VALIDATION.of(grader=name, source=source)
        for name in judges
        if plan.judge_entry(name).pairs
        for source in plan.further_pairs
    ]
    files += [paths.LABEL_STATISTICS.of(release=release) for release in plan.releases]
    files += [
        paths.LABEL_SCORES.of(release=release) for release in plan.releases if plan.label_source(release).labelled
    ]
    files += [file for name in judges for file in judges_stage.all_verdicts(plan, name)]
    files += [paths.LABELLED_VERDICTS.of(judge=name) for name in judges]
    files += [paths.PROBE_VALIDATION.of(grader=name) for name in plan.probed_judges]
    files += [file for name in plan.probed_judges for file in judges_stage.probe_verdicts(plan, name)]
    files += [paths.LEADING_JUDGE.of()] if plan.chooses_judge else []
    if plan.run.human_labels:
        patterns = (paths.CORRECTED, paths.CORRECTED_DIFFERENCES)
        files += [
            paths.OWN_LABELS,
            *(
                pattern.of(judge=name)
                for name in judges
                if judges_stage.all_verdicts(plan, name)
                for pattern in patterns
            ),
        ]
    return files


STAGE = SlicePlan(
    module=__name__,
)
