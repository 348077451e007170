"""Tests of the report: merged scores, safe table cells, and a page that no reply can break."""

from __future__ import annotations

import asyncio
import json
import re
import shutil
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

import pandas as pd
import pytest
import yaml
from browser import Browser, missing_requirement
from conftest import absent
from maieutic.config import settings
from maieutic.config.models import BaselineModel
from maieutic.core.ledger import JobSpending, append_spending
from maieutic.core.records import Item, Prompt, Reply, Turn, read_records, write_records
from maieutic.core.visible import script_safe_json
from maieutic.launch.provenance import provenance_of_plan
from maieutic.launch.saved_runs import SaveConfig, save_config
from maieutic.plan.plan import Plan
from maieutic.plan.provenance import CodeState
from maieutic.preparation.items import MakeItems, make_items
from maieutic.replies.baselines import baseline_reply
from maieutic.replies.parsing import ParseReplies, parse_replies
from maieutic.report import build_report
from maieutic.report.exports import exported_tables
from maieutic.report.page import DATATABLES, TEXT_LIBRARIES, embedded_library
from maieutic.report.sections import Page
from maieutic.scores.differences import CompareTutors, compare_tutors
from maieutic.scores.score import ScoreReplies, score_replies
from maieutic.scores.stage import tutors_and_floors
from markupsafe import Markup
from run_configs import check_config
from running import NO_GRADERS
from shipped import shipped

HOSTILE = '</script><script>document.title="broken"</script><img src=x onerror=alert(1)> \u202eabc 1,000 {{ 7*7 }}'
CONTROLS = "\x1b[J\u2028\u2029\x00\x07\x85"  # some of these once made the report fail at the end of a paid run
TASKS = ["mistake_location", "pedagogy_following", "problem_solving", "socratic_questioning", "solution_correctness"]


# Baseline whose replies a tutor sends to every item, or to one of so many items; it does not answer the others
SCRIPTED = {"steady": ("reference", 1), "shaky": ("reference", 2), "parrot": ("echo", 1)}


def configuration(**run: object) -> settings.Config:
    config = shipped()
    config["models"]["hostile"] = {
        "engine": "hosted", "model": "m", "base_url": "http://x/v1", "label": "=<b>hostile</b>\x1b\u2028", "notice": CONTROLS, "group": f"g{CONTROLS}", "paper": {"mathtutorbench": "GPT-4o"},
    }  # fmt: skip
    for name in SCRIPTED:
        config["models"][name] = {"engine": "hosted", "model": "m", "base_url": "http://x/v1", "label": name.title()}
    config["run"] |= {"tutors": ["hostile"], "tasks": [f"mathtutorbench/{task}" for task in TASKS], **NO_GRADERS, **run}
    config["report"] = {"resamples": 100}
    return check_config(config)


