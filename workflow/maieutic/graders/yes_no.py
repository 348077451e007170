"""Read whether a reply calls a solution incorrect (MathTutorBench solution correctness: "Yes" means incorrect)."""

from __future__ import annotations

import re
from typing import NamedTuple

from maieutic.graders.passages import BREAKS_OFF, is_closing, sentences
from maieutic.graders.polarity import word_verdicts
from maieutic.graders.reading import MAX_PASSAGE_CHARACTERS
from maieutic.graders.verdict_text import prepare_verdict_text, sentences_after_withdrawals

YES = r"(?:yes|yeah|yep|yup|yea|aye|y|affirmative|absolutely|definitely|certainly|indeed)"
NO = r"(?:no|nope|nah|n|negative|(?:absolutely|definitely|certainly)\s+not|not\s+at\s+all|of\s+course\s+not)"
SURE = (
    r"(?:absolutely|definitely|certainly|clearly|of\s+course|surely|probably|most\s+likely|likely|oh"
    r"|well|simply|just|a|an|clear|firm|plain|resounding)"
)
# A yes or no that is a verdict. "no.1" is excluded here, "no errors" by `is_label`, and "yes and no" by BOTH.
LABEL = rf"(?:{SURE}[\s,]+)*(?P<{{name}}>{NO}|{YES})\b(?!\s*(?:\.\s?\d|\d)|['\u2019]\w)"
QUOTE = r"[\s\"'(\[{\u201c\u2018\u00ab*#>=:|\u2022\u2013\u2014\u2192\u27a1\U0001f449-]*+"
LEAD = (
    r"(?:(?:so|therefore|thus|hence|then|consequently|finally|ok(?:ay)?|well|hmm+|and|but|conclusion"
    r"|bottom\s+line|long\s+story\s+short|tl;?\s?dr|to\s+sum\s+up|all\s+in\s+all|all\s+told|in\s+the\s+end"
    r"|overall|in (?:short|summary|conclusion|one word)|again|i repeat|i mean(?:t)?|make (?:it|that)"
    r"|i(?:'d| would|'m| am| have to)?\s+(?:say|answer\s+with|choose|think|guess|believe|go\s+(?:with"
    r"|for)|choose|answer|conclude|settle\s+on|lean\s+towards?|correct myself)(?:\s+that)?"
    r"|(?:as|for)\s+(?:my|the)\s+answer|(?:in my (?:opinion|view))|(?:if i had to [^,\n]{0,40}"
    r"|as far as i can tell|to be honest)"
    r"|my\s+(?:\w+\s+)?(?:guess|answer|reply|verdict|choice|response|conclusion|opinion"
    r"|judge?ment)(?:\s+is|\s+would\s+be)?"
    r"|it(?:'s| is| must be| would be)|that(?:'s| is| would be)|this is"
    r"|(?:the\s+)?(?:\w+\s+)?(?:answer|verdict|result|output|response|reply|label|tutor|assistant"
    r"|teacher|a|s|ans)(?:\s+(?:is|would\s+be|should\s+be|must\s+be|remains|to\s+(?:the"
    r"|your)\s+question\s+is))?|(?:clearly|now|still|simply|likely|probably"
    r"|most likely))\b[\s:,;=.\u2013\u2014>\"'(*-]*+){0,6}"
)
BARE_LABEL = re.compile(rf"^{QUOTE}{LEAD}{QUOTE}{LABEL.format(name='label')}(?P<rest>.*)$", re.IGNORECASE | re.DOTALL)
MARKED = re.compile(
    rf"\b(?:answer|verdict|conclusion|judge?ment|output|response|reply|label|r\u00e9ponse|respuesta"
    rf"|antwort|resposta|jawaban|risposta|result)\b(?:\s+(?:finale?|to\s+(?:the|this|your)\s+question"
    rf"|here|therefore|\([^)\n]{{0,60}}\)))*\s*(?:[:=\u2192]|->|\bis\b|\bwould\s+be\b"
    rf"|\bis\s+therefore\b)+\s*{QUOTE}(?:therefore|thus|then|clearly|simply|now|still"
    rf"|a)?\s*{QUOTE}{LABEL.format(name='label')}",
    re.IGNORECASE,
)
ENDING_LABEL = re.compile(
    rf"(?:[,;:\u2013\u2014\u2192-]|\b(?:so|therefore|thus|hence|then|is|be|answer|say|said|reply|with"
    rf"|think|conclude|but|rather|to)\b)\s*{QUOTE}{LABEL.format(name='label')}[\W_]*$",
    re.IGNORECASE,
)
CONCLUDES = re.compile(
    rf"\b(?:so|therefore|thus|hence|answer\s+is|i\s+(?:say|answer|conclude|choose|think)|to\s+(?:say"
    rf"|answer|reply)|go\s+with|make\s+it|it's\s+a"
    rf"|is\s+a)\b[\s,:]*{QUOTE}{LABEL.format(name='label')}[\W_]*$",
    re.IGNORECASE,
)
ANSWERED_QUESTION = re.compile(
    rf"^(?P<question>.{{0,300}}?)(?:\?|\(correct\)(?:\s+only)?|[:=])[\"'\u201d)*\s]*(?:(?:the\s+"
    rf"|my\s+)?(?:answer|a)\s*(?:is)?[:=]?\s*)?{QUOTE}{LABEL.format(name='label')}[\W_]*(?:$|[.,;(]"
    rf"|because|since)",
    re.IGNORECASE | re.DOTALL,
)
BOTH = re.compile(
    r"\byes\b(?:\s*\([^)\n]{0,20}\))?\s*or\s+no\b(?:\s*\([^)\n]{0,20}\))?(?:\s+only)?"
    r"|\byes\b[^.\n]{0,12}?(?:/|\bor\b|\band\b|\||,(?=\s*[\"']?no\W*$)|,\s*(?:maybe|perhaps)"
    r"|\bnor\b)\s*[\"']?\bno\b|\bno\b[^.\n]{0,6}?(?:/|\bor\b|\band\b|\bnor\b)\s*[\"']?\byes\b"
    r"|\bmaybe\b|\bit depends\b",
    re.IGNORECASE,
)
DENIED = re.compile(
    r"(?:[,(]\s?)?(?:\band\s+|\bbut\s+)?\b(?:not|rather\s+than|instead\s+of|isn[\u2019']t|(?:mistake"
    r"|wrong|tempting|easy)\s+to\s+say)\s+[\"'\u201c]?(?:yes|no)\b[\"'\u201d]?(?:\s+here)?\)?"
    r"|[;,]\s*[\"'\u201c]?(?:yes|no)[\"'\u201d]?\s+(?:would|is)\s+(?:be\s+)?(?:a\s+)?(?:misjudge\w*"
    r"|mistake|wrong|incorrect)\b[^.]*",
    re.IGNORECASE,
)
AFFIRMS = re.compile(
    rf"^\W*{YES}\W+(?:really|exactly|that'?s? (?:it|all|right)|sure|of course|i'?m sure)\W*$", re.IGNORECASE
)
QUOTED = re.compile(r"[\"\u201c][^\"\u201d\n]{0,200}[\"\u201d]")
OWN_QUOTE = re.compile(rf"[\"\u201c']\s*(?:{YES}|{NO})\s*[.!]?\s*[\"\u201d']", re.IGNORECASE)
SUBJECT = (
    r"(?:solution|work|answer|response|reasoning|calculations?|everything|(?<!\w)its?|that|this|he|she"
    r"|they|student|you(?:'ve|\s+have)?\s+(?:solved|worked|done|got|did)|approach|attempt|all\s+(?:of\s+)?(?:the\s+)?(?:\d+\s+)?steps?|every\s+step"
    r"|each\s+step|steps)"
)
ABOUT_WHOLE = re.compile(
    rf"\b{SUBJECT}\b|^\W*(?:not\s+)?(?:in)?correct\W*$|^\W*(?:wrong|not\s+(?:quite\s+)?(?:correct|right))\W*$"
    rf"|\bthere\s*(?:'s|\s+is|\s+are|\s+was|\s+were|\s+isn|\s+aren)|\b(?:error|mistake)s?\s+(?:in"
    rf"|at)\s+step|\b(?:no|any|an?)\s+(?:errors?|mistakes?)\b|\berrors?\s+found\b"
    rf"|\bnothing\s+(?:is\s+)?wrong\b|\bstep\s+\d+\s+(?:is|has|contains)\b",
    re.IGNORECASE,
)
ABOUT_PART = re.compile(
    r"\b(?:in|at|of|until|up\s+to|through)\s+(?:steps?|lines?|parts?|the\s+(?:first|second|third|last"
    r"|next|addition|multiplication|calculation|sum|division))\b|\bsteps?\s+\d|\bit\s+is\s+(?:correct"
    r"|right|true)\s+that\b|\bso\s+far\b|\bif\b|\bwould\b|\bwhether\b|\bnot\s+sure\b"
    r"|\bthe\s+only\s+thing\b|\buntil\b|\blooks?\s+(?:wrong|odd)\b",
    re.IGNORECASE,
)
NOT_SURE = re.compile(
    r"\b(?:whether|not\s+sure|can(?:no|['\u2019])t\s+(?:tell|say|decide|judge)|unclear|would\s+be"
    r"|could\s+be|may\s+be|might\s+be|don[\u2019']t\s+know|if|unless|otherwise"
    r"|should\s+be\s+checked)\b",
    re.IGNORECASE,
)


