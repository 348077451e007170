"""Tests of a run's start and end: rules' settings, checks before the first job, and the lines printed at the end."""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml
from conftest import ROOT, enter_checkout
from maieutic.core import errors as run_files
from maieutic.core import paths
from maieutic.core.errors import UserError
from maieutic.launch import cluster, hooks, images, preflight, results_lock, snakemake_compat
from maieutic.launch.requests import NewRequests
from maieutic.plan.rules import RulePlan
from maieutic.run_plan import plan_of
from maieutic.serving.batches import BATCH_VARIABLE, BatchSettings
from maieutic.serving.budget import BUDGET_VARIABLE, Allowance
from maieutic.serving.run_environment import RUN_VARIABLE, SnakemakeRun
from run_configs import many_judges

SERVED = {
    "engine": "vllm", "weights": {"repo": "org/model", "revision": "0" * 40},
    "needs": {"gpus": 2, "cpus": 6, "mem_mb": 900, "runtime": 50},
}  # fmt: skip


def plan_with(**changed: Any) -> RulePlan:
    """Return the plan of a served and hosted tutors and judges, with some keys of the configuration updated."""
    config = many_judges()
    config["models"]["served"] = SERVED
    config["run"]["tutors"] = ["served", *config["run"]["tutors"]]
    config["interpreters"] = {"serve": "/opt/serve/python"}
    for key, value in changed.items():
        config[key] = {**config.get(key, {}), **value}
    return plan_of(config)


@pytest.fixture(scope="module")
def plan() -> RulePlan:
    return plan_with()


def workflow(methods: tuple[str, ...] = (), defaults: dict[str, str] | None = None, **more: Any) -> Any:
    """Return a stand-in for Snakemake's workflow with the fields that are read."""
    deployed = [SimpleNamespace(name=name) for name in methods]
    raw = None if defaults is None else {name: SimpleNamespace(raw=value) for name, value in defaults.items()}
    return SimpleNamespace(
        deployment_settings=SimpleNamespace(deployment_method=deployed),
        resource_settings=SimpleNamespace(default_resources=raw), global_resources={}, is_main_process=True, **more,
    )  # fmt: skip


def job(rule: str = "generate_replies", wildcards: dict[str, str] | None = None, **resources: Any) -> Any:
    """Return a stand-in for one of Snakemake's planned jobs."""
    return SimpleNamespace(
        rule=SimpleNamespace(name=rule), wildcards=wildcards or {}, resources=resources, output=[], input=[],
        is_local=False, log=[], threads=8, container_img=None, container_img_url=None, container_img_path=None,
    )  # fmt: skip


@pytest.mark.parametrize(("methods", "inside"), [
    ((), False), (("CONDA",), False), (("APPTAINER",), True), (("CONDA", "APPTAINER"), True), (("apptainer",), False),
])  # fmt: skip
def test_containers_use_their_own_python_and_share_no_server(
    methods: tuple[str, ...], inside: bool, plan: RulePlan
) -> None:
    flow = workflow(methods)
    assert hooks.uses_containers(flow) is inside
    assert hooks.interpreter(plan, flow, "serve") == ("python3" if inside else "/opt/serve/python")
    assert hooks.interpreter(plan, flow, "driver") == ("python3" if inside else sys.executable), "no path is set"
    [(name, value)] = hooks.shared_servers_variable(plan, flow).items()
    shared = SnakemakeRun.of({name: value})
    assert name == RUN_VARIABLE and (shared is None) is inside is (value == "")
    if shared is not None:
        assert (shared.pid, shared.linger) == (os.getpid(), plan.config.servers.linger)


def test_jobs_get_the_budget_with_judges_models_and_prices(plan: RulePlan) -> None:
    assert hooks.budget_variable(plan) == {BUDGET_VARIABLE: ""}, "a run without a budget"
    limited = plan_with(run={**many_judges()["run"], "budget": {"requests": 50}})
    allowance = Allowance.model_validate_json(hooks.budget_variable(limited)[BUDGET_VARIABLE])
    assert allowance.budget.requests == 50 and allowance.budget_file == Path(paths.RUN_SPENDING)
    assert allowance.models["one"] == "near" and allowance.models["two"] == "far" and "served" not in allowance.models
    prices = {name: (price.input, price.output) for name, price in allowance.prices.items()}
    assert prices["far"] == (1, 2) and "near" not in prices and "served" not in prices


