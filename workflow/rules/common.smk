"""The checked configuration, and the few look-ups that several rule files share."""

import re
import shlex
import sys
from pathlib import Path

sys.path.insert(0, f"{workflow.basedir}/workflow")

from maieutic import cards, cluster, commands, images, preflight, settings, uses
from maieutic.errors import UserError
from maieutic.judges import checks as judge_checks
from maieutic.judges import rubrics
from maieutic.judges import selection as judging
from maieutic.judges.labels import LABEL_SOURCES
from maieutic.rewards import checks, selection
from maieutic.rewards.pairs import PAIR_SOURCES, TEST_SOURCE

try:
    checked = settings.check_config(config)
    judge_checks.check_people(checked)
except UserError as error:
    raise WorkflowError(str(error)) from None

TUTORS = settings.tutors_of(checked)
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
SERVED_JUDGES = [name for name, judge in JUDGES.items() if judge.model in SERVED]
HOSTED_JUDGES = [name for name in JUDGES if name not in SERVED_JUDGES]
RELEASES = judging.label_sources(checked)


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
    release=one_of(LABEL_SOURCES),
    batch="[A-Za-z0-9_][A-Za-z0-9._+-]*",


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


def answering(name):
    """The entry whose model answers in a job: a judge names it."""
    return JUDGES[name].model if name in JUDGES else name


def needs_of(wildcards):
    """What one job of a model asks of a machine."""
    return checked.models[answering(wildcards.model)].needs


def gpu_gres():
    """How this cluster's jobs ask for GPUs as a generic resource (`gpu_gres` of the profile); None: as `gpu`."""
    defaults = workflow.resource_settings.default_resources or {}
    return str(defaults["gpu_gres"].raw).strip("'\"") if "gpu_gres" in defaults else None


GPU_GRES = gpu_gres()


def gres_of(wildcards):
    """The generic resource that one job asks for: what the profile calls it, and how many."""
    gpus = needs_of(wildcards).gpus
    return f"{GPU_GRES}:{gpus}" if GPU_GRES and gpus else ""


# What a job of one model asks of a machine: a further attempt gets more time and memory. `server_gpus` is what a
# profile limits, however GPUs are asked for.
MODEL_JOB = {
    "mem_mb": lambda wildcards, attempt: needs_of(wildcards).mem_mb * attempt,
    "runtime": lambda wildcards, attempt: needs_of(wildcards).runtime * attempt,
    "gpu": lambda wildcards: 0 if GPU_GRES else needs_of(wildcards).gpus,
    "gres": gres_of,
    "server_gpus": lambda wildcards: needs_of(wildcards).gpus,
    "nodes": 1,
}


def asked_models(jobs):
    """The models that some planned job will ask."""
    rules = (
        "generate_replies",
        "generate_replies_locally",
        "train_reward_model",
        "train_criteria",
        "score_pairs",
        "score_rewards",
        "grade_replies",
        "grade_replies_locally",
        "judge_labelled",
        "judge_labelled_locally",
    )
    return sorted({answering(job.wildcards.model) for job in jobs if job.rule.name in rules})


def used_images(jobs):
    """The image of each environment that some planned job runs in: what the config says, and its file."""
    files = {job.container_img_url: job.container_img_path for job in jobs if job.container_img}
    named = checked.containers.model_dump()
    return {stack: (url, files[url]) for stack, url in named.items() if url in files}


def asked_of_slurm(job):
    """What one planned job asks. Another cluster, or a file that chooses partitions, is not for us to check."""
    elsewhere = any(job.resources.get(name) for name in ("cluster", "clusters", "slurm_cluster"))
    partition = None if elsewhere else job.resources.get("slurm_partition")
    return cluster.Asked(
        model=job.wildcards.model,
        step=job.rule.name,
        gpus=needs_of(job.wildcards).gpus,
        minutes=job.resources.get("runtime") or 0,
        partition=str(partition) if partition else None,
    )


def check_cluster(jobs):
    """What the planned jobs ask of SLURM can be had there."""
    asked = [asked_of_slurm(job) for job in jobs if not job.is_local]
    cluster.check_slurm(asked, workflow.executor_settings.status_command)


def start_run(jobs):
    """Before the first job: save what this run is, and check that all it needs is there."""
    Path("results/.unreadable.json").unlink(missing_ok=True)
    try:
        if in_containers():
            images.check_images(used_images(jobs))
        cluster.check_gpus(checked, asked_models(jobs), gpu_total())
        if workflow.executor_plugin.name == "slurm":
            check_cluster(jobs)
        preflight.check_run(checked, interpreter("serve"), asked_models(jobs))
        commands.save_config(run_config(), Path("results/.run.yaml"))
    except UserError as error:
        raise WorkflowError(str(error)) from None


