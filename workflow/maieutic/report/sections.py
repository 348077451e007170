"""The parts of the page, rendered one by one. If a part fails, a box replaces it, and the other parts still appear."""

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
from maieutic.replies.reply_counts import ReplyCounts

log = logging.getLogger(__name__)
Variables = Mapping[str, Any]
T = TypeVar("T")
WHOLE_RUN = ""  # group of pages that belong to no benchmark
LONGEST = 300  # maximum number of characters of an error shown on the page


class ReportInput(NamedTuple):
    """Inputs of the page's parts.

    unanswered: benchmark, tutor and reply counts wherever a tutor left too many of a benchmark's items unanswered.
    unheeded: each tutor or judge whose endpoint silently changed a request, with a description of the change.
    sizes: number of items of each task, by benchmark and task. costs: cost of each judge's answers
    (`maieutic.report.trust.cost_rows`).
    """

    plan: Plan
    results: Path
    scores: dict[str, list[ReportedScore]]
    provenance: Provenance | None
    unanswered: Sequence[tuple[str, str, ReplyCounts]] = ()
    unheeded: Sequence[tuple[str, str]] = ()
    sizes: Mapping[tuple[str, str], int] = {}
    costs: Sequence[Mapping[str, Any]] = ()


class Section(NamedTuple):
    """A page that a benchmark or an extension adds.

    address: address of the page, in the form `#/NAME`. menu: title of the page in the menu. template: name of the
    template in the benchmark's folder, without `.html.jinja`. produce: function that returns the template's variables,
    or None if the run has nothing to show. filters: template filters by name. main: True for a page in the main menu.
    opens: returns True for a run whose document opens on this page, instead of the overview.
    """

    address: str
    menu: str
    template: str
    produce: Callable[[ReportInput], Variables | None]
    filters: Mapping[str, Callable[..., str]] = {}
    main: bool = False
    opens: Callable[[Plan], bool] = lambda plan: False


class Problem(NamedTuple):
    """A part of the page that could not be made, and the error as one line."""

    part: str
    error: str


class Page(NamedTuple):
    """One page of the document.

    menu: title in the menu, None for a page that is reached only by links; group: None for a page in the main menu;
    otherwise the page is in the list of further pages, under a benchmark's name or, with WHOLE_RUN, under the run.
    """

    address: str
    menu: str | None
    html: Markup
    group: str | None = None


class PartRenderer:
    """Renders parts of the page with the environment's templates, and records the failed parts in `problems`.

    shared: variables passed to every template.
    """

    def __init__(self, environment: Environment, shared: Variables) -> None:
        self.environment, self.shared = environment, shared
        self.problems: list[Problem] = []

    def part(self, title: str, template: str, produce: Callable[[], Variables | None]) -> Markup:
        """Render a template with the variables that `produce` returns.

        Returns an empty string if `produce` returns None, and a box with the error if an error is raised.
        """
        try:
            variables = produce()
            if variables is None:
                return Markup("")
            return Markup(self.environment.get_template(f"{template}.html.jinja").render(**self.shared, **variables))
        except Exception as error:  # catch every error, so that the other parts of the page still appear
            log.exception("could not make a part of the page: %s", title)
            problem = as_problem(title, error)
            self.problems.append(problem)
            return Markup(self.environment.get_template("broken.html.jinja").render(problem=problem))

    def page(
        self,
        address: str,
        menu: str | None,
        title: str,
        template: str,
        produce: Callable[[], Variables | None],
        group: str | None = None,
    ) -> list[Page]:
        """Render a part as a separate page. Return a list with this page, or an empty list if there is no content."""
        html = self.part(title, template, produce)
        return [Page(address, menu, html, group)] if html else []

    def data(self, title: str, produce: Callable[[], T], instead: T) -> T:
        """Return the data that `produce` returns, or `instead` if it raises an error. title: name of the data."""
        try:
            return produce()
        except Exception as error:
            log.exception("could not make a part of the page: %s", title)
            self.problems.append(as_problem(title, error))
            return instead


def as_problem(title: str, error: Exception) -> Problem:
    """Return the Problem for a failed part, with the error as one line. title: title of the part."""
    return Problem(title, f"{type(error).__name__}: {' '.join(str(error).split())[:LONGEST]}")
