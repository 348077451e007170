"""Split replies into lines and sentences (fields, tags and tables become lines), and recognise closing remarks."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator
from functools import partial
from typing import NamedTuple

from maieutic.core.json_text import json_objects
from maieutic.graders.words import words

STRUCK = re.compile(r"~~.+?~~", re.DOTALL)
STRUCK_TAG = re.compile(r"<(del|s|strike)>", re.IGNORECASE)
BOXED = re.compile(r"\\boxed\s*\{((?:[^{}]|\{(?:[^{}]|\{[^{}]*\})*\})*)\}")
TAG = re.compile(r"<([a-z][a-z_]{2,30})>\s*(.{1,200}?)\s*</\1>", re.IGNORECASE | re.DOTALL)
BRACKET_TAG = re.compile(r"\[([A-Za-z_]{3,20})\]\s*([^\[\]]{1,200}?)\s*\[/\1\]")
LAYOUT_TAGS = frozenset(
    {
        "strong",
        "code",
        "pre",
        "span",
        "div",
        "sub",
        "sup",
        "details",
        "summary",
        "table",
        "think",
        "mark",
        "small",
        "big",
        "font",
        "body",
        "html",
        "center",
    }
)
LATEX_TEXT = re.compile(r"\\(?:text(?:bf|it|rm)?|math(?:rm|bf|it))\s*\{([^{}]*)\}")
LATEX_FENCE = re.compile(r"(?<!\S)\$(?=[^$\n]{1,40}\$)|\\[\[\]()]|\$(?!\d)|(?<=\d)\$")
TABLE_ROW = re.compile(r"^[ \t]*\|(.*)\|[ \t]*$", re.MULTILINE)
CSV_RECORD = re.compile(r"^([A-Za-z_]+(?:,[A-Za-z_]+)+)\n([^\n,]+(?:,[^\n,]+)+)$", re.MULTILINE)
LEADER_DOTS = re.compile(r" {0,3}(?:\t++|\.{4,}+)[ \t]*+(?=\S)")
KEY_UNDERSCORE = re.compile(r"(?<=[A-Za-z])_(?=[A-Za-z0-9])")
LONGEST_TEXT = 40_000  # maximum number of characters of a reply (about 10,000 tokens); a longer one is shortened
# A longer line, or a longer run of characters other than letters and digits, is shortened. The time of several patterns
# is quadratic in these lengths, and a model that repeats itself can write megabytes on one line or without a letter.
LONGEST_LINE, LONGEST_SIGNS = 8_000, 400
LONG_LINE = re.compile(rf"[^\n]{{{LONGEST_LINE + 1},}}")
LONG_SIGNS = re.compile(rf"\W{{{LONGEST_SIGNS + 1},}}")
CONTROL_TOKEN = re.compile(r"<\|[^|<>\n]{1,40}\|>|</s>\s*\Z")  # control tokens of chat templates
# A value that the writer of the reply replaces, such as the 15 in "15 -> 18 (corrected)".
REPLACED_VALUE = re.compile(
    r"^[^\w\n]{0,4}[\w.,$]{1,12}\W{0,3}\s*(?:->"
    r"|→)\s*(?=\W{0,3}[\w.,$]{1,12}\W{0,3}\s*(?:\((?:corrected)|$))",
    re.MULTILINE | re.IGNORECASE,
)
BREAKS_OFF = re.compile(
    (
        r"(?:\b(?:"
        + words("is|in|at|the|are|be|of|step|we|he|she|they|i|and|to|with|then")
        + r"|(?<!/)an?|the student|we get|we have|gives"
        r"|so|but|because|which|final answer)|[:{\[=])[\s\"'*_]*\Z"
    ),
    re.IGNORECASE,
)
KEPT_OF_RUN = 20  # a longer run of one repeated sign is shortened to this many characters
LONG_RUN = re.compile(r"([^\w])\1{20,}")
LONGEST_SENTENCE = 1_000
MOST_WITHDRAWN = 5  # maximum number of withdrawals ("wait, no") in a reply that are considered, counted from its end
TAG_DEPTH = 3  # maximum nesting depth of tags that are read
LONGEST_OBJECT = 5_000  # maximum number of characters of a Python dictionary that is read
DECODER = json.JSONDecoder()
CITATION = re.compile(r"(?<=[\w.!?)\"*])[ \t]*(?:(?:\[\^?\d{1,3}(?:\s*[,-]\s*\d{1,3})*\])+(?!\()|【[^】]{0,40}】)")
URL = re.compile(r"\(?\b(?:see\s+|sources?:\s*)?(?:https?://|www\.)\S+", re.IGNORECASE)
QUOTED_ANSWER = re.compile(r"[\"“][^\"”\n]{0,200}(?:answer|####)[^\"”\n]{0,200}[\"”]", re.IGNORECASE)
REFERENCES = re.compile(
    r"^[ \t#*]*(?:references?|sources?)\s*:?[ \t*]*$.*",
    re.IGNORECASE | re.MULTILINE | re.DOTALL,
)
SOURCE_LINE = re.compile(r"^[ \t]*\[\^?\d{1,3}\]:?[ \t]+\S.*$", re.MULTILINE)

# Whitespace after punctuation that ends a sentence, except after abbreviations and before the number in "no. 2".
SENTENCE = re.compile(
    r"(?<=[。？！\u061f?])(?=\S)(?![\"'*_)\]”\u2019])"
    r"|(?<=[.!?。।\u061f])(?<!\bnr\.)(?<!\beq\.)(?<!\be\.g\.)(?<!\bi\.e\.)(?<!\bvs\.)(?<!\bp\.)(?<!\bpp\.)(?<!\bst\.)(?!(?<=\bno\.)\s*\d)(?!(?<=\bNo\.)\s*\d)\s+"
)
LIST_NUMBER = re.compile(r"^\s*\(?\d{1,2}[.)]$")
ONE_ROW_TABLE = re.compile(
    r"^[ \t]*(?P<head>\|[^\n]+\|)[ \t]*\n[ \t]*\|(?=[^\n]*-)[ \t|:-]+\|[ \t]*\n"
    r"[ \t]*(?P<row>\|[^\n]+\|)[ \t]*$(?!\n[ \t]*\|)",
    re.MULTILINE,
)
# A table with one column and one row, and a heading such as "Final answer".
ANSWER_TABLE = re.compile(
    r"^[ \t]*(?P<head>\|[^|\n\d]*\b(?:answer|result|total)\b[^|\n\d]*\|)[ \t]*\n[ \t]*\|[ \t:-]+\|[ \t]*\n"
    r"[ \t]*(?P<row>\|[^|\n]+\|)[ \t]*$(?!\n[ \t]*\|)",
    re.MULTILINE | re.IGNORECASE,
)
# Words with which offers, courtesies and notes begin.
COURTESIES = words(
    "let me know|feel free|please (let|ask|tell|note|see|check|send|come|don'?t)|"
    "if (you('d| would)? (like|want|have|need|prefer|are|think|see)|anything|something|one of)|"
    "(i'?m )?(happy|glad) to|i('m| am) (here|happy|glad)|(shall|should|may|can) (i|we)|i hope|hope (this|that|it)|"
    "(i|we) (can|could|may) also|thank(s| you)|good luck|reply with|have a (nice|great|good)|no (problem, _|further)|"
    "just (ask|say|tell|let)|(now )?(you )?(can )?try (it|this|another|the next)|keep (it up|up|going|practi*|in mind)|"
    "(well|great|good|nice) (done|job|work|start)|you have now|see you|more on this|last updated|"
    "(remember|note) (that|the|to|how|your)|solved with|you (can|may) (also )?contact|next,? (we|let'?s) (can|could)|"
    "(let'?s|let me) (check|verify)|plugging (it|this|that|the)|"
    "(i|we)('ve)? (also )?(double[- ]?)?(checked|verified|confirmed)|(my )?(confidence|certainty)|"
    "see (section|page|chapter|also|example)|isbn|(solved|posted|answered|generated) (on|at|in|by|# _ ago)"
)
# Heads of hints, exercises, checks, sources and statistics, which a colon or another sign follows.
REMARK_HEADS = words(
    "note|(_ )?(tip|hint)s?( #| for next time)?|"
    "(fun fact|remember|don't forget|homework|exercises?( #)?|follow-?up|practice( problems?)?|next (lesson|time))"
    "( _)?( _)?( _)?|"
    "(to |let'?s |let me )?(double[- ]?|cross[- ]?)?(check(ing)?|verif(y|ication)|sanity[- ]check|proof)"
    "( it| this| that| our answer| the answer)?|verified|checked|confirmed|sources?|"
    "(time taken|tokens?( used)?|posted|checked by|difficulty|model|status|needs review)( _)?"
)
CLOSING = re.compile(
    rf"^[\W_]*(?:(?:{COURTESIES})\b|(?:{REMARK_HEADS})\s*[:=,.\u2013\u2014-]"
    r"|(?:final )?answer\s*:\s*see\b|now (?:solve|find)\b(?!.*=\s*[$\d])|(?:i'?m|i am) (?:about )?\d{1,3} ?%"
    r"|note\b[^.]{0,30}?\b(?:if|when)\b(?=.*\b(?:wrong|incorrect|mistake|not|too)\b)"
    r"|(?:sources?|references?|according to|as shown in)\b(?=.*(?:\b20\d\d\b|chapter|\bp\.|lesson|\[))"
    r"|time\s*:.*\btokens\b|©|⭐)",
    re.IGNORECASE,
)
QUESTION = re.compile(r"[?\u061f][\s\"'*_)\]”\u2019]*$")


def shorten_overlong(text: str) -> str:
    """Shorten an overlong text, line or run of non-word characters to its beginning and its end."""
    text = LONG_SIGNS.sub(partial(keep_both_ends, LONGEST_SIGNS), text)
    text = LONG_LINE.sub(partial(keep_both_ends, LONGEST_LINE), text)
    if len(text) > LONGEST_TEXT:
        text = text[: LONGEST_TEXT // 5] + "\n" + text[-LONGEST_TEXT * 4 // 5 :]
    return text


def shorten_reply(text: str) -> str:
    """Shorten overlong passages, and remove control tokens and values that the writer replaced ("15 -> 18").

    Runs of one repeated sign are shortened too.
    """
    text = REPLACED_VALUE.sub("", CONTROL_TOKEN.sub(" ", shorten_overlong(text)))
    return LONG_RUN.sub(lambda match: match[1] * KEPT_OF_RUN, text)


def keep_both_ends(longest: int, passage: re.Match[str]) -> str:
    """Shorten an overlong passage to `longest` characters: a fifth from its beginning, four fifths from its end."""
    return f"{passage[0][: longest // 5]} {passage[0][-longest * 4 // 5 :]}"


def without_struck_text(text: str) -> str:
    """Remove text that is struck out by Markdown tildes or HTML tags. An unclosed tag is ignored."""
    text = STRUCK.sub(" ", text)
    kept: list[str] = []
    place, unclosed = 0, set[str]()
    for opened in STRUCK_TAG.finditer(text):
        name = opened[1].lower()
        if opened.start() < place or name in unclosed:
            continue
        closed = re.compile(f"</{name}>", re.IGNORECASE).search(text, opened.end())
        if closed is None:
            unclosed.add(name)
            continue
        kept += [text[place : opened.start()], " "]
        place = closed.end()
    return "".join([*kept, text[place:]])


def without_sources(text: str) -> str:
    """Remove citation marks, web addresses, and the reference list at the end of a text."""
    return (
        CITATION.sub(" ", URL.sub(" ", SOURCE_LINE.sub(" ", REFERENCES.sub("", text))))
        if "[" in text or "【" in text or "http" in text or "www." in text or REFERENCES.search(text)
        else text
    )


def dictionaries_in(text: str) -> Iterator[tuple[int, int, dict[str, object]]]:
    """Yield the start, end and content of each JSON object or Python dictionary in a text."""
    beyond = 0
    for start, end, content in json_objects(text, DECODER):
        if start < beyond:
            continue
        value: object = content
        if content is None:
            close = text.find("}", start, start + LONGEST_OBJECT)
            # If another brace opens before the first one closes, only the inner dictionary is complete. It is read in
            # a later iteration.
            if close < 0 or ":" not in text[start:close] or text.find("{", start + 1, close) >= 0:
                continue
            end = close + 1
            try:
                value = ast.literal_eval(text[start:end])
            except (ValueError, SyntaxError, MemoryError, RecursionError):
                continue
        beyond = end
        if isinstance(value, dict) and any(isinstance(key, str) for key in value):
            yield start, end, {str(key): field for key, field in value.items()}


def fields_as_lines(text: str) -> str:
    """Return a text in which each field of a JSON object, tag or table row is a line `key: value`."""
    for start, end, fields in reversed(list(dictionaries_in(text)) if "{" in text else []):
        lines = [f"{key}: {field_text(value)}" for key, value in fields.items() if not isinstance(value, list)]
        text = f"{text[:start]}\n" + "\n".join(lines) + f"\n{text[end:]}"
    if "<" in text or "[/" in text:
        text = BRACKET_TAG.sub(lambda match: f"\n{match[1]}: {match[2]}\n", text)
        for _ in range(TAG_DEPTH):
            text = TAG.sub(
                lambda match: match[0] if match[1].lower() in LAYOUT_TAGS else f"\n{match[1]}: {match[2]}\n", text
            )
    text = CSV_RECORD.sub(lambda match: record_as_lines(match[1], match[2]) or match[0], text)
    if "|" in text:
        text = ANSWER_TABLE.sub(cells_as_lines, text)
        text = TABLE_ROW.sub(lambda match: row_as_line(match[1]), text)
    return KEY_UNDERSCORE.sub(" ", LEADER_DOTS.sub(": ", text))


def record_as_lines(head: str, values: str) -> str | None:
    """Return a CSV record as lines `key: value`, or None if it has more or fewer values than keys."""
    keys, cells = head.split(","), values.split(",")
    return "\n".join(map(": ".join, zip(keys, cells, strict=True))) if len(keys) == len(cells) else None


def cells_as_lines(table: re.Match[str]) -> str:
    """Return a one-row table as lines `heading: cell`, or unchanged if it has more or fewer cells than headings."""
    heads, cells = ([cell.strip() for cell in table[part].strip("| \t").split("|")] for part in ("head", "row"))
    lines = map(": ".join, zip(heads, cells, strict=False))
    return "\n" + "\n".join(lines) + "\n" if len(heads) == len(cells) else table[0]


def field_text(value: object) -> str:
    """Return the value of a JSON field as text. The values of a nested object are joined by spaces."""
    return " ".join(map(str, value.values())) if isinstance(value, dict) else str(value)


def row_as_line(row: str) -> str:
    """Return a table row as a line `first cell: other cells`."""
    first, *others = (cell.strip() for cell in row.split("|"))
    return f"{first}: {', '.join(others)}" if others else first


def boxes_as_lines(text: str) -> str:
    """Return a text with LaTeX text commands replaced by their content, and boxes as lines `Answer: content`."""
    if "\\" in text or "$" in text:
        text = LATEX_TEXT.sub(r"\1", text)
        text = LATEX_FENCE.sub(" ", BOXED.sub(lambda match: f"\nAnswer: {match[1].strip()}\n", text))
    return text


class Sentence(NamedTuple):
    """Sentence of a reply. alone: True if it is the only sentence of its line."""

    text: str
    alone: bool


def split_sentences(text: str) -> list[Sentence]:
    """Return the sentences of a text. A line break also ends a sentence, and empty sentences are left out."""
    result: list[Sentence] = []
    for line in text.split("\n"):
        parts = SENTENCE.split(line)
        if len(parts) > 1 and LIST_NUMBER.match(parts[0]):  # a list number belongs to the sentence after it
            parts = [f"{parts[0]} {parts[1]}", *parts[2:]]
        kept = [shorten_sentence(part.strip()) for part in parts if part.strip()]
        result += [Sentence(part, len(kept) == 1) for part in kept]
    return result


def sentences(text: str) -> list[str]:
    """Return the texts of a text's sentences."""
    return [sentence.text for sentence in split_sentences(text)]


def shorten_sentence(sentence: str) -> str:
    """Shorten an overlong sentence to its beginning and end."""
    half = LONGEST_SENTENCE // 2
    return sentence if len(sentence) <= LONGEST_SENTENCE else f"{sentence[:half]} {sentence[-half:]}"


def is_closing(sentence: str) -> bool:
    """Return True if a sentence is a closing (offer, question, check, source or note) rather than an answer."""
    return bool(QUESTION.search(sentence) or CLOSING.match(sentence))
