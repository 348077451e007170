"""Tests of the command line: flags from signatures, jobs from JSON, one-line errors, and rules' calls of commands."""

from __future__ import annotations

import ast
import errno
import inspect
import json
import logging
import os
import re
import shlex
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import ROOT
from maieutic import cli
from maieutic import commands as commands_module
from maieutic.commands import USER_STAGES, all_commands, name_of_command
from maieutic.core.errors import UserError
from maieutic.core.jobs import Job, parse_rule_arguments
from run_configs import STAGES

FUNCTIONS = [function for functions in all_commands().values() for function in functions]
RULE = re.compile(r"^rule (\w+):\n((?:    .*\n|\n)+)", re.MULTILINE)


def function_of(place: str) -> Callable[..., None]:
    function = commands_module.command_function(name_of_command(place))
    assert function is not None
    return function


def rules() -> dict[str, str]:
    """Map each rule that runs a command to its body."""
    texts = [path.read_text(encoding="utf-8") for path in sorted(Path("workflow/rules").glob("*.smk"))]
    bodies = {name: body for text in texts for name, body in RULE.findall(text)}
    return {name: body for name, body in bodies.items() if name not in {"fetch", "curate", "questions"}}


def flags_of(rule: str) -> set[str]:
    """Return the arguments that a rule's command line sets with flags."""
    shell = rules()[rule].partition("    shell:\n")[2]
    call = ast.parse(textwrap.dedent(shell)).body[0].value  # type: ignore[attr-defined]
    assert ast.unparse(call.func) == "command" and call.args[0].value == rule.replace("_", "-")
    words = {"job": "True"} | {
        str(keyword.arg): ast.unparse(keyword.value) for keyword in call.keywords if keyword.arg != "python"
    }
    return {word for word, value in words.items() if value != "False"}


@pytest.mark.parametrize("rule", rules())
def test_a_rule_gives_its_command_what_it_takes(rule: str) -> None:
    """Each flag is an argument of the command, and each argument without a default has a flag."""
    [place] = [place for place in FUNCTIONS if place.endswith(f":{rule}")]
    flags = flags_of(rule)
    parameters = inspect.signature(function_of(place)).parameters
    assert flags <= set(parameters)
    assert {name for name, parameter in parameters.items() if parameter.default is inspect.Parameter.empty} <= flags
    assert len(flags) <= 9, "values of the configuration are passed in the job"
    has_job = any(hasattr(module, f"{rule}_job") for module in STAGES)
    assert ("job" in parameters) == has_job, "a rule's job is the function of the rule's name"


FAULTS = {
    "no such command": (["scor-replies"], 'Unknown command "scor-replies". Did you mean "score-replies"?'),
    "no such flag": (["recover", "--result", "x"], "--result"),
    "a missing flag": (["share"], "out"),
    "a job that lacks a field": (["score-replies", "--job", "{}", "--items", "i", "--grades", "--out", "o"], "benchmark: Field required"),
    "a job with an extra field": (["parse-replies", "--job", '{"benchmark": "b", "tasks": [], "more": 1}', "--items", "i", "--replies", "r", "--out", "o"], "more: Extra inputs"),
    "invalid JSON": (["parse-replies", "--job", "no", "--items", "i", "--replies", "r", "--out", "o"], "Invalid JSON"),
    "a value that is not a choice": (["score-predictions", "a", "b", "c", "--missing", "maybe"], '"wrong", "exclude", "refuse"'),
}  # fmt: skip


