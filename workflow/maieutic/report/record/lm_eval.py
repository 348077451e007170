"""Export of a run for the tools of lm-evaluation-harness: a `results_*.json` file per tutor."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from maieutic.core.files import atomic_file, safe_name
from maieutic.report.contrasts import WIDTH
from maieutic.report.record.finished_run import FinishedRun
from maieutic.report.record.samples import public_model_name, request_settings


def lm_eval_results(run: FinishedRun, tutor: str, written: int) -> dict[str, Any]:
    """Return the content of a tutor's results file in the format of lm-evaluation-harness.

    Each task has keys `metric,scoring` (value) and `metric_stderr,scoring` (standard error, from the interval's width).
    written: time of the export, in seconds since 1970.
    """
    plan = run.plan
    results: dict[str, dict[str, Any]] = {}
    better: dict[str, dict[str, bool]] = {}
    samples: dict[str, dict[str, int]] = {}
    versions, configs = {}, {}
    for loaded_cards in plan.benchmarks.values():
        for card in (loaded.card for loaded in loaded_cards):
            name = f"{card.benchmark}_{card.task}"
            for score in run.scores.get(card.benchmark, []):
                if (
                    (score.tutor, score.task) != (tutor, card.task)
                    or score.value is None
                    or score.metric not in card.metrics
                ):
                    continue
                task_results = results.setdefault(name, {"alias": card.title})
                by = f" by {score.by}" if score.by else ""
                task_results[f"{score.metric}{by},{score.scoring}"] = score.value
                interval = score.low is not None and score.high is not None
                error = (score.high - score.low) / WIDTH if interval else "N/A"  # type: ignore[operator]
                task_results[f"{score.metric}{by}_stderr,{score.scoring}"] = error
                better.setdefault(name, {})[f"{score.metric}{by}"] = (
                    card.metrics[score.metric].higher_is_better is not False
                )
                n_items = score.n + score.missing
                samples[name] = {
                    "original": card.items,
                    "effective": max(n_items, samples.get(name, {}).get("effective", 0)),
                }
            if name in results:
                versions[name] = card.version
                settings = request_settings(plan, card, tutor)
                configs[name] = {
                    "task": name,
                    "tag": card.benchmark,
                    "dataset_path": card.dataset,
                    "num_fewshot": 0,
                    "generation_kwargs": {
                        "temperature": settings["temperature"],
                        "max_gen_toks": settings["max_tokens"],
                    },
                    "metadata": {"version": card.version, "protocol": settings["protocol"]},
                }
    model = public_model_name(plan, tutor)
    return {
        "results": results,
        "group_subtasks": {},
        "configs": configs,
        "versions": versions,
        "n-shot": dict.fromkeys(results, 0),
        "higher_is_better": better,
        "n-samples": samples,
        "config": {"model": plan.models[tutor].engine, "model_args": f"model={model}", "random_seed": plan.run.seed},
        "git_hash": run.provenance.code.commit if run.provenance else None,
        "date": float(written),
        "model_source": "maieutic",
        "model_name": model,
        "model_name_sanitized": safe_name(model),
    }


def write_lm_eval_results(run: FinishedRun, out: Path, written: int) -> list[Path]:
    """Write a results file for every tutor that has results, and return the paths of the files."""
    files = []
    for tutor in run.plan.tutors:
        content = lm_eval_results(run, tutor, written)
        if content["results"]:
            path = out / safe_name(tutor) / f"results_{written}.json"
            with atomic_file(path) as handle:
                json.dump(content, handle, ensure_ascii=False, indent=2)
            files.append(path)
    return files
