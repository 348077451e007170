"""Tests of `snakemake --profile slurm` on a real one-machine cluster: whole runs, and failures of jobs and nodes."""

from __future__ import annotations

import re
import shlex
import subprocess
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from conftest import ROOT
from nodes import cluster, running_cluster
from running import command, environment, maieutic, overlay, run, start
from small import LOCK, NAME, PATIENCE, TABLES, alive, answered, children, graders_of, journal_keys, stub_of, until
from terminal_runs import lasting, run_on_terminal

# Flags that a site with jobs of a few seconds would set; with a partition file, and with a partition for one rule
QUICK = ("--profile", "slurm", "--slurm-init-seconds-before-status-checks", "3")
SITE = (*QUICK, "--slurm-partition-config", str(ROOT / "tests/slurm/partitions.yaml"))
BY_RULE = (*QUICK, "--set-resources", "generate_replies:slurm_partition=gpu")
SUBMITTED = re.compile(r"has been submitted with SLURM jobid (\d+)")
NEEDS = {"gpus": 1, "cpus": 1, "mem_mb": 3000, "runtime": 10}


def slurm(*command: str) -> str:
    """Return the output of a SLURM command."""
    return subprocess.run(command, text=True, capture_output=True, check=True).stdout.strip()


@pytest.fixture(scope="module", autouse=True)
def up() -> Iterator[None]:
    """Start the cluster for the tests of this file."""
    yield from running_cluster()


def configure(folder: Path, **model: Any) -> Path:
    """Write the demo with a model on a GPU, here a device file; the drills' stub engine serves it."""
    entry = stub_of(folder, **{"needs": NEEDS, **model})
    return overlay(folder, {"models": {NAME: entry}, "run": {"tutors": [NAME], "max_tokens": 48}})


def state(job: str) -> str:
    """Return a job's state according to the scheduler."""
    return slurm("squeue", "--noheader", "--states=all", f"--jobs={job}", "--format=%T")


def owner(folder: Path) -> tuple[int, str]:
    """Return the pid and the SLURM job of the driver that wrote the journal last."""
    words: list[str] = []

    def is_complete() -> bool:
        words[:] = (folder / LOCK).read_text(encoding="utf-8").split()
        return len(words) == 7

    until(is_complete, "a lock that names its owner")  # the file is empty for a moment when the owner changes
    return int(words[3]), words[6]


def job_of(folder: Path) -> str:
    """Return the SLURM job whose driver wrote the journal last."""
    return owner(folder)[1]


@pytest.fixture(scope="module")
def undisturbed(checkouts: Callable[[], Path]) -> Path:
    """Return a finished run without failures, whose GPUs are requested as `gpu`."""
    folder = checkouts()
    process = run(folder, configure(folder), *SITE)
    assert process.returncode == 0, process.stdout
    (folder / "output.log").write_text(process.stdout, encoding="utf-8")
    return folder


def test_a_run_reaches_its_report(undisturbed: Path) -> None:
    assert (undisturbed / "results/report/index.html").exists()
    output = (undisturbed / "output.log").read_text(encoding="utf-8")
    (job,) = SUBMITTED.findall(output)
    assert "rule generate_replies:" in output, "only the job with a model is submitted"
    job_details = slurm("scontrol", "show", "job", job)
    assert "Partition=gpu" in job_details and "JobState=COMPLETED" in job_details
    assert "NumNodes=1" in job_details and "TimeLimit=00:10:00" in job_details and "mem=3000M" in job_details
    log = (undisturbed / f"results/logs/generate_replies/mathtutorbench/{NAME}.log").read_text(encoding="utf-8")
    assert f"{NAME} takes GPU 0" in log, "the job uses the GPU that SLURM granted"
    assert run(undisturbed, undisturbed / "overlay.yaml", *SITE, "-n").stdout.count("Nothing to be done") == 1


def test_a_run_is_shown_by_a_line_per_model_from_one_process(checkout: Path) -> None:
    """The submitted job and its Snakemake write nothing to the terminal, on which no frame stays."""
    code, output = run_on_terminal(checkout, configure(checkout), *SITE, "--logger", "maieutic")
    lines = lasting(output)
    assert code == 0 and lines[-1] == "report: results/report/index.html", lines
    plain = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", output)
    assert re.search(rf"{NAME} +\d+ of about \d+ requests", plain), plain[-3000:]
    assert not any(re.search(r" of \d+ jobs|submitted|Building DAG|^\d\d:\d\d:\d\d ", line) for line in lines), lines


