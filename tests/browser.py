"""Headless Chromium, controlled through Playwright by clicks and keys, as a person would use it."""

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
    """Return Playwright's module from the environment of the other harnesses, or None without that environment.

    It is not in the users' environments, which contain nothing that only tests need.
    """
    search_path = list(sys.path)
    sys.path.extend(str(folder) for folder in PEERS.glob("python3*/site-packages"))
    try:
        from playwright import async_api
    except ImportError:
        return None
    finally:
        sys.path[:] = search_path
    return async_api


def missing_requirement() -> tuple[str, str] | None:
    """Return the name of a missing requirement of browser tests and its fix, or None if nothing is missing."""
    if CHROMIUM is None:
        return "Chromium", "install chromium to run this test"
    return None if playwright() else ("Playwright", "run envs/setup peers")


class Browser:
    """One browser tab. folder: folder of its profile and downloads."""

    def __init__(self, folder: Path, width: int = 1280, height: int = 900) -> None:
        self.folder, self.size = folder, {"width": width, "height": height}
        self.downloads = folder / "downloads"
        self.downloads.mkdir(parents=True, exist_ok=True)

    async def __aenter__(self) -> Browser:
        self.playwright = await playwright().async_playwright().start()
        self.context = await self.playwright.chromium.launch_persistent_context(
            self.folder / "profile", executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"],
            viewport=self.size,
        )  # fmt: skip
        self.context.set_default_timeout(1000 * PATIENCE)
        [self.page] = self.context.pages
        self.page.on("download", self.keep)
        self.faults: list[str] = []  # errors, dialogs and console errors of the page
        self.page.on("pageerror", lambda error: self.faults.append(str(error)))
        self.page.on("dialog", self.dismiss)
        self.page.on("console", lambda message: self.faults.append(message.text) if message.type == "error" else None)
        self.session = await self.context.new_cdp_session(self.page)
        return self

    async def __aexit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        await self.context.close()
        await self.playwright.stop()

    async def keep(self, download: Any) -> None:
        """Save a download under the file name that the page suggests."""
        whole = self.folder / f"{download.suggested_filename}.part"
        await download.save_as(whole)
        whole.replace(self.downloads / download.suggested_filename)

    async def dismiss(self, dialog: Any) -> None:
        """Dismiss a dialog of the page, and record it as a fault."""
        self.faults.append(dialog.message)
        await dialog.dismiss()

    async def call(self, method: str, **params: Any) -> dict[str, Any]:
        """Send a command of Chromium's DevTools protocol, for features that Playwright does not offer."""
        return await self.session.send(method, params)

    async def run(self, script: str) -> Any:
        """Return the value of a script that runs in the page."""
        return await self.page.evaluate(script)

    async def wait(self, script: str) -> Any:
        """Return the value of a script as soon as it is true. Fails after PATIENCE seconds."""
        deadline = time.monotonic() + PATIENCE
        while not (value := await self.run(script)):
            assert time.monotonic() < deadline, f"never true: {script}"
            await self.page.wait_for_timeout(30)
        return value

    async def open(self, page: Path) -> None:
        """Open an HTML file."""
        await self.page.goto(page.resolve().as_uri())

    async def click(self, selector: str) -> None:
        """Click on the first element that a selector matches."""
        await self.page.locator(selector).first.click()

    async def press(self, key: str) -> None:
        """Press a key, or several at once as in `Control+z`."""
        await self.page.keyboard.press(key)

    async def choose(self, selector: str, file: Path) -> None:
        """Choose a file in a file input."""
        await self.page.set_input_files(selector, file)

    async def picture(self, path: Path) -> None:
        """Write a screenshot."""
        await self.page.screenshot(path=path)

    async def downloaded(self, name: str) -> Path:
        """Return the path of a download as soon as it is complete. Fails after PATIENCE seconds."""
        path, deadline = self.downloads / name, time.monotonic() + PATIENCE
        while not path.exists():
            assert time.monotonic() < deadline, f"{name} was not downloaded"
            await self.page.wait_for_timeout(30)
        return path
