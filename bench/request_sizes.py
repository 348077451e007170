"""Measure request sizes on real data: the mean characters of a request for each task and each of its rubrics.

Writes resources/sizes.csv, from which `maieutic estimate` and dry runs predict requests that have not been sent. If the
published data are not in the folder (MAIEUTIC_DATA), the demo's items are measured instead; the number of items is
still the card's. Later turns are rendered with the human reference's replies, whose length also serves as the answers'.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from statistics import mean
from typing import Any

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "workflow"))

from maieutic.benchmarks import BENCHMARKS
from maieutic.config.cards import CARDS, LoadedCard, read_card
from maieutic.config.datasets import Dataset
from maieutic.config.models import HostedModel, JudgeModel
from maieutic.config.people import LabelSet
from maieutic.config.rubrics import read_rubric
from maieutic.core.records import Item, Reply
from maieutic.core.yaml_files import read_yaml
from maieutic.datasets.labelled_sets import label_source, rubric_for_labels
from maieutic.datasets.pairs import PAIR_SOURCES
from maieutic.datasets.registry import LOADERS
from maieutic.datasets.sources import demo_folder, read_source
from maieutic.judges.assignments import pair_case, reply_cases
from maieutic.judges.judging import JudgeSettings, judge_request
from maieutic.judges.questions import questions_about
from maieutic.launch.requests import ASSUMED_ANSWER_CHARS
from maieutic.replies.baselines import TUTORS, baseline_reply, reply_without_request
from maieutic.replies.generate import first_messages, turn_count, turn_prompt

DATA = Path(os.environ.get("MAIEUTIC_DATA", ROOT / "../shared/data"))
OUT = ROOT / "resources/sizes.csv"
MODEL = HostedModel(engine="hosted", model="m", base_url="http://x/v1", endpoint="chat", structured=True, images=False)
MAX_ITEMS = 300  # approximate number of measured items per task
COLUMNS = ("benchmark", "task", "rubric", "items", "requests", "prompt_chars", "answer_chars", "measured_on")


def items_of(loaded: LoadedCard, datasets: dict[str, Any]) -> tuple[list[Item], str]:
    """Return a task's items and their source: the published data if present, else the demo."""
    dataset = Dataset.model_validate(datasets[loaded.card.dataset])
    load = LOADERS[loaded.card.loader].load
    path = DATA / dataset.published.path
    if path.is_file():
        return load(read_source(path, dataset.format, str(path)), loaded.card.task), "published"
    if dataset.demo is None:
        return [], "none"
    path = demo_folder(ROOT / "resources/demo", dataset.demo.path) / dataset.demo.path
    return load(read_source(path, dataset.format_of("demo"), str(path)), loaded.card.task), "demo"


def length(messages: list[dict[str, Any]]) -> int:
    """Return the number of characters of a request's messages as JSON, the form that a server receives."""
    return len(json.dumps(messages, ensure_ascii=False))


def requests_of(loaded: LoadedCard, item: Item, reply: Reply) -> Iterator[int]:
    """Yield the length of each turn's request if the tutor gives the reference's replies."""
    messages = first_messages(loaded, item, None, False, "user")
    yield length(messages)
    for number in range(1, turn_count(loaded, item)):
        answers = [turn.text for turn in reply.turns[:number]]
        prompt = turn_prompt(loaded, item, answers)
        messages = [*messages, {"role": "assistant", "content": answers[-1]}, {"role": "user", "content": prompt}]
        yield length(messages)


def reference_of(loaded: LoadedCard, item: Item) -> Reply:
    """Return the reference tutor's reply. If the task has none, return the echo tutor's, or typical turns of a script."""
    loader, turns = LOADERS[loaded.card.loader], turn_count(loaded, item)
    if loader.scripted:
        return reply_without_request("typical", item, ["x" * round(ASSUMED_ANSWER_CHARS)] * turns)
    tutor = "reference" if loader.has_human_reply else "echo"
    return baseline_reply(tutor, tutor, item, turns)


