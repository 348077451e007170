"""Readings of the user's files before a run's first job, by the jobs that will read them, with discarded outputs."""

from __future__ import annotations

import logging
import re
import shlex
import tempfile
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from maieutic.config.cards import Card
from maieutic.config.people import PreferenceSet
from maieutic.core.encodings import without_entities
from maieutic.core.errors import UserError, raise_all
from maieutic.core.files import MB, read_json_lines
from maieutic.core.records import Item, Label, read_records
from maieutic.core.terminal import say
from maieutic.core.user_tables import REPEATED_HEADERS, header_rows, is_written_object, preview, unused_columns
from maieutic.datasets.histories import check_divided, read_histories
from maieutic.datasets.label_table import FIXED_COLUMNS, group_by_reply
from maieutic.datasets.options import check_places, check_questions
from maieutic.datasets.pair_table import CHOICE_WORDS
from maieutic.datasets.registry import LOADERS
from maieutic.datasets.sources import read_checked_source, read_source
from maieutic.graders.grader import Grader
from maieutic.graders.registry import GRADERS
from maieutic.plan.plan import Plan
from maieutic.preparation.items import make_items
from maieutic.preparation.labels import make_labels
from maieutic.preparation.own_files import label_files, preference_files, problems_file, table_command
from maieutic.preparation.pairs import write_pairs
from maieutic.preparation.stage import make_items_job, make_labels_job, make_pairs_job
from maieutic.replies.foreign_formats import read_foreign_replies
from maieutic.replies.recorded import COLUMNS, REPLIES, check_reply_columns
from maieutic.serving.conversations import Message, merge_turns, parse_turns

MOST_MB = 20.0  # larger files are read by their jobs alone
PREVIEWED = ("items.jsonl", "replies.jsonl", "labels.jsonl", "pairs.jsonl")  # what is made of a file of the user's
NOTES = "notes.txt"  # file of a reading's folder with lines on what the user should know
LONGEST_ANSWER = 40  # characters of an answer that is no solution
SCALE = re.compile(r"\d\s*(?:lakhs?|crores?|lacs?|tsd|mio|mrd|mn|bn|mln|mld|hundred|dozen)\b", re.IGNORECASE)
NAMING = {"id", "item_id", "dialogue", "conversation", "tutor", "annotator", "criterion"}  # columns of ids and names
TUTOR_COLUMNS = ("tutor", "model", "model_name", "model_id", "system")
YES_NO = {"yes", "true", "1", "no", "false", "0", ""}
MOST_WORDS = 5  # number of unknown words that are listed
# Cells with the value of a failed formula or of a program, instead of a reply
FAILED_CALL = (
    r"\[?(?:error|exception|request failed|traceback)\b.{0,60}"
    r"(?:\b[45]\d\d\b|rate.?limit|time.?out|too many|connection).{0,200}"
)
NO_TEXT = re.compile(
    rf"\s*(?:{FAILED_CALL}|#(?:NAME|REF|N/A|VALUE|DIV/0|NUM|NULL)[?!]?|nan|null|none|undefined|\[object Object\])\s*",
    re.IGNORECASE | re.DOTALL,
)
Reading = tuple[str, Path, Callable[[Path], None]]  # key of the file, its path, and the reading, given a folder


def readings_of(plan: Plan) -> Iterator[Reading]:
    """Yield the readings of the labels, preferences and problems of the user's files that a run names."""
    for release, path in label_files(plan).items():
        yield f"labels.{release}", path, partial(read_labels, plan, release, path)
    for source, path in preference_files(plan).items():
        yield f"preferences.{source}", path, partial(read_pairs, plan, source, path)
    for name in plan.with_engine("recorded"):
        if getattr(plan.models[name], "form", None) is None:
            for file in map(Path, getattr(plan.models[name], "files", [])):
                yield f"models.{name}", file, partial(read_recorded, file)
    for loaded in plan.cards.values():
        card = loaded.card
        path_of_problems = None if card.images else problems_file(plan, card.dataset)
        if path_of_problems is not None:
            read = partial(read_items, plan, card.benchmark, card.task, path_of_problems)
            yield f"datasets.{card.dataset}", path_of_problems, read


