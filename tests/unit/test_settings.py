"""Tests of invalid configuration: each fault is one line with the key's path and the fix, before any work starts."""

from __future__ import annotations

from typing import Any

import pytest
from maieutic.config.settings import read_config
from maieutic.core.errors import UserError
from maieutic.core.names import check_file_names
from maieutic.core.secrets import model_list_headers
from maieutic.plan.inputs import entry_for_asking
from maieutic.plan.plan import Plan
from maieutic.run_plan import plan_of
from run_configs import check_config
from shipped import shipped

VLLM = {"engine": "vllm", "weights": {"repo": "org/name", "revision": "a" * 40}}
HOSTED = {"engine": "hosted", "model": "m", "base_url": "https://example.org/v1"}


def changed(path: str, value: Any) -> dict[str, Any]:
    """Return the shipped configuration with one key set, or removed if value is `-`, and without KMP-Bench."""
    config = shipped()
    config["run"]["tasks"] = ["mathtutorbench", "mrbench"]
    *parents, last = path.split("/")
    place = config
    for parent in parents:
        place = place[parent]
    if value == "-":
        del place[last]
    else:
        place[last] = value
    return config


def test_the_shipped_configuration_is_right_and_adds_the_baselines() -> None:
    config = check_config(shipped())
    assert Plan(config).tutors == [
        "smollm2-135m", "always-0", "always-ask", "always-yes", "blames-step-1", "copy-seed", "echo", "finds-nothing",
        "recites-criteria", "reference", "reveal",
    ]  # fmt: skip


