"""Structure of the workflow and the package, jobs that dry runs plan, and errors that stop a run before any work."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from grimp import build_graph
from maieutic.benchmarks import BENCHMARKS
from maieutic.core import paths
from maieutic.curation import stage as curation_stage
from maieutic.plan.digest import package_code
from running import SNAKEMAKE, environment, overlay, planned, run
from small import stub_of

RULES = Path("workflow/rules")
INCLUDED = re.findall(r'include: "rules/(\w+)\.smk"', Path("workflow/Snakefile").read_text(encoding="utf-8"))
# Rule files in the order of the data. Each writes the folder of its name.
ORDER = [name for name in INCLUDED if name not in {"package", "common", *BENCHMARKS}]
# Rule files of benchmarks write into the folders of the stages that they add to.
SLICES = [name for name in INCLUDED if name in BENCHMARKS]
SIDE_FOLDERS = {"logs", "benchmarks", "journal"}


def rule_text(name: str) -> str:
    """Return the text of a rule file, with the run's folder and doubled braces as in a pattern of `paths`."""
    text = (RULES / f"{name}.smk").read_text(encoding="utf-8")
    return text.replace("{RUN}", "{run}").replace("{{", "{").replace("}}", "}")


def sections(text: str, name: str) -> str:
    """Return the text of every `name:` section of a rule file."""
    return "\n".join(re.findall(rf"^    {name}:\n((?:        .*\n)+)", text, re.MULTILINE))


def folders(text: str) -> set[str]:
    """Return the folders of `results/` that a text names, without the folders of logs, timings and journals."""
    return set(re.findall(r"results/([a-z]+)", text.replace("{run}", "report"))) - SIDE_FOLDERS


# Files outside all rules (those of servers, of the start of a run and of the partial report), and folders
OUTSIDE_RULES = {
    "JOURNALS", "SERVER_RECORD", "RUN_CONFIG", "RUN_PROVENANCE", "RUN_LOCK", "BATCHES", "RUN_SPENDING", "PARTIAL_REPORT",
    "PARTIAL_REPORT_LOG", "PREVIOUS_GRADES", "READER_CHANGES", "LOGS", "PROGRESS", "LIVE_STATE", "LIVE_PAGE",
}  # fmt: skip


def test_the_paths_that_code_names_are_those_of_rules() -> None:
    """The report and the exports read files by the patterns of `paths`; rules write the same paths as literals."""
    texts = "\n".join(rule_text(name) for name in [*ORDER, *SLICES])
    written = {re.sub(r"\{\w+\}", "{}", path) for path in re.findall(r'"(results/[^"]+)"', texts)}
    patterns = {
        name: str(value)
        for name, value in {**vars(paths), **vars(curation_stage)}.items()
        if isinstance(value, paths.Pattern)
    }
    patterns |= {f"SETS[{name}]": str(value) for name, value in curation_stage.SETS.items()}
    # Rules name the stages of a curation.
    steps = [re.sub(r"\{\w+\}", "{}", path.replace("{step}", "make_components")) for path in patterns.values()]
    unknown = {name for name, path in zip(patterns, steps, strict=True) if path not in written}
    assert unknown == OUTSIDE_RULES