class WatchedRecord(dict[str, Any]):
    """A record that notes in `used` the names of the fields that its reader looks at."""

    def __init__(self, record: Mapping[str, Any], used: set[str]) -> None:
        super().__init__(record)
        self.used = used

    def __getitem__(self, name: str) -> Any:
        self.used.add(name)
        return super().__getitem__(name)

    def get(self, name: str, default: Any = None) -> Any:
        self.used.add(name)
        return super().get(name, default)

    def items(self) -> Any:
        self.used.update(self)
        return super().items()


def note_unused(records: Sequence[Mapping[str, Any]], used: Collection[str], folder: Path) -> None:
    """Note the columns that no reader looks at, if there are any."""
    columns = dict.fromkeys(str(name) for record in records for name in record if name not in used)
    if columns:
        note(folder, f"columns that are not used: {unused_columns(columns, records)}")


def note(folder: Path, line: str) -> None:
    """Append a line about the user's file that is being read to the notes in its temporary folder."""
    with open(folder / NOTES, "a", encoding="utf-8") as file:
        file.write(f"{line}\n")


def notes_of(folder: Path, key: str, path: Path) -> list[str]:
    """Return the lines that `note` has written, each after the configuration key and the path of the file."""
    notes = folder / NOTES
    lines = notes.read_text(encoding="utf-8").splitlines() if notes.is_file() else []
    return [f"{key}: {path}: {line}" for line in lines]


def read_labels(plan: Plan, release: str, path: Path, folder: Path) -> None:
    """Make a labelled set from the user's file. Raises UserError for a faulty file."""
    read = read_source(path, path.suffix[1:], str(path), user_file=True)
    records = [record for record in read if isinstance(record, dict)]
    check_headers(path, records)
    make_labels(job=make_labels_job(plan, release), sources=[path], out=folder / "items.jsonl")
    check_resolves(path, records)
    check_spellings(path, records)
    check_label_columns(path, records)
    check_resolvers(path, read_records(folder / "annotations.jsonl", Label))


def check_histories(path: Path, entry: PreferenceSet, records: Sequence[Mapping[str, Any]]) -> None:
    """Raise UserError for dialogues that are not lines `Tutor: ` and `Student: `: the job reads no other form."""
    column = entry.columns.get("history", "history")
    values = [record.get(column) for record in records]
    read = read_histories(values, {})
    command = f"{table_command(path)} --histories {shlex.quote(column)}"
    check_divided(read, str(path), column, f"run `{command} {{}}`")
    apart = [
        number
        for number, (value, turns) in enumerate(zip(values, read.turns, strict=True), 1)
        if turns and turns != turns_read_by_job(str(value).strip())
    ]
    if apart:
        problem = f"{len(apart):,} dialogues in column {column} are not lines `Tutor: ` and `Student: `"
        raise UserError(str(path), f"{problem} (first: record {apart[0]})", f"run `{command}`, which writes them so")


def turns_read_by_job(text: str) -> list[Message]:
    """Return the turns that `maieutic.datasets.pair_table` reads in a dialogue."""
    # Not shared with that module: a change to its code would train all reward models again.
    return merge_turns(parse_turns(text)) or [{"role": "user", "content": text}]


def check_headers(path: Path, records: Sequence[Mapping[str, Any]]) -> None:
    """Raise UserError for rows of a CSV file that repeat its header, which would be read as records."""
    columns = list(dict.fromkeys(str(name) for record in records for name in record))
    if path.suffix == ".csv" and (headers := header_rows(columns, records)):
        fix = f"run `{table_command(path)}`, which leaves them out"
        raise UserError(str(path), f"{REPEATED_HEADERS}: {len(headers)}", fix)


def check_resolves(path: Path, records: Sequence[Mapping[str, Any]]) -> None:
    """Raise UserError for words in the column `resolves` that are neither yes nor no, and would count as no."""
    column = next((name for record in records for name in record if str(name).casefold().strip() == "resolves"), None)
    words = Counter(str(record.get(column) or "").strip() for record in records) if column else Counter[str]()
    if unknown := [word for word in words if word.casefold() not in YES_NO]:
        problem = f"column {column} has {', '.join(f'{word!r} ({words[word]})' for word in unknown[:MOST_WORDS])}"
        raise UserError(str(path), problem, "write yes in the lines of the person who decides, and no in all others")


