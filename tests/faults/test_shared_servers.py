"""Servers that outlive their jobs: leases, idle timeout, eviction and shutdown, with a stub engine for vLLM."""

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

# A job that leases a server, sends one request, and keeps the lease until its standard input is closed.
JOB = """
import asyncio, json, os, sys
from pathlib import Path
from maieutic.config.models import VllmModel
from maieutic.core.logs import log_to
from maieutic.serving import devices, leased_server, eviction, server
from maieutic.serving.backends import vllm_backend
devices.FOLDER = eviction.FOLDER = server.SOCKETS = leased_server.SOCKETS = Path(os.environ["RUNTIME_FOLDER"])
log_to(None)

async def main():
    model = VllmModel.model_validate_json(sys.argv[1])
    backend, _ = vllm_backend(sys.argv[2], model, Path(sys.argv[3]), Path("server.log"), None)
    client = await backend.client()
    answer = await client.ask({"endpoint": "completions", "messages": [{"role": "user", "content": "2+2?"}], "stop": []})
    print(json.dumps({"text": answer.text, "socket": client.server.socket}), flush=True)
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
    await asyncio.sleep(0.5)  # a busy machine may report the end of the lease manager and of the input at once
    backend.check()
    await backend.close()

asyncio.run(main())
"""
# Sets the same folders for the lease manager, which the job starts as a module.
SITE = """
import os
from pathlib import Path
if os.environ.get("RUNTIME_FOLDER"):
    from maieutic.serving import devices, eviction, server
    devices.FOLDER = eviction.FOLDER = server.SOCKETS = Path(os.environ["RUNTIME_FOLDER"])
"""


class Jobs:
    """Jobs of one run, with a folder for the run and one for its sockets and locks."""

    def __init__(self, folder: Path, linger: float) -> None:
        self.folder = folder
        self.runtime_folder = Path(tempfile.mkdtemp(prefix="pool-", dir="/tmp"))  # socket paths must be short
        (folder / "site").mkdir()
        (folder / "site/sitecustomize.py").write_text(SITE)
        self.weights = self.weights_of("weights")
        # A process in place of Snakemake, which the lease managers watch.
        self.snakemake = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
        self.run = SnakemakeRun(self.snakemake.pid, process_start_ticks(self.snakemake.pid) or "", linger)
        self.jobs: list[subprocess.Popen[str]] = []

    def weights_of(self, name: str) -> Path:
        """Return the folder of the weights with a name, created if missing."""
        weights = self.folder / name
        if not weights.exists():
            weights.mkdir()
            (weights / "manifest.json").write_text('{"files": {"model.safetensors": "00"}}')
            (weights / "chat_template.jinja").write_text("{{ messages }}")
        return weights

    def job(
        self, name: str = "m", weights: str = "weights", shared: bool = True, env: dict[str, str] | None = None,
        **more: Any,
    ) -> subprocess.Popen[str]:  # fmt: skip
        """Start a job. shared: use the run's server pool; more: fields of the model's entry."""
        entry = stub_of(self.folder, pace=0.01, **{"needs": {"cpus": 1, "mem_mb": 100}, **more})
        model = VllmModel.model_validate(entry).model_dump_json()
        path = f"{self.folder / 'site'}:{ROOT / 'workflow'}:{ROOT / 'tests/stub'}:{ROOT / 'tests'}"
        run = {RUN_VARIABLE: self.run.variable() if shared else ""}
        with open(self.folder / f"job{len(self.jobs)}.log", "w", encoding="utf-8") as log:
            job = subprocess.Popen(
                [sys.executable, "-c", JOB, model, name, str(self.weights_of(weights))],
                cwd=self.folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True,
                env={
                    **os.environ, "PYTHONPATH": path, "RUNTIME_FOLDER": str(self.runtime_folder), **run, **(env or {}),
                },
            )  # fmt: skip
        self.jobs.append(job)
        return job

    def answer(self, job: subprocess.Popen[str]) -> dict[str, str]:
        """Wait until a job has its answer; return the answer's text and the server's socket."""
        assert job.stdout is not None
        line = job.stdout.readline()
        assert line, self.log(job)
        return json.loads(line)

    def log(self, job: subprocess.Popen[str]) -> str:
        return (self.folder / f"job{self.jobs.index(job)}.log").read_text()

    def finish(self, job: subprocess.Popen[str]) -> dict[str, str]:
        """Wait for a job's answer, let the job end, and return the answer's text and the server's socket."""
        answer = self.answer(job)
        job.communicate("")
        assert job.returncode == 0, self.log(job)
        return answer

    def records(self) -> list[dict[str, Any]]:
        """Return the records of the servers that have ended."""
        path = self.folder / "results/logs/servers.jsonl"
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    def lease_managers(self) -> list[int]:
        return recover.manager_pids(self.folder)


