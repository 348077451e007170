"""Read the first wrong step that a reply names (MathTutorBench mistake location, KMP-Bench error detection).

Mentions of steps are first replaced by marks with their numbers: `⟨2⟩` for one step, `⟨1,2⟩` for several steps, `⟨2|3⟩`
for alternatives. The parser then looks for sentences that state an answer ("So ⟨2⟩.", "Answer: 0"), name the first
error, or call marked steps right or wrong.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from maieutic.graders.evidence import Decision, Evidence, Rank
from maieutic.graders.lexicon import in_english
from maieutic.graders.number_words import ONES
from maieutic.graders.passages import QUOTED_ANSWER, Sentence, is_closing
from maieutic.graders.polarity import clause_polarity, word_verdicts
from maieutic.graders.reading import MAX_PASSAGE_CHARACTERS
from maieutic.graders.verdict_text import decide_reply, prepare_verdict_text, without_other_solutions
from maieutic.graders.words import phrases, without, words

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
JOIN = rf"(?: ?, ?| ?,? ?(?:and|&|or|to|through|until|-) ?(?:{UNIT} ?)?)"
NAMED = re.compile(
    rf"\b{UNIT} ?(?:numbers?|nums?\b|nos?\b\.?)?(?:\n"
    rf"|[ \t\u3000:#(=\[\"'-]*)(?P<list>{STEP_NUMBER}(?:{JOIN}{STEP_NUMBER}\b(?! ?[*/+=×]))*)\b"
    r"(?! ?(?:=|if\b|for\b|means\b|when\b|at a time))[)\]\"']?(?![.,]\d| ?%)"
    r"(?: ?(?:/|of|out of) ?(?:the )?\d{1,3}\b(?: steps)?)?",
    re.IGNORECASE,
)
ROMAN_NAMED = re.compile(rf"\b{UNIT} \(?({'|'.join(ROMAN[1:])})\b(?! ?')", re.IGNORECASE)
ORDINAL_STEP = re.compile(
    rf"\b(?:the )?(?P<nth>{'|'.join(ORDINALS)}|\d{{1,2}}(?:st|nd|rd"
    rf"|th)) (?:\(?and (?:last|final)\)? )?(?:{UNIT}\b|one\W*$)"
    rf"|\bthe (?P<nth2>{'|'.join(ORDINALS[2:])})(?= (?:is|was|isn|has|does|contains)\b)",
    re.IGNORECASE | re.MULTILINE,
)
STEP_IN_PROMPT = re.compile(r"(?:^|\n|\\n) ?Step (\d{1,2})\b")
WRONG_LIST = re.compile(
    r"(\bsteps?\b[^.\n\d]{0,40}\b(?:wrong|incorrect|errors?)\b\W{0,4})(\d{1,2}(?:(?: ?, ?| ?,? and )\d{1,2})+)\b",
    re.IGNORECASE,
)
FIRST_STEPS = re.compile(rf"\bthe first (?P<count>\d{{1,2}}|{'|'.join(WORDS[2:])}) {UNIT}\b", re.IGNORECASE)
OF_A_KIND = re.compile(
    r" (?:that|where|which|in which|with|to|(?:wrong|incorrect|faulty|mistaken)\b"
    r"|of (?:the|this|his|her|their) (?:\w+'s )?(?:solution|work) (?:that|which|where|with))\b",
    re.IGNORECASE,
)
# The 5 in "Steps 1 to 4 are fine, 5 isn't".
NUMBER_AFTER_STEP = re.compile(r"(⟩[^.\n⟨]{0,60}[,;]\s(?:and )?)(\d{1,2})(?= ?(?:is|isn|was|has|contains|does)\b)")
SHORT_NAME = re.compile(r"(?<![\w$])S(\d{1,2})\b(?! ?=)")
LIST_LINE = re.compile(r"^([^\w\n]{0,8})(\d{1,2})([.):](?=\s)|;|(?= ?=>)|(?= [✓✔✅✗✘❌]))", re.MULTILINE)
BRACKETS = str.maketrans("⟨⟩", "()")  # these brackets of a reply are no marks of steps
MARK = re.compile(r"⟨(\d+(?:[,|]\d+)*)⟩")

NONE_WORDS = (
    r"none|n/?a\b(?: ?\(.*)?|zero|no (?:first )?(?:wrong |incorrect )?(?:errors?"
    r"|mistakes?|steps?)\b(?: (?:found|here|detected|made))?"
)
VALUE = (
    rf"(?:⟨(?P<marks>[\d,|]+)⟩|(?P<digits>\d{{1,3}})(?:st|nd|rd|th)?(?![\w%]|[.,/:]\d)"
    rf"|(?P<word>{'|'.join(WORDS)})\b(?! (?:of|error|mistake|step|more)))"
)
QUOTE = r"[\s\"'(\[{)*#>→➡✅\U0001f449=:|•-]*+"
LEAD = (
    r"(?:(?:as far as i (?:can )?(?:tell|see|know)|if i (?:had|have) to [^,\n]{0,40}"
    r"|in|at|to|so|therefore|thus|hence|then|consequently|well|hmm+|and|but|yes"
    r"|right|conclusion|overall|in (?:short|conclusion)|again"
    r"|i(?:'d| would|'m| am)? (?:say|think|guess|believe|go (?:with|for)|choose|answer"
    r"|fairly sure)(?: that)?(?: with)?"
    r"|unless i(?:'m| am) mistaken"
    r"|"
    + words("my (_ )?(guess|answer|reply|verdict|choice|response|conclusion)( is)?|probably|most likely|maybe|possibly")
    + r"|it ?(?:'?s| is"
    r"| should be)"
    r"|i mean(?:t)?|no|number"
    r"|(?:the )?(?:first |final |correct )*(?:"
    + words("answer|verdict|result|number|output|response|reply|tutor|assistant|teacher|a|s")
    + r")(?: (?:is"
    r"|would be|should be"
    r"))?)\b[\s:,;=.>\"'(*-]*+){0,6}"
)
AFTER_STEP = (
    r"(?P<tail>(?<=⟩) ?-\s|[\s\"')\]}*.!-]*$"
    r"|[\"')\]]? ?(?:[,;:(…]|\.\s|(?:- |-?>"
    r"|→)(?! ?\d+ ?[-+*/=×]))"
    r"| (?:because|since|as|where|for|is (?:it|the|where|what)|it is|of \d|out of"
    r"|again|then|that|which|✓|✅|not)\b)"
)
STATED_STEP = re.compile(rf"^{QUOTE}{LEAD}{QUOTE}{VALUE}{AFTER_STEP}", re.IGNORECASE | re.DOTALL)
STATED_NONE = re.compile(rf"^{QUOTE}{LEAD}{QUOTE}(?:{NONE_WORDS}){AFTER_STEP}", re.IGNORECASE | re.DOTALL)
LABEL = (
    r"(?:answer|réponse(?: finale)?"
    r"|"
    + words("jawaban|verdict|conclusion|judge?ment|output|response|reply|result")
    + r"|(?:first|error|wrong|incorrect|mistaken|faulty) ?(?:error|wrong|incorrect|mistake"
    r"|faulty)? ?(?:step|line|error|mistake)?"
    r"(?: ?(?:num(?:ber)?|index|location))?|(?:step|mistake|error) ?(?:num(?:ber)?|no|location|index)?)"
)
MARKED = re.compile(
    rf"(?:^|[\s\"'(\[*#])(?:{LABEL})[\"'\])*]* ?(?:\([^)]*\) ?)?(?:is\b|ist\b|è"
    rf"|é|would be\b|must be\b|should be\b|(?<=\w) ?[:=]|→|->"
    rf"| -)[\s:=]*(?:(?:therefore|thus|hence|then|in|at"
    rf"|probably|found in|now) )*{QUOTE}(?:{VALUE}|(?P<none>{NONE_WORDS})){AFTER_STEP}",
    re.IGNORECASE | re.DOTALL,
)
FIRST = re.compile(
    (
        r"\b(?:first|earliest|initial) (?:\w+ )?(?:\w+ )?(?:"
        + words("wrong|incorrect|erroneous|faulty|flawed|mistaken|error|mistake|slip|one (that|which) (is wrong)")
        + r")\b"
        r"|\bfirst (?:" + words("goes|went|occurs?|appears?|arises?|made|fails?|breaks?|found|introduced") + r")\b"
        r"|\bearli(?:er) (?:one|of)\b|\bfirst (?:one|of them) (?:is )?(?:in|at)\b"
        r"|\b(?:first|earliest)(?: one| of (?:them|those))? (?:is|lies)\b(?= (?:in )?⟨)"
        r"|\bcomes? first\b|\bfirst (?:step|line) (?:that|where|which|with|in which|to)\b"
        r"|\b(?:none|no (?:error"
        r"|mistake|problem|issue)s?) (?:until|before) ⟨"
    ),
    re.IGNORECASE,
)
CONCLUSIONS = (
    re.compile(
        r"(?:[,;.:-] ?|\band |^)(?:so|thus|therefore|hence|i\.e\.)\b[\s,:]*(?:"
        r""
        rf"it(?:'s| is) |in )*{VALUE}\W*$",
        re.IGNORECASE,
    ),
    re.compile(
        rf"(?:(?:→|->|=>|:) ?(?:the )?answer\W{{0,4}}|\b(?:go(?:ing)?|went) with |, i answer ){VALUE}\W*$",
        re.IGNORECASE,
    ),
    re.compile(rf"[;,] ?(?:it(?:'s| is) )?(?:in|at) {VALUE}\W*$", re.IGNORECASE),
    re.compile(rf"^[^\d=*/+]*: ?{VALUE}\W*$", re.IGNORECASE),
)
ENDS_WITH = re.compile(rf"\b(?:is|was|be) (?:in )?{VALUE}\W*$", re.IGNORECASE)
UNDECIDED = re.compile(
    r"\b(?:maybe|possibly|either)\b.*\b(?:maybe|possibly|or)\b"
    r"|\bbetween ⟨[\d,]+⟩|\bhard to (?:say|tell)\b"
    r"|⟩ ?(?:,? ?or|/) ?(?:in )?(?:⟨|\d)"
    r"|\b\d{1,3} ?(?:, ?\d{1,3} ?)?,? or (?:⟨|\d)|^\W*\d ?/ ?\d\W*$",
    re.IGNORECASE,
)
DENIED = re.compile(
    r"(?:(?:, ?)?\(?(?:(?:and|but)\s)?\b(?:not|rather than|instead of|nor|neither|isn't"
    r"|is not|wasn't|and no) (?:(?:yet|just|really) )?(?:in "
    r")?(?:⟨[\d,|]+⟩|\d{1,3}\b)\)?"
    r"(?: ?(?:,|nor|or) ?(?:in )?⟨[\d,|]+⟩)*)(?! ?(?:is|was|are|has|have|holds|contains"
    r"|does|only)\b)",
    re.IGNORECASE,
)
CLAUSE = re.compile(
    (
        r" ?[,;:] | -+>? | ?(?:->|→|=>) ?| \b(?:"
        + words("but|while|although|though|however|because|since|and so|so|yet")
        + r"|and(?= (?:in )?⟨)"
        r"|and(?= (?:the|then|there|all|no|every)\b))\b ?|(?<=[a-z]) ?\((?=\w)"
    ),
    re.IGNORECASE,
)
ELLIPSIS = re.compile(r"\b(?:is|are|does|do|did|was|has|have)(?P<no> ?n't| not)?\W*$", re.IGNORECASE)
POINTS_BACK = re.compile(
    (
        r"^\W*(?:"
        + words(
            "this|that|it|here|there|which|so (this|that|it)|the (step|line)|no (error|mistake|"
            "problem|issue)s?|(in)?correct|wrong|right|error|mistake|ok|fine|true|false|not|valid|"
            "invalid"
        )
        + r")\b|^\W*[✓✔✗✘✅❌]"
    ),
    re.IGNORECASE,
)
EXCEPT = re.compile(
    r"\b(?:except(?: (?:for|in))?|apart from"
    r"|but) (?:in )?⟨([\d,]+)⟩",
    re.IGNORECASE,
)
# Words for parts of a solution. A sentence with one of them is no statement about the whole.
PARTS = words(
    "rest|remain*|others?|otherwise|subsequent|following|later|itself|themselves|arithmetic|"
    "above|preceding|earlier|previous|else|until|except|apart|aside|before|up to|so far|half|"
    "parts?|set-?up|method|approach|idea|final (step|calculation)"
)
OTHER_PARTS = re.compile(rf"\b(?:{PARTS})\b", re.IGNORECASE)
# A solution that is not the subject of its sentence ("the setup of the solution is right").
PART_OF_SOLUTION = phrases("(of|for|in|to|with) (the|this|your|his|her|their) (_('s)? )?(solution|work|answer)")
AGREES = phrases("agree with (the|this|your|his|her|their) (_'s )?(solution|work|answer)")
LIMITED = re.compile(
    (
        rf"\b(?:{PARTS}|"
        + words(
            "but|however|only|although|though|unless|before|up to|so far|if|some|most(ly)?|almost|"
            "nearly|partly|other|claims?|says|thinks|assum_"
        )
        + r")\b"
        r"|\bnot (?:all|every)\b|\bin (?:(?:this|that) (?!solution|work|answer|problem|case)"
        r"|the (?:" + words("first|last|next|multiplication|addition|calculation|subtraction") + r"))\b"
    ),
    re.IGNORECASE,
)
FAULTS = (
    r"(?:"
    + words("errors?|mistakes?|slips?|faults?|flaws?|problems?|issues?|(wrong|incorrect|faulty) (steps?|lines?)")
    + r")"
)
ERROR_FREE = re.compile(
    rf"\b(?:no|zero|0|without(?: any)?|free (?:of|from)(?: any)?"
    rf"|(?:not|\w+n[o']t) (?:\w+ ){{0,2}}?(?:an?|any|one)(?: single)?)"
    rf" (?:(?!the\b|his\b|her\b|their\b|this\b|that\b)\w+ ){{0,3}}?{FAULTS}\b|\berror-free\b"
    r"|\bno (?:\w+ )?(?:steps?|lines?)\b[^.;:]{0,30}\b(?:wrong|incorrect|faulty|errors?|mistakes?)\b"
    r"|\b(?:nothing|none|never|neither)\b[^.;:]{0,40}\b(?:wrong|incorrect|faulty|errors?|mistakes?)\b",
    re.IGNORECASE,
)
NOTHING_TO_CORRECT = phrases(
    "nothing (to (correct|fix|change|improve)|wrong)|(no|none|nothing|*n[o']t an?y?( single)?)…"
    "need(s|ed)? (to be )?(correct|fix|chang)*"
)
EXCEPTION = phrases("except|(apart|aside) from")
RIGHT_WORDS = r"(?:" + words("correct|right|true|fine|ok|okay|good|valid|sound|accurate|perfect|error-free") + r")"
BE_RIGHT = rf"(?:is|are|was|appears?)(?: (?:\w+ly|all|quite|indeed|therefore|thus))* {RIGHT_WORDS}\b"
# Subjects that stand for the whole solution. A pronoun stands for a step if a step was named before.
WHOLE = re.compile(
    r"\b(?:all|every|each|both)(?: of)? (?:(?:the|his|her|their|your|those|\w+'s|\d+|\w+) ){0,3}?(?:steps?|lines?"
    r"|calculations?|parts?|them|it)\b|\b(?:everything|they all|all (?:of )?\d+)\b"
    r"|^\W*all (?:correct|right|good|fine)\b"
    r"|\bis all\b|\b(?:in|at) (?:any|every|each)\b|\banywhere\b"
    rf"|\b(?:solution|work|answer)(?: as a whole)? (?:{BE_RIGHT}|holds)"
    r"|\bsolved (?:it|this|that|everything|the (?:\w+ )?problem)\b|\b(?:fully) (?:correct|right)\b"
    r"|\bcorrect (?:solution(?! ?:))\b",
    re.IGNORECASE,
)
# A statement about the step that was named before ("No problem here.").
ABOUT_STEP_BEFORE = re.compile(r"\b(?:here|it|this|that)\b|^\W*(?:\w+\W+){1,3}$", re.IGNORECASE)
WHOLE_PRONOUN = re.compile(
    rf"\b(?:it|he|she|they|student|reasoning|calculations?) (?:{BE_RIGHT})|^\W*(?:all )?(?:correct|right)\W*$",
    re.IGNORECASE,
)


SINGLES_OUT = phrases(
    "first|off|rails|slip*|leaves|report|enter|record*|busted|point|culprit|trouble|starts?|redo|go back"
)
REPORTS = phrases("answer|report|record*|enter|verdict|step number|number (to)|stays?")


class StepsShown(NamedTuple):
    """Number of steps of a solution that the prompt shows.

    most: larger than `shown` if a variant of the prompt shows further steps.
    """

    shown: int
    most: int


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


def step_number(written: str) -> int:
    """Return the number of a step written in digits or as a word."""
    written = written.casefold()
    return WORDS.index(written) if written in WORDS else int(written)


def mark_of_steps(numbers: str) -> str:
    """Return the mark for a list of steps: ⟨1,2,3⟩ for "1 to 3" and "1, 2 and 3", ⟨1|2⟩ for "1 or 2"."""
    steps = [step_number(word) for word in re.findall(STEP_NUMBER, numbers, re.IGNORECASE)]
    if re.search(r"\bor\b", numbers, re.IGNORECASE):
        return f"⟨{'|'.join(map(str, steps))}⟩"
    if len(steps) == 2 and re.search(r"to|through|until|-", numbers) and steps[0] < steps[1]:
        steps = [*range(steps[0], steps[1] + 1)]
    return f"⟨{','.join(map(str, steps))}⟩"


def prepare_step_reply(text: str) -> str:
    """Return a reply with its fields as lines and its mentions of steps as marks (⟨2⟩)."""
    return mark_steps(in_english(without(QUOTED_ANSWER, prepare_verdict_text(text))).translate(BRACKETS))


def mark_steps(text: str) -> str:
    """Replace the mentions of steps in a text by marks (⟨2⟩)."""
    text = WRONG_LIST.sub(mark_wrong_list, text)
    text = FIRST_STEPS.sub(mark_first_steps, text)
    text = ORDINAL_STEP.sub(lambda match: match[0] if is_first_of(match) else mark_nth(match), text)
    text = NAMED.sub(lambda match: mark_of_steps(match["list"]), ROMAN_NAMED.sub(lambda match: mark_roman(match), text))
    text = NUMBER_AFTER_STEP.sub("\\1⟨\\2⟩", text)
    text = SHORT_NAME.sub(lambda match: f"⟨{int(match[1])}⟩", text)
    if len(LIST_LINE.findall(text)) > 1:
        text = LIST_LINE.sub(lambda match: f"{match[1]}⟨{match[2]}⟩:", text)
    return text


def mark_first_steps(match: re.Match[str]) -> str:
    """Return the mark for "the first two steps"."""
    return mark_of_steps(f"1 to {step_number(match['count'])}")


def mark_wrong_list(match: re.Match[str]) -> str:
    """Return "steps are wrong: 6, 4 and 2" with its numbers as a mark."""
    return f"{match[1]}⟨{','.join(re.findall('[0-9]+', match[2]))}⟩"


def is_first_of(match: re.Match[str]) -> bool:
    """Return True if "the first step" does not mean step 1, because a condition follows it ("that is wrong")."""
    before, after = match.string[: match.start()], match.string[match.end() :]
    return (
        (match["nth"] or match["nth2"]).casefold() in ("first", "1st")
        and OF_A_KIND.match(after) is not None
        and not re.search(r"\bit(?:'s| is) ?$", before, re.IGNORECASE)
    )


def mark_nth(match: re.Match[str]) -> str:
    """Return the mark for a step named by an ordinal ("the second step")."""
    nth = (match["nth"] or match["nth2"]).casefold()
    return f"⟨{ORDINALS.index(nth) if nth in ORDINALS else int(re.sub(r'[^0-9]', '', nth))}⟩"


def mark_roman(match: re.Match[str]) -> str:
    """Return the mark for a step named by a Roman numeral ("step II")."""
    return f"⟨{ROMAN.index(match[1].casefold())}⟩"


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


def sentence_evidence(sentence: Sentence, place: SentencePosition) -> Evidence[int] | None:
    """Return the strongest evidence of one sentence for the first wrong step, or None."""
    text, bare = sentence.text, without(DENIED, sentence.text).strip()
    named = marked_steps(bare)
    undecided = is_undecided(bare)
    if place.last and CANNOT_SAY.search(bare):
        return Evidence(Rank.CONCLUSION, None, text)
    if undecided and (place.last or len(set(named)) > 1):
        return Evidence(Rank.CONCLUSION if place.last else Rank.STATEMENT, None, text)
    if place.listed and (head := LIST_HEAD.match(bare)):
        return Evidence(Rank.CONCLUSION, marked_steps(head[0])[0], text) if FLAGGED_FIRST_ERROR.search(bare) else None
    if sentence.alone and (match := FIELD.search(bare)):
        return Evidence(Rank.FIELD, None if undecided else step_in_match(match), text)
    if place.listed and STEP_LINE.match(bare) and word_verdicts(STEP_LINE.sub("", bare)):
        return None
    for match in reversed(list(MARKED.finditer(bare))):
        if is_admissible(match, bare, place):
            rank = (
                Rank.MARK
                if not NAMES_SLOT.search(match[0])
                else Rank.FIELD
                if FIELD_SIGN.search(match[0])
                else Rank.CONCLUSION
            )
            return Evidence(rank, None if undecided else step_in_match(match), text)
    match = STATED_STEP.match(bare)
    several = match and match["marks"] and not match["marks"].isdigit() and word_verdicts(bare[match.end() :])
    if match and not several and is_admissible(match, bare, place):
        rest, value = bare[match.end() :], None if undecided else step_in_match(match)
        stated = rank_of_stated(sentence, place, rest)
        if stated is not None:
            return Evidence(stated, None if contradicts(value, rest) else value, text, place.first)
    match = None if named else STATED_NONE.match(bare)
    stated = rank_of_stated(sentence, place, bare[match.end() :]) if match else None
    if stated is not None:
        return Evidence(stated, 0, text, place.first)
    if FIRST.search(bare):
        if (match := ENDS_WITH.search(bare)) and step_in_match(match) is not None:
            return Evidence(Rank.CONCLUSION, step_in_match(match), text)
        if named or (place.before and POINTS_BACK.match(bare)):
            several = undecided or "|" in "".join(MARK.findall(bare))
            return Evidence(
                Rank.CONCLUSION, None if several else step_nearest_first_error(bare, named or place.before), text
            )
    for pattern in CONCLUSIONS if place.last else CONCLUSIONS[:2]:
        if (match := pattern.search(bare)) and step_in_match(match) is not None:
            return Evidence(Rank.CONCLUSION, step_in_match(match), text)
    if whole_is_right(bare, bool(place.before)):
        return Evidence(Rank.CONCLUSION, 0, text)
    return singled_out_step(bare) if place.last else None


def contradicts(value: int | None, sentence: str) -> bool:
    """Return True if a sentence calls another step wrong than the one that it begins with, or calls that step right."""
    if re.search(r"\b(?:would|if)\b", sentence, re.IGNORECASE):
        return False
    if value and whole_is_right(sentence):
        return True
    stated = collect_step_verdicts([sentence])
    return value in stated.right or (value == 0 and bool(stated.wrong))


def contrasts_steps(sentence: str) -> bool:
    """Return True if a sentence names several steps in contrast ("not step 4 but step 3"), so that words mislead."""
    sentence = without(DENIED, sentence)
    return (
        len(set(marked_steps(sentence))) > 1
        and CONTRAST.search(sentence) is not None
        and False not in word_verdicts(sentence)
    )


def is_undecided(sentence: str) -> bool:
    """Return True if a sentence names alternatives ("2 or 3") instead of one step."""
    named = set(marked_steps(sentence))
    return (
        len(named) != 1
        and (bool(named) or len(sentence.split()) <= MOST_WORDS_OF_VALUE)
        and bool(UNDECIDED.search(sentence))
    )


def rank_of_stated(sentence: Sentence, place: SentencePosition, rest: str) -> Rank | None:
    """Return the rank of a sentence that begins with a step, or None for a step in the middle of a reply."""
    if sentence.alone and not re.search(r"\w", rest):
        return Rank.MARK if sentence.text.startswith("####") else Rank.LINE
    if place.first:
        return Rank.OPENING
    bare = place.among_last and not place.listed and not re.search(r"\w", rest)
    return Rank.CONCLUSION if place.last or bare else None


def singled_out_step(sentence: str) -> Evidence[int] | None:
    """Return the only step that a last sentence blames ("it goes off the rails in step 3"), or None."""
    named, digits = (
        set(marked_steps(sentence)),
        re.findall(r"(?<![\d.,])\d+(?![\d%]|[.,]\d| (?!my\b|the\b|your\b|as\b)\w)", MARK.sub(" ", sentence)),
    )
    if "=" in sentence or False in word_verdicts(sentence) or not re.search(r"[.!)\"*]\W*$", sentence):
        return None
    if len(named) == 1 and SINGLES_OUT.search(sentence):
        return Evidence(Rank.CONCLUSION, min(named), sentence)
    if not named and len(digits) == 1 and int(digits[0]) <= MAX_STEP_NUMBER and REPORTS.search(sentence):
        return Evidence(Rank.CONCLUSION, int(digits[0]), sentence)
    return None


def is_admissible(match: re.Match[str], sentence: str, place: SentencePosition) -> bool:
    """Return True if a match is an answer, rather than a count, a number in the problem, or a step called right."""
    if match.groupdict().get("none"):
        return True
    if match["digits"] and not (place.first or place.among_last or re.fullmatch(r"\W*\d+\W*", sentence)):
        return False  # the number is quoted from the problem or from the student's work
    if match["digits"]:
        return int(match["digits"]) <= MAX_STEP_NUMBER
    rest = sentence[match.end("marks") :] if match["marks"] else ""
    if (match["tail"] or "").strip()[:1] == "," and not (place.first or place.last):
        return False
    return False not in word_verdicts(rest)


def step_nearest_first_error(sentence: str, named: Sequence[int]) -> int | None:
    """Return the step that is closest to the sentence's words for the first error, or None if several may be meant.

    named: steps in the sentence.
    """
    if len(set(named)) == 1:
        return named[0]
    first = FIRST.search(sentence)
    assert first is not None
    clauses = [part for part in CLAUSE.split(sentence) if part and FIRST.search(part) and MARK.search(part)]
    if clauses:
        return marked_steps(clauses[-1])[0]
    after = MARK.search(sentence, first.end())
    return int(re.split(r"[,|]", after[1])[0]) if after else None


def marked_steps(text: str) -> list[int]:
    """Return the numbers of all marked steps of a text, in order."""
    return [int(number) for marks in MARK.findall(text) for number in re.split(r"[,|]", marks)]


def whole_is_right(sentence: str, steps_before: bool = False) -> bool:
    """Return True if a sentence calls the whole solution free of errors. A part never stands for the whole.

    steps_before: True if an earlier sentence names a step, to which a pronoun may refer.
    """
    if marked_steps(sentence):
        return False
    if NOTHING_TO_CORRECT.search(sentence):
        return True
    if LIMITED.search(sentence) or (verdicts := set(word_verdicts(sentence))) - {False}:
        return False
    if ERROR_FREE.search(sentence):
        return not steps_before or not ABOUT_STEP_BEFORE.search(sentence) or WHOLE.search(sentence) is not None
    if AGREES.search(sentence):
        return verdicts == {False}
    sentence = without(PART_OF_SOLUTION, sentence)
    return bool(verdicts) and bool(WHOLE.search(sentence) or (not steps_before and WHOLE_PRONOUN.search(sentence)))


# A line that is only a label of the asked slot and its value ("First error step: 3").
FIELD = re.compile(
    (
        r"(?:^|[|;] ?)[^\w⟨]*(?:(?:"
        + words("the|student'?s?|first|earliest|initial|location|number|index|step|line|of")
        + r") )*(?:error|mistake|wrong|incorrect|faulty) (?:\w+ )?(?:\([^)\n]*\) ?)?"
        rf"(?:\W*(?=⟨)|\W{{0,4}}[:=]\W*)(?:{VALUE}|(?P<none>{NONE_WORDS}))\W*$"
    ),
    re.IGNORECASE,
)
FIELD_SIGN = re.compile(r"[:=→]|->")
# Labels that name the asked slot, such as "first error step".
NAMES_SLOT = phrases("first|error|wrong|incorrect|mistaken?|faulty|step|line")
FLAGGED_FIRST_ERROR = re.compile(
    r"(?:[(←⬅,-]|<-+|<=+) ?(?:this is )?(?:the )?(?:very )?first (?:error|mistake|wrong|incorrect)\b",
    re.IGNORECASE,
)
STEP_LINE = re.compile(r"^\W*⟨\d+⟩")
LIST_HEAD = re.compile(r"^\W*⟨\d+⟩ ?(?:[:;(]|- |[✓✔✗✘✅❌])")
MOST_WORDS_OF_VALUE = 12  # a longer sentence without a step does not state alternatives
CLOSING_SENTENCES = 3  # a bare number can be the answer only in this many sentences at the end of a reply
CANNOT_SAY = phrases(
    "(can(not|'t)|(not |un)able to|(impossible|hard) to) (_ )?"
    "(tell|say|decide|determine|judge|know|name|see|grade|help|answer)|may or may not|"
    "leave (the question|it|this|that) open|would need more|before i (name|answer|say|finish)|(do not|don't) know"
)
NO_STATEMENT = re.compile(r"\?|^\W*(?:i )?hope\b", re.IGNORECASE)
OTHER_STEPS = re.compile(
    (r"^\W*(?:and )?(?:" + words("everything|anything|all|what|the (rest|other|steps?|lines?|work)") + r")\b"),
    re.IGNORECASE,
)
ALSO = phrases("as well|too|also")


# A step that is wrong because of an earlier one.
CONTRAST = phrases("but|unlike|only because|this time|comes? from")
CONSEQUENCE = re.compile(
    r"\bfrom ⟨[\d,]+⟩ on|\b(?:builds?|built|inherits?)\b",
    re.IGNORECASE,
)


def continues_list(parts: Sequence[str]) -> bool:
    """Return True if the last sentence is the next step in a list of steps."""
    heads = [int(marked_steps(match[0])[0]) for part in parts if (match := STEP_LINE.match(part))]
    return len(heads) > 1 and bool(STEP_LINE.match(parts[-1])) and heads[-2] < heads[-1]


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
    for sentence in (without(DENIED, part) for part in parts):
        if (left_out := EXCEPT.search(sentence)) and clause_polarity(without(EXCEPT, sentence)) is False:
            wrong |= {int(number) for number in left_out[1].split(",")}
            continue
        heads = LIST_HEAD.match(sentence)
        for clause in clauses_of(sentence):
            steps, verdict = marked_steps(clause), clause_polarity(clause)
            if heads and steps and re.search(r"\w", MARK.sub("", clause)):
                steps = marked_steps(heads[0])
            if steps and verdict is False and EXCEPTION.search(sentence):
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
                nothing = nothing or (whole_is_right(clause) and not EXCEPTION.search(sentence))
            elif len(set(marked_steps(sentence))) == 1 and False not in word_verdicts(sentence):
                wrong.update(marked_steps(sentence))
            else:
                doubt = True
    return StepVerdicts(wrong, right - wrong, nothing, doubt)


def clauses_of(sentence: str) -> Iterator[str]:
    """Yield the clauses of a sentence."""
    yield from (part for part in CLAUSE.split(sentence) if part and part.strip())


def steps_shown(variables: Mapping[str, str]) -> StepsShown | None:
    """Return the numbers of steps in a prompt's variables, or None if none of them is a list of numbered steps."""
    counts = [count for text in variables.values() if (count := numbered_steps(text)) > 1]
    return StepsShown(min(counts), max(counts)) if counts else None


