"""Chromium without a screen, driven as a person drives it: by clicks and keys."""

from __future__ import annotations

import asyncio
import base64
import json
import shutil
import subprocess
import time
from pathlib import Path
from types import TracebackType
from typing import Any

import aiohttp

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
PATIENCE = 30.0


class Browser:
    """One tab. folder: where its profile and its downloads lie."""

    def __init__(self, folder: Path, width: int = 1280, height: int = 900) -> None:
        self.folder, self.size, self.number = folder, (width, height), 0
        self.downloads = folder / "downloads"
        self.downloads.mkdir(parents=True, exist_ok=True)

    def start(self, profile: Path) -> None:
        """Start the browser."""
        self.process = subprocess.Popen(
            [
                str(CHROMIUM), "--headless=new", "--no-sandbox", "--disable-gpu", "--remote-debugging-port=0",
                f"--user-data-dir={profile}", f"--window-size={self.size[0]},{self.size[1]}", "about:blank",
            ],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )  # fmt: skip

    async def __aenter__(self) -> Browser:
        profile = self.folder / "profile"
        port = profile / "DevToolsActivePort"
        port.unlink(missing_ok=True)
        self.start(profile)
        until = time.monotonic() + PATIENCE
        while not (port.exists() and "\n" in port.read_text()):
            assert time.monotonic() < until, "Chromium does not start"
            await asyncio.sleep(0.05)
        address = f"http://127.0.0.1:{port.read_text().splitlines()[0]}"
        self.session = aiohttp.ClientSession()
        async with self.session.get(f"{address}/json/list") as answer:
            [tab, *_] = [one for one in await answer.json() if one["type"] == "page"]
        self.socket = await self.session.ws_connect(tab["webSocketDebuggerUrl"], max_msg_size=0)
        await self.call("Page.enable")
        await self.call("Browser.setDownloadBehavior", behavior="allow", downloadPath=str(self.downloads))
        return self

    async def __aexit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        await self.session.close()
        self.process.terminate()
        self.process.wait()

    async def call(self, method: str, **params: Any) -> dict[str, Any]:
        """One command of the protocol."""
        self.number += 1
        await self.socket.send_json({"id": self.number, "method": method, "params": params})
        while True:
            answer = json.loads((await self.socket.receive(timeout=PATIENCE)).data)
            if answer.get("id") == self.number:
                assert "error" not in answer, answer
                return answer["result"]

    async def run(self, script: str) -> Any:
        """The value of a script in the page."""
        found = await self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in found, found
        return found["result"].get("value")

    async def wait(self, script: str) -> Any:
        """What a script gives as soon as it is true."""
        until = time.monotonic() + PATIENCE
        while not (value := await self.run(script)):
            assert time.monotonic() < until, f"never true: {script}"
            await asyncio.sleep(0.03)
        return value

    async def open(self, page: Path) -> None:
        """Open a file."""
        await self.run("window.before = true")
        await self.call("Page.navigate", url=page.resolve().as_uri())
        await self.wait("!window.before && document.readyState === 'complete'")

    async def click(self, selector: str) -> None:
        """Click on an element where it is."""
        place = await self.run(
            f"(() => {{ const e = document.querySelector({json.dumps(selector)}); if (!e) return null; "
            "e.scrollIntoView({block: 'center'}); const r = e.getBoundingClientRect(); "
            "return [r.x + r.width / 2, r.y + r.height / 2]; })()"
        )
        assert place, f"no {selector}"
        for kind in ("mouseMoved", "mousePressed", "mouseReleased"):
            await self.call("Input.dispatchMouseEvent", type=kind, x=place[0], y=place[1], button="left", clickCount=1)

    async def press(self, key: str, modifiers: int = 0) -> None:
        """Press a key. modifiers: 2 for Ctrl."""
        text = {"text": key} if len(key) == 1 and not modifiers else {}
        for kind in ("keyDown", "keyUp"):
            await self.call(
                "Input.dispatchKeyEvent", type=kind, key=key, modifiers=modifiers, **(text if kind == "keyDown" else {})
            )

    async def choose(self, selector: str, file: Path) -> None:
        """Give a file to an input."""
        document = await self.call("DOM.getDocument")
        node = await self.call("DOM.querySelector", nodeId=document["root"]["nodeId"], selector=selector)
        await self.call("DOM.setFileInputFiles", nodeId=node["nodeId"], files=[str(file)])

    async def picture(self, path: Path) -> None:
        """A screenshot."""
        taken = await self.call("Page.captureScreenshot", captureBeyondViewport=False)
        path.write_bytes(base64.b64decode(taken["data"]))

    async def downloaded(self, name: str) -> Path:
        """A file that the page has given, once it is whole."""
        path, until = self.downloads / name, time.monotonic() + PATIENCE
        while not path.exists():
            assert time.monotonic() < until, f"{name} did not come"
            await asyncio.sleep(0.05)
        return path
