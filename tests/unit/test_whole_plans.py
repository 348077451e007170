"""The whole plan of some runs, against what is kept of it: who meant a change runs `make plans` and looks at the diff."""

from __future__ import annotations

import pytest
from whole_plans import RUNS, file_of, text_of


@pytest.mark.parametrize("name", RUNS)
def test_the_plan_of_a_run_is_what_it_was(name: str) -> None:
    assert text_of(name).splitlines() == file_of(name).read_text(encoding="utf-8").splitlines()
