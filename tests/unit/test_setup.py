"""What set-up runs: nothing without a checksum but what SECURITY.md names."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from conftest import ROOT

SOURCES = {"connection-pool", "jsonpath-rw", "rouge-score", "sqlitedict", "word2number"}  # published as source alone
LOCKS = sorted(path for path in (ROOT / "envs").glob("*.txt") if not path.name.endswith("overrides.txt"))
VERSION = re.search(r"^uv==(\S+)", (ROOT / "envs/uv.txt").read_text(), re.MULTILINE)[1]
# Programs that fetch or run what others made, wherever a script of ours calls one.
FETCHES = re.compile(r"\b(pip3?|uv|npm|npx|curl|wget|git clone|apt-get|apptainer pull|docker pull|conda)\b (?!\d)")
STUB = """#!/usr/bin/env bash
printf '%s' "$(basename "$0")" >>{log}; printf ' %s' "$@" >>{log}; echo >>{log}
case "$*" in
  --version) echo "uv {version}" ;;
  "venv "*) home="${{@: -1}}"; mkdir -p "$home/bin"; cp "$0" "$home/bin/python" ;;
  "-m venv "*) home="${{@: -1}}"; mkdir -p "$home/bin"; cp "$0" "$home/bin/python"; cp "$0" "$home/bin/uv" ;;
esac
while [ $# -gt 0 ]; do
  if [ "$1" = -r ]; then cat "$2" >>{log}.asked; fi
  shift
done
"""


def requirements(text: str) -> dict[str, int]:
    """The requirements of a lock, each with the number of its checksums."""
    blocks = re.split(r"^(?=[A-Za-z0-9])", text, flags=re.MULTILINE)
    return {block.split()[0]: block.count("--hash=sha256:") for block in blocks if "==" in block.split("\n")[0]}


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A checkout in which every program that set-up calls writes down how it was called."""
    (tmp_path / "checkout/envs").mkdir(parents=True)
    for path in (ROOT / "envs/setup", *LOCKS):
        shutil.copy(path, tmp_path / "checkout/envs")
    (tmp_path / "bin").mkdir()
    for name in ("uv", "python3.11"):
        stub = tmp_path / "bin" / name
        stub.write_text(STUB.format(log=tmp_path / "called", version=VERSION))
        stub.chmod(0o755)
    return tmp_path / "checkout"


def set_up(checkout: Path, *stacks: str) -> tuple[list[str], str]:
    """What set-up has called, and what it said."""
    log = checkout.parent / "called"
    env = {"PATH": f"{checkout.parent}/bin:/usr/bin:/bin", "HOME": str(checkout.parent)}
    done = subprocess.run([checkout / "envs/setup", *stacks], capture_output=True, text=True, env=env, check=True)
    return log.read_text().splitlines(), done.stderr


def test_set_up_installs_wheels_by_checksum_and_builds_what_is_named(checkout: Path) -> None:
    called, _ = set_up(checkout, "driver", "peers", "mutants", "serve")
    installs = [line for line in called if " install " in line]
    assert len(installs) == 8 and all(" --no-deps " in line for line in installs)
    building = [line for line in installs if " --no-build " not in line]
    assert len(building) == 3, "driver, peers and mutants have a package without a wheel"
    for line in building:
        assert " --require-build-hashes " in line and f"--build-constraints {checkout}/envs/build.txt" in line
        [own] = re.findall(r"-r (\S+/sources\.txt)", line)
        found = requirements(Path(own).read_text())
        assert {name.split("==")[0] for name in found} <= SOURCES and all(found.values())
    asked = requirements((checkout.parent / "called.asked").read_text())
    for name in ("driver", "peers", "mutants", "serve.cpu", "serve.cpu.nodeps"):
        own = requirements((checkout / f"envs/{name}.txt").read_text())
        assert own.keys() <= asked.keys(), "what is locked is installed, whichever way"
    others = {line.split()[0] for line in called if " install " not in line}
    assert others == {"uv", "python"}, "the stub of an environment's own Python looks for a system library"


def test_another_uv_on_the_path_is_left_alone_and_said(checkout: Path) -> None:
    """Ours comes by pip, by its checksum."""
    stub = checkout.parent / "bin/uv"
    stub.write_text(stub.read_text().replace(f"uv {VERSION}", "uv 9.9.9"))
    called, said = set_up(checkout, "driver")
    assert f"the uv on the PATH is 9.9.9, not {VERSION}: it is left alone" in said
    [pip] = [line for line in called if line.startswith("python -m pip install")]
    assert "--require-hashes --only-binary :all: --no-deps" in pip and pip.endswith(f"-r {checkout}/envs/uv.txt")
    assert requirements((checkout / "envs/uv.txt").read_text())[f"uv=={VERSION}"] > 5


def test_no_other_script_fetches_what_security_does_not_name() -> None:
    """Each place where a script of this repository calls a program that fetches, by file and program."""
    scripts = [
        *(ROOT / "envs").glob("[a-z]*"), *(ROOT / "containers").glob("[a-zA-Z]*"), ROOT / "Makefile", ROOT / "Snakefile",
        *(ROOT / "workflow/rules").glob("*.smk"), *(ROOT / "slurm").rglob("*"), *(ROOT / "profiles").rglob("*"),
    ]  # fmt: skip
    found = set()
    for path in (one for one in scripts if one.is_file() and one.suffix not in {".txt", ".in", ".md"}):
        for line in path.read_text(encoding="utf-8").splitlines():
            code = re.sub(r"(^|\s)#.*|\"[^\"]*Fix:[^\"]*\"|echo .*|say .*|fail .*|--print-uv", "", line)
            found |= {(path.relative_to(ROOT).as_posix(), name) for name in FETCHES.findall(code.replace('"', ""))}
    security = (ROOT / "SECURITY.md").read_text(encoding="utf-8")
    named = {program for _, program in found}
    assert {program for program in named if f"`{program}`" not in security} == set(), sorted(found)
    assert os.access(ROOT / "envs/setup", os.X_OK)
