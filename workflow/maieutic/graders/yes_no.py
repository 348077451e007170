"""Read whether a reply calls a solution incorrect (MathTutorBench solution correctness: "Yes" means incorrect)."""

from __future__ import annotations

import re
from typing import NamedTuple

from maieutic.graders.evidence import Decision, Evidence, Rank
from maieutic.graders.lexicon import in_english
from maieutic.graders.passages import QUESTION, Sentence, is_closing, sentences
from maieutic.graders.polarity import word_verdicts
from maieutic.graders.reading import MAX_PASSAGE_CHARACTERS
from maieutic.graders.steps import (
    BRACKETS,
    OTHER_PARTS,
    PART_OF_SOLUTION,
    StepsShown,
    all_steps_right,
    collect_step_verdicts,
    mark_steps,
    marked_steps,
    whole_is_right,
)
from maieutic.graders.verdict_text import decide_reply, prepare_verdict_text, without_other_solutions
from maieutic.graders.words import phrases, without, words

YES = r"(?:" + words("yes|yeah|yep|yup|y|affirmative|absolutely|definitely|certainly|indeed") + r")"
NO = r"(?:" + words("no|nope|nah|n|negative|(absolutely|definitely|certainly) not|not at all|of course not") + r")"
SURE = r"(?:" + words("absolutely|definitely|certainly|probably|most likely|well|just|a|an") + r")"
# A yes or no that is a verdict. "no.1" is excluded here, "no errors" by `is_label`, and "yes and no" by BOTH.
LABEL = rf"(?:{SURE}[\s,]+)*(?P<{{name}}>{NO}|{YES})\b(?! ?(?:\. ?\d|\d)|'\w)"
CHECKS = r"☑✅✓✔✖-✘❌"  # check marks and crosses, which are verdicts
QUOTE = rf"[\s\"'(\[{{*#>=:|•→➡\U0001f449{CHECKS}-]*+"
LEAD = (
    r"(?:(?:so|therefore|thus|hence|then|consequently|well|hmm+|and|but|conclusion"
    r"|bottom line|tl;? ?dr"
    r"|overall|in (?:short|conclusion|one word)|again|i repeat|i mean(?:t)?"
    r"|i(?:'d| would|'m| am| have to)? (?:"
    + words("say|answer with|choose|think|guess|believe|go (with|for)|choose|answer|lean towards?")
    + r"|correct myself)(?: that)?"
    r"|(?:if i had to [^,\n]{0,40}"
    r")"
    r"|my (?:\w+ )?(?:" + words("guess|answer|reply|verdict|choice|response|conclusion|judge?ment") + r")(?: is)?"
    r"|it(?:'?s| is| would be)"
    r"|(?:the )?(?:\w+ )?(?:"
    + words("answer|verdict|result|output|response|reply|label|tutor|assistant|teacher|a|s")
    + r")(?: (?:is|would be|should be"
    r"))?|(?:now|probably"
    r"|most likely))\b[\s:,;=.>\"'(*-]*+){0,6}"
)
BARE_LABEL = re.compile(rf"^{QUOTE}{LEAD}{QUOTE}{LABEL.format(name='label')}(?P<rest>.*)$", re.IGNORECASE | re.DOTALL)
MARKED = re.compile(
    (
        r"\b(?:"
        + words("answer|verdict|conclusion|judge?ment|output|response|reply|label|final|result")
        + r")\b(?: (?:finale?|to (?:the|this|your) question"
        rf"|here|therefore|\([^)\n]{{0,60}}\)))* ?(?:[:=→]|->|\bis\b"
        rf")+ ?{QUOTE}(?:therefore|thus|then|now"
        rf"|a)? ?{QUOTE}{LABEL.format(name='label')}"
    ),
    re.IGNORECASE,
)
ENDING_LABEL = re.compile(
    (
        r"(?:[,;:→-]|\b(?:"
        + words("so|therefore|thus|hence|then|is|be|answer|say|said|reply|with|think|but|to")
        + rf")\b) ?{QUOTE}{LABEL.format(name='label')}[\W_]*$"
    ),
    re.IGNORECASE,
)
CONCLUDES = re.compile(
    (
        r"\b(?:"
        + words("so|therefore|thus|hence|i (say|answer|choose|think)|to (say|answer|reply)")
        + rf")\b[\s,:]*{QUOTE}{LABEL.format(name='label')}[\W_]*$"
    ),
    re.IGNORECASE,
)
ANSWERED_QUESTION = re.compile(
    rf"^(?P<question>.{{0,300}}?)(?:\?|[:=])[\"')*\s]*(?:(?:the "
    rf")?(?:answer|a) ?(?:is)?[:=]? ?)?{QUOTE}{LABEL.format(name='label')}[\W_]*(?:$|[.,;(]"
    rf"|because|since)",
    re.IGNORECASE | re.DOTALL,
)
BOTH = re.compile(
    r"\byes\b(?: ?\([^)\n]{0,20}\))? ?or no\b(?: ?\([^)\n]{0,20}\))?(?: only)?"
    r"|\byes\b[^.\n]{0,12}?(?:/|\bor\b|\band\b|\||,(?= ?[\"']?no\W*$)|, ?(?:maybe)"
    r"|\bnor\b) ?[\"']?\bno\b|\bno\b[^.\n]{0,6}?(?:/|\bor\b|\band\b|\bnor\b) ?[\"']?\byes\b"
    r"|\bmaybe\b|\bit depends\b",
    re.IGNORECASE,
)
DENIED = re.compile(
    r"(?:[,(] ?)?(?:\band )?\b(?:not|rather than|instead of|isn't|(?:mistake"
    r"|wrong) to say) [\"']?(?:yes|no)\b[\"']?(?: here)?\)?"
    r"|[;,] ?[\"']?(?:yes|no)[\"']? (?:would|is) (?:be )?(?:a )?(?:misjudge\w*"
    r"|mistake|wrong|incorrect)\b[^.]*",
    re.IGNORECASE,
)
AFFIRMS = re.compile(rf"^\W*{YES}\W+(?:really|exactly)\W*$", re.IGNORECASE)
QUOTED = re.compile(r"\"[^\"\n]{0,200}\"")
OWN_QUOTE = re.compile(rf"[\"'] ?(?:{YES}|{NO}) ?[.!]? ?[\"']", re.IGNORECASE)
SUBJECT = words(
    "(solution|work|answer|response|reasoning|calculations?|everything|its?|that|this|he|she|they|student|"
    "you('ve)? (solved|worked|done|got|did)|approach|attempt|all (of )?(the )?(# )?steps?|every step|each step|steps)"
)
ABOUT_WHOLE = re.compile(
    rf"\b{SUBJECT}\b|^\W*(?:not )?(?:in)?correct\W*$|^\W*(?:wrong)\W*$"
    rf"|\bthere ?(?:'s| is| are| was| were)|\b(?:error|mistake)s? (?:in"
    rf"|at) step|\b(?:no|any|an?) (?:errors?|mistakes?)\b|\berrors? found\b"
    rf"|\bnothing (?:is )?wrong\b|\bstep \d+ (?:is|has|contains)\b",
    re.IGNORECASE,
)
ABOUT_PART = phrases(
    "(in|at|of|until|up to|through) (steps?|lines?|parts?|"
    "the (first|second|third|last|next|addition|multiplication|calculation|sum))|steps? #|"
    "it is (correct|right|true) that|so far|would|the only thing|looks? wrong"
)
NOT_SURE = phrases(
    "whether|not sure|can(no|')t (tell|say|decide|judge)|unclear|(would|could|may|might) be|don't know|"
    "if|unless|otherwise"
)


