"""Tests of `maieutic label` on a finished run: replies that may be drawn, strata by verdicts, refused options."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from conftest import enter_checkout
from maieutic.config.rubrics import read_rubric
from maieutic.core import paths
from maieutic.core.errors import UserError
from maieutic.core.records import Item, Judgement, Reply, Verdict, read_records, write_records
from maieutic.datasets.labelled_sets import read_labelled_data
from maieutic.datasets.mrbench import DESIRED_LABELS, LABELS
from maieutic.judges import stage as judges_stage
from maieutic.launch.config_files import merged_configuration
from maieutic.people.pairs import PREFERENCE_RUBRIC
from maieutic.people.sample import Key
from maieutic.people.sample_sizes import FEWEST_PILOT_LABELS
from maieutic.people.school import PARTS, School
from maieutic.plan.rules import RulePlan
from maieutic.preparation import stage as preparation_stage
from maieutic.preparation.labels import make_labels
from maieutic.replies import stage as replies_stage
from maieutic.replies.generate import generate_replies
from maieutic.run_plan import plan_before_pins
from maieutic.tools import labelling
from maieutic.tools.labelling import (
    JudgeVerdicts,
    LabelOptions,
    candidates_of,
    comparison_candidates,
    judge_pilots,
    label,
    reply_turns,
    rubric_for_people,
)
from run_configs import HOSTED, NOBODY
from steps import items_of

TASK = "mistake_remediation"
RUBRIC = "mrbench_taxonomy"
CRITERION = "Providing_Guidance"
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


def plan_of(folder: Path, **keys: Any) -> RulePlan:
    plan, missing_pins = plan_before_pins(merged_configuration([run_file(folder, "more.yaml", **keys)]))
    assert not missing_pins
    return plan


def judge_verdict(criterion: str, item: int, judge: str) -> str | None:
    """Return a judge's verdict on replies to an item. Judge two differs on every third item, and has none on item 4."""
    if judge == "two" and item == 4:
        return None
    desired = (item % 2 == 0) != (judge == "two" and item % 3 == 0)
    best = DESIRED_LABELS[criterion]
    return best if desired else next(word for word in LABELS[criterion] if word != best)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a run folder with three tutors' replies to two benchmarks, and two judges' verdicts on one of them."""
    folder: Path = tmp_path_factory.mktemp("labelled")
    with pytest.MonkeyPatch.context() as patch:
        enter_checkout(folder, patch)
        plan = plan_of(folder)
        for benchmark, task in (("mrbench", TASK), ("kmpbench", "ec")):
            items = items_of(plan, benchmark, task)
            for tutor in (name for name in plan.tutors_on(benchmark) if name != "far"):
                names = {"benchmark": benchmark, "tutor": tutor}
                generate_replies(
                    job=replies_stage.generate_replies_job(plan, **names), items=items.parent, pictures=Path("results/pictures"),
                    weights=[], journal=Path(paths.REPLY_JOURNAL.of(**names)), server_log=Path("log"),
                    out=Path(paths.REPLIES.of(**names)), prompts=Path("prompts.jsonl"),
                )  # fmt: skip
            # Replies under a model's name, copied from a baseline: judges are asked about a model's replies.
            baseline_replies = read_records(Path(paths.REPLIES.of(benchmark=benchmark, tutor="echo")), Reply)
            replies = [reply.model_copy(update={"tutor": "far", "key": "k"}) for reply in baseline_replies]
            write_records(Path(paths.REPLIES.of(benchmark=benchmark, tutor="far")), replies)
        item_ids = [item.id for item in read_records(Path(paths.ITEMS.of(benchmark="mrbench", task=TASK)), Item)]
        for judge in ("one", "two"):
            for file in judges_stage.batch_verdicts(plan, judge, "mrbench"):
                tutors = [Path(file).stem] if Path(file).stem != "_baselines" else ["reference", "always-ask", "reveal"]
                write_records(
                    Path(file),
                    [
                        Judgement(
                            id=item, task=TASK, tutor=tutor, rubric=RUBRIC, key="k", raw="",
                            verdicts=[Verdict(criterion=name, value=judge_verdict(name, number, judge)) for name in LABELS],
                        )
                        for tutor in tutors
                        for number, item in enumerate(item_ids)
                    ],
                )  # fmt: skip
    return folder


@pytest.fixture
def run_folder(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Change to the finished run's folder and return it."""
    monkeypatch.chdir(folder)
    return folder


