"""Tests of GPU allocation: servers use only the GPUs that were granted, each GPU for one server at a time."""

from __future__ import annotations

import asyncio
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from maieutic.core.errors import UserError
from maieutic.serving import devices
from maieutic.serving.devices import VARIABLES, energy_joules, lock_file, lock_gpus, try_devices, visible_devices
from maieutic.serving.lease_manager import UsageMeter

HOLDER = """
import asyncio, os, sys, time
from pathlib import Path
from maieutic.serving import devices
devices.FOLDER, devices.POLL_SECONDS = Path(sys.argv[1]), 0.02
grant = asyncio.run(devices.lock_gpus("m", int(sys.argv[2]), os.environ))
print(grant.environment["CUDA_VISIBLE_DEVICES"], flush=True)
time.sleep(60)
"""


@pytest.fixture(autouse=True)
def locks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the folder of lock files that only this test uses."""
    monkeypatch.setattr(devices, "FOLDER", tmp_path)
    monkeypatch.setattr(devices, "POLL_SECONDS", 0.02)
    for variable in (*devices.VARIABLES, "SLURM_JOB_ID"):
        monkeypatch.delenv(variable, raising=False)
    return tmp_path


def holder(folder: Path, needed: int, visible: str = "0,1", **env: str) -> subprocess.Popen[str]:
    """Start another process that locks devices and keeps them."""
    return subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(folder), str(needed)],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": "workflow", "CUDA_VISIBLE_DEVICES": visible, **env},
    )


def first_line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def end(*processes: subprocess.Popen[str]) -> None:
    for process in processes:
        process.kill()
        process.communicate()


def test_all_or_none(locks: Path) -> None:
    """Two jobs that each lock half of the devices would block each other."""
    first = holder(locks, 1)
    try:
        assert first_line(first) == "0"
        assert try_devices(["0", "1"], 2, {}) is None
        assert (held := try_devices(["0", "1"], 1, {})) is not None and list(held) == ["1"], "device 1 was released"
    finally:
        end(first)


def test_a_server_keeps_its_device_after_its_driver_has_ended(locks: Path) -> None:
    grant = asyncio.run(lock_gpus("m", 1, {"CUDA_VISIBLE_DEVICES": "0"}))
    server = subprocess.Popen(["sleep", "60"], pass_fds=grant.locks)
    grant.release()
    try:
        assert try_devices(["0"], 1, {}) is None
    finally:
        server.kill()
        server.wait()
    assert try_devices(["0"], 1, {}) is not None


def test_devices_of_two_slurm_jobs_are_different_ones(locks: Path) -> None:
    """A scheduler that confines jobs to their devices numbers them from 0 in each job."""
    first = holder(locks, 1, "0", SLURM_JOB_ID="7")
    try:
        assert first_line(first) == "0"
        assert try_devices(["0"], 1, {"SLURM_JOB_ID": "7"}) is None, "two servers in one allocation"
        assert try_devices(["0"], 1, {"SLURM_JOB_ID": "8"}) is not None
    finally:
        end(first)


@pytest.mark.parametrize(("environment", "expected"), [
    ({"CUDA_VISIBLE_DEVICES": "2,3"}, ("CUDA_VISIBLE_DEVICES", ["2", "3"])),
    ({"CUDA_VISIBLE_DEVICES": " 0 , 1 ,"}, ("CUDA_VISIBLE_DEVICES", ["0", "1"])),
    ({"CUDA_VISIBLE_DEVICES": "0,0"}, ("CUDA_VISIBLE_DEVICES", ["0"])),
    ({"CUDA_VISIBLE_DEVICES": ""}, ("CUDA_VISIBLE_DEVICES", [])),
    ({"CUDA_VISIBLE_DEVICES": "1,-1,2"}, ("CUDA_VISIBLE_DEVICES", ["1"])),
    ({"CUDA_VISIBLE_DEVICES": "-1"}, ("CUDA_VISIBLE_DEVICES", [])),
    ({"CUDA_VISIBLE_DEVICES": "NoDevFiles"}, ("CUDA_VISIBLE_DEVICES", [])),
    ({"CUDA_VISIBLE_DEVICES": "GPU-6f1a,GPU-77b2"}, ("CUDA_VISIBLE_DEVICES", ["GPU-6f1a", "GPU-77b2"])),
    ({"ROCR_VISIBLE_DEVICES": "0"}, ("ROCR_VISIBLE_DEVICES", ["0"])),
])  # fmt: skip
def test_visible_devices(environment: dict[str, str], expected: tuple[str, list[str]]) -> None:
    assert visible_devices(environment) == expected


def test_without_a_variable_all_devices_of_this_machine_are_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(devices, "gpu_names", lambda: ["H100", "H100"])
    grant = asyncio.run(lock_gpus("m", 2, {}))
    variables = {"CUDA_VISIBLE_DEVICES": "0,1", "CUDA_DEVICE_ORDER": "PCI_BUS_ID"}
    assert variables.items() <= grant.environment.items()
    grant.release()


TOO_FEW = {
    "machine without GPUs": ({}, "expected at most 0 \\(GPUs of this machine\\), found 1. Fix: lower needs.gpus, run on a machine with GPUs"),
    "SLURM job without GPUs": ({"CUDA_VISIBLE_DEVICES": "", "SLURM_JOB_ID": "7"}, "expected at most 0 \\(GPUs granted to SLURM job 7\\), found 1. Fix: raise"),
}  # fmt: skip


@pytest.mark.parametrize(("environment", "expected"), TOO_FEW.values(), ids=TOO_FEW)
def test_fewer_than_needed_is_an_error_before_any_start(environment: dict[str, str], expected: str) -> None:
    with pytest.raises(UserError, match=expected):
        asyncio.run(lock_gpus("m", 1, environment))


def test_a_model_on_the_cpu_locks_and_sees_no_device(locks: Path) -> None:
    assert asyncio.run(lock_gpus("m", 0, {"CUDA_VISIBLE_DEVICES": "0"})).environment == dict.fromkeys(VARIABLES, "")
    assert list(locks.iterdir()) == []


SPAWNER = """
import multiprocessing, time
import maieutic.serving.engine
if __name__ == "__main__":
    child = multiprocessing.get_context("spawn").Process(target=time.sleep, args=(60,))
    child.start()
    print(child.pid, flush=True)
    child.join()
