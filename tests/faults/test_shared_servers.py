"""Servers that outlive their jobs: lent, idle, given way, ended; with the drills' engine in vLLM's place."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from conftest import ROOT
from maieutic.config.models import VllmModel
from maieutic.serving import eviction, recover
from maieutic.serving.leased_server import pool_key
from maieutic.serving.run_environment import RUN_VARIABLE, SnakemakeRun, process_start_ticks
from small import alive, children, stub_of, until

# A job: it takes a server, asks it something, and holds it as long as its standard input is open.
JOB = """
import asyncio, json, os, sys
from pathlib import Path
from maieutic.config.models import VllmModel
from maieutic.core.logs import log_to
from maieutic.serving import devices, leased_server, eviction, server
from maieutic.serving.backends import vllm_backend
devices.FOLDER = eviction.FOLDER = server.SOCKETS = leased_server.SOCKETS = Path(os.environ["PLACE"])
log_to(None)

async def main():
    model = VllmModel.model_validate_json(sys.argv[1])
    backend, _ = vllm_backend(sys.argv[2], model, Path(sys.argv[3]), Path("server.log"))
    client = await backend.client()
    answer = await client.ask({"endpoint": "completions", "messages": [{"role": "user", "content": "2+2?"}], "stop": []})
    print(json.dumps({"text": answer.text, "socket": client.server.socket}), flush=True)
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
    await asyncio.sleep(0.5)  # on a busy machine the end of a keeper and that of the input are read in one go
    backend.check()
    await backend.close()

asyncio.run(main())
"""
# The same places for the keeper, which the job starts as a module.
SITE = """
import os
from pathlib import Path
if os.environ.get("PLACE"):
    from maieutic.serving import devices, eviction, server
    devices.FOLDER = eviction.FOLDER = server.SOCKETS = Path(os.environ["PLACE"])
