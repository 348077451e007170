"""Tests of sizes of models, and of serving times against times computed by hand."""

from __future__ import annotations

from typing import Any

import pytest
from maieutic.config.models import VllmModel
from maieutic.launch.serving_time import Gpu, ParameterCount, parameter_count, server_seconds

# An entry's name, its keys, and its size in billions of parameters: stored, and used for one token.
SIZES: dict[str, tuple[str, dict[str, Any], tuple[float, float] | None]] = {
    "in its name": ("qwen-7b", {}, (7, 7)),
    "a decimal": ("llama-1.5B-it", {}, (1.5, 1.5)),
    "in its label": ("ours", {"label": "Ours, 14 B"}, (14, 14)),
    "on the hub": ("ours", {"weights": {"repo": "org/Model-72B-Instruct"}}, (72, 72)),
    "the hub before the name": ("small-3b", {"weights": {"repo": "org/large-70b"}}, (70, 70)),
    "millions": ("smollm2-135m", {}, (0.135, 0.135)),
    "millions with a blank": ("ours", {"label": "360 M"}, (0.36, 0.36)),
    "billions before millions": ("135m-of-2b", {}, (2, 2)),
    "in its size key": ("ours-7b", {"size": {"total": 30}}, (30, 30)),
    "a mixture of experts": ("ours-7b", {"size": {"total": 30, "active": 3}}, (30, 3)),
    "a version": ("v1.2", {}, None),
    "bits": ("ours-4bit", {}, None),
    "bytes": ("ours-4mb", {}, None),
    "nothing": ("ours", {}, None),
}


@pytest.mark.parametrize("case", SIZES)
def test_a_models_size_is_read_from_its_entry_or_its_names(case: str) -> None:
    name, keys, expected = SIZES[case]
    model = VllmModel.model_validate({"engine": "vllm", "weights": {"path": "here"}, **keys})
    assert parameter_count(name, model) == (expected and ParameterCount(*expected))


def test_seconds_are_those_of_the_start_the_prompts_and_the_answers() -> None:
    """A start takes 90 s plus the loading of 2 bytes a parameter at 2 GB/s; then prompts and answers take time."""
    gpu = Gpu(operations=1e12, bandwidth=1e12, memory=80e9)
    size, no_work = ParameterCount(10, 10), {"requests": 0.0, "prompts": 0.0, "answers": 0.0, "at_once": 1}
    assert server_seconds(size, gpu, 1, **no_work) == pytest.approx(90 + 10)
    prompts_only = {**no_work, "requests": 1.0, "prompts": 1000.0}
    assert server_seconds(size, gpu, 1, **prompts_only) == pytest.approx(100 + 2 * 10e9 * 1000 / 0.4e12)
    assert server_seconds(size, gpu, 4, **prompts_only) == pytest.approx(100 + 2 * 10e9 * 1000 / 1.6e12)
    answers_only = {**no_work, "requests": 1.0, "answers": 60.0}
    by_memory, by_arithmetic = 2 * 10e9 / 0.6e12, 2 * 10e9 / 0.4e12
    assert by_arithmetic > by_memory, "a single sequence is bound by arithmetic on this slow GPU"
    assert server_seconds(size, gpu, 1, **answers_only) == pytest.approx(100 + 60 * by_arithmetic)
    fast = gpu._replace(operations=1e15)
    assert server_seconds(size, fast, 1, **answers_only) == pytest.approx(100 + 60 * by_memory)
    assert server_seconds(size, fast, 2, **answers_only) == pytest.approx(100 + 60 * by_memory / 2)
    together = {**answers_only, "requests": 6.0, "at_once": 4}
    assert server_seconds(size, fast, 1, **together) == pytest.approx(100 + 60 / 4 * by_memory), "four share a step"
    assert server_seconds(size, fast, 1, **{**together, "at_once": 100}) == pytest.approx(100 + 60 / 6 * by_memory)
    sparse = ParameterCount(10, 1)
    for at_once, read in ((1, 1e9), (4, 4e9), (100, 10e9)):
        seconds = server_seconds(sparse, fast, 1, **{**answers_only, "requests": 100.0, "at_once": at_once})
        assert seconds == pytest.approx(100 + 60 / at_once * max(2 * read / 0.6e12, 2 * 1e9 * at_once / 0.4e15))
