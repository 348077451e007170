"""The plan: which tutors, graders and files there are, for the demo's configuration and for smaller ones."""

from __future__ import annotations

import inspect
import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from maieutic.config import cards
from maieutic.config.datasets import Dataset
from maieutic.config.models import HostedModel, RewardModel, VllmModel, WeightsOnly
from maieutic.config.settings import read_config
from maieutic.core import paths
from maieutic.core.errors import UserError
from maieutic.curation import paths as curation_paths
from maieutic.datasets.registry import LOADERS
from maieutic.judges.rubrics import Rubric, read_rubric
from maieutic.plan import checks, digest, inputs, jobs, provenance, rules, schemas, shell_lines
from maieutic.plan.checks import check_config
from maieutic.plan.items import items
from maieutic.plan.job_entries import entry_for_asking, entry_for_scoring, entry_for_training
from maieutic.plan.new_run import tutor_entries
from maieutic.plan.plan import Plan
from maieutic.plan.rules import TEMPLATES, RulePlan, plan_of
from maieutic.plan.saving import SaveConfig, save_config
from maieutic.plan.selection import Selection
from maieutic.plan.syntax import Name
from maieutic.plan.wildcard_patterns import constraints_of, judges_with_engine, one_of
from run_configs import HOSTED, NOBODY, RUNS, demo, functions, many_judges, our_own, places
from shipped import registries, shipped


def raw(**run: object) -> dict[str, Any]:
    merged = shipped()
    return {**merged, "run": {**merged["run"], **run}}


@pytest.fixture(scope="module")
def plan() -> RulePlan:
    """The demo's, with a tutor whose replies are in a file besides."""
    return plan_of(demo())


