"""What is kept for later processes: the same text, made once; nothing that is damaged, nothing without an end."""

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
    "plain": "<svg></svg>",
    "none": "",
    "lines": "a\r\nb\n\nc\r",
    "signs": "µ 二 \x00 \u2028",
    "long": "x" * 100_000,
}


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache of the test's own."""
    monkeypatch.setattr(caching, "user_cache_path", lambda name: tmp_path / name)
    return tmp_path / "maieutic"


class Made:
    """Counts how often something is made."""

    def __init__(self, text: str) -> None:
        self.text, self.times = text, 0

    def __call__(self) -> str:
        self.times += 1
        return self.text


def kept(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS.keys())
def test_a_text_is_made_once(text: str, folder: Path) -> None:
    made = Made(text)
    assert [cached_text("notes", "key", made, 9) for _ in range(3)] == [text] * 3 and made.times == 1
    assert [path.parent for path in kept(folder)] == [folder / "notes"] == [cache_folder("notes")]
    assert cached_text("notes", "another key", Made("other"), 9) == "other"
    assert cached_text("of another kind", "key", Made("another"), 9) == "another"
    assert cached_text("notes", "key", made, 9) == text and made.times == 1 and len(kept(folder)) == 3


@pytest.mark.parametrize("damage", [b"", b"\n", b"no checksum", b"0" * 64 + b"\nwhole", None])
def test_a_damaged_file_is_as_none(damage: bytes | None, folder: Path) -> None:
    made = Made("whole")
    cached_text("notes", "key", made, 9)
    [path] = kept(folder)
    whole = path.read_bytes()
    path.write_bytes(whole[:-1] if damage is None else damage)
    assert cached_text("notes", "key", made, 9) == "whole" and made.times == 2
    assert path.read_bytes() == whole, "and is written again"
    assert cached_text("notes", "key", made, 9) == "whole" and made.times == 2


def test_where_nothing_can_be_kept_it_is_made_each_time(folder: Path) -> None:
    folder.write_text("no folder")
    made = Made("text")
    assert [cached_text("notes", "key", made, 9) for _ in range(2)] == ["text"] * 2 and made.times == 2
    assert folder.read_text() == "no folder"


def test_what_fails_is_told_and_not_kept(folder: Path) -> None:
    def fails() -> str:
        raise ValueError("no such mark")

    with pytest.raises(ValueError, match="no such mark"):
        cached_text("notes", "key", fails, 9)
    assert kept(folder) == []


def test_the_older_half_is_forgotten(folder: Path) -> None:
    for number in range(5):
        cached_text("notes", str(number), Made(str(number)), 4)
        for path in kept(folder):  # as if each had been written a second after the one before
            os.utime(path, (path.stat().st_atime, path.stat().st_mtime - 1))
        assert len(kept(folder)) == (2 if number == 4 else number + 1)
    again = Made("again")
    assert [cached_text("notes", str(number), again, 4) for number in (3, 4)] == ["3", "4"] and again.times == 0
    assert cached_text("notes", "2", again, 4) == "again"


def test_files_of_another_pattern_are_not_forgotten(tmp_path: Path) -> None:
    for number, name in enumerate(("a.json", "b.txt", "c.json", "d.json")):
        (tmp_path / name).write_text("")
        os.utime(tmp_path / name, (number, number))
    assert [path.name for path in newest_first(tmp_path)] == ["d.json", "c.json", "b.txt", "a.json"]
    delete_old_files(tmp_path, 1, "*.json")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["b.txt", "d.json"]


def test_another_process_may_forget_at_the_same_time(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    paths = [tmp_path / name for name in ("newest", "forgotten by the other", "oldest")]
    for path in (paths[0], paths[2]):
        path.write_text("")
    monkeypatch.setattr(caching, "newest_first", lambda folder, pattern: paths)
    delete_old_files(tmp_path, 1)
    assert list(tmp_path.iterdir()) == [tmp_path / "newest"]


def test_a_chart_is_drawn_once_by_each_library(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    """The drawing that is kept is the one that is drawn, and another chart or library draws its own."""
    drawn, own = [], vl_convert.vegalite_to_svg

    def noted(spec: str) -> str:
        drawn.append(spec)
        return own(spec)

    def chart(height: int) -> str:
        table = pd.DataFrame({"share": [0.1, 0.2], "tutor": ["<a>", "b"]})
        return figures.to_svg(alt.Chart(table).mark_bar().encode(x="share", y="tutor").properties(height=height))

    monkeypatch.setattr(vl_convert, "vegalite_to_svg", noted)
    first = chart(50)
    assert chart(50) == first and len(drawn) == 1 and first.startswith('<svg role="img" ') and "&lt;a&gt;" in first
    assert chart(60) != first and len(drawn) == 2
    monkeypatch.setattr(figures, "LIBRARY", "vl-convert 99")
    assert chart(50) == first and len(drawn) == 3 and len(kept(folder / "charts")) == 3


def test_the_script_of_charts_is_put_together_once(monkeypatch: pytest.MonkeyPatch) -> None:
    made = Made("window.vega = {};")
    monkeypatch.setattr(vl_convert, "javascript_bundle", lambda snippet: made())
    assert figures.chart_library() == figures.chart_library() == "(() => {window.vega = {};})();" and made.times == 1
    monkeypatch.setattr(figures, "DRAW", "window.drawOther = 1;")
    assert figures.chart_library() and made.times == 2
