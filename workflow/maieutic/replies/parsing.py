"""Job that grades replies with parsers, which need no model, and finds the passages from which they read values."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from pydantic import Field

from maieutic.config.cards import load_cards
from maieutic.core.errors import UserError
from maieutic.core.jobs import Job
from maieutic.core.records import SCORINGS, Grade, Item, Reply, Scoring, read_checked_records, read_items, write_records
from maieutic.core.states import missing_reason
from maieutic.graders.lexicon import ENGLISH, in_english_notation
from maieutic.graders.passages import SENTENCE, shorten_overlong
from maieutic.graders.reading import Reading
from maieutic.graders.registry import GRADERS

LINE = re.compile(r"[^\n]+")
MAX_PIECES = 40  # maximum number of lines, and of sentences of a passage, that are tried


class Span(NamedTuple):
    """Passage of a conversation: number of the turn from 0, and the passage's start and end in the turn's text.

    Positions are in Unicode code points; `end` is exclusive.
    """

    turn: int
    start: int
    end: int


def shortest_passage(reads_value: Callable[[str], bool], text: str) -> tuple[int, int] | None:
    """Return the start and end of the passage from which a parser reads a value, or None if there is no such passage.

    The passage consists of whole lines, or of whole sentences within them. The parser, given this passage alone, reads
    the same value; of several such passages it is the last one. Overlong texts have no passage, since parsers shorten
    them. reads_value: function that returns True if the parser reads the value of the whole text from a part of it.
    """
    if shorten_overlong(text) != text:
        return None
    window = shortest_run(reads_value, text, list(line_spans(text)))
    if window is None:
        return None
    return shortest_run(reads_value, text, list(sentence_spans(text, *window))) or window


def shortest_run(
    reads_value: Callable[[str], bool], text: str, pieces: Sequence[tuple[int, int]]
) -> tuple[int, int] | None:
    """Return the start and end of the last piece that decides the value, or of a run of pieces up to the last one.

    A piece decides the value if the parser reads it from the piece alone, and reads another one if the piece changes.
    """
    pieces = pieces[-MAX_PIECES:]
    for start, end in reversed(pieces):
        if reads_value(text[start:end]) and decides(reads_value, text, start, end):
            return start, end
    for start, _ in reversed(pieces):
        end = pieces[-1][1]
        if reads_value(text[start:end]):
            return (start, end) if decides(reads_value, text, start, end) else None
    return None


OTHER_DIGITS = str.maketrans("0123456789", "7352819046")  # no digit is mapped to itself


def decides(reads_value: Callable[[str], bool], text: str, start: int, end: int) -> bool:
    """Return True if the value of the whole text rests on a passage.

    It does if the value changes with the digits of the passage, or, for a passage without digits, if the value changes
    without it. A last passage without digits always counts, because earlier sentences often support a conclusion.
    """
    passage = text[start:end]
    changed = passage.translate(OTHER_DIGITS)
    if changed == passage:
        return end == len(text.rstrip()) or not reads_value(text[:start] + text[end:])
    return not reads_value(text[:start] + changed + text[end:])


def line_spans(text: str) -> Iterator[tuple[int, int]]:
    """Yield the start and end of each line that is not blank, without its outer whitespace."""
    for line in LINE.finditer(text):
        if stripped := line[0].strip():
            start = line.start() + line[0].index(stripped)
            yield start, start + len(stripped)


def sentence_spans(text: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    """Yield the start and end of each sentence of a passage."""
    for line_start, line_end in line_spans(text[start:end]):
        line, place = text[start + line_start : start + line_end], 0
        for gap in (*SENTENCE.finditer(line), None):
            stop = gap.start() if gap else len(line)
            if line[place:stop].strip():
                yield start + line_start + place, start + line_start + stop
            place = gap.end() if gap else stop


class ParseReplies(Job):
    """Job that grades one tutor's replies to tasks of one benchmark. languages: languages of tasks not in English."""

    tutor: str
    benchmark: str
    tasks: list[str]
    languages: dict[str, str] = Field(default_factory=dict)


