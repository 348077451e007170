"""Measure request sizes on real data: the mean characters of a request for each task and each of its rubrics.

Writes resources/sizes.csv, from which `maieutic estimate` and dry runs predict requests that have not been sent,
resources/reply_lengths.csv (lengths of replies that others published), and resources/items.json (digests of published
items). If the published data are not in the folder (MAIEUTIC_DATA), the demo's items are measured instead; the number
of items is still the card's. Later turns are rendered with the human reference's replies, whose length also serves as the answers'.
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
from maieutic.core.files import write_json
from maieutic.core.records import Item, Reply
from maieutic.core.yaml_files import read_yaml
from maieutic.datasets.labelled_sets import label_source, rubric_for_labels
from maieutic.datasets.pairs import PAIR_SOURCES
from maieutic.datasets.registry import LOADERS
from maieutic.datasets.sources import demo_folder, read_source
from maieutic.judges.assignments import pair_case, reply_cases
from maieutic.judges.judging import JudgeSettings, judge_request
from maieutic.judges.questions import Question, questions_about
from maieutic.launch.lengths import ASSUMED_ANSWER_CHARS, LENGTHS_FILE
from maieutic.record.board import DIGESTS, items_digest
from maieutic.replies.baselines import TUTORS, baseline_reply, reply_without_request
from maieutic.replies.generate import first_messages, turn_count, turn_prompt
from maieutic.serving.budget import CHARS_A_TOKEN

DATA = Path(os.environ.get("MAIEUTIC_DATA", ROOT / "../shared/data"))
OUT = ROOT / "resources/sizes.csv"
MODEL = HostedModel(engine="hosted", model="m", base_url="http://x/v1", endpoint="chat", structured=True, images=False)
MAX_ITEMS = 300  # approximate number of measured items per task
COLUMNS = (
    "benchmark",
    "task",
    "rubric",
    "items",
    "requests",
    "prompt_chars",
    "answer_chars",
    "criteria",
    "measured_on",
)


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
    yield {**common, "rubric": "", "requests": f"{len(prompts) / len(items):.3g}", "prompt_chars": round(mean(prompts)), "answer_chars": round(mean(answers)), "criteria": 0}  # fmt: skip
    by_key = {(item.task, item.id): item for item in items}
    for name in card.rubrics:
        rubric = read_rubric(name)
        panel = JudgeSettings("j", JudgeModel(engine="judge", model="m", rubrics=[name]), MODEL, 1)
        cases = reply_cases(rubric, by_key, replies)
        questions = [(case, question) for _, case in cases for question in questions_about(rubric.rubric, case)]
        if questions:
            lengths = [length(judge_request(rubric, case, question, panel)["messages"]) for case, question in questions]
            per_item = len(questions) / len(items)
            yield {**common, "rubric": name, "requests": round(per_item, 2), "prompt_chars": round(mean(lengths)), "answer_chars": 0, "criteria": criteria_of([question for _, question in questions])}  # fmt: skip


def criteria_of(questions: list[Question]) -> float:
    """Return the mean number of criteria in a question."""
    return round(mean(len(question.criteria) for question in questions), 2)


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
    questions = [(loaded, case, question) for loaded, case in work for question in questions_about(loaded.rubric, case)]
    lengths = [length(judge_request(loaded, case, question, panel)["messages"]) for loaded, case, question in questions]
    return {"benchmark": benchmark, "task": task, "rubric": rubric, "items": items, "requests": round(len(lengths) / items, 2), "prompt_chars": round(mean(lengths)), "answer_chars": 0, "criteria": criteria_of([question for *_, question in questions]), "measured_on": "published"}  # fmt: skip


def published_digests(datasets: dict[str, Any]) -> dict[str, str]:
    """Return the digest of the items of each task whose published data are in the folder, for `maieutic board`."""
    items = {path: items_of(read_card(path), datasets) for path in sorted(CARDS.glob("*/*.yaml"))}
    return {f"{path.parent.name}/{path.stem}": items_digest(part) for path, (part, source) in items.items() if source == "published"}  # fmt: skip


# lengths of published replies ------------------------------------------------------------------------------------------

LENGTH_COLUMNS = ("benchmark", "task", "part", "model", "replies", "share", "reference_chars", "tokens")
MRBENCH_PEOPLE = ("Expert", "Novice")
QWEN_TASKS = ("pedagogy_following", "pedagogy_following_hard", "scaffolding_generation", "scaffolding_generation_hard")
TUTORBENCH_TRACE = "published_replies/tutorbench/validation150-baseline.jsonl"
# Items of the public release by batch (hub card), which weigh the batches of the sample.
BATCHES = {"USE_CASE_1_TEXT": 327, "USE_CASE_2_TEXT": 165, "USE_CASE_3_TEXT": 164, "USE_CASE_1_MULTIMODAL": 146, "USE_CASE_2_MULTIMODAL": 342, "USE_CASE_3_MULTIMODAL": 329}  # fmt: skip


def fitted_rows() -> dict[str, list[dict[str, Any]]]:
    """Return every other row, by batch, of TutorBench's published single calls. The others check the fit."""
    lines = (DATA / TUTORBENCH_TRACE).read_text(encoding="utf-8").splitlines()
    rows = [json.loads(line) for line in lines[::2]]
    return {batch: [row for row in rows if row["task"]["batch"] == batch] for batch in BATCHES}


