"""Before anything is submitted: is SLURM here, do the partitions exist, can the GPUs be had?"""

from __future__ import annotations

import difflib
import re
import shutil
import subprocess
from typing import NamedTuple

from maieutic.config.settings import Config
from maieutic.core.errors import UserError

SECONDS = 30.0
GPUS = re.compile(r"(?:^|,)gpu(?::[^:,()]+)?:(\d+)")
LIMIT = re.compile(r"(?:(?P<days>\d+)-)?(?:(?P<hours>\d+):)?(?P<minutes>\d+):(?P<seconds>\d+)")
LONGEST_LOOK = 200  # seconds: the executor looks after its jobs every three minutes at the latest


def check_gpus(config: Config, models: list[str], total: int | None) -> None:
    """No model needs more GPUs than all jobs of the run together may have. Snakemake would cap the request silently.

    total: `server_gpus` (or `gpu`) of the profile's `resources`; None: no limit.
    """
    for name in models:
        needed = config.models[name].needs.gpus
        if total is not None and needed > total:
            raise UserError(
                f"models.{name}.needs.gpus",
                f"{needed} needed, the profile's total is {total}",
                "raise server_gpus in the profile's resources (--resources server_gpus=N), or lower needs.gpus",
            )


class Asked(NamedTuple):
    """What one planned job asks of SLURM. partition: as given to `sbatch`; None: the cluster decides."""

    model: str
    gpus: int
    minutes: int
    partition: str | None
    step: str = "generate_replies"


class Partition(NamedTuple):
    """GPUs on its largest node, and the longest time limit in minutes (None: no limit)."""

    gpus: int
    minutes: int | None


def check_slurm(jobs: list[Asked], status_command: str | None) -> None:
    """SLURM can be talked to, and every partition that is asked for exists and can take its jobs.

    status_command: how the executor looks after its jobs.
    """
    if shutil.which("sbatch") is None:
        raise UserError(
            "executor: slurm",
            "there is no sbatch on the PATH",
            "run it on the cluster's login node (module load slurm?), or without --profile slurm",
        )
    check_status_command(status_command, ask("scontrol", "show", "config"))
    known = partitions(ask("sinfo", "--all", "--noheader", "--format=%P|%l|%G"))
    for job in sorted(set(jobs), key=str):
        check_job(job, known)


def check_job(job: Asked, known: dict[str, Partition]) -> None:
    """One job's partition exists and can take it; where several are named, one of them can."""
    if job.partition is None:
        return
    names = job.partition.split(",")
    candidates = [known[name] for name in names if name in known]
    if not candidates:
        near = difflib.get_close_matches(names[0], known, 1)
        hint = f"did you mean {near[0]!r}?" if near else f"known: {', '.join(sorted(known))}"
        raise UserError("slurm_partition", f"{job.partition!r} is not a partition of this cluster", hint)
    if job.gpus > (most := max(partition.gpus for partition in candidates)):
        raise UserError(
            f"models.{job.model}.needs.gpus",
            f"{job.gpus} needed on one node, the nodes of partition {job.partition} have at most {most}",
            f"--set-resources {job.step}:slurm_partition=NAME (sinfo -o '%P %G' lists them), or lower needs.gpus",
        )
    limits = [partition.minutes for partition in candidates]
    longest = max((limit for limit in limits if limit is not None), default=0)
    if None not in limits and job.minutes > longest:  # SLURM may take such a job and never start it
        raise UserError(
            f"models.{job.model}.needs.runtime",
            f"{job.minutes} minutes, partition {job.partition} ends jobs after {longest}",
            f"lower it, name another partition, or --set-resources {job.step}:runtime={longest}",
        )


def partitions(listed: str) -> dict[str, Partition]:
    """The partitions by name, from lines of `sinfo --format="%P|%l|%G"` such as `gpu*|8:00:00|gpu:a100:4(S:0-1)`."""
    by_name: dict[str, Partition] = {}
    for line in filter(None, listed.splitlines()):
        name, limit, resources = (part.strip() for part in line.split("|", 2))
        gpus = sum(int(count) for count in GPUS.findall(resources))
        known = by_name.get(name.rstrip("*"), Partition(0, None))
        by_name[name.rstrip("*")] = Partition(max(known.gpus, gpus), minutes_of(limit))
    return by_name


def minutes_of(limit: str) -> int | None:
    """SLURM's time format, `days-hours:minutes:seconds` with its first parts left out, in minutes; None: no limit."""
    if not (match := LIMIT.fullmatch(limit)):
        return None
    days, hours, minutes = (int(match[part] or 0) for part in ("days", "hours", "minutes"))
    return days * 1440 + hours * 60 + minutes


def check_status_command(command: str | None, config: str) -> None:
    """The executor's way of looking after its jobs sees them end; otherwise the run waits for ever.

    config: what `scontrol show config` says.
    """
    if command == "sacct" and setting(config, "AccountingStorageType") != "accounting_storage/slurmdbd":
        raise UserError(
            "slurm-status-command",
            "sacct, but this cluster keeps no accounting database",
            "give --slurm-status-command squeue, or set it in profiles/slurm/config.yaml",
        )
    age = setting(config, "MinJobAge").split()
    if command == "squeue" and age and int(age[0]) < LONGEST_LOOK:
        raise UserError(
            "slurm-status-command",
            f"squeue, but this cluster forgets a job {age[0]} s after its end (MinJobAge), before it is looked for",
            "give --slurm-status-command sacct, or set it in profiles/slurm/config.yaml",
        )


def setting(config: str, key: str) -> str:
    """One value of `scontrol show config`."""
    return next(
        (line.partition("=")[2].strip() for line in config.splitlines() if line.split("=")[0].strip() == key), ""
    )


def ask(*command: str) -> str:
    """What a SLURM command says."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=True)
    except subprocess.TimeoutExpired:
        raise UserError(
            command[0], f"no answer within {SECONDS:.0f} s", "is the controller up? (scontrol ping)"
        ) from None
    except (OSError, subprocess.CalledProcessError) as error:
        message = (getattr(error, "stderr", "") or str(error)).strip()
        raise UserError(command[0], message[-300:], "is the controller up? (scontrol ping)") from None
    return done.stdout
