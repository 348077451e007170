"""The tables of a run: scores joined with floors, ceilings and the paper's values; requests and seconds."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import cache, partial
from pathlib import Path
from typing import Any

import pandas as pd

from maieutic.config.cards import Card
from maieutic.config.models import BaselineModel, HostedModel, JudgeModel, Model, RecordedModel, RewardModel
from maieutic.core import paths
from maieutic.core.files import safe_cell
from maieutic.core.records import Item, Reply, ReportedScore, Score, each_record, read_records
from maieutic.judges.assignments import pairs_task
from maieutic.judges.rubrics import chosen_rubrics
from maieutic.plan.plan import Plan
from maieutic.plan.provenance import Provenance, differences
from maieutic.scores.printed import PAPERS, Circumstances, difference_note, paper_name, printed_of, printed_values
from maieutic.scores.score import all_metrics
from maieutic.serving.answers import REFUSAL

DIGITS = 6
OF_TUTORS = {"benchmark", "headline", "version"}  # which a number of a grader has not
NUMBERS = (
    "value",
    "low",
    "high",
    "readable",
    "normal",
    "floor",
    "ceiling",
    "paper",
)  # a column of nones is one of floats too
TEXTS = ("criterion", "subset", "release")  # and one of texts


def items_of_task(results: Path, benchmark: str, task: str) -> list[Item]:
    """The items of a task, none where their job has failed."""
    path = paths.ITEMS.within(results, benchmark=benchmark, task=task)
    return read_records(path, Item) if path.exists() else []


def score_file(path: Path) -> list[Score]:
    """The scores of one file, none where its job has failed."""
    if not path.exists():
        return []
    return [Score.model_validate(entry) for entry in json.loads(path.read_text(encoding="utf-8"))]


def read_scores(results: Path, benchmark: str, models: Iterable[str]) -> dict[str, list[Score]]:
    """The scores of every model that has some."""
    by_model = {}
    for model in models:
        path = paths.SCORES.within(results, benchmark=benchmark, tutor=model)
        # Scores without their replies are those of an earlier run: Snakemake deleted the outputs of a job that failed.
        if path.exists() and (paths.REPLIES.within(results, benchmark=benchmark, tutor=model)).exists():
            by_model[model] = score_file(path)
    return by_model


Reading = tuple[str, str, str | None]  # metric, scoring, and the reward model or judge behind it


def reading_of(score: Score) -> Reading:
    """What a score may be compared with: the same metric read the same way."""
    return score.metric, score.scoring, score.by


def leads(plan: Plan, score: Score) -> bool:
    """Whether a score is a parser's, or the first reward model's or judge's: what stands for the run."""
    cards = [loaded.card for loaded in plan.cards.values() if loaded.card.task == score.task]
    judges = [name for card in cards for name in plan.judges_of_card(card)[:1]]
    return score.by in (None, *plan.run.reward_models[:1], *judges)


def bounds(card: Card, scores: dict[str, list[Score]]) -> dict[Reading, tuple[float | None, float | None]]:
    """For each metric and scoring, the best trivial tutor's value and the human reference's."""

    def values(models: Iterable[str], key: Reading) -> list[float]:
        return [
            score.value
            for model in models
            for score in scores.get(model, [])
            if score.task == card.task and reading_of(score) == key and score.value is not None
        ]

    metrics = all_metrics(card)
    keys = {
        reading_of(score)
        for own_scores in scores.values()
        for score in own_scores
        if score.task == card.task and score.metric in metrics  # scores may be of a run with reward models
    }
    return {
        key: (
            max(values(card.baselines.floor, key), default=None),
            max(values([card.baselines.ceiling], key), default=None) if metrics[key[0]].ceiling else None,
        )
        for key in keys
    }


def complete_scores(plan: Plan, results: Path, provenance: Provenance | None) -> dict[str, list[ReportedScore]]:
    """Every score of a run by benchmark, with floor, ceiling and, where it may be compared, the paper's value."""
    complete: dict[str, list[ReportedScore]] = {}
    for benchmark, loadeds in plan.benchmarks.items():
        scores = read_scores(results, benchmark, plan.tutors)
        for card in (loaded.card for loaded in loadeds):
            limits, metrics = bounds(card, scores), all_metrics(card)
            changed = cache(partial(is_changed, provenance, plan, card))
            for model, own_scores in scores.items():
                if not plan.belongs(card, model):
                    continue
                for score in (
                    candidate for candidate in own_scores if candidate.task == card.task and candidate.metric in metrics
                ):
                    floor, ceiling = limits[reading_of(score)]
                    rated = metrics[score.metric].higher_is_better is not None
                    known: dict[str, Any] = {"floor": floor if rated else None, "ceiling": ceiling if rated else None}
                    known["changed"] = changed(score.by)
                    known["paper"] = paper_value(plan, card, score, known["changed"])
                    complete.setdefault(benchmark, []).append(ReportedScore(**score.model_dump(), **known))
    return complete


