"""What a run says of itself in a few lines, before it and after it; what it checks of images and endpoints."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from httpserver import Quiet, serving
from maieutic.config.settings import read_config
from maieutic.core import paths
from maieutic.core.errors import UserError
from maieutic.core.ledger import JobSpending, ledger_path
from maieutic.plan import images, preflight, run_messages
from maieutic.plan.plan import Plan
from maieutic.plan.requests import NewRequests
from maieutic.plan.rules import RulePlan, plan_of
from maieutic.plan.run_messages import (
    MOST_CAUSE_CHARS,
    MOST_FAILURES,
    cost_text,
    failure_lines,
    last_error_of,
    last_lines,
    models_to_call,
    planned_requests,
    requests_line,
    spent_line,
    uncounted_models,
)
from run_configs import HOSTED, many_judges
from shipped import shipped


@pytest.fixture(scope="module")
def plan() -> RulePlan:
    """Hosted tutors `far` (1 and 2 USD a million tokens) and `near` (without a price), twelve served ones, judges."""
    config = many_judges()
    entry = {"engine": "vllm", "weights": {"repo": "org/model", "revision": "0" * 40}}
    names = [f"model-{n}" for n in range(12)]
    config["models"]["nigh"] = HOSTED
    config["models"]["cached"] = {**HOSTED, "price": {"input": 1, "output": 2, "cached": 0.5}}
    config["models"] |= dict.fromkeys(names, entry) | {"third": {**HOSTED, "price": {"input": 0.001, "output": 0.001}}}
    config["run"]["tutors"] = [*names, *config["run"]["tutors"]]
    return plan_of(config)


def asked(asker: str, requests: int | None, exact: bool = True, model: str = "", tokens: float = 0.0) -> NewRequests:
    return NewRequests("tutors", asker, model or asker, requests, tokens, tokens / 2, exact)


FEW = [asked("model-1", 6), asked("model-0", 5)]
MANY = [asked(f"model-{n}", 5) for n in reversed(range(12))]
JUDGES = {"one": asked("one", 70, exact=False, model="near"), "two": asked("two", 5, model="far")}
LINES: dict[str, tuple[list[NewRequests], str]] = {
    "nothing that asks": ([], "none"),
    "all on file": ([asked("model-0", 0)], "none, all answers are on file"),
    "in the run file's order": (FEW, "model-0 5, model-1 6"),
    "the jobs of one together": ([*FEW, asked("model-0", 7)], "model-0 12, model-1 6"),
    "one that is supposed": ([*FEW, asked("model-0", 7, exact=False)], "model-0 about 12, model-1 6"),
    "nothing supposed is nothing": ([asked("model-0", 0, exact=False)], "none, all answers are on file"),
    "one that nobody knows": ([*FEW, asked("model-0", None)], "model-0 5 or more, model-1 6"),
    "nobody knows how many": ([asked("model-0", None)], "model-0 0 or more"),
    "alike, but few": ([*FEW, asked("model-2", 5)], "model-0 5, model-1 6, model-2 5"),
    "eight alike": (MANY[-8:], ", ".join(f"model-{n} 5" for n in range(8))),
    "nine alike": (MANY[-9:], "model-0, model-1 and 7 more: 5 each"),
    "many alike, and one that differs": ([*MANY, FEW[0]], "model-0, model-2 and 9 more: 5 each, model-1 11"),
    "a judge by name": ([JUDGES["two"], *MANY], "model-0, model-1 and 10 more: 5 each, two 5; under 0.01 USD"),
    "judges in their order": ([*reversed(JUDGES.values())], "one about 70, two 5; under 0.01 USD; no price for near"),
    "somebody else's last": ([asked("others", 3, model="far"), *FEW], "model-0 5, model-1 6, others 3; under 0.01 USD"),
}  # fmt: skip


def test_what_a_check_asks_and_what_thinking_may_cost_are_told_apart() -> None:
    config = many_judges()
    config["models"]["deep"] = {**HOSTED, "thinking_tokens": 1000, "price": {"input": 1, "output": 10}}
    plan = plan_of(config)
    parts = [asked("one", 5, model="deep"), asked("one", 95, model="deep")._replace(stage="checks")]
    said = requests_line(plan, parts)
    assert (
        said == "new requests: one 100 (95 to check it on labels); under 0.01 USD; at most 1.00 USD more for thinking"
    )
    assert "thinking" not in requests_line(plan, [asked("near", 100)])


@pytest.mark.parametrize(("parts", "line"), LINES.values(), ids=LINES)
def test_what_will_be_asked_is_one_line(parts: list[NewRequests], line: str, plan: Plan) -> None:
    assert requests_line(plan, parts) == f"new requests: {line}"


MONEY: dict[str, tuple[list[tuple[str, float, float, float]], str]] = {
    "nobody": ([], ""),
    "served by the run": ([("model-0", 1e6, 1e6, 0)], ""),
    "each kind of token has its price": ([("far", 1e6, 2e6, 0)], "about 5.00 USD"),
    "what was cached": ([("cached", 1e6, 0, 4e5)], "about 0.80 USD"),
    "together": ([("far", 1e6, 0, 0), ("far", 0, 1e6, 0)], "about 3.00 USD"),
    "half a cent": ([("far", 5000, 0, 0)], "about 0.01 USD"),
    "less than half a cent": ([("far", 4999, 0, 0)], "under 0.01 USD"),
    "no price, said once": ([("near", 1, 1, 0), ("near", 1, 1, 0)], "no price for near"),
    "two without": ([("near", 1, 1, 0), ("nigh", 1, 1, 0)], "no price for near, nigh"),
    "some with, some without": ([("near", 1, 1, 0), ("far", 1e6, 0, 0)], "about 1.00 USD; no price for near"),
}


@pytest.mark.parametrize(("amounts", "words"), MONEY.values(), ids=MONEY)
def test_money_is_said_of_those_that_have_a_price(amounts: Any, words: str, plan: Plan) -> None:
    assert cost_text(plan, amounts) == words


def spent(asker: str, requests: int, prompt: int = 1000, answer: int = 10, **retries: int) -> JobSpending:
    return JobSpending(
        time="2026-01-01T00:00:00+00:00", asker=asker, requests=requests, prompt_tokens=prompt,
        completion_tokens=answer, seconds=1.0, retries=retries,
    )  # fmt: skip


def test_what_was_asked_is_one_line(plan: Plan) -> None:
    assert spent_line(plan, []) == "requests sent: none"
    lines = [spent("far", 3, 1_000_000, 5, status_429=2, timeout=1), spent("two", 4, 10**6), spent("far", 1)]
    assert spent_line(plan, lines) == (
        "requests sent: far 4 (1,001,000 + 15 tokens, 3 retries), two 4 (1,000,000 + 10 tokens); about 2.00 USD"
    ), "a judge's tokens are paid at the price of the model that answers"
    gone = spent("who-is-no-more", 1)
    assert spent_line(plan, [gone]) == "requests sent: who-is-no-more 1 (1,000 + 10 tokens)"


LOGS = {
    "the last error": ("a\n12:00:00 ERROR first\n12:00:01 ERROR x: y. Fix: z  \nafter\n", "x: y. Fix: z"),
    "else its last line": ("a\n b \n\n  \n", "b"),
    "nothing": ("\n \n", "the log is empty"),
    "no more than fits": ("12:00:00 ERROR " + "x" * 1000, "x" * MOST_CAUSE_CHARS),
    "its fix is whole": (
        "12:00:00 ERROR " + "x" * 1000 + ". Fix: do it",
        "x" * (MOST_CAUSE_CHARS - 15) + " ... Fix: do it",
    ),
    "a fix that is too long": ("12:00:00 ERROR x. Fix: " + "y" * 1000, "x. Fix: " + "y" * (MOST_CAUSE_CHARS - 8)),
    "a word that only holds it": ("TERRORS\nsaid ERRORS\n", "said ERRORS"),
}


@pytest.mark.parametrize(("text", "cause"), LOGS.values(), ids=LOGS)
def test_why_a_job_failed_is_in_its_log(text: str, cause: str, tmp_path: Path) -> None:
    log = tmp_path / "rule.log"
    assert last_error_of(log, 0.0) is None
    log.write_text(text, encoding="utf-8")
    os.utime(log, (100, 100))
    assert last_error_of(log, 100.0) == cause and last_error_of(log, 100.5) is None, "a log of before says nothing"
    log.write_bytes(b"\xff ERROR torn \xff\n")
    assert last_error_of(log, 0.0) == "torn \ufffd"


def job(rule: str, *logs: Path, output: tuple[str, ...] = (), files: tuple[str, ...] = (), **names: str) -> Any:
    """What Snakemake says of a job; one with `tutor` or `judge` is to ask a model."""
    resources = {"server_gpus": 0} if {"tutor", "judge"} & set(names) else {}
    return SimpleNamespace(
        rule=SimpleNamespace(name=rule), wildcards=names, log=logs, output=output, input=files, resources=resources
    )


def test_each_failed_job_is_a_line_and_those_out_of_money_are_one(plan: Plan, tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.chdir(tmp_path)
    logs = [tmp_path / f"{n}.log" for n in range(3)]
    texts = ["1 ERROR no key", "1 ERROR run.budget: 1.00 USD are spent", "1 ERROR run.budget: 1.01 USD are spent"]
    for log, text in zip(logs, texts, strict=True):
        log.write_text(text, encoding="utf-8")
    jobs = [job("judge_replies", logs[n], judge="one", benchmark=f"b{n}") for n in range(3)]
    assert failure_lines([*jobs, job("all")], 0.0) == [
        f"failed: judge_replies one b0: no key (log: {logs[0]})",
        "failed: all: no log was written",
        "stopped: judge_replies one b1, judge_replies one b2: run.budget: 1.01 USD are spent",
    ]
    assert failure_lines([job("x", tmp_path / "none.log")], 0.0) == [
        f"failed: x: no log was written (log: {tmp_path / 'none.log'})"
    ]
    assert last_lines(plan, [], "", 0.0, None) == ["requests sent: none"]
    told = last_lines(plan, [job("x")] * (MOST_FAILURES + 2), "", 0.0, "page.html")
    assert told == [
        *["failed: x: no log was written"] * MOST_FAILURES, "failed: 2 further jobs", "requests sent: none", "report: page.html",
    ]  # fmt: skip
    assert len(last_lines(plan, [job("x")] * MOST_FAILURES, "", 0.0, None)) == MOST_FAILURES + 1
    ledger = ledger_path(Path(paths.JOURNALS.of()) / "replies/mrbench/far.jsonl")
    ledger.parent.mkdir(parents=True)
    lines = [spent("far", 2), spent("far", 5).model_copy(update={"time": "2027-01-01T00:00:00+00:00"})]
    ledger.write_text("".join(json.dumps(line.model_dump()) + "\n" for line in lines), encoding="utf-8")
    assert last_lines(plan, [], "2026-06-01", 0.0, None) == ["requests sent: far 5 (1,000 + 10 tokens); under 0.01 USD"]


def test_what_planned_jobs_ask_is_counted_by_rule_and_names(plan: Plan, monkeypatch: Any) -> None:
    """Of a job that cannot be counted the models are named; a job without a model asks nothing."""
    told: list[Any] = []

    def counted(plan: Plan, rehearsal: Any, planned: Any) -> list[NewRequests]:
        told.append((rehearsal.rewritten_files, planned))
        return [asked("far", 3)]

    monkeypatch.setattr(run_messages, "new_requests", counted)
    jobs = [
        job("judge_replies_locally", output=("verdicts",), judge="one"), job("a_rule", output=("x",), files=()),
        job("write_dialogues", output=("d",), judge="one"),
    ]  # fmt: skip
    parts = planned_requests(plan, jobs)
    assert [part[:4] for part in parts] == [("tutors", "far", "far", 3), ("others", "near", "near", None)]
    assert told == [
        ({"verdicts", "x", "d"}, [("judge_replies", {"judge": "one"}), ("write_dialogues", {"judge": "one"})])
    ]
    monkeypatch.setattr(run_messages, "uncounted_models", lambda plan, job: ["near", "far"])
    assert planned_requests(plan, jobs[2:])[1][:4] == ("others", "near + far", "near", None)


@pytest.mark.parametrize(
    ("part", "known"),
    [
        (asked("far", 0), False),
        (asked("far", 1), True),
        (asked("far", None), True),
        (asked("far", 0, exact=False), True),
    ],
)
def test_a_model_is_asked_unless_it_surely_is_not(part: NewRequests, known: bool, plan: Plan, monkeypatch: Any) -> None:
    monkeypatch.setattr(run_messages, "planned_requests", lambda plan, jobs: [part])
    assert models_to_call(plan, []) == ({"far"} if known else set())


@pytest.mark.parametrize(
    ("rule", "counts"),
    [
        ("make_components", True), ("write_flows", True), ("write_dialogues", True), ("rate_judge", True), ("rate_x", True),
        ("tag_items", True), ("make_items", False), ("write_model_card", False), ("judge_replies", False),
    ],
)  # fmt: skip
def test_what_is_not_counted_beforehand(rule: str, counts: bool, plan: Plan) -> None:
    assert uncounted_models(plan, job(rule, judge="one")) == (["near"] if counts else [])


def test_an_old_log_says_nothing_of_this_run(tmp_path: Path, plan: Plan) -> None:
    log = tmp_path / "x.log"
    log.write_bytes(b"1 ERROR a: ERROR b \xc3\xa9 \xff\n\n")
    os.utime(log, (100, 100))
    assert last_error_of(log, 100.0) == "a: ERROR b \u00e9 \ufffd" and last_error_of(log, 100.5) is None
    assert last_lines(plan, [job("x", log)], "", 100.5, None)[0] == f"failed: x: no log was written (log: {log})"
    assert last_lines(plan, [job("x", log)], "", 100.0, None)[0] == f"failed: x: a: ERROR b \u00e9 \ufffd (log: {log})"


def test_the_last_fault_of_the_budget_is_told(tmp_path: Path) -> None:
    logs = [tmp_path / f"{n}.log" for n in range(3)]
    for number, log in enumerate(logs):
        log.write_text(f"1 ERROR run.budget: {number} spent", encoding="utf-8")
    jobs = [job("x", log, n=str(number)) for number, log in enumerate(logs)]
    assert failure_lines(jobs, 0.0) == ["stopped: x 0, x 1, x 2: run.budget: 2 spent"]


def test_jobs_that_ask_are_counted_in_their_order_and_others_are_not(plan: Plan) -> None:
    """The demo's items are known before they are made; what another kind of job asks is not known."""
    items = job("make_items", output=(paths.ITEMS.of(benchmark="mrbench", task="mistake_remediation"),))
    judging = job("judge_replies_locally", judge="two", benchmark="mrbench", batch="far")
    tagging = job("tag_items", judge="two")
    asking = job("generate_replies_locally", tutor="near", benchmark="mrbench")
    still = job("parse_replies", benchmark="mrbench")
    parts = planned_requests(plan, [tagging, judging, still, items, asking])
    assert [(part.stage, part.asker, part.exact) for part in parts] == [
        ("tutors", "near", True), ("judges", "two", False), ("others", "far", False),
    ]  # fmt: skip
    assert parts[0].requests == parts[1].requests == 8 and parts[2].requests is None
    assert (
        models_to_call(plan, [tagging, asking, still, items]) == {"near", "far"}
        and models_to_call(plan, [still]) == set()
    )
    assert uncounted_models(plan, asking) == [] and uncounted_models(plan, tagging) == ["far"]


