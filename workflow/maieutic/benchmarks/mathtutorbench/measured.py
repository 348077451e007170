"""This run's values for the numbers in MathTutorBench's paper that are not about tutors."""

from __future__ import annotations

from typing import Any

from maieutic.benchmarks.mathtutorbench.printed import BENCHMARK, TABLE_2
from maieutic.config.models import CriteriaModel, RecordedModel, RewardModel
from maieutic.core import paths
from maieutic.core.records import SCORINGS, Quantity
from maieutic.report.graders import ENSEMBLES, scores_of
from maieutic.report.printed_numbers import Measured, MeasuredTable, model_value
from maieutic.report.sections import ReportInput
from maieutic.report.tables import display_label, items_of_task, read_json
from maieutic.scores.papers import PERCENT, Place, printed_rows
from maieutic.scores.printed import paper_name
from maieutic.serving.conversations import parse_turns

GENERATED = {"scaffolding_generation", "scaffolding_generation_hard"}  # each is sent with two prompts
PROMPTS = 2


def sizes(run: ReportInput) -> dict[str, int]:
    """Return the number of items of each task, if the run uses all published items; empty otherwise."""
    if run.plan.edition != "published" or run.plan.run.limit is not None:
        return {}
    return {task: number for (benchmark, task), number in run.sizes.items() if benchmark == BENCHMARK}


def table_1(run: ReportInput) -> MeasuredTable:
    """Return the number of items of each task, and the mean number of turns with the reply of the teacher."""
    values: dict[Place, Measured] = {}
    for row in printed_rows(BENCHMARK):
        if row.table != "1" or row.task not in sizes(run):
            continue
        if row.metric == "instances":
            values[row.place] = Measured(sizes(run)[row.task])
        else:
            items = items_of_task(run.results, BENCHMARK, row.task)
            turns = [
                len(parse_turns(item.vars["dialog_history"])) + ("student_chat_solution" in item.vars) + 1
                for item in items
            ]
            values[row.place] = Measured(sum(turns) / len(turns))
    return values


def table_2(run: ReportInput) -> MeasuredTable:
    """Return the number of pairs of each source, and the mean number of turns before the reply."""
    values: dict[Place, Measured] = {}
    for source, name in TABLE_2.items():
        counts = read_json(paths.PAIR_COUNTS.within(run.results, source=source))
        if counts and source in run.plan.used_sources and run.plan.edition == "published":
            values[Place(name, "pairs")] = Measured(counts["pairs"])
            values[Place(name, "turns")] = Measured(counts["turns"])
    return values


def table_3(run: ReportInput) -> MeasuredTable:
    """Return pair accuracy and mean margin of this run's reward models that are trained on the paper's mixes."""
    values: dict[Place, Measured] = {}
    for name in run.plan.reward_models:
        mix = paper_name(run.plan.models[name].paper, BENCHMARK)
        for metric in ("pair_accuracy", "mean_margin") if mix else ():
            score = scores_of(run.results, name).get(Quantity(metric))
            value = model_value(score) if score else None
            if value:
                values.setdefault(Place(str(mix), metric), value)
    return values


def table_5(run: ReportInput) -> MeasuredTable:
    """Return the classifiers' accuracies on the test pairs, and those of their sums."""
    values: dict[Place, Measured] = {}
    for name in run.plan.classifiers:
        entry = run.plan.models[name]
        assert isinstance(entry, CriteriaModel)
        for criterion in (*entry.train.criteria, *ENSEMBLES):
            score = scores_of(run.results, name).get(Quantity("pair_accuracy", criterion))
            value = model_value(score) if score else None
            if value:
                row = ENSEMBLES.get(criterion) or str(criterion)
                values.setdefault(Place(row, "accuracy"), value)
    return values


