"""Whole runs with a provider's batch API: pending jobs, equal tables at half the price, and a switch in mid-run."""

from __future__ import annotations

import json
import re
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import yaml
from batch_server import BatchServer
from httpserver import serving
from maieutic.datasets.mrbench import LABELS
from running import NO_PAGE, overlay, run, start

LIMIT = 4
PRICE = {"input": 1000, "output": 2000, "batch": 0.5}


def answer(body: dict[str, Any]) -> tuple[int, Any]:
    """Answer as a tutor, or as a judge of MRBench's dimensions. One item of the judge is refused."""
    prompt = json.dumps(body["messages"])
    judging = "Revealing_of_the_Answer" in prompt
    if judging and hash_of(prompt) % 7 == 0:
        return 400, {"error": {"code": "content_filter", "message": "flagged"}}
    place = hash_of(prompt) % 2
    text = (
        json.dumps({name: labels[place] for name, labels in LABELS.items()})
        if judging
        else f"Final answer: {hash_of(prompt)}"
    )
    usage = {"prompt_tokens": len(prompt) // 4, "completion_tokens": len(text) // 4, "total_tokens": 0}
    choice = {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": text}}
    return 200, {"id": "1", "model": body["model"], "usage": usage, "choices": [choice]}


def hash_of(text: str) -> int:
    """Return a number below 100 that depends on a text."""
    return sum(map(ord, text)) % 97


def configured(folder: Path, address: str, batch: bool, limit: int = LIMIT, **more: Any) -> Path:
    """Write a run file with a tutor and a judge at the endpoint."""
    far = {
        "engine": "hosted", "base_url": f"{address}/v1", "model": "far", "endpoint": "chat", "price": PRICE,
        "batch": batch,
    }  # fmt: skip
    models = {
        "far": far, "near": {**far, "model": "near"},
        "j": {"engine": "judge", "model": "near", "rubrics": ["mrbench_taxonomy"]},
    }  # fmt: skip
    chosen = {
        "tutors": ["far"], "tasks": ["mrbench"], "limit": limit, "judges": ["j"], "max_unreadable": 1, "labels": [],
    }  # fmt: skip
    return overlay(folder, {"models": models, "run": chosen, **more})


def cost_of(line: str) -> list[float]:
    """Return the least and the largest amount in US dollars in one of a run's lines."""
    amounts = re.search(r"between ([\d.]+) and ([\d.]+) USD", line)
    assert amounts is not None, line
    return [float(amount) for amount in amounts.groups()]


def test_runs_with_batches_end_pending_and_give_the_tables_of_a_live_run(checkouts: Callable[[], Path]) -> None:
    server, live = BatchServer(answer=answer), checkouts()
    with serving(server.handler()) as address:
        done = run(live, configured(live, address, batch=False))
        assert done.returncode == 0, done.stdout
        alone = server.live
        table = pd.read_csv(live / "results/report/scores.csv")
        usd = pd.read_csv(live / "results/report/runtime.csv")["usd"]

        folder = checkouts()
        config = configured(folder, address, batch=True)
        half = run(folder, config, "-n")
        full = run(folder, configured(folder, address, batch=False), "-n")
        configured(folder, address, batch=True)
        whole_price = [amount / 2 for amount in cost_of(full.stdout)]
        assert cost_of(half.stdout) == pytest.approx(whole_price, abs=0.01), "the dry run knows the price of batches"
        outputs, counted, codes = [], [], []
        for _ in range(6):
            done = run(folder, config, "--logger", "maieutic")
            outputs.append(done.stdout)
            codes.append(done.returncode)
            counted.append(run(folder, config, "-n").stdout)
            if done.returncode == 0:
                break
        assert codes == [75, 75, 0], "the tutor's batch, the judge's batch, the report"
        host = address.removeprefix("http://")
        assert re.search(
            rf"^PENDING: \d+ requests at {host}, about [\d.]+ USD; run the same command again later$", outputs[0], re.M
        )
        assert re.search(rf"^PENDING: \d+ requests at {host}, about", outputs[1], re.M)
        assert not re.search(r"^failed:|Error in rule|RuleException|ERROR|Exiting because", "".join(outputs), re.M), (
            outputs
        )
        assert "; in batches already: far 3" in counted[0] and re.search(r"^new requests: j about 4;", counted[0], re.M)
        assert re.search(r"^new requests: none; in batches already: j \d$", counted[1], re.M)
        assert server.live == alone + 2 and set(server.submitted.values()) == {1}
        assert len(server.submitted) == alone - 2, "one request of each entry is sent by itself"
        pd.testing.assert_frame_equal(table, pd.read_csv(folder / "results/report/scores.csv"))
        runtime = pd.read_csv(folder / "results/report/runtime.csv")
        assert all(0.5 <= part / whole <= 0.8 for part, whole in zip(runtime["usd"], usd, strict=True))

        # A live run with more items asks only about the new ones, and the other way round.
        more = run(folder, configured(folder, address, batch=False, limit=LIMIT + 2), *NO_PAGE)
        assert more.returncode == 0, more.stdout
        new = server.live - alone - 2
        assert new > 0 and set(server.submitted.values()) == {1}
        done = run(folder, configured(folder, address, batch=True, limit=LIMIT + 2), *NO_PAGE)
        assert done.returncode == 0 and server.live == alone + 2 + new and len(server.submitted) == alone - 2


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_nothing_is_sent_after_an_interruption(number: int, checkouts: Callable[[], Path]) -> None:
    """One tutor has put its requests into its outbox while another one still answers."""
    released = threading.Event()

    def slowly(body: dict[str, Any]) -> tuple[int, Any]:
        if body["model"] == "near":
            released.wait(60)
        return answer(body)

    server, folder = BatchServer(answer=slowly), checkouts()
    with serving(server.handler()) as address:
        config = configured(folder, address, batch=True)
        models = yaml.safe_load(config.read_text(encoding="utf-8"))["models"]
        models["near"]["batch"] = False
        config = overlay(
            folder, {"models": models, "run": {"tutors": ["far", "near"], "tasks": ["mrbench"], "limit": 2}}
        )
        process = start(folder, config)
        outbox = folder / "results/journal/replies/mrbench/far.far.outbox"
        until = time.monotonic() + 60
        while not (outbox.exists() and server.live):
            assert time.monotonic() < until and process.poll() is None
            time.sleep(0.05)
        process.send_signal(number)
        time.sleep(0.5)
        released.set()
        assert process.wait(60) not in (0, 75)
    log = (folder / "snakemake.log").read_text(encoding="utf-8")
    assert server.submissions == server.uploads == 0 and "requests for batches were not sent" in log, log[-3000:]
