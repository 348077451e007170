"""Try changes of the code in forks of one process that has collected the tests, so that a change costs only its tests.

The process itself runs no test, so that its caches stay empty. Forks run all tests once and record the functions that each
test reaches.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import multiprocessing
import os
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing.connection import Connection
from typing import Any, NamedTuple

import pytest
from changes import Change
from mutmut.mutation.trampoline import set_mutant_under_test
from mutmut.state import state

TEST_SECONDS = 20  # a test takes longer if the change makes a loop endless, and then it fails
CHANGE_SECONDS = 900.0
PART = 40  # number of changes of one function, with the same tests, that are tried in sequence
MOST_FIRST = 30  # tests
FEW_SECONDS = 12.0
QUICK = 0.5  # seconds of fixtures that are neglected
WORKERS = 2 * (os.cpu_count() or 1)  # more than cores, because many tests wait
STATS = "stats"  # mutmut's mode that records the called functions
NOTICED, SURVIVED, UNREACHED, HUNG = "noticed", "survived", "no test reaches it", "hung"
LEFT = "left to all tests"  # the quick tests have not noticed the change


class Result(NamedTuple):
    """Outcome of a change. test: the test that noticed it."""

    change: Change
    outcome: str
    test: str = ""


class Reach(NamedTuple):
    """Measurements of tests: reached functions, seconds without shared fixtures, seconds of those, and failures.

    The lists have an element for each test. modules: names of the modules that the tests imported.
    """

    functions: list[set[str]]
    seconds: list[float]
    shared: list[float]
    failed: list[str]
    modules: set[str]


class Trials:
    """Plug-in of pytest that tries changes instead of running the tests once."""

    def __init__(self, changes: dict[str, list[Change]], report: Callable[[Result], None]) -> None:
        """Set up the trials. changes: by function; report: called with each result at once."""
        self.changes, self.report = changes, report
        self.items: list[pytest.Item] = []
        self.reach = Reach([], [], [], [], set())
        self.failed = ""
        self.of_fixture: dict[str, set[str]] = {}
        self.shared: dict[
            str, float
        ] = {}  # seconds of the set-up of fixtures with a wider scope than one test, by name

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Record the first failure of a test."""
        if report.failed:
            self.failed = self.failed or report.longreprtext or "failed"

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef: Any) -> Iterator[None]:
        """Record the functions that a fixture reaches, because each test that uses it reaches them."""
        if os.environ.get("MUTANT_UNDER_TEST") != STATS:
            return (yield)
        earlier, start = set(state()._stats), time.monotonic()
        state()._stats.clear()
        try:
            return (yield)
        finally:
            if fixturedef.scope != "function":
                self.shared[fixturedef.argname] = time.monotonic() - start
            reached = set(state()._stats)
            self.of_fixture.setdefault(fixturedef.argname, set()).update(reached)
            state()._stats.update(earlier | reached)

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Measure the tests, then try the changes; those that few tests reach come first."""
        self.items = session.items
        trials.append(self)
        with ProcessPoolExecutor(WORKERS, multiprocessing.get_context("fork")) as workers:
            self.reach = merge_reaches(list(workers.map(reach_of_file, self.files())))
        failures = [
            f"{item.nodeid}\n{failure}" for item, failure in zip(self.items, self.reach.failed, strict=True) if failure
        ]
        if failures:
            raise pytest.UsageError("\n".join(["tests fail without a change of the code:", *failures]))
        for module in self.reach.modules:
            with contextlib.suppress(Exception):
                importlib.import_module(module)
        forget_answers()
        gc.freeze()
        every = [change for changes in self.changes.values() for change in changes]
        survivors = []
        for result in self.try_all(every, self.quick_tests_of):
            if result.outcome == SURVIVED:
                survivors.append(result.change)
                result = result._replace(outcome=LEFT)
            self.report(result)
        for result in self.try_all(survivors, self.tests_of):
            self.report(result)
        return True

    def try_all(self, changes: list[Change], tests_of: Callable[[str], list[int]]) -> Iterator[Result]:
        """Try changes and yield the results. tests_of: returns the tests of a function."""
        by_function: dict[str, list[Change]] = defaultdict(list)
        for change in changes:
            by_function[change.function].append(change)
        work = []
        for function, function_changes in by_function.items():
            tests = tests_of(function)
            work += [(function_changes[start : start + PART], tests) for start in range(0, len(function_changes), PART)]
        work.sort(key=lambda part: sum(self.reach.seconds[place] for place in part[1]))
        with ProcessPoolExecutor(WORKERS, multiprocessing.get_context("fork")) as workers:
            for future in as_completed([workers.submit(try_changes, *part) for part in work]):
                yield from future.result()

    def quick_tests_of(self, function: str) -> list[int]:
        """Return a function's first tests, a few seconds' worth: they notice most changes."""
        places, seconds = [], 0.0
        for place in self.tests_of(function):
            seconds += self.reach.seconds[place]
            if places and (seconds > FEW_SECONDS or self.reach.shared[place] > QUICK):
                break
            places.append(place)
        return places

    def files(self) -> list[list[int]]:
        """Return the tests of each file."""
        of_file: dict[str, list[int]] = defaultdict(list)
        for place in range(len(self.items)):
            of_file[self.file_of(place)].append(place)
        return list(of_file.values())

    def find_reach(self, places: list[int]) -> Reach:
        """Run the tests of one file once and return their measurements."""
        set_mutant_under_test(STATS)
        reached: list[set[str]] = []
        seconds, failed = [], []
        items = [self.items[place] for place in places]
        for item in items:
            item.add_marker(pytest.mark.timeout(CHANGE_SECONDS))  # this run also fills caches on disk
        start, earlier = time.monotonic(), 0.0
        for _, failure in self.in_turn(places):
            shared = sum(self.shared.values())
            seconds.append(time.monotonic() - start - (shared - earlier))
            reached.append(set(state()._stats))
            failed.append(failure)
            state()._stats.clear()
            start, earlier = time.monotonic(), shared
        for item, functions in zip(items, reached, strict=True):
            for name, of_fixture in self.of_fixture.items():
                if name in names_of(item):
                    functions |= of_fixture
        shared = [sum(self.shared.get(name, 0.0) for name in names_of(item)) for item in items]
        return Reach(reached, seconds, shared, failed, set(sys.modules))

    def tests_of(self, function: str) -> list[int]:
        """Return the tests that reach a function. Tests that reach few others come first, since they are quick."""
        places = [place for place, functions in enumerate(self.reach.functions) if function in functions]

        def cost(place: int) -> tuple[float, str, int, float]:
            shared = max(0.0, self.reach.shared[place] - QUICK)
            file = self.file_of(place) if shared else ""
            return (shared, file, len(self.reach.functions[place]), self.reach.seconds[place])

        return sorted(places, key=cost)

    def file_of(self, place: int) -> str:
        """Return the file of a test."""
        return self.items[place].nodeid.partition("::")[0]

    def outcome(self, change: Change, places: Sequence[int]) -> tuple[str, int | None]:
        """Return the outcome of a change and the test that noticed it (None without one, or after a crash)."""
        if not places:
            return UNREACHED, None
        try:
            place = in_a_fork(lambda: self.run(change, places), CHANGE_SECONDS)
        except TimeoutError:
            return HUNG, None
        except (ChildProcessError, EOFError):
            return NOTICED, None
        return (SURVIVED if place is None else NOTICED), place

    def run(self, change: Change, places: Sequence[int]) -> int | None:
        """Run tests with a change until one fails. Return its place, or None if none fails. Use it in a fork only."""
        set_mutant_under_test(change.name)
        return next((place for place, failure in self.in_turn(places) if failure), None)

    def in_turn(self, places: Sequence[int]) -> Iterator[tuple[int, str]]:
        """Run tests in sequence; yield the place of each and its failure, empty for a passed test."""
        for place, following in zip(places, [*places[1:], None], strict=True):
            self.failed = ""
            item, next_item = self.items[place], None if following is None else self.items[following]
            item.ihook.pytest_runtest_protocol(item=item, nextitem=next_item)
            yield place, self.failed


noticed: dict[str, Counter[int]] = defaultdict(
    Counter
)  # by module: number of changes that each test noticed in this worker
trials: list[Trials] = []  # the trials of this process; its workers inherit them, because they are forks


def names_of(item: pytest.Item) -> set[str]:
    """Return the fixtures that a test uses, directly or indirectly."""
    return set(getattr(item, "fixturenames", ()))


def merge_reaches(parts: list[Reach]) -> Reach:
    """Return the measurements of all files, concatenated in the files' order."""
    return Reach(
        [functions for part in parts for functions in part.functions],
        [seconds for part in parts for seconds in part.seconds],
        [seconds for part in parts for seconds in part.shared],
        [failed for part in parts for failed in part.failed],
        set[str]().union(*(part.modules for part in parts)),
    )


