"""GPUs for one server: those that a scheduler granted, or the first free ones of a workstation.

A lock file per device keeps two servers of one machine apart. The server's processes inherit the locks (engine.py
hands them on), so a device is free again when the kernel has ended the last of them, however it died.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import logging
import os
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from maieutic.core.errors import UserError
from maieutic.serving.handover import LOCKS
from maieutic.serving.room import marked, open_shared

log = logging.getLogger(__name__)
VARIABLES = ("CUDA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES")
FOLDER = Path("/tmp")
POLL_SECONDS = 1.0
SAY_SECONDS = 60.0
MILLI = 1000.0  # NVML counts millijoules


class Grant(NamedTuple):
    """Devices that are ours until the file descriptors are closed, here and in every process that inherited them."""

    environment: dict[str, str]
    locks: tuple[int, ...]
    devices: tuple[str, ...] = ()

    def release(self) -> None:
        """Give the devices back, as far as this process is concerned."""
        for handle in self.locks:
            os.close(handle)


def gpu_names() -> list[str]:
    """The NVIDIA GPUs of this machine in the order of their PCI addresses; none without a driver."""
    try:
        import pynvml
    except ImportError:  # an image of somebody's own making
        return []
    try:
        pynvml.nvmlInit()
        handles = [pynvml.nvmlDeviceGetHandleByIndex(index) for index in range(pynvml.nvmlDeviceGetCount())]
        return [str(pynvml.nvmlDeviceGetName(handle)) for handle in handles]
    except pynvml.NVMLError:
        return []


def joules(devices: Sequence[str]) -> float | None:
    """What some GPUs have used since their driver was loaded, in joules, as they count it themselves (NVML).

    devices: as CUDA_VISIBLE_DEVICES names them, by number or by UUID. None without devices, without a driver, and where
    a device does not count.
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
        return sum(pynvml.nvmlDeviceGetTotalEnergyConsumption(handle) for handle in handles) / MILLI
    except pynvml.NVMLError:
        return None


def candidates(environment: Mapping[str, str]) -> tuple[str, list[str]]:
    """The devices that this process may use, and the variable that names them to a server.

    A scheduler, or the user, names them in a variable; otherwise they are all of this machine's.
    """
    for variable in VARIABLES:
        if variable in environment:
            named = [device.strip() for device in environment[variable].split(",")]
            return variable, [device for device in dict.fromkeys(named) if device not in {"", "-1", "NoDevFiles"}]
    return VARIABLES[0], [str(index) for index in range(len(gpu_names()))]


def lock_file(device: str, environment: Mapping[str, str]) -> Path:
    """The lock of one device. Two allocations of a scheduler may both call their device 0 and mean different ones."""
    allocation = environment.get("SLURM_JOB_ID", "machine")
    clean = "".join(letter if letter.isalnum() else "-" for letter in f"{allocation}-{device}")
    return FOLDER / f"maieutic.gpu-{clean}.lock"


def wanted_file(device: str, environment: Mapping[str, str]) -> Path:
    """The file that those who wait for a device lock (room.py)."""
    return lock_file(device, environment).with_suffix(".wanted")


def try_lock(path: Path) -> int | None:
    """An exclusive lock on `path` as a file descriptor, or None where somebody else has it. Any user may lock it."""
    handle = open_shared(path)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(handle)
        return None
    return handle


def try_devices(devices: list[str], needed: int, environment: Mapping[str, str]) -> dict[str, int] | None:
    """`needed` devices with their locks, all or none: half of what two jobs need would block both."""
    held: dict[str, int] = {}
    for device in devices:
        if len(held) < needed and (handle := try_lock(lock_file(device, environment))) is not None:
            held[device] = handle
    if len(held) == needed:
        return held
    for handle in held.values():
        os.close(handle)
    return None


async def take_gpus(name: str, needed: int, environment: Mapping[str, str]) -> Grant:
    """`needed` GPUs for the server of model `name`, waiting while other servers of this machine use them.

    Raises UserError where there are fewer: a scheduler may cap a request without a word.
    """
    if needed == 0:  # nothing is locked, so nothing may be seen
        log.info("%s runs on the CPU: its needs.gpus is 0", name)
        return Grant(dict.fromkeys(VARIABLES, ""), ())
    variable, devices = candidates(environment)
    check_number(name, needed, environment)
    last_notice = float("-inf")
    with contextlib.ExitStack() as stack:
        while (held := try_devices(devices, needed, environment)) is None:
            if last_notice == float("-inf"):  # an idle server that holds one of them ends
                stack.enter_context(marked(*(wanted_file(device, environment) for device in devices)))
            if time.monotonic() - last_notice > SAY_SECONDS:
                log.info("%s waits for %d of %d GPUs: others use them", name, needed, len(devices))
                last_notice = time.monotonic()
            await asyncio.sleep(POLL_SECONDS)
    log.info("%s takes GPU %s", name, ",".join(held))
    # Without the order by PCI address CUDA counts the fastest first, and two counts would disagree.
    order = {"CUDA_DEVICE_ORDER": "PCI_BUS_ID"} if variable == VARIABLES[0] else {}
    locks = tuple(held.values())
    return Grant({variable: ",".join(held), **order, LOCKS: ",".join(map(str, locks))}, locks, tuple(held))


def check_number(name: str, needed: int, environment: Mapping[str, str]) -> None:
    """Raise UserError where a server may use fewer GPUs than it needs."""
    devices = candidates(environment)[1] if needed else []
    if len(devices) < needed:
        raise too_few(name, needed, len(devices), environment)


def too_few(name: str, needed: int, count: int, environment: Mapping[str, str]) -> UserError:
    """Fewer GPUs than the registry entry needs."""
    if job := environment.get("SLURM_JOB_ID"):
        mend = "raise server_gpus in the profile, choose another partition, or lower needs.gpus"
        return UserError(f"models.{name}.needs.gpus", f"{needed} needed, SLURM job {job} was granted {count}", mend)
    mend = "lower needs.gpus, run it where the GPUs are (nvidia-smi), or list AMD GPUs in ROCR_VISIBLE_DEVICES=0,1"
    return UserError(f"models.{name}.needs.gpus", f"{needed} needed, this machine offers {count}", mend)
