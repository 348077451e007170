"""A model that reads the replies that the rules do not understand (`run.reader`), and only those.

It sees the kind of question, the number of steps or options, and the reply between delimiters: never the solution, the
right answer or the tutor. Its value counts only if the passage that it quotes stands in the reply and holds the value.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, Any, NamedTuple

from pydantic import Field

from maieutic.config.models import HostedModel, ServedModel, VllmModel
from maieutic.core.jobs import Job
from maieutic.core.journal import FinishedRequest, Journal
from maieutic.core.options import options_of
from maieutic.core.records import (
    Grade,
    Item,
    Record,
    Reply,
    read_checked_records,
    read_items,
    read_records,
    write_records,
)
from maieutic.core.states import missing_reason
from maieutic.graders.evidence import is_doubt
from maieutic.graders.lexicon import ENGLISH, in_english_notation
from maieutic.graders.number_words import words_as_digits
from maieutic.graders.numerals import number_values
from maieutic.graders.passages import sentences
from maieutic.graders.reading import MAX_PASSAGE_CHARACTERS, Reading, plain_notation
from maieutic.graders.registry import GRADERS
from maieutic.graders.steps import ORDINALS, steps_shown
from maieutic.judges.answers import CURLY, casefold_keys, objects_in, repair_json
from maieutic.judges.fencing import fence_texts, neutralise_text
from maieutic.replies.generate import ModelRequests, results_of
from maieutic.serving.backends import JobFiles, backend_of

MAX_TOKENS = 256
NOTHING_KNOWN = ("no statement", "no option")  # reasons of replies in which the rules find nothing that they know
STEP = "step"  # the parser of step numbers
JSON_WORDS = {True: "yes", False: "no", None: "none"}
FEWEST_WORDS = 2  # of a quote that holds a verdict
NO_VALUE = ("none", "several")  # answers of the reader for a reply without a value, or with different ones
SCHEMA = {
    "type": "object",
    "properties": {"value": {"type": "string"}, "quote": {"type": "string"}},
    "required": ["value", "quote"],
    "additionalProperties": False,
}
PROMPT = """Read the answer that a tutor gives in a reply. {question}{shape}

{notice}

The reply:
{reply}

