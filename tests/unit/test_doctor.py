"""Tests of the findings of `maieutic doctor` on simulated machines."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from httpserver import Quiet, scripted, serving
from maieutic.config.models import HostedModel
from maieutic.core.errors import UserError
from maieutic.launch import cluster, images, preflight
from maieutic.launch.provenance import ownership_fault
from maieutic.launch.requests import NewRequests
from maieutic.plan.plan import Plan
from maieutic.plan.rules import RulePlan
from maieutic.run_plan import plan_of
from maieutic.tools import doctor
from maieutic.tools.doctor import RESULTS_MB, Finding
from run_configs import HOSTED, NOBODY
from shipped import shipped

MODELS = {
    "small": {"engine": "vllm", "weights": {"path": "x"}, "size": {"total": 2}, "needs": {"gpus": 1, "mem_mb": 8000}},
    "large": {"engine": "vllm", "weights": {"path": "x"}, "size": {"total": 5}, "needs": {"gpus": 4, "mem_mb": 64000}},
    "odd": {"engine": "vllm", "weights": {"path": "x"}, "needs": {"mem_mb": 1000}},
    "far": {**HOSTED, "base_url": "http://far/v1", "key_env": "FAR_KEY"},
    "near": {**HOSTED, "base_url": "http://near/v1"},
}


def plan_with(*tutors: str, **keys: Any) -> RulePlan:
    """Return the plan of a run with these tutors. keys: other keys of the configuration."""
    config = shipped()
    config["models"] |= MODELS
    config["run"] |= {**NOBODY, "tutors": list(tutors), "tasks": ["kmpbench/ec"]}
    return plan_of(config | keys)


@pytest.fixture(scope="module")
def served() -> RulePlan:
    """Return a plan with models that the run serves itself and with hosted ones."""
    return plan_with("small", "large", "odd", "far", "near", interpreters={"serve": sys.executable})


@pytest.fixture(scope="module")
def hosted() -> Plan:
    """Return a plan with hosted models only."""
    return plan_with("far")


SERVE_FIX = "run `make env` (with a GPU: `make env VARIANT=cuda`)"


@pytest.mark.parametrize(("built", "expected"), [
    ({}, {None: ("note", "note"), "hosted": ("fault", "note"), "served": ("fault", "note")}),
    ({"driver": "driver-LOCK", "serve": "serve-LOCK"}, dict.fromkeys((None, "hosted", "served"), ("ok", "ok"))),
    ({"driver": "driver-old", "serve": "old"}, dict.fromkeys((None, "hosted", "served"), ("fault", "fault"))),
])  # fmt: skip
def test_environments_are_there_and_of_their_locks(
    built: dict[str, str], expected: dict[str | None, tuple[str, str]], served: Plan, hosted: Plan, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(images, "lock_hashes", lambda stack: ["other", "LOCK"])
    (tmp_path / ".venv").mkdir()
    for stack, name in built.items():
        (tmp_path / name).mkdir()
        (tmp_path / ".venv" / stack).symlink_to(tmp_path / name)
    for plan_name, states in expected.items():
        findings = list(doctor.environments({None: None, "hosted": hosted, "served": served}[plan_name]))
        assert [finding.subject for finding in findings] == ["environment driver", "environment serve"]
        assert tuple(finding.state for finding in findings) == states
        for finding, fix in zip(findings, ("run `make driver`", SERVE_FIX), strict=True):
            assert finding.fix == ("" if finding.state == "ok" else fix)
            text = (
                "matches its lock"
                if finding.state == "ok"
                else "built from lock old, but this checkout has another lock"
            )
            assert finding.finding == (text if built else "not built")


@pytest.mark.parametrize(("free", "plan_name", "state", "finding"), [
    (200_000, None, "ok", "200 GB free, about 5 GB needed"), (RESULTS_MB, None, "fault", "5 GB free, about 5 GB needed"),
    (RESULTS_MB + 1, None, "ok", "5 GB free, about 5 GB needed"),
    (20_000, "served", "ok", "20 GB free, about 19 GB needed plus 1 model(s) of unknown size"),
    (19_000, "served", "fault", "19 GB free, about 19 GB needed plus 1 model(s) of unknown size"),
])  # fmt: skip
def test_the_disk_holds_weights_and_results(
    free: int, plan_name: str | None, state: str, finding: str, served: Plan, monkeypatch: pytest.MonkeyPatch
) -> None:
    places = []
    usage = shutil.disk_usage("/")._replace(free=(free << 20) + 1)
    monkeypatch.setattr(shutil, "disk_usage", lambda place: places.append(place) or usage)
    fix = "free disk space, or replace the folder `results` with a link to a larger disk" if state == "fault" else ""
    assert doctor.disk(served if plan_name else None) == ("disk", state, finding, fix) and places == ["."]


@pytest.mark.parametrize(("total", "plan_name", "expected"), [
    (24_900, None, ("ok", "12 of 24 GB free", "")),
    (24_900, "hosted", ("ok", "12 of 24 GB free", "")),
    (3_000_999, None, ("ok", "2000 of 3000 GB free", "")),
    (64_000, "served", ("ok", "64 GB in total; large needs 64 GB", "")),
    (63_999, "served", ("note", "63 GB in total; large needs 64 GB", "run on a cluster (--profile slurm), or lower models.large.needs.mem_mb")),
])  # fmt: skip
def test_memory_holds_the_largest_job(
    total: int, plan_name: str | None, expected: tuple[str, str, str], served: Plan, hosted: Plan,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setattr(doctor, "memory_mb", lambda: (12_999 if total < 10**6 else 2_000_000, total))
    assert doctor.memory({None: None, "hosted": hosted, "served": served}[plan_name]) == ("memory", *expected)


@pytest.mark.parametrize(("names", "devices"), [((), 0), (("A100", "A100"), 2), (("H100",), 4)])
def test_gpus_are_counted_against_what_models_need(
    names: tuple[str, ...], devices: int, served: Plan, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(doctor, "gpu_names", lambda: list(names))
    monkeypatch.setattr(doctor, "visible_devices", lambda environment: (None, list(range(devices))))
    first, *lacking = doctor.gpus(served)
    assert first == (
        ("GPUs", "ok", ", ".join(names), "")
        if names
        else ("GPUs", "note", "found no GPU, or no driver (nvidia-smi)", "")
    )
    fix = "use a cluster (--profile slurm) or a machine with more GPUs, or lower models.{}.needs.gpus"
    short = {"small": 1, "large": 4}
    assert {(note.subject, note.state, note.finding, note.fix) for note in lacking} == {
        (f"GPUs of {name}", "note", f"expected at least {needed}, found {devices} on this machine", fix.format(name))
        for name, needed in short.items()
        if needed > devices
    }
    assert list(doctor.gpus(None)) == [first]


def test_a_login_node_has_partitions(monkeypatch: pytest.MonkeyPatch) -> None:
    commands: dict[str, str | None] = {"sbatch": None}
    monkeypatch.setattr(shutil, "which", commands.get)
    assert doctor.slurm() == ("SLURM", "note", "sbatch is not on the PATH, so this is not a login node", "")
    commands["sbatch"] = "/usr/bin/sbatch"
    outputs = {
        ("sinfo", "--all", "--exact", "--noheader", "--format=%P|%l|%G|%c|%m|%a"): "gpu|1:00|gpu:2\ncpu*|1:00|(null)\n"
    }
    monkeypatch.setattr(cluster, "run_slurm_command", lambda *words: outputs[words])
    assert doctor.slurm() == ("SLURM", "ok", "partitions: cpu (0 GPUs per node), gpu (2 GPUs per node)", "")

    def fail(*words: str) -> str:
        raise UserError("sinfo", "no answer", "wake it")

    monkeypatch.setattr(cluster, "run_slurm_command", fail)
    assert doctor.slurm() == ("SLURM", "note", "no answer", "wake it")


def test_images_are_those_of_this_checkout(served: Plan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    commands: dict[str, str | None] = {"apptainer": None, "singularity": None}
    monkeypatch.setattr(shutil, "which", commands.get)
    assert doctor.containers(served) == (
        "containers", "note", "apptainer is not on the PATH, so --sdm apptainer cannot be used", "",
    )  # fmt: skip
    no_image = ("containers", "note", "apptainer is available, but no image exists yet", "run containers/build")
    for engine in ("apptainer", "singularity"):
        commands |= {"apptainer": None, "singularity": None, engine: f"/usr/bin/{engine}"}
        assert doctor.containers(None) == no_image
    for name in ("driver.sif", "serve.sif"):
        (tmp_path / name).touch()
    containers = {"driver": f"{tmp_path}/driver.sif", "serve": f"{tmp_path}/serve.sif"}
    checked: list[Any] = []
    monkeypatch.setattr(images, "check_images", checked.append)
    match = ("containers", "ok", "images match this checkout's locks: driver, serve", "")
    assert doctor.containers(plan_with("far", containers=containers)) == match
    assert checked == [{stack: (path, path) for stack, path in containers.items()}]
    absent = {"driver": "docker://somewhere/image", "serve": f"{tmp_path}/gone.sif"}
    assert doctor.containers(plan_with("far", containers=absent)) == no_image

    def stale(files: Any) -> None:
        raise UserError("containers.serve", "it is old", "build it")

    monkeypatch.setattr(images, "check_images", stale)
    assert doctor.containers(plan_with("far", containers=containers)) == (
        "containers", "fault", "it is old", "build it",
    )  # fmt: skip


def test_endpoints_are_asked_one_by_one(served: RulePlan, monkeypatch: pytest.MonkeyPatch) -> None:
    checked = []

    def check(name: str, model: Any) -> list[str]:
        checked.append((name, model.base_url))
        if name == "near":
            raise UserError("models.near.base_url", "it is silent", "start it")
        return []

    monkeypatch.setattr(preflight, "list_endpoint_models", check)
    counted = [NewRequests("tutors", name, name, 1) for name in ("far", "near", "small")]
    monkeypatch.setattr(doctor, "count_requests", lambda raw, plan: counted)
    assert sorted(doctor.start_of_run({}, served, offline=False)) == [
        ("endpoint of far", "ok", "http://far/v1 answers, FAR_KEY is set, but it lists no models", ""),
        ("endpoint of near: models.near.base_url", "fault", "it is silent", "start it"),
        ("serving environment", "ok", f"{sys.executable} exists", ""),
    ]
    assert sorted(checked) == [("far", "http://far/v1"), ("near", "http://near/v1")]
    monkeypatch.setattr(preflight, "list_endpoint_models", lambda name, model: [model.model])
    assert ("endpoint of near", "ok", "http://near/v1 answers", "") in list(
        doctor.start_of_run({}, served, offline=False)
    )
    monkeypatch.delattr(preflight, "list_endpoint_models")
    assert sorted(doctor.start_of_run({}, served, offline=True)) == [
        ("endpoint of far", "note", "http://far/v1 would receive the value of FAR_KEY", ""),
        ("endpoint of near", "note", "http://near/v1 would receive no key", ""),
    ]


@pytest.mark.parametrize(("listed", "fix"), [
    (["gpt-5"], None), ([], None), (["models/gpt-5", "models/n"], None), (["gpt-5o", "other"], "set model: gpt-5o"),
    (["other", "another"], "set model to one of: another, other"),
])  # fmt: skip
def test_the_doctor_looks_whether_an_endpoint_lists_the_model(
    listed: list[str], fix: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An endpoint that does not list the model yields a note with the nearest name: some serve more than they list."""
    with serving(scripted(lambda n, body: (500, {}, {}), listed)) as address:
        config = shipped()
        config["models"]["far"] = {**HOSTED, "base_url": f"{address}/v1", "model": "gpt-5"}
        config["run"] |= {**NOBODY, "tutors": ["far"], "tasks": ["mathtutorbench/problem_solving"], "labels": []}
        monkeypatch.setattr(doctor, "count_requests", lambda raw, plan: [NewRequests("tutors", "far", "far", 1)])
        findings = list(doctor.start_of_run(config, plan_of(config), offline=False))
    assert findings[0].state == "ok" and [finding.fix for finding in findings[1:]] == ([fix] if fix else [])
    assert all(
        finding.state == "note" and finding.subject == "endpoint of far: models.far.model" for finding in findings[1:]
    )


