"""Tests of `init`, `estimate`, `doctor` and `runs`: the commands that a person runs before and after a run."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import shutil
import subprocess
import sys
import time
from datetime import datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml
from conftest import ROOT, enter_checkout
from httpserver import scripted, serving
from maieutic.benchmarks import BENCHMARKS
from maieutic.config.models import HostedModel, VllmModel
from maieutic.core import paths
from maieutic.core.errors import UserError
from maieutic.launch import runs
from maieutic.launch.config_files import merged_configuration
from maieutic.launch.lengths import known
from maieutic.launch.requests import NewRequests
from maieutic.launch.serving_time import parameter_count
from maieutic.run_plan import plan_before_pins, plan_of
from maieutic.tools import doctor, estimate, new_run
from maieutic.tools.new_run import RunFileChoices, known_entry, providers


def init(out: Path, **flags: Any) -> None:
    """Run the command with its flags."""
    hosted = {name: flags.pop(name) for name in ("address", "model", "key_env", "provider") if name in flags}
    new_run.init(out, hosted=new_run.Hosted(**hosted), **flags)


def write_run_file(out: Path, **flags: Any) -> dict[str, Any]:
    """Run `init`, and return the content of the run file."""
    init(out, **flags)
    content: dict[str, Any] = yaml.safe_load(out.read_text(encoding="utf-8"))
    return content


def test_init_writes_a_file_that_a_run_takes(tmp_path: Path) -> None:
    out = tmp_path / "my.yaml"
    content = write_run_file(
        out, tutors=["gpt-4o"], benchmarks=["mathtutorbench", "mrbench"], judge="gpt-4o", limit=5, name="a"
    )
    assert content["run"] == {
        "name": "a", "tutors": ["gpt-4o"], "tasks": ["mathtutorbench", "mrbench"], "limit": 5,
        "judges": ["gpt-4o-judge"],
    }  # fmt: skip
    assert content["models"]["gpt-4o-judge"] == {
        "engine": "judge", "model": "gpt-4o", "rubrics": ["mrbench_taxonomy"], "label_limit": 200,
    }  # fmt: skip
    plan = plan_of(merged_configuration([out]))
    assert plan.judged_benchmarks("gpt-4o-judge") == ["mrbench"] and plan.run.name == "a"


def test_init_names_the_tasks_that_stay_empty(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_run_file(tmp_path / "a.yaml", tutors=["gpt-4o"], benchmarks=["mathtutorbench", "mrbench"])
    lines = [line for line in capsys.readouterr().out.splitlines() if "stay empty" in line]
    assert [line.partition(": ")[0] for line in lines] == [
        "without a reward model these tasks stay empty", "without a judge these tasks stay empty",
    ]  # fmt: skip
    assert "mathtutorbench/scaffolding_generation" in lines[0] and lines[0].endswith("if their values are needed")
    assert "mrbench/mistake_remediation" in lines[1] and "run.judges" in lines[1]


def test_init_offers_both_published_protocols(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """MathTutorBench's released code asks with or without a chat template; the hosted tutor has one only."""
    flags = {"tutors": ["llama-3.2-3b", "gpt-4o-mini"], "benchmarks": ["mathtutorbench"]}
    write_run_file(tmp_path / "one.yaml", **flags)
    assert "one of two published protocols: llama-3.2-3b (--chat-too: by both)" in capsys.readouterr().out
    write_run_file(tmp_path / "both.yaml", **flags, chat_too=True)
    both = yaml.safe_load((tmp_path / "both.yaml").read_text())
    assert both["run"]["tutors"] == ["llama-3.2-3b", "gpt-4o-mini", "llama-3.2-3b-chat"]
    entry = both["models"]["llama-3.2-3b-chat"]
    assert (entry["endpoint"], entry["label"]) == ("chat", "LLaMA3.2-3B-Instruct, chat")
    assert "two published protocols" not in capsys.readouterr().out
    write_run_file(tmp_path / "other.yaml", **{**flags, "benchmarks": ["mrbench"]})
    assert "two published protocols" not in capsys.readouterr().out


