"""Checks of SLURM before jobs are submitted: its commands, partitions, time limits and GPUs."""

from __future__ import annotations

import logging
import re
import shutil
import subprocess
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import NamedTuple

from maieutic.config.faults import suggestion_for
from maieutic.config.settings import Config
from maieutic.core.errors import UserError, check_all

log = logging.getLogger(__name__)
SECONDS = 30.0
GPUS = re.compile(r"(?:^|,)gpu(?::(?!no_consume:)(?P<model>[^:,()]+))?(?::no_consume)?:(?P<count>\d+)")
FEWEST_FIELDS = 3  # fields of a line about a partition: name, time limit, generic resources
DOWN = "down"  # state of a partition that queues jobs without starting them
LEADING_NUMBER = re.compile(r"\d+")
TIME_LIMIT = re.compile(r"(?:(?P<days>\d+)-)?(?:(?P<hours>\d+):)?(?P<minutes>\d+):(?P<seconds>\d+)")
LONGEST_POLL_SECONDS = 200  # maximum time between two polls of a job; the executor polls at least every three minutes


def check_gpus(config: Config, models: list[str], total: int | None) -> None:
    """Raise UserError if a model needs more GPUs than all jobs of the run together may use.

    Without this check, Snakemake would silently reduce the request. models: names of models; total: number in
    `server_gpus` (or `gpu`) of the profile's `resources`, None if there is no limit.
    """
    for name in models:
        check_job_gpus([name], config.models[name].needs.gpus, total)


def check_job_gpus(models: list[str], needed: int, total: int | None) -> None:
    """Raise UserError if the models of one job together need more GPUs than all jobs of the run may use.

    models: names of the models that the job serves together; needed, total: numbers of GPUs, as in `check_gpus`.
    """
    together = " together" if len(models) > 1 else ""
    if total is not None and needed > total:
        raise UserError(
            " and ".join(f"models.{name}.needs.gpus" for name in models),
            f"expected at most {total}{together}, the profile's number of GPUs, found {needed}",
            "raise server_gpus in the profile's resources (--resources server_gpus=N), or lower needs.gpus",
        )


class JobResources(NamedTuple):
    """Resources that a job requests from SLURM.

    model: names of the job's models, for messages; minutes: requested run time; partition: one or several names
    separated by commas, None for the cluster's default; step: name of the job's rule; cpus: number of cores; mem_mb:
    memory in MB; gpu_model: type of the GPUs, such as `a100`, "" for any.
    """

    model: str
    gpus: int
    minutes: int
    partition: str | None
    step: str = "generate_replies"
    cpus: int = 0
    mem_mb: int = 0
    gpu_model: str = ""


def gpu_type_of(gres: str) -> str:
    """Return the type in a GPU request such as `gpu:a100:4`; "" without a type."""
    return gres.removeprefix("gpu:").rpartition(":")[0]


class NodeKind(NamedTuple):
    """Nodes of equal size.

    gpus: number of GPUs by type, such as `a100`, with "" for GPUs without a type; cpus: number of cores; mem_mb: memory
    in MB; both are None if unknown.
    """

    gpus: Mapping[str, int] = {}
    cpus: int | None = None
    mem_mb: int | None = None

    def gpu_count(self, model: str = "") -> int:
        """Return the number of GPUs of a type, or of all GPUs."""
        return self.gpus.get(model, 0) if model else sum(self.gpus.values())

    def can_run(self, job: JobResources) -> bool:
        """Return True if one of these nodes has the GPUs, the cores and the memory of a job."""
        return (
            job.gpus <= self.gpu_count(job.gpu_model)
            and job.cpus <= (self.cpus or job.cpus)
            and job.mem_mb <= (self.mem_mb or job.mem_mb)
        )


class Partition(NamedTuple):
    """Partition of a cluster.

    minutes: time limit in minutes, None if unlimited; nodes: kinds of its nodes; state: `up` if it starts jobs, `down`
    if it only queues them, else it refuses them.
    """

    minutes: int | None
    nodes: tuple[NodeKind, ...] = ()
    state: str = "up"

    def gpu_count(self, model: str = "") -> int:
        """Return the largest number of GPUs of a node, of a type or of all types."""
        return max((kind.gpu_count(model) for kind in self.nodes), default=0)

    @property
    def cpus(self) -> int | None:
        """The largest number of cores of a node; None if unknown."""
        return max((kind.cpus for kind in self.nodes if kind.cpus is not None), default=None)

    @property
    def mem_mb(self) -> int | None:
        """The largest memory of a node in MB; None if unknown."""
        return max((kind.mem_mb for kind in self.nodes if kind.mem_mb is not None), default=None)

    @property
    def models(self) -> list[str]:
        """The types of the GPUs, such as `a100`."""
        return list(dict.fromkeys(model for kind in self.nodes for model in kind.gpus if model))


