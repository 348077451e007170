"""The checked configuration, and the few look-ups that several rule files share."""

import json
import re
import shlex
import sys
from pathlib import Path
from types import SimpleNamespace

sys.path.insert(0, f"{workflow.basedir}/workflow")

from maieutic import (
    breakdown,
    cards,
    cluster,
    commands,
    differences,
    difficulty,
    digest,
    images,
    preflight,
    provenance,
    score,
    settings,
    uses,
)
from maieutic.errors import UserError
from maieutic.graders import judges as grading
from maieutic.graders import rewards as reward_grading
from maieutic.judges import checks as judge_checks
from maieutic.judges import rubrics
from maieutic.judges import selection as judging
from maieutic.judges import validation as judge_validation
from maieutic.judges import work as judge_work
from maieutic.judges.judging import STOP_ABOVE
from maieutic.judges.labels import LABEL_SOURCES
from maieutic.judges.ppi import COMPARISONS
from maieutic.rewards import checks, selection
from maieutic.rewards.pairs import PAIR_SOURCES, TEST_SOURCE

try:
    checked = settings.check_config(config)
    judge_checks.check_people(checked)
except UserError as error:
    raise WorkflowError(str(error)) from None

CARDS = settings.benchmarks_of(checked)
PACKAGE = "workflow/maieutic"
SERVED = [name for name, model in checked.models.items() if model.engine == "vllm"]
UNSERVED = [
    name for name, model in checked.models.items() if model.engine in ("hosted", "baseline")
]
REWARD_MODELS = selection.graders_of(checked)
TRAINED = [name for name in REWARD_MODELS if checked.models[name].train]
CLASSIFIERS = checked.run.classifiers
JUDGES = {name: judging.judge_entry(checked, name) for name in checked.run.judges}
TAGGERS = {name: judging.judge_entry(checked, name) for name in checked.run.taggers}
REPLY_JUDGES = settings.judges_of_replies(checked)
SERVED_JUDGES = [name for name, judge in JUDGES.items() if judge.model in SERVED]
HOSTED_JUDGES = [name for name in JUDGES if name not in SERVED_JUDGES]
SERVED_TAGGERS = [name for name, judge in TAGGERS.items() if judge.model in SERVED]
HOSTED_TAGGERS = [name for name in TAGGERS if name not in SERVED_TAGGERS]
RELEASES = judging.label_sources(checked)
TAXONOMY_RELEASES = [
    name for name in RELEASES if LABEL_SOURCES[name].taxonomy and LABEL_SOURCES[name].labelled
]
PICTURES = "results/pictures"
PICTURED = [name for name, dataset in checked.datasets.items() if dataset.pictures]
HUB_DATASETS = [
    name
    for name, dataset in checked.datasets.items()
    if dataset.published.hub and checked.edition == "published" and not checked.data_dir
]


def in_containers():
    """Whether this run uses images (--sdm apptainer)."""
    return any(
        method.name == "APPTAINER" for method in workflow.deployment_settings.deployment_method
    )


def interpreter(stack):
    """The Python of an environment; inside a container it is the image's own."""
    if in_containers():
        return "python3"
    return getattr(checked.interpreters, stack) or sys.executable


# In the prefix and not in params: where an interpreter lies must re-run nothing.
shell.prefix(
    f"set -euo pipefail; export PYTHONPATH={shlex.quote(f'{workflow.basedir}/workflow')} PYTHONUNBUFFERED=1"
    f" DRIVER={shlex.quote(interpreter('driver'))} SERVE={shlex.quote(interpreter('serve'))}; "
)


def one_of(names):
    """A pattern for exactly these names."""
    return "|".join(map(re.escape, names)) or "(?!)"


wildcard_constraints:
    benchmark=one_of(CARDS),
    model=one_of(checked.models),
    dataset=one_of(checked.datasets),
    task="[a-z][a-z0-9_]*",
    source=one_of(PAIR_SOURCES),
    reward=one_of(checked.run.reward_models),
    judge=one_of(JUDGES),
    release=one_of(LABEL_SOURCES),
    batch="[A-Za-z0-9_][A-Za-z0-9._+-]*",


