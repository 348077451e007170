"""The run's configuration: closed schema, cross-field checks, and what follows from it.

Everything that can be wrong is found here, before any work starts, as one line with the key's path and the mend.
"""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import Any

from pydantic import Field, ValidationError

from maieutic import cards
from maieutic.baselines import OF_A_REPLY, TUTORS
from maieutic.cards import Card, LoadedCard
from maieutic.datasets import LOADERS
from maieutic.datasets.sources import Dataset, Edition
from maieutic.errors import UserError
from maieutic.faults import fault_of
from maieutic.graders import CONVERSATION_GRADERS, GRADERS
from maieutic.graders.rubric import NegativeWeights
from maieutic.judges.checks import check_judges
from maieutic.metrics import METRICS
from maieutic.models import (
    BaselineModel,
    Entry,
    HostedModel,
    Model,
    ModelEntry,
    PreferenceTraining,
    RewardModel,
    VllmModel,
)
from maieutic.names import check_names
from maieutic.printed import check_papers
from maieutic.registry import check_entry, unknown
from maieutic.rewards.checks import check_graders


class Difficulty(Entry):
    """The filter by which TutorBench's samples were kept (appendix A.1)."""

    tutors: list[str] = Field([], description="Tutors of the run that count; empty: no filter. The paper: five")
    below: float = Field(0.5, description="A score under this is a failure")
    at_least: int = Field(3, ge=1, description="An item is hard where so many of them fail")


class Run(Entry):
    """What to run: selections are lists, so an overlay replaces them."""

    tutors: list[str] = Field(
        min_length=1,
        description="models to run, by their names in `models`; the baseline tutors that the cards name are added",
    )
    tasks: list[str] = Field(min_length=1, description="`benchmark` or `benchmark/task`")
    limit: int | None = Field(
        None,
        ge=1,
        description="items a task, a random sample; a larger limit contains a smaller one's items; `null`: all",
    )
    seed: int = Field(20250226, description="seed of that sample and of the bootstrap")
    max_tokens: int | None = Field(
        None, ge=1, description="upper bound on the cards' `max_tokens` (2,048 in MathTutorBench)"
    )
    protocol: str = Field(
        "released",
        description=(
            "what is asked: `released`, or a variant of the cards (`paper`, `newlines`; `corrected`: without"
            " the blank-line stop of the pedagogy tasks, and with the last line of mistake location; "
            "TutorBench: `user_work`, `study_mode`)"
        ),
    )
    reward_models: list[str] = Field(
        [],
        description=(
            "reward models that score every reply to the pedagogy tasks; the first one's win rate is their "
            "headline. `[]`: no win rates"
        ),
    )
    reward_comparisons: list[str] = Field(
        [],
        description=(
            "reward models that are measured on the Bridge test pairs only: ablations, untrained floors, "
            "off-the-shelf ones"
        ),
    )
    classifiers: list[str] = Field(
        [], description="criteria classifiers, measured on held-out dialogues and on the test pairs"
    )
    judges: list[str] = Field(
        [],
        description=(
            "judges of the tutors' replies; each judges the tasks that it has a rubric for, and the first "
            "one's verdicts are a task's headline. `[]`: those tasks have no judged numbers"
        ),
    )
    labels: list[str] | None = Field(
        None,
        description=(
            "labelled releases that graders are checked on: `mrbench` (V1), `mrbench_v2`, `mrbench_v3` (BEA "
            "2025, four dimensions), `mr_gsm8k_reasons` (851 graded error reasons). `null`, the default: "
            "`mrbench` and `mr_gsm8k_reasons`, where a judge's rubric or a task fits. The first one that "
            "fits a rubric decides its traffic light"
        ),
    )
    predictions: list[str] = Field(
        [],
        description="releases without labels that the judges predict, as files of the shared task: `mrbench_v3_test`",
    )
    label_limit: int | None = Field(
        None,
        ge=1,
        description=(
            "labelled replies of each release, and pairs, that a judge is checked on, a random sample; "
            "`null`, the default: all (1,589 replies: as many questions with `mrbench_taxonomy`, eight times"
            " as many with `mrbench_critic`)"
        ),
    )
    taggers: list[str] = Field(
        [],
        description=(
            "judges with `tags`: models that tag TutorBench's items (Bloom level, by vote of at least two) and criteria"
        ),
    )
    negative_weights: NegativeWeights = Field(
        "by_phrasing",
        description=(
            "when a criterion of weight -5 counts (TutorBench): `by_phrasing`, the default: a prohibition "
            "when it is violated, a fault when it is there; `violated`: when the judge says fail, as in the "
            "released data, which forbid; `satisfied`: when the judge says pass, as equation 1 is printed. "
            "The report shows all three"
        ),
    )
    difficulty: Difficulty = Field(
        Difficulty(),
        description="which items so many of some tutors fail (TutorBench's filter: three of five under 0.5)",
    )
    human_labels: str | None = Field(
        None,
        description=(
            "CSV of labels that people gave to this run's own replies, with the columns `task`, `item`, "
            "`tutor`, `criterion`, `label` (as MRBench spells them; of KMP-Bench's criteria win, tie, lose; "
            "of TutorBench's `c01`, `c02`, ... pass, fail: `docs/study.md`) and, where several people "
            "labelled, `annotator`, `resolves`. They correct the judge's rates (with 20 labels or more of a "
            "tutor and dimension, drawn at random), and are compared with each other"
        ),
    )
    max_unreadable: float = Field(
        0.05,
        ge=0,
        le=1,
        description=(
            "share of a judge's verdicts that may be unreadable; above it the run fails, after its report is written"
        ),
    )
    tutors_per_judge_job: int = Field(
        1, ge=1, description="tutors judged with one start of a judge's server, as `tutors_per_reward_job`"
    )
    tutors_per_reward_job: int = Field(
        1,
        ge=1,
        description=(
            "tutors that one load of a reward model's weights scores (1: a tutor that fails holds up nobody,"
            " and a new one runs alone; with more, the batches depend on the order of the tutors, and one "
            "that changes is scored anew. The baselines share one always)"
        ),
    )


