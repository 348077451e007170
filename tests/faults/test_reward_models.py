"""Real training and scoring with tiny reward models: kills during training, batches, unusual bases and models."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml
from conftest import ROOT, SERVE
from maieutic.benchmarks.mathtutorbench import mathdial_bridge
from maieutic.config.models import CriteriaModel, RewardModel
from maieutic.core.files import sha256_of
from maieutic.core.records import Item, Pair, PairReward, Reply, Reward, Turn, read_records, write_records
from maieutic.datasets import mrbench
from maieutic.datasets.labelled_sets import LABEL_LOADERS
from maieutic.datasets.sources import read_source
from maieutic.preparation.labels import write_labels
from maieutic.preparation.pairs import write_pairs
from maieutic.rewards.criteria import TrainCriteria
from maieutic.rewards.published_scores import CheckScorer
from maieutic.rewards.scoring import ScorePairs, ScoreRewards
from maieutic.serving.conversations import messages_before_reply
from small import wait_for

TRAIN = {"base": "tiny", "mix": {"mrbench": 1.0}, "learning_rate": 1e-3, "batch_size": 4, "micro_batch": 1}
DEVICES = ["--gpus", "0", "--threads", "1"]
TOLERANCE = 1e-4  # float32 sums depend on the order of the terms


def environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(ROOT / "workflow"), "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"}


def command(verb: str, **arguments: object) -> list[str]:
    line = [str(SERVE), "-m", "maieutic", verb, *DEVICES]
    for name, value in arguments.items():
        line += [f"--{name.replace('_', '-')}", *(map(str, value) if isinstance(value, list) else [str(value)])]
    return line


def serve(verb: str, **arguments: object) -> subprocess.CompletedProcess[str]:
    """Run a command of the package in the serving environment."""
    return subprocess.run(
        command(verb, **arguments), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment()
    )


def job(tasks: Sequence[str] = (), **more: Any) -> str:
    """Return the --job argument of a reward model: of its scoring of tasks, or of pairs if `tasks` is empty."""
    entry = RewardModel(engine="reward", train={**TRAIN, **more.pop("train", {})}, **more)
    score_job = (
        ScoreRewards(reward_model="m", entry=entry, tasks=tasks) if tasks else ScorePairs(reward_model="m", entry=entry)
    )
    return score_job.to_json()


@pytest.fixture(scope="module")
def preferences(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder of the demo's preference pairs, and of its labelled replies."""
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
            "train-reward-model", job=job(**more), base=tiny / "manifest.json",
            pairs=preferences / "mrbench/pairs.jsonl", journal=journal, out=out / "manifest.json",
        )  # fmt: skip

    return run


