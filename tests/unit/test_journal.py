"""Tests of journals: damage, locks and recovery, answers of other journals, and request keys."""

from __future__ import annotations

import fcntl
import hashlib
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from maieutic.core.errors import UserError
from maieutic.core.journal import (
    FinishedRequest,
    Journal,
    Spool,
    canonical_digest,
    load_journal_answers,
    reply_journals,
    request_key,
    take_lock,
)
from maieutic.core.records import read_records
from maieutic.serving.recover import lock_owner, recover

REQUEST = {"endpoint": "chat", "messages": [{"role": "user", "content": "2+2?"}], "temperature": 0.0, "max_tokens": 8}
MODEL = {"engine": "vllm", "files": {"model.safetensors": "aa"}, "dtype": "float32"}


def entry(key: str, text: str = "4") -> FinishedRequest:
    return FinishedRequest(key=key, text=text, seconds=0.1, attempts=1)


def filled_journal(path: Path, count: int = 5) -> Path:
    """Write a journal of `count` answers."""
    with Journal(path, FinishedRequest) as journal:
        for number in range(count):
            journal.append(entry(f"k{number}", f"text {number}\nline \u2028 \x00"))
    return path


def test_answers_are_read_from_the_file_on_access(tmp_path: Path) -> None:
    """Memory use does not grow with the texts, and an answer can be read as soon as it is appended."""
    path = filled_journal(tmp_path / "j.jsonl")
    with Journal(path, FinishedRequest) as journal:
        journal.append(entry("k5", "x" * 100_000), entry("k6", "long \u00fc\u2028 \U0001f600"))
        journal.append(entry("k7"))
        assert sys.getsizeof(journal.answers.places) < 1000 and len(journal.answers) == 8
        texts = [journal.answers[key].text for key in ("k6", "k0", "k7", "k5")]
        assert texts == ["long \u00fc\u2028 \U0001f600", "text 0\nline \u2028 \x00", "4", "x" * 100_000]
        assert journal.answers.get("k8") is None and "k8" not in journal.answers
        assert journal.answers["k0"] is not journal.answers["k0"], "answers are not kept in memory"
        journal.answers.close()
        assert journal.answers["k0"].text.startswith("text 0"), "the file is opened again"
        place = path.read_bytes().index(b'{"key":"k7"')
        # Another process damages the file meanwhile.
        for damage in (path.read_bytes()[:200], path.read_bytes()[:place] + b"\xff\xfe\n"):
            path.write_bytes(damage)
            with pytest.raises(UserError) as error:
                journal.answers["k7"]
            line = f"{path}, byte {place}: a line that was valid before is now damaged. Fix: run again"
            assert error.value.line == line


def test_answers_of_other_journals_are_used_and_not_changed(tmp_path: Path) -> None:
    """A shard does not repeat requests that another shard has answered. The journal's own answers take precedence."""
    first, second = tmp_path / "first.jsonl", tmp_path / "second.jsonl"
    for path, text in ((first, "first"), (second, "second")):
        with Journal(path, FinishedRequest) as journal:
            journal.append(entry("both", text), entry(text, text))
    before = [path.read_bytes() for path in (first, second)]
    third = tmp_path / "own.jsonl"
    with Journal(third, FinishedRequest, [second, tmp_path / "none.jsonl", first]) as journal:
        assert [journal.answers[key].text for key in ("both", "first", "second")] == ["second", "first", "second"]
        assert "first" in journal.answers and "third" not in journal.answers and journal.answers.get("third") is None
        journal.append(entry("first", "not again"), entry("mine", "mine"))
        assert list(journal.answers) == ["mine"], "an answer of another journal is not stored again"
        assert journal.answers["first"].text == "first"
    assert [path.read_bytes() for path in (first, second)] == before and third.read_text().count("\n") == 1
    with Journal(second, FinishedRequest, [first]) as journal:
        assert journal.answers["both"].text == "second", "its own answer takes precedence"
    answers = load_journal_answers(third, FinishedRequest, [first])
    assert (len(answers), answers["both"].text, answers["mine"].text) == (1, "first", "mine")


