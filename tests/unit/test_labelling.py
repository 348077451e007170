"""`maieutic label` on a run that is there: whose replies may be drawn, what judges say of them, what is refused."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml
from conftest import ROOT
from maieutic.core import paths
from maieutic.core.errors import UserError
from maieutic.core.records import Item, Judgement, Reply, Verdict, read_records, write_records
from maieutic.datasets.mrbench import DESIRED_LABELS, LABELS
from maieutic.judges.labelled_sets import make_labels, read_labelled_data
from maieutic.judges.rubrics import read_rubric
from maieutic.people.pairs import PREFERENCE_RUBRIC
from maieutic.people.sample import Candidate, Key
from maieutic.people.sample_sizes import FEWEST_PILOT_LABELS
from maieutic.plan import inputs, jobs, labelling
from maieutic.plan.labelling import (
    JudgeVerdicts,
    LabelOptions,
    add_labelled_pairs,
    candidates_of,
    comparison_candidates,
    judge_pilots,
    label,
    reply_turns,
    rubric_for_people,
)
from maieutic.plan.pinning import merged_configuration
from maieutic.plan.rules import RulePlan, plan_before_pins
from maieutic.replies.generate import generate_replies
from run_configs import HOSTED, NOBODY
from steps import items_of, labels_of

TASK = "mistake_remediation"
RUBRIC = "mrbench_taxonomy"
SECOND = "Providing_Guidance"
MODELS = {
    "far": HOSTED,
    "one": {"engine": "judge", "model": "far", "rubrics": [RUBRIC, "kmp_error_reason"]},
    "two": {"engine": "judge", "model": "far", "rubrics": [RUBRIC]},
}
RUN = {
    **NOBODY, "tutors": ["far", "echo"], "tasks": ["mrbench", "kmpbench/ec"], "judges": ["one", "two"], "labels": [],
    "preferences": [],
}  # fmt: skip


def run_file(folder: Path, name: str = "run.yaml", **keys: Any) -> Path:
    text = yaml.safe_dump({"edition": "demo", "models": MODELS, "run": {**RUN, **keys}})
    (folder / name).write_text(text, encoding="utf-8")
    return folder / name


def made(folder: Path, **keys: Any) -> RulePlan:
    plan, lacking = plan_before_pins(merged_configuration([run_file(folder, "more.yaml", **keys)]))
    assert not lacking
    return plan


def says(criterion: str, item: int, judge: str) -> str | None:
    """What a judge says of every reply to an item: the second differs about every third, and is silent on the fourth."""
    if judge == "two" and item == 4:
        return None
    desired = (item % 2 == 0) != (judge == "two" and item % 3 == 0)
    return (
        DESIRED_LABELS[criterion]
        if desired
        else next(word for word in LABELS[criterion] if word != DESIRED_LABELS[criterion])
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three tutors' replies to two benchmarks, and what two judges say of one of them."""
    folder: Path = tmp_path_factory.mktemp("labelled")
    for name in ("resources", "config"):
        (folder / name).symlink_to(ROOT / name)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        plan = made(folder)
        for benchmark, task in (("mrbench", TASK), ("kmpbench", "ec")):
            items = items_of(plan, benchmark, task)
            for tutor in (name for name in plan.tutors_on(benchmark) if name != "far"):
                names = {"benchmark": benchmark, "tutor": tutor}
                generate_replies(
                    job=jobs.generate_replies(plan, **names), items=items.parent, pictures=Path("results/pictures"),
                    weights=[], journal=Path(paths.REPLY_JOURNAL.of(**names)), server_log=Path("log"),
                    out=Path(paths.REPLIES.of(**names)), prompts=Path("prompts.jsonl"),
                )  # fmt: skip
            # A model's replies, which happen to be what a baseline says: judges are asked about them.
            said = read_records(Path(paths.REPLIES.of(benchmark=benchmark, tutor="echo")), Reply)
            far = [one.model_copy(update={"tutor": "far", "key": "k"}) for one in said]
            write_records(Path(paths.REPLIES.of(benchmark=benchmark, tutor="far")), far)
        cases = [item.id for item in read_records(Path(paths.ITEMS.of(benchmark="mrbench", task=TASK)), Item)]
        for judge in ("one", "two"):
            for file in inputs.batch_verdicts(plan, judge, "mrbench"):
                tutors = [Path(file).stem] if Path(file).stem != "_baselines" else ["reference", "always-ask", "reveal"]
                write_records(
                    Path(file),
                    [
                        Judgement(
                            id=item, task=TASK, tutor=tutor, rubric=RUBRIC, key="k", raw="",
                            verdicts=[Verdict(criterion=name, value=says(name, number, judge)) for name in LABELS],
                        )
                        for tutor in tutors
                        for number, item in enumerate(cases)
                    ],
                )  # fmt: skip
    return folder


