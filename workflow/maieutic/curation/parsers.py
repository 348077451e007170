"""How the answers of a curation's stages are read: parts between tags, as the paper's prompts ask for them."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from maieutic.core.options import is_choice, option_in, options_of
from maieutic.curation.records import PRINCIPLES, Clarification, Exchange, Feedback, Flow, Posed
from maieutic.graders.answers import read_final
from maieutic.graders.choices import chosen_option
from maieutic.graders.passages import BOXED

About = Mapping[str, Any]  # what a stage is about: the variables of its prompt, and what its rule compares with
Limits = Mapping[str, float]
Options = Mapping[str, str]  # of a multiple-choice problem, by letter; empty: the answer is a number
NO_OPTIONS: Options = {}
Parser = Callable[[str, About, Limits], Any]
MOST_DIGITS = 15  # of an answer, so that it is a plain number
# At the start of a line, with the marks of lists and headings; or within one, as Figure 11 writes steps.
STEP = re.compile(
    r"^[-*#> \t]*Step[ \t]+(?P<own>\d{1,3})[* \t]*[:.)\-\u2013\u2014][* \t]*"
    r"|(?<=\s)Step[ \t]+(?P<within>\d{1,3}):[* \t]*",
    re.IGNORECASE | re.MULTILINE,
)
BETWEEN_CHOICES = re.compile(r"[,;\n]|\band\b")
NUMBER = re.compile(r"\d+")
KINDS: Mapping[str, Any] = {"what": "What", "how": "How", "why": "Why"}


class Unread(Exception):
    """An answer that is not as its prompt asks for it; the message says what is not."""


def tagged(text: str, *names: str) -> str | None:
    """What stands in the last pair of tags of the first of some names that has one; None: none has.

    Without a pattern: a model that repeats an open tag for ever must not cost minutes.
    """
    folded = text.lower() if len(text.lower()) == len(text) else text
    for name in names:
        opened, closed = f"<{name.lower()}>", f"</{name.lower()}>"
        end = folded.rfind(closed)
        start = folded.rfind(opened, 0, end) if end >= 0 else -1
        if start >= 0:
            return text[start + len(opened) : end].strip()
    return None


def needed(text: str, *names: str) -> str:
    """The same of a part that must be there and not be empty. Raises Unread."""
    part = tagged(text, *names)
    if not part:
        raise Unread(f"no <{names[0]}>")
    return part


def numbered_parts(text: str, name: str) -> dict[int, str]:
    """The parts in tags NAME1, NAME2, ..., by their numbers; the last of two with one number."""
    ends: dict[str, list[int]] = defaultdict(list)
    for match in re.finditer(rf"</{name}(\d{{1,3}})>", text, re.IGNORECASE):
        ends[match[1]].append(match.start())
    parts: dict[int, str] = {}
    for match in re.finditer(rf"<{name}(\d{{1,3}})>", text, re.IGNORECASE):
        place = bisect_left(ends[match[1]], match.end())
        if place < len(ends[match[1]]):
            parts[int(match[1])] = text[match.end() : ends[match[1]][place]].strip()
    return parts


def in_a_row(parts: Mapping[int, str], name: str) -> list[str]:
    """Parts numbered from 1 on without a gap, none of them empty. Raises Unread."""
    if sorted(parts) != list(range(1, len(parts) + 1)):
        raise Unread(f"<{name}> are not numbered from 1 on")
    if not all(parts.values()):
        raise Unread(f"an empty <{name}>")
    return [parts[number] for number in sorted(parts)]


def written(value: float) -> str:
    """A number as people write it. Raises Unread for one that has no plain form."""
    shown = f"{value:.{MOST_DIGITS}g}"
    if not re.fullmatch(r"-?\d+(?:\.\d+)?", shown):
        raise Unread("the answer is no plain number")
    return shown


def only_box(text: str, options: Options = NO_OPTIONS) -> str:
    """The number or chosen option in a text's one and only box. Raises Unread."""
    boxes = BOXED.findall(text)
    if len(boxes) != 1:
        raise Unread("no box" if not boxes else "several boxes")
    if options:
        return needed_option(option_in(boxes[0], options), "no option in the box")
    value = read_final(f"\\boxed{{{boxes[0]}}}").value
    if value is None:
        raise Unread("no number in the box")
    return written(value)


