"""Reward models for real, tiny: training that is killed, batches against single passes, bases and models that are odd."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from conftest import ROOT, SERVE
from maieutic.benchmarks.mathtutorbench import mathdial_bridge
from maieutic.config.models import CriteriaModel, RewardModel
from maieutic.core.files import sha256_of
from maieutic.core.records import Item, PairReward, Reply, Reward, Turn, read_records, write_records
from maieutic.datasets import mrbench
from maieutic.datasets.sources import read_source
from maieutic.judges.labelled_sets import LABEL_LOADERS, write_labels
from maieutic.rewards.criteria import TrainCriteria
from maieutic.rewards.pairs import write_pairs
from maieutic.rewards.scoring import ScorePairs, ScoreRewards

TRAIN = {"base": "tiny", "mix": {"mrbench": 1.0}, "learning_rate": 1e-3, "batch_size": 4, "micro_batch": 1}
MACHINE = ["--gpus", "0", "--threads", "1"]
PATIENCE = 180.0
TOLERANCE = 1e-4  # float32 sums in another order


def environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(ROOT / "workflow"), "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"}


def command(verb: str, **given: object) -> list[str]:
    line = [str(SERVE), "-m", "maieutic", verb, *MACHINE]
    for name, value in given.items():
        line += [f"--{name.replace('_', '-')}", *(map(str, value) if isinstance(value, list) else [str(value)])]
    return line


def serve(verb: str, **given: object) -> subprocess.CompletedProcess[str]:
    """A verb in the serving environment."""
    return subprocess.run(
        command(verb, **given), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment()
    )


def wait_for(process: subprocess.Popen, log: Path, ready: Callable[[], bool]) -> None:
    """Wait until something is there, while the process lives."""
    until = time.monotonic() + PATIENCE
    while not ready() and time.monotonic() < until:
        assert process.poll() is None, log.read_text()
        time.sleep(0.02)


def job(tasks: Sequence[str] = (), **more: Any) -> str:
    """What the rules hand over for a reward model."""
    entry = RewardModel(engine="reward", train={**TRAIN, **more.pop("train", {})}, **more)
    made = (
        ScoreRewards(reward_model="m", entry=entry, tasks=tasks) if tasks else ScorePairs(reward_model="m", entry=entry)
    )
    return made.to_json()


@pytest.fixture(scope="module")
def preferences(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The demo's pairs, and its labelled replies."""
    folder = tmp_path_factory.mktemp("preferences")
    demo = Path("resources/demo")
    labels = read_source(demo / "mrbench/MRBench_V1.json", "json")
    bridge = [read_source(demo / f"bridge/{name}.json", "json") for name in ("train", "validation", "test")]
    for source, records in (("mrbench", [labels]), ("bridge", [*bridge, labels])):
        write_pairs(source, records, folder / source / "pairs.jsonl", folder / source / "counts.json")
    write_labels("mrbench", LABEL_LOADERS["mrbench"], [labels], folder / "labels")
    return folder


Train = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="module")
def train(tiny: Path, preferences: Path) -> Train:
    def run(out: Path, **more: Any) -> subprocess.CompletedProcess[str]:
        journal = out.with_name(f"{out.name}.journal")
        return serve(
            "train-reward-model",
            job=job(**more),
            base=tiny / "manifest.json",
            pairs=preferences / "mrbench/pairs.jsonl",
            journal=journal,
            out=out / "manifest.json",
        )

    return run


