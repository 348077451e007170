"""Tests of downloads over HTTP: they resume or refuse, and a wrong or partial file never takes the final name."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from httpserver import Files, serving
from maieutic.config.datasets import Dataset, DatasetFile
from maieutic.core.errors import UserError
from maieutic.datasets import downloads
from maieutic.datasets.sources import local_copy
from maieutic.preparation.fetch import FetchDataset, fetch_dataset

DEMO = Path("resources/demo")
BODY = Path("resources/demo/gsm8k/test.jsonl").read_bytes()


@pytest.fixture
def files(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Serve files without waiting between tries; yield the server's address."""
    monkeypatch.setattr(downloads.time, "sleep", lambda _: None)
    Files.body, Files.ranges, Files.failures = BODY, [], 0
    with serving(Files) as address:
        yield address


def dataset(url: str | None) -> Dataset:
    """Return an entry like GSM8K's, with the demo file as its published file."""
    copy = DatasetFile(path="gsm8k/test.jsonl", url=url, sha256=hashlib.sha256(BODY).hexdigest(), records=12)
    return Dataset(title="t", licence="l", format="jsonl", fields=["question", "answer"], published=copy, demo=None)


def get(url: str, out: Path, seconds: float = 5.0) -> None:
    fetch_dataset(
        job=FetchDataset(name="gsm8k", dataset=dataset(url), edition="published", data_dir=None),
        demo_dir=DEMO,
        out=out,
        read_seconds=seconds,
    )


def leftovers(out: Path) -> list[str]:
    return sorted(path.name for path in out.parent.iterdir())


@pytest.mark.parametrize("kind", ["right", "breaks", "no-ranges", "busy-twice", "slow"])
def test_a_download_ends_with_the_right_bytes(kind: str, files: str, tmp_path: Path) -> None:
    out = tmp_path / "gsm8k.source"
    get(f"{files}/{kind}", out, seconds=1.0)
    assert out.read_bytes() == BODY
    assert leftovers(out) == ["gsm8k.source"], "no part file is left"


def test_a_broken_download_goes_on_where_it_stopped(files: str, tmp_path: Path) -> None:
    get(f"{files}/breaks", tmp_path / "gsm8k.source")
    assert Files.ranges[0] is None
    starts = [int(header.removeprefix("bytes=").rstrip("-")) for header in Files.ranges[1:]]
    assert starts and starts == sorted(set(starts)) and starts[0] > 0, "each try begins where the last one ended"


def test_a_later_run_continues_a_part_file(files: str, tmp_path: Path) -> None:
    out = tmp_path / "gsm8k.source"
    problem = r"the download made no progress in 5 tries .*; 10 bytes are kept.*Fix: run `snakemake"
    with pytest.raises(UserError, match=problem):
        get(f"{files}/always-breaks", out)
    assert not out.exists()
    [part] = leftovers(out)
    size = (tmp_path / part).stat().st_size
    Files.ranges = []
    get(f"{files}/right", out)
    assert Files.ranges == [f"bytes={size}-"] and out.read_bytes() == BODY


@pytest.mark.parametrize(("kind", "expected"), [
    ("altered", "expected sha256 [0-9a-f]{64}, found"),
    ("short", "expected a JSON record"),
    ("missing", "the server answers with status 404"),
])  # fmt: skip
def test_a_wrong_file_is_refused_and_never_takes_the_final_name(
    kind: str, expected: str, files: str, tmp_path: Path
) -> None:
    out = tmp_path / "gsm8k.source"
    with pytest.raises(UserError, match=expected) as refusal:
        get(f"{files}/{kind}", out)
    assert f"{files}/{kind}" in str(refusal.value) and "\n" not in str(refusal.value)
    assert leftovers(out) == [], "a wrong file is not continued by the next try"


def test_an_earlier_right_file_survives_a_wrong_download(files: str, tmp_path: Path) -> None:
    out = tmp_path / "gsm8k.source"
    get(f"{files}/right", out)
    with pytest.raises(UserError):
        get(f"{files}/altered", out)
    assert out.read_bytes() == BODY


def test_a_part_file_that_is_too_long_is_discarded(files: str, tmp_path: Path) -> None:
    out = tmp_path / "gsm8k.source"
    sha = hashlib.sha256(BODY).hexdigest()
    (tmp_path / f".gsm8k.source.{sha[:12]}.part").write_bytes(BODY + b"more")
    get(f"{files}/right", out)
    assert out.read_bytes() == BODY