def check_spellings(path: Path, records: Sequence[Mapping[str, Any]]) -> None:
    """Raise UserError for ids and names that differ only in spelling, such as 100 and 100.0, and would stay apart."""
    faults = []
    for column in {str(name): None for record in records for name in record if str(name).casefold() in NAMING}:
        spellings: dict[str, dict[str, None]] = {}
        for text in (str(record[column]) for record in records if record.get(column) not in (None, "")):
            folded = text.strip().casefold().removesuffix(".0")
            spellings.setdefault(folded, {})[text.strip()] = None
        if apart := [tuple(words) for words in spellings.values() if len(words) > 1]:
            problem = (
                f"{len(apart):,} values of column {column} differ only in spelling, such as {' and '.join(apart[0])}"
            )
            faults.append(UserError(str(path), problem, "write each value in one way"))
    raise_all(faults)


def check_label_columns(path: Path, records: Sequence[Mapping[str, Any]]) -> None:
    """Raise UserError for another column with the words of the column `label`, which may be the one that counts."""
    label = next((name for record in records for name in record if str(name).casefold().strip() == "label"), None)
    if label is None:
        return
    known = {str(record.get(label)).strip().casefold() for record in records} - {"", "none"}
    columns = dict.fromkeys(name for record in records for name in record if str(name).casefold() not in FIXED_COLUMNS)
    for column in columns:
        words = [word for record in records if (word := str(record.get(column) or "").strip().casefold())]
        if (
            len(known) > 1
            and words
            and {*words} <= known
            and any(
                str(record.get(column) or "").strip().casefold() != str(record.get(label) or "").strip().casefold()
                for record in records
            )
        ):
            problem = f"column {column} has labels as well, which differ from those of {label}"
            fix = "keep the column whose labels count, as `label`, or write a line for each person"
            raise UserError(str(path), problem, fix)


def check_resolvers(path: Path, labels: Sequence[Label]) -> None:
    """Raise UserError for a resolver who differs from a reply's only other annotator, whose label would count."""
    apart = [
        votes[0]
        for votes in group_by_reply(labels)
        if sum(not vote.resolves for vote in votes) == 1 and len({vote.label for vote in votes}) > 1
    ]
    if apart:
        problem = f"{len(apart):,} labels of a resolver differ from those of a single annotator (first: {apart[0].id})"
        raise UserError(str(path), problem, "leave out the lines of annotators whose label the resolver has replaced")


def read_pairs(plan: Plan, source: str, path: Path, folder: Path) -> None:
    """Make the pairs of the user's file. Raises UserError for a faulty file."""
    job, out, counts = make_pairs_job(plan, source), folder / "pairs.jsonl", folder / "counts.json"
    records = read_source(path, job.forms[0], user_file=True)
    used = set[str]()
    watched: list[Any] = [WatchedRecord(record, used) if isinstance(record, dict) else record for record in records]
    check_headers(path, [record for record in records if isinstance(record, dict)])
    if job.entry is not None:
        check_histories(path, job.entry, [record for record in records if isinstance(record, dict)])
        check_choices(path, source, job.entry, [record for record in records if isinstance(record, dict)])
    write_pairs(job.source, [watched], out, counts, job.published, job.entry)
    note_unused([record for record in records if isinstance(record, dict)], used, folder)


