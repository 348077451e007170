"""Measure the CPU seconds and memory of a dry run of 100 and 500 models on four benchmarks.

The demo's judge and reward model are planned too. Each number of models (`--models`) is planned in a separate process.
Prints one line of JSON.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

DEMO = "config/config.yaml"


def planned(number: int) -> tuple[int, float, float]:
    """Return the jobs, CPU seconds and MB of a dry run with a number of models."""
    models = {
        f"model-{n}": {"engine": "vllm", "weights": {"repo": f"org/model-{n}", "revision": f"{n:040x}"}}
        for n in range(number)
    }
    with tempfile.NamedTemporaryFile("w", suffix=".yaml") as overlay, tempfile.TemporaryFile("w+") as output:
        json.dump({"models": models, "run": {"tutors": list(models)}}, overlay)
        overlay.flush()
        snakemake = Path(sys.executable).parent / "snakemake"
        line = [snakemake, "--cores", "2", "-n", "--forceall", "--configfile", DEMO, overlay.name]
        process = subprocess.Popen(line, stdout=output, stderr=subprocess.STDOUT)
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        output.seek(0)
        lines = output.read().splitlines()
    assert process.returncode == 0, "\n".join(lines[-20:])
    jobs = next(int(words[1]) for words in map(str.split, lines) if words[:1] == ["total"])
    return jobs, used.ru_utime + used.ru_stime, used.ru_maxrss / 1024


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", type=int, nargs="+", default=[100, 500])
    figures: dict[str, float] = {}
    planned(1)  # warm up: the first plan after a code change reads all of the code
    for number in parser.parse_args().models:
        jobs, seconds, memory = planned(number)
        figures |= {
            f"{number} models: jobs": jobs,
            f"{number} models: CPU seconds": round(seconds, 2),
            f"{number} models: ms of CPU a job": round(1000 * seconds / jobs, 2),
            f"{number} models: MB": round(memory),
        }
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
