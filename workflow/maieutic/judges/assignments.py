"""Cases for a judge, from tutors' replies to a benchmark, from labelled replies, and from pairs of replies."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from maieutic.config.cards import Card
from maieutic.config.models import JudgeModel
from maieutic.config.rubrics import Criterion, LoadedRubric, Rubric, read_rubric, rubric_for_card
from maieutic.core.errors import UserError
from maieutic.core.plugins import merged_plugin_tables
from maieutic.core.records import Item, Pair, Reply, read_checked_records, read_items, read_records
from maieutic.datasets.labelled_sets import read_labelled_data, rubric_for_labels, sample_replies
from maieutic.datasets.sampling import ranked_by_seed
from maieutic.judges.judging import JudgeWork
from maieutic.judges.questions import Case
from maieutic.serving.conversations import UNKNOWN_SOLUTION, Message, stated_problem

NO_RESPONSE = "Not available"
PAIR_VARIABLES = {"problem", "solution", "conversation", "response_a", "response_b"}
SPEAKER = {"assistant": "Teacher", "user": "Student"}
CONDITIONS: dict[str, Callable[[Item, Sequence[str]], bool]] = merged_plugin_tables("conditions", "CONDITIONS")


def case_of_reply(loaded: LoadedRubric, item: Item, reply: Reply) -> Case:
    """Return the case of one tutor's reply to one item. The texts shown to the judge depend on the rubric's kind."""
    rubric = loaded.rubric
    criteria = criteria_of_reply(loaded, item, reply)
    texts = rubric.rules.texts(item, reply, rubric.about_tutor)
    student_turns = (item.vars.get("student", ""), *item.script)
    return Case(
        item.id, item.task, reply.tutor, judged_variables(item), texts, criteria, student_turns, tuple(item.images)
    )


def criteria_of_reply(loaded: LoadedRubric, item: Item, reply: Reply) -> dict[str, Criterion]:
    """Return the criteria that apply to a reply; empty if these are all criteria of the rubric."""
    return criteria_by_turn(loaded.rubric, reply) if loaded.rubric.rules.by_turn else item_criteria(loaded, item)


def criteria_by_turn(rubric: Rubric, reply: Reply) -> dict[str, Criterion]:
    """Return the criteria about the turns of a conversation that have a text, and those about its first turn."""
    answered = {number for number, turn in enumerate(reply.turns, 1) if turn.text.strip() or number == 1}
    return {name: criterion for name, criterion in rubric.criteria.items() if criterion.turn in answered}


def judged_variables(item: Item) -> dict[str, str]:
    """Return the item's texts for a judge's prompt: its variables, and the solution and response of its reference."""
    solution = item.reference.get("solution")
    return {
        **({"reference_response": str(item.reference["text"] or NO_RESPONSE)} if "text" in item.reference else {}),
        **({"reference_solution": str(solution or UNKNOWN_SOLUTION)} if "solution" in item.reference else {}),
        **item.vars,
    }


def item_criteria(loaded: LoadedRubric, item: Item) -> dict[str, Criterion]:
    """Return the item's own criteria (`reference.criteria`), or the rubric's criteria that apply to the item.

    If the item names groups (`reference.groups`), the criteria in these groups and the criteria without a group apply.
    Returns an empty mapping for an item with neither key, to which all criteria of the rubric apply.
    """
    if criteria := item.reference.get("criteria"):
        return {name: Criterion.model_validate(criterion) for name, criterion in criteria.items()}
    if (groups := item.reference.get("groups")) is None:
        return {}
    return {
        name: criterion
        for name, criterion in loaded.rubric.criteria.items()
        if criterion.group is None or criterion.group in groups
    }


def offered_variables(card: Card, loaded: LoadedRubric, variables: set[str]) -> set[str]:
    """Return the variables that a rubric's prompt may use for a task's replies. variables: the items' variables."""
    return variables | loaded.rubric.rules.variables(len(card.turns), loaded.rubric.about_tutor)


def reply_cases(
    loaded: LoadedRubric, items: Mapping[tuple[str, str], Item], replies: Sequence[Reply], all_of_them: bool = False
) -> JudgeWork:
    """Return the cases of those replies that the tutor's server did not refuse and whose items are known.

    all_of_them: True to ignore the condition in the rubric's `when`, for replies that people have labelled.
    """
    holds = CONDITIONS[loaded.rubric.when] if loaded.rubric.when and not all_of_them else None
    work = []
    for reply in replies:
        item = items.get((reply.task, reply.id))
        if (
            item is None
            or is_unjudged(loaded.rubric, reply)
            or (holds and not holds(item, [turn.text for turn in reply.turns]))
        ):
            continue
        work.append((loaded, case_of_reply(loaded, item, reply)))
    return work


