"""Input files of the rules for judges that depend on the run's tasks and models."""

from __future__ import annotations

from collections.abc import Iterable

from maieutic.config.models import VllmModel
from maieutic.core import paths
from maieutic.judges.probes import PROBES
from maieutic.plan.inputs import benchmark_cards, item_files, label_files, pair_files, rubric_files, tasks_of
from maieutic.plan.plan import Plan


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


def all_judged_items(plan: Plan, judge: str, batch: str) -> list[str]:
    """Return the item files of all tasks on which a judge judges a batch of tutors."""
    benchmarks = plan.benchmarks_of_batch(judge, batch)
    return distinct(judged_items(plan, judge, benchmark) for benchmark in benchmarks)


def all_judged_replies(plan: Plan, judge: str, batch: str) -> list[str]:
    """Return the files of a batch of tutors' replies to all benchmarks on which a judge judges the batch."""
    return distinct(judged_replies(plan, name, batch) for name in plan.benchmarks_of_batch(judge, batch))


def all_reply_rubrics(plan: Plan, judge: str, batch: str) -> list[str]:
    """Return the files of the rubrics by which a judge judges a batch of tutors on all benchmarks."""
    return distinct(reply_rubrics(plan, judge, name) for name in plan.benchmarks_of_batch(judge, batch))


def all_judged_cards(plan: Plan, judge: str, batch: str) -> list[str]:
    """Return the card files of all benchmarks on which a judge judges a batch of tutors."""
    return distinct(benchmark_cards(plan, name) for name in plan.benchmarks_of_batch(judge, batch))


def distinct(lists: Iterable[list[str]]) -> list[str]:
    """Return the files of several lists, each file once."""
    return list(dict.fromkeys(file for files in lists for file in files))


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