def test_commands_do_not_know_snakemake_and_heavy_libraries_load_late() -> None:
    code = (
        "import sys, pkgutil, importlib, maieutic\n"
        "for module in pkgutil.walk_packages(maieutic.__path__, 'maieutic.'):\n"
        "    if module.name.split('.')[-1] not in {'__main__', 'engine'}: importlib.import_module(module.name)\n"
        "print([name for name in ('snakemake', 'torch', 'vllm', 'transformers', 'trl') if name in sys.modules])\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env={"PYTHONPATH": "workflow"})
    assert done.stdout == "[]\n", done.stderr


def imports() -> dict[str, set[str]]:
    """Map each module to its imports at any level: imports by name, its package, and the modules of its plugins."""
    graph = build_graph("maieutic", exclude_type_checking_imports=True, cache_dir=None)
    code = package_code()
    modules = {}
    for name in graph.modules:
        definitions = code.module(name.removeprefix("maieutic.")) or {}
        used = {f"maieutic.{use.module}" for definition in definitions.values() for use in definition.uses}
        modules[name] = (graph.find_modules_directly_imported_by(name) | used) & graph.modules - {name}
        if "." in name:
            modules[name].add(name.rpartition(".")[0])
    return modules


@pytest.mark.parametrize("module", [
    "config.settings", "plan.checks", "plan.rules", "launch.hooks", "launch.preflight", "core.records", "cli",
    "judges.verdicts",
])  # fmt: skip
def test_modules_that_only_check_or_move_records_load_no_statistics(module: str) -> None:
    """Libraries of statistics cost over a second of CPU at each start of Snakemake and of each job on a cluster."""
    code = (
        f"import sys, maieutic.{module}\n"
        "print([name for name in ('sklearn', 'scipy', 'pandas', 'statsmodels', 'altair', 'cyclopts') if name in sys.modules])\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env={"PYTHONPATH": "workflow"})
    assert done.stdout == "[]\n", done.stdout + done.stderr


@pytest.fixture(scope="module")
def finished(checkouts: Callable[[], Path]) -> Path:
    """Return the folder of a finished run of baseline tutors, which need no server."""
    folder = checkouts()
    done = run(folder, overlay(folder, {"run": {"tutors": ["echo"]}}))
    assert done.returncode == 0, done.stdout
    return folder


REPORT = {"build_report", "check_report", "keep_run"}
# The report, and the files about the whole run: its config, and checksums of cards and prompts
SUMMARIES = {"save_config", *REPORT}


def test_no_two_models_share_a_file(finished: Path) -> None:
    """Each model has its own jobs, also if its name resembles a file of another (`echo.prompts`: echo's prompts)."""
    names = ["echo", "echo.prompts", "echo.jsonl", "prompts"]
    models = {name: {"engine": "baseline", "tutor": "echo"} for name in names}
    jobs = planned(
        finished, overlay(finished, {"models": models, "run": {"tutors": names}}, "names.yaml"), "--forceall"
    )
    assert {f"generate_replies_locally benchmark=mathtutorbench, tutor={name}" for name in names} <= jobs


def test_adding_a_task_schedules_its_items_and_that_benchmark(solved: Path) -> None:
    tasks = ["mathtutorbench/problem_solving", "mathtutorbench/mistake_location"]
    jobs = planned(solved, overlay(solved, {"run": {"tutors": ["echo"], "tasks": tasks}}, "more.yaml"))
    assert "fetch_dataset dataset=gsm8k" not in jobs, "fetched data stay"
    assert {job for job in jobs if job.startswith(("make_items", "fetch"))} == {
        "fetch_dataset dataset=stepverify",
        "make_items benchmark=mathtutorbench, task=mistake_location",
    }


SOLVING = {"run": {"tutors": ["echo"], "tasks": ["mathtutorbench/problem_solving"]}}


@pytest.fixture(scope="module")
def solved(checkouts: Callable[[], Path]) -> Path:
    """Return the folder of a finished run of one task. Tests copy it."""
    folder = checkouts()
    done = run(folder, overlay(folder, SOLVING))
    assert done.returncode == 0, done.stdout
    return folder


EDITS = {
    "grader": ("workflow/maieutic/graders/short_answers.py", "if match else 0", "if match else 1", {"parse_replies", "score_replies", "compare_tutors", *REPORT}),
    "reader of replies": ("workflow/maieutic/replies/parsing.py", "    refused = missing", "    return []\n    refused = missing", {"parse_replies", "score_replies", "compare_tutors", *REPORT}),
    "metric": ("workflow/maieutic/scores/metrics.py", "\nCOMMON", "\nCOMMON: dict[str, Metric] = {}\nCOMMON", {"score_replies", "compare_tutors", *REPORT}),
    "style": ("workflow/maieutic/report/page.css", "}", "} /* changed */", REPORT),
    "prompt": ("resources/benchmarks/mathtutorbench/problem_solving.jinja", "", "Well: ", {"generate_replies_locally", "parse_replies", "score_replies", "compare_tutors", *SUMMARIES}),
    "baseline tutors": ("workflow/maieutic/replies/sentences.py", "SENTENCE_END.split(text)", "SENTENCE_END.split(text + '.')", {"generate_replies_locally", "parse_replies", "score_replies", "compare_tutors", *REPORT}),
    "code of served tutors": ("workflow/maieutic/replies/generate.py", "        return await converse_all", "        await asyncio.sleep(0)\n        return await converse_all", set()),
    "comment": ("workflow/maieutic/replies/parsing.py", "    refused = missing", "    # so it was\n    refused = missing", set()),
    "loader of another task": ("workflow/maieutic/benchmarks/tutorbench/items.py", "DELETED = ", "DELETED = None or ", REPORT),
}  # fmt: skip


@pytest.fixture(scope="module")
def edited(solved: Path, copied: Callable[[Path], Path]) -> Path:
    """Return a copy of the finished run of one task. Tests edit its files and restore them."""
    folder = copied(solved)
    assert planned(folder, overlay(folder, SOLVING)) == set(), "the copy of a finished run plans no jobs"
    return folder


@pytest.mark.parametrize(("file", "old", "new", "rerun"), EDITS.values(), ids=EDITS.keys())
def test_editing_a_file_reruns_exactly_its_users(file: str, old: str, new: str, rerun: set[str], edited: Path) -> None:
    path = edited / file
    text, times = path.read_text(encoding="utf-8"), path.stat()
    assert old in text
    path.write_text(text.replace(old, new, 1), encoding="utf-8")
    try:
        assert {job.split()[0] for job in planned(edited, edited / "overlay.yaml")} == rerun
    finally:
        path.write_text(text, encoding="utf-8")
        os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))


