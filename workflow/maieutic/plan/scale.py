"""How long a served model takes on paper: reading prompts is bound by arithmetic, writing answers by memory.

A forward pass costs two operations a parameter and token. Prompts are read at a share of the GPUs' peak (BUSY); a step
of decoding reads all weights once for every sequence in flight, at a share of the memory's bandwidth (STREAMING).
docs/scale.md derives it, and compares.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from maieutic.config.models import Model, VllmModel

BUSY, STREAMING = 0.4, 0.6
BYTES = 2.0  # of a weight: bfloat16
START_SECONDS = 90.0  # of a server, besides reading its weights
DISK = 2e9  # bytes of weights a second
SIZE = re.compile(r"(?<![\d.])(\d+(?:\.\d+)?)\s?b(?![a-z])", re.IGNORECASE)


class Gpu(NamedTuple):
    """A GPU by its maker's data sheet: dense bfloat16 operations a second, bytes a second, bytes of memory."""

    operations: float
    bandwidth: float
    memory: float


GPUS = {
    "a10": Gpu(125e12, 0.6e12, 24e9),
    "l40s": Gpu(362e12, 0.864e12, 48e9),
    "a100": Gpu(312e12, 2.04e12, 80e9),
    "h100": Gpu(989e12, 3.35e12, 80e9),
    "h200": Gpu(989e12, 4.8e12, 141e9),
    "b200": Gpu(2250e12, 8.0e12, 180e9),
}


class Weights(NamedTuple):
    """Billions of parameters: all that are stored, and those that one token uses."""

    total: float
    active: float


def weights_of(name: str, model: Model) -> Weights | None:
    """A model's size: as its entry says, or as its names do (7B); None where neither does."""
    if not isinstance(model, VllmModel):
        return None
    if model.size is not None:
        return Weights(model.size.total, model.size.active or model.size.total)
    weights = model.weights
    words = " ".join(str(part) for part in (getattr(weights, "repo", None), model.label, name) if part)
    match = SIZE.search(words)
    if match is None and (small := re.search(r"(?<![\d.])(\d+)\s?m(?![a-z])", words, re.IGNORECASE)):
        return Weights(float(small[1]) / 1000, float(small[1]) / 1000)
    return Weights(float(match[1]), float(match[1])) if match else None


def seconds_of(
    size: Weights, gpu: Gpu, gpus: int, requests: float, prompts: float, answers: float, at_once: int
) -> float:
    """Seconds of one server for some requests, its start included.

    prompts, answers: tokens of all requests together; at_once: sequences in flight.
    """
    active, stored = size.active * 1e9, size.total * 1e9
    reading = 2 * active * prompts / (gpus * gpu.operations * BUSY)
    batch = max(1.0, min(at_once, requests))
    # A step for the whole batch: of a mixture of experts a large batch touches all of them.
    touched = min(stored, active * batch)
    memory = BYTES * touched / (gpus * gpu.bandwidth * STREAMING)
    arithmetic = 2 * active * batch / (gpus * gpu.operations * BUSY)
    writing = answers / batch * max(memory, arithmetic)
    return START_SECONDS + BYTES * stored / DISK + reading + writing


def fits(size: Weights, gpu: Gpu, gpus: int) -> bool:
    """Whether the weights leave room for what is kept of each sequence: a quarter of the memory."""
    return BYTES * size.total * 1e9 <= 0.75 * gpus * gpu.memory
