"""Tests of extensions: folders that add cards, prompts, rubrics and code to the runs that name them."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from maieutic.benchmarks import BENCHMARKS
from maieutic.config import cards, rubrics
from maieutic.core import extensions
from maieutic.core.errors import UserError
from maieutic.run_plan import plan_of
from maieutic.tools.doctor import findings_of
from maieutic.tools.self_check import check
from shipped import shipped

CARD = {"like": "problem_solving", "task": "short", "title": "Short", "source": "ours"}
TOY = Path(__file__).parents[1] / "toy"


@pytest.fixture(autouse=True)
def no_extension(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Restore the active extensions and the rubrics read after each test."""
    monkeypatch.setenv(extensions.VARIABLE, "")
    yield
    rubrics.read_rubric.cache_clear()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return an extension with a card and a rubric, active in this process."""
    place = tmp_path / "mine/resources/benchmarks/mathtutorbench"
    place.mkdir(parents=True)
    (place / "short.yaml").write_text(yaml.safe_dump(CARD), encoding="utf-8")
    rubric = {"like": "mrbench_taxonomy", "rubric": "strict", "version": 1, "title": "Strict"}
    (tmp_path / "mine/resources/rubrics").mkdir()
    (tmp_path / "mine/resources/rubrics/strict.yaml").write_text(yaml.safe_dump(rubric), encoding="utf-8")
    extensions.activate_extensions([tmp_path / "mine"])
    return tmp_path / "mine"


def run_of(folder: Path | None, tasks: list[str]) -> dict[str, Any]:
    """Return a configuration with these tasks, and with an extension if `folder` is set."""
    config = shipped()
    config["run"] = {"tutors": ["echo"], "tasks": tasks}
    return config | ({"extensions": [str(folder)]} if folder else {})


def test_a_card_of_an_extension_extends_a_shipped_one_with_its_prompts(folder: Path) -> None:
    plan = plan_of(run_of(folder, ["mathtutorbench/short", "mathtutorbench/problem_solving"]))
    card, base = (plan.card("mathtutorbench", task) for task in ("short", "problem_solving"))
    assert (card.title, card.turns, card.metrics) == ("Short", base.turns, base.metrics)
    path = folder / "resources/benchmarks/mathtutorbench/short.yaml"
    assert cards.card_path("mathtutorbench", "short") == path
    files = plan.cards[path].files
    assert files[0] == path and all(file.is_file() for file in files) and cards.CARDS in files[-1].parents
    assert extensions.listed_name(path) == "extensions/mine/resources/benchmarks/mathtutorbench/short.yaml"
    assert extensions.listed_path(extensions.listed_name(path)) == path
    shipped_card = cards.card_path("mathtutorbench", "problem_solving")
    assert extensions.listed_name(shipped_card) == "resources/benchmarks/mathtutorbench/problem_solving.yaml"


def test_a_benchmark_has_all_its_cards_shipped_and_own(folder: Path) -> None:
    tasks = {card.card.task for card in plan_of(run_of(folder, ["mathtutorbench"])).benchmarks["mathtutorbench"]}
    assert {"short", "problem_solving"} <= tasks and "strict" in rubrics.rubric_names()
    assert rubrics.read_rubric("strict").rubric.title == "Strict"


def test_a_run_that_does_not_name_the_extension_does_not_see_it(folder: Path) -> None:
    with pytest.raises(UserError, match=r"run\.tasks\[0\]: 'mathtutorbench/short' is not in"):
        plan_of(run_of(None, ["mathtutorbench/short"]))
    assert extensions.extension_folders() == [] and "strict" not in rubrics.rubric_names()


def shipped_name_twice(folder: Path) -> None:
    path = folder / "resources/benchmarks/mathtutorbench"
    shutil.copy(path / "short.yaml", path / "problem_solving.yaml")


def code_of_a_shipped_benchmark(folder: Path) -> None:
    (folder / extensions.CODE / "mrbench").mkdir(parents=True)
    (folder / extensions.CODE / "mrbench/__init__.py").touch()


FAULTS = {
    "empty folder": (shutil.rmtree, r"^extensions\[0\]: expected a folder with resources/benchmarks, .*Fix: correct"),
    "repeated card": (shipped_name_twice, r"problem_solving\.yaml: .* has the same name\. Fix: rename the card"),
    "shipped benchmark": (code_of_a_shipped_benchmark, r"^extensions\[0\]: .*mrbench has the name of a shipped benchmark"),
}  # fmt: skip


@pytest.mark.parametrize(("change", "problem"), FAULTS.values(), ids=FAULTS.keys())
def test_a_faulty_extension_is_refused(change: Callable[[Path], None], problem: str, folder: Path) -> None:
    change(folder)
    with pytest.raises(UserError, match=problem):
        plan_of(run_of(folder, ["mathtutorbench"]))


def test_two_extensions_need_two_names(folder: Path, tmp_path: Path) -> None:
    shutil.copytree(folder, tmp_path / "other/mine")
    with pytest.raises(UserError, match=r"^extensions\[1\]: another extension has the name mine\. Fix: rename"):
        extensions.check_extensions([str(folder), str(tmp_path / "other/mine")])


COMMANDS = (
    "export tidy", "share x.zip", "label", "items", "doctor", "estimate", "check-graders", "pin", "verify x", "compare x y",
    "runs", "read-labels x", "cancel x", "forget x",
)  # fmt: skip
RECORDED = [command.split() for command in COMMANDS]


def test_command_lines_activate_the_extensions_of_local_run_files_only(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder.parent)
    Path("run.yaml").write_text("extensions: [mine]\n", encoding="utf-8")
    Path("results/runs/x").mkdir(parents=True)
    shutil.copy("run.yaml", "results/runs/x/config.yaml")
    Path("link.yaml").symlink_to("results/runs/x/config.yaml")
    Path("received/deeper").mkdir(parents=True)
    Path("received", extensions.MANIFEST).touch()
    shutil.copy("run.yaml", "received/mine.yaml")
    for words, active in (
        (["estimate", "--configfile", "run.yaml"], [folder]),
        (["estimate", "--configfile=run.yaml"], [folder]),
        (["label", "--configfile", "absent.yaml", "run.yaml", "--out", "x"], [folder]),
        (["check", "other", "--configfile", "absent.yaml"], [folder.parent / "other"]),
        *(([*command, "--run", run], []) for command in RECORDED for run in ("x", "results/runs/x")),
        *(([*command, "--configfile", "results/runs/x/config.yaml"], []) for command in RECORDED),
        *(([*command, "--configfile=link.yaml"], []) for command in RECORDED),
        *(([*command, "--configfile", "received/mine.yaml"], []) for command in RECORDED),
        (["export", "tidy", "--out", "o"], []),
        (["doctor", "--offline", "--configfile", "run.yaml"], []),
        (["verify", "results/runs/x"], []),
        (["estimate", "--configfile", "absent.yaml"], []),
    ):
        extensions.activate_extensions([])
        extensions.activate_named_extensions(words)
        assert extensions.extension_folders() == active, words


def test_a_configuration_does_not_activate_extensions_by_itself(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The fix is a command that works when typed, with the folders that are active already."""
    assert extensions.require_active([str(folder)]) == [folder]
    (tmp_path / "my others").mkdir()
    extensions.activate_extensions([tmp_path / "my others"])
    problem = rf"^extensions: the run uses {folder}, and a recorded .*: export MAIEUTIC"
    with pytest.raises(UserError, match=problem) as error:
        plan_of(run_of(folder, ["mathtutorbench/short"]))
    command = error.value.fix.partition(": ")[2]
    printed = subprocess.run(["bash", "-c", f"{command}; echo -n $MAIEUTIC_EXTENSIONS"], capture_output=True, text=True)
    monkeypatch.setenv(extensions.VARIABLE, printed.stdout)
    assert extensions.extension_folders() == [tmp_path / "my others", folder]
    plan_of(run_of(folder, ["mathtutorbench/short"]))
    assert extensions.extension_folders() == [folder], "a run sees its own extensions only"


