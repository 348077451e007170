"""Tests of `maieutic pin`: look-ups at a local hub and file server, and how pins are kept, renewed and filled in."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml
from httpserver import Quiet, serving
from maieutic.config.models import VllmModel, Weights
from maieutic.config.pins import DatasetPin, ModelPin, Pins, fill_pins, read_pins
from maieutic.core.errors import UserError
from maieutic.launch import config_files
from maieutic.launch.config_files import merged_configuration
from maieutic.tools import pinning
from maieutic.tools.pinning import pin, pin_of_dataset, used_entries
from shipped import shipped

FIRST, SECOND = "1" * 40, "2" * 40
LINES = b'{"question": "What?", "answer": "#### 1"}\n{"question": "Why?", "answer": "#### 2"}\n'
BLOB = hashlib.sha1(b"blob %d\0" % len(LINES) + LINES).hexdigest()


class Hub(Quiet):
    """The endpoints of the hub's API that `maieutic pin` requests, and a file server. commit: current one of `main`."""

    commit = FIRST
    requested: list[str] = []
    tokens: set[str | None] = set()
    parquet = b""

    def do_GET(self) -> None:
        Hub.requested.append(self.path)
        Hub.tokens.add(self.headers.get("Authorization"))
        if "/api/models/checked/" in self.path:
            name, files = self.path.split("/")[4], ["config.json", "model-00001-of-00002.safetensors"]
            files += ["model-00002-of-00002.safetensors"] * (name != "torn")
            content = {
                "gated": "manual" * (name in ("closed", "open")),
                "siblings": [{"rfilename": file} for file in files],
            }
            self.send(404 if name == "gone" else 200, json.dumps(content).encode())
        elif "/resolve/" in self.path and self.path.endswith("config.json"):
            self.send(403 if "/closed/" in self.path else 200, b"{}")
        elif "/gated/" in self.path:
            self.send(403, b"{}")
        elif "/api/" in self.path and "/revision/" in self.path and "/nobody/" not in self.path:
            tag = self.path.rpartition("/")[2]
            self.send(200, json.dumps({"sha": "a" * 40 if tag == "v1.0" else Hub.commit}).encode())
        elif "/tree/" in self.path:
            self.send(200, json.dumps([{"path": "data/train-0.parquet"}, {"path": "README.md"}]).encode())
        elif self.path.endswith("train-0.parquet"):
            self.send(200, Hub.parquet)
        elif self.path.endswith("lines.jsonl"):
            self.send(200, LINES)
        else:
            self.send(404, b"not here")


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    Hub.commit, Hub.requested, Hub.tokens = FIRST, [], set()
    table = tmp_path / "t.parquet"
    pq.write_table(pa.table({"question": ["a", "b", "c"]}), table)
    Hub.parquet = table.read_bytes()
    with serving(Hub) as address:
        monkeypatch.setenv("HF_ENDPOINT", address)
        monkeypatch.delenv("HF_TOKEN", raising=False)
        yield address


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, hub: str) -> Path:
    """Make a working folder with small registries."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(config_files, "SHIPPED_REGISTRIES", ())
    files = {"title": "T", "licence": "MIT", "format": "jsonl", "fields": ["question"]}
    registry: dict[str, dict[str, Any]] = {
        "models": {
            "newest": {"engine": "vllm", "weights": {"repo": "org/newest", "revision": None}},
            "tagged": {"engine": "vllm", "weights": {"repo": "org/tagged", "revision": "v1.0"}},
            "fixed": {"engine": "vllm", "weights": {"repo": "org/fixed", "revision": SECOND}},
            "echo": {"engine": "baseline", "tutor": "echo"},
        },
        "datasets": {
            "lines": {**files, "published": {"path": "l", "url": f"{hub}/lines.jsonl", "blob": BLOB}},
            "table": {**files, "format": "parquet", "published": {"path": "t", "hub": {"repo": "org/table", "files": "data/*.parquet"}}},
            "own": {**files, "published": {"path": "own.jsonl"}},
        },
    }  # fmt: skip
    (tmp_path / "config").mkdir()
    for name, entries in registry.items():
        (tmp_path / f"config/{name}.yaml").write_text(yaml.safe_dump({name: entries}))
    return tmp_path


def test_commits_and_checksums_of_names_are_written_into_the_lock(place: Path, hub: str) -> None:
    pin()
    pins = read_pins()
    assert {name: entry.revision for name, entry in pins.models.items()} == {"newest": FIRST, "tagged": "a" * 40}
    assert pins.models["newest"].wanted == "main" and pins.models["tagged"].source.startswith(f"{hub}/api/models/org/")
    lines, table = pins.datasets["lines"], pins.datasets["table"]
    assert (lines.sha256, lines.records) == (hashlib.sha256(LINES).hexdigest(), 2)
    assert (table.revision, table.records, table.sha256) == (FIRST, 3, None)
    assert set(pins.datasets) == {"lines", "table"}, "a file without an address has no pin"
    text = (place / "config/pins.lock.yaml").read_text()
    assert text.startswith("# Written by `maieutic pin`") and text.index("lines:") < text.index("table:") < text.index(
        "models:"
    )


def test_a_file_of_the_users_is_pinned_by_its_checksum_and_records(place: Path) -> None:
    with pytest.raises(
        UserError, match=r"datasets\.own\.published\.path: found no file own\.jsonl in this folder\. Fix:"
    ):
        pin_of_dataset("own", merged_configuration([])["datasets"]["own"], must_exist=True)
    (place / "own.jsonl").write_bytes(LINES)
    pin()
    stored = read_pins().datasets["own"]
    assert (stored.sha256, stored.records, stored.address) == (hashlib.sha256(LINES).hexdigest(), 2, "own.jsonl")
    filled = fill_pins(merged_configuration([]), read_pins())["datasets"]["own"]["published"]
    assert (filled["sha256"], filled["records"]) == (stored.sha256, 2)


def test_a_pin_stays_until_its_name_is_given(place: Path, caplog: pytest.LogCaptureFixture) -> None:
    pin()
    before = (place / "config/pins.lock.yaml").read_bytes()
    Hub.commit = SECOND
    caplog.clear()
    with caplog.at_level("INFO", "maieutic.tools.pinning"):
        pin()
    assert (place / "config/pins.lock.yaml").read_bytes() == before
    assert caplog.messages[0] == f"newest is now {SECOND}; its pin remains {FIRST}. Fix: pass --update newest"
    pin(update=["newest"])
    pins = read_pins()
    assert pins.models["newest"].revision == SECOND and pins.datasets["table"].revision == FIRST
    with pytest.raises(
        UserError,
        match=r"--update: not among the models and datasets of the run: nwest, tables\. Fix: pass names of models or datasets",
    ):
        pin(update=["nwest", "tagged", "tables"])


def test_another_tag_is_pinned_anew(place: Path) -> None:
    pin()
    registry = yaml.safe_load((place / "config/models.yaml").read_text())
    registry["models"]["newest"]["weights"]["revision"] = "v1.0"
    (place / "config/models.yaml").write_text(yaml.safe_dump(registry))
    pin()
    assert (read_pins().models["newest"].wanted, read_pins().models["newest"].revision) == ("v1.0", "a" * 40)


def test_offline_nothing_is_changed(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pin()
    before = (place / "config/pins.lock.yaml").read_bytes()
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    with pytest.raises(UserError) as fault:
        pin()
    assert (place / "config/pins.lock.yaml").read_bytes() == before
    assert [line.partition(": ")[0] for line in fault.value.lines.split("\n")] == [
        "models.newest", "models.tagged", "datasets.table",
    ]  # fmt: skip
    assert (
        "does not answer (ConnectionError). Fix: run the command on a machine with network access" in fault.value.lines
    )


def test_failed_look_ups_are_reported_and_the_rest_is_written(place: Path) -> None:
    registry = yaml.safe_load((place / "config/models.yaml").read_text())
    registry["models"] |= {
        "secret": {"engine": "vllm", "weights": {"repo": "gated/model"}},
        "gone": {"engine": "vllm", "weights": {"repo": "nobody/model"}},
    }
    (place / "config/models.yaml").write_text(yaml.safe_dump(registry))
    with pytest.raises(UserError) as fault:
        pin()
    assert "models.secret: " in fault.value.lines
    assert "answers with status 403. Fix: request access on the repository's page" in fault.value.lines
    assert "answers with status 404. Fix: correct repo or revision in the registry" in fault.value.lines
    assert set(read_pins().models) == {"newest", "tagged"}


def test_an_invalid_registry_is_one_line(place: Path) -> None:
    registry = yaml.safe_load((place / "config/datasets.yaml").read_text())
    del registry["datasets"]["lines"]["title"]
    (place / "config/datasets.yaml").write_text(yaml.safe_dump(registry))
    with pytest.raises(UserError, match=r"^datasets\.lines: title: is missing"):
        pin()
    (place / "config/models.yaml").write_text("models: [")
    with pytest.raises(UserError, match=r"^config/models\.yaml: cannot be read"):
        pin()


def test_another_file_than_the_blob_is_refused(place: Path) -> None:
    registry = yaml.safe_load((place / "config/datasets.yaml").read_text())
    registry["datasets"]["lines"]["published"]["blob"] = SECOND
    registry["datasets"]["table"]["published"]["records"] = 4
    (place / "config/datasets.yaml").write_text(yaml.safe_dump(registry))
    with pytest.raises(UserError) as fault:
        pin()
    assert f"datasets.lines.published.blob: expected {SECOND}, found {BLOB}" in fault.value.lines
    assert "datasets.table.published.records: expected 4 records, found 3" in fault.value.lines
    assert read_pins().datasets == {}


SHA = hashlib.sha256(LINES).hexdigest()
# Source of a file in the registry, and the expected fields of its pin, or None if it needs no look-up.
FILES: dict[str, tuple[dict[str, Any], dict[str, Any] | None]] = {
    "an address": ({"url": "{hub}/lines.jsonl"}, {"address": "{hub}/lines.jsonl", "sha256": SHA, "records": 2, "source": "{hub}/lines.jsonl"}),
    "an address and the right blob": ({"url": "{hub}/lines.jsonl", "blob": BLOB}, {"address": "{hub}/lines.jsonl", "sha256": SHA, "records": 2, "source": "{hub}/lines.jsonl"}),
    "an address and the right number": ({"url": "{hub}/lines.jsonl", "records": 2}, {"address": "{hub}/lines.jsonl", "sha256": SHA, "records": 2, "source": "{hub}/lines.jsonl"}),
    "a checksum without a number": ({"url": "{hub}/lines.jsonl", "sha256": SHA}, {"address": "{hub}/lines.jsonl", "sha256": SHA, "records": 2, "source": "{hub}/lines.jsonl"}),
    "a checksum and a number": ({"url": "{hub}/lines.jsonl", "sha256": SHA, "records": 2}, None),
    "a checksum without an address": ({"sha256": SHA}, None),
    "no address": ({}, None),
    "made by the run": ({"curated": "ours/skills", "records": 2}, None),
    "a file of the hub": ({"hub": {"repo": "org/table", "files": "data/*.parquet"}}, {"address": "org/table/data/*.parquet", "wanted": "main", "revision": FIRST, "records": 3, "source": "{hub}/api/datasets/org/table/revision/main"}),
    "a tag of the hub": ({"hub": {"repo": "org/table", "files": "data/*.parquet", "revision": "v1.0"}}, {"address": "org/table/data/*.parquet", "wanted": "v1.0", "revision": "a" * 40, "records": 3, "source": "{hub}/api/datasets/org/table/revision/v1.0"}),
    "a commit without a number": ({"hub": {"repo": "org/table", "files": "data/*.parquet", "revision": SECOND}}, {"address": "org/table/data/*.parquet", "wanted": SECOND, "revision": FIRST, "records": 3, "source": "{hub}/api/datasets/org/table/revision/" + SECOND}),
    "a commit and a number": ({"hub": {"repo": "org/table", "files": "data/*.parquet", "revision": SECOND}, "records": 3}, None),
}  # fmt: skip


@pytest.mark.parametrize("name", FILES)
def test_a_pin_of_a_file_has_all_and_only_the_looked_up_fields(name: str, place: Path, hub: str) -> None:
    source, expected = json.loads(json.dumps(FILES[name]).replace("{hub}", hub))
    entry = {
        "title": "T", "licence": "MIT", "format": "parquet" if "hub" in source else "jsonl", "fields": ["question"],
    }  # fmt: skip
    before, request_count = datetime.now(UTC).date(), len(Hub.requested)
    dataset_pin = pin_of_dataset("lines", {**entry, "published": {"path": "l", **source}})
    if expected is None:
        assert dataset_pin is None and len(Hub.requested) == request_count, "no request"
        return
    assert dataset_pin is not None
    fields = dataset_pin.model_dump(exclude_none=True)
    assert str(before) <= fields.pop("date") <= str(datetime.now(UTC).date())
    assert fields == expected


def test_a_pattern_of_no_file_is_named_by_its_key(place: Path, hub: str) -> None:
    hub_copy = {"repo": "org/table", "files": "*.csv"}
    entry = {"title": "T", "licence": "MIT", "fields": ["question"], "format": "parquet"}
    with pytest.raises(UserError, match=r"^datasets\.x\.published\.hub\.files: no file of org/table matches \*\.csv"):
        pin_of_dataset("x", {**entry, "published": {"path": "t", "hub": hub_copy}})


def test_a_token_is_shown_to_the_hub_and_written_nowhere(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_TOKEN", "hf_canary")
    pin()
    assert Hub.tokens >= {"Bearer hf_canary"}
    assert all(b"hf_canary" not in path.read_bytes() for path in place.rglob("*") if path.is_file())


def test_pins_fill_what_the_registry_leaves_open_and_nothing_else() -> None:
    origin = {"source": "x", "date": "2026-01-01"}
    pins = Pins(
        models={"m": ModelPin(repo="o/n", wanted="main", revision=FIRST, **origin)},
        datasets={
            "f": DatasetPin(address="http://a/f", sha256="b" * 64, records=3, **origin),
            "h": DatasetPin(address="o/d/*.parquet", wanted="main", revision=FIRST, records=5, **origin),
        },
    )
    weights = {"repo": "o/n", "revision": None}
    raw: dict[str, Any] = {
        "models": {"m": {"weights": weights}, "other": {"weights": weights}},
        "datasets": {
            "f": {"published": {"path": "f", "url": "http://a/f", "records": None}},
            "h": {"published": {"path": "h", "hub": {"repo": "o/d", "files": "*.parquet"}}},
        },
    }
    filled = fill_pins(raw, pins)
    assert filled["models"]["m"]["weights"]["revision"] == FIRST and filled["models"]["other"]["weights"] == weights
    file, table = (filled["datasets"][name]["published"] for name in ("f", "h"))
    assert (file["sha256"], file["records"]) == ("b" * 64, 3)
    assert (table["hub"]["revision"], table["records"]) == (FIRST, 5)
    assert weights["revision"] is None, "the input is not changed"
    for change in ({"repo": "o/another"}, {"revision": "v2"}, {"revision": SECOND}):
        entry = {"weights": {**weights, **change}}
        assert fill_pins({"models": {"m": entry}}, pins)["models"]["m"] == entry
    moved = {"f": {"published": {"path": "f", "url": "http://a/other"}}}
    assert fill_pins({"datasets": moved}, pins)["datasets"] == moved
    pinned = {"f": {"published": {"path": "f", "url": "http://a/f", "sha256": "c" * 64}}}
    assert fill_pins({"datasets": pinned}, pins)["datasets"]["f"]["published"]["sha256"] == "c" * 64


@pytest.mark.parametrize("revision", [None, "main", "v1.0", "1" * 39])
def test_a_model_without_a_pinned_commit_does_not_run(revision: str | None) -> None:
    problem = r"^models\.m\.weights\.revision: o/n has no pinned commit\. Fix: run `maieutic pin"
    with pytest.raises(UserError, match=problem):
        Weights(repo="o/n", revision=revision).refuse_unpinned("models.m.weights")
    with pytest.raises(ValueError, match=r"requires a commit in weights\.revision, so that the code is pinned"):
        VllmModel.model_validate(
            {"engine": "vllm", "weights": {"repo": "o/n", "revision": revision}, "trust_remote_code": True}
        )


def test_an_invalid_lock_is_refused(tmp_path: Path) -> None:
    lock = tmp_path / "pins.lock.yaml"
    lock.write_text("models: {m: {repo: o/n}}\n")
    with pytest.raises(UserError, match=r"pins\.lock\.yaml: models\.m\.wanted: is missing"):
        read_pins(lock)
    lock.write_text("models: [")
    with pytest.raises(UserError, match=r"pins\.lock\.yaml: cannot be read"):
        read_pins(lock)


def test_models_of_extensions_are_looked_up_too() -> None:
    """The models of curations' roles, and the base models of tunings."""
    raw = shipped("curation")
    [curation], [tuning] = raw["curations"].values(), raw["tunings"].values()
    curation["roles"]["generator"] = "gemma-2-2b"
    tuning["base"] = "qwen2.5-math-7b-base"
    assert {"gemma-2-2b", "qwen2.5-math-7b-base"} <= set(used_entries(raw).models)