def numbered_steps(text: str) -> int:
    """Return the number of steps in a text that consists of "Step 1", "Step 2" and so on, or 0."""
    count = 0
    for match in STEP_IN_PROMPT.finditer(text):
        if int(match[1]) == count + 1:
            count += 1
    return count


def read_step(text: str, steps: StepsShown | None = None) -> Decision[int]:
    """Return the first wrong step that a reply names (0: no error) and its sentence.

    steps: number of steps that the prompt shows, if known. Larger values are no evidence, and a reply that calls all
    of these steps right states that there is no error.
    """
    return decide_reply(text, prepare_step_reply, lambda parts: step_evidence(parts, steps))


def closing_states_answer(closing: str) -> bool:
    """Return True if a sentence that reads like a closing states the answer ("Great job, every step is correct!")."""
    if (label := STATED_STEP.match(closing)) and label["marks"] and re.search(r"\w", closing[label.end() :]):
        return True
    return not NO_STATEMENT.search(closing) and (
        whole_is_right(closing) or (bool(FIRST.search(closing)) and len(marked_steps(closing)) == 1)
    )


def concerns_other_steps(sentence: str) -> bool:
    """Return True if a sentence only calls other steps right ("Everything above it is fine")."""
    limited = LIMITED.search(sentence) and not marked_steps(sentence) and not FIRST.search(sentence)
    return bool(limited) and {*word_verdicts(sentence)} == {False} and OTHER_STEPS.match(sentence) is not None


