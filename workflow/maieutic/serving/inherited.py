"""What a model's process inherits of our environment: what it needs to run, and no key of anybody's endpoint."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping

from maieutic.core.secrets import is_named_as_secret, redacted

# What finds programs and libraries, says where this user's files and the machine's devices are, and sets the engine.
KEPT = re.compile(
    r"PATH|HOME|USER|LOGNAME|SHELL|LANG|LANGUAGE|LC_[A-Z]+|TZ|TERM|TMPDIR|TEMP|TMP|HOSTNAME|PWD|VIRTUAL_ENV"
    r"|LD_[A-Z_]+|PYTHON[A-Z]+|XDG_[A-Z_]+|SSL_CERT_[A-Z]+|SLURM[A-Z]*_[A-Z0-9_]+|PMI[X]?_[A-Z0-9_]+|GPU_[A-Z_]+"
    r"|HF_HOME|HF_HUB_[A-Z_]+|HF_MODULES_CACHE|MAIEUTIC_(?:RUN|LOCKS|PARENT)|CC|CXX|COVERAGE_[A-Z_]+"
    r"|LIBRARY_PATH|C?PATH|C_INCLUDE_PATH|CPLUS_INCLUDE_PATH|PKG_CONFIG_PATH|MODULEPATH|LOADEDMODULES|CONDA_[A-Z_]+"
    r"|CUDACXX|CUDAHOSTCXX|(?:TIKTOKEN|NVCC|DG_JIT|LMCACHE|ZE|ONEAPI|SYCL|PBS|LSB|PALS|OMPI|I_MPI|MPICH)_[A-Z0-9_]+"
    r"|(?:VLLM|OMP|KMP|GOMP|MKL|OPENBLAS|BLIS|NUMEXPR|MALLOC|TCMALLOC|CUDA|CUBLAS|CUDNN|NVIDIA|NVTE|NCCL|RCCL|UCX|FI|GLOO"
    r"|HIP|HSA|ROCR|ROCM|AMD|MIOPEN|TORCH|TORCHINDUCTOR|PYTORCH|TRITON|FLASHINFER|XLA|TPU|RAY|TOKENIZERS)_[A-Z0-9_]+"
)
# Of rules, for jobs whose threads would cost more than their work; a server's linear algebra may have its own.
FOR_JOBS = {"OPENBLAS_NUM_THREADS"}
MORE = "MAIEUTIC_INHERIT"  # names, with commas between them, of further variables that a site's servers need


def inherited(environment: Mapping[str, str]) -> dict[str, str]:
    """The variables of our environment that the process of a model gets: none that holds a key, whatever its name."""
    more = {name.strip() for name in environment.get(MORE, "").split(",")}
    return {
        name: value
        for name, value in environment.items()
        if (KEPT.fullmatch(name) or name in more) and name not in FOR_JOBS and not is_secret(name, value)
    }


def is_secret(name: str, value: str) -> bool:
    """Whether a variable holds a key: by its name, or since it is one that this process knows."""
    return is_named_as_secret(name) or value.strip() in redacted.secrets


def forget_keys() -> None:
    """Take every key out of this process's environment, before the code of a model's repository may run in it."""
    for name in [name for name, value in os.environ.items() if is_secret(name, value)]:
        del os.environ[name]
