"""Real fine-tuning of a tiny model: tokens of the loss, adapters, packing, kills, and inputs that are refused."""

from __future__ import annotations

import contextlib
import json
import os
import random
import shutil
import signal
import subprocess
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from conftest import ROOT, SERVE
from maieutic.core.files import sha256_of
from small import wait_for

TRAIN: dict[str, Any] = {
    "base": "tiny", "mix": {"x": 1.0}, "learning_rate": 1e-3, "batch_size": 8, "micro_batch": 2, "epochs": 2,
    "max_length": 512,
}  # fmt: skip
# Prints for each example its rendered text, the text that the loss covers, and the number of tokens that it covers.
ENCODED_EXAMPLES = """
import json, sys
from pathlib import Path
from maieutic.rewards.loading import load_tokenizer
from maieutic.curation.encoding import IGNORED, encode_chat
tokenizer = load_tokenizer(Path(sys.argv[1]))
encoded = []
for line in open(sys.argv[2]):
    ids, labels = encode_chat(tokenizer, json.loads(line)["messages"], "tiny")
    assert all(label in (token, IGNORED) for token, label in zip(ids, labels, strict=True))
    learned = [token for token, label in zip(ids, labels, strict=True) if label != IGNORED]
    encoded.append([tokenizer.decode(ids), tokenizer.decode(learned), len(learned)])
print("RESULT" + json.dumps(encoded))
"""


def chat(number: int) -> list[dict[str, str]]:
    return [
        {"role": "system", "content": "You are a tutor."},
        {"role": "user", "content": f"What is {number} and {number}?"},
        {"role": "assistant", "content": f"Let us count: {number} and {number} is {2 * number}."},
        {"role": "user", "content": "Why?"},
        {"role": "assistant", "content": "Since adding goes so."},
    ]


def environment() -> dict[str, str]:
    variables = {"PYTHONPATH": str(ROOT / "workflow"), "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"}
    # Jobs and their launchers inherit MAIEUTIC_TEST, by which `marked` finds them.
    return {**os.environ, **variables, "MAIEUTIC_INHERIT": "MAIEUTIC_TEST"}


