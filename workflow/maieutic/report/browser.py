"""Data of the item browser: an index of each task's items, and the texts of items, prompts and replies."""

from __future__ import annotations

import base64
import io
import json
import re
import shutil
from collections import defaultdict
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from maieutic.config.cards import JUDGE, REWARD, Card, LoadedCard
from maieutic.config.models import BaselineModel
from maieutic.config.rubric_kinds import WIN_TIE_LOSE
from maieutic.config.rubrics import read_rubric, verdict_label
from maieutic.core import paths
from maieutic.core.files import atomic_file
from maieutic.core.records import (
    Grade,
    Item,
    Judgement,
    Label,
    Prompt,
    Reply,
    Scales,
    Verdict,
    iter_records,
)
from maieutic.core.visible import script_safe_json
from maieutic.datasets.histories import history_lines
from maieutic.datasets.labelled_sets import read_labelled_data
from maieutic.datasets.sampling import sample_items
from maieutic.datasets.text import last_student_turn
from maieutic.plan.plan import Plan, training_pair_sources
from maieutic.preparation.pictures import on_white
from maieutic.replies.generate import first_messages
from maieutic.report.tables import items_of_task, read_json
from maieutic.serving.pictures import readable_content

THUMBNAIL = 480  # maximum length, in pixels, of the longer side of a picture on the page
LONGEST_TITLE = 90  # maximum number of characters of an item's title
TITLE_FIELDS = ("question", "problem", "seed_problem")  # variables of items that are good titles
NO_LETTERS = re.compile(r"\\n|\s+")  # signs in which layouts of one text differ
CHUNK = 200  # number of items in one file of texts
LONGEST = 4000  # maximum number of characters of one text on the page


def cut_text(text: str) -> str:
    """Cut a text to LONGEST characters, and append the number of removed characters."""
    return text if len(text) <= LONGEST else f"{text[:LONGEST]} [... {len(text) - LONGEST} more characters]"


def outcome_of_grade(grade: Grade) -> str:
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


def grade_entries(grades: Iterable[Grade], counts: Callable[[Grade], bool], reply: Reply) -> list[dict[str, Any]]:
    """Return a reply's grades as JSON objects for the page.

    If a grader gave several grades in the same text, only the first of these grades contains the text. counts: returns
    True for a grade that the task's headline metric counts.
    """
    entries: list[dict[str, Any]] = []
    passages: set[tuple[str, str | None, str]] = set()
    for grade in grades:
        passage = grade.kind, grade.by, grade.raw
        new = grade.raw.strip() and passage not in passages
        passages.add(passage)
        span = shown_span(grade, reply)
        entries.append(
            grade_entry(grade, counts(grade)) | ({"raw": grade.raw} if new else {}) | ({"span": span} if span else {})
        )
    return entries


