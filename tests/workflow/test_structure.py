"""The workflow's manners: who owns which folder, what a dry run schedules, what is refused before any work."""

from __future__ import annotations

import ast
import inspect
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
from maieutic.core import paths
from maieutic.curation import inputs as curation_inputs
from maieutic.curation import paths as curation_paths
from maieutic.plan import inputs
from maieutic.plan.digest import package_code
from running import SNAKEMAKE, environment, overlay, planned, run
from small import stub_of

RULES = Path("workflow/rules")
ORDER = [
    "datasets",
    "weights",
    "items",
    "questions",
    "labels",
    "preferences",
    "curation",
    "tuning",
    "replies",
    "rewards",
    "verdicts",
    "grades",
    "scores",
    "validation",
    "report",
]
# What a run makes is a source again: sets for evaluation, tuned weights.
MADE = {"curation": {"datasets"}, "tuning": {"weights"}}
SIDE = {"logs", "benchmarks", "journal"}
BASELINES = {"models": {}, "run": {"tutors": ["echo"]}}


def sections(text: str, name: str) -> str:
    """The text of every `name:` section of a rule file, with the paths that it names."""
    found = "\n".join(re.findall(rf"^    {name}:\n((?:        .*\n)+)", text, re.MULTILINE))
    found = re.sub(r"\bpaths\.([A-Z_]+)", lambda match: getattr(paths, match[1]), found)
    return re.sub(r"\bmade\.([A-Z_]+)", lambda match: str(getattr(curation_paths, match[1])), found)


def folders(text: str) -> set[str]:
    return set(re.findall(r"results/([a-z]+)", text.replace("{run}", "report"))) - SIDE


def written(name: str) -> set[str]:
    """The folders that the rules of a file write."""
    return folders(sections((RULES / f"{name}.smk").read_text(encoding="utf-8"), "output"))


def read_by(name: str) -> set[str]:
    """The folders that the rules of a file read: in their file, and in their functions of the plan."""
    text = (RULES / f"{name}.smk").read_text(encoding="utf-8")
    named = folders(sections(text, "input"))
    functions = [node for module in (inputs, curation_inputs) for node in ast.parse(inspect.getsource(module)).body]
    bodies = {one.name: one for one in functions if isinstance(one, ast.FunctionDef)}
    ahead = re.findall(r'plan\.inputs_of\("(\w+)"\)', text)
    seen: set[str] = set()
    while ahead:
        if (one := ahead.pop()) in seen or one not in bodies:
            continue
        seen.add(one)
        for node in ast.walk(bodies[one]):
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "paths":
                named |= folders(str(getattr(paths, node.attr)))
            elif isinstance(node, ast.Name):
                named |= folders(str(getattr(curation_paths, node.id, "")))
                ahead.append(node.id)
    return named


@pytest.mark.parametrize("name", ORDER)
def test_a_rule_file_owns_its_folder_and_reads_earlier_ones(name: str) -> None:
    assert written(name) == {name} | MADE.get(name, set())
    assert read_by(name) <= set(ORDER[: ORDER.index(name) + 1])
    assert read_by(name) or name in {"datasets", "weights"}
    text = (RULES / f"{name}.smk").read_text(encoding="utf-8")
    assert text.startswith('"""'), "the first line says what is read and what is made"


def test_the_folders_that_the_documents_name_are_those_that_rules_write() -> None:
    table = Path("docs/architecture.md").read_text(encoding="utf-8").partition("| folder |")[2].partition("\n\n")[0]
    named = {
        name
        for row in table.split("\n")
        for name in re.findall(r"`([a-z]+)[`/{]", row.partition("| ")[2].split(" |")[0])
    }
    known = folders(
        "\n".join(
            str(value)
            for module in (paths, curation_paths)
            for value in vars(module).values()
            if isinstance(value, paths.Pattern)
        )
    )
    assert named == known | {"journal", "runs"} and len(named) > 10


