"""Tests of comparisons of two tutors: verdicts, ranks, the first screen, and the page in a real browser."""

from __future__ import annotations

import asyncio
import csv
import json
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from xml.etree import ElementTree

import pandas as pd
import pytest
from browser import Browser, missing_requirement
from conftest import ROOT, absent
from firefox import FIREFOX, Firefox
from maieutic.core.records import Difference
from maieutic.plan.plan import Plan
from maieutic.report import build_report, contrasts, overview
from maieutic.report.contrasts import Contrast, Ranks, detectable, leading_pair, ranks, verdict_of, with_first_tutor
from maieutic.report.page import HeadlineValues, write_contrasts
from scipy.stats import norm
from test_page import reported_score
from test_report import TASKS, configuration, finished


def difference(value: float | None, low: float | None, high: float | None, p: float | None, **more: Any) -> Difference:
    fields = {"benchmark": "mathtutorbench", "task": "problem_solving", "first": "a", "second": "b", "by": None}
    fields |= {"clusters": 9, **more}
    return Difference(
        metric="accuracy", criterion=None, scoring="robust", value=value, low=low, high=high, p=p, p_holm=p, n=9,
        **fields,
    )  # fmt: skip


@pytest.mark.parametrize(("why", "tested", "higher", "verdict"), [
    ("above zero and significant", difference(0.2, 0.1, 0.3, 0.01), True, "BETTER"),
    ("below zero and significant", difference(-0.2, -0.3, -0.1, 0.01), True, "WORSE"),
    ("lower is better", difference(-0.2, -0.3, -0.1, 0.01), False, "BETTER"),
    ("small but significant", difference(0.03, 0.02, 0.04, 0.01), True, "BETTER"),
    ("a p value equal to the bound", difference(0.2, 0.1, 0.3, 0.05), True, "INCONCLUSIVE"),
    ("an interval above zero, a corrected p value above the bound", difference(0.2, 0.1, 0.3, 0.4), True, "INCONCLUSIVE"),
    ("within the margin", difference(0.0, -0.05, 0.05, 1.0), True, "EQUIVALENT"),
    ("slightly outside the margin", difference(0.0, -0.05, 0.0501, 1.0), True, "INCONCLUSIVE"),
    ("no values", difference(None, None, None, None), True, "INCONCLUSIVE"),
    ("no p value", difference(0.2, 0.1, 0.3, None), True, "INCONCLUSIVE"),
    ("no difference at all on nine problems", difference(0.0, 0.0, 0.0, 1.0), True, "SAME"),
    ("no difference at all on a hundred", difference(0.0, 0.0, 0.0, 1.0, clusters=100), True, "EQUIVALENT"),
])  # fmt: skip
def test_the_word_of_a_difference_follows_its_rule(why: str, tested: Difference, higher: bool, verdict: str) -> None:
    assert verdict_of(tested, higher, 0.05) == verdict, why


def test_the_smallest_detectable_difference_is_found_in_four_of_five_repetitions() -> None:
    error = 0.04
    smallest = detectable(difference(0.1, 0.1 - norm.ppf(0.975) * error, 0.1 + norm.ppf(0.975) * error, 0.01))
    assert smallest is not None
    assert norm.sf(norm.ppf(0.975) - smallest / error) == pytest.approx(0.8)
    assert detectable(difference(0.1, None, None, 0.01)) is None
    assert detectable(difference(0.0, 0.0, 0.0, 1.0)) is None, "without variance"


def contrast(first: str, second: str, verdict: str, value: float = 0.1, **more: Any) -> Contrast:
    return Contrast(difference(value, value - 0.1, value + 0.1, 0.5, first=first, second=second, **more), verdict, 0.1)  # type: ignore[arg-type]


def test_ranks_are_ranges_where_tutors_cannot_be_told_apart() -> None:
    """a is better than c and d, and b is better than d; no other difference is significant."""
    pairwise = [
        contrast("a", "b", "INCONCLUSIVE"), contrast("a", "c", "BETTER"), contrast("d", "a", "WORSE"),
        contrast("b", "c", "EQUIVALENT"), contrast("b", "d", "BETTER"), contrast("c", "d", "INCONCLUSIVE"),
    ]  # fmt: skip
    assert ranks(pairwise) == {"a": Ranks(1, 2, 4), "b": Ranks(1, 3, 4), "c": Ranks(2, 4, 4), "d": Ranks(3, 4, 4)}
    assert leading_pair(pairwise, ["d", "c", "b", "a"]) == ("a", "b")
    assert leading_pair([], ["a", "b"]) is None


