"""`maieutic partitions`: write the SLURM executor's partition file from what the cluster reports.

The executor's own generator does not know the GPUs of a node, nor its memory.
"""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated, Any

import yaml
from cyclopts import Parameter

from maieutic.core.errors import UserError
from maieutic.core.files import atomic_file
from maieutic.core.terminal import say
from maieutic.launch import cluster

HEADER = """# Partitions of this cluster, written by `maieutic partitions`. The SLURM executor sends each job to the
# partition with the tightest limits that fit. Check the file: remove partitions that you may not use.
#   snakemake --profile slurm --slurm-partition-config {file}
"""


def partitions(*, out: Annotated[Path, Parameter(help="file to write")] = Path("partitions.yaml")) -> None:
    """Write the partition file of this cluster from `sinfo`, with the limits of each partition's largest node.

    Partitions that do not start jobs are left out.

    Raises UserError if SLURM does not answer or has no partitions, or if the file exists or cannot be written.
    """
    if out.exists():
        raise UserError(
            str(out), "the file exists, and may have been edited", "delete it, or choose another file with --out"
        )
    known = cluster.known_partitions()
    if not known:
        raise UserError("sinfo", "expected at least one partition, found none", "run it on the login node")
    usable = {name: partition for name, partition in known.items() if partition.state == "up"}
    quoted = shlex.quote(str(out))
    try:
        with atomic_file(out) as handle:
            handle.write(HEADER.format(file=quoted))
            limits = {name: limits_of(partition) for name, partition in usable.items()}
            yaml.safe_dump({"partitions": limits}, handle, sort_keys=False, default_flow_style=None, width=200)
    except OSError as error:
        raise UserError(str(out), f"cannot be written ({error.strerror})", "choose another file with --out") from None
    gpus = {name: partition.gpu_count() for name, partition in usable.items() if partition.gpu_count()}
    listed = ", ".join(f"{name} with up to {number} a node" for name, number in gpus.items())
    say(f"{out}: {len(usable)} partition(s); GPUs: {listed or 'none'}")
    if closed := [f"{name} ({partition.state})" for name, partition in known.items() if name not in usable]:
        say(f"left out, since they start no jobs: {', '.join(closed)}")
    say(f"next: snakemake --profile slurm --slurm-partition-config {quoted} --configfile my.yaml -n")


def limits_of(partition: cluster.Partition) -> dict[str, Any]:
    """Return a partition's limits by the executor's names. Unknown limits are left out."""
    limits = {
        "max_runtime": partition.minutes,
        "max_threads": partition.cpus,
        "max_mem_mb": partition.mem_mb,
        "max_gpu": partition.gpu_count(),
        "available_gpu_models": partition.models,
    }
    return {name: value for name, value in limits.items() if value not in (None, [])}
