"""Data of the item browser: a sample of each task's items with prompts, replies, grades and references."""

from __future__ import annotations

import base64
import io
import re
import shutil
from collections import defaultdict
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from maieutic.config.cards import JUDGE, Card, LoadedCard
from maieutic.config.models import BaselineModel
from maieutic.config.rubric_kinds import WIN_TIE_LOSE
from maieutic.config.rubrics import verdict_label
from maieutic.core import paths
from maieutic.core.files import atomic_file
from maieutic.core.records import Grade, Item, Label, Prompt, Reply, iter_records
from maieutic.core.visible import script_safe_json
from maieutic.datasets.histories import history_lines
from maieutic.datasets.sampling import sample_items
from maieutic.datasets.text import last_student_turn
from maieutic.plan.plan import Plan, training_pair_sources
from maieutic.preparation.pictures import on_white
from maieutic.replies.generate import first_messages
from maieutic.report.tables import display_label, items_of_task, read_json
from maieutic.serving.pictures import readable_content

THUMBNAIL = 480  # maximum length, in pixels, of the longer side of a picture on the page
LONGEST_TITLE = 90  # maximum number of characters of an item's title
TITLE_FIELDS = ("question", "problem", "seed_problem")  # variables of items that are good titles
NO_LETTERS = re.compile(r"\\n|\s+")  # signs in which layouts of one text differ
LONGEST = 4000  # maximum number of characters of one text on the page


def cut_text(text: str) -> str:
    """Cut a text to LONGEST characters, and append the number of removed characters."""
    return text if len(text) <= LONGEST else f"{text[:LONGEST]} [... {len(text) - LONGEST} more characters]"


def outcome_of(grade: Grade) -> str:
    """Return "right" or "wrong". For a grade that is neither, return "value" if it has a value and "none" otherwise."""
    if grade.correct is not None:
        return "right" if grade.correct else "wrong"
    return "none" if grade.value is None else "value"


GradeKind = tuple[str, str, str, str | None]  # task, kind, scoring and criterion of a grade


def utf16_length(text: str) -> int:
    """Return the length of a text in UTF-16 code units, in which JavaScript counts positions."""
    return len(text.encode("utf-16-le", "surrogatepass")) // 2


def shown_span(grade: Grade, reply: Reply) -> tuple[int, int] | None:
    """Return the start and end, in UTF-16 units of the reply's text, of the passage from which a grade was read.

    Returns None if the grade has no passage, or one that the page does not show: in an earlier turn or cut off.
    """
    if grade.span is None:
        return None
    turn, start, end = grade.span
    if turn != len(reply.turns) - 1 or end > LONGEST:
        return None
    return utf16_length(reply.text[:start]), utf16_length(reply.text[:end])


def grade_entries(grades: Iterable[Grade], heads: Container[GradeKind], reply: Reply) -> list[dict[str, Any]]:
    """Return a reply's grades as JSON objects for the page.

    If a grader gave several grades in the same text, only the first of these grades contains the text. heads: kinds of
    grades that the tasks' headline metrics count.
    """
    entries: list[dict[str, Any]] = []
    passages: set[tuple[str, str | None, str]] = set()
    for grade in grades:
        passage = grade.kind, grade.by, grade.raw
        new = grade.raw.strip() and passage not in passages
        passages.add(passage)
        span = shown_span(grade, reply)
        entries.append(
            grade_entry(grade, heads) | ({"raw": grade.raw} if new else {}) | ({"span": span} if span else {})
        )
    return entries


def grade_entry(grade: Grade, heads: Container[GradeKind]) -> dict[str, Any]:
    """Return a grade as a JSON object for the page. The object has the key `head` if the grade's kind is in `heads`."""
    value = round(grade.value, 4) if isinstance(grade.value, float) else grade.value
    # A comparison's verdict is shown as a word, because a tie is not a wrong answer.
    outcome = "value" if grade.kind == JUDGE and value in WIN_TIE_LOSE else outcome_of(grade)
    entry = {"kind": grade.kind, "scoring": grade.scoring, "value": value, "outcome": outcome}
    head = 1 if kind_of_grade(grade) in heads else None
    optional = {
        "criterion": grade.criterion, "by": grade.by, "why": grade.why_none, "reason": grade.reason, "head": head,
    }  # fmt: skip
    return entry | {name: content for name, content in optional.items() if content is not None}


