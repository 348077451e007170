"""What a run will still ask: counted from journals where items and replies are there, turn by turn."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from conftest import ROOT
from httpserver import chat, scripted, serving
from maieutic.config import cards
from maieutic.config.models import VllmModel
from maieutic.core import paths
from maieutic.core.journal import FinishedRequest
from maieutic.judges.commands import judge_labelled, judge_replies
from maieutic.judges.probes import PROBES
from maieutic.plan import inputs, jobs, rehearsal, requests
from maieutic.plan.rehearsal import AnswersOnFile, NotOnFile, Rehearsal, request_identity
from maieutic.plan.requests import (
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
from maieutic.plan.rules import RulePlan, plan_before_pins, plan_of
from maieutic.replies.generate import Shard, generate_replies
from run_configs import HOSTED, NOBODY, many_judges
from scripted import endpoint
from shipped import shipped
from steps import items_of, labels_of, pairs_of

BENCHMARK, TASK, TUTOR, JUDGE = "kmpbench", "ec", "far", "judge"
NAMES = {"benchmark": BENCHMARK, "tutor": TUTOR}
# Of which step is wrong in one of the items at least: the judge is asked about the reason.
FOUND = "<correctness>no</correctness>\n<error_step_num>2</error_step_num>\n<error_reason>It is added.</error_reason>"
BATCH = {"judge": JUDGE, "benchmark": BENCHMARK, "batch": TUTOR}


def stand_in(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Stand in a folder that has resources and no results."""
    monkeypatch.chdir(folder)
    (folder / "resources").symlink_to(ROOT / "resources")


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
        config["models"] |= {"twin": hosted, "longer": {**hosted, "thinking_tokens": 9}}
        config["run"] |= {
            **NOBODY,
            "tutors": [TUTOR],
            "tasks": [f"{BENCHMARK}/{TASK}"],
            "judges": [JUDGE],
            "labels": [],
        }
        plan = plan_of(config)
        stand_in(tmp_path, monkeypatch)
        items_of(plan, BENCHMARK, TASK)
        yield plan


class Nothing(Rehearsal):
    """Before anything is fetched."""

    def make_source(self, dataset: str) -> Path | None:
        return None


def counted_now(plan: RulePlan, count: Any, of: type[Rehearsal] = Rehearsal, **names: str) -> NewRequests:
    """What one job will ask, as the results folder stands: whatever is there stays."""
    with of(plan, ()) as rehearsal:
        told: NewRequests = count(plan, **names, rehearsal=rehearsal)
        return told


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


def test_a_tutor_is_asked_what_its_journal_lacks_turn_by_turn(plan: RulePlan, monkeypatch: pytest.MonkeyPatch) -> None:
    [items] = inputs.generate_replies(plan, **NAMES)["cases"]
    count = len(lines_of(Path(items)))
    fresh = counted_now(plan, new_replies, **NAMES)
    assert fresh[:4] == ("tutors", TUTOR, TUTOR, 2 * count) and fresh.exact
    assert fresh.prompt_tokens > 100 * count and fresh.answer_tokens > 0, "as such requests were measured"
    measured = measured_sizes()[BENCHMARK, TASK, ""].answer_chars
    assert fresh.answer_tokens == pytest.approx(fresh.requests * tokens_of_chars(measured)), "of the human reference"
    Path(items).rename("aside")
    assert counted_now(plan, new_replies, **NAMES) == fresh, "they are made from the demo's file, the same ones"
    supposed = counted_now(plan, new_replies, Nothing, **NAMES)
    assert not supposed.exact and 0 < (supposed.requests or 0) <= 2 * count
    Path("aside").rename(items)
    journal = ask_the_tutor(plan)
    assert counted_now(plan, new_replies, **NAMES) == ("tutors", TUTOR, TUTOR, 0, 0.0, 0.0, True)
    kept = lines_of(journal)
    assert len(kept) == 2 * count
    journal.write_text("".join(kept[:-1]), encoding="utf-8")
    lacking = counted_now(plan, new_replies, **NAMES)
    assert lacking.exact and lacking.requests == 1, "a second turn"
    assert lacking.answer_tokens == 40, "answers are as long as those on file"
    journal.write_text(kept[0], encoding="utf-8")
    assert counted_now(plan, new_replies, **NAMES).requests == 2 * count - 1


