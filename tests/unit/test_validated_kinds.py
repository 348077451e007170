"""Tests of judges' validation on people's labels: kinds of verdict, grader baselines, and releases that a run uses."""

from __future__ import annotations

import json
import re
import shutil
import zipfile
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from columns import quantity, spelt
from conftest import absent
from httpserver import chat, scripted, serving
from maieutic.benchmarks.kmpbench.alignment import AlignJudge, align_judge
from maieutic.benchmarks.kmpbench.mr_gsm8k import ERROR_REASON
from maieutic.benchmarks.mrbench.predictions import WriteSubmission, write_submission
from maieutic.benchmarks.mrbench.section import earlier_schemes, printed_agreement
from maieutic.config.cards import read_card
from maieutic.config.models import HostedModel, JudgeModel
from maieutic.config.rubrics import annotation_scales, read_rubric
from maieutic.config.settings import Config
from maieutic.core.errors import UserError
from maieutic.core.records import Judgement, Labelling, Prompt, Reply, Score, Verdict, read_records, write_records
from maieutic.datasets.labelled_sets import LABEL_LOADERS, read_labelled_data, rubric_for_labels
from maieutic.datasets.mrbench import LABELS, SHARED_TASK, remediation_items
from maieutic.datasets.sources import read_source
from maieutic.judges.assignments import work_on_labels
from maieutic.judges.questions import question_messages, questions_about
from maieutic.plan.plan import Plan
from maieutic.preparation.labels import write_labels
from maieutic.replies.generate import RequestLimits, ask_tutor, first_messages
from maieutic.report.traffic_light import kind_on, kinds_of_grader, light_lookup
from maieutic.report.trust import marked_passages
from maieutic.serving.backends import JobFiles
from maieutic.validation.grader_baselines import (
    FLOORS,
    MAJORITY,
    TFIDF,
    floor_verdicts,
    labels_by_word_counts,
    problem_folds,
)
from maieutic.validation.validation_jobs import (
    ValidateCriteriaOnLabels,
    ValidateJudge,
    validate_criteria_on_labels,
    validate_judge,
)
from run_configs import check_config
from running import NO_GRADERS
from shipped import shipped

TUTOR_FILES = ("Claude", "GPT3_5", "llama2_70b", "mammoth_70B", "metamath_70B", "wizardmath_70B")
REASONS = "mr_gsm8k_reasons"
KMP_TASKS = [f"kmpbench/{task}" for task in ("fqa", "ec", "gen_followup", "gen_similar", "dialogue")]
PUBLISHED_TASKS = ["kmpbench/ec_stepverify"]


def checked_config(edition: str = "demo", **run: object) -> Config:
    merged = shipped()
    merged["run"] |= {
        "tutors": ["echo"], "tasks": PUBLISHED_TASKS if edition == "published" else KMP_TASKS, **NO_GRADERS, **run,
    }  # fmt: skip
    return check_config({**merged, "edition": edition, "data_dir": "resources"})