@pytest.fixture(scope="module")
def trained(train: Train, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of a reward model whose training was not interrupted."""
    out = tmp_path_factory.mktemp("trained") / "m"
    done = train(out)
    assert done.returncode == 0, done.stdout
    assert "tiny has no pad token; padding uses '<|end|>'" in done.stdout, "the padding token is logged"
    return out


def test_training_uses_every_pair_and_records_its_steps(trained: Path, preferences: Path) -> None:
    training = json.loads((trained / "training.json").read_text())
    pairs = len((preferences / "mrbench/pairs.jsonl").read_text().splitlines())
    assert training["counts"]["pairs"] == training["counts"]["trained"] == pairs
    assert len(training["history"]) == -(-pairs // 4), "one entry per optimiser step"
    first, last = training["history"][:8], training["history"][-8:]
    assert sum(step["loss"] for step in last) < sum(step["loss"] for step in first), "the loss decreases"
    assert {path.suffix for path in trained.glob("model*")} == {".safetensors"}
    assert not list(trained.glob("*.bin")) and not list(trained.glob("*.pt"))
    assert not trained.with_name("m.journal").exists(), "a finished training leaves no checkpoint"


def test_a_killed_training_goes_on_and_ends_the_same(
    trained: Path, tiny: Path, preferences: Path, tmp_path: Path
) -> None:
    arguments: dict[str, object] = {
        "job": job(train={"checkpoint_seconds": 0.2}), "base": tiny / "manifest.json",
        "pairs": preferences / "mrbench/pairs.jsonl", "journal": tmp_path / "journal",
        "out": tmp_path / "m/manifest.json",
    }  # fmt: skip
    with open(tmp_path / "log", "w", encoding="utf-8") as log:
        process = subprocess.Popen(
            command("train-reward-model", **arguments), stdout=log, stderr=log, env=environment()
        )
    wait_for(process, tmp_path / "log", lambda: bool(list((tmp_path / "journal").glob("checkpoint-*/whole"))))
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert not (tmp_path / "m").exists(), "no partial output"
    # A later checkpoint that a kill cut short is ignored: the file `whole` marks complete checkpoints.
    [whole] = (tmp_path / "journal").glob("checkpoint-*/whole")
    partial = whole.parent.with_name("checkpoint-9999")
    shutil.copytree(whole.parent, partial)
    (partial / "whole").unlink()
    done = serve("train-reward-model", **arguments)
    assert done.returncode == 0, done.stdout
    assert f"m resumes from {whole.parent.name}" in done.stdout
    assert sha256_of(tmp_path / "m/model.safetensors") == sha256_of(trained / "model.safetensors")
    resumed, uninterrupted = (
        json.loads((folder / "training.json").read_text()) for folder in (tmp_path / "m", trained)
    )
    assert resumed["counts"] == uninterrupted["counts"]
    assert [step["step"] for step in resumed["history"]] == [step["step"] for step in uninterrupted["history"]]
    assert resumed["history"][-1] == uninterrupted["history"][-1]


def test_a_kill_after_the_pretraining_repeats_none_of_it(tiny: Path, preferences: Path, tmp_path: Path) -> None:
    """A training that is killed in its second stage ends with the weights of an uninterrupted training."""
    records = [read_source(Path("resources/demo/gsm8k/test_socratic.jsonl"), "jsonl")]
    before = preferences / "gsm8k_inpainted/pairs.jsonl"
    write_pairs("gsm8k_inpainted", records, before, before.with_name("counts.json"))

    def arguments(name: str) -> dict[str, object]:
        return {
            "job": job(train={"checkpoint_seconds": 0.2, "pretrain": {"gsm8k_inpainted": 1.0}, "max_length": 512}),
            "base": tiny / "manifest.json",
            "pairs": [preferences / "mrbench/pairs.jsonl", before],
            "journal": tmp_path / f"{name}.journal",
            "out": tmp_path / name / "manifest.json",
        }

    whole = serve("train-reward-model", **arguments("whole"))
    assert whole.returncode == 0, whole.stdout
    log = tmp_path / "log"
    with open(log, "w", encoding="utf-8") as handle:
        line = command("train-reward-model", **arguments("killed"))
        process = subprocess.Popen(line, stdout=handle, stderr=handle, env=environment())
    wait_for(process, log, lambda: bool(list((tmp_path / "killed.journal/mix").glob("checkpoint-*/whole"))))
    process.send_signal(signal.SIGKILL)
    process.wait()
    done = serve("train-reward-model", **arguments("killed"))
    assert done.returncode == 0 and "the pretraining of m is already finished" in done.stdout, done.stdout
    assert "m resumes from checkpoint-" in done.stdout
    first, second = tmp_path / "whole", tmp_path / "killed"
    assert sha256_of(first / "model.safetensors") == sha256_of(second / "model.safetensors")
    assert (first / "training.json").read_text() == (second / "training.json").read_text()
    training = json.loads((first / "training.json").read_text())
    assert training["pretraining"]["history"] and not (tmp_path / "killed.journal").exists()


def test_overlong_pairs_are_left_out_or_cut_and_counted(train: Train, tmp_path: Path) -> None:
    done = train(tmp_path / "out", train={"max_length": 400, "epochs": 0.1})
    assert done.returncode == 0, done.stdout
    dropped = json.loads((tmp_path / "out/training.json").read_text())["counts"]
    assert dropped["overlong_left_out"] > 0
    assert dropped["trained"] == dropped["pairs"] - dropped["overlong_left_out"]
    done = train(tmp_path / "none", train={"max_length": 16})
    assert done.returncode == 2 and "models.m.train.max_length: every pair has more than 16 tokens" in done.stdout
    done = train(tmp_path / "cut", train={"max_length": 64, "overlong": "cut", "epochs": 0.1, "margin": True})
    assert done.returncode == 0, done.stdout
    cut = json.loads((tmp_path / "cut/training.json").read_text())["counts"]
    assert cut["trained"] == cut["pairs"] and cut["overlong_cut"] >= dropped["overlong_left_out"]


def score(trained: Path, preferences: Path, tmp_path: Path, name: str, **more: Any) -> list[PairReward]:
    """Score the pairs of Bridge and the labelled replies of MRBench, and return the rewards of the pairs."""
    done = serve(
        "score-pairs", job=job(**more), weights=trained / "manifest.json", pairs=preferences / "bridge/pairs.jsonl",
        labels=preferences / "labels/labels.jsonl", journal=tmp_path / name / "journal.jsonl",
        out=[tmp_path / f"{name}.jsonl", tmp_path / f"{name}.labelled.jsonl"],
    )  # fmt: skip
    assert done.returncode == 0, done.stdout
    labelled = read_records(tmp_path / f"{name}.labelled.jsonl", Reward)
    assert len(labelled) == 86 and "GPT4" in {reward.tutor for reward in labelled}
    return read_records(tmp_path / f"{name}.jsonl", PairReward)


def test_batch_one_equals_batch_n(trained: Path, preferences: Path, tmp_path: Path) -> None:
    single = score(trained, preferences, tmp_path, "single", token_budget=1)
    many = score(trained, preferences, tmp_path, "many", token_budget=8192)
    assert len(single) == len(many) == 20
    for alone, batched in zip(single, many, strict=True):
        assert alone.chosen == pytest.approx(batched.chosen, abs=TOLERANCE)
        assert alone.rejected == pytest.approx(batched.rejected, abs=TOLERANCE)
    assert len({pair.chosen for pair in many}) > 10, "the scores differ"


def test_published_scores_are_compared_in_float32(trained: Path, tmp_path: Path) -> None:
    """The scores equal those of another forward pass; a published score 0.03 away is named as a difference."""
    replies = ["What is 2 + 2?", "It is 4.", "Try again."]
    dialogue = {
        "problem": "What is 2 + 2?",
        "solution": "2 + 2 = 4\n4",
        "history": [{"role": "user", "content": "It is 5."}],
    }
    entry = RewardModel(engine="reward", train=TRAIN, dtype="bfloat16", published_scores="mathtutorbench")
    check = CheckScorer(reward_model="m", entry=entry).to_json()

    def checked(name: str, scores: list[float]) -> tuple[dict[str, Any], str]:
        rows = [{"row": text, "score": value, "text": text} for text, value in zip(replies, scores, strict=True)]
        file = tmp_path / f"{name}.yaml"
        file.write_text(
            yaml.safe_dump({"model": "m", "tolerance": 0.02, **dialogue, "replies": rows}), encoding="utf-8"
        )
        out = tmp_path / f"{name}.json"
        done = serve("check-scorer", job=check, weights=trained / "manifest.json", scores=file,
                     journal=tmp_path / f"{name}.journal.jsonl", out=out)  # fmt: skip
        assert done.returncode == 0, done.stdout
        return json.loads(out.read_text(encoding="utf-8")), done.stdout

    first, _ = checked("first", [0.0, 0.0, 0.0])
    pairs = [
        Pair(id=str(number), problem="p", prompt=messages_before_reply(dialogue["problem"], dialogue["solution"], dialogue["history"]), chosen=text, rejected="no", tutoring=True, source="s", margin=1.0)
        for number, text in enumerate(replies)
    ]  # fmt: skip
    scores = [row["score"] for row in first["rows"]]
    assert len(set(scores)) == 3 and first["largest"] == pytest.approx(max(map(abs, scores)))
    same, log = checked("same", scores)
    assert not same["differs"] and same["largest"] == 0 and "3 published scores reproduced" in log
    other, log = checked("other", [scores[0] + 0.03, *scores[1:]])
    assert other["differs"] and other["largest"] == pytest.approx(0.03, abs=1e-6)
    assert "the scorer differs from the paper: its scores differ by up to 0.030, expected at most 0.02" in log
    write_records(tmp_path / "pairs.jsonl", pairs)
    done = serve("score-pairs", job=job(dtype="float32"), weights=trained / "manifest.json", pairs=tmp_path / "pairs.jsonl",
                 journal=tmp_path / "pairs.journal.jsonl", out=[tmp_path / "scored.jsonl"])  # fmt: skip
    assert done.returncode == 0, done.stdout
    by_pairs = [record.chosen for record in read_records(tmp_path / "scored.jsonl", PairReward)]
    assert by_pairs == pytest.approx(scores, abs=TOLERANCE)


def test_a_conversation_longer_than_the_context_has_no_score(trained: Path, preferences: Path, tmp_path: Path) -> None:
    short = score(trained, preferences, tmp_path, "short", max_length=220)
    unscored = [pair for pair in short if pair.chosen is None or pair.rejected is None]
    assert unscored
    assert all("tokens, more than the reward model's limit of 220" in str(pair.why_none) for pair in unscored)


def test_several_tutors_in_one_load_and_a_kill_between_batches(trained: Path, tmp_path: Path) -> None:
    records = read_source(Path("resources/demo/mathtutorbench/datasets/mathdial_bridge.json"), "json")
    items = mathdial_bridge.next_turn(records, "scaffolding")
    write_records(tmp_path / "items/scaffolding.jsonl", items)

    def reply(item: Item, model: str, text: str, error: str | None = None) -> Reply:
        turn = Turn(messages="none", text=text)
        return Reply(id=item.id, task=item.task, tutor=model, key="k", turns=[turn], error=error)

    files = []
    for model in ("one", "two", "same"):
        replies = [reply(item, model, f"{'one' if model == 'same' else model}: why {item.id}?") for item in items]
        if model == "two":
            replies[0] = reply(items[0], model, "", error="context too long")
        files.append(tmp_path / f"{model}.jsonl")
        write_records(files[-1], replies)

    def run(name: str) -> Path:
        arguments: dict[str, object] = {
            "job": job(tasks=["scaffolding"], token_budget=512), "weights": trained / "manifest.json",
            "items": tmp_path / "items", "replies": files, "journal": tmp_path / f"{name}.j.jsonl", "out": tmp_path / name,
        }  # fmt: skip
        done = serve("score-rewards", **arguments)
        assert done.returncode == 0, done.stdout
        return tmp_path / name

    whole = read_records(run("whole"), Reward)
    assert len(whole) == 3 * len(items)
    refused = [reward for reward in whole if reward.score is None]
    assert [(reward.tutor, reward.why_none) for reward in refused] == [("two", "refused: context too long")]
    scores = {(reward.tutor, reward.id): reward.score for reward in whole}
    assert all(scores["one", item.id] == scores["same", item.id] for item in items), "equal replies are scored once"
    # After a kill, the journal contains the first batches and part of the next line.
    lines = (tmp_path / "whole.j.jsonl").read_text().splitlines(keepends=True)
    assert len(lines) == 2 * len(items) - 1
    (tmp_path / "killed.j.jsonl").write_text("".join(lines[:6]) + lines[6][:40])
    resumed = read_records(run("killed"), Reward)
    assert [(reward.id, reward.score) for reward in resumed] == [(reward.id, reward.score) for reward in whole]
    after = (tmp_path / "killed.j.jsonl").read_text().splitlines()
    keys = [json.loads(line)["key"] for line in after if line.endswith("}")]
    assert len(keys) == len(set(keys)) == 2 * len(items) - 1 and after[:6] == [line.strip() for line in lines[:6]]


def test_odd_models_are_refused_by_one_line(trained: Path, tiny: Path, preferences: Path, tmp_path: Path) -> None:
    two = tmp_path / "two"
    shutil.copytree(trained, two, symlinks=True)
    config = json.loads((two / "config.json").read_text())
    (two / "config.json").write_text(json.dumps({**config, "id2label": {"0": "a", "1": "b"}, "num_labels": 2}))
    arguments: dict[str, object] = {
        "job": job(), "pairs": preferences / "bridge/pairs.jsonl",
        "journal": tmp_path / "j.jsonl", "out": [tmp_path / "out.jsonl", tmp_path / "labelled.jsonl"],
        "labels": preferences / "labels/labels.jsonl",
    }  # fmt: skip
    done = serve("score-pairs", weights=two / "manifest.json", **arguments)
    assert done.returncode == 2
    assert "models.m.weights: expected a reward model with one output, found 2. Fix:" in done.stdout
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
    """InternLM2's form: its score is read at a token after the conversation. Padding in batches does not change it."""
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
    arguments: dict[str, object] = {
        "job": ScorePairs(reward_model="m", entry=entry).to_json(), "weights": folder / "manifest.json",
        "pairs": preferences / "bridge/pairs.jsonl", "journal": tmp_path / "j.jsonl",
        "out": [tmp_path / "out.jsonl", tmp_path / "labelled.jsonl"], "labels": preferences / "labels/labels.jsonl",
    }  # fmt: skip
    done = subprocess.run(command("score-pairs", **arguments), capture_output=True, text=True, env=env)
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
    done = subprocess.run(command("score-pairs", **arguments), capture_output=True, text=True, env=env)
    assert "models.m.adapter: adapter internlm2 requires the architecture InternLM2ForRewardModel" in done.stderr
    assert "config.json, which has the architecture LlamaForCausalLM. Fix: remove the adapter" in done.stderr


# Prints the token ids of all pairs' conversations, cut to 199 tokens: max_length without the reward token.
TOKENS = """
import json, sys
from pathlib import Path
from maieutic.core.records import Pair, read_records
from maieutic.rewards.loading import load_tokenizer
from maieutic.serving.conversations import messages_to_score, encode_conversations
pairs = read_records(Path(sys.argv[2]), Pair)
conversations = [messages_to_score(pair.prompt, text, "") for pair in pairs for text in (pair.chosen, pair.rejected)]
print(json.dumps(encode_conversations(load_tokenizer(Path(sys.argv[1])), conversations, 199)))
"""


def test_criteria_classifiers_go_on_after_a_kill(tiny: Path, preferences: Path, tmp_path: Path) -> None:
    records = read_source(Path("resources/demo/mrbench/MRBench_V1.json"), "json")
    train = {"base": "tiny", "criteria": ["Actionability", "Tutor_Tone"], "epochs": 1, "max_length": 64}

    def arguments(name: str) -> dict[str, object]:
        return {
            "job": TrainCriteria(
                classifier="c", entry=CriteriaModel(engine="criteria", train=train), form="json"
            ).to_json(),
            "base": tiny / "manifest.json", "labels": "resources/demo/mrbench/MRBench_V1.json",
            "pairs": preferences / "bridge/pairs.jsonl",
            "journal": tmp_path / f"{name}.journal", "out": tmp_path / name / "heldout.jsonl",
        }  # fmt: skip

    done = serve("train-criteria", **arguments("whole"))
    assert done.returncode == 0, done.stdout
    counts = json.loads((tmp_path / "whole/training.json").read_text())["counts"]
    assert counts["train_replies"] + counts["test_replies"] == len(mrbench.labelled_replies(records))
    bridge = read_records(tmp_path / "whole/bridge.jsonl", PairReward)
    assert {pair.criterion for pair in bridge} == {"Actionability", "Tutor_Tone"} and len(bridge) == 40
    assert all(0 <= float(pair.chosen or 0) <= 1 for pair in bridge)
    assert not (tmp_path / "whole.journal").exists(), "finished classifiers are stored only in the output"

    with open(tmp_path / "log", "w", encoding="utf-8") as log:
        process = subprocess.Popen(
            command("train-criteria", **arguments("killed")), stdout=log, stderr=log, env=environment()
        )
    wait_for(process, tmp_path / "log", lambda: (tmp_path / "killed.journal/Actionability/model/history.json").exists())
    process.send_signal(signal.SIGKILL)
    process.wait()
    done = serve("train-criteria", **arguments("killed"))
    assert done.returncode == 0 and "c/Actionability is already trained" in done.stdout, done.stdout
    for name in ("bridge.jsonl", "heldout.jsonl", "training.json"):
        assert (tmp_path / "killed" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes(), name