def desired_labels(plan: Plan) -> dict[str, dict[str, str]]:
    """Return the label of a good reply for each criterion of each judged task, by `benchmark/task`."""
    return {
        f"{loaded.card.benchmark}/{loaded.card.task}": {
            criterion: scale.desired
            for criterion, scale in plan.people_scales.get(loaded.card.task, {}).items()
            if scale.desired is not None
        }
        for loaded in plan.cards.values()
    }


def kind_of_grade(grade: Grade) -> GradeKind:
    """Return the task, kind, scoring and criterion of a grade."""
    return grade.task, grade.kind, grade.scoring, grade.criterion


def head_kinds(cards: Iterable[Card]) -> set[GradeKind]:
    """Return the kinds of grades that the cards' headline metrics count, under the `robust` scoring."""
    return {
        (card.task, metric.grader or card.graders[0], "robust", metric.criterion)
        for card in cards
        for metric in [card.headline_metric]
        if metric
    }


def shown_fields(item: Item) -> dict[str, Any]:
    """Return the parts of an item that the page shows first, by name, and its first words as a title.

    The title is the problem, or else the student's last message.
    """
    texts: dict[str, str] = {}
    letters = set[str]()
    if item.history:
        texts["dialogue"] = history_lines(item.history)
    # Of several layouts of one text, the one with the most lines is shown.
    for name, text in sorted(item.vars.items(), key=lambda part: -part[1].count("\n")):
        plain = NO_LETTERS.sub("", text)
        if plain and plain not in letters:
            texts[name] = text.strip()
        letters.add(plain)
    texts = {name: texts[name] for name in ("dialogue", *item.vars) if name in texts}
    titles = [texts[name] for name in TITLE_FIELDS if name in texts]
    named = titles or [last_student_turn(text) for text in texts.values()]
    title = " ".join(named[0].split()) if named else ""
    return {"fields": {name: cut_text(text) for name, text in texts.items()}, "title": shortened(title)}


def shortened(title: str) -> str:
    """Return a title of at most LONGEST_TITLE characters, cut between words."""
    return title if len(title) <= LONGEST_TITLE else f"{title[:LONGEST_TITLE].rpartition(' ')[0]} \u2026"


def reference_text(item: Item) -> str:
    """Return an item's reference text or, if it has none, the item's own criteria with their weights."""
    criteria = item.reference.get("criteria", {})
    lines = [f"{name} ({criterion['weight']:+g}): {criterion['definition']}" for name, criterion in criteria.items()]
    return str(item.reference.get("text") or "\n".join(lines))


@lru_cache(maxsize=512)
def thumbnail(results: Path, file: str) -> str:
    """Return a picture of an item as a data URL, scaled down for the page; an empty string if the file is missing."""
    from PIL import Image, ImageOps

    path = paths.PICTURE_STORE.within(results) / file
    if not path.is_file():
        return ""
    with Image.open(path) as picture:
        small = on_white(ImageOps.exif_transpose(picture))
        small.thumbnail((THUMBNAIL, THUMBNAIL))
        encoded = io.BytesIO()
        small.save(encoded, "JPEG", quality=70, optimize=True)
    return f"data:image/jpeg;base64,{base64.b64encode(encoded.getvalue()).decode()}"


ReplyKey = tuple[str, str, str]  # tutor, task, item
Messages = list[tuple[str, str]]  # role and text of each message of a prompt
Outcomes = dict[str, int]
# (tutor, task) -> number of grades with each outcome, and the values of the grades that are numbers
Readings = dict[tuple[str, str], tuple[Outcomes, list[float]]]


