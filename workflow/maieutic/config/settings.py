"""The run's configuration: a closed schema. What a run selects by it is checked in plan/checks.py."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import Any

from pydantic import Field, ValidationError, model_validator

from maieutic.config.budget import Budget
from maieutic.config.curation import Curation, FineTuning
from maieutic.config.datasets import Dataset, Edition
from maieutic.config.faults import fault_of
from maieutic.config.limits import Limits
from maieutic.config.models import DAY, MOST_TOKENS, Entry, FilePath, JudgeModel, ModelEntry
from maieutic.config.people import LabelSet, PreferenceSet
from maieutic.core.errors import UserError
from maieutic.core.names import check_names
from maieutic.core.records import NegativeWeights
from maieutic.core.secrets import INSTEAD, LOOKS_LIKE, redacted


class Difficulty(Entry):
    """The filter by which TutorBench's samples were kept (appendix A.1)."""

    tutors: list[str] = Field([], description="Tutors of the run that count; empty: no filter. The paper: five")
    below: float = Field(0.5, description="A score under this is a failure")
    at_least: int = Field(3, ge=1, description="An item is hard where so many of them fail")


class Run(Entry):
    """What to run: selections are lists, so an overlay replaces them."""

    name: str | None = Field(
        None,
        description=(
            "the run's name: page, tables and configuration lie in `results/runs/NAME`, beside other runs'; what was "
            "asked, downloaded and trained is shared. `null`: in `results/report`"
        ),
    )
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
    seed: int = Field(20250226, ge=0, lt=2**32, description="seed of that sample and of the bootstrap")
    max_tokens: int | None = Field(
        None, ge=1, le=MOST_TOKENS, description="upper bound on the cards' `max_tokens` (2,048 in MathTutorBench)"
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
            "labelled sets that graders are checked on, by their names in `labels`: `mrbench` (V1), `mrbench_v2`, "
            "`mrbench_v3` (BEA 2025, four dimensions), `mr_gsm8k_reasons` (851 graded error reasons), or your own. "
            "`null`, the default: those with `default: true`, where a judge's rubric or a task fits. The first one "
            "that fits a rubric decides its traffic light"
        ),
    )
    preferences: list[str] | None = Field(
        None,
        description=(
            "sets of pairs that graders are checked on, by name in `preferences`: `bridge`, or your own; `null`: "
            "those with `default: true`. The first one leads: the lights of graders that compare rest on it"
        ),
    )
    encoders: list[str] = Field(
        [],
        description=(
            "sentence encoders (`engine: weights`, as `minilm`): how close a labelled reply is to what stands before "
            "it, held against people's labels beside the judges"
        ),
    )
    probes: int = Field(
        0,
        ge=0,
        description=(
            "labelled replies of each set on which every judge is asked again: the same, in other words, with its "
            "criteria in another order, about a reply that says itself twice. The page shows how often its verdict "
            "stays; 20 are a start, and cost 80 questions a set. 0: it is not probed"
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
    human_labels: FilePath | None = Field(
        None,
        description=(
            "CSV of labels that people gave to this run's own replies, as `maieutic read-labels` writes it "
            "(docs/people.md), with the columns `task`, `item`, `tutor`, `criterion`, `label` (as the rubric card "
            "spells them; of KMP-Bench's criteria win, tie, lose; of TutorBench's `c01`, `c02`, ... pass, fail: "
            "docs/study.md) and, where several people labelled, `annotator`, `resolves`; `probability`, `stratum` and "
            "`stratum_size` where it is known how replies were drawn. They correct the judge's rates (with 20 labels "
            "or more of a tutor and dimension, drawn at random), and are compared with each other"
        ),
    )
    budget: Budget = Field(
        Budget(),
        description=(
            "what one call of Snakemake may spend: `usd`, `requests`, `tokens`, and `models: {NAME: {usd: ...}}`. Then "
            "no job asks any further; what was asked is taken and kept, so that at most what was in flight goes beyond "
            "it. Changing it recomputes nothing"
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

    driver: FilePath | None = Field(None, description="Python of this environment; `null`: the one that runs Snakemake")
    serve: FilePath = Field(".venv/serve/bin/python", description="Python with vLLM, torch, transformers and TRL")


class Containers(Entry):
    """Images, a .sif path or docker://..., ignored without --sdm."""

    driver: FilePath = Field(
        "containers/driver.sif",
        description="image, a `.sif` (`containers/build` makes it) or `docker://TAG`; ignored without `--sdm`",
    )
    serve: FilePath = Field("containers/serve.sif", description="likewise, of the serving environment")


class Servers(Entry):
    """The vLLM servers that a run starts."""

    linger: float = Field(
        300,
        ge=0,
        le=DAY,
        description=(
            "seconds that an idle server stays for the next job of this run with the same model; it ends at once "
            "where its devices or memory are wanted, and with the run. `0`: it ends with its job"
        ),
    )
    pack: bool = Field(
        False,
        description=(
            "one job a tutor that we serve, with all benchmarks at once on one server, instead of one a benchmark, and "
            "one a batch of tutors of a judge that we serve: for clusters, where servers are not shared between "
            "allocations; such a job fails as a whole, and `needs.runtime` is its time"
        ),
    )


class Report(Entry):
    """What the page shows."""

    least_readable: float = Field(
        0.8,
        ge=0,
        le=1,
        description="share of readable replies below which no value is bold, and sorting puts a tutor last",
    )
    margin: float = Field(
        0.1,
        gt=0,
        lt=1,
        description=(
            "how far a judge's rate may be from people's on a tutor's own replies: its state is PASS where the whole "
            "interval of the bias is within it, FAIL where it is outside"
        ),
    )
    equivalence: float = Field(
        0.05,
        gt=0,
        description="how far apart the values of two equal tutors may be: within it a difference is EQUIVALENT",
    )
    browser_items: int = Field(200, ge=0, description="items a task that the page's browser holds; the tables hold all")
    items_mb: float = Field(
        10,
        ge=0,
        description="MB of items that the page itself holds; more lie in files beside it, loaded when looked at",
    )
    resamples: int = Field(2000, ge=100, le=1_000_000, description="bootstrap resamples of every interval")


class Config(Entry):
    """The whole configuration."""

    edition: Edition = Field(
        "published", description="`demo`: the small data in `resources/demo`; `published`: the benchmarks' own data"
    )
    data_dir: FilePath | None = Field(
        None, description="folder with the published files (their paths are in `datasets.yaml`); `null`: download them"
    )
    run: Run
    curations: dict[str, Curation] = Field({}, description="Data that this run makes, by name: see docs/curation.md")
    tunings: dict[str, FineTuning] = Field({}, description="Tutors that this run fine-tunes, by name: `weights.tuned`")
    report: Report = Report()
    limits: Limits = Field(Limits(), description="How large what comes from outside may be")
    servers: Servers = Field(Servers(), description="The vLLM servers that a run starts")
    interpreters: Interpreters = Interpreters()
    containers: Containers = Containers()
    models: dict[str, ModelEntry] = Field(description="Registry: every model that exists (config/models.yaml)")
    datasets: dict[str, Dataset] = Field(description="Registry: every source file (config/datasets.yaml)")
    preferences: dict[str, PreferenceSet] = Field({}, description="Registry: pairs of replies, compared by people")
    labels: dict[str, LabelSet] = Field({}, description="Registry: replies that people have labelled, by name")

    @model_validator(mode="after")
    def panels_know_their_rubrics(self) -> Config:
        """A panel judges by the rubrics that its judges share, in the first one's order."""
        for name, entry in self.models.items():
            judges = [self.models.get(one) for one in getattr(entry, "judges", [])]
            members = [one for one in judges if isinstance(one, JudgeModel)]
            if members and len(members) == len(judges):
                rubrics = [rubric for rubric in members[0].rubrics if all(rubric in one.rubrics for one in members)]
                pairs = [rubric for rubric in members[0].pairs if all(rubric in one.pairs for one in members)]
                given = {key: getattr(entry, key) for key in ("rubrics", "pairs") if getattr(entry, key)}
                self.models[name] = entry.model_copy(update={"rubrics": rubrics, "pairs": pairs, **given})
        return self


def every_text(content: Any, place: str = "") -> Iterator[tuple[str, str]]:
    """Every text in a configuration, keys among them, each with the key that it stands at."""
    if isinstance(content, Mapping):
        for key, value in content.items():
            inner = f"{place}.{key}" if place else str(key)
            yield inner, str(key)
            yield from every_text(value, inner)
    elif isinstance(content, list | tuple):
        for number, value in enumerate(content):
            yield from every_text(value, f"{place}[{number}]")
    elif isinstance(content, str):
        yield place, content


def check_secrets(raw: Mapping[str, Any]) -> None:
    """Raise UserError where a secret stands in the configuration, which is saved with the results. It is not shown."""
    fix = "export it, and give the variable's name as models.NAME.key_env; then make a new key: this one was in a file"
    models = raw.get("models")
    entries = models.values() if isinstance(models, Mapping) else ()
    for variable in (entry.get("key_env") for entry in entries if isinstance(entry, Mapping)):
        if isinstance(variable, str):
            redacted.add(os.environ.get(variable, "").strip())
    places = [place for place, text in every_text(raw) if redacted.finds(text) or LOOKS_LIKE.search(text)]
    if places:
        places = [redacted(LOOKS_LIKE.sub(INSTEAD, place)) for place in dict.fromkeys(places)]
        raise UserError.of([UserError(place, "here stands what looks like a key", fix) for place in places])


def read_config(raw: dict[str, Any]) -> Config:
    """A configuration in its schema. Raises UserError for its first fault."""
    check_secrets(raw)
    for registry in ("models", "datasets", "labels", "preferences", "curations", "tunings"):
        if isinstance(raw.get(registry), dict):
            check_names(registry, raw[registry])
    run = raw.get("run")
    if isinstance(run, dict) and run.get("name") is not None:
        check_names("run.name", [run["name"]], "give the run another name, or none")
    if run is None or (isinstance(run, dict) and not run.get("tutors")):
        fix = (
            "name some in a run file, --configfile my.yaml (README.md), or run the demo, --configfile config/demo.yaml"
        )
        raise UserError("run.tutors", "no tutors are named", fix)
    try:
        return Config.model_validate(raw)
    except ValidationError as error:
        raise fault_of(error, Config, "", "config/README.md") from None
