"""Tests of servers without a server: stale socket folders, the cause of a failed start, and missing chat templates."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from maieutic.config.models import VllmModel
from maieutic.core.errors import UserError
from maieutic.serving import backends, server
from maieutic.serving.backends import vllm_backend
from maieutic.serving.devices import Gpu
from maieutic.serving.server import READ_LOG, START_MARK, USE_LESS_MEMORY, remove_stale_sockets, server_failure_cause


@pytest.fixture
def ended_pid() -> int:
    """Return the pid of a process that has ended."""
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    return process.pid


def test_folders_of_killed_drivers_are_removed_and_no_others(ended_pid: int, tmp_path: Path) -> None:
    kept = [f"maieutic-{os.getpid()}-a", "maieutic-x-a", f"maieutic.{ended_pid}", f"other-{ended_pid}-a"]
    for name in [*kept, f"maieutic-{ended_pid}-a", f"maieutic-{ended_pid}-b"]:
        (tmp_path / name).mkdir()
    remove_stale_sockets(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(kept)


def test_two_processes_may_remove_stale_folders_at_once(
    ended_pid: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = [f"maieutic-{ended_pid}-{letter}" for letter in "abc"]
    for name in names:
        (tmp_path / name).mkdir()
    remove, removed = shutil.rmtree, []

    def remove_all(folder: Path, **options: Any) -> None:
        removed.append(folder)
        for name in names:
            remove(tmp_path / name, **options)

    monkeypatch.setattr(server.shutil, "rmtree", remove_all)
    remove_stale_sockets(tmp_path)
    assert len(removed) == 1 and not list(tmp_path.iterdir())


CORE = "(EngineCore_DP0 pid=12) ERROR 11-27 08:00:00 [core.py:842] "
FAILED = (
    "(APIServer pid=1) RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {}\n"
)


def killed_by(code: int | str) -> str:
    """Return the last lines of a log whose engine's process ended with a code."""
    end = f"RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {{'EngineCore_DP0': {code}}}"
    return f"INFO 11-28 08:00:00 [core.py:93] Initializing a V1 LLM engine\nTraceback (most recent call last):\n{end}\n"


