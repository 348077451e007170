"""Tests of set-up: everything is installed by checksum, except what SECURITY.md names."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from conftest import ROOT

SOURCE_ONLY = {"connection-pool", "jsonpath-rw", "rouge-score", "sqlitedict", "word2number"}  # published without wheels
LOCKS = sorted(path for path in (ROOT / "envs").glob("*.txt") if not path.name.endswith("overrides.txt"))
VERSION = re.search(r"^uv==(\S+)", (ROOT / "envs/uv.txt").read_text(), re.MULTILINE)[1]
# Programs that download or run other people's software, as called by a script.
FETCHES = re.compile(r"\b(pip3?|uv|npm|npx|curl|wget|git clone|apt-get|apptainer pull|docker pull|conda)\b (?!\d)")
STUB = """#!/usr/bin/env bash
printf '%s' "$(basename "$0")" >>{log}; printf ' %s' "$@" >>{log}; echo >>{log}
case "$*" in
  --version) echo "uv {version}" ;;
  "venv "*) home="${{@: -1}}"; mkdir -p "$home/bin"; cp "$0" "$home/bin/python" ;;
  "-m venv "*) home="${{@: -1}}"; mkdir -p "$home/bin"; cp "$0" "$home/bin/python"; cp "$0" "$home/bin/uv" ;;
esac
while [ $# -gt 0 ]; do
  if [ "$1" = -r ]; then cat "$2" >>{log}.requirements; fi
  shift
done
"""


def requirements(text: str) -> dict[str, int]:
    """Return the requirements of a lock with the number of checksums of each."""
    blocks = re.split(r"^(?=[A-Za-z0-9])", text, flags=re.MULTILINE)
    return {block.split()[0]: block.count("--hash=sha256:") for block in blocks if "==" in block.split("\n")[0]}


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """Return a checkout in which stubs of the programs that set-up calls log their calls."""
    (tmp_path / "checkout/envs").mkdir(parents=True)
    for path in (ROOT / "envs/setup", *LOCKS):
        shutil.copy(path, tmp_path / "checkout/envs")
    (tmp_path / "bin").mkdir()
    for name in ("uv", "python3.11"):
        stub = tmp_path / "bin" / name
        stub.write_text(STUB.format(log=tmp_path / "called", version=VERSION))
        stub.chmod(0o755)
    return tmp_path / "checkout"


def run_setup(checkout: Path, *stacks: str) -> tuple[list[str], str]:
    """Run set-up; return the calls of programs and standard error."""
    log = checkout.parent / "called"
    env = {"PATH": f"{checkout.parent}/bin:/usr/bin:/bin", "HOME": str(checkout.parent)}
    process = subprocess.run([checkout / "envs/setup", *stacks], capture_output=True, text=True, env=env, check=True)
    return log.read_text().splitlines(), process.stderr


def test_set_up_installs_wheels_by_checksum_and_builds_what_is_named(checkout: Path) -> None:
    calls, _ = run_setup(checkout, "driver", "peers", "mutants", "serve")
    installs = [line for line in calls if " install " in line]
    assert len(installs) == 8 and all(" --no-deps " in line for line in installs)
    building = [line for line in installs if " --no-build " not in line]
    assert len(building) == 3, "driver, peers and mutants have a package without a wheel"
    for line in building:
        assert " --require-build-hashes " in line and f"--build-constraints {checkout}/envs/build.txt" in line
        [sources] = re.findall(r"-r (\S+/sources\.txt)", line)
        source_hashes = requirements(Path(sources).read_text())
        assert {name.split("==")[0] for name in source_hashes} <= SOURCE_ONLY and all(source_hashes.values())
    installed = requirements((checkout.parent / "called.requirements").read_text())
    for name in ("driver", "peers", "mutants", "serve.cpu", "serve.cpu.nodeps"):
        locked = requirements((checkout / f"envs/{name}.txt").read_text())
        assert locked.keys() <= installed.keys(), "each locked package is installed, as a wheel or from source"
    others = {line.split()[0] for line in calls if " install " not in line}
    assert others == {"uv", "python"}, "python: the environment's stub, called to look for a system library"


def test_another_uv_on_the_path_is_left_alone_and_reported(checkout: Path) -> None:
    """The pinned uv is installed with pip, by its checksum."""
    stub = checkout.parent / "bin/uv"
    stub.write_text(stub.read_text().replace(f"uv {VERSION}", "uv 9.9.9"))
    calls, stderr = run_setup(checkout, "driver")
    assert f"expected uv {VERSION} on the PATH, found 9.9.9: another uv is installed" in stderr
    [pip] = [line for line in calls if line.startswith("python -m pip install")]
    assert "--require-hashes --only-binary :all: --no-deps" in pip and pip.endswith(f"-r {checkout}/envs/uv.txt")
    assert requirements((checkout / "envs/uv.txt").read_text())[f"uv=={VERSION}"] > 5


def test_no_other_script_fetches_what_security_does_not_name() -> None:
    """SECURITY.md names each program that a script of this repository calls to download something."""
    scripts = [
        *(ROOT / "envs").glob("[a-z]*"), *(ROOT / "containers").glob("[a-zA-Z]*"), ROOT / "Makefile", ROOT / "Snakefile",
        *(ROOT / "workflow/rules").glob("*.smk"), *(ROOT / "slurm").rglob("*"), *(ROOT / "profiles").rglob("*"),
    ]  # fmt: skip
    uses = set()
    for path in (path for path in scripts if path.is_file() and path.suffix not in {".txt", ".in", ".md"}):
        for line in path.read_text(encoding="utf-8").splitlines():
            code = re.sub(r"(^|\s)#.*|\"[^\"]*Fix:[^\"]*\"|echo .*|say .*|fail .*|--print-uv", "", line)
            uses |= {(path.relative_to(ROOT).as_posix(), name) for name in FETCHES.findall(code.replace('"', ""))}
    security = (ROOT / "SECURITY.md").read_text(encoding="utf-8")
    programs = {program for _, program in uses}
    assert {program for program in programs if f"`{program}`" not in security} == set(), sorted(uses)
    assert os.access(ROOT / "envs/setup", os.X_OK)