def test_all_jobs_of_a_run_in_one_allocation_share_one_server(checkouts: Callable[[], Path]) -> None:
    """Snakemake inside an allocation starts one server, where submitted jobs start one each. The tables are equal."""
    tables: list[bytes] = []
    for is_inside, number in ((False, 3), (True, 1)):
        folder = checkouts()
        tasks = ["mathtutorbench/problem_solving", "mrbench", "kmpbench/ec"]
        entry = stub_of(folder, needs={**NEEDS, "gpus": 0})
        run_keys = {"tutors": [NAME], "max_tokens": 48, "tasks": tasks}
        config = overlay(folder, {"models": {NAME: entry}, "run": run_keys})
        if is_inside:
            # One generation at a time, since jobs that run at once need a server each
            line = shlex.join(command(config, "--set-threads", "generate_replies=2"))
            slurm("sbatch", "--wait", "--cpus-per-task=2", "--time=10", f"--chdir={folder}", f"--wrap={line}")
        else:
            done = run(folder, config, *SITE, "--set-resources", "generate_replies:slurm_partition=gpu")
            assert done.returncode == 0 and len(SUBMITTED.findall(done.stdout)) == number, done.stdout[-3000:]
        logs = [path.read_text(encoding="utf-8") for path in (folder / "results/logs").glob("generate_*/**/*.log")]
        assert sum(log.count("vLLM server ready") for log in logs) == number
        tables.append((folder / "results/report/scores.csv").read_bytes())
    assert tables[0] == tables[1]


def test_killed_by_everything_that_a_cluster_does(undisturbed: Path, checkouts: Callable[[], Path]) -> None:
    """One run survives a time limit, a cancelled job, a preemption and a dead node. GPUs are requested as a gres."""
    total = len(journal_keys(undisturbed))
    folder = checkouts()
    # One answer at a time, so that the first attempt is not done within the one or two minutes of its time limit.
    config = configure(folder, pace=0.9, concurrency=1)
    process = start(folder, config, *SITE, "--retries", "3", "--default-resources", "gpu_gres=gpu")

    def progress(share: float) -> None:
        until(lambda: len(journal_keys(folder)) >= share * total, f"{share:.0%} of {total} answers")

    progress(0.05)
    first = job_of(folder)
    assert "gres:gpu:1" in slurm("squeue", "--noheader", f"--jobs={first}", "--format=%b")
    slurm("scontrol", "update", f"JobId={first}", "TimeLimit=1")
    until(lambda: state(first) == "TIMEOUT", "the scheduler ends the job at its time limit")
    count = len(journal_keys(folder))
    assert count < total, "the machine is too fast for this test: no answers are left"

    until(lambda: job_of(folder) != first and len(journal_keys(folder)) > count, "the next attempt goes on")
    second = job_of(folder)
    job_details = slurm("scontrol", "show", "job", second)
    assert "TimeLimit=00:20:00" in job_details
    assert "mem=6000M" in job_details, "a repeated attempt gets more time and memory"
    slurm("scancel", second)
    until(lambda: state(second) == "CANCELLED", "cancelled")
    count = len(journal_keys(folder))

    until(lambda: job_of(folder) not in {first, second} and len(journal_keys(folder)) > count, "and the next one")
    third = job_of(folder)
    driver, _ = owner(folder)
    urgent = slurm(
        "sbatch", "--parsable", "--partition=urgent", f"--nodelist={node_of(third)}", "--gpus=1", "--time=1",
        "--output=/dev/null", "--wrap=sleep 2",
    )  # fmt: skip
    until(lambda: not alive([driver]), "preempted by a job of higher priority")
    count = len(journal_keys(folder))
    until(lambda: len(journal_keys(folder)) > count, "the scheduler restarts the same job, and it continues")
    assert job_of(folder) == third and state(urgent) == "COMPLETED"

    node, (driver, _) = node_of(third), owner(folder)
    descendants = children(driver)
    cluster("fail", node)
    until(lambda: not alive([driver, *descendants]), "no process of the dead node is left")
    count = len(journal_keys(folder))
    until(lambda: len(journal_keys(folder)) > count, "the other node takes the job")
    assert node_of(job_of(folder)) != node
    cluster("start", node)

    assert process.wait(PATIENCE) == 0, (folder / "snakemake.log").read_text(encoding="utf-8")
    keys = journal_keys(folder)
    assert Counter(keys) == Counter(journal_keys(undisturbed)), "each answer once: no request is repeated"
    assert answered(folder) - total <= 4 * 2, "only requests in flight were lost: two at each of four failures"
    for name in TABLES:
        assert (folder / name).read_bytes() == (undisturbed / name).read_bytes(), name


