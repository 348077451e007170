"""The page on reward models and criteria classifiers: what they learnt, how far they agree with experts, what leaks.

MathTutorBench's Tables 2, 3, 5, 6 and 7 and its Figures 3 and 4, each beside the paper's values.
"""

from __future__ import annotations

from collections import defaultdict
from functools import cache, partial
from pathlib import Path
from typing import Any

import pandas as pd

from maieutic.config.models import CriteriaModel, JudgeModel, RewardModel
from maieutic.core import paths
from maieutic.core.records import Item, Pair, PairReward, Quantity, Reply, Reward, Score, read_records
from maieutic.judges.rubrics import read_rubric
from maieutic.plan.plan import Plan, sources_of
from maieutic.report.figures import bar_chart, density_chart, line_chart
from maieutic.report.tables import label_of, read_json, score_file
from maieutic.report.traffic_light import PAIRS
from maieutic.rewards.pairs import PAIR_SOURCES
from maieutic.scores.papers import PrintedRow, printed_rows
from maieutic.scores.printed import PAPERS, paper_name
from maieutic.validation.rewards import BEST_3

EXAMPLES = 3  # replies of each quartile
QUARTILES = {"top": "top quarter", "middle": "middle half", "bottom": "bottom quarter"}
ENSEMBLES: dict[str | None, str] = {None: "all", BEST_3: BEST_3}  # by criterion, as the paper names them


@cache
def paper() -> str:
    """The benchmark whose paper prints reward models."""
    return next(name for name, entry in PAPERS.items() if entry.reward_models())


def printed(table: int) -> list[PrintedRow]:
    """The rows of one of the paper's tables."""
    return [row for row in printed_rows(paper()) if row.table == str(table)]


def paper_values(table: int, metric: str) -> dict[str, float]:
    """One column of one of the paper's tables, by row."""
    return {row.row: row.value for row in printed(table) if row.metric == metric}


Measured = dict[str, dict[Quantity, Score]]  # by grader; empty for a grader whose job has failed


def scores_of(results: Path, name: str) -> dict[Quantity, Score]:
    """What was measured of one grader; empty where its job has failed."""
    return {score.quantity: score for score in score_file(paths.PAIR_VALIDATION.within(results, grader=name))}


def accuracy_rows(plan: Plan, measured: Measured) -> list[dict[str, Any]]:
    """One row a grader: accuracy on the test pairs with its interval, margin, ties, length; length alone comes last."""
    accuracy, margins = paper_values(3, "pair_accuracy"), paper_values(3, "mean_margin")
    five = paper_values(5, "accuracy")
    rows: list[dict[str, Any]] = []
    for name, scores in measured.items():
        model = plan.models[name]
        if isinstance(model, JudgeModel):
            rows += judge_rows(plan, name, model, scores)
            continue
        ensembles: dict[str | None, str] = ENSEMBLES if isinstance(model, CriteriaModel) else {None: ""}
        for criterion, kind in ensembles.items():
            shown = label_of(plan, name) + {"": "", "all": ": sum of all", BEST_3: ": sum of the best three"}[kind]
            on = partial(Quantity, criterion=criterion)
            rows.append(
                {
                    "label": shown,
                    "name": name,
                    "kind": PAIRS if isinstance(model, RewardModel) else None,
                    "pairs": getattr(scores.get(on("pair_accuracy")), "n", None),
                    "group": model.group,
                    "accuracy": scores.get(on("pair_accuracy")),
                    "margin": scores.get(on("mean_margin")),
                    "ties": scores.get(on("ties")),
                    "length": scores.get(on("length_correlation")) if criterion is None else None,
                    "paper": five[kind] if kind else accuracy.get(paper_name(model.paper, paper()) or ""),
                    "paper_margin": None if kind else margins.get(paper_name(model.paper, paper()) or ""),
                }
            )
    lengths = [
        score
        for scores in measured.values()
        for quantity, score in scores.items()
        if quantity.metric == "longer_reply_accuracy"
    ]
    alone = next(filter(None, lengths), None)
    if alone:
        rows.append(
            {
                "label": "Preferring the longer reply",
                "name": None,
                "kind": None,
                "pairs": alone.n,
                "group": "baseline",
                "accuracy": alone,
                **dict.fromkeys(("margin", "ties", "length", "paper", "paper_margin")),
            }
        )
    return rows


