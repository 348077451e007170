"""`maieutic table`: show how a user's file is read, and write it as JSON lines that every step reads alike."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any, Literal

from cyclopts import Parameter

from maieutic.core.decimals import (
    OTHER,
    Sign,
    decimal_sign,
    digits_of,
    doubt_of,
    plain_fractions,
    plain_number,
    usual_notation,
)
from maieutic.core.encodings import DECODED_ENTITIES, KEPT_ENTITIES, without_entities
from maieutic.core.errors import UserError
from maieutic.core.files import atomic_file, sha256_of
from maieutic.core.speakers import STUDENT, TUTOR
from maieutic.core.terminal import say
from maieutic.core.user_tables import LONGEST_VALUE, FileSettings, UserTable, check_exact, preview, read_user_table
from maieutic.core.workbooks import cell_text, decimal_text
from maieutic.datasets.histories import TEXT, check_divided, history_lines, read_histories
from maieutic.datasets.options import check_places, check_questions
from maieutic.datasets.word_problems import single_number
from maieutic.replies.recorded import REPLIES

ID_COLUMNS = ("id", "item_id", "problem_id", "question_id", "conversation", "conversation_id", "annotator")
ANSWER = "answer"  # column of a problem's gold answer, whose numbers get a decimal point
QUESTION = "question"  # column of a problem's text
ANSWER_NAME = re.compile(
    r"answer|antwort|l\u00f6sung|ergebnis|r\u00e9ponse|respuesta|resultado|risposta|\bkey\b|gold|solution",
    re.IGNORECASE,
)
QUESTION_NAME = re.compile(
    r"question|problem|prompt|frage|aufgabe|pregunta|enunciado|quest\u00e3o|\u00e9nonc\u00e9|domanda|quesito",
    re.IGNORECASE,
)
OPTION_LETTERS = "ABCDE"  # names of columns of options, and answers that name them
USUAL_NAMES = {"id", QUESTION, ANSWER, "solution", "reply"}  # columns of problems and replies
OTHER_TABLES = {  # columns of tables that hold no problems
    "label", "labels", "criterion", "preference", "reply", "replies", "response", "chosen", "rejected",
}  # fmt: skip
MOST_EXAMPLES = 3


@Parameter(name="*")
@dataclass(frozen=True)
class NumberOptions:
    """Options of `maieutic table` on how numbers are read.

    Args:
        decimal: decimal sign of the numbers
        numbers: columns whose numbers get a decimal point (default: answer)
        final: keep what follows the last ####, or stands in the last \\boxed{}, of these columns' texts
        percent: use percentages of a workbook as stored, 25 % as 0.25
    """

    decimal: Sign | None = None
    numbers: list[str] | None = None
    final: bool = False
    percent: Literal["stored"] | None = None


@Parameter(name="*")
@dataclass(frozen=True)
class HistoryOptions:
    """Options of `maieutic table` on dialogues in one cell.

    Args:
        histories: columns of dialogues, to write as lines `Tutor: ` and `Student: `
        roles: words before a colon in these dialogues, as WORD=tutor, student or text
    """

    histories: list[str] | None = None
    roles: list[str] | None = None


def table(
    file: Path,
    *,
    out: Path | None = None,
    encoding: str | None = None,
    sheet: str | None = None,
    columns: list[str] | None = None,
    dialogues: HistoryOptions = HistoryOptions(),
    options: NumberOptions = NumberOptions(),
    force: bool = False,
) -> None:
    """Print how a file of problems, replies, labels or preferences is read, and write it as JSON lines (UTF-8).

    Numbers in the column `answer` get a decimal point, HTML entities in problems are decoded, and dialogues in the
    columns of --histories are written as lines; other texts stay. Raises UserError for everything in doubt, with the
    flag that settles it; nothing is written then.

    Args:
        file: table, workbook, JSON or Parquet file with one record a row
        out: file to write, as JSON lines (default: only print)
        encoding: encoding of a text file that is not UTF-8
        sheet: sheet of a workbook
        columns: columns to rename, as NEW=OLD
        force: replace the file that is written
    """
    content = with_usual_names(renamed(read_user_table(file, FileSettings(encoding, sheet)), columns or []))
    check_exact(content, [name for name in content.columns if name.casefold() in ID_COLUMNS], str(file))
    check_ids(content, str(file))
    numbers = options.numbers
    if absent := [name for name in numbers or [] if name not in content.columns]:
        raise UserError("--numbers", f"{file} has no column {absent[0]}", f"use {', '.join(content.columns)}")
    records: list[dict[str, Any]] = [
        {name: plain_value(value) for name, value in row.items()} for _, row in content.rows
    ]
    for record in records:
        for name, value in record.items():
            if name.casefold() in REPLIES and isinstance(value, int | float) and not isinstance(value, bool):
                record[name] = decimal_text(value)
    is_of_problems = not OTHER_TABLES & {name.casefold() for name in content.columns}
    entities = texts_with_entities(records, is_of_problems)
    chosen = numbers if numbers is not None else [name for name in content.columns if name.casefold() == ANSWER]
    check_no_dates(content, chosen, str(file))
    if options.percent is None:
        check_percentages(content, chosen, str(file))
    check_options(records, chosen, str(file))
    for column in chosen:
        check_places(str(file), [(record, str(record.get(column) or "")) for record in records])
    for column in chosen:
        keep_final_answers(records, column, options.final, str(file))
    lines = [f"{DECODED_ENTITIES if is_of_problems else KEPT_ENTITIES}: {entities:,}"] if entities else []
    lines += with_history_lines(records, dialogues, str(file))
    lines += with_decimal_points(records, chosen, options.decimal, str(file))
    if is_of_problems and {QUESTION, ANSWER} <= {*content.columns}:
        check_questions(str(file), records)
    missing = [name for name in (QUESTION, ANSWER) if name not in content.columns]
    if numbers is None and missing and is_of_problems:
        stays = ", so numbers stay as they are" if ANSWER in missing else ""
        flags = likely_columns(records, missing)
        lines.append(f"no column {' or '.join(missing)}{stays}; for a set of problems pass {flags}")
    for line in (f"file: {content.form}, {len(records):,} rows", *content.notes):
        say(line)
    for line in (f"columns: {', '.join(content.columns)}", *lines, *preview(records)):
        say(line)
    if out is None:
        return
    if out.exists() and (not force or out.samefile(file)):
        raise UserError("--out", f"{out} already exists", "pass another --out, or --force")
    with atomic_file(out) as handle:
        handle.writelines(json.dumps(record, ensure_ascii=False, allow_nan=False) + "\n" for record in records)
    say(f"Wrote {out}. As the file of a data set (`format: jsonl`):")
    say(f"  path: {out}\n  sha256: {sha256_of(out)}\n  records: {len(records)}")


def with_history_lines(records: Sequence[dict[str, Any]], options: HistoryOptions, name: str) -> list[str]:
    """Write the dialogues of columns as lines `Tutor: ` and `Student: `, and return a line on each column.

    Raises UserError for words that may be speakers, and for dialogues that cannot be divided into turns.
    """
    columns = options.histories or []
    named = dict(assignment.rpartition("=")[::2] for assignment in options.roles or [])
    if strange := [role for role in named.values() if role not in (TUTOR, STUDENT, TEXT)]:
        raise UserError("--roles", f"the role {strange[0]} is unknown", f"use {TUTOR}, {STUDENT} or {TEXT}")
    lines = []
    for column in columns:
        values = [record.get(column) for record in records]
        if all(value in (None, "") for value in values):
            raise UserError("--histories", f"{name} has no dialogue in column {column}", "name another column")
        read = read_histories(values, named)
        check_divided(read, name, column, "pass {}")
        for record, turns in zip(records, read.turns, strict=True):
            if turns:
                record[column] = history_lines(turns)
        lines.append(f"column {column}: {sum(map(len, read.turns)):,} turns, as lines behind their speakers")
    return lines


def renamed(content: UserTable, columns: Sequence[str]) -> UserTable:
    """Return a table with renamed columns. Raises UserError for a column that it lacks."""
    names = dict[str, str]()
    for word in columns:
        new, _, old = word.partition("=")
        if old not in content.columns:
            known = ", ".join(content.columns)
            raise UserError("--columns", f"expected NEW=OLD with a column, found {word}", f"use {known}")
        names[old] = new
    if not names:
        return content
    rows = [(place, {names.get(name, name): value for name, value in row.items()}) for place, row in content.rows]
    return content._replace(columns=[names.get(name, name) for name in content.columns], rows=list(rows))


def with_usual_names(content: UserTable) -> UserTable:
    """Return a table whose columns `Question`, `Answer` and `Id` have these names in lower case, with a note."""
    others = [name for name in content.columns if name != name.casefold() and name.casefold() in USUAL_NAMES]
    pairs = [f"{name.casefold()}={name}" for name in others if name.casefold() not in content.columns]
    if not pairs:
        return content
    return renamed(content, pairs)._replace(notes=[*content.notes, f"columns renamed: {', '.join(pairs)}"])


def check_ids(content: UserTable, name: str) -> None:
    """Raise UserError if some cells of a column of ids are empty, as merged cells of a spreadsheet are."""
    for column in (name for name in content.columns if name.casefold() in ID_COLUMNS):
        blank = [place for place, row in content.rows if not cell_text(row.get(column)).strip()]
        if 0 < len(blank) < len(content.rows):
            rows = f"{len(blank):,} rows have no {column} (first: {blank[0]})"
            problem = f"{rows}, and merged cells have it in their first row only"
            raise UserError(name, problem, "write it in each row, and delete a row that is a total")
    if "id" in content.columns and QUESTION in content.columns:
        places: dict[str, list[str]] = {}
        for place, row in content.rows:
            places.setdefault(cell_text(row.get("id")).strip(), []).append(place)
        if repeated := [(value, where) for value, where in places.items() if value and len(where) > 1]:
            value, where = repeated[0]
            problem = f"{len(repeated):,} ids stand in several rows, such as {value} ({where[0]} and {where[1]})"
            raise UserError(name, problem, "delete the rows that are there twice, or give each problem its own id")


def check_no_dates(content: UserTable, columns: Sequence[str], name: str) -> None:
    """Raise UserError for dates among numbers, which a spreadsheet makes of fractions such as 1/2."""
    for column in columns:
        dates = [value for _, row in content.rows if isinstance(value := row.get(column), date)]
        if dates:
            problem = f"{len(dates):,} cells of column {column} are dates, such as {cell_text(dates[0])}"
            raise UserError(name, problem, "write these cells as text, for example '1/2 for a fraction")


def likely_columns(records: Sequence[Mapping[str, Any]], missing: Collection[str]) -> str:
    """Return the flag that names the columns of questions and answers, by their names first and then their content.

    missing: the names that the table lacks. COLUMN stands for a column that neither shows.
    """
    texts = {name: [str(record.get(name) or "") for record in records] for name in (records[0] if records else {})}
    counted = [str(number) for number in range(1, len(records) + 1)]
    texts = {name: cells for name, cells in texts.items() if cells != counted}  # the number of a record is no answer
    lengths = {name: sum(map(len, cells)) for name, cells in texts.items()}
    free = [name for name in texts if name.casefold() not in ID_COLUMNS and name[-2:].casefold() != "id"]
    letters = [name for name in free if {cell.strip() for cell in texts[name]} <= {*OPTION_LETTERS} & {*texts}]
    answers = letters or [name for name in free if ANSWER_NAME.search(name)]
    questions = [name for name in free if name not in answers and QUESTION_NAME.search(name)] or [
        name for name in free if name not in answers and any(len(cell.split()) > 1 for cell in texts[name])
    ]
    columns = {QUESTION: max(questions, key=lambda name: lengths[name], default="COLUMN")}
    numeric = {
        name: sum(digits_of(cell) is not None for cell in texts[name])
        for name in answers or free
        if name != columns[QUESTION] and (name in answers or any(digits_of(cell) is not None for cell in texts[name]))
    }
    columns[ANSWER] = max(reversed(numeric), key=lambda name: numeric[name], default="COLUMN")
    return "--columns " + " ".join(shlex.quote(f"{name}={columns[name]}") for name in missing)


def check_percentages(content: UserTable, columns: Sequence[str], name: str) -> None:
    """Raise UserError if numbers of a workbook are shown as percentages, or may be in a format that does not tell."""
    numbers = [value for column in columns for _, row in content.rows if isinstance(value := row.get(column), float)]
    fix = "write these cells as numbers (25), or pass --percent stored to use what is stored (0.25)"
    if content.percentages and numbers:
        raise UserError(
            name, f"{content.percentages:,} cells are shown as percentages, and 25 % is stored as 0.25", fix
        )
    if content.percentages is None and (parts := [value for value in numbers if 0 < abs(value) < 1]):
        problem = (
            f"{len(parts):,} numbers such as {parts[0]:g} may be shown as percentages, which this format does not tell"
        )
        raise UserError(name, problem, "save the file as .xlsx, or pass --percent stored to use what is stored")


def check_options(records: Sequence[Mapping[str, Any]], columns: Sequence[str], name: str) -> None:
    """Raise UserError for answers that may be the places of options in another column, instead of their values."""
    for column in columns:
        letters = {str(record.get(column)).strip() for record in records}
        if (
            records
            and letters <= {*OPTION_LETTERS}
            and all(letter in record for letter in letters for record in records)
        ):
            fix = "write the options into the question as (A) ... (B) ..., since their columns are not read"
            raise UserError(name, f"the answers in column {column} are names of other columns", fix)
        for other in {key for record in records for key, value in record.items() if isinstance(value, list)}:
            places = [
                record
                for record in records
                if isinstance(options := record.get(other), list)
                and len(options) > 1
                and str(record.get(column)).isdecimal()
                and int(str(record[column])) <= len(options)
            ]
            if len(places) == len(records) > 0:
                problem = f"the answers in column {column} may be places in the lists of column {other}, or values"
                fix = f"write each answer's own text, and the options of {other} into the question as (A) ... (B) ..."
                raise UserError(name, problem, fix)


def keep_final_answers(records: Sequence[dict[str, Any]], column: str, final: bool, name: str) -> None:
    """Replace solutions by their final answers, if `final` is set. The solutions go to the column `solution`.

    Raises UserError for solutions with a marked final answer if it is not set, and for one without if it is.
    """
    texts = [str(record.get(column) or "") for record in records]
    answers = [final_answer(text) for text in texts]
    marked = sum(answer is not None for answer in answers)
    if not final:
        if marked:
            problem = (
                f"{marked:,} cells of column {column} are solutions that end in `#### answer` or \\boxed{{answer}}"
            )
            raise UserError(name, problem, "pass --final to keep their final answers")
        return
    for number, (record, text, answer) in enumerate(zip(records, texts, answers, strict=True), 1):
        if answer is None:
            problem = f"column {column} of record {number} has neither #### nor \\boxed{{}}: {text[:40]!r}"
            raise UserError(name, problem, "mark its final answer")
        record |= {"solution": record.get("solution") or text, column: answer}


def final_answer(text: str) -> str | None:
    """Return what follows the last `####`, or stands in the last `\\boxed{}`, of a text; None without either."""
    _, mark, answer = text.rpartition("####")
    if mark:
        return answer.strip()
    _, mark, rest = text.rpartition("\\boxed{")
    depth = 1
    for place, sign in enumerate(rest if mark else ""):
        depth += (sign == "{") - (sign == "}")
        if not depth:
            return plain_fractions(rest[:place]).strip(" $")
    return None


def texts_with_entities(records: Sequence[dict[str, Any]], decoded: bool) -> int:
    """Return the number of texts with HTML entities. decoded: True to replace the entities by their characters."""
    number = 0
    for record in records:
        for name, value in record.items():
            if isinstance(value, str) and (text := without_entities(value)) != value:
                record[name] = text if decoded else value
                number += 1
    return number


def plain_value(value: Any) -> Any:
    """Return a cell as a value of JSON."""
    if isinstance(value, float):
        if value != value:  # NaN: how Parquet marks an empty cell in a column of numbers
            return None
        return int(Decimal(repr(value))) if value.is_integer() else value
    return value if value is None or isinstance(value, bool | int | str | list | dict) else cell_text(value)


def with_decimal_points(
    records: Sequence[dict[str, Any]], columns: Sequence[str], decimal: Sign | None, name: str
) -> list[str]:
    """Give the numbers in some columns a decimal point, and return lines on what was understood.

    decimal: the user's choice. Raises UserError for numbers in doubt. name: name of the file in messages.
    """
    for record in records:
        for column in columns:
            value = record.get(column)
            if isinstance(value, str):
                record[column] = usual_notation(value)
    texts = {
        column: [value for record in records if isinstance(value := record.get(column), str)] for column in columns
    }
    decided = [decimal_sign(column, texts[column]) for column in columns]
    signs = [entry for entry in decided if entry is not None]
    if decimal is None and (doubt := doubt_of(signs)):
        raise UserError(name, *doubt)
    lines = []
    for column in columns:
        known = next((entry.sign for entry in signs if entry.column == column), None)
        sign: Sign = decimal or known or "."
        wrong = [text for text in texts[column] if plain_number(text, sign) is None and plain_number(text, OTHER[sign])]
        if wrong:
            examples = " and ".join(dict.fromkeys(wrong[:MOST_EXAMPLES]))
            problem = f"{len(wrong):,} numbers in column {column} do not have the decimal sign {sign!r}: {examples}"
            raise UserError(name, problem, "write all of its numbers in one notation")
        for record in records:
            if isinstance(value := record.get(column), str):
                record[column] = plain_number(value, sign) or value
            elif isinstance(value, float):  # a number of the file, whatever its decimal sign is
                record[column] = decimal_text(value)
        others = [
            text for text in texts[column] if text.strip() and single_number(plain_number(text, sign) or text) is None
        ]
        lines += [f"decimal sign: {sign} (column {column})"] if known or decimal else []
        if others:
            examples = ", ".join(repr(text[:LONGEST_VALUE]) for text in dict.fromkeys(others[:MOST_EXAMPLES]))
            lines.append(f"cells of column {column} that are no number, kept as they are: {len(others):,} ({examples})")
    return lines
