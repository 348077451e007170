"""Tests of runs with a scripted judge on MRBench: counts of requests, re-runs, validation, failures and exports."""

from __future__ import annotations

import json
import re
import socket
import subprocess
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pandas as pd
import pytest
from columns import spelt
from conftest import ROOT, absent
from grids import uneven
from httpserver import serving
from maieutic.datasets.mrbench import LABELS
from maieutic.report import build_report
from obedient_judge import answering
from running import NO_PAGE, maieutic, overlay, planned, run

UNREADABLE = "I would rather not say."


def answer_as_judge(prompt: str) -> str:
    """Give replies with a question mark the first labels, others the third; prefer more question marks in pairs."""
    if "[[A]]" in prompt:
        first, second = prompt.split("[The Start of Response B]")
        return "[[A]]" if first.count("?") >= second.count("?") else "Hm. [[B]]"
    reply = prompt.split("<<<DATA-")[-1].split(">>>")[0]
    if "seedlings" in reply:
        return UNREADABLE
    return json.dumps({name: labels[0 if "?" in reply else 2] for name, labels in LABELS.items()})


@pytest.fixture(scope="module")
def judge_server() -> Iterator[tuple[str, Any]]:
    handler = answering(answer_as_judge)
    with serving(handler) as address:
        yield address, handler


def configure(folder: Path, address: str, name: str = "overlay.yaml", **run_keys: Any) -> Path:
    common = {"engine": "judge", "model": "scripted", "rubrics": ["mrbench_taxonomy"]}
    models = {
        "scripted": {"engine": "hosted", "model": "m", "base_url": f"{address}/v1", "price": {"input": 1, "output": 2}},
        "strict": {**common, "pairs": ["pairs_simple"], "label": "A strict judge"},
        "second": common,
    }
    keys = {
        "tutors": ["reference", "echo"], "tasks": ["mrbench"], "judges": ["strict"], "max_unreadable": 0.2, **run_keys,
    }  # fmt: skip
    return overlay(folder, {"models": models, "run": keys, "report": {"resamples": 100}}, name)


@pytest.fixture(scope="module")
def finished(checkouts: Callable[[], Path], judge_server: tuple[str, Any]) -> Path:
    folder = checkouts()
    done = run(folder, configure(folder, judge_server[0]))
    assert done.returncode == 0, done.stdout
    (folder / "said.txt").write_text(f"{len(judge_server[1].requests)} requests\n{done.stdout}", encoding="utf-8")
    return folder


def test_a_run_says_what_it_will_ask_and_what_it_has_paid(
    finished: Path, judge_server: tuple[str, Any], copied: Callable[[Path], Path]
) -> None:
    address, handler = judge_server
    first, *output_lines = (finished / "said.txt").read_text(encoding="utf-8").splitlines()
    [line] = [line for line in output_lines if line.startswith("requests sent: ")]
    requests = first.split()[0]
    unknown = f"cost unknown: strict ({requests} requests without usage)"  # the scripted server reports none
    assert line == f"requests sent: strict {requests} (tokens not reported); {unknown}"
    ranking = json.loads((finished / "results/report/ranking.json").read_text(encoding="utf-8"))
    sentence = next(entry["sentence"] for entry in ranking if entry["scoring"] == "robust")
    page = output_lines.index("report: results/report/index.html")
    finding, *ranked = output_lines[output_lines.index(line) + 1 : page]
    assert finding == f"finding: {sentence}"
    assert all(re.match(r"  (\d+ (to \d+ )?of \d+  \S|and \d+ more)", entry) for entry in ranked) and len(ranked) < 7
    folder = copied(finished)
    config = configure(folder, address)
    assert run(folder, config, "-n").stdout.strip().splitlines()[-1] == "new requests: none"
    # After a change of one word in a prompt, the dry run counts the new requests of many planned jobs.
    prompt = folder / "resources/benchmarks/mrbench/rubrics/mrbench_taxonomy.jinja"
    prompt.write_text(prompt.read_text(encoding="utf-8").replace("tutor", "teacher", 1), encoding="utf-8")
    count_line = run(folder, config, "-n").stdout.strip().splitlines()[-1]
    before = len(handler.requests)
    done = run(folder, config, *NO_PAGE)
    assert done.returncode == 0, done.stdout
    new = len(handler.requests) - before
    assert new > 20 and re.fullmatch(
        rf"new requests: strict {new} \(\d+ to check it on labels\); between 0\.\d+ and 0\.\d+ USD", count_line
    ), count_line