UNDECIDED = re.compile(
    r"\bit\s+depends\b|\bmay\s+or\s+may\s+not\b|\bleave\s+(?:the\s+question|it|this|that)\s+open\b|\bcould\s+be\s+yes\b.*\bcould\s+be\s+no\b|\b(?:can(?:not|'t)|unable\s+to"
    r"|not\s+able\s+to)\s+(?:tell|say|decide|judge|determine)\b",
    re.IGNORECASE,
)
INNER_LABEL = re.compile(rf"\b(?:but|so|and|then)[\s:]+(?=(?:{NO}|{YES})\s*,\s)", re.IGNORECASE)
CLAIM = re.compile(
    r"^\W*(?:the\s+|this\s+)?(?:claim|statement|assertion)\s+that\s+(?P<claim>.+?)\s+is\s+(?:\w+ly\s+)?"
    r"(?P<verdict>true|false|wrong|correct|incorrect|right|untrue)\W*$",
    re.IGNORECASE,
)
NO_STATEMENT = re.compile(r"\?|^\W*(?:i\s+)?hope\b", re.IGNORECASE)
SOLUTION_NAMED = re.compile(
    r"\b(?:solution|(?:your|this|the)\s+(?:\w+\s+)?(?:work|answer))\b"
    r"|\byou(?:'ve|\s+have)?\s+(?:solved|got)\s+(?:it|this|that|everything|the\s+problem)\b",
    re.IGNORECASE,
)
CLOSING_VERDICT_SENTENCES = 2  # number of sentences at the end of a reply in which a verdict may be inside the sentence
REPORTED = re.compile(
    r"\b(?:answer|report|stand\s+by|enter|reply|verdict|record(?:ed)?|settle\s+on|stays?|remains?)\b[\s,:]*(?:with|is|as|a|an)?[\s\"'*]*"
    rf"({NO}|{YES})(?![\w'])(?!\s+(?:error|mistake|step|problem|doubt)s?\b)",
    re.IGNORECASE,
)
SOLUTION_IS = re.compile(
    r"\bsolution(?:\s+as\s+a\s+whole)?\s+(?:is|was|isn't)\s+(?:\w+\s+)?(?:incorrect|correct|wrong|right|not\s+(?:correct|right))\b",
    re.IGNORECASE,
)
MAX_WORDS_AFTER_LABEL = 4  # up to this many words may follow a label without being a reason for it