def test_the_journals_of_a_tutor_are_found_for_any_number_of_shards(tmp_path: Path) -> None:
    names = [
        "m.jsonl", "shards/1-of-2/m.jsonl", "shards/2-of-2/m.jsonl", "shards/1-of-2/m2.jsonl", "m.ledger",
        "other.m.jsonl",
    ]  # fmt: skip
    for name in [*names, "a[b].jsonl", "ab.jsonl"]:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    assert reply_journals(tmp_path, "m") == [tmp_path / name for name in names[:3]]
    assert reply_journals(tmp_path, "a[b]") == [tmp_path / "a[b].jsonl"], "a name is not a glob pattern"


def test_a_spool_returns_records_in_any_order_and_leaves_no_file(tmp_path: Path) -> None:
    spool: Spool[int, FinishedRequest] = Spool(tmp_path / "new/folder")
    assert Path(f"/proc/self/fd/{spool._file.fileno()}").readlink().is_relative_to(tmp_path / "new/folder")
    for number in (2, 0, 1):
        spool.put(number, entry(f"k{number}", "\n\u2028" * number))
    assert [FinishedRequest.model_validate_json(line).key for line in spool.lines([0, 2])] == ["k0", "k2"]
    spool.put(3, entry("k3"))
    spool.write(tmp_path / "out.jsonl")
    records = read_records(tmp_path / "out.jsonl", FinishedRequest)
    assert [record.text for record in records] == ["", "\n\u2028", "\n\u2028" * 2, "4"]
    assert (len(spool), 3 in spool, 4 in spool) == (4, True, False)
    with pytest.raises(KeyError):
        list(spool.lines([4]))
    assert not list((tmp_path / "new/folder").iterdir())


@pytest.mark.parametrize("cut", [1, 5, 40])
def test_a_truncated_last_line_loses_only_that_answer(cut: int, tmp_path: Path) -> None:
    path = filled_journal(tmp_path / "j.jsonl")
    path.write_bytes(path.read_bytes()[:-cut])
    with Journal(path, FinishedRequest) as journal:
        lost = {"k4"} if cut > 1 else set()
        assert set(journal.answers) == {"k0", "k1", "k2", "k3", "k4"} - lost
        journal.append(entry("k4", "again"))
        journal.append(entry("k5"))
    with Journal(path, FinishedRequest) as journal:
        assert {"k4", "k5"} <= set(journal.answers), "lines after a truncated one are intact"


@pytest.mark.parametrize(("damage", "kept", "broken"), [
    (lambda lines: [], 0, 0),
    (lambda lines: [lines[0], b"\x00" * 50 + b"\n", *lines[1:]], 5, 1),
    (lambda lines: lines + lines, 5, 0),
    (lambda lines: lines[::-1], 5, 0),
    (lambda lines: [b'{"key": "k9"}\n', b"[]\n", b"\xff\xfe\n", *lines], 5, 3),
    (lambda lines: [b"\n", b"  \n", *lines], 5, 0),
], ids=["zero bytes", "NUL bytes", "doubled", "swapped", "foreign lines", "blank lines"])  # fmt: skip
def test_a_damaged_journal_keeps_its_valid_lines(damage: object, kept: int, broken: int, tmp_path: Path) -> None:
    path = filled_journal(tmp_path / "j.jsonl")
    path.write_bytes(b"".join(damage(path.read_bytes().splitlines(keepends=True))))
    with Journal(path, FinishedRequest) as journal:
        assert (len(journal.answers), journal.broken) == (kept, broken)


def test_a_repeated_key_keeps_its_first_answer(tmp_path: Path) -> None:
    with Journal(tmp_path / "j.jsonl", FinishedRequest) as journal:
        journal.append(entry("k", "first"))
        journal.append(entry("k", "second"))
    assert (tmp_path / "j.jsonl").read_text().count("\n") == 1
    with Journal(tmp_path / "j.jsonl", FinishedRequest) as journal:
        assert journal.answers["k"].text == "first"


