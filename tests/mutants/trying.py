"""Try changes of the code in forks of one process that has collected the tests: each costs what its tests cost.

The process itself runs no test, so that it remembers none of their answers; a fork of it runs them all once, and says
which functions each of them reaches.
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

TEST_SECONDS = 20  # a change may make a loop endless: the test that it holds up fails
CHANGE_SECONDS = 900.0
PART = 40  # changes that are tried one after the other: of one function, whose tests they share
MOST_FIRST = 30  # tests
FEW_SECONDS = 12.0
QUICK = 0.5  # seconds of fixtures that do not matter
WORKERS = 2 * (os.cpu_count() or 1)  # many tests wait
STATS = "stats"  # mutmut: note which functions are called
NOTICED, SURVIVED, UNREACHED, HUNG = "noticed", "survived", "no test reaches it", "hung"
LEFT = "left to all tests"  # the quick ones have not noticed it


class Tried(NamedTuple):
    """What became of a change. test: the one that noticed it."""

    change: Change
    outcome: str
    test: str = ""


class Reach(NamedTuple):
    """What tests do, each: the functions that it reaches, its own seconds, those of fixtures of its file, how it fails.

    modules: what they have imported.
    """

    functions: list[set[str]]
    seconds: list[float]
    shared: list[float]
    failed: list[str]
    modules: set[str]


class Trials:
    """A plugin of pytest that tries changes in place of one run of the tests."""

    def __init__(self, changes: dict[str, list[Change]], told: Callable[[Tried], None]) -> None:
        """changes: by function; told: called with each outcome as it comes."""
        self.changes, self.told = changes, told
        self.items: list[pytest.Item] = []
        self.reach = Reach([], [], [], [], set())
        self.failed = ""
        self.of_fixture: dict[str, set[str]] = {}
        self.shared: dict[str, float] = {}  # by name, the seconds in which a fixture of a file was made

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Note that a test has failed, and how."""
        if report.failed:
            self.failed = self.failed or report.longreprtext or "failed"

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef: Any) -> Iterator[None]:
        """Note what a fixture reaches: every test that uses it does."""
        if os.environ.get("MUTANT_UNDER_TEST") != STATS:
            return (yield)
        before, began = set(state()._stats), time.monotonic()
        state()._stats.clear()
        try:
            return (yield)
        finally:
            if fixturedef.scope != "function":
                self.shared[fixturedef.argname] = time.monotonic() - began
            reached = set(state()._stats)
            self.of_fixture.setdefault(fixturedef.argname, set()).update(reached)
            state()._stats.update(before | reached)

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Find out what the tests reach, then try the changes, those first that few tests reach."""
        self.items = session.items
        trials.append(self)
        with ProcessPoolExecutor(WORKERS, multiprocessing.get_context("fork")) as workers:
            self.reach = joined(list(workers.map(reach_of_file, self.files())))
        failed = [f"{item.nodeid}\n{how}" for item, how in zip(self.items, self.reach.failed, strict=True) if how]
        if failed:
            raise pytest.UsageError("\n".join(["without a change of the code there fail:", *failed]))
        for module in self.reach.modules:
            with contextlib.suppress(Exception):
                importlib.import_module(module)
        forget_answers()
        gc.freeze()
        every = [change for changes in self.changes.values() for change in changes]
        left = []
        for tried in self.try_all(every, self.quick_tests_of):
            if tried.outcome == SURVIVED:
                left.append(tried.change)
                tried = tried._replace(outcome=LEFT)
            self.told(tried)
        for tried in self.try_all(left, self.tests_of):
            self.told(tried)
        return True

    def try_all(self, changes: list[Change], tests_of: Callable[[str], list[int]]) -> Iterator[Tried]:
        """Try changes, each by the tests that are given for its function, and tell what became of each."""
        by_function: dict[str, list[Change]] = defaultdict(list)
        for change in changes:
            by_function[change.function].append(change)
        work = []
        for function, of_it in by_function.items():
            places = tests_of(function)
            work += [(of_it[start : start + PART], places) for start in range(0, len(of_it), PART)]
        work.sort(key=lambda part: sum(self.reach.seconds[place] for place in part[1]))
        with ProcessPoolExecutor(WORKERS, multiprocessing.get_context("fork")) as workers:
            for done in as_completed([workers.submit(try_changes, *part) for part in work]):
                yield from done.result()

    def quick_tests_of(self, function: str) -> list[int]:
        """Of a function's tests the first, as long as they take no more than a few seconds: most changes fail there."""
        found, seconds = [], 0.0
        for place in self.tests_of(function):
            seconds += self.reach.seconds[place]
            if found and (seconds > FEW_SECONDS or self.reach.shared[place] > QUICK):
                break
            found.append(place)
        return found

    def files(self) -> list[list[int]]:
        """The tests of each file."""
        of_file: dict[str, list[int]] = defaultdict(list)
        for place in range(len(self.items)):
            of_file[self.file_of(place)].append(place)
        return list(of_file.values())

    def find_reach(self, places: list[int]) -> Reach:
        """Run tests once, those of one file."""
        set_mutant_under_test(STATS)
        reached: list[set[str]] = []
        seconds, failed = [], []
        items = [self.items[place] for place in places]
        for item in items:
            item.add_marker(pytest.mark.timeout(CHANGE_SECONDS))  # what is kept on disk is made now
        began, before = time.monotonic(), 0.0
        for _, how in self.in_turn(places):
            shared = sum(self.shared.values())
            seconds.append(time.monotonic() - began - (shared - before))
            reached.append(set(state()._stats))
            failed.append(how)
            state()._stats.clear()
            began, before = time.monotonic(), shared
        for item, functions in zip(items, reached, strict=True):
            for name, of_fixture in self.of_fixture.items():
                if name in names_of(item):
                    functions |= of_fixture
        shared = [sum(self.shared.get(name, 0.0) for name in names_of(item)) for item in items]
        return Reach(reached, seconds, shared, failed, set(sys.modules))

    def tests_of(self, function: str) -> list[int]:
        """The tests that reach a function, those first that reach little else: they are about it, and quick."""
        places = [place for place, functions in enumerate(self.reach.functions) if function in functions]

        def cost(place: int) -> tuple[float, str, int, float]:
            shared = max(0.0, self.reach.shared[place] - QUICK)
            file = self.file_of(place) if shared else ""
            return (shared, file, len(self.reach.functions[place]), self.reach.seconds[place])

        return sorted(places, key=cost)

    def file_of(self, place: int) -> str:
        """The file of a test."""
        return self.items[place].nodeid.partition("::")[0]

    def outcome(self, change: Change, places: Sequence[int]) -> tuple[str, int | None]:
        """What becomes of a change, and the test that notices it; None where it ends the process of all tests."""
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
        """Run tests with a change, in a process that does nothing else, to the first that fails: its place."""
        set_mutant_under_test(change.name)
        return next((place for place, how in self.in_turn(places) if how), None)

    def in_turn(self, places: Sequence[int]) -> Iterator[tuple[int, str]]:
        """Run tests one after the other, and tell of each how it failed; nothing where it did not."""
        for place, following in zip(places, [*places[1:], None], strict=True):
            self.failed = ""
            item, next_item = self.items[place], None if following is None else self.items[following]
            item.ihook.pytest_runtest_protocol(item=item, nextitem=next_item)
            yield place, self.failed


