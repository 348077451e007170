"""Tests of the item browser in a real browser: questions about items, exports, and texts that lose no sign."""

from __future__ import annotations

import asyncio
import csv
import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from browser import Browser, missing_requirement
from conftest import absent
from maieutic.report import build_report
from test_report import configuration, finished

TUTORS = ["steady", "shaky", "parrot", "hostile"]
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if missing := missing_requirement():
        absent(*missing)
    folder = tmp_path_factory.mktemp("room")
    finished(folder, configuration(tutors=TUTORS))
    return folder / "report/index.html"


SHOWN: list[tuple[str, str, str]] = [
    ("a product", "So 3*4*5 is 60, and a_1*b_2 too.", "So 3*4*5 is 60, and a_1*b_2 too."),
    ("money", "It costs $5, not $6^2.", "It costs $5, not $6^2."),
    ("bold", "**Step 1:** add", "Step 1: add"),
    ("powers of Python", "2**3**4 = 4096", "2**3**4 = 4096"),
    ("a list", "1. add 2\n2. take 3\n- 5", "1. add 2"),
    ("a comparison at the start of a line", "> 5 and < 7", "> 5 and < 7"),
    ("markup", "<b>7</b> & <script>x</script>", "<b>7</b> & <script>x</script>"),
    ("a rule of signs", "5\n---\n7", "---"),
    ("a link", "[x](http://e.org/1+2)", "[x](http://e.org/1+2)"),
    ("code", "`a*b` is 4", "a*b is 4"),
]
FORMULAS = {
    "a fraction": (r"so \(\frac{3}{4}\)", "mfrac"), "a block": ("\\[x^2 = 9\\]", "msup"),
    "dollars with a power": ("$x^2$ is 9", "msup"), "a space in points": (r"\(3\hspace{2pt}4\)", ""),
    "an error": (r"\(\frac{3\)", ""), "a colour": (r"\(\color{#123456}7\)", ""),
}  # fmt: skip


async def shown_texts(page: Path, folder: Path, texts: list[str]) -> dict[str, Any]:
    """Return what the page shows of replies, the names of their elements, and those that lose a digit or an operator."""
    signs = "(text) => text.replace(/[^0-9+\\-*\\/=<>%]/g, '')"
    async with Browser(folder) as browser:
        await browser.open(page)
        observed = await browser.run(
            f"""(() => {{
              const signs = {signs};
              const raw = (node) => node.nodeType === 3 ? node.data : node.dataset?.raw ?? [...node.childNodes].map(raw).join("");
              const digits = (text) => text.replace(/\\D/g, "");
              return {json.dumps(texts)}.map((text) => {{
                const node = document.body.appendChild(replyText(text));
                const kept = signs(raw(node)) === signs(text) && digits(node.textContent) === digits(text);
                const found = [node.innerText, [...node.querySelectorAll("*")].map((part) => part.localName), kept];
                node.remove();
                return found;
              }});
            }})()"""
        )
        return {"texts": observed, "faults": browser.faults}


def test_products_money_and_markup_are_shown_as_written(page: Path, tmp_path: Path) -> None:
    observed = asyncio.run(shown_texts(page, tmp_path, [text for _, text, _ in SHOWN]))
    for (why, _, expected), (visible, names, kept) in zip(SHOWN, observed["texts"], strict=True):
        assert expected in visible and kept, why
        assert not {"em", "i", "a", "hr", "blockquote", "script"} & {*names}, why
    assert observed["faults"] == []


def test_formulas_are_set_unless_a_digit_would_be_lost(page: Path, tmp_path: Path) -> None:
    observed = asyncio.run(shown_texts(page, tmp_path, [text for text, _ in FORMULAS.values()]))
    for (why, (text, element)), (visible, names, kept) in zip(FORMULAS.items(), observed["texts"], strict=True):
        assert kept, why
        assert (element in names) if element else ("math" not in names and visible.strip() == text.strip()), why
    assert observed["faults"] == [], "formulas need no style that the page's policy blocks"


def test_no_digit_or_operator_of_public_replies_is_lost(page: Path, data: Path, tmp_path: Path) -> None:
    records = json.loads((data / "mrbench/MRBench_V1.json").read_text(encoding="utf-8"))
    texts = [reply["response"] for record in records for reply in record["anno_llm_responses"].values()]
    for path in sorted((data / "published_replies/mathtutorbench").glob("generations-*.json")):
        for record in json.loads(path.read_text(encoding="utf-8")):
            texts += [text for text in record.values() if isinstance(text, str)]
    observed = asyncio.run(shown_texts(page, tmp_path, list(dict.fromkeys(texts))))
    assert len(observed["texts"]) > 5000
    assert sum(not kept for _, _, kept in observed["texts"]) == 0 and observed["faults"] == []