@pytest.fixture
def jobs(tmp_path: Path) -> Iterator[Callable[[float], Jobs]]:
    """Return a function that makes a `Jobs` of a new run. Its argument is the idle timeout of servers in seconds."""
    runs: list[Jobs] = []

    def make(linger: float = 60.0) -> Jobs:
        folder = tmp_path / str(len(runs))
        folder.mkdir()
        runs.append(Jobs(folder, linger))
        return runs[-1]

    yield make
    for run in runs:
        for job in (*run.jobs, run.snakemake):
            job.kill()
            job.communicate()
        recover.end_managers(run.folder)
        shutil.rmtree(run.runtime_folder)


def test_one_server_serves_one_job_after_the_other_and_ends_with_the_run(jobs: Callable[..., Jobs]) -> None:
    run = jobs()
    first, second, third = (run.finish(run.job()) for _ in range(3))
    assert first == second == third, "one server"
    assert "using the running vLLM server of m, up for " in run.log(run.jobs[1])
    [manager] = run.lease_managers()
    processes = [manager, *children(manager)]
    assert len(processes) >= 3, "the lease manager, the server and its worker"
    run.snakemake.communicate(b"\n")
    until(lambda: not alive(processes), "the end of an idle server with its run")
    [record] = run.records()
    assert (record["model"], record["jobs"], record["end"]) == ("m", 3, "the run has ended")
    assert record["start_seconds"] > 0 and record["busy_seconds"] > 0 and record["idle_seconds"] > 0
    assert not list(run.runtime_folder.glob("maieutic-*/*/*")), "its sockets are removed"


def test_an_idle_server_ends_after_its_timeout(jobs: Callable[..., Jobs]) -> None:
    run = jobs(0.5)
    run.finish(run.job())
    until(lambda: not run.lease_managers(), "the end of the server after its idle timeout")
    assert [record["end"] for record in run.records()] == ["idle timeout"]
    assert 0.5 <= run.records()[0]["idle_seconds"] < 20
    assert run.finish(run.job())["text"], "the next job starts another server"


@pytest.mark.parametrize("run_state", ["not named", "ended"])
def test_without_a_run_a_server_ends_with_its_job(run_state: str, jobs: Callable[..., Jobs]) -> None:
    run = jobs()
    if run_state == "ended":
        run.snakemake.communicate(b"\n")
    job = run.job(shared=run_state == "ended")
    assert Path(run.answer(job)["socket"]).parent.name.startswith(f"maieutic-{job.pid}-")
    assert not run.lease_managers()
    job.communicate("")
    assert job.returncode == 0 and not list(run.runtime_folder.glob("maieutic-*"))


def test_a_server_in_use_is_leased_to_no_other_job(jobs: Callable[..., Jobs]) -> None:
    run = jobs()
    first = run.job()
    busy = run.answer(first)
    other = run.finish(run.job())
    assert busy["socket"] != other["socket"] and len(run.lease_managers()) == 2
    first.communicate("")
    assert run.finish(run.job())["socket"] in {busy["socket"], other["socket"]}


def test_other_settings_or_weights_need_another_server(jobs: Callable[..., Jobs], tmp_path: Path) -> None:
    run = jobs()
    tutor, judge = run.finish(run.job()), run.finish(run.job("judge"))
    assert tutor == judge, "a judge that uses the tutor's model uses the same server"
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
    assert pool_key(VllmModel.model_validate(base), run.weights) not in keys, "other weights in the same folder"


