"""Checkpoints of a training: saved by time, used again only when whole and of the very same training."""

from __future__ import annotations

import shutil
import time
from pathlib import Path
from typing import Any

WHOLE = "whole"
IDENTITY = "identity"


def step_of(folder: Path) -> int:
    """The step of a checkpoint's folder, `checkpoint-120`."""
    return int(folder.name.rpartition("-")[2])


def checkpoints(folder: Path) -> list[Path]:
    """All checkpoints, the newest last."""
    return sorted(folder.glob("checkpoint-[0-9]*"), key=step_of)


def discard(folder: Path) -> None:
    """Remove a training's folder, or one checkpoint, all marks first: half of it must not be gone on with."""
    for mark in (IDENTITY, WHOLE):
        for file in list(folder.rglob(mark)):
            file.unlink()
    shutil.rmtree(folder, ignore_errors=True)


def resume_from(folder: Path, identity: str) -> Path | None:
    """The newest whole checkpoint of this very training; others are removed: half-written ones, another training's."""
    mark = folder / IDENTITY
    if not mark.is_file() or mark.read_text(encoding="utf-8") != identity:
        discard(folder)
        folder.mkdir(parents=True, exist_ok=True)  # a network file system may keep an open file's shadow
        mark.write_text(identity, encoding="utf-8")
        return None
    for half in [checkpoint for checkpoint in checkpoints(folder) if not (checkpoint / WHOLE).exists()]:
        discard(half)
    return next(reversed(checkpoints(folder)), None)


def callback(kind: type, *args: Any) -> Any:
    """One of our classes as a callback of the trainer, made where transformers is: not every environment has it."""
    from transformers import TrainerCallback

    return type(kind.__name__, (kind, TrainerCallback), {})(*args)


class SaveByTime:
    """Save when so many seconds have passed, and mark what was saved as whole once it is."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.saved = time.monotonic()

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> Any:
        """After every optimiser step."""
        control.should_save = time.monotonic() - self.saved >= self.seconds and state.global_step < state.max_steps
        return control

    def on_save(self, args: Any, state: Any, control: Any, **_: Any) -> Any:
        """After everything of a checkpoint is on disk."""
        newest = Path(args.output_dir) / f"checkpoint-{state.global_step}"
        (newest / WHOLE).touch()
        for old in checkpoints(Path(args.output_dir)):
            if old != newest:
                discard(old)
        self.saved = time.monotonic()
        return control
