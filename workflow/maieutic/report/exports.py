"""Export of the finished page's tables as CSV files and of its pictures as SVG files."""

from __future__ import annotations

import re
import shutil
from collections import Counter
from collections.abc import Mapping
from io import StringIO
from pathlib import Path
from typing import NamedTuple

import pandas as pd
from lxml import html
from markupsafe import Markup

from maieutic.core.files import atomic_file, safe_cell
from maieutic.core.paths import FIGURES, TABLES
from maieutic.report.sections import Page

TABLE_FOLDER = Path(TABLES).name
FIGURE_FOLDER = Path(FIGURES).name
HEADINGS = "preceding::*[self::h2 or self::h3 or self::h4 or self::summary][1]"
NO_VALUE = "\u2013"  # the page's dash for a missing number
TASK_LINK_MARK = "\u25b8"  # symbol at the end of a link to a task's page
# Elements that a browser separates from the preceding text by a new line, a box or a gap.
SEPARATE_ELEMENTS = re.compile(r"<(?:small|br|span|button|a|b|li|p|div)\b")
# A number in the page's format, with its unit or interval. The pattern never matches a spreadsheet formula.
NUMBER = re.compile(r"[-+]?\d[\w\s.,%\[\]\u2013\u2264-]*")
LONGEST = 80  # maximum number of characters of a file name without suffix


class ExportedTable(NamedTuple):
    """A table of the page. name: file name without the suffix; title: heading on the page."""

    name: str
    title: str
    rows: pd.DataFrame


def exported_tables(page: Page, named: Counter[str]) -> list[ExportedTable]:
    """Return the tables of one page in order. Each is named after the page and the heading above the table.

    named: number of uses of each name on this and earlier pages; updated in place.
    """
    place = page.address.removeprefix("#/") or "leaderboard"
    exported: list[ExportedTable] = []
    for table in html.fragment_fromstring(str(page.html), create_parent="div").iter("table"):
        if table.get("data-shown-only") is not None:  # skip a table that is only shown: a page may have hundreds
            continue
        above = table.xpath(HEADINGS)
        heading = heading_text(above[0]) if above else page.menu or place
        ranked = "board" in table.get("class", "").split()
        if ranked:
            heading = "ranking"
        title = f"{heading}, {scoring}" if (scoring := table.get("data-scoring")) else heading
        rows = ranked_numbers(table) if ranked else table_rows(table)
        exported.append(ExportedTable(unused_name(file_slug(f"{place} {title}"), named), title, rows))
    return exported


def ranked_numbers(table: html.HtmlElement) -> pd.DataFrame:
    """Return the ranked table as numbers: one row for each tutor and task, with interval and number of items."""
    heads = table.xpath("./thead/tr[last()]/*")
    numbers = ["value", "low", "high", "n"]
    rows = []
    for row in table.xpath("./tbody/tr"):
        rank, tutor = row.xpath("string(./td[1])"), row.xpath("string(./th[1]/text()[1])")
        for head, cell in zip(heads, row, strict=True):
            if cell.get("data-n") is not None:
                measured = {name: cell.get(f"data-{name}") or None for name in numbers}
                names = {"rank": rank, "tutor": tutor.strip(), "group": row.get("data-group")}
                task = {"benchmark": head.get("data-benchmark"), "task": head.get("data-task")}
                leads = {"leads": head.get("data-leads")}
                rows.append({**names, **task, **measured, **leads})
    columns = ["rank", "tutor", "group", "benchmark", "task", "value", "low", "high", "n", "leads"]
    return pd.DataFrame(rows, columns=columns).astype(dict.fromkeys(numbers, float)).map(safe_cell)


def unused_name(name: str, named: Counter[str]) -> str:
    """Return `name`, followed by a number if it was used before. named: uses of each name; updated in place."""
    named[name] += 1
    return f"{name}-no-{named[name]}" if named[name] > 1 else name


def heading_text(element: html.HtmlElement) -> str:
    """Return the text of a heading, leaving out its <small> elements."""
    parts = [
        element.text or "",
        *(f"{'' if child.tag == 'small' else child.text_content()}{child.tail or ''}" for child in element),
    ]
    return " ".join(" ".join(parts).split())


def file_slug(text: str) -> str:
    """Convert a text to a file name without suffix."""
    return re.sub(r"[^a-z0-9]+", "-", text.lower())[:LONGEST].strip("-")