def said_answer(text: str, options: Options = NO_OPTIONS) -> str:
    """The number or chosen option that a worked solution ends with. Raises Unread."""
    if options:
        return needed_option(chosen_option(text, options), "no final answer")
    value = read_final(text).value
    if value is None:
        raise Unread("no final answer")
    return written(value)


def needed_option(letter: str | None, why_none: str) -> str:
    """Return the letter of an option. Raises Unread for None."""
    if letter is None:
        raise Unread(why_none)
    return letter


def options_asked(about: About) -> Options:
    """Return the options among which a stage's problem is to be answered; empty where its answer is a number."""
    if not is_choice(str(about.get("answer", ""))):
        return NO_OPTIONS
    return options_of(about["problems"][-1]["problem"] if "problems" in about else about["problem"])


def equal_answers(first: str, second: str) -> bool:
    """Whether two final answers, each a number or the letter of an option, are the same."""
    if is_choice(first) or is_choice(second):
        return first == second
    return float(first) == float(second)


def answer_in_tag(text: str, options: Options) -> str:
    """The number or chosen option in <answer>. Raises Unread."""
    said = needed(text, "answer")
    return option_in(said, options) or said_answer(said, options)


def yes(text: str, name: str, words: tuple[str, str]) -> bool:
    """Which of two words stands in a tag: the first (True) or the second. Raises Unread for neither."""
    word = needed(text, name).strip(" .*\"'").casefold()
    if word not in words:
        raise Unread(f"<{name}> is neither {words[0]} nor {words[1]}")
    return word == words[0]


def is_refined(text: str) -> bool:
    """Whether a maker says that it has revised its product in its verification."""
    return (tagged(text, "result") or "").strip(" .").casefold() == "yes"


class Validation(NamedTuple):
    """What a validator says of a seed (Figure 7). answer: in its solution's only box, None: there is no such."""

    approved: bool
    solution: str
    answer: str | None


class Made(NamedTuple):
    """A product, and whether its maker revised it."""

    product: Any
    refined: bool = False


class Attempt(NamedTuple):
    """A solution as it was said, and its final answer."""

    text: str
    answer: str


class Steps(NamedTuple):
    """A rephrased solution and its final answer."""

    steps: list[str]
    answer: str


class Correction(NamedTuple):
    """Feedback, the final answer of the corrected solution, and its steps."""

    feedback: Feedback
    answer: str | None
    corrected: list[str]


class Decision(NamedTuple):
    """What is to be done with a flow. last: the last exchange to keep, from 1 on."""

    decision: str
    last: int | None


def choice(text: str, about: About, limits: Limits) -> list[str]:
    """The chosen ones of `options` (their codes), in order, at most `most`; what is no option is left out.

    A code may stand among other words ("Turn 5", "OA: Operations"): the first one of each part counts.
    """
    known = {str(option["code"]).casefold(): str(option["code"]) for option in about["options"]}
    longest_first = "|".join(map(re.escape, sorted(known, key=len, reverse=True)))
    code = re.compile(rf"(?<![\w.])(?:{longest_first})(?!\w|\.\w)")
    parts = BETWEEN_CHOICES.split(needed(text, "choice").casefold())
    chosen = [known[match[0]] for part in parts if (match := code.search(part))]
    return list(dict.fromkeys(chosen))[: int(limits["most"])]