def reach_of_file(places: list[int]) -> Reach:
    """Return the measurements of one file's tests, from a fork."""
    [trial] = trials
    return in_a_fork(lambda: trial.find_reach(places))


def try_changes(changes: list[Change], places: list[int]) -> list[Result]:
    """Try changes of one function. The tests that noticed most changes of its module until now run first."""
    [trial] = trials
    results = []
    for change in changes:
        noticed_by = noticed[change.function.rpartition(".")[0]]
        first = [place for place, _ in noticed_by.most_common() if place in places][:MOST_FIRST]
        order = [*first, *(place for place in places if place not in first)]
        outcome, place = trial.outcome(change, order)
        if place is not None:
            noticed_by[place] += 1
        results.append(Result(change, outcome, "" if place is None else trial.items[place].nodeid))
    return results


def forget_answers() -> None:
    """Empty the caches of the package's functions: they contain results of the unchanged code."""
    modules = [module for name, module in list(sys.modules.items()) if name.startswith("maieutic.")]
    for value in [value for module in modules for value in vars(module).values()]:
        if clear := getattr(value, "cache_clear", None):
            clear()


def in_a_fork(function: Callable[[], Any], seconds: float | None = None) -> Any:
    """Return the result of a function that runs in a fork of this process.

    Raises TimeoutError if it takes longer than `seconds`, ChildProcessError with the traceback if the function raises,
    and EOFError if the fork ends without an answer. All processes that the fork starts are killed.
    """
    read_end, write_end = multiprocessing.Pipe(duplex=False)
    with tempfile.TemporaryDirectory(prefix="maieutic-mutant-") as folder, read_end:
        pid = os.fork()
        if pid == 0:
            answer_in_fork(function, folder, write_end)
        write_end.close()
        with contextlib.suppress(OSError):
            os.setpgid(pid, pid)
        try:
            if not read_end.poll(seconds):
                raise TimeoutError
            succeeded, answer = read_end.recv()
            if not succeeded:
                raise ChildProcessError(answer)
            return answer
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(pid, signal.SIGKILL)
            os.waitpid(pid, 0)


def answer_in_fork(function: Callable[[], Any], folder: str, connection: Connection) -> None:
    """Run a function in the fork and send its result. It does not return."""
    try:
        with contextlib.suppress(OSError):
            os.setpgid(0, 0)
        os.environ["PYTEST_DEBUG_TEMPROOT"] = folder  # parent folder of tmp_path
        null_device = os.open(os.devnull, os.O_RDWR)
        for stream in (0, 1, 2):
            os.dup2(null_device, stream)
        try:
            answer = function()
        except BaseException:
            connection.send((False, traceback.format_exc()))
            raise
        connection.send((True, answer))
    finally:
        os._exit(0)