class Interpreters(Entry):
    """The Python of each environment."""

    driver: str | None = Field(None, description="Python of this environment; `null`: the one that runs Snakemake")
    serve: str = Field(".venv/serve/bin/python", description="Python with vLLM, torch, transformers and TRL")


class Containers(Entry):
    """Images, a .sif path or docker://..., ignored without --sdm."""

    driver: str = Field(
        "containers/driver.sif",
        description="image, a `.sif` (`containers/build` makes it) or `docker://TAG`; ignored without `--sdm`",
    )
    serve: str = Field("containers/serve.sif", description="likewise, of the serving environment")


class Report(Entry):
    """What the page shows."""

    least_readable: float = Field(
        0.8,
        ge=0,
        le=1,
        description="share of readable replies below which no value is bold, and sorting puts a tutor last",
    )
    browser_items: int = Field(200, ge=0, description="items a task that the page's browser holds; the tables hold all")
    resamples: int = Field(2000, ge=100, description="bootstrap resamples of every interval")


class Config(Entry):
    """The whole configuration."""

    edition: Edition = Field(
        description="`demo`: the small data in `resources/demo`; `published`: the benchmarks' own data"
    )
    data_dir: str | None = Field(
        None, description="folder with the published files (their paths are in `datasets.yaml`); `null`: download them"
    )
    run: Run
    report: Report = Report()
    interpreters: Interpreters = Interpreters()
    containers: Containers = Containers()
    models: dict[str, ModelEntry] = Field(description="Registry: every model that exists (config/models.yaml)")
    datasets: dict[str, Dataset] = Field(description="Registry: every source file (config/datasets.yaml)")

    @cached_property
    def cards(self) -> dict[Path, LoadedCard]:
        """The selected cards by their path, read once: the report asks for them again and again."""
        return select_cards(self)


