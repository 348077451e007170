"""What a judge is given: tutors' replies to a benchmark, labelled replies, pairs of replies."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from maieutic.config.cards import Card
from maieutic.config.models import JudgeModel
from maieutic.core.errors import UserError
from maieutic.core.plugins import merged
from maieutic.core.records import Item, LabelSetAbout, Pair, Reply, read_items, read_records, records_about
from maieutic.datasets.sampling import ranked
from maieutic.judges.judging import Work
from maieutic.judges.labels import fits, read_labels, sampled
from maieutic.judges.questions import Case
from maieutic.judges.rubrics import Criterion, LoadedRubric, chosen_rubrics, read_rubric
from maieutic.serving.conversations import UNKNOWN_SOLUTION, Message, problem_of

NO_RESPONSE = "Not available"
PAIR_VARIABLES = {"problem", "solution", "conversation", "response_a", "response_b"}
SPEAKER = {"assistant": "Teacher", "user": "Student"}
CONDITIONS: dict[str, Callable[[Item, Sequence[str]], bool]] = merged("conditions", "CONDITIONS")


def rubric_of(key: str, judge: JudgeModel, card: Card) -> LoadedRubric:
    """The rubric by which a judge judges a task's replies: the first of its own that the card names."""
    for name in chosen_rubrics(judge.rubrics, card.rubrics):
        return read_rubric(name)
    raise UserError(
        f"{key}.rubrics",
        f"none of {', '.join(judge.rubrics) or 'none'} is for {card.benchmark}/{card.task}",
        f"its card takes {', '.join(card.rubrics)}",
    )


def rubric_for_labels(judge: JudgeModel, about: LabelSetAbout) -> LoadedRubric | None:
    """The rubric by which a judge is checked on a labelled set: its first that fits the set's labels."""
    return next((loaded for name in judge.rubrics if fits(about, loaded := read_rubric(name))), None)


def case_of(loaded: LoadedRubric, item: Item, reply: Reply) -> Case:
    """One tutor's reply to one item: a conversation turn by turn, a comparison with the reference."""
    rubric, criteria = loaded.rubric, criteria_of(loaded, item)
    texts = rubric.rules.texts(item, reply, rubric.about_tutor)
    return Case(item.id, item.task, reply.tutor, judged_variables(item), texts, criteria, tuple(item.images))


def judged_variables(item: Item) -> dict[str, str]:
    """What a judge's prompt may say of an item: its variables, and of the reference the solution and the response."""
    solution = item.reference.get("solution")
    return {
        **({"reference_response": str(item.reference["text"] or NO_RESPONSE)} if "text" in item.reference else {}),
        **({"reference_solution": str(solution or UNKNOWN_SOLUTION)} if "solution" in item.reference else {}),
        **item.vars,
    }


def criteria_of(loaded: LoadedRubric, item: Item) -> dict[str, Criterion]:
    """The criteria that an item brings (`reference.criteria`), or those of the rubric's groups that it names.

    `reference.groups`: a criterion of another group does not apply; one without a group applies always.
    """
    if own := item.reference.get("criteria"):
        return {name: Criterion.model_validate(criterion) for name, criterion in own.items()}
    if (groups := item.reference.get("groups")) is None:
        return {}
    return {
        name: criterion
        for name, criterion in loaded.rubric.criteria.items()
        if criterion.group is None or criterion.group in groups
    }


def offered_by(card: Card, loaded: LoadedRubric, variables: set[str]) -> set[str]:
    """The variables that a rubric's prompt may use for a task's replies. variables: those of its items."""
    return variables | loaded.rubric.rules.variables(len(card.turns), loaded.rubric.about_tutor)


def reply_cases(
    loaded: LoadedRubric, items: Mapping[tuple[str, str], Item], replies: Sequence[Reply], all_of_them: bool = False
) -> Work:
    """Replies with their items. A reply that its server refused is nothing to judge.

    all_of_them: whatever the rubric's `when` says, as of replies that people have judged.
    """
    holds = CONDITIONS[loaded.rubric.when] if loaded.rubric.when and not all_of_them else None
    work = []
    for reply in replies:
        item = items.get((reply.task, reply.id))
        if item is None or reply.error or (holds and not holds(item, [turn.text for turn in reply.turns])):
            continue
        work.append((loaded, case_of(loaded, item, reply)))
    return work


def work_on_replies(judge: JudgeModel, cards: Sequence[Card], items_dir: Path, replies: Sequence[Path]) -> Work:
    """Every reply of some tutors to the tasks of some cards. Of baseline tutors, those that the card names."""
    cases = read_items(items_dir, [card.task for card in cards])
    all_replies = [reply for path in replies for reply in records_about(path, Reply, cases, tutor=...)]
    work: Work = []
    for card in cards:
        items = {(item.task, item.id): item for item in cases if item.task == card.task}
        subset = [reply for reply in all_replies if reply.task == card.task]
        for tutor, number in Counter(reply.tutor for reply in subset).items():  # one that takes no pictures has none
            if number != len(items):
                raise UserError(
                    ", ".join(map(str, replies)),
                    f"{len(items)} replies of {tutor} to {card.task} expected, {number} found",
                    "delete these files and run again",
                )
        subset = [reply for reply in subset if not reply.trivial or reply.tutor in card.baselines.named]
        work += reply_cases(rubric_of("judge", judge, card), items, subset)
    return work


def work_on_labels(judge: JudgeModel, folders: Sequence[Path], limit: int | None, seed: int) -> Work:
    """Labelled replies, or a random sample of each release's. folders: results/labels/SOURCE.

    Of a release without labels all replies, under the criteria that it asks for.
    """
    work: Work = []
    for folder in folders:
        labels = read_labels(folder)
        if (loaded := rubric_for_labels(judge, labels.about)) is None:
            continue
        items = {(item.task, item.id): item for item in labels.items.values()}
        replies = sampled(labels.replies, limit if labels.labels else None, seed)
        labelled = {label.criterion for label in labels.labels} or set(labels.about.asked)
        # What people have not labelled is not asked about.
        criteria = {name: criterion for name, criterion in loaded.rubric.criteria.items() if name in labelled}
        cases = reply_cases(loaded, items, replies, all_of_them=True)
        work += [(rubric, case._replace(task=folder.name, criteria=criteria)) for rubric, case in cases]
    return work


def conversation_text(messages: Sequence[Message]) -> str:
    """A dialogue as lines `Teacher: ...` and `Student: ...`."""
    return "\n".join(f"{SPEAKER[message['role']]}: {message['content']}" for message in messages)


def pairs_task(source: str) -> str:
    """The task of a judge that is asked about a set of pairs."""
    return f"{source}_pairs"


def pair_case(pair: Pair) -> Case:
    """Two replies to one dialogue. The first message states problem and solution, as reward models are told them."""
    _, _, solution = pair.prompt[0]["content"].partition("\nReference Solution: ")
    variables = {
        "problem": problem_of(pair.prompt),
        "solution": solution,
        "conversation": conversation_text(pair.prompt[1:]),
    }
    return Case(pair.id, pairs_task(pair.source), None, variables, {"first": pair.chosen, "second": pair.rejected})


def work_on_pairs(judge: JudgeModel, pairs: Path | None, limit: int | None, seed: int) -> Work:
    """Every pair, or a random sample, under each of the judge's rubrics for pairs."""
    if pairs is None or not judge.pairs:
        return []
    read = read_records(pairs, Pair)
    chosen = set(ranked((pair.id for pair in read), seed)[: limit if limit is not None else len(read)])
    return [(read_rubric(name), pair_case(pair)) for name in judge.pairs for pair in read if pair.id in chosen]
