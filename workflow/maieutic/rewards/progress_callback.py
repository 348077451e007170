"""Progress of a training in the rule's log and on the terminal."""

from __future__ import annotations

import logging
import time
from typing import Any

from maieutic.core.progress import EVERY_SECONDS, clock

log = logging.getLogger(__name__)


class TellProgress:
    """Step, loss, accuracy and time left, every few seconds."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.said = self.began = time.monotonic()
        self.first = 0

    def on_train_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """The first step of this run, which a checkpoint may have moved on."""
        self.first, self.began = state.global_step, time.monotonic()

    def on_log(self, args: Any, state: Any, control: Any, logs: dict[str, Any] | None = None, **_: Any) -> None:
        """After every optimiser step."""
        last = state.global_step >= state.max_steps
        if not logs or "loss" not in logs or (time.monotonic() - self.said < EVERY_SECONDS and not last):
            return
        self.said = time.monotonic()
        rate = (state.global_step - self.first) / max(self.said - self.began, 1e-9)
        left = "" if last else f", {clock((state.max_steps - state.global_step) / max(rate, 1e-9))} left"
        seen = "".join(f", {key} {float(logs[key]):.3f}" for key in ("loss", "accuracy") if key in logs)
        log.info("%s: step %d/%d%s%s", self.name, state.global_step, state.max_steps, seen, left)
