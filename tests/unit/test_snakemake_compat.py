"""Tests that the pinned Snakemake has the undocumented attributes that the package reads."""

from __future__ import annotations

import signal
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import snakemake.cli
import snakemake.common
from maieutic.core.rule_functions import with_parameters
from maieutic.launch import snakemake_compat
from snakemake.api import SnakemakeApi
from snakemake.common import get_function_params, get_input_function_aux_params
from snakemake.resources import Resource
from snakemake.settings.types import (
    ConfigSettings,
    DAGSettings,
    DeploymentSettings,
    OutputSettings,
    ResourceSettings,
    StorageSettings,
    WorkflowSettings,
)

RULES = """
rule all:
    input: "out.txt"
rule write:
    output: "out.txt"
    container: "docker://image"
    shell: "echo {config[text]} > {output}"
"""


@pytest.fixture
def workflow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return the real workflow object of a dry run."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "Snakefile").write_text(RULES, encoding="utf-8")
    (tmp_path / "run.yaml").write_text("text: hello\n", encoding="utf-8")
    with SnakemakeApi(OutputSettings(quiet=None)) as api:
        flow = api.workflow(
            resource_settings=ResourceSettings(cores=1, resources={}),
            config_settings=ConfigSettings(configfiles=[tmp_path / "run.yaml"]), storage_settings=StorageSettings(),
            workflow_settings=WorkflowSettings(), deployment_settings=DeploymentSettings(),
            snakefile=tmp_path / "Snakefile",
        )  # fmt: skip
        flow.dag(DAGSettings()).execute_workflow(executor="dryrun")
        yield flow._workflow


def test_a_workflow_has_the_attributes_that_are_read(workflow: Any, tmp_path: Path) -> None:
    assert snakemake_compat.uses_containers(workflow) is False
    assert snakemake_compat.run_files(workflow) == snakemake_compat.read_config_files(workflow)
    assert snakemake_compat.run_files(workflow) == [tmp_path / "run.yaml"]
    assert snakemake_compat.default_resource(workflow, "gpu_gres") is None
    assert snakemake_compat.resource_total(workflow, "gpu") is None
    assert snakemake_compat.planned_jobs(workflow) == [], "a dry run marks its jobs as finished"
    assert snakemake_compat.failed_jobs(workflow) == [] and snakemake_compat.slurm_status_command(workflow) is None
    jobs = snakemake_compat.planned_jobs_of_dry_run(workflow)
    assert jobs is not None and {job.rule.name for job in jobs} == {"all", "write"}
    [write] = [job for job in jobs if job.rule.name == "write"]
    assert snakemake_compat.image_of_job(write) is None, "without --sdm apptainer no job has an image"
    assert write.is_local is not None and dict(write.wildcards.items()) == {} and write.resources.get("runtime") is None
    assert snakemake_compat.display_handler(workflow) is None
    beside = {job.rule.name for job in jobs if snakemake_compat.runs_beside_snakemake(job)}
    assert beside == {"all"}


def test_snakemake_computes_no_parameters_that_are_stored(monkeypatch: pytest.MonkeyPatch) -> None:
    """Functions of rules and the evaluation of resources carry their parameters, which Snakemake reads for each job."""
    computed: list[Any] = []
    monkeypatch.setattr(snakemake.common.inspect, "signature", lambda function: computed.append(function))
    snakemake_compat.store_parameters_of_resources()
    resource = Resource("mem_mb", 3)

    class Part:
        @with_parameters
        def threads(self, wildcards: Any) -> int:
            return 1

    functions = (with_parameters(lambda wildcards, attempt: attempt), Part().threads, resource.evaluate)
    parameters = [list(get_function_params(function)) for function in functions]
    assert parameters == [["wildcards", "attempt"], ["wildcards"], ["args", "kwargs"]] and computed == []
    assert get_input_function_aux_params(functions[0], {"attempt": 2, "input": ()}) == {"attempt": 2}
    assert get_input_function_aux_params(functions[2], {"attempt": 2, "input": ()}) == {"attempt": 2, "input": ()}


def test_a_sigterm_waits_for_no_lock_that_the_interrupted_code_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    """Snakemake's handler takes a lock that the main thread holds while it handles a job."""
    lock, called = threading.Lock(), threading.Event()

    def handle(*_: object) -> None:
        with lock:
            called.set()

    before = signal.signal(signal.SIGTERM, handle)
    monkeypatch.setattr(snakemake_compat, "INTERRUPTS", [])
    try:
        snakemake_compat.notice_interrupts()
        with lock:
            signal.raise_signal(signal.SIGTERM)
        assert called.wait(10)
        assert snakemake_compat.was_interrupted(SimpleNamespace(scheduler=None))
    finally:
        signal.signal(signal.SIGTERM, before)


def test_an_interrupt_between_two_jobs_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    monkeypatch.setattr(snakemake_compat, "INTERRUPTS", [])
    between_jobs = SimpleNamespace(scheduler=SimpleNamespace(running=set(), _user_kill=None))
    try:
        snakemake_compat.notice_interrupts()
        assert not snakemake_compat.was_interrupted(between_jobs)
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
        assert snakemake_compat.was_interrupted(between_jobs)
    finally:
        signal.signal(signal.SIGINT, before)
