"""Tests of request counting: what a run will still send, looked up if items and replies exist, else estimated."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from conftest import enter_checkout
from httpserver import chat, scripted, serving
from maieutic.core import paths
from maieutic.core.journal import FinishedRequest
from maieutic.judges import stage as judges_stage
from maieutic.judges.probes import PROBES
from maieutic.judges.verdicts import judge_labelled, judge_replies
from maieutic.launch import requests
from maieutic.launch.answers_on_file import AnswersOnFile, NotOnFile
from maieutic.launch.lengths import NOTHING, VERDICT_TOKENS, answer_span, known, total_of, verdict_span
from maieutic.launch.requests import (
    NewRequests,
    ResultFiles,
    estimated_label_checks,
    measured_sizes,
    new_label_checks,
    new_replies,
    new_requests,
    new_verdicts,
    tokens_of_chars,
)
from maieutic.plan import inputs
from maieutic.plan.rules import RulePlan
from maieutic.replies import stage as replies_stage
from maieutic.replies.generate import Shard, generate_replies
from maieutic.run_plan import plan_of
from rule_inputs import inputs_of
from run_configs import HOSTED, NOBODY
from scripted import endpoint
from shipped import shipped
from steps import items_of, labels_of, pairs_of

BENCHMARK, TASK, TUTOR, JUDGE = "kmpbench", "ec", "far", "judge"
NAMES = {"benchmark": BENCHMARK, "tutor": TUTOR}
# Locates a wrong step in at least one of the items, so that the judge is asked about the reason.
TUTOR_REPLY = (
    "<correctness>no</correctness>\n<error_step_num>2</error_step_num>\n<error_reason>It is added.</error_reason>"
)
BATCH = {"judge": JUDGE, "benchmark": BENCHMARK, "batch": TUTOR}


@pytest.fixture
def plan(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[RulePlan]:
    """Yield the plan of a two-turn task, a hosted tutor and a judge. The items exist; no request has been sent."""

    def answer(number: int, body: dict[str, Any]) -> tuple[int, Any, dict[str, str]]:
        judged = "response_format" in body or "JSON" in json.dumps(body)
        text = json.dumps({"verdict": "Yes"}) if judged else TUTOR_REPLY
        return 200, {**chat({"content": text}), "usage": {"prompt_tokens": 9, "completion_tokens": 40}}, {}

    with serving(scripted(answer)) as address:
        config = shipped()
        hosted = {**HOSTED, "base_url": f"{address}/v1", "endpoint": "chat", "concurrency": 2}
        judge = {"engine": "judge", "model": TUTOR, "rubrics": ["kmp_error_reason"]}
        config["models"] |= {TUTOR: hosted, JUDGE: judge}
        config["models"] |= {"twin": hosted, "longer": {**hosted, "thinking_tokens": 9}}
        config["run"] |= {
            **NOBODY, "tutors": [TUTOR], "tasks": [f"{BENCHMARK}/{TASK}"], "judges": [JUDGE], "labels": [],
        }  # fmt: skip
        plan = plan_of(config)
        enter_checkout(tmp_path, monkeypatch)
        items_of(plan, BENCHMARK, TASK)
        yield plan


def job(rule: str, output: tuple[str, ...] = (), twin: bool = True, **wildcards: str) -> Any:
    """Return a job as Snakemake plans it. twin: whether its rule has a twin for hosted models."""
    rules = SimpleNamespace(is_rule=lambda name: twin and name == f"{rule}_locally")
    return SimpleNamespace(
        rule=SimpleNamespace(name=rule, workflow=rules), wildcards=wildcards, output=output,
        resources={"server_gpus": 0},
    )  # fmt: skip


def count_requests(plan: RulePlan, counter: Any, *rewritten: str, **names: str) -> NewRequests:
    """Return the number of requests that one job will send. rewritten: files that the run writes anew."""
    counted: NewRequests = counter(plan, ResultFiles([job("x", rewritten)]), **names)
    return counted


def lines_of(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8").splitlines(keepends=True)


def ask_the_tutor(plan: RulePlan) -> Path:
    """Run the tutor's job, and return its journal."""
    journal, out = Path(paths.REPLY_JOURNAL.of(**NAMES)), Path(paths.REPLIES.of(**NAMES))
    files = {"items": Path(f"results/items/{BENCHMARK}"), "pictures": Path("results/pictures")}
    generate_replies(
        job=replies_stage.generate_replies_job(plan, **NAMES), **files, weights=[], journal=journal, server_log=Path("log"),
        out=out, prompts=Path("prompts.jsonl"),
    )  # fmt: skip
    return journal


