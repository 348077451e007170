"""Questions to a judge: their messages, and the combination of verdicts on a pair in both orders."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from maieutic.config.prompts import Messages, render, template_variables
from maieutic.config.rubric_kinds import Order
from maieutic.config.rubrics import Criterion, LoadedRubric, Rubric
from maieutic.core.errors import UserError
from maieutic.core.records import Judgement, Verdict
from maieutic.judges.answers import answer_schema
from maieutic.judges.fencing import fence_texts


class Case(NamedTuple):
    """One reply, or a pair of replies, with its context.

    variables: trusted texts of the benchmark; replies: tutors' texts, which are fenced, by the name `response`, or
    `response_1`, ... for a conversation, or `first` and `second` for a pair; criteria: criteria that replace the
    rubric's, if any; student_turns: the student's turns, for a conversation that follows a script; images: files in the
    picture store, for judges that accept pictures; repeat: number of earlier questions with the same content.
    """

    id: str
    task: str
    tutor: str | None
    variables: Mapping[str, str]
    replies: Mapping[str, str]
    criteria: Mapping[str, Criterion] = {}
    student_turns: tuple[str, ...] = ()
    images: tuple[str, ...] = ()
    repeat: int = 0


class Question(NamedTuple):
    """One question to a judge: its criteria, and the order in which a pair's replies are shown."""

    criteria: dict[str, Criterion]
    order: Order | None


def questions_about(rubric: Rubric, case: Case) -> list[Question]:
    """Return the questions about a case: one per criterion or one for all criteria, in one or both orders of a pair."""
    criteria = dict(case.criteria or rubric.criteria)
    if not criteria and rubric.rules.needs_criteria:
        problem = f"neither the item nor the rubric {rubric.rubric} has criteria"
        raise UserError(f"{case.task}/{case.id}", problem, "add criteria to the item or to the rubric")
    parts = [{name: criterion} for name, criterion in criteria.items()] if rubric.separate else [criteria]
    orders: list[Order | None] = ["ab", "ba"] if rubric.both_orders else ["ab"] if rubric.rules.paired else [None]
    return [Question(part, order) for part in parts for order in orders]


def replies_by_variable(case: Case, order: Order | None) -> dict[str, str]:
    """Return the replies by prompt variable: under their own names, or as `response_a` and `response_b` for a pair."""
    if order is None or "first" not in case.replies:
        return dict(case.replies)
    first, second = ("first", "second") if order == "ab" else ("second", "first")
    return {"response_a": case.replies[first], "response_b": case.replies[second]}


def question_messages(loaded: LoadedRubric, case: Case, question: Question, pictures: bool = False) -> Messages:
    """Return a question's system and user messages, with a notice about fences unless the prompt contains the notice.

    pictures: True if the request includes the item's pictures, which a prompt may mention.
    """
    blocks, notice = fence_texts(replies_by_variable(case, question.order))
    criterion = next(iter(question.criteria.values()), None)
    variables: dict[str, Any] = {
        **case.variables,
        **blocks,
        **loaded.rubric.rules.conversation(case.student_turns, blocks),
        "notice": notice,
        "criteria": question.criteria,
        "definition": criterion.definition if criterion else "",
        "scoring": criterion.scoring if criterion else "",
        "order": question.order,
        "picture_shown": pictures and bool(case.images),
    }
    user = {"role": "user", "content": render(loaded.prompt, variables, "")}
    # Some prompts contain the notice, so that the text before it can be cached. Without replies, nothing is fenced.
    placed = "notice" in template_variables(loaded.prompt) or not case.replies
    if not loaded.system:
        return [user if placed else {"role": "user", "content": f"{notice}\n\n{user['content']}"}]
    system = render(loaded.system, variables, "").strip()
    return [{"role": "system", "content": system if placed else f"{system}\n\n{notice}"}, user]


def response_format(rubric: Rubric, question: Question, reasons: bool) -> dict[str, Any]:
    """Return the request field that restricts a server's answer to the question's JSON schema."""
    schema = answer_schema(rubric, question.criteria, reasons)
    return {"type": "json_schema", "json_schema": {"name": rubric.rubric, "schema": schema, "strict": True}}


def resolve_verdict(rubric: Rubric, question: Question, value: str | bool | None) -> str | bool | None:
    """Convert a verdict about A and B to one about the first and second reply, by the question's order."""
    if not isinstance(value, str) or question.order is None:
        return value
    return rubric.rules.resolve_position(value, question.order, rubric.about_tutor)


def verdict_of_both_orders(values: Mapping[Order, str | bool | None]) -> str | bool | None:
    """Return the verdict of both orders combined: the common verdict, a tie if they differ, None if one is missing.

    Different verdicts count as a tie: a judge that prefers the same position in both orders has judged the position,
    not the replies.
    """
    if None in values.values() or len(values) < 2:
        return None
    first, *others = values.values()
    return first if all(other == first for other in others) else "tie"


OrderedVerdicts = dict[str | None, dict[Order | None, tuple[Verdict, str]]]


def verdicts_by_order(judgements: Iterable[Judgement]) -> OrderedVerdicts:
    """Return each criterion's verdict and raw answer by order. Later answers replace earlier ones."""
    by_criterion: OrderedVerdicts = {}
    for judgement in judgements:
        for verdict in judgement.verdicts:
            by_criterion.setdefault(verdict.criterion, {})[judgement.order] = (verdict, judgement.raw)
    return by_criterion


def verdicts_by_criterion(judgements: Iterable[Judgement], both_orders: bool) -> dict[str | None, tuple[Verdict, str]]:
    """Return each criterion's verdict on one reply by one rubric, with the raw answer.

    both_orders: True to combine the verdicts of both orders.
    """
    by_criterion = verdicts_by_order(judgements)
    if not both_orders:
        return {name: next(reversed(verdicts.values())) for name, verdicts in by_criterion.items()}
    return {name: combine_orders(name, verdicts) for name, verdicts in by_criterion.items()}


def leads_to_follow_up(rubric: Rubric, judgements: Iterable[Judgement]) -> bool:
    """Return True if the verdicts on one reply lead to the rubric's follow-up question."""
    if (more := rubric.follow_up) is None:
        return False
    verdicts = verdicts_by_criterion(judgements, rubric.both_orders)
    return more.criterion in verdicts and verdicts[more.criterion][0].value == more.value


def combine_orders(name: str | None, verdicts: Mapping[Order | None, tuple[Verdict, str]]) -> tuple[Verdict, str]:
    """Return one criterion's verdict combined from both orders, with both raw answers."""
    raw = "\n\n".join(text for _, text in verdicts.values())
    value = verdict_of_both_orders({order: verdict.value for order, (verdict, _) in verdicts.items() if order})
    why = next((verdict.why_none for verdict, _ in verdicts.values() if verdict.why_none), "one order is missing")
    return Verdict(criterion=name, value=value, why_none=None if value is not None else why), raw
