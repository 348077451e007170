"""Pictures through a real server: vLLM serves a small random model, which receives each picture that is sent to it."""

from __future__ import annotations

import hashlib
import io
import os
import subprocess
from pathlib import Path

import pytest
from conftest import ROOT, SERVE, absent, prepare
from maieutic.benchmarks.tutorbench.items import multimodal_items
from maieutic.config.models import VllmModel
from maieutic.core.records import Reply, read_records, write_records
from maieutic.datasets.sources import read_source
from maieutic.replies.generate import GenerateReplies
from PIL import Image
from small import model_of

ENV = {**os.environ, "PYTHONPATH": str(ROOT / "workflow"), "HF_HUB_OFFLINE": "1"}


@pytest.fixture(scope="module")
def vision(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the prepared weights of a random picture encoder and language model of a few layers each."""
    if not SERVE.exists():
        absent("the serving environment", "run make env")
    source, folder = tmp_path_factory.mktemp("source") / "seer", tmp_path_factory.mktemp("weights") / "seer"
    subprocess.run([SERVE, ROOT / "tests/vision_model.py", source], check=True, env=ENV)
    prepare("seer", {"path": str(source)}, folder)
    return folder


def painted(store: Path, colour: str) -> str:
    """Write a picture of one colour to the store, and return its file name."""
    buffer = io.BytesIO()
    Image.new("RGB", (50, 40), colour).save(buffer, "PNG")
    name = f"{hashlib.sha256(buffer.getvalue()).hexdigest()}.png"
    store.mkdir(exist_ok=True)
    (store / name).write_bytes(buffer.getvalue())
    return name


# The model's vocabulary is learned from vision_model.py: an edit there gives another model, whose replies may be equal.
def test_a_served_model_sees_each_picture(tmp_path: Path, vision: Path) -> None:
    store, demo = tmp_path / "pictures", Path("resources/demo/tutorbench/train.csv")
    item = next(
        item
        for item in multimodal_items(read_source(demo, "csv"), "multimodal")
        if item.tags["use_case"] == "assessment"
    )
    pictures = {"red": [painted(store, "red")], "blue": [painted(store, "blue")], "nothing": []}
    items = [item.model_copy(update={"id": name, "images": files}) for name, files in pictures.items()]
    write_records(tmp_path / "multimodal.jsonl", items)
    entry = VllmModel.model_validate(model_of(vision, images=True, max_tokens=4, max_model_len=1024))
    paths = {
        "items": tmp_path, "weights": vision / "manifest.json", "pictures": store,
        "journal": tmp_path / "journal.jsonl", "server-log": tmp_path / "server.log", "out": tmp_path / "replies.jsonl",
        "prompts": tmp_path / "prompts.jsonl",
    }  # fmt: skip
    job = GenerateReplies(
        tutor="seer", entry=entry, benchmark="tutorbench", tasks=["multimodal"], protocol="released", seed=1
    )
    command = [SERVE, "-m", "maieutic", "generate-replies", "--job", job.to_json()]
    command += [word for name, path in paths.items() for word in (f"--{name}", str(path))]
    done = subprocess.run([*map(str, command)], env=ENV, text=True, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr
    replies = {reply.id: reply for reply in read_records(tmp_path / "replies.jsonl", Reply)}
    assert not any(reply.error for reply in replies.values())
    tokens = {name: reply.turns[0].prompt_tokens or 0 for name, reply in replies.items()}
    assert tokens["red"] == tokens["blue"] == tokens["nothing"] + 7, "four tokens of a picture, and three around it"
    assert len({reply.text for reply in replies.values()}) == 3, "the reply depends on the content of the picture"
    assert "base64" not in (tmp_path / "prompts.jsonl").read_text(encoding="utf-8")
