"""Tests of the tables of configuration keys that the docs contain."""

from __future__ import annotations

from typing import Annotated, Literal

from maieutic.tools.schemas import described_keys, keys_table
from pydantic import BaseModel, Field


class Inner(BaseModel):
    """Model within another."""

    depth: int = Field(3, description="how deep")
    silent: int = 4


class Wider(Inner):
    """Model with the keys of `Inner` and one more."""

    width: float = Field(description="how wide")


class Outer(BaseModel):
    """Model of a configuration."""

    engine: Literal["x"] = Field("x", description="kind of model, listed in a separate table")
    made: list[int] = Field(default_factory=lambda: [1, 2], description="made each time")
    name: str = Field(description="what it is called")
    ways: list[str] = Field(["a"], description="all ways")
    hidden: bool = False
    nested: Inner = Field(Inner(), description="one of them")
    either: Annotated[Inner | Wider | None, "of several"] = Field(None, description="one or another")
    again: Inner = Inner()
    left_out: int = Field(1, description="stands elsewhere")


def test_keys_are_listed_with_their_meaning_and_their_default_once() -> None:
    known: set[type[BaseModel]] = set()
    assert list(described_keys(Outer, "p.", {"left_out"}, known)) == [
        ("p.made", "made each time", "`[1, 2]`"), ("p.name", "what it is called", ""),
        ("p.ways", "all ways", '`["a"]`'), ("p.nested", "one of them", ""), ("p.nested.depth", "how deep", "`3`"),
        ("p.either", "one or another", "`null`"), ("p.either.width", "how wide", ""),
    ]  # fmt: skip
    assert known == {Inner, Wider}, "their keys are not listed again"
    assert ("left_out", "stands elsewhere", "`1`") in list(described_keys(Outer, "", set(), known))
    assert [key for key, _, _ in described_keys(Outer, "", set(), known)] == [
        "made", "name", "ways", "nested", "either", "left_out",
    ]  # fmt: skip
    fresh = [key for key, _, _ in described_keys(Outer, "", set(), {Inner})]
    assert fresh == ["made", "name", "ways", "nested", "either", "either.width", "left_out"]


def test_a_table_of_keys_is_markdown() -> None:
    assert keys_table(Wider, set(), set()) == [
        "| key | meaning | default |\n| --- | --- | --- |\n| `depth` | How deep | `3` |\n| `width` | How wide | |"
    ]
