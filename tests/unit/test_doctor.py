"""Tests of the findings of `maieutic doctor` on simulated machines."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from httpserver import Quiet, scripted, serving
from maieutic.config.models import HostedModel
from maieutic.core.errors import UserError
from maieutic.launch import preflight
from maieutic.launch.provenance import ownership_fault
from maieutic.launch.requests import NewRequests
from maieutic.plan.plan import Plan
from maieutic.plan.rules import RulePlan
from maieutic.run_plan import plan_of
from maieutic.tools import doctor
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


def test_a_checkout_of_another_user_is_named_with_the_fix(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    assert ownership_fault(tmp_path) is None
    monkeypatch.setenv("GIT_TEST_ASSUME_DIFFERENT_OWNER", "1")
    fault = ownership_fault(tmp_path)
    assert fault is not None and fault.fix == f"git config --global --add safe.directory {tmp_path.resolve()}"
