"""The command line: flags from signatures, jobs from JSON, faults in one line; and the rules that use it."""

from __future__ import annotations

import ast
import errno
import inspect
import json
import logging
import os
import re
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest
from maieutic import cli
from maieutic import commands as commands_module
from maieutic.commands import USER_STAGE, all_commands, name_of_command
from maieutic.core.errors import UserError
from maieutic.core.jobs import Job, parse_rule_arguments
from maieutic.plan.rules import INPUTS, JOBS
from maieutic.plan.shell_lines import SERVE, LiteralWord, command_line

FUNCTIONS = [function for functions in all_commands().values() for function in functions]
RULE = re.compile(r"^rule (\w+):\n((?:    .*\n|\n)+)", re.MULTILINE)


def function_of(place: str) -> Callable[..., None]:
    function = commands_module.command_function(name_of_command(place))
    assert function is not None
    return function


def rules() -> dict[str, str]:
    """The body of every rule that runs a command."""
    texts = [path.read_text(encoding="utf-8") for path in sorted(Path("workflow/rules").glob("*.smk"))]
    found = {name: body for text in texts for name, body in RULE.findall(text)}
    return {name: body for name, body in found.items() if name not in {"fetch", "curate", "questions"}}


@pytest.mark.parametrize("place", FUNCTIONS)
def test_a_command_says_what_it_does_and_types_every_argument(place: str) -> None:
    function = function_of(place)
    assert inspect.getdoc(function), place
    parameters = inspect.signature(function).parameters.values()
    assert all(one.annotation is not inspect.Parameter.empty for one in parameters)


def test_each_command_has_one_name() -> None:
    names = [name_of_command(place) for place in FUNCTIONS]
    assert len(set(names)) == len(names) > 40


def written_by(rule: str) -> set[str]:
    """The arguments that a rule's line has flags for."""
    shell = rules()[rule].partition("    shell:\n")[2]
    call = ast.parse(textwrap.dedent(shell)).body[0].value  # type: ignore[attr-defined]
    assert ast.unparse(call.func) == "shell_lines.command_line" and call.args[0].value == rule.replace("_", "-")
    words = {"job": "True"} | {str(one.arg): ast.unparse(one.value) for one in call.keywords if one.arg != "python"}
    return {word for word, value in words.items() if value != "False"}


@pytest.mark.parametrize("rule", rules())
def test_a_rule_gives_its_command_what_it_takes(rule: str) -> None:
    """Every flag is an argument, and no argument without a default is left out."""
    [place] = [place for place in FUNCTIONS if place.endswith(f":{rule}")]
    given = written_by(rule)
    taken = inspect.signature(function_of(place)).parameters
    assert given <= set(taken)
    assert {name for name, one in taken.items() if one.default is inspect.Parameter.empty} <= given
    assert len(given) <= 9, "what the configuration says crosses in the job"
    assert ("job" in taken) == any(hasattr(one, rule) for one in JOBS), "a rule's job is the function of its name"
    assert ("unpack(plan.inputs_of(" in rules()[rule]) == any(hasattr(one, rule) for one in INPUTS)


def test_a_line_is_quoted_and_ends_in_its_log() -> None:
    assert command_line("find-overlap", items="i", labels_out="{output.x}") == (
        '"$DRIVER" -m maieutic find-overlap --job {params.job:q} --items i --labels-out {output.x:q} --log {log:q}'
    )
    folder = LiteralWord("/a {b} $(touch pwned)/demo")
    assert "--demo-dir '/a {{b}} $(touch pwned)/demo'" in command_line("fetch-dataset", demo_dir=folder)
    assert command_line("check-report", job=False, python=SERVE) == '"$SERVE" -m maieutic check-report --log {log:q}'


def test_score_replies_takes_little() -> None:
    """`score-replies` had fifteen flags: what each new grader needed of the configuration."""
    assert set(inspect.signature(function_of("scores.score:score_replies")).parameters) == {
        "job",
        "items",
        "grades",
        "out",
    }


FAULTS = {
    "no such command": (["scor-replies"], 'Unknown command "scor-replies". Did you mean "score-replies"?'),
    "no such flag": (["recover", "--result", "x"], "--result"),
    "a flag that lacks": (["recover"], "results"),
    "a job that lacks a field": (["score-replies", "--job", "{}", "--items", "i", "--grades", "--out", "o"], "benchmark: Field required"),
    "a job with one more": (["parse-replies", "--job", '{"benchmark": "b", "tasks": [], "more": 1}', "--items", "i", "--replies", "r", "--out", "o"], "more: Extra inputs"),
    "no JSON": (["parse-replies", "--job", "no", "--items", "i", "--replies", "r", "--out", "o"], "Invalid JSON"),
    "not one of several": (["score-predictions", "a", "b", "c", "--missing", "maybe"], '"wrong", "exclude", "refuse"'),
}  # fmt: skip


