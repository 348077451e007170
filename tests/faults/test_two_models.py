"""One workstation with several GPUs: two models run on two devices at once, but never on the same device."""

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
    """Return a model's device, and the times of its server's start and last use in seconds of the day."""
    log = (folder / f"results/logs/generate_replies/mathtutorbench/{name}.log").read_text(encoding="utf-8")
    lines = [(int(h) * 3600 + int(m) * 60 + int(s), text) for h, m, s, text in LINE.findall(log)]
    device = re.search(rf"{name} takes GPU (\S+)", log)
    assert device, log
    began = next(seconds for seconds, text in lines if "takes GPU" in text)
    return device[1], began, lines[-1][0]


@pytest.mark.parametrize(("devices", "together"), [("0,1", True), ("0", False)], ids=["two devices", "one device"])
def test_two_models(devices: str, together: bool, checkouts: Callable[[], Path]) -> None:
    """Snakemake counts GPUs but does not assign them: if its count is too high, locks keep the models apart."""
    folder = checkouts()
    needs = {"gpus": 1, "cpus": 1, "mem_mb": 3000}
    models = {name: stub_of(folder, pace=1.0, needs=needs) for name in ("one", "two")}
    run_keys = {"tutors": list(models), "tasks": TASKS, "limit": 4, "max_tokens": 8}
    config = overlay(folder, {"models": models, "run": run_keys})
    done = run(folder, config, "--resources", "server_gpus=2", CUDA_VISIBLE_DEVICES=devices)
    assert done.returncode == 0, done.stdout
    (first, began_1, ended_1), (second, began_2, ended_2) = life(folder, "one"), life(folder, "two")
    overlapped = max(began_1, began_2) < min(ended_1, ended_2)
    assert overlapped == together
    assert {first, second} == set(devices.split(","))
    if not together:
        logs = (folder / "results/logs/generate_replies/mathtutorbench").glob("*.log")
        assert (
            sum("waits for 1 of 1 GPUs: other processes use them" in log.read_text(encoding="utf-8") for log in logs)
            == 1
        )