def test_init_takes_a_model_that_the_registry_lacks(tmp_path: Path) -> None:
    address = {"address": "http://127.0.0.1:1/v1", "model": "org/$(touch x) ü:8b", "key_env": "MY_KEY"}
    content = write_run_file(tmp_path / "a.yaml", benchmarks=["mrbench"], **address)
    [(name, entry)] = content["models"].items()
    assert name == "--touch-x-----8b".lstrip("-") or name == "my-model"
    assert entry == {
        "engine": "hosted", "base_url": address["address"], "model": address["model"], "endpoint": "chat",
        "key_env": "MY_KEY",
    }  # fmt: skip
    assert content["run"] == {"tutors": [name], "tasks": ["mrbench"]}
    plan_of(merged_configuration([tmp_path / "a.yaml"]))


@pytest.mark.parametrize(("flags", "place", "problem"), [
    ({"benchmarks": ["kmpbench"]}, "--tutors", r"expected a model, found none.*pass --tutors NAME, or --address, --model and"),
    ({"tutors": ["gpt-4o"]}, "--benchmarks", r"expected a benchmark, found none.*pass one or more of mathtutorbench, "),
    ({"tutors": ["gpt-4o"], "benchmarks": ["mrbensh"]}, "--benchmarks", "'mrbensh' is not in"),
    ({"tutors": ["gpt-4"], "benchmarks": ["mrbench"], "judge": "gpt4"}, "--judge", "'gpt4' is not in"),
    ({"tutors": ["gpt-5o"], "benchmarks": ["mrbench"]}, "run.tutors[0]", "'gpt-5o' is not in"),
    ({"benchmarks": ["mrbench"], "address": "http://127.0.0.1/v1"}, "--address, --model", "expected both flags, found one"),
    ({"tutors": ["gpt-4o"], "benchmarks": ["mrbench"], "name": "../x"}, "run.name.'../x'", "expected a name of"),
    ({"tutors": ["gpt-4o"], "benchmarks": ["mrbench"], "name": "a b"}, "run.name.'a b'", "expected a name of"),
])  # fmt: skip
def test_init_refuses_what_a_run_would(flags: dict[str, Any], place: str, problem: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=problem) as fault:
        init(tmp_path / "my.yaml", **flags)
    assert fault.value.place == place
    assert not (tmp_path / "my.yaml").exists()


def test_init_writes_over_nothing(tmp_path: Path) -> None:
    out = tmp_path / "my.yaml"
    out.write_text("mine", encoding="utf-8")
    with pytest.raises(UserError, match=r"my\.yaml: the file already exists.*pass another path, or --force"):
        new_run.init(out, tutors=["gpt-4o"], benchmarks=["mrbench"])
    assert out.read_text(encoding="utf-8") == "mine"
    assert write_run_file(out, tutors=["gpt-4o"], benchmarks=["mrbench"], force=True)["run"]["tutors"] == ["gpt-4o"]