def check_config(raw: dict[str, Any]) -> Config:
    """Validate a configuration. Raises UserError for its first fault."""
    for registry in ("models", "datasets"):
        if isinstance(raw.get(registry), dict):
            check_names(registry, raw[registry])
    try:
        config = Config.model_validate(raw)
    except ValidationError as error:
        raise fault_of(error, Config, "", "config/README.md") from None
    check_names_of_tutors(config)
    check_papers(config.models)
    if config.data_dir is not None and config.edition == "published" and not Path(config.data_dir).is_dir():
        raise UserError(
            "data_dir", f"{config.data_dir} is not a folder", "name the folder with the published files, or null"
        )
    check_protocol(config)
    for path, loaded in config.cards.items():
        check_card(config, path, loaded)
    for name in tutors_of(config):
        check_tutor(name, config.models[name])
        check_own_protocol(config, name)
        check_endpoint(config, name)
        check_pictures(config, name)
    check_graders(config)
    check_judges(config)
    return config


def check_names_of_tutors(config: Config) -> None:
    """Every tutor of the run exists and is named once."""
    for number, name in enumerate(config.run.tutors):
        key = f"run.tutors[{number}]"
        check_entry(config.models, key, name, (VllmModel, HostedModel, BaselineModel), "a tutor")
        if name in config.run.tutors[:number]:
            raise UserError(key, f"{name!r} is listed twice", "list it once")


def check_tutor(name: str, model: Model) -> None:
    """A tutor of the run can run: its baseline exists, its weights are pinned."""
    if isinstance(model, BaselineModel) and model.tutor not in TUTORS:
        raise unknown(f"models.{name}.tutor", model.tutor, list(TUTORS), "baselines.py")
    if isinstance(model, VllmModel):
        model.weights.refuse_unpinned(f"models.{name}.weights")


def check_own_protocol(config: Config, name: str) -> None:
    """The prompts of a tutor's own protocol ask for what their loaders give, as those of the run's do."""
    if protocol_of(config, name) == config.run.protocol:
        return
    for loaded in (one for benchmark in benchmarks_of(config) for one in cards_for(config, benchmark, name)):
        path = cards.card_path(loaded.card.benchmark, loaded.card.task)
        cards.check_variables(path, loaded, LOADERS[loaded.card.loader].variables)


def check_pictures(config: Config, name: str) -> None:
    """A tutor has something to answer."""
    if any(takes(config, loaded.card, name) for loaded in config.cards.values()):
        return
    if isinstance(config.models[name], BaselineModel):
        raise UserError(
            f"models.{name}.tutor", "no task of run.tasks has people's replies", "leave it out of run.tutors"
        )
    raise UserError(
        f"models.{name}.images",
        "every task of run.tasks has pictures, and this tutor takes none",
        "set images: true if it does, or leave it out of run.tutors",
    )


def check_endpoint(config: Config, name: str) -> None:
    """A raw completion has one prompt: a tutor that is asked so can hold no conversation."""
    if getattr(config.models[name], "endpoint", None) != "completions":
        return
    for loaded in (one for benchmark in benchmarks_of(config) for one in cards_for(config, benchmark, name)):
        if len(loaded.card.turns) > 1 or loaded.card.system:
            raise UserError(
                f"models.{name}.endpoint",
                f"{loaded.card.benchmark}/{loaded.card.task} is a conversation, and completions hold one prompt",
                "set it to chat, drop it (the card says chat), or take the task out of run.tasks",
            )