def check_choices(path: Path, source: str, entry: PreferenceSet, records: Sequence[Mapping[str, Any]]) -> None:
    """Raise UserError for unknown words of a preference, and for a set coded only by 0 and 1, where 0 may be no tie."""
    column = entry.columns.get("preference", "preference")
    words = Counter(str(record.get(column, "")).strip() for record in records)
    known = {word.casefold() for word in (entry.values or CHOICE_WORDS)}
    if unknown := [word for word in words if word and word.casefold() not in known]:
        listed = ", ".join(f"{word!r} ({words[word]})" for word in unknown[:MOST_WORDS])
        known_meanings = CHOICE_WORDS | {word.casefold(): meaning for word, meaning in entry.values.items()}
        meanings = {word: known_meanings.get(word.casefold(), "...") for word in words if word}
        mapping = ", ".join(f"{word!r}: {meaning}" for word, meaning in meanings.items())
        fix = f"set preferences.{source}.values to {{{mapping}}}, with first, second or tie in place of each ..."
        raise UserError(str(path), f"unknown preferences: {listed}", fix)
    if not entry.values and {*words} == {"0", "1"}:
        readings = "{'1': first, '0': second}, {'0': first, '1': second}, or {'1': first, '0': tie}"
        fix = f"set preferences.{source}.values: {readings}"
        raise UserError(
            str(path), f"column {column} has only 0 ({words['0']}) and 1 ({words['1']}), and 0 is a tie", fix
        )
    check_resolves(path, records)
    fields = [entry.columns.get(name, name) for name in ("first", "second")]
    values = [record[name] for record in records for name in fields if name in record]
    if written := [value for value in values if isinstance(value, list | dict) or is_written_object(value)]:
        problem = f"{len(written):,} replies are lists or objects, such as {str(written[0])[:40]!r}"
        raise UserError(str(path), problem, "write the reply alone in this column")


def read_items(plan: Plan, benchmark: str, task: str, path: Path, folder: Path) -> None:
    """Make the items of the user's problems. Raises UserError for a file that differs from its registry entry."""
    card = plan.card(benchmark, task)
    dataset = plan.datasets[card.dataset]
    copy, form = dataset.file_of(card.dataset, plan.edition), dataset.format_of(plan.edition)
    records = read_checked_source(path, dataset, copy, str(path), form, plan.config.limits)
    check_headers(path, records)
    try:
        make_items(job=make_items_job(plan, benchmark, task), source=path, pictures=[], out=folder / "items.jsonl")
    except UserError as error:
        fix = "correct this record"
        if path.suffix != ".jsonl":  # what the command writes
            fix += f", or run `{table_command(path)}`, which writes numbers in the usual notation"
        raise UserError(error.place, error.problem, fix) from None
    used = set[str]()
    items = LOADERS[card.loader].load([WatchedRecord(record, used) for record in records], task)
    check_own_words(path, card, records, items)
    texts = [value for record in records for value in record.values() if isinstance(value, str)]
    if entities := sum(without_entities(text) != text for text in texts):
        note(folder, f"texts with HTML entities such as &lt;, kept; `{table_command(path)}` decodes them: {entities:,}")
    note_unused(records, used, folder)


def check_own_words(path: Path, card: Card, records: Sequence[Mapping[str, Any]], items: Sequence[Item]) -> None:
    """Raise UserError for answers whose own words would be graded as wrong, such as "3.5 lakh" stored as 3.5."""
    graders = [GRADERS[name] for name in card.graders if name in GRADERS and GRADERS[name].gold_replies]
    check_places(str(path), [(record, str(record.get("answer") or "")) for record in records])
    check_questions(str(path), records)
    if len(items) != len(records):
        return
    apart = [
        (number, text, item)
        for number, (record, item) in enumerate(zip(records, items, strict=True), 1)
        if isinstance(text := record.get("answer"), str) and len(text) <= LONGEST_ANSWER and "answer" in item.reference
        if any(not is_accepted(grader, item, text) for grader in graders)
    ]
    if apart:
        number, text, item = apart[0]
        problem = (
            f"{len(apart):,} answers would be wrong in their own words, such as {text!r} (record {number}), which is "
            f"stored as {item.reference['answer']}"
        )
        raise UserError(str(path), problem, "write each answer as a number in digits, such as 350000, or as (A), (B)")


def is_accepted(grader: Grader, item: Item, text: str) -> bool:
    """Return True if a grader accepts a reply that states the answer with these words, or cannot be tested so."""
    if grader.read is None:
        return True
    if SCALE.search(text):  # abbreviations that no reader multiplies
        return False
    if (
        (places := re.findall(r"\((\d)\)", item.vars.get("question", "")))
        and len(places) > 1
        and text.strip() in places
    ):
        return False  # the number of an option, or its value
    replies = (text, f"The answer is {text}.")
    return any(reading.correct for reply in replies for reading in grader.read(item, reply, "robust"))