def table_rows(table: html.HtmlElement) -> pd.DataFrame:
    """Return a table's cells as the page shows them. Columns of numbers become numeric, dashes become empty cells."""
    for small in table.iter("small"):
        if small.get("class") == "ci" and small.text:
            small.text = f"[{small.text}]"
        elif small.get("class") == "whose":  # repeats the names of row and column
            small.text = ""
    text = SEPARATE_ELEMENTS.sub(r" \g<0>", html.tostring(table, encoding="unicode")).replace(TASK_LINK_MARK, "")
    [frame] = pd.read_html(
        StringIO(text), flavor="lxml", na_values=[NO_VALUE], keep_default_na=False, displayed_only=False
    )
    if isinstance(frame.columns, pd.MultiIndex):
        frame.columns = [
            " / ".join(dict.fromkeys(level for level in levels if not str(level).startswith("Unnamed: ")))
            for levels in frame.columns
        ]
    frame.columns = ["" if str(name).startswith("Unnamed: ") else safe_cell(name) for name in frame.columns]
    return frame.map(lambda cell: cell if isinstance(cell, str) and NUMBER.fullmatch(cell) else safe_cell(cell))


def with_links(page: Page, tables: list[ExportedTable]) -> Page:
    """Return the page with a line at its end that links to the CSV files of the page's tables."""
    if not tables:
        return page
    links = Markup(", ").join(
        Markup('<a href="{}/{}.csv" download>{}</a>').format(TABLE_FOLDER, table.name, table.title) for table in tables
    )
    line = Markup('<p class="hint exports">Tables of this page as CSV: {}.</p>').format(links)
    body, end, after = str(page.html).rpartition("</section>")
    return page._replace(html=Markup(f"{body}{line}{end}{after}") if end else page.html + line)


def empty_folder(folder: Path) -> Path:
    """Create an empty folder and return it. If the folder exists, it is deleted first, with all its files."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return folder


def write_tables(tables: Mapping[str, pd.DataFrame], folder: Path) -> None:
    """Write a CSV file for each table into `folder`. The files of an earlier report are deleted first."""
    empty_folder(folder)
    for name, rows in tables.items():
        with atomic_file(folder / f"{name}.csv") as handle:
            rows.to_csv(handle, index=False)


class ExportedFigure(NamedTuple):
    """A picture of the page. name: file name without the suffix; svg: the picture; caption: caption on the page."""

    name: str
    svg: str
    caption: str


FIGURE = re.compile(r"<figure([^>]*)>\s*(<svg.*?</svg>)(.*?)</figure>", re.DOTALL)
FILE = re.compile(r'data-file="([^"]+)"')
CAPTION = re.compile(r"<figcaption>(.*?)</figcaption>", re.DOTALL)
HEADING = re.compile(r"<(?:h2|h3)[^>]*>(.*?)</(?:h2|h3)>", re.DOTALL)


def exported_figures(page: Page, named: Counter[str]) -> list[ExportedFigure]:
    """Return the pictures of one page in order. Each is named after the page and the heading above the picture.

    named: number of uses of each name on this and earlier pages; updated in place.
    """
    text = str(page.html)
    place = page.address.removeprefix("#/") or "results"
    headings = [(match.end(), html_text(match[1])) for match in HEADING.finditer(text)]
    pictures = []
    for figure in FIGURE.finditer(text):
        above = [heading for end, heading in headings if end <= figure.start()]
        file = FILE.search(figure[1])
        name = file_slug(f"{place} {file[1] if file else above[-1] if above else page.menu or ''}")
        caption = CAPTION.search(figure[3])
        pictures.append(ExportedFigure(unused_name(name, named), figure[2], html_text(caption[1]) if caption else ""))
    return pictures


def html_text(markup: str) -> str:
    """Return the text of HTML markup without the tags."""
    return " ".join(html.fragment_fromstring(markup, create_parent="p").text_content().split())


def write_figures(pictures: list[ExportedFigure], folder: Path) -> None:
    """Write an SVG file for each picture, with its caption as <desc>. An earlier report's files are deleted first."""
    empty_folder(folder)
    for picture in pictures:
        described = Markup("<desc>{}</desc>").format(picture.caption)
        head, bracket, body = picture.svg.partition(">")
        with atomic_file(folder / f"{picture.name}.svg") as handle:
            handle.write(f"{head}{bracket}{described}{body}\n")
