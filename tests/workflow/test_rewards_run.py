"""Tests of runs with reward models: training, a kill during scoring, the page, and what a change runs again."""

from __future__ import annotations

import itertools
import json
import os
import re
import shutil
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import yaml
from grids import uneven
from maieutic.report import build_report
from running import overlay, planned, run, start
from small import PATIENCE, until

TASKS = ["mathtutorbench/scaffolding_generation", "mathtutorbench/mistake_location"]
BATCH = "tiny-rm/mathtutorbench/_baselines"
COMPARED_FILES = (
    "results/report/scores.csv",
    "results/validation/tiny-rm/pairs.json",
    "results/scores/mathtutorbench/echo.json",
)


def configure(folder: Path, weights: Path, **run_keys: Any) -> Path:
    """Write a run file with baseline tutors and tiny graders. A token budget of 1 keeps one busy until it is killed."""
    needs = {"cpus": 1, "mem_mb": 1000}
    train = {"base": "tiny", "mix": {"mrbench": 1.0}, "learning_rate": 1e-3, "batch_size": 8, "micro_batch": 1}
    models = {
        "tiny": {"engine": "weights", "weights": {"path": str(weights)}, "needs": needs},
        "tiny-rm": {"engine": "reward", "train": train, "token_budget": 1, "paper": "MRBench", "needs": needs},
        "tiny-untrained": {"engine": "reward", "train": {**train, "mix": {}}, "needs": needs},
        "tiny-staged": {
            "engine": "reward",
            "train": {**train, "pretrain": {"gsm8k_inpainted": 0.5}, "max_length": 256, "overlong": "cut"},
            "needs": needs,
        },
        "tiny-criteria-all": {
            "engine": "criteria",
            "train": {"base": "tiny", "criteria": ["Tutor_Tone"], "epochs": 1, "max_length": 64, "test_share": 0},
            "needs": needs,
        },
        "tiny-criteria": {
            "engine": "criteria",
            "train": {"base": "tiny", "criteria": ["Actionability"], "epochs": 1, "max_length": 64},
            "needs": needs,
        },
    }
    keys = {
        "tutors": ["echo"], "tasks": TASKS, "reward_models": ["tiny-rm"],
        "reward_comparisons": ["tiny-untrained", "tiny-staged"],
        "classifiers": ["tiny-criteria", "tiny-criteria-all"], **run_keys,
    }  # fmt: skip
    return overlay(folder, {"models": models, "run": keys, "report": {"resamples": 100}})


def journal(folder: Path) -> list[str]:
    path = folder / f"results/journal/rewards/{BATCH}.jsonl"
    return path.read_text(encoding="utf-8").splitlines() if path.exists() else []


@pytest.fixture(scope="module")
def finished(checkouts: Callable[[], Path], tiny: Path) -> Path:
    folder = checkouts()
    done = run(folder, configure(folder, tiny), OMP_NUM_THREADS="1")
    assert done.returncode == 0, done.stdout
    return folder


def test_win_rates_head_the_pedagogy_tasks(finished: Path) -> None:
    table = pd.read_csv(finished / "results/report/scores.csv")
    wins = table[(table.metric == "win_rate") & (table.scoring == "robust")].set_index("tutor")
    assert set(wins.by) == {"tiny-rm"} and wins.headline.all()
    assert set(wins.index) == {"always-ask", "always-yes", "echo", "reference", "reveal"}, "no tutors of other tasks"
    assert wins.loc["reference", "value"] == 0.0 and wins.ceiling.isna().all(), "the human reply ties with itself"
    best = wins.loc[["always-ask", "always-yes", "echo", "reveal"], "value"].max()
    assert set(wins.floor) == {best}
    clean = table[(table.metric == "win_rate_clean") & (table.tutor == "echo")].iloc[0]
    assert (clean.n, clean.missing) == (10, 0), "two of the twelve human replies are in the training pairs"
    assert set(table[table.task == "mistake_location"].by) == {"parser"}


