"""Checks of SLURM before jobs are submitted: its commands, partitions, time limits and GPUs."""

from __future__ import annotations

import difflib
import re
import shutil
import subprocess
from typing import NamedTuple

from maieutic.config.settings import Config
from maieutic.core.errors import UserError

SECONDS = 30.0
GPUS = re.compile(r"(?:^|,)gpu(?::(?P<model>[^:,()]+))?:(?P<count>\d+)")
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
    separated by commas, None for the cluster's default; step: name of the job's rule.
    """

    model: str
    gpus: int
    minutes: int
    partition: str | None
    step: str = "generate_replies"


class Partition(NamedTuple):
    """Limits of a partition: GPUs, cores and memory of its largest node, time limit in minutes (None if unlimited).

    models: types of the GPUs, such as `a100`.
    """

    gpus: int
    minutes: int | None
    cpus: int | None = None
    mem_mb: int | None = None
    models: tuple[str, ...] = ()


def known_partitions() -> dict[str, Partition]:
    """Return the partitions of this cluster by name."""
    return parse_partitions(run_slurm_command("sinfo", "--all", "--noheader", "--format=%P|%l|%G|%c|%m"))


def check_slurm(jobs: list[JobResources], status_command: str | None) -> dict[str, Partition]:
    """Check that SLURM is available, and that every requested partition exists and can run its jobs.

    status_command: command with which the executor polls its jobs. Returns the cluster's partitions.
    """
    if shutil.which("sbatch") is None:
        raise UserError(
            "executor: slurm",
            "sbatch is not on the PATH",
            "run snakemake on the cluster's login node (try `module load slurm`), or without --profile slurm",
        )
    check_status_command(status_command, run_slurm_command("scontrol", "show", "config"))
    known = known_partitions()
    for job in sorted(set(jobs), key=str):
        check_job(job, known)
    return known


def check_job(job: JobResources, known: dict[str, Partition]) -> None:
    """Raise UserError unless one of the partitions that a job names exists and can run the job.

    known: partitions of the cluster by name.
    """
    if job.partition is None:
        return
    names = job.partition.split(",")
    candidates = [known[name] for name in names if name in known]
    if not candidates:
        near = difflib.get_close_matches(names[0], known, 1)
        hint = f"did you mean {near[0]!r}?" if near else f"choose one of {', '.join(sorted(known))}"
        raise UserError("slurm_partition", f"{job.partition!r} is not a partition of this cluster", hint)
    if job.gpus > (most := max(partition.gpus for partition in candidates)):
        raise UserError(
            f"models.{job.model}.needs.gpus",
            f"expected at most {most}, the number of GPUs on a node of partition {job.partition}, found {job.gpus}",
            f"pass --set-resources {job.step}:slurm_partition=NAME (`sinfo -o '%P %G'` lists partitions), "
            "or lower needs.gpus",
        )
    limits = [partition.minutes for partition in candidates]
    longest = max((limit for limit in limits if limit is not None), default=0)
    if None not in limits and job.minutes > longest:  # SLURM may accept such a job and never start it
        raise UserError(
            f"models.{job.model}.needs.runtime",
            f"expected at most {longest} minutes, the limit of partition {job.partition}, found {job.minutes}",
            f"lower needs.runtime, choose another partition, or pass --set-resources {job.step}:runtime={longest}",
        )


def parse_partitions(output: str) -> dict[str, Partition]:
    """Return the partitions in the output of `sinfo --format="%P|%l|%G|%c|%m"` by name.

    A line of the output is, for example, `gpu*|8:00:00|gpu:a100:4(S:0-1)|64|515000`.
    """
    by_name: dict[str, Partition] = {}
    for line in filter(None, output.splitlines()):
        name, limit, resources, *sizes = (part.strip() for part in line.split("|"))
        kinds = list(GPUS.finditer(resources))
        cpus, mem_mb = (leading_number(size) for size in [*sizes, "", ""][:2])
        known = by_name.get(name.rstrip("*"), Partition(0, None))
        by_name[name.rstrip("*")] = Partition(
            max(known.gpus, sum(int(match["count"]) for match in kinds)),
            minutes_of(limit),
            largest(known.cpus, cpus),
            largest(known.mem_mb, mem_mb),
            tuple(dict.fromkeys([*known.models, *(match["model"] for match in kinds if match["model"])])),
        )
    return by_name


def leading_number(text: str) -> int | None:
    """Return the number at the beginning of a text, such as 64 in `64+`; None without a number."""
    match = LEADING_NUMBER.match(text)
    return int(match[0]) if match else None


def largest(first: int | None, second: int | None) -> int | None:
    """Return the larger of two numbers; one that is None is ignored."""
    return max((number for number in (first, second) if number is not None), default=None)


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
        done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=True)
    except subprocess.TimeoutExpired:
        problem = f"no answer within {SECONDS:.0f} s"
        raise UserError(command[0], problem, "check that the controller is up (`scontrol ping`)") from None
    except (OSError, subprocess.CalledProcessError) as error:
        message = (getattr(error, "stderr", "") or str(error)).strip()
        raise UserError(command[0], message[-300:], "check that the controller is up (`scontrol ping`)") from None
    return done.stdout