@pytest.fixture(scope="module")
def reasons(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write the labelled release of graded reasons from the published files and return its folder."""
    folder = tmp_path_factory.mktemp("labels") / REASONS
    paths = [data / f"mr_gsm8k/gpt4-grading/{name}_eval_results.json" for name in TUTOR_FILES]
    write_labels(REASONS, LABEL_LOADERS[REASONS], [read_source(path, "json") for path in paths], folder)
    return folder


def test_851_graded_reasons_are_read(reasons: Path) -> None:
    labels = read_labelled_data(reasons)
    assert (len(labels.items), len(labels.replies), len(labels.labels)) == (590, 851, 851)
    assert Counter(label.label for label in labels.labels) == {"correct": 365, "incorrect": 486}
    assert Counter(reply.tutor for reply in labels.replies) == {
        "claude2": 326, "gpt3_5": 173, "llama2": 323, "mammoth_70B": 4, "metamath_70B": 22, "wizardmath_70B": 3,
    }  # fmt: skip
    counts = json.loads((reasons / "statistics.json").read_text())["all"]
    assert (counts["dialogues"], counts["responses"]) == (590, 851)


def test_an_unknown_verdict_is_refused_by_name(tmp_path: Path) -> None:
    records = read_source(Path("resources/demo/mr_gsm8k/graded_reasons.json"), "json")
    records[3]["error_reason_correctness"] = "maybe"
    with pytest.raises(UserError, match=rf"{records[3]['uuid']}.*expected the verdict .* found 'maybe'"):
        write_labels(REASONS, LABEL_LOADERS[REASONS], [records], tmp_path)


def reason_judgements(labels: Path, verdict_of: Any) -> list[Judgement]:
    """Return a judge's verdicts on every labelled reason. verdict_of: maps people's label to the verdict."""
    return [
        Judgement(
            id=label.id, task=REASONS, tutor=label.tutor, rubric="kmp_error_reason", key="k", raw="",
            verdicts=[Verdict(criterion=ERROR_REASON, value=verdict_of(label.label))],
        )
        for label in read_labelled_data(labels).labels
    ]  # fmt: skip


def scores_in(path: Path) -> list[Score]:
    return [Score.model_validate(row) for row in json.loads(path.read_text(encoding="utf-8"))]


@pytest.mark.slow
def test_the_judge_of_reasons_is_asked_about_all_of_them_and_validated(reasons: Path, tmp_path: Path) -> None:
    judge = JudgeModel(engine="judge", model="x", rubrics=["kmp_error_reason"])
    work = work_on_labels(judge, [reasons], None, 1)
    assert len(work) == 851, "including reasons that the rubric's `when` would leave out"
    assert {tuple(case.criteria) for _, case in work} == {(ERROR_REASON,)}
    assert all(case.replies["response_1"] for _, case in work)
    for name, verdict_of, kappa in (("right", str, 1.0), ("always", lambda label: "correct", 0.0)):
        write_records(tmp_path / f"{name}.jsonl", reason_judgements(reasons, verdict_of))
        out = tmp_path / f"{name}.json"
        job = ValidateJudge(judge=name, resamples=100, seed=1)
        verdicts, labels = tmp_path / f"{name}.jsonl", [reasons / "labels.jsonl"]
        validate_judge(
            job=job, verdicts=verdicts, single=[], labels=labels, pairs=[], out=out, pairs_out=[tmp_path / "pairs.json"]
        )
        scores = {
            (score.grader or score.tutor, spelt(score)): score for score in scores_in(out) if score.scoring == "robust"
        }
        kappa_score = scores[name, f"{REASONS}:mean_weighted_kappa"]
        assert (kappa_score.value, kappa_score.n) == (pytest.approx(kappa), 851)
        floors = {floor: scores[floor, f"{REASONS}:mean_weighted_kappa"] for floor in FLOORS}
        assert {floor: score.by for floor, score in floors.items()} == dict.fromkeys(FLOORS, name)
        assert floors[MAJORITY].value == pytest.approx(0.0) and 0.1 < floors[TFIDF].value < 0.4
        assert all(score.n == 851 for score in floors.values())


def test_word_counts_cannot_copy_the_label_of_the_same_problem(tmp_path: Path) -> None:
    """A classifier that saw replies to the same problem could copy their label, but all of them are held out."""
    write_labels(
        REASONS,
        LABEL_LOADERS[REASONS],
        [read_source(Path("resources/demo/mr_gsm8k/graded_reasons.json"), "json")],
        tmp_path,
    )
    labels = read_labelled_data(tmp_path)
    assert len({label.problem for label in labels.labels}) > 1
    one_problem = labels._replace(labels=[label.model_copy(update={"problem": "the same"}) for label in labels.labels])
    majority = Counter(label.label for label in labels.labels).most_common(1)[0][0]
    assert set(floor_verdicts(one_problem, 1)[TFIDF].values()) == {majority}, "no other problem to learn from"


def test_replies_without_a_word_have_the_most_frequent_label() -> None:
    """A text without a token gets the majority label. A question mark is a token."""
    problems = [str(number) for number in range(10)]
    for text in ("...", "\n", "--"):
        expected = ["No"] * 10
        assert labels_by_word_counts(["No"] * 8 + ["Yes"] * 2, problem_folds([text] * 10, problems, 1), 1) == expected
    texts = ["?" if number % 2 else "well" for number in range(10)]
    labels = ["Yes" if number % 2 else "No" for number in range(10)]
    assert labels_by_word_counts(labels, problem_folds(texts, problems, 1), 1) == labels


def test_classifiers_are_compared_with_grader_baselines(tmp_path: Path) -> None:
    write_labels(
        "mrbench", LABEL_LOADERS["mrbench"], [read_source(Path("resources/demo/mrbench/MRBench_V1.json"), "json")],
        tmp_path / "mrbench",
    )  # fmt: skip
    labels = read_labelled_data(tmp_path / "mrbench")
    heldout = [
        Labelling(id=f"{label.id}-{label.tutor}", dialogue=label.id, criterion=label.criterion, label=int(label.label != "No"),
                  probability=0.9, tokens=5)
        for label in labels.labels
        if label.criterion == "Actionability"
    ]  # fmt: skip
    write_records(tmp_path / "heldout.jsonl", heldout)
    job = ValidateCriteriaOnLabels(classifier="c", release="mrbench", resamples=100, seed=1)
    labels = [tmp_path / "mrbench/labels.jsonl"]
    validate_criteria_on_labels(job=job, labels=labels, heldout=tmp_path / "heldout.jsonl", out=tmp_path / "o.json")
    scores = {
        (score.grader or score.tutor, spelt(score)): score
        for score in scores_in(tmp_path / "o.json")
        if score.scoring == "robust"
    }
    metric = "mrbench:accuracy/Actionability/binary"
    assert {model for model, name in scores if name == metric} == {"c", *FLOORS}
    assert scores["c", metric].value == pytest.approx(sum(row.label for row in heldout) / len(heldout))
    assert scores[MAJORITY, metric].n == len(heldout)


RELEASES = [
    ([], [], []),
    (["mrbench_v2", "mrbench"], ["demo-judge"], ["mrbench", "mrbench_v2"]),
    (["mr_gsm8k_reasons"], ["demo-judge"], ["mr_gsm8k_reasons"]),
    (["mrbench_v3"], [], ["mrbench_v3"]),
    (None, ["demo-judge"], ["mrbench", "mr_gsm8k_reasons"]),
    (None, ["demo-critic"], ["mrbench"]),
    (None, [], []),
]


@pytest.mark.parametrize(("releases", "judges", "expected"), RELEASES)
def test_named_releases_are_read_or_else_those_that_fit(
    releases: list[str] | None, judges: list[str], expected: list[str]
) -> None:
    """A release in `run.labels` is read for its tables even if no judge has a rubric for it."""
    tasks = {"demo-judge": [*PUBLISHED_TASKS, "mrbench"], "demo-critic": ["mrbench"]}.get(
        "".join(judges), PUBLISHED_TASKS
    )
    config = checked_config("published", labels=releases, judges=judges, tasks=tasks)
    assert Plan(config).releases == expected


@pytest.mark.parametrize(("run", "message"), [
    ({"labels": ["mrbench_v9"]}, r"run\.labels\[0\].*mrbench_v9.*did you mean|run\.labels\[0\]"),
    ({"labels": ["mrbench", "mrbench"]}, r"run\.labels\[1\]: mrbench is listed twice"),
    ({"labels": ["mrbench_v3_test"]}, r"run\.labels\[0\]: mrbench_v3_test has no labels.*choose one of mrbench,"),
    (
        {"labels": ["mr_gsm8k_reasons"], "judges": ["demo-critic"], "tasks": ["mrbench"]},
        r"run\.labels\[0\]: no judge in run\.judges has a rubric for mr_gsm8k_reasons.*\[kmp_error_reason\]",
    ),
    ({"predictions": ["mrbench"]}, r"run\.predictions\[0\]: mrbench is already labelled by people"),
    (
        {
            "predictions": ["mrbench_v3_test"],
            "judges": ["gemini-2.0-flash-judge"],
            "tasks": ["kmpbench/ec_mrgsm8k"],
        },
        r"run\.predictions: no judge in run\.judges has a rubric for these releases",
    ),
])  # fmt: skip
def test_releases_that_cannot_be_used_are_refused(run: dict[str, object], message: str) -> None:
    with pytest.raises(UserError, match=message):
        checked_config("published", **run)


def test_kinds_of_a_judge_are_its_rubrics() -> None:
    config = checked_config(judges=["demo-judge"], tasks=[*KMP_TASKS, "mrbench"])
    kinds = kinds_of_grader(Plan(config), "demo-judge")
    assert kinds[:2] == ["mrbench_taxonomy", "kmp_error_reason"], "kinds that are checked on labels come first"
    assert {"kmp_dialogue_short", "kmp_error_types", "pairs_json", "kmp_similar_short"} <= set(kinds)
    card = next(loaded.card for loaded in Plan(config).cards.values() if loaded.card.task == "dialogue")
    assert kind_on(Plan(config), "demo-judge", card, "overall") == "kmp_dialogue_short"
    assert kind_on(Plan(config), "demo-judge", card, "error_factual_error") == "kmp_error_types"
    assert kind_on(Plan(config), "nobody", card) is None


def test_a_light_applies_to_one_kind_of_verdict_only(tmp_path: Path) -> None:
    config = checked_config(judges=["demo-judge"], tasks=[*KMP_TASKS, "mrbench"])
    common = {"task": "trust", "grader": "demo-judge", "scoring": "robust", "headline": False, "missing": 0}
    values = [
        ("mrbench:mean_weighted_kappa", 0.7, 0.6, 0.8, 1589, 157), ("mr_gsm8k_reasons:mean_weighted_kappa", 0.5, 0.4, 0.6, 851, 99),
        ("flip_rate/pairs_json", 0.9, 0.8, 1.0, 482, 167), ("pair_accuracy/pairs_json", 0.5, 0.4, 0.6, 964, 167),
    ]  # fmt: skip
    scores = [
        Score(**common, **quantity(name)._asdict(), value=value, low=low, high=high, n=n, clusters=clusters)
        for name, value, low, high, n, clusters in values
    ]
    (tmp_path / "validation/demo-judge").mkdir(parents=True)
    (tmp_path / "validation/demo-judge/labels.json").write_text(json.dumps([score.model_dump() for score in scores]))
    light = light_lookup(Plan(config), tmp_path)
    colours = {kind: light("demo-judge", kind).colour for kind in kinds_of_grader(Plan(config), "demo-judge")}
    assert colours["mrbench_taxonomy"] == "green", "verdicts on pairs do not affect the light of labels"
    assert (colours["kmp_error_reason"], colours["pairs_json"]) == ("amber", "red")
    others = set(colours) - {"mrbench_taxonomy", "kmp_error_reason", "pairs_json"}
    assert others and {colours[kind] for kind in others} == {"none"}
    assert light("demo-judge", "kmp_dialogue_short").meaning == "not validated here"
    assert "MRBench V1, demo edition, 1,589 replies" in light("demo-judge", "mrbench_taxonomy").summary
    assert "Bridge pairs, demo edition, 482" in light("demo-judge", "pairs_json").summary


def test_labels_of_this_runs_replies_validate_comparisons(tmp_path: Path) -> None:
    people = tmp_path / "people.csv"
    verdicts = ("win", "tie", "lose")
    rows = [f"dialogue,d{n},echo,overall,{verdicts[n % 3]},a" for n in range(45)]
    people.write_text("\n".join(["task,item,tutor,criterion,label,annotator", *rows]))
    judgements = [
        Judgement(id=f"d{n}", task="dialogue", tutor="echo", rubric="kmp_dialogue_short", key="k", raw="",
                  verdicts=[Verdict(criterion="overall", value=None if n >= 42 else verdicts[n % 3])])
        for n in range(45)
    ]  # fmt: skip
    write_records(tmp_path / "judged.jsonl", judgements)
    out = tmp_path / "validation/demo-judge/alignment.json"
    job = AlignJudge(
        judge="demo-judge",
        resamples=100,
        seed=1,
        scales={"dialogue": annotation_scales(read_rubric("kmp_dialogue").rubric)},
    )
    align_judge(job=job, verdicts=[tmp_path / "judged.jsonl"], people=people, out=out)
    [kappa] = [score for score in scores_in(out) if score.metric == "weighted_kappa"]
    assert (kappa.value, kappa.n, kappa.missing) == (1.0, 42, 3)
    config = checked_config(judges=["demo-judge"], tasks=KMP_TASKS, human_labels=str(people))
    light = light_lookup(Plan(config), tmp_path)("demo-judge", "kmp_dialogue_short")
    assert (light.colour, "people.csv" in light.data) == ("amber", True), "7 % of the verdicts cannot be parsed"


def test_the_test_set_is_predicted_as_the_shared_task_takes_it(data: Path, tmp_path: Path) -> None:
    source = data / "mrbench/mrbench_v3_testset.json"
    release = "mrbench_v3_test"
    write_labels(release, LABEL_LOADERS["mrbench_test"], [read_source(source, "json")], tmp_path / release)
    judge = JudgeModel(engine="judge", model="x", rubrics=["mrbench_taxonomy"])
    loaded = rubric_for_labels(judge, read_labelled_data(tmp_path / release).about)
    assert loaded is not None and loaded.name == "mrbench_taxonomy"
    work = work_on_labels(judge, [tmp_path / release], 14, 1)
    assert len(work) == 1547, "a submission needs every reply, so the limit is ignored"
    assert {tuple(case.criteria) for _, case in work} == {SHARED_TASK}
    judgements = [
        Judgement(id=case.id, task=release, tutor=case.tutor, rubric="mrbench_taxonomy", key="k", raw="",
                  verdicts=[Verdict(criterion=name, value=None if number == 0 else "Yes") for name in SHARED_TASK])
        for number, (_, case) in enumerate(work)
    ]  # fmt: skip
    write_records(tmp_path / "verdicts.jsonl", judgements)
    packed = tmp_path / "predictions.zip"
    write_submission(
        job=WriteSubmission(release=release), source=source, verdicts=tmp_path / "verdicts.jsonl",
        out=tmp_path / "predictions.json", packed=packed,
    )  # fmt: skip
    with zipfile.ZipFile(packed) as archive:
        assert archive.namelist() == ["predictions.json"]
        submission = json.loads(archive.read("predictions.json"))
    raw = json.loads(source.read_text(encoding="utf-8"))
    assert len(submission) == 191 and sum(len(dialogue["tutor_responses"]) for dialogue in submission) == 1547
    assert [dialogue["conversation_id"] for dialogue in submission] == [dialogue["conversation_id"] for dialogue in raw]
    annotations = [reply["annotation"] for dialogue in submission for reply in dialogue["tutor_responses"].values()]
    assert annotations.count({}) == 1, "a verdict that cannot be parsed gets no substitute label"
    assert annotations.count(dict.fromkeys(SHARED_TASK, "Yes")) == 1546
    assert LABEL_LOADERS[checked_config().labels[release].loader].labelled is False


def test_a_rubric_may_use_the_reference_solution_and_the_topic(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both variables are available for tutors' replies and for labelled replies."""
    for folder in ("resources", "config"):
        shutil.copytree(folder, tmp_path / folder)
    monkeypatch.chdir(tmp_path)
    prompt = "Topic: {{ topic }}. Solution: {{ reference_solution }}. {{ history }} {{ response }} Answer as JSON."
    (tmp_path / "resources/rubrics/informed.jinja").write_text(prompt)
    (tmp_path / "resources/rubrics/informed.yaml").write_text(
        "like: mrbench_taxonomy\nrubric: informed\nprompt: informed.jinja\n"
    )
    card = tmp_path / "resources/benchmarks/mrbench/mistake_remediation.yaml"
    card.write_text(card.read_text().replace("rubrics: [", "rubrics: [informed, "))
    raw = shipped()
    raw["models"]["demo-judge"] |= {"rubrics": ["informed"]}
    raw["run"] |= {"tutors": ["echo"], "tasks": ["mrbench"], **NO_GRADERS, "judges": ["demo-judge"]}
    config = check_config(raw)
    assert kinds_of_grader(Plan(config), "demo-judge")[0] == "informed", "this kind is checked on labels too"
    records = read_source(Path("resources/demo/mrbench/MRBench_V1.json"), "json")
    write_labels("mrbench", LABEL_LOADERS["mrbench"], [records], tmp_path / "mrbench")
    work = work_on_labels(config.models["demo-judge"], [tmp_path / "mrbench"], None, 1)
    texts = [
        question_messages(loaded, case, questions_about(loaded.rubric, case)[0])[-1]["content"] for loaded, case in work
    ]
    solutions = {record["Ground_Truth_Solution"] for record in records} - {"Not Available"}
    assert any(solution in text for solution in solutions for text in texts)
    raw["models"]["demo-judge"]["rubrics"] = ["informed", "kmp_error_reason"]
    (tmp_path / "resources/rubrics/informed.jinja").write_text("{{ reference_solutoin }} {{ response }}")
    read_rubric.cache_clear()
    with pytest.raises(UserError, match="the prompt uses undefined variables: reference_solutoin"):
        check_config(raw)
    read_rubric.cache_clear()


ROLES = [  # role in the registry, role in the card, True with a system message, roles for hosted and served tutors
    (None, None, False, ("user", "system")), (None, "system", False, ("system", "system")),
    (None, "user", False, ("user", "user")), ("user", "system", False, ("user", "user")),
    ("system", None, False, ("system", "system")), ("system", "user", False, ("user", "user")),
    (None, None, True, ("user", "user")),
]  # fmt: skip


@pytest.mark.parametrize(("registry_role", "card_role", "system_prompt", "expected"), ROLES)
def test_the_role_of_a_prompt_without_a_history(
    registry_role: str | None, card_role: str | None, system_prompt: bool, expected: tuple[str, str]
) -> None:
    loaded = read_card(Path("resources/benchmarks/mrbench/mistake_remediation.yaml"))
    loaded = loaded.model_copy(
        update={
            "card": loaded.card.model_copy(update={"role": card_role, "system": "s" if system_prompt else None}),
            "system": "Be kind." if system_prompt else "",
        }
    )
    [item, *_] = remediation_items(
        read_source(Path("resources/demo/mrbench/MRBench_V1.json"), "json"), "mistake_remediation"
    )
    for default_role, role in zip(("user", "system"), expected, strict=True):
        messages = first_messages(loaded, item, registry_role, False, default_role)
        assert messages[-1]["role"] == role
        assert [message["role"] for message in messages[:-1]] == (["system"] if system_prompt else [])


def test_a_hosted_tutor_gets_no_lone_system_message(tmp_path: Path) -> None:
    """MRBench's prompt was written here. MathTutorBench's is a system message, as in the released client."""

    def refuse_lone_system(number: int, request: dict[str, Any]) -> tuple[int, Any, dict[str, str]]:
        lone = [message["role"] for message in request["messages"]] == ["system"]
        return (
            (400, {"error": {"message": "unsupported: a conversation needs a user message"}}, {})
            if lone
            else (200, chat({"content": "Look again."}), {})
        )

    loaded = read_card(Path("resources/benchmarks/mrbench/mistake_remediation.yaml"))
    items = remediation_items(
        read_source(Path("resources/demo/mrbench/MRBench_V1.json"), "json"), "mistake_remediation"
    )[:3]
    with serving(scripted(refuse_lone_system)) as address:
        model = HostedModel(engine="hosted", model="m", base_url=f"{address}/v1", attempts=1)
        paths = [tmp_path / name for name in ("journal.jsonl", "log", "out.jsonl", "prompts.jsonl")]
        work = [(loaded, item) for item in items]
        ask_tutor("m", model, work, RequestLimits(None, 1), JobFiles(None, *paths[:2]), *paths[2:])
    assert all(reply.text == "Look again." for reply in read_records(paths[2], Reply))
    assert {prompt.content[0]["role"] for prompt in read_records(paths[3], Prompt)} == {"user"}
    roles = {read_card(path).card.role for path in Path("resources/benchmarks/mathtutorbench").glob("*.yaml")}
    assert roles == {"system"}


def test_passages_of_the_critics_prompt_that_were_filled_in_are_marked(data: Path) -> None:
    """Marked passages do not occur in the paper; all other text does."""
    loaded = read_rubric("mrbench_critic")
    parts = marked_passages(loaded)
    assert "".join(text for text, _ in parts) == loaded.prompt and sum(filled_in for _, filled_in in parts) == 3
    paper = data.parent / "papers/mrbench.txt"
    if not paper.is_file():
        absent("the papers' texts", "store them in papers/ beside the data")
    printed = re.sub(r"\s+", " ", paper.read_text(encoding="utf-8"))
    for text, filled_in in parts:
        for line in filter(None, (re.sub(r"\s+", " ", line).strip() for line in text.split("\n"))):
            quoted = all(
                word in printed for word in re.split(r"\{\{.*?\}\}|###Scoring Rubric\.", line) if len(word) > 20
            )
            assert quoted != filled_in, line


def test_a_mark_that_is_not_in_the_prompt_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copytree("resources", tmp_path / "resources")
    card = tmp_path / "resources/benchmarks/mrbench/rubrics/mrbench_critic.yaml"
    card.write_text(card.read_text().replace("not evaluating in general.", "not evaluating in particular."))
    monkeypatch.chdir(tmp_path)
    read_rubric.cache_clear()
    with pytest.raises(UserError, match=r"filled_in: '.*in particular.' is not in mrbench_critic.jinja"):
        read_rubric("mrbench_critic")
    read_rubric.cache_clear()


def test_table_1_and_the_annotators_agreement_are_as_printed() -> None:
    schemes = earlier_schemes()
    assert {name: len(criteria) for name, criteria in schemes.items()} == {
        "Tack and Piech (2022)": 4, "Macina et al. (2023)": 3, "Wang et al. (2024)": 3, "Daheim et al. (2024)": 3, "MRBench": 8,
    }  # fmt: skip
    assert schemes["MRBench"] == set(LABELS) and "Actionability" in schemes["Daheim et al. (2024)"]
    assert printed_agreement() == {"Fleiss kappa": 0.65, "Cohen kappa (average)": 0.71}