ENGINE = """#!/bin/sh
[ "$*" = "inspect --labels --json $IMAGE" ] || exit 3
{answer}
"""


def test_an_image_is_there_and_of_this_lock(tmp_path: Path, monkeypatch: Any) -> None:
    """By a stand-in for apptainer: what it is asked, and what is made of each answer."""
    image, engine = tmp_path / "driver.sif", tmp_path / "bin/apptainer"
    [lock] = images.lock_hashes("driver")
    assert len(images.lock_hashes("serve")) == 2, "of the CPU and of CUDA"
    engine.parent.mkdir()

    def answers(text: str) -> None:
        engine.write_text(ENGINE.format(answer=text), encoding="utf-8")
        engine.chmod(0o755)

    def refused(named: str) -> str:
        with pytest.raises(UserError) as told:
            images.check_images({"driver": (named, str(image))})
        return str(told.value)

    assert refused("x.sif") == f"containers.driver: {image} does not exist. Fix: run containers/build driver"
    assert refused("docker://a/b:c").endswith(f"Fix: build and push a/b:c again, and delete {image}")
    image.touch()
    monkeypatch.setenv("PATH", "/nowhere")
    assert refused("x.sif") == "--sdm apptainer: apptainer is not on the PATH. Fix: load or install apptainer"
    monkeypatch.setenv("PATH", f"{engine.parent}:/usr/bin:/bin")
    monkeypatch.setenv("IMAGE", str(image))
    for answer, told in (
        ("echo first >&2; echo torn image >&2; exit 1", "apptainer cannot read it: torn image. Fix: build the image again"),
        ("exit 1", "apptainer cannot read it: no message. Fix: build the image again"),
        ('echo \'{"data": {"attributes": {"labels": {}}}}\'', f"was built from an unknown lock, but this checkout has {lock}. Fix: run containers/build driver"),
        ('echo \'{"data": {"attributes": {"labels": {"maieutic.lock": "abc"}}}}\'', f"was built from lock abc, but this checkout has {lock}. Fix: "),
    ):  # fmt: skip
        answers(answer)
        assert told in refused("x.sif")
    for right in (lock, images.USER_BUILT):
        answers(f'echo \'{{"data": {{"attributes": {{"labels": {{"maieutic.lock": "{right}"}}}}}}}}\'')
        images.check_images({"driver": ("x.sif", str(image))})
    one, other = images.lock_hashes("serve")
    answers('echo \'{"data": {"attributes": {"labels": {"maieutic.lock": "abc"}}}}\'')
    with pytest.raises(UserError, match=f"was built from lock abc, but this checkout has {one} or {other}"):
        images.check_images({"serve": ("x.sif", str(image))})