def step_evidence(parts: list[Sentence], steps: StepsShown | None) -> list[Evidence[int]]:
    """Return the evidence of a reply's sentences for the first wrong step. steps: number of steps that were shown."""
    parts = [part for part in parts if not is_closing(part.text) or closing_states_answer(part.text)]
    parts = without_other_solutions(
        parts, lambda sentence: bool(FIELD.search(sentence) or MARKED.search(sentence) or FIRST.search(sentence))
    )
    while len(parts) > 1 and concerns_other_steps(parts[-1].text):
        parts = parts[:-1]
    texts = [part.text for part in parts]
    listed = sum(map(bool, map(LIST_HEAD.match, texts))) > 1 or sum(map(bool, map(STEP_LINE.match, texts))) > 2
    befores = [list[int]()]
    for text in texts:
        befores.append(marked_steps(text) or befores[-1])
    evidence = []
    for place, part in enumerate(parts):
        position = SentencePosition(
            place == 0, place == len(parts) - 1, place >= len(parts) - CLOSING_SENTENCES, listed, befores[place][-1:]
        )
        if piece := sentence_evidence(part, position):
            following = collect_step_verdicts(texts[place + 1 : place + 2])
            refuted = piece.rank != Rank.STATEMENT and (
                bool(following.wrong) if piece.value == 0 else piece.value in following.right and not following.wrong
            )
            evidence.append(piece._replace(value=None) if refuted else piece)
    evidence = [
        piece for piece in evidence if piece.value is None or piece.value <= (steps.most if steps else MAX_STEP_NUMBER)
    ]
    if (
        texts
        and not evidence
        and not contrasts_steps(texts[-1])
        and (blamed := collect_step_verdicts(texts[-1:]).wrong)
        and not continues_list(texts)
        and not ALSO.search(texts[-1])
        and not CONSEQUENCE.search(texts[-1])
    ):
        evidence.append(Evidence(Rank.CONCLUSION, min(blamed), texts[-1]))
    if not evidence and any(contrasts_steps(part) for part in texts):
        return [Evidence(Rank.STATEMENT, None, texts[-1])]
    whole = collect_step_verdicts(texts)
    passage = " ".join(texts)[-MAX_PASSAGE_CHARACTERS:]
    if whole.wrong:
        evidence.append(Evidence(Rank.STATEMENT, min(whole.wrong), passage))
    elif whole.unplaced_error:
        evidence.append(Evidence(Rank.STATEMENT, None, passage))
    elif whole.finds_no_error or all_steps_right(whole.right, steps):
        evidence.append(Evidence(Rank.STATEMENT, 0, passage))
    return evidence


def all_steps_right(right: set[int], steps: StepsShown | None) -> bool:
    """Return True if these are all steps of a solution. steps: their number, or None if it is not known."""
    if steps is None:
        return len(right) > 1 and right == {*range(1, max(right) + 1)}
    return right >= {*range(1, steps.shown + 1)}
