"""Tests of comparisons of two tutors: verdicts, ranks, the first screen, and the page in a real browser."""

from __future__ import annotations

import asyncio
import csv
import json
import re
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pandas as pd
import pytest
from browser import Browser, missing_requirement
from conftest import ROOT, absent
from firefox import FIREFOX, Firefox
from maieutic.core.intervals import StudentT
from maieutic.core.records import Difference
from maieutic.plan.plan import Plan
from maieutic.report.contrasts import Contrast, contrast_of, verdict_of, with_first_tutor
from maieutic.report.page import HeadlineValues, write_contrasts
from maieutic.report.ranking import rank_tutors, read_rankings
from maieutic.report.tables import complete_scores
from maieutic.report.traffic_light import light_lookup
from maieutic.scores.differences import simultaneous_interval
from scipy.stats import t as student
from test_report import TASKS, configuration, finished


def difference(value: float | None, error: float | None, **more: Any) -> Difference:
    """Return a difference over a hundred problems; its centre is its value."""
    fields = {"benchmark": "mathtutorbench", "task": "problem_solving", "first": "a", "second": "b", "by": None}
    fields |= {"clusters": 100, "centre": value, "error": error, "p": None, "largest": 1.0, **more}
    return Difference(
        metric="accuracy", criterion=None, scoring="robust", value=value, low=None, high=None, n=100, **fields
    )


QUANTILE = float(student.ppf(0.975, 99))


@pytest.mark.parametrize(("why", "tested", "higher", "comparisons", "verdict"), [
    ("above zero", difference(0.2, 0.05), True, 1, "BETTER"),
    ("below zero", difference(-0.2, 0.05), True, 1, "WORSE"),
    ("lower is better", difference(-0.2, 0.05), False, 1, "BETTER"),
    ("small but beyond chance", difference(0.03, 0.005), True, 1, "BETTER"),
    ("an interval that ends at zero", difference(0.2, 0.2 / QUANTILE), True, 1, "OPEN"),
    ("one of a family of a hundred", difference(0.2, 0.07), True, 100, "OPEN"),
    ("alone in its family", difference(0.2, 0.07), True, 1, "BETTER"),
    ("within the margin", difference(0.0, 0.05 / QUANTILE), True, 1, "EQUIVALENT"),
    ("slightly outside the margin", difference(0.0, 0.0501 / QUANTILE), True, 1, "OPEN"),
    ("no values", difference(None, None), True, 1, "OPEN"),
    ("no interval, but the same grades", difference(0.0, None, same=True), True, 1, "SAME"),
    ("the same grades of few items", difference(0.0, 0.1, same=True, clusters=9), True, 1, "SAME"),
    ("the same grades of many items", difference(0.0, 0.01, same=True), True, 1, "EQUIVALENT"),
    ("fewer problems than a sign test needs", difference(0.9, 0.01, clusters=5), True, 1, "OPEN"),
    ("as many as a sign test needs", difference(0.9, 0.01, clusters=6), True, 1, "BETTER"),
])  # fmt: skip
def test_the_word_of_a_difference_follows_its_interval(
    why: str, tested: Difference, higher: bool, comparisons: int, verdict: str
) -> None:
    assert verdict_of(tested, higher, 0.05, comparisons) == verdict, why
    low, high = simultaneous_interval(tested, comparisons)
    excludes_zero = low is not None and high is not None and (low > 0 or high < 0)
    assert excludes_zero == (verdict in ("BETTER", "WORSE")), "picture and verdict are one fact"


def test_an_interval_ends_at_the_largest_possible_difference() -> None:
    assert simultaneous_interval(difference(0.9, 0.2), 1).high == 1.0
    assert simultaneous_interval(difference(0.9, 0.2, largest=None), 1).high > 1.2


