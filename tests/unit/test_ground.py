"""The ground floor, by itself: ledgers, patterns of paths, lines of files, and the death of a parent."""

from __future__ import annotations

import ctypes
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from maieutic.core import parent_process
from maieutic.core.errors import Unpinned, UserError, check_in_turn
from maieutic.core.files import read_json_lines, safe_cell, unquote_cell, write_csv, write_json, write_json_lines
from maieutic.core.ledger import (
    SUFFIX,
    JobSpending,
    append_line,
    append_spending,
    spent_since,
    utc_now,
    valid_json_lines,
)
from maieutic.core.parent_process import PARENT_VARIABLE
from maieutic.core.paths import Pattern
from maieutic.core.records import Item, iter_records

OWN = {
    **{k: v for k, v in os.environ.items() if k != PARENT_VARIABLE},
    "PYTHONPATH": str(Path(__file__).parents[2] / "workflow"),
}


def spent(time_: str, asker: str = "a") -> JobSpending:
    return JobSpending(
        time=time_, asker=asker, requests=2, prompt_tokens=3, completion_tokens=4, seconds=0.5, retries={}
    )


def test_a_ledger_gives_what_was_spent_from_a_time_on_in_its_order(tmp_path: Path) -> None:
    late, early, before = (f"2026-01-0{day}T00:00:00+00:00" for day in (3, 2, 1))
    append_spending(tmp_path / "x/one.jsonl", spent(late))
    append_spending(tmp_path / "x/one.jsonl", spent(before))
    append_spending(tmp_path / "y/two.jsonl", spent(early, "Zoë"))
    append_line(tmp_path / f"y/two{SUFFIX}", {"time": early, "foreign": True})
    with open(tmp_path / f"y/two{SUFFIX}", "ab") as handle:
        handle.write(b"\xff torn\n")
    append_spending(tmp_path / "y/two.jsonl", spent(late, "b"))
    found = spent_since(early, tmp_path)
    assert [line.time for line in found] == [early, late, late]
    assert found[0].asker == "Zoë" and {line.asker for line in found[1:]} == {"a", "b"}


def test_a_torn_line_is_left_out_whatever_bytes_it_ends_with(tmp_path: Path) -> None:
    (tmp_path / "lines").write_bytes(b'{"a": 1}\n{"b": \xff\xfe\n{"c": "\xc3\xa9"}\n')
    assert list(valid_json_lines(tmp_path / "lines")) == [{"a": 1}, {"c": "é"}]


def test_a_line_makes_its_folders_and_is_lost_where_it_cannot_be_written(tmp_path: Path) -> None:
    append_line(tmp_path / "a/b/lines", {"a": 1})
    append_line(tmp_path / "a/b/lines/c", {"a": 1})
    assert list(valid_json_lines(tmp_path / "a/b/lines")) == [{"a": 1}]


def test_the_time_of_a_line_is_in_utc() -> None:
    assert datetime.fromisoformat(utc_now()).utcoffset() == timedelta(0)


def test_a_pattern_is_filled_in_by_parts() -> None:
    pattern = Pattern("results/{benchmark}/{tutor}/{tutor}.jsonl")
    part = pattern.partly(tutor="a b")
    assert isinstance(part, Pattern) and part == "results/{benchmark}/a b/a b.jsonl"
    assert part.of(benchmark="x") == pattern.of(benchmark="x", tutor="a b") == "results/x/a b/a b.jsonl"
    assert pattern.partly(tutor="t", benchmark="u") == "results/u/t/t.jsonl"


def test_lines_are_kept_as_people_read_them(tmp_path: Path) -> None:
    write_json_lines(tmp_path / "a.jsonl", [{"text": "Zoë √2"}, {"text": "\n"}])
    assert (tmp_path / "a.jsonl").read_bytes() == '{"text": "Zoë √2"}\n{"text": "\\n"}\n'.encode()
    plain = {**OWN, "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    line = (
        "import pathlib, sys; from maieutic.core.files import read_json_lines; "
        "print(ascii(read_json_lines(pathlib.Path(sys.argv[1]))))"
    )
    said = subprocess.run(
        [sys.executable, "-c", line, tmp_path / "a.jsonl"], env=plain, check=True, capture_output=True, text=True
    ).stdout
    assert said.strip() == ascii(read_json_lines(tmp_path / "a.jsonl")), "whatever the machine's language is"


@pytest.mark.parametrize("text", ["=1+1", "-x", "plain", "'quoted", "'", ""])
def test_a_cell_is_read_as_it_was_written(text: str) -> None:
    assert unquote_cell(safe_cell(text)) == text


def test_an_apostrophe_that_nobody_put_there_stays() -> None:
    assert unquote_cell("'quoted'") == "'quoted'"


def test_a_table_has_the_line_ends_of_every_other_file(tmp_path: Path) -> None:
    write_csv(tmp_path / "a.csv", ["x", "y"], [["=1", "a,b"], [2, "é"]])
    assert (tmp_path / "a.csv").read_bytes() == 'x,y\n\'=1,"a,b"\n2,é\n'.encode()