def test_a_contrast_from_the_other_side_has_every_sign_turned() -> None:
    original = contrast("a", "b", "BETTER", 0.3, first_alone_right=7, second_alone_right=2)
    mirrored = with_first_tutor(original, "b")
    assert (mirrored.verdict, mirrored.difference.value, mirrored.difference.first) == ("WORSE", -0.3, "b")
    assert (mirrored.difference.low, mirrored.difference.high) == (-0.4, pytest.approx(-0.2))
    assert (mirrored.difference.first_alone_right, mirrored.difference.second_alone_right) == (2, 7)
    assert with_first_tutor(mirrored, "a").difference == original.difference
    assert with_first_tutor(original, "a") is original
    silent = original._replace(silent=frozenset({"b"}))
    assert with_first_tutor(silent, "b").silent == {"b"}, "a tutor that answers few items stays marked"


def test_a_benchmark_has_a_value_where_no_task_lacks_one() -> None:
    """The interval averages the tasks' intervals, and is never narrower than the mean's own interval."""
    scores = [
        reported_score("a", 0.2, low=0.1, high=0.4, floor=0.0),
        reported_score("a", 0.6, low=0.5, high=0.7, floor=0.1),
    ]
    summary = overview.summary_of(scores)
    assert summary is not None
    assert tuple(summary) == (pytest.approx(0.4), pytest.approx(0.3), pytest.approx(0.55), 0.05, None)
    assert overview.summary_of([scores[0], None]) is None and overview.summary_of([]) is None
    assert overview.summary_of([scores[0], reported_score("a", None)]) is None


