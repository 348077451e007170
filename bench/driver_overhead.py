"""Measure the time of the driver itself: 2,000 requests (`--requests`) to a scripted server that takes 50 ms for each.

The driver writes its journal. Prints one line of JSON: seconds, speed-up over one request at a time, CPU and memory;
then the same for 100,000 requests (`--many`), which must not need more memory.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "workflow"))

from maieutic.config.cards import read_card
from maieutic.config.models import HostedModel
from maieutic.core.parent_process import collect_garbage_rarely
from maieutic.core.records import Item, write_records
from maieutic.replies.generate import CardItems, RequestLimits, ask_tutor
from maieutic.serving.backends import JobFiles
from maieutic.serving.client import Client, ServerSettings

SECONDS, CONCURRENCY, ONE_BY_ONE_REQUESTS = 0.050, 256, 40
HERE = Path(__file__).parent


def card_items(folder: Path, requests: int) -> CardItems:
    """Return distinct items with prompts of the benchmark's usual length, read from a file as in a run."""
    loaded = read_card(Path("resources/benchmarks/mathtutorbench/mistake_location.yaml"))
    fields = {"task": loaded.card.task, "cluster": "c", "reference": {}}
    words = {"student_solution": "Step 1 - 2+2 = 5"}
    items = (Item(id=str(n), vars={"question": f"Problem {n}", **words}, **fields) for n in range(requests))
    write_records(folder / f"{loaded.card.task}.jsonl", items)
    return CardItems([loaded], folder)


async def one_by_one(address: str) -> float:
    """Return the seconds per request if each request is sent after the answer to the previous one."""
    client = Client(ServerSettings(base_url=address, model="m", concurrency=1))
    began = time.perf_counter()
    for number in range(ONE_BY_ONE_REQUESTS):
        message = {"role": "system", "content": str(number)}
        await client.ask({"endpoint": "completions", "messages": [message], "stop": [], "temperature": 0})
    await client.close()
    return (time.perf_counter() - began) / ONE_BY_ONE_REQUESTS


def measure_driver(address: str, requests: int) -> dict[str, float]:
    """Return the driver's seconds and CPU for a number of requests with its journal, and this process's memory."""
    model = HostedModel(engine="hosted", base_url=address, model="m", concurrency=CONCURRENCY)
    with tempfile.TemporaryDirectory() as folder:
        paths = [Path(folder) / name for name in ("journal.jsonl", "log", "out.jsonl", "prompts.jsonl")]
        items = card_items(Path(folder), requests)
        before, began = time.process_time(), time.perf_counter()
        ask_tutor("m", model, items, RequestLimits(None, 1), JobFiles(None, *paths[:2]), *paths[2:])
        seconds, cpu = time.perf_counter() - began, time.process_time() - before
        answers = paths[0].read_text(encoding="utf-8").count("\n")
    assert answers == requests
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {"seconds": seconds, "cpu_ms": 1000 * cpu / requests, "mb": memory}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--requests", type=int, default=2000)
    parser.add_argument("--many", type=int, default=100_000, help="requests of the run whose memory is measured")
    parser.add_argument("--at", help=argparse.SUPPRESS)  # address of a running server: measure once, in this process
    args = parser.parse_args()
    if args.at:
        collect_garbage_rarely()  # as every command does
        print(json.dumps(measure_driver(args.at, args.requests)))
        return
    server = subprocess.Popen(
        [sys.executable, str(HERE / "slow_server.py"), str(SECONDS)], stdout=subprocess.PIPE, text=True
    )
    assert server.stdout is not None
    address = f"http://127.0.0.1:{server.stdout.readline().strip()}/v1"
    figures: dict[str, float] = {}
    try:
        single = asyncio.run(one_by_one(address))
        for number in (args.requests, args.many):
            line = [sys.executable, __file__, "--at", address, "--requests", str(number)]
            stdout = subprocess.run(line, check=True, stdout=subprocess.PIPE, text=True).stdout
            cost = json.loads(stdout.splitlines()[-1])
            row = f"{number:,} requests of 50 ms, 256 in flight"
            figures |= {
                f"{row}: seconds": round(cost["seconds"], 2),
                f"{row}: speed-up over sequential requests": round(single * number / cost["seconds"], 1),
                f"{row}: ms of CPU a request": round(cost["cpu_ms"], 2),
                f"{row}: MB": round(cost["mb"]),
            }  # fmt: skip
    finally:
        server.kill()
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
