"""What a run will still ask: counted from journals where items and replies are there, turn by turn."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from conftest import ROOT
from httpserver import chat, scripted, serving
from maieutic.core import paths
from maieutic.datasets.fetch import fetch_dataset
from maieutic.datasets.items import make_items
from maieutic.judges.commands import judge_replies
from maieutic.plan import inputs, jobs
from maieutic.plan.requests import new_replies, new_requests, new_verdicts, sizes, tokens
from maieutic.plan.rules import RulePlan, plan_of
from maieutic.replies.generate import generate_replies
from shipped import shipped
from whole_plans import HOSTED, NOBODY

BENCHMARK, TASK, TUTOR, JUDGE = "kmpbench", "ec", "far", "judge"
NAMES = {"benchmark": BENCHMARK, "tutor": TUTOR}
# Of which step is wrong in one of the items at least: the judge is asked about the reason.
FOUND = "<correctness>no</correctness>\n<error_step_num>2</error_step_num>\n<error_reason>It is added.</error_reason>"
BATCH = {"judge": JUDGE, "benchmark": BENCHMARK, "batch": TUTOR}


@pytest.fixture
def plan(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[RulePlan]:
    """A task of two turns, a hosted tutor, a judge; the items are there, and nobody was asked yet."""

    def answer(number: int, body: dict[str, Any]) -> tuple[int, Any, dict[str, str]]:
        judged = "response_format" in body or "JSON" in json.dumps(body)
        text = json.dumps({"verdict": "Yes"}) if judged else FOUND
        return 200, {**chat({"content": text}), "usage": {"prompt_tokens": 9, "completion_tokens": 40}}, {}

    with serving(scripted(answer)) as address:
        config = shipped()
        hosted = {**HOSTED, "base_url": f"{address}/v1", "endpoint": "chat", "concurrency": 2}
        judge = {"engine": "judge", "model": TUTOR, "rubrics": ["kmp_error_reason"]}
        config["models"] |= {TUTOR: hosted, JUDGE: judge}
        config["run"] |= {
            **NOBODY,
            "tutors": [TUTOR],
            "tasks": [f"{BENCHMARK}/{TASK}"],
            "judges": [JUDGE],
            "labels": [],
        }
        plan = plan_of(config)
        monkeypatch.chdir(tmp_path)
        (tmp_path / "resources").symlink_to(ROOT / "resources")
        dataset = plan.card(BENCHMARK, TASK).dataset
        source = Path(paths.SOURCE.of(dataset=dataset))
        fetch_dataset(job=jobs.fetch_dataset(plan, dataset), demo_dir=Path("resources/demo"), out=source)
        items = Path(paths.ITEMS.of(benchmark=BENCHMARK, task=TASK))
        make_items(job=jobs.make_items(plan, BENCHMARK, TASK), source=source, pictures=[], out=items)
        yield plan


def lines_of(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8").splitlines(keepends=True)


def ask_the_tutor(plan: RulePlan) -> Path:
    """Run the tutor's job; gives its journal."""
    journal, out = Path(paths.REPLY_JOURNAL.of(**NAMES)), Path(paths.REPLIES.of(**NAMES))
    files = {"items": Path(paths.ITEM_FOLDER.of(benchmark=BENCHMARK)), "pictures": Path("results/pictures")}
    generate_replies(
        job=jobs.generate_replies(plan, **NAMES), **files, weights=[], journal=journal, server_log=Path("log"),
        out=out, prompts=Path("prompts.jsonl"),
    )  # fmt: skip
    return journal


def ask_the_judge(plan: RulePlan) -> Path:
    """Run the judge's job; gives its journal."""
    journal = Path(paths.VERDICT_JOURNAL.of(**BATCH))
    files = {"items": Path(paths.ITEM_FOLDER.of(benchmark=BENCHMARK)), "pictures": Path("results/pictures")}
    judge_replies(
        job=jobs.judge_replies(plan, **BATCH), **files, replies=[Path(paths.REPLIES.of(**NAMES))], weights=[],
        journal=journal, server_log=Path("log"), out=Path("verdicts.jsonl"),
    )  # fmt: skip
    return journal


def test_a_tutor_is_asked_what_its_journal_lacks_turn_by_turn(plan: RulePlan) -> None:
    [items] = inputs.generate_replies(plan, **NAMES)["cases"]
    count = len(lines_of(Path(items)))
    fresh = new_replies(plan, **NAMES)
    assert fresh is not None and fresh[:4] == ("tutors", TUTOR, TUTOR, 2 * count) and fresh.exact
    assert fresh.prompt_tokens > 100 * count and fresh.answer_tokens > 0, "as such requests were measured"
    measured = sizes()[BENCHMARK, TASK, ""].answer_chars
    assert fresh.answer_tokens == pytest.approx(fresh.requests * tokens(measured)), "of the human reference"
    supposed = new_replies(plan, **NAMES, remade={items})
    assert supposed is not None and not supposed.exact and 0 < (supposed.requests or 0) <= 2 * count
    journal = ask_the_tutor(plan)
    known = new_requests(plan, "generate_replies_locally", NAMES, ())
    assert known == ("tutors", TUTOR, TUTOR, 0, 0.0, 0.0, True)
    kept = lines_of(journal)
    assert len(kept) == 2 * count
    journal.write_text("".join(kept[:-1]), encoding="utf-8")
    lacking = new_replies(plan, **NAMES)
    assert lacking is not None and lacking.exact and lacking.requests == 1, "a second turn"
    assert lacking.answer_tokens == 40, "answers are as long as those on file"
    journal.write_text(kept[0], encoding="utf-8")
    more = new_replies(plan, **NAMES)
    assert more is not None and more.requests == 2 * count - 1
    assert new_requests(plan, "parse_replies", NAMES, ()) is None


def test_a_judge_is_asked_about_what_is_there_alone(plan: RulePlan) -> None:
    before = new_verdicts(plan, **BATCH)
    assert before[:3] == ("judges", JUDGE, TUTOR) and not before.exact and before.requests, "no reply is there"
    ask_the_tutor(plan)
    there = new_verdicts(plan, **BATCH)
    assert there.exact and there.requests and there.prompt_tokens > there.requests
    journal = ask_the_judge(plan)
    assert len(lines_of(journal)) == there.requests
    assert new_requests(plan, "judge_replies", BATCH, ()) == ("judges", JUDGE, TUTOR, 0, 0.0, 0.0, True)
    journal.write_text("".join(lines_of(journal)[1:]), encoding="utf-8")
    one = new_verdicts(plan, **BATCH)
    assert (one.requests, one.exact) == (1, True)
    replies = paths.REPLIES.of(**NAMES)
    assert not new_verdicts(plan, **BATCH, remade={replies}).exact, "replies that will be written anew are not known"
