"""Texts that a looping or hostile model may write, and everything that reads a model's text.

A shape repeats a unit: the units are what the loops and alternatives of this package's own regular expressions take, so
that a new pattern brings its own. `readers` lists parsers, redactors and judge readers by name.
"""

from __future__ import annotations

import pkgutil
import re
import re._constants as sre
import re._parser as sre_parser
import time
from collections.abc import Callable, Iterator, Mapping
from functools import cache, partial
from importlib import import_module
from typing import Any

import maieutic
from conftest import ROOT
from maieutic.config.cards import cards_of
from maieutic.core import thinking
from maieutic.core.files import safe_cell
from maieutic.core.records import SCORINGS, Item
from maieutic.core.secrets import LOOKS_LIKE, Redactor
from maieutic.core.visible import embedded, visible
from maieutic.curation.parsers import PARSERS, Unread
from maieutic.graders.registry import GRADERS
from maieutic.judges.answers import read_answer
from maieutic.judges.fencing import fenced
from maieutic.judges.rubrics import read_rubric, rubric_names
from maieutic.serving.conversations import parse_turns
from task_items import DEMO, items_of_card

Reader = Callable[[str], object]
SIZES = (16_000, 32_000, 64_000)  # characters
EXEMPT = {"socratic_bleu"}  # its library compares every question with every other one: its own limit is tested apart
NOTICED = 0.05  # seconds of CPU time below which no ratio is taken
MOST_RATIO = 2.6  # of the times of a text and of one twice as long
# Which no pattern holds: brackets that never close or that are nested, emphasis, fences, numbers, words, signs.
UNITS = (
    "[", "{", "(", "[]", "{}", '{"a":', '["a",', "[[", "\\frac{1}{", "\\boxed{", "**", "```", "```json\n", "<a>", "</", "<",
    "$", "$$", '"', "'", "\\", "1", "1,", "1.", "-", "- ", "\u2013", " ", "\n", "\n\n", "\t", "a", "a ", "A. ", "yes ", "no ",
    "Step 1: ", "step 1", "1/", "1/2 ", "=", "= 1 ", "twenty ", "one hundred and ", "The answer is 1. ", "answer: ", "not ",
    "sk-", "sk-A1", "Bearer ", "eyJ", "hf_", "?", "? ", ".", ". ", "!", "\u00e9", "\u202e", "\u200b", "\U0001f600", "0", "00",
    "<think>", "</think>", "<answer>", "[[A]] ", "[[", "A", "win ", "e.g. ", "(a) ", "1) ", "*", "#", "> ", "|", "|-", "%", "&",
    "+1", "1e", ",", ", ", ";", ":", "@", "_", "~", "^2", "x", "\r\n", "Mr. ", "U.S. ", "http://a/", "\\n", "\\u0041",
)  # fmt: skip


def example_of(items: Any) -> str:
    """One text that a parsed pattern takes."""
    text = ""
    for op, value in items:
        if op is sre.LITERAL:
            text += chr(value)
        elif op in (sre.ANY, sre.NOT_LITERAL):
            text += "a" if value != ord("a") else "b"
        elif op is sre.IN:
            text += member_of(value)
        elif op is sre.BRANCH:
            text += example_of(value[1][0])
        elif op is sre.SUBPATTERN:
            text += example_of(value[-1])
        elif op in (sre.MAX_REPEAT, sre.MIN_REPEAT, sre.POSSESSIVE_REPEAT):
            text += example_of(value[2]) * max(1, min(value[0], 3))
    return text


CATEGORIES = {sre.CATEGORY_DIGIT: "1", sre.CATEGORY_SPACE: " ", sre.CATEGORY_NOT_WORD: "-"}


def members_of(value: Any) -> Iterator[str]:
    """Characters of a set, those that stand in it and those of its ranges and categories."""
    for op, one in value:
        if op is sre.LITERAL:
            yield chr(one)
        elif op is sre.RANGE:
            yield chr(one[0])
        elif op is sre.CATEGORY:
            yield CATEGORIES.get(one, "a")


def member_of(value: Any) -> str:
    """A character of a set, or one that is not in a negated set."""
    members = list(members_of(value))
    if value[0][0] is not sre.NEGATE:
        return members[0]
    return next((sign for sign in "a1 -.\n" if sign not in members), "\u00e9")


def units_of(items: Any) -> Iterator[str]:
    """What the loops and alternatives of a parsed pattern take, once."""
    for op, value in items:
        if op in (sre.MAX_REPEAT, sre.MIN_REPEAT, sre.POSSESSIVE_REPEAT):
            yield example_of(value[2])
            for inner, members in value[2]:
                if inner is sre.IN:
                    yield from members_of(members)
            yield from units_of(value[2])
        elif op is sre.BRANCH:
            for branch in value[1]:
                yield example_of(branch)
                yield from units_of(branch)
        elif op is sre.SUBPATTERN:
            yield from units_of(value[-1])


