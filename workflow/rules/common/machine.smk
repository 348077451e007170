"""What jobs ask of a machine, and what is checked before the first one starts."""


def answering(name):
    """The entry whose model answers in a job: a judge names it."""
    judge = JUDGES.get(name) or TAGGERS.get(name)
    return judge.model if judge else name


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
        "tag_items",
        "tag_items_locally",
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
    try:
        if in_containers():
            images.check_images(used_images(jobs))
        cluster.check_gpus(checked, asked_models(jobs), gpu_total())
        if workflow.executor_plugin.name == "slurm":
            check_cluster(jobs)
        for job in jobs:
            if job.rule.name == "fetch_dataset_from_hub":
                preflight.check_serve(interpreter("serve"), job.wildcards.dataset)
        preflight.check_run(checked, interpreter("serve"), asked_models(jobs))
        commands.save_config(run_config().model_dump_json(), Path("results/.run.yaml"))
        Path("results/.provenance.json").write_text(run_provenance(), encoding="utf-8")
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
    )


def run_provenance():
    """What this run is made of: the code's commit, checksums, and what is not as shipped."""
    return provenance.record(run_config(), provenance.code_state()).model_dump_json()