def test_files_of_data_dir_are_fetched_like_downloads(tmp_path: Path) -> None:
    out = tmp_path / "gsm8k.source"
    fetch_dataset(
        job=FetchDataset(name="gsm8k", dataset=dataset(None), edition="published", data_dir=DEMO),
        demo_dir=DEMO,
        out=out,
    )
    assert out.read_bytes() == BODY
    for folder, place in ((Path("nowhere"), "no gsm8k/test.jsonl in nowhere"), (None, "in data_dir, which is null")):
        problem = rf"^datasets.gsm8k.published: .*{place}.* or below .*Fix: correct the dataset's path, or set"
        with pytest.raises(UserError, match=problem):
            fetch_dataset(
                job=FetchDataset(name="gsm8k", dataset=dataset(None), edition="published", data_dir=folder),
                demo_dir=DEMO,
                out=tmp_path / "other",
            )


def test_a_users_file_is_found_from_the_working_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A user's file is found relative to the working folder, with or without a data_dir; a published file is not."""
    (tmp_path / "gsm8k").mkdir()
    (tmp_path / "gsm8k/test.jsonl").write_bytes(BODY)
    (tmp_path / "published").mkdir()
    demo = DEMO.resolve()
    monkeypatch.chdir(tmp_path)
    for folder in (None, Path("published")):
        job = FetchDataset(name="gsm8k", dataset=dataset(None), edition="published", data_dir=folder)
        fetch_dataset(job=job, demo_dir=demo, out=tmp_path / "out")
        assert (tmp_path / "out").read_bytes() == BODY
    published_copy = dataset("http://127.0.0.1:9/x").published
    assert local_copy(published_copy, "published", None, demo) is None


def test_what_data_dir_lacks_is_downloaded(tmp_path: Path) -> None:
    with serving(Files) as address:
        job = FetchDataset(name="gsm8k", dataset=dataset(f"{address}/x"), edition="published", data_dir=tmp_path)
        fetch_dataset(job=job, demo_dir=DEMO, out=tmp_path / "out")
    assert (tmp_path / "out").read_bytes() == BODY


class HubOfParts(Files):
    """Hub with two Parquet files of one commit; the first request for the second file fails."""

    parts: dict[str, bytes] = {}
    requested: list[str] = []
    tokens: set[str | None] = set()
    breaks = 1

    def do_GET(self) -> None:
        cls = HubOfParts
        cls.requested.append(self.path)
        cls.tokens.add(self.headers.get("Authorization"))
        name = self.path.rpartition("/")[2]
        if "/tree/" in self.path:
            self.send(200, json.dumps([{"path": f"data/{part}"} for part in [*cls.parts, "README.md"]]).encode())
        elif name == "train-1.parquet" and cls.breaks:
            cls.breaks -= 1
            self.send(404, b"")
        else:
            self.send(200, cls.parts[name])


def test_files_of_a_hub_are_joined_without_its_client(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An interrupted fetch keeps the files that it has. The hub's client is not in the driver's environment."""
    for number, rows in enumerate((["a", "b"], ["c"])):
        pq.write_table(pa.table({"question": rows}), tmp_path / f"train-{number}.parquet")
    HubOfParts.parts = {path.name: path.read_bytes() for path in sorted(tmp_path.glob("*.parquet"))}
    HubOfParts.requested, HubOfParts.tokens, HubOfParts.breaks = [], set(), 1
    copy = DatasetFile(path="x", hub={"repo": "o/n", "revision": "1" * 40, "files": "data/train-*.parquet"}, records=3)
    entry = Dataset(title="t", licence="l", format="parquet", fields=["question"], published=copy, demo=None)
    job = FetchDataset(name="x", dataset=entry, edition="published", data_dir=None)
    out = tmp_path / "out/x.source"
    with serving(HubOfParts) as address:
        monkeypatch.setenv("HF_ENDPOINT", address)
        monkeypatch.setenv("HF_TOKEN", "hf_canary")
        with pytest.raises(UserError, match="the server answers with status 404"):
            fetch_dataset(job=job, demo_dir=DEMO, out=out)
        fetch_dataset(job=job, demo_dir=DEMO, out=out)
    assert pq.read_table(out)["question"].to_pylist() == ["a", "b", "c"]
    assert sum(path.endswith("train-0.parquet") for path in HubOfParts.requested) == 1, (
        "a complete file is not fetched again"
    )
    assert HubOfParts.tokens == {"Bearer hf_canary"} and [path.name for path in out.parent.iterdir()] == ["x.source"]