UNDECIDED = phrases(
    "it depends|may or may not|(might|may|could) be…or|(*n't|not) (have )?enough|no (verdict|judge?ment)|"
    "(do not|don't) know|leave (the question|it|this|that) open|could be yes…could be no|"
    "(can(not|'t)|not able to) (tell|say|decide|judge|determine)"
)
INNER_LABEL = re.compile(rf"\b(?:but|so|and|then)[\s:]+(?=(?:{NO}|{YES}) ?,\s)", re.IGNORECASE)
CLAIM = re.compile(
    r"^\W*(?:the )?(?:claim|statement) that (?P<claim>.+?) is (?:\w+ly )?"
    r"(?P<verdict>true|false|wrong|correct|incorrect|right)\W*$",
    re.IGNORECASE,
)
NO_STATEMENT = re.compile(r"\?|^\W*(?:i )?hope\b", re.IGNORECASE)
STANDS_FOR_WHOLE = re.compile(r"\W*(?:it|that|this|he|she|they)\b", re.IGNORECASE)
BOTH_ANSWERS = re.compile(r"\W*(?:both )?(?:yes and no)\b", re.IGNORECASE)
# "The correct answer is 66, not 54" calls the student's value wrong.
CORRECTS_VALUE = phrases(
    "(correct|right) _ (is|was|(would|should) be)…(not|instead of|rather than|but the student)|"
    "student (got|has|had|wrote)…but the (correct|right) _ is"
)
OTHER_PEOPLE = phrases("(another|other|different|reference|model) (student|solution|answer|tutor)s?|most of")
CONCLUDING_CLAUSE = re.compile(r"[,;] (?:and )?(?:so|therefore|thus|hence) (?P<clause>.+)$", re.IGNORECASE)
# How tutors begin when an answer is wrong: "Not quite!"
NEARLY = re.compile(r"^\W*(?:not (?:quite|exactly)|almost|nearly|close)\b[^.!?:]{0,20}[.!,:]", re.IGNORECASE)
MOST_LAST_LABELS = 2  # number of sentences at the end of a reply whose labels count if there is no other evidence
SOLUTION_NAMED = phrases("solution|(your|this|the) (_ )?(work|answer)|you('ve)? (solved|got) (it|this|that|everything)")
REPORTED = re.compile(
    r"\b(?:answer|report|stand by|enter|reply|verdict|stays?)\b[\s,:]*(?:with|is|as|a|an)?[\s\"'*]*"
    rf"({NO}|{YES})(?![\w'])(?! (?:error|mistake|step|problem|doubt)s?\b)",
    re.IGNORECASE,
)
SOLUTION_IS = phrases("solution( as a whole)? (is|was|isn't) (_ )?(incorrect|correct|wrong|right)")
MAX_WORDS_AFTER_LABEL = 4  # up to this many words may follow a label without being a reason for it


