"""Tasks and tutors of a run, determined by its configuration alone. The module `plan.plan` adds the graders."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cached_property, wraps
from pathlib import Path
from typing import ParamSpec, Self, TypeVar

from maieutic.config import cards
from maieutic.config.cards import Card, LoadedCard
from maieutic.config.models import BaselineModel, JudgeModel, Model, RecordedModel
from maieutic.config.registry import unknown_name
from maieutic.config.rubrics import chosen_rubrics
from maieutic.config.settings import Config
from maieutic.core.paths import Pattern, run_folder
from maieutic.datasets.registry import LOADERS
from maieutic.plan.availability import available_parts

HUMAN_REPLY_TUTORS = {"reference"}  # baseline tutors that repeat a human reply
SOLUTION_TUTORS = {"reveal"}  # baseline tutors that repeat a solution or, without one, a human reply
P = ParamSpec("P")
R = TypeVar("R")


def cached_method(method: Callable[P, R]) -> Callable[P, R]:
    """Cache a method's results in its object's `__dict__`, since a dry run makes the same call thousands of times."""

    @wraps(method)
    def cached(*args: P.args, **kwargs: P.kwargs) -> R:
        answers = args[0].__dict__.setdefault("_answers", {})
        key = method.__name__, args[1:], tuple(sorted(kwargs.items()))
        if key not in answers:
            answers[key] = method(*args, **kwargs)
        answer: R = answers[key]
        return answer

    return cached


class Selection:
    """The selected tasks of a configuration, and the tutors that answer them.

    absent_parts: parts of the run that are left out since their data files are unavailable (`available_only`).
    """

    def __init__(self, config: Config) -> None:
        config, self.absent_parts = available_parts(config)
        self.config = config
        self.run, self.edition = config.run, config.edition
        self.models, self.datasets = config.models, config.datasets

    def for_config(self, config: Config) -> Self:
        """Return the selection of another configuration. Cards that were read already are not read again."""
        other = type(self)(config)
        other.__dict__["_answers"] = {
            key: answer for key, answer in self.__dict__.get("_answers", {}).items() if key[0] == "shipped_card"
        }
        return other

    @property
    def bootstrap_settings(self) -> dict[str, int]:
        """The bootstrap settings for confidence intervals, as fields of a job."""
        return {"resamples": self.config.report.resamples, "seed": self.run.seed}

    @property
    def run_folder(self) -> str:
        """This run's own folder below results/. Runs with other names do not write to it."""
        return run_folder(self.run.name)

    def run_path(self, pattern: Pattern) -> str:
        """Return the path of a file in this run's own folder."""
        return pattern.of(run=self.run_folder)

    @cached_property
    def cards(self) -> dict[Path, LoadedCard]:
        """The selected cards by path, in alphabetical order of benchmarks and tasks."""
        benchmarks = cards.benchmarks_with_cards()
        paths: list[Path] = []
        for number, name in enumerate(self.run.tasks):
            benchmark, _, task = name.partition("/")
            if benchmark not in benchmarks:
                raise unknown_name(f"run.tasks[{number}]", name, benchmarks, "resources/benchmarks")
            known = cards.cards_of(benchmark)
            if task and task not in [path.stem for path in known]:
                names = [f"{benchmark}/{path.stem}" for path in known]
                raise unknown_name(f"run.tasks[{number}]", name, names, "resources/benchmarks")
            paths += [path for path in known if not task or path.stem == task]
        paths = sorted(set(paths), key=lambda path: (path.parent.name, path.stem))
        return {path: self.selected_card(path, self.run.protocol) for path in paths}

    @cached_method
    def shipped_card(self, path: Path, protocol: str) -> LoadedCard:
        """Return a card under a protocol with all its graders, even those that the run lacks."""
        return cards.read_card(path, protocol)

    @cached_method
    def selected_card(self, path: Path, protocol: str) -> LoadedCard:
        """Return a card under a protocol, without the graders that the run lacks."""
        loaded = self.shipped_card(path, protocol)
        return loaded.model_copy(
            update={"card": cards.card_without_graders(loaded.card, self.absent_graders(loaded.card))}
        )

    def absent_graders(self, card: Card) -> list[str]:
        """Return the kinds of model graders that a run lacks for a task. A judge must have a rubric for the task."""
        rubrics = [name for judge in self.judges_of_replies for name in self.judge_entry(judge).rubrics]
        present = {cards.REWARD: self.run.reward_models, cards.JUDGE: chosen_rubrics(rubrics, card.rubrics)}
        return [kind for kind in cards.MODEL_GRADERS if not present[kind]]

    def why_not_graded(self, card: Card) -> str | None:
        """Return the reason why a task has no headline score in this run, with a fix; None if it has a score."""
        kind = card.missing_grader
        if kind is None:
            return None
        if kind == cards.REWARD:
            return "not graded in this run: its score needs a reward model. Fix: add one to run.reward_models"
        rubrics = " or ".join(card.rubrics)
        return f"not graded in this run: its score needs a judge. Fix: add one with {rubrics} to run.judges"

    @cached_property
    def tasks_without_rubric(self) -> dict[str, list[str]]:
        """The tasks of each benchmark that need a judge, but for which no judge has a rubric; empty without judges."""
        by_benchmark: dict[str, list[str]] = {}
        for path, loaded in self.cards.items() if self.judges_of_replies else ():
            shipped = self.shipped_card(path, self.run.protocol).card
            if cards.JUDGE in shipped.graders and cards.JUDGE not in loaded.card.graders:
                by_benchmark.setdefault(loaded.card.benchmark, []).append(loaded.card.task)
        return by_benchmark

    @cached_property
    def judges_of_replies(self) -> list[str]:
        """The run's judges that judge tutors' replies; the others are only validated on pairs."""
        return [name for name in self.run.judges if getattr(self.models.get(name), "rubrics", None)]

    def judge_entry(self, name: str) -> JudgeModel:
        """Return the registry entry of a judge."""
        judge = self.models[name]
        assert isinstance(judge, JudgeModel)
        return judge

    @cached_property
    def benchmarks(self) -> dict[str, list[LoadedCard]]:
        """The selected cards of each benchmark."""
        by_benchmark: dict[str, list[LoadedCard]] = {}
        for loaded in self.cards.values():
            by_benchmark.setdefault(loaded.card.benchmark, []).append(loaded)
        return by_benchmark

    def card(self, benchmark: str, task: str) -> Card:
        """Return the card of one selected task."""
        return next(loaded.card for loaded in self.benchmarks[benchmark] if loaded.card.task == task)

    def item_count(self, card: Card) -> int | None:
        """Return the number of a task's items in this run, by its card or dataset; None if neither states it."""
        dataset = self.datasets[card.dataset]
        published = card.items or dataset.published.records
        items = published
        if self.edition == "demo" and dataset.demo is not None:
            records, known = dataset.demo.records, dataset.published.records
            items = round(records * published / known) if records and known and published else records
        return min(filter(None, (self.run.limit, items)), default=None)

    @cached_property
    def tutors(self) -> list[str]:
        """The run's tutors, then the selected cards' baselines, which provide the floor and ceiling of each table."""
        baselines = {name for loaded in self.cards.values() for name in loaded.card.baselines.named}
        return [*self.run.tutors, *sorted(name for name in baselines if name not in self.run.tutors)]

    @cached_method
    def tutors_on(self, benchmark: str) -> list[str]:
        """Return the tutors that answer a benchmark: the run's, and the baselines that its selected cards name."""
        cards_here = [loaded.card for loaded in self.benchmarks[benchmark]]
        return [name for name in self.tutors if any(self.is_answered_by(card, name) for card in cards_here)]

    def is_answered_by(self, card: Card, tutor: str) -> bool:
        """Return True if a tutor answers a task. A baseline does so only if the card or the run names it."""
        return self.can_answer(card, tutor) and (tutor in self.run.tutors or tutor in card.baselines.named)

    def can_answer(self, card: Card, tutor: str) -> bool:
        """Return True if a tutor is able to answer a task."""
        return self.why_not_answerable(card, tutor) is None

    def why_not_answerable(self, card: Card, tutor: str) -> str | None:
        """Return the reason why a tutor cannot answer a task, as shown on the report page; None if it can.

        A task with pictures needs a model that accepts them, and the human reference needs human replies.
        """
        model, loader = self.models[tutor], LOADERS[card.loader]
        if isinstance(model, BaselineModel) and not loader.has_human_reply:
            if model.tutor in HUMAN_REPLY_TUTORS:
                return "these items have no human reply"
            if model.tutor in SOLUTION_TUTORS and not loader.has_solution:
                return "these items have neither a human reply nor a solution"
        if isinstance(model, RecordedModel) and not model.has_task(card.benchmark, card.task):
            return "its recorded replies belong to other tasks"
        if card.tutors == "recorded" and not isinstance(model, RecordedModel):
            return "only recorded replies are judged here"
        if card.tutors == "asked" and isinstance(model, RecordedModel):
            return "its replies are those with which other replies are compared"
        return None if not card.images or getattr(model, "images", True) else "this tutor does not accept pictures"

    @cached_method
    def cards_for(self, benchmark: str, tutor: str) -> list[LoadedCard]:
        """Return the cards of a benchmark's selected tasks that a tutor can answer, under the tutor's protocol."""
        protocol = self.protocol_of(tutor)
        return [
            loaded if protocol == self.run.protocol else self.selected_card(path, protocol)
            for path, loaded in self.cards.items()
            if loaded.card.benchmark == benchmark and self.can_answer(loaded.card, tutor)
        ]

    @cached_method
    def tasks_for(self, benchmark: str, tutor: str) -> list[str]:
        """Return the selected tasks of a benchmark that a tutor can answer."""
        return [loaded.card.task for loaded in self.cards_for(benchmark, tutor)]

    @cached_property
    def repeats(self) -> int:
        """Number of copies of each item: the largest number of repeats of the run's tutors and judges."""
        return self.most_repeats([*self.run.tutors, *self.run.judges])

    def repeats_of(self, tutor: str) -> int:
        """Return the number of a tutor's answers to an item that count: its own repeats, or those of a judge."""
        return self.most_repeats([tutor, *self.run.judges])

    def most_repeats(self, names: Iterable[str]) -> int:
        """Return the largest number of repeats of some models; 1 if none has repeats."""
        return max((getattr(self.models.get(name), "repeats", 1) for name in names), default=1)

    def protocol_of(self, tutor: str) -> str:
        """Return the protocol of a tutor's prompts: its entry's protocol if set, otherwise the run's."""
        return getattr(self.models[tutor], "protocol", None) or self.run.protocol

    def compared_tutors(self, benchmark: str) -> list[str]:
        """Return the run's own tutors that answer a benchmark, without the baselines that only its cards name."""
        return [name for name in self.tutors_on(benchmark) if name in self.run.tutors]

    def floor_tutors(self, benchmark: str) -> list[str]:
        """Return the trivial tutors that a benchmark's selected cards name as floors and the run does not select."""
        floors = {name for loaded in self.benchmarks[benchmark] for name in loaded.card.baselines.floor}
        return [name for name in self.tutors_on(benchmark) if name in floors and name not in self.run.tutors]

    def with_engine(self, *engines: str) -> list[str]:
        """Return the names of the registry entries with one of these engines."""
        return [name for name, model in self.models.items() if engine_of(model) in engines]


def engine_of(model: Model) -> str:
    """Return the engine of a registry entry."""
    engine: str = model.engine  # type: ignore[attr-defined]
    return engine