OWN_PAIRS = {"title": "T", "licence": "MIT", "loader": "table", "file": "tests/cases/own_pairs.jsonl"}
BY_PEOPLE = {"judges": [], "human_labels": "tests/cases/own_people.csv", "reward_models": [], "labels": []}
BAD = [
    ("unknown key", "run/tutor", ["echo"], r"^run\.tutor: is not a known key\. Fix: did you mean 'tutors'\?"),
    ("endpoint of a hosted model", "models/m", {**HOSTED, "endpoint": "chta"}, r"^models\.m\.endpoint: .*'chat', 'completions' or 'responses', found 'chta'"),
    ("key that left, with another value than its default", "servers", {"pack": True}, r"^servers\.pack: this key left, found True\. Fix: remove the key"),
    ("address without a scheme", "models/m", {**HOSTED, "base_url": "127.0.0.1:8000"}, r"^models\.m\.base_url: expected an address that begins with http://.*Fix: write, for example, base_url: http://"),
    ("misspelt required key", "models/m", {"engine": "hosted", "model": "m", "baseurl": "http://x/v1"}, r"^models\.m\.baseurl: is not a known key\. Fix: did you mean 'base_url'\?"),
    ("unknown top key", "edtion", "demo", r"^edtion: is not a known key\. Fix: did you mean 'edition'\?"),
    ("missing key", "run/tutors", "-", r"^run\.tutors: expected at least one tutor, found none\. Fix: list tutors in a run file"),
    ("wrong type", "run/limit", "many", r"^run\.limit: input should be a valid integer.*found 'many'"),
    ("limit of zero", "run/limit", 0, r"^run\.limit: input should be greater than or equal to 1, found"),
    ("unknown model", "run/tutors", ["smollm"], r"^run\.tutors\[0\]: 'smollm' is not in the registries\. Fix: did you"),
    ("model twice", "run/tutors", ["echo", "echo"], r"^run\.tutors\[1\]: 'echo' is listed twice"),
    ("no value", "run/tutors", None, r"^run\.tutors: expected at least one tutor, found none\. Fix: .*config/config\.yaml.*tutors: \[\]"),
    ("unknown task", "run/tasks", ["mathtutorbench/mistake_locaton"], r"^run\.tasks\[0\].*did you mean 'mathtutorbench/mistake_location'"),
    ("unknown benchmark", "run/tasks", ["mathtutor"], r"^run\.tasks\[0\]: 'mathtutor' is not in resources/benchmarks"),
    ("path as task", "run/tasks", ["../../etc"], r"^run\.tasks\[0\]: '\.\./\.\./etc' is not in resources/benchmarks"),
    ("unknown protocol", "run/protocol", "papers", r"^run\.protocol: 'papers' is not in .*did you mean 'paper'"),
    ("unpinned model", "run/tutors", ["socraticlm-7b"], r"^models\.socraticlm-7b\.weights\.revision: .* no pinned commit\. Fix: run `maieutic pin --configfile"),
    ("unknown engine", "models/m", {"engine": "vlm"}, r"^models\.m: .*'vllm', 'hosted', 'baseline'"),
    ("braces in a file", "models/m", {"engine": "recorded", "file": "a{b}.jsonl"}, r"^models\.m\.file: .*found 'a\{b\}\.jsonl'"),
    ("replies in an unknown format", "models/m", {"engine": "recorded", "file": "a.xlsx"}, r"^models\.m\.file: .*found 'a\.xlsx'"),
    ("misspelt name of an engine", "models/m", {"engine": "hostd"}, r"^models\.m: expected engine to be one of 'vllm', .*, found 'hostd'\. Fix: did you mean 'hosted'\?$"),
    ("misspelt choice", "run/negative_weights", "violatd", r"^run\.negative_weights: .*found 'violatd'\. Fix: did you mean 'violated'\?$"),
    ("unknown model key", "models/m", {**VLLM, "gpu": 1}, r"^models\.m\.gpu: is not a known key"),
    ("argument that loads code", "models/m", {**VLLM, "engine_args": ["--trust-remote-code"]}, r"^models\.m: .*engine_args must not contain --trust-remote-code \(set trust_remote_code: true"),
    ("arguments and variables at once", "models/m", {**VLLM, "engine_args": ["--mi", "x"], "environment": {"LD_PRELOAD": "x"}}, r"^models\.m: .*engine_args must not contain --mi .*; environment must not contain LD_PRELOAD"),
    ("secret before other keys", "models/m", {"extra_body": {"api_key": "hunter2"}, **HOSTED}, r"^models\.m: .*extra_body\.api_key looks like a secret(?!.*hunter2)"),
    ("abbreviated argument", "models/m", {**VLLM, "runtime_args": ["--mi", "x.Y"]}, r"^models\.m: .*runtime_args must not contain --mi \(move it to reviewed_args"),
    ("argument spelt with underscores", "models/m", {**VLLM, "engine_args": ["--tool_parser_plugin=/x.py"]}, r"^models\.m: .*--tool_parser_plugin=/x\.py \(move it to reviewed_args"),
    ("plugin within JSON", "models/m", {**VLLM, "engine_args": ["--structured-outputs-config", '{"reasoning_parser_plugin": "x"}']}, r"^models\.m: .*reasoning_parser_plugin.*move it to reviewed_args"),
    ("class of an executor", "models/m", {**VLLM, "runtime_args": ["--distributed-executor-backend", "evil.Executor"]}, r"^models\.m: .*evil\.Executor \(move it to reviewed_args"),
    ("address of other servers", "models/m", {**VLLM, "engine_args": ["--data-parallel-address", "10.0.0.1"]}, r"^models\.m: .*--data-parallel-address \(move it to reviewed_args"),
    ("class within a dotted argument", "models/m", {**VLLM, "engine_args": ["--structured-outputs-config.reasoning_parser_plugin", "x"]}, r"^models\.m: .*reasoning_parser_plugin \(move it to reviewed_args"),
    ("cache with code", "models/m", {**VLLM, "environment": {"TRITON_CACHE_MANAGER": "x:Y", "VLLM_CACHE_ROOT": "/x"}}, r"^models\.m: .*must not contain TRITON_CACHE_MANAGER, VLLM_CACHE_ROOT: .*MAIEUTIC_INHERIT"),
    ("key variable without a secret's name", "models/m", {**HOSTED, "key_env": "MY_SERVICE"}, r"^models\.m\.key_env: .*the variable's name must mark a secret"),
    ("credentials of a cloud", "models/m", {**HOSTED, "key_env": "AWS_SECRET_ACCESS_KEY"}, r"^models\.m\.key_env: .*credentials of a cloud or a cluster"),
    ("budget of a judge", "run/budget", {"models": {"demo-judge": {"requests": 1}}}, r"^run\.budget\.models\.demo-judge: demo-judge is a judge, .*Fix: set run\.budget\.models\.smollm2-135m"),
    ("dtype of a CPU on a GPU", "models/m", {**VLLM, "dtype": "bfloat16-or-float32", "needs": {"gpus": 1}}, r"^models\.m: .*bfloat16-or-float32 requires a CPU \(needs\.gpus: 0\)"),
    ("key of a server", "models/m", {**VLLM, "runtime_args": ["--api-key", "x"]}, r"^models\.m: .*--api-key \(remove it: the server listens on a private socket and needs no key"),
    ("preloaded library", "models/m", {**VLLM, "environment": {"LD_PRELOAD": "/x.so"}}, r"^models\.m: .*environment must not contain LD_PRELOAD: set only engine settings"),
    ("Python's path", "models/m", {**VLLM, "environment": {"PYTHONPATH": "/x"}}, r"^models\.m: .*environment must not contain PYTHONPATH"),
    ("plugins of vLLM", "models/m", {**VLLM, "environment": {"VLLM_PLUGINS": "x"}}, r"^models\.m: .*environment must not contain VLLM_PLUGINS"),
    ("tools of OpenMP", "models/m", {**VLLM, "environment": {"OMP_TOOL_LIBRARIES": "x"}}, r"^models\.m: .*environment must not contain OMP_TOOL_LIBRARIES"),
    ("key in an address", "models/m", {**HOSTED, "base_url": "https://x.org/v1?api_key=hunter2hunter2"}, r"^models\.m\.base_url: .*expected an address without query(?!.*hunter2)"),
    ("key in a body", "models/m", {**HOSTED, "extra_body": {"a": [{"x-api-key": "hunter2hunter2"}]}}, r"^models\.m: .*extra_body\.a\.x-api-key looks like a secret(?!.*hunter2)"),
    ("messages in a body", "models/m", {**HOSTED, "extra_body": {"messages": []}}, r"^models\.m: .*extra_body\.messages would replace a field that the task sets: remove it"),
    ("several answers in a body", "models/m", {**HOSTED, "extra_body": {"n": 4, "a": 1}}, r"^models\.m: .*extra_body\.n would replace a field that the task sets"),
    ("stop sequence in a body", "models/m", {**HOSTED, "extra_body": {"stop": ["x"]}}, r"^models\.m: .*extra_body\.stop would replace"),
    ("headers in a body", "models/m", {**HOSTED, "extra_body": {"extra_headers": {"A": "b"}}}, r"^models\.m: .*extra_body\.extra_headers looks like a secret"),
    ("key in a label", "models/m", {**HOSTED, "label": "sk-Abcdefghijklmnop1234"}, r"^models\.m\.label: this looks like a secret key\. Fix: export the key as an environment variable(?!.*sk-Abc)"),
    ("key as a name", "models/sk-Abcdefghijklmnop1234", HOSTED, r"^models\.\[key\]: this looks like a secret key(?!.*sk-Abc)"),
    ("bearer in a notice", "models/m", {**HOSTED, "notice": "Bearer abcdefghijklmnop"}, r"^models\.m\.notice: this looks like a secret key"),
    ("key of a data set", "datasets/gsm8k/published/url", "https://x.org/a?token=hunter2", r"^datasets\.gsm8k\.published\.url: .*expected an address without a user, password or key"),
    ("password of a data set", "datasets/gsm8k/published/url", "https://u:hunter2@x.org/a", r"^datasets\.gsm8k\.published\.url: .*expected an address without a user, password or key(?!.*hunter2)"),
    ("name of a language", "run/language", "german", r"^run\.language: expected the two letters of a language in ISO 639-1, found 'german'\. Fix: write en"),
    ("file as an address", "datasets/gsm8k/published/url", "file:///etc/passwd", r"^datasets\.gsm8k\.published\.url: .*expected an address that begins with https"),
    ("port out of range", "models/m", {**HOSTED, "base_url": "http://x:99999/v1"}, r"^models\.m\.base_url: .*the address cannot be parsed: Port out of range"),
    ("NUL in an address", "models/m", {**HOSTED, "base_url": "http://a\0b/v1"}, r"^models\.m\.base_url: .*the address contains a control character"),
    ("port of zero", "models/m", {**HOSTED, "base_url": "http://x:0/v1"}, r"^models\.m\.base_url: .*a port from 1 to 65535"),
    ("negative seed", "run/seed", -1, r"^run\.seed: input should be greater than or equal to 0"),
    ("seed out of range", "run/seed", 2**32, r"^run\.seed: input should be less than 4294967296"),
    ("too many attempts", "models/m", {**HOSTED, "attempts": 10**9}, r"^models\.m\.attempts: input should be less than or equal to 1000"),
    ("infinite request timeout", "models/m", {**HOSTED, "request_timeout": float("inf")}, r"^models\.m\.request_timeout: input should be a finite number"),
    ("infinite start timeout", "models/m", {**VLLM, "start_timeout": float("inf")}, r"^models\.m\.start_timeout: input should be a finite number"),
    ("patience of NaN", "models/m", {**HOSTED, "patience": float("nan")}, r"^models\.m\.patience: input should be a finite number"),
    ("linger above a day", "servers", {"linger": 1e300}, r"^servers\.linger: input should be less than or equal to 86400"),
    ("braces in data_dir", "data_dir", "/data/{x}", r"^data_dir: .*a path must not contain braces, line breaks or control characters \('\{', '\}'\)"),
    ("braces in labels", "run/human_labels", "a{b}.csv", r"^run\.human_labels: .*a path must not contain braces"),
    ("line break in labels", "run/human_labels", "a\nb.csv", r"^run\.human_labels: .*control characters \('\\n'\)"),
    ("NUL in a path", "run/human_labels", "a\0b.csv", r"^run\.human_labels: .*control characters \('\\x00'\)"),
    ("path that is an option", "run/human_labels", "--help", r"^run\.human_labels: .*write \./--help"),
    ("budget of an unknown model", "run/budget", {"models": {"nobody": {"usd": 1}}}, r"^run\.budget\.models\.nobody: 'nobody' is not in"),
    ("budget of zero", "run/budget", {"usd": 0}, r"^run\.budget\.usd: input should be greater than 0"),
    ("unknown key of needs", "models/m", {**VLLM, "needs": {"gpu": 1}}, r"^models\.m\.needs\.gpu: is not a known key\. Fix: did you mean 'gpus'\?"),
    ("unknown key of weights", "models/m", {**VLLM, "weights": {"repo": "o/n", "revison": "c" * 40}}, r"^models\.m\.weights\.revison: .*did you mean 'revision'\?"),
    ("unknown key of packaged weights", "models/m", {**VLLM, "weights": {"package": "p", "fil": "f"}}, r"^models\.m\.weights\.(fil: .*did you mean 'file'|version: is missing|file: is missing)"),
    ("unknown key of training", "models/demo-reward-model/train/epoch", 2, r"^models\.demo-reward-model\.train\.epoch: .*did you mean 'epochs'\?"),
    ("unknown key of a filter", "run/difficulty", {"belw": 0.5}, r"^run\.difficulty\.belw: .*did you mean 'below'\?"),
    ("unknown key of a file", "datasets/gsm8k/published/sha265", "0", r"^datasets\.gsm8k\.published\.sha265: .*did you mean 'sha256'\?"),
    ("unknown key of the hub", "datasets/tutorbench/published/hub/revison", "0", r"^datasets\.tutorbench\.published\.hub\.revison: .*did you mean 'revision'\?"),
    ("two unknown keys", "run", {"tutor": [], "tasks": ["mrbench"], "tutors": ["echo"], "limits": 3}, r"^run\.tutor: is not a known key \(also run\.limits\)\. Fix: did you mean 'tutors'\? did you mean 'limit'\?"),
    ("unknown key without a similar one", "run/zzz", 1, r"^run\.zzz: is not a known key\. Fix: choose one of .*tutors"),
    ("misspelt engine", "models/m", {"engin": "vllm"}, r"^models\.m: key 'engine' is missing\. Fix: rename 'engin' to 'engine', and set engine to one of baseline, .*vllm"),
    ("no engine", "models/m", {"weights": {"path": "x"}}, r"^models\.m: key 'engine' is missing\. Fix: set engine to one of"),
    ("unquoted yes", "models/m", {**VLLM, "label": True}, r"^models\.m\.label: .*found 'True'\. Fix: put the value in quotes, since YAML reads an unquoted yes, on or true as true"),
    ("invalid revision", "models/m", {**VLLM, "weights": {"repo": "o/n", "revision": "my branch"}}, r"^models\.m\.weights\.revision: string should match pattern"),
    ("two sources", "models/m", {**VLLM, "weights": {"repo": "o/n", "path": "x"}}, r"^models\.m\.weights: .*either 'repo' with 'revision', or 'path'"),
    ("an adapter of a folder", "models/m", {"engine": "reward", "weights": {"path": "x"}, "adapter": "internlm2"}, r"adapter requires weights\.repo, so that its code comes from a pinned commit"),
    ("an adapter of trained weights", "models/m", {"engine": "reward", "train": {"base": "minilm", "mix": {}}, "adapter": "internlm2"}, r"adapter requires weights\.repo"),
    ("code without a commit", "models/m", {**VLLM, "weights": {"path": "x"}, "trust_remote_code": True}, r"requires a commit in weights\.revision, so that the code is pinned"),
    ("file as an endpoint", "models/m", {**HOSTED, "base_url": "file:///etc/passwd"}, r"^models\.m\.base_url: expected an address"),
    ("a workbook instead of a table", "labels/ours", {"title": "t", "licence": "l", "file": "my labels.xlsx", "rubric": "r"}, r"labels\.ours\.file: expected a file that ends in \.jsonl or \.csv, found 'my labels\.xlsx'\. Fix: run `maieutic table 'my labels\.xlsx' --out 'my labels\.jsonl'`"),
    ("key instead of its variable", "models/m", {**HOSTED, "key_env": "sk-hunter2"}, r"^models\.m\.key_env: string should match pattern(?!.*hunter2)"),
    ("unknown baseline", "models/always-0/tutor", "always-1", r"^models\.always-0\.tutor: 'always-1' is not in the list of baseline tutors"),
    ("data folder that does not exist", "data_dir", "/nowhere", r"^data_dir: /nowhere is not a folder"),
    ("unknown edition", "edition", "full", r"^edition: input should be 'demo' or 'published', found 'full'"),
    ("missing baseline", "models/echo", "-", r"baselines: 'echo' is not in the registry"),
    ("missing dataset", "datasets/gsm8k", "-", r"problem_solving\.yaml: dataset: 'gsm8k' is not in the registry"),
    ("reward model as tutor", "run/tutors", ["demo-reward-model"], r"^run\.tutors\[0\]: expected a tutor, found 'demo-reward-model' with engine reward"),
    ("tutor as reward model", "run/reward_models", ["echo"], r"^run\.reward_models\[0\]: expected a reward model, found 'echo' with engine baseline"),
    ("reward model as classifier", "run/classifiers", ["rm-mrbench"], r"^run\.classifiers\[0\]: expected a criteria classifier, found 'rm-mrbench'"),
    ("encoder twice", "run/encoders", ["minilm", "minilm"], r"^run\.encoders\[1\]: 'minilm' is listed twice\. Fix: list it once"),
    ("judge as encoder", "run/encoders", ["demo-judge"], r"^run\.encoders\[0\]: expected a weights-only entry, found 'demo-judge'"),
    ("encoder without pins", "run/encoders", ["unpinned"], r"^models\.unpinned\.weights"),
    ("comparison of a judge", "run/reward_comparisons", ["demo-judge"], r"^run\.reward_comparisons\[0\]: expected a reward model, found 'demo-judge'"),
    ("grader twice", "run/reward_comparisons", ["demo-reward-model"], r"^run\.reward_models\[0\]: 'demo-reward-model' is listed twice"),
    ("unpinned reward model", "models/demo-reward-model", {"engine": "reward", "weights": {"repo": "a/b"}}, r"^models\.demo-reward-model\.weights\.revision: .* has no pinned commit"),
    ("unpinned base", "models/demo-reward-model/train/base", "socraticlm-7b", r"^models\.socraticlm-7b\.weights\.revision: .* has no pinned commit"),
    ("hosted base", "models/demo-reward-model/train/base", "gpt-4o-mini", r"^models\.demo-reward-model\.train\.base: expected a base model with weights, found 'gpt-4o-mini' with engine hosted"),
    ("unknown source", "models/demo-reward-model/train/mix", {"mrbanch": 1}, r"'mrbanch' is not in the sources of pairs\. Fix: did you mean 'mrbench'"),
    ("training on test pairs", "models/demo-reward-model/train/mix", {"bridge": 1}, r"^models\.demo-reward-model: bridge contains the test pairs"),
    ("share of a source above one", "models/demo-reward-model/train/mix", {"mrbench": 1.5}, r"^models\.demo-reward-model\.train: .*expected mix\.mrbench to be above 0 and at most 1, found 1\.5"),
    ("odd batch", "models/demo-reward-model/train/micro_batch", 3, r"^models\.demo-reward-model\.train: .*micro_batch must divide batch_size"),
    ("unknown criterion", "models/demo-criteria/train/criteria", ["Clarity"], r"^models\.demo-criteria\.train\.criteria: 'Clarity' is not in the criteria of the human labels"),
    ("criterion twice", "models/demo-criteria/train/criteria", ["Coherence", "Coherence"], r"^models\.demo-criteria\.train: .*a criterion is listed twice"),
    ("grader as baseline", "models/echo", {"engine": "weights", "weights": {"path": "x"}}, r"baselines: expected a baseline tutor, found 'echo' with engine weights"),
    ("unpinned pairs", "datasets/mathdial_train/demo/sha256", None, r"^models\.demo-reward-model: demo-reward-model is trained on mathdial, which is not available: datasets\.mathdial_train\.demo: sha256 or records is null"),
    ("unpinned dataset", "datasets/gsm8k/published/sha256", None, r"^datasets\.gsm8k\.published: sha256 or records is null"),
    ("unknown judge", "run/judges", ["demo-judges"], r"^run\.judges\[0\]: 'demo-judges' is not in .*did you mean 'demo-judge'"),
    ("tutor as judge", "run/judges", ["echo"], r"^run\.judges\[0\]: expected a judge, found 'echo' with engine baseline"),
    ("judge twice", "run/judges", ["demo-judge", "demo-judge"], r"^run\.judges\[0\]: 'demo-judge' is listed twice"),
    ("unpinned judge", "models/demo-judge/model", "socraticlm-7b", r"^models\.socraticlm-7b\.weights\.revision: .* no pinned commit"),
    ("unknown labels", "run/labels", ["mrbench_v4"], r"^run\.labels\[0\]: 'mrbench_v4' is not in .*did you mean 'mrbench_v"),
    ("labels without a demo edition", "run/labels", ["mrbench_v3"], r"^datasets\.mrbench_v3\.demo: this dataset has no demo edition"),
    ("unknown rubric", "models/demo-judge/rubrics", ["mrbench_critics"], r"mrbench_critics\.yaml: the rubric does not exist"),
    ("rubric for no task of the run", "models/demo-judge/rubrics", ["pairs_simple"], r"^run\.judges\[0\]: demo-judge has no rubric for any task in run\.tasks\. Fix: add one of mrbench_critic"),
    ("rubric not for pairs", "models/demo-judge/pairs", ["mrbench_critic"], r"^models\.demo-judge\.pairs: mrbench_critic has kind labels"),
    ("judge with needs", "models/demo-judge/needs", {"gpus": 1}, r"^models\.demo-judge: .*needs: set this key in the entry of the judge's model instead"),
    ("baseline as a judge's model", "models/demo-judge/model", "echo", r"^models\.demo-judge\.model: expected a served or hosted model, found 'echo'"),
    ("unknown tagger", "run/taggers", ["demo-taggr"], r"^run\.taggers\[0\]: 'demo-taggr' is not in .*did you mean"),
    ("judge that cannot tag", "run/taggers", ["demo-judge"], r"^run\.taggers\[0\]: 'demo-judge' has no tagging rubrics"),
    ("tagger as judge", "run/judges", ["gpt-5-tagger"], r"^run\.judges\[0\]: 'gpt-5-tagger' is only a tagger"),
    ("rubric that does not tag", "models/demo-judge/tags", ["pairs_simple"], r"^models\.demo-judge: pairs_simple is about replies\. Fix: list rubrics about items and criteria"),
    ("tags as verdicts", "models/demo-judge/rubrics", ["tutorbench_bloom"], r"^models\.demo-judge: tutorbench_bloom is about"),
    ("filter with too few tutors", "run/difficulty", {"tutors": ["smollm2-135m"]}, r"^run\.difficulty\.at_least: expected at most 1 \(number of run\.difficulty\.tutors\), found 3"),
    ("filter without a rubric", "run/difficulty", {"tutors": ["smollm2-135m"], "at_least": 1}, r"^run\.difficulty: no selected task has judged items that define their own criteria"),
    ("filter by a tutor outside the run", "run/difficulty", {"tutors": ["gpt-5"], "at_least": 1}, r"^run\.difficulty\.tutors\[0\]: 'gpt-5' is not in run\.tutors"),
    ("unknown negative_weights", "run/negative_weights", "violation", r"^run\.negative_weights: input should be 'by_phrasing', 'violated' or 'satisfied'"),
    ("only tasks with pictures", "run/tasks", ["tutorbench/multimodal"], r"^models\.smollm2-135m\.images: every task in run\.tasks has pictures"),
    ("hub without a commit", "datasets/tutorbench/published/hub/revision", None, r"^datasets\.tutorbench\.published: ScaleAI/TutorBench has no pinned commit"),
    ("hub and CSV", "datasets/tutorbench/format", "csv", r"^datasets\.tutorbench: .*'hub' and embedded pictures require format: parquet"),
    ("file without an address", "run/tasks", ["tutorbench/copy_text"], r"^datasets\.tutorbench_copy\.published\.path: .* is neither in data_dir \(null\) nor .*copy_text\.yaml needs"),
    ("rubric twice", "models/demo-judge/rubrics", ["mrbench_taxonomy", "mrbench_taxonomy"], r"^models\.demo-judge: mrbench_taxonomy is listed twice\. Fix: list it once$"),
    ("tags without criteria", "run/taggers", ["gpt-5-tagger"], r"^run\.taggers: no selected task has judged items that define their own criteria\. Fix: add tutorbench to run\.tasks and its judge to run\.judges"),
    ("budget of a judge without a model", "run/budget", {"models": {"mrbench-word-lists": {"requests": 5}}}, r"^run\.budget\.models\.mrbench-word-lists: mrbench-word-lists is a judge without a model\. Fix: remove this key$"),
    ("pairs with the name of a source", "preferences/mathdial", OWN_PAIRS, r"^preferences\.mathdial: mathdial is the name of a source of training pairs\. Fix: choose another name$"),
    ("pairs in no file", "preferences/own", {**OWN_PAIRS, "file": "gone.jsonl"}, r"^preferences\.own\.file: gone\.jsonl does not exist\. Fix: correct the path, or remove the key$"),
    ("pairs of no data set", "preferences/own", {"title": "T", "licence": "MIT", "loader": "bridge", "datasets": ["b"]}, r"^preferences\.own\.datasets: 'b' is not in the registry\. Fix: choose one of "),
    ("unknown preferences", "run/preferences", ["x"], r"^run\.preferences\[0\]: 'x' is not in the sets of preferences\. Fix: choose one of bridge"),
    ("preferences twice", "run/preferences", ["bridge", "bridge"], r"^run\.preferences\[1\]: bridge is listed twice\. Fix: list it once$"),
    ("no preferences", "run/preferences", [], r"^run\.preferences: there are no pairs to validate reward models and classifiers on\. Fix: list at least one set"),
    ("missing data set of pairs", "datasets/mathdial_train", "-", r"^source of pairs mathdial: 'mathdial_train' is not in the registry"),
    ("labels by people without a judge", "run", {"tutors": ["echo"], "tasks": ["mrbench"], **BY_PEOPLE}, r"^run\.human_labels: human labels correct a judge's scores, but run\.judges is empty\. Fix: add a judge to run\.judges, or remove this key$"),
    ("labels by people without a judged task", "run", {"tutors": ["echo"], "tasks": ["mathtutorbench/problem_solving"], **BY_PEOPLE, "judges": ["demo-judge"]}, r"^run\.human_labels: no selected task is graded by a judge\. Fix: add mrbench to run\.tasks, or remove this key$"),
    ("reference without replies", "run", {"tutors": ["reference"], "tasks": ["tutorbench/text"]}, r"^models\.reference\.tutor: no task in run\.tasks has human replies\. Fix: remove reference from run\.tutors$"),
    ("password of an endpoint", "models/m", {**HOSTED, "base_url": "https://user:hunter2@example.org/v1"}, r"^models\.m\.base_url: expected an address(?!.*hunter2)"),
    ("share of unreadable replies above one", "run/max_unreadable", 5, r"^run\.max_unreadable: input should be less than or equal to 1"),
]  # fmt: skip