class GradePass(NamedTuple):
    """Data collected in one pass over all grades of a benchmark.

    readings: outcomes and values of the grades that each task's headline metric counts. grades_by_reply: all grades of
    replies to the items that the browser shows. divided: replies to these items on which the judges disagree, each with
    one line per disputed criterion.
    """

    readings: Readings
    grades_by_reply: dict[ReplyKey, list[Grade]]
    divided: dict[ReplyKey, list[str]]


def chosen_items(plan: Plan, results: Path, benchmark: str) -> dict[str, list[Item]]:
    """Return the items that the browser shows, by task: a random sample of each task's items."""
    names = [loaded.card.task for loaded in plan.benchmarks[benchmark]]
    number, seed = plan.config.report.browser_items, plan.run.seed
    distinct = {name: [item for item in items_of_task(results, benchmark, name) if not item.repeat] for name in names}
    return {name: sample_items(items, number, seed) for name, items in distinct.items()}


def pass_grades(plan: Plan, results: Path, benchmark: str) -> GradePass:
    """Read every grade of a benchmark's replies once, and return the data that the page needs from them."""
    heads = head_kinds(loaded.card for loaded in plan.benchmarks[benchmark])
    places = {(task, item.id) for task, items in chosen_items(plan, results, benchmark).items() for item in items}
    readings: Readings = defaultdict(lambda: (defaultdict(int), []))
    by_place: dict[ReplyKey, list[Grade]] = defaultdict(list)
    for model in plan.tutors:
        for grade in all_grades(plan, results, benchmark, model):
            if kind_of_grade(grade) in heads:
                add_reading(readings[model, grade.task], grade)
            if (grade.task, grade.id) in places:
                by_place[model, grade.task, grade.id].append(grade)
    return GradePass(readings, by_place, divided_replies(plan, results, benchmark, places))


def divided_replies(
    plan: Plan, results: Path, benchmark: str, places: Container[tuple[str, str]]
) -> dict[ReplyKey, list[str]]:
    """Return the replies on which the run's judges disagree, each with the verdicts in one line per disputed criterion.

    places: task and id of the items to consider. Panels of judges are left out, and so are judges that only search for
    words from a list.
    """
    verdicts: dict[ReplyKey, dict[str, dict[str, str]]] = defaultdict(lambda: defaultdict(dict))
    for tutor in plan.tutors:
        judges = [name for name in plan.judges_of(benchmark, tutor) if name in plan.judges_with_model]
        for judge in judges if len(judges) > 1 else ():
            for grade in grades_in(paths.JUDGE_GRADES.within(results, benchmark=benchmark, judge=judge, tutor=tutor)):
                if (
                    grade.scoring == "robust"
                    and isinstance(grade.value, str | bool)
                    and (grade.task, grade.id) in places
                ):
                    criterion = grade.criterion or "verdict"
                    verdicts[tutor, grade.task, grade.id][criterion][display_label(plan, judge)] = verdict_label(
                        grade.value
                    )
    apart = {
        place: [
            f"{criterion}: {', '.join(f'{judge} {word}' for judge, word in words.items())}"
            for criterion, words in by_criterion.items()
            if len(set(words.values())) > 1
        ]
        for place, by_criterion in verdicts.items()
    }
    return {place: lines for place, lines in apart.items() if lines}


def add_reading(to: tuple[Outcomes, list[float]], grade: Grade) -> None:
    """Add a grade to `to`: count its outcome, and append its value to the list of values if it is a number."""
    outcomes, values = to
    outcomes[outcome_of(grade)] += 1
    if isinstance(grade.value, int | float):
        values.append(float(grade.value))


LabelEntry = tuple[str, str, str | None]  # criterion, label and annotator


def labels_by_reply(plan: Plan, results: Path) -> dict[ReplyKey, list[LabelEntry]]:
    """Return the labels that people gave to this run's replies (`run.human_labels`)."""
    labels: dict[ReplyKey, list[LabelEntry]] = defaultdict(list)
    path = Path(paths.OWN_LABELS.within(results))
    if plan.run.human_labels and path.is_file():
        for label in iter_records(path, Label):
            labels[label.tutor, label.task, label.id].append((label.criterion, label.label, label.annotator))
    return labels


