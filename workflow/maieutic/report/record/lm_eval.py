"""A run as results of lm-evaluation-harness, a file a tutor: `results_*.json` as its tables and loggers read them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from maieutic.core.files import safe_name, whole_file
from maieutic.report.contrasts import WIDTH
from maieutic.report.record.opened import OpenRun
from maieutic.report.record.samples import hub_name, settings_of


def results_of_tutor(run: OpenRun, tutor: str, written: int) -> dict[str, Any]:
    """Every number of a tutor by task: `metric,scoring`, and with `_stderr` what its interval comes to."""
    plan = run.plan
    results: dict[str, dict[str, Any]] = {}
    better: dict[str, dict[str, bool]] = {}
    samples: dict[str, dict[str, int]] = {}
    versions, configs = {}, {}
    for loadeds in plan.benchmarks.values():
        for card in (loaded.card for loaded in loadeds):
            name = f"{card.benchmark}_{card.task}"
            for score in run.scores.get(card.benchmark, []):
                if (
                    (score.tutor, score.task) != (tutor, card.task)
                    or score.value is None
                    or score.metric not in card.metrics
                ):
                    continue
                own = results.setdefault(name, {"alias": card.title})
                by = f" by {score.by}" if score.by else ""
                own[f"{score.metric}{by},{score.scoring}"] = score.value
                interval = score.low is not None and score.high is not None
                error = (score.high - score.low) / WIDTH if interval else "N/A"  # type: ignore[operator]
                own[f"{score.metric}{by}_stderr,{score.scoring}"] = error
                better.setdefault(name, {})[f"{score.metric}{by}"] = (
                    card.metrics[score.metric].higher_is_better is not False
                )
                counted = score.n + score.missing
                samples[name] = {
                    "original": card.items,
                    "effective": max(counted, samples.get(name, {}).get("effective", 0)),
                }
            if name in results:
                versions[name] = card.version
                asked = settings_of(plan, card, tutor)
                configs[name] = {
                    "task": name,
                    "tag": card.benchmark,
                    "dataset_path": card.dataset,
                    "num_fewshot": 0,
                    "generation_kwargs": {"temperature": asked["temperature"], "max_gen_toks": asked["max_tokens"]},
                    "metadata": {"version": card.version, "protocol": asked["protocol"]},
                }
    model = hub_name(plan, tutor)
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


def write_results(run: OpenRun, out: Path, written: int) -> list[Path]:
    """Write the results of every tutor; gives the files."""
    files = []
    for tutor in run.plan.tutors:
        content = results_of_tutor(run, tutor, written)
        if content["results"]:
            path = out / safe_name(tutor) / f"results_{written}.json"
            with whole_file(path) as handle:
                json.dump(content, handle, ensure_ascii=False, indent=2)
            files.append(path)
    return files