def node_of(job: str) -> str:
    """Return the node of a job."""
    return slurm("squeue", "--noheader", f"--jobs={job}", "--format=%N")


REFUSED = {
    "unknown partition": ((*BY_RULE, "--set-resources", "generate_replies:slurm_partition=gpus"), {}, "slurm_partition: 'gpus' is not a partition of this cluster. Fix: did you mean 'gpu'?"),
    "more GPUs than in the file": (SITE, {"needs": {**NEEDS, "gpus": 2}}, f"models.{NAME}.needs: expected jobs that fit a partition of "),
    "no accounting database": ((*SITE, "--slurm-status-command", "sacct"), {}, "slurm-status-command: found sacct, but this cluster has no accounting database. Fix: pass --slurm-status-command squeue"),
}  # fmt: skip


def test_the_partition_file_is_written_from_the_cluster(tmp_path: Path) -> None:
    file = tmp_path / "partitions.yaml"
    process = maieutic(ROOT, "partitions", "--out", str(file))
    assert process.returncode == 0, process.stdout + process.stderr
    limits = yaml.safe_load(file.read_text(encoding="utf-8"))["partitions"]
    assert set(limits) == {"cpu", "gpu", "urgent"}
    assert limits["gpu"] == {"max_runtime": 1440, "max_threads": 8, "max_mem_mb": 64000, "max_gpu": 1}


def test_reward_models_are_jobs_too(checkout: Path, tiny: Path) -> None:
    keys = {"tutors": ["echo"], "tasks": ["mathtutorbench/scaffolding_generation"], "reward_models": ["tiny-rm"]}
    process = run(checkout, overlay(checkout, {"models": graders_of(tiny), "run": keys}), *SITE)
    assert process.returncode == 0, process.stdout
    assert len(SUBMITTED.findall(process.stdout)) == 3, "train_reward_model, score_pairs, score_rewards"
    assert "win_rate" in (checkout / "results/report/scores.csv").read_text(encoding="utf-8")


@pytest.mark.parametrize(("flags", "model", "expected"), REFUSED.values(), ids=REFUSED)
def test_what_cannot_be_had_is_refused_before_anything_is_submitted(
    flags: tuple[str, ...], model: dict[str, object], expected: str, checkout: Path
) -> None:
    process = run(checkout, configure(checkout, **model), *flags)
    assert process.returncode != 0 and "Traceback" not in process.stdout
    (line,) = [line for line in process.stdout.splitlines() if "Fix: " in line]
    assert expected in line
    assert not (checkout / "results/items").exists() and not SUBMITTED.findall(process.stdout)


def test_slurms_reason_for_a_rejected_job_is_among_the_last_lines(checkout: Path) -> None:
    rejected = ("--set-resources", "generate_replies:constraint=nowhere", "--retries", "0")
    process = run(checkout, configure(checkout), *SITE, *rejected)
    assert process.returncode == 1, process.stdout
    [line] = [line for line in process.stdout.splitlines() if line.startswith("failed: generate_replies")]
    assert "SLURM sbatch failed" in line and "Invalid feature specification" in line, line
    assert "no log was written" not in process.stdout


def test_recover_cancels_what_a_killed_snakemake_left_in_the_queue(checkout: Path) -> None:
    """A pending job has not locked its journal yet, so that a rerun would submit it a second time."""
    own_job, other_job = (
        slurm("sbatch", "--parsable", "--hold", f"--chdir={place}", f"--comment={comment}", "--wrap=true")
        for place, comment in ((checkout, "rule_generate_replies_b_m"), (checkout.parent, "rule_generate_replies_b_m"))
    )
    process = subprocess.run(["make", "recover"], cwd=checkout, env=environment(), capture_output=True, text=True)
    assert process.returncode == 0, process.stderr
    until(lambda: state(own_job) == "CANCELLED", "the job of this folder is cancelled")
    assert state(other_job) == "PENDING", "jobs of other folders are kept"
    slurm("scancel", other_job)