def is_changed(provenance: Provenance | None, plan: Plan, card: Card, grader: str | None) -> bool:
    """Whether anything behind a task's numbers by one grader is not as shipped."""
    return bool(differences(provenance, plan, card, grader))


def paper_value(plan: Plan, card: Card, score: Score, changed: bool) -> float | None:
    """The paper's value of the same tutor, task and metric, where the same thing was measured by the same rules."""
    name = paper_name(plan.models[str(score.tutor)].paper, card.benchmark)
    if name is None or not leads(plan, score) or score.scoring != "paper_compat":
        return None
    printed = printed_of(printed_values(card.benchmark), name, card.task, score.metric)
    if printed is None or difference_note(printed, card.benchmark, circumstances(plan, [card], score, changed)):
        return None
    return printed.value


def circumstances(plan: Plan, cards: Sequence[Card], score: Score, changed: bool) -> Circumstances:
    """How a score came about. cards: the task's, or those of its pool."""
    benchmark = cards[0].benchmark
    by = plan.models.get(score.by or "")
    grader = score.by
    if isinstance(by, RewardModel) and by.weights is not None:
        as_published = by.prompt == RewardModel.model_fields["prompt"].default and by.max_length is None
        grader = f"{getattr(by.weights, 'repo', None) or grader}{'' if as_published else ', otherwise set up'}"
    judged = None
    if isinstance(by, JudgeModel):
        grader = paper_name(by.paper, benchmark) or grader
        if benchmark in PAPERS and grader in PAPERS[benchmark].judges:
            judged = judged_otherwise(plan, benchmark, cards, str(score.by))
    whole = plan.run.limit is None and is_whole(cards, score, plan.config.report.least_readable)
    tutor = str(score.tutor)
    otherwise = asked_otherwise(plan, benchmark, tutor) or judged
    return Circumstances(plan.edition == "published", whole, plan.protocol_of(tutor), changed, grader, otherwise)


def asked_otherwise(plan: Plan, benchmark: str, tutor: str) -> str | None:
    """Return the first thing about a tutor that was not as in the paper, or None: its model, prompt or protocol.

    Recorded replies were given elsewhere, to whatever was asked there.
    """
    model, paper = plan.models[tutor], PAPERS.get(benchmark)
    if paper is None or isinstance(model, RecordedModel):
        return None
    ran = paper.served.get(paper_name(model.paper, benchmark) or "")
    if ran is not None and getattr(model, "model", ran) != ran:
        return f"another model: the paper ran {ran}"
    if not paper.prompt:
        return "a prompt of ours: the paper prints none"
    if note := paper.other_protocols.get(plan.protocol_of(tutor)):
        return note
    return paper.user_last if getattr(model, "user_last", False) else None


def judged_otherwise(plan: Plan, benchmark: str, cards: Sequence[Card], judge: str) -> str | None:
    """Return that the paper's judge has a prompt which the paper does not print, or None."""
    printed = PAPERS[benchmark].judge_prompts
    entry = plan.judge_entry(judge)
    ours = [name for card in cards for name in chosen_rubrics(entry.rubrics, card.rubrics) if name not in printed]
    if not ours:
        return None
    return f"judged by a prompt of ours, {ours[0]}" + ("" if printed else ": the paper prints none")


def is_whole(cards: Sequence[Card], score: Score, least_readable: float) -> bool:
    """Whether a score rests on as many items as were published; one of a subset of them is taken for whole.

    Items that a grader left open are no more than the run's least readable share allows.
    """
    if score.n < least_readable * (score.n + score.missing):
        return False
    metric = all_metrics(cards[0]).get(score.metric)
    if metric is not None and (metric.only or metric.subset):
        return True
    return score.n + score.missing >= sum(card.items for card in cards)


def is_silent(plan: Plan, readable: float | None) -> bool:
    """Return whether too few of a tutor's replies to a task can be read (`report.least_readable`)."""
    return readable is not None and readable < plan.config.report.least_readable


def label_of(plan: Plan, name: str) -> str:
    """A model's name in the report."""
    return plan.models[name].label or name


def breakdown_scores(plan: Plan, results: Path) -> dict[str, list[ReportedScore]]:
    """Every score by tag of the benchmarks that have some; `task` is the pool."""
    by_benchmark = {}
    for benchmark in plan.pooled_benchmarks:
        by_benchmark[benchmark] = [
            ReportedScore(**score.model_dump())
            for model in plan.tutors_on(benchmark)
            for score in score_file(paths.BREAKDOWN.within(results, benchmark=benchmark, tutor=model))
        ]
    return by_benchmark


