"""Compute nodes without internet access: after `fetch`, a run succeeds in a network namespace with only loopback."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
import yaml
from conftest import absent
from httpserver import Folder, serving
from running import command, environment, overlay, run
from small import NAME, model_of

TASKS = ["mathtutorbench/problem_solving", "mathtutorbench/mistake_location"]
# Sets up loopback, which is down in a new namespace, prints the network interfaces, and executes the command.
LOOPBACK = """
import fcntl, os, socket, struct, sys
with socket.socket() as any_socket:
    fcntl.ioctl(any_socket, 0x8914, struct.pack("16sh14x", b"lo", 1))  # SIOCSIFFLAGS, IFF_UP
print("interfaces:", ",".join(name for _, name in socket.if_nameindex()), flush=True)
os.execvp(sys.argv[1], sys.argv[1:])
"""


def without_network(*line: str) -> list[str]:
    """Return a command line that runs a command in a network namespace with only loopback."""
    mapped = [] if os.geteuid() == 0 else ["--map-root-user"]
    return ["unshare", *mapped, "--net", "--", sys.executable, "-c", LOOPBACK, *line]


@pytest.fixture(autouse=True)
def namespaces() -> None:
    """Skip a test without the right to create a network namespace."""
    if subprocess.run(without_network("true"), capture_output=True, check=False).returncode != 0:
        absent("permission to make a network namespace", "allow user namespaces, or run as root")


def published_from(address: str, folder: Path) -> dict[str, dict[str, object]]:
    """Return the demo's data sets as published ones, with URLs at the address of a local server."""
    registry = yaml.safe_load((folder / "resources/registries/datasets.yaml").read_text(encoding="utf-8"))["datasets"]
    return {
        name: {"published": {**entry["demo"], "url": f"{address}/{entry['demo']['path']}"}}
        for name, entry in registry.items()
        if "demo" in entry
    }


def test_after_fetch_nothing_needs_a_network(checkouts: Callable[[], Path], smollm2: Path) -> None:
    folder = checkouts()
    with serving(partial(Folder, directory=folder / "resources/demo")) as address:
        config = overlay(
            folder,
            {
                "edition": "published",
                "models": {NAME: model_of(smollm2)},
                "datasets": published_from(address, folder),
                "run": {"tutors": [NAME], "tasks": TASKS, "limit": 6, "max_tokens": 16},
            },
        )
        fetched = run(folder, config, "fetch")
        assert fetched.returncode == 0, fetched.stdout
    done = subprocess.run(
        without_network(*command(config)), cwd=folder, env=environment(), text=True, capture_output=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "interfaces: lo\n" in done.stdout
    assert (folder / "results/report/index.html").exists()
    replies = (folder / f"results/replies/mathtutorbench/{NAME}.jsonl").read_text(encoding="utf-8").splitlines()
    assert len(replies) == 12 and all(json.loads(line)["error"] is None for line in replies)


def test_without_fetch_the_missing_network_is_one_clear_line(checkouts: Callable[[], Path]) -> None:
    folder = checkouts()
    gsm8k = {"published": {"path": "x.jsonl", "url": "http://data.example/x.jsonl", "sha256": "0" * 64, "records": 1}}
    config = overlay(
        folder, {"edition": "published", "datasets": {"gsm8k": gsm8k}, "run": {"tutors": ["echo"], "tasks": TASKS[:1]}}
    )
    done = subprocess.run(
        without_network(*command(config)), cwd=folder, env=environment(), text=True, capture_output=True, check=False
    )
    log = (folder / "results/logs/fetch_dataset/gsm8k.log").read_text(encoding="utf-8")
    assert done.returncode != 0
    assert "http://data.example/x.jsonl" in log and "Fix: " in log and "Traceback" not in log
