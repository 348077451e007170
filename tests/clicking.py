"""A labelling page filled in by clicks, whatever it asks."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

from browser import Browser

READING = 0.32  # seconds: nobody reads faster, and the page is told so


async def fill_in(page: Path, folder: Path) -> tuple[Path, list[dict[str, str]]]:
    """Click the last answer to each question of each unit, and save; gives the saved file and what was clicked.

    folder: for the browser's profile and downloads.
    """
    clicked: list[dict[str, str]] = []
    async with Browser(folder) as browser:
        await browser.open(page)
        units = await browser.wait("ready && data.units.length")
        for number in range(units):
            names = await browser.run(
                "[...new Set([...document.querySelectorAll('input[type=radio]')].map((one) => one.name))]"
            )
            answers = {}
            for name in names:
                values = await browser.run(
                    f"[...document.querySelectorAll('input[type=radio][name=' + CSS.escape({json.dumps(name)}) + ']')].map((one) => one.value)"
                )
                place = f"input[name={json.dumps(name)}][value={json.dumps(values[-1])}] + span"
                await browser.click(place)
                answers[name] = values[-1]
            clicked.append(answers)
            await asyncio.sleep(READING * len(names))
            if number < units - 1:
                await browser.click("#next")
        await browser.wait("finished() === data.units.length")
        await browser.click("#export")
        annotator: Any = await browser.run("data.annotator")
        saved = await browser.downloaded(f"labels-{annotator}.json")
        kept = folder / saved.name
        kept.write_bytes(saved.read_bytes())
    return kept, clicked