def draw(run_folder: Path, out: Path, names: list[str] | None = None, **options: Any) -> Key:
    """Draw a sample of three judged tutors' replies and return its key."""
    label_options = LabelOptions(**{"n": 12, "tasks": [TASK], **options})
    label(
        configfile=[run_file(run_folder)], annotators=["ann", "ben", "cat"] if names is None else names, out=out,
        options=label_options,
    )  # fmt: skip
    return Key.read(out)


def test_a_sample_is_drawn_of_each_tutor_with_its_probability(
    run_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    key = draw(run_folder, tmp_path / "sample")
    count = len(read_records(Path(paths.ITEMS.of(benchmark="mrbench", task=TASK)), Item))
    strata = {name: tuple(numbers) for name, numbers in key.strata.items()}
    assert {name.removeprefix(f"{TASK}, "): size for name, (size, _) in strata.items()}["far"] == count
    assert sum(number for _, number in strata.values()) == 12 == len(key.units)
    for unit in key.units.values():
        assert "history" not in unit and "other" not in unit, "these are columns of pairs"
        size, number = strata[unit["stratum"]]
        assert unit["probability"] == number / size and unit["stratum"] == f"{TASK}, {unit['tutor']}"
        assert unit["criteria"] == list(LABELS) and "response_1" not in unit
    assert (key.scheme, key.seed, key.rubric, key.against, key.compared) == ("random", 1, RUBRIC, None, False)
    assert (key.annotators, key.overlap) == (["ann", "ben", "cat"], 2)
    assert Counter(name for units in key.assigned.values() for name in units) == dict.fromkeys(key.units, 2)
    expected = {name: tuple(LABELS[name]) for name in LABELS}
    assert {name: tuple(words) for name, words in key.criteria.items()} == expected
    assert set(key.levels) == set(LABELS)
    pages = {path.name for path in (tmp_path / "sample").iterdir()}
    assert {"key.json", "page-ann.html", "page-ben.html", "page-cat.html"} <= pages
    assert [path.name for path in tmp_path.iterdir()] == ["sample"], "no unfinished folder remains"
    output = capsys.readouterr().out.splitlines()
    out = tmp_path / "sample"
    first, *preview = output[:-2]
    assert first == f"12 replies from {len(strata)} strata, 2 annotator(s) each: {out}/page-NAME.html"
    assert [line for line in preview if line.startswith("record")] == ["record 1:", "record 2:"]
    assert not any(line.startswith("  tutor:") for line in preview), "the preview is as blind as the pages"
    assert output[-2:] == [
        f"{out}/key.json names the tutors: do not send it to the annotators",
        f"next: maieutic read-labels --sample {out} --files labels-*.json --out people.csv",
    ]


def school_file(folder: Path) -> Path:
    """Write a school of the rubric, with one unit of each part."""
    labels = {CRITERION: DESIRED_LABELS[CRITERION]}
    parts = [{"part": part, "vars": {}, "response": f"{part} reply", "labels": labels} for part in PARTS]
    path = folder / "school.jsonl"
    path.write_text("".join(f"{json.dumps(part)}\n" for part in parts), encoding="utf-8")
    return path


def test_a_sample_may_have_a_school(run_folder: Path, tmp_path: Path) -> None:
    key = draw(run_folder, tmp_path / "s", ["ann", "ben"], school=school_file(tmp_path), repeats=3)
    school = School.model_validate(key.school)
    assert {part: len(units) for part, units in school.units.items()} == dict.fromkeys(PARTS, 1)
    assert len(school.repeats) == 6 and {len(units) for units in key.assigned.values()} == {12 + 3 + 3}
    assert sum(number for _, number in key.strata.values()) == 12, "the school is in no stratum"
    assert key.criteria.keys() == set(LABELS) and (tmp_path / "s/page-ann.html").is_file()
    [gold] = school.units["gold"]
    assert key.units[gold]["criteria"] == list(LABELS), "a hidden unit has all questions, as the others have"


@pytest.mark.parametrize(("options", "message"), [
    ({"pass_mark": 80}, "--pass-mark: expected a share from 0 to 1, found 80.*pass 0.8"),
    ({"repeats": -1}, "--repeats: expected a number of units, found -1"),
    ({"against": "reference"}, "--school: a school labels replies, not pairs"),
])  # fmt: skip
def test_unsuitable_options_of_a_school_are_refused(
    options: dict[str, Any], message: str, run_folder: Path, tmp_path: Path
) -> None:
    with pytest.raises(UserError, match=message):
        draw(run_folder, tmp_path / "s", ["ann", "ben"], school=school_file(tmp_path), **options)
    assert not (tmp_path / "s").exists()


def test_a_seed_repeats_the_draw_and_a_guideline_changes_the_version(run_folder: Path, tmp_path: Path) -> None:
    first, again, reseeded = (draw(run_folder, tmp_path / f"s{seed}{n}", seed=seed) for n, seed in enumerate((5, 5, 6)))
    assert first.seed == 5 and first.strata == again.strata
    draws = [
        sorted((unit["item"], unit["tutor"], unit["first"]) for unit in key.units.values())
        for key in (first, again, reseeded)
    ]
    assert draws[0] == draws[1] != draws[2], "a seed always draws the same replies"
    assert not set(first.units) & set(again.units), "the names of units do not identify the replies"
    assert len({key.sample for key in (first, again, reseeded)}) == 3 and len(first.sample) == 10
    text = tmp_path / "guideline.txt"
    text.write_text("Label as you like.", encoding="utf-8")
    page = (tmp_path / "s50" / "page-ann.html").read_text(encoding="utf-8")
    assert "Read the whole conversation first" in page
    guided = draw(run_folder, tmp_path / "guided", guideline=text)
    assert "Label as you like." in (tmp_path / "guided" / "page-ann.html").read_text(encoding="utf-8")
    assert guided.version != first.version


@pytest.mark.parametrize(("names", "overlap", "per_reply"), [
    (["ann"], None, 1), (["ann", "ben"], None, 2), (["a", "b", "c"], 1, 1), (["a", "b", "c"], 3, 3),
])  # fmt: skip
def test_each_reply_has_two_annotators_if_possible(
    names: list[str], overlap: int | None, per_reply: int, run_folder: Path, tmp_path: Path
) -> None:
    key = draw(run_folder, tmp_path / "s", names, overlap=overlap)
    assert key.overlap == per_reply and list(key.assigned) == names
    assert sum(map(len, key.assigned.values())) == 12 * per_reply


def test_strata_follow_the_judges_verdicts(run_folder: Path, tmp_path: Path) -> None:
    """The leading judge finds every second reply desired; the other judge differs on every third and on item 4."""
    verdicts = draw(run_folder, tmp_path / "verdict", scheme="verdict", n=8, tutors=["far"])
    count = len(read_records(Path(paths.ITEMS.of(benchmark="mrbench", task=TASK)), Item))
    assert {name: size for name, (size, _) in verdicts.strata.items()} == {
        f"{TASK}, far, desired": (count + 1) // 2,
        f"{TASK}, far, not desired": count // 2,
    }
    disputed = draw(run_folder, tmp_path / "disagreement", scheme="disagreement", n=6, tutors=["far"])
    differ = sum(number % 3 == 0 or number == 4 for number in range(count))
    assert {name: size for name, (size, _) in disputed.strata.items()} == {
        f"{TASK}, far, torn": differ,
        f"{TASK}, far": count - differ,
    }


@pytest.mark.parametrize(("options", "message"), [
    ({"names": []}, r"^--annotators: expected at least one annotator, found none"),
    ({"names": ["a b"]}, r"^--annotators: 'a b' cannot be part of a file name"),
    ({"names": ["ann", "ann"]}, r"^--annotators: a name is listed twice"),
    ({"overlap": 0}, r"^--overlap: expected 1 to 3 annotators per reply, found 0"),
    ({"overlap": 4}, r"^--overlap: expected 1 to 3 annotators per reply, found 4"),
    ({"n": 10**6}, r"^--n: 1000000 replies requested, but there are only \d+"),
    ({"tasks": ["mistake_remediatio"]}, r"^--tasks: 'mistake_remediatio'.*mistake_remediation"),
    ({"tutors": ["ecko"]}, r"^--tutors: 'ecko'.*echo"),
    ({"rubric": "mrbench_taxonomi"}, r"^--rubric: 'mrbench_taxonomi'.*mrbench_taxonomy"),
    ({"tasks": ["ec"], "scheme": "disagreement"}, r"^--scheme: disagreement needs at least two judges.*--scheme random"),
    ({"guideline": Path("nothing.txt")}, r"^nothing\.txt: cannot be read: .*No such file.*name an existing file, saved as UTF-8 text"),
    ({"against": "far", "rubric": RUBRIC}, r"^--against: cannot be combined with --rubric.*remove --rubric"),
    ({"against": "far", "rubric": RUBRIC, "scheme": "verdict"}, r"cannot be combined with --rubric, --scheme"),
    ({"against": "ecko"}, r"^--against: 'ecko'.*echo"),
    ({"against": "far", "tutors": ["nobody"]}, r"^--tutors: 'nobody'"),
    ({"against": "far", "tasks": ["mistake_remediatio"]}, r"^--tasks: 'mistake_remediatio'.*mistake_remediation"),
    ({"against": "far", "tutors": ["far"]}, r"^--against: found no reply of another tutor to compare with the replies of "),
])  # fmt: skip
def test_unsuitable_options_are_one_line(
    options: dict[str, Any], message: str, run_folder: Path, tmp_path: Path
) -> None:
    with pytest.raises(UserError, match=message):
        draw(run_folder, tmp_path / "s", **options)
    assert not list(tmp_path.iterdir()), "nothing is written"


def test_a_rubric_may_have_its_own_guideline(
    run_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """MRBench's taxonomy has a guideline with examples and reasons; a file of the user replaces it."""
    key = draw(run_folder, tmp_path / "a", rubric="mrbench_taxonomy", doubled=["1"])
    page = (tmp_path / "a/page-ann.html").read_text(encoding="utf-8")
    for criterion in key.criteria:
        title = labelling.read_rubric("mrbench_taxonomy").rubric.criteria[criterion].title
        assert f"{title}. " in page, f"the guideline has no examples of {criterion}"
    assert "Reason: " in page and labelling.GUIDELINE.splitlines()[0] not in page
    assert "with 2 annotator(s), " in capsys.readouterr().out
    (tmp_path / "own.txt").write_text("Our own rules", encoding="utf-8")
    draw(run_folder, tmp_path / "b", rubric="mrbench_taxonomy", guideline=tmp_path / "own.txt")
    page = (tmp_path / "b/page-ann.html").read_text(encoding="utf-8")
    assert "Our own rules" in page and "Reason: " not in page


@pytest.mark.parametrize(("names", "options", "message"), [
    (None, {"doubled": ["-1"]}, "--doubled: expected a number of dialogues, or SOURCE=NUMBER for each source, found -1"),
    (["ann"], {"doubled": ["3"]}, r"no reply has several annotators, since --overlap is 1\. Fix: name a second annotator"),
])  # fmt: skip
def test_impossible_doubling_is_refused(
    names: list[str] | None, options: dict[str, Any], message: str, run_folder: Path, tmp_path: Path
) -> None:
    with pytest.raises(UserError, match=message):
        draw(run_folder, tmp_path / "s", names, **options)
    assert not (tmp_path / "s").exists()


def test_a_sample_never_overwrites_another(run_folder: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"^--out: expected a folder, found none.*add --out labels-1"):
        label(configfile=[run_file(run_folder)], annotators=["ann"], options=LabelOptions(n=6, tasks=[TASK]))
    (tmp_path / "s").mkdir()
    with pytest.raises(UserError, match=r"the folder exists already and may contain labels.*choose another folder"):
        draw(run_folder, tmp_path / "s")


def test_missing_files_of_the_run_are_named(run_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    enter_checkout(tmp_path, monkeypatch)
    problem = r"^results/items/.*does not exist.*run snakemake first: only existing replies can be labelled"
    with pytest.raises(UserError, match=problem):
        label(configfile=[run_file(tmp_path)], annotators=["ann"], out=tmp_path / "s", options=LabelOptions())
    unjudged = run_file(tmp_path, judges=[])
    with pytest.raises(UserError, match=r"^run\.tasks: no task of this run is judged.*add a judge with a rubric"):
        label(configfile=[unjudged], annotators=["ann"], out=tmp_path / "s", options=LabelOptions())


def test_whose_replies_may_be_drawn(run_folder: Path) -> None:
    """A model's replies may be drawn if judges are asked about them, a baseline's if the card names the baseline."""
    plan = plan_of(run_folder)
    loaded = read_rubric(RUBRIC)
    candidates, judged = candidates_of(plan, loaded, [TASK], None)
    card = plan.card("mrbench", TASK)
    assert {candidate.tutor for candidate in candidates} == set(plan.compared_tutors("mrbench")) & {
        "far",
        *card.baselines.named,
    }
    count = len(read_records(Path(paths.ITEMS.of(benchmark="mrbench", task=TASK)), Item))
    assert Counter(candidate.tutor for candidate in candidates)["far"] == count
    assert list(judged.by_judge) == ["one", "two"]
    [first] = [candidate for candidate in candidates if candidate.tutor == "far"][:1]
    assert (first.task, first.first_verdict, first.judges_differ) == (TASK, "desired", True)
    assert list(first.criteria) == list(LABELS)
    replies = {
        reply.id: reply for reply in read_records(Path(paths.REPLIES.of(benchmark="mrbench", tutor="far")), Reply)
    }
    assert first.texts == tuple(turn.text for turn in replies[first.item.id].turns)
    of_tutor, _ = candidates_of(plan, loaded, None, ["far"])
    assert {candidate.tutor for candidate in of_tutor} == {"far"}
    assert {candidate.task for candidate in of_tutor} == {TASK}
    reason = read_rubric("kmp_error_reason")
    others, unjudged = candidates_of(plan, reason, None, ["far"])
    assert {(candidate.task, candidate.first_verdict, candidate.judges_differ) for candidate in others} == {
        ("ec", "not judged", False)
    } and not unjudged.by_judge


def test_replies_that_failed_are_not_drawn(run_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = Path(paths.REPLIES.of(benchmark="mrbench", tutor="far"))
    replies = read_records(file, Reply)
    replies[0] = replies[0].model_copy(update={"error": "refused"})
    foreign = replies[1].model_copy(update={"id": "of another run"})
    original = labelling.read_run_records

    def changed(path: Path, kind: type[Any]) -> list[Any]:
        return [*replies, foreign] if path == file else original(path, kind)

    monkeypatch.setattr(labelling, "read_run_records", changed)
    candidates, _ = candidates_of(plan_of(run_folder), read_rubric(RUBRIC), [TASK], ["far"])
    assert [candidate.item.id for candidate in candidates] == [reply.id for reply in replies[1:]]


@pytest.mark.parametrize(("rubric", "tasks", "expected"), [
    (None, None, RUBRIC), (None, ["ec"], "kmp_error_reason"), ("kmp_error_reason", None, "kmp_error_reason"),
    (RUBRIC, [TASK], RUBRIC),
])  # fmt: skip
def test_people_label_by_what_the_leading_judge_reads(
    rubric: str | None, tasks: list[str] | None, expected: str, run_folder: Path
) -> None:
    assert rubric_for_people(plan_of(run_folder), rubric, tasks).name == expected


def test_a_rubric_of_a_task_that_is_not_labelled_is_refused(run_folder: Path) -> None:
    with pytest.raises(UserError, match=r"^--rubric: 'kmp_error_reason'"):
        rubric_for_people(plan_of(run_folder), "kmp_error_reason", [TASK])
    turned = plan_of(run_folder, judges=["two", "one"], tasks=["kmpbench/ec", "mrbench"])
    name = rubric_for_people(turned, None, None).name
    assert name == RUBRIC, "the leading judge decides, whatever the order of tasks"


def test_pairs_are_of_one_item_and_of_replies_that_differ(
    run_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plan = plan_of(run_folder)
    pairs = comparison_candidates(plan, "reference", [TASK], ["far", "reference"])
    assert {(pair.tutor, pair.against, pair.task) for pair in pairs} == {("far", "reference", TASK)}
    texts = {
        (tutor, reply.id): tuple(turn.text for turn in reply.turns)
        for tutor in ("far", "reference")
        for reply in read_records(Path(paths.REPLIES.of(benchmark="mrbench", tutor=tutor)), Reply)
    }
    for pair in pairs:
        assert pair.texts == texts["far", pair.item.id] != pair.others == texts["reference", pair.item.id]
        assert pair.criteria == PREFERENCE_RUBRIC.rubric.criteria
    all_pairs = comparison_candidates(plan, "reference", None, ["far", "always-ask"])
    assert {(pair.tutor, pair.task) for pair in all_pairs} > {("far", TASK), ("always-ask", TASK)}
    key = draw(run_folder, tmp_path / "pairs", against="reference", tutors=["far"])
    assert (key.rubric, key.compared, key.against) == ("preference", True, "reference")
    assert all(unit["tutor"] == "far" and unit["history"] and "question" in unit for unit in key.units.values())
    page = (tmp_path / "pairs" / "page-ann.html").read_text(encoding="utf-8")
    assert "choose the better response for this student" in page
    output = capsys.readouterr().out
    assert output.startswith("12 pairs from 1 strata, 2 annotator(s) each")
    assert output.endswith("--out preferences.csv\n")


def test_the_tutors_of_the_run_are_compared_where_none_are_named(run_folder: Path) -> None:
    pairs = comparison_candidates(plan_of(run_folder), "reference", [TASK], None)
    assert {pair.tutor for pair in pairs} == {"far", "echo"}, "the run's tutors, without baselines added by cards"


def test_equal_or_unmatched_replies_form_no_pair(run_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = plan_of(run_folder)
    items_by_task = {TASK: labelling.task_items_by_id("mrbench", TASK)}
    replies = reply_turns("mrbench", "far", items_by_task)
    same, alone, *others = replies
    other_replies = {**dict.fromkeys(others, ("other",)), same: replies[same]}

    def read(benchmark: str, tutor: str, items: Any) -> Any:
        return other_replies if tutor == "reference" else replies

    monkeypatch.setattr(labelling, "reply_turns", read)
    compared = [(pair.task, pair.item.id) for pair in comparison_candidates(plan, "reference", [TASK], ["far"])]
    assert compared == others and alone not in compared


def test_blank_or_failed_replies_form_no_pair(run_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = Path(paths.REPLIES.of(benchmark="mrbench", tutor="far"))
    replies = read_records(file, Reply)
    turn = replies[0].turns[0]
    blank = replies[0].model_copy(update={"turns": [turn.model_copy(update={"text": " \n"})]})
    failed = replies[1].model_copy(update={"error": "refused"})
    original = labelling.read_run_records

    def changed(path: Path, kind: type[Any]) -> list[Any]:
        return [blank, failed, *replies[2:]] if path == file else original(path, kind)

    before = {pair.item.id for pair in comparison_candidates(plan_of(run_folder), "reference", [TASK], ["far"])}
    monkeypatch.setattr(labelling, "read_run_records", changed)
    after = {pair.item.id for pair in comparison_candidates(plan_of(run_folder), "reference", [TASK], ["far"])}
    assert before - after == {replies[0].id, replies[1].id} & before != set() and after < before


# Numbers of labels --------------------------------------------------------------------------------------------------


def people_file(folder: Path, count: int, wrong: Callable[[int], bool]) -> Path:
    """Write labels of one criterion of a tutor's replies: the leading judge's, or the opposite if `wrong(number)`."""
    items = [item.id for item in read_records(Path(paths.ITEMS.of(benchmark="mrbench", task=TASK)), Item)]
    lines = ["task,item,tutor,criterion,annotator,label"]
    for number, item in list(enumerate(items))[:count]:
        word = judge_verdict(CRITERION, number + wrong(number), "one")
        lines.append(f"{TASK},{item},far,{CRITERION},ann,{word}")
    path = folder / "people.csv"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def test_a_plan_prints_widths_and_writes_nothing(
    run_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    label(configfile=[run_file(run_folder)], out=tmp_path / "s", options=LabelOptions(tasks=[TASK], n=60), plan=True)
    output = capsys.readouterr().out
    assert "the judge's agreement with people is unknown, so rho = 0 is assumed" in output
    assert all(name[:32] in output for name in LABELS)
    assert not list(tmp_path.iterdir())


def test_a_pilot_uses_peoples_labels_of_this_run(run_folder: Path, tmp_path: Path) -> None:
    count = len(read_records(Path(paths.ITEMS.of(benchmark="mrbench", task=TASK)), Item))
    assert count > FEWEST_PILOT_LABELS
    file = people_file(tmp_path, count, lambda number: number % 8 == 7)
    plan = plan_of(run_folder, human_labels=str(file))
    loaded = read_rubric(RUBRIC)
    candidates, judged = candidates_of(plan, loaded, [TASK], None)
    pilots = judge_pilots(plan, loaded, candidates, judged)
    assert set(pilots) == set(LABELS)
    pilot = pilots[CRITERION]
    assert pilot.n == count and pilot.source == str(file) and 0.5 < pilot.rho < 1
    desired = [judge_verdict(CRITERION, number, "one") == DESIRED_LABELS[CRITERION] for number in range(count)]
    assert pilot.rate == pytest.approx(sum(desired) / count)
    unlabelled = pilots["Coherence"]
    assert (unlabelled.n, unlabelled.rho, unlabelled.source) == (0, 0.0, "") and unlabelled.rate == pilot.rate
    unjudged = judge_pilots(plan, loaded, candidates, JudgeVerdicts({}))
    assert {(pilot.n, pilot.rate, pilot.rho) for pilot in unjudged.values()} == {(0, 0.5, 0.0)}


def test_a_pilot_falls_back_to_a_labelled_set(run_folder: Path, tmp_path: Path) -> None:
    """Without labels of this run's replies, the pilot uses the leading judge's verdicts on a labelled set."""
    plan = plan_of(run_folder, labels=["mrbench"])
    loaded = read_rubric(RUBRIC)
    candidates, judged = candidates_of(plan, loaded, [TASK], ["far"])
    unlabelled = judge_pilots(plan, loaded, candidates, judged)
    assert {(pilot.n, pilot.source) for pilot in unlabelled.values()} == {(0, "")}, "no labelled set has been judged"
    items = Path(paths.LABELS.of(release="mrbench"))
    source = Path(paths.SOURCE.of(dataset="mrbench"))
    make_labels(job=preparation_stage.make_labels_job(plan, "mrbench"), sources=[source], out=items)
    labels = read_labelled_data(items.parent).labels
    replies = list(dict.fromkeys((label.id, label.tutor) for label in labels))
    wrong = set(replies[::7])
    verdict_values = {
        (label.id, label.tutor, label.criterion): label.label
        if (label.id, label.tutor) not in wrong
        else other_label(label.criterion, label.label)
        for label in labels
    }
    verdicts = Path(paths.LABELLED_VERDICTS.of(judge="one"))

    def judgement(task: str, id_: str, tutor: str) -> Judgement:
        values = [Verdict(criterion=name, value=verdict_values.get((id_, tutor, name))) for name in LABELS]
        return Judgement(id=id_, task=task, tutor=tutor, rubric=RUBRIC, key="k", raw="", verdicts=values)

    write_records(verdicts, [judgement(task, *reply) for task in ("another", "mrbench") for reply in replies[2:]])
    try:
        pilots = judge_pilots(plan, loaded, candidates, judged)
        first = pilots[CRITERION]
        count = sum(label.criterion == CRITERION and (label.id, label.tutor) in replies[2:] for label in labels)
        assert first.n == count > FEWEST_PILOT_LABELS
        assert first.source == plan.label_sets["mrbench"].title == "MRBench V1"
        assert 0.3 < first.rho < 1 and first.rate == unlabelled[CRITERION].rate, "the rate is from this run's replies"
        (items.parent / "about.json").rename(items.parent / "about.gone")
        assert judge_pilots(plan, loaded, candidates, judged)[CRITERION].n == 0
        (items.parent / "about.gone").rename(items.parent / "about.json")
        without_leader = judge_pilots(plan, loaded, candidates, JudgeVerdicts({}))
        assert without_leader[CRITERION] == unlabelled[CRITERION]._replace(rate=0.5), "there is no leading judge"
        reason = read_rubric("kmp_error_reason")
        others, unjudged = candidates_of(plan, reason, ["ec"], ["far"])
        unjudged.add({"one": {}})
        assert {pilot.n for pilot in judge_pilots(plan, reason, others, unjudged).values()} == {0}, (
            "the labelled set has other criteria"
        )
    finally:
        verdicts.unlink()


def other_label(criterion: str, label_: str) -> str:
    """Return the desired label if this one is not desired, and else another."""
    desired = DESIRED_LABELS[criterion]
    return desired if label_ != desired else next(word for word in LABELS[criterion] if word != desired)
