"""Training checkpoints, saved at time intervals. Only a complete checkpoint of the same training is resumed."""

from __future__ import annotations

import shutil
import time
from pathlib import Path
from typing import Any

COMPLETE_MARK = "whole"
IDENTITY_MARK = "identity"


def checkpoint_step(folder: Path) -> int:
    """Return the training step in the name of a checkpoint folder, such as 120 for `checkpoint-120`."""
    return int(folder.name.rpartition("-")[2])


def list_checkpoints(folder: Path) -> list[Path]:
    """Return all checkpoint folders in the folder of a training, from the oldest to the newest."""
    return sorted(folder.glob("checkpoint-[0-9]*"), key=checkpoint_step)


def discard_checkpoints(folder: Path) -> None:
    """Remove the folder of a training or a checkpoint.

    Marker files are removed first, so that a partly removed checkpoint is never resumed.
    """
    for mark in (IDENTITY_MARK, COMPLETE_MARK):
        for file in list(folder.rglob(mark)):
            file.unlink()
    shutil.rmtree(folder, ignore_errors=True)


def resume_from(folder: Path, identity: str) -> Path | None:
    """Return the newest complete checkpoint of the training with this identity, or None.

    Incomplete checkpoints and the files of a training with another identity are removed from `folder`.
    """
    mark = folder / IDENTITY_MARK
    if not mark.is_file() or mark.read_text(encoding="utf-8") != identity:
        discard_checkpoints(folder)
        folder.mkdir(parents=True, exist_ok=True)  # the folder may remain, since network file systems keep open files
        mark.write_text(identity, encoding="utf-8")
        return None
    for incomplete in [
        checkpoint for checkpoint in list_checkpoints(folder) if not (checkpoint / COMPLETE_MARK).exists()
    ]:
        discard_checkpoints(incomplete)
    return next(reversed(list_checkpoints(folder)), None)


def make_callback(kind: type, *args: Any) -> Any:
    """Return an instance of `kind` that is also a transformers callback.

    transformers is imported inside the function, because not every environment has it.
    """
    from transformers import TrainerCallback

    return type(kind.__name__, (kind, TrainerCallback), {})(*args)


class SaveByTime:
    """Trainer callback that saves a checkpoint every `seconds` seconds, and marks it as complete once it is on disk."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.saved = time.monotonic()

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> Any:
        """Request a checkpoint after an optimiser step if the interval has passed and training is not finished."""
        control.should_save = time.monotonic() - self.saved >= self.seconds and state.global_step < state.max_steps
        return control

    def on_save(self, args: Any, state: Any, control: Any, **_: Any) -> Any:
        """Mark the new checkpoint, whose files are all on disk, as complete, and remove older checkpoints."""
        newest = Path(args.output_dir) / f"checkpoint-{state.global_step}"
        (newest / COMPLETE_MARK).touch()
        for old in list_checkpoints(Path(args.output_dir)):
            if old != newest:
                discard_checkpoints(old)
        self.saved = time.monotonic()
        return control