def changed_key(**change: object) -> str:
    return request_key({**REQUEST, **change}, MODEL)


def test_a_key_depends_on_all_that_can_change_the_answer() -> None:
    base = request_key(REQUEST, MODEL)
    others = [
        changed_key(messages=[{"role": "system", "content": "2+2?"}]),
        changed_key(messages=[{"role": "user", "content": "2+2? "}]),
        changed_key(temperature=0.1),
        changed_key(max_tokens=9),
        changed_key(endpoint="completions"),
        changed_key(stop=["\n"]),
        request_key(REQUEST, {**MODEL, "files": {"model.safetensors": "ab"}}),
        request_key(REQUEST, {**MODEL, "files": {"model.safetensors": "aa", "chat_template.jinja": "cc"}}),
        request_key(REQUEST, {**MODEL, "dtype": "bfloat16"}),
    ]
    assert len({base, *others}) == len(others) + 1
    assert request_key(dict(reversed(REQUEST.items())), dict(reversed(MODEL.items()))) == base


HOLDER = """
import sys, time
from pathlib import Path
from maieutic.core.journal import Journal, FinishedRequest
with Journal(Path(sys.argv[1]), FinishedRequest) as journal:
    journal.append(FinishedRequest(key="k", text="t", seconds=0, attempts=1))
    print("ready", flush=True)
    time.sleep(60)
"""


def holder(path: Path) -> subprocess.Popen[str]:
    """Start another process that writes to the journal and keeps its lock."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(path)], stdout=subprocess.PIPE, text=True,
        env={**os.environ, "PYTHONPATH": "workflow"},
    )  # fmt: skip
    assert process.stdout is not None and process.stdout.readline() == "ready\n"
    return process


def test_a_second_writer_is_refused_with_the_pid_of_the_first(tmp_path: Path) -> None:
    path = tmp_path / "results/journal/replies/b/m.jsonl"
    process = holder(path)
    try:
        with pytest.raises(UserError, match=rf"pid {process.pid}.*make recover"), Journal(path, FinishedRequest):
            pass
    finally:
        process.kill()
        process.wait()
    with Journal(path, FinishedRequest) as journal:  # the kernel released the killed process's lock
        assert "k" in journal.answers, "an answer is on file as soon as it is appended"


def test_recover_ends_a_driver_that_still_runs(tmp_path: Path) -> None:
    process = holder(tmp_path / "results/journal/replies/b/m.jsonl")
    lock = tmp_path / "results/journal/replies/b/m.lock"
    assert lock_owner(lock) is not None
    recover(tmp_path / "results")
    assert lock_owner(lock) is None
    assert process.wait(10) == -signal.SIGTERM
    recover(tmp_path / "results")  # no error if there is nothing to end


def test_recover_unlocks_the_folder_unless_a_run_is_in_progress(tmp_path: Path) -> None:
    lock, run_lock = tmp_path / ".snakemake/locks/0.output.lock", tmp_path / "results/.run.lock"
    for path in (lock, run_lock):
        path.parent.mkdir(parents=True)
        path.write_text("", encoding="utf-8")
    with open(run_lock, encoding="utf-8") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        with pytest.raises(UserError, match="a run is in progress"):
            recover(tmp_path / "results")
    assert lock.exists()
    recover(tmp_path / "results")
    assert not lock.exists()


def test_recover_cancels_a_job_that_still_runs_on_another_node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The lock names host and SLURM job. A scripted scancel ends the process, as the scheduler would."""
    monkeypatch.setenv("SLURM_JOB_ID", "77")
    process = holder(tmp_path / "results/journal/replies/b/m.jsonl")
    lock = tmp_path / "results/journal/replies/b/m.lock"
    assert lock_owner(lock) == (socket.gethostname(), process.pid, "77")
    lock.write_text("host elsewhere pid 1 slurm job 77\n", encoding="utf-8")
    recover_with_scancel(tmp_path, 'echo "no such job" >&2; exit 1', monkeypatch)
    assert lock_owner(lock) is not None and process.poll() is None, "a refused scancel changes nothing"
    recover_with_scancel(tmp_path, f'[ "$*" = 77 ] && kill {process.pid}', monkeypatch)
    assert lock_owner(lock) is None
    assert process.wait(10) == -signal.SIGTERM


