"""Container images: they are there, and they hold what this checkout's locks say."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

from maieutic.core.errors import UserError

LABEL = "maieutic.lock"
OWN = "own"  # an image of somebody's own making, on their word
SECONDS = 120.0
ROOT = Path(__file__).parents[3]  # the checkout


def check_images(images: Mapping[str, tuple[str, str]]) -> None:
    """Every image is there and was built from this checkout's lock.

    images: by the name of its environment (driver, serve) what the config says, and the image's file.
    """
    for stack, (named, file) in images.items():
        mend = f"containers/build {stack}"
        if named.startswith("docker://"):
            mend = f"build and push {named.removeprefix('docker://')} again, and delete {file}"
        if not Path(file).exists():
            raise UserError(f"containers.{stack}", f"{file} is not there", mend)
        lock, known = built_from(file), locks_of(stack)
        if lock not in {OWN, *known}:
            raise UserError(
                f"containers.{stack}",
                f"{file} was built from {f'lock {lock}' if lock else 'no lock of ours'},"
                f" this checkout has {' or '.join(known)}",
                mend,
            )


def built_from(file: str) -> str | None:
    """The lock's hash that an image carries as a label."""
    engine = shutil.which("apptainer") or shutil.which("singularity")
    if engine is None:
        raise UserError("--sdm apptainer", "there is no apptainer on the PATH", "load or install it")
    command = [engine, "inspect", "--labels", "--json", file]
    done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False)
    if done.returncode != 0:
        message = (done.stderr.strip().splitlines() or ["it said nothing"])[-1]
        raise UserError(file, f"apptainer cannot read it: {message[-200:]}", "build it again")
    return json.loads(done.stdout)["data"]["attributes"]["labels"].get(LABEL)


def locks_of(stack: str) -> list[str]:
    """The hashes of an environment's locks in this checkout, one a variant."""
    done = subprocess.run([ROOT / "envs/setup", "--print-lock", stack], capture_output=True, text=True, check=True)
    return done.stdout.split()