def test_init_asks_only_on_a_terminal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a terminal, `init` asks for missing choices and offers models that can be tutors; elsewhere it refuses."""
    offered = []

    def answer(choices: RunFileChoices, known: list[str]) -> RunFileChoices:
        offered.extend(known)
        return choices._replace(tutors=["gpt-4o"], benchmarks=["mrbench"], limit=3)

    monkeypatch.setattr(new_run, "ask_missing_choices", answer)
    monkeypatch.setattr(sys.stdin, "isatty", lambda: True, raising=False)
    assert write_run_file(tmp_path / "a.yaml", name="n")["run"] == {
        "name": "n", "tutors": ["gpt-4o"], "tasks": ["mrbench"], "limit": 3,
    }  # fmt: skip
    models = merged_configuration([])["models"]
    assert offered == [name for name in models if models[name]["engine"] in {"vllm", "hosted", "recorded"}]
    assert 0 < len(offered) < len(models)


@pytest.mark.slow
def test_init_asks_in_a_pseudo_terminal(tmp_path: Path) -> None:
    out = tmp_path / "my.yaml"
    answers = ["n", "gpt-4o llama-9", "gpt-4o", "mrbench", "7", "trial", "gpt-4o"]
    master, slave = pty.openpty()
    line = [sys.executable, "-m", "maieutic", "init", str(out)]
    env = {**os.environ, "PYTHONPATH": str(ROOT / "workflow"), "TERM": "dumb"}
    with subprocess.Popen(line, stdin=slave, stdout=slave, stderr=slave, env=env, close_fds=True) as process:
        os.close(slave)
        output, end = b"", time.monotonic() + 60
        while process.poll() is None and time.monotonic() < end:
            if select.select([master], [], [], 0.2)[0]:
                try:
                    output += os.read(master, 65536)
                except OSError:  # the process has closed its side
                    break
            elif answers and output.rstrip().endswith((b":", b"?")):
                os.write(master, answers.pop(0).encode() + b"\n")
        process.wait(30)
    assert process.returncode == 0 and not answers, output.decode()
    assert "unknown: llama-9" in output.decode()
    run = yaml.safe_load(out.read_text(encoding="utf-8"))["run"]
    assert (run["tutors"], run["tasks"], run["limit"], run["name"]) == (["gpt-4o"], ["mrbench"], 7, "trial")


@pytest.mark.parametrize("provider", sorted(providers()))
def test_init_writes_an_entry_of_a_known_provider_with_its_sources(
    provider: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """For each family of models and each price, the entry is valid and has the pages that it was read from."""
    known, out = providers()[provider], tmp_path / "one.yaml"
    patterns = [*known.prices, *(name for family in known.models for name in family.names)]
    for model in (pattern.replace("*", "-x") if pattern != "*" else "another" for pattern in patterns):
        entry = HostedModel.model_validate(new_run.Hosted(provider=provider, model=model).entry)  # type: ignore[arg-type]
        assert entry.base_url == known.base_url and entry.key_env == known.key_env
        sources = known_entry(known, model).sources
        assert any(f"read {known.read}, not run here" in line and "https://" in line for line in sources)
        assert any(known.priced_at in line for line in sources) == (entry.price is not None)
    content = write_run_file(out, provider=provider, model=model, benchmarks=["mrbench"], judge=model, limit=3)
    [name] = content["run"]["tutors"]
    assert content["run"]["judges"] == [f"{name}-judge"] and content["models"][f"{name}-judge"]["model"] == name
    assert all(f"# {name}: {line}" in out.read_text(encoding="utf-8") for line in sources)
    output = capsys.readouterr().out
    assert f"new requests: {name} " in output and ("USD" in output if entry.price else f"no price for {name}" in output)
    assert plan_of(merged_configuration([out])).run.judges == [f"{name}-judge"]


def test_thinking_models_get_more_tokens_and_no_temperature() -> None:
    for provider, model in (("openai", "gpt-5.5"), ("openai", "o3"), ("anthropic", "claude-opus-5-5")):
        entry = HostedModel.model_validate(new_run.Hosted(provider=provider, model=model).entry)  # type: ignore[arg-type]
        assert "temperature" in entry.omit and entry.token_limit(512) > 4096
    assert HostedModel.model_validate(new_run.Hosted(provider="openai", model="gpt-4o").entry).token_limit(512) == 512


def test_a_name_of_the_registry_is_not_reused_for_a_new_entry(tmp_path: Path) -> None:
    """The registry's label, paper and rubrics belong to another entry."""
    content = write_run_file(
        tmp_path / "x.yaml", provider="openai", model="gpt-4o-mini", benchmarks=["mrbench"], judge="gpt-4o-mini"
    )
    assert content["run"]["tutors"] == ["gpt-4o-mini-2"] and content["run"]["judges"] == ["gpt-4o-mini-2-judge"]
    assert content["models"]["gpt-4o-mini-2-judge"]["model"] == "gpt-4o-mini-2"
    plan = plan_of(merged_configuration([tmp_path / "x.yaml"]))
    assert plan.models["gpt-4o-mini-2"].label is None and plan.models["gpt-4o-mini-2"].paper is None


def test_a_judge_without_judged_tasks_is_refused_before_the_file_is_written(tmp_path: Path) -> None:
    with pytest.raises(
        UserError,
        match=r"^--judge: no task of mathtutorbench is judged. Fix: drop the flag, or add one of .*mrbench.* to --benchmarks",
    ):
        init(tmp_path / "x.yaml", tutors=["gpt-4o"], benchmarks=["mathtutorbench"], judge="gpt-4o")


# estimate -------------------------------------------------------------------------------------------------------------


ADDRESS, ITS_NAME = "Base URL (https://api.openai.com/v1): ", "Model name at this endpoint: "
MODELS, WHICH_BENCHMARKS = "Models (a, b): ", f"Benchmarks ({', '.join(BENCHMARKS)}) ({BENCHMARKS[0]}): "
ITEMS, NAME = "Items per task (0: all) (50): ", "Name of the run (empty: none): "
JUDGE = "Judge: an entry in the registries, or the model above (empty: none): "