def patterns() -> Iterator[re.Pattern[str]]:
    """Every regular expression that a module of the package holds."""
    for module in pkgutil.walk_packages(maieutic.__path__, "maieutic."):
        if module.name.endswith("__main__"):
            continue
        for held in vars(import_module(module.name)).values():
            yield from patterns_in(held)


def patterns_in(held: object) -> Iterator[re.Pattern[str]]:
    """The regular expressions of a value, of its parts, and of theirs."""
    if isinstance(held, re.Pattern) and isinstance(held.pattern, str):
        yield held
    elif isinstance(held, list | tuple | dict):
        for one in held.values() if isinstance(held, dict) else held:
            yield from patterns_in(one)


@cache
def shapes() -> list[tuple[str, str]]:
    """Every unit with what stands once before its repetitions."""
    found: dict[tuple[str, str], None] = {("", unit): None for unit in UNITS}
    for pattern in dict.fromkeys(patterns()):
        parsed = sre_parser.parse(pattern.pattern, pattern.flags)
        example = example_of(parsed)
        for unit in dict.fromkeys(units_of(parsed)):
            if unit and len(unit) < 40:
                found[("", unit)] = None
        if 0 < len(example) < 80:
            found[("", example)] = None
    return list(found)


def text_of(shape: tuple[str, str], size: int) -> str:
    """A text of a shape. size: in characters."""
    head, unit = shape
    return (head + unit * (size // len(unit) + 1))[:size]


# readers --------------------------------------------------------------------------------------------------------------


def item_for(grader: str) -> Item:
    """An item of the demo that a grader reads replies to."""
    for benchmark in ("mathtutorbench", "kmpbench", "mrbench", "tutorbench"):
        folder = ROOT / "resources/benchmarks" / benchmark
        tasks = sorted(path.stem for path in folder.glob("*.yaml"))
        for loaded in cards_of(benchmark, tasks, "released"):
            if grader in loaded.card.graders:
                return items_of_card(loaded.card, DEMO, "demo")[0]
    raise LookupError(grader)


def read_by(grader: str, item: Item, text: str) -> object:
    """Read a reply by a grader, under both scorings."""
    own = GRADERS[grader]
    if own.read is not None:
        return [own.read(item, text, scoring) for scoring in SCORINGS]
    assert own.read_all is not None
    texts = [text] * len(item.reference["replies"])
    return [own.read_all(item, texts, scoring) for scoring in SCORINGS]


ABOUT = {"options": [{"code": "A"}, {"code": "B"}], "answer": "1", "turns": [], "steps": ["a", "b"], "principles": []}
MOST = {"most": 5.0, "least": 1.0}


def parsed_by(parser: str, text: str) -> object:
    """Read an answer by a parser of curation; return what it reads, or its refusal."""
    try:
        return PARSERS[parser](text, ABOUT, MOST)
    except Unread as error:
        return error


def judged_by(rubric: str, text: str) -> object:
    """Read a judge's answer by a rubric: once as a finished answer, once as one cut by max_tokens."""
    loaded = read_rubric(rubric)
    criteria = dict(list(loaded.rubric.criteria.items())[: 1 if loaded.rubric.answer == "result" else None])
    return [read_answer(loaded.rubric, criteria, text, finish) for finish in ("stop", "length")]


def one_rubric_a_kind() -> dict[str, str]:
    """A shipped rubric of each kind and form of answer."""
    rubrics = {name: read_rubric(name).rubric for name in rubric_names()}
    return {f"{rubric.kind} {rubric.answer}": name for name, rubric in sorted(rubrics.items(), reverse=True)}


def readers() -> Mapping[str, Reader]:
    """Everything that reads a model's text, by name."""
    redactor = Redactor(["sk-0123456789abcdefABCDEF"])
    return {
        **{f"grader {name}": partial(read_by, name, item_for(name)) for name in GRADERS if name not in EXEMPT},
        **{f"judge {kind}": partial(judged_by, name) for kind, name in one_rubric_a_kind().items()},
        **{f"curation {name}": partial(parsed_by, name) for name in PARSERS},
        "reasoning": thinking.split_thinking,
        "unknown reasoning": thinking.unknown_mark,
        "redactor": redactor,
        "looks like a key": lambda text: LOOKS_LIKE.search(text),
        "cell": safe_cell,
        "page": lambda text: (visible(text), embedded(text)),
        "fence": lambda text: fenced({"reply": text}),
        "turns": parse_turns,
    }


def seconds(reader: Reader, text: str, tries: int = 3) -> float:
    """The CPU time of one reading, the least of some tries. Each has another text: some readers remember what they read."""
    least = float("inf")
    for number in range(tries):
        own = text[: len(text) - number]
        start = time.process_time()
        reader(own)
        least = min(least, time.process_time() - start)
    return least