def table_6(run: ReportInput) -> MeasuredTable:
    """Return the scores of the published reward model, in float32, for the replies in the paper's table."""
    values: dict[Place, Measured] = {}
    for name in run.plan.models_with_published_scores:
        published = read_json(paths.PUBLISHED_SCORES.within(run.results, reward_model=name))
        if published and getattr(run.plan.models[name], "published_scores", None) == BENCHMARK:
            scores = {row["row"]: row["score"] for row in published["rows"]}
            for row in printed_rows(BENCHMARK):
                if row.table == "6" and row.row in scores:
                    score, tolerance = scores[row.row], published["tolerance"]
                    value = Measured(score, "model", score - tolerance, score + tolerance)
                    values.setdefault(row.place, value)
    return values


def appendix_c2(run: ReportInput) -> MeasuredTable:
    """Return the number of replies to score: both prompts on the items of both dialogue tasks."""
    known = sizes(run)
    if not known.keys() >= GENERATED:
        return {}
    return {Place("generations", "replies"): Measured(PROMPTS * sum(known[task] for task in GENERATED))}


def settings(run: ReportInput) -> MeasuredTable:
    """Return the paper's settings as this run has them: of tasks, reward models and classifiers."""
    values: dict[Place, Measured] = {}

    def add(row: str, metric: str, value: Any) -> None:
        if value is not None:
            values.setdefault(Place(row, metric), Measured(float(value), "setting"))

    for loaded in run.plan.benchmarks.get(BENCHMARK, []):
        add("generation", "temperature", loaded.card.temperature)
        add("generation", "max_tokens", loaded.card.max_tokens)
    for entry in run.plan.models.values():
        if isinstance(entry, RewardModel) and entry.train and entry.paper and entry.train.mix:
            for key in ("learning_rate", "epochs", "batch_size"):
                add("reward model", key, getattr(entry.train, key))
            for share in entry.train.pretrain.values():
                add("pretraining", "percent of UltraFeedback", PERCENT * share)
        elif isinstance(entry, CriteriaModel):
            for key in ("learning_rate", "epochs", "batch_size"):
                add("classifier", key, getattr(entry.train, key))
    return values


def published_replies(run: ReportInput) -> MeasuredTable:
    """Return the share of published replies that ask, by the released rule."""
    recorded = {
        name: display_label(run.plan, name)
        for name in run.plan.tutors
        if isinstance(entry := run.plan.models[name], RecordedModel) and entry.dataset
    }
    return {
        Place(recorded[score.tutor], score.metric, score.task): Measured(score.value)
        for score in run.scores.get(BENCHMARK, [])
        if score.tutor in recorded and score.scoring == "paper_compat" and score.value is not None
    }


def remarks_on_papers(run: ReportInput) -> list[str]:
    """Return a sentence on the published replies with the largest difference between the two scorings."""
    shares: dict[tuple[str, str], dict[str, float]] = {}
    places = published_replies(run).keys()
    for score in run.scores.get(BENCHMARK, []):
        label = display_label(run.plan, score.tutor) if score.tutor in run.plan.run.tutors else ""
        if Place(label, score.metric, score.task) in places and score.value is not None:
            shares.setdefault((label, score.task), {})[score.scoring] = score.value
    both = {key: pair for key, pair in shares.items() if len(pair) == len(SCORINGS)}
    if not both:
        return []
    (label, task), pair = max(both.items(), key=lambda entry: abs(entry[1]["paper_compat"] - entry[1]["robust"]))
    title = next(loaded.card.title for loaded in run.plan.benchmarks[BENCHMARK] if loaded.card.task == task)
    return [
        f"Of {label}'s published replies to {title}, {pair['paper_compat']:.3f} ask a question by the released rule, "
        f"which counts any question word, and {pair['robust']:.3f} by question marks."
    ]


REMARKS = remarks_on_papers
MEASURED = {
    "1": table_1,
    "2": table_2,
    "3": table_3,
    "5": table_5,
    "6": table_6,
    "C.2": appendix_c2,
    "settings": settings,
    "replies": published_replies,
}