def judge_rows(plan: Plan, name: str, judge: JudgeModel, scores: dict[Quantity, Score]) -> list[dict[str, Any]]:
    """A judge under each of its prompts, both orders: the mean, and where both orders agree on the expert's reply."""
    rows = []
    for rubric in judge.pairs:
        for metric, addition in (("pair_accuracy", ""), ("consistent_accuracy", ", both orders")):
            accuracy, both = scores.get(Quantity(metric, rubric)), scores.get(Quantity("flip_rate", rubric))
            rows.append(
                {
                    "name": name,
                    "kind": rubric,
                    "pairs": both.n + both.missing if both else None,
                    "label": f"{label_of(plan, name)}: {read_rubric(rubric).rubric.title}{addition}",
                    "group": judge.group,
                    "accuracy": accuracy,
                    "margin": None,
                    "ties": scores.get(Quantity("flip_rate", rubric)) if addition else None,
                    "length": scores.get(Quantity("length_correlation", rubric)),
                    "paper": None,
                    "paper_margin": None,
                }
            )
    return rows


def ablation_rows(plan: Plan, measured: Measured) -> list[dict[str, Any]]:
    """Table 3: the paper's six mixes, and under each the reward models of this run that stand beside it."""
    margins = paper_values(3, "mean_margin")
    return [
        {
            "mix": mix,
            "accuracy": accuracy,
            "margin": margins[mix],
            "ours": [
                {"label": label_of(plan, name), "scores": measured[name]}
                for name in plan.reward_models
                if paper_name(plan.models[name].paper, paper()) == mix
            ],
        }
        for mix, accuracy in paper_values(3, "pair_accuracy").items()
    ]


def pair_rows(plan: Plan, results: Path) -> list[dict[str, Any]]:
    """Table 2: what was counted of each source of pairs, beside the published count."""
    rows = []
    order = [*PAIR_SOURCES, *plan.config.preferences]
    for source in sorted(plan.used_sources, key=order.index):
        counts = read_json(paths.PAIR_COUNTS.within(results, source=source))
        if counts:
            about = plan.pair_source(source)
            role = "test" if about.test else "train"
            rows.append({**counts, "preferred": about.preferred, "rejected": about.rejected, "role": role})
    return rows


def overlap_rows(plan: Plan, results: Path) -> list[dict[str, Any]]:
    """How many of each task's human replies stand in the training pairs of each source."""
    rows = []
    sources = {source for name in plan.run.reward_models for source in sources_of(plan.models[name])}
    for benchmark in plan.rewarded_benchmarks:
        titles = {card.task: card.title for card in plan.reward_cards(benchmark)}
        for source in sorted(sources):
            by_task = read_json(paths.OVERLAP.within(results, source=source, benchmark=benchmark)) or {}
            rows += [
                {
                    "source": PAIR_SOURCES[source].title,
                    "task": titles[task],
                    "items": overlap["items"],
                    "leaked": len(overlap["leaked"]),
                    "problems": len(overlap["problems"]),
                }
                for task, overlap in by_task.items()
                if task in titles  # the file may be of a run with more tasks
            ]
    return rows


def trainings(plan: Plan, results: Path) -> list[dict[str, Any]]:
    """What each reward model was trained with, and its curve of loss and accuracy."""
    rows = []
    for name in plan.reward_models:
        model = plan.models[name]
        record = read_json(paths.TRAINING.within(results, reward_model=name))
        if not record or not isinstance(model, RewardModel) or model.train is None:
            continue
        curves = {
            key: [(float(step["step"]), float(step[key])) for step in record["history"] if key in step]
            for key in ("loss", "accuracy")
        }
        rows.append(
            {
                "label": label_of(plan, name),
                "counts": record["counts"],
                "train": record["settings"]["train"],
                "longest": record["longest"],
                "borrowed_pad": record["borrowed_pad"],
                "steps": len(record["history"]),
                "chart": line_chart(curves) if sum(map(len, curves.values())) > 2 else "",
            }
        )
    return rows


def densities(plan: Plan, results: Path) -> str:
    """Figure 3: how the scores of expert and novice replies are spread, one panel a reward model."""
    scores: dict[tuple[str, str], list[float]] = defaultdict(list)
    for name in plan.reward_models:
        path = paths.PAIR_REWARDS.within(results, reward_model=name)
        for pair in read_records(path, PairReward) if path.exists() else []:
            for teacher, score in (("expert", pair.chosen), ("novice", pair.rejected)):
                if score is not None:
                    scores[label_of(plan, name), teacher].append(score)
    return density_chart(scores) if scores else ""