"""


class Jobs:
    """Jobs of one run, in a folder of their own."""

    def __init__(self, folder: Path, linger: float) -> None:
        self.folder = folder
        self.place = Path(tempfile.mkdtemp(prefix="pool-", dir="/tmp"))  # short, as a socket's path has to be
        (folder / "site").mkdir()
        (folder / "site/sitecustomize.py").write_text(SITE)
        self.weights = self.weights_of("weights")
        # What stands for Snakemake: a process that the keepers watch.
        self.snakemake = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
        self.run = SnakemakeRun(self.snakemake.pid, process_start_ticks(self.snakemake.pid) or "", linger)
        self.jobs: list[subprocess.Popen[str]] = []

    def weights_of(self, name: str) -> Path:
        """Weights of this name."""
        weights = self.folder / name
        if not weights.exists():
            weights.mkdir()
            (weights / "manifest.json").write_text('{"files": {"model.safetensors": "00"}}')
            (weights / "chat_template.jinja").write_text("{{ messages }}")
        return weights

    def job(
        self,
        name: str = "m",
        weights: str = "weights",
        shared: bool = True,
        env: dict[str, str] | None = None,
        **more: Any,
    ) -> subprocess.Popen[str]:
        """Start a job."""
        entry = stub_of(self.folder, pace=0.01, **{"needs": {"cpus": 1, "mem_mb": 100}, **more})
        model = VllmModel.model_validate(entry).model_dump_json()
        path = f"{self.folder / 'site'}:{ROOT / 'workflow'}:{ROOT / 'tests/stub'}:{ROOT / 'tests'}"
        run = {RUN_VARIABLE: self.run.variable() if shared else ""}
        with open(self.folder / f"job{len(self.jobs)}.log", "w", encoding="utf-8") as log:
            job = subprocess.Popen(
                [sys.executable, "-c", JOB, model, name, str(self.weights_of(weights))],
                cwd=self.folder,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                env={**os.environ, "PYTHONPATH": path, "PLACE": str(self.place), **run, **(env or {})},
            )
        self.jobs.append(job)
        return job

    def said(self, job: subprocess.Popen[str]) -> dict[str, str]:
        """What a job that has its server says."""
        assert job.stdout is not None
        line = job.stdout.readline()
        assert line, self.log(job)
        return json.loads(line)

    def log(self, job: subprocess.Popen[str]) -> str:
        return (self.folder / f"job{self.jobs.index(job)}.log").read_text()

    def finish(self, job: subprocess.Popen[str]) -> dict[str, str]:
        """A job from its answer to its end."""
        told = self.said(job)
        job.communicate("")
        assert job.returncode == 0, self.log(job)
        return told

    def records(self) -> list[dict[str, Any]]:
        """The servers that have ended."""
        path = self.folder / "results/logs/servers.jsonl"
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    def keepers(self) -> list[int]:
        return recover.manager_pids(self.folder)


@pytest.fixture
def jobs(tmp_path: Path) -> Iterator[Callable[[float], Jobs]]:
    made: list[Jobs] = []

    def make(linger: float = 60.0) -> Jobs:
        folder = tmp_path / str(len(made))
        folder.mkdir()
        made.append(Jobs(folder, linger))
        return made[-1]

    yield make
    for one in made:
        for job in (*one.jobs, one.snakemake):
            job.kill()
            job.communicate()
        recover.end_managers(one.folder)
        shutil.rmtree(one.place)


def test_one_server_serves_one_job_after_the_other_and_ends_with_the_run(jobs: Callable[..., Jobs]) -> None:
    run = jobs()
    first, second, third = (run.finish(run.job()) for _ in range(3))
    assert first == second == third, "one server"
    assert "using the running vLLM server of m, up for " in run.log(run.jobs[1])
    [keeper] = run.keepers()
    below = [keeper, *children(keeper)]
    assert len(below) >= 3, "the keeper, the server and its worker"
    run.snakemake.communicate(b"\n")
    until(lambda: not alive(below), "an idle server ends with its run")
    [record] = run.records()
    assert (record["model"], record["jobs"], record["end"]) == ("m", 3, "the run has ended")
    assert record["start_seconds"] > 0 and record["busy_seconds"] > 0 and record["idle_seconds"] > 0
    assert not list(run.place.glob("maieutic-*/*/*")), "its sockets are gone"


def test_nobody_comes(jobs: Callable[..., Jobs]) -> None:
    run = jobs(0.5)
    run.finish(run.job())
    until(lambda: not run.keepers(), "it ends after a while")
    assert [record["end"] for record in run.records()] == ["idle timeout"]
    assert 0.5 <= run.records()[0]["idle_seconds"] < 20
    assert run.finish(run.job())["text"], "and the next job starts another one"


@pytest.mark.parametrize("run_is", ["not named", "gone"])
def test_without_a_run_a_server_ends_with_its_job(run_is: str, jobs: Callable[..., Jobs]) -> None:
    run = jobs()
    if run_is == "gone":
        run.snakemake.communicate(b"\n")
    job = run.job(shared=run_is == "gone")
    assert Path(run.said(job)["socket"]).parent.name.startswith(f"maieutic-{job.pid}-") and not run.keepers()
    job.communicate("")
    assert job.returncode == 0 and not list(run.place.glob("maieutic-*"))


def test_a_server_in_use_is_lent_to_nobody_else(jobs: Callable[..., Jobs]) -> None:
    run = jobs()
    first = run.job()
    one = run.said(first)
    two = run.finish(run.job())
    assert one["socket"] != two["socket"] and len(run.keepers()) == 2
    first.communicate("")
    assert run.finish(run.job())["socket"] in {one["socket"], two["socket"]}


def test_what_differs_is_another_server(jobs: Callable[..., Jobs], tmp_path: Path) -> None:
    run = jobs()
    tutor, judge = run.finish(run.job()), run.finish(run.job("judge"))
    assert tutor == judge, "a judge that is the tutor's own model asks the same server"
    other = run.finish(run.job(environment={"VLLM_A": "1"}))
    assert other["socket"] != tutor["socket"]
    base = {"engine": "vllm", "weights": {"path": "x"}}
    keys = {pool_key(VllmModel.model_validate({**base, **change}), run.weights) for change in (
        {}, {"dtype": "float32"}, {"engine_args": ["--enforce-eager"]}, {"runtime_args": ["--enforce-eager"]}, {"needs": {"gpus": 1}},
        {"max_model_len": 128},
    )}  # fmt: skip
    assert len(keys) == 6
    same = [{"concurrency": 3}, {"label": "L"}, {"attempts": 2}, {"needs": {"mem_mb": 700}}]
    assert {pool_key(VllmModel.model_validate({**base, **change}), run.weights) for change in same} <= keys
    (run.weights / "manifest.json").write_text('{"files": {"model.safetensors": "01"}}')
    assert pool_key(VllmModel.model_validate(base), run.weights) not in keys, "other weights in the same place"


def test_a_killed_job_gives_its_server_back(jobs: Callable[..., Jobs]) -> None:
    run = jobs()
    victim = run.job()
    one = run.said(victim)
    victim.kill()
    victim.wait()
    assert run.finish(run.job()) == one and len(run.keepers()) == 1


@pytest.mark.parametrize("victim", ["keeper", "server"])
def test_a_job_is_told_of_the_death_of_its_server(victim: str, jobs: Callable[..., Jobs]) -> None:
    run = jobs()
    job = run.job()
    run.said(job)
    [keeper] = run.keepers()
    below = children(keeper)
    os.kill(keeper if victim == "keeper" else below[0], signal.SIGKILL)
    until(lambda: not alive([keeper, *below]), "keeper, server and worker die together")
    job.communicate("")
    assert job.returncode != 0
    words = "the lease manager of the server has ended: " if victim == "keeper" else "the vLLM server ended with -9"
    assert words in run.log(job)
    assert run.finish(run.job())["text"], "the next job starts another one in its place"


def test_a_server_that_does_not_start_says_why(jobs: Callable[..., Jobs]) -> None:
    run = jobs()
    (run.weights / "model.safetensors").write_bytes((1 << 40).to_bytes(8, "little"))
    job = run.job()
    job.communicate("")
    assert job.returncode != 0 and "a header of 1099511627776 bytes" in run.log(job)
    until(lambda: not run.keepers(), "a keeper without a server ends")
    [record] = run.records()
    assert (record["jobs"], record["end"]) == (0, "the start failed")


GPU = {"cpus": 1, "mem_mb": 100, "gpus": 1}


def test_an_idle_server_gives_its_device_to_another_model(jobs: Callable[..., Jobs]) -> None:
    run = jobs()
    one = {"CUDA_VISIBLE_DEVICES": "0"}
    run.finish(run.job("first", "first", env=one, needs=GPU))
    other = run.job("second", "second", env=one, needs=GPU)
    assert run.said(other)["text"] and "waits for 1 of 1 GPUs" in run.log(other)
    assert [(record["model"], record["end"], record["gpus"]) for record in run.records()] == [
        ("first", "evicted for another job", 1)
    ]
    third = run.job("third", "third", env=one, needs=GPU)
    time.sleep(1.5)
    assert third.poll() is None and len(run.keepers()) == 2, "one in use gives way to nobody"
    other.communicate("")
    assert run.said(third)["text"]


def test_a_job_of_the_same_model_waits_for_its_server(jobs: Callable[..., Jobs]) -> None:
    """Not for a second one on the same device, which would have to be started anew."""
    run = jobs()
    first = run.job(env={"CUDA_VISIBLE_DEVICES": "0"}, needs=GPU)
    one = run.said(first)
    second = run.job(env={"CUDA_VISIBLE_DEVICES": "0"}, needs=GPU)
    time.sleep(1.5)
    assert second.poll() is None and len(run.keepers()) == 1
    first.communicate("")
    assert run.finish(second) == one and run.records() == []


def test_an_idle_server_gives_way_to_who_needs_its_memory(jobs: Callable[..., Jobs]) -> None:
    run = jobs()
    run.finish(run.job())
    _, total = eviction.memory_mb()
    large = run.job("large", "large", needs={"cpus": 1, "mem_mb": 10 * total})
    assert run.finish(large)["text"] and "idle servers shut down" in run.log(large)
    assert run.records()[0]["end"] == "evicted for another job"


def test_recover_ends_what_outlived_its_run(jobs: Callable[..., Jobs]) -> None:
    run, other = jobs(), jobs()
    run.finish(run.job())
    other.finish(other.job())
    [keeper], [spared] = run.keepers(), other.keepers()
    below = [keeper, *children(keeper)]
    recover.recover(run.folder / "results")
    assert not alive(below) and alive([spared]) == [spared], "of this folder alone"
    assert run.records()[0]["end"] == "terminated by a signal"
