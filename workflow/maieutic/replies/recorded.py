"""Recorded replies, which are read from files. They are graded, judged and scored like those of any other tutor."""

from __future__ import annotations

import difflib
import logging
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from maieutic.config.cards import LoadedCard, card_path, load_cards, read_card
from maieutic.config.registry import unknown_name
from maieutic.core.errors import UserError, with_run_files
from maieutic.core.files import write_json_lines
from maieutic.core.jobs import Job
from maieutic.core.journal import canonical_digest
from maieutic.core.plugins import merged_plugin_tables
from maieutic.core.records import NO_REPLY, NO_REQUEST, Item, Reply, Turn, read_items, read_records, write_records
from maieutic.core.tables import check_columns, likely_column, rename_known_keys
from maieutic.core.thinking import split_thinking
from maieutic.datasets.registry import LOADERS
from maieutic.datasets.sources import read_source
from maieutic.replies.foreign_formats import RecordedForm, read_foreign_replies
from maieutic.replies.generate import first_messages, first_prompt, turn_count, turn_prompt

log = logging.getLogger(__name__)
REPLIES = ("reply", "replies", "response")  # columns that may contain the reply
FORMS: dict[str, RecordedForm] = merged_plugin_tables("recorded", "RECORDED")
COLUMNS = ("id", "prompt", "task", *REPLIES)
# Names of columns that may hold the right answers, which are never proposed as the replies
RIGHT_ANSWERS = re.compile(r"answer|gold|target|expected|correct|reference|solution|label", re.IGNORECASE)
MAX_LISTED_LINES = 5  # maximum number of unmatched lines that are listed one by one
MAX_SHOWN_CHARACTERS = 40  # maximum length of an id or prompt in a message
ItemKey = tuple[str, str, str]  # identity of an item: benchmark, task, id


class ReadReplies(Job):
    """Job that reads one tutor's replies to the tasks of a benchmark from files.

    forms: for each BENCHMARK/TASK of which the run uses only a sample, the format of the source file with all items;
    form: name of the files' published format if they have one, otherwise None; file_format: file format of the
    replies (such as `jsonl`), None if the file's suffix names it; speaker: name of the tutor in files with several
    tutors.
    """

    tutor: str
    benchmark: str
    tasks: list[str]
    protocol: str
    forms: dict[str, str] = {}
    form: str | None = None
    file_format: str | None = None
    speaker: str | None = None


class ReplyLine(NamedTuple):
    """A record in a file of replies.

    place: place of the record in error messages; task, id: task and id of the item, or None; prompts: texts that may
    match the item's prompt, the likeliest first; texts: texts of the reply's turns.
    """

    place: str
    task: str | None
    id: str | None
    prompts: tuple[str, ...]
    texts: list[str]

    @property
    def prompt(self) -> str:
        """The likeliest prompt on one line, or "" if the record has no prompt."""
        return collapse_whitespace(self.prompts[0]) if self.prompts else ""


def read_replies(
    *, job: ReadReplies, file: list[Path], items: list[Path], sources: list[Path], out: Path, prompts: Path
) -> None:
    """Write one Reply per item of the benchmark. An item without a reply in the files gets a Reply with an error.

    file: files in JSON lines, CSV or another tool's format; items: item files of all tasks that the tutor answers in
    this run, in which records for other benchmarks are found; sources: source files for `forms`, in the same order.
    Raises UserError if a record matches no item.
    """
    with_copies = {(path.parent.name, path.stem): read_records(path, Item) for path in items}
    of_run = {task: [item for item in task_items if not item.repeat] for task, task_items in with_copies.items()}
    cards = {(benchmark, task): read_card(card_path(benchmark, task), job.protocol) for benchmark, task in of_run}
    place = f"models.{job.tutor}"
    if job.form is None:
        lines = [line for path in file for line in read_reply_lines(path, f"{place}.file")]
    else:
        form = FORMS[job.form]
        lines = [
            line
            for path in file
            for line in read_recorded_form(
                path, job.file_format or path.suffix[1:], form, job.speaker, f"{place}.speaker", cards
            )
        ]
    undrawn = AllTaskItems(set(), {})
    for (name, kind), source in zip(job.forms.items(), sources, strict=True):
        benchmark, _, task = name.partition("/")
        undrawn.add(cards[benchmark, task], read_source(source, kind))
    # A file released by the benchmark's authors may contain replies to items that are not in this run.
    texts = texts_by_item(lines, of_run, prompts_by_text(cards, of_run), undrawn, job.form is not None)
    parts = [
        (item, texts.get((job.benchmark, task, item.base)), turn_count(cards[job.benchmark, task], item))
        for task in job.tasks
        for item in with_copies[job.benchmark, task]
    ]
    if too_long := [part for part in parts if len(part[1] or ()) > part[2]]:
        item, spoken, turns = too_long[0]
        problem = (
            f"{len(too_long):,} replies have more texts than turns, such as {len(spoken or ())} for {turns} of item"
        )
        fix = "write one text for each turn of the tutor"
        raise UserError(", ".join(map(str, file)), f"{problem} {item.id}", fix)
    replies = [recorded_reply(job.tutor, *part) for part in parts]
    answered = sum(reply.error is None for reply in replies)
    log.info("%s: %d of %d items have a reply", job.tutor, answered, len(replies))
    if replies and not answered:
        log.warning("%s: no item of %s has a reply in %s", job.tutor, job.benchmark, ", ".join(map(str, file)))
    write_records(out, replies)
    write_records(prompts, [])


