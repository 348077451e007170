"""Progress of a training, which is shown in the rule's log and on the terminal."""

from __future__ import annotations

import logging
import time
from typing import Any

from maieutic.core.progress import EVERY_SECONDS, Progress, format_duration

log = logging.getLogger(__name__)


class ProgressLog:
    """Trainer callback that logs the step, the loss, the accuracy and the time left every few seconds."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.logged = self.began = time.monotonic()
        self.first = 0
        self.progress: Progress | None = None

    def on_train_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Record the step at which this run starts, which is above 0 if it resumes from a checkpoint."""
        self.first, self.began = state.global_step, time.monotonic()
        self.progress = Progress(self.name, state.max_steps, "steps")
        self.progress.done = self.first

    def on_log(self, args: Any, state: Any, control: Any, logs: dict[str, Any] | None = None, **_: Any) -> None:
        """Log the progress if the interval has passed or training ends. Called after every optimiser step."""
        last = state.global_step >= state.max_steps
        while self.progress is not None and self.progress.done < state.global_step:
            self.progress.step()
        if not logs or "loss" not in logs or (time.monotonic() - self.logged < EVERY_SECONDS and not last):
            return
        self.logged = time.monotonic()
        rate = (state.global_step - self.first) / max(self.logged - self.began, 1e-9)
        left = "" if last else f", {format_duration((state.max_steps - state.global_step) / max(rate, 1e-9))} left"
        metrics = "".join(f", {key} {float(logs[key]):.3f}" for key in ("loss", "accuracy") if key in logs)
        log.info("%s: step %d/%d%s%s", self.name, state.global_step, state.max_steps, metrics, left)