def test_a_run_file_can_have_single_tasks(tmp_path: Path) -> None:
    tasks = ["mathtutorbench/problem_solving", "mrbench"]
    content = write_run_file(tmp_path / "my.yaml", tutors=["echo"], benchmarks=tasks, judge="gpt-4o")
    assert content["run"]["tasks"] == tasks and content["models"]["gpt-4o-judge"]["rubrics"] == ["mrbench_taxonomy"]
    misspelt = ["mathtutorbench/problem_solvin"]
    with pytest.raises(UserError, match=r"--benchmarks: .*did you mean 'mathtutorbench/problem_solving'"):
        write_run_file(tmp_path / "other.yaml", tutors=["echo"], benchmarks=misspelt)


def test_an_estimate_is_a_table_with_its_assumptions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    enter_checkout(tmp_path, monkeypatch)
    monkeypatch.setenv("COLUMNS", "150")
    hosted = {"engine": "hosted", "model": "m", "base_url": "http://127.0.0.1:9/v1"}
    weights = {"repo": "org/seven-7b", "revision": "0" * 40}
    models = {
        "far": {**hosted, "price": {"input": 1, "output": 2}},
        "seven-7b": {"engine": "vllm", "weights": weights, "needs": {"gpus": 2}},
        "strict": {"engine": "judge", "model": "far", "rubrics": ["mrbench_taxonomy"]},
    }
    tasks = ["mrbench", "mathtutorbench/problem_solving"]
    run = {"tutors": ["far", "seven-7b", "echo"], "tasks": tasks, "judges": ["strict"]}
    Path("my.yaml").write_text(yaml.safe_dump({"models": models, "run": run}), encoding="utf-8")
    estimate.estimate(configfile=[Path("my.yaml")])
    lines = capsys.readouterr().out.splitlines()
    upper, lower, *rows = (
        [cell.strip() for cell in re.split("[\u2503\u2502]", line)[1:-1]]
        for line in lines
        if "\u2503" in line or "\u2502" in line
    )
    head = [f"{above} {below}".strip() for above, below in zip(upper, lower, strict=True)]
    assert head == ["stage", "model", "requests", "prompt tokens", "answer tokens", "USD", "GPU hours (h100)"]
    assert [row[:2] for row in rows] == [
        ["tutors", "far"], ["tutors", "seven-7b"], ["judges", "far"], ["checks", "far"], ["all", ""],
    ]  # fmt: skip
    number = [[float(re.sub(r"[^\d.]", "", cell.partition(" to ")[0]) or 0) for cell in row[2:]] for row in rows]
    assert number[0][:3] == number[1][:3] and number[0][0] > 0, "two tutors get the same requests"
    total = [sum(column) for column in zip(*(row[:3] for row in number[:4]), strict=True)]
    assert number[4][:3] == pytest.approx(total, abs=len(rows)), "each cell is rounded"
    for row in (number[0], number[2]):
        assert row[3] == round((row[1] * 1 + row[2] * 2) / 1e6, 2), "USD at the entry's prices"
    assert [row[6] == "-" for row in rows] == [True, False, True, True, False], "GPU hours of the served model only"
    assert [line for line in lines if line.startswith("- ")][-2].startswith("- not included: ")
    assert "docs/cluster.md" in "".join(lines)
    # A single model has no total, and the GPU is the chosen one.
    run |= {"tutors": ["seven-7b"], "judges": []}
    Path("my.yaml").write_text(yaml.safe_dump({"models": models, "run": run}), encoding="utf-8")
    estimate.estimate(configfile=[Path("my.yaml")], gpu="a10")
    lines = capsys.readouterr().out.splitlines()
    assert "(a10)" in lines[3] and "all" not in "".join(lines[5:7]) and lines[6].startswith("\u2514")