GOOD = {
    "keys that left, with their default": ("report", {"margin": 0.1}),
    "reasoning parser": ("models/m", {**VLLM, "engine_args": ["--reasoning-parser", "qwen3", "--chat-template", "/x/plugins/t.jinja"]}),
    "executor": ("models/m", {**VLLM, "runtime_args": ["--distributed-executor-backend", "mp", "--tool-call-parser=hermes"]}),
    "engine settings": ("models/m", {**VLLM, "environment": {"VLLM_ATTENTION_BACKEND": "FLASH_ATTN", "NCCL_DEBUG": "INFO", "OMP_NUM_THREADS": "2"}}),
    "reviewed arguments": ("models/m", {**VLLM, "reviewed_args": ["--middleware", "site.Metrics"]}),
    "key of a prompt's cache": ("models/m", {**HOSTED, "extra_body": {"prompt_cache_key": "maieutic"}}),
    "secret-like words of a schema": ("models/m", {**HOSTED, "extra_body": {"response_format": {"json_schema": {"properties": {"token": {}}}}}}),
    "Slovak names": ("models/m", {**HOSTED, "label": "data/sk-education-dialogues-2024 sk-tinyllama-instruct"}),
    "key of a cloud's model": ("models/m", {**HOSTED, "key_env": "AZURE_OPENAI_API_KEY"}),
    "a user's port": ("models/m", {**HOSTED, "base_url": "http://localhost:8000/v1"}),
}  # fmt: skip