def test_with_the_items_that_would_decide_four_of_five_repetitions_do() -> None:
    """The number is found from one sample; repetitions with as many items then exclude zero in 76 to 86 of 100."""
    random = np.random.default_rng(1)
    for gap, comparisons in ((0.08, 1), (0.06, 40), (0.15, 300)):

        def sample(problems: int, gap: float = gap) -> StudentT:
            differences = (random.random(problems) < 0.3 + gap).astype(float) - (random.random(problems) < 0.3)
            differences += gap - differences.mean() if problems == 150 else 0.0  # the sample that the number is from
            influence = differences - differences.mean()
            return StudentT(differences.mean(), influence, 2.0, paired=True)

        pilot_sample = sample(150)
        pilot = difference(gap, pilot_sample.error, centre=pilot_sample.centre, clusters=150)
        needed = contrast_of(pilot, True, 0.0, comparisons).decisive
        assert needed is not None and needed > 100
        problems = round(needed * pilot.clusters / pilot.n)
        decided = 0
        for _ in range(600):
            repeated = sample(problems)
            again = difference(gap, repeated.error, centre=repeated.centre, clusters=problems)
            decided += verdict_of(again, True, 0.0, comparisons) == "BETTER"
        assert 0.76 <= decided / 600 <= 0.86, (gap, comparisons, needed, decided / 600)


def contrast(first: str, second: str, verdict: str, value: float = 0.1, **more: Any) -> Contrast:
    pair = difference(value, 0.1, first=first, second=second, **more)
    return Contrast(pair, verdict, value - 0.1, value + 0.1)  # type: ignore[arg-type]


def test_a_contrast_from_the_other_side_has_every_sign_turned() -> None:
    original = contrast("a", "b", "BETTER", 0.3, first_alone_right=7, second_alone_right=2)
    mirrored = with_first_tutor(original, "b")
    assert (mirrored.verdict, mirrored.difference.value, mirrored.difference.first) == ("WORSE", -0.3, "b")
    assert (mirrored.low, mirrored.high) == (-0.4, pytest.approx(-0.2))
    assert (mirrored.difference.first_alone_right, mirrored.difference.second_alone_right) == (2, 7)
    assert with_first_tutor(mirrored, "a").difference == original.difference
    assert with_first_tutor(original, "a") is original


TUTORS = ["steady", "parrot", "hostile", "always-0"]
GRADED = [task for task in TASKS if task != "pedagogy_following"]  # its headline needs a reward model


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the results folder of a run of three tutors and a baseline. One tutor is always right."""
    folder = tmp_path_factory.mktemp("three")
    finished(folder, configuration(tutors=TUTORS))
    return folder


@pytest.mark.slow
def test_the_first_screen_says_who_is_ahead(run: Path) -> None:
    ranking = read_rankings(run / "report")["robust"]
    assert ranking.sentence.startswith("Steady comes first, ahead of all 2 other tutors; before Parrot by +1.00 [")
    assert ranking.leaders == ["steady"]
    assert {task.task for task in ranking.tasks if task.leads} == {*GRADED}
    assert len(ranking.comparisons) == 3 * len(GRADED), "the baseline is not ranked"
    page = (run / "report/index.html").read_text(encoding="utf-8")
    assert f"<b>{ranking.sentence}.</b>" in page and page.count('<table class="board') == 2
    assert all(f"{chip.text.split(':')[0]}" in page for chip in ranking.chips if "hostile" not in chip.text)
    table = pd.read_csv(run / "report/differences.csv")
    assert set(table.verdict) <= {"BETTER", "WORSE", "EQUIVALENT", "SAME", "OPEN"} and table.p_holm.notna().any()
    leading = table[table.leads & (table.scoring == "robust")]
    assert len(leading) == len(ranking.comparisons) and table.low.min() == -1.0, "two shares differ by at most 1"
    excludes = (leading.simultaneous_low > 0) | (leading.simultaneous_high < 0)
    assert (excludes == leading.verdict.isin(["BETTER", "WORSE"])).all()


def contrasts_of(plan: Plan, results: Path) -> list[Contrast]:
    return rank_tutors(plan, results, complete_scores(plan, results, None), light_lookup(plan, results)).contrasts


def test_differences_that_are_too_many_for_the_page_lie_beside_it(run: Path, tmp_path: Path) -> None:
    """Each tutor's file contains all its pairs, whichever tutor is first."""
    all_contrasts = contrasts_of(Plan(configuration(tutors=TUTORS)), run)
    values: HeadlineValues = {}
    embedded = write_contrasts(all_contrasts, values, tmp_path, 1e9)
    beside = write_contrasts(all_contrasts, values, tmp_path, 0)
    assert embedded["rows"] and "beside" not in embedded and beside["rows"] == []
    assert sorted(beside["beside"]) == sorted(TUTORS)
    for index, tutor in enumerate(beside["tutors"]):
        text = (tmp_path.parent / beside["beside"][tutor]).read_text(encoding="utf-8")
        rows = json.loads(text.removeprefix(f'contrasts("{tutor}", ').removesuffix(");\n"))
        assert rows == [row for row in embedded["rows"] if index in row[:2]] and "<" not in text