def test_a_received_run_uses_the_copy_that_the_variable_names(folder: Path, tmp_path: Path) -> None:
    """The configuration of a received run names the sender's path, which no fix ever names."""
    assert extensions.require_active(["/home/sender/mine"]) == [folder]
    (tmp_path / "received/mine").mkdir(parents=True)
    (tmp_path / "received" / extensions.MANIFEST).touch()
    extensions.activate_extensions([])
    with pytest.raises(UserError, match=r"export MAIEUTIC_EXTENSIONS=/path/to/your/copy/mine$"):
        extensions.require_active([str(tmp_path / "received/mine")])


def test_the_files_of_an_extension_are_its_cards_and_code(folder: Path, tmp_path: Path) -> None:
    code = folder / extensions.CODE / "riddles"
    (code / "__pycache__").mkdir(parents=True)
    for name in ("__init__.py", "graders.py", "__pycache__/graders.pyc", ".hidden"):
        (code / name).touch()
    (folder / "conversations.jsonl").write_text("texts of people")
    (tmp_path / "secret").touch()
    (folder / "resources/link").symlink_to(tmp_path / "secret")
    names = {extensions.listed_name(path) for path in extensions.extension_files()}
    assert names == {
        "extensions/mine/resources/benchmarks/mathtutorbench/short.yaml",
        "extensions/mine/resources/rubrics/strict.yaml",
        f"extensions/mine/{extensions.CODE}/riddles/__init__.py",
        f"extensions/mine/{extensions.CODE}/riddles/graders.py",
    }


