"""Tests of the checks against SLURM's partitions and settings."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from maieutic.core.errors import UserError
from maieutic.launch import cluster, hooks
from maieutic.launch.cluster import (
    LONGEST_POLL_SECONDS,
    JobResources,
    NodeKind,
    Partition,
    check_available,
    check_job,
    check_jobs,
    check_status_command,
    parse_partitions,
)
from maieutic.launch.partition_file import (
    JobRequest,
    PartitionFile,
    check_against_cluster,
    check_requests,
    fitting_partitions,
    partition_lines,
    partitions,
    read_partition_file,
    request_of_attempt,
)
from maieutic.launch.snakemake_compat import IntendedExecutor, intended_executor

PARTITION_LISTING = """\
cpu*|1-00:00:00|(null)|64|256000
gpu|8:00:00|gpu:1|16|64000
gpu|8:00:00|gpu:a100:4(S:0-1)|64|515000
mixed|infinite|gpu:a100:2(S:0),gpu:v100:2(S:1),lustre:1|32+|128000+
shards|30:00|shard:8,mps:100|8|n/a
2024|1:00:00|(null)
long*|2-00:00:00|gpu:2
long|1:00|(null)||
"""


def test_partitions() -> None:
    assert parse_partitions(PARTITION_LISTING) == {
        "cpu": Partition(1440, (NodeKind({}, 64, 256000),)),
        "gpu": Partition(480, (NodeKind({"": 1}, 16, 64000), NodeKind({"a100": 4}, 64, 515000))),
        "mixed": Partition(None, (NodeKind({"a100": 2, "v100": 2}, 32, 128000),)),
        "shards": Partition(30, (NodeKind({}, 8),)),
        "2024": Partition(60, (NodeKind(),)),
        "long": Partition(2880, (NodeKind({"": 2}), NodeKind())),
    }
    largest = parse_partitions(PARTITION_LISTING)["gpu"]
    assert (largest.gpu_count(), largest.cpus, largest.mem_mb, largest.models) == (4, 64, 515000, ["a100"])
    assert parse_partitions("") == {}


@pytest.mark.parametrize("job", [
    JobResources("m", 8, 99999, None), JobResources("m", 4, 480, "gpu"), JobResources("m", 3, 99999, "mixed"),
    JobResources("m", 4, 600, "gpu,mixed"), JobResources("m", 1, 60, "gpu,hidden"), JobResources("m", 0, 60, "2024"),
])  # fmt: skip
def test_jobs_that_fit_a_partition_are_accepted(job: JobResources) -> None:
    check_job(job, parse_partitions(PARTITION_LISTING))


SIZES = """\
CLUSTER: alpha
gpu|8:00:00|gpu:a100:4(S:0-1)|64|257000|up
gpu|8:00:00|gpu:a100:2,gpu:a100_3g.20gb:4|128|2000000|up
gpu|8:00:00|gpu:h100:no_consume:8|96|1030000|up
old|infinite|gpu:8|64|515000|down
closed|infinite|(null)|64|515000|drain
"""


@pytest.mark.parametrize(("job", "expected"), [
    (JobResources("m", 4, 60, "gpu", cpus=64, mem_mb=257_000, gpu_model="a100"), None),
    (JobResources("m", 8, 60, "gpu", cpus=64, mem_mb=512_000), None),
    (JobResources("m", 0, 60, "gpu", cpus=128, mem_mb=2_000_000), None),
    (JobResources("m", 1, 60, "gpu,closed"), None),
    (JobResources("m", 8, 60, "gpu", gpu_model="a100"), "at most 4, the number of a100 GPUs on a node of partition gpu"),
    (JobResources("m", 1, 60, "gpu", gpu_model="v100"), "at most 0, the number of v100 GPUs on a node of partition gpu"),
    (
        JobResources("m", 4, 60, "gpu", cpus=8, mem_mb=512_000, gpu_model="a100"),
        r"expected a node of partition gpu \(2 a100, 4 a100_3g.20gb, 128 cores, 2000000 MB; 4 a100, .*\) to fit the job, "
        "found 4 GPU.s., 8 cores and 512000 MB",
    ),
    (JobResources("m", 1, 60, "closed"), r"partition closed refuses jobs \(state: drain\)"),
])  # fmt: skip
def test_one_node_has_to_have_all_that_a_job_needs(job: JobResources, expected: str | None) -> None:
    if expected is None:
        check_job(job, parse_partitions(SIZES))
        return
    with pytest.raises(UserError, match=expected):
        check_job(job, parse_partitions(SIZES))


REFUSED = [
    (JobResources("m", 0, 1, "gpus"), "slurm_partition: 'gpus' is not a partition of this cluster. Fix: did you mean 'gpu'?"),
    (JobResources("m", 0, 1, "$(id)"), r"slurm_partition: '\$\(id\)' is not a partition.*choose one of 2024, cpu, gpu, long, mixed, shards"),
    (
        JobResources("m", 8, 1, "gpu"),
        r"models.m.needs.gpus: expected at most 4, the number of GPUs on a node of partition gpu, found 8. Fix: pass --set-resources "
        r"generate_replies:slurm_partition=NAME \(`sinfo -eo '%P %G %c %m'` lists nodes\), or lower needs.gpus$",
    ),
    (
        JobResources("m", 1, 720, "gpu", "judge"),
        "models.m.needs.runtime: expected at most 480 minutes, the limit of partition gpu, found 720. Fix: lower needs.runtime, choose another "
        "partition, or pass --set-resources judge:runtime=480$",
    ),
    (JobResources("m", 0, 61, "shards,2024"), "expected at most 60 minutes, the limit of partition shards,2024, found 61"),
    (JobResources("m", 0, 1, "gpu:"), "'gpu:' is not a partition of this cluster. Fix: did you mean 'gpu'"),
]  # fmt: skip


@pytest.mark.parametrize(("job", "expected"), REFUSED)
def test_jobs_that_fit_no_partition_are_refused(job: JobResources, expected: str) -> None:
    with pytest.raises(UserError, match=expected):
        check_job(job, parse_partitions(PARTITION_LISTING))


CONFIG = "AccountingStorageType   = {}\nMinJobAge               = {} sec\nAccountingStorageTRES   = cpu\n"


@pytest.mark.parametrize(("command", "storage", "age", "expected"), [
    ("sacct", "accounting_storage/none", 300, "^slurm-status-command: found sacct, but this cluster has no accounting database. Fix: pass --slurm-status-command squeue, or set it in profiles/slurm/config.yaml$"),
    ("sacct", "(null)", 300, "has no accounting database"),
    ("squeue", "accounting_storage/slurmdbd", 60, r"^slurm-status-command: found squeue, but this cluster deletes a job's record 60 s after its end \(MinJobAge\), before the next poll. Fix: pass --slurm-status-command sacct, or set it in profiles/slurm/config.yaml$"),
    ("sacct", "accounting_storage/slurmdbd", 2, None),
    ("squeue", "(null)", 300, None),
    ("squeue", "(null)", LONGEST_POLL_SECONDS, None),
    ("squeue", "(null)", LONGEST_POLL_SECONDS - 1, "deletes a job's record 199 s"),
    (None, "(null)", 2, None),
    ("mine", "(null)", 2, None),
])  # fmt: skip
def test_a_status_command_that_would_wait_for_ever_is_refused(
    command: str | None, storage: str, age: int, expected: str | None
) -> None:
    config = CONFIG.format(storage, age)
    if expected is None:
        check_status_command(command, config)
    else:
        with pytest.raises(UserError, match=expected):
            check_status_command(command, config)


TOOLS = {
    "scontrol": 'case "$*" in "show config") printf "AccountingStorageType = accounting_storage/slurmdbd\\nMinJobAge = 300 sec\\n";; *) exit 4;; esac',
    "sinfo": 'case "$*" in "--all --exact --noheader --format=%P|%l|%G|%c|%m|%a") echo "gpu|8:00:00|gpu:1";; *) exit 4;; esac',
    "sbatch": "",
}


def tools(folder: Path, patch: pytest.MonkeyPatch, **changes: str | None) -> None:
    """Install SLURM's commands as scripts in a folder and set PATH. A command that is None is absent."""
    for name, text in {**TOOLS, **changes}.items():
        if text is not None:
            (folder / name).write_text(f"#!/bin/sh\n{text}\n")
            (folder / name).chmod(0o755)
    patch.setenv("PATH", f"{folder}:/usr/bin:/bin" if changes.get("sbatch", "") is not None else str(folder))