noticed: dict[str, Counter[int]] = defaultdict(Counter)  # by module: tests, by how many changes each has noticed here
trials: list[Trials] = []  # those of this process, for its workers, which are forks of it


def names_of(item: pytest.Item) -> set[str]:
    """The fixtures that a test uses, directly or not."""
    return set(getattr(item, "fixturenames", ()))


def joined(parts: list[Reach]) -> Reach:
    """What all files' tests do, in the order of their files."""
    return Reach(
        [functions for part in parts for functions in part.functions],
        [seconds for part in parts for seconds in part.seconds],
        [seconds for part in parts for seconds in part.shared],
        [failed for part in parts for failed in part.failed],
        set[str]().union(*(part.modules for part in parts)),
    )


def reach_of_file(places: list[int]) -> Reach:
    """What the tests of one file do."""
    [its] = trials
    return in_a_fork(lambda: its.find_reach(places))


def try_changes(changes: list[Change], places: list[int]) -> list[Tried]:
    """Try changes of one function by its tests, first by those that noticed most changes of its module so far."""
    [its] = trials
    tried = []
    for change in changes:
        noticed_by = noticed[change.function.rpartition(".")[0]]
        first = [place for place, _ in noticed_by.most_common() if place in places][:MOST_FIRST]
        order = [*first, *(place for place in places if place not in first)]
        outcome, place = its.outcome(change, order)
        if place is not None:
            noticed_by[place] += 1
        tried.append(Tried(change, outcome, "" if place is None else its.items[place].nodeid))
    return tried


def forget_answers() -> None:
    """Empty the caches of the package's functions: they hold answers of the code without changes."""
    modules = [module for name, module in list(sys.modules.items()) if name.startswith("maieutic.")]
    for value in [value for module in modules for value in vars(module).values()]:
        if clear := getattr(value, "cache_clear", None):
            clear()


def in_a_fork(function: Callable[[], Any], seconds: float | None = None) -> Any:
    """What a function returns in a fork of this process.

    Raises TimeoutError where it takes longer, ChildProcessError with what the function raised there, and EOFError where
    the fork ends without an answer. Nothing of what it starts outlives it.
    """
    ours, theirs = multiprocessing.Pipe(duplex=False)
    with tempfile.TemporaryDirectory(prefix="maieutic-mutant-") as folder, ours:
        pid = os.fork()
        if pid == 0:
            answer_in_fork(function, folder, theirs)
        theirs.close()
        with contextlib.suppress(OSError):
            os.setpgid(pid, pid)
        try:
            if not ours.poll(seconds):
                raise TimeoutError
            fine, answer = ours.recv()
            if not fine:
                raise ChildProcessError(answer)
            return answer
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(pid, signal.SIGKILL)
            os.waitpid(pid, 0)


def answer_in_fork(function: Callable[[], Any], folder: str, connection: Connection) -> None:
    """The fork's own part: it does not return."""
    try:
        with contextlib.suppress(OSError):
            os.setpgid(0, 0)
        os.environ["PYTEST_DEBUG_TEMPROOT"] = folder  # where tmp_path is made
        silent = os.open(os.devnull, os.O_RDWR)
        for stream in (0, 1, 2):
            os.dup2(silent, stream)
        try:
            answer = function()
        except BaseException:
            connection.send((False, traceback.format_exc()))
            raise
        connection.send((True, answer))
    finally:
        os._exit(0)