"""


def test_a_servers_spawned_worker_keeps_the_device(locks: Path) -> None:
    """The process that uses the GPU is a child of the server. Spawning closes all files that are not passed on."""
    (locks / "spawner.py").write_text(SPAWNER, encoding="utf-8")
    grant = asyncio.run(lock_gpus("m", 1, {"CUDA_VISIBLE_DEVICES": "0"}))
    server = subprocess.Popen(
        [sys.executable, locks / "spawner.py"], stdout=subprocess.PIPE, text=True, pass_fds=grant.locks,
        env={**os.environ, "PYTHONPATH": "workflow", **grant.environment},
    )  # fmt: skip
    grant.release()
    worker = Path(f"/proc/{first_line(server)}/fd")
    try:
        held = {str(link.resolve()) for link in worker.iterdir()}
        assert str(lock_file("0", {})) in held
    finally:
        end(server)


def test_other_users_can_lock_a_file_in_spite_of_its_creators_umask(locks: Path) -> None:
    before = os.umask(0o077)
    try:
        held = try_devices(["0"], 1, {})
    finally:
        os.umask(before)
    assert held and stat.S_IMODE(lock_file("0", {}).stat().st_mode) == 0o444


@pytest.mark.parametrize("device", ["../../etc/passwd", "GPU-1/2", "MIG-GPU-6f/1/0", "0\n"])
def test_a_device_name_cannot_leave_the_lock_folder(device: str) -> None:
    path = lock_file(device, {})
    assert path.parent == devices.FOLDER and "\n" not in path.name


def test_a_lock_file_that_is_a_link_is_refused(locks: Path) -> None:
    """Another user may put a link into the shared folder."""
    (locks / "victim").write_text("whole")
    lock_file("0", {}).symlink_to(locks / "victim")
    with pytest.raises(OSError, match="symbolic"):
        try_devices(["0"], 1, {})


class ScriptedNvml:
    """NVML of two GPUs. A test sets the energy counters."""

    NVMLError = RuntimeError

    def __init__(self) -> None:
        self.millijoules, self.fails = {"0": 5_000.0, "GPU-b": 0.0}, False

    def nvmlInit(self) -> None:
        if self.fails:
            raise self.NVMLError("no driver")

    def nvmlDeviceGetHandleByIndex(self, index: int) -> str:
        return str(index)

    def nvmlDeviceGetHandleByUUID(self, name: str) -> str:
        return name

    def nvmlDeviceGetTotalEnergyConsumption(self, handle: str) -> float:
        return self.millijoules[handle]


def test_energy_of_a_server_is_counted_by_activity(monkeypatch: pytest.MonkeyPatch) -> None:
    """Joules of start, work and idle time are counted apart; without NVML they are None."""
    nvml = ScriptedNvml()
    monkeypatch.setitem(sys.modules, "pynvml", nvml)
    assert energy_joules(()) is None and energy_joules(("0", "GPU-b")) == 5.0
    meter = UsageMeter()
    meter.watch(("0", "GPU-b"))
    for activity, joules in (("start", 100.0), ("busy", 200.0), ("idle", 20.0), ("busy", 1.5)):
        nvml.millijoules["GPU-b"] += 1000 * joules
        meter.add(activity)
    columns = meter.columns()
    assert [columns[f"{activity}_joules"] for activity in ("start", "busy", "idle")] == [100.0, 201.5, 20.0]
    nvml.fails = True
    meter.add("idle")
    assert meter.columns()["idle_joules"] is None and meter.columns()["busy_joules"] == 201.5
    assert UsageMeter().columns()["busy_joules"] is None, "a server on the CPU"
