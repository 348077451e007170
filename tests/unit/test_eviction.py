"""Tests of eviction and shared servers without a server: waiting for memory, memory limits, pools and runs."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest
from maieutic.serving import devices, eviction, leased_server, server
from maieutic.serving.leased_server import pool_folder
from maieutic.serving.run_environment import RUN_VARIABLE, SnakemakeRun


def test_a_job_waits_for_memory_only_if_too_little_is_free_and_a_server_is_idle(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(eviction, "FOLDER", tmp_path)
    waits: list[float] = []

    async def sleep(seconds: float) -> None:
        waits.append(seconds)

    monkeypatch.setattr(asyncio, "sleep", sleep)
    monkeypatch.setattr(eviction, "EVICTION_SECONDS", 0.2)
    asyncio.run(eviction.wait_for_memory("m", 1 << 40))
    with eviction.hold_shared_locks(eviction.idle_servers_file()):
        asyncio.run(eviction.wait_for_memory("m", 1))
        assert waits == []
        asyncio.run(eviction.wait_for_memory("m", 1 << 40))
    assert waits, "the job waits for a while, then starts anyway"


@pytest.mark.parametrize(("limit", "used", "expected"), [
    ("max", "5", None),
    ("1048576000", "419430400", (600, 1000)),
    ("1048576000", "2097152000", (0, 1000)),
    ("", "", None),
])  # fmt: skip
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
    memory = eviction.memory_mb()
    assert memory == expected if expected else memory[1] == total


def test_a_pool_folder_that_is_not_private_is_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leased_server, "SOCKETS", tmp_path)
    run = SnakemakeRun.here(1.0)
    folder = tmp_path / f"maieutic-{os.getpid()}-{os.getuid()}"
    assert pool_folder(run) == folder and folder.stat().st_mode & 0o777 == 0o700
    folder.chmod(0o777)
    assert pool_folder(run) is None
    folder.rmdir()
    folder.symlink_to(tmp_path)
    assert pool_folder(run) is None


def test_a_run_is_distinguished_from_a_later_process_with_its_pid(monkeypatch: pytest.MonkeyPatch) -> None:
    here = SnakemakeRun.here(5.0)
    assert SnakemakeRun.of({RUN_VARIABLE: here.variable()}) == here and here.is_alive()
    assert SnakemakeRun.of({RUN_VARIABLE: here._replace(start_ticks="1").variable()}) is None
    for value in ("", "x", "1:2", "a:b:c", f"{here.pid}::5", here._replace(linger=0).variable(), "0:0:5"):
        assert SnakemakeRun.of({RUN_VARIABLE: value}) is None, value
    assert SnakemakeRun.of({}) is None


def test_socket_paths_are_short() -> None:
    """The path of a unix socket has at most 107 characters."""
    longest = (
        leased_server.SOCKETS
        / f"maieutic-{2**22}-{2**32}"
        / f"{'f' * leased_server.KEY_LENGTH}-{leased_server.MOST_SERVERS}"
        / "keeper.sock"
    )
    assert len(str(longest)) < 100
    assert devices.FOLDER == eviction.FOLDER == server.SOCKETS
