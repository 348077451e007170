"""CPU seconds of a dry run: 100 models (`--models`) over four benchmarks, with the demo's judge and reward model."""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

DEMO = "config/demo.yaml"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--models", type=int, default=100)
    number = parser.parse_args().models
    models = {
        f"model-{n}": {"engine": "vllm", "weights": {"repo": f"org/model-{n}", "revision": f"{n:040x}"}}
        for n in range(number)
    }
    with tempfile.NamedTemporaryFile("w", suffix=".yaml") as overlay:
        json.dump({"models": models, "run": {"tutors": list(models)}}, overlay)
        overlay.flush()
        snakemake = Path(sys.executable).parent / "snakemake"
        done = subprocess.run(
            [snakemake, "--cores", "2", "-n", "--forceall", "--configfile", DEMO, overlay.name],
            capture_output=True, text=True, check=True,
        )  # fmt: skip
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    total = next(line.split()[1] for line in done.stdout.splitlines() if line.startswith("total"))
    seconds = round(used.ru_utime + used.ru_stime, 2)
    print(json.dumps({"models": number, "jobs": int(total), "cpu_seconds": seconds}))


if __name__ == "__main__":
    main()
