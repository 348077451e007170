"""`snakemake --profile slurm` on a real one-machine cluster: to the report, and through what a cluster does to jobs."""

from __future__ import annotations

import re
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from conftest import ROOT
from nodes import cluster, running_cluster
from running import environment, overlay, run, start
from small import LOCK, NAME, PATIENCE, TABLES, alive, answered, children, graders_of, journal_keys, stub_of, until

# What a site sets: here one whose jobs last seconds.
SITE = (
    "--profile", "slurm", "--slurm-init-seconds-before-status-checks", "3",
    "--set-resources", "generate_replies:slurm_partition=gpu",
)  # fmt: skip
SUBMITTED = re.compile(r"has been submitted with SLURM jobid (\d+)")
NEEDS = {"gpus": 1, "cpus": 1, "mem_mb": 3000, "runtime": 10}


def slurm(*command: str) -> str:
    """What a SLURM command says."""
    return subprocess.run(command, text=True, capture_output=True, check=True).stdout.strip()


@pytest.fixture(scope="module", autouse=True)
def up() -> Iterator[None]:
    """The cluster, for the tests of this file."""
    yield from running_cluster()


def configure(folder: Path, **model: Any) -> Path:
    """The demo with a model on a GPU, which here is a device file, served by the drills' engine."""
    entry = stub_of(folder, **{"needs": NEEDS, **model})
    return overlay(folder, {"models": {NAME: entry}, "run": {"tutors": [NAME], "max_tokens": 48}})


def state(job: str) -> str:
    """A job's state as the scheduler sees it."""
    return slurm("squeue", "--noheader", "--states=all", f"--jobs={job}", "--format=%T")


def owner(folder: Path) -> tuple[int, str]:
    """The pid and the SLURM job of the driver that wrote the journal last."""
    found: list[str] = []

    def written() -> bool:
        found[:] = (folder / LOCK).read_text(encoding="utf-8").split()
        return len(found) == 7

    until(written, "a lock that names its owner")  # it is empty for a moment when it changes hands
    return int(found[3]), found[6]


def job_of(folder: Path) -> str:
    """The SLURM job whose driver wrote the journal last."""
    return owner(folder)[1]


@pytest.fixture(scope="module")
def undisturbed(checkouts: Callable[[], Path]) -> Path:
    """The run that nothing happens to, its GPUs asked for as `gpu`."""
    folder = checkouts()
    done = run(folder, configure(folder), *SITE)
    assert done.returncode == 0, done.stdout
    (folder / "said.log").write_text(done.stdout, encoding="utf-8")
    return folder


def test_a_run_reaches_its_report(undisturbed: Path) -> None:
    assert (undisturbed / "results/report/index.html").exists()
    said = (undisturbed / "said.log").read_text(encoding="utf-8")
    (job,) = SUBMITTED.findall(said)
    assert "rule generate_replies:" in said, "what is submitted is the job that is worth an allocation"
    told = slurm("scontrol", "show", "job", job)
    assert "Partition=gpu" in told and "JobState=COMPLETED" in told
    assert "NumNodes=1" in told and "TimeLimit=00:10:00" in told and "mem=3000M" in told
    log = (undisturbed / f"results/logs/generate_replies/mathtutorbench/{NAME}.log").read_text(encoding="utf-8")
    assert f"{NAME} takes GPU 0" in log, "the device that SLURM granted"
    assert run(undisturbed, undisturbed / "overlay.yaml", *SITE, "-n").stdout.count("Nothing to be done") == 1