class LabelVerdict(NamedTuple):
    """Verdict on a solution, with the sentence that states it.

    incorrect: True if the solution is called incorrect, None if the verdict is contradictory or undecided.
    """

    incorrect: bool | None
    text: str


SYMBOL = re.compile(
    r"[\u2600-\u27bf\u2b00-\u2bff\U0001f000-\U0001faff]|\[(?=[A-Za-z ]{1,20}\])|(?<=[A-Za-z])\](?=\s*\S)"
)
WORD_LABEL = re.compile(
    r"\b(?:mark(?:ing|s)?|grad(?:e|ing)|outcome|finding|decision|verdict|status|assessment|judge?ment|label|answer|conclusion|result|evaluation|solution"
    r"|overall)\W*[:=\u2192]\W*"
    r"(?P<verdict>(?:not\s+|in)?(?:quite\s+)?(?:correct|right|wrong|valid|accurate))\b[\W_]*(?:$|[.,;(])",
    re.IGNORECASE,
)
KEY = re.compile(
    r"^\W*(?:is\s+)?(?:the\s+)?(?:student'?s?\s+)?(?:solution\s+)?(?:is\s+)?(?P<key>(?:in"
    r"|not\s+)?correct(?:ness)?|wrong|right|has\s+(?:an?\s+)?(?:error|mistake)s?|errors?"
    r"|mistakes?)\W*[:=?]\W*(?P<value>true|false|yes|no)\W*$",
    re.IGNORECASE,
)