def add_labels(
    by_item: Mapping[tuple[str, str], Iterable[dict[str, Any]]], labels: Mapping[ReplyKey, list[LabelEntry]]
) -> None:
    """Add people's labels to the replies that have them. by_item: replies by task and id."""
    for key, replies in by_item.items():
        for reply in replies:
            if own_labels := labels.get((reply["model"], *key)):
                reply["labels"] = own_labels


class TaskItems(NamedTuple):
    """Items of one task, each with every tutor's reply, and the prompts of these replies by hash."""

    items: list[dict[str, Any]]
    prompts: dict[str, Messages]


def unsent_prompt(loaded: LoadedCard, item: Item, replies: Sequence[Mapping[str, Any]]) -> dict[str, Messages]:
    """Return, as `question`, the first prompt of an item by its card.

    Returns an empty dictionary if a model was asked, so that its prompt is known, or if the item has no replies.
    """
    if not replies or any(reply["prompt"] for reply in replies):
        return {}
    messages = first_messages(loaded, item, None)
    # A recorded or trivial tutor had the conversation, but not the card's instructions.
    conversation = [part for part in messages if part["role"] != "system"] or messages
    return {"question": [(part["role"], readable_content(part["content"])) for part in conversation]}


def browse(plan: Plan, results: Path, grades: Callable[[str], GradePass]) -> Iterator[tuple[str, TaskItems]]:
    """Yield the name `benchmark/task` and a sample of the items of each task, one benchmark after the other.

    grades: cached function that returns the grades of a benchmark.
    """
    labels = labels_by_reply(plan, results)
    for benchmark, loaded_cards in plan.benchmarks.items():
        items = chosen_items(plan, results, benchmark)
        cards = [loaded.card for loaded in loaded_cards]
        by_item: dict[tuple[str, str], list[dict[str, Any]]] = defaultdict(list)
        prompts: dict[str, Messages] = {}
        for model in plan.tutors:
            tutor_tasks = {card.task for card in cards if plan.is_answered_by(card, model)}
            keys = {(item.task, item.id) for task in tutor_tasks for item in items[task]}
            add_replies(plan, results, benchmark, model, keys, by_item, prompts, grades(benchmark))
        add_labels(by_item, labels)
        leaked = items_seen_in_training(plan, results, benchmark)
        grades(benchmark).grades_by_reply.clear()  # frees about a gigabyte in a run with a hundred tutors
        by_task = {loaded.card.task: loaded for loaded in loaded_cards}
        for task, sample in items.items():
            replies = [by_item[item.task, item.id] for item in sample]
            named = {reply["prompt"] for item_replies in replies for reply in item_replies if reply["prompt"]}
            yield (
                f"{benchmark}/{task}",
                TaskItems(
                    [
                        {
                            "id": item.id,
                            **shown_fields(item),
                            "reference": cut_text(reference_text(item)),
                            "pictures": [thumbnail(results, file) for file in item.images],
                            "tags": " ".join(item.tags.values()),
                            "replies": item_replies,
                            **unsent_prompt(by_task[task], item, item_replies),
                            **({"leaked": lines} if (lines := leaked.get((item.task, item.id))) else {}),
                        }
                        for item, item_replies in zip(sample, replies, strict=True)
                    ],
                    {name: prompts[name] for name in sorted(named)},
                ),
            )


def items_seen_in_training(plan: Plan, results: Path, benchmark: str) -> dict[tuple[str, str], list[str]]:
    """Return items that occur in the first reward model's training data, by task and id, with a line per overlap."""
    seen: dict[tuple[str, str], list[str]] = defaultdict(list)
    for name in plan.run.reward_models[:1] if benchmark in plan.rewarded_benchmarks else ():
        for source in training_pair_sources(plan.models[name]):
            by_task = read_json(paths.OVERLAP.within(results, source=source, benchmark=benchmark)) or {}
            for task, overlap in by_task.items():
                for item in overlap["problems"]:
                    seen[task, item].append(f"the item's problem, in {source}")
                for item in overlap["leaked"]:
                    seen[task, item].append(f"the item's human reply, in {source}")
    return seen


