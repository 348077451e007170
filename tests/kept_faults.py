"""Every line of a fault that a unit test provokes is compared with the whole line that is kept in tests/cases/faults.

People read these lines: a test asks for a part of one, and `make faults` writes what is kept anew, for review.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from maieutic.core.errors import UserError

ROOT = Path(__file__).parents[1]
KEPT = ROOT / "tests/cases/faults"
ANEW = "MAIEUTIC_FAULTS_ANEW"  # set: nothing is compared, and what is kept is written anew
SEEN: dict[str, dict[str, list[str]]] = {}  # by module and test, of this process


@cache
def kept_of(module: str) -> dict[str, list[str]]:
    """The lines of a module's tests."""
    path = KEPT / f"{module}.json"
    kept: dict[str, list[str]] = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    return kept


@contextmanager
def noting(told: list[str], patch: pytest.MonkeyPatch) -> Iterator[None]:
    """Note what `pytest.raises(UserError)` catches meanwhile."""
    real = pytest.raises

    @contextmanager
    def raises(expected: Any, *words: Any, **options: Any) -> Iterator[Any]:
        with real(expected, *words, **options) as caught:
            yield caught
        if isinstance(caught.value, UserError):
            told.append(caught.value.lines)

    with patch.context() as inner:
        inner.setattr(pytest, "raises", raises)
        yield


def without_places(text: str, item: pytest.Function) -> str:
    """The text without what differs from run to run: folders, ports, processes, locks."""
    temporary = str(item.config._tmp_path_factory.getbasetemp())  # type: ignore[attr-defined]
    # pytest numbers a test's folder by those before it.
    text = re.sub(re.escape(temporary) + r"/[^/\s,:'\"]+", "TMP", text).replace(str(ROOT), "ROOT")
    text = re.sub(r"(127\.0\.0\.1|localhost):\d+", r"\1:PORT", text)
    text = re.sub(r"host \S+ pid \d+", "host HOST pid PID", text)
    return re.sub(r"(this checkout has| or) [0-9a-f]{16}\b", r"\1 LOCK", text)


@pytest.hookimpl(wrapper=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> Generator[None, Any, Any]:
    """Compare the faults of a test that has passed."""
    told: list[str] = []
    with noting(told, pytest.MonkeyPatch()):
        outcome = yield
    here = Path(pyfuncitem.path).parent.name == "unit"
    if told and here and pyfuncitem.get_closest_marker("own_faults") is None:
        module, name = Path(pyfuncitem.path).stem, pyfuncitem.name
        lines = [without_places(one, pyfuncitem) for one in told]
        if ANEW in os.environ:
            SEEN.setdefault(module, {})[name] = lines
        else:
            kept = kept_of(module).get(name)
            words = f"{KEPT.name}/{module}.json has other lines; where the new ones are meant: make faults"
            assert lines == kept, f"{words}\nkept: {kept}\nnow:  {lines}"
    return outcome


def pytest_sessionfinish() -> None:
    """Write what is kept anew."""
    for module, tests in SEEN.items():
        # Those of tests that were not called this time stay; `make faults` begins with none.
        text = json.dumps(dict(sorted({**kept_of(module), **tests}.items())), indent=1) + "\n"
        (KEPT / f"{module}.json").write_text(text, encoding="utf-8")
