"""The page on reward models and criteria classifiers: what they learnt, how far they agree with experts, what leaks.

MathTutorBench's Tables 2, 3, 5, 6 and 7 and its Figures 3 and 4, each beside the paper's values.
"""

from __future__ import annotations

import csv
from collections import defaultdict
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd

from maieutic.judges.rubrics import read_rubric
from maieutic.models import CriteriaModel, JudgeModel, RewardModel
from maieutic.printed import REFERENCE, paper_name
from maieutic.records import Item, Pair, PairReward, Quantity, Reply, Reward, Score, read_records
from maieutic.report.figures import bar_chart, density_chart, line_chart
from maieutic.report.lights import PAIRS
from maieutic.report.tables import label_of, read_json, score_file
from maieutic.rewards.checks import sources_of
from maieutic.rewards.pairs import PAIR_SOURCES, TEST_SOURCE
from maieutic.rewards.selection import (
    graders_of,
    human_reference,
    judges_of_pairs,
    reward_batches,
    reward_cards,
    rewarded_benchmarks,
    used_sources,
)
from maieutic.rewards.validation import BEST_3
from maieutic.settings import Config, tutors_of

PRINTED = REFERENCE / "reward_models.csv"
TUTORS_PAPER = "mathtutorbench"
EXAMPLES = 3  # replies of each quartile
QUARTILES = {"top": "top quarter", "middle": "middle half", "bottom": "bottom quarter"}
ENSEMBLES: dict[str | None, str] = {None: "all", BEST_3: BEST_3}  # by criterion, as the paper names them


def printed(table: int) -> list[dict[str, str]]:
    """The rows of one of the paper's tables."""
    with open(PRINTED, encoding="utf-8", newline="") as handle:
        return [row for row in csv.DictReader(handle) if row["table"] == str(table)]


def paper_values(table: int, metric: str) -> dict[str, float]:
    """One column of one of the paper's tables, by row."""
    return {row["row"]: float(row["value"]) for row in printed(table) if row["metric"] == metric}


Measured = dict[str, dict[Quantity, Score]]  # by grader; empty for a grader whose job has failed


def scores_of(results: Path, name: str) -> dict[Quantity, Score]:
    """What was measured of one grader; empty where its job has failed."""
    return {one.quantity: one for one in score_file(results / "scores" / "bridge_pairs" / f"{name}.json")}


