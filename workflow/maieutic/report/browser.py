"""The items that the page lets a reader look through: prompt, reply, what was read, reference."""

from __future__ import annotations

import base64
import io
import shutil
from collections import defaultdict
from collections.abc import Callable, Container, Iterable, Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from maieutic.config.cards import Card
from maieutic.config.models import BaselineModel
from maieutic.core import paths
from maieutic.core.files import whole_file
from maieutic.core.records import Grade, Item, Prompt, Reply, each_record
from maieutic.core.visible import embedded
from maieutic.datasets.pictures import on_white
from maieutic.datasets.sampling import select
from maieutic.judges.rubrics import word_of
from maieutic.plan.plan import Plan, sources_of
from maieutic.report.tables import items_of_task, label_of, read_json
from maieutic.serving.pictures import text_of

THUMBNAIL = 480  # pixels of the longer side of a picture on the page
LONGEST = 4000  # characters of a text that the page shows


def short(text: str) -> str:
    """A text of a length that a page can hold."""
    return text if len(text) <= LONGEST else f"{text[:LONGEST]} [... {len(text) - LONGEST} more characters]"


def outcome(grade: Grade) -> str:
    """right, wrong, none, or the value where right and wrong do not apply."""
    if grade.correct is not None:
        return "right" if grade.correct else "wrong"
    return "none" if grade.value is None else "value"


def readings_of(grades: Iterable[Grade], heads: Container[Kind]) -> list[dict[str, Any]]:
    """What the page shows of the grades of a reply: a passage from which one grader read several stands once."""
    shown: list[dict[str, Any]] = []
    passages: set[tuple[str, str | None, str]] = set()
    for grade in grades:
        passage = grade.kind, grade.by, grade.raw
        new = grade.raw.strip() and passage not in passages
        passages.add(passage)
        shown.append(reading(grade, heads) | ({"raw": grade.raw} if new else {}))
    return shown


def reading(grade: Grade, heads: Container[Kind]) -> dict[str, Any]:
    """What the page shows of a grade; `head` marks the one that the task's headline counts."""
    value = round(grade.value, 4) if isinstance(grade.value, float) else grade.value
    name = f"{grade.kind}/{grade.scoring}{f' {grade.criterion}' if grade.criterion else ''}"
    shown = {"by": name, "value": value, "outcome": outcome(grade), "why": grade.why_none, "reason": grade.reason}
    return shown | ({"head": 1} if kind_of(grade) in heads else {})


Kind = tuple[str, str, str, str | None]  # of grades: task, kind, scoring, criterion


def kind_of(grade: Grade) -> Kind:
    """What a grade is of."""
    return grade.task, grade.kind, grade.scoring, grade.criterion


def head_kinds(cards: Iterable[Card]) -> set[Kind]:
    """The grades that each card's headline counts, read by robust."""
    return {
        (card.task, metric.grader or card.graders[0], "robust", metric.criterion)
        for card in cards
        for metric in [card.headline_metric]
        if metric
    }


def reference_of(item: Item) -> str:
    """What a reply is held against: a text, or the item's own criteria."""
    criteria = item.reference.get("criteria", {})
    lines = [f"{name} ({criterion['weight']:+g}): {criterion['definition']}" for name, criterion in criteria.items()]
    return str(item.reference.get("text") or "\n".join(lines))


@lru_cache(maxsize=512)
def thumbnail(results: Path, file: str) -> str:
    """A picture of an item, small enough for the page, as a data URL; empty where its file is gone."""
    from PIL import Image, ImageOps

    path = paths.PICTURE_STORE.within(results) / file
    if not path.is_file():
        return ""
    with Image.open(path) as picture:
        small = on_white(ImageOps.exif_transpose(picture))
        small.thumbnail((THUMBNAIL, THUMBNAIL))
        held = io.BytesIO()
        small.save(held, "JPEG", quality=70, optimize=True)
    return f"data:image/jpeg;base64,{base64.b64encode(held.getvalue()).decode()}"


Place = tuple[str, str, str]  # tutor, task, item
Messages = list[tuple[str, str]]  # of a prompt, each its role and its text
Outcomes = dict[str, int]
Readings = dict[tuple[str, str], tuple[Outcomes, list[float]]]  # of a tutor on a task


class GradePass(NamedTuple):
    """What one reading of all grades of a benchmark leaves.

    readings: how the readings behind each card's headline came out, and their values; shown: all grades of the items
    that the browser holds; divided: of these the replies on which judges differ, and who says what.
    """

    readings: Readings
    shown: dict[Place, list[Grade]]
    divided: dict[Place, list[str]]