def test_each_pattern_of_a_path_is_used() -> None:
    """A path that no rule and no page names any more is not kept."""
    text = "\n".join(
        path.read_text(encoding="utf-8")
        for path in [Path("workflow/Snakefile"), *RULES.glob("*.smk"), *Path("workflow/maieutic").rglob("*.py")]
        if path.name != "paths.py"
    )
    every = {**vars(paths), **vars(curation_paths)}
    named = {name for name, value in every.items() if isinstance(value, paths.Pattern)}
    assert {name for name in named if not re.search(rf"\b{name}\b", text)} == set()


def test_includes_stand_in_the_order_of_the_data() -> None:
    included = re.findall(r'include: "rules/(\w+)\.smk"', Path("workflow/Snakefile").read_text(encoding="utf-8"))
    assert included == ["package", "common", *ORDER]
    assert {path.stem for path in RULES.glob("*.smk")} == set(included)


def test_every_rule_has_a_log_and_a_container_and_one_name() -> None:
    for path in RULES.glob("*.smk"):
        for rule, body in re.findall(
            r"^rule (\w+):\n((?:    .*\n|\n)+)", path.read_text(encoding="utf-8"), re.MULTILINE
        ):
            if rule in {"fetch", "curate", "questions"}:
                continue
            assert f'paths.log_of("{rule}"' in sections(body, "log"), rule
            assert "IMAGES." in sections(body, "container"), rule
            named = f'"{rule.replace("_", "-")}"'
            assert f"shell_lines.command_line({named}" in re.sub(r"\s", "", body), (
                "rule, command and log folder share a name"
            )


