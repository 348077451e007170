"""Tests of the plan: the tutors, graders, jobs and files of the demo, of shipped run files and of smaller runs."""

from __future__ import annotations

import inspect
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from maieutic.config import cards
from maieutic.config.models import RewardModel, VllmModel, WeightsOnly
from maieutic.config.rubrics import Rubric, read_rubric
from maieutic.core.errors import UserError
from maieutic.judges import stage as judges_stage
from maieutic.launch.shell_lines import judges_with_engine
from maieutic.plan import checks, digest, inputs
from maieutic.plan.inputs import entry_for_scoring, entry_for_training
from maieutic.plan.plan import Plan
from maieutic.plan.rules import RulePlan, template_files
from maieutic.plan.syntax import Name
from maieutic.preparation import stage as preparation_stage
from maieutic.replies import stage as replies_stage
from maieutic.run_plan import plan_of
from maieutic.scores import stage as scores_stage
from maieutic.validation import stage as validation_stage
from rule_inputs import input_sections, input_sources, inputs_of
from run_configs import HOSTED, RUNS, check_config, demo, job_functions, many_judges, our_own, places, rule_bodies
from shipped import shipped


def raw(**run: object) -> dict[str, Any]:
    """Return the configuration of the demo with keys of `run` replaced."""
    merged = shipped()
    return {**merged, "run": {**merged["run"], **run}}


@pytest.fixture(scope="module")
def plan() -> RulePlan:
    """Return the plan of the demo with a recorded tutor added."""
    return plan_of(demo())


