"""Tests of the papers' run files: one command pins them on a local hub, then Snakemake plans them to the end."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from conftest import ROOT
from httpserver import Quiet, serving
from maieutic.core.yaml_files import read_yaml
from running import maieutic, planned, run

# Minimum number of unpinned entries by run file.
FEWEST_UNPINNED = {"rewards": 6, "mathtutorbench": 6}
TRAIN_LINES = "resources/demo/mathdial/train.jsonl"  # replaces the only unpinned file that is not on the hub


class Hub(Quiet):
    """A hub that has every model and every set of Parquet files, and serves the published file."""

    parquet = b""
    lines = b""

    def do_GET(self) -> None:
        if "/revision/" in self.path:
            self.send(200, json.dumps({"sha": "c" * 40}).encode())
        elif "/tree/" in self.path:
            self.send(200, json.dumps([{"path": "data/train_prefs-00000-of-00001.parquet"}]).encode())
        elif self.path.endswith(".parquet"):
            self.send(200, Hub.parquet)
        elif self.path.endswith("train.jsonl"):
            self.send(200, Hub.lines)
        else:
            self.send(404, b"")


@pytest.mark.parametrize("paper", FEWEST_UNPINNED)
def test_a_papers_run_file_is_pinned_by_one_command_and_planned(
    paper: str, checkouts: Callable[[], Path], tmp_path: Path
) -> None:
    folder, run_file = checkouts(), Path(f"config/{paper}.yaml")
    parquet_file = tmp_path / "t.parquet"
    answer = [{"role": "assistant", "content": "a"}]
    pq.write_table(pa.table({"prompt": ["p"], "chosen": [answer], "rejected": [answer]}), parquet_file)
    Hub.parquet, Hub.lines = parquet_file.read_bytes(), (folder / TRAIN_LINES).read_bytes()
    before = run(folder, run_file, "-n")
    unpinned = before.stdout.count("Fix: run `maieutic pin --configfile RUN_FILE`")
    assert before.returncode != 0 and unpinned >= FEWEST_UNPINNED[paper], "one run reports all unpinned entries"
    with serving(Hub) as address:
        registry = folder / "resources/registries/datasets.yaml"
        text = registry.read_text(encoding="utf-8")
        entry = read_yaml(registry)["datasets"]["mathdial_train"]["published"]
        blob = hashlib.sha1(b"blob %d\0" % len(Hub.lines) + Hub.lines).hexdigest()
        text = text.replace(entry["url"], f"{address}/train.jsonl").replace(entry["blob"], blob)
        registry.write_text(text, encoding="utf-8")
        done = maieutic(folder, "pin", "--configfile", str(run_file), HF_ENDPOINT=address)
        assert done.returncode == 0, done.stderr
    pins = read_yaml(folder / "config/pins.lock.yaml")
    assert {entry["revision"] for entry in pins["models"].values()} == {"c" * 40}
    jobs = planned(folder, run_file)
    tutors = read_yaml(folder / run_file)["run"]["tutors"]
    for tutor in tutors:
        assert any(f"tutor={tutor}" in job and job.startswith("generate_replies") for job in jobs), tutor
    assert "build_report" in jobs


def test_every_tutor_of_the_papers_has_an_entry() -> None:
    """The exceptions are people. Three models of KMP-Bench were never released; a run file trains them."""
    from maieutic.scores.printed import printed_tutors

    claimed: dict[str, set[str]] = {}
    trained_here = read_yaml(ROOT / "config/kmp_lm.yaml")["models"]
    for entry in [*read_yaml(ROOT / "resources/registries/models.yaml")["models"].values(), *trained_here.values()]:
        paper = entry.get("paper")
        for benchmark, names in printed_tutors().items():
            name = paper.get(benchmark) if isinstance(paper, dict) else paper
            if name in names:
                claimed.setdefault(benchmark, set()).add(name)
    missing = {name: sorted({*names} - claimed[name]) for name, names in printed_tutors().items()}
    assert missing == {
        "mathtutorbench": [], "mrbench": ["Expert", "Novice"], "tutorbench": [], "kmpbench": [],
    }  # fmt: skip
