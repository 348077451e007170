"""The whole plan of some runs as text: every rule's inputs and jobs, and what the plan says of itself. `make plans`.

A test compares them with tests/cases/plans: a change of the plan that nobody meant stands in its diff.
"""

from __future__ import annotations

import copy
import hashlib
import inspect
import itertools
import json
import re
from collections.abc import Callable, Iterator
from functools import cached_property, partial
from pathlib import Path
from typing import Any

from conftest import ROOT
from maieutic.plan import inputs, jobs
from maieutic.plan.estimate import cells_of, row_of
from maieutic.plan.patterns import patterns
from maieutic.plan.plan import BASELINE_BATCH, Plan
from maieutic.plan.requests import COUNTS, new_requests
from maieutic.plan.rules import RulePlan, plan_of
from pydantic import ValidationError
from shipped import read, registries, shipped

FOLDER = ROOT / "tests/cases/plans"
HOSTED = {"engine": "hosted", "model": "m", "base_url": "http://127.0.0.1:9/v1"}
NOBODY = {"reward_models": [], "reward_comparisons": [], "classifiers": [], "judges": [], "taggers": []}


def demo() -> dict[str, Any]:
    """The demo, with a tutor whose replies are in a file besides."""
    config = shipped()
    config["models"]["ours"] = {"engine": "recorded", "file": "resources/demo/kmp/chats.jsonl"}
    config["run"]["tutors"] = [*config["run"]["tutors"], "ours"]
    return config


def many_judges() -> dict[str, Any]:
    """Hosted tutors, one in shards and one with prices, two judges, a panel of both, a list of words, taggers, probes."""
    config = shipped()
    config["models"] |= {
        "far": {**HOSTED, "shards": 3, "price": {"input": 1, "output": 2}, "label": "Far", "protocol": "study_mode"},
        "near": {**HOSTED, "model": "n", "max_tokens": 50},
        "one": {"engine": "judge", "model": "near", "rubrics": ["mrbench_taxonomy", "kmp_error_reason", "tutorbench"],
                "pairs": ["pairs_simple"], "tags": ["tutorbench_bloom"], "family": ["GPT4"]},
        "two": {"engine": "judge", "model": "far", "rubrics": ["mrbench_taxonomy"], "label_limit": 4},
        "both": {"engine": "judge", "judges": ["one", "two"], "rubrics": ["mrbench_taxonomy"], "vote": "fitted"},
        "words": {"engine": "judge", "words": True, "rubrics": ["mrbench_taxonomy"]},
    }  # fmt: skip
    config["run"] |= {
        **NOBODY, "tutors": ["far", "near", "echo"], "judges": ["one", "two", "both", "words"], "taggers": ["one"],
        "tasks": ["mrbench", "kmpbench/ec", "tutorbench/text"], "name": "trial", "seed": 7, "labels": ["mrbench"],
        "probes": 5,
    }  # fmt: skip
    return config


def packed() -> dict[str, Any]:
    """A served tutor that answers all benchmarks in one job, without graders."""
    config = shipped()
    config["run"] |= {**NOBODY, "tutors": ["smollm2-135m"], "tasks": ["mathtutorbench/problem_solving", "kmpbench/fqa"]}
    config["servers"] = {"pack": True}
    return config


def of_a_paper(name: str) -> dict[str, Any]:
    """A run file as it is shipped, with few tutors, every pin a made-up one: what is planned does not rest on it."""
    config = registries() | copy.deepcopy(read(name))
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
    """What a team brings: replies, weights, labels, pairs and predictions of its own, in files and folders."""
    config = of_a_paper("mrbench")
    pinned = {"repo": "org/own", "revision": "1" * 40}
    config["models"] |= {
        "folder": {"engine": "vllm", "weights": {"path": "resources/demo/kmp"}},
        "coded": {"engine": "vllm", "weights": pinned, "trust_remote_code": True, "size": {"total": 3}},
        "said": {"engine": "recorded", "file": "resources/demo/mrbench/MRBench_V1.json", "form": "mrbench", "speaker": "GPT4"},
        "near": HOSTED,
        "one": {"engine": "judge", "model": "near", "rubrics": ["mrbench_taxonomy"], "pairs": ["pairs_simple"]},
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
            "title": "Mine",
            "licence": "ours",
            "file": "tests/cases/own_labels.csv",
            "rubric": "mrbench_taxonomy",
        },
    }
    config["preferences"] = {
        **config.get("preferences", {}),
        "ours": {"title": "Ours", "licence": "ours", "file": "tests/cases/own_pairs.jsonl"},
    }
    config["run"] = {
        "tutors": ["folder", "coded", "said", "echo"], "tasks": ["mrbench", "mathtutorbench/scaffolding_generation"],
        "judges": ["one"], "labels": ["mine", "mrbench"], "preferences": ["ours", "bridge"], "encoders": ["minilm"],
        "predictions": ["mrbench_v3_test"], "reward_models": ["short", "scalar"], "classifiers": ["grown"],
        "human_labels": "tests/cases/own_people.csv",
    }  # fmt: skip
    return config


RUNS: dict[str, Callable[[], dict[str, Any]]] = {
    "demo": demo,
    "many judges": many_judges,
    "packed": packed,
    "our own": our_own,
    **{name: partial(of_a_paper, name) for name in ("paper", "kmpbench", "mrbench", "tutorbench", "curation")},
}


class Anything:
    """Files that are all written anew, so that nothing of this folder's own results counts as on file."""

    def __contains__(self, file: object) -> bool:
        return True


