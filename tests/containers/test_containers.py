"""Images from the locks, for real: built by Apptainer and by Docker, and runs in them that equal those outside."""

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
# As root without every capability Apptainer asks for all of them and fails, unless told which one is missing.
CAPABILITIES = {"APPTAINER_DROP_CAPS": "CAP_SYS_RESOURCE"}
TABLES = ("results/report/scores.csv", "results/report/scores.parquet")
TASKS = ["mathtutorbench/problem_solving", "mathtutorbench/socratic_questioning"]


def engines(*verb: str) -> None:
    """Install or start a container engine."""
    if os.geteuid() != 0 or shutil.which("apt-get") is None:
        absent("a machine of its own for container engines", "run make test-containers as root on Debian 12")
    subprocess.run([ENGINES, *verb], check=True)


def recipe(stack: str) -> str:
    """What decides an image: its lock and the recipes."""
    files = [
        *sorted((ROOT / "containers").glob("*.*")),
        ROOT / "containers/install",
        ROOT / "containers/build",
        ROOT / "envs/setup",
        ROOT / "envs/uv.txt",
        ROOT / "envs/build.txt",
    ]
    lock = subprocess.run([ROOT / "envs/setup", "--print-lock", stack, "cpu"], capture_output=True, check=True).stdout
    made_of = b"".join(path.read_bytes() for path in files if path.is_file() and path.suffix != ".sif")
    return hashlib.sha256(lock + made_of).hexdigest()[:16]


def build(stack: str) -> Path:
    """The CPU image of one environment, built where no image of the same recipe is kept."""
    image = CACHE / f"{stack}-{recipe(stack)}.sif"
    if not image.exists():
        for old in CACHE.glob(f"{stack}-*.sif"):
            old.unlink()
        # In a user namespace of our own: what an ordinary user's build does by itself.
        command = ["unshare", "--map-root-user", "--map-auto", ROOT / "containers/build", stack]
        fast = ["--mksquashfs-args", "-comp zstd -Xcompression-level 3"]
        subprocess.run(
            [*command, "--variant", "cpu", "--base", BASE, "--out", image, "--", *fast],
            check=True, env={**os.environ, **CAPABILITIES},
        )  # fmt: skip
    return image


@pytest.fixture(scope="module")
def images() -> dict[str, str]:
    """Both images."""
    CACHE.mkdir(parents=True, exist_ok=True)
    engines("apptainer")
    engines("base", str(BASE))
    return {stack: str(build(stack)) for stack in ("driver", "serve")}


@pytest.fixture
def bare(checkouts: Callable[[], Path]) -> Path:
    """A checkout without environments: what runs, runs in the images."""
    folder = checkouts()
    (folder / ".venv").unlink()
    return folder


def configure(folder: Path, images: dict[str, str], weights: Path | None = None, base: Path | None = None) -> Path:
    """Two tasks, with a real model where its weights are given; one more with a reward model on that `base`."""
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
    done = run(outside, configure(outside, images, smollm2, tiny))
    assert done.returncode == 0, done.stdout
    for name in TABLES:
        assert (bare / name).read_bytes() == (outside / name).read_bytes(), name


@pytest.mark.parametrize("stack", ["driver", "serve"])
def test_an_image_is_for_every_user(stack: str, images: dict[str, str]) -> None:
    shut = ["find", "/opt/maieutic", "-not", "-type", "l", "-not", "-perm", "-o+r", "-print", "-quit"]
    command = ["apptainer", "exec", images[stack], *shut]
    done = subprocess.run(command, env={**os.environ, **CAPABILITIES}, text=True, capture_output=True, check=True)
    assert done.stdout == ""


def test_a_failure_inside_leaves_a_partial_report(images: dict[str, str], bare: Path) -> None:
    """A hook runs outside every image, where another Python is."""
    weights = bare / "empty"
    weights.mkdir()
    (weights / "model.safetensors").write_bytes(b"not weights")
    done = run(bare, configure(bare, images, weights), "--sdm", "apptainer", **CAPABILITIES)
    assert done.returncode != 0
    assert "partial report: results/report/partial/index.html" in done.stdout
    assert "failed: no scores" in (bare / "results/report/partial/index.html").read_text(encoding="utf-8")


