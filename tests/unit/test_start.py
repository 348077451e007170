"""What a run asks of its machine before the first job, and what it says at its end: rules' settings by a plan."""

from __future__ import annotations

import io
import json
import logging
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml
from conftest import ROOT
from maieutic.config.models import HostedModel
from maieutic.core import paths, run_files
from maieutic.core.errors import UserError
from maieutic.plan import cluster, images, preflight, provenance, run_hooks, run_messages
from maieutic.plan.rules import RulePlan, plan_of
from maieutic.serving.budget import BUDGET_VARIABLE, Allowance
from maieutic.serving.run_environment import RUN_VARIABLE, SnakemakeRun
from rich.console import Console
from rich.progress import Progress
from run_configs import many_judges

SERVED = {
    "engine": "vllm", "weights": {"repo": "org/model", "revision": "0" * 40},
    "needs": {"gpus": 2, "cpus": 6, "mem_mb": 900, "runtime": 50},
}  # fmt: skip


def made(**changed: Any) -> RulePlan:
    config = many_judges()
    config["models"]["served"] = SERVED
    config["run"]["tutors"] = ["served", *config["run"]["tutors"]]
    config["interpreters"] = {"serve": "/opt/serve/python"}
    for key, value in changed.items():
        config[key] = {**config.get(key, {}), **value}
    return plan_of(config)


@pytest.fixture(scope="module")
def plan() -> RulePlan:
    return made()


def workflow(methods: tuple[str, ...] = (), defaults: dict[str, str] | None = None, **more: Any) -> Any:
    """As much of Snakemake's workflow as is asked."""
    deployed = [SimpleNamespace(name=name) for name in methods]
    raw = None if defaults is None else {name: SimpleNamespace(raw=value) for name, value in defaults.items()}
    return SimpleNamespace(
        deployment_settings=SimpleNamespace(deployment_method=deployed),
        resource_settings=SimpleNamespace(default_resources=raw), global_resources={}, **more,
    )  # fmt: skip


def job(rule: str = "generate_replies", wildcards: dict[str, str] | None = None, **resources: Any) -> Any:
    """As much of a planned job."""
    return SimpleNamespace(
        rule=SimpleNamespace(name=rule), wildcards=wildcards or {}, resources=resources, output=[], input=[],
        is_local=False, log=[], container_img=None, container_img_url=None, container_img_path=None,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("methods", "inside"),
    [((), False), (("CONDA",), False), (("APPTAINER",), True), (("CONDA", "APPTAINER"), True), (("apptainer",), False)],
)
def test_an_image_has_a_python_of_its_own_and_shares_no_server(
    methods: tuple[str, ...], inside: bool, plan: RulePlan
) -> None:
    flow = workflow(methods)
    assert run_hooks.uses_containers(flow) is inside
    assert run_hooks.interpreter(plan, flow, "serve") == ("python3" if inside else "/opt/serve/python")
    assert run_hooks.interpreter(plan, flow, "driver") == ("python3" if inside else sys.executable), "none is named"
    [(name, value)] = run_hooks.shared_servers_variable(plan, flow).items()
    shared = SnakemakeRun.of({name: value})
    assert name == RUN_VARIABLE and (shared is None) is inside is (value == "")
    if shared is not None:
        assert (shared.pid, shared.linger) == (os.getpid(), plan.config.servers.linger)


def test_jobs_are_told_the_budget_by_judge_and_price(plan: RulePlan) -> None:
    assert run_hooks.budget_variable(plan) == {BUDGET_VARIABLE: ""}, "a run without one"
    limited = made(run={**many_judges()["run"], "budget": {"requests": 50}})
    allowance = Allowance.model_validate_json(run_hooks.budget_variable(limited)[BUDGET_VARIABLE])
    assert allowance.budget.requests == 50 and allowance.budget_file == Path(paths.RUN_SPENDING)
    assert allowance.models["one"] == "near" and allowance.models["two"] == "far" and "served" not in allowance.models
    prices = {name: (price.input, price.output) for name, price in allowance.prices.items()}
    assert prices["far"] == (1, 2) and "near" not in prices and "served" not in prices