@pytest.fixture
def here(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(folder)
    return folder


def test_replies_to_tasks_that_nobody_wants_are_left_out(here: Path) -> None:
    wanted = {TASK: labelling.task_items_by_id("mrbench", TASK)}
    assert reply_turns("mrbench", "far", wanted).keys() == {(TASK, one) for one in wanted[TASK]}
    assert reply_turns("mrbench", "far", {}) == {}


def drawn(here: Path, out: Path, names: list[str] | None = None, **options: Any) -> Key:
    """A sample of three judged tutors; its key."""
    wanted = LabelOptions(**{"n": 12, "tasks": [TASK], **options})
    label(
        configfile=[run_file(here)],
        annotators=["ann", "ben", "cat"] if names is None else names,
        out=out,
        options=wanted,
    )
    return Key.read(out)


def test_a_sample_is_drawn_of_each_tutor_with_its_probability(
    here: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    key = drawn(here, tmp_path / "sample")
    count = len(read_records(Path(paths.ITEMS.of(benchmark="mrbench", task=TASK)), Item))
    strata = {name: tuple(numbers) for name, numbers in key.strata.items()}
    assert {name.removeprefix(f"{TASK}, "): size for name, (size, _) in strata.items()}["far"] == count
    assert sum(number for _, number in strata.values()) == 12 == len(key.units)
    for unit in key.units.values():
        assert "history" not in unit and "other" not in unit, "it is no pair"
        size, number = strata[unit["stratum"]]
        assert unit["probability"] == number / size and unit["stratum"] == f"{TASK}, {unit['tutor']}"
        assert unit["criteria"] == list(LABELS) and "response_1" not in unit
    assert (key.scheme, key.seed, key.rubric, key.against, key.compared) == ("random", 1, RUBRIC, None, False)
    assert (key.annotators, key.overlap) == (["ann", "ben", "cat"], 2)
    assert Counter(name for own in key.assigned.values() for name in own) == dict.fromkeys(key.units, 2)
    assert {name: tuple(words) for name, words in key.criteria.items()} == {
        name: tuple(LABELS[name]) for name in LABELS
    }
    assert set(key.levels) == set(LABELS)
    pages = {path.name for path in (tmp_path / "sample").iterdir()}
    assert {"key.json", "page-ann.html", "page-ben.html", "page-cat.html"} <= pages
    assert [path.name for path in tmp_path.iterdir()] == ["sample"], "nothing unfinished stays"
    told = capsys.readouterr().out.splitlines()
    out = tmp_path / "sample"
    assert told == [
        f"12 replies from {len(strata)} strata, 2 annotator(s) each: {out}/page-NAME.html",
        f"{out}/key.json names the tutors: keep it from the annotators",
        f"next: maieutic read-labels --sample {out} --files labels-*.json --out people.csv",
    ]


def test_what_annotators_read_names_the_sample(here: Path, tmp_path: Path) -> None:
    one, again, other = (drawn(here, tmp_path / f"s{seed}{n}", seed=seed) for n, seed in enumerate((5, 5, 6)))
    assert one.seed == 5 and one.strata == again.strata
    told = [
        sorted((unit["item"], unit["tutor"], unit["first"]) for unit in key.units.values())
        for key in (one, again, other)
    ]
    assert told[0] == told[1] != told[2], "a seed draws the same replies"
    assert not set(one.units) & set(again.units), "their names tell nobody which they are"
    assert len({key.sample for key in (one, again, other)}) == 3 and len(one.sample) == 10
    text = tmp_path / "guideline.txt"
    text.write_text("Label as you like.", encoding="utf-8")
    page = (tmp_path / "s50" / "page-ann.html").read_text(encoding="utf-8")
    assert "Read everything before the response" in page
    guided = drawn(here, tmp_path / "guided", guideline=text)
    assert "Label as you like." in (tmp_path / "guided" / "page-ann.html").read_text(encoding="utf-8")
    assert guided.version != one.version


@pytest.mark.parametrize(
    ("names", "overlap", "each"),
    [(["ann"], None, 1), (["ann", "ben"], None, 2), (["a", "b", "c"], 1, 1), (["a", "b", "c"], 3, 3)],
)
def test_two_annotators_read_each_reply_where_there_are_two(
    names: list[str], overlap: int | None, each: int, here: Path, tmp_path: Path
) -> None:
    key = drawn(here, tmp_path / "s", names, overlap=overlap)
    assert key.overlap == each and list(key.assigned) == names
    assert sum(map(len, key.assigned.values())) == 12 * each


def test_strata_follow_what_judges_say(here: Path, tmp_path: Path) -> None:
    """One reply in two is desired to the leading judge; the second differs about every third, and about the fourth."""
    verdicts = drawn(here, tmp_path / "verdict", scheme="verdict", n=8, tutors=["far"])
    count = len(read_records(Path(paths.ITEMS.of(benchmark="mrbench", task=TASK)), Item))
    assert {name: size for name, (size, _) in verdicts.strata.items()} == {
        f"{TASK}, far, desired": (count + 1) // 2,
        f"{TASK}, far, not desired": count // 2,
    }
    torn = drawn(here, tmp_path / "torn", scheme="disagreement", n=6, tutors=["far"])
    differ = sum(number % 3 == 0 or number == 4 for number in range(count))
    assert {name: size for name, (size, _) in torn.strata.items()} == {
        f"{TASK}, far, torn": differ,
        f"{TASK}, far": count - differ,
    }


@pytest.mark.parametrize(
    ("options", "fault"),
    [
        ({"names": []}, r"^--annotators: no annotator is named"),
        ({"names": ["a b"]}, r"^--annotators: 'a b' cannot be a file name"),
        ({"names": ["ann", "ann"]}, r"^--annotators: a name is listed twice"),
        ({"overlap": 0}, r"^--overlap: expected 1 to 3 annotators per reply, found 0"),
        ({"overlap": 4}, r"^--overlap: expected 1 to 3 annotators per reply, found 4"),
        ({"n": 10**6}, r"^--n: 1000000 replies requested, but there are only \d+"),
        ({"tasks": ["mistake_remediatio"]}, r"^--tasks: 'mistake_remediatio'.*mistake_remediation"),
        ({"tutors": ["ecko"]}, r"^--tutors: 'ecko'.*echo"),
        ({"rubric": "mrbench_taxonomi"}, r"^--rubric: 'mrbench_taxonomi'.*mrbench_taxonomy"),
        ({"tasks": ["ec"], "scheme": "disagreement"}, r"^--scheme: disagreement needs at least two judges.*--scheme random"),
        ({"guideline": Path("nothing.txt")}, r"^nothing\.txt: cannot be read: .*No such file.*name an existing file, saved as UTF-8 text"),
        ({"against": "far", "rubric": RUBRIC}, r"^--against: pairs of replies do not take --rubric.*remove --rubric"),
        ({"against": "far", "rubric": RUBRIC, "scheme": "verdict"}, r"do not take --rubric, --scheme"),
        ({"against": "ecko"}, r"^--against: 'ecko'.*echo"),
        ({"against": "far", "tutors": ["nobody"]}, r"^--tutors: 'nobody'"),
        ({"against": "far", "tasks": ["mistake_remediatio"]}, r"^--tasks: 'mistake_remediatio'.*mistake_remediation"),
        ({"against": "far", "tutors": ["far"]}, r"^--against: no other tutor's reply can be compared with one of "),
    ],
)  # fmt: skip
def test_what_cannot_be_labelled_is_one_line(options: dict[str, Any], fault: str, here: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=fault):
        drawn(here, tmp_path / "s", **options)
    assert not list(tmp_path.iterdir()), "nothing is written"


def test_a_sample_is_named_by_all_that_decides_it() -> None:
    loaded = read_rubric(RUBRIC)
    told = [
        labelling.annotator_instructions(loaded, [], guideline, seed)
        for guideline, seed in (("", 1), ("", 2), ("read", 1))
    ]
    assert len({one.sample for one in told}) == 3
    assert told[0].version == told[1].version != told[2].version


def test_a_candidate_is_said_to_be_what_its_first_criterion_is(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of an item's own criteria, else of the rubric's; of nothing where there are none."""
    loaded = read_rubric(RUBRIC)
    item = next(iter(labelling.task_items_by_id("mrbench", TASK).values()))
    reply = Reply(id=item.id, task=TASK, tutor="far", key="k", turns=[])
    told: list[Any] = []
    judged: Any = SimpleNamespace(
        leading_verdict=lambda *given: told.append(given) or "desired", is_disputed=lambda *given: given
    )
    name = f"{TASK}/{item.id}"
    first, *others = LABELS
    desired = loaded.rubric.rules.desired_label(loaded.rubric.criteria[first].desired)
    found = labelling.candidate_of(loaded, item, reply, judged)
    assert found.criteria == loaded.rubric.criteria and found.judges_differ == (name, "far", [first, *others])
    own = {others[0]: loaded.rubric.criteria[others[0]]}
    monkeypatch.setattr(labelling, "item_criteria", lambda given, of: own if (given, of) == (loaded, item) else {})
    assert labelling.candidate_of(loaded, item, reply, judged).criteria == own
    bare: Any = SimpleNamespace(rubric=SimpleNamespace(criteria={}, rules=loaded.rubric.rules))
    assert labelling.candidate_of(bare, item, reply, judged).criteria == {}
    assert told == [(name, "far", first, desired), (name, "far", others[0], desired), (name, "far", "", None)]


def test_verdicts_by_another_rubric_are_not_taken(here: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plan, loaded = made(here), read_rubric(RUBRIC)
    before = labelling.verdicts_by_judge(plan, loaded, "mrbench")
    assert set(before) == {"one", "two"}
    other = Judgement(
        id="new", task=TASK, tutor="far", rubric="mrbench_critic", key="k", raw="",
        verdicts=[Verdict(criterion="c", value="Yes")],
    )  # fmt: skip
    write_records(tmp_path / "more.jsonl", [other])
    kept = labelling.batch_verdicts
    monkeypatch.setattr(labelling, "batch_verdicts", lambda *given: [*kept(*given), str(tmp_path / "more.jsonl")])
    assert labelling.verdicts_by_judge(plan, loaded, "mrbench") == before


def test_each_tutors_replies_to_each_task_may_be_drawn(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """But for a baseline's to a task whose card does not name it."""
    plan, loaded = made(here), read_rubric(RUBRIC)
    card = plan.card("mrbench", TASK)
    items = labelling.task_items_by_id("mrbench", TASK)
    none, named = (card.baselines.model_copy(update={"floor": [name]}) for name in ("reveal", "always-ask"))
    cards = [
        card.model_copy(update={"task": "another", "baselines": none}),
        card.model_copy(update={"baselines": named}),
    ]
    monkeypatch.setattr(RulePlan, "judge_cards", lambda plan, name, judge=None: cards if name == "mrbench" else [])
    monkeypatch.setattr(RulePlan, "people_rubrics", {TASK: [RUBRIC], "another": [RUBRIC]})
    monkeypatch.setattr(RulePlan, "can_answer", lambda plan, card, tutor: True)
    monkeypatch.setattr(labelling, "task_items_by_id", lambda benchmark, task: items)
    candidates, _ = candidates_of(plan, loaded, None, ["far", "always-ask"])
    assert Counter(one.tutor for one in candidates) == {"far": len(items), "always-ask": len(items)}


def test_a_tutor_that_answers_none_of_the_tasks_has_nothing_to_be_labelled(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = made(here)
    monkeypatch.setattr(RulePlan, "tutors_on", lambda plan, benchmark: ["far"])
    monkeypatch.setattr(RulePlan, "can_answer", lambda plan, card, tutor: False)
    monkeypatch.setattr(labelling, "read_run_records", lambda path, kind: [] if "items" in str(path) else 1 / 0)
    with pytest.raises(UserError) as fault:
        candidates_of(plan, read_rubric(RUBRIC), [TASK], ["far"])
    assert (
        fault.value.line
        == "--tutors: no reply of these tutors can be labelled by the rubric. Fix: choose other --tutors, or another --rubric"
    )


def test_what_a_person_asks_for_decides_the_sample(here: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tasks and tutors, the seed, and the usual words where no guideline is named."""
    told: dict[str, Any] = {}
    candidates, told_of = labelling.candidates_of, labelling.annotator_instructions

    def noted_candidates(plan: Any, loaded: Any, *wanted: Any) -> Any:
        told["wanted"] = wanted
        return candidates(plan, loaded, *wanted)

    def noted_told(loaded: Any, units: Any, guideline: str, seed: int) -> Any:
        told["guideline"], told["seed"] = guideline, seed
        return told_of(loaded, units, guideline, seed)

    monkeypatch.setattr(labelling, "candidates_of", noted_candidates)
    monkeypatch.setattr(labelling, "annotator_instructions", noted_told)
    drawn(here, tmp_path / "a", tutors=["far"], seed=7)
    assert told == {"wanted": ([TASK], ["far"]), "guideline": labelling.GUIDELINE, "seed": 7}
    drawn(here, tmp_path / "b", against="reference", tutors=["far"])
    assert told["guideline"] == labelling.GUIDELINE_OF_PAIRS != labelling.GUIDELINE


def test_pairs_are_not_planned(here: Path) -> None:
    wanted = LabelOptions(n=6, tasks=[TASK], against="far")
    with pytest.raises(UserError, match=r"^--against: pairs of replies do not take --plan\. Fix: remove --plan$"):
        label(configfile=[run_file(here)], annotators=["ann"], options=wanted, plan=True)


def test_a_sample_never_overwrites_another(here: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"^--out: no folder is named.*add --out labels-1"):
        label(configfile=[run_file(here)], annotators=["ann"], options=LabelOptions(n=6, tasks=[TASK]))
    (tmp_path / "s").mkdir()
    with pytest.raises(UserError, match=r"the folder exists already and may contain labels.*choose another folder"):
        drawn(here, tmp_path / "s")


def test_what_the_run_has_not_made_is_named(here: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("resources", "config"):
        (tmp_path / name).symlink_to(ROOT / name)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(
        UserError, match=r"^results/items/.*does not exist.*run snakemake first: only existing replies can be labelled"
    ):
        label(configfile=[run_file(tmp_path)], annotators=["ann"], out=tmp_path / "s", options=LabelOptions())
    nobody = run_file(tmp_path, judges=[])
    with pytest.raises(UserError, match=r"^run\.tasks: no task of this run is judged.*add a judge with a rubric"):
        label(configfile=[nobody], annotators=["ann"], out=tmp_path / "s", options=LabelOptions())


def test_a_picture_that_is_not_there_is_named_before_anything_is_written(
    here: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = labelling.candidates_of

    def with_picture(*arguments: Any) -> tuple[list[Candidate], JudgeVerdicts]:
        candidates, judged = plain(*arguments)
        shown = [
            one._replace(item=one.item.model_copy(update={"images": ["gone.png", "lost.png"]})) for one in candidates
        ]
        return shown, judged

    monkeypatch.setattr(labelling, "candidates_of", with_picture)
    with pytest.raises(UserError, match=r"gone\.png: does not exist.*run snakemake first: it downloads the pictures"):
        drawn(here, tmp_path / "s")
    assert not list(tmp_path.iterdir())


def test_whose_replies_may_be_drawn(here: Path) -> None:
    """A reply may be drawn where judges are asked about it; a baseline's, where the card names the baseline."""
    plan = made(here)
    loaded = read_rubric(RUBRIC)
    candidates, judged = candidates_of(plan, loaded, [TASK], None)
    card = plan.card("mrbench", TASK)
    assert {one.tutor for one in candidates} == set(plan.compared_tutors("mrbench")) & {"far", *card.baselines.named}
    count = len(read_records(Path(paths.ITEMS.of(benchmark="mrbench", task=TASK)), Item))
    assert Counter(one.tutor for one in candidates)["far"] == count
    assert list(judged.by_judge) == ["one", "two"]
    [first] = [one for one in candidates if one.tutor == "far"][:1]
    assert (first.task, first.first_verdict, first.judges_differ) == (TASK, "desired", True) and list(
        first.criteria
    ) == list(LABELS)
    replies = {one.id: one for one in read_records(Path(paths.REPLIES.of(benchmark="mrbench", tutor="far")), Reply)}
    assert first.texts == tuple(turn.text for turn in replies[first.item.id].turns)
    own, _ = candidates_of(plan, loaded, None, ["far"])
    assert {one.tutor for one in own} == {"far"} and {one.task for one in own} == {TASK}
    reason = read_rubric("kmp_error_reason")
    others, unjudged = candidates_of(plan, reason, None, ["far"])
    assert {(one.task, one.first_verdict, one.judges_differ) for one in others} == {
        ("ec", "not judged", False)
    } and not unjudged.by_judge


def test_replies_that_failed_are_not_drawn(here: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = Path(paths.REPLIES.of(benchmark="mrbench", tutor="far"))
    replies = read_records(file, Reply)
    replies[0] = replies[0].model_copy(update={"error": "refused"})
    strange = replies[1].model_copy(update={"id": "of another run"})
    read = labelling.read_run_records

    def changed(path: Path, kind: type[Any]) -> list[Any]:
        return [*replies, strange] if path == file else read(path, kind)

    monkeypatch.setattr(labelling, "read_run_records", changed)
    candidates, _ = candidates_of(made(here), read_rubric(RUBRIC), [TASK], ["far"])
    assert [one.item.id for one in candidates] == [one.id for one in replies[1:]]


@pytest.mark.parametrize(
    ("rubric", "tasks", "expected"),
    [
        (None, None, RUBRIC), (None, ["ec"], "kmp_error_reason"), ("kmp_error_reason", None, "kmp_error_reason"),
        (RUBRIC, [TASK], RUBRIC),
    ],
)  # fmt: skip
def test_people_label_by_what_the_leading_judge_reads(
    rubric: str | None, tasks: list[str] | None, expected: str, here: Path
) -> None:
    assert rubric_for_people(made(here), rubric, tasks).name == expected


def test_a_rubric_of_a_task_that_is_not_labelled_is_refused(here: Path) -> None:
    with pytest.raises(UserError, match=r"^--rubric: 'kmp_error_reason'"):
        rubric_for_people(made(here), "kmp_error_reason", [TASK])
    turned = made(here, judges=["two", "one"], tasks=["kmpbench/ec", "mrbench"])
    assert rubric_for_people(turned, None, None).name == RUBRIC, "the leading judge's, whichever task comes first"


def test_what_judges_say_of_a_reply_in_one_word() -> None:
    judged = JudgeVerdicts({})
    assert judged.leading_verdict("t/1", "x", "c", "Yes") == "not judged" and not judged.is_disputed("t/1", "x", ["c"])
    judged.add({"one": {("t/1", "x", "c"): "Yes", ("t/1", "x", "d"): "No", ("t/2", "x", "c"): None}})
    assert not judged.is_disputed("t/1", "x", ["c", "d"]), "one judge differs from nobody"
    judged.add({"two": {("t/1", "x", "c"): "Yes", ("t/1", "x", "d"): "Yes"}})
    judged.add({"one": {("t/3", "x", "c"): "No"}})
    said = [judged.leading_verdict(item, "x", "c", "Yes") for item in ("t/1", "t/2", "t/3", "t/4")]
    assert said == ["desired", "unreadable", "not desired", "unreadable"]
    assert (
        judged.is_disputed("t/1", "x", ["c", "d"])
        and judged.is_disputed("t/1", "x", ["d"])
        and not judged.is_disputed("t/1", "x", ["c"])
    )
    assert not judged.is_disputed("t/2", "x", ["c"]) and judged.is_disputed("t/3", "x", ["c"]), (
        "a verdict differs from none"
    )


def test_pairs_are_of_one_item_and_of_replies_that_differ(
    here: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plan = made(here)
    pairs = comparison_candidates(plan, "reference", [TASK], ["far", "reference"])
    assert {(one.tutor, one.against, one.task) for one in pairs} == {("far", "reference", TASK)}
    texts = {
        (tutor, one.id): tuple(turn.text for turn in one.turns)
        for tutor in ("far", "reference")
        for one in read_records(Path(paths.REPLIES.of(benchmark="mrbench", tutor=tutor)), Reply)
    }
    for one in pairs:
        assert one.texts == texts["far", one.item.id] != one.others == texts["reference", one.item.id]
        assert one.criteria == PREFERENCE_RUBRIC.rubric.criteria
    every = comparison_candidates(plan, "reference", None, ["far", "always-ask"])
    assert {(one.tutor, one.task) for one in every} > {("far", TASK), ("always-ask", TASK)}
    key = drawn(here, tmp_path / "pairs", against="reference", tutors=["far"])
    assert (key.rubric, key.compared, key.against) == ("preference", True, "reference")
    assert all(unit["tutor"] == "far" and unit["history"] and "question" in unit for unit in key.units.values())
    page = (tmp_path / "pairs" / "page-ann.html").read_text(encoding="utf-8")
    assert "choose the better response for this student" in page
    told = capsys.readouterr().out
    assert told.startswith("12 pairs from 1 strata, 2 annotator(s) each") and told.endswith("--out preferences.csv\n")


def test_the_tutors_of_the_run_are_compared_where_none_are_named(here: Path) -> None:
    pairs = comparison_candidates(made(here), "reference", [TASK], None)
    assert {one.tutor for one in pairs} == {"far", "echo"}, "the run's own, not the baselines that cards add"


def test_replies_that_say_the_same_or_stand_alone_are_in_no_pair(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = made(here)
    wanted = {TASK: labelling.task_items_by_id("mrbench", TASK)}
    own = reply_turns("mrbench", "far", wanted)
    same, alone, *others = own
    theirs = {**dict.fromkeys(others, ("other",)), same: own[same]}

    def read(benchmark: str, tutor: str, items: Any) -> Any:
        return theirs if tutor == "reference" else own

    monkeypatch.setattr(labelling, "reply_turns", read)
    found = [(one.task, one.item.id) for one in comparison_candidates(plan, "reference", [TASK], ["far"])]
    assert found == others and alone not in found


def test_a_benchmark_that_the_other_tutor_does_not_answer_has_no_pairs(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(RulePlan, "tutors_on", lambda plan, benchmark: ["far"])
    with pytest.raises(UserError, match="no other tutor's reply can be compared with one of "):
        comparison_candidates(made(here), "reference", [TASK], ["far"])


def test_replies_that_say_nothing_are_in_no_pair(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = Path(paths.REPLIES.of(benchmark="mrbench", tutor="far"))
    replies = read_records(file, Reply)
    turn = replies[0].turns[0]
    silent = replies[0].model_copy(update={"turns": [turn.model_copy(update={"text": " \n"})]})
    failed = replies[1].model_copy(update={"error": "refused"})
    read = labelling.read_run_records

    def changed(path: Path, kind: type[Any]) -> list[Any]:
        return [silent, failed, *replies[2:]] if path == file else read(path, kind)

    before = {one.item.id for one in comparison_candidates(made(here), "reference", [TASK], ["far"])}
    monkeypatch.setattr(labelling, "read_run_records", changed)
    after = {one.item.id for one in comparison_candidates(made(here), "reference", [TASK], ["far"])}
    assert before - after == {replies[0].id, replies[1].id} & before != set() and after < before


# how many labels are enough -------------------------------------------------------------------------------------------


def people(folder: Path, count: int, wrong: Callable[[int], bool]) -> Path:
    """A file of labels of one criterion of the tutor's replies: the leading judge's word, or the other one."""
    items = [item.id for item in read_records(Path(paths.ITEMS.of(benchmark="mrbench", task=TASK)), Item)]
    lines = ["task,item,tutor,criterion,annotator,label"]
    for number, item in list(enumerate(items))[:count]:
        word = says(SECOND, number + wrong(number), "one")
        lines.append(f"{TASK},{item},far,{SECOND},ann,{word}")
    path = folder / "people.csv"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def test_a_plan_prints_widths_and_writes_nothing(
    here: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    label(configfile=[run_file(here)], out=tmp_path / "s", options=LabelOptions(tasks=[TASK], n=60), plan=True)
    told = capsys.readouterr().out
    assert "the judge's agreement with people is unknown: rho = 0" in told and all(name[:32] in told for name in LABELS)
    assert not list(tmp_path.iterdir())


def test_a_pilot_knows_the_judge_by_peoples_labels(here: Path, tmp_path: Path) -> None:
    count = len(read_records(Path(paths.ITEMS.of(benchmark="mrbench", task=TASK)), Item))
    assert count > FEWEST_PILOT_LABELS
    file = people(tmp_path, count, lambda number: number % 8 == 7)
    plan = made(here, human_labels=str(file))
    loaded = read_rubric(RUBRIC)
    candidates, judged = candidates_of(plan, loaded, [TASK], None)
    pilots = judge_pilots(plan, loaded, candidates, judged)
    assert set(pilots) == set(LABELS)
    own = pilots[SECOND]
    assert own.n == count and own.source == str(file) and 0.5 < own.rho < 1
    desired = [says(SECOND, number, "one") == DESIRED_LABELS[SECOND] for number in range(count)]
    assert own.rate == pytest.approx(sum(desired) / count)
    other = pilots["Coherence"]
    assert (other.n, other.rho, other.source) == (0, 0.0, "") and other.rate == own.rate
    unjudged = judge_pilots(plan, loaded, candidates, JudgeVerdicts({}))
    assert {(one.n, one.rate, one.rho) for one in unjudged.values()} == {(0, 0.5, 0.0)}


def test_a_pilot_knows_the_judge_by_a_labelled_set_else(here: Path, tmp_path: Path) -> None:
    """Where nobody has labelled this run's replies: what the leading judge says of a set of the same criteria."""
    plan = made(here, labels=["mrbench"])
    loaded = read_rubric(RUBRIC)
    candidates, judged = candidates_of(plan, loaded, [TASK], ["far"])
    nothing = judge_pilots(plan, loaded, candidates, judged)
    assert {(one.n, one.source) for one in nothing.values()} == {(0, "")}, "the judge was asked about no labelled set"
    items = Path(paths.LABELS.of(release="mrbench"))
    source = Path(paths.SOURCE.of(dataset="mrbench"))
    make_labels(job=jobs.make_labels(plan, "mrbench"), sources=[source], out=items)
    labels = read_labelled_data(items.parent).labels
    replies = list(dict.fromkeys((one.id, one.tutor) for one in labels))
    wrong = set(replies[::7])
    said = {
        (one.id, one.tutor, one.criterion): one.label
        if (one.id, one.tutor) not in wrong
        else other(one.criterion, one.label)
        for one in labels
    }
    verdicts = Path(paths.LABELLED_VERDICTS.of(judge="one"))

    def judgement(task: str, id_: str, tutor: str) -> Judgement:
        own = [Verdict(criterion=name, value=said.get((id_, tutor, name))) for name in LABELS]
        return Judgement(id=id_, task=task, tutor=tutor, rubric=RUBRIC, key="k", raw="", verdicts=own)

    write_records(verdicts, [judgement(task, *reply) for task in ("another", "mrbench") for reply in replies[2:]])
    try:
        known = judge_pilots(plan, loaded, candidates, judged)
        first = known[SECOND]
        count = sum(one.criterion == SECOND and (one.id, one.tutor) in replies[2:] for one in labels)
        assert (
            first.n == count > FEWEST_PILOT_LABELS and first.source == plan.label_sets["mrbench"].title == "MRBench V1"
        )
        assert 0.3 < first.rho < 1 and first.rate == nothing[SECOND].rate, "the rate is of this run's replies"
        (items.parent / "about.json").rename(items.parent / "about.gone")
        assert judge_pilots(plan, loaded, candidates, judged)[SECOND].n == 0
        (items.parent / "about.gone").rename(items.parent / "about.json")
        unled = judge_pilots(plan, loaded, candidates, JudgeVerdicts({}))
        assert unled[SECOND] == nothing[SECOND]._replace(rate=0.5), "no judge leads"
        reason = read_rubric("kmp_error_reason")
        others, unjudged = candidates_of(plan, reason, ["ec"], ["far"])
        unjudged.add({"one": {}})
        assert {one.n for one in judge_pilots(plan, reason, others, unjudged).values()} == {0}, (
            "the set is of other criteria"
        )
    finally:
        verdicts.unlink()


def other(criterion: str, label_: str) -> str:
    """A label that is not this one: desired where it is not, and the other way round."""
    desired = DESIRED_LABELS[criterion]
    return desired if label_ != desired else next(word for word in LABELS[criterion] if word != desired)


def test_a_pilot_is_made_of_words_verdicts_and_weights(
    here: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A reply that was drawn with a quarter's probability stands for four; a verdict that cannot be read for none."""
    count = len(read_records(Path(paths.ITEMS.of(benchmark="mrbench", task=TASK)), Item))
    file = people(tmp_path, count, lambda number: number % 8 == 7)
    plan = made(here, human_labels=str(file))
    loaded = read_rubric(RUBRIC)
    candidates, judged = candidates_of(plan, loaded, [TASK], None)
    goal = DESIRED_LABELS[SECOND]
    said = judged.by_judge["one"]
    for number, key in enumerate(sorted(key for key in said if key[2] == SECOND)):
        said[key] = None if number % 5 == 0 else goal if number % 3 else other(SECOND, goal)
    said["mrbench/0", "far", "no such criterion"] = "Yes"
    read, own, seen = [], labelling.resolved_labels, {}
    chances = [0.25, None, 0.5]

    def drawn_by_chance(labels: Any) -> Any:
        for number, (one, word) in enumerate(own(labels)):
            yield one.model_copy(update={"probability": chances[number % 3]}), word

    def noted(pairs: Any, verdicts: Any, source: str, weights: Any) -> str:
        seen[len(seen)] = (pairs, verdicts, source, weights)
        return f"pilot {len(seen) - 1}"

    people_read = labelling.read_human_labels
    monkeypatch.setattr(labelling, "resolved_labels", drawn_by_chance)
    monkeypatch.setattr(labelling, "estimate_pilot", noted)
    monkeypatch.setattr(labelling, "read_human_labels", lambda *words: read.append(words) or people_read(*words))
    pilots = judge_pilots(plan, loaded, candidates, judged)
    assert read == [(file, plan.people_scales, plan.tasks_with_own_criteria, plan.config.limits)]
    assert pilots == {name: f"pilot {number}" for number, name in enumerate(pilots)} and set(pilots) == set(LABELS)
    expected: list[tuple[float, float, float]] = []
    for number, (one, word) in enumerate(own(people_read(*read[0]))):
        verdict = said.get((f"{one.task}/{one.id}", one.tutor, one.criterion))
        if one.criterion == SECOND and word is not None and verdict is not None:
            expected.append((float(word == goal), float(verdict == goal), 1 / (chances[number % 3] or 1)))
    pairs, verdicts, source, weights = seen[list(pilots).index(SECOND)]
    assert pairs == [one[:2] for one in expected] and weights == [one[2] for one in expected] and source == str(file)
    assert len(set(weights)) > 1 and 0 < len(expected) < count
    assert sorted(verdicts) == sorted(float(v == goal) for (_, _, name), v in said.items() if name == SECOND and v)
    assert 0.5 < sum(verdicts) / len(verdicts) < 0.8
    unlabelled = seen[list(pilots).index("Coherence")]
    assert unlabelled[0] == unlabelled[3] == [] and len(unlabelled[1]) == len(said) // len(LABELS)


def test_a_labelled_set_speaks_for_its_own_criteria_alone(
    here: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a judge's labelled sets the first that is judged by this rubric, with each label's weight."""
    monkeypatch.chdir(tmp_path)
    for name in ("resources", "config"):
        (tmp_path / name).symlink_to(ROOT / name)
    plan = made(tmp_path, labels=["mr_gsm8k_reasons", "mrbench"])
    loaded = read_rubric(RUBRIC)
    assert plan.validating_releases("one") == ["mr_gsm8k_reasons", "mrbench"] and plan.validating_releases("two") == [
        "mrbench"
    ]
    for release in plan.validating_releases("one"):
        labels_of(plan, release)
    pairs: dict[str, list[tuple[str, str, float]]] = {}
    assert add_labelled_pairs(plan, loaded, None, pairs) == "" and pairs == {}
    assert add_labelled_pairs(plan, loaded, "one", pairs) == "" and pairs == {}, "nobody has asked it"
    labels = read_labelled_data(Path(paths.LABELS.of(release="mrbench")).parent)
    replies = list(dict.fromkeys((one.id, one.tutor) for one in labels.labels))
    verdicts = Path(paths.LABELLED_VERDICTS.of(judge="one"))
    write_records(
        verdicts,
        [
            Judgement(
                id=id_, task=task, tutor=tutor, rubric=RUBRIC, key="k", raw="",
                verdicts=[Verdict(criterion=SECOND, value=None if number == 3 else word)],
            )
            for task, word in (("mr_gsm8k_reasons", "No"), ("mrbench", "Yes"), ("another", "To some extent"))
            for number, (id_, tutor) in enumerate(replies)
        ],
    )  # fmt: skip
    chances = {key: (0.25, None, 0.5)[number % 3] for number, key in enumerate(replies)}
    own = labelling.read_labelled_data

    def by_chance(folder: Path) -> Any:
        known = own(folder)
        drawn_ = [one.model_copy(update={"probability": chances.get((one.id, one.tutor))}) for one in known.labels]
        return known._replace(labels=drawn_)

    monkeypatch.setattr(labelling, "read_labelled_data", by_chance)
    found: dict[str, list[tuple[str, str, float]]] = defaultdict(list)
    assert add_labelled_pairs(plan, loaded, "one", found) == "MRBench V1" and set(found) == {SECOND}
    assert found[SECOND] == [
        (one.label, "Yes", 1 / (chances[one.id, one.tutor] or 1))
        for one in labels.labels
        if one.criterion == SECOND and (one.id, one.tutor) != replies[3]
    ]
    assert add_labelled_pairs(plan, read_rubric("mrbench_critic"), "one", found) == "", "no set is judged by it"
