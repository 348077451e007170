"""Schema of the run's configuration. Unknown keys are errors; plan/checks.py checks the names that a run selects."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import Any, Literal

from pydantic import Field, ValidationError, model_validator

from maieutic.config.budget import Budget
from maieutic.config.curation import Curation, FineTuning
from maieutic.config.datasets import Dataset, Edition
from maieutic.config.faults import validation_fault
from maieutic.config.limits import Limits
from maieutic.config.models import DAY, LANGUAGE, MOST_TOKENS, FilePath, JudgeModel, ModelEntry, StrictModel
from maieutic.config.people import LabelSet, PreferenceSet
from maieutic.config.simulation import Simulation
from maieutic.core.errors import UserError, raise_all
from maieutic.core.names import check_file_names
from maieutic.core.records import NegativeWeights
from maieutic.core.secrets import KNOWN_KEY, REDACTED, redact


class Difficulty(StrictModel):
    """Filter that selects the hard items of TutorBench (appendix A.1)."""

    tutors: list[str] = Field(
        [],
        description="Tutors of the run whose scores decide which items are hard (five in the paper); `[]`: no filter.",
    )
    below: float = Field(0.5, description="A tutor fails an item if its score is below this value.")
    at_least: int = Field(3, ge=1, description="Number of tutors that must fail an item before it counts as hard.")


class Run(StrictModel):
    """Choices of a run, such as its tutors and tasks.

    Selections are lists, not mappings, so that a later run file replaces them completely.
    """

    name: str | None = Field(
        None,
        description=(
            "Name of the run. Its report and tables are in `results/runs/NAME` (`null`: `results/report`). "
            "Runs share answers, downloads and trained models."
        ),
    )
    tutors: list[str] = Field(
        description=(
            "Models to evaluate, by their names in `models`; `[]`: only released data and baseline tutors. "
            "The cards' baseline tutors are added."
        ),
    )
    tasks: list[str] = Field(min_length=1, description="Benchmarks, or single tasks as `benchmark/task`.")
    limit: int | None = Field(
        None,
        ge=1,
        description=(
            "Maximum number of items per task, drawn at random; `null`: all. "
            "A larger limit includes the items that a smaller one draws."
        ),
    )
    stop_width: float | None = Field(
        None,
        gt=0,
        lt=1,
        description=(
            "Width of the intervals at which `maieutic run --stop-at width=W` stops. That command sets this key."
        ),
    )
    seed: int = Field(20250226, ge=0, lt=2**32, description="Random seed of the sample of items and of the bootstrap.")
    max_tokens: int | None = Field(
        None, ge=1, le=MOST_TOKENS, description="Maximum value of a card's `max_tokens` (MathTutorBench: 2,048)."
    )
    strict: bool = Field(
        False,
        description=(
            "Refuse a run with models or data sets that no public record pins (`unrecorded`), instead of leaving them "
            "out by name."
        ),
    )
    language: str | None = Field(
        None,
        pattern=LANGUAGE,
        description=(
            "Language of the tasks (ISO 639-1), instead of the cards' `language` (`en`). It decides how numbers in "
            "replies are read: in `de`, 1.200 is 1200."
        ),
    )
    protocol: str = Field(
        "released",
        description=(
            "Variant of the prompts: `released`; MathTutorBench: `paper`, `newlines`, `corrected`; "
            "TutorBench: `user_work`, `study_mode`. Cards without the variant keep `released`."
        ),
    )
    reward_models: list[str] = Field(
        [],
        description=(
            "Reward models that score replies to pedagogy tasks. The headline is the win rate under the first of them; "
            "`[]`: no win rates."
        ),
    )
    leading_reward_model: Literal["first", "best"] = Field(
        "first",
        description=(
            "Reward model of the headline win rate: `first`, or `best`, the most accurate on half of the test "
            "pairs. The report shows the other half."
        ),
    )
    reward_comparisons: list[str] = Field(
        [],
        description=(
            "Reward models that are validated on preference pairs but score no replies, such as ablations, untrained "
            "floors and off-the-shelf models."
        ),
    )
    pair_sources: list[str] = Field(
        [],
        description=(
            "Sources of preference pairs that the run makes and counts, such as `mrbench`, even if no grader uses them "
            "(MathTutorBench, Table 2)."
        ),
    )
    classifiers: list[str] = Field(
        [], description="Criteria classifiers, evaluated on held-out dialogues and on preference pairs."
    )
    judges: list[str] = Field(
        [],
        description=(
            "Judges of replies, each for the tasks that its rubrics cover. Headline values are computed from the "
            "first judge's verdicts. `[]`: no judged values."
        ),
    )
    labels: list[str] | None = Field(
        None,
        description=(
            "Sets in `labels` on which graders are validated; `null`: fitting sets with `default: true`. "
            "The first set that fits a rubric decides its traffic light."
        ),
    )
    preferences: list[str] | None = Field(
        None,
        description=(
            "Sets in `preferences` on which graders are validated; `null`: sets with `default: true`. "
            "The first set decides the traffic lights for pairs."
        ),
    )
    encoders: list[str] = Field(
        [],
        description=(
            "Sentence encoders (`engine: weights`, such as `minilm`). The similarity that they find between a labelled "
            "reply and its context is correlated with people's labels."
        ),
    )
    probes: int = Field(
        0,
        ge=0,
        description=(
            "Number of labelled replies per set that each judge judges again, with the question repeated, reworded, "
            "shuffled and padded (docs/judges.md)."
        ),
    )
    predictions: list[str] = Field(
        [],
        description=(
            "Unlabelled releases (such as `mrbench_v3_test`) that the judges label. The labels are written in the "
            "shared task's format. Without judges, replies are only counted."
        ),
    )
    label_limit: int | None = Field(
        None,
        ge=1,
        description=(
            "Maximum number of labelled replies per release, and of pairs, on which a judge is validated. They are "
            "drawn at random; `null`: all."
        ),
    )
    taggers: list[str] = Field(
        [],
        description=(
            "Judges with `tags`. They tag TutorBench's criteria, and the Bloom levels of its items. A level counts "
            "only if two taggers agree on it."
        ),
    )
    negative_weights: NegativeWeights = Field(
        "by_phrasing",
        description=(
            "Verdict for which a TutorBench criterion with weight -5 is deducted. `violated`: fail; `satisfied`: pass; "
            "`by_phrasing`: fail for 'must not X', otherwise pass."
        ),
    )
    difficulty: Difficulty = Field(
        Difficulty(),
        description="Filter for hard items, which several tutors fail (TutorBench: three of five score below 0.5).",
    )
    human_labels: FilePath | None = Field(
        None,
        description=(
            "CSV with people's labels of this run's own replies, written by `maieutic read-labels` "
            "(docs/people.md). They are used to correct the judges' rates."
        ),
    )
    leading_judge: Literal["first", "best"] = Field(
        "first",
        description=(
            "Judge of the headline scores: `first`, or `best`, which agrees most with `human_labels` on half of the "
            "items. The report shows the other half."
        ),
    )
    budget: Budget = Field(
        Budget(),
        description=(
            "Spending limits of one Snakemake call. At a limit, sending stops, and received answers are kept. "
            "Changing a limit recomputes nothing."
        ),
    )
    reader: str | None = Field(
        None,
        description=(
            "Model, by its name in `models`, that reads the replies that the rules do not understand. Its values have "
            "rows of their own."
        ),
    )
    reader_same_model: bool = Field(False, description="Accept a reader that is a tutor of the run.")
    max_unreadable: float = Field(
        0.05,
        ge=0,
        le=1,
        description=(
            "Maximum share of a judge's verdicts that cannot be parsed. Above it, the run fails after writing the "
            "report."
        ),
    )
    max_missing: float = Field(
        0.05,
        ge=0,
        le=1,
        description=(
            "Maximum share of a task's items without an answer (refused, filtered or failed, docs/models.md). Above "
            "it, the value is shown with its bounds, without rank."
        ),
    )
    tutors_per_judge_job: int = Field(
        1,
        ge=1,
        description=(
            "Number of tutors per judge job. A larger number starts the judge's server less often, but a failed or "
            "changed tutor re-runs its whole batch."
        ),
    )
    tutors_per_reward_job: int = Field(
        1,
        ge=1,
        description=(
            "Number of tutors per reward-model job. A larger number loads the weights less often, but a failed or "
            "changed tutor re-runs its whole batch."
        ),
    )


class Interpreters(StrictModel):
    """Paths of the Python interpreters of the driver and serving environments."""

    driver: FilePath | None = Field(
        None, description="Python interpreter of the driver environment; `null`: the one that runs Snakemake."
    )
    serve: FilePath = Field(
        ".venv/serve/bin/python", description="Python interpreter with vLLM, torch, transformers and TRL."
    )


class Containers(StrictModel):
    """Container images, used only with `--sdm`."""

    driver: FilePath = Field(
        "containers/driver.sif",
        description=(
            "Image of the driver environment: a `.sif` made by `containers/build`, or `docker://TAG`. "
            "Ignored without `--sdm`."
        ),
    )
    serve: FilePath = Field(
        "containers/serve.sif",
        description=(
            "Image of the serving environment: a `.sif` made by `containers/build`, or `docker://TAG`. "
            "Ignored without `--sdm`."
        ),
    )


class Servers(StrictModel):
    """Settings of the vLLM servers that a run starts."""

    linger: float = Field(
        300,
        ge=0,
        le=DAY,
        description=(
            "Seconds that an idle server stays up for the model's next job. "
            "It stops earlier if another job needs its devices or memory."
        ),
    )


class Report(StrictModel):
    """Title, note, thresholds and size limits of the report."""

    title: str | None = Field(None, max_length=120, description="Title of the report page.")
    note: str | None = Field(
        None, max_length=5000, description="Text (Markdown) below the page's title, for example what the run is for."
    )

    least_readable: float = Field(
        0.8,
        ge=0,
        le=1,
        description=(
            "Minimum share of graded items for a tutor to be ranked. Tutors with fewer readable replies are marked."
        ),
    )
    equivalence: float = Field(
        0.05,
        gt=0,
        description="Two tutors are EQUIVALENT if their difference's interval is within this margin around zero.",
    )
    browser_items: int | None = Field(
        None,
        ge=0,
        description=(
            "Number of items per task that the report's item browser shows; `null`: all. The tables contain all items."
        ),
    )
    items_mb: float = Field(
        2,
        ge=0,
        description="Maximum size in MB of the items in the report page. Other items are loaded from separate files.",
    )
    resamples: int = Field(2000, ge=100, le=1_000_000, description="Number of bootstrap resamples per interval.")


class Config(StrictModel):
    """The whole configuration: run files and registries, merged."""

    edition: Edition = Field(
        "published",
        description="Data of the run: `demo` (small data in `resources/demo`) or `published` (the benchmarks' data).",
    )
    data_dir: FilePath | None = Field(
        None,
        description=(
            "Folder with the published files, each at its `path` in `datasets.yaml`; `null`: the files are downloaded."
        ),
    )
    available_only: bool = Field(
        False,
        description=(
            "Also leave out tasks, recorded tutors and sets whose files are unpinned, or not in `data_dir` (if set)."
        ),
    )
    unrecorded: dict[str, str] = Field(
        {},
        description=(
            "Entries (`models.NAME`, `datasets.NAME`) without a commit or checksum in any public record, with the "
            "reason. Until they are pinned, runs leave them out by name."
        ),
    )
    extensions: list[FilePath] = Field(
        [],
        description=(
            "Folders of extensions, which add benchmarks, tasks, prompts, rubrics and loaders to this run "
            "(docs/extending.md). Their code runs with your rights."
        ),
    )
    run: Run
    curations: dict[str, Curation] = Field({}, description="Data that this run generates, by name (docs/training.md).")
    tunings: dict[str, FineTuning] = Field(
        {}, description="Tutors that this run fine-tunes, by name. Models refer to these names in `weights.tuned`."
    )
    simulations: dict[str, Simulation] = Field(
        {}, description="Conversations with students that a model plays, by name (docs/training.md)."
    )
    report: Report = Report()
    limits: Limits = Field(
        Limits(), description="Size limits of the files that the run reads. Larger files are refused."
    )
    servers: Servers = Field(Servers(), description="Settings of the vLLM servers that the run starts.")
    interpreters: Interpreters = Interpreters()
    containers: Containers = Containers()
    models: dict[str, ModelEntry] = Field(description="Registries of models.")
    datasets: dict[str, Dataset] = Field(description="Registries of datasets.")
    preferences: dict[str, PreferenceSet] = Field(
        {}, description="Registry of preference sets: pairs of replies compared by people (docs/people.md)."
    )
    labels: dict[str, LabelSet] = Field(
        {}, description="Registry of labelled sets: replies labelled by people (docs/people.md)."
    )

    @model_validator(mode="after")
    def panels_know_their_rubrics(self) -> Config:
        """Set the `rubrics` and `pairs` that a panel omits to those that all its judges share.

        Their order is that of the panel's first judge.
        """
        for name, entry in self.models.items():
            judges = [self.models.get(judge) for judge in getattr(entry, "judges", [])]
            members = [judge for judge in judges if isinstance(judge, JudgeModel)]
            if members and len(members) == len(judges):
                rubrics = [card for card in members[0].rubrics if all(card in member.rubrics for member in members)]
                pairs = [card for card in members[0].pairs if all(card in member.pairs for member in members)]
                explicit = {key: getattr(entry, key) for key in ("rubrics", "pairs") if getattr(entry, key)}
                self.models[name] = entry.model_copy(update={"rubrics": rubrics, "pairs": pairs, **explicit})
        return self


def texts_in_config(content: Any, place: str = "") -> Iterator[tuple[str, str]]:
    """Yield the dotted path and text of every string in a configuration, keys included. place: path of `content`."""
    if isinstance(content, Mapping):
        for key, value in content.items():
            inner = f"{place}.{key}" if place else str(key)
            yield inner, str(key)
            yield from texts_in_config(value, inner)
    elif isinstance(content, list | tuple):
        for number, value in enumerate(content):
            yield from texts_in_config(value, f"{place}[{number}]")
    elif isinstance(content, str):
        yield place, content


def check_secrets(raw: Mapping[str, Any]) -> None:
    """Raise UserError if a configuration contains texts that look like secrets. The message does not print them."""
    fix = (
        "export the key as an environment variable, and set models.NAME.key_env to the variable's name; also replace "
        "the key by a new one, since it was stored in a file"
    )
    models = raw.get("models")
    entries = models.values() if isinstance(models, Mapping) else ()
    for variable in (entry.get("key_env") for entry in entries if isinstance(entry, Mapping)):
        if isinstance(variable, str):
            redact.add(os.environ.get(variable, "").strip())
    places = [place for place, text in texts_in_config(raw) if redact.contains_secret(text) or KNOWN_KEY.search(text)]
    if places:
        places = [redact(KNOWN_KEY.sub(REDACTED, place)) for place in dict.fromkeys(places)]
        raise UserError.of([UserError(place, "this looks like a secret key", fix) for place in places])


# Keys that left, with their default: configurations that were saved with a run name all keys.
LEFT_KEYS: dict[tuple[str, str], Any] = {
    ("servers", "pack"): False, ("report", "margin"): 0.1, ("batches", "wait"): False,
}  # fmt: skip


def without_left_keys(raw: dict[str, Any]) -> dict[str, Any]:
    """Return a configuration without keys that left. Raises UserError with all whose value is not the default."""
    faults = []
    for (part, key), default in LEFT_KEYS.items():
        content = raw.get(part)
        if not isinstance(content, dict) or key not in content:
            continue
        if content[key] != default:
            fix = "remove the key; CHANGELOG.md names what serves instead"
            faults.append(UserError(f"{part}.{key}", f"this key left, found {content[key]!r}", fix))
        left = {name: value for name, value in content.items() if name != key}
        raw = {name: value for name, value in raw.items() if name != part or part in Config.model_fields}
        raw |= {part: left} if left or part in Config.model_fields else {}
    raise_all(faults)
    return raw


def read_config(raw: dict[str, Any]) -> Config:
    """Return the validated configuration. Raises UserError with a line for each fault. raw: the merged files."""
    check_secrets(raw)
    raw = without_left_keys(raw)
    for registry in ("models", "datasets", "labels", "preferences", "curations", "tunings", "simulations"):
        if isinstance(raw.get(registry), dict):
            check_file_names(registry, raw[registry])
    run = raw.get("run")
    if isinstance(run, dict) and run.get("name") is not None:
        check_file_names("run.name", [run["name"]], "choose another name for the run, or remove the key")
    faults: list[UserError] = []
    if run is None or (isinstance(run, dict) and run.get("tutors") is None):
        fix = (
            "list tutors in a run file and pass it with --configfile my.yaml (README.md), or run the demo with "
            "--configfile config/config.yaml; a run without tutors, on released data alone, needs tutors: []"
        )
        faults.append(UserError("run.tutors", "expected at least one tutor, found none", fix))
        raw = {**raw, "run": {**(run or {}), "tutors": []}}
    try:
        config = Config.model_validate(raw)
    except ValidationError as error:  # a misspelt key may be the reason why there are no tutors
        others = validation_fault(error, Config, "", "config/README.md").all
        faults = [*(fault for fault in others if run is not None or fault.place != "run.tasks"), *faults]
    raise_all(faults)
    return config