@pytest.mark.parametrize(
    ("defaults", "gres"),
    [(None, None), ({}, None), ({"mem_mb": "1"}, None), ({"gpu_gres": "'gpu:a100'"}, "gpu:a100"), ({"gpu_gres": '"gpu"'}, "gpu"), ({"gpu_gres": "XgpuX"}, "XgpuX")],
)  # fmt: skip
def test_gpus_are_asked_for_as_the_profile_says(
    defaults: dict[str, str] | None, gres: str | None, plan: RulePlan
) -> None:
    flow = workflow(defaults=defaults)
    assert run_hooks.gpu_gres(flow) == gres
    asked = run_hooks.model_resources(plan, flow)
    assert set(asked) == {"mem_mb", "runtime", "gpu", "gres", "server_gpus", "nodes"} and asked["nodes"] == 1
    served, hosted = {"benchmark": "mrbench", "tutor": "served"}, {"benchmark": "mrbench", "tutor": "far"}
    assert [asked["mem_mb"](served, attempt) for attempt in (1, 2)] == [900, 1800]
    assert [asked["runtime"](served, attempt) for attempt in (1, 3)] == [50, 150]
    assert (asked["gpu"](served), asked["gpu"](hosted)) == (0 if gres else 2, 0)
    assert (asked["gres"](served), asked["gres"](hosted)) == (f"{gres}:2" if gres else "", "")
    assert (asked["server_gpus"](served), asked["server_gpus"](hosted)) == (2, 0)


