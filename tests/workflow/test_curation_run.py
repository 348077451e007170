"""Tests of a run from seeds to a tuned tutor: scripted roles, a real fine-tuning, and the stub engine as its server."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd
import pytest
import yaml
from curator import SEED, Curator, counting, curation, entries, roles, seeded
from httpserver import serving
from maieutic.config import curation as config_of_curations
from maieutic.config.models import Weights
from maieutic.core import files
from maieutic.core.errors import UserError
from maieutic.core.records import Judgement, read_records
from maieutic.curation import stage
from maieutic.curation.records import Seed
from maieutic.run_plan import plan_of
from running import overlay, planned, run
from small import stub_of

SEEDS = 12
RULES_WITH_REQUESTS = ("make_components", "write_flows", "write_dialogues")


class FinishedRun(NamedTuple):
    """A checkout, its run file, and the scripted server with its address."""

    folder: Path
    config: Path
    script: Curator
    address: str


def configure(folder: Path, address: str, tiny: Path) -> Path:
    """Write a run file with a curation of twelve seeds, a tuning on its training set, and base and tuned tutor."""
    served = stub_of(folder, pace=0.005)
    sets_of = {f"kmp_{name}": {"demo": {"curated": f"c/{name}"}} for name in ("skills", "dialogues")}
    models = {
        **entries(address),
        "tiny": {**served, "weights": {"path": str(tiny)}},
        "tuned": {**served, "weights": {"tuned": "t"}},
        "rater": {"engine": "judge", "model": "one", "rubrics": ["mrbench_taxonomy"]},
    }
    tunings = {
        "t": {
            "base": "tiny", "mix": {"c": 0.5, "demo_chats": 0.5}, "epochs": 4, "batch_size": 4, "micro_batch": 2,
            "max_length": 1024, "learning_rate": 1e-3,
        }
    }  # fmt: skip
    config = {
        "models": models,
        "datasets": seeded(folder, counting(SEEDS), **sets_of),
        "curations": curation(),
        "tunings": tunings,
        "run": {
            "tutors": ["tiny", "tuned"], "tasks": ["kmpbench/fqa", "mathtutorbench/problem_solving"],
            "judges": ["rater"], "label_limit": 4, "seed": SEED,
        },
    }  # fmt: skip
    return overlay(folder, config)


@pytest.fixture(scope="module")
def finished(checkouts: Callable[[], Path], tiny: Path) -> Iterator[FinishedRun]:
    folder, script = checkouts(), Curator()
    with serving(script.handler()) as address:
        config = configure(folder, address, tiny)
        done = run(folder, config)
        assert done.returncode == 0, done.stdout
        yield FinishedRun(folder, config, script, address)


def curation_path(folder: Path, name: str) -> Path:
    return folder / "results/curation/c" / name


def test_seeds_become_sets_a_tuned_tutor_and_its_column_in_one_call(finished: FinishedRun) -> None:
    folder = finished.folder
    seeds = {seed.id for seed in read_records(curation_path(folder, "seeds.jsonl"), Seed)}
    skills = {record["id"] for record in files.read_json_lines(curation_path(folder, "sets/skills.jsonl"))}
    chats = {record["id"] for record in files.read_json_lines(curation_path(folder, "sets/training.jsonl"))}
    assert len(seeds) == SEEDS and len(skills) == len(chats) == SEEDS // 2 and skills | chats == seeds
    assert len((folder / "results/items/kmpbench/fqa.jsonl").read_text().splitlines()) == SEEDS // 2
    sheet = json.loads(curation_path(folder, "sets/training.json").read_text())
    assert sheet["licences"] == ["CC0-1.0"] and sheet["leakage"]["left_out"] == []
    assert len(sheet["leakage"]["compared_with"]) == 4, "two tasks, and the two sets of the curation"
    training = json.loads((folder / "results/tuning/t/model/training.json").read_text())
    losses = [step["loss"] for step in training["history"]]
    assert training["counts"]["examples"] == 12 and losses[-1] < losses[0]
    examples = json.loads((folder / "results/tuning/t/examples.json").read_text())
    assert examples["sources"] == {"c": 6, "demo_chats": 6}
    manifests = [
        folder / f"results/{name}/manifest.json" for name in ("weights/tuned", "tuning/t/model", "weights/tiny")
    ]
    tuned, source, base = (json.loads(path.read_text())["files"]["model.safetensors"] for path in manifests)
    assert tuned == source != base
    table = pd.read_csv(folder / "results/report/scores.csv")
    assert {"tiny", "tuned"} <= set(table["tutor"])
    page = (folder / "results/report/index.html").read_text()
    assert 'data-page="#/curation"' in page and "451 of 5,910 flows were discarded" in page
    assert "Ratings by judges" in page
    ratings = read_records(curation_path(folder, "ratings/rater.jsonl"), Judgement)
    assert len(ratings) == SEEDS and all(judgement.verdicts[0].value is not None for judgement in ratings)
    assert "Gains from the training" in page and "12 seeds, 12 with all four components" in page
    tables = {path.name for path in (folder / "results/report/tables").iterdir()}
    assert any("curation" in name for name in tables)


def test_only_changed_stages_run_again(finished: FinishedRun, copied: Callable[[Path], Path]) -> None:
    folder = copied(finished.folder)
    assert planned(folder, finished.config) == set()
    template = folder / "resources/curation/stages/expand.jinja"
    template.write_text(template.read_text() + "\nBe brief.\n")
    rules = rules_of(planned(folder, finished.config))
    assert {"write_dialogues", "tune_tutor"} <= rules
    assert not {"make_components", "write_flows", "make_seeds"} & rules
    config = json.loads(finished.config.read_text())
    config["tunings"]["t"]["epochs"] = 5
    other = copied(finished.folder)
    path = overlay(other, config, "longer.yaml")
    rules = rules_of(planned(other, path))
    assert "tune_tutor" in rules and not set(RULES_WITH_REQUESTS) & rules


@pytest.mark.parametrize(("name", "change", "expected"), [
    ("clarify", ("limits: {fewest: 3, most: 5}", "limits: {most: 5}"), r"clarify\.yaml: limits: fewest is missing"),
    ("solve_similar", ("parser: boxed", "parser: boxd"), r"solve_similar\.yaml: parser: 'boxd' .*did you mean 'boxed'"),
    ("rephrase", ("accept: same_answer", "accept: same_answer\nsamples: 2"), r"rephrase\.yaml: samples: expected 1, since same_answer uses only one answer"),
])  # fmt: skip
def test_a_stage_card_is_checked_before_any_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, change: tuple[str, str], expected: str
) -> None:
    folder = tmp_path / "stages"
    shutil.copytree("resources/curation/stages", folder)
    card = folder / f"{name}.yaml"
    text = card.read_text()
    assert change[0] in text
    card.write_text(text.replace(*change))
    read = config_of_curations.read_stage
    monkeypatch.setattr(stage, "read_stage", lambda stage: read(stage, folder))
    with pytest.raises(UserError, match=expected):
        stage.check_stage(name)


def test_a_base_in_a_folder_has_a_chat_template(tmp_path: Path) -> None:
    for name, text in (("plain", "{}"), ("chat", '{"chat_template": "x"}')):
        (tmp_path / name).mkdir()
        (tmp_path / name / "tokenizer_config.json").write_text(text)
    stage.check_template("tunings.t.base", "b", Weights(path=str(tmp_path / "chat")))
    problem = r"^tunings\.t\.base: b has no chat template\. Fix: choose a base with a chat template"
    with pytest.raises(UserError, match=problem):
        stage.check_template("tunings.t.base", "b", Weights(path=str(tmp_path / "plain")))


def rules_of(jobs: set[str]) -> set[str]:
    """Return the names of the rules of planned jobs. A rule and its twin that runs beside Snakemake have one name."""
    return {job.split()[0].removesuffix("_locally") for job in jobs}


BAD_CONFIGS: list[tuple[str, dict[str, Any], str]] = [
    ("role without a model", {"curations": {"c": {"seeds": {"gsm8k": "gsm8k_solving"}, "roles": {**roles(), "verifier": "nobody"}}}}, r"curations\.c\.roles\.verifier: 'nobody' is not in the registries"),
    ("no generator", {"curations": {"c": {"seeds": {"gsm8k": "gsm8k_solving"}, "roles": {key: value for key, value in roles().items() if key != "generator"}}}}, r"curations\.c\.roles\.generator: is missing"),
    ("ensemble of one", {"curations": {"c": {"seeds": {"gsm8k": "gsm8k_solving"}, "roles": {**roles(), "solvers": ["maker"]}}}}, r"curations\.c\.roles: .*solvers: expected two or more models"),
    ("baseline as a role", {"curations": {"c": {"seeds": {"gsm8k": "gsm8k_solving"}, "roles": {**roles(), "weak_solvers": ["echo"]}}}}, r"curations\.c\.roles\.weak_solvers\[0\]: expected a model that can answer requests, found 'echo'"),
    ("unknown source of seeds", {"curations": {"c": {"seeds": {"gms8k": "gsm8k_solving"}, "roles": roles()}}}, r"curations\.c\.seeds\.gms8k: 'gms8k' is not in .*did you mean 'gsm8k'"),
    ("loader without questions", {"curations": {"c": {"seeds": {"gsm8k": "kmp_ex"}, "roles": roles()}}}, r"curations\.c\.seeds\.gsm8k: 'kmp_ex' is not in the loaders that return questions\. Fix: did you mean 'kmp_ec'"),
    ("missing sheet of people's decisions", {"curations": {"c": {"seeds": {"gsm8k": "gsm8k_solving"}, "roles": roles(), "people": "p.csv"}}}, r"curations\.c\.people: p\.csv does not exist\. Fix: copy results/curation/c/flows\.csv"),
    ("mix that does not add up", {"tunings": {"t": {"base": "maker", "mix": {"demo_chats": 0.6, "gsm8k": 0.6}}}}, r"tunings\.t: .*expected shares that add up to 1, found a sum of 1\.2"),
    ("mix of an unknown set", {"tunings": {"t": {"base": "smollm2-135m", "mix": {"demo_chat": 1.0}}}}, r"tunings\.t\.mix: 'demo_chat' is not in curations and the registries\. Fix: did you mean 'demo_chats'"),
    ("batch that processes cannot share", {"tunings": {"t": {"base": "smollm2-135m", "mix": {"demo_chats": 1.0}, "batch_size": 6, "micro_batch": 2, "processes": 2}}}, r"tunings\.t\.batch_size: 6 is not divisible by micro_batch times 2 processes\. Fix: set a multiple of 4"),
    ("batch that GPUs cannot share", {"tunings": {"t": {"base": "smollm2-135m", "mix": {"demo_chats": 1.0}, "batch_size": 4, "needs": {"gpus": 8}}}}, r"tunings\.t\.batch_size: 4 is not divisible by micro_batch times 8"),
    ("hosted base", {"tunings": {"t": {"base": "maker", "mix": {"demo_chats": 1.0}}}}, r"tunings\.t\.base: expected a model with weights to train, found 'maker'"),
    ("unknown tuning", {"models": {"tuned": {"engine": "vllm", "weights": {"tuned": "tt"}}}, "run": {"tutors": ["tuned"]}}, r"models\.tuned\.weights\.tuned: 'tt' is not in tunings"),
    ("unknown curated set", {"datasets": {"gsm8k": {"demo": {"path": "x", "curated": "c/skill"}}}, "curations": {"c": {"seeds": {"mathdial_test": "word_problems"}, "roles": roles()}}}, r"datasets\.gsm8k\.demo\.curated: 'skill' is not in the evaluation sets of a curation"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("config", "expected"), [case[1:] for case in BAD_CONFIGS], ids=[case[0] for case in BAD_CONFIGS]
)
def test_bad_input_is_one_line_before_any_work(config: dict[str, Any], expected: str) -> None:
    raw: dict[str, Any] = {}
    for name in ("models", "datasets"):
        raw |= yaml.safe_load(Path(f"resources/registries/{name}.yaml").read_text())
    raw["models"] |= entries("http://127.0.0.1:9") | config.get("models", {})
    for name, entry in config.get("datasets", {}).items():
        raw["datasets"][name] = {**raw["datasets"][name], **entry}
    keys = {"tutors": ["echo"], "tasks": ["mathtutorbench/problem_solving"], **config.get("run", {})}
    raw |= {"edition": "demo", "run": keys, **{key: config[key] for key in ("curations", "tunings") if key in config}}
    with pytest.raises(UserError, match=expected) as error:
        plan_of(raw)
    assert "\n" not in error.value.line