def test_the_plan_of_another_configuration_reads_no_card_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Cards that were read are reused; everything that depends on the configuration is computed again."""
    first = plan_of(raw(tasks=["mrbench"], tutors=["echo"]))
    assert first.tutors_on("mrbench")[0] == "echo" and list(first.benchmarks) == ["mrbench"]
    original, read_names = cards.read_card, []

    def recording(path: Path, protocol: str) -> cards.LoadedCard:
        read_names.append(path.stem)
        return original(path, protocol)

    monkeypatch.setattr(cards, "read_card", recording)
    second = first.for_config(plan_of(raw(tasks=["mrbench"], tutors=["reference"])).config)
    read_names.clear()
    assert type(second) is type(first) and second.run.tutors == ["reference"]
    assert second.tutors_on("mrbench")[0] == "reference" and first.tutors_on("mrbench")[0] == "echo"
    assert second.cards.keys() == first.cards.keys() and read_names == [], "the card is known"
    third = second.for_config(plan_of(raw(tasks=["mathtutorbench/problem_solving"], tutors=["echo"])).config)
    read_names.clear()
    assert [path.stem for path in third.cards] == ["problem_solving"] == read_names, "only the new card is read"


def jobs_of_rules(plan: RulePlan) -> Iterator[tuple[str, Any, dict[str, str]]]:
    """Yield each rule with the function for its jobs and the wildcards of each job in the run."""
    for rule, function in job_functions().items():
        for place in places(plan, rule, list(inspect.signature(function).parameters)[1:]):
            yield rule, function, place


@pytest.mark.parametrize("run", RUNS)
def test_every_job_of_a_run_survives_a_round_trip_as_json(run: str) -> None:
    plan = plan_of(RUNS[run]())
    checked_rules = set()
    for rule, function, place in jobs_of_rules(plan):
        job = function(plan, **place)
        parsed = type(job).model_validate_json(job.to_json())
        assert parsed == job and parsed.to_json() == job.to_json(), (rule, place)
        assert plan.job_of(rule)(place) == job.to_json(), "the same job from a dictionary of wildcards"
        checked_rules.add(rule)
    assert {"score_replies", "save_config"} <= checked_rules


def outputs_of_rules() -> list[re.Pattern[str]]:
    """Return patterns of the outputs of all rules, with any wildcard values."""
    texts = "\n".join(path.read_text(encoding="utf-8") for path in sorted(Path("workflow/rules").glob("*.smk")))
    patterns = []
    for block in re.findall(r"^    output:\n((?:        .*\n)+)", texts, re.MULTILINE):
        patterns += re.findall(r'"(results/[^"]+)"', block.replace("{{", "{").replace("}}", "}"))
    expressions = [re.sub(r"\\\{\w+\\\}", "[^/]+", re.escape(pattern)) for pattern in patterns]
    return [re.compile(pattern.replace("results/[^/]+/", "results/(?:report|runs/[^/]+)/")) for pattern in expressions]


@pytest.mark.parametrize("run", RUNS)
def test_every_input_of_a_run_is_the_output_of_a_rule_or_a_file(run: str) -> None:
    plan, outputs, unknown_files = plan_of(RUNS[run]()), outputs_of_rules(), set()
    assert len(outputs) > 60
    for rule, _, place in jobs_of_rules(plan):
        for files in inputs_of(plan, rule)(place).values() if rule in input_sections() else ():
            for file in [files] if isinstance(files, str) else files:
                if not (any(output.fullmatch(file) for output in outputs) or Path(file).exists()):
                    unknown_files.add((rule, file))
    assert unknown_files == set()


def test_jobs_and_selected_inputs_use_only_wildcards_of_their_rule() -> None:
    checked = 0
    for path in sorted(Path("workflow/rules").glob("*.smk")):
        for rule, body in re.findall(
            r"^rule (\w+):\n((?:    .*\n|\n)+)", path.read_text(encoding="utf-8"), re.MULTILINE
        ):
            output = body.partition("    output:\n")[2].partition("\n    log:")[0].replace("{{", "{")
            wildcards = {"plan", "step", *re.findall(r"\{(\w+)\}", output)} - {"RUN"}
            sources = input_sources(rule).values() if rule in input_sections() and rule != "build_report" else ()
            for function in [*filter(callable, sources), *filter(None, [job_functions().get(rule)])]:
                assert set(inspect.signature(function).parameters) <= wildcards, (rule, function)
                checked += 1
    assert checked > 150


def test_a_hundred_tutors_read_no_more_cards_than_a_few(monkeypatch: pytest.MonkeyPatch) -> None:
    names = [f"echo-{number}" for number in range(100)]
    config = raw(tutors=names)
    config["models"] |= {name: {"engine": "baseline", "tutor": "echo"} for name in names}
    count = files = 0
    original, read_yaml = cards.read_card, cards.read_yaml

    def counting(path: Path, protocol: str = cards.RELEASED) -> cards.LoadedCard:
        nonlocal count
        count += 1
        return original(path, protocol)

    def counting_read(path: Path) -> Any:
        nonlocal files
        files += 1
        return read_yaml(path)

    monkeypatch.setattr(cards, "read_card", counting)
    monkeypatch.setattr(cards, "read_yaml", counting_read)
    plan = plan_of(config)
    files_before = files
    for benchmark in plan.benchmarks:
        for name in names:
            replies_stage.tutor_prompts(plan, benchmark, name)
            scores_stage.score_replies_job(plan, benchmark, name)
    assert count == len(plan.cards)
    assert files - files_before <= 4 * len(plan.cards), "cards, the cards that they extend, and rubrics: once a run"


def test_scoring_keys_retrain_nothing_and_training_keys_rescore_nothing() -> None:
    train = {"base": "b", "mix": {"mrbench": 1.0}}
    entry = RewardModel(engine="reward", train=train)
    budget = entry.model_copy(update={"token_budget": 9, "dtype": "float32"})
    assert entry_for_training(budget) == entry_for_training(entry)
    assert entry_for_scoring(budget) != entry_for_scoring(entry)
    often = RewardModel(engine="reward", train={**train, "checkpoint_seconds": 1, "epochs": 2})
    assert entry_for_scoring(often) == entry_for_scoring(entry)
    assert entry_for_training(often) != entry_for_training(entry)


def judged_plan(rubrics: list[str], **run: object) -> Plan:
    """Return the plan of two benchmarks and a judge with these rubrics."""
    config = raw(tutors=["echo"], tasks=["mrbench", "kmpbench/ec"], judges=["demo-judge"], **run)
    config["models"]["demo-judge"] = {"engine": "judge", "model": "smollm2-135m", "rubrics": rubrics}
    return Plan(check_config(config))


def test_a_judge_judges_the_tasks_that_it_has_a_rubric_for() -> None:
    """A task without a rubric keeps its parsers, and its scoring job lists it as unjudged."""
    plan = judged_plan(["mrbench_taxonomy"])
    assert plan.tasks_without_rubric == {"kmpbench": ["ec"]} and plan.judged_benchmarks() == ["mrbench"]
    assert plan.judges_of("kmpbench", "echo") == [] and not plan.judge_cards("kmpbench")
    assert scores_stage.score_replies_job(plan, "kmpbench", "echo").unjudged == ["ec"]
    assert [name for name, metric in plan.card("kmpbench", "ec").metrics.items() if metric.headline] == ["f1"]
    both = judged_plan(["mrbench_taxonomy", "kmp_error_reason"])
    assert both.tasks_without_rubric == {} and both.judged_benchmarks() == ["kmpbench", "mrbench"]


def test_a_users_rubric_judges_the_tasks_of_the_rubric_that_it_extends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A card of four lines beside the shipped ones, with the prompt of the rubric that it extends."""
    for folder in ("resources", "config"):
        shutil.copytree(folder, tmp_path / folder)
    monkeypatch.chdir(tmp_path)
    card = tmp_path / "resources/rubrics/mine.yaml"
    card.write_text("like: mrbench_taxonomy\nrubric: mine\ntitle: Mine\nmax_tokens: 99\n", encoding="utf-8")
    read_rubric.cache_clear()
    plan = judged_plan(["mine"])
    assert plan.tasks_without_rubric == {"kmpbench": ["ec"]} and plan.reply_rubrics("demo-judge", "mrbench") == ["mine"]
    assert read_rubric("mine").prompt == read_rubric("mrbench_taxonomy").prompt
    files = inputs.rubric_files(["mine"])
    assert "resources/rubrics/mine.yaml" in files
    assert any("mrbench/rubrics/mrbench_taxonomy.jinja" in file for file in files)
    assert plan.validating_releases("demo-judge")[:1] == ["mrbench"], "validated on the same labels"
    (tmp_path / "resources/benchmarks/kmpbench/rubrics/mine.yaml").write_text(card.read_text(), encoding="utf-8")
    read_rubric.cache_clear()
    with pytest.raises(UserError, match=r"kmpbench/rubrics/mine.yaml has the same name"):
        judged_plan(["mine"])
    read_rubric.cache_clear()