def criteria_rows(plan: Plan, measured: Measured) -> list[dict[str, Any]]:
    """Table 5: each classifier on held-out dialogues and on the test pairs, beside the paper's accuracy."""
    five = paper_values(5, "accuracy")
    rows = []
    for name in plan.run.classifiers:
        model, scores = plan.models[name], measured[name]
        assert isinstance(model, CriteriaModel)
        rows += [
            {
                "label": label_of(plan, name),
                "criterion": criterion.replace("_", " "),
                "heldout": scores.get(Quantity("heldout_accuracy", criterion)),
                "majority": scores.get(Quantity("majority_accuracy", criterion)),
                "pairs": scores.get(Quantity("pair_accuracy", criterion)),
                "ties": scores.get(Quantity("ties", criterion)),
                "paper": five.get(criterion),
            }
            for criterion in model.train.criteria
        ]
    return rows


def classifiers(plan: Plan, results: Path) -> list[dict[str, Any]]:
    """What each set of classifiers learnt from."""
    rows = []
    for name in plan.run.classifiers:
        record = read_json(paths.CLASSIFIER_TRAINING.within(results, classifier=name))
        if record:
            rows.append({"label": label_of(plan, name), "counts": record["counts"], "longest": record["longest"]})
    return rows


def quartiles(plan: Plan, results: Path) -> list[dict[str, Any]]:
    """Table 7: novice replies of the test pairs by the quarter of their score, by the first reward model."""
    if not plan.run.reward_models:
        return []
    path = paths.PAIR_REWARDS.within(results, reward_model=plan.run.reward_models[0])
    source = paths.PAIRS.within(results, source=plan.leading_pairs)
    if not path.exists() or not source.exists():
        return []
    pairs = read_records(source, Pair)
    texts = {pair.id: pair.rejected for pair in pairs}
    scored = [(reward.rejected, reward.id) for reward in read_records(path, PairReward) if reward.rejected is not None]
    ranked = [(score, texts[name]) for score, name in sorted(scored, reverse=True)]
    quarter = len(ranked) // 4
    last = len(ranked) - quarter
    parts = {"top": ranked[:quarter], "middle": ranked[quarter:last], "bottom": ranked[last:]}
    paper = {row.row: row.text for row in printed(7)}
    return [
        {"quarter": QUARTILES[name], "examples": spread(part, EXAMPLES), "n": len(part), "paper": paper[name]}
        for name, part in parts.items()
        if part
    ]


def spread(ranked: list[Any], wanted: int) -> list[Any]:
    """A few of a ranked list, from its first to its last."""
    if len(ranked) <= wanted:
        return ranked
    return [ranked[round(place * (len(ranked) - 1) / (wanted - 1))] for place in range(wanted)]


Rewards = dict[tuple[str, str], list[Reward]]  # by reward model and benchmark


def read_rewards(plan: Plan, results: Path, reward: str, benchmark: str) -> list[Reward]:
    """All scores of a benchmark's replies by one reward model, as far as their jobs are done."""
    files = [
        paths.REWARDS.within(results, reward_model=reward, benchmark=benchmark, batch=batch)
        for batch in plan.reward_batches(benchmark)
    ]
    return [record for path in files if path.exists() for record in read_records(path, Reward)]


def replies_of(results: Path, benchmark: str, model: str) -> Path:
    """One tutor's replies; absent where its job has failed."""
    return paths.REPLIES.within(results, benchmark=benchmark, tutor=model)


def replies_by_item(plan: Plan, results: Path, benchmark: str) -> dict[tuple[str, str, str], str]:
    """What every tutor said, by tutor, task and item."""
    files = [replies_of(results, benchmark, model) for model in plan.tutors]
    return {
        (reply.tutor, reply.task, reply.id): reply.text
        for path in files
        if path.exists()
        for reply in read_records(path, Reply)
    }


