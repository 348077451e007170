"""Texts that a looping or hostile model may write, and all functions that read a model's text.

A shape repeats a unit. The units are texts that match the loops and alternatives of this package's own regular
expressions, so that a new pattern adds its own units. `readers` lists the functions by name.
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
from maieutic.benchmarks import BENCHMARKS
from maieutic.config.cards import load_cards
from maieutic.config.rubrics import read_rubric, rubric_names
from maieutic.core import thinking
from maieutic.core.files import safe_cell
from maieutic.core.records import SCORINGS, Item
from maieutic.core.secrets import KNOWN_KEY, Redactor
from maieutic.core.visible import script_safe_json, visible_text
from maieutic.curation.parsers import PARSERS, AnswerFormatError
from maieutic.graders.registry import GRADERS
from maieutic.judges.answers import parse_verdicts
from maieutic.judges.fencing import fence_texts
from maieutic.serving.conversations import parse_turns
from task_items import DEMO, items_of_card

Reader = Callable[[str], object]
SIZES = (8_000, 32_000)  # characters
EXEMPT = {"socratic_bleu"}  # its library compares all pairs of questions; its limit has a separate test
NOTICED = 0.05  # seconds of CPU time for the long text below which no ratio is taken
MOST_RATIO = 8  # largest ratio of the times for the two sizes: 4 is linear, 16 is quadratic
# Units beside those of the patterns: unclosed and nested brackets, emphasis, fences, numbers, words, signs.
UNITS = (
    "[", "{", "(", "[]", "{}", '{"a":', '["a",', "[[", "\\frac{1}{", "\\boxed{", "**", "```", "```json\n", "<a>", "</", "<",
    "$", "$$", '"', "'", "\\", "1", "1,", "1.", "-", "- ", "\u2013", " ", "\n", "\n\n", "\t", "a", "a ", "A. ", "yes ", "no ",
    "Step 1: ", "step 1", "1/", "1/2 ", "=", "= 1 ", "twenty ", "one hundred and ", "The answer is 1. ", "answer: ", "not ",
    "sk-", "sk-A1", "Bearer ", "eyJ", "hf_", "?", "? ", ".", ". ", "!", "\u00e9", "\u202e", "\u200b", "\U0001f600", "0", "00",
    "<think>", "</think>", "<answer>", "[[A]] ", "[[", "A", "win ", "e.g. ", "(a) ", "1) ", "*", "#", "> ", "|", "|-", "%", "&",
    "+1", "1e", ",", ", ", ";", ":", "@", "_", "~", "^2", "x", "\r\n", "Mr. ", "U.S. ", "http://a/", "\\n", "\\u0041",
)  # fmt: skip


def example_of(items: Any) -> str:
    """Return a text that a parsed pattern matches."""
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
    """Yield characters of a set: its literals, and one for each of its ranges and categories."""
    for op, member in value:
        if op is sre.LITERAL:
            yield chr(member)
        elif op is sre.RANGE:
            yield chr(member[0])
        elif op is sre.CATEGORY:
            yield CATEGORIES.get(member, "a")


def member_of(value: Any) -> str:
    """Return a character that a set matches; the set may be negated."""
    members = list(members_of(value))
    if value[0][0] is not sre.NEGATE:
        return members[0]
    return next((sign for sign in "a1 -.\n" if sign not in members), "\u00e9")


def units_of(items: Any) -> Iterator[str]:
    """Yield a text for one iteration of each loop, and for each alternative, of a parsed pattern."""
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
    """Yield every regular expression in the variables of the package's modules."""
    for module in pkgutil.walk_packages(maieutic.__path__, "maieutic."):
        if module.name.endswith("__main__"):
            continue
        for value in vars(import_module(module.name)).values():
            yield from patterns_in(value)


def patterns_in(value: object) -> Iterator[re.Pattern[str]]:
    """Yield the regular expressions in a value, including nested ones."""
    if isinstance(value, re.Pattern) and isinstance(value.pattern, str):
        yield value
    elif isinstance(value, list | tuple | dict):
        for element in value.values() if isinstance(value, dict) else value:
            yield from patterns_in(element)