@pytest.mark.parametrize(("words", "told"), FAULTS.values(), ids=FAULTS.keys())
def test_a_fault_of_the_command_line_is_one_line(
    words: list[str], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(words) == 2
    said = capsys.readouterr().err
    assert told in said and said.count("\n") == 1
    known = words and words[0] in {
        name_of_command(function) for functions in all_commands().values() for function in functions
    }
    assert said.rstrip().endswith(f"Fix: run `maieutic {words[0]} --help`" if known else "Fix: run `maieutic --help`")


ENDS = {
    "what a user can mend": (UserError("place", "problem", "fix"), 2, "place: problem. Fix: fix"),
    "a full disk": (
        OSError(errno.ENOSPC, "No space left on device", "out.jsonl"), 2,
        "out.jsonl: No space left on device. Fix: free disk space or correct the permissions, then run again: finished work is kept\n",
    ),
    "a used quota": (OSError(errno.EDQUOT, "Disk quota exceeded"), 2, "results: Disk quota exceeded. Fix: free disk space"),
    "a read-only disk": (OSError(errno.EROFS, "Read-only file system", "o"), 2, "o: Read-only file system. Fix: free disk space"),
    "a folder of somebody else's": (PermissionError(errno.EACCES, "Permission denied", "o"), 2, "o: Permission denied. Fix: "),
    "an interrupt": (KeyboardInterrupt(), 130, "recover was interrupted; finished work is kept"),
    "a fault of the program": (ValueError("odd"), 1, "recover failed"),
    "a file that is not there": (FileNotFoundError(2, "No such file", "x"), 1, "recover failed"),
}  # fmt: skip


@pytest.mark.parametrize(("error", "code", "told"), ENDS.values(), ids=ENDS.keys())
def test_how_a_command_ends(error: BaseException, code: int, told: str, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.ERROR):
        assert cli.exit_code_of(error, "recover") == code
    assert told in caplog.text


def test_of_many_faults_a_rule_s_log_has_all_and_the_terminal_the_first(caplog: pytest.LogCaptureFixture) -> None:
    faults = UserError.of([UserError(f"p{number}", "wrong", "mend it") for number in range(9)])
    with caplog.at_level(logging.WARNING):
        cli.exit_code_of(faults, "make-items", Path("x.log"))
    shown = [record.getMessage() for record in caplog.records if not getattr(record, "log_alone", False)]
    assert shown == ["p0: wrong. Fix: mend it", "p1: wrong. Fix: mend it", "and 7 more faults: x.log"]
    assert sum("wrong" in record.getMessage() for record in caplog.records) == 9
    assert caplog.records[-1].levelno == logging.WARNING, "the run's last lines quote the last error"
    caplog.clear()
    cli.exit_code_of(faults, "doctor")
    assert len(caplog.records) == 9, "at the command line there is no log"


def test_several_files_or_none_and_odd_names(tmp_path: Path) -> None:
    """A list takes what a rule gives it, nothing included; a name with spaces, quotes or dashes stays one."""
    seen = []

    def judge(*, votes: list[Path], out: Path) -> None:
        seen.append((votes, out))

    app = cli.application()
    app.command(judge, name="judge")
    app(["judge", "--votes", "--out", "o"])
    app(["judge", "--votes", "a b", "c'd$(e)", "--out", "o"])
    assert seen == [([], Path("o")), ([Path("a b"), Path("c'd$(e)")], Path("o"))]


def of_a_kind(name: str, kind: str) -> list[str]:
    """Words that a rule might write behind a flag of this kind."""
    words = {"Path": ["a b/ü 数.jsonl"], "list[Path]": ["one", "$(two) 'x'", "th=ree", "[4].jsonl"], "int": ["7"]}
    return [f"--{name.replace('_', '-')}", *words[kind.removesuffix(" | None")]]


@pytest.mark.parametrize("rule", sorted(rules()))
def test_a_rule_s_line_is_read_without_the_library_as_with_it(rule: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The library costs a cheap job a fifth of its CPU; what rules write is read without it, to the same arguments."""
    [place] = [place for place in FUNCTIONS if place.endswith(f":{rule}")]
    function = function_of(place)
    given = [one for one in inspect.signature(function).parameters.values() if one.name in written_by(rule)]
    if "job" not in {one.name for one in given}:
        assert parse_rule_arguments(function, ["--out", "o"]) is None
        return
    monkeypatch.setattr(inspect.getmodule(function), given[0].annotation, AnyJob)
    words = ["--job", '{"tutor": "--log"}']
    words += [word for one in given[1:] for word in of_a_kind(one.name, one.annotation)]
    _, bound, _ = cli.application().parse_args([name_of_command(place), *words], exit_on_error=False, print_error=False)
    assert parse_rule_arguments(function, words) == {**bound.arguments, "log": None}
    assert parse_rule_arguments(function, [*words, "--log", "l"]) == {**bound.arguments, "log": Path("l")}
    assert parse_rule_arguments(function, words[2:]) is None and parse_rule_arguments(function, words[:2]) is None


class AnyJob(Job):
    """A job of one field, in place of each rule's own."""

    tutor: str


def judge(*, job: AnyJob, votes: list[Path], out: Path, rounds: int = 1, share: float = 0.5) -> None:
    """A command with an argument of every kind."""


PLAIN = ["--job", '{"tutor": "a"}', "--votes", "--out", "o"]
OTHER_FORMS = {
    "nothing": [],
    "no flag": ["judge"],
    "a word before the flags": ["x", *PLAIN],
    "a flag twice": [*PLAIN, "--out", "p"],
    "a flag with its value": [*PLAIN, "--rounds=3"],
    "a short flag": [*PLAIN, "-r"],
    "an unknown flag": [*PLAIN, "--round", "3"],
    "a keyword of Python": [*PLAIN, "--return", "3"],
    "two words for one": [*PLAIN, "p"],
    "no word for one": [*PLAIN, "--rounds"],
    "no number": [*PLAIN, "--rounds", "many"],
    "a kind that no rule gives": [*PLAIN, "--share", "0.1"],
    "a job with one field more": ["--job", '{"tutor": "a", "more": 1}', *PLAIN[2:]],
    "no JSON": ["--job", "no", *PLAIN[2:]],
    "a value that looks like a flag": [*PLAIN[:3], "--out", "-o"],
}


@pytest.mark.parametrize("words", OTHER_FORMS.values(), ids=OTHER_FORMS.keys())
def test_any_other_line_is_left_to_the_library(words: list[str]) -> None:
    assert parse_rule_arguments(judge, words) is None
    given = {"job": AnyJob(tutor="a"), "votes": [], "out": Path("o")}
    assert parse_rule_arguments(judge, [*PLAIN, "--rounds", "3"]) == {**given, "rounds": 3, "log": None}


def test_a_job_crosses_as_it_was(tmp_path: Path) -> None:
    """Through a real process: quotes, newlines and letters of any script in a value, and the exit code."""
    given = {"config": {"a": 'it\'s\n"so" $(x) `y` ü 数'}, "provenance": {"b": 1}}
    out, other = tmp_path / "config.yaml", tmp_path / "provenance.json"
    command = [sys.executable, "-m", "maieutic", "save-config", "--job", json.dumps(given)]
    env = {**os.environ, "PYTHONPATH": "workflow"}
    done = subprocess.run([*command, "--out", out, "--provenance", other, "--log", tmp_path / "log"], env=env)
    assert done.returncode == 0, (tmp_path / "log").read_text()
    import yaml

    assert yaml.safe_load(out.read_text(encoding="utf-8")) == given["config"]


def printed_by(code: str) -> str:
    """Run Python code in a process of its own, and return its standard output."""
    env = {**os.environ, "PYTHONPATH": "workflow"}
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True)
    assert done.stdout, done.stderr
    return done.stdout


def test_no_command_leaves_a_core_dump() -> None:
    """A key would stand in it; children inherit the limit."""
    code = (
        "import resource, subprocess, sys; from maieutic.cli import run_command\n"
        "ask = 'import resource; print(resource.getrlimit(resource.RLIMIT_CORE)[0])'\n"
        "run_command('doctor', lambda: subprocess.run([sys.executable, '-c', ask]), None)\n"
        "print(resource.getrlimit(resource.RLIMIT_CORE)[0])"
    )
    assert printed_by(code).split() == ["0", "0"]


def test_cycles_are_looked_for_seldom_and_at_the_end_not_at_all() -> None:
    """In a command, and in Snakemake from the plan on."""
    assert "collect_garbage_rarely()" in Path("workflow/rules/common.smk").read_text(encoding="utf-8")
    code = (
        "import atexit, gc\n"
        "atexit.register(lambda: print(gc.get_threshold(), gc.isenabled(), gc.get_freeze_count() > 0))\n"
        "from maieutic.cli import run_command\n"
        "run_command('label', lambda: None, None)\n"
    )
    assert printed_by(code) == "(100000, 50, 1000) True True\n"


def test_help_has_a_line_for_each_command_of_people_and_loads_nothing_heavy() -> None:
    """The steps, which rules run, stand apart."""
    code = (
        "import sys; from maieutic.cli import main; main([]); main(['steps'])\n"
        "print([name for name in ('numpy', 'sklearn', 'pandas', 'snakemake') if name in sys.modules])"
    )
    env = {**os.environ, "PYTHONPATH": "workflow", "COLUMNS": "200"}
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True)
    helped, steps = done.stdout.split("\nData\n")
    for function in all_commands()[USER_STAGE]:
        assert re.search(rf"{name_of_command(function)} +[A-Z`][^│]{{15,}}", helped), f"{function} {done.stderr}"
    assert "score-replies" not in helped and "estimate" not in steps
    of_rules = [function for stage, own in all_commands().items() if stage != USER_STAGE for function in own]
    assert all(re.search(rf"^  {name_of_command(function)} +\S", steps, re.MULTILINE) for function in of_rules)
    assert done.stdout.rstrip().endswith("[]")
