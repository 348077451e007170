"""Environment variables that connect the processes of a run, and those that models' processes inherit."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from maieutic.core.secrets import is_named_as_secret, redact

# Variables that locate programs, libraries, user files and devices, or configure the engine
ALLOWED_VARIABLES = re.compile(
    r"PATH|HOME|USER|LOGNAME|SHELL|LANG|LANGUAGE|LC_[A-Z]+|TZ|TERM|TMPDIR|TEMP|TMP|HOSTNAME|PWD|VIRTUAL_ENV"
    r"|LD_[A-Z_]+|PYTHON[A-Z]+|XDG_[A-Z_]+|SSL_CERT_[A-Z]+|SLURM[A-Z]*_[A-Z0-9_]+|PMI[X]?_[A-Z0-9_]+|GPU_[A-Z_]+"
    r"|HF_HOME|HF_HUB_[A-Z_]+|HF_MODULES_CACHE|MAIEUTIC_(?:RUN|LOCKS|PARENT)|CC|CXX|COVERAGE_[A-Z_]+"
    r"|LIBRARY_PATH|C?PATH|C_INCLUDE_PATH|CPLUS_INCLUDE_PATH|PKG_CONFIG_PATH|MODULEPATH|LOADEDMODULES|CONDA_[A-Z_]+"
    r"|CUDACXX|CUDAHOSTCXX|(?:TIKTOKEN|NVCC|DG_JIT|LMCACHE|ZE|ONEAPI|SYCL|PBS|LSB|PALS|OMPI|I_MPI|MPICH)_[A-Z0-9_]+"
    r"|(?:VLLM|OMP|KMP|GOMP|MKL|OPENBLAS|BLIS|NUMEXPR|MALLOC|TCMALLOC|CUDA|CUBLAS|CUDNN|NVIDIA|NVTE|NCCL|RCCL|UCX|FI|GLOO"
    r"|HIP|HSA|ROCR|ROCM|AMD|MIOPEN|TORCH|TORCHINDUCTOR|PYTORCH|TRITON|FLASHINFER|XLA|TPU|RAY|TOKENIZERS)_[A-Z0-9_]+"
)
# Variables that limit the threads of jobs that are too small to gain from more. Servers do not inherit these variables,
# because they can use more threads.
JOB_ONLY_VARIABLES = {"OPENBLAS_NUM_THREADS"}
EXTRA_VARIABLE = "MAIEUTIC_INHERIT"  # comma-separated names of further variables that servers inherit


def inherited_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the environment variables that a model's process inherits. They never include API keys."""
    more = {name.strip() for name in environment.get(EXTRA_VARIABLE, "").split(",")}
    return {
        name: value
        for name, value in environment.items()
        if (ALLOWED_VARIABLES.fullmatch(name) or name in more)
        and name not in JOB_ONLY_VARIABLES
        and not is_secret_variable(name, value)
    }


def is_secret_variable(name: str, value: str) -> bool:
    """Return True if a variable seems to contain an API key, judging by its name, or has a known key as its value."""
    return is_named_as_secret(name) or value.strip() in redact.secrets


def remove_keys() -> None:
    """Remove every API key from this process's environment. Call it before running code from a model's repository."""
    for name in [name for name, value in os.environ.items() if is_secret_variable(name, value)]:
        del os.environ[name]


# Environment variable of a server's processes: comma-separated file descriptors of the locks on the server's GPUs
LOCKS_VARIABLE = "MAIEUTIC_LOCKS"
RUN_VARIABLE = "MAIEUTIC_RUN"  # set by Snakemake for its jobs; the format is that of SnakemakeRun.variable


def process_start_ticks(pid: int) -> str | None:
    """Return a process's start time in clock ticks, or None if it has ended. Unlike a pid, it is never reused."""
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rsplit(")", 1)[1].split()[19]
    except (OSError, IndexError):
        return None


class SnakemakeRun(NamedTuple):
    """Snakemake process whose jobs share servers.

    start_ticks: start time of the process in clock ticks; linger: idle timeout of the servers in seconds.
    """

    pid: int
    start_ticks: str
    linger: float

    @classmethod
    def here(cls, linger: float) -> SnakemakeRun:
        """Return the run whose Snakemake process is this process."""
        return cls(os.getpid(), process_start_ticks(os.getpid()) or "", linger)

    @classmethod
    def of(cls, environment: Mapping[str, str]) -> SnakemakeRun | None:
        """Return the run that RUN_VARIABLE names, or None if servers are not shared or the run's process has ended."""
        try:
            pid, since, linger = environment.get(RUN_VARIABLE, "").split(":")
            run = cls(int(pid), since, float(linger))
        except ValueError:
            return None
        return run if run.linger > 0 and run.is_alive() else None

    def variable(self) -> str:
        """Return this run's value for the environment variable RUN_VARIABLE."""
        return f"{self.pid}:{self.start_ticks}:{self.linger:g}"

    def is_alive(self) -> bool:
        """Return True if the run's process is still running."""
        return bool(self.start_ticks) and process_start_ticks(self.pid) == self.start_ticks