@pytest.mark.parametrize("name", GOOD)
def test_valid_settings_are_accepted(name: str) -> None:
    check_config(changed(*GOOD[name]))


def test_a_password_that_is_a_word_refuses_no_configuration(monkeypatch: pytest.MonkeyPatch) -> None:
    from maieutic.core.secrets import KEY_LIKE_VALUE, environment_secrets

    assert list(
        environment_secrets({"DB_PASSWORD": "postgres", "A_KEY": "sk-canary-0f9e8d", "PATH": "/usr/bin/0123456789ab"})
    ) == ["sk-canary-0f9e8d"]
    assert not KEY_LIKE_VALUE.search("password") and KEY_LIKE_VALUE.search("0123456789abcdef")


def test_a_budget_limits_no_answers_of_a_model_that_is_only_a_base() -> None:
    config = shipped()
    config["models"]["base"] = {**config["models"]["smollm2-135m"], "omit": ["max_tokens"]}
    config["models"]["demo-reward-model"]["train"]["base"] = "base"
    config["run"]["budget"] = {"tokens": 5}
    assert "base" in plan_of(config).used_models
    config["run"]["tutors"] = ["base"]
    with pytest.raises(UserError, match=r"omit: \[max_tokens\] of base leaves the length of an answer open"):
        plan_of(config)


