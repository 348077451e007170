"""Tests of request counting: what a run will still send, from journals if items and replies exist, else estimated."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from conftest import enter_checkout
from httpserver import chat, scripted, serving
from maieutic.config import cards
from maieutic.config.models import VllmModel
from maieutic.core import paths
from maieutic.core.journal import FinishedRequest
from maieutic.judges import stage as judges_stage
from maieutic.judges.probes import PROBES
from maieutic.judges.verdicts import judge_labelled, judge_replies
from maieutic.launch import rehearsal, requests
from maieutic.launch.rehearsal import AnswersOnFile, NotOnFile, Rehearsal, request_identity
from maieutic.launch.requests import (
    VERDICT_TOKENS,
    NewRequests,
    countable_jobs,
    estimated_label_checks,
    mean_answer_tokens,
    measured_sizes,
    new_label_checks,
    new_replies,
    new_requests,
    new_verdicts,
    tokens_of_chars,
)
from maieutic.plan import inputs
from maieutic.plan.rules import RulePlan, plan_before_pins, plan_of
from maieutic.replies import stage as replies_stage
from maieutic.replies.generate import Shard, generate_replies
from rule_inputs import inputs_of
from run_configs import HOSTED, NOBODY, many_judges
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
            **NOBODY,
            "tutors": [TUTOR],
            "tasks": [f"{BENCHMARK}/{TASK}"],
            "judges": [JUDGE],
            "labels": [],
        }
        plan = plan_of(config)
        enter_checkout(tmp_path, monkeypatch)
        items_of(plan, BENCHMARK, TASK)
        yield plan


class RehearsalWithoutSources(Rehearsal):
    """Rehearsal of a run before any source file is downloaded."""

    def make_source(self, dataset: str) -> Path | None:
        return None


def count_requests(plan: RulePlan, counter: Any, kind: type[Rehearsal] = Rehearsal, **names: str) -> NewRequests:
    """Return the number of requests that one job will send, if no file of the results folder is made anew."""
    with kind(plan, ()) as rehearsal:
        counted: NewRequests = counter(plan, **names, rehearsal=rehearsal)
        return counted


def lines_of(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8").splitlines(keepends=True)


def ask_the_tutor(plan: RulePlan) -> Path:
    """Run the tutor's job, and return its journal."""
    journal, out = Path(paths.REPLY_JOURNAL.of(**NAMES)), Path(paths.REPLIES.of(**NAMES))
    files = {"items": Path(paths.ITEM_FOLDER.of(benchmark=BENCHMARK)), "pictures": Path("results/pictures")}
    generate_replies(
        job=replies_stage.generate_replies_job(plan, **NAMES), **files, weights=[], journal=journal, server_log=Path("log"),
        out=out, prompts=Path("prompts.jsonl"),
    )  # fmt: skip
    return journal


def ask_the_judge(plan: RulePlan) -> Path:
    """Run the judge's job, and return its journal."""
    journal = Path(paths.VERDICT_JOURNAL.of(**BATCH))
    files = {"items": Path(paths.ITEM_FOLDER.of(benchmark=BENCHMARK)), "pictures": Path("results/pictures")}
    judge_replies(
        job=judges_stage.judge_replies_job(plan, **BATCH), **files, replies=[Path(paths.REPLIES.of(**NAMES))], weights=[],
        journal=journal, server_log=Path("log"), out=Path("verdicts.jsonl"),
    )  # fmt: skip
    return journal


