"""Tests of the documents' examples: write the files that their blocks name, and run their commands as printed."""

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
from httpserver import Folder, serving
from maieutic.config.cards import card_path, read_card
from maieutic.core.yaml_files import read_yaml
from maieutic.datasets.mrbench import LABELS
from obedient_judge import answering
from running import environment, forked_snakemake

BLOCK = re.compile(r"<!-- (file: (?P<file>\S+)|run) -->\n```\w+\n(?P<text>.*?)```", re.DOTALL)


class State(NamedTuple):
    """The scores and the page after a command of a document, and the number of requests up to then."""

    scores: pd.DataFrame
    page: str
    requests: int


def follow(document: str, checkout: Path, answer: Callable[[str], str], forked: bool = True) -> Iterator[State]:
    """Follow a document from top to bottom with a scripted endpoint; yield the state after each command.

    forked: False to start Snakemake and each job as a user does, which takes longer.
    """
    first = f"{forked_snakemake(checkout.parent / 'forked')}:" if forked else ""
    env = {**environment(), "OPENAI_API_KEY": "none"}
    handler = answering(answer)
    with serving(handler) as address:
        for block in BLOCK.finditer(Path(document).read_text(encoding="utf-8")):
            text = block["text"]
            if block["file"]:
                target = checkout / block["file"]
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_text(text.replace("https://api.openai.com", address), encoding="utf-8")
                continue
            command = ["bash", "-c", f"export PATH={first}$PWD/.venv/driver/bin:$PATH; {text}"]
            done = subprocess.run(command, cwd=checkout, env=env, text=True, capture_output=True)
            assert done.returncode == 0, done.stdout + done.stderr
            page = (checkout / "results/report/index.html").read_text(encoding="utf-8")
            yield State(pd.read_csv(checkout / "results/report/scores.csv"), page, len(handler.requests))


def test_the_guide_to_extensions_runs_as_printed(checkout: Path) -> None:
    """docs/extending.md: a user's word problems, prompt, rubric, conversations and labels."""
    kind = json.dumps({name: labels[0] for name, labels in LABELS.items()})
    problems, prompts, judged, conversations, labelled = follow(
        "docs/extending.md", checkout, lambda prompt: kind if "strict examiner" in prompt else "?"
    )
    table = problems.scores
    my_scores = table[(table.task == "my_problems") & table.headline & (table.scoring == "robust")]
    assert my_scores.set_index("tutor").value.to_dict() == {"always-0": 0.0, "echo": 0.0, "reference": 1.0}
    assert "My word problems" in problems.page
    assert set(prompts.scores.task) == {"problem_solving", "short_answers"}
    assert set(judged.scores[judged.scores.metric == "damr"].by) == {"examiner"}
    assert "No judge of the run has a rubric for the task “Error detection and correction”" in judged.page
    withheld = conversations.scores[conversations.scores.metric == "withholds_number"].set_index("tutor").value
    assert withheld.to_dict() == {"echo": 1.0, "reveal": 0.0} and "My conversations" in conversations.page
    assert judged.requests == labelled.requests > 0, "labels send no requests"
    people = json.loads((checkout / "results/validation/examiner/people.json").read_text(encoding="utf-8"))
    rows = {row["metric"]: row for row in people if row["criterion"] == "Providing_Guidance"}
    assert rows["cohen_kappa"]["n"] == 3 and rows["accuracy"]["n"] > 0
    assert "How far the annotators agree" in labelled.page and "How far the annotators agree" not in judged.page