@pytest.mark.parametrize(("words", "problem"), FAULTS.values(), ids=FAULTS.keys())
def test_a_fault_of_the_command_line_is_one_line(
    words: list[str], problem: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(words) == 2
    message = capsys.readouterr().err
    assert problem in message and message.count("\n") == 1
    is_command = words and words[0] in {
        name_of_command(function) for functions in all_commands().values() for function in functions
    }
    assert message.rstrip().endswith(
        f"Fix: run `maieutic {words[0]} --help`" if is_command else "Fix: run `maieutic --help`"
    )


EXITS = {
    "a fault that the user can fix": (UserError("place", "problem", "fix"), 2, "place: problem. Fix: fix"),
    "a full disk": (
        OSError(errno.ENOSPC, "No space left on device", "out.jsonl"), 2,
        "out.jsonl: No space left on device. Fix: free disk space or correct the permissions, then run again: finished work is kept\n",
    ),
    "a used quota": (OSError(errno.EDQUOT, "Disk quota exceeded"), 2, "results: Disk quota exceeded. Fix: free disk space"),
    "a read-only disk": (OSError(errno.EROFS, "Read-only file system", "o"), 2, "o: Read-only file system. Fix: free disk space"),
    "another user's folder": (PermissionError(errno.EACCES, "Permission denied", "o"), 2, "o: Permission denied. Fix: "),
    "an interrupt": (KeyboardInterrupt(), 130, "recover was interrupted; finished work is kept"),
    "a fault of the program": (ValueError("odd"), 1, "recover failed"),
    "a missing file": (FileNotFoundError(2, "No such file", "x"), 1, "recover failed"),
}  # fmt: skip


@pytest.mark.parametrize(("error", "code", "message"), EXITS.values(), ids=EXITS.keys())
def test_how_a_command_ends(error: BaseException, code: int, message: str, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.ERROR):
        assert cli.exit_code_of(error, "recover") == code
    assert message in caplog.text


def test_of_many_faults_a_rule_s_log_has_all_and_the_terminal_the_first(caplog: pytest.LogCaptureFixture) -> None:
    faults = UserError.of([UserError(f"p{number}", "wrong", "mend it") for number in range(9)])
    with caplog.at_level(logging.WARNING):
        cli.exit_code_of(faults, "make-items", Path("x.log"))
    terminal_lines = [record.getMessage() for record in caplog.records if not getattr(record, "log_alone", False)]
    assert terminal_lines == [
        "p0: wrong. Fix: mend it",
        "p1: wrong. Fix: mend it",
        "7 more faults are in the log: x.log",
    ]
    assert sum("wrong" in record.getMessage() for record in caplog.records) == 9
    assert caplog.records[-1].levelno == logging.WARNING, "the run's last lines quote the last error"
    caplog.clear()
    cli.exit_code_of(faults, "doctor")
    assert len(caplog.records) == 9, "an interactive command has no log"


def words_of_flag(name: str, kind: str) -> list[str]:
    """Return a flag with words that a rule could write for an argument of this annotation."""
    words = {"Path": ["a b/ü 数.jsonl"], "list[Path]": ["one", "$(two) 'x'", "th=ree", "[4].jsonl"], "int": ["7"]}
    return [f"--{name.replace('_', '-')}", *words[kind.removesuffix(" | None")]]


@pytest.mark.parametrize("rule", sorted(rules()))
def test_a_rule_s_line_is_read_without_the_library_as_with_it(rule: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rules' lines are parsed without cyclopts, to save a fifth of a small job's CPU time, to the same arguments."""
    [place] = [place for place in FUNCTIONS if place.endswith(f":{rule}")]
    function = function_of(place)
    parameters = [
        parameter for parameter in inspect.signature(function).parameters.values() if parameter.name in flags_of(rule)
    ]
    if "job" not in {parameter.name for parameter in parameters}:
        assert parse_rule_arguments(function, ["--out", "o"]) is None
        return
    monkeypatch.setattr(inspect.getmodule(function), parameters[0].annotation, AnyJob)
    words = ["--job", '{"tutor": "--log"}']
    words += [word for parameter in parameters[1:] for word in words_of_flag(parameter.name, parameter.annotation)]
    _, bound, _ = cli.application().parse_args([name_of_command(place), *words], exit_on_error=False, print_error=False)
    assert parse_rule_arguments(function, words) == {**bound.arguments, "log": None}
    assert parse_rule_arguments(function, [*words, "--log", "l"]) == {**bound.arguments, "log": Path("l")}
    assert parse_rule_arguments(function, words[2:]) is None and parse_rule_arguments(function, words[:2]) is None


class AnyJob(Job):
    """Job with one field, in place of each rule's job."""

    tutor: str


def judge(*, job: AnyJob, votes: list[Path], out: Path, rounds: int = 1, share: float = 0.5) -> None:
    """Stand in for a command with an argument of each annotation."""


RULE_WORDS = ["--job", '{"tutor": "a"}', "--votes", "--out", "o"]
OTHER_WORDS = {
    "nothing": [],
    "no flag": ["judge"],
    "a word before the flags": ["x", *RULE_WORDS],
    "a repeated flag": [*RULE_WORDS, "--out", "p"],
    "a flag with its value after =": [*RULE_WORDS, "--rounds=3"],
    "a short flag": [*RULE_WORDS, "-r"],
    "an unknown flag": [*RULE_WORDS, "--round", "3"],
    "a keyword of Python": [*RULE_WORDS, "--return", "3"],
    "two values of a single-value flag": [*RULE_WORDS, "p"],
    "no value of a single-value flag": [*RULE_WORDS, "--rounds"],
    "not a number": [*RULE_WORDS, "--rounds", "many"],
    "an annotation that no rule uses": [*RULE_WORDS, "--share", "0.1"],
    "a job with an extra field": ["--job", '{"tutor": "a", "more": 1}', *RULE_WORDS[2:]],
    "invalid JSON": ["--job", "no", *RULE_WORDS[2:]],
    "a value that looks like a flag": [*RULE_WORDS[:3], "--out", "-o"],
}


@pytest.mark.parametrize("words", OTHER_WORDS.values(), ids=OTHER_WORDS.keys())
def test_any_other_line_is_left_to_the_library(words: list[str]) -> None:
    assert parse_rule_arguments(judge, words) is None
    arguments = {"job": AnyJob(tutor="a"), "votes": [], "out": Path("o")}
    assert parse_rule_arguments(judge, [*RULE_WORDS, "--rounds", "3"]) == {**arguments, "rounds": 3, "log": None}


def test_a_job_crosses_as_it_was(tmp_path: Path) -> None:
    """A real process receives quotes, newlines and letters of any script unchanged, and exits with 0."""
    job = {"config": {"a": 'it\'s\n"so" $(x) `y` ü 数'}, "provenance": {"b": 1}}
    out, other = tmp_path / "config.yaml", tmp_path / "provenance.json"
    command = [sys.executable, "-m", "maieutic", "save-config", "--job", json.dumps(job)]
    env = {**os.environ, "PYTHONPATH": "workflow"}
    process = subprocess.run([*command, "--out", out, "--provenance", other, "--log", tmp_path / "log"], env=env)
    assert process.returncode == 0, (tmp_path / "log").read_text()
    import yaml

    assert yaml.safe_load(out.read_text(encoding="utf-8")) == job["config"]
    assert "ü 数" in out.read_text(encoding="utf-8"), "letters are not escaped"


def printed_by(code: str) -> str:
    """Run Python code in a new process and return its standard output."""
    env = {**os.environ, "PYTHONPATH": "workflow"}
    process = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True)
    assert process.stdout, process.stderr
    return process.stdout


def test_no_command_leaves_a_core_dump() -> None:
    """A core dump could contain an API key. Child processes inherit the limit."""
    code = (
        "import resource, subprocess, sys; from maieutic.cli import run_command\n"
        "ask = 'import resource; print(resource.getrlimit(resource.RLIMIT_CORE)[0])'\n"
        "run_command('doctor', lambda: subprocess.run([sys.executable, '-c', ask]), None)\n"
        "print(resource.getrlimit(resource.RLIMIT_CORE)[0])"
    )
    assert printed_by(code).split() == ["0", "0"]


def test_help_has_a_line_for_each_command_of_people_and_loads_nothing_heavy() -> None:
    """The steps, which rules run, are listed separately."""
    code = (
        "import sys; from maieutic.cli import main; main([]); main(['steps'])\n"
        "print([name for name in ('numpy', 'sklearn', 'pandas', 'snakemake') if name in sys.modules])"
    )
    env = {**os.environ, "PYTHONPATH": "workflow", "COLUMNS": "200"}
    process = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True)
    user_help, steps_help = process.stdout.split("\nData\n")
    for function in (function for stage in USER_STAGES for function in all_commands()[stage]):
        assert re.search(rf"{name_of_command(function)} +[A-Z`][^│]{{15,}}", user_help), f"{function} {process.stderr}"
    assert "score-replies" not in user_help and "estimate" not in steps_help
    rule_commands = [
        function for stage, functions in all_commands().items() if stage not in USER_STAGES for function in functions
    ]
    assert all(
        re.search(rf"^  {name_of_command(function)} +\S", steps_help, re.MULTILINE) for function in rule_commands
    )
    assert process.stdout.rstrip().endswith("[]")


@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_a_reader_that_ends_early_is_no_error(unbuffered: str) -> None:
    """As in `maieutic steps | head -1`."""
    environment = {**os.environ, "PYTHONPATH": "workflow", "PYTHONUNBUFFERED": unbuffered}
    command = f"{shlex.quote(sys.executable)} -m maieutic steps | head -1; echo ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", command], cwd=ROOT, env=environment, capture_output=True, text=True)
    assert done.stderr == "" and done.stdout.splitlines()[1] in ("0", "141")