def test_a_budget_in_usd_needs_the_prices_of_a_reader_and_of_a_curations_models() -> None:
    config = shipped()
    config["models"]["maker"] = HOSTED
    reading = config | {"run": config["run"] | {"judges": [], "budget": {"usd": 1}, "reader": "maker"}}
    with pytest.raises(UserError, match=r"run\.budget\.usd: expected a price for maker, found none"):
        plan_of(reading)
    config["datasets"]["mine"] = config["datasets"]["gsm8k"]
    roles = {
        "generator": "maker", "solvers": ["maker", "maker"], "validators": ["maker", "maker"],
        "weak_solvers": ["maker", "maker"],
    }  # fmt: skip
    config["curations"] = {"c": {"seeds": {"mine": "word_problems"}, "roles": roles}}
    config["run"] |= {"judges": [], "budget": {"usd": 1}}
    with pytest.raises(UserError, match=r"run\.budget\.usd: expected a price for maker, found none"):
        plan_of(config)


@pytest.mark.parametrize(("path", "value", "expected"), [case[1:] for case in BAD], ids=[case[0] for case in BAD])
def test_a_fault_is_one_clear_line(path: str, value: Any, expected: str) -> None:
    config = changed(path, value)
    config["models"]["unpinned"] = {"engine": "weights", "weights": {"repo": "a/b"}}
    if path in {"data_dir", "datasets/gsm8k/published/sha256"} or "/hub/" in path or value == ["tutorbench/copy_text"]:
        config["edition"] = "published"
    if "/hub/" in path or value == {"tutors": ["gpt-5"], "at_least": 1}:
        config["run"]["tasks"] = ["tutorbench/text", "tutorbench/multimodal"]
    with pytest.raises(UserError, match=expected) as fault:
        plan_of(config)
    assert "\n" not in str(fault.value) and ". Fix: " in str(fault.value)