def read_recorded(path: Path, folder: Path) -> None:
    """Read recorded replies. Raises UserError for several tutors in one file, and for cells that are no replies."""
    records = [record for record in read_foreign_replies(path) if isinstance(record, dict)]
    records = [record for record in records if not record.get("left_out")]
    columns = list(dict.fromkeys(str(name) for record in records for name in record))
    by_folded = {name.casefold(): name for name in columns}
    check_headers(path, records)
    check_reply_columns(path, records)
    for name in (by_folded[name] for name in TUTOR_COLUMNS if name in by_folded):
        tutors = sorted({str(record[name]) for record in records if record.get(name) not in (None, "")})
        if len(tutors) > 1:
            problem = f"column {name} names {len(tutors)} tutors: {', '.join(tutors[:5])}"
            raise UserError(str(path), problem, "write the replies of each tutor into a file of its own")
    reply = next(by_folded[name] for name in REPLIES if name in by_folded) if records else ""
    numbers = [value for record in records if isinstance(value := record.get(reply), int | float)]
    if numbers:
        problem = f"{len(numbers):,} replies are numbers, not texts, such as {numbers[0]}"
        raise UserError(str(path), problem, f"run `{table_command(path)}`, which writes them as texts")
    failed = [text for record in records if isinstance(text := record.get(reply), str) and NO_TEXT.fullmatch(text)]
    if failed:
        problem = f"{len(failed):,} replies are values of programs without a text, such as {failed[0].strip()}"
        raise UserError(str(path), problem, "leave these cells empty, or correct them")
    note_unused(records, {name for folded, name in by_folded.items() if folded in COLUMNS}, folder)


def checks_of_readings(plan: Plan) -> Iterator[tuple[str, Callable[[], None]]]:
    """Yield a check for each of the user's files that a run names, with the file's key."""
    for key, path, read in readings_of(plan):
        if path.is_file() and path.stat().st_size <= MOST_MB * MB:
            yield key, partial(read_and_discard, key, path, read)


def preview_of_own_files(plan: Plan) -> Iterator[str]:
    """Yield, for each of the user's files that a run names, the number and the first of the records made from it.

    Raises UserError for a faulty file.
    """
    for key, path, read in readings_of(plan):
        with tempfile.TemporaryDirectory(prefix="maieutic-") as folder, logging_disabled():
            read(Path(folder))
            yield from notes_of(Path(folder), key, path)
            for made in (file for name in PREVIEWED if (file := Path(folder, name)).is_file()):
                records = read_json_lines(made)
                yield f"{key}: {path}, read as {len(records):,} {made.stem}"
                yield from preview(map(filled_fields, records))


def filled_fields(record: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a record that have a value. Fields of an object are named `object.field`."""
    fields = dict[str, Any]()
    for name, value in record.items():
        fields |= (
            {f"{name}.{part}": inner for part, inner in value.items()} if isinstance(value, dict) else {name: value}
        )
    return {name: value for name, value in fields.items() if value not in (None, "", [], {})}


def read_and_discard(key: str, path: Path, read: Callable[[Path], None]) -> None:
    """Read a file into a temporary folder, without log lines, and print the notes of the reading.

    Raises UserError for a faulty file, with its name.
    """
    with tempfile.TemporaryDirectory(prefix="maieutic-") as folder, logging_disabled():
        try:
            read(Path(folder))
        except UserError as error:
            raise UserError.of([with_file(fault, path) for fault in error.all]) from None
        for line in notes_of(Path(folder), key, path):
            say(line, error=True)


def with_file(error: UserError, path: Path) -> UserError:
    """Return an error whose place names the file."""
    return error if path.name in error.line else UserError(f"{path}, {error.place}", error.problem, error.fix)


@contextmanager
def logging_disabled() -> Iterator[None]:
    """Suppress logging, because each job logs its findings when the run executes it."""
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        yield
    finally:
        logging.disable(before)