async def questions(page: Path, folder: Path) -> dict[str, Any]:
    """Ask the questions about items, each with one choice, and save the items that are left."""
    observed: dict[str, Any] = {}
    async with Browser(folder) as browser:
        await browser.open(page)
        await browser.run("location.hash = '#/items?task=mathtutorbench/mistake_location'")
        where = "section:not([hidden]) [data-filter=Question] select"
        options = await browser.wait(
            f"[...document.querySelectorAll('{where} option')].map((one) => [one.value, one.text])"
        )
        observed["options"] = dict(options)
        await browser.page.select_option(where, "alone")
        observed["address"] = await browser.run("location.hash")
        observed["count"] = await browser.run(
            "document.querySelector('section:not([hidden]) .filters > .hint + .hint').textContent"
        )
        for kind, position in (("jsonl", 1), ("csv", 2), ("md", 3)):
            await browser.click(f"section:not([hidden]) .filters .buttons button:nth-of-type({position})")
            observed[kind] = (await browser.downloaded(f"items.{kind}")).read_text(encoding="utf-8")
        await browser.open(page)
        await browser.run(f"location.hash = {json.dumps(observed['address'])}")
        observed["again"] = await browser.wait(
            "document.querySelector('section:not([hidden]) .filters > .hint + .hint')?.textContent"
        )
        observed["fields"] = await browser.run(
            "[...document.querySelectorAll('section:not([hidden]) .reader h3')].map((one) => one.textContent)"
        )
        observed["side by side"] = await browser.run(
            "document.querySelectorAll('section:not([hidden]) .replies article').length"
        )
        observed["faults"] = browser.faults
    return observed


def test_a_question_about_items_is_one_choice_and_its_answer_an_export(page: Path, tmp_path: Path) -> None:
    observed = asyncio.run(questions(page, tmp_path))
    assert {"alone", "readings", "unread"} <= {*observed["options"]}
    number = int(observed["options"]["alone"].rpartition("(")[2].rstrip(")"))
    assert observed["count"].startswith(f"{number} of ") and "where=alone" in observed["address"]
    assert observed["again"] == observed["count"], "the address holds the question"
    records = [json.loads(line) for line in observed["jsonl"].strip().split("\n")]
    assert len({record["id"] for record in records}) == number > 0 and {"reply", "tutor", "question"} <= {*records[0]}
    assert len(list(csv.DictReader(observed["csv"].splitlines()))) > 0 and observed["md"].startswith("## ")
    assert observed["fields"][1] == "Question" and observed["side by side"] >= 3
    assert observed["faults"] == []


SHOWN_PART = "section:not([hidden])"


class Reader:
    """A reader of the page, who clicks. A choice from a list is two clicks."""

    def __init__(self, browser: Browser) -> None:
        self.browser, self.clicks = browser, 0

    async def click(self, selector: str) -> None:
        self.clicks += 1
        await self.browser.click(selector)

    async def choose(self, label: str, value: str) -> None:
        self.clicks += 2
        await self.browser.page.select_option(f"{SHOWN_PART} [data-filter={label}] select", value)

    async def texts(self, selector: str) -> list[str]:
        await self.browser.page.locator(f"{SHOWN_PART} {selector}").first.wait_for()
        return await self.browser.page.locator(f"{SHOWN_PART} {selector}").all_inner_texts()


ITEMS = 'nav a[href="#/items"]'


async def readings_that_differ(reader: Reader) -> bool:
    await reader.choose("Question", "readings")
    await reader.click(f"{SHOWN_PART} .read > summary")
    texts = await reader.texts(".grades li")
    return any("paper_compat" in text for text in texts) and any("robust" in text for text in texts)


async def one_tutor_alone(reader: Reader) -> bool:
    await reader.choose("Question", "alone")
    strip = f"{SHOWN_PART} .item[aria-current] .strip i"
    marks = await reader.browser.wait(f"[...document.querySelectorAll('{strip}')].map((cell) => cell.title)")
    baselines = await reader.browser.run("data.baselines.map((name) => data.labels[name])")
    return sum("right" in mark for mark in marks if not any(name in mark for name in baselines)) == 1


async def three_side_by_side(reader: Reader) -> bool:
    return len(await reader.texts(".replies article")) == 3


async def why_unread(reader: Reader) -> bool:
    await reader.choose("Question", "unread")
    return any("no answer (" in text for text in await reader.texts(".replies article .chip"))


