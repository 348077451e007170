"""Tests of the purse of a run's budget: reserved before a request is sent, settled by what is reported, never free."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from httpserver import completion, scripted, serving
from maieutic.config.budget import Budget, check_answer_limits
from maieutic.config.models import HostedModel, Price
from maieutic.core.errors import UserError
from maieutic.core.journal import FinishedRequest, load_journal_answers
from maieutic.core.shutdown import SHUTDOWN
from maieutic.core.yaml_files import read_yaml
from maieutic.replies.generate import RequestLimits, first_prompt, tutor_request
from maieutic.serving.answers import Usage, usage_of
from maieutic.serving.budget import BUDGET_VARIABLE, Allowance, Amount, Purse, PurseState, open_purse, this_process
from test_client import KEY, drive, hosted, with_budget, work

PRICE = Price(input=1000.0, output=2000.0)  # US dollars per million tokens: 0.001 and 0.002 a token
OTHER_MACHINE = "elsewhere pid:[1] 77 123"


def purse(folder: Path, asker: str = "m", most_tokens: dict[str, int] | None = None, **limits: Any) -> Purse:
    """Return a purse of two models with the same price."""
    allowance = Allowance(
        budget=Budget.model_validate(limits), budget_file=folder / "purse.jsonl", prices={"m": PRICE, "n": PRICE},
        most_tokens=most_tokens or {},
    )  # fmt: skip
    return Purse(allowance, asker, timeout=5.0)


def request(text: str = "abc", max_tokens: int = 10) -> dict[str, Any]:
    """Return a request of one token for three bytes of the text."""
    return {"endpoint": "chat", "messages": [{"role": "user", "content": text}], "max_tokens": max_tokens}


def reserve(purse: Purse, request: dict[str, Any]) -> Any:
    """Reserve a request, which must not have to wait for long."""
    return asyncio.run(asyncio.wait_for(purse.reserve(request), 5))


@pytest.fixture(autouse=True)
def running(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the process of the tests not be one that shuts down, and set the key of the entries."""
    SHUTDOWN.is_set = False
    monkeypatch.setenv("TEST_KEY", KEY)


PICTURE = [{"type": "text", "text": "abc"}, {"type": "image_url", "image_url": {"url": "data:," + "x" * 90_000}}]
MOSTS = {
    "a token for three bytes, and max_tokens": (request("abcdef"), {}, (2, 10)),
    "an incomplete token counts": (request("abcd"), {}, (2, 10)),
    "bytes, not characters": (request("\u4f60\u597d"), {}, (2, 10)),
    "a picture counts by a fixed number, not by its bytes": (request(PICTURE), {}, (1501, 10)),  # type: ignore[arg-type]
    "the entry's most_tokens instead of max_tokens": (request(), {"m": 700}, (1, 700)),
    "another entry's most_tokens": (request(), {"n": 700}, (1, 10)),
}  # fmt: skip


@pytest.mark.parametrize("name", MOSTS)
def test_the_most_of_a_request(name: str, tmp_path: Path) -> None:
    body, most_tokens, (prompt, answer) = MOSTS[name]
    most = purse(tmp_path, most_tokens=most_tokens).most(body)
    assert most[:3] == (prompt, prompt, answer)
    assert most.amount == Amount(1, prompt + answer, pytest.approx(prompt * 0.001 + answer * 0.002))


def test_what_was_billed_raises_the_most_of_this_model_in_all_jobs(tmp_path: Path) -> None:
    first, second, other = purse(tmp_path), purse(tmp_path), purse(tmp_path, "n")
    first.settle(reserve(first, request("a" * 30)), Usage(25, 40))  # ten tokens were estimated
    for each in (first, second, other):
        reserve(each, request())
    for each in (first, second):
        assert each.most(request("a" * 30))[:3] == (10, 25, 40)
    assert other.most(request("a" * 30))[:3] == (10, 10, 10)
    first.settle(reserve(first, request("a" * 30)), Usage(5, 1))
    assert first.most(request("a" * 30))[:3] == (10, 25, 40), "a cheap answer lowers nothing"


SETTLED = {
    "what is reported": (Usage(3, 4), (7, 0.011), 0),
    "an answer that costs more than reserved": (Usage(100, 900), (1000, 1.9), 0),
    "no usage": (Usage(), (11, 0.021), 1),
    "no prompt tokens": (Usage(None, 4), (11, 0.021), 1),
    "no answer tokens": (Usage(3, None), (11, 0.021), 1),
}  # fmt: skip


