"""Tests of profiles: they translate the rules' resources for a machine, and impossible needs stop the run early."""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path

import pytest
import yaml
from running import SNAKEMAKE, overlay, run

TASKS = ["mathtutorbench/problem_solving"]


def large_model_run(folder: Path, gpus: int = 4) -> Path:
    """Write a run file with one model that needs several GPUs."""
    weights = folder / "weights"
    weights.mkdir()
    needs = {"gpus": gpus, "cpus": 16, "mem_mb": 64000, "runtime": 720}
    model = {"engine": "vllm", "weights": {"path": str(weights)}, "needs": needs}
    return overlay(folder, {"models": {"big": model}, "run": {"tutors": ["big"], "tasks": TASKS}})


def resources_of_generation(output: str) -> dict[str, str]:
    """Return the resources of the only `generate_replies` job of a dry run."""
    (line,) = re.findall(r"^rule generate_replies:\n(?:    .*\n)*?    resources: (.*)$", output, re.MULTILINE)
    return dict(pair.split("=", 1) for pair in line.split(", "))


@pytest.mark.parametrize("profile", ["workstation", "slurm"])
def test_every_profile_keeps_the_flags_of_the_default_one(profile: str) -> None:
    """With --workflow-profile Snakemake ignores the default profile; without keep-going a failed tutor ends the run."""
    default, chosen = (
        yaml.safe_load(Path(f"profiles/{name}/config.yaml").read_text(encoding="utf-8"))
        for name in ("default", profile)
    )
    assert default["keep-going"] is True and default.items() <= chosen.items()


def test_a_profile_of_the_users_own_beside_ours(checkout: Path, tmp_path: Path) -> None:
    """The site's profile sets accounts and partitions, ours the other keys; neither hides the other's keys."""
    site_folder = tmp_path / "config/snakemake/slurm"
    site_folder.mkdir(parents=True)
    site = {
        "default-resources": {"slurm_account": "chem", "gpu_gres": "gpu:a100"},
        "set-resources": {"generate_replies": {"slurm_partition": "gpu", "runtime": "min(1440, 240 * attempt)"}},
    }
    (site_folder / "config.yaml").write_text(yaml.safe_dump(site))
    done = run(
        checkout, large_model_run(checkout), "--profile", str(site_folder), "--workflow-profile", "profiles/slurm", "-n",
        XDG_CONFIG_HOME=str(tmp_path / "config"),
    )  # fmt: skip
    assert done.returncode == 0, done.stdout
    resources = resources_of_generation(done.stdout)
    expected = {
        "gres": "gpu:a100:4", "gpu": "0", "server_gpus": "4", "slurm_partition": "gpu", "slurm_account": "chem",
        "runtime": "240",
    }  # fmt: skip
    assert expected.items() <= resources.items()


def refusal(output: str) -> str:
    """Return the only line with a fix."""
    assert "Traceback" not in output
    (line,) = [line for line in output.splitlines() if "Fix: " in line]
    return line


@pytest.mark.parametrize("name", ["server_gpus", "gpu"])
def test_more_gpus_than_the_profile_has(name: str, checkout: Path) -> None:
    done = run(checkout, large_model_run(checkout), "--resources", f"{name}=2")
    assert done.returncode != 0
    assert refusal(done.stdout).startswith(
        "models.big.needs.gpus: expected at most 2, the profile's number of GPUs, found 4. Fix: raise"
    )
    assert not (checkout / "results/items").exists()


def test_no_sbatch_on_the_path(checkout: Path, tmp_path: Path) -> None:
    programs = tmp_path / "bin"
    programs.mkdir()
    for name in ("bash", "sh", "which", "git", "uname"):
        if program := shutil.which(name):
            (programs / name).symlink_to(program)
    path = os.pathsep.join([str(programs), str(SNAKEMAKE.parent)])
    done = run(checkout, large_model_run(checkout, 1), "--profile", "slurm", PATH=path)
    assert done.returncode != 0
    assert refusal(done.stdout).startswith("executor: slurm: sbatch is not on the PATH. Fix: run snakemake on the")
    assert not (checkout / "results/items").exists()


def test_fewer_gpus_than_needed_ends_the_job_before_its_server(checkout: Path) -> None:
    """A scheduler grants one GPU of four; the job reports that and starts no server."""
    config = large_model_run(checkout)
    (checkout / "weights/model.safetensors").write_bytes(b"never read")
    done = run(checkout, config, CUDA_VISIBLE_DEVICES="0", SLURM_JOB_ID="77")
    assert done.returncode != 0
    log = (checkout / "results/logs/generate_replies/mathtutorbench/big.log").read_text(encoding="utf-8")
    assert "models.big.needs.gpus: expected at most 1 (GPUs granted to SLURM job 77), found 4. Fix: " in log
    assert not (checkout / "results/logs/serve").exists()