def chosen_items(plan: Plan, results: Path, benchmark: str) -> dict[str, list[Item]]:
    """The items of each task that the browser holds: a sample."""
    names = [loaded.card.task for loaded in plan.benchmarks[benchmark]]
    number, seed = plan.config.report.browser_items, plan.run.seed
    return {name: select(items_of_task(results, benchmark, name), number, seed) for name in names}


def pass_grades(plan: Plan, results: Path, benchmark: str) -> GradePass:
    """Read every grade of a benchmark's replies once, and keep what the page needs of them."""
    wanted = head_kinds(loaded.card for loaded in plan.benchmarks[benchmark])
    places = {(task, item.id) for task, items in chosen_items(plan, results, benchmark).items() for item in items}
    readings: Readings = defaultdict(lambda: (defaultdict(int), []))
    shown: dict[Place, list[Grade]] = defaultdict(list)
    for model in plan.tutors:
        for grade in all_grades(plan, results, benchmark, model):
            if kind_of(grade) in wanted:
                add_reading(readings[model, grade.task], grade)
            if (grade.task, grade.id) in places:
                shown[model, grade.task, grade.id].append(grade)
    return GradePass(readings, shown, divided(plan, results, benchmark, places))


def divided(plan: Plan, results: Path, benchmark: str, places: Container[tuple[str, str]]) -> dict[Place, list[str]]:
    """The replies to some items on which the run's judges differ: by criterion who says what.

    A panel is no further judge, nor are lists of words.
    """
    said: dict[Place, dict[str, dict[str, str]]] = defaultdict(lambda: defaultdict(dict))
    for tutor in plan.tutors:
        judges = [name for name in plan.judges_of(benchmark, tutor) if name in plan.asked_judges]
        for judge in judges if len(judges) > 1 else ():
            for grade in grades_in(paths.JUDGE_GRADES.within(results, benchmark=benchmark, judge=judge, tutor=tutor)):
                if (
                    grade.scoring == "robust"
                    and isinstance(grade.value, str | bool)
                    and (grade.task, grade.id) in places
                ):
                    criterion = grade.criterion or "verdict"
                    said[tutor, grade.task, grade.id][criterion][label_of(plan, judge)] = word_of(grade.value)
    apart = {
        place: [
            f"{criterion}: {', '.join(f'{judge} {word}' for judge, word in words.items())}"
            for criterion, words in by_criterion.items()
            if len(set(words.values())) > 1
        ]
        for place, by_criterion in said.items()
    }
    return {place: lines for place, lines in apart.items() if lines}


def add_reading(to: tuple[Outcomes, list[float]], grade: Grade) -> None:
    """Count one reading."""
    outcomes, values = to
    outcomes[outcome(grade)] += 1
    if isinstance(grade.value, int | float):
        values.append(float(grade.value))


class TaskItems(NamedTuple):
    """The shown items of one task with every tutor's reply, and the prompts that these name, by their hash."""

    items: list[dict[str, Any]]
    prompts: dict[str, Messages]


def browse(plan: Plan, results: Path, grades: Callable[[str], GradePass]) -> Iterator[tuple[str, TaskItems]]:
    """A sample of the items of each task, by `benchmark/task`, a benchmark at a time.

    grades: of a benchmark.
    """
    for benchmark, loadeds in plan.benchmarks.items():
        items = chosen_items(plan, results, benchmark)
        cards = [loaded.card for loaded in loadeds]
        by_item: dict[tuple[str, str], list[dict[str, Any]]] = defaultdict(list)
        prompts: dict[str, Messages] = {}
        for model in plan.tutors:
            own_tasks = {card.task for card in cards if plan.belongs(card, model)}
            shown = {(item.task, item.id) for task in own_tasks for item in items[task]}
            add_replies(plan, results, benchmark, model, shown, by_item, prompts, grades(benchmark))
        leaked = leaked_in(plan, results, benchmark)
        grades(benchmark).shown.clear()  # of a hundred tutors a gigabyte, and only needed here
        for task, sample in items.items():
            replies = [by_item[item.task, item.id] for item in sample]
            named = {reply["prompt"] for own in replies for reply in own if reply["prompt"]}
            yield (
                f"{benchmark}/{task}",
                TaskItems(
                    [
                        {
                            "id": item.id,
                            "reference": short(reference_of(item)),
                            "pictures": [thumbnail(results, file) for file in item.images],
                            "tags": " ".join(item.tags.values()),
                            "replies": own,
                            **({"leaked": lines} if (lines := leaked.get((item.task, item.id))) else {}),
                        }
                        for item, own in zip(sample, replies, strict=True)
                    ],
                    {name: prompts[name] for name in sorted(named)},
                ),
            )