@pytest.mark.parametrize("name", SETTLED)
def test_a_reservation_is_replaced_by_what_is_reported_and_stays_otherwise(name: str, tmp_path: Path) -> None:
    usage, (tokens, usd), unreported = SETTLED[name]
    each = purse(tmp_path)
    each.settle(reserve(each, request()), usage)
    assert each.spent() == purse(tmp_path).spent("m") == (1, tokens, pytest.approx(usd))
    assert each.unreported == unreported and each.charged.usd == pytest.approx(usd if unreported else 0)


def test_a_request_that_was_not_sent_costs_nothing(tmp_path: Path) -> None:
    each = purse(tmp_path)
    each.release(reserve(each, request()))
    assert each.spent() == (0, 0, pytest.approx(0))


ENDS = {
    "US dollars": ({"usd": 0.03}, "run.budget", "0.03 USD"),
    "tokens": ({"tokens": 20}, "run.budget", "20 tokens"),
    "requests": ({"requests": 1}, "run.budget", "1 requests"),
    "one model": ({"usd": 9, "models": {"m": {"usd": 0.03}}}, "run.budget.models.m", "0.03 USD"),
}  # fmt: skip


@pytest.mark.parametrize("name", ENDS)
def test_a_model_ends_with_both_numbers_once_the_rest_does_not_pay_another_request(name: str, tmp_path: Path) -> None:
    limits, key, limit = ENDS[name]
    each = purse(tmp_path, **limits)
    each.settle(reserve(each, request()), Usage(1, 5))
    with pytest.raises(UserError) as error:
        reserve(each, request("abcdefghi", 20))
    assert error.value.place == key
    assert error.value.problem == (
        f"the budget of {limit} is spent (1 request, 6 tokens, 0.011 USD): "
        "one more request can cost 1 request, 23 tokens, 0.043 USD; all received answers are kept"
    )
    with pytest.raises(UserError):
        reserve(each, request("", 1))  # the model has ended, although this one would be paid


def test_other_models_go_on_if_one_has_reached_its_limit(tmp_path: Path) -> None:
    limits = {"models": {"m": {"requests": 1}}}
    first, second = purse(tmp_path, **limits), purse(tmp_path, "n", **limits)
    first.settle(reserve(first, request()), Usage(1, 1))
    with pytest.raises(UserError):
        reserve(first, request())
    for _ in range(3):
        second.settle(reserve(second, request()), Usage(1, 1))


def test_requests_wait_for_those_in_flight_and_go_on_in_their_order(tmp_path: Path) -> None:
    """Ten requests of 21 thousandths share 45: at most two are in flight, and all are sent, since each costs one."""
    purses_of_jobs = [purse(tmp_path, usd=0.045), purse(tmp_path, "n", usd=0.045)]
    in_flight, most_in_flight, order = 0, 0, []

    async def send(number: int) -> None:
        nonlocal in_flight, most_in_flight
        each = purses_of_jobs[number % 2]
        reservation = await each.reserve(request())
        order.append(number)
        in_flight += 1
        most_in_flight = max(most_in_flight, in_flight)
        await asyncio.sleep(0.02)
        in_flight -= 1
        each.settle(reservation, Usage(1, 0))

    async def run() -> None:
        await asyncio.wait_for(asyncio.gather(*map(send, range(10))), 30)

    asyncio.run(run())
    assert most_in_flight == 2 and sorted(order) == list(range(10))
    assert [n for n in order if n % 2 == 0] == [0, 2, 4, 6, 8] and [n for n in order if n % 2] == [1, 3, 5, 7, 9]
    assert purse(tmp_path).spent() == (10, 10, pytest.approx(0.01))


