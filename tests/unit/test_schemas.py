"""Tests of the tables of configuration keys that the docs contain."""

from __future__ import annotations

from maieutic.tools.schemas import keys_table
from pydantic import BaseModel, Field


class Inner(BaseModel):
    """Model within another."""

    depth: int = Field(3, description="how deep")
    silent: int = 4


class Wider(Inner):
    """Model with the keys of `Inner` and one more."""

    width: float = Field(description="how wide")


def test_a_table_of_keys_is_markdown() -> None:
    assert keys_table(Wider, set(), set()) == [
        "| key | meaning | default |\n| --- | --- | --- |\n| `depth` | How deep | `3` |\n| `width` | How wide | |"
    ]