def accuracy_rows(config: Config, measured: Measured) -> list[dict[str, Any]]:
    """One row a grader: accuracy on the test pairs with its interval, margin, ties, length; length alone comes last."""
    accuracy, margins = paper_values(3, "pair_accuracy"), paper_values(3, "mean_margin")
    five = paper_values(5, "accuracy")
    rows: list[dict[str, Any]] = []
    for name, scores in measured.items():
        model = config.models[name]
        if isinstance(model, JudgeModel):
            rows += judge_rows(config, name, model, scores)
            continue
        ensembles: dict[str | None, str] = ENSEMBLES if isinstance(model, CriteriaModel) else {None: ""}
        for criterion, kind in ensembles.items():
            shown = label_of(config, name) + {"": "", "all": ": sum of all", BEST_3: ": sum of the best three"}[kind]
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
                    "paper": five[kind] if kind else accuracy.get(paper_name(model.paper, TUTORS_PAPER) or ""),
                    "paper_margin": None if kind else margins.get(paper_name(model.paper, TUTORS_PAPER) or ""),
                }
            )
    lengths = [
        one for scores in measured.values() for of, one in scores.items() if of.metric == "longer_reply_accuracy"
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


def judge_rows(config: Config, name: str, judge: JudgeModel, scores: dict[Quantity, Score]) -> list[dict[str, Any]]:
    """A judge under each of its prompts, both orders: the mean, and where both orders agree on the expert's reply."""
    rows = []
    for rubric in judge.pairs:
        for metric, addition in (("pair_accuracy", ""), ("consistent_accuracy", ", both orders")):
            found, both = scores.get(Quantity(metric, rubric)), scores.get(Quantity("flip_rate", rubric))
            rows.append(
                {
                    "name": name,
                    "kind": rubric,
                    "pairs": both.n + both.missing if both else None,
                    "label": f"{label_of(config, name)}: {read_rubric(rubric).rubric.title}{addition}",
                    "group": judge.group,
                    "accuracy": found,
                    "margin": None,
                    "ties": scores.get(Quantity("flip_rate", rubric)) if addition else None,
                    "length": scores.get(Quantity("length_correlation", rubric)),
                    "paper": None,
                    "paper_margin": None,
                }
            )
    return rows


def ablation_rows(config: Config, measured: Measured) -> list[dict[str, Any]]:
    """Table 3: the paper's six mixes, and under each the reward models of this run that stand beside it."""
    margins = paper_values(3, "mean_margin")
    return [
        {
            "mix": mix,
            "accuracy": accuracy,
            "margin": margins[mix],
            "ours": [
                {"label": label_of(config, name), "scores": measured[name]}
                for name in graders_of(config)
                if paper_name(config.models[name].paper, TUTORS_PAPER) == mix
            ],
        }
        for mix, accuracy in paper_values(3, "pair_accuracy").items()
    ]


def pair_rows(config: Config, results: Path) -> list[dict[str, Any]]:
    """Table 2: what was counted of each source of pairs, beside the published count."""
    rows = []
    for source in sorted(used_sources(config), key=list(PAIR_SOURCES).index):
        counts = read_json(results / "preferences" / source / "counts.json")
        if counts:
            about = PAIR_SOURCES[source]
            role = "test" if about.test else "train"
            rows.append({**counts, "preferred": about.preferred, "rejected": about.rejected, "role": role})
    return rows


def overlap_rows(config: Config, results: Path) -> list[dict[str, Any]]:
    """How many of each task's human replies stand in the training pairs of each source."""
    rows = []
    sources = {source for name in config.run.reward_models for source in sources_of(config.models[name])}
    for benchmark in rewarded_benchmarks(config):
        titles = {card.task: card.title for card in reward_cards(config, benchmark)}
        for source in sorted(sources):
            found = read_json(results / "preferences" / source / "overlap" / f"{benchmark}.json") or {}
            rows += [
                {
                    "source": PAIR_SOURCES[source].title,
                    "task": titles[task],
                    "items": of["items"],
                    "leaked": len(of["leaked"]),
                    "problems": len(of["problems"]),
                }
                for task, of in found.items()
                if task in titles  # the file may be of a run with more tasks
            ]
    return rows


def trainings(config: Config, results: Path) -> list[dict[str, Any]]:
    """What each reward model was trained with, and its curve of loss and accuracy."""
    found = []
    for name in graders_of(config):
        model = config.models[name]
        told = read_json(results / "rewards" / "models" / name / "training.json")
        if not told or not isinstance(model, RewardModel) or model.train is None:
            continue
        curves = {
            key: [(float(step["step"]), float(step[key])) for step in told["history"] if key in step]
            for key in ("loss", "accuracy")
        }
        found.append(
            {
                "label": label_of(config, name),
                "counts": told["counts"],
                "train": told["settings"]["train"],
                "longest": told["longest"],
                "borrowed_pad": told["borrowed_pad"],
                "steps": len(told["history"]),
                "chart": line_chart(curves) if sum(map(len, curves.values())) > 2 else "",
            }
        )
    return found


def densities(config: Config, results: Path) -> str:
    """Figure 3: how the scores of expert and novice replies are spread, one panel a reward model."""
    found: dict[tuple[str, str], list[float]] = defaultdict(list)
    for name in graders_of(config):
        path = results / "rewards" / "pairs" / f"{name}.jsonl"
        for pair in read_records(path, PairReward) if path.exists() else []:
            for teacher, score in (("expert", pair.chosen), ("novice", pair.rejected)):
                if score is not None:
                    found[label_of(config, name), teacher].append(score)
    return density_chart(found) if found else ""


def criteria_rows(config: Config, measured: Measured) -> list[dict[str, Any]]:
    """Table 5: each classifier on held-out dialogues and on the test pairs, beside the paper's accuracy."""
    five = paper_values(5, "accuracy")
    rows = []
    for name in config.run.classifiers:
        model, scores = config.models[name], measured[name]
        assert isinstance(model, CriteriaModel)
        rows += [
            {
                "label": label_of(config, name),
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


def classifiers(config: Config, results: Path) -> list[dict[str, Any]]:
    """What each set of classifiers learnt from."""
    found = []
    for name in config.run.classifiers:
        told = read_json(results / "rewards" / "criteria" / name / "training.json")
        if told:
            found.append({"label": label_of(config, name), "counts": told["counts"], "longest": told["longest"]})
    return found


def quartiles(config: Config, results: Path) -> list[dict[str, Any]]:
    """Table 7: novice replies of the test pairs by the quarter of their score, by the first reward model."""
    if not config.run.reward_models:
        return []
    path = results / "rewards" / "pairs" / f"{config.run.reward_models[0]}.jsonl"
    source = results / "preferences" / TEST_SOURCE / "pairs.jsonl"
    if not path.exists() or not source.exists():
        return []
    pairs = read_records(source, Pair)
    texts = {pair.id: pair.rejected for pair in pairs}
    scored = [(one.rejected, one.id) for one in read_records(path, PairReward) if one.rejected is not None]
    ranked = [(score, texts[name]) for score, name in sorted(scored, reverse=True)]
    quarter = len(ranked) // 4
    last = len(ranked) - quarter
    parts = {"top": ranked[:quarter], "middle": ranked[quarter:last], "bottom": ranked[last:]}
    paper = {row["row"]: row["text"] for row in printed(7)}
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


def read_rewards(config: Config, results: Path, reward: str, benchmark: str) -> list[Reward]:
    """All scores of a benchmark's replies by one reward model, as far as their jobs are done."""
    folder = results / "rewards" / "replies" / reward / benchmark
    paths = [folder / f"{batch}.jsonl" for batch in reward_batches(config, benchmark)]
    return [one for path in paths if path.exists() for one in read_records(path, Reward)]


def replies_of(results: Path, benchmark: str, model: str) -> Path:
    """One tutor's replies; absent where its job has failed."""
    return results / "replies" / benchmark / f"{model}.jsonl"


def replies_by_item(config: Config, results: Path, benchmark: str) -> dict[tuple[str, str, str], str]:
    """What every tutor said, by tutor, task and item."""
    paths = [replies_of(results, benchmark, model) for model in tutors_of(config)]
    return {
        (reply.model, reply.task, reply.id): reply.text
        for path in paths
        if path.exists()
        for reply in read_records(path, Reply)
    }


def examples(config: Config, results: Path, rewards: Rewards) -> dict[str, Any] | None:
    """Table 6: every tutor's reply to one dialogue, by its score: the item whose scores lie farthest apart."""
    for benchmark in rewarded_benchmarks(config) if config.run.reward_models else []:
        tasks = {card.task for card in reward_cards(config, benchmark)}
        by_item: dict[tuple[str, str], dict[str, float]] = defaultdict(dict)
        said = replies_by_item(config, results, benchmark)
        for one in rewards[config.run.reward_models[0], benchmark]:
            # Scores may be of an earlier run with other items, or of a tutor whose job has failed since.
            if one.score is not None and one.task in tasks and (one.model, one.task, one.id) in said:
                by_item[one.task, one.id][one.model] = one.score
        most = max(map(len, by_item.values()), default=0)
        full = {key: scores for key, scores in by_item.items() if len(scores) == most}
        if most < 2:
            continue
        task, name = max(full, key=lambda key: (max(full[key].values()) - min(full[key].values()), key))
        items = {item.id: item for item in read_records(results / "items" / benchmark / f"{task}.jsonl", Item)}
        if name not in items:
            continue
        human = human_reference(config, benchmark)
        rows = [
            {
                "label": label_of(config, model),
                "text": said[model, task, name],
                "score": score,
                "human": model == human,
            }
            for model, score in sorted(full[task, name].items(), key=lambda pair: pair[1])
        ]
        return {"item": items[name], "rows": rows, "paper": printed(6)}
    return None


def speeds(config: Config, rewards: Rewards) -> list[dict[str, Any]]:
    """What scoring took, and pairs a second as the paper counts them: a tutor's reply and the human one."""
    rows = []
    for name in config.run.reward_models:
        distinct: dict[str, Reward] = {}
        pairs = 0
        for benchmark in rewarded_benchmarks(config):
            human = human_reference(config, benchmark)
            for one in rewards[name, benchmark]:
                if one.score is not None:
                    pairs += one.model != human
                    distinct[one.key] = one
        seconds = sum(one.seconds or 0.0 for one in distinct.values())
        if seconds:
            tokens = sum(one.tokens for one in distinct.values())
            rows.append(
                {
                    "label": label_of(config, name),
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


def grader_section(config: Config, results: Path) -> dict[str, Any] | None:
    """Everything the page shows of reward models and classifiers; None in a run without any."""
    names = [*graders_of(config), *config.run.classifiers, *judges_of_pairs(config)]
    if not names:
        return None
    measured = {name: scores_of(results, name) for name in names}
    rewards = {
        (name, benchmark): read_rewards(config, results, name, benchmark)
        for name in config.run.reward_models
        for benchmark in rewarded_benchmarks(config)
    }
    rows = accuracy_rows(config, measured)
    return {
        "names": names,
        "notices": {label_of(config, name): config.models[name].notice for name in names if config.models[name].notice},
        "absent": [label_of(config, name) for name in names if not measured[name]],
        "headline": label_of(config, config.run.reward_models[0]) if config.run.reward_models else None,
        "accuracy": rows,
        "figure": accuracy_figure(rows),
        "ablation": ablation_rows(config, measured) if graders_of(config) else [],
        "pairs": pair_rows(config, results),
        "overlap": overlap_rows(config, results),
        "trainings": trainings(config, results),
        "densities": densities(config, results),
        "criteria": criteria_rows(config, measured),
        "classifiers": classifiers(config, results),
        "quartiles": quartiles(config, results),
        "examples": examples(config, results, rewards),
        "speeds": speeds(config, rewards),
        "tutors": len(tutors_of(config)),
    }