def test_requests_of_a_larger_limit_are_counted_before_they_are_sent(
    judge_server: tuple[str, Any], checkouts: Callable[[], Path]
) -> None:
    """More requests are estimated than answers are on file, so that the model is surely called: its key is required."""
    folder = checkouts()
    config = configure(folder, judge_server[0], limit=2)
    assert run(folder, config, *NO_PAGE).returncode == 0
    larger = configure(folder, judge_server[0], "larger.yaml", limit=6)
    raw = json.loads(larger.read_text(encoding="utf-8"))
    raw["models"]["scripted"]["key_env"] = "A_KEY_THAT_NOBODY_HAS"
    larger.write_text(json.dumps(raw), encoding="utf-8")
    count_line = run(folder, larger, "-n").stdout.strip().splitlines()[-1]
    assert re.match(r"new requests: strict about \d+[; ]", count_line), count_line
    before = len(judge_server[1].requests)
    done = run(folder, larger)
    assert done.returncode != 0 and "A_KEY_THAT_NOBODY_HAS is not set" in done.stdout
    assert len(judge_server[1].requests) == before


def test_verdicts_head_the_task_with_floor_and_ceiling(finished: Path) -> None:
    table = pd.read_csv(finished / "results/report/scores.csv")
    damr = table[(table.metric == "damr") & (table.scoring == "robust")].set_index("tutor")
    assert set(damr.by) == {"strict"} and damr.headline.all()
    assert set(damr.index) == {"always-ask", "reference", "reveal"}
    unjudged = table[table.tutor == "echo"]
    assert len(unjudged) > 0 and not unjudged.headline.any(), "the judge does not judge trivial tutors of other tasks"
    assert damr.loc["always-ask", "value"] == 7 / 8, "every first label but that of revealing is the desired one"
    assert damr.loc["reveal", "value"] < damr.loc["always-ask", "value"] == damr.floor.iloc[0]
    assert damr.loc["reveal", "missing"] > 0, "unreadable verdicts are missing, not wrong"
    parts = table[(table.tutor == "reference") & (table.scoring == "robust")].set_index("metric")
    expected = parts.loc["actionability", "n"]
    assert parts.loc["actionability_bridge", "n"] + parts.loc["actionability_mathdial", "n"] == expected
    assert parts.loc["damr_bridge", "n"] < parts.loc["damr", "n"]


def test_the_pages_say_what_the_judge_is_worth(finished: Path) -> None:
    page = (finished / "results/report/index.html").read_text(encoding="utf-8")
    assert uneven(page) == []
    trust = page.split('data-page="#/trust"')[1].split("<section")[0]
    assert 'class="light red"' in trust and "A strict judge" in trust and "86 replies to 16 dialogues" in trust
    assert "Agreement by dimension" in trust and "<svg" in trust and "What the judges are asked" in trust
    labels = page.split('data-page="#/labels"')[1].split("<section")[0]
    assert "16 dialogues (16 distinct), 86 replies, 688 labels" in labels and "A strict judge, judge" in labels
    board = page.split('data-page="#/task/mrbench/mistake_remediation"')[1].split("<section")[0]
    assert '<a href="#/trust">strict</a>' in board
    for section in (trust, labels):
        text = re.sub(r"<[^>]+>", " ", section)
        assert "built-in method" not in text and "None" not in text and "nan" not in text.split()
    pairs = json.loads((finished / "results/validation/strict/pairs.json").read_text(encoding="utf-8"))
    values = {spelt(row): row["value"] for row in pairs}
    assert 0 < values["pair_accuracy/pairs_simple"] <= 1 and values["unreadable/pairs_simple"] == 0


def test_a_second_run_asks_nothing_and_a_second_judge_runs_its_own_jobs(
    finished: Path, judge_server: tuple[str, Any]
) -> None:
    address, handler = judge_server
    assert planned(finished, configure(finished, address)) == set()
    before = len(handler.requests)
    more = configure(finished, address, "more.yaml", judges=["strict", "second"])
    assert planned(finished, more) == {
        "save_config", "build_report", "check_report", "keep_run", "check_judges",
        "compare_tutors benchmark=mrbench",
        "judge_labelled_locally judge=second", "validate_judge judge=second",
        "judge_replies_locally judge=second, benchmark=mrbench, batch=_baselines",
        *(f"score_replies benchmark=mrbench, tutor={name}" for name in ("always-ask", "reference", "reveal")),
        *(
            f"grade_verdicts benchmark=mrbench, judge=second, tutor={name}"
            for name in ("always-ask", "reference", "reveal")
        ),
    }  # fmt: skip
    forced = run(
        finished, configure(finished, address), "--forcerun", "judge_labelled_locally", "judge_replies_locally"
    )
    assert forced.returncode == 0 and len(handler.requests) == before, "every answer is in the journal"


def test_an_added_tutor_is_judged_alone(finished: Path, judge_server: tuple[str, Any]) -> None:
    config = json.loads(
        configure(finished, judge_server[0], tutors=["reference", "echo", "added"]).read_text(encoding="utf-8")
    )
    config["models"]["added"] = {"engine": "hosted", "model": "m", "base_url": "http://127.0.0.1:9/v1"}
    where = "benchmark=mrbench, tutor=added"
    assert planned(finished, overlay(finished, config, "tutor.yaml")) == {
        "save_config", "build_report", "check_report", "keep_run", "check_judges",
        *(f"{rule} {where}" for rule in ("generate_replies_locally", "parse_replies", "score_replies")),
        "compare_tutors benchmark=mrbench",
        "judge_replies_locally judge=strict, benchmark=mrbench, batch=added",
        "grade_verdicts benchmark=mrbench, judge=strict, tutor=added",
    }  # fmt: skip


