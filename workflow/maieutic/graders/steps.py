"""Read the first wrong step that a reply names (MathTutorBench mistake location, KMP-Bench error detection).

Mentions of steps are first replaced by marks with their numbers: `⟨2⟩` for one step, `⟨1,2⟩` for several steps, `⟨2|3⟩`
for alternatives. The parser then looks for sentences that state an answer ("So ⟨2⟩.", "Answer: 0"), name the first
error, or call marked steps right or wrong.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from maieutic.graders.number_words import ONES
from maieutic.graders.passages import BREAKS_OFF, QUOTED_ANSWER, is_closing
from maieutic.graders.polarity import clause_polarity, word_verdicts
from maieutic.graders.reading import MAX_PASSAGE_CHARACTERS
from maieutic.graders.verdict_text import prepare_verdict_text, sentences_after_withdrawals

MAX_STEP_NUMBER = 40  # a larger number is not a step but a number in the problem
WORDS = tuple(ONES.split()[:13])  # words for the numbers from zero to twelve
ORDINALS = (
    "zeroth",
    "first",
    "second",
    "third",
    "fourth",
    "fifth",
    "sixth",
    "seventh",
    "eighth",
    "ninth",
    "tenth",
    "eleventh",
    "twelfth",
    "thirteenth",
    "fourteenth",
    "fifteenth",
    "sixteenth",
    "seventeenth",
    "eighteenth",
    "nineteenth",
    "twentieth",
)
ROMAN = ("o", "i", "ii", "iii", "iv", "v", "vi", "vii", "viii", "ix")
UNIT = r"(?:steps?|lines?|sentences?)"
STEP_NUMBER = rf"(?:\d{{1,3}}|{'|'.join(WORDS)})"
JOIN = rf"(?:\s*,\s*|\s*,?\s*(?:and|&|or|to|through|thru|until|[-\u2013\u2014])\s*(?:{UNIT}\s*)?)"
NAMED = re.compile(
    rf"\b{UNIT}\s*(?:numbers?|nums?\b|nos?\b\.?|nr\b\.?)?(?:\n"
    rf"|[ \t\u3000:#(=\[\"'-]*)(?P<list>{STEP_NUMBER}(?:{JOIN}{STEP_NUMBER}\b(?!\s*[*/+=\u00d7]))*)\b[)\]\"']?(?![.,]\d"
    rf"|\s*%)"
    r"(?:\s*(?:/|of|out of)\s*(?:the\s+)?\d{1,3}\b(?:\s+steps)?)?",
    re.IGNORECASE,
)
ROMAN_NAMED = re.compile(rf"\b{UNIT}\s+\(?({'|'.join(ROMAN[1:])})\b(?!\s*['\u2019])", re.IGNORECASE)
ORDINAL_STEP = re.compile(
    rf"\b(?:the\s+|this\s+)?(?P<nth>{'|'.join(ORDINALS)}|\d{{1,2}}(?:st|nd|rd"
    rf"|th))\s+(?:\(?and\s+(?:last|final)\)?\s+)?(?:{UNIT}\b|one\W*$)"
    r"",
    re.IGNORECASE | re.MULTILINE,
)
OF_A_KIND = re.compile(
    r"\s+(?:that|where|which|in\s+which|with|to|of\s+the\s+solution\s+that|being|containing|of\s+(?:the|this|his|her|their)\s+(?:\w+'s\s+)?(?:solution|work)\s+(?:that|which|where|with))\b",
    re.IGNORECASE,
)
SHORT_NAME = re.compile(r"(?<![\w$])S(\d{1,2})\b(?!\s*=)")
LIST_LINE = re.compile(
    r"^([^\w\n]{0,8})(\d{1,2})([.):](?=\s)|(?=\s+[\u2713\u2714\u2705\u2717\u2718\u274c]))", re.MULTILINE
)
MARK = re.compile(r"\u27e8([\d,|]+)\u27e9")
TOO_LARGE = re.compile(r"\b(?:step|line)s?\s*#?\s*\d{4,}|\bstep\s*\d+[.,]\d+", re.IGNORECASE)
COUNT = re.compile(
    rf"\b(?:all\s+)?(?:of\s+)?(?:the\s+)?(?P<count>{STEP_NUMBER})\s+(?:of\s+(?:the|these|them)\s+(?:{STEP_NUMBER}\s+)?)?(?:\w+\s+)?"
    r"(?:steps|lines|errors?|mistakes?|parts|times|sentences|slips)\b|\b1\s+(?:error|mistake|step)\b",
    re.IGNORECASE,
)

NONE_WORDS = (
    r"none|n/?a\b(?:\s*\(.*)?|-1|nil|zero|no\s+(?:first\s+)?(?:wrong\s+|incorrect\s+)?(?:errors?"
    r"|mistakes?|steps?)\b(?:\s+(?:found|here|at all|present|detected|made))?"
)
VALUE = (
    rf"(?:\u27e8(?P<marks>[\d,|]+)\u27e9|(?P<digits>-1\b|\d{{1,3}})(?:st|nd|rd|th)?(?![\w%]|[.,/:]\d)"
    rf"|(?P<word>{'|'.join(WORDS)})\b(?!\s+(?:of|error|mistake|step|more)))"
)
QUOTE = r"[\s\"'(\[{)\u201c\u2018\u00ab*#>\u2192\u27a1\u2705\U0001f449=:|\u2022\u2013\u2014-]*+"
LEAD = (
    r"(?:(?:as\s+far\s+as\s+i\s+(?:can\s+)?(?:tell|see|know)|if\s+i\s+(?:had|have)\s+to\s+[^,\n]{0,40}"
    r"|in|at|to|so|therefore|thus|hence|then|consequently|finally|ok(?:ay)?|well|hmm+|and|but|yes"
    r"|right|conclusion|overall|in (?:short|summary|conclusion)|again"
    r"|i(?:'d| would|'m| am)?\s+(?:say|think|guess|believe|go\s+(?:with|for)|choose|pick|answer"
    r"|settle\s+on|conclude|fairly sure|sure)(?:\s+that)?(?:\s+with)?"
    r"|(?:as|for)\s+(?:my|the)\s+answer|unless i(?:'m| am) mistaken"
    r"|my\s+(?:\w+\s+)?(?:guess|answer|reply|verdict|choice|response|conclusion)(?:\s+is|\s+would\s+be)?"
    r"|probably|most\s+likely|likely|perhaps|maybe|possibly|presumably|apparently|it\s*(?:'s|\s+is"
    r"|\s+must\s+be|\s+has\s+to\s+be|\s+would\s+be|\s+seems\s+to\s+be|\s+should\s+be|\s+looks\s+like)"
    r"|that(?:'s|\s+is|\s+would\s+be)|this\s+is|we\s+(?:get|have)"
    r"|i\s+mean(?:t)?|no|make\s+(?:it|that)|rather|namely|number|num|no\.|nr\.|as the first"
    r"|(?:the\s+)?(?:first\s+|final\s+|correct\s+|right\s+|corrected\s+|short\s+|real\s+)*(?:answer"
    r"|verdict|result|number|output|response|reply|tutor|assistant|teacher|a|s|ans)(?:\s+(?:is"
    r"|would\s+be|should\s+be|must\s+be"
    r"|to\s+the\s+question\s+is))?)\b[\s:,;=.\u2013\u2014>\"'(*-]*+){0,6}"
)
AFTER_STEP = (
    r"(?P<tail>(?<=\u27e9)\s?[-\u2013\u2014]\s|[\s\"')\]}\u201d\u2019\u00bb*.!]*$"
    r"|[\"')\]\u201d]?\s*(?:[,;:(\u2026]|\.\s|!\s|(?:-\s|[\u2013\u2014]|-?>"
    r"|\u2192)(?!\s*\d+\s*[-+*/=\u00d7]))"
    r"|\s+(?:because|since|as|where|for|due|is\s+(?:it|the|my|where|what)|it\s+is|of\s+\d|out\s+of"
    r"|i\s+(?:think|believe|guess)|again|then|that|which|\u2713|\u2705|and\s+not|not)\b)"
)
STATED_STEP = re.compile(rf"^{QUOTE}{LEAD}{QUOTE}{VALUE}{AFTER_STEP}", re.IGNORECASE | re.DOTALL)
STATED_NONE = re.compile(rf"^{QUOTE}{LEAD}{QUOTE}(?:{NONE_WORDS}){AFTER_STEP}", re.IGNORECASE | re.DOTALL)
LABEL = (
    r"(?:answer|antwort|respuesta(?:\s+final)?|r\u00e9ponse(?:\s+finale)?|risposta"
    r"|resposta(?:\s+final)?|jawaban|verdict|conclusion|judge?ment|output|response|reply|result"
    r"|(?:first|error|wrong|incorrect|mistaken|faulty)\s*(?:error|wrong|incorrect|mistake"
    r"|faulty)?\s*(?:step|line|error|mistake)?"
    r"(?:\s*(?:num(?:ber)?|no\.?|index|location))?|(?:step|mistake|error)\s*(?:num(?:ber)?|no|location|index)?)"
)
MARKED = re.compile(
    rf"(?:^|[\s\"'(\[*#])(?:{LABEL})[\"'\])*]*\s*(?:\([^)]*\)\s*)?(?:is\b|ist\b|es\b|est\b|\u00e8"
    rf"|\u00e9|adalah\b|are\b|was\b|would\s+be\b|must\s+be\b|should\s+be\b|(?<=\w)\s*[:=]|\u2192|->"
    rf"|\u2013|\u2014|-(?=\s))[\s:=]*(?:(?:therefore|thus|hence|then|simply|clearly|in|at|likely"
    rf"|probably|found\s+in|located\s+in|now|still)\s+)*{QUOTE}(?:{VALUE}|(?P<none>{NONE_WORDS})){AFTER_STEP}",
    re.IGNORECASE | re.DOTALL,
)
FIRST = re.compile(
    r"\b(?:first|earliest|initial|1st|very\s+first)\s+(?:\w+\s+)?(?:\w+\s+)?(?:wrong|incorrect"
    r"|erroneous|faulty|flawed|bad|mistaken|error|mistake|slip|fault|misstep|flaw|one\s+(?:that"
    r"|which)\s+(?:is\s+wrong|fails))\b"
    r"|\bfirst\s+(?:goes|went|occurs?|occurred|appears?|appeared|arises?|arose|happens?|happened|made"
    r"|fails?|failed|breaks?|comes|came|found|introduced)\b|\b(?:goes|went)\s+(?:wrong"
    r"|astray)\s+first\b"
    r"|\bearli(?:er|est)\s+(?:one|of)\b|\bfirst\s+(?:one|of\s+them)\s+(?:is\s+)?(?:in|at)\b"
    r"|\b(?:first|earliest)(?:\s+one|\s+of\s+(?:them|these|those))?\s+(?:is|being|lies)\b(?=\s+(?:in\s+|at\s+)?\u27e8)"
    r"|\bcomes?\s+first\b|\bfirst\s+(?:step|line)\s+(?:that|where|which|with|in\s+which|to)\b"
    r"|\b(?:wrong|incorrect)\s+for\s+the\s+first\s+time\b|^first\s*:|\b(?:none|no\s+(?:error"
    r"|mistake|problem|issue)s?)\s+(?:until|before)\s+\u27e8",
    re.IGNORECASE,
)
LIES_IN = re.compile(
    r"\b(?:the|an?|one|only|real|student'?s)\s+(?:\w+\s+)?(?:error|mistake|slip|problem|fault|flaw"
    r"|issue|misstep)s?\s+(?:\w+\s+){0,3}?(?:in|at|with|is|on|to|from|already)\s+(?:\w+\s+){0,2}\u27e8",
    re.IGNORECASE,
)
CONCLUSIONS = (
    re.compile(
        r"(?:[,;.:\u2013\u2014-]\s*|\band\s+|^)(?:so|thus|therefore|hence|i\.e\.)\b[\s,:]*(?:(?:the"
        r"|my)\s+answer\s+(?:is|would\s+be)\s+"
        rf"|it(?:'s|\s+is)\s+|in\s+|at\s+)*{VALUE}\W*$",
        re.IGNORECASE,
    ),
    re.compile(
        rf"(?:(?:\u2192|->|=>|:)\s*(?:the\s+|my\s+)?answer\W{{0,4}}|\b(?:go(?:ing)?|went)\s+with\s+|,\s+i\s+answer\s+){VALUE}\W*$",
        re.IGNORECASE,
    ),
    re.compile(rf"[;,]\s*(?:it(?:'s|\s+is)\s+)?(?:in|at)\s+{VALUE}\W*$", re.IGNORECASE),
    re.compile(rf"^[^\d=*/+]*:\s*{VALUE}\W*$", re.IGNORECASE),
)
ENDS_WITH = re.compile(rf"\b(?:is|was|be)\s+(?:in\s+|at\s+)?{VALUE}\W*$", re.IGNORECASE)
UNDECIDED = re.compile(
    r"\b(?:maybe|possibly|perhaps|either)\b.*\b(?:maybe|possibly|perhaps|or)\b"
    r"|\bbetween\s+\u27e8[\d,]+\u27e9|\bhard to (?:say|tell)\b"
    r"|\u27e9\s*(?:,?\s*or|/)\s*(?:in\s+)?(?:\u27e8|\d)"
    r"|\b\d{1,3}\s*(?:,\s*\d{1,3}\s*)?,?\s+or\s+(?:\u27e8|\d)|\b\d\s*/\s*\d\b(?!.*=)",
    re.IGNORECASE,
)
DENIED = re.compile(
    r"(?:(?:,\s?)?\(?(?:(?:and|but)\s)?\b(?:not|rather\s+than|instead\s+of|nor|neither|isn[\u2019']t"
    r"|is\s+not|wasn[\u2019']t|and\s+no)\s+(?:(?:yet|even|just|really|already)\s+)?(?:in\s+|at\s+"
    r"|with\s+|on\s+)?(?:\u27e8[\d,|]+\u27e9|\d{1,3}\b)\)?"
    r"(?:\s*(?:,|nor|or)\s*(?:in\s+)?\u27e8[\d,|]+\u27e9)*)(?!\s*(?:is|was|are|has|have|holds|contains"
    r"|does|only)\b)",
    re.IGNORECASE,
)
CLAUSE = re.compile(
    r"\s*[,;:]\s+|\s+[-\u2013\u2014]+>?\s+|\s*(?:->|\u2192|=>)\s*|\s+\b(?:but|while|whereas|although"
    r"|though|however|because|since|and\s+so|so|yet|and(?=\s+(?:in\s+|then\s+|also\s+)?\u27e8)"
    r"|and(?=\s+(?:the|then|there|all|no|every)\b))\b\s*|(?<=[a-z])\s*\((?=\w)",
    re.IGNORECASE,
)
ELLIPSIS = re.compile(r"\b(?:is|are|does|do|did|was|has|have|were)(?P<no>\s*n[\u2019']t|\s+not)?\W*$", re.IGNORECASE)
POINTS_BACK = re.compile(
    r"^\W*(?:this|that|it|here|there|which|so\s+(?:this|that|it)|the\s+(?:step|line)|no\s+(?:error"
    r"|mistake|problem|issue)s?|(?:in)?correct|wrong|right|error|mistake|ok|fine|true|false|not|valid"
    r"|invalid)\b|^\W*[\u2713\u2714\u2717\u2718\u2705\u274c]",
    re.IGNORECASE,
)
EXCEPT = re.compile(
    r"\b(?:except(?:\s+(?:for|in))?|apart\s+from|aside\s+from|other\s+than|besides|all\s+but|but\s+for"
    r"|everything\s+but|but)\s+(?:for\s+|in\s+)?\u27e8([\d,]+)\u27e9",
    re.IGNORECASE,
)
ALL = re.compile(
    r"\b(?:all|every|each|any|none|both|whole|entire|everything|solution|work|student|throughout"
    r"|no\s+(?:errors?|mistakes?))\b",
    re.IGNORECASE,
)
LIMITED = re.compile(
    r"\b(?:above|preceding|prior|earlier|previous|else|until|except|but|however|only|although|though|unless|before|up\s+to|so\s+far|if|some|most(?:ly)?"
    r"|almost|nearly|partly|other)\b"
    r"|\bnot\s+(?:all|every)\b|\bin\s+(?:(?:this|that)\s+(?!solution|work|answer|problem|case)"
    r"|the\s+(?:first|last|next|multiplication|addition|calculation|division|subtraction))\b",
    re.IGNORECASE,
)
ERROR_FREE = re.compile(
    r"\b(?:no|without|free\s+of|not|none|nowhere|nothing|zero|0|never|cannot|\w+n[o\u2019']t"
    r"|neither)\b[^.;:]{0,40}\b(?:errors?|mistakes?|wrong|incorrect|slips?|faults?|flaws?|faulty)\b"
    r"|\berror-free\b|\bnothing\s+to\s+correct\b|\bno\s+(?:first\s+)?(?:error|mistake)",
    re.IGNORECASE,
)
NOTHING_TO_CORRECT = re.compile(
    r"\bnothing\s+(?:to\s+correct|needs?\s+(?:to\s+be\s+)?correct\w*|wrong)\b"
    r"|\b(?:no|none|nothing|not\s+a\s+single|not\s+one|\w*n[o']t\s+an?y?(?:\s+single)?)\b[^.;:]{0,40}\bneed(?:s|ed)?\s+"
    r"(?:(?:to\s+be\s+)?(?:correct|fix|chang|adjust)\w*|any\s+correction)\b",
    re.IGNORECASE,
)
LEFT_OUT = re.compile(
    r"(?:n[\u2019']t|\b(?:not|is|are|does|do))\W*$|\bexcept\b|\bapart\s+from\b|\bother\s+than\b", re.IGNORECASE
)
EXCEPTION_WORDS = re.compile(r"\bexcept\b|\bapart\s+from\b", re.IGNORECASE)
WHOLE = re.compile(
    r"\b(?:all|every|each|everything|both)\b|\b(?:solution|work|calculations?|reasoning|student|answer"
    r"|it|he|she|they)(?:\s+as\s+a\s+whole)?\s+(?:\w+\s+)?(?:is|was|looks|seems|are|solved|did|does"
    r"|checks)\b"
    r"|\b(?:fully|entirely|completely|wholly|perfectly|100\s?%)\s+(?:correct|right)\b"
    r"|\bcorrect\s+(?:throughout|solution|as\s+it\s+stands)\b|^\W*(?:all\s+)?(?:correct|right)\W*$",
    re.IGNORECASE,
)


SINGLES_OUT = re.compile(
    r"\b(?:first|off|rails|trips?|tripped|slip\w*|stumbl\w+|depart\w*|leaves|mark|flag|report|enter|record\w*|busted"
    r"|mess\w*|point|culprit|trouble|starts?|begins?|settle|fix\w*|redo|go\s+back)\b",
    re.IGNORECASE,
)
REPORTS = re.compile(
    r"\b(?:answer|report|record\w*|enter|settle|verdict|step\s+number|number\s+(?:you|to)|stays?)\b", re.IGNORECASE
)


class SentencePosition(NamedTuple):
    """Position of a sentence in a reply.

    among_last: True for the last CLOSING_SENTENCES sentences. listed: True if the reply lists steps. before: list of
    the last step that earlier sentences name, or an empty list.
    """

    first: bool
    last: bool
    among_last: bool
    listed: bool
    before: list[int]


class StatedStep(NamedTuple):
    """Step that a sentence states as the answer, with the sentence. step: None if the sentence names no single step."""

    step: int | None
    text: str


def step_number(written: str) -> int:
    """Return the number of a step written in digits or as a word."""
    written = written.casefold()
    return WORDS.index(written) if written in WORDS else int(written)


def mark_of_steps(numbers: str) -> str:
    """Return the mark for a list of steps: ⟨1,2,3⟩ for "1 to 3" and "1, 2 and 3", ⟨1|2⟩ for "1 or 2"."""
    steps = [step_number(word) for word in re.findall(STEP_NUMBER, numbers, re.IGNORECASE)]
    if re.search(r"\bor\b", numbers, re.IGNORECASE):
        return f"\u27e8{'|'.join(map(str, steps))}\u27e9"
    if len(steps) == 2 and re.search(r"to|through|thru|until|[-\u2013\u2014]", numbers) and steps[0] < steps[1]:
        steps = [*range(steps[0], steps[1] + 1)]
    return f"\u27e8{','.join(map(str, steps))}\u27e9"


def prepare_step_reply(text: str) -> str:
    """Return a reply with its fields as lines and its mentions of steps as marks (⟨2⟩)."""
    text = QUOTED_ANSWER.sub(" ", prepare_verdict_text(text))
    text = TOO_LARGE.sub(" ", text)
    text = ORDINAL_STEP.sub(lambda match: match[0] if is_first_of(match) else mark_nth(match), text)
    text = NAMED.sub(lambda match: mark_of_steps(match["list"]), ROMAN_NAMED.sub(lambda match: mark_roman(match), text))
    text = SHORT_NAME.sub(lambda match: f"\u27e8{int(match[1])}\u27e9", text)
    if len(LIST_LINE.findall(text)) > 1:
        text = LIST_LINE.sub(lambda match: f"{match[1]}\u27e8{match[2]}\u27e9:", text)
    return text


def is_first_of(match: re.Match[str]) -> bool:
    """Return True if "the first step" does not mean step 1, because a condition follows it ("that is wrong")."""
    before, after = match.string[: match.start()], match.string[match.end() :]
    return (
        match["nth"].casefold() in ("first", "1st")
        and OF_A_KIND.match(after) is not None
        and not re.search(r"\bit(?:'s|\s+is)\s*$", before, re.IGNORECASE)
    )


def mark_nth(match: re.Match[str]) -> str:
    """Return the mark for a step named by an ordinal ("the second step")."""
    nth = match["nth"].casefold()
    return f"\u27e8{ORDINALS.index(nth) if nth in ORDINALS else int(re.sub(r'[^0-9]', '', nth))}\u27e9"


def mark_roman(match: re.Match[str]) -> str:
    """Return the mark for a step named by a Roman numeral ("step II")."""
    return f"\u27e8{ROMAN.index(match[1].casefold())}\u27e9"


def step_in_match(match: re.Match[str]) -> int | None:
    """Return the step that a match states: 0 for no error, None for several steps or a number above MAX_STEP_NUMBER."""
    if match.groupdict().get("none"):
        return 0
    if match["marks"]:
        return int(match["marks"]) if match["marks"].isdigit() else None
    if match["word"]:
        return step_number(match["word"])
    value = int(match["digits"])
    if value == 1 and re.search(r"(?:^|[\s:=\"(])-$", match.string[: match.start("digits")]):
        return 0  # in ProcessBench, -1 means that a solution has no error
    return max(0, value) if value <= MAX_STEP_NUMBER else None


def stated_step(sentence: str, place: SentencePosition) -> StatedStep | None:
    """Return the step that a sentence states as the answer or as the first wrong step, or None."""
    bare = DENIED.sub(" ", sentence).strip()
    named = marked_steps(bare)
    undecided = bool(UNDECIDED.search(bare)) and len(set(named)) != 1
    if place.last and CANNOT_SAY.search(bare):
        return StatedStep(None, sentence)
    if undecided and (place.last or len(set(named)) > 1):
        return StatedStep(None, sentence)
    if place.listed and (head := LIST_HEAD.match(bare)):
        return StatedStep(marked_steps(head[0])[0], sentence) if FLAGGED_FIRST_ERROR.search(bare) else None
    for match in (*reversed(list(MARKED.finditer(bare))), STATED_STEP.match(bare)):
        if match and is_admissible(match, bare, place):
            return StatedStep(None if undecided else step_in_match(match), sentence)
    if STATED_NONE.match(bare) and not named:
        return StatedStep(0, sentence)
    if FIRST.search(bare):
        if (match := ENDS_WITH.search(bare)) and step_in_match(match) is not None:
            return StatedStep(step_in_match(match), sentence)
        if named or (place.before and POINTS_BACK.match(bare)):
            several = undecided or "|" in "".join(MARK.findall(bare))
            return StatedStep(None if several else step_nearest_first_error(bare, named or place.before), sentence)
    for pattern in CONCLUSIONS:
        if (match := pattern.search(bare)) and step_in_match(match) is not None:
            return StatedStep(step_in_match(match), sentence)
    if place.last and whole_is_right(bare):
        return StatedStep(0, sentence)
    return singled_out_step(bare) if place.last else None


def singled_out_step(sentence: str) -> StatedStep | None:
    """Return the only step that a last sentence blames ("it goes off the rails in step 3"), or None."""
    named, digits = set(marked_steps(sentence)), re.findall(r"(?<![\d.,])\d+(?![\d%]|[.,]\d)", MARK.sub(" ", sentence))
    if "=" in sentence or False in word_verdicts(sentence) or not re.search(r"[.!)\"*\u201d]\W*$", sentence):
        return None
    if len(named) == 1 and SINGLES_OUT.search(sentence):
        return StatedStep(min(named), sentence)
    if not named and len(digits) == 1 and int(digits[0]) <= MAX_STEP_NUMBER and REPORTS.search(sentence):
        return StatedStep(int(digits[0]), sentence)
    return None


def is_admissible(match: re.Match[str], sentence: str, place: SentencePosition) -> bool:
    """Return True if a match is an answer, rather than a count, a number in the problem, or a step called right."""
    if match.groupdict().get("none"):
        return True
    if match["digits"] and not (place.first or place.among_last):
        return False  # the number is quoted from the problem or from the student's work
    if match["digits"]:
        return int(match["digits"]) <= MAX_STEP_NUMBER and not COUNT.match(sentence[match.start("digits") :])
    rest = sentence[match.end("marks") :] if match["marks"] else ""
    if (match["tail"] or "").strip()[:1] == "," and not (place.first or place.last):
        return False
    return False not in word_verdicts(rest)


def step_nearest_first_error(sentence: str, named: Sequence[int]) -> int:
    """Return the step that is closest to the sentence's words for the first error. named: steps in the sentence."""
    if len(set(named)) == 1:
        return named[0]
    first = FIRST.search(sentence)
    assert first is not None
    clauses = [part for part in CLAUSE.split(sentence) if part and FIRST.search(part) and MARK.search(part)]
    if clauses:
        return marked_steps(clauses[-1])[0]
    after = MARK.search(sentence, first.end())
    return int(re.split(r"[,|]", after[1])[0]) if after else named[-1]