class LabelVerdict(NamedTuple):
    """Verdict on a solution, with the sentence that states it.

    incorrect: True if the solution is called incorrect, None if the verdict is contradictory or undecided.
    """

    incorrect: bool | None
    text: str


REPEATED = re.compile(r"\b(yes|no)(?:\s+\1\b)+(?=\W*$)", re.IGNORECASE | re.MULTILINE)
SYMBOL = re.compile(
    rf"(?![{CHECKS}])[☀-➿⬀-⯿\U0001f000-\U0001faff]"
    r"|\[(?=[A-Za-z ]{1,20}\])|(?<=[A-Za-z])\](?= ?\S)"
)
WORD_LABEL = re.compile(
    (
        r"\b(?:"
        + words(
            "mark(ing|s)?|verdict|status|assessment|judge?ment|label|final|answer|conclusion|result|solution|overall"
        )
        + r")\W*[:=→]\W*"
        r"(?P<verdict>(?:not |in)?(?:quite )?(?:correct|right|wrong|valid|accurate))\b[\W_]*(?:$|[.,;(])"
    ),
    re.IGNORECASE,
)
KEY = re.compile(
    r"^\W*(?:is )?(?:the )?(?:student'?s? )?(?:solution )?(?:is )?(?P<key>(?:in"
    r"|not )?correct(?:ness)?|wrong|right|errors?"
    r"|mistakes?)\W*[:=?]\W*(?P<value>true|false|yes|no|none|zero|0)\W*$",
    re.IGNORECASE,
)


def is_yes(word: str) -> bool:
    """Return True if a label means yes."""
    return re.fullmatch(YES, word, re.IGNORECASE) is not None


