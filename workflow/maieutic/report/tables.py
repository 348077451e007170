"""The tables of a run: scores with floors, ceilings and the paper's values; requests, tokens, seconds and costs."""

from __future__ import annotations

import itertools
import json
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from functools import cache, partial
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from maieutic.config.cards import Card
from maieutic.config.models import (
    BaselineModel,
    HostedModel,
    JudgeModel,
    Model,
    RecordedModel,
    RewardModel,
    ServedModel,
)
from maieutic.config.rubrics import chosen_rubrics
from maieutic.core import paths
from maieutic.core.files import safe_cell
from maieutic.core.journal import canonical_digest
from maieutic.core.records import (
    COPY_MARK,
    COPY_SUFFIX,
    Item,
    Judgement,
    Reply,
    ReportedScore,
    Score,
    Turn,
    iter_records,
    read_records,
)
from maieutic.judges.assignments import pairs_task
from maieutic.plan.plan import Plan
from maieutic.plan.provenance import Provenance, changed_files_of_task
from maieutic.replies.generate import RequestLimits, tutor_request
from maieutic.scores.printed import (
    PAPERS,
    MeasurementConditions,
    difference_note,
    find_printed,
    paper_name,
    printed_values,
)
from maieutic.scores.score import all_metrics, reported_metrics
from maieutic.serving.answers import REFUSAL

DIGITS = 6
MOST_DOUBT = 0.03  # share of replies that the parser did not understand above which the number's light is amber
TUTOR_FIELDS = {"benchmark", "headline", "version"}  # fields of tutors' scores that graders' scores do not have
# Columns with the type float (NUMBERS) or text (TEXTS), even if all of their values are None
NUMBERS = ("value", "low", "high", "readable", "best", "if_wrong", "if_right", "normal", "floor", "ceiling", "paper")
TEXTS = ("criterion", "subset", "release")
RequestKeys = Callable[[Reply, Turn], Hashable]


def items_of_task(results: Path, benchmark: str, task: str) -> list[Item]:
    """Return the items of a task; an empty list if the job that selects them failed."""
    path = paths.ITEMS.within(results, benchmark=benchmark, task=task)
    return read_records(path, Item) if path.exists() else []


def score_file(path: Path) -> list[Score]:
    """Return the scores in a file; an empty list if the file does not exist because a job failed."""
    if not path.exists():
        return []
    return [Score.model_validate(entry) for entry in json.loads(path.read_text(encoding="utf-8"))]


def read_scores(results: Path, benchmark: str, models: Iterable[str]) -> dict[str, list[Score]]:
    """Return the scores of a benchmark by model. A model without scores or without replies is left out."""
    by_model = {}
    for model in models:
        path = paths.SCORES.within(results, benchmark=benchmark, tutor=model)
        # Scores whose replies are absent are from an earlier run: Snakemake deletes only the failed job's outputs.
        if path.exists() and (paths.REPLIES.within(results, benchmark=benchmark, tutor=model)).exists():
            by_model[model] = score_file(path)
    return by_model


ReadingKey = tuple[str, str, str | None]  # metric, scoring, and judge or reward model (None for a parser)


def reading_key(score: Score) -> ReadingKey:
    """Return the metric, scoring and grader of a score. Two scores are comparable if all three are equal."""
    return score.metric, score.scoring, score.by


Choice = dict[str, Any]  # a leading grader, and each grader's accuracy on two halves of the problems


def leading_reward_model(plan: Plan, results: Path) -> Choice | None:
    """Return the choice of the leading reward model, with its accuracies; None if the run's first one leads."""
    choice: Choice | None = read_json(paths.LEADING_REWARD_MODEL.within(results)) if plan.chooses_reward_model else None
    return choice


def leading_judge(plan: Plan, results: Path) -> Choice | None:
    """Return the choice of the leading judge, with its agreement with people; None if the run's first one leads."""
    choice: Choice | None = read_json(paths.LEADING_JUDGE.within(results)) if plan.chooses_judge else None
    return choice


