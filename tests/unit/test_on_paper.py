"""Time on paper by hand, and the tables of keys by small models."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import pytest
from maieutic.config.models import HostedModel, ModelSize, VllmModel
from maieutic.plan.schemas import described_keys, keys_table
from maieutic.plan.serving_time import GPUS, Gpu, ParameterCount, fits_in_memory, parameter_count, server_seconds
from pydantic import BaseModel, Field

# The entry's name, its keys, and its size: billions stored, billions that a token uses.
SIZES: dict[str, tuple[str, dict[str, Any], tuple[float, float] | None]] = {
    "in its name": ("qwen-7b", {}, (7, 7)),
    "a decimal": ("llama-1.5B-it", {}, (1.5, 1.5)),
    "in its label": ("ours", {"label": "Ours, 14 B"}, (14, 14)),
    "on the hub": ("ours", {"weights": {"repo": "org/Model-72B-Instruct"}}, (72, 72)),
    "the hub before the name": ("small-3b", {"weights": {"repo": "org/large-70b"}}, (70, 70)),
    "millions": ("smollm2-135m", {}, (0.135, 0.135)),
    "millions with a blank": ("ours", {"label": "360 M"}, (0.36, 0.36)),
    "billions before millions": ("135m-of-2b", {}, (2, 2)),
    "said": ("ours-7b", {"size": {"total": 30}}, (30, 30)),
    "a mixture of experts": ("ours-7b", {"size": {"total": 30, "active": 3}}, (30, 3)),
    "a version": ("v1.2", {}, None),
    "bits": ("ours-4bit", {}, None),
    "bytes": ("ours-4mb", {}, None),
    "nothing": ("ours", {}, None),
}


@pytest.mark.parametrize("case", SIZES)
def test_a_models_size_is_as_its_entry_or_its_names_say(case: str) -> None:
    name, keys, expected = SIZES[case]
    model = VllmModel.model_validate({"engine": "vllm", "weights": {"path": "here"}, **keys})
    assert parameter_count(name, model) == (expected and ParameterCount(*expected))


def test_nobody_knows_the_size_of_a_hosted_model() -> None:
    model = HostedModel.model_validate({"engine": "hosted", "base_url": "http://127.0.0.1:9/v1", "model": "m-7b"})
    assert parameter_count("hosted-7b", model) is None and ModelSize(total=7).active is None


def test_seconds_are_reading_and_writing_and_a_start() -> None:
    """Of a GPU of round numbers: a start of 90 s, weights of 2 bytes by 2 GB a second, then prompts and answers."""
    gpu = Gpu(operations=1e12, bandwidth=1e12, memory=80e9)
    size, none = ParameterCount(10, 10), {"requests": 0.0, "prompts": 0.0, "answers": 0.0, "at_once": 1}
    assert server_seconds(size, gpu, 1, **none) == pytest.approx(90 + 10)
    read = {**none, "requests": 1.0, "prompts": 1000.0}
    assert server_seconds(size, gpu, 1, **read) == pytest.approx(100 + 2 * 10e9 * 1000 / 0.4e12)
    assert server_seconds(size, gpu, 4, **read) == pytest.approx(100 + 2 * 10e9 * 1000 / 1.6e12)
    written = {**none, "requests": 1.0, "answers": 60.0}
    by_memory, by_arithmetic = 2 * 10e9 / 0.6e12, 2 * 10e9 / 0.4e12
    assert by_arithmetic > by_memory, "on so slow a processor one sequence is bound by arithmetic"
    assert server_seconds(size, gpu, 1, **written) == pytest.approx(100 + 60 * by_arithmetic)
    fast = gpu._replace(operations=1e15)
    assert server_seconds(size, fast, 1, **written) == pytest.approx(100 + 60 * by_memory)
    assert server_seconds(size, fast, 2, **written) == pytest.approx(100 + 60 * by_memory / 2)
    together = {**written, "requests": 6.0, "at_once": 4}
    assert server_seconds(size, fast, 1, **together) == pytest.approx(100 + 60 / 4 * by_memory), "four share a step"
    assert server_seconds(size, fast, 1, **{**together, "at_once": 100}) == pytest.approx(100 + 60 / 6 * by_memory)
    sparse = ParameterCount(10, 1)
    for at_once, touched in ((1, 1e9), (4, 4e9), (100, 10e9)):
        told = server_seconds(sparse, fast, 1, **{**written, "requests": 100.0, "at_once": at_once})
        assert told == pytest.approx(100 + 60 / at_once * max(2 * touched / 0.6e12, 2 * 1e9 * at_once / 0.4e15))


def test_weights_leave_a_quarter_of_the_memory() -> None:
    assert fits_in_memory(ParameterCount(30, 30), GPUS["h100"], 1) and not fits_in_memory(
        ParameterCount(30.1, 1), GPUS["h100"], 1
    )
    assert fits_in_memory(ParameterCount(60, 60), GPUS["h100"], 2) and not fits_in_memory(
        ParameterCount(60.1, 60), GPUS["h100"], 2
    )
    assert fits_in_memory(ParameterCount(9, 9), GPUS["a10"], 1) and not fits_in_memory(
        ParameterCount(9.1, 9.1), GPUS["a10"], 1
    )


class Inner(BaseModel):
    """Within another."""

    depth: int = Field(3, description="how deep")
    silent: int = 4


class Wider(Inner):
    """Has the keys of one that stands beside it."""

    width: float = Field(description="how wide")


class Outer(BaseModel):
    """As a configuration is written."""

    engine: Literal["x"] = Field("x", description="says what it is, in a table of its own")
    made: list[int] = Field(default_factory=lambda: [1, 2], description="made each time")
    name: str = Field(description="what it is called")
    ways: list[str] = Field(["a"], description="all ways")
    hidden: bool = False
    one: Inner = Field(Inner(), description="one of them")
    either: Annotated[Inner | Wider | None, "of several"] = Field(None, description="one or another")
    again: Inner = Inner()
    left_out: int = Field(1, description="stands elsewhere")


def test_keys_are_listed_with_their_meaning_and_their_default_once() -> None:
    known: set[type[BaseModel]] = set()
    assert list(described_keys(Outer, "p.", {"left_out"}, known)) == [
        ("p.made", "made each time", "`[1, 2]`"),
        ("p.name", "what it is called", ""),
        ("p.ways", "all ways", '`["a"]`'),
        ("p.one", "one of them", ""),
        ("p.one.depth", "how deep", "`3`"),
        ("p.either", "one or another", "`null`"),
        ("p.either.width", "how wide", ""),
    ]
    assert known == {Inner, Wider}, "whose keys are not listed again"
    assert ("left_out", "stands elsewhere", "`1`") in list(described_keys(Outer, "", set(), known))
    assert [key for key, _, _ in described_keys(Outer, "", set(), known)] == [
        "made",
        "name",
        "ways",
        "one",
        "either",
        "left_out",
    ]
    fresh = [key for key, _, _ in described_keys(Outer, "", set(), {Inner})]
    assert fresh == ["made", "name", "ways", "one", "either", "either.width", "left_out"]


def test_a_table_of_keys_is_markdown() -> None:
    assert keys_table(Wider, set(), set()) == [
        "| key | meaning | default |\n| --- | --- | --- |\n| `depth` | How deep | `3` |\n| `width` | How wide | |"
    ]