def is_unjudged(rubric: Rubric, reply: Reply) -> bool:
    """Return True if a reply was refused, so that there is nothing to judge.

    If the rubric judges every turn, the turns before the refusal are judged.
    """
    if not reply.error:
        return False
    return not (rubric.rules.by_turn and any(turn.text.strip() for turn in reply.turns))


def work_on_replies(judge: JudgeModel, cards: Sequence[Card], items_dir: Path, replies: Sequence[Path]) -> JudgeWork:
    """Return the cases of all replies to the cards' tasks, except replies by baselines that the card does not name."""
    cases = read_items(items_dir, [card.task for card in cards])
    all_replies = [reply for path in replies for reply in read_checked_records(path, Reply, cases, tutor=...)]
    work: JudgeWork = []
    for card in cards:
        items = {(item.task, item.id): item for item in cases if item.task == card.task}
        subset = [reply for reply in all_replies if reply.task == card.task]
        # A tutor that does not accept pictures has no replies to a task with pictures, so it is not counted there.
        for tutor, number in Counter(reply.tutor for reply in subset).items():
            if number != len(items):
                raise UserError(
                    ", ".join(map(str, replies)),
                    f"expected {len(items)} replies by {tutor} to {card.task}, found {number}",
                    "delete these files and run again",
                )
        subset = [reply for reply in subset if not reply.trivial or reply.tutor in card.baselines.named]
        for loaded, case in reply_cases(rubric_for_card("judge", judge, card), items, subset):
            work.append((loaded, case._replace(repeat=items[case.task, case.id].repeat % judge.repeats)))
    return work


def work_on_labels(judge: JudgeModel, folders: Sequence[Path], limit: int | None, seed: int) -> JudgeWork:
    """Return the cases of labelled replies, or of a random sample of each set. folders: results/labels/SET of each set.

    A set without labels is not sampled: all its replies are judged, under the criteria in its description.
    """
    work: JudgeWork = []
    for folder in folders:
        labels = read_labelled_data(folder)
        if (loaded := rubric_for_labels(judge, labels.about)) is None:
            continue
        items = {(item.task, item.id): item for item in labels.items.values()}
        replies = sample_replies(labels.replies, limit if labels.labels else None, seed)
        labelled = {label.criterion for label in labels.labels} or set(labels.about.asked)
        # Skip criteria that people have not labelled.
        criteria = {name: criterion for name, criterion in loaded.rubric.criteria.items() if name in labelled}
        cases = reply_cases(loaded, items, replies, all_of_them=True)
        work += [(rubric, case._replace(task=folder.name, criteria=criteria)) for rubric, case in cases]
    return work


def conversation_text(messages: Sequence[Message]) -> str:
    """Return a dialogue as lines `Teacher: ...` and `Student: ...`."""
    return "\n".join(f"{SPEAKER[message['role']]}: {message['content']}" for message in messages)


def pairs_task(source: str) -> str:
    """Return the task name of a judge's questions about a set of pairs."""
    return f"{source}_pairs"


def pair_case(pair: Pair) -> Case:
    """Return the case of a pair. The first message of the pair's prompt states the problem and its solution."""
    _, _, solution = pair.prompt[0]["content"].partition("\nReference Solution: ")
    variables = {
        "problem": stated_problem(pair.prompt),
        "solution": solution,
        "conversation": conversation_text(pair.prompt[1:]),
    }
    return Case(pair.id, pairs_task(pair.source), None, variables, {"first": pair.chosen, "second": pair.rejected})


def work_on_pairs(judge: JudgeModel, pairs: Path | None, limit: int | None, seed: int) -> JudgeWork:
    """Return the cases of all pairs, or of a random sample, under each of the judge's rubrics for pairs."""
    if pairs is None or not judge.pairs:
        return []
    all_pairs = read_records(pairs, Pair)
    chosen = set(
        ranked_by_seed((pair.id for pair in all_pairs), seed)[: limit if limit is not None else len(all_pairs)]
    )
    return [(read_rubric(name), pair_case(pair)) for name in judge.pairs for pair in all_pairs if pair.id in chosen]
