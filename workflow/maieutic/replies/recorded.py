"""Replies that exist already: a tutor that is no endpoint is graded, judged, scored and shown like any other."""

from __future__ import annotations

import difflib
import logging
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from maieutic.config.cards import LoadedCard, card_path, cards_of, read_card
from maieutic.config.prompts import render
from maieutic.config.registry import unknown
from maieutic.core.errors import UserError
from maieutic.core.files import write_lines
from maieutic.core.jobs import Job
from maieutic.core.journal import digest
from maieutic.core.plugins import merged
from maieutic.core.records import NO_REPLY, NOBODY_ASKED, Item, Reply, Turn, read_items, read_records, write_records
from maieutic.core.run_files import of_run
from maieutic.core.tables import check_columns, with_known_names
from maieutic.core.thinking import split_thinking
from maieutic.datasets.registry import LOADERS
from maieutic.datasets.sources import read_source
from maieutic.replies.forms import RecordedForm
from maieutic.replies.generate import first_messages, first_prompt
from maieutic.replies.published import read_published

log = logging.getLogger(__name__)
REPLIES = ("reply", "replies", "response")  # the columns in which what was said may stand
FORMS: dict[str, RecordedForm] = merged("recorded", "RECORDED")
COLUMNS = ("id", "prompt", "task", *REPLIES)
SHOWN = 5  # unknown ids in one message
SHOWN_CHARACTERS = 40  # of an id or prompt
Key = tuple[str, str, str]  # of an item: benchmark, task, id


class ReadReplies(Job):
    """A tutor with a file of replies, and the tasks of one benchmark that it answers.

    forms: by BENCHMARK/TASK, the format of the source that has all its items, where the run draws some of them; form,
    speaker: of a benchmark's own file whose replies they are.
    """

    tutor: str
    benchmark: str
    tasks: list[str]
    protocol: str
    forms: dict[str, str] = {}
    form: str | None = None
    speaker: str | None = None


class Line(NamedTuple):
    """A line of the file: where it stands, whose item it is (by id, or by the prompt's own text), and the texts.

    prompts: the texts by which the prompt may be known, the likeliest first.
    """

    place: str
    task: str | None
    id: str | None
    prompts: tuple[str, ...]
    texts: list[str]

    @property
    def prompt(self) -> str:
        """The prompt in one line; "" of a line without one."""
        return in_one_line(self.prompts[0]) if self.prompts else ""


def read_replies(
    *, job: ReadReplies, file: list[Path], items: list[Path], sources: list[Path], out: Path, prompts: Path
) -> None:
    """Write one Reply per item of the benchmark; one without a reply in the files is missing, and counted.

    file: JSON lines, CSV, or what another tool writes; items: of every task that the tutor answers in this run, so that
    a line of another benchmark is no fault; sources: of `forms`, in their order. Raises UserError naming every line
    that fits no item.
    """
    of_run = {(path.parent.name, path.stem): read_records(path, Item) for path in items}
    cards = {(benchmark, task): read_card(card_path(benchmark, task), job.protocol) for benchmark, task in of_run}
    place = f"models.{job.tutor}"
    if job.form is None:
        lines = [line for path in file for line in read_lines(path, f"{place}.file")]
    else:
        form = FORMS[job.form]
        lines = [line for path in file for line in lines_of_form(path, form, job.speaker, f"{place}.speaker", cards)]
    undrawn = Undrawn(set(), {})
    for (name, kind), source in zip(job.forms.items(), sources, strict=True):
        benchmark, _, task = name.partition("/")
        undrawn.add(cards[benchmark, task], read_source(source, kind))
    # A release may have items that this run does not have.
    texts = texts_by_item(lines, of_run, prompts_by_text(cards, of_run), undrawn, job.form is not None)
    replies = [
        reply_of(job.tutor, item, texts.get((job.benchmark, task, item.id)), len(cards[job.benchmark, task].templates))
        for task in job.tasks
        for item in of_run[job.benchmark, task]
    ]
    answered = sum(reply.error is None for reply in replies)
    log.info("%s: %d of %d items have a reply", job.tutor, answered, len(replies))
    if replies and not answered:
        log.warning("%s: no item of %s has a reply in %s", job.tutor, job.benchmark, ", ".join(map(str, file)))
    write_records(out, replies)
    write_records(prompts, [])


class Undrawn(NamedTuple):
    """The items of the run's tasks, also those that a limit leaves out: their ids, and by prompt their ids in order."""

    ids: set[str]
    prompts: dict[str, list[str]]

    def add(self, loaded: LoadedCard, records: list[Any]) -> None:
        """Add all items of a task. records: of its source."""
        for item in LOADERS[loaded.card.loader].load(records, loaded.card.task):
            self.ids.add(item.id)
            self.prompts.setdefault(in_one_line(first_prompt(loaded, item)), []).append(item.id)

    def has(self, line: Line) -> bool:
        """Return whether a line is of one of them."""
        return line.id in self.ids or any(in_one_line(prompt) in self.prompts for prompt in line.prompts)