def select_cards(config: Config) -> dict[Path, LoadedCard]:
    """The cards of the selected tasks by their path, benchmark by benchmark, tasks in alphabetical order."""
    benchmarks = sorted(folder.name for folder in cards.CARDS.iterdir() if folder.is_dir())
    paths: list[Path] = []
    for number, name in enumerate(config.run.tasks):
        benchmark, _, task = name.partition("/")
        if benchmark not in benchmarks:
            raise unknown(f"run.tasks[{number}]", name, benchmarks, "resources/benchmarks")
        known = sorted((cards.CARDS / benchmark).glob("*.yaml"))
        if task and task not in [path.stem for path in known]:
            raise unknown(
                f"run.tasks[{number}]", name, [f"{benchmark}/{path.stem}" for path in known], "resources/benchmarks"
            )
        paths += [path for path in known if not task or path.stem == task]
    return {path: selected_card(config, path, config.run.protocol) for path in sorted(set(paths))}


def selected_card(config: Config, path: Path, protocol: str) -> LoadedCard:
    """A card as this run uses it: under a protocol, without the graders that the run has none of."""
    loaded = cards.read_card(path, protocol)
    return loaded.model_copy(update={"card": cards.without(loaded.card, absent_graders(config))})


def absent_graders(config: Config) -> list[str]:
    """The kinds of model graders that a run does without."""
    present = {cards.REWARD: config.run.reward_models, cards.JUDGE: judges_of_replies(config)}
    return [kind for kind in cards.MODEL_GRADERS if not present[kind]]


def check_protocol(config: Config) -> None:
    """A protocol, of the run or of a tutor, is `released` or a variant of a selected card."""
    known = {cards.RELEASED} | {variant for loaded in config.cards.values() for variant in loaded.card.variants}
    if config.run.protocol not in known:
        raise unknown("run.protocol", config.run.protocol, list(known), "the selected cards' variants")
    for name in config.run.tutors:
        if (protocol := protocol_of(config, name)) not in known:
            raise unknown(f"models.{name}.protocol", protocol, list(known), "the selected cards' variants")


def check_card(config: Config, path: Path, loaded: LoadedCard) -> None:
    """A card names only what exists: dataset, loader, graders, metrics, baselines, prompt variables."""
    card = loaded.card
    for key, name, known in (
        ("dataset", card.dataset, list(config.datasets)),
        ("loader", card.loader, list(LOADERS)),
        *(("graders", name, [*GRADERS, *CONVERSATION_GRADERS, *cards.MODEL_GRADERS]) for name in card.graders),
        *(("baselines", name, list(config.models)) for name in card.baselines.named),
        *((f"metrics.{name}", metric.function or name, list(METRICS)) for name, metric in card.metrics.items()),
        *(
            (f"metrics.{name}.grader", grader, card.graders)
            for name, metric in card.metrics.items()
            for grader in filter(None, (metric.grader, *(part.grader for part in metric.parts)))
        ),
    ):
        if name not in known:
            raise unknown(f"{path}: {key}", name, known, "the registry")
    for name in card.baselines.named:
        check_entry(config.models, f"{path}: baselines", name, (BaselineModel,), "a baseline tutor")
    copy = config.datasets[card.dataset].copy_of(card.dataset, config.edition)
    if config.edition == "published" and config.data_dir is None and copy.url is None and copy.hub is None:
        raise UserError(
            f"datasets.{card.dataset}.published.url",
            f"no address is known, and {path} needs the file",
            "set data_dir to a folder that has it, or leave the task out",
        )
    cards.check_variables(path, loaded, LOADERS[card.loader].variables)


def benchmarks_of(config: Config) -> dict[str, list[LoadedCard]]:
    """The selected cards of each benchmark."""
    found: dict[str, list[LoadedCard]] = {}
    for loaded in config.cards.values():
        found.setdefault(loaded.card.benchmark, []).append(loaded)
    return found


def tutors_of(config: Config) -> list[str]:
    """The run's tutors, then the baselines that the selected cards name: every table has its floor and ceiling."""
    baselines = {name for loaded in config.cards.values() for name in loaded.card.baselines.named}
    return [*config.run.tutors, *sorted(name for name in baselines if name not in config.run.tutors)]