def test_commands_do_not_know_snakemake_and_heavy_libraries_load_late() -> None:
    code = (
        "import sys, pkgutil, importlib, maieutic\n"
        "for module in pkgutil.walk_packages(maieutic.__path__, 'maieutic.'):\n"
        "    if module.name.split('.')[-1] not in {'__main__', 'engine'}: importlib.import_module(module.name)\n"
        "print([name for name in ('snakemake', 'torch', 'vllm', 'transformers', 'trl') if name in sys.modules])\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env={"PYTHONPATH": "workflow"})
    assert done.stdout == "[]\n", done.stderr


ALONE = """
import gc, importlib, os, sys
import altair, cyclopts, jinja2, numpy, pandas, pydantic, sklearn.metrics, scipy.stats, requests, yaml
gc.disable()
gc.freeze()
for name in sys.argv[1:]:
    if (child := os.fork()) == 0:
        try:
            importlib.import_module(name)
        except BaseException as error:
            print(name, repr(error), flush=True)
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0, name
"""


def imports() -> dict[str, set[str]]:
    """By module what it imports, at its top or later: by name, its package, and what folders plug into it."""
    graph = build_graph("maieutic", exclude_type_checking_imports=True, cache_dir=None)
    code = package_code()
    found = {}
    for name in graph.modules:
        definitions = code.module(name.removeprefix("maieutic.")) or {}
        used = {f"maieutic.{use.module}" for definition in definitions.values() for use in definition.uses}
        found[name] = (graph.find_modules_directly_imported_by(name) | used) & graph.modules - {name}
        if "." in name:
            found[name].add(name.rpartition(".")[0])
    return found


def loaded_by(name: str, imported: dict[str, set[str]]) -> set[str]:
    """All that a module loads."""
    loaded: set[str] = set()
    ahead = [name]
    while ahead:
        new = imported[ahead.pop()] - loaded
        loaded |= new
        ahead += new
    return loaded


def test_each_module_can_be_imported_first() -> None:
    """What benchmarks plug in is imported by a computed name, of which no checker of imports sees a circle.

    Which module of a circle comes first decides whether it loads; any other module loads whichever comes first.
    """
    imported = imports()
    assert "maieutic.benchmarks.kmpbench.metrics" in imported["maieutic.scores.metrics.registry"]
    assert "maieutic.benchmarks.mrbench.section" in imported["maieutic.report.page"]
    in_circles = sorted(name for name in imported if name in loaded_by(name, imported))
    assert {"maieutic.report", "maieutic.report.page"} <= set(in_circles), "the package's commands load its modules"
    line = [sys.executable, "-c", ALONE, *in_circles]
    done = subprocess.run(line, capture_output=True, text=True, env={"PYTHONPATH": "workflow"})
    assert done.stdout == "" and done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(
    "module",
    [
        "config.settings",
        "plan.checks",
        "plan.rules",
        "plan.run_hooks",
        "plan.preflight",
        "core.records",
        "cli",
        "judges.commands",
    ],
)
def test_what_only_checks_or_moves_records_loads_no_statistics(module: str) -> None:
    """A second and more of CPU at every start of Snakemake, and of every job on a cluster."""
    code = (
        f"import sys, maieutic.{module}\n"
        "print([name for name in ('sklearn', 'scipy', 'pandas', 'statsmodels', 'altair', 'cyclopts') if name in sys.modules])\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env={"PYTHONPATH": "workflow"})
    assert done.stdout == "[]\n", done.stdout + done.stderr


def test_modules_that_the_serving_environment_runs_load_there() -> None:
    """What one environment's lock forgot must not be found by accident on a developer's machine."""
    serve = Path(".venv/serve/bin/python")
    if not serve.exists():
        from conftest import absent

        absent("the serving environment", "run make env")
    modules = [
        "cli",
        "replies.generate",
        "judges.commands",
        "serving.client",
        "serving.server",
        "serving.weights",
        "core.journal",
        "config.cards",
        "core.records",
        "rewards.training",
        "rewards.criteria",
        "rewards.scoring",
        "rewards.prefix_sharing",
        "rewards.checkpoints",
        "rewards.progress_callback",
    ]
    code = "\n".join([*(f"import maieutic.{module}" for module in modules), "maieutic.cli.application()"])
    done = subprocess.run([serve, "-c", code], capture_output=True, text=True, env={"PYTHONPATH": "workflow"})
    assert done.returncode == 0, done.stderr


@pytest.fixture(scope="module")
def finished(checkouts: Callable[[], Path]) -> Path:
    """A finished run of baseline tutors: no server needed."""
    folder = checkouts()
    done = run(folder, overlay(folder, {"run": {"tutors": ["echo"]}}))
    assert done.returncode == 0, done.stdout
    return folder


REPORT = {"build_report", "check_report"}
SUMMARIES = {"save_config", *REPORT}  # with what the run is made of: the config, and checksums of cards and prompts


def test_a_second_run_does_nothing(finished: Path) -> None:
    assert planned(finished, finished / "overlay.yaml") == set()


def test_adding_a_model_schedules_that_models_jobs_and_the_summaries(finished: Path) -> None:
    model = {"engine": "hosted", "model": "m", "base_url": "http://127.0.0.1:9/v1"}
    more = overlay(finished, {"models": {"added": model}, "run": {"tutors": ["echo", "added"]}}, "more.yaml")
    where = "benchmark=mathtutorbench, tutor=added"
    assert planned(finished, more) == SUMMARIES | {"compare_tutors benchmark=mathtutorbench"} | {
        f"{rule} {where}" for rule in ("generate_replies_locally", "parse_replies", "score_replies")
    }


def test_no_two_models_share_a_file(finished: Path) -> None:
    """Whatever names two models have, each has its own jobs (echo.prompts was once the name of echo's prompts)."""
    names = ["echo", "echo.prompts", "echo.jsonl", "prompts"]
    models = {name: {"engine": "baseline", "tutor": "echo"} for name in names}
    jobs = planned(
        finished, overlay(finished, {"models": models, "run": {"tutors": names}}, "names.yaml"), "--forceall"
    )
    assert {f"generate_replies_locally benchmark=mathtutorbench, tutor={name}" for name in names} <= jobs


def test_adding_a_task_schedules_its_items_and_that_benchmark(solved: Path) -> None:
    tasks = ["mathtutorbench/problem_solving", "mathtutorbench/mistake_location"]
    jobs = planned(solved, overlay(solved, {"run": {"tutors": ["echo"], "tasks": tasks}}, "more.yaml"))
    assert "fetch_dataset dataset=gsm8k" not in jobs, "what was fetched stays"
    assert {job for job in jobs if job.startswith(("make_items", "fetch"))} == {
        "fetch_dataset dataset=stepverify",
        "make_items benchmark=mathtutorbench, task=mistake_location",
    }


SOLVING = {"run": {"tutors": ["echo"], "tasks": ["mathtutorbench/problem_solving"]}}


@pytest.fixture(scope="module")
def solved(checkouts: Callable[[], Path]) -> Path:
    """A finished run of one task, to be copied."""
    folder = checkouts()
    done = run(folder, overlay(folder, SOLVING))
    assert done.returncode == 0, done.stdout
    return folder


EDITS = {
    "grader": ("workflow/maieutic/graders/short_answers.py", "if match else 0", "if match else 1", {"parse_replies", "score_replies", *REPORT}),
    "reader of replies": ("workflow/maieutic/graders/parsing.py", "    refused = f", "    return []\n    refused = f", {"parse_replies", "score_replies", *REPORT}),
    "metric": ("workflow/maieutic/scores/metrics/common.py", "\nCOMMON", "\nCOMMON: dict[str, Metric] = {}\nCOMMON", {"score_replies", *REPORT}),
    "style": ("workflow/maieutic/report/page.css", "}", "} /* changed */", REPORT),
    "prompt": ("resources/benchmarks/mathtutorbench/problem_solving.jinja", "", "Well: ", {"generate_replies_locally", "parse_replies", "score_replies", *SUMMARIES}),
    "baseline tutors": ("workflow/maieutic/replies/sentences.py", "SENTENCE_END.split(text)", "SENTENCE_END.split(text + '.')", {"generate_replies_locally", "parse_replies", "score_replies", *REPORT}),
    "what served tutors alone use": ("workflow/maieutic/replies/generate.py", "        return await converse_all", "        await asyncio.sleep(0)\n        return await converse_all", set()),
    "comment": ("workflow/maieutic/graders/parsing.py", "    refused = f", "    # so it was\n    refused = f", set()),
    "loader of another task": ("workflow/maieutic/benchmarks/tutorbench/items.py", "DELETED = ", "DELETED = None or ", REPORT),
}  # fmt: skip


@pytest.fixture(scope="module")
def edited(solved: Path, copied: Callable[[Path], Path]) -> Path:
    """A copy of that run, whose files tests edit and put back."""
    folder = copied(solved)
    assert planned(folder, overlay(folder, SOLVING)) == set(), "a copy of a finished run is finished"
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


def test_deleted_replies_are_made_again(solved: Path, copied: Callable[[Path], Path]) -> None:
    folder = copied(solved)
    config = overlay(folder, SOLVING)
    replies = "results/replies/mathtutorbench/echo.jsonl"
    chain = {
        f"{rule} benchmark=mathtutorbench, tutor=echo"
        for rule in ("generate_replies_locally", "parse_replies", "score_replies")
    }
    assert planned(folder, config, "--forcerun", replies) == chain | REPORT, "as the README says"
    (folder / replies).unlink()
    style = folder / "workflow/maieutic/report/page.css"
    style.write_text(style.read_text(encoding="utf-8") + "\n/* changed */\n", encoding="utf-8")
    assert planned(folder, config) == chain | REPORT, "the report reads the replies, so it needs them"


def commands_of(folder: Path, config: Path) -> set[str]:
    """Every command of a run from its beginning."""
    done = run(folder, config, "-n", "-p", "--forceall")
    assert done.returncode == 0, done.stdout
    return {line.strip() for line in done.stdout.splitlines() if " -m maieutic " in line}


def test_the_reading_of_negative_weights_concerns_tutorbench_alone(checkout: Path) -> None:
    """All four benchmarks are in the run; only where criteria have weights does their reading decide a grade."""
    keys = yaml.safe_load((checkout / "config/demo.yaml").read_text(encoding="utf-8"))["run"]
    before, after = (
        commands_of(checkout, overlay(checkout, {"run": {**keys, "negative_weights": reading}}))
        for reading in ("by_phrasing", "violated")
    )
    assert {"mathtutorbench", "kmpbench", "mrbench", "tutorbench"} <= {
        place for line in before for place in re.findall(r"results/scores/([a-z]+)/", line)
    }
    changed = {line for line in after - before if "save-config" not in line}
    assert changed and all(" grade-verdicts " in line and "results/items/tutorbench " in line for line in changed)


FAULTS = {
    "unknown key": ({"run": {"tutor": ["echo"]}}, "run.tutor: is not a known key. Fix: did you mean 'tutors'?"),
    "unknown model": ({"run": {"tutors": ["ech"]}}, "run.tutors[0]: 'ech' is not in config/models.yaml. Fix: did you mean 'echo'?"),
    "command as name": ({"models": {"$(touch pwned)": {"engine": "baseline", "tutor": "echo"}}}, "models.'$(touch pwned)': expected a name of"),
    "path as name": ({"models": {"../up": {"engine": "baseline", "tutor": "echo"}}}, "models.'../up': expected a name of"),
    "unpinned": ({"run": {"tutors": ["llama-3.1-8b"]}}, "models.llama-3.1-8b.weights.revision: meta-llama/Llama-3.1-8B-Instruct has no pinned commit"),
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
    "key not set": ({"key_env": "MISSING_KEY"}, "models.far.key_env: the environment variable MISSING_KEY is not set. Fix: export"),
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


def test_without_a_run_file_one_line_says_how_to_name_tutors_or_run_the_demo(checkout: Path) -> None:
    line = [str(SNAKEMAKE), "--cores", "1"]
    done = subprocess.run(line, cwd=checkout, capture_output=True, text=True, env=environment())
    said = [one for one in (done.stdout + done.stderr).splitlines() if "Fix: " in one]
    assert done.returncode != 0 and len(said) == 1 and "run.tutors: expected at least one tutor, found none" in said[0]
    assert "--configfile my.yaml" in said[0] and "config/demo.yaml" in said[0]
    assert not (checkout / "results").exists()


def test_after_activate_both_commands_are_on_the_path(tmp_path: Path) -> None:
    """In a folder with a blank in its name, and from another one."""
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
    """`make demo` beside `make test`, or beside a run that is reading `.venv`."""
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
        begun = [subprocess.Popen(line, env={**env, **more}, stderr=subprocess.PIPE, text=True) for _ in range(times)]
        told = [process.communicate(timeout=120)[1] for process in begun]
        assert [process.returncode for process in begun] == [0] * times, told
        return told

    def written() -> dict[Path, tuple[int, int]]:
        return {
            path: (path.lstat().st_ino, path.lstat().st_mtime_ns)
            for path in sorted((home / ".venv").rglob("*"))
            if path.is_symlink() or path.is_file()
        }

    assert sum("toy: ready after" in told for told in set_up(4)) == 1, "installed once"
    first = written()
    assert {str(path.relative_to(home / ".venv")) for path in first} == {
        "variant", "toy", "activate", "bin/maieutic", "bin/snakemake",
    }  # fmt: skip
    assert all(told == "" or "waiting" in told for told in set_up(4)) and written() == first
    set_up(1, VARIANT="cuda")
    assert (home / ".venv/variant").read_text(encoding="utf-8") == "cuda\n"
    changed = {path.name for path, state in written().items() if first.get(path) != state}
    assert changed == {"variant", "toy"} and len(list(store.glob("toy-*"))) == 2


def test_a_run_file_inherits_nothing_of_the_demo(checkout: Path) -> None:
    mine = checkout / "mine.yaml"
    mine.write_text("edition: demo\nrun: {tutors: [echo], tasks: [mathtutorbench/problem_solving]}\n", encoding="utf-8")
    jobs = planned(checkout, mine)
    assert jobs and not any("demo-" in job or job.startswith(("train", "judge", "score_rewards")) for job in jobs)


def test_a_broken_card_stops_the_run_with_the_prompts_name(checkout: Path) -> None:
    (checkout / "resources/benchmarks/mathtutorbench/problem_solving.jinja").write_text("{{ qestion }}")
    done = run(checkout)
    assert done.returncode != 0 and not (checkout / "results").exists()
    assert (
        "problem_solving.jinja: undefined prompt variable qestion. Fix: use a variable of loader gsm8k_solving: question"
        in done.stdout
    )


def test_one_dead_tutor_leaves_the_others_report(checkout: Path) -> None:
    """The job of one tutor fails, the page comes with that tutor marked."""
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
    assert {"build_report", "generate_replies benchmark=mathtutorbench, tutor=dead"} <= again, "and it is not over"
    assert (
        run(
            checkout, overlay(checkout, {"run": {"tutors": ["echo"], "tasks": ["mathtutorbench/problem_solving"]}})
        ).returncode
        == 0
    )
    assert not (checkout / "results/report/partial").exists(), "a complete report takes the partial one's place"
    log = (checkout / "results/logs/generate_replies/mathtutorbench/dead.log").read_text(encoding="utf-8")
    assert "the vLLM server ended with" in log and "Traceback" not in log


def test_the_effective_config_is_saved_without_secrets(finished: Path) -> None:
    saved = yaml.safe_load((finished / "results/report/config.yaml").read_text(encoding="utf-8"))
    assert saved["run"]["tutors"] == ["echo"] and saved["edition"] == "demo"
    assert set(saved["models"]) == {"echo", "always-0", "always-ask", "always-yes", "reference", "reveal"}


def test_snakemakes_own_report_renders(finished: Path) -> None:
    done = run(finished, finished / "overlay.yaml", "--report", "report.zip")
    assert done.returncode == 0 and (finished / "report.zip").stat().st_size > 10_000, done.stdout
    with zipfile.ZipFile(finished / "report.zip") as archive:
        held = " ".join(archive.namelist())
    own = [path for folder in ("tables", "figures") for path in (finished / "results/report" / folder).glob("[!.]*")]
    assert len(own) > 20 and {path.suffix for path in own} == {".csv", ".svg"}
    assert [path.name for path in own if path.name not in held] == [], "every table and every picture is in it"


def test_the_run_is_byte_identical_when_repeated(finished: Path, checkouts: Callable[[], Path]) -> None:
    """Same seed, same bytes, for everything that holds no GPU float and no clock."""
    folder = checkouts()
    # By interpreters of its own, whose sets stand in another order, and without a chart that was drawn before.
    own = {"PYTHONHASHSEED": "1", "XDG_CACHE_HOME": str(folder / "cache")}
    assert run(folder, overlay(folder, {"run": {"tutors": ["echo"]}}), **own).returncode == 0
    assert list((folder / "cache/maieutic/charts").iterdir())
    for name in (
        "report/scores.csv",
        "report/scores.parquet",
        "report/index.html",
        "replies/mathtutorbench/echo.jsonl",
    ):
        assert (folder / "results" / name).read_bytes() == (finished / "results" / name).read_bytes(), name
    assert json.loads((folder / "results/scores/mathtutorbench/echo.json").read_text())
