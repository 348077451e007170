"""GPU allocation for servers: the GPUs that a scheduler granted, or the first free ones of a workstation.

Each device has a lock file, so that two servers never use it at once. The server's processes inherit the locks
(engine.py passes them on), so the kernel frees a device when the last of these processes ends, even if it is killed.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import time
from collections.abc import Mapping, Sequence
from itertools import takewhile
from pathlib import Path
from typing import NamedTuple

from maieutic.core.errors import UserError
from maieutic.core.locks import lock_exclusively
from maieutic.serving.eviction import hold_shared_locks, open_shared
from maieutic.serving.run_environment import LOCKS_VARIABLE

log = logging.getLogger(__name__)
VARIABLES = ("CUDA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES")
FOLDER = Path("/tmp")
POLL_SECONDS = 1.0
LOG_INTERVAL = 60.0  # minimum number of seconds between two log lines of a process that waits for GPUs
MILLIJOULES = 1000.0  # number of millijoules in a joule, since NVML counts in millijoules


class Grant(NamedTuple):
    """Locked devices. They stay locked until all processes that inherited the file descriptors have closed them."""

    environment: dict[str, str]
    locks: tuple[int, ...]
    devices: tuple[str, ...] = ()

    def release(self) -> None:
        """Close this process's file descriptors of the locks."""
        for handle in self.locks:
            os.close(handle)


class Gpu(NamedTuple):
    """A GPU of this machine. gib: its memory in GiB, 0 if the driver does not report it."""

    name: str
    gib: float


def machine_gpus() -> list[Gpu]:
    """Return this machine's NVIDIA GPUs, sorted by PCI address, or an empty list without a driver."""
    try:
        import pynvml
    except ImportError:  # a custom container image may lack pynvml
        return []
    try:
        pynvml.nvmlInit()
        handles = [pynvml.nvmlDeviceGetHandleByIndex(index) for index in range(pynvml.nvmlDeviceGetCount())]
        return [Gpu(str(pynvml.nvmlDeviceGetName(handle)), gib_of(handle)) for handle in handles]
    except pynvml.NVMLError:
        return []


def gib_of(handle: object) -> float:
    """Return the memory of a GPU in GiB; 0 if the driver does not report it, as for memory shared with the CPU."""
    import pynvml

    try:
        return float(pynvml.nvmlDeviceGetMemoryInfo(handle).total / 2**30)
    except pynvml.NVMLError:
        return 0.0


def gpu_names() -> list[str]:
    """Return the names of this machine's NVIDIA GPUs, sorted by PCI address, or an empty list without a driver."""
    return [gpu.name for gpu in machine_gpus()]


def energy_joules(devices: Sequence[str]) -> float | None:
    """Return the total energy in joules that GPUs have used since their driver was loaded, as counted by NVML.

    devices: numbers or UUIDs, as in CUDA_VISIBLE_DEVICES. Returns None without devices, without a driver, or if a
    device does not count its energy.
    """
    if not devices:
        return None
    try:
        import pynvml
    except ImportError:
        return None
    try:
        pynvml.nvmlInit()
        handles = [
            pynvml.nvmlDeviceGetHandleByIndex(int(device))
            if device.isdigit()
            else pynvml.nvmlDeviceGetHandleByUUID(device)
            for device in devices
        ]
        return sum(pynvml.nvmlDeviceGetTotalEnergyConsumption(handle) for handle in handles) / MILLIJOULES
    except pynvml.NVMLError:
        return None


def visible_devices(environment: Mapping[str, str]) -> tuple[str, list[str]]:
    """Return the environment variable that selects a server's devices, and the devices that this process may use.

    If the scheduler or the user has set such a variable, only its devices may be used, otherwise all of this machine.
    """
    for variable in VARIABLES:
        if variable in environment:
            named = [device.strip() for device in environment[variable].split(",")]
            usable = takewhile(lambda device: device not in {"-1", "NoDevFiles"}, named)  # CUDA ignores what follows
            return variable, [device for device in dict.fromkeys(usable) if device]
    return VARIABLES[0], [str(index) for index in range(len(gpu_names()))]