def test_unreadable_verdicts_fail_the_run_after_its_report(finished: Path, judge_server: tuple[str, Any]) -> None:
    page = finished / "results/report/index.html"
    done = run(finished, configure(finished, judge_server[0], "strict.yaml", max_unreadable=0.01))
    assert done.returncode != 0 and page.exists()
    assert "the report was written: results/report/index.html" in done.stdout
    assert not (finished / "results/report/partial").exists()
    log = (finished / "results/logs/check_judges.log").read_text(encoding="utf-8")
    assert re.search(
        r"run.max_unreadable: too many verdicts cannot be parsed: strict \(\d+ of \d+, 1.0% allowed\)", log
    )
    again = run(finished, configure(finished, judge_server[0]))
    assert again.returncode == 0, again.stdout


REMOVED_FILES = {
    "validation failed": ["validation"],
    "judging failed": ["verdicts", "grades/mrbench/strict", "validation", "scores/mrbench"],
    "labels failed": ["labels", "scores/labels", "validation"],
}


@pytest.mark.parametrize("removed", REMOVED_FILES.values(), ids=REMOVED_FILES)
def test_the_partial_report_comes_whatever_is_missing(removed: list[str], finished: Path, tmp_path: Path) -> None:
    import shutil

    results = tmp_path / "results"
    shutil.copytree(finished / "results", results, symlinks=True, ignore=shutil.ignore_patterns("journal", "weights"))
    for name in removed:
        shutil.rmtree(results / name)
    build_report(results / "report/config.yaml", results, tmp_path / "out", missing_ok=True)
    page = (tmp_path / "out/index.html").read_text(encoding="utf-8")
    assert "How far the graders can be trusted" in page and 'class="light grey"' in page
    assert uneven(page) == [] and ("its job failed or has not run" in page) == ("validation" in removed)


PEERS = ROOT / ".venv/peers/bin"


def test_exports_are_opened_by_the_tools_that_they_are_for(finished: Path, tmp_path: Path) -> None:
    """The tools: Inspect's viewer, RO-Crate's validator."""
    if not (PEERS / "rocrate-validator").exists():
        absent("the environment of other harnesses", "run envs/setup peers")
    exported = maieutic(finished, "export", "inspect", "--out", str(tmp_path / "inspect"))
    assert exported.returncode == 0, exported.stderr
    with open(tmp_path / "port.txt", "w+") as viewer_output:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        viewer = subprocess.Popen(
            [PEERS / "inspect", "view", "start", "--log-dir", tmp_path / "inspect", "--port", str(port)],
            stdout=viewer_output, stderr=viewer_output,
        )  # fmt: skip
        try:
            address = f"http://127.0.0.1:{port}/api/logs"
            logs = {log["task"]: log["name"] for log in json_of(address)["files"]}
            assert "mrbench-mistake-remediation-reference" in logs
            inspect_log = json_of(f"{address}/{quote(logs['mrbench-mistake-remediation-reference'], safe='')}")
        finally:
            viewer.kill()
            viewer.wait()
    table = pd.read_csv(finished / "results/report/scores.csv")
    damr = table[(table.metric == "damr") & (table.scoring == "robust") & (table.tutor == "reference")].value.iloc[0]
    assert inspect_log["results"]["scores"][0]["metrics"]["damr_robust"]["value"] == pytest.approx(damr, abs=1e-6)
    assert any("judge/strict/Actionability" in sample["scores"] for sample in inspect_log["samples"])
    shared = maieutic(finished, "share", "--out", str(tmp_path / "run"), "--journals", "--author", "A. Reader")
    assert "to check the run, type: maieutic verify" in shared.stderr and shared.returncode == 0, shared.stderr
    check = subprocess.run(
        [PEERS / "python", ROOT / "tests/validate_crate.py", tmp_path / "run"], capture_output=True, text=True
    )
    assert check.returncode == 0 and "as required" in check.stdout, check.stdout
    assert subprocess.run(["sha256sum", "-c", "--quiet", "manifest-sha256.txt"], cwd=tmp_path / "run").returncode == 0
    assert list((tmp_path / "run/results/journal").rglob("*.jsonl")), "--journals includes the journal"
    verified = maieutic(tmp_path, "verify", str(tmp_path / "run"))
    assert verified.returncode == 0, verified.stderr
    verify_output = verified.stderr
    assert "recomputed, with the same values in every column: " in verify_output, verify_output
    assert all(f"results/{folder} (" in verify_output for folder in ("grades", "report", "scores", "validation"))


def json_of(address: str, timeout: float = 60) -> Any:
    """Wait until a starting server answers, and return its answer parsed as JSON."""
    until = time.monotonic() + timeout
    while True:
        try:
            with urllib.request.urlopen(address, timeout=timeout) as answer:
                return json.load(answer)
        except OSError:
            assert time.monotonic() < until, f"{address} does not answer"
            time.sleep(0.2)