def is_yes(word: str) -> bool:
    """Return True if a label means yes."""
    return re.fullmatch(YES, word, re.IGNORECASE) is not None


def prepare_yes_no_reply(text: str) -> str:
    """Return a reply with its fields as lines, without symbols such as emoji, and without brackets around labels."""
    return SYMBOL.sub(" ", prepare_verdict_text(text)).replace("\u2019", "'")


def read_yes_no(text: str) -> tuple[bool, str] | None:
    """Return the verdict of a reply (True: the solution is incorrect) and its sentence, or None without a verdict.

    The last sentence with a verdict decides. Withdrawn text and closings (offers, questions, checks) are ignored. A
    verdict is a label ("Yes", "Answer: no", "so the answer is yes"), a repeated question with a label ("Correct? No"),
    or a statement about the whole solution. A label that contradicts the statement after it is not a verdict.
    """
    cleaned = prepare_yes_no_reply(text)
    if BREAKS_OFF.search(cleaned):
        return None
    for parts in sentences_after_withdrawals(cleaned):
        if answer := verdict_of_sentences(parts):
            return None if answer.incorrect is None else (answer.incorrect, answer.text[:MAX_PASSAGE_CHARACTERS])
    return None


def last_solution_verdict(text: str) -> bool | None:
    """Return the verdict of the last statement that names the solution (True: incorrect), or None without a verdict."""
    statements = [solution_sentence_verdict(sentence) for sentence in sentences(prepare_yes_no_reply(text))]
    return next((verdict.incorrect for verdict in reversed(statements) if verdict is not None), None)


