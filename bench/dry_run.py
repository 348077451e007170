"""CPU seconds of a dry run with 100 models in the registry and in the run, on all tasks."""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

MODELS = 100


def main() -> None:
    models = {
        f"model-{n}": {"engine": "vllm", "weights": {"repo": f"org/model-{n}", "revision": f"{n:040x}"}}
        for n in range(MODELS)
    }
    config = {"edition": "published", "data_dir": None, "models": models, "run": {"tutors": list(models)}}
    with tempfile.NamedTemporaryFile("w", suffix=".yaml") as overlay:
        json.dump(config, overlay)
        overlay.flush()
        snakemake = Path(sys.executable).parent / "snakemake"
        done = subprocess.run(
            [snakemake, "--cores", "2", "-n", "--configfile", overlay.name], capture_output=True, text=True, check=True
        )
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    total = next(line.split()[1] for line in done.stdout.splitlines() if line.startswith("total"))
    seconds = round(used.ru_utime + used.ru_stime, 2)
    print(json.dumps({"models": MODELS, "jobs": int(total), "cpu_seconds": seconds}))


if __name__ == "__main__":
    main()