def leaked_in(plan: Plan, results: Path, benchmark: str) -> dict[tuple[str, str], list[str]]:
    """The items, by task and id, of which the leading reward model has seen something in training, with what."""
    seen: dict[tuple[str, str], list[str]] = defaultdict(list)
    for name in plan.run.reward_models[:1] if benchmark in plan.rewarded_benchmarks else ():
        for source in sources_of(plan.models[name]):
            found = read_json(paths.OVERLAP.within(results, source=source, benchmark=benchmark)) or {}
            for task, of in found.items():
                for item in of["problems"]:
                    seen[task, item].append(f"its problem, in {source}")
                for item in of["leaked"]:
                    seen[task, item].append(f"its human reply, in {source}")
    return seen


NO_ITEMS: dict[str, dict[str, Any]] = {"prompts": {}, "tasks": {}, "beside": {}}


def write_items(tasks: Iterable[tuple[str, TaskItems]], folder: Path, most: float) -> dict[str, dict[str, Any]]:
    """The items for the page: all of them, or where they take more than `most` bytes the files that hold them.

    A file for each task is a script, since a page from disk may load nothing else. It goes into `folder`, which holds
    nothing where the page has all.
    """
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True, exist_ok=True)
    data: dict[str, dict[str, Any]] = {name: {} for name in NO_ITEMS}
    size = 0
    for task, chunk in tasks:
        text = embedded(chunk._asdict())
        size += len(text)
        name = f"{task.replace('/', '-')}.js"
        with whole_file(folder / name) as handle:
            handle.write(f"items({embedded(task)}, {text});\n")
        data["beside"][task] = f"{folder.name}/{name}"
        if size <= most:
            data["tasks"][task] = chunk.items
            data["prompts"] |= chunk.prompts
        else:
            data["tasks"], data["prompts"] = {}, {}
    if size <= most:
        data["beside"] = {}
        for path in folder.iterdir():
            path.unlink()
    return data


def all_grades(plan: Plan, results: Path, benchmark: str, model: str) -> Iterator[Grade]:
    """What was said of one tutor's replies: by each task's first judge, the first reward model, then the parsers."""
    files = [
        paths.REWARD_GRADES.within(results, benchmark=benchmark, reward_model=name, tutor=model)
        for name in plan.run.reward_models[:1]
    ]
    files.append(paths.PARSED.within(results, benchmark=benchmark, tutor=model))
    yield from judge_grades(plan, results, benchmark, model)
    for path in files:
        yield from grades_in(path)


def judge_grades(plan: Plan, results: Path, benchmark: str, model: str) -> list[Grade]:
    """What each task's first judge said of one tutor's replies; its verdicts are the same under both scorings."""
    leads = {card.task: plan.judges_of_card(card)[0] for card in plan.judge_cards(benchmark)}
    return [
        grade
        for judge in dict.fromkeys(leads.values())
        for grade in grades_in(paths.JUDGE_GRADES.within(results, benchmark=benchmark, judge=judge, tutor=model))
        if grade.scoring == "robust" and leads[grade.task] == judge
    ]


def grades_in(path: Path) -> Iterator[Grade]:
    """The grades of a file; none where the run has not come to it."""
    return each_record(path, Grade) if path.exists() else iter(())


def add_replies(
    plan: Plan,
    results: Path,
    benchmark: str,
    model: str,
    shown: set[tuple[str, str]],
    by_item: dict[tuple[str, str], list[dict[str, Any]]],
    prompts: dict[str, Messages],
    grades: GradePass,
) -> None:
    """Add one tutor's replies to the shown items."""
    replies = paths.REPLIES.within(results, benchmark=benchmark, tutor=model)
    if not paths.PARSED.within(results, benchmark=benchmark, tutor=model).exists() or not replies.exists():
        return
    heads = head_kinds(loaded.card for loaded in plan.benchmarks[benchmark])
    sent = {}
    if not isinstance(plan.models[model], BaselineModel):
        sent = {
            prompt.messages: prompt.content
            for prompt in each_record(paths.PROMPTS.within(results, benchmark=benchmark, tutor=model), Prompt)
        }
    for reply in each_record(replies, Reply):
        key = (reply.task, reply.id)
        if key not in shown:
            continue
        hashes = [turn.messages for turn in reply.turns if turn.messages in sent]
        for digest in hashes:
            prompts[digest] = [(part["role"], text_of(part["content"])) for part in sent[digest]]
        by_item[key].append(
            {
                "model": model,
                "text": short(reply.text),
                "error": reply.error,
                "finish": reply.turns[-1].finish if reply.turns else None,
                "thinking": short(reply.turns[-1].reasoning or "") if reply.turns else "",
                "prompt": hashes[-1] if hashes else None,
                "grades": readings_of(grades.shown.get((model, *key), []), heads),
                **({"divided": lines} if (lines := grades.divided.get((model, *key))) else {}),
            }
        )