class AllTaskItems(NamedTuple):
    """All items of the tasks of which the run uses a sample.

    ids: ids of the items; prompts: for each prompt, the ids of the items with this prompt, in source order.
    """

    ids: set[str]
    prompts: dict[str, list[str]]

    def add(self, loaded: LoadedCard, records: list[Any]) -> None:
        """Add all items of a task. records: records of the task's source file."""
        for item in LOADERS[loaded.card.loader].load(records, loaded.card.task):
            self.ids.add(item.id)
            self.prompts.setdefault(collapse_whitespace(first_prompt(loaded, item)), []).append(item.id)

    def includes(self, line: ReplyLine) -> bool:
        """Return True if a line belongs to an item of these tasks."""
        return line.id in self.ids or any(collapse_whitespace(prompt) in self.prompts for prompt in line.prompts)


def prompts_by_text(
    cards: Mapping[tuple[str, str], LoadedCard], of_run: Mapping[tuple[str, str], Sequence[Item]]
) -> dict[str, list[ItemKey]]:
    """Map the text of each first prompt to the keys of the items with this prompt.

    cards: card of each (benchmark, task); of_run: items of each (benchmark, task).
    """
    keys: dict[str, list[ItemKey]] = {}
    for (benchmark, task), items in of_run.items():
        for item in items:
            text = collapse_whitespace(first_prompt(cards[benchmark, task], item))
            keys.setdefault(text, []).append((benchmark, task, item.id))
    return keys


def collapse_whitespace(text: str) -> str:
    """Return the text with every run of whitespace replaced by a single space."""
    return " ".join(text.split())


def read_reply_lines(path: Path, place: str) -> list[ReplyLine]:
    """Return the records of a file of replies.

    place: config key for messages. Raises UserError if a record has neither id nor prompt, or if a reply is not text.
    """
    records = read_foreign_replies(path)
    faults: list[UserError] = []
    lines = []
    if all(isinstance(record, dict) for record in records):
        records = [rename_known_keys(record, COLUMNS) for record in records if not record.get("left_out")]
        check_reply_columns(path, records)
    for number, record in enumerate(records, 1):
        where = f"{path}, record {number}"
        if not isinstance(record, dict):
            problem = f"expected a mapping, found {type(record).__name__}"
            faults.append(UserError(where, problem, "write each record as a mapping with id and reply"))
            continue
        column = next((column for column in REPLIES if record.get(column) not in (None, "")), None)
        content = record[column] if column else []
        texts = content if isinstance(content, list) else [content]
        identity, prompt = record.get("id"), record.get("prompt") or ()
        if identity in (None, "") and not prompt:
            faults.append(
                UserError(where, "the record has neither id nor prompt", "add the id or the prompt of the item")
            )
        elif not all(isinstance(text, str) for text in texts):
            fix = "write a string, or a list of strings with one string for each turn"
            faults.append(UserError(where, f"{column} is not text", fix))
        else:
            name = None if identity in (None, "") else str(identity)
            texts = texts if any(texts) else []  # an empty turn of a conversation keeps its place
            prompts = tuple(map(str, prompt)) if isinstance(prompt, list) else (str(prompt),) if prompt else ()
            lines.append(ReplyLine(where, record.get("task") or None, name, prompts, texts))
    if faults:
        raise UserError.of(faults)
    if not lines:
        raise UserError(place, f"{path} has no records", "write a line with id and reply for each item")
    return lines


