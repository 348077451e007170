"""How much time does the driver itself cost? 2,000 requests (`--requests`) to a scripted server that takes 50 ms for each.

Prints the ratio of one request at a time (all of them x 50 ms, and a measured share of it) to the driver with its
journal on, in one run on one machine.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "workflow"))

from maieutic.config.cards import LoadedCard, read_card
from maieutic.config.models import HostedModel
from maieutic.core.records import Item
from maieutic.replies.generate import Limits, ask_tutor
from maieutic.serving.backends import JobFiles
from maieutic.serving.client import Client, Server

SECONDS, CONCURRENCY, ONE_BY_ONE = 0.050, 256, 40
HERE = Path(__file__).parent


def work(requests: int) -> list[tuple[LoadedCard, Item]]:
    """Items with prompts of the benchmark's own length, all different."""
    loaded = read_card(Path("resources/benchmarks/mathtutorbench/mistake_location.yaml"))
    return [
        (loaded, Item(id=str(n), task="mistake_location", cluster="c", vars={"question": f"Problem {n}", "student_solution": "Step 1 - 2+2 = 5"}, reference={}))
        for n in range(requests)
    ]  # fmt: skip


async def one_by_one(address: str) -> float:
    """Seconds for a request when the next waits for it."""
    client = Client(Server(base_url=address, model="m", concurrency=1))
    began = time.perf_counter()
    for number in range(ONE_BY_ONE):
        message = {"role": "system", "content": str(number)}
        await client.ask({"endpoint": "completions", "messages": [message], "stop": [], "temperature": 0})
    await client.close()
    return (time.perf_counter() - began) / ONE_BY_ONE


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--requests", type=int, default=2000)
    requests = parser.parse_args().requests
    server = subprocess.Popen(
        [sys.executable, str(HERE / "slow_server.py"), str(SECONDS)], stdout=subprocess.PIPE, text=True
    )
    assert server.stdout is not None
    address = f"http://127.0.0.1:{server.stdout.readline().strip()}/v1"
    try:
        single = asyncio.run(one_by_one(address))
        model = HostedModel(engine="hosted", base_url=address, model="m", concurrency=CONCURRENCY)
        with tempfile.TemporaryDirectory() as folder:
            paths = [Path(folder) / name for name in ("journal.jsonl", "log", "out.jsonl", "prompts.jsonl")]
            items = work(requests)
            began = time.perf_counter()
            ask_tutor("m", model, items, Limits(None, 1), JobFiles(None, *paths[:2]), *paths[2:])
            seconds = time.perf_counter() - began
            kept = paths[0].read_text(encoding="utf-8").count("\n")
    finally:
        server.kill()
    assert kept == requests
    print(
        json.dumps(
            {
                "requests": requests,
                "server_seconds_each": SECONDS,
                "driver_seconds": round(seconds, 2),
                "one_at_a_time_seconds": round(single * requests, 1),
                "times_sooner": round(single * requests / seconds, 1),
                "times_sooner_than_the_servers_time_alone": round(SECONDS * requests / seconds, 1),
            }
        )
    )


if __name__ == "__main__":
    main()
