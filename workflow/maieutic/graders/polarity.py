"""Decide whether a clause calls something right or wrong."""

from __future__ import annotations

import re

from maieutic.graders.words import phrases, words

WRONG = (
    words(
        "incorrect(ly)?|inaccurate|wrong(ly)?|false|invalid|flawed|erroneous|mistaken|faulty|"
        "errors?|mistakes?|errs?|slips?|flaws?|faults?|bugs?|issues?|problems?|breaks?|fails?"
    )
    + r"|(?:goes?|going|went) (?:astray|wrong)"
    r"|"
    + words("miscalculat_|misread*|misinterpret*|misplaced|contradicts|disagrees?")
    + r"|x(?= no\b)|(?<![A-Za-z]\s)x(?=\W*$)|(?:has"
    r"|is|contains) one|forgot(?:ten)?|forgets?|overlook(?:s|ed)?|omits?|omitted|ignore[sd]?|far from (?:correct|right)"
    r"|too (?:low|high|small|large|big|many|much|few|little)|should(?:n't)? (?:be|have been|have|say|read|equal)"
    r"|✗|✘|❌|✖|×(?! ?[\d$])"
)
RIGHT = (
    words("correct(ly)?|right|true|fine|ok|okay|good|valid|sound|accurate|perfect")
    + r"|holds(?: up)?|hold(?= ?(?:[.,;:]|$))"
    r"|checks? out|in order(?! to\b)"
    r"|error-free|free (?:of|from) (?:errors?|mistakes?)|✓|✔|✅|☑"
    r"|pass(?:es|ed)?(?! on\b)"
    r"|agrees?|match(?:es)?|add(?:s)? up|works? out|makes? sense|proper(?:ly)?"
)
WORD = re.compile(rf"(?<![\w-])(?:(?P<wrong>{WRONG})|(?P<right>{RIGHT}))(?![\w-])", re.IGNORECASE)
NEGATION = phrases("not|no|none|never|neither|nor|without( any)?|cannot|nothing|zero|0|_n't")
# Negations that do not negate a verdict: "no doubt", "not only".
IDLE_NEGATION = re.compile(
    r"\bno doubt\b|\bno matter\b|\bwithout (?:a )?doubt\b|\bno\.? ?(?=\d)|\bnot sure\b", re.IGNORECASE
)
# Adjectives that are not verdicts: "the right answer is 72", "the correct value".
ATTRIBUTE = re.compile(
    (
        r"\b(?:the|a|an|your|his|her|their|its) (?:right|correct|true|wrong"
        r"|incorrect) (?:"
        + words(
            "answer|total|value|result|sum|number|amount|way|operation|calculation|formula|product|"
            "difference|approach|method"
        )
        + r")s?\b(?! is in\b)"
        r"|\b(?:on )?the right (?:track|idea|path|lines?)\b|\b(?:partly|mostly|almost|nearly) (?:correct|right)\b"
        r"|\b(?:the|a|one) (?:right|correct|true|wrong|incorrect) solution\b(?= ?(?:is|was|would|should|[:=]))"
        r"|\b(?:the|this|that|each|every|word|math|original) problems?\b(?! (?:is (?:in|at"
        r"|that|with)|starts?|lies|occurs?|arises?)\b)"
    ),
    re.IGNORECASE,
)
DENIED_THAT = phrases("(not (true|the case|correct|right)|false|wrong|incorrect) that")
# The content of a claim, whose negations do not negate the verdict: "the conclusion that there is no rest is wrong".
CONTENT = re.compile(
    r"\b(conclusion|claim|statement|assumption|idea) that\b[^.;:]*?(?=\s(?:is|was) (?:wrong|incorrect|false)\b)",
    re.IGNORECASE,
)
NEGATION_WINDOW = 45  # number of characters before a verdict word that are searched for its negation


def clause_polarity(clause: str) -> bool | None:
    """Return True if a clause calls something wrong, False if it calls something right, None for neither or both."""
    verdicts = set(word_verdicts(clause))
    return verdicts.pop() if len(verdicts) == 1 else None


def word_verdicts(clause: str) -> list[bool]:
    """Return a verdict (True: wrong) for each word in a clause that means right or wrong, with negations applied."""
    text = IDLE_NEGATION.sub(lambda match: " " * len(match[0]), clause)
    text = CONTENT.sub(r"\1", text)
    text = ATTRIBUTE.sub(
        lambda match: " " * len(match[0]), DENIED_THAT.sub(lambda match: "not".ljust(len(match[0])), text)
    )
    verdicts, start = [], 0
    for match in WORD.finditer(text):
        window = text.rfind(" ", 0, max(0, match.start() - NEGATION_WINDOW)) + 1  # "1250" is not cut to "0"
        before = text[max(start, window) : match.start()]
        before = before[before.rfind(", the ") + 1 :]  # a main clause is not negated by the clause before it
        flipped = len(NEGATION.findall(before)) % 2 == 1
        verdicts.append(bool(match["wrong"]) != flipped)
        start = match.end()
    return verdicts