Do not solve anything and do not judge the answer: report what stands in the reply. Answer with one JSON object, of the form {{"value": "...", "quote": "..."}}. "value" is the answer that the reply gives, "none" if it gives none, or "several" if it gives different ones. "quote" is the shortest passage of the reply, word for word, that holds the value; leave it empty for "none" and "several"."""  # noqa: E501


class AskReader(Job):
    """Job in which a model reads the replies of one tutor that the rules did not understand.

    reader: name of the model; entry: its registry entry; asks_failed: True if requests that failed in an earlier run
    are on file, which this job asks once more.
    """

    reader: str
    entry: Annotated[VllmModel | HostedModel, Field(discriminator="engine")]
    tutor: str
    tasks: list[str]
    asks_failed: bool = False


class GradeReadings(Job):
    """Job that grades one tutor's replies by the rules and, where they did not understand, by a model's readings.

    languages: languages of tasks not in English.
    """

    reader: str
    tutor: str
    tasks: list[str]
    languages: dict[str, str] = Field(default_factory=dict)


class ReaderAnswer(Record):
    """A model's answer about one reply that the rules did not understand.

    kind: the parser that did not understand it; answer: the model's text; error: why there is no answer, or None.
    """

    id: str
    task: str
    tutor: str
    kind: str
    key: str
    answer: str
    error: str | None = None


class UnreadReply(NamedTuple):
    """A reply that a parser did not understand."""

    item: Item
    reply: Reply
    kind: str


def is_open(why_none: str | None) -> bool:
    """Return True if the rules did not understand a reply: they found nothing that they know, or are in doubt.

    A range, a denial, a contradiction or a refusal to answer is understood.
    """
    return why_none in NOTHING_KNOWN or is_doubt(why_none)


def is_read(grade: Grade) -> bool:
    """Return True if a model may read the reply behind a grade."""
    is_asked = grade.kind in GRADERS and GRADERS[grade.kind].question is not None and grade.criterion is None
    return (
        is_asked and grade.scoring == "robust" and not grade.refused and grade.value is None and is_open(grade.why_none)
    )


def doubts_of(grades: Iterable[Grade], items: Sequence[Item], replies: Iterable[Reply]) -> list[UnreadReply]:
    """Return the replies that the rules did not understand, in the order of the grades."""
    by_key = {(item.task, item.id): item for item in items}
    texts = {(reply.task, reply.id): reply for reply in replies}
    return [
        UnreadReply(by_key[grade.task, grade.id], texts[grade.task, grade.id], grade.kind)
        for grade in grades
        if is_read(grade)
    ]


def reader_request(doubt: UnreadReply, model: ServedModel) -> dict[str, Any]:
    """Return the request about one reply, with the field names of OpenAI's API.

    It depends on the reply, the kind of question, and the number of steps or options of the prompt alone.
    """
    steps, options = steps_shown(doubt.item.vars), options_of(doubt.item.vars.get("question", ""))
    shape = f" The student's solution has {steps.most} steps." if steps and doubt.kind == STEP else ""
    shape += f" The problem has the options {', '.join(options)}." if options else ""
    blocks, notice = fence_texts({"reply": doubt.reply.text})
    content = PROMPT.format(question=GRADERS[doubt.kind].question, shape=shape, notice=notice, **blocks)
    answer = {"type": "json_schema", "json_schema": {"name": "reading", "schema": SCHEMA, "strict": True}}
    return {
        "endpoint": model.endpoint or "chat",
        "messages": [{"role": "user", "content": content}],
        "temperature": 0.0,
        "max_tokens": model.token_limit(MAX_TOKENS),
        "stop": [],
        **({"response_format": answer} if model.structured else {}),
    }


def ask_reader(
    *,
    job: AskReader,
    items: Path,
    replies: Path,
    grades: Path,
    weights: list[Path],
    journal: Path,
    server_log: Path,
    out: Path,
) -> None:
    """Ask a model about each reply of one tutor that the rules did not understand.

    items: folder of the benchmark's items; grades: grades by the rules; weights: manifest of the model's weights, empty
    if this run does not serve the model.
    """
    cases = read_items(items, job.tasks)
    known = read_checked_records(replies, Reply, cases, tutor=job.tutor)
    doubts = doubts_of(read_records(grades, Grade), cases, known)
    files = JobFiles(next(iter(weights), None), journal, server_log)
    with Journal(journal, FinishedRequest) as kept:
        backend, identity = backend_of(job.reader, job.entry, files)
        asking = ModelRequests(job.reader, job.entry, identity, kept, backend, asks_failed=job.asks_failed)
        work = [partial(reader_answer, doubt, asking) for doubt in doubts]
        write_records(out, results_of(job.reader, "replies", work, [asking]))


async def reader_answer(doubt: UnreadReply, asking: ModelRequests) -> ReaderAnswer:
    """Ask about one reply, and return the answer."""
    entry = await asking.ask(reader_request(doubt, asking.model))
    error = missing_reason(entry.error) if entry.error else None
    item = doubt.item
    return ReaderAnswer(
        id=item.id, task=item.task, tutor=doubt.reply.tutor, kind=doubt.kind, key=entry.key, answer=entry.text,
        error=error,
    )  # fmt: skip


def normalised(text: str) -> str:
    """Return a text in the form in which a quote is looked for: as the reader sees it, without case and marks."""
    return " ".join(plain_notation(neutralise_text(text).translate(CURLY)).casefold().split())


def stated_answer(answer: str) -> tuple[str, str] | None:
    """Return the value and the quote in a model's answer; None if it has no object with both."""
    for text in (answer, repair_json(answer)):
        for fields in reversed(casefold_keys(objects_in(text))):
            if {"value", "quote"} <= fields.keys():
                value = fields["value"]
                value = JSON_WORDS.get(value, value) if value is None or isinstance(value, bool) else value
                value = int(value) if isinstance(value, float) and value.is_integer() else value
                return str(value).strip(), str(fields["quote"]).strip()
    return None


