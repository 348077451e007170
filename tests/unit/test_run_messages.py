"""Tests of the lines that a run prints before and after it, and of its checks of images and endpoints."""

from __future__ import annotations

import json
import os
import re
import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from conftest import enter_checkout
from httpserver import Quiet, serving
from maieutic.config.settings import Config, read_config
from maieutic.core import paths
from maieutic.core.errors import UserError, check_all
from maieutic.core.ledger import JobSpending, ledger_path
from maieutic.launch import images, messages, preflight
from maieutic.launch.lengths import known
from maieutic.launch.messages import (
    MOST_CAUSE_CHARS,
    MOST_FAILURES,
    Billed,
    cost_text,
    failure_lines,
    last_error_of,
    last_lines,
    requests_line,
    spent_line,
)
from maieutic.launch.requests import NewRequests, in_order, models_perhaps_called, models_to_call
from maieutic.plan.plan import Plan
from maieutic.plan.rules import RulePlan
from maieutic.run_plan import plan_of
from run_configs import HOSTED, many_judges
from shipped import shipped


@pytest.fixture(autouse=True)
def without_results(at_root: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    enter_checkout(tmp_path, monkeypatch)


@pytest.fixture(scope="module")
def plan() -> RulePlan:
    """Return a plan of hosted tutors `far` (1 and 2 USD a million tokens) and `near` (no price), served ones, judges."""
    config = many_judges()
    entry = {"engine": "vllm", "weights": {"repo": "org/model", "revision": "0" * 40}}
    names = [f"model-{n}" for n in range(12)]
    config["models"]["nigh"] = HOSTED
    config["models"]["cached"] = {**HOSTED, "price": {"input": 1, "output": 2, "cached": 0.5}}
    config["models"] |= dict.fromkeys(names, entry) | {"third": {**HOSTED, "price": {"input": 0.001, "output": 0.001}}}
    config["run"]["tutors"] = [*names, *config["run"]["tutors"]]
    return plan_of(config)


def requests_of(
    asker: str, requests: int | None, exact: bool = True, model: str = "", tokens: float = 0.0
) -> NewRequests:
    return NewRequests("tutors", asker, model or asker, requests, tokens, known(tokens / 2), exact)


FEW = [requests_of("model-1", 6), requests_of("model-0", 5)]
MANY = [requests_of(f"model-{number}", 5) for number in reversed(range(12))]
JUDGES = {"one": requests_of("one", 70, exact=False, model="near"), "two": requests_of("two", 5, model="far")}
LINES: dict[str, tuple[list[NewRequests], str]] = {
    "no jobs with requests": ([], "none"),
    "all answers on file": ([requests_of("model-0", 0)], "none, all answers are on file"),
    "in the run file's order": (FEW, "model-0 5, model-1 6"),
    "jobs of one tutor are added": ([*FEW, requests_of("model-0", 7)], "model-0 12, model-1 6"),
    "a number that is estimated": ([*FEW, requests_of("model-0", 7, exact=False)], "model-0 about 12, model-1 6"),
    "an estimate that answers on file may settle": ([requests_of("model-0", 7, exact=False)._replace(answered=True), requests_of("model-0", 5)], "model-0 at most about 12"),
    "an estimate of zero": ([requests_of("model-0", 0, exact=False)], "none, all answers are on file"),
    "an unknown number beside a known one": ([*FEW, requests_of("model-0", None)], "model-0 5 or more, model-1 6"),
    "an unknown number alone": ([requests_of("model-0", None)], "model-0 0 or more"),
    "few with equal numbers": ([*FEW, requests_of("model-2", 5)], "model-0 5, model-1 6, model-2 5"),
    "eight with equal numbers": (MANY[-8:], ", ".join(f"model-{number} 5" for number in range(8))),
    "nine with equal numbers": (MANY[-9:], "model-0, model-1 and 7 more: 5 each"),
    "many with equal numbers, and one that differs": ([*MANY, FEW[0]], "model-0, model-2 and 9 more: 5 each, model-1 11"),
    "a judge by name": ([JUDGES["two"], *MANY], "model-0, model-1 and 10 more: 5 each, two 5; under 0.01 USD"),
    "judges in their order": ([*reversed(JUDGES.values())], "one about 70, two 5; under 0.01 USD; no price for near"),
    "other stages last": ([requests_of("others", 3, model="far")._replace(stage="others"), *FEW], "model-0 5, model-1 6, others 3; under 0.01 USD"),
}  # fmt: skip


def test_requests_of_checks_and_costs_of_thinking_are_listed_separately() -> None:
    config = many_judges()
    config["models"]["deep"] = {**HOSTED, "thinking_tokens": 1000, "price": {"input": 1, "output": 10}}
    plan = plan_of(config)
    parts = [requests_of("one", 5, model="deep"), requests_of("one", 95, model="deep")._replace(stage="checks")]
    line = requests_line(plan, parts)
    expected = "new requests: one 100 (95 to check it on labels); under 0.01 USD; at most 1.00 USD more for thinking"
    assert line == expected
    assert "thinking" not in requests_line(plan, [requests_of("near", 100)])


@pytest.mark.parametrize(("budget", "expected"), [
    ({}, None),
    ({"usd": 2.0, "requests": 75, "tokens": 3_000_000}, None),
    ({"usd": 1.99}, "run.budget.usd (1.99; needed: at least 2.00)"),
    ({"requests": 74}, "run.budget.requests (74; needed: at least 75)"),
    ({"models": {"far": {"requests": 4}, "near": {"requests": 70}}}, "run.budget.models.far.requests (4; needed: at least 5)"),
    ({"requests": 74, "tokens": 10}, "run.budget.requests (74; needed: at least 75), run.budget.tokens (10; needed: at least 1,500,000)"),
])  # fmt: skip
def test_a_dry_run_names_the_limits_at_which_the_run_will_stop(budget: dict[str, Any], expected: str | None) -> None:
    config = many_judges()
    for name in ("near", "reading-model"):
        config["models"][name] = {**config["models"][name], "price": {"input": 0, "output": 0}}
    config["run"]["budget"] = budget
    parts = [requests_of("one", 70, model="near"), requests_of("far", 5, tokens=1e6)]
    line = requests_line(plan_of(config), parts)
    assert line.partition("; the run will stop at ")[2] == (expected or "")


@pytest.mark.parametrize(("parts", "line"), LINES.values(), ids=LINES)
def test_the_new_requests_are_one_line(parts: list[NewRequests], line: str, plan: Plan) -> None:
    assert requests_line(plan, in_order(plan, parts)) == f"new requests: {line}"


MONEY: dict[str, tuple[list[tuple[str, float, float, float]], str]] = {
    "no requests": ([], ""),
    "served by the run": ([("model-0", 1e6, 1e6, 0)], ""),
    "each kind of token has its price": ([("far", 1e6, 2e6, 0)], "about 5.00 USD"),
    "cached tokens": ([("cached", 1e6, 0, 4e5)], "about 0.80 USD"),
    "added up": ([("far", 1e6, 0, 0), ("far", 0, 1e6, 0)], "about 3.00 USD"),
    "half a cent": ([("far", 5000, 0, 0)], "about 0.01 USD"),
    "less than half a cent": ([("far", 4999, 0, 0)], "under 0.01 USD"),
    "a model without a price, listed once": ([("near", 1, 1, 0), ("near", 1, 1, 0)], "no price for near"),
    "two models without a price": ([("near", 1, 1, 0), ("nigh", 1, 1, 0)], "no price for near, nigh"),
    "with and without a price": ([("near", 1, 1, 0), ("far", 1e6, 0, 0)], "about 1.00 USD; no price for near"),
}


@pytest.mark.parametrize(("amounts", "words"), MONEY.values(), ids=MONEY)
def test_costs_are_of_models_with_a_price(amounts: Any, words: str, plan: Plan) -> None:
    assert cost_text(plan, [Billed(*amount) for amount in amounts]) == words


def spending_of(asker: str, requests: int, prompt: int = 1000, answer: int = 10, **retries: int) -> JobSpending:
    return JobSpending(
        time="2026-01-01T00:00:00+00:00", asker=asker, requests=requests, prompt_tokens=prompt,
        completion_tokens=answer, seconds=1.0, retries=retries,
    )  # fmt: skip


def test_the_sent_requests_are_one_line(plan: Plan) -> None:
    assert spent_line(plan, []) == "requests sent: none"
    lines = [
        spending_of("far", 3, 1_000_000, 5, status_429=2, timeout=1),
        spending_of("two", 4, 10**6),
        spending_of("far", 1),
    ]
    assert spent_line(plan, lines) == (
        "requests sent: far 4 (1,001,000 + 15 tokens, 3 retries), two 4 (1,000,000 + 10 tokens); about 2.00 USD"
    ), "a judge's tokens are priced by the model that answers for it"
    removed = spending_of("who-is-no-more", 1)
    assert spent_line(plan, [removed]) == "requests sent: who-is-no-more 1 (1,000 + 10 tokens)"
    silent = spending_of("far", 3, 0, 0).model_copy(update={"unreported": 3, "charged_usd": 0.5})
    assert spent_line(plan, [silent]) == (
        f"requests sent: far {silent.requests} (tokens not reported); "
        "cost unknown: reserved 0.50 USD, far (3 requests without usage)"
    )


LOGS = {
    "the last error": ("a\n12:00:00 ERROR first\n12:00:01 ERROR x: y. Fix: z  \nafter\n", "x: y. Fix: z (and 1 more in the log)"),
    "the last line of a log without an error": ("a\n b \n\n  \n", "b"),
    "an empty log": ("\n \n", "the log is empty"),
    "a long cause is cut": ("12:00:00 ERROR " + "x" * 1000, "x" * MOST_CAUSE_CHARS),
    "a fix is kept whole": ("12:00:00 ERROR " + "x" * 1000 + ". Fix: do it", "x" * (MOST_CAUSE_CHARS - 15) + " ... Fix: do it"),
    "a long fix is cut": ("12:00:00 ERROR x. Fix: " + "y" * 1000, "x. Fix: " + "y" * (MOST_CAUSE_CHARS - 8)),
    "ERROR within another word": ("TERRORS\nsaid ERRORS\n", "said ERRORS"),
}  # fmt: skip


@pytest.mark.parametrize(("text", "cause"), LOGS.values(), ids=LOGS)
def test_the_cause_of_a_failure_is_the_last_error_in_the_log(text: str, cause: str, tmp_path: Path) -> None:
    log = tmp_path / "rule.log"
    assert last_error_of(log, 0.0) is None
    log.write_text(text, encoding="utf-8")
    os.utime(log, (100, 100))
    assert last_error_of(log, 100.0) == cause
    assert last_error_of(log, 100.5) is None, "a log from before the run is ignored"
    log.write_bytes(b"\xff ERROR torn \xff\n")
    assert last_error_of(log, 0.0) == "torn \ufffd"


REJECTED = (
    "SLURM sbatch failed. The error message was 'sbatch: error: Batch job submission failed:\nRequested node configuration "
    "is not available'.\n    sbatch call:\n        sbatch --parsable\n"
)


def test_a_rejected_or_killed_job_is_explained_by_the_executor(tmp_path: Path) -> None:
    reasons, log = {7: REJECTED}, tmp_path / "x.log"
    reason = (
        "SLURM sbatch failed. The error message was 'sbatch: error: Batch job submission failed: Requested node "
        "configuration is not available'."
    )
    assert failure_lines([job("x", log)], 0.0, reasons) == [f"failed: x: {reason} (log: {log})"]
    log.write_text("x: 5/9, 2 requests/s\n", encoding="utf-8")
    killed = {7: "SLURM-job '12' failed, SLURM status is: 'OUT_OF_MEMORY'. "}
    expected = f"failed: x: SLURM-job '12' failed, SLURM status is: 'OUT_OF_MEMORY'. (log: {log})"
    assert failure_lines([job("x", log)], 0.0, killed) == [expected]
    log.write_text("1 ERROR no key\n", encoding="utf-8")
    assert failure_lines([job("x", log)], 0.0, killed) == [f"failed: x: no key (log: {log})"], "the job knows better"


def test_a_damaged_results_file_hides_no_other_line(plan: Plan, tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.chdir(tmp_path)
    damaged = UserError("results/replies/a.jsonl:2", "the line repeats line 1", "delete this file")

    def fail(plan: Plan) -> list[str]:
        raise damaged

    monkeypatch.setattr(messages, "poorly_answered_lines", fail)
    monkeypatch.setattr(messages, "absent_lines", lambda plan: ["absent"])
    assert last_lines(plan, [job("x")], "", 0.0, "page.html", {}) == [
        "failed: x: no log was written", damaged.line, "absent", "requests sent: none", "report: page.html",
    ]  # fmt: skip


def job(rule: str, *logs: Path, output: tuple[str, ...] = (), files: tuple[str, ...] = (), **names: str) -> Any:
    """Return a stand-in for one of Snakemake's jobs. One with a `tutor` or `judge` calls a model."""
    resources = {"server_gpus": 0} if {"tutor", "judge"} & set(names) else {}
    return SimpleNamespace(
        rule=SimpleNamespace(name=rule), wildcards=names, log=logs, output=output, input=files, resources=resources,
        jobid=7,
    )  # fmt: skip


def test_each_failed_job_is_a_line_and_those_over_budget_share_one(
    plan: Plan, tmp_path: Path, monkeypatch: Any
) -> None:
    monkeypatch.chdir(tmp_path)
    logs = [tmp_path / f"{number}.log" for number in range(3)]
    texts = ["1 ERROR no key", "1 ERROR run.budget: 1.00 USD are spent", "1 ERROR run.budget: 1.01 USD are spent"]
    for log, text in zip(logs, texts, strict=True):
        log.write_text(text, encoding="utf-8")
    jobs = [job("judge_replies", logs[n], judge="one", benchmark=f"b{n}") for n in range(3)]
    assert failure_lines([*jobs, job("all")], 0.0, {}) == [
        f"failed: judge_replies one b0: no key (log: {logs[0]})",
        "failed: all: no log was written",
        "stopped: judge_replies one b1, judge_replies one b2: run.budget: 1.01 USD are spent",
    ]
    expected = [f"failed: x: no log was written (log: {tmp_path / 'none.log'})"]
    assert failure_lines([job("x", tmp_path / "none.log")], 0.0, {}) == expected
    assert last_lines(plan, [], "", 0.0, None, {}) == ["requests sent: none"]
    lines = last_lines(plan, [job("x")] * (MOST_FAILURES + 2), "", 0.0, "page.html", {})
    assert lines == [
        *["failed: x: no log was written"] * MOST_FAILURES, "failed: 2 further jobs", "requests sent: none", "report: page.html",
    ]  # fmt: skip
    assert len(last_lines(plan, [job("x")] * MOST_FAILURES, "", 0.0, None, {})) == MOST_FAILURES + 1
    ledger = ledger_path(Path(paths.JOURNALS.of()) / "replies/mrbench/far.jsonl")
    ledger.parent.mkdir(parents=True)
    spending = [spending_of("far", 2), spending_of("far", 5).model_copy(update={"time": "2027-01-01T00:00:00+00:00"})]
    ledger.write_text("".join(json.dumps(line.model_dump()) + "\n" for line in spending), encoding="utf-8")
    expected = ["requests sent: far 5 (1,000 + 10 tokens); under 0.01 USD"]
    assert last_lines(plan, [], "2026-06-01", 0.0, None, {}) == expected


@pytest.mark.parametrize(("part", "called", "perhaps"), [
    (requests_of("far", 0), False, False),
    (requests_of("far", 1), True, False),
    (requests_of("far", None), True, False),
    (requests_of("far", 0, exact=False), True, False),
    (requests_of("far", 9, exact=False)._replace(answered=True), False, True),
    (requests_of("far", 0)._replace(in_batches=2), True, False),
])  # fmt: skip
def test_a_model_is_called_unless_answers_on_file_may_settle_all_its_requests(
    part: NewRequests, called: bool, perhaps: bool
) -> None:
    assert models_to_call([part]) == ({"far"} if called else set())
    assert models_perhaps_called([part]) == ({"far"} if perhaps else set())
    assert models_perhaps_called([part, requests_of("far", 1)]) == set()


def check_start(config: Config, serve: str, models: list[str], pending: set[str]) -> None:
    """Run the checks at the start of a run. pending: the models with new requests."""
    planned = [requests_of(name, 1) for name in pending]
    check_all(check.run for check in preflight.checks_of_start(Plan(config), serve, models, planned))


ENGINE = """#!/bin/sh
[ "$*" = "inspect --labels --json $IMAGE" ] || exit 3
{answer}
"""


@pytest.mark.parametrize("name_on_path", ["apptainer", "singularity"])
def test_an_image_must_exist_and_have_this_checkouts_lock(name_on_path: str, tmp_path: Path, monkeypatch: Any) -> None:
    """A script stands in for apptainer: its arguments are checked, and each answer has its message."""
    image, engine = tmp_path / "driver.sif", tmp_path / "bin" / name_on_path
    [lock] = images.lock_hashes("driver")
    assert len(images.lock_hashes("serve")) == 2, "locks of the CPU and of CUDA"
    engine.parent.mkdir()

    def answers(text: str) -> None:
        engine.write_text(ENGINE.format(answer=text), encoding="utf-8")
        engine.chmod(0o755)

    def error_for(container: str) -> str:
        with pytest.raises(UserError) as error:
            images.check_images({"driver": (container, str(image))})
        return str(error.value)

    assert error_for("x.sif") == f"containers.driver: {image} does not exist. Fix: run containers/build driver"
    assert error_for("docker://a/b:c").endswith(f"Fix: build and push a/b:c again, and delete {image}")
    image.touch()
    monkeypatch.setenv("PATH", "/nowhere")
    assert error_for("x.sif") == "--sdm apptainer: apptainer is not on the PATH. Fix: load or install apptainer"
    monkeypatch.setenv("PATH", f"{engine.parent}:/usr/bin:/bin")
    path_of = shutil.which  # this machine may have an apptainer
    monkeypatch.setattr(shutil, "which", lambda name: path_of(name) if name == name_on_path else None)
    monkeypatch.setenv("IMAGE", str(image))
    for answer, problem in (
        ("echo first >&2; echo torn image >&2; exit 1", "apptainer cannot read the image: torn image. Fix: build the image again"),
        ("exit 1", "apptainer cannot read the image: no message. Fix: build the image again"),
        ('echo \'{"data": {"attributes": {"labels": {}}}}\'', f"was built from an unknown lock, but this checkout has lock {lock}. Fix: run containers/build driver"),
        ('echo \'{"data": {"attributes": {"labels": {"maieutic.lock": "abc"}}}}\'', f"was built from lock abc, but this checkout has lock {lock}. Fix: "),
    ):  # fmt: skip
        answers(answer)
        assert problem in error_for("x.sif")
    for label in (lock, images.USER_BUILT):
        answers(f'echo \'{{"data": {{"attributes": {{"labels": {{"maieutic.lock": "{label}"}}}}}}}}\'')
        images.check_images({"driver": ("x.sif", str(image))})
    cpu_lock, cuda_lock = images.lock_hashes("serve")
    answers('echo \'{"data": {"attributes": {"labels": {"maieutic.lock": "abc"}}}}\'')
    with pytest.raises(
        UserError, match=f"was built from lock abc, but this checkout has lock {cpu_lock} or {cuda_lock}"
    ):
        images.check_images({"serve": ("x.sif", str(image))})


# before any work ------------------------------------------------------------------------------------------------------


class ModelList(Quiet):
    """An endpoint that answers a request for its list of models with one status, and records the requests."""

    status = 200
    seen: list[tuple[str, str | None]] = []

    def do_GET(self) -> None:
        type(self).seen.append((self.path, self.headers.get("Authorization")))
        self.send(self.status, b"{}", Location="/elsewhere")


ENDPOINTS: dict[str, tuple[int, str | None]] = {
    "a list of models": (200, None), "no such list": (404, None), "busy": (503, None), "a redirect": (302, None),
    "an unknown key": (401, "models.far.key_env: {address} refuses the key (401). Fix: set FAR_KEY to a valid key"),
    "a key without permission": (403, "models.far.key_env: {address} refuses the key (403). Fix: set FAR_KEY to a valid key"),
}  # fmt: skip


@pytest.mark.parametrize(("status", "message"), ENDPOINTS.values(), ids=ENDPOINTS)
def test_an_endpoint_gets_one_request_before_the_run(
    status: int, message: str | None, tmp_path: Path, monkeypatch: Any
) -> None:
    (tmp_path / "netrc").write_text("default login me password secret-of-netrc\n")
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    monkeypatch.setattr(ModelList, "status", status)
    monkeypatch.setattr(ModelList, "seen", [])
    monkeypatch.setenv("FAR_KEY", " sk-1 ")
    with serving(ModelList) as server:
        address = f"{server}/v1/"
        config = hosted_at(address)
        if message is None:
            check_start(config, "python", ["far"], {"far"})
        else:
            with pytest.raises(UserError, match=re.escape(message.format(address=address))):
                check_start(config, "python", ["far"], {"far"})
        assert ModelList.seen == [("/v1/models", "Bearer sk-1")], "one request, with the key"
        check_start(config, "python", ["far"], set())
        assert len(ModelList.seen) == 1, "no request if all answers are on file"


def hosted_at(address: str) -> Any:
    model = {"engine": "hosted", "model": "m", "base_url": address, "key_env": "FAR_KEY"}
    config = shipped()
    return read_config({**config, "models": {**config["models"], "far": model}})


def test_silent_changes_are_reported_until_the_entry_handles_them(monkeypatch: Any) -> None:
    """Changes of this run's tutors and judges are printed once each, in the last lines."""
    config = many_judges()
    config["models"]["mended"] = {
        **HOSTED, "omit": ["stop"], "max_tokens_as": "max_completion_tokens", "model": "other",
    }  # fmt: skip
    config["run"]["tutors"] = [*config["run"]["tutors"], "mended"]
    plan = plan_of(config)
    lines = {
        "stop": "the endpoint ignores stop: set omit: [stop]", "max_tokens": "set max_tokens_as: max_completion_tokens",
        "model": "other answers requests for m: set model: other", "prompt": "it was cut",
    }  # fmt: skip
    spending = [
        spending_of(name, 1).model_copy(update={"unheeded": lines}) for name in ("far", "far", "mended", "nobody")
    ]
    changes = messages.unhandled_changes(plan, spending)
    assert changes == [*(("far", line) for line in lines.values()), ("mended", lines["prompt"])]
    unsupported = {
        "model": "other answers requests for m: set model: other, or choose a model that the endpoint serves"
    }
    assert (
        messages.unhandled_changes(plan, [spending_of("mended", 1).model_copy(update={"unheeded": unsupported})]) == []
    )
    monkeypatch.setattr(messages, "spent_since", lambda since, journals: spending[:1])
    lines_printed = last_lines(plan, [], "2026-06-01", 0.0, None, {})
    assert lines_printed[: len(lines)] == [f"far: {line}" for line in lines.values()]