def test_tutors_that_are_asked_alike_are_worded_once(plan: RulePlan, monkeypatch: pytest.MonkeyPatch) -> None:
    """As long as none of them has an answer; an entry that is asked otherwise, or one with answers, is its own."""
    worded: list[str] = []
    own = requests.count_later_turns
    monkeypatch.setattr(
        requests, "count_later_turns", lambda job, items, on_file: worded.append(job.tutor) or own(job, items, on_file)
    )
    with Rehearsal(plan, ()) as rehearsal:
        counts = {name: new_replies(plan, BENCHMARK, name, rehearsal) for name in (TUTOR, "twin", "longer")}
        assert worded == [TUTOR, "longer"]
        assert len({part[3:] for part in counts.values()}) == 1 and all(
            part.model == name for name, part in counts.items()
        )
        ask_the_tutor(plan)
        assert new_replies(plan, BENCHMARK, TUTOR, rehearsal).requests == 0


def test_requests_are_those_of_the_planned_jobs(plan: RulePlan, monkeypatch: pytest.MonkeyPatch) -> None:
    names = dict(NAMES)
    baselines = {**BATCH, "batch": "_baselines"}
    everything = [("generate_replies", names), ("judge_replies", baselines), ("judge_replies", BATCH)]
    assert list(countable_jobs(plan)) == everything
    for rule in ("generate_replies", "judge_replies"):
        monkeypatch.setitem(requests.REQUEST_COUNTERS, rule, lambda plan, rehearsal, rule=rule, **names: (rule, names))
    nothing: Any = None
    assert new_requests(plan, nothing) == everything == new_requests(plan, nothing, everything)
    assert new_requests(plan, nothing, [("judge_replies", BATCH), ("parse_replies", names)]) == everything[2:]
    assert new_requests(plan, nothing, []) == []


def test_a_judge_is_asked_about_what_is_there_alone(plan: RulePlan) -> None:
    before = counted_now(plan, new_verdicts, **BATCH)
    assert before[:3] == ("judges", JUDGE, TUTOR) and not before.exact and before.requests, "no reply is there"
    ask_the_tutor(plan)
    there = counted_now(plan, new_verdicts, **BATCH)
    assert there.exact and there.requests and there.prompt_tokens > there.requests
    journal = ask_the_judge(plan)
    assert len(lines_of(journal)) == there.requests
    assert counted_now(plan, new_verdicts, **BATCH) == ("judges", JUDGE, TUTOR, 0, 0.0, 0.0, True)
    journal.write_text("".join(lines_of(journal)[1:]), encoding="utf-8")
    one = counted_now(plan, new_verdicts, **BATCH)
    assert (one.requests, one.exact) == (1, True)


def test_what_another_run_has_left_under_a_files_name_is_not_read(plan: RulePlan) -> None:
    """Items and replies that will be written anew are made from their sources: the demo's file, and the journal."""
    ask_the_tutor(plan)
    ask_the_judge(plan)
    replies, items = Path(paths.REPLIES.of(**NAMES)), Path(inputs.generate_replies(plan, **NAMES)["cases"][0])
    for file in (replies, items):
        file.write_text("of another run\n", encoding="utf-8")
    for remade in ({str(replies), str(items)}, None):
        with Rehearsal(plan, remade) as rehearsal:
            told = new_requests(plan, rehearsal)
        assert [(part.requests, part.exact) for part in (told[0], told[-1])] == [(0, True), (0, True)]
        assert not rehearsal.root.exists(), "what was made for it is gone"
    Path(paths.REPLY_JOURNAL.of(**NAMES)).unlink()
    with Rehearsal(plan) as rehearsal:
        told = new_requests(plan, rehearsal)
    assert (told[0].exact, told[-1].exact) == (True, False), "replies that nobody has given yet are not known"


