"""What stands in the documents runs as it stands: files that a block names are written, commands are typed."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import NamedTuple

import pandas as pd
import pytest
from gullible import answering
from httpserver import Folder, serving
from maieutic.config.cards import card_path, read_card
from maieutic.core.yaml_files import read_yaml
from maieutic.datasets.mrbench import LABELS
from running import environment

BLOCK = re.compile(r"<!-- (file: (?P<file>\S+)|run) -->\n```\w+\n(?P<text>.*?)```", re.DOTALL)


class Ran(NamedTuple):
    """What a command of a document has left: the scores, the page, and how many requests were sent by then."""

    scores: pd.DataFrame
    page: str
    requests: int


def typed(document: str, checkout: Path, answer: Callable[[str], str]) -> Iterator[Ran]:
    """A document from top to bottom; its hosted endpoints are a scripted one."""
    environ = {**environment(), "OPENAI_API_KEY": "none"}
    handler = answering(answer)
    with serving(handler) as address:
        for block in BLOCK.finditer(Path(document).read_text(encoding="utf-8")):
            text = block["text"]
            if block["file"]:
                target = checkout / block["file"]
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_text(text.replace("https://api.openai.com", address), encoding="utf-8")
                continue
            line = ["bash", "-c", f"export PATH=$PWD/.venv/driver/bin:$PATH; {text}"]
            done = subprocess.run(line, cwd=checkout, env=environ, text=True, capture_output=True)
            assert done.returncode == 0, done.stdout + done.stderr
            page = (checkout / "results/report/index.html").read_text(encoding="utf-8")
            yield Ran(pd.read_csv(checkout / "results/report/scores.csv"), page, len(handler.requests))


def test_what_stands_in_the_documents_runs(checkout: Path) -> None:
    """docs/extending.md: own word problems, an own prompt, an own rubric, own labels."""
    kind = json.dumps({name: labels[0] for name, labels in LABELS.items()})
    problems, prompts, judged, labelled = typed(
        "docs/extending.md", checkout, lambda prompt: kind if "strict examiner" in prompt else "?"
    )
    table = problems.scores
    mine = table[(table.task == "my_problems") & table.headline & (table.scoring == "robust")]
    assert mine.set_index("tutor").value.to_dict() == {"always-0": 0.0, "echo": 0.0, "reference": 1.0}
    assert "My word problems" in problems.page
    assert set(prompts.scores.task) == {"problem_solving", "short_answers"}
    assert set(judged.scores[judged.scores.metric == "damr"].by) == {"examiner"}
    assert "No judge of the run has a rubric for “Error detection and correction”" in judged.page
    assert judged.requests == labelled.requests > 0, "labels ask nobody anything"
    people = json.loads((checkout / "results/validation/examiner/people.json").read_text(encoding="utf-8"))
    found = {one["metric"]: one for one in people if one["criterion"] == "Providing_Guidance"}
    assert found["cohen_kappa"]["n"] == 3 and found["accuracy"]["n"] > 0
    assert "How far the annotators agree" in labelled.page and "How far the annotators agree" not in judged.page


def test_the_readmes_first_example_needs_the_driver_environment_alone(
    checkout: Path, data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As it stands, from `make driver` on: the data are downloaded, from a server that stands beside."""
    (checkout / ".venv").unlink()
    monkeypatch.setenv("MAIEUTIC_ENVS", str(Path(sys.executable).parents[2].resolve()))
    registry = checkout / "config/datasets.yaml"
    files = {name: entry["published"] for name, entry in read_yaml(registry)["datasets"].items()}
    with serving(partial(Folder, directory=str(data))) as address:
        text = registry.read_text(encoding="utf-8")
        for name in ("gsm8k", "stepverify"):
            text = text.replace(files[name]["url"], f"{address}/{files[name]['path']}")
        registry.write_text(text, encoding="utf-8")
        [ran] = typed("README.md", checkout, lambda prompt: "Final answer: 18")
    assert [path.name for path in (checkout / ".venv").iterdir() if path.is_symlink()] == ["driver"]
    heads = ran.scores[ran.scores.headline & (ran.scores.tutor == "gpt-4o-mini-today")]
    assert set(heads.task) == {"problem_solving", "mistake_location"} and set(heads.n) == {50}
    assert 90 < ran.requests <= 100, "equal prompts are asked once"


def test_a_papers_table_is_asked_again(checkout: Path, data: Path) -> None:
    """docs/benchmarks.md, on the published file: the printed value, ours, and nothing that hinders the comparison."""
    (checkout / "published").symlink_to(data)
    [ran] = typed("docs/benchmarks.md", checkout, lambda prompt: "0")
    heads = ran.scores[ran.scores.headline & (ran.scores.scoring == "paper_compat")].set_index("tutor")
    items = read_card(card_path("mathtutorbench", "mistake_location")).card.items
    assert heads.loc["gpt-4o", "n"] == items and 1000 < ran.requests < items, "equal prompts are asked once"
    assert heads.loc["gpt-4o", "paper"] == 0.37 and heads.loc["gpt-4o", "value"] == heads.loc["always-0", "value"]
    table = pd.read_csv(checkout / "results/report/tables/papers-mathtutorbench.csv", index_col=0, dtype=str)
    [ours] = table.loc["GPT-4o this run"]
    assert table.loc["GPT-4o general, paper"].item() == "0.37" and "[+" in ours, "with the difference"
