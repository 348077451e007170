"""Export of a run in the Every Eval Ever schema (every_eval_ever 0.3). Each tutor has a score and a sample file."""

from __future__ import annotations

import hashlib
import json
import uuid
from pathlib import Path
from typing import Any

from maieutic.config.cards import Card
from maieutic.config.models import BaselineModel, HostedModel, JudgeModel, RecordedModel, VllmModel
from maieutic.core import paths
from maieutic.core.files import atomic_file, safe_name, sha256_of
from maieutic.core.intervals import LEVEL
from maieutic.core.records import ReportedScore
from maieutic.plan.plan import Plan
from maieutic.record.finished_run import FinishedRun
from maieutic.record.samples import Sample, public_model_name, read_samples, request_settings
from maieutic.report.tables import display_label, score_file
from maieutic.scores.printed import paper_title

SCHEMA_VERSION = "0.3.0"
RECORD_NAMESPACE = uuid.UUID("6f5f7f2a-3a63-4c1e-9d0b-6e3b2a0f7c11")  # random; record identifiers are derived from it
INTERVAL_METHOD = (
    "over problems: Clopper-Pearson on their effective number, percentile bootstrap for correlations and kappa"
)


def as_schema_texts(**details: Any) -> dict[str, str]:
    """Return the given details as texts, as the schema requires. Details that are None are left out."""
    return {name: str(value) for name, value in details.items() if value is not None}


def model_info(plan: Plan, name: str) -> dict[str, Any]:
    """Return the schema's description of a tutor or judge."""
    model = plan.models[plan.answering_entry(name)]
    known = public_model_name(plan, plan.answering_entry(name))
    developer, _, rest = known.partition("/")
    info: dict[str, Any] = {
        "name": display_label(plan, name),
        "id": known if rest else f"{'maieutic' if isinstance(model, BaselineModel) else 'unstated'}/{known}",
        "additional_details": {
            "deployment_type": "self_deployed" if isinstance(model, VllmModel) else "externally_managed",
            "model_availability": "open_weights" if isinstance(model, VllmModel) else "unknown",
            **as_schema_texts(registry_entry=name, revision=getattr(getattr(model, "weights", None), "revision", None)),
        },
    }
    if rest:
        info["developer"] = developer
    if isinstance(model, VllmModel):
        info["inference_engine"] = {"name": "vLLM"}
    if isinstance(model, HostedModel):
        info["inference_platform"] = model.base_url
    if not isinstance(model, VllmModel | HostedModel | RecordedModel):
        info["additional_details"]["deployment_type"] = "unknown"
    return info


def agreement_texts(run: FinishedRun, grader: str) -> dict[str, str]:
    """Return a judge's measured agreement with people's labels, as text by metric and criterion."""
    measured = score_file(paths.LABEL_VALIDATION.within(run.results, grader=grader))
    return {
        f"agreement_with_people.{score.metric}.{score.criterion or 'all'}": f"{score.value:.4f}"
        + (f" [{score.low:.4f}, {score.high:.4f}]" if score.low is not None and score.high is not None else "")
        for score in measured
        if score.value is not None and score.metric in {"weighted_kappa", "kappa", "accuracy"}
    }


def evaluation_result(
    run: FinishedRun, card: Card, score: ReportedScore, result_id: str, command: str
) -> dict[str, Any]:
    """Return one headline score as an evaluation result of the schema. command: shell command that executes the run."""
    plan, metric = run.plan, card.metrics[score.metric]
    shares = score.value is not None and 0 <= score.value <= 1
    config: dict[str, Any] = {
        "evaluation_description": card.help,
        "metric_id": f"maieutic.{card.benchmark}.{score.metric}",
        "metric_name": score.metric,
        "lower_is_better": metric.higher_is_better is False,
        "score_type": "continuous",
        "min_score": 0.0 if shares else "-Infinity",
        "max_score": 1.0 if shares else "Infinity",
        "additional_details": as_schema_texts(
            scoring=score.scoring, skill=card.skill, source=card.source, grader=score.by
        ),
    }
    by = plan.models.get(score.by or "")
    if isinstance(by, JudgeModel) and score.by:
        config["llm_scoring"] = {
            "judges": [{"model_info": model_info(plan, score.by)}],
            "input_prompt": ", ".join(plan.reply_rubrics(score.by, card.benchmark)) or "none",
            "additional_details": agreement_texts(run, score.by),
        }
    uncertainty: dict[str, Any] = {"num_samples": score.n}
    if score.low is not None and score.high is not None:
        interval = {"lower": score.low, "upper": score.high, "confidence_level": LEVEL}
        uncertainty["confidence_interval"] = {**interval, "method": INTERVAL_METHOD}
    settings = request_settings(plan, card, str(score.tutor))
    return {
        "evaluation_result_id": result_id,
        "evaluation_name": f"{paper_title(card.benchmark)}: {card.title}",
        "source_data": {
            "dataset_name": card.dataset,
            "source_type": "other",
            "additional_details": as_schema_texts(
                pin=run.provenance.data.get(card.dataset) if run.provenance else None,
                edition=plan.edition,
                items=score.n + score.missing,
                task_version=card.version,
            ),
        },
        "metric_config": config,
        "score_details": {
            "score": score.value,
            "details": as_schema_texts(missing=score.missing, unreadable=score.unreadable, problems=score.clusters,
                             floor=score.floor, ceiling=score.ceiling),
            "uncertainty": uncertainty,
        },
        "generation_config": {
            "generation_args": {
                "temperature": settings["temperature"], "max_tokens": settings["max_tokens"],
                "execution_command": command,
            },
            "additional_details": as_schema_texts(protocol=settings["protocol"], seed=settings["seed"]),
        },
    }  # fmt: skip


