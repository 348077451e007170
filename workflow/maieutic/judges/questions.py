"""From what is to be judged to the questions that are put to a judge."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from maieutic.config.prompts import Messages, render, variables_of
from maieutic.core.errors import UserError
from maieutic.core.records import Judgement, Verdict
from maieutic.judges.answers import schema_of
from maieutic.judges.fencing import fenced
from maieutic.judges.kinds.base import Order
from maieutic.judges.rubrics import Criterion, LoadedRubric, Rubric


class Case(NamedTuple):
    """One reply, or two, with what stands before it.

    variables: trusted texts of the benchmark; replies: texts of tutors, which are fenced: `response` (and `response_1`,
    ... of a conversation), or `first` and `second` of a pair; criteria: where the rubric leaves them to the item;
    images: files of the picture store, which a judge that takes pictures is shown; repeat: how often the same was asked
    before.
    """

    id: str
    task: str
    tutor: str | None
    variables: Mapping[str, str]
    replies: Mapping[str, str]
    criteria: Mapping[str, Criterion] = {}
    images: tuple[str, ...] = ()
    repeat: int = 0


class Question(NamedTuple):
    """One request: about which criteria, and in which order two replies are shown."""

    criteria: dict[str, Criterion]
    order: Order | None


def questions_of(rubric: Rubric, case: Case) -> list[Question]:
    """What is asked about one case: each criterion alone or all at once, two replies in both orders."""
    criteria = dict(case.criteria or rubric.criteria)
    if not criteria and rubric.rules.needs_criteria:
        raise UserError(f"{case.task}/{case.id}", f"neither it nor {rubric.rubric} has criteria", "add them to one")
    parts = [{name: criterion} for name, criterion in criteria.items()] if rubric.separate else [criteria]
    orders: list[Order | None] = ["ab", "ba"] if rubric.both_orders else ["ab"] if rubric.rules.paired else [None]
    return [Question(part, order) for part in parts for order in orders]


def shown_replies(case: Case, order: Order | None) -> dict[str, str]:
    """The replies under the names that prompts use: their own, or `response_a` and `response_b` of a pair."""
    if order is None or "first" not in case.replies:
        return dict(case.replies)
    first, second = ("first", "second") if order == "ab" else ("second", "first")
    return {"response_a": case.replies[first], "response_b": case.replies[second]}


def messages_of(loaded: LoadedRubric, case: Case, question: Question, pictures: bool = False) -> Messages:
    """The system and the user message. The notice of the fence ends the system message, unless the prompt places it.

    pictures: whether the judge is shown the item's pictures, which a prompt may say.
    """
    blocks, notice = fenced(shown_replies(case, question.order))
    criterion = next(iter(question.criteria.values()), None)
    variables: dict[str, Any] = {
        **case.variables,
        **blocks,
        "notice": notice,
        "criteria": question.criteria,
        "definition": criterion.definition if criterion else "",
        "scoring": criterion.scoring if criterion else "",
        "order": question.order,
        "picture_shown": pictures and bool(case.images),
    }
    user = {"role": "user", "content": render(loaded.prompt, variables, "")}
    # A card may say where it stands: what is before it can be cached. Without a reply there is nothing to fence.
    placed = "notice" in variables_of(loaded.prompt) or not case.replies
    if not loaded.system:
        return [user if placed else {"role": "user", "content": f"{notice}\n\n{user['content']}"}]
    system = render(loaded.system, variables, "").strip()
    return [{"role": "system", "content": system if placed else f"{system}\n\n{notice}"}, user]


def form_of(rubric: Rubric, question: Question, reasons: bool) -> dict[str, Any]:
    """The request's field that makes a server decode by the answer's schema."""
    schema = schema_of(rubric, question.criteria, reasons)
    return {"type": "json_schema", "json_schema": {"name": rubric.rubric, "schema": schema, "strict": True}}


def in_own_terms(rubric: Rubric, question: Question, value: str | bool | None) -> str | bool | None:
    """A verdict about A and B as one about the first and the second reply, whatever stood where."""
    if not isinstance(value, str) or question.order is None:
        return value
    return rubric.rules.in_own_terms(value, question.order, rubric.about_tutor)


def consistent(values: Mapping[Order, str | bool | None]) -> str | bool | None:
    """The verdict of both orders: what both say; a tie where they differ; none where one cannot be read.

    A judge that names the same place in both orders has judged the place.
    """
    if None in values.values() or len(values) < 2:
        return None
    first, *others = values.values()
    return first if all(other == first for other in others) else "tie"


Said = dict[str | None, dict[Order | None, tuple[Verdict, str]]]


def by_order(judgements: Iterable[Judgement]) -> Said:
    """Each criterion's verdict in each order, with the answer that it was read from; a later answer counts."""
    by_criterion: Said = {}
    for judgement in judgements:
        for verdict in judgement.verdicts:
            by_criterion.setdefault(verdict.criterion, {})[judgement.order] = (verdict, judgement.raw)
    return by_criterion


def merged(judgements: Iterable[Judgement], both_orders: bool) -> dict[str | None, tuple[Verdict, str]]:
    """Each criterion's verdict on one reply by one rubric, with the answer that it was read from.

    Of both orders, what they say together.
    """
    by_criterion = by_order(judgements)
    if not both_orders:
        return {name: next(reversed(verdicts.values())) for name, verdicts in by_criterion.items()}
    return {name: agreed(name, verdicts) for name, verdicts in by_criterion.items()}


def asks_further(rubric: Rubric, judgements: Iterable[Judgement]) -> bool:
    """Whether the verdicts on one reply lead to the rubric's further question."""
    if (more := rubric.follow_up) is None:
        return False
    verdicts = merged(judgements, rubric.both_orders)
    return more.criterion in verdicts and verdicts[more.criterion][0].value == more.value


def agreed(name: str | None, verdicts: Mapping[Order | None, tuple[Verdict, str]]) -> tuple[Verdict, str]:
    """One criterion's verdict of both orders."""
    raw = "\n\n".join(text for _, text in verdicts.values())
    value = consistent({order: verdict.value for order, (verdict, _) in verdicts.items() if order})
    why = next((verdict.why_none for verdict, _ in verdicts.values() if verdict.why_none), "one order is not there")
    return Verdict(criterion=name, value=value, why_none=None if value is not None else why), raw