def prepare_yes_no_reply(text: str) -> str:
    """Return a reply with its fields as lines, without symbols such as emoji, and without brackets around labels."""
    text = REPEATED.sub(r"\1", text)
    return in_english(without(SYMBOL, prepare_verdict_text(text)))


def read_yes_no(text: str, steps: StepsShown | None = None) -> Decision[bool]:
    """Return the verdict of a reply (True: the solution is incorrect) and its sentence.

    steps: number of steps of the solution that the prompt shows, if known. A reply that calls all of them right calls
    the solution correct.
    """
    return decide_reply(text, prepare_yes_no_reply, lambda parts: verdict_evidence(parts, steps))


def last_solution_verdict(text: str) -> bool | None:
    """Return the verdict of the last statement that names the solution (True: incorrect), or None without a verdict."""
    statements = [solution_sentence_verdict(sentence) for sentence in sentences(prepare_yes_no_reply(text))]
    return next((verdict.incorrect for verdict in reversed(statements) if verdict is not None), None)


def verdict_evidence(parts: list[Sentence], steps: StepsShown | None) -> list[Evidence[bool]]:
    """Return the evidence of a reply's sentences for its verdict. steps: number of steps that were shown."""
    parts = join_questions([part for part in parts if not AFFIRMS.match(part.text)])
    parts = [
        part
        for part in parts
        if not is_closing(part.text) or plain_label(part.text) is not None or closing_states_verdict(part.text)
    ]
    parts = without_other_solutions(parts, lambda sentence: plain_label(sentence) is not None)
    evidence: list[Evidence[bool]] = []
    marked = [mark_steps(part.text.translate(BRACKETS)) for part in parts]
    first_step = next((place for place, sentence in enumerate(marked) if marked_steps(sentence)), len(marked))
    for place, part in enumerate(parts):
        first, last = place == 0, place == len(parts) - 1
        sentence = part.text
        if piece := label_evidence(part, first, last):
            following = (
                None
                if last or plain_label(parts[place + 1].text)
                else whole_verdict(parts[place + 1].text, marked[place + 1], True)
            )
            contradicted = piece.value is not None and following not in (None, piece.value)
            evidence.append(piece._replace(value=None) if contradicted else piece)
        elif last and UNDECIDED.search(sentence):
            evidence.append(Evidence(Rank.CONCLUSION, None, sentence))
        if (verdict := whole_verdict(sentence, marked[place], steps_before=place > first_step)) is not None:
            evidence.append(Evidence(Rank.CONCLUSION, verdict, sentence))
    if not any(piece.rank < Rank.STATEMENT for piece in evidence):
        labels = [(label_verdict(part.text), part.text) for part in parts[-MOST_LAST_LABELS:]]
        evidence += [Evidence(Rank.CONCLUSION, label.incorrect, text) for label, text in labels if label][-1:]
    stated = collect_step_verdicts(
        [text for text in marked if not any(skip.search(text) for skip in (QUESTION, NOT_SURE, OTHER_PEOPLE, CLAIM))]
    )
    passage = " ".join(part.text for part in parts)[-MAX_PASSAGE_CHARACTERS:]
    if stated.wrong or stated.unplaced_error or any(CORRECTS_VALUE.search(part.text) for part in parts):
        evidence.append(Evidence(Rank.STATEMENT, True, passage))
    elif stated.finds_no_error or all_steps_right(stated.right, steps):
        evidence.append(Evidence(Rank.STATEMENT, False, passage))
    return evidence


def label_evidence(part: Sentence, first: bool, last: bool) -> Evidence[bool] | None:
    """Return the evidence of a sentence's label ("Yes", "Answer: no"), or None if it has no label that counts."""
    sentence = part.text
    if BOTH_ANSWERS.match(sentence):
        return Evidence(Rank.OPENING if first else Rank.CONCLUSION, None, sentence, first)
    if plain := plain_label(sentence):
        rank, value = plain
        if rank == Rank.LINE and not part.alone:
            rank = Rank.OPENING if first else Rank.CONCLUSION
        return Evidence(rank, value, sentence, first)
    if first and NEARLY.match(sentence):
        return Evidence(Rank.OPENING, True, sentence, True)
    label = label_verdict(sentence)
    if label and first and BARE_LABEL.match(without_quotations(sentence)):
        return Evidence(Rank.OPENING, label.incorrect, sentence, True)
    if label and last and label.incorrect is not None and is_explained_label(sentence):
        return Evidence(Rank.CONCLUSION, label.incorrect, sentence)
    if last and (reported := reported_verdict(sentence)):
        return Evidence(Rank.CONCLUSION, reported.incorrect, sentence)
    return None