def make_reply(config: settings.Config, name: str, item: Item) -> Reply:
    model = config.models[name]
    if isinstance(model, BaselineModel):
        return baseline_reply(name, model.tutor, item, 1)
    text = HOSTILE + CONTROLS
    if name in SCRIPTED:
        tutor, every = SCRIPTED[name]
        answers = sum(map(ord, item.id)) % every == 0
        text = baseline_reply(name, tutor, item, 1).text if answers else "I do not know."
    turn = Turn(
        messages=f"sha256:p{item.id}", text=text, finish="stop", prompt_tokens=3, completion_tokens=4,
        seconds=0.5,
    )  # fmt: skip
    return Reply(id=item.id, task=item.task, tutor=name, key="k", turns=[turn])


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the results folder of a finished run, one of whose tutors sends hostile replies."""
    folder = tmp_path_factory.mktemp("results")
    finished(folder, configuration())
    return folder


def finished(
    folder: Path, config: settings.Config, commit: str | None = None, tags: Mapping[str, str] | None = None
) -> None:
    """Write a finished run of MathTutorBench's tasks to `folder`, by the functions of the stages.

    Hosted tutors send hostile replies; other tutors are baselines. tags: added to each item, beside a hostile tag.
    """
    [(benchmark, loaded_cards)] = Plan(config).benchmarks.items()
    items_dir = folder / "items" / benchmark
    tasks = [loaded.card.task for loaded in loaded_cards]
    for loaded in loaded_cards:
        card = loaded.card
        dataset = config.datasets[card.dataset]
        source = Path("resources/demo") / dataset.demo.path
        items_job = MakeItems(benchmark=benchmark, task=card.task, form=dataset.format, seed=1)
        out = items_dir / f"{card.task}.jsonl"
        make_items(job=items_job, source=source, pictures=[], out=out)
        tagged = [
            item.model_copy(update={"tags": {**item.tags, "topic": f"t{CONTROLS}", **(tags or {})}})
            for item in read_records(out, Item)
        ]
        write_records(out, tagged)
    items = [item for task in tasks for item in read_records(items_dir / f"{task}.jsonl", Item)]
    for name in Plan(config).tutors:
        replies = folder / "replies" / benchmark / f"{name}.jsonl"
        write_records(replies, [make_reply(config, name, item) for item in items])
        prompt = Prompt(messages="sha256:p", content=[{"role": "user", "content": HOSTILE}])
        write_records(folder / "replies" / benchmark / "prompts" / f"{name}.jsonl", [prompt])
        grades = folder / "grades" / benchmark / "_parsers" / f"{name}.jsonl"
        parse_replies(
            job=ParseReplies(tutor=name, benchmark=benchmark, tasks=tasks), items=items_dir, replies=replies, out=grades
        )
        job = ScoreReplies(
            benchmark=benchmark, tutor=name, tasks=tasks, absent=["reward", "judge"], resamples=100,
            seed=config.run.seed,
        )  # fmt: skip
        out = folder / "scores" / benchmark / f"{name}.json"
        score_replies(job=job, items=items_dir, grades=[grades], out=out)
    compared = tutors_and_floors(Plan(config), benchmark)
    compare_tutors(
        job=CompareTutors(
            benchmark=benchmark, tutors=compared, floors=Plan(config).floor_tutors(benchmark), tasks=tasks,
            absent=["reward", "judge"], resamples=100, seed=config.run.seed,
        ),
        items=items_dir,
        grades=[folder / "grades" / benchmark / "_parsers" / f"{name}.jsonl" for name in compared],
        out=folder / "scores/differences" / f"{benchmark}.json",
    )  # fmt: skip
    save_config(
        job=SaveConfig(
            config=config.model_dump(mode="json"),
            provenance=provenance_of_plan(Plan(config), CodeState(commit=commit)).model_dump(),
        ),
        out=folder / "report/config.yaml",
        provenance=folder / "report/provenance.json",
    )
    provenance = folder / "report/provenance.json" if commit else None
    build_report(folder / "report/config.yaml", folder, folder / "report", provenance=provenance)
    assert json.loads((folder / "report/problems.json").read_text()) == [], "no part of the page failed"


def test_scores_carry_floor_ceiling_and_the_papers_value(results: Path) -> None:
    table = pd.read_csv(results / "report/scores.csv")
    pd.testing.assert_frame_equal(
        table, pd.read_parquet(results / "report/scores.parquet"), check_dtype=False, check_column_type=False
    )
    row = table[(table.tutor == "hostile") & (table.task == "problem_solving") & (table.scoring == "robust")].iloc[0]
    assert (row.floor, row.ceiling, row.value, row.readable) == (0.0, 1.0, 0.0, 1.0)
    assert table.paper.isna().all(), "a dozen demo items are not the paper's data set: test_comparison.py"
    location = table[(table.task == "mistake_location") & table.headline & (table.scoring == "paper_compat")]
    assert set(location.floor) == {0.5} and set(location.ceiling) == {1.0}
    word_counts = table[(table.metric == "words")]
    assert word_counts.floor.isna().all(), "no number of words is better than another"


def test_text_cells_cannot_run_in_a_spreadsheet(results: Path) -> None:
    assert "'=<b>hostile</b>\u241b\u21b5" in set(pd.read_csv(results / "report/scores.csv").label)


def test_every_table_of_the_page_is_a_csv_file(results: Path) -> None:
    page = (results / "report/index.html").read_text(encoding="utf-8")
    html = page.split('id="data"')[0]
    files = {f"tables/{path.name}" for path in (results / "report/tables").iterdir()}
    assert len(files) == html.count("<table") > len(TASKS)
    assert set(re.findall(r'href="(tables/[a-z0-9-]+\.csv)"', html)) == files
    board = pd.read_csv(results / "report/tables/leaderboard-ranking-robust.csv")
    scores = pd.read_csv(results / "report/scores.csv")
    heads = scores[scores.headline & (scores.scoring == "robust") & (scores.tutor == "hostile")]
    assert len(board) == len(heads) > 0 and {*board.tutor} == {*heads.label}
    for column in ("value", "low", "high", "n"):
        assert sorted(board[column].round(6)) == sorted(heads[column].round(6)), f"{column}: equal to scores.csv"
    tables = [pd.read_csv(results / "report" / name, dtype=str) for name in sorted(files)]
    texts = [text for table in tables for text in [*table.columns, *table.stack().dropna()]]
    assert any(text.startswith("'=<b>hostile</b>") for text in texts), "escaped as in the other tables"
    assert not any(text.startswith(("=", "@")) for text in texts)


def test_no_two_tables_of_the_pages_share_a_file() -> None:
    table = Markup("<h3>By tag</h3><table><thead><tr><th>a</th></tr></thead><tbody><tr><td>1</td></tr></tbody></table>")
    named: Counter[str] = Counter()
    pages = [Page("#/task/a/b", None, table + table), Page("#/task-a/b", None, table)]
    names = [exported.name for page in pages for exported in exported_tables(page, named)]
    assert names == ["task-a-b-by-tag", "task-a-b-by-tag-no-2", "task-a-b-by-tag-no-3"]


def test_no_reply_becomes_markup(results: Path) -> None:
    page = (results / "report/index.html").read_text(encoding="utf-8")
    for library in (DATATABLES.read_text(encoding="utf-8"), *map(embedded_library, TEXT_LIBRARIES)):
        assert page.count(library) == 1 and "</script" not in library and "<!--" not in library
        page = page.replace(library, "")
    assert page.count("<script") == 4 and page.count("</script") == 4, "the data, two of libraries, the page's script"
    assert "<img" not in page and "<b>hostile" not in page
    assert "onerror=alert" in page, "the page contains the reply as data"
    data = json.loads(re.search(r'id="data">(.*?)</script>', page, re.DOTALL)[1])
    replies = [
        reply for items in data["chunks"].values() for chunk in items for item in chunk for reply in item["replies"]
    ]
    assert HOSTILE + CONTROLS in {reply["text"] for reply in replies}
    assert json.loads(script_safe_json(HOSTILE)) == HOSTILE


def test_the_page_needs_nothing_from_outside(results: Path) -> None:
    page = (results / "report/index.html").read_text(encoding="utf-8")
    page = page.replace("http://www.w3.org", "").split('id="data"')[0]
    assert not re.search(r"""(?:src|href)=["']https?:|@import|url\(""", page)
    assert "default-src 'none'" in page