def rows_of(loaded: LoadedCard, datasets: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield a row for the tutors' requests, and a row for each rubric that the card names."""
    card = loaded.card
    items, source = items_of(loaded, datasets)
    items = items[:: max(1, len(items) // MAX_ITEMS)]
    if not items:
        return
    replies = [reference_of(loaded, item) for item in items]
    prompts = [size for item, reply in zip(items, replies, strict=True) for size in requests_of(loaded, item, reply)]
    answers = [len(turn.text) for reply in replies for turn in reply.turns]
    common = {"benchmark": card.benchmark, "task": card.task, "items": card.items or "", "measured_on": source}
    yield {**common, "rubric": "", "requests": f"{len(prompts) / len(items):.3g}", "prompt_chars": round(mean(prompts)), "answer_chars": round(mean(answers))}  # fmt: skip
    by_key = {(item.task, item.id): item for item in items}
    for name in card.rubrics:
        rubric = read_rubric(name)
        panel = JudgeSettings("j", JudgeModel(engine="judge", model="m", rubrics=[name]), MODEL, 1)
        cases = reply_cases(rubric, by_key, replies)
        questions = [(case, question) for _, case in cases for question in questions_about(rubric.rubric, case)]
        if questions:
            lengths = [length(judge_request(rubric, case, question, panel)["messages"]) for case, question in questions]
            per_item = len(questions) / len(items)
            yield {**common, "rubric": name, "requests": round(per_item, 2), "prompt_chars": round(mean(lengths)), "answer_chars": 0}  # fmt: skip


def label_rows(datasets: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield a row for each labelled release with files in the folder, and each rubric that can be validated on it."""
    for release, raw in read_yaml(ROOT / "resources/registries/datasets.yaml")["labels"].items():
        entry = LabelSet.model_validate(raw)
        source = label_source(release, entry, ())
        entries = [Dataset.model_validate(datasets[name]) for name in entry.datasets]
        paths = [DATA / entry.published.path for entry in entries]
        if not all(path.is_file() for path in paths):
            continue
        content = source.load(*[read_source(path, entry.format, str(path)) for path, entry in zip(paths, entries, strict=True)])  # fmt: skip
        items = {(item.task, item.id): item for item in content.items}
        labelled = {label.criterion for label in content.labels} or set(source.judged_criteria)
        for name in rubric_names():
            judge = JudgeModel(engine="judge", model="m", rubrics=[name])
            if (rubric := rubric_for_labels(judge, source.about)) is None:
                continue
            criteria = {key: criterion for key, criterion in rubric.rubric.criteria.items() if key in labelled}
            work = [
                (loaded, case._replace(criteria=criteria))
                for loaded, case in reply_cases(rubric, items, content.replies, True)
            ]
            yield row_of("labels", release, name, len(content.replies), work)


def pair_rows() -> Iterator[dict[str, Any]]:
    """Yield a row for each rubric for pairs, measured on the test pairs."""
    files = [DATA / f"bridge/{name}.json" for name in ("train", "validation", "test")] + [
        DATA / "mrbench/MRBench_V1.json"
    ]
    records = [read_source(path, "json", str(path)) for path in files]
    pairs = PAIR_SOURCES["bridge"].load(*records)
    for name in rubric_names():
        if name.startswith("pairs_"):
            yield row_of("pairs", "bridge", name, len(pairs), [(read_rubric(name), pair_case(pair)) for pair in pairs])


def row_of(benchmark: str, task: str, rubric: str, items: int, work: list[tuple[Any, Any]]) -> dict[str, Any]:
    """Return the row of a judge's requests. work: the cases to judge, each with its rubric."""
    panel = JudgeSettings("j", JudgeModel(engine="judge", model="m", rubrics=[rubric]), MODEL, 1)
    lengths = [
        length(judge_request(loaded, case, question, panel)["messages"])
        for loaded, case in work
        for question in questions_about(loaded.rubric, case)
    ]
    return {"benchmark": benchmark, "task": task, "rubric": rubric, "items": items, "requests": round(len(lengths) / items, 2), "prompt_chars": round(mean(lengths)), "answer_chars": 0, "measured_on": "published"}  # fmt: skip


def rubric_names() -> list[str]:
    """Return the names of all shipped rubrics."""
    folders = [ROOT / "resources/rubrics", *(CARDS / name / "rubrics" for name in BENCHMARKS)]
    return sorted(path.stem for folder in folders for path in folder.glob("*.yaml"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=OUT)
    out = parser.parse_args().out
    assert "reference" in TUTORS
    datasets = read_yaml(ROOT / "resources/registries/datasets.yaml")["datasets"]
    rows = [row for path in sorted(CARDS.glob("*/*.yaml")) for row in rows_of(read_card(path), datasets)]
    rows += [*label_rows(datasets), *pair_rows()]
    with open(out, "w", encoding="utf-8", newline="") as handle:
        writer = csv.DictWriter(handle, COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    print(f"{out}: {len(rows)} rows")


if __name__ == "__main__":
    main()