@pytest.fixture(scope="module")
def examples(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("examples")
    rows = [{"id": str(number), "messages": chat(number)} for number in range(60)]
    (folder / "examples.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (folder / "examples.json").write_text(json.dumps({"examples": 60}))
    return folder / "examples.jsonl"


def command(tiny: Path, examples: Path, out: Path, **train: Any) -> list[str]:
    job = {"tuning": "t", "train": {**TRAIN, **train}}
    arguments = {
        "job": json.dumps(job), "base": tiny / "manifest.json", "examples": examples,
        "sheet": examples.with_suffix(".json"), "journal": out.with_name(f"{out.name}.journal"),
        "out": out / "manifest.json", "gpus": 0, "threads": 1,
    }  # fmt: skip
    flags = [word for name, value in arguments.items() for word in (f"--{name}", str(value))]
    return [str(SERVE), "-m", "maieutic", "tune-tutor", *flags]


def tune(*arguments: Any, **train: Any) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command(*arguments, **train), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment()
    )


@pytest.fixture(scope="module")
def tuned(tiny: Path, examples: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of a fine-tuned model whose training was not interrupted."""
    out = tmp_path_factory.mktemp("tuned") / "t"
    done = tune(tiny, examples, out)
    assert done.returncode == 0, done.stdout
    return out


def training_record(folder: Path) -> dict[str, Any]:
    record: dict[str, Any] = json.loads((folder / "training.json").read_text())
    return record


def test_the_loss_counts_the_tutors_words_and_nothing_else(tiny: Path, examples: Path, tuned: Path) -> None:
    line = [str(SERVE), "-c", ENCODED_EXAMPLES, str(tiny), str(examples)]
    done = subprocess.run(line, capture_output=True, text=True, env=environment())
    assert done.returncode == 0, done.stderr
    encoded = json.loads(done.stdout.split("RESULT")[1])
    for number, (whole, learned, _) in enumerate(encoded):
        answers = [message["content"] for message in chat(number) if message["role"] == "assistant"]
        assert learned == "".join(f"{text}<|end|>" for text in answers)
        assert whole.count("<|assistant|>") == 2 and "<|assistant|>" not in learned
    counts = training_record(tuned)["counts"]
    assert counts["learned_tokens"] == sum(count for *_, count in encoded) and counts["examples"] == 60


def test_training_lowers_the_loss_and_is_recorded(tuned: Path) -> None:
    losses = [step["loss"] for step in training_record(tuned)["history"]]
    assert len(losses) == 16 and losses[-1] < losses[0] - 0.5
    rates = [step["learning_rate"] for step in training_record(tuned)["history"]]
    assert rates[0] == 1e-3 and all(later < earlier for earlier, later in pairwise(rates))
    assert {path.suffix for path in tuned.glob("model*")} == {".safetensors"}
    card = (tuned / "README.md").read_text()
    assert "from the registry entry `tiny`" in card and f"{losses[-1]:.3f} at the last of 16" in card
    assert not tuned.with_name("t.journal").exists(), "a finished training leaves no checkpoint"


def test_a_killed_training_goes_on_and_ends_the_same(tiny: Path, examples: Path, tuned: Path, tmp_path: Path) -> None:
    out = tmp_path / "t"
    with open(tmp_path / "log", "w", encoding="utf-8") as log:
        process = subprocess.Popen(
            command(tiny, examples, out, checkpoint_seconds=0.2), stdout=log, stderr=log, env=environment()
        )
    wait_for(process, tmp_path / "log", lambda: bool(list((tmp_path / "t.journal").glob("checkpoint-*/whole"))))
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert not out.exists(), "no partial output"
    done = tune(tiny, examples, out, checkpoint_seconds=0.2)
    assert done.returncode == 0, done.stdout
    assert "t resumes from checkpoint-" in done.stdout
    assert sha256_of(out / "model.safetensors") == sha256_of(tuned / "model.safetensors")
    assert training_record(out)["history"][-1] == training_record(tuned)["history"][-1]


def test_adapters_are_merged_into_whole_weights(tiny: Path, examples: Path, tuned: Path, tmp_path: Path) -> None:
    done = tune(tiny, examples, tmp_path / "t", lora={"rank": 4, "alpha": 8}, epochs=1, packing=True)
    assert done.returncode == 0, done.stdout
    size = (tuned / "model.safetensors").stat().st_size
    assert (tmp_path / "t/model.safetensors").stat().st_size == size, "the base's tensors and no others"
    assert not list((tmp_path / "t").glob("adapter*"))
    losses = [step["loss"] for step in training_record(tmp_path / "t")["history"]]
    assert 0 < len(losses) < 8 and sha256_of(tmp_path / "t/model.safetensors") != sha256_of(tiny / "model.safetensors")


def test_a_base_in_four_bits_is_merged_as_it_was_published(tiny: Path, examples: Path, tmp_path: Path) -> None:
    """QLoRA: the saved weights have the base's tensors and precision, and differ where adapters were merged."""
    lora = {"rank": 4, "alpha": 8, "quantized": True}
    done = tune(tiny, examples, tmp_path / "t", lora=lora, epochs=1, learning_rate=1e-2)
    assert done.returncode == 0, done.stdout
    size = (tiny / "model.safetensors").stat().st_size
    assert abs((tmp_path / "t/model.safetensors").stat().st_size - size) < 1000
    assert sha256_of(tmp_path / "t/model.safetensors") != sha256_of(tiny / "model.safetensors")
    losses = [step["loss"] for step in training_record(tmp_path / "t")["history"]]
    assert losses[-1] < losses[0]


def test_what_cannot_be_learned_is_refused_by_one_line(tiny: Path, examples: Path, tmp_path: Path) -> None:
    done = tune(tiny, examples, tmp_path / "t", max_length=50)
    assert done.returncode == 2
    assert "tunings.t.max_length: " in done.stdout and "examples have more tokens than the context of 50" in done.stdout
    done = tune(tiny, examples, tmp_path / "t", max_length=58, overlong="drop", steps=1)
    assert done.returncode == 0, done.stdout
    assert training_record(tmp_path / "t")["counts"]["overlong"] > 0
    assert len(training_record(tmp_path / "t")["history"]) == 1
    bare = tmp_path / "bare"
    shutil.copytree(tiny, bare)
    (bare / "chat_template.jinja").unlink()
    done = tune(bare, examples, tmp_path / "t2")
    assert done.returncode == 2 and "tunings.t.base: tiny has no chat template. Fix: choose a base" in done.stdout
    assert "Traceback" not in done.stdout


@pytest.fixture(scope="module")
def shared(tiny: Path, examples: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of the same fine-tuned model, trained by two processes."""
    out = tmp_path_factory.mktemp("shared") / "t"
    done = tune(tiny, examples, out, processes=2)
    assert done.returncode == 0, done.stdout
    return out


def test_two_processes_share_a_training(tuned: Path, shared: Path) -> None:
    """The processes share the examples of each step, so the losses equal those of one process within rounding."""
    alone, together = ([step["loss"] for step in training_record(folder)["history"]] for folder in (tuned, shared))
    assert together == pytest.approx(alone, abs=2e-4)
    assert training_record(shared)["counts"] == training_record(tuned)["counts"]
    assert {path.name for path in shared.iterdir()} == {path.name for path in tuned.iterdir()}


def test_a_killed_training_of_two_processes_leaves_no_process_and_goes_on(
    tiny: Path, examples: Path, shared: Path, tmp_path: Path
) -> None:
    out, mark = tmp_path / "t", {"MAIEUTIC_TEST": str(tmp_path)}
    with open(tmp_path / "log", "w", encoding="utf-8") as log:
        process = subprocess.Popen(
            command(tiny, examples, out, processes=2, checkpoint_seconds=0.2), stdout=log, stderr=log,
            env=environment() | mark,
        )  # fmt: skip
    wait_for(process, tmp_path / "log", lambda: bool(list((tmp_path / "t.journal").glob("checkpoint-*/whole"))))
    assert len(marked(mark)) >= 4, "the command, the launcher and two processes"
    process.send_signal(signal.SIGKILL)
    process.wait()
    until = time.monotonic() + 10
    while marked(mark) and time.monotonic() < until:
        time.sleep(0.1)
    assert not marked(mark)
    done = tune(tiny, examples, out, processes=2, checkpoint_seconds=0.2)
    assert done.returncode == 0, done.stdout
    assert "t resumes from checkpoint-" in done.stdout
    assert sha256_of(out / "model.safetensors") == sha256_of(shared / "model.safetensors")


if os.environ.get("MAIEUTIC_DRILLS") == "full":  # takes minutes

    def test_a_training_of_two_processes_is_killed_again_and_again(
        tiny: Path, examples: Path, shared: Path, tmp_path: Path, record_property: Callable[[str, str], None]
    ) -> None:
        """Kill the command, its launcher, one process or all of them at random moments; the weights stay the same."""
        dice, kills, planned_kills = random.Random(40), 0, 20
        mark, out = {"MAIEUTIC_TEST": str(tmp_path)}, tmp_path / "t"
        line = command(tiny, examples, out, processes=2, checkpoint_seconds=0.2)
        while kills < planned_kills:
            with open(tmp_path / "log", "a", encoding="utf-8") as log:
                process = subprocess.Popen(line, stdout=log, stderr=log, env=environment() | mark)
            try:
                process.wait(dice.uniform(1.0, 16.0))
            except subprocess.TimeoutExpired:
                running = marked(mark)
                for victim in running if dice.random() < 0.3 else [dice.choice([str(process.pid), *running])]:
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(int(victim), signal.SIGKILL)
                kills += 1
                process.wait(60)
                until = time.monotonic() + 20
                while marked(mark) and time.monotonic() < until:
                    time.sleep(0.1)
                assert not marked(mark), "no process outlives its command"
                continue
            assert process.returncode == 0, (tmp_path / "log").read_text(encoding="utf-8")[-3000:]
            assert sha256_of(out / "model.safetensors") == sha256_of(shared / "model.safetensors")
            shutil.rmtree(out)
            shutil.rmtree(tmp_path / "t.journal", ignore_errors=True)
        done = tune(tiny, examples, out, processes=2, checkpoint_seconds=0.2)
        assert done.returncode == 0, done.stdout
        assert sha256_of(out / "model.safetensors") == sha256_of(shared / "model.safetensors")
        record_property("figure", f"1: fine-tuning by two processes: {kills} kills, identical weights")


def marked(mark: dict[str, str]) -> list[str]:
    """Return the pids of the running processes whose environment contains a variable with its value."""
    [(name, value)] = mark.items()
    pids = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            if f"{name}={value}".encode() in (entry / "environ").read_bytes().split(b"\0"):
                pids.append(entry.name)
        except OSError:
            continue
    return pids


def test_adapters_of_two_processes_are_merged_by_one(tiny: Path, examples: Path, tuned: Path, tmp_path: Path) -> None:
    done = tune(tiny, examples, tmp_path / "t", lora={"rank": 4, "alpha": 8}, epochs=1, processes=2)
    assert done.returncode == 0, done.stdout
    assert {path.name for path in (tmp_path / "t").iterdir()} == {path.name for path in tuned.iterdir()}


# Prints for each case the rendered text and the text that the loss covers, or None and the error.
TEMPLATES = """
import json, sys
from pathlib import Path
from maieutic.config.curation import FineTuning
from maieutic.core.errors import UserError
from maieutic.curation import encoding
from maieutic.curation.encoding import IGNORED, encode_chats
from maieutic.rewards.loading import load_tokenizer
known_ends, folder = encoding.end_tokens, Path(sys.argv[1])
tokenizer = load_tokenizer(folder)
results = []
for template, chat, longest, *ends in json.load(sys.stdin):
    encoding.end_tokens = lambda base: {tokenizer.convert_tokens_to_ids(end) for end in ends} or known_ends(base)
    tokenizer.chat_template = template or tokenizer.chat_template
    train = FineTuning(base="tiny", mix={"x": 1.0}, max_length=longest)
    try:
        [ids], [labels], _ = encode_chats(tokenizer, [chat], "t", train, folder)
    except UserError as error:
        results.append([None, str(error)])
    else:
        learned = [token for token, label in zip(ids, labels) if label != IGNORED]
        results.append([tokenizer.decode(ids), tokenizer.decode(learned)])
print("RESULT" + json.dumps(results))
"""
GEMMA = (
    "{% if messages[0]['role'] == 'system' %}{{ raise_exception('System role not supported') }}{% endif %}"
    "{% for m in messages %}<{{ m['role'] }}>{{ m['content'] }}<end>{% endfor %}"
    "{% if add_generation_prompt %}<assistant>{% endif %}"
)
COUNTING = "{{ messages | length }}{% for m in messages %}<{{ m['role'] }}>{{ m['content'] }}<end>{% endfor %}"
PLAIN = "{% for m in messages %}{{ m['role'] }}: {{ m['content'] }}\n{% endfor %}{% if add_generation_prompt %}assistant: {% endif %}"
NEXT_ROLE = (  # as of GLM: the next role's mark ends a turn
    "{% for m in messages %}<|{{ m['role'] }}|>{{ m['content'] }}{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% endif %}"
)
BROKEN = "{{ raise_exception('Conversation roles must alternate') }}"


def test_templates_of_other_models(tiny: Path) -> None:
    """Templates that refuse a system message or cannot be learned from, a chat that the tutor begins, a long chat."""
    system, user, tutor = ({"role": role, "content": role.upper()} for role in ("system", "user", "assistant"))
    cases = [
        (GEMMA, [system, user, tutor], 512), (GEMMA, [tutor, user, tutor], 512),
        (COUNTING, [user, tutor, user, tutor], 512), (BROKEN, [user, tutor], 512),
        (GEMMA, [user, {**tutor, "content": "so " * 3000}], 100_000),
        (PLAIN, [user, tutor, user, tutor], 512), (NEXT_ROLE, [user, tutor, user, tutor], 512),
        (NEXT_ROLE, [user, tutor, user, tutor], 512, "<|user|>"),
    ]  # fmt: skip
    line = [str(SERVE), "-c", TEMPLATES, str(tiny)]
    done = subprocess.run(line, input=json.dumps(cases), capture_output=True, text=True, env=environment())
    assert done.returncode == 0, done.stderr
    folded, tutor_first, counting, broken, overlong, plain, next_role, ended_by_role = json.loads(
        done.stdout.split("RESULT")[1]
    )
    assert folded == ["<user>SYSTEM\n\nUSER<end><assistant>ASSISTANT<end>", "ASSISTANT<end>"]
    assert tutor_first[1] == "ASSISTANT<end>" * 2 and tutor_first[0].startswith("<assistant>ASSISTANT<end><user>")
    assert counting[1].startswith("tunings.t.base: the base's chat template renders a turn differently")
    assert "cannot render the example that begins with 'USER': Conversation roles must alternate" in broken[1]
    assert "have more tokens than the context of " in overlong[1]
    assert "set overlong to drop or truncate, since the base's context has only " in overlong[1]
    assert plain[1].endswith("SSISTANT<|end|>") and plain[1].count("<|end|>") == 1, (
        "the end of the sequence, at the end"
    )
    assert next_role[1] == "ASSISTANTASSISTANT<|end|>", "the next role's mark does not end this base's generation"
    assert ended_by_role[1] == "ASSISTANT<|user|>" * 2