def ask_the_judge(plan: RulePlan) -> Path:
    """Run the judge's job, and return its journal."""
    journal = Path(paths.VERDICT_JOURNAL.of(**BATCH))
    files = {"items": Path(f"results/items/{BENCHMARK}"), "pictures": Path("results/pictures")}
    judge_replies(
        job=judges_stage.judge_replies_job(plan, **BATCH), **files, replies=[Path(paths.REPLIES.of(**NAMES))], weights=[],
        journal=journal, server_log=Path("log"), out=Path("verdicts.jsonl"),
    )  # fmt: skip
    return journal


def test_requests_to_a_tutor_are_counted_turn_by_turn(plan: RulePlan, monkeypatch: pytest.MonkeyPatch) -> None:
    [items] = inputs.tutor_items(plan, **NAMES)
    count = len(lines_of(Path(items)))
    fresh = count_requests(plan, new_replies, **NAMES)
    assert fresh[:4] == ("tutors", TUTOR, TUTOR, 2 * count)
    assert not fresh.exact and not fresh.answered, "a conversation may end before its second turn"
    assert fresh.prompt_tokens > 100 * count and fresh.answer_tokens.low > 0, "tokens are estimated from measured sizes"
    reference = measured_sizes()[BENCHMARK, TASK, ""].answer_chars
    assert fresh.answer_tokens == pytest.approx(answer_span(BENCHMARK, TASK, reference).times(fresh.requests or 0))
    estimated = count_requests(plan, new_replies, items, **NAMES)
    assert 0 < (estimated.requests or 0) <= 2 * count and not estimated.answered, "the items belong to another run"
    Path(items).rename("aside")
    assert count_requests(plan, new_replies, **NAMES) == estimated
    Path("aside").rename(items)
    files = ResultFiles([])
    assert new_replies(plan, files, BENCHMARK, TUTOR)[3:] == new_replies(plan, files, BENCHMARK, "twin")[3:]
    journal = ask_the_tutor(plan)
    assert new_replies(plan, files, BENCHMARK, TUTOR).requests == 0, "not the count of a twin without answers"
    assert count_requests(plan, new_replies, **NAMES) == ("tutors", TUTOR, TUTOR, 0, 0.0, NOTHING, True, False, 0)
    assert count_requests(plan, new_replies, items, **NAMES) == estimated._replace(answered=True)
    lines = lines_of(journal)
    assert len(lines) == 2 * count
    journal.write_text("".join(lines[:-1]), encoding="utf-8")
    missing = count_requests(plan, new_replies, **NAMES)
    assert missing.exact and missing.requests == 1, "one second turn has no answer"
    assert missing.answer_tokens == (40, 40), "answers have the mean length of those on file"
    journal.write_text(lines[0], encoding="utf-8")
    assert count_requests(plan, new_replies, **NAMES).requests == 2 * count - 1