def test_a_judge_of_a_known_and_an_unknown_tutor_is_asked_of_both(
    plan: RulePlan, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of the one it is counted, of the other supposed."""
    ask_the_tutor(plan)
    alone = counted_now(plan, new_verdicts, **BATCH)
    monkeypatch.setattr(RulePlan, "is_answered_by", lambda plan, card, tutor: True)
    monkeypatch.setattr(RulePlan, "judge_batches", lambda plan, benchmark: {TUTOR: [TUTOR, "other"]})
    monkeypatch.setattr(
        Rehearsal,
        "replies",
        lambda self, benchmark, tutor: self.make_replies(benchmark, tutor) if tutor == TUTOR else None,
    )
    both = counted_now(plan, new_verdicts, **BATCH)
    more = requests.estimated_verdicts(plan, JUDGE, plan.card(BENCHMARK, TASK), TUTOR)
    assert more is not None and both.requests == (alone.requests or 0) + (more.requests or 0) and not both.exact


@pytest.fixture
def checked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[RulePlan]:
    """A judge that is checked on labelled replies, on pairs and by probes; nothing of it is there yet."""
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
        stand_in(tmp_path, monkeypatch)
        yield plan


def ask_about_labels(plan: RulePlan, judge: str) -> Path:
    """Run the judge's job on labelled replies; gives its journal."""
    files, journal = inputs.judge_labelled(plan, judge), Path(paths.LABELLED_JOURNAL.of(judge=judge))
    judge_labelled(
        job=jobs.judge_labelled(plan, judge), labels=[*map(Path, files["labels"])], pairs=[*map(Path, files["pairs"])],
        weights=[], journal=journal, server_log=Path("log"), out=Path(f"{judge}.jsonl"),
        probes_out=[Path(f"{judge}-{name}.jsonl") for name in plan.probes],
    )  # fmt: skip
    return journal


def test_a_judge_is_supposed_to_be_asked_of_each_release_each_pair_and_each_probe(checked: RulePlan) -> None:
    """Before any of it is there: as many as the limit says, else all; probes ask about replies of a release again."""
    labels, pairs = (
        measured_sizes()["labels", "mrbench", "mrbench_taxonomy"],
        measured_sizes()["pairs", "bridge", "pairs_json"],
    )
    assert labels.items > 1000 and pairs.items == 482 and pairs.requests == 2.0
    for judge, replies, compared in ((JUDGE, 4, 4), ("freer", labels.items, pairs.items)):
        probed = len(PROBES) * 3
        requests = [round((replies + probed) * labels.requests), round(compared * 2.0)]
        prompts = [
            requests[0] * tokens_of_chars(labels.prompt_chars),
            requests[1] * tokens_of_chars(pairs.prompt_chars),
        ]
        told = counted_now(checked, new_label_checks, Nothing, judge=judge)
        assert told == ("checks", judge, TUTOR, sum(requests), sum(prompts), sum(requests) * VERDICT_TOKENS, False)
    parts = estimated_label_checks(checked, JUDGE)
    assert [part.requests for part in parts] == [16, 8]


def test_a_judge_that_probes_more_than_its_limit_is_asked_about_that_many(checked: RulePlan) -> None:
    parts = estimated_label_checks(checked, "few")
    assert [part.requests for part in parts] == [2 + 2 * len(PROBES), 4]


def test_a_judge_is_asked_of_its_own_tasks_alone(plan: RulePlan, monkeypatch: pytest.MonkeyPatch) -> None:
    own = plan.judge_cards(BENCHMARK, JUDGE)
    assert TUTOR in plan.judge_batches(BENCHMARK)
    monkeypatch.setattr(RulePlan, "judge_cards", lambda plan, name, judge=None: own if judge == JUDGE else [])
    assert (counted_now(plan, new_verdicts, **BATCH).requests or 0) > 0


def test_a_judge_of_a_task_that_nobody_measured_is_supposed_to_be_asked_once_an_item(
    plan: RulePlan, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(requests, "measured_sizes", lambda: {})
    card = plan.card(BENCHMARK, TASK)
    items = requests.item_count_of(plan, card)
    found = requests.estimated_verdicts(plan, JUDGE, card, TUTOR)
    assert found == (items, items * tokens_of_chars(4000.0), items * VERDICT_TOKENS) and items > 1


def test_a_release_that_a_judge_is_not_checked_on_is_not_probed(
    checked: RulePlan, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(RulePlan, "judged_releases", lambda plan, judge: ["mrbench"])
    monkeypatch.setattr(RulePlan, "validating_releases", lambda plan, judge: [])
    assert [part.requests for part in estimated_label_checks(checked, JUDGE)] == [4, 8]


def test_probes_are_of_as_many_replies_as_the_judge_is_asked_about(
    checked: RulePlan, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[Any] = []
    labels_of(checked, "mrbench")
    pairs_of(checked, "bridge")
    monkeypatch.setattr(requests, "work_on_labels", lambda *given: [])
    monkeypatch.setattr(requests, "work_on_pairs", lambda *given: [])
    monkeypatch.setattr(requests, "work_on_probes", lambda *given: told.append(given[1:]) or [])
    counted_now(checked, new_label_checks, judge="few")
    folder = Path(paths.LABELS.of(release="mrbench")).parent
    assert told == [([folder], checked.run.probes, checked.label_limit("few"), checked.run.seed)]
    assert checked.label_limit("few") is not None


def test_a_pair_or_release_that_nobody_measured_is_not_known(
    checked: RulePlan, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = {key: size for key, size in measured_sizes().items() if key[0] != "pairs"}
    monkeypatch.setattr(requests, "measured_sizes", lambda: known)
    assert [part.requests for part in estimated_label_checks(checked, JUDGE)] == [16, None]
    assert counted_now(checked, new_label_checks, Nothing, judge=JUDGE).requests is None


def test_a_judge_is_asked_about_what_people_have_labelled(checked: RulePlan) -> None:
    """Where labels and pairs are there it is counted: what the journal lacks, question by question."""
    labels_of(checked, "mrbench")
    pairs_of(checked, "bridge")
    fresh = counted_now(checked, new_label_checks, judge=JUDGE)
    assert fresh[:3] == ("checks", JUDGE, TUTOR) and fresh.exact and fresh.requests is not None
    assert 4 + 2 * 4 < fresh.requests <= 4 + 2 * 4 + 4 * len(PROBES), "replies, pairs in both orders, probes"
    assert fresh.prompt_tokens > 100 * fresh.requests and fresh.answer_tokens == fresh.requests * VERDICT_TOKENS
    with Rehearsal(checked) as rehearsal:
        assert new_label_checks(checked, JUDGE, rehearsal) == fresh, "made anew, they are the same"
    labels, pairs = paths.LABELS.of(release="mrbench"), paths.PAIRS.of(source="bridge")
    for remade in (labels, pairs):
        with Nothing(checked, {remade}) as rehearsal:
            assert not new_label_checks(checked, JUDGE, rehearsal).exact, f"{remade} will be another"
    journal = ask_about_labels(checked, JUDGE)
    kept = lines_of(journal)
    assert len(kept) == fresh.requests, "it was asked what was told"
    assert counted_now(checked, new_label_checks, judge=JUDGE) == ("checks", JUDGE, TUTOR, 0, 0.0, 0.0, True)
    journal.write_text("".join(kept[2:]), encoding="utf-8")
    lacking = counted_now(checked, new_label_checks, judge=JUDGE)
    assert (lacking.requests, lacking.exact, lacking.answer_tokens) == (2, True, 2 * VERDICT_TOKENS)
    more = counted_now(checked, new_label_checks, judge="freer")
    assert more.exact and (more.requests or 0) > 2 * fresh.requests, "it has no limit, and a journal of its own"
    Path(pairs).unlink()
    assert not counted_now(checked, new_label_checks, Nothing, judge=JUDGE).exact


def test_an_estimate_names_each_asking_job_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In the order of the stages; nobody is asked as a baseline, as a panel, or by a list of words."""
    config = many_judges()
    config["models"]["idle"] = {**config["models"]["two"], "rubrics": ["kmp_error_reason"]}
    config["run"]["judges"] = [*config["run"]["judges"], "idle"]
    plan = plan_of(config)
    stand_in(tmp_path, monkeypatch)
    with Nothing(plan) as rehearsal:
        told = new_requests(plan, rehearsal)
    far = ["far"] * len(plan.shards_of("far"))
    assert [part.asker for part in told if part.stage == "tutors"] == [*far, "near"] * 3 and len(far) > 1
    batches = {name: len([one for one in plan.judge_batches(name).values() if one]) for name in plan.benchmarks}
    assert set(batches) == {"mrbench", "kmpbench", "tutorbench"}
    judged = Counter(part.asker for part in told if part.stage != "tutors")
    assert judged == {"one": sum(batches.values()) + 1, "two": batches["mrbench"] + 1, "idle": batches["kmpbench"]}
    assert [part.asker for part in told[-2:]] == ["one", "two"], "of labels, where a judge has some to be checked on"
    assert {part.asker: part.model for part in told} == {
        "far": "far",
        "near": "near",
        "one": "near",
        "two": "far",
        "idle": "far",
    }
    assert not any(part.exact for part in told), "nothing is there"


def test_items_of_another_edition_or_limit_are_not_counted(plan: RulePlan) -> None:
    """The published file that lies under a dataset's name in the results is no demo's; a wrong one is none at all."""
    [items] = inputs.generate_replies(plan, **NAMES)["cases"]
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


def test_what_follows_from_the_verdicts_on_file_is_asked_of_the_file_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """Round by round, from all verdicts of a round; a question that is not on file is passed over."""
    asked, told = [], []

    async def judged(loaded: Any, case: Any, question: str, *more: Any) -> list[str]:
        asked.append((case, question))
        if (case, question) == ("a", "2"):
            raise NotOnFile
        return [f"{case}{question}"]

    def further(work: Any, judgements: list[str]) -> Any:
        told.append(judgements)
        return [(loaded, "c")] if len(told) == 1 else []

    loaded: Any = SimpleNamespace(rubric=None)
    monkeypatch.setattr(requests, "judge_case", judged)
    monkeypatch.setattr(requests, "questions_about", lambda rubric, case: "12")
    monkeypatch.setattr(requests, "follow_up_work", further)
    nobody: Any = None
    asyncio.run(requests.verdicts_on_file([(loaded, "a"), (loaded, "b")], nobody, nobody))
    assert asked == [(case, question) for case in "abc" for question in "12"]
    assert told == [["a1", "b1", "b2"], ["c1", "c2"]]


def test_one_job_for_all_benchmarks_asks_a_tutor_what_each_of_them_asks(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[Any] = []
    monkeypatch.setattr(requests, "new_replies", lambda *given: told.append(given) or given[1])
    monkeypatch.setattr(requests, "total_requests", lambda *given: given)
    plan, rehearsal = SimpleNamespace(benchmarks=["a", "b"]), object()
    given: Any = (plan, "t", rehearsal)
    assert requests.all_new_replies(*given) == ("tutors", "t", "t", ["a", "b"])
    assert told == [(plan, name, "t", rehearsal) for name in "ab"]


def test_what_is_not_on_file_is_as_long_as_the_mean_of_it() -> None:
    """Requests that nobody can word yet are as long as those that can be; where there are none, of unknown length."""
    on_file: Any = SimpleNamespace(unanswered_lengths={"a": 40, "b": 80})
    found = requests.unanswered_requests("tutors", "t", "m", on_file, 2, 5.0)
    assert found == ("tutors", "t", "m", 4, 4 * tokens_of_chars(60), 20.0, True)
    on_file.unanswered_lengths = {}
    assert requests.unanswered_requests("tutors", "t", "m", on_file, 3, 5.0) == ("tutors", "t", "m", 3, 0.0, 15.0, True)


def test_weights_that_are_there_are_part_of_what_is_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[Any] = []
    monkeypatch.setattr(rehearsal, "served_identity", lambda *given: told.append(given) or {"commit": "x"})
    model = VllmModel.model_validate({"engine": "vllm", "weights": {"path": "x"}})
    manifest = tmp_path / "m/manifest.json"
    assert request_identity(model, []) is None and request_identity(model, [str(manifest)]) is None and not told
    manifest.parent.mkdir()
    manifest.write_text("{}", encoding="utf-8")
    assert request_identity(model, [str(manifest), "other"]) == {"commit": "x"}
    assert told == [(model, manifest.parent)]


def test_an_input_of_a_rule_is_one_file_or_several() -> None:
    assert requests.as_list("one") == ["one"] and requests.as_list(("one", "two")) == ["one", "two"]


def test_a_task_of_which_nobody_says_how_many_items_it_has_has_an_unknown_number() -> None:
    card: Any = SimpleNamespace(dataset="d", items=None)
    dataset = SimpleNamespace(demo=None, published=SimpleNamespace(records=None))
    plan: Any = SimpleNamespace(datasets={"d": dataset}, edition="published", run=SimpleNamespace(limit=None))
    assert requests.item_count_of(plan, card) is None
    assert requests.shard_share(asked_of(None), Shard(number=2, parts=4)).requests is None
    shares = [requests.shard_share(asked_of(10), Shard(number=number, parts=4)) for number in (1, 2, 3, 4)]
    assert [one.requests for one in shares] == [3, 3, 2, 2] and sum(one.prompt_tokens for one in shares) == 80.0


def asked_of(number: int | None) -> NewRequests:
    return NewRequests("tutors", "t", "t", number, 80.0, 40.0)


def test_a_shard_is_asked_what_its_own_journal_and_the_others_lack(
    plan: RulePlan, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the settings of its job."""
    told: dict[str, Any] = {}
    job = SimpleNamespace(
        journals=lambda own: ["others of", own],
        work=lambda folder: [folder],
        max_tokens=5,
        seed=6,
        tasks=["x"],
        protocol="released",
        shard=Shard(2, 3),
    )

    async def behind(work: Any, on_file: Any, limits: Any) -> tuple[list[Any], int]:
        told.update(work=work, limits=(limits.max_tokens, limits.seed))
        return [], 3

    monkeypatch.setattr(jobs, "generate_shard", lambda plan, *names: told.update(names=names) or job)
    monkeypatch.setattr(requests, "mean_answer_tokens", lambda on_file, loadeds: 7.0)
    monkeypatch.setattr(requests, "run_conversations_on_file", behind)
    own, kept = AnswersOnFile, []

    def noted(*given: Any) -> Any:
        kept.append(given)
        return own(*given[:4])

    monkeypatch.setattr(requests, "AnswersOnFile", noted)
    folder: Any = SimpleNamespace(items=lambda benchmark, tasks: (benchmark, tasks), counts_by_settings={})
    found = new_replies(plan, **NAMES, shard="2-of-3", rehearsal=folder)
    journal = Path(paths.SHARD_JOURNAL.of(**NAMES, shard="2-of-3"))
    [(asker, model, identity, at, others)] = kept
    assert (asker, model, at, others) == (TUTOR, plan.models[TUTOR], journal, ["others of", journal]) and identity
    assert told["names"] == (BENCHMARK, TUTOR, "2-of-3") and told["limits"] == (5, 6)
    assert told["work"] == [(BENCHMARK, ["x"])]
    assert found == ("tutors", TUTOR, TUTOR, 3, 0.0, 21.0, True)


def test_a_tutor_of_a_task_that_nobody_measured_is_supposed_to_be_asked_at_length(
    plan: RulePlan, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(requests, "measured_sizes", lambda: {})
    [loaded] = [one for one in plan.benchmarks[BENCHMARK] if one.card.task == TASK]
    found = requests.estimated_replies(plan, loaded)
    assert found.requests and found.requests > 1
    assert found[1:] == (found.requests * tokens_of_chars(2000.0), found.requests * tokens_of_chars(600.0))


def test_a_judge_draws_by_the_seed_of_the_run(plan: RulePlan) -> None:
    assert requests.panel_of(plan, JUDGE).seed == plan.run.seed


def test_answers_in_other_journals_are_on_file_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[Any] = []
    monkeypatch.setattr(rehearsal, "load_journal_answers", lambda *given: told.append(given) or Answers({}))
    model: Any = None
    AnswersOnFile("t", model, {}, tmp_path / "one", [tmp_path / "two"])
    assert told == [(tmp_path / "one", FinishedRequest, [tmp_path / "two"])]


def test_one_job_for_all_benchmarks_is_asked_what_each_of_them_asks(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[Any] = []
    monkeypatch.setattr(requests, "new_verdicts", lambda *given: told.append(given) or f"of {given[2]}")
    monkeypatch.setattr(requests, "total_requests", lambda *given: given)
    plan: Any = SimpleNamespace(
        benchmarks_of_batch=lambda judge, batch: ["a", "b"] if (judge, batch) == ("j", "x") else [],
        answering_entry={"j": "m"}.get,
    )
    folder: Any = object()
    assert requests.all_new_verdicts(plan, "j", "x", folder) == ("judges", "j", "m", ["of a", "of b"])
    assert told == [(plan, "j", "a", "x", folder), (plan, "j", "b", "x", folder)]


class Answers(dict[str, SimpleNamespace]):
    """A journal's answers, and those of others."""

    others: tuple[dict[str, SimpleNamespace], ...] = ()


def test_an_answer_is_as_long_as_those_on_file_or_as_measured(plan: RulePlan) -> None:
    """Tokens: of this journal and others, else of what each task's answers were measured to hold, else a guess."""
    answers = Answers()
    on_file: Any = SimpleNamespace(journal=SimpleNamespace(answers=answers))
    tasks = [plan.selected_card(cards.card_path(BENCHMARK, task), plan.run.protocol) for task in (TASK, "fqa")]
    measured = [measured_sizes()[BENCHMARK, one.card.task, ""].answer_chars for one in tasks]
    assert measured[0] != measured[1]
    assert mean_answer_tokens(on_file, tasks) == pytest.approx(tokens_of_chars(sum(measured) / 2))
    assert mean_answer_tokens(on_file, tasks[:1]) == pytest.approx(tokens_of_chars(measured[0]))
    assert mean_answer_tokens(on_file, []) == 150.0
    answers["a"] = SimpleNamespace(completion_tokens=None)
    assert mean_answer_tokens(on_file, []) == 150.0, "of an answer that nobody counted nothing is known"
    answers.others = ({"b": SimpleNamespace(completion_tokens=30)}, {"c": SimpleNamespace(completion_tokens=50)})
    answers["d"] = SimpleNamespace(completion_tokens=10)
    assert mean_answer_tokens(on_file, tasks) == 30.0
