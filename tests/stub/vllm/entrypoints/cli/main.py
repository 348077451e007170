"""`vllm serve` without a model: the same command line, a unix socket, and a spawned worker as in vLLM.

The worker answers one request at a time, each after `--pace` seconds; an answer depends only on its request. The server
logs each answer in uvicorn's format, which the drills count.
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
    """Receive requests and send back the bodies of the responses, for ever, in the worker's process."""
    while True:
        request = json.loads(requests.recv_bytes())
        time.sleep(pace)
        requests.send_bytes(answer(request))


class Exchange(KeptAlive):
    """A client's keep-alive connection."""

    def __init__(self, worker: Connection, executor: ThreadPoolExecutor) -> None:
        self.worker, self.executor = worker, executor

    def requested(self, line: str, body: bytes) -> None:
        asyncio.get_running_loop().create_task(self.answer_request(line, body))

    async def answer_request(self, line: str, body: bytes) -> None:
        """Answer a request; a health check is answered without the worker."""
        response = b"{}"
        if body:
            response = await asyncio.get_running_loop().run_in_executor(self.executor, self.ask_worker, body)
            print(f'INFO: - "{line}" 200 OK', flush=True)
        self.respond(response)

    def ask_worker(self, body: bytes) -> bytes:
        """Return the worker's response to a request."""
        self.worker.send_bytes(body)
        return self.worker.recv_bytes()


async def serve(socket: str, worker: Connection) -> None:
    """Serve on a unix socket for ever. A single thread uses the worker, so that requests are handled in order."""
    executor = ThreadPoolExecutor(1)
    server = await asyncio.get_running_loop().create_unix_server(
        lambda: Exchange(worker, executor), socket, backlog=2048
    )
    await server.serve_forever()


def check_weights(folder: Path) -> None:
    """Raise ValueError for truncated weights. A safetensors file begins with the length of its header."""
    for path in folder.glob("*.safetensors"):
        size = int.from_bytes(path.read_bytes()[:8], "little")
        if size > path.stat().st_size:
            raise ValueError(f"{path}: a header of {size} bytes in a file of {path.stat().st_size}")


def main() -> None:
    """Run the command. Options for a real engine's speed or memory are ignored."""
    parser = argparse.ArgumentParser()
    parser.add_argument("verb", choices=["serve"])
    parser.add_argument("weights", type=Path)
    parser.add_argument("--uds", required=True)
    parser.add_argument("--pace", type=float, default=0.02)
    options, _ = parser.parse_known_args()
    check_weights(options.weights)
    context = multiprocessing.get_context("spawn")
    server_end, worker_end = context.Pipe()
    context.Process(target=work, args=(worker_end, options.pace), daemon=True).start()
    asyncio.run(serve(options.uds, server_end))