def verdict_of_sentences(parts: list[str]) -> LabelVerdict | None:
    """Return the last plain label or the verdict of the last sentence. If neither exists, return the first label."""
    parts = join_questions([part for part in parts if not AFFIRMS.match(part)])
    parts = [
        part
        for part in parts
        if not is_closing(part) or plain_label_value(part) is not None or closing_states_verdict(part)
    ] or parts
    last = len(parts) - 1
    contradiction: LabelVerdict | None = None
    for place, sentence in reversed(list(enumerate(parts))):
        if answer := plain_label(sentence):
            follows = stated_verdict(parts[place + 1], after_label=True) if place < last else None
            return (
                answer
                if follows is None or answer.incorrect in (None, follows.incorrect)
                else LabelVerdict(None, sentence)
            )
        if place == last:
            if UNDECIDED.search(sentence):
                return LabelVerdict(None, sentence)
            label = label_verdict(sentence)
            if label and label.incorrect is None:
                contradiction = label
            elif label and is_explained_label(sentence):
                return label
            elif label is None and (answer := stated_verdict(sentence) or closing_verdict(sentence)):
                before = plain_label_value(parts[place - 1]) if place else None
                return answer if before in (None, answer.incorrect) else LabelVerdict(None, sentence)
    if contradiction:
        return contradiction
    for sentence in reversed(parts[-CLOSING_VERDICT_SENTENCES:]):
        if (answer := reported_verdict(sentence)) or (answer := concluded_verdict(sentence)):
            return answer
    labels = (label_verdict(sentence) for sentence in (*parts[:1], *reversed(parts)))
    return next((label for label in labels if label), None) or solution_sentence_verdict(parts[0] if parts else "")


def closing_verdict(sentence: str) -> LabelVerdict | None:
    """Return the verdict of a sentence that reads like a closing ("Well done, ..."), or None if it states none."""
    return (
        LabelVerdict(verdict_of_solution(sentence), sentence)
        if is_closing(sentence) and closing_states_verdict(sentence)
        else None
    )


def closing_states_verdict(closing: str) -> bool:
    """Return True if a sentence that reads like a closing states a verdict ("Well done, your solution is right!")."""
    return (
        not NO_STATEMENT.search(closing)
        and SOLUTION_NAMED.search(closing) is not None
        and verdict_of_solution(closing) is not None
    )


def verdict_of_solution(sentence: str) -> bool | None:
    """Return the verdict on which all clauses that name the solution agree (True: incorrect), or None."""
    clauses = [clause for clause in re.split(r"[,;!]\s+|\bthat\b", sentence) if SOLUTION_NAMED.search(clause)]
    verdicts = {statement_verdict(clause) for clause in clauses}
    return verdicts.pop() if len(verdicts) == 1 else None


def solution_sentence_verdict(sentence: str) -> LabelVerdict | None:
    """Return the verdict of a sentence that names the solution or the student, or None."""
    return stated_verdict(sentence) if re.search(r"\b(?:solution|student)\b", sentence, re.IGNORECASE) else None


def reported_verdict(sentence: str) -> LabelVerdict | None:
    """Return the label that a sentence reports ("so I answer Yes and leave the rest to you"), or None."""
    labels = REPORTED.findall(without_quotations(sentence))
    return LabelVerdict(is_yes(labels[0]), sentence) if len(labels) == 1 and not BOTH.search(sentence) else None


def concluded_verdict(sentence: str) -> LabelVerdict | None:
    """Return the verdict of a clause that names the solution ("..., and the solution is incorrect"), or None."""
    verdicts = set()
    for match in SOLUTION_IS.finditer(sentence):
        verdicts |= set(word_verdicts(match[0]))
    return LabelVerdict(verdicts.pop(), sentence) if len(verdicts) == 1 and not NOT_SURE.search(sentence) else None


def plain_label_value(sentence: str) -> bool | None:
    """Return the verdict of a sentence's plain label (True: incorrect), or None if there is no such label."""
    label = plain_label(sentence)
    return None if label is None else label.incorrect


def is_explained_label(sentence: str) -> bool:
    """Return True if a sentence ends with its label, or adds only a reason or a few words to it."""
    match = BARE_LABEL.match(INNER_LABEL.split(without_quotations(sentence))[-1])
    if match is None:
        return bool(CONCLUDES.search(sentence))
    explains = re.match(r"^[\s,;:.()\u2013\u2014-]*(?:because|since|as)\b", match["rest"], re.IGNORECASE)
    return (
        bool(explains)
        or statement_verdict(match["rest"], after_label=True) is not None
        or len(match["rest"].split()) <= MAX_WORDS_AFTER_LABEL
    )


