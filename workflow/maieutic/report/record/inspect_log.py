"""A run as logs of Inspect (UK AI Security Institute), a file a task and tutor: `inspect view --log-dir FOLDER`.

Written by the log's schema, version 2 (inspect-ai 0.3): Inspect itself is not needed.
"""

from __future__ import annotations

import hashlib
import json
import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from maieutic.config.cards import Card
from maieutic.core import paths
from maieutic.core.files import whole_file
from maieutic.report.record.opened import OpenRun
from maieutic.report.record.samples import Sample, hub_name, read_samples, settings_of
from maieutic.report.tables import leads

FINISH = {"length": "max_tokens", "content_filter": "content_filter", "refusal": "content_filter", None: "unknown"}


def digest(*words: str) -> str:
    """An identifier that is the same in every export of the same thing."""
    return hashlib.sha256("\n".join(words).encode()).hexdigest()[:22]


def written_at(path: Path) -> str:
    """When a file was written, as ISO 8601 in UTC."""
    return datetime.fromtimestamp(path.stat().st_mtime, UTC).isoformat(timespec="seconds")


def sample_of(sample: Sample, model: str) -> dict[str, Any]:
    """One item as a sample of Inspect."""
    turn = sample.reply.turns[-1] if sample.reply.turns else None
    answer: dict[str, Any] = {"role": "assistant", "content": sample.reply.text, "source": "generate"}
    asked = [{"source": "input", **message} for message in sample.sent]
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
        "input": asked or "",
        "target": sample.reference,
        "messages": [*asked, answer],
        "output": {
            "model": model,
            "choices": [{"message": answer, "stop_reason": FINISH.get(turn.finish if turn else None, "stop")}],
            "usage": sample.usage,
            "time": turn.seconds if turn else None,
            "error": sample.reply.error,
        },
        "scores": scores,
        "metadata": {"problem": sample.item.cluster, **sample.item.tags},
        "model_usage": {model: sample.usage},
        "uuid": digest(sample.item.task, sample.item.id, sample.reply.tutor, sample.reply.key),
    }


def log_of(run: OpenRun, card: Card, tutor: str, samples: list[Sample]) -> dict[str, Any]:
    """One task of one tutor as a log."""
    path = paths.REPLIES.within(run.results, benchmark=card.benchmark, tutor=tutor)
    model = hub_name(run.plan, tutor)
    own = [sample_of(sample, model) for sample in samples]
    written = written_at(path)
    asked = settings_of(run.plan, card, tutor)
    values = [score for score in run.scores.get(card.benchmark, []) if score.tutor == tutor and score.task == card.task]
    # Of several judges or reward models the leading one's number has the metric's plain name.
    metrics = {
        (name := f"{score.metric}_{score.scoring}{'' if leads(run.plan, score) else f'_{score.by}'}"): {
            "name": name,
            "value": score.value,
            "metadata": {"low": score.low, "high": score.high, "n": score.n, "missing": score.missing, "by": score.by},
        }
        for score in values
        if score.value is not None
    }
    totals = {name: sum(sample["model_usage"][model][name] for sample in own) for name in own[0]["model_usage"][model]}
    commit = run.provenance.code.commit if run.provenance else None
    return {
        "version": 2,
        "status": "success",
        "eval": {
            "eval_id": digest("eval", card.benchmark, card.task, tutor),
            "run_id": digest("run", str(run.plan.run.name), tutor),
            "created": written,
            "task": f"{card.benchmark}/{card.task}",
            "task_id": digest("task", card.benchmark, card.task),
            "task_version": card.version,
            "task_display_name": card.title,
            "task_description": card.help,
            "task_attribs": {},
            "task_args": {"protocol": asked["protocol"]},
            "dataset": {"name": card.dataset, "samples": len(own), "sample_ids": [one["id"] for one in own]},
            "model": model,
            "model_generate_config": {"temperature": card.temperature, "max_tokens": card.max_tokens},
            "config": {},
            "packages": {},
            "metadata": {"tutor": tutor, "headline": card.headline, "commit": commit, "edition": run.plan.edition},
        },
        "plan": {"name": "plan", "steps": [{"solver": "generate", "params": {}}], "config": {}},
        "results": {
            "total_samples": len(own),
            "completed_samples": len(own),
            "scores": [{"name": card.headline, "scorer": card.graders[0], "params": {}, "metrics": metrics}],
        },
        "stats": {"started_at": written, "completed_at": written, "model_usage": {model: totals}},
        "samples": own,
    }


def file_name(log: dict[str, Any], tutor: str) -> str:
    """A log's name as Inspect finds logs: time, task, identifier, with `_` between them alone."""
    time = log["eval"]["created"].replace(":", "-")
    task = re.sub(r"[^A-Za-z0-9.+-]", "-", f"{log['eval']['task']}-{tutor}")
    return f"{time}_{task}_{log['eval']['eval_id']}.json"


def write_logs(run: OpenRun, out: Path) -> list[Path]:
    """Write every task of every tutor; gives the files."""
    written = []
    for benchmark, loadeds in run.plan.benchmarks.items():
        cards = {loaded.card.task: loaded.card for loaded in loadeds}
        for tutor in run.plan.tutors_on(benchmark):
            for task, samples in read_samples(run, benchmark, tutor).items():
                log = log_of(run, cards[task], tutor, samples)
                path = out / file_name(log, tutor)
                with whole_file(path) as handle:
                    json.dump(log, handle, ensure_ascii=False)
                written.append(path)
    return written
