"""Measure the seconds of the demo with only the environments installed: two trainings, a judge and four benchmarks.

The demo runs in a copy of this checkout without results, and then once more. Prints one line of JSON.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from pathlib import Path

import yaml
from cheap_jobs import SNAKEMAKE, copy_checkout, cpu_seconds_of
from maieutic.core.ledger import spent_since

DEMO = "config/config.yaml"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--run", type=json.loads, default={}, help="keys of `run` to override, as JSON, for a smaller run"
    )
    keys = parser.parse_args().run
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place) / "checkout"
        copy_checkout(folder)
        config = yaml.safe_load((folder / DEMO).read_text(encoding="utf-8"))
        (folder / DEMO).write_text(yaml.safe_dump({**config, "run": {**config["run"], **keys}}), encoding="utf-8")
        began = time.perf_counter()
        cpu_seconds_of([*SNAKEMAKE, "--configfile", DEMO], folder)
        seconds = time.perf_counter() - began
        again = cpu_seconds_of([*SNAKEMAKE, "--configfile", DEMO], folder)
        requests = sum(spent.requests for spent in spent_since("", folder / "results/journal"))
        size = sum(path.stat().st_size for path in (folder / "results").rglob("*") if path.is_file())
    figures = {"the demo: seconds": round(seconds, 1), "the demo: MB of results": round(size / 1e6, 1)}
    figures |= {"the demo: requests": requests} if requests else {}
    figures["the demo again: CPU seconds"] = round(again, 2)
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