def stated_verdict(sentence: str, after_label: bool = False) -> LabelVerdict | None:
    """Return the verdict that a sentence states without a label, or None. after_label: True for text after a label."""
    if (claim := CLAIM.match(sentence)) and (claimed := statement_verdict(claim["claim"])) is not None:
        denied = claim["verdict"].lower() in ("false", "wrong", "incorrect", "untrue")
        return LabelVerdict(claimed != denied, sentence)
    verdict = statement_verdict(sentence, after_label)
    return None if verdict is None else LabelVerdict(verdict, sentence)


def join_questions(parts: list[str]) -> list[str]:
    """Join each question with the label that answers it ("Is it correct? No.")."""
    joined: list[str] = []
    for part in parts:
        if joined and joined[-1].rstrip("\"'*) ").endswith("?") and BARE_LABEL.match(part):
            joined[-1] = f"{joined[-1]} {part}"
        else:
            joined.append(part)
    return joined


def without_quotations(sentence: str) -> str:
    """Return a sentence without quotations and denied labels."""
    bare = sentence if OWN_QUOTE.search(sentence) else QUOTED.sub(" ", sentence)
    return DENIED.sub(" ", bare)


def plain_label(sentence: str) -> LabelVerdict | None:
    """Return the verdict of a label that is alone or follows a marker, a question or "so". Otherwise return None."""
    bare = without_quotations(sentence)
    both, bare = BOTH.search(bare), BOTH.sub(" ", bare).lstrip(" ?,")
    if match := KEY.match(bare):
        wrong = not re.fullmatch(r"correct(?:ness)?|right", match["key"], re.IGNORECASE)
        return LabelVerdict((match["value"].lower() in ("true", "yes")) == wrong, sentence)
    if matches := list(MARKED.finditer(bare)):
        return LabelVerdict(is_yes(matches[-1]["label"]), sentence)
    if matches := list(WORD_LABEL.finditer(bare)):
        return LabelVerdict(word_verdicts(matches[-1]["verdict"].replace("incorrect", "wrong"))[0], sentence)
    if (match := ANSWERED_QUESTION.match(bare)) and (errors_asked := asks_for_errors(match["question"])) is not None:
        return LabelVerdict(is_yes(match["label"]) == errors_asked, sentence)
    if (match := BARE_LABEL.match(bare)) and not re.search(r"[A-Za-z0-9]", match["rest"]):
        return LabelVerdict(is_yes(match["label"]), sentence)
    if match := CONCLUDES.search(bare):
        return LabelVerdict(is_yes(match["label"]), sentence)
    return LabelVerdict(None, sentence) if both and not re.search(r"[A-Za-z]{3}.*[A-Za-z]{3}", bare) else None


def label_verdict(sentence: str) -> LabelVerdict | None:
    """Return the verdict of a label that begins or ends a sentence, or None if there is no label.

    Field `incorrect` of the verdict is None if the rest of the sentence contradicts the label.
    """
    if plain := plain_label(sentence):
        return plain
    bare = BOTH.sub(" ", without_quotations(sentence))
    if (match := BARE_LABEL.match(bare)) and is_label(match):
        label, verdict = is_yes(match["label"]), statement_verdict(match["rest"], after_label=True)
        return LabelVerdict(None if verdict is not None and verdict != label else label, sentence)
    if match := ENDING_LABEL.search(bare):
        return LabelVerdict(is_yes(match["label"]), sentence)
    inner = INNER_LABEL.split(bare)
    return label_verdict(inner[-1]) if len(inner) > 1 else None