def test_weights_that_are_only_fetched_need_the_serving_environment_too(
    plan: RulePlan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`snakemake fetch` on a login node: said before anything is downloaded."""
    into_a_checkout(tmp_path, monkeypatch)
    checked = Checked(monkeypatch)
    run_hooks.start_run(plan, starting([job("prepare_weights", {"model": "served"}), job("fetch")]))
    [(_, _, models, _)] = [told for name, told in checked.told if name == "check_run"]
    assert models == ["served"]
    monkeypatch.undo()
    with pytest.raises(
        UserError, match=r"^interpreters.serve: /nowhere/python does not exist, and served needs it. Fix: run `make"
    ):
        preflight.check_run(plan.config, "/nowhere/python", ["served"], set())


def test_jobs_know_the_run_files_as_they_can_be_typed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Below the working folder by their paths from there; quoted; none where none was named."""
    monkeypatch.chdir(tmp_path)
    files = [tmp_path / "my run.yaml", Path("/elsewhere/b.yaml")]
    variables = run_hooks.run_files_variable(SimpleNamespace(overwrite_configfiles=files))
    assert variables == {"MAIEUTIC_RUN_FILES": "'my run.yaml' /elsewhere/b.yaml"}
    monkeypatch.delenv("MAIEUTIC_RUN_FILES", raising=False)
    assert run_files.with_run_files("maieutic items") == "maieutic items --configfile my.yaml"
    monkeypatch.setenv("MAIEUTIC_RUN_FILES", variables["MAIEUTIC_RUN_FILES"])
    assert run_files.with_run_files("snakemake --cores 1 fetch").endswith(
        "--configfile 'my run.yaml' /elsewhere/b.yaml"
    )


def test_who_is_asked_is_told_by_the_jobs_that_ask(plan: RulePlan) -> None:
    tutor = {"benchmark": "mrbench", "tutor": "served"}
    planned = [
        job("generate_replies", tutor, server_gpus=2), job("generate_replies", tutor, server_gpus=2),
        job("judge_replies", {"judge": "one", "benchmark": "mrbench", "batch": "far"}, server_gpus=0),
        job("parse_replies", {"benchmark": "mrbench", "tutor": "far"}), job("all"),
    ]  # fmt: skip
    assert run_hooks.called_models(plan, planned) == ["near", "served"], "a judge by the one that answers for it"
    assert run_hooks.called_models(plan, []) == []


def test_images_are_those_of_planned_jobs(plan: RulePlan) -> None:
    url = plan.config.containers.serve

    def inside(url: str | None) -> Any:
        one = job()
        one.container_img, one.container_img_url, one.container_img_path = url and object(), url, url and f"/sif/{url}"
        return one

    assert run_hooks.used_images(plan, [inside(url), inside(None), inside(url)]) == {"serve": (url, f"/sif/{url}")}
    assert run_hooks.used_images(plan, [inside(None), inside("docker://another")]) == {}


@pytest.mark.parametrize(
    ("resources", "partition"),
    [
        ({}, None), ({"slurm_partition": "gpu"}, "gpu"), ({"slurm_partition": "gpu", "cluster": "b"}, None),
        ({"slurm_partition": "gpu", "clusters": "b"}, None), ({"slurm_partition": "gpu", "slurm_cluster": "b"}, None),
        ({"slurm_partition": ""}, None), ({"slurm_partition": 7}, "7"),
    ],
)  # fmt: skip
def test_what_slurm_is_asked_for_a_job(resources: dict[str, Any], partition: str | None, plan: RulePlan) -> None:
    one = job("generate_replies", {"benchmark": "mrbench", "tutor": "served"}, runtime=50, **resources)
    assert run_hooks.slurm_request(plan, one) == ("served", 2, 50, partition, "generate_replies")
    del one.resources["runtime"]
    assert run_hooks.slurm_request(plan, one).minutes == 0


def test_a_job_of_several_models_is_asked_for_under_all_their_names(
    plan: RulePlan, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(RulePlan, "models_of", lambda plan, wildcards: ["one", "other"])
    monkeypatch.setattr(RulePlan, "needs", lambda plan, wildcards: plan.models["served"].needs)
    asked = run_hooks.slurm_request(plan, job("write_flows"))
    assert (asked.model, asked.gpus, asked.step) == ("one, other", 2, "write_flows")


@pytest.mark.parametrize(
    ("totals", "expected"), [({}, None), ({"mem_mb": 5}, None), ({"gpu": 4}, 4), ({"server_gpus": 3}, 3), ({"gpu": 2, "server_gpus": 3}, 2)]
)  # fmt: skip
def test_the_gpus_of_all_jobs_together(totals: dict[str, int], expected: int | None) -> None:
    flow = workflow()
    flow.global_resources = {name: SimpleNamespace(value=value) for name, value in totals.items()}
    assert run_hooks.gpu_total(flow) == expected


def into_a_checkout(folder: Path, patch: pytest.MonkeyPatch) -> None:
    """Go where nothing was run yet."""
    for name in ("resources", "config"):
        (folder / name).symlink_to(ROOT / name)
    patch.chdir(folder)


class Checked:
    """Notes what each check is told, instead of the check: each one is tested where it is."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.told: list[tuple[str, tuple[Any, ...]]] = []
        places = ((images, "check_images"), (cluster, "check_gpus"), (cluster, "check_slurm"), (preflight, "check_run"))
        for module, name in places:
            patch.setattr(module, name, self.noting(name))

    def noting(self, name: str) -> Callable[..., None]:
        return lambda *arguments: self.told.append((name, arguments))


def starting(jobs: list[Any], executor: str = "local", methods: tuple[str, ...] = (), **totals: int) -> Any:
    flow = workflow(
        methods, dag=SimpleNamespace(needrun_jobs=lambda: iter(jobs)), executor_plugin=SimpleNamespace(name=executor),
        executor_settings=SimpleNamespace(status_command="sacct"),
        logger_manager=SimpleNamespace(get_log_handlers=lambda: []),
    )  # fmt: skip
    flow.global_resources = {name: SimpleNamespace(value=value) for name, value in totals.items()}
    return flow


def test_a_run_is_checked_and_saved_before_its_first_job(
    plan: RulePlan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    into_a_checkout(tmp_path, monkeypatch)
    checked = Checked(monkeypatch)
    to_be_asked = lambda given, jobs: {"served"} if given is plan and len(jobs) == 2 else set()  # noqa: E731
    monkeypatch.setattr(run_messages, "models_to_call", to_be_asked)
    (tmp_path / paths.RUN_SPENDING).parent.mkdir(parents=True)
    (tmp_path / paths.RUN_SPENDING).write_text("spent by an earlier run")
    one = job("generate_replies", {"benchmark": "mrbench", "tutor": "served"}, server_gpus=2, runtime=9)
    run_hooks.start_run(plan, starting([one, job("all")], gpu=4))
    assert checked.told == [
        ("check_gpus", (plan.config, ["served"], 4)),
        ("check_run", (plan.config, "/opt/serve/python", ["served"], {"served"})),
    ]
    assert not Path(paths.RUN_SPENDING).exists() and capsys.readouterr().err == ""
    saved = yaml.safe_load(Path(paths.RUN_CONFIG).read_text(encoding="utf-8"))
    assert saved["run"]["tutors"] == plan.run.tutors
    assert {"machine", "code"} <= set(json.loads(Path(paths.RUN_PROVENANCE).read_text(encoding="utf-8")))
    # On a cluster, in images: each is checked too, but for what runs on the login node.
    checked.told.clear()
    local = job("judge_replies", {"judge": "one", "benchmark": "mrbench", "batch": "far"}, server_gpus=0)
    local.is_local = True
    run_hooks.start_run(plan, starting([one, local], "slurm", ("APPTAINER",)))
    assert [name for name, _ in checked.told] == ["check_images", "check_gpus", "check_slurm", "check_run"]
    told = dict(checked.told)
    assert told["check_images"] == ({},)
    assert told["check_gpus"] == (plan.config, ["near", "served"], None)
    assert told["check_slurm"] == ([("served", 2, 9, None, "generate_replies")], "sacct")
    assert told["check_run"][1] == "python3"


def test_a_page_of_other_settings_is_named_before_it_is_written_anew(
    plan: RulePlan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    into_a_checkout(tmp_path, monkeypatch)
    Checked(monkeypatch)
    saved = tmp_path / "results/runs/x/config.yaml"
    assert run_hooks.overwrite_warning(saved, {"limit": 8}) is None, "there is no other page"
    saved.parent.mkdir(parents=True)
    for before, line in (
        ({"limit": 8, "tutors": ["a"]}, None),
        ({"limit": 5, "tutors": ["a"]}, "run.limit"),
        ({"tutors": ["b"], "seed": 3}, "run.limit, run.seed, run.tutors"),
    ):
        saved.write_text(yaml.safe_dump({"run": before}), encoding="utf-8")
        told = run_hooks.overwrite_warning(saved, {"limit": 8, "tutors": ["a"]})
        problem = f"contains the page of a run with other settings ({line}), which this run overwrites"
        assert told == (line and f"{saved.parent} {problem}. Fix: set run.name to keep both")
    own = tmp_path / plan.run_path(paths.CONFIG)
    own.parent.mkdir(parents=True, exist_ok=True)
    own.write_text("run: {tutors: [b]}", encoding="utf-8")
    monkeypatch.setattr(run_messages, "models_to_call", lambda plan, jobs: set())
    run_hooks.start_run(plan, starting([]))
    assert "run.tutors" in capsys.readouterr().err
    own.write_text("run: [", encoding="utf-8")
    with pytest.raises(UserError, match="delete it: the next run rewrites it"):
        run_hooks.start_run(plan, starting([]))


def test_bars_say_how_long_a_stage_goes_on() -> None:
    clock = [0.0]
    progress = Progress(console=Console(file=io.StringIO(), width=100), get_time=lambda: clock[0])
    handlers = [SimpleNamespace(), SimpleNamespace(progress=progress)]
    run_hooks.add_time_left(SimpleNamespace(logger_manager=SimpleNamespace(get_log_handlers=lambda: handlers)))
    column = progress.columns[-1]
    columns = len(progress.columns)

    def left(total: int | None, completed: int, began: bool = True) -> str:
        """What stands there half a minute after a stage began."""
        stage = progress.add_task("stage", total=total, start=began)
        progress.update(stage, completed=completed)
        clock[0] += 30
        return str(column.render(progress.tasks[-1]))

    assert (left(4, 1), left(4, 2)) == ("1:30 left", "0:30 left"), "one of four jobs took half a minute"
    assert column.render(progress.tasks[-1]).style == "dim"
    assert left(None, 1) == left(4, 0) == left(4, 4) == left(4, 1, began=False) == ""
    run_hooks.add_time_left(
        SimpleNamespace(logger_manager=SimpleNamespace(get_log_handlers=lambda: [SimpleNamespace()]))
    )
    assert len(progress.columns) == columns


def test_a_failed_job_s_command_and_log_are_not_shown_again() -> None:
    """The terminal's logger leaves them out; any other handler, and any other error, stays as it is."""
    handler: Any = logging.Handler()
    handler.event_handler = SimpleNamespace(jobs_info={3: {"log": ["a.log"]}, 4: {"log": ["b.log"]}})
    other = logging.Handler()
    manager = SimpleNamespace(get_log_handlers=lambda: [handler, other])
    run_hooks.filter_repeated_failures(SimpleNamespace(logger_manager=manager))

    def record(message: str, **fields: Any) -> logging.LogRecord:
        made = logging.LogRecord("snakemake", logging.ERROR, "", 0, message, None, None)
        made.__dict__.update(fields)
        return made

    command = record("Command 'set ...' returned non-zero exit status 2.", event="error")
    assert not handler.filter(command) and other.filter(command)
    assert handler.filter(record("WorkflowError: no rule", event="error"))
    assert handler.filter(record("Failed", event="job_error", jobid=3))
    assert handler.event_handler.jobs_info == {3: {"log": []}, 4: {"log": ["b.log"]}}
    assert handler.filter(record("Failed", event="job_error", jobid=9)) and handler.filter(record("hello"))


SAYING = """
import sys
from types import SimpleNamespace
from maieutic.plan import run_hooks, run_messages
kind = sys.argv[1]
run_messages.planned_requests = lambda plan, jobs: [plan, *jobs] if kind != "fails" else 1 / 0
run_messages.requests_line = lambda plan, asked: f"new requests: {asked}"
dag = SimpleNamespace(needrun_jobs=lambda exclude_finished: ["b", exclude_finished])
flow = {"none": SimpleNamespace(dryrun=True), "early": SimpleNamespace(dryrun=True, _dag=None)}
run_hooks.print_requests_after_dry_run("a", flow.get(kind, SimpleNamespace(dryrun=kind != "runs", _dag=dag)))
print("before")
"""


@pytest.mark.parametrize(
    ("kind", "line"),
    [
        ("dry", "new requests: ['a', 'b', False]"), ("runs", None), ("none", None), ("early", None),
        ("fails", "new requests: not counted (ZeroDivisionError: division by zero)"),
    ],
)  # fmt: skip
def test_a_dry_run_says_at_its_end_what_it_would_ask(kind: str, line: str | None) -> None:
    done = subprocess.run(
        [sys.executable, "-c", SAYING, kind],
        env={**os.environ, "PYTHONPATH": "workflow"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0 and done.stdout.splitlines() == ["before", *([line] if line else [])], done.stderr


def test_a_runs_last_lines_name_failed_jobs_in_order(
    plan: RulePlan, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    told: list[Any] = []
    monkeypatch.setattr(run_messages, "last_lines", lambda *arguments: told.append(arguments) or ["one", "two"])
    failed = [job("b", {"x": "1"}), job("a", {"x": "2"}), job("a", {"x": "1"})]
    run_hooks.end_run(plan, SimpleNamespace(scheduler=SimpleNamespace(failed=failed)), "page")
    [(of, jobs, since, seconds, page)] = told
    assert [(one.rule.name, one.wildcards["x"]) for one in jobs] == [("a", "1"), ("a", "2"), ("b", "1")]
    assert (of, since, seconds, page) == (plan, run_hooks.STARTED_AT, run_hooks.STARTED_AT_SECONDS, "page")
    assert capsys.readouterr().err == "one\ntwo\n"
    run_hooks.end_run(plan, SimpleNamespace(scheduler=None), None)
    assert list(told[1][1]) == [], "a run that never began"


def test_a_failed_run_writes_a_partial_page_beside_the_final_one(plan: RulePlan) -> None:
    flow = SimpleNamespace(dag=SimpleNamespace(needrun_jobs=lambda: [job("all"), job("build_report")]))
    line = run_hooks.partial_report_command(plan, flow)
    assert line is not None
    words = line.split()
    options = dict(zip(words[3:13:2], words[4:14:2], strict=True))
    assert words[:3] == ["-m", "maieutic", "build-report"]
    assert options == {
        "--config": paths.RUN_CONFIG, "--provenance": paths.RUN_PROVENANCE, "--results": paths.ROOT,
        "--out": plan.run_path(paths.PARTIAL_REPORT), "--missing-ok": "--log",
    }  # fmt: skip
    assert words[13].endswith("build_report.partial.log") and line.endswith("/index.html' >&2 || true")
    flow.dag.needrun_jobs = lambda: [job("all")]
    assert run_hooks.partial_report_command(plan, flow) is None, "the report is there"


def test_a_dry_run_ends_with_what_it_would_ask(
    plan: RulePlan, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """At the process's end, of a dry run alone; a fault of it is one line."""
    registered: list[Callable[[], None]] = []
    monkeypatch.setattr(run_hooks.atexit, "register", registered.append)
    asked = [job("generate_replies", {"benchmark": "mrbench", "tutor": "far"}), job("all")]

    class Dag:
        def needrun_jobs(self, exclude_finished: bool = True) -> Any:
            return iter([] if exclude_finished else asked)

    def said(flow: Any) -> str:
        run_hooks.print_requests_after_dry_run(plan, flow)
        assert capsys.readouterr().out == "", "not before"
        registered.pop()()
        assert registered == []
        return capsys.readouterr().out

    monkeypatch.setattr(run_messages, "planned_requests", lambda plan, jobs: [plan, jobs])
    monkeypatch.setattr(
        run_messages, "requests_line", lambda plan, counted: f"new requests: {counted == [plan, asked]}"
    )
    assert said(SimpleNamespace(_dag=Dag(), dryrun=True)) == "new requests: True\n"
    assert said(SimpleNamespace(_dag=Dag(), dryrun=False)) == said(SimpleNamespace(dryrun=True)) == ""
    assert said(SimpleNamespace(_dag=None, dryrun=True)) == ""

    def fails(plan: RulePlan, jobs: Any) -> Any:
        raise KeyError("far")

    monkeypatch.setattr(run_messages, "planned_requests", fails)
    assert said(SimpleNamespace(_dag=Dag(), dryrun=True)) == "new requests: not counted (KeyError: 'far')\n"


@pytest.mark.parametrize(
    ("ends", "said"),
    [
        (subprocess.CompletedProcess([], 0, "abc\n"), "abc\n"), (subprocess.CompletedProcess([], 1, "abc\n"), None),
        (FileNotFoundError("git"), None), (subprocess.TimeoutExpired("git", 60), None),
    ],
)  # fmt: skip
def test_git_is_asked_for_a_minute_and_may_be_absent(
    ends: Any, said: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Any] = []

    def run(line: list[str], **options: Any) -> Any:
        asked.append((line, options))
        if isinstance(ends, Exception):
            raise ends
        return ends

    monkeypatch.setattr(subprocess, "run", run)
    assert provenance.git_output("rev-parse", "HEAD") == said
    told = {"capture_output": True, "text": True, "check": False, "timeout": 60}
    assert asked == [(["git", "rev-parse", "HEAD"], told)]


@pytest.mark.parametrize("lacking", ["top", "commit", "both", "elsewhere", "none"])
def test_the_state_of_the_code_is_that_of_its_own_checkout(lacking: str, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[str, ...]] = []

    def git(*words: str, folder: Path = Path()) -> str | None:
        asked.append(words)
        if words[0] == "status":
            return " M workflow/a.py\n?? workflow/b c.py\n"
        if words[1] == "--show-toplevel":
            return None if lacking in {"top", "both"} else f"{'/elsewhere' if lacking == 'elsewhere' else Path.cwd()}\n"
        return None if lacking in {"commit", "both"} else "c" * 40 + "\n"

    monkeypatch.setattr(provenance, "git_output", git)
    state = provenance.code_state()
    if lacking != "none":
        assert state == provenance.CodeState(commit=None)
        return
    assert state == provenance.CodeState(commit="c" * 40, edited=["workflow/a.py", "workflow/b c.py"], n_edited=2)
    assert asked[-1] == ("status", "--porcelain", "--", *provenance.PATHS_BEHIND_NUMBERS)
    monkeypatch.setattr(provenance, "git_output", lambda *words, **_: None if words[0] == "status" else git(*words))
    assert provenance.code_state().edited == [], "git that cannot say it"


@pytest.mark.parametrize("named", ["apptainer", "singularity"])
def test_an_image_is_read_by_whichever_of_its_two_names_there_is(
    named: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    asked: list[Any] = []
    labels = {"data": {"attributes": {"labels": {images.LOCK_LABEL: "hash"}}}}

    def run(line: list[str], **options: Any) -> Any:
        asked.append((line, options))
        return subprocess.CompletedProcess(line, 0, json.dumps(labels), "")

    monkeypatch.setattr(images.shutil, "which", lambda name: f"/bin/{name}" if name == named else None)
    monkeypatch.setattr(images.subprocess, "run", run)
    assert images.lock_of_image("x.sif") == "hash"
    line = [f"/bin/{named}", "inspect", "--labels", "--json", "x.sif"]
    assert asked == [(line, {"capture_output": True, "text": True, "timeout": images.SECONDS, "check": False})]
    for said, told in (("y" * 300, "y" * 200), ("one\n  two \n\n", "two"), ("", "no message")):
        failed = subprocess.CompletedProcess([], 1, "", said)
        monkeypatch.setattr(images.subprocess, "run", lambda line, failed=failed, **options: failed)
        with pytest.raises(UserError) as fault:
            images.lock_of_image("x.sif")
        assert fault.value.line == f"x.sif: apptainer cannot read it: {told}. Fix: build the image again"


@pytest.mark.parametrize(
    ("base_url", "asked", "headers"),
    [
        ("http://127.0.0.1:9/v1", "http://127.0.0.1:9/v1/models", {"Authorization": "Bearer s3cret"}),
        ("http://127.0.0.1:9/vX//", "http://127.0.0.1:9/vX/models", {"Authorization": "Bearer s3cret"}),
        ("https://api.anthropic.com/v1/", "https://api.anthropic.com/v1/models",
         {"x-api-key": "s3cret", "anthropic-version": "2023-06-01"}),
    ],
)  # fmt: skip
def test_an_endpoint_is_asked_once_for_its_models(
    base_url: str, asked: str, headers: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Within a limit of time, by its own headers, and nowhere else: a redirect would take the key along."""
    import requests

    seen: list[Any] = []

    def get(address: str, **options: Any) -> Any:
        seen.append((address, options))
        return SimpleNamespace(status_code=404)

    monkeypatch.setenv("FAR_KEY", "s3cret")
    monkeypatch.setattr(requests, "get", get)
    model = HostedModel.model_validate({"engine": "hosted", "base_url": base_url, "model": "m", "key_env": "FAR_KEY"})
    preflight.list_endpoint_models("far", model)
    assert seen == [(asked, {"headers": headers, "timeout": preflight.ENDPOINT_SECONDS, "allow_redirects": False})]


HOLDING = """
import sys
from pathlib import Path
from maieutic.plan.run_hooks import lock_results
lock_results(Path("results/.run.lock"))
print("held", flush=True)
sys.stdin.read()
"""


def test_a_run_of_another_checkout_on_the_same_results_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two checkouts share their results by a link: Snakemake's own lock lies in each of them."""
    own, other, shared = (tmp_path / name for name in ("own", "other", "shared"))
    for folder in (own, other, shared):
        folder.mkdir()
    for folder in (own, other):
        (folder / "results").symlink_to(shared)
    env = {**os.environ, "PYTHONPATH": str(ROOT / "workflow")}
    with subprocess.Popen(
        [sys.executable, "-c", HOLDING], cwd=other, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as holder:
        assert holder.stdout and holder.stdout.readline() == "held\n"
        monkeypatch.chdir(own)
        with pytest.raises(
            UserError,
            match=rf"{shared}: a run of another checkout uses these results \(host .* pid {holder.pid}, in {other}\)",
        ):
            run_hooks.lock_results()
        monkeypatch.chdir(other)
        run_hooks.lock_results()  # of one checkout Snakemake's lock decides
        holder.kill()
        holder.wait()
        monkeypatch.chdir(own)
        run_hooks.lock_results()
    assert f" in {own}" in (shared / ".run.lock").read_text() and run_hooks.LOCK_FILES
    run_hooks.LOCK_FILES.pop().close()