def test_an_added_grader_changes_only_scores_that_depend_on_it() -> None:
    """A reward model or a judge of one benchmark does not re-run the scores of others."""
    no_other_graders: dict[str, list[str]] = {"reward_comparisons": [], "classifiers": [], "judges": [], "taggers": []}
    without = Plan(check_config(raw(reward_models=[], **no_other_graders)))
    rewarded = Plan(check_config(raw(**no_other_graders)))
    assert rewarded.run.reward_models and not without.run.reward_models

    def changed(after: Plan) -> set[str]:
        tutor = after.run.tutors[0]
        jobs_of = {
            name: [scores_stage.score_replies_job(plan, name, tutor) for plan in (without, after)]
            for name in without.benchmarks
        }
        return {name for name, (old, new) in jobs_of.items() if old.to_json() != new.to_json()}

    assert changed(rewarded) == {"mathtutorbench"}
    assert scores_stage.score_replies_job(without, "mathtutorbench", without.run.tutors[0]).absent == ["reward"]
    assert scores_stage.score_replies_job(without, "mrbench", without.run.tutors[0]).absent == ["judge"]


def test_a_digest_is_of_the_code_that_a_job_uses(plan: RulePlan) -> None:
    """A job without plug-ins depends on its whole command, and the report on its templates and style sheets too."""
    assert plan.code_of("save_config") == digest.code_of("save-config")
    files = template_files("build-report")
    assert plan.code_of("build_report") == digest.code_of("build-report", None, files) != digest.code_of("build-report")
    assert {file.suffix for file in files} == {".css", ".js", ".jinja"}