ANYTHING = Anything()
LONGEST = 300  # characters of a value; of a longer one its beginning and a checksum
UNTOLD = {"save_config"}  # its job holds the whole configuration, and the checkout's commit


def functions(module: Any) -> dict[str, Any]:
    """The functions of a module whose first argument is a plan and whose others are wildcards."""
    rules = rule_names()
    named = dict(inspect.getmembers(module, inspect.isfunction))
    return {name: function for name, function in named.items() if name in rules and hasattr(jobs, name)}


def rule_names() -> list[str]:
    """The names of all rules."""
    texts = (path.read_text(encoding="utf-8") for path in Path("workflow/rules").glob("*.smk"))
    pattern = re.compile(r"^(?:rule|use rule \w+ as) (\w+)(?:| with):", re.MULTILINE)
    return sorted(name for text in texts for name in pattern.findall(text))


def places(plan: Plan, rule: str, wildcards: list[str]) -> Iterator[dict[str, str]]:
    """What the wildcards of a rule can be in a run."""
    trained = rule in {"train_reward_model", "write_model_card"}
    graders = {"validate_judge": plan.run.judges, "validate_reward_model": plan.reward_models}
    graders |= {"validate_reward_on_pairs": plan.reward_models}
    graders |= {"validate_reward_on_labels": plan.reward_models, "validate_probes": plan.run.judges}
    recorded = plan.with_engine("recorded")
    tutors = {"read_replies": recorded, "generate_replies": [name for name in plan.tutors if name not in recorded]}
    tutors["generate_all_replies"] = [name for name in plan.run.tutors if name not in recorded]
    tutors["generate_shard"] = [name for name in plan.tutors if plan.shards_of(name)]
    values = {
        "dataset": plan.used_datasets,
        "model": [name for name in plan.used_models if getattr(plan.models[name], "weights", None)],
        "release": plan.releases,
        "source": plan.used_sources,
        "reward_model": plan.trained_reward_models if trained else plan.reward_models,
        "classifier": plan.classifiers,
        "encoder": ["minilm"],
        "judge": plan.run.judges,
        "tagger": plan.run.taggers,
        "grader": graders.get(rule, plan.classifiers),
        "benchmark": list(plan.benchmarks),
        "tutor": tutors.get(rule, plan.tutors),
        "batch": [BASELINE_BATCH],
        "shard": sorted({shard for name in plan.tutors for shard in plan.shards_of(name)}),
        "task": [""],
    }
    for chosen in itertools.product(*(values[name] for name in wildcards)):
        place = dict(zip(wildcards, chosen, strict=True))
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


def lines_of(plan: RulePlan) -> Iterator[str]:
    """A plan line by line: a job without those fields that the job before it of its rule has too."""
    for name in sorted(dir(type(plan))):
        kept = inspect.getattr_static(type(plan), name)
        if name not in UNSAID and isinstance(kept, property | cached_property):
            yield f"{name}: {told(getattr(plan, name))}"
    for targets in (inputs.all_questions, inputs.downloads, inputs.last_checks):
        yield f"{targets.__name__}: {told(targets(plan))}"
    for name, pattern in patterns(plan).items():
        yield f"pattern of {name}: {pattern}"
    for rule in rule_names():
        of_job, of_inputs = getattr(jobs, rule, None), getattr(inputs, rule, None)
        if not (of_job or of_inputs):
            continue  # an extension's, or one that the rule's own file says all of
        wildcards = list(inspect.signature(of_job or of_inputs).parameters)[1:]
        before: dict[str, Any] = {}
        for place in places(plan, rule, wildcards):
            yield f"{rule} " + " ".join(f"{name}={value}" for name, value in place.items())
            try:
                read_by = of_inputs(plan, **place) if of_inputs else {}
                job = json.loads(of_job(plan, **place).to_json()) if of_job and rule not in UNTOLD else {}
            except (ValidationError, LookupError, AttributeError):
                yield "  is no job of this run"  # by the rule's wildcards, which are not read here
                continue
            yield from (f"  < {name}: {told(files)}" for name, files in read_by.items())
            if rule in COUNTS:
                if (asked := new_requests(plan, rule, place, ANYTHING)) is not None:
                    yield f"  asks {told(asked)}"
                    yield f"  costs {told(cells_of(row_of(plan, asked.stage, asked.model, [asked], 'h100')))}"
                yield f"  needs {told(plan.needs(place))} of {told(plan.models_of(place))}"
            yield from (f"  {name}: {told(value)}" for name, value in job.items() if before.get(name, "") != value)
            before = job


# Large, or of the package's code and the machine, or what jobs say anyway.
UNSAID = {"models", "config", "cards", "run", "datasets", "benchmarks"}


def told(value: Any) -> str:
    """A value as one line."""
    text = json.dumps(value, sort_keys=True, ensure_ascii=False, default=spelt)
    return text if len(text) <= LONGEST else f"{text[:LONGEST]} ... {hashlib.sha256(text.encode()).hexdigest()[:12]}"


def spelt(value: Any) -> Any:
    """What JSON has no word for: sets in order, records by their fields."""
    if isinstance(value, set | frozenset):
        return sorted(value)
    return value.model_dump(mode="json") if hasattr(value, "model_dump") else str(value)


def text_of(name: str) -> str:
    """The text of one run's plan."""
    return "".join(f"{line}\n" for line in lines_of(plan_of(RUNS[name]())))


def file_of(name: str) -> Path:
    """Where it is kept."""
    return FOLDER / f"{name.replace(' ', '_')}.txt"


if __name__ == "__main__":
    FOLDER.mkdir(parents=True, exist_ok=True)
    for run in RUNS:
        file_of(run).write_text(text_of(run), encoding="utf-8")
