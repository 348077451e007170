"""Pictures through a real server: a small model with random weights, served by vLLM, sees what it is sent."""

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
    """A picture encoder and a language model of a few layers each, with random weights and a manifest."""
    if not SERVE.exists():
        absent("the serving environment", "run make env")
    source, folder = tmp_path_factory.mktemp("source") / "seer", tmp_path_factory.mktemp("weights") / "seer"
    subprocess.run([SERVE, ROOT / "tests/vision_model.py", source], check=True, env=ENV)
    prepare("seer", {"path": str(source)}, folder)
    return folder


def painted(store: Path, colour: str) -> str:
    """A picture in the store."""
    held = io.BytesIO()
    Image.new("RGB", (50, 40), colour).save(held, "PNG")
    name = f"{hashlib.sha256(held.getvalue()).hexdigest()}.png"
    store.mkdir(exist_ok=True)
    (store / name).write_bytes(held.getvalue())
    return name


def test_a_served_model_sees_each_picture(tmp_path: Path, vision: Path) -> None:
    store, demo = tmp_path / "pictures", Path("resources/demo/tutorbench/train.csv")
    item = next(
        one for one in multimodal_items(read_source(demo, "csv"), "multimodal") if one.tags["use_case"] == "assessment"
    )
    shown = {"red": [painted(store, "red")], "blue": [painted(store, "blue")], "nothing": []}
    items = [item.model_copy(update={"id": name, "images": files}) for name, files in shown.items()]
    write_records(tmp_path / "multimodal.jsonl", items)
    entry = VllmModel.model_validate(model_of(vision, images=True, max_tokens=4, max_model_len=1024))
    paths = {
        "items": tmp_path,
        "weights": vision / "manifest.json",
        "pictures": store,
        "journal": tmp_path / "journal.jsonl",
        "server-log": tmp_path / "server.log",
        "out": tmp_path / "replies.jsonl",
        "prompts": tmp_path / "prompts.jsonl",
    }
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
    assert tokens["red"] == tokens["blue"] == tokens["nothing"] + 7, "four tokens of a picture, three around it"
    assert len({reply.text for reply in replies.values()}) == 3, "what is on the picture decides what is said"
    assert "base64" not in (tmp_path / "prompts.jsonl").read_text(encoding="utf-8")