# By rule: the wildcards of a job, and plug-in modules of benchmarks that its digest follows and that it leaves out
PLUGINS_OF_JOBS = [
    ("make_items", {"benchmark": "mrbench", "task": "mistake_remediation"}, set(), {"kmpbench.loaders"}),
    ("generate_replies", {"benchmark": "mrbench", "tutor": "far"}, {"serving.backends"}, {"replies.baselines"}),
    ("generate_replies", {"benchmark": "mrbench", "tutor": "echo"}, {"replies.baselines"}, {"kmpbench.baselines", "tutorbench.baselines"}),
    ("parse_replies", {"benchmark": "mrbench", "tutor": "echo"}, set(), {"kmpbench.graders"}),
    ("parse_replies", {"benchmark": "mathtutorbench", "tutor": "echo"}, {"mathtutorbench.graders"}, {"kmpbench.graders"}),
    ("score_replies", {"benchmark": "kmpbench", "tutor": "echo"}, {"kmpbench.metrics", "kmpbench.graders"}, set()),
    ("compare_tutors", {"benchmark": "mrbench"}, set(), {"kmpbench.metrics", "kmpbench.graders"}),
    ("judge_replies", {"judge": "one", "benchmark": "kmpbench", "batch": "far"}, {"kmpbench.conditions"}, set()),
    ("judge_replies", {"judge": "one", "benchmark": "mrbench", "batch": "far"}, set(), {"kmpbench.conditions"}),
    ("judge_by_words", {"judge": "words", "benchmark": "mrbench", "batch": "far"}, {"mrbench.heuristics"}, {"kmpbench.heuristics"}),
    ("validate_judge", {"judge": "one"}, {"mrbench.heuristics"}, {"kmpbench.heuristics"}),
    ("make_labels", {"release": "mrbench"}, {"mrbench.releases"}, {"kmpbench.releases"}),
    ("score_labels", {"release": "mrbench"}, {"mrbench.toolkit"}, set()),
    ("align_judge", {"judge": "one"}, {"kmpbench.metrics"}, set()),
    ("align_judge", {"judge": "two"}, set(), {"kmpbench.metrics"}),
]  # fmt: skip


@pytest.mark.parametrize(("rule", "wildcards", "followed", "left_out"), PLUGINS_OF_JOBS)
def test_a_digest_follows_the_plug_ins_that_a_job_uses(
    rule: str, wildcards: dict[str, str], followed: set[str], left_out: set[str]
) -> None:
    config = many_judges()
    config["run"]["tasks"] = [*config["run"]["tasks"], "mathtutorbench/problem_solving", "kmpbench/dialogue"]
    config["models"]["one"] = {
        **config["models"]["one"],
        "rubrics": [*config["models"]["one"]["rubrics"], "kmp_dialogue"],
    }
    plan = plan_of(config)
    instead = next(part.used_code[rule] for part in plan.slices if rule in part.used_code)(plan, **wildcards)
    command = rule.replace("_", "-")
    closure = {name.module.removeprefix("benchmarks.") for name in digest.closure_of(command, instead)}
    whole = {name.module.removeprefix("benchmarks.") for name in digest.closure_of(command)}
    assert followed <= closure and not left_out & closure and left_out <= whole
    code = plan.code_of(rule)
    assert callable(code) and code(wildcards) == digest.code_of(command, instead)


def test_pairs_in_a_users_file_depend_on_no_pair_source() -> None:
    plan = plan_of(our_own())
    code = plan.code_of("make_pairs")
    assert callable(code)
    sources = {Name("datasets.pairs", "PAIR_SOURCES"): (Name("datasets.pair_sources", "PairSource"),)}
    assert code({"source": "ours"}) == digest.code_of("make-pairs", sources) != code({"source": "bridge"})
    code = plan.code_of("make_pairs")
    assert callable(code) and code({"source": "mathdial"}) != code({"source": "bridge"})


def test_a_job_asks_the_machine_for_what_its_model_needs(plan: RulePlan) -> None:
    served, judged = {"benchmark": "mrbench", "tutor": "smollm2-135m"}, {"judge": "demo-judge", "batch": "x"}
    assert (plan.threads(served), plan.memory(served)) == (2, 6000) == (plan.threads(judged), plan.memory(judged))
    assert plan.models_of(judged) == plan.models_of(served) == ["smollm2-135m"]
    trained = {"reward_model": "demo-reward-model"}
    assert (plan.threads(trained), plan.memory(trained)) == (1, 4000)
    assert plan.models_of({"benchmark": "mrbench"}) == []


@pytest.mark.parametrize(("entry", "with_code"), [
    ({"engine": "vllm"}, False), ({"engine": "vllm", "trust_remote_code": True}, True), ({"engine": "weights"}, False),
    ({"engine": "reward"}, False), ({"engine": "reward", "trust_remote_code": True}, True),
    ({"engine": "reward", "trust_remote_code": True, "adapter": "internlm2"}, True),
    ({"engine": "reward", "adapter": "internlm2"}, True),
])  # fmt: skip
def test_weights_are_fetched_with_code_only_if_it_runs(entry: dict[str, Any], with_code: bool, plan: RulePlan) -> None:
    weights = {"repo": "org/m", "revision": "0" * 40}
    kinds = {"vllm": VllmModel, "weights": WeightsOnly, "reward": RewardModel}
    model = kinds[entry["engine"]].model_validate({**entry, "weights": weights})
    job = preparation_stage.prepare_weights_job(SimpleNamespace(models={"m": model}), "m")  # type: ignore[arg-type]
    assert (job.model, job.weights, job.with_code) == ("m", model.weights, with_code)