def gpu_total():
    """The GPUs that all jobs together may have (`resources` of the profile); None: no limit."""
    totals = workflow.global_resources
    limits = [totals[name].value for name in ("server_gpus", "gpu") if name in totals]
    return min(limits, default=None)


def run_config():
    """The effective configuration: the registries cut down to what this run uses."""
    return checked.model_copy(
        update={
            "models": {name: checked.models[name] for name in uses.used_models(checked)},
            "datasets": {name: checked.datasets[name] for name in uses.used_datasets(checked)},
        }
    ).model_dump_json()


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


def pairs_code(wildcards):
    """The module that makes one source's pairs, and what all sources share."""
    return code(
        PAIR_SOURCES[wildcards.source].file,
        "conversations.py",
        "datasets/mrbench.py",
        "datasets/text.py",
        "rewards/pairs.py",
    )


def scorer_code():
    """The modules that decide what a reward model is given and how it is run."""
    return code(
        "conversations.py",
        "rewards/scorer.py",
        "rewards/scoring.py",
        "rewards/sharing.py",
        "rewards/loading.py",
    )


def reward_tasks(wildcards):
    """The selected tasks of a benchmark whose replies reward models score."""
    return [card.task for card in selection.reward_cards(checked, wildcards.benchmark)]


def reward_items(wildcards):
    """The items of those tasks."""
    return [f"results/items/{wildcards.benchmark}/{task}.jsonl" for task in reward_tasks(wildcards)]


def reward_batches(benchmark):
    """Which tutors one job scores: the baselines and the human reference together, the others by the config."""
    return selection.reward_batches(checked, benchmark)


def rewarded_tutors(benchmark):
    """The tutors whose replies reward models score."""
    return [tutor for batch in reward_batches(benchmark).values() for tutor in batch]


def reward_files(wildcards):
    """The scores of one tutor by one reward model, and those of the human reference."""
    batches = reward_batches(wildcards.benchmark)
    mine = next(name for name, tutors in batches.items() if wildcards.model in tutors)
    return [
        f"results/rewards/replies/{wildcards.reward}/{wildcards.benchmark}/{batch}.jsonl"
        for batch in sorted({mine, selection.BASELINE_BATCH})
    ]


def overlap_files(wildcards):
    """The leaked items by each source that the reward model was trained on."""
    return [
        f"results/preferences/{source}/overlap/{wildcards.benchmark}.json"
        for source in checks.sources_of(checked.models[wildcards.reward])
    ]


def reward_grades(wildcards):
    """The grades of one tutor by every reward model of the run."""
    if wildcards.benchmark not in selection.rewarded_benchmarks(checked):
        return []
    if wildcards.model not in rewarded_tutors(wildcards.benchmark):
        return []
    return [
        f"results/grades/rewards/{reward}/{wildcards.benchmark}/{wildcards.model}.jsonl"
        for reward in checked.run.reward_models
    ]


def base_of(name):
    """The registry entry whose weights a grader is trained on."""
    return checked.models[name].train.base


def reward_weights(wildcards):
    """A reward model's manifest: trained here, or published."""
    if checked.models[wildcards.model].train:
        return f"results/rewards/models/{wildcards.model}/manifest.json"
    return f"results/weights/{wildcards.model}/manifest.json"


def reward_prompt(wildcards):
    """The text of a reward model's instruction."""
    prompt = checked.models[wildcards.model].prompt
    return [] if prompt == "none" else [f"resources/rewards/{prompt}.txt"]


def training_json(wildcards):
    """What a grader's training needs of its registry entry."""
    return settings.training_json(checked.models[wildcards.model])


def scoring_json(wildcards):
    """What scoring needs of a reward model's registry entry."""
    return settings.scoring_json(checked.models[wildcards.model])


def answering_weights(wildcards):
    """The manifest of the weights that a judge answers with."""
    return f"results/weights/{answering(wildcards.model)}/manifest.json"


def answering_json(wildcards):
    """What a judge's jobs need of the entry that answers."""
    return settings.entry_json(checked.models[answering(wildcards.model)])


def rubric_files_of(judge):
    """The rubric cards of a judge, and their prompts."""
    names = judging.rubric_names(checked, judge)
    return sorted({str(file) for name in names for file in rubrics.files_of(name)})


def reply_rubric_files(wildcards):
    """Those by which one job's judge judges replies."""
    names = JUDGES[wildcards.model].rubrics
    return sorted({str(file) for name in names for file in rubrics.files_of(name)})


def rubric_files(wildcards):
    """All of one job's judge."""
    return rubric_files_of(wildcards.model)


def reply_judge_json(wildcards):
    """What judging replies needs of a judge's entry: a further card for pairs must not judge them anew."""
    return settings.entry_json(JUDGES[wildcards.model].model_copy(update={"pairs": []}))