def lock_file(device: str, environment: Mapping[str, str]) -> Path:
    """Return the lock file of a device. SLURM jobs use separate files, as device 0 may be another GPU in each job."""
    allocation = environment.get("SLURM_JOB_ID", "machine")
    clean = "".join(letter if letter.isalnum() else "-" for letter in f"{allocation}-{device}")
    return FOLDER / f"maieutic.gpu-{clean}.lock"


def device_request_file(device: str, environment: Mapping[str, str]) -> Path:
    """Return the file that processes lock while they wait for a device (see eviction.py)."""
    return lock_file(device, environment).with_suffix(".wanted")


def try_lock(path: Path) -> int | None:
    """Lock a file that any user may lock. Return its file descriptor, or None if another process holds the lock."""
    handle = open_shared(path)
    try:
        lock_exclusively(handle)
    except BlockingIOError:
        os.close(handle)
        return None
    return handle


def try_devices(devices: list[str], needed: int, environment: Mapping[str, str]) -> dict[str, int] | None:
    """Lock `needed` devices and return the locks by device. If fewer are free, lock none of them and return None.

    If jobs kept what they had locked, two jobs with half of the devices each would wait for each other forever.
    """
    held: dict[str, int] = {}
    for device in devices:
        if len(held) < needed and (handle := try_lock(lock_file(device, environment))) is not None:
            held[device] = handle
    if len(held) == needed:
        return held
    for handle in held.values():
        os.close(handle)
    return None


async def lock_gpus(name: str, needed: int, environment: Mapping[str, str]) -> Grant:
    """Lock `needed` GPUs for the server of model `name`. Wait while other processes of this machine use them.

    Raises UserError if this process may use fewer GPUs, since a scheduler may silently grant fewer than requested.
    """
    if needed == 0:  # hide all devices, because none is locked
        log.info("%s runs on the CPU: its needs.gpus is 0", name)
        return Grant(dict.fromkeys(VARIABLES, ""), ())
    variable, devices = visible_devices(environment)
    check_gpu_count(name, needed, environment)
    last_notice = float("-inf")
    with contextlib.ExitStack() as stack:
        while (held := try_devices(devices, needed, environment)) is None:
            if last_notice == float("-inf"):  # first round: ask idle servers on these devices to shut down
                stack.enter_context(
                    hold_shared_locks(*(device_request_file(device, environment) for device in devices))
                )
            if time.monotonic() - last_notice > LOG_INTERVAL:
                log.info("%s waits for %d of %d GPUs: other processes use them", name, needed, len(devices))
                last_notice = time.monotonic()
            await asyncio.sleep(POLL_SECONDS)
    log.info("%s takes GPU %s", name, ",".join(held))
    # By default, CUDA numbers the fastest GPU first, but NVML numbers GPUs by PCI address. Make CUDA do the same.
    order = {"CUDA_DEVICE_ORDER": "PCI_BUS_ID"} if variable == VARIABLES[0] else {}
    locks = tuple(held.values())
    return Grant({variable: ",".join(held), **order, LOCKS_VARIABLE: ",".join(map(str, locks))}, locks, tuple(held))


def check_gpu_count(name: str, needed: int, environment: Mapping[str, str]) -> None:
    """Raise UserError if the server of model `name` may use fewer GPUs than the `needed` number."""
    devices = visible_devices(environment)[1] if needed else []
    if len(devices) < needed:
        raise too_few_gpus(name, needed, len(devices), environment)


def too_few_gpus(name: str, needed: int, count: int, environment: Mapping[str, str]) -> UserError:
    """Return the error for a machine or SLURM job with fewer GPUs than a registry entry needs."""
    if job := environment.get("SLURM_JOB_ID"):
        fix = "raise server_gpus in the profile, choose another partition, or lower needs.gpus"
        return UserError(
            f"models.{name}.needs.gpus",
            f"expected at most {count} (GPUs granted to SLURM job {job}), found {needed}",
            fix,
        )
    fix = (
        "lower needs.gpus, run on a machine with GPUs (check nvidia-smi), or set ROCR_VISIBLE_DEVICES=0,1 for AMD GPUs"
    )
    return UserError(
        f"models.{name}.needs.gpus", f"expected at most {count} (GPUs of this machine), found {needed}", fix
    )
