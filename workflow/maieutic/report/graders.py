"""The page on reward models and criteria classifiers: training, agreement with experts, overlap with training data.

It shows Tables 2, 3, 5, 6 and 7 and Figures 3 and 4 of the MathTutorBench paper, with the values of this run added.
"""

from __future__ import annotations

from collections import defaultdict
from functools import cache, partial
from pathlib import Path
from typing import Any

import pandas as pd

from maieutic.config.models import CriteriaModel, JudgeModel, RewardModel
from maieutic.config.rubrics import read_rubric
from maieutic.core import paths
from maieutic.core.records import Item, Pair, PairReward, Quantity, Reply, Reward, Score, read_records
from maieutic.datasets.pairs import PAIR_SOURCES
from maieutic.plan.plan import Plan, training_pair_sources
from maieutic.report.figures import GREY, density_chart, levels_chart, line_chart
from maieutic.report.tables import display_label, leading_reward_model, read_json, score_file
from maieutic.report.traffic_light import PAIRS
from maieutic.scores.papers import PrintedRow, printed_rows
from maieutic.scores.printed import PAPERS, paper_name
from maieutic.validation.rewards import BEST_3

EXAMPLES = 3  # number of replies shown for each range of scores
QUARTILES = {"top": "top quarter", "middle": "middle half", "bottom": "bottom quarter"}
ENSEMBLES: dict[str | None, str] = {None: "all", BEST_3: BEST_3}  # criterion -> name of the ensemble in the paper


@cache
def reward_paper() -> str:
    """Return the benchmark whose paper publishes results of reward models."""
    return next(name for name, entry in PAPERS.items() if entry.reward_models())


def printed_table(table: int) -> list[PrintedRow]:
    """Return the rows of a table in the paper on reward models. table: number of the table in the paper."""
    return [row for row in printed_rows(reward_paper()) if row.table == str(table)]


def paper_values(table: int, metric: str) -> dict[str, float]:
    """Return the values of one metric in a table of the paper on reward models, by row name."""
    return {row.row: row.value for row in printed_table(table) if row.metric == metric}


MeasuredByGrader = dict[str, dict[Quantity, Score]]  # grader -> quantity -> score; inner dict empty if a job failed


def scores_of(results: Path, name: str) -> dict[Quantity, Score]:
    """Return all scores of one grader on pairs, by quantity; an empty dict if the grader's validation job failed."""
    return {score.quantity: score for score in score_file(paths.PAIR_VALIDATION.within(results, grader=name))}