# before any work ------------------------------------------------------------------------------------------------------


class Models(Quiet):
    """An endpoint's list of models, answered with one status; keeps each request."""

    status = 200
    seen: list[tuple[str, str | None]] = []

    def do_GET(self) -> None:
        type(self).seen.append((self.path, self.headers.get("Authorization")))
        self.send(self.status, b"{}", Location="/elsewhere")


ENDPOINTS: dict[str, tuple[int, str | None]] = {
    "it answers": (200, None),
    "it has no such list": (404, None),
    "it is busy": (503, None),
    "it sends elsewhere": (302, None),
    "no such key": (401, "models.far.key_env: {address} refuses the key (401). Fix: check FAR_KEY"),
    "a key without the right": (403, "models.far.key_env: {address} refuses the key (403). Fix: check FAR_KEY"),
}


@pytest.mark.parametrize(("status", "told"), ENDPOINTS.values(), ids=ENDPOINTS)
def test_an_endpoint_is_asked_for_its_models_once(status: int, told: str | None, monkeypatch: Any) -> None:
    monkeypatch.setattr(Models, "status", status)
    monkeypatch.setattr(Models, "seen", [])
    monkeypatch.setenv("FAR_KEY", " sk-1 ")
    with serving(Models) as server:
        address = f"{server}/v1/"
        config = hosted_at(address)
        if told is None:
            preflight.check_run(config, "python", ["far"], {"far"})
        else:
            with pytest.raises(UserError, match=re.escape(told.format(address=address))):
                preflight.check_run(config, "python", ["far"], {"far"})
        assert Models.seen == [("/v1/models", "Bearer sk-1")], "and nowhere else, with the key"
        preflight.check_run(config, "python", ["far"], set())
        assert len(Models.seen) == 1, "nobody is asked of whom all is on file"