@pytest.fixture(scope="module")
def trained(train: Train, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The training that nothing happens to."""
    out = tmp_path_factory.mktemp("trained") / "m"
    done = train(out)
    assert done.returncode == 0, done.stdout
    assert "tiny has no pad token: it pads with '<|end|>'" in done.stdout, "the rule is told"
    return out


def test_training_uses_every_pair_and_tells_what_it_did(trained: Path, preferences: Path) -> None:
    told = json.loads((trained / "training.json").read_text())
    pairs = len((preferences / "mrbench/pairs.jsonl").read_text().splitlines())
    assert told["counts"]["pairs"] == told["counts"]["trained"] == pairs
    assert len(told["history"]) == -(-pairs // 4), "one entry an optimiser step"
    first, last = told["history"][:8], told["history"][-8:]
    assert sum(step["loss"] for step in last) < sum(step["loss"] for step in first), "it learns"
    assert {path.suffix for path in trained.glob("model*")} == {".safetensors"}
    assert not list(trained.glob("*.bin")) and not list(trained.glob("*.pt"))
    assert not trained.with_name("m.journal").exists(), "a finished training leaves no checkpoint"


def test_a_killed_training_goes_on_and_ends_the_same(
    trained: Path, tiny: Path, preferences: Path, tmp_path: Path
) -> None:
    given: dict[str, object] = {
        "job": job(train={"checkpoint_seconds": 0.2}),
        "base": tiny / "manifest.json",
        "pairs": preferences / "mrbench/pairs.jsonl",
        "journal": tmp_path / "journal",
        "out": tmp_path / "m/manifest.json",
    }
    with open(tmp_path / "log", "w", encoding="utf-8") as log:
        process = subprocess.Popen(command("train-reward-model", **given), stdout=log, stderr=log, env=environment())
    wait_for(process, tmp_path / "log", lambda: bool(list((tmp_path / "journal").glob("checkpoint-*/whole"))))
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert not (tmp_path / "m").exists(), "no half output"
    # A checkpoint that the kill cut short is not gone on with.
    [whole] = (tmp_path / "journal").glob("checkpoint-*/whole")
    torn = whole.parent.with_name("checkpoint-9999")
    shutil.copytree(whole.parent, torn)
    (torn / "whole").unlink()
    done = serve("train-reward-model", **given)
    assert done.returncode == 0, done.stdout
    assert f"m goes on from {whole.parent.name}" in done.stdout
    assert sha256_of(tmp_path / "m/model.safetensors") == sha256_of(trained / "model.safetensors")
    ours, theirs = (json.loads((folder / "training.json").read_text()) for folder in (tmp_path / "m", trained))
    assert ours["counts"] == theirs["counts"]
    assert [step["step"] for step in ours["history"]] == [step["step"] for step in theirs["history"]]
    assert ours["history"][-1] == theirs["history"][-1]


def test_a_kill_after_the_pretraining_repeats_none_of_it(tiny: Path, preferences: Path, tmp_path: Path) -> None:
    """Killed in the second stage, the training ends with the weights of one that nothing happened to."""
    records = [read_source(Path("resources/demo/gsm8k/test_socratic.jsonl"), "jsonl")]
    before = preferences / "gsm8k_inpainted/pairs.jsonl"
    write_pairs("gsm8k_inpainted", records, before, before.with_name("counts.json"))

    def given(name: str) -> dict[str, object]:
        return {
            "job": job(train={"checkpoint_seconds": 0.2, "pretrain": {"gsm8k_inpainted": 1.0}, "max_length": 512}),
            "base": tiny / "manifest.json",
            "pairs": [preferences / "mrbench/pairs.jsonl", before],
            "journal": tmp_path / f"{name}.journal",
            "out": tmp_path / name / "manifest.json",
        }

    whole = serve("train-reward-model", **given("whole"))
    assert whole.returncode == 0, whole.stdout
    log = tmp_path / "log"
    with open(log, "w", encoding="utf-8") as handle:
        line = command("train-reward-model", **given("killed"))
        process = subprocess.Popen(line, stdout=handle, stderr=handle, env=environment())
    wait_for(process, log, lambda: bool(list((tmp_path / "killed.journal/mix").glob("checkpoint-*/whole"))))
    process.send_signal(signal.SIGKILL)
    process.wait()
    done = serve("train-reward-model", **given("killed"))
    assert done.returncode == 0 and "the pretraining of m is finished already" in done.stdout, done.stdout
    assert "m goes on from checkpoint-" in done.stdout
    first, second = tmp_path / "whole", tmp_path / "killed"
    assert sha256_of(first / "model.safetensors") == sha256_of(second / "model.safetensors")
    assert (first / "training.json").read_text() == (second / "training.json").read_text()
    told = json.loads((first / "training.json").read_text())
    assert told["pretraining"]["history"] and not (tmp_path / "killed.journal").exists()


def test_overlong_pairs_are_left_out_or_cut_and_counted(train: Train, tmp_path: Path) -> None:
    done = train(tmp_path / "out", train={"max_length": 400, "epochs": 0.1})
    assert done.returncode == 0, done.stdout
    left = json.loads((tmp_path / "out/training.json").read_text())["counts"]
    assert left["overlong_left_out"] > 0 and left["trained"] == left["pairs"] - left["overlong_left_out"]
    done = train(tmp_path / "none", train={"max_length": 16})
    assert done.returncode == 2 and "models.m.train.max_length: every pair has more than 16 tokens" in done.stdout
    done = train(tmp_path / "cut", train={"max_length": 64, "overlong": "cut", "epochs": 0.1, "margin": True})
    assert done.returncode == 0, done.stdout
    cut = json.loads((tmp_path / "cut/training.json").read_text())["counts"]
    assert cut["trained"] == cut["pairs"] and cut["overlong_cut"] >= left["overlong_left_out"]


def score(trained: Path, preferences: Path, tmp_path: Path, name: str, **more: Any) -> list[PairReward]:
    done = serve(
        "score-pairs",
        job=job(**more),
        weights=trained / "manifest.json",
        pairs=preferences / "bridge/pairs.jsonl",
        labels=preferences / "labels/labels.jsonl",
        journal=tmp_path / name / "journal.jsonl",
        out=[tmp_path / f"{name}.jsonl", tmp_path / f"{name}.labelled.jsonl"],
    )
    assert done.returncode == 0, done.stdout
    labelled = read_records(tmp_path / f"{name}.labelled.jsonl", Reward)
    assert len(labelled) == 86 and "GPT4" in {one.tutor for one in labelled}
    return read_records(tmp_path / f"{name}.jsonl", PairReward)


def test_batch_one_equals_batch_n(trained: Path, preferences: Path, tmp_path: Path) -> None:
    single = score(trained, preferences, tmp_path, "single", token_budget=1)
    many = score(trained, preferences, tmp_path, "many", token_budget=8192)
    assert len(single) == len(many) == 20
    for one, other in zip(single, many, strict=True):
        assert one.chosen == pytest.approx(other.chosen, abs=TOLERANCE)
        assert one.rejected == pytest.approx(other.rejected, abs=TOLERANCE)
    assert len({one.chosen for one in many}) > 10, "the scores differ"


def test_a_conversation_longer_than_the_context_has_no_score(trained: Path, preferences: Path, tmp_path: Path) -> None:
    short = score(trained, preferences, tmp_path, "short", max_length=220)
    unscored = [one for one in short if one.chosen is None or one.rejected is None]
    assert unscored and all("tokens, the reward model takes 220" in str(one.why_none) for one in unscored)


def test_several_tutors_in_one_load_and_a_kill_between_batches(trained: Path, tmp_path: Path) -> None:
    records = read_source(Path("resources/demo/mathtutorbench/datasets/mathdial_bridge.json"), "json")
    items = mathdial_bridge.next_turn(records, "scaffolding")
    write_records(tmp_path / "items/scaffolding.jsonl", items)

    def reply(case: Item, model: str, text: str, error: str | None = None) -> Reply:
        turn = Turn(messages="none", text=text)
        return Reply(id=case.id, task=case.task, tutor=model, key="k", turns=[turn], error=error)

    files = []
    for model in ("one", "two", "same"):
        said = [reply(case, model, f"{'one' if model == 'same' else model}: why {case.id}?") for case in items]
        if model == "two":
            said[0] = reply(items[0], model, "", error="context too long")
        files.append(tmp_path / f"{model}.jsonl")
        write_records(files[-1], said)

    def run(name: str) -> Path:
        given: dict[str, object] = {
            "job": job(tasks=["scaffolding"], token_budget=512), "weights": trained / "manifest.json",
            "items": tmp_path / "items", "replies": files, "journal": tmp_path / f"{name}.j.jsonl", "out": tmp_path / name,
        }  # fmt: skip
        done = serve("score-rewards", **given)
        assert done.returncode == 0, done.stdout
        return tmp_path / name

    whole = read_records(run("whole"), Reward)
    assert len(whole) == 3 * len(items)
    refused = [one for one in whole if one.score is None]
    assert [(one.tutor, one.why_none) for one in refused] == [("two", "refused: context too long")]
    scores = {(one.tutor, one.id): one.score for one in whole}
    assert all(scores["one", case.id] == scores["same", case.id] for case in items), "equal replies are scored once"
    # What a kill leaves: the first batches, and half a line of the next.
    lines = (tmp_path / "whole.j.jsonl").read_text().splitlines(keepends=True)
    assert len(lines) == 2 * len(items) - 1
    (tmp_path / "killed.j.jsonl").write_text("".join(lines[:6]) + lines[6][:40])
    again = read_records(run("killed"), Reward)
    assert [(one.id, one.score) for one in again] == [(one.id, one.score) for one in whole]
    after = (tmp_path / "killed.j.jsonl").read_text().splitlines()
    keys = [json.loads(line)["key"] for line in after if line.endswith("}")]
    assert len(keys) == len(set(keys)) == 2 * len(items) - 1 and after[:6] == [line.strip() for line in lines[:6]]


def test_the_bench_of_scoring_runs_in_small(trained: Path) -> None:
    small = ["--tutors", "2", "--items", "4", "--budget", "512"]
    line = [SERVE, "bench/reward_scoring.py", "--model", trained, *small]
    done = subprocess.run([*map(str, line)], env=environment(), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    figures = json.loads(done.stdout.splitlines()[-1])
    assert figures["ratio to one at a time"] > 0
    assert figures["largest difference of a score"] < TOLERANCE


def test_odd_models_are_refused_by_one_line(trained: Path, tiny: Path, preferences: Path, tmp_path: Path) -> None:
    two = tmp_path / "two"
    shutil.copytree(trained, two, symlinks=True)
    config = json.loads((two / "config.json").read_text())
    (two / "config.json").write_text(json.dumps({**config, "id2label": {"0": "a", "1": "b"}, "num_labels": 2}))
    given: dict[str, object] = {
        "job": job(), "pairs": preferences / "bridge/pairs.jsonl",
        "journal": tmp_path / "j.jsonl", "out": [tmp_path / "out.jsonl", tmp_path / "labelled.jsonl"],
        "labels": preferences / "labels/labels.jsonl",
    }  # fmt: skip
    done = serve("score-pairs", weights=two / "manifest.json", **given)
    assert (
        done.returncode == 2
        and "models.m.weights: expected a reward model with one output, found 2. Fix:" in done.stdout
    )
    pickle = tmp_path / "pickle"
    pickle.mkdir()
    (pickle / "pytorch_model.bin").write_bytes(b"\x80\x04never loaded")
    refused = json.dumps({"model": "m", "weights": {"path": str(pickle)}})
    done = subprocess.run(
        [SERVE, "-m", "maieutic", "prepare-weights", "--job", refused, "--out", tmp_path / "w/manifest.json"],
        env=environment(), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip
    assert done.returncode == 2 and "contains no *.safetensors" in done.stdout


def test_a_reward_model_by_code_of_its_own_scores_as_its_authors_do(preferences: Path, tmp_path: Path) -> None:
    """InternLM2's form: a token behind the conversation, at which the score is read; padded batches change nothing."""
    folder = tmp_path / "own"
    script = [str(SERVE), "tests/own_code_model.py", str(folder)]
    env = {
        **environment(),
        "PYTHONPATH": f"{ROOT / 'workflow'}:{ROOT / 'tests'}",
        "HF_MODULES_CACHE": str(tmp_path / "code"),
    }
    subprocess.run(script, check=True, env=env)
    entry = RewardModel(
        engine="reward", weights={"repo": "o/n", "revision": "1" * 40}, adapter="internlm2", prompt="none",
        token_budget=1500, overlong="cut", max_length=200,
    )  # fmt: skip
    given: dict[str, object] = {
        "job": ScorePairs(reward_model="m", entry=entry).to_json(), "weights": folder / "manifest.json",
        "pairs": preferences / "bridge/pairs.jsonl", "journal": tmp_path / "j.jsonl",
        "out": [tmp_path / "out.jsonl", tmp_path / "labelled.jsonl"], "labels": preferences / "labels/labels.jsonl",
    }  # fmt: skip
    done = subprocess.run(command("score-pairs", **given), capture_output=True, text=True, env=env)
    assert done.returncode == 0, done.stdout + done.stderr
    rewards = read_records(tmp_path / "out.jsonl", PairReward)
    tokens = subprocess.run(
        [SERVE, "-c", TOKENS, folder, preferences / "bridge/pairs.jsonl"], capture_output=True, text=True, env=env
    )
    assert tokens.returncode == 0, tokens.stderr
    expected = subprocess.run([*script, tokens.stdout], capture_output=True, text=True, env=env, check=True).stdout
    scores = [score for reward in rewards for score in (reward.chosen, reward.rejected)]
    assert len(set(scores)) > 20 and scores == pytest.approx(json.loads(expected), abs=TOLERANCE)
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "architectures": ["LlamaForCausalLM"]}))
    done = subprocess.run(command("score-pairs", **given), capture_output=True, text=True, env=env)
    assert "models.m.adapter: internlm2 is for InternLM2ForRewardModel, found LlamaForCausalLM. Fix:" in done.stderr