def test_a_failing_part_of_the_page_becomes_a_box_and_fails_the_run(
    solved: Path, copied: Callable[[Path], Path]
) -> None:
    folder = copied(solved)
    config = overlay(folder, SOLVING)
    report, template = folder / "results/report", folder / "workflow/maieutic/report/about.html.jinja"
    original = template.read_text(encoding="utf-8")
    template.write_text(original + "{{ nothing.of_this_name }}", encoding="utf-8")
    done = run(folder, config)
    assert done.returncode != 0
    fault = "1 part could not be made: the page about the numbers (UndefinedError: 'nothing' is undefined)"
    assert fault in done.stdout and "the report was written: results/report/index.html" in done.stdout
    page = (report / "index.html").read_text(encoding="utf-8")
    assert "the page about the numbers: this part could not be made." in page and "Problem solving" in page
    assert (report / "scores.csv").exists() and not (report / "partial").exists()
    template.write_text(original, encoding="utf-8")
    done = run(folder, config)
    assert done.returncode == 0, done.stdout[-4000:]
    assert "could not be made" not in (report / "index.html").read_text(encoding="utf-8")


def test_deleted_replies_are_made_again(solved: Path, copied: Callable[[Path], Path]) -> None:
    folder = copied(solved)
    config = overlay(folder, SOLVING)
    replies = "results/replies/mathtutorbench/echo.jsonl"
    chain = {
        f"{rule} benchmark=mathtutorbench, tutor=echo"
        for rule in ("generate_replies_locally", "parse_replies", "score_replies")
    } | {"compare_tutors benchmark=mathtutorbench"}
    assert planned(folder, config, "--forcerun", replies) == chain | REPORT, "the README documents this command"
    (folder / replies).unlink()
    style = folder / "workflow/maieutic/report/page.css"
    style.write_text(style.read_text(encoding="utf-8") + "\n/* changed */\n", encoding="utf-8")
    assert planned(folder, config) == chain | REPORT, "the report reads the replies, so it needs them"


FAULTS = {
    "command as name": ({"models": {"$(touch pwned)": {"engine": "baseline", "tutor": "echo"}}}, "models.'$(touch pwned)': expected a name of"),
}  # fmt: skip


@pytest.mark.parametrize(("config", "expected"), FAULTS.values(), ids=FAULTS.keys())
def test_a_fault_stops_the_run_before_any_work(config: dict, expected: str, checkout: Path) -> None:
    done = run(checkout, overlay(checkout, config))
    assert done.returncode != 0
    lines = [line for line in done.stdout.splitlines() if ": " in line and "Fix: " in line]
    assert len(lines) == 1 and expected in lines[0], done.stdout
    assert "Traceback" not in done.stdout
    assert not (checkout / "results").exists() and not (checkout / "pwned").exists()


HOSTED_FAULTS = {
    "endpoint down": ({}, "models.far.base_url: http://127.0.0.1:9/v1 does not answer (ConnectionError). Fix: start the server"),
}  # fmt: skip