@cache
def shapes() -> list[tuple[str, str]]:
    """Return every unit, each with the text that precedes its repetitions."""
    result: dict[tuple[str, str], None] = {("", unit): None for unit in UNITS}
    for pattern in dict.fromkeys(patterns()):
        parsed = sre_parser.parse(pattern.pattern, pattern.flags)
        example = example_of(parsed)
        for unit in dict.fromkeys(units_of(parsed)):
            if unit and len(unit) < 40:
                result[("", unit)] = None
        if 0 < len(example) < 80:
            result[("", example)] = None
    return list(result)


def text_of(shape: tuple[str, str], size: int) -> str:
    """Return a text of a shape. size: number of characters."""
    head, unit = shape
    return (head + unit * (size // len(unit) + 1))[:size]


# readers --------------------------------------------------------------------------------------------------------------


def item_for(grader: str) -> Item:
    """Return an item of the demo whose replies are graded by this grader."""
    for benchmark in BENCHMARKS:
        folder = ROOT / "resources/benchmarks" / benchmark
        tasks = sorted(path.stem for path in folder.glob("*.yaml"))
        for loaded in load_cards(benchmark, tasks, "released"):
            if grader in loaded.card.graders:
                return items_of_card(loaded.card, DEMO, "demo")[0]
    raise LookupError(grader)


def read_by(grader: str, item: Item, text: str) -> object:
    """Read a reply with a grader, under both scorings."""
    parser = GRADERS[grader]
    if parser.read is not None:
        return [parser.read(item, text, scoring) for scoring in SCORINGS]
    assert parser.read_all is not None
    texts = [text] * len(item.reference.get("replies", [*item.script, ""]))
    return [parser.read_all(item, texts, scoring) for scoring in SCORINGS]


ABOUT = {"options": [{"code": "A"}, {"code": "B"}], "answer": "1", "turns": [], "steps": ["a", "b"], "principles": []}
MOST = {"most": 5.0, "least": 1.0}


def parsed_by(parser: str, text: str) -> object:
    """Read an answer with a parser of curation, and return the result or the parser's error."""
    try:
        return PARSERS[parser](text, ABOUT, MOST)
    except AnswerFormatError as error:
        return error


def judged_by(rubric: str, text: str) -> object:
    """Parse a judge's answer to a rubric: once as a finished answer, once as one truncated by max_tokens."""
    rubric_file = read_rubric(rubric)
    criteria = dict(list(rubric_file.rubric.criteria.items())[: 1 if rubric_file.rubric.answer == "result" else None])
    return [parse_verdicts(rubric_file.rubric, criteria, text, finish) for finish in ("stop", "length")]


def one_rubric_a_kind() -> dict[str, str]:
    """Return a shipped rubric for each kind and answer format."""
    rubrics = {name: read_rubric(name).rubric for name in rubric_names()}
    return {f"{rubric.kind} {rubric.answer}": name for name, rubric in sorted(rubrics.items(), reverse=True)}


def readers() -> Mapping[str, Reader]:
    """Return all functions that read a model's text, by name."""
    redactor = Redactor(["sk-0123456789abcdefABCDEF"])
    return {
        **{f"grader {name}": partial(read_by, name, item_for(name)) for name in GRADERS if name not in EXEMPT},
        **{f"judge {kind}": partial(judged_by, name) for kind, name in one_rubric_a_kind().items()},
        **{f"curation {name}": partial(parsed_by, name) for name in PARSERS},
        "reasoning": thinking.split_thinking, "unknown reasoning": thinking.has_unknown_mark, "redactor": redactor,
        "looks like a key": lambda text: KNOWN_KEY.search(text), "cell": safe_cell,
        "page": lambda text: (visible_text(text), script_safe_json(text)),
        "fence": lambda text: fence_texts({"reply": text}),
        "turns": parse_turns,
    }  # fmt: skip


def seconds(reader: Reader, text: str, tries: int = 3) -> float:
    """Return the CPU seconds of one reading: the minimum of some tries, with different texts because of caches."""
    least = float("inf")
    for number in range(tries):
        shorter = text[: len(text) - number]
        start = time.process_time()
        reader(shorter)
        least = min(least, time.process_time() - start)
    return least