def test_all_benchmarks_of_a_tutor_in_one_allocation(checkouts: Callable[[], Path]) -> None:
    """servers.pack: one submitted job and one server where there is one a benchmark, and the same tables."""
    sys.path.insert(0, str(ROOT / "bench"))
    from slurm_packed import measured  # bench/slurm_packed.py, which measures the same

    tables: list[bytes] = []
    for pack, number in ((False, 3), (True, 1)):
        folder = checkouts()
        keys = {
            "tutors": [NAME],
            "max_tokens": 48,
            "tasks": ["mathtutorbench/problem_solving", "mrbench", "kmpbench/ec"],
        }
        entry = stub_of(folder, needs={**NEEDS, "gpus": 0})
        config = {"edition": "demo", "report": {"resamples": 100}, "models": {NAME: entry}, "run": keys}
        config["interpreters"] = {"serve": str(ROOT / "tests/stub/python")}
        place = ["--set-resources", f"generate_{'all_' if pack else ''}replies:slurm_partition=gpu"]
        figures, jobs = measured(folder, config, pack, [*SITE, "--slurm-keep-successful-logs", *place])
        logs = [path.read_text(encoding="utf-8") for path in (folder / "results/logs").glob("generate_*/**/*.log")]
        assert (len(jobs), sum(log.count("vLLM server ready") for log in logs)) == (number, number)
        assert sorted(figures.values())[0] == number and min(figures.values()) > 0
        if pack:
            assert "TimeLimit=00:10:00" in slurm("scontrol", "show", "job", *jobs), "the model's own needs"
        tables.append((folder / "results/report/scores.csv").read_bytes())
    assert tables[0] == tables[1]


def test_killed_by_everything_that_a_cluster_does(undisturbed: Path, checkouts: Callable[[], Path]) -> None:
    """A time limit, a cancelled job, a preempted one and a dead node in one run. GPUs are asked for as a gres."""
    total = len(journal_keys(undisturbed))
    folder = checkouts()
    # One answer at a time: the first attempt must not be done within the minute or two that its time limit takes.
    config = configure(folder, pace=0.9, concurrency=1)
    process = start(folder, config, *SITE, "--retries", "3", "--default-resources", "gpu_gres=gpu")

    def progress(share: float) -> None:
        until(lambda: len(journal_keys(folder)) >= share * total, f"{share:.0%} of {total} answers")

    progress(0.05)
    first = job_of(folder)
    assert "gres:gpu:1" in slurm("squeue", "--noheader", f"--jobs={first}", "--format=%b")
    slurm("scontrol", "update", f"JobId={first}", "TimeLimit=1")
    until(lambda: state(first) == "TIMEOUT", "the scheduler ends the job at its time limit")
    kept = len(journal_keys(folder))
    assert kept < total, "too fast a machine for this test: nothing is left to go on with"

    until(lambda: job_of(folder) != first and len(journal_keys(folder)) > kept, "the next attempt goes on")
    second = job_of(folder)
    told = slurm("scontrol", "show", "job", second)
    assert "TimeLimit=00:20:00" in told and "mem=6000M" in told, "a further attempt gets more time and memory"
    slurm("scancel", second)
    until(lambda: state(second) == "CANCELLED", "cancelled")
    kept = len(journal_keys(folder))

    until(lambda: job_of(folder) not in {first, second} and len(journal_keys(folder)) > kept, "and the next one")
    third = job_of(folder)
    driver, _ = owner(folder)
    urgent = slurm(
        "sbatch", "--parsable", "--partition=urgent", f"--nodelist={node_of(third)}", "--gpus=1", "--time=1",
        "--output=/dev/null", "--wrap=sleep 2",
    )  # fmt: skip
    until(lambda: not alive([driver]), "preempted by a job of more weight")
    kept = len(journal_keys(folder))
    until(lambda: len(journal_keys(folder)) > kept, "the scheduler starts the same job again, and it goes on")
    assert job_of(folder) == third and state(urgent) == "COMPLETED"

    node, (driver, _) = node_of(third), owner(folder)
    below = children(driver)
    cluster("fail", node)
    until(lambda: not alive([driver, *below]), "nothing survives a dead node")
    kept = len(journal_keys(folder))
    until(lambda: len(journal_keys(folder)) > kept, "the other node takes the job")
    assert node_of(job_of(folder)) != node
    cluster("start", node)

    assert process.wait(PATIENCE) == 0, (folder / "snakemake.log").read_text(encoding="utf-8")
    keys = journal_keys(folder)
    assert Counter(keys) == Counter(journal_keys(undisturbed)), "every answer once, none asked twice"
    assert answered(folder) - total <= 4 * 2, "beside them only what was in flight, two requests at each of four ends"
    for name in TABLES:
        assert (folder / name).read_bytes() == (undisturbed / name).read_bytes(), name


