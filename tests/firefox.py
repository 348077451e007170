"""Headless Firefox, controlled by WebDriver BiDi (W3C) over a WebSocket."""

from __future__ import annotations

import asyncio
import shutil
import socket
from pathlib import Path
from types import TracebackType
from typing import Any

import aiohttp

FIREFOX = shutil.which("firefox-esr") or shutil.which("firefox")
START_SECONDS = 60.0


def unused_port() -> int:
    """Return a port on which no program listens."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Firefox:
    """One tab of Firefox. folder: folder of its profile. faults: console errors and uncaught exceptions of the pages."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.number = folder, 0
        self.faults: list[str] = []

    async def __aenter__(self) -> Firefox:
        assert FIREFOX is not None
        port = unused_port()
        self.process = await asyncio.create_subprocess_exec(
            FIREFOX, "--headless", "--no-remote", "--profile", str(self.folder), f"--remote-debugging-port={port}",
            stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.DEVNULL,
        )  # fmt: skip
        self.http = aiohttp.ClientSession()
        deadline = asyncio.get_running_loop().time() + START_SECONDS
        while True:
            try:
                self.socket = await self.http.ws_connect(f"ws://127.0.0.1:{port}/session", max_msg_size=0)
                break
            except aiohttp.ClientError:
                assert asyncio.get_running_loop().time() < deadline, "Firefox does not accept connections"
                await asyncio.sleep(0.2)
        await self.call("session.new", capabilities={})
        await self.call("session.subscribe", events=["log.entryAdded"])
        tree = await self.call("browsingContext.getTree")
        self.tab = tree["contexts"][0]["context"]
        return self

    async def __aexit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        await self.socket.close()
        await self.http.close()
        self.process.kill()
        await self.process.wait()

    async def call(self, method: str, **params: Any) -> dict[str, Any]:
        """Send a command and return its result. Raises RuntimeError if Firefox answers with an error."""
        self.number += 1
        await self.socket.send_json({"id": self.number, "method": method, "params": params})
        while True:
            message = await self.socket.receive_json(timeout=START_SECONDS)
            if message.get("method") == "log.entryAdded" and message["params"]["level"] == "error":
                self.faults.append(message["params"]["text"])
            if message.get("id") == self.number:
                if message["type"] == "error":
                    raise RuntimeError(f"{message['error']}: {message['message']}")
                return message["result"]

    async def open(self, address: str) -> None:
        """Open an address and wait until it is loaded."""
        await self.call("browsingContext.navigate", context=self.tab, url=address, wait="complete")

    async def run(self, expression: str) -> Any:
        """Return the value of an expression: a string, number or Boolean. Raises RuntimeError if it throws."""
        answer = await self.call(
            "script.evaluate", expression=expression, target={"context": self.tab}, awaitPromise=True
        )
        if answer["type"] == "exception":
            raise RuntimeError(answer["exceptionDetails"]["text"])
        return answer["result"].get("value")