def lines_of(config: dict[str, Any]) -> list[str]:
    """Return the lines of a configuration's faults."""
    with pytest.raises(UserError) as fault:
        check_config(config)
    return fault.value.lines.split("\n")


@pytest.mark.parametrize(("written", "first"), [
    ({"run": {"tutor": ["echo"], "tasks": ["mathtutorbench"]}}, "run.tutor: is not a known key. Fix: did you mean 'tutors'?"),
    ({"runs": {"tutors": ["echo"]}}, "runs: is not a known key. Fix: did you mean 'run'?"),
    ({"runs": {"tutors": ["echo"]}, "run": None}, "runs: is not a known key. Fix: did you mean 'run'?"),
])  # fmt: skip
def test_a_misspelt_key_is_named_before_the_missing_tutors(written: dict[str, Any], first: str) -> None:
    config = {name: value for name, value in shipped().items() if name != "run"}
    with pytest.raises(UserError) as error:
        read_config({**config, **written})
    lines = error.value.lines.splitlines()
    assert lines[0].startswith(first) and lines[1].startswith("run.tutors: expected at least one tutor")
    assert len(lines) == 2


def test_all_faults_of_one_kind_are_reported_at_once() -> None:
    config = shipped()
    config["run"] |= {"limit": "many", "seed": "x", "protcol": "paper", "max_unreadable": 5}
    assert [line.split(": ")[0] for line in lines_of(config)] == [
        "run.limit", "run.seed", "run.max_unreadable", "run.protcol",
    ]  # fmt: skip
    config = shipped()
    config["run"] |= {"tutors": ["ech", "smollm"], "tasks": ["mrbnch"], "judges": ["me"], "reward_models": ["it"]}
    assert [line.split(": ")[0] for line in lines_of(config)] == [
        "run.tutors[0]", "run.tutors[1]", "run.tasks[0]", "run.reward_models[0]", "run.judges[0]",
    ]  # fmt: skip