def marked_steps(text: str) -> list[int]:
    """Return the numbers of all marked steps of a text, in order."""
    return [int(number) for marks in MARK.findall(text) for number in re.split(r"[,|]", marks)]


def whole_is_right(sentence: str) -> bool:
    """Return True if a sentence calls the whole solution free of errors."""
    named = marked_steps(sentence)
    if NOTHING_TO_CORRECT.search(sentence):
        return True
    if LIMITED.search(sentence) or (verdicts := set(word_verdicts(sentence))) - {False} or LEFT_OUT.search(sentence):
        return False
    if (named and named != [*range(1, len(named) + 1)]) or len(named) == 1:
        return False
    return bool(ERROR_FREE.search(sentence)) or (bool(verdicts) and bool(named or WHOLE.search(sentence)))


FLAGGED_FIRST_ERROR = re.compile(
    r"(?:[(\u2190\u2b05\u2013\u2014,-]|<-+|<=+)\s*(?:this\s+is\s+)?(?:the\s+)?(?:very\s+)?first\s+(?:error|mistake|wrong|incorrect)\b",
    re.IGNORECASE,
)
LIST_HEAD = re.compile(r"^\W*\u27e8\d+\u27e9\s*(?:[:;(\u2013\u2014]|-\s|[\u2713\u2714\u2717\u2718\u2705\u274c])")
SHORT_REPLY_SENTENCES = 4  # a longer reply without a stated answer is read only if it ends in verdicts on steps
CLOSING_SENTENCES = 3  # a bare number can be the answer only in this many sentences at the end of a reply
CANNOT_SAY = re.compile(
    r"\b(?:can(?:not|'t)|(?:not\s+|un)able\s+to|(?:not\s+(?:possible|clear)|impossible|hard"
    r"|difficult)\s+to)\s+(?:\w+\s+)?(?:tell|say|decide|determine|judge|know|name|see|grade|help"
    r"|answer|do\s+this)\b|\bmay\s+or\s+may\s+not\b|\bleave\s+(?:the\s+question|it|this|that)\s+open\b"
    r"|\bcould\s+go\s+either\s+way\b|\bwould\s+need\s+more\b|\bbefore\s+i\s+(?:name|answer|say|finish)\b|\b(?:do\s+not|don't)\s+know\b",
    re.IGNORECASE,
)
NO_STATEMENT = re.compile(r"\?|^\W*(?:i\s+)?hope\b", re.IGNORECASE)
OTHER_STEPS = re.compile(
    r"^\W*(?:and\s+|but\s+)?(?:everything|anything|all|what|whatever|the\s+(?:rest|other|others|steps?|lines?|work))\b",
    re.IGNORECASE,
)
ALSO = re.compile(r"\b(?:as well|too|also)\b", re.IGNORECASE)