def test_models_without_gpu_hours_are_named_with_the_reason() -> None:
    weights = {"engine": "vllm", "weights": {"path": "x"}, "needs": {"gpus": 8}}
    models = {
        name: VllmModel.model_validate(weights) for name in ("mine", "mine-7b", "large-405b", "larger-500b")
    }  # fmt: skip
    far = HostedModel.model_validate({"engine": "hosted", "base_url": "http://127.0.0.1:9/v1", "model": "m"})
    plan: Any = SimpleNamespace(models={**models, "far": far})
    assert estimate.no_hours(plan, ["far", *models, "mine"], "h100") == [
        "models of unknown size (models.NAME.size), not included in GPU hours and time: mine",
        "models whose weights, in bfloat16, fill more than three quarters of the memory of their GPUs (h100), not included "
        "in GPU hours and time: large-405b, larger-500b",
    ]
    requests = NewRequests("tutors", "large-405b", "large-405b", 3, 10.0, known(4.0), exact=True)
    assert [len(estimate.gpu_jobs(plan, [requests], gpu)) for gpu in ("h100", "h200")] == [0, 1]
    assert estimate.wall_time_lines([], 2, 8) == ["time: no model of this run has GPU hours"]


def test_an_estimate_without_requests_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("run: {tutors: [echo], tasks: [mathtutorbench]}\nedition: demo\n")
    with pytest.raises(UserError, match="this run sends no requests to any model"):
        estimate.estimate(configfile=[tmp_path / "a.yaml"])


def test_every_served_model_has_a_size() -> None:
    plan, _ = plan_before_pins(merged_configuration([Path("config/config.yaml")]))
    served = {name: model for name, model in plan.models.items() if getattr(model, "engine", "") == "vllm"}
    assert [name for name, model in served.items() if parameter_count(name, model) is None] == []


# doctor ---------------------------------------------------------------------------------------------------------------


def of_state(findings: list[doctor.Finding], state: str) -> dict[str, doctor.Finding]:
    """Return the findings of a state by their subject."""
    return {finding.subject: finding for finding in findings if finding.state == state}