def test_unknown_sources_of_pairs_are_reported_with_all_other_unknown_names() -> None:
    config = shipped("config")
    config["run"] |= {"tutors": ["nobody"], "pair_sources": ["brigde", "mathdial", "gsm9k_inpainted"]}
    with pytest.raises(UserError) as error:
        check_config(config)
    places = [fault.place for fault in error.value.all]
    assert places == ["run.tutors[0]", "run.pair_sources[0]", "run.pair_sources[2]"]


def test_all_missing_pins_are_reported_at_once_with_the_command() -> None:
    config = shipped()
    config |= {
        "edition": "published",
        "data_dir": None,
        "tunings": {"t": {"base": "qwen2.5-7b", "mix": {"mr_gsm8k": 1.0}}},
    }
    for name in ("llama-3.1-8b", "llama-3.1-70b", "qwen2.5-7b"):
        config["models"][name]["weights"]["revision"] = None
    config["datasets"]["mathdial_train"]["published"]["sha256"] = None
    keys = {
        "tutors": ["llama-3.1-8b"],
        "judges": ["llama-3.1-70b-judge"],
        "reward_models": ["rm-mathdial"],
        "strict": True,
    }
    config["run"] = {"tasks": ["kmpbench/ec", "mathtutorbench/problem_solving", "mrbench"], **keys}
    with pytest.raises(UserError) as fault:
        plan_of(config)
    lines = fault.value.lines.split("\n")
    assert [line.split(": ")[0] for line in lines] == [
        "datasets.kmp_skills.published", "models.rm-mathdial", "models.llama-3.1-8b.weights.revision",
        "models.llama-3.1-70b.weights.revision", "models.qwen2.5-7b.weights.revision", "datasets.mr_gsm8k.published",
    ] and all("Fix: run `maieutic pin" in line or "your own file" in line for line in lines)  # fmt: skip