def test_paper_and_run_stand_side_by_side(results: Path) -> None:
    page = (results / "report/index.html").read_text(encoding="utf-8")
    assert '0.00<small class="missing">not comparable: demo data</small>' in page, "shown under the printed 0.90"
    assert "No tutor of this run is one of the paper" not in page
    assert "Qwen2.5-7B-SocraticLM" in page


@pytest.mark.slow
def test_items_that_are_too_many_for_the_page_lie_beside_it(results: Path, tmp_path: Path) -> None:
    """The page loads them from disk on demand, as text; without the files it names their place."""
    if missing := missing_requirement():
        absent(*missing)
    config = yaml.safe_load((results / "report/config.yaml").read_text(encoding="utf-8"))
    config["report"]["items_mb"] = 0
    (tmp_path / "config.yaml").write_text(json.dumps(config), encoding="utf-8")
    out = tmp_path / "a report #1"
    build_report(tmp_path / "config.yaml", results, out)
    page = (out / "index.html").read_text(encoding="utf-8")
    data = json.loads(re.search(r'id="data">(.*?)</script>', page, re.DOTALL)[1])
    assert (data["shelves"], data["chunks"], data["prompts"]) == ({}, {}, {}) and HOSTILE[:20] not in page
    assert set(data["beside"]) == {f"mathtutorbench/{task}" for task in TASKS}
    embedded = json.loads(embedded_data(results / "report/index.html"))
    files = set()
    for task, name in data["beside"].items():
        [call] = (out / name).read_text(encoding="utf-8").splitlines()
        index = json.loads(call.removeprefix(f'indexed("{task}", ').removesuffix(");"))
        assert "<" not in call and index["rows"] == embedded["shelves"][task]["rows"]
        [[file, size]] = index["files"]
        [call] = (out / file).read_text(encoding="utf-8").splitlines()
        chunk = json.loads(call.removeprefix(f'items("{task}", 0, ').removesuffix(");"))
        assert "<" not in call and [chunk["items"]] == embedded["chunks"][task] and size < len(call) < size + 99
        assert chunk["prompts"].items() <= embedded["prompts"].items()
        files |= {out / name, out / file}
    assert files == set((out / "items").iterdir())

    async def look() -> None:
        async with Browser(tmp_path) as browser:
            text = "document.querySelector('section:not([hidden]) .browser').textContent"
            await browser.open(out / "index.html")
            await browser.run("location.hash = '#/task/mathtutorbench/problem_solving'")
            await browser.wait(f"{text}.includes('48 of 48 replies')")
            await browser.click("section:not([hidden]) .item")
            await browser.wait(f"{text}.includes('What was read')")
            assert HOSTILE[:20] in await browser.run(text) and await browser.page.title() == "Maieutic report"
            await browser.run("location.hash = '#/items'")
            await browser.wait(f"/\\b(\\d+) of \\1 replies/.test({text})")  # all replies of the first task
            options = "[...document.querySelector('section:not([hidden]) .browser select').options].map((o) => o.value)"
            assert await browser.run(options) == list(data["beside"])
            shutil.rmtree(out / "items")
            await browser.page.reload()
            await browser.wait(f"{text}.includes('not in the page but in items/mathtutorbench-')")

    asyncio.run(look())
    build_report(results / "report/config.yaml", results, out)
    assert not list((out / "items").iterdir()), "a small run is a single file, and older files of items are deleted"