NO_ITEMS: dict[str, dict[str, Any]] = {"prompts": {}, "tasks": {}, "beside": {}}


def write_items(tasks: Iterable[tuple[str, TaskItems]], folder: Path, most: float) -> dict[str, dict[str, Any]]:
    """Return the data of the items. If they exceed `most` bytes, write them to files and return the files' names.

    Each task's file is a script in `folder`, because a page that is opened from disk can load scripts but no other
    data. The folder stays empty if the page itself contains all items.
    """
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True, exist_ok=True)
    data: dict[str, dict[str, Any]] = {name: {} for name in NO_ITEMS}
    size = 0
    for task, chunk in tasks:
        text = script_safe_json(chunk._asdict())
        size += len(text)
        name = f"{task.replace('/', '-')}.js"
        with atomic_file(folder / name) as handle:
            handle.write(f"items({script_safe_json(task)}, {text});\n")
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
    """Yield one tutor's grades: by each task's first judge, then by the first reward model, then by the parsers."""
    files = [
        paths.REWARD_GRADES.within(results, benchmark=benchmark, reward_model=name, tutor=model)
        for name in plan.run.reward_models[:1]
    ]
    files.append(paths.PARSED.within(results, benchmark=benchmark, tutor=model))
    yield from judge_grades(plan, results, benchmark, model)
    for path in files:
        yield from grades_in(path)


def judge_grades(plan: Plan, results: Path, benchmark: str, model: str) -> list[Grade]:
    """Return the grades of one tutor's replies by each task's first judge. They are the same under both scorings."""
    leads = {card.task: plan.judges_of_card(card)[0] for card in plan.judge_cards(benchmark)}
    return [
        grade
        for judge in dict.fromkeys(leads.values())
        for grade in grades_in(paths.JUDGE_GRADES.within(results, benchmark=benchmark, judge=judge, tutor=model))
        if grade.scoring == "robust" and leads[grade.task] == judge
    ]


def grades_in(path: Path) -> Iterator[Grade]:
    """Return an iterator over the grades in a file. It is empty if the file does not exist."""
    return iter_records(path, Grade) if path.exists() else iter(())


def add_replies(
    plan: Plan,
    results: Path,
    benchmark: str,
    model: str,
    keys: set[tuple[str, str]],
    by_item: dict[tuple[str, str], list[dict[str, Any]]],
    prompts: dict[str, Messages],
    grades: GradePass,
) -> None:
    """Add one tutor's replies to `by_item` and their prompts to `prompts`. keys: task and id of the included items."""
    replies = paths.REPLIES.within(results, benchmark=benchmark, tutor=model)
    if not paths.PARSED.within(results, benchmark=benchmark, tutor=model).exists() or not replies.exists():
        return
    heads = head_kinds(loaded.card for loaded in plan.benchmarks[benchmark])
    sent = {}
    if not isinstance(plan.models[model], BaselineModel):
        sent = {
            prompt.messages: prompt.content
            for prompt in iter_records(paths.PROMPTS.within(results, benchmark=benchmark, tutor=model), Prompt)
        }
    for reply in iter_records(replies, Reply):
        key = (reply.task, reply.id)
        if key not in keys:
            continue
        hashes = [turn.messages for turn in reply.turns if turn.messages in sent]
        for digest in hashes:
            prompts[digest] = [(part["role"], readable_content(part["content"])) for part in sent[digest]]
        by_item[key].append(
            {
                "model": model,
                "text": cut_text(reply.text),
                "error": reply.error,
                "finish": reply.turns[-1].finish if reply.turns else None,
                "thinking": cut_text(reply.turns[-1].reasoning or "") if reply.turns else "",
                "prompt": hashes[-1] if hashes else None,
                "grades": grade_entries(grades.grades_by_reply.get((model, *key), []), heads, reply),
                **({"divided": lines} if (lines := grades.divided.get((model, *key))) else {}),
            }
        )
