"""Socket folders of servers, and what a job is told of a keeper that died."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from maieutic.config.models import VllmModel
from maieutic.serving import lent, server
from maieutic.serving.backends import vllm_backend
from maieutic.serving.handover import RUN, Run
from maieutic.serving.server import last_error, sweep


@pytest.fixture(name="gone")
def fixture_gone() -> int:
    """The pid of a process that has ended."""
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    return process.pid


def test_folders_of_killed_drivers_are_removed_and_no_others(gone: int, tmp_path: Path) -> None:
    kept = [f"maieutic-{os.getpid()}-a", "maieutic-x-a", f"maieutic.{gone}", f"other-{gone}-a"]
    for name in [*kept, f"maieutic-{gone}-a", f"maieutic-{gone}-b"]:
        (tmp_path / name).mkdir()
    sweep(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(kept)


def test_two_processes_may_sweep_at_once(gone: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names = [f"maieutic-{gone}-{letter}" for letter in "abc"]
    for name in names:
        (tmp_path / name).mkdir()
    remove, asked = shutil.rmtree, []

    def the_other_is_faster(folder: Path, **options: Any) -> None:
        asked.append(folder)
        for name in names:
            remove(tmp_path / name, **options)

    monkeypatch.setattr(server.shutil, "rmtree", the_other_is_faster)
    sweep(tmp_path)
    assert len(asked) == 1 and not list(tmp_path.iterdir())


@pytest.mark.parametrize("shared", [True, False])
def test_a_job_that_asks_nothing_leaves_no_folder(
    shared: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only keepers remove a run's folder: where all answers are in the journal, there is none."""
    sockets = tmp_path / "sockets"
    sockets.mkdir()
    for module in (lent, server):
        monkeypatch.setattr(module, "SOCKETS", sockets)
    monkeypatch.setenv(RUN, Run.here(5.0 if shared else 0.0).variable())
    (tmp_path / "manifest.json").write_text('{"files": {"model.safetensors": "aa"}}', encoding="utf-8")
    model = VllmModel.model_validate({"engine": "vllm", "weights": {"path": "x"}, "needs": {"gpus": 0}})
    backend, _ = vllm_backend("m", model, tmp_path, tmp_path / "log")
    backend.check()
    assert not list(sockets.iterdir())
    asyncio.run(backend.close())
    assert not list(sockets.iterdir())


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (None, "it wrote nothing"),
        ("\n", "it wrote nothing"),
        ("starts\nready\n", "ready"),
        ("KeyError: 'x'\nends\n", "KeyError: 'x'"),
    ],
)
def test_the_last_words_of_a_log(text: str | None, said: str, tmp_path: Path) -> None:
    if text is not None:
        (tmp_path / "log").write_text(text)
    assert last_error(tmp_path / "log") == said
