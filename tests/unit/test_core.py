"""Tests of the package's lowest layer: ledgers, path patterns, files, the death of a parent process, and errors."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from maieutic.core.errors import Unpinned, UserError, check_in_turn
from maieutic.core.files import read_json_lines, safe_cell, unquote_cell, write_csv, write_json_lines
from maieutic.core.ledger import SUFFIX, JobSpending, append_line, append_spending, spent_since, valid_json_lines
from maieutic.core.parent_process import PARENT_VARIABLE
from maieutic.core.records import Item, iter_records
from small import alive

ENVIRONMENT = {
    **{k: v for k, v in os.environ.items() if k != PARENT_VARIABLE},
    "PYTHONPATH": str(Path(__file__).parents[2] / "workflow"),
}


def spending(time_: str, asker: str = "a") -> JobSpending:
    return JobSpending(
        time=time_, asker=asker, requests=2, prompt_tokens=3, completion_tokens=4, seconds=0.5, retries={}
    )


def test_spending_since_a_time_is_sorted(tmp_path: Path) -> None:
    late, early, earliest = (f"2026-01-0{day}T00:00:00+00:00" for day in (3, 2, 1))
    append_spending(tmp_path / "x/one.jsonl", spending(late))
    append_spending(tmp_path / "x/one.jsonl", spending(earliest))
    append_spending(tmp_path / "y/two.jsonl", spending(early, "Zoë"))
    append_line(tmp_path / f"y/two{SUFFIX}", {"time": early, "foreign": True})
    with open(tmp_path / f"y/two{SUFFIX}", "ab") as handle:
        handle.write(b"\xff torn\n")
    append_spending(tmp_path / "y/two.jsonl", spending(late, "b"))
    lines = spent_since(early, tmp_path)
    assert [line.time for line in lines] == [early, late, late]
    assert lines[0].asker == "Zoë" and {line.asker for line in lines[1:]} == {"a", "b"}


def test_append_line_makes_folders_and_drops_a_line_that_cannot_be_written(tmp_path: Path) -> None:
    append_line(tmp_path / "a/b/lines", {"a": 1})
    append_line(tmp_path / "a/b/lines/c", {"a": 1})
    assert list(valid_json_lines(tmp_path / "a/b/lines")) == [{"a": 1}]


def test_a_truncated_line_does_not_spoil_the_next_one(tmp_path: Path) -> None:
    append_line(tmp_path / "lines", {"a": 1})
    with open(tmp_path / "lines", "a", encoding="utf-8") as handle:
        handle.write('{"a": 2, "b"')
    append_line(tmp_path / "lines", {"a": 3})
    append_line(tmp_path / "lines", {"a": 4})
    assert list(valid_json_lines(tmp_path / "lines")) == [{"a": 1}, {"a": 3}, {"a": 4}]


def test_json_lines_are_utf8_in_any_locale(tmp_path: Path) -> None:
    write_json_lines(tmp_path / "a.jsonl", [{"text": "Zoë √2"}, {"text": "\n"}])
    assert (tmp_path / "a.jsonl").read_bytes() == '{"text": "Zoë √2"}\n{"text": "\\n"}\n'.encode()
    environment = {**ENVIRONMENT, "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    line = (
        "import pathlib, sys; from maieutic.core.files import read_json_lines; "
        "print(ascii(read_json_lines(pathlib.Path(sys.argv[1]))))"
    )
    printed = subprocess.run(
        [sys.executable, "-c", line, tmp_path / "a.jsonl"], env=environment, check=True, capture_output=True, text=True
    ).stdout
    assert printed.strip() == ascii(read_json_lines(tmp_path / "a.jsonl")), "the locale's encoding is not used"


@pytest.mark.parametrize("text", ["=1+1", "-x", "plain", "'quoted", "'", ""])
def test_a_cell_is_read_as_it_was_written(text: str) -> None:
    assert unquote_cell(safe_cell(text)) == text


def test_an_apostrophe_of_the_text_itself_stays() -> None:
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


@pytest.mark.parametrize(
    "rest", ["time.sleep(60)", "child = os.fork(); os.write(1, b'%d\\n' % os.getpid()); time.sleep(60)"]
)
def test_a_tied_process_and_its_forks_die_with_the_parent(rest: str) -> None:
    child = CHILD.format(parent=PARENT_VARIABLE, rest=rest)
    middle = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {child!r}])"
    with subprocess.Popen(
        [sys.executable, "-c", middle], env=ENVIRONMENT, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        first = process.stdout.readline().split()
        assert first[0] == first[1], "each process passes its pid to the processes that it starts"
        pids = {int(first[0])} | ({int(process.stdout.readline()) for _ in range(2)} if "fork" in rest else set())
        process.kill()
    deadline = time.monotonic() + 10
    while alive(pids) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not alive(pids)


def test_a_process_whose_parent_is_gone_exits_at_once() -> None:
    child = CHILD.format(parent=PARENT_VARIABLE, rest="pass")
    orphan = subprocess.run(
        [sys.executable, "-c", child], env={**ENVIRONMENT, PARENT_VARIABLE: "1"}, capture_output=True, text=True
    )
    assert (orphan.returncode, orphan.stdout) == (1, "")
    process = subprocess.run(
        [sys.executable, "-c", child], env={**ENVIRONMENT, PARENT_VARIABLE: str(os.getpid())}, capture_output=True,
        text=True,
    )  # fmt: skip
    assert process.returncode == 0 and process.stdout


def check_raising(*faults: UserError) -> Callable[[], None]:
    """Return a check that raises these errors, if any."""

    def check() -> None:
        if faults:
            raise UserError.of(list(faults))

    return check


def test_checks_go_on_as_long_as_pins_alone_are_missing() -> None:
    pin, other = Unpinned("a", "has no revision", "pin it"), UserError("b", "is wrong", "mend it")
    last = UserError("c", "is wrong too", "mend it")
    check_in_turn([check_raising()], [check_raising()])
    with pytest.raises(UserError) as error:
        check_in_turn([check_raising(pin)], [check_raising(), check_raising(other)], [check_raising(last)])
    assert [fault.line for fault in error.value.all] == [pin.line, other.line]
    with pytest.raises(UserError) as error:
        check_in_turn([check_raising(pin)], [check_raising()])
    assert [fault.line for fault in error.value.all] == [pin.line]


def test_an_invalid_record_is_refused_by_its_field(tmp_path: Path) -> None:
    path = tmp_path / "items.jsonl"
    whole = {"id": "i", "task": "t", "cluster": "c", "vars": {}, "reference": {}}
    for line, field in (({**whole, "tags": {"a": []}}, "tags.a"), ([], "an object")):
        path.write_text(json.dumps(line) + "\n")
        with pytest.raises(UserError, match=rf"^{path}:1: the line is not a valid Item record: .*{field}\. Fix: "):
            list(iter_records(path, Item))