def with_leading_graders(plan: Plan, results: Path) -> Plan:
    """Return the plan with the chosen reward model and judge first, so that the whole report leads with them."""
    choices = {"reward_models": leading_reward_model(plan, results), "judges": leading_judge(plan, results)}
    orders = {
        key: sorted(getattr(plan.run, key), key=lambda name: name != choice["leader"])
        for key, choice in choices.items()
        if choice is not None
    }
    if not orders:
        return plan
    return plan.for_config(plan.config.model_copy(update={"run": plan.run.model_copy(update=orders)}))


def is_leading(plan: Plan, score: Score) -> bool:
    """Return True if a score is by a parser, or by the task's first judge or the run's first reward model."""
    cards = [loaded.card for loaded in plan.cards.values() if loaded.card.task == score.task]
    judges = [name for card in cards for name in plan.judges_of_card(card)[:1]]
    return score.by in (None, *plan.run.reward_models[:1], *judges)


def score_bounds(card: Card, scores: dict[str, list[Score]]) -> dict[ReadingKey, tuple[float | None, float | None]]:
    """Return the floor (best trivial tutor) and ceiling (human reference) for each metric, scoring and grader."""

    def values(models: Iterable[str], key: ReadingKey) -> list[float]:
        return [
            score.value
            for model in models
            for score in scores.get(model, [])
            if score.task == card.task and reading_key(score) == key and score.value is not None
        ]

    metrics = reported_metrics(card)
    keys = {
        reading_key(score)
        for own_scores in scores.values()
        for score in own_scores
        if score.task == card.task and score.metric in metrics  # skip scores left by an earlier run
    }

    def best(numbers: Iterable[float], metric: str) -> float | None:
        return (min if metrics[metric].higher_is_better is False else max)(numbers, default=None)

    return {
        key: (
            best(values(card.baselines.floor, key), key[0]),
            max(values(filter(None, [card.baselines.ceiling]), key), default=None) if metrics[key[0]].ceiling else None,
        )
        for key in keys
    }


def complete_scores(plan: Plan, results: Path, provenance: Provenance | None) -> dict[str, list[ReportedScore]]:
    """Return every score of a run by benchmark, with floor, ceiling and, where comparable, the paper's value."""
    complete: dict[str, list[ReportedScore]] = {}
    for benchmark, loaded_cards in plan.benchmarks.items():
        scores = read_scores(results, benchmark, plan.tutors)
        for card in (loaded.card for loaded in loaded_cards):
            limits, metrics = score_bounds(card, scores), reported_metrics(card)
            changed = cache(partial(is_changed, provenance, plan, card))
            for model, own_scores in scores.items():
                if not plan.is_answered_by(card, model):
                    continue
                for score in (
                    candidate for candidate in own_scores if candidate.task == card.task and candidate.metric in metrics
                ):
                    floor, ceiling = limits[reading_key(score)]
                    rated = metrics[score.metric].higher_is_better is not None
                    known: dict[str, Any] = {"floor": floor if rated else None, "ceiling": ceiling if rated else None}
                    known["changed"] = changed(score.by)
                    known["paper"] = paper_value(plan, card, score, known["changed"])
                    complete.setdefault(benchmark, []).append(ReportedScore(**score.model_dump(), **known))
    return complete


def is_changed(provenance: Provenance | None, plan: Plan, card: Card, grader: str | None) -> bool:
    """Return True if a file that affects one grader's numbers on a task is not as shipped."""
    return bool(changed_files_of_task(provenance, plan, card, grader))


def paper_value(plan: Plan, card: Card, score: Score, changed: bool) -> float | None:
    """Return the paper's value of the same tutor, task and metric; None if it was not measured in the same way."""
    name = paper_name(plan.models[str(score.tutor)].paper, card.benchmark)
    if name is None or not is_leading(plan, score) or score.scoring != "paper_compat":
        return None
    printed = find_printed(printed_values(card.benchmark), name, card.task, score.metric)
    if printed is None or difference_note(printed, card.benchmark, circumstances(plan, [card], score, changed)):
        return None
    return printed.value