TUTORS = ["reference", "always-0", "hostile"]
GRADED = [task for task in TASKS if task != "pedagogy_following"]  # its headline needs a reward model


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the results folder of a run of three tutors, one of which is always right and one always wrong."""
    folder = tmp_path_factory.mktemp("three")
    finished(folder, configuration(tutors=TUTORS))
    return folder


@pytest.mark.slow
def test_the_first_screen_says_who_is_ahead_and_by_what_rule(run: Path) -> None:
    plan = Plan(configuration(tutors=TUTORS))
    all_contrasts = contrasts.tutor_contrasts(plan, run)
    claim = overview.claim_of(plan, all_contrasts)
    assert claim is not None and (claim.first, claim.second) == ("reference", "always-0")
    assert claim.tasks == len(GRADED), "hostile answers too few items of each task to be named"
    task_counts = {count.verdict: count.tasks for count in claim.counts}
    assert all(sum(here for _, here, _ in count.benchmarks) == count.tasks for count in claim.counts)
    assert (claim.others, claim.beaten) == (2, 2)
    assert task_counts["BETTER"] > 0 and sum(task_counts.values()) == len(GRADED) and "WORSE" not in task_counts
    page = (run / "report/index.html").read_text(encoding="utf-8")
    [second] = re.findall(r"<b>Human reference is ahead of (.*?)</b> on (\d+) of (\d+) tasks", page)
    assert second[1:] == (str(task_counts["BETTER"]), str(len(GRADED))) and "<b>" not in second[0]
    assert 'figure data-file="overview-mathtutorbench"' in page and "<h3>MathTutorBench <small>" in page
    table = pd.read_csv(run / "report/differences.csv")
    assert len(table) == len(all_contrasts) and set(table.verdict) <= {"BETTER", "WORSE", "EQUIVALENT", "INCONCLUSIVE"}
    assert {"detectable", "p_holm"} <= set(table.columns)
    assert table.high.max() == 1.0, "two shares differ by at most 1"


def test_differences_that_are_too_many_for_the_page_lie_beside_it(run: Path, tmp_path: Path) -> None:
    """Each tutor's file contains all its pairs, whichever tutor is first."""
    all_contrasts = contrasts.tutor_contrasts(Plan(configuration(tutors=TUTORS)), run)
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
    for kind, position in (("csv", 1), ("svg", 3), ("png", 4)):
        await browser.click(f".board-of .buttons button:nth-of-type({position})")
        observed[f"board {kind}"] = (await browser.downloaded(f"mathtutorbench-robust.{kind}")).read_bytes()
    # A name that breaks at its hyphens and a right-to-left name stay within their column.
    observed["overflow"] = await browser.run("""(() => {
      const table = document.querySelector("table.board:not([hidden])");
      const [first, second] = table.querySelectorAll("tbody th.name");
      const before = [first.firstChild.data, second.firstChild.data];
      first.firstChild.data = "Llama-3.1-Nemotron-70B-Instruct-HF-long";
      second.firstChild.data = "מורה טוב מאוד של בית ספר";
      const edge = table.tBodies[0].rows[0].cells[1].getBoundingClientRect().left - table.getBoundingClientRect().left + 8;
      const texts = [...pictureOf(table).querySelectorAll("text")].filter((one) => /Llama|Nemotron|HF|[\u05d0-\u05ea]/.test(one.textContent));
      [first.firstChild.data, second.firstChild.data] = before;
      return [texts.length, texts.filter((one) => Number(one.getAttribute("x")) + Number(one.getAttribute("textLength")) > edge).length];
    })()""")
    for direction in ("descending", "ascending"):
        await browser.click("table.board:not([hidden]) thead tr:last-child th:nth-child(2) button")
        await browser.wait(f"document.querySelector('table.board:not([hidden]) th[aria-sort={direction}]') !== null")
        observed[direction] = await browser.run(
            "[...document.querySelectorAll('table.board:not([hidden]) tbody tr')].map((row) => [row.cells[1].dataset.value, 'last' in row.cells[1].dataset])"
        )
    observed["sort"] = await browser.run(
        "[...document.querySelectorAll('table.board:not([hidden]) th[aria-sort]')].map((one) => [one.cellIndex, one.ariaSort])"
    )
    skill = "document.querySelector('#board-filters label:nth-child(3) select')"
    observed["skills"] = await browser.run(f"[...{skill}.options].map((one) => one.value)")
    await browser.page.select_option("#board-filters label:nth-child(3) select", observed["skills"][1])
    observed["columns left"] = await browser.run(
        "[...document.querySelectorAll('table.board:not([hidden]) th.skill')].map((one) => one.textContent)"
    )
    await browser.page.select_option("#board-filters label:nth-child(3) select", "")
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
        "Object.values(data.tasks).flat().flatMap((item) => item.replies).flatMap((reply) => reply.grades).filter((grade) => grade.raw).length"
    )
    await browser.run("location.hash = '#/items?task=mathtutorbench/problem_solving&first=reference'")
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
        await browser.run("location.hash = '#/compare?first=reference&second=always-0'")
        observed["sentence"] = await browser.wait("document.querySelector('#versus .told')?.textContent")
        observed["picture"] = await browser.wait(
            "document.querySelector('#versus svg.marks')?.getAttribute('aria-label')"
        )
        observed["rows"] = await browser.run("document.querySelectorAll('table.versus tbody tr').length")
        await browser.wait("document.querySelectorAll('#versus .buttons button').length === 3")
        for kind, position in (("csv", 1), ("svg", 2), ("png", 3)):
            await browser.click(f"#versus .buttons button:nth-of-type({position})")
            observed[kind] = (await browser.downloaded(f"reference-always-0-robust.{kind}")).read_bytes()
        observed["link"] = await browser.run(
            "document.querySelector('table.versus a[href*=\"show=first\"]').getAttribute('href')"
        )
        await browser.run(
            f"location.hash = {json.dumps('#/items?task=mathtutorbench/problem_solving&first=reference&second=always-0&show=first')}"
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
            "document.querySelectorAll('section:not([hidden]) .item').length === 1 && document.querySelector('section:not([hidden]) .reader').dataset.item"
        )
        await browser.run("location.hash = '#/compare?first=hostile&second=reference'")
        await browser.wait(
            "document.querySelector('#versus .told')?.textContent.includes('hostile') && document.querySelector('#versus svg.marks')"
        )
        await browser.run("location.hash = '#/compare?first=hostile&second=*'")
        observed["all"] = await browser.wait(
            "document.querySelector('#versus .told')?.textContent.includes('all others') && document.querySelectorAll('table.versus tbody tr').length"
        )
        await browser.run("location.hash = '#/'")
        await browser.click(".board-of .buttons button:nth-of-type(2)")
        observed["latex"] = (await browser.downloaded("mathtutorbench-robust.tex")).read_text()
        observed |= await read_board(browser)
        await browser.run("[...document.querySelectorAll('#board-filters select')][0].value = 'baseline'")
        await browser.run("document.querySelector('#board-filters input').click()")
        observed["rows left"] = await browser.run(
            "[...document.querySelectorAll('table.board:not([hidden]) tbody tr:not([hidden]) th.name')].map((one) => one.firstChild.textContent.trim())"
        )
        observed |= await read_items(browser)
        observed["faults"] = browser.faults
    return observed


