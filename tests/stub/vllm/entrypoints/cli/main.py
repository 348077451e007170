"""`vllm serve` without a model: the same command, a unix socket, a worker that is spawned as vLLM spawns its own.

The worker answers one request after the other, each after `--pace` seconds, by the request alone. The server logs each
answer in the words of uvicorn, which the drills count.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import multiprocessing
import time
from concurrent.futures import ThreadPoolExecutor
from multiprocessing.connection import Connection
from pathlib import Path

from scripted_server import KeptAlive, answer


def work(requests: Connection, pace: float) -> None:
    """The worker: it takes a request, and gives the body of the response."""
    while True:
        request = json.loads(requests.recv_bytes())
        time.sleep(pace)
        requests.send_bytes(answer(request))


class Exchange(KeptAlive):
    """One kept-alive connection of a client."""

    def __init__(self, worker: Connection, turn: ThreadPoolExecutor) -> None:
        self.worker, self.turn = worker, turn

    def requested(self, line: str, body: bytes) -> None:
        asyncio.get_running_loop().create_task(self.answered(line, body))

    async def answered(self, line: str, body: bytes) -> None:
        """Answer one request; a health check at once."""
        told = b"{}"
        if body:
            told = await asyncio.get_running_loop().run_in_executor(self.turn, self.asked, body)
            print(f'INFO: - "{line}" 200 OK', flush=True)
        self.respond(told)

    def asked(self, body: bytes) -> bytes:
        """What the worker says."""
        self.worker.send_bytes(body)
        return self.worker.recv_bytes()


async def serve(socket: str, worker: Connection) -> None:
    """Serve on a unix socket, for ever. One thread speaks to the worker, so that requests are taken in turn."""
    turn = ThreadPoolExecutor(1)
    server = await asyncio.get_running_loop().create_unix_server(lambda: Exchange(worker, turn), socket, backlog=2048)
    await server.serve_forever()


def check_weights(folder: Path) -> None:
    """Weights begin with the length of their header, as safetensors do. Raises ValueError for others."""
    for path in folder.glob("*.safetensors"):
        size = int.from_bytes(path.read_bytes()[:8], "little")
        if size > path.stat().st_size:
            raise ValueError(f"{path}: a header of {size} bytes in a file of {path.stat().st_size}")


def main() -> None:
    """The command. Options that decide on a real engine's speed or memory are taken and ignored."""
    parser = argparse.ArgumentParser()
    parser.add_argument("verb", choices=["serve"])
    parser.add_argument("weights", type=Path)
    parser.add_argument("--uds", required=True)
    parser.add_argument("--pace", type=float, default=0.02)
    options, _ = parser.parse_known_args()
    check_weights(options.weights)
    spawning = multiprocessing.get_context("spawn")
    ours, theirs = spawning.Pipe()
    spawning.Process(target=work, args=(theirs, options.pace), daemon=True).start()
    asyncio.run(serve(options.uds, ours))
