"""Tests of images built from the locks by Apptainer and Docker: runs in them equal runs outside."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from conftest import ROOT, absent
from running import overlay, run
from small import NAME, graders_of, model_of

ENGINES = Path(__file__).parent / "engines"
CACHE = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "maieutic/images"
BASE = CACHE / "debian-12"
# Root without some capabilities: Apptainer would request all of them and fail, unless the missing one is named.
CAPABILITIES = {"APPTAINER_DROP_CAPS": "CAP_SYS_RESOURCE"}
TABLES = ("results/report/scores.csv", "results/report/scores.parquet")
TASKS = ["mathtutorbench/problem_solving", "mathtutorbench/socratic_questioning"]


def engines(*words: str) -> None:
    """Run the `engines` script, which installs or starts a container engine."""
    if os.geteuid() != 0 or shutil.which("apt-get") is None:
        absent("a dedicated machine for container engines", "run make test-containers as root on Debian 12")
    subprocess.run([ENGINES, *words], check=True)


def recipe(stack: str) -> str:
    """Return a hash of the files that determine an image: its lock and the recipes."""
    files = [
        *sorted((ROOT / "containers").glob("*.*")), ROOT / "containers/install", ROOT / "containers/build",
        ROOT / "envs/setup", ROOT / "envs/uv.txt", ROOT / "envs/build.txt",
    ]  # fmt: skip
    lock = subprocess.run([ROOT / "envs/setup", "--print-lock", stack, "cpu"], capture_output=True, check=True).stdout
    content = b"".join(path.read_bytes() for path in files if path.is_file() and path.suffix != ".sif")
    return hashlib.sha256(lock + content).hexdigest()[:16]


def build(stack: str) -> Path:
    """Return the CPU image of one environment; it is built unless the cache has one of the same recipe."""
    image = CACHE / f"{stack}-{recipe(stack)}.sif"
    if not image.exists():
        for old in CACHE.glob(f"{stack}-*.sif"):
            old.unlink()
        # An ordinary user's build creates this user namespace by itself.
        command = ["unshare", "--map-root-user", "--map-auto", ROOT / "containers/build", stack]
        compression = ["--mksquashfs-args", "-comp zstd -Xcompression-level 3"]
        subprocess.run(
            [*command, "--variant", "cpu", "--base", BASE, "--out", image, "--", *compression],
            check=True, env={**os.environ, **CAPABILITIES},
        )  # fmt: skip
    return image


@pytest.fixture(scope="module")
def images() -> dict[str, str]:
    """Return the images of both environments."""
    CACHE.mkdir(parents=True, exist_ok=True)
    engines("apptainer")
    engines("base", str(BASE))
    return {stack: str(build(stack)) for stack in ("driver", "serve")}


@pytest.fixture
def bare(checkouts: Callable[[], Path]) -> Path:
    """Return a checkout without environments, so that everything runs in the images."""
    folder = checkouts()
    (folder / ".venv").unlink()
    return folder


def configure(folder: Path, images: dict[str, str], weights: Path | None = None, base: Path | None = None) -> Path:
    """Write a run of two tasks. weights: of a real tutor; base: weights of a reward model, which adds a task."""
    models = {NAME: model_of(weights)} if weights else {}
    keys: dict[str, object] = {"tutors": [NAME] if weights else ["echo"], "tasks": TASKS, "max_tokens": 16}
    if base:
        models |= graders_of(base)
        keys |= {"tasks": [*TASKS, "mathtutorbench/scaffolding_generation"], "reward_models": ["tiny-rm"]}
    return overlay(folder, {"models": models, "containers": images, "run": keys})


def test_a_run_in_apptainer_equals_the_one_outside(
    images: dict[str, str], bare: Path, checkouts: Callable[[], Path], smollm2: Path, tiny: Path
) -> None:
    inside = run(bare, configure(bare, images, smollm2, tiny), "--sdm", "apptainer", **CAPABILITIES)
    assert inside.returncode == 0, inside.stdout
    assert inside.stdout.count("Activating singularity image") >= 10
    log = (bare / f"results/logs/generate_replies/mathtutorbench/{NAME}.log").read_text(encoding="utf-8")
    assert "vLLM server ready" in log
    outside = checkouts()
    process = run(outside, configure(outside, images, smollm2, tiny))
    assert process.returncode == 0, process.stdout
    for name in TABLES:
        assert (bare / name).read_bytes() == (outside / name).read_bytes(), name


@pytest.mark.parametrize("stack", ["driver", "serve"])
def test_an_image_is_for_every_user(stack: str, images: dict[str, str]) -> None:
    find_unreadable = ["find", "/opt/maieutic", "-not", "-type", "l", "-not", "-perm", "-o+r", "-print", "-quit"]
    command = ["apptainer", "exec", images[stack], *find_unreadable]
    process = subprocess.run(command, env={**os.environ, **CAPABILITIES}, text=True, capture_output=True, check=True)
    assert process.stdout == ""


def test_a_failure_inside_leaves_a_partial_report(images: dict[str, str], bare: Path) -> None:
    """A hook runs outside the images, with another Python."""
    weights = bare / "empty"
    weights.mkdir()
    (weights / "model.safetensors").write_bytes(b"not weights")
    process = run(bare, configure(bare, images, weights), "--sdm", "apptainer", **CAPABILITIES)
    assert process.returncode != 0
    assert "partial report: results/report/partial/index.html" in process.stdout
    assert "failed: no scores" in (bare / "results/report/partial/index.html").read_text(encoding="utf-8")


def refusal(folder: Path, images: dict[str, str]) -> str:
    """Return the error line of a run that is refused with these images before any work."""
    process = run(folder, configure(folder, images), "--sdm", "apptainer", **CAPABILITIES)
    assert process.returncode != 0 and "Traceback" not in process.stdout, process.stdout
    assert not (folder / "results/items").exists()
    (line,) = [line for line in process.stdout.splitlines() if "Fix: " in line]
    return line


def test_an_image_from_another_lock(images: dict[str, str], bare: Path) -> None:
    lock = bare / "envs/driver.txt"
    lock.write_text(lock.read_text(encoding="utf-8") + "# one more\n", encoding="utf-8")
    line = refusal(bare, images)
    assert f"{images['driver']} was built from lock " in line and "this checkout has " in line
    assert line.endswith("Fix: run containers/build driver")


@pytest.fixture(scope="module")
def docker() -> Iterator[str]:
    """Return the driver's image under Docker."""
    CACHE.mkdir(parents=True, exist_ok=True)
    engines("base", str(BASE))
    engines("docker")
    subprocess.run(["docker", "import", f"{BASE}.tar", "maieutic-test-base"], check=True, stdout=subprocess.DEVNULL)
    command = [ROOT / "containers/build", "driver", "--engine", "docker", "--base", "maieutic-test-base"]
    # Test machines have no bridge or firewall: the build uses the machine's network. Each Docker has the old builder.
    subprocess.run(
        [*command, "--out", "maieutic-test-driver", "--", "--network", "host"],
        check=True, env={**os.environ, "DOCKER_BUILDKIT": "0"},
    )  # fmt: skip
    yield "docker://maieutic-test-driver"
    subprocess.run([ENGINES, "down"], check=True)


def test_a_run_in_docker_equals_the_one_outside(docker: str, bare: Path, checkouts: Callable[[], Path]) -> None:
    """Rules run in images on a machine with Docker and without Apptainer."""
    inspect = ["docker", "image", "inspect", "--format", "{{.Config.User}}", "maieutic-test-driver"]
    output = subprocess.run(inspect, check=True, capture_output=True, text=True).stdout.strip()
    assert output == "10001:10001", "an image runs as an ordinary user by default"
    path = os.pathsep.join([str(bare / "containers/docker"), os.environ["PATH"]])
    inside = run(bare, configure(bare, {"driver": docker}), "--sdm", "apptainer", PATH=path)
    assert inside.returncode == 0, inside.stdout
    assert inside.stdout.count("Activating singularity image") >= 10
    outside = checkouts()
    assert run(outside, configure(outside, {})).returncode == 0
    for name in TABLES:
        assert (bare / name).read_bytes() == (outside / name).read_bytes(), name