def whole_verdict(sentence: str, marked: str, steps_before: bool) -> bool | None:
    """Return the verdict of a sentence about the whole solution (True: incorrect), or None if it states none.

    A part that is wrong makes the whole wrong; a part that is right does not make the whole right.
    """
    sentence = without(QUOTED, sentence)
    if OTHER_PEOPLE.search(sentence):
        return None
    if clause := CONCLUDING_CLAUSE.search(sentence):
        sentence = clause["clause"]
    stated = stated_verdict(sentence) or concluded_verdict(sentence) or closing_verdict(sentence)
    if stated and stated.incorrect:
        return True
    if CLAIM.match(sentence):
        return stated.incorrect if stated else None
    if True in word_verdicts(sentence):
        return None
    if whole_is_right(marked, steps_before):
        return False
    is_pronoun = not steps_before and STANDS_FOR_WHOLE.match(sentence) is not None
    names_whole = is_pronoun or (
        SOLUTION_NAMED.search(without(PART_OF_SOLUTION, sentence)) and not OTHER_PARTS.search(sentence)
    )
    return False if stated and stated.incorrect is False and names_whole and not marked_steps(marked) else None


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
    clauses = [clause for clause in re.split(r"[,;!] |\bthat\b", sentence) if SOLUTION_NAMED.search(clause)]
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


def is_explained_label(sentence: str) -> bool:
    """Return True if a sentence ends with its label, or adds only a reason or a few words to it."""
    match = BARE_LABEL.match(INNER_LABEL.split(without_quotations(sentence))[-1])
    if match is None:
        return bool(CONCLUDES.search(sentence))
    explains = re.match(r"^[\s,;:.()-]*(?:because|since|as)\b", match["rest"], re.IGNORECASE)
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


def join_questions(parts: list[Sentence]) -> list[Sentence]:
    """Join each question with the label that answers it ("Is it correct? No.")."""
    joined: list[Sentence] = []
    for part in parts:
        if joined and joined[-1].text.rstrip("\"'*) ").endswith("?") and BARE_LABEL.match(part.text):
            joined[-1] = Sentence(f"{joined[-1].text} {part.text}", True)
        else:
            joined.append(part)
    return joined


def without_quotations(sentence: str) -> str:
    """Return a sentence without quotations and denied labels."""
    bare = sentence if OWN_QUOTE.search(sentence) else without(QUOTED, sentence)
    return without(DENIED, bare)


def plain_label(sentence: str) -> tuple[Rank, bool | None] | None:
    """Return the rank and verdict of a label that is alone or follows a marker, a question or "so". Otherwise None."""
    bare = without_quotations(sentence)
    both, bare = BOTH.search(bare), re.sub(r"^[\W_]+", "", without(BOTH, bare))
    if match := KEY.match(bare):
        wrong = not re.fullmatch(r"correct(?:ness)?|right", match["key"], re.IGNORECASE)
        return Rank.FIELD, (match["value"].lower() in ("true", "yes")) == wrong
    if matches := list(MARKED.finditer(bare)):
        return Rank.MARK, is_yes(matches[-1]["label"])
    if not OTHER_PEOPLE.search(bare) and (matches := list(WORD_LABEL.finditer(bare))):
        return Rank.MARK, word_verdicts(matches[-1]["verdict"].replace("incorrect", "wrong"))[0]
    if (match := ANSWERED_QUESTION.match(bare)) and (errors_asked := asks_for_errors(match["question"])) is not None:
        return Rank.FIELD, is_yes(match["label"]) == errors_asked
    if (match := BARE_LABEL.match(bare)) and not re.search(r"[A-Za-z0-9]", match["rest"]):
        return Rank.LINE, is_yes(match["label"])
    if match := CONCLUDES.search(bare):
        return Rank.CONCLUSION, is_yes(match["label"])
    return (Rank.CONCLUSION, None) if both and not re.search(r"[A-Za-z]{3}.*[A-Za-z]{3}", bare) else None


