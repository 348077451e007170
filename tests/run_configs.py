"""Configurations of whole runs, and the values that a rule's wildcards take in one, for tests of the plan."""

from __future__ import annotations

import inspect
import itertools
import re
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from maieutic.config.settings import Config, read_config
from maieutic.launch.shell_lines import judges_with_engine
from maieutic.plan.checks import check_selection
from maieutic.plan.plan import BASELINE_BATCH, Plan
from maieutic.run_plan import SLICES, extended_plan_class
from shipped import shipped

STAGES = tuple(sys.modules[part.module] for part in SLICES)  # modules `stage` of all slices
HOSTED = {"engine": "hosted", "model": "m", "base_url": "http://127.0.0.1:9/v1"}
NOBODY = {"reward_models": [], "reward_comparisons": [], "classifiers": [], "judges": [], "taggers": []}


def demo() -> dict[str, Any]:
    """Return the demo with a recorded tutor added."""
    config = shipped()
    config["models"]["ours"] = {"engine": "recorded", "file": "resources/demo/kmp/chats.jsonl"}
    config["run"]["tutors"] = [*config["run"]["tutors"], "ours"]
    return config


def many_judges() -> dict[str, Any]:
    """Return hosted tutors (one sharded, one priced), two judges and their panel, a word list, taggers and probes."""
    config = shipped()
    config["models"] |= {
        "far": {**HOSTED, "shards": 3, "price": {"input": 1, "output": 2}, "label": "Far", "protocol": "study_mode"},
        "near": {**HOSTED, "model": "n", "max_tokens": 50},
        "reading-model": {**HOSTED, "model": "r"},
        "one": {"engine": "judge", "model": "near", "rubrics": ["mrbench_taxonomy", "kmp_error_reason", "tutorbench"],
                "pairs": ["pairs_simple"], "tags": ["tutorbench_bloom"], "family": ["GPT4"]},
        "two": {"engine": "judge", "model": "far", "rubrics": ["mrbench_taxonomy"], "label_limit": 4},
        "both": {"engine": "judge", "judges": ["one", "two"], "rubrics": ["mrbench_taxonomy"], "vote": "majority"},
        "words": {"engine": "judge", "words": True, "rubrics": ["mrbench_taxonomy"]},
    }  # fmt: skip
    config["run"] |= {
        **NOBODY, "tutors": ["far", "near", "echo"], "judges": ["one", "two", "both", "words"], "taggers": ["one"],
        "tasks": ["mrbench", "kmpbench/ec", "tutorbench/text"], "name": "trial", "seed": 7, "labels": ["mrbench"],
        "probes": 5, "reader": "reading-model",
    }  # fmt: skip
    return config


def of_a_paper(name: str) -> dict[str, Any]:
    """Return a shipped run file with few tutors and invented pins, which the plan does not depend on."""
    config = shipped(name)
    pool = config["run"].get("difficulty", {}).get("tutors", [])
    config["run"]["tutors"] = list(dict.fromkeys([*config["run"]["tutors"][:2], *pool]))
    for entry in config["models"].values():
        if "repo" in (weights := entry.get("weights") or {}):
            weights["revision"] = "0" * 40
    for dataset in config["datasets"].values():
        source = dataset.get("published") or {}
        for pinned, key, pin in ((source.get("hub"), "revision", "0" * 40), (source, "sha256", "0" * 64)):
            if pinned:
                pinned[key] = pin
        if source:
            source["records"] = source.get("records") or 1
    return config


def our_own() -> dict[str, Any]:
    """Return a run on a team's own replies, weights, labels, pairs and predictions."""
    config = of_a_paper("mrbench")
    pinned = {"repo": "org/own", "revision": "1" * 40}
    config["models"] |= {
        "folder": {"engine": "vllm", "weights": {"path": "resources/demo/kmp"}},
        "coded": {"engine": "vllm", "weights": pinned, "trust_remote_code": True, "size": {"total": 3}},
        "said": {"engine": "recorded", "file": "resources/demo/mrbench/MRBench_V1.json", "form": "mrbench", "speaker": "GPT4"},
        "near": HOSTED,
        "one": {"engine": "judge", "model": "near", "rubrics": ["mrbench_taxonomy"], "pairs": ["pairs_simple"]},
        "other": {"engine": "judge", "model": "near", "rubrics": ["mrbench_taxonomy"]},
        "scalar": {"engine": "reward", "weights": pinned, "adapter": "internlm2", "prompt": "simple", "max_length": 900},
        "short": {
            "engine": "reward", "prompt": "none", "token_budget": 5000,
            "train": {"base": "smollm2-135m", "mix": {"mathdial": 1.0}, "max_length": 300, "overlong": "cut"},
        },
        "grown": {"engine": "criteria", "train": {"base": "minilm"}},
    }  # fmt: skip
    config["labels"] = {
        **config.get("labels", {}),
        "mine": {
            "title": "Mine", "licence": "ours", "file": "tests/cases/own_labels.csv", "rubric": "mrbench_taxonomy",
        },
    }  # fmt: skip
    config["preferences"] = {
        **config.get("preferences", {}),
        "ours": {"title": "Ours", "licence": "ours", "file": "tests/cases/own_pairs.jsonl"},
    }
    config["run"] = {
        "tutors": ["folder", "coded", "said", "echo"], "tasks": ["mrbench", "mathtutorbench/scaffolding_generation"],
        "judges": ["one", "other"], "labels": ["mine", "mrbench"], "preferences": ["ours", "bridge"], "encoders": ["minilm"],
        "predictions": ["mrbench_v3_test"], "reward_models": ["short", "scalar"], "classifiers": ["grown"],
        "human_labels": "tests/cases/own_people.csv", "leading_reward_model": "best",
        "leading_judge": "best",
    }  # fmt: skip
    config["simulations"] = {"pupils": {"student": "near", "task": "mathtutorbench/scaffolding_generation"}}
    return config


