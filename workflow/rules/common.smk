"""The checked configuration, and the few look-ups that several rule files share."""

import re
import shlex
import sys
from pathlib import Path

sys.path.insert(0, f"{workflow.basedir}/workflow")

from maieutic import cards, commands, preflight, settings
from maieutic.errors import UserError

try:
    checked = settings.check_config(config)
except UserError as error:
    raise WorkflowError(str(error)) from None

TUTORS = settings.tutors_of(checked)
CARDS = settings.benchmarks_of(checked)
PACKAGE = "workflow/maieutic"


def interpreter(stack):
    """The Python of an environment; inside a container it is the image's own."""
    if workflow.deployment_settings.deployment_method:
        return "python3"
    return getattr(checked.interpreters, stack) or sys.executable


# In the prefix and not in params: where an interpreter lies must re-run nothing.
shell.prefix(
    f"set -euo pipefail; export PYTHONPATH={shlex.quote(f'{workflow.basedir}/workflow')} PYTHONUNBUFFERED=1"
    f" DRIVER={shlex.quote(interpreter('driver'))} SERVE={shlex.quote(interpreter('serve'))}; "
)


wildcard_constraints:
    benchmark="|".join(map(re.escape, CARDS)),
    model="|".join(map(re.escape, checked.models)),
    dataset="|".join(map(re.escape, checked.datasets)),
    task="[a-z][a-z0-9_]*",


def tasks_of(wildcards):
    """The selected tasks of a benchmark."""
    return [loaded.card.task for loaded in CARDS[wildcards.benchmark]]


def items_of(wildcards):
    """The items of the selected tasks of a benchmark."""
    return [f"results/items/{wildcards.benchmark}/{task}.jsonl" for task in tasks_of(wildcards)]


def card_files(wildcards):
    """The cards, prompts and few-shot texts of the selected tasks of a benchmark."""
    return [
        file
        for loaded in CARDS[wildcards.benchmark]
        for file in map(
            str,
            cards.files_of(cards.card_path(wildcards.benchmark, loaded.card.task), loaded),
        )
    ]


def card_of(wildcards):
    """The card of one task."""
    cards_here = CARDS[wildcards.benchmark]
    return next(loaded.card for loaded in cards_here if loaded.card.task == wildcards.task)


def needs_of(wildcards):
    """What one job of a model asks of a machine."""
    return checked.models[wildcards.model].needs


def asked_models(jobs):
    """The models that some planned job will ask."""
    return sorted({job.wildcards.model for job in jobs if job.rule.name == "generate_replies"})


def start_run(jobs):
    """Before the first job: save what this run is, and check that its models can be asked."""
    try:
        commands.save_config(run_config(), Path("results/.run.yaml"))
        preflight.check_run(checked, interpreter("serve"), asked_models(jobs))
    except UserError as error:
        raise WorkflowError(str(error)) from None


def run_config():
    """The effective configuration: the registries cut down to what this run uses."""
    used = {loaded.card.dataset for loadeds in CARDS.values() for loaded in loadeds}
    return checked.model_copy(
        update={
            "models": {name: checked.models[name] for name in TUTORS},
            "datasets": {name: checked.datasets[name] for name in sorted(used)},
        }
    ).model_dump_json()


def weights_of(wildcards):
    """The weights of a model that we serve; other tutors have none."""
    served = checked.models[wildcards.model].engine == "vllm"
    return f"results/weights/{wildcards.model}/manifest.json" if served else []


def weight_files(wildcards):
    """The files of weights that are on disk already: new ones under an old name are new weights."""
    path = getattr(checked.models[wildcards.model].weights, "path", None)
    return [str(file) for file in sorted(Path(path).glob("*.*"))] if path else []


def model_json(wildcards):
    """What a model's jobs need of its registry entry."""
    return settings.entry_json(checked.models[wildcards.model])


def code(*names):
    """The modules that decide a rule's results: editing one re-runs the rule."""
    return sorted(str(path) for name in names for path in Path(PACKAGE).glob(name))


def loader_code(wildcards):
    """The module of a card's loader, and what all loaders share."""
    return code(
        settings.LOADERS[card_of(wildcards).loader].file,
        "datasets/sampling.py",
        "datasets/sources.py",
        "datasets/text.py",
    )


def tutor_code(wildcards):
    """The modules that decide what a tutor is asked, or what a baseline tutor says."""
    if checked.models[wildcards.model].engine == "baseline":
        return code("baselines.py")
    return code("generate.py", "prompts.py", "thinking.py")
