"""Checks that container images exist and were built from this checkout's lock files."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

from maieutic.core.errors import UserError

LOCK_LABEL = "maieutic.lock"
USER_BUILT = "own"  # label of an image that a user built; its packages are not checked
SECONDS = 120.0
ROOT = Path(__file__).parents[3]  # root of the checkout


def check_images(images: Mapping[str, tuple[str, str]]) -> None:
    """Raise UserError if an image does not exist, or was not built from this checkout's lock file.

    images: (address in the configuration, file) of the image for each environment (driver, serve).
    """
    for stack, (configured, file) in images.items():
        fix = f"run containers/build {stack}"
        if configured.startswith("docker://"):
            fix = f"build and push {configured.removeprefix('docker://')} again, and delete {file}"
        if not Path(file).exists():
            raise UserError(f"containers.{stack}", f"{file} does not exist", fix)
        lock, known = lock_of_image(file), lock_hashes(stack)
        if lock not in {USER_BUILT, *known}:
            raise UserError(
                f"containers.{stack}",
                f"{file} was built from {f'lock {lock}' if lock else 'an unknown lock'},"
                f" but this checkout has lock {' or '.join(known)}",
                fix,
            )


def lock_of_image(file: str) -> str | None:
    """Return the hash of the lock file from which an image was built, as in its label; None without this label."""
    engine = shutil.which("apptainer") or shutil.which("singularity")
    if engine is None:
        raise UserError("--sdm apptainer", "apptainer is not on the PATH", "load or install apptainer")
    command = [engine, "inspect", "--labels", "--json", file]
    done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False)
    if done.returncode != 0:
        message = (done.stderr.strip().splitlines() or ["no message"])[-1]
        raise UserError(file, f"apptainer cannot read the image: {message[-200:]}", "build the image again")
    return json.loads(done.stdout)["data"]["attributes"]["labels"].get(LOCK_LABEL)


def lock_hashes(stack: str) -> list[str]:
    """Return the hashes of an environment's lock files in this checkout, one for each variant of the environment."""
    done = subprocess.run([ROOT / "envs/setup", "--print-lock", stack], capture_output=True, text=True, check=True)
    return done.stdout.split()