def test_max_tokens_of_the_run_reach_the_tutors_jobs() -> None:
    config = shipped()
    config["run"]["max_tokens"] = 77
    plan = plan_of(config)
    benchmark, tutor = next((name, tutor) for name in plan.benchmarks for tutor in plan.tutors_on(name))
    assert replies_stage.generate_replies_job(plan, benchmark, tutor).max_tokens == 77


@pytest.mark.parametrize(("key", "line"), [
    ("dataset", "dataset: 'x' is not in the registry. Fix: choose one of "),
    ("loader", "loader: 'x' is not in the registry. Fix: choose one of "),
    ("graders", "graders: 'x' is not in the registry. Fix: choose one of "),
])  # fmt: skip
def test_an_unknown_name_in_a_card_is_reported_by_its_key(key: str, line: str, plan: RulePlan) -> None:
    path, loaded = next(iter(plan.cards.items()))
    value = ["x"] if key == "graders" else "x"
    with pytest.raises(UserError) as fault:
        checks.check_card(plan, path, loaded.model_copy(update={"card": loaded.card.model_copy(update={key: value})}))
    assert fault.value.line.startswith(f"{path}: {line}")


def test_each_judge_needs_a_rubric_for_a_task_of_the_run() -> None:
    """A judge whose rubrics fit no task of the run is refused, even if another judge has a task."""
    config = raw(tasks=["mrbench", "kmpbench/ec"], tutors=["echo"], judges=["one", "two"], reward_models=[], labels=[])
    entry = {"engine": "judge", "model": "smollm2-135m", "rubrics": ["mrbench_taxonomy"]}

    def planned(rubric: str) -> RulePlan:
        return plan_of({**config, "models": {**config["models"], "one": entry, "two": {**entry, "rubrics": [rubric]}}})

    planned("mrbench_critic")
    with pytest.raises(UserError) as fault:
        planned("pairs_simple")
    assert fault.value.line.startswith("run.judges[1]: two has no rubric for any task in run.tasks. Fix: add one of ")


def test_a_card_without_the_runs_edition_is_reported_by_its_datasets(plan: RulePlan) -> None:
    """All datasets without the edition are reported together."""
    with pytest.raises(UserError) as fault:
        plan_of(raw(tasks=["tutorbench"], tutors=["echo"], judges=[]))
    names = ("tutorbench_copy", "tutorbench_sample")
    problem = "this dataset has no demo edition. Fix: set edition: published"
    assert fault.value.lines.splitlines() == [f"datasets.{name}.demo: {problem}" for name in names]


def with_tutor(task: str, **keys: Any) -> RulePlan:
    """Return the plan of one task, a hosted tutor `m` and a baseline. keys: keys of the tutor's entry."""
    config = raw(tasks=[task], tutors=["echo", "m"], judges=[], reward_models=[])
    return plan_of({**config, "models": {**config["models"], "m": {**HOSTED, **keys}}})


@pytest.mark.parametrize("task", ["kmpbench/ec", "kmpbench/fqa", "tutorbench/text"])
def test_a_completions_endpoint_is_refused_for_conversations(task: str) -> None:
    with_tutor(task)
    with_tutor("mathtutorbench/problem_solving", endpoint="completions")
    with pytest.raises(UserError) as fault:
        with_tutor(task, endpoint="completions")
    assert fault.value.line == (
        f"models.m.endpoint: {task} is a conversation, but a completion takes a single prompt. Fix: set endpoint: chat, "
        "remove the key (the default is chat), or remove the task from run.tasks"
    )


CHANGED_RUBRICS = [
    ("mrbench_taxonomy", {"when": "x"}, "when: 'x' is not in the list of conditions for rubrics. Fix: choose one of " + ", ".join(judges_stage.CONDITIONS)),
    ("pairs_simple", {"both_orders": False}, "showing pairs in only one order allows position bias. Fix: set both_orders: true"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "changed", "line"), CHANGED_RUBRICS)