def is_label(match: re.Match[str]) -> bool:
    """Return True if a leading "yes" or "no" is a verdict, rather than the negation of a noun ("no errors")."""
    rest = match["rest"]
    if statement_verdict(rest) == is_yes(match["label"]):
        return True
    if len(match["label"]) == 1 and rest.strip(" .\"')*"):
        return False
    if re.match(r"^\W*(?:indeed|to\s+(?:that|this|it)|sir|ma'am|yes|no|i\s+do)\W*$", rest, re.IGNORECASE):
        return True
    return (
        not rest.strip()
        or bool(re.match(r"^[\s\"')\]*\u201d\u00bb]*(?:[^\w\s'\u2019]|\n|$)", rest))
        or bool(
            re.match(
                r"^[\"')\]*]*\s+(?:because|since|as|it|the|this|that|he|she|there|i|step|they|here)\b",
                rest,
                re.IGNORECASE,
            )
            and is_yes(match["label"])
        )
        or bool(re.match(r"^\s+(?:because|since|as|i)\b", rest, re.IGNORECASE))
    )


def asks_for_errors(question: str) -> bool | None:
    """Return True if a repeated question asks for errors, False if it asks for correctness, and None otherwise."""
    last = re.split(r"[.?!\n]\s+", question)[-1]
    if re.search(r"\b(?:solution|it|work|answer)\s+is\b", last, re.IGNORECASE) and not re.search(
        r"\bwhether\b", last, re.IGNORECASE
    ):
        return None
    if (
        not re.match(r"^\W*(?:\w+\s+){0,5}(?:is|was|does|do|did|has|are|whether|q)\b", question, re.IGNORECASE)
        and len(last.split()) > 6
    ):
        return None
    if ABOUT_PART.search(last.replace("whether", "")) or re.search(
        r"\b(?:answer|reply|verdict)\W*$", last, re.IGNORECASE
    ):
        return None
    verdicts = set(word_verdicts(last))
    if len(verdicts) == 2 or re.search(r"yes\s*(?:\(|=|means)\s*incorrect", question, re.IGNORECASE):
        return True
    if len(verdicts) == 1 and (ABOUT_WHOLE.search(last) or len(last.split()) <= 4):
        return verdicts.pop()
    return None


def statement_verdict(text: str, after_label: bool = False) -> bool | None:
    """Return True if a text calls the whole solution incorrect, False if it calls it correct, None if neither.

    after_label: True for the text after a label. Such a text may be the label's reason, so only unmistakable statements
    count.
    """
    text = LEADING_LABEL.sub("", text).strip(" ,.;-\u2013\u2014")
    clause, *rest = STATEMENT_END.split(text, maxsplit=1)
    if NOT_SURE.search(clause) or re.search(r"[:?]\W*$", clause) or (rest and text[len(clause)] == "?"):
        return None
    verdicts = set(word_verdicts(clause))
    if len(verdicts) != 1 or not ABOUT_WHOLE.search(clause) or (after_label and not SUBJECT_FIRST.match(clause)):
        return None
    [verdict] = verdicts
    return (
        None
        if ABOUT_PART.search(clause) and not (verdict and HAS_ERROR.search(clause)) and (after_label or not verdict)
        else verdict
    )


LEADING_LABEL = re.compile(
    rf"^{QUOTE}{LEAD}{QUOTE}(?:{YES}|{NO}|no\s+doubt(?:\s+about\s+it)?)\b\s*[,.;:!(\u2013\u2014-]+\s*", re.IGNORECASE
)
STATEMENT_END = re.compile(
    r"[.;:!?]\s|,\s+(?:because|since|but|as|so|and|although|though)\b|\b(?:because|since|although|though)\b"
)
HAS_ERROR = re.compile(
    r"\b(?:contains?|has|have|made|makes|is|are|there's|found)\s+(?:\w+\s+){0,2}(?:errors?"
    r"|mistakes?)\b",
    re.IGNORECASE,
)
SUBJECT_FIRST = re.compile(
    rf"^\W*(?:(?:the|this|that|his|her|their|of\s+the|as\s+a\s+whole|student'?s?)\s+)*(?:{SUBJECT}"
    rf"|there|nothing|(?:not\s+)?(?:in)?correct\W*$|wrong\W*$|i\s+(?:found|see|find))",
    re.IGNORECASE,
)