def counted_reading(doubt: UnreadReply, answer: str, language: str = ENGLISH) -> Reading | str:
    """Return the rules' reading of the value that a model finds in a reply, or the reason why it does not count.

    The value counts if the quote stands in the reply as whole words, the rules read nothing else from a sentence
    that contains it, and the quote holds the value.
    """
    stated = stated_answer(answer)
    if stated is None:
        return "its answer cannot be read"
    value, quote = stated
    if value.casefold() in NO_VALUE:
        return f"it finds {value.casefold()}"
    claimed = reading_by_rules(doubt, value, language)
    if claimed.value is None:
        return "its value is no answer to the question"
    passage, whole = normalised(quote), normalised(doubt.reply.text)
    if not passage or not re.search(rf"(?<![\w-])(?<!\d[.,]){re.escape(passage)}(?!\w|[.,]\d)", whole):
        return "its quote does not stand in the reply"
    around = [text for text in sentences(doubt.reply.text) if passage in normalised(text)]
    read = [reading_by_rules(doubt, text, language) for text in (*around, quote)]
    denies = any(
        reading.value != claimed.value if reading.value is not None else not is_open(reading.why_none)
        for reading in read
    )
    is_held = not denies and (read[-1].value is not None or holds(quote, claimed.value, doubt.kind, language))
    return claimed._replace(raw=quote[:MAX_PASSAGE_CHARACTERS]) if is_held else "its quote does not hold the value"


def reading_by_rules(doubt: UnreadReply, text: str, language: str) -> Reading:
    """Return what the rules read from a text as the whole reply."""
    read = GRADERS[doubt.kind].read
    assert read is not None, "only parsers of the last turn have a question"
    [reading] = read(doubt.item, in_english_notation(text, language), "robust")
    return reading


def holds(quote: str, claimed: object, kind: str, language: str) -> bool:
    """Return True if a quote from which the rules read nothing holds a value.

    A number must be the only one in the quote (a step also as an ordinal), and a letter stand alone or in brackets. A
    verdict, or the statement that no step is wrong, is held by any words, since only the model understands these.
    """
    numbers = number_values(words_as_digits(in_english_notation(quote, language)))
    if isinstance(claimed, bool) or (kind == STEP and claimed == 0):
        return len(quote.split()) >= FEWEST_WORDS and (kind != STEP or not numbers)
    if isinstance(claimed, str):
        lone = rf"(?:\boption\s*|[(\[]\s*){claimed}\b|^\W*{claimed}\W*$"
        return re.search(lone, quote, re.IGNORECASE) is not None
    if not isinstance(claimed, int | float):
        return False
    ordinals = {ORDINALS.index(word) for word in re.findall(r"\w+", quote.casefold()) if word in ORDINALS}
    return {*numbers, *(map(float, ordinals) if kind == STEP else ())} == {float(claimed)}


def grade_readings(*, job: GradeReadings, items: Path, replies: Path, grades: Path, readings: Path, out: Path) -> None:
    """Write one tutor's grades by the rules again, with a model's readings where the rules did not understand.

    items: folder of the benchmark's items; grades: grades by the rules; readings: the model's answers.
    """
    cases = read_items(items, job.tasks)
    known = read_checked_records(replies, Reply, cases, tutor=job.tutor)
    ruled = read_records(grades, Grade)
    answers = {(answer.task, answer.id, answer.kind): answer for answer in read_records(readings, ReaderAnswer)}
    doubts = {(doubt.item.task, doubt.item.id, doubt.kind): doubt for doubt in doubts_of(ruled, cases, known)}

    def graded() -> Iterator[Grade]:
        for grade in ruled:
            if grade.scoring != "robust" or GRADERS[grade.kind].question is None:
                continue
            grade = grade.model_copy(update={"by": job.reader})
            key = (grade.task, grade.id, grade.kind)
            if key not in doubts or not is_read(grade):
                yield grade
                continue
            answer, language = answers[key], job.languages.get(grade.task, ENGLISH)
            reading = answer.error or counted_reading(doubts[key], answer.answer, language)
            if isinstance(reading, str):
                yield grade.model_copy(update={"reason": f"{job.reader}: {reading}"})
            else:
                update = {"value": reading.value, "correct": reading.correct, "raw": reading.raw, "why_none": None}
                yield grade.model_copy(update={**update, "reason": f"read by {job.reader}"})

    write_records(out, graded())