def test_every_request_of_an_edited_prompt_is_new(plan: RulePlan, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keys are looked up: the number of entries in the journal does not matter."""
    ask_the_tutor(plan)
    assert count_requests(plan, new_replies, **NAMES).requests == 0
    unchanged = AnswersOnFile.ask

    async def edited(self: AnswersOnFile, request: dict[str, Any]) -> FinishedRequest:
        return await unchanged(
            self, {**request, "messages": [*request["messages"], {"role": "user", "content": "Edited."}]}
        )

    monkeypatch.setattr(AnswersOnFile, "ask", edited)
    count = len(lines_of(Path(inputs.tutor_items(plan, **NAMES)[0])))
    assert count_requests(plan, new_replies, **NAMES).requests == 2 * count


def test_planned_jobs_are_counted_by_stage(plan: RulePlan) -> None:
    """A job that sends requests and has no count is listed with its models; baselines and other jobs send none."""
    tagging = job("tag_items", judge=JUDGE)
    jobs = [
        tagging, job("judge_replies", **BATCH), job("parse_replies", twin=False, **NAMES), job("generate_replies", **NAMES),
        job("generate_replies", benchmark=BENCHMARK, tutor="echo"), job("score_rewards", twin=False, reward_model="x"),
    ]  # fmt: skip
    counted = new_requests(plan, jobs)
    assert [(part.stage, part.asker, part.model) for part in counted] == [
        ("tutors", TUTOR, TUTOR), ("judges", JUDGE, TUTOR), ("others", TUTOR, TUTOR),
    ]  # fmt: skip
    assert counted[0].requests and counted[1].requests and counted[2].requests is None
    assert counted[0] == new_requests(plan, [job("generate_replies_locally", **NAMES)])[0]
    parsing = job("parse_replies", **NAMES)
    parsing.resources = {}
    assert new_requests(plan, [parsing]) == []


@pytest.mark.parametrize(("parts", "exact", "answered"), [
    ([(0, True, False), (0, True, False)], True, False),
    ([(0, True, False), (2, False, True)], False, True),
    ([(1, True, False), (2, False, True)], False, False),
    ([(1, False, False), (2, False, True)], False, False),
])  # fmt: skip
def test_a_job_is_settled_by_answers_on_file_only_if_each_part_may_be(
    parts: list[tuple[int, bool, bool]], exact: bool, answered: bool
) -> None:
    counted = [NewRequests("judges", "j", "m", n, exact=sure, answered=kept) for n, sure, kept in parts]
    total = requests.total_requests("judges", "j", "m", counted)
    assert (total.requests, total.exact, total.answered) == (sum(part[0] for part in parts), exact, answered)


def test_requests_to_a_judge_are_estimated_without_replies_and_counted_with_them(plan: RulePlan) -> None:
    before = count_requests(plan, new_verdicts, **BATCH)
    assert before[:3] == ("judges", JUDGE, TUTOR) and not before.exact and before.requests, "no reply exists"
    ask_the_tutor(plan)
    counted = count_requests(plan, new_verdicts, **BATCH)
    assert counted.exact and counted.requests and counted.prompt_tokens > counted.requests
    journal = ask_the_judge(plan)
    assert len(lines_of(journal)) == counted.requests
    assert count_requests(plan, new_verdicts, **BATCH) == ("judges", JUDGE, TUTOR, 0, 0.0, NOTHING, True, False, 0)
    journal.write_text("".join(lines_of(journal)[1:]), encoding="utf-8")
    missing = count_requests(plan, new_verdicts, **BATCH)
    assert (missing.requests, missing.exact) == (1, True)


def test_files_that_the_run_writes_anew_are_not_read(plan: RulePlan) -> None:
    """They belong to another run: its number of requests is estimated, and answers on file may settle all of them."""
    ask_the_tutor(plan)
    ask_the_judge(plan)
    replies, items = paths.REPLIES.of(**NAMES), inputs.tutor_items(plan, **NAMES)[0]
    for file in (replies, items):
        Path(file).write_text("of another run\n", encoding="utf-8")
    judged = count_requests(plan, new_verdicts, replies, items, **BATCH)
    assert judged.requests and not judged.exact and judged.answered
    Path(paths.VERDICT_JOURNAL.of(**BATCH)).unlink()
    assert count_requests(plan, new_verdicts, replies, items, **BATCH) == judged._replace(answered=False)


@pytest.fixture
def check_plan(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[RulePlan]:
    """Yield the plan of judges that are checked on labelled replies, pairs and probes. None of the files exists."""
    with endpoint() as address:
        config = shipped()
        hosted = {**HOSTED, "base_url": f"{address}/v1", "concurrency": 8, "structured": True}
        judge = {
            "engine": "judge", "model": TUTOR, "rubrics": ["mrbench_taxonomy"], "pairs": ["pairs_json"],
            "label_limit": 4,
        }  # fmt: skip
        config["models"] |= {
            TUTOR: hosted, JUDGE: judge, "freer": {**judge, "label_limit": None}, "few": {**judge, "label_limit": 2},
        }  # fmt: skip
        config["run"] |= {
            **NOBODY, "tutors": [TUTOR], "tasks": ["mrbench"], "judges": [JUDGE, "freer", "few"], "labels": ["mrbench"],
            "preferences": ["bridge"], "probes": 3,
        }  # fmt: skip
        plan = plan_of(config)
        enter_checkout(tmp_path, monkeypatch)
        yield plan


def ask_about_labels(plan: RulePlan, judge: str) -> Path:
    """Run the judge's job on labelled replies, and return its journal."""
    files = inputs_of(plan, "judge_labelled")({"judge": judge})  # type: ignore[arg-type]
    journal = Path(paths.LABELLED_JOURNAL.of(judge=judge))
    judge_labelled(
        job=judges_stage.judge_labelled_job(plan, judge), labels=[*map(Path, files["labels"])], pairs=[*map(Path, files["pairs"])],
        weights=[], journal=journal, server_log=Path("log"), out=Path(f"{judge}.jsonl"),
        probes_out=[Path(f"{judge}-{name}.jsonl") for name in judges_stage.used_probes(plan)],
    )  # fmt: skip
    return journal


def test_label_checks_are_estimated_from_releases_pairs_and_probes(check_plan: RulePlan) -> None:
    """The number of replies is the judge's limit, else the size of the release. Probes repeat some of its questions."""
    labels = measured_sizes()["labels", "mrbench", "mrbench_taxonomy"]
    pairs = measured_sizes()["pairs", "bridge", "pairs_json"]
    assert labels.items > 1000 and pairs.items == 482 and pairs.requests == 2.0
    for judge, replies, pair_count in ((JUDGE, 4, 4), ("freer", labels.items, pairs.items)):
        probed = len(PROBES) * 3
        requests = [round((replies + probed) * labels.requests), round(pair_count * 2.0)]
        prompts = [
            requests[0] * tokens_of_chars(labels.prompt_chars),
            requests[1] * tokens_of_chars(pairs.prompt_chars),
        ]
        estimate = count_requests(check_plan, new_label_checks, judge=judge)
        reasons = check_plan.judge_entry(judge).reasons
        verdicts = [
            verdict_span(size.criteria, reasons).times(n) for size, n in zip((labels, pairs), requests, strict=True)
        ]
        assert estimate == (
            "checks", judge, TUTOR, sum(requests), sum(prompts), total_of(verdicts), False, False, 0,
        )  # fmt: skip
    parts = estimated_label_checks(check_plan, JUDGE)
    assert [part.requests for part in parts] == [16, 8]


def test_the_estimated_number_of_probed_replies_is_at_most_the_judges_limit(check_plan: RulePlan) -> None:
    parts = estimated_label_checks(check_plan, "few")
    assert [part.requests for part in parts] == [2 + 2 * len(PROBES), 4]


def test_requests_about_unmeasured_pairs_or_releases_are_unknown(
    check_plan: RulePlan, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes = {key: size for key, size in measured_sizes().items() if key[0] != "pairs"}
    monkeypatch.setattr(requests, "measured_sizes", lambda: sizes)
    assert [part.requests for part in estimated_label_checks(check_plan, JUDGE)] == [16, None]
    assert count_requests(check_plan, new_label_checks, judge=JUDGE).requests is None


def test_requests_about_labelled_replies_and_pairs_are_counted(check_plan: RulePlan) -> None:
    """If labels and pairs exist, each question without an answer in the journal is counted."""
    labels_of(check_plan, "mrbench")
    pairs_of(check_plan, "bridge")
    fresh = count_requests(check_plan, new_label_checks, judge=JUDGE)
    assert fresh[:3] == ("checks", JUDGE, TUTOR) and fresh.exact and fresh.requests is not None
    assert 4 + 2 * 4 < fresh.requests <= 4 + 2 * 4 + 4 * len(PROBES), "replies, pairs in both orders, probes"
    assert fresh.prompt_tokens > 100 * fresh.requests and fresh.answer_tokens.low >= fresh.requests * VERDICT_TOKENS
    labels, pairs = paths.LABELS.of(release="mrbench"), paths.PAIRS.of(source="bridge")
    for remade in (labels, pairs):
        assert not count_requests(check_plan, new_label_checks, remade, judge=JUDGE).exact, f"{remade} will be replaced"
    journal = ask_about_labels(check_plan, JUDGE)
    lines = lines_of(journal)
    assert len(lines) == fresh.requests, "the job sends as many requests as were counted"
    assert count_requests(check_plan, new_label_checks, judge=JUDGE) == (
        "checks", JUDGE, TUTOR, 0, 0.0, NOTHING, True, False, 0,
    )  # fmt: skip
    journal.write_text("".join(lines[2:]), encoding="utf-8")
    missing = count_requests(check_plan, new_label_checks, judge=JUDGE)
    assert (missing.requests, missing.exact) == (2, True)
    assert missing.answer_tokens == pytest.approx(fresh.answer_tokens.times(2 / fresh.requests))
    more = count_requests(check_plan, new_label_checks, judge="freer")
    assert more.exact and (more.requests or 0) > 2 * fresh.requests, "this judge has no limit, and its own journal"
    Path(pairs).unlink()
    assert not count_requests(check_plan, new_label_checks, judge=JUDGE).exact


def test_follow_up_questions_are_looked_up_for_the_verdicts_on_file(monkeypatch: pytest.MonkeyPatch) -> None:
    """They are looked up in rounds, from all verdicts of a round. A question without an answer on file is skipped."""
    questions, rounds = [], []

    async def judge(loaded: Any, case: Any, question: str, *more: Any) -> list[str]:
        questions.append((case, question))
        if (case, question) == ("a", "2"):
            raise NotOnFile
        return [f"{case}{question}"]

    def follow_up(work: Any, judgements: list[str]) -> Any:
        rounds.append(judgements)
        return [(loaded, "c")] if len(rounds) == 1 else []

    loaded: Any = SimpleNamespace(rubric=None)
    monkeypatch.setattr(requests, "judge_case", judge)
    monkeypatch.setattr(requests, "questions_about", lambda rubric, case: "12")
    monkeypatch.setattr(requests, "follow_up_work", follow_up)
    unused: Any = None
    asyncio.run(requests.verdicts_on_file([(loaded, "a"), (loaded, "b")], unused, unused))
    assert questions == [(case, question) for case in "abc" for question in "12"]
    assert rounds == [["a1", "b1", "b2"], ["c1", "c2"]]


def test_a_shard_has_its_part_of_an_estimate() -> None:
    assert requests.shard_share(requests_to_tutor(None), Shard(number=2, parts=4)).requests is None
    shares = [requests.shard_share(requests_to_tutor(10), Shard(number=number, parts=4)) for number in (1, 2, 3, 4)]
    assert [share.requests for share in shares] == [3, 3, 2, 2] and sum(share.prompt_tokens for share in shares) == 80.0


def requests_to_tutor(number: int | None) -> NewRequests:
    return NewRequests("tutors", "t", "t", number, 80.0, known(40.0))


class Answers(dict[str, SimpleNamespace]):
    """Answers of a journal. others: answers of other journals."""

    others: tuple[dict[str, SimpleNamespace], ...] = ()