def check_reply_columns(path: Path, records: Sequence[Mapping[str, Any]]) -> None:
    """Raise UserError if no record identifies its item (by `id` or `prompt`), or if no record has a reply column."""
    columns = list(dict.fromkeys(str(name) for record in records for name in record))
    for names, first in ((("id", "prompt"), "id"), (REPLIES, "reply")):
        if records and not set(names) & set(columns):
            likely = likely_column(first, columns)
            if likely is not None and RIGHT_ANSWERS.search(likely):
                problem = f"expected a column reply, found {', '.join(columns)}"
                raise UserError(str(path), problem, "name the column of the model's own replies `reply`")
            check_columns(str(path), columns, [first], f"write {first} in the line of each item")


def read_recorded_form(
    path: Path,
    file_format: str,
    form: RecordedForm,
    speaker: str | None,
    place: str,
    cards: Mapping[tuple[str, str], LoadedCard],
) -> list[ReplyLine]:
    """Return one tutor's replies in a file of a published format. Prompts identify the items.

    speaker: name of the tutor in the file, optional if the file has one tutor; place: config key for messages; cards:
    cards of the run by benchmark and task. If the file's task is not in the run, the result is empty. Raises UserError
    if the file has no replies of this tutor, or if a record is malformed.
    """
    task = form.task_of(path)
    records = read_source(path, file_format, str(path))
    try:
        replies_of = [(form.tutors(record), form.item(record)) for record in records]
    except (KeyError, TypeError, AttributeError) as error:
        problem = f"the file does not have the format of {form.benchmark}: {type(error).__name__}: {error}"
        raise UserError(str(path), problem, "use the file that the authors released, or JSON lines") from None
    known = sorted({name for replies, _ in replies_of for name in replies})
    if speaker is None and len(known) == 1:
        [speaker] = known
    if speaker is None:
        raise UserError(
            place, f"{path} contains replies of {len(known)} tutors", f"set speaker to one of {', '.join(known)}"
        )
    if speaker not in known:
        raise unknown_name(place, speaker, known, f"the tutors of {path}")
    loaded = cards.get((form.benchmark, task))
    if loaded is None:
        return []
    return [
        ReplyLine(f"{path}, record {number}", task, None, (first_prompt(loaded, item),), [replies[speaker].strip()])
        for number, (replies, item) in enumerate(replies_of, 1)
        if replies.get(speaker, "").strip()
    ]


def texts_by_item(
    lines: Iterable[ReplyLine],
    of_run: Mapping[tuple[str, str], Sequence[Item]],
    by_prompt: Mapping[str, list[ItemKey]],
    undrawn: AllTaskItems,
    released: bool,
) -> dict[ItemKey, list[str]]:
    """Return the texts of each item's reply. Raises UserError if a line matches no item, or if two lines disagree.

    Several lines with the same prompt are matched in order to the items with that prompt.

    of_run: items of the run by benchmark and task; by_prompt: keys of the items with each prompt; undrawn: all items of
    the tasks of which the run uses a sample, so that lines for items outside the sample are ignored; released: True for
    a file by the benchmark's authors, in which lines that match no item are ignored if at least one line matches.
    """
    by_id: dict[str, list[ItemKey]] = {}
    for (benchmark, task), items in of_run.items():
        for item in items:
            by_id.setdefault(item.id, []).append((benchmark, task, item.id))
    texts: dict[ItemKey, list[str]] = {}
    faults: list[UserError] = []
    unknown: list[ReplyLine] = []
    lines = list(lines)
    several = released or bool(undrawn.ids)
    alike = Counter(line.prompt for line in lines if line.id not in by_id)
    met: Counter[str] = Counter()
    passed = 0
    for line in lines:
        keys = by_id.get(line.id, []) if line.id else []
        if not keys and line.prompts:
            known = next((text for text in map(collapse_whitespace, line.prompts) if text in by_prompt), "")
            keys = by_prompt.get(known, [])
            order = undrawn.prompts.get(known, [])
            if len(order) > 1 and alike[line.prompt] == len(order):  # as many lines as items, so match them in order
                keys = [key for key in keys if key[2] == order[met[known]]]
                met[known] += 1
            elif alike[line.prompt] > 1 and (several or alike[line.prompt] == len(keys)):
                keys = keys[met[known] : met[known] + 1]
                met[known] += 1
        here = bool(keys)
        keys = [key for key in keys if line.task in (None, key[1], f"{key[0]}/{key[1]}")]
        if not keys and not here and (released or undrawn.includes(line)):
            passed += 1
        elif not keys:
            unknown.append(line)
        for key in keys:
            if line.texts and texts.setdefault(key, line.texts) != line.texts:
                problem = f"item {key[2]} has a different reply in an earlier record"
                faults.append(UserError(line.place, problem, "keep one of the two records"))
    named = {line.id for line in lines}
    everything = {name: None for name in (*by_id, *undrawn.ids) if name not in named}  # ids that no line has
    faults += [unknown_item_error(line, everything) for line in unknown[:MAX_LISTED_LINES]]
    if more := unknown[MAX_LISTED_LINES:]:
        problem = f"{len(more)} more records match no item, starting with this one"
        faults.append(UserError(more[0].place, problem, items_command()))
    if passed and not texts and not faults:
        place = lines[0].place.partition(",")[0]
        first = (lines[0].id or lines[0].prompt)[:MAX_SHOWN_CHARACTERS]
        problem = f"none of the {passed} records matches an item of this run; the first record has {first!r}"
        faults.append(UserError(place, problem, items_command()))
    elif passed:
        log.warning("replies left out because their items are not in this run: %d", passed)
    if faults:
        raise UserError.of(faults)
    return texts