async def link_opened_afresh(reader: Reader) -> bool:
    await reader.click(f"{SHOWN_PART} .reader-head .more:last-child")
    here = await reader.browser.run(f"document.querySelector('{SHOWN_PART} .reader').dataset.item")
    link = await reader.browser.run(f"document.querySelector('{SHOWN_PART} .reader a[href*=item]').href")
    await reader.browser.page.goto("about:blank")
    await reader.browser.page.goto(link)
    there = await reader.browser.wait(f"document.querySelector('{SHOWN_PART} .reader')?.dataset.item")
    return here == there and len(await reader.texts(".item")) > 1


async def filtered_items_exported(reader: Reader) -> bool:
    await reader.choose("Question", "alone")
    [number] = {text.split(" ")[0] for text in await reader.texts(".filters .count + .hint")}
    await reader.click(f"{SHOWN_PART} .filters .buttons button:nth-of-type(1)")
    lines = (await reader.browser.downloaded("items.jsonl")).read_text(encoding="utf-8").strip().split("\n")
    return len({(record["task"], record["id"]) for record in map(json.loads, lines)}) == int(number) > 0


async def starred_item(reader: Reader) -> bool:
    await reader.click(f"{SHOWN_PART} .reader-head .plain")
    await reader.choose("Question", "starred")
    return len(await reader.texts(".item")) == 1


TASKS = [readings_that_differ, one_tutor_alone, three_side_by_side, why_unread, link_opened_afresh,
         filtered_items_exported, starred_item]  # fmt: skip


async def clicks_of_tasks(page: Path, folder: Path) -> tuple[dict[str, tuple[bool, int]], list[str]]:
    """Return for each task whether it succeeded and the clicks from the first screen on, and the page's faults."""
    results = {}
    async with Browser(folder) as browser:
        for task in TASKS:
            await browser.page.goto("about:blank")
            await browser.open(page)
            reader = Reader(browser)
            await reader.click(ITEMS)
            results[task.__name__] = await task(reader), reader.clicks
        return results, browser.faults


def test_each_question_takes_at_most_four_clicks(page: Path, tmp_path: Path) -> None:
    results, faults = asyncio.run(clicks_of_tasks(page, tmp_path))
    assert [name for name, (succeeded, clicks) in results.items() if not succeeded or clicks > 4] == []
    assert faults == []


async def long_task(page: Path, folder: Path) -> dict[str, Any]:
    """Read items of a task whose texts are in two files beside the page."""
    observed: dict[str, Any] = {}
    async with Browser(folder) as browser:
        await browser.open(page)
        await browser.run("location.hash = '#/items?task=mathtutorbench/problem_solving'")
        reader = Reader(browser)
        observed["first"] = await reader.texts(".reader h3")
        observed["loaded"] = await browser.run("data.chunks['mathtutorbench/problem_solving'].filter(Boolean).length")
        last = await browser.run("data.shelves['mathtutorbench/problem_solving'].rows.at(-1).id")
        await browser.run(f"location.hash = '#/items?task=mathtutorbench/problem_solving&item={last}'")
        await browser.wait(f"document.querySelector('{SHOWN_PART} .reader').dataset.item === {json.dumps(last)}")
        observed["last"] = await reader.texts(".reader h3")
        await browser.page.locator(f"{SHOWN_PART} input[type=search]").fill("steady-word")
        observed["count"] = await browser.wait(
            f"[...document.querySelectorAll('{SHOWN_PART} .filters .hint')].map((one) => one.textContent).join('|')"
        )
        await browser.run(f"document.querySelector('{SHOWN_PART} details.heat').open = true")
        observed["drawn"] = await browser.wait(
            f"(() => {{ const canvas = document.querySelector('{SHOWN_PART} canvas');"
            " return canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data.some(Boolean); })()"
        )
        observed["faults"] = browser.faults
    return observed


def test_texts_are_loaded_in_parts_and_the_list_has_all_items(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = yaml.safe_load((page.parent / "config.yaml").read_text(encoding="utf-8"))
    config["report"]["items_mb"] = 0
    (tmp_path / "config.yaml").write_text(json.dumps(config), encoding="utf-8")
    monkeypatch.setattr("maieutic.report.browser.CHUNK", 7)
    build_report(tmp_path / "config.yaml", page.parents[1], tmp_path / "report")
    assert not (tmp_path / "report/items/.texts").exists()
    observed = asyncio.run(long_task(tmp_path / "report/index.html", tmp_path))
    assert observed["loaded"] == 1 and observed["first"] and observed["last"] and observed["drawn"]
    assert "0 of " in observed["count"] and observed["faults"] == []