def examples(plan: Plan, results: Path, rewards: Rewards) -> dict[str, Any] | None:
    """Table 6: every tutor's reply to one dialogue, by its score: the item whose scores lie farthest apart."""
    for benchmark in plan.rewarded_benchmarks if plan.run.reward_models else []:
        tasks = {card.task for card in plan.reward_cards(benchmark)}
        by_item: dict[tuple[str, str], dict[str, float]] = defaultdict(dict)
        replies = replies_by_item(plan, results, benchmark)
        for reward in rewards[plan.run.reward_models[0], benchmark]:
            # Scores may be of an earlier run with other items, or of a tutor whose job has failed since.
            if reward.score is not None and reward.task in tasks and (reward.tutor, reward.task, reward.id) in replies:
                by_item[reward.task, reward.id][reward.tutor] = reward.score
        most = max(map(len, by_item.values()), default=0)
        full = {key: scores for key, scores in by_item.items() if len(scores) == most}
        if most < 2:
            continue
        task, name = max(full, key=lambda key: (max(full[key].values()) - min(full[key].values()), key))
        items = {
            item.id: item for item in read_records(paths.ITEMS.within(results, benchmark=benchmark, task=task), Item)
        }
        if name not in items:
            continue
        human = plan.human_reference(benchmark)
        rows = [
            {
                "label": label_of(plan, model),
                "text": replies[model, task, name],
                "score": score,
                "human": model == human,
            }
            for model, score in sorted(full[task, name].items(), key=lambda pair: pair[1])
        ]
        return {"item": items[name], "rows": rows, "paper": printed(6)}
    return None


def speeds(plan: Plan, rewards: Rewards) -> list[dict[str, Any]]:
    """What scoring took, and pairs a second as the paper counts them: a tutor's reply and the human one."""
    rows = []
    for name in plan.run.reward_models:
        distinct: dict[str, Reward] = {}
        pairs = 0
        for benchmark in plan.rewarded_benchmarks:
            human = plan.human_reference(benchmark)
            for reward in rewards[name, benchmark]:
                if reward.score is not None:
                    pairs += reward.tutor != human
                    distinct[reward.key] = reward
        seconds = sum(reward.seconds or 0.0 for reward in distinct.values())
        if seconds:
            tokens = sum(reward.tokens for reward in distinct.values())
            rows.append(
                {
                    "label": label_of(plan, name),
                    "pairs": pairs,
                    "conversations": len(distinct),
                    "tokens": tokens,
                    "seconds": seconds,
                    "per_second": pairs / seconds,
                    "tokens_per_second": tokens / seconds,
                }
            )
    return rows


def accuracy_figure(rows: list[dict[str, Any]]) -> str:
    """Figure 4: accuracy on the test pairs of every grader, with intervals and the paper's values."""
    table = [
        {
            "label": row["label"],
            "group": row["group"],
            "value": row["accuracy"].value,
            "low": row["accuracy"].low,
            "high": row["accuracy"].high,
            "paper": row["paper"],
        }
        for row in rows
        if row["accuracy"] and row["accuracy"].value is not None
    ]
    return bar_chart(pd.DataFrame(table), "accuracy on the test pairs") if table else ""


def grader_section(plan: Plan, results: Path) -> dict[str, Any] | None:
    """Everything the page shows of reward models and classifiers; None in a run without any."""
    names = [*plan.reward_models, *plan.run.classifiers, *plan.judges_of_pairs]
    if not names:
        return None
    measured = {name: scores_of(results, name) for name in names}
    rewards = {
        (name, benchmark): read_rewards(plan, results, name, benchmark)
        for name in plan.run.reward_models
        for benchmark in plan.rewarded_benchmarks
    }
    rows = accuracy_rows(plan, measured)
    return {
        "names": names,
        "notices": {label_of(plan, name): plan.models[name].notice for name in names if plan.models[name].notice},
        "absent": [label_of(plan, name) for name in names if not measured[name]],
        "headline": label_of(plan, plan.run.reward_models[0]) if plan.run.reward_models else None,
        "accuracy": rows,
        "figure": accuracy_figure(rows),
        "ablation": ablation_rows(plan, measured) if plan.reward_models else [],
        "pairs": pair_rows(plan, results),
        "overlap": overlap_rows(plan, results),
        "trainings": trainings(plan, results),
        "densities": densities(plan, results),
        "criteria": criteria_rows(plan, measured),
        "classifiers": classifiers(plan, results),
        "quartiles": quartiles(plan, results),
        "examples": examples(plan, results, rewards),
        "speeds": speeds(plan, rewards),
        "tutors": len(plan.tutors),
    }