def test_the_doctor_names_every_fault_and_its_fix(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = tmp_path / "my.yaml"
    flags = {"address": "http://127.0.0.1:1/v1", "model": "far", "key_env": "FAR_KEY"}
    write_run_file(out, tutors=["socraticlm-7b", "gpt-4o"], benchmarks=["mrbench"], **flags)
    out.write_text(out.read_text().replace("run:\n", "run:\n  strict: true\n"))
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.setenv("FAR_KEY", "sk-secret")
    mostly_free = shutil.disk_usage("/")._replace(free=1 << 50)  # a full disk of this machine would be another fault
    monkeypatch.setattr(shutil, "disk_usage", lambda place: mostly_free)
    findings = list(doctor.findings_of([out]))
    faults = of_state(findings, "fault")
    assert "maieutic pin" in faults["run file: models.socraticlm-7b.weights.revision"].fix
    assert "export OPENAI_API_KEY" in faults["endpoint of gpt-4o: models.gpt-4o.key_env"].fix
    assert "does not answer" in faults["endpoint of far: models.far.base_url"].finding
    assert not any("sk-secret" in " ".join(finding) for finding in findings)
    with pytest.raises(UserError, match=rf"faults listed above: {len(faults)}"):
        doctor.doctor(configfile=[out])


def test_the_doctor_lists_passed_checks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with serving(scripted(lambda number, request: (200, {}, {}))) as address:
        write_run_file(tmp_path / "my.yaml", benchmarks=["mrbench"], address=address, model="near", key_env="NEAR_KEY")
        monkeypatch.setenv("NEAR_KEY", "x")
        findings = list(doctor.findings_of([tmp_path / "my.yaml"]))
    passed = of_state(findings, "ok")
    assert {"run file", "disk", "memory", "environment driver", "endpoint of near"} <= passed.keys()
    assert not of_state(findings, "fault")


def test_a_run_file_that_cannot_be_read_is_a_finding(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("run: {tutors: [echo], tasks: [nowhere]}\n", encoding="utf-8")
    [fault] = doctor.findings_of([tmp_path / "a.yaml"])
    assert fault.subject == "run file: run.tasks[0]" and "nowhere" in fault.finding


# runs -----------------------------------------------------------------------------------------------------------------


def test_runs_lists_each_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UserError, match="expected the folder of a run, found none"):
        runs.runs()
    for folder, run in (
        ("report", {"tutors": ["a", "b", "c", "d", "e"], "tasks": ["mrbench"], "limit": None}),
        ("runs/trial", {"name": "trial", "tutors": ["a"], "tasks": ["kmpbench/ec"], "limit": 5}),
    ):
        place = tmp_path / "results" / folder
        place.mkdir(parents=True)
        (place / "config.yaml").write_text(yaml.safe_dump({"run": run}), encoding="utf-8")
    (tmp_path / "results/runs/trial/index.html").write_text("page", encoding="utf-8")
    folders = {run.name: run for run in runs.run_folders(Path("results"))}
    assert folders["trial"].page == Path("results/runs/trial/index.html") and folders["trial"].limit == 5
    assert folders["(no name)"].page is None and folders["(no name)"].tutors == ["a", "b", "c", "d", "e"]
    for path, second in (
        (tmp_path / "results/report/config.yaml", 120),
        (tmp_path / "results/runs/trial/index.html", 60),
    ):
        os.utime(path, (second, second))
    runs.runs()
    early, late = (datetime.fromtimestamp(second).strftime("%Y-%m-%d %H:%M") for second in (60, 120))
    assert capsys.readouterr().out.splitlines() == [
        f"trial, {early}: results/runs/trial/index.html", "  a on kmpbench/ec, 5 items per task",
        f"(no name), {late}: no page: the run did not finish", "  a, b, c and 2 more on mrbench, all items",
    ]  # fmt: skip
    (tmp_path / "results/report/partial").mkdir()
    (tmp_path / "results/report/partial/index.html").write_text("page", encoding="utf-8")
    runs.runs()
    assert f"(no name), {late}: partial page results/report/partial/index.html" in capsys.readouterr().out
    Path(paths.RUN_CONFIG).write_text("run: {name: trial}", encoding="utf-8")
    with open(Path(paths.RUN_LOCK), "w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        runs.runs()
    assert f"trial, {early}: in progress; earlier page results/runs/trial/index.html" in capsys.readouterr().out
    runs.runs()
    assert f"trial, {early}: results/runs/trial/index.html" in capsys.readouterr().out, "the lock was released"
    (tmp_path / "results/report/config.yaml").write_text("run: [", encoding="utf-8")
    with pytest.raises(UserError, match=r"results/report/config\.yaml.*delete the file: the next run writes it again"):
        runs.runs()
    (tmp_path / "results/report/config.yaml").write_text("", encoding="utf-8")
    assert runs.saved_run(tmp_path / "results/report/config.yaml") == {}
    assert [runs.shorten_names(list("abcd")[:n]) for n in (1, 3, 4)] == ["a", "a, b, c", "a, b, c and 1 more"]


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """Return a folder for Python's path with a broken pydantic, as a site's modules may set one."""
    (tmp_path / "site" / "pydantic").mkdir(parents=True)
    (tmp_path / "site" / "pydantic" / "__init__.py").write_text("raise ImportError('of the site')\n")
    return tmp_path / "site"


@pytest.mark.parametrize("variable", ["PYTHONPATH", "PYTHONHOME"])
@pytest.mark.parametrize("line", [["snakemake", "--cores", "1", "-n"], ["maieutic", "doctor"]])
def test_python_variables_of_a_login_change_nothing(line: list[str], variable: str, site: Path) -> None:
    command = [str(ROOT / ".venv/bin" / line[0]), *line[1:], "--help"]
    done = subprocess.run(
        command, env={**os.environ, variable: str(site)}, capture_output=True, text=True, check=False, cwd=ROOT
    )
    assert done.returncode == 0 and "usage" in done.stdout.lower(), done.stderr


@pytest.mark.parametrize("variables", [{"HOME": "/sys/nohome"}, {"XDG_CACHE_HOME": "/proc/cache"}])
def test_a_home_that_cannot_be_written_is_one_line(variables: dict[str, str], tmp_path: Path) -> None:
    snakemake = str(ROOT / ".venv/bin/snakemake")
    bare = {name: value for name, value in os.environ.items() if name != "XDG_CACHE_HOME"}
    done = subprocess.run(
        [snakemake, "--version"], env={**bare, **variables}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 1 and len(done.stderr.splitlines()) == 1
    fix = re.search(r"Fix: .*export XDG_CACHE_HOME=(\S+)", done.stderr)
    assert fix
    fixed = {**bare, **variables, "XDG_CACHE_HOME": str(tmp_path)}
    assert subprocess.run([snakemake, "--version"], env=fixed, capture_output=True, check=False).returncode == 0