def test_a_dear_request_that_waits_is_not_overtaken_by_cheap_ones(tmp_path: Path) -> None:
    dear, cheap = purse(tmp_path, usd=0.1), purse(tmp_path, "n", usd=0.1)
    order: list[str] = []

    async def send(name: str, each: Purse, body: dict[str, Any], delay: float) -> None:
        await asyncio.sleep(delay)
        reservation = await each.reserve(body)
        order.append(name)
        await asyncio.sleep(0.3)
        each.settle(reservation, Usage(1, 1))

    async def run() -> None:
        await asyncio.wait_for(
            asyncio.gather(
                send("first", cheap, request(), 0),
                send("dear", dear, request("abc", 44), 0.1),  # 89 thousandths, while 21 are reserved
                send("cheap", cheap, request(), 0.2),
            ),
            10,
        )

    asyncio.run(run())
    assert order == ["first", "dear", "cheap"]


def test_a_request_that_waits_ends_with_the_job(tmp_path: Path) -> None:
    each, other = purse(tmp_path, usd=0.03), purse(tmp_path, "n", usd=0.03)
    reserve(each, request())

    async def run() -> None:
        waiting = asyncio.create_task(other.reserve(request()))
        await asyncio.sleep(0.1)
        SHUTDOWN.is_set = True
        with pytest.raises(InterruptedError):
            await asyncio.wait_for(waiting, 5)

    asyncio.run(run())
    state = PurseState()
    for line in (tmp_path / "purse.jsonl").read_text().splitlines():
        state.apply(json.loads(line))
    assert not state.queue and len(state.open) == 1


RESERVE = """
import asyncio, os, sys
from pathlib import Path
sys.path[:0] = ["tests", "tests/unit"]
from test_budget import purse, request
asyncio.run(purse(Path(sys.argv[1]), usd=0.03).reserve(request()))
os.kill(os.getpid(), 9)
"""