def test_the_page_tells_what_the_graders_are_worth(finished: Path) -> None:
    page = (finished / "results/report/index.html").read_text(encoding="utf-8")
    section = page.split('data-page="#/rewards"')[1].split("<section")[0]
    for heading in (
        "Agreement with experts", "What is in the pairs", "What leaks", "Training", "Data mixes",
        "Criteria classifiers", "One dialogue, every reply", "Novice replies by score", "Speed of scoring",
    ):  # fmt: skip
        assert f"<h3>{heading}" in section, heading
    assert section.count("<svg") >= 3, "accuracy, densities, training curve"
    text = re.sub(r"<[^>]+>", " ", section)
    assert "The base has no pad token; padding uses &lt;|end|&gt;." in section
    assert "4521" in text and "482" in text and "tiny-rm" in text and "Preferring the longer reply" in text
    assert "built-in method" not in text and "None" not in text and "nan" not in text.split()
    card = (finished / "results/rewards/models/tiny-rm/README.md").read_text(encoding="utf-8")
    assert "| MRBench | 174 |" in card and "174 trained on, 0 left out" in card
    staged = json.loads((finished / "results/rewards/models/tiny-staged/training.json").read_text(encoding="utf-8"))
    first, second = staged["pretraining"]["counts"], staged["counts"]
    assert first["pairs_gsm8k_inpainted"] == first["trained"] and second["pairs_mrbench"] == second["trained"] == 174
    assert len(staged["pretraining"]["history"]) == -(-first["trained"] // 8) and len(staged["history"]) == 22
    card_of_staged = (finished / "results/rewards/models/tiny-staged/README.md").read_text(encoding="utf-8")
    assert "trained in two stages" in card_of_staged and "0.5 (first stage)" in card_of_staged
    assert "The first stage trained on" in card_of_staged
    assert "none held out, as in the paper" in section and "held out." in section
    assert "learning_rate | 0.001" in card and "20 Bridge test pairs" in card


def test_a_second_run_does_nothing_and_an_added_tutor_runs_its_own_jobs(finished: Path, tiny: Path) -> None:
    assert planned(finished, configure(finished, tiny)) == set()
    model = {"engine": "hosted", "model": "m", "base_url": "http://127.0.0.1:9/v1"}
    config = json.loads(configure(finished, tiny, tutors=["echo", "added"]).read_text(encoding="utf-8"))
    config["models"]["added"] = model
    where = "benchmark=mathtutorbench, tutor=added"
    assert planned(finished, overlay(finished, config, "more.yaml")) == {
        "save_config", "build_report", "check_report", "keep_run", "compare_tutors benchmark=mathtutorbench",
        *(f"{rule} {where}" for rule in ("generate_replies_locally", "parse_replies", "score_replies")),
        "score_rewards reward_model=tiny-rm, benchmark=mathtutorbench, batch=added",
        "grade_by_rewards benchmark=mathtutorbench, reward_model=tiny-rm, tutor=added",
    }  # fmt: skip


def test_a_larger_machine_trains_nothing_anew(finished: Path, tiny: Path) -> None:
    config = json.loads(configure(finished, tiny).read_text(encoding="utf-8"))
    config["models"]["tiny-rm"] |= {"needs": {"cpus": 2, "mem_mb": 2000}, "label": "Another label"}
    jobs = planned(finished, overlay(finished, config, "machine.yaml"))
    assert not any(job.startswith(("train", "score_pairs", "score_rewards")) for job in jobs), jobs


def test_a_run_killed_while_it_scores_ends_the_same(finished: Path, copied: Callable[[Path], Path], tiny: Path) -> None:
    """The second run starts from a copy of the finished run without any rewards."""
    folder = copied(finished)
    config = configure(folder, tiny)
    for name in ("rewards/replies", "journal/rewards", "logs", "report"):
        shutil.rmtree(folder / "results" / name)
    process = start(folder, config)
    lock = folder / f"results/journal/rewards/{BATCH}.lock"
    until(lambda: len(journal(folder)) > 5, "some scores")
    pid = int(lock.read_text(encoding="utf-8").split()[3])
    os.kill(pid, signal.SIGKILL)
    assert process.wait(PATIENCE) != 0
    before = journal(folder)
    done = run(folder, config, OMP_NUM_THREADS="1")
    assert done.returncode == 0, done.stdout
    lines = [line for line in journal(folder) if line.endswith("}")]
    keys = [json.loads(line)["key"] for line in lines]
    assert len(keys) == len(set(keys)) == len(journal(finished)) > len(before) > 5
    log = (folder / f"results/logs/score_rewards/{BATCH}.log").read_text(encoding="utf-8")
    scored = re.search(r"tiny-rm: (\d+) conversations scored", log)
    whole_lines = [line for line in before if line.endswith("}")]
    assert scored and int(scored[1]) == len(keys) - len(whole_lines), "scores in the journal are not computed again"
    for name in COMPARED_FILES:
        assert (folder / name).read_bytes() == (finished / name).read_bytes(), name


REMOVED_FILES = {
    "training failed": ["validation/tiny-rm/pairs.json", "rewards/pairs/tiny-rm.jsonl", "rewards/models/tiny-rm"],
    "scoring failed": ["rewards/replies", "grades/mathtutorbench/tiny-rm", "scores/mathtutorbench/echo.json"],
    "a tutor failed": ["replies/mathtutorbench/echo.jsonl"],
    "pairs failed": ["preferences/bridge", "preferences/mrbench", "validation"],
    "classifiers failed": ["rewards/criteria", "validation/tiny-criteria/pairs.json"],
}


@pytest.mark.parametrize("removed", REMOVED_FILES.values(), ids=REMOVED_FILES)
def test_the_partial_report_comes_whatever_is_missing(removed: list[str], finished: Path, tmp_path: Path) -> None:
    results = tmp_path / "results"
    shutil.copytree(finished / "results", results, symlinks=True, ignore=shutil.ignore_patterns("journal", "weights"))
    for name in removed:
        path = results / name
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    build_report(results / "report/config.yaml", results, tmp_path / "out", missing_ok=True)
    assert "Reward models and classifiers" in (tmp_path / "out/index.html").read_text(encoding="utf-8")


STALE_CHANGES = {
    "no reward model now": {"reward_models": []},
    "no graders now": {"reward_models": [], "reward_comparisons": [], "classifiers": []},
    "no pedagogy task now": {"tasks": TASKS[1:]},
    "classifiers only": {"reward_models": [], "reward_comparisons": []},
}


@pytest.mark.parametrize("changes", STALE_CHANGES.values(), ids=STALE_CHANGES)
def test_results_of_another_run_break_no_report(changes: dict[str, list[str]], finished: Path, tmp_path: Path) -> None:
    config = yaml.safe_load((finished / "results/report/config.yaml").read_text(encoding="utf-8"))
    config["run"] |= changes
    (tmp_path / "config.yaml").write_text(json.dumps(config), encoding="utf-8")
    build_report(tmp_path / "config.yaml", finished / "results", tmp_path / "out", missing_ok=True)
    page = (tmp_path / "out/index.html").read_text(encoding="utf-8")
    assert uneven(page) == []
    assert ('data-page="#/rewards"' in page) == (changes != STALE_CHANGES["no graders now"])


def test_items_that_the_reward_model_has_seen_in_training_are_marked(finished: Path) -> None:
    page = (finished / "results/report/index.html").read_text(encoding="utf-8")
    data = json.loads(re.search(r'id="data">(.*?)</script>', page, re.DOTALL)[1])
    marked = {
        (task.split("/")[1], row["id"], line)
        for task, parts in data["chunks"].items()
        for row, item in zip(data["shelves"][task]["rows"], itertools.chain(*parts), strict=True)
        for line in item.get("leaked", [])
    }
    expected = {
        (task, item, f"the item's {kind}, in {path.parents[1].name}")
        for path in (finished / "results/preferences").glob("*/overlap/mathtutorbench.json")
        for task, overlaps in json.loads(path.read_text(encoding="utf-8")).items()
        for kind, name in (("problem", "problems"), ("human reply", "leaked"))
        for item in overlaps[name]
    }
    assert marked == expected and expected