def prompts_by_text(
    cards: Mapping[tuple[str, str], LoadedCard], of_run: Mapping[tuple[str, str], Sequence[Item]]
) -> dict[str, list[Key]]:
    """By the text of an item's first prompt the items that have it."""
    keys: dict[str, list[Key]] = {}
    for (benchmark, task), items in of_run.items():
        for item in items:
            text = in_one_line(first_prompt(cards[benchmark, task], item))
            keys.setdefault(text, []).append((benchmark, task, item.id))
    return keys


def in_one_line(text: str) -> str:
    """A text without differences of blanks."""
    return " ".join(text.split())


def read_lines(path: Path, place: str) -> list[Line]:
    """The lines of a file of replies. Raises UserError naming all that have no item or no text."""
    records = read_published(path)
    faults: list[UserError] = []
    lines = []
    if all(isinstance(record, dict) for record in records):
        records = [with_known_names(record, COLUMNS) for record in records if not record.get("left_out")]
        check_named(path, records)
    for number, record in enumerate(records, 1):
        where = f"{path}, record {number}"
        if not isinstance(record, dict):
            faults.append(UserError(where, f"expected a mapping, found {type(record).__name__}", "id and reply"))
            continue
        column = next((column for column in REPLIES if record.get(column) not in (None, "")), None)
        said = record[column] if column else []
        texts = said if isinstance(said, list) else [said]
        identity, prompt = record.get("id"), record.get("prompt") or ()
        if identity in (None, "") and not prompt:
            faults.append(UserError(where, "neither id nor prompt", "say which item is answered"))
        elif not all(isinstance(text, str) for text in texts):
            faults.append(UserError(where, f"{column} is no text", "a string, or a list of them, one for each turn"))
        else:
            name = None if identity in (None, "") else str(identity)
            texts = [text for text in texts if text]
            prompts = tuple(map(str, prompt)) if isinstance(prompt, list) else (str(prompt),) if prompt else ()
            lines.append(Line(where, record.get("task") or None, name, prompts, texts))
    if faults:
        raise UserError.of(faults)
    if not lines:
        raise UserError(place, f"{path} has no records", "a line for each item: id and reply")
    return lines


def check_named(path: Path, records: Sequence[Mapping[str, Any]]) -> None:
    """Raise UserError where no record has a column that names its item, or one that holds the reply."""
    columns = list(dict.fromkeys(str(name) for record in records for name in record))
    for wanted, first in ((("id", "prompt"), "id"), (REPLIES, "reply")):
        if records and not set(wanted) & set(columns):
            check_columns(str(path), columns, [first], f"a line for each item: {first}")


def lines_of_form(
    path: Path, form: RecordedForm, speaker: str | None, place: str, cards: Mapping[tuple[str, str], LoadedCard]
) -> list[Line]:
    """Return one tutor's replies in a benchmark's own file, by the prompts of their items.

    There are none where the run has no such task. Raises UserError for a tutor that the file does not have, or for
    records of another form.
    """
    task = form.task_of(path)
    records = read_source(path, path.suffix[1:], str(path))
    try:
        said = [(form.tutors(record), form.item(record)) for record in records]
    except (KeyError, TypeError, AttributeError) as error:
        problem = f"not in the form of {form.benchmark}: {type(error).__name__}: {error}"
        raise UserError(str(path), problem, "name a file of its authors' format, or use JSON lines") from None
    known = sorted({name for replies, _ in said for name in replies})
    if speaker is None and len(known) == 1:
        [speaker] = known
    if speaker is None:
        raise UserError(place, f"{path} has the replies of {len(known)} tutors", f"name one of {', '.join(known)}")
    if speaker not in known:
        raise unknown(place, speaker, known, f"the tutors of {path}")
    loaded = cards.get((form.benchmark, task))
    if loaded is None:
        return []
    return [
        Line(f"{path}, record {number}", task, None, (first_prompt(loaded, item),), [replies[speaker].strip()])
        for number, (replies, item) in enumerate(said, 1)
        if replies.get(speaker, "").strip()
    ]


