"""Tests of new benchmarks and extensions. test_structure covers new models and tasks."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from httpserver import serving
from maieutic.core.extensions import VARIABLE
from maieutic.core.files import sha256_of
from obedient_judge import answering
from running import maieutic, overlay, planned, run

MINE = {"engine": "baseline", "tutor": "echo", "label": "Mine"}
TOY = Path(__file__).parents[1] / "toy"


def checksums(folder: Path) -> dict[str, str]:
    """Return the checksums of a checkout's files, without results, environments and caches."""
    excluded = {"results", ".snakemake", "__pycache__", ".venv"}
    files = (path for path in folder.rglob("*") if path.is_file() and not path.is_symlink())
    return {
        str(path.relative_to(folder)): sha256_of(path)
        for path in files
        if not excluded & set(path.relative_to(folder).parts)
    }


def add_benchmark(folder: Path) -> None:
    """Add the toy benchmark: two folders, and a name in the list of benchmarks."""
    shutil.copytree(TOY / "code", folder / "workflow/maieutic/benchmarks/riddles")
    shutil.copytree(TOY / "resources", folder / "resources/benchmarks/riddles")
    registry = folder / "workflow/maieutic/benchmarks/__init__.py"
    text = registry.read_text(encoding="utf-8")
    registry.write_text(re.sub(r"(BENCHMARKS = \(.*)\)", r'\1, "riddles")', text), encoding="utf-8")


def run_file_of_riddles(folder: Path, address: str, **more: Any) -> Path:
    """Write a run file with the toy benchmark's data set, its trivial tutor and a judge. more: further keys."""
    source = TOY / "resources/demo/riddles/things.jsonl"
    copy = {"path": "riddles/things.jsonl", "sha256": sha256_of(source), "records": 3}
    dataset = {
        "title": "Riddles", "licence": "CC0", "format": "jsonl", "fields": ["riddle", "thing"], "published": copy,
        "demo": copy,
    }  # fmt: skip
    models = {
        "candle": {"engine": "baseline", "tutor": "candle"},
        "scripted": {"engine": "hosted", "model": "m", "base_url": f"{address}/v1"},
        "kindness": {"engine": "judge", "model": "scripted", "rubrics": ["riddles_kind"]},
        "mine": MINE,
    }
    keys = {
        "tutors": ["mine"], "tasks": ["riddles", "mathtutorbench/problem_solving"], "judges": ["kindness"],
        "labels": [],
    }  # fmt: skip
    config = {"datasets": {"riddles": dataset}, "models": models, "run": keys, "report": {"resamples": 100}, **more}
    return overlay(folder, config, "riddles.yaml")


def test_a_benchmark_is_two_folders_and_a_word(checkout: Path) -> None:
    """Plan no job of another benchmark again. The run of the same benchmark as an extension goes to its end."""
    without = {"models": {"mine": MINE}, "run": {"tutors": ["mine"], "tasks": ["mathtutorbench/problem_solving"]}}
    assert run(checkout, overlay(checkout, {**without, "report": {"resamples": 100}})).returncode == 0
    before = checksums(checkout)
    add_benchmark(checkout)
    after = checksums(checkout)
    assert {name for name in before if before[name] != after.get(name)} == {"workflow/maieutic/benchmarks/__init__.py"}
    jobs = planned(checkout, run_file_of_riddles(checkout, "http://127.0.0.1:9"))
    assert "score_replies benchmark=riddles, tutor=mine" in jobs
    assert not any("mathtutorbench" in job for job in jobs), jobs


def check_riddles(checkout: Path) -> None:
    """Check the scores and the page of a run on the toy benchmark and one task of MathTutorBench.

    The benchmark has a parser, a metric, a trivial tutor, a judge and rubric, printed numbers and a page.
    """
    table = pd.read_csv(checkout / "results/report/scores.csv")
    rows = table[(table.benchmark == "riddles") & (table.scoring == "robust")]
    heads = rows[rows.headline].set_index("tutor")
    third = pytest.approx(1 / 3, abs=1e-6)
    assert heads.value.to_dict() == {"candle": third, "reference": 1.0, "mine": 0.0}
    assert (heads.metric == "solved").all() and set(heads.floor.round(4)) == {0.3333} and (heads.ceiling == 1.0).all()
    judged = rows[rows.metric == "kind"].set_index("tutor")
    assert set(judged.by) == {"kindness"} and judged.loc["candle", "value"] == 1.0
    page = (checkout / "results/report/index.html").read_text(encoding="utf-8")
    assert "All riddles" in page and "I have keys and open no door" in page and "Riddler" in page
    assert set(table.benchmark) == {"riddles", "mathtutorbench"}


def test_an_extension_adds_a_benchmark_without_a_changed_file(checkout: Path, tmp_path: Path) -> None:
    """The toy benchmark in a folder elsewhere is used by the run that names the folder, and by no other."""
    extension = tmp_path / "my riddles"
    shutil.copytree(TOY / "code", extension / "workflow/maieutic/benchmarks/riddles")
    shutil.copytree(TOY / "resources", extension / "resources/benchmarks/riddles")
    before = checksums(checkout)
    with serving(answering(lambda prompt: json.dumps({"Kind": "Yes" if "candle" in prompt else "No"}))) as address:
        run_file = run_file_of_riddles(checkout, address, extensions=[str(extension)])
        done = run(checkout, run_file)
    assert done.returncode == 0, done.stdout
    checked = maieutic(checkout, "check", str(extension), "--configfile", str(run_file))
    assert checked.returncode == 0, checked.stderr
    assert "cards: 1, rubrics: 1, benchmarks with code: 1 are valid; tasks run by trivial tutors: 1;" in checked.stderr
    assert "Riddler" in (checkout / "results/checks/my riddles/index.html").read_text(encoding="utf-8")
    check_riddles(checkout)
    assert {name for name, digest in checksums(checkout).items() if before.get(name) != digest} == {"riddles.yaml"}
    without = {"models": {"mine": MINE}, "run": {"tutors": ["mine"], "tasks": ["mathtutorbench/problem_solving"]}}
    jobs = planned(checkout, overlay(checkout, {**without, "report": {"resamples": 100}}))
    assert not any("mathtutorbench" in job for job in jobs), jobs
    shared = tmp_path / "shared"
    recorded = maieutic(checkout, "share", "--out", str(shared))
    assert recorded.returncode == 2 and "a recorded configuration activates no code by itself" in recorded.stderr
    maieutic(checkout, "share", "--out", str(shared), **{VARIABLE: str(extension)})
    assert (shared / "extensions/my riddles/workflow/maieutic/benchmarks/riddles/graders.py").is_file()
    assert (shared / "extensions/my riddles/resources/benchmarks/riddles/things.yaml").is_file()
    refused = maieutic(tmp_path, "verify", str(shared))
    assert refused.returncode == 2 and f"export {VARIABLE}=" in refused.stderr
    verified = maieutic(tmp_path, "verify", str(shared), **{VARIABLE: str(extension)})
    assert verified.returncode == 0, verified.stderr
