"""Tests of `maieutic run` and of the registries of a working folder."""

from __future__ import annotations

from pathlib import Path

import pytest
from maieutic.core.errors import UserError
from maieutic.launch import config_files
from maieutic.launch.config_files import add_registries, own_entry_lines
from maieutic.launch.run import command_line, snakemake_line


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ([], ["--cores", "all"]), (["-n"], ["--cores", "all", "-n"]), (["-j4"], ["-j4"]), (["-c", "2"], ["-c", "2"]),
        (["--cores=3"], ["--cores=3"]), (["questions"], ["--cores", "all", "questions"]),
        (["--profile", "nowhere"], ["--profile", "nowhere"]),
    ],
)  # fmt: skip
def test_options_are_passed_to_snakemake(options: list[str], words: list[str]) -> None:
    line = command_line([Path("my.yaml")], options)
    start = snakemake_line()
    assert line == [*start[:3], "--configfile", "my.yaml", *start[3:], *words], (
        "the working folder has a default profile"
    )


def test_the_default_profiles_flags_are_passed_without_the_profile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("maieutic.launch.run.HOME", Path.cwd())
    monkeypatch.chdir(tmp_path)
    words = command_line([Path("my.yaml")], [])
    assert words[words.index("--workflow-profile") + 1] == "none" and words[-3].startswith("--")
    with_logger = command_line([Path("my.yaml")], ["--logger", "mine", "target"])
    assert with_logger.count("--logger") == 2 and with_logger[-3:] == ["--logger", "mine", "target"]
    assert words[words.index("--logger") + 1] == "maieutic"
    assert "--keep-going" not in command_line([Path("my.yaml")], ["--profile", "site"])


@pytest.mark.parametrize("options", [["--profile", "slurm"], ["--profile=slurm"]])
def test_the_workflows_own_profile_is_found_from_any_folder(
    options: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = Path.cwd()
    monkeypatch.setattr("maieutic.launch.run.HOME", home)
    monkeypatch.chdir(tmp_path)
    assert command_line([Path("my.yaml")], options)[-2:] == ["--profile", str(home / "profiles/slurm")]


REGISTRY = "models:\n  a: {engine: baseline, tutor: echo, label: A}\n  b: {engine: baseline, tutor: echo}\n"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Enter a folder beside a shipped registry of two models."""
    (tmp_path / "shipped.yaml").write_text(REGISTRY, encoding="utf-8")
    (tmp_path / "config").mkdir()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(config_files, "SHIPPED_REGISTRIES", (tmp_path / "shipped.yaml",))
    monkeypatch.setattr(config_files, "OWN_REGISTRIES", (Path("config/models.yaml"),))
    return tmp_path


def test_an_entry_of_the_working_folder_replaces_a_shipped_one(folder: Path) -> None:
    text = "models:\n  a: {engine: baseline, tutor: reveal}\n  c: {engine: baseline, tutor: echo}\n  b: {engine: baseline, tutor: echo}\n"
    (folder / "config/models.yaml").write_text(text, encoding="utf-8")
    config = {"models": {"b": {"label": "B"}}, "run": {"tutors": ["a"]}}
    add_registries(config)
    assert config["models"]["a"] == {"engine": "baseline", "tutor": "reveal"}, "replaced, not merged"
    assert config["models"]["b"] == {"engine": "baseline", "tutor": "echo", "label": "B"}, (
        "a run file's keys are merged"
    )
    assert list(own_entry_lines()) == ["config/models.yaml replaces models.a", "config/models.yaml adds models.c"]


@pytest.mark.parametrize("text", ["models:\n", "# nothing yet\n"])
def test_an_empty_registry_removes_nothing(text: str, folder: Path) -> None:
    (folder / "config/models.yaml").write_text(text, encoding="utf-8")
    config: dict[str, object] = {}
    add_registries(config)
    assert set(config["models"]) == {"a", "b"} and list(own_entry_lines()) == []  # type: ignore[call-overload]


def test_a_registry_of_another_form_is_one_line(folder: Path) -> None:
    (folder / "config/models.yaml").write_text("models: [a]\n", encoding="utf-8")
    with pytest.raises(UserError, match=r"config/models\.yaml: models: expected entries by name, found a list"):
        add_registries({})


def test_a_folder_that_looks_like_a_checkout_is_named(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(config_files, "SHIPPED_REGISTRIES", (Path("resources/registries/models.yaml"),))
    with pytest.raises(UserError, match="not the registries of a checkout"):
        add_registries({})
