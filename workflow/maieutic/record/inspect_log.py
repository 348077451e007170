"""Export of a run as Inspect logs (UK AI Security Institute), a file per task and tutor for `inspect view --log-dir`.

The files follow version 2 of the log schema (inspect-ai 0.3). Inspect itself is not needed.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections import defaultdict
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from maieutic.config.cards import Card
from maieutic.config.models import BaselineModel
from maieutic.core import paths
from maieutic.core.files import atomic_file
from maieutic.core.records import Grade, Item, Prompt, Reply, iter_records, read_records
from maieutic.record.finished_run import FinishedRun
from maieutic.record.summary import public_model_name
from maieutic.report.browser import grades_of_run, reference_text
from maieutic.report.tables import is_leading, items_of_task
from maieutic.serving.pictures import readable_content

STOP_REASONS = {
    "length": "max_tokens",
    "content_filter": "content_filter",
    "refusal": "content_filter",
    None: "unknown",
}


def stable_identifier(*words: str) -> str:
    """Return an identifier computed from the given texts, so that it is the same in every export."""
    return hashlib.sha256("\n".join(words).encode()).hexdigest()[:22]


def modification_time(path: Path) -> str:
    """Return the time at which a file was written, as ISO 8601 in UTC."""
    return datetime.fromtimestamp(path.stat().st_mtime, UTC).isoformat(timespec="seconds")


class Sample(NamedTuple):
    """One item with one tutor's reply and its grades.

    sent: role and text of each message of the last turn's prompt; grades: all grades under the `robust` scoring.
    """

    item: Item
    sent: list[dict[str, str]]
    reply: Reply
    grades: list[Grade]


def read_samples(
    run: FinishedRun, benchmark: str, tutor: str, items: Mapping[str, Mapping[str, Item]]
) -> dict[str, list[Sample]]:
    """Return one tutor's samples on a benchmark by task, in the order of the replies. Every file is read once."""
    plan, results = run.plan, run.results
    path = paths.REPLIES.within(results, benchmark=benchmark, tutor=tutor)
    if not path.exists():
        return {}
    cards = {loaded.card.task: loaded.card for loaded in plan.benchmarks[benchmark]}
    grades: dict[tuple[str, str], list[Grade]] = defaultdict(list)
    for grade in grades_of_run(plan, results, benchmark, tutor):
        if grade.scoring == "robust":
            grades[grade.task, grade.id].append(grade)
    sent: dict[str, list[dict[str, str]]] = {}
    prompts = paths.PROMPTS.within(results, benchmark=benchmark, tutor=tutor)
    if prompts.exists() and not isinstance(plan.models[tutor], BaselineModel):
        for prompt in read_records(prompts, Prompt):
            sent[prompt.messages] = [
                {"role": message["role"], "content": readable_content(message["content"])} for message in prompt.content
            ]
    samples: dict[str, list[Sample]] = defaultdict(list)
    for reply in iter_records(path, Reply):
        item = items.get(reply.task, {}).get(reply.id)
        if item is None or item.repeat >= plan.repeats_of(tutor) or not plan.is_answered_by(cards[reply.task], tutor):
            continue
        messages = sent.get(reply.turns[-1].messages, []) if reply.turns else []
        samples[reply.task].append(Sample(item, messages, reply, grades.get((reply.task, reply.id), [])))
    return samples


def inspect_sample(sample: Sample, model: str) -> dict[str, Any]:
    """Return one item with its reply and grades as a sample in Inspect's log schema. model: public model name."""
    turn = sample.reply.turns[-1] if sample.reply.turns else None
    answer: dict[str, Any] = {"role": "assistant", "content": sample.reply.text, "source": "generate"}
    prompt = [{"source": "input", **message} for message in sample.sent]
    prompt_tokens = sum(turn.prompt_tokens or 0 for turn in sample.reply.turns)
    completion_tokens = sum(turn.completion_tokens or 0 for turn in sample.reply.turns)
    usage = {
        "input_tokens": prompt_tokens,
        "output_tokens": completion_tokens,
        "total_tokens": prompt_tokens + completion_tokens,
    }
    scores = {}
    for grade in sample.grades:
        name = "/".join(
            [grade.kind, *([grade.by] if grade.by else []), *([grade.criterion] if grade.criterion else [])]
        )
        value: Any = ("C" if grade.correct else "I") if grade.correct is not None else grade.value
        scores[name] = {
            "value": "N" if value is None else value,
            "answer": grade.raw,
            "explanation": grade.reason or grade.why_none,
            "metadata": {"scoring": grade.scoring, "gold": grade.gold},
        }
    return {
        "id": sample.item.id,
        "epoch": 1,
        "input": prompt or "",
        "target": reference_text(sample.item),
        "messages": [*prompt, answer],
        "output": {
            "model": model,
            "choices": [{"message": answer, "stop_reason": STOP_REASONS.get(turn.finish if turn else None, "stop")}],
            "usage": usage,
            "time": turn.seconds if turn else None,
            "error": sample.reply.error,
        },
        "scores": scores,
        "metadata": {"problem": sample.item.cluster, **sample.item.tags},
        "model_usage": {model: usage},
        "uuid": stable_identifier(sample.item.task, sample.item.id, sample.reply.tutor, sample.reply.key),
    }