def continues_list(parts: Sequence[str]) -> bool:
    """Return True if the last sentence is the next step in a list of steps."""
    heads = [int(marked_steps(match[0])[0]) for part in parts if (match := LIST_HEAD.match(part))]
    return len(heads) > 1 and bool(LIST_HEAD.match(parts[-1])) and heads[-2] < heads[-1]


class StepVerdicts(NamedTuple):
    """Steps that a text calls wrong and steps that it calls right.

    finds_no_error: True if the text states that there is no error. unplaced_error: True if the text reports an error
    without naming a step.
    """

    wrong: set[int]
    right: set[int]
    finds_no_error: bool
    unplaced_error: bool


def collect_step_verdicts(parts: Sequence[str]) -> StepVerdicts:
    """Return the steps that sentences call right or wrong. A clause without a step is about the step named last."""
    wrong: set[int] = set()
    right: set[int] = set()
    about: list[int] = []
    nothing = doubt = False
    before: bool | None = None
    for sentence in (DENIED.sub(" ", part) for part in parts):
        if (left_out := EXCEPT.search(sentence)) and clause_polarity(EXCEPT.sub(" ", sentence)) is False:
            wrong |= {int(number) for number in left_out[1].split(",")}
            continue
        heads = LIST_HEAD.match(sentence)
        for clause in clauses_of(sentence):
            steps, verdict = marked_steps(clause), clause_polarity(clause)
            if steps and verdict is False and EXCEPTION_WORDS.search(sentence):
                verdict = True  # the step is wrong, as in "step 2 is correct except for the sum"
            if verdict is None and before is not None and ELLIPSIS.search(clause):
                verdict = not before  # the opposite of the last verdict, as in "step 1 is right, step 2 is not"
                if not steps:
                    doubt = True
                    continue
            about = steps or about
            if verdict is None:
                continue
            before = verdict
            target = steps or (about if heads or POINTS_BACK.match(clause) else [])
            if target:
                (wrong if verdict else right).update(target)
                if verdict and heads and ALSO.search(clause):
                    wrong.update(marked_steps(heads[0]))
            elif not verdict:
                nothing = nothing or whole_is_right(clause)
            elif len(set(marked_steps(sentence))) == 1 and False not in word_verdicts(sentence):
                wrong.update(marked_steps(sentence))
            else:
                doubt = True
    return StepVerdicts(wrong, right - wrong, nothing, doubt)


