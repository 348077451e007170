"""Take the screenshots of docs/first-run.md and README.md in Chromium (`make tour`), as PNG files with few colours.

Those of docs/first-run.md show eight pages of the demo's run with two trivial tutors added, at three widths. The demo's
results are reused; only the comparison of tutors and the report are made again. README.md's show config/released.yaml,
whose data are downloaded, or read from the folder in MAIEUTIC_DATA.
"""

from __future__ import annotations

import asyncio
import base64
import io
import json
import os
import subprocess
import tempfile
from collections.abc import Collection
from pathlib import Path
from typing import Any

from browser import Browser
from PIL import Image

ROOT = Path(__file__).parents[1]
OUT = ROOT / "docs/tour"
DEMO_RUN = {"run": {"name": "tour", "tutors": ["smollm2-135m", "reference", "always-ask"]}}
RELEASED_RUN = {"run": {"name": "released"}}
WIDTHS = {"desktop": (1280, 900), "tablet": (820, 1100), "phone": (390, 844)}
COLOURS = 192
# Address of each page, and a script to run before the screenshot.
PAGES = {
    "first-screen": ("#/", ""),
    "ranking": ("#/", "document.getElementById('board-filters').scrollIntoView()"),
    "compare": ("#/compare?first=reference&second=always-ask", ""),
    "items": ("#/items?task=mrbench/mistake_remediation&first=smollm2-135m&second=reference", "document.querySelector('section:not([hidden]) .item').click()"),
    "trust": ("#/trust", ""),
    "papers": ("#/papers", ""),
    "figures": ("#/mathtutorbench", ""),
    "task": ("#/task/mathtutorbench/problem_solving", ""),
}  # fmt: skip


# Pages of README.md
RELEASED_PAGES = {
    "released": ("#/", ""),
    "released-items": ("#/items?task=mathtutorbench/problem_solving&first=gpt3-175b-verification&second=gpt3-6b-finetuning&show=first", ""),
}  # fmt: skip


def make_page(run_file: str, changes: dict[str, Any]) -> Path:
    """Run a run file with changes, such as a separate run name, and return its page."""
    with tempfile.NamedTemporaryFile("w", suffix=".yaml", dir=ROOT) as handle:
        json.dump(changes, handle)
        handle.flush()
        line = [str(ROOT / ".venv/bin/snakemake"), "--cores", "all"]
        subprocess.run([*line, "--configfile", run_file, handle.name], cwd=ROOT, check=True)
    return ROOT / f"results/runs/{changes['run']['name']}/index.html"


def few_colours(picture: bytes) -> bytes:
    """Return a picture as a PNG file with few colours, a third as large."""
    buffer = io.BytesIO()
    with Image.open(io.BytesIO(picture)) as full:
        full.convert("RGB").quantize(COLOURS, dither=Image.Dither.NONE).save(buffer, "PNG", optimize=True)
    return buffer.getvalue()


async def take(page: Path, pages: dict[str, tuple[str, str]], widths: Collection[str]) -> None:
    """Take screenshots of a report. pages: see PAGES; widths: names in WIDTHS."""
    OUT.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        async with Browser(Path(folder)) as browser:
            for width, (across, down) in ((name, WIDTHS[name]) for name in widths):
                await browser.call(
                    "Emulation.setDeviceMetricsOverride", width=across, height=down, deviceScaleFactor=1,
                    mobile=width == "phone",
                )  # fmt: skip
                await browser.open(page)
                for name, (address, act) in pages.items():
                    await browser.run(f"location.hash = {json.dumps(address)}; 1")
                    await browser.wait(
                        "document.querySelector('section:not([hidden])').dataset.page === location.hash.split('?')[0]"
                    )
                    if name == "compare":
                        await browser.wait("document.querySelector('#versus svg.whisker') !== null")
                    if act:
                        await browser.run(f"{act}; 1")
                    await asyncio.sleep(0.4)
                    screenshot = await browser.call("Page.captureScreenshot", captureBeyondViewport=False)
                    (OUT / f"{name}-{width}.png").write_bytes(few_colours(base64.b64decode(screenshot["data"])))


if __name__ == "__main__":
    asyncio.run(take(make_page("config/config.yaml", DEMO_RUN), PAGES, WIDTHS))
    data = {"data_dir": folder} if (folder := os.environ.get("MAIEUTIC_DATA")) else {}
    asyncio.run(take(make_page("config/released.yaml", {**RELEASED_RUN, **data}), RELEASED_PAGES, ["desktop"]))