def test_what_a_killed_job_has_reserved_counts_as_spent_within_this_call(tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": "workflow"}
    subprocess.run([sys.executable, "-c", RESERVE, str(tmp_path)], check=False, env=environment)
    with pytest.raises(UserError, match=r"is spent \(1 request, 11 tokens, 0\.021 USD\)"):
        reserve(purse(tmp_path, "n", usd=0.03), request())


@pytest.mark.parametrize(("seconds", "ends"), [(-1.0, True), (3600.0, False)])
def test_a_job_on_another_machine_is_dead_once_its_request_has_timed_out(
    seconds: float, ends: bool, tmp_path: Path
) -> None:
    event = ["reserve", "x", "m", OTHER_MACHINE, time.time() + seconds, 1, 11, 0.021]
    (tmp_path / "purse.jsonl").write_text(json.dumps(event) + "\n")
    with pytest.raises(UserError if ends else TimeoutError):
        asyncio.run(asyncio.wait_for(purse(tmp_path, usd=0.03).reserve(request()), 1))
    if ends:  # it was slow, not dead: what it settles counts all the same
        late = purse(tmp_path)
        late.locked().__enter__()
        late._state.apply(["settle", "x", "m", 1, 2, 0.002])
        assert late._state.total(late._state.spent) == (1, 2, pytest.approx(0.002))


def test_a_dead_job_that_waited_holds_up_nobody(tmp_path: Path) -> None:
    dead = this_process().rsplit(" ", 1)[0] + " 1"
    events = [["reserve", "x", "n", this_process(), 0.0, 1, 1, 0.001]]
    events += [["wait", "y", ["run.budget"], owner, time.time() + 60] for owner in (dead,)]
    events += [["wait", "z", ["run.budget"], this_process(), time.time() - 1]]
    (tmp_path / "purse.jsonl").write_text("".join(json.dumps(event) + "\n" for event in events))
    reserve(purse(tmp_path, usd=1), request())
    last = json.loads((tmp_path / "purse.jsonl").read_text().splitlines()[-1])
    assert last[0] == "reserve" and last[3] == this_process()


DAMAGED = ['["reserve"', "{}", "[]", "7", '["settle", "x"]', '["most", "m", "a", "b"]', "null", '"text"', "\ufffd"]


def test_damaged_lines_are_skipped_and_torn_ones_ended(tmp_path: Path) -> None:
    each = purse(tmp_path)
    each.settle(reserve(each, request()), Usage(1, 1))
    with open(each.path, "a", encoding="utf-8") as handle:
        handle.write("\n".join(DAMAGED) + '\n["reserve", "torn')
    each.settle(reserve(each, request()), Usage(1, 1))
    assert purse(tmp_path).spent() == each.spent() == (2, 4, pytest.approx(0.006))


def test_a_purse_that_cannot_be_written_ends_the_model_and_loses_no_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_budget(monkeypatch, tmp_path, requests=50)

    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    def script(number: int, body: dict[str, Any]) -> tuple[int, Any, dict[str, str]]:
        monkeypatch.setattr(Purse, "_write", fail)  # the disk is full once a request was sent
        return 200, completion("4"), {}

    handler = scripted(script)
    with serving(handler) as address, pytest.raises(UserError, match=r"cannot be recorded \(No space left"):
        drive(address, tmp_path, 3, concurrency=1)
    assert len(handler.requests) == len(load_journal_answers(tmp_path / "journal.jsonl", FinishedRequest)) == 1


def is_probe(body: dict[str, Any]) -> bool:
    """Return True for the short request that finds out whether the endpoint answers."""
    return str(body.get("prompt")).endswith("What is 2 + 2?")


def most_of_work() -> Amount:
    """Return the most of one of the requests that `drive` sends, by the prices of `with_budget`."""
    loaded, item = work(1)[0]
    messages = [{"role": "system", "content": first_prompt(loaded, item)}]
    body = tutor_request(loaded, messages, hosted("http://x"), RequestLimits(8, 1))
    allowance = Allowance(budget=Budget(), budget_file=Path("-"), prices={"m": Price(input=1000.0, output=0.0)})
    return Purse(allowance, "m").most(body).amount


# Each request has a prompt and an answer of one token each by the endpoint's usage, and costs 0.001 USD.
BUDGETS = {
    "requests": (lambda most: {"requests": 5}, r"run\.budget: the budget of 5 requests is spent \(5 requests, 10 tokens, 0\.005 USD\)"),
    "tokens": (lambda most: {"tokens": most.tokens + 8}, r"run\.budget: the budget of \d+ tokens is spent \(5 requests, 10 tokens"),
    "money": (lambda most: {"usd": most.usd + 0.004}, r"run\.budget: the budget of 0\.\d+ USD is spent \(5 requests"),
    "one model's requests": (lambda most: {"models": {"m": {"requests": 5}}}, r"run\.budget\.models\.m: the budget of 5 requests is spent"),
}  # fmt: skip


@pytest.mark.parametrize("name", BUDGETS)
def test_a_spent_budget_ends_a_job_in_one_line_and_keeps_all_answers(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    limits, problem = BUDGETS[name]
    with_budget(monkeypatch, tmp_path, **limits(most_of_work()))
    with serving(handler := scripted(lambda n, body: (200, completion("4"), {}))) as address:
        with pytest.raises(UserError, match=problem) as error:
            drive(address, tmp_path, 12, concurrency=1)
        assert "\n" not in error.value.lines
        assert "all received answers are kept. Fix: raise this limit" in error.value.line
        assert len(handler.requests) == len(load_journal_answers(tmp_path / "journal.jsonl", FinishedRequest)) == 5
        [ledger] = [json.loads(line) for line in (tmp_path / "journal.ledger").read_text().splitlines()]
        assert (ledger["requests"], ledger["prompt_tokens"]) == (5, 5)
        (tmp_path / "purse.jsonl").unlink()  # as at the start of another run
        with pytest.raises(UserError, match="is spent"):
            drive(address, tmp_path, 12, concurrency=1)
        monkeypatch.delenv(BUDGET_VARIABLE)
        assert len(drive(address, tmp_path, 12)) == 12 and len(handler.requests) == 12


def test_jobs_at_the_same_time_share_a_budget_and_each_try_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_budget(monkeypatch, tmp_path, requests=20)
    handler = scripted(lambda n, body: (500, b"", {}) if "7+1?" in body["prompt"] else (200, completion("4"), {}))
    failures: list[str] = []

    def job(number: int, address: str) -> None:
        folder = tmp_path / str(number)
        folder.mkdir()
        try:
            drive(address, folder, 9)
        except UserError as error:
            failures.append(error.line)

    with serving(handler) as address:
        jobs = [threading.Thread(target=job, args=(number, address)) for number in range(3)]
        for thread in jobs:
            thread.start()
        for thread in jobs:
            thread.join()
    assert len(failures) == 3 and purse(tmp_path).spent("m").requests == len(handler.requests) <= 20


def usage(prompt: Any, answer: Any, **more: Any) -> dict[str, Any]:
    return {"usage": {"prompt_tokens": prompt, "completion_tokens": answer, **more}}


USAGES = {
    "as documented": (usage(3, 4, total_tokens=7), Usage(3, 4)),
    "thinking in the total only": (usage(3, 4, total_tokens=50_007), Usage(3, 50_004)),
    "a smaller total": (usage(3, 4, total_tokens=1), Usage(3, 4)),
    "a total instead of the answer's tokens": ({"usage": {"prompt_tokens": 3, "total_tokens": 9}}, Usage(3, 6)),
    "cached": (usage(3, 4, prompt_tokens_details={"cached_tokens": 2}), Usage(3, 4, 2)),
    "Responses API": ({"usage": {"input_tokens": 3, "output_tokens": 4, "total_tokens": 8}}, Usage(3, 5)),
    "none": ({}, Usage()), "null": ({"usage": None}, Usage()), "a list": ({"usage": [3, 4]}, Usage()),
    "zeros": (usage(0, 0, total_tokens=0), Usage()), "texts": (usage("many", "many"), Usage()),
    "booleans": (usage(True, True), Usage()), "negative": (usage(-3, 4), Usage(None, 4)),
    "fractions": (usage(3.5, 4.0), Usage(None, 4)), "huge": (usage(3, 10**19), Usage(3, None)),
    "no object": ("usage", Usage()),
    "no cached tokens": (usage(3, 4, prompt_tokens_details={}), Usage(3, 4)),
    "cached tokens below zero": (usage(3, 4, prompt_tokens_details={"cached_tokens": -1}), Usage(3, 4)),
    "cached tokens as a text": (usage(3, 4, prompt_tokens_details={"cached_tokens": "many"}), Usage(3, 4)),
    "cached tokens in a list": (usage(3, 4, prompt_tokens_details=[64]), Usage(3, 4)),
}  # fmt: skip


@pytest.mark.parametrize("name", USAGES)
def test_usage_is_what_the_endpoint_bills_or_unknown(name: str) -> None:
    body, expected = USAGES[name]
    assert usage_of(body) == expected


def test_an_empty_answer_may_have_no_tokens() -> None:
    assert usage_of(usage(3, 0), has_text=False) == Usage(3, 0) and usage_of(usage(3, 0)) == Usage(3, None)


# How an endpoint costs money, and the tokens of one attempt that the purse must hold afterwards; None: the reservation
COSTS = {
    "an answer": ((200, completion("4"), {}), 2),
    "no usage": ((200, {**completion("4"), "usage": None}, {}), None),
    "an answer that cannot be read, with usage": ((200, usage(3, 4), {}), 7),
    "an answer that cannot be read": ((200, {"choices": []}, {}), None),
    "no JSON": ((200, b"<html>", {}), None),
    "an error in a 200, with usage": ((200, {"error": {"message": "x"}, **usage(3, 4)}, {}), 7),
    "an error in a 200": ((200, {"error": {"message": "x"}}, {}), None),
    "a server error": ((500, b"", {}), 0),
    "overload": ((429, b"", {}), 0),
    "overload that reports usage": ((429, usage(3, 4), {}), 7),
    "a proxy that gave up waiting": ((504, b"", {}), None),
    "a refusal of this request": ((400, {"error": {"message": "maximum context length"}}, {}), 0),
}  # fmt: skip


@pytest.mark.parametrize("name", COSTS)
def test_each_try_is_paid_by_what_its_body_reports(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    response, tokens = COSTS[name]
    with_budget(monkeypatch, tmp_path, tokens=100_000)
    handler = scripted(lambda n, body: (200, completion("4"), {}) if is_probe(body) else response)
    with serving(handler) as address, contextlib.suppress(UserError):
        drive(address, tmp_path, 1, attempts=1)
    probes = sum(is_probe(body) for _, _, body in handler.requests)
    assert len(handler.requests) == 1 + probes <= 2
    expected = most_of_work().tokens if tokens is None else tokens
    assert purse(tmp_path).spent("m").tokens == expected + 2 * probes


def test_a_request_that_times_out_is_charged_and_one_that_never_connected_is_free(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_budget(monkeypatch, tmp_path, tokens=100_000)

    def hang(number: int, body: dict[str, Any]) -> tuple[int, Any, dict[str, str]]:
        time.sleep(0 if is_probe(body) else 1.5)
        return 200, completion("4"), {}

    handler = scripted(hang)
    with serving(handler) as address:
        drive(address, tmp_path, 1, request_timeout=0.3, attempts=2)
    probes = sum(is_probe(body) for _, _, body in handler.requests)
    expected = 2 * most_of_work().tokens + 2 * probes, pytest.approx(2 * most_of_work().usd + 0.001 * probes)
    assert purse(tmp_path).spent("m") == (2 + probes, *expected) and len(handler.requests) == 2 + probes
    (tmp_path / "purse.jsonl").unlink()
    with pytest.raises(UserError, match="unanswered"):
        drive("http://127.0.0.1:9", tmp_path, 1, attempts=1)
    assert purse(tmp_path).spent("m") == (0, 0, pytest.approx(0))


def test_a_missing_usage_is_said_once_and_written_to_the_ledger(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with_budget(monkeypatch, tmp_path, tokens=100_000)
    body = {**completion("4"), "usage": {"prompt_tokens": 0, "completion_tokens": 0}}
    with serving(scripted(lambda n, _: (200, body, {}))) as address:
        drive(address, tmp_path, 3)
    assert caplog.text.count("m reports no usage") == 1
    [ledger] = [json.loads(line) for line in (tmp_path / "journal.ledger").read_text().splitlines()]
    assert ledger["unreported"] == 3 and ledger["charged_usd"] == pytest.approx(3 * most_of_work().usd, rel=1e-3)


def test_an_endpoint_that_ignores_the_limit_costs_at_most_the_excess_of_what_was_in_flight(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Answers have 500 tokens although 8 are body for: only those in flight before the first answer exceed."""
    most = most_of_work().tokens
    with_budget(monkeypatch, tmp_path, tokens=10 * most)
    body = {**completion("4"), **usage(1, 500)}

    def script(number: int, _: dict[str, Any]) -> tuple[int, Any, dict[str, str]]:
        time.sleep(0.2)
        return 200, body, {}

    handler = scripted(script)
    with serving(handler) as address, pytest.raises(UserError, match="is spent"):
        drive(address, tmp_path, 40, concurrency=4)
    assert 501 * len(handler.requests) <= 10 * most + 4 * (501 - most)


def test_batches_of_earlier_calls_are_reserved_from_the_start(tmp_path: Path) -> None:
    path = tmp_path / "purse.jsonl"
    path.write_text("spent by an earlier call\n")
    open_purse(path, [("m", ["a", "b"], 21, 0.5), ("n", ["c"], 3, 0.25)])
    each = purse(tmp_path, usd=0.8)
    assert each.spent() == (3, 24, pytest.approx(0.75)) and each.spent("m") == (2, 21, pytest.approx(0.5))
    with pytest.raises(UserError, match="is spent"):
        reserve(each, request("abc", 40))
    each = purse(tmp_path)
    each.settle_in_batch(request(), "a", Usage(1, 1))
    each.settle_in_batch(request(), "b", None)
    assert each.spent("m") == (1, 2, pytest.approx(0.003))
    open_purse(path, [])
    assert not path.exists()


def test_a_limit_needs_the_longest_answer_of_entries_without_max_tokens() -> None:
    entry = {"engine": "hosted", "base_url": "http://x/v1", "model": "m", "omit": ["max_tokens"]}
    models = {
        name: HostedModel.model_validate({**entry, **more})
        for name, more in (("a", {}), ("b", {"most_tokens": 9}), ("c", {}))
    }
    for limits in ({"usd": 1}, {"tokens": 5}, {"models": {"a": {"usd": 1}, "c": {"tokens": 4}}}):
        with pytest.raises(UserError, match=r"of a, c leaves .* set models\.a\.most_tokens, models\.c\.most_tokens to"):
            check_answer_limits(Budget.model_validate(limits), models, ["a", "b", "c"])
    check_answer_limits(Budget(requests=5), models, ["a", "b", "c"])
    check_answer_limits(Budget(usd=5), models, ["b"])


def test_the_entries_that_omit_max_tokens_state_their_longest_answer() -> None:
    models = read_yaml(Path("resources/registries/models.yaml"))["models"]
    omitting = {name: entry for name, entry in models.items() if "max_tokens" in entry.get("omit", [])}
    assert len(omitting) >= 6 and all(entry["most_tokens"] for entry in omitting.values())