def build_inspect_log(run: FinishedRun, card: Card, tutor: str, samples: list[Sample]) -> dict[str, Any]:
    """Return the Inspect log of one tutor on one task."""
    path = paths.REPLIES.within(run.results, benchmark=card.benchmark, tutor=tutor)
    model = public_model_name(run.plan, tutor)
    log_samples = [inspect_sample(sample, model) for sample in samples]
    written = modification_time(path)
    values = [score for score in run.scores.get(card.benchmark, []) if score.tutor == tutor and score.task == card.task]
    # Several judges or reward models may grade a task. A metric's name ends with the name of its grader, unless this
    # grader is the leading one.
    metrics = {
        (name := f"{score.metric}_{score.scoring}{'' if is_leading(run.plan, score) else f'_{score.by}'}"): {
            "name": name,
            "value": score.value,
            "metadata": {"low": score.low, "high": score.high, "n": score.n, "missing": score.missing, "by": score.by},
        }
        for score in values
        if score.value is not None
    }
    usages = [sample["model_usage"][model] for sample in log_samples]
    totals = {name: sum(usage[name] for usage in usages) for name in usages[0]}
    commit = run.provenance.code.commit if run.provenance else None
    return {
        "version": 2,
        "status": "success",
        "eval": {
            "eval_id": stable_identifier("eval", card.benchmark, card.task, tutor),
            "run_id": stable_identifier("run", str(run.plan.run.name), tutor),
            "created": written,
            "task": f"{card.benchmark}/{card.task}",
            "task_id": stable_identifier("task", card.benchmark, card.task),
            "task_version": card.version,
            "task_display_name": card.title,
            "task_description": card.help,
            "task_attribs": {},
            "task_args": {"protocol": run.plan.protocol_of(tutor)},
            "dataset": {
                "name": card.dataset,
                "samples": len(log_samples),
                "sample_ids": [sample["id"] for sample in log_samples],
            },
            "model": model,
            "model_generate_config": {"temperature": card.temperature, "max_tokens": card.max_tokens},
            "config": {},
            "packages": {},
            "metadata": {"tutor": tutor, "headline": card.headline, "commit": commit, "edition": run.plan.edition},
        },
        "plan": {"name": "plan", "steps": [{"solver": "generate", "params": {}}], "config": {}},
        "results": {
            "total_samples": len(log_samples),
            "completed_samples": len(log_samples),
            "scores": [{"name": card.headline, "scorer": card.graders[0], "params": {}, "metrics": metrics}],
        },
        "stats": {"started_at": written, "completed_at": written, "model_usage": {model: totals}},
        "samples": log_samples,
    }


def log_file_name(log: dict[str, Any], tutor: str) -> str:
    """Return a log's file name as Inspect requires it: time, task and identifier, without `_` and joined by `_`."""
    time = log["eval"]["created"].replace(":", "-")
    task = re.sub(r"[^A-Za-z0-9.+-]", "-", f"{log['eval']['task']}-{tutor}")
    return f"{time}_{task}_{log['eval']['eval_id']}.json"


def write_inspect_logs(run: FinishedRun, out: Path) -> list[Path]:
    """Write an Inspect log for every task of every tutor, and return the paths of the files."""
    written = []
    for benchmark, loaded_cards in run.plan.benchmarks.items():
        cards = {loaded.card.task: loaded.card for loaded in loaded_cards}
        items = {task: {item.id: item for item in items_of_task(run.results, benchmark, task)} for task in cards}
        for tutor in run.plan.tutors_on(benchmark):
            for task, samples in read_samples(run, benchmark, tutor, items).items():
                log = build_inspect_log(run, cards[task], tutor, samples)
                path = out / log_file_name(log, tutor)
                with atomic_file(path) as handle:
                    json.dump(log, handle, ensure_ascii=False)
                written.append(path)
    return written