def test_a_judges_cards_are_checked_by_name(
    name: str, changed: dict[str, Any], line: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    entry = {"engine": "judge", "model": "smollm2-135m", "rubrics": ["mrbench_taxonomy"], "pairs": ["pairs_simple"]}
    config = raw(tasks=["mrbench"], tutors=["echo"], judges=["j"], reward_models=[])
    config["models"]["j"] = entry
    plan_of(config)
    original = judges_stage.read_rubric

    def read(rubric: str) -> Any:
        loaded = original(rubric)
        update = {"rubric": loaded.rubric.model_copy(update=changed)}
        return loaded.model_copy(update=update) if rubric == name else loaded

    monkeypatch.setattr(judges_stage, "read_rubric", read)
    with pytest.raises(UserError) as fault:
        plan_of(config)
    assert fault.value.line == f"{judges_stage.rubric_path(name)}: {line}"


def labels_rubric(*labels: str) -> Any:
    """Return a rubric of one criterion with these labels."""
    criteria = {"c": {"title": "C", "definition": "Is it?", "labels": list(labels), "desired": labels[0]}}
    rubric = Rubric(
        rubric="r", version=1, title="R", source="ours", kind="labels", answer="json", prompt="p", criteria=criteria
    )
    return SimpleNamespace(rubric=rubric, name=f"of {len(labels)}")


def test_two_rubrics_of_a_task_have_one_scale_a_criterion(plan: RulePlan, monkeypatch: pytest.MonkeyPatch) -> None:
    rubrics = {
        "a": labels_rubric("Yes", "No"),
        "b": labels_rubric("Yes", "No"),
        "c": labels_rubric("Yes", "Somewhat", "No"),
    }
    monkeypatch.setattr(validation_stage, "read_rubric", rubrics.get)
    selection: Any = SimpleNamespace(people_rubrics={"alike": ["a", "b"], "unlike": ["b", "c"], "one": ["c"]})
    validation_stage.check_shared_scales(selection, "alike")
    validation_stage.check_shared_scales(selection, "one")
    problem = r"^run\.judges: c and b define different labels for the criterion c of the task unlike"
    with pytest.raises(UserError, match=problem):
        validation_stage.check_shared_scales(selection, "unlike")


@pytest.mark.parametrize("keys", [
    {"tutors": ["m"]}, {"judges": ["j"]}, {"taggers": ["j"], "judges": ["served"], "tasks": ["tutorbench/text"]},
])  # fmt: skip
def test_a_budget_in_usd_needs_the_price_of_each_called_model(keys: dict[str, list[str]]) -> None:
    served = {"engine": "judge", "model": "smollm2-135m", "rubrics": ["tutorbench"]}
    judge = {"engine": "judge", "model": "m", "rubrics": ["mrbench_taxonomy"], "tags": ["tutorbench_bloom"]}

    def run(**entry_keys: Any) -> RulePlan:
        defaults = {"tutors": ["echo"], "judges": [], "reward_models": [], "tasks": ["mrbench"], "budget": {"usd": 1}}
        config = raw(**{**defaults, **keys})
        return plan_of(
            {**config, "models": {**config["models"], "m": {**HOSTED, **entry_keys}, "j": judge, "served": served}}
        )

    run(price={"input": 1, "output": 2})
    with pytest.raises(UserError) as fault:
        run()
    assert fault.value.line == "run.budget.usd: expected a price for m, found none. Fix: set models.m.price"


def judged_run(people: Path, *rows: str, **run: Any) -> RulePlan:
    """Return the plan of a run of one judged benchmark with human labels. Raises UserError if the labels do not fit."""
    people.write_text("".join(f"{line}\n" for line in ("task,item,tutor,criterion,annotator,label", *rows)))
    keys = {"tutors": ["echo", "reference"], "judges": ["demo-judge"], "tasks": ["mrbench"], "reward_models": []}
    limits = run.pop("limits", {})
    return plan_of({**raw(**{**keys, **run}, human_labels=str(people)), "limits": limits})


def test_labels_by_people_are_of_criteria_and_no_larger_than_the_limits(tmp_path: Path) -> None:
    people = tmp_path / "people.csv"
    keys = {"judges": ["claude-sonnet-4-judge"], "tasks": ["tutorbench/text"], "tutors": ["echo"]}
    judged_run(people, "text,i1,echo,c01,ann,pass", **keys)
    with pytest.raises(UserError, match=r"people\.csv: the file is larger than limits\.labels_mb \(1e-05 MB\)"):
        judged_run(people, "text,i1,echo,c01,ann,pass", limits={"labels_mb": 1e-5}, **keys)


def test_models_are_called_in_the_right_kind_of_job() -> None:
    """Tutors in shards, tutors with one job a benchmark, and judges by the engine of the model that answers for them."""
    config = many_judges()
    served = {"engine": "vllm", "weights": {"repo": "org/model", "revision": "0" * 40}}
    config["models"] |= {"here": served, "dealt": {**served, "shards": 2}}
    config["models"]["local"] = {**config["models"]["two"], "model": "here"}
    config["run"]["tutors"] = ["here", "dealt", "far", "near", "echo"]
    config["run"]["judges"] = [*config["run"]["judges"], "local"]
    separate = plan_of(config)

    def run_tutors(names: list[str]) -> list[str]:
        return sorted(set(names) & set(config["run"]["tutors"]))

    assert run_tutors(separate.sharded_tutors("vllm")) == ["dealt"] and separate.sharded_tutors("hosted") == ["far"]
    assert run_tutors(separate.sharded_tutors("vllm", "hosted")) == ["dealt", "far"]
    assert run_tutors(separate.tutors_per_benchmark_job("vllm")) == ["here"]
    assert run_tutors(separate.tutors_per_benchmark_job("hosted")) == ["near"]
    assert run_tutors(separate.tutors_per_benchmark_job("vllm", "hosted")) == ["here", "near"]
    assert judges_with_engine(separate, ["one", "local", "two"], "hosted") == ["one", "two"]
    assert judges_with_engine(separate, ["one", "local"], "vllm") == ["local"]
    assert judges_with_engine(separate, ["one", "local"], "vllm", "hosted") == ["one", "local"]
    assert judges_with_engine(separate, [], "vllm", "hosted") == judges_with_engine(separate, ["one"]) == []


def test_a_panel_is_blind_if_a_model_of_its_judges_reads_no_pictures() -> None:
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
    assert not any(plan.is_blind(name, written) for name in ("eyes", "none", "some", "all")), "no pictures"


def test_tutors_share_a_judges_jobs_in_their_order() -> None:
    """The baselines of the cards form their own batch, if there are any."""
    config = raw(tutors=["c", "echo", "a", "reveal", "b"], tasks=["mrbench"])
    config["models"] |= dict.fromkeys("abc", HOSTED)
    plan = Plan(check_config(config))
    cards = plan.judge_cards("mrbench")
    baselines = [name for name in plan.tutors if any(name in card.baselines.named for card in cards)]
    assert "reveal" in baselines and "echo" not in baselines
    assert plan.batches_of(cards, 2) == {"_baselines": baselines, "_tutors0": ["c", "a"], "_tutors1": ["b"]}
    assert plan.batches_of(cards, 1) == {"_baselines": baselines, "c": ["c"], "a": ["a"], "b": ["b"]}
    assert plan.batches_of([], 2) == {}


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
    """For a benchmark without a judge, its judged headlines are listed as absent."""
    plan = judged_plan(["mrbench_taxonomy"])
    of_mrbench, of_kmpbench = (
        scores_stage.compare_tutors_job(plan, benchmark) for benchmark in ("mrbench", "kmpbench")
    )
    assert of_mrbench.judging == {"mistake_remediation": ["demo-judge"]} and "judge" not in of_mrbench.absent
    assert of_kmpbench.judging == {}
    assert of_kmpbench.absent == scores_stage.absent_grader_kinds(plan, "kmpbench") == ["judge"]
    without = Plan(check_config(raw(tutors=["echo"], tasks=["mrbench"], judges=[])))
    assert scores_stage.compare_tutors_job(without, "mrbench").judging == {}
    assert "judge" in scores_stage.absent_grader_kinds(without, "mrbench")


# Rules that train or score with a model and never send a request
NEVER_HOSTED = {
    "train_reward_model", "embed_replies", "score_pairs", "check_scorer", "score_rewards", "train_criteria", "classify_pairs",
    "tune_tutor",
}  # fmt: skip


def test_every_rule_that_can_call_a_hosted_model_has_a_twin_beside_snakemake() -> None:
    """A job on a GPU node may have no network."""
    bodies = {rule: body for rule, (_, body) in rule_bodies().items()}
    submitted = {rule for rule, body in bodies.items() if "**MODEL_JOB" in body}
    assert submitted >= NEVER_HOSTED
    for rule in submitted - NEVER_HOSTED:
        assert "localrule: True" in bodies[f"{rule}_locally"], rule
