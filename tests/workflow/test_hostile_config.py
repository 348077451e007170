"""Tests of hostile texts in configurations and file names: a shell receives one word, or one line refuses the text."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from maieutic.config.faults import alternatives_of
from maieutic.config.settings import Config
from maieutic.core.errors import UserError
from maieutic.run_plan import plan_of
from running import environment, overlay, run
from shipped import shipped
from small import stub_of

RULES = sorted(Path("workflow/rules").glob("*.smk"))
HOSTILE = {
    "substitution": "$(touch pwned)", "backticks": "`touch pwned`", "quotes": "'; touch pwned; '\"; touch pwned; \"",
    "blanks": "a  b > pwned", "glob": "* ? [a-z] ~", "semicolon": "; touch pwned #", "line break": "a\ntouch pwned\n",
    "braces": "{input} {{x}} {pwned}",
}  # fmt: skip
# The texts that are valid in names of files and folders.
HOSTILE_PATHS = {name: text for name, text in HOSTILE.items() if name not in {"line break", "braces"}}
# Replaces the interpreters: appends its arguments to a file, and creates no output of a rule.
RECORDING_INTERPRETER = """#!/usr/bin/env bash
printf '%s\\0' "$@" >>"$RECORDED"
printf '\\n' >>"$RECORDED"
"""


def test_every_placeholder_of_every_rule_is_quoted() -> None:
    """The only shell lines of rules are those of `shell_lines.command_line`, which quotes all placeholders."""
    for path in RULES:
        text = path.read_text(encoding="utf-8")
        for line in re.findall(r"^    shell:\n((?:        .*\n)+)", text, re.MULTILINE):
            assert line.lstrip().startswith("command("), f"{path}: {line}"
        assert "run:" not in re.findall(r"^    (\w+:)$", text, re.MULTILINE), f"{path} has a rule in Python"
    hooks = re.findall(r"shell\(.*", "".join(path.read_text(encoding="utf-8") for path in RULES))
    assert hooks == ['shell(f" {{sys.executable:q}} {report_command}")'], (
        "the command of a hook contains no names from users"
    )


def hostile_run(folder: Path, text: str, in_path: str) -> Path:
    """Write a run file with a text at every key that accepts free text, and a text in every path."""
    parent = folder / f"place {in_path.replace('/', '')}"
    parent.mkdir(parents=True)
    labels = parent / f"labels {in_path.replace('/', '')}.csv"
    labels.write_text("task,item,tutor,criterion,label\nmistake_remediation,x,h,Actionability,Yes\n")
    replies = parent / f"replies {in_path.replace('/', '')}.jsonl"
    replies.write_text('{"id": "problem_solving-0", "reply": "4"}\n')
    weights = parent / "weights"
    weights.mkdir()
    text_fields = {"label": text, "notice": text, "group": text}
    hosted = {
        "engine": "hosted", "model": text, "base_url": "http://127.0.0.1:9/v1", "extra_body": {"a": [text]},
        **text_fields,
    }  # fmt: skip
    served = {
        **stub_of(folder), "weights": {"path": str(weights)}, "engine_args": [text], "runtime_args": [text],
        **text_fields,
    }  # fmt: skip
    served["environment"] = {"VLLM_X": text.replace("\0", "")}
    recorder = parent / f"python {in_path.replace('/', '')}"
    recorder.write_text(RECORDING_INTERPRETER)
    recorder.chmod(0o755)
    models = {
        "h": hosted,
        "s": served,
        "r": {"engine": "recorded", "file": str(replies), **text_fields},
        "j": {"engine": "judge", "model": "h", "rubrics": ["mrbench_taxonomy"], **text_fields},
    }
    return overlay(
        folder,
        {
            "models": models,
            "interpreters": {"driver": str(recorder), "serve": str(recorder)},
            "run": {
                "tutors": ["h", "s", "r"], "tasks": ["mathtutorbench", "mrbench"], "judges": ["j"],
                "human_labels": str(labels),
            },
            "report": {"title": text[:120], "note": text[:5000]},
        },
    )  # fmt: skip


def shell_lines(plan_output: str) -> list[str]:
    """Return the shell lines of a dry run with -p."""
    return [line for line in re.findall(r"^ *Shell command: (.*)$", plan_output, re.MULTILINE) if line != "None"]


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_texts_reach_a_command_as_they_are(name: str, checkouts: Callable[[], Path]) -> None:
    """A real shell runs every shell line of a whole run, with interpreters that record their arguments."""
    folder = checkouts()
    text, recorded = HOSTILE[name], folder / "recorded"
    config = hostile_run(folder, text, HOSTILE_PATHS.get(name, "x"))
    planned = run(folder, config, "-n", "-p", "--forceall")
    assert planned.returncode == 0, planned.stdout[-3000:]
    lines = shell_lines(planned.stdout)
    assert len(lines) > 60, planned.stdout[:3000]
    keys = json.loads(config.read_text())["interpreters"]
    env = {**environment(), "RECORDED": str(recorded), "DRIVER": keys["driver"], "SERVE": keys["serve"]}
    script = "set -euo pipefail\n" + "\n".join(lines) + "\n"
    done = subprocess.run(["bash", "-c", script], cwd=folder, env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    calls = [call.split("\0")[:-1] for call in recorded.read_text().split("\0\n")[:-1]]
    assert len(calls) >= len(lines)
    assert not list(folder.rglob("pwned*")), "no injected command was run"
    jobs = [json.loads(call[call.index("--job") + 1]) for call in calls if "--job" in call]
    arguments = json.dumps(jobs)
    assert json.dumps(text)[1:-1] in arguments, "a job receives the text unchanged"
    paths = [word for call in calls for word in call if word.startswith(str(folder / "place "))]
    assert {Path(path).suffix for path in paths} >= {".csv", ".jsonl"}, "each path is one word"


def string_keys(model: Any, parents: str = "") -> dict[str, Any]:
    """Return the keys of the schema that accept a text, with their fields. parents: path of the model itself."""
    keys: dict[str, Any] = {}
    for name, field in model.model_fields.items():
        key = f"{parents}/{name}" if parents else name
        for kind in alternatives_of(field.annotation):
            if kind.type is str:
                keys[key] = field
            elif hasattr(kind.type, "model_fields") and name not in {"models", "datasets", "curations", "tunings"}:
                keys |= string_keys(kind.type, key)
    return keys


# Keys whose values are checked at use: interpreters by jobs, images with --sdm, the folder with the published edition.
CHECKED_AT_USE = {"interpreters/driver", "interpreters/serve", "containers/driver", "containers/serve", "data_dir"}
# Texts that the page shows escaped
SHOWN = {"report/title", "report/note"}
HARMLESS = CHECKED_AT_USE | SHOWN


@pytest.mark.parametrize("key", [*string_keys(Config), "run/tutors", "run/tasks", "run/judges", "run/labels"])
def test_a_hostile_value_of_any_key_is_one_line_or_harmless(key: str) -> None:
    for text in [*HOSTILE.values(), "\0", "\x1b[2J", "..", "/", "-rf", "a" * 5000]:
        raw = shipped()
        *parents, last = key.split("/")
        section = raw
        for name in parents:
            section = section.setdefault(name, {})
        section[last] = [text] if key in {"run/tutors", "run/tasks", "run/judges", "run/labels"} else text
        try:
            plan_of(raw)
        except UserError as error:
            assert "\n" not in error.line and "Fix: " in error.line and len(error.line) < 1000, error.line
        else:
            assert key in HARMLESS, (key, text)


def test_braces_in_the_checkouts_own_path_work(tmp_path: Path) -> None:
    from conftest import copy_workflow

    folder = copy_workflow(tmp_path / "a {b} c" / "checkout")
    done = run(folder, overlay(folder, {"run": {"tutors": ["echo"], "tasks": ["mathtutorbench/problem_solving"]}}))
    assert done.returncode == 0 and (folder / "results/report/index.html").is_file(), done.stdout[-3000:]