LOGS: dict[str, tuple[str | None, str, str]] = {
    "no log": (None, "the log is empty", READ_LOG),
    "empty log": ("\n", "the log is empty", READ_LOG),
    "no error": ("starts\nready\n", "ready", READ_LOG),
    "error": ("KeyError: 'x'\nends\n", "KeyError: 'x'", READ_LOG),
    # https://github.com/vllm-project/vllm/issues/18730
    "too long for the cache": (
        f"{CORE}EngineCore failed to start.\n{CORE}Traceback (most recent call last):\n"
        f"{CORE}ValueError: To serve at least one request with the models's max seq len (32768), 8.00 GiB KV cache is needed, "
        "which is larger than the available KV cache memory (3.10 GiB). Based on the available memory, the estimated maximum "
        f"model length is 12688.\nProcess EngineCore_0:\nTraceback (most recent call last):\n{FAILED}",
        "ValueError: To serve at least one request", "set max_model_len: 12688",
    ),
    # https://github.com/gpustack/gpustack/issues/1800
    "too long for the cache, older vLLM": (
        "ERROR 04-17 15:10:09 [engine.py:448] ValueError: The model's max seq len (8192) is larger than the maximum number of "
        "tokens that can be stored in KV cache (2400). Try increasing `gpu_memory_utilization` or decreasing `max_model_len`"
        " when initializing the engine.\nProcess SpawnProcess-1:\n", "ValueError: The model's max seq len (8192)",
        "set max_model_len: 2400",
    ),
    # https://github.com/vllm-project/vllm/issues/16749
    "out of memory": (f"{CORE}torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.\n{FAILED}", "torch.OutOfMemoryError: CUDA out of memory.", USE_LESS_MEMORY),
    # https://github.com/odysseus-dev/odysseus/issues/191
    "unsupported quantization": (
        "(APIServer pid=1068) pydantic_core._pydantic_core.ValidationError: 1 validation error for VllmConfig\n"
        "(APIServer pid=1068)   Value error, The quantization method compressed-tensors is not supported for the current GPU."
        " Minimum capability: 70. Current capability: 61. [type=value_error, input_value=ArgsKwargs((), {}), input_type=A]\n"
        "(APIServer pid=1068)     For further information visit https://errors.pydantic.dev/2.13/v/value_error\n",
        "ValidationError: Value error, The quantization method compressed-tensors is not supported for the current GPU.",
        "choose weights in a format that this version of vLLM and this device support",
    ),
    # https://github.com/vllm-project/vllm/issues/23176
    "compiler error": (
        f"(EngineCore_0 pid=1179302) ERROR 08-19 13:12:57 [core.py:708] subprocess.CalledProcessError: Command '['ninja']' "
        f"returned non-zero exit status 1.\n(EngineCore_0 pid=1) ERROR 08-19 13:12:57 [core.py:708] \n{FAILED}",
        "subprocess.CalledProcessError: Command '['ninja']' returned", READ_LOG,
    ),
    "error of an earlier start": (f"{START_MARK}m ==\nValueError: old\n{START_MARK}m ==\nKeyError: 'new'\n", "KeyError: 'new'", READ_LOG),
    # https://github.com/vllm-project/vllm/issues/16446, /18660: no error in the log, only the engine's exit code
    "illegal instruction": (killed_by(-4), "the processor lacks an instruction", "another node or another image"),
    "bus error": (killed_by(-7), "the shared memory /dev/shm is full", "--shm-size"),
    "engine killed": (killed_by(-9), "the process was killed", "raise needs.mem_mb"),
    "one of two engines killed": (killed_by("-9, 'EngineCore_DP1': 1"), "the process was killed", "raise needs.mem_mb"),
    "engine failed by itself": (killed_by(1), "RuntimeError: Engine core initialization failed.", READ_LOG),
    "worker's error above its consequence": (
        f"{CORE}ValueError: Free memory on device (3.1/79.2 GiB) on startup is less than desired GPU memory utilization\n"
        f"{CORE}RuntimeError: Worker initialization failed\n{FAILED}",
        "ValueError: Free memory on device", "end other processes on the GPU",
    ),
    "a later error without a fix": (f"{CORE}torch.OutOfMemoryError: CUDA out of memory.\n{CORE}KeyError: 'rank'\n", "torch.OutOfMemoryError", USE_LESS_MEMORY),
    **{
        error: (f"{CORE}{error}\n{FAILED}", error, fix)
        for error, fix in {
            "RuntimeError: Failed to find C compiler. Please specify via CC environment variable": "install a C compiler",
            "ImportError: /tmp/a/cuda_utils.so: failed to map segment from shared object": "export TMPDIR=",
            "OSError: [Errno 37] No locks available": "export VLLM_CACHE_ROOT=",
            "torch.AcceleratorError: CUDA error: no kernel image is available for execution on the device": "another environment",
            "RuntimeError: The NVIDIA driver on your system is too old (found version 11040).": "update the NVIDIA driver",
            'zmq.error.ZMQError: ipc path "/scratch/a" is longer than 107 characters (sizeof(sockaddr_un.sun_path)).': "export TMPDIR=/tmp",
            "ImportError: /opt/gcc/lib64/libstdc++.so.6: version `GLIBCXX_3.4.30' not found": "unset LD_LIBRARY_PATH",
        }.items()
    },
    "consequential error only": (FAILED, "RuntimeError: Engine core initialization failed.", READ_LOG),
}  # fmt: skip


@pytest.mark.parametrize("name", LOGS)
def test_the_root_cause_of_a_server_that_ended(name: str, tmp_path: Path) -> None:
    text, error_line, fix = LOGS[name]
    if text is not None:
        (tmp_path / "log").write_text(text)
    cause = server_failure_cause(tmp_path / "log", 1)
    assert cause.error_line.startswith(error_line) and len(cause.error_line) <= 300 and fix in cause.fix