def clauses_of(sentence: str) -> Iterator[str]:
    """Yield the clauses of a sentence."""
    yield from (part for part in CLAUSE.split(sentence) if part and part.strip())


def read_step(text: str) -> tuple[int, str] | None:
    """Return the first wrong step that a reply names (0: no error) and its sentence, or None without a single answer.

    A plain list of steps is not an answer. Withdrawn text and closings (offers, questions, checks) are ignored. The
    last sentence that states an answer or names the first error decides. If there is no such sentence, the result is
    the first step called wrong, or 0 if the reply finds no error or calls every step from step 1 on right.
    """
    cleaned = prepare_step_reply(text)
    if BREAKS_OFF.search(cleaned):
        return None
    for parts in sentences_after_withdrawals(cleaned):
        if answer := step_of_sentences(parts):
            return None if answer.step is None else (answer.step, answer.text[:MAX_PASSAGE_CHARACTERS])
    return None


def closing_states_answer(closing: str) -> bool:
    """Return True if a sentence that reads like a closing states the answer ("Great job, every step is correct!")."""
    return not NO_STATEMENT.search(closing) and (
        whole_is_right(closing) or (bool(FIRST.search(closing)) and len(marked_steps(closing)) == 1)
    )


def concerns_other_steps(sentence: str) -> bool:
    """Return True if a sentence only calls other steps right ("Everything above it is fine")."""
    limited = LIMITED.search(sentence) and not marked_steps(sentence) and not FIRST.search(sentence)
    return bool(limited) and {*word_verdicts(sentence)} == {False} and OTHER_STEPS.match(sentence) is not None


