"""The page's parts, each made on its own: one that raises becomes a box with its error, and the others come out."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from jinja2 import Environment
from markupsafe import Markup

from maieutic.core.records import ReportedScore
from maieutic.plan.plan import Plan
from maieutic.plan.provenance import Provenance
from maieutic.replies.answered import Answered

log = logging.getLogger(__name__)
Variables = Mapping[str, Any]
T = TypeVar("T")
LONGEST = 300  # characters of an error on the page


class Run(NamedTuple):
    """What every part of the page is made of.

    unanswered: benchmark, tutor and counts, where most items have no answer; unheeded: tutor or judge, and a line of
    what its endpoint changed in silence.
    """

    plan: Plan
    results: Path
    scores: dict[str, list[ReportedScore]]
    provenance: Provenance | None
    unanswered: Sequence[tuple[str, str, Answered]] = ()
    unheeded: Sequence[tuple[str, str]] = ()


class Section(NamedTuple):
    """A page that a benchmark adds.

    address: of the page, as #/NAME; menu: its name there; template: NAME of NAME.html.jinja in the benchmark's folder;
    produce: the template's variables, None where a run has nothing to show; filters: that the template uses.
    """

    address: str
    menu: str
    template: str
    produce: Callable[[Run], Variables | None]
    filters: Mapping[str, Callable[..., str]] = {}


class Problem(NamedTuple):
    """A part of the page that could not be made."""

    part: str
    error: str


class Page(NamedTuple):
    """One page of the document: its address, its name in the menu (none: reached by links), its HTML."""

    address: str
    menu: str | None
    html: Markup


class Parts:
    """Renders parts with the environment's templates, and remembers which ones failed.

    shared: variables of every template.
    """

    def __init__(self, environment: Environment, shared: Variables) -> None:
        self.environment, self.shared = environment, shared
        self.problems: list[Problem] = []

    def part(self, title: str, template: str, produce: Callable[[], Variables | None]) -> Markup:
        """A rendered template; nothing where there is nothing to show; a box with the error where it raises."""
        try:
            variables = produce()
            if variables is None:
                return Markup("")
            return Markup(self.environment.get_template(f"{template}.html.jinja").render(**self.shared, **variables))
        except Exception as error:  # of whatever kind: the rest of the page must come out
            log.exception("the page's part %s could not be made", title)
            problem = problem_of(title, error)
            self.problems.append(problem)
            return Markup(self.environment.get_template("broken.html.jinja").render(problem=problem))

    def page(
        self, address: str, menu: str | None, title: str, template: str, produce: Callable[[], Variables | None]
    ) -> list[Page]:
        """A page of one part; none where there is nothing to show."""
        html = self.part(title, template, produce)
        return [Page(address, menu, html)] if html else []

    def data(self, title: str, produce: Callable[[], T], instead: T) -> T:
        """Data of the page; `instead` where they cannot be made."""
        try:
            return produce()
        except Exception as error:
            log.exception("the page's part %s could not be made", title)
            self.problems.append(problem_of(title, error))
            return instead


def problem_of(title: str, error: Exception) -> Problem:
    """An error as one line."""
    return Problem(title, f"{type(error).__name__}: {' '.join(str(error).split())[:LONGEST]}")
