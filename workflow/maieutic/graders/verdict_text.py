"""Read replies for the parsers of steps and of yes-or-no verdicts: what both prepare, drop and decide alike."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from maieutic.graders.evidence import Decision, Evidence, Rank, Value, decide, decide_cut
from maieutic.graders.passages import (
    BREAKS_OFF,
    MOST_WITHDRAWN,
    ONE_ROW_TABLE,
    Sentence,
    boxes_as_lines,
    cells_as_lines,
    fields_as_lines,
    shorten_reply,
    split_sentences,
    without_sources,
    without_struck_text,
)
from maieutic.graders.reading import plain_notation
from maieutic.graders.turns import own_turn
from maieutic.graders.words import one_blank, without, words

CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f\xad\ufe0f\u20e3]")
# Quotation marks and dashes of typographers by the ones of typewriters, in which the patterns are written.
TYPEWRITER = str.maketrans(
    {**dict.fromkeys("\u2018\u2019", "'"), **dict.fromkeys("“”«»", '"'), "\u2013": "-", "\u2014": " - "}
)
PAUSE = re.compile(r"(?<=[A-Za-z)]) -+ (?=\S)")
OPTION = r"[ *_]*(?:yes|no|(?:in)?correct|right|wrong|\d+)\b[^\n☐-☒○●◉\[(]*"
TICKED = re.compile(r"(?:\[[xX✓✔]\]|\([xX✓✔]\)|[☑☒●◉])(?=[ *_]*\w)")
UNTICKED = re.compile(rf"(?:^ ?[-*] )?(?:\[ ?\]|\( \)|[☐○◯□]){OPTION}", re.IGNORECASE | re.MULTILINE)
SUSPECTED = re.compile(
    (
        r"\b(?:i|we) (?:first |originally |initially )?(?:"
        + words("was about to|thought|believed|wanted|said|wrote|answered|suspected|put")
        + r")\b[^.\n]*?(?:[;,.]|\bbut\b) ?(?=\S)"
        r"|\b(?:"
        + words("at first( (glance|sight|i))?|initially|my first (thought|guess|impression|answer)|one might")
        + r")\b[^.\n]*?(?:\bbut\b|;"
        r")"
    ),
    re.IGNORECASE,
)
# A withdrawal begins a clause: "12, no, wait" but not "they should wait".
WITHDRAWN = re.compile(
    (
        r"(?:^|[.!?:;,\n(-] ?|\b(?:no|but|and|so|well|hmm) )(?:wait|hold on|scratch that|oops|hmm, no"
        r"|on (?:second|reflection|further)\b(?: (?:thought|look))?s?|actually|correct(?:ion|ed)(?= ?[:,.!])"
        r"|edit(?:ed)?(?= ?:)|update(?= ?:)"
        r"|"
        + words("i (meant|mean|correct (that|it)|take (that|it) back|made a mistake|have to correct)|sorry")
        + r"|no, (?:that"
        r"|it)(?:'s| is) not (?:right|it|quite)(?= ?[.:;])|"
        + words("no, i mean|let me (re-?check|correct|(_ )?(check|look|think) (_ )?again)")
        + r")\b[\s,:.!;-]*"
    ),
    re.IGNORECASE,
)


OTHER_SOLUTION = re.compile(
    r"^\W*(?:(?:the|a|here is) )*(?:correct(?:ed)?|right) "
    r"(?:solution|version|approach|calculation|steps)\b[^.]{0,40}:?\W*$",
    re.IGNORECASE,
)


def prepare_verdict_text(text: str) -> str:
    """Return a reply in plain notation, without struck-out text and sources, with boxes, fields and tables as lines.

    Quotation marks and dashes are those of a typewriter, and every run of blanks is one blank.
    """
    text = without_sources(without_struck_text(CONTROL.sub("", shorten_reply(text))))
    text = ONE_ROW_TABLE.sub(cells_as_lines, text) if "|" in text else text
    text = boxes_as_lines(fields_as_lines(text))
    text = one_blank(keep_ticked_options(text).translate(TYPEWRITER))
    return plain_notation(PAUSE.sub(", ", text))


def keep_ticked_options(text: str) -> str:
    """Remove the marks of ticked boxes, and unticked boxes with their options. Without a ticked box, change nothing."""
    return TICKED.sub("", without(UNTICKED, text)) if TICKED.search(text) else text


def sentences_after_withdrawals(text: str) -> Iterator[list[Sentence]]:
    """Yield the sentences after the last withdrawal ("wait, no"), then after each earlier one, then all sentences.

    Only the last MOST_WITHDRAWN withdrawals are considered. Statements that the writer abandons ("I first thought ...,
    but") are removed.
    """
    withdrawn = [match.end() for match in WITHDRAWN.finditer(text)]
    for start in [*withdrawn[: -MOST_WITHDRAWN - 1 : -1], 0]:
        yield split_sentences(without(SUSPECTED, text[start:]))


def without_other_solutions(parts: list[Sentence], answers: Callable[[str], bool]) -> list[Sentence]:
    """Drop what follows the heading of another solution ("Correct solution:"), except statements of the answer."""
    heading = next((place for place, part in enumerate(parts) if place and OTHER_SOLUTION.match(part.text)), len(parts))
    return [part for place, part in enumerate(parts) if place < heading or answers(part.text)]


def decide_reply(
    text: str, prepare: Callable[[str], str], evidence_of: Callable[[list[Sentence]], list[Evidence[Value]]]
) -> Decision[Value]:
    """Return the value that a reply states, from the tutor's own turn and the text after its last withdrawal.

    Text before a withdrawal is read if the text after it states nothing. In a reply that breaks off, the last sentence
    is left out. prepare: function that simplifies a reply; evidence_of: function that collects the evidence of
    sentences.
    """

    def states_value(before: str) -> bool:
        evidence = evidence_of(split_sentences(prepare(before)))
        return any(piece.rank <= Rank.CONCLUSION and piece.value is not None for piece in evidence)

    cleaned = prepare(own_turn(text, states_value))
    if BREAKS_OFF.search(cleaned):
        return decide_cut(evidence_of(split_sentences(cleaned)[:-1]), cleaned)
    decision = Decision[Value](None, "", "no statement" if text.strip() else "empty")
    for parts in sentences_after_withdrawals(cleaned):
        evidence = evidence_of(parts)
        decision = decide(evidence) if evidence else decision
        if any(piece.value is not None or piece.rank < Rank.STATEMENT for piece in evidence):
            break
    return decision