# The conversations of all pairs as tokens, cut as the entry says, without the token behind them.
TOKENS = """
import json, sys
from pathlib import Path
from maieutic.core.records import Pair, read_records
from maieutic.rewards.loading import load_tokenizer
from maieutic.serving.conversations import messages_to_score, encode_conversations
pairs = read_records(Path(sys.argv[2]), Pair)
talks = [messages_to_score(pair.prompt, text, "") for pair in pairs for text in (pair.chosen, pair.rejected)]
print(json.dumps(encode_conversations(load_tokenizer(Path(sys.argv[1])), talks, 199)))
"""


def test_criteria_classifiers_go_on_after_a_kill(tiny: Path, preferences: Path, tmp_path: Path) -> None:
    records = read_source(Path("resources/demo/mrbench/MRBench_V1.json"), "json")
    train = {"base": "tiny", "criteria": ["Actionability", "Tutor_Tone"], "epochs": 1, "max_length": 64}

    def given(name: str) -> dict[str, object]:
        return {
            "job": TrainCriteria(
                classifier="c", entry=CriteriaModel(engine="criteria", train=train), form="json"
            ).to_json(),
            "base": tiny / "manifest.json", "labels": "resources/demo/mrbench/MRBench_V1.json",
            "pairs": preferences / "bridge/pairs.jsonl",
            "journal": tmp_path / f"{name}.journal", "out": tmp_path / name / "heldout.jsonl",
        }  # fmt: skip

    done = serve("train-criteria", **given("whole"))
    assert done.returncode == 0, done.stdout
    counts = json.loads((tmp_path / "whole/training.json").read_text())["counts"]
    assert counts["train_replies"] + counts["test_replies"] == len(mrbench.labelled_replies(records))
    bridge = read_records(tmp_path / "whole/bridge.jsonl", PairReward)
    assert {one.criterion for one in bridge} == {"Actionability", "Tutor_Tone"} and len(bridge) == 40
    assert all(0 <= float(one.chosen or 0) <= 1 for one in bridge)
    assert not (tmp_path / "whole.journal").exists(), "finished classifiers stay in the output only"

    with open(tmp_path / "log", "w", encoding="utf-8") as log:
        process = subprocess.Popen(
            command("train-criteria", **given("killed")), stdout=log, stderr=log, env=environment()
        )
    wait_for(process, tmp_path / "log", lambda: (tmp_path / "killed.journal/Actionability/model/history.json").exists())
    process.send_signal(signal.SIGKILL)
    process.wait()
    done = serve("train-criteria", **given("killed"))
    assert done.returncode == 0 and "c/Actionability is trained already" in done.stdout, done.stdout
    for name in ("bridge.jsonl", "heldout.jsonl", "training.json"):
        assert (tmp_path / "killed" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes(), name