def validation(text: str, about: About, limits: Limits) -> Validation:
    """Y or N, and a solution of its own (Figure 7)."""
    approved = yes(text, "judge", ("y", "n"))
    solution = tagged(text, "solution") or ""
    try:
        return Validation(approved, solution, only_box(solution, options_asked(about)))
    except Unread:
        return Validation(approved, solution, None)


def posed(text: str, about: About, limits: Limits) -> Made:
    """A new problem (Figures 10 and 12): its number, if it has one, is that of `problems` and one more."""
    number = len(about.get("problems", ())) + 1
    question = needed(text, f"question{number}", "question", "question{i}")
    solution = needed(text, f"solution{number}", "solution", "solution{i}")
    options: Options = options_of(question)
    if option_in(needed(text, "answer"), options) is None:  # options that only illustrate: the answer is a number
        options = NO_OPTIONS
    answer = answer_in_tag(text, options)
    if not equal_answers(only_box(solution, options), answer):
        raise Unread("answer and box differ")
    return Made(Posed(problem=question, solution=solution, answer=answer), is_refined(text))


def boxed(text: str, about: About, limits: Limits) -> str:
    """A solver's final answer."""
    return said_answer(text, options_asked(about))


def final_answer(text: str, about: About, limits: Limits) -> Attempt:
    """A weak solver's solution."""
    return Attempt(text.strip(), said_answer(text, options_asked(about)))


def in_steps(text: str) -> list[str]:
    """The steps of a text that numbers them, without their numbers. Raises Unread for one that does not."""
    marks: list[re.Match[str]] = []
    last = 0
    for mark in STEP.finditer(text):
        # "as in Step 1: ..." within a step is no step of its own.
        if mark["own"] or (last and int(mark["within"]) == last + 1):
            marks.append(mark)
            last = int(mark["own"] or mark["within"])
    before = text[: marks[0].start()].strip() if marks else ""
    if not marks or (before and not (before.endswith(":") and "\n" not in before)):
        raise Unread("no numbered steps")
    ends = [*(mark.start() for mark in marks[1:]), len(text)]
    parts = [text[mark.end() : end].strip() for mark, end in zip(marks, ends, strict=True)]
    if not all(parts):
        raise Unread("an empty step")
    return parts


def steps(text: str, about: About, limits: Limits) -> Steps:
    """A solution as two to `most` steps, and its answer."""
    parts = in_steps(needed(text, "steps"))
    if not 2 <= len(parts) <= limits["most"]:
        raise Unread("too few or too many steps")
    return Steps(parts, answer_in_tag(text, options_asked(about)))


def judgement(text: str, about: About, limits: Limits) -> bool:
    """Y or N."""
    return yes(text, "judge", ("y", "n"))


def feedback(text: str, about: About, limits: Limits) -> Correction:
    """Figure 11: whether a solution is right, where it first goes wrong and why, and how it goes on rightly."""
    if yes(text, "correctness", ("yes", "no")):
        return Correction(Feedback(step=0), None, [])
    number = NUMBER.search(needed(text, "error_step_num"))
    if number is None:
        raise Unread("<error_step_num> is no number")
    corrected = needed(text, "corrected_solution")
    parts = in_steps(corrected)
    if len(parts) > limits["most"]:
        raise Unread("too many steps")
    options = options_asked(about)
    answer = answer_in_tag(text, options)
    if BOXED.search(corrected) and not equal_answers(only_box(corrected, options), answer):
        raise Unread("answer and box differ")
    review = Feedback(step=int(number[0][:6]), reason=needed(text, "error_step"), corrected=corrected)
    return Correction(review, answer, parts)