def score_table(plan: Plan, scores: dict[str, list[ReportedScore]]) -> pd.DataFrame:
    """One row a score."""
    rows = [
        {
            "benchmark": benchmark,
            "label": label_of(plan, score.tutor),
            "group": plan.models[score.tutor].group,
            "baseline": isinstance(plan.models[score.tutor], BaselineModel),
            **score.model_dump(),
            "readable": score.readable,
            "by": score.by or "parser",
        }
        for benchmark, own_scores in scores.items()
        for score in own_scores
    ]
    first = ["benchmark", "task", "tutor", "label", "group", "baseline"]
    columns = [*first, *(name for name in ReportedScore.model_fields if name not in {*first, "grader"})]
    columns.insert(columns.index("unreadable") + 1, "readable")
    table = pd.DataFrame(rows, columns=columns).astype({**dict.fromkeys(NUMBERS, float), "version": "Int64"})
    return table.round(DIGITS).map(safe_cell).astype(dict.fromkeys(TEXTS, "str"))


def read_json(path: Path) -> Any:
    """A JSON file, None where its job has failed."""
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else None


def trust_table(plan: Plan, results: Path) -> pd.DataFrame:
    """Everything that was measured of graders and of labels: one row a number, `file` says of what."""
    graders = [
        *plan.run.judges,
        *plan.run.reward_models,
        *plan.run.reward_comparisons,
        *plan.run.classifiers,
    ]
    files = {}
    for name in graders:
        files[f"trust/{name}"] = paths.LABEL_VALIDATION.within(results, grader=name)
        leading = pairs_task(plan.preferences[0]) if plan.preferences else "pairs"
        files[f"{leading}/{name}"] = paths.PAIR_VALIDATION.within(results, grader=name)
        for source in plan.further_pairs:
            files[f"{pairs_task(source)}/{name}"] = paths.SET_VALIDATION.within(results, grader=name, source=source)
        if name in plan.probed_judges:
            files[f"probes/{name}"] = paths.PROBE_VALIDATION.within(results, grader=name)
        files[f"people/{name}"] = paths.CORRECTED.within(results, judge=name)
    files |= {f"labels/{name}": paths.LABEL_SCORES.within(results, release=name) for name in sorted(plan.releases)}
    rows = [
        {"file": name, **score.model_dump(exclude=OF_TUTORS)}
        for name, path in files.items()
        for score in score_file(path)
    ]
    columns = [name for name in Score.model_fields if name not in OF_TUTORS]
    return pd.DataFrame(rows, columns=["file", *columns]).round(DIGITS).map(safe_cell)


def runtime_table(plan: Plan, results: Path) -> pd.DataFrame:
    """Requests, tokens and summed request seconds of each tutor and benchmark."""
    rows = []
    for benchmark in plan.benchmarks:
        for model in plan.tutors_on(benchmark):
            path = paths.REPLIES.within(results, benchmark=benchmark, tutor=model)
            if not path.exists() or isinstance(plan.models[model], BaselineModel):
                continue
            rows.append({"benchmark": benchmark, "tutor": model, **spent_on(path, plan.models[model])})
    columns = ["benchmark", "tutor", "requests", "prompt_tokens", "completion_tokens", "request_seconds"]
    return pd.DataFrame(rows, columns=[*columns, "usd", "cut_by_max_tokens", "declined"])


def spent_on(replies: Path, model: Model) -> dict[str, Any]:
    """Requests, tokens, seconds and money behind a file of replies, read once and one reply at a time."""
    counts: Counter[str] = Counter()
    seconds = 0.0
    for reply in each_record(replies, Reply):
        for turn in reply.turns:
            counts["requests"] += 1
            counts["prompt_tokens"] += turn.prompt_tokens or 0
            counts["completion_tokens"] += turn.completion_tokens or 0
            counts["cached_tokens"] += turn.cached_tokens or 0
            seconds += turn.seconds or 0.0
            counts["cut"] += turn.finish == "length"
            counts["declined"] += turn.finish == REFUSAL
    prompt, completion = counts["prompt_tokens"], counts["completion_tokens"]
    return {
        "requests": counts["requests"],
        "prompt_tokens": prompt,
        "completion_tokens": completion,
        "request_seconds": round(seconds, 1),
        "usd": cost(model, prompt, completion, counts["cached_tokens"]),
        "cut_by_max_tokens": counts["cut"],
        "declined": counts["declined"],
    }


def cost(model: Model, prompt_tokens: int, completion_tokens: int, cached_tokens: int = 0) -> float | None:
    """US dollars by the registry's price, None where it has none."""
    if not isinstance(model, HostedModel) or model.price is None:
        return None
    return round(model.price.usd(prompt_tokens, completion_tokens, cached_tokens), 4)