CHILD = """
import os, time
from maieutic.core.parent_process import tie_to_parent
tie_to_parent()
print(os.getpid(), os.environ[{parent!r}], flush=True)
{rest}
"""


def alive(pid: int) -> bool:
    """Whether a process runs; one that nobody has waited for yet does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


@pytest.mark.parametrize(
    "rest", ["time.sleep(60)", "child = os.fork(); os.write(1, b'%d\\n' % os.getpid()); time.sleep(60)"]
)
def test_what_is_tied_dies_with_its_parent_and_so_do_its_forks(rest: str) -> None:
    child = CHILD.format(parent=PARENT_VARIABLE, rest=rest)
    middle = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {child!r}])"
    with subprocess.Popen([sys.executable, "-c", middle], env=OWN, stdout=subprocess.PIPE, text=True) as between:
        assert between.stdout is not None
        first = between.stdout.readline().split()
        assert first[0] == first[1], "each process names itself to those that it spawns"
        pids = {int(first[0])} | ({int(between.stdout.readline()) for _ in range(2)} if "fork" in rest else set())
        between.kill()
    until = time.monotonic() + 10
    while any(alive(pid) for pid in pids) and time.monotonic() < until:
        time.sleep(0.02)
    assert not any(alive(pid) for pid in pids)


PR_GET_PDEATHSIG = 2


def signal_at_parents_end() -> int:
    told = ctypes.c_int()
    ctypes.CDLL(None).prctl(PR_GET_PDEATHSIG, ctypes.byref(told))
    return told.value


def test_a_process_asks_for_the_signal_and_names_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    before, registered, ended = signal_at_parents_end(), [], []
    monkeypatch.setattr(os, "register_at_fork", lambda **hooks: registered.append(hooks))
    monkeypatch.setattr(os, "_exit", ended.append)
    monkeypatch.delenv(PARENT_VARIABLE, raising=False)
    try:
        parent_process.tie_to_parent()
        assert signal_at_parents_end() == signal.SIGKILL
    finally:
        ctypes.CDLL(None).prctl(parent_process.PR_SET_PDEATHSIG, before)
    assert registered == [{"after_in_child": parent_process.die_with_parent}]
    assert os.environ[PARENT_VARIABLE] == str(os.getpid()) and not ended
    for named, left in ((os.getppid(), []), (os.getpid(), []), (1, [1]), (os.getpid() + 1, [1])):
        monkeypatch.setenv(PARENT_VARIABLE, str(named))
        ended.clear()
        parent_process.exit_without_parent()
        assert ended == left and os.environ[PARENT_VARIABLE] == str(os.getpid())


def test_what_is_named_to_another_parent_ends_at_once() -> None:
    child = CHILD.format(parent=PARENT_VARIABLE, rest="pass")
    gone = subprocess.run(
        [sys.executable, "-c", child], env={**OWN, PARENT_VARIABLE: "1"}, capture_output=True, text=True
    )
    assert (gone.returncode, gone.stdout) == (1, "")
    kept = subprocess.run(
        [sys.executable, "-c", child], env={**OWN, PARENT_VARIABLE: str(os.getpid())}, capture_output=True, text=True
    )
    assert kept.returncode == 0 and kept.stdout


def raising(*faults: UserError) -> Callable[[], None]:
    """A check that finds something."""

    def check() -> None:
        if faults:
            raise UserError.of(list(faults))

    return check


def test_checks_go_on_as_long_as_pins_alone_are_missing() -> None:
    pin, other = Unpinned("a", "has no revision", "pin it"), UserError("b", "is wrong", "mend it")
    last = UserError("c", "is wrong too", "mend it")
    check_in_turn([raising()], [raising()])
    with pytest.raises(UserError) as found:
        check_in_turn([raising(pin)], [raising(), raising(other)], [raising(last)])
    assert [fault.line for fault in found.value.all] == [pin.line, other.line]
    with pytest.raises(UserError) as found:
        check_in_turn([raising(pin)], [raising()])
    assert [fault.line for fault in found.value.all] == [pin.line]


def test_json_is_written_for_people(tmp_path: Path) -> None:
    write_json(tmp_path / "a.json", {"a": [1]})
    assert (tmp_path / "a.json").read_text() == '{\n "a": [\n  1\n ]\n}'


def test_faults_are_lines_one_after_the_other() -> None:
    first, second = UserError("a", "is wrong.", "mend it"), UserError("b", "goes on ...", "read it")
    assert (first.line, second.line) == ("a: is wrong. Fix: mend it", "b: goes on .... Fix: read it")
    both = UserError.of([first, second, first])
    assert str(both) == f"{first.line} Also, {second.line}" and both.lines == f"{first.line}\n{second.line}"


def test_a_record_that_is_none_is_told_by_its_field(tmp_path: Path) -> None:
    path = tmp_path / "items.jsonl"
    whole = {"id": "i", "task": "t", "cluster": "c", "vars": {}, "reference": {}}
    for line, field in (({**whole, "tags": {"a": []}}, "tags.a"), ([], "the line")):
        path.write_text(json.dumps(line) + "\n")
        with pytest.raises(UserError, match=rf"^{path}:1: expected a Item record, found .* at {field}\. Fix: "):
            list(iter_records(path, Item))
