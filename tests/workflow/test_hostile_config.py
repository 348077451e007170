"""Whatever a configuration, a card or a file's name says reaches a shell as one word, or is refused in one line."""

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
from maieutic.plan.rules import plan_of
from running import environment, overlay, run
from shipped import shipped
from small import stub_of

RULES = sorted(Path("workflow/rules").glob("*.smk"))
HOSTILE = {
    "substitution": "$(touch pwned)",
    "backticks": "`touch pwned`",
    "quotes": "'; touch pwned; '\"; touch pwned; \"",
    "blanks": "a  b > pwned",
    "glob": "* ? [a-z] ~",
    "semicolon": "; touch pwned #",
    "line break": "a\ntouch pwned\n",
    "braces": "{input} {{x}} {pwned}",
}
# What a person may name a file or folder, of those.
IN_PATHS = {name: text for name, text in HOSTILE.items() if name not in {"line break", "braces"}}
# As an interpreter would, puts down what it is called with. Nothing that the rules ask for is made.
RECORDER = """#!/usr/bin/env bash
printf '%s\\0' "$@" >>"$RECORDED"
printf '\\n' >>"$RECORDED"
"""


def test_every_placeholder_of_every_rule_is_quoted() -> None:
    """Rules have no shell line but by `shell_lines.command_line`, whose placeholders are all quoted."""
    for path in RULES:
        text = path.read_text(encoding="utf-8")
        for line in re.findall(r"^    shell:\n((?:        .*\n)+)", text, re.MULTILINE):
            assert line.lstrip().startswith("shell_lines.command_line("), f"{path}: {line}"
        assert "run:" not in re.findall(r"^    (\w+:)$", text, re.MULTILINE), f"{path} has a rule in Python"
    hooks = re.findall(r"shell\(.*", "".join(path.read_text(encoding="utf-8") for path in RULES))
    assert hooks == ['shell(f" {{sys.executable:q}} {command}")'], "a hook's command has names of ours alone"


def hostile_run(folder: Path, text: str, in_path: str) -> Path:
    """A run file with a text at every key that takes any, and in every path."""
    place = folder / f"place {in_path.replace('/', '')}"
    place.mkdir(parents=True)
    labels = place / f"labels {in_path.replace('/', '')}.csv"
    labels.write_text("task,item,tutor,criterion,label\nmistake_remediation,x,h,Actionability,Yes\n")
    replies = place / f"replies {in_path.replace('/', '')}.jsonl"
    replies.write_text('{"id": "problem_solving-0", "reply": "4"}\n')
    weights = place / "weights"
    weights.mkdir()
    named = {"label": text, "notice": text, "group": text}
    hosted = {
        "engine": "hosted",
        "model": text,
        "base_url": "http://127.0.0.1:9/v1",
        "extra_body": {"a": [text]},
        **named,
    }
    served = {
        **stub_of(folder),
        "weights": {"path": str(weights)},
        "engine_args": [text],
        "runtime_args": [text],
        **named,
    }
    served["environment"] = {"VLLM_X": text.replace("\0", "")}
    recorder = place / f"python {in_path.replace('/', '')}"
    recorder.write_text(RECORDER)
    recorder.chmod(0o755)
    models = {
        "h": hosted,
        "s": served,
        "r": {"engine": "recorded", "file": str(replies), **named},
        "j": {"engine": "judge", "model": "h", "rubrics": ["mrbench_taxonomy"], **named},
    }
    return overlay(
        folder,
        {
            "models": models,
            "interpreters": {"driver": str(recorder), "serve": str(recorder)},
            "run": {
                "tutors": ["h", "s", "r"],
                "tasks": ["mathtutorbench", "mrbench"],
                "judges": ["j"],
                "human_labels": str(labels),
            },
        },
    )


def shell_lines(plan_output: str) -> list[str]:
    """The shell lines of a dry run with -p."""
    return [line for line in re.findall(r"^ *Shell command: (.*)$", plan_output, re.MULTILINE) if line != "None"]


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_texts_reach_a_command_as_they_are(name: str, checkouts: Callable[[], Path]) -> None:
    """Every shell line of a whole run is given to a real shell, with an interpreter that writes its arguments down."""
    folder = checkouts()
    text, recorded = HOSTILE[name], folder / "recorded"
    config = hostile_run(folder, text, IN_PATHS.get(name, "x"))
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
    assert not list(folder.rglob("pwned*")), "nothing was run"
    jobs = [json.loads(call[call.index("--job") + 1]) for call in calls if "--job" in call]
    said = json.dumps(jobs)
    assert json.dumps(text)[1:-1] in said, "what is asked of a model crosses as it is"
    paths = [word for call in calls for word in call if word.startswith(str(folder / "place "))]
    assert {Path(path).suffix for path in paths} >= {".csv", ".jsonl"}, "whole paths, each a word"


def string_keys(model: Any, before: str = "") -> dict[str, Any]:
    """Every key of the schema whose value is a text, each with its annotation."""
    keys: dict[str, Any] = {}
    for name, field in model.model_fields.items():
        place = f"{before}/{name}" if before else name
        for kind in alternatives_of(field.annotation):
            if kind.type is str:
                keys[place] = field
            elif hasattr(kind.type, "model_fields") and name not in {"models", "datasets", "curations", "tunings"}:
                keys |= string_keys(kind.type, place)
    return keys


# Looked at when something needs them: interpreters by jobs, images with --sdm, the folder by the published edition.
HARMLESS = {"interpreters/driver", "interpreters/serve", "containers/driver", "containers/serve", "data_dir"}


@pytest.mark.parametrize("key", [*string_keys(Config), "run/tutors", "run/tasks", "run/judges", "run/labels"])
def test_a_hostile_value_of_any_key_is_one_line_or_harmless(key: str) -> None:
    for text in [*HOSTILE.values(), "\0", "\x1b[2J", "..", "/", "-rf", "a" * 5000]:
        raw = shipped()
        *parents, last = key.split("/")
        place = raw
        for parent in parents:
            place = place.setdefault(parent, {})
        place[last] = [text] if key in {"run/tutors", "run/tasks", "run/judges", "run/labels"} else text
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