def node_of(job: str) -> str:
    """Where a job runs."""
    return slurm("squeue", "--noheader", f"--jobs={job}", "--format=%N")


REFUSED = {
    "unknown partition": (("--set-resources", "generate_replies:slurm_partition=gpus"), {}, "slurm_partition: 'gpus' is not a partition of this cluster. Fix: did you mean 'gpu'?"),
    "longer than the partition allows": ((), {"needs": {**NEEDS, "runtime": 1500}}, f"models.{NAME}.needs.runtime: 1500 minutes, partition gpu ends jobs after 1440. Fix: "),
    "more GPUs than a node has": ((), {"needs": {**NEEDS, "gpus": 2}}, f"models.{NAME}.needs.gpus: 2 needed on one node, the nodes of partition gpu have at most 1. Fix: "),
    "no accounting database": (("--slurm-status-command", "sacct"), {}, "slurm-status-command: found sacct, but this cluster keeps no accounting database. Fix: pass --slurm-status-command squeue"),
}  # fmt: skip


def test_reward_models_are_jobs_too(checkout: Path, tiny: Path) -> None:
    keys = {"tutors": ["echo"], "tasks": ["mathtutorbench/scaffolding_generation"], "reward_models": ["tiny-rm"]}
    done = run(checkout, overlay(checkout, {"models": graders_of(tiny), "run": keys}), *SITE)
    assert done.returncode == 0, done.stdout
    assert len(SUBMITTED.findall(done.stdout)) == 3, "train_reward_model, score_pairs, score_rewards"
    assert "win_rate" in (checkout / "results/report/scores.csv").read_text(encoding="utf-8")


@pytest.mark.parametrize(("flags", "model", "expected"), REFUSED.values(), ids=REFUSED)
def test_what_cannot_be_had_is_refused_before_anything_is_submitted(
    flags: tuple[str, ...], model: dict[str, object], expected: str, checkout: Path
) -> None:
    done = run(checkout, configure(checkout, **model), *SITE, *flags)
    assert done.returncode != 0 and "Traceback" not in done.stdout
    (line,) = [line for line in done.stdout.splitlines() if "Fix: " in line]
    assert expected in line
    assert not (checkout / "results/items").exists() and not SUBMITTED.findall(done.stdout)


def test_the_bench_of_slurm_runs_in_small() -> None:
    line = [sys.executable, "bench/slurm_overhead.py", "--jobs", "2", "--interval", "3"]
    done = subprocess.run(line, cwd=ROOT, env=environment(), capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"^\| 3 \| \d+ \| \d+ \| \d+ / \d+ \|$", done.stdout, re.MULTILINE)


def test_recover_cancels_what_a_killed_snakemake_left_in_the_queue(checkout: Path) -> None:
    """A job that waits holds no journal yet; a rerun would submit it again beside it."""
    left, other = (
        slurm("sbatch", "--parsable", "--hold", f"--chdir={place}", f"--comment={comment}", "--wrap=true")
        for place, comment in ((checkout, "rule_generate_replies_b_m"), (checkout.parent, "rule_generate_replies_b_m"))
    )
    done = subprocess.run(["make", "recover"], cwd=checkout, env=environment(), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    until(lambda: state(left) == "CANCELLED", "ours is gone")
    assert state(other) == "PENDING", "another folder's is not ours"
    slurm("scancel", other)