def step_of_sentences(parts: list[str]) -> StatedStep | None:
    """Return the step that the sentences of a reply state, or None."""
    parts = [part for part in parts if not is_closing(part) or closing_states_answer(part)] or parts
    while len(parts) > 1 and concerns_other_steps(parts[-1]):
        parts = parts[:-1]
    listed = sum(bool(LIST_HEAD.match(part)) for part in parts) > 1
    befores = [list[int]()]
    for part in parts:
        befores.append(marked_steps(part) or befores[-1])
    for place, sentence in reversed(list(enumerate(parts))):
        before = befores[place]
        if answer := stated_step(
            sentence,
            SentencePosition(
                place == 0, place == len(parts) - 1, place >= len(parts) - CLOSING_SENTENCES, listed, before[-1:]
            ),
        ):
            return answer
    if parts and (last := collect_step_verdicts(parts[-1:])).wrong and not continues_list(parts):
        return StatedStep(min(last.wrong), parts[-1])
    whole = collect_step_verdicts(parts)
    closing = collect_step_verdicts(parts[-CLOSING_SENTENCES:])
    understood = (
        closing.wrong
        or closing.right
        or closing.finds_no_error
        or any(map(LIST_HEAD.match, parts[-CLOSING_SENTENCES:]))
    )
    if len(parts) > SHORT_REPLY_SENTENCES and not understood:
        return None  # verdicts on single steps are no answer if the last sentences are not understood
    if whole.wrong:
        return StatedStep(min(whole.wrong), " ".join(parts)[-MAX_PASSAGE_CHARACTERS:])
    if whole.unplaced_error:
        return None
    if whole.finds_no_error or (len(whole.right) > 1 and whole.right == {*range(1, max(whole.right) + 1)}):
        return StatedStep(0, " ".join(parts)[-MAX_PASSAGE_CHARACTERS:])
    return None