def circumstances(plan: Plan, cards: Sequence[Card], score: Score, changed: bool) -> MeasurementConditions:
    """Return the conditions under which a score was measured.

    cards: card of the score's task, or all cards of its pool (tasks that are scored together).
    """
    benchmark = cards[0].benchmark
    by = plan.models.get(score.by or "")
    grader = score.by
    if isinstance(by, RewardModel) and by.weights is not None:
        as_published = by.prompt == RewardModel.model_fields["prompt"].default and by.max_length is None
        grader = f"{getattr(by.weights, 'repo', None) or grader}{'' if as_published else ', with other settings'}"
    judged = None
    if isinstance(by, JudgeModel):
        grader = paper_name(by.paper, benchmark) or grader
        if benchmark in PAPERS and grader in PAPERS[benchmark].judges:
            judged = judging_difference(plan, benchmark, cards, str(score.by))
    whole = plan.run.limit is None and is_whole(cards, score, plan.config.report.least_readable)
    tutor = str(score.tutor)
    otherwise = prompting_difference(plan, benchmark, tutor) or judged
    return MeasurementConditions(
        plan.edition == "published", whole, plan.protocol_of(tutor), changed, grader, otherwise
    )


def prompting_difference(plan: Plan, benchmark: str, tutor: str) -> str | None:
    """Return the first difference between a tutor's requests and the paper's (model, prompt or protocol), if any.

    Returns None for recorded replies, since this run sent no requests for them.
    """
    model, paper = plan.models[tutor], PAPERS.get(benchmark)
    if paper is None or isinstance(model, RecordedModel):
        return None
    ran = paper.served.get(paper_name(model.paper, benchmark) or "")
    if ran is not None and getattr(model, "model", ran) != ran:
        return f"another model: the paper used {ran}"
    if not paper.prints_prompt:
        return "a prompt of this project: the paper publishes none"
    if note := paper.other_protocols.get(plan.protocol_of(tutor)):
        return note
    return paper.user_last if getattr(model, "user_last", False) else None


def judging_difference(plan: Plan, benchmark: str, cards: Sequence[Card], judge: str) -> str | None:
    """Return a note if the judge's rubric is not one of the paper's printed prompts, None otherwise."""
    printed = PAPERS[benchmark].judge_prompts
    entry = plan.judge_entry(judge)
    ours = [name for card in cards for name in chosen_rubrics(entry.rubrics, card.rubrics) if name not in printed]
    if not ours:
        return None
    return f"judged with a prompt of this project, {ours[0]}" + ("" if printed else ": the paper publishes none")


def is_whole(cards: Sequence[Card], score: Score, least_readable: float) -> bool:
    """Return True if a score covers all published items, or if its metric counts only some items by definition.

    Returns False if the share of items with a grade is below `least_readable`.
    """
    if score.n < least_readable * (score.n + score.missing):
        return False
    metric = all_metrics(cards[0]).get(score.metric)
    if metric is not None and (metric.only or metric.subset):
        return True
    return score.n + score.missing >= sum(card.items for card in cards)


def is_silent(plan: Plan, readable: float | None) -> bool:
    """Return True if the share of a tutor's readable replies to a task is below `report.least_readable`."""
    return readable is not None and readable < plan.config.report.least_readable


def exceeds_doubt(score: Score) -> bool:
    """Return True if the parser did not understand more than MOST_DOUBT of a score's replies."""
    return score.doubtful > MOST_DOUBT * score.n


def display_label(plan: Plan, name: str) -> str:
    """Return a model's display name: its label or, if it has none, its name."""
    return plan.models[name].label or name


def distinct_labels(plan: Plan) -> dict[str, str]:
    """Return each tutor's label by name. If several tutors share a label, each one's name is appended to the label."""
    labels = {name: display_label(plan, name) for name in plan.tutors}
    shared = Counter(labels.values())
    return {name: f"{label} ({name})" if shared[label] > 1 else label for name, label in labels.items()}


def breakdown_scores(plan: Plan, results: Path) -> dict[str, list[ReportedScore]]:
    """Return the scores by tag of each benchmark with a pool (tasks scored together). Their `task` is the pool."""
    by_benchmark = {}
    for benchmark in plan.pooled_benchmarks:
        by_benchmark[benchmark] = [
            ReportedScore(**score.model_dump())
            for model in plan.tutors_on(benchmark)
            for score in score_file(paths.BREAKDOWN.within(results, benchmark=benchmark, tutor=model))
        ]
    return by_benchmark