def test_the_plan_of_another_configuration_reads_no_card_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Cards are as they were on file; all that follows from a configuration is asked anew."""
    first = plan_of(raw(tasks=["mrbench"], tutors=["echo"]))
    assert first.tutors_on("mrbench")[0] == "echo" and list(first.benchmarks) == ["mrbench"]
    own, read = cards.read_card, []

    def noted(path: Path, protocol: str) -> cards.LoadedCard:
        read.append(path.stem)
        return own(path, protocol)

    monkeypatch.setattr(cards, "read_card", noted)
    second = first.for_config(plan_of(raw(tasks=["mrbench"], tutors=["reference"])).config)
    read.clear()
    assert type(second) is type(first) and second.run.tutors == ["reference"]
    assert second.tutors_on("mrbench")[0] == "reference" and first.tutors_on("mrbench")[0] == "echo"
    assert second.cards.keys() == first.cards.keys() and read == [], "the card is known"
    third = second.for_config(plan_of(raw(tasks=["mathtutorbench/problem_solving"], tutors=["echo"])).config)
    read.clear()
    assert [path.stem for path in third.cards] == ["problem_solving"] == read, "but no other"


def placed(plan: RulePlan, module: Any) -> Iterator[tuple[str, Any, dict[str, str]]]:
    """Each rule of a module's functions with each place that its wildcards' patterns admit."""
    for rule, function in functions(module).items():
        for place in places(plan, rule, list(inspect.signature(function).parameters)[1:]):
            yield rule, function, place


@pytest.mark.parametrize("run", RUNS)
def test_every_job_of_a_run_crosses_unchanged(run: str) -> None:
    plan = plan_of(RUNS[run]())
    crossed = set()
    for rule, function, place in placed(plan, jobs):
        job = function(plan, **place)
        again = type(job).model_validate_json(job.to_json())
        assert again == job and again.to_json() == job.to_json(), (rule, place)
        assert plan.job_of(rule)(place) == job.to_json(), "a dictionary has the wildcards' items"
        crossed.add(rule)
    assert {"score_replies", "save_config"} <= crossed


def outputs_of_rules() -> list[re.Pattern[str]]:
    """The outputs of all rules, as patterns with their wildcards: what `paths` names, or a literal."""
    texts = "\n".join(path.read_text(encoding="utf-8") for path in sorted(Path("workflow/rules").glob("*.smk")))
    found = []
    for block in re.findall(r"^    output:\n((?:        .*\n)+)", texts, re.MULTILINE):
        found += re.findall(r'"(results/[^"]+)"', block)
        for home, name, key in re.findall(r"\b(paths|made)\.([A-Z_]+)(?:\[\"(\w+)\"\])?", block):
            pattern = getattr({"paths": paths, "made": curation_paths}[home], name)
            found.append(pattern[key] if key else pattern)
    wild = [re.sub(r"\\\{\w+\\\}", "[^/]+", re.escape(pattern)) for pattern in found]
    return [re.compile(pattern.replace("results/[^/]+/", "results/(?:report|runs/[^/]+)/")) for pattern in wild]


@pytest.mark.parametrize("run", RUNS)
def test_every_input_of_a_run_is_the_output_of_a_rule_or_a_file(run: str) -> None:
    plan, outputs, wild = plan_of(RUNS[run]()), outputs_of_rules(), set()
    assert len(outputs) > 60
    for rule, function, place in placed(plan, inputs):
        for files in function(plan, **place).values():
            for file in [files] if isinstance(files, str) else files:
                if not (any(output.fullmatch(file) for output in outputs) or Path(file).exists()):
                    wild.add((rule, file))
    assert wild == set()


def test_the_plan_of_a_small_run_in_words() -> None:
    """One hosted tutor, one floor and one judge on one benchmark: every file that stands between items and scores."""
    config = registries() | {"models": {**registries()["models"], "near": HOSTED}}
    config["models"]["strict"] = {"engine": "judge", "model": "near", "rubrics": ["mrbench_taxonomy"]}
    config["run"] = {"tutors": ["near"], "tasks": ["mrbench"], "judges": ["strict"]}
    config["edition"] = "demo"
    plan = plan_of(config)
    assert list(plan.benchmarks) == ["mrbench"] and plan.reward_models == []
    assert plan.tutors_on("mrbench") == ["near", "always-ask", "reference", "reveal"], "with its floors and its ceiling"
    items = ["results/items/mrbench/mistake_remediation.jsonl"]
    assert inputs.generate_replies(plan, "mrbench", "near")["cases"] == items
    judged = inputs.grade_verdicts(plan, "strict", "mrbench", "near")
    assert judged["verdicts"] == "results/verdicts/strict/mrbench/near.jsonl"
    scored = inputs.score_replies(plan, "mrbench", "near")
    grades = [f"results/grades/mrbench/{grader}/near.jsonl" for grader in ("_parsers", "strict")]
    assert (scored["cases"], scored["grades"]) == (items, grades)


def test_job_and_inputs_have_the_same_wildcards() -> None:
    both = set(functions(jobs)) & set(functions(inputs))
    for rule in both:
        of_job, of_inputs = (list(inspect.signature(functions(one)[rule]).parameters) for one in (jobs, inputs))
        assert set(of_job) == set(of_inputs), rule
    assert len(both) > 25


def test_every_card_is_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """70 % of a large dry run was reading the same cards again."""
    read: list[tuple[str, str]] = []
    original = cards.read_card

    def counted(path: Path, protocol: str = cards.RELEASED) -> cards.LoadedCard:
        read.append((str(path), protocol))
        return original(path, protocol)

    monkeypatch.setattr(cards, "read_card", counted)
    plan = plan_of(raw())
    for benchmark in plan.benchmarks:
        for tutor in plan.tutors_on(benchmark):
            inputs.score_replies(plan, benchmark, tutor)
            jobs.score_replies(plan, benchmark, tutor)
    assert len(read) == len(set(read)) == len(plan.cards)


def test_a_hundred_tutors_read_no_card_more(monkeypatch: pytest.MonkeyPatch) -> None:
    names = [f"echo-{number}" for number in range(100)]
    config = raw(tutors=names)
    config["models"] |= {name: {"engine": "baseline", "tutor": "echo"} for name in names}
    count = files = 0
    original, of_file = cards.read_card, cards.read_yaml

    def counted(path: Path, protocol: str = cards.RELEASED) -> cards.LoadedCard:
        nonlocal count
        count += 1
        return original(path, protocol)

    def opened(path: Path) -> Any:
        nonlocal files
        files += 1
        return of_file(path)

    monkeypatch.setattr(cards, "read_card", counted)
    monkeypatch.setattr(cards, "read_yaml", opened)  # whoever calls it, by whatever name
    plan = plan_of(config)
    few = files
    for benchmark in plan.benchmarks:
        for name in names:
            inputs.generate_replies(plan, benchmark, name)
            jobs.score_replies(plan, benchmark, name)
    assert count == len(plan.cards)
    assert files - few <= 4 * len(plan.cards), "a card, those that it is like, and rubrics: not once a tutor"


def test_what_the_report_alone_shows_is_in_no_job() -> None:
    entry = {"engine": "hosted", "model": "m", "base_url": "http://127.0.0.1:9/v1"}
    shown = {"label": "M", "group": "g", "notice": "n", "price": {"input": 1, "output": 2}, "protocol": "study_mode"}
    plain, told = HostedModel(**entry), HostedModel(**entry, **shown)
    assert entry_for_asking(told) == entry_for_asking(plain) and entry_for_asking(told).model == "m"


def test_what_scoring_needs_trains_nothing_and_the_other_way_round() -> None:
    train = {"base": "b", "mix": {"mrbench": 1.0}}
    entry = RewardModel(engine="reward", train=train)
    budget = entry.model_copy(update={"token_budget": 9, "dtype": "float32"})
    assert entry_for_training(budget) == entry_for_training(entry) and entry_for_scoring(budget) != entry_for_scoring(
        entry
    )
    often = RewardModel(engine="reward", train={**train, "checkpoint_seconds": 1, "epochs": 2})
    assert entry_for_scoring(often) == entry_for_scoring(entry) and entry_for_training(often) != entry_for_training(
        entry
    )


def test_patterns_match_the_names_of_the_run_and_nothing_else(plan: RulePlan) -> None:
    found = constraints_of(plan)
    assert re.fullmatch(found["tutor"], "echo") and not re.fullmatch(found["tutor"], "echo2")
    assert not re.fullmatch(one_of([]), "") and not re.fullmatch(one_of([]), "a")
    assert re.fullmatch(one_of(["a.b"]), "a.b") and not re.fullmatch(one_of(["a.b"]), "axb")


def test_a_run_without_graders_has_none_of_their_files() -> None:
    keys = {"reward_models": [], "reward_comparisons": [], "classifiers": [], "judges": [], "taggers": []}
    plan = Plan(check_config(raw(tutors=["echo"], tasks=["mathtutorbench"], labels=[], **keys)))
    assert plan.used_sources == plan.releases == plan.pooled_benchmarks == []
    assert inputs.build_report(plan)["graders"] == []
    assert inputs.last_checks(plan) == ["results/report/whole.json"]


def test_a_path_is_found_in_any_folder() -> None:
    assert paths.REPLIES.of(benchmark="b", tutor="t") == "results/replies/b/t.jsonl"
    assert paths.REPLIES.within(Path("/x/old"), benchmark="b", tutor="t") == Path("/x/old/replies/b/t.jsonl")
    assert paths.timing_of("r", "a", "b") == "results/benchmarks/r/{a}/{b}.tsv"
    with pytest.raises(KeyError):
        paths.REPLIES.of(benchmark="b")


def judged(rubrics: list[str], **run: object) -> Plan:
    config = raw(tutors=["echo"], tasks=["mrbench", "kmpbench/ec"], judges=["demo-judge"], **run)
    config["models"]["demo-judge"] = {"engine": "judge", "model": "smollm2-135m", "rubrics": rubrics}
    return Plan(check_config(config))


def test_a_judge_judges_the_tasks_that_it_has_a_rubric_for() -> None:
    """The other one keeps its parsers, and the page says that it has no judged numbers."""
    plan = judged(["mrbench_taxonomy"])
    assert plan.tasks_without_rubric == {"kmpbench": ["ec"]} and plan.judged_benchmarks() == ["mrbench"]
    assert plan.judges_of("kmpbench", "echo") == [] and not plan.judge_cards("kmpbench")
    assert jobs.score_replies(plan, "kmpbench", "echo").unjudged == ["ec"]
    assert [metric for metric, one in plan.card("kmpbench", "ec").metrics.items() if one.headline] == ["f1"]
    both = judged(["mrbench_taxonomy", "kmp_error_reason"])
    assert both.tasks_without_rubric == {} and both.judged_benchmarks() == ["kmpbench", "mrbench"]


def test_a_rubric_of_ones_own_judges_what_the_one_judges_that_it_is_like(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A card of five lines beside the shipped ones, its prompt that of the other; no shipped file changes."""
    for folder in ("resources", "config"):
        shutil.copytree(folder, tmp_path / folder)
    monkeypatch.chdir(tmp_path)
    own = tmp_path / "resources/rubrics/mine.yaml"
    own.write_text("like: mrbench_taxonomy\nrubric: mine\ntitle: Mine\nmax_tokens: 99\n", encoding="utf-8")
    read_rubric.cache_clear()
    plan = judged(["mine"])
    assert plan.tasks_without_rubric == {"kmpbench": ["ec"]} and plan.reply_rubrics("demo-judge", "mrbench") == ["mine"]
    assert read_rubric("mine").prompt == read_rubric("mrbench_taxonomy").prompt
    files = inputs.rubric_files(["mine"])
    assert "resources/rubrics/mine.yaml" in files and any(
        "mrbench/rubrics/mrbench_taxonomy.jinja" in one for one in files
    )
    assert plan.validating_releases("demo-judge")[:1] == ["mrbench"], "and it is checked on the same labels"
    (tmp_path / "resources/benchmarks/kmpbench/rubrics/mine.yaml").write_text(own.read_text(), encoding="utf-8")
    read_rubric.cache_clear()
    with pytest.raises(UserError, match=r"kmpbench/rubrics/mine.yaml has the same name"):
        judged(["mine"])
    read_rubric.cache_clear()


def test_a_grader_more_changes_no_scores_that_do_not_rest_on_it() -> None:
    """Neither a reward model nor a judge of one benchmark scores the others again."""
    nobody: dict[str, list[str]] = {"reward_comparisons": [], "classifiers": [], "judges": [], "taggers": []}
    without = Plan(check_config(raw(reward_models=[], **nobody)))
    rewarded = Plan(check_config(raw(**nobody)))
    assert rewarded.run.reward_models and not without.run.reward_models

    def changed(after: Plan) -> set[str]:
        tutor = after.run.tutors[0]
        jobs_of = {
            name: [jobs.score_replies(plan, name, tutor) for plan in (without, after)] for name in without.benchmarks
        }
        return {name for name, (one, other) in jobs_of.items() if one.to_json() != other.to_json()}

    assert changed(rewarded) == {"mathtutorbench"}
    assert jobs.score_replies(without, "mathtutorbench", without.run.tutors[0]).absent == ["reward"]
    assert jobs.score_replies(without, "mrbench", without.run.tutors[0]).absent == ["judge"]


