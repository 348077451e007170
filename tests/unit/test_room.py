"""Idle servers give way, and which run a server is of: what can be told without a server."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest
from maieutic.serving import devices, eviction, leased_server, server
from maieutic.serving.leased_server import pool_folder
from maieutic.serving.run_environment import RUN_VARIABLE, SnakemakeRun


def test_who_needs_little_memory_or_finds_no_idle_server_waits_for_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(eviction, "FOLDER", tmp_path)
    slept: list[float] = []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    monkeypatch.setattr(asyncio, "sleep", sleep)
    monkeypatch.setattr(eviction, "EVICTION_SECONDS", 0.2)
    asyncio.run(eviction.wait_for_memory("m", 1 << 40))
    with eviction.hold_shared_locks(eviction.idle_servers_file()):
        asyncio.run(eviction.wait_for_memory("m", 1))
        assert slept == []
        asyncio.run(eviction.wait_for_memory("m", 1 << 40))
    assert slept, "for a moment, then it starts all the same"


@pytest.mark.parametrize(
    ("limit", "used", "expected"),
    [
        ("max", "5", None),
        ("1048576000", "419430400", (600, 1000)),
        ("1048576000", "2097152000", (0, 1000)),
        ("", "", None),
    ],
)
def test_memory_is_that_of_the_container(
    limit: str, used: str, expected: tuple[int, int] | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(eviction, "CGROUPS", ())
    free, total = eviction.memory_mb()
    assert 0 < free <= total
    (tmp_path / "max").write_text(limit)
    (tmp_path / "current").write_text(used)
    monkeypatch.setattr(
        eviction, "CGROUPS", ((tmp_path / "gone", tmp_path / "gone"), (tmp_path / "max", tmp_path / "current"))
    )
    found = eviction.memory_mb()
    assert found == expected if expected else found[1] == total


def test_a_folder_of_somebody_else_is_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leased_server, "SOCKETS", tmp_path)
    run = SnakemakeRun.here(1.0)
    folder = tmp_path / f"maieutic-{os.getpid()}-{os.getuid()}"
    assert pool_folder(run) == folder and folder.stat().st_mode & 0o777 == 0o700
    folder.chmod(0o777)
    assert pool_folder(run) is None
    folder.rmdir()
    folder.symlink_to(tmp_path)
    assert pool_folder(run) is None


def test_a_run_is_told_from_a_later_process_with_its_pid(monkeypatch: pytest.MonkeyPatch) -> None:
    here = SnakemakeRun.here(5.0)
    assert SnakemakeRun.of({RUN_VARIABLE: here.variable()}) == here and here.is_alive()
    assert SnakemakeRun.of({RUN_VARIABLE: here._replace(start_ticks="1").variable()}) is None
    for value in ("", "x", "1:2", "a:b:c", f"{here.pid}::5", here._replace(linger=0).variable(), "0:0:5"):
        assert SnakemakeRun.of({RUN_VARIABLE: value}) is None, value
    assert SnakemakeRun.of({}) is None


def test_places_of_servers_are_short() -> None:
    """A unix socket's path may have 107 characters."""
    longest = (
        leased_server.SOCKETS
        / f"maieutic-{2**22}-{2**32}"
        / f"{'f' * leased_server.KEY_LENGTH}-{leased_server.MOST_SERVERS}"
        / "keeper.sock"
    )
    assert len(str(longest)) < 100
    assert devices.FOLDER == eviction.FOLDER == server.SOCKETS
