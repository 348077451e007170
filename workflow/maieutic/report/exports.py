"""Every table of the page as a CSV file and every picture as SVG, read from the page itself: none is forgotten."""

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

from maieutic.core.files import safe_cell, whole_file
from maieutic.core.paths import FIGURES, TABLES
from maieutic.report.sections import Page

FOLDER = Path(TABLES).name
FIGURE_FOLDER = Path(FIGURES).name
HEADINGS = "preceding::*[self::h2 or self::h3 or self::h4 or self::summary][1]"
NO_VALUE = "\u2013"  # what the page shows where there is no number
MORE = "\u25b8"  # the mark of a link to a task's page
# Text that a browser shows apart: in a line or a box of its own, or behind a figure.
APART = re.compile(r"<(?:small|br|span|button|a|b|li|p|div)\b")
NUMBER = re.compile(r"[-+]?\d[\w\s.,%\[\]\u2013\u2264-]*")  # with what the page says of it; no formula
LONGEST = 80  # characters of a file's name


class Exported(NamedTuple):
    """A table: the name of its file without the suffix, what stands above it, its rows."""

    name: str
    title: str
    rows: pd.DataFrame


def exported_tables(page: Page, named: Counter[str]) -> list[Exported]:
    """The tables of one page, in their order. A table is named by the page and the heading above it.

    named: how often each name was given, on this and earlier pages; counted on.
    """
    place = page.address.removeprefix("#/") or "leaderboard"
    exported: list[Exported] = []
    for table in html.fragment_fromstring(str(page.html), create_parent="div").iter("table"):
        if table.get("data-shown-only") is not None:  # one of hundreds, of what stands in the results as records
            continue
        above = table.xpath(HEADINGS)
        heading = shown(above[0]) if above else page.menu or place
        title = f"{heading}, {scoring}" if (scoring := table.get("data-scoring")) else heading
        exported.append(Exported(numbered(slug(f"{place} {title}"), named), title, rows_of(table)))
    return exported


def numbered(name: str, named: Counter[str]) -> str:
    """A name that no other file has. named: how often each name was given; counted on."""
    named[name] += 1
    return f"{name}-no-{named[name]}" if named[name] > 1 else name


def shown(element: html.HtmlElement) -> str:
    """The text of a heading without what is small in it."""
    parts = [
        element.text or "",
        *(f"{'' if child.tag == 'small' else child.text_content()}{child.tail or ''}" for child in element),
    ]
    return " ".join(" ".join(parts).split())


def slug(text: str) -> str:
    """A text as the name of a file."""
    return re.sub(r"[^a-z0-9]+", "-", text.lower())[:LONGEST].strip("-")


def rows_of(table: html.HtmlElement) -> pd.DataFrame:
    """The cells of a table as the page shows them; numbers where a column holds nothing else, empty where a dash is."""
    for small in table.iter("small"):
        if small.get("class") == "ci" and small.text:
            small.text = f"[{small.text}]"
    text = APART.sub(r" \g<0>", html.tostring(table, encoding="unicode")).replace(MORE, "")
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


def with_links(page: Page, tables: list[Exported]) -> Page:
    """The page with a line at its end that leads to its tables' files, which lie beside the page."""
    if not tables:
        return page
    links = Markup(", ").join(
        Markup('<a href="{}/{}.csv" download>{}</a>').format(FOLDER, table.name, table.title) for table in tables
    )
    line = Markup('<p class="hint exports">Tables of this page as CSV: {}.</p>').format(links)
    body, end, after = str(page.html).rpartition("</section>")
    return page._replace(html=Markup(f"{body}{line}{end}{after}") if end else page.html + line)


def emptied(folder: Path) -> Path:
    """The folder without the files of an earlier page."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return folder


def write_tables(tables: Mapping[str, pd.DataFrame], folder: Path) -> None:
    """Write a CSV file for each table; files of an earlier page go."""
    emptied(folder)
    for name, rows in tables.items():
        with whole_file(folder / f"{name}.csv") as handle:
            rows.to_csv(handle, index=False)


class Picture(NamedTuple):
    """A picture: the name of its file without the suffix, the SVG, what the page says below it."""

    name: str
    svg: str
    caption: str


FIGURE = re.compile(r"<figure([^>]*)>\s*(<svg.*?</svg>)(.*?)</figure>", re.DOTALL)
FILE = re.compile(r'data-file="([^"]+)"')
CAPTION = re.compile(r"<figcaption>(.*?)</figcaption>", re.DOTALL)
HEADING = re.compile(r"<(?:h2|h3)[^>]*>(.*?)</(?:h2|h3)>", re.DOTALL)


def exported_figures(page: Page, named: Counter[str]) -> list[Picture]:
    """The pictures of one page, in their order, named by the page and the heading above each.

    named: how often each name was given, on this and earlier pages; counted on.
    """
    text = str(page.html)
    place = page.address.removeprefix("#/") or "results"
    headings = [(found.end(), words(found[1])) for found in HEADING.finditer(text)]
    pictures = []
    for found in FIGURE.finditer(text):
        above = [heading for end, heading in headings if end <= found.start()]
        file = FILE.search(found[1])
        name = slug(f"{place} {file[1] if file else above[-1] if above else page.menu or ''}")
        caption = CAPTION.search(found[3])
        pictures.append(Picture(numbered(name, named), found[2], words(caption[1]) if caption else ""))
    return pictures


def words(markup: str) -> str:
    """The text of some HTML."""
    return " ".join(html.fragment_fromstring(markup, create_parent="p").text_content().split())


def write_figures(pictures: list[Picture], folder: Path) -> None:
    """Write an SVG file for each picture, its caption as its description; files of an earlier page go."""
    emptied(folder)
    for picture in pictures:
        described = Markup("<desc>{}</desc>").format(picture.caption)
        head, bracket, body = picture.svg.partition(">")
        with whole_file(folder / f"{picture.name}.svg") as handle:
            handle.write(f"{head}{bracket}{described}{body}\n")