def test_a_digest_is_of_the_code_that_a_job_uses(plan: RulePlan) -> None:
    """Of tables of loaders and sources the one that it uses; of tutors what their kind is asked by."""
    parse = plan.code_of("parse_replies")
    assert parse == digest.code_of("parse-replies")
    report, bare = plan.code_of("build_report"), digest.code_of("build-report")
    files = [file for pattern in TEMPLATES["build-report"] for file in digest.HERE.glob(pattern)]
    assert report == digest.code_of("build-report", None, files) != bare
    assert {file.suffix for file in files} == {".css", ".js", ".jinja"}

    def of(rule: str, **wildcards: str) -> tuple[str, str]:
        """The digest of a rule's job, and that of its command without anything put in place of another."""
        code = plan.code_of(rule)
        assert callable(code)
        return code(wildcards), digest.code_of(rule.replace("_", "-"))

    items, whole = of("make_items", benchmark="kmpbench", task="ec")
    loader = LOADERS[plan.card("kmpbench", "ec").loader].load
    instead = {Name("datasets.registry", "LOADERS"): (digest.as_definition(loader), Name("datasets.loaders", "Loader"))}
    assert items == digest.code_of("make-items", instead) != whole
    assert items != of("make_items", benchmark="tutorbench", task="text")[0]
    pairs, whole = of("make_pairs", source="bridge")
    sources = Name("rewards.pairs", "PAIR_SOURCES")
    load = digest.as_definition(plan.pair_source("bridge").load)
    assert pairs == digest.code_of("make-pairs", {sources: (load, Name("rewards.sources", "PairSource"))}) != whole
    asked, whole = of("generate_replies", benchmark="mrbench", tutor="smollm2-135m")
    said, _ = of("generate_replies", benchmark="mrbench", tutor="always-ask")
    assert asked == digest.code_of("generate-replies", {Name("replies.baselines", "baseline_reply"): ()})
    gone = {Name("serving.backends", "backend_of"): (), Name("replies.generate", "run_conversations"): ()}
    assert said == digest.code_of("generate-replies", gone) and len({said, asked, whole}) == 3


def test_pairs_in_a_file_of_ones_own_rest_on_no_source() -> None:
    own = plan_of(our_own())
    code = own.code_of("make_pairs")
    assert callable(code)
    sources = {Name("rewards.pairs", "PAIR_SOURCES"): (Name("rewards.sources", "PairSource"),)}
    assert code({"source": "ours"}) == digest.code_of("make-pairs", sources) != code({"source": "bridge"})
    mine = own.code_of("make_pairs")
    assert callable(mine) and mine({"source": "mathdial"}) != mine({"source": "bridge"})


def test_a_job_asks_the_machine_for_what_its_model_needs(plan: RulePlan) -> None:
    served, judged = {"benchmark": "mrbench", "tutor": "smollm2-135m"}, {"judge": "demo-judge", "batch": "x"}
    assert (plan.threads(served), plan.memory(served)) == (2, 6000) == (plan.threads(judged), plan.memory(judged))
    assert plan.models_of(judged) == plan.models_of(served) == ["smollm2-135m"]
    trained = {"reward_model": "demo-reward-model"}
    assert (plan.threads(trained), plan.memory(trained)) == (1, 4000)
    assert plan.models_of({"benchmark": "mrbench"}) == []


@pytest.mark.parametrize(
    ("pictures", "shown", "blind"),
    [(False, {}, False), (True, {}, True), (True, {"near"}, True), (True, {"near", "far"}, False)],
)
def test_a_judge_is_blind_where_one_of_its_models_sees_no_picture(pictures: bool, shown: set[str], blind: bool) -> None:
    config = shipped()
    for name in ("near", "far"):
        config["models"][name] = {**HOSTED, "images": name in shown}
        config["models"][f"by-{name}"] = {"engine": "judge", "model": name, "rubrics": ["tutorbench"]}
    both = {"engine": "judge", "judges": ["by-near", "by-far"], "rubrics": ["tutorbench"]}
    config["models"]["both"] = both
    config["run"] |= {
        **NOBODY,
        "tutors": ["near"],
        "tasks": ["tutorbench/text", "tutorbench/multimodal"],
        "judges": ["by-near", "by-far", "both"],
    }
    plan = plan_of(config)
    card = plan.card("tutorbench", "multimodal" if pictures else "text")
    assert plan.is_blind("both", card) is blind
    assert plan.is_blind("by-far", card) is (pictures and "far" not in shown)


