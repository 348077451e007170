"""Before anything is submitted: is SLURM here, do the partitions exist, can the GPUs be had?"""

from __future__ import annotations

import difflib
import re
import shutil
import subprocess
from typing import NamedTuple

from maieutic.errors import UserError
from maieutic.settings import Config

SECONDS = 30.0
DEFAULT = "*"
GPUS = re.compile(r"(?:^|,)gpu(?::[^:,()]+)?:(\d+)")


def check_gpus(config: Config, models: list[str], total: int | None) -> None:
    """No model needs more GPUs than all jobs of the run together may have. Snakemake would cap the request silently.

    total: the `gpu` of the profile's `resources`; None: no limit.
    """
    for name in models:
        needed = config.models[name].needs.gpus
        if total is not None and needed > total:
            raise UserError(
                f"models.{name}.needs.gpus",
                f"{needed} needed, the profile's total is {total}",
                "raise gpu in the profile's resources (--resources gpu=N), or lower needs.gpus",
            )


class Asked(NamedTuple):
    """What one planned job asks of SLURM."""

    model: str
    gpus: int
    partition: str | None  # None: the cluster's default


def check_slurm(jobs: list[Asked], status_command: str | None) -> None:
    """SLURM can be talked to, the partitions exist and have nodes with as many GPUs as a server needs.

    status_command: how the executor looks after its jobs.
    """
    if shutil.which("sbatch") is None:
        raise UserError(
            "executor: slurm",
            "there is no sbatch on the PATH",
            "run it on the cluster's login node (module load slurm?), or without --profile slurm",
        )
    check_status_command(status_command)
    known = gpus_of_partitions(ask("sinfo", "--noheader", "--format=%P %G"))
    for job in sorted(set(jobs), key=str):
        check_job(job, known)


def check_job(job: Asked, known: dict[str, int]) -> None:
    """One job's partition exists and can take it."""
    name = job.partition or DEFAULT
    if name not in known:
        if name == DEFAULT:
            return  # a cluster without a default partition may have a rule of its own
        near = difflib.get_close_matches(name, known, 1)
        names = sorted(set(known) - {DEFAULT})
        hint = f"did you mean {near[0]!r}?" if near else f"known: {', '.join(names)}"
        raise UserError("slurm_partition", f"{name!r} is not a partition of this cluster", hint)
    if job.gpus > known[name]:
        where = f"partition {name}" if job.partition else "the default partition"
        raise UserError(
            f"models.{job.model}.needs.gpus",
            f"{job.gpus} needed on one node, the nodes of {where} have at most {known[name]}",
            "--set-resources generate_replies:slurm_partition=NAME (sinfo -o '%P %G' lists them), or lower needs.gpus",
        )


def gpus_of_partitions(listed: str) -> dict[str, int]:
    """The largest number of GPUs on one node of each partition, the default one also under DEFAULT.

    listed: lines of `sinfo --format="%P %G"`, such as `gpu* gpu:a100:4(S:0-1)`.
    """
    most: dict[str, int] = {}
    for line in listed.splitlines():
        name, _, resources = line.strip().partition(" ")
        gpus = sum(int(count) for count in GPUS.findall(resources))
        for key in (name.rstrip("*"), DEFAULT) if name.endswith("*") else (name,):
            most[key] = max(most.get(key, 0), gpus)
    return most


def check_status_command(command: str | None) -> None:
    """Without an accounting database `sacct` never tells that a job has ended, and the run hangs."""
    if command == "sacct" and "accounting_storage/none" in storage_line(ask("scontrol", "show", "config")):
        raise UserError(
            "slurm-status-command",
            "sacct, but this cluster keeps no accounting database",
            "set slurm-status-command: squeue in the profile",
        )


def storage_line(config: str) -> str:
    """The line of SLURM's configuration that names the accounting storage."""
    return next((line for line in config.splitlines() if line.startswith("AccountingStorageType")), "")


def ask(*command: str) -> str:
    """What a SLURM command says."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=True)
    except subprocess.TimeoutExpired:
        raise UserError(
            command[0], f"no answer within {SECONDS:.0f} s", "is the controller up? (scontrol ping)"
        ) from None
    except (OSError, subprocess.CalledProcessError) as error:
        said = (getattr(error, "stderr", "") or str(error)).strip().replace("\n", " ")
        raise UserError(command[0], said[-300:], "is the controller up? (scontrol ping)") from None
    return done.stdout
