"""Which tasks and tutors a run has: what follows from a configuration before any grader is looked at."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property, wraps
from pathlib import Path
from typing import ParamSpec, Self, TypeVar

from maieutic.config import cards
from maieutic.config.cards import Card, LoadedCard
from maieutic.config.models import BaselineModel, JudgeModel, Model
from maieutic.config.registry import unknown
from maieutic.config.settings import Config
from maieutic.core.paths import Pattern
from maieutic.datasets.registry import LOADERS
from maieutic.judges.rubrics import chosen_rubrics
from maieutic.replies.baselines import OF_A_REPLY

P = ParamSpec("P")
R = TypeVar("R")


def remembered(method: Callable[P, R]) -> Callable[P, R]:
    """A method whose answers are kept with its object: a dry run asks the same thousands of times."""

    @wraps(method)
    def asked(*args: P.args, **kwargs: P.kwargs) -> R:
        answers = args[0].__dict__.setdefault("_answers", {})
        key = method.__name__, args[1:], tuple(sorted(kwargs.items()))
        if key not in answers:
            answers[key] = method(*args, **kwargs)
        answer: R = answers[key]
        return answer

    return asked


class Selection:
    """The selected tasks of a configuration, and the tutors that answer them."""

    def __init__(self, config: Config) -> None:
        self.config = config
        self.run, self.edition = config.run, config.edition
        self.models, self.datasets = config.models, config.datasets

    def of(self, config: Config) -> Self:
        """The same of another configuration: cards that were read are not read again."""
        other = type(self)(config)
        other.__dict__["_answers"] = {
            key: answer for key, answer in self.__dict__.get("_answers", {}).items() if key[0] == "shipped_card"
        }
        return other

    def own(self, pattern: Pattern) -> str:
        """The path of a file in this run's own folder, which no run of another name writes."""
        return pattern.of(run=f"runs/{self.run.name}" if self.run.name else "report")

    @cached_property
    def cards(self) -> dict[Path, LoadedCard]:
        """The selected cards by their path, benchmark by benchmark, tasks in alphabetical order."""
        benchmarks = sorted(folder.name for folder in cards.CARDS.iterdir() if folder.is_dir())
        paths: list[Path] = []
        for number, name in enumerate(self.run.tasks):
            benchmark, _, task = name.partition("/")
            if benchmark not in benchmarks:
                raise unknown(f"run.tasks[{number}]", name, benchmarks, "resources/benchmarks")
            known = sorted((cards.CARDS / benchmark).glob("*.yaml"))
            if task and task not in [path.stem for path in known]:
                names = [f"{benchmark}/{path.stem}" for path in known]
                raise unknown(f"run.tasks[{number}]", name, names, "resources/benchmarks")
            paths += [path for path in known if not task or path.stem == task]
        return {path: self.selected_card(path, self.run.protocol) for path in sorted(set(paths))}

    @remembered
    def shipped_card(self, path: Path, protocol: str) -> LoadedCard:
        """A card as it is on file, under a protocol."""
        return cards.read_card(path, protocol)

    @remembered
    def selected_card(self, path: Path, protocol: str) -> LoadedCard:
        """A card as this run uses it: under a protocol, without the graders that the run has none of."""
        loaded = self.shipped_card(path, protocol)
        return loaded.model_copy(update={"card": cards.without(loaded.card, self.absent_graders(loaded.card))})

    def absent_graders(self, card: Card) -> list[str]:
        """The kinds of model graders that a run does without on a task; a judge needs a rubric for it."""
        own = [name for judge in self.judges_of_replies for name in self.judge_entry(judge).rubrics]
        present = {cards.REWARD: self.run.reward_models, cards.JUDGE: chosen_rubrics(own, card.rubrics)}
        return [kind for kind in cards.MODEL_GRADERS if not present[kind]]

    def why_not_graded(self, card: Card) -> str | None:
        """Return why a task has no headline in this run, with the fix; None where it is graded."""
        kind = card.missing_grader
        if kind is None:
            return None
        if kind == cards.REWARD:
            return "not graded in this run: its score needs a reward model. Fix: name one under run.reward_models"
        rubrics = " or ".join(card.rubrics)
        return f"not graded in this run: its score needs a judge. Fix: name one with {rubrics} under run.judges"

    @cached_property
    def unjudged(self) -> dict[str, list[str]]:
        """By benchmark the judged tasks for which no judge of a run that has judges has a rubric."""
        by_benchmark: dict[str, list[str]] = {}
        for path, loaded in self.cards.items() if self.judges_of_replies else ():
            shipped = self.shipped_card(path, self.run.protocol).card
            if cards.JUDGE in shipped.graders and cards.JUDGE not in loaded.card.graders:
                by_benchmark.setdefault(loaded.card.benchmark, []).append(loaded.card.task)
        return by_benchmark

    @cached_property
    def judges_of_replies(self) -> list[str]:
        """The run's judges that judge tutors' replies; others are measured on pairs only."""
        return [name for name in self.run.judges if getattr(self.models.get(name), "rubrics", None)]

    def judge_entry(self, name: str) -> JudgeModel:
        """A judge's entry."""
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
        """The card of one selected task."""
        return next(loaded.card for loaded in self.benchmarks[benchmark] if loaded.card.task == task)

    @cached_property
    def tutors(self) -> list[str]:
        """The run's tutors, then the baselines that the selected cards name: every table has its floor and ceiling."""
        baselines = {name for loaded in self.cards.values() for name in loaded.card.baselines.named}
        return [*self.run.tutors, *sorted(name for name in baselines if name not in self.run.tutors)]

    @remembered
    def tutors_on(self, benchmark: str) -> list[str]:
        """The tutors that answer a benchmark: the run's, and the baselines that its selected cards name."""
        cards_here = [loaded.card for loaded in self.benchmarks[benchmark]]
        return [name for name in self.tutors if any(self.belongs(card, name) for card in cards_here)]

    def belongs(self, card: Card, tutor: str) -> bool:
        """Whether a task is a tutor's: a baseline is for the cards that name it, unless the run names it itself."""
        return self.takes(card, tutor) and (tutor in self.run.tutors or tutor in card.baselines.named)

    def takes(self, card: Card, tutor: str) -> bool:
        """Whether a tutor can be asked a task."""
        return self.why_not_asked(card, tutor) is None

    def why_not_asked(self, card: Card, tutor: str) -> str | None:
        """Why a tutor cannot be asked a task, in the page's words; None if it can.

        One with pictures is not for a model that takes none, one without people's replies not for the human reference.
        """
        model = self.models[tutor]
        if isinstance(model, BaselineModel) and model.tutor in OF_A_REPLY and not LOADERS[card.loader].replied:
            return "no person has replied to these items"
        return None if not card.images or getattr(model, "images", True) else "this tutor takes no pictures"

    @remembered
    def cards_for(self, benchmark: str, tutor: str) -> list[LoadedCard]:
        """The selected cards of a benchmark that a tutor can be asked, under its protocol."""
        protocol = self.protocol_of(tutor)
        return [
            loaded if protocol == self.run.protocol else self.selected_card(path, protocol)
            for path, loaded in self.cards.items()
            if loaded.card.benchmark == benchmark and self.takes(loaded.card, tutor)
        ]

    @remembered
    def tasks_for(self, benchmark: str, tutor: str) -> list[str]:
        """The selected tasks of a benchmark that a tutor can be asked."""
        return [loaded.card.task for loaded in self.cards_for(benchmark, tutor)]

    def protocol_of(self, tutor: str) -> str:
        """What a tutor is asked by: its own protocol, else the run's."""
        return getattr(self.models[tutor], "protocol", None) or self.run.protocol

    def compared_tutors(self, benchmark: str) -> list[str]:
        """The tutors of the run that answer a benchmark; the trivial ones are its floor and ceiling."""
        return [name for name in self.tutors_on(benchmark) if name in self.run.tutors]

    def with_engine(self, *engines: str) -> list[str]:
        """The entries of the registry that some engine answers for."""
        return [name for name, model in self.models.items() if engine_of(model) in engines]


def engine_of(model: Model) -> str:
    """What answers for an entry, or how it grades."""
    engine: str = model.engine  # type: ignore[attr-defined]
    return engine