@pytest.mark.parametrize(("entry", "expected"), HOSTED_FAULTS.values(), ids=HOSTED_FAULTS.keys())
def test_an_endpoint_that_cannot_be_asked_stops_the_run_before_any_work(
    entry: dict, expected: str, checkout: Path
) -> None:
    model = {"engine": "hosted", "model": "m", "base_url": "http://127.0.0.1:9/v1", **entry}
    done = run(checkout, overlay(checkout, {"models": {"far": model}, "run": {"tutors": ["far"]}}))
    assert done.returncode != 0
    assert expected in done.stdout
    assert not any((checkout / "results").glob("[!.]*")), "nothing was fetched"


def test_a_missing_serving_environment_stops_the_run_before_any_work(checkout: Path) -> None:
    done = run(checkout, overlay(checkout, {"interpreters": {"serve": "nowhere/python"}}))
    assert done.returncode != 0
    assert (
        "interpreters.serve: nowhere/python does not exist, and smollm2-135m needs it. Fix: run `make env`"
        in done.stdout
    )
    assert not any((checkout / "results").glob("[!.]*")), "nothing was fetched"


def test_a_run_without_tutors_prints_one_line_with_both_fixes(checkout: Path) -> None:
    """The line names the option for a run file and the demo's config."""
    line = [str(SNAKEMAKE), "--cores", "1"]
    done = subprocess.run(line, cwd=checkout, capture_output=True, text=True, env=environment())
    errors = [line for line in (done.stdout + done.stderr).splitlines() if "Fix: " in line]
    assert done.returncode != 0
    assert len(errors) == 1 and "run.tutors: expected at least one tutor, found none" in errors[0]
    assert "--configfile my.yaml" in errors[0] and "config/config.yaml" in errors[0]
    assert not (checkout / "results").exists()


def test_after_activate_both_commands_are_on_the_path(tmp_path: Path) -> None:
    """The checkout's path contains a space, and the commands run in another folder."""
    home = tmp_path / "a checkout"
    (home / ".venv").mkdir(parents=True)
    (home / "envs").mkdir()
    for name in ("setup", "uv.txt", "build.txt", "driver.txt"):
        shutil.copy(f"envs/{name}", home / "envs" / name)
    (home / "workflow").symlink_to(Path("workflow").resolve())
    store = Path(".venv/driver").resolve().parent
    env = {**environment(), "MAIEUTIC_ENVS": str(store)}
    subprocess.run([home / "envs/setup", "driver"], check=True, env=env)
    line = "source '.venv/activate' && cd / && snakemake --version && maieutic recover --results /nowhere/results"
    done = subprocess.run(["bash", "-c", line], cwd=home, env=environment(), capture_output=True, text=True)
    assert done.returncode == 0 and done.stdout.strip() == "9.27.1", done.stderr


def test_two_set_ups_at_once_wait_for_each_other_and_a_later_one_writes_nothing(tmp_path: Path) -> None:
    """Two calls at once: `make demo` beside `make test`. A later call must not change `.venv`, which a run may use."""
    home, store = tmp_path / "checkout", tmp_path / "store"
    (home / "envs").mkdir(parents=True)
    for name in ("setup", "uv.txt"):
        shutil.copy(f"envs/{name}", home / "envs" / name)
    for variant in ("cpu", "cuda"):
        (home / f"envs/toy.{variant}.txt").write_text(f"# nothing for {variant}\n", encoding="utf-8")
    uv = subprocess.run(["envs/setup", "--print-uv"], capture_output=True, text=True, check=True).stdout.strip()
    env = {**environment(), "MAIEUTIC_ENVS": str(store), "PATH": f"{Path(uv).parent}:{environment()['PATH']}"}

    def set_up(times: int, **more: str) -> list[str]:
        line = [home / "envs/setup", "toy"]
        processes = [
            subprocess.Popen(line, env={**env, **more}, stderr=subprocess.PIPE, text=True) for _ in range(times)
        ]
        errors = [process.communicate(timeout=120)[1] for process in processes]
        assert [process.returncode for process in processes] == [0] * times, errors
        return errors

    def file_states() -> dict[Path, tuple[int, int]]:
        return {
            path: (path.lstat().st_ino, path.lstat().st_mtime_ns)
            for path in sorted((home / ".venv").rglob("*"))
            if path.is_symlink() or path.is_file()
        }

    assert sum("toy: ready after" in stderr for stderr in set_up(4)) == 1, "installed once"
    first = file_states()
    assert {str(path.relative_to(home / ".venv")) for path in first} == {
        "variant", "toy", "activate", "bin/maieutic", "bin/snakemake",
    }  # fmt: skip
    assert all(stderr == "" or "waiting" in stderr for stderr in set_up(4)) and file_states() == first
    set_up(1, VARIANT="cuda")
    assert (home / ".venv/variant").read_text(encoding="utf-8") == "cuda\n"
    changed = {path.name for path, state in file_states().items() if first.get(path) != state}
    assert changed == {"variant", "toy"} and len(list(store.glob("toy-*"))) == 2