def test_requests_to_a_tutor_are_counted_turn_by_turn(plan: RulePlan, monkeypatch: pytest.MonkeyPatch) -> None:
    [items] = inputs.tutor_items(plan, **NAMES)
    count = len(lines_of(Path(items)))
    fresh = count_requests(plan, new_replies, **NAMES)
    assert fresh[:4] == ("tutors", TUTOR, TUTOR, 2 * count) and fresh.exact
    assert fresh.prompt_tokens > 100 * count and fresh.answer_tokens > 0, "tokens are estimated from measured sizes"
    measured = measured_sizes()[BENCHMARK, TASK, ""].answer_chars
    assert fresh.answer_tokens == pytest.approx(fresh.requests * tokens_of_chars(measured)), (
        "answers are as long as the human reference"
    )
    Path(items).rename("aside")
    assert count_requests(plan, new_replies, **NAMES) == fresh, "items are made from the demo's file for the count"
    estimated = count_requests(plan, new_replies, RehearsalWithoutSources, **NAMES)
    assert not estimated.exact and 0 < (estimated.requests or 0) <= 2 * count
    Path("aside").rename(items)
    journal = ask_the_tutor(plan)
    assert count_requests(plan, new_replies, **NAMES) == ("tutors", TUTOR, TUTOR, 0, 0.0, 0.0, True, 0)
    lines = lines_of(journal)
    assert len(lines) == 2 * count
    journal.write_text("".join(lines[:-1]), encoding="utf-8")
    missing = count_requests(plan, new_replies, **NAMES)
    assert missing.exact and missing.requests == 1, "one second turn has no answer"
    assert missing.answer_tokens == 40, "answers have the mean length of those on file"
    journal.write_text(lines[0], encoding="utf-8")
    assert count_requests(plan, new_replies, **NAMES).requests == 2 * count - 1


def test_tutors_with_the_same_settings_are_counted_once(plan: RulePlan, monkeypatch: pytest.MonkeyPatch) -> None:
    """The count is shared as long as none of them has an answer. An entry with other settings is counted itself."""
    counted: list[str] = []
    count = requests.count_later_turns
    monkeypatch.setattr(
        requests,
        "count_later_turns",
        lambda job, items, on_file: counted.append(job.tutor) or count(job, items, on_file),
    )
    with Rehearsal(plan, ()) as rehearsal:
        counts = {name: new_replies(plan, BENCHMARK, name, rehearsal) for name in (TUTOR, "twin", "longer")}
        assert counted == [TUTOR, "longer"]
        assert len({part[3:] for part in counts.values()}) == 1 and all(
            part.model == name for name, part in counts.items()
        )
        ask_the_tutor(plan)
        assert new_replies(plan, BENCHMARK, TUTOR, rehearsal).requests == 0


def test_requests_are_counted_for_the_planned_jobs(plan: RulePlan, monkeypatch: pytest.MonkeyPatch) -> None:
    names = dict(NAMES)
    baselines = {**BATCH, "batch": "_baselines"}
    every_job = [("generate_replies", names), ("judge_replies", baselines), ("judge_replies", BATCH)]
    assert list(countable_jobs(plan)) == every_job
    for rule in ("generate_replies", "judge_replies"):
        monkeypatch.setitem(requests.REQUEST_COUNTERS, rule, lambda plan, rehearsal, rule=rule, **names: (rule, names))
    unused: Any = None
    assert new_requests(plan, unused) == every_job == new_requests(plan, unused, every_job)
    assert new_requests(plan, unused, [("judge_replies", BATCH), ("parse_replies", names)]) == every_job[2:]
    assert new_requests(plan, unused, []) == []


def test_requests_to_a_judge_are_estimated_without_replies_and_counted_with_them(plan: RulePlan) -> None:
    before = count_requests(plan, new_verdicts, **BATCH)
    assert before[:3] == ("judges", JUDGE, TUTOR) and not before.exact and before.requests, "no reply exists"
    ask_the_tutor(plan)
    counted = count_requests(plan, new_verdicts, **BATCH)
    assert counted.exact and counted.requests and counted.prompt_tokens > counted.requests
    journal = ask_the_judge(plan)
    assert len(lines_of(journal)) == counted.requests
    assert count_requests(plan, new_verdicts, **BATCH) == ("judges", JUDGE, TUTOR, 0, 0.0, 0.0, True, 0)
    journal.write_text("".join(lines_of(journal)[1:]), encoding="utf-8")
    missing = count_requests(plan, new_verdicts, **BATCH)
    assert (missing.requests, missing.exact) == (1, True)