def items_command() -> str:
    """Return a fix for error messages: run the command that writes the ids of this run's items."""
    return f"run `{with_run_files('maieutic items')}`, and copy the ids from its files"


def unknown_item_error(line: ReplyLine, known: Mapping[str, Any]) -> UserError:
    """Return the error for a line that matches no item. Its fix suggests the most similar id in `known`."""
    if line.id is None:
        return UserError(line.place, "no item has this prompt", f"add an id to each record: {items_command()}")
    near = difflib.get_close_matches(line.id, known, 1)
    fix = f"did you mean {near[0]!r}?" if near else items_command()
    task = f" in task {line.task}" if line.task else ""
    return UserError(line.place, f"there is no item {line.id!r}{task}", fix)


def recorded_reply(tutor: str, item: Item, texts: Sequence[str] | None, turns: int) -> Reply:
    """Return an item's reply. The reply has an error if there is no text, or if there are fewer texts than turns."""
    error = ended = None
    key = canonical_digest({"recorded": list(texts or ())})
    texts = list(texts or ())
    if not texts:
        error = NO_REPLY
    elif item.script and (empty := next((at for at, text in enumerate(texts, 1) if not text.strip()), None)):
        texts, ended = texts[:empty], f"the tutor's turn {empty} of {turns} is empty"
    elif len(texts) < turns:
        error = f"recorded replies to {len(texts)} of {turns} turns"
    recorded = [recorded_turn(text) for text in texts]
    return Reply(id=item.id, task=item.task, tutor=tutor, key=key, turns=recorded, error=error, ended=ended)


def recorded_turn(text: str) -> Turn:
    """Return a recorded text as a turn. Inline reasoning is separated from the answer, as for a served model."""
    answer, reasoning = split_thinking(text)
    raw = None if answer == text else text
    return Turn(messages=NO_REQUEST, text=answer, raw=raw, reasoning=reasoning)


# questions to answer elsewhere ----------------------------------------------------------------------------------------


class WriteQuestions(Job):
    """Job for a task whose items are answered outside the run."""

    benchmark: str
    task: str
    protocol: str


def write_questions(*, job: WriteQuestions, items: Path, out: Path) -> None:
    """Write each item's id, the messages of its first prompt, and its later prompts, if the task has several turns.

    Later prompts contain the placeholders `{answer 1}`, `{answer 2}`, ... in place of the tutor's answers.
    """
    [loaded] = load_cards(job.benchmark, [job.task], job.protocol)
    distinct = (item for item in read_items(items.parent, [job.task]) if not item.repeat)
    write_json_lines(out, (question_record(loaded, item) for item in distinct))


def question_record(loaded: LoadedCard, item: Item) -> dict[str, Any]:
    """Return an item as a record to be answered outside the run. The record's field `reply` is empty."""
    turns = turn_count(loaded, item)
    answers = [f"{{answer {number}}}" for number in range(1, turns)]
    later = [turn_prompt(loaded, item, answers[:number]) for number in range(1, turns)]
    return {
        "id": item.id,
        "task": f"{loaded.card.benchmark}/{loaded.card.task}",
        "messages": first_messages(loaded, item, None),
        **({"later": later} if later else {}),
        "reply": [""] * turns if later else "",
    }