RUNS: dict[str, Callable[[], dict[str, Any]]] = {
    "demo": demo,
    "many judges": many_judges,
    "our own": our_own,
    **{name: partial(of_a_paper, name) for name in ("rewards", "kmpbench", "kmp_lm", "mrbench", "tutorbench", "curation")},
}  # fmt: skip


def job_functions() -> dict[str, Any]:
    """Return the functions that make the jobs of rules from a plan and wildcards, by rule."""
    named = {name: function for module in STAGES for name, function in inspect.getmembers(module, inspect.isfunction)}
    return {rule: named[f"{rule}_job"] for rule in rule_names() if f"{rule}_job" in named}


RULE = re.compile(r"^(?:rule|use rule \w+ as) (\w+)(?: with)?:\n((?:    .*\n|\n)+)", re.MULTILINE)


def rule_bodies() -> dict[str, tuple[Path, str]]:
    """Return the rule file and the text of each rule, by the rule's name."""
    files = sorted(Path("workflow/rules").glob("*.smk"))
    return {rule: (path, body) for path in files for rule, body in RULE.findall(path.read_text(encoding="utf-8"))}


def rule_names() -> list[str]:
    """Return the names of all rules."""
    return sorted(rule_bodies())


def places(plan: Plan, rule: str, wildcards: list[str]) -> Iterator[dict[str, str]]:
    """Yield the wildcards of each job of a rule in a run."""
    trained = rule in {"train_reward_model", "write_model_card"}
    # As in verdicts.smk: panels and word lists have separate rules, which call no model.
    askers = judges_with_engine(plan, plan.run.judges, "vllm", "hosted")
    judges = {"judge_replies": askers, "judge_labelled": askers}
    judges |= dict.fromkeys(("judge_by_words", "judge_labelled_by_words"), plan.word_list_judges)
    judges["rate_dialogues"] = getattr(plan, "raters", [])
    judges |= dict.fromkeys(("combine_verdicts", "combine_labelled"), plan.panels)
    recorded = plan.with_engine("recorded")
    tutors = {"read_replies": recorded, "generate_replies": [name for name in plan.tutors if name not in recorded]}
    tutors["simulate_conversations"] = getattr(plan, "simulated_tutors", [])
    tutors["generate_shard"] = [name for name in plan.tutors if plan.shards_of(name)]
    values = {
        "dataset": plan.used_datasets,
        "model": [
            name for name in plan.used_models if getattr(plan.models[name], "weights", None) and name not in plan.tuned
        ],
        "release": plan.releases,
        "source": plan.used_sources,
        "reward_model": plan.trained_reward_models if trained else plan.reward_models,
        "classifier": plan.classifiers, "encoder": ["minilm"], "judge": judges.get(rule, plan.run.judges),
        "tagger": plan.run.taggers, "reader": [plan.run.reader] if plan.run.reader else [], "benchmark": list(plan.benchmarks), "curation": list(plan.config.curations),
        "simulation": list(plan.config.simulations), "tuning": list(plan.config.tunings),
        "tutor": tutors.get(rule, plan.tutors), "batch": [BASELINE_BATCH],
        "shard": sorted({shard for name in plan.tutors for shard in plan.shards_of(name)}),
        "task": [""],
    }  # fmt: skip
    for combination in itertools.product(*(values[name] for name in wildcards)):
        place = dict(zip(wildcards, combination, strict=True))
        benchmark = place.get("benchmark", "")
        if "tutor" in place and benchmark and place["tutor"] not in plan.tutors_on(benchmark):
            continue
        if "reward_model" in place and benchmark and benchmark not in plan.rewarded_benchmarks:
            continue
        scored = {tutor for batch in plan.reward_batches(benchmark).values() for tutor in batch} if benchmark else set()
        if {"reward_model", "tutor"} <= set(place) and place["tutor"] not in scored:
            continue
        if "judge" in place and benchmark and benchmark not in plan.judged_benchmarks(place["judge"]):
            continue
        if "judge" in place and "tutor" in place and place["judge"] not in plan.judges_of(benchmark, place["tutor"]):
            continue
        if rule == "find_overlap" and benchmark not in plan.rewarded_benchmarks:
            continue
        if rule == "filter_by_difficulty" and benchmark not in plan.pooled_benchmarks:
            continue
        if "task" in place:
            for loaded in plan.benchmarks[benchmark]:
                yield {**place, "task": loaded.card.task}
            continue
        yield place


def check_config(raw: dict[str, Any]) -> Config:
    """Return the validated configuration. Raises UserError with the faults of the first group of checks that fails.

    The checks at the start of a run are left out.
    """
    config = read_config(raw)
    check_selection(extended_plan_class()(config))
    return config
