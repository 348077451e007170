"""Graders of the questions in a reply: Socratic BLEU, the released `match` rule, and statistics of an utterance."""

from __future__ import annotations

import re
from functools import lru_cache

from maieutic.core.records import Item, Scoring
from maieutic.graders.numerals import number_values, numerals
from maieutic.graders.passages import shorten_overlong
from maieutic.graders.reading import Reading, plain_notation, unread_reply

QUESTION_WORDS = frozenset(
    ["what", "how", "why", "when", "where", "which", "who", "whose", "whom", "can", "could", "would"]
)
RELEASED_QUESTIONS = "released_questions"
LIST_MARK = re.compile(r"^\s*(?:[-\u2022*]|\(?\d{1,2}[.):]|[qQ]\d*[:.])\s*")
LAST_QUESTION = re.compile(r"[?\u061f]\W*$")  # a question mark, followed at most by quotes, brackets or pictographs
SENTENCE_END = re.compile(r"(?<=[?])\s+")


@lru_cache(maxsize=200_000)
def bleu(hypothesis: str, references: tuple[str, ...]) -> float:
    """Return sacrebleu's sentence BLEU (tokeniser 13a, exponential smoothing, effective order), from 0 to 1."""
    from sacrebleu import sentence_bleu

    return sentence_bleu(hypothesis, list(references)).score / 100


def split_questions(text: str) -> list[str]:
    """Return a text's candidate questions: its lines, without bullets and numbers, split after question marks."""
    pieces = [piece for line in plain_notation(text).split("\n") for piece in SENTENCE_END.split(line)]
    return [cleaned for piece in pieces if (cleaned := LIST_MARK.sub("", piece).strip())]


def socratic_bleu(item: Item, text: str, scoring: Scoring) -> list[Reading]:
    """Grade Socratic questioning (MathTutorBench task 2).

    paper_compat: the highest BLEU of a line, with all gold sub-questions as references. A second grade is the released
    statistic `avg_questions`: the number of lines, capped at the number of gold sub-questions.
    robust: for each gold sub-question, the BLEU of the closest question in the reply, averaged over the sub-questions,
    because section 4.1 asks for one question per step.
    """
    gold = tuple(item.reference["questions"])
    if scoring == "paper_compat":
        lines = [line.strip() for line in text.split("\n")]
        best = max(lines, key=lambda line: bleu(line, gold))
        return [
            Reading(bleu(best, gold), None, best[:200]),
            Reading(min(len(lines), len(gold)), None, "", criterion=RELEASED_QUESTIONS),
        ]
    questions = split_questions(text)
    if not questions:
        return [unread_reply(text, "no question")]
    values = [
        1.0
        if contains_question(split_questions(reference), questions)
        else max(bleu(piece, (reference,)) for piece in questions)
        for reference in gold
    ]
    return [Reading(sum(values) / len(values), None, f"{len(questions)} questions for {len(gold)} steps")]


def contains_question(reference: list[str], questions: list[str]) -> bool:
    """Return True if a reply's questions contain the parts of a reference question, verbatim and consecutively."""
    starts = range(len(questions) - len(reference) + 1)
    return bool(reference) and any(questions[start : start + len(reference)] == reference for start in starts)


def grade_asking(item: Item, text: str, scoring: Scoring) -> list[Reading]:
    """Grade whether a reply asks a question.

    paper_compat: it contains a question mark or a question word, as in the released `match` rule.
    robust: it contains a question mark.
    """
    mark = "?" in text
    if scoring == "paper_compat":
        asks = mark or any(word in QUESTION_WORDS for word in text.lower().split())
        return [Reading(asks, asks, "question mark" if mark else "")]
    if not plain_notation(text):
        return [unread_reply(text, "empty reply")]
    # The NFKC normalisation of plain_notation does not convert the Arabic question mark, U+061F, to "?".
    asks = "?" in plain_notation(text) or "\u061f" in text
    return [Reading(asks, asks, "question mark" if asks else "")]


def utterance_statistics(item: Item, text: str, scoring: Scoring) -> list[Reading]:
    """Return statistics of a reply: emptiness, numbers of words and questions, a question at the end, and revealing.

    counter_question: the reply ends with a question (TutorBench, section 3.6); reveals_answer: it contains the answer.

    The list is empty under paper_compat, because the paper has no such statistics.
    """
    if scoring == "paper_compat":
        return []
    cleaned = plain_notation(text)
    return [
        Reading(not cleaned, None, "", criterion="empty"),
        Reading(len(cleaned.split()), None, "", criterion="words"),
        Reading(cleaned.count("?"), None, "", criterion="questions"),
        Reading(bool(LAST_QUESTION.search(cleaned)), None, "", criterion="counter_question"),
        *([grade_revealing(item, cleaned)] if "solution" in item.reference else []),
    ]


def grade_revealing(item: Item, text: str) -> Reading:
    """Grade whether a reply contains the solution's final number.

    The grade is missing if the item's prompt already contains the number.
    """
    solution = numerals(str(item.reference["solution"]))
    if not solution:
        return Reading(None, None, "", "no reference solution", "reveals_answer")
    final = solution[-1].value
    if any(final in number_values(variable) for variable in item.vars.values()):
        return Reading(None, None, "", "the answer already occurs in the dialogue", "reveals_answer")
    return Reading(final in number_values(shorten_overlong(text)), None, "", criterion="reveals_answer")
