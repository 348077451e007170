"""Tests of the serving environment's lock and of the arguments that servers are started with."""

from __future__ import annotations

import json
import re
import subprocess
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from conftest import ROOT, SERVE, absent
from maieutic.config.models import VllmModel
from maieutic.config.server_options import REFUSED_ARGUMENTS
from maieutic.serving.server import VllmServer
from shipped import shipped

PLATFORM = ("--python-version", "3.11", "--python-platform", "x86_64-manylinux_2_31")
# Read command lines from standard input, and print the fault of each by vLLM's own parser, or its parsed arguments.
PARSE = """
import contextlib, io, json, sys
from maieutic.serving.engine import patch_vllm_version
patch_vllm_version()
from vllm.entrypoints.launchers.cli_args import make_arg_parser
from vllm.utils.argparse_utils import FlexibleArgumentParser
parser = make_arg_parser(FlexibleArgumentParser())
answers = []
for words in json.load(sys.stdin):
    stderr = io.StringIO()
    try:
        with contextlib.redirect_stderr(stderr):
            answers.append({"parsed": {key: str(value) for key, value in vars(parser.parse_args(words)).items()}})
    except SystemExit:
        answers.append({"fault": stderr.getvalue().strip().splitlines()[-1]})
print("ANSWERS" + json.dumps({"answers": answers, "options": sorted(parser._option_string_actions)}))
"""


def parse_with_vllm(commands: list[list[str]]) -> dict[str, Any]:
    """Return what vLLM's own parser makes of the arguments of `vllm serve`, and the options that it knows."""
    if not SERVE.exists():
        absent("the serving environment", "run make env")
    process = subprocess.run(
        [SERVE, "-c", PARSE], input=json.dumps(commands), capture_output=True, text=True, check=True,
        env={"PATH": "/usr/bin:/bin", "PYTHONPATH": str(ROOT / "workflow"), "HOME": str(ROOT)},
    )  # fmt: skip
    return json.loads(process.stdout.rpartition("ANSWERS")[2])


def served_models() -> dict[str, VllmModel]:
    """Return the entries of the registry and of all run files that vLLM serves."""
    names = sorted(path.stem for path in (ROOT / "config").glob("*.yaml") if ".lock" not in path.name)
    registry = shipped(*names)["models"]
    return {name: VllmModel(**entry) for name, entry in registry.items() if entry.get("engine") == "vllm"}


@cache
def documented_arguments() -> list[list[str]]:
    """Return the arguments of the table of docs/models.md, as the words of a command line."""
    text = (ROOT / "docs/models.md").read_text(encoding="utf-8")
    return [cell.split() for cell in re.findall(r"^\| `(--[^`]+)` \|", text, re.MULTILINE)]


@pytest.mark.slow
def test_vllm_accepts_every_argument_that_servers_are_started_with(tmp_path: Path) -> None:
    models = served_models()
    models["wide"] = VllmModel(
        engine="vllm", weights={"repo": "a/b", "revision": "0" * 40}, trust_remote_code=True, max_model_len=8192,
        needs={"gpus": 4},
    )  # fmt: skip
    commands = [
        VllmServer(name, entry, tmp_path, tmp_path / "log", tmp_path).command() for name, entry in models.items()
    ]
    words = [command[command.index("serve") + 1 :] for command in commands]
    documented = [[str(tmp_path), *argument] for argument in documented_arguments()]
    assert len(words) > 10 and len(documented) >= 3
    answers = parse_with_vllm([*words, *documented, [str(tmp_path), "--max-num-sequences-at-once", "3"]])
    faults = {
        " ".join(line): answer["fault"]
        for line, answer in zip(words + documented, answers["answers"], strict=False)
        if "fault" in answer
    }
    assert not faults
    assert "unrecognized arguments" in answers["answers"][-1]["fault"], "the parser refuses what it does not know"
    parsed = answers["answers"][len(words) - 1]["parsed"]
    assert (parsed["tensor_parallel_size"], parsed["trust_remote_code"], parsed["max_model_len"]) == (
        "4",
        "True",
        "8192",
    )
    unknown = set(REFUSED_ARGUMENTS) - set(answers["options"])
    assert not unknown, "a misspelt name in the list of refused arguments would let the real argument through"


def uv(*words: str) -> str:
    """Return the output of the pinned uv."""
    program = subprocess.run(
        [ROOT / "envs/setup", "--print-uv"], capture_output=True, text=True, check=True
    ).stdout.strip()
    process = subprocess.run([program, *words], capture_output=True, text=True, cwd=ROOT, check=False)
    if re.search(r"error sending request|dns error|[Ff]ailed to fetch", process.stderr):
        absent("a package index", "connect to a network, or set UV_INDEX_URL")
    assert process.returncode == 0, process.stderr
    return process.stdout + process.stderr


@pytest.mark.slow
@pytest.mark.parametrize("name", ["serve.cuda"])
def test_the_lock_for_gpus_resolves_without_installing_it(name: str, tmp_path: Path) -> None:
    """Every locked package is on the index with its checksums, and the lock satisfies its requirements."""
    lock = (ROOT / f"envs/{name}.txt").read_text(encoding="utf-8")
    pins = set(re.findall(r"^([A-Za-z0-9._-]+==[^ \\]+)", lock, re.MULTILINE))
    plan = uv(
        *("pip", "install", "--dry-run", "--require-hashes", "--target", str(tmp_path / "none"), *PLATFORM),
        *("--python", str(ROOT / ".venv/driver/bin/python"), "-r", f"envs/{name}.txt"),
    )
    assert {line[3:] for line in plan.splitlines() if line.startswith(" + ")} == pins
    out = tmp_path / "compiled.txt"
    uv(
        *("pip", "compile", "--quiet", "--no-header", "--no-annotate", "--generate-hashes", *PLATFORM),
        *(f"envs/{name}.in", "--constraint", f"envs/{name}.txt", "--output-file", str(out)),
    )
    assert out.read_text(encoding="utf-8") == lock
    assert {path.name for path in (tmp_path / "none").iterdir()} <= {".lock"}