def known_partitions() -> dict[str, Partition]:
    """Return the partitions of this cluster by name."""
    # Without --exact, nodes of different sizes share a line, which contains the smallest of their sizes.
    return parse_partitions(run_slurm_command("sinfo", "--all", "--exact", "--noheader", "--format=%P|%l|%G|%c|%m|%a"))


def check_available(status_command: str | None) -> dict[str, Partition]:
    """Check that SLURM is available, and return the cluster's partitions. Raises UserError.

    status_command: command with which the executor polls its jobs.
    """
    if shutil.which("sbatch") is None:
        raise UserError(
            "executor: slurm",
            "sbatch is not on the PATH",
            "run snakemake on the cluster's login node (try `module load slurm`), or without --profile slurm",
        )
    check_status_command(status_command, run_slurm_command("scontrol", "show", "config"))
    return known_partitions()


def check_jobs(jobs: Iterable[JobResources], known: Mapping[str, Partition]) -> None:
    """Raise UserError with every fault of the partitions that jobs name. known: partitions of the cluster by name."""
    check_all(partial(check_job, job, known) for job in sorted(set(jobs), key=str))


def check_job(job: JobResources, known: Mapping[str, Partition]) -> None:
    """Raise UserError unless one of the partitions that a job names exists and can run the job.

    known: partitions of the cluster by name.
    """
    if job.partition is None:
        return
    names = job.partition.split(",")
    candidates = {name: known[name] for name in names if name in known}
    if not candidates:
        problem = f"{job.partition!r} is not a partition of this cluster"
        raise UserError("slurm_partition", problem, suggestion_for(names[0], list(known)))
    check_all(
        [
            partial(check_state, job.partition, candidates),
            partial(check_node_sizes, job, list(candidates.values())),
            partial(check_time, job, list(candidates.values())),
        ]
    )


def check_state(named: str, candidates: Mapping[str, Partition]) -> None:
    """Raise UserError if no partition accepts jobs, and log a warning if all that do are down.

    named: partitions as the user named them, separated by commas; candidates: those that exist, by name.
    """
    states = {partition.state for partition in candidates.values()}
    if "up" in states:
        return
    if DOWN in states:
        log.warning("partition %s is down: its jobs wait until an administrator starts it", named)
        return
    problem = f"partition {named} refuses jobs (state: {', '.join(sorted(states))})"
    raise UserError("slurm_partition", problem, "choose another partition (`sinfo -o '%P %a'` lists their states)")


def check_node_sizes(job: JobResources, candidates: Sequence[Partition]) -> None:
    """Raise UserError unless a node of the partitions has the GPUs, the cores and the memory of a job."""
    fix = f"pass --set-resources {job.step}:slurm_partition=NAME (`sinfo -eo '%P %G %c %m'` lists nodes), or lower "
    most, kind = max(partition.gpu_count(job.gpu_model) for partition in candidates), job.gpu_model
    if job.gpus > most:
        problem = (
            f"expected at most {most}, the number of {f'{kind} ' if kind else ''}GPUs on a node of partition "
            f"{job.partition}, found {job.gpus}"
        )
        raise UserError(f"models.{job.model}.needs.gpus", problem, f"{fix}needs.gpus")
    kinds = [kind for partition in candidates for kind in partition.nodes]
    if kinds and not any(kind.can_run(job) for kind in kinds):
        sizes = "; ".join(sorted({node_size(kind) for kind in kinds}))
        problem = (
            f"expected a node of partition {job.partition} ({sizes}) to fit the job, found {job.gpus} GPU(s), "
            f"{job.cpus} cores and {job.mem_mb} MB"
        )
        raise UserError(f"models.{job.model}.needs", problem, f"{fix}models.{job.model}.needs")


def node_size(kind: NodeKind) -> str:
    """Return the size of nodes as text, such as `4 a100, 64 cores, 515000 MB`."""
    gpus = [f"{number} {model or 'GPU(s)'}" for model, number in kind.gpus.items()] or ["no GPUs"]
    return ", ".join(
        [*gpus, *(f"{size} {unit}" for size, unit in ((kind.cpus, "cores"), (kind.mem_mb, "MB")) if size is not None)]
    )


