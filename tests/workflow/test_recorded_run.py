"""Tests of recorded replies as a tutor: export the items, read a file of replies, and accept an incomplete file."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Callable
from pathlib import Path

import pandas as pd
from running import maieutic, overlay, planned, run

TASKS = ["mathtutorbench/problem_solving", "kmpbench/fqa"]
ODD_NAME = "our 'replies' $(touch pwned).jsonl"  # a file name that is harmful if a shell expands it


def test_a_file_of_replies_is_a_tutor(checkouts: Callable[[], Path]) -> None:
    folder = checkouts()
    config = overlay(folder, {"models": {}, "run": {"tutors": ["echo"], "tasks": TASKS}})
    done = maieutic(folder, "items", "--configfile", str(config), "--out", "to be answered")
    assert done.returncode == 0, done.stderr
    done = maieutic(folder, "check-graders", "--configfile", str(config))
    assert done.returncode == 0 and "0 failures" in done.stderr, done.stderr
    assert all(f"{task}, " in done.stderr for task in TASKS)
    records = [
        json.loads(text)
        for task in TASKS
        for text in (folder / f"to be answered/{task}.jsonl").read_text(encoding="utf-8").splitlines()
    ]
    items = {task: sum(record["task"] == task for record in records) for task in TASKS}
    answered = []
    for number, record in enumerate(records):
        record["reply"] = ["Final answer: 1"] * 3 if isinstance(record["reply"], list) else "Final answer: 1"
        if number % 2:
            answered.append({name: record[name] for name in ("id", "task", "reply")})
    (folder / ODD_NAME).write_text("".join(json.dumps(record) + "\n" for record in answered), encoding="utf-8")
    ours = {"models": {"ours": {"engine": "recorded", "file": ODD_NAME}}, "run": {"tutors": ["ours"], "tasks": TASKS}}
    config = overlay(folder, ours, "ours.yaml")
    done = run(folder, config)
    assert done.returncode == 0, done.stdout
    assert not (folder / "pwned").exists() and planned(folder, config) == set()
    # A file that is deleted after the run, as an error message may ask for, is made again although the page exists.
    files = [folder / f"results/{name}" for name in ("replies/kmpbench/ours.jsonl", "report/scores.csv")]
    before = [path.read_bytes() for path in files]
    for path in files:
        path.unlink()
    done = run(folder, config)
    assert done.returncode == 0 and [path.read_bytes() for path in files] == before, done.stdout
    assert planned(folder, config) == set()
    table = pd.read_csv(folder / "results/report/scores.csv")
    heads = table[table.headline & (table.tutor == "ours") & (table.scoring == "robust")].set_index("task")
    for task in TASKS:
        row, n_replies = heads.loc[task.rpartition("/")[2]], sum(record["task"] == task for record in answered)
        assert (row.n, row.missing) == (n_replies, items[task] - n_replies) and 0 < n_replies < items[task]
    # A trial run under another name has its own page, and does not change the page of this run.
    page = (folder / "results/report/index.html").read_bytes()
    assert b"Replies were read by <code>" in page
    maieutic(folder, "export", "markdown", "--run", "results/report", "--out", "before.md")
    trial = overlay(folder, {**ours, "run": {**ours["run"], "name": "trial", "limit": 2}}, "trial.yaml")
    done = run(folder, trial)
    assert done.returncode == 0 and "report: results/runs/trial/index.html" in done.stdout, done.stdout
    assert (folder / "results/report/index.html").read_bytes() == page
    assert set(pd.read_csv(folder / "results/runs/trial/scores.csv").n.dropna()) <= {0, 1, 2}
    maieutic(folder, "export", "markdown", "--run", "results/report", "--out", "after.md")
    exports = [(folder / name).read_bytes() for name in ("before.md", "after.md")]
    assert exports[0] == exports[1], "exported from the files that the first run keeps"
    with open(folder / ODD_NAME, "a", encoding="utf-8") as handle:
        handle.write('{"id": "gsm8k-99999", "reply": "x"}\n')
    done = run(folder, config)
    # No id is similar enough to be suggested. The command names this run's own file.
    fix = "run `maieutic items --configfile "
    assert done.returncode == 1 and f"there is no item 'gsm8k-99999'. Fix: {fix}" in done.stdout
    assert config.name in done.stdout.partition(fix)[2].partition("`")[0]


def test_a_run_without_tutors_shows_floors_ceilings_and_released_labels(
    checkouts: Callable[[], Path], data: Path
) -> None:
    folder = checkouts()
    chosen = {"tutors": [], "tasks": ["mathtutorbench/problem_solving", "mrbench"], "labels": ["mrbench"], "limit": 20}
    done = run(folder, overlay(folder, {"edition": "published", "data_dir": str(data), "run": chosen}))
    assert done.returncode == 0, done.stdout
    assert "requests sent: none" in done.stdout
    page = (folder / "results/report/index.html").read_text(encoding="utf-8")
    assert "released data only" in page and "No tutor is evaluated in this run." in page
    measured = r"208 of 208 printed cells measured</b>:\s*<b>6 reproduced</b>, 0 differ, 202 of another release"
    assert re.search(measured, page)
    assert 'data-start="#/printed"' in page, "such a run opens on the papers' numbers"
    tally = (
        pd.read_csv(folder / "results/report/tables/printed-every-printed-number.csv").set_index("Paper").loc["MRBench"]
    )
    assert (
        tally[["printed", "reproduced", "another release"]].tolist() == [534, 16, 242]
        and "differ" not in tally.dropna()
    )
    assert "V1 has 53 dialogues from Bridge and 139 from MathDial; the paper counts 60 and 132." in page
    assert "63 of Table 3's 64 values" in html.unescape(page) and "Tutor Tone: 92.19 instead of 12.19" in page
    scores = pd.read_csv(folder / "results/report/scores.csv")
    heads = scores[scores.headline & (scores.scoring == "robust")].set_index("tutor").value
    assert heads["reference"] == 1 and heads["always-0"] < 0.2