def test_each_job_is_checked_against_the_cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tools(tmp_path, monkeypatch)
    known = check_available("sacct")
    check_jobs(
        [JobResources("m", 1, 60, "gpu"), JobResources("m", 1, 60, None), JobResources("m", 1, 60, "gpu")], known
    )
    wrong = [JobResources("b", 3, 999, "gpu"), JobResources("a", 2, 60, "gpu"), JobResources("m", 0, 1, "nope")]
    with pytest.raises(UserError) as error:
        check_jobs(wrong, known)
    places = [line.split(": ")[0] for line in error.value.lines.splitlines()]
    assert places == ["models.a.needs.gpus", "models.b.needs.gpus", "models.b.needs.runtime", "slurm_partition"]


@pytest.mark.parametrize(("changes", "line"), [
    ({"sbatch": None}, "executor: slurm: sbatch is not on the PATH. Fix: run snakemake on the cluster's login node (try `module load slurm`), or without --profile slurm"),
    ({"sinfo": "echo ' no  controller' >&2; echo more >&2; exit 1"}, "sinfo: no controller more. Fix: check that the controller is up (`scontrol ping`)"),
    ({"scontrol": "exit 1"}, "scontrol: Command '('scontrol', 'show', 'config')' returned non-zero exit status 1. Fix: check that the controller is up (`scontrol ping`)"),
    ({"scontrol": f"echo {'x' * 400} >&2; exit 1"}, f"scontrol: {'x' * 300}… Fix: check that the controller is up (`scontrol ping`)"),
    ({"scontrol": 'printf "AccountingStorageType = (null)\\n"'}, "slurm-status-command: found sacct, but this cluster has no accounting database. Fix: pass --slurm-status-command squeue, or set it in profiles/slurm/config.yaml"),
    ({"sinfo": "sleep 5"}, "sinfo: no answer within 1 s. Fix: check that the controller is up (`scontrol ping`)"),
])  # fmt: skip
def test_a_slurm_that_does_not_answer_is_one_line(
    changes: dict[str, str | None], line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tools(tmp_path, monkeypatch, **changes)
    if "sleep" in str(changes):
        monkeypatch.setattr(cluster, "SECONDS", 1.0)
    with pytest.raises(UserError) as error:
        check_available("sacct")
    assert error.value.line == line


# The executor's partition file.

SITE_FILE = """\
partitions:
  short: {max_runtime: 30, max_threads: 64, max_mem_mb: 256000}
  cpu: {max_runtime: 1440, max_threads: 64, max_mem_mb: 256000}
  gpu: {max_runtime: 480, max_threads: 64, max_mem_mb: 515000, max_gpu: 4, available_gpu_models: [a100]}
"""
ONE_GPU = JobRequest("m", 1, 8, 32000, 240)


def site_file(folder: Path, text: str = SITE_FILE) -> PartitionFile:
    path = folder / "partitions.yaml"
    path.write_text(text, encoding="utf-8")
    return read_partition_file(path)


def test_a_partition_file_is_written_from_what_the_cluster_reports(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The executor reads the file, and sends a job with GPUs to a partition that has them."""
    monkeypatch.setattr(cluster, "run_slurm_command", lambda *command: PARTITION_LISTING)
    partitions(out=tmp_path / "partitions.yaml")
    file = read_partition_file(tmp_path / "partitions.yaml")
    assert list(file.partitions) == ["cpu", "gpu", "mixed", "shards", "2024", "long"]
    gpu = file.partitions["gpu"].limits
    assert (gpu.max_gpu, gpu.max_runtime, gpu.max_threads, gpu.max_mem_mb) == (4, 480, 64, 515000)
    assert gpu.available_gpu_models == ["a100"] and file.partitions["mixed"].limits.max_runtime == float("inf")
    assert fitting_partitions(file, ONE_GPU._replace(gpus=3)) == ["gpu", "mixed"]
    assert "gpu with up to 4 a node" in capsys.readouterr().out
    with pytest.raises(UserError, match=r"partitions\.yaml: the file exists, and may have been edited"):
        partitions(out=tmp_path / "partitions.yaml")
    monkeypatch.setattr(cluster, "run_slurm_command", lambda *command: SIZES)
    partitions(out=tmp_path / "my folder/partitions.yaml")
    assert list(read_partition_file(tmp_path / "my folder/partitions.yaml").partitions) == ["gpu"]
    output = capsys.readouterr().out
    assert "left out, since they start no jobs: old (down), closed (drain)" in output
    assert f"--slurm-partition-config '{tmp_path}/my folder/partitions.yaml'" in output
    with pytest.raises(UserError, match=r"cannot be written \(File exists\)"):
        partitions(out=tmp_path / "partitions.yaml/x.yaml")
    monkeypatch.setattr(cluster, "run_slurm_command", lambda *command: "")
    with pytest.raises(UserError, match="sinfo: expected at least one partition"):
        partitions(out=tmp_path / "none.yaml")


@pytest.mark.parametrize(("request_", "names"), [
    (ONE_GPU, ["gpu"]),
    (ONE_GPU._replace(gpus=0), ["cpu", "gpu"]),
    (ONE_GPU._replace(gpus=0, minutes=10), ["short", "cpu", "gpu"]),
    (ONE_GPU._replace(gres="gpu:a100:1"), ["gpu"]),
    (ONE_GPU._replace(gres="gpu:h100:1"), []),
    (ONE_GPU._replace(gpus=5), []),
    (ONE_GPU._replace(minutes=481), []),
    (ONE_GPU._replace(mem_mb=600000), []),
    (ONE_GPU._replace(cpus=65), []),
])  # fmt: skip
def test_the_executor_chooses_by_the_request(request_: JobRequest, names: list[str], tmp_path: Path) -> None:
    assert fitting_partitions(site_file(tmp_path), request_) == names


def test_a_dry_run_names_the_partition_of_each_job(tmp_path: Path) -> None:
    jobs = [("train", None, ONE_GPU), ("score", None, ONE_GPU), ("score", None, ONE_GPU), ("embed", "urgent", ONE_GPU)]
    small = ("tag", None, ONE_GPU._replace(gpus=0, minutes=10))
    lines = partition_lines(site_file(tmp_path), [*jobs, small])
    assert lines == ["partition gpu: 1 train, 2 score", "partition urgent: 1 embed", "partition short: 1 tag"]
    assert partition_lines(None, jobs[:1]) == ["partition of the cluster's default: 1 train"]


def test_requests_that_fit_no_partition_are_listed(tmp_path: Path) -> None:
    file = site_file(tmp_path)
    check_requests(file, [ONE_GPU, ONE_GPU._replace(gpus=0)])
    with pytest.raises(UserError) as error:
        check_requests(
            file, [ONE_GPU, ONE_GPU._replace(model="big", gpus=8), ONE_GPU._replace(model="long", minutes=999)]
        )
    assert [line.split(": ")[0] for line in error.value.lines.splitlines()] == ["models.big.needs", "models.long.needs"]
    assert "found 8 GPU(s), 8 cores, 32000 MB and 240 minutes; short has 0 GPU(s), 64 cores" in error.value.lines
    with pytest.raises(UserError) as error:
        check_requests(file, [ONE_GPU._replace(gres="gpu:v100:1"), ONE_GPU._replace(model="n", gres="gpu:v100:1")])
    assert error.value.lines == (
        f"default-resources: gpu_gres: no partition of {file.path} has GPUs of type v100. Fix: choose one of a100 "
        "(--default-resources gpu_gres=gpu:TYPE)"
    )


def test_a_partition_file_is_compared_with_the_cluster(tmp_path: Path) -> None:
    known = parse_partitions(PARTITION_LISTING)
    text = SITE_FILE.replace("  short:", '  "2024":')
    check_against_cluster(site_file(tmp_path, text), known)
    check_against_cluster(site_file(tmp_path, SITE_FILE.replace("short: {", "elsewhere: {cluster: other, ")), known)
    with pytest.raises(UserError) as error:
        check_against_cluster(
            site_file(tmp_path, text.replace("max_gpu: 4", "max_gpu: 8").replace("  cpu:", "  cpus:")), known
        )
    first, second = error.value.lines.splitlines()
    assert "'cpus' is not a partition of this cluster" in first and "`maieutic partitions`" in first
    assert "expected max_gpu to be at most 4, the GPUs of a node of gpu, found 8" in second
    problem = r"partition gpu is down, so that its jobs would not start\. Fix: remove gpu from"
    with pytest.raises(UserError, match=problem):
        check_against_cluster(
            site_file(tmp_path), {**known, "short": known["cpu"], "gpu": known["gpu"]._replace(state="down")}
        )


@pytest.mark.parametrize(("text", "expected"), [
    ("partitions: {gpu: {max_gpus: 1}}", r"partitions\.gpu\.max_gpus: is not a known key; did you mean 'max_gpu'\?"),
    ("partitions: {gpu: }", r"partitions\.gpu: expected limits, such as .*, found None"),
    ("partitions: {gpu: {max_gpu: '8'}}", r"partitions\.gpu\.max_gpu: expected a whole number, found '8'"),
    ("partitions: {gpu: {max_gpu: 8.5}}", r"expected a whole number, found 8\.5"),
    ("partitions: {gpu: {max_gpu: true}}", "expected a whole number, found True"),
    ("partitions: {gpu: {max_mem_mb: 1000G}}", "expected a number, found '1000G'"),
    ("partitions: {gpu: {max_runtime: null}}", "expected minutes, or a time such as 2-00:00:00, found None"),
    ("partitions: {gpu: {max_runtime: -5}}", "expected minutes, or a time such as 2-00:00:00, found -5"),
    ("partitions: {gpu: {available_gpu_models: a100}}", r"expected a list of texts, such as \[a100\], found 'a100'"),
    ("partitions: {gpu: {supports_mpi: 2}}", "expected true or false, found 2"),
    ("partitions: []", "must be a mapping"),
    ("partitions: {}", "expected at least one partition"),
    ("gpu: {}", "missing 'partitions' section"),
    ("{", "Error parsing partition file"),
    ("partitions: {2024: {}}", "partitions.2024: expected a name as a text, found the number 2024: write '2024' in"),
    ("partitions: {gpu: {max_runtime: soon}}", "expected minutes, or a time such as 2-00:00:00, found 'soon'"),
])  # fmt: skip
def test_an_invalid_partition_file_is_one_line(text: str, expected: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=expected) as error:
        site_file(tmp_path, text)
    assert "partitions.yaml: " in error.value.line and "Fix: write it with `maieutic partitions`" in error.value.line


TWO_GPU_PARTITIONS = """
partitions:
  cpu: {max_runtime: 1440, max_threads: 64, max_mem_mb: 250000, max_gpu: 0}
  gpu: {max_runtime: 2880, max_threads: 64, max_mem_mb: 500000, max_gpu: 4}
  large: {max_runtime: 300, max_threads: 64, max_mem_mb: 1000000, max_gpu: 4}
"""


@pytest.mark.parametrize(("text", "first", "attempt", "expected"), [
    (TWO_GPU_PARTITIONS, (4, 256_000, 720), 1, (256_000, 720)),
    (TWO_GPU_PARTITIONS, (4, 256_000, 720), 2, (500_000, 1440)),  # `large` has the memory, but not the time
    (TWO_GPU_PARTITIONS, (4, 256_000, 100), 3, (768_000, 300)),  # `large` fits
    (TWO_GPU_PARTITIONS, (4, 256_000, 720), 5, (500_000, 2880)),
    (TWO_GPU_PARTITIONS, (4, 600_000, 200), 3, (1_000_000, 300)),  # `gpu` does not fit the first attempt
    (TWO_GPU_PARTITIONS, (0, 200_000, 100), 2, (400_000, 200)),  # a job without GPUs may go to `gpu`
    (TWO_GPU_PARTITIONS, (8, 1000, 100), 2, (2000, 200)),  # fits no partition, which a dry run refuses
    ("partitions: {gpu: {max_gpu: 2}}", (1, 1000, 100), 9, (9000, 900)),
])  # fmt: skip
def test_a_later_attempt_fits_the_partition_file_if_the_first_one_does(
    text: str, first: tuple[int, int, int], attempt: int, expected: tuple[int, int], tmp_path: Path
) -> None:
    file, (gpus, mem_mb, minutes) = site_file(tmp_path, text), first
    request = JobRequest("m", gpus, 16, mem_mb, minutes)
    later = request_of_attempt(file, request, attempt)
    assert (later.mem_mb, later.minutes) == expected
    assert bool(fitting_partitions(file, later)) == bool(fitting_partitions(file, request))


def test_job_arrays_are_refused_also_in_a_dry_run(monkeypatch: pytest.MonkeyPatch) -> None:
    from types import SimpleNamespace

    main = SimpleNamespace(is_main_process=True, resource_settings=SimpleNamespace(default_resources=None))
    command = ["snakemake", "--executor", "slurm", "--jobs", "2", "-n", "--slurm-array-jobs", "all"]
    monkeypatch.setattr(sys, "argv", command)
    with pytest.raises(UserError, match="slurm-array-jobs: job arrays give all jobs the first one's resources"):
        hooks.check_slurm_options(SimpleNamespace(), main)
    hooks.check_slurm_options(SimpleNamespace(), SimpleNamespace(is_main_process=False))
    monkeypatch.setattr(sys, "argv", command[:6])
    hooks.check_slurm_options(SimpleNamespace(), main)


@pytest.mark.parametrize(("gres", "is_valid"), [
    ("gpu", True), ("gpu:a100", True), ("gpu:a100_3g.20gb", True), ("gpu:3g.20gb", True), ("'gpu:h100'", True),
    ("gpu:a100:2", False), ("gpu:4", False), ("a100", False), ("gres/gpu", False), ("4", False), ("gpu:", False),
    ("gpu;id", False),
])  # fmt: skip
def test_the_name_of_the_gpu_resource_has_no_number(gres: str, is_valid: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    from types import SimpleNamespace

    monkeypatch.setattr(sys, "argv", ["snakemake", "--executor", "slurm", "--jobs", "2", "-n"])
    defaults = {"gpu_gres": SimpleNamespace(raw=gres)}
    main = SimpleNamespace(is_main_process=True, resource_settings=SimpleNamespace(default_resources=defaults))
    if is_valid:
        hooks.check_slurm_options(SimpleNamespace(), main)
        return
    with pytest.raises(UserError, match=r"default-resources: gpu_gres: expected `gpu` or `gpu:TYPE`, found"):
        hooks.check_slurm_options(SimpleNamespace(), main)


def test_the_intended_executor_is_that_of_the_command_line(monkeypatch: pytest.MonkeyPatch) -> None:
    line = ["snakemake", "--executor", "slurm", "--jobs", "2", "-n"]
    monkeypatch.delenv("SNAKEMAKE_SLURM_PARTITIONS", raising=False)
    monkeypatch.setattr(sys, "argv", [*line, "--slurm-partition-config", "p.yaml"])
    assert intended_executor() == IntendedExecutor("slurm", Path("p.yaml"))
    monkeypatch.setattr(sys, "argv", line)
    assert intended_executor() == IntendedExecutor("slurm")
    monkeypatch.setenv("SNAKEMAKE_SLURM_PARTITIONS", "q.yaml")
    assert intended_executor().partition_file == Path("q.yaml")
    monkeypatch.setattr(sys, "argv", ["another-program", "--nonsense"])
    assert intended_executor() == IntendedExecutor(None)
