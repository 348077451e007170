"""Tests of runs that leave out the parts whose data files are unavailable."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from maieutic.config.settings import read_config
from maieutic.core.errors import UserError
from maieutic.core.yaml_files import read_yaml
from maieutic.launch.messages import absent_lines
from maieutic.plan.availability import available_parts
from maieutic.plan.plan import Plan
from maieutic.run_plan import plan_of
from maieutic.tools.pinning import used_entries
from shipped import shipped

FILES = (
    "gsm8k/test.jsonl", "mrbench/MRBench_V1.json", "bridge/train.json", "bridge/validation.json", "bridge/test.json",
)  # fmt: skip
RUN: dict[str, Any] = {
    "tutors": ["recorded"],
    "tasks": ["mathtutorbench/problem_solving", "mathtutorbench/socratic_questioning", "mrbench", "tutorbench/copy_text"],
    "labels": ["mrbench", "mrbench_v2"],
    "pair_sources": ["bridge", "gsm8k_inpainted"],
    "preferences": ["bridge", "tutor_preferences"],
}  # fmt: skip
RECORDED = {
    "engine": "recorded", "dataset": ["qwen3_4b_pedagogy_following"], "form": "mathtutorbench",
    "tasks": ["mathtutorbench/pedagogy_following"],
}  # fmt: skip


def configuration(data_dir: Path | None, **changes: Any) -> Any:
    raw = {
        "edition": "published",
        "available_only": True,
        "data_dir": str(data_dir) if data_dir else None,
        "models": {"recorded": RECORDED, **read_yaml(Path("resources/registries/models.yaml"))["models"]},
        "run": {**RUN, **changes},
    }
    registry = read_yaml(Path("resources/registries/datasets.yaml"))
    return read_config(registry | raw)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in FILES:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    return tmp_path


def test_parts_without_their_files_are_left_out_and_named(folder: Path) -> None:
    config, absent = available_parts(configuration(folder))
    assert config.run.tasks == ["mathtutorbench/problem_solving", "mrbench/mistake_remediation"]
    assert (config.run.tutors, config.run.labels) == ([], ["mrbench"])
    assert (config.run.preferences, config.run.pair_sources) == (["bridge"], ["bridge"])
    assert not config.available_only, "the saved configuration does not depend on the folder any more"
    assert {(part.key, part.name) for part in absent} == {
        ("run.tasks", "mathtutorbench/socratic_questioning"), ("run.tasks", "tutorbench/copy_text"),
        ("run.tutors", "recorded"), ("labels", "mrbench_v2"), ("preferences", "tutor_preferences"),
        ("run.pair_sources", "gsm8k_inpainted"),
    }  # fmt: skip
    for part in absent:
        assert part.fix == f"put {part.file} into data_dir" and not (folder / part.file).exists()
    plan = Plan(configuration(folder))
    assert plan.used_datasets == ["bridge_test", "bridge_train", "bridge_validation", "gsm8k", "mrbench"]
    assert len(absent_lines(plan)) == len(absent)


def test_without_a_folder_only_files_that_nobody_can_download_are_absent() -> None:
    config, absent = available_parts(configuration(None, pair_sources=["bridge", "mathdial"]))
    assert [(part.name, part.fix) for part in absent] == [
        ("tutorbench/copy_text", "put tutorbench/train.csv into data_dir")
    ]
    assert config.run.labels == RUN["labels"] and config.run.tutors == ["recorded"]


def test_a_run_without_any_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"run\.tasks: no task is left.*put gsm8k/test\.jsonl into data_dir"):
        available_parts(configuration(tmp_path))


def test_unknown_names_are_left_to_their_checks(folder: Path) -> None:
    config, _ = available_parts(
        configuration(
            folder, tasks=["mrbench", "nonsense/task"], labels=["mrbench", "nobody"], pair_sources=["nothing"]
        )
    )
    assert config.run.tasks == ["mrbench/mistake_remediation", "nonsense/task"]
    assert config.run.labels == ["mrbench", "nobody"] and config.run.pair_sources == ["nothing"]


def test_nothing_is_left_out_of_other_runs(folder: Path) -> None:
    config = configuration(folder).model_copy(update={"available_only": False})
    assert available_parts(config) == (config, [])


# entries without a known pin ------------------------------------------------------------------------------------------

PAPERS = {
    "released": {"tutorbench/copy_text"}, "rewards": set(), "mathtutorbench": {"socraticlm-7b"}, "qwen": set(),
    "mrbench": set(), "kmpbench": set(), "kmpbench_dialogue": {"socraticlm-7b"}, "kmp_lm": {"mathchat-sync-7b"},
    "tutorbench": set(), "tutorbench_study": set(),
}  # fmt: skip


@pytest.mark.parametrize("paper", PAPERS)
def test_the_papers_run_files_start_without_what_nobody_can_pin(paper: str) -> None:
    raw = shipped(paper)
    plan = plan_of(raw)
    assert {part.name for part in plan.absent_parts} == PAPERS[paper]
    assert not {*PAPERS[paper]} & {*plan.run.tutors, *plan.config.tunings}
    raw["run"]["strict"] = True
    if PAPERS[paper] - {"tutorbench/copy_text"}:
        with pytest.raises(UserError, match=r"Fix: (run `maieutic pin|set sha256)"):
            plan_of(raw)
    assert PAPERS[paper] - {"tutorbench/copy_text"} <= {*used_entries(raw).models}, "`maieutic pin` looks them up"


def test_a_users_own_entry_without_a_pin_is_refused_and_a_pinned_one_is_kept() -> None:
    raw = shipped("mathtutorbench")
    raw["models"]["mine"] = {"engine": "vllm", "weights": {"repo": "me/mine"}, "needs": {"gpus": 1}}
    raw["run"]["tutors"] = ["mine", "socraticlm-7b"]
    with pytest.raises(UserError, match=r"^models\.mine\.weights\.revision: me/mine has no pinned commit"):
        plan_of(raw)
    raw["models"]["socraticlm-7b"]["weights"]["revision"] = "1" * 40
    raw["run"]["tutors"] = ["socraticlm-7b"]
    assert plan_of(raw).run.tutors == ["socraticlm-7b"]


def test_a_run_of_nothing_but_unpinned_names_is_refused() -> None:
    raw = shipped("mathtutorbench")
    raw["run"]["tutors"] = ["socraticlm-7b"]
    with pytest.raises(
        UserError, match=r"^run\.tutors: no tutor is left.*run `maieutic pin` with the run file \(no public"
    ):
        plan_of(raw)
    raw = shipped("kmpbench")
    raw["run"]["tasks"] = ["kmpbench/dialogue"]
    with pytest.raises(UserError, match=r"^run\.tasks: no task is left.*config/kmpbench_dialogue\.yaml makes such"):
        plan_of(raw)
