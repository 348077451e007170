"""Before anything is submitted: is SLURM here, do the partitions exist, can the GPUs be had?"""

from __future__ import annotations

import difflib
import shutil
import subprocess

from maieutic.errors import UserError
from maieutic.settings import Config

SECONDS = 30.0


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


def check_slurm(partitions: set[str], status_command: str | None) -> None:
    """SLURM can be talked to, and every partition that a job asks for exists.

    partitions: what the planned jobs ask for; status_command: how the plugin looks after its jobs.
    """
    if shutil.which("sbatch") is None:
        raise UserError(
            "executor: slurm",
            "there is no sbatch on the PATH",
            "run it on the cluster's login node (module load slurm?), or without --profile slurm",
        )
    known = ask("sinfo", "--noheader", "--format=%R").split()
    for name in sorted(partitions - set(known)):
        near = difflib.get_close_matches(name, known, 1)
        hint = f"did you mean {near[0]!r}?" if near else f"known: {', '.join(sorted(set(known)))}"
        raise UserError("slurm_partition", f"{name!r} is not a partition of this cluster", hint)
    check_status_command(status_command)


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