async def read_board(browser: Browser) -> dict[str, Any]:
    """Return a board's downloads, the overflow of its picture, and its cells after sorting and filtering."""
    observed: dict[str, Any] = {}
    for kind, position in (("csv", 1), ("svg", 4), ("png", 5)):
        await browser.click(f".board-of .buttons button:nth-of-type({position})")
        observed[f"board {kind}"] = (await browser.downloaded(f"ranking-robust.{kind}")).read_bytes()
    first = "table.board:not([hidden]) button.cell"
    observed["stops"] = await browser.run(
        f"[...document.querySelectorAll('{first}')].filter((one) => one.tabIndex === 0).length"
    )
    await browser.run(f"document.querySelector('{first}').focus()")
    await browser.press("ArrowRight")
    await browser.press("ArrowDown")
    observed["moved"] = await browser.run(
        "[document.activeElement.closest('tr').rowIndex, document.activeElement.parentElement.cellIndex]"
    )
    # A name that breaks at its hyphens and a right-to-left name stay within their column.
    observed["overflow"] = await browser.run("""(() => {
      const table = document.querySelector("table.board:not([hidden])");
      const [first, second] = table.querySelectorAll("tbody th.name");
      const before = [first.firstChild.data, second.firstChild.data];
      first.firstChild.data = "Llama-3.1-Nemotron-70B-Instruct-HF-long";
      second.firstChild.data = "מורה טוב מאוד של בית ספר";
      const edge = table.tBodies[0].rows[0].cells[2].getBoundingClientRect().left - table.getBoundingClientRect().left + 8;
      const texts = [...pictureOf(table).querySelectorAll("text")].filter((one) => /Llama|Nemotron|HF|[\u05d0-\u05ea]/.test(one.textContent));
      [first.firstChild.data, second.firstChild.data] = before;
      return [texts.length, texts.filter((one) => Number(one.getAttribute("x")) + Number(one.getAttribute("textLength")) > edge).length];
    })()""")
    for direction in ("descending", "ascending"):
        await browser.click("table.board:not([hidden]) thead tr:last-child th:nth-child(3) button")
        await browser.wait(f"document.querySelector('table.board:not([hidden]) th[aria-sort={direction}]') !== null")
        observed[direction] = await browser.run(
            "[...document.querySelectorAll('table.board:not([hidden]) tbody tr')].map((row) => [row.cells[2].dataset.value, 'last' in row.cells[2].dataset])"
        )
    observed["sort"] = await browser.run(
        "[...document.querySelectorAll('table.board:not([hidden]) th[aria-sort]')].map((one) => [one.cellIndex, one.ariaSort])"
    )
    skill = "document.querySelector('#board-filters label:nth-child(2) select')"
    observed["skills"] = await browser.run(f"[...{skill}.options].map((one) => one.value)")
    await browser.page.select_option("#board-filters label:nth-child(2) select", observed["skills"][1])
    observed["columns left"] = await browser.run(
        "[...new Set([...document.querySelectorAll('table.board:not([hidden]) th[data-skill]')].map((one) => one.dataset.skill))]"
    )
    await browser.page.select_option("#board-filters label:nth-child(2) select", "")
    return observed