def trust_code():
    """The modules that decide how a grader's agreement with people is measured."""
    return code(
        "datasets/mrbench.py",
        "judges/agreement.py",
        "judges/cases.py",
        "judges/labels.py",
        "judges/pairs.py",
        "judges/ppi.py",
        "judges/trust.py",
        "judges/validation.py",
        "stats.py",
    )


def judge_code():
    """The modules that decide what a judge is asked and how its answer is read."""
    return code(
        "judges/answers.py",
        "judges/cases.py",
        "judges/fencing.py",
        "judges/judging.py",
        "judges/rubrics.py",
        "judges/work.py",
        "prompts.py",
        "thinking.py",
    )


def judge_tasks(wildcards):
    """The selected tasks of a benchmark whose replies judges judge."""
    return [card.task for card in judging.judge_cards(checked, wildcards.benchmark)]


def judge_batches(benchmark):
    """Which tutors one job judges: the baselines together, the others by the config."""
    return judging.judge_batches(checked, benchmark)


def judge_batch_files(judge, benchmark):
    """What a judge says of every tutor's replies to a benchmark."""
    return [
        f"results/grades/judges/{judge}/{benchmark}/{batch}.jsonl"
        for batch in judge_batches(benchmark)
    ]


def all_judge_files(judge):
    """What a judge says of every tutor's replies to every benchmark that it judges."""
    return [
        file
        for benchmark in judging.judged_benchmarks(checked)
        for file in judge_batch_files(judge, benchmark)
    ]


def judge_grades(wildcards):
    """What each judge of the run says of the batch that one tutor is in."""
    if wildcards.benchmark not in judging.judged_benchmarks(checked):
        return []
    for batch, tutors in judge_batches(wildcards.benchmark).items():
        if wildcards.model in tutors:
            return [
                f"results/grades/judges/{judge}/{wildcards.benchmark}/{batch}.jsonl"
                for judge in JUDGES
            ]
    return []


def judged_releases(judge):
    """The labelled releases that a judge is checked on."""
    return checked.run.labels if judging.checked_on_labels(checked, judge) else []


def labels_of(release):
    """The files of a labelled release that graders are compared with."""
    return [f"results/labels/{release}/{kind}.jsonl" for kind in ("items", "replies", "labels")]


def label_files(wildcards):
    """The labelled releases that one judge is checked on."""
    return [file for release in judged_releases(wildcards.model) for file in labels_of(release)]


def label_folders(wildcards):
    """Their folders, as arguments."""
    folders = " ".join(f"results/labels/{release}" for release in judged_releases(wildcards.model))
    return f"--labels {folders}" if folders else ""


def judge_pairs(wildcards):
    """The pairs that one judge is checked on."""
    return (
        [f"results/preferences/{TEST_SOURCE}/pairs.jsonl"] if JUDGES[wildcards.model].pairs else []
    )


def pairs_argument(wildcards, input):
    """Them as an argument."""
    return f"--pairs {input.pairs}" if input.pairs else ""


# Reward models are compared with the labels of one release, classifiers with those that they were held back from.
REWARD_RELEASE = (checked.run.labels or ["mrbench"])[0]


def last_checks():
    """The last check of a run with judges: it fails where too much could not be read."""
    return ["results/report/judges.json"] if JUDGES else []


def trust_files():
    """What the report's pages on trust and on labels are made of."""
    graders = [*REWARD_MODELS, *CLASSIFIERS, *JUDGES]
    files = [f"results/scores/trust/{name}.json" for name in graders]
    files += [f"results/scores/bridge_pairs/{name}.json" for name in JUDGES]
    files += [f"results/scores/labels/{release}.json" for release in RELEASES]
    files += [f"results/labels/{release}/statistics.json" for release in RELEASES]
    files += [file for name in JUDGES for file in all_judge_files(name)]
    if checked.run.human_labels:
        files += [f"results/scores/people/{name}.json" for name in JUDGES if all_judge_files(name)]
    return files


def grader_files():
    """What the report's page on reward models and classifiers is made of."""
    files = [f"results/scores/bridge_pairs/{name}.json" for name in [*REWARD_MODELS, *CLASSIFIERS]]
    files += [f"results/rewards/pairs/{name}.jsonl" for name in REWARD_MODELS]
    files += [f"results/rewards/models/{name}/README.md" for name in TRAINED]
    files += [f"results/rewards/criteria/{name}/training.json" for name in CLASSIFIERS]
    files += [f"results/preferences/{source}/counts.json" for source in uses.used_sources(checked)]
    for benchmark in selection.rewarded_benchmarks(checked):
        for reward in checked.run.reward_models:
            files += [
                f"results/rewards/replies/{reward}/{benchmark}/{batch}.jsonl"
                for batch in reward_batches(benchmark)
            ]
            files += [
                f"results/preferences/{source}/overlap/{benchmark}.json"
                for source in checks.sources_of(checked.models[reward])
            ]
    return sorted({*files, *trust_files()})