def grade_entry(grade: Grade, is_head: bool) -> dict[str, Any]:
    """Return a grade as a JSON object for the page. The object has the key `head` if the headline counts the grade."""
    value = round(grade.value, 4) if isinstance(grade.value, float) else grade.value
    # A comparison's verdict is shown as a word, because a tie is not a wrong answer.
    outcome = "value" if grade.kind == JUDGE and value in WIN_TIE_LOSE else outcome_of_grade(grade)
    entry = {"kind": grade.kind, "scoring": grade.scoring, "value": value, "outcome": outcome}
    optional = {
        "criterion": grade.criterion, "by": grade.by, "why": grade.why_none, "reason": grade.reason,
        "head": 1 if is_head else None,
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


def rubric_words(rubrics: Iterable[str]) -> dict[str, str]:
    """Return the definition of each criterion of the given rubrics."""
    return {
        key: criterion.definition for name in rubrics for key, criterion in read_rubric(name).rubric.criteria.items()
    }


def criteria_words(plan: Plan) -> dict[str, dict[str, str]]:
    """Return the definition of each criterion by which replies to a judged task are judged, by `benchmark/task`."""
    return {
        f"{loaded.card.benchmark}/{loaded.card.task}": rubric_words(plan.people_rubrics.get(loaded.card.task, ()))
        for loaded in plan.cards.values()
    }


def kind_of_grade(grade: Grade) -> GradeKind:
    """Return the task, kind, scoring and criterion of a grade."""
    return grade.task, grade.kind, grade.scoring, grade.criterion


def head_kinds(plan: Plan, cards: Iterable[Card]) -> set[tuple[str, str, str, str | None, str | None]]:
    """Return the kinds of grades that the cards' headline metrics count, with the grader, under `robust`."""
    graders = {JUDGE: lambda card: plan.judges_of_card(card)[:1], REWARD: lambda card: plan.run.reward_models[:1]}
    return {
        (card.task, kind, "robust", metric.criterion, by)
        for card in cards
        for metric in [card.headline_metric]
        if metric
        for kind in [metric.grader or card.graders[0]]
        for by in (graders[kind](card) if kind in graders else [None])
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
    return {"fields": {name: cut_text(text) for name, text in texts.items()}, "title": shortened_label(title)}


def shortened_label(title: str) -> str:
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


Messages = list[tuple[str, str]]  # role and text of each message of a prompt
Outcomes = dict[str, int]
# (tutor, task) -> number of grades with each outcome, and the values of the grades that are numbers
Readings = dict[tuple[str, str], tuple[Outcomes, list[float]]]
Cell = tuple[str, str, str, str]  # judge, criterion, the judge's verdict and a person's label
CellCounts = dict[str, dict[Cell, int]]  # number of labels in each cell of the judges' confusion matrices, by task
MARKS = {"right": "r", "wrong": "w", "none": "n", "value": "v"}  # an outcome as one character; no reply: a space


class Browsed(NamedTuple):
    """Data of the item browser, and what was counted while it was written.

    data: what the page's scripts read; readings: outcomes and values of the grades that each task's headline metric
    counts, by benchmark; confusions: people's labels of replies and the judges' verdicts on the same replies; scales:
    the criteria's scales of each task with such labels.
    """

    data: dict[str, dict[str, Any]]
    readings: dict[str, Readings]
    confusions: CellCounts
    scales: dict[str, Scales]


NO_ITEMS = Browsed({"shelves": {}, "chunks": {}, "prompts": {}, "beside": {}, "sets": {}}, {}, {}, {})


class Shelf:
    """The items of one task or labelled set, in their order: an index, and the texts in parts of CHUNK items.

    The texts are collected in files of `folder`, tutor by tutor, because those of all tutors may not fit into memory.
    """

    def __init__(self, task: str, items: Sequence[Item], tutors: Sequence[str], folder: Path, plan: Plan) -> None:
        self.task, self.items, self.tutors, self.folder = task, items, list(tutors), folder
        self.unranked = {name for name in tutors if isinstance(plan.models.get(name), BaselineModel)}
        self.judges = plan.judges_with_model
        self.place = {item.id: at for at, item in enumerate(items)}
        self.rows: list[dict[str, Any]] = [
            {"marks": [" "] * len(tutors), "values": [None] * len(tutors), "flags": set(), "long": 0, "cells": []}
            for _ in items
        ]
        self.cells: dict[Cell, int] = {}
        self.counts: dict[Cell, int] = defaultdict(int)
        self.sent: set[tuple[int, str]] = set()
        self.lines: dict[int, list[str]] = defaultdict(list)

    @property
    def name(self) -> str:
        """Name of the task's files, without their extension."""
        return self.task.replace("/", "-")

    def add(
        self,
        tutor: str,
        item: str,
        entry: dict[str, Any],
        prompts: Mapping[str, Messages],
        grade: Mapping[str, Any] | None,
        length: int,
    ) -> None:
        """Add a tutor's reply to an item.

        entry: the reply for the page; prompts: messages of its prompts by hash; grade: its outcome and value; length:
        number of characters of its whole text.
        """
        at, place = self.place[item], self.tutors.index(tutor)
        row, part = self.rows[at], at // CHUNK
        row["marks"][place] = MARKS[grade["outcome"]] if grade else "n"
        if grade and grade["outcome"] == "value":
            row["values"][place] = grade["value"]
        if tutor not in self.unranked:
            row["long"] = max(row["long"], length)
        if flags := flags_of(entry, tutor in self.unranked, self.judges):
            row["flags"] |= flags
            entry = {**entry, "flags": "".join(sorted(flags))}
        for cell in cells_of(entry):
            self.counts[cell] += 1
            row["cells"].append([self.cells.setdefault(cell, len(self.cells)), place])
        for digest, messages in prompts.items():
            if (part, digest) not in self.sent:
                self.sent.add((part, digest))
                self.lines[part].append(f"\t{script_safe_json(digest)}:{script_safe_json(messages)}\n")
        self.lines[part].append(f"{at}\t{script_safe_json(entry)}\n")

    def flush(self) -> None:
        """Append the collected texts to their files."""
        for part, lines in self.lines.items():
            with open(self.folder / f"{self.name}.{part}", "a", encoding="utf-8") as handle:
                handle.writelines(lines)
        self.lines.clear()

    def parts(self, described: Callable[[Item, int], dict[str, Any]]) -> Iterator[str]:
        """Yield each part's items and prompts as JSON. described: function that returns an item for the page.

        Its second argument is the number of replies for which a prompt was sent; -1 without any reply.
        """
        for part in range(-(-len(self.items) // CHUNK)):
            replies: dict[int, list[str]] = defaultdict(list)
            prompts = []
            path = self.folder / f"{self.name}.{part}"
            for line in path.read_text(encoding="utf-8").splitlines() if path.exists() else ():
                place, _, text = line.partition("\t")
                if place:
                    replies[int(place)].append(text)
                else:
                    prompts.append(text)
            items = []
            for at in range(CHUNK * part, min(CHUNK * (part + 1), len(self.items))):
                prompted = sum('"prompt":null' not in text for text in replies[at])
                item = script_safe_json(described(self.items[at], prompted if replies[at] else -1))
                items.append(f'{item[:-1]},"replies":[{",".join(replies[at])}]}}')
            yield f'{{"items":[{",".join(items)}],"prompts":{{{",".join(prompts)}}}}}'

    def index(self, leaked: Container[str]) -> dict[str, Any]:
        """Return the index for the page. leaked: ids of the items that a reward model saw in training."""
        return {
            "tutors": self.tutors,
            "cells": list(self.cells),
            "rows": [
                {
                    "id": item.id,
                    "title": shown_fields(item)["title"],
                    "tags": " ".join(item.tags.values()),
                    "long": row["long"],
                    "marks": "".join(row["marks"]),
                    **({"values": row["values"]} if "v" in row["marks"] else {}),
                    **({"flags": "".join(sorted(flags))} if (flags := row["flags"]) else {}),
                    **({"cells": row["cells"]} if row["cells"] else {}),
                    **({"leaked": 1} if item.id in leaked else {}),
                }
                for item, row in zip(self.items, self.rows, strict=True)
            ],
        }


def counting_grade(grades: Sequence[dict[str, Any]]) -> dict[str, Any] | None:
    """Return the grade that counts for the headline; without one, the first under `robust`, or the first of all."""
    return min(grades, key=lambda grade: ("head" not in grade, grade["scoring"] != "robust"), default=None)


def is_disputed(grades: Iterable[dict[str, Any]], judges: Container[str]) -> bool:
    """Return True if two of the given judges give different verdicts on the same criterion."""
    verdicts: dict[str | None, set[Any]] = defaultdict(set)
    for grade in grades:
        if grade["kind"] == JUDGE and grade["value"] is not None and grade["by"] in judges:
            verdicts[grade.get("criterion")].add(grade["value"])
    return any(len(values) > 1 for values in verdicts.values())


def read_differently(grades: Sequence[dict[str, Any]]) -> bool:
    """Return True if a grade by rules has another value under the other scoring."""
    values: dict[tuple[str, str | None], set[tuple[Any, str]]] = defaultdict(set)
    for grade in grades:
        if "by" not in grade:
            values[grade["kind"], grade.get("criterion")].add((grade["value"], grade["outcome"]))
    return any(len(readings) > 1 for readings in values.values())


def flags_of(entry: Mapping[str, Any], is_unranked: bool, judges: Container[str]) -> set[str]:
    """Return the questions about items to which a reply answers yes, one letter for each.

    d: the readings differ; j: judges differ; l: people have labelled the reply; p: judge and people differ; u: a value
    is unread. judges: the judges that count for j.
    """
    grades = entry["grades"]
    answers = {
        "d": read_differently(grades),
        "j": is_disputed((grade for grade in grades if grade["scoring"] == "robust"), judges),
        "l": "labels" in entry,
        "p": any(verdict.lower() != label.lower() for _, _, verdict, label in cells_of(entry)),
        "u": not is_unranked and any("why" in grade for grade in grades),
    }
    return {letter for letter, holds in answers.items() if holds}


def cells_of(entry: Mapping[str, Any]) -> Iterator[Cell]:
    """Yield the cell of its judge's confusion matrix for each label of a reply under a criterion with a verdict."""
    verdicts = [
        (grade["by"], str(grade.get("criterion")), verdict_label(grade["value"]))
        for grade in entry["grades"]
        if grade["kind"] == JUDGE and grade["scoring"] == "robust" and isinstance(grade["value"], str | bool)
    ]
    for criterion, label, _ in entry.get("labels", ()):
        for judge, judged, verdict in verdicts:
            if judged == criterion:
                yield judge, criterion, verdict, label


ReplyKey = tuple[str, str, str]  # tutor, task, item
LabelEntry = tuple[str, str, str | None]  # criterion, label and annotator


def chosen_items(plan: Plan, results: Path, benchmark: str, task: str) -> list[Item]:
    """Return the items of a task that the browser shows: all of them, or a random sample (`report.browser_items`)."""
    items = [item for item in items_of_task(results, benchmark, task) if not item.repeat]
    most = plan.config.report.browser_items
    return items if most is None else sample_items(items, most, plan.run.seed)


def add_reading(to: tuple[Outcomes, list[float]], grade: Grade) -> None:
    """Add a grade to `to`: count its outcome, and append its value to the list of values if it is a number."""
    outcomes, values = to
    outcomes[outcome_of_grade(grade)] += 1
    if isinstance(grade.value, int | float):
        values.append(float(grade.value))


def labels_by_reply(plan: Plan, results: Path) -> dict[ReplyKey, list[LabelEntry]]:
    """Return the labels that people gave to this run's replies (`run.human_labels`)."""
    labels: dict[ReplyKey, list[LabelEntry]] = defaultdict(list)
    path = Path(paths.OWN_LABELS.within(results))
    if plan.run.human_labels and path.is_file():
        for label in iter_records(path, Label):
            labels[label.tutor, label.task, label.id].append((label.criterion, label.label, label.annotator))
    return labels


def unsent_prompt(loaded: LoadedCard, item: Item) -> Messages:
    """Return the first prompt of an item by its card, for an item whose tutors were asked by no prompt."""
    messages = first_messages(loaded, item, None)
    # A recorded or trivial tutor had the conversation, but not the card's instructions.
    conversation = [part for part in messages if part["role"] != "system"] or messages
    return [(part["role"], readable_content(part["content"])) for part in conversation]


class ItemWriter:
    """Writes the items of a run's tasks and labelled sets for the item browser into a folder beside the page.

    Each file is a script, because a page that is opened from disk can load scripts but no other data. If all items need
    at most `most` bytes, they are embedded in the page and the folder stays empty.
    """

    def __init__(self, plan: Plan, results: Path, folder: Path, most: float) -> None:
        self.plan, self.results, self.folder, self.most = plan, results, folder, most
        self.browsed = Browsed({name: {} for name in NO_ITEMS.data}, {}, {}, {})
        self.size = 0
        shutil.rmtree(folder, ignore_errors=True)
        self.spill = folder / ".texts"
        self.spill.mkdir(parents=True, exist_ok=True)

    def close(self) -> Browsed:
        """Delete the temporary files, and return the data for the page."""
        shutil.rmtree(self.spill, ignore_errors=True)
        data = self.browsed.data
        if self.size <= self.most:
            data["beside"] = {}
            for path in self.folder.iterdir():
                path.unlink()
        else:
            data["shelves"], data["chunks"], data["prompts"] = {}, {}, {}
        return self.browsed

    def write(
        self,
        shelf: Shelf,
        described: Callable[[Item, int], dict[str, Any]],
        leaked: Container[str],
        scales: Scales,
    ) -> None:
        """Write the index and the texts of a task. scales: scales of people's labels."""
        shelf.flush()
        data, files = self.browsed.data, []
        data["chunks"][shelf.task] = []
        for number, text in enumerate(shelf.parts(described)):
            name = f"{shelf.name}.{number + 1}.js"
            files.append([f"{self.folder.name}/{name}", len(text)])
            self.put(name, f"items({script_safe_json(shelf.task)}, {number}, {text});\n")
            if self.size <= self.most:
                part = json.loads(text)
                data["chunks"][shelf.task].append(part["items"])
                data["prompts"] |= part["prompts"]
        index = {**shelf.index(leaked), "files": files, "chunk": CHUNK}
        data["shelves"][shelf.task] = index
        self.put(f"{shelf.name}.js", f"indexed({script_safe_json(shelf.task)}, {script_safe_json(index)});\n")
        if self.size > self.most:
            data["shelves"], data["chunks"], data["prompts"] = {}, {}, {}
        data["beside"][shelf.task] = f"{self.folder.name}/{shelf.name}.js"
        if shelf.counts:
            self.browsed.confusions[shelf.task], self.browsed.scales[shelf.task] = dict(shelf.counts), scales

    def put(self, name: str, text: str) -> None:
        """Write a file, and add its length to the size of all files."""
        with atomic_file(self.folder / name) as handle:
            handle.write(text)
        self.size += len(text)

    def write_benchmark(self, benchmark: str, labels: Mapping[ReplyKey, list[LabelEntry]]) -> None:
        """Write the items of a benchmark's tasks with every tutor's reply, and read the grades of all replies."""
        plan, results, cards = self.plan, self.results, self.plan.benchmarks[benchmark]
        heads = head_kinds(plan, (loaded.card for loaded in cards))
        by_task = {loaded.card.task: loaded for loaded in cards}
        shelves = {
            task: Shelf(
                f"{benchmark}/{task}",
                chosen_items(plan, results, benchmark, task),
                [name for name in plan.tutors if plan.is_answered_by(loaded.card, name)],
                self.spill,
                plan,
            )
            for task, loaded in by_task.items()
        }
        readings: Readings = defaultdict(lambda: (defaultdict(int), []))
        for tutor in plan.tutors:
            grades: dict[tuple[str, str], list[Grade]] = defaultdict(list)
            for grade in grades_of_run(plan, results, benchmark, tutor, every_judge=True):
                if (*kind_of_grade(grade), grade.by) in heads:
                    add_reading(readings[tutor, grade.task], grade)
                if grade.task in shelves and grade.id in shelves[grade.task].place:
                    grades[grade.task, grade.id].append(grade)
            self.add_replies(
                benchmark, tutor, shelves, grades, lambda grade: (*kind_of_grade(grade), grade.by) in heads, labels
            )
            for shelf in shelves.values():
                shelf.flush()
        self.browsed.readings[benchmark] = readings
        leaked = items_seen_in_training(plan, results, benchmark)
        for task, shelf in shelves.items():
            lines = {item: overlaps for (of, item), overlaps in leaked.items() if of == task}

            def described(
                item: Item, prompted: int, loaded: LoadedCard = by_task[task], lines: dict[str, list[str]] = lines
            ) -> dict[str, Any]:
                return {
                    **item_entry(item),
                    "pictures": [thumbnail(results, file) for file in item.images],
                    **({"question": unsent_prompt(loaded, item)} if prompted == 0 else {}),
                    **({"leaked": lines[item.id]} if item.id in lines else {}),
                }

            self.write(shelf, described, lines, plan.people_scales.get(task, {}))

    def add_replies(
        self,
        benchmark: str,
        tutor: str,
        shelves: Mapping[str, Shelf],
        grades: Mapping[tuple[str, str], list[Grade]],
        counts: Callable[[Grade], bool],
        labels: Mapping[ReplyKey, list[LabelEntry]],
    ) -> None:
        """Add one tutor's replies to the items of a benchmark's tasks."""
        plan, results = self.plan, self.results
        replies = paths.REPLIES.within(results, benchmark=benchmark, tutor=tutor)
        if not paths.PARSED.within(results, benchmark=benchmark, tutor=tutor).exists() or not replies.exists():
            return
        sent = {}
        if not isinstance(plan.models[tutor], BaselineModel):
            sent = {
                prompt.messages: prompt.content
                for prompt in iter_records(paths.PROMPTS.within(results, benchmark=benchmark, tutor=tutor), Prompt)
            }
        for reply in iter_records(replies, Reply):
            shelf = shelves.get(reply.task)
            if shelf is None or reply.id not in shelf.place or tutor not in shelf.tutors:
                continue
            hashes = [turn.messages for turn in reply.turns if turn.messages in sent]
            prompts = {
                digest: [(part["role"], readable_content(part["content"])) for part in sent[digest]]
                for digest in hashes
            }
            entry = reply_entry(reply, grade_entries(grades.get((reply.task, reply.id), []), counts, reply), hashes)
            if own_labels := labels.get((tutor, reply.task, reply.id)):
                entry["labels"] = own_labels
            shelf.add(tutor, reply.id, entry, prompts, counting_grade(entry["grades"]), len(reply.text))

    def write_labelled(self, release: str) -> None:
        """Write the replies of a labelled set with people's labels and the verdicts of the run's judges on them."""
        plan, folder = self.plan, paths.LABELS.within(self.results, release=release).parent
        if not (folder / "labels.jsonl").exists():
            return
        content = read_labelled_data(folder)
        labels: dict[tuple[str, str], list[LabelEntry]] = defaultdict(list)
        for label in content.labels:
            labels[label.tutor, label.id].append((label.criterion, label.label, label.annotator))
        grades: dict[tuple[str, str], list[dict[str, Any]]] = defaultdict(list)
        for judge in plan.run.judges:
            path = paths.LABELLED_VERDICTS.within(self.results, judge=judge)
            for judgement in iter_records(path, Judgement) if path.exists() else ():
                if judgement.task == release and judgement.tutor is not None:
                    grades[judgement.tutor, judgement.id] += [
                        verdict_entry(judge, verdict, content.about.scales) for verdict in judgement.verdicts
                    ]
        task = f"labels/{release}"
        items = list(content.items.values())
        tutors = list(dict.fromkeys(reply.tutor for reply in content.replies))
        shelf = Shelf(task, items, tutors, self.spill, plan)
        for reply in content.replies:
            place = reply.tutor, reply.id
            entry = reply_entry(reply, grades.get(place, []), [])
            own_labels = labels.get(place, [])
            share = desired_share(own_labels, content.scales)
            grade = None if share is None else {"outcome": "value", "value": round(share, 2)}
            entry |= {"labels": own_labels} if own_labels else {}
            shelf.add(reply.tutor, reply.id, entry, {}, grade, len(reply.text))
        self.write(shelf, lambda item, prompted: item_entry(item), (), content.scales)
        self.browsed.data["sets"][task] = {
            "title": f"Labelled replies: {plan.label_sets[release].title}",
            "desired": {name: scale.desired for name, scale in content.scales.items() if scale.desired},
            "criteria": {
                name: words[name]
                for words in (rubric_words(plan.rubric_names(judge)) for judge in plan.run.judges)
                for name in content.scales
                if name in words
            },
        }


def desired_share(labels: Iterable[LabelEntry], scales: Scales) -> float | None:
    """Return the share of labels that are the desired one of their scale; None without a label on such a scale."""
    hits = [label == scales[name].desired for name, label, _ in labels if name in scales and scales[name].desired]
    return sum(hits) / len(hits) if hits else None


def verdict_entry(judge: str, verdict: Verdict, scales: Scales) -> dict[str, Any]:
    """Return a judge's verdict on a labelled reply as a grade for the page."""
    scale = scales.get(str(verdict.criterion))
    desired = scale.desired if scale else None
    known = verdict.value is not None
    outcome = "none" if not known else "value" if desired is None else "right" if verdict.value == desired else "wrong"
    entry = {"kind": JUDGE, "scoring": "robust", "value": verdict.value, "outcome": outcome, "by": judge}
    optional = {"criterion": verdict.criterion, "why": verdict.why_none, "reason": verdict.reason}
    return entry | {name: content for name, content in optional.items() if content is not None}


def item_entry(item: Item) -> dict[str, Any]:
    """Return an item for the page, without its replies."""
    criteria = item.reference.get("criteria", {})
    return {
        "fields": shown_fields(item)["fields"],
        "reference": cut_text(reference_text(item)),
        **({"criteria": {name: content["definition"] for name, content in criteria.items()}} if criteria else {}),
    }


def reply_entry(reply: Reply, grades: Sequence[dict[str, Any]], hashes: Sequence[str]) -> dict[str, Any]:
    """Return a reply for the page. hashes: hashes of the prompts of its turns."""
    return {
        "model": reply.tutor,
        "text": cut_text(reply.text),
        "error": reply.error,
        "finish": reply.turns[-1].finish if reply.turns else None,
        "thinking": cut_text(reply.turns[-1].reasoning or "") if reply.turns else "",
        "prompt": hashes[-1] if hashes else None,
        "grades": grades,
    }


def write_items(plan: Plan, results: Path, folder: Path, most: float) -> Browsed:
    """Write the items of all tasks and labelled sets into a folder beside the page, and return the page's data."""
    writer = ItemWriter(plan, results, folder, most)
    try:
        labels = labels_by_reply(plan, results)
        for benchmark in plan.benchmarks:
            writer.write_benchmark(benchmark, labels)
        for release in plan.releases:
            writer.write_labelled(release)
    finally:
        browsed = writer.close()
    return browsed


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


def grades_of_run(plan: Plan, results: Path, benchmark: str, model: str, every_judge: bool = False) -> Iterator[Grade]:
    """Yield one tutor's grades: by each task's first judge, then by the first reward model, then by the parsers.

    every_judge: also yield the grades by the other judges, after those by the first.
    """
    files = [
        paths.REWARD_GRADES.within(results, benchmark=benchmark, reward_model=name, tutor=model)
        for name in plan.run.reward_models[:1]
    ]
    files.append(paths.PARSED.within(results, benchmark=benchmark, tutor=model))
    yield from grades_by_judges(plan, results, benchmark, model)
    if every_judge:
        yield from grades_by_judges(plan, results, benchmark, model, first=False)
    for path in files:
        yield from grades_in(path)


def grades_by_judges(plan: Plan, results: Path, benchmark: str, model: str, first: bool = True) -> list[Grade]:
    """Return the grades of one tutor's replies by each task's first judge. They are the same under both scorings.

    first: if False, return the grades by the other judges.
    """
    leads = {card.task: plan.judges_of_card(card)[0] for card in plan.judge_cards(benchmark)}
    judges = dict.fromkeys(leads.values()) if first else plan.judges_of(benchmark, model)
    return [
        grade
        for judge in judges
        for grade in grades_in(paths.JUDGE_GRADES.within(results, benchmark=benchmark, judge=judge, tutor=model))
        if grade.scoring == "robust" and (leads[grade.task] == judge) == first
    ]


def grades_in(path: Path) -> Iterator[Grade]:
    """Return an iterator over the grades in a file. It is empty if the file does not exist."""
    return iter_records(path, Grade) if path.exists() else iter(())
