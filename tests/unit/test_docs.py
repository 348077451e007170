"""Tests of README and docs: each key is explained, each named file exists, the demo is as described."""

from __future__ import annotations

import re
from pathlib import Path

import yaml
from maieutic.config import cards, models, settings
from maieutic.config.datasets import Dataset, DatasetFile
from maieutic.config.models import BaselineModel, Model, RewardModel, ServedModel, Training
from maieutic.plan.plan import Plan
from maieutic.tools.schemas import ENGINES, config_page
from run_configs import check_config
from shipped import registries, shipped

DOCS = ["README.md", "SECURITY.md", *sorted(str(path) for path in Path("docs").glob("*.md"))]


def test_every_file_that_a_document_names_exists() -> None:
    pattern = re.compile(
        r"(?<![\w./-])((?:config|docs|workflow|resources|tests|bench|containers|profiles|envs)/[\w./-]*\w)"
    )
    for name in [*DOCS, "config/README.md", "CONTRIBUTING.md"]:
        text = Path(name).read_text(encoding="utf-8")
        generated = set(re.findall(r"<!-- file: (\S+) -->", text))
        for path in set(pattern.findall(text)) - generated:
            placeholder = re.search(r"[A-Z]{3,}", path.replace("README", "")) or path.endswith(".sif")
            assert placeholder or Path(path).exists(), f"{name}: {path}"


def configuration() -> settings.Config:
    return check_config(shipped())


def test_the_demo_is_what_the_readme_says() -> None:
    config = configuration()
    baselines = [name for name in Plan(config).tutors if isinstance(config.models[name], BaselineModel)]
    tasks = {name: len(tasks_of_benchmark) for name, tasks_of_benchmark in Plan(config).benchmarks.items()}
    assert len(baselines) == 10 and tasks == {"mathtutorbench": 9, "mrbench": 1, "kmpbench": 5, "tutorbench": 2}
    [classifiers] = config.run.classifiers
    assert len(config.models[classifiers].train.criteria) == 3
    assert len(config.run.tutors) == len(config.run.reward_models) == len(config.run.judges) == 1


def test_commands_of_the_documents_can_be_pasted() -> None:
    """Commands work after `source .venv/activate`: they contain no paths into environments and need no exports."""
    for name in [*DOCS, "CONTRIBUTING.md", "config/README.md"]:
        text = Path(name).read_text(encoding="utf-8")
        assert ".venv/driver" not in text and "PYTHONPATH" not in text, name


def test_the_readme_is_short() -> None:
    assert len(Path("README.md").read_text(encoding="utf-8").split()) <= 700


def test_the_readmes_run_file_is_complete() -> None:
    """Only the registries are needed in addition."""
    [text] = re.findall(r"```yaml\n(# my\.yaml\n.*?)```", Path("README.md").read_text(encoding="utf-8"), re.DOTALL)
    registry = registries()
    run_file = yaml.safe_load(text)
    config = check_config({**registry, **run_file, "models": {**registry["models"], **run_file["models"]}})
    assert config.edition == "published" and config.run.judges == [] and config.run.limit == 50


def test_the_table_of_benchmarks_names_what_the_cards_compute() -> None:
    text = Path("docs/benchmarks.md").read_text(encoding="utf-8").lower()
    metrics = {
        folder.name: {metric for path in folder.glob("*.yaml") for metric in cards.read_card(path).card.metrics}
        for folder in cards.CARDS.iterdir()
        if folder.is_dir()
    }
    assert {"accuracy", "bleu", "f1", "micro_f1", "win_rate", "win_rate_clean", "match"} <= metrics["mathtutorbench"]
    assert {"overall", "final_round", "f1", "task1_mcc", "task2_step", "task3_reason", "mr_score", "correction", "error_factual_error"} <= metrics["kmpbench"]  # fmt: skip
    assert {"arr_w", "arr_w_by_phrasing", "arr_w_violated", "arr_w_satisfied"} <= metrics["tutorbench"]
    assert {"damr", "damr_bridge", "damr_mathdial", "coherence", "tutor_tone"} <= metrics["mrbench"]
    for benchmark in metrics:
        assert benchmark.replace("bench", "") in text
    datasets = " ".join(cards.read_card(path).card.task for path in (cards.CARDS / "kmpbench").glob("*.yaml"))
    assert all(name in datasets for name in ("mathchat", "stepverify", "processbench", "mrgsm8k"))


def test_the_registry_has_the_reward_models_that_the_readme_names() -> None:
    config = configuration()
    text = "".join(Path(f"docs/{name}.md").read_text(encoding="utf-8") for name in ("models", "reward-models"))
    names = set(re.findall(r"\brm-[a-z0-9.-]+", text))
    assert names and names <= set(config.models)
    rewards = {name: model for name, model in config.models.items() if isinstance(model, RewardModel)}
    mixes = {str(model.paper) for model in rewards.values() if model.paper and model.train}
    assert len(mixes) == 6, "the paper's six data mixes"
    assert any(model.train and not model.train.mix for model in rewards.values()), "untrained floors"
    assert len([model for model in rewards.values() if model.weights]) >= 2, "the published model and a general one"


def test_the_tables_of_keys_are_those_of_the_schema() -> None:
    assert Path("config/README.md").read_text(encoding="utf-8") == config_page(), "run make schemas"
    sections = [
        settings.Config,
        settings.Run,
        settings.Report,
        Model,
        ServedModel,
        *(kind for kind, _ in ENGINES.values()),
    ]
    undescribed = [
        f"{kind.__name__}.{name}"
        for kind in [*sections, Training, Dataset, DatasetFile]
        for name, field in kind.model_fields.items()
        if not field.description
        and name not in {"engine", "run", "report", "interpreters", "containers", "needs", "group"}
    ]
    assert undescribed == [], "a key without a description"


def test_every_key_is_explained_in_a_line() -> None:
    """config/README.md has each key of the configuration and of the models, and no unknown key."""
    text = Path("config/README.md").read_text(encoding="utf-8")
    rows = [row for row in text.split("\n") if row.startswith("| `")]
    explained = {name for row in rows for name in re.findall(r"`([a-z_.]+)`", row.split("|")[1])}
    keys = {f"run.{name}" for name in settings.Run.model_fields} | {
        f"report.{name}" for name in settings.Report.model_fields
    }
    missing = {key for key in keys if key not in explained and not any(key in row for row in rows)}
    assert not missing, f"config/README.md does not explain {sorted(missing)}"
    explained_keys = {".".join(name.split(".")[:2]) for name in explained if name.startswith(("run.", "report."))}
    stale = explained_keys - keys
    assert not stale, f"config/README.md explains unknown keys: {sorted(stale)}"
    fields = {name for kind in KINDS for name in kind.model_fields} - {"engine", "notice", "label", "group"}
    unexplained = {name for name in fields if f"`{name}`" not in text and f"`{name}:" not in text}
    assert not unexplained, f"config/README.md does not explain {sorted(unexplained)}"


KINDS = [
    models.VllmModel, models.HostedModel, models.BaselineModel, models.RewardModel, models.CriteriaModel,
    models.JudgeModel,
]  # fmt: skip
