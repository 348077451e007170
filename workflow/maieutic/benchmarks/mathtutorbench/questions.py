"""Questions in a reply: Socratic BLEU, the released `match`, and statistics of a tutor's utterance."""

from __future__ import annotations

import re
from functools import lru_cache

from maieutic.core.records import Item, Scoring
from maieutic.graders.numerals import numerals, values_in
from maieutic.graders.passages import read_part
from maieutic.graders.reading import Reading, plain, unread

QUESTION_WORDS = frozenset(
    ["what", "how", "why", "when", "where", "which", "who", "whose", "whom", "can", "could", "would"]
)
RELEASED_QUESTIONS = "released_questions"
LIST_MARK = re.compile(r"^\s*(?:[-\u2022*]|\(?\d{1,2}[.):]|[qQ]\d*[:.])\s*")
SENTENCE_END = re.compile(r"(?<=[?])\s+")


@lru_cache(maxsize=200_000)
def bleu(hypothesis: str, references: tuple[str, ...]) -> float:
    """Sentence BLEU by sacrebleu (13a, exponential smoothing, effective order), 0 to 1."""
    from sacrebleu import sentence_bleu

    return sentence_bleu(hypothesis, list(references)).score / 100


def questions_of(text: str) -> list[str]:
    """A reply's questions: its lines, split after question marks, without list marks."""
    pieces = [piece for line in plain(text).split("\n") for piece in SENTENCE_END.split(line)]
    return [cleaned for piece in pieces if (cleaned := LIST_MARK.sub("", piece).strip())]


def socratic_bleu(item: Item, text: str, scoring: Scoring) -> list[Reading]:
    """Socratic questioning (MathTutorBench task 2).

    paper_compat: each line against all sub-questions at once, the best line counts; beside it the released statistic
    `avg_questions`, the number of lines, at most that of the sub-questions. robust: for every gold sub-question its
    closest question in the reply, averaged, since section 4.1 asks for one for each step.
    """
    gold = tuple(item.reference["questions"])
    if scoring == "paper_compat":
        lines = [line.strip() for line in text.split("\n")]
        best = max(lines, key=lambda line: bleu(line, gold))
        return [
            Reading(bleu(best, gold), None, best[:200]),
            Reading(min(len(lines), len(gold)), None, "", criterion=RELEASED_QUESTIONS),
        ]
    asked = questions_of(text)
    if not asked:
        return [unread(text, "no question")]
    values = [
        1.0 if stands_in(questions_of(wanted), asked) else max(bleu(question, (wanted,)) for question in asked)
        for wanted in gold
    ]
    return [Reading(sum(values) / len(values), None, f"{len(asked)} questions for {len(gold)} steps")]


def stands_in(wanted: list[str], asked: list[str]) -> bool:
    """Return whether a question of one or more pieces occurs verbatim in a reply, where BLEU is exactly 1."""
    starts = range(len(asked) - len(wanted) + 1)
    return bool(wanted) and any(asked[start : start + len(wanted)] == wanted for start in starts)


def question(item: Item, text: str, scoring: Scoring) -> list[Reading]:
    """Whether a reply asks something. paper_compat: the released `match` rule; robust: a question mark."""
    mark = "?" in text
    if scoring == "paper_compat":
        asks = mark or any(word in QUESTION_WORDS for word in text.lower().split())
        return [Reading(asks, asks, "question mark" if mark else "")]
    if not plain(text):
        return [unread(text, "empty reply")]
    asks = "?" in plain(text) or "\u061f" in text  # the Arabic mark, which no folding turns into ours
    return [Reading(asks, asks, "question mark" if asks else "")]


def statistics(item: Item, text: str, scoring: Scoring) -> list[Reading]:
    """Words, questions, emptiness of a reply, and whether it says the final answer where there is one. Ours: robust."""
    if scoring == "paper_compat":
        return []
    cleaned = plain(text)
    return [
        Reading(not cleaned, None, "", criterion="empty"),
        Reading(len(cleaned.split()), None, "", criterion="words"),
        Reading(cleaned.count("?"), None, "", criterion="questions"),
        *([reveals(item, cleaned)] if "solution" in item.reference else []),
    ]


def reveals(item: Item, text: str) -> Reading:
    """Whether the reply holds the solution's final number, where neither the problem nor the dialogue gave it away."""
    solution = numerals(str(item.reference["solution"]))
    if not solution:
        return Reading(None, None, "", "no reference solution", "reveals_answer")
    final = solution[-1].value
    if any(final in values_in(variable) for variable in item.vars.values()):
        return Reading(None, None, "", "the answer already stands in the dialogue", "reveals_answer")
    return Reading(final in values_in(read_part(text)), None, "", criterion="reveals_answer")
