"""Tests of README and docs: each key is explained, each named file exists, the demo is as described."""

from __future__ import annotations

import re
from pathlib import Path

import yaml
from maieutic.config import settings
from maieutic.config.datasets import Dataset, DatasetFile
from maieutic.config.models import BaselineModel, Model, RewardModel, ServedModel, Training
from maieutic.core.states import STATE_TABLE
from maieutic.launch.config_files import OWN_REGISTRIES
from maieutic.plan.plan import Plan
from maieutic.tools.schemas import ENGINES, cli_page, config_page
from run_configs import check_config
from shipped import registries, shipped

DOCS = [
    "README.md", "SECURITY.md", *sorted(str(path) for folder in ("docs", "bench") for path in Path(folder).glob("*.md"))
]  # fmt: skip

FENCE = re.compile(r"(<!-- (?:file: \S+|run|sql) -->\n)?^```([^\n]+)\n(.*?)^```$", re.DOTALL | re.MULTILINE)


def test_every_file_that_a_document_names_exists() -> None:
    pattern = re.compile(
        r"(?<![\w./-])((?:config|docs|workflow|resources|tests|bench|containers|profiles|envs)/[\w./-]*\w)"
    )
    for name in [*DOCS, "config/README.md", "CONTRIBUTING.md"]:
        text = Path(name).read_text(encoding="utf-8")
        generated = set(re.findall(r"<!-- file: (\S+) -->", text))
        for path in set(pattern.findall(text)) - generated - {str(path) for path in OWN_REGISTRIES}:
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


def test_the_documents_are_short() -> None:
    """No page has more than 2,000 words; the two generated lists of commands and keys are counted apart."""
    words = {name: len(Path(name).read_text(encoding="utf-8").split()) for name in [*DOCS, "config/README.md"]}
    pages = {name: number for name, number in words.items() if name.startswith("docs/")}
    assert words["README.md"] <= 700 and len(pages) <= 16
    assert {name: number for name, number in pages.items() if number > 2000} == {}
    assert sum(pages.values()) - pages.get("docs/cli.md", 0) + words["config/README.md"] <= 21_500


def test_every_example_is_run_or_marked_as_a_fragment() -> None:
    """A block has a mark above it (`file: NAME`, `run` or `sql`), shows output (`text`), or is called a fragment."""
    unmarked = [
        f"{name}: {block[:60]}"
        for name in ["README.md", *(name for name in DOCS if name.startswith("docs/"))]
        for mark, language, block in FENCE.findall(Path(name).read_text(encoding="utf-8"))
        if not (mark or language == "text" or language.endswith(" fragment"))
    ]
    assert unmarked == []


def heading_anchors(text: str) -> set[str]:
    """Return the anchors that GitHub gives to the headings of a page."""
    headings = re.findall(r"^#+ (.*)$", FENCE.sub("", text), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_every_link_between_documents_leads_somewhere() -> None:
    for name in [*DOCS, "config/README.md", "CONTRIBUTING.md"]:
        text = Path(name).read_text(encoding="utf-8")
        for path, anchor in re.findall(r"\]\((?!https?:)([^)#\s]*)#?([^)\s]*)\)", text):
            target = Path(name).parent / path if path else Path(name)
            assert target.exists(), f"{name}: {path}"
            assert not anchor or anchor in heading_anchors(target.read_text(encoding="utf-8")), (
                f"{name}: {path}#{anchor}"
            )


def test_the_readmes_run_file_is_complete() -> None:
    """Only the registries are needed in addition."""
    [text] = re.findall(r"```yaml\n(# my\.yaml\n.*?)```", Path("README.md").read_text(encoding="utf-8"), re.DOTALL)
    registry = registries()
    run_file = yaml.safe_load(text)
    config = check_config({**registry, **run_file, "models": {**registry["models"], **run_file["models"]}})
    assert config.edition == "published" and config.run.judges == [] and config.run.limit == 50


def test_the_registry_has_the_reward_models_that_the_readme_names() -> None:
    config = configuration()
    text = "".join(Path(f"docs/{name}.md").read_text(encoding="utf-8") for name in ("models", "training"))
    names = set(re.findall(r"\brm-[a-z0-9.-]+", text))
    assert names and names <= set(config.models)
    rewards = {name: model for name, model in config.models.items() if isinstance(model, RewardModel)}
    mixes = {str(model.paper) for model in rewards.values() if model.paper and model.train}
    assert len(mixes) == 6, "the paper's six data mixes"
    assert any(model.train and not model.train.mix for model in rewards.values()), "untrained floors"
    assert len([model for model in rewards.values() if model.weights]) >= 2, "the published model and a general one"


def test_the_tables_of_keys_are_those_of_the_schema() -> None:
    assert Path("config/README.md").read_text(encoding="utf-8") == config_page(), "run make schemas"


def test_the_page_of_commands_is_that_of_the_commands() -> None:
    text = Path("docs/cli.md").read_text(encoding="utf-8")
    assert text == cli_page(), "run make schemas"
    assert ": None" not in text and len(text.split()) <= 2000, "each option has a text of its own"


def test_the_table_of_states_is_that_of_the_code() -> None:
    text = Path("docs/models.md").read_text(encoding="utf-8")
    assert "".join(f"| {' | '.join(row)} |\n" for row in STATE_TABLE) in text
    sections = [
        settings.Config, settings.Run, settings.Report, Model, ServedModel, *(kind for kind, _ in ENGINES.values()),
    ]  # fmt: skip
    undescribed = [
        f"{kind.__name__}.{name}"
        for kind in [*sections, Training, Dataset, DatasetFile]
        for name, field in kind.model_fields.items()
        if not field.description
        and name not in {"engine", "run", "report", "interpreters", "containers", "needs", "group"}
    ]
    assert undescribed == [], "a key without a description"