def test_one_dead_tutor_leaves_the_others_report(checkout: Path) -> None:
    """The job of one tutor fails; the run still writes a partial report, which marks that tutor as failed."""
    model = stub_of(checkout, needs={"cpus": 1, "mem_mb": 500})
    (checkout / "stub/model.safetensors").write_bytes(b"not weights")
    config = overlay(
        checkout, {"models": {"dead": model}, "run": {"tutors": ["dead"], "tasks": ["mathtutorbench/problem_solving"]}}
    )
    done = run(checkout, config)
    assert done.returncode != 0
    page = (checkout / "results/report/partial/index.html").read_text(encoding="utf-8")
    assert "failed: no scores" in page and "Human reference" in page
    assert "partial report: results/report/partial/index.html" in done.stdout
    again = planned(checkout, config)
    assert {"build_report", "generate_replies benchmark=mathtutorbench, tutor=dead"} <= again, (
        "the failed job is planned"
    )
    assert (
        run(
            checkout, overlay(checkout, {"run": {"tutors": ["echo"], "tasks": ["mathtutorbench/problem_solving"]}})
        ).returncode
        == 0
    )
    assert not (checkout / "results/report/partial").exists(), "a complete report replaces the partial one"
    log = (checkout / "results/logs/generate_replies/mathtutorbench/dead.log").read_text(encoding="utf-8")
    assert "the vLLM server ended with" in log and "Traceback" not in log


def test_the_effective_config_is_saved_without_secrets(finished: Path) -> None:
    saved = yaml.safe_load((finished / "results/report/config.yaml").read_text(encoding="utf-8"))
    assert saved["run"]["tutors"] == ["echo"] and saved["edition"] == "demo"
    assert set(saved["models"]) == {"echo", "always-0", "always-ask", "always-yes", "reference", "reveal"}
    shipped = yaml.safe_load((finished / "resources/registries/datasets.yaml").read_text(encoding="utf-8"))
    assert set(saved["datasets"]) < set(shipped.get("datasets", shipped)), "only those that the run uses"


def test_snakemakes_own_report_renders(finished: Path) -> None:
    done = run(finished, finished / "overlay.yaml", "--report", "report.zip")
    assert done.returncode == 0 and (finished / "report.zip").stat().st_size > 10_000, done.stdout
    with zipfile.ZipFile(finished / "report.zip") as archive:
        names = " ".join(archive.namelist())
    exported = [
        path for folder in ("tables", "figures") for path in (finished / "results/report" / folder).glob("[!.]*")
    ]
    assert len(exported) > 20 and {path.suffix for path in exported} == {".csv", ".svg"}
    assert [path.name for path in exported if path.name not in names] == [], (
        "the archive contains all tables and figures"
    )


def test_the_run_is_byte_identical_when_repeated(finished: Path, checkouts: Callable[[], Path]) -> None:
    """All files without floats from a GPU and without times are byte-identical if the seed is the same."""
    folder = checkouts()
    # New interpreters whose sets iterate in another order, and an empty cache of charts
    env = {"PYTHONHASHSEED": "1", "XDG_CACHE_HOME": str(folder / "cache")}
    assert run(folder, overlay(folder, {"run": {"tutors": ["echo"]}}), **env).returncode == 0
    assert list((folder / "cache/maieutic/charts").iterdir())
    for name in (
        "report/scores.csv",
        "report/scores.parquet",
        "report/index.html",
        "replies/mathtutorbench/echo.jsonl",
    ):
        assert (folder / "results" / name).read_bytes() == (finished / "results" / name).read_bytes(), name
    assert json.loads((folder / "results/scores/mathtutorbench/echo.json").read_text())
