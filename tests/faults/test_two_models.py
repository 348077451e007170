"""One workstation with several GPUs: two models on two devices at once, never two on one."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from running import overlay, run
from small import stub_of

LINE = re.compile(r"^(\d\d):(\d\d):(\d\d) INFO (.*)$", re.MULTILINE)
TASKS = ["mathtutorbench/problem_solving"]


def life(folder: Path, name: str) -> tuple[str, int, int]:
    """A model's device, and the seconds of the day at which its server started and was last used."""
    log = (folder / f"results/logs/generate_replies/mathtutorbench/{name}.log").read_text(encoding="utf-8")
    said = [(int(h) * 3600 + int(m) * 60 + int(s), text) for h, m, s, text in LINE.findall(log)]
    device = re.search(rf"{name} takes GPU (\S+)", log)
    assert device, log
    began = next(when for when, text in said if "takes GPU" in text)
    return device[1], began, said[-1][0]


@pytest.mark.parametrize(("devices", "together"), [("0,1", True), ("0", False)], ids=["two devices", "one device"])
def test_two_models(devices: str, together: bool, checkouts: Callable[[], Path]) -> None:
    """Snakemake counts GPUs and assigns none: with a wrong count in the profile the locks still keep them apart."""
    folder = checkouts()
    needs = {"gpus": 1, "cpus": 1, "mem_mb": 3000}
    models = {name: stub_of(folder, pace=1.0, needs=needs) for name in ("one", "two")}
    run_keys = {"tutors": list(models), "tasks": TASKS, "limit": 4, "max_tokens": 8}
    config = overlay(folder, {"models": models, "run": run_keys})
    done = run(folder, config, "--resources", "server_gpus=2", CUDA_VISIBLE_DEVICES=devices)
    assert done.returncode == 0, done.stdout
    (first, began, ended), (second, began_too, ended_too) = life(folder, "one"), life(folder, "two")
    overlapped = max(began, began_too) < min(ended, ended_too)
    assert overlapped == together
    assert {first, second} == set(devices.split(","))
    if not together:
        logs = (folder / "results/logs/generate_replies/mathtutorbench").glob("*.log")
        assert (
            sum("waits for 1 of 1 GPUs: other processes use them" in log.read_text(encoding="utf-8") for log in logs)
            == 1
        )