def check_time(job: JobResources, candidates: Sequence[Partition]) -> None:
    """Raise UserError if a job is longer than the partitions allow."""
    limits = [partition.minutes for partition in candidates]
    longest = max((limit for limit in limits if limit is not None), default=0)
    if None not in limits and job.minutes > longest:  # SLURM may accept such a job and never start it
        raise UserError(
            f"models.{job.model}.needs.runtime",
            f"expected at most {longest} minutes, the limit of partition {job.partition}, found {job.minutes}",
            f"lower needs.runtime, choose another partition, or pass --set-resources {job.step}:runtime={longest}",
        )


def parse_partitions(output: str) -> dict[str, Partition]:
    """Return the partitions in the output of `sinfo --format="%P|%l|%G|%c|%m|%a"` by name.

    A line of the output is, for example, `gpu*|8:00:00|gpu:a100:4(S:0-1)|64|515000|up`. Lines of another form, such as
    the name of a cluster, are skipped.
    """
    by_name: dict[str, Partition] = {}
    for line in output.splitlines():
        fields = [part.strip() for part in line.split("|")]
        if len(fields) < FEWEST_FIELDS or not fields[0]:
            continue
        name, limit, resources, cpus, mem_mb, state, *_ = [*fields, "", "", ""]
        gpus: Counter[str] = Counter()
        for match in GPUS.finditer(resources):
            gpus[match["model"] or ""] += int(match["count"])
        kind = NodeKind(dict(gpus), leading_number(cpus), leading_number(mem_mb))
        known = by_name.get(name.rstrip("*"), Partition(minutes_of(limit), state=state or "up"))
        nodes = known.nodes if kind in known.nodes else (*known.nodes, kind)
        by_name[name.rstrip("*")] = known._replace(nodes=nodes)
    return by_name


def leading_number(text: str) -> int | None:
    """Return the number at the beginning of a text, such as 64 in `64+`; None without a number."""
    match = LEADING_NUMBER.match(text)
    return int(match[0]) if match else None


def minutes_of(limit: str) -> int | None:
    """Return the minutes in a SLURM time limit of the form `[days-][hours:]minutes:seconds`; None if unlimited."""
    if not (match := TIME_LIMIT.fullmatch(limit)):
        return None
    days, hours, minutes = (int(match[part] or 0) for part in ("days", "hours", "minutes"))
    return days * 1440 + hours * 60 + minutes


def check_status_command(command: str | None, config: str) -> None:
    """Raise UserError if the executor's status command cannot detect the end of a job, so that a run would never end.

    config: output of `scontrol show config`.
    """
    if command == "sacct" and slurm_setting(config, "AccountingStorageType") != "accounting_storage/slurmdbd":
        raise UserError(
            "slurm-status-command",
            "found sacct, but this cluster has no accounting database",
            "pass --slurm-status-command squeue, or set it in profiles/slurm/config.yaml",
        )
    age = slurm_setting(config, "MinJobAge").split()
    if command == "squeue" and age and int(age[0]) < LONGEST_POLL_SECONDS:
        raise UserError(
            "slurm-status-command",
            f"found squeue, but this cluster deletes a job's record {age[0]} s after its end (MinJobAge), before the "
            "next poll",
            "pass --slurm-status-command sacct, or set it in profiles/slurm/config.yaml",
        )


def slurm_setting(config: str, key: str) -> str:
    """Return the value of a key in the output of `scontrol show config`; "" if the key is absent."""
    return next(
        (line.partition("=")[2].strip() for line in config.splitlines() if line.split("=")[0].strip() == key), ""
    )


def run_slurm_command(*command: str) -> str:
    """Return the output of a SLURM command. Raises UserError if the command fails or does not answer in time."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=SECONDS, check=True)
    except subprocess.TimeoutExpired:
        problem = f"no answer within {SECONDS:.0f} s"
        raise UserError(command[0], problem, "check that the controller is up (`scontrol ping`)") from None
    except FileNotFoundError:
        fix = "run this on the cluster's login node (try `module load slurm`)"
        raise UserError(command[0], "the command is not on the PATH", fix) from None
    except (OSError, subprocess.CalledProcessError) as error:
        message = (getattr(error, "stderr", "") or str(error)).strip()
        raise UserError(command[0], message[-300:], "check that the controller is up (`scontrol ping`)") from None
    return done.stdout