def test_jobs_get_the_limits_of_batches_and_the_judges_that_use_them(plan: RulePlan) -> None:
    assert hooks.batch_variable(plan) == {BATCH_VARIABLE: ""}, "a run without batches"
    entry = {"engine": "hosted", "base_url": "https://api.parasail.io/v1", "model": "m", "batch": True}
    models = {"far": entry, "more": {**entry, "batch_requests": 9, "batch_mb": 200}}
    batching = plan_with(models=models, run={**many_judges()["run"], "name": "trial"})
    settings = BatchSettings.model_validate_json(hooks.batch_variable(batching)[BATCH_VARIABLE])
    assert settings.run == "trial"
    limits = {name: (entry.requests, entry.mb, entry.url_prefix) for name, entry in settings.limits.items()}
    assert limits == {"far": (50_000, 100, "/v1"), "more": (9, 100, "/v1")}
    assert settings.limits_of("two") == settings.limits_of("far") and settings.limits_of("one") is None


@pytest.mark.parametrize(("defaults", "gres"), [
    (None, None), ({}, None), ({"mem_mb": "1"}, None), ({"gpu_gres": "'gpu:a100'"}, "gpu:a100"), ({"gpu_gres": '"gpu"'}, "gpu"), ({"gpu_gres": "XgpuX"}, "XgpuX"),
])  # fmt: skip
def test_gpus_are_requested_in_the_form_of_the_profile(
    defaults: dict[str, str] | None, gres: str | None, plan: RulePlan
) -> None:
    flow = workflow(defaults=defaults)
    assert snakemake_compat.default_resource(flow, "gpu_gres") == gres
    resources = hooks.model_resources(plan, flow)
    assert set(resources) == {"mem_mb", "runtime", "gpu", "gres", "server_gpus", "nodes"} and resources["nodes"] == 1
    served, hosted = {"benchmark": "mrbench", "tutor": "served"}, {"benchmark": "mrbench", "tutor": "far"}
    assert [resources["mem_mb"](served, attempt) for attempt in (1, 2)] == [900, 1800]
    assert [resources["runtime"](served, attempt) for attempt in (1, 3)] == [50, 150]
    assert (resources["gpu"](served), resources["gpu"](hosted)) == (0 if gres else 2, 0)
    assert (resources["gres"](served), resources["gres"](hosted)) == (f"{gres}:2" if gres else "", "")
    assert (resources["server_gpus"](served), resources["server_gpus"](hosted)) == (2, 0)


