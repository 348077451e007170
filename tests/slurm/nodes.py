"""The test cluster, up for as long as a module's tests run."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

from conftest import absent

CLUSTER = Path(__file__).parent / "cluster"


def cluster(*verb: str) -> str:
    """Do something to the cluster."""
    done = subprocess.run([CLUSTER, *verb], text=True, capture_output=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def running_cluster(*flags: str) -> Iterator[None]:
    """Brought up anew, and down at the end."""
    if os.geteuid() != 0 or shutil.which("apt-get") is None:
        absent("a machine of its own for a test cluster", "run make test-slurm as root on Debian")
    cluster("down")
    cluster("up", *flags)
    yield
    cluster("down")