def embedded_data(page: Path) -> str:
    """Return the JSON data of a page."""
    return re.search(r'id="data">(.*?)</script>', page.read_text(encoding="utf-8"), re.DOTALL)[1]


def test_a_dead_tutor_is_marked_and_the_others_are_there(results: Path, tmp_path: Path) -> None:
    """The report is still written."""
    partial = tmp_path / "results"
    shutil.copytree(results, partial)
    # Snakemake deletes the replies of a failed job, but scores of an earlier run remain.
    (partial / "replies/mathtutorbench/hostile.jsonl").unlink()
    with pytest.raises(Exception, match="expected scores of every tutor, found none of hostile"):
        build_report(partial / "report/config.yaml", partial, partial / "report", missing_ok=False)
    build_report(partial / "report/config.yaml", partial, partial / "report", missing_ok=True)
    page = (partial / "report/index.html").read_text(encoding="utf-8")
    assert "Incomplete." in page and "failed: no scores" in page and "Human reference" in page


@pytest.mark.slow
def test_the_page_works_in_a_browser_on_a_phone(results: Path, tmp_path: Path) -> None:
    if missing := missing_requirement():
        absent(*missing)
    page = (results / "report/index.html").read_text(encoding="utf-8")
    assert "unsafe-inline" not in page
    inline = "<script>document.title = 'ran'</script><p onclick='1' style='color: red' id=styled>x</p>"
    (tmp_path / "index.html").write_text(page.replace("</body>", inline + "</body>"), encoding="utf-8")

    async def look() -> None:
        async with Browser(tmp_path, width=500) as browser:
            await browser.open(tmp_path / "index.html")
            visible = "[...document.querySelectorAll('section[data-page]')].filter((s) => !s.hidden).map((s) => s.dataset.page)"
            assert await browser.run(visible) == ["#/"]
            for button in ("th[aria-sort] button", '.toggle button[data-scoring="paper_compat"]'):
                await browser.run(f"document.querySelector('{button}').click()")
            boards = "[...document.querySelectorAll('table.board')].map((t) => [t.dataset.scoring, t.hidden])"
            assert await browser.run(boards) == [["robust", True], ["paper_compat", False]]
            styled = await browser.run("getComputedStyle(document.getElementById('styled')).color")
            assert styled != "rgb(255, 0, 0)", "injected styles have no effect either"
            await browser.run("location.hash = '#/task/mathtutorbench/problem_solving'")
            await browser.page.locator("section:not([hidden]) input[type=search]").fill("onerror")
            status = "document.querySelector('section:not([hidden]) [role=status]').textContent"
            await browser.wait(f"{status} == '12 of 48 replies'")  # only the hostile tutor's replies
            assert await browser.run(visible) == ["#/task/mathtutorbench/problem_solving"]
            await browser.click("section:not([hidden]) .item")
            item = await browser.wait("document.querySelector('section:not([hidden]) .reader').textContent")
            assert HOSTILE[:20] in item and "What was read" in item
            assert await browser.page.title() == "Maieutic report", "neither a reply's script nor an injected one ran"
            assert await browser.run("document.documentElement.scrollWidth <= innerWidth"), (
                "only tables scroll sideways"
            )

    asyncio.run(look())


