"""Decide whether a clause calls something right or wrong."""

from __future__ import annotations

import re

WRONG = (
    r"incorrect(?:ly)?|inaccurate|wrong(?:ly)?|false|invalid|flawed|erroneous|mistaken|faulty|unsound"
    r"|errors?|mistakes?"
    r"|errs?|erred|slips?|missteps?|flaws?|faults?|bugs?|issues?|problems?|breaks?|breaks down|fails?|goes astray"
    r"|miscalculat\w+|misread\w*|misinterpret\w*|misplaced|contradicts|disagrees?|x(?=\s+no\b)|x(?=\W*$)|(?:has"
    r"|is|contains) one|should(?:n't)? (?:be|have been|have)|\u2717|\u2718|\u274c|\u2716|\u00d7"
)
RIGHT = (
    r"correct(?:ly)?|right|true|fine|ok|okay|good|valid|sound|accurate|flawless|perfect|holds?(?: up)?"
    r"|checks? out|in order"
    r"|error-free|mistake-free|free (?:of|from) (?:errors?|mistakes?)|\u2713|\u2714|\u2705|\u2611"
    r"|pass(?:es|ed)?(?!\s+on\b)"
    r"|(?:is|are) as (?:it|they) should be|agrees?|match(?:es)?|add(?:s)? up|works? out|makes? sense|proper(?:ly)?"
)
WORD = re.compile(rf"(?<![\w-])(?:(?P<wrong>{WRONG})|(?P<right>{RIGHT}))(?![\w-])", re.IGNORECASE)
NEGATION = re.compile(
    r"\b(?:not|no|none|never|neither|nor|without(?: any)?|cannot|hardly|nothing|zero|0|free of)\b|\w+n[\u2019']t\b",
    re.IGNORECASE,
)
# Negations that do not negate a verdict: "no doubt", "not only".
IDLE_NEGATION = re.compile(
    r"\bnot only\b|\bno doubt\b|\bno matter\b|\bwithout (?:a )?doubt\b|\bno\.? ?(?=\d)|\bnot sure\b", re.IGNORECASE
)
# Adjectives that are not verdicts: "the right answer is 72", "the correct value".
ATTRIBUTE = re.compile(
    r"\b(?:the|a|an|your|his|her|their|its)\s+(?:right|correct|true|proper|wrong"
    r"|incorrect)\s+(?:answer|total|value|result|sum|number|amount"
    r"|way|operation|calculation|formula|order|unit|quotient|product|difference|approach|method)s?\b(?! is in\b)"
    r"|\b(?:the|a|one)\s+(?:right|correct|true|proper|wrong|incorrect)\s+solution\b(?=\s*(?:is|was|would|should|[:=]))"
    r"|\b(?:the|this|that|each|every|word|math|original|story)\s+problems?\b(?!\s+(?:is\s+(?:in|at"
    r"|that|with)|starts?|lies|occurs?|arises?)\b)",
    re.IGNORECASE,
)
DENIED_THAT = re.compile(
    r"\b(?:not\s+(?:true|the\s+case|correct|right)|false|wrong|incorrect|untrue)\s+that\b", re.IGNORECASE
)
NEGATION_WINDOW = 45  # number of characters before a verdict word that are searched for its negation


def clause_polarity(clause: str) -> bool | None:
    """Return True if a clause calls something wrong, False if it calls something right, None for neither or both."""
    verdicts = set(word_verdicts(clause))
    return verdicts.pop() if len(verdicts) == 1 else None


def word_verdicts(clause: str) -> list[bool]:
    """Return a verdict (True: wrong) for each word in a clause that means right or wrong, with negations applied."""
    text = IDLE_NEGATION.sub(lambda match: " " * len(match[0]), clause)
    text = ATTRIBUTE.sub(
        lambda match: " " * len(match[0]), DENIED_THAT.sub(lambda match: "not".ljust(len(match[0])), text)
    )
    verdicts, start = [], 0
    for match in WORD.finditer(text):
        before = text[max(start, match.start() - NEGATION_WINDOW) : match.start()]
        flipped = len(NEGATION.findall(before)) % 2 == 1
        verdicts.append(bool(match["wrong"]) != flipped)
        start = match.end()
    return verdicts
