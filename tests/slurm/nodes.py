"""Start the test cluster for the duration of a module's tests."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

from conftest import absent

CLUSTER = Path(__file__).parent / "cluster"


def cluster(*words: str) -> str:
    """Run a command of the `cluster` script and return its output."""
    process = subprocess.run([CLUSTER, *words], text=True, capture_output=True, check=False)
    assert process.returncode == 0, process.stdout + process.stderr
    return process.stdout


def running_cluster(*flags: str) -> Iterator[None]:
    """Start a new cluster and stop it after the tests."""
    if os.geteuid() != 0 or shutil.which("apt-get") is None:
        absent("a dedicated machine for a test cluster", "run make test-slurm as root on Debian")
    cluster("down")
    cluster("up", *flags)
    yield
    cluster("down")