def test_numbers_that_are_too_many_for_a_page_stand_beside_it(
    results: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A hundred tutors have thousands of numbers per task, which a browser would need seconds to show."""
    full_page = (results / "report/index.html").read_text(encoding="utf-8")
    monkeypatch.setattr("maieutic.report.page.MOST_ROWS", 1)
    build_report(results / "report/config.yaml", results, tmp_path)
    page = (tmp_path / "index.html").read_text(encoding="utf-8")
    assert page.count("numbers, which are too many for a page") == len(TASKS) and "All numbers" not in page
    assert "too many for a page" not in full_page and full_page.count("All numbers") >= len(TASKS)
    assert json.loads((tmp_path / "problems.json").read_text()) == []


def test_the_first_screen_says_what_an_endpoint_changed_in_silence(results: Path, tmp_path: Path) -> None:
    """The ledgers of the run's tutors record the changes; other ledgers are ignored."""
    copied = tmp_path / "results"
    shutil.copytree(results, copied)
    journal = copied / "journal/replies/mathtutorbench/hostile.jsonl"
    spending = JobSpending(
        time="2026-06-01T00:00:00+00:00", asker="hostile", requests=1, prompt_tokens=1, completion_tokens=1, seconds=1.0,
        retries={}, unheeded={"prompt": "a prompt of 900 words was read as 512 tokens, so it was cut: <b>raise</b> it"},
    )  # fmt: skip
    append_spending(journal, spending)
    append_spending(journal.with_name("nobody.jsonl"), spending.model_copy(update={"asker": "nobody"}))
    build_report(copied / "report/config.yaml", copied, copied / "report", missing_ok=False)
    text = (copied / "report/index.html").read_text(encoding="utf-8")
    assert text.count("a prompt of 900 words was read as 512 tokens") == 1 and "cut: <b>raise" not in text