def test_files_that_another_run_left_are_not_read(plan: RulePlan) -> None:
    """Items and replies that the run will write anew are made from the demo's file and the journal."""
    ask_the_tutor(plan)
    ask_the_judge(plan)
    replies, items = Path(paths.REPLIES.of(**NAMES)), Path(inputs.tutor_items(plan, **NAMES)[0])
    for file in (replies, items):
        file.write_text("of another run\n", encoding="utf-8")
    for remade in ({str(replies), str(items)}, None):
        with Rehearsal(plan, remade) as rehearsal:
            counts = new_requests(plan, rehearsal)
        assert [(part.requests, part.exact) for part in (counts[0], counts[-1])] == [(0, True), (0, True)]
        assert not rehearsal.root.exists(), "the rehearsal's files are removed"
    Path(paths.REPLY_JOURNAL.of(**NAMES)).unlink()
    with Rehearsal(plan) as rehearsal:
        counts = new_requests(plan, rehearsal)
    assert (counts[0].exact, counts[-1].exact) == (True, False), "without replies, verdicts are estimated"


def test_requests_about_a_known_and_an_unknown_tutor_are_added_up(
    plan: RulePlan, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Requests about the tutor with replies are counted, those about the other one are estimated."""
    ask_the_tutor(plan)
    known = count_requests(plan, new_verdicts, **BATCH)
    monkeypatch.setattr(RulePlan, "is_answered_by", lambda plan, card, tutor: True)
    monkeypatch.setattr(RulePlan, "judge_batches", lambda plan, benchmark: {TUTOR: [TUTOR, "other"]})
    monkeypatch.setattr(
        Rehearsal,
        "replies",
        lambda self, benchmark, tutor: self.make_replies(benchmark, tutor) if tutor == TUTOR else None,
    )
    both = count_requests(plan, new_verdicts, **BATCH)
    unknown = requests.estimated_verdicts(plan, JUDGE, plan.card(BENCHMARK, TASK), TUTOR)
    assert unknown is not None and both.requests == (known.requests or 0) + (unknown.requests or 0) and not both.exact


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
            TUTOR: hosted,
            JUDGE: judge,
            "freer": {**judge, "label_limit": None},
            "few": {**judge, "label_limit": 2},
        }
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
    labels, pairs = (
        measured_sizes()["labels", "mrbench", "mrbench_taxonomy"],
        measured_sizes()["pairs", "bridge", "pairs_json"],
    )
    assert labels.items > 1000 and pairs.items == 482 and pairs.requests == 2.0
    for judge, replies, pair_count in ((JUDGE, 4, 4), ("freer", labels.items, pairs.items)):
        probed = len(PROBES) * 3
        requests = [round((replies + probed) * labels.requests), round(pair_count * 2.0)]
        prompts = [
            requests[0] * tokens_of_chars(labels.prompt_chars),
            requests[1] * tokens_of_chars(pairs.prompt_chars),
        ]
        estimate = count_requests(check_plan, new_label_checks, RehearsalWithoutSources, judge=judge)
        assert estimate == (
            "checks",
            judge,
            TUTOR,
            sum(requests),
            sum(prompts),
            sum(requests) * VERDICT_TOKENS,
            False,
            0,
        )
    parts = estimated_label_checks(check_plan, JUDGE)
    assert [part.requests for part in parts] == [16, 8]


def test_the_estimated_number_of_probed_replies_is_at_most_the_judges_limit(check_plan: RulePlan) -> None:
    parts = estimated_label_checks(check_plan, "few")
    assert [part.requests for part in parts] == [2 + 2 * len(PROBES), 4]


def test_a_judge_is_only_asked_about_tasks_with_its_rubrics(plan: RulePlan, monkeypatch: pytest.MonkeyPatch) -> None:
    judge_cards = plan.judge_cards(BENCHMARK, JUDGE)
    assert TUTOR in plan.judge_batches(BENCHMARK)
    monkeypatch.setattr(RulePlan, "judge_cards", lambda plan, name, judge=None: judge_cards if judge == JUDGE else [])
    assert (count_requests(plan, new_verdicts, **BATCH).requests or 0) > 0


def test_verdicts_on_an_unmeasured_task_are_estimated_as_one_request_per_item(
    plan: RulePlan, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(requests, "measured_sizes", lambda: {})
    card = plan.card(BENCHMARK, TASK)
    items = requests.item_count_of(plan, card)
    estimate = requests.estimated_verdicts(plan, JUDGE, card, TUTOR)
    assert estimate == (items, items * tokens_of_chars(4000.0), items * VERDICT_TOKENS) and items > 1


def test_a_release_that_does_not_validate_a_judge_is_not_probed(
    check_plan: RulePlan, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(RulePlan, "judged_releases", lambda plan, judge: ["mrbench"])
    monkeypatch.setattr(RulePlan, "validating_releases", lambda plan, judge: [])
    assert [part.requests for part in estimated_label_checks(check_plan, JUDGE)] == [4, 8]


def test_probes_are_made_with_the_label_limit_of_the_judge(
    check_plan: RulePlan, monkeypatch: pytest.MonkeyPatch
) -> None:
    probe_args: list[Any] = []
    labels_of(check_plan, "mrbench")
    pairs_of(check_plan, "bridge")
    monkeypatch.setattr(requests, "work_on_labels", lambda *args: [])
    monkeypatch.setattr(requests, "work_on_pairs", lambda *args: [])
    monkeypatch.setattr(requests, "work_on_probes", lambda *args: probe_args.append(args[1:]) or [])
    count_requests(check_plan, new_label_checks, judge="few")
    folder = Path(paths.LABELS.of(release="mrbench")).parent
    assert probe_args == [([folder], check_plan.run.probes, check_plan.label_limit("few"), check_plan.run.seed)]
    assert check_plan.label_limit("few") is not None


def test_requests_about_unmeasured_pairs_or_releases_are_unknown(
    check_plan: RulePlan, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes = {key: size for key, size in measured_sizes().items() if key[0] != "pairs"}
    monkeypatch.setattr(requests, "measured_sizes", lambda: sizes)
    assert [part.requests for part in estimated_label_checks(check_plan, JUDGE)] == [16, None]
    assert count_requests(check_plan, new_label_checks, RehearsalWithoutSources, judge=JUDGE).requests is None


def test_requests_about_labelled_replies_and_pairs_are_counted(check_plan: RulePlan) -> None:
    """If labels and pairs exist, each question without an answer in the journal is counted."""
    labels_of(check_plan, "mrbench")
    pairs_of(check_plan, "bridge")
    fresh = count_requests(check_plan, new_label_checks, judge=JUDGE)
    assert fresh[:3] == ("checks", JUDGE, TUTOR) and fresh.exact and fresh.requests is not None
    assert 4 + 2 * 4 < fresh.requests <= 4 + 2 * 4 + 4 * len(PROBES), "replies, pairs in both orders, probes"
    assert fresh.prompt_tokens > 100 * fresh.requests and fresh.answer_tokens == fresh.requests * VERDICT_TOKENS
    with Rehearsal(check_plan) as rehearsal:
        assert new_label_checks(check_plan, JUDGE, rehearsal) == fresh, "labels and pairs made anew are the same"
    labels, pairs = paths.LABELS.of(release="mrbench"), paths.PAIRS.of(source="bridge")
    for remade in (labels, pairs):
        with RehearsalWithoutSources(check_plan, {remade}) as rehearsal:
            assert not new_label_checks(check_plan, JUDGE, rehearsal).exact, f"{remade} will be replaced"
    journal = ask_about_labels(check_plan, JUDGE)
    lines = lines_of(journal)
    assert len(lines) == fresh.requests, "the job sends as many requests as were counted"
    assert count_requests(check_plan, new_label_checks, judge=JUDGE) == ("checks", JUDGE, TUTOR, 0, 0.0, 0.0, True, 0)
    journal.write_text("".join(lines[2:]), encoding="utf-8")
    missing = count_requests(check_plan, new_label_checks, judge=JUDGE)
    assert (missing.requests, missing.exact, missing.answer_tokens) == (2, True, 2 * VERDICT_TOKENS)
    more = count_requests(check_plan, new_label_checks, judge="freer")
    assert more.exact and (more.requests or 0) > 2 * fresh.requests, "this judge has no limit, and its own journal"
    Path(pairs).unlink()
    assert not count_requests(check_plan, new_label_checks, RehearsalWithoutSources, judge=JUDGE).exact


def test_an_estimate_lists_each_job_with_requests_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Jobs are listed by stage. Baselines, panels and lists of words send no requests."""
    config = many_judges()
    config["models"]["idle"] = {**config["models"]["two"], "rubrics": ["kmp_error_reason"]}
    config["run"]["judges"] = [*config["run"]["judges"], "idle"]
    plan = plan_of(config)
    enter_checkout(tmp_path, monkeypatch)
    with RehearsalWithoutSources(plan) as rehearsal:
        counts = new_requests(plan, rehearsal)
    shards = ["far"] * len(plan.shards_of("far"))
    assert [part.asker for part in counts if part.stage == "tutors"] == [*shards, "near"] * 3 and len(shards) > 1
    batches = {
        name: len([tutors for tutors in plan.judge_batches(name).values() if tutors]) for name in plan.benchmarks
    }
    assert set(batches) == {"mrbench", "kmpbench", "tutorbench"}
    judged = Counter(part.asker for part in counts if part.stage != "tutors")
    assert judged == {"one": sum(batches.values()) + 1, "two": batches["mrbench"] + 1, "idle": batches["kmpbench"]}
    assert [part.asker for part in counts[-2:]] == ["one", "two"], "checks of the judges with labels"
    assert {part.asker: part.model for part in counts} == {
        "far": "far",
        "near": "near",
        "one": "near",
        "two": "far",
        "idle": "far",
    }
    assert not any(part.exact for part in counts), "no file exists"


def test_items_of_another_edition_or_limit_are_not_counted(plan: RulePlan) -> None:
    """A published file is not read as a demo's, and a file with a wrong checksum is not read."""
    [items] = inputs.tutor_items(plan, **NAMES)
    count = len(lines_of(Path(items)))
    source = Path(paths.SOURCE.of(dataset=plan.card(BENCHMARK, TASK).dataset))
    source.parent.mkdir(parents=True, exist_ok=True)
    source.write_text("[]", encoding="utf-8")
    Path(items).write_text("".join(lines_of(Path(items)) * 9), encoding="utf-8")
    with Rehearsal(plan) as rehearsal:
        tutor, *_ = new_requests(plan, rehearsal)
    assert (tutor.requests, tutor.exact) == (2 * count, True)
    config = shipped() | {"edition": "published"}
    config["run"] |= {**NOBODY, "tutors": ["gpt-4o"], "tasks": [f"{BENCHMARK}/{TASK}"], "labels": []}
    published, _ = plan_before_pins(config)
    with Rehearsal(published) as rehearsal:
        [tutor] = new_requests(published, rehearsal)
    assert not tutor.exact, "the file in the results has another checksum"


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


def test_requests_of_a_tutors_job_for_all_benchmarks_are_added_up(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[Any] = []
    monkeypatch.setattr(requests, "new_replies", lambda *args: calls.append(args) or args[1])
    monkeypatch.setattr(requests, "total_requests", lambda *args: args)
    plan, rehearsal = SimpleNamespace(benchmarks=["a", "b"]), object()
    args: Any = (plan, "t", rehearsal)
    assert requests.all_new_replies(*args) == ("tutors", "t", "t", ["a", "b"])
    assert calls == [(plan, name, "t", rehearsal) for name in "ab"]


def test_later_turns_have_the_mean_length_of_the_requests_that_can_be_rendered() -> None:
    """Without any request that can be rendered, their length is unknown and counts as 0."""
    on_file: Any = SimpleNamespace(unanswered_lengths={"a": 40, "b": 80}, asked_in_batches={})
    counted = requests.unanswered_requests("tutors", "t", "m", on_file, 2, 5.0)
    assert counted == ("tutors", "t", "m", 4, 4 * tokens_of_chars(60), 20.0, True, 0)
    on_file.unanswered_lengths = {}
    assert requests.unanswered_requests("tutors", "t", "m", on_file, 3, 5.0) == (
        "tutors",
        "t",
        "m",
        3,
        0.0,
        15.0,
        True,
        0,
    )
    on_file.asked_in_batches = {"a": 40, "b": 80}
    counted = requests.unanswered_requests("tutors", "t", "m", on_file, 3, 5.0)
    assert counted == ("tutors", "t", "m", 3, 3 * tokens_of_chars(60), 15.0, True, 2), "as long as those in batches"


def test_a_served_models_request_identity_is_known_once_its_weights_exist(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[Any] = []
    monkeypatch.setattr(rehearsal, "served_identity", lambda *args: calls.append(args) or {"commit": "x"})
    model = VllmModel.model_validate({"engine": "vllm", "weights": {"path": "x"}})
    manifest = tmp_path / "m/manifest.json"
    assert request_identity(model, []) is None and request_identity(model, [str(manifest)]) is None and not calls
    manifest.parent.mkdir()
    manifest.write_text("{}", encoding="utf-8")
    assert request_identity(model, [str(manifest), "other"]) == {"commit": "x"}
    assert calls == [(model, manifest.parent)]


def test_the_number_of_items_is_unknown_if_neither_card_nor_registry_has_it() -> None:
    card: Any = SimpleNamespace(dataset="d", items=None)
    dataset = SimpleNamespace(demo=None, published=SimpleNamespace(records=None))
    plan: Any = SimpleNamespace(datasets={"d": dataset}, edition="published", run=SimpleNamespace(limit=None))
    assert requests.item_count_of(plan, card) is None
    assert requests.shard_share(requests_to_tutor(None), Shard(number=2, parts=4)).requests is None
    shares = [requests.shard_share(requests_to_tutor(10), Shard(number=number, parts=4)) for number in (1, 2, 3, 4)]
    assert [share.requests for share in shares] == [3, 3, 2, 2] and sum(share.prompt_tokens for share in shares) == 80.0


def requests_to_tutor(number: int | None) -> NewRequests:
    return NewRequests("tutors", "t", "t", number, 80.0, 40.0)


def test_requests_of_a_shard_are_counted_with_its_jobs_settings(
    plan: RulePlan, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The answers of its own journal and of the other shards' journals are on file."""
    calls: dict[str, Any] = {}
    job = SimpleNamespace(
        journals=lambda journal: ["others of", journal],
        work=lambda folder: [folder],
        max_tokens=5,
        seed=6,
        tasks=["x"],
        protocol="released",
        shard=Shard(2, 3),
    )

    async def count_turns(work: Any, on_file: Any, limits: Any) -> tuple[list[Any], int]:
        calls.update(work=work, limits=(limits.max_tokens, limits.seed))
        return [], 3

    monkeypatch.setattr(replies_stage, "generate_shard_job", lambda plan, *names: calls.update(names=names) or job)
    monkeypatch.setattr(requests, "mean_answer_tokens", lambda on_file, loaded_cards: 7.0)
    monkeypatch.setattr(requests, "run_conversations_on_file", count_turns)
    answers_on_file, on_file_args = AnswersOnFile, []

    def recorded_answers_on_file(*args: Any) -> Any:
        on_file_args.append(args)
        return answers_on_file(*args[:4])

    monkeypatch.setattr(requests, "AnswersOnFile", recorded_answers_on_file)
    folder: Any = SimpleNamespace(items=lambda benchmark, tasks: (benchmark, tasks), counts_by_settings={})
    counted = new_replies(plan, **NAMES, shard="2-of-3", rehearsal=folder)
    journal = Path(paths.SHARD_JOURNAL.of(**NAMES, shard="2-of-3"))
    [(asker, model, identity, path, others)] = on_file_args
    assert (asker, model, path, others) == (TUTOR, plan.models[TUTOR], journal, ["others of", journal]) and identity
    assert calls["names"] == (BENCHMARK, TUTOR, "2-of-3") and calls["limits"] == (5, 6)
    assert calls["work"] == [(BENCHMARK, ["x"])]
    assert counted == ("tutors", TUTOR, TUTOR, 3, 0.0, 21.0, True, 0)


def test_requests_of_an_unmeasured_task_are_estimated_with_default_lengths(
    plan: RulePlan, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(requests, "measured_sizes", lambda: {})
    [loaded] = [loaded for loaded in plan.benchmarks[BENCHMARK] if loaded.card.task == TASK]
    estimate = requests.estimated_replies(plan, loaded, 1)
    assert estimate.requests and estimate.requests > 1
    assert estimate[1:] == (estimate.requests * tokens_of_chars(2000.0), estimate.requests * tokens_of_chars(600.0))


def test_the_settings_of_a_judge_have_the_seed_of_the_run(plan: RulePlan) -> None:
    assert requests.panel_of(plan, JUDGE).seed == plan.run.seed


def test_answers_in_other_journals_are_on_file_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[Any] = []
    monkeypatch.setattr(rehearsal, "load_journal_answers", lambda *args: calls.append(args) or Answers({}))
    model: Any = None
    AnswersOnFile("t", model, {}, tmp_path / "one", [tmp_path / "two"])
    assert calls == [(tmp_path / "one", FinishedRequest, [tmp_path / "two"])]


def test_requests_of_a_judges_job_for_all_benchmarks_are_added_up(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[Any] = []
    monkeypatch.setattr(requests, "new_verdicts", lambda *args: calls.append(args) or f"of {args[2]}")
    monkeypatch.setattr(requests, "total_requests", lambda *args: args)
    plan: Any = SimpleNamespace(
        benchmarks_of_batch=lambda judge, batch: ["a", "b"] if (judge, batch) == ("j", "x") else [],
        answering_entry={"j": "m"}.get,
    )
    folder: Any = object()
    assert requests.all_new_verdicts(plan, "j", "x", folder) == ("judges", "j", "m", ["of a", "of b"])
    assert calls == [(plan, "j", "a", "x", folder), (plan, "j", "b", "x", folder)]


class Answers(dict[str, SimpleNamespace]):
    """Answers of a journal. others: answers of other journals."""

    others: tuple[dict[str, SimpleNamespace], ...] = ()


def test_estimated_answers_have_the_mean_length_of_those_on_file_or_measured(plan: RulePlan) -> None:
    """Without answers in this or another journal, the measured answers to each task count, else a default length."""
    answers = Answers()
    on_file: Any = SimpleNamespace(journal=SimpleNamespace(answers=answers))
    tasks = [plan.selected_card(cards.card_path(BENCHMARK, task), plan.run.protocol) for task in (TASK, "fqa")]
    measured = [measured_sizes()[BENCHMARK, loaded.card.task, ""].answer_chars for loaded in tasks]
    assert measured[0] != measured[1]
    assert mean_answer_tokens(on_file, tasks) == pytest.approx(tokens_of_chars(sum(measured) / 2))
    assert mean_answer_tokens(on_file, tasks[:1]) == pytest.approx(tokens_of_chars(measured[0]))
    assert mean_answer_tokens(on_file, []) == 150.0
    answers["a"] = SimpleNamespace(completion_tokens=None)
    assert mean_answer_tokens(on_file, []) == 150.0, "an answer without a token count does not count"
    answers.others = ({"b": SimpleNamespace(completion_tokens=30)}, {"c": SimpleNamespace(completion_tokens=50)})
    answers["d"] = SimpleNamespace(completion_tokens=10)
    assert mean_answer_tokens(on_file, tasks) == 30.0
