"""Idle servers give way, and which run a server is of: what can be told without a server."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest
from maieutic.serving import devices, lent, room, server
from maieutic.serving.handover import RUN, Run
from maieutic.serving.lent import pool_folder


def test_who_needs_little_memory_or_finds_no_idle_server_waits_for_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(room, "FOLDER", tmp_path)
    slept: list[float] = []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    monkeypatch.setattr(asyncio, "sleep", sleep)
    monkeypatch.setattr(room, "PATIENCE", 0.2)
    asyncio.run(room.make_room("m", 1 << 40))
    with room.marked(room.idle_servers()):
        asyncio.run(room.make_room("m", 1))
        assert slept == []
        asyncio.run(room.make_room("m", 1 << 40))
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
    monkeypatch.setattr(room, "CGROUPS", ())
    free, total = room.memory_mb()
    assert 0 < free <= total
    (tmp_path / "max").write_text(limit)
    (tmp_path / "current").write_text(used)
    monkeypatch.setattr(
        room, "CGROUPS", ((tmp_path / "gone", tmp_path / "gone"), (tmp_path / "max", tmp_path / "current"))
    )
    found = room.memory_mb()
    assert found == expected if expected else found[1] == total


def test_a_folder_of_somebody_else_is_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lent, "SOCKETS", tmp_path)
    run = Run.here(1.0)
    folder = tmp_path / f"maieutic-{os.getpid()}-{os.getuid()}"
    assert pool_folder(run) == folder and folder.stat().st_mode & 0o777 == 0o700
    folder.chmod(0o777)
    assert pool_folder(run) is None
    folder.rmdir()
    folder.symlink_to(tmp_path)
    assert pool_folder(run) is None


def test_a_run_is_told_from_a_later_process_with_its_pid(monkeypatch: pytest.MonkeyPatch) -> None:
    here = Run.here(5.0)
    assert Run.of({RUN: here.variable()}) == here and here.is_alive()
    assert Run.of({RUN: here._replace(since="1").variable()}) is None
    for value in ("", "x", "1:2", "a:b:c", f"{here.pid}::5", here._replace(linger=0).variable(), "0:0:5"):
        assert Run.of({RUN: value}) is None, value
    assert Run.of({}) is None


def test_places_of_servers_are_short() -> None:
    """A unix socket's path may have 107 characters."""
    longest = lent.SOCKETS / f"maieutic-{2**22}-{2**32}" / f"{'f' * lent.KEY_LENGTH}-{lent.PLACES}" / "keeper.sock"
    assert len(str(longest)) < 100
    assert devices.FOLDER == room.FOLDER == server.SOCKETS