def parse_replies(*, job: ParseReplies, items: Path, replies: Path, out: Path) -> None:
    """Grade each reply of one tutor with the graders of its task, under both scorings. items: folder of the items."""
    cases = read_items(items, job.tasks)
    by_item = {(reply.task, reply.id): reply for reply in read_checked_records(replies, Reply, cases, tutor=job.tutor)}
    grades: list[Grade] = []
    for loaded in load_cards(job.benchmark, job.tasks, "released"):
        for item in (item for item in cases if item.task == loaded.card.task):
            reply = by_item.get((item.task, item.id))
            if reply is None:
                raise UserError(
                    str(replies), f"found no reply to {item.task}/{item.id}", "delete this file and run again"
                )
            for grader in loaded.card.graders:
                if grader in GRADERS and not reply.absent:  # other jobs grade with reward models and judges
                    grades += grades_of(grader, item, reply, job.languages.get(item.task, ENGLISH))
    write_records(out, grades)


def grades_of(grader: str, item: Item, reply: Reply, language: str = ENGLISH) -> list[Grade]:
    """Return the grades of one reply by one grader, under both scorings.

    Grades under `robust` have the span from which the value was read, if the grader reads single passages. language:
    language of the task, in whose notation `robust` reads numbers.
    """
    field = GRADERS[grader].gold_field
    gold = item.reference[field] if field else None
    return [
        Grade(
            id=item.id,
            task=item.task,
            kind=grader,
            scoring=scoring,
            gold=gold,
            span=span_of(grader, item, reply, reading, language) if scoring == "robust" else None,
            **reading._asdict(),
        )
        for scoring in SCORINGS
        for reading in read_reply(grader, item, reply, scoring, language)
    ]


def span_of(grader: str, item: Item, reply: Reply, reading: Reading, language: str) -> Span | None:
    """Return the passage of a reply from which a grader reads a value, or None if there is no single passage.

    The grader itself reads parts of the reply, so the passage is one that it understands without the rest.
    """
    if not GRADERS[grader].reads_passage or reading.value is None or reply.error:
        return None
    read, read_all = GRADERS[grader].read, GRADERS[grader].read_all
    texts = [turn.text for turn in reply.turns]

    def reads_value(turn: int, part: str) -> bool:
        if read is not None:
            readings = read(item, in_english_notation(part, language), "robust")
        else:
            assert read_all is not None  # every grader has either `read` or `read_all`
            parts = [*texts[:turn], part, *texts[turn + 1 :]]
            readings = read_all(item, [in_english_notation(text, language) for text in parts], "robust")
        return any(other.criterion == reading.criterion and other.value == reading.value for other in readings)

    turns = range(len(texts) - 1, len(texts)) if read is not None else range(len(texts))
    decisive = [turn for turn in turns if not reads_value(turn, "")]
    if len(decisive) != 1:
        return None
    [turn] = decisive
    passage = shortest_passage(lambda part: reads_value(turn, part), texts[turn])
    return None if passage is None else Span(turn, *passage)


def read_reply(grader: str, item: Item, reply: Reply, scoring: Scoring, language: str = ENGLISH) -> list[Reading]:
    """Return the values that a grader reads from a reply. Values of a refused turn are None and marked as refused.

    language: language of the task, in whose notation `robust` reads numbers.
    """
    language = language if scoring == "robust" else ENGLISH  # the released code knows one notation
    read, read_all = GRADERS[grader].read, GRADERS[grader].read_all
    refused = missing_reason(reply.error or "")
    if read is not None:
        if reply.error:
            return [Reading(None, None, "", refused, refused=True)]
        if scoring == "paper_compat" and reply.turns[-1].no_text:
            return [Reading(None, None, "", "the released code fails: the server sent no text")]
        text = reply.released if scoring == "paper_compat" else in_english_notation(reply.text, language)
        return read(item, text, scoring)
    assert read_all is not None  # every grader has either `read` or `read_all`
    texts = [in_english_notation(turn.text, language) for turn in reply.turns]
    if not reply.error:
        return read_all(item, texts, scoring)
    turns = len(item.reference.get("replies", [None, *item.script]))
    texts += [""] * (turns - len(texts))
    unread = {reading.criterion for reading in read_all(item, texts, "robust") if reading.why_none}
    readings = read_all(item, texts, scoring)
    unanswered = not any(texts)  # then no grade rests on anything that the tutor wrote
    return [
        Reading(None, None, "", refused, reading.criterion, refused=True)
        if unanswered or reading.criterion in unread
        else reading
        for reading in readings
    ]