def instance_record(
    sample: Sample, card: Card, evaluation: str, model: str, result_id: str, score: float
) -> dict[str, Any]:
    """Return one item with its graded reply as an instance record of the schema."""
    last_prompt = sample.sent[-1]["content"] if sample.sent else ""
    conversation = "\n".join(f"{message['role']}: {message['content']}" for message in sample.sent)
    turns = sample.reply.turns
    last = len(sample.conversation) - 1
    instance: dict[str, Any] = {
        "schema_version": SCHEMA_VERSION,
        "evaluation_id": evaluation,
        "model_id": model,
        "evaluation_name": f"{paper_title(card.benchmark)}: {card.title}",
        "evaluation_result_id": result_id,
        "sample_id": sample.item.id,
        "sample_hash": hashlib.sha256((conversation + sample.reference).encode("utf-8", "replace")).hexdigest(),
        "interaction_type": "single_turn" if len(turns) == 1 else "multi_turn",
        "input": {"raw": last_prompt, "reference": [sample.reference]},
        "answer_attribution": [
            {
                "turn_idx": 0 if len(turns) == 1 else last,
                "source": "output.raw" if len(turns) == 1 else f"messages[{last}].content",
                "extracted_value": sample.headline_grade.raw if sample.headline_grade else "",
                "extraction_method": sample.headline_grade.kind if sample.headline_grade else "none",
                "is_terminal": True,
            }
        ],
        "evaluation": {
            "score": score,
            "is_correct": bool(sample.headline_grade and sample.headline_grade.correct) and score > 0,
            "num_turns": max(len(turns), 1),
        },
        "token_usage": sample.usage,
        "metadata": {"problem": sample.item.cluster, **sample.item.tags},
    }
    if len(turns) == 1:
        instance["output"] = {"raw": [turns[0].text]}
        if turns[0].reasoning:
            instance["output"]["reasoning_trace"] = [turns[0].reasoning]
    else:
        instance["messages"] = [{"turn_idx": at, **message} for at, message in enumerate(sample.conversation)]
    if sample.reply.error:
        instance["error"] = sample.reply.error
    return instance


def write_evaluation_records(run: FinishedRun, out: Path, written: int, command: str) -> list[Path]:
    """Write a score file and a sample file for each tutor, and return the paths of the score files.

    written: time of the export, in seconds since 1970; command: shell command that executes the run.
    """
    plan, files = run.plan, []
    config = sha256_of(run.path_of(paths.CONFIG))
    cards = {(card.benchmark, card.task): card for card in (loaded.card for loaded in plan.cards.values())}
    for tutor in (name for name in plan.tutors if run.headlines(name)):
        info = model_info(plan, tutor)
        developer, model = (safe_name(part) for part in info["id"].split("/", 1))
        evaluation = f"maieutic/{info['id'].replace('/', '_')}/{tutor}/{written}"
        name = str(uuid.UUID(bytes=uuid.uuid5(RECORD_NAMESPACE, f"{config}/{tutor}").bytes, version=4))
        folder = out / "data" / "maieutic" / developer / model
        results, count = [], 0
        samples = {benchmark: read_samples(run, benchmark, tutor) for benchmark in plan.benchmarks}
        with atomic_file(folder / f"{name}_samples.jsonl") as handle:
            for score in run.headlines(tutor):
                if score.value is None:
                    continue
                card = cards[str(score.benchmark), score.task]
                result_id = f"{card.benchmark}.{card.task}.{score.metric}"
                results.append(evaluation_result(run, card, score, result_id, command))
                for sample in samples[card.benchmark].get(card.task, []):
                    if sample.score is not None:
                        line = instance_record(sample, card, evaluation, info["id"], result_id, sample.score)
                        handle.write(json.dumps(line, ensure_ascii=False) + "\n")
                        count += 1
        relative = f"data/maieutic/{developer}/{model}/{name}_samples.jsonl"
        log: dict[str, Any] = {
            "schema_version": SCHEMA_VERSION,
            "evaluation_id": evaluation,
            "retrieved_timestamp": str(written),
            "source_metadata": {
                "source_name": "Maieutic",
                "source_type": "evaluation_run",
                "source_organization_name": "unstated",
                "evaluator_relationship": "third_party",
                "additional_details": as_schema_texts(run=plan.run.name, edition=plan.edition),
            },
            "eval_library": {
                "name": "maieutic",
                "version": (run.provenance.code.commit if run.provenance else None) or "unknown",
            },
            "model_info": info,
            "evaluation_results": results,
        }
        if count:
            log["detailed_evaluation_results"] = {
                "format": "jsonl",
                "file_path": relative,
                "hash_algorithm": "sha256",
                "checksum": sha256_of(out / relative),
                "total_rows": count,
            }
        else:  # no sample has a score: delete the empty file
            (out / relative).unlink()
        path = folder / f"{name}.json"
        with atomic_file(path) as handle:
            json.dump(log, handle, ensure_ascii=False, indent=1)
        files.append(path)
    return files