def recover_with_scancel(folder: Path, scancel: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run `recover` with a scancel on the PATH that runs these shell commands."""
    program = folder / "bin/scancel"
    program.parent.mkdir(exist_ok=True)
    program.write_text(f"#!/bin/sh\n{scancel}\n", encoding="utf-8")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}{os.pathsep}{os.environ['PATH']}")
    recover(folder / "results")


# stability of journals: a change of these values would repeat all requests of existing journals -----------------------


def test_request_keys_never_change() -> None:
    """The expected values are frozen, because users' journals contain keys of earlier versions."""
    expected = "sha256:" + hashlib.sha256(b'{"a":["\\u00e9",null,0.5],"b":1}').hexdigest()
    assert canonical_digest({"b": 1, "a": ["\u00e9", None, 0.5]}) == expected
    assert canonical_digest([]) == "sha256:4f53cda18c2baa0c0354bb5f9a3ecbe5ed12ab4d8e11ba873c2f11161202b945"
    key = request_key(REQUEST, MODEL)
    assert key == canonical_digest({"model": MODEL, "request": REQUEST})
    assert key == "sha256:8c3b849e522641b3286fcb286aafd099161b4eae7947504815022af2df449eda"


def test_a_lock_names_its_owner(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "folder/j.lock"
    owner = f"host {socket.gethostname()} pid {os.getpid()}"
    for job, expected in ((None, owner), ("4711", f"{owner} slurm job 4711")):
        if job:
            monkeypatch.setenv("SLURM_JOB_ID", job)
        else:
            monkeypatch.delenv("SLURM_JOB_ID", raising=False)
        path.parent.mkdir(exist_ok=True)
        path.write_text("host some-machine-with-a-long-name pid 999999999 slurm job 888888888888\n", encoding="utf-8")
        with take_lock(path):
            assert path.read_text(encoding="utf-8") == f"{expected}\n", "no text of an earlier owner is left"
            with pytest.raises(UserError) as error:
                take_lock(path)
            assert (error.value.place, error.value.problem, error.value.fix) == (
                str(path), f"the journal is being written by {expected}", "wait for the other process, or stop it with `make recover`",
            )  # fmt: skip
    with take_lock(path):
        path.write_text("", encoding="utf-8")
        with pytest.raises(UserError, match="is being written by another process"):
            take_lock(path)


def test_answers_are_synced_to_disk_once_a_second(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now, syncs = [100.0], [0]
    monkeypatch.setattr("maieutic.core.journal.time.monotonic", lambda: now[0])
    monkeypatch.setattr("maieutic.core.journal.os.fsync", lambda number: syncs.__setitem__(0, syncs[0] + 1))
    with Journal(tmp_path / "j.jsonl", FinishedRequest) as journal:
        counts = []
        for step, seconds in enumerate((0.0, 0.5, 0.5, 0.01, 0.5, 2.0)):
            now[0] += seconds
            journal.append(entry(f"k{step}"))
            counts.append(syncs[0])
        journal.append(entry("k0"))  # a known key is not written
        assert counts == [1, 1, 1, 2, 2, 3] and syncs[0] == 3
    assert syncs[0] == 4, "the journal is synced when it is closed"


def test_damaged_lines_are_logged_with_their_journal(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = filled_journal(tmp_path / "j.jsonl", 2)
    with open(path, "a") as handle:
        handle.write("{\n\n[]\n")
    with Journal(path, FinishedRequest) as journal:
        assert (journal.broken, len(journal.answers)) == (2, 2)
    assert caplog.messages == [f"{path}: 2 damaged line(s) skipped; their requests are sent again"]
