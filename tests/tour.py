"""Take the screenshots of docs/tour.md (`make tour`): the demo's run with two trivial tutors added, in Chromium.

The screenshots show eight pages at three widths, as PNG files with few colours in docs/tour. The demo's results are
reused; only the comparison of tutors and the report are made again.
"""

from __future__ import annotations

import asyncio
import base64
import io
import json
import subprocess
import sys
import tempfile
from pathlib import Path

from browser import Browser
from PIL import Image

ROOT = Path(__file__).parents[1]
OUT = ROOT / "docs/tour"
NAME = "tour"
TUTORS = ["smollm2-135m", "reference", "always-ask"]
WIDTHS = {"desktop": (1280, 900), "tablet": (820, 1100), "phone": (390, 844)}
COLOURS = 192
# Address of each page, and a script to run before the screenshot.
PAGES = {
    "first-screen": ("#/", ""),
    "leaderboard": ("#/", "document.getElementById('leaderboard').scrollIntoView()"),
    "compare": ("#/compare?first=reference&second=always-ask", ""),
    "items": (
        "#/items?task=mrbench/mistake_remediation&first=smollm2-135m&second=reference",
        "document.querySelector('section:not([hidden]) .item').click()",
    ),
    "trust": ("#/trust", ""),
    "papers": ("#/papers", ""),
    "figures": ("#/mathtutorbench", ""),
    "task": ("#/task/mathtutorbench/problem_solving", ""),
}


def make_page() -> Path:
    """Build the report of the demo with more tutors under a separate run name, and return its page."""
    with tempfile.NamedTemporaryFile("w", suffix=".yaml", dir=ROOT) as handle:
        json.dump({"run": {"name": NAME, "tutors": TUTORS}}, handle)
        handle.flush()
        line = [str(Path(sys.executable).parent / "snakemake"), "--cores", "all"]
        subprocess.run([*line, "--configfile", "config/demo.yaml", handle.name], cwd=ROOT, check=True)
    return ROOT / f"results/runs/{NAME}/index.html"


def few_colours(picture: bytes) -> bytes:
    """Return a picture as a PNG file with few colours, a third as large."""
    buffer = io.BytesIO()
    with Image.open(io.BytesIO(picture)) as full:
        full.convert("RGB").quantize(COLOURS, dither=Image.Dither.NONE).save(buffer, "PNG", optimize=True)
    return buffer.getvalue()


async def take(page: Path) -> None:
    """Take all screenshots of a report."""
    OUT.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        async with Browser(Path(folder)) as browser:
            for width, (across, down) in WIDTHS.items():
                await browser.call(
                    "Emulation.setDeviceMetricsOverride", width=across, height=down, deviceScaleFactor=1,
                    mobile=width == "phone",
                )  # fmt: skip
                await browser.open(page)
                for name, (address, act) in PAGES.items():
                    await browser.run(f"location.hash = {json.dumps(address)}; 1")
                    await browser.wait(
                        "document.querySelector('section:not([hidden])').dataset.page === location.hash.split('?')[0]"
                    )
                    if name == "compare":
                        await browser.wait("document.querySelector('#versus svg.marks') !== null")
                    if act:
                        await browser.run(f"{act}; 1")
                    await asyncio.sleep(0.4)
                    screenshot = await browser.call("Page.captureScreenshot", captureBeyondViewport=False)
                    (OUT / f"{name}-{width}.png").write_bytes(few_colours(base64.b64decode(screenshot["data"])))


if __name__ == "__main__":
    asyncio.run(take(make_page()))