@pytest.mark.parametrize(("address", "names"), [
    ("https://api.anthropic.com/v1", {"x-api-key", "anthropic-version"}),
    ("https://api.anthropic.com.evil.example/v1", {"Authorization"}),
    ("https://api.openai.com/v1", {"Authorization"}),
])  # fmt: skip
def test_a_key_is_sent_in_its_endpoints_header(address: str, names: set[str]) -> None:
    assert set(model_list_headers(address, "k")) == names and model_list_headers(address, None) == {}


@pytest.mark.parametrize("name", [
    "org/name", "..", ".", "", "a b", "$(id)", "-n", "a" * 65, "/etc/passwd", "a\nb", "a'b", 'a"b', "a;b", "é", ".hidden", "a\x00b", "con:1",
])  # fmt: skip
def test_a_name_that_is_unsafe_as_a_file_name_is_refused(name: str) -> None:
    config = shipped()
    config["models"][name] = VLLM
    with pytest.raises(UserError, match="expected a name of 1 to 64 characters ") as fault:
        check_config(config)
    assert "models." in str(fault.value) and "\n" not in str(fault.value)


def test_two_names_that_would_share_a_folder_are_refused() -> None:
    with pytest.raises(UserError, match=r"models\.Qwen: the files of this name would collide with those of 'qwen'"):
        check_file_names("models", ["qwen", "Qwen"])


def test_distinct_safe_names_are_accepted() -> None:
    names = ["a", "a-b", "a_b", "a.b", "a+b", "A1", "x" * 64, "1b"]
    check_file_names("models", names)
    with pytest.raises(UserError):
        check_file_names("models", [*names, "A-B"])


def test_display_keys_do_not_reach_the_job() -> None:
    """Changing the label, the paper's name, the price or the notice re-runs nothing."""
    config = check_config(
        changed(
            "models/m",
            {**HOSTED, "label": "L", "notice": "N", "paper": "Phi-4", "group": "G", "price": {"input": 1, "output": 1}},
        )
    )
    text = entry_for_asking(config.models["m"]).model_dump_json(exclude_defaults=True)
    assert all(f'"{key}"' not in text for key in ("label", "notice", "paper", "group", "price"))
    plain = entry_for_asking(check_config(changed("models/m", HOSTED)).models["m"])
    assert text == plain.model_dump_json(exclude_defaults=True)


@pytest.mark.parametrize("overlay", ["config", "sample", "curation"])
def test_shipped_run_files_stand_alone(overlay: str) -> None:
    raw = shipped(overlay)
    check_config(raw)
    plan_of(raw)