def test_doctor_offline_runs_no_code_of_an_extension(tmp_path: Path) -> None:
    code = tmp_path / "mine" / extensions.CODE / "riddles"
    code.mkdir(parents=True)
    (code / "__init__.py").write_text("raise SystemExit('was run')", encoding="utf-8")
    (tmp_path / "run.yaml").write_text(
        yaml.safe_dump({"extensions": [str(tmp_path / "mine")], "run": {"tutors": ["echo"], "tasks": ["mrbench"]}})
    )
    [finding] = findings_of([tmp_path / "run.yaml"], offline=True)
    assert finding.state == "fault" and "contains code, which was not run" in finding.finding


CODES = """
import json, sys
from maieutic.core.plugins import benchmark_names
from maieutic.plan import digest
print(json.dumps([benchmark_names()[-1], digest.code_of("make-items"), digest.code_of("parse-replies")]))
"""


def test_code_of_an_extension_plugs_in_and_is_part_of_digests(tmp_path: Path) -> None:
    """Each process reads its tables of plug-ins once, so separate processes are compared."""
    code = tmp_path / "mine" / extensions.CODE / "riddles"
    shutil.copytree(TOY / "code", code)

    def state(active: bool) -> list[str]:
        env = {**os.environ, "PYTHONPATH": "workflow", extensions.VARIABLE: str(tmp_path / "mine") if active else ""}
        done = subprocess.run([sys.executable, "-c", CODES], env=env, capture_output=True, text=True, check=True)
        return list(yaml.safe_load(done.stdout))

    without, with_code = state(False), state(True)
    assert (without[0], with_code[0]) == (BENCHMARKS[-1], "riddles")
    assert without[1] != with_code[1] and without[2] != with_code[2], "the whole tables have its entries"
    loaders = (code / "loaders.py").read_text(encoding="utf-8")
    (code / "loaders.py").write_text(loaders + "\nLOADERS = {**LOADERS}\n", encoding="utf-8")
    changed = state(True)
    assert changed[1] != with_code[1] and changed[2] == with_code[2]


def test_check_lists_all_faulty_cards(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    check(folder)
    assert "mine: cards: 1, rubrics: 1, benchmarks with code: 0 are valid; add --configfile" in caplog.text
    place = folder / "resources/benchmarks/mathtutorbench"
    for name, change in (("short", {"loader": 3}), ("other", {"task": "another"})):
        (place / f"{name}.yaml").write_text(yaml.safe_dump(CARD | change), encoding="utf-8")
    (folder / "resources/rubrics/strict.yaml").write_text("like: no_rubric\nrubric: strict\n", encoding="utf-8")
    rubrics.read_rubric.cache_clear()
    with pytest.raises(UserError) as error:
        check(folder)
    assert [Path(fault.place.partition(":")[0]).name for fault in error.value.all] == [
        "other.yaml",
        "short.yaml",
        "strict.yaml",
    ]


def test_check_needs_a_run_file_that_names_the_extension(folder: Path, tmp_path: Path) -> None:
    run_file = tmp_path / "run.yaml"
    run_file.write_text("run: {tutors: [echo], tasks: [mathtutorbench]}\n", encoding="utf-8")
    with pytest.raises(UserError, match=rf"^extensions: the run file does not name {folder}\. Fix: set extensions"):
        check(folder, configfile=[run_file])


@pytest.mark.parametrize("parent", ["a", "z"])
def test_tasks_are_in_the_same_order_wherever_the_extension_is(parent: str, folder: Path, tmp_path: Path) -> None:
    """Shared runs are verified on other machines, where the folders have other paths."""
    moved = shutil.copytree(folder, tmp_path / parent / "mine")
    plan = plan_of(run_of(moved, ["mrbench", "mathtutorbench"]))
    names = [(loaded.card.benchmark, loaded.card.task) for loaded in plan.cards.values()]
    assert names == sorted(names) and ("mathtutorbench", "short") in names


def test_the_check_of_the_configuration_files_imports_no_module_of_the_plan() -> None:
    """Extensions are activated after it, and the modules of the plan read the tables of their code when imported."""
    code = "import sys, maieutic.launch.config_files; print([name for name in sys.modules if 'maieutic.plan' in name])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