def accuracy_rows(plan: Plan, measured: MeasuredByGrader) -> list[dict[str, Any]]:
    """Return a row per grader with its results on the test pairs: accuracy, score margin, ties and effect of length.

    The last row is a baseline that always prefers the longer reply.
    """
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
            label = display_label(plan, name) + {"": "", "all": ": sum of all", BEST_3: ": sum of the best three"}[kind]
            on = partial(Quantity, criterion=criterion)
            rows.append(
                {
                    "label": label,
                    "name": name,
                    "kind": PAIRS if isinstance(model, RewardModel) else None,
                    "pairs": getattr(scores.get(on("pair_accuracy")), "n", None),
                    "group": model.group,
                    "accuracy": scores.get(on("pair_accuracy")),
                    "margin": scores.get(on("mean_margin")),
                    "ties": scores.get(on("ties")),
                    "length": scores.get(on("length_correlation")) if criterion is None else None,
                    "paper": five[kind] if kind else accuracy.get(paper_name(model.paper, reward_paper()) or ""),
                    "paper_margin": None if kind else margins.get(paper_name(model.paper, reward_paper()) or ""),
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
    """Return two rows for each rubric of a judge: mean accuracy over both reply orders, and share right in both.

    A pair is right in both orders if the judge prefers the expert's reply whichever of the two replies comes first.
    """
    rows = []
    for rubric in judge.pairs:
        for metric, addition in (("pair_accuracy", ""), ("consistent_accuracy", ", both orders")):
            accuracy, both = scores.get(Quantity(metric, rubric)), scores.get(Quantity("flip_rate", rubric))
            rows.append(
                {
                    "name": name,
                    "kind": rubric,
                    "pairs": both.n + both.missing if both else None,
                    "label": f"{display_label(plan, name)}: {read_rubric(rubric).rubric.title}{addition}",
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


def ablation_rows(plan: Plan, measured: MeasuredByGrader) -> list[dict[str, Any]]:
    """Return the rows of the paper's Table 3: six mixes of training data, each with the matching models of this run."""
    margins = paper_values(3, "mean_margin")
    return [
        {
            "mix": mix,
            "accuracy": accuracy,
            "margin": margins[mix],
            "ours": [
                {
                    "label": display_label(plan, name),
                    "accuracy": measured[name].get(Quantity("pair_accuracy")),
                    "margin": measured[name].get(Quantity("mean_margin")),
                }
                for name in plan.reward_models
                if paper_name(plan.models[name].paper, reward_paper()) == mix
            ],
        }
        for mix, accuracy in paper_values(3, "pair_accuracy").items()
    ]


def pair_source_rows(plan: Plan, results: Path) -> list[dict[str, Any]]:
    """Return the rows of the paper's Table 2: the number of pairs from each source, in this run and in the paper."""
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
    """Return the number of human replies and problems that a task and a source of training pairs have in common.

    There is one row for each source and task.
    """
    rows = []
    sources = {source for name in plan.run.reward_models for source in training_pair_sources(plan.models[name])}
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
                if task in titles  # skip tasks of an earlier run that wrote the file
            ]
    return rows


def training_rows(plan: Plan, results: Path) -> list[dict[str, Any]]:
    """Return the training data, settings and curves of each reward model that was trained by the workflow."""
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
                "label": display_label(plan, name),
                "counts": record["counts"],
                "train": record["settings"]["train"],
                "longest": record["longest"],
                "borrowed_pad": record["borrowed_pad"],
                "steps": len(record["history"]),
                "chart": line_chart(curves) if sum(map(len, curves.values())) > 2 else "",
            }
        )
    return rows


def density_figure(plan: Plan, results: Path) -> str:
    """Return the paper's Figure 3 for this run: distributions of the scores of experts' and novices' replies."""
    scores: dict[tuple[str, str], list[float]] = defaultdict(list)
    for name in plan.reward_models:
        path = paths.PAIR_REWARDS.within(results, reward_model=name)
        for pair in read_records(path, PairReward) if path.exists() else []:
            for teacher, score in (("expert", pair.chosen), ("novice", pair.rejected)):
                if score is not None:
                    scores[display_label(plan, name), teacher].append(score)
    return density_chart(scores) if scores else ""


def criteria_rows(plan: Plan, measured: MeasuredByGrader) -> list[dict[str, Any]]:
    """Return the rows of the paper's Table 5, one for each classifier and criterion.

    A row contains this run's results on held-out dialogues and test pairs, and the paper's accuracy.
    """
    five = paper_values(5, "accuracy")
    rows = []
    for name in plan.run.classifiers:
        model, scores = plan.models[name], measured[name]
        assert isinstance(model, CriteriaModel)
        rows += [
            {
                "label": display_label(plan, name),
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


def classifier_rows(plan: Plan, results: Path) -> list[dict[str, Any]]:
    """Return a row for each set of criteria classifiers, with a description of its training data."""
    rows = []
    for name in plan.run.classifiers:
        record = read_json(paths.CLASSIFIER_TRAINING.within(results, classifier=name))
        if record:
            rows.append({"label": display_label(plan, name), "counts": record["counts"], "longest": record["longest"]})
    return rows


def published_score_rows(plan: Plan, results: Path) -> list[dict[str, Any]]:
    """Return each reward model's own scores beside the published ones, with the largest difference."""
    rows = []
    for name in plan.models_with_published_scores:
        published = read_json(paths.PUBLISHED_SCORES.within(results, reward_model=name))
        if published:
            rows.append({"label": display_label(plan, name), **published})
    return rows


def quartile_rows(plan: Plan, results: Path) -> list[dict[str, Any]]:
    """Return the rows of the paper's Table 7 for this run: novices' replies with high, middle and low scores.

    The replies are from the test pairs, and the scores are those of the run's first reward model.
    """
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
    paper: dict[str, list[str]] = defaultdict(list)
    for row in printed_table(7):
        paper[row.row].append(row.text)
    return [
        {"quarter": QUARTILES[name], "examples": evenly_spaced(part, EXAMPLES), "n": len(part), "paper": paper[name]}
        for name, part in parts.items()
        if part
    ]


def evenly_spaced(ranked: list[Any], number: int) -> list[Any]:
    """Return `number` elements of a ranked list, evenly spaced from the first to the last."""
    if len(ranked) <= number:
        return ranked
    return [ranked[round(place * (len(ranked) - 1) / (number - 1))] for place in range(number)]


Rewards = dict[tuple[str, str], list[Reward]]  # (reward model, benchmark) -> scores of replies


def read_rewards(plan: Plan, results: Path, reward: str, benchmark: str) -> list[Reward]:
    """Return one reward model's scores for a benchmark's replies, from the jobs that have finished."""
    files = [
        paths.REWARDS.within(results, reward_model=reward, benchmark=benchmark, batch=batch)
        for batch in plan.reward_batches(benchmark)
    ]
    return [record for path in files if path.exists() for record in read_records(path, Reward)]


def replies_file(results: Path, benchmark: str, model: str) -> Path:
    """Return the path of the file with one tutor's replies. The file does not exist if the tutor's job failed."""
    return paths.REPLIES.within(results, benchmark=benchmark, tutor=model)


def replies_by_item(plan: Plan, results: Path, benchmark: str) -> dict[tuple[str, str, str], str]:
    """Return the text of every reply, by tutor, task and item."""
    files = [replies_file(results, benchmark, model) for model in plan.tutors]
    return {
        (reply.tutor, reply.task, reply.id): reply.text
        for path in files
        if path.exists()
        for reply in read_records(path, Reply)
    }


def example_dialogue(plan: Plan, results: Path, rewards: Rewards) -> dict[str, Any] | None:
    """Return the paper's Table 6 for this run: the dialogue whose replies have the widest range of scores.

    Every tutor's reply to this dialogue is included, in order of score. Returns None if no dialogue has two scores.
    """
    for benchmark in plan.rewarded_benchmarks if plan.run.reward_models else []:
        tasks = {card.task for card in plan.reward_cards(benchmark)}
        by_item: dict[tuple[str, str], dict[str, float]] = defaultdict(dict)
        replies = replies_by_item(plan, results, benchmark)
        for reward in rewards[plan.run.reward_models[0], benchmark]:
            # Skip scores from an earlier run with other items, or of a tutor whose job has failed since.
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
                "label": display_label(plan, model),
                "text": replies[model, task, name],
                "score": score,
                "human": model == human,
            }
            for model, score in sorted(full[task, name].items(), key=lambda pair: pair[1])
        ]
        return {"item": items[name], "rows": rows, "paper": printed_table(6)}
    return None


def speed_rows(plan: Plan, rewards: Rewards) -> list[dict[str, Any]]:
    """Return a row per reward model with the tokens and time of its scoring, and the number of pairs scored per second.

    As in the paper, a pair consists of a tutor's reply and the human reply to the same item.
    """
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
                    "label": display_label(plan, name),
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
    """Return the paper's Figure 4 for this run: every grader's accuracy on the test pairs, with interval."""
    table = [
        {
            "level": row["label"],
            "series": "accuracy",
            **row["accuracy"].model_dump(include={"value", "low", "high"}),
            "paper": row["paper"],
        }
        for row in rows
        if row["accuracy"] and row["accuracy"].value is not None
    ]
    if not table:
        return ""
    rows_of_chart, chance = pd.DataFrame(table).astype({"paper": float}), {GREY: (0.5,)}
    return levels_chart(
        rows_of_chart, "accuracy on the test pairs", ["accuracy"], bars=True, lines=chance, domain=(0.0, 1.0)
    )


def grader_section(plan: Plan, results: Path) -> dict[str, Any] | None:
    """Return the template variables of the page on reward models and classifiers; None without graders of pairs."""
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
        "notices": {display_label(plan, name): plan.models[name].notice for name in names if plan.models[name].notice},
        "absent": [display_label(plan, name) for name in names if not measured[name]],
        "headline": display_label(plan, plan.run.reward_models[0]) if plan.run.reward_models else None,
        "accuracy": rows,
        "figure": accuracy_figure(rows),
        "ablation": ablation_rows(plan, measured) if plan.reward_models else [],
        "pairs": pair_source_rows(plan, results),
        "overlap": overlap_rows(plan, results),
        "trainings": training_rows(plan, results),
        "densities": density_figure(plan, results),
        "criteria": criteria_rows(plan, measured),
        "classifiers": classifier_rows(plan, results),
        "quartiles": quartile_rows(plan, results),
        "published_scores": published_score_rows(plan, results),
        "choice": leading_reward_model(plan, results),
        "examples": example_dialogue(plan, results, rewards),
        "speeds": speed_rows(plan, rewards),
        "tutors": len(plan.tutors),
    }