def clarification(text: str, about: About, limits: Limits) -> Made:
    """Turns of query and answer, each of a kind (Figure 13)."""
    kinds = in_a_row(numbered_parts(text, "type"), "type")
    queries = in_a_row(numbered_parts(text, "query"), "query")
    answers = in_a_row(numbered_parts(text, "answer"), "answer")
    if not len(kinds) == len(queries) == len(answers) > 0:
        raise Unread("types, queries and answers are not as many")
    if any(kind.strip(" .").casefold() not in KINDS for kind in kinds):
        raise Unread("a type that is not What, How or Why")
    turns = [
        Clarification(kind=KINDS[kind.strip(" .").casefold()], query=query, answer=answer)
        for kind, query, answer in zip(kinds, queries, answers, strict=True)
    ]
    return Made(turns, is_refined(text))


def names_in(text: str) -> list[str]:
    """The materials that an exchange names; none for `none`."""
    words = [word.strip(" <>/.") for word in re.split(r"[,;\s]+", text)]
    return [word for word in words if word and word.casefold() not in {"none", "and"}]


def flow(text: str, about: About, limits: Limits) -> Flow:
    """A plan (Figure 14): persona, profile, objectives, storyline, exchanges."""
    student = in_a_row(numbered_parts(text, "Sflow"), "Sflow")
    tutor = in_a_row(numbered_parts(text, "Tflow"), "Tflow")
    if len(student) != len(tutor):
        raise Unread("student and tutor do not take turns")
    exchanges = []
    for asked, replied in zip(student, tutor, strict=True):
        named = [word.strip(" .").casefold() for word in needed(replied, "principles").split(",")]
        exchanges.append(
            Exchange(
                student=needed(asked, "action"),
                student_materials=names_in(tagged(asked, "source_material") or ""),
                tutor=needed(replied, "action"),
                tutor_materials=names_in(tagged(replied, "source_material") or ""),
                principles=list(dict.fromkeys("modelling" if word == "modeling" else word for word in named)),
            )
        )
    objectives = [line.strip(" -*\t") for line in needed(text, "objectives").splitlines()]
    return Flow(
        id=str(about["id"]),
        persona=needed(text, "tutor_persona"),
        student_profile=needed(text, "student_profile"),
        objectives=[line for line in objectives if line],
        storyline=needed(text, "storyline"),
        exchanges=exchanges,
    )


def decision(text: str, about: About, limits: Limits) -> Decision:
    """Keep, truncate or discard."""
    word = needed(text, "decision").strip(" .*").casefold()
    if word not in {"keep", "truncate", "discard"}:
        raise Unread("<decision> is not keep, truncate or discard")
    last = NUMBER.search(tagged(text, "last") or "")
    if word == "truncate" and last is None:
        raise Unread("no number in <last>")
    return Decision(word, int(last[0][:6]) if last and word == "truncate" else None)


def dialogue(text: str, about: About, limits: Limits) -> Made:
    """The turns of a conversation (Figure 15): of each exchange the student's and the tutor's."""
    student, tutor = numbered_parts(text, "S"), numbered_parts(text, "T")
    turns = in_a_row(student, "S"), in_a_row(tutor, "T")
    if len(turns[0]) != len(turns[1]):
        raise Unread("student and tutor do not take turns")
    return Made(list(zip(*turns, strict=True)), is_refined(text))


def instruction(text: str, about: About, limits: Limits) -> str:
    """A system prompt."""
    return needed(text, "instruction")


PARSERS: dict[str, Parser] = {
    function.__name__: function
    for function in (
        choice,
        validation,
        posed,
        boxed,
        final_answer,
        steps,
        judgement,
        feedback,
        clarification,
        flow,
        decision,
        dialogue,
        instruction,
    )
}
# What a flow's principles may be; that they are is the rule's question, so that a plan with others is kept as rejected.
KNOWN_PRINCIPLES = frozenset(PRINCIPLES)

# Of a stage card's limits those that a parser needs; parsers that read a text to its end, so that it must have one.
LIMITS: Mapping[str, frozenset[str]] = {
    "choice": frozenset({"most"}),
    "steps": frozenset({"most"}),
    "feedback": frozenset({"most"}),
}
READ_TO_THE_END = frozenset({"boxed", "final_answer"})