async def read_items(browser: Browser) -> dict[str, Any]:
    """Switch letter keys off and on, and return the passages from which graders read."""
    observed: dict[str, Any] = {}
    await browser.run("location.hash = '#/items'")
    await browser.page.get_by_label("Keys").uncheck()
    await browser.run("document.activeElement.blur()")
    await browser.press("j")
    observed["no keys"] = await browser.run("document.activeElement.closest('.item') === null")
    await browser.page.get_by_label("Keys").check()
    observed["passages"] = await browser.run(
        "Object.values(data.chunks).flat(2).flatMap((item) => item.replies).flatMap((reply) => reply.grades).filter((grade) => grade.raw).length"
    )
    await browser.run("location.hash = '#/items?task=mathtutorbench/problem_solving&first=steady'")
    await browser.click("section:not([hidden]) .item")
    await browser.page.locator("section:not([hidden]) .read > summary").first.click()
    await browser.page.locator("section:not([hidden]) .grades summary").first.click()
    observed["chips"] = await browser.page.locator("section:not([hidden]) .chip").all_inner_texts()
    observed["passage"] = await browser.page.locator(
        "section:not([hidden]) .grades details[open] pre"
    ).first.inner_text()
    return observed


async def read_comparison(page: Path, folder: Path) -> dict[str, Any]:
    """Compare two tutors, follow a link to the items, save downloads, and return what a reader sees at each step."""
    observed: dict[str, Any] = {}
    async with Browser(folder) as browser:
        await browser.call("Log.enable")
        await browser.open(page)
        observed["first"] = await browser.wait("[...document.querySelectorAll('.lead')].at(-1)?.textContent")
        await browser.run("location.hash = '#/compare?first=steady&second=parrot'")
        observed["sentence"] = await browser.wait("document.querySelector('#versus .told')?.textContent")
        observed["picture"] = await browser.wait("document.querySelectorAll('table.versus svg.whisker circle').length")
        observed["rows"] = await browser.run("document.querySelectorAll('table.versus:not(.matrix) tbody tr').length")
        await browser.wait("document.querySelectorAll('#versus .buttons button').length === 3")
        for kind, position in (("csv", 1), ("svg", 2), ("png", 3)):
            await browser.click(f"#versus .buttons button:nth-of-type({position})")
            observed[kind] = (await browser.downloaded(f"steady-parrot-robust.{kind}")).read_bytes()
        observed["link"] = await browser.run(
            "document.querySelector('table.versus a[href*=\"show=first\"]').getAttribute('href')"
        )
        await browser.run(
            f"location.hash = {json.dumps('#/items?task=mathtutorbench/problem_solving&first=steady&second=parrot&show=first')}"
        )
        observed["items"] = await browser.wait(
            "document.querySelector('section:not([hidden]) .browser [role=status]')?.textContent"
        )
        await browser.press("j")
        observed["focus"] = await browser.run("document.activeElement.closest('.item').dataset.item")
        observed["second"] = await browser.run("document.querySelectorAll('.browser .item')[1].dataset.item")
        observed["beside"] = await browser.wait(
            "[...document.querySelectorAll('.reader article h4')].map((one) => one.textContent)"
        )
        observed["roles"] = await browser.run(
            "[...document.querySelectorAll('.reader .message .role')].map((one) => one.textContent)"
        )
        address = await browser.run("document.querySelector('.reader a[href*=\"item=\"]').getAttribute('href')")
        await browser.run(f"location.hash = {json.dumps(address)}")
        observed["single item"] = await browser.wait(
            "document.querySelectorAll('section:not([hidden]) .item').length > 1 && document.querySelector('section:not([hidden]) .item[aria-current]').dataset.item"
        )
        await browser.run("location.hash = '#/compare?first=hostile&second=steady'")
        await browser.wait(
            "document.querySelector('#versus .told')?.textContent.includes('hostile') && document.querySelector('#versus svg.whisker')"
        )
        await browser.run("location.hash = '#/compare?first=hostile&second=*'")
        observed["all"] = await browser.wait(
            "document.querySelector('#versus .told')?.textContent.includes('all others') && document.querySelectorAll('table.versus:not(.matrix) tbody tr').length"
        )
        await browser.run("location.hash = '#/'")
        await browser.click(".board-of .buttons button:nth-of-type(2)")
        observed["latex"] = (await browser.downloaded("ranking-robust.tex")).read_text()
        observed |= await read_board(browser)
        await browser.page.select_option("#board-filters label:nth-child(1) select", "general")
        observed["rows left"] = await browser.run(
            "[...document.querySelectorAll('table.board:not([hidden]) tbody tr:not([hidden]) th.name')].map((one) => one.firstChild.textContent.trim())"
        )
        observed |= await read_items(browser)
        observed["faults"] = browser.faults
    return observed