def tasks_of(wildcards):
    """The selected tasks of a benchmark that a tutor can be asked."""
    cards_here = settings.cards_for(checked, wildcards.benchmark, wildcards.model)
    return [loaded.card.task for loaded in cards_here]


def of_tutors(pattern):
    """A file of each benchmark and tutor that answers it."""
    return [
        pattern.format(benchmark=benchmark, model=model)
        for benchmark in CARDS
        for model in settings.tutors_on(checked, benchmark)
    ]


def items_of(wildcards):
    """Their items."""
    return [f"results/items/{wildcards.benchmark}/{task}.jsonl" for task in tasks_of(wildcards)]


def card_files(wildcards):
    """The cards, prompts and few-shot texts of the selected tasks of a benchmark."""
    return files_of_cards(wildcards, CARDS[wildcards.benchmark])


def tutor_card_files(wildcards):
    """Those of the tasks that a tutor can be asked."""
    return files_of_cards(
        wildcards, settings.cards_for(checked, wildcards.benchmark, wildcards.model)
    )


def listed_pictures(wildcards):
    """The list of the pictures of a task's items, where they have some."""
    card = card_of(wildcards)
    return [f"results/datasets/{card.dataset}.pictures.jsonl"] if card.images else []


def files_of_cards(wildcards, loaded_cards):
    """The files that some cards of a benchmark are read with."""
    return [
        file
        for loaded in loaded_cards
        for file in map(
            str,
            cards.files_of(cards.card_path(wildcards.benchmark, loaded.card.task), loaded),
        )
    ]


def card_of(wildcards):
    """The card of one task."""
    cards_here = CARDS[wildcards.benchmark]
    return next(loaded.card for loaded in cards_here if loaded.card.task == wildcards.task)


def weight_files(wildcards):
    """The files of weights that are on disk already: new ones under an old name are new weights."""
    path = getattr(checked.models[wildcards.model].weights, "path", None)
    return [str(file) for file in sorted(Path(path).glob("*.*"))] if path else []


def model_json(wildcards):
    """What a model's jobs need of its registry entry."""
    return settings.entry_json(checked.models[wildcards.model])


def code_of(command, instead=None, files=None):
    """A digest of what decides a command's results, as a param: an edit of it re-runs the rule."""
    found = Path(PACKAGE).glob(files) if files else []
    return digest.code_of(command, instead, found)


def loader_used(wildcards):
    """Of the table of loaders the one of a card."""
    loader = settings.LOADERS[card_of(wildcards).loader].load
    return {
        digest.Name("datasets", "LOADERS"): [
            digest.name_of(loader),
            digest.Name("datasets", "Loader"),
        ]
    }


def pairs_used(wildcards):
    """Of the table of sources of pairs the one that is made."""
    return {
        digest.Name("rewards.pairs", "PAIR_SOURCES"): [
            digest.name_of(PAIR_SOURCES[wildcards.source].load),
            digest.Name("rewards.pairs", "PairSource"),
        ]
    }


# What one kind of tutor does not use of the command that all are asked by.
SERVED_TUTORS = {digest.Name("baselines", "baseline_reply"): []}
BASELINE_TUTORS = {
    digest.Name("backends", "hosted_backend"): [],
    digest.Name("backends", "vllm_backend"): [],
    digest.Name("generate", "run_job"): [],
}


def tutor_used(wildcards):
    """What an unserved tutor does not use: a hosted one no baselines, a baseline no conversation."""
    baseline = checked.models[wildcards.model].engine == "baseline"
    return BASELINE_TUTORS if baseline else SERVED_TUTORS


include: "common/machine.smk"
include: "common/judges.smk"
include: "common/rubrics.smk"
include: "common/rewards.smk"