def test_the_server_of_a_killed_job_is_leased_again(jobs: Callable[..., Jobs]) -> None:
    run = jobs()
    victim = run.job()
    answer = run.answer(victim)
    victim.kill()
    victim.wait()
    assert run.finish(run.job()) == answer and len(run.lease_managers()) == 1


@pytest.mark.parametrize("victim", ["lease manager", "server"])
def test_a_job_reports_the_death_of_its_server(victim: str, jobs: Callable[..., Jobs]) -> None:
    run = jobs()
    job = run.job()
    run.answer(job)
    [manager] = run.lease_managers()
    below = children(manager)
    os.kill(manager if victim == "lease manager" else below[0], signal.SIGKILL)
    until(lambda: not alive([manager, *below]), "the end of lease manager, server and worker")
    job.communicate("")
    assert job.returncode != 0
    manager_died = victim == "lease manager"
    message = (
        "the lease manager of the server has ended: " if manager_died else "the vLLM server ended with exit code -9"
    )
    assert message in run.log(job)
    assert run.finish(run.job())["text"], "the next job starts another server in its place"


def test_the_failed_start_of_a_server_is_explained(jobs: Callable[..., Jobs]) -> None:
    run = jobs()
    (run.weights / "model.safetensors").write_bytes((1 << 40).to_bytes(8, "little"))
    job = run.job()
    job.communicate("")
    assert job.returncode != 0 and "a header of 1099511627776 bytes" in run.log(job)
    until(lambda: not run.lease_managers(), "the end of the lease manager, which has no server")
    [record] = run.records()
    assert (record["jobs"], record["end"]) == (0, "the start failed")


GPU = {"cpus": 1, "mem_mb": 100, "gpus": 1}


def test_an_idle_server_gives_its_device_to_another_model(jobs: Callable[..., Jobs]) -> None:
    run = jobs()
    one_gpu = {"CUDA_VISIBLE_DEVICES": "0"}
    run.finish(run.job("first", "first", env=one_gpu, needs=GPU))
    other = run.job("second", "second", env=one_gpu, needs=GPU)
    assert run.answer(other)["text"] and "waits for 1 of 1 GPUs" in run.log(other)
    expected = [("first", "evicted for another job", 1)]
    assert [(record["model"], record["end"], record["gpus"]) for record in run.records()] == expected
    third = run.job("third", "third", env=one_gpu, needs=GPU)
    time.sleep(1.5)
    assert third.poll() is None and len(run.lease_managers()) == 2, "a server in use is not evicted"
    other.communicate("")
    assert run.answer(third)["text"]


def test_a_job_of_the_same_model_waits_for_its_server(jobs: Callable[..., Jobs]) -> None:
    """The job starts no second server, because the first server uses the only device."""
    run = jobs()
    first = run.job(env={"CUDA_VISIBLE_DEVICES": "0"}, needs=GPU)
    answer = run.answer(first)
    second = run.job(env={"CUDA_VISIBLE_DEVICES": "0"}, needs=GPU)
    time.sleep(1.5)
    assert second.poll() is None and len(run.lease_managers()) == 1
    first.communicate("")
    assert run.finish(second) == answer and run.records() == []


def test_an_idle_server_shuts_down_for_a_job_that_needs_its_memory(jobs: Callable[..., Jobs]) -> None:
    run = jobs()
    run.finish(run.job())
    _, total = eviction.memory_mb()
    large = run.job("large", "large", needs={"cpus": 1, "mem_mb": 10 * total})
    assert run.finish(large)["text"] and "idle servers shut down" in run.log(large)
    assert run.records()[0]["end"] == "evicted for another job"


def test_recover_ends_the_servers_that_outlived_their_run(jobs: Callable[..., Jobs]) -> None:
    run, other = jobs(), jobs()
    run.finish(run.job())
    other.finish(other.job())
    [manager], [other_manager] = run.lease_managers(), other.lease_managers()
    processes = [manager, *children(manager)]
    recover.recover(run.folder / "results")
    assert not alive(processes) and alive([other_manager]) == [other_manager], "only servers of this folder end"
    assert run.records()[0]["end"] == "terminated by a signal"