def texts_by_item(
    lines: Iterable[Line],
    of_run: Mapping[tuple[str, str], Sequence[Item]],
    by_prompt: Mapping[str, list[Key]],
    undrawn: Undrawn,
    released: bool,
) -> dict[Key, list[str]]:
    """Return the texts of each item. Raises UserError for lines that fit no item, or that contradict each other.

    Several lines with one prompt belong to the items with it in the order of both. undrawn: items whose lines are no
    fault; released: the file may hold lines of any other items, as long as some fit.
    """
    by_id: dict[str, list[Key]] = {}
    for (benchmark, task), items in of_run.items():
        for item in items:
            by_id.setdefault(item.id, []).append((benchmark, task, item.id))
    texts: dict[Key, list[str]] = {}
    faults: list[UserError] = []
    unknown: list[Line] = []
    lines = list(lines)
    several = released or bool(undrawn.ids)
    alike = Counter(line.prompt for line in lines if line.id not in by_id)
    met: Counter[str] = Counter()
    passed = 0
    for line in lines:
        keys = by_id.get(line.id, []) if line.id else []
        if not keys and line.prompts:
            known = next((text for text in map(in_one_line, line.prompts) if text in by_prompt), "")
            keys = by_prompt.get(known, [])
            order = undrawn.prompts.get(known, [])
            if len(order) > 1 and alike[line.prompt] == len(order):  # each line is of the item at its own place
                keys = [key for key in keys if key[2] == order[met[known]]]
                met[known] += 1
            elif alike[line.prompt] > 1 and (several or alike[line.prompt] == len(keys)):
                keys = keys[met[known] : met[known] + 1]
                met[known] += 1
        here = bool(keys)
        keys = [key for key in keys if line.task in (None, key[1], f"{key[0]}/{key[1]}")]
        if not keys and not here and (released or undrawn.has(line)):
            passed += 1
        elif not keys:
            unknown.append(line)
        for key in keys:
            if line.texts and texts.setdefault(key, line.texts) != line.texts:
                faults.append(UserError(line.place, f"{key[2]} has another reply above", "keep one of them"))
    named = {line.id for line in lines}
    everything = {name: None for name in (*by_id, *undrawn.ids) if name not in named}  # what no line is of yet
    faults += [no_item(line, everything) for line in unknown[:SHOWN]]
    if more := unknown[SHOWN:]:
        problem = f"{len(more)} further records fit no item either"
        faults.append(UserError(more[0].place, problem, list_items()))
    if passed and not texts and not faults:
        place = lines[0].place.partition(",")[0]
        first = (lines[0].id or lines[0].prompt)[:SHOWN_CHARACTERS]
        problem = f"none of its {passed} records fits an item of this run, as the first one of {first!r}"
        faults.append(UserError(place, problem, list_items()))
    elif passed:
        log.warning("%d replies are of items that this run does not have", passed)
    if faults:
        raise UserError.of(faults)
    return texts


def list_items() -> str:
    """Return where the ids of this run's items can be had."""
    return f"`{of_run('maieutic items')}` writes the ids"


def no_item(line: Line, known: Mapping[str, Any]) -> UserError:
    """A line that fits no item, with the nearest id."""
    if line.id is None:
        return UserError(line.place, "no item has this prompt", f"give ids: {list_items()}")
    near = difflib.get_close_matches(line.id, known, 1)
    mend = f"did you mean {near[0]!r}?" if near else list_items()
    task = f" in task {line.task}" if line.task else ""
    return UserError(line.place, f"there is no item {line.id!r}{task}", mend)


def reply_of(tutor: str, item: Item, texts: Sequence[str] | None, turns: int) -> Reply:
    """An item's reply; with an error where the file has none, or fewer texts than the task has turns."""
    error = None
    if not texts:
        error = NO_REPLY
    elif len(texts) < turns:
        error = f"recorded replies to {len(texts)} of {turns} turns"
    said = [recorded_turn(text) for text in (texts or ())[:turns]]
    key = digest({"recorded": list(texts or ())})
    return Reply(id=item.id, task=item.task, tutor=tutor, key=key, turns=said, error=error)


def recorded_turn(text: str) -> Turn:
    """Return a recorded text as a turn, its inline reasoning split off as for a served model."""
    answer, reasoning = split_thinking(text)
    raw = None if answer == text else text
    return Turn(messages=NOBODY_ASKED, text=answer, raw=raw, reasoning=reasoning)


# what there is to answer ----------------------------------------------------------------------------------------------


class WriteQuestions(Job):
    """A task whose items somebody else is to answer."""

    benchmark: str
    task: str
    protocol: str


def write_questions(*, job: WriteQuestions, items: Path, out: Path) -> None:
    """Write each item's id with the messages of its first prompt; of a task of several turns, what is asked later.

    A later prompt that quotes the tutor's own answers has `{answer 1}`, `{answer 2}`, ... in their place.
    """
    [loaded] = cards_of(job.benchmark, [job.task], job.protocol)
    write_lines(out, (question_of(loaded, item) for item in read_items(items.parent, [job.task])))


def question_of(loaded: LoadedCard, item: Item) -> dict[str, Any]:
    """An item as somebody else is to answer it, with an empty reply."""
    answers = [f"{{answer {number}}}" for number in range(1, len(loaded.templates) + 1)]
    later = [
        render(template, {**item.vars, "answers": answers[:number]}, loaded.shots)
        for number, template in enumerate(loaded.templates[1:], 1)
    ]
    return {
        "id": item.id,
        "task": f"{loaded.card.benchmark}/{loaded.card.task}",
        "messages": first_messages(loaded, item, None),
        **({"later": later} if later else {}),
        "reply": [""] * len(loaded.templates) if later else "",
    }