def refusal(folder: Path, images: dict[str, str]) -> str:
    """The one line that a run in these images is refused with, before any work."""
    done = run(folder, configure(folder, images), "--sdm", "apptainer", **CAPABILITIES)
    assert done.returncode != 0 and "Traceback" not in done.stdout, done.stdout
    assert not (folder / "results/items").exists()
    (line,) = [line for line in done.stdout.splitlines() if "Fix: " in line]
    return line


def test_an_image_that_is_not_there(images: dict[str, str], bare: Path) -> None:
    line = refusal(bare, {**images, "driver": "containers/driver.sif"})
    assert line == "containers.driver: containers/driver.sif does not exist. Fix: run containers/build driver"


def test_an_image_from_another_lock(images: dict[str, str], bare: Path) -> None:
    lock = bare / "envs/driver.txt"
    lock.write_text(lock.read_text(encoding="utf-8") + "# one more\n", encoding="utf-8")
    line = refusal(bare, images)
    assert f"{images['driver']} was built from lock " in line and "this checkout has " in line
    assert line.endswith("Fix: run containers/build driver")


def test_a_file_that_is_no_image(images: dict[str, str], bare: Path) -> None:
    (bare / "broken.sif").write_bytes(b"\0" * 4096)
    assert refusal(bare, {**images, "driver": "broken.sif"}).startswith("broken.sif: apptainer cannot read it: ")


@pytest.fixture(scope="module")
def docker() -> Iterator[str]:
    """The driver's image under Docker."""
    CACHE.mkdir(parents=True, exist_ok=True)
    engines("base", str(BASE))
    engines("docker")
    subprocess.run(["docker", "import", f"{BASE}.tar", "maieutic-test-base"], check=True, stdout=subprocess.DEVNULL)
    command = [ROOT / "containers/build", "driver", "--engine", "docker", "--base", "maieutic-test-base"]
    # Neither bridge nor firewall on a test machine: the build uses its network. The old builder is everywhere.
    subprocess.run(
        [*command, "--out", "maieutic-test-driver", "--", "--network", "host"],
        check=True, env={**os.environ, "DOCKER_BUILDKIT": "0"},
    )  # fmt: skip
    yield "docker://maieutic-test-driver"
    subprocess.run([ENGINES, "down"], check=True)


def test_a_run_in_docker_equals_the_one_outside(docker: str, bare: Path, checkouts: Callable[[], Path]) -> None:
    """Per-rule images on a machine that has Docker and no Apptainer."""
    user = ["docker", "image", "inspect", "--format", "{{.Config.User}}", "maieutic-test-driver"]
    told = subprocess.run(user, check=True, capture_output=True, text=True).stdout.strip()
    assert told == "10001:10001", "an image runs as an ordinary user where nobody says as whom"
    path = os.pathsep.join([str(bare / "containers/docker"), os.environ["PATH"]])
    inside = run(bare, configure(bare, {"driver": docker}), "--sdm", "apptainer", PATH=path)
    assert inside.returncode == 0, inside.stdout
    assert inside.stdout.count("Activating singularity image") >= 10
    outside = checkouts()
    assert run(outside, configure(outside, {})).returncode == 0
    for name in TABLES:
        assert (bare / name).read_bytes() == (outside / name).read_bytes(), name


def test_a_docker_image_from_another_lock(docker: str, bare: Path) -> None:
    lock = bare / "envs/driver.txt"
    lock.write_text(lock.read_text(encoding="utf-8") + "# one more\n", encoding="utf-8")
    path = os.pathsep.join([str(bare / "containers/docker"), os.environ["PATH"]])
    done = run(bare, configure(bare, {"driver": docker}), "--sdm", "apptainer", PATH=path)
    assert done.returncode != 0 and "was built from lock " in done.stdout