def hosted_at(address: str) -> Any:
    model = {"engine": "hosted", "model": "m", "base_url": address, "key_env": "FAR_KEY"}
    config = shipped()
    return read_config({**config, "models": {**config["models"], "far": model}})


def test_what_is_not_there_is_told_before_any_work(monkeypatch: Any) -> None:
    config = hosted_at("http://127.0.0.1:9/v1")
    with pytest.raises(UserError, match=r"FAR_KEY is not set"):
        preflight.check_run(config, "python", ["far"], {"far"})
    monkeypatch.setenv("FAR_KEY", "sk-1")
    told = (
        r"models\.far\.base_url: http://127\.0\.0\.1:9/v1 does not answer \(ConnectionError\)\. Fix: start the server"
    )
    with pytest.raises(UserError, match=told):
        preflight.check_run(config, "python", ["far"], {"far"})
    preflight.check_run(config, "nowhere/python", ["echo"], {"echo"})
    preflight.check_run(config, "python", ["smollm2-135m"], set())
    told = r"interpreters\.serve: nowhere/python does not exist, and smollm2-135m needs it\. Fix: run `make env`"
    with pytest.raises(UserError, match=told):
        preflight.check_run(config, "nowhere/python", ["echo", "smollm2-135m"], set())


def test_silent_changes_are_told_until_the_entry_mends_them(monkeypatch: Any) -> None:
    """Of tutors and judges of this run, once each, in the last lines."""
    config = many_judges()
    config["models"]["mended"] = {
        **HOSTED,
        "omit": ["stop"],
        "max_tokens_as": "max_completion_tokens",
        "model": "other",
    }
    config["run"]["tutors"] = [*config["run"]["tutors"], "mended"]
    plan = plan_of(config)
    lines = {
        "stop": "the endpoint ignores stop: set omit: [stop]", "max_tokens": "set max_tokens_as: max_completion_tokens",
        "model": "other answers where m is asked: set model: other", "prompt": "it was cut",
    }  # fmt: skip
    unheeding = [spent(name, 1).model_copy(update={"unheeded": lines}) for name in ("far", "far", "mended", "nobody")]
    told = run_messages.unhandled_changes(plan, unheeding)
    assert told == [*(("far", line) for line in lines.values()), ("mended", lines["prompt"])]
    third = {"model": "other answers where m is asked: set model: other, or name a model that the endpoint serves"}
    assert run_messages.unhandled_changes(plan, [spent("mended", 1).model_copy(update={"unheeded": third})]) == []
    monkeypatch.setattr(run_messages, "spent_since", lambda since, journals: unheeding[:1])
    said = last_lines(plan, [], "2026-06-01", 0.0, None)
    assert said[: len(lines)] == [f"far: {line}" for line in lines.values()]