def test_the_cause_of_a_killed_server_is_the_kill_unless_its_log_has_an_error(tmp_path: Path) -> None:
    (tmp_path / "log").write_text("loading\n")
    assert server_failure_cause(tmp_path / "log", -9) == (
        "the process was killed",
        "raise needs.mem_mb: the machine's memory may have run out",
    )
    (tmp_path / "log").write_text("MemoryError: x\n")
    assert server_failure_cause(tmp_path / "log", -9).error_line == "MemoryError: x"
    (tmp_path / "log").write_text(
        "Fatal Python error: Illegal instruction\n\nCurrent thread 0x01:\n  File w.py, line 3\n"
    )
    for code in (-4, 132):
        assert "AVX-512" in server_failure_cause(tmp_path / "log", code).error_line


@pytest.mark.parametrize(("files", "has_template"), [
    ({}, False), ({"tokenizer_config.json": "{}"}, False), ({"tokenizer_config.json": '{"chat_template": "x"}'}, True),
    ({"chat_template.jinja": "x"}, True), ({"chat_template.json": "{}"}, True), ({"tekken.json": "{}"}, True),
])  # fmt: skip
def test_a_base_model_without_a_chat_template_is_refused_before_it_is_started(
    files: dict[str, str], has_template: bool, tmp_path: Path
) -> None:
    (tmp_path / "manifest.json").write_text('{"files": {}}', encoding="utf-8")
    for name, text in files.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    for arguments in ([], ["--chat-template", "x.jinja"], ["--chat_template=x.jinja"], ["--tokenizer", "other"]):
        entry = {"engine": "vllm", "weights": {"path": "x"}, "reviewed_args": arguments}
        backend, _ = vllm_backend("m", VllmModel.model_validate(entry), tmp_path, tmp_path / "log", None)
        backend.refuse({"endpoint": "completions"})
        if has_template or arguments:
            backend.refuse({"endpoint": "chat"})
        else:
            problem = r"^models.m: the weights have no chat template.*set endpoint: completions"
            with pytest.raises(UserError, match=problem):
                backend.refuse({"endpoint": "chat"})


@pytest.mark.parametrize(("entry", "gpus", "in_flight"), [
    ({}, [], 320),
    ({"needs": {"gpus": 1}}, [("NVIDIA A100-SXM4-80GB", 80.0)], 320),
    ({"needs": {"gpus": 1}}, [("NVIDIA H100", 80.0)], 1280),
    ({"needs": {"gpus": 1}}, [("NVIDIA H100", 80.0), ("NVIDIA L4", 24.0)], 320),
    ({"needs": {"gpus": 0}}, [("NVIDIA H100", 80.0)], 320),
    ({"runtime_args": ["--max-num-seqs", "64"], "needs": {"gpus": 1}}, [("NVIDIA H100", 80.0)], 80),
    ({"engine_args": ["--max-num-seqs=10"]}, [], 13),
    ({"runtime_args": ["--max-num-seqs", "64", "--max-num-seqs=8"]}, [], 10),
    ({"runtime_args": ["--max-num-seqs"]}, [], 320),
])  # fmt: skip
def test_more_requests_are_in_flight_than_the_server_holds(
    entry: dict[str, Any], gpus: list[tuple[str, float]], in_flight: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server that holds fewer sequences than it could is not busy; with a `concurrency`, that number applies."""
    monkeypatch.setattr(backends, "machine_gpus", lambda: [Gpu(*gpu) for gpu in gpus])
    model = VllmModel.model_validate({"engine": "vllm", "weights": {"path": "x"}, **entry})
    assert backends.requests_in_flight(model) == in_flight and model.most_in_flight == 1280
    assert backends.client_of("m", model, "http://x/v1", "m").server.concurrency == in_flight
    limited = model.model_copy(update={"concurrency": 7})
    assert backends.client_of("m", limited, "http://x/v1", "m").server.concurrency == 7 == limited.most_in_flight