# Its protocol reaches a job by its own way.
FOR_THE_REPORT = {"label", "group", "paper", "notice", "price", "protocol"}


LIMITS = {"label_limit", "max_unreadable"}  # of a judge: which replies it is asked about, not what


def entry_json(model: Model) -> str:
    """A model's settings as its jobs get them: without what cannot change an answer or is for the report alone."""
    return model.model_dump_json(exclude=FOR_THE_REPORT | LIMITS, exclude_defaults=True)


def judges_of_replies(config: Config) -> list[str]:
    """The run's judges that judge tutors' replies; others are measured on pairs only."""
    return [name for name in config.run.judges if getattr(config.models.get(name), "rubrics", None)]


def tutors_on(config: Config, benchmark: str) -> list[str]:
    """The tutors that answer a benchmark: the run's, and the baselines that its selected cards name."""
    cards_here = [loaded.card for loaded in benchmarks_of(config)[benchmark]]
    return [name for name in tutors_of(config) if any(belongs(config, card, name) for card in cards_here)]


def belongs(config: Config, card: Card, tutor: str) -> bool:
    """Whether a task is a tutor's: a baseline is for the cards that name it, unless the run names it itself."""
    return takes(config, card, tutor) and (tutor in config.run.tutors or tutor in card.baselines.named)


def takes(config: Config, card: Card, tutor: str) -> bool:
    """Whether a tutor can be asked a task."""
    return why_not_asked(config, card, tutor) is None


def why_not_asked(config: Config, card: Card, tutor: str) -> str | None:
    """Why a tutor cannot be asked a task, in the page's words; None if it can.

    One with pictures is not for a model that takes none, one without people's replies not for the human reference.
    """
    model = config.models[tutor]
    if isinstance(model, BaselineModel) and model.tutor in OF_A_REPLY and not LOADERS[card.loader].replied:
        return "no person has replied to these items"
    return None if not card.images or getattr(model, "images", True) else "this tutor takes no pictures"


def cards_for(config: Config, benchmark: str, tutor: str) -> list[LoadedCard]:
    """The selected cards of a benchmark that a tutor can be asked, under its protocol."""
    protocol = protocol_of(config, tutor)
    return [
        loaded if protocol == config.run.protocol else selected_card(config, path, protocol)
        for path, loaded in config.cards.items()
        if loaded.card.benchmark == benchmark and takes(config, loaded.card, tutor)
    ]


def protocol_of(config: Config, tutor: str) -> str:
    """What a tutor is asked by: its own protocol, else the run's."""
    return getattr(config.models[tutor], "protocol", None) or config.run.protocol


def judges_of_card(config: Config, card: Card) -> list[str]:
    """The run's judges that have a rubric for a task; the first one's verdicts head it."""
    if cards.JUDGE not in card.graders:
        return []
    rubrics = {name: getattr(config.models[name], "rubrics", []) for name in judges_of_replies(config)}
    return [name for name, of in rubrics.items() if set(of) & set(card.rubrics)]


def scoring_json(model: Model) -> str:
    """A reward model's settings as scoring gets them."""
    # Whoever changes how often a training is saved need not score anew.
    scored = model.model_copy(update={"train": bare_training(model)}) if isinstance(model, RewardModel) else model
    return scored.model_dump_json(exclude={*FOR_THE_REPORT, "needs", "trained_on"}, exclude_defaults=True)


def bare_training(model: RewardModel) -> PreferenceTraining | None:
    """What scoring reads of a training: how long a conversation may be."""
    if model.train is None:
        return None
    return PreferenceTraining(base=model.train.base, max_length=model.train.max_length, overlong=model.train.overlong)


def training_json(model: Model) -> str:
    """A grader's settings as its training gets them: what scoring or the machine needs must not train it anew."""
    return model.model_dump_json(
        exclude={*FOR_THE_REPORT, "needs", "token_budget", "dtype", "trained_on", "max_length", "overlong"},
        exclude_defaults=True,
    )