def check_latex(text: str) -> None:
    """Check a ranked table for LaTeX: environments are closed, and every row has as many cells as columns."""
    lines = text.strip().splitlines()
    assert lines[0] == "\\begin{table}" and lines[-1] == "\\end{table}" and "\\caption{Steady comes first" in text
    [columns] = re.findall(r"\\begin\{tabular\}\{([lr]+)\}", text)
    rows = [line.removesuffix(" \\\\") for line in lines if line.endswith(" \\\\")]
    assert text.index("toprule") < text.index("midrule") < text.index("bottomrule") and len(rows) >= 2 + len(TUTORS)
    for row in rows:
        cells = row.split(" & ")
        spanned = sum(int(span) - 1 for span in re.findall(r"multicolumn\{(\d+)\}", row))
        assert len(cells) + spanned == len(columns), row
        assert "general" not in cells[1], "the group is not glued to the name"
    assert any(row.startswith("1 & Steady & \\textbf{1.00}") for row in rows)


@pytest.mark.slow
def test_two_tutors_are_compared_in_a_browser(run: Path, tmp_path: Path) -> None:
    if missing := missing_requirement():
        absent(*missing)
    observed = asyncio.run(read_comparison(run / "report/index.html", tmp_path))
    assert observed["first"].startswith("Steady comes first, ahead of all 2 other tutors; before Parrot by +1.00 [")
    assert observed["sentence"].startswith("Steady against Parrot: ahead on ")
    assert observed["picture"] == len(GRADED), "a picture of each difference"
    assert observed["rows"] == len(GRADED)
    table = list(csv.DictReader(observed["csv"].decode().splitlines()))
    assert len(table) == len(GRADED) and any("BETTER" in row["verdict"] for row in table)
    assert b"<svg" in observed["svg"] and observed["png"].startswith(b"\x89PNG")
    assert observed["link"].startswith("#/items?task=mathtutorbench%2F")
    replies, items = (int(part) for part in observed["items"].split()[0:3:2])
    assert 0 < replies == 2 * (replies // 2) < items, "two replies for each item that only Steady answers correctly"
    assert observed["focus"] == observed["second"] == observed["single item"]
    assert [name.split(" ✓")[0].strip() for name in observed["beside"]][:1] and len(observed["beside"]) == 2
    assert observed["all"] == 3 * len(GRADED)
    check_latex(observed["latex"])
    board = list(csv.DictReader(observed["board csv"].decode().splitlines()))
    scores = pd.read_csv(run / "report/scores.csv")
    heads = scores[scores.headline & (scores.scoring == "robust") & scores.tutor.isin(TUTORS)]
    for column in ("value", "low", "high", "n"):
        exported = sorted(round(float(row[column]), 6) for row in board)
        assert exported == sorted(heads[column].round(6)), f"{column}: the numbers of scores.csv"
    assert {row["tutor"] for row in board if row["group"] == "baseline"} == {"Always 0"}
    texts = ElementTree.fromstring(observed["board svg"]).iter("{http://www.w3.org/2000/svg}text")
    assert {"Steady", "Tutor"} <= {text.text for text in texts}
    assert observed["board png"].startswith(b"\x89PNG") and b" style=" not in observed["board svg"]
    for direction in ("descending", "ascending"):
        groups = [2 if value == "" else int(last) for value, last in observed[direction]]
        filled = [float(value) for value, last in observed[direction] if value and not last]
        assert filled == sorted(filled, reverse=direction == "descending") and len(set(filled)) > 1
        assert groups == sorted(groups)
        assert set(groups) == {0, 1}, "unreadable tutors are last"
    assert observed["sort"] == [[2, "ascending"]] and len(observed["skills"]) > 2
    assert observed["columns left"] == [observed["skills"][1]]
    assert observed["stops"] == 1 and observed["moved"] == [3, 3], "one stop of the tab key, and arrows within"
    assert observed["overflow"][0] >= 2 and observed["overflow"][1] == 0
    assert observed["no keys"] and observed["passages"] > 0 and observed["passage"]
    assert observed["faults"] == [], "the page's policy blocks none of its own parts"
    assert "Steady" in observed["rows left"] and "Always 0" not in observed["rows left"], "only the chosen group"


PAGES = ["#/", "#/compare", "#/papers", "#/items", "#/about", "#/task/mathtutorbench/problem_solving"]
SERIOUS = {"serious", "critical"}


async def check_accessibility(page: Path, folder: Path, axe: str) -> dict[str, Any]:
    """Return axe-core's findings for each page and colour scheme, pages too wide for a phone, and the size of a PDF."""
    findings: dict[str, Any] = {"wide": []}
    async with Browser(folder) as browser:
        await browser.call("Page.setBypassCSP", enabled=True)  # the page's policy would block axe
        for scheme in ("light", "dark"):
            await browser.call(
                "Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}]
            )
            await browser.open(page)
            await browser.run(f"{axe};1")
            for address in PAGES:
                await browser.run(f"location.hash = {json.dumps(address)}")
                await browser.wait(
                    "document.querySelector('section:not([hidden])').dataset.page === location.hash.split('?')[0]"
                )
                await browser.run("document.querySelector('section:not([hidden]) .item')?.click()")
                faults = await browser.run(
                    "axe.run(document, {resultTypes: ['violations']}).then((found) => found.violations.map("
                    "(one) => ({id: one.id, impact: one.impact, where: one.nodes[0].html.slice(0, 200)})))"
                )
                findings[f"{address} {scheme}"] = [fault for fault in faults if fault["impact"] in SERIOUS]
        await browser.call(
            "Emulation.setDeviceMetricsOverride", width=390, height=844, deviceScaleFactor=1, mobile=True
        )
        for address in PAGES:
            await browser.run(f"location.hash = {json.dumps(address)}")
            await browser.wait(
                "document.querySelector('section:not([hidden])').dataset.page === location.hash.split('?')[0]"
            )
            if not await browser.run("document.documentElement.scrollWidth <= document.documentElement.clientWidth"):
                findings["wide"].append(address)
        pdf = await browser.call("Page.printToPDF")
        findings["printed"] = len(pdf["data"])
        findings["errors"] = browser.faults
    return findings


@pytest.mark.slow
def test_every_page_can_be_read_by_anybody_on_a_phone_and_on_paper(run: Path, tmp_path: Path) -> None:
    if missing := missing_requirement():
        absent(*missing)
    scripts = list((ROOT / ".venv/peers/lib").glob("python3*/site-packages/axe_playwright_python/axe.min.js"))
    if not scripts:
        absent("axe-core", "run envs/setup peers")
    findings = asyncio.run(
        check_accessibility(run / "report/index.html", tmp_path, scripts[0].read_text(encoding="utf-8"))
    )
    assert findings.pop("printed") > 10_000 and findings.pop("wide") == [] and findings.pop("errors") == []
    assert len(findings) == 2 * len(PAGES) and not any(findings.values()), findings


async def open_in_firefox(page: Path, folder: Path) -> list[str]:
    """Open every page of a report in Firefox, check that an error is noticed, and return the faults before it."""
    async with Firefox(folder) as browser:
        await browser.open(page.as_uri())
        for address in PAGES:
            await browser.run(f"location.hash = {json.dumps(address)}")
            await asyncio.sleep(0.2)
            current = await browser.run("document.querySelector('section:not([hidden])').dataset.page")
            assert current == address
        faults = list(browser.faults)
        await browser.run("console.error('a fault')")
        assert await browser.run("1 + 1") == 2 and browser.faults == [*faults, "a fault"]
    return faults


@pytest.mark.slow
def test_the_page_opens_in_firefox_without_errors(run: Path, tmp_path: Path) -> None:
    if FIREFOX is None:
        absent("Firefox", "install firefox-esr to run this test")
    assert asyncio.run(open_in_firefox(run / "report/index.html", tmp_path)) == []