@pytest.mark.parametrize("variables, problem, fix", [
    ({}, "does not answer (ConnectionError)", "start the server, or correct base_url"),
    ({"http_proxy": "http://me:secret@127.0.0.1:9"}, "does not answer (ProxyError)", "export no_proxy=127.0.0.1"),
    ({"HTTP_PROXY": "http://127.0.0.1:9", "no_proxy": "a.org"}, "(ProxyError)", "export no_proxy=a.org,127.0.0.1"),
    ({"http_proxy": "http://127.0.0.1:9", "no_proxy": "127.0.0.1"}, "(ConnectionError)", "start the server"),
    ({"https_proxy": "http://127.0.0.1:9"}, "(ConnectionError)", "start the server"),
    ({"all_proxy": "http://127.0.0.1:9"}, "(ProxyError)", "the proxy address in all_proxy"),
])  # fmt: skip
def test_a_proxy_of_the_environment_is_named(
    variables: dict[str, str], problem: str, fix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    model = HostedModel(engine="hosted", base_url="http://127.0.0.1:9/v1", model="m")
    with pytest.raises(UserError) as error:
        preflight.list_endpoint_models("m", model)
    assert problem in str(error.value) and fix in str(error.value) and "secret" not in str(error.value)


class PasswordProxy(Quiet):
    """A proxy that requires a user name and a password."""

    def do_GET(self) -> None:
        """Refuse every request."""
        self.send(407, b"")


def test_a_proxy_that_wants_a_name_is_no_refused_key(monkeypatch: pytest.MonkeyPatch) -> None:
    with serving(PasswordProxy) as proxy:
        monkeypatch.setenv("http_proxy", proxy)
        monkeypatch.delenv("no_proxy", raising=False)
        model = HostedModel(engine="hosted", base_url="http://tutor.example/v1", model="m")
        with pytest.raises(UserError, match=r"407.*proxy address in http_proxy.*no_proxy=tutor\.example"):
            preflight.list_endpoint_models("m", model)


def test_findings_are_printed_a_line_each(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    findings = [
        Finding("disk", "ok", "[5] GB free"),
        Finding("x", "note", "y", "z [1]"),
        Finding("a" * 200, "fault", "b", "c"),
    ]
    monkeypatch.setattr(doctor, "findings_of", lambda files, offline: findings)
    with pytest.raises(UserError, match=r"^maieutic doctor: faults listed above: 1"):
        doctor.doctor(configfile=[Path("run.yaml")], offline=True)
    lines = ["ok    disk: [5] GB free.", "note  x: y. Fix: z [1]", f"fault {'a' * 200}: b. Fix: c"]
    assert capsys.readouterr().out.splitlines() == lines
    findings.pop()
    doctor.doctor()


def test_a_checkout_of_another_user_is_named_with_the_fix(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    assert ownership_fault(tmp_path) is None
    monkeypatch.setenv("GIT_TEST_ASSUME_DIFFERENT_OWNER", "1")
    fault = ownership_fault(tmp_path)
    assert fault is not None and fault.fix == f"git config --global --add safe.directory {tmp_path.resolve()}"


def test_a_library_that_keeps_the_serving_environment_from_starting_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    python = tmp_path / ".venv/serve/bin/python"
    python.parent.mkdir(parents=True)
    python.write_text(
        "#!/bin/sh\necho \"ImportError: libstdc++.so.6: version 'GLIBCXX_3.4.30' not found\" >&2\nexit 1\n"
    )
    python.chmod(0o755)
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("LD_LIBRARY_PATH", raising=False)
    assert list(doctor.libraries()) == []
    monkeypatch.setenv("LD_LIBRARY_PATH", "/opt/gcc/lib64")
    [finding] = doctor.libraries()
    assert finding.state == "fault" and "GLIBCXX_3.4.30" in finding.finding and "unset LD_LIBRARY_PATH" in finding.fix
