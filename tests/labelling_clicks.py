"""Fill in any labelling page by clicks."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pandas as pd
from browser import Browser, missing_requirement
from conftest import absent
from running import maieutic

PEOPLE = "people.csv"
READING = 0.32  # seconds per question, just above answer_files.MIN_SECONDS


async def fill_in(page: Path, folder: Path) -> tuple[Path, list[dict[str, str]]]:
    """Click the last answer to each question of each unit, and save. Return the saved file and the clicked answers.

    folder: folder of the browser's profile and downloads.
    """
    clicked: list[dict[str, str]] = []
    async with Browser(folder) as browser:
        await browser.open(page)
        units = await browser.wait("ready && data.units.length")
        for number in range(units):
            names = await browser.run(
                "[...new Set([...document.querySelectorAll('input[type=radio]')].map((input) => input.name))]"
            )
            answers = {}
            for name in names:
                values = await browser.run(
                    f"[...document.querySelectorAll('input[type=radio][name=' + CSS.escape({json.dumps(name)}) + ']')].map((input) => input.value)"
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
    return saved, clicked


def labelled_by_clicks(folder: Path, profile: Path, *arguments: str) -> tuple[pd.DataFrame, list[dict[str, str]]]:
    """Draw a sample of a finished run, fill it in as one annotator, and read it back as PEOPLE.

    Return the rows of PEOPLE and the clicked answers. folder: folder of the run; profile: empty folder for the browser;
    arguments: further arguments of `maieutic label`.
    """
    if missing := missing_requirement():
        absent(*missing)

    def run_command(*words: str) -> None:
        process = maieutic(folder, *words)
        assert process.returncode == 0, process.stderr

    run_command("label", "--configfile", "overlay.yaml", *arguments, "--annotators", "ann", "--out", "drawn")
    saved, clicked = asyncio.run(fill_in(folder / "drawn/page-ann.html", profile))
    run_command("read-labels", "--sample", "drawn", "--files", str(saved), "--out", PEOPLE)
    return pd.read_csv(folder / PEOPLE, dtype=str, keep_default_na=False), clicked