def test_the_readmes_first_example_needs_the_driver_environment_alone(
    checkout: Path, data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From `make driver` on, with the data downloaded from a local server."""
    (checkout / ".venv").unlink()
    monkeypatch.setenv("MAIEUTIC_ENVS", str(Path(sys.executable).parents[2].resolve()))
    registry = checkout / "resources/registries/datasets.yaml"
    files = {name: entry["published"] for name, entry in read_yaml(registry)["datasets"].items()}
    with serving(partial(Folder, directory=str(data))) as address:
        text = registry.read_text(encoding="utf-8")
        for name in ("gsm8k", "stepverify"):
            text = text.replace(files[name]["url"], f"{address}/{files[name]['path']}")
        registry.write_text(text, encoding="utf-8")
        [state] = follow("README.md", checkout, lambda prompt: "Final answer: 18", forked=False)
    assert [path.name for path in (checkout / ".venv").iterdir() if path.is_symlink()] == ["driver"]
    heads = state.scores[state.scores.headline & (state.scores.tutor == "gpt-4o-mini-today")]
    assert set(heads.task) == {"problem_solving", "mistake_location"} and set(heads.n) == {50}
    assert 90 < state.requests <= 100, "equal prompts are sent once"


def transcript_answer(prompt: str) -> str:
    """Return the desired label for every dimension, and the answer A to every comparison."""
    if "Turn A:" in prompt:
        return json.dumps({"overall": "A"})
    return json.dumps(
        {name: "No" if name == "Revealing_of_the_Answer" else labels[0] for name, labels in LABELS.items()}
    )


def test_a_teams_own_conversations_are_evaluated_as_printed(checkout: Path, data: Path) -> None:
    """docs/transcripts.md: the judge is asked about each turn and checked on MRBench; then two models answer too."""
    registry = checkout / "resources/registries/datasets.yaml"
    source = read_yaml(registry)["datasets"]["mrbench"]["published"]
    handler = answering(transcript_answer)
    env = {**environment(), "OPENAI_API_KEY": "none", "GEMINI_API_KEY": "none"}
    blocks = list(BLOCK.finditer((checkout / "docs/transcripts.md").read_text(encoding="utf-8")))
    table, *commands = [block["text"] for block in blocks]
    forked = forked_snakemake(checkout.parent / "forked")

    def follow_command(text: str) -> None:
        text = re.sub(r"--configfile (\S+)", r"--configfile \1 here.yaml", text)
        line = ["bash", "-c", f"set -e; source .venv/activate; export PATH={forked}:$PATH; {text}"]
        done = subprocess.run(line, cwd=checkout, env=env, text=True, capture_output=True)
        assert done.returncode == 0, done.stdout + done.stderr

    with serving(handler) as address, serving(partial(Folder, directory=str(data))) as files:
        text = registry.read_text(encoding="utf-8").replace(source["url"], f"{files}/{source['path']}")
        registry.write_text(text, encoding="utf-8")
        names = ("gpt-4o-mini", "learnlm-1.5-pro")
        endpoints = {name: {"base_url": f"{address}/v1", "key_env": None, "thinking_as": None} for name in names}
        (checkout / "here.yaml").write_text(json.dumps({"models": endpoints}), encoding="utf-8")
        (checkout / "chats.csv").write_text(table, encoding="utf-8")
        follow_command(commands[0])
        turns, folder = 3, checkout / "results/runs/chats"
        assert len(handler.requests) == turns + 200, "each turn once, and the labelled replies"
        scores = pd.read_csv(folder / "scores.csv")
        assert set(scores.tutor.dropna()) == {"recorded"}, "no baseline"
        head = scores[scores.headline & (scores.task == "turns") & (scores.scoring == "robust")]
        assert (head.n.item(), head.clusters.item(), head.value.item()) == (turns, 2, 1.0)
        page = (folder / "index.html").read_text(encoding="utf-8")
        assert "3 tutor turns of 2 conversations" in page and "v1<small" in page and "fractions<small" in page
        before = len(handler.requests)
        follow_command(commands[1])
    scores = pd.read_csv(checkout / "results/runs/chats/scores.csv")
    robust = scores[(scores.scoring == "robust") & scores.by.notna()].set_index(["task", "tutor", "metric"])
    # The judge always prefers the turn that is shown first: each comparison flips and counts as a tie.
    for tutor in names:
        assert robust.loc[("comparison", tutor, "ties"), "value"] == 1.0
        assert robust.loc[("comparison", tutor, "position_consistency"), "value"] == 0.0
        assert robust.loc[("turns", tutor, "desired_share"), "n"] == turns
    assert ("comparison", "recorded", "ties") not in robust.index, "the given turn is not compared with itself"
    prompts = [
        json.dumps(body) for _, _, body in handler.requests[before:] if "JSON object" in json.dumps(body["messages"])
    ]
    assert len(prompts) == 2 * turns + 2 * 2 * turns, "the given turns were judged before"
    hidden = ("v1", "v2", "recorded", "learnlm", "As given")
    assert not [prompt for prompt in prompts if any(name in prompt for name in hidden)], "who answered is hidden"


def test_the_example_of_a_simulation_runs_as_printed(checkout: Path, data: Path) -> None:
    """docs/training.md: a model plays the student of every conversation."""
    (checkout / "published").symlink_to(data)
    registry = checkout / "resources/registries/models.yaml"
    handler = answering(lambda prompt: "I think it is 7." if "student" in prompt else "What did you do first?")
    file, run = [block["text"] for block in BLOCK.finditer((checkout / "docs/training.md").read_text(encoding="utf-8"))]
    with serving(handler) as address:
        entry = {**read_yaml(registry)["models"]["gpt-4o-mini"], "base_url": f"{address}/v1"}
        entries = json.dumps({"models": {"gpt-4o-mini": entry}})
        (checkout / "config/models.yaml").write_text(entries, encoding="utf-8")
        run_file = f"data_dir: published\n{file.replace('https://api.openai.com', address)}"
        (checkout / "simulation.yaml").write_text(run_file, encoding="utf-8")
        line = ["bash", "-c", f"set -e; source .venv/activate; {run}"]
        env = {**environment(), "OPENAI_API_KEY": "none"}
        done = subprocess.run(line, cwd=checkout, env=env, text=True, capture_output=True)
    assert done.returncode == 0, done.stdout + done.stderr
    page = (checkout / "results/runs/simulated/index.html").read_text(encoding="utf-8")
    assert "simulated" in page and len(handler.requests) > 400


def test_the_story_of_the_first_run_is_true(checkout: Path, data: Path) -> None:
    """docs/first-run.md: its commands, numbers of requests and location of the page."""
    datasets, models = (checkout / f"resources/registries/{name}.yaml" for name in ("datasets", "models"))
    files = {name: entry["published"] for name, entry in read_yaml(datasets)["datasets"].items()}
    text = (checkout / "docs/first-run.md").read_text(encoding="utf-8")
    handler = answering(lambda prompt: transcript_answer(prompt) if "JSON" in prompt else "Step 1")
    env = {**environment(), "OPENAI_API_KEY": "none"}
    first = forked_snakemake(checkout.parent / "forked")
    outputs = []
    with serving(handler) as address, serving(partial(Folder, directory=str(data))) as folder:
        for name in ("stepverify", "mrbench"):
            url = f"{folder}/{files[name]['path']}"
            datasets.write_text(datasets.read_text(encoding="utf-8").replace(files[name]["url"], url), encoding="utf-8")
        entry = {**read_yaml(models)["models"]["gpt-4o-mini"], "base_url": f"{address}/v1"}
        entries = json.dumps({"models": {"gpt-4o-mini": entry}})
        (checkout / "config/models.yaml").write_text(entries, encoding="utf-8")
        # The first block, `make driver`, is tested by the README's example.
        for block in list(BLOCK.finditer(text))[1:]:
            line = ["bash", "-c", f"set -e; source .venv/activate; export PATH={first}:$PATH; {block['text']}"]
            done = subprocess.run(line, cwd=checkout, env=env, text=True, capture_output=True)
            assert done.returncode == 0, done.stdout + done.stderr
            outputs.append((done.stdout + done.stderr, len(handler.requests)))
    assert (
        "gpt-4o-mini about 40" in outputs[0][0]
        and "about 280 (200 to check it on labels); between 0.07 and 0.11 USD" in outputs[0][0]
    )
    assert outputs[1][1] == 0, "checks and estimates send no request to a model"
    assert 290 < outputs[2][1] <= 320, "equal prompts are sent once"
    scores = pd.read_csv(checkout / "results/runs/trial/scores.csv")
    heads = scores[scores.headline & (scores.tutor == "gpt-4o-mini") & (scores.scoring == "robust")]
    assert set(heads.task) == {"mistake_location", "mistake_remediation"} and set(heads.n) == {20}
    assert (checkout / "results/runs/trial/index.html").is_file()


def test_a_papers_table_is_measured_again(checkout: Path, data: Path) -> None:
    """docs/benchmarks.md with the published file: the paper's value and ours can be compared."""
    (checkout / "published").symlink_to(data)
    [state] = follow("docs/benchmarks.md", checkout, lambda prompt: "0")
    heads = state.scores[state.scores.headline & (state.scores.scoring == "paper_compat")].set_index("tutor")
    items = read_card(card_path("mathtutorbench", "mistake_location")).card.items
    assert heads.loc["gpt-4o", "n"] == items and 1000 < state.requests < items, "equal prompts are sent once"
    assert heads.loc["gpt-4o", "paper"] == 0.37 and heads.loc["gpt-4o", "value"] == heads.loc["always-0", "value"]
    table = pd.read_csv(checkout / "results/report/tables/papers-mathtutorbench.csv", index_col=0, dtype=str)
    [ours] = table.loc["GPT-4o this run"]
    assert table.loc["GPT-4o general, paper"].item() == "0.37" and "[+" in ours, "with the difference"
