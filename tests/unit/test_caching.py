"""Tests of the cache of expensive texts: each is made once, damaged entries count as absent, old ones are deleted."""

from __future__ import annotations

import os
from pathlib import Path

import altair as alt
import pandas as pd
import pytest
import vl_convert
from maieutic.core import caching
from maieutic.core.caching import cache_folder, cached_text, delete_old_files, newest_first
from maieutic.report import figures

TEXTS = {
    "plain": "<svg></svg>", "none": "", "lines": "a\r\nb\n\nc\r", "signs": "µ 二 \x00 \u2028", "long": "x" * 100_000,
}  # fmt: skip


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the folder of a cache that only this test uses."""
    monkeypatch.setattr(caching, "user_cache_path", lambda name: tmp_path / name)
    return tmp_path / "maieutic"


class Maker:
    """Returns a text, and counts the calls."""

    def __init__(self, text: str) -> None:
        self.text, self.calls = text, 0

    def __call__(self) -> str:
        self.calls += 1
        return self.text


def entries(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS.keys())
def test_a_text_is_made_once(text: str, folder: Path) -> None:
    make = Maker(text)
    assert [cached_text("notes", "key", make, 9) for _ in range(3)] == [text] * 3 and make.calls == 1
    assert [path.parent for path in entries(folder)] == [folder / "notes"] == [cache_folder("notes")]
    assert cached_text("notes", "another key", Maker("other"), 9) == "other"
    assert cached_text("of another kind", "key", Maker("another"), 9) == "another"
    assert cached_text("notes", "key", make, 9) == text and make.calls == 1 and len(entries(folder)) == 3


@pytest.mark.parametrize("damage", [b"", b"\n", b"no checksum", b"0" * 64 + b"\nwhole", None])
def test_a_damaged_file_counts_as_absent(damage: bytes | None, folder: Path) -> None:
    make = Maker("whole")
    cached_text("notes", "key", make, 9)
    [path] = entries(folder)
    whole = path.read_bytes()
    path.write_bytes(whole[:-1] if damage is None else damage)
    assert cached_text("notes", "key", make, 9) == "whole" and make.calls == 2
    assert path.read_bytes() == whole, "the file is written again"
    assert cached_text("notes", "key", make, 9) == "whole" and make.calls == 2


def test_without_a_writable_folder_a_text_is_made_each_time(folder: Path) -> None:
    folder.write_text("no folder")
    make = Maker("text")
    assert [cached_text("notes", "key", make, 9) for _ in range(2)] == ["text"] * 2 and make.calls == 2
    assert folder.read_text() == "no folder"


def test_the_older_half_is_deleted(folder: Path) -> None:
    for number in range(5):
        cached_text("notes", str(number), Maker(str(number)), 4)
        for path in entries(folder):  # make each file a second older than the next one
            os.utime(path, (path.stat().st_atime, path.stat().st_mtime - 1))
        assert len(entries(folder)) == (2 if number == 4 else number + 1)
    make = Maker("again")
    assert [cached_text("notes", str(number), make, 4) for number in (3, 4)] == ["3", "4"] and make.calls == 0
    assert cached_text("notes", "2", make, 4) == "again"


def test_files_of_another_pattern_are_not_deleted(tmp_path: Path) -> None:
    for number, name in enumerate(("a.json", "b.txt", "c.json", "d.json")):
        (tmp_path / name).write_text("")
        os.utime(tmp_path / name, (number, number))
    assert [path.name for path in newest_first(tmp_path)] == ["d.json", "c.json", "b.txt", "a.json"]
    delete_old_files(tmp_path, 1, "*.json")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["b.txt", "d.json"]


def test_a_chart_is_drawn_once_by_each_library(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    """A cached drawing equals a new one. Another chart, or another version of the library, is drawn anew."""
    specs, draw = [], vl_convert.vegalite_to_svg

    def counted(spec: str) -> str:
        specs.append(spec)
        return draw(spec)

    def chart(height: int) -> str:
        table = pd.DataFrame({"share": [0.1, 0.2], "tutor": ["<a>", "b"]})
        return figures.to_svg(alt.Chart(table).mark_bar().encode(x="share", y="tutor").properties(height=height))

    monkeypatch.setattr(vl_convert, "vegalite_to_svg", counted)
    first = chart(50)
    assert chart(50) == first and len(specs) == 1 and first.startswith('<svg role="img" ') and "&lt;a&gt;" in first
    assert chart(60) != first and len(specs) == 2
    monkeypatch.setattr(figures, "LIBRARY", "vl-convert 99")
    assert chart(50) == first and len(specs) == 3 and len(entries(folder / "charts")) == 3
