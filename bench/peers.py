"""Compare the request phase of this workflow with that of other harnesses: 2,000 requests (`--requests`) to one server.

lm-evaluation-harness and Inspect run in a separate environment (`envs/setup peers`), each used as documented, with 256
requests in flight, against the scripted server that takes 50 ms for a request. This workflow is measured twice: its
client alone with prepared requests, like the others, and a whole job, which reads items, renders prompts, writes its
journal and writes replies. Prints one line of JSON: seconds of the request phase and of the whole process, by harness.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).parent
PEERS = HERE.parent / ".venv/peers/bin/python"
SECONDS = 0.050
CLIENT = """
import asyncio, json, sys, time
sys.path.insert(0, "workflow")
from maieutic.serving.client import Client, ServerSettings
address, number = sys.argv[1], int(sys.argv[2])
prompts = [f"Problem {n}\\nStep 1 - 2+2 = 5" for n in range(number)]
requests = [
    {"endpoint": "completions", "messages": [{"role": "user", "content": prompt}], "stop": ["\\n"], "temperature": 0, "max_tokens": 8}
    for prompt in prompts
]
async def main():
    client = Client(ServerSettings(base_url=address, model="m", concurrency=256))
    answers = await asyncio.gather(*map(client.ask, requests))
    await client.close()
    return answers
began = time.perf_counter()
answers = asyncio.run(main())
seconds = time.perf_counter() - began
assert {answer.text for answer in answers} == {"2"}
print(json.dumps({"seconds": seconds}))
"""
LM_EVAL = """
import json, sys, time
from lm_eval.api.instance import Instance
from lm_eval.models.openai_completions import LocalCompletionsAPI
address, number = sys.argv[1], int(sys.argv[2])
model = LocalCompletionsAPI(
    model="m", base_url=f"{address}/completions", num_concurrent=256, tokenizer_backend=None, tokenized_requests=False,
)
requests = [Instance("generate_until", {}, (f"Problem {n}\\nStep 1 - 2+2 = 5", {"until": ["\\n"], "max_gen_toks": 8}), 0) for n in range(number)]
began = time.perf_counter()
answers = model.generate_until(requests)
seconds = time.perf_counter() - began
assert len(answers) == number and set(answers) == {"2"}
print(json.dumps({"seconds": seconds}))
"""
INSPECT = """
import json, os, sys, time
address, number = sys.argv[1], int(sys.argv[2])
os.environ |= {"LOCAL_API_KEY": "none", "LOCAL_BASE_URL": address}
from inspect_ai import Task, eval
from inspect_ai.dataset import MemoryDataset, Sample
from inspect_ai.solver import generate
samples = [Sample(input=f"Problem {n}\\nStep 1 - 2+2 = 5", target="2") for n in range(number)]
task = Task(dataset=MemoryDataset(samples), solver=generate())
began = time.perf_counter()
[log] = eval(
    task, model="openai-api/local/m", max_connections=256, max_samples=256, display="none", score=False,
    log_dir=sys.argv[3], max_tokens=8,
)
seconds = time.perf_counter() - began
assert log.status == "success", log.error
print(json.dumps({"seconds": seconds}))
"""


def measure(line: list[str]) -> dict[str, float]:
    """Return the seconds that a harness reports for its requests, and the seconds of its process."""
    began = time.perf_counter()
    done = subprocess.run(line, cwd=HERE.parent, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr[-2000:]
    return {**json.loads(done.stdout.splitlines()[-1]), "process": time.perf_counter() - began}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--requests", type=int, default=2000)
    number = parser.parse_args().requests
    if not PEERS.exists():
        sys.exit("the other harnesses are not installed. Fix: run envs/setup peers")
    server = subprocess.Popen(
        [sys.executable, str(HERE / "slow_server.py"), str(SECONDS)], stdout=subprocess.PIPE, text=True
    )
    try:
        assert server.stdout is not None
        address = f"http://127.0.0.1:{server.stdout.readline().strip()}/v1"
        with tempfile.TemporaryDirectory() as folder:
            os.environ["HF_HOME"] = folder
            lines = {
                "this software's client alone": [sys.executable, "-c", CLIENT, address, str(number)],
                "this software, items to replies with its journal": [sys.executable, str(HERE / "driver_overhead.py"), "--at", address, "--requests", str(number)],
                "lm-evaluation-harness": [str(PEERS), "-c", LM_EVAL, address, str(number)],
                "Inspect": [str(PEERS), "-c", INSPECT, address, str(number), folder],
            }  # fmt: skip
            figures: dict[str, float] = {}
            for name, line in lines.items():
                seconds_of = measure(line)
                figures[f"{number:,} requests, {name}: seconds of requests"] = round(seconds_of["seconds"], 2)
                figures[f"{number:,} requests, {name}: seconds of the process"] = round(seconds_of["process"], 2)
    finally:
        server.kill()
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