def test_weights_that_are_only_fetched_need_the_serving_environment_too(
    plan: RulePlan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`snakemake fetch` on a login node checks the environment before it downloads anything."""
    enter_checkout(tmp_path, monkeypatch)
    checks = RecordedChecks(monkeypatch)
    hooks.start_run(plan, workflow_of([job("prepare_weights", {"model": "served"}), job("fetch")]))
    [(_, _, models, _)] = [args for name, args in checks.calls if name == "checks_of_start"]
    assert models == ["served"]


def test_jobs_get_the_run_files_in_a_form_that_can_be_typed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files below the working folder have relative paths, names are quoted, and a command without run files has an example."""
    monkeypatch.chdir(tmp_path)
    files = [tmp_path / "my run.yaml", Path("/elsewhere/b.yaml")]
    variables = hooks.run_files_variable(SimpleNamespace(overwrite_configfiles=files))
    assert variables == {"MAIEUTIC_RUN_FILES": "'my run.yaml' /elsewhere/b.yaml"}
    monkeypatch.delenv("MAIEUTIC_RUN_FILES", raising=False)
    assert run_files.with_run_files("maieutic items") == "maieutic items --configfile my.yaml"
    monkeypatch.setenv("MAIEUTIC_RUN_FILES", variables["MAIEUTIC_RUN_FILES"])
    assert run_files.with_run_files("snakemake --cores 1 fetch").endswith(
        "--configfile 'my run.yaml' /elsewhere/b.yaml"
    )


@pytest.mark.parametrize(("resources", "partition"), [
    ({}, None), ({"slurm_partition": "gpu"}, "gpu"), ({"slurm_partition": "gpu", "cluster": "b"}, None),
    ({"slurm_partition": "gpu", "clusters": "b"}, None), ({"slurm_partition": "gpu", "slurm_cluster": "b"}, None),
    ({"slurm_partition": ""}, None), ({"slurm_partition": 7}, "7"),
])  # fmt: skip
def test_the_slurm_request_of_a_job(resources: dict[str, Any], partition: str | None, plan: RulePlan) -> None:
    planned = job("generate_replies", {"benchmark": "mrbench", "tutor": "served"}, runtime=50, **resources)
    request = hooks.slurm_request(plan, planned)
    assert request == ("served", 2, 50, partition, "generate_replies", planned.threads, request.mem_mb, "")
    planned.resources |= {"gres": "gpu:a100:2", "mem_mb": 900}
    assert hooks.slurm_request(plan, planned)[6:] == (900, "a100")
    del planned.resources["runtime"]
    assert hooks.slurm_request(plan, planned).minutes == 0


@pytest.mark.parametrize(
    ("totals", "expected"), [({}, None), ({"mem_mb": 5}, None), ({"gpu": 4}, 4), ({"server_gpus": 3}, 3), ({"gpu": 2, "server_gpus": 3}, 2)]
)  # fmt: skip
def test_the_total_of_gpus(totals: dict[str, int], expected: int | None) -> None:
    flow = workflow()
    flow.global_resources = {name: SimpleNamespace(value=value) for name, value in totals.items()}
    assert hooks.gpu_total(flow) == expected


class RecordedChecks:
    """Records the arguments of each check instead of running it. The checks have tests of their own."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.calls: list[tuple[str, tuple[Any, ...]]] = []
        functions = (
            (images, "check_images"), (cluster, "check_gpus"), (hooks, "check_slurm"), (preflight, "checks_of_start"),
        )  # fmt: skip
        for module, name in functions:
            patch.setattr(module, name, self.noting(name))

    def noting(self, name: str) -> Callable[..., None]:
        def note(*arguments: Any) -> list[Any]:
            self.calls.append((name, arguments))
            return []

        return note


def workflow_of(jobs: list[Any], executor: str = "local", methods: tuple[str, ...] = (), **totals: int) -> Any:
    """Return a stand-in for Snakemake's workflow with these planned jobs. totals: limits of resources."""
    flow = workflow(
        methods, dag=SimpleNamespace(needrun_jobs=lambda: iter(jobs)), executor_plugin=SimpleNamespace(name=executor),
        executor_settings=SimpleNamespace(status_command="sacct"),
        logger_manager=SimpleNamespace(get_log_handlers=lambda: [], logger=logging.Logger("run")),
    )  # fmt: skip
    flow.global_resources = {name: SimpleNamespace(value=value) for name, value in totals.items()}
    return flow


def test_a_run_is_checked_and_saved_before_its_first_job(
    plan: RulePlan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    enter_checkout(tmp_path, monkeypatch)
    checks = RecordedChecks(monkeypatch)
    counted = NewRequests("tutors", "served", "served", 3)
    planned = lambda called_plan, jobs: [counted] if called_plan is plan and len(jobs) == 2 else []  # noqa: E731
    monkeypatch.setattr(hooks, "new_requests", planned)
    (tmp_path / paths.RUN_SPENDING).parent.mkdir(parents=True)
    (tmp_path / paths.RUN_SPENDING).write_text("spent by an earlier run")
    served = job("generate_replies", {"benchmark": "mrbench", "tutor": "served"}, server_gpus=2, runtime=9)
    hooks.start_run(plan, workflow_of([served, job("all")], gpu=4))
    assert checks.calls == [
        ("check_gpus", (plan.config, ["served"], 4)),
        ("checks_of_start", (plan, "/opt/serve/python", ["served"], [counted])),
    ]
    assert not Path(paths.RUN_SPENDING).exists() and capsys.readouterr().err == ""
    saved = yaml.safe_load(Path(paths.RUN_CONFIG).read_text(encoding="utf-8"))
    assert saved["run"]["tutors"] == plan.run.tutors
    assert {"machine", "code"} <= set(json.loads(Path(paths.RUN_PROVENANCE).read_text(encoding="utf-8")))
    # On a cluster with images, all checks run; those of Slurm leave out jobs that run on the login node.
    checks.calls.clear()
    local = job("judge_replies", {"judge": "one", "benchmark": "mrbench", "batch": "far"}, server_gpus=0)
    local.is_local = True
    hooks.start_run(plan, workflow_of([served, local], "slurm", ("APPTAINER",)))
    assert [name for name, _ in checks.calls] == ["check_images", "check_gpus", "check_slurm", "checks_of_start"]
    args_of = dict(checks.calls)
    assert args_of["check_images"] == ({},)
    assert args_of["check_gpus"] == (plan.config, ["near", "served"], None)
    assert args_of["check_slurm"] == ([("served", 2, 9, None, "generate_replies", 8, 0, "")], "sacct", None)
    assert args_of["checks_of_start"][1] == "python3"


def test_a_page_with_other_settings_is_reported_before_it_is_overwritten(
    plan: RulePlan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    enter_checkout(tmp_path, monkeypatch)
    RecordedChecks(monkeypatch)
    saved = tmp_path / "results/runs/x/config.yaml"
    assert hooks.overwrite_warning(saved, {"limit": 8}) is None, "no other page exists"
    saved.parent.mkdir(parents=True)
    for before, line in (
        ({"limit": 8, "tutors": ["a"]}, None),
        ({"limit": 5, "tutors": ["a"]}, "run.limit"),
        ({"tutors": ["b"], "seed": 3}, "run.limit, run.seed, run.tutors"),
    ):
        saved.write_text(yaml.safe_dump({"run": before}), encoding="utf-8")
        warning = hooks.overwrite_warning(saved, {"limit": 8, "tutors": ["a"]})
        problem = f"contains the page of a run with other settings ({line}), and this run overwrites that page"
        assert warning == (line and f"{saved.parent} {problem}. Fix: set run.name to keep both pages")
    own_config = tmp_path / plan.run_path(paths.CONFIG)
    own_config.parent.mkdir(parents=True, exist_ok=True)
    own_config.write_text("run: {tutors: [b]}", encoding="utf-8")
    monkeypatch.setattr(hooks, "new_requests", lambda plan, jobs: [])
    monkeypatch.setattr(hooks, "RULES", set())
    hooks.start_run(plan, workflow_of([job("write_questions")]))
    assert capsys.readouterr().err == "", "a command that only writes prompts leaves the page alone"
    hooks.start_run(plan, workflow_of([job("build_report")]))
    assert "run.tutors" in capsys.readouterr().err
    own_config.write_text("run: [", encoding="utf-8")
    with pytest.raises(UserError, match="delete the file: the next run writes it again"):
        hooks.start_run(plan, workflow_of([]))


LOCK_HOLDER = """
import sys
from pathlib import Path
from maieutic.launch.results_lock import lock_results
lock_results(Path("results/.run.lock"))
print("held", flush=True)
sys.stdin.read()
"""


def test_a_run_of_another_checkout_on_the_same_results_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two checkouts share their results by a link, but Snakemake's own lock is separate in each."""
    checkout, other, shared = (tmp_path / name for name in ("own", "other", "shared"))
    for folder in (checkout, other, shared):
        folder.mkdir()
    for folder in (checkout, other):
        (folder / "results").symlink_to(shared)
    env = {**os.environ, "PYTHONPATH": str(ROOT / "workflow")}
    with subprocess.Popen(
        [sys.executable, "-c", LOCK_HOLDER],
        cwd=other,
        env=env,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as holder:
        assert holder.stdout and holder.stdout.readline() == "held\n"
        monkeypatch.chdir(checkout)
        problem = rf"{shared}: another run uses these results \(host .* pid {holder.pid}, in {other}\)"
        with pytest.raises(UserError, match=problem):
            results_lock.lock_results()
        monkeypatch.chdir(other)
        results_lock.lock_results()  # within one checkout, Snakemake's lock decides
        holder.kill()
        holder.wait()
        monkeypatch.chdir(checkout)
        results_lock.lock_results()
    assert f" in {checkout}" in (shared / ".run.lock").read_text() and results_lock.LOCK_FILES
    results_lock.LOCK_FILES.pop().close()