def test_items_to_answer_are_made_by_snakemake(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """And copied where they are wanted, or left where they were made; a run that fails is one line."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "out").mkdir()
    called: list[list[str]] = []
    ends = [0, 0, 7]

    def snakemake(line: list[str]) -> Any:
        called.append(line)
        made = Path(paths.QUESTIONS.of(benchmark="mrbench", task="t"))
        made.parent.mkdir(parents=True, exist_ok=True)
        made.write_text("{}\n{}\n", encoding="utf-8")
        return subprocess.CompletedProcess(line, ends.pop(0))

    monkeypatch.setattr(subprocess, "run", snakemake)
    with caplog.at_level("INFO"):
        items(configfile=[Path("a.yaml"), Path("b.yaml")], out=tmp_path / "out")
    common = [sys.executable, "-m", "snakemake", "questions", "--cores", "1", "--configfile"]
    assert called == [[*common, "a.yaml", "b.yaml"]]
    copied = tmp_path / "out/mrbench/t.jsonl"
    assert copied.read_text(encoding="utf-8") == "{}\n{}\n" and caplog.messages == [f"{copied}: 2 items"]
    caplog.clear()
    with caplog.at_level("INFO"):
        items(configfile=[Path("a.yaml")])
    assert caplog.messages == [f"{paths.QUESTIONS.of(benchmark='mrbench', task='t')}: 2 items"]
    with pytest.raises(
        UserError,
        match=r"^a\.yaml, b\.yaml: snakemake ended with 7. Fix: fix the cause that is printed above, then run it again",
    ):
        items(configfile=[Path("a.yaml"), Path("b.yaml")])


def test_variables_of_a_line_are_literal() -> None:
    assert shell_lines.environment_assignments(A="x y", B="{z}", C="") == "A='x y' B='{{z}}' C=''"
    assert shell_lines.environment_assignments() == ""


def test_a_run_keeps_the_configuration_that_it_uses_and_no_other(plan: RulePlan) -> None:
    """As JSON has it: what lies beside the results is read by people and by other languages."""
    job = jobs.save_config(plan)
    assert set(job.config["models"]) == set(plan.used_models) < set(plan.models)
    assert set(job.config["datasets"]) == set(plan.used_datasets) < set(plan.datasets)
    assert job.config["run"]["tutors"] == plan.run.tutors and job.config["edition"] == "demo"
    assert json.loads(json.dumps(job.config)) == job.config and json.loads(json.dumps(job.provenance)) == job.provenance


@pytest.mark.parametrize(
    ("entry", "with_code"),
    [
        ({"engine": "vllm"}, False), ({"engine": "vllm", "trust_remote_code": True}, True), ({"engine": "weights"}, False),
        ({"engine": "reward"}, False), ({"engine": "reward", "trust_remote_code": True}, True),
        ({"engine": "reward", "trust_remote_code": True, "adapter": "internlm2"}, True),
        ({"engine": "reward", "adapter": "internlm2"}, True),
    ],
)  # fmt: skip
def test_weights_come_with_code_where_it_is_run(entry: dict[str, Any], with_code: bool, plan: RulePlan) -> None:
    weights = {"repo": "org/m", "revision": "0" * 40}
    kinds = {"vllm": VllmModel, "weights": WeightsOnly, "reward": RewardModel}
    model = kinds[entry["engine"]].model_validate({**entry, "weights": weights})
    job = jobs.prepare_weights(SimpleNamespace(models={"m": model}), "m")  # type: ignore[arg-type]
    assert (job.model, job.weights, job.with_code) == ("m", model.weights, with_code)


def test_a_judge_has_the_tasks_that_it_judges(plan: RulePlan, monkeypatch: pytest.MonkeyPatch) -> None:
    judge = plan.judges_with_model[0]
    benchmark = plan.judged_benchmarks(judge)[0]
    one = plan.judge_cards(benchmark, judge)[:1]
    monkeypatch.setattr(RulePlan, "judge_cards", lambda plan, name, judge=None: one if judge else [])
    assert jobs.judge_by_words(plan, judge, benchmark, "x").tasks == inputs.tasks_of(one) != {}
    assert jobs.judge_replies(plan, judge, benchmark, "x").tasks == inputs.tasks_of(one)
    batch = next(iter(plan.judge_batches(benchmark)))
    cases = inputs.judge_replies(plan, judge, benchmark, batch)["cases"]
    assert cases == inputs.item_files(benchmark, inputs.tasks_of(one))


def test_pairs_and_labels_are_read_in_the_form_of_their_edition(
    plan: RulePlan, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Dataset, "format_of", lambda dataset, edition: f"of {edition}")
    assert set(jobs.make_pairs(plan, "bridge").forms) == {"of demo"}
    assert set(jobs.make_labels(plan, "mrbench").forms) == {"of demo"}


def test_an_extension_is_asked_of_its_own_jobs_with_the_plan(plan: RulePlan, monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[Any] = []
    needs = plan.models["smollm2-135m"].needs
    own = SimpleNamespace(
        models_of=lambda given, names: told.append((given, names)) or ["one"],
        needs_of=lambda given, names: told.append((given, names)) or needs,
    )
    monkeypatch.setattr(rules, "EXTENSIONS", (own,))
    assert plan.models_of({"recipe": "r"}) == ["one"] and plan.needs({"recipe": "r"}) is needs  # type: ignore[arg-type]
    assert [(given is plan, names) for given, names in told] == [(True, {"recipe": "r"})] * 2


def test_a_judges_comparisons_are_its_own(plan: RulePlan, monkeypatch: pytest.MonkeyPatch) -> None:
    own = {"one": ["kmpbench"], None: ["kmpbench", "mrbench"]}
    monkeypatch.setattr(RulePlan, "compared_benchmarks", lambda plan, judge=None: own[judge])
    monkeypatch.setattr(inputs, "batch_verdicts", lambda plan, judge, benchmark: [f"{judge}/{benchmark}"])
    assert inputs.compared_verdicts(plan, "one") == ["one/kmpbench"]


@pytest.mark.parametrize(("folder", "expected"), [(None, None), ("/some/where", Path("/some/where"))])
def test_data_come_from_the_folder_that_the_run_names(folder: str | None, expected: Path | None) -> None:
    plan = plan_of({**shipped(), "data_dir": folder})
    job = jobs.fetch_dataset(plan, plan.used_datasets[0])
    assert job.data_dir == expected and job.edition == plan.edition


def test_a_tutors_answers_are_as_long_as_the_run_says() -> None:
    config = shipped()
    config["run"]["max_tokens"] = 77
    plan = plan_of(config)
    benchmark, tutor = next((one, tutor) for one in plan.benchmarks for tutor in plan.tutors_on(one))
    assert jobs.generate_replies(plan, benchmark, tutor).max_tokens == 77


def test_files_of_pairs_are_in_the_registry_and_pinned() -> None:
    refused = UserError("datasets.a.published", "is not pinned", "pin it")

    class File:
        def file_of(self, name: str, edition: str) -> None:
            if (name, edition) == ("a", "published"):
                raise refused

    plan: Any = SimpleNamespace(pair_datasets={"s": ["a"], "t": ["b"], "u": ["c"]}.get, edition="published")
    plan.datasets = {"a": File(), "b": File()}
    checks.check_pair_source(plan, "model", "t")
    with pytest.raises(UserError) as fault:
        checks.check_pair_source(plan, "model", "u")
    assert fault.value.line == "source of pairs u: 'c' is not in the registry. Fix: choose one of a, b"
    with pytest.raises(UserError) as fault:
        checks.check_pair_source(plan, "model", "s")
    assert fault.value.line == (
        "models.model: it is trained on s: datasets.a.published: is not pinned. Fix: pin it, or remove model from "
        "run.reward_models and run.reward_comparisons"
    )


@pytest.mark.parametrize(
    ("key", "line"),
    [
        ("dataset", "dataset: 'x' is not in the registry. Fix: choose one of "),
        ("loader", "loader: 'x' is not in the registry. Fix: choose one of "),
        ("graders", "graders: 'x' is not in the registry. Fix: choose one of "),
    ],
)
def test_what_a_card_names_is_looked_for_under_its_key(key: str, line: str, plan: RulePlan) -> None:
    path, loaded = next(iter(plan.cards.items()))
    value = ["x"] if key == "graders" else "x"
    with pytest.raises(UserError) as fault:
        checks.check_card(plan, path, loaded.model_copy(update={"card": loaded.card.model_copy(update={key: value})}))
    assert fault.value.line.startswith(f"{path}: {line}")


def test_a_cards_prompt_is_checked_by_its_file(plan: RulePlan, monkeypatch: pytest.MonkeyPatch) -> None:
    path, loaded = next(iter(plan.cards.items()))
    checked: list[Any] = []
    monkeypatch.setattr(checks.cards, "check_variables", lambda *words: checked.append(words))
    checks.check_card(plan, path, loaded)
    assert checked == [(path, loaded, LOADERS[loaded.card.loader].variables)]


def test_each_judge_has_something_to_judge_of_its_own() -> None:
    """What another one judges is no work of a judge whose rubrics are for no task of the run."""
    config = raw(tasks=["mrbench", "kmpbench/ec"], tutors=["echo"], judges=["one", "two"], reward_models=[], labels=[])
    one = {"engine": "judge", "model": "smollm2-135m", "rubrics": ["mrbench_taxonomy"]}

    def planned(rubric: str) -> RulePlan:
        return plan_of({**config, "models": {**config["models"], "one": one, "two": {**one, "rubrics": [rubric]}}})

    planned("mrbench_critic")
    with pytest.raises(UserError) as fault:
        planned("pairs_simple")
    assert fault.value.line.startswith("run.judges[1]: two has no rubric for any task of run.tasks. Fix: add one of ")


def test_a_card_without_the_runs_edition_is_told_by_its_dataset(plan: RulePlan) -> None:
    """Both faults of one kind in one go."""
    with pytest.raises(UserError) as fault:
        plan_of(raw(tasks=["tutorbench"], tutors=["echo"], judges=[]))
    names = ("tutorbench_copy", "tutorbench_sample")
    problem = "this dataset has no demo edition. Fix: set edition: published"
    assert fault.value.lines.splitlines() == [f"datasets.{name}.demo: {problem}" for name in names]


def with_tutor(task: str, **own: Any) -> RulePlan:
    """The plan of one task and one hosted tutor beside a trivial one. own: keys of its entry."""
    config = raw(tasks=[task], tutors=["echo", "m"], judges=[], reward_models=[])
    return plan_of({**config, "models": {**config["models"], "m": {**HOSTED, **own}}})


@pytest.mark.parametrize("task", ["kmpbench/ec", "kmpbench/fqa", "tutorbench/text"])
def test_completions_hold_no_conversation(task: str) -> None:
    with_tutor(task)
    with_tutor("mathtutorbench/problem_solving", endpoint="completions")
    with pytest.raises(UserError) as fault:
        with_tutor(task, endpoint="completions")
    assert fault.value.line == (
        f"models.m.endpoint: {task} is a conversation, but a completion has a single prompt. Fix: set endpoint: chat, "
        "remove the key (the card uses chat), or remove the task from run.tasks"
    )


def test_peoples_replies_are_a_tutor_where_there_are_some() -> None:
    with pytest.raises(UserError) as fault:
        plan_of(raw(tasks=["tutorbench/text"], tutors=["reference"], judges=[], reward_models=[]))
    problem = "no task of run.tasks has replies by people"
    assert fault.value.line == f"models.reference.tutor: {problem}. Fix: remove it from run.tutors"


def test_the_prompts_of_a_tutors_own_protocol_are_checked_by_their_cards(monkeypatch: pytest.MonkeyPatch) -> None:
    own = with_tutor("mathtutorbench", protocol="corrected")
    checked: list[Any] = []
    monkeypatch.setattr(checks.cards, "check_variables", lambda *words: checked.append(words))
    checks.check_own_protocol(own, "echo")
    assert not checked, "those of the run's protocol are checked with its cards"
    checks.check_own_protocol(own, "m")
    assert checked == [
        (cards.card_path(one.card.benchmark, one.card.task), one, LOADERS[one.card.loader].variables)
        for one in own.cards_for("mathtutorbench", "m")
    ]


def with_judge(rubric: str | None = None, changed: dict[str, Any] | None = None, **keys: Any) -> RulePlan:
    """The plan of a run with one judge. changed: keys of a rubric that are other than those of its file."""
    judge = {"engine": "judge", "model": "smollm2-135m", "rubrics": ["mrbench_taxonomy"], **keys}
    own = checks.read_rubric

    def read(name: str) -> Any:
        loaded = own(name)
        return (
            loaded.model_copy(update={"rubric": loaded.rubric.model_copy(update=changed)}) if name == rubric else loaded
        )

    config = raw(tasks=["mrbench"], tutors=["echo"], judges=["j"], reward_models=[])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(checks, "read_rubric", read)
        return plan_of({**config, "models": {**config["models"], "j": judge}})


@pytest.mark.parametrize(
    ("about", "line"),
    [
        (
            {"rubric": "mrbench_taxonomy", "changed": {"when": "x"}},
            "{rubrics}/mrbench_taxonomy.yaml: when: 'x' is not in the benchmarks' conditions. Fix: choose one of {conditions}",
        ),
        (
            {"rubrics": ["mrbench_taxonomy", "mrbench_taxonomy"]},
            "models.j: mrbench_taxonomy is listed twice. Fix: list it once",
        ),
        (
            {"rubric": "pairs_simple", "changed": {"both_orders": False}, "pairs": ["pairs_simple"]},
            "{pairs}/pairs_simple.yaml: a single order allows position bias. Fix: set both_orders: true",
        ),
    ],
)
def test_a_judges_cards_are_checked_by_name(about: dict[str, Any], line: str) -> None:
    with_judge(pairs=["pairs_simple"])
    folders = {
        "rubrics": checks.rubric_path("mrbench_taxonomy").parent,
        "pairs": checks.rubric_path("pairs_simple").parent,
    }
    with pytest.raises(UserError) as fault:
        with_judge(**about)
    assert fault.value.line == line.format(**folders, conditions=", ".join(checks.CONDITIONS))


@pytest.mark.parametrize(
    ("keys", "place"),
    [
        ({"taggers": ["gpt-5-tagger"]}, "run.taggers"),
        ({"difficulty": {"tutors": ["echo"], "at_least": 1}}, "run.difficulty"),
        ({"taggers": ["gpt-5-tagger"], "difficulty": {"tutors": ["echo"], "at_least": 1}}, "run.difficulty"),
    ],
)
def test_what_is_about_items_with_criteria_needs_some(keys: dict[str, Any], place: str) -> None:
    with pytest.raises(UserError) as fault:
        plan_of(raw(tasks=["mrbench"], tutors=["echo"], judges=["demo-judge"], reward_models=[], **keys))
    assert fault.value.line == (
        f"{place}: no selected task has judged items with criteria of their own. Fix: add tutorbench to "
        "run.tasks and its judge to run.judges, or remove the key"
    )


def test_peoples_labels_are_compared_with_the_judges_that_said_something(monkeypatch: pytest.MonkeyPatch) -> None:
    run = SimpleNamespace(judges=["one", "two", "silent"], human_labels="people.csv")
    nothing: dict[str, list[str]] = {
        name: [] for name in ("reward_models", "classifiers", "releases", "probed_judges", "panels", "further_pairs")
    }
    plan: Any = SimpleNamespace(run=run, **nothing, judge_entry=lambda name: SimpleNamespace(pairs=[]))
    said, compared = {"one": ["verdicts of one"], "two": ["verdicts of two"]}, {"two": ["verdicts of two"]}
    monkeypatch.setattr(inputs, "all_verdicts", lambda plan, name: said.get(name, []))
    monkeypatch.setattr(inputs, "compared_verdicts", lambda plan, name: compared.get(name, []))
    corrected = [
        pattern.of(judge=name) for name in ("one", "two") for pattern in (paths.CORRECTED, paths.CORRECTED_DIFFERENCES)
    ]
    with_labels = inputs.validation_files(plan)
    run.human_labels = None
    without = inputs.validation_files(plan)
    assert with_labels == [*without, *corrected, paths.ALIGNMENT.of(judge="two")]


def sets_of_pairs(**keys: Any) -> Any:
    """What is asked of a plan about its sets of pairs: nothing is wrong with them unless `keys` say so."""
    usual = {
        "config": {"preferences": {}}, "run": {"preferences": None}, "preferences": ["s"], "used_sources": ["s"],
        "reward_models": [], "classifiers": [], "pair_source": lambda name: None, "pair_datasets": lambda name: ["a"],
        "datasets": {"a": SimpleNamespace(file_of=lambda *words: None)}, "edition": "demo", **keys,
    }  # fmt: skip
    return SimpleNamespace(**{**usual, **{name: SimpleNamespace(**usual[name]) for name in ("config", "run")}})


def test_files_of_pairs_that_a_run_checks_can_be_had() -> None:
    refused = UserError("datasets.b.demo", "has no demo edition", "set edition: published")

    def copy_of(name: str, edition: str) -> None:
        if (name, edition) == ("b", "demo"):
            raise refused

    files = {"pair_datasets": {"s": ["a", "b"]}.get, "datasets": dict.fromkeys("ab", SimpleNamespace(file_of=copy_of))}
    with pytest.raises(UserError) as fault:
        checks.check_preferences(sets_of_pairs(**files))
    assert fault.value is refused
    checks.check_preferences(sets_of_pairs(**files, edition="published"))
    checks.check_preferences(sets_of_pairs(**files, used_sources=[]))


def pairs_entry(file: str | None = None, loader: str = "own_pairs") -> Any:
    return SimpleNamespace(file=file, loader=loader)


@pytest.mark.parametrize(
    ("keys", "line"),
    [
        (
            {"config": {"preferences": {"own": pairs_entry(), "mathdial": pairs_entry()}}},
            "preferences.mathdial: is the name of a source of training pairs. Fix: give it another name",
        ),
        (
            {"config": {"preferences": {"own": pairs_entry("gone.jsonl")}}},
            "preferences.own.file: gone.jsonl does not exist. Fix: correct it, or remove the key",
        ),
        (
            {"config": {"preferences": {"own": pairs_entry()}}, "run": {"preferences": ["own", "x"]}},
            "run.preferences[1]: 'x' is not in the sets of preferences. Fix: choose one of own",
        ),
        (
            {"config": {"preferences": {"own": pairs_entry()}}, "run": {"preferences": ["own", "own"]}},
            "run.preferences[1]: own is listed twice. Fix: list it once",
        ),
        (
            {"preferences": [], "reward_models": ["r"]},
            "run.preferences: there are no pairs to validate reward models and classifiers on. Fix: list a set of "
            "`preferences`, or remove the key",
        ),
        (
            {"preferences": [], "classifiers": ["c"]},
            "run.preferences: there are no pairs to validate reward models and classifiers on. Fix: list a set of "
            "`preferences`, or remove the key",
        ),
        (
            {"pair_datasets": lambda name: ["a", "b"]},
            "preferences.s.datasets: 'b' is not in the registry. Fix: choose one of a",
        ),
    ],
)
def test_sets_of_pairs_exist_and_are_named_once(keys: dict[str, Any], line: str, tmp_path: Path) -> None:
    file = tmp_path / "pairs.jsonl"
    file.touch()
    fine = {"own": pairs_entry(str(file)), "mathdial": pairs_entry(loader="mathdial")}
    checks.check_preferences(sets_of_pairs(config={"preferences": fine}, run={"preferences": ["own"]}))
    checks.check_preferences(sets_of_pairs(preferences=[]))
    with pytest.raises(UserError) as fault:
        checks.check_preferences(sets_of_pairs(**keys))
    assert fault.value.line == line


@pytest.mark.parametrize(
    ("keys", "line"),
    [
        ({"releases": ["set"]}, "labelled release set: 'b' is not in the registry. Fix: choose one of a"),
        (
            {"run": SimpleNamespace(labels=["set"], predictions=[], judges=[]), "taxonomy_releases": []},
            "run.labels[0]: no judge of run.judges has a rubric for set. Fix: add a judge with a fitting "
            "rubric (rubrics: [r, s]) to run.judges, or remove the release",
        ),
    ],
)
def test_labelled_sets_have_their_files_and_a_judge(
    keys: dict[str, Any], line: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan: Any = SimpleNamespace(
        label_sets={"set": SimpleNamespace()}, releases=[], run=SimpleNamespace(labels=[], predictions=[]),
        edition="demo", label_source=lambda name: SimpleNamespace(labelled=True, about="about the set"),
        label_datasets={"set": ["a", "b"]}.get, datasets={"a": SimpleNamespace(file_of=lambda *words: None)},
    )  # fmt: skip
    monkeypatch.setattr(checks, "check_table", lambda entry: None)
    monkeypatch.setattr(checks, "rubrics_that_fit", {"about the set": ["r", "s"]}.get)
    checks.check_labels(plan)
    vars(plan).update(keys)
    with pytest.raises(UserError) as fault:
        checks.check_labels(plan)
    assert fault.value.line == line


def test_a_selection_of_another_configuration_takes_the_cards_that_were_read(plan: RulePlan) -> None:
    fresh = Selection(plan.config)
    assert fresh.for_config(plan.config).__dict__["_answers"] == {}, "none was"
    path = next(iter(fresh.cards))
    card = fresh.shipped_card(path, plan.run.protocol)
    assert fresh.for_config(plan.config).shipped_card(path, plan.run.protocol) is card


@pytest.mark.parametrize(
    ("prompt", "files"), [("none", []), ("simple", ["simple.txt"]), ("extended", ["extended.txt"])]
)
def test_a_reward_models_instruction_is_part_of_what_a_run_was_made_of(prompt: str, files: list[str]) -> None:
    model = RewardModel.model_validate({"engine": "reward", "weights": {"path": "x"}, "prompt": prompt})
    found = provenance.instruction_of(model)
    assert [path.name for path in found] == files and all(path.is_file() for path in found)


def labelled(*words: str) -> Any:
    """A rubric of one criterion with some labels."""
    criteria = {"c": {"title": "C", "definition": "Is it?", "labels": list(words), "desired": words[0]}}
    rubric = Rubric(
        rubric="r", version=1, title="R", source="ours", kind="labels", answer="json", prompt="p", criteria=criteria
    )
    return SimpleNamespace(rubric=rubric, name=f"of {len(words)}")


def test_two_rubrics_of_a_task_have_one_scale_a_criterion(plan: RulePlan, monkeypatch: pytest.MonkeyPatch) -> None:
    rubrics = {"a": labelled("Yes", "No"), "b": labelled("Yes", "No"), "c": labelled("Yes", "Somewhat", "No")}
    monkeypatch.setattr(checks, "read_rubric", rubrics.get)
    of: Any = SimpleNamespace(people_rubrics={"alike": ["a", "b"], "unlike": ["b", "c"], "one": ["c"]})
    checks.check_shared_scales(of, "alike")
    checks.check_shared_scales(of, "one")
    with pytest.raises(UserError, match=r"^run\.judges: c and b define different labels for the criterion c of unlike"):
        checks.check_shared_scales(of, "unlike")


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("demo-judg", "'demo-judg' is not in config/models.yaml. Fix: did you mean 'demo-judge'?"),
        (
            "demo-judge",
            "is a judge, but a budget applies to the model that answers for it. Fix: use run.budget.models.smollm2-135m",
        ),
        ("mrbench-word-lists", "is a judge without a model. Fix: remove this key"),
    ],
)
def test_a_budget_names_models_that_are_asked(name: str, line: str) -> None:
    with pytest.raises(UserError) as fault:
        plan_of(raw(budget={"models": {"echo": {"requests": 5}, name: {"requests": 5}}}))
    assert fault.value.line == f"run.budget.models.{name}: {line}"


@pytest.mark.parametrize(
    "keys",
    [
        {"tutors": ["m"]},
        {"judges": ["j"]},
        {"taggers": ["j"], "judges": ["served"], "tasks": ["tutorbench/text"]},
    ],
)
def test_money_is_limited_where_whoever_is_asked_has_a_price(keys: dict[str, list[str]]) -> None:
    served = {"engine": "judge", "model": "smollm2-135m", "rubrics": ["tutorbench"]}
    judge = {"engine": "judge", "model": "m", "rubrics": ["mrbench_taxonomy"], "tags": ["tutorbench_bloom"]}

    def run(**own: Any) -> RulePlan:
        kept = {"tutors": ["echo"], "judges": [], "reward_models": [], "tasks": ["mrbench"], "budget": {"usd": 1}}
        config = raw(**{**kept, **keys})
        return plan_of({**config, "models": {**config["models"], "m": {**HOSTED, **own}, "j": judge, "served": served}})

    run(price={"input": 1, "output": 2})
    with pytest.raises(UserError) as fault:
        run()
    assert fault.value.line == "run.budget.usd: expected a price for m, found none. Fix: set models.m.price"


def judged_run(people: Path, *lines: str, **run: Any) -> RulePlan:
    """The plan of a run of one judged benchmark with labels by people. Raises UserError where they do not fit."""
    people.write_text("".join(f"{line}\n" for line in ("task,item,tutor,criterion,annotator,label", *lines)))
    keys = {"tutors": ["echo", "reference"], "judges": ["demo-judge"], "tasks": ["mrbench"], "reward_models": []}
    limits = run.pop("limits", {})
    return plan_of({**raw(**{**keys, **run}, human_labels=str(people)), "limits": limits})


def test_labels_by_people_are_of_this_runs_tutors(tmp_path: Path) -> None:
    people, word = tmp_path / "people.csv", "mistake_remediation,i1,{},Mistake_Identification,ann,Yes"
    judged_run(people, word.format("echo"), word.format("reference"))
    with pytest.raises(UserError) as fault:
        judged_run(people, *map(word.format, ("echo", "ech", "nobody", "reference")))
    assert [line.removeprefix(str(tmp_path)) for line in fault.value.lines.splitlines()] == [
        "/people.csv:3: 'ech' is not in the tutors of this run. Fix: did you mean 'echo'?",
        "/people.csv:4: 'nobody' is not in the tutors of this run. Fix: choose one of always-ask, echo, reference, reveal",
    ]


def test_labels_by_people_are_of_criteria_and_no_larger_than_the_limits(tmp_path: Path) -> None:
    people = tmp_path / "people.csv"
    own = {"judges": ["claude-sonnet-4-judge"], "tasks": ["tutorbench/text"], "tutors": ["echo"]}
    judged_run(people, "text,i1,echo,c01,ann,pass", **own)
    with pytest.raises(UserError, match=r"people\.csv: larger than limits\.labels_mb \(1e-05 MB\)"):
        judged_run(people, "text,i1,echo,c01,ann,pass", limits={"labels_mb": 1e-5}, **own)


@pytest.mark.parametrize(
    ("run", "line"),
    [
        ({"judges": []}, "human labels correct a judge, but run.judges is empty. Fix: add a judge"),
        (
            {"tasks": ["mathtutorbench/problem_solving"]},
            "no selected task is judged. Fix: add mrbench to run.tasks, or remove this key",
        ),
    ],
)
def test_labels_by_people_need_a_judge_and_a_judged_task(run: dict[str, Any], line: str, tmp_path: Path) -> None:
    with pytest.raises(UserError) as fault:
        judged_run(tmp_path / "people.csv", **run)
    assert fault.value.line == f"run.human_labels: {line}"


@pytest.mark.parametrize(
    ("panel", "judge", "found"),
    [("a", "a", None), ("a", "b", "b"), ("a", None, "no rubric"), (None, "b", None), (None, None, None)],
)
def test_a_panels_judges_read_labelled_sets_by_its_rubric(
    panel: str | None, judge: str | None, found: str | None
) -> None:
    by = {"p": panel, "j": judge}
    of: Any = SimpleNamespace(
        judge_entry=lambda name: SimpleNamespace(rubrics=[]), cards={}, judged_releases=lambda name: ["set"],
        rubric_for_release=lambda name, release: by[name] and SimpleNamespace(name=by[name]),
    )  # fmt: skip
    if found is None:
        checks.check_same_rubrics(of, "p", "j")
        return
    with pytest.raises(
        UserError,
        match=rf"^models\.j\.rubrics: set: it uses {found}, and the panel p uses a\. Fix: list the rubrics of p and j in",
    ):
        checks.check_same_rubrics(of, "p", "j")


def test_who_is_asked_in_which_kind_of_job() -> None:
    """By engine: tutors in shards, tutors with one job a benchmark, judges by the model that answers for them."""
    config = many_judges()
    served = {"engine": "vllm", "weights": {"repo": "org/model", "revision": "0" * 40}}
    config["models"] |= {"here": served, "dealt": {**served, "shards": 2}}
    config["models"]["local"] = {**config["models"]["two"], "model": "here"}
    config["run"]["tutors"] = ["here", "dealt", "far", "near", "echo"]
    config["run"]["judges"] = [*config["run"]["judges"], "local"]
    apart = plan_of(config)

    def run_by(names: list[str]) -> list[str]:
        return sorted(set(names) & set(config["run"]["tutors"]))

    assert run_by(apart.sharded_tutors("vllm")) == ["dealt"] and apart.sharded_tutors("hosted") == ["far"]
    assert run_by(apart.sharded_tutors("vllm", "hosted")) == ["dealt", "far"] and apart.packed_tutors == []
    assert run_by(apart.tutors_per_benchmark_job("vllm")) == ["here"]
    assert run_by(apart.tutors_per_benchmark_job("hosted")) == ["near"]
    assert run_by(apart.tutors_per_benchmark_job("vllm", "hosted")) == ["here", "near"]
    assert judges_with_engine(apart, ["one", "local", "two"], "hosted") == ["one", "two"]
    assert judges_with_engine(apart, ["one", "local"], "vllm") == ["local"]
    assert judges_with_engine(apart, ["one", "local"], "vllm", "hosted") == ["one", "local"]
    assert judges_with_engine(apart, [], "vllm", "hosted") == judges_with_engine(apart, ["one"]) == []
    together = plan_of({**config, "servers": {"pack": True}})
    assert run_by(together.packed_tutors) == ["here"] and together.tutors_per_benchmark_job("vllm") == []
    assert run_by(together.tutors_per_benchmark_job("vllm", "hosted")) == ["near"] and together.packed_judges == [
        "local"
    ]


def test_a_judge_is_blind_whose_model_reads_no_pictures() -> None:
    config = many_judges()
    config["models"]["seeing"] = {**HOSTED, "images": True}
    config["models"] |= {
        "eyes": {"engine": "judge", "model": "seeing", "rubrics": ["tutorbench"]},
        "none": {"engine": "judge", "model": "far", "rubrics": ["tutorbench"]},
        "some": {"engine": "judge", "judges": ["eyes", "none"], "rubrics": ["tutorbench"]},
        "all": {"engine": "judge", "judges": ["eyes", "again"], "rubrics": ["tutorbench"]},
        "again": {"engine": "judge", "model": "seeing", "rubrics": ["tutorbench"]},
        "words": {"engine": "judge", "words": True, "rubrics": ["mrbench_taxonomy"]},
    }
    config["run"] |= {"judges": ["eyes", "none", "again"], "taggers": [], "labels": [], "probes": 0,
                      "tasks": ["tutorbench/text", "tutorbench/multimodal"], "tutors": ["echo"]}  # fmt: skip
    plan = plan_of(config)
    pictured, written = plan.card("tutorbench", "multimodal"), plan.card("tutorbench", "text")
    blind = {name: plan.is_blind(name, pictured) for name in ("eyes", "none", "some", "all")}
    assert blind == {"eyes": False, "none": True, "some": True, "all": False}
    assert not any(plan.is_blind(name, written) for name in ("eyes", "none", "some", "all")), "there is nothing to see"


def test_what_answers_as_a_tutor_is_offered() -> None:
    entries = {
        "a": {"engine": "vllm"}, "b": {"engine": "judge"}, "c": {"engine": "hosted"}, "d": {"engine": "recorded"},
        "e": {"engine": "baseline"}, "f": {}, "g": {"engine": "reward"}, "h": {"engine": "weights"},
    }  # fmt: skip
    assert tutor_entries({"models": entries, "datasets": {}}) == ["a", "c", "d"]


def test_schemas_and_the_page_of_keys_are_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = tmp_path / "page.md"
    page.write_text(f"# Ours\n\n{schemas.KEYS_BEGIN}\nold\n{schemas.KEYS_END}\n\nAfter it.\n", encoding="utf-8")
    monkeypatch.setattr(schemas, "CONFIG_PAGE", page)
    schemas.export_schemas(tmp_path / "schemas")
    written = {path.name: path.read_text(encoding="utf-8") for path in (tmp_path / "schemas").iterdir()}
    assert written == schemas.all_schemas() and json.loads(written["config.schema.json"])["required"]
    text = page.read_text(encoding="utf-8")
    assert text == f"# Ours\n\n{schemas.KEYS_BEGIN}\n\n{schemas.config_keys()}\n\n{schemas.KEYS_END}\n\nAfter it.\n"
    assert "| `run.tutors` | " in text and "\nold\n" not in text


def test_what_is_shown_of_pooled_tasks_is_of_each_benchmark() -> None:
    """Two benchmarks with pooled tasks, which no shipped configuration has; all that a run may ask for, then nothing."""
    run = SimpleNamespace(taggers=["j"], difficulty=SimpleNamespace(tutors=["t"]), human_labels=["labels.csv"])
    plan: Any = SimpleNamespace(
        pooled_benchmarks=["one", "two"],
        tutors_on={"one": ["a", "b"], "two": ["b"]}.__getitem__,
        pooled_judges={"one": ["j", "k"], "two": ["k"]}.__getitem__,
        run=run,
    )
    breakdowns = [f"results/scores/breakdowns/{place}.json" for place in ("one/a", "one/b", "two/b")]
    assert inputs.pooled_files(plan) == [
        *breakdowns[:2],
        "results/scores/tags/one.json",
        "results/scores/difficulty/one.csv",
        "results/validation/j/raters/one.json",
        "results/validation/k/raters/one.json",
        *breakdowns[2:],
        "results/scores/tags/two.json",
        "results/scores/difficulty/two.csv",
        "results/validation/k/raters/two.json",
    ]
    run.taggers, run.difficulty.tutors, run.human_labels = [], [], []
    assert inputs.pooled_files(plan) == breakdowns


def test_the_page_rests_on_what_extensions_add(plan: RulePlan, monkeypatch: pytest.MonkeyPatch) -> None:
    extensions = tuple(SimpleNamespace(report_files=lambda plan, name=name: {name: [name]}) for name in ("one", "two"))
    monkeypatch.setattr(rules, "EXTENSIONS", extensions)
    own = inputs.build_report(plan)
    assert plan.inputs_of("build_report")({}) == {**own, "one": ["one"], "two": ["two"]}  # type: ignore[arg-type]
    tables = {"benchmark": "mrbench"}
    assert plan.inputs_of("compare_tutors")(tables) == inputs.compare_tutors(plan, **tables)  # type: ignore[arg-type]


def test_tutors_share_a_judges_jobs_in_their_order() -> None:
    """The baselines that a card names have one of their own, which is there without any."""
    config = raw(tutors=["c", "echo", "a", "reveal", "b"], tasks=["mrbench"])
    config["models"] |= dict.fromkeys("abc", HOSTED)
    plan = Plan(check_config(config))
    cards = plan.judge_cards("mrbench")
    baselines = [name for name in plan.tutors if any(name in card.baselines.named for card in cards)]
    assert "reveal" in baselines and "echo" not in baselines
    assert plan.batches_of(cards, 2) == {"_baselines": baselines, "_tutors0": ["c", "a"], "_tutors1": ["b"]}
    assert plan.batches_of(cards, 1) == {"_baselines": baselines, "c": ["c"], "a": ["a"], "b": ["b"]}
    assert plan.batches_of([], 2) == {"_baselines": []}


def test_pairs_are_made_of_the_files_that_their_entry_names(tmp_path: Path) -> None:
    file = tmp_path / "pairs.csv"
    file.touch()
    config = raw(preferences=["mine", "own"])
    config["preferences"]["mine"] = {**config["preferences"]["bridge"], "datasets": ["bridge_test"]}
    config["preferences"]["own"] = {"title": "Own", "licence": "CC0-1.0", "loader": "table", "file": str(file)}
    plan = Plan(check_config(config))
    assert plan.pair_datasets("mine") == ["bridge_test"] and plan.pair_datasets("own") == []
    assert plan.pair_datasets("mathdial") == list(plan.pair_source("mathdial").datasets) != []


def test_tutors_are_compared_by_the_judges_of_each_task() -> None:
    """Where no judge grades a benchmark, its judged headlines are said to be absent, and no task is waited for."""
    plan = judged(["mrbench_taxonomy"])
    of_mrbench, of_kmpbench = (jobs.compare_tutors(plan, benchmark) for benchmark in ("mrbench", "kmpbench"))
    assert of_mrbench.judging == {"mistake_remediation": ["demo-judge"]} and "judge" not in of_mrbench.absent
    assert of_kmpbench.judging == {} and of_kmpbench.absent == jobs.absent_grader_kinds(plan, "kmpbench") == ["judge"]
    without = Plan(check_config(raw(tutors=["echo"], tasks=["mrbench"], judges=[])))
    assert jobs.compare_tutors(without, "mrbench").judging == {} and "judge" in jobs.absent_grader_kinds(
        without, "mrbench"
    )


def test_the_configuration_is_kept_in_its_own_letters(tmp_path: Path) -> None:
    config = {"models": {"größe": {"label": "导师", "price": None}}, "run": {"tutors": ["größe"]}}
    saved = tmp_path / "config.yaml"
    save_config(job=SaveConfig(config=config, provenance={}), out=saved, provenance=tmp_path / "provenance.json")
    assert saved.read_text(encoding="utf-8") == (
        "models:\n  größe:\n    label: 导师\n    price: null\nrun:\n  tutors:\n  - größe\n"
    )


def test_why_a_tutor_is_not_asked_is_said_in_the_pages_words() -> None:
    config = raw(tutors=["reference", "blind", "seeing"], tasks=["mathtutorbench", "tutorbench"])
    config["models"] |= {"blind": {**HOSTED, "images": False}, "seeing": {**HOSTED, "images": True}}
    plan = Plan(read_config(config))
    chosen = [loaded.card for loaded in plan.cards.values()]
    pictures = next(card for card in chosen if card.images)
    unanswered = next(card for card in chosen if not LOADERS[card.loader].has_human_reply)
    assert plan.why_not_answerable(pictures, "blind") == "this tutor does not accept pictures"
    assert plan.why_not_answerable(unanswered, "reference") == "these items have no human reply"
    assert plan.why_not_answerable(pictures, "seeing") is plan.why_not_answerable(unanswered, "seeing") is None
