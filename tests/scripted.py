"""Tutors and a judge on a scripted endpoint that is fast enough for the published files."""

from __future__ import annotations

import json
import subprocess
import sys
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

RUBRICS = ["mrbench_taxonomy", "kmp_similar_problems", "kmp_followup_problems", "kmp_error_reason", "tutorbench"]


@contextmanager
def endpoint() -> Iterator[str]:
    """Start the endpoint in a separate process, and yield its address."""
    command = [sys.executable, str(Path(__file__).with_name("scripted_server.py"))]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        try:
            yield f"http://127.0.0.1:{server.stdout.readline().strip()}"
        finally:
            server.kill()


def at_endpoint(address: str, data: Path, tutors: Sequence[str], **run: object) -> dict[str, object]:
    """Return a run file for hosted tutors at `address`, with a judge `scripted-judge` that the run may name."""
    common = {"engine": "hosted", "base_url": f"{address}/v1", "concurrency": 128}
    models: dict[str, object] = {name: {**common, "model": name} for name in tutors}
    models["scripted"] = {**common, "model": "scripted", "structured": True}
    models["scripted-judge"] = {"engine": "judge", "model": "scripted", "rubrics": RUBRICS, "reasons": False}
    return {"edition": "published", "data_dir": str(data), "models": models, "run": {"tutors": list(tutors), **run}}


def served(address: str) -> int:
    """Return the number of requests that the endpoint has answered."""
    with urllib.request.urlopen(f"{address}/count") as answer:
        return int(json.load(answer)["served"])