def score_table(plan: Plan, scores: dict[str, list[ReportedScore]]) -> pd.DataFrame:
    """Return a table with one row per score. scores: scores by benchmark."""
    rows = [
        {
            "benchmark": benchmark,
            "label": display_label(plan, score.tutor),
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
    """Return the content of a JSON file; None if the file does not exist because a job failed."""
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else None


def trust_table(plan: Plan, results: Path) -> pd.DataFrame:
    """Return a table of all measurements of graders and labels, one per row. The column `file` names their sources."""
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
        {"file": name, **score.model_dump(exclude=TUTOR_FIELDS)}
        for name, path in files.items()
        for score in score_file(path)
    ]
    columns = [name for name in Score.model_fields if name not in TUTOR_FIELDS]
    return pd.DataFrame(rows, columns=["file", *columns]).round(DIGITS).map(safe_cell)


def runtime_table(plan: Plan, results: Path) -> pd.DataFrame:
    """Return a table with the requests, tokens, total request seconds and cost of each tutor on each benchmark."""
    rows = []
    for benchmark in plan.benchmarks:
        for model in plan.tutors_on(benchmark):
            path = paths.REPLIES.within(results, benchmark=benchmark, tutor=model)
            if not path.exists() or isinstance(plan.models[model], BaselineModel):
                continue
            key_of = request_keys(plan, benchmark, model)
            rows.append({"benchmark": benchmark, "tutor": model, **reply_costs(path, plan.models[model], key_of)})
    columns = ["benchmark", "tutor", "requests", "prompt_tokens", "completion_tokens", "request_seconds"]
    return pd.DataFrame(rows, columns=[*columns, "usd", "cut_by_max_tokens", "declined"])


def request_keys(plan: Plan, benchmark: str, tutor: str) -> RequestKeys:
    """Return a function of a reply and a turn whose values differ for different requests, like keys of the journal.

    Copies of an item for other models' `repeats`, and equal prompts, are one request. The function returns None for a
    turn of a copy that was not asked for.
    """
    model = plan.models[tutor]
    if not isinstance(model, ServedModel):  # recorded replies: each turn counts, but not those of copies
        numbers = itertools.count()
        return lambda reply, turn: None if plan.repeats > 1 and COPY_SUFFIX.search(reply.id) else next(numbers)
    limits, several = RequestLimits(plan.run.max_tokens, plan.run.seed), model.repeats
    settings = {
        (loaded.card.task, repeat): canonical_digest(tutor_request(loaded, [], model, limits, repeat))
        for loaded in plan.cards_for(benchmark, tutor)
        for repeat in range(several)
    }

    def key_of(reply: Reply, turn: Turn) -> Hashable:
        copy = COPY_SUFFIX.search(reply.id) if several > 1 else None
        repeat = (int(copy[0].removeprefix(COPY_MARK)) - 1) % several if copy else 0
        return settings.get((reply.task, repeat), reply.task), turn.messages

    return key_of


def reply_costs(replies: Path, model: Model, key_of: RequestKeys) -> dict[str, Any]:
    """Return the total requests, tokens, seconds and costs of a file of replies, which is read one reply at a time.

    Each request counts once, whatever number of replies its answer is in. key_of: function as of `request_keys`.
    """
    counts: Counter[str] = Counter()
    tokens = {batched: TokenCounts() for batched in (False, True)}
    seconds, seen = 0.0, set[Hashable]()
    for reply in iter_records(replies, Reply):
        if reply.error and not reply.turns and not reply.absent and reply.key not in seen:  # refused at once
            seen.add(reply.key)
            counts["requests"] += 1
        for turn in reply.turns:
            key = key_of(reply, turn)
            if key is None or key in seen:
                continue
            seen.add(key)
            counts["requests"] += 1
            tokens[turn.batched] = tokens[turn.batched].plus(turn)
            seconds += turn.seconds or 0.0
            counts["cut"] += turn.finish == "length"
            counts["declined"] += turn.finish == REFUSAL
    return {
        "requests": counts["requests"],
        "prompt_tokens": sum(part.prompt for part in tokens.values()),
        "completion_tokens": sum(part.completion for part in tokens.values()),
        "request_seconds": round(seconds, 1),
        "usd": cost(model, tokens),
        "cut_by_max_tokens": counts["cut"],
        "declined": counts["declined"],
    }


class TokenCounts(NamedTuple):
    """Numbers of tokens: in prompts, in answers, and in prompts that were read from a cache."""

    prompt: int = 0
    completion: int = 0
    cached: int = 0

    def plus(self, request: Turn | Judgement) -> TokenCounts:
        """Return the counts with the tokens of one more request."""
        return TokenCounts(
            self.prompt + (request.prompt_tokens or 0),
            self.completion + (request.completion_tokens or 0),
            self.cached + (request.cached_tokens or 0),
        )


def distinct_judgements(judgements: Iterable[Judgement]) -> Iterator[Judgement]:
    """Yield one judgement for each request to a judge. Copies of a reply, and equal questions, are one request."""
    seen = set[Hashable]()
    for judgement in judgements:
        key = (judgement.key, *(verdict.criterion for verdict in judgement.verdicts))
        if key not in seen:
            seen.add(key)
            yield judgement


def token_counts(requests: Iterable[Turn | Judgement]) -> dict[bool, TokenCounts]:
    """Return the tokens of single requests (False) and of requests in batches (True)."""
    counts = {batched: TokenCounts() for batched in (False, True)}
    for request in requests:
        counts[request.batched] = counts[request.batched].plus(request)
    return counts


def cost(model: Model, tokens: Mapping[bool, TokenCounts]) -> float | None:
    """Return the cost in US dollars at the price in the model registry; None if no price is registered.

    tokens: tokens of single requests (False) and of requests in batches (True).
    """
    if not isinstance(model, HostedModel) or (price := model.full_price) is None:
        return None
    return round(sum(price.usd(*counts, batched) for batched, counts in tokens.items()), 4)


METRIC_WORDS = {
    "f1": "F1",
    "bleu": "BLEU",
    "damr": "DAMR",
    "mathdial": "MathDial",
    "bridge": "Bridge",
    "mcc": "MCC",
    "mr": "MR",
    "arr": "ARR",
}


def metric_title(name: str) -> str:
    """Return the display name of a metric."""
    return " ".join(METRIC_WORDS.get(word, word) for word in name.split("_"))


def format_share(value: float) -> str:
    """Format a share as a percentage. It is rounded down, so that only a share of 1 becomes 100 %."""
    return f"{int(1000 * value + 1e-9) / 10:.1f}".removesuffix(".0") + "\u00a0%"


def tutors_without_scores(plan: Plan, scores: Mapping[str, Iterable[Score]]) -> list[str]:
    """Return the names of the tutors that have no score at all. scores: scores by benchmark."""
    scored = {score.tutor for own_scores in scores.values() for score in own_scores}
    return [name for name in plan.tutors if name not in scored]


def in_paper_order(benchmark: str, cards: list[Card]) -> list[Card]:
    """Sort cards like the columns of the paper's table, with other tasks last. Tasks of one skill stay together."""
    columns = list(dict.fromkeys(cell.task for cell in printed_values(benchmark)))
    place = {card.task: columns.index(card.task) if card.task in columns else len(columns) for card in cards}
    skills = {card.skill: min(place[other.task] for other in cards if other.skill == card.skill) for card in cards}
    return sorted(cards, key=lambda card: (skills[card.skill], card.skill, place[card.task], card.task))


def selected_cards(plan: Plan) -> dict[str, list[Card]]:
    """Return each benchmark's selected tasks: benchmarks in the run file's order, tasks in the paper's order."""
    named = [name.split("/")[0] for name in plan.run.tasks]
    order = sorted(plan.benchmarks, key=lambda name: named.index(name) if name in named else len(named))
    return {name: in_paper_order(name, [loaded.card for loaded in plan.benchmarks[name]]) for name in order}