def label_verdict(sentence: str) -> LabelVerdict | None:
    """Return the verdict of a label that begins or ends a sentence, or None if there is no label.

    Field `incorrect` of the verdict is None if the rest of the sentence contradicts the label.
    """
    if plain := plain_label(sentence):
        return LabelVerdict(plain[1], sentence)
    bare = without(BOTH, without_quotations(sentence))
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
    if re.match(r"^\W*(?:indeed|to (?:that|this|it)|sir|ma'am|yes|no|i do)\W*$", rest, re.IGNORECASE):
        return True
    return (
        not rest.strip()
        or bool(re.match(r"^[\s\"')\]*]*(?:[^\w\s']|\n|$)", rest))
        or bool(
            re.match(
                (
                    r"^[\"')\]*]* (?:"
                    + words("because|since|as|it|the|this|that|he|she|there|i|step|they|here")
                    + r")\b"
                ),
                rest,
                re.IGNORECASE,
            )
            and is_yes(match["label"])
        )
        or bool(re.match(r"^ (?:because|since|as|i)\b", rest, re.IGNORECASE))
    )


def asks_for_errors(question: str) -> bool | None:
    """Return True if a repeated question asks for errors, False if it asks for correctness, and None otherwise."""
    last = re.split(r"[.?!\n] ", question)[-1]
    if re.search(r"\b(?:solution|it|work|answer) is\b", last, re.IGNORECASE) and not re.search(
        r"\bwhether\b", last, re.IGNORECASE
    ):
        return None
    if (
        not re.match(r"^\W*(?:\w+ ){0,5}(?:is|was|does|do|did|has|are|whether|q)\b", question, re.IGNORECASE)
        and len(last.split()) > 6
    ):
        return None
    if ABOUT_PART.search(last.replace("whether", "")) or re.search(
        r"\b(?:answer|reply|verdict)\W*$", last, re.IGNORECASE
    ):
        return None
    verdicts = set(word_verdicts(last))
    if len(verdicts) == 2 or re.search(r"yes ?(?:\(|=) ?incorrect", question, re.IGNORECASE):
        return True
    if len(verdicts) == 1 and (ABOUT_WHOLE.search(last) or len(last.split()) <= 4):
        return verdicts.pop()
    return None


def statement_verdict(text: str, after_label: bool = False) -> bool | None:
    """Return True if a text calls the whole solution incorrect, False if it calls it correct, None if neither.

    after_label: True for the text after a label. Such a text may be the label's reason, so only unmistakable statements
    count.
    """
    text = LEADING_LABEL.sub("", text).strip(" ,.;-")
    clause, *rest = STATEMENT_END.split(text, maxsplit=1)
    if NOT_SURE.search(clause) or re.search(r"[:?]\W*$", clause) or (rest and text[len(clause)] == "?"):
        return None
    verdicts = set(word_verdicts(clause))
    if len(verdicts) != 1 or not ABOUT_WHOLE.search(clause) or (after_label and not SUBJECT_FIRST.match(clause)):
        return None
    [verdict] = verdicts
    return None if ABOUT_PART.search(clause) and (after_label or not verdict) else verdict


LEADING_LABEL = re.compile(
    rf"^{QUOTE}{LEAD}{QUOTE}(?:{YES}|{NO}|no doubt(?: about it)?)\b ?[,.;:!(-]+ ?", re.IGNORECASE
)
STATEMENT_END = re.compile(
    r"[.;:!?]\s|, (?:because|since|but|as|so|and|although|though)\b|\b(?:because|since|although|though)\b"
)
SUBJECT_FIRST = re.compile(
    rf"^\W*(?:(?:the|this|that|his|her|their|student'?s?) )*(?:{SUBJECT}"
    rf"|there|nothing|(?:not )?(?:in)?correct\W*$|i (?:found|see|find))",
    re.IGNORECASE,
)
