"""Tests of locks, above all on a file system without them, such as NFS without its lock service."""

from __future__ import annotations

import asyncio
import errno
import fcntl
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from maieutic.config.budget import Budget
from maieutic.core.errors import UserError
from maieutic.core.journal import FinishedRequest, Journal, take_lock
from maieutic.core.locks import has_locks, is_other_owner_here, lock_exclusively, owner_line
from maieutic.launch import hooks, results_lock, runs
from maieutic.serving import devices, eviction, recover
from test_budget import purse, request, reserve

ERRORS = [errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP]


@pytest.fixture(params=ERRORS, ids=errno.errorcode.get)
def without_locks(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Let no file system have locks, and return the working directory."""

    def refuse(handle: Any, operation: int) -> None:
        raise OSError(request.param, os.strerror(request.param))

    monkeypatch.setattr(fcntl, "flock", refuse)
    monkeypatch.setattr(eviction, "FOLDER", tmp_path)
    monkeypatch.setattr(devices, "FOLDER", tmp_path)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def write_journal(folder: Path) -> None:
    for key in "ab":
        with Journal(folder / "journal.jsonl", FinishedRequest) as journal:
            journal.append(FinishedRequest(key=key, text="4", seconds=0.1, attempts=1))
    assert len(journal.answers.places) == 2


def mark_idle_server(folder: Path) -> None:
    with eviction.hold_shared_locks(eviction.idle_servers_file()):
        assert not eviction.has_shared_lock(eviction.idle_servers_file()), (
            "the lock cannot be seen, so no job waits for it"
        )


def take_device(folder: Path) -> None:
    handle = devices.try_lock(devices.lock_file("0", {}))
    assert handle is not None
    os.close(handle)


def look_for_owners(folder: Path) -> None:
    take_lock(folder / "x.lock")
    assert recover.lock_owner(folder / "x.lock") is None, "this process itself is not to be ended"
    (folder / "x.lock").write_text(f"host {os.uname().nodename} pid 1\n")
    assert recover.lock_owner(folder / "x.lock") == (os.uname().nodename, 1, None)


def lock_run(folder: Path) -> None:
    results_lock.lock_results(folder / "results/.run.lock")
    assert runs.run_in_progress() is None


def use_purse(folder: Path) -> None:
    reserve(purse(folder, usd=1), request())


USES: list[Callable[[Path], None]] = [
    write_journal, mark_idle_server, take_device, look_for_owners, lock_run, use_purse,
]  # fmt: skip


@pytest.mark.parametrize("use", USES)
def test_every_lock_goes_on_without_locks(use: Callable[[Path], None], without_locks: Path) -> None:
    use(without_locks)
    assert not has_locks(without_locks)


def test_other_errors_are_not_taken_for_missing_locks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(handle: Any, operation: int) -> None:
        raise OSError(errno.EIO, "Input/output error")

    assert has_locks(tmp_path / "new")
    monkeypatch.setattr(fcntl, "flock", fail)
    with open(tmp_path / "x", "w", encoding="utf-8") as handle, pytest.raises(OSError, match="Input/output"):
        lock_exclusively(handle)


def test_the_run_says_once_that_there_are_no_locks(without_locks: Path, capsys: pytest.CaptureFixture[str]) -> None:
    results_lock.lock_results()
    assert capsys.readouterr().err == (
        "results: this file system has no locks: do not start another run on these results from another machine\n"
    )


def test_one_writer_at_a_time_and_one_run(without_locks: Path) -> None:
    """A lock is then the name of its owner: another process of this machine counts while it runs."""
    other = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    owner = owner_line().replace(str(os.getpid()), str(other.pid))
    lock, run_lock = without_locks / "journal.lock", without_locks / "results/.run.lock"
    run_lock.parent.mkdir()
    try:
        lock.write_text(owner + "\n")
        run_lock.write_text(f"{owner} in /elsewhere\n")
        assert is_other_owner_here(owner)
        with pytest.raises(UserError, match=f"the journal is being written by host .* pid {other.pid}"):
            Journal(without_locks / "journal.jsonl", FinishedRequest).__enter__()
        with pytest.raises(UserError, match=r"another run uses these results .*delete results/\.run\.lock"):
            results_lock.lock_results()
    finally:
        other.communicate(b"\n")
    write_journal(without_locks)
    results_lock.lock_results()


def test_a_run_on_another_machine_is_not_taken_for_ended(without_locks: Path) -> None:
    run_lock = without_locks / "results/.run.lock"
    run_lock.parent.mkdir()
    run_lock.write_text("host another-machine pid 1 in /x\n")
    with pytest.raises(UserError, match="another run uses these results"):
        results_lock.lock_results()


@pytest.mark.parametrize(
    ("jobs", "budget", "is_refused"), [(2, {"usd": 1}, True), (1, {"usd": 1}, False), (2, {}, False)]
)
def test_several_jobs_share_no_budget_without_locks(
    jobs: int, budget: dict[str, Any], is_refused: bool, without_locks: Path
) -> None:
    plan: Any = SimpleNamespace(run=SimpleNamespace(budget=Budget.model_validate(budget)))
    planned: Any = [SimpleNamespace(resources={"server_gpus": 0})] * jobs + [SimpleNamespace(resources={})]
    if not is_refused:
        hooks.check_budget_without_locks(plan, planned, without_locks)
        return
    with pytest.raises(UserError, match=r"run\.budget: .* 2 jobs cannot share a budget\. Fix: link results"):
        hooks.check_budget_without_locks(plan, planned, without_locks)


def test_a_waiting_job_uses_no_lock_of_its_own(without_locks: Path) -> None:
    asyncio.run(eviction.wait_for_memory("m", 1))
    assert not [*without_locks.rglob("*")]