def usage(rows: list[dict[str, Any]], who: str, kind: str) -> float:
    """Return the mean tokens that a trace reports. who: `candidate` or `judge`; kind: `input` or `output`."""
    return mean(row[who]["usage"][f"{kind}_tokens"] for row in rows)


def weighted(task: str, values: dict[str, float]) -> float:
    """Return the mean of a value by batch over the items of one task of TutorBench."""
    shares = {batch: items for batch, items in BATCHES.items() if batch.endswith(task.upper())}
    return sum(shares[batch] * values[batch] for batch in shares) / sum(shares.values())


def with_measured_usage(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the rows with TutorBench's sizes by the reported usage, since its data are not in the folder.

    Other rubrics keep their length relative to the paper's.
    """
    fitted = fitted_rows()
    for task in ("text", "multimodal"):
        by_rubric = {row["rubric"]: row for row in rows if (row["benchmark"], row["task"]) == ("tutorbench", task)}
        prompt, judged = (
            CHARS_A_TOKEN * weighted(task, {batch: usage(part, who, "input") for batch, part in fitted.items()})
            for who in ("candidate", "judge")
        )
        criteria = weighted(task, {batch: mean(row["task"]["rubric_count"] for row in part) for batch, part in fitted.items()})  # fmt: skip
        paper = by_rubric["tutorbench"]["prompt_chars"]
        for rubric, row in by_rubric.items():
            row["prompt_chars"] = round(judged * row["prompt_chars"] / paper if rubric else prompt)
            row["measured_on"] = "usage"
            if row["criteria"] > 1:
                row["criteria"] = round(criteria, 2)
            elif rubric:
                row["requests"] = round(criteria, 2)
    return rows


def reply_rows() -> Iterator[dict[str, Any]]:
    """Yield the mean length of the published replies to each task, by model."""
    records = json.loads((DATA / "mrbench/MRBench_V1.json").read_text(encoding="utf-8"))
    texts: dict[str, list[str]] = {}
    for record in records:
        for tutor, reply in record["anno_llm_responses"].items():
            texts.setdefault(tutor, []).append(reply["response"])
    experts = mean(map(len, texts["Expert"]))
    for tutor in sorted({*texts} - {*MRBENCH_PEOPLE}):
        yield length_row("mrbench", "mistake_remediation", tutor, texts[tutor], experts)
    for task in QWEN_TASKS:
        path = DATA / f"published_replies/mathtutorbench/generations-Qwen3-4B-Instruct-2507-{task}.json"
        replies = json.loads(path.read_text(encoding="utf-8"))
        reference = mean(len(reply["ground_truth_response"]["text"]) for reply in replies)
        texts_of_task = [reply["generated_teacher_utterance"] for reply in replies]
        yield length_row("mathtutorbench", task, "Qwen3-4B-Instruct-2507", texts_of_task, reference)
    for task in ("text", "multimodal", "copy_text"):
        kind = "text" if task == "copy_text" else task
        batches = {batch: items for batch, items in BATCHES.items() if batch.endswith(kind.upper())}
        for batch, items in batches.items():
            rows = fitted_rows()[batch]
            yield {"benchmark": "tutorbench", "task": task, "part": batch, "model": "claude-sonnet-4-6", "replies": len(rows), "share": round(items / sum(batches.values()), 4), "reference_chars": "", "tokens": round(usage(rows, "candidate", "output"), 1)}  # fmt: skip


def length_row(benchmark: str, task: str, model: str, replies: list[str], reference: float) -> dict[str, Any]:
    """Return the row of one model's replies to a whole task. reference: mean length of the human replies."""
    return {"benchmark": benchmark, "task": task, "part": "", "model": model, "replies": len(replies), "share": 1, "reference_chars": round(reference, 1), "tokens": round(mean(map(len, replies)) / CHARS_A_TOKEN, 1)}  # fmt: skip


def rubric_names() -> list[str]:
    """Return the names of all shipped rubrics."""
    folders = [ROOT / "resources/rubrics", *(CARDS / name / "rubrics" for name in BENCHMARKS)]
    return sorted(path.stem for folder in folders for path in folder.glob("*.yaml"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=OUT)
    parser.add_argument("--lengths", type=Path, default=LENGTHS_FILE)
    parser.add_argument("--digests", type=Path, default=DIGESTS)
    arguments = parser.parse_args()
    assert "reference" in TUTORS
    datasets = read_yaml(ROOT / "resources/registries/datasets.yaml")["datasets"]
    rows = [row for path in sorted(CARDS.glob("*/*.yaml")) for row in rows_of(read_card(path), datasets)]
    rows = [*with_measured_usage(rows), *label_rows(datasets), *pair_rows()]
    write_json(arguments.digests, published_digests(datasets))
    tables = ((arguments.out, COLUMNS, rows), (arguments.lengths, LENGTH_COLUMNS, list(reply_rows())))
    for out, columns, content in tables:
        with open(out, "w", encoding="utf-8", newline="") as handle:
            writer = csv.DictWriter(handle, columns, lineterminator="\n")
            writer.writeheader()
            writer.writerows(content)
        print(f"{out}: {len(content)} rows")


if __name__ == "__main__":
    main()