@pytest.mark.slow
def test_two_tutors_are_compared_in_a_browser(run: Path, tmp_path: Path) -> None:
    if missing := missing_requirement():
        absent(*missing)
    observed = asyncio.run(read_comparison(run / "report/index.html", tmp_path))
    assert "Human reference is ahead of Always 0" in observed["first"]
    assert observed["sentence"].startswith("Human reference against Always 0: ahead on ")
    assert observed["picture"] == observed["sentence"]
    assert observed["rows"] == len(GRADED)
    table = list(csv.DictReader(observed["csv"].decode().splitlines()))
    assert len(table) == len(GRADED) and any("BETTER" in row["verdict"] for row in table)
    assert b"<svg" in observed["svg"] and observed["png"].startswith(b"\x89PNG")
    assert observed["link"].startswith("#/items?task=mathtutorbench%2F")
    replies, items = (int(part) for part in observed["items"].split()[0:3:2])
    assert 0 < replies == 2 * (replies // 2) < items, (
        "two replies for each item that only the reference answers correctly"
    )
    assert observed["focus"] == observed["second"] == observed["single item"]
    assert [name.split(" ✓")[0].strip() for name in observed["beside"]][:1] and len(observed["beside"]) == 2
    assert observed["all"] == 2 * len(GRADED)
    assert observed["latex"].startswith("\\begin{tabular}") and "\\toprule" in observed["latex"]
    assert "\\bottomrule" in observed["latex"]
    board = list(csv.reader(observed["board csv"].decode().splitlines()))
    texts = ElementTree.fromstring(observed["board svg"]).iter("{http://www.w3.org/2000/svg}text")
    assert {"Human reference", "Tutor"} <= {text.text for text in texts}
    assert len(board) == 4 + len(observed["ascending"])
    assert observed["board png"].startswith(b"\x89PNG") and b" style=" not in observed["board svg"]
    for direction in ("descending", "ascending"):
        groups = [2 if value == "" else int(last) for value, last in observed[direction]]
        filled = [float(value) for value, last in observed[direction] if value and not last]
        assert filled == sorted(filled, reverse=direction == "descending") and len(set(filled)) > 1
        assert groups == sorted(groups)
        assert set(groups) == {0, 1, 2}, "unreadable tutors are near the end, tutors without a value last"
    assert observed["sort"] == [[1, "ascending"]] and len(observed["skills"]) > 2
    assert observed["columns left"] == [observed["skills"][1]]
    assert observed["overflow"][0] >= 2 and observed["overflow"][1] == 0
    assert observed["no keys"] and observed["passages"] > 0 and observed["passage"]
    assert observed["faults"] == [], "the page's policy blocks none of its own parts"
    assert "Always 0" not in observed["rows left"], "the filter also hides a baseline that is a tutor of the run"


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
                await browser.wait("document.querySelector('section:not([hidden])').dataset.page === location.hash")
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
            await browser.wait("document.querySelector('section:not([hidden])').dataset.page === location.hash")
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


@pytest.mark.slow
def test_a_page_without_pairs_has_no_page_of_two_tutors_and_no_library(tmp_path: Path) -> None:
    finished(tmp_path, configuration())
    page = (tmp_path / "report/index.html").read_text(encoding="utf-8")
    assert 'id="versus"' not in page and 'id="vega"' not in page and len(page) < 2**20
    build_report(tmp_path / "report/config.yaml", tmp_path, tmp_path / "report")
    assert "is above the floor" in page and 'class="tiles"' in page


def test_a_tutor_is_beaten_only_where_a_cheaper_one_is_ahead_beyond_chance() -> None:
    plan: Any = SimpleNamespace(models={name: SimpleNamespace(label=name) for name in "abc"})
    runtime = pd.DataFrame({"benchmark": ["x"] * 3, "tutor": list("abc"), "usd": [1.0, 2.0, None]})
    values = {
        "x": {
            name: overview.Summary(value, None, None, None, None)
            for name, value in zip("abc", (0.9, 0.5, 0.2), strict=True)
        }
    }

    def contrast(first: str, second: str, verdict: Any) -> Contrast:
        pair = difference(0.2, 0.1, 0.3, 0.001, first=first, second=second, benchmark="x")
        return Contrast(pair, verdict, None)

    rows = overview.prices(
        plan, runtime, values, {("x", "t"): 50}, [contrast("b", "a", "WORSE"), contrast("a", "c", "BETTER")]
    )
    assert [(row.tutor, row.usd, row.beaten_by) for row in rows] == [("a", 2.0, []), ("b", 4.0, ["a"])], (
        "c has no price"
    )
    [cheap, dear] = overview.prices(plan, runtime, values, {("x", "t"): 50}, [contrast("a", "b", "INCONCLUSIVE")])
    assert cheap.beaten_by == dear.beaten_by == []