@pytest.mark.parametrize(("text", "type_name"), [("- a\n", "a list"), ("word", "a str"), ("3", "a int")])
def test_a_run_file_without_keys_is_one_line(text: str, type_name: str, tmp_path: Path) -> None:
    """`doctor` and `estimate` read the file themselves; Snakemake reports the same fault for its own files."""
    (tmp_path / "run.yaml").write_text(text)
    problem = rf"run\.yaml: expected keys at the top level, found {type_name}\. Fix: write `run:`"
    with pytest.raises(UserError, match=problem):
        pinning.merged_configuration([tmp_path / "run.yaml"])


def test_a_check_asks_about_every_pin_and_writes_nothing(
    place: Path, hub: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    registry = merged_configuration([])
    for name in ("whole", "open", "closed", "torn", "gone"):
        registry["models"][name] = {"engine": "vllm", "weights": {"repo": f"checked/{name}", "revision": SECOND}}
    for name in ("newest", "tagged", "fixed"):
        del registry["models"][name]
    lines, table = registry["datasets"]["lines"]["published"], registry["datasets"]["table"]["published"]
    lines |= {"sha256": hashlib.sha256(LINES).hexdigest(), "records": 2}
    table["hub"]["revision"], table["records"] = FIRST, 3
    registry["datasets"]["other"] = {**registry["datasets"]["lines"], "published": {**lines, "sha256": "0" * 64}}
    for kind in ("models", "datasets"):
        (place / f"config/{kind}.yaml").write_text(yaml.safe_dump({kind: registry[kind]}))
    with pytest.raises(UserError) as fault:
        pin(check=True)
    assert [line.split(": ")[0] for line in fault.value.lines.splitlines()] == [
        "models.closed", "models.gone", "models.torn.weights.revision", "datasets.other.published.sha256",
    ]  # fmt: skip
    assert "request access on the repository's page, and set HF_TOKEN" in fault.value.lines
    assert caplog.messages == [
        f"models.open: checked/open@{SECOND[:12]} has 2 safetensors, gated: access granted",
        f"models.whole: checked/whole@{SECOND[:12]} has 2 safetensors",
        f"datasets.lines: {hub}/lines.jsonl has its checksum",
        f"datasets.table: org/table@{FIRST} has 1 Parquet files",
    ]
    assert not (place / "config/pins.lock.yaml").exists()
