"""Chromium without a screen, driven by Playwright as a person drives it: by clicks and keys."""

from __future__ import annotations

import shutil
import sys
import time
from pathlib import Path
from types import TracebackType
from typing import Any

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
PEERS = Path(__file__).parents[1] / ".venv/peers/lib"
PATIENCE = 30.0


def playwright() -> Any:
    """Playwright's module, of the environment of the peers: a user's own holds nothing that only a test needs.

    None where that environment is not there.
    """
    own = list(sys.path)
    sys.path.extend(str(folder) for folder in PEERS.glob("python3*/site-packages"))
    try:
        from playwright import async_api
    except ImportError:
        return None
    finally:
        sys.path[:] = own
    return async_api


def why_not() -> tuple[str, str] | None:
    """What a test of the browser lacks here, and how to get it."""
    if CHROMIUM is None:
        return "Chromium", "install chromium to run this test"
    return None if playwright() else ("Playwright", "run envs/setup peers")


class Browser:
    """One tab. folder: where its profile and its downloads lie."""

    def __init__(self, folder: Path, width: int = 1280, height: int = 900) -> None:
        self.folder, self.size = folder, {"width": width, "height": height}
        self.downloads = folder / "downloads"
        self.downloads.mkdir(parents=True, exist_ok=True)

    async def __aenter__(self) -> Browser:
        self.playwright = await playwright().async_playwright().start()
        self.context = await self.playwright.chromium.launch_persistent_context(
            self.folder / "profile",
            executable_path=CHROMIUM,
            args=["--no-sandbox", "--disable-gpu"],
            viewport=self.size,
        )
        self.context.set_default_timeout(1000 * PATIENCE)
        [self.page] = self.context.pages
        self.page.on("download", self.keep)
        self.faults: list[str] = []  # what the page's console tells
        self.page.on("pageerror", lambda error: self.faults.append(str(error)))
        self.page.on("dialog", self.dismiss)
        self.page.on("console", lambda said: self.faults.append(said.text) if said.type == "error" else None)
        self.session = await self.context.new_cdp_session(self.page)
        return self

    async def __aexit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        await self.context.close()
        await self.playwright.stop()

    async def keep(self, download: Any) -> None:
        """Keep a file that the page gives, under the name that it has there."""
        whole = self.folder / f"{download.suggested_filename}.part"
        await download.save_as(whole)
        whole.replace(self.downloads / download.suggested_filename)

    async def dismiss(self, dialog: Any) -> None:
        """What the page asks or says in a window of its own is a fault too."""
        self.faults.append(dialog.message)
        await dialog.dismiss()

    async def call(self, method: str, **params: Any) -> dict[str, Any]:
        """One command of Chromium's protocol, for what Playwright has no word for."""
        return await self.session.send(method, params)

    async def run(self, script: str) -> Any:
        """The value of a script in the page."""
        return await self.page.evaluate(script)

    async def wait(self, script: str) -> Any:
        """What a script gives as soon as it is true."""
        until = time.monotonic() + PATIENCE
        while not (value := await self.run(script)):
            assert time.monotonic() < until, f"never true: {script}"
            await self.page.wait_for_timeout(30)
        return value

    async def open(self, page: Path) -> None:
        """Open a file."""
        await self.page.goto(page.resolve().as_uri())

    async def click(self, selector: str) -> None:
        """Click on an element where it is."""
        await self.page.locator(selector).first.click()

    async def press(self, key: str) -> None:
        """Press a key, or several at once as in `Control+z`."""
        await self.page.keyboard.press(key)

    async def choose(self, selector: str, file: Path) -> None:
        """Give a file to an input."""
        await self.page.set_input_files(selector, file)

    async def picture(self, path: Path) -> None:
        """A screenshot."""
        await self.page.screenshot(path=path)

    async def downloaded(self, name: str) -> Path:
        """A file that the page has given, once it is whole."""
        path, until = self.downloads / name, time.monotonic() + PATIENCE
        while not path.exists():
            assert time.monotonic() < until, f"{name} did not come"
            await self.page.wait_for_timeout(30)
        return path
